//! Devices that are revoked and users that are shut out or deleted: gone within the time promised, by every road.

use std::time::Duration;

use gaggle::client::{ConnectError, Content, Event, History, RequestError, UserState};
use gaggle::ids::{MessageId, UserId};
use gaggle::limits::BODY_BYTES_MAX;
use gaggle::wire::code::Code;
use gaggle::wire::frame::{
    AddDevice, DeactivateUser, DeviceNotice, Done, Extensions, InviteMade, ReactivateUser, RevokeDevice, Sent,
};

use crate::harness::{Scene, Site};
use crate::raw::{Key, Pulling, Raw, Role, assert_refused};

/// What is promised.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);

/// Another device of whoever this connection belongs to, with its link.
async fn another_device(site: &Site, of: &mut Raw) -> (Key, String) {
    let frame = AddDevice { handle: None, expires_s: 3_600, extensions: Extensions::default() };
    let link = site.link(&of.ask::<InviteMade>(&frame).await.unwrap());
    (Key::enrol(&link, None).await.unwrap(), link)
}

fn revoke(device: &Key) -> RevokeDevice {
    RevokeDevice { device: device.device, extensions: Extensions::default() }
}

/// Scenario 37: three live devices, one of them revoked: each of its connections is closed within 2 s with the reason, whatever
/// it was doing, and its next Hello is refused with the same; the others go on and are told.
#[tokio::test]
async fn a_revoked_device_is_closed_within_two_seconds_and_never_comes_back() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    let mut bob_1 = scene.bob.call(address).await;
    let (bob_2, _) = another_device(&scene.site, &mut bob_1).await;
    let (lost, link) = another_device(&scene.site, &mut bob_1).await;
    scene.send_many(300).await;

    // The lost one listens, calls, sends, pulls and acks.
    let mut listens = lost.listen(address).await;
    listens.subscribe().await;
    let _page = listens.open_pull(scene.group, 1, 100, Pulling::Deliver).await;
    let mut calls = lost.call(address).await;
    calls.send(1, scene.group, "before").await.unwrap();
    for seq in 2..10 {
        calls.post_text(seq, 2, scene.group, "before or after").await;
    }
    let mut watches = bob_2.follow(address, scene.group).await;

    bob_1.ask::<Done>(&revoke(&lost)).await.unwrap();
    // From its answer on nothing of it is stored any more: the log has one order.
    let revoked_at = tokio::time::Instant::now();
    listens.ack(scene.group, 50).await;
    calls.post_text(10, 2, scene.group, "after").await;
    let closed = tokio::time::timeout(REVOKED_WITHIN, async { (listens.closed().await, calls.closed().await) }).await;
    assert_eq!(closed.unwrap(), (Some(Code::DeviceRevoked), Some(Code::DeviceRevoked)));
    assert!(revoked_at.elapsed() < REVOKED_WITHIN);

    for role in [Role::Caller, Role::Listener { instance: 1, attempt: 1 }] {
        let mut again = Raw::connect(address).await;
        assert_refused(again.hello(&lost, role).await, Code::DeviceRevoked);
        assert_eq!(again.closed().await, Some(Code::DeviceRevoked));
    }
    // Its own invite does not bring it back either, nor anybody else.
    assert!(lost.clone().enrol_with(&link, None).await.is_err());
    assert!(Key::new().enrol_with(&link, None).await.is_err());

    // The others are told, and served.
    let told = loop {
        let frame = watches.pushed_frame().await;
        if frame.kind == 115 {
            break frame.decode::<DeviceNotice>().unwrap();
        }
    };
    assert_eq!((told.device, told.added), (lost.device, false));
    let texts = crate::raw::texts(&bob_1.browse(scene.group, 0).await);
    assert!(texts.contains(&"before".to_owned()) && !texts.contains(&"after".to_owned()));
    bob_1.ask::<Sent>(&crate::raw::text_frame(1, 1, scene.group, "still here")).await.unwrap();
    scene.site.restart().await;
    let mut again = Raw::connect(address).await;
    assert_refused(again.hello(&lost, Role::Caller).await, Code::DeviceRevoked);
}

/// Scenario 37: a peer that reads nothing, on a link full of pages, is served no more and finds its connection gone. The transport sends
/// no reason while the link is full: the peer learns it by whatever it says next, and by its next Hello.
#[tokio::test]
async fn a_revoked_device_whose_link_is_full_is_served_no_more() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    let mut bob_1 = scene.bob.call(address).await;
    let (lost, _) = another_device(&scene.site, &mut bob_1).await;
    let body = "x".repeat(BODY_BYTES_MAX);
    for seq in 1..=12 {
        scene.ada.send(seq, scene.group, &body).await.unwrap();
    }
    let mut listens = lost.listen(address).await;
    listens.subscribe().await;
    let mut unread = Vec::new();
    for _ in 0..10 {
        unread.push(listens.open_pull(scene.group, 1, 0, Pulling::Browse).await);
    }
    bob_1.ask::<Done>(&revoke(&lost)).await.unwrap();
    let gone = async {
        while listens.connection.close_reason().is_none() {
            listens.ack(scene.group, 2).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(REVOKED_WITHIN, gone).await.unwrap();
    let mut again = Raw::connect(address).await;
    assert_refused(again.hello(&lost, Role::Caller).await, Code::DeviceRevoked);
    scene.ada.send(13, scene.group, "the others are served on").await.unwrap();
}

/// Scenario 37: the client library says so once and for all, and does not try again.
#[tokio::test]
async fn a_client_whose_device_is_revoked_ends_with_the_reason() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let lost = site.add_device(&ada).await;
    let mut tail = lost.tail().await;
    tail.until("a connection", |tail| tail.events.iter().any(|event| matches!(event, Event::Connected(_)))).await;
    lost.client.connected().await.unwrap();
    ada.client.revoke_device(lost.account.device).await.unwrap();
    let ended = tokio::time::timeout(REVOKED_WITHIN, tail.until_ended()).await.unwrap();
    let is_revoked = |error: &ConnectError| matches!(error, ConnectError::Refused(why) if why.is(Code::DeviceRevoked));
    assert!(is_revoked(&ended) && ended.is_terminal(), "{ended}");
    assert!(tail.step().await.is_none(), "nothing comes after the end");
    let asked = lost.client.status().await.unwrap_err();
    assert!(matches!(&asked, RequestError::Connect(error) if is_revoked(error)), "{asked}");
}

/// Scenario 37: three live devices, and the user is deactivated: every connection of every device is closed within 2 s with
/// the reason, whatever it was doing, and every Hello is refused with the same. Reactivated, also after a restart, they have
/// their backlog from where it was.
#[tokio::test]
async fn a_deactivated_user_is_closed_within_two_seconds_and_finds_everything_again_when_reactivated() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    let mut bob_1 = scene.bob.call(address).await;
    let (bob_2, _) = another_device(&scene.site, &mut bob_1).await;
    let (bob_3, _) = another_device(&scene.site, &mut bob_1).await;
    scene.send_many(300).await;
    let mut listens = bob_2.listen(address).await;
    listens.subscribe().await;
    let _page = listens.open_pull(scene.group, 1, 100, Pulling::Deliver).await;
    let mut calls = bob_3.call(address).await;
    calls.send(1, scene.group, "before").await.unwrap();

    scene.ada.ask::<Done>(&DeactivateUser { handle: "bob".into(), extensions: Extensions::default() }).await.unwrap();
    let shut_at = tokio::time::Instant::now();
    listens.ack(scene.group, 50).await;
    calls.post_text(2, 2, scene.group, "after").await;
    let all = async { (bob_1.closed().await, listens.closed().await, calls.closed().await) };
    let shut = Some(Code::Deactivated);
    assert_eq!(tokio::time::timeout(REVOKED_WITHIN, all).await.unwrap(), (shut, shut, shut));
    assert!(shut_at.elapsed() < REVOKED_WITHIN);
    for device in [&scene.bob, &bob_2, &bob_3] {
        for role in [Role::Caller, Role::Listener { instance: 1, attempt: 1 }] {
            let mut again = Raw::connect(address).await;
            assert_refused(again.hello(device, role).await, Code::Deactivated);
            assert_eq!(again.closed().await, shut);
        }
    }
    scene.ada.ask::<Sent>(&crate::raw::text_frame(301, 301, scene.group, "meanwhile")).await.unwrap();

    scene.site.restart().await;
    scene.reconnect_ada().await;
    let mut again = Raw::connect(address).await;
    assert_refused(again.hello(&scene.bob, Role::Caller).await, Code::Deactivated);
    scene.ada.ask::<Done>(&ReactivateUser { handle: "bob".into(), extensions: Extensions::default() }).await.unwrap();
    let mut back = bob_2.call(address).await;
    assert_eq!(back.cursor(scene.group).await, 1, "what was acknowledged too late was not taken");
    let texts = crate::raw::texts(&back.browse(scene.group, 0).await);
    assert_eq!(texts.len(), 302);
    assert!(texts.contains(&"before".to_owned()) && texts.contains(&"meanwhile".to_owned()));
    assert!(!texts.contains(&"after".to_owned()));
    back.send(1, scene.group, "here again").await.unwrap();
}

/// A deleted user's handle is reserved until it is freed; who has it then is somebody else, from a new profile or the old.
#[tokio::test]
async fn a_deleted_user_is_gone_and_their_handle_comes_back_with_nothing_of_theirs() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", History::Full).await.unwrap();
    let bob = site.join(&ada, "bob", Some(group)).await;
    bob.send(group, "from the old bob").await;
    let mut tail = bob.tail().await;
    tail.until("a connection", |tail| tail.events.iter().any(|event| matches!(event, Event::Connected(_)))).await;
    ada.client.delete_user("bob").await.unwrap();
    let ended = tokio::time::timeout(REVOKED_WITHIN, tail.until_ended()).await.unwrap();
    assert!(matches!(&ended, ConnectError::Refused(why) if why.is(Code::Deactivated)), "{ended}");
    let refused = |result: Result<_, RequestError>, code| {
        assert!(matches!(&result, Err(RequestError::Refused(why)) if why.is(code)), "{result:?}");
    };
    refused(ada.client.invite("bob", None, REVOKED_WITHIN).await.map(drop), Code::HandleTaken);
    refused(ada.client.add_member(group, "bob").await.map(drop), Code::NoSuchUser);
    site.restart().await;
    while ada.client.status().await.is_err() {}
    refused(ada.client.invite("bob", None, REVOKED_WITHIN).await.map(drop), Code::HandleTaken);
    ada.client.free_handle("bob").await.unwrap();
    let new = site.join(&ada, "bob", None).await;
    assert_ne!(new.account.user, bob.account.user);
    assert!(new.client.groups().await.unwrap().is_empty());
    assert!(new.client.pull(group, MessageId::ZERO, 0).await.is_err());
    let names = new.client.names(&[bob.account.user, new.account.user]).await.unwrap();
    assert_eq!((names[&bob.account.user].as_str(), names[&new.account.user].as_str()), ("bob (deleted)", "bob"));
    let states: Vec<UserState> = new.client.users().await.unwrap().into_iter().map(|user| user.state).collect();
    assert_eq!(states, [UserState::Active, UserState::HandleFree, UserState::Active]);
    let page = ada.client.pull(group, MessageId::ZERO, 0).await.unwrap();
    let last = page.items.last().unwrap();
    assert_eq!((last.author, &last.content), (UserId::ZERO, &Content::Removed(bob.account.user)));
}
