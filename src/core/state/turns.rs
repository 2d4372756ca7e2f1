//! For each device, the sends that were not done and that everything later waits for.
//!
//! After a *not done* or *outcome unknown* of number n, all higher numbers are out of turn until n comes again, or until
//! the client states that it no longer waits for n. That goes for each number that was refused so, not for the first of
//! them alone: the first may turn out to be stored, and the others still have to come before anything later. Without this
//! a later send could be stored before an earlier one.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ClientSeq, DeviceId};
use crate::limits::SENDS_UNANSWERED_MAX;

/// The sends that are waited for, by device: no more than a client may have unanswered, the lowest of what a client sent
/// beyond that. They outlive a reopening of the store, not the end of the process: a client's sends come in order on a new
/// connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Turns {
    waiting: BTreeMap<DeviceId, BTreeSet<ClientSeq>>,
}

impl Turns {
    /// Everything above this number waits for it, and the client waits for none below `lowest`: were those kept, there might
    /// be no place for this one.
    pub(super) fn hold_from(&mut self, device: DeviceId, seq: ClientSeq, lowest: ClientSeq) {
        let waiting = self.waiting.entry(device).or_default();
        *waiting = waiting.split_off(&lowest);
        waiting.insert(seq);
        if waiting.len() as u64 > SENDS_UNANSWERED_MAX {
            waiting.pop_last();
        }
    }

    /// This number came, and the client waits for none below `lowest`.
    pub(super) fn arrived(&mut self, device: DeviceId, seq: ClientSeq, lowest: ClientSeq) {
        self.change(device, |waiting| {
            *waiting = waiting.split_off(&lowest);
            if waiting.first() == Some(&seq) {
                waiting.pop_first();
            }
        });
    }

    /// This number turns out to be decided already: nothing waits for it.
    pub(super) fn is_decided(&mut self, device: DeviceId, seq: ClientSeq) {
        self.change(device, |waiting| {
            waiting.remove(&seq);
        });
    }

    /// Whether an earlier number is waited for.
    pub(super) fn is_out_of_turn(&self, device: DeviceId, seq: ClientSeq) -> bool {
        self.waiting.get(&device).and_then(BTreeSet::first).is_some_and(|waiting| *waiting < seq)
    }

    /// Changes what is waited for of a device, if anything is. Who waits for nothing any more is not kept.
    fn change(&mut self, device: DeviceId, change: impl FnOnce(&mut BTreeSet<ClientSeq>)) {
        let Some(waiting) = self.waiting.get_mut(&device) else { return };
        change(waiting);
        if waiting.is_empty() {
            self.waiting.remove(&device);
        }
    }
}
