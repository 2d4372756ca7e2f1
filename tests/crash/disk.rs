//! A disk that fails under load, under a server in this process.

use gaggle::ids::GroupId;
use gaggle::wire::code::Class;
use gaggle::wire::frame::{Error, Sent};
use tokio::task::JoinSet;

use crate::harness::{Scene, Site, rounds};
use crate::raw::{Key, Pulling, Raw, soon, text_frame};
use crate::window::{Ledger, Window, check};

/// How a disk fails.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Sync,
    Write,
}

const LOG: &str = "/data/log/";
/// Sends of each device before the disk fails, and again after it works.
const SENDS: u64 = 100;

fn fail(site: &Site, fault: Fault, times: u64) {
    match fault {
        Fault::Sync => site.simulated().fail_syncs(times, LOG),
        Fault::Write => site.simulated().fail_writes(times, LOG),
    }
}

/// Sends until the failed store was opened anew, which ends every connection, and then until so many more are answered. Returns how many answers were *outcome unknown*.
async fn send_through(key: Key, group: GroupId, server: std::net::SocketAddr, ledger: Ledger) -> u64 {
    let mut window = Window::new(key, group, ledger.clone());
    let mut raw = window.connect(server).await;
    while window.step(&mut raw).await.is_some() {}
    let until = ledger.count() + SENDS;
    let mut raw = window.connect(server).await;
    while ledger.count() < until {
        window.step(&mut raw).await.expect("a server that goes on");
    }
    window.finish(&mut raw).await;
    window.unknown
}

async fn whole_history(raw: &mut Raw, group: GroupId, ledger: &Ledger) {
    let answered = ledger.snapshot();
    check(group, &raw.browse(group, 0).await, &answered);
}

#[tokio::test]
async fn a_disk_that_fails_under_load_loses_nothing_that_was_answered() {
    for seed in 0..rounds(4) {
        for fault in [Fault::Sync, Fault::Write] {
            let mut scene = Scene::start().await;
            let (group, server) = (scene.group, scene.site.address());
            let ledger = Ledger::new();
            let mut senders = JoinSet::new();
            for number in 0..3 {
                let key = scene.site.raw_user(&mut scene.ada, &format!("sender{number}"), Some(group)).await;
                senders.spawn(send_through(key, group, server, ledger.clone()));
            }
            ledger.reaches(3 * SENDS).await;
            fail(&scene.site, fault, 1);
            let mut unknown = 0;
            while let Some(of_one) = soon("the senders", senders.join_next()).await {
                unknown += of_one.unwrap();
            }
            assert!(unknown > 0, "{fault:?}");
            scene.reconnect_ada().await;
            whole_history(&mut scene.ada, group, &ledger).await;
            scene.site.lose_power(seed).await;
            scene.site.start_again().await;
            scene.reconnect_ada().await;
            whole_history(&mut scene.ada, group, &ledger).await;
        }
    }
}

#[tokio::test]
async fn while_the_disk_fails_reads_go_on_and_sends_are_answered_outcome_unknown() {
    for fault in [Fault::Sync, Fault::Write] {
        let mut scene = Scene::start().await;
        let group = scene.group;
        let stored = scene.send_many(5).await;
        let mut bob = scene.bob.call(scene.site.address()).await;

        fail(&scene.site, fault, u64::MAX);
        let (first, second) = (scene.next, scene.next + 1);
        for seq in [first, second, first] {
            let error = scene.ada.ask::<Sent>(&text_frame(seq, first, group, "in doubt")).await.unwrap_err();
            assert_eq!(error.class, Class::Unknown.number(), "{fault:?}: {error:?}");
            for raw in [&mut scene.ada, &mut bob] {
                let page = raw.pull(group, 2, 0, Pulling::Browse).await.unwrap();
                assert_eq!(page.msgids(), stored, "{fault:?}");
            }
        }

        fail(&scene.site, fault, 0);
        // What sessions were told may be less than what turns out to be kept: they come back and ask anew.
        scene.ada.closed().await;
        bob.closed().await;
        scene.reconnect_ada().await;
        let later: Error = scene.ada.ask::<Sent>(&text_frame(second, first, group, "in doubt")).await.unwrap_err();
        assert_ne!(later.class, Class::Permanent.number(), "the one before it comes first: {later:?}");
        let sent = scene.ada.ask::<Sent>(&text_frame(first, first, group, "in doubt")).await.unwrap();
        let after = scene.ada.ask::<Sent>(&text_frame(second, first, group, "in doubt")).await.unwrap();
        assert_eq!(sent.msgid.value(), stored[stored.len() - 1] + 1, "{fault:?}");
        assert_eq!(after.msgid, sent.msgid.next(), "{fault:?}");
    }
}

/// The profiles' disk is another one: the outbox settles by itself.
#[tokio::test]
async fn the_library_gets_its_sends_through_a_failing_disk_once() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let mut queued = Vec::new();
    for number in 0..60_u64 {
        if number % 20 == 10 {
            fail(&site, if number == 30 { Fault::Write } else { Fault::Sync }, 1);
        }
        queued.push(ada.client.queue(group, &number.to_string()).await.unwrap());
        if number % 20 == 15 {
            soon("an answer", ada.client.outcome(queued[queued.len() - 1])).await.unwrap();
        }
    }
    let mut msgids = Vec::new();
    for seq in queued {
        match soon("an answer", ada.client.outcome(seq)).await.unwrap() {
            gaggle::client::Outcome::Sent { msgid, .. } => msgids.push(msgid.value()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(msgids, (2..62).collect::<Vec<u64>>());
}
