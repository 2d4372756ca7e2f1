//! What one connection that listens is handed, and what of it its device may acknowledge.
//!
//! For each group it keeps `handed`: the last msgid covered on this connection. It starts at the durable cursor, is never
//! below it, and moves by what was written without a hole. Whatever continues it is pushed, as far as the credit
//! reaches; of anything else, and behind what retention has removed, only the head is told, and the client pulls. It
//! holds no items and reads nothing: it is told what was committed and written, and sees the committed view through
//! [`Sight`] at each call. Clock and round trip come from outside.
//!
//! The shell calls one method for each thing that happens, carries out the [`Effect`]s in their order, and writes
//! [`Listener::take_heads`] whenever the push stream has room.

mod credit;
mod pages;

pub use credit::Amount;
pub use pages::{Page, Pull};

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::core::visible::Span;
use crate::ids::{GroupId, MessageId};
use crate::limits::NEAR_HEAD_ITEMS;
use crate::proof::{self, Wrong};

use credit::Credit;

/// What the device of a listener can see of the committed view.
pub trait Sight {
    /// The durable cursor of the device; none where the user may not know of the group.
    fn cursor(&self, group: GroupId) -> Option<MessageId>;
    /// The highest durable msgid of a group that the user may know of.
    fn head(&self, group: GroupId) -> MessageId;
    /// The first run of visible items above a msgid, as far as they are durable and were not removed.
    fn next_span(&self, group: GroupId, after: MessageId) -> Option<Span>;
    /// Whether retention has removed something above a msgid that would be visible.
    fn is_gone(&self, group: GroupId, after: MessageId) -> bool;
    /// Visits every group that the user may know of.
    fn groups(&self, visit: &mut dyn FnMut(GroupId));
}

/// When something happens, and how far away the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Now, on any clock that does not go back.
    pub now_ms: u64,
    /// The round trip as measured.
    pub rtt_ms: u64,
}

/// An item that could be pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Its place.
    pub msgid: MessageId,
    /// Bytes of its row.
    pub bytes: u32,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write these rows to the push stream: of those offered, or of those fetched.
    Push(Push),
    /// Read visible rows above `after`, up to the durable head, at most so much and at least one; then call
    /// [`Listener::fetched`] or [`Listener::fetch_failed`].
    Fetch {
        /// The group.
        group: GroupId,
        /// Above this msgid.
        after: MessageId,
        /// At most so much.
        most: Amount,
    },
}

/// What was read for a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched<'a> {
    /// The group.
    pub group: GroupId,
    /// Above which msgid.
    pub after: MessageId,
    /// The visible items from there on, without a hole.
    pub rows: &'a [Offered],
    /// Everything visible up to here is among them.
    pub covered_to: MessageId,
}

/// Rows to push: every item from `first` to `last`; each is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Push {
    /// The group.
    pub group: GroupId,
    /// What was handed before.
    pub continues: MessageId,
    /// The first row.
    pub first: MessageId,
    /// The last row.
    pub last: MessageId,
    /// What is handed with it.
    pub covered_to: MessageId,
}

/// What a client wants pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All groups, now and later.
    All,
    /// These groups.
    Groups(BTreeSet<GroupId>),
}

/// Where a group stands on this connection.
struct Handed {
    handed: MessageId,
    /// The highest head the client was told of, other than by items.
    told: MessageId,
    /// The highest ack of this connection.
    acked: MessageId,
    /// Pages under way that deliver.
    pages: u32,
    /// Items that are being read for a push; zero: none.
    fetching: u32,
}

/// The hand-out of one connection.
pub struct Listener {
    wanted: Option<Wanted>,
    groups: BTreeMap<GroupId, Handed>,
    credit: Credit,
    /// Wanted groups whose head is above what was handed, and not by what is being written now.
    behind: BTreeSet<GroupId>,
    /// Heads to tell.
    heads: BTreeMap<GroupId, MessageId>,
    /// Items that are being read for pushes, in all groups.
    fetching: u32,
}

impl Default for Listener {
    fn default() -> Listener {
        Listener::new()
    }
}

impl Listener {
    /// A connection that has not subscribed.
    #[must_use]
    pub fn new() -> Listener {
        Listener {
            wanted: None,
            groups: BTreeMap::new(),
            credit: Credit::new(),
            behind: BTreeSet::new(),
            heads: BTreeMap::new(),
            fetching: 0,
        }
    }

    /// The client says what it wants pushed. It is told the heads of all groups in which it was not handed everything.
    pub fn subscribe(&mut self, wanted: Wanted, sight: &impl Sight) {
        self.wanted = Some(wanted);
        self.behind.clear();
        let mut groups = Vec::new();
        sight.groups(&mut |group| groups.push(group));
        for group in groups {
            self.fall_behind(group, sight);
        }
    }

    /// The client has stopped the push stream: nothing is pushed until it subscribes again. As nobody knows what of the
    /// stream it has read, what was handed begins again at the durable cursors.
    pub fn stop(&mut self) {
        self.wanted = None;
        self.credit = Credit::new();
        self.behind.clear();
        self.heads.clear();
        self.groups.clear();
        self.fetching = 0;
    }

    /// Items of a group were committed, in order and without a hole; the committed view has them.
    pub fn offer(
        &mut self,
        group: GroupId,
        items: &[Offered],
        moment: Moment,
        sight: &impl Sight,
        effects: &mut Vec<Effect>,
    ) {
        if self.wanted.is_none() {
            return;
        }
        let is_fetching = self.state(group, sight).is_some_and(|state| state.fetching > 0);
        if is_fetching || !self.is_wanted(group) {
            self.fall_behind(group, sight);
        } else {
            self.push(group, items, moment, sight, effects);
        }
    }

    /// Rows were read for a push, as [`Effect::Fetch`] asked.
    pub fn fetched(&mut self, fetched: &Fetched<'_>, moment: Moment, sight: &impl Sight, effects: &mut Vec<Effect>) {
        let group = fetched.group;
        let is_wanted = self.is_wanted(group);
        self.fetch_ended(group);
        let Some(state) = self.state(group, sight) else { return };
        let before = state.handed;
        if !is_wanted || state.pages > 0 {
            return;
        }
        if before != fetched.after || sight.is_gone(group, before) {
            self.catch_up(group, sight, effects);
            return;
        }
        self.push(group, fetched.rows, moment, sight, effects);
        let head = sight.head(group);
        let Some(state) = self.state(group, sight) else { return };
        let is_all_pushed = fetched.rows.last().is_none_or(|last| state.handed >= last.msgid);
        if is_all_pushed {
            state.handed = state.handed.max(fetched.covered_to.min(head));
        }
        if is_all_pushed && state.handed > before {
            self.catch_up(group, sight, effects);
        } else {
            self.fall_behind(group, sight);
        }
    }

    /// The rows could not be read now: the client is told the head and pulls.
    pub fn fetch_failed(&mut self, group: GroupId, sight: &impl Sight) {
        self.fetch_ended(group);
        self.fall_behind(group, sight);
    }

    fn fetch_ended(&mut self, group: GroupId) {
        if let Some(state) = self.groups.get_mut(&group) {
            self.fetching -= std::mem::take(&mut state.fetching);
        }
    }

    /// Acks came. They are clamped to what was handed; the result goes to the writer as it is, groups that the user may
    /// not know of too, which it refuses.
    #[must_use]
    pub fn ack(
        &mut self,
        entries: &[(GroupId, MessageId)],
        moment: Moment,
        sight: &impl Sight,
        effects: &mut Vec<Effect>,
    ) -> Vec<(GroupId, MessageId)> {
        let mut acked = BTreeMap::new();
        for (group, msgid) in entries.iter().copied() {
            let state = self.state(group, sight);
            let handed = state.as_ref().map_or(MessageId::ZERO, |state| state.handed);
            let at_most = if proof::is(Wrong::AckBeyondHanded) { msgid } else { handed };
            let msgid = msgid.min(at_most);
            if let Some(state) = state {
                state.acked = state.acked.max(msgid);
            }
            let highest: &mut MessageId = acked.entry(group).or_default();
            *highest = msgid.max(*highest);
        }
        self.credit.acked(&acked, moment);
        self.catch_up_all(sight, effects);
        acked.into_iter().collect()
    }

    /// The durable cursor of a group rose, by whatever way. Says whether the client must be told: an ack of this
    /// connection is answered, and of nothing else does it know.
    #[must_use]
    pub fn cursor_rose(&mut self, group: GroupId, to: MessageId) -> bool {
        self.credit.release(&BTreeMap::from([(group, to)]));
        let Some(state) = self.groups.get_mut(&group) else { return true };
        state.handed = state.handed.max(to);
        to > state.acked
    }

    /// Time passes: credit falls back where acks are overdue.
    pub fn tick(&mut self, moment: Moment) {
        self.credit.watch(moment);
    }

    /// When [`Listener::tick`] has something to do.
    #[must_use]
    pub fn stalls_at_ms(&self, rtt_ms: u64) -> Option<u64> {
        self.credit.stalls_at_ms(rtt_ms)
    }

    /// The credit in force, which every push carries.
    #[must_use]
    pub fn credit(&self) -> Amount {
        self.credit.in_force()
    }

    /// Heads to tell, each once; what was handed meanwhile is left out.
    pub fn take_heads(&mut self) -> Vec<(GroupId, MessageId)> {
        let mut heads = Vec::new();
        for (group, head) in std::mem::take(&mut self.heads) {
            let Some(state) = self.groups.get_mut(&group) else { continue };
            if head > state.handed.max(state.told) {
                state.told = head;
                heads.push((group, head));
            }
        }
        heads
    }

    /// What was handed of a group on this connection.
    #[must_use]
    pub fn handed(&self, group: GroupId) -> Option<MessageId> {
        self.groups.get(&group).map(|state| state.handed)
    }

    // ---- how it decides -----------------------------------------------------------------------------------------------

    /// Pushes what continues `handed`, as far as the credit reaches, and falls behind with the rest.
    fn push(
        &mut self,
        group: GroupId,
        items: &[Offered],
        moment: Moment,
        sight: &impl Sight,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut handed) = self.state(group, sight).map(|state| state.handed) else { return };
        let Some(last) = items.last() else { return };
        if sight.is_gone(group, handed) {
            return self.fall_behind(group, sight);
        }
        let mut complete = true;
        while let Some(span) = sight.next_span(group, handed) {
            if span.first > last.msgid {
                break;
            }
            let from = items.partition_point(|item| item.msgid < span.first);
            let until = items.partition_point(|item| item.msgid <= span.last);
            let run = items.get(from..until).unwrap_or_default();
            let continues = run.first().is_some_and(|item| item.msgid == span.first || proof::is(Wrong::PushWithGap));
            let pushed = if continues { self.spend(group, run, moment) } else { None };
            let Some(end) = pushed else {
                complete = false;
                break;
            };
            let covered_to = if end < span.last { end } else { cover(group, end, sight) };
            effects.push(Effect::Push(Push { group, continues: handed, first: span.first, last: end, covered_to }));
            handed = covered_to;
            if run.last().is_some_and(|item| end < item.msgid) {
                complete = false;
                break;
            }
        }
        if let Some(state) = self.state(group, sight) {
            state.handed = state.handed.max(handed);
        }
        if !complete {
            self.fall_behind(group, sight);
        }
    }

    /// Spends credit on a run of items; says which was the last that it sufficed for.
    fn spend(&mut self, group: GroupId, run: &[Offered], moment: Moment) -> Option<MessageId> {
        let mut end = None;
        for item in run {
            if !self.credit.spend(group, item.msgid, item.bytes, moment) {
                break;
            }
            end = Some(item.msgid);
        }
        end
    }

    /// Something visible was committed that is not pushed now. While a page or a fetch is under way, its end takes care
    /// of that; else the head is told.
    fn fall_behind(&mut self, group: GroupId, sight: &impl Sight) {
        let is_wanted = self.is_wanted(group);
        let Some(state) = self.state(group, sight) else { return };
        let (head, is_moving) = (sight.head(group), state.pages > 0 || state.fetching > 0);
        if head <= state.handed {
            self.behind.remove(&group);
            return;
        }
        let is_news = head > state.told;
        if is_wanted {
            self.behind.insert(group);
        }
        if is_news && !(is_wanted && is_moving) && self.wanted.is_some() {
            self.heads.insert(group, head);
        }
    }

    /// Fetches a small gap where there is credit for it beside the fetches under way, else tells the head. What retention
    /// has removed of the gap is named by a page, never passed over.
    fn catch_up(&mut self, group: GroupId, sight: &impl Sight, effects: &mut Vec<Effect>) {
        self.fall_behind(group, sight);
        if !self.behind.contains(&group) || !self.may_fetch() {
            return;
        }
        let most = self.credit.left();
        let Some(state) = self.state(group, sight) else { return };
        let gap = sight.head(group).value().saturating_sub(state.handed.value());
        if sight.is_gone(group, state.handed) {
            return;
        }
        if state.pages == 0 && state.fetching == 0 && gap <= NEAR_HEAD_ITEMS {
            state.fetching = u32::try_from(gap).unwrap_or(u32::MAX).max(1);
            let (after, fetching) = (state.handed, state.fetching);
            self.fetching += fetching;
            effects.push(Effect::Fetch { group, after, most });
            self.heads.remove(&group);
        }
    }

    /// Whether the credit is more than what is being read for it already: else one ack would have every group behind
    /// read, and most of it for nothing.
    fn may_fetch(&self) -> bool {
        !self.credit.is_spent() && self.fetching < self.credit.left().items
    }

    fn catch_up_all(&mut self, sight: &impl Sight, effects: &mut Vec<Effect>) {
        for group in self.behind.clone() {
            self.catch_up(group, sight, effects);
        }
    }

    fn is_wanted(&self, group: GroupId) -> bool {
        match &self.wanted {
            None => false,
            Some(Wanted::All) => true,
            Some(Wanted::Groups(groups)) => groups.contains(&group),
        }
    }

    /// Where a group stands; made at first sight, from the durable cursor. None where the user may not know of it.
    fn state(&mut self, group: GroupId, sight: &impl Sight) -> Option<&mut Handed> {
        match self.groups.entry(group) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => {
                let handed = sight.cursor(group)?;
                Some(new.insert(Handed {
                    handed,
                    told: MessageId::ZERO,
                    acked: MessageId::ZERO,
                    pages: 0,
                    fetching: 0,
                }))
            }
        }
    }
}

/// How far what was given up to a msgid reaches: to just before the next visible item, at most to the head.
fn cover(group: GroupId, given: MessageId, sight: &impl Sight) -> MessageId {
    let end = sight.next_span(group, given).map_or_else(|| sight.head(group), |span| span.first.previous());
    end.max(given)
}

#[cfg(test)]
mod tests;
