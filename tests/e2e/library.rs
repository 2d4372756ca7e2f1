//! The client library: enrolling, several processes of one profile, applications that are slow or skip.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gaggle::client::{
    Client, ClientOptions, ConnectError, EnrolError, EntryState, Event, ListenError, Outcome, Profile, ProfileError,
    Subscription,
};
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::disk::{Disk, SharedDisk, whole};
use gaggle::ids::GroupId;
use gaggle::wire::code::Code;
use gaggle::wire::link::{InviteCode, Link, Pin};

use crate::harness::{Person, Site, quick};
use crate::raw::soon;
use crate::relay::Relay;

/// A person in front of a terminal is told within this time.
const TOLD: Duration = Duration::from_secs(5);

fn fresh_profile() -> Profile {
    Profile::at(Arc::new(SimulatedDisk::new()), "/profile")
}

/// Enrols with the times of a person's machine; answers how long the failure took as well.
async fn fail_to_enrol(link: &str) -> (EnrolError, Duration) {
    let since = Instant::now();
    let error =
        Client::enrol(&fresh_profile(), link, Some("ada"), "test", &ClientOptions::default()).await.unwrap_err();
    (error, since.elapsed())
}

async fn group(person: &Person) -> GroupId {
    person.client.create_group("team", gaggle::client::History::FromJoin).await.unwrap()
}

// ---- enrolling --------------------------------------------------------------------------------------------------------

/// Scenario 40: a name that leads nowhere.
#[tokio::test]
async fn a_host_that_does_not_exist_is_named_within_5_s() {
    let link = Link { address: "no-such-host.invalid:4433".to_owned(), pin: Pin([1; 32]), code: InviteCode([2; 16]) };
    let (error, took) = fail_to_enrol(&link.to_string()).await;
    let named = matches!(error, EnrolError::Connect(ConnectError::NoSuchHost { .. } | ConnectError::NoAnswer { .. }));
    assert!(named && error.to_string().contains("no-such-host.invalid"), "{error}");
    assert!(took < TOLD, "{took:?}");
}

#[tokio::test]
async fn a_profile_takes_one_link_the_same_again_and_no_other() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let invite = |handle: &'static str| ada.client.invite(handle, None, Duration::from_secs(60));
    let (bob, carl) = (invite("bob").await.unwrap(), invite("carl").await.unwrap());
    let (bob, carl) = (site.at(&bob.link, site.address()), site.at(&carl.link, site.address()));
    let profile = fresh_profile();
    let first = Client::enrol(&profile, &bob, None, "test", &quick()).await.unwrap();
    assert_eq!(Client::enrol(&profile, &bob, None, "test", &quick()).await.unwrap(), first);
    let error = Client::enrol(&profile, &carl, None, "test", &quick()).await.unwrap_err();
    assert!(matches!(error, EnrolError::Profile(ProfileError::Used { .. })), "{error}");
    // A used invite is refused to another profile, and leaves that one free for the next link.
    let other = fresh_profile();
    let error = Client::enrol(&other, &bob, None, "test", &quick()).await.unwrap_err();
    assert!(matches!(&error, EnrolError::Refused(refusal) if refusal.is(Code::BadInvite)), "{error}");
    assert_eq!(Client::enrol(&other, &carl, None, "test", &quick()).await.unwrap().handle, "carl");
}

/// The answer to an Enrol is lost: the same link finishes it, with the same key, and locks nobody out.
#[tokio::test]
async fn a_lost_answer_to_an_invite_is_asked_for_again() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let invite = ada.client.invite("bob", None, Duration::from_secs(600)).await.unwrap();
    let link = site.at(&invite.link, site.address());
    let profile = fresh_profile();
    site.simulated().hold_syncs("log");
    let options = ClientOptions { request_timeout: Duration::from_millis(300), ..quick() };
    let error = Client::enrol(&profile, &link, None, "test", &options).await.unwrap_err();
    assert!(matches!(error, EnrolError::Connect(_)), "{error}");
    site.simulated().release_syncs();
    site.restart().await;
    let account = Client::enrol(&profile, &link, None, "test", &quick()).await.unwrap();
    assert_eq!(account.handle, "bob");
}

// ---- several processes of a profile -----------------------------------------------------------------------------------

#[tokio::test]
async fn a_second_listener_of_a_profile_is_told_who_the_first_is() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let tail = ada.tail().await;
    let error = Client::listen(&ada.profile, quick(), Subscription::All, None).await.map(|_| ()).unwrap_err();
    assert_eq!(error, ListenError::AnotherListener { pid: std::process::id() });
    tail.client.close().await;
    drop(tail.listener);
    let again = Client::listen(&ada.profile, quick(), Subscription::All, None).await;
    assert!(again.is_ok());
}

/// `send` beside `tail`: the one that holds the drain lock sends for both, and each reads its own answer.
#[tokio::test]
async fn whoever_drains_sends_for_the_others_and_they_get_their_answers() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = group(&ada).await;
    let mut tail = ada.tail().await;
    ada.send(group, "first").await;
    let mut senders = Vec::new();
    for number in 0..8 {
        let profile = ada.profile.clone();
        senders.push(tokio::spawn(async move {
            let client = Client::open(&profile, quick()).await.unwrap();
            let seq = client.queue(group, &format!("from {number}")).await.unwrap();
            let outcome = soon("an answer", client.outcome(seq)).await.unwrap();
            client.close().await;
            outcome
        }));
    }
    let mut msgids = Vec::new();
    for sender in senders {
        match sender.await.unwrap() {
            Outcome::Sent { msgid, .. } => msgids.push(msgid),
            other => panic!("{other:?}"),
        }
    }
    msgids.sort_unstable();
    msgids.dedup();
    assert_eq!(msgids.len(), 8);
    tail.until_msgid(group, *msgids.last().unwrap()).await;
    assert_eq!(tail.received.len(), 10, "the group's first item, and each message once");
}

/// What one process left behind is sent by the next.
#[tokio::test]
async fn what_was_queued_without_a_server_is_sent_once_there_is_one() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = group(&ada).await;
    site.stop().await;
    let mut queued = Vec::new();
    for number in 0..20 {
        queued.push(ada.client.queue(group, &format!("{number}")).await.unwrap());
    }
    assert_eq!(ada.client.outcome_within(queued[0], Duration::from_millis(10)).await.unwrap(), None);
    assert_eq!(ada.client.outbox().await.unwrap().len(), 20);
    let Person { profile, client, .. } = ada;
    client.close().await;
    assert!(profile.outbox().unwrap().iter().all(|entry| entry.state != EntryState::OutcomeUnknown));
    site.start_again().await;
    let next = Client::open(&profile, quick()).await.unwrap();
    assert_eq!(soon("the outbox", next.flush(Duration::from_secs(20))).await.unwrap(), 0);
    let page = next.pull(group, gaggle::ids::MessageId::ZERO, 0).await.unwrap();
    let texts: Vec<_> = page.items.iter().filter_map(text).collect();
    assert_eq!(texts, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

fn text(item: &gaggle::client::Item) -> Option<String> {
    match &item.content {
        gaggle::client::Content::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// The holder of the drain lock loses its connection and goes on living: after 2 s another process sends for it.
#[tokio::test]
async fn the_drain_lock_passes_from_a_process_without_connection_to_one_that_has_one() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let mut relay = Relay::new(site.address(), 1);
    let way = relay.way().await;
    let bob = site.join_at(&ada, "bob", None, way.address()).await;
    let group = bob.client.create_group("team", gaggle::client::History::FromJoin).await.unwrap();
    bob.send(group, "over the relay").await;
    way.cut();
    let stuck = bob.client.queue(group, "stuck").await.unwrap();
    // Another process of the profile, which knows a way that works.
    let text =
        read(&site, &bob.profile, "profile.toml").replace(&way.address().to_string(), &site.address().to_string());
    write(&site, &bob.profile, "profile.toml", &text);
    let other = Client::open(&bob.profile, quick()).await.unwrap();
    let free = other.queue(group, "free").await.unwrap();
    for seq in [stuck, free] {
        let outcome = soon("the answer", other.outcome(seq)).await.unwrap();
        assert!(matches!(outcome, Outcome::Sent { .. }), "{outcome:?}");
    }
    let outcome = soon("the answer where it was queued", bob.client.outcome(stuck)).await.unwrap();
    assert!(matches!(outcome, Outcome::Sent { .. }), "{outcome:?}");
}

fn read(site: &Site, profile: &Profile, name: &str) -> String {
    String::from_utf8(bytes(site.profiles().as_ref(), &profile.folder().join(name))).unwrap()
}

fn bytes(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    whole::read(disk, path, 1 << 20).unwrap().unwrap()
}

fn write(site: &Site, profile: &Profile, name: &str, text: &str) {
    whole::replace(site.profiles().as_ref(), &profile.folder().join(name), text.as_bytes()).unwrap();
}

/// A profile that was copied: both use the same numbers. Every message of both is stored once, and the application is told.
#[tokio::test]
async fn a_copied_profile_renumbers_and_loses_nothing() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = group(&ada).await;
    ada.send(group, "before").await;
    let disk: SharedDisk = Arc::new(SimulatedDisk::new());
    let copy = Profile::at(Arc::clone(&disk), "/copy");
    disk.create_folder(copy.folder()).unwrap();
    for name in ["device.key", "profile.toml", "outbox"] {
        let bytes = bytes(site.profiles().as_ref(), &ada.profile.folder().join(name));
        whole::replace(disk.as_ref(), &copy.folder().join(name), &bytes).unwrap();
    }
    let copy = Client::open(&copy, quick()).await.unwrap();
    for number in 0..30 {
        for (client, who) in [(&ada.client, "ada"), (&copy, "copy")] {
            let seq = client.queue(group, &format!("{who} {number}")).await.unwrap();
            let outcome = soon("the answer", client.outcome(seq)).await.unwrap();
            assert!(matches!(outcome, Outcome::Sent { .. }), "{who} {number}: {outcome:?}");
        }
    }
    let page = ada.client.pull(group, gaggle::ids::MessageId::ZERO, 500).await.unwrap();
    let mut texts: Vec<_> = page.items.iter().filter_map(text).collect();
    assert_eq!(texts.len(), 61);
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 61);
}

// ---- listening --------------------------------------------------------------------------------------------------------

/// An application that does not read holds up nothing but itself, and finds everything later.
#[tokio::test]
async fn a_slow_application_gets_everything_later_and_in_order() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = group(&ada).await;
    let bob = site.join(&ada, "bob", Some(group)).await;
    let options = ClientOptions { events_max: 4, ..quick() };
    let (client, mut listener) = Client::listen(&bob.profile, options, Subscription::All, None).await.unwrap();
    client.connected().await.unwrap();
    let mut last = None;
    for number in 0..1_500 {
        last = Some(ada.client.queue(group, &format!("{number}")).await.unwrap());
    }
    let outcome = soon("the answers", ada.client.outcome(last.unwrap())).await.unwrap();
    let Outcome::Sent { msgid: last, .. } = outcome else { panic!("{outcome:?}") };
    let mut expected = 2;
    while expected <= last.value() {
        match soon("an item", listener.next()).await.unwrap() {
            Event::Item(received) => {
                assert_eq!(received.item.msgid.value(), expected);
                expected += 1;
                listener.ack(received.position);
            }
            Event::Ended(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Somebody skips while nobody listens: the next listener begins behind it.
#[tokio::test]
async fn what_was_skipped_is_not_delivered_afterwards() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = group(&ada).await;
    let bob = site.join(&ada, "bob", Some(group)).await;
    let mut tail = bob.tail().await;
    let first = ada.send(group, "first").await;
    tail.until_msgid(group, first).await;
    tail.client.close().await;
    drop(tail.listener);
    let mut last = first;
    for number in 0..50 {
        last = ada.send(group, &format!("{number}")).await;
    }
    assert_eq!(bob.client.skip(group, last).await.unwrap(), last);
    let mut tail = bob.tail().await;
    let after = ada.send(group, "after").await;
    tail.until_msgid(group, after).await;
    assert_eq!(tail.received.len(), 1);
}
