//! What a group keeps: removed by a real server, named to whoever asks for it, and gone on from.

use std::time::{Duration, Instant};

use gaggle::client::{Event, Retention};
use gaggle::ids::{GroupId, MessageId};
use serde_json::{Value, json};

use crate::harness::{Person as Member, Site, Tail};
use crate::raw::soon;
use crate::shell::{Person, Running, Served, gaggle};

/// Nothing that is removed takes nearly so long.
const PATIENCE: Duration = Duration::from_secs(120);

fn explain(person: &Person) -> Value {
    person.json(&["retention", "explain", "team"]).remove(0)
}

/// Waits until so many messages are left.
fn until_left(person: &Person, left: u64) -> Value {
    let since = Instant::now();
    loop {
        let kept = explain(person);
        let (first, head) = (kept["first_kept"].as_u64().unwrap(), kept["head"].as_u64().unwrap());
        if head + 1 - first == left {
            return kept;
        }
        assert!(since.elapsed() < PATIENCE, "{kept}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn lines(count: u64) -> Vec<u8> {
    (1..=count).flat_map(|number| format!("text {number}\n").into_bytes()).collect()
}

/// Scenario 27: retention removes most of what one has not read, then all; the pull says which range is gone and goes on
/// behind it, no page is empty for ever, and the next message has the next number, after a restart too.
#[test]
fn what_retention_removed_is_named_and_everything_goes_on_behind_it() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    alice.input(&["send", "team", "-"], &lines(20));
    alice.ok(&["retention", "set", "team", "--count", "5"]);
    let kept = until_left(&alice, 5);
    let (first, head) = (kept["first_kept"].as_u64().unwrap(), kept["head"].as_u64().unwrap());
    assert_eq!((&kept["own"], &kept["count"]), (&json!(true), &json!(5)));

    let pulled = bob.json(&["pull", "team"]);
    let gone = pulled.first().unwrap();
    assert_eq!((&gone["kind"], &gone["last"]), (&json!("gone"), &json!(first - 1)), "{gone}");
    let msgids: Vec<u64> = pulled.iter().skip(1).map(|item| item["msgid"].as_u64().unwrap()).collect();
    assert_eq!(msgids, (first..=head).collect::<Vec<u64>>());
    let mut tail = bob.spawn(&["--json", "tail"]);
    let (mut says_gone, mut says_last) = (false, false);
    while !says_gone || !says_last {
        let line: Value = serde_json::from_str(&tail.line()).unwrap();
        says_gone |= line["kind"] == "gone" && line["last"] == json!(first - 1);
        says_last |= line["text"] == "text 20";
    }
    tail.signal("-INT");
    tail.end();

    alice.ok(&["retention", "set", "team", "--age", "1s"]);
    until_left(&alice, 0);
    let pulled = bob.json(&["pull", "team"]);
    assert!(pulled.iter().all(|line| line["kind"] == "gone") && !pulled.is_empty(), "{pulled:?}");

    alice.ok(&["retention", "set", "team", "--all"]);
    served.stop();
    served.again();
    let sent = alice.json(&["send", "team", "and on"]);
    assert_eq!(sent.last().unwrap()["msgid"], json!(head + 1), "{sent:?}");
    let tailed = bob.json(&["tail", "--count", "1"]);
    assert_eq!(tailed.last().unwrap()["text"], json!("and on"), "{tailed:?}");
    served.stop();
    let mut verify = gaggle();
    verify.arg("verify").current_dir(served.place.path());
    let ran = Running::spawn(verify).end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
}

#[test]
fn the_device_that_holds_history_back_is_named_and_lets_it_go_when_it_has_it() {
    let served = Served::start();
    let (alice, bob) = served.team();
    alice.input(&["send", "team", "-"], &lines(3));
    alice.ok(&["retention", "set", "team", "--acked", "1s"]);
    let head = explain(&alice)["head"].to_string();
    alice.ok(&["skip", "team", &head]);
    let text = alice.ok(&["retention", "explain", "team"]).out;
    assert!(text.contains("of bob, which has everything up to"), "{text}");
    // What he has not acknowledged yet stays.
    bob.ok(&["skip", "team", "3"]);
    assert_eq!(until_left(&alice, 2)["holder"]["acked"], json!(3));
    bob.ok(&["skip", "team", &head]);
    until_left(&alice, 0);
    assert!(alice.ok(&["retention", "explain", "team"]).out.contains("no device: all have everything"));
}

#[test]
fn what_is_to_be_kept_is_said_whole_and_shown() {
    let served = Served::start();
    let (alice, bob) = served.team();
    alice.run(&["retention", "set", "team"]).ends_with(2, "--age");
    bob.run(&["retention", "set", "team", "--all"]).ends_with(1, "role");
    alice.ok(&["retention", "set", "team", "--age", "90d", "--bytes", "1000000"]);
    let shown = bob.ok(&["retention", "show", "team"]).out;
    assert!(shown.contains("for 90 d; 1000000 bytes at the most (the group's own policy)"), "{shown}");
    alice.ok(&["retention", "set", "team", "--default"]);
    assert!(bob.ok(&["retention", "show", "team"]).out.contains("everything (the server's policy)"));
}

/// Waits until so many messages are left of a group that is to keep this; says which is the first of them.
async fn keeps(owner: &Member, group: GroupId, policy: Retention, left: u64) -> MessageId {
    owner.client.set_retention(group, Some(policy)).await.unwrap();
    soon("what is removed", async {
        loop {
            let kept = owner.client.retention(group).await.unwrap();
            if kept.head.value() + 1 - kept.first_kept.value() == left {
                return kept.first_kept;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// What a listener was told is gone.
fn gone(tail: &Tail) -> Vec<(u64, u64)> {
    let mut gone = Vec::new();
    for event in &tail.events {
        if let Event::Gone { first, last, .. } = event {
            gone.push((first.value(), last.value()));
        }
    }
    gone
}

/// Scenario 27: bob has 20 unread; retention removes 15, then all; his cursor is below the first kept message. His
/// program is told of each range that is gone once, before what comes behind it.
#[tokio::test]
async fn what_is_gone_is_not_unread_and_is_told_to_the_application_once() {
    let mut site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let phone = site.add_device(&bob).await;
    let mut last = MessageId::ZERO;
    for number in 0..20 {
        last = ada.send(group, &format!("{number}")).await;
    }
    assert_eq!(bob.unread(group).await, 20);
    let first = keeps(&ada, group, Retention { count: Some(5), ..Retention::default() }, 5).await;
    assert_eq!(bob.unread(group).await, 5);
    let mut tail = bob.tail().await;
    tail.until_msgid(group, last).await;
    let joined = 2;
    assert_eq!(gone(&tail), [(joined, first.value() - 1)]);
    assert_eq!(tail.msgids(group), (first.value()..=last.value()).collect::<Vec<u64>>());

    // Whoever listens already has what goes now; the phone never had any of it.
    keeps(&ada, group, Retention { age_s: Some(0), ..Retention::default() }, 0).await;
    assert_eq!((bob.unread(group).await, phone.unread(group).await), (0, 0));
    let mut on_phone = phone.tail().await;
    on_phone.until("what is gone", |tail| !gone(tail).is_empty()).await;
    assert_eq!((gone(&on_phone), on_phone.received.len()), (vec![(joined, last.value())], 0));
    ada.client.set_retention(group, Some(Retention::default())).await.unwrap();
    site.restart().await;
    let next = ada.send(group, "and on").await;
    assert_eq!(next, last.next());
    for tail in [&mut tail, &mut on_phone] {
        tail.until_msgid(group, next).await;
        assert_eq!(gone(tail).len(), 1, "{:?}", gone(tail));
    }
    assert_eq!((bob.unread(group).await, ada.unread(group).await), (1, 0));
}
