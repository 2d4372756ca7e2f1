//! What of chance the client needs: bytes, numbers, parts of a pause.

use crate::chance;
use crate::client::error::ProfileError;

/// Random bytes.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], ProfileError> {
    chance::bytes().ok_or_else(|| ProfileError::Disk("the system gives no randomness".to_owned()))
}

/// A random number.
pub(super) fn number() -> Result<u64, ProfileError> {
    bytes().map(u64::from_be_bytes)
}

/// A random part of something, from 0 to 1. A system without randomness gives the whole.
pub(super) fn fraction() -> f64 {
    bytes().map_or(1.0, |bytes| f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
}
