//! Appending to the log: a frame is built in one buffer, written with one system call, and synced before the next.
//!
//! After any failure the writer latches: what became of the frame is known only when the log is opened again. The next
//! segment is made ahead by a [`Preparer`], so that a commit does not wait while 16 MB of zeros are written; without
//! one, or where it lags, the writer makes it itself.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::disk::{File, Lock, SharedDisk};
use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::error::StoreError;
use crate::store::format::StoreId;
use crate::store::log::frame::{self, Head};
use crate::store::log::segment::{SEGMENT_HEAD_BYTES, Segment};
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

/// Makes the next segment ahead of need, on whichever thread calls it.
#[derive(Debug, Clone)]
pub struct Preparer {
    ahead: Arc<Ahead>,
}

#[derive(Debug)]
struct Ahead {
    disk: SharedDisk,
    place: Place,
    next: Mutex<Next>,
    changed: Condvar,
}

#[derive(Debug)]
struct Next {
    ready: VecDeque<Segment>,
    number: u64,
    making: bool,
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
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
        current: Segment,
        offset: usize,
        ready: VecDeque<Segment>,
        last: Lsn,
        sealed: bool,
    ) -> Result<LogWriter, StoreError> {
        let file = disk.open(&current.path)?;
        let number = ready.back().map_or(current.number, |segment| segment.number).saturating_add(1);
        let next = Mutex::new(Next { ready, number, making: false });
        Ok(LogWriter {
            ahead: Arc::new(Ahead { disk: Arc::clone(disk), place, next, changed: Condvar::new() }),
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

    /// Bytes that the segments up to the current one take on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.current.number.saturating_mul(self.ahead.place.segment_bytes)
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
            if let Err(error) = self.roll() {
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

    /// Goes on in the next segment. All of this one is synced.
    fn roll(&mut self) -> Result<(), StoreError> {
        let segment = self.ahead.take(wide(self.buffer.len()))?;
        self.file = self.ahead.disk.open(&segment.path)?;
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
