//! Chance that a seed decides, for one thread: names of stores, nonces of segments, codes of invites. Keys are not made
//! here.

use std::cell::RefCell;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

thread_local! {
    static SEEDED: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// From here on this thread's chance follows from the seed.
pub fn set(seed: u64) {
    SEEDED.with_borrow_mut(|seeded| *seeded = Some(StdRng::seed_from_u64(seed)));
}

/// This thread's chance is the machine's again.
pub fn release() {
    SEEDED.with_borrow_mut(|seeded| *seeded = None);
}

/// The next bytes; none where chance is the machine's.
pub(crate) fn bytes<const N: usize>() -> Option<[u8; N]> {
    SEEDED.with_borrow_mut(|seeded| {
        let mut bytes = [0; N];
        seeded.as_mut()?.fill_bytes(&mut bytes);
        Some(bytes)
    })
}
