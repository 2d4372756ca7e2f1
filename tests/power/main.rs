//! Power loss for real: the data folder on a small ext4 of its own under load, cut at random instants, and each cut opened
//! and held to everything that was answered before it.
//!
//! `disk` is the ext4 and the cut, `load` the clients and what they write down of the answers, `judge` opens a cut and
//! holds it to that, `cuts` are the tests. It takes Linux, root and loop devices; elsewhere the tests say on stderr that
//! they did nothing. What it does not show: a disk that loses what it was told to flush, or reorders what it was given;
//! the simulated disk does that.
//!
//! `GAGGLE_POWER_CUTS=300 cargo test --test power outlives -- --nocapture` makes so many cuts, and says of each what it
//! held. `GAGGLE_CRASH_SEED` replays the choices of a run, as far as they are the test's: threads and disks are as they are.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets what it does not expect should fail loudly"
)]

mod cuts;
mod disk;
#[allow(dead_code, reason = "it is shared with the tests of kills")]
#[path = "../crash/folder.rs"]
mod folder;
#[allow(dead_code, reason = "it is shared with the end-to-end tests")]
#[path = "../e2e/harness.rs"]
mod harness;
mod judge;
mod load;
#[allow(dead_code, reason = "it is shared with the tests of kills")]
#[path = "../crash/mount.rs"]
mod mount;
#[allow(dead_code, reason = "it is shared with the tests of kills")]
#[path = "../crash/process.rs"]
mod process;
#[allow(dead_code, reason = "it is shared with the end-to-end tests")]
#[path = "../e2e/raw.rs"]
mod raw;
#[allow(dead_code, reason = "it is shared with the tests of kills")]
#[path = "../crash/window.rs"]
mod window;
