//! What a simulated disk tells about what was done to it. It decides nothing.

use std::path::PathBuf;

/// What was done, in order, since [`super::SimulatedDisk::record`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A file was made.
    Create(PathBuf),
    /// Bytes were written.
    Write {
        /// Where.
        path: PathBuf,
        /// From which byte on.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A file was cut or extended.
    SetLen(PathBuf, u64),
    /// A file was synced.
    Sync(PathBuf),
    /// A folder was synced.
    SyncFolder(PathBuf),
    /// A file was renamed.
    Rename(PathBuf, PathBuf),
    /// A file was removed.
    Remove(PathBuf),
    /// What a test wrote between them with [`super::SimulatedDisk::note`].
    Note(String),
}

/// How often what was done since the disk was made; failed attempts are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Writes of files.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of folders.
    pub folder_syncs: u64,
}
