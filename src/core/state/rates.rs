//! How much a member may do in which time. Kept in memory only: a restart is generous.
//!
//! Each limit is one number a user, the time until which it is used up; it drains with the clock. No timers, no lists.

use std::collections::BTreeMap;

use crate::core::authorise::Rights;
use crate::core::command::Refusal;
use crate::core::retention::{DAY_MS, Keeping};
use crate::ids::UserId;
use crate::limits::{READ_MARKS_A_MINUTE_MAX, SWITCHES_A_MINUTE_MAX};

/// So much in this time, at once or spread over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How much; zero: no limit.
    pub amount: u64,
    /// In how many ms.
    pub per_ms: u64,
}

impl Rate {
    /// So much in a second.
    #[must_use]
    pub const fn a_second(amount: u64) -> Rate {
        Rate { amount, per_ms: 1_000 }
    }

    /// So much in a minute.
    #[must_use]
    pub const fn a_minute(amount: u64) -> Rate {
        Rate { amount, per_ms: 60_000 }
    }

    /// So much in a day.
    #[must_use]
    pub const fn a_day(amount: u64) -> Rate {
        Rate { amount, per_ms: DAY_MS }
    }
}

/// What an operator may set about members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Sends of a user, refused ones and renames included, resends of stored ones not. Whatever else writes a row and has no
    /// limit of its own counts as one.
    pub sends: Rate,
    /// Bytes of bodies and extensions of a user.
    pub bytes: Rate,
    /// Groups made by a user.
    pub groups: Rate,
    /// Users added to groups, by a user.
    pub additions: Rate,
    /// Who may do what a setting gives.
    pub rights: Rights,
    /// For how long its author may edit an item, in ms; zero: for ever.
    pub edit_ms: u64,
    /// For how long its author may recall an item, in ms; zero: for ever.
    pub recall_ms: u64,
    /// What groups keep.
    pub keeping: Keeping,
}

impl Default for Settings {
    /// Above what people and their scripts do, below what would fill a disk overnight.
    fn default() -> Settings {
        Settings {
            sends: Rate::a_second(2_000),
            bytes: Rate::a_day(4 << 30),
            groups: Rate::a_day(1_000),
            additions: Rate::a_day(50_000),
            rights: Rights::default(),
            edit_ms: 7 * DAY_MS,
            recall_ms: 0,
            keeping: Keeping::default(),
        }
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limited {
    Sends,
    Bytes,
    Groups,
    Additions,
    Switches,
    ReadMarks,
}

/// How often a user turns a switch.
pub(super) const SWITCHES: Rate = Rate::a_minute(SWITCHES_A_MINUTE_MAX);
/// How many read marks of a user move.
pub(super) const READ_MARKS: Rate = Rate::a_minute(READ_MARKS_A_MINUTE_MAX);

/// What users have used up.
#[derive(Default)]
pub(super) struct Rates {
    used_until_ns: BTreeMap<(UserId, Limited), u64>,
}

const NS_PER_MS: u64 = 1_000_000;

impl Rates {
    /// Uses up so much of a limit, or says when there is room again. What is larger than the whole limit has room when
    /// nothing else is used.
    pub(super) fn use_up(
        &mut self,
        user: UserId,
        what: Limited,
        amount: u64,
        rate: Rate,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        if rate.amount == 0 {
            return Ok(());
        }
        let now = now_ms.saturating_mul(NS_PER_MS);
        let period = rate.per_ms.saturating_mul(NS_PER_MS);
        let until = self.used_until_ns.entry((user, what)).or_default();
        // More than a period ahead can only be of a clock that was set back since.
        let from = if *until > now.saturating_add(period) { now } else { (*until).max(now) };
        let cost = (u128::from(amount) * u128::from(period) / u128::from(rate.amount)).min(u128::from(period));
        let after = from.saturating_add(u64::try_from(cost).unwrap_or(period));
        let over = after.saturating_sub(now.saturating_add(period));
        if over > 0 {
            let retry_after_ms = u32::try_from(over.div_ceil(NS_PER_MS)).unwrap_or(u32::MAX);
            return Err(Refusal::SlowDown { retry_after_ms });
        }
        *until = after;
        Ok(())
    }
}
