//! Chance that a seed decides, for one thread: names of stores, nonces of segments, codes of invites, pauses of clients.
//! Keys are not made here.

use std::cell::RefCell;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Chance that follows from a seed alone.
#[derive(Debug)]
pub struct Source(StdRng);

thread_local! {
    static SEEDED: RefCell<Option<Source>> = const { RefCell::new(None) };
}

impl Source {
    /// The one of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Source {
        Source(StdRng::seed_from_u64(seed))
    }
}

/// From here on this thread's chance comes from this source, or is the machine's again. Answers the source that it had,
/// without what was taken from it.
pub fn swap(source: Option<Source>) -> Option<Source> {
    SEEDED.replace(source)
}

/// The next bytes; none where chance is the machine's.
pub(crate) fn bytes<const N: usize>() -> Option<[u8; N]> {
    SEEDED.with_borrow_mut(|seeded| {
        let mut bytes = [0; N];
        seeded.as_mut()?.0.fill_bytes(&mut bytes);
        Some(bytes)
    })
}
