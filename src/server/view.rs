//! The committed view: everything that is read, published in one swap once it is durable.
//!
//! It holds the resident tables, the overlay of rows that the index has not applied yet, and the index itself. A reader
//! takes what it needs (authorisation, durable head, first kept, the lsn to read at) in one look, never in two steps,
//! so that it can't combine an authorisation from before a commit with rows from after it. The writer holds the write
//! lock only to publish a batch.

use std::sync::{Arc, PoisonError};

use crate::core::rows::Write;
use crate::core::tables::Tables;
use crate::ids::Lsn;
use crate::store::engine::Engine;
use crate::store::log::Frame;
use crate::store::memory::MemoryEngine;
use crate::store::overlay::Overlay;
use crate::sync::{RwLock, RwLockReadGuard};

/// What is published together.
pub(crate) struct Published {
    /// All resident rows.
    pub(crate) tables: Tables,
    /// Rows that the index has not applied yet.
    pub(crate) overlay: Overlay,
    /// The index.
    pub(crate) engine: Arc<dyn Engine>,
    /// The last durable frame that is published.
    pub(crate) durable: Lsn,
}

/// The one place that readers read from.
pub(crate) struct View(RwLock<Published>);

impl View {
    /// A view of what was found at the start.
    pub(crate) fn new(tables: Tables, engine: Arc<dyn Engine>, durable: Lsn) -> View {
        View(RwLock::new(Published { tables, overlay: Overlay::new(), engine, durable }))
    }

    /// One consistent look. Hold it briefly: a commit waits for it.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Published> {
        // A panic under the lock leaves plain inserts half done at the worst, which the next frame puts right.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a durable frame, which `writes` are the meaning of.
    pub(crate) fn publish(&self, writes: &[Write], frame: Arc<Frame>) {
        let mut published = self.0.write().unwrap_or_else(PoisonError::into_inner);
        published.durable = frame.lsn;
        published.overlay.insert(frame);
        let durable = published.durable;
        published.tables.begin_frame(durable);
        published.tables.apply(writes);
    }

    /// Publishes what was found when the store was opened anew, in place of everything there was.
    pub(crate) fn replace(&self, tables: Tables, engine: Arc<dyn Engine>, durable: Lsn) {
        let found = Published { tables, overlay: Overlay::new(), engine, durable };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Takes the index out, for it to be closed: nothing is read any more.
    pub(crate) fn take_engine(&self) -> Arc<dyn Engine> {
        let mut published = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut published.engine, Arc::new(MemoryEngine::new()))
    }
}
