//! What reaches a listener whose network comes and goes: everything, once, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gaggle::client::{Client, ClientOptions, Content, Event, Profile, Subscription};
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::ids::{GroupId, MessageId};
use gaggle::wire::code::Code;
use gaggle::wire::frame::{Cursors, Done, Extensions, Frame, Heads, Push, Sent, Skip};
use gaggle::wire::item::Item;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::harness::{Acks, Person, Scene, Tail, quick, rounds};
use crate::raw::{Key, Pulling, Raw, Role, add, msgids, pushed_items, read_page, remove};
use crate::relay::{Relay, Way, Weather};

/// The numbers from the first to the last, which must all be there, once, in order.
#[track_caller]
fn assert_whole(got: &[u64], first: u64, last: u64) {
    assert_eq!(got, (first..=last).collect::<Vec<_>>());
}

/// Scenario 4: bob was offline with 5,000 waiting; in the middle of a pull 50 live messages arrive, bob acks the newest of
/// them and the link drops: the cursor stays at what was handed without a hole, and the rest is there after it.
#[tokio::test]
async fn an_ack_of_a_live_message_never_passes_the_backlog_before_it() {
    let mut scene = Scene::start().await;
    let backlog = *scene.send_many(5_000).await.last().unwrap();
    let mut bob = scene.bob.listen(scene.site.address()).await;
    bob.subscribe().await;
    let mut page = bob.open_pull(scene.group, 1, 500, Pulling::Deliver).await;
    let newest = *scene.send_many(50).await.last().unwrap();
    // The live ones are told, as a head: they continue nothing that was handed.
    loop {
        let frame = bob.pushed_frame().await;
        assert_ne!(frame.kind, 112, "nothing is pushed over a hole of thousands");
        if frame.kind == 113
            && frame.decode::<Heads>().unwrap().entries.contains(&(scene.group, MessageId::new(newest)))
        {
            break;
        }
    }
    bob.ack(scene.group, newest).await;
    let page = read_page(&mut page).await.unwrap();
    assert_whole(&page.msgids(), 2, 501);
    assert!(page.more);
    bob.ack(scene.group, newest).await;
    let answered = bob.cursor_reaches(scene.group, page.covered_to.value()).await;
    assert!(answered.iter().all(|cursor| *cursor <= 501), "{answered:?}");
    bob.close().await;

    let mut bob = scene.bob.listen(scene.site.address()).await;
    assert_eq!(bob.cursor(scene.group).await, 501);
    let mut got = Vec::new();
    while got.last() != Some(&newest) {
        let after = got.last().copied().unwrap_or(501);
        got.extend(bob.pull(scene.group, after, 500, Pulling::Deliver).await.unwrap().msgids());
    }
    assert_whole(&got, 502, backlog + 50);
}

/// Another process of the device skips, an earlier connection of it acknowledges late, its user comes back into a group: who
/// listens knows of none of it by itself, and would pull below the cursor.
#[tokio::test]
async fn who_listens_is_told_where_its_cursor_rose_by_another_way() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.listen(scene.site.address()).await;
    bob.subscribe().await;
    let head = *scene.send_many(100).await.last().unwrap();
    let mut other = scene.bob.call(scene.site.address()).await;
    let (gid, extensions) = (scene.group, Extensions::default());
    other.ask::<Cursors>(&Skip { gid, to: MessageId::new(90), extensions }).await.unwrap();
    assert_eq!(bob.cursor_reaches(scene.group, 90).await, [90]);
    let page = bob.pull(scene.group, 90, 0, Pulling::Deliver).await.unwrap();
    assert_whole(&page.msgids(), 91, head);
    bob.ack(scene.group, head).await;
    assert_eq!(bob.cursor_reaches(scene.group, head).await, [head]);

    scene.ada.ask::<Done>(&remove(gid, "bob")).await.unwrap();
    assert_eq!(msgids(&pushed_items(&bob.pushed().await)), [head + 1]);
    bob.ack(scene.group, head + 1).await;
    assert_eq!(bob.cursor_reaches(scene.group, head + 1).await, [head + 1]);
    scene.send().await;
    scene.ada.ask::<Done>(&add(gid, "bob")).await.unwrap();
    assert_eq!(bob.cursor_reaches(scene.group, head + 2).await, [head + 2]);
}

/// Whoever stops the push stream listens again once it subscribes anew: on another stream, from its durable cursor on.
#[tokio::test]
async fn a_push_stream_that_was_stopped_is_followed_by_another_for_who_subscribes_again() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.listen(scene.site.address()).await;
    bob.subscribe().await;
    let head = bob.pull(scene.group, 1, 0, Pulling::Deliver).await.unwrap().head.value();
    let first = *scene.send_many(1).await.last().unwrap();
    assert_eq!(msgids(&pushed_items(&bob.pushed().await)), [first]);
    assert_eq!(first, head + 1);
    bob.ack(scene.group, first).await;
    bob.cursor_reaches(scene.group, first).await;
    bob.stop_pushes();
    // The server finds out when it writes to the stream.
    let missed = *scene.send_many(3).await.last().unwrap();
    // What came by a page may be on its way in a push too.
    let mut got = BTreeSet::new();
    loop {
        bob.subscribe().await;
        let after = got.last().copied().unwrap_or(first);
        got.extend(bob.pull(scene.group, after, 0, Pulling::Deliver).await.unwrap().msgids());
        scene.send_many(1).await;
        let frame = bob.pushed_frame().await;
        if frame.kind == Push::TYPE {
            got.extend(msgids(&pushed_items(&frame.decode().unwrap())));
            break;
        }
    }
    let last = *got.last().unwrap();
    assert!(last > missed);
    assert_whole(&got.into_iter().collect::<Vec<_>>(), first + 1, last);
}

/// Scenario 4: the same with the client library, over a link that is cut in mid-pull.
#[tokio::test]
async fn a_backlog_cut_in_the_middle_arrives_whole_and_in_order() {
    let mut scene = Scene::start().await;
    let group = scene.group;
    let way = Relay::new(scene.site.address(), 4).way().await;
    let carl = carl_behind(&mut scene, &way).await;
    scene.send_many(2_000).await;
    let mut tail = carl.tail().await;
    tail.until("some of the backlog", |tail| tail.received.len() > 300).await;
    way.sever();
    let last = *scene.send_many(50).await.last().unwrap();
    tail.until_msgid(group, MessageId::new(last)).await;
    assert_whole(&tail.msgids(group), 3, last);
    assert!(tail.received.iter().all(|received| !received.seen_before));
}

/// Scenario 5: m4 is acked though m3 never arrived: the ack counts up to where there is no hole, and after a reconnect
/// both arrive.
#[tokio::test]
async fn a_hole_is_sent_again_and_never_jumped() {
    let mut scene = Scene::start().await;
    scene.send_many(2).await;
    let mut bob = scene.bob.listen(scene.site.address()).await;
    let page = bob.pull(scene.group, 1, 1, Pulling::Deliver).await.unwrap();
    assert_eq!(page.msgids(), [2]);
    // Browsing shows m4, but hands nothing out.
    assert_eq!(bob.pull(scene.group, 3, 0, Pulling::Browse).await.unwrap().msgids(), [4]);
    bob.ack(scene.group, 4).await;
    assert_eq!(bob.cursor_reaches(scene.group, 2).await, [2]);
    bob.close().await;
    let mut bob = scene.bob.listen(scene.site.address()).await;
    assert_eq!(bob.pull(scene.group, 2, 0, Pulling::Deliver).await.unwrap().msgids(), [3, 4]);
}

/// The client's side of the hand-over as the protocol tells it, by hand, so that its pulls can be counted.
struct Inbox {
    end: u64,
    highest: u64,
    ahead: BTreeMap<u64, Vec<Item>>,
    got: Vec<u64>,
    pulls: u32,
}

impl Inbox {
    fn take(&mut self, items: &[Item], covered_to: u64) {
        self.got.extend(items.iter().map(|item| item.msgid.value()).filter(|msgid| *msgid > self.end));
        self.end = self.end.max(covered_to);
    }

    fn pushed(&mut self, push: &Push) {
        for batch in &push.batches {
            let items: Vec<Item> = pushed_items(&Push { batches: vec![batch.clone()], ..push.clone() });
            self.highest = self.highest.max(batch.covered_to.value());
            if batch.continues.value() <= self.end {
                self.take(&items, batch.covered_to.value());
            } else {
                self.ahead.insert(batch.continues.value(), items);
            }
        }
    }

    fn join(&mut self) {
        while let Some((continues, items)) = self.ahead.pop_first() {
            if continues > self.end {
                self.ahead.insert(continues, items);
                return;
            }
            let covered_to = items.last().map_or(continues, |item| item.msgid.value());
            self.take(&items, covered_to);
        }
    }
}

/// Sends a text each ms until told to stop; returns the last msgid.
async fn send_each_ms(scene: &mut Scene, stop: tokio::sync::watch::Receiver<bool>) -> u64 {
    let mut last = 0;
    let mut each = tokio::time::interval(Duration::from_millis(1));
    while !*stop.borrow() {
        each.tick().await;
        last = scene.send().await;
    }
    last
}

/// Scenario 6: a sender at 1 ms through bob's handshake and first pulls: every message once, and after few pulls the
/// rest is pushed: the hand-over converges.
#[tokio::test]
async fn a_hand_over_under_a_sender_at_1_ms_converges_after_few_pulls() {
    let mut scene = Scene::start().await;
    scene.send_many(250).await;
    let (address, key, group) = (scene.site.address(), scene.bob.clone(), scene.group);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let listens = async {
        let mut bob = key.listen(address).await;
        bob.subscribe().await;
        let mut inbox = Inbox { end: 1, highest: 2, ahead: BTreeMap::new(), got: Vec::new(), pulls: 0 };
        let mut pushed = 0;
        // Converged: so many in a row came by push, without a pull between them.
        while pushed < 300 {
            inbox.join();
            if inbox.highest > inbox.end {
                inbox.pulls += 1;
                assert!(inbox.pulls < 100, "the hand-over does not converge");
                let page = bob.pull(group, inbox.end, 0, Pulling::Deliver).await.unwrap();
                inbox.highest = inbox.highest.max(page.head.value());
                inbox.take(&page.items, page.covered_to.value());
                inbox.join();
                pushed = 0;
                if page.more || inbox.ahead.is_empty() && page.head.value() - page.covered_to.value() > 64 {
                    continue;
                }
            }
            let frame = bob.pushed_frame().await;
            match frame.kind {
                112 => {
                    let before = inbox.got.len();
                    inbox.pushed(&frame.decode().unwrap());
                    pushed += inbox.got.len() - before;
                    bob.ack(group, inbox.end).await;
                }
                113 => {
                    let heads: Heads = frame.decode().unwrap();
                    inbox.highest = inbox.highest.max(heads.entries[0].1.value());
                }
                _ => {}
            }
        }
        stop.send(true).unwrap();
        (bob, inbox)
    };
    let ((mut bob, mut inbox), last) = tokio::join!(listens, send_each_ms(&mut scene, stopped));
    while inbox.end < last {
        inbox.pushed(&bob.pushed().await);
        bob.ack(group, inbox.end).await;
    }
    assert_whole(&inbox.got, 2, last);
    // 250 waiting make three pages of 100; what came meanwhile makes few more.
    assert!(inbox.pulls <= 10, "{} pulls", inbox.pulls);
}

/// Scenario 6: the same with the client library, over a network on which pushes and pages overtake each other.
#[tokio::test]
async fn a_listener_that_starts_under_a_sender_at_1_ms_gets_every_message_once() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 6).way().await;
    let carl = carl_behind(&mut scene, &way).await;
    let first = scene.send_many(200).await[0];
    let group = scene.group;
    way.weather(Weather { loss: 0.02, delay_ms: 0..20 });
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let listens = async {
        let mut tail = carl.tail().await;
        tail.until("800 items", |tail| tail.received.len() >= 800).await;
        stop.send(true).unwrap();
        tail
    };
    let (mut tail, last) = tokio::join!(listens, send_each_ms(&mut scene, stopped));
    tail.until_msgid(group, MessageId::new(last)).await;
    assert_whole(&tail.msgids(group), first - 1, last);
    assert!(way.dropped().1 > 0, "the network was bad");
}

/// Credit bounds what is pushed without an ack, not what arrives: beyond it heads are told, and the client pulls.
#[tokio::test]
async fn a_listener_that_acknowledges_nothing_gets_everything_all_the_same() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 61).way().await;
    let carl = carl_behind(&mut scene, &way).await;
    let mut tail = carl.tail().await;
    tail.acks = Acks::None;
    tail.until("the join", |tail| !tail.received.is_empty()).await;
    let mut last = 0;
    for _ in 0..20 {
        last = *scene.send_many(10).await.last().unwrap();
        tail.until_msgid(scene.group, MessageId::new(last)).await;
    }
    assert_whole(&tail.msgids(scene.group), 3, last);
    let group = carl.client.groups().await.unwrap().remove(0);
    assert_eq!(group.cursor.value(), 2, "nothing was acknowledged for the application");
}

/// Scenario 7: the link is dead but nobody knows; 20 messages are sent; bob connects anew: the newest connection wins, has all 20, and
/// what the old one still says, an ack too, changes nothing.
#[tokio::test]
async fn the_newest_connection_wins_and_a_late_ack_of_the_old_one_is_a_no_op() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 7).way().await;
    let mut old = scene.bob.follow(way.address(), scene.group).await;
    old.ack(scene.group, 2).await;
    old.cursor_reaches(scene.group, 2).await;
    way.cut();
    scene.send_many(20).await;
    // This ack leaves when the link is up again; by then another connection listens.
    old.ack(scene.group, 15).await;

    let mut new = scene.bob.listen(scene.site.address()).await;
    new.subscribe().await;
    let page = new.pull(scene.group, 2, 0, Pulling::Deliver).await.unwrap();
    assert_whole(&page.msgids(), 3, 22);
    new.ack(scene.group, 10).await;
    assert_eq!(new.cursor_reaches(scene.group, 10).await, [10]);
    way.heal();
    assert_eq!(old.closed().await, Some(Code::Replaced));
    scene.send().await;
    assert_eq!(pushed_items(&new.pushed().await).len(), 1, "the new connection is the one that is pushed to");
    assert_eq!(new.cursor(scene.group).await, 10);

    // The same while the old link is up: it is told at once, and within one process a lower attempt replaces nothing.
    let instance = 77;
    let mut third = Raw::connect(scene.site.address()).await;
    third.hello(&scene.bob, Role::Listener { instance, attempt: 2 }).await.unwrap();
    assert_eq!(new.closed().await, Some(Code::Replaced));
    let mut stale = Raw::connect(scene.site.address()).await;
    let refused = stale.hello(&scene.bob, Role::Listener { instance, attempt: 1 }).await;
    crate::raw::assert_refused(refused, Code::StaleAttempt);
    let mut fourth = Raw::connect(scene.site.address()).await;
    fourth.hello(&scene.bob, Role::Listener { instance, attempt: 3 }).await.unwrap();
    assert_ne!(third.closed().await, Some(Code::Replaced), "the same process goes on by itself");
    // Callers displace nothing.
    let caller = scene.bob.call(scene.site.address()).await;
    fourth.cursor(scene.group).await;
    drop(caller);
}

/// Scenario 7: the same with the client library, which notices the dead link by itself.
#[tokio::test]
async fn what_was_sent_into_a_dead_link_arrives_once_after_the_reconnect() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 7).way().await;
    let (mut tail, _carl) = tail_behind(&mut scene, &way).await;
    for _ in 0..3 {
        way.sever();
        let last = *scene.send_many(20).await.last().unwrap();
        tail.until_msgid(scene.group, MessageId::new(last)).await;
    }
    let got = tail.msgids(scene.group);
    assert_whole(&got, got[0], got[0] + 60);
    assert!(tail.events.iter().filter(|event| matches!(event, Event::Connected(_))).count() >= 4);
}

/// Carl, who is in the scene's group, with the client library behind this way.
async fn carl_behind(scene: &mut Scene, way: &Way) -> Person {
    let link = scene.site.raw_invite(&mut scene.ada, "carl", Some(scene.group)).await;
    let link = scene.site.at(&link, way.address());
    Person::enrol(scene.site.new_profile("carl"), &link, None).await.unwrap()
}

/// The same, listening; the join has arrived.
async fn tail_behind(scene: &mut Scene, way: &Way) -> (Tail, Person) {
    let carl = carl_behind(scene, way).await;
    let mut tail = carl.tail().await;
    tail.until("the join", |tail| !tail.received.is_empty()).await;
    (tail, carl)
}

/// What a device's application has kept, and the highest cursor that it was ever answered.
struct Kept {
    got: Vec<u64>,
    answered: u64,
}

/// Scenario 8: the link is cut with an ack in flight, at random moments: nothing is lost, nothing is shown twice, the cursor
/// never goes back and never passes what the application has.
#[tokio::test]
async fn links_cut_with_an_ack_in_flight_lose_nothing_and_repeat_nothing() {
    let seed = 8;
    let mut random = StdRng::seed_from_u64(seed);
    let mut scene = Scene::start().await;
    let mut relay = Relay::new(scene.site.address(), seed);
    let mut kept = Kept { got: vec![1], answered: 1 };
    let mut sent = 2;
    for round in 0..rounds(60) {
        sent = *scene.send_many(random.random_range(1..20)).await.last().unwrap();
        let way = relay.way().await;
        listen_until_cut(&scene, &way, &mut kept, &mut random).await;
        let durable = scene.bobs_cursor().await;
        assert!(durable >= kept.answered, "round {round} of seed {seed}: {durable} after {}", kept.answered);
        assert!(durable <= *kept.got.last().unwrap(), "round {round} of seed {seed}");
        kept.answered = durable;
    }
    let mut bob = scene.bob().await;
    let after = *kept.got.last().unwrap();
    kept.got.extend(bob.browse(scene.group, after).await.iter().map(|item| item.msgid.value()));
    assert_whole(&kept.got, 1, sent);
}

/// Connects, takes some items, acks them one by one, and cuts the link at a random moment of that.
async fn listen_until_cut(scene: &Scene, way: &Way, kept: &mut Kept, random: &mut StdRng) {
    let mut bob = scene.bob.listen(way.address()).await;
    let cursor = bob.cursor(scene.group).await;
    assert!(cursor >= kept.answered && cursor <= *kept.got.last().unwrap());
    bob.subscribe().await;
    let items = random.random_range(1..8);
    // Pulled from the cursor: what was not acked comes again, and is dropped by its number.
    let page = bob.pull(scene.group, cursor, items, Pulling::Deliver).await.unwrap();
    for msgid in page.msgids() {
        if msgid > *kept.got.last().unwrap() {
            assert_eq!(msgid, kept.got.last().unwrap() + 1, "a hole was jumped");
            kept.got.push(msgid);
        }
        bob.ack(scene.group, msgid).await;
    }
    // The cut falls before, among or after the packets of the acks and of their answers.
    let (up, down) = way.passed();
    let (more_up, more_down) = (random.random_range(0..3), random.random_range(0..3));
    let packets = async {
        while way.passed().0 < up + more_up || way.passed().1 < down + more_down {
            tokio::task::yield_now().await;
        }
    };
    // Where no such packet comes the answer is there already.
    drop(tokio::time::timeout(Duration::from_millis(50), packets).await);
    way.sever();
    bob.connection.close(0u32.into(), b"");
}

/// Scenario 8: the same with the client library.
#[tokio::test]
async fn a_listener_whose_link_is_cut_again_and_again_shows_everything_once() {
    let seed = 88;
    let mut random = StdRng::seed_from_u64(seed);
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), seed).way().await;
    let carl = carl_behind(&mut scene, &way).await;
    let options =
        ClientOptions { idle_timeout: Duration::from_millis(400), keep_alive: Duration::from_millis(100), ..quick() };
    let asks = Client::open(&carl.profile, quick()).await.unwrap();
    let (client, listener) = Client::listen(&carl.profile, options, Subscription::All, None).await.unwrap();
    let mut tail = Tail { client, listener, acks: Acks::Each, received: Vec::new(), events: Vec::new() };
    let mut cursor = 0;
    let mut last = 0;
    for _ in 0..rounds(8) {
        last = *scene.send_many(random.random_range(20..60)).await.last().unwrap();
        let some = tail.received.len() + random.random_range(1..15);
        tail.until("some items", |tail| tail.received.len() >= some).await;
        way.sever();
        let groups = async {
            loop {
                // On a busy machine the new connection may take longer than this client waits.
                if let Ok(groups) = asks.groups().await {
                    break groups;
                }
            }
        };
        let now = crate::raw::soon("a list of groups", groups).await[0].cursor.value();
        assert!(now >= cursor, "the cursor went back from {cursor} to {now}, seed {seed}");
        cursor = now;
    }
    tail.until_msgid(scene.group, MessageId::new(last)).await;
    assert_whole(&tail.msgids(scene.group), 3, last);
    assert!(tail.received.iter().all(|received| !received.seen_before));
}

/// A listener on a disk of its own, which dies with its process.
async fn tail_on(profile: &Profile, from: Option<gaggle::client::Position>) -> Tail {
    let (client, listener) = Client::listen(profile, quick(), Subscription::All, from).await.unwrap();
    Tail { client, listener, acks: Acks::None, received: Vec::new(), events: Vec::new() }
}

fn at(disk: &SimulatedDisk) -> Profile {
    Profile::at(Arc::new(disk.clone()), "/carl")
}

/// Scenario 9: the client dies between receiving, keeping and acknowledging: without data of its own the application gets
/// what it did not acknowledge again, marked as seen before; with its position it gets each item once.
#[tokio::test]
async fn a_client_that_dies_between_receive_persist_and_ack_shows_each_item_once_or_marks_it() {
    let mut scene = Scene::start().await;
    let link = scene.site.raw_invite(&mut scene.ada, "carl", Some(scene.group)).await;
    let mut disk = SimulatedDisk::new();
    Client::enrol(&at(&disk), &link, None, "test", &quick()).await.unwrap();
    let group = scene.group;
    let texts = |from: u64, to: u64| (from..=to).map(|number| format!("text {number}")).collect::<Vec<_>>();

    // It dies behind the receipt of six texts, of which it acknowledged the first two (and the join before them).
    scene.send_many(6).await;
    let mut tail = tail_on(&at(&disk), None).await;
    tail.until("six texts", |tail| tail.texts(group).len() == 6).await;
    tail.listener.ack(tail.received[2].position);
    cursor_is(&tail.client, group, tail.received[2].item.msgid).await;
    let kept = tail.received[4].position;
    disk = disk.kill();
    drop(tail);

    // Nothing kept: what was not acknowledged comes again, and says that it was seen before. New ones do not say so.
    scene.send_many(2).await;
    let mut tail = tail_on(&at(&disk), None).await;
    tail.until("six texts", |tail| tail.texts(group).len() == 6).await;
    assert_eq!(tail.texts(group), texts(3, 8));
    let seen: Vec<bool> = tail.received.iter().map(|received| received.seen_before).collect();
    assert_eq!(seen, [true, true, true, true, false, false]);
    disk = disk.kill();
    drop(tail);

    // The application kept its position behind the fourth text: it goes on there, each once.
    let mut tail = tail_on(&at(&disk), Some(kept)).await;
    tail.until("four texts", |tail| tail.texts(group).len() == 4).await;
    assert_eq!(tail.texts(group), texts(5, 8));
    // It dies right behind an ack, which may or may not have left.
    let last = tail.position().unwrap();
    tail.listener.ack(last);
    disk = disk.kill();
    drop(tail);

    scene.send_many(1).await;
    let mut tail = tail_on(&at(&disk), Some(last)).await;
    tail.until("the ninth text", |tail| tail.texts(group).last() == Some(&"text 9")).await;
    assert_eq!(tail.texts(group), ["text 9"]);
    // And by a power loss, which may take what was not synced of the inbox: the server has it still.
    disk = disk.crash(9);
    drop(tail);
    scene.send_many(1).await;
    let mut tail = tail_on(&at(&disk), None).await;
    tail.until("the tenth text", |tail| tail.texts(group).last() == Some(&"text 10")).await;
    assert!(tail.texts(group).contains(&"text 9"));
}

/// Waits until the server's cursor of this client's device is there.
async fn cursor_is(client: &Client, group: GroupId, msgid: MessageId) {
    let reached =
        async { while client.groups().await.unwrap().iter().all(|it| it.group != group || it.cursor < msgid) {} };
    crate::raw::soon("the cursor", reached).await;
}

/// Scenario 38: the client's address changes in mid-session and its old path swallows everything: what is sent in between arrives
/// once, on the same connection, and what was pushed does not count as delivered before it is acknowledged.
#[tokio::test]
async fn a_client_whose_address_changes_gets_everything_once() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 38).way().await;
    let (mut tail, _carl) = tail_behind(&mut scene, &way).await;
    let mut last = 0;
    for _ in 0..5 {
        scene.send_many(10).await;
        way.rebind().await;
        last = *scene.send_many(10).await.last().unwrap();
        tail.until_msgid(scene.group, MessageId::new(last)).await;
    }
    assert_whole(&tail.msgids(scene.group), 3, last);
    let connected = tail.events.iter().filter(|event| matches!(event, Event::Connected(_))).count();
    assert_eq!(connected, 1, "the connection moved, it was not made anew: {:?}", tail.events);
    assert!(tail.received.iter().all(|it| matches!(it.item.content, Content::Text(_) | Content::Joined(_))));

    // Pushed into nowhere is not delivered.
    let bob_way = Relay::new(scene.site.address(), 39).way().await;
    let mut bob = scene.bob.follow(bob_way.address(), scene.group).await;
    let handed = bob.group(scene.group).await.head.value();
    bob.ack(scene.group, handed).await;
    bob.cursor_reaches(scene.group, handed).await;
    bob_way.sever();
    let stored = scene.send_many(10).await;
    assert_eq!(scene.bobs_cursor().await, handed);
    let mut bob = scene.bob.listen(scene.site.address()).await;
    assert_eq!(bob.pull(scene.group, handed, 0, Pulling::Deliver).await.unwrap().msgids(), stored);
}

/// A send over the raw protocol from an address that changes: answered once, stored once.
#[tokio::test]
async fn sends_go_on_over_a_change_of_address() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 3).way().await;
    let key: Key = scene.ada_key.clone();
    scene.ada = key.call(way.address()).await;
    let mut stored = scene.send_many(50).await;
    way.rebind().await;
    stored.extend(scene.send_many(50).await);
    assert_whole(&stored, 3, 102);
    let again: Sent = scene.ada.send(100, scene.group, "text 100").await.unwrap();
    assert_eq!(again.msgid.value(), 102);
}
