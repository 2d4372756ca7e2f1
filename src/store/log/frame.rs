//! A frame of the log: one batch of absolute puts and removes, or the seal of a clean stop.
//!
//! `len u32 | crc32c u32 | lsn u64 | previous lsn u64 | highest lsn known synced u64 | nonce of the segment u64 | kind u8
//! | ops`, big-endian. `len` counts the whole frame; the checksum covers `len` and everything behind itself. An op is
//! `tree u8 | 1 put, 0 remove | key length u8 | key`, and for a put `value length u32 | value`. The nonce never leaves
//! the server, so nobody can put into a message what would be taken for a frame.

use bytes::Bytes;

use crate::ids::Lsn;
use crate::limits::LOG_FRAME_BYTES_MAX;
use crate::store::engine::Op;
use crate::store::tree::Tree;

/// Bytes before the ops.
pub(super) const FRAME_HEAD_BYTES: usize = 41;
/// Where the nonce stands.
const NONCE_AT: usize = 32;

const KIND_OPS: u8 = 1;
const KIND_SEAL: u8 = 2;

/// What stands before the ops of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) lsn: Lsn,
    pub(super) previous: Lsn,
    /// The highest lsn that was known to be synced when this was written.
    pub(super) synced: Lsn,
    pub(super) nonce: u64,
}

/// A frame whose checksum and nonce are right.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    pub(super) head: Head,
    /// The whole frame as it stands in the segment.
    pub(super) bytes: &'a [u8],
    pub(super) seal: bool,
    ops: &'a [u8],
}

/// Builds a frame in a buffer that is used again.
///
/// Returns false, with nothing meaningful in the buffer, where it would be larger than allowed.
pub(super) fn build(buffer: &mut Vec<u8>, head: Head, ops: Option<&[Op]>) -> bool {
    begin(buffer, head, if ops.is_some() { KIND_OPS } else { KIND_SEAL });
    for op in ops.unwrap_or_default() {
        let fits = put_op(buffer, op);
        if !fits || buffer.len() > LOG_FRAME_BYTES_MAX {
            return false;
        }
    }
    finish(buffer)
}

/// The same, of operations as they stand in a frame.
pub(super) fn build_of_bytes(buffer: &mut Vec<u8>, head: Head, ops: &[u8]) -> bool {
    begin(buffer, head, KIND_OPS);
    buffer.extend_from_slice(ops);
    buffer.len() <= LOG_FRAME_BYTES_MAX && finish(buffer)
}

fn begin(buffer: &mut Vec<u8>, head: Head, kind: u8) {
    buffer.clear();
    buffer.extend_from_slice(&[0; 8]);
    for number in [head.lsn.value(), head.previous.value(), head.synced.value(), head.nonce] {
        buffer.extend_from_slice(&number.to_be_bytes());
    }
    buffer.push(kind);
}

/// Puts length and checksum where they belong.
fn finish(buffer: &mut [u8]) -> bool {
    let Ok(length) = u32::try_from(buffer.len()) else { return false };
    let check = checksum(length, buffer.get(8..).unwrap_or_default());
    if let Some((start, _)) = buffer.split_first_chunk_mut::<8>() {
        let [a, b, c, d] = length.to_be_bytes();
        let [e, f, g, h] = check.to_be_bytes();
        *start = [a, b, c, d, e, f, g, h];
    }
    true
}

fn put_op(buffer: &mut Vec<u8>, op: &Op) -> bool {
    let Ok(key_length) = u8::try_from(op.key.len()) else { return false };
    buffer.extend_from_slice(&[op.tree.number(), u8::from(op.value.is_some()), key_length]);
    buffer.extend_from_slice(&op.key);
    if let Some(value) = &op.value {
        let Ok(value_length) = u32::try_from(value.len()) else { return false };
        buffer.extend_from_slice(&value_length.to_be_bytes());
        buffer.extend_from_slice(value);
    }
    true
}

/// The checksum of a frame of this length: what stands behind the checksum's own place is given.
pub(super) fn checksum(length: u32, behind: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length.to_be_bytes()), behind)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// The frame that begins here, if one does whose nonce and checksum are right.
pub(super) fn parse(bytes: &[u8], nonce: u64) -> Option<Parsed<'_>> {
    if number(bytes, NONCE_AT)? != nonce.to_be_bytes() {
        return None;
    }
    let length = u32::from_be_bytes(number(bytes, 0)?);
    let size = usize::try_from(length).ok().filter(|size| (FRAME_HEAD_BYTES..=LOG_FRAME_BYTES_MAX).contains(size))?;
    let frame = bytes.get(..size)?;
    if checksum(length, frame.get(8..)?) != u32::from_be_bytes(number(frame, 4)?) {
        return None;
    }
    let lsn = |at| number(frame, at).map(u64::from_be_bytes).map(Lsn::new);
    let head = Head { lsn: lsn(8)?, previous: lsn(16)?, synced: lsn(24)?, nonce };
    let [kind] = number(frame, NONCE_AT + 8)?;
    let ops = frame.get(FRAME_HEAD_BYTES..)?;
    match kind {
        KIND_OPS => Some(Parsed { head, bytes: frame, seal: false, ops }),
        KIND_SEAL if ops.is_empty() => Some(Parsed { head, bytes: frame, seal: true, ops }),
        _ => None,
    }
}

/// The frames that stand one behind the other from the beginning on, up to where none begins.
pub(super) fn frames(bytes: &[u8], nonce: u64) -> impl Iterator<Item = Parsed<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let parsed = parse(rest, nonce)?;
        rest = rest.get(parsed.bytes.len()..).unwrap_or_default();
        Some(parsed)
    })
}

/// The lsn that the head of a frame bears, where it is one of this segment. Its checksum is not looked at.
pub(super) fn lsn_of(head: &[u8; FRAME_HEAD_BYTES], nonce: u64) -> Option<Lsn> {
    let of_segment = number(head, NONCE_AT)? == nonce.to_be_bytes();
    number(head, 8).map(u64::from_be_bytes).map(Lsn::new).filter(|_| of_segment)
}

/// The first offset from there on where a frame of this segment begins whose nonce and checksum are right.
pub(super) fn search(bytes: &[u8], from: usize, nonce: u64) -> Option<(usize, Parsed<'_>)> {
    let wanted = nonce.to_be_bytes();
    let mut at = from;
    loop {
        let behind = bytes.get(at.saturating_add(NONCE_AT)..)?;
        at = at.saturating_add(find(behind, &wanted)?);
        if let Some(parsed) = bytes.get(at..).and_then(|frame| parse(frame, nonce)) {
            return Some((at, parsed));
        }
        at = at.saturating_add(1);
    }
}

/// Where these bytes first stand. Long runs of zeros are the common case, and are passed over quickly.
fn find(bytes: &[u8], wanted: &[u8; 8]) -> Option<usize> {
    let first = wanted.first()?;
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        at = at.saturating_add(rest.iter().position(|byte| byte == first)?);
        if bytes.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        at = at.saturating_add(1);
    }
}

/// An operation as it stands in a frame.
pub(super) struct Raw<'a> {
    pub(super) tree: Tree,
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
    /// All its bytes.
    pub(super) bytes: &'a [u8],
}

/// The first operation, and what stands behind it; none where it is not what this version writes.
fn raw_op(bytes: &[u8]) -> Option<(Raw<'_>, &[u8])> {
    let ([tree, put, key_length], behind) = bytes.split_first_chunk::<3>()?;
    let tree = Tree::of_number(*tree)?;
    let (key, behind) = behind.split_at_checked(usize::from(*key_length))?;
    let (value, behind) = match put {
        0 => (None, behind),
        1 => {
            let (length, behind) = behind.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (value, behind) = behind.split_at_checked(length)?;
            (Some(value), behind)
        }
        _ => return None,
    };
    let own = bytes.get(..bytes.len().saturating_sub(behind.len()))?;
    Some((Raw { tree, key, value, bytes: own }, behind))
}

impl<'a> Parsed<'a> {
    /// The operations as they stand in the frame.
    pub(super) fn ops_bytes(&self) -> &'a [u8] {
        self.ops
    }

    /// The operations one by one, up to the first that is not what this version writes.
    pub(super) fn raw_ops(&self) -> impl Iterator<Item = Raw<'a>> + use<'a> {
        let mut rest = self.ops;
        std::iter::from_fn(move || {
            let (raw, behind) = raw_op(rest)?;
            rest = behind;
            Some(raw)
        })
    }

    /// Whether the operations are what this version writes.
    pub(super) fn is_understood(&self) -> bool {
        let mut rest = self.ops;
        while !rest.is_empty() {
            let Some((_, behind)) = raw_op(rest) else { return false };
            rest = behind;
        }
        true
    }

    /// The operations, copied out; none where they are not what this version writes.
    pub(super) fn ops(&self) -> Option<Vec<Op>> {
        let mut ops = Vec::new();
        let mut rest = self.ops;
        while !rest.is_empty() {
            let (Raw { tree, key, value, .. }, behind) = raw_op(rest)?;
            ops.push(Op { tree, key: Bytes::copy_from_slice(key), value: value.map(Bytes::copy_from_slice) });
            rest = behind;
        }
        Some(ops)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: Head =
        Head { lsn: Lsn::new(7), previous: Lsn::new(6), synced: Lsn::new(6), nonce: 0x0102_0304_0506_0708 };

    fn ops() -> Vec<Op> {
        let op = |tree, key: &'static [u8], value: Option<&'static [u8]>| Op {
            tree,
            key: Bytes::from_static(key),
            value: value.map(Bytes::from_static),
        };
        vec![op(Tree::Groups, b"k", Some(b"value")), op(Tree::Sends, b"", None)]
    }

    fn built(ops: Option<&[Op]>) -> Vec<u8> {
        let mut buffer = vec![9; 100];
        assert!(build(&mut buffer, HEAD, ops));
        buffer
    }

    #[test]
    fn a_frame_has_its_golden_bytes() {
        let hex: String = built(Some(&ops())).iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = "000000396fd7b85000000000000000070000000000000006000000000000000601020304050607080\
            10601016b0000000576616c75650d0000";
        assert_eq!(hex, golden);
    }

    #[test]
    fn what_is_built_is_parsed_and_a_seal_is_told_from_a_batch() {
        let frame = [built(Some(&ops())), vec![0; 50]].concat();
        let parsed = parse(&frame, HEAD.nonce).unwrap();
        assert_eq!(parsed.head, HEAD);
        assert!(!parsed.seal && parsed.ops().unwrap() == ops());
        let seal = built(None);
        assert!(parse(&seal, HEAD.nonce).unwrap().seal);
        assert!(parse(&seal, 1).is_none());
    }

    #[test]
    fn any_flipped_bit_makes_it_no_frame() {
        let frame = built(Some(&ops()));
        for index in 0..frame.len() {
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[index] ^= 1 << bit;
                assert!(parse(&flipped, HEAD.nonce).is_none());
            }
            assert!(parse(&frame[..index], HEAD.nonce).is_none());
        }
    }

    #[test]
    fn a_frame_is_found_at_any_offset() {
        for offset in 0..80 {
            let bytes = [vec![1; offset], built(Some(&ops())), vec![0; 9]].concat();
            assert_eq!(search(&bytes, 0, HEAD.nonce).unwrap().0, offset);
            assert!(search(&bytes, offset + 1, HEAD.nonce).is_none());
        }
    }

    #[test]
    fn a_batch_over_the_limit_and_a_key_over_255_bytes_are_not_built() {
        let op = |key: usize, value: usize| Op {
            tree: Tree::Meta,
            key: Bytes::from(vec![0; key]),
            value: Some(Bytes::from(vec![0; value])),
        };
        assert!(build(&mut Vec::new(), HEAD, Some(&[op(255, LOG_FRAME_BYTES_MAX - 400)])));
        assert!(!build(&mut Vec::new(), HEAD, Some(&[op(255, LOG_FRAME_BYTES_MAX)])));
        assert!(!build(&mut Vec::new(), HEAD, Some(&[op(256, 0)])));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn arbitrary_ops_with_a_right_checksum_are_an_error_or_ops(payload in proptest::collection::vec(0u8..20, 0..60)) {
            let parsed = Parsed { head: HEAD, bytes: &[], seal: false, ops: &payload };
            prop_assert_eq!(parsed.is_understood(), parsed.ops().is_some());
            if let Some(ops) = parsed.ops() {
                prop_assert_eq!(&built(Some(&ops))[FRAME_HEAD_BYTES..], &payload[..]);
            }
        }

        #[test]
        fn arbitrary_bytes_are_no_frame(bytes in proptest::collection::vec(any::<u8>(), 0..200), nonce in any::<u64>()) {
            prop_assert!(parse(&bytes, nonce).is_none() && search(&bytes, 0, nonce).is_none());
        }
    }
}
