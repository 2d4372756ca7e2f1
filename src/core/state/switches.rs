//! What users switch for themselves.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Event, Refusal};
use crate::core::rows::{Switches, UserRow, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::{Limited, SWITCHES};
use crate::ids::DeviceId;

impl Decision<'_> {
    /// A switch is of the user, thus of all their devices. Setting what is set is done already.
    pub(super) fn set_switch(&mut self, by: DeviceId, switch: u8, on: bool) -> Decided {
        let user = self.session(by)?;
        self.may(Verb::SetSwitch, Some(user))?;
        if switch == 0 || switch & !Switches::KNOWN != 0 {
            return Err(Refusal::Unsupported);
        }
        let row = self.user(user).ok_or(Refusal::NoSuchUser)?.clone();
        let switches = if on { row.switches.with(switch) } else { row.switches.without(switch) };
        if switches != row.switches {
            self.use_up(user, Limited::Switches, 1, SWITCHES)?;
            self.put(Write::User(user, UserRow { switches, ..row }));
            self.events.push(Event::Switched(user));
        }
        Ok(Answer::Done(None))
    }
}
