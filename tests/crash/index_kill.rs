//! The index, killed at every system call of its opening and of its recycling; afterwards three starts find everything.
//!
//! A child, this test program again, says that it is ready and waits. Then strace is attached to it, which kills it as
//! it enters the n-th call of one kind; which calls there are is seen in a run without a kill. strace counts for each
//! thread, so the n-th call is that of whichever thread is first there: the opening is killed twice over, once as part
//! of a start and once alone, where nearly all calls are those of the one thread that opens. The child's PATH is empty,
//! so that sled does not find `sync`, which would make each run wait for whatever else the machine has to write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use gaggle::disk::real::RealDisk;
use gaggle::ids::Lsn;
use gaggle::store::engine::{Index as _, Op};
use gaggle::store::format::StoreId;
use gaggle::store::index::{Settings, SledIndex};
use gaggle::store::tree::Tree;
use gaggle::store::{Opened, Options, open};

use crate::folder::copy;
use crate::harness::rounds;
use crate::process::WITHOUT_SYNC;

const TASK_VARIABLE: &str = "GAGGLE_INDEX_TASK";
const FOLDER_VARIABLE: &str = "GAGGLE_INDEX_FOLDER";
const STORE_VARIABLE: &str = "GAGGLE_INDEX_STORE";
const FRAMES_VARIABLE: &str = "GAGGLE_INDEX_FRAMES";
/// Frames of the folder that is opened, and those that are behind the last flush of the one that is recycled.
const FRAMES: u64 = 300;
const MORE_FRAMES: u64 = 12;
/// After so many frames it is flushed, and after so many the folder is closed and opened.
const FLUSH_FRAMES: u64 = 25;
const CLOSE_FRAMES: u64 = 100;
/// Points of each task in an ordinary run, spread over all of them.
const POINTS: u64 = 6;
const KILLED: i32 = 9;

type Rows = BTreeMap<(Tree, Vec<u8>), Vec<u8>>;

/// What frame n puts: a row of its own, and rows that others overwrite or remove.
fn ops(frame: u64) -> Vec<Op> {
    let put = |tree, key: u64, value: Option<u64>| Op {
        tree,
        key: key.to_be_bytes().to_vec().into(),
        value: value.map(|value| value.to_be_bytes().repeat(6).into()),
    };
    let mut ops = vec![put(Tree::Messages, frame, Some(frame)), put(Tree::Cursors, frame % 7, Some(frame))];
    ops.push(put(Tree::Sends, frame, Some(frame)));
    ops.extend(frame.checked_sub(16).map(|old| put(Tree::Sends, old, None)));
    ops
}

fn rows_after(frames: u64) -> Rows {
    let mut rows = Rows::new();
    for op in (1..=frames).flat_map(ops) {
        let key = (op.tree, op.key.to_vec());
        match op.value {
            Some(value) => drop(rows.insert(key, value.to_vec())),
            None => drop(rows.remove(&key)),
        }
    }
    rows
}

fn rows_of(opened: &Opened) -> Rows {
    let mut rows = Rows::new();
    for tree in Tree::ALL {
        let mut visit = |key: &[u8], value: &[u8]| {
            rows.insert((tree, key.to_vec()), value.to_vec());
            ControlFlow::Continue(())
        };
        opened.engine.scan(tree, &[], &mut visit).unwrap();
    }
    rows
}

fn start(folder: &Path) -> Opened {
    let index = Arc::new(SledIndex::new(folder, Settings::default()));
    open(Arc::new(RealDisk), folder, Options { segment_bytes: 64 * 1024, index, ..Options::default() }).unwrap()
}

fn commit(opened: &mut Opened, frame: u64) {
    let ops = ops(frame);
    assert_eq!(opened.log.append(&ops).unwrap(), Lsn::new(frame));
    opened.log.sync().unwrap();
    opened.engine.apply(Lsn::new(frame), &ops).unwrap();
}

fn checkpoint(opened: &mut Opened) {
    let lsn = opened.engine.flush().unwrap();
    opened.flushed.as_mut().unwrap().record(lsn).unwrap();
}

/// Makes the folder; the number of its store.
fn fill(folder: &Path) -> u128 {
    let mut opened = start(folder);
    for frame in 1..=FRAMES {
        commit(&mut opened, frame);
        if frame % FLUSH_FRAMES == 0 {
            checkpoint(&mut opened);
        }
        if frame % CLOSE_FRAMES == 0 {
            drop(opened);
            opened = start(folder);
        }
    }
    u128::from_be_bytes(opened.store.bytes())
}

/// Tells the test that it may attach, and waits until it has.
fn ready() {
    println!("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

fn check(folder: &Path, frames: u64) {
    let expected = rows_after(frames);
    for _ in 0..3 {
        let opened = start(folder);
        assert_eq!(opened.durable, Lsn::new(frames));
        assert!(rows_of(&opened) == expected, "something is lost");
        println!("\n{}", if opened.rebuilt.is_some() { "rebuilt" } else { "as it was" });
    }
}

/// Not a test of its own, but what the others run as a child; without the variables it does nothing.
#[test]
fn the_child_of_these_tests() {
    let Ok(task) = std::env::var(TASK_VARIABLE) else { return };
    let folder = PathBuf::from(std::env::var(FOLDER_VARIABLE).unwrap());
    match task.as_str() {
        "start" => {
            ready();
            std::mem::forget(start(&folder));
        }
        "open" => {
            let number: u128 = std::env::var(STORE_VARIABLE).unwrap().parse().unwrap();
            let store = StoreId::new(number.to_be_bytes());
            let index = SledIndex::new(&folder, Settings::default());
            ready();
            std::mem::forget(index.open(store).unwrap());
        }
        "recycle" => {
            let mut opened = start(&folder);
            (FRAMES + 1..=FRAMES + MORE_FRAMES).for_each(|frame| commit(&mut opened, frame));
            ready();
            checkpoint(&mut opened);
            opened.engine.recycle().unwrap();
            std::mem::forget(opened);
        }
        "check" => check(&folder, std::env::var(FRAMES_VARIABLE).unwrap().parse().unwrap()),
        other => panic!("no such task: {other}"),
    }
    // As it is, without closing anything: the last point at which it can end.
    std::process::exit(0);
}

fn child(task: &str, folder: &Path, store: u128, frames: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "index_kill::the_child_of_these_tests", "--nocapture", "--test-threads=1"]);
    command.env(TASK_VARIABLE, task).env(FOLDER_VARIABLE, folder).env(FRAMES_VARIABLE, frames.to_string());
    command.env(STORE_VARIABLE, store.to_string());
    command.envs([WITHOUT_SYNC, ("RAYON_NUM_THREADS", "1")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a task from its word that it is ready, with strace attached.
fn run_traced(task: &str, folder: &Path, store: u128, arguments: &[&str]) -> ExitStatus {
    let mut child = child(task, folder, store, FRAMES).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "the child did not come so far");
    let mut strace = attach(child.id(), arguments);
    // Where strace could not be attached the child's end says so: it is not killed then.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    let status = child.wait().unwrap();
    strace.wait().unwrap();
    status
}

/// strace, once it has all threads of the process.
fn attach(pid: u32, arguments: &[&str]) -> Child {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-p", &pid.to_string()]).args(arguments);
    let mut strace = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
    let word = said.next().and_then(Result::ok).unwrap_or_default();
    assert!(word.contains("attached"), "strace: {word}");
    // What else it has to say must have somewhere to go.
    std::thread::spawn(move || said.for_each(drop));
    strace
}

/// Whether a process can be traced here.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-f", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    traced.is_ok_and(|status| status.success())
}

/// The calls of a run: for each kind the most that one thread makes.
fn calls(trace: &str) -> BTreeMap<String, u64> {
    let mut by_thread: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(char::is_whitespace) else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        // Only a process that is to become `sync` sets signals, and it is not the one to be killed.
        if name == "rt_sigaction" {
            continue;
        }
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            *by_thread.entry((thread, name)).or_default() += 1;
        }
    }
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for ((_, name), count) in by_thread {
        let most = calls.entry(name.to_owned()).or_default();
        *most = count.max(*most);
    }
    calls
}

/// Every kill there can be; or so many spread over them, and those where a name is changed or removed, which are the
/// dangerous ones.
fn points(calls: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let all: Vec<_> = calls.iter().flat_map(|(name, count)| (1..=*count).map(|n| (name.clone(), n))).collect();
    let wanted = usize::try_from(rounds(POINTS)).unwrap().clamp(1, all.len());
    let mut points: BTreeSet<_> = (0..wanted).map(|point| all[point * all.len() / wanted].clone()).collect();
    points.extend(all.into_iter().filter(|(name, _)| name.starts_with("rename") || name.starts_with("unlink")));
    points.into_iter().collect()
}

#[derive(Debug, Default)]
struct Tally {
    points: usize,
    kills: usize,
    /// Points that were not reached: threads that wait for one another do not call as often each time.
    unreached: BTreeMap<String, usize>,
    rebuilds: usize,
    starts: usize,
}

fn kill_everywhere(task: &str, whole: &Path, store: u128) -> Tally {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("data");
    let trace = scratch.path().join("trace");
    copy(whole, &folder);
    let status = run_traced(task, &folder, store, &["-o", trace.to_str().unwrap()]);
    assert!(status.success(), "{status}");
    let calls = calls(&fs::read_to_string(&trace).unwrap());
    let mut tally = Tally::default();
    for (call, n) in points(&calls) {
        fs::remove_dir_all(&folder).unwrap();
        copy(whole, &folder);
        let (only, inject) = (format!("trace={call}"), format!("inject={call}:signal=SIGKILL:when={n}"));
        let status = run_traced(task, &folder, store, &["-o", "/dev/null", "-e", &only, "-e", &inject]);
        assert!(status.success() || status.signal() == Some(KILLED), "{call} {n}: {status}");
        let frames = if task == "recycle" { FRAMES + MORE_FRAMES } else { FRAMES };
        let output = child("check", &folder, store, frames).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{call} {n}: {said} {}", String::from_utf8_lossy(&output.stderr));
        tally.points += 1;
        if status.signal() == Some(KILLED) {
            tally.kills += 1;
        } else {
            *tally.unreached.entry(call.clone()).or_default() += 1;
        }
        tally.rebuilds += said.lines().filter(|line| *line == "rebuilt").count();
        tally.starts += said.lines().filter(|line| ["rebuilt", "as it was"].contains(line)).count();
        if said.contains("rebuilt") {
            println!("{task}: killed at {call} {n}, rebuilt");
        }
    }
    tally
}

/// Kills a task at the points of this run, and tells what became of it.
fn hold(task: &str) {
    if !can_trace() {
        println!("skipped: strace is missing, or may not trace here");
        return;
    }
    let whole = tempfile::tempdir().unwrap();
    let store = fill(whole.path());
    let began = Instant::now();
    let tally = kill_everywhere(task, whole.path(), store);
    println!("{task}: {tally:?} in {:?}", began.elapsed());
    assert_eq!((tally.starts, tally.rebuilds), (3 * tally.points, 0));
    assert!(tally.kills * 2 > tally.points, "{tally:?}");
}

#[test]
fn a_kill_at_any_system_call_of_an_open_loses_nothing() {
    hold("open");
}

#[test]
fn a_kill_at_any_system_call_of_a_start_loses_nothing() {
    hold("start");
}

#[test]
fn a_kill_at_any_system_call_of_a_checkpoint_and_a_recycle_loses_nothing() {
    hold("recycle");
}
