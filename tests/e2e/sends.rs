//! Sends over the network: one number, one msgid, whatever is lost in between; refusals that are for good.

use gaggle::client::{Client, Content, EntryState, Failure, OutboxError, Outcome};
use gaggle::ids::{ClientSeq, GroupId, Tag};
use gaggle::limits::BODY_BYTES_MAX;
use gaggle::wire::code::Code;
use gaggle::wire::frame::{Done, Extensions, Send, Sent};
use gaggle::wire::item::kind;

use crate::harness::{Scene, Site, quick};
use crate::raw::{Raw, add, assert_refused, msgids, remove, soon, text_frame, texts};
use crate::relay::{Direction, Relay};

/// Scenario 1: the reply to a send is lost and the server is killed; the resend answers the msgid of the first, also
/// twice at once on two connections, and every member sees one.
#[tokio::test]
async fn a_send_whose_reply_was_lost_keeps_its_msgid_through_kill_and_restart() {
    let mut scene = Scene::start().await;
    let way = Relay::new(scene.site.address(), 1).way().await;
    let mut bob = scene.bob().await;

    let mut ada = scene.ada_key.call(way.address()).await;
    way.cut_one(Direction::Down);
    ada.post_text(1, 1, scene.group, "only once").await;
    // Bob gets it, so it is stored; ada cannot hear of it.
    let pushed = bob.pushed().await;
    let first = pushed.batches[0].covered_to;
    assert!(!ada.answers.has(|frame| frame.kind == 17));

    for seed in 0..3 {
        match seed {
            0 => scene.site.kill().await,
            _ => scene.site.lose_power(seed).await,
        }
        scene.site.start_again().await;
        scene.reconnect_ada().await;
        let mut other = scene.ada_key.call(scene.site.address()).await;
        let frame = text_frame(1, 1, scene.group, "only once");
        let (one, two) = (scene.ada.post(&frame).await, other.post(&frame).await);
        assert_eq!(scene.ada.answer::<Sent>(one).await.unwrap().msgid, first);
        assert_eq!(other.answer::<Sent>(two).await.unwrap().msgid, first);
    }

    // The same for a number that was never seen before: two connections, one item.
    let mut other = scene.ada_key.call(scene.site.address()).await;
    let frame = text_frame(2, 1, scene.group, "at once");
    let (one, two) = (scene.ada.post(&frame).await, other.post(&frame).await);
    let one = scene.ada.answer::<Sent>(one).await.unwrap();
    assert_eq!(other.answer::<Sent>(two).await.unwrap().msgid, one.msgid);
    assert_eq!(texts(&scene.ada.browse(scene.group, 0).await), ["only once", "at once"]);
    let mut bob = scene.bob.call(scene.site.address()).await;
    assert_eq!(texts(&bob.browse(scene.group, 0).await), ["only once", "at once"]);
}

/// Scenario 1: the same with the client library, whose outbox resends by itself.
#[tokio::test]
async fn an_outbox_whose_answers_are_lost_sends_each_message_once() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let way = Relay::new(site.address(), 2).way().await;
    let bob = site.join_at(&ada, "bob", Some(group), way.address()).await;
    bob.client.connected().await.unwrap();

    let before = ada.client.pull(group, Default::default(), 0).await.unwrap().head;
    way.cut_one(Direction::Down);
    let mut queued = Vec::new();
    for number in 0..20 {
        queued.push(bob.client.queue(group, &format!("b{number}")).await.unwrap());
    }
    // Until the server has the first of them.
    while ada.client.pull(group, before, 0).await.unwrap().head == before {}
    site.kill().await;
    site.start_again().await;
    way.heal();
    let mut stored = Vec::new();
    for seq in queued {
        match soon("an answer", bob.client.outcome(seq)).await.unwrap() {
            Outcome::Sent { msgid, .. } => stored.push(msgid.value()),
            other => panic!("{other:?}"),
        }
    }
    let page = ada.client.pull(group, before, 0).await.unwrap();
    let told: Vec<_> = page.items.iter().map(|item| item.msgid.value()).collect();
    assert_eq!(told, stored);
    assert!(bob.client.outbox().await.unwrap().is_empty());
}

/// Scenario 2: the same number with another body, or in another group, is a conflict; what was first stays.
#[tokio::test]
async fn the_same_number_with_other_bytes_is_a_conflict_and_the_first_stays() {
    let mut scene = Scene::start().await;
    let other_group = crate::harness::raw_group(&mut scene.ada, "other", 0).await;
    let first = scene.ada.send(1, scene.group, "first").await.unwrap();
    assert_refused(scene.ada.send(1, scene.group, "second").await, Code::Conflict);
    assert_refused(scene.ada.send(1, other_group, "first").await, Code::Conflict);
    assert_eq!(scene.ada.send(1, scene.group, "first").await.unwrap(), first);
    scene.ada.send(2, scene.group, "next").await.unwrap();
    assert_eq!(texts(&scene.ada.browse(scene.group, 0).await), ["first", "next"]);
    assert!(texts(&scene.ada.browse(other_group, 0).await).is_empty());
    // What the client stated as answered is forgotten for ever, and never stored again.
    assert_refused(scene.ada.send(1, scene.group, "first").await, Code::Forgotten);
}

/// Posts texts without pause until one is refused for good; returns the numbers of those that were stored.
async fn send_until_refused(by: &mut Raw, group: GroupId, code: Code) -> Vec<u64> {
    let (mut stored, mut open, mut seq) = (Vec::new(), std::collections::VecDeque::new(), 1);
    loop {
        assert!(seq < 1_000_000, "this must end");
        while open.len() < 16 {
            let lowest = open.front().map_or(seq, |(seq, _)| *seq);
            let request = by.post_text(seq, lowest, group, &format!("b{seq}")).await;
            open.push_back((seq, request));
            seq += 1;
        }
        let (_, request) = open.pop_front().unwrap();
        match by.answer::<Sent>(request).await {
            Ok(sent) => stored.push(sent.msgid.value()),
            Err(error) => {
                assert_eq!(Code::from_number(error.code), Some(code));
                break;
            }
        }
    }
    for (_, request) in open {
        assert_refused(by.answer::<Sent>(request).await, code);
    }
    stored
}

/// Scenario 20: bob sends without pause and is removed in mid-stream: nothing of bob's lies above the removal, bob sees that item and
/// nothing above it.
#[tokio::test]
async fn nothing_of_a_removed_member_lies_above_the_removal() {
    let mut scene = Scene::start().await;
    let mut sender = scene.bob.call(scene.site.address()).await;
    let mut reader = scene.bob().await;
    let (group, ada) = (scene.group, &mut scene.ada);
    let kick = async {
        // Not before bob is at it.
        let pushed = reader.pushed().await;
        assert!(!pushed.batches.is_empty());
        ada.ask::<Done>(&remove(group, "bob")).await.unwrap().msgid.value()
    };
    let (stored, removed) = tokio::join!(send_until_refused(&mut sender, group, Code::NotMember), kick);
    assert!(!stored.is_empty() && stored.iter().all(|msgid| *msgid < removed), "{stored:?} {removed}");
    scene.send_many(5).await;
    let seen = sender.browse(group, 0).await;
    assert_eq!(seen.first().map(|item| (item.msgid.value(), item.kind)), Some((2, kind::JOINED)));
    assert_eq!(seen.last().map(|item| (item.msgid.value(), item.kind)), Some((removed, kind::REMOVED)));
    let all = scene.ada.browse(group, 0).await;
    let of_bob = all.iter().filter(|item| item.author == scene.bob.user && item.kind == kind::TEXT);
    assert_eq!(of_bob.map(|item| item.msgid.value()).collect::<Vec<_>>(), stored);
    assert_eq!(msgids(&all), (1..=removed + 5).collect::<Vec<_>>(), "dense");
}

/// Scenario 20: what a device of the removed member holds queued ends in a permanent, typed refusal, and is not tried
/// again.
#[tokio::test]
async fn sends_queued_by_a_removed_member_end_refused_for_good() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let way = Relay::new(site.address(), 20).way().await;
    let bob = site.join_at(&ada, "bob", Some(group), way.address()).await;
    way.cut();
    let mut queued = Vec::new();
    for number in 0..3 {
        queued.push(bob.client.queue(group, &format!("late {number}")).await.unwrap());
    }
    assert!(bob.client.outbox().await.unwrap().iter().all(|entry| entry.state != EntryState::OutcomeUnknown));
    ada.client.remove_member(group, "bob").await.unwrap();
    way.heal();
    for seq in queued {
        match soon("an answer", bob.client.outcome(seq)).await.unwrap() {
            Outcome::Refused(refusal) => {
                assert!(refusal.is(Code::NotMember), "{refusal}");
                assert_eq!(refusal.failure(), Failure::Refused);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(bob.client.outbox().await.unwrap().is_empty(), "nothing is left that could be tried again");
    // The way is quiet now: what little passes is no retry loop. Another process of the profile finds nothing either.
    let again = Client::open(&bob.profile, quick()).await.unwrap();
    assert_eq!(again.flush(std::time::Duration::from_secs(5)).await.unwrap(), 0);
    let page = ada.client.pull(group, Default::default(), 0).await.unwrap();
    assert!(!page.items.iter().any(|item| matches!(item.content, Content::Text(_))));
}

/// Scenario 21: carol adds bob while bob, carol and dave send at full rate, and bob is removed before ada, who was away,
/// returns: join and leave have their place in the one order, and what lies between is bob's under bob's name.
#[tokio::test]
async fn a_member_who_came_and_went_while_one_was_away_is_seen_between_join_and_leave() {
    let site = Site::start().await;
    let carol_key = site.raw_operator("carol").await;
    let mut carol = carol_key.call(site.address()).await;
    let group = crate::harness::raw_group(&mut carol, "team", 0).await;
    let ada = site.raw_user(&mut carol, "ada", Some(group)).await;
    let dave = site.raw_user(&mut carol, "dave", Some(group)).await;
    let bob = site.raw_user(&mut carol, "bob", None).await;

    let (mut by_bob, mut by_dave) = (bob.call(site.address()).await, dave.call(site.address()).await);
    let mut carol_sends = carol_key.call(site.address()).await;
    let (done, is_done) = tokio::sync::watch::channel(false);
    // Each sends one after the other until told that bob is gone; refusals use up a number, like everything permanent.
    async fn sends(by: &mut Raw, group: GroupId, name: &str, until: tokio::sync::watch::Receiver<bool>) -> Vec<u64> {
        let mut stored = Vec::new();
        let mut seq = 1;
        while !*until.borrow() {
            assert!(seq < 1_000_000, "this must end");
            stored.extend(by.send(seq, group, &format!("{name} {seq}")).await.ok().map(|sent| sent.msgid.value()));
            seq += 1;
        }
        stored
    }
    let comes_and_goes = async {
        let mut watcher = dave.follow(site.address(), group).await;
        watcher.pushed().await;
        let joined = carol.ask::<Done>(&add(group, "bob")).await.unwrap().msgid.value();
        // Until bob said something.
        while !carol.browse(group, joined).await.iter().any(|item| item.author == bob.user) {}
        let left = carol.ask::<Done>(&remove(group, "bob")).await.unwrap().msgid.value();
        done.send(true).unwrap();
        (joined, left)
    };
    let (of_bob, _, _, (joined, left)) = tokio::join!(
        sends(&mut by_bob, group, "bob", is_done.clone()),
        sends(&mut by_dave, group, "dave", is_done.clone()),
        sends(&mut carol_sends, group, "carol", is_done.clone()),
        comes_and_goes,
    );
    assert!(!of_bob.is_empty() && of_bob.iter().all(|msgid| (joined..left).contains(msgid)));

    let mut ada = ada.listen(site.address()).await;
    let items = ada.browse(group, 0).await;
    let first = items[0].msgid.value();
    assert_eq!(msgids(&items), (first..=items.last().unwrap().msgid.value()).collect::<Vec<_>>(), "no hole");
    let kinds = items.iter().map(|item| (item.msgid.value(), item.kind));
    assert!(
        kinds.clone().any(|it| it == (joined, kind::JOINED)) && kinds.clone().any(|it| it == (left, kind::REMOVED))
    );
    for item in items.iter().filter(|item| item.kind == kind::TEXT) {
        let text = String::from_utf8(item.body.to_vec()).unwrap();
        let author = [("bob", bob.user), ("dave", dave.user), ("carol", carol_key.user)]
            .into_iter()
            .find(|(name, _)| text.starts_with(name))
            .unwrap();
        assert_eq!(item.author, author.1, "{text}");
        assert_eq!(author.0 == "bob", of_bob.contains(&item.msgid.value()), "{text}");
    }
}

/// Scenario 35: outbox [ok, far too large, ok]: the second is refused by itself, the connection stays, the third arrives.
#[tokio::test]
async fn a_message_that_is_too_large_holds_nothing_up() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let session = ada.client.connected().await.unwrap();
    assert_eq!(session.body_bytes_max, BODY_BYTES_MAX, "the limit is advertised, in bytes");
    let first = ada.send(group, "ok").await;
    let refused = ada.client.queue(group, &"x".repeat(100 << 20)).await.unwrap_err();
    assert!(matches!(refused, OutboxError::TooLarge { max: BODY_BYTES_MAX, .. }), "{refused}");
    assert_eq!(refused.failure(), Failure::Refused);
    assert_eq!(ada.send(group, "ok too").await, first.next());
    assert!(ada.client.outbox().await.unwrap().is_empty());
}

/// Scenario 35: limit − 1, limit and limit + 1 bytes in characters of four bytes: the limit counts bytes.
#[tokio::test]
async fn the_limit_of_a_message_counts_bytes_not_characters() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let whole = "🪿".repeat(BODY_BYTES_MAX / 4);
    let below = format!("{}abc", &whole[4..]);
    assert_eq!((below.len(), whole.len()), (BODY_BYTES_MAX - 1, BODY_BYTES_MAX));
    ada.send(group, &below).await;
    ada.send(group, &whole).await;
    let refused = ada.client.queue(group, &format!("{whole}x")).await.unwrap_err();
    assert!(matches!(refused, OutboxError::TooLarge { bytes, .. } if bytes == BODY_BYTES_MAX + 1), "{refused}");
    ada.send(group, "after").await;
    let mut tail = ada.tail().await;
    tail.until("three texts", |tail| tail.texts(group).len() == 3).await;
    assert_eq!(tail.texts(group), [below.as_str(), whole.as_str(), "after"]);
}

/// Scenario 35: the server holds to the limit by itself, against a client that does not: that one send is refused for
/// good and uses up its number, the connection stays, what follows is stored.
#[tokio::test]
async fn the_server_refuses_one_send_that_is_too_large_and_goes_on_with_the_connection() {
    let mut scene = Scene::start().await;
    let payload_of = |bytes: usize| {
        // Kind 1, the tag, the length as a varint of three bytes, the body, no extensions.
        let length = [(bytes & 0x7f | 0x80) as u8, (bytes >> 7 & 0x7f | 0x80) as u8, (bytes >> 14) as u8];
        [&[1][..], &Tag::NONE.bytes(), &length, &vec![b'x'; bytes], &[0]].concat()
    };
    let frame = |seq: u64, payload: Vec<u8>| Send {
        seq: ClientSeq::new(seq),
        lowest: ClientSeq::new(1),
        gid: scene.group,
        payload: payload.into(),
        extensions: Extensions::default(),
    };
    let frames = [
        text_frame(1, 1, scene.group, "before"),
        frame(2, payload_of(BODY_BYTES_MAX + 1)),
        frame(3, payload_of(BODY_BYTES_MAX)),
        frame(4, b"no payload at all".to_vec()),
        text_frame(5, 1, scene.group, "after"),
    ];
    let mut requests = Vec::new();
    for frame in &frames {
        requests.push(scene.ada.post(frame).await);
    }
    scene.ada.answer::<Sent>(requests[0]).await.unwrap();
    assert_refused(scene.ada.answer::<Sent>(requests[1]).await, Code::TooLarge);
    scene.ada.answer::<Sent>(requests[2]).await.unwrap();
    assert_refused(scene.ada.answer::<Sent>(requests[3]).await, Code::Malformed);
    scene.ada.answer::<Sent>(requests[4]).await.unwrap();
    assert_refused(scene.ada.ask::<Sent>(&text_frame(2, 1, scene.group, "again")).await, Code::NeverStored);
    let items = scene.ada.browse(scene.group, 2).await;
    assert_eq!(items.iter().map(|item| item.body.len()).collect::<Vec<_>>(), [6, BODY_BYTES_MAX, 5]);
}
