//! What the log holds and the index does not hold yet: all puts and removes above the applied lsn, in all trees.
//!
//! A read looks here first and then into the index, and what is here wins. In that order nothing is missed: an entry
//! goes only when the applied lsn has reached it, and then the index has it. A reader names the lsn of its snapshot and
//! sees no entry above it. Clones share one overlay.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;

use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::log::Frame;
use crate::store::tree::Tree;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value that was put, or none where the key was removed.
pub type Change = Option<Bytes>;

/// The overlay.
#[derive(Clone, Default)]
pub struct Overlay {
    state: Arc<RwLock<State>>,
}

#[derive(Default)]
struct State {
    trees: BTreeMap<Tree, BTreeMap<Bytes, Versions>>,
    frames: VecDeque<Arc<Frame>>,
    rows: usize,
}

/// The changes of one key, the newest apart since there is mostly but one.
struct Versions {
    newest: (Lsn, Change),
    /// Oldest first.
    older: Vec<(Lsn, Change)>,
}

impl Versions {
    fn at(&self, lsn: Lsn) -> Option<&Change> {
        let (newest_lsn, newest) = &self.newest;
        if *newest_lsn <= lsn {
            return Some(newest);
        }
        self.older.iter().rev().find(|(older, _)| *older <= lsn).map(|(_, change)| change)
    }

    fn push(&mut self, lsn: Lsn, change: Change) {
        let before = std::mem::replace(&mut self.newest, (lsn, change));
        // Within one frame the last change is the one that counts.
        if before.0 < lsn {
            self.older.push(before);
        }
    }
}

impl Overlay {
    /// An empty overlay.
    #[must_use]
    pub fn new() -> Overlay {
        Overlay::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a durable frame; frames come in the order of the log.
    pub fn insert(&self, frame: Arc<Frame>) {
        let mut state = self.write();
        for op in &frame.ops {
            state.put(frame.lsn, op);
        }
        state.rows = state.rows.saturating_add(frame.ops.len());
        state.frames.push_back(frame);
    }

    /// Drops what the index has applied.
    pub fn forget(&self, applied: Lsn) {
        let mut state = self.write();
        while state.frames.front().is_some_and(|frame| frame.lsn <= applied) {
            let Some(frame) = state.frames.pop_front() else { break };
            state.rows = state.rows.saturating_sub(frame.ops.len());
            for op in &frame.ops {
                state.drop_up_to(applied, op);
            }
        }
    }

    /// What is known of a key at this lsn: none where the index has to be asked.
    #[must_use]
    pub fn get(&self, tree: Tree, key: &[u8], at: Lsn) -> Option<Change> {
        self.read().trees.get(&tree)?.get(key)?.at(at).cloned()
    }

    /// Changes at this lsn of the keys from one to another, both included, in order; no more than hold this many puts.
    #[must_use]
    pub fn range(&self, tree: Tree, from: &[u8], to: &[u8], at: Lsn, puts_max: usize) -> Vec<(Bytes, Change)> {
        let mut changes = Vec::new();
        if from > to {
            return changes;
        }
        let state = self.read();
        let Some(keys) = state.trees.get(&tree) else { return changes };
        let mut puts = 0;
        for (key, versions) in keys.range::<[u8], _>((Bound::Included(from), Bound::Included(to))) {
            if puts == puts_max {
                break;
            }
            if let Some(change) = versions.at(at) {
                puts += usize::from(change.is_some());
                changes.push((key.clone(), change.clone()));
            }
        }
        changes
    }

    /// Rows in it, a key that was changed twice counting twice.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.read().rows
    }
}

impl State {
    fn put(&mut self, lsn: Lsn, op: &Op) {
        let change = op.value.clone();
        match self.trees.entry(op.tree).or_default().entry(op.key.clone()) {
            Entry::Vacant(place) => {
                place.insert(Versions { newest: (lsn, change), older: Vec::new() });
            }
            Entry::Occupied(mut place) => place.get_mut().push(lsn, change),
        }
    }

    fn drop_up_to(&mut self, applied: Lsn, op: &Op) {
        let Some(keys) = self.trees.get_mut(&op.tree) else { return };
        if let Some(versions) = keys.get_mut(&op.key) {
            versions.older.retain(|(lsn, _)| *lsn > applied);
            if versions.newest.0 <= applied {
                keys.remove(&op.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lsn: u64, ops: &[(&'static str, Option<&'static str>)]) -> Arc<Frame> {
        let op = |(key, value): &(&'static str, Option<&'static str>)| Op {
            tree: Tree::Messages,
            key: Bytes::from(*key),
            value: value.map(Bytes::from),
        };
        Arc::new(Frame { lsn: Lsn::new(lsn), ops: ops.iter().map(op).collect() })
    }

    fn get(overlay: &Overlay, key: &str, at: u64) -> Option<Change> {
        overlay.get(Tree::Messages, key.as_bytes(), Lsn::new(at))
    }

    #[test]
    fn a_reader_sees_its_snapshot_and_nothing_above_it() {
        let overlay = Overlay::new();
        overlay.insert(frame(1, &[("a", Some("1"))]));
        overlay.insert(frame(2, &[("a", Some("2")), ("a", Some("2b")), ("b", Some("1"))]));
        overlay.insert(frame(3, &[("a", None)]));
        assert_eq!(get(&overlay, "a", 0), None);
        assert_eq!(get(&overlay, "a", 1), Some(Some("1".into())));
        assert_eq!(get(&overlay, "a", 2), Some(Some("2b".into())));
        assert_eq!(get(&overlay, "a", 3), Some(None));
        assert_eq!(get(&overlay, "b", 1), None);
        assert_eq!(overlay.get(Tree::Own, b"a", Lsn::new(3)), None);
    }

    #[test]
    fn an_entry_goes_only_when_the_applied_lsn_has_reached_its_own() {
        let overlay = Overlay::new();
        overlay.insert(frame(1, &[("a", Some("1")), ("b", Some("1"))]));
        overlay.insert(frame(2, &[("a", Some("2"))]));
        assert_eq!(overlay.rows(), 3);
        overlay.forget(Lsn::new(1));
        assert_eq!(get(&overlay, "b", 9), None);
        assert_eq!(get(&overlay, "a", 9), Some(Some("2".into())));
        assert_eq!(overlay.rows(), 1);
        overlay.forget(Lsn::new(2));
        assert_eq!((get(&overlay, "a", 9), overlay.rows()), (None, 0));
        assert!(overlay.read().trees.values().all(BTreeMap::is_empty));
    }

    #[test]
    fn a_range_is_in_order_and_ends_with_the_puts_asked_for() {
        let overlay = Overlay::new();
        overlay.insert(frame(1, &[("d", Some("")), ("b", None), ("a", Some("")), ("c", Some("")), ("e", Some(""))]));
        let keys = |from: &str, to: &str, puts: usize| {
            let range = overlay.range(Tree::Messages, from.as_bytes(), to.as_bytes(), Lsn::new(1), puts);
            range.into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect::<String>()
        };
        assert_eq!(keys("a", "d", 9), "abcd");
        assert_eq!(keys("a", "z", 2), "abc");
        assert_eq!(keys("z", "a", 2), "");
    }
}
