//! Locks and threads of whatever several threads share: those of the standard library.
//!
//! Only where they come from is decided here. In unit tests they are the same, except under a scheduler for threads: it
//! interleaves in any order whoever takes them from here, and finds a wait that never ends.

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
