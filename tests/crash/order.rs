//! Nothing is answered or announced before the sync of its frame has ended: seen in the real program's system calls, and
//! on a simulated disk.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use gaggle::disk::simulated::{Operation, SimulatedDisk};
use gaggle::wire::frame::Sent;

use crate::harness::{Scene, raw_group};
use crate::process::Home;
use crate::raw::{Pulling, soon};

/// What happened to the log, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Write,
    Synced,
}

const SENDS: u64 = 40;

#[tokio::test]
async fn between_each_frame_and_its_answers_lies_an_fdatasync() {
    let strace = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !strace.is_ok_and(|status| status.success()) {
        println!("skipped: there is no strace here; the simulated disk shows the same order");
        return;
    }
    let mut home = Home::new();
    let trace = home.folder().join("trace");
    let calls = "trace=pwrite64,pwritev,write,fdatasync,fsync";
    let wrapper = ["strace", "-f", "-y", "-ttt", "-T", "-e", calls, "-o", trace.to_str().unwrap()];
    let can_trace = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    if !can_trace.is_ok_and(|status| status.success()) {
        println!("skipped: strace may not trace here; the simulated disk shows the same order");
        return;
    }
    home.start_under(&wrapper).await;
    let ada = home.operator().await;
    let mut raw = ada.call(home.address()).await;
    let group = raw_group(&mut raw, "team", 0).await;

    let mut answered = Vec::new();
    for seq in 1..=SENDS {
        raw.send(seq, group, "in order").await.unwrap();
        answered.push(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64());
    }
    raw.close().await;
    // The tracer ends with the program that it started, whose process is the first that it tells of.
    let server = fs::read_to_string(&trace).unwrap().split_whitespace().next().expect("a process").to_owned();
    assert!(Command::new("kill").args(["-TERM", &server]).status().unwrap().success());
    assert!(home.ended().await.success());

    let text = fs::read_to_string(&trace).unwrap();
    let steps = log_steps(&text);
    let kinds: Vec<Step> = steps.iter().map(|(step, _)| *step).collect();
    let first = kinds.len() - frames(&kinds, SENDS);
    let sends = &steps[first..];
    for (index, answered) in answered.iter().enumerate() {
        let [(written, _), (synced, until)] = sends[2 * index..2 * index + 2] else { panic!("a frame and its sync") };
        assert_eq!((written, synced), (Step::Write, Step::Synced), "send {index}");
        assert!(until < *answered, "send {index} was answered at {answered}, its frame was synced at {until}");
        if let Some((_, next)) = sends.get(2 * index + 2) {
            assert!(until <= *next, "a frame was written before the one before it was synced");
        }
    }
}

/// How many of the last steps belong to so many frames; the stop adds a frame of its own, the seal.
fn frames(kinds: &[Step], sends: u64) -> usize {
    assert!(kinds.len() as u64 >= 2 * (sends + 1), "{kinds:?}");
    2 * (sends as usize + 1)
}

/// The writes of log segments and their syncs with the time at which each had ended, in order. Segments that are made
/// ahead have another name until they are whole.
fn log_steps(trace: &str) -> Vec<(Step, f64)> {
    let mut open: HashMap<&str, (Step, f64)> = HashMap::new();
    let mut steps = Vec::new();
    for line in trace.lines() {
        let mut words = line.split_whitespace();
        let (Some(thread), Some(time)) = (words.next(), words.next()) else { continue };
        let Ok(began) = time.parse::<f64>() else { continue };
        if line.contains("resumed>") {
            if let Some((step, began)) = open.remove(thread) {
                steps.push((step, began + took(line)));
            }
            continue;
        }
        let is_log = line.contains("/data/log/") && !line.contains(".new>");
        let step = if line.contains("pwrite") || line.contains(" write(") { Step::Write } else { Step::Synced };
        if !is_log {
            continue;
        }
        if line.contains("<unfinished") {
            open.insert(thread, (step, began));
        } else {
            steps.push((step, began + took(line)));
        }
    }
    steps
}

/// How long a call took: the last word, in angle brackets.
fn took(line: &str) -> f64 {
    let last = line.rsplit('<').next().unwrap_or_default();
    last.trim_end_matches('>').parse().unwrap_or_else(|_| panic!("no duration in {line:?}"))
}

fn is_log(path: &Path) -> bool {
    path.to_string_lossy().contains("/data/log/") && path.extension().is_none_or(|end| end != "new")
}

#[tokio::test]
async fn an_answer_comes_after_the_sync_of_its_frame_on_a_simulated_disk() {
    let mut scene = Scene::start().await;
    let disk = scene.site.simulated().clone();
    disk.record();
    for _ in 0..SENDS {
        let msgid = scene.send().await;
        disk.note(&format!("answered {msgid}"));
    }
    let mut frames = 0;
    let mut answers = 0;
    let mut unsynced = false;
    for operation in disk.recorded() {
        match operation {
            Operation::Write { path, .. } if is_log(&path) => {
                assert!(!unsynced, "a frame was written before the one before it was synced");
                unsynced = true;
            }
            Operation::Sync(path) if is_log(&path) && unsynced => {
                unsynced = false;
                frames += 1;
            }
            Operation::Note(_) => {
                answers += 1;
                assert!(frames >= answers, "answer {answers} came after {frames} synced frames");
            }
            _ => {}
        }
    }
    assert_eq!(answers, SENDS);
}

/// Waits until a frame was written that is not synced.
async fn frame_is_written(disk: &SimulatedDisk, writes_before: u64) {
    let written = async {
        while disk.counts().writes == writes_before {
            tokio::task::yield_now().await;
        }
    };
    soon("the frame", written).await;
}

#[tokio::test]
async fn nothing_is_announced_before_it_is_durable() {
    let mut scene = Scene::start().await;
    let group = scene.group;
    let mut bob = scene.bob().await;
    bob.subscribe().await;
    bob.pull(group, 0, 0, Pulling::Deliver).await.unwrap();
    scene.send().await;
    let before = bob.pushed().await.batches[0].covered_to;

    let disk = scene.site.simulated().clone();
    disk.hold_syncs("/data/log/");
    let writes = disk.counts().writes;
    let request = scene.ada.post_text(scene.next, scene.next, group, "not yet durable").await;
    frame_is_written(&disk, writes).await;

    // By every road the head is the one before: to the sender, to a listener, to who connects now.
    assert_eq!(scene.ada.pull(group, 0, 0, Pulling::Browse).await.unwrap().head, before);
    assert_eq!(bob.pull(group, 0, 0, Pulling::Browse).await.unwrap().head, before);
    assert_eq!(bob.groups().await[0].head, before);
    let mut late = scene.bob.call(scene.site.address()).await;
    assert_eq!(late.pull(group, before.value(), 0, Pulling::Browse).await.unwrap().msgids(), [0_u64; 0]);
    assert!(!scene.ada.answers.has(|frame| frame.request == request));

    disk.release_syncs();
    let sent: Sent = scene.ada.answer(request).await.unwrap();
    assert_eq!(sent.msgid, before.next());
    assert_eq!(bob.pushed().await.batches[0].covered_to, sent.msgid);
}
