//! Measures the store alone: log, overlay, applier and the index on disk, without network. One JSON line a result.
//!
//! It works in a folder of its own below `TMPDIR`: choose one on a real disk. Modes and options:
//!
//! ```text
//! ingest messages=500000 groups=100 batch=64    commits as fast as they go: first until the queue to the index is full
//!                                               (burst), then with the index keeping up (sustained)
//! commits secs=30 rate=5000 batch=16            commits at a pace that the index keeps up with: how long each takes, with
//!                                               and without a checkpoint under way
//! pages messages=1000000 groups=100 pages=2000  pages of 100 at random places: cold (just opened) and warm
//! memory messages=2000000 groups=100            resident memory while that many are written, and bytes on disk of each
//! start messages=1000000                        opening after a clean stop, after a kill, and by rebuild
//! groups groups=10000 rounds=20                 a message in each of many groups, round after round
//! soak minutes=60 groups=200                    commits, pages, trims, checkpoints, recycles, condensing; every page is
//!                                               compared with what must stand there; a line each minute
//! all                                           all but the soak
//! ```

#![allow(
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a measurement that meets what it does not expect should end loudly"
)]

mod keeping;
mod measures;
#[path = "../load/options.rs"]
mod options;
mod soak;
mod traffic;

use crate::options::Options;

fn main() {
    let options = Options::read();
    match options.mode.as_str() {
        "ingest" => measures::ingest(&options),
        "commits" => measures::commits(&options),
        "pages" => measures::pages(&options),
        "memory" => measures::memory(&options),
        "start" => measures::start(&options),
        "groups" => measures::groups(&options),
        "soak" => soak::run(&options),
        "all" => {
            measures::ingest(&options);
            measures::commits(&options);
            measures::pages(&options);
            measures::memory(&options);
            measures::start(&options);
            measures::groups(&options);
        }
        other => panic!("{other:?} is none of ingest, commits, pages, memory, start, groups, soak, all"),
    }
}
