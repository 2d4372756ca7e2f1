//! What is known of the operations of a segment while a round goes over the log.

use std::hash::{BuildHasher as _, RandomState};

use crate::store::tree::Tree;

/// A bit for each operation of a segment.
#[derive(Default, Clone)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Sets a bit; says whether it was not set.
    pub(super) fn set(&mut self, index: usize) -> bool {
        let was = self.has(index);
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
        !was
    }

    /// Sets all bits that this one has.
    pub(super) fn add(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }
}

/// The hash of a tree and a key: 128 bits, in two halves, as they take less room in a map so.
pub(super) type Key = (u64, u64);

/// An operation as a round sees it.
pub(super) struct Seen {
    pub(super) key: Key,
    pub(super) is_put: bool,
    pub(super) bytes: usize,
}

/// What a round has found out about one segment.
#[derive(Default)]
pub(super) struct Marks {
    /// Operations that a later one makes dead.
    pub(super) dead: Bits,
    /// Removes that are the last word on their key.
    pub(super) removes: Bits,
    pub(super) dead_bytes: u64,
    pub(super) remove_bytes: u64,
    pub(super) bytes: u64,
    /// Earlier segments with puts that removes of this one make dead.
    pub(super) puts_in: Bits,
}

/// Hashes with keys of this process, so that nobody can choose rows that collide; long enough that none do by chance.
#[derive(Default)]
pub(super) struct Hashes(RandomState, RandomState);

impl Hashes {
    pub(super) fn key(&self, tree: Tree, key: &[u8]) -> Key {
        let parts = (tree.number(), key);
        (self.0.hash_one(parts), self.1.hash_one(parts))
    }
}

/// Some of the keys: those whose hash begins with these bits.
#[derive(Clone, Copy)]
pub(super) struct Part {
    bits: u32,
    value: u64,
}

impl Part {
    pub(super) const ALL: Part = Part { bits: 0, value: 0 };

    pub(super) fn has(self, (top, _): Key) -> bool {
        self.bits == 0 || top >> (64 - self.bits) == self.value
    }

    pub(super) fn halves(self) -> (Part, Part) {
        let bits = self.bits + 1;
        (Part { bits, value: self.value << 1 }, Part { bits, value: (self.value << 1) | 1 })
    }
}
