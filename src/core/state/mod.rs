//! What is decided: one command after the other becomes writes, an answer and events.
//!
//! `State` holds what the committed view does not: the rows of the batch that is being decided, the limits that members
//! have used up, and for each device the send from which on everything is out of turn. It answers nothing by itself:
//! every answer waits until the frame with its batch is durable. A command that is refused writes nothing, with one
//! exception: a send moves the window of its device.
//!
//! A batch: [`State::apply`] for each command; one frame with all writes; then either the frame is durable,
//! [`Tables::apply`] takes the writes and [`State::pending_is_durable`] is called, or it failed, and
//! [`State::drop_pending`] forgets the batch.

mod cursors;
mod decision;
mod devices;
mod direct;
mod groups;
mod invites;
mod keeping;
mod members;
mod pending;
mod rates;
mod roles;
mod said;
mod sends;
mod switches;
mod turns;
mod users;

pub use rates::{Rate, Settings};
use turns::Turns;
pub use users::may_come_in;

use crate::core::command::{Answer, Command, Event, Storage};
use crate::core::rows::Write;
use crate::core::tables::Tables;
use crate::ids::{ClientSeq, DeviceId};

use decision::Decision;
use pending::Pending;
use rates::Rates;

/// What became of a command.
#[derive(Clone, PartialEq, Eq)]
pub struct Applied {
    /// What to keep, in this order.
    pub writes: Vec<Write>,
    /// What to say once that is durable.
    pub answer: Answer,
    /// What to tell others once that is durable.
    pub events: Vec<Event>,
}

/// The deciding side of a server.
pub struct State {
    settings: Settings,
    pending: Pending,
    rates: Rates,
    turns: Turns,
    storage: Storage,
}

impl State {
    /// A state with nothing pending.
    #[must_use]
    pub fn new(settings: Settings) -> State {
        State {
            settings,
            pending: Pending::default(),
            rates: Rates::default(),
            turns: Turns::default(),
            storage: Storage::Open,
        }
    }

    /// What there is room for from now on. What there is none for is refused as *not done* and writes nothing.
    pub fn set_storage(&mut self, storage: Storage) {
        self.storage = storage;
    }

    /// Decides a command. `tables` is the committed view, which must hold everything but the batch under way.
    pub fn apply(&mut self, tables: &Tables, command: Command, now_ms: u64) -> Applied {
        let mut decision = Decision {
            tables,
            pending: &mut self.pending,
            rates: &mut self.rates,
            turns: &mut self.turns,
            settings: &self.settings,
            storage: self.storage,
            now_ms,
            writes: Vec::new(),
            events: Vec::new(),
        };
        let answer = decision.command(command);
        Applied { writes: decision.writes, answer, events: decision.events }
    }

    /// The batch is durable, and the committed view has it.
    pub fn pending_is_durable(&mut self) {
        self.pending = Pending::default();
    }

    /// The batch failed and is forgotten. What was used up of the limits for members stays so.
    pub fn drop_pending(&mut self) {
        self.pending = Pending::default();
    }

    /// A send was refused as *not done* or *outcome unknown* outside of this state: what comes later from that device
    /// is out of turn until this number comes again. `lowest` is the lowest number that the client waited for then.
    pub fn hold_from(&mut self, device: DeviceId, seq: ClientSeq, lowest: ClientSeq) {
        self.turns.hold_from(device, seq, lowest);
    }
}

#[cfg(test)]
pub(crate) mod tests;
