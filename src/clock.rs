//! The one clock: everything that needs the time of day or a duration asks here, so that a simulator can drive it.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 by this machine's clock; zero where the clock stands before that.
#[must_use]
pub fn now_ms() -> u64 {
    #[cfg(feature = "proof")]
    if let Some(now) = crate::proof::time::now_ms() {
        return now;
    }
    #[allow(clippy::disallowed_methods, reason = "this is the one clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, whole_ms)
}

/// A point of a clock that never goes back.
#[must_use]
pub fn monotonic() -> Instant {
    #[cfg(feature = "proof")]
    if let Some(now) = crate::proof::time::monotonic() {
        return now;
    }
    of_machine()
}

/// What [`monotonic`] is where no simulator moves it.
#[allow(clippy::disallowed_methods, reason = "this is the one clock")]
pub(crate) fn of_machine() -> Instant {
    Instant::now()
}

/// Milliseconds since this was first asked, on the clock that never goes back.
#[must_use]
pub fn monotonic_ms() -> u64 {
    #[cfg(feature = "proof")]
    if let Some(now) = crate::proof::time::monotonic_ms() {
        return now;
    }
    static START: OnceLock<Instant> = OnceLock::new();
    whole_ms(START.get_or_init(of_machine).elapsed())
}

/// Whole milliseconds of a duration, at most [`u64::MAX`].
#[must_use]
pub fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
