//! What is measured, one function a mode. Each prints JSON lines.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gaggle::ids::{GroupId, Lsn, MessageId};
use gaggle::limits;
use gaggle::store::overlay::Overlay;
use gaggle::store::page::{self, PageRequest};
use tempfile::TempDir;

use crate::keeping::{self, Keeping, bytes_below, resident_mb};
use crate::options::Options;
use crate::traffic::Traffic;

/// Prints one line.
pub fn line(test: &str, figures: &[(&str, f64)]) {
    let figures: Vec<String> = figures.iter().map(|(name, value)| format!("\"{name}\":{value:.2}")).collect();
    println!("{{\"test\":\"{test}\",{}}}", figures.join(","));
}

/// The value below which this share lies, in µs.
fn percentile_us(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let index = (times.len().saturating_sub(1) as f64 * share).round() as usize;
    times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn mean_ms(times: &[Duration]) -> f64 {
    times.iter().sum::<Duration>().as_secs_f64() * 1e3 / times.len().max(1) as f64
}

fn most_ms(times: &[Duration]) -> f64 {
    times.iter().max().map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// Writes so many messages to so many groups in turn.
fn fill(keeping: &mut Keeping, traffic: &mut Traffic, messages: u64, groups: u64, batch: u64) {
    let end = traffic.sent() + messages;
    while traffic.sent() < end {
        let number = traffic.sent();
        let frame = traffic.frame(keeping.log.next(), (number..number + batch).map(|number| number % groups + 1));
        keeping.commit(frame);
    }
}

pub fn ingest(options: &Options) {
    let (messages, groups) = (options.get("messages", 500_000), options.get("groups", 100));
    let batch = options.get("batch", 64);
    let folder = TempDir::new().unwrap();
    let mut keeping = Keeping::start(folder.path());
    let mut traffic = Traffic::default();
    let since = Instant::now();
    let mut burst = None;
    while traffic.sent() < messages {
        fill(&mut keeping, &mut traffic, batch, groups, batch);
        if burst.is_none() && keeping.is_full() {
            burst = Some(traffic.sent() as f64 / since.elapsed().as_secs_f64());
        }
    }
    let unsettled = since.elapsed().as_secs_f64();
    keeping.settle();
    let written = traffic.sent() as f64;
    let checkpoints = keeping.progress.checkpoints.lock().unwrap().clone();
    line(
        "ingest",
        &[
            ("messages", written),
            ("groups", groups as f64),
            ("batch", batch as f64),
            ("burst_per_s", burst.unwrap_or(written / unsettled)),
            ("sustained_per_s", written / since.elapsed().as_secs_f64()),
            ("checkpoints", checkpoints.len() as f64),
            ("checkpoint_ms_mean", mean_ms(&checkpoints)),
            ("checkpoint_ms_max", most_ms(&checkpoints)),
        ],
    );
    keeping.stop();
}

pub fn commits(options: &Options) {
    let (secs, rate, batch) = (options.get("secs", 30), options.get("rate", 5_000), options.get("batch", 16));
    let groups = options.get("groups", 100);
    let folder = TempDir::new().unwrap();
    let mut keeping = Keeping::start(folder.path());
    let mut traffic = Traffic::default();
    let (mut quiet, mut beside) = (Vec::new(), Vec::new());
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(secs) {
        let number = traffic.sent();
        let due = Duration::from_secs_f64(number as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(since.elapsed()));
        let busy = keeping.progress.checkpointing.load(Ordering::Relaxed);
        let ops = traffic.frame(keeping.log.next(), (number..number + batch).map(|number| number % groups + 1));
        let (_, took) = keeping.commit(ops);
        if busy { beside.push(took) } else { quiet.push(took) }
    }
    let checkpoints = keeping.progress.checkpoints.lock().unwrap().clone();
    keeping.stop();
    line(
        "commits",
        &[
            ("messages_per_s", traffic.sent() as f64 / secs as f64),
            ("batch", batch as f64),
            ("p50_us", percentile_us(&mut quiet, 0.5)),
            ("p99_us", percentile_us(&mut quiet, 0.99)),
            ("beside_checkpoint_p50_us", percentile_us(&mut beside, 0.5)),
            ("beside_checkpoint_p99_us", percentile_us(&mut beside, 0.99)),
            ("commits_beside_checkpoint", beside.len() as f64),
            ("checkpoints", checkpoints.len() as f64),
            ("checkpoint_ms_mean", mean_ms(&checkpoints)),
        ],
    );
}

/// Reads pages of 100 at places that follow from their number; returns the time of each.
fn read_pages(opened: &gaggle::store::Opened, traffic: &Traffic, groups: u64, pages: u64) -> Vec<Duration> {
    let overlay = Overlay::new();
    let mut times = Vec::new();
    for number in 0..pages {
        let group = number.wrapping_mul(0x9e37_79b9) % groups + 1;
        let head = traffic.head(group);
        let after = number.wrapping_mul(0xd1b5_4a33) % head.saturating_sub(100).max(1);
        let since = Instant::now();
        let page = page::read(
            &*opened.engine,
            &overlay,
            PageRequest {
                group: GroupId::new(group),
                after: MessageId::new(after),
                up_to: MessageId::new(head),
                at: opened.durable,
                rows_max: 100,
                bytes_max: limits::PAGE_BYTES_MAX,
            },
        );
        times.push(since.elapsed());
        let rows = page.unwrap().rows;
        assert_eq!(rows.len() as u64, (head - after).min(100));
        assert_eq!(rows[0].msgid, MessageId::new(after + 1));
    }
    times
}

pub fn pages(options: &Options) {
    let (messages, groups) = (options.get("messages", 1_000_000), options.get("groups", 100));
    let pages = options.get("pages", 2_000);
    let folder = TempDir::new().unwrap();
    let mut traffic = Traffic::default();
    let mut keeping = Keeping::start(folder.path());
    fill(&mut keeping, &mut traffic, messages, groups, 64);
    keeping.stop();
    let opened = keeping::open(folder.path());
    let mut cold = read_pages(&opened, &traffic, groups, pages);
    // A few places again and again: their leaves are in memory then.
    read_pages(&opened, &traffic, groups, 50);
    let mut warm: Vec<Duration> = (0..pages / 50).flat_map(|_| read_pages(&opened, &traffic, groups, 50)).collect();
    let rate = |times: &[Duration]| times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64();
    let figures = [
        ("messages", messages as f64),
        ("cold_per_s", rate(&cold)),
        ("cold_p50_us", percentile_us(&mut cold, 0.5)),
        ("cold_p99_us", percentile_us(&mut cold, 0.99)),
        ("warm_per_s", rate(&warm)),
        ("warm_p50_us", percentile_us(&mut warm, 0.5)),
        ("warm_p99_us", percentile_us(&mut warm, 0.99)),
    ];
    line("pages", &figures);
}

pub fn memory(options: &Options) {
    let (messages, groups) = (options.get("messages", 2_000_000), options.get("groups", 100));
    let folder = TempDir::new().unwrap();
    let mut traffic = Traffic::default();
    let mut keeping = Keeping::start(folder.path());
    let mut most = 0.0_f64;
    let step = messages / 20;
    for number in 1..=20 {
        fill(&mut keeping, &mut traffic, step, groups, 64);
        let resident = resident_mb();
        most = most.max(resident);
        line("memory-step", &[("messages", (number * step) as f64), ("resident_mb", resident)]);
    }
    keeping.settle();
    let recycles = keeping.progress.recycles.lock().unwrap().clone();
    keeping.stop();
    let disk = |name: &str| bytes_below(&folder.path().join(name)) as f64 / messages as f64;
    line(
        "memory",
        &[
            ("messages", messages as f64),
            ("resident_mb_max", most),
            ("recycles", recycles.len() as f64),
            ("recycle_ms_mean", mean_ms(&recycles)),
            ("recycle_ms_max", most_ms(&recycles)),
            ("log_bytes_per_message", disk("log")),
            ("index_bytes_per_message", disk("index")),
        ],
    );
}

fn opening(test: &str, folder: &Path, messages: u64) -> gaggle::store::Opened {
    let since = Instant::now();
    let opened = keeping::open(folder);
    let secs = since.elapsed().as_secs_f64();
    line(test, &[("messages", messages as f64), ("secs", secs), ("messages_per_s", messages as f64 / secs)]);
    opened
}

pub fn start(options: &Options) {
    let (messages, groups) = (options.get("messages", 1_000_000), options.get("groups", 100));
    let folder = TempDir::new().unwrap();
    let mut traffic = Traffic::default();
    let mut keeping = Keeping::start(folder.path());
    fill(&mut keeping, &mut traffic, messages, groups, 64);
    keeping.stop();
    let opened = opening("start-after-clean-stop", folder.path(), messages);
    let last = opened.durable;
    drop(opened);
    // A kill leaves on disk what a copy of the folder shows.
    let mut keeping = Keeping::start(folder.path());
    fill(&mut keeping, &mut traffic, 20_000, groups, 64);
    let killed = TempDir::new().unwrap();
    copy(folder.path(), killed.path());
    keeping.stop();
    let opened = opening("start-after-kill", killed.path(), messages);
    assert_eq!(opened.rebuilt, None, "it was to be replayed, not rebuilt");
    assert!(opened.durable > last && opened.durable > Lsn::ZERO);
    drop(opened);
    std::fs::remove_dir_all(killed.path().join("index")).unwrap();
    let opened = opening("rebuild", killed.path(), messages + 20_000);
    read_pages(&opened, &traffic, groups, 100);
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.metadata().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub fn groups(options: &Options) {
    let (groups, rounds) = (options.get("groups", 10_000), options.get("rounds", 20));
    let folder = TempDir::new().unwrap();
    let mut traffic = Traffic::default();
    let mut keeping = Keeping::start(folder.path());
    let since = Instant::now();
    fill(&mut keeping, &mut traffic, groups * rounds, groups, 64);
    keeping.settle();
    let rate = (groups * rounds) as f64 / since.elapsed().as_secs_f64();
    let checkpoints = keeping.progress.checkpoints.lock().unwrap().clone();
    let resident = resident_mb();
    keeping.stop();
    line(
        "groups",
        &[
            ("groups", groups as f64),
            ("rounds", rounds as f64),
            ("sustained_per_s", rate),
            ("checkpoints", checkpoints.len() as f64),
            ("checkpoint_ms_mean", mean_ms(&checkpoints)),
            ("checkpoint_ms_max", most_ms(&checkpoints)),
            ("resident_mb", resident),
        ],
    );
}
