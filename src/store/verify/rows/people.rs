//! Users with their handles, devices with their keys, invites, and the counters that ids came from.

use bytes::Bytes;

use crate::ids::{DeviceId, UserId};
use crate::limits::DISPLAY_NAME_BYTES_MAX;
use crate::store::engine::EngineError;
use crate::store::keys;
use crate::store::records::{
    DeviceRecord, HandleRecord, InviteRecord, KeyRecord, MetaRecord, UserRecord, invite_extension, opens,
    user_extension, user_state,
};
use crate::store::tree::Tree;
use crate::store::verify::row::short;
use crate::store::verify::rows::{Device, Rows, User};

/// What a user's state can be.
const STATES: [u8; 3] = [user_state::DEACTIVATED, user_state::DELETED, user_state::HANDLE_FREE];
/// Bytes of a user's state: which, and since when.
const STATE_BYTES: usize = 9;

impl Rows<'_, '_> {
    pub(super) fn meta(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Meta, |rows, key, value, _| {
            let (Ok(name), Ok(record)) = (keys::parse_name(key), MetaRecord::decode(value)) else { return };
            rows.counters.insert(name.to_owned(), record.value);
        })
    }

    pub(super) fn users(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Users, |rows, key, value, _| {
            let (Ok(user), Ok(record)) = (keys::parse_user(key), UserRecord::decode(value)) else { return };
            rows.counted_id("last-user", user.value().into(), true, &user.to_string());
            if record.operator && rows.counters.get("operator-existed") != Some(&1) {
                rows.report.rows(format!("{user} is an operator, but the mark operator-existed is not set"));
            }
            let name = record.extensions.find(user_extension::NAME);
            let is_name = |bytes: &Bytes| {
                (1..=DISPLAY_NAME_BYTES_MAX).contains(&bytes.len()) && std::str::from_utf8(bytes).is_ok()
            };
            if name.is_some_and(|bytes| !is_name(bytes)) {
                rows.report.rows(format!("{user} wants to be called what is no name"));
            }
            let state = record.extensions.find(user_extension::STATE);
            let number = state.and_then(|bytes| bytes.first()).copied();
            let is_known = state.is_none() || number.is_some_and(|number| STATES.contains(&number));
            if !is_known || state.is_some_and(|bytes| bytes.len() != STATE_BYTES) {
                rows.report.rows(format!("{user} is in no state that there is"));
            }
            let is_deleted = number.is_some_and(|number| number != user_state::DEACTIVATED);
            let holds_handle = number != Some(user_state::HANDLE_FREE);
            rows.users.insert(user, User { handle: record.handle, is_deleted, holds_handle });
        })?;
        let mut found = std::collections::BTreeSet::new();
        self.each(Tree::Handles, |rows, key, value, _| {
            let (Ok(handle), Ok(HandleRecord { user, .. })) = (keys::parse_name(key), HandleRecord::decode(value))
            else {
                return;
            };
            if rows.users.get(&user).is_some_and(|row| row.holds_handle && row.handle == handle) {
                found.insert(user);
            } else {
                rows.report.rows(format!("the handle {handle:?} leads to {user}, who has another or does not exist"));
            }
        })?;
        let lost = self.users.iter().filter(|(user, row)| row.holds_handle && !found.contains(user));
        let says =
            |(user, row): (&UserId, &User)| format!("{user} has the handle {:?}, which leads nowhere", row.handle);
        let lost: Vec<String> = lost.map(says).collect();
        lost.into_iter().for_each(|what| self.report.rows(what));
        Ok(())
    }

    pub(super) fn devices(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Devices, |rows, key, value, _| {
            let (Ok(device), Ok(record)) = (keys::parse_device(key), DeviceRecord::decode(value)) else { return };
            rows.counted_id("last-device", device.value().into(), true, &device.to_string());
            rows.check_user(record.user, &format!("{device} belongs to"));
            let DeviceRecord { user, key, invite, revoked_ms, .. } = record;
            if revoked_ms.is_none() && rows.is_deleted(user) {
                rows.report.rows(format!("{device} is not revoked, but {user}, whose it is, is deleted"));
            }
            rows.devices.insert(device, Device { user, key, invite, is_revoked: revoked_ms.is_some() });
        })?;
        let mut found = std::collections::BTreeSet::new();
        self.each(Tree::Keys, |rows, key, value, _| {
            let (Ok(key), Ok(KeyRecord { device, .. })) = (keys::parse_digest(key), KeyRecord::decode(value)) else {
                return;
            };
            if rows.devices.get(&device).is_some_and(|row| row.key == key) {
                found.insert(device);
            } else {
                let what = format!("the key {} leads to {device}, which has another or does not exist", short(&key));
                rows.report.rows(what);
            }
        })?;
        let lost: Vec<DeviceId> = self.devices.keys().filter(|device| !found.contains(device)).copied().collect();
        for device in lost {
            self.report.rows(format!("{device} has a key that leads nowhere"));
        }
        Ok(())
    }

    pub(super) fn is_deleted(&self, user: UserId) -> bool {
        self.users.get(&user).is_some_and(|row| row.is_deleted)
    }

    /// Says so where there is no such user.
    pub(super) fn check_user(&mut self, user: UserId, says: &str) -> bool {
        let is_there = self.users.contains_key(&user);
        if !is_there {
            self.report.rows(format!("{says} {user}, who does not exist"));
        }
        is_there
    }

    pub(super) fn invites(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Invites, |rows, key, value, _| {
            let (Ok(code), Ok(record)) = (keys::parse_digest(key), InviteRecord::decode(value)) else { return };
            let name = format!("the invite {}", short(&code));
            let is_one_kind = match record.opens {
                opens::FIRST => record.handle.is_none() && record.group.is_none() && record.user.is_none(),
                opens::USER => record.handle.is_some() && record.user.is_none(),
                opens::DEVICE => record.handle.is_none() && record.group.is_none() && record.user.is_some(),
                _ => false,
            };
            if !is_one_kind {
                rows.report.rows(format!("{name} is of no kind that there is"));
            }
            for user in record.user.into_iter().chain(record.by) {
                rows.check_user(user, &format!("{name} names"));
            }
            if let Some(group) = record.group.filter(|group| !rows.groups.contains_key(group)) {
                rows.report.rows(format!("{name} leads into {group}, which does not exist"));
            }
            let by_device = record.extensions.number(invite_extension::BY_DEVICE).unwrap_or(u64::MAX);
            let device = u32::try_from(by_device).map(DeviceId::new);
            if by_device > 0 && !device.is_ok_and(|device| rows.devices.contains_key(&device)) {
                rows.report.rows(format!("{name} was made on d{by_device}, which does not exist"));
            }
            let used = record.used.map(|device| (device, rows.devices.get(&device).map(|row| row.invite)));
            match used {
                Some((device, None)) => {
                    rows.report.rows(format!("{name} was used for {device}, which does not exist"));
                }
                Some((device, Some(invite))) if invite != code => {
                    rows.report.rows(format!("{name} was used for {device}, which came by another"));
                }
                Some(_) | None => {}
            }
        })
    }
}
