//! The one door to files: append, sync, read, list, rename, remove, free space. Real, and simulated.
//!
//! Store and client keep everything through this door, so that a test can lose what was not synced. What is assumed of
//! a disk: a synced write is kept; an unsynced one may be kept, lost or torn, in any order; a rename is atomic and kept
//! once its folder is synced. Nothing else.

pub mod real;
pub mod simulated;
pub mod whole;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What went wrong with which file.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} {}: {source}", path.display())]
pub struct DiskError {
    /// A verb: open, read, write, sync, rename …
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// A disk. Cheap to clone; safe to share.
pub type SharedDisk = Arc<dyn Disk>;

/// Folders and whole files.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file for reading and writing, which must exist.
    ///
    /// # Errors
    /// Where it does not exist, or may not be opened.
    fn open(&self, path: &Path) -> Result<Box<dyn File>, DiskError>;

    /// Makes a file, empty, for reading and writing by its owner alone (0600); it must not exist.
    ///
    /// # Errors
    /// Where it exists, or cannot be made.
    fn create(&self, path: &Path) -> Result<Box<dyn File>, DiskError>;

    /// Makes a folder (0700) and those above it, durably; nothing where it exists.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn create_folder(&self, path: &Path) -> Result<(), DiskError>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn list(&self, path: &Path) -> Result<Vec<String>, DiskError>;

    /// Whether a file or folder exists.
    ///
    /// # Errors
    /// Where that cannot be told.
    fn exists(&self, path: &Path) -> Result<bool, DiskError>;

    /// Whether only its owner may read and write a file. On a disk that knows no owners each is.
    ///
    /// # Errors
    /// Where it does not exist, or the system cannot tell.
    fn is_private(&self, _path: &Path) -> Result<bool, DiskError> {
        Ok(true)
    }

    /// Renames within a file system, over what is there. Kept once the folder is synced.
    ///
    /// # Errors
    /// Where the system refuses.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Removes a file. Kept once the folder is synced.
    ///
    /// # Errors
    /// Where it does not exist, or may not be removed.
    fn remove(&self, path: &Path) -> Result<(), DiskError>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Where the system refuses; what was meant to be durable then is not.
    fn sync_folder(&self, path: &Path) -> Result<(), DiskError>;

    /// Bytes that can still be written below this folder.
    ///
    /// # Errors
    /// Where the system cannot tell.
    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Bytes of the whole file system below this folder, used or free; as much as can be where that is not known.
    ///
    /// # Errors
    /// Where the system cannot tell.
    fn size_bytes(&self, _path: &Path) -> Result<u64, DiskError> {
        Ok(u64::MAX)
    }

    /// Takes the lock of this file, making it where needed; none where another process or handle has it. The file
    /// then holds this process's id in decimal digits. Released when the guard drops, or the process ends.
    ///
    /// # Errors
    /// Where the file cannot be made or locked at all.
    fn lock(&self, path: &Path) -> Result<Option<Box<dyn Lock>>, DiskError>;
}

/// An open file.
pub trait File: Send + fmt::Debug {
    /// Bytes in it.
    ///
    /// # Errors
    /// Where the system refuses.
    fn len(&self) -> Result<u64, DiskError>;

    /// Whether it has none.
    ///
    /// # Errors
    /// Where the system refuses.
    fn is_empty(&self) -> Result<bool, DiskError> {
        Ok(self.len()? == 0)
    }

    /// Reads exactly this many bytes from there.
    ///
    /// # Errors
    /// Where there are fewer, or the system refuses.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError>;

    /// Writes these bytes there, with one system call where the system takes them whole.
    ///
    /// # Errors
    /// Where the system refuses; any part may then be written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Cuts or extends with zeros.
    ///
    /// # Errors
    /// Where the system refuses.
    fn set_len(&mut self, bytes: u64) -> Result<(), DiskError>;

    /// Makes everything written durable (fdatasync).
    ///
    /// # Errors
    /// Where the system refuses; a later success then proves nothing about what was written before.
    fn sync(&mut self) -> Result<(), DiskError>;
}

/// A lock that is held.
pub trait Lock: Send + fmt::Debug {}
