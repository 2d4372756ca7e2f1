//! Which content items were recalled: resident, so that unread items are counted without reading any.
//!
//! Sorted lists of msgids, of each group, of each author in it, and of each user who was mentioned: a count of a range is
//! two binary searches. How many there may be is bounded ([`crate::limits::RECALLED_ENTRIES_MAX`]).

use std::collections::BTreeMap;

use crate::core::rows::RecalledRow;
use crate::ids::{GroupId, MessageId, UserId};

/// The index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recalled {
    groups: BTreeMap<GroupId, Sorted>,
    own: BTreeMap<(GroupId, UserId), Sorted>,
    mentions: BTreeMap<(GroupId, UserId), Sorted>,
    entries: usize,
    /// Of them those of the items of each author.
    by_author: BTreeMap<UserId, usize>,
}

/// One list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::core) struct Sorted(Vec<MessageId>);

impl Sorted {
    /// Says whether it was not in it.
    fn insert(&mut self, msgid: MessageId) -> bool {
        let Err(place) = self.0.binary_search(&msgid) else { return false };
        self.0.insert(place, msgid);
        true
    }

    /// Forgets those up to and with this one; says how many there were.
    fn forget(&mut self, up_to: MessageId) -> usize {
        self.0.drain(..self.0.partition_point(|msgid| *msgid <= up_to)).count()
    }

    /// How many lie above the first and not above the second.
    fn count(&self, after: MessageId, up_to: MessageId) -> u64 {
        let below = |msgid: MessageId| self.0.partition_point(|it| *it <= msgid);
        u64::try_from(below(up_to).saturating_sub(below(after))).unwrap_or(u64::MAX)
    }
}

/// Forgets what a list has up to and with a msgid, and the list where nothing is left; says how many there were.
fn forget<K: Ord>(lists: &mut BTreeMap<K, Sorted>, of: K, up_to: MessageId) -> usize {
    let Some(list) = lists.get_mut(&of) else { return 0 };
    let count = list.forget(up_to);
    if list.0.is_empty() {
        lists.remove(&of);
    }
    count
}

impl Recalled {
    /// Notes one; once is enough.
    pub(in crate::core) fn insert(&mut self, group: GroupId, msgid: MessageId, row: &RecalledRow) {
        if !self.groups.entry(group).or_default().insert(msgid) {
            return;
        }
        self.entries += row.entries();
        *self.by_author.entry(row.author).or_default() += row.entries();
        self.own.entry((group, row.author)).or_default().insert(msgid);
        for user in &row.mentions {
            self.mentions.entry((group, *user)).or_default().insert(msgid);
        }
    }

    /// Forgets one, which is gone, and with it those below in its lists: retention removes from the oldest on. So a frame
    /// that names the newest first moves what is left in a list once.
    pub(in crate::core) fn forget(&mut self, group: GroupId, msgid: MessageId, row: &RecalledRow) {
        self.entries -= forget(&mut self.groups, group, msgid) + forget(&mut self.own, (group, row.author), msgid);
        for user in &row.mentions {
            self.entries -= forget(&mut self.mentions, (group, *user), msgid);
        }
        // Each item has its own row, which goes once.
        if let Some(entries) = self.by_author.get_mut(&row.author) {
            *entries = entries.saturating_sub(row.entries());
            if *entries == 0 {
                self.by_author.remove(&row.author);
            }
        }
    }

    /// Whether an item was recalled.
    #[must_use]
    pub fn contains(&self, group: GroupId, msgid: MessageId) -> bool {
        self.groups.get(&group).is_some_and(|recalled| recalled.0.binary_search(&msgid).is_ok())
    }

    /// How many of a group were recalled above one msgid and up to another.
    #[must_use]
    pub fn in_group(&self, group: GroupId, after: MessageId, up_to: MessageId) -> u64 {
        self.groups.get(&group).map_or(0, |recalled| recalled.count(after, up_to))
    }

    /// The same of those that a user wrote.
    #[must_use]
    pub fn of_author(&self, group: GroupId, user: UserId, after: MessageId, up_to: MessageId) -> u64 {
        self.own.get(&(group, user)).map_or(0, |recalled| recalled.count(after, up_to))
    }

    /// The same of those that mentioned a user.
    #[must_use]
    pub fn mentioning(&self, group: GroupId, user: UserId, after: MessageId, up_to: MessageId) -> u64 {
        self.mentions.get(&(group, user)).map_or(0, |recalled| recalled.count(after, up_to))
    }

    /// How many entries the lists have, see [`RecalledRow::entries`].
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// How many of them are of items that a user wrote.
    #[must_use]
    pub fn entries_of(&self, author: UserId) -> usize {
        self.by_author.get(&author).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const GROUP: GroupId = GroupId::new(1);

    proptest! {
        #[test]
        fn counts_are_those_of_a_walk(
            recalls in prop::collection::vec((0u64..60, 1u32..4, 0u32..4), 0..80),
            ranges in prop::collection::vec((0u64..70, 0u64..70), 1..8),
            first_kept in 0u64..70,
        ) {
            let mut recalled = Recalled::default();
            let mut model: BTreeSet<(u64, u32, u32)> = BTreeSet::new();
            for (msgid, author, mentioned) in recalls {
                let row = RecalledRow { author: UserId::new(author), mentions: vec![UserId::new(mentioned)] };
                recalled.insert(GROUP, MessageId::new(msgid), &row);
                if !model.iter().any(|(known, ..)| *known == msgid) {
                    model.insert((msgid, author, mentioned));
                }
            }
            prop_assert_eq!(recalled.entries(), 3 * model.len());
            let (gone, kept): (BTreeSet<_>, BTreeSet<_>) = model.into_iter().partition(|(msgid, ..)| *msgid < first_kept);
            for (msgid, author, mentioned) in gone.into_iter().rev() {
                let row = RecalledRow { author: UserId::new(author), mentions: vec![UserId::new(mentioned)] };
                recalled.forget(GROUP, MessageId::new(msgid), &row);
            }
            let model = kept;
            prop_assert_eq!(recalled.entries(), 3 * model.len());
            for author in 1..4 {
                let theirs = model.iter().filter(|(_, by, _)| *by == author).count();
                prop_assert_eq!(recalled.entries_of(UserId::new(author)), 3 * theirs);
            }
            for (after, up_to) in ranges {
                let walked = |is: &dyn Fn(u32, u32) -> bool| {
                    let within = |msgid: u64| after < msgid && msgid <= up_to;
                    model.iter().filter(|(msgid, by, of)| within(*msgid) && is(*by, *of)).count() as u64
                };
                let (from, to, user) = (MessageId::new(after), MessageId::new(up_to), UserId::new(2));
                prop_assert_eq!(recalled.in_group(GROUP, from, to), walked(&|_, _| true));
                prop_assert_eq!(recalled.of_author(GROUP, user, from, to), walked(&|by, _| by == 2));
                prop_assert_eq!(recalled.mentioning(GROUP, user, from, to), walked(&|_, of| of == 2));
                prop_assert_eq!(recalled.in_group(GroupId::new(2), from, to), 0);
            }
            let all = (0..60).filter(|msgid| recalled.contains(GROUP, MessageId::new(*msgid))).count();
            prop_assert_eq!(all, model.len());
        }
    }
}
