//! The index beside the log: every row that the log has is in the index as the log has it, and no other row is.
//!
//! The keys are taken in parts, by their hash, so that memory stays bounded whatever the history: of each row of a part
//! the log's last word is kept as a digest (some 40 bytes), at most [`ROWS_AT_ONCE`] rows at a time, thus about 64 MB.
//! A part that turns out to be larger is halved on the way. Each part costs a reading of the log and one of the index.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::ControlFlow;

use crate::ids::Lsn;
use crate::store::engine::{Engine, EngineError, Op};
use crate::store::tree::Tree;
use crate::store::verify::row;
use crate::store::verify::said::{Check, Report, Said};
use crate::store::verify::source::Source;

/// Rows that are compared at once.
pub(super) const ROWS_AT_ONCE: usize = 900_000;
/// Rows missing from the index that are named.
const NAMED_MAX: usize = 100;

/// The log's last word on a row.
struct Last {
    digest: u64,
    lsn: Lsn,
}

/// Some of the keys: those whose hash begins with these bits.
#[derive(Clone, Copy)]
struct Part {
    bits: u32,
    value: u64,
}

impl Part {
    const ALL: Part = Part { bits: 0, value: 0 };

    fn has(self, hash: u128) -> bool {
        let top = u64::try_from(hash >> 64).unwrap_or(u64::MAX);
        self.bits == 0 || top >> (64 - self.bits) == self.value
    }

    fn halves(self) -> (Part, Part) {
        let bits = self.bits + 1;
        (Part { bits, value: self.value << 1 }, Part { bits, value: (self.value << 1) | 1 })
    }
}

/// Hashes with keys of this process, so that nobody can choose rows that collide.
#[derive(Default)]
struct Hashes(RandomState, RandomState);

impl Hashes {
    fn key(&self, tree: Tree, key: &[u8]) -> u128 {
        let parts = (tree.number(), key);
        (u128::from(self.0.hash_one(parts)) << 64) | u128::from(self.1.hash_one(parts))
    }

    fn digest(&self, value: &[u8]) -> u64 {
        self.0.hash_one(value)
    }
}

pub(super) struct Comparison<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) engine: &'a dyn Engine,
    /// What the index says it has applied.
    pub(super) applied: Lsn,
    pub(super) rows_at_once: usize,
}

impl Comparison<'_> {
    /// Compares everything; returns how many rows there are in the index.
    pub(super) fn run(&self, report: &mut Report<'_>) -> Result<u64, EngineError> {
        let hashes = Hashes::default();
        let mut parts = vec![Part::ALL];
        let mut missing = HashMap::new();
        let mut rows = 0;
        while let Some(mut part) = parts.pop() {
            let mut last = self.last_words(&hashes, &mut part, &mut parts, report);
            rows += self.compare(&hashes, part, &mut last, report)?;
            for (key, word) in last {
                if missing.len() < NAMED_MAX {
                    missing.insert(key, word.lsn);
                } else {
                    report.finding(Said::new(Check::Index, "a row of the log is missing from the index"));
                }
            }
        }
        if !missing.is_empty() {
            self.name(&hashes, &missing, report);
        }
        Ok(rows)
    }

    /// What the log says of the rows of a part, up to what the index has applied. Where they are too many the part is
    /// halved, and the other half is left for later.
    fn last_words(
        &self,
        hashes: &Hashes,
        part: &mut Part,
        parts: &mut Vec<Part>,
        report: &mut Report<'_>,
    ) -> HashMap<u128, Last> {
        let mut last: HashMap<u128, Last> = HashMap::new();
        let mut take = |lsn: Lsn, op: &Op| {
            let key = hashes.key(op.tree, &op.key);
            if !part.has(key) {
                return;
            }
            match &op.value {
                Some(value) => last.insert(key, Last { digest: hashes.digest(value), lsn }),
                None => last.remove(&key),
            };
            while last.len() > self.rows_at_once {
                let (one, other) = part.halves();
                *part = one;
                parts.push(other);
                last.retain(|key, _| one.has(*key));
            }
        };
        self.source.again("comparing the log with the index", report, &mut |frame| {
            if frame.lsn <= self.applied {
                frame.ops.iter().for_each(|op| take(frame.lsn, op));
            }
        });
        last
    }

    /// Looks for each row of the index in what the log says; what is found is taken out.
    fn compare(
        &self,
        hashes: &Hashes,
        part: Part,
        last: &mut HashMap<u128, Last>,
        report: &mut Report<'_>,
    ) -> Result<u64, EngineError> {
        let mut rows = 0u64;
        for tree in Tree::ALL {
            self.engine.scan(tree, &[], &mut |key, value| {
                let hash = hashes.key(tree, key);
                if !part.has(hash) {
                    return ControlFlow::Continue(());
                }
                rows += 1;
                if rows.is_multiple_of(4096) {
                    report.step("reading the index", rows, None, "rows");
                }
                match last.remove(&hash) {
                    Some(word) if word.digest == hashes.digest(value) => {}
                    Some(word) => {
                        let name = row::name(tree, key);
                        let what = format!("the index holds {name} with another value than frame {} has put", word.lsn);
                        report.finding(Said::new(Check::Index, what));
                    }
                    None => {
                        let what = format!("the index holds {}, which the log does not", row::name(tree, key));
                        report.finding(Said::new(Check::Index, what));
                    }
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(rows)
    }

    /// Reads the log once more to tell which rows are missing.
    fn name(&self, hashes: &Hashes, missing: &HashMap<u128, Lsn>, report: &mut Report<'_>) {
        let mut names = Vec::new();
        let mut take = |lsn: Lsn, op: &Op| {
            let is_it = op.value.is_some() && missing.get(&hashes.key(op.tree, &op.key)) == Some(&lsn);
            let name = if is_it { Some(row::name(op.tree, &op.key)) } else { None };
            names.extend(name.map(|name| (lsn, name)));
        };
        self.source.again("naming what the index lacks", report, &mut |frame| {
            frame.ops.iter().for_each(|op| take(frame.lsn, op));
        });
        names.dedup();
        for (lsn, name) in names {
            let what = format!("the index lacks {name}, which frame {lsn} has put");
            report.finding(Said::new(Check::Index, what));
        }
    }
}
