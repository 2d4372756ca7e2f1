//! What a measuring program was told on its command line; for all of them.

use std::collections::HashMap;

/// `MODE key=value …`, without what cargo adds.
pub struct Options {
    pub mode: String,
    values: HashMap<String, u64>,
}

impl Options {
    /// What this program was started with.
    pub fn read() -> Options {
        let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
        let mode = words.next().unwrap_or("all".to_owned());
        let value = |word: String| {
            let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("{word:?} is not key=value"));
            (key.to_owned(), value.parse().unwrap_or_else(|_| panic!("{word:?} is no number")))
        };
        Options { mode, values: words.map(value).collect() }
    }

    /// What was given, or this.
    pub fn get(&self, key: &str, default: u64) -> u64 {
        self.values.get(key).copied().unwrap_or(default)
    }
}
