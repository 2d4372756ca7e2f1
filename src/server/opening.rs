//! Opening the store: at a start, and again after the log has failed.

use std::path::PathBuf;
use std::sync::Arc;

use crate::core::tables::Tables;
use crate::disk::SharedDisk;
use crate::server::translate::{self, LoadError};
use crate::store::applier::Applier;
use crate::store::engine::EngineError;
use crate::store::{self, Opened, Options, Progress, StoreError};

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rows in it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The index.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Where the store is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// On which disk.
    pub(crate) disk: SharedDisk,
    /// In which folder.
    pub(crate) folder: PathBuf,
    /// Size of the segments that are made from now on.
    pub(crate) segment_bytes: u64,
}

/// An open store with its resident rows.
pub(crate) struct Found {
    /// The log and the index.
    pub(crate) store: Opened,
    /// The resident rows.
    pub(crate) tables: Tables,
    /// What applies frames to the index.
    pub(crate) applier: Applier,
}

impl Place {
    /// Opens the store.
    pub(crate) fn open(&self, progress: impl FnMut(Progress) + Send + 'static) -> Result<Found, OpenError> {
        let options = Options { segment_bytes: self.segment_bytes, progress: Box::new(progress), ..Options::default() };
        let store = store::open(Arc::clone(&self.disk), &self.folder, options)?;
        let tables = translate::load(store.engine.as_ref())?;
        let applier = Applier::new(Arc::clone(&store.engine))?;
        Ok(Found { store, tables, applier })
    }
}
