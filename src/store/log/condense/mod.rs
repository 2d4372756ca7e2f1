//! Condensing: sealed segments are compressed, and written anew without what is dead.
//!
//! A step machine that [`Condenser::step`] drives, on a thread of its own or by whoever schedules it. A step reads one
//! segment and may write it anew; nothing waits for it but the disk, and what it writes is synced a MB at a time.
//!
//! # What is dead
//!
//! An operation is dead when a later one on the same key stands in the log at or below L, which is the lower of: what is
//! synced, and what the index would begin at after a kill (it replays from its last recorded flush). So whoever reads from
//! there on comes to the same rows. A remove that is the last word on its key is dropped once no earlier segment holds a
//! put of that key: those segments are written first, and where it is in doubt whether one was ([`NamesInDoubt`]), no
//! remove is dropped.
//! Nobody reads the whole log while it is condensed: an open is over before, and `gaggle verify` has the folder's lock.
//!
//! # How it goes
//!
//! A segment that was sealed is compressed at once, without what is dead by itself, also in the middle of a round. When the
//! log has grown by a quarter since the last time there is a *round* over all segments that are condensed by then: from the
//! newest to the oldest each operation whose key was seen before is marked, a part of the keys at a time, so that memory is
//! bounded ([`CONDENSE_KEYS_MAX`] says what it takes); then the segments that hold enough that is dead are written anew, from
//! the oldest to the newest. A round costs a reading of the log for each part, but for segments in which nothing is left:
//! of those there are the more the longer the history is.
//!
//! A crash at any point leaves each segment as it was or as it was to become, and both are right beside each other.

mod image;
mod marks;
mod round;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::image::Image;
use self::marks::{Bits, Hashes};
use self::round::Round;
use crate::ids::Lsn;
use crate::limits::CONDENSE_KEYS_MAX;
use crate::store::error::StoreError;
use crate::store::log::append::Ahead;
use crate::store::log::frame;
use crate::store::log::segment::{Condensed, SEGMENT_HEAD_BYTES, Segment};
use crate::store::log::survey::damaged;

/// A round is due when the log has grown by one in so many.
const GROWTH: u64 = 4;
/// Headers that are looked at in one step.
const LOOKS_MAX: usize = 64;

/// Up to where the log may be condensed for the index's sake.
pub type Limit = Box<dyn Fn() -> Lsn + Send>;

/// Whether a segment may come back as it was before it was written anew: its naming has failed, and no sync proves anything
/// of that any more. A remove that went after a put would be missing then, so none goes.
///
/// Only a loss of power says what is there, so this outlives every log that is opened in the same process; a clone is
/// another handle on the same. It does not outlive the process: where that ends after such a failure, and the power goes
/// only after the next one has dropped a remove, what was removed can come back.
#[derive(Debug, Clone, Default)]
pub struct NamesInDoubt(Arc<AtomicBool>);

impl NamesInDoubt {
    fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The one who condenses a log.
pub struct Condenser {
    ahead: Arc<Ahead>,
    limit: Limit,
    names_in_doubt: NamesInDoubt,
    keys_max: usize,
    hashes: Hashes,
    /// The sealed segments, from the first on; those that are condensed come first.
    segments: Vec<Segment>,
    /// How many of them are condensed.
    condensed: usize,
    /// The last frame of the first one that is not, once it was read.
    next_last: Option<Lsn>,
    round: Option<Round>,
    /// Segments that the last round went over, and the operations in them afterwards.
    rounded: (usize, u64),
    /// Up to where what is dead is gone to the last byte.
    thorough: Lsn,
}

impl Condenser {
    pub(super) fn new(ahead: Arc<Ahead>, limit: Limit, names_in_doubt: NamesInDoubt) -> Condenser {
        Condenser {
            ahead,
            limit,
            names_in_doubt,
            keys_max: CONDENSE_KEYS_MAX,
            hashes: Hashes::default(),
            segments: Vec::new(),
            condensed: 0,
            next_last: None,
            round: None,
            rounded: (0, 0),
            thorough: Lsn::ZERO,
        }
    }

    /// The same with another bound of keys, for proofs.
    #[cfg(test)]
    pub(super) fn with_keys_max(self, keys_max: usize) -> Condenser {
        Condenser { keys_max, ..self }
    }

    /// Up to where the log may be condensed now.
    fn low_mark(&self) -> Lsn {
        let synced = Lsn::new(self.ahead.synced.load(Ordering::Acquire));
        synced.min((self.limit)())
    }

    /// Whether [`Condenser::step`] would find something to do.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let low_mark = self.low_mark();
        self.round.is_some()
            || self.segments.len() < self.sealed()
            || self.condensed < self.segments.len() && self.next_last.is_none_or(|last| last <= low_mark)
            || self.next_round(low_mark).is_some()
    }

    /// Does one piece of work; says whether there was any.
    ///
    /// # Errors
    /// Where the disk refuses, or a segment is damaged. The log is as it was; a round that was under way is begun anew.
    pub fn step(&mut self) -> Result<bool, StoreError> {
        if self.look()? {
            return Ok(true);
        }
        let low_mark = self.low_mark();
        // A round may take long, and goes over nothing that was sealed since it began.
        if self.compress(low_mark)? {
            return Ok(true);
        }
        if let Some(mut round) = self.round.take() {
            let is_over = self.advance(&mut round)?;
            if is_over {
                self.end(&round)
            } else {
                self.round = Some(round)
            }
            return Ok(true);
        }
        self.round = self.next_round(low_mark);
        Ok(self.round.is_some())
    }

    fn sealed(&self) -> usize {
        let current = self.ahead.current.load(Ordering::Acquire);
        usize::try_from(current.saturating_sub(1)).unwrap_or(usize::MAX)
    }

    /// Looks at the headers of segments that were sealed since the last look; says whether there were any.
    fn look(&mut self) -> Result<bool, StoreError> {
        let known = self.segments.len();
        for index in known..self.sealed().min(known.saturating_add(LOOKS_MAX)) {
            let number = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
            let place = &self.ahead.place;
            let (segment, _) = Segment::look(&*self.ahead.disk, &place.folder, place.store, number)?;
            if let Some(says) = segment.condensed.filter(|_| self.condensed == index) {
                // What was there at the start has been gone over.
                self.condensed = index.saturating_add(1);
                self.rounded = (self.condensed, self.rounded.1.saturating_add(u64::from(says.ops)));
            }
            self.segments.push(segment);
        }
        Ok(self.segments.len() > known)
    }

    /// Reads a segment, and the first frame and the last that it holds or held. What is not as it was written errs here.
    fn read(&self, index: usize) -> Result<(Segment, Image, (Lsn, Lsn)), StoreError> {
        let number = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
        let place = &self.ahead.place;
        let mut bytes = Vec::new();
        let segment = Segment::read(&*self.ahead.disk, &place.folder, place.store, number, &mut bytes)?;
        let image = Image(bytes);
        if let Some(says) = segment.condensed {
            image.check_condensed(&segment, says)?;
            return Ok((segment, image, (says.first, says.last)));
        }
        let before = index.checked_sub(1).and_then(|before| self.segments.get(before)?.condensed);
        let ends = image.ends_behind(&segment, before.map_or(Lsn::ZERO, |says| says.last))?;
        self.check_goes_on(&segment, ends.1)?;
        Ok((segment, image, ends))
    }

    /// Whether what follows the last frame of a sealed segment stands in the next one, where anything is synced that does.
    fn check_goes_on(&self, segment: &Segment, last: Lsn) -> Result<(), StoreError> {
        if self.ahead.synced.load(Ordering::Acquire) <= last.value() {
            return Ok(());
        }
        let place = &self.ahead.place;
        let number = segment.number.saturating_add(1);
        let (next, head) = Segment::look(&*self.ahead.disk, &place.folder, place.store, number)?;
        let first = next.condensed.map(|says| says.first).or_else(|| frame::lsn_of(&head, next.nonce));
        if first == Some(last.next()) {
            return Ok(());
        }
        let what = format!("it ends with frame {last}, but frame {} does not begin the segment behind it", last.next());
        Err(damaged(&segment.path, what))
    }

    /// Condenses the first segment that is not, where it lies below the mark; says whether it did.
    fn compress(&mut self, low_mark: Lsn) -> Result<bool, StoreError> {
        let index = self.condensed;
        if index >= self.segments.len() || self.next_last.is_some_and(|last| last > low_mark) {
            return Ok(false);
        }
        let (segment, image, (first, last)) = self.read(index)?;
        self.next_last = Some(last);
        if last > low_mark {
            return Ok(false);
        }
        let ops: Vec<_> = image.ops(&segment).map(|raw| self.hashes.key(raw.tree, raw.key)).collect();
        let mut dead = Bits::new(ops.len());
        let mut seen = HashSet::new();
        for (index, key) in ops.iter().enumerate().rev() {
            if !seen.insert(*key) {
                dead.set(index);
            }
        }
        self.replace(index, &segment, &image, (first, last), &|index| dead.has(index))?;
        self.condensed = index.saturating_add(1);
        self.next_last = None;
        Ok(true)
    }

    /// Writes a segment anew without these operations.
    fn replace(
        &mut self,
        index: usize,
        segment: &Segment,
        image: &Image,
        (first, last): (Lsn, Lsn),
        is_dead: &dyn Fn(usize) -> bool,
    ) -> Result<(), StoreError> {
        let (kept, ops) = image.without(segment, is_dead);
        let place = &self.ahead.place;
        let says = Condensed { first, last, ops };
        let disk = &*self.ahead.disk;
        let new = segment.condense(disk, &place.folder, place.store, says, &kept)?;
        let named = new.take_name(disk, &place.folder);
        let stands = match &named {
            Ok(()) => Some(new),
            Err(_) => {
                self.names_in_doubt.raise();
                // The error that counts is the first one.
                Segment::look(disk, &place.folder, place.store, new.number).ok().map(|(stands, _)| stands)
            }
        };
        if let (Some(stands), Some(known)) = (stands, self.segments.get_mut(index)) {
            self.ahead.bytes.fetch_add(stands.bytes, Ordering::Relaxed);
            self.ahead.bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
            *known = stands;
        }
        named
    }

    fn ops_in(&self, from: usize, to: usize) -> u64 {
        let segments = self.segments.get(from..to).unwrap_or_default();
        segments.iter().filter_map(|segment| segment.condensed).map(|says| u64::from(says.ops)).sum()
    }

    /// The round that is due, if one is.
    fn next_round(&self, low_mark: Lsn) -> Option<Round> {
        let condensed = self.segments.get(..self.condensed).unwrap_or_default();
        let below = |segment: &&Segment| segment.condensed.is_some_and(|says| says.last <= low_mark);
        let count = condensed.iter().take_while(below).count();
        let end = condensed.get(..count)?.last()?.condensed?.last;
        let wish = Lsn::new(self.ahead.wish.load(Ordering::Acquire));
        if wish > self.thorough && end >= wish {
            return Some(Round::new(count, end, true));
        }
        let (segments, ops) = self.rounded;
        let new = self.ops_in(segments, count);
        let grown = new > 0 && new.saturating_mul(GROWTH) >= ops;
        grown.then(|| Round::new(count, end, false))
    }

    /// Takes a step of a round; says whether it is over.
    fn advance(&mut self, round: &mut Round) -> Result<bool, StoreError> {
        let says = |index: usize| self.segments.get(index).and_then(|segment| segment.condensed);
        if let Some(index) = round.next_to_mark(|index| says(index).is_some_and(|says| says.ops == 0)) {
            let (segment, image, _) = self.read(index)?;
            let ops = image.ops(&segment).map(|raw| marks::Seen {
                key: self.hashes.key(raw.tree, raw.key),
                is_put: raw.value.is_some(),
                bytes: raw.bytes.len(),
            });
            round.mark(index, ops, self.keys_max);
            return Ok(false);
        }
        let Some(index) = round.next_to_write() else { return Ok(true) };
        let (segment, image, ends) = self.read(index)?;
        if segment.condensed.is_none() {
            return Err(damaged(&segment.path, "it was condensed, and is not any more"));
        }
        let gone = round.gone(index, !self.names_in_doubt.is_raised());
        self.replace(index, &segment, &image, ends, &|index| gone.has(index))?;
        Ok(false)
    }

    fn end(&mut self, round: &Round) {
        self.rounded = (round.segments(), self.ops_in(0, round.segments()));
        if round.is_thorough() {
            self.thorough = self.thorough.max(round.end());
        }
        self.ahead.live.store(round.live_bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
