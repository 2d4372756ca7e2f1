//! The outbox of a device: what waits to be sent, under which number, and what an answer means for it.
//!
//! [`Outbox`] is what is known for good: it is nothing but the sum of its [`Change`]s, which the client keeps in a file,
//! so that every process of a profile that reads the file knows the same. [`Drain`] is the part of the one process that
//! sends: what is under way on this connection. Both only decide; writing down and sending is done by the client.
//!
//! Invariants: a number that was attempted is never used for other bytes; an entry leaves only by a change that says how
//! it ended; entries are sent in the order of their numbers; after something was not done nothing later is sent before
//! it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::ids::{ClientSeq, Epoch, GroupId, MessageId, Tag};
use crate::limits::{OUTBOX_SETTLED_KEPT, SENDS_UNANSWERED_BYTES_MAX, SENDS_UNANSWERED_MAX};

/// Something that waits for its answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it goes.
    pub group: GroupId,
    /// By which its own item is known again.
    pub tag: Tag,
    /// The history it was written in.
    pub epoch: Epoch,
    /// What is sent: encoded once, never again.
    pub payload: Bytes,
    /// Whether it may have reached the server.
    pub attempted: bool,
}

/// How an entry ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Stored.
    Sent {
        /// Its group.
        group: GroupId,
        /// Its place there.
        msgid: MessageId,
        /// The server's clock at the time.
        time_ms: u64,
    },
    /// Refused for good.
    Refused {
        /// The number of the reason.
        number: u16,
        /// Words for a person.
        detail: String,
    },
    /// The server has forgotten its number: nobody can tell any more.
    Unknown {
        /// Where it went.
        group: GroupId,
        /// How long its payload was.
        bytes: u32,
    },
    /// Taken out before it was attempted, or after its outcome was said to be unknown.
    Withdrawn,
}

/// One fact about the outbox.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// An entry was added under a number that was never used.
    Added(ClientSeq, Entry),
    /// These may reach the server from now on.
    Attempted(Vec<ClientSeq>),
    /// An entry ended.
    Settled(ClientSeq, Settled),
    /// An entry goes on under another number, as if it had never been attempted.
    Renumbered {
        /// The number it had.
        from: ClientSeq,
        /// One that was never used.
        to: ClientSeq,
    },
    /// Numbers up to here are used up, by whomever.
    Highest(ClientSeq),
    /// How an entry ended that is not told of otherwise: only in a file that began anew.
    Ended(ClientSeq, Settled),
    /// As [`Change::Renumbered`], of an entry that is told of otherwise: only in a file that began anew.
    Moved {
        /// The number it had.
        from: ClientSeq,
        /// The number it got.
        to: ClientSeq,
    },
}

/// A change that cannot follow what is known: the file it came from is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {seq} contradicts what came before")]
pub struct Contradiction {
    what: &'static str,
    seq: ClientSeq,
}

/// What is known of everything that was ever put into the outbox, as far as it still matters.
#[derive(Clone, Default)]
pub struct Outbox {
    entries: BTreeMap<ClientSeq, Entry>,
    bytes: usize,
    unknown: BTreeMap<ClientSeq, Settled>,
    settled: BTreeMap<ClientSeq, Settled>,
    moved: BTreeMap<ClientSeq, ClientSeq>,
    highest: ClientSeq,
}

impl Outbox {
    /// Takes in a fact.
    ///
    /// # Errors
    /// Where it cannot follow what came before.
    pub fn apply(&mut self, change: &Change) -> Result<(), Contradiction> {
        match change {
            Change::Added(seq, entry) => self.add(*seq, entry.clone(), "an entry"),
            Change::Attempted(seqs) => seqs.iter().try_for_each(|seq| {
                let entry = self.entries.get_mut(seq).ok_or(Contradiction { what: "an attempt", seq: *seq })?;
                entry.attempted = true;
                Ok(())
            }),
            Change::Settled(seq, settled) => self.settle(*seq, settled),
            Change::Renumbered { from, to } => {
                let entry = self.take(*from).ok_or(Contradiction { what: "a renumbering", seq: *from })?;
                self.moved.values_mut().filter(|now| **now == *from).for_each(|now| *now = *to);
                self.moved.insert(*from, *to);
                self.add(*to, Entry { attempted: false, ..entry }, "a renumbering")
            }
            Change::Highest(seq) => {
                self.highest = self.highest.max(*seq);
                Ok(())
            }
            Change::Ended(seq, settled) => {
                self.end(*seq, settled);
                Ok(())
            }
            Change::Moved { from, to } if from >= to => Err(Contradiction { what: "a renumbering", seq: *from }),
            Change::Moved { from, to } => {
                self.moved.insert(*from, *to);
                Ok(())
            }
        }
    }

    fn add(&mut self, seq: ClientSeq, entry: Entry, what: &'static str) -> Result<(), Contradiction> {
        if seq <= self.highest {
            return Err(Contradiction { what, seq });
        }
        self.highest = seq;
        self.bytes += entry.payload.len();
        self.entries.insert(seq, entry);
        Ok(())
    }

    fn take(&mut self, seq: ClientSeq) -> Option<Entry> {
        let entry = self.entries.remove(&seq)?;
        self.bytes -= entry.payload.len();
        Some(entry)
    }

    fn settle(&mut self, seq: ClientSeq, settled: &Settled) -> Result<(), Contradiction> {
        let known = self.take(seq).is_some() || self.unknown.remove(&seq).is_some();
        if !known {
            return Err(Contradiction { what: "an answer", seq });
        }
        self.end(seq, settled);
        let oldest = self.settled.keys().chain(self.entries.keys()).chain(self.unknown.keys()).min().copied();
        self.moved.retain(|_, to| oldest.is_some_and(|oldest| *to >= oldest));
        Ok(())
    }

    fn end(&mut self, seq: ClientSeq, settled: &Settled) {
        if matches!(settled, Settled::Unknown { .. }) {
            self.unknown.insert(seq, settled.clone());
            return;
        }
        self.settled.insert(seq, settled.clone());
        while self.settled.len() > OUTBOX_SETTLED_KEPT {
            self.settled.pop_first();
        }
    }

    /// The highest number that is used up.
    #[must_use]
    pub fn highest(&self) -> ClientSeq {
        self.highest
    }

    /// The lowest number that is unanswered; the next one where none is.
    #[must_use]
    pub fn lowest(&self) -> ClientSeq {
        self.entries.keys().next().copied().unwrap_or(self.highest.next())
    }

    /// Everything that waits for its answer, in the order of sending.
    pub fn entries(&self) -> impl Iterator<Item = (ClientSeq, &Entry)> {
        self.entries.iter().map(|(seq, entry)| (*seq, entry))
    }

    /// An entry that waits for its answer.
    #[must_use]
    pub fn entry(&self, seq: ClientSeq) -> Option<&Entry> {
        self.entries.get(&seq)
    }

    /// Entries that wait for their answers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Payload bytes of all entries that wait.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What ended with an unknown outcome and was not taken out since.
    pub fn unknown(&self) -> impl Iterator<Item = (ClientSeq, &Settled)> {
        self.unknown.iter().map(|(seq, settled)| (*seq, settled))
    }

    /// The number under which this one goes on now.
    #[must_use]
    pub fn current(&self, seq: ClientSeq) -> ClientSeq {
        let mut seq = seq;
        // A renumbering leads to a higher number, so this ends.
        while let Some(to) = self.moved.get(&seq) {
            seq = *to;
        }
        seq
    }

    /// How an entry ended, under whichever number it did; none while it waits, or long after.
    #[must_use]
    pub fn outcome(&self, seq: ClientSeq) -> Option<&Settled> {
        let seq = self.current(seq);
        self.settled.get(&seq).or_else(|| self.unknown.get(&seq))
    }

    /// The facts that make this outbox again, for a file that begins anew.
    #[must_use]
    pub fn condensed(&self) -> Vec<Change> {
        let moved = self.moved.iter().map(|(from, to)| Change::Moved { from: *from, to: *to });
        let ended = self.settled.iter().chain(&self.unknown);
        let ended = ended.map(|(seq, settled)| Change::Ended(*seq, settled.clone()));
        let waiting = self.entries.iter().map(|(seq, entry)| Change::Added(*seq, entry.clone()));
        moved.chain(ended).chain(waiting).chain([Change::Highest(self.highest)]).collect()
    }
}

/// An answer to a send, in the words of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Stored.
    Sent {
        /// Its place.
        msgid: MessageId,
        /// The server's clock at the time.
        time_ms: u64,
    },
    /// The number was used for other bytes: by a copy of this profile.
    Conflict,
    /// The number was passed over: it was never stored and never will be.
    NeverStored,
    /// The number lies below what was stated as answered.
    Forgotten,
    /// Refused for good.
    Refused {
        /// The number of the reason.
        number: u16,
        /// Words for a person.
        detail: String,
    },
    /// Not done, or nobody knows: the same number must come again, before everything later.
    Again {
        /// After how long, in ms; zero: not said.
        after_ms: u32,
    },
    /// Not done because an earlier number was not.
    OutOfTurn,
}

/// First pause before a send is repeated where the server named none, in ms; doubles up to [`PAUSE_MS_MAX`].
const PAUSE_MS: u64 = 50;
/// Longest pause before a send is repeated where the server named none, in ms.
const PAUSE_MS_MAX: u64 = 5_000;

/// What the sending process knows of its connection.
#[derive(Debug, Clone)]
pub struct Drain {
    under_way: BTreeMap<ClientSeq, usize>,
    items_max: u64,
    bytes_max: usize,
    not_before: u64,
    pauses: u32,
    accepted: bool,
}

impl Default for Drain {
    fn default() -> Drain {
        Drain {
            under_way: BTreeMap::new(),
            items_max: SENDS_UNANSWERED_MAX,
            bytes_max: SENDS_UNANSWERED_BYTES_MAX,
            not_before: 0,
            pauses: 0,
            accepted: false,
        }
    }
}

impl Drain {
    /// The server accepted a connection and said the highest number it has decided and how much may be unanswered.
    /// A profile that is behind was copied or restored: what was never attempted goes on above what the server knows.
    pub fn welcome(&mut self, outbox: &Outbox, highest: ClientSeq, items_max: u32, bytes_max: u32) -> Vec<Change> {
        self.lost();
        self.accepted = true;
        self.items_max = u64::from(items_max).max(1);
        self.bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        self.not_before = 0;
        self.pauses = 0;
        let used_by_others = outbox.entries().any(|(seq, entry)| !entry.attempted && seq <= highest);
        if highest <= outbox.highest() && !used_by_others {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if highest > outbox.highest() {
            changes.push(Change::Highest(highest));
        }
        let next = outbox.highest().max(highest).next();
        let fresh = outbox.entries().filter(|(_, entry)| !entry.attempted).map(|(seq, _)| seq);
        changes.extend(renumber(fresh, next));
        changes
    }

    /// The connection is gone: nothing is under way any more.
    pub fn lost(&mut self) {
        self.accepted = false;
        self.under_way.clear();
    }

    /// What to send now, in this order. The caller marks as attempted what is not yet, syncs, and says
    /// [`Drain::started`].
    #[must_use]
    pub fn due(&self, outbox: &Outbox, now_ms: u64) -> Vec<ClientSeq> {
        let waiting = || outbox.entries().filter(|(seq, _)| !self.under_way.contains_key(seq));
        let overtaken = waiting().next().is_some_and(|(first, _)| self.under_way.keys().any(|seq| *seq > first));
        if !self.accepted || overtaken || now_ms < self.not_before {
            return Vec::new();
        }
        let beyond = outbox.lowest().value().saturating_add(self.items_max);
        let mut items = self.under_way.len() as u64;
        let mut bytes: usize = self.under_way.values().sum();
        let fits = |(seq, entry): &(ClientSeq, &Entry)| {
            let first = items == 0;
            items += 1;
            bytes += entry.payload.len();
            first || (seq.value() < beyond && items <= self.items_max && bytes <= self.bytes_max)
        };
        waiting().take_while(fits).map(|(seq, _)| seq).collect()
    }

    /// What could be sent behind everything that waits already: nothing where anything does wait.
    #[must_use]
    pub fn room(&self, outbox: &Outbox, now_ms: u64) -> Option<Room> {
        let waits = outbox.entries().any(|(seq, _)| !self.under_way.contains_key(&seq));
        if !self.accepted || waits || now_ms < self.not_before {
            return None;
        }
        let bytes: usize = self.under_way.values().sum();
        Some(Room {
            beyond: outbox.lowest().value().saturating_add(self.items_max),
            is_empty: self.under_way.is_empty(),
            items: self.items_max.saturating_sub(self.under_way.len() as u64),
            bytes: self.bytes_max.saturating_sub(bytes),
        })
    }

    /// These are being written to the connection.
    pub fn started(&mut self, outbox: &Outbox, seqs: &[ClientSeq]) {
        for seq in seqs {
            self.under_way.insert(*seq, outbox.entry(*seq).map_or(0, |entry| entry.payload.len()));
        }
    }

    /// When to ask [`Drain::due`] again although nothing happened; none where only events matter.
    #[must_use]
    pub fn wakes_at(&self, outbox: &Outbox) -> Option<u64> {
        let waits = outbox.entries().any(|(seq, _)| !self.under_way.contains_key(&seq));
        (self.accepted && waits && self.not_before > 0).then_some(self.not_before)
    }

    /// Whether anything was written to this connection and not answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// What an answer means. An answer to what has ended already means nothing.
    pub fn answered(&mut self, outbox: &Outbox, seq: ClientSeq, answer: &Answer, now_ms: u64) -> Vec<Change> {
        self.under_way.remove(&seq);
        let Some(entry) = outbox.entry(seq) else { return Vec::new() };
        let settled = match answer {
            Answer::Sent { msgid, time_ms } => Settled::Sent { group: entry.group, msgid: *msgid, time_ms: *time_ms },
            Answer::Refused { number, detail } => Settled::Refused { number: *number, detail: detail.clone() },
            Answer::Forgotten => {
                Settled::Unknown { group: entry.group, bytes: u32::try_from(entry.payload.len()).unwrap_or(u32::MAX) }
            }
            Answer::Conflict | Answer::NeverStored => {
                let later = outbox.entries().filter(|(other, entry)| *other > seq && !entry.attempted);
                return renumber([seq].into_iter().chain(later.map(|(seq, _)| seq)), outbox.highest().next());
            }
            Answer::Again { after_ms } => {
                self.pause(u64::from(*after_ms), now_ms);
                return Vec::new();
            }
            Answer::OutOfTurn => {
                if seq == outbox.lowest() {
                    self.pause(0, now_ms);
                }
                return Vec::new();
            }
        };
        self.pauses = 0;
        vec![Change::Settled(seq, settled)]
    }

    fn pause(&mut self, after_ms: u64, now_ms: u64) {
        let own = PAUSE_MS.saturating_mul(1 << self.pauses.min(10)).min(PAUSE_MS_MAX);
        self.pauses = self.pauses.saturating_add(1);
        let pause = if after_ms > 0 { after_ms } else { own };
        self.not_before = self.not_before.max(now_ms.saturating_add(pause));
    }

    /// An item of one's own user came by: it settles the entry that carries its tag, as the answer would.
    pub fn seen(
        &mut self,
        outbox: &Outbox,
        group: GroupId,
        tag: Tag,
        msgid: MessageId,
        time_ms: u64,
    ) -> Option<Change> {
        let own = |(_, entry): &(ClientSeq, &Entry)| entry.attempted && entry.group == group && entry.tag == tag;
        let (seq, _) = outbox.entries().find(own)?;
        self.under_way.remove(&seq);
        Some(Change::Settled(seq, Settled::Sent { group, msgid, time_ms }))
    }
}

/// What the window of unanswered sends still takes.
#[derive(Debug, Clone)]
pub struct Room {
    beyond: u64,
    is_empty: bool,
    items: u64,
    bytes: usize,
}

impl Room {
    /// Whether one more fits, which then takes its place.
    pub fn take(&mut self, seq: ClientSeq, bytes: usize) -> bool {
        let fits = self.is_empty || (seq.value() < self.beyond && self.items > 0 && bytes <= self.bytes);
        self.is_empty = false;
        self.items = if fits { self.items.saturating_sub(1) } else { 0 };
        self.bytes = self.bytes.saturating_sub(bytes);
        fits
    }
}

/// Gives these, in their order, the numbers from `next` on.
fn renumber(seqs: impl Iterator<Item = ClientSeq>, next: ClientSeq) -> Vec<Change> {
    let mut to = next;
    let mut changes = Vec::new();
    for from in seqs {
        changes.push(Change::Renumbered { from, to });
        to = to.next();
    }
    changes
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Outbox of {} entries, highest {}", self.entries.len(), self.highest)
    }
}
