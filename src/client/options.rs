//! How a client behaves, with defaults that fit a person's machine.

use std::time::Duration;

use crate::limits::{IDLE_MS_MAX, KEEP_ALIVE_MS};

/// Times and sizes of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a connection attempt may take, name look-up and acceptance included.
    pub connect_timeout: Duration,
    /// How long a question may wait for a connection and then for its answer.
    pub request_timeout: Duration,
    /// A connection that is silent for so long is taken for dead.
    pub idle_timeout: Duration,
    /// A quiet connection is kept alive this often.
    pub keep_alive: Duration,
    /// The first pause before connecting again; it doubles, and a random part of it is waited.
    pub reconnect_pause: Duration,
    /// The longest pause before connecting again.
    pub reconnect_pause_max: Duration,
    /// A connection that held so long counts as good: the pause starts small again.
    pub stable_after: Duration,
    /// How often the process that sends for a profile looks for what other processes have queued, where none showed up for
    /// a while. Each look reads the length of a file; the first message of another process waits so long at the most.
    pub outbox_poll: Duration,
    /// What waits for a slow application: beyond it nothing is pulled and nothing acknowledged.
    pub events_max: usize,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Duration::from_millis(4_000),
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_millis(IDLE_MS_MAX),
            keep_alive: Duration::from_millis(KEEP_ALIVE_MS),
            reconnect_pause: Duration::from_millis(200),
            reconnect_pause_max: Duration::from_secs(20),
            stable_after: Duration::from_secs(30),
            outbox_poll: Duration::from_millis(50),
            events_max: 256,
        }
    }
}
