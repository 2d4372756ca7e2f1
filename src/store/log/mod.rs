//! The commit log: the record of everything, in segments of frames.
//!
//! [`LogWriter`] appends one frame and syncs it, and never has two frames unsynced. A [`Preparer`] makes the next
//! segment ahead of need. Opening is three steps: `survey` looks at the log, touches nothing, and decides by rules that
//! stand there what its end is; `settle` makes that end whole; then the frames that somebody lacks are handed on. The
//! log does not know what an operation means. Nothing is removed from it but by condensing.

mod append;
mod condense;
mod condensed;
mod frame;
#[cfg(feature = "proof")]
pub(super) mod fuzzed;
mod segment;
mod settle;
mod survey;
mod walk;

use std::path::{Path, PathBuf};

pub use self::append::{Figures, LogWriter, Preparer};
pub use self::condense::{Condenser, Limit, NamesInDoubt};
pub(super) use self::settle::SettledLog;
pub(super) use self::survey::{LogOptions, Survey, survey};
pub(super) use self::walk::{Met, MetFrame, Place, Walked, walk};
use crate::disk::Disk;
use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::error::StoreError;
use crate::store::format::StoreId;

/// A frame of the log: a batch that was decided together and is there as a whole or not at all.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its place in the log.
    pub lsn: Lsn,
    /// What it changes; none in the seal of a clean stop.
    pub ops: Vec<Op>,
}

/// What opening the log found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Frames that it was given; condensing may have removed some since.
    pub frames: u64,
    /// Frames that were not known to be synced and were written again, at most one after this version has written.
    pub rewritten: u64,
    /// Bytes of a frame that had not been written to its end, now zeros.
    pub cut_bytes: u64,
    /// Whether the last frame is the seal of a clean stop.
    pub sealed: bool,
}

/// The log's folder within a data folder.
pub(super) fn folder_in(folder: &Path) -> PathBuf {
    folder.join("log")
}

/// Makes the folder and the first segment of a new log. What an interrupted attempt left is replaced: the caller has
/// made sure with [`is_void`] that it holds nothing.
pub(super) fn create(disk: &dyn Disk, folder: &Path, store: StoreId, segment_bytes: u64) -> Result<(), StoreError> {
    disk.create_folder(folder)?;
    segment::Segment::create(disk, folder, store, 1, segment_bytes)?;
    Ok(())
}

/// Whether a log's folder holds anything under the name of a segment.
pub(super) fn has_segments(disk: &dyn Disk, folder: &Path) -> Result<bool, StoreError> {
    // Where it is no folder it is no log either, and whoever makes one will be told.
    let names = if disk.exists(folder)? { disk.list(folder).unwrap_or_default() } else { Vec::new() };
    Ok(names.iter().any(|name| segment::number_of(name).is_some()))
}

/// Whether a log's folder holds no more than an interrupted creation leaves: at most a first segment without a byte
/// behind its header, and files that were never born.
pub(super) fn is_void(disk: &dyn Disk, folder: &Path) -> Result<bool, StoreError> {
    if !disk.exists(folder)? {
        return Ok(true);
    }
    let names = disk.list(folder)?;
    let mut born = names.iter().filter(|name| !segment::is_unborn(name));
    let (Some(first), None) = (born.next(), born.next()) else {
        return Ok(names.iter().all(|n| segment::is_unborn(n)));
    };
    if segment::number_of(first) != Some(1) {
        return Ok(false);
    }
    let file = disk.open(&segment::path_of(folder, 1))?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    file.read_at(0, &mut bytes)?;
    Ok(bytes.iter().skip(segment::SEGMENT_HEAD_BYTES).all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests;
