//! What a group keeps of its items: decided from the tables, a clock that does not jump, and what was read of the items.
//!
//! Each part of a policy says up to which item all may go; the highest of them counts. Whoever reads attaches what the
//! tables do not know (the age of items, their bytes) as [`Read`]; `State` decides again with it, over its own tables.

use std::ops::ControlFlow;

use crate::core::rows::DeviceRow;
use crate::core::tables::Tables;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits::CLOCK_MS_MIN;

/// What a group keeps. A part that is none removes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Retention {
    /// Items older than this go, in ms.
    pub age_ms: Option<u64>,
    /// Of more items than this the oldest go.
    pub count: Option<u64>,
    /// Of more bytes of items than this the oldest go.
    pub bytes: Option<u64>,
    /// What every live device of every member has acknowledged goes once it is older than this, in ms.
    pub acked_ms: Option<u64>,
}

impl Retention {
    /// Keeps everything.
    pub const ALL: Retention = Retention { age_ms: None, count: None, bytes: None, acked_ms: None };

    /// Whether nothing ever goes.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        *self == Retention::ALL
    }
}

/// What the server says about retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// The policy of groups that have none of their own.
    pub default: Retention,
    /// A device that was not seen for so long holds nothing back any more, in ms.
    pub unseen_ms: u64,
}

impl Default for Keeping {
    fn default() -> Keeping {
        Keeping { default: Retention::ALL, unseen_ms: 30 * DAY_MS }
    }
}

/// A day, in ms.
pub const DAY_MS: u64 = 24 * 3600 * 1_000;

/// The day of a time.
#[must_use]
pub fn day_of(ms: u64) -> u32 {
    u32::try_from(ms / DAY_MS).unwrap_or(u32::MAX)
}

impl DeviceRow {
    /// The last day on which the device is known to have been there.
    #[must_use]
    pub fn seen_day(&self) -> u32 {
        self.seen_day.max(day_of(self.enrolled_ms))
    }

    /// Whether the device may come back for what it has not acknowledged. One that was there only while the clock had not been
    /// set was there nobody knows when.
    fn holds_back(&self, unseen_days: u32, today: u32) -> bool {
        let day = self.seen_day();
        self.revoked_ms.is_none() && (day < day_of(CLOCK_MS_MIN) || day.saturating_add(unseen_days) >= today)
    }
}

/// What was read of the items of a group, for the policy that it has: up to where they may go for their age, and so on;
/// zero where nothing may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Read {
    /// Items that are too old.
    pub old: MessageId,
    /// Items that are old enough to go once they are acknowledged.
    pub settled: MessageId,
    /// Items beyond the bytes that are kept.
    pub over: MessageId,
}

/// A device that has not acknowledged everything. Where its user lets nobody know what they have received, others are told no
/// more than which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Whose.
    pub user: UserId,
    /// Which.
    pub device: DeviceId,
    /// Up to here it has everything that it may see; zero where that is not told.
    pub acked: MessageId,
    /// The last day on which it was there, in days since 1970; zero where that is not told.
    pub seen_day: u32,
}

impl Holder {
    /// Whether it is told how far it is.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.seen_day > 0 || self.acked > MessageId::ZERO
    }
}

#[cfg(test)]
thread_local! {
    /// How often it was looked up what a user holds back.
    pub(crate) static HOLDERS_LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Tables {
    /// What a group keeps, with what the server says where the group says nothing.
    #[must_use]
    pub fn retention(&self, group: GroupId, keeping: Keeping) -> Retention {
        self.group(group).and_then(|row| row.retention).unwrap_or(keeping.default)
    }

    /// Of the live devices of a user, the one that has acknowledged least; none where they hold nothing back, or are no
    /// member now.
    #[must_use]
    pub fn holder_of(&self, group: GroupId, user: UserId, keeping: Keeping, clock_ms: u64) -> Option<Holder> {
        #[cfg(test)]
        HOLDERS_LOOKED_AT.with(|looks| looks.set(looks.get() + 1));
        if !self.is_member(group, user) {
            return None;
        }
        let today = day_of(clock_ms);
        let unseen_days = day_of(keeping.unseen_ms);
        let live = self.devices_of(user, DeviceId::ZERO).filter(|(_, row)| row.holds_back(unseen_days, today));
        let holders = live.map(|(device, row)| {
            let cursor = self.cursor(group, user, device).map_or(MessageId::ZERO, |cursor| cursor.msgid);
            Holder { user, device, acked: self.covered_to(user, group, cursor), seen_day: row.seen_day() }
        });
        holders.min_by_key(|holder| holder.acked)
    }

    /// Up to where every live device of every current member has acknowledged what it may see; where there is none, all.
    /// Breaks at the first one that is met and has not acknowledged this item, as then nothing may go from it on: all members
    /// are looked at only where something may.
    pub fn acked_from(
        &self,
        group: GroupId,
        first: MessageId,
        keeping: Keeping,
        clock_ms: u64,
    ) -> ControlFlow<Holder, MessageId> {
        let members = self.members(group, UserId::ZERO);
        let mut holders = members.filter_map(|(user, _)| self.holder_of(group, user, keeping, clock_ms));
        holders.try_fold(self.head(group), |acked, holder| {
            if holder.acked < first {
                ControlFlow::Break(holder)
            } else {
                ControlFlow::Continue(acked.min(holder.acked))
            }
        })
    }

    /// The first item that a group keeps by this policy, at most the one behind its head; never below where it stands.
    #[must_use]
    pub fn first_to_keep(
        &self,
        group: GroupId,
        policy: Retention,
        keeping: Keeping,
        read: Read,
        clock_ms: u64,
    ) -> MessageId {
        let (head, first_kept) = (self.head(group), self.first_kept(group));
        let mut gone = MessageId::ZERO;
        if policy.age_ms.is_some() {
            gone = gone.max(read.old);
        }
        if let Some(count) = policy.count {
            gone = gone.max(MessageId::new(head.value().saturating_sub(count)));
        }
        if policy.bytes.is_some() {
            gone = gone.max(read.over);
        }
        // Who holds back what is asked only where something would go.
        let first = first_kept.max(gone.next());
        if policy.acked_ms.is_some()
            && read.settled >= first
            && let ControlFlow::Continue(acked) = self.acked_from(group, first, keeping, clock_ms)
        {
            gone = gone.max(read.settled.min(acked));
        }
        first_kept.max(gone.min(head).next())
    }
}

/// A clock that follows another, but not where that jumps: never backwards, and at most twice as fast as time passes. So
/// a clock that was set forward makes items go no sooner than it would take to notice and set it right, and after a time
/// in which the server did not run it takes as long again to catch up. A clock that was never set ([`CLOCK_MS_MIN`]) is
/// none: what it showed binds nobody once it is set.
#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    at_ms: u64,
}

impl SteadyClock {
    /// A clock that stood there when the server was stopped; zero: it never ran, nor did it by a clock that was not set.
    #[must_use]
    pub fn from(kept_ms: u64, now_ms: u64) -> SteadyClock {
        SteadyClock { at_ms: if kept_ms < CLOCK_MS_MIN { now_ms } else { kept_ms } }
    }

    /// What it shows.
    #[must_use]
    pub fn ms(&self) -> u64 {
        self.at_ms
    }

    /// So much time has passed, and the other clock shows this.
    pub fn pass(&mut self, elapsed_ms: u64, now_ms: u64) {
        let most = self.at_ms.saturating_add(elapsed_ms.saturating_mul(2));
        let is_set = self.at_ms >= CLOCK_MS_MIN;
        self.at_ms = self.at_ms.max(if is_set { now_ms.min(most) } else { now_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When nothing is special.
    const T: u64 = CLOCK_MS_MIN + 100 * DAY_MS;

    #[test]
    fn a_clock_that_jumps_forward_is_followed_slowly_and_one_that_jumps_back_not_at_all() {
        let mut clock = SteadyClock::from(0, T + 1_000_000);
        clock.pass(500, T + 1_000_500);
        assert_eq!(clock.ms(), T + 1_000_500);
        clock.pass(500, T + 1_000_500 + 365 * DAY_MS);
        assert_eq!(clock.ms(), T + 1_001_500);
        // Set right again: it waits until it is right.
        clock.pass(200, T + 1_001_200);
        assert_eq!(clock.ms(), T + 1_001_500);
        clock.pass(400, T + 1_001_600);
        assert_eq!(clock.ms(), T + 1_001_600);
        clock.pass(400, 5);
        assert_eq!(clock.ms(), T + 1_001_600);
        // A start a week later.
        let mut clock = SteadyClock::from(clock.ms(), T + 1_001_600 + 7 * DAY_MS);
        clock.pass(DAY_MS, T + 1_001_600 + 8 * DAY_MS);
        assert_eq!(clock.ms(), T + 1_001_600 + 2 * DAY_MS);
        clock.pass(7 * DAY_MS, T + 1_001_600 + 15 * DAY_MS);
        assert_eq!(clock.ms(), T + 1_001_600 + 15 * DAY_MS);
    }

    #[test]
    fn a_clock_that_was_never_set_is_followed_to_where_it_is_set_and_one_that_was_is_not() {
        let mut clock = SteadyClock::from(0, 5_000);
        clock.pass(500, 5_500);
        assert_eq!(clock.ms(), 5_500);
        clock.pass(500, T);
        assert_eq!(clock.ms(), T);
        clock.pass(500, T + 365 * DAY_MS);
        assert_eq!(clock.ms(), T + 1_000);
        // Not set again: it stands.
        clock.pass(500, 7_000);
        assert_eq!(clock.ms(), T + 1_000);
        // One that was noted before it was set.
        assert_eq!(SteadyClock::from(9_000, T).ms(), T);
        assert_eq!(SteadyClock::from(T, 9_000).ms(), T);
    }
}
