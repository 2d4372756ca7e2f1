//! What was answered is kept: servers that are killed, disks that fail, and the order of write, sync and answer.
//!
//! `process` runs the real program; the end-to-end tests' harness runs a server in this process where the disk must be a
//! simulated one.

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

mod damage;
mod disk;
mod folder;
mod full;
#[allow(dead_code, reason = "it is shared with the end-to-end tests")]
#[path = "../e2e/harness.rs"]
mod harness;
mod index_kill;
mod kills;
mod mount;
mod order;
#[allow(dead_code, reason = "it is shared with the tests of power losses")]
mod process;
#[allow(dead_code, reason = "it is shared with the end-to-end tests")]
#[path = "../e2e/raw.rs"]
mod raw;
mod rebuild;
mod signals;
#[allow(dead_code, reason = "it is shared with the tests of power losses")]
mod window;
