//! Opening a data folder, or making one.
//!
//! The order matters. FORMAT is understood before anything is touched, the lock is taken before anything is changed, and
//! a new folder's FORMAT is written after the log, so that a folder with FORMAT has one. Of a folder that is there, first
//! what is recorded about the index is read, then the log is surveyed; damage to either ends it there, and not a byte
//! was changed. Then the index is opened, or found unfit; the log's end is made whole; and what the index lacks is put
//! into it: the frames behind its own last one, or in a rebuild all of them.

mod index;
mod space;
mod told;

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, Lock, SharedDisk};
use crate::ids::{Epoch, Lsn};
use crate::limits::{INDEX_HELD_BYTES_MAX, LOG_SEGMENTS_CHECKED, SEGMENT_BYTES};
use crate::store::ballast;
use crate::store::engine::{Engine, Index};
use crate::store::error::StoreError;
use crate::store::flushed::{FLUSHED_NAME, Flushed};
use crate::store::format::{FORMAT_NEW_NAME, Format, StoreId, path_in};
use crate::store::log::{self, LogOptions, LogWriter, Recovery};
use crate::store::memory::MemoryIndex;
use crate::store::open::index::{Filled, Opening};

pub(in crate::store) use self::index::OPENS_MAX;
pub use self::told::{Progress, Reason};

/// The name of the lock file.
const LOCK_NAME: &str = "LOCK";
/// Names that may stand in a folder that becomes a data folder: those of an interrupted creation, and those that a
/// checkout or a file system puts there.
const HARMLESS_NAMES: [&str; 6] = [LOCK_NAME, FORMAT_NEW_NAME, "log", "README.md", ".gitignore", "lost+found"];

/// Whether the index is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rebuild {
    /// Where there is any doubt about it.
    #[default]
    InDoubt,
    /// In any case.
    Always,
}

/// What may be chosen when a store is opened.
pub struct Options {
    /// Size of segments that are made from now on.
    pub segment_bytes: u64,
    /// The index of the folder.
    pub index: Arc<dyn Index>,
    /// Whether the index is rebuilt.
    pub rebuild: Rebuild,
    /// Memory that the index may hold for what is put into it meanwhile, before it is made to give that back.
    pub held_bytes_max: u64,
    /// Told how far it has come.
    pub progress: Box<dyn FnMut(Progress) + Send>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: SEGMENT_BYTES,
            index: Arc::new(MemoryIndex),
            rebuild: Rebuild::InDoubt,
            held_bytes_max: INDEX_HELD_BYTES_MAX,
            progress: Box::new(|_| {}),
        }
    }
}

/// An open store. The folder is locked until [`Opened::log`] is dropped.
pub struct Opened {
    /// Where frames are appended.
    pub log: LogWriter,
    /// The index, which holds everything up to [`Opened::durable`].
    pub engine: Arc<dyn Engine>,
    /// Where is recorded how far the index is durable; none where the index is never kept.
    pub flushed: Option<Flushed>,
    /// The random name of the store.
    pub store: StoreId,
    /// The random name of its history.
    pub epoch: Epoch,
    /// The last frame of the log, which is synced.
    pub durable: Lsn,
    /// What opening found in the log and did to it.
    pub recovery: Recovery,
    /// Whether the folder was made just now.
    pub created: bool,
    /// Why the index was rebuilt; none where it was not, where the folder is new, and where it is never kept.
    pub rebuilt: Option<Reason>,
    /// Frames that were put into the index.
    pub replayed: u64,
}

/// Opens the data folder, or makes it where there is none or an empty one.
///
/// # Errors
/// Where another process has it, it is another program's or a newer version's, something in it is damaged, or the
/// disk or the index refuses. Only in the last case may anything have been changed, and never so that the next attempt
/// loses more.
pub fn open(disk: SharedDisk, folder: &Path, options: Options) -> Result<Opened, StoreError> {
    if !disk.exists(folder)? {
        disk.create_folder(folder)?;
    }
    if Format::read(&*disk, folder)?.is_none() {
        check_empty(&*disk, folder)?;
    }
    let lock = lock(&*disk, folder)?;
    // Looked at again: another process may have made or changed it before the lock was ours.
    let (format, created) = match Format::read(&*disk, folder)? {
        Some(format) => (format, false),
        None => (create(&*disk, folder, options.segment_bytes)?, true),
    };
    let mut opened = open_made(&disk, folder, format, created, options)?;
    opened.log.hold(lock);
    Ok(opened)
}

/// Opens a folder that has a FORMAT and is locked.
fn open_made(
    disk: &SharedDisk,
    folder: &Path,
    format: Format,
    created: bool,
    options: Options,
) -> Result<Opened, StoreError> {
    let Options { segment_bytes, index, rebuild, held_bytes_max, mut progress } = options;
    if created {
        progress = Box::new(|_| ());
    }
    let Format { store, epoch } = format;
    let flushed = Flushed::read(disk, folder, store)?;
    let is_kept = index.is_kept();
    let mut opening = Opening { disk, folder, index, store, flushed, held_bytes_max, progress: &mut *progress };
    let mut reason = opening.refused();
    if rebuild == Rebuild::Always {
        reason = Some(Reason::Asked);
    }
    // What is rebuilt is rebuilt from all of it, so all of it is checked before anything is given up.
    let whole = LogOptions { store, segment_bytes, flushed: opening.recorded(), segments_checked: usize::MAX };
    let bounded = LogOptions { segments_checked: LOG_SEGMENTS_CHECKED, ..whole };
    let is_filled_whole = created || reason.is_some() || !is_kept;
    let mut survey = opening.survey(if is_filled_whole { whole } else { bounded })?;
    ballast::give_up(&**disk, folder)?;
    let mut engine = None;
    if !is_filled_whole {
        match opening.open(&survey)? {
            Ok(opened) => engine = Some(opened),
            Err(doubt) => reason = Some(doubt),
        }
        if engine.is_none() && !survey.is_whole() {
            survey = opening.survey(whole)?;
        }
    }
    let rebuilt = reason.filter(|_| is_kept && !created);
    let log = survey.settle()?;
    let Filled { engine, frames, .. } = match engine {
        Some(engine) => opening.replay(engine, &log)?,
        None if is_kept => opening.rebuild(rebuilt.clone(), &log)?,
        None => opening.fill_new(&log)?,
    };
    let flushed = is_kept.then_some(opening.flushed);
    let recovery = log.recovery();
    let log = log.writer()?;
    let durable = log.synced();
    Ok(Opened { log, engine, flushed, store, epoch, durable, recovery, created, rebuilt, replayed: frames })
}

/// Refuses a folder without FORMAT that holds anything of anybody.
fn check_empty(disk: &dyn Disk, folder: &Path) -> Result<(), StoreError> {
    let log = log::folder_in(folder);
    let lost = |what: &str| {
        let what = format!("it is missing, but the folder holds {what}");
        Err(StoreError::Damaged { path: path_in(folder), what })
    };
    // What is certainly of a store is looked for first: beside it there may be files that others have put there.
    if log::has_segments(disk, &log)? && !log::is_void(disk, &log)? {
        return lost("a log");
    }
    if disk.exists(&folder.join(FLUSHED_NAME))? {
        return lost("the record of an index");
    }
    let names = disk.list(folder)?;
    if let Some(found) = names.into_iter().find(|name| !HARMLESS_NAMES.contains(&name.as_str())) {
        return Err(StoreError::Foreign { folder: folder.to_owned(), found });
    }
    if log::is_void(disk, &log)? {
        return Ok(());
    }
    lost("a log")
}

/// Takes the lock of a data folder.
pub(in crate::store) fn lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Lock>, StoreError> {
    let path = folder.join(LOCK_NAME);
    if let Some(lock) = disk.lock(&path)? {
        return Ok(lock);
    }
    let file = disk.open(&path)?;
    let mut pid = [0; 20];
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(pid.len());
    let text = pid.get_mut(..length).unwrap_or_default();
    file.read_at(0, text)?;
    let pid = String::from_utf8_lossy(text).chars().filter(char::is_ascii_digit).collect::<String>();
    let pid = if pid.is_empty() { "(unknown)".to_owned() } else { pid };
    Err(StoreError::Locked { folder: folder.to_owned(), pid })
}

fn create(disk: &dyn Disk, folder: &Path, segment_bytes: u64) -> Result<Format, StoreError> {
    check_empty(disk, folder)?;
    let format = Format::generate()?;
    log::create(disk, &log::folder_in(folder), format.store, segment_bytes)?;
    format.write(disk, folder)?;
    Ok(format)
}

#[cfg(test)]
mod tests;
