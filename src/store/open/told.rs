//! What opening a store tells while it goes on, and why an index is rebuilt: words for whoever prints them.

use crate::ids::Lsn;

/// Why the index is not taken as it is, but rebuilt from the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Somebody asked for it.
    #[error("it was asked for")]
    Asked,
    /// `flushed` is missing, or nothing in it is valid.
    #[error("nothing is recorded about it: this folder never had one, or its file `flushed` was lost or damaged")]
    Unrecorded,
    /// Doubt was recorded.
    #[error("it had failed, or an earlier rebuild did not come to its end")]
    InDoubt,
    /// It was opened several times, and the program ended within it each time.
    #[error("the last {opens} attempts to open it did not come to their end")]
    NeverOpened {
        /// How many times.
        opens: u8,
    },
    /// There is none, though it was recorded.
    #[error("it is missing")]
    Missing,
    /// Somebody has changed its files since it came to rest.
    #[error("its files are not as the last clean stop left them")]
    Changed,
    /// It does not open, or cannot be read, or belongs to another store.
    #[error("{0}")]
    Failed(String),
    /// It has lost something.
    #[error("it holds frames up to {applied}, though it was recorded as durable up to {recorded}")]
    Behind {
        /// What it holds.
        applied: Lsn,
        /// What it held before.
        recorded: Lsn,
    },
}

/// How far opening has come. Nothing is told of a new folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A segment of the log was checked.
    Checking {
        /// Which one, from 1.
        segment: usize,
        /// Segments there are.
        segments: usize,
    },
    /// The index is going to be rebuilt; told once.
    Rebuilding(Reason),
    /// Frames that the index lacks are put into it.
    Filling {
        /// From which segment of the log, from 1.
        segment: usize,
        /// Segments there are.
        segments: usize,
        /// The frame that was applied last.
        lsn: Lsn,
        /// Messages that were put into the index so far.
        messages: u64,
    },
    /// The old index could not be removed after a rebuild; the reason. The next start tries again.
    OldStays(String),
    /// The index is rebuilt, and durable.
    Rebuilt {
        /// Messages that were put into it.
        messages: u64,
    },
}
