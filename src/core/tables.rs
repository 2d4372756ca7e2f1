//! The committed view: every row but the messages, as it is on disk. All that is read is read from here.
//!
//! It changes only by [`Tables::apply`], after the frame that holds the writes is durable, and by [`Tables::load`] when
//! a server starts. It decides nothing. Of items it keeps the head of each group and the counters of content, never a
//! body, so that its size depends on people and groups and not on history; `limits.rs` bounds it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::core::changes::Changes;
use crate::core::conversations::READ_MARK;
use crate::core::cursors::Cursors;
use crate::core::recalled::Recalled;
use crate::core::rows::{
    Act, CodeHash, CursorRow, DeviceKey, DeviceRow, GroupRow, Handle, InviteFor, InviteRow, ItemContent, ItemRow,
    MemberRow, Meta, SendRow, SendWindow, UserRow, Write,
};
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// The highest msgid.
    pub head: MessageId,
    /// Content items up to there.
    pub content: u64,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Users.
    pub users: usize,
    /// Groups, dead ones included.
    pub groups: usize,
    /// Devices, revoked ones included.
    pub devices: usize,
    /// Devices that are not revoked.
    pub devices_live: usize,
    /// Memberships, former ones included.
    pub memberships: usize,
    /// Cursors and read marks.
    pub cursors: usize,
    /// Invites, used and expired ones included.
    pub invites: usize,
    /// Items since the store was made.
    pub items: u64,
}

/// The content items of a user in a group.
#[derive(Clone, Copy, Default)]
struct Own {
    count: u64,
    last: MessageId,
}

/// All resident rows.
#[derive(Default)]
pub struct Tables {
    groups: BTreeMap<GroupId, GroupRow>,
    marks: BTreeMap<GroupId, Marks>,
    present: BTreeMap<GroupId, usize>,
    members: BTreeMap<(GroupId, UserId), MemberRow>,
    /// With the frame that has changed the membership or its read mark last.
    memberships: BTreeMap<(UserId, GroupId), Lsn>,
    frames: Changes,
    own: BTreeMap<(GroupId, UserId), Own>,
    mentions: BTreeMap<(GroupId, UserId), u64>,
    recalled: Recalled,
    changes: BTreeMap<GroupId, MessageId>,
    cursors: Cursors,
    users: BTreeMap<UserId, UserRow>,
    handles: BTreeMap<Handle, UserId>,
    devices: BTreeMap<DeviceId, DeviceRow>,
    devices_of: BTreeSet<(UserId, DeviceId)>,
    keys: BTreeMap<DeviceKey, DeviceId>,
    revoked: usize,
    invites: BTreeMap<CodeHash, InviteRow>,
    expiries: BTreeSet<(u64, CodeHash)>,
    device_invites: BTreeSet<(UserId, u64, CodeHash)>,
    sends: BTreeMap<(DeviceId, ClientSeq), SendRow>,
    windows: BTreeMap<DeviceId, SendWindow>,
    meta: BTreeMap<Meta, u64>,
    items: u64,
}

// ---- how it changes ---------------------------------------------------------------------------------------------------

impl Tables {
    /// An empty server.
    #[must_use]
    pub fn new() -> Tables {
        Tables::default()
    }

    /// Takes a row read from the index at a start, in any order. Of an item only head and counters are taken, so the
    /// last item of each group and the last content item of each of its authors are enough.
    pub fn load(&mut self, write: Write) {
        self.change(&write);
        if let Write::Item(item) = &write {
            // Whatever was read of a group before counts as outdated.
            self.note_change(item.group, item.msgid);
        }
    }

    /// What is loaded or applied next was written by this frame of the log; frames of what is applied ascend. A row that
    /// names a membership is loaded after that.
    pub fn begin_frame(&mut self, frame: Lsn) {
        self.frames.begin(frame);
    }

    /// Takes the number of a user's last content item in a group, which may be gone.
    pub fn load_own(&mut self, group: GroupId, user: UserId, number: u64, msgid: MessageId) {
        let own = self.own.entry((group, user)).or_default();
        *own = Own { count: number.max(own.count), last: msgid.max(own.last) };
    }

    /// Takes the writes of a frame that is durable now, in their order.
    pub fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            self.change(write);
        }
    }

    fn change(&mut self, write: &Write) {
        match write {
            Write::Group(group, row) => {
                self.raise(*group, Marks { head: row.head_mark, content: row.content_mark });
                let kept = self.groups.insert(*group, row.clone()).map(|before| before.first_kept);
                if kept == Some(row.first_kept) { self.frames.group(*group) } else { self.frames.kept(*group) }
            }
            Write::Member(group, user, row) => self.put_member(*group, *user, row),
            Write::Cursor(group, user, device, row) => {
                self.cursors.put(*group, *user, *device, *row);
                if *device == READ_MARK && self.memberships.contains_key(&(*user, *group)) {
                    self.note_membership(*user, *group);
                }
            }
            Write::User(user, row) => self.put_user(*user, row),
            Write::Device(device, row) => self.put_device(*device, row),
            Write::Invite(code, row) => {
                self.drop_invite(*code);
                self.expiries.insert((row.expires_ms, *code));
                if let InviteFor::Device { user } = row.opens {
                    self.device_invites.insert((user, row.expires_ms, *code));
                }
                self.invites.insert(*code, row.clone());
            }
            Write::InviteGone(code) => self.drop_invite(*code),
            Write::Item(item) => self.put_item(item),
            Write::Changed(_) => {}
            Write::Recalled(group, msgid, row) => {
                self.recalled.insert(*group, *msgid, row);
                // It may have been unread, or the last message, for who has left too.
                self.frames.kept(*group);
            }
            Write::Mention(group, user, number, _) => {
                let mentions = self.mentions.entry((*group, *user)).or_default();
                *mentions = (*mentions).max(*number);
            }
            // Heads and counters stay where they are.
            Write::ItemGone(..) | Write::OwnGone(..) | Write::MentionGone(..) => {}
            Write::RecalledGone(group, msgid, row) => self.recalled.forget(*group, *msgid, row),
            Write::Send(device, seq, row) => {
                self.sends.insert((*device, *seq), *row);
            }
            Write::SendGone(device, seq) => {
                self.sends.remove(&(*device, *seq));
            }
            Write::SendWindow(device, window) => {
                self.windows.insert(*device, *window);
            }
            Write::Meta(meta, value) => {
                self.meta.insert(*meta, *value);
            }
        }
    }

    fn raise(&mut self, group: GroupId, to: Marks) {
        let marks = self.marks.entry(group).or_default();
        if to.head > marks.head {
            self.items += to.head.value() - marks.head.value();
            *marks = to;
        }
    }

    fn put_item(&mut self, item: &ItemRow) {
        self.raise(item.group, Marks { head: item.msgid, content: item.content_ordinal });
        self.frames.group(item.group);
        if item.content.is_content() {
            let own = self.own.entry((item.group, item.author)).or_default();
            own.count = item.own_ordinal.max(own.count);
            own.last = item.msgid.max(own.last);
        }
        if let ItemContent::Sent { act: Act::Edits(_) | Act::Recalls(_), .. } = item.content {
            self.note_change(item.group, item.msgid);
        }
    }

    fn note_change(&mut self, group: GroupId, by: MessageId) {
        let last = self.changes.entry(group).or_default();
        *last = by.max(*last);
    }

    fn put_member(&mut self, group: GroupId, user: UserId, row: &MemberRow) {
        let is = row.is_member();
        let was = self.members.insert((group, user), row.clone()).is_some_and(|row| row.is_member());
        self.note_membership(user, group);
        let present = self.present.entry(group).or_default();
        *present = present.saturating_add(usize::from(is)).saturating_sub(usize::from(was));
    }

    fn note_membership(&mut self, user: UserId, group: GroupId) {
        let changed = self.memberships.entry((user, group)).or_default();
        *changed = self.frames.now().max(*changed);
    }

    fn put_user(&mut self, user: UserId, row: &UserRow) {
        let before = self.users.insert(user, row.clone());
        if let Some(before) = before.filter(|before| self.handles.get(&before.handle) == Some(&user)) {
            self.handles.remove(&before.handle);
        }
        if row.holds_handle() {
            self.handles.insert(row.handle.clone(), user);
        }
    }

    fn put_device(&mut self, device: DeviceId, row: &DeviceRow) {
        if let Some(before) = self.devices.insert(device, row.clone()) {
            self.keys.remove(&before.key);
            self.revoked -= usize::from(before.revoked_ms.is_some());
        }
        self.revoked += usize::from(row.revoked_ms.is_some());
        self.keys.insert(row.key, device);
        self.devices_of.insert((row.user, device));
    }

    fn drop_invite(&mut self, code: CodeHash) {
        if let Some(before) = self.invites.remove(&code) {
            self.expiries.remove(&(before.expires_ms, code));
            if let InviteFor::Device { user } = before.opens {
                self.device_invites.remove(&(user, before.expires_ms, code));
            }
        }
    }
}

// ---- groups and members -----------------------------------------------------------------------------------------------

impl Tables {
    /// A group.
    #[must_use]
    pub fn group(&self, group: GroupId) -> Option<&GroupRow> {
        self.groups.get(&group)
    }

    /// Every group, dead ones included, by group id.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.groups.keys().copied()
    }

    /// The same of those above a group id.
    pub fn groups_above(&self, after: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        self.groups.range((Bound::Excluded(after), Bound::Unbounded)).map(|(group, _)| *group)
    }

    /// Head and content of a group; none where nothing of it is known.
    #[must_use]
    pub fn marks(&self, group: GroupId) -> Option<Marks> {
        self.marks.get(&group).copied()
    }

    /// The highest committed msgid of a group; zero where there is no such group.
    #[must_use]
    pub fn head(&self, group: GroupId) -> MessageId {
        self.marks(group).map_or(MessageId::ZERO, |marks| marks.head)
    }

    /// Content items of a group.
    #[must_use]
    pub fn content(&self, group: GroupId) -> u64 {
        self.marks(group).map_or(0, |marks| marks.content)
    }

    /// Content items of a user in a group.
    #[must_use]
    pub fn own(&self, group: GroupId, user: UserId) -> u64 {
        self.own.get(&(group, user)).map_or(0, |own| own.count)
    }

    /// The last content item of a user in a group; zero where there is none.
    #[must_use]
    pub fn last_said(&self, group: GroupId, user: UserId) -> MessageId {
        self.own.get(&(group, user)).map_or(MessageId::ZERO, |own| own.last)
    }

    /// How often a user was mentioned in a group.
    #[must_use]
    pub fn mentions(&self, group: GroupId, user: UserId) -> u64 {
        self.mentions.get(&(group, user)).copied().unwrap_or(0)
    }

    /// Which content items were recalled.
    #[must_use]
    pub const fn recalled(&self) -> &Recalled {
        &self.recalled
    }

    /// The last item of a group that changed an earlier one: an edit or a recall. After a start the last item of any kind.
    #[must_use]
    pub fn last_change(&self, group: GroupId) -> MessageId {
        self.changes.get(&group).copied().unwrap_or_default()
    }

    /// The first item of a group that retention has kept.
    #[must_use]
    pub fn first_kept(&self, group: GroupId) -> MessageId {
        self.group(group).map_or(MessageId::new(1), |row| row.first_kept)
    }

    /// A member, current or former.
    #[must_use]
    pub fn member(&self, group: GroupId, user: UserId) -> Option<&MemberRow> {
        self.members.get(&(group, user))
    }

    /// Whether a user belongs to a group now.
    #[must_use]
    pub fn is_member(&self, group: GroupId, user: UserId) -> bool {
        self.member(group, user).is_some_and(MemberRow::is_member)
    }

    /// Members of a group above a user id, by user id, former ones included; see [`MemberRow::is_member`].
    pub fn members(&self, group: GroupId, after: UserId) -> impl Iterator<Item = (UserId, &MemberRow)> {
        let range = (Bound::Excluded((group, after)), Bound::Included((group, UserId::new(u32::MAX))));
        self.members.range(range).map(|((_, user), row)| (*user, row))
    }

    /// How many current members a group has.
    #[must_use]
    pub fn member_count(&self, group: GroupId) -> usize {
        self.present.get(&group).copied().unwrap_or(0)
    }

    /// Groups that a user belongs or belonged to, above a group id, by group id.
    pub fn groups_of(&self, user: UserId, after: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let range = (Bound::Excluded((user, after)), Bound::Included((user, GroupId::MAX)));
        self.memberships.range(range).map(|((_, group), _)| *group)
    }

    /// The same with the frame that has changed each membership, or its read mark, last.
    pub(in crate::core) fn memberships(&self, user: UserId) -> impl Iterator<Item = (GroupId, Lsn)> + '_ {
        let range = (user, GroupId::ZERO)..=(user, GroupId::MAX);
        self.memberships.range(range).map(|((_, group), changed)| (*group, *changed))
    }

    /// The frame that has changed a membership, or its read mark, last.
    pub(in crate::core) fn membership_changed(&self, user: UserId, group: GroupId) -> Lsn {
        self.memberships.get(&(user, group)).copied().unwrap_or_default()
    }

    /// When groups have changed.
    pub(in crate::core) const fn changes(&self) -> &Changes {
        &self.frames
    }

    /// Whether a user may know of a group: belongs or belonged to it.
    #[must_use]
    pub fn is_group_known_to(&self, user: UserId, group: GroupId) -> bool {
        self.memberships.contains_key(&(user, group))
    }
}

// ---- cursors, people, sends -------------------------------------------------------------------------------------------

impl Tables {
    /// The cursor of a device, or with device 0 the read mark of a user.
    #[must_use]
    pub fn cursor(&self, group: GroupId, user: UserId, device: DeviceId) -> Option<CursorRow> {
        self.cursors.one(group, user, device)
    }

    /// The cursors of all devices of a user in a group, revoked ones included, without the read mark.
    pub fn cursors(&self, group: GroupId, user: UserId) -> impl Iterator<Item = (DeviceId, CursorRow)> + '_ {
        self.cursors.of_devices(group, user)
    }

    /// A user.
    #[must_use]
    pub fn user(&self, user: UserId) -> Option<&UserRow> {
        self.users.get(&user)
    }

    /// Users above a user id, by user id.
    pub fn users(&self, after: UserId) -> impl Iterator<Item = (UserId, &UserRow)> {
        self.users.range((Bound::Excluded(after), Bound::Unbounded)).map(|(user, row)| (*user, row))
    }

    /// The user with this handle; who is deleted has none any more.
    #[must_use]
    pub fn user_by_handle(&self, handle: &Handle) -> Option<UserId> {
        self.handle_holder(handle).filter(|user| self.user(*user).is_some_and(|row| !row.is_deleted()))
    }

    /// The user with this handle, or the deleted one for whose sake it is reserved.
    #[must_use]
    pub fn handle_holder(&self, handle: &Handle) -> Option<UserId> {
        self.handles.get(handle).copied()
    }

    /// A device, revoked or not.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> Option<&DeviceRow> {
        self.devices.get(&device)
    }

    /// The device with this key, revoked or not.
    #[must_use]
    pub fn device_by_key(&self, key: DeviceKey) -> Option<DeviceId> {
        self.keys.get(&key).copied()
    }

    /// Devices of a user above a device id, by device id, revoked ones included.
    pub fn devices_of(&self, user: UserId, after: DeviceId) -> impl Iterator<Item = (DeviceId, &DeviceRow)> {
        let range = (Bound::Excluded((user, after)), Bound::Included((user, DeviceId::new(u32::MAX))));
        self.devices_of.range(range).filter_map(|(_, device)| Some((*device, self.devices.get(device)?)))
    }

    /// An invite, open, used or expired.
    #[must_use]
    pub fn invite(&self, code: CodeHash) -> Option<&InviteRow> {
        self.invites.get(&code)
    }

    /// All invites, those that expire first before the others.
    pub fn invites(&self) -> impl Iterator<Item = (CodeHash, &InviteRow)> {
        self.expiries.iter().filter_map(|(_, code)| Some((*code, self.invites.get(code)?)))
    }

    /// Invites for devices of a user that expire after this time, used ones included.
    pub fn invites_for_devices_of(&self, user: UserId, now_ms: u64) -> impl Iterator<Item = CodeHash> + '_ {
        let after = (user, now_ms.saturating_add(1), CodeHash([0; 32]));
        self.device_invites.range(after..).take_while(move |(of, ..)| *of == user).map(|(_, _, code)| *code)
    }

    /// The window of a device's sends.
    #[must_use]
    pub fn window(&self, device: DeviceId) -> Option<SendWindow> {
        self.windows.get(&device).copied()
    }

    /// A send of a device that is not forgotten yet.
    #[must_use]
    pub fn send(&self, device: DeviceId, seq: ClientSeq) -> Option<SendRow> {
        self.sends.get(&(device, seq)).copied()
    }

    /// The numbers of a device's sends that are not forgotten yet, below this one.
    pub fn sends_below(&self, device: DeviceId, below: ClientSeq) -> impl Iterator<Item = ClientSeq> + '_ {
        self.sends.range((device, ClientSeq::ZERO)..(device, below)).map(|((_, seq), _)| *seq)
    }

    /// A counter or mark; zero where it was never set.
    #[must_use]
    pub fn meta(&self, meta: Meta) -> u64 {
        self.meta.get(&meta).copied().unwrap_or(0)
    }

    /// How many rows there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            users: self.users.len(),
            groups: self.groups.len(),
            devices: self.devices.len(),
            devices_live: self.devices.len() - self.revoked,
            memberships: self.members.len(),
            cursors: self.cursors.len(),
            invites: self.invites.len(),
            items: self.items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::cursors::Stands;
    use crate::core::recalled::Sorted;
    use crate::core::rows::{Interval, Policy};
    use crate::limits::{
        CURSOR_BYTES, MEMBERSHIP_BYTES, RECALLED_AUTHOR_BYTES, RECALLED_ENTRY_BYTES, RECALLED_LIST_BYTES,
    };

    /// A node of the standard library's map has 11 places; filled in ascending order it stays half empty behind.
    const PLACES: usize = 11;
    const FILLED_AT_LEAST: usize = 5;
    /// What an allocation takes besides what it is for.
    const ALLOCATION_BYTES: usize = 16;

    /// The most that one entry of a map of these costs, its share of the nodes above included.
    fn entry_bytes<K, V>() -> usize {
        let leaf = PLACES * (size_of::<K>() + size_of::<V>()) + 16;
        let inner = leaf + (PLACES + 1) * size_of::<usize>();
        leaf.div_ceil(FILLED_AT_LEAST) + inner.div_ceil(FILLED_AT_LEAST * FILLED_AT_LEAST)
    }

    #[test]
    fn a_membership_and_a_cursor_cost_no_more_than_their_stated_bytes() {
        let stay = size_of::<Interval>() + ALLOCATION_BYTES;
        let row = entry_bytes::<(GroupId, UserId), MemberRow>() + stay + entry_bytes::<(UserId, GroupId), Lsn>();
        let counts = entry_bytes::<(GroupId, UserId), Own>() + entry_bytes::<(GroupId, UserId), u64>();
        // A read mark has a membership, and its version stands apart.
        let membership = row + counts + entry_bytes::<(GroupId, UserId), u64>();
        let cursor = entry_bytes::<(GroupId, UserId, DeviceId), Stands>();
        assert!(membership <= MEMBERSHIP_BYTES, "{membership}");
        assert!(cursor <= CURSOR_BYTES, "{cursor}");
    }

    #[test]
    fn a_recalled_item_costs_no_more_than_its_stated_bytes_in_each_list() {
        // A list that grows has places for twice as many, and for four at the least.
        let entry = 2 * size_of::<MessageId>();
        let places = 4 * size_of::<MessageId>() - entry;
        let list = entry_bytes::<(GroupId, UserId), Sorted>() + ALLOCATION_BYTES + places;
        assert!(entry <= RECALLED_ENTRY_BYTES, "{entry}");
        assert!(list <= RECALLED_LIST_BYTES, "{list}");
        let author = entry_bytes::<UserId, usize>();
        assert!(author <= RECALLED_AUTHOR_BYTES, "{author}");
    }

    #[test]
    fn heads_and_counters_load_in_any_order() {
        let group = GroupId::new(1);
        let mut tables = Tables::new();
        let row = |head: u64, content| GroupRow {
            head_mark: MessageId::new(head),
            content_mark: content,
            ..GroupRow::begun("team".to_owned(), Policy::FromJoin, MessageId::new(1), 0)
        };
        tables.load(Write::Group(group, row(9, 7)));
        tables.load(Write::Group(group, row(4, 3)));
        assert_eq!((tables.head(group), tables.content(group)), (MessageId::new(9), 7));
        assert_eq!(tables.counts().items, 9);
    }

    #[test]
    fn a_row_that_is_put_again_is_counted_once() {
        let device = |revoked_ms| DeviceRow {
            user: UserId::new(1),
            key: DeviceKey([1; 32]),
            name: "laptop".to_owned(),
            enrolled_ms: 0,
            revoked_ms,
            invite: CodeHash([2; 32]),
            seen_day: 0,
        };
        let mut tables = Tables::new();
        for revoked_ms in [None, None, Some(5), Some(5)] {
            tables.apply(&[Write::Device(DeviceId::new(1), device(revoked_ms))]);
        }
        assert_eq!((tables.counts().devices, tables.counts().devices_live), (1, 0));
        assert_eq!(tables.device_by_key(DeviceKey([1; 32])), Some(DeviceId::new(1)));
    }
}
