//! Appending to the log: a frame is built in one buffer, written with one system call, and synced before the next.
//!
//! After any failure the writer latches: what became of the frame is known only when the log is opened again. The next
//! segment is made ahead by a [`Preparer`], so that a commit does not wait while 16 MB of zeros are written; without
//! one, or where it lags, the writer makes it itself.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::disk::{File, Lock, SharedDisk};
use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::error::StoreError;
use crate::store::format::StoreId;
use crate::store::log::condense::{Condenser, Limit, NamesInDoubt};
use crate::store::log::frame::{self, Head};
use crate::store::log::segment::{SEGMENT_HEAD_BYTES, Segment};
use crate::store::wide;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Where segments are made, and how large.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) store: StoreId,
    pub(super) segment_bytes: u64,
}

/// The one writer of a log.
#[derive(Debug)]
pub struct LogWriter {
    ahead: Arc<Ahead>,
    current: Segment,
    file: Box<dyn File>,
    offset: u64,
    last: Lsn,
    synced: Lsn,
    sealed: bool,
    latched: Option<String>,
    buffer: Vec<u8>,
    /// The folder's lock lives as long as its only writer.
    lock: Option<Box<dyn Lock>>,
}

/// How large a log is.
#[derive(Debug, Clone)]
pub struct Figures {
    ahead: Arc<Ahead>,
}

impl Figures {
    /// Bytes that the segments up to the current one take on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.ahead.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the operations that put what is there, when that was counted last; zero where it was not yet.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.ahead.live.load(Ordering::Relaxed)
    }
}

/// Makes the next segment ahead of need, on whichever thread calls it.
#[derive(Debug, Clone)]
pub struct Preparer {
    ahead: Arc<Ahead>,
}

/// What the writer shares with whoever makes segments ahead of it, and whoever condenses those behind it.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) disk: SharedDisk,
    pub(super) place: Place,
    next: Mutex<Next>,
    changed: Condvar,
    /// The number of the segment that is written to: those below it are sealed.
    pub(super) current: AtomicU64,
    /// Up to where everything is durable.
    pub(super) synced: AtomicU64,
    /// Bytes of all segments up to the current one.
    pub(super) bytes: AtomicU64,
    /// Up to where all that is dead is to be taken out, to the last byte.
    pub(super) wish: AtomicU64,
    /// Bytes of rows that were live when that was counted last; zero before.
    pub(super) live: AtomicU64,
}

#[derive(Debug)]
struct Next {
    ready: VecDeque<Segment>,
    number: u64,
    making: bool,
}

/// Where a log ends.
pub(super) struct End {
    /// The segment that frames are appended to, and from which byte on.
    pub(super) current: Segment,
    pub(super) offset: usize,
    /// The last frame, and whether it is a seal.
    pub(super) last: Lsn,
    pub(super) sealed: bool,
    /// Bytes of all segments up to the current one.
    pub(super) bytes: u64,
}

impl Ahead {
    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, number: u64, bytes: u64) -> Result<Segment, StoreError> {
        Segment::create(&*self.disk, &self.place.folder, self.place.store, number, bytes)
    }

    /// The next segment, with room for a frame of this size: one made ahead, else one made now.
    fn take(&self, frame_bytes: u64) -> Result<Segment, StoreError> {
        let mut next = self.next();
        while next.making {
            next = self.changed.wait(next).unwrap_or_else(PoisonError::into_inner);
        }
        let bytes_min = frame_bytes.saturating_add(wide(SEGMENT_HEAD_BYTES));
        let bytes = self.place.segment_bytes.max(bytes_min);
        let segment = if let Some(ready) = next.ready.pop_front() {
            // It is empty; where it is too small, one of the same number takes its place.
            if ready.bytes >= bytes_min { ready } else { self.create(ready.number, bytes)? }
        } else {
            let made = self.create(next.number, bytes)?;
            next.number += 1;
            made
        };
        self.changed.notify_all();
        Ok(segment)
    }
}

impl Preparer {
    /// Makes the next segment, unless there is one; says whether it did.
    ///
    /// # Errors
    /// Where the disk refuses. Nothing is lost by that yet: the writer tries again when it needs the segment.
    pub fn prepare(&self) -> Result<bool, StoreError> {
        let mut next = self.ahead.next();
        if next.making || !next.ready.is_empty() {
            return Ok(false);
        }
        next.making = true;
        let number = next.number;
        drop(next);
        let made = self.ahead.create(number, self.ahead.place.segment_bytes);
        let mut next = self.ahead.next();
        next.making = false;
        let made = made.map(|segment| {
            next.ready.push_back(segment);
            next.number += 1;
        });
        self.ahead.changed.notify_all();
        made.map(|()| true)
    }

    /// Waits until the next segment is wanted, at most this long; says whether it is.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let next = self.ahead.next();
        let busy = |next: &mut Next| next.making || !next.ready.is_empty();
        let waited = self.ahead.changed.wait_timeout_while(next, timeout, busy);
        let (mut next, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !busy(&mut next)
    }
}

impl LogWriter {
    /// A writer at the end of a log that was opened; what is there is synced.
    pub(super) fn at_end(
        disk: &SharedDisk,
        place: Place,
        end: End,
        ready: VecDeque<Segment>,
    ) -> Result<LogWriter, StoreError> {
        let End { current, offset, last, sealed, bytes } = end;
        let file = disk.open(&current.path)?;
        let number = ready.back().map_or(current.number, |segment| segment.number).saturating_add(1);
        let ahead = Ahead {
            disk: Arc::clone(disk),
            place,
            next: Mutex::new(Next { ready, number, making: false }),
            changed: Condvar::new(),
            current: AtomicU64::new(current.number),
            synced: AtomicU64::new(last.value()),
            bytes: AtomicU64::new(bytes),
            wish: AtomicU64::new(0),
            live: AtomicU64::new(0),
        };
        Ok(LogWriter {
            ahead: Arc::new(ahead),
            current,
            file,
            offset: wide(offset),
            last,
            synced: last,
            sealed,
            latched: None,
            buffer: Vec::new(),
            lock: None,
        })
    }

    /// Keeps the folder locked for as long as this writer lives.
    pub(in crate::store) fn hold(&mut self, lock: Box<dyn Lock>) {
        self.lock = Some(lock);
    }

    /// What makes the next segment ahead.
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        Preparer { ahead: Arc::clone(&self.ahead) }
    }

    /// What condenses the segments behind it. There is one for a log.
    ///
    /// `limit` says from where on the index would read the log after a kill: nothing above that is condensed. What is in
    /// doubt of the log's names outlives it: whoever opens the log anew in the same process hands the same on.
    #[must_use]
    pub fn condenser(&self, limit: Limit, names_in_doubt: NamesInDoubt) -> Condenser {
        Condenser::new(Arc::clone(&self.ahead), limit, names_in_doubt)
    }

    /// Bytes that the segments up to the current one take on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.figures().disk_bytes()
    }

    /// How large it is, for whoever wants to know it later.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures { ahead: Arc::clone(&self.ahead) }
    }

    /// Wants everything that is dead now gone from the log, to the last byte, and soon: frames from here on go to another
    /// segment, so that this one can be condensed.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn wipe(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        if self.offset > wide(SEGMENT_HEAD_BYTES) {
            self.roll(0).map_err(|error| self.latch(error))?;
        }
        self.ahead.wish.fetch_max(self.synced.value(), Ordering::Release);
        Ok(())
    }

    /// The lsn of the last frame appended.
    #[must_use]
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// The lsn up to which everything is durable.
    #[must_use]
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// The lsn that the next frame will have.
    #[must_use]
    pub fn next(&self) -> Lsn {
        self.last.next()
    }

    /// Writes one frame. It is not durable, and nothing of it may be told, before [`LogWriter::sync`].
    ///
    /// # Errors
    /// Where the frame before is not synced, or this one is too large; then nothing was written. Where the disk
    /// refuses, or did before: then it is unknown what is kept until the store is opened again.
    pub fn append(&mut self, ops: &[Op]) -> Result<Lsn, StoreError> {
        self.write(Some(ops))
    }

    /// Makes the last frame durable.
    ///
    /// # Errors
    /// Where the disk refuses, or did before: then it is unknown what is kept until the store is opened again.
    pub fn sync(&mut self) -> Result<Lsn, StoreError> {
        self.check_latch()?;
        if self.synced < self.last {
            if let Err(error) = self.file.sync() {
                return Err(self.latch(error.into()));
            }
            self.synced = self.last;
            self.ahead.synced.store(self.synced.value(), Ordering::Release);
        }
        Ok(self.synced)
    }

    /// Ends the log cleanly: a frame that says that everything before it is synced, itself synced.
    ///
    /// # Errors
    /// As [`LogWriter::append`] and [`LogWriter::sync`].
    pub fn seal(&mut self) -> Result<Lsn, StoreError> {
        self.sync()?;
        if !self.sealed {
            self.write(None)?;
            self.sync()?;
        }
        Ok(self.synced)
    }

    fn write(&mut self, ops: Option<&[Op]>) -> Result<Lsn, StoreError> {
        self.check_latch()?;
        if self.synced < self.last {
            return Err(StoreError::Unsynced { lsn: self.last });
        }
        self.build(ops)?;
        if self.offset.saturating_add(wide(self.buffer.len())) > self.current.bytes {
            if let Err(error) = self.roll(self.buffer.len()) {
                return Err(self.latch(error));
            }
            // Another segment, another nonce.
            self.build(ops)?;
        }
        if let Err(error) = self.file.write_at(self.offset, &self.buffer) {
            return Err(self.latch(error.into()));
        }
        self.offset = self.offset.saturating_add(wide(self.buffer.len()));
        self.last = self.last.next();
        self.sealed = ops.is_none();
        Ok(self.last)
    }

    fn build(&mut self, ops: Option<&[Op]>) -> Result<(), StoreError> {
        let nonce = self.current.nonce;
        let head = Head { lsn: self.last.next(), previous: self.last, synced: self.synced, nonce };
        if frame::build(&mut self.buffer, head, ops) {
            Ok(())
        } else {
            Err(StoreError::FrameTooLarge { bytes: self.buffer.len() })
        }
    }

    /// Goes on in the next segment, which has room for a frame of this size. All of this one is synced.
    fn roll(&mut self, frame_bytes: usize) -> Result<(), StoreError> {
        let segment = self.ahead.take(wide(frame_bytes))?;
        self.file = self.ahead.disk.open(&segment.path)?;
        self.ahead.bytes.fetch_add(segment.bytes, Ordering::Relaxed);
        self.ahead.current.store(segment.number, Ordering::Release);
        self.current = segment;
        self.offset = wide(SEGMENT_HEAD_BYTES);
        Ok(())
    }

    fn check_latch(&self) -> Result<(), StoreError> {
        match &self.latched {
            Some(cause) => Err(StoreError::Latched { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    fn latch(&mut self, error: StoreError) -> StoreError {
        self.latched = Some(error.to_string());
        error
    }
}
