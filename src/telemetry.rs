//! What the server tells about itself: the log on stderr, the names used in it, and plain counters.
//!
//! No body, secret, code or whole address goes into a log line; [`peer_prefix`] is the most that is said of an address.
//! Counters only count: nothing is decided by them.

use std::fmt;
use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing_subscriber::EnvFilter;

use crate::clock;

/// The environment variable that sets the level: `info`, or directives such as `gaggle=debug,warn`.
pub const LEVEL_VARIABLE: &str = "GAGGLE_LOG";

/// Names of spans.
pub mod span {
    /// One connection, from its first packet to its end.
    pub const CONNECTION: &str = "connection";
    /// The thread that decides and writes.
    pub const WRITER: &str = "writer";
    /// The thread that moves what is durable into the index.
    pub const APPLIER: &str = "applier";
}

/// Names of fields: the same thing has the same name in every line.
pub mod field {
    /// A number of the connection, counted from the start of the process.
    pub const CONNECTION: &str = "conn";
    /// The peer's network, never its address.
    pub const PEER: &str = "peer";
    /// A user, `u3`.
    pub const USER: &str = "user";
    /// A device, `d9`.
    pub const DEVICE: &str = "device";
    /// A group, `g7`.
    pub const GROUP: &str = "group";
    /// An item's msgid, `m42`.
    pub const MSGID: &str = "msgid";
    /// A place in the commit log, `l12`.
    pub const LSN: &str = "lsn";
    /// A code of the protocol by its name, such as `device-revoked`.
    pub const CODE: &str = "code";
    /// An error in words.
    pub const ERROR: &str = "error";
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The level is none.
    #[error(
        "{LEVEL_VARIABLE} is {value:?}, which is not a level (error, warn, info, debug, trace) or list of directives"
    )]
    Level {
        /// What it is.
        value: String,
    },
    /// Something else in this process logs already.
    #[error("a log subscriber is set up already")]
    Taken,
}

/// Sends log lines to stderr. `level`: what [`LEVEL_VARIABLE`] holds; none means `info`.
///
/// # Errors
/// Where the level is not one, or this process has a subscriber already.
pub fn init(format: LogFormat, level: Option<&str>) -> Result<(), TelemetryError> {
    let filter = filter(level)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(format == LogFormat::Human && std::io::stderr().is_terminal())
        .with_target(format == LogFormat::Json);
    match format {
        LogFormat::Human => builder.compact().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|_| TelemetryError::Taken)
}

fn filter(level: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    let level = level.map(str::trim).filter(|level| !level.is_empty()).unwrap_or("info");
    EnvFilter::try_new(level).map_err(|_| TelemetryError::Level { value: level.chars().take(80).collect() })
}

/// As much of an address as may be logged: its /24, or its /48, so that a flood can be traced and a person cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerPrefix(IpAddr);

/// The network of this address. An IPv4 address that came in on a dual-stack socket counts as IPv4.
#[must_use]
pub fn peer_prefix(address: SocketAddr) -> PeerPrefix {
    PeerPrefix(match address.ip().to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & (u32::MAX << 8))),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 80))),
    })
}

impl fmt::Display for PeerPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => write!(out, "{ip}/24"),
            IpAddr::V6(ip) => write!(out, "{ip}/48"),
        }
    }
}

/// Lets one line through in a while, so that a flood of events is not a flood of lines.
#[derive(Debug)]
pub struct Seldom {
    gap: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}

impl Seldom {
    /// One line in `gap` at most.
    #[must_use]
    pub const fn new(gap: Duration) -> Seldom {
        Seldom { gap, state: Mutex::new((None, 0)) }
    }

    /// Whether to write a line now; if so, how many were kept back since the last one.
    pub fn now(&self) -> Option<u64> {
        self.at(clock::monotonic())
    }

    fn at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, kept_back) = *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.gap) {
            *state = (last, kept_back.saturating_add(1));
            return None;
        }
        *state = (Some(now), 0);
        Some(kept_back)
    }
}

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a server counts from its start; one for each server of a process.
        #[derive(Debug, Default)]
        pub struct Metrics { $($(#[$doc])* pub $name: Counter,)* }

        impl Metrics {
            /// Every name with its count now, in the order of the declaration.
            #[must_use]
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.count()),)*]
            }
        }
    };
}

metrics! {
    /// Connections let in.
    connections,
    /// Connection attempts turned away or asked for a retry token.
    connections_refused,
    /// Connections closed because the peer broke the protocol.
    connections_malformed,
    /// Proofs that did not fit.
    proofs_refused,
    /// Sends stored.
    sends,
    /// Sends refused, for whatever reason.
    sends_refused,
    /// Items written to push streams.
    items_pushed,
    /// Items written in pages.
    items_pulled,
    /// Heads noted in place of items.
    heads_noted,
    /// Acks that moved a cursor.
    acks,
    /// Commands not taken because the writer's queue was full.
    writer_full,
    /// Batches made durable.
    batches,
    /// Bytes appended to the commit log.
    log_bytes,
    /// Appends or syncs that failed.
    log_failures,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> String {
        peer_prefix(address.parse().unwrap()).to_string()
    }

    #[test]
    fn no_more_than_the_network_of_a_peer_is_shown() {
        assert_eq!(prefix("192.0.2.77:4433"), "192.0.2.0/24");
        assert_eq!(prefix("[2001:db8:1:2:3:4:5:6]:4433"), "2001:db8:1::/48");
        assert_eq!(prefix("[::ffff:192.0.2.77]:4433"), "192.0.2.0/24");
        let debug = format!("{:?}", peer_prefix("192.0.2.77:4433".parse().unwrap()));
        assert!(!debug.contains("77"), "{debug}");
    }

    #[test]
    fn a_flood_of_events_is_one_line_that_says_how_many_it_stands_for() {
        let seldom = Seldom::new(Duration::from_secs(10));
        let start = clock::monotonic();
        assert_eq!(seldom.at(start), Some(0));
        for second in 1..10 {
            assert_eq!(seldom.at(start + Duration::from_secs(second)), None);
        }
        assert_eq!(seldom.at(start + Duration::from_secs(10)), Some(9));
        assert_eq!(seldom.at(start + Duration::from_secs(20)), Some(0));
    }

    #[test]
    fn levels_are_checked() {
        for level in [None, Some(""), Some(" debug "), Some("gaggle=trace,warn"), Some("off")] {
            assert!(filter(level).is_ok(), "{level:?}");
        }
        for level in ["gaggle=loud", "gaggle=debug=2"] {
            assert!(matches!(filter(Some(level)), Err(TelemetryError::Level { .. })), "{level}");
        }
    }

    #[test]
    fn a_snapshot_names_every_counter() {
        let metrics = Metrics::default();
        metrics.sends.add(3);
        metrics.sends.one();
        let snapshot = metrics.snapshot();
        assert!(snapshot.contains(&("sends", 4)));
        assert!(snapshot.contains(&("log_failures", 0)));
    }
}
