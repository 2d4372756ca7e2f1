//! All rows as the next start will have them: the index, with the frames above what it has applied laid over it.
//!
//! Where there is no index, the frames are all there is. Frames laid over are bounded in bytes; beyond that there is no
//! view, and whoever asked for one says so.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;

use crate::store::engine::{Engine, EngineError, Op};
use crate::store::tree::Tree;
use crate::store::wide;

/// Bytes that a row of the frames costs beside its key and value, roughly.
const ROW_BYTES: u64 = 96;

/// What the frames above an index have changed: a value, or none where the key was removed.
#[derive(Default)]
pub(super) struct Above {
    rows: BTreeMap<(Tree, Bytes), Option<Bytes>>,
    bytes: u64,
    bytes_max: u64,
    is_over: bool,
}

impl Above {
    pub(super) fn new(bytes_max: u64) -> Above {
        Above { bytes_max, ..Above::default() }
    }

    /// Takes an operation; forgets everything at the bound.
    pub(super) fn put(&mut self, op: &Op) {
        if self.is_over {
            return;
        }
        let value_bytes = |value: &Option<Bytes>| value.as_ref().map_or(0, |value| wide(value.len()));
        let row_bytes = wide(op.key.len()).saturating_add(ROW_BYTES);
        self.bytes = self.bytes.saturating_add(value_bytes(&op.value));
        match self.rows.insert((op.tree, op.key.clone()), op.value.clone()) {
            Some(before) => self.bytes = self.bytes.saturating_sub(value_bytes(&before)),
            None => self.bytes = self.bytes.saturating_add(row_bytes),
        }
        if self.bytes > self.bytes_max {
            self.is_over = true;
            self.rows = BTreeMap::new();
        }
    }

    /// Lays it over an index; none where it was more than fits.
    pub(super) fn over(self, engine: Option<Arc<dyn Engine>>) -> Option<View> {
        (!self.is_over).then_some(View { engine, above: self.rows })
    }
}

/// The rows.
pub(super) struct View {
    engine: Option<Arc<dyn Engine>>,
    above: BTreeMap<(Tree, Bytes), Option<Bytes>>,
}

/// What a scan calls for each row.
pub(super) type Row<'a> = &'a mut dyn FnMut(&[u8], &Bytes) -> ControlFlow<()>;

impl View {
    pub(super) fn get(&self, tree: Tree, key: &Bytes) -> Result<Option<Bytes>, EngineError> {
        if let Some(change) = self.above.get(&(tree, key.clone())) {
            return Ok(change.clone());
        }
        self.engine.as_ref().map_or(Ok(None), |engine| engine.get(tree, key))
    }

    /// Visits the rows of a tree in order, from this key on, until told to stop.
    pub(super) fn scan(&self, tree: Tree, from: &[u8], row: Row<'_>) -> Result<(), EngineError> {
        let start = (tree, Bytes::copy_from_slice(from));
        let changed = self.above.range((Bound::Included(start), Bound::Unbounded));
        let mut changed =
            changed.take_while(|((of, _), _)| *of == tree).map(|((_, key), value)| (key, value)).peekable();
        let mut flow = ControlFlow::Continue(());
        if let Some(engine) = &self.engine {
            engine.scan(tree, from, &mut |key, value| {
                while let Some((before, change)) = changed.next_if(|(above, _)| above.as_ref() < key) {
                    if let Some(value) = change {
                        flow = row(before, value);
                    }
                    if flow.is_break() {
                        return flow;
                    }
                }
                flow = match changed.next_if(|(above, _)| above.as_ref() == key) {
                    Some((_, None)) => ControlFlow::Continue(()),
                    Some((_, Some(value))) => row(key, value),
                    None => row(key, &Bytes::copy_from_slice(value)),
                };
                flow
            })?;
        }
        for (key, change) in changed {
            let Some(value) = change.as_ref().filter(|_| flow.is_continue()) else { continue };
            flow = row(key, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Lsn;
    use crate::store::memory::MemoryEngine;

    fn op(tree: Tree, key: u8, value: Option<u8>) -> Op {
        Op { tree, key: Bytes::from(vec![key]), value: value.map(|value| Bytes::from(vec![value])) }
    }

    fn ops_of(rows: &[(Tree, u8, Option<u8>)]) -> Vec<Op> {
        rows.iter().map(|(tree, key, value)| op(*tree, *key, *value)).collect()
    }

    fn rows() -> impl Strategy<Value = Vec<(Tree, u8, Option<u8>)>> {
        let tree = prop_oneof![Just(Tree::Messages), Just(Tree::Cursors), Just(Tree::Members)];
        proptest::collection::vec((tree, 0u8..20, any::<Option<u8>>()), 0..60)
    }

    proptest! {
        #[test]
        fn the_view_is_what_an_index_with_all_applied_holds(below in rows(), above in rows(), from in 0u8..20) {
            let (below, above) = (ops_of(&below), ops_of(&above));
            let (part, whole) = (MemoryEngine::new(), MemoryEngine::new());
            part.apply(Lsn::new(1), &below).unwrap();
            whole.apply(Lsn::new(1), &below).unwrap();
            whole.apply(Lsn::new(2), &above).unwrap();
            let mut laid = Above::new(1 << 20);
            above.iter().for_each(|op| laid.put(op));
            let view = laid.over(Some(Arc::new(part))).unwrap();
            for tree in [Tree::Messages, Tree::Cursors, Tree::Members] {
                let (mut seen, mut expected) = (Vec::new(), Vec::new());
                view.scan(tree, &[from], &mut |key, value| {
                    seen.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                }).unwrap();
                whole.scan(tree, &[from], &mut |key, value| {
                    expected.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                }).unwrap();
                prop_assert_eq!(seen, expected);
                for key in 0u8..20 {
                    let key = Bytes::from(vec![key]);
                    prop_assert_eq!(view.get(tree, &key).unwrap(), whole.get(tree, &key).unwrap());
                }
            }
        }
    }

    #[test]
    fn more_frames_than_fit_give_no_view() {
        let mut above = Above::new(1_000);
        (0..100).for_each(|key| above.put(&op(Tree::Own, key, Some(1))));
        assert!(above.over(None).is_none());
        let mut above = Above::new(1_000);
        (0..100).for_each(|_| above.put(&op(Tree::Own, 1, Some(1))));
        assert!(above.over(None).is_some(), "the same row again costs nothing");
    }

    #[test]
    fn a_scan_that_is_told_to_stop_calls_no_more() {
        let engine = MemoryEngine::new();
        engine.apply(Lsn::new(1), &[op(Tree::Own, 2, Some(1)), op(Tree::Own, 4, Some(1))]).unwrap();
        let mut above = Above::new(1_000);
        [1, 3, 5].into_iter().for_each(|key| above.put(&op(Tree::Own, key, Some(1))));
        let view = above.over(Some(Arc::new(engine))).unwrap();
        for stop in 1..=5u8 {
            let mut seen = Vec::new();
            view.scan(Tree::Own, &[], &mut |key, _| {
                seen.push(key[0]);
                if key[0] == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
            assert_eq!(seen, (1..=stop).collect::<Vec<_>>());
        }
    }
}
