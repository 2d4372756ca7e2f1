//! What is told beside items, in which a stepped server takes no steps of its own: receipts, who is there, who types.

use super::*;
use crate::core::retention::DAY_MS;
use crate::ids::UserId;
use crate::server::session::Session;
use crate::server::{acks, control, presence, receipts};
use crate::wire::codec::RawFrame;
use crate::wire::frame::{AskRetention, Heads, LeaveGroup, ReceiptNotice, RetentionInfo, Status, Typing};

impl World {
    fn shared(&mut self) -> Arc<Shared> {
        Arc::clone(&self.node().shared)
    }

    /// Tells authors of what has moved, and takes every step that follows from it.
    fn tell_receipts(&mut self, author: Conn) {
        receipts::tell(&self.shared());
        self.take(Work::WritePush(author));
    }

    fn session(&mut self, conn: Conn) -> Arc<Session> {
        Arc::clone(self.node().connections[&conn].session().unwrap())
    }

    fn add(&mut self, by: DeviceId, group: GroupId, handle: &str) {
        self.ask(Command::AddMember { by, group, handle: Handle::parse(handle).unwrap() });
    }
}

/// Whether told by what was followed before the leave was dispatched, or by what a connection after it follows.
#[test]
fn a_former_member_is_told_no_receipts_and_all_of_their_own_stay() {
    let mut world = World::new(7);
    let (alice, bob, group) = world.people();
    let (mut author, reader) = (world.listen(alice, 1), world.listen(bob, 1));
    world.settle();
    world.pull(reader, 4, group, 1);
    (1..=4).for_each(|seq| world.send(author, seq, group));
    world.settle();
    let mut acks = 3..;
    let mut ack = |world: &mut World| {
        world.ack(reader, group, acks.next().unwrap());
        world.settle();
    };
    ack(&mut world);
    world.tell_receipts(author);
    assert_eq!(world.got::<ReceiptNotice>(author).len(), 1);
    ack(&mut world);
    world.say(author, 50, &LeaveGroup { gid: group, extensions: Extensions::default() });
    world.settle_but_for(Work::Dispatch);
    assert!(!world.node().tables(|tables| tables.member(group, UserId::new(1)).unwrap().is_member()));
    world.tell_receipts(author);
    world.settle();
    assert_eq!(world.got::<ReceiptNotice>(author).len(), 1, "left, though nobody has told them");
    author = world.listen(alice, 2);
    world.settle();
    let following: Vec<_> = world.shared().registry.followers(group).iter().map(|it| it.user.value()).collect();
    assert_eq!(following, [2]);
    ack(&mut world);
    world.tell_receipts(author);
    assert_eq!(world.got::<ReceiptNotice>(author).len(), 0, "left before they came back");
    let left = world.node().tables(|tables| tables.visible_head(UserId::new(1), group));
    let heads: Vec<_> = world.got::<Heads>(author).into_iter().flat_map(|(_, heads)| heads.entries).collect();
    assert_eq!(heads, [(group, left)]);
    world.pull(author, 5, group, 0);
    world.settle();
    let pages = world.got::<PageRows>(author).into_iter();
    let rows = pages.map(|(_, page)| row::rows(page.rows).count() as u64).sum::<u64>();
    assert_eq!((rows, left), (7, MessageId::new(7)));
}

#[test]
fn an_author_who_is_among_those_that_moved_is_told_that_there_are_more() {
    let mut world = World::new(8);
    let (alice, _, group) = world.people();
    for number in 3..=40 {
        let handle = format!("user-{number}");
        world.enrol(number, &handle);
        world.add(alice, group, &handle);
    }
    let author = world.listen(alice, 1);
    world.settle();
    world.send(author, 1, group);
    world.settle();
    let shared = world.shared();
    for most in [40, 33] {
        (1..=most).for_each(|user| shared.moved.note(UserId::new(user), std::iter::once(group)));
        world.tell_receipts(author);
        // What was told before is no news.
        shared.moved.forget();
    }
    let notices = world.got::<ReceiptNotice>(author).into_iter();
    let told: Vec<_> = notices.map(|(_, notice)| (notice.users.len(), notice.more)).collect();
    assert_eq!(told, [(32, true), (32, false)]);
}

#[test]
fn who_has_only_typed_is_forgotten_once_they_are_gone() {
    let mut world = World::new(9);
    let (alice, bob, group) = world.people();
    let typing = |gid| codec::encode(0, &Typing { gid, extensions: Extensions::default() }).unwrap();
    let caller = world.call(bob);
    world.settle();
    let (shared, session) = (world.shared(), world.session(caller));
    let user = session.user;
    assert!(!shared.presence.knows(user), "nothing is to be waited for");
    presence::take(&shared, &session, &typing(group)).unwrap();
    assert!(shared.presence.knows(user));
    presence::gone(&shared, user);
    assert!(shared.presence.knows(user), "connected");
    world.node().gone(caller);
    world.settle();
    presence::gone(&shared, user);
    assert!(!shared.presence.knows(user));
    assert!(world.node().tables(|tables| tables.device(alice).is_some()));
}

#[test]
fn who_follows_several_groups_is_found_once_and_no_more_than_were_asked_for() {
    let mut world = World::new(10);
    let (alice, bob, first) = world.people();
    let cleo = world.enrol(3, "cleo");
    let create = Command::CreateGroup { by: alice, name: "all".to_owned(), policy: Policy::FromJoin };
    let Answer::GroupCreated(second) = world.ask(create) else { panic!("no group") };
    ["bob", "cleo"].into_iter().for_each(|handle| world.add(alice, second, handle));
    for device in [alice, bob, cleo] {
        world.listen(device, 1);
    }
    world.settle();
    let shared = world.shared();
    let found = |groups: &[GroupId], most| {
        let following = shared.registry.following(groups, UserId::new(1), most);
        following.into_iter().map(|(group, session)| (group, session.user.value())).collect::<Vec<_>>()
    };
    assert_eq!(found(&[first, second], 9), [(first, 2), (second, 3)]);
    assert_eq!(found(&[second, first], 9), [(second, 2), (second, 3)]);
    assert_eq!(found(&[first, second], 1), [(first, 2)]);
    assert_eq!(found(&[first], 9), [(first, 2)]);
    assert!(found(&[GroupId::new(99)], 9).is_empty() && found(&[second], 0).is_empty());
}

#[test]
fn who_listens_is_seen_on_each_day_and_who_only_calls_is_not() {
    let mut world = World::new(7);
    let (alice, bob, _) = world.people();
    let (_listening, _calling) = (world.listen(alice, 1), world.call(bob));
    world.settle();
    let seen = |world: &mut World| {
        [alice, bob].map(|device| world.node().tables(|tables| tables.device(device).unwrap().seen_day()))
    };
    assert_eq!(seen(&mut world), [0, 0]);
    world.wait(3 * DAY_MS);
    world.settle();
    assert_eq!(seen(&mut world), [3, 0]);
    world.wait(DAY_MS);
    world.listen(bob, 1);
    world.settle();
    assert_eq!(seen(&mut world), [4, 4]);
}

fn raw<F: Frame>(frame: &F) -> RawFrame {
    let bytes = codec::encode(7, frame).unwrap();
    RawFrame { kind: F::TYPE, flags: 0, request: 7, body: bytes.slice(crate::limits::ENVELOPE_BYTES..) }
}

#[test]
fn an_ack_of_nothing_has_nothing_looked_at_and_nothing_decided() {
    let mut world = World::new(9);
    let (_, bob, group) = world.people();
    let reader = world.listen(bob, 1);
    world.settle();
    let (shared, session) = (world.shared(), world.session(reader));
    let is_decided = |groups: &[GroupId]| {
        let entries = groups.iter().map(|group| (*group, MessageId::new(1))).collect();
        acks::take(&shared, &session, &raw(&Ack { entries, extensions: Extensions::default() })).unwrap().is_some()
    };
    assert!(!is_decided(&[]) && !is_decided(&[GroupId::new(99)]));
    assert!(is_decided(&[group]) && is_decided(&[GroupId::new(99), group]));
}

#[test]
fn what_asks_the_disk_or_looks_at_every_member_is_for_a_reader_thread() {
    let mut world = World::new(10);
    let (alice, _, gid) = world.people();
    let caller = world.call(alice);
    world.settle();
    let (shared, session) = (world.shared(), world.session(caller));
    let is_put_together = |raw: &RawFrame| {
        let place = Arc::clone(&session.places).try_acquire_owned().unwrap();
        matches!(control::take(&shared, &session, raw, place).unwrap(), control::Taken::Gather(..))
    };
    let extensions = Extensions::default;
    assert!(is_put_together(&raw(&Status { extensions: extensions() })));
    assert!(is_put_together(&raw(&AskRetention { gid, extensions: extensions() })));
    world.say(caller, 8, &AskRetention { gid, extensions: extensions() });
    world.settle();
    let told = world.got::<RetentionInfo>(caller);
    assert_eq!((told.len(), told[0].1.gid), (1, gid));
}
