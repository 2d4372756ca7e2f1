//! An index that fails as real ones do, for tests: it loses what was not flushed, refuses to open, to read, to apply
//! and to flush, and stalls.
//!
//! Nothing in the program uses it. What it holds after [`FaultyEngine::crash`] or [`FaultyIndex::crash`] is everything
//! up to the last finished flush and as many whole frames behind it as the test says: what [`super::engine`] allows an
//! engine to lose.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::ids::Lsn;
use crate::store::engine::{Engine, EngineError, Index, Op, Visit};
use crate::store::format::StoreId;
use crate::store::memory::MemoryEngine;
use crate::store::tree::Tree;

/// What can be told to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Every read.
    Read,
    /// Every batch.
    Apply,
    /// Every flush.
    Flush,
    /// Every batch and flush waits until the fault is taken away.
    Stall,
    /// Every read waits until the fault is taken away.
    StallRead,
    /// Opening it anew waits until the fault is taken away; reads find it busy meanwhile.
    StallRecycling,
    /// Being dropped never ends.
    StallClosing,
}

#[derive(Default)]
struct State {
    unflushed: VecDeque<(Lsn, Vec<Op>)>,
    /// What the last flush has made durable, and the one before it had not.
    flushed_last: Vec<(Lsn, Vec<Op>)>,
    faults: Vec<Fault>,
    held_bytes: u64,
    recycling: bool,
}

/// The index.
#[derive(Default)]
pub struct FaultyEngine {
    /// What stood when the last flush but one ended.
    older: MemoryEngine,
    flushed: MemoryEngine,
    current: MemoryEngine,
    state: Mutex<State>,
    changed: Condvar,
}

/// What a crash has left, to be opened again.
pub struct Remains {
    frames: Vec<(Lsn, Vec<Op>)>,
    flushed: MemoryEngine,
}

impl FaultyEngine {
    /// An empty index that works.
    #[must_use]
    pub fn new() -> FaultyEngine {
        FaultyEngine::default()
    }

    /// Makes it fail from here on.
    pub fn set(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        self.state().faults.clear();
        self.changed.notify_all();
    }

    /// Makes it hold so many bytes until it is recycled.
    pub fn hold(&self, bytes: u64) {
        self.state().held_bytes = bytes;
    }

    /// What is left after a power loss that kept this many frames behind the last flush.
    #[must_use]
    pub fn crash(mut self, frames_kept: usize) -> Remains {
        let unflushed = std::mem::take(&mut self.state().unflushed);
        let flushed = std::mem::take(&mut self.flushed);
        Remains { frames: unflushed.into_iter().take(frames_kept).collect(), flushed }
    }

    /// The same, of an engine that somebody still holds.
    fn remains(&self, frames_kept: usize) -> Result<Remains, EngineError> {
        let flushed = MemoryEngine::new();
        copy(&self.flushed, &flushed)?;
        let frames = self.state().unflushed.iter().take(frames_kept).cloned().collect();
        Ok(Remains { frames, flushed })
    }

    /// What no engine may lose is lost: it is as it was before its last flush.
    fn rolled_back(&self) -> Result<Remains, EngineError> {
        let flushed = MemoryEngine::new();
        copy(&self.older, &flushed)?;
        Ok(Remains { frames: Vec::new(), flushed })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stalled(&self, stall: Fault) -> MutexGuard<'_, State> {
        let stalled = |state: &mut State| state.faults.contains(&stall);
        self.changed.wait_while(self.state(), stalled).unwrap_or_else(PoisonError::into_inner)
    }

    fn reads(&self) -> Result<(), EngineError> {
        let state = self.stalled(Fault::StallRead);
        if state.recycling {
            return Err(EngineError::Busy);
        }
        if state.faults.contains(&Fault::Read) {
            return Err(EngineError::Read("it was told to".to_owned()));
        }
        Ok(())
    }

    /// Waits while stalled, then fails if it is told to.
    fn writes(&self, fault: Fault) -> Result<MutexGuard<'_, State>, EngineError> {
        let state = self.stalled(Fault::Stall);
        if state.faults.contains(&fault) {
            return Err(EngineError::Write("it was told to".to_owned()));
        }
        Ok(state)
    }
}

impl Drop for FaultyEngine {
    fn drop(&mut self) {
        drop(self.stalled(Fault::StallClosing));
    }
}

impl Remains {
    /// Opens what is left.
    ///
    /// # Errors
    /// Where a frame that was kept cannot be applied.
    pub fn open(self) -> Result<FaultyEngine, EngineError> {
        let mut engine = FaultyEngine::new();
        engine.flushed = self.flushed;
        copy(&engine.flushed, &engine.current)?;
        copy(&engine.flushed, &engine.older)?;
        for (lsn, ops) in &self.frames {
            engine.flushed.apply(*lsn, ops)?;
            engine.current.apply(*lsn, ops)?;
        }
        engine.state().flushed_last = self.frames;
        Ok(engine)
    }

    /// What opening says of an index that cannot be opened.
    ///
    /// # Errors
    /// Always.
    pub fn fail_to_open(self) -> Result<FaultyEngine, EngineError> {
        Err(EngineError::Open("it was told to".to_owned()))
    }
}

/// Puts everything that one holds into an empty other.
fn copy(from: &MemoryEngine, to: &MemoryEngine) -> Result<(), EngineError> {
    for tree in Tree::ALL {
        let mut ops = Vec::new();
        from.scan(tree, &[], &mut |key, value| {
            ops.push(Op { tree, key: Bytes::copy_from_slice(key), value: Some(Bytes::copy_from_slice(value)) });
            std::ops::ControlFlow::Continue(())
        })?;
        to.apply(from.applied()?, &ops)?;
    }
    Ok(())
}

impl Engine for FaultyEngine {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.reads()?;
        self.current.get(tree, key)
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        self.reads()?;
        self.current.scan(tree, from, visit)
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        self.reads()?;
        self.current.last_at_or_below(tree, key)
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        let mut state = self.writes(Fault::Apply)?;
        self.current.apply(lsn, ops)?;
        state.unflushed.push_back((lsn, ops.to_vec()));
        Ok(())
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        self.reads()?;
        self.current.applied()
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        let mut state = self.writes(Fault::Flush)?;
        for (lsn, ops) in std::mem::take(&mut state.flushed_last) {
            self.older.apply(lsn, &ops)?;
        }
        for (lsn, ops) in std::mem::take(&mut state.unflushed) {
            self.flushed.apply(lsn, &ops)?;
            state.flushed_last.push((lsn, ops));
        }
        self.flushed.applied()
    }

    fn held_bytes(&self) -> u64 {
        self.state().held_bytes
    }

    fn recycle(&self) -> Result<(), EngineError> {
        self.state().recycling = true;
        let mut state = self.stalled(Fault::StallRecycling);
        state.recycling = false;
        state.held_bytes = 0;
        Ok(())
    }
}

/// The index of a folder: a [`FaultyEngine`], which works when it is made, and outlives the server within one process.
#[derive(Default)]
pub struct FaultyIndex {
    current: Mutex<Arc<FaultyEngine>>,
    /// Those that were set aside: a server reads one until another is open.
    aside: Mutex<Vec<Weak<FaultyEngine>>>,
    begun: AtomicUsize,
    /// Attempts to open it that are still to fail.
    fails: AtomicUsize,
}

impl FaultyIndex {
    /// The engine that was made last.
    #[must_use]
    pub fn engine(&self) -> Arc<FaultyEngine> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The power goes: from here on its engine is what is left of the one there was, with this many frames behind the
    /// last flush. Faults are gone.
    ///
    /// # Errors
    /// Where a frame that was kept cannot be applied.
    pub fn crash(&self, frames_kept: usize) -> Result<(), EngineError> {
        self.put(self.engine().remains(frames_kept)?.open()?);
        Ok(())
    }

    /// The power goes, and what was flushed goes with it: its engine is as it was before the last flush, where that has
    /// made anything durable. Faults are gone.
    ///
    /// # Errors
    /// Where what is left cannot be applied.
    pub fn roll_back(&self) -> Result<(), EngineError> {
        self.put(self.engine().rolled_back()?.open()?);
        Ok(())
    }

    fn put(&self, engine: FaultyEngine) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(engine));
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.retain(|engine| engine.strong_count() > 0);
        aside.push(Arc::downgrade(&before));
    }

    /// Takes all faults away, also those of an engine that was set aside.
    pub fn heal(&self) {
        self.engine().heal();
        let aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.iter().filter_map(Weak::upgrade).for_each(|engine| engine.heal());
    }

    /// Frames that a crash would lose, if it kept none.
    #[must_use]
    pub fn unflushed(&self) -> usize {
        self.engine().state().unflushed.len()
    }

    /// It does not open, so many times.
    pub fn fail_to_open(&self, times: usize) {
        self.fails.store(times, Ordering::SeqCst);
    }

    /// How many were made.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

impl Index for FaultyIndex {
    fn open(&self, _store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let left = self.fails.load(Ordering::SeqCst);
        if left > 0 {
            self.fails.store(left - 1, Ordering::SeqCst);
            return Err(EngineError::Open("it was told to".to_owned()));
        }
        Ok((self.begun() > 0).then(|| self.engine() as Arc<dyn Engine>))
    }

    fn begin(&self, _store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.put(FaultyEngine::new());
        Ok(self.engine())
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(key: &'static str) -> Op {
        Op { tree: Tree::Meta, key: Bytes::from(key), value: Some(Bytes::from(key)) }
    }

    fn has(engine: &FaultyEngine, key: &str) -> bool {
        engine.get(Tree::Meta, key.as_bytes()).unwrap().is_some()
    }

    #[test]
    fn a_crash_loses_frames_behind_the_last_flush_and_nothing_before_it() {
        for kept in 0..3 {
            let engine = FaultyEngine::new();
            engine.apply(Lsn::new(1), &[op("a")]).unwrap();
            assert_eq!(engine.flush().unwrap(), Lsn::new(1));
            engine.apply(Lsn::new(2), &[op("b")]).unwrap();
            engine.apply(Lsn::new(3), &[op("c")]).unwrap();
            let engine = engine.crash(kept).open().unwrap();
            assert_eq!(["a", "b", "c"].map(|key| has(&engine, key)), [true, kept > 0, kept > 1]);
            assert_eq!(engine.applied().unwrap(), Lsn::new(1 + kept as u64));
        }
    }

    #[test]
    fn an_index_is_after_a_crash_what_its_engine_has_left_and_opens_when_it_may() {
        let index = FaultyIndex::default();
        let store = StoreId::new([7; 16]);
        let held = index.begin(store).unwrap();
        held.apply(Lsn::new(1), &[op("a")]).unwrap();
        held.flush().unwrap();
        (2..=3).for_each(|lsn| held.apply(Lsn::new(lsn), &[op("b")]).unwrap());
        assert_eq!(index.unflushed(), 2);
        index.crash(1).unwrap();
        index.fail_to_open(1);
        assert!(matches!(index.open(store), Err(EngineError::Open(_))));
        assert_eq!(index.open(store).unwrap().unwrap().applied().unwrap(), Lsn::new(2));
        assert!(has(&index.engine(), "a") && has(&index.engine(), "b"));
        for (lsn, key) in [(3, "c"), (4, "d")] {
            index.engine().apply(Lsn::new(lsn), &[op(key)]).unwrap();
            index.engine().flush().unwrap();
        }
        index.roll_back().unwrap();
        assert_eq!(index.engine().applied().unwrap(), Lsn::new(3));
        assert_eq!(["b", "c", "d"].map(|key| has(&index.engine(), key)), [true, true, false]);
    }

    #[test]
    fn it_fails_as_told_until_it_is_healed() {
        let engine = FaultyEngine::new();
        for fault in [Fault::Read, Fault::Apply, Fault::Flush] {
            engine.set(fault);
        }
        assert!(engine.get(Tree::Meta, b"a").is_err());
        assert!(engine.apply(Lsn::new(1), &[op("a")]).is_err() && engine.flush().is_err());
        engine.heal();
        engine.apply(Lsn::new(1), &[op("a")]).unwrap();
        assert!(has(&engine, "a"));
        assert!(engine.crash(0).fail_to_open().is_err());
    }

    #[test]
    fn an_engine_that_was_set_aside_is_healed_too() {
        let index = FaultyIndex::default();
        let store = StoreId::new([7; 16]);
        index.begin(store).unwrap();
        let read = index.engine();
        read.set(Fault::Read);
        index.begin(store).unwrap();
        assert!(!Arc::ptr_eq(&read, &index.engine()) && read.applied().is_err());
        index.heal();
        assert_eq!(read.applied().unwrap(), Lsn::ZERO);
    }

    #[test]
    fn a_stalled_index_waits() {
        let engine = FaultyEngine::new();
        engine.set(Fault::Stall);
        std::thread::scope(|scope| {
            let applied = scope.spawn(|| engine.apply(Lsn::new(1), &[op("a")]));
            assert_eq!(engine.applied().unwrap(), Lsn::ZERO);
            engine.heal();
            applied.join().unwrap().unwrap();
        });
        assert!(has(&engine, "a"));
    }
}
