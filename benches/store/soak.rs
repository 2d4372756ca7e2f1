//! The soak: commits, pages, trims by `remove`, checkpoints, recycles and condensing at once, for as long as asked for.
//!
//! What must stand in a page follows from the group and the msgids in it, so every page is compared with it as it is
//! read, and everything at the end, once more after the store was opened anew. A line each minute tells memory and disk,
//! which must level off; disk also as a multiple of the items that are kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use gaggle::ids::{GroupId, Lsn, MessageId};
use gaggle::limits;
use gaggle::store::engine::{Engine, EngineError, Op};
use gaggle::store::overlay::Overlay;
use gaggle::store::page::{self, PageRequest, ReadError};
use gaggle::store::tree::Tree;
use tempfile::TempDir;

use crate::keeping::{self, Keeping, bytes_below, resident_mb};
use crate::measures::line;
use crate::options::Options;
use crate::traffic::{self, Traffic};

/// Messages that a group keeps; older ones are trimmed.
const KEPT: u64 = 2_000;
/// Messages trimmed at once.
const TRIMMED: u64 = 500;

/// What readers may look at: of each group, the messages from the first kept to the head; and the lsn to read at.
#[derive(Default)]
struct Published {
    groups: Vec<(u64, u64)>,
    at: Lsn,
}

struct Shared {
    published: RwLock<Published>,
    overlay: Overlay,
    engine: Arc<dyn Engine>,
    ended: AtomicBool,
    pages: AtomicU64,
    waited: AtomicU64,
}

pub fn run(options: &Options) {
    let (minutes, groups) = (options.get("minutes", 60), options.get("groups", 200));
    let pause = Duration::from_micros(options.get("pause_us", 2_000));
    let folder = TempDir::new().unwrap();
    let mut keeping = Keeping::start(folder.path());
    keeping.condense();
    let shared = Arc::new(Shared {
        published: RwLock::new(Published { groups: vec![(1, 0); groups as usize], at: Lsn::ZERO }),
        overlay: keeping.overlay.clone(),
        engine: Arc::clone(&keeping.engine),
        ended: AtomicBool::new(false),
        pages: AtomicU64::new(0),
        waited: AtomicU64::new(0),
    });
    let reader = |seed| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || read(&shared, seed))
    };
    let readers = [reader(1), reader(2)];
    let mut traffic = Traffic::default();
    // The rows that count what is kept for its authors go with it.
    let mut own = vec![VecDeque::new(); groups as usize];
    let (since, mut minute, mut number) = (Instant::now(), 0, 0_u64);
    while minute < minutes {
        let lsn = keeping.log.next();
        let chosen: Vec<u64> = (0..32).map(|index| (number * 32 + index * 7) % groups + 1).collect();
        let ops = traffic.frame(lsn, chosen.iter().copied());
        let own_keys = ops.iter().filter(|op| op.tree == Tree::Own).map(|op| op.key.clone());
        chosen.iter().zip(own_keys).for_each(|(group, key)| own[*group as usize - 1].push_back(key));
        keeping.commit(ops);
        let heads: Vec<(u64, u64)> = chosen.iter().map(|group| (*group, traffic.head(*group))).collect();
        let mut due = Vec::new();
        publish(&shared, lsn, |published| {
            for (group, head) in &heads {
                let entry = &mut published[*group as usize - 1];
                entry.1 = *head;
                if entry.1 - entry.0 >= KEPT + TRIMMED {
                    due.push((*group, entry.0));
                    entry.0 += TRIMMED;
                }
            }
        });
        for (group, first) in due {
            keeping.commit(traffic::first_kept(group, first + TRIMMED));
            let mut ops = traffic::removed(group, first..first + TRIMMED);
            let gone = own[group as usize - 1].drain(..TRIMMED as usize);
            ops.extend(gone.map(|key| Op { tree: Tree::Own, key, value: None }));
            let (lsn, _) = keeping.commit(ops);
            publish(&shared, lsn, |_| ());
        }
        number += 1;
        std::thread::sleep(pause);
        if since.elapsed().as_secs() / 60 > minute {
            minute += 1;
            tell(&keeping, &shared, minute, number * 32);
        }
    }
    shared.ended.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    keeping.settle();
    let groups = shared.published.read().unwrap().groups.clone();
    drop(shared);
    keeping.stop();
    let opened = keeping::open(folder.path());
    let mut rows = 0;
    for (index, (first, head)) in groups.iter().enumerate() {
        rows += check(&*opened.engine, &Overlay::new(), index as u64 + 1, *first, *head, opened.durable);
    }
    line("soak-end", &[("rows_equal_the_model", rows as f64), ("commits", number as f64)]);
}

fn publish(shared: &Shared, at: Lsn, change: impl FnOnce(&mut Vec<(u64, u64)>)) {
    let mut published = shared.published.write().unwrap();
    change(&mut published.groups);
    published.at = at;
}

fn tell(keeping: &Keeping, shared: &Shared, minute: u64, messages: u64) {
    let count = |times: &std::sync::Mutex<Vec<Duration>>| times.lock().unwrap().len() as f64;
    let megabytes = |name| bytes_below(&keeping.folder.join(name)) as f64 / 1e6;
    let (index, log) = (megabytes("index"), megabytes("log"));
    let kept: u64 = shared.published.read().unwrap().groups.iter().map(|(first, head)| head + 1 - first).sum();
    let items = kept as f64 * traffic::ITEM_BYTES as f64 / 1e6;
    line(
        "soak",
        &[
            ("minute", minute as f64),
            ("messages", messages as f64),
            ("pages", shared.pages.load(Ordering::Relaxed) as f64),
            ("reads_that_waited", shared.waited.load(Ordering::Relaxed) as f64),
            ("checkpoints", count(&keeping.progress.checkpoints)),
            ("recycles", count(&keeping.progress.recycles)),
            ("condensed", keeping.progress.condensed.load(Ordering::Relaxed) as f64),
            ("resident_mb", resident_mb()),
            ("items_mb", items),
            ("index_mb", index),
            ("log_mb", log),
            ("times_items", (index + log) / items),
        ],
    );
}

/// Reads pages at places that follow from the seed, until the end.
fn read(shared: &Shared, seed: u64) {
    let mut state = seed;
    while !shared.ended.load(Ordering::Relaxed) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let (group, first, head, at) = {
            let published = shared.published.read().unwrap();
            let group = (state >> 33) % published.groups.len() as u64;
            let (first, head) = published.groups[group as usize];
            (group + 1, first, head, published.at)
        };
        if head < first {
            continue;
        }
        let after = first - 1 + (state >> 17) % (head - first + 1);
        match page_of(&*shared.engine, &shared.overlay, group, after, head.min(after + 100), at) {
            Ok(rows) => {
                // What was trimmed since the look may be missing or not.
                let first_now = shared.published.read().unwrap().groups[group as usize - 1].0;
                compare(&rows, group, (after + 1).max(first_now), head.min(after + 100));
                shared.pages.fetch_add(1, Ordering::Relaxed);
            }
            Err(ReadError::Engine(EngineError::Busy)) => {
                shared.waited.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => panic!("{other}"),
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

type Row = (u64, bytes::Bytes);

fn page_of(
    engine: &dyn Engine,
    overlay: &Overlay,
    group: u64,
    after: u64,
    up_to: u64,
    at: Lsn,
) -> Result<Vec<Row>, ReadError> {
    let request = PageRequest {
        group: GroupId::new(group),
        after: MessageId::new(after),
        up_to: MessageId::new(up_to),
        at,
        rows_max: 100,
        bytes_max: limits::PAGE_BYTES_MAX,
    };
    let page = page::read(engine, overlay, request)?;
    Ok(page.rows.into_iter().map(|row| (row.msgid.value(), row.record.item)).collect())
}

/// All from `first` to `last` must be there, in order; and every row with the bytes that belong to it.
fn compare(rows: &[Row], group: u64, first: u64, last: u64) {
    let kept = rows.iter().map(|(msgid, _)| *msgid).filter(|msgid| *msgid >= first);
    assert!(kept.eq(first..=last), "group {group}: not dense from {first} to {last}");
    for (msgid, item) in rows {
        assert_eq!(*item, traffic::item(group, *msgid), "group {group}, message {msgid}");
    }
}

/// Compares a whole group; returns how many rows that were.
fn check(engine: &dyn Engine, overlay: &Overlay, group: u64, first: u64, head: u64, at: Lsn) -> u64 {
    let mut after = 0;
    let mut rows = 0;
    while after < head {
        let page = page_of(engine, overlay, group, after, head, at).unwrap();
        let from = (after + 1).max(first);
        assert!(page.first().is_some_and(|(msgid, _)| *msgid == from), "group {group}: it does not begin at {from}");
        compare(&page, group, from, page.last().unwrap().0);
        after = page.last().unwrap().0;
        rows += page.len() as u64;
    }
    rows
}
