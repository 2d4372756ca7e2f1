//! The outbox of a profile on disk, shared by all its processes.
//!
//! Every [`Change`] is a record of a journal; whoever writes holds the sequence lock, for one step only, and has read
//! what others wrote. What was decided counts once it is written, and may be acted on once it is synced.
//!
//! What a recall takes back is in the file no more once the recall was answered, or was heard of ([`OutboxFile::forget`]):
//! the file is made anew without what has ended, where any of that is what was recalled or an edit of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::client::error::{OutboxError, ProfileError};
use crate::client::journal::Journal;
use crate::client::say::Say;
use crate::client::types::{EntryState, OutboxEntry};
use crate::clock;
use crate::core::outbox::{Change, Entry, Outbox, Settled};
use crate::disk::{Lock, SharedDisk, whole};
use crate::ids::{ClientSeq, Epoch, GroupId, MessageId, Tag};
use crate::wire::code::Code;

const NAME: &str = "outbox";
pub(super) const MAGIC: [u8; 8] = *b"ggl-out1";
const LOCK: &str = "sequence.lock";
/// A step under the lock takes milliseconds; a disk that hangs is not waited for longer than this.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// A file below this is not worth making anew.
const REWRITE_BYTES_MIN: u64 = 256 * 1024;

/// The file and what is known from it.
#[derive(Debug)]
pub(super) struct OutboxFile {
    disk: SharedDisk,
    folder: PathBuf,
    journal: Journal,
    outbox: Outbox,
    /// A sync failed: what was written since is not trusted, and written again into a new file.
    doubtful: bool,
    /// What has ended and is still said in the file: its group, and what it goes with when that is recalled. Zero: nobody
    /// knows under which msgid it was stored.
    ended: BTreeSet<(GroupId, MessageId)>,
    /// The file still says what was recalled.
    holds_recalled: bool,
}

impl OutboxFile {
    /// The outbox of the profile in this folder; touches nothing.
    pub(super) fn new(disk: SharedDisk, folder: &Path) -> OutboxFile {
        let journal = Journal::new(disk.clone(), folder, NAME, MAGIC);
        OutboxFile {
            disk,
            folder: folder.to_owned(),
            journal,
            outbox: Outbox::default(),
            doubtful: false,
            ended: BTreeSet::new(),
            holds_recalled: false,
        }
    }

    /// What is known.
    pub(super) const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Takes in what other processes wrote; says what it was. Needs no lock.
    pub(super) fn refresh(&mut self) -> Result<Vec<Change>, ProfileError> {
        let caught = self.journal.catch_up()?;
        self.take_in(caught.anew, &caught.records)
    }

    fn take_in(&mut self, anew: bool, records: &[Vec<u8>]) -> Result<Vec<Change>, ProfileError> {
        if anew {
            self.begin_empty();
        }
        self.apply(records).inspect_err(|_| {
            // What makes no sense makes none the next time either: everything is read, and refused, again.
            self.begin_empty();
            self.journal.forget();
        })
    }

    fn begin_empty(&mut self) {
        self.outbox = Outbox::default();
        self.says_nothing_ended();
    }

    fn says_nothing_ended(&mut self) {
        self.ended.clear();
        self.holds_recalled = false;
    }

    fn apply(&mut self, records: &[Vec<u8>]) -> Result<Vec<Change>, ProfileError> {
        let mut changes = Vec::with_capacity(records.len());
        for record in records {
            let change = decode(record).ok_or_else(|| self.journal.senseless(&"a record of an unknown kind"))?;
            self.take(&change)?;
            changes.push(change);
        }
        Ok(changes)
    }

    fn take(&mut self, change: &Change) -> Result<(), ProfileError> {
        if let Change::Settled(seq, settled) = change {
            self.note_end(*seq, settled);
        }
        self.outbox.apply(change).map_err(|error| self.journal.senseless(&error))
    }

    /// What ends is forgotten here, but not in the file.
    fn note_end(&mut self, seq: ClientSeq, settled: &Settled) {
        let Some(entry) = self.outbox.entry(seq) else { return };
        let group = entry.group;
        match (Say::of(&entry.payload), settled) {
            (Some(Say::Text { .. }), Settled::Sent { msgid, .. }) => drop(self.ended.insert((group, *msgid))),
            (Some(Say::Text { .. }), Settled::Unknown { .. }) => drop(self.ended.insert((group, MessageId::ZERO))),
            (Some(Say::Edit { target, .. }), _) => {
                self.ended.insert((group, target));
                self.holds_recalled |= is_of_recalled(settled);
            }
            (Some(Say::Recall(target)), Settled::Sent { .. }) => self.note_recall(group, target),
            (_, Settled::Sent { .. } | Settled::Refused { .. } | Settled::Unknown { .. } | Settled::Withdrawn) => {}
        }
    }

    fn note_recall(&mut self, group: GroupId, target: MessageId) {
        self.holds_recalled |= [target, MessageId::ZERO].iter().any(|msgid| self.ended.contains(&(group, *msgid)));
    }

    /// Under the lock: takes in what others wrote, lets `decide` see it, and writes down what it decided. Where `synced`, or
    /// where something ended in a way in which it would not end again, everything written so far is durable when this
    /// returns. Answers what others wrote, and what was decided.
    pub(super) fn step<E: From<ProfileError>>(
        &mut self,
        synced: bool,
        decide: impl FnOnce(&Outbox) -> Result<Vec<Change>, E>,
    ) -> Result<(Vec<Change>, Vec<Change>), E> {
        let _lock = lock_shortly(&self.disk, &self.folder, LOCK)?;
        let caught = self.journal.catch_up_to_write()?;
        let others = self.take_in(caught.anew, &caught.records)?;
        let changes = decide(&self.outbox)?;
        let synced = synced || changes.iter().any(Change::ends_otherwise);
        self.write(synced, &changes)?;
        Ok((others, changes))
    }

    /// These were recalled: of what has ended of them the file says nothing any more when this returns. Answers what others
    /// wrote. Where it fails, the next step makes the file anew.
    pub(super) fn forget(&mut self, recalled: &[(GroupId, MessageId)]) -> Result<Vec<Change>, ProfileError> {
        self.try_to_forget(recalled).inspect_err(|_| self.doubtful = true)
    }

    fn try_to_forget(&mut self, recalled: &[(GroupId, MessageId)]) -> Result<Vec<Change>, ProfileError> {
        let _lock = lock_shortly(&self.disk, &self.folder, LOCK)?;
        let caught = self.journal.catch_up_to_write()?;
        let others = self.take_in(caught.anew, &caught.records)?;
        recalled.iter().for_each(|(group, target)| self.note_recall(*group, *target));
        self.write(false, &[])?;
        Ok(others)
    }

    fn write(&mut self, synced: bool, changes: &[Change]) -> Result<(), ProfileError> {
        let end = self.journal.end();
        let applied = changes.iter().try_for_each(|change| self.take(change));
        applied.and_then(|()| self.put(synced, changes)).inspect_err(|_| self.go_back(end))
    }

    /// What could not be made durable must not be acted on by anybody: the file goes back to what was before, and the
    /// next step writes it anew, because a sync after a failed one proves nothing.
    fn go_back(&mut self, end: u64) {
        self.doubtful = true;
        self.begin_empty();
        let back = self.journal.go_back(end).and_then(|()| self.refresh().map(|_| ()));
        if let Err(error) = back {
            // The failure itself is already reported to whoever asked; the next step reads the file again.
            tracing::warn!(%error, "the outbox could not be brought back to what it was");
        }
    }

    fn put(&mut self, synced: bool, changes: &[Change]) -> Result<(), ProfileError> {
        let dead = self.journal.end() > REWRITE_BYTES_MIN && self.journal.end() > 4 * self.outbox.bytes() as u64;
        if self.doubtful || self.holds_recalled || (dead && synced) {
            // The changes are part of what is known by now, so that the new file holds them too.
            self.journal.rewrite(&encode_all(&self.outbox.condensed()))?;
            self.doubtful = false;
            self.says_nothing_ended();
            return Ok(());
        }
        if !changes.is_empty() {
            self.journal.append(&encode_all(changes))?;
        }
        if synced { self.journal.sync() } else { Ok(()) }
    }

    /// What a person may want to see of it.
    pub(super) fn listed(&self) -> Vec<OutboxEntry> {
        let state = |entry: &Entry| if entry.attempted { EntryState::Attempted } else { EntryState::Waiting };
        let waiting = self.outbox.entries().map(|(seq, entry)| {
            let what = Say::of(&entry.payload);
            let bytes = what.as_ref().map_or(entry.payload.len(), |what| what.body().len());
            OutboxEntry { seq, group: entry.group, what, bytes, state: state(entry) }
        });
        let unknown = self.outbox.unknown().filter_map(|(seq, settled)| match settled {
            Settled::Unknown { group, bytes } => {
                let (group, bytes) = (*group, *bytes as usize);
                Some(OutboxEntry { seq, group, what: None, bytes, state: EntryState::OutcomeUnknown })
            }
            Settled::Sent { .. } | Settled::Refused { .. } | Settled::Withdrawn => None,
        });
        let mut all: Vec<_> = unknown.chain(waiting).collect();
        all.sort_by_key(|entry| entry.seq);
        all
    }

    /// Takes out what was never attempted, or ended with an unknown outcome.
    pub(super) fn withdraw(&mut self, seq: ClientSeq) -> Result<(), OutboxError> {
        let decide = |outbox: &Outbox| {
            let seq = outbox.current(seq);
            let unknown = outbox.unknown().any(|(other, _)| other == seq);
            match outbox.entry(seq) {
                Some(entry) if entry.attempted => Err(OutboxError::Attempted(seq)),
                None if !unknown => Err(OutboxError::Absent(seq)),
                Some(_) | None => Ok(vec![Change::Settled(seq, Settled::Withdrawn)]),
            }
        };
        self.step(true, decide).map(|_| ())
    }
}

/// Whether something was refused because what it is about was recalled.
fn is_of_recalled(settled: &Settled) -> bool {
    matches!(settled, Settled::Refused { number, .. } if Code::from_number(*number) == Some(Code::ItemRecalled))
}

/// Takes a lock that is only ever held for a step; blocks this thread until then.
pub(super) fn lock_shortly(disk: &SharedDisk, folder: &Path, name: &str) -> Result<Box<dyn Lock>, ProfileError> {
    disk.create_folder(folder)?;
    let path = folder.join(name);
    let since = clock::monotonic();
    loop {
        if let Some(lock) = disk.lock(&path)? {
            return Ok(lock);
        }
        if clock::monotonic().duration_since(since) > LOCK_WAIT {
            return Err(ProfileError::Locked { lock: path.display().to_string(), pid: holder(disk, &path) });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The process that holds a lock, as its file says; zero where it does not.
pub(super) fn holder(disk: &SharedDisk, path: &Path) -> u32 {
    let told = whole::read(disk.as_ref(), path, 32).ok().flatten();
    told.and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[derive(Serialize, Deserialize)]
struct AddedRecord {
    seq: ClientSeq,
    group: GroupId,
    tag: Tag,
    epoch: Epoch,
    attempted: bool,
    payload: Bytes,
}

#[derive(Serialize, Deserialize)]
struct EndRecord {
    seq: ClientSeq,
    how: u8,
    group: GroupId,
    msgid: MessageId,
    time_ms: u64,
    number: u16,
    detail: String,
    bytes: u32,
}

mod kind {
    pub(super) const ADDED: u8 = 1;
    pub(super) const ATTEMPTED: u8 = 2;
    pub(super) const SETTLED: u8 = 3;
    /// One entry: as they were written before those that get new numbers together were one record.
    pub(super) const RENUMBERED_ALONE: u8 = 4;
    pub(super) const HIGHEST: u8 = 5;
    pub(super) const ENDED: u8 = 6;
    pub(super) const MOVED: u8 = 7;
    pub(super) const RENUMBERED: u8 = 8;
}

fn encode_all(changes: &[Change]) -> Vec<Vec<u8>> {
    changes.iter().map(encode).collect()
}

fn encode(change: &Change) -> Vec<u8> {
    match change {
        Change::Added(seq, entry) => {
            let Entry { group, tag, epoch, payload, attempted } = entry.clone();
            record(kind::ADDED, &AddedRecord { seq: *seq, group, tag, epoch, attempted, payload })
        }
        Change::Attempted(seqs) => record(kind::ATTEMPTED, seqs),
        Change::Settled(seq, settled) => record(kind::SETTLED, &end_record(*seq, settled)),
        Change::Renumbered(numbers) => record(kind::RENUMBERED, numbers),
        Change::Highest(seq) => record(kind::HIGHEST, seq),
        Change::Ended(seq, settled) => record(kind::ENDED, &end_record(*seq, settled)),
        Change::Moved { from, to } => record(kind::MOVED, &(*from, *to)),
    }
}

/// These values always have an encoding: they are numbers, bytes and texts of bounded length.
fn record<T: Serialize>(kind: u8, value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![kind]).unwrap_or_default()
}

fn end_record(seq: ClientSeq, settled: &Settled) -> EndRecord {
    let none = EndRecord {
        seq,
        how: 0,
        group: GroupId::ZERO,
        msgid: MessageId::ZERO,
        time_ms: 0,
        number: 0,
        detail: String::new(),
        bytes: 0,
    };
    match settled.clone() {
        Settled::Sent { group, msgid, time_ms } => EndRecord { how: 1, group, msgid, time_ms, ..none },
        Settled::Refused { number, detail } => EndRecord { how: 2, number, detail, ..none },
        Settled::Unknown { group, bytes } => EndRecord { how: 3, group, bytes, ..none },
        Settled::Withdrawn => EndRecord { how: 4, ..none },
    }
}

fn decode(record: &[u8]) -> Option<Change> {
    let (kind, body) = record.split_first()?;
    Some(match *kind {
        kind::ADDED => {
            let AddedRecord { seq, group, tag, epoch, attempted, payload } = read(body)?;
            Change::Added(seq, Entry { group, tag, epoch, payload, attempted })
        }
        kind::ATTEMPTED => Change::Attempted(read(body)?),
        kind::SETTLED => read_end(body).map(|(seq, settled)| Change::Settled(seq, settled))?,
        kind::RENUMBERED_ALONE => Change::Renumbered(vec![read(body)?]),
        kind::RENUMBERED => Change::Renumbered(read(body)?),
        kind::HIGHEST => Change::Highest(read(body)?),
        kind::ENDED => read_end(body).map(|(seq, settled)| Change::Ended(seq, settled))?,
        kind::MOVED => read(body).map(|(from, to)| Change::Moved { from, to })?,
        _ => return None,
    })
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    postcard::from_bytes(body).ok()
}

fn read_end(body: &[u8]) -> Option<(ClientSeq, Settled)> {
    let EndRecord { seq, how, group, msgid, time_ms, number, detail, bytes } = read(body)?;
    let settled = match how {
        1 => Settled::Sent { group, msgid, time_ms },
        2 => Settled::Refused { number, detail },
        3 => Settled::Unknown { group, bytes },
        4 => Settled::Withdrawn,
        _ => return None,
    };
    Some((seq, settled))
}
