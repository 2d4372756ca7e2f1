//! Who may touch sled's handles, and when: a gate before a small pool of them.
//!
//! sled's handles go from thread to thread but are not shared between threads, so each read takes one out of the pool
//! and brings it back: a *lease*. While the gate is closed nobody is let in, and who closed it waits until everybody
//! has left; then no handle is in use, and sled can be closed. A failed gate lets nobody in again.
//!
//! A lease is for one read. Whoever takes a second one while holding the first can meet a gate that closes in between,
//! and is let off with [`EngineError::Busy`].

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::store::engine::EngineError;
use crate::store::index::engine::Handle;

/// How long a read waits for a gate to open. Opening sled anew takes well below a second.
pub(super) const ENTER_WAIT: Duration = Duration::from_secs(5);
/// How long who closes the gate waits for reads to end. Each is one page at most.
const LEAVE_WAIT: Duration = Duration::from_secs(30);

enum Phase {
    Open,
    Closed,
    Failed(String),
}

struct State {
    phase: Phase,
    /// What the others are clones of; none while closed.
    first: Option<Handle>,
    idle: Vec<Handle>,
    leased: usize,
}

/// The gate.
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn new(first: Handle) -> Gate {
        let state = State { phase: Phase::Open, first: Some(first), idle: Vec::new(), leased: 0 };
        Gate { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for one read.
    pub(super) fn enter(&self) -> Result<Lease<'_>, EngineError> {
        let closed = |state: &mut State| matches!(state.phase, Phase::Closed);
        let waited = self.changed.wait_timeout_while(self.state(), ENTER_WAIT, closed);
        self.lend(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// A handle for one read, where the gate is open now.
    pub(super) fn enter_now(&self) -> Result<Lease<'_>, EngineError> {
        self.lend(self.state())
    }

    fn lend(&self, mut state: MutexGuard<'_, State>) -> Result<Lease<'_>, EngineError> {
        match &state.phase {
            Phase::Open => {}
            Phase::Closed => return Err(EngineError::Busy),
            Phase::Failed(why) => return Err(EngineError::Read(why.clone())),
        }
        let handle = state.idle.pop().or_else(|| state.first.clone()).ok_or(EngineError::Busy)?;
        state.leased += 1;
        Ok(Lease { gate: self, handle: Some(handle) })
    }

    /// Why it failed, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        match &self.state().phase {
            Phase::Failed(why) => Some(why.clone()),
            Phase::Open | Phase::Closed => None,
        }
    }

    /// Lets nobody in again. The first reason stays.
    pub(super) fn fail(&self, why: &str) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Failed(_)) {
            state.phase = Phase::Failed(why.to_owned());
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Lets nobody in, waits until everybody has left, and hands out all handles.
    pub(super) fn close(&self) -> Result<Vec<Handle>, EngineError> {
        let mut state = self.state();
        match &state.phase {
            Phase::Open => state.phase = Phase::Closed,
            Phase::Closed => return Err(EngineError::Busy),
            Phase::Failed(why) => return Err(EngineError::Write(why.clone())),
        }
        let waiting = |state: &mut State| state.leased > 0 && matches!(state.phase, Phase::Closed);
        let waited = self.changed.wait_timeout_while(state, LEAVE_WAIT, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Phase::Failed(why) = &state.phase {
            return Err(EngineError::Write(why.clone()));
        }
        if state.leased > 0 {
            let why = format!("a read has not come to its end within {} s", LEAVE_WAIT.as_secs());
            state.phase = Phase::Failed(why.clone());
            drop(state);
            self.changed.notify_all();
            return Err(EngineError::Stalled(why));
        }
        let mut handles = mem::take(&mut state.idle);
        handles.extend(state.first.take());
        Ok(handles)
    }

    /// Lets readers in again, with clones of this handle.
    pub(super) fn reopen(&self, first: Handle) {
        let mut state = self.state();
        state.first = Some(first);
        if matches!(state.phase, Phase::Closed) {
            state.phase = Phase::Open;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// All handles, and whether the gate failed; for the end, when nobody can be inside.
    pub(super) fn take(&mut self) -> (Vec<Handle>, bool) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut handles = mem::take(&mut state.idle);
        handles.extend(state.first.take());
        (handles, matches!(state.phase, Phase::Failed(_)))
    }
}

/// A handle that is in use; it goes back into the pool at the end.
pub(super) struct Lease<'a> {
    gate: &'a Gate,
    /// There until it is dropped.
    handle: Option<Handle>,
}

impl Lease<'_> {
    pub(super) fn handle(&self) -> Result<&Handle, EngineError> {
        self.handle.as_ref().ok_or(EngineError::Busy)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.idle.extend(self.handle.take());
        state.leased = state.leased.saturating_sub(1);
        drop(state);
        self.gate.changed.notify_all();
    }
}
