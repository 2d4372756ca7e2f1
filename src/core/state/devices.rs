//! Devices: renamed and revoked, by their user or by an operator.
//!
//! A user may revoke every device they have, the asking one too: an operator can invite another. Cursors of a revoked
//! device stay: a new one starts where it ended. Its sends are forgotten, because it can ask for none of them again.

use crate::core::authorise::Verb;
use crate::core::command::{Actor, Answer, Event, Refusal};
use crate::core::names::device_name;
use crate::core::rows::{DeviceRow, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{ClientSeq, DeviceId};

impl Decision<'_> {
    pub(super) fn rename_device(&mut self, by: Actor, device: DeviceId, name: &str) -> Decided {
        let row = self.device_for(by, device, Verb::RenameOwnDevice, Verb::RenameOthersDevice)?;
        if row.revoked_ms.is_some() {
            return Err(Refusal::DeviceRevoked);
        }
        let name = device_name(name).ok_or(Refusal::BadName)?;
        if row.name != name {
            if let Some(asker) = self.actor(by)? {
                self.use_up(asker, Limited::Sends, 1, self.settings.sends)?;
            }
            self.put(Write::Device(device, DeviceRow { name, ..row }));
        }
        Ok(Answer::Done(None))
    }

    /// Revoking again is no error: it is done.
    pub(super) fn revoke_device(&mut self, by: Actor, device: DeviceId) -> Decided {
        let row = self.device_for(by, device, Verb::RevokeOwnDevice, Verb::RevokeOthersDevice)?;
        if row.revoked_ms.is_some() {
            return Ok(Answer::Done(None));
        }
        self.revoke(device, row);
        self.events.push(Event::DeviceRevoked(device));
        Ok(Answer::Done(None))
    }

    pub(super) fn revoke(&mut self, device: DeviceId, row: DeviceRow) {
        self.put(Write::Device(device, DeviceRow { revoked_ms: Some(self.now_ms), ..row }));
        self.forget_sends_below(device, ClientSeq::MAX);
    }

    /// A device that the asker may do this to: the one verb for their own, the other for somebody else's.
    fn device_for(&self, by: Actor, device: DeviceId, own: Verb, others: Verb) -> Result<DeviceRow, Refusal> {
        let asker = self.actor(by)?;
        let row = self.device(device).ok_or(Refusal::NoSuchDevice)?;
        self.may(if asker == Some(row.user) { own } else { others }, asker)?;
        Ok(row.clone())
    }
}
