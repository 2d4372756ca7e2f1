//! How the frames of a condensed segment are packed: `crc32c u32 | length u32 | zstd`, where the checksum covers all
//! behind itself and the length is that of what is compressed: frame after frame `lsn | length | ops`, the numbers as
//! LEB128, the lsn as what it lies above the frame before (of the first: above zero).
//!
//! A frame's own head says nothing that would not follow from that: whoever unpacks gets whole frames again, each after
//! the one that stands before it, with checksums of their own.

use crate::ids::Lsn;
use crate::store::log::frame;
use crate::store::records::{Field, Input};

/// What may be unpacked at the most. A segment holds one frame of the largest size, or is [`crate::limits::SEGMENT_BYTES`] large.
const UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;
const _: () = assert!(crate::limits::SEGMENT_BYTES * 2 <= UNPACKED_BYTES_MAX as u64);
const _: () = assert!(crate::limits::LOG_FRAME_BYTES_MAX * 2 <= UNPACKED_BYTES_MAX);

/// How hard is compressed: once for years of reading, beside everything else.
const LEVEL: i32 = 9;

/// Packs the frames that stand here one behind the other, up to where none begins.
pub(super) fn pack(frames: &[u8], nonce: u64) -> Result<Vec<u8>, String> {
    let mut plain = Vec::with_capacity(frames.len());
    let mut last = Lsn::ZERO;
    for parsed in frame::frames(frames, nonce) {
        (parsed.head.lsn.value().saturating_sub(last.value())).put(&mut plain);
        u64::try_from(parsed.ops_bytes().len()).unwrap_or(u64::MAX).put(&mut plain);
        plain.extend_from_slice(parsed.ops_bytes());
        last = parsed.head.lsn;
    }
    let length = u32::try_from(plain.len()).ok().filter(|_| plain.len() <= UNPACKED_BYTES_MAX);
    let length = length.ok_or_else(|| format!("{} bytes are too many to condense", plain.len()))?;
    let packed = zstd::bulk::compress(&plain, LEVEL).map_err(|error| format!("it can't be compressed: {error}"))?;
    let mut whole = vec![0; 4];
    whole.extend_from_slice(&length.to_be_bytes());
    whole.extend_from_slice(&packed);
    let check = crc32c::crc32c(whole.get(4..).unwrap_or_default());
    whole.splice(..4, check.to_be_bytes());
    Ok(whole)
}

/// The frames again, one behind the other.
pub(super) fn unpack(packed: &[u8], nonce: u64) -> Result<Vec<u8>, &'static str> {
    let plain = plain(packed)?;
    let mut frames = Vec::with_capacity(plain.len());
    let (mut rest, mut last, mut built) = (plain.as_slice(), Lsn::ZERO, Vec::new());
    while !rest.is_empty() {
        let (above, length, behind) = frame_head(rest).ok_or("what is packed in it is no frame")?;
        let (ops, behind) = behind.split_at_checked(length).ok_or("a frame packed in it has no end")?;
        let lsn = last.value().checked_add(above).map(Lsn::new).ok_or("a frame packed in it has no lsn")?;
        let head = frame::Head { lsn, previous: last, synced: last, nonce };
        if !frame::build_of_bytes(&mut built, head, ops) {
            return Err("a frame packed in it is too large");
        }
        frames.extend_from_slice(&built);
        (rest, last) = (behind, lsn);
    }
    Ok(frames)
}

fn plain(packed: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (check, behind) = packed.split_first_chunk::<4>().ok_or("it ends before what is packed in it")?;
    if crc32c::crc32c(behind).to_be_bytes() != *check {
        return Err("the checksum of what is packed in it does not match");
    }
    let (length, behind) = behind.split_first_chunk::<4>().ok_or("it ends before what is packed in it")?;
    // Memory is taken for what is said only where it was written so.
    let length = usize::try_from(u32::from_be_bytes(*length)).ok().filter(|length| *length <= UNPACKED_BYTES_MAX);
    let length = length.ok_or("it says that more is packed in it than can be")?;
    let plain = zstd::bulk::decompress(behind, length).map_err(|_| "what is packed in it can't be unpacked")?;
    if plain.len() == length { Ok(plain) } else { Err("what is packed in it has another length than it says") }
}

fn frame_head(bytes: &[u8]) -> Option<(u64, usize, &[u8])> {
    let mut input = Input(bytes);
    let above = u64::take(&mut input).ok()?;
    let length = u64::take(&mut input).ok()?;
    Some((above, usize::try_from(length).ok()?, input.0))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::store::engine::Op;
    use crate::store::tree::Tree;

    const NONCE: u64 = 0x0102_0304_0506_0708;

    fn frames(values: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let (mut all, mut one, mut last) = (Vec::new(), Vec::new(), Lsn::ZERO);
        for (above, value) in values {
            let lsn = Lsn::new(last.value() + above);
            let op = Op { tree: Tree::Meta, key: Bytes::from_static(b"k"), value: Some(value.clone().into()) };
            let head = frame::Head { lsn, previous: last, synced: last, nonce: NONCE };
            assert!(frame::build(&mut one, head, Some(&[op])));
            all.extend_from_slice(&one);
            last = lsn;
        }
        all
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let packed = pack(&frames(&[(1, vec![7; 40]), (300, vec![8; 3])]), NONCE).unwrap();
        assert!(unpack(&packed, NONCE).is_ok());
        for index in 0..packed.len() {
            assert!(unpack(&packed[..index], NONCE).is_err());
            for bit in 0..8 {
                let mut flipped = packed.clone();
                flipped[index] ^= 1 << bit;
                assert!(unpack(&flipped, NONCE).is_err());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn frames_are_the_same_when_they_were_packed(
            values in proptest::collection::vec((1_u64..5_000_000_000, proptest::collection::vec(any::<u8>(), 0..50)), 0..20),
        ) {
            let frames = frames(&values);
            prop_assert_eq!(unpack(&pack(&frames, NONCE).unwrap(), NONCE).unwrap(), frames);
        }

        #[test]
        fn arbitrary_bytes_with_a_right_checksum_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut plain = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
            plain.extend_from_slice(&zstd::bulk::compress(&bytes, 1).unwrap());
            let packed = [crc32c::crc32c(&plain).to_be_bytes().to_vec(), plain].concat();
            if let Ok(frames) = unpack(&packed, NONCE) {
                let again = pack(&frames, NONCE).unwrap();
                prop_assert_eq!(unpack(&again, NONCE).unwrap(), frames);
            }
        }
    }
}
