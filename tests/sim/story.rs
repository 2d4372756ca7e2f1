//! What happened in a run: a digest of all of it, by which two runs are compared, and its end in words, for a failure.

use std::collections::VecDeque;
use std::fmt;

/// Happenings that are remembered in words.
const REMEMBERED: usize = 400;
/// Of them, those that a failure prints.
const PRINTED: usize = 60;

/// See the module.
pub struct Story {
    step: u64,
    digest: u64,
    last: VecDeque<(u64, String)>,
}

/// How a run failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Which run.
    pub seed: u64,
    /// At which step.
    pub step: u64,
    /// What was broken.
    pub broken: String,
    /// What happened before, the latest last.
    pub history: Vec<String>,
}

impl Story {
    /// Nothing has happened.
    pub fn new() -> Story {
        Story { step: 0, digest: 0xcbf2_9ce4_8422_2325, last: VecDeque::new() }
    }

    /// The next step begins.
    pub fn step(&mut self) {
        self.step += 1;
    }

    /// Something happened.
    pub fn tell(&mut self, words: fmt::Arguments<'_>) {
        let words = words.to_string();
        self.mix(words.as_bytes());
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back((self.step, words));
    }

    /// These bytes travelled, or were decided: they count, but are not told.
    pub fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// What two runs of one seed have in common.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// A promise was broken. Of the history only what speaks of the same groups and devices is kept, and what struck
    /// everybody.
    pub fn failure(&self, seed: u64, broken: String) -> Failure {
        let names: Vec<&str> =
            broken.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| is_name(word)).collect();
        let concerns = |words: &str| {
            let mut named = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| is_name(word)).peekable();
            named.peek().is_none() || names.is_empty() || named.any(|name| names.contains(&name))
        };
        let mut history: Vec<String> = self
            .last
            .iter()
            .filter(|(_, words)| concerns(words))
            .map(|(step, words)| format!("{step}: {words}"))
            .collect();
        let from = history.len().saturating_sub(PRINTED);
        Failure { seed, step: self.step, broken, history: history.split_off(from) }
    }
}

/// `g7`, `d9` and the like.
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    matches!(letters.next(), Some('g' | 'd')) && word.len() > 1 && letters.all(|letter| letter.is_ascii_digit())
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, step, broken, history } = self;
        writeln!(out, "seed {seed}, step {step}: {broken}")?;
        for line in history {
            writeln!(out, "    {line}")?;
        }
        write!(out, "  once more: GAGGLE_SIM_SEED={seed} cargo test --test sim")
    }
}
