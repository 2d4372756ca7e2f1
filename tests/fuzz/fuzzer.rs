//! The fuzzer: runs the target that `GAGGLE_FUZZ` names, and counts the memory that it takes.
//!
//! `run`, beside this file, builds and starts it; what it claims stands with the targets.

#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

use crate::targets::{ALL, Target};

/// What any target may take beside what its input is worth: a simulated disk, and the frame that a length announces.
const BYTES_BASE: usize = 2 * 1024 * 1024;
/// And for each byte of input: every decoder takes memory only for what is there.
const BYTES_EACH: usize = 256;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("GAGGLE_FUZZ").unwrap_or_default();
    let names = || ALL.iter().map(|target| target.name).collect::<Vec<_>>().join(" ");
    ALL.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("GAGGLE_FUZZ is to be one of: {}", names()))
});

fuzz_target!(|bytes: &[u8]| {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    (TARGET.run)(bytes);
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken <= BYTES_BASE + BYTES_EACH * bytes.len(), "{taken} bytes of memory for {} bytes", bytes.len());
});
