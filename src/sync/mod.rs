//! Locks and threads of what stands between the writer and the threads beside it: those of the standard library.
//!
//! The view, the overlay, the queue of frames for the index, the segment made ahead, the condensing of those before it,
//! and the doubt about the index take theirs from here, and nothing else does. Only where they come from is decided. In
//! unit tests they are the same, except under a scheduler for threads: it interleaves in any order whoever takes them
//! from here, and finds a wait that never ends.

#[cfg(test)]
pub(crate) mod scheduled;

#[cfg(test)]
pub(crate) use self::scheduled::{
    AtomicBool, Builder, Condvar, JoinHandle, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicBool;
#[cfg(not(test))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(test))]
pub(crate) use std::thread::{Builder, JoinHandle};
