//! How many items a user has not read: exact, from ordinals, without a walk over the backlog and without any write for
//! a member when something is sent.
//!
//! Unread are the content items above the read mark that the user may see, but for their own, those that were recalled,
//! and those that retention removed. Each content item carries its ordinal among those of its group and among those of
//! its author there, and each stay those at its borders. So a count is a sum over the stays of the user, of which there
//! are at most [`crate::limits::INTERVALS_MAX`], of differences between ordinals, however much is waiting. What it may
//! have to read are two ordinals where counting begins: that of the group stands in the item there, that of the user's
//! own is found by halving, in as many steps as their number has binary digits. At the places where most marks stand (the
//! head, a join, the end of a stay) both are known, and nothing is read.
//!
//! Pure arithmetic: it reads nothing itself, and a count never falls below zero.

use crate::core::rows::{CursorRow, MemberRow};
use crate::core::tables::Marks;
use crate::core::visible::Span;
use crate::ids::MessageId;
use crate::proof::{self, Wrong};

/// What a count needs that does not depend on how much is waiting.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The membership, current or former.
    pub member: &'a MemberRow,
    /// Where the group stands.
    pub marks: Marks,
    /// The first item that retention has kept.
    pub first_kept: MessageId,
    /// Content items of the group below it.
    pub content_gone: u64,
    /// Content items of the user's own in the group.
    pub own: u64,
    /// The read mark; none: nothing was read.
    pub mark: Option<CursorRow>,
}

/// A count under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// Counting begins above this item: the read mark, or the last that retention removed.
    pub floor: MessageId,
    /// Content items that the user may see in stays that begin above there.
    above: u64,
    /// Content items of the group up to the end of the stay that has it, where one has and goes on behind it.
    until: Option<u64>,
    own: u64,
    recalled: u64,
    /// Content items of the group up to the floor, where that is known.
    content: Option<u64>,
    ordinals: Option<(u64, u64)>,
}

/// What has to be read before a count is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// Content items of the group up to the floor.
    pub content: bool,
    /// Content items of the user's own up to the floor, of so many.
    pub own_of: Option<u64>,
}

impl Counting {
    /// Begins a count. `recalled` says how many content items of others were recalled in a range.
    #[must_use]
    pub fn new(known: Known<'_>, recalled: impl Fn(Span) -> u64) -> Counting {
        let Known { member, marks, first_kept, content_gone, own, mark } = known;
        let read = mark.map_or(MessageId::ZERO, |mark| mark.msgid);
        let floor = read.max(first_kept.previous());
        let ordinals = mark.filter(|mark| mark.msgid == floor).and_then(|mark| mark.ordinals());
        let content = (floor < first_kept).then_some(content_gone);
        let mut counting = Counting { floor, above: 0, until: None, own, recalled: 0, content, ordinals };
        for (span, before, until) in member.counted(marks) {
            let Some(unread) = span.within(floor.next(), marks.head) else { continue };
            if span.first <= floor {
                counting.until = Some(until);
            } else {
                counting.above += until.saturating_sub(before);
            }
            counting.recalled += recalled(unread);
        }
        counting
    }

    /// What has to be read first; none where the count is known.
    #[must_use]
    pub fn needed(&self) -> Option<Needed> {
        if self.ordinals.is_some() || (self.until.is_none() && self.above == 0) {
            return None;
        }
        let content = self.until.is_some() && self.content.is_none();
        let needed = Needed { content, own_of: (self.own > 0).then_some(self.own) };
        (needed.content || needed.own_of.is_some()).then_some(needed)
    }

    /// The count, where nothing had to be read.
    #[must_use]
    pub fn known(&self) -> u64 {
        let (content, own) = self.ordinals.unwrap_or_default();
        self.with(content, own)
    }

    /// The count, with the ordinals at the floor that were needed; what was not needed may be anything.
    #[must_use]
    pub fn with(&self, content: u64, own: u64) -> u64 {
        if self.until.is_none() && self.above == 0 {
            return 0;
        }
        let content = self.content.unwrap_or(content);
        let all = self.above + self.until.map_or(0, |until| until.saturating_sub(content));
        let own = if proof::is(Wrong::UnreadCountsOwn) { 0 } else { self.own.saturating_sub(own) };
        all.saturating_sub(own).saturating_sub(self.recalled)
    }
}

impl MemberRow {
    /// What is visible of a group, as [`MemberRow::visible`] gives it, each with the content items of the group before it
    /// and up to its end.
    fn counted(&self, marks: Marks) -> impl Iterator<Item = (Span, u64, u64)> + '_ {
        self.shown().filter_map(move |stay| {
            let span = stay.span(marks.head).within(MessageId::new(1), marks.head)?;
            let before = if span.first < stay.joined { 0 } else { stay.content_before };
            Some((span, before, if stay.left.is_some() { stay.content_until } else { marks.content }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::core::rows::{Interval, Policy, Role};

    /// What happens in a group, as one user lives through it.
    #[derive(Debug, Clone)]
    enum Happens {
        /// The user, or somebody else, says something.
        Said { own: bool },
        /// Something that is no content.
        Noted,
        /// The user joins, or leaves.
        Moved(Policy),
        /// One of the items so far is recalled.
        Recalled(prop::sample::Index),
        /// Retention removes so much of what there is.
        Trimmed(prop::sample::Index),
        /// The read mark is set, forth or back.
        Read(prop::sample::Index),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        let index = any::<prop::sample::Index>();
        prop_oneof![
            8 => any::<bool>().prop_map(|own| Happens::Said { own }),
            2 => Just(Happens::Noted),
            3 => prop_oneof![Just(Policy::FromJoin), Just(Policy::FullHistory)].prop_map(Happens::Moved),
            3 => index.clone().prop_map(Happens::Recalled),
            1 => index.clone().prop_map(Happens::Trimmed),
            3 => index.prop_map(Happens::Read),
        ]
    }

    /// What an item is to the user.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Is {
        Own,
        Others,
        NoContent,
    }

    fn member(intervals: Vec<Interval>) -> MemberRow {
        MemberRow { role: Role::Member, intervals, name_at_leave: None, muted: false, banned: false }
    }

    #[derive(Debug)]
    struct World {
        items: Vec<Is>,
        recalled: BTreeSet<u64>,
        first_kept: u64,
        mark: u64,
        row: MemberRow,
    }

    impl World {
        fn new() -> World {
            let row = member(Vec::new());
            World { items: Vec::new(), recalled: BTreeSet::new(), first_kept: 1, mark: 0, row }
        }

        fn happens(&mut self, what: Happens) {
            let head = self.items.len() as u64;
            match what {
                Happens::Said { own } if own && self.row.is_member() => self.items.push(Is::Own),
                Happens::Said { .. } => self.items.push(Is::Others),
                Happens::Noted => self.items.push(Is::NoContent),
                Happens::Moved(policy) => self.moved(policy),
                Happens::Recalled(index) if head > 0 => {
                    let msgid = index.index(self.items.len()) as u64 + 1;
                    if self.is(msgid) != Is::NoContent {
                        self.recalled.insert(msgid);
                    }
                }
                Happens::Trimmed(index) => {
                    self.first_kept = self.first_kept.max(index.index(self.items.len() + 1) as u64)
                }
                Happens::Read(index) => self.mark = index.index(self.items.len() + 1) as u64,
                Happens::Recalled(_) => {}
            }
        }

        fn moved(&mut self, policy: Policy) {
            let content = self.content(self.items.len() as u64);
            self.items.push(Is::NoContent);
            let border = MessageId::new(self.items.len() as u64);
            match self.row.intervals.last_mut().filter(|stay| stay.left.is_none()) {
                Some(stay) => (stay.left, stay.content_until) = (Some(border), content),
                None => self.row.intervals.push(Interval {
                    joined: border,
                    left: None,
                    policy,
                    content_before: content,
                    content_until: 0,
                }),
            }
        }

        fn is(&self, msgid: u64) -> Is {
            self.items[usize::try_from(msgid).unwrap() - 1]
        }

        fn content(&self, up_to: u64) -> u64 {
            (1..=up_to).filter(|msgid| self.is(*msgid) != Is::NoContent).count() as u64
        }

        fn own(&self, up_to: u64) -> u64 {
            (1..=up_to).filter(|msgid| self.is(*msgid) == Is::Own).count() as u64
        }

        fn head(&self) -> u64 {
            self.items.len() as u64
        }

        /// The count as it is reported, and what it had to read.
        fn reported(&self, with_ordinals: bool) -> (u64, Option<Needed>) {
            let mark = MessageId::new(self.mark);
            let mark = if with_ordinals {
                let (content, own) = (self.content(self.mark), self.own(self.mark));
                CursorRow { msgid: mark, content, own, version: 0 }
            } else {
                CursorRow::without_ordinals(mark)
            };
            let known = Known {
                member: &self.row,
                marks: Marks { head: MessageId::new(self.head()), content: self.content(self.head()) },
                first_kept: MessageId::new(self.first_kept),
                content_gone: self.content(self.first_kept.saturating_sub(1)),
                own: self.own(self.head()),
                mark: Some(mark),
            };
            let recalled = |span: Span| {
                let within = self.recalled.range(span.first.value()..=span.last.value());
                within.filter(|msgid| self.is(**msgid) == Is::Others).count() as u64
            };
            let counting = Counting::new(known, recalled);
            let floor = counting.floor.value();
            let needed = counting.needed();
            let count = match needed {
                None => counting.known(),
                Some(Needed { content, own_of }) => {
                    assert!(own_of.is_none_or(|own| own == self.own(self.head())));
                    let content = if content { self.content(floor) } else { 77 };
                    counting.with(content, own_of.map_or(0, |_| self.own(floor)))
                }
            };
            (count, needed)
        }

        /// By the definition, item by item.
        fn brute(&self) -> u64 {
            let is_unread = |msgid: &u64| {
                *msgid > self.mark
                    && *msgid >= self.first_kept
                    && self.is(*msgid) == Is::Others
                    && !self.recalled.contains(msgid)
                    && self.row.may_see(MessageId::new(*msgid), MessageId::new(self.head()))
            };
            (1..=self.head()).filter(is_unread).count() as u64
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// Scenarios 14, 19, 27: whatever joins, leaves, is sent, recalled, trimmed and read, forth and back, the count is
        /// that of the items by themselves.
        #[test]
        fn unread_is_what_counting_item_by_item_gives(steps in proptest::collection::vec(happens(), 0..60)) {
            let mut world = World::new();
            for step in steps {
                world.happens(step);
                prop_assert_eq!(world.reported(false).0, world.brute(), "{:?}", &world);
                prop_assert_eq!(world.reported(true).0, world.brute(), "{:?}", &world);
            }
        }
    }

    fn chat(said: &[bool]) -> World {
        let mut world = World::new();
        world.moved(Policy::FromJoin);
        said.iter().for_each(|own| world.happens(Happens::Said { own: *own }));
        world
    }

    /// Scenario 14: of five messages two were recalled; then with the mark between the two.
    #[test]
    fn a_recalled_message_counts_no_longer_and_one_that_was_read_changes_nothing() {
        let mut world = chat(&[false; 5]);
        world.mark = 1;
        world.recalled = [6, 3].into();
        assert_eq!(world.reported(false).0, 3);
        world.recalled.clear();
        world.mark = 3;
        assert_eq!(world.reported(false).0, 3);
        world.recalled.insert(6);
        assert_eq!(world.reported(false).0, 2);
        world.recalled.insert(3);
        assert_eq!(world.reported(false).0, 2);
    }

    /// Scenario 27, the counts: retention takes away what was waiting.
    #[test]
    fn what_retention_removed_is_not_unread() {
        let mut world = chat(&[false; 20]);
        world.mark = 1;
        world.first_kept = 17;
        assert_eq!(world.reported(true).0, 5);
        world.first_kept = 22;
        assert_eq!(world.reported(true), (0, None));
    }

    #[test]
    fn a_million_waiting_needs_no_more_reading_than_ten() {
        for waiting in [10, 1_000_000] {
            let head = MessageId::new(waiting + 1);
            let stay = Interval {
                joined: MessageId::new(1),
                left: None,
                policy: Policy::FromJoin,
                content_before: 0,
                content_until: 0,
            };
            let member = member(vec![stay]);
            let mark = Some(CursorRow { msgid: MessageId::ZERO, content: 0, own: 0, version: 0 });
            let marks = Marks { head, content: waiting };
            let first_kept = MessageId::new(1);
            let known = Known { member: &member, marks, first_kept, content_gone: 0, own: 0, mark };
            let counting = Counting::new(known, |_| 0);
            assert_eq!((counting.needed(), counting.known()), (None, waiting));
        }
    }
}
