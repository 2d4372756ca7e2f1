//! What each command does, as a shell sees it: stdout, stderr, exit codes, signals, pipes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::json;

use crate::shell::{Running, Served, gaggle, mode};

/// No text that we show may contain one of these: they would steer a terminal.
fn steers(text: &str) -> bool {
    text.chars().any(|character| {
        character != '\n' && (character.is_control() || "\u{202e}\u{2066}\u{200b}".contains(character))
    })
}

#[test]
fn every_command_prints_the_promised_json() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    assert_eq!(
        alice.json(&["group", "list"])[0],
        json!({"group": "g1", "name": "team", "role": "owner", "members": 2, "head": 2, "cursor": 0, "read": 0, "unread": 0, "mentions": 0})
    );
    let members = alice.json(&["group", "members", "team"]);
    assert_eq!(members[1], json!({"user": "u2", "handle": "bob", "role": "member", "joined": 2}));
    assert_eq!(alice.json(&["users"])[0], json!({"user": "u1", "handle": "alice", "operator": true}));
    let devices = bob.json(&["devices", "list"]);
    assert_eq!(
        (&devices[0]["device"], &devices[0]["this"], &devices[0]["revoked"]),
        (&json!("d2"), &json!(true), &json!(false))
    );
    let sent = &bob.json(&["send", "team", "hello"])[0];
    assert_eq!((&sent["group"], &sent["msgid"]), (&json!("g1"), &json!(3)));
    let item = &alice.json(&["pull", "team", "--last", "1"])[0];
    for (field, value) in [
        ("group", json!("g1")),
        ("msgid", json!(3)),
        ("kind", json!("text")),
        ("from", json!("bob")),
        ("from_id", json!("u2")),
        ("text", json!("hello")),
    ] {
        assert_eq!(item[field], value, "{field}");
    }
    assert_eq!(item["time_ms"], sent["time_ms"]);
    assert_eq!(alice.json(&["group", "create", "other"])[0], json!({"group": "g2", "name": "other"}));
    assert_eq!(alice.json(&["group", "rename", "g2", "another"])[0], json!({"group": "g2", "msgid": 2}));
    assert_eq!(alice.json(&["group", "add", "g2", "bob"])[0], json!({"group": "g2", "msgid": 3}));
    assert_eq!(alice.json(&["group", "remove", "another", "bob"])[0], json!({"group": "g2", "msgid": 4}));
    assert_eq!(alice.json(&["group", "list"])[0]["unread"], 1);
    let receipts = bob.json(&["receipts", "team", "3"]);
    let counts = json!({"group": "g1", "msgid": 3, "members": 1, "received": 0, "read": 0, "silent": 0});
    assert_eq!(receipts[0], counts);
    assert_eq!(receipts[1], json!({"user": "u1", "handle": "alice", "received": false, "read": false}));
    assert_eq!(alice.json(&["read", "team"])[0], json!({"group": "g1", "read": 3, "version": 0}));
    assert_eq!(bob.json(&["receipts", "team", "3"])[1]["read"], true);
    assert_eq!(alice.json(&["read", "--unread", "team", "3"])[0], json!({"group": "g1", "read": 2, "version": 1}));
    // It never counts more as read than before.
    let ends = "what counts as read in team ends with 2";
    for above in ["4", "99999"] {
        alice.run(&["read", "--unread", "team", above]).ends_with(1, ends);
    }
    assert_eq!(alice.json(&["group", "list"])[0]["unread"], 1);
    assert_eq!(alice.json(&["skip", "team", "3"])[0], json!({"group": "g1", "cursor": 3}));
    let status = alice.json(&["status"]);
    assert_eq!((&status[0]["device"], &status[0]["outbox"]), (&json!("d1"), &json!(0)));
    assert_eq!((&status[1]["users"], &status[1]["groups"]), (&json!(2), &json!(2)));
    let invite = &alice.json(&["invite", "carol", "--expires", "2h"])[0];
    assert!(invite["link"].as_str().unwrap().starts_with("gaggle://"));
    assert_eq!(invite["handle"], "carol");
    assert_eq!(alice.json(&["devices", "rename", "d1", "desk"])[0], json!({"device": "d1"}));
    assert_eq!(alice.json(&["group", "leave", "g2"])[0]["group"], "g2");
    assert_eq!(served.stop().code, Some(0));
}

#[test]
fn whoever_was_away_gets_exactly_what_they_missed_and_nothing_again() {
    let served = Served::start();
    let (alice, bob) = served.team();
    alice.ok(&["send", "team", "one"]);
    let first = bob.ok(&["tail", "team", "--count", "2"]);
    assert!(first.out.ends_with("alice: one\n"), "{first:?}");
    assert!(first.err.contains("team: seen up to 1, the newest is 3"), "{first:?}");
    alice.ok(&["send", "team", "two"]);
    alice.ok(&["send", "team", "three"]);
    let texts: Vec<_> = bob.json(&["tail", "--count", "2"]).iter().map(|item| item["text"].clone()).collect();
    assert_eq!(texts, ["two", "three"]);
    let mut quiet = bob.spawn(&["tail", "team"]);
    quiet.until_said("team: all 5 seen; listening (Ctrl-C ends)");
    quiet.signal("-INT");
    let ended = quiet.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
}

/// What came with an earlier `tail` is printed before there is a connection to acknowledge it on.
#[test]
fn what_a_short_tail_prints_counts_as_seen_also_where_an_earlier_one_had_fetched_it() {
    let served = Served::start();
    let (alice, bob) = served.team();
    for text in ["a", "b", "c", "d", "e", "f"] {
        alice.ok(&["send", "team", text]);
    }
    for (count, seen) in [("3", 4), ("2", 6), ("1", 7), ("1", 8)] {
        assert_eq!(bob.ok(&["tail", "--count", count]).out.lines().count(), count.parse::<usize>().unwrap());
        assert_eq!(bob.json(&["group", "list"])[0]["cursor"], seen);
    }
}

/// Scenario 36: the terminal is never controlled by a name or a body.
#[test]
fn naughty_strings_are_shown_and_never_obeyed_and_exact_in_json() {
    let strings = fs::read_to_string("tests/data/blns.txt").unwrap();
    let lines: Vec<&str> = strings.split('\n').filter(|line| !line.is_empty()).collect();
    let served = Served::start();
    let (alice, bob) = served.team();
    let sent = alice.input(&["send", "team", "-"], strings.as_bytes());
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    let msgids: Vec<usize> = sent.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(msgids, (3..3 + lines.len()).collect::<Vec<_>>());

    let count = (lines.len() + 1).to_string();
    let items = bob.json(&["tail", "team", "--count", &count]);
    let texts: Vec<&str> = items.iter().skip(1).map(|item| item["text"].as_str().unwrap()).collect();
    assert_eq!(texts, lines);
    let shown = bob.ok(&["pull", "team"]);
    assert!(!steers(&shown.out));
    assert!(!shown.out.contains('\u{feff}') && shown.out.contains("\\u{feff}"));
    let begins = shown.out.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count();
    assert_eq!(begins, lines.len() + 1);
}

#[test]
fn a_body_of_many_lines_stays_one_item() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let body = "first\n9 12:04 bob: lies\n\x1b[31mred\x1b[0m\u{202e}\n";
    assert_eq!(alice.input(&["send", "team", "--whole"], body.as_bytes()).out, "3\n");
    let shown = bob.ok(&["pull", "team", "--last", "1"]).out;
    let (_, text) = shown.split_once("alice: ").unwrap();
    assert_eq!(text, "first\n    | 9 12:04 bob: lies\n    | \\x1b[31mred\\x1b[0m\\u{202e}\n    | \n");
    assert_eq!(bob.json(&["pull", "team", "--last", "1"])[0]["text"], body);
}

#[test]
fn names_that_steer_or_deceive_are_refused() {
    let served = Served::start();
    let alice = served.alice();
    for name in ["te\x1bam", "te\u{202e}am", "\u{200b}", "   ", "g7", "a\nb", ""] {
        alice.run(&["group", "create", name]).ends_with(1, "not a name that can be given");
    }
    for handle in ["b ob", "böb", "-bob", "b\x07b", &"b".repeat(33)] {
        let refused = alice.run(&["invite", "--", handle]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(!steers(&refused.err));
    }
    let unknown = alice.run(&["group", "members", "no\x1b[2Jsuch"]);
    unknown.ends_with(1, "none of your groups is called \"no\\x1b[2Jsuch\"");
}

#[test]
fn two_groups_of_one_name_end_with_2_and_the_list() {
    let served = Served::start();
    let alice = served.alice();
    alice.ok(&["group", "create", "team"]);
    alice.ok(&["group", "create", "team"]);
    let several = alice.run(&["send", "team", "hello"]);
    several.ends_with(2, "2 groups of yours are called \"team\"");
    several.ends_with(2, "g1");
    several.ends_with(2, "g2");
    alice.ok(&["send", "g2", "hello"]);
}

/// The second listener of a profile is told the first one's process and ends; sends and pulls go on beside it.
#[test]
fn one_tail_a_profile_and_send_beside_it() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let mut tail = bob.spawn(&["tail", "team"]);
    assert!(tail.line().ends_with("* bob joined, added by alice"));
    let second = bob.run(&["tail"]);
    second.ends_with(1, &format!("process {} already listens", tail.child.id()));
    assert_eq!(bob.ok(&["send", "team", "from bob"]).out, "3\n");
    assert!(tail.line().ends_with(" bob: from bob"));
    assert_eq!(alice.ok(&["send", "team", "from alice"]).out, "4\n");
    assert!(tail.line().ends_with(" alice: from alice"));
    assert_eq!(bob.ok(&["pull", "team", "--last", "2"]).out.lines().count(), 2);
    tail.signal("-INT");
    assert_eq!(tail.end().code, Some(0));
}

#[test]
fn what_cannot_be_sent_within_ten_seconds_is_queued_and_sent_later_once() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    assert_eq!(alice.ok(&["send", "team", "before"]).out, "3\n");
    served.stop();
    let queued = alice.run(&["--json", "send", "team", "while away"]);
    queued.ends_with(3, "queued");
    queued.ends_with(3, "gaggle outbox flush");
    let number = queued.json()[0]["queued"].as_str().unwrap().to_owned();
    let listed = alice.json(&["outbox", "list"]);
    assert_eq!((listed.len(), &listed[0]["number"], &listed[0]["group"]), (1, &json!(number), &json!("g1")));
    served.again();
    let flushed = alice.ok(&["outbox", "flush"]);
    assert_eq!(flushed.out, "4\n");
    assert!(alice.json(&["outbox", "list"]).is_empty());
    let texts: Vec<_> = bob.json(&["pull", "team", "--last", "2"]).iter().map(|item| item["text"].clone()).collect();
    assert_eq!(texts, ["before", "while away"]);
}

#[test]
fn whichever_command_reaches_the_server_sends_what_waits_though_its_own_answer_comes_first() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    alice.ok(&["group", "list"]);
    served.stop();
    alice.run(&["send", "team", "while away"]).ends_with(3, "queued");
    served.again();
    alice.ok(&["users"]).ends_with(0, "of the outbox is sent: team 3");
    assert!(alice.json(&["outbox", "list"]).is_empty());
    assert_eq!(bob.json(&["pull", "team", "--last", "1"])[0]["text"], "while away");
}

/// Before the group is known there is nothing to queue, and whoever ends it then is told.
#[test]
fn a_send_that_is_ended_while_its_group_is_looked_up_says_that_nothing_is_queued() {
    let mut served = Served::start();
    let (alice, _) = served.team();
    served.stop();
    let running = alice.spawn(&["send", "team", "hello"]);
    running.until_it_hears_signals();
    running.signal("-INT");
    running.end().ends_with(3, "nothing was sent, and nothing is queued");
    assert!(alice.json(&["outbox", "list"]).is_empty());
}

#[test]
fn without_a_queue_nothing_is_kept() {
    let mut served = Served::start();
    let (alice, _) = served.team();
    served.stop();
    alice.run(&["send", "g1", "now or never", "--no-queue"]).ends_with(3, "no answer from");
    assert!(alice.json(&["outbox", "list"]).is_empty());
}

#[test]
fn what_was_never_tried_can_be_dropped() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    served.stop();
    let lines = alice.input(&["send", "g1", "-"], b"one\ntwo\n");
    lines.ends_with(3, "2 messages queued");
    let listed = alice.json(&["outbox", "list"]);
    assert_eq!(listed.len(), 2);
    let number = listed[0]["number"].as_str().unwrap();
    assert_eq!(listed[0]["state"], "waiting");
    assert_eq!(alice.ok(&["outbox", "drop", number]).out, format!("{number}\n"));
    alice.run(&["outbox", "drop", number]).ends_with(1, "the outbox holds no");
    served.again();
    assert_eq!(alice.ok(&["outbox", "flush"]).out, "3\n");
    assert_eq!(bob.json(&["pull", "team", "--last", "1"])[0]["text"], "two");
}

#[test]
fn a_tail_sends_what_was_queued() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    served.stop();
    alice.run(&["send", "team", "later"]).ends_with(3, "queued");
    served.again();
    let mut tail = alice.spawn(&["tail", "team"]);
    tail.until_said("of the outbox is sent: team 3");
    assert_eq!(bob.json(&["pull", "team", "--last", "1"])[0]["text"], "later");
}

#[test]
fn lines_stream_and_one_that_cannot_be_sent_does_not_stop_the_next() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let mut input = b"ok\n\n".to_vec();
    input.extend(vec![b'x'; 64 * 1024 + 1]);
    input.extend(b"\nab\xff\nlast");
    let sent = alice.input(&["send", "team", "-"], &input);
    assert_eq!(sent.out, "3\n4\n");
    sent.ends_with(2, "line 3 has more than 65536 bytes");
    sent.ends_with(2, "line 4 is not UTF-8 from its byte 3 on");
    sent.ends_with(2, "left out 1 empty lines");
    let texts: Vec<_> = bob.json(&["pull", "team", "--last", "2"]).iter().map(|item| item["text"].clone()).collect();
    assert_eq!(texts, ["ok", "last"]);
    let largest = "ä".repeat(32 * 1024);
    assert_eq!(alice.input(&["send", "team", "--whole"], largest.as_bytes()).out, "5\n");
    alice.input(&["send", "team", "--whole"], format!("{largest}x").as_bytes()).ends_with(1, "more than 65536 bytes");
    alice.input(&["send", "team", "--whole"], b"").ends_with(2, "nothing to send");
    alice.run(&["send", "team", ""]).ends_with(2, "nothing to send");
    alice.run(&["send", "team", "x", "--whole"]).ends_with(2, "there is a TEXT too");
}

#[test]
fn a_removed_member_is_told_so_and_reads_no_further_lines() {
    let served = Served::start();
    let (alice, bob) = served.team();
    alice.ok(&["group", "remove", "team", "bob"]);
    bob.input(&["send", "g1", "-"], b"one\ntwo\n").ends_with(1, "you are not in this group any more");
    let last = &bob.json(&["pull", "g1", "--last", "1"])[0];
    assert_eq!((&last["kind"], &last["user"]), (&json!("removed"), &json!("bob")));
}

#[test]
fn after_below_the_mark_browses_at_it_listens_above_it_is_refused() {
    let served = Served::start();
    let (alice, bob) = served.team();
    for text in ["a", "b", "c"] {
        alice.ok(&["send", "team", text]);
    }
    assert_eq!(bob.ok(&["tail", "team", "--count", "3"]).out.lines().count(), 3);
    let below = bob.ok(&["tail", "team", "--after", "2"]);
    assert_eq!(below.out.lines().count(), 3, "{below:?}");
    assert!(below.err.contains("team: seen up to 4"), "{below:?}");
    assert_eq!(bob.ok(&["tail", "team", "--after", "2", "--count", "1"]).out.lines().count(), 1);
    bob.run(&["tail", "team", "--after", "5"]).ends_with(1, "would never be seen");
    bob.run(&["tail", "--after", "5"]).ends_with(2, "--after is a msgid of one group");
    let at = bob.ok(&["tail", "team", "--after", "4", "--count", "1"]);
    assert!(at.out.ends_with(" c\n"), "{at:?}");
}

#[test]
fn skipping_is_on_purpose_and_pulling_marks_nothing() {
    let served = Served::start();
    let (alice, bob) = served.team();
    for text in ["a", "b", "c", "d"] {
        alice.ok(&["send", "team", text]);
    }
    assert_eq!(bob.ok(&["pull", "team", "--after", "3", "--limit", "2"]).out.lines().count(), 2);
    assert_eq!(bob.ok(&["pull", "team", "--last", "2"]).out.lines().count(), 2);
    assert_eq!(bob.ok(&["pull", "team"]).out.lines().count(), 5);
    assert_eq!(bob.ok(&["skip", "team", "5"]).out, "5\n");
    assert_eq!(bob.ok(&["skip", "team", "2"]).out, "5\n");
    bob.run(&["skip", "team", "99"]).ends_with(1, "no message with that msgid yet");
    let next = bob.json(&["tail", "team", "--count", "1"]);
    assert_eq!((&next[0]["msgid"], &next[0]["text"]), (&json!(6), &json!("d")));
}

#[test]
fn pull_last_reaches_over_a_time_outside_the_group() {
    let served = Served::start();
    let (alice, bob) = served.team();
    alice.ok(&["send", "team", "in"]);
    alice.ok(&["group", "remove", "team", "bob"]);
    let many: String = (0..30).map(|number| format!("out {number}\n")).collect();
    alice.input(&["send", "team", "-"], many.as_bytes());
    alice.ok(&["group", "add", "team", "bob"]);
    let kinds: Vec<_> = bob.json(&["pull", "team", "--last", "3"]).iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, ["text", "removed", "joined"]);
}

#[test]
fn a_reader_that_goes_away_is_a_quiet_end() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let many: String = (0..200).map(|number| format!("{number} {}\n", "x".repeat(2_000))).collect();
    alice.input(&["send", "team", "-"], many.as_bytes());
    for args in [&["tail", "team"][..], &["pull", "team"]] {
        let mut command = bob.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
        assert!(!said.contains("error") && !said.contains("panic"), "{said}");
    }
}

/// `tail -f app.log | gaggle send g7 - | head -1`: the source never ends by itself.
#[test]
fn a_reader_of_msgids_that_goes_away_ends_a_send_whose_stdin_goes_on() {
    let served = Served::start();
    let (alice, _) = served.team();
    let mut command = alice.command(&["send", "team", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    let mut said = String::new();
    // It ends although nobody closes stdin.
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(!said.contains("error") && !said.contains("panic"), "{said}");
    drop(stdin);
}

#[test]
fn a_group_that_is_not_ones_own_is_refused_and_not_listened_to() {
    let served = Served::start();
    let (_, bob) = served.team();
    let refused = bob.run(&["tail", "g99"]);
    refused.ends_with(1, "you are not in g99");
    refused.ends_with(1, "yours: g1 team");
}

#[test]
fn a_reader_that_stands_still_neither_stops_ctrl_c_nor_loses_anything() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let many: String = (0..300).map(|number| format!("{number} {}\n", "x".repeat(2_000))).collect();
    alice.input(&["send", "team", "-"], many.as_bytes());
    let mut child =
        bob.command(&["--json", "tail", "team"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut begun = [0; 100];
    stdout.read_exact(&mut begun).unwrap();
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(child.wait().unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let got = String::from_utf8(begun.to_vec()).unwrap() + &rest;
    let first: Vec<u64> = got
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|item| item["msgid"].as_u64().unwrap())
        .collect();
    let mut rest = bob.spawn(&["--json", "tail", "team"]);
    let mut msgids = first.clone();
    while msgids.last() != Some(&302) {
        let item: serde_json::Value = serde_json::from_str(&rest.line()).unwrap();
        let msgid = item["msgid"].as_u64().unwrap();
        if msgids.last().is_none_or(|last| msgid > *last) {
            msgids.push(msgid);
        } else {
            assert_eq!(item["seen_before"], true, "{msgid} came again without saying so");
        }
    }
    assert_eq!(msgids, (2..=302).collect::<Vec<_>>());
}

#[test]
fn a_link_joins_once_and_the_same_link_again_repeats() {
    let served = Served::start();
    let alice = served.alice();
    let link = alice.ok(&["invite", "bob"]).out;
    assert!(link.starts_with("\"gaggle://") && link.ends_with("\"\n"), "{link}");
    let bob = served.person("bob");
    let joined = bob.ok(&["join", link.trim()]);
    assert_eq!(joined.out, "u2 d2 bob\n");
    assert!(joined.err.contains("gaggle tail"), "{joined:?}");
    assert_eq!(bob.ok(&["join", link.trim()]).out, "u2 d2 bob\n");
    served.person("mallory").run(&["join", link.trim()]).ends_with(1, "this link opens nothing");
    let other = alice.ok(&["invite", "carol"]).out;
    bob.run(&["join", other.trim()]).ends_with(1, "gaggle --profile OTHER-DIR join");
    alice.run(&["invite", "bob"]).ends_with(1, "taken");
    served.person("x").run(&["join", "gaggle://nowhere"]).ends_with(2, "put it in quotes");
    assert!(mode(&bob.profile) == 0o700);
}

#[test]
fn the_first_link_names_nobody_and_is_gone_once_used() {
    let mut served = Served::start();
    let path = served.first_invite.clone().unwrap();
    assert_eq!(mode(&path), 0o600);
    let first = fs::read_to_string(&path).unwrap();
    served.person("alice").run(&["join", first.trim()]).ends_with(1, "add --as HANDLE");
    served.stop();
    served.again();
    let second = fs::read_to_string(&path).unwrap();
    assert_ne!(first, second);
    served.person("alice").run(&["join", first.trim(), "--as", "alice"]).ends_with(1, "this link opens nothing");
    let alice = served.alice();
    assert!(!path.exists());
    served.stop();
    served.again();
    assert_eq!(served.first_invite, None);
    assert_eq!(alice.json(&["status"])[1]["users"], 1);
}

#[test]
fn a_link_is_not_printed_where_no_person_reads() {
    let mut served = Served::start();
    let stopped = served.stop();
    assert!(!stopped.err.contains("gaggle://") && stopped.err.contains("first-invite.txt"), "{stopped:?}");
}

#[test]
fn the_operator_key_brings_back_who_lost_every_device() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let link = alice.ok(&["--operator", "devices", "add", "--for", "bob"]).out;
    let again = served.person("bob-again");
    assert_eq!(again.ok(&["join", link.trim()]).out, "u2 d3 bob\n");
    alice.ok(&["--operator", "devices", "revoke", "d2"]);
    bob.run(&["group", "list"]).ends_with(1, "this device was revoked");
    let devices = alice.json(&["--operator", "devices", "list", "--for", "bob"]);
    assert_eq!((&devices[0]["revoked"], &devices[1]["revoked"]), (&json!(true), &json!(false)));
    assert_eq!(alice.json(&["--operator", "users"]).len(), 2);
    let of_a_user: [&[&str]; 6] = [
        &["send", "g1", "x"],
        &["user", "name", "Alice"],
        &["user", "presence"],
        &["user", "presence", "nobody"],
        &["user", "receipts"],
        &["user", "receipts", "everyone"],
    ];
    for args in of_a_user {
        alice.run(&[&["--operator"], args].concat()).ends_with(2, "cannot be done with the operator key");
    }
}

#[test]
fn a_revoked_device_that_listens_is_told_and_ends() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let mut tail = bob.spawn(&["tail"]);
    tail.line();
    alice.ok(&["--operator", "devices", "revoke", "d2"]);
    tail.end().ends_with(1, "this device was revoked");
}

#[test]
fn a_server_that_stops_is_waited_for() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    let mut tail = bob.spawn(&["tail", "team"]);
    tail.line();
    assert_eq!(served.stop().code, Some(0));
    tail.until_said("not connected, trying again");
    served.again();
    tail.until_said("connected again");
    alice.ok(&["send", "team", "back"]);
    assert!(tail.line().ends_with(" alice: back"));
}

#[test]
fn a_second_server_of_a_folder_or_port_ends_with_2_and_says_why() {
    let served = Served::start();
    Running::spawn(served.command()).end().ends_with(2, "data");
    let mut elsewhere = served.command();
    elsewhere.args(["--data", "data2", "--certs", "certs2"]);
    Running::spawn(elsewhere).end().ends_with(2, "in use");
}

#[test]
fn the_exit_codes_are_those_of_the_table() {
    let place = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = gaggle();
        command.arg("--profile").arg(place.path().join("nobody")).args(args);
        Running::spawn(command).end()
    };
    run(&["tail"]).ends_with(2, "gaggle join LINK");
    run(&["group", "list"]).ends_with(2, "join");
    run(&["outbox", "list"]).ends_with(2, "join");
    run(&["frobnicate"]).ends_with(2, "frobnicate");
    run(&["send"]).ends_with(2, "GROUP");
    run(&["send", "g1", "-", "--mention", "bob"]).ends_with(2, "--mention is of one message");
    run(&["--help"]).ends_with(0, "");
    run(&["--version"]).ends_with(0, "");
    assert!(run(&["--version"]).out.starts_with("gaggle 0."));
    let link = format!("gaggle://127.0.0.1:9/#{}.{}", "A".repeat(43), "A".repeat(22));
    run(&["join", &link]).ends_with(3, "the same command again finishes it");
}

#[test]
fn a_signal_that_comes_while_the_server_is_held_up_ends_it_in_order() {
    let mut served = Served::start();
    served.running().signal("-STOP");
    served.running().signal("-INT");
    served.running().signal("-CONT");
    let ended = served.stop_without_signal();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// What `gaggle group` does to members, topic and policy, as a shell sees it; a topic never steers the terminal.
#[test]
fn who_may_do_what_is_changed_and_shown() {
    let served = Served::start();
    let (alice, bob) = served.team();
    assert_eq!(alice.json(&["group", "promote", "team", "bob"])[0], json!({"group": "g1", "msgid": 3}));
    assert_eq!(alice.json(&["group", "promote", "team", "bob"])[0], json!({"group": "g1"}), "no change, no item");
    bob.run(&["group", "mute", "team", "alice"]).ends_with(1, "your role does not allow this");
    alice.run(&["group", "demote", "team", "alice"]).ends_with(1, "you are the last owner");
    alice.ok(&["group", "mute", "team", "bob"]);
    bob.run(&["send", "team", "hello"]).ends_with(1, "muted");
    assert_eq!(
        alice.json(&["group", "members", "team"])[1],
        json!({"user": "u2", "handle": "bob", "role": "admin", "joined": 2, "muted": true})
    );
    alice.ok(&["group", "unmute", "team", "bob"]);
    bob.ok(&["group", "topic", "team", "what we eat"]);
    assert_eq!(alice.ok(&["group", "topic", "team"]).out, "what we eat\n");
    alice.ok(&["group", "policy", "team", "full-history"]);
    assert_eq!(bob.ok(&["group", "policy", "team"]).out, "full-history\n");
    alice.ok(&["group", "demote", "team", "bob"]);
    alice
        .run(&["group", "demote", "team", "Bob", "--to", "admin"])
        .ends_with(1, "gaggle group promote g1 bob --to admin");
    alice.run(&["group", "promote", "team", "alice"]).ends_with(1, "gaggle group demote g1 alice --to admin");
    alice.ok(&["group", "ban", "team", "bob"]);
    alice.run(&["group", "add", "team", "bob"]).ends_with(1, "banned");
    alice.ok(&["group", "unban", "team", "bob"]);
    bob.ok(&["group", "added-by", "nobody"]);
    assert_eq!(bob.json(&["group", "added-by"])[0], json!({"added_by": "nobody"}));
    alice.run(&["group", "add", "team", "bob"]).ends_with(1, "let nobody add them");
    let told = alice.ok(&["pull", "team", "--last", "20"]).out;
    for said in [
        "alice made bob an admin",
        "bob was muted by alice",
        "bob may speak again, says alice",
        "bob set the topic to \"what we eat\"",
        "everything from before as well",
        "alice made bob a member",
        "bob was removed by alice",
        "bob may be added again, says alice",
    ] {
        assert!(told.contains(said), "{said:?} in\n{told}");
    }
    let kinds: Vec<_> = alice.json(&["pull", "team", "--last", "20"]).iter().map(|item| item["kind"].clone()).collect();
    let expected =
        ["created", "joined", "role", "muted", "unmuted", "topic", "policy", "role", "removed", "ban-lifted"];
    assert_eq!(kinds, expected);
    alice.run(&["group", "topic", "team", "a\u{1b}[2Jb"]).ends_with(1, "not a name");
}

/// `gaggle dm`: to somebody, to oneself, from stdin, and what the lists and the other side say.
#[test]
fn a_message_to_one_user_needs_no_group() {
    let served = Served::start();
    let (alice, bob) = served.team();
    assert_eq!(alice.ok(&["dm", "bob", "lunch", "at", "noon?"]).out, "2\n");
    assert_eq!(bob.input(&["dm", "ALICE", "-"], b"yes\nsure\n").out, "3\n4\n");
    let told = bob.ok(&["pull", "alice", "--last", "9"]).out;
    assert!(told.contains("* alice opened this chat\n") && told.contains("alice: lunch at noon?\n"), "{told}");
    let listed = bob.json(&["group", "list"]);
    assert_eq!(
        (&listed[1]["name"], &listed[1]["direct"], &listed[1]["head"]),
        (&json!("alice"), &json!(true), &json!(4))
    );
    assert!(listed[0].get("direct").is_none());
    assert_eq!(alice.ok(&["dm", "alice", "milk"]).out, "2\n");
    assert_eq!(bob.json(&["group", "list"]).len(), 2, "a notebook is nobody else's");
    alice.run(&["dm", "nobody", "hello"]).ends_with(1, "no such user");
    alice.run(&["group", "leave", "bob"]).ends_with(1, "cannot be done to a direct chat");
    let tail = bob.ok(&["tail", "alice", "--count", "4"]);
    assert!(tail.out.contains("alice: lunch at noon?"), "{tail:?}");
}

/// Scenario 36: people are called what they want, normalised, beside the handle; what shows nothing, hides something or
/// steers is refused.
#[test]
fn display_names_stand_beside_handles_in_lists_and_deceive_nobody() {
    let served = Served::start();
    let (alice, bob) = served.team();
    bob.ok(&["user", "name", "  Bob Zoe\u{308}  "]);
    for name in ["\u{200b}", "   ", "a\u{202e}b", "a\u{200d}b", "te\x1b[2Jst", "a\nb", "\u{3164}", &"x".repeat(129)] {
        let refused = bob.run(&["user", "name", "--", name]);
        assert_eq!(refused.code, Some(1), "{name:?}: {refused:?}");
        assert!(!steers(&refused.err));
    }
    let called = "Bob Zo\u{eb}";
    let members = alice.json(&["group", "members", "team"]);
    let row = json!({"user": "u2", "handle": "bob", "name": called, "role": "member", "joined": 2});
    assert_eq!(members[1], row);
    assert_eq!(alice.json(&["users"])[1], json!({"user": "u2", "handle": "bob", "name": called, "operator": false}));
    assert!(alice.ok(&["users"]).out.contains(&format!("u2   bob  \"{called}\"\n")));
    assert!(alice.ok(&["group", "members", "team"]).out.contains(&format!("u2   member  bob  \"{called}\"\n")));
    bob.ok(&["user", "name", ""]);
    assert_eq!(alice.json(&["users"])[1], json!({"user": "u2", "handle": "bob", "operator": false}));
    assert_eq!(alice.json(&["group", "list"])[0]["head"], 2, "a change of a display name is no item");
}

#[test]
fn operators_shut_users_out_let_them_in_delete_them_and_free_their_handles() {
    let served = Served::start();
    let (alice, bob) = served.team();
    bob.run(&["user", "deactivate", "alice"]).ends_with(1, "your role does not allow this");
    let mut tail = bob.spawn(&["tail", "team", "--count", "9"]);
    tail.until_said("team: seen up to 1, the newest is 2");
    assert_eq!(alice.json(&["user", "deactivate", "BOB"])[0], json!({"handle": "BOB"}));
    tail.end().ends_with(1, "this user is deactivated");
    bob.run(&["group", "list"]).ends_with(1, "gaggle user reactivate");
    assert_eq!(alice.json(&["users"])[1]["state"], "deactivated");
    alice.ok(&["user", "reactivate", "bob"]);
    assert_eq!(bob.ok(&["send", "team", "back"]).out, "3\n");
    alice.ok(&["user", "delete", "bob"]);
    bob.run(&["group", "list"]).ends_with(1, "this user is deleted");
    assert_eq!(alice.json(&["users"]).len(), 1);
    assert_eq!(alice.json(&["users", "--all"])[1]["state"], "deleted");
    let shown = alice.ok(&["pull", "team", "--last", "2"]).out;
    assert!(
        shown.contains("bob (deleted): back\n") && shown.contains("bob (deleted) was removed: the user was deleted\n")
    );
    alice.run(&["invite", "bob"]).ends_with(1, "this handle is taken");
    alice.ok(&["user", "free-handle", "bob"]);
    alice.run(&["user", "free-handle", "bob"]).ends_with(1, "there is no such user");
    alice.ok(&["invite", "bob"]);
}

#[test]
fn who_says_who_is_there_and_tail_says_with_a_flag_who_comes() {
    let served = Served::start();
    let (alice, bob) = served.team();
    bob.ok(&["user", "name", "Bob"]);
    assert!(alice.json(&["who", "team"]).is_empty());
    let mut alices = alice.spawn(&["tail", "team", "--typing"]);
    alices.until_said("team: seen up to 0, the newest is 2");
    let bobs = bob.spawn(&["tail", "team"]);
    alices.until_said("bob is here");
    assert_eq!(alice.json(&["who", "team"])[1], json!({"user": "u2", "handle": "bob", "name": "Bob"}));
    assert_eq!(bob.ok(&["who", "team"]).out, "u1   alice\nu2   bob  \"Bob\"\n");
    bobs.signal("-INT");
    bobs.end();
    alices.until_said("bob has gone");
    alices.signal("-INT");
    assert_eq!(alices.end().code, Some(0));
}
