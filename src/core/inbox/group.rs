//! One group of an inbox: where it stands, and the small steps that move it.

use std::collections::VecDeque;

use super::{Batch, Delivery, PageEnd, Pull, Row};
use crate::ids::{GroupId, MessageId};

/// A page under way.
pub(super) struct Page {
    /// Nothing that it brings counts: it began below the cursor, where the server only lets browse.
    pub(super) void: bool,
    pub(super) end_before: MessageId,
    /// Everything visible up to here came by pushes since it was asked for.
    pub(super) pushed_to: MessageId,
    pub(super) rows: usize,
    pub(super) noted: MessageId,
}

/// What came before the cursor was known.
pub(super) enum Early {
    Rows(Vec<Row>),
    End(PageEnd),
    Push(Batch),
}

/// Where a group stands.
#[derive(Default)]
pub(super) struct Group {
    /// Everything visible up to here was delivered.
    pub(super) end: MessageId,
    /// The highest msgid that was delivered or reported gone.
    pub(super) last: MessageId,
    /// The application has acknowledged up to here.
    pub(super) acked: MessageId,
    /// The highest cursor that the server has answered.
    pub(super) cursor: MessageId,
    /// The highest msgid seen anywhere.
    pub(super) head: MessageId,
    /// What the server has handed out on this connection, as far as is known.
    pub(super) covered: MessageId,
    /// The highest ack sent on this connection.
    pub(super) ack_sent: MessageId,
    /// Whether the cursor with which this connection began is known; until then everything waits in `early`.
    pub(super) known: bool,
    pub(super) early: VecDeque<Early>,
    pub(super) page: Option<Page>,
    pub(super) ahead: Vec<Batch>,
    /// Not to be pulled before this time.
    pub(super) not_before: u64,
    /// Refused for good, until the server says something of the group again.
    pub(super) refused: bool,
}

pub(super) fn note(group: &mut Group, head: MessageId) {
    // What the server tells of it does not refuse: the refusal was of a time before.
    group.refused = false;
    group.head = group.head.max(head);
    if let Some(page) = &mut group.page {
        page.noted = page.noted.max(head);
    }
}

/// The cursor is at least here, whoever moved it: what lies below is not delivered any more.
pub(super) fn rise(group: &mut Group, cursor: MessageId) {
    group.cursor = group.cursor.max(cursor);
    group.acked = group.acked.max(cursor);
    if cursor > group.end {
        if let Some(page) = &mut group.page {
            page.void = true;
        }
        group.end = cursor;
        group.last = group.last.max(cursor);
    }
}

pub(super) fn pullable(group: &Group) -> bool {
    group.known && !group.refused && group.page.is_none() && group.head > group.covered
}

pub(super) fn open(id: GroupId, group: &mut Group) -> Pull {
    group.covered = group.covered.min(group.end);
    group.page =
        Some(Page { void: false, end_before: group.end, pushed_to: MessageId::ZERO, rows: 0, noted: MessageId::ZERO });
    Pull { group: id, after: group.end }
}

pub(super) fn deliver(deliveries: &mut VecDeque<Delivery>, id: GroupId, group: &mut Group, row: Row) {
    if row.msgid > group.end {
        group.end = row.msgid;
        group.last = row.msgid;
        deliveries.push_back(Delivery::Item(id, row));
    }
}

/// Takes a batch that continues what was delivered.
pub(super) fn take(deliveries: &mut VecDeque<Delivery>, id: GroupId, group: &mut Group, batch: Batch) {
    for row in batch.rows {
        deliver(deliveries, id, group, row);
    }
    group.end = group.end.max(batch.covered_to);
    if let Some(page) = &mut group.page {
        page.pushed_to = page.pushed_to.max(batch.covered_to);
    }
    if batch.continues <= group.covered {
        group.covered = group.covered.max(batch.covered_to);
    }
}

/// Up to where the application has everything. Who has all that was delivered has also what is invisible behind it.
fn has(group: &Group) -> MessageId {
    if group.acked >= group.last { group.end } else { group.acked }
}

/// Whether the application has what the server does not know of and can't be told yet: a connection takes acks only of
/// what it has handed out itself.
pub(super) fn holds_back(group: &Group) -> bool {
    let has = has(group);
    !group.refused && group.cursor < has && !(group.known && has <= group.covered)
}

/// What to acknowledge of a group, where that says anything new.
pub(super) fn to_ack(group: &Group) -> Option<MessageId> {
    let ack = has(group).min(group.covered);
    (group.known && !group.refused && ack > group.ack_sent).then_some(ack)
}
