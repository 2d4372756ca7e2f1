//! The outbox of a device: what waits to be sent, under which number, and what an answer means for it.
//!
//! [`Outbox`] is what is known for good: it is nothing but the sum of its [`Change`]s, which the client keeps in a file,
//! so that every process of a profile that reads the file knows the same. [`Drain`] is the part of the one process that
//! sends: what is under way on this connection. Both only decide; writing down and sending is done by the client.
//!
//! Invariants: a number that was attempted is never used for other bytes; an entry leaves only by a change that says how
//! it ended; entries are sent in the order of their numbers; after something was not done nothing later is sent before
//! it.

mod drain;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::ids::{ClientSeq, Epoch, GroupId, MessageId, Tag};
use crate::limits::OUTBOX_SETTLED_KEPT;

pub use drain::{Answer, Drain, Room};

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
    /// These entries, each with the number it had, go on under numbers that were never used, as if they had never been
    /// attempted. They are one change, because they keep their order together only.
    Renumbered(Vec<(ClientSeq, ClientSeq)>),
    /// Numbers up to here are used up, by whomever.
    Highest(ClientSeq),
    /// How an entry ended that is not told of otherwise: only in a file that began anew.
    Ended(ClientSeq, Settled),
    /// As [`Change::Renumbered`], of one entry that is told of otherwise: only in a file that began anew.
    Moved {
        /// The number it had.
        from: ClientSeq,
        /// The number it got.
        to: ClientSeq,
    },
}

impl Change {
    /// Whether an entry ended in a way in which it may not end again if this were forgotten: who was told that it is
    /// refused must not find it stored later. What is stored is stored once, whoever sends it again.
    #[must_use]
    pub fn ends_otherwise(&self) -> bool {
        let Change::Settled(_, settled) = self else { return false };
        !matches!(settled, Settled::Sent { .. })
    }
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
    /// The highest number that only the beginning of a new file told of: entries that wait may have lower ones.
    told: ClientSeq,
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
            Change::Renumbered(numbers) => numbers.iter().try_for_each(|(from, to)| self.renumber(*from, *to)),
            Change::Highest(seq) => {
                self.highest = self.highest.max(*seq);
                Ok(())
            }
            Change::Ended(seq, settled) => {
                self.told = self.told.max(*seq);
                self.end(*seq, settled);
                Ok(())
            }
            Change::Moved { from, to } if from >= to => Err(Contradiction { what: "a renumbering", seq: *from }),
            Change::Moved { from, to } => {
                self.told = self.told.max(*to);
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

    fn renumber(&mut self, from: ClientSeq, to: ClientSeq) -> Result<(), Contradiction> {
        let what = "a renumbering";
        if to <= self.highest() {
            return Err(Contradiction { what, seq: to });
        }
        let entry = self.take(from).ok_or(Contradiction { what, seq: from })?;
        self.moved.values_mut().filter(|now| **now == from).for_each(|now| *now = to);
        self.moved.insert(from, to);
        self.add(to, Entry { attempted: false, ..entry }, what)
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
        self.highest.max(self.told)
    }

    /// The lowest number that is unanswered; the next one where none is.
    #[must_use]
    pub fn lowest(&self) -> ClientSeq {
        self.entries.keys().next().copied().unwrap_or(self.highest().next())
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

    /// What was queued behind an entry and never attempted, in this order. What was queued before it may have a higher
    /// number by now.
    fn behind(&self, seq: ClientSeq) -> impl Iterator<Item = ClientSeq> {
        let mut queued_as = BTreeMap::new();
        for (from, to) in &self.moved {
            queued_as.entry(*to).or_insert(*from);
        }
        let queued = move |seq: ClientSeq| queued_as.get(&seq).copied().unwrap_or(seq);
        let place = queued(seq);
        self.entries().filter(move |(other, entry)| !entry.attempted && queued(*other) > place).map(|(seq, _)| seq)
    }

    /// How an entry ended, under whichever number it did; none while it waits, or long after.
    #[must_use]
    pub fn outcome(&self, seq: ClientSeq) -> Option<&Settled> {
        let seq = self.current(seq);
        self.settled.get(&seq).or_else(|| self.unknown.get(&seq))
    }

    /// Whether this number lies below all whose ends are remembered: it ended, so long ago that how is forgotten.
    #[must_use]
    pub fn is_forgotten(&self, seq: ClientSeq) -> bool {
        let seq = self.current(seq);
        let open = self.entries.contains_key(&seq) || self.unknown.contains_key(&seq);
        let oldest = self.settled.keys().next().filter(|_| self.settled.len() >= OUTBOX_SETTLED_KEPT);
        !open && oldest.is_some_and(|oldest| seq < *oldest)
    }

    /// The facts that make this outbox again, for a file that begins anew.
    #[must_use]
    pub fn condensed(&self) -> Vec<Change> {
        let moved = self.moved.iter().map(|(from, to)| Change::Moved { from: *from, to: *to });
        let ended = self.settled.iter().chain(&self.unknown);
        let ended = ended.map(|(seq, settled)| Change::Ended(*seq, settled.clone()));
        let waiting = self.entries.iter().map(|(seq, entry)| Change::Added(*seq, entry.clone()));
        moved.chain(ended).chain(waiting).chain([Change::Highest(self.highest())]).collect()
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Outbox of {} entries, highest {}", self.entries.len(), self.highest())
    }
}
