//! Makes the end of a log whole, once the survey has said what it is, and hands on the frames that are then durable.
//!
//! In this order: files never born are removed; frames above the highest lsn claimed as synced are written again byte
//! for byte and synced, since after a failed sync the system may show bytes that the disk does not hold, and a second
//! sync proves nothing about them; what lies behind the cut is zeroed. Only then is any frame handed on, so that nothing
//! is applied or served that the disk may not hold.

use crate::ids::Lsn;
use crate::proof::{self, Wrong};
use crate::store::error::StoreError;
use crate::store::log::append::{End, LogWriter, Place};
use crate::store::log::frame;
use crate::store::log::segment::{SEGMENT_HEAD_BYTES, Segment};
use crate::store::log::survey::{Survey, damaged, does_not_follow, does_not_follow_in, not_understood, out_of_place};
use crate::store::log::{Frame, Recovery};

/// A log whose end is whole.
pub(crate) struct SettledLog {
    survey: Survey,
}

/// What is called with each frame, in order, and with its segment's place among all, from 1, and how many there are.
pub(crate) type OnFrame<'a> = &'a mut dyn FnMut(Frame, usize, usize) -> Result<(), StoreError>;

impl Survey {
    /// Makes the end whole, in the order that stands above.
    pub(crate) fn settle(mut self) -> Result<SettledLog, StoreError> {
        for path in &self.unborn {
            self.disk.remove(path)?;
        }
        self.disk.sync_folder(&self.folder)?;
        for unclaimed in std::mem::take(&mut self.unclaimed) {
            self.write(unclaimed.segment, unclaimed.offset, &unclaimed.bytes)?;
            self.recovery.rewritten += 1;
        }
        for rest in std::mem::take(&mut self.rests) {
            if proof::is(Wrong::StaleFrameKept) {
                continue;
            }
            self.write(rest.segment, rest.from, &vec![0; rest.bytes])?;
            self.recovery.cut_bytes += u64::try_from(rest.bytes).unwrap_or(u64::MAX);
        }
        Ok(SettledLog { survey: self })
    }

    fn write(&self, segment: usize, offset: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let mut file = self.disk.open(&self.segment(segment)?.path)?;
        file.write_at(u64::try_from(offset).unwrap_or(u64::MAX), bytes)?;
        file.sync()?;
        Ok(())
    }

    fn segment(&self, index: usize) -> Result<&Segment, StoreError> {
        let surveyed = self.segments.get(index).ok_or_else(|| damaged(&self.folder, "a segment is gone"))?;
        Ok(&surveyed.segment)
    }

    /// Whether a segment holds no frame above this lsn: it lies behind the end, or the next one begins at what follows
    /// the lsn or before.
    fn ends_by(&self, index: usize, lsn: Lsn) -> bool {
        let next = self.segments.get(index.saturating_add(1)).and_then(|surveyed| surveyed.first);
        // What the head of a frame bears in which the log does not go on was never synced, and may be anything.
        let goes_on = self.end > (index.saturating_add(1), SEGMENT_HEAD_BYTES);
        let below = goes_on && next.is_some_and(|first| first <= lsn.next());
        below || index > self.end.0 || self.last <= lsn
    }
}

impl SettledLog {
    /// What was found and done.
    pub(crate) fn recovery(&self) -> Recovery {
        self.survey.recovery
    }

    /// The last frame.
    pub(crate) fn last(&self) -> Lsn {
        self.survey.last
    }

    /// Bytes up to its end.
    pub(crate) fn bytes(&self) -> u64 {
        let before = self.survey.segments.iter().take(self.survey.end.0);
        let before = before.fold(0_u64, |sum, surveyed| sum.saturating_add(surveyed.segment.bytes));
        before.saturating_add(u64::try_from(self.survey.end.1).unwrap_or(u64::MAX))
    }

    /// Hands on every frame above this lsn, in order; reads only the segments that hold them, and returns how many
    /// frames there were. Where condensing has removed the last one, a frame without operations stands for it.
    pub(crate) fn replay(&self, after: Lsn, on_frame: OnFrame<'_>) -> Result<u64, StoreError> {
        let survey = &self.survey;
        let count = survey.segments.len();
        let mut bytes = Vec::new();
        // The first frame that was read, or that a condensed segment stands for; and the last.
        let mut covered: Option<(Lsn, Lsn)> = None;
        let (mut handed, mut handed_last) = (0, after);
        for index in (0..count).filter(|index| !survey.ends_by(*index, after)) {
            let number = survey.segment(index)?.number;
            let segment = Segment::read(&*survey.disk, &survey.folder, survey.options.store, number, &mut bytes)?;
            if let (Some(says), Some((_, last))) = (segment.condensed, covered)
                && says.first != last.next()
            {
                return Err(out_of_place(&segment, SEGMENT_HEAD_BYTES, says.first, last));
            }
            let mut offset = SEGMENT_HEAD_BYTES;
            let mut before = None;
            for parsed in frame::frames(bytes.get(offset..).unwrap_or_default(), segment.nonce) {
                let lsn = parsed.head.lsn;
                let last = covered.map_or(parsed.head.previous, |(_, last)| last);
                let is_out_of_place = match segment.condensed {
                    Some(says) => does_not_follow_in(says, &parsed, before),
                    None => does_not_follow(&parsed, last),
                };
                if is_out_of_place {
                    return Err(out_of_place(&segment, offset, lsn, before.unwrap_or(last)));
                }
                before = Some(lsn);
                if segment.condensed.is_none() {
                    covered = Some((covered.map_or(lsn, |(first, _)| first), lsn));
                }
                offset += parsed.bytes.len();
                if lsn > after {
                    let ops = parsed.ops().ok_or_else(|| not_understood(&segment, lsn))?;
                    on_frame(Frame { lsn, ops }, index.saturating_add(1), count)?;
                    (handed, handed_last) = (handed + 1, lsn);
                }
            }
            if let Some(says) = segment.condensed {
                covered = Some((covered.map_or(says.first, |(first, _)| first), says.last));
            }
        }
        self.check_complete(after, covered)?;
        if handed_last < survey.last {
            on_frame(Frame { lsn: survey.last, ops: Vec::new() }, count, count)?;
        }
        Ok(handed)
    }

    /// What was surveyed is what was handed on: nothing has gone in between.
    fn check_complete(&self, after: Lsn, covered: Option<(Lsn, Lsn)>) -> Result<(), StoreError> {
        let last = self.survey.last;
        let is_complete = match covered {
            Some((first, end)) => first <= after.next() && end == last,
            None => last <= after,
        };
        if is_complete {
            return Ok(());
        }
        let what = format!("the frames from {} to {last} could not be read again", after.next());
        Err(damaged(&self.survey.folder, what))
    }

    /// The writer at the end.
    pub(crate) fn writer(self) -> Result<LogWriter, StoreError> {
        let Survey { disk, folder, options, mut segments, last, end: (at, offset), recovery, .. } = self.survey;
        let ahead = segments.split_off(at.saturating_add(1).min(segments.len()));
        let bytes = segments.iter().fold(0_u64, |sum, surveyed| sum.saturating_add(surveyed.segment.bytes));
        let current = segments.pop().ok_or_else(|| damaged(&folder, "it has no segments"))?.segment;
        let ahead = ahead.into_iter().map(|surveyed| surveyed.segment).collect();
        let place = Place { folder, store: options.store, segment_bytes: options.segment_bytes };
        LogWriter::at_end(&disk, place, End { current, offset, last, sealed: recovery.sealed, bytes }, ahead)
    }
}
