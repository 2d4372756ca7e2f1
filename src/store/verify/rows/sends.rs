//! Sends that are remembered: within the window of their device, and leading to the item that they became.

use std::collections::BTreeMap;

use crate::ids::{ClientSeq, DeviceId};
use crate::store::engine::EngineError;
use crate::store::keys;
use crate::store::records::{SendRecord, SendWindowRecord};
use crate::store::tree::Tree;
use crate::store::verify::rows::Rows;

impl Rows<'_, '_> {
    pub(super) fn sends(&mut self) -> Result<(), EngineError> {
        let mut windows: BTreeMap<DeviceId, (ClientSeq, ClientSeq)> = BTreeMap::new();
        let mut failed = Ok(());
        self.each(Tree::Sends, |rows, key, value, _| {
            let Ok((device, seq)) = keys::parse_send(key) else { return };
            // The window has the lowest key of its device.
            if let (ClientSeq::ZERO, Ok(window)) = (seq, SendWindowRecord::decode(value)) {
                windows.insert(device, (window.lowest, window.highest));
                if !rows.devices.contains_key(&device) {
                    rows.report.rows(format!("there is a window of sends of {device}, which does not exist"));
                }
                return;
            }
            let Ok(record) = SendRecord::decode(value) else { return };
            let window = windows.get(&device).copied();
            if !window.is_some_and(|(lowest, highest)| lowest <= seq && seq <= highest) {
                let (lowest, highest) = window.unwrap_or_default();
                rows.report.rows(format!("send {seq} of {device} lies outside of its window, {lowest} to {highest}"));
            }
            if failed.is_ok() {
                failed = rows.send(device, seq, &record);
            }
        })?;
        failed
    }

    fn send(&mut self, device: DeviceId, seq: ClientSeq, record: &SendRecord) -> Result<(), EngineError> {
        let (group, msgid) = (record.group, record.msgid);
        let name = format!("send {seq} of {device}");
        let Some((user, is_revoked)) = self.devices.get(&device).map(|row| (row.user, row.is_revoked)) else {
            self.report.rows(format!("{name}, which does not exist, is remembered"));
            return Ok(());
        };
        if is_revoked {
            self.report.rows(format!("{name}, which is revoked, is remembered"));
        }
        if self.groups.get(&group).is_some_and(|row| msgid < row.first_kept) {
            return Ok(());
        }
        let item = self.item(group, msgid)?;
        let is_it = item.is_some_and(|(_, meaning)| meaning.author == user && meaning.sent);
        if !is_it {
            self.report.rows(format!("{name} became {group} {msgid}, which is no message of {user}"));
        }
        Ok(())
    }
}
