//! End to end: a whole server and whole clients over real QUIC on loopback.
//!
//! `harness` starts servers and people in this process, `raw` speaks the protocol frame by frame, `relay` is the bad
//! network between them. `shell` and `terminal` run the program itself, as people and scripts do. The other modules
//! are tests, one for each subject.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets what it does not expect should fail loudly"
)]

mod bad_input;
mod cli;
mod delivery;
mod devices;
#[allow(dead_code, reason = "a toolbox: not every tool is in use at any time")]
mod harness;
mod index;
mod library;
mod members;
mod newcomer;
mod pages;
mod presence;
#[allow(dead_code, reason = "a toolbox: not every tool is in use at any time")]
mod raw;
#[allow(dead_code, reason = "a toolbox: not every tool is in use at any time")]
mod relay;
mod replay;
mod retention;
mod said;
mod sends;
mod shell;
mod terminal;
mod told;
mod trust;
mod unread;
mod verify;
