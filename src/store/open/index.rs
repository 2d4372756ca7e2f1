//! What becomes of the index when a store is opened: it is taken as it is, or rebuilt from the log.
//!
//! It is rebuilt when that was asked for, when nothing valid is recorded about it, when it is in doubt, when two attempts
//! to open it were begun and never ended, when its files are not as a clean stop left them (each may be whole, and one of
//! another time), when there is none, when it fails, and when it holds less than is recorded.
//! It is never mended, and never filled up from a state that is not known. What is *ahead* of the log's end, the index
//! or the record, is not doubt about the index but damage to the log, and is never answered by a rebuild.
//!
//! Doubt is recorded before the old index is set aside, and taken back only once the new one is durable. So whatever
//! interrupts a rebuild, the next start begins it anew. That an attempt is begun is recorded before the index is
//! touched; that it ended, with the lsn that stood there, and not with what the index says now: after a kill it may hold
//! frames that the system has not yet written to the disk.

use std::path::Path;
use std::sync::Arc;

use crate::disk::SharedDisk;
use crate::ids::Lsn;
use crate::proof::{self, Wrong};
use crate::store::engine::{Engine, EngineError, Index, Op};
use crate::store::error::StoreError;
use crate::store::flushed::Flushed;
use crate::store::format::StoreId;
use crate::store::log::{self, Frame, LogOptions, SettledLog, Survey};
use crate::store::open::space::{self, Old};
use crate::store::open::told::{Progress, Reason};
use crate::store::records::CursorRecord;
use crate::store::tree::Tree;

/// So many attempts to open the index may end without a word (a hang, an abort, a kill) before it is rebuilt.
pub(in crate::store) const OPENS_MAX: u8 = 2;

/// The index of a folder that is being opened.
pub(super) struct Opening<'a> {
    pub(super) disk: &'a SharedDisk,
    /// The data folder.
    pub(super) folder: &'a Path,
    pub(super) index: Arc<dyn Index>,
    pub(super) store: StoreId,
    pub(super) flushed: Flushed,
    /// Memory that the index may hold for what is put into it, before it has to give that back.
    pub(super) held_bytes_max: u64,
    pub(super) progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// An index that holds all of the log.
pub(super) struct Filled {
    pub(super) engine: Arc<dyn Engine>,
    /// Frames that it lacked.
    pub(super) frames: u64,
    /// Messages among them.
    messages: u64,
}

impl Opening<'_> {
    /// The lsn up to which the index was durable once, whatever became of it: the log cannot end before it.
    pub(super) fn recorded(&self) -> Lsn {
        self.flushed.known().unwrap_or_default().lsn
    }

    /// Looks at the log.
    pub(super) fn survey(&mut self, options: LogOptions) -> Result<Survey, StoreError> {
        let progress = &mut *self.progress;
        log::survey(self.disk, &log::folder_in(self.folder), options, &mut |segment, segments| {
            progress(Progress::Checking { segment, segments })
        })
    }

    /// Why the index is not even opened.
    pub(super) fn refused(&self) -> Option<Reason> {
        match self.flushed.known() {
            None => Some(Reason::Unrecorded),
            Some(known) if known.doubt => Some(Reason::InDoubt),
            Some(known) if known.opens >= OPENS_MAX => Some(Reason::NeverOpened { opens: known.opens }),
            Some(known) if known.are_others(self.index.files()) => Some(Reason::Changed),
            Some(_) => None,
        }
    }

    /// Opens the index, beside a log that was surveyed.
    pub(super) fn open(&mut self, survey: &Survey) -> Result<Result<Arc<dyn Engine>, Reason>, StoreError> {
        let recorded = self.recorded();
        // Where it failed for want of room it would be in doubt, and be rebuilt, for which there is even less.
        space::for_open(&**self.disk, self.folder)?;
        let opens = self.flushed.known().unwrap_or_default().opens;
        self.flushed.record_opening()?;
        let opened = self.index.open(self.store).and_then(|engine| match engine {
            Some(engine) => Ok(Some((engine.applied()?, engine))),
            None => Ok(None),
        });
        let (applied, engine) = match opened {
            Ok(Some(opened)) => opened,
            Ok(None) => return self.doubt(Reason::Missing),
            Err(error @ (EngineError::Stalled(_) | EngineError::Busy)) => {
                // Nothing else can be asked of it in this process.
                self.flushed.record_doubt()?;
                return Err(error.into());
            }
            Err(error) => return self.doubt(Reason::Failed(error.to_string())),
        };
        self.flushed.record_opened(recorded, opens)?;
        survey.check_reaches(applied, "holds it")?;
        if applied < recorded && !proof::is(Wrong::RolledBackIndexKept) {
            return self.doubt(Reason::Behind { applied, recorded });
        }
        Ok(Ok(engine))
    }

    /// It is recorded at once: what comes next may end the start.
    fn doubt(&mut self, reason: Reason) -> Result<Result<Arc<dyn Engine>, Reason>, StoreError> {
        self.flushed.record_doubt()?;
        Ok(Err(reason))
    }

    /// What was set aside is in nobody's way: that it stays is told, and changes nothing.
    fn remove_old(&mut self) {
        if let Err(error) = self.index.remove_old() {
            (self.progress)(Progress::OldStays(error.to_string()));
        }
    }

    /// Puts into an index that is as it was left what it lacks.
    pub(super) fn replay(&mut self, engine: Arc<dyn Engine>, log: &SettledLog) -> Result<Filled, StoreError> {
        let done = self.fill_from(engine, log);
        if let Err(StoreError::Index(error)) = &done
            && error.is_doubt()
        {
            self.flushed.record_doubt()?;
        }
        done
    }

    fn fill_from(&mut self, engine: Arc<dyn Engine>, log: &SettledLog) -> Result<Filled, StoreError> {
        // What a rebuild set aside before it was interrupted right at its end.
        self.remove_old();
        let mut after = engine.applied()?;
        if proof::is(Wrong::RolledBackIndexKept) {
            after = after.max(self.recorded());
        }
        let held_bytes_max = self.held_bytes_max;
        let Opening { disk, folder, flushed, progress, .. } = self;
        fill(engine, log, after, progress, &mut |engine, lsn| {
            if engine.held_bytes() > held_bytes_max && space::may_flush(&***disk, folder)? {
                give_back(engine, lsn)?;
                flushed.record(lsn)?;
            }
            Ok(())
        })
    }

    /// Sets the old index aside, or drops it where there is not room for both, and fills a new one from the log.
    pub(super) fn rebuild(&mut self, reason: Option<Reason>, log: &SettledLog) -> Result<Filled, StoreError> {
        // What there is no room for is not begun; it is told first, as there may be none for the record either.
        let old = space::for_rebuild(&**self.disk, self.folder, log.bytes());
        let recorded = self.flushed.record_doubt();
        let old = old?;
        recorded?;
        let is_told = reason.is_some();
        if let Some(reason) = reason {
            (self.progress)(Progress::Rebuilding(reason));
        }
        let filled = self
            .fill_anew(old, log)
            .map_err(|failure| space::explain(&**self.disk, self.folder, log.bytes(), failure))?;
        self.remove_old();
        if is_told {
            (self.progress)(Progress::Rebuilt { messages: filled.messages });
        }
        Ok(filled)
    }

    fn fill_anew(&mut self, old: Old, log: &SettledLog) -> Result<Filled, StoreError> {
        let engine = self.index.begin(self.store)?;
        if old == Old::Dropped {
            self.index.remove_old()?;
        }
        let held_bytes_max = self.held_bytes_max;
        let filled = fill(engine, log, Lsn::ZERO, self.progress, &mut |engine, lsn| {
            if engine.held_bytes() > held_bytes_max { give_back(engine, lsn) } else { Ok(()) }
        })?;
        self.flushed.record(filled.engine.flush()?)?;
        Ok(filled)
    }

    /// Fills an index that is never kept.
    pub(super) fn fill_new(&mut self, log: &SettledLog) -> Result<Filled, StoreError> {
        let engine = self.index.begin(self.store)?;
        fill(engine, log, Lsn::ZERO, self.progress, &mut |_, _| Ok(()))
    }
}

/// Makes room in memory. What the index held before it must hold afterwards.
fn give_back(engine: &dyn Engine, lsn: Lsn) -> Result<(), StoreError> {
    engine.flush()?;
    engine.recycle()?;
    let applied = engine.applied()?;
    if applied == lsn {
        return Ok(());
    }
    let lost = format!("it was closed at frame {lsn} and opened again at frame {applied}");
    Err(EngineError::Write(lost).into())
}

/// Applies the frames above this lsn; after each the index may make room.
fn fill(
    engine: Arc<dyn Engine>,
    log: &SettledLog,
    after: Lsn,
    progress: &mut (dyn FnMut(Progress) + Send),
    make_room: &mut dyn FnMut(&dyn Engine, Lsn) -> Result<(), StoreError>,
) -> Result<Filled, StoreError> {
    let mut told = 0;
    let mut messages = 0;
    let frames = log.replay(after, &mut |mut frame, segment, segments| {
        if proof::is(Wrong::FrameSkippedAtOpen) && frame.lsn == log.last() {
            frame.ops.clear();
        }
        if proof::is(Wrong::RelativeOp) {
            cursors_as_steps(&*engine, &mut frame.ops)?;
        }
        engine.apply(frame.lsn, &frame.ops)?;
        messages += messages_in(&frame);
        make_room(&*engine, frame.lsn)?;
        if segment != told {
            told = segment;
            progress(Progress::Filling { segment, segments, lsn: frame.lsn, messages });
        }
        Ok(())
    })?;
    Ok(Filled { engine, frames, messages })
}

/// A deliberate fault: reads a cursor in the log as one step from where the index has it, not as where it stands.
fn cursors_as_steps(engine: &dyn Engine, ops: &mut [Op]) -> Result<(), StoreError> {
    for op in ops.iter_mut().filter(|op| op.tree == Tree::Cursors) {
        let held = engine.get(op.tree, &op.key)?;
        if let Some(Ok(mut cursor)) = held.map(|held| CursorRecord::decode(&held)) {
            cursor.msgid = cursor.msgid.next();
            op.value = Some(cursor.encode());
        }
    }
    Ok(())
}

fn messages_in(frame: &Frame) -> u64 {
    let puts = frame.ops.iter().filter(|op| op.tree == Tree::Messages && op.value.is_some());
    u64::try_from(puts.count()).unwrap_or(u64::MAX)
}
