//! The listening side of a device: puts pages and pushes into the one order of each group, decides what to pull and what
//! to acknowledge.
//!
//! Pushes may overtake pages, a connection may end anywhere, and everything may come twice; what leaves
//! [`Inbox::deliveries`] is nevertheless, per group, every visible item once and in order. Writing it down, handing it
//! on and talking to the server is done by the client.
//!
//! Invariants: nothing is delivered that does not continue what was delivered before; nothing is acknowledged that the
//! application did not acknowledge, nor what the server cannot have handed out on this connection.

mod group;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::ids::{GroupId, MessageId};
use crate::limits::{
    ACK_DELAY_MS_MAX, ACK_ENTRIES_MAX, CREDIT_BYTES_MAX, CREDIT_BYTES_START, CREDIT_ITEMS_MAX, CREDIT_ITEMS_START,
    PULLS_UNDER_WAY_MAX,
};

use group::{Early, Group, deliver, holds_back, note, open, pullable, rise, take, to_ack};

/// After this long without the expected cursor an ack counts as cut down or lost, in ms: well above what a server waits
/// before it answers acks.
const ACK_ANSWER_MS_MAX: u64 = 5_000;
/// Pause after a page that was not done or brought nothing, in ms.
const PULL_PAUSE_MS: u64 = 500;

/// An item as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// Its place.
    pub msgid: MessageId,
    /// Opaque here.
    pub bytes: Bytes,
}

/// Pushed rows of one group.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    /// Everything visible up to here was handed out before.
    pub continues: MessageId,
    /// Everything visible up to here is handed out with it.
    pub covered_to: MessageId,
    /// The rows, by msgid.
    pub rows: Vec<Row>,
}

/// How a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEnd {
    /// Everything visible up to here was given.
    pub covered_to: MessageId,
    /// Whether something visible remains above.
    pub more: bool,
    /// Ranges (first, last) that retention removed.
    pub gone: Vec<(MessageId, MessageId)>,
    /// The highest msgid that may be known.
    pub head: MessageId,
}

/// What is next in a group.
#[derive(Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An item.
    Item(GroupId, Row),
    /// These (first, last) were removed before they came.
    Gone(GroupId, MessageId, MessageId),
}

/// A page to ask for, in order to deliver it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The group.
    pub group: GroupId,
    /// Items above this.
    pub after: MessageId,
}

/// What the client kept of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Everything visible up to here was delivered.
    pub end: MessageId,
    /// The application has acknowledged up to here.
    pub acked: MessageId,
}

/// All groups of a listening device.
pub struct Inbox {
    groups: BTreeMap<GroupId, Group>,
    /// None: all groups.
    wanted: Option<Vec<GroupId>>,
    deliveries: VecDeque<Delivery>,
    pages: usize,
    ahead_items: usize,
    ahead_bytes: usize,
    credit_items: u32,
    credit_bytes: u32,
    ready_items: u64,
    ready_bytes: u64,
    ack_at: Option<u64>,
    answer_at: Option<u64>,
}

impl Inbox {
    /// An inbox that continues what was kept, for these groups (none: all).
    #[must_use]
    pub fn new(kept: impl IntoIterator<Item = (GroupId, Kept)>, wanted: Option<Vec<GroupId>>) -> Inbox {
        let group = |kept: Kept| Group { end: kept.end, last: kept.end, acked: kept.acked, ..Group::default() };
        Inbox {
            groups: kept.into_iter().map(|(id, kept)| (id, group(kept))).collect(),
            wanted,
            deliveries: VecDeque::new(),
            pages: 0,
            ahead_items: 0,
            ahead_bytes: 0,
            credit_items: CREDIT_ITEMS_START,
            credit_bytes: CREDIT_BYTES_START,
            ready_items: 0,
            ready_bytes: 0,
            ack_at: None,
            answer_at: None,
        }
    }

    fn wants(&self, group: GroupId) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&group))
    }

    // ---- the connection ---------------------------------------------------------------------------------------------

    /// A connection begins: nothing is handed out on it yet. Groups that were asked for by name may be pulled at once.
    pub fn connected(&mut self) {
        self.pages = 0;
        self.ahead_items = 0;
        self.ahead_bytes = 0;
        self.credit_items = CREDIT_ITEMS_START;
        self.credit_bytes = CREDIT_BYTES_START;
        self.ack_at = None;
        self.answer_at = None;
        for group in self.groups.values_mut() {
            group.known = false;
            group.refused = false;
            group.early.clear();
            group.page = None;
            group.ahead.clear();
            group.covered = MessageId::ZERO;
            group.ack_sent = MessageId::ZERO;
            group.not_before = 0;
            group.head = group.head.max(group.end);
        }
    }

    /// Pulls that leave together with Hello: of the groups asked for by name, as far as something was kept of them.
    pub fn first_pulls(&mut self) -> Vec<Pull> {
        let wanted = self.wanted.clone().unwrap_or_default();
        let mut pulls = Vec::new();
        for id in wanted {
            let free = self.pages < PULLS_UNDER_WAY_MAX;
            if let Some(group) = self.groups.get_mut(&id).filter(|group| free && group.end > MessageId::ZERO) {
                pulls.push(open(id, group));
                self.pages += 1;
            }
        }
        pulls
    }

    /// The server lists a group with this device's cursor and its head.
    pub fn listed(&mut self, id: GroupId, cursor: MessageId, head: MessageId, now_ms: u64) {
        let group = self.groups.entry(id).or_default();
        group.head = group.head.max(head);
        if !group.known {
            self.learn(id, cursor, now_ms);
        }
    }

    /// The lowest group of which something is known to come while its cursor is not: it must be listed.
    #[must_use]
    pub fn wants_list(&self) -> Option<GroupId> {
        let waits = |(id, group): &(&GroupId, &Group)| !group.known && group.head > group.end && self.wants(**id);
        self.groups.iter().find(waits).map(|(id, _)| *id)
    }

    fn learn(&mut self, id: GroupId, cursor: MessageId, now_ms: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.known = true;
        // It may have risen since the list was made.
        let cursor = cursor.max(group.cursor);
        rise(group, cursor);
        group.covered = group.covered.max(cursor);
        group.ack_sent = cursor;
        for early in std::mem::take(&mut group.early) {
            match early {
                Early::Rows(rows) => self.rows(id, rows, now_ms),
                Early::End(end) => self.page_end(id, end, now_ms),
                Early::Push(batch) => self.push(id, batch, now_ms),
            }
        }
    }

    // ---- pages ------------------------------------------------------------------------------------------------------

    /// The next page to ask for, if one is due.
    pub fn next_pull(&mut self, now_ms: u64) -> Option<Pull> {
        if self.pages >= PULLS_UNDER_WAY_MAX {
            return None;
        }
        let wanted = self.wanted.as_ref();
        let due = |(id, group): &(&GroupId, &mut Group)| {
            pullable(group) && now_ms >= group.not_before && wanted.is_none_or(|wanted| wanted.contains(id))
        };
        let (id, group) = self.groups.iter_mut().find(due)?;
        self.pages += 1;
        Some(open(*id, group))
    }

    /// Rows of the open page of a group.
    pub fn rows(&mut self, id: GroupId, rows: Vec<Row>, now_ms: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if !group.known {
            group.early.push_back(Early::Rows(rows));
            return;
        }
        let Some(page) = group.page.as_mut().filter(|page| !page.void) else { return };
        page.rows += rows.len();
        for row in rows {
            group.covered = group.covered.max(row.msgid);
            deliver(&mut self.deliveries, id, group, row);
        }
        self.note_ready(id, now_ms);
    }

    /// The open page of a group is complete.
    pub fn page_end(&mut self, id: GroupId, end: PageEnd, now_ms: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if !group.known {
            group.early.push_back(Early::End(end));
            return;
        }
        let Some(page) = group.page.take() else { return };
        self.pages = self.pages.saturating_sub(1);
        if page.void {
            return;
        }
        for (first, last) in end.gone {
            let first = first.max(page.end_before.max(page.pushed_to).next());
            if last >= first {
                group.last = group.last.max(last);
                self.deliveries.push_back(Delivery::Gone(id, first, last));
            }
        }
        let stuck = page.rows == 0 && end.covered_to <= page.end_before;
        group.end = group.end.max(end.covered_to);
        group.covered = group.covered.max(end.covered_to);
        group.head = if end.more { end.head.max(group.covered.next()) } else { group.covered };
        group.head = group.head.max(page.noted);
        if end.more && stuck {
            group.not_before = now_ms + PULL_PAUSE_MS;
        }
        self.join_ahead(id);
        self.note_ready(id, now_ms);
    }

    /// The open page of a group ended with an error: for good, or to be tried again.
    pub fn page_failed(&mut self, id: GroupId, for_good: bool, after_ms: u64, now_ms: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if group.page.take().is_some() {
            self.pages = self.pages.saturating_sub(1);
        }
        group.refused |= for_good;
        group.not_before = now_ms + after_ms.max(PULL_PAUSE_MS);
        self.join_ahead(id);
    }

    // ---- pushes -----------------------------------------------------------------------------------------------------

    /// The credit in force.
    pub fn credit(&mut self, items: u32, bytes: u32) {
        self.credit_items = items.clamp(1, CREDIT_ITEMS_MAX);
        self.credit_bytes = bytes.clamp(1, CREDIT_BYTES_MAX);
    }

    /// Items were pushed.
    pub fn push(&mut self, id: GroupId, batch: Batch, now_ms: u64) {
        let group = self.groups.entry(id).or_default();
        note(group, batch.covered_to);
        if !group.known && group.page.is_some() {
            group.early.push_back(Early::Push(batch));
            return;
        }
        if !group.known {
            // The first push of a connection, with nothing pulled before it, continues the cursor.
            self.learn(id, batch.continues, now_ms);
        }
        let Some(group) = self.groups.get_mut(&id) else { return };
        if batch.continues <= group.end {
            take(&mut self.deliveries, id, group, batch);
            self.join_ahead(id);
            self.note_ready(id, now_ms);
            return;
        }
        let bytes: usize = batch.rows.iter().map(|row| row.bytes.len()).sum();
        let items = self.ahead_items + batch.rows.len();
        // What does not fit is known by the head, and pulled.
        if items <= CREDIT_ITEMS_MAX as usize && self.ahead_bytes + bytes <= CREDIT_BYTES_MAX as usize {
            self.ahead_items = items;
            self.ahead_bytes += bytes;
            group.ahead.push(batch);
        }
    }

    /// There is something up to here in a group.
    pub fn head(&mut self, id: GroupId, head: MessageId) {
        let group = self.groups.entry(id).or_default();
        note(group, head);
        group.not_before = 0;
    }

    fn join_ahead(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        while let Some(at) = group.ahead.iter().position(|batch| batch.continues <= group.end) {
            let batch = group.ahead.swap_remove(at);
            self.ahead_items -= batch.rows.len();
            self.ahead_bytes -= batch.rows.iter().map(|row| row.bytes.len()).sum::<usize>();
            take(&mut self.deliveries, id, group, batch);
        }
    }

    // ---- deliveries and acks ----------------------------------------------------------------------------------------

    /// What [`Inbox::deliveries`] answers next.
    pub fn next_deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter()
    }

    /// What is next, in order, since the last call.
    pub fn deliveries(&mut self) -> Vec<Delivery> {
        self.deliveries.drain(..).collect()
    }

    /// The application has everything of this group up to here, which was so many items and bytes since its last ack.
    pub fn acked(&mut self, id: GroupId, msgid: MessageId, items: u64, bytes: u64, now_ms: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.acked = group.acked.max(msgid.min(group.end));
        self.ready_items += items;
        self.ready_bytes += bytes;
        self.note_ready(id, now_ms);
    }

    fn note_ready(&mut self, id: GroupId, now_ms: u64) {
        if self.groups.get(&id).is_some_and(|group| to_ack(group).is_some()) {
            self.ack_at.get_or_insert(now_ms + ACK_DELAY_MS_MAX);
        }
    }

    /// Acks to send now: at half of the credit, or when they have waited long enough.
    pub fn due_acks(&mut self, now_ms: u64) -> Vec<(GroupId, MessageId)> {
        let half = self.ready_items * 2 >= u64::from(self.credit_items)
            || self.ready_bytes * 2 >= u64::from(self.credit_bytes);
        if half || self.ack_at.is_some_and(|at| now_ms >= at) { self.all_acks(now_ms) } else { Vec::new() }
    }

    /// All acks that can be sent, due or not.
    pub fn all_acks(&mut self, now_ms: u64) -> Vec<(GroupId, MessageId)> {
        let ready = self.groups.iter_mut().filter_map(|(id, group)| {
            let msgid = to_ack(group)?;
            group.ack_sent = msgid;
            Some((*id, msgid))
        });
        let acks: Vec<_> = ready.take(ACK_ENTRIES_MAX).collect();
        self.ready_items = 0;
        self.ready_bytes = 0;
        self.ack_at = (acks.len() == ACK_ENTRIES_MAX).then_some(now_ms);
        if !acks.is_empty() {
            self.answer_at = Some(now_ms + ACK_ANSWER_MS_MAX);
        }
        acks
    }

    /// Whether an ack was sent that the server has not answered.
    #[must_use]
    pub fn expects_answer(&self) -> bool {
        self.groups.values().any(|group| group.known && !group.refused && group.cursor < group.ack_sent)
    }

    /// Whether the application has what the server can't be told yet, but once this connection has handed it out.
    #[must_use]
    pub fn holds_acks_back(&self) -> bool {
        self.groups.iter().any(|(id, group)| self.wants(*id) && holds_back(group))
    }

    /// The server's durable cursor of a group.
    pub fn cursor(&mut self, id: GroupId, cursor: MessageId) {
        let group = self.groups.entry(id).or_default();
        if group.known {
            group.refused = false;
            rise(group, cursor);
            group.covered = group.covered.max(cursor);
        } else {
            group.cursor = group.cursor.max(cursor);
        }
        if !self.expects_answer() {
            self.answer_at = None;
        }
    }

    /// The server refused acks of a group. Where none is under way, it was one of a time before.
    pub fn ack_refused(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.refused |= group.cursor < group.ack_sent;
        }
    }

    /// Time has passed: an ack that was cut down is followed by a pull from what the server did answer.
    pub fn tick(&mut self, now_ms: u64) {
        if self.answer_at.is_none_or(|at| now_ms < at) {
            return;
        }
        self.answer_at = None;
        for group in self.groups.values_mut().filter(|group| group.known && group.cursor < group.ack_sent) {
            group.covered = group.cursor;
            group.ack_sent = group.cursor;
            group.head = group.head.max(group.end);
        }
    }

    /// When to come back although nothing happened: for an ack, an answer that is late, or a pull that was not due yet
    /// when this was last asked for one. A pull that was due then waits for something else than time.
    #[must_use]
    pub fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        let pulls = self.groups.iter().filter(|(id, group)| pullable(group) && self.wants(**id));
        let pulls = pulls.map(|(_, group)| group.not_before).filter(|at| *at > now_ms);
        pulls.chain(self.ack_at).chain(self.answer_at).min()
    }

    /// What to keep of a group.
    #[must_use]
    pub fn kept(&self, id: GroupId) -> Option<Kept> {
        self.groups.get(&id).map(|group| Kept { end: group.end, acked: group.acked })
    }

    /// What to keep of all groups.
    pub fn all_kept(&self) -> impl Iterator<Item = (GroupId, Kept)> {
        self.groups.iter().map(|(id, group)| (*id, Kept { end: group.end, acked: group.acked }))
    }
}
