//! The log on stderr.
//!
//! No body, secret, code or whole address goes into a log line; [`peer_prefix`] is the most that is said of an address.

use std::fmt;
use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tracing_subscriber::EnvFilter;

/// The environment variable that sets the level: `info`, or directives such as `gaggle=debug,warn`.
pub const LEVEL_VARIABLE: &str = "GAGGLE_LOG";

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
    fn levels_are_checked() {
        for level in [None, Some(""), Some(" debug "), Some("gaggle=trace,warn"), Some("off")] {
            assert!(filter(level).is_ok(), "{level:?}");
        }
        for level in ["gaggle=loud", "gaggle=debug=2"] {
            assert!(matches!(filter(Some(level)), Err(TelemetryError::Level { .. })), "{level}");
        }
    }
}
