//! How long to wait before connecting again: a random part of a pause that doubles, so that thousands of clients whose
//! server restarts don't come back at once.

use std::time::Duration;

use crate::client::options::ClientOptions;

/// Doublings that are counted; the longest pause is reached long before.
const DOUBLINGS_MAX: u32 = 16;

/// The pauses of one client.
#[derive(Debug, Clone, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure. `fraction` is random, from 0 to 1; `at_least_ms` is what the server asked for.
    pub(super) fn failed(&mut self, options: &ClientOptions, fraction: f64, at_least_ms: u32) -> Duration {
        let doubled = options.reconnect_pause.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        let pause = doubled.min(options.reconnect_pause_max).mul_f64(fraction.clamp(0.0, 1.0));
        // What the server asks for is spread too, upwards.
        let asked = Duration::from_millis(u64::from(at_least_ms));
        if asked.is_zero() { pause } else { asked + pause.min(asked) }
    }

    /// A connection ended after it had held for so long.
    pub(super) fn held(&mut self, options: &ClientOptions, how_long: Duration) {
        if how_long >= options.stable_after {
            self.failures = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread_over_all_of_it() {
        let options = ClientOptions::default();
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..10).map(|_| backoff.failed(&options, 1.0, 0)).collect();
        assert_eq!(pauses[0], options.reconnect_pause);
        assert_eq!(pauses[1], options.reconnect_pause * 2);
        assert_eq!(pauses[9], options.reconnect_pause_max);
        assert_eq!(backoff.failed(&options, 0.0, 0), Duration::ZERO);
    }

    #[test]
    fn only_a_connection_that_held_makes_the_pause_short_again() {
        let options = ClientOptions::default();
        let mut backoff = Backoff::default();
        backoff.failed(&options, 1.0, 0);
        backoff.held(&options, Duration::from_millis(10));
        assert_eq!(backoff.failed(&options, 1.0, 0), options.reconnect_pause * 2);
        backoff.held(&options, options.stable_after);
        assert_eq!(backoff.failed(&options, 1.0, 0), options.reconnect_pause);
    }

    #[test]
    fn what_the_server_asks_for_is_waited() {
        let options = ClientOptions::default();
        let pause = Backoff::default().failed(&options, 0.5, 5_000);
        assert!(pause >= Duration::from_secs(5) && pause <= Duration::from_secs(10));
    }
}
