//! Who reads the whole log says so first.

use std::sync::{Arc, PoisonError};

use crate::ids::Lsn;
use crate::sync::{Mutex, MutexGuard};

/// The readers of a whole log that are running. A clone is another handle on the same.
#[derive(Debug, Clone, Default)]
pub struct Pins(Arc<Mutex<Vec<Lsn>>>);

/// A reader of the whole log up to some lsn; dropped when it has read it.
#[derive(Debug)]
pub struct Pin {
    pins: Pins,
    at: Lsn,
}

impl Pins {
    /// Says that the whole log is read up to this lsn, which is synced. What is dead only by what lies above it stays
    /// in the log until the pin is dropped, and so do removes.
    #[must_use]
    pub fn pin(&self, at: Lsn) -> Pin {
        self.lock().push(at);
        Pin { pins: self.clone(), at }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Lsn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lowest(&self) -> Option<Lsn> {
        self.lock().iter().min().copied()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        if let Some(index) = pins.iter().position(|at| *at == self.at) {
            pins.swap_remove(index);
        }
    }
}
