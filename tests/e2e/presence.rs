//! Who is there and who types: told to fellow members who listen and to nobody else, and stored nowhere.

use std::time::Duration;

use gaggle::client::{Event, History, Who};
use gaggle::ids::GroupId;
use gaggle::wire::code::Code;
use gaggle::wire::codec;
use gaggle::wire::frame::{Extensions, Status, StatusInfo, Typing};

use crate::harness::{Person, Scene, Site, Tail};
use crate::raw::soon;

/// How long something is waited for that may be lost, before it is caused again.
const AGAIN: Duration = Duration::from_secs(10);

/// How often it is caused before it counts as never told.
const ROUNDS: u32 = 6;

async fn connected_tail(of: &Person) -> Tail {
    let mut tail = of.tail().await;
    tail.until("a connection", |tail| tail.events.iter().any(|event| matches!(event, Event::Connected(_)))).await;
    tail
}

/// Takes events until this one came; none where it seems lost.
async fn told(tail: &mut Tail, wanted: &Event) -> Option<()> {
    tail.events.clear();
    let came = async {
        while !tail.events.contains(wanted) {
            tail.step().await?;
        }
        Some(())
    };
    tokio::time::timeout(AGAIN, came).await.ok().flatten()
}

/// Takes events until this one came, and causes it again and again, as it may be lost.
async fn told_at_last(tail: &mut Tail, wanted: &Event, cause: impl Fn()) {
    let mut again = tokio::time::interval(Duration::from_millis(300));
    let came = async {
        while !tail.events.contains(wanted) {
            tokio::select! {
                _ = again.tick() => cause(),
                step = tail.step() => assert!(step.is_some(), "the listener ended"),
            }
        }
    };
    soon("what may be lost", came).await;
}

async fn head(of: &Person, group: GroupId) -> u64 {
    let groups = of.client.groups().await.unwrap();
    groups.iter().find(|row| row.group == group).unwrap().head.value()
}

#[tokio::test]
async fn typing_is_told_to_current_fellow_members_and_to_nobody_else_and_is_no_item() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let former = site.join(&ada, "cleo", Some(group)).await;
    let stranger = site.join(&ada, "dora", None).await;
    ada.client.remove_member(group, "cleo").await.unwrap();
    let all = ada.client.create_group("all", History::FromJoin).await.unwrap();
    for handle in ["bob", "cleo", "dora"] {
        ada.client.add_member(all, handle).await.unwrap();
    }
    let (mut bobs, mut formers) = (connected_tail(&bob).await, connected_tail(&former).await);
    let (mut strangers, mut own) = (connected_tail(&stranger).await, connected_tail(&ada).await);
    let before = head(&ada, group).await;
    let typing = Event::Typing { group, user: ada.account.user };
    told_at_last(&mut bobs, &typing, || ada.client.typing(group)).await;
    // Who may not send there types for nobody.
    former.client.connected().await.unwrap();
    former.client.typing(group);
    let end = ada.send(all, "end").await;
    for tail in [&mut bobs, &mut formers, &mut strangers, &mut own] {
        tail.until_msgid(all, end).await;
    }
    let typed = |tail: &Tail| tail.events.iter().filter(|event| matches!(event, Event::Typing { .. })).count();
    assert_eq!([typed(&formers), typed(&strangers), typed(&own)], [0; 3]);
    assert!(bobs.events.iter().all(|event| !matches!(event, Event::Typing { .. }) || *event == typing));
    assert_eq!(head(&ada, group).await, before);
}

#[tokio::test]
async fn fellow_members_alone_are_told_who_comes_and_goes_and_who_asks_learns_it_exactly() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let former = site.join(&ada, "cleo", Some(group)).await;
    let stranger = site.join(&ada, "dora", None).await;
    let others = ada.client.create_group("others", History::FromJoin).await.unwrap();
    for handle in ["cleo", "dora"] {
        ada.client.add_member(others, handle).await.unwrap();
    }
    let mut outside = [connected_tail(&former).await, connected_tail(&stranger).await];
    ada.client.remove_member(group, "cleo").await.unwrap();
    let mut adas = connected_tail(&ada).await;
    assert_eq!(bob.client.online(group).await.unwrap(), [ada.account.user], "a caller is not there");
    assert!(stranger.client.online(group).await.is_err());
    let user = bob.account.user;
    // Each may be lost; both hardly ever are.
    let mut rounds = 0..ROUNDS;
    loop {
        rounds.next().expect("a round in which both are told");
        let bobs = connected_tail(&bob).await;
        assert_eq!(ada.client.online(group).await.unwrap(), [ada.account.user, user]);
        let came = told(&mut adas, &Event::Presence { user, online: true }).await;
        let Tail { client, listener, .. } = bobs;
        drop(listener);
        client.close().await;
        let went = told(&mut adas, &Event::Presence { user, online: false }).await;
        if came.and(went).is_some() {
            break;
        }
    }
    assert_eq!(ada.client.online(group).await.unwrap(), [ada.account.user]);
    let later = ada.send(others, "later").await;
    for tail in &mut outside {
        tail.until_msgid(others, later).await;
        let of_bob = |event: &Event| matches!(event, Event::Presence { user: it, .. } if *it == user);
        assert!(!tail.events.iter().any(of_bob), "{:?}", tail.events);
    }
}

#[tokio::test]
async fn a_datagram_that_is_no_frame_ends_its_connection_and_what_is_unknown_or_not_allowed_is_passed_over() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    let mut bob = scene.bob.call(address).await;
    let typing = |gid| codec::encode(0, &Typing { gid, extensions: Extensions::default() }).unwrap();
    let mut unknown = typing(scene.group).to_vec();
    unknown[4..6].copy_from_slice(&9_999u16.to_be_bytes());
    for datagram in [typing(GroupId::new(99)), typing(GroupId::ZERO), unknown.into()] {
        bob.connection.send_datagram(datagram).unwrap();
        bob.ask::<StatusInfo>(&Status { extensions: Extensions::default() }).await.unwrap();
    }
    for bad in [&b""[..], b"typing", &typing(scene.group)[1..], &[&typing(scene.group)[..], b"x"].concat()] {
        let one = scene.bob.call(address).await;
        // The first may be lost.
        let closed = async {
            while one.connection.close_reason().is_none() {
                drop(one.connection.send_datagram(bad.to_vec().into()));
                tokio::task::yield_now().await;
            }
            one.closed().await
        };
        assert_eq!(soon("the end", closed).await, Some(Code::Malformed));
    }
    assert!(scene.send().await > 0, "the others are served on");
}

/// The switch: nothing of it is told to anybody, from the moment that it is turned.
#[tokio::test]
async fn who_keeps_presence_to_themselves_is_gone_to_all_others_and_types_for_nobody() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let (mut adas, _bobs) = (connected_tail(&ada).await, connected_tail(&bob).await);
    let (a, user) = (ada.account.user, bob.account.user);
    assert_eq!(bob.client.presence().await.unwrap(), Who::Everyone);
    // Each note may be lost; both hardly ever are.
    let mut rounds = 0..ROUNDS;
    loop {
        rounds.next().expect("a round in which both are told");
        bob.client.set_presence(Who::Nobody).await.unwrap();
        assert_eq!(bob.client.presence().await.unwrap(), Who::Nobody);
        assert_eq!(ada.client.online(group).await.unwrap(), [a]);
        let went = told(&mut adas, &Event::Presence { user, online: false }).await;
        bob.client.typing(group);
        bob.client.set_presence(Who::Everyone).await.unwrap();
        let came = told(&mut adas, &Event::Presence { user, online: true }).await;
        assert_eq!(ada.client.online(group).await.unwrap(), [a, user]);
        assert!(adas.events.iter().all(|event| !matches!(event, Event::Typing { .. })));
        if came.and(went).is_some() {
            break;
        }
    }
    bob.client.set_receipts(Who::Nobody).await.unwrap();
    let set = (bob.client.presence().await.unwrap(), bob.client.receipts_told_to().await.unwrap());
    assert_eq!(set, (Who::Everyone, Who::Nobody));
    let msgid = ada.send(group, "who has read this?").await;
    let told = ada.client.receipts(group, msgid).await.unwrap();
    assert_eq!((told.members, told.silent, told.users.len()), (0, 1, 0), "only that somebody does not say");
}
