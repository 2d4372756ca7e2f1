//! Why the store cannot be opened or written: sentences that name the file and say what to do.
//!
//! It does not say what becomes of the process; [`StoreError::class`] is for whoever decides that.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::disk::DiskError;
use crate::ids::Lsn;
use crate::store::engine::EngineError;

/// What went wrong. In each case but [`StoreError::Disk`], [`StoreError::Index`], [`StoreError::NoRoom`] and
/// [`StoreError::Latched`] nothing was changed on disk.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the folder.
    #[error(
        "the data folder {} is in use by process {pid}; stop that one, or name another folder with --data",
        folder.display()
    )]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// Who has it, as far as the lock file tells.
        pid: String,
    },
    /// The folder holds something else.
    #[error(
        "{} is not a data folder: it has no FORMAT file but holds {found:?}; name an empty or new folder with --data",
        folder.display()
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// The first name in it that does not belong.
        found: String,
    },
    /// A later version has written here.
    #[error(
        "{} was written by a newer version (format {found}, this one knows up to {known}); use that version",
        path.display()
    )]
    Newer {
        /// The file that says so.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The highest this program knows.
        known: u64,
    },
    /// A file is not as it was written.
    #[error("{} is damaged: {what}; keep a copy of the folder, then restore it from a backup", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The disk refused.
    #[error("{0}{hint}", hint = hint(.0))]
    Disk(#[from] DiskError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] EngineError),
    /// The index has to be opened or rebuilt, and there is too little room for that.
    #[error(
        "the index in {} has to be {what}: that needs about {} MB of free space, and there are {} MB; \
         make room on that disk and start again (all that was answered is in the log)",
        folder.display(), needed >> 20, free >> 20
    )]
    NoRoom {
        /// The data folder.
        folder: PathBuf,
        /// What has to be done, for which there is no room.
        what: &'static str,
        /// Bytes that must be free, roughly.
        needed: u64,
        /// Bytes that are.
        free: u64,
    },
    /// An earlier write failed; whether it is kept shows when the store is opened again.
    #[error("the log takes no writes until it is opened again, because an earlier one failed: {cause}")]
    Latched {
        /// What happened then.
        cause: String,
    },
    /// A frame over the limit; nothing was written.
    #[error("a batch of {bytes} bytes does not fit into a frame of the log")]
    FrameTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A second frame was to be written before the first was synced; nothing was written.
    #[error("the frame {lsn:?} of the log is not synced yet")]
    Unsynced {
        /// The frame that waits.
        lsn: Lsn,
    },
    /// The system gave no random bytes.
    #[error("the system gives no random numbers")]
    Random,
}

/// The kinds of errors that are answered differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreErrorClass {
    /// Another process has the folder.
    Locked,
    /// The folder belongs to another program.
    Foreign,
    /// The folder belongs to a newer version.
    Newer,
    /// The log or FORMAT is damaged.
    Damaged,
    /// The disk is full: try again when there is room.
    Full,
    /// The disk failed or refused.
    Disk,
    /// The index failed: it can be rebuilt.
    Index,
    /// The writer refuses: a fault of ours, or a latch.
    Writer,
}

impl StoreError {
    /// The kind of this error.
    #[must_use]
    pub fn class(&self) -> StoreErrorClass {
        match self {
            StoreError::Locked { .. } => StoreErrorClass::Locked,
            StoreError::Foreign { .. } => StoreErrorClass::Foreign,
            StoreError::Newer { .. } => StoreErrorClass::Newer,
            StoreError::Damaged { .. } => StoreErrorClass::Damaged,
            StoreError::Disk(error) if error.source.kind() == ErrorKind::StorageFull => StoreErrorClass::Full,
            StoreError::NoRoom { .. } => StoreErrorClass::Full,
            StoreError::Disk(_) | StoreError::Random => StoreErrorClass::Disk,
            StoreError::Index(_) => StoreErrorClass::Index,
            StoreError::Latched { .. } | StoreError::FrameTooLarge { .. } | StoreError::Unsynced { .. } => {
                StoreErrorClass::Writer
            }
        }
    }
}

/// What to do about an error of the disk, where that can be said.
fn hint(error: &DiskError) -> &'static str {
    let kind = error.source.kind();
    if matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) {
        "; the data folder must be writable by the user that runs the server"
    } else if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        "; make room on that disk and start again"
    } else {
        ""
    }
}
