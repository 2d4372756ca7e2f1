//! Members: who comes, who goes, and who owns a group when its owner went.
//!
//! A join and the end of a stay are items; they are the borders of the stay, and both are visible to the member. A
//! group without members is dead: nobody in it can add, and an invite into it joins nobody.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Event, Refusal};
use crate::core::conversations::READ_MARK;
use crate::core::rows::{CursorRow, Handle, Interval, ItemContent, MemberRow, Policy, Role, Switches, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, MessageId, Tag, UserId};
use crate::limits::{CURSORS_MAX, GROUP_MEMBERS_MAX, GROUPS_MAX, INTERVALS_MAX, MEMBERSHIPS_MAX};

impl Decision<'_> {
    // ---- coming -------------------------------------------------------------------------------------------------------

    pub(super) fn add_member(&mut self, by: DeviceId, group: GroupId, handle: &Handle) -> Decided {
        let asker = self.session(by)?;
        self.may_in(group, Verb::AddMember, Some(asker))?;
        let user = self.user_by_handle(handle).ok_or(Refusal::NoSuchUser)?;
        self.check_join(group, user)?;
        if self.user(user).is_some_and(|row| row.switches.is_on(Switches::NOT_ADDED)) {
            return Err(Refusal::NotAddable);
        }
        self.use_up(asker, Limited::Additions, 1, self.settings.additions)?;
        Ok(Answer::Done(Some(self.join(group, user, asker))))
    }

    /// Whether a user can join a group now.
    pub(super) fn check_join(&self, group: GroupId, user: UserId) -> Result<(), Refusal> {
        if let Some(row) = self.member(group, user) {
            if row.is_member() {
                return Err(Refusal::AlreadyMember);
            }
            if row.banned {
                return Err(Refusal::Banned);
            }
            if row.intervals.len() >= INTERVALS_MAX {
                return Err(Refusal::TooManyRejoins);
            }
        }
        if self.member_count(group) >= GROUP_MEMBERS_MAX {
            return Err(Refusal::LimitReached);
        }
        self.check_room_for(group, &[user])
    }

    /// Whether the tables have room for a group, for memberships in it and for their cursors; what is there needs none.
    pub(super) fn check_room_for(&self, group: GroupId, users: &[UserId]) -> Result<(), Refusal> {
        let (counts, added) = (self.tables.counts(), self.pending.added);
        let fits = |now: usize, more: usize, most: usize| more == 0 || now + more <= most;
        let new: Vec<UserId> = users.iter().copied().filter(|user| self.member(group, *user).is_none()).collect();
        let groups = usize::from(self.group(group).is_none());
        let cursors: usize = new.iter().map(|user| self.live_devices_of(*user).len() + 1).sum();
        let fits = fits(counts.groups + added.groups, groups, GROUPS_MAX)
            && fits(counts.memberships + added.memberships, new.len(), MEMBERSHIPS_MAX)
            && (cursors == 0 || self.has_room_for_cursors(cursors));
        if fits { Ok(()) } else { Err(Refusal::LimitReached) }
    }

    pub(super) fn has_room_for_cursors(&self, more: usize) -> bool {
        self.tables.counts().cursors + self.pending.added.cursors + more <= CURSORS_MAX
    }

    /// Joins a user, which was checked. The policy of the group is frozen into the stay.
    pub(super) fn join(&mut self, group: GroupId, user: UserId, author: UserId) -> MessageId {
        let content_before = self.marks(group).content;
        let policy = self.group(group).map_or(Policy::FromJoin, |row| row.policy);
        let before = self.member(group, user).cloned();
        let joined = self.add_item(group, author, Tag::NONE, ItemContent::Joined(user));
        let stay = Interval { joined, left: None, policy, content_before, content_until: 0 };
        let ended = before.as_ref().and_then(|row| row.intervals.last()).and_then(|stay| stay.left);
        let mut intervals = before.map(|row| row.intervals).unwrap_or_default();
        intervals.push(stay);
        self.put(Write::Member(group, user, MemberRow::present(Role::Member, intervals)));
        match ended {
            None => self.start_cursors(group, user, joined.previous(), content_before),
            Some(ended) => self.raise_cursors(group, user, ended, joined.previous(), content_before),
        }
        self.events.push(Event::Membership { group, user, member: true, msgid: joined });
        joined
    }

    /// A first join: delivery and reading start just before it, on every live device.
    pub(super) fn start_cursors(&mut self, group: GroupId, user: UserId, at: MessageId, content: u64) {
        let row = CursorRow { msgid: at, content, own: self.own(group, user), version: 0 };
        self.put(Write::Cursor(group, user, READ_MARK, row));
        for device in self.live_devices_of(user) {
            self.put(Write::Cursor(group, user, device, row));
        }
    }

    /// A rejoin: what had passed the end of the stay before starts just before the new one; what had not still has
    /// items of the old stay to get.
    fn raise_cursors(&mut self, group: GroupId, user: UserId, ended: MessageId, at: MessageId, content: u64) {
        let row = CursorRow { msgid: at, content, own: self.own(group, user), version: 0 };
        let mut devices = self.live_devices_of(user);
        devices.push(READ_MARK);
        for device in devices {
            let before = self.cursor(group, user, device).filter(|cursor| cursor.msgid >= ended);
            let Some(CursorRow { version, .. }) = before else { continue };
            self.put(Write::Cursor(group, user, device, CursorRow { version, ..row }));
            if device != READ_MARK {
                self.events.push(Event::Cursors { device, entries: vec![(group, at)] });
            }
        }
    }

    // ---- going --------------------------------------------------------------------------------------------------------

    /// An owner removes anyone, an admin members. Who removes themselves leaves.
    pub(super) fn remove_member(&mut self, by: DeviceId, group: GroupId, handle: &Handle) -> Decided {
        let asker = self.session(by)?;
        let named = self.user_by_handle(handle);
        if named == Some(asker) {
            return self.leave(group, asker);
        }
        self.may_in(group, Verb::RemoveMember, Some(asker))?;
        let user = named.ok_or(Refusal::NoSuchUser)?;
        let target = self.member(group, user).filter(|row| row.is_member()).ok_or(Refusal::NotMember)?;
        self.may_in(group, Verb::removal_of(target.role), Some(asker))?;
        self.use_up(asker, Limited::Sends, 1, self.settings.sends)?;
        Ok(Answer::Done(Some(self.end_stay(group, user, asker, ItemContent::Removed(user)))))
    }

    pub(super) fn leave_group(&mut self, by: DeviceId, group: GroupId) -> Decided {
        let user = self.session(by)?;
        self.leave(group, user)
    }

    fn leave(&mut self, group: GroupId, user: UserId) -> Decided {
        self.may_in(group, Verb::LeaveGroup, Some(user))?;
        let was_owner = self.member(group, user).is_some_and(|row| row.role == Role::Owner);
        let left = self.end_stay(group, user, user, ItemContent::Left(user));
        if was_owner {
            self.pass_on_ownership(group);
        }
        Ok(Answer::Done(Some(left)))
    }

    pub(super) fn end_stay(&mut self, group: GroupId, user: UserId, author: UserId, content: ItemContent) -> MessageId {
        let content_until = self.marks(group).content;
        let name_at_leave = self.group(group).map(|row| row.name.clone());
        let before = self.member(group, user).cloned();
        let left = self.add_item(group, author, Tag::NONE, content);
        if let Some(mut row) = before {
            if let Some(stay) = row.intervals.last_mut() {
                stay.left = Some(left);
                stay.content_until = content_until;
            }
            row.name_at_leave = name_at_leave;
            row.muted = false;
            self.put(Write::Member(group, user, row));
        }
        self.events.push(Event::Membership { group, user, member: false, msgid: left });
        left
    }

    /// A group with members never is without an owner: the admin who is there longest takes over, else the member who
    /// is; who is deactivated or muted only where there is nobody else. An owner who is deactivated stays one, and is
    /// enough where all are: nobody else could do what owners do. Nobody is the author of that item: the rule did it.
    pub(super) fn pass_on_ownership(&mut self, group: GroupId) {
        let members = self.current_members(group);
        let is_anyone_active = members.iter().any(|(user, _)| self.is_active(*user));
        let is_enough = |user: UserId| !is_anyone_active || self.is_active(user);
        if members.iter().any(|(user, row)| row.role == Role::Owner && is_enough(*user)) {
            return;
        }
        let order =
            |user: UserId, row: &MemberRow| (!self.is_active(user), row.muted, row.role != Role::Admin, row.joined());
        let next = members.into_iter().min_by_key(|(user, row)| order(*user, row));
        let Some((user, row)) = next.map(|(user, row)| (user, row.clone())) else { return };
        self.change_role(group, UserId::ZERO, (user, row), Role::Owner);
    }
}
