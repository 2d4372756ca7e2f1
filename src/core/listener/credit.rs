//! How much may be pushed to one connection without an ack: items and bytes.
//!
//! It doubles with each timely ack and falls back to the start when items stay unacked for too long, because whatever
//! is in flight into a dead link has to be waited for when the link comes back. One item is always allowed.

use std::collections::{BTreeMap, VecDeque};

use crate::core::listener::Moment;
use crate::ids::{GroupId, MessageId};
use crate::limits::{
    CREDIT_BYTES_MAX, CREDIT_BYTES_START, CREDIT_ITEMS_MAX, CREDIT_ITEMS_START, CREDIT_STALL_MS_BASE,
    CREDIT_STALL_MS_MIN,
};

/// Items and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Items.
    pub items: u32,
    /// Bytes of their rows.
    pub bytes: u32,
}

const START: Amount = Amount { items: CREDIT_ITEMS_START, bytes: CREDIT_BYTES_START };

/// An item that was pushed and is not acked.
struct Flying {
    group: GroupId,
    msgid: MessageId,
    bytes: u32,
    pushed_ms: u64,
}

/// The credit of a connection and what it is spent on.
pub(super) struct Credit {
    in_force: Amount,
    out: Amount,
    flying: VecDeque<Flying>,
}

impl Credit {
    pub(super) fn new() -> Credit {
        Credit { in_force: START, out: Amount::default(), flying: VecDeque::new() }
    }

    /// What may be unacked in all.
    pub(super) fn in_force(&self) -> Amount {
        self.in_force
    }

    /// What may still be pushed; the one item that is always allowed counts with the bytes of a whole credit.
    pub(super) fn left(&self) -> Amount {
        if self.out.items == 0 {
            return self.in_force;
        }
        Amount {
            items: self.in_force.items.saturating_sub(self.out.items),
            bytes: self.in_force.bytes.saturating_sub(self.out.bytes),
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        let left = self.left();
        left.items == 0 || left.bytes == 0
    }

    /// Spends credit on an item, where there is enough.
    #[must_use]
    pub(super) fn spend(&mut self, group: GroupId, msgid: MessageId, bytes: u32, moment: Moment) -> bool {
        let left = self.left();
        if self.out.items > 0 && (left.items == 0 || left.bytes < bytes) {
            return false;
        }
        self.out.items += 1;
        self.out.bytes = self.out.bytes.saturating_add(bytes);
        self.flying.push_back(Flying { group, msgid, bytes, pushed_ms: moment.now_ms });
        true
    }

    /// An ack came: what it covers is free again, and the credit grows if it came in time.
    pub(super) fn acked(&mut self, up_to: &BTreeMap<GroupId, MessageId>, moment: Moment) {
        self.watch(moment);
        let Some(oldest_ms) = self.release(up_to) else { return };
        if is_late(oldest_ms, moment) {
            return;
        }
        self.in_force = Amount {
            items: self.in_force.items.saturating_mul(2).min(CREDIT_ITEMS_MAX),
            bytes: self.in_force.bytes.saturating_mul(2).min(CREDIT_BYTES_MAX),
        };
    }

    /// Frees what these msgids cover; says when the oldest of it was pushed.
    pub(super) fn release(&mut self, up_to: &BTreeMap<GroupId, MessageId>) -> Option<u64> {
        self.release_where(|item| up_to.get(&item.group).is_some_and(|acked| item.msgid <= *acked))
    }

    fn release_where(&mut self, is_free: impl Fn(&Flying) -> bool) -> Option<u64> {
        let mut oldest_ms = None;
        let mut out = Amount::default();
        self.flying.retain(|item| {
            if is_free(item) {
                oldest_ms = oldest_ms.or(Some(item.pushed_ms));
                return false;
            }
            out.items += 1;
            out.bytes = out.bytes.saturating_add(item.bytes);
            true
        });
        self.out = out;
        oldest_ms
    }

    /// Falls back where the oldest item in flight is overdue.
    pub(super) fn watch(&mut self, moment: Moment) {
        if self.flying.front().is_some_and(|oldest| is_late(oldest.pushed_ms, moment)) {
            self.in_force = START;
        }
    }

    /// When the oldest item in flight will be overdue; none where the credit cannot fall any further.
    pub(super) fn stalls_at_ms(&self, rtt_ms: u64) -> Option<u64> {
        if self.in_force == START {
            return None;
        }
        self.flying.front().map(|oldest| oldest.pushed_ms.saturating_add(stall_ms(rtt_ms)))
    }
}

fn is_late(pushed_ms: u64, moment: Moment) -> bool {
    moment.now_ms >= pushed_ms.saturating_add(stall_ms(moment.rtt_ms))
}

fn stall_ms(rtt_ms: u64) -> u64 {
    CREDIT_STALL_MS_MIN.max(CREDIT_STALL_MS_BASE.saturating_add(rtt_ms.saturating_mul(2)))
}
