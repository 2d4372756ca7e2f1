//! The listening half of the engine: inbox, its file, and the queue to the application.
//!
//! What comes from the network is put in order by [`Inbox`], stored and synced, and only then handed to the application,
//! as far as its queue has room. What waits for its ack is bounded: beyond that nothing more is pulled, and without acks
//! the server pushes nothing more.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, watch};

use crate::client::error::ProfileError;
use crate::client::event::{Event, Received, Subscription};
use crate::client::files::Files;
use crate::client::inbox_file::{self, InboxFile, Stored};
use crate::client::types::{Content, History, Item, Position, Role};
use crate::core::inbox::{Batch, Delivery, Inbox, PageEnd, Pull, Row};
use crate::disk::Lock;
use crate::ids::{GroupId, MessageId, Tag, UserId};
use crate::limits::{INBOX_WAITING_BYTES_MAX, INBOX_WAITING_ITEMS_MAX, LISTENER_NOTICES_MAX};
use crate::wire::frame::{Ack, Extensions, GroupList, Push, Subscribe};
use crate::wire::item::{self, SystemBody as _, kind};
use crate::wire::said::{self, extension};
use crate::wire::{WireError, row};

/// One's own items among what came: (group, tag, msgid, time).
pub(super) type OwnItems = Vec<(GroupId, Tag, MessageId, u64)>;

/// See the module.
pub(super) struct Receiving {
    files: Files,
    inbox: Inbox,
    /// None only while a thread works on it, or after that thread failed.
    file: Option<Box<InboxFile>>,
    name: u64,
    _lock: Box<dyn Lock>,
    subscription: Subscription,
    me: UserId,
    events: mpsc::Sender<Event>,
    acks: watch::Receiver<u64>,
    notices: VecDeque<Event>,
    heads: BTreeMap<GroupId, MessageId>,
    /// Given to the application by this process up to here.
    given: u64,
    /// The application took everything up to here out of the queue of events.
    taken: Arc<AtomicU64>,
    /// Given to the application by an earlier process up to here.
    seen_before: u64,
    waiting: (usize, usize),
    last_stored: u64,
    /// Groups that moved since the file was written.
    moved: BTreeSet<GroupId>,
}

/// What a listener begins with.
pub(super) struct Begin {
    pub(super) files: Files,
    pub(super) file: InboxFile,
    pub(super) lock: Box<dyn Lock>,
    pub(super) subscription: Subscription,
    pub(super) me: UserId,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) acks: watch::Receiver<u64>,
    /// The application took everything up to here out of the queue of events.
    pub(super) taken: Arc<AtomicU64>,
    /// The application has everything up to here.
    pub(super) from: Option<u64>,
    pub(super) lost: bool,
}

impl Receiving {
    pub(super) fn new(begin: Begin) -> Result<Receiving, ProfileError> {
        let Begin { files, mut file, lock, subscription, me, events, acks, taken, from, lost } = begin;
        // An earlier process may have given out more; what lies above the application's own position it has not kept.
        let seen_before = if from.is_some() { 0 } else { file.handed() };
        file.ack(from.unwrap_or(0))?;
        let wanted = match &subscription {
            Subscription::All => None,
            Subscription::Groups(groups) => Some(groups.clone()),
        };
        let inbox = Inbox::new(file.kept(), wanted);
        let mut notices = VecDeque::new();
        if lost {
            notices.push_back(Event::InboxLost);
        }
        Ok(Receiving {
            files,
            inbox,
            name: file.name(),
            waiting: file.waiting(),
            given: file.acked(),
            taken,
            last_stored: file.last(),
            file: Some(Box::new(file)),
            _lock: lock,
            subscription,
            me,
            events,
            acks,
            notices,
            heads: BTreeMap::new(),
            seen_before,
            moved: BTreeSet::new(),
        })
    }

    // ---- the connection ---------------------------------------------------------------------------------------------

    /// A connection is about to be tried: what leaves together with Hello.
    pub(super) fn first_flight(&mut self) -> (Subscribe, Vec<Pull>) {
        self.inbox.connected();
        let extensions = Extensions::default();
        let subscribe = match &self.subscription {
            Subscription::All => Subscribe { all: true, groups: Vec::new(), extensions },
            Subscription::Groups(groups) => Subscribe { all: false, groups: groups.clone(), extensions },
        };
        (subscribe, self.inbox.first_pulls())
    }

    /// The credit that the server starts with.
    pub(super) fn credit(&mut self, items: u32, bytes: u32) {
        self.inbox.credit(items, bytes);
    }

    /// A part of the list of groups came.
    pub(super) fn listed(&mut self, list: &GroupList, now_ms: u64) {
        for group in &list.rows.0 {
            self.inbox.listed(group.gid, group.cursor, group.head, now_ms);
            self.moved.insert(group.gid);
        }
    }

    /// The group above which to list because a cursor is wanted.
    pub(super) fn wants_list(&self) -> Option<GroupId> {
        self.inbox.wants_list().map(GroupId::previous)
    }

    /// The next page to ask for, unless too much waits for the application.
    pub(super) fn next_pull(&mut self, now_ms: u64) -> Option<Pull> {
        let (items, bytes) = self.waiting;
        let full = items >= INBOX_WAITING_ITEMS_MAX || bytes >= INBOX_WAITING_BYTES_MAX;
        if full { None } else { self.inbox.next_pull(now_ms) }
    }

    /// Rows of a page came. Answers one's own items among them.
    pub(super) fn rows(&mut self, group: GroupId, rows: Bytes, now_ms: u64) -> Result<OwnItems, WireError> {
        let (rows, own) = self.read(group, rows)?;
        self.moved.insert(group);
        self.inbox.rows(group, rows, now_ms);
        Ok(own)
    }

    pub(super) fn page_ended(&mut self, group: GroupId, end: PageEnd, now_ms: u64) {
        self.moved.insert(group);
        self.inbox.page_end(group, end, now_ms);
    }

    pub(super) fn page_failed(&mut self, group: GroupId, for_good: bool, after_ms: u64, now_ms: u64) {
        self.inbox.page_failed(group, for_good, after_ms, now_ms);
    }

    /// Items were pushed. Answers one's own among them.
    pub(super) fn push(&mut self, push: Push, now_ms: u64) -> Result<OwnItems, WireError> {
        self.inbox.credit(push.credit_items, push.credit_bytes);
        let mut all_own = Vec::new();
        for batch in push.batches {
            let (rows, own) = self.read(batch.gid, batch.rows)?;
            all_own.extend(own);
            self.moved.insert(batch.gid);
            let taken = Batch { continues: batch.continues, covered_to: batch.covered_to, rows };
            self.inbox.push(batch.gid, taken, now_ms);
        }
        Ok(all_own)
    }

    fn read(&self, group: GroupId, bytes: Bytes) -> Result<(Vec<Row>, OwnItems), WireError> {
        let mut rows = Vec::new();
        let mut own = Vec::new();
        for row in row::rows(bytes) {
            let row = row?;
            let item = row.decode_item()?;
            if item.gid != group {
                return Err(WireError::BadRows);
            }
            if item.author == self.me && item.tag != Tag::NONE {
                own.push((group, item.tag, item.msgid, item.time_ms));
            }
            let mut bytes = BytesMut::new();
            row.append_to(&mut bytes)?;
            rows.push(Row { msgid: item.msgid, bytes: bytes.freeze() });
        }
        Ok((rows, own))
    }

    /// Heads were told.
    pub(super) fn heads(&mut self, entries: &[(GroupId, MessageId)]) {
        for (group, head) in entries {
            self.inbox.head(*group, *head);
            let wanted = match &self.subscription {
                Subscription::All => true,
                Subscription::Groups(groups) => groups.contains(group),
            };
            if !wanted {
                self.heads.insert(*group, *head);
            }
        }
    }

    /// Durable cursors were answered.
    pub(super) fn cursors(&mut self, entries: &[(GroupId, MessageId)]) {
        for (group, cursor) in entries {
            self.inbox.cursor(*group, *cursor);
        }
    }

    pub(super) fn ack_refused(&mut self, group: GroupId) {
        self.inbox.ack_refused(group);
    }

    // ---- the application --------------------------------------------------------------------------------------------

    /// Tells the application something. What it does not take is kept up to a bound, the oldest goes first.
    pub(super) fn notify(&mut self, event: Event) {
        if self.notices.len() >= LISTENER_NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(event);
    }

    /// Tells the application something that may be lost, unless it is slow: then that must not push out what may not.
    pub(super) fn mention(&mut self, event: Event) {
        if self.notices.len() < LISTENER_NOTICES_MAX / 2 {
            self.notices.push_back(event);
        }
    }

    /// Whether something waits for room in the application's queue.
    pub(super) fn has_backlog(&self) -> bool {
        !self.notices.is_empty() || !self.heads.is_empty() || (self.file.is_some() && self.given < self.last_stored)
    }

    /// The application's queue, to wait for room in it.
    pub(super) fn queue(&self) -> mpsc::Sender<Event> {
        self.events.clone()
    }

    /// The application's acks, to wait for them.
    pub(super) fn acks(&self) -> watch::Receiver<u64> {
        self.acks.clone()
    }

    /// What is recalled by that which is stored next.
    pub(super) fn recalled(&self) -> Vec<(GroupId, MessageId)> {
        self.inbox.next_deliveries().filter_map(inbox_file::recalled_by).collect()
    }

    /// Stores what came, takes in what the application acknowledged, and hands on what it has room for.
    pub(super) async fn settle(&mut self, now_ms: u64) -> Result<(), ProfileError> {
        let deliveries = self.inbox.deliveries();
        let mut room = self.events.capacity();
        while room > 0
            && let Some(event) = self.notices.pop_front().or_else(|| self.next_head())
        {
            self.give(event);
            room -= 1;
        }
        // Also where nothing can be done with it: what is not taken in would be told again at once, for ever.
        let acked = *self.acks.borrow_and_update();
        if self.file.is_none() {
            return Ok(());
        }
        let given = self.given.max(acked);
        let idle = deliveries.is_empty() && acked <= self.acked_before() && (given >= self.last_stored || room == 0);
        if idle {
            return Ok(());
        }
        let moved = if deliveries.is_empty() { BTreeSet::new() } else { std::mem::take(&mut self.moved) };
        let groups: Vec<_> = moved.iter().filter_map(|group| Some((*group, self.inbox.kept(*group)?))).collect();
        let gone = || ProfileError::Disk("the inbox is not usable after an earlier failure".to_owned());
        let mut file = self.file.take().ok_or_else(gone)?;
        let work = self.files.work(move || {
            let done = step(&mut file, deliveries, &groups, acked, given, room);
            (file, done)
        });
        let (file, done) = work.await.ok_or_else(gone)?;
        // What could not be stored is lost to this process: it ends, and the next one begins from the file.
        let (passed, handed) = done?;
        self.waiting = file.waiting();
        self.last_stored = file.last();
        self.file = Some(file);
        self.given = given;
        for group in passed {
            self.inbox.acked(group.group, group.msgid, group.items, group.bytes, now_ms);
        }
        for stored in handed {
            self.given = stored.number;
            let event = self.event(&stored)?;
            self.give(event);
        }
        Ok(())
    }

    /// An orderly end: what is still in the queue of events was never seen.
    pub(super) async fn end(&mut self) {
        let Some(mut file) = self.file.take() else { return };
        let (taken, given) = (self.taken.load(Ordering::Relaxed).max(self.seen_before), self.given);
        if taken < given {
            // Where this cannot be noted, what was never seen says that it may have been.
            drop(self.files.work(move || file.take_back(taken)).await);
        }
    }

    fn acked_before(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.acked())
    }

    fn next_head(&mut self) -> Option<Event> {
        self.heads.pop_first().map(|(group, head)| Event::Head { group, head })
    }

    fn give(&mut self, event: Event) {
        // There was room when this was decided, and nobody else fills it; who does not listen any more needs nothing.
        drop(self.events.try_send(event));
    }

    fn event(&self, stored: &Stored) -> Result<Event, ProfileError> {
        let position = Position { inbox: self.name, number: stored.number };
        let seen_before = stored.number <= self.seen_before;
        Ok(match &stored.what {
            Delivery::Gone(group, first, last) => {
                Event::Gone { position, seen_before, group: *group, first: *first, last: *last }
            }
            Delivery::Item(_, row) => {
                let item = read_row(&row.bytes)
                    .map_err(|error| ProfileError::Damaged { file: "the inbox".to_owned(), what: error.to_string() })?;
                Event::Item(Received { position, seen_before, item })
            }
        })
    }

    /// Acks to send now.
    pub(super) fn due_acks(&mut self, now_ms: u64) -> Option<Ack> {
        self.inbox.tick(now_ms);
        frame_of(self.inbox.due_acks(now_ms))
    }

    /// Acks that can be sent, due or not.
    pub(super) fn all_acks(&mut self, now_ms: u64) -> Option<Ack> {
        frame_of(self.inbox.all_acks(now_ms))
    }

    /// Whether the server owes an answer to acks.
    pub(super) fn expects_answer(&self) -> bool {
        self.inbox.expects_answer()
    }

    /// Whether acks wait until the connection has handed out what they are of.
    pub(super) fn holds_acks_back(&self) -> bool {
        self.inbox.holds_acks_back()
    }

    /// When to come back although nothing happened, for what was not due yet at this time.
    pub(super) fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        self.inbox.wakes_at(now_ms)
    }
}

#[cfg(feature = "proof")]
impl Receiving {
    /// Where each group stands.
    pub(super) fn kept(&self) -> impl Iterator<Item = (GroupId, crate::core::inbox::Kept)> {
        self.inbox.all_kept()
    }
}

type Done = (Vec<crate::client::inbox_file::AckedGroup>, Vec<Stored>);

fn step(
    file: &mut InboxFile,
    deliveries: Vec<Delivery>,
    groups: &[(GroupId, crate::core::inbox::Kept)],
    acked: u64,
    given: u64,
    room: usize,
) -> Result<Done, ProfileError> {
    let stores = !deliveries.is_empty();
    if stores {
        file.store(deliveries, groups)?;
    }
    let passed = file.ack(acked)?;
    let handed: Vec<_> = file.after(given).take(room).cloned().collect();
    if let Some(last) = handed.last() {
        file.hand(last.number)?;
    }
    if stores || !handed.is_empty() {
        file.sync()?;
    }
    Ok((passed, handed))
}

fn frame_of(entries: Vec<(GroupId, MessageId)>) -> Option<Ack> {
    (!entries.is_empty()).then(|| Ack { entries, extensions: Extensions::default() })
}

fn read_row(bytes: &Bytes) -> Result<Item, WireError> {
    let row = row::rows(bytes.clone()).next().ok_or(WireError::BadRows)??;
    read_item(&row)
}

/// A row as an application sees it.
pub(super) fn read_item(row: &row::Row) -> Result<Item, WireError> {
    let item = row.decode_item()?;
    let content = content(&item);
    let item::Item { gid, msgid, kind, author, time_ms, body, extensions, .. } = item;
    // What else stands in extensions that are not as they should be is not for this version.
    let reply_to = said::msgid_in(&extensions, extension::REPLY_TO).ok().flatten();
    let mentions = said::mentions_in(&extensions).unwrap_or_default();
    let (edited_by, content) = (row.edited_by, content.unwrap_or(Content::Unsupported(body)));
    Ok(Item { group: gid, msgid, kind, author, time_ms, edited_by, reply_to, mentions, content })
}

fn content(item: &item::Item) -> Option<Content> {
    let body = &item.body;
    let text = || String::from_utf8(body.to_vec()).ok();
    Some(match item.kind {
        kind::TEXT | kind::EDIT if item.is_recalled() => Content::Recalled { edit: item.kind == kind::EDIT },
        kind::TEXT => Content::Text(text()?),
        kind::EDIT => Content::Edit { target: item.target()?, text: text()? },
        kind::RECALL => Content::Recall(item.target()?),
        kind::REACTION => {
            let removed = item.extensions.0.iter().any(|(number, _)| *number == extension::REMOVES);
            Content::Reaction { target: item.target()?, reaction: text()?, removed }
        }
        kind::CREATED => Content::Created(item::Created::decode(body).ok()?.name),
        kind::JOINED => Content::Joined(item::Joined::decode(body).ok()?.user),
        kind::LEFT => Content::Left(item::Left::decode(body).ok()?.user),
        kind::REMOVED => Content::Removed(item::Left::decode(body).ok()?.user),
        kind::RENAMED => Content::Renamed(item::Renamed::decode(body).ok()?.name),
        kind::ROLE_CHANGED => {
            let item::RoleChanged { user, role, extensions: _ } = item::RoleChanged::decode(body).ok()?;
            Content::RoleChanged(user, Role::from_number(role))
        }
        kind::TOPIC => Content::Topic(item::Topic::decode(body).ok()?.topic),
        kind::POLICY_CHANGED => {
            Content::PolicyChanged(History::from_number(item::PolicyChanged::decode(body).ok()?.policy)?)
        }
        kind::MUTED => match item::Muted::decode(body).ok()? {
            item::Muted { user, muted: true, .. } => Content::Muted(user),
            item::Muted { user, muted: false, .. } => Content::Unmuted(user),
        },
        kind::BAN_LIFTED => Content::BanLifted(item::BanLifted::decode(body).ok()?.user),
        kind::HIDDEN => Content::Hidden,
        _ => return None,
    })
}
