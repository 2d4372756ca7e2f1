//! Opening a data folder, or making one.
//!
//! The order matters: FORMAT is understood before anything is touched, the lock is taken before anything is changed,
//! and a new folder's FORMAT is written after everything else, so that a folder with FORMAT is whole.

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, Lock, SharedDisk};
use crate::ids::{Epoch, Lsn};
use crate::limits::SEGMENT_BYTES;
use crate::store::engine::{Engine, Index};
use crate::store::error::StoreError;
use crate::store::format::{FORMAT_NEW_NAME, Format, StoreId, path_in};
use crate::store::log::{self, LogOptions, LogWriter, RecoveredLog, Recovery};
use crate::store::memory::MemoryIndex;

/// The name of the lock file.
const LOCK_NAME: &str = "LOCK";
/// Names that may stand in a folder that becomes a data folder: those of an interrupted creation, and those that a
/// checkout or a file system puts there.
const HARMLESS_NAMES: [&str; 6] = [LOCK_NAME, FORMAT_NEW_NAME, "log", "README.md", ".gitignore", "lost+found"];

/// How far opening has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The segment being read, from 1.
    pub segment: usize,
    /// Segments there are.
    pub segments: usize,
    /// The frame that was applied last.
    pub lsn: Lsn,
}

/// What may be chosen when a store is opened.
pub struct Options {
    /// Size of segments that are made from now on.
    pub segment_bytes: u64,
    /// The index of the folder.
    pub index: Arc<dyn Index>,
    /// Called after each segment that was read.
    pub progress: Box<dyn FnMut(Progress) + Send>,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes: SEGMENT_BYTES, index: Arc::new(MemoryIndex), progress: Box::new(|_| {}) }
    }
}

/// An open store. The folder is locked until [`Opened::log`] is dropped.
pub struct Opened {
    /// Where frames are appended.
    pub log: LogWriter,
    /// The index, which holds everything up to [`Opened::durable`].
    pub engine: Arc<dyn Engine>,
    /// The random name of the store.
    pub store: StoreId,
    /// The random name of its history.
    pub epoch: Epoch,
    /// The last frame of the log, which is synced.
    pub durable: Lsn,
    /// What opening found and did.
    pub recovery: Recovery,
    /// Whether the folder was made just now.
    pub created: bool,
}

/// Opens the data folder, or makes it where there is none or an empty one.
///
/// # Errors
/// Where another process has it, it is another program's or a newer version's, something in it is damaged, or the
/// disk refuses. Only in the last case may anything have been changed, and never so that the next attempt loses more.
pub fn open(disk: SharedDisk, folder: &Path, options: Options) -> Result<Opened, StoreError> {
    let Options { segment_bytes, index, mut progress } = options;
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
        None => (create(&*disk, folder, segment_bytes)?, true),
    };
    let engine = index.begin(format.store)?;
    let options = log::LogOptions { store: format.store, segment_bytes, flushed: Lsn::ZERO };
    let RecoveredLog { mut writer, recovery } = rebuild(&disk, folder, &options, &*engine, &mut progress)?;
    writer.hold(lock);
    let durable = writer.synced();
    let (store, epoch) = (format.store, format.epoch);
    Ok(Opened { log: writer, engine, store, epoch, durable, recovery, created })
}

/// Refuses a folder without FORMAT that holds anything of anybody.
fn check_empty(disk: &dyn Disk, folder: &Path) -> Result<(), StoreError> {
    let names = disk.list(folder)?;
    if let Some(found) = names.into_iter().find(|name| !HARMLESS_NAMES.contains(&name.as_str())) {
        return Err(StoreError::Foreign { folder: folder.to_owned(), found });
    }
    if log::is_void(disk, &log::folder_in(folder))? {
        return Ok(());
    }
    Err(StoreError::Damaged { path: path_in(folder), what: "it is missing, but the folder holds a log".to_owned() })
}

fn lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Lock>, StoreError> {
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

/// Reads the log into the index.
fn rebuild(
    disk: &SharedDisk,
    folder: &Path,
    options: &LogOptions,
    engine: &dyn Engine,
    progress: &mut dyn FnMut(Progress),
) -> Result<RecoveredLog, StoreError> {
    let mut told = 0;
    log::open(disk, &log::folder_in(folder), options, &mut |frame, index, segments| {
        engine.apply(frame.lsn, &frame.ops)?;
        let segment = index + 1;
        if segment != told {
            told = segment;
            progress(Progress { segment, segments, lsn: frame.lsn });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
