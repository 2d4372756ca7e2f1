//! An index that is slow, busy, hangs or fails: commits go on, the server ends with a sentence, nothing answered is lost.

use std::sync::Arc;
use std::time::Duration;

use gaggle::client::RequestError;
use gaggle::ids::MessageId;
use gaggle::server::IndexOptions;
use gaggle::store::applier::Pace;
use gaggle::store::faulty::{Fault, FaultyIndex};
use gaggle::wire::code::Code;

use crate::harness::{Scene, Site};
use crate::raw::{Pulling, soon};

/// How long the index may take in these tests.
const STALL: Duration = Duration::from_secs(2);

/// Flushed and recycled soon, given up soon; few bytes wait for it.
fn soon_in_trouble(index: &Arc<FaultyIndex>) -> IndexOptions {
    let pace = Pace { idle: Duration::from_millis(10), held_bytes_idle: 1_000, ..Pace::default() };
    IndexOptions { pace, stall: STALL, waiting_bytes_max: 20_000, ..IndexOptions::of(index.clone()) }
}

async fn scene() -> (Scene, Arc<FaultyIndex>) {
    let index = Arc::new(FaultyIndex::default());
    let scene = Scene::on(Site::start_with_index(soon_in_trouble(&index)).await).await;
    assert_eq!(index.begun(), 1);
    (scene, index)
}

/// What was answered is there after the next start, which has rebuilt the index.
async fn comes_back(mut scene: Scene, index: &FaultyIndex, stored: &[u64]) {
    scene.site.start_again().await;
    assert_eq!(index.begun(), 2);
    scene.reconnect_ada().await;
    let items = scene.ada.browse(scene.group, stored[0] - 1).await;
    let there: Vec<u64> = items.iter().map(|item| item.msgid.value()).take(stored.len()).collect();
    assert_eq!(there, stored);
    scene.send().await;
    scene.site.stop().await;
}

#[tokio::test]
async fn an_index_that_fails_or_hangs_ends_the_server_and_the_next_start_rebuilds_it() {
    let cases = [
        (Fault::Apply, "the index cannot be written: it was told to"),
        (Fault::Flush, "the index cannot be written: it was told to"),
        (Fault::Read, "the index cannot be read: it was told to"),
        (Fault::Stall, "the index has stalled: for more than 2000 ms"),
        (Fault::StallRead, "the index has stalled: for more than 2000 ms a page is read"),
        (Fault::StallRecycling, "the index has stalled: for more than 10000 ms it is opened anew"),
    ];
    for (fault, sentence) in cases {
        let (mut scene, index) = scene().await;
        let stored = scene.send_many(20).await;
        let mut bob = scene.bob.call(scene.site.address()).await;
        let engine = index.engine();
        engine.set(fault);
        engine.hold(if fault == Fault::StallRecycling { 2_000 } else { 0 });
        // One more message and one page are under way when it ends; whether they are answered is open.
        scene.ada.post_text(scene.next, scene.next, scene.group, "the last").await;
        scene.next += 1;
        bob.open_pull(scene.group, 0, 0, Pulling::Browse).await;
        let said = scene.site.failed().await;
        assert!(said.starts_with(sentence), "{fault:?}: {said}");
        assert!(
            said.ends_with("all that was answered is kept: the next start rebuilds the index from the log"),
            "{said}"
        );
        assert_eq!(soon("the end of the connection", bob.closed()).await, Some(Code::ServerStopping));
        engine.heal();
        comes_back(scene, &index, &stored).await;
    }
}

#[tokio::test]
async fn a_stop_that_meets_an_index_that_hangs_ends_with_a_sentence() {
    let (mut scene, index) = scene().await;
    let stored = scene.send_many(20).await;
    let engine = index.engine();
    engine.set(Fault::Stall);
    let said = scene.site.fail_to_stop().await;
    assert!(said.starts_with("the index has stalled"), "{said}");
    engine.heal();
    comes_back(scene, &index, &stored).await;
}

#[tokio::test]
async fn while_the_index_is_opened_anew_commits_go_on_and_pages_come_later() {
    let index = Arc::new(FaultyIndex::default());
    let options = IndexOptions { stall: Duration::from_secs(60), ..soon_in_trouble(&index) };
    let site = Site::start_with_index(options).await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", gaggle::client::History::FromJoin).await.unwrap();
    let bob = site.join(&ada, "bob", Some(group)).await;
    let engine = index.engine();
    engine.set(Fault::StallRecycling);
    engine.hold(2_000);
    ada.send(group, "this wakes the applier").await;
    soon("a page that is not done", async {
        loop {
            match bob.client.pull(group, MessageId::ZERO, 0).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(RequestError::Refused(refusal)) => {
                    assert_eq!(Code::from_number(refusal.number), Some(Code::Busy));
                    assert!(refusal.retry_after_ms > 0);
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
    })
    .await;
    let last = ada.send(group, "committed meanwhile").await;
    let mut tail = bob.tail().await;
    engine.heal();
    tail.until_msgid(group, last).await;
    assert_eq!(tail.texts(group), ["this wakes the applier", "committed meanwhile"]);
}
