//! Deliberately wrong builds: each is caught, from a pinned seed in seconds, and from any seeds within minutes.
//!
//! `GAGGLE_SIM_WRONG=N` looks for each among the seeds from N on, for two minutes at most, and says which seed found it after
//! how long; with `GAGGLE_SIM_WRONG_NAME` for one of them. Where a change has shifted what seeds do, that is how to pin
//! others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use gaggle::proof::{self, Wrong};

use crate::world::{self, Ran};
use crate::{now, on_all_cores, variable};

/// How long a search takes at most.
const SEARCH: Duration = Duration::from_secs(120);

/// A seed that catches each.
const PINNED: [(Wrong, u64); 24] = [
    (Wrong::AnswerBeforeSync, 2),
    (Wrong::ResendBeforeDurable, 15),
    (Wrong::HeadBeforeDurable, 1),
    (Wrong::NoDedup, 2),
    (Wrong::DedupAfterAuthorisation, 3),
    (Wrong::AckBeyondHanded, 4),
    (Wrong::HandedByPagePlanned, 4),
    (Wrong::IntervalOffByOne, 1),
    (Wrong::FrameSkippedAtOpen, 2),
    (Wrong::StaleFrameKept, 60),
    (Wrong::RolledBackIndexKept, 89),
    (Wrong::OverlayDroppedEarly, 1),
    (Wrong::RelativeOp, 3),
    (Wrong::PushWithGap, 1),
    (Wrong::MsgidReused, 2),
    (Wrong::OutboxDroppedEarly, 1),
    (Wrong::CursorBeforeDurable, 2),
    (Wrong::SendOvertakes, 4),
    (Wrong::UnreadCountsOwn, 1),
    (Wrong::ReadMarkGoesBack, 2),
    (Wrong::RecallKept, 19),
    (Wrong::EditShownUnseen, 33),
    (Wrong::ReceiptOfAbsent, 5),
    (Wrong::TrimOneTooMany, 1),
];

/// Runs a seed of a wrong build.
fn run(wrong: Wrong, seed: u64) -> Ran {
    proof::set(Some(wrong));
    let ran = world::run(seed);
    proof::set(None);
    ran
}

#[test]
fn each_wrong_build_is_caught_from_its_pinned_seed() {
    let missed = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    on_all_cores(|| {
        while let Some((wrong, seed)) = PINNED.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = now();
            let words = match run(*wrong, *seed).failure {
                Some(failure) => format!("{} after {} steps", failure.broken, failure.step),
                None => {
                    missed.lock().unwrap().push(wrong.name());
                    "MISSED".to_owned()
                }
            };
            eprintln!("{:<26} seed {seed:>6}, {:.1} s: {words}", wrong.name(), began.elapsed().as_secs_f64());
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not caught: {missed:?}");
    let pinned: Vec<Wrong> = PINNED.iter().map(|(wrong, _)| *wrong).collect();
    assert_eq!(pinned, Wrong::ALL, "each has its seed");
}

#[test]
fn each_wrong_build_is_caught_from_any_seeds() {
    let Some(first) = variable("GAGGLE_SIM_WRONG") else {
        eprintln!("SKIPPED: set GAGGLE_SIM_WRONG=N to look for each wrong build among the seeds from N on");
        return;
    };
    let name = std::env::var("GAGGLE_SIM_WRONG_NAME").ok();
    let wanted = Wrong::ALL.into_iter().filter(|wrong| name.as_ref().is_none_or(|name| name == wrong.name()));
    let wanted: Vec<Wrong> = wanted.collect();
    assert!(!wanted.is_empty(), "no wrong build has the name {name:?}");
    let missed: Vec<&str> = wanted.into_iter().filter(|wrong| !search(*wrong, first)).map(Wrong::name).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

fn search(wrong: Wrong, first: u64) -> bool {
    let began = now();
    let (next, found) = (AtomicU64::new(first), AtomicBool::new(false));
    on_all_cores(|| {
        while !found.load(Ordering::Relaxed) && began.elapsed() < SEARCH {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let Some(failure) = run(wrong, seed).failure else { continue };
            if !found.swap(true, Ordering::Relaxed) {
                let (tried, seconds) = (seed - first + 1, began.elapsed().as_secs_f64());
                eprintln!("{:<26} {tried:>5} seeds, {seconds:>5.1} s: seed {seed}: {}", wrong.name(), failure.broken);
            }
        }
    });
    if !found.load(Ordering::Relaxed) {
        let tried = next.load(Ordering::Relaxed) - first;
        eprintln!("{:<26} {tried:>5} seeds, {:>5.1} s: MISSED", wrong.name(), began.elapsed().as_secs_f64());
    }
    found.into_inner()
}
