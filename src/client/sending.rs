//! The sending half of the engine: the outbox file, the drain lock, and who waits for which outcome.
//!
//! Whoever holds the drain lock sends for all processes of the profile; the others write entries into the file and read
//! their outcomes from it. The lock is let go when there has been no connection for a while.

#[cfg(test)]
mod tests;
mod waits;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::client::answer::{outcome, read_answer};
use crate::client::error::{ConnectError, OutboxError, ProfileError};
use crate::client::event::Event;
use crate::client::files::Files;
use crate::client::net::Line;
use crate::client::outbox_file::OutboxFile;
use crate::client::types::Outcome;
use crate::clock;
use crate::core::outbox::{Answer, Change, Drain, Entry, Outbox};
use crate::disk::{Lock, SharedDisk};
use crate::ids::{ClientSeq, Epoch, GroupId, MessageId, Tag};
use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_ENTRIES_MAX};
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Extensions, Welcome};

const DRAIN_LOCK: &str = "drain.lock";
/// Without a connection for so long the drain lock is left to others, in ms.
const LOCK_KEPT_MS: u64 = 2_000;
/// Pause after the outbox file could not be written, in ms.
const FILE_PAUSE_MS: u64 = 1_000;

/// How often the file is looked at for other processes that are at work, in ms.
const POLL_MS: u64 = 20;
/// How often it is looked at for what a process that sent left behind, in ms.
const POLL_STANDBY_MS: u64 = 200;
/// For so long another process counts as at work after it showed up, in ms.
const OTHERS_BUSY_MS: u64 = 2_000;

/// A message to be put into the outbox.
pub(super) struct Queue {
    pub(super) group: GroupId,
    pub(super) tag: Tag,
    pub(super) payload: Bytes,
    pub(super) reply: oneshot::Sender<Result<ClientSeq, OutboxError>>,
}

type OutcomeReply = oneshot::Sender<Result<Outcome, OutboxError>>;

/// What a step works on.
struct Kept {
    file: OutboxFile,
    drain: Drain,
}

/// See the module.
pub(super) struct Sending {
    files: Files,
    disk: SharedDisk,
    folder: PathBuf,
    epoch: Epoch,
    /// None only while a thread works on it, or after that thread failed.
    kept: Option<Box<Kept>>,
    lock: Option<Box<dyn Lock>>,
    /// What the last Welcome said, until it is taken in by the holder of the lock.
    welcome: Option<(ClientSeq, u32, u32)>,
    connected: bool,
    /// Since when connecting fails; none while there is a connection, or none was tried.
    alone_since: Option<u64>,
    /// When another process of the profile last showed up here.
    others_at: Option<u64>,
    ended: Option<ConnectError>,
    /// Answers were written and not synced, or what could not be made durable.
    unsynced: bool,
    not_before: u64,
    waiters: Vec<(ClientSeq, OutcomeReply)>,
    drained: Vec<oneshot::Sender<()>>,
    /// What a listener is told.
    pub(super) notices: VecDeque<Event>,
}

impl Sending {
    pub(super) fn new(files: Files, disk: SharedDisk, folder: PathBuf, epoch: Epoch) -> Sending {
        let file = OutboxFile::new(disk.clone(), &folder);
        Sending {
            files,
            disk,
            folder,
            epoch,
            kept: Some(Box::new(Kept { file, drain: Drain::default() })),
            lock: None,
            welcome: None,
            connected: false,
            alone_since: None,
            others_at: None,
            ended: None,
            unsynced: false,
            not_before: 0,
            waiters: Vec::new(),
            drained: Vec::new(),
            notices: VecDeque::new(),
        }
    }

    /// What is known of the outbox; none after a failure of the thread that worked on it.
    pub(super) fn outbox(&self) -> Option<&Outbox> {
        self.kept.as_ref().map(|kept| kept.file.outbox())
    }

    /// Works on the file where one may wait for the disk.
    async fn with_file<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Kept) -> T + Send + 'static,
    ) -> Result<T, ProfileError> {
        let gone = || ProfileError::Disk("the outbox is not usable after an earlier failure".to_owned());
        let mut kept = self.kept.take().ok_or_else(gone)?;
        let done = self.files.work(move || {
            let result = work(&mut kept);
            (kept, result)
        });
        let (kept, result) = done.await.ok_or_else(gone)?;
        self.kept = Some(kept);
        Ok(result)
    }

    /// One step on the file, under its lock; takes in what it and others changed, and answers the former.
    async fn step<E: From<ProfileError> + Send + 'static>(
        &mut self,
        synced: bool,
        decide: impl FnOnce(&mut Drain, &Outbox) -> Result<Vec<Change>, E> + Send + 'static,
    ) -> Result<Vec<Change>, E> {
        let work = move |kept: &mut Kept| {
            let drain = &mut kept.drain;
            kept.file.step(synced, |outbox| decide(drain, outbox))
        };
        // Where this fails, what it wrote may be read again, and is not durable.
        let was_unsynced = std::mem::replace(&mut self.unsynced, true);
        let (others, own) = self.with_file(work).await??;
        self.note_others(&others);
        self.unsynced = !synced && (was_unsynced || !own.is_empty());
        self.tell(&others);
        self.tell(&own);
        Ok(own)
    }

    /// These were recalled: what has ended of them leaves the file, whichever process sent it.
    pub(super) async fn forget(&mut self, recalled: Vec<(GroupId, MessageId)>) -> Result<(), ProfileError> {
        // Where this fails, what it wrote may be read again, and is not durable.
        let was_unsynced = std::mem::replace(&mut self.unsynced, true);
        let others = self.with_file(move |kept| kept.file.forget(&recalled)).await??;
        self.unsynced = was_unsynced;
        self.note_others(&others);
        self.tell(&others);
        Ok(())
    }

    async fn refresh(&mut self) -> Result<(), ProfileError> {
        let changes = self.with_file(|kept| kept.file.refresh()).await??;
        self.note_others(&changes);
        self.tell(&changes);
        Ok(())
    }

    fn note_others(&mut self, changes: &[Change]) {
        if !changes.is_empty() {
            self.others_at = Some(clock::monotonic_ms());
        }
    }

    fn tell(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Settled(seq, settled) => {
                    // Told now: behind many others it may be forgotten already.
                    self.answer(*seq, &outcome(settled));
                    self.notices.push_back(Event::Settled { seq: *seq, outcome: outcome(settled) });
                }
                Change::Renumbered(numbers) => numbers.iter().for_each(|(from, to)| self.renumbered(*from, *to)),
                Change::Added(..)
                | Change::Attempted(_)
                | Change::Highest(_)
                | Change::Ended(..)
                | Change::Moved { .. } => {}
            }
        }
        if !changes.is_empty() {
            self.answer_waiters();
        }
    }

    fn renumbered(&mut self, from: ClientSeq, to: ClientSeq) {
        self.waiters.iter_mut().filter(|(seq, _)| *seq == from).for_each(|(seq, _)| *seq = to);
        self.notices.push_back(Event::Renumbered { from, to });
    }

    /// Takes in what other processes wrote, and the drain lock where it is wanted and free.
    pub(super) async fn poll(&mut self, now_ms: u64) -> Result<(), ProfileError> {
        self.refresh().await?;
        self.waiters.retain(|(_, reply)| !reply.is_closed());
        self.drained.retain(|reply| !reply.is_closed());
        self.take_lock(now_ms).await?;
        if self.lock.is_some() && now_ms >= self.not_before { self.take_in_welcome(now_ms).await } else { Ok(()) }
    }

    /// How often other processes must be looked after, in ms: those one waits for, and those that are at work, more
    /// often than those one only might have to send for (`idle_ms`). None where neither is so.
    pub(super) fn watches_others(&self, now_ms: u64, idle_ms: u64) -> Option<u64> {
        let waits = self.lock.is_none() && (!self.waiters.is_empty() || !self.drained.is_empty() || self.has_work());
        let lately = self.others_at.is_some_and(|at| now_ms < at.saturating_add(OTHERS_BUSY_MS));
        // Who has no connection may have to let the lock go.
        let busy = self.lock.is_some() && (lately || self.alone_since.is_some());
        match &self.lock {
            _ if waits || busy => Some(POLL_MS),
            Some(_) => Some(idle_ms),
            // Whoever sends now may end and leave something behind.
            None => self.connected.then_some(POLL_STANDBY_MS),
        }
    }

    /// Whether anything waits to be sent.
    pub(super) fn has_work(&self) -> bool {
        self.outbox().is_some_and(|outbox| outbox.count() > 0)
    }

    /// Whether this process sends for the profile.
    pub(super) const fn drains(&self) -> bool {
        self.lock.is_some()
    }

    async fn take_lock(&mut self, now_ms: u64) -> Result<(), ProfileError> {
        let fresh = self.alone_since.is_none_or(|since| now_ms < since + LOCK_KEPT_MS);
        if !fresh {
            self.lock = None;
        } else if self.lock.is_none() && (self.connected || self.has_work()) {
            self.disk.create_folder(&self.folder)?;
            self.lock = self.disk.lock(&self.folder.join(DRAIN_LOCK))?;
            if self.lock.is_some() {
                // What an earlier holder wrote last may not be synced.
                self.unsynced = true;
            }
        }
        Ok(())
    }

    /// When the drain lock has to be let go for want of a connection, or something is to be sent that was not due yet
    /// at this time.
    pub(super) fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        let lock = self.alone_since.filter(|_| self.lock.is_some()).map(|since| since + LOCK_KEPT_MS);
        let kept = self.kept.as_ref().filter(|_| self.lock.is_some());
        let send = kept.and_then(|kept| kept.drain.wakes_at(kept.file.outbox(), now_ms));
        [lock, send].into_iter().flatten().min()
    }

    // ---- the connection ---------------------------------------------------------------------------------------------

    /// A connection was accepted.
    pub(super) async fn connected(&mut self, welcome: &Welcome, now_ms: u64) -> Result<(), ProfileError> {
        self.alone_since = None;
        self.connected = true;
        self.welcome = Some((welcome.highest_send, welcome.sends_unanswered_max, welcome.sends_unanswered_bytes_max));
        if self.lock.is_some() { self.take_in_welcome(now_ms).await } else { self.poll(now_ms).await }
    }

    /// Nothing is sent before this was written down; where it could not be, it is tried again.
    async fn take_in_welcome(&mut self, now_ms: u64) -> Result<(), ProfileError> {
        let Some((highest, items, bytes)) = self.welcome else { return Ok(()) };
        let taken =
            self.step::<ProfileError>(true, move |drain, outbox| Ok(drain.welcome(outbox, highest, items, bytes)));
        if let Err(error) = taken.await {
            self.not_before = now_ms + FILE_PAUSE_MS;
            return Err(error);
        }
        self.welcome = None;
        Ok(())
    }

    /// The connection is gone.
    pub(super) fn lost(&mut self, now_ms: u64) {
        if let Some(kept) = &mut self.kept {
            kept.drain.lost();
        }
        self.welcome = None;
        self.connected = false;
        self.alone_since.get_or_insert(now_ms);
    }

    /// It is over for good: others may send, and nobody here learns more.
    pub(super) fn end(&mut self, error: &ConnectError) {
        self.lock = None;
        self.connected = false;
        self.ended = Some(error.clone());
        // Who waited may be gone.
        self.waiters.drain(..).for_each(|(_, reply)| drop(reply.send(Err(OutboxError::Ended(error.clone())))));
        self.drained.clear();
    }

    // ---- sending ----------------------------------------------------------------------------------------------------

    /// Puts these into the outbox with one sync. What can be sent at once is marked as attempted by the same.
    pub(super) async fn queue(&mut self, batch: Vec<Queue>, now_ms: u64) {
        if let Some(error) = &self.ended {
            let refused = || Err(OutboxError::Ended(error.clone()));
            // Who asked may be gone.
            return batch.into_iter().for_each(|queue| drop(queue.reply.send(refused())));
        }
        let (entries, replies): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|queue| {
                let Queue { group, tag, payload, reply } = queue;
                (Entry { group, tag, epoch: self.epoch, payload, attempted: false }, reply)
            })
            .unzip();
        let sends = self.connected && self.lock.is_some() && self.welcome.is_none();
        let added = self.step(true, move |drain, outbox| add(outbox, entries, sends.then_some(&*drain), now_ms)).await;
        match added {
            Ok(changes) => {
                let seqs = changes.iter().filter_map(|change| match change {
                    Change::Added(seq, _) => Some(*seq),
                    Change::Attempted(_)
                    | Change::Settled(..)
                    | Change::Renumbered(_)
                    | Change::Highest(_)
                    | Change::Ended(..)
                    | Change::Moved { .. } => None,
                });
                // Who asked may be gone; the message is sent nevertheless.
                seqs.zip(replies).for_each(|(seq, reply)| drop(reply.send(Ok(seq))));
            }
            // Who asked may be gone.
            Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(OutboxError::clone(&error))))),
        }
    }

    /// Sends what is due: marked and synced first.
    pub(super) async fn pump(&mut self, line: &impl Line, now_ms: u64) -> Result<(), ProfileError> {
        if self.lock.is_none() || self.welcome.is_some() || now_ms < self.not_before {
            return Ok(());
        }
        let Some(kept) = &self.kept else { return Ok(()) };
        let outbox = kept.file.outbox();
        let due = kept.drain.due(outbox, now_ms);
        if due.is_empty() {
            return Ok(());
        }
        let marks = due.iter().any(|seq| outbox.entry(*seq).is_some_and(|entry| !entry.attempted));
        if marks || self.unsynced {
            let marked = self.step::<ProfileError>(true, move |_, outbox| {
                let fresh = |seq: &ClientSeq| outbox.entry(*seq).is_some_and(|entry| !entry.attempted);
                let seqs: Vec<_> = due.into_iter().filter(fresh).collect();
                Ok(if seqs.is_empty() { Vec::new() } else { vec![Change::Attempted(seqs)] })
            });
            if let Err(error) = marked.await {
                self.not_before = now_ms + FILE_PAUSE_MS;
                return Err(error);
            }
        }
        for (seq, send) in self.start(now_ms) {
            line.send(seq, &send).await.map_err(|error| ProfileError::Disk(error.to_string()))?;
        }
        Ok(())
    }

    /// What is due and marked, as it is sent. Others may have withdrawn or added something meanwhile: what is not
    /// marked waits for the next round.
    fn start(&mut self, now_ms: u64) -> Vec<(ClientSeq, frame::Send)> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        let outbox = kept.file.outbox();
        let attempted = |seq: &ClientSeq| outbox.entry(*seq).is_some_and(|entry| entry.attempted);
        let due: Vec<_> = kept.drain.due(outbox, now_ms).into_iter().take_while(attempted).collect();
        kept.drain.started(outbox, &due);
        let lowest = outbox.lowest();
        let send = |seq: &ClientSeq| {
            let Entry { group, payload, .. } = outbox.entry(*seq)?.clone();
            Some((*seq, frame::Send { seq: *seq, lowest, gid: group, payload, extensions: Extensions::default() }))
        };
        due.iter().filter_map(send).collect()
    }

    /// Answers to sends.
    pub(super) async fn answered(
        &mut self,
        answers: Vec<(ClientSeq, RawFrame)>,
        now_ms: u64,
    ) -> Result<(), ProfileError> {
        let answers = answers.iter().filter_map(|(seq, frame)| Some((*seq, read_answer(frame)?)));
        let answers: BTreeMap<_, _> = answers.collect();
        let answers: Vec<_> = answers.into_iter().collect();
        let renumbers = |answer: &Answer| matches!(answer, Answer::Conflict | Answer::NeverStored);
        // What renumbers depends on what was decided before it, so it is a step of its own.
        for run in answers.chunk_by(|(_, one), (_, next)| !renumbers(one) && !renumbers(next)) {
            let run = run.to_vec();
            let decide = move |drain: &mut Drain, outbox: &Outbox| {
                run.iter().flat_map(|(seq, answer)| drain.answered(outbox, *seq, answer, now_ms)).collect()
            };
            self.decide(now_ms, decide).await?;
        }
        Ok(())
    }

    /// Items of one's own user came by: (group, tag, msgid, time).
    pub(super) async fn seen(
        &mut self,
        items: Vec<(GroupId, Tag, MessageId, u64)>,
        now_ms: u64,
    ) -> Result<(), ProfileError> {
        let Some(outbox) = self.outbox().filter(|_| self.lock.is_some()) else { return Ok(()) };
        let known = |tag: Tag| outbox.entries().any(|(_, entry)| entry.attempted && entry.tag == tag);
        let items = items.into_iter().filter(|(_, tag, _, _)| known(*tag));
        let items: BTreeMap<Tag, _> =
            items.map(|(group, tag, msgid, time_ms)| (tag, (group, msgid, time_ms))).collect();
        if items.is_empty() {
            return Ok(());
        }
        let decide = move |drain: &mut Drain, outbox: &Outbox| {
            let items = items.into_iter();
            items.filter_map(|(tag, (group, msgid, time))| drain.seen(outbox, group, tag, msgid, time)).collect()
        };
        self.decide(now_ms, decide).await
    }

    async fn decide(
        &mut self,
        now_ms: u64,
        decide: impl FnOnce(&mut Drain, &Outbox) -> Vec<Change> + Send + 'static,
    ) -> Result<(), ProfileError> {
        let decided = self.step::<ProfileError>(false, move |drain, outbox| Ok(decide(drain, outbox))).await;
        if decided.is_err() {
            self.not_before = now_ms + FILE_PAUSE_MS;
        }
        decided.map(|_| ())
    }
}

fn add(outbox: &Outbox, entries: Vec<Entry>, drain: Option<&Drain>, now_ms: u64) -> Result<Vec<Change>, OutboxError> {
    let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
    if outbox.count() + entries.len() > OUTBOX_ENTRIES_MAX || outbox.bytes() + bytes > OUTBOX_BYTES_MAX {
        return Err(OutboxError::Full { entries: outbox.count() });
    }
    let mut room = drain.and_then(|drain| drain.room(outbox, now_ms));
    let mut seq = outbox.highest();
    let mut changes = Vec::with_capacity(entries.len());
    for mut entry in entries {
        seq = seq.next();
        entry.attempted = room.as_mut().is_some_and(|room| room.take(seq, entry.payload.len()));
        changes.push(Change::Added(seq, entry));
    }
    Ok(changes)
}
