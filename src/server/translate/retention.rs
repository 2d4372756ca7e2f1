//! What a group keeps, as it stands in its row: a byte of bits that say which parts there are, and the parts, each eight
//! bytes, big-endian.

use bytes::Bytes;

use crate::core::retention::Retention;
use crate::server::translate::kept::KeptError;

/// As it is kept.
pub(super) fn bytes(policy: &Retention) -> Bytes {
    let parts = [policy.age_ms, policy.count, policy.bytes, policy.acked_ms];
    let mut bits = 0;
    let mut out = Vec::with_capacity(parts.len() * size_of::<u64>());
    for (bit, part) in parts.iter().enumerate() {
        if let Some(part) = part {
            bits |= 1_u8 << bit;
            out.extend_from_slice(&part.to_be_bytes());
        }
    }
    out.insert(0, bits);
    Bytes::from(out)
}

/// From what is kept.
pub(super) fn policy(bytes: &[u8]) -> Result<Retention, KeptError> {
    bytes.split_first().and_then(|(bits, rest)| parts(*bits, rest)).ok_or(KeptError::Unknown("retention"))
}

fn parts(bits: u8, bytes: &[u8]) -> Option<Retention> {
    let mut rest = bytes;
    let mut part = |bit: u8| -> Option<Option<u64>> {
        if bits & (1 << bit) == 0 {
            return Some(None);
        }
        let (part, behind) = rest.split_first_chunk::<8>()?;
        rest = behind;
        Some(Some(u64::from_be_bytes(*part)))
    };
    let policy = Retention { age_ms: part(0)?, count: part(1)?, bytes: part(2)?, acked_ms: part(3)? };
    (bits < 16 && rest.is_empty()).then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_its_golden_bytes_and_reads_back() {
        let golden = Retention { age_ms: Some(1), count: None, bytes: Some(2), acked_ms: None };
        assert_eq!(bytes(&golden).as_ref(), [5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        for kept in [Retention::ALL, golden, Retention { acked_ms: Some(u64::MAX), count: Some(0), ..golden }] {
            assert_eq!(policy(&bytes(&kept)).unwrap(), kept);
        }
        for odd in [&[][..], &[0, 0], &[16], &[1, 0, 0]] {
            assert!(policy(odd).is_err(), "{odd:?}");
        }
    }
}
