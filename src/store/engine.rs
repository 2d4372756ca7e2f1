//! The narrow door to an ordered index: get, forward range, last key at or below, a batch of puts and removes, flush.
//!
//! An engine may lose whatever was applied after its last finished flush, and nothing before it. It is told the lsn of
//! each batch and can say the highest one it holds; the log makes up for the rest. [`Index`] is how the engine of one
//! data folder is opened, made anew, and what was set aside removed.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::Lsn;
use crate::store::format::StoreId;
use crate::store::tree::Tree;

/// One absolute change of one key.
#[derive(Clone, PartialEq, Eq)]
pub struct Op {
    /// In which tree.
    pub tree: Tree,
    /// Key bytes, at most 255.
    pub key: Bytes,
    /// The value to put; none: remove.
    pub value: Option<Bytes>,
}

/// Why an engine failed. All but [`EngineError::Busy`] are doubt: the index is set aside and rebuilt from the log.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// It could not be opened.
    #[error("the index does not open: {0}")]
    Open(String),
    /// A read failed.
    #[error("the index cannot be read: {0}")]
    Read(String),
    /// A batch or a flush failed; nothing since the last finished flush can be trusted.
    #[error("the index cannot be written: {0}")]
    Write(String),
    /// It did not come to an end in time, and never may: nothing else can be asked of it in this process.
    #[error("the index has stalled: {0}")]
    Stalled(String),
    /// It is being opened anew to give memory back, and was not ready in time: the read can be tried again.
    #[error("the index is being opened anew")]
    Busy,
}

impl EngineError {
    /// Whether the index can't be trusted any more.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        !matches!(self, EngineError::Busy)
    }
}

/// What a scan calls for each key and value; it says whether to go on.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// An ordered index. Reads may come from several threads while one thread applies.
pub trait Engine: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// Where the index cannot be read.
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// The same without waiting for an index that is being opened anew: that is [`EngineError::Busy`].
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn get_now(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.get(tree, key)
    }

    /// Visits keys in order from this one on, until told to stop or the tree ends. No upper end: the visitor knows it.
    ///
    /// # Errors
    /// Where the index cannot be read.
    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError>;

    /// The last key at or below this one, with its value.
    ///
    /// # Errors
    /// Where the index cannot be read.
    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, EngineError>;

    /// Applies the operations of one frame, in order, and remembers its lsn. Called by one thread only.
    ///
    /// # Errors
    /// Where the index cannot be written.
    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError>;

    /// The lsn of the last frame applied.
    ///
    /// # Errors
    /// Where the index cannot be read.
    fn applied(&self) -> Result<Lsn, EngineError>;

    /// Makes everything applied durable; returns the lsn up to which that holds. Called by the applying thread only.
    ///
    /// # Errors
    /// Where the index cannot be written.
    fn flush(&self) -> Result<Lsn, EngineError>;

    /// Makes everything applied durable, and does what closing would have to do otherwise. Says the lsn. Called by the
    /// applying thread only, at a clean stop.
    ///
    /// # Errors
    /// As [`Engine::flush`].
    fn settle(&self) -> Result<Lsn, EngineError> {
        self.flush()
    }

    /// Bytes of memory, roughly, that it holds for what was written since it was opened and cannot give back but by
    /// [`Engine::recycle`]; zero where there is no such thing.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// Gives memory back by closing and opening the index. Everything must be flushed; reads wait meanwhile or get
    /// [`EngineError::Busy`]. Called by the applying thread only, which checks [`Engine::applied`] afterwards.
    ///
    /// # Errors
    /// Where it does not open again; it is in doubt then.
    fn recycle(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// When it is closed, what is not durable is left as it is: there is no room for it.
    fn leave(&self) {}

    /// Bytes on disk, as far as that can be told; zero where it has none.
    fn disk_bytes(&self) -> u64 {
        0
    }
}

/// How the engine of one data folder is opened and made.
pub trait Index: Send + Sync {
    /// Whether it outlives the process. Of one that does not nothing is recorded, and that it is filled from the log at
    /// every start is no doubt.
    fn is_kept(&self) -> bool {
        true
    }

    /// What its files look like from outside, without being opened, in one number that is never zero; none where that
    /// cannot be told. Another number than after [`Index::rest`] means that somebody has changed them since.
    fn files(&self) -> Option<u64> {
        None
    }

    /// Makes durable what its files look like, once it was closed: nobody writes to them any more. Says what
    /// [`Index::files`] will find; none where that can't be told, or while it is open.
    fn rest(&self) -> Option<u64> {
        None
    }

    /// Opens the index that is there, or returns the one that is open already in this process; none where there is
    /// none. Guarded: a hang ends with [`EngineError::Stalled`].
    ///
    /// # Errors
    /// Where it does not open, or belongs to another store. It is in doubt then.
    fn open(&self, store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError>;

    /// Sets aside what is there, and makes an empty index in its place.
    ///
    /// # Errors
    /// Where the disk refuses.
    fn begin(&self, store: StoreId) -> Result<Arc<dyn Engine>, EngineError>;

    /// Removes what was set aside.
    ///
    /// # Errors
    /// Where the disk refuses.
    fn remove_old(&self) -> Result<(), EngineError>;
}
