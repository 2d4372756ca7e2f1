//! Roles, muting and bans: who may do what in a group changes, each as an item of it.
//!
//! A group with members always has an owner: the last one who is not deactivated stays one until there is another. Owners
//! are never muted, and becoming one lifts it. Two owners who take the role from each other are decided one after the other,
//! and the second is no owner any more. A ban outlives the stay and everything else that happens to the group; muting
//! ends with the stay.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Refusal};
use crate::core::rows::{Handle, ItemContent, MemberRow, Role, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, MessageId, Tag, UserId};

impl Decision<'_> {
    // ---- roles --------------------------------------------------------------------------------------------------------

    /// Owners give roles; everybody may step down. The role that somebody has already is no change, and no item.
    pub(super) fn set_role(&mut self, by: DeviceId, group: GroupId, handle: &Handle, role: Role) -> Decided {
        let asker = self.session(by)?;
        let named = self.user_by_handle(handle);
        let own = self.member(group, asker).map(|row| row.role);
        let steps_down = named == Some(asker) && own.is_some_and(|own| !role.is_above(own));
        self.may_in(group, if steps_down { Verb::StepDown } else { Verb::SetRole }, Some(asker))?;
        let (user, row) = self.present(group, named)?;
        if row.role == role {
            return Ok(Answer::Done(None));
        }
        // Before all members are looked at, which a refusal costs too.
        self.use_up(asker, Limited::Sends, 1, self.settings.sends)?;
        if row.role == Role::Owner && !self.has_owner_beside(group, user) {
            return Err(Refusal::LastOwner);
        }
        Ok(Answer::Done(Some(self.change_role(group, asker, (user, row), role))))
    }

    /// Gives a role, which was checked.
    pub(super) fn change_role(
        &mut self,
        group: GroupId,
        author: UserId,
        (user, row): (UserId, MemberRow),
        role: Role,
    ) -> MessageId {
        let msgid = self.add_item(group, author, Tag::NONE, ItemContent::RoleChanged(user, role));
        let muted = row.muted && role != Role::Owner;
        self.put(Write::Member(group, user, MemberRow { role, muted, ..row }));
        msgid
    }

    /// Whether the group has an owner other than this user, who may come in.
    fn has_owner_beside(&self, group: GroupId, user: UserId) -> bool {
        let is_owner = |other: UserId, row: &MemberRow| row.role == Role::Owner && self.is_active(other);
        self.current_members(group).into_iter().any(|(other, row)| other != user && is_owner(other, row))
    }

    // ---- muting -------------------------------------------------------------------------------------------------------

    /// An owner mutes admins and members, an admin members; nobody mutes an owner. It is lifted in the same way.
    pub(super) fn set_muted(&mut self, by: DeviceId, group: GroupId, handle: &Handle, muted: bool) -> Decided {
        let asker = self.session(by)?;
        self.may_in(group, Verb::MuteMember, Some(asker))?;
        let (user, row) = self.present(group, self.user_by_handle(handle))?;
        let verb = match row.role {
            Role::Owner => Verb::MuteOwner,
            Role::Admin => Verb::MuteAdmin,
            Role::Member => Verb::MuteMember,
        };
        self.may_in(group, verb, Some(asker))?;
        if row.muted == muted {
            return Ok(Answer::Done(None));
        }
        self.use_up(asker, Limited::Sends, 1, self.settings.sends)?;
        let content = if muted { ItemContent::Muted(user) } else { ItemContent::Unmuted(user) };
        let msgid = self.add_item(group, asker, Tag::NONE, content);
        self.put(Write::Member(group, user, MemberRow { muted, ..row }));
        Ok(Answer::Done(Some(msgid)))
    }

    // ---- bans ---------------------------------------------------------------------------------------------------------

    /// Whoever may remove a member may ban them, and a former member as if they were a plain one. It is recorded by the
    /// item of the removal; where there is none to remove, by no item.
    pub(super) fn ban(&mut self, by: DeviceId, group: GroupId, handle: &Handle) -> Decided {
        let asker = self.session(by)?;
        self.may_in(group, Verb::RemoveMember, Some(asker))?;
        let user = self.user_by_handle(handle).ok_or(Refusal::NoSuchUser)?;
        if user == asker {
            return Err(Refusal::NotAllowed);
        }
        let row = self.member(group, user).ok_or(Refusal::NotMember)?.clone();
        if !row.is_member() {
            if !row.banned {
                self.put(Write::Member(group, user, MemberRow { banned: true, ..row }));
            }
            return Ok(Answer::Done(None));
        }
        self.may_in(group, Verb::removal_of(row.role), Some(asker))?;
        self.use_up(asker, Limited::Sends, 1, self.settings.sends)?;
        let msgid = self.end_stay(group, user, asker, ItemContent::Removed(user));
        if let Some(row) = self.member(group, user).cloned() {
            self.put(Write::Member(group, user, MemberRow { banned: true, ..row }));
        }
        Ok(Answer::Done(Some(msgid)))
    }

    pub(super) fn lift_ban(&mut self, by: DeviceId, group: GroupId, handle: &Handle) -> Decided {
        let asker = self.session(by)?;
        self.may_in(group, Verb::LiftBan, Some(asker))?;
        let user = self.user_by_handle(handle).ok_or(Refusal::NoSuchUser)?;
        let Some(row) = self.member(group, user).filter(|row| row.banned).cloned() else {
            return Ok(Answer::Done(None));
        };
        self.use_up(asker, Limited::Sends, 1, self.settings.sends)?;
        let msgid = self.add_item(group, asker, Tag::NONE, ItemContent::BanLifted(user));
        self.put(Write::Member(group, user, MemberRow { banned: false, ..row }));
        Ok(Answer::Done(Some(msgid)))
    }

    /// A user who is in the group now.
    fn present(&self, group: GroupId, named: Option<UserId>) -> Result<(UserId, MemberRow), Refusal> {
        let user = named.ok_or(Refusal::NoSuchUser)?;
        let row = self.member(group, user).filter(|row| row.is_member()).ok_or(Refusal::NotMember)?;
        Ok((user, row.clone()))
    }
}
