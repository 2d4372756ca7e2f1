//! When what belongs together has changed last, by the frame of the log that did it: so that a list can leave out what
//! its reader knows already.
//!
//! A send changes one entry, that of its group, whoever is in it; nothing is noted for its members. What changes for one
//! member alone (joining, leaving, a read mark) is noted with that membership, which is written then anyway. Whoever asks
//! walks the groups of one user and compares two numbers for each, or walks the groups that changed lately where those
//! are fewer: no item is read for that.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{GroupId, Lsn};

/// When a group has changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::core) struct Changed {
    /// For who is a member: its items, or what is kept of them.
    pub(in crate::core) any: Lsn,
    /// For who was one: what is kept of its items, and what they still say.
    pub(in crate::core) kept: Lsn,
}

/// The changes of all groups. Where no frame is named, as in the rows of a batch under way, nothing is noted.
#[derive(Debug, Clone, Default)]
pub(in crate::core) struct Changes {
    now: Lsn,
    groups: BTreeMap<GroupId, Changed>,
    order: BTreeSet<(Lsn, GroupId)>,
}

impl Changes {
    /// What follows belongs to this frame.
    pub(in crate::core) fn begin(&mut self, frame: Lsn) {
        self.now = frame;
    }

    /// The frame that what is applied now belongs to.
    pub(in crate::core) const fn now(&self) -> Lsn {
        self.now
    }

    /// A group has changed for its members.
    pub(in crate::core) fn group(&mut self, group: GroupId) {
        if self.now == Lsn::ZERO {
            return;
        }
        let changed = self.groups.entry(group).or_default();
        if changed.any >= self.now {
            return;
        }
        self.order.remove(&(changed.any, group));
        changed.any = self.now;
        self.order.insert((self.now, group));
    }

    /// Other items of a group are kept than before, or say something: it has changed for everybody who ever was a member.
    pub(in crate::core) fn kept(&mut self, group: GroupId) {
        self.group(group);
        let now = self.now;
        if let Some(changed) = self.groups.get_mut(&group) {
            changed.kept = changed.kept.max(now);
        }
    }

    /// When a group has changed last.
    pub(in crate::core) fn of(&self, group: GroupId) -> Changed {
        self.groups.get(&group).copied().unwrap_or_default()
    }

    /// The groups that have changed above a frame for their members; none where they are more than this.
    pub(in crate::core) fn since(&self, frame: Lsn, most: usize) -> Option<Vec<GroupId>> {
        let above = (frame.next(), GroupId::ZERO);
        let groups: Vec<GroupId> = self.order.range(above..).take(most + 1).map(|(_, group)| *group).collect();
        (groups.len() <= most).then_some(groups)
    }
}
