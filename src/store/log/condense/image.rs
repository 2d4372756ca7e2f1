//! A segment in memory: its header, and frames behind it. What is written anew holds only what is understood here, so
//! all of it is checked first: what was damaged would be gone for ever else.

use super::frame::{self, Parsed, Raw};
use super::{SEGMENT_HEAD_BYTES, Segment};
use crate::ids::Lsn;
use crate::store::error::StoreError;
use crate::store::log::segment::Condensed;
use crate::store::log::survey::{damaged, does_not_follow, does_not_follow_in, not_understood, out_of_place};

/// What [`Segment::read`] gives.
pub(super) struct Image(pub(super) Vec<u8>);

impl Image {
    fn frames(&self, segment: &Segment) -> impl Iterator<Item = Parsed<'_>> {
        frame::frames(self.0.get(SEGMENT_HEAD_BYTES..).unwrap_or_default(), segment.nonce)
    }

    /// The first frame and the last of a segment that was sealed, behind this frame: nothing in it is left out by
    /// whoever reads its frames.
    pub(super) fn ends_behind(&self, segment: &Segment, before: Lsn) -> Result<(Lsn, Lsn), StoreError> {
        let (mut offset, mut last) = (SEGMENT_HEAD_BYTES, before);
        for parsed in self.frames(segment) {
            if does_not_follow(&parsed, last) {
                return Err(out_of_place(segment, offset, parsed.head.lsn, last));
            }
            check_understood(segment, &parsed)?;
            offset = offset.saturating_add(parsed.bytes.len());
            last = parsed.head.lsn;
        }
        if self.0.iter().skip(offset).any(|byte| *byte != 0) {
            return Err(damaged(&segment.path, format!("what stands at byte {offset} is no frame that can be read")));
        }
        if last == before {
            return Err(damaged(&segment.path, "it was sealed, but no frame stands in it"));
        }
        Ok((before.next(), last))
    }

    /// Whether nothing in a condensed segment, which says this of itself, is left out by whoever reads its frames.
    pub(super) fn check_condensed(&self, segment: &Segment, says: Condensed) -> Result<(), StoreError> {
        let mut before = None;
        for parsed in self.frames(segment) {
            if does_not_follow_in(says, &parsed, before) {
                let before = before.unwrap_or(says.first.previous());
                return Err(out_of_place(segment, SEGMENT_HEAD_BYTES, parsed.head.lsn, before));
            }
            check_understood(segment, &parsed)?;
            before = Some(parsed.head.lsn);
        }
        Ok(())
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

fn check_understood(segment: &Segment, parsed: &Parsed<'_>) -> Result<(), StoreError> {
    if parsed.is_understood() { Ok(()) } else { Err(not_understood(segment, parsed.head.lsn)) }
}
