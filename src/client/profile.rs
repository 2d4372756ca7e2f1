//! The folder of a device: its key, what it knows of itself and its server, its outbox and inbox, its locks.

use std::path::{Path, PathBuf};

use crate::client::error::{OutboxError, ProfileError};
use crate::client::types::{Account, OutboxEntry};
use crate::disk::SharedDisk;
use crate::ids::ClientSeq;

/// The folder of a device. Making the value touches nothing.
#[derive(Debug, Clone)]
pub struct Profile {
    disk: SharedDisk,
    folder: PathBuf,
}

impl Profile {
    /// The profile in this folder, which need not exist yet.
    #[must_use]
    pub fn at(disk: SharedDisk, folder: impl Into<PathBuf>) -> Profile {
        Profile { disk, folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the profile knows of itself.
    ///
    /// # Errors
    /// Where nobody has joined with it yet, or it cannot be read.
    pub fn account(&self) -> Result<Account, ProfileError> {
        Err(ProfileError::Disk(String::new()))
    }

    /// What the outbox holds: everything unanswered, and what ended with an unknown outcome. No connection is needed.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn outbox(&self) -> Result<Vec<OutboxEntry>, OutboxError> {
        Err(OutboxError::Closed)
    }

    /// Takes an entry out of the outbox: one that was never attempted, which is then never sent, or one that ended with
    /// an unknown outcome, which is then not listed any more.
    ///
    /// # Errors
    /// Where it was attempted and its answer must be waited for.
    pub fn withdraw(&self, seq: ClientSeq) -> Result<(), OutboxError> {
        Err(OutboxError::Closed)
    }
}
