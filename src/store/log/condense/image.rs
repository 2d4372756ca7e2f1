//! A segment in memory: its header, and frames behind it.

use super::frame::{self, Parsed, Raw};
use super::{SEGMENT_HEAD_BYTES, Segment};
use crate::ids::Lsn;

/// What [`Segment::read`] gives.
pub(super) struct Image(pub(super) Vec<u8>);

impl Image {
    fn frames(&self, segment: &Segment) -> impl Iterator<Item = Parsed<'_>> {
        frame::frames(self.0.get(SEGMENT_HEAD_BYTES..).unwrap_or_default(), segment.nonce)
    }

    /// The first frame and the last; none where there is no frame.
    pub(super) fn ends(&self, segment: &Segment) -> Option<(Lsn, Lsn)> {
        let mut lsns = self.frames(segment).map(|parsed| parsed.head.lsn);
        let first = lsns.next()?;
        Some((first, lsns.last().unwrap_or(first)))
    }

    /// Every operation, in order.
    pub(super) fn ops(&self, segment: &Segment) -> impl Iterator<Item = Raw<'_>> {
        self.frames(segment).flat_map(|parsed| parsed.raw_ops())
    }

    /// The same without these operations, nor frames that hold none; and how many operations there are in it.
    pub(super) fn without(&self, segment: &Segment, is_dead: &dyn Fn(usize) -> bool) -> (Vec<u8>, u32) {
        let mut image = self.0.get(..SEGMENT_HEAD_BYTES).unwrap_or_default().to_vec();
        let (mut index, mut kept, mut last) = (0, 0_u32, Lsn::ZERO);
        let (mut ops, mut built) = (Vec::new(), Vec::new());
        for parsed in self.frames(segment) {
            ops.clear();
            for raw in parsed.raw_ops() {
                if !is_dead(index) {
                    ops.extend_from_slice(raw.bytes);
                    kept = kept.saturating_add(1);
                }
                index += 1;
            }
            let head = frame::Head { previous: last, synced: last, ..parsed.head };
            if !ops.is_empty() && frame::build_of_bytes(&mut built, head, &ops) {
                image.extend_from_slice(&built);
                last = parsed.head.lsn;
            }
        }
        (image, kept)
    }
}
