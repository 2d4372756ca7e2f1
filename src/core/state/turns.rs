//! For each device, the send that was not done and that everything later waits for.
//!
//! After a *not done* or *outcome unknown* of number n, all higher numbers are out of turn until n comes again, or until
//! the client states that it no longer waits for n. Without this a later send could be stored before an earlier one.

use std::collections::BTreeMap;

use crate::ids::{ClientSeq, DeviceId};

/// The sends that are waited for. They outlive a reopening of the store, not the end of the process: a client's sends
/// come in order on a new connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Turns {
    waiting: BTreeMap<DeviceId, ClientSeq>,
}

impl Turns {
    /// Everything above this number waits for it, if nothing lower is waited for already.
    pub(super) fn hold_from(&mut self, device: DeviceId, seq: ClientSeq) {
        let waiting = self.waiting.entry(device).or_insert(seq);
        *waiting = seq.min(*waiting);
    }

    /// This number came, and the client waits for none below `lowest`.
    pub(super) fn arrived(&mut self, device: DeviceId, seq: ClientSeq, lowest: ClientSeq) {
        if self.waiting.get(&device).is_some_and(|waiting| *waiting == seq || *waiting < lowest) {
            self.waiting.remove(&device);
        }
    }

    /// Whether an earlier number is waited for.
    pub(super) fn is_out_of_turn(&self, device: DeviceId, seq: ClientSeq) -> bool {
        self.waiting.get(&device).is_some_and(|waiting| *waiting < seq)
    }
}
