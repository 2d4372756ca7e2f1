//! Frames of sled's metadata: what a log or a snapshot holds, read as sled would, but without its panics.
//!
//! A frame is `length (6 bytes) | crc of it (2) | zstd of records | crc32 of all that (4)`, all little-endian; a record
//! is `object | collection | location | length of the low key | low key`, where location zero frees the object. sled
//! reads a log up to the first frame that does not hold, and calls that its end; it reserves whatever a length says.

use std::io::{self, Read};

/// Length and its crc.
const HEADER_BYTES: usize = 8;
const CRC_BYTES: usize = 4;
/// No flush of ours comes near; sled would reserve the memory before it looks at the rest, and abort where it can't.
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;
/// What sled mixes into each crc, so that nothing at all has none.
const CRC_MIX: u32 = 0xAF;

/// One record of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The leaf's number.
    pub(super) object: u64,
    /// The tree it belongs to.
    pub(super) collection: u64,
    /// Slab and slot; zero: the leaf is gone.
    pub(super) location: u64,
    /// The first key that may stand in it.
    pub(super) low_key: Vec<u8>,
}

/// How a file of frames ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With its last frame.
    Whole,
    /// With the beginning of one, as a kill or a power loss leaves it, and nothing behind that.
    Torn,
    /// With something that no interrupted write leaves.
    Damaged,
}

/// The payloads of the whole frames from the beginning on, and how the file ends.
pub(super) fn frames(bytes: &[u8]) -> (Vec<&[u8]>, End) {
    let mut payloads = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((payload, behind)) = frame(rest) else { return (payloads, end(rest)) };
        payloads.push(payload);
        rest = behind;
    }
    (payloads, End::Whole)
}

/// What a payload says.
pub(super) fn records(payload: &[u8]) -> io::Result<Vec<Record>> {
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(payload)?.read_to_end(&mut plain)?;
    let mut records = Vec::new();
    let mut rest = plain.as_slice();
    while !rest.is_empty() {
        let record = record(&mut rest).ok_or_else(|| io::Error::other("a record of its metadata is cut off"))?;
        records.push(record);
    }
    Ok(records)
}

/// The crc at the end of frames, slots and the cookie.
pub(super) fn crc(bytes: &[u8]) -> [u8; CRC_BYTES] {
    (crc32fast::hash(bytes) ^ CRC_MIX).to_le_bytes()
}

/// The next bytes, as a number.
pub(super) fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_le_bytes(*number))
}

/// The next bytes, whose length stands before them.
pub(super) fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (counted, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(counted)
}

fn record(rest: &mut &[u8]) -> Option<Record> {
    let (object, collection, location) = (number(rest)?, number(rest)?, number(rest)?);
    Some(Record { object, collection, location, low_key: counted(rest)?.to_vec() })
}

/// What the header that begins here says of the payload's length, if it is one.
fn length(bytes: &[u8]) -> Option<u64> {
    let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let (length, check) = header.split_first_chunk::<6>()?;
    let [low, high, ..] = crc32fast::hash(length).to_le_bytes();
    let number = u64::from_le_bytes(*header) & 0xFFFF_FFFF_FFFF;
    (check == [low, high]).then_some(number)
}

/// The payload of the frame that begins here, and what stands behind the frame.
fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(length(bytes)?).ok()?;
    let (checked, rest) = bytes.split_at_checked(length.checked_add(HEADER_BYTES)?)?;
    let (check, behind) = rest.split_first_chunk::<CRC_BYTES>()?;
    let payload = checked.get(HEADER_BYTES..)?;
    (crc(checked) == *check).then_some((payload, behind))
}

/// The frame of a payload, as sled writes it.
#[cfg(feature = "proof")]
pub(super) fn written(payload: &[u8]) -> Vec<u8> {
    let [a, b, c, d, e, f, ..] = (payload.len() as u64).to_le_bytes();
    let length = [a, b, c, d, e, f];
    let [low, high, ..] = crc32fast::hash(&length).to_le_bytes();
    let mut frame = [length.as_slice(), &[low, high], payload].concat();
    let check = crc(&frame);
    frame.extend_from_slice(&check);
    frame
}

/// How a file ends, of which this is left from the first frame on that does not hold.
fn end(rest: &[u8]) -> End {
    if length(rest).is_some_and(|length| length > PAYLOAD_BYTES_MAX) {
        return End::Damaged;
    }
    let mut behind = rest;
    while let Some((_, next)) = behind.split_first() {
        if frame(next).is_some() {
            return End::Damaged;
        }
        behind = next;
    }
    End::Torn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_anywhere_in_the_last_frame_is_torn_and_leaves_the_others() {
        let (first, last) = (written(b"first"), written(&[7; 300]));
        let whole = [first.clone(), last.clone()].concat();
        assert_eq!(frames(&whole), (vec![b"first".as_slice(), &[7; 300]], End::Whole));
        for cut in first.len() + 1..whole.len() {
            assert_eq!(frames(&whole[..cut]), (vec![b"first".as_slice()], End::Torn), "{cut}");
            let mut zeroed = whole.clone();
            zeroed[cut..].fill(0);
            let ends_so = zeroed == whole || frames(&zeroed).1 == End::Torn;
            assert!(ends_so, "{cut}");
        }
        assert_eq!(frames(&[]), (vec![], End::Whole));
    }

    #[test]
    fn any_flipped_bit_before_a_whole_frame_is_damage_and_in_the_last_one_is_torn() {
        let (first, last) = (written(b"first"), written(b"last"));
        for place in 0..first.len() + last.len() {
            for bit in 0..8 {
                let mut bytes = [first.clone(), last.clone()].concat();
                bytes[place] ^= 1 << bit;
                let expected = if place < first.len() { End::Damaged } else { End::Torn };
                assert_eq!(frames(&bytes).1, expected, "{place} {bit}");
            }
        }
    }

    #[test]
    fn a_length_that_nobody_could_have_written_is_damage() {
        let length = (PAYLOAD_BYTES_MAX + 1).to_le_bytes();
        let mut bytes = length[..6].to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&length[..6]).to_le_bytes()[..2]);
        assert_eq!(frames(&bytes).1, End::Damaged);
    }

    #[test]
    fn records_are_read_as_they_were_written_and_a_cut_one_is_an_error() {
        let record = Record { object: 3, collection: 2, location: 9, low_key: b"low".to_vec() };
        let mut plain = Vec::new();
        for number in [3_u64, 2, 9, 3] {
            plain.extend_from_slice(&number.to_le_bytes());
        }
        plain.extend_from_slice(b"low");
        let encode = |plain: &[u8]| zstd::stream::encode_all(plain, 3).unwrap();
        assert_eq!(records(&encode(&plain)).unwrap(), vec![record]);
        assert!(records(&encode(&plain[..plain.len() - 1])).is_err());
        assert!(records(b"no zstd").is_err());
    }
}
