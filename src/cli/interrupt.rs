//! The wish to end: Ctrl-C or SIGTERM.
//!
//! It only waits; what ending means is the business of each command.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock;

/// Signals that come this close together are one wish: `timeout` and process supervisors signal a process and its group.
const ONE_WISH: Duration = Duration::from_millis(300);

/// Both signals, from now on: none is missed between two waits. Where they cannot be caught they end the process by
/// themselves.
#[derive(Debug)]
pub struct Interrupts {
    last: Option<Instant>,
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Interrupts {
    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Interrupts {
        let (interrupt, terminate) = (signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok());
        Interrupts { last: None, interrupt, terminate }
    }

    /// Waits for the next wish to end.
    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                () = one(self.interrupt.as_mut()) => {}
                () = one(self.terminate.as_mut()) => {}
            }
            let now = clock::monotonic();
            let last = self.last.replace(now);
            if last.is_none_or(|last| now.saturating_duration_since(last) >= ONE_WISH) {
                return;
            }
        }
    }
}

/// Waits until the person, or the system, wants this process to end.
pub async fn asked() {
    Interrupts::watch().next().await;
}

async fn one(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => signal.recv().await.unwrap_or(()),
        None => std::future::pending().await,
    }
}
