//! Runs the fuzzer's targets without the fuzzer: every input that it found worth keeping, and damaged copies of them.
//!
//! How the fuzzer itself is run stands in `tests/fuzz/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should fail loudly"
)]

#[path = "fuzz/targets.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use crate::targets::{ALL, Target};

/// What all corpora may take together: they are in every checkout.
const CORPORA_BYTES_MAX: usize = 300 * 1024;

/// Inputs that are tried of each target beside the kept ones; the fuzzer tries millions.
const CASES: u32 = 1_000;

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(kind)
}

fn files(kind: &str, target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder(kind).join(target.name)) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

fn run_all(kind: &str) {
    for target in ALL {
        for (path, bytes) in files(kind, target) {
            let held = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
            assert!(held.is_ok(), "{} does not hold", path.display());
        }
    }
}

#[test]
fn every_input_that_the_fuzzer_kept_holds() {
    run_all("corpus");
}

#[test]
fn nothing_that_the_fuzzer_once_found_comes_back() {
    run_all("findings");
}

#[test]
fn every_target_has_a_corpus_of_its_own_and_all_are_small() {
    let corpora: Vec<_> = ALL.iter().map(|target| files("corpus", target)).collect();
    assert!(corpora.iter().all(|corpus| corpus.len() >= 3), "a target without a corpus finds little");
    let bytes: usize = corpora.iter().flatten().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes <= CORPORA_BYTES_MAX, "{bytes} bytes");
    for kind in ["corpus", "findings"] {
        for entry in fs::read_dir(folder(kind)).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(ALL.iter().any(|target| target.name == name), "{kind} of no target: {}", name.display());
        }
    }
}

/// A kept input with some bytes overwritten, one run of another kept input in place of one of its own, and an end.
fn damaged(kept: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let place = any::<prop::sample::Index>;
    let kept = move || prop::sample::select(kept.clone());
    let overwritten = vec((place(), any::<u8>()), 0..4);
    (kept(), kept(), overwritten, place(), 0usize..40, place(), 0usize..40, prop::option::of(place())).prop_map(
        |(mut bytes, other, overwritten, cut, cut_bytes, from, from_bytes, end)| {
            let start = cut.index(bytes.len() + 1);
            let from = from.index(other.len() + 1);
            let run = other[from..(from + from_bytes).min(other.len())].to_vec();
            bytes.splice(start..(start + cut_bytes).min(bytes.len()), run);
            for (place, byte) in overwritten {
                let places = bytes.len().max(1);
                if let Some(there) = bytes.get_mut(place.index(places)) {
                    *there = byte;
                }
            }
            bytes.truncate(end.map_or(bytes.len(), |end| end.index(bytes.len() + 1)));
            bytes
        },
    )
}

/// Tries many inputs with every target; a failing one is told in hex, to be kept among the findings.
fn try_many<S: Strategy<Value = Vec<u8>>>(inputs: impl Fn(&Target) -> S) {
    let mut failed = Vec::new();
    for target in ALL {
        let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
        let run = |bytes: Vec<u8>| {
            (target.run)(&bytes);
            Ok(())
        };
        if let Err(TestError::Fail(why, bytes)) = TestRunner::new(config).run(&inputs(target), run) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            failed.push(format!("{}: {why}: {hex}", target.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn any_damage_to_a_kept_input_holds_as_well() {
    try_many(|target| damaged(files("corpus", target).into_iter().map(|(_, bytes)| bytes).collect()));
}

#[test]
fn any_bytes_at_all_hold() {
    try_many(|_| vec(any::<u8>(), 0..300));
}
