//! Chance, from one seed: each kind of decision and of fault has a generator of its own, so that a new kind, or another
//! rate of one, does not shift what the others do.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// What a generator decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// How large the world is, and how often each fault strikes.
    Setup,
    /// Which of the things that can happen happens next.
    Schedule,
    /// How much time passes.
    Time,
    /// What applications do.
    Traffic,
    /// Who joins and leaves, and which devices come.
    Churn,
    /// What applications mark as read, and as unread.
    Marks,
    /// When applications ask for their conversations.
    Lists,
    /// Who answers a message, and mentions whom.
    Replies,
    /// Which message gets another text.
    Edits,
    /// Which message is taken back.
    Recalls,
    /// Which message is reacted to.
    Reactions,
    /// Of which item somebody asks who has received and read it.
    Receipts,
    /// Who talks with whom alone.
    Direct,
    /// Who gets which role, only reads, and is kept out.
    Roles,
    /// What groups keep.
    Keeps,
    /// How long a packet takes.
    Delay,
    /// Which packet has to be sent again.
    Loss,
    /// Which connection is cut, and when either end notices.
    Cut,
    /// Which first flight is late.
    Late,
    /// Which first flight arrives twice.
    Twice,
    /// When the server's machine loses its power, and what is left on its disk.
    ServerPower,
    /// When the server's process is killed.
    ServerKill,
    /// When the server is stopped in order.
    ServerStop,
    /// After how many changes of the disk an opening dies.
    OpenPower,
    /// When the power goes at some change of the disk, wherever the server is then.
    StepPower,
    /// When a client's machine loses its power.
    ClientPower,
    /// When a client's process ends at once.
    ClientKill,
    /// Which write fails.
    WriteError,
    /// Which sync fails.
    SyncError,
    /// When the server's disk is slow: nothing is appended or synced, for a while.
    Slow,
    /// When the server's disk is full.
    Full,
    /// When the index fails to apply, read, flush or open.
    IndexError,
    /// When the index stalls: nothing is applied, for a while.
    IndexStall,
    /// How much an index keeps of what was not flushed.
    IndexLoss,
    /// When the clock of day jumps.
    ClockJump,
    /// When a client that obeys no rules speaks.
    Rude,
}

/// All generators of one run: one for each kind, made when it is first asked.
pub struct Chance {
    seed: u64,
    generators: BTreeMap<Kind, StdRng>,
}

impl Chance {
    /// The generators that belong to this seed.
    pub fn new(seed: u64) -> Chance {
        Chance { seed, generators: BTreeMap::new() }
    }

    /// What a generator begins with follows from its name, not from its place among the others.
    fn of(&mut self, kind: Kind) -> &mut StdRng {
        let seed = self.seed;
        self.generators.entry(kind).or_insert_with(|| {
            let name = format!("{kind:?}").bytes().fold(seed, |mixed, byte| {
                (mixed ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
            });
            StdRng::seed_from_u64(name)
        })
    }

    /// Whether something of this probability happens.
    pub fn hits(&mut self, kind: Kind, probability: f64) -> bool {
        self.of(kind).random_bool(probability.clamp(0.0, 1.0))
    }

    /// A number below this one, which is not zero.
    pub fn below(&mut self, kind: Kind, end: u64) -> u64 {
        self.of(kind).random_range(0..end)
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, kind: Kind, first: u64, last: u64) -> u64 {
        self.of(kind).random_range(first..=last)
    }

    /// One of these, which are not none.
    pub fn one<'a, T>(&mut self, kind: Kind, all: &'a [T]) -> &'a T {
        let index = self.of(kind).random_range(0..all.len());
        &all[index]
    }

    /// A number between two powers of two, small ones as often as large ones: times and sizes.
    pub fn scaled(&mut self, kind: Kind, least: u64, most: u64) -> u64 {
        let bits = |value: u64| f64::from(u32::try_from(value.max(1)).unwrap_or(u32::MAX)).ln();
        let exponent = self.of(kind).random_range(bits(least)..=bits(most));
        (exponent.exp() as u64).clamp(least, most)
    }
}
