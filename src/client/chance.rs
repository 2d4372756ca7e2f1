//! Where the client takes its randomness: from the system, or in a proof from what its thread was given.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::client::error::ProfileError;

/// Random bytes.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], ProfileError> {
    #[cfg(feature = "proof")]
    if let Some(bytes) = crate::proof::chance::bytes() {
        return Ok(bytes);
    }
    let mut bytes = [0; N];
    let none = |_| ProfileError::Disk("the system gives no randomness".to_owned());
    SystemRandom::new().fill(&mut bytes).map_err(none)?;
    Ok(bytes)
}

/// A random number.
pub(super) fn number() -> Result<u64, ProfileError> {
    bytes().map(u64::from_be_bytes)
}

/// A random part of something, from 0 to 1. A system without randomness gives the whole.
pub(super) fn fraction() -> f64 {
    bytes().map_or(1.0, |bytes| f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
}
