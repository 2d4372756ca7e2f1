//! What the end of the log is, and how it is made whole before anything is served.
//!
//! The rules. Segments are numbered from 1 without a gap, and frames by lsn without a gap through all of them; a
//! segment's frames end where zeros begin. Whatever breaks this is damage, said by name, and then nothing was touched;
//! but for one thing: where no frame begins and no valid frame follows, be it behind that place in the same segment (at
//! whichever offset) or in any later one, there the log ends, and what stands there is a frame that was being written
//! and was never synced. It is cut. A cut at or below an lsn that is known to be flushed is damage all the same.
//!
//! Then, in this order: files never born are removed; frames above the highest lsn claimed as synced are written again
//! byte for byte and synced, since after a failed sync the system may show bytes that the disk does not hold, and a
//! second sync proves nothing about them; only then are they applied; what lies behind the cut is zeroed last.
//!
//! What no rule can see after an unclean stop: damage that takes the whole end of the log behind the last flush.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, SharedDisk};
use crate::ids::Lsn;
use crate::store::error::StoreError;
use crate::store::format::StoreId;
use crate::store::log::append::{LogWriter, Place};
use crate::store::log::frame::{self, Parsed};
use crate::store::log::segment::{self, SEGMENT_HEAD_BYTES, Segment};
use crate::store::log::{Frame, Recovery};

/// What opening needs to know.
pub(crate) struct LogOptions {
    pub(crate) store: StoreId,
    /// Size of new segments.
    pub(crate) segment_bytes: u64,
    /// The highest lsn that a durable index has recorded as flushed; zero where there is none.
    pub(crate) flushed: Lsn,
}

/// What opening returns: the log, at its end, and what was found.
#[derive(Debug)]
pub(crate) struct RecoveredLog {
    pub(crate) writer: LogWriter,
    pub(crate) recovery: Recovery,
}

/// What is called with each frame, in order, once it is known to be durable, and with the segment's place among all.
pub(crate) type OnFrame<'a> = &'a mut dyn FnMut(Frame, usize, usize) -> Result<(), StoreError>;

/// A frame that is not claimed as synced by a later one, as far as was read.
struct Unclaimed {
    segment: usize,
    offset: usize,
    lsn: Lsn,
    bytes: Vec<u8>,
}

/// Bytes that are to become zeros.
struct Rest {
    segment: usize,
    from: usize,
    bytes: usize,
}

/// What a look at the whole log has found, without touching it.
struct Survey<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    segments: Vec<Segment>,
    unborn: Vec<PathBuf>,
    unclaimed: VecDeque<Unclaimed>,
    rests: Vec<Rest>,
    last: Lsn,
    /// Segment and offset where the next frame goes.
    end: (usize, usize),
    ended: bool,
    recovery: Recovery,
}

/// Opens the log: looks at all of it, then makes its end whole.
pub(crate) fn open(
    disk: &SharedDisk,
    folder: &Path,
    options: &LogOptions,
    on_frame: OnFrame<'_>,
) -> Result<RecoveredLog, StoreError> {
    let mut survey = Survey::begin(&**disk, folder)?;
    survey.read(options, on_frame)?;
    if survey.last < options.flushed {
        let what = format!("it ends with frame {}, but the index was flushed up to {}", survey.last, options.flushed);
        return Err(damaged(folder, what));
    }
    survey.settle(on_frame)?;
    let (at, offset) = survey.end;
    let ahead = survey.segments.split_off(at.saturating_add(1).min(survey.segments.len()));
    let current = survey.segments.pop().ok_or_else(|| damaged(folder, "it has no segments"))?;
    let place = Place { folder: folder.to_owned(), store: options.store, segment_bytes: options.segment_bytes };
    let writer = LogWriter::at_end(disk, place, current, offset, ahead.into(), survey.last, survey.recovery.sealed)?;
    Ok(RecoveredLog { writer, recovery: survey.recovery })
}

fn damaged(path: &Path, what: impl Into<String>) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what: what.into() }
}

/// Whether a frame does not follow this lsn, or claims more than there is.
fn does_not_follow(parsed: &Parsed<'_>, last: Lsn) -> bool {
    parsed.head.lsn != last.next() || parsed.head.previous != last || parsed.head.synced > last
}

impl<'a> Survey<'a> {
    /// Lists the segments: from 1, without a gap.
    fn begin(disk: &'a dyn Disk, folder: &'a Path) -> Result<Survey<'a>, StoreError> {
        if !disk.exists(folder)? {
            return Err(damaged(folder, "the folder of the log is missing"));
        }
        let names = disk.list(folder)?;
        let unborn = names.iter().filter(|name| segment::is_unborn(name)).map(|name| folder.join(name)).collect();
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
        numbers.sort_unstable();
        let last = numbers.last().copied().unwrap_or(1);
        if let Some(missing) = (1..=last).zip(numbers.iter().copied().chain([0])).find(|(want, have)| want != have) {
            return Err(damaged(&segment::path_of(folder, missing.0), "this segment of the log is missing"));
        }
        let segments = numbers.into_iter();
        let segments =
            segments.map(|number| Segment { number, nonce: 0, bytes: 0, path: segment::path_of(folder, number) });
        Ok(Survey {
            disk,
            folder,
            segments: segments.collect(),
            unborn,
            unclaimed: VecDeque::new(),
            rests: Vec::new(),
            last: Lsn::ZERO,
            end: (0, SEGMENT_HEAD_BYTES),
            ended: false,
            recovery: Recovery::default(),
        })
    }

    /// Reads every segment once, in order.
    fn read(&mut self, options: &LogOptions, on_frame: OnFrame<'_>) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        for index in 0..self.segments.len() {
            let Some(entry) = self.segments.get_mut(index) else { break };
            *entry = Segment::read(self.disk, self.folder, options.store, entry.number, &mut bytes)?;
            let segment = entry.clone();
            let from = self.read_frames(index, &segment, &bytes, on_frame)?;
            self.read_rest(index, &segment, &bytes, from)?;
        }
        Ok(())
    }

    /// Takes frame after frame, as long as the log has not ended; returns where that stopped.
    fn read_frames(
        &mut self,
        index: usize,
        segment: &Segment,
        bytes: &[u8],
        on_frame: OnFrame<'_>,
    ) -> Result<usize, StoreError> {
        let mut offset = SEGMENT_HEAD_BYTES;
        while !self.ended {
            let Some(parsed) = bytes.get(offset..).and_then(|rest| frame::parse(rest, segment.nonce)) else { break };
            if does_not_follow(&parsed, self.last) {
                return Err(self.out_of_place(segment, offset, &parsed));
            }
            self.release(parsed.head.synced, on_frame)?;
            self.unclaimed.push_back(Unclaimed {
                segment: index,
                offset,
                lsn: parsed.head.lsn,
                bytes: parsed.bytes.to_vec(),
            });
            self.last = parsed.head.lsn;
            self.recovery.frames += 1;
            self.recovery.sealed = parsed.seal;
            offset += parsed.bytes.len();
            self.end = (index, offset);
        }
        Ok(offset)
    }

    /// Nothing valid may follow where no frame begins; what else stands there is to be zeroed.
    fn read_rest(&mut self, index: usize, segment: &Segment, bytes: &[u8], from: usize) -> Result<(), StoreError> {
        if let Some((offset, parsed)) = frame::search(bytes, from, segment.nonce) {
            return Err(self.out_of_place(segment, offset, &parsed));
        }
        let rest = bytes.get(from..).unwrap_or_default();
        if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
            self.ended = true;
            self.rests.push(Rest { segment: index, from, bytes: last + 1 });
        }
        Ok(())
    }

    fn out_of_place(&self, segment: &Segment, offset: usize, parsed: &Parsed<'_>) -> StoreError {
        let what = format!(
            "frame {} stands at byte {offset}, but what comes after frame {} is missing or no longer readable",
            parsed.head.lsn, self.last
        );
        damaged(&segment.path, what)
    }

    /// Hands on the frames up to this lsn: a later frame says that they were synced.
    fn release(&mut self, synced: Lsn, on_frame: OnFrame<'_>) -> Result<(), StoreError> {
        while self.unclaimed.front().is_some_and(|unclaimed| unclaimed.lsn <= synced) {
            if let Some(unclaimed) = self.unclaimed.pop_front() {
                self.hand_on(&unclaimed, on_frame)?;
            }
        }
        Ok(())
    }

    fn hand_on(&self, unclaimed: &Unclaimed, on_frame: OnFrame<'_>) -> Result<(), StoreError> {
        let segment = self.segments.get(unclaimed.segment).ok_or_else(|| damaged(self.folder, "a segment is gone"))?;
        let parsed = frame::parse(&unclaimed.bytes, segment.nonce);
        let ops = parsed.and_then(|parsed| parsed.ops());
        let ops = ops.ok_or_else(|| {
            let what = format!("frame {} holds operations that this version does not know", unclaimed.lsn);
            damaged(&segment.path, what)
        })?;
        on_frame(Frame { lsn: unclaimed.lsn, ops }, unclaimed.segment, self.segments.len())
    }

    /// Makes the end whole, in the order that the rules say.
    fn settle(&mut self, on_frame: OnFrame<'_>) -> Result<(), StoreError> {
        // Whether they can be understood is known before anything is touched.
        for unclaimed in &self.unclaimed {
            self.hand_on(unclaimed, &mut |_, _, _| Ok(()))?;
        }
        for path in &self.unborn {
            self.disk.remove(path)?;
        }
        self.disk.sync_folder(self.folder)?;
        for unclaimed in &self.unclaimed {
            self.write(unclaimed.segment, unclaimed.offset, &unclaimed.bytes)?;
            self.recovery.rewritten += 1;
        }
        self.release(self.last, on_frame)?;
        for rest in &self.rests {
            self.write(rest.segment, rest.from, &vec![0; rest.bytes])?;
            self.recovery.cut_bytes += u64::try_from(rest.bytes).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    fn write(&self, segment: usize, offset: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let segment = self.segments.get(segment).ok_or_else(|| damaged(self.folder, "a segment is gone"))?;
        let mut file = self.disk.open(&segment.path)?;
        file.write_at(u64::try_from(offset).unwrap_or(u64::MAX), bytes)?;
        file.sync()?;
        Ok(())
    }
}
