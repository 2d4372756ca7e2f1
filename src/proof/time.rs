//! A clock that stands still until it is moved, for one thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a thread's clock shows.
#[derive(Debug, Clone, Copy)]
struct Shown {
    start: Instant,
    elapsed_ms: u64,
    now_ms: u64,
}

thread_local! {
    static SHOWN: Cell<Option<Shown>> = const { Cell::new(None) };
}

/// From here on this thread's clock shows that so much time has passed, and this time of day in ms since 1970. The former
/// must not be less than it was; the latter may jump.
pub fn set(elapsed_ms: u64, now_ms: u64) {
    let start = SHOWN.get().map_or_else(crate::clock::of_machine, |shown| shown.start);
    SHOWN.set(Some(Shown { start, elapsed_ms, now_ms }));
}

/// This thread's clock is the machine's again.
pub fn release() {
    SHOWN.set(None);
}

/// The time of day; none where the clock is the machine's.
pub(crate) fn now_ms() -> Option<u64> {
    SHOWN.get().map(|shown| shown.now_ms)
}

/// The clock that never goes back; none where it is the machine's.
pub(crate) fn monotonic() -> Option<Instant> {
    SHOWN.get().map(|shown| shown.start + Duration::from_millis(shown.elapsed_ms))
}

/// Milliseconds on the clock that never goes back; none where it is the machine's.
pub(crate) fn monotonic_ms() -> Option<u64> {
    SHOWN.get().map(|shown| shown.elapsed_ms)
}

/// What a point of this thread's clock that never goes back is in ms of it; a later ms, where it lies between two.
#[must_use]
pub fn ms_at(at: Instant) -> u64 {
    let since = SHOWN.get().map_or(Duration::ZERO, |shown| at.saturating_duration_since(shown.start));
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
