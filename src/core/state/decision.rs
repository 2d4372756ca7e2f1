//! One command at the moment of its decision: what it sees, and how it writes.
//!
//! It sees the committed view with the batch under way laid over it. The parts of a decision first check everything and
//! then write, so that a refusal leaves nothing behind.

use std::collections::BTreeSet;

use crate::core::authorise::{Asker, Verb, authorise};
use crate::core::command::{Actor, Answer, Command, Event, Refusal, RoomNeeded, Storage};
use crate::core::rows::{
    CodeHash, CursorRow, DeviceRow, GroupRow, Handle, InviteRow, ItemContent, ItemRow, MemberRow, Meta, SendRow,
    SendWindow, UserRow, Write,
};
use crate::core::state::pending::Pending;
use crate::core::state::rates::{Limited, Rate, Rates, Settings};
use crate::core::state::turns::Turns;
use crate::core::state::users::may_come_in;
use crate::core::tables::{Marks, Tables};
use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag, UserId};

/// A decision under way.
pub(super) struct Decision<'a> {
    pub(super) tables: &'a Tables,
    pub(super) pending: &'a mut Pending,
    pub(super) rates: &'a mut Rates,
    pub(super) turns: &'a mut Turns,
    pub(super) settings: &'a Settings,
    pub(super) storage: Storage,
    pub(super) now_ms: u64,
    pub(super) writes: Vec<Write>,
    pub(super) events: Vec<Event>,
}

/// An answer, or why not.
pub(super) type Decided = Result<Answer, Refusal>;

impl Decision<'_> {
    pub(super) fn command(&mut self, command: Command) -> Answer {
        if !self.has_room(&command) {
            return Answer::Refused(Refusal::StorageFull);
        }
        let decided = match command {
            Command::Enrol { code, key, handle, device_name } => self.enrol(code, key, handle, &device_name),
            Command::RenewFirstInvite { code, expires_ms } => self.renew_first_invite(code, expires_ms),
            Command::Invite { by, handle, group, code, expires_ms } => self.invite(by, handle, group, code, expires_ms),
            Command::InviteDevice { by, user, code, expires_ms } => self.invite_device(by, user, code, expires_ms),
            Command::RenameDevice { by, device, name } => self.rename_device(by, device, &name),
            Command::RevokeDevice { by, device } => self.revoke_device(by, device),
            Command::DeactivateUser { by, handle } => self.deactivate_user(by, &handle),
            Command::ReactivateUser { by, handle } => self.reactivate_user(by, &handle),
            Command::DeleteUser { by, handle } => self.delete_user(by, &handle),
            Command::FreeHandle { by, handle } => self.free_handle(by, &handle),
            Command::NameUser { by, name } => self.name_user(by, &name),
            Command::CreateGroup { by, name, policy } => self.create_group(by, &name, policy),
            Command::OpenDirect { by, handle } => self.open_direct(by, &handle),
            Command::AddMember { by, group, handle } => self.add_member(by, group, &handle),
            Command::RemoveMember { by, group, handle } => self.remove_member(by, group, &handle),
            Command::LeaveGroup { by, group } => self.leave_group(by, group),
            Command::RenameGroup { by, group, name } => self.rename_group(by, group, &name),
            Command::SetRole { by, group, handle, role } => self.set_role(by, group, &handle, role),
            Command::SetMuted { by, group, handle, muted } => self.set_muted(by, group, &handle, muted),
            Command::SetBanned { by, group, handle, banned: true } => self.ban(by, group, &handle),
            Command::SetBanned { by, group, handle, banned: false } => self.lift_ban(by, group, &handle),
            Command::SetTopic { by, group, topic } => self.set_topic(by, group, &topic),
            Command::SetPolicy { by, group, policy } => self.set_policy(by, group, policy),
            Command::SetSwitch { by, switch, on } => self.set_switch(by, switch, on),
            Command::Send(send) => self.send(send),
            Command::Ack { device, entries } => self.ack(device, &entries),
            Command::ReadMarks { device, entries } => self.read_marks(device, &entries),
            Command::MarkRead { device, group, msgid, version } => self.mark_read(device, group, msgid, version),
            Command::MarkUnread { device, group, msgid, version } => self.mark_unread(device, group, msgid, version),
            Command::Skip { device, group, to } => self.skip(device, group, to),
            Command::SetRetention { by, group, policy } => self.set_retention(by, group, policy),
            Command::Retain(retain) => self.retain(&retain),
            Command::Trim(trim) => self.trim(trim),
            Command::KeepClock { clock_ms } => self.keep_clock(clock_ms),
            Command::Seen { device, day } => self.seen(device, day),
        };
        decided.unwrap_or_else(Answer::Refused)
    }

    fn has_room(&self, command: &Command) -> bool {
        match command.room_needed() {
            RoomNeeded::Growth => self.may_grow(),
            RoomNeeded::Reserve => self.storage < Storage::Closed,
            RoomNeeded::Judged => true,
        }
    }

    /// Whether there is room for something new.
    pub(super) fn may_grow(&self) -> bool {
        self.storage < Storage::Reserve
    }

    // ---- how it writes ------------------------------------------------------------------------------------------------

    pub(super) fn put(&mut self, write: Write) {
        self.pending.put(self.tables, &write);
        self.writes.push(write);
    }

    /// Adds an item to a group and tells of it.
    pub(super) fn add_item(&mut self, group: GroupId, author: UserId, tag: Tag, content: ItemContent) -> MessageId {
        self.add_edit(group, author, tag, content, MessageId::ZERO)
    }

    /// The same of an edit, with the one before it.
    pub(super) fn add_edit(
        &mut self,
        group: GroupId,
        author: UserId,
        tag: Tag,
        content: ItemContent,
        last_edit: MessageId,
    ) -> MessageId {
        let marks = self.marks(group);
        let msgid = marks.head.next();
        let counts = u64::from(content.is_content());
        // By the clock of retention, which does not go back, it would else be old already.
        let clock_ms = self.meta(Meta::RetentionClock);
        let aged_from_ms = if self.now_ms < clock_ms { clock_ms } else { 0 };
        let own_ordinal = if content.is_content() { self.own(group, author) + 1 } else { 0 };
        self.put(Write::Item(ItemRow {
            group,
            msgid,
            author,
            time_ms: self.now_ms,
            aged_from_ms,
            tag,
            content,
            content_ordinal: marks.content + counts,
            own_ordinal,
            last_edit,
            edits: 0,
            recalled: false,
        }));
        self.events.push(Event::Items { group, first: msgid, last: msgid });
        msgid
    }

    /// Uses up a part of what a user may do.
    pub(super) fn use_up(&mut self, user: UserId, what: Limited, amount: u64, rate: Rate) -> Result<(), Refusal> {
        self.rates.use_up(user, what, amount, rate, self.now_ms)
    }

    // ---- who asks -----------------------------------------------------------------------------------------------------

    /// The user of a device, if both may come in.
    pub(super) fn session(&self, device: DeviceId) -> Result<UserId, Refusal> {
        let row = self.device(device).ok_or(Refusal::UnknownDevice)?;
        may_come_in(row, self.user(row.user))?;
        Ok(row.user)
    }

    /// The user that asks; none for the operator key.
    pub(super) fn actor(&self, by: Actor) -> Result<Option<UserId>, Refusal> {
        match by {
            Actor::Device(device) => self.session(device).map(Some),
            Actor::Operator => Ok(None),
        }
    }

    /// Whether somebody (none: the operator key) may do what is about no group.
    pub(super) fn may(&self, verb: Verb, who: Option<UserId>) -> Result<(), Refusal> {
        authorise(verb, Asker::in_no_group(who, |user| self.user(user)), self.settings.rights)
    }

    /// Whether somebody may do this in a group.
    pub(super) fn may_in(&self, group: GroupId, verb: Verb, who: Option<UserId>) -> Result<(), Refusal> {
        let asker = Asker::in_group(group, who, |user| self.user(user), |user| self.member(group, user));
        authorise(verb, asker, self.settings.rights)
    }

    // ---- what it sees -------------------------------------------------------------------------------------------------

    pub(super) fn group(&self, group: GroupId) -> Option<&GroupRow> {
        self.pending.rows.group(group).or_else(|| self.tables.group(group))
    }

    pub(super) fn marks(&self, group: GroupId) -> Marks {
        self.pending.rows.marks(group).or_else(|| self.tables.marks(group)).unwrap_or_default()
    }

    /// The first item of a group that retention has kept.
    pub(super) fn first_kept(&self, group: GroupId) -> MessageId {
        self.group(group).map_or(MessageId::new(1), |row| row.first_kept)
    }

    pub(super) fn own(&self, group: GroupId, user: UserId) -> u64 {
        self.pending.rows.own(group, user).max(self.tables.own(group, user))
    }

    pub(super) fn mentions(&self, group: GroupId, user: UserId) -> u64 {
        self.pending.rows.mentions(group, user).max(self.tables.mentions(group, user))
    }

    pub(super) fn is_recalled(&self, group: GroupId, msgid: MessageId) -> bool {
        self.pending.rows.recalled().contains(group, msgid) || self.tables.recalled().contains(group, msgid)
    }

    pub(super) fn member(&self, group: GroupId, user: UserId) -> Option<&MemberRow> {
        self.pending.rows.member(group, user).or_else(|| self.tables.member(group, user))
    }

    pub(super) fn is_member(&self, group: GroupId, user: UserId) -> bool {
        self.member(group, user).is_some_and(MemberRow::is_member)
    }

    /// Current members of a group; for what is rare: it looks at every one.
    pub(super) fn current_members(&self, group: GroupId) -> Vec<(UserId, &MemberRow)> {
        let pending = self.pending.rows.members(group, UserId::ZERO);
        let committed = self.tables.members(group, UserId::ZERO);
        committed
            .filter(|(user, _)| self.pending.rows.member(group, *user).is_none())
            .chain(pending)
            .filter(|(_, row)| row.is_member())
            .collect()
    }

    /// How many current members a group has; looks only at those that the batch changed.
    pub(super) fn member_count(&self, group: GroupId) -> usize {
        let mut count = self.tables.member_count(group);
        for (user, row) in self.pending.rows.members(group, UserId::ZERO) {
            let was = self.tables.is_member(group, user);
            count = (count + usize::from(row.is_member())).saturating_sub(usize::from(was));
        }
        count
    }

    pub(super) fn groups_of(&self, user: UserId) -> BTreeSet<GroupId> {
        let committed = self.tables.groups_of(user, GroupId::ZERO);
        committed.chain(self.pending.rows.groups_of(user, GroupId::ZERO)).collect()
    }

    pub(super) fn cursor(&self, group: GroupId, user: UserId, device: DeviceId) -> Option<CursorRow> {
        self.pending.rows.cursor(group, user, device).or_else(|| self.tables.cursor(group, user, device))
    }

    pub(super) fn user(&self, user: UserId) -> Option<&UserRow> {
        self.pending.rows.user(user).or_else(|| self.tables.user(user))
    }

    /// The user with this handle; who is deleted has none any more.
    pub(super) fn user_by_handle(&self, handle: &Handle) -> Option<UserId> {
        self.handle_holder(handle).filter(|user| self.user(*user).is_some_and(|row| !row.is_deleted()))
    }

    /// The user with this handle, or the deleted one for whose sake it is reserved.
    pub(super) fn handle_holder(&self, handle: &Handle) -> Option<UserId> {
        let still_holds = |user: &UserId| self.user(*user).is_some_and(UserRow::holds_handle);
        let committed = || self.tables.handle_holder(handle).filter(still_holds);
        self.pending.rows.handle_holder(handle).or_else(committed)
    }

    pub(super) fn device(&self, device: DeviceId) -> Option<&DeviceRow> {
        self.pending.rows.device(device).or_else(|| self.tables.device(device))
    }

    /// All devices of a user, revoked ones included.
    pub(super) fn devices_of(&self, user: UserId) -> BTreeSet<DeviceId> {
        let committed = self.tables.devices_of(user, DeviceId::ZERO);
        committed.chain(self.pending.rows.devices_of(user, DeviceId::ZERO)).map(|(device, _)| device).collect()
    }

    /// Devices of a user that are not revoked; a user who is deactivated keeps theirs.
    pub(super) fn live_devices_of(&self, user: UserId) -> Vec<DeviceId> {
        let is_live = |device: &DeviceId| self.device(*device).is_some_and(|row| row.revoked_ms.is_none());
        self.devices_of(user).into_iter().filter(is_live).collect()
    }

    pub(super) fn open_invite(&self, code: CodeHash) -> Option<&InviteRow> {
        if self.pending.is_invite_gone(code) {
            return None;
        }
        self.pending.rows.invite(code).or_else(|| self.tables.invite(code))
    }

    pub(super) fn window(&self, device: DeviceId) -> SendWindow {
        self.pending.rows.window(device).or_else(|| self.tables.window(device)).unwrap_or_default()
    }

    pub(super) fn stored_send(&self, device: DeviceId, seq: ClientSeq) -> Option<SendRow> {
        if self.pending.is_send_gone(device, seq) {
            return None;
        }
        self.pending.rows.send(device, seq).or_else(|| self.tables.send(device, seq))
    }

    /// Numbers below this one whose sends are still kept.
    pub(super) fn stored_sends_below(&self, device: DeviceId, below: ClientSeq) -> BTreeSet<ClientSeq> {
        let committed = self.tables.sends_below(device, below);
        committed
            .chain(self.pending.rows.sends_below(device, below))
            .filter(|seq| !self.pending.is_send_gone(device, *seq))
            .collect()
    }

    pub(super) fn meta(&self, meta: Meta) -> u64 {
        self.pending.rows.meta(meta).max(self.tables.meta(meta))
    }
}
