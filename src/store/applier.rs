//! Brings the index up to the log, frame by frame: the index's only mutator and only flusher.
//!
//! A step machine without a clock: the thread that loops over it, and what becomes of an index that fails, are
//! `server`'s business. It says what is due ([`Applier::due`]): a checkpoint, which makes durable what was applied and
//! records how far that goes, or a recycling, which gives memory back. It never leaves a frame out, and after a failure
//! it takes none. A checkpoint never takes back a doubt: see [`Record`].

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::disk::DiskError;
use crate::ids::Lsn;
use crate::limits;
use crate::store::engine::{Engine, EngineError};
use crate::store::flushed::Flushed;
use crate::store::log::Frame;
use crate::store::tree::Tree;

/// Why a frame was not applied, or a checkpoint or recycling not done. The index is in doubt after any of them.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The index failed, now or before.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The frame is not the next one: a fault of whoever sent it.
    #[error("frame {found} was to be applied to an index that stands at {applied}")]
    OutOfOrder {
        /// Where the index stands.
        applied: Lsn,
        /// What came.
        found: Lsn,
    },
    /// It holds something else than what it was given.
    #[error("the index was closed at frame {left} and opened anew at {found}")]
    NotTheSame {
        /// Where it stood.
        left: Lsn,
        /// Where it stands.
        found: Lsn,
    },
}

/// The record of what is durable ([`Flushed`]), shared by the one who makes it so and those who may come to doubt the
/// index. Once it is doubted in this process nothing can be recorded any more that says otherwise.
#[derive(Debug, Clone)]
pub struct Record(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    /// None where the index is never kept.
    flushed: Option<Flushed>,
    doubted: bool,
    /// Up to where the index has settled: nothing is applied any more, and closing it is all that is left.
    settled: Option<Lsn>,
}

impl Record {
    /// The record of an open store; none where its index is never kept.
    #[must_use]
    pub fn new(flushed: Option<Flushed>) -> Record {
        Record(Arc::new(Mutex::new(Kept { flushed, doubted: false, settled: None })))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is recorded, as the index does not outlive the process.
    #[must_use]
    pub fn is_none_kept(&self) -> bool {
        self.kept().flushed.is_none()
    }

    /// Up to where the index is recorded to be durable.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.kept().flushed.as_ref().and_then(Flushed::known).map_or(Lsn::ZERO, |known| known.lsn)
    }

    /// Records that the index must not be used again. It may wait for the disk as long as the disk takes.
    ///
    /// # Errors
    /// Where the disk refuses. Nothing else is recorded after that either.
    pub fn doubt(&self) -> Result<(), DiskError> {
        let mut kept = self.kept();
        kept.doubted = true;
        kept.flushed.as_mut().map_or(Ok(()), Flushed::record_doubt)
    }

    /// Records that what must be resident is about to be read from the index: an attempt to use it that has not ended.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn begin_reading(&self) -> Result<(), DiskError> {
        self.kept().flushed.as_mut().map_or(Ok(()), Flushed::record_opening)
    }

    /// Records that it could be read.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn end_reading(&self) -> Result<(), DiskError> {
        self.record(self.lsn(), None)
    }

    /// Records how the files look of an index that was closed after a clean stop; nothing where it did not settle.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn rest(&self, files: Option<u64>) -> Result<(), DiskError> {
        let settled = self.kept().settled;
        settled.filter(|_| files.is_some()).map_or(Ok(()), |lsn| self.record(lsn, files))
    }

    fn settled(&self, lsn: Lsn) -> Result<(), DiskError> {
        self.kept().settled = Some(lsn);
        self.record(lsn, None)
    }

    /// Records how far the index is durable and, where it has come to rest, how its files look.
    fn record(&self, lsn: Lsn, files: Option<u64>) -> Result<(), DiskError> {
        let mut kept = self.kept();
        let doubted = kept.doubted;
        let flushed = kept.flushed.as_mut().filter(|_| !doubted);
        flushed.map_or(Ok(()), |flushed| flushed.record_rest(lsn, files))
    }
}

/// When a checkpoint or a recycling is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes applied since the last checkpoint after which there is another.
    pub checkpoint_bytes: u64,
    /// How long nothing may have come for the index to count as idle.
    pub idle: Duration,
    /// How long something that was applied may be unrecorded, however steadily more comes.
    pub unrecorded: Duration,
    /// Bytes held above which it is recycled when idle.
    pub held_bytes_idle: u64,
    /// Bytes held above which it is recycled at once.
    pub held_bytes_max: u64,
}

impl Pace {
    /// For proofs, which want many checkpoints and recyclings in a short time.
    pub(crate) const SMALL: Pace = Pace {
        checkpoint_bytes: 512 * 1024,
        idle: Duration::from_millis(limits::INDEX_IDLE_MS / 5),
        unrecorded: Duration::from_millis(limits::INDEX_UNRECORDED_MS_MAX / 5),
        held_bytes_idle: 1024 * 1024,
        held_bytes_max: 3 * 1024 * 1024,
    };
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            checkpoint_bytes: limits::CHECKPOINT_BYTES,
            idle: Duration::from_millis(limits::INDEX_IDLE_MS),
            unrecorded: Duration::from_millis(limits::INDEX_UNRECORDED_MS_MAX),
            held_bytes_idle: limits::INDEX_HELD_BYTES_IDLE,
            held_bytes_max: limits::INDEX_HELD_BYTES_MAX,
        }
    }
}

/// What is to be done besides applying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing now.
    Nothing,
    /// [`Applier::checkpoint`].
    Checkpoint,
    /// [`Applier::recycle`].
    Recycling,
}

/// A checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    /// The index is durable up to here.
    pub flushed: Lsn,
    /// Why that could not be recorded. The older record stands, and it is tried again once the index could be idle.
    pub unrecorded: Option<DiskError>,
}

/// The applier of one index.
pub struct Applier {
    engine: Arc<dyn Engine>,
    record: Record,
    pace: Pace,
    applied: Lsn,
    recorded: Lsn,
    /// Bytes applied since the last checkpoint.
    bytes: u64,
    /// Where they went: the first part of each key, which stands for a leaf.
    touched: HashSet<(Tree, [u8; 8])>,
    /// What the index took on disk after the last checkpoint; zero where that is not known.
    index_bytes: u64,
    /// What the last recycling could not give back.
    held_bytes_least: u64,
    /// When something was applied or tried last.
    active: Instant,
    /// When something that was applied will be unrecorded for too long; none where all is recorded.
    record_at: Option<Instant>,
    failed: bool,
}

/// Bytes of a frame's keys and values: what it takes in the log, roughly.
fn weight(frame: &Frame) -> u64 {
    let bytes: usize = frame.ops.iter().map(|op| op.key.len() + op.value.as_ref().map_or(0, Bytes::len)).sum();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Keys with the same beginning stand side by side, of one group mostly.
fn place(key: &[u8]) -> [u8; 8] {
    let mut place = [0; 8];
    place.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    place
}

impl Applier {
    /// An applier for this index, which stands where it says and is durable up to what is recorded.
    ///
    /// # Errors
    /// Where the index cannot say.
    pub fn new(engine: Arc<dyn Engine>, record: Record, pace: Pace, now: Instant) -> Result<Applier, EngineError> {
        let applied = engine.applied()?;
        let index_bytes = engine.disk_bytes();
        let recorded = record.lsn();
        Ok(Applier {
            engine,
            record,
            pace,
            applied,
            recorded,
            bytes: 0,
            touched: HashSet::new(),
            index_bytes,
            held_bytes_least: 0,
            active: now,
            record_at: (applied > recorded).then(|| now + pace.unrecorded),
            failed: false,
        })
    }

    /// Where the index stands.
    #[must_use]
    pub fn applied(&self) -> Lsn {
        self.applied
    }

    /// The record of what is durable.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Applies the next durable frame; returns where the index stands then.
    ///
    /// # Errors
    /// Where the index fails or has failed, or the frame is not the next one.
    pub fn step(&mut self, frame: &Frame, now: Instant) -> Result<Lsn, ApplyError> {
        self.check()?;
        if frame.lsn != self.applied.next() {
            return Err(ApplyError::OutOfOrder { applied: self.applied, found: frame.lsn });
        }
        let outcome = self.engine.apply(frame.lsn, &frame.ops);
        self.failed = outcome.is_err();
        outcome?;
        self.applied = frame.lsn;
        self.bytes = self.bytes.saturating_add(weight(frame));
        self.touched.extend(frame.ops.iter().map(|op| (op.tree, place(&op.key))));
        self.active = now;
        self.record_at.get_or_insert(now + self.pace.unrecorded);
        Ok(self.applied)
    }

    /// What is to be done before the next frame, if none has come until now.
    #[must_use]
    pub fn due(&self, now: Instant) -> Due {
        let idle = now.saturating_duration_since(self.active) >= self.pace.idle;
        let held = self.held_bytes();
        let too_long = self.record_at.is_some_and(|at| at <= now);
        if self.failed {
            Due::Nothing
        } else if held >= self.pace.held_bytes_max || idle && held >= self.pace.held_bytes_idle {
            Due::Recycling
        } else if self.bytes >= self.pace.checkpoint_bytes || too_long || idle && self.applied > self.recorded {
            Due::Checkpoint
        } else {
            Due::Nothing
        }
    }

    /// When something becomes due if no frame comes until then.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        let waits = self.applied > self.recorded || self.held_bytes() >= self.pace.held_bytes_idle;
        let idle_at = waits.then(|| self.active + self.pace.idle);
        idle_at.into_iter().chain(self.record_at).min().filter(|_| !self.failed)
    }

    /// How much disk the next checkpoint may take: what was applied, and the leaves around it, written anew.
    #[must_use]
    pub fn checkpoint_room(&self) -> u64 {
        let leaves = u64::try_from(self.touched.len()).unwrap_or(u64::MAX);
        // However many places were touched, no more is written anew than there is.
        let all = if self.index_bytes == 0 { u64::MAX } else { self.index_bytes.saturating_add(self.bytes) };
        self.bytes.saturating_add(leaves.saturating_mul(limits::LEAF_ROOM_BYTES).min(all))
    }

    /// There is no room for what is due: it is asked for again later, as if something had just been applied.
    pub fn postpone(&mut self, now: Instant) {
        self.active = now;
        self.record_at = self.record_at.map(|at| at.max(now + self.pace.idle));
    }

    /// There is no room to make durable what was applied, and it ends: the next start replays it from the log.
    pub fn leave(&self) {
        self.engine.leave();
    }

    /// Makes durable what was applied, and records it.
    ///
    /// # Errors
    /// Where the index fails or has failed.
    pub fn checkpoint(&mut self, now: Instant) -> Result<Checkpoint, ApplyError> {
        self.check()?;
        let outcome = self.engine.flush();
        self.failed = outcome.is_err();
        let flushed = outcome?;
        self.bytes = 0;
        self.touched.clear();
        self.index_bytes = self.engine.disk_bytes();
        // Until it is recorded it is tried again.
        self.postpone(now);
        let recorded = if flushed > self.recorded { self.record.record(flushed, None) } else { Ok(()) };
        if recorded.is_ok() {
            self.recorded = self.recorded.max(flushed);
            self.record_at = (self.applied > self.recorded).then(|| now + self.pace.unrecorded);
        }
        Ok(Checkpoint { flushed, unrecorded: recorded.err() })
    }

    /// The last checkpoint, at a clean stop: nothing is applied any more.
    ///
    /// # Errors
    /// As [`Applier::checkpoint`].
    pub fn finish(&mut self) -> Result<Checkpoint, ApplyError> {
        self.check()?;
        let outcome = self.engine.settle();
        self.failed = outcome.is_err();
        let flushed = outcome?;
        Ok(Checkpoint { flushed, unrecorded: self.record.settled(flushed).err() })
    }

    /// Gives memory back: a checkpoint, then the index is closed and opened anew.
    ///
    /// # Errors
    /// Where the index fails or has failed, or does not hold afterwards what it held before.
    pub fn recycle(&mut self, now: Instant) -> Result<Checkpoint, ApplyError> {
        let checkpoint = self.checkpoint(now)?;
        let outcome = self.engine.recycle().and_then(|()| self.engine.applied());
        self.failed = outcome.as_ref().ok() != Some(&self.applied);
        let found = outcome?;
        if self.failed {
            return Err(ApplyError::NotTheSame { left: self.applied, found });
        }
        self.held_bytes_least = self.engine.held_bytes();
        Ok(checkpoint)
    }

    /// What a recycling would give back.
    fn held_bytes(&self) -> u64 {
        self.engine.held_bytes().saturating_sub(self.held_bytes_least)
    }

    fn check(&self) -> Result<(), EngineError> {
        if self.failed {
            return Err(EngineError::Write("it has failed before".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
