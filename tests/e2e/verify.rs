//! `gaggle verify` on folders that a server has really used: clean after a stop and after a kill, and not any more once
//! somebody has been at them.

use std::fs;
use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use crate::shell::{Ran, Running, Served, gaggle};

fn verify(served: &Served, more: &[&str]) -> Ran {
    let mut command = gaggle();
    command.arg("verify").args(more).current_dir(served.place.path());
    Running::spawn(command).end()
}

/// A bit of everything that a server keeps.
fn live(served: &Served) {
    let (alice, bob) = served.team();
    let carol = served.join(&alice, "carol");
    let hello = alice.ok(&["send", "team", "hello", "--mention", "bob"]).out;
    alice.ok(&["edit", "team", hello.trim(), "hello, all"]);
    alice.ok(&["edit", "team", hello.trim(), "hello, everybody"]);
    bob.ok(&["react", "team", hello.trim(), "👍"]);
    let wrong = bob.ok(&["reply", "team", hello.trim(), "whom?", "--mention", "alice"]).out;
    bob.ok(&["edit", "team", wrong.trim(), "who?"]);
    bob.ok(&["recall", "team", wrong.trim()]);
    bob.input(&["send", "team", "-"], b"one\ntwo\nthree\n");
    bob.ok(&["tail", "--count", "4"]);
    carol.ok(&["send", "team", "I am off"]);
    carol.ok(&["group", "leave", "team"]);
    alice.ok(&["group", "add", "team", "carol"]);
    alice.ok(&["group", "rename", "team", "crew"]);
    alice.ok(&["group", "create", "other"]);
    alice.ok(&["group", "leave", "other"]);
    alice.ok(&["invite", "dora", "--group", "crew"]);
    let link = bob.ok(&["devices", "add"]).out;
    let second = served.person("bob-2");
    second.ok(&["join", link.trim()]);
    second.ok(&["tail", "--count", "1"]);
    second.ok(&["devices", "revoke", "d2"]);
}

#[test]
fn what_a_server_leaves_is_clean_after_a_stop_and_after_a_kill() {
    let mut served = Served::start();
    live(&served);
    served.stop();
    let ran = verify(&served, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    assert!(ran.err.contains("data: nothing is wrong; checked "), "{}", ran.err);
    assert!(!ran.err.contains("remark: "), "{}", ran.err);
    served.again();
    let alice = served.person("alice");
    alice.ok(&["send", "crew", "once more"]);
    served.running().signal("-KILL");
    served.stop_without_signal();
    let ran = verify(&served, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    assert!(ran.err.contains("no seal: the server did not end in order"), "{}", ran.err);
    // The check was in nobody's way.
    served.again();
    assert!(alice.ok(&["pull", "crew", "--last", "1"]).out.contains("once more"));
    served.stop();
    let lines = verify(&served, &["--json"]).json();
    let summary = lines.last().unwrap();
    assert_eq!((&summary["kind"], &summary["findings"]), (&json!("summary"), &json!(0)));
    assert_eq!((&summary["groups"], &summary["users"], &summary["sealed"]), (&json!(2), &json!(3), &json!(true)));
    assert!(summary["rows"].as_u64().unwrap() > 50 && summary["index_rows"] == summary["rows"], "{summary}");
}

#[test]
fn a_folder_in_use_and_one_that_is_none_end_with_2() {
    let mut served = Served::start();
    verify(&served, &[]).ends_with(2, "is in use by process");
    served.stop();
    verify(&served, &["--data", "nowhere"]).ends_with(2, "there is no data folder here");
    assert!(!served.place.path().join("nowhere").exists());
    let format = served.place.path().join("data/FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    fs::write(&format, text.replacen("store ", "store 0", 1)).unwrap();
    verify(&served, &[]).ends_with(2, "data/FORMAT is damaged: its checksum does not match");
    verify(&served, &["--data", "."]).ends_with(2, "there is no data folder here");
}

#[test]
fn who_interrupts_it_has_it_end_at_once() {
    let mut served = Served::start();
    served.stop();
    // Segments that hold nothing, and take long to be looked through.
    let log = served.place.path().join("data/log");
    let mut head = vec![0; 80];
    fs::File::open(log.join("00000001.log")).unwrap().read_exact_at(&mut head, 0).unwrap();
    for number in 3..200 {
        let file = fs::File::create(log.join(format!("{number:08}.log"))).unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.set_len(64 << 20).unwrap();
    }
    let mut command = gaggle();
    command.arg("verify").current_dir(served.place.path());
    let mut running = Running::spawn(command);
    running.until_said("segments");
    running.signal("-INT");
    running.end().ends_with(3, "interrupted; what was not reached is not checked");
}

#[test]
fn a_flipped_byte_in_the_log_ends_with_1_and_names_file_and_byte() {
    let mut served = Served::start();
    live(&served);
    served.stop();
    let path = served.place.path().join("data/log/00000001.log");
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 80 + 50).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 80 + 50).unwrap();
    let before = fs::read(&path).unwrap();
    let ran = verify(&served, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(
        ran.out.starts_with("data/log/00000001.log, byte 80: no frame can be read from here to byte "),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("where frame l2 stands; frame l1 is lost\n"), "{}", ran.out);
    let lines = verify(&served, &["--json"]).json();
    let found: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "finding" && line["check"] == "log").collect();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["file"], &found[0]["byte"]), (&json!("data/log/00000001.log"), &json!(80)));
    assert!(before == fs::read(&path).unwrap(), "nothing is repaired");
}
