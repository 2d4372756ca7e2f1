//! A stopped folder, checked whole and as it lies: `FORMAT`, `flushed`, every frame of the log, what its rows say of one
//! another, and the index beside the log.
//!
//! It repairs nothing, and goes on after what it finds wherever that has a meaning. The log is only read. The index is
//! opened as the next start would do it, by the same guarded door, and only where the next start would: an index that is
//! in doubt is rebuilt then, and a damaged log ends that start before it. How its files look is recorded anew afterwards:
//! opening and closing may change that. Nothing else is written.
//!
//! Memory is bounded: a segment, some 64 MB of digests while log and index are compared (`against`), what a server
//! holds of groups and people (`rows`), and [`ABOVE_BYTES_MAX`] of frames that no index has.

mod against;
mod row;
mod rows;
mod said;
mod source;
mod view;

use std::path::Path;
use std::sync::Arc;

use self::against::{Comparison, ROWS_AT_ONCE};
pub use self::row::{Border, Meaning, Understand};
pub use self::rows::Counted;
use self::rows::Rows;
use self::said::Report;
pub use self::said::{Check, Event, Said, Step, Tell};
use self::source::{Read, Source};
use self::view::{Above, View};
use crate::disk::{Disk, DiskError, SharedDisk};
use crate::ids::Lsn;
use crate::store::engine::{Engine, EngineError, Index};
use crate::store::error::StoreError;
use crate::store::flushed::{self, FLUSHED_NAME, Flushed, Known, Slot};
use crate::store::format::{Format, path_in};
use crate::store::index::{INDEX_NAME, INDEX_OLD_NAME};
use crate::store::log;
use crate::store::open::{OPENS_MAX, lock};

/// Rows of frames that no index has are kept in memory, up to so many bytes.
pub const ABOVE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// What a check needs.
pub struct Options {
    /// The index of the folder.
    pub index: Arc<dyn Index>,
    /// Understands rows as a server does.
    pub understand: Box<Understand>,
    /// Rows of log and index that are compared at once.
    pub rows_at_once: usize,
    /// See [`ABOVE_BYTES_MAX`].
    pub above_bytes_max: u64,
}

impl Options {
    /// The usual bounds.
    #[must_use]
    pub fn new(index: Arc<dyn Index>, understand: Box<Understand>) -> Options {
        Options { index, understand, rows_at_once: ROWS_AT_ONCE, above_bytes_max: ABOVE_BYTES_MAX }
    }
}

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// What is wrong, in all.
    pub findings: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Frames that could be read.
    pub frames: u64,
    /// The last one.
    pub last: Lsn,
    /// Whether that is the seal of a clean stop.
    pub sealed: bool,
    /// Puts and removes in them.
    pub operations: u64,
    /// Rows of the index, if it was compared with the log.
    pub index_rows: Option<u64>,
    /// Rows that were held against one another, if they were.
    pub rows: Option<Counted>,
}

/// Checks the data folder, and tells what it finds on the way.
///
/// # Errors
/// Where it can't be checked at all: another process has it, it is none, or FORMAT is damaged or a newer version's.
pub fn verify(disk: &SharedDisk, folder: &Path, options: &Options, tell: Tell<'_>) -> Result<Verified, StoreError> {
    format(&**disk, folder)?;
    let _lock = lock(&**disk, folder)?;
    // Looked at again: another process may have changed it before the lock was ours.
    let format = format(&**disk, folder)?;
    let mut report = Report::new(tell);
    let known = recorded(disk, folder, format, &mut report)?;
    let flushed = known.map_or(Lsn::ZERO, |known| known.lsn);

    let source = Source { disk: &**disk, folder: log::folder_in(folder), store: format.store };
    let mut above = Above::new(options.above_bytes_max);
    let Read { walked, operations } = source.check(flushed, &mut above, &*options.understand, &mut report);
    end_of_log(&source, walked, flushed, &mut report);

    let mut verified = Verified {
        segments: u64::try_from(walked.segments).unwrap_or(u64::MAX),
        log_bytes: walked.bytes,
        frames: walked.frames,
        last: walked.last,
        sealed: walked.sealed,
        operations,
        ..Verified::default()
    };
    let is_log_whole = walked.faults == 0 && walked.last >= flushed;
    let index = Beside { disk, folder, options, format, known, last: walked.last };
    let engine = index.open(is_log_whole, &mut report).filter(|engine| index.stands(&**engine, &mut report));
    let was_opened = engine.is_some();
    if let Some(engine) = &engine {
        verified.index_rows = index.compare(&source, &**engine, &mut report);
    }
    let usable = engine.filter(|_| verified.index_rows.is_some());
    if usable.is_none() && flushed > Lsn::ZERO {
        above = Above::new(options.above_bytes_max);
        source.above(Lsn::ZERO, &mut above, &mut report);
    }
    verified.rows = rows(above.over(usable), &*options.understand, &mut report);
    verified.findings = report.end();
    if was_opened {
        index.at_rest_again()?;
    }
    Ok(verified)
}

/// Reads FORMAT, which must be there.
fn format(disk: &dyn Disk, folder: &Path) -> Result<Format, StoreError> {
    if let Some(format) = Format::read(disk, folder)? {
        return Ok(format);
    }
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no data folder here");
    Err(DiskError { action: "read", path: path_in(folder), source }.into())
}

/// What is recorded of the index.
fn recorded(
    disk: &SharedDisk,
    folder: &Path,
    format: Format,
    report: &mut Report<'_>,
) -> Result<Option<Known>, StoreError> {
    let old = folder.join(INDEX_OLD_NAME);
    if disk.exists(&old)? {
        let what = "it was set aside for a rebuild that did not come to its end; the next start removes it";
        report.remark(Said::of(Check::Folder, &old, what));
    }
    let path = folder.join(FLUSHED_NAME);
    let known = Flushed::read(disk, folder, format.store)?.known();
    let slots = flushed::slots_in(&**disk, folder, format.store)?;
    let damaged = slots.iter().filter(|slot| **slot == Slot::Damaged).count();
    if !slots.is_empty() && known.is_none() {
        let what = "neither of its two records can be read; the next start rebuilds the index from the log";
        report.finding(Said::of(Check::Folder, &path, what));
    } else if damaged > 0 {
        let what =
            "one of its two records cannot be read, as after a power loss while it was written; the other counts";
        report.remark(Said::of(Check::Folder, &path, what));
    }
    Ok(known)
}

/// How the log ends, beside what is recorded.
fn end_of_log(source: &Source<'_>, walked: log::Walked, flushed: Lsn, report: &mut Report<'_>) {
    if walked.last < flushed {
        let what = format!("the log ends with frame {}, but the index was flushed up to {flushed}", walked.last);
        report.finding(Said::of(Check::Log, &source.folder, what));
    } else if walked.frames > 0 && !walked.sealed {
        let what = format!(
            "frame {}, the last, is no seal: the server did not end in order; the next start makes the end whole",
            walked.last
        );
        report.remark(Said::of(Check::Log, &source.folder, what));
    }
}

/// The index of the folder, beside its log.
struct Beside<'a> {
    disk: &'a SharedDisk,
    folder: &'a Path,
    options: &'a Options,
    format: Format,
    known: Option<Known>,
    last: Lsn,
}

impl Beside<'_> {
    fn remark(&self, what: impl Into<String>, report: &mut Report<'_>) {
        report.remark(Said::of(Check::Index, &self.folder.join(INDEX_NAME), what));
    }

    fn finding(&self, what: impl Into<String>, report: &mut Report<'_>) {
        report.finding(Said::of(Check::Index, &self.folder.join(INDEX_NAME), what));
    }

    /// Its files may look otherwise from here on, however this ends.
    fn not_at_rest(&self) -> Result<(), DiskError> {
        match self.known {
            Some(Known { lsn, files: Some(_), .. }) => {
                Flushed::read(self.disk, self.folder, self.format.store)?.record(lsn)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// It is closed again, for which it may have moved what it holds: its files are those that it rests with now.
    fn at_rest_again(&self) -> Result<(), DiskError> {
        match self.known {
            Some(Known { lsn, files: Some(_), .. }) => {
                Flushed::read(self.disk, self.folder, self.format.store)?.record_rest(lsn, self.options.index.rest())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Opens it, where the next start would.
    fn open(&self, is_log_whole: bool, report: &mut Report<'_>) -> Option<Arc<dyn Engine>> {
        if !self.options.index.is_kept() {
            return None;
        }
        if !is_log_whole {
            self.remark("it was not looked at: no server starts on this log", report);
            return None;
        }
        match self.known {
            None => {
                self.remark("nothing is recorded of an index; the next start makes one from the log", report);
                return None;
            }
            Some(Known { doubt: true, .. }) => {
                self.remark("it is recorded as in doubt; the next start rebuilds it from the log", report);
                return None;
            }
            Some(Known { opens: OPENS_MAX.., .. }) => {
                self.remark("two attempts to open it did not end; the next start rebuilds it from the log", report);
                return None;
            }
            Some(known) if known.are_others(self.options.index.files()) => {
                let what =
                    "its files are not as the last clean stop left them; the next start rebuilds it from the log";
                self.finding(what, report);
                return None;
            }
            Some(_) => {}
        }
        if let Err(error) = self.not_at_rest() {
            self.remark(format!("it was not looked at: {error}"), report);
            return None;
        }
        match self.options.index.open(self.format.store) {
            Ok(Some(engine)) => Some(engine),
            Ok(None) => {
                self.finding("it is missing; the next start rebuilds it from the log", report);
                None
            }
            Err(error) => {
                self.failed(&error, report);
                None
            }
        }
    }

    fn failed(&self, error: &EngineError, report: &mut Report<'_>) {
        self.finding(format!("{error}; the next start rebuilds it from the log"), report);
    }

    /// Whether it stands where it can: not behind what is recorded, not ahead of the log.
    fn stands(&self, engine: &dyn Engine, report: &mut Report<'_>) -> bool {
        let applied = match engine.applied() {
            Ok(applied) => applied,
            Err(error) => {
                self.failed(&error, report);
                return false;
            }
        };
        let flushed = self.known.map_or(Lsn::ZERO, |known| known.lsn);
        if applied > self.last {
            // The log has lost something then: no start rebuilds that away.
            let what = format!("it holds frames up to {applied}, but the log ends with {}", self.last);
            report.finding(Said::of(Check::Log, &self.folder.join(INDEX_NAME), what));
            return false;
        }
        if applied < flushed {
            let what = format!(
                "it holds frames up to {applied}, but was flushed up to {flushed}; the next start rebuilds it from the log"
            );
            self.finding(what, report);
            return false;
        }
        let behind = self.last.value() - applied.value();
        if behind > 0 {
            self.remark(format!("{behind} frames of the log are not in it yet; the next start replays them"), report);
        }
        true
    }

    /// Compares it with the log; returns how many rows it has.
    fn compare(&self, source: &Source<'_>, engine: &dyn Engine, report: &mut Report<'_>) -> Option<u64> {
        let rows_at_once = self.options.rows_at_once;
        let compared =
            engine.applied().and_then(|applied| Comparison { source, engine, applied, rows_at_once }.run(report));
        let unread = |error| self.finding(format!("{error}; `gaggle rebuild` makes it anew from the log"), report);
        compared.map_err(unread).ok()
    }
}

/// Holds the rows against one another.
fn rows(view: Option<View>, understand: &Understand, report: &mut Report<'_>) -> Option<Counted> {
    let Some(view) = view else {
        let what = "what rows say of one another was not checked: without an index that takes more memory than it may; \
            make the index anew with gaggle rebuild, then verify again";
        report.remark(Said::new(Check::Rows, what));
        return None;
    };
    let checked = Rows::new(&view, understand, report).run();
    let failed = checked.map_err(|error| report.finding(Said::new(Check::Index, error.to_string())));
    failed.ok()
}

#[cfg(test)]
mod tests;
