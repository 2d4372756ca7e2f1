//! Deterministic simulation: the real step machines of server and clients, over a simulated disk, index, network and
//! clock, held against a model after every step. One seed is one run, the same each time. People send, edit, recall, react,
//! reply and mention, in groups and alone with one another; they read, mark unread, and ask what has changed and who has
//! come how far; they come and go, get roles, are muted and banned.
//!
//! By default some hundreds of seeds run, always the same. `GAGGLE_SIM_SEED=N` runs one and tells all of it,
//! `GAGGLE_SIM_SEEDS=N` as many from `GAGGLE_SIM_FIRST` on, `GAGGLE_SIM_MINUTES=N` for so long. Not simulated are sled, QUIC
//! and the kernel: what they may do to the rest is, by an index that loses what was not flushed and fails in its known
//! ways, by streams that are cut and delayed, and by a disk that loses and tears what was not synced.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect should fail loudly"
)]

mod chance;
mod client;
mod errand;
mod model;
mod network;
mod plan;
mod server;
mod story;
mod talk;
mod wire;
mod world;
mod wrong;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::story::Failure;
use crate::world::World;

/// Seeds of a default run: about two minutes on two cores.
const SEEDS: u64 = 450;

/// What a number of runs were.
#[derive(Debug, Default)]
struct Runs {
    seeds: u64,
    steps: u64,
    elapsed: Duration,
    failures: Vec<Failure>,
}

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "how long the runs may take is real time")]
    Instant::now()
}

/// Does this on every core at once, until each has come to its end.
fn on_all_cores(work: impl Fn() + Sync) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
}

/// Runs seeds from `first` on, on all cores, until so many are done, the time is over, or `failures_max` have failed.
fn run(first: u64, count: u64, until: Option<Instant>, failures_max: usize) -> Runs {
    let (next, steps, seeds) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    let began = now();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let enough = failures.lock().unwrap().len() >= failures_max;
            if seed >= first.saturating_add(count) || enough || until.is_some_and(|until| now() >= until) {
                return;
            }
            let ran = world::run(seed);
            steps.fetch_add(ran.steps, Ordering::Relaxed);
            seeds.fetch_add(1, Ordering::Relaxed);
            if let Some(failure) = ran.failure {
                eprintln!("{failure}");
                failures.lock().unwrap().push(failure);
            }
        }
    };
    on_all_cores(work);
    let failures = failures.into_inner().unwrap();
    Runs { seeds: seeds.into_inner(), steps: steps.into_inner(), elapsed: began.elapsed(), failures }
}

#[test]
fn promises_hold_after_every_step_of_every_seed() {
    if let Some(seed) = variable("GAGGLE_SIM_SEED") {
        let mut world = World::new(seed);
        world.tells = true;
        let ran = world::finish(world);
        assert!(ran.failure.is_none(), "{}", ran.failure.unwrap());
        return;
    }
    let minutes = variable("GAGGLE_SIM_MINUTES");
    let until = minutes.map(|minutes| now() + Duration::from_secs(60 * minutes));
    let count = variable("GAGGLE_SIM_SEEDS").unwrap_or(if until.is_some() { u64::MAX } else { SEEDS });
    let first = variable("GAGGLE_SIM_FIRST").unwrap_or(1);
    let runs = run(first, count, until, 5);
    let seconds = runs.elapsed.as_secs_f64();
    eprintln!(
        "{} seeds from {first} on, {} steps, in {seconds:.0} s: {:.1} seeds and {:.0} steps a second",
        runs.seeds,
        runs.steps,
        runs.seeds as f64 / seconds,
        runs.steps as f64 / seconds,
    );
    assert!(runs.failures.is_empty(), "{} of {} seeds failed; see above", runs.failures.len(), runs.seeds);
}

#[test]
fn one_seed_is_one_run() {
    for seed in 1..=8 {
        let digests = [world::run(seed), world::run(seed)].map(|ran| (ran.steps, ran.digest));
        assert_eq!(digests[0], digests[1], "seed {seed} ran in two ways");
    }
}
