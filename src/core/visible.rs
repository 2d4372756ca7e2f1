//! What a member may see: the items of the intervals in which they belonged, both borders included.
//!
//! Pure arithmetic on the intervals of one member. It does not know who asks, and it never looks at items: an item of a
//! visible range may still be gone, because retention removed it, or hidden for reasons of its own.

use crate::core::rows::{Interval, MemberRow, Policy, Role};
use crate::ids::MessageId;
use crate::proof::{self, Wrong};

/// Consecutive msgids, first and last included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: MessageId,
    /// The last, at or above the first.
    pub last: MessageId,
}

impl Span {
    /// Whether it has this msgid.
    #[must_use]
    pub fn contains(self, msgid: MessageId) -> bool {
        self.first <= msgid && msgid <= self.last
    }

    /// The part of it within these borders, if there is one.
    #[must_use]
    pub fn within(self, first: MessageId, last: MessageId) -> Option<Span> {
        let span = Span { first: self.first.max(first), last: self.last.min(last) };
        (span.first <= span.last).then_some(span)
    }
}

impl Interval {
    /// What this stay makes visible of a group with this head.
    pub(in crate::core) fn span(&self, head: MessageId) -> Span {
        let first = match self.policy {
            Policy::FromJoin if proof::is(Wrong::IntervalOffByOne) => self.joined.previous(),
            Policy::FromJoin => self.joined,
            Policy::FullHistory => MessageId::new(1),
        };
        Span { first, last: self.left.unwrap_or(head) }
    }
}

impl MemberRow {
    /// Somebody who is in the group, for the last of these stays.
    #[must_use]
    pub fn present(role: Role, intervals: Vec<Interval>) -> MemberRow {
        MemberRow { role, intervals, name_at_leave: None, muted: false, banned: false }
    }

    /// Whether the last stay is still going on.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.intervals.last().is_some_and(|interval| interval.left.is_none())
    }

    /// What is visible of a group with this head: ascending, without overlaps.
    ///
    /// A stay with full history covers all before it, so that only the last such one and the stays after it count.
    pub fn visible(&self, head: MessageId) -> impl Iterator<Item = Span> + '_ {
        self.shown().filter_map(move |interval| interval.span(head).within(MessageId::new(1), head))
    }

    /// The stays that say what is visible.
    pub(in crate::core) fn shown(&self) -> impl Iterator<Item = &Interval> {
        let from = self.intervals.iter().rposition(|interval| interval.policy == Policy::FullHistory).unwrap_or(0);
        self.intervals.iter().skip(from)
    }

    /// Whether an item is visible.
    #[must_use]
    pub fn may_see(&self, msgid: MessageId, head: MessageId) -> bool {
        self.visible(head).any(|span| span.contains(msgid))
    }

    /// Whether the member belonged to the group when an item was added that is no border of a stay.
    #[must_use]
    pub fn was_member_at(&self, msgid: MessageId) -> bool {
        self.intervals.iter().any(|stay| stay.joined < msgid && stay.left.is_none_or(|left| msgid < left))
    }

    /// The first visible item above this msgid and not below the first kept one.
    #[must_use]
    pub fn next_visible(&self, after: MessageId, first_kept: MessageId, head: MessageId) -> Option<MessageId> {
        let from = after.next().max(first_kept);
        self.visible(head).find_map(|span| span.within(from, head)).map(|span| span.first)
    }

    /// The highest msgid that the member may know of: the head, or the item with which the last stay ended.
    #[must_use]
    pub fn visible_head(&self, head: MessageId) -> MessageId {
        self.intervals.last().map_or(MessageId::ZERO, |interval| interval.left.unwrap_or(head).min(head))
    }

    /// The item with which the current stay, or else the last one, began.
    #[must_use]
    pub fn joined(&self) -> MessageId {
        self.intervals.last().map_or(MessageId::ZERO, |interval| interval.joined)
    }
}
