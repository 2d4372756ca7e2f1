//! What the one sending process of a profile knows of its connection, and what each answer means.

use std::collections::BTreeMap;
use std::iter;

use super::{Change, Entry, Outbox, Settled};
use crate::ids::{ClientSeq, GroupId, MessageId, Tag};
use crate::limits::{SENDS_UNANSWERED_BYTES_MAX, SENDS_UNANSWERED_MAX};
use crate::proof::{self, Wrong};

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
        let mut changes = Vec::new();
        if proof::is(Wrong::OutboxDroppedEarly) {
            let attempted = outbox.entries().filter(|(_, entry)| entry.attempted);
            changes.extend(attempted.map(|(seq, _)| Change::Settled(seq, Settled::Withdrawn)));
        }
        let used_by_others = outbox.entries().any(|(seq, entry)| !entry.attempted && seq <= highest);
        if highest <= outbox.highest() && !used_by_others {
            return changes;
        }
        if highest > outbox.highest() {
            changes.push(Change::Highest(highest));
        }
        let next = outbox.highest().max(highest).next();
        let mut fresh = outbox.entries().filter(|(_, entry)| !entry.attempted).map(|(seq, _)| seq).peekable();
        if fresh.peek().is_some() {
            changes.push(renumber(fresh, next));
        }
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

    /// When to ask [`Drain::due`] again although nothing happened, where it was last asked at this time; none where only
    /// events matter.
    #[must_use]
    pub fn wakes_at(&self, outbox: &Outbox, now_ms: u64) -> Option<u64> {
        let waits = outbox.entries().any(|(seq, _)| !self.under_way.contains_key(&seq));
        (self.accepted && waits && self.not_before > now_ms).then_some(self.not_before)
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
                let seqs = [seq].into_iter().chain(outbox.behind(seq));
                return vec![renumber(seqs, outbox.highest().next())];
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
fn renumber(seqs: impl Iterator<Item = ClientSeq>, next: ClientSeq) -> Change {
    let numbers = iter::successors(Some(next), |to| Some(to.next()));
    Change::Renumbered(seqs.zip(numbers).collect())
}
