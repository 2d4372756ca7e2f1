//! Invites: who may make them, and what an enrolment by one makes.
//!
//! Only the hash of a code is known here. An invite reserves nothing; the first Enrol has the handle. A used one is kept
//! until it expires, so that a lost answer can be asked for again by the same key; it opens nothing for any other. One
//! of somebody who may not come in, or that was made on a device that is revoked, opens nothing either.

use crate::core::authorise::Verb;
use crate::core::command::{Actor, Answer, Event, Refusal};
use crate::core::names::device_name;
use crate::core::retention::{DAY_MS, day_of};
use crate::core::rows::{CodeHash, DeviceKey, DeviceRow, Handle, InviteFor, InviteRow, Meta, UserRow, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::core::state::users::user_may_come_in;
use crate::ids::{DeviceId, GroupId, UserId};
use crate::limits::{
    DEVICES_MAX, INVITE_LIFETIME_S_MAX, INVITES_MAX, INVITES_USER_MAX, USER_DEVICES_EVER_MAX, USER_DEVICES_MAX,
    USERS_MAX,
};

/// An expired invite is kept so long that whoever comes late is told so and not that it is wrong.
const EXPIRED_KEPT_MS: u64 = 7 * DAY_MS;
/// Expired invites that one new invite removes: more than it adds, and never much work.
const REMOVED_AT_ONCE: usize = 16;

impl Decision<'_> {
    // ---- making them --------------------------------------------------------------------------------------------------

    /// The first invite is made by the server at its start. Once an operator's device has existed there is none.
    pub(super) fn renew_first_invite(&mut self, code: CodeHash, expires_ms: u64) -> Decided {
        if self.meta(Meta::OperatorExisted) != 0 {
            return Err(Refusal::NotAllowed);
        }
        let all = self.tables.invites().chain(self.pending.rows.invites());
        let old: Vec<CodeHash> = all.filter(|(_, row)| row.opens == InviteFor::First).map(|(code, _)| code).collect();
        for code in old {
            self.put(Write::InviteGone(code));
        }
        let row = InviteRow { opens: InviteFor::First, by: None, by_device: None, expires_ms, used: None };
        self.put(Write::Invite(code, row));
        Ok(Answer::Invited { expires_ms })
    }

    /// Operators invite new users; into a group only as far as they may add to it themselves. The operator key belongs
    /// to no group, so it invites into none: else its holder could read any by a user of their own making.
    pub(super) fn invite(
        &mut self,
        by: Actor,
        handle: Handle,
        group: Option<GroupId>,
        code: CodeHash,
        expires_ms: u64,
    ) -> Decided {
        let asker = self.actor(by)?;
        self.may(Verb::InviteUser, asker)?;
        if let Some(group) = group {
            self.may_in(group, Verb::AddMember, asker)?;
        }
        if self.handle_holder(&handle).is_some() {
            return Err(Refusal::HandleTaken);
        }
        self.check_room_for_invite(code)?;
        if let (Some(asker), Some(_)) = (asker, group) {
            self.use_up(asker, Limited::Additions, 1, self.settings.additions)?;
        }
        Ok(self.put_invite(code, InviteFor::User { handle, group }, (asker, by), expires_ms))
    }

    /// Another device: by its user, who has a share of all invites, or by an operator for anybody.
    pub(super) fn invite_device(
        &mut self,
        by: Actor,
        user: Option<Handle>,
        code: CodeHash,
        expires_ms: u64,
    ) -> Decided {
        let asker = self.actor(by)?;
        let named = user.map(|handle| self.user_by_handle(&handle).ok_or(Refusal::NoSuchUser)).transpose()?;
        let user = named.or(asker).ok_or(Refusal::NoSuchUser)?;
        self.may(if asker == Some(user) { Verb::InviteOwnDevice } else { Verb::InviteOthersDevice }, asker)?;
        self.check_room_for_device(user, asker)?;
        self.check_room_for_invite(code)?;
        if asker == Some(user) {
            self.use_up(user, Limited::Sends, 1, self.settings.sends)?;
            if self.invites_for_devices_of(user) >= INVITES_USER_MAX {
                return Err(Refusal::LimitReached);
            }
        }
        Ok(self.put_invite(code, InviteFor::Device { user }, (asker, by), expires_ms))
    }

    /// Invites for devices of a user that have not expired, used ones included; those beyond the bound need no counting.
    fn invites_for_devices_of(&self, user: UserId) -> usize {
        let committed = self.tables.invites_for_devices_of(user, self.now_ms);
        let is_new = |code: &CodeHash| self.tables.invite(*code).is_none();
        let pending = self.pending.rows.invites_for_devices_of(user, self.now_ms).filter(is_new);
        committed.chain(pending).filter(|code| !self.pending.is_invite_gone(*code)).take(INVITES_USER_MAX).count()
    }

    /// Whether a user may have one more device, by an invite of this one.
    fn check_room_for_device(&self, user: UserId, by: Option<UserId>) -> Result<(), Refusal> {
        let is_used_up = by == Some(user) && self.devices_of(user).len() >= USER_DEVICES_EVER_MAX;
        let is_full = is_used_up || self.live_devices_of(user).len() >= USER_DEVICES_MAX;
        if is_full { Err(Refusal::LimitReached) } else { Ok(()) }
    }

    /// Whether the table has room, or something expired that can go. A code that exists is none to give out.
    fn check_room_for_invite(&self, code: CodeHash) -> Result<(), Refusal> {
        if self.open_invite(code).is_some() {
            return Err(Refusal::BadInvite);
        }
        let count = self.tables.counts().invites + self.pending.added.invites;
        let expired = self.tables.invites().next().is_some_and(|(_, row)| row.expires_ms <= self.now_ms);
        if count < INVITES_MAX || expired { Ok(()) } else { Err(Refusal::LimitReached) }
    }

    fn put_invite(
        &mut self,
        code: CodeHash,
        opens: InviteFor,
        (by, actor): (Option<UserId>, Actor),
        expires_ms: u64,
    ) -> Answer {
        let is_full = self.tables.counts().invites + self.pending.added.invites >= INVITES_MAX;
        let kept_ms = if is_full { 0 } else { EXPIRED_KEPT_MS };
        let gone_before = self.now_ms.saturating_sub(kept_ms);
        let expired = self.tables.invites().take_while(|(_, row)| row.expires_ms <= gone_before);
        let gone: Vec<CodeHash> = expired
            .map(|(code, _)| code)
            .filter(|code| self.open_invite(*code).is_some())
            .take(REMOVED_AT_ONCE)
            .collect();
        for code in gone {
            self.put(Write::InviteGone(code));
        }
        let expires_ms = expires_ms.min(self.now_ms.saturating_add(INVITE_LIFETIME_S_MAX * 1_000));
        let by_device = match actor {
            Actor::Device(device) => Some(device),
            Actor::Operator => None,
        };
        self.put(Write::Invite(code, InviteRow { opens, by, by_device, expires_ms, used: None }));
        Answer::Invited { expires_ms }
    }

    // ---- using them ---------------------------------------------------------------------------------------------------

    /// The handle wanted counts for the first invite only: any other says itself whom it is for.
    pub(super) fn enrol(
        &mut self,
        code: CodeHash,
        key: DeviceKey,
        handle: Option<Handle>,
        device_name_wanted: &str,
    ) -> Decided {
        let invite = self.open_invite(code).cloned().ok_or(Refusal::BadInvite)?;
        if let Some(device) = invite.used {
            return self.enrolled_before(device, key, invite.expires_ms);
        }
        if !self.may_grow() {
            return Err(Refusal::StorageFull);
        }
        if invite.expires_ms <= self.now_ms {
            return Err(Refusal::InviteExpired);
        }
        if self.is_key_known(key) || !self.stands_behind(&invite) {
            return Err(Refusal::BadInvite);
        }
        let name = device_name(device_name_wanted).ok_or(Refusal::BadName)?;
        if self.tables.counts().devices + self.pending.added.devices >= DEVICES_MAX {
            return Err(Refusal::LimitReached);
        }
        let seed = Seed { code, key, name, invite: invite.clone() };
        match invite.opens {
            InviteFor::First => self.enrol_first(seed, handle),
            InviteFor::User { handle, group } => self.enrol_user(seed, handle, group),
            InviteFor::Device { user } => self.enrol_device(seed, user),
        }
    }

    /// Whether who made an invite may still come in, by the device it was made on: who has a stolen one would else be back
    /// with what they had it make in time.
    fn stands_behind(&self, invite: &InviteRow) -> bool {
        let is_live = |device| self.device(device).is_some_and(|row| row.revoked_ms.is_none());
        invite.by.is_none_or(|by| self.is_active(by)) && invite.by_device.is_none_or(is_live)
    }

    /// A lost answer is given again to whom it belongs, until the invite expires.
    fn enrolled_before(&self, device: DeviceId, key: DeviceKey, expires_ms: u64) -> Decided {
        let row = self.device(device).filter(|row| row.key == key).ok_or(Refusal::BadInvite)?;
        if expires_ms <= self.now_ms {
            return Err(Refusal::InviteExpired);
        }
        let user = self.session(device)?;
        let handle = self.user(row.user).ok_or(Refusal::NoSuchUser)?.handle.clone();
        Ok(Answer::Enrolled { device, user, handle })
    }

    fn enrol_first(&mut self, seed: Seed, handle: Option<Handle>) -> Decided {
        if self.meta(Meta::OperatorExisted) != 0 {
            return Err(Refusal::BadInvite);
        }
        let handle = handle.ok_or(Refusal::HandleNeeded)?;
        let user = self.new_user(&handle, true)?;
        self.put(Write::Meta(Meta::OperatorExisted, 1));
        self.events.push(Event::OperatorExists);
        let device = self.new_device(seed, user);
        Ok(Answer::Enrolled { device, user, handle })
    }

    /// The group is joined in the same frame, unless it died or the inviter lost the right to add: the user is welcome
    /// all the same.
    fn enrol_user(&mut self, seed: Seed, handle: Handle, group: Option<GroupId>) -> Decided {
        let by = seed.invite.by;
        let user = self.new_user(&handle, false)?;
        let device = self.new_device(seed, user);
        if let Some(group) = group {
            let may = self.may_in(group, Verb::AddMember, by).and_then(|()| self.check_join(group, user));
            if may.is_ok() {
                self.join(group, user, by.unwrap_or(user));
            }
        }
        Ok(Answer::Enrolled { device, user, handle })
    }

    fn enrol_device(&mut self, seed: Seed, user: UserId) -> Decided {
        let row = self.user(user).ok_or(Refusal::NoSuchUser)?;
        user_may_come_in(row)?;
        let handle = row.handle.clone();
        self.check_room_for_device(user, seed.invite.by)?;
        let groups = self.groups_of(user);
        if !self.has_room_for_cursors(groups.len()) {
            return Err(Refusal::LimitReached);
        }
        let devices = self.devices_of(user);
        let start = |group| (group, self.delivery_start(group, user, &devices));
        let starts: Vec<_> = groups.into_iter().map(start).collect();
        let device = self.new_device(seed, user);
        for (group, row) in starts {
            self.put(Write::Cursor(group, user, device, row));
        }
        Ok(Answer::Enrolled { device, user, handle })
    }

    fn new_user(&mut self, handle: &Handle, operator: bool) -> Result<UserId, Refusal> {
        if self.handle_holder(handle).is_some() {
            return Err(Refusal::HandleTaken);
        }
        let last = u32::try_from(self.meta(Meta::LastUser)).unwrap_or(u32::MAX);
        let users = self.tables.counts().users + self.pending.added.users;
        if users >= USERS_MAX || last >= UserId::MAX.value() {
            return Err(Refusal::LimitReached);
        }
        let user = UserId::new(last + 1);
        self.put(Write::Meta(Meta::LastUser, u64::from(user.value())));
        self.put(Write::User(user, UserRow::new(handle.clone(), operator, self.now_ms)));
        Ok(user)
    }

    /// Makes the device and marks the invite as used by it.
    fn new_device(&mut self, seed: Seed, user: UserId) -> DeviceId {
        let last = u32::try_from(self.meta(Meta::LastDevice)).unwrap_or(u32::MAX);
        let device = DeviceId::new(last.saturating_add(1));
        self.put(Write::Meta(Meta::LastDevice, u64::from(device.value())));
        let row = DeviceRow {
            // The clock may have been set back.
            seen_day: day_of(self.meta(Meta::RetentionClock)),
            user,
            key: seed.key,
            name: seed.name,
            enrolled_ms: self.now_ms,
            revoked_ms: None,
            invite: seed.code,
        };
        self.put(Write::Device(device, row));
        self.put(Write::Invite(seed.code, InviteRow { used: Some(device), ..seed.invite }));
        self.events.push(Event::DeviceAdded(device));
        device
    }

    fn is_key_known(&self, key: DeviceKey) -> bool {
        self.pending.rows.device_by_key(key).or_else(|| self.tables.device_by_key(key)).is_some()
    }
}

/// What a new device is made from.
struct Seed {
    code: CodeHash,
    key: DeviceKey,
    name: String,
    invite: InviteRow,
}
