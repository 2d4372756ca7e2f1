//! The ordered index in memory: empty at start, filled from the log, durable never.
//!
//! It is complete and correct, and bounded only by memory: an index for small histories, and the model that tests
//! compare others with. A scan takes the lock for a few rows at a time, so that a long one does not hold up the applier;
//! it may thus see a frame applied in its middle.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::ids::Lsn;
use crate::store::engine::{Engine, EngineError, Index, Op, Visit};
use crate::store::format::StoreId;
use crate::store::tree::Tree;

/// Rows that are copied out under one lock.
const SCAN_ROWS: usize = 128;

#[derive(Default)]
struct State {
    trees: BTreeMap<Tree, BTreeMap<Bytes, Bytes>>,
    applied: Lsn,
}

/// The index.
#[derive(Default)]
pub struct MemoryEngine {
    state: RwLock<State>,
}

impl MemoryEngine {
    /// An empty index, at lsn zero.
    #[must_use]
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next few rows of a tree.
    fn rows(&self, tree: Tree, from: Bound<&[u8]>) -> Vec<(Bytes, Bytes)> {
        let state = self.read();
        let Some(rows) = state.trees.get(&tree) else { return Vec::new() };
        let rows = rows.range::<[u8], _>((from, Bound::Unbounded));
        rows.take(SCAN_ROWS).map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Engine for MemoryEngine {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.read().trees.get(&tree).and_then(|rows| rows.get(key)).cloned())
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        let mut rows = self.rows(tree, Bound::Included(from));
        loop {
            for (key, value) in &rows {
                if let ControlFlow::Break(()) = visit(key, value) {
                    return Ok(());
                }
            }
            let Some((last, _)) = rows.last().filter(|_| rows.len() == SCAN_ROWS) else { return Ok(()) };
            rows = self.rows(tree, Bound::Excluded(last));
        }
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        let state = self.read();
        let rows = state.trees.get(&tree);
        let below = rows.and_then(|rows| rows.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back());
        Ok(below.map(|(key, value)| (key.clone(), value.clone())))
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        let mut state = self.write();
        for op in ops {
            let rows = state.trees.entry(op.tree).or_default();
            match &op.value {
                Some(value) => rows.insert(op.key.clone(), value.clone()),
                None => rows.remove(&op.key),
            };
        }
        state.applied = lsn;
        Ok(())
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        Ok(self.read().applied)
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        self.applied()
    }
}

/// The index that is made anew at each start.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryIndex;

impl Index for MemoryIndex {
    fn is_kept(&self) -> bool {
        false
    }

    fn open(&self, _store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        Ok(None)
    }

    fn begin(&self, _store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::new(MemoryEngine::new()))
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        Ok(())
    }
}
