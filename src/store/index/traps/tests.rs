//! What sled does today, trap by trap, and that the guard sees it. An update of sled that mends one fails here, and so
//! says which guard is not needed any more.
//!
//! What ends or never ends a process is done in a child: this test program again, with one test and a folder.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::store::engine::EngineError;
use crate::store::index::opening::open_db;
use crate::store::index::preflight::{self, metadata_in};
use crate::store::index::{FANOUT, Settings};
use crate::store::suite::{copy_folder, once_unlocked};

/// Keys of a leaf where a test wants many leaves of few rows.
const FEW: usize = 4;
const ROWS: u32 = 400;
/// Leaves that so many rows fill at least.
const LEAVES: u64 = 100;
const ABORTED: i32 = 6;
const FOLDER_VARIABLE: &str = "GAGGLE_TRAP_FOLDER";

fn plain<const KEYS: usize>(folder: &Path) -> io::Result<sled::Db<KEYS>> {
    once_unlocked(|| sled::Config::new().path(folder).flush_every_ms(Some(usize::MAX)).open())
}

fn key(row: u32) -> [u8; 4] {
    row.to_be_bytes()
}

/// Puts rows into a database, and flushes.
fn fill<const KEYS: usize>(db: &sled::Db<KEYS>) {
    for row in 0..ROWS {
        db.insert(key(row), [7; 20]).unwrap();
    }
    db.flush().unwrap();
}

fn filled<const KEYS: usize>(folder: &Path) {
    fill(&plain::<KEYS>(folder).unwrap());
}

fn count<const KEYS: usize>(db: &sled::Db<KEYS>) -> u32 {
    u32::try_from(db.iter().map(Result::unwrap).count()).unwrap()
}

/// How many leaves were asked for so far.
fn asked<const KEYS: usize>(db: &sled::Db<KEYS>) -> u64 {
    let cache = db.stats().cache;
    cache.cache_hits + cache.cache_misses
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    named(&metadata_in(folder), "log_")
}

fn snapshots(folder: &Path) -> Vec<PathBuf> {
    named(&metadata_in(folder), "snapshot_")
}

/// The files of a folder whose names begin so, in order.
fn named(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect();
    found.sort();
    found
}

/// Slabs that hold something.
fn slabs(folder: &Path) -> Vec<PathBuf> {
    let mut found = named(&folder.join("slabs"), "");
    found.retain(|path| path.metadata().unwrap().len() > 0);
    found
}

fn refused(folder: &Path) {
    assert!(matches!(open_db(folder, &Settings::default()), Err(EngineError::Open(_))));
}

/// The folder that a child is to work in; none in the test itself.
fn in_child() -> Option<PathBuf> {
    std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from)
}

/// Tells it whoever waits for the child.
fn say(word: &str) {
    writeln!(io::stdout(), "{word}").unwrap();
}

/// This program again, with one test of this file.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("store::index::traps::tests::{test}"), "--nocapture", "--test-threads=1"]);
    command.env(FOLDER_VARIABLE, folder).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Runs a child to its end; what it printed.
fn run(mut command: Command) -> (ExitStatus, String) {
    let output = command.output().unwrap();
    (output.status, String::from_utf8(output.stdout).unwrap())
}

/// Whether a child that has said `word` is still there much later. It is ended then.
fn hangs(mut command: Command, word: &str) -> bool {
    let mut child = command.spawn().unwrap();
    let began = clock::monotonic();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(word)), "the child did not come so far");
    let patience = (began.elapsed() * 10).max(Duration::from_secs(1));
    let hangs = !ends_within(&mut child, patience);
    child.kill().unwrap();
    child.wait().unwrap();
    hangs
}

fn ends_within(child: &mut Child, patience: Duration) -> bool {
    let until = clock::monotonic() + patience;
    while clock::monotonic() < until {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_kill_inside_an_open_costs_plain_sled_everything_and_the_guard_nothing() {
    for an_older_snapshot_is_left in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let [plainly, guarded] = ["plainly", "guarded"].map(|name| folder.path().join(name));
        filled::<FANOUT>(&plainly);
        let older = snapshots(&plainly).remove(0);
        let bytes = fs::read(&older).unwrap();
        drop(plain::<FANOUT>(&plainly).unwrap());
        assert_eq!((snapshots(&plainly).len(), logs(&plainly).len()), (1, 1));
        // As a kill leaves it that comes before the next log is made, or before the last snapshot is removed.
        logs(&plainly).into_iter().for_each(|log| fs::remove_file(log).unwrap());
        if an_older_snapshot_is_left {
            fs::write(&older, bytes).unwrap();
        }
        copy_folder(&plainly, &guarded);

        assert_eq!(count(&plain::<FANOUT>(&plainly).unwrap()), ROWS);
        assert_eq!(count(&plain::<FANOUT>(&plainly).unwrap()), 0, "{an_older_snapshot_is_left}");
        for _ in 0..3 {
            assert_eq!(count(&open_db(&guarded, &Settings::default()).unwrap()), ROWS);
        }
    }
}

#[test]
fn a_flipped_byte_in_a_log_opens_without_a_word_and_with_batches_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut first_bytes = 0;
    {
        let db = plain::<FANOUT>(folder.path()).unwrap();
        for row in 0..3 {
            db.insert(key(row), b"value").unwrap();
            db.flush().unwrap();
            if row == 0 {
                first_bytes = usize::try_from(logs(folder.path())[0].metadata().unwrap().len()).unwrap();
            }
        }
    }
    let log = logs(folder.path()).remove(0);
    let mut bytes = fs::read(&log).unwrap();
    bytes[first_bytes + 15] ^= 1;
    fs::write(&log, bytes).unwrap();
    refused(folder.path());
    assert_eq!(count(&plain::<FANOUT>(folder.path()).unwrap()), 1);
}

#[test]
fn odd_names_and_a_missing_snapshot_make_open_panic() {
    for name in ["log_x", "log_zzzzzzzzzzzzzzzz", "snapshot_x", "snapshot_zzzzzzzzzzzzzzzz"] {
        let folder = tempfile::tempdir().unwrap();
        filled::<FANOUT>(folder.path());
        fs::write(metadata_in(folder.path()).join(name), b"").unwrap();
        refused(folder.path());
        assert!(catch_unwind(|| plain::<FANOUT>(folder.path()).map(drop)).is_err(), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    filled::<FANOUT>(folder.path());
    {
        let db = plain::<FANOUT>(folder.path()).unwrap();
        db.insert(key(ROWS), b"in the last leaf").unwrap();
    }
    fs::remove_file(snapshots(folder.path()).remove(0)).unwrap();
    refused(folder.path());
    assert!(catch_unwind(|| plain::<FANOUT>(folder.path()).map(drop)).is_err());
}

#[test]
fn a_leaf_that_is_not_the_one_it_should_be_makes_open_spin_for_ever() {
    if let Some(folder) = in_child() {
        say("opening");
        drop(plain::<FEW>(&folder));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    for path in [&one, &other] {
        let db = plain::<FEW>(path).unwrap();
        for tree in 0..20 {
            db.open_tree(format!("{}{tree}", path.file_name().unwrap().to_str().unwrap())).unwrap();
        }
    }
    fs::remove_dir_all(one.join("slabs")).unwrap();
    copy_folder(&other.join("slabs"), &one.join("slabs"));
    assert!(preflight::check(&one, FEW, &[]).is_err());
    let test = "a_leaf_that_is_not_the_one_it_should_be_makes_open_spin_for_ever";
    assert!(!hangs(child(test, &other), "opening"));
    assert!(hangs(child(test, &one), "opening"));
}

#[test]
fn a_panic_while_a_snapshot_is_read_ends_the_process() {
    if let Some(folder) = in_child() {
        drop(catch_unwind(|| plain::<FANOUT>(&folder).map(drop)));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    filled::<FANOUT>(folder.path());
    // A record whose low key is cut off, in a frame whose checksums are right.
    let plain: Vec<u8> = [1_u64, 1, 1 << 56, 100].iter().flat_map(|number| number.to_le_bytes()).collect();
    let payload = zstd::stream::encode_all(plain.as_slice(), 3).unwrap();
    let length = u64::try_from(payload.len()).unwrap().to_le_bytes();
    let mut frame = [&length[..6], &crc32fast::hash(&length[..6]).to_le_bytes()[..2], &payload].concat();
    frame.extend_from_slice(&(crc32fast::hash(&frame) ^ 0xAF).to_le_bytes());
    fs::write(snapshots(folder.path()).remove(0), frame).unwrap();
    refused(folder.path());
    let (status, _) = run(child("a_panic_while_a_snapshot_is_read_ends_the_process", folder.path()));
    assert_eq!(status.signal(), Some(ABORTED));
}

#[test]
fn a_slab_that_is_gone_is_made_anew_and_what_stood_in_it_is_told_on_stdout_when_it_is_read() {
    if let Some(folder) = in_child() {
        let db = plain::<FANOUT>(&folder).unwrap();
        assert!(db.get(key(1)).is_err());
        std::mem::forget(db);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    filled::<FANOUT>(folder.path());
    slabs(folder.path()).into_iter().for_each(|slab| fs::remove_file(slab).unwrap());
    refused(folder.path());
    let test = "a_slab_that_is_gone_is_made_anew_and_what_stood_in_it_is_told_on_stdout_when_it_is_read";
    let (status, said) = run(child(test, folder.path()));
    assert!(status.success() && said.contains("failed to read"), "{status} {said}");
}

#[test]
fn each_open_runs_the_sync_command_twice() {
    if let Some(folder) = in_child() {
        drop(plain::<FANOUT>(&folder.join("index")).unwrap());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (commands, runs) = (folder.path().join("bin"), folder.path().join("runs"));
    fs::create_dir(&commands).unwrap();
    fs::write(commands.join("sync"), format!("#!/bin/sh\necho >> {}\n", runs.display())).unwrap();
    fs::set_permissions(commands.join("sync"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = child("each_open_runs_the_sync_command_twice", folder.path());
    let (status, _) = run({
        command.env("PATH", &commands);
        command
    });
    assert!(status.success());
    assert_eq!(fs::read_to_string(runs).unwrap().lines().count(), 2);
}

#[test]
fn a_folder_opens_once_and_with_the_fanout_that_it_was_made_with() {
    let folder = tempfile::tempdir().unwrap();
    let db = plain::<FANOUT>(folder.path()).unwrap();
    assert_eq!(plain::<FANOUT>(folder.path()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(db);
    assert_eq!(plain::<FEW>(folder.path()).unwrap_err().kind(), io::ErrorKind::Unsupported);
    drop(plain::<FANOUT>(folder.path()).unwrap());
}

#[test]
fn without_an_interval_every_scan_flushes_and_with_a_long_one_none_does() {
    for (interval, flushes) in [(None, true), (Some(usize::MAX), false)] {
        let folder = tempfile::tempdir().unwrap();
        let db: sled::Db<FANOUT> = sled::Config::new().path(folder.path()).flush_every_ms(interval).open().unwrap();
        db.insert(b"key", b"value").unwrap();
        let flushed = || db.stats().cache.flush_sum.objects_flushed;
        assert_eq!(flushed(), 0);
        assert!(db.iter().next().is_some());
        assert_eq!(flushed() > 0, flushes, "{interval:?}");
    }
}

#[test]
fn the_end_of_a_range_does_not_stop_its_scan() {
    let folder = tempfile::tempdir().unwrap();
    let db = plain::<FEW>(folder.path()).unwrap();
    fill(&db);
    let before = asked(&db);
    assert_eq!(db.range(key(10)..key(12)).count(), 2);
    assert!(asked(&db) - before > LEAVES / 2);
    let before = asked(&db);
    assert_eq!(db.range(key(10)..).take_while(|row| *row.as_ref().unwrap().0 < key(12)[..]).count(), 2);
    assert!(asked(&db) - before < 5);
}

/// Rows of so many leaves that the cache, of which each of 256 parts keeps one in any case, cannot keep them.
const MANY_ROWS: u32 = 4_000;
const MANY_LEAVES: u64 = 1_000;

fn with_a_small_cache(folder: &Path) -> sled::Db<FEW> {
    let config = sled::Config::new().path(folder).flush_every_ms(Some(usize::MAX));
    config.cache_capacity_bytes(64 * 1024).open().unwrap()
}

fn fill_many(db: &sled::Db<FEW>, value: u8) {
    (0..MANY_ROWS).for_each(|row| drop(db.insert(key(row), [value; 1_000]).unwrap()));
    db.flush().unwrap();
}

/// How many leaves had to be read from disk for this.
fn misses(db: &sled::Db<FEW>, read: impl FnOnce()) -> u64 {
    let before = db.stats().cache.cache_misses;
    read();
    db.stats().cache.cache_misses - before
}

#[test]
fn leaves_written_are_never_evicted_and_leaves_read_are() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_a_small_cache(folder.path());
    for round in 0..3 {
        fill_many(&db, round);
        assert_eq!(misses(&db, || assert_eq!(count(&db), MANY_ROWS)), 0);
    }
    drop(db);
    let db = with_a_small_cache(folder.path());
    for _ in 0..3 {
        let misses = misses(&db, || assert_eq!(count(&db), MANY_ROWS));
        assert!(misses > MANY_LEAVES / 2, "{misses}");
    }
}

#[test]
fn leaves_read_by_short_scans_are_never_evicted_unless_a_get_names_them_too() {
    let folder = tempfile::tempdir().unwrap();
    fill_many(&with_a_small_cache(folder.path()), 1);
    let pages = |db: &sled::Db<FEW>, then: &dyn Fn(u32)| {
        for row in (0..MANY_ROWS).step_by(8) {
            assert_eq!(db.range(key(row)..).map(Result::unwrap).take(8).count(), 8);
            then(row);
        }
    };
    let db = with_a_small_cache(folder.path());
    assert!(misses(&db, || pages(&db, &|_| {})) > MANY_LEAVES);
    assert_eq!(misses(&db, || pages(&db, &|_| {})), 0);
    drop(db);
    let db = with_a_small_cache(folder.path());
    let get = |row| (row..row + 8).for_each(|row| drop(db.get(key(row)).unwrap()));
    for _ in 0..2 {
        let misses = misses(&db, || pages(&db, &get));
        assert!(misses > MANY_LEAVES / 2, "{misses}");
    }
}

#[test]
fn removing_by_batch_leaves_empty_leaves_and_one_by_one_does_not() {
    for (by_batch, merges) in [(true, false), (false, true)] {
        let folder = tempfile::tempdir().unwrap();
        let db = plain::<FEW>(folder.path()).unwrap();
        fill(&db);
        let mut batch = sled::Batch::default();
        for row in 0..ROWS - 1 {
            if by_batch { batch.remove(key(row)) } else { drop(db.remove(key(row)).unwrap()) }
        }
        db.apply_batch(batch).unwrap();
        db.flush().unwrap();
        assert_eq!(db.stats().cache.tree_leaves_merged > LEAVES / 2, merges);
        let before = asked(&db);
        assert_eq!(&*db.iter().next().unwrap().unwrap().0, key(ROWS - 1));
        assert_eq!(asked(&db) - before < 5, merges, "{} leaves", asked(&db) - before);
    }
}

/// Lets every write of a leaf fail, as on a full disk.
fn fill_disk(folder: &Path) {
    drop(plain::<FANOUT>(folder).unwrap());
    for slab in named(&folder.join("slabs"), "") {
        fs::remove_file(&slab).unwrap();
        symlink("/dev/full", slab).unwrap();
    }
}

#[test]
fn after_a_failed_flush_a_batch_is_taken_and_the_next_flush_waits_for_ever() {
    if let Some(folder) = in_child() {
        let db = plain::<FANOUT>(&folder).unwrap();
        db.insert(b"key", b"value").unwrap();
        assert!(db.flush().is_err());
        let mut batch = sled::Batch::default();
        batch.insert(b"another", b"value");
        db.apply_batch(batch).unwrap();
        assert!(db.insert(b"third", b"value").is_err() && db.get(b"key").is_err());
        say("flushing again");
        drop(db.flush());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fill_disk(folder.path());
    let test = "after_a_failed_flush_a_batch_is_taken_and_the_next_flush_waits_for_ever";
    assert!(hangs(child(test, folder.path()), "flushing again"));
}

#[test]
fn closing_flushes_again_and_so_hangs_where_a_flush_has_failed_before_and_ends_the_process_where_it_fails_then() {
    let test =
        "closing_flushes_again_and_so_hangs_where_a_flush_has_failed_before_and_ends_the_process_where_it_fails_then";
    if let Some(folder) = in_child() {
        let db = plain::<FANOUT>(&folder).unwrap();
        db.insert(b"key", b"value").unwrap();
        if folder.ends_with("before") {
            assert!(db.flush().is_err());
        }
        say("closing");
        drop(db);
        say("closed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [before, then] = ["before", "then"].map(|name| folder.path().join(name));
    fill_disk(&before);
    fill_disk(&then);
    assert!(hangs(child(test, &before), "closing"));
    let (status, said) = run(child(test, &then));
    assert_eq!(status.signal(), Some(ABORTED), "{said}");
}

#[test]
fn a_damaged_leaf_that_nobody_reads_ends_the_process_at_closing() {
    if let Some(folder) = in_child() {
        drop(plain::<FEW>(&folder).unwrap());
        say("closed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    {
        let db = plain::<FEW>(folder.path()).unwrap();
        fill(&db);
        for row in (0..ROWS).filter(|row| row % 50 > 20) {
            db.remove(key(row)).unwrap();
        }
        db.flush().unwrap();
        // Closing would move what is scattered now.
        std::mem::forget(db);
    }
    // The first one stays locked as long as this process lives.
    let whole = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), whole.path());
    let test = "a_damaged_leaf_that_nobody_reads_ends_the_process_at_closing";
    assert!(run(child(test, whole.path())).0.success());
    let damaged = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), damaged.path());
    let slab = slabs(damaged.path()).into_iter().max_by_key(|slab| slab.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&slab).unwrap();
    let slot: usize = slab.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let last = bytes.len() - slot;
    bytes[last] ^= 1;
    fs::write(slab, bytes).unwrap();
    let (status, said) = run(child(test, damaged.path()));
    assert_eq!(status.signal(), Some(ABORTED), "{said}");
}

#[test]
fn freed_slots_come_back_when_the_thread_that_freed_them_flushes_again() {
    let folder = tempfile::tempdir().unwrap();
    let db = plain::<FEW>(folder.path()).unwrap();
    let rewrite = |db: &sled::Db<FEW>, rows: u32, value: u8| {
        (0..rows).for_each(|row| drop(db.insert(key(row), [value; 20]).unwrap()));
        db.flush().unwrap();
    };
    let freed = || db.stats().cache.heap.allocator.heap_slots_freed;
    fill(&db);
    rewrite(&db, ROWS, 1);
    let other = db.clone();
    thread::spawn(move || (0..100).for_each(|round| rewrite(&other, 1, round))).join().unwrap();
    let by_another = freed();
    (0..10).for_each(|round| rewrite(&db, 1, round));
    assert!(by_another < LEAVES + 50 && freed() > by_another + LEAVES / 2);
}

#[test]
fn handles_may_be_moved_to_another_thread_but_not_shared_between_two() {
    trait Unshared<A> {
        fn holds() {}
    }
    impl<T: ?Sized> Unshared<()> for T {}
    struct Shared;
    impl<T: ?Sized + Sync> Unshared<Shared> for T {}
    fn moves<T: Send>() {}
    moves::<sled::Db<FANOUT>>();
    moves::<sled::Tree<FANOUT>>();
    // Of something that is Sync both would hold, and this would be ambiguous and not compile.
    <sled::Db<FANOUT> as Unshared<_>>::holds();
    <sled::Tree<FANOUT> as Unshared<_>>::holds();
}

#[test]
fn two_mutators_wait_for_one_another_for_ever() {
    if let Some(folder) = in_child() {
        mutate_in_two_threads(&folder);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, said) = run(child("two_mutators_wait_for_one_another_for_ever", folder.path()));
    assert!(said.contains("stuck"), "{said}");
}

/// Ends the process once neither has done anything for long, or after very long.
fn mutate_in_two_threads(folder: &Path) {
    let db = plain::<FEW>(folder).unwrap();
    fill(&db);
    let rounds = Arc::new(AtomicU64::new(0));
    let (by_batch, batches) = (db.clone(), rounds.clone());
    thread::spawn(move || {
        loop {
            let mut batch = sled::Batch::default();
            (0..ROWS).step_by(3).for_each(|row| batch.insert(key(row), b"value"));
            by_batch.apply_batch(batch).unwrap();
            batches.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (one_by_one, removes) = (db.clone(), rounds.clone());
    thread::spawn(move || {
        loop {
            (0..ROWS).for_each(|row| drop(one_by_one.remove(key(row)).unwrap()));
            (0..ROWS).for_each(|row| drop(one_by_one.insert(key(row), b"value").unwrap()));
            removes.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..40 {
        let before = rounds.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(500));
        if rounds.load(Ordering::Relaxed) == before {
            say("stuck");
            break;
        }
    }
    std::process::exit(0);
}
