//! The list of a user's conversations as the committed view has it: which have changed since when, and what each says
//! without an item being read.
//!
//! The list is ordered by the frame of the log that changed a row last. A reader who has everything up to a frame asks
//! for what changed above it; what changes while they read the list lies above the frame they began at, and comes with
//! the next question. A row counts as changed when the group has something new for this user, when their membership or
//! role did, when their read mark moved, when something was recalled, and when retention removed something; a cursor of
//! theirs alone changes no row.

use crate::core::rows::CursorRow;
use crate::core::tables::Tables;
use crate::core::unread::{Counting, Known};
use crate::core::visible::Span;
use crate::ids::{DeviceId, GroupId, Lsn, MessageId, UserId};
use crate::proof::{self, Wrong};

/// The read mark among the cursors of a user.
pub const READ_MARK: DeviceId = DeviceId::ZERO;

/// A place in the list: rows that changed last come first.
pub type Place = (Lsn, GroupId);

impl Tables {
    /// The conversations of a user that have changed above a frame, the newest first; with a place those behind it.
    ///
    /// It costs a walk over the groups of the user, past ones included, and a look-up for each of them, or for each group
    /// of the server that has changed where those are fewer.
    #[must_use]
    pub fn changed(&self, user: UserId, since: Lsn, behind: Option<Place>) -> Vec<Place> {
        let all = self.memberships(user);
        let mut groups: Vec<GroupId> = match self.changes().since(since, self.memberships(user).count()) {
            // What changed for this user alone stands beside the membership.
            Some(lately) => lately.into_iter().chain(all.filter(|(_, own)| *own > since).map(|(it, _)| it)).collect(),
            None => all.map(|(group, _)| group).collect(),
        };
        groups.sort_unstable();
        groups.dedup();
        let places = groups.into_iter().filter_map(|group| Some((self.changed_at(user, group)?, group)));
        let mut places: Vec<Place> =
            places.filter(|place| place.0 > since && behind.is_none_or(|behind| *place < behind)).collect();
        places.sort_unstable_by(|one, other| other.cmp(one));
        places
    }

    /// When a conversation has changed last for a user; none where they never were in it.
    #[must_use]
    pub fn changed_at(&self, user: UserId, group: GroupId) -> Option<Lsn> {
        let row = self.member(group, user).filter(|row| !row.intervals.is_empty())?;
        let group_changed = self.changes().of(group);
        let of_group = if row.is_member() { group_changed.any } else { group_changed.kept };
        Some(of_group.max(self.membership_changed(user, group)))
    }

    /// The read mark of a user.
    #[must_use]
    pub fn read_mark(&self, group: GroupId, user: UserId) -> Option<CursorRow> {
        self.cursor(group, user, READ_MARK)
    }

    /// Begins to count what a user has not read of a group; none where they never were in it.
    #[must_use]
    pub fn counting(&self, group: GroupId, user: UserId) -> Option<Counting> {
        let known = Known {
            member: self.member(group, user)?,
            marks: self.marks(group)?,
            first_kept: self.first_kept(group),
            content_gone: self.group(group).map_or(0, |row| row.content_gone),
            own: self.own(group, user),
            mark: self.read_mark(group, user),
        };
        let recalled = |span: Span| {
            let (after, last) = (span.first.previous(), span.last);
            let all = self.recalled().in_group(group, after, last);
            all.saturating_sub(self.recalled().of_author(group, user, after, last))
        };
        Some(Counting::new(known, recalled))
    }

    /// Begins to count how often a user was mentioned above a msgid.
    #[must_use]
    pub fn mentioned(&self, group: GroupId, user: UserId, after: MessageId) -> Mentioned {
        let all = self.mentions(group, user);
        if all == 0 {
            return Mentioned::default();
        }
        let spans: Vec<Span> = self.visible(user, group, after).collect();
        let recalled =
            spans.iter().map(|span| self.recalled().mentioning(group, user, span.first.previous(), span.last));
        Mentioned { all, recalled: recalled.sum(), spans }
    }
}

/// A count of mentions under way: those in the spans, by the numbers of the mentions at their borders, but for those that
/// were recalled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mentioned {
    /// How often the user was ever mentioned.
    pub all: u64,
    /// What they may see and have not read.
    pub spans: Vec<Span>,
    /// Mentions in there that were recalled.
    pub recalled: u64,
}

// ---- who has what -----------------------------------------------------------------------------------------------------

/// How far a user has come with an item, by their cursors and read mark alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Who.
    pub user: UserId,
    /// Whether a device of theirs has acknowledged it, or they have read it.
    pub received: bool,
    /// Whether they have read it.
    pub read: bool,
}

impl Tables {
    /// How far a user has come in a group: the furthest of their devices, revoked ones included, and their read mark.
    #[must_use]
    pub fn reached(&self, group: GroupId, user: UserId) -> (MessageId, MessageId) {
        let read = self.read_mark(group, user).map_or(MessageId::ZERO, |row| row.msgid);
        let received = self.cursors(group, user).map(|(_, row)| row.msgid).max().unwrap_or_default();
        (received.max(read), read)
    }

    /// The last message of an author in a group, where another was there when it was sent; else zero.
    #[must_use]
    pub fn last_said_before(&self, group: GroupId, author: UserId, user: UserId) -> MessageId {
        let last = self.last_said(group, author);
        let was_there = self.member(group, user).is_some_and(|row| row.was_member_at(last));
        if was_there { last } else { MessageId::ZERO }
    }

    /// How far those have come with an item who were in the group when it was sent and may still see it, by user id,
    /// above this one; at most so many members are looked at. With it who was looked at last; none: everybody was.
    ///
    /// Who joined later and sees all history is left out: marks begin at the join, and say nothing of what lies before.
    #[must_use]
    pub fn receipts(
        &self,
        group: GroupId,
        msgid: MessageId,
        after: UserId,
        most: usize,
    ) -> (Vec<Receipt>, Option<UserId>) {
        let mut looked_at = None;
        let mut receipts = Vec::new();
        let mut left = most;
        for (user, row) in self.members(group, after) {
            if left == 0 {
                return (receipts, looked_at);
            }
            left -= 1;
            looked_at = Some(user);
            let was_there = |from: MessageId, to: Option<MessageId>| from <= msgid && to.is_none_or(|to| msgid <= to);
            let is_meant = row.intervals.iter().any(|stay| was_there(stay.joined, stay.left));
            if is_meant || proof::is(Wrong::ReceiptOfAbsent) {
                let (received, read) = self.reached(group, user);
                receipts.push(Receipt { user, received: received >= msgid, read: read >= msgid });
            }
        }
        (receipts, None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::core::command::Command;
    use crate::core::rows::{Policy, RecalledRow, Write};
    use crate::core::state::tests::{World, handle, m};

    const NAMES: [&str; 3] = ["anna", "bob", "carl"];

    /// Something that one of three people does in one of three groups.
    #[derive(Debug, Clone, Copy)]
    enum Does {
        Says,
        Adds(usize),
        Removes(usize),
        Leaves,
        Acks(u64),
        Reads(u64),
        MarksUnread(u64),
        Renames(bool),
    }

    fn does() -> impl Strategy<Value = (usize, usize, Does)> {
        let what = prop_oneof![
            4 => Just(Does::Says),
            2 => (0usize..3).prop_map(Does::Adds),
            1 => (0usize..3).prop_map(Does::Removes),
            1 => Just(Does::Leaves),
            2 => (0u64..30).prop_map(Does::Acks),
            2 => (0u64..30).prop_map(Does::Reads),
            1 => (0u64..30).prop_map(Does::MarksUnread),
            1 => any::<bool>().prop_map(Does::Renames),
        ];
        (0usize..3, 0usize..3, what)
    }

    struct Town {
        world: World,
        devices: Vec<DeviceId>,
        groups: Vec<GroupId>,
        /// The furthest that each user has acked or read in a group, by their own doing.
        acked: BTreeMap<(GroupId, UserId), u64>,
        read: BTreeMap<(GroupId, UserId), u64>,
    }

    /// What a user is told of a group: what they may see and how far they have read.
    type Row = (MessageId, bool, Option<CursorRow>);

    impl Town {
        fn new() -> Town {
            let mut world = World::new();
            let devices: Vec<DeviceId> = NAMES.iter().map(|name| world.user(name)).collect();
            let groups = vec![
                world.group(devices[0]),
                world.group_with(devices[1], Policy::FullHistory),
                world.group(devices[2]),
            ];
            Town { world, devices, groups, acked: BTreeMap::new(), read: BTreeMap::new() }
        }

        fn step(&mut self, (who, group, what): (usize, usize, Does)) {
            let (device, group) = (self.devices[who], self.groups[group]);
            let user = self.world.user_of(device);
            let most = self.world.tables.visible_head(user, group).value();
            let command = match what {
                Does::Says => return drop(self.world.say(device, group, "text")),
                Does::Adds(whom) => Command::AddMember { by: device, group, handle: handle(NAMES[whom]) },
                Does::Removes(whom) => Command::RemoveMember { by: device, group, handle: handle(NAMES[whom]) },
                Does::Leaves => Command::LeaveGroup { by: device, group },
                Does::Acks(msgid) => {
                    let acked = self.acked.entry((group, user)).or_default();
                    *acked = (*acked).max(msgid.min(most));
                    Command::Ack { device, entries: vec![(group, m(msgid))] }
                }
                Does::Reads(msgid) => {
                    let read = self.read.entry((group, user)).or_default();
                    *read = (*read).max(msgid.min(most));
                    Command::MarkRead { device, group, msgid: m(msgid), version: u64::MAX }
                }
                Does::MarksUnread(msgid) => {
                    let version = self.world.tables.read_mark(group, user).map_or(0, |mark| mark.version);
                    if self.world.tables.is_group_known_to(user, group) {
                        self.read.insert((group, user), msgid.min(most));
                    }
                    Command::MarkUnread { device, group, msgid: m(msgid), version }
                }
                Does::Renames(other) => {
                    let name = if other { "crew" } else { "team" }.to_owned();
                    Command::RenameGroup { by: device, group, name }
                }
            };
            self.world.answer(command);
        }

        fn users(&self) -> Vec<UserId> {
            self.devices.iter().map(|device| self.world.user_of(*device)).collect()
        }

        fn rows(&self) -> BTreeMap<(UserId, GroupId), Row> {
            let tables = &self.world.tables;
            let mut rows = BTreeMap::new();
            for user in self.users() {
                for group in tables.groups_of(user, GroupId::ZERO) {
                    let row = tables.member(group, user).unwrap();
                    let mark = tables.read_mark(group, user);
                    rows.insert((user, group), (tables.visible_head(user, group), row.is_member(), mark));
                }
            }
            rows
        }

        fn changed(&self, since: u64) -> BTreeSet<(UserId, GroupId)> {
            let tables = &self.world.tables;
            let of = |user| tables.changed(user, Lsn::new(since), None).into_iter().map(move |(_, it)| (user, it));
            self.users().into_iter().flat_map(of).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Scenarios 15, 18: each row that differs is listed, and none else; those that became zero too, and those that
        /// somebody was removed from.
        #[test]
        fn what_is_listed_is_what_has_changed_and_nothing_else(steps in prop::collection::vec(does(), 1..40)) {
            let mut town = Town::new();
            for step in steps {
                let (before, since) = (town.rows(), town.world.frames);
                town.step(step);
                let now = town.rows();
                let differ = |(key, row): &(&(UserId, GroupId), &Row)| before.get(*key) != Some(*row);
                let differing: BTreeSet<_> = now.iter().filter(differ).map(|(key, _)| *key).collect();
                prop_assert_eq!(town.changed(since), differing, "{:?}", step);
                prop_assert_eq!(town.changed(0), now.keys().copied().collect());
            }
        }

        #[test]
        fn pages_of_the_list_hold_each_row_once(steps in prop::collection::vec(does(), 1..40), rows in 1usize..3) {
            let mut town = Town::new();
            steps.into_iter().for_each(|step| town.step(step));
            for user in town.users() {
                let whole = town.world.tables.changed(user, Lsn::ZERO, None);
                let mut paged: Vec<Place> = Vec::new();
                loop {
                    let page = town.world.tables.changed(user, Lsn::ZERO, paged.last().copied());
                    if page.is_empty() {
                        break;
                    }
                    paged.extend(page.into_iter().take(rows));
                }
                prop_assert_eq!(paged, whole);
            }
        }

        /// Receipts say what was acked and read, by those who were there, and of nobody else.
        #[test]
        fn receipts_are_what_those_who_were_there_have_acked_and_read(steps in prop::collection::vec(does(), 1..60)) {
            let mut town = Town::new();
            steps.into_iter().for_each(|step| town.step(step));
            let tables = &town.world.tables;
            for group in &town.groups {
                for msgid in 1..=tables.head(*group).value() {
                    let mut expected = Vec::new();
                    for user in town.users() {
                        let there = tables.member(*group, user).is_some_and(|row| {
                            let is_in = |stay: &crate::core::rows::Interval| {
                                stay.joined <= m(msgid) && stay.left.is_none_or(|left| m(msgid) <= left)
                            };
                            row.intervals.iter().any(is_in)
                        });
                        let reached = |marks: &BTreeMap<(GroupId, UserId), u64>| {
                            marks.get(&(*group, user)).is_some_and(|reached| *reached >= msgid)
                        };
                        if there {
                            let read = reached(&town.read);
                            expected.push(Receipt { user, received: read || reached(&town.acked), read });
                        }
                    }
                    let (whole, rest) = tables.receipts(*group, m(msgid), UserId::ZERO, 10);
                    prop_assert_eq!((&whole, rest), (&expected, None), "{} {}", group, msgid);
                    let (mut parts, mut from) = (Vec::new(), Some(UserId::ZERO));
                    while let Some(after) = from {
                        let (part, next) = tables.receipts(*group, m(msgid), after, 1);
                        parts.extend(part);
                        from = next;
                    }
                    prop_assert_eq!(parts, expected);
                }
            }
        }
    }

    /// Who has left keeps what they saw; what is recalled of it is unread no longer, and no preview shows it.
    #[test]
    fn a_recall_changes_the_conversation_of_who_has_left_too() {
        let mut town = Town::new();
        let (anna, bob, group) = (town.devices[0], town.devices[1], town.groups[0]);
        let user = town.world.user_of(bob);
        town.world.add(anna, group, "bob");
        town.world.say(anna, group, "text");
        let said = town.world.tables.head(group);
        town.world.leave(bob, group);
        let since = town.world.frames;
        town.world.say(anna, group, "more");
        assert_eq!(town.world.tables.changed(user, Lsn::new(since), None), []);
        let row = RecalledRow { author: town.world.user_of(anna), mentions: Vec::new() };
        town.world.tables.begin_frame(Lsn::new(town.world.frames + 1));
        town.world.tables.apply(&[Write::Recalled(group, said, row)]);
        let changed = town.world.tables.changed(user, Lsn::new(since), None);
        assert_eq!(changed.iter().map(|(_, group)| *group).collect::<Vec<_>>(), [group]);
    }

    #[test]
    fn an_author_hears_of_those_alone_who_were_there_for_what_they_said_last() {
        let mut town = Town::new();
        let (anna, bob, group) = (town.devices[0], town.devices[1], town.groups[1]);
        let [anna_user, bob_user] = [anna, bob].map(|device| town.world.user_of(device));
        town.world.add(bob, group, "anna");
        town.world.say(anna, group, "text");
        let said = town.world.tables.head(group);
        town.world.add(bob, group, "carl");
        let carl = town.world.user_of(town.devices[2]);
        assert_eq!(town.world.tables.last_said_before(group, anna_user, bob_user), said);
        assert_eq!(town.world.tables.last_said_before(group, anna_user, carl), MessageId::ZERO, "who came later");
        assert_eq!(town.world.tables.last_said_before(group, bob_user, anna_user), MessageId::ZERO, "who said nothing");
    }

    #[test]
    fn where_many_groups_change_and_few_are_one_s_own_the_list_is_the_same() {
        let mut town = Town::new();
        let (anna, bob) = (town.devices[0], town.world.user_of(town.devices[1]));
        let crowd: Vec<GroupId> = (0..20).map(|_| town.world.group(anna)).collect();
        town.world.add(anna, crowd[3], "bob");
        let since = town.world.frames;
        for group in &crowd {
            town.world.say(anna, *group, "text");
        }
        let listed = town.world.tables.changed(bob, Lsn::new(since), None);
        assert_eq!(listed.iter().map(|(_, group)| *group).collect::<Vec<_>>(), [crowd[3]]);
    }
}
