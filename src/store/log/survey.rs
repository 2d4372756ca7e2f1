//! A look at the whole log that touches nothing: whether it is what was written, and where it ends.
//!
//! The rules. Segments are numbered from 1 without a gap, and frames by lsn without a gap through all of them; a
//! segment's frames end where zeros begin. Whatever breaks this is damage, said by name, and then nothing was touched;
//! but for one thing: where no frame begins and no valid frame follows, be it behind that place in the same segment (at
//! whichever offset) or in any later one, there the log ends, and what stands there is a frame that was being written
//! and was never synced. It is to be cut. A cut at or below an lsn that is known to be flushed is damage all the same.
//!
//! How much is read. Of every segment the name, the header, the length and the lsn of the first frame; of the newest
//! ones, up to a bound, and of all that hold frames behind the recorded flush, every frame with its checksum and the
//! form of its operations; and of all segments, where no frame can be read in those. So a start takes no longer the
//! longer the history is. What stands inside of older segments is read whole by every rebuild of the index, before the
//! old index is given up, and by `gaggle verify`.
//!
//! A condensed segment stands for all frames from the first to the last that its header says, has gaps only inside, and
//! is never where the log ends: frames behind it go to the next segment, which was there before.
//!
//! What no rule can see after an unclean stop: damage that takes the whole end of the log behind the last flush.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::disk::SharedDisk;
use crate::ids::Lsn;
use crate::store::error::StoreError;
use crate::store::format::StoreId;
use crate::store::log::Recovery;
use crate::store::log::frame::{self, Parsed};
use crate::store::log::segment::{self, Condensed, SEGMENT_HEAD_BYTES, Segment};

/// What the survey needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOptions {
    pub(crate) store: StoreId,
    /// Size of new segments.
    pub(crate) segment_bytes: u64,
    /// The highest lsn that a durable index has recorded as flushed; zero where there is none.
    pub(crate) flushed: Lsn,
    /// How many of the newest segments are read whole, whatever was flushed.
    pub(crate) segments_checked: usize,
}

/// What is called for each segment that was read: its place among all, from 1, and how many there are.
pub(crate) type OnSegment<'a> = &'a mut dyn FnMut(usize, usize);

/// A frame that no later one claims as synced.
pub(super) struct Unclaimed {
    pub(super) segment: usize,
    pub(super) offset: usize,
    lsn: Lsn,
    length: usize,
    /// Empty while its segment is still being read.
    pub(super) bytes: Vec<u8>,
}

/// Bytes that are to become zeros.
pub(super) struct Rest {
    pub(super) segment: usize,
    pub(super) from: usize,
    pub(super) bytes: usize,
}

/// A segment, and the lsn that its first frame bears, or bore before it was condensed; none where no frame of this
/// segment begins there.
pub(super) struct Surveyed {
    pub(super) segment: Segment,
    pub(super) first: Option<Lsn>,
}

/// What a look at the log has found.
pub(crate) struct Survey {
    pub(super) disk: SharedDisk,
    pub(super) folder: PathBuf,
    pub(super) options: LogOptions,
    pub(super) segments: Vec<Surveyed>,
    pub(super) unborn: Vec<PathBuf>,
    pub(super) unclaimed: VecDeque<Unclaimed>,
    pub(super) rests: Vec<Rest>,
    pub(super) last: Lsn,
    /// Segment and offset where the next frame goes.
    pub(super) end: (usize, usize),
    /// The first segment that was read whole.
    whole_from: usize,
    ended: bool,
    pub(super) recovery: Recovery,
}

/// Looks at the log.
pub(crate) fn survey(
    disk: &SharedDisk,
    folder: &Path,
    options: LogOptions,
    on_segment: OnSegment<'_>,
) -> Result<Survey, StoreError> {
    let mut survey = Survey::read_of(disk, folder, options, on_segment)?;
    if survey.end.0 < survey.whole_from {
        // Not one frame could be read in them, so nothing says that the log ends where they begin.
        let all = LogOptions { segments_checked: usize::MAX, ..options };
        survey = Survey::read_of(disk, folder, all, on_segment)?;
    }
    survey.check_reaches(options.flushed, "was flushed")?;
    Ok(survey)
}

pub(super) fn damaged(path: &Path, what: impl Into<String>) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what: what.into() }
}

/// Whether a frame does not follow this lsn, or claims more than there is.
pub(super) fn does_not_follow(parsed: &Parsed<'_>, last: Lsn) -> bool {
    parsed.head.lsn != last.next() || parsed.head.previous != last || parsed.head.synced > last
}

/// Whether a frame of a condensed segment does not follow the one before, or lies beyond what its header says.
pub(super) fn does_not_follow_in(says: Condensed, parsed: &Parsed<'_>, before: Option<Lsn>) -> bool {
    let follows = match before {
        Some(before) => parsed.head.previous == before && parsed.head.lsn > before,
        None => parsed.head.lsn >= says.first,
    };
    !follows || parsed.head.lsn > says.last
}

/// What is wrong where a frame stands that does not follow.
pub(super) fn out_of_place(segment: &Segment, offset: usize, found: Lsn, last: Lsn) -> StoreError {
    let what = format!(
        "frame {found} stands at byte {offset}, but what comes after frame {last} is missing or no longer readable"
    );
    damaged(&segment.path, what)
}

/// What is wrong with a frame whose operations are not what this version writes.
pub(super) fn not_understood(segment: &Segment, lsn: Lsn) -> StoreError {
    damaged(&segment.path, format!("frame {lsn} holds operations that this version does not know"))
}

impl Survey {
    /// Whether the log goes as far as an index that says that it has read it. What is missing then stood where the log
    /// ends now, or in segments that followed.
    pub(crate) fn check_reaches(&self, index: Lsn, how: &str) -> Result<(), StoreError> {
        if self.last >= index {
            return Ok(());
        }
        let path = self.segments.get(self.end.0).map_or(&self.folder, |surveyed| &surveyed.segment.path);
        let last = self.last;
        Err(damaged(path, format!("the log ends in it with frame {last}, but the index {how} up to frame {index}")))
    }

    /// Whether every frame was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole_from == 0
    }

    fn read_of(
        disk: &SharedDisk,
        folder: &Path,
        options: LogOptions,
        on_segment: OnSegment<'_>,
    ) -> Result<Survey, StoreError> {
        let mut survey = Survey::begin(disk, folder, options)?;
        survey.look()?;
        survey.read(on_segment)?;
        Ok(survey)
    }

    /// Lists the segments: from 1, without a gap.
    fn begin(disk: &SharedDisk, folder: &Path, options: LogOptions) -> Result<Survey, StoreError> {
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
        let segments = numbers.into_iter().map(|number| Surveyed {
            segment: Segment { number, nonce: 0, bytes: 0, path: segment::path_of(folder, number), condensed: None },
            first: None,
        });
        Ok(Survey {
            disk: SharedDisk::clone(disk),
            folder: folder.to_owned(),
            options,
            segments: segments.collect(),
            unborn,
            unclaimed: VecDeque::new(),
            rests: Vec::new(),
            last: Lsn::ZERO,
            end: (0, SEGMENT_HEAD_BYTES),
            whole_from: 0,
            ended: false,
            recovery: Recovery::default(),
        })
    }

    /// Looks at the beginning of every segment, and decides from which one on they are read whole.
    fn look(&mut self) -> Result<(), StoreError> {
        for surveyed in &mut self.segments {
            let number = surveyed.segment.number;
            let (segment, head) = Segment::look(&*self.disk, &self.folder, self.options.store, number)?;
            let first = segment.condensed.map(|says| says.first).or_else(|| frame::lsn_of(&head, segment.nonce));
            *surveyed = Surveyed { first, segment };
        }
        self.whole_from = self.oldest_to_read();
        if let Some(first) = self.segments.get(self.whole_from).and_then(|surveyed| surveyed.first) {
            self.last = if self.whole_from == 0 { Lsn::ZERO } else { first.previous() };
        }
        Ok(())
    }

    /// The oldest segment that has to be read whole: one of the newest, or older where it does not begin with a frame
    /// right behind the recorded flush or before. Where the older ones do not rise from the first frame on, all are
    /// read, so that what is wrong gets its name.
    fn oldest_to_read(&self) -> usize {
        let newest = self.segments.len().saturating_sub(self.options.segments_checked.max(1));
        let firsts: Vec<Lsn> = self.segments.iter().map_while(|surveyed| surveyed.first).collect();
        let rises = firsts.first() == Some(&Lsn::ZERO.next())
            && firsts.iter().zip(firsts.iter().skip(1)).all(|(before, after)| before < after);
        let condensed = self.segments.iter().zip(firsts.iter().skip(1));
        let joins = condensed
            .filter_map(|(surveyed, after)| Some((surveyed.segment.condensed?.last, after)))
            .all(|(last, after)| last.next() == *after);
        if !rises || !joins {
            return 0;
        }
        let flushed = |index: &usize| firsts.get(*index).is_some_and(|first| *first <= self.options.flushed.next());
        (1..=newest).rev().find(flushed).unwrap_or(0)
    }

    /// Reads segments once, in order.
    fn read(&mut self, on_segment: OnSegment<'_>) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let count = self.segments.len();
        for index in self.whole_from..count {
            let Some(number) = self.segments.get(index).map(|surveyed| surveyed.segment.number) else { break };
            let segment = Segment::read(&*self.disk, &self.folder, self.options.store, number, &mut bytes)?;
            if let Some(says) = segment.condensed {
                self.read_condensed(index, &segment, says, &bytes)?;
            } else {
                let from = self.read_frames(index, &segment, &bytes)?;
                self.read_rest(index, &segment, &bytes, from)?;
            }
            on_segment(index.saturating_add(1), count);
        }
        if self.end.0 >= count && count > 0 {
            let path = self.segments.last().map_or(&self.folder, |surveyed| &surveyed.segment.path);
            return Err(damaged(path, "it is condensed, but the segment that followed it is missing"));
        }
        self.recovery.frames = self.last.value();
        Ok(())
    }

    /// Takes frame after frame, as long as the log has not ended; returns where that stopped.
    fn read_frames(&mut self, index: usize, segment: &Segment, bytes: &[u8]) -> Result<usize, StoreError> {
        let mut offset = SEGMENT_HEAD_BYTES;
        while !self.ended {
            let Some(parsed) = bytes.get(offset..).and_then(|rest| frame::parse(rest, segment.nonce)) else { break };
            if does_not_follow(&parsed, self.last) {
                return Err(out_of_place(segment, offset, parsed.head.lsn, self.last));
            }
            if !parsed.is_understood() {
                return Err(not_understood(segment, parsed.head.lsn));
            }
            while self.unclaimed.front().is_some_and(|unclaimed| unclaimed.lsn <= parsed.head.synced) {
                self.unclaimed.pop_front();
            }
            let (lsn, length) = (parsed.head.lsn, parsed.bytes.len());
            self.unclaimed.push_back(Unclaimed { segment: index, offset, lsn, length, bytes: Vec::new() });
            self.last = lsn;
            self.recovery.sealed = parsed.seal;
            offset += length;
            self.end = (index, offset);
        }
        for unclaimed in self.unclaimed.iter_mut().filter(|unclaimed| unclaimed.segment == index) {
            let end = unclaimed.offset.saturating_add(unclaimed.length);
            unclaimed.bytes = bytes.get(unclaimed.offset..end).unwrap_or_default().to_vec();
        }
        Ok(offset)
    }

    /// Takes a condensed segment, which was synced whole before it became one.
    fn read_condensed(
        &mut self,
        index: usize,
        segment: &Segment,
        says: Condensed,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        if self.ended || says.first != self.last.next() {
            return Err(out_of_place(segment, SEGMENT_HEAD_BYTES, says.first, self.last));
        }
        let (mut offset, mut before) = (SEGMENT_HEAD_BYTES, None);
        for parsed in frame::frames(bytes.get(offset..).unwrap_or_default(), segment.nonce) {
            if does_not_follow_in(says, &parsed, before) {
                let before = before.unwrap_or(says.first.previous());
                return Err(out_of_place(segment, offset, parsed.head.lsn, before));
            }
            if !parsed.is_understood() {
                return Err(not_understood(segment, parsed.head.lsn));
            }
            before = Some(parsed.head.lsn);
            offset += parsed.bytes.len();
        }
        // All that is known to be synced is.
        self.unclaimed.clear();
        self.last = says.last;
        self.recovery.sealed = false;
        self.end = (index.saturating_add(1), SEGMENT_HEAD_BYTES);
        Ok(())
    }

    /// Nothing valid may follow where no frame begins; what else stands there is to be zeroed.
    fn read_rest(&mut self, index: usize, segment: &Segment, bytes: &[u8], from: usize) -> Result<(), StoreError> {
        if let Some((offset, parsed)) = frame::search(bytes, from, segment.nonce) {
            return Err(out_of_place(segment, offset, parsed.head.lsn, self.last));
        }
        let rest = bytes.get(from..).unwrap_or_default();
        if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
            self.ended = true;
            self.rests.push(Rest { segment: index, from, bytes: last + 1 });
        }
        Ok(())
    }
}
