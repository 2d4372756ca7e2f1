//! The one source of random bytes: from the system, or in a proof from what its thread was given. Keys are not made here.

use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes that nobody can guess; none where the system has none.
pub(crate) fn bytes<const N: usize>() -> Option<[u8; N]> {
    #[cfg(feature = "proof")]
    if let Some(bytes) = crate::proof::chance::bytes() {
        return Some(bytes);
    }
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}
