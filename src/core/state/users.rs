//! Users: shut out and let in again, deleted, and their handles freed, by an operator; and what each wants to be called.
//!
//! A user who is deactivated keeps groups, cursors and devices, and can use none of them. Deletion begins with that and
//! then ends their stays, as many at a time as fit a frame beside others: the operator asks again until none is left, and
//! only the last step says that they are deleted. So whatever fails in between, they are shut out, and asking again goes
//! on. Their handle stays reserved until it is freed: in what they wrote it must not become somebody else's by itself.

use crate::core::authorise::Verb;
use crate::core::command::{Actor, Answer, Event, Refusal};
use crate::core::names::display_name;
use crate::core::rows::{DeviceRow, Handle, ItemContent, Role, UserRow, UserState, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, UserId};
use crate::limits::STAYS_ENDED_AT_ONCE;

/// Whether a device may come in, whose user has this row.
///
/// # Errors
/// Why not.
pub fn may_come_in(device: &DeviceRow, user: Option<&UserRow>) -> Result<(), Refusal> {
    let user = user.ok_or(Refusal::UnknownDevice)?;
    match user_may_come_in(user) {
        Ok(()) | Err(Refusal::Deactivated) if device.revoked_ms.is_some() => Err(Refusal::DeviceRevoked),
        decided => decided,
    }
}

pub(super) fn user_may_come_in(user: &UserRow) -> Result<(), Refusal> {
    match user.state {
        UserState::Active => Ok(()),
        UserState::Deactivated { .. } => Err(Refusal::Deactivated),
        UserState::Deleted { .. } => Err(Refusal::UserDeleted),
    }
}

impl Decision<'_> {
    /// Again is no error: it is done.
    pub(super) fn deactivate_user(&mut self, by: Actor, handle: &Handle) -> Decided {
        let (user, row) = self.user_for(by, Verb::DeactivateUser, handle)?;
        match row.state {
            UserState::Active => self.shut_out(user, row),
            UserState::Deactivated { .. } => {}
            UserState::Deleted { .. } => return Err(Refusal::UserDeleted),
        }
        Ok(Answer::Done(None))
    }

    pub(super) fn reactivate_user(&mut self, by: Actor, handle: &Handle) -> Decided {
        let (user, row) = self.user_for(by, Verb::ReactivateUser, handle)?;
        match row.state {
            UserState::Active => {}
            UserState::Deactivated { .. } => self.put(Write::User(user, UserRow { state: UserState::Active, ..row })),
            UserState::Deleted { .. } => return Err(Refusal::UserDeleted),
        }
        Ok(Answer::Done(None))
    }

    /// One step; of a deleted user there is none left.
    pub(super) fn delete_user(&mut self, by: Actor, handle: &Handle) -> Decided {
        let (user, row) = self.user_for(by, Verb::DeleteUser, handle)?;
        match row.state {
            UserState::Active => self.shut_out(user, row.clone()),
            UserState::Deactivated { .. } => {}
            UserState::Deleted { .. } => return Ok(Answer::Deleting { left: 0 }),
        }
        let is_in = |group: &GroupId| self.is_member(*group, user);
        let groups: Vec<GroupId> = self.groups_of(user).into_iter().filter(is_in).collect();
        for group in groups.iter().take(STAYS_ENDED_AT_ONCE) {
            self.end_stay_of_deleted(*group, user);
        }
        let left = groups.len().saturating_sub(STAYS_ENDED_AT_ONCE);
        if left == 0 {
            self.erase(user, row);
        }
        Ok(Answer::Deleting { left })
    }

    /// To who asks again after a lost answer the handle is nobody's.
    pub(super) fn free_handle(&mut self, by: Actor, handle: &Handle) -> Decided {
        let (user, row) = self.user_for(by, Verb::FreeHandle, handle)?;
        let UserState::Deleted { since_ms, .. } = row.state else { return Err(Refusal::HandleTaken) };
        let state = UserState::Deleted { since_ms, is_handle_free: true };
        self.put(Write::User(user, UserRow { state, ..row }));
        Ok(Answer::Done(None))
    }

    /// The name they have already is no change; a change is no item.
    pub(super) fn name_user(&mut self, by: DeviceId, name: &str) -> Decided {
        let user = self.session(by)?;
        self.may(Verb::NameUser, Some(user))?;
        let name = if name.is_empty() { None } else { Some(display_name(name).ok_or(Refusal::BadName)?) };
        let row = self.user(user).ok_or(Refusal::NoSuchUser)?;
        if row.name != name {
            let row = UserRow { name, ..row.clone() };
            self.use_up(user, Limited::Sends, 1, self.settings.sends)?;
            self.put(Write::User(user, row));
        }
        Ok(Answer::Done(None))
    }

    /// Whether a user may come in.
    pub(super) fn is_active(&self, user: UserId) -> bool {
        self.user(user).is_some_and(UserRow::is_active)
    }

    /// Whom an operator means, deleted users included whose handle is reserved.
    fn user_for(&self, by: Actor, verb: Verb, handle: &Handle) -> Result<(UserId, UserRow), Refusal> {
        let asker = self.actor(by)?;
        self.may(verb, asker)?;
        let user = self.handle_holder(handle).ok_or(Refusal::NoSuchUser)?;
        Ok((user, self.user(user).ok_or(Refusal::NoSuchUser)?.clone()))
    }

    fn shut_out(&mut self, user: UserId, row: UserRow) {
        let state = UserState::Deactivated { since_ms: self.now_ms };
        self.put(Write::User(user, UserRow { state, ..row }));
        self.events.push(Event::UserShutOut(user));
    }

    /// The item that says so has no author: whoever deletes users need not be of the group.
    fn end_stay_of_deleted(&mut self, group: GroupId, user: UserId) {
        let was_owner = self.member(group, user).is_some_and(|row| row.role == Role::Owner);
        self.end_stay(group, user, UserId::ZERO, ItemContent::Removed(user));
        if was_owner {
            self.pass_on_ownership(group);
        }
    }

    fn erase(&mut self, user: UserId, row: UserRow) {
        for device in self.live_devices_of(user) {
            if let Some(row) = self.device(device).cloned() {
                self.revoke(device, row);
            }
        }
        let state = UserState::Deleted { since_ms: self.now_ms, is_handle_free: false };
        self.put(Write::User(user, UserRow { operator: false, state, name: None, ..row }));
    }
}
