//! Opening the store: at a start, and again after the log has failed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock;
use crate::core::tables::Tables;
use crate::disk::SharedDisk;
use crate::limits;
use crate::server::beside::Beside;
use crate::server::translate::{self, LoadError};
use crate::store::applier::{Applier, Pace, Record};
use crate::store::engine::{EngineError, Index};
use crate::store::log::NamesInDoubt;
use crate::store::{self, Opened, Options, Progress, StoreError};

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rows in the index.
    #[error("{source}")]
    Load {
        /// What is wrong with them.
        #[source]
        source: LoadError,
        /// Whether the index was made from the log just now.
        made_now: bool,
    },
    /// The index.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Which index a server has, and how it is treated.
#[derive(Clone)]
pub struct IndexOptions {
    /// The index of its data folder.
    pub index: Arc<dyn Index>,
    /// When it is flushed and recycled.
    pub pace: Pace,
    /// Bytes of rows that may wait for it before commits wait too.
    pub waiting_bytes_max: usize,
    /// How long it may take for one piece of work before the server gives it up.
    pub stall: Duration,
}

impl IndexOptions {
    /// This index, treated as `limits` says.
    #[must_use]
    pub fn of(index: Arc<dyn Index>) -> IndexOptions {
        IndexOptions {
            index,
            pace: Pace::default(),
            waiting_bytes_max: limits::OVERLAY_BYTES_MAX,
            stall: Duration::from_millis(limits::INDEX_STALL_MS),
        }
    }
}

/// Where the store is.
#[derive(Clone)]
pub(crate) struct Place {
    /// On which disk.
    pub(crate) disk: SharedDisk,
    /// In which folder.
    pub(crate) folder: PathBuf,
    /// Size of the segments that are made from now on.
    pub(crate) segment_bytes: u64,
    /// Its index.
    pub(crate) index: IndexOptions,
    /// How the work beside its writer is done.
    pub(crate) beside: Arc<dyn Beside>,
    /// What is in doubt of its log, however often that is opened.
    pub(crate) names_in_doubt: NamesInDoubt,
}

/// An open store with its resident rows.
pub(crate) struct Found {
    /// The log and the index.
    pub(crate) store: Opened,
    /// The resident rows.
    pub(crate) tables: Tables,
    /// What applies frames to the index.
    pub(crate) applier: Applier,
    /// Whether the index was made from the log just now: what is wrong with it then is wrong with the log.
    pub(crate) made_now: bool,
}

impl Place {
    /// Opens the store. An index that opens and then holds what can't be understood is rebuilt at once; one that fails
    /// when it is read is recorded as in doubt.
    pub(crate) fn open(&self, progress: impl FnMut(Progress) + Send + 'static) -> Result<Found, OpenError> {
        let progress = Arc::new(Mutex::new(progress));
        match self.open_once(&progress) {
            // The log says what is right, if the index is wrong.
            Err(OpenError::Load { made_now: false, .. }) => self.open_once(&progress),
            opened => opened,
        }
    }

    fn open_once(&self, progress: &Arc<Mutex<impl FnMut(Progress) + Send + 'static>>) -> Result<Found, OpenError> {
        let progress = Arc::clone(progress);
        let options = Options {
            segment_bytes: self.segment_bytes,
            index: Arc::clone(&self.index.index),
            progress: Box::new(move |told| progress.lock().unwrap_or_else(PoisonError::into_inner)(told)),
            ..Options::default()
        };
        let mut store = store::open(Arc::clone(&self.disk), &self.folder, options)?;
        let record = Record::new(store.flushed.take());
        let made_now = store.created || store.rebuilt.is_some() || record.is_none_kept();
        let read = || -> Result<_, OpenError> {
            record.begin_reading().map_err(StoreError::from)?;
            let tables = translate::load(store.engine.as_ref());
            let tables = tables.map_err(|source| OpenError::Load { source, made_now })?;
            record.end_reading().map_err(StoreError::from)?;
            let engine = Arc::clone(&store.engine);
            Ok((tables, Applier::new(engine, record.clone(), self.index.pace, clock::monotonic())?))
        };
        match read() {
            Ok((tables, applier)) => Ok(Found { store, tables, applier, made_now }),
            Err(failure) => {
                if failure.is_doubt() || matches!(failure, OpenError::Load { made_now: false, .. }) {
                    record.doubt().map_err(StoreError::from)?;
                }
                Err(failure)
            }
        }
    }
}

impl OpenError {
    /// Whether it is the index that failed, which the next start rebuilds.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        match self {
            OpenError::Store(StoreError::Index(failure)) | OpenError::Engine(failure) => failure.is_doubt(),
            OpenError::Load { source: LoadError::Engine(failure), .. } => failure.is_doubt(),
            OpenError::Store(_) | OpenError::Load { source: LoadError::Row(_) | LoadError::Behind { .. }, .. } => false,
        }
    }
}
