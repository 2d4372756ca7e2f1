//! Batches: what is decided within one is seen by what follows in it, and bounds hold within it.

use super::*;
use crate::limits::SENDS_UNANSWERED_MAX;

#[test]
fn what_a_batch_decided_is_seen_by_the_rest_of_it() {
    let mut world = World::new();
    let anna = world.user("anna");
    world.user("bob");
    let Answer::GroupCreated(group) =
        world.decide(Command::CreateGroup { by: anna, name: "new".to_owned(), policy: Policy::FromJoin }).answer
    else {
        panic!("no group")
    };
    let added = world.decide(Command::AddMember { by: anna, group, handle: handle("bob") }).answer;
    assert_eq!(added, Answer::Done(Some(m(2))));
    assert_eq!(sent(&world.decide(send(anna, 1, 1, group, "three")).answer), 3);
    assert_eq!(sent(&world.decide(send(anna, 1, 1, group, "three")).answer), 3);
    let twice = world.decide(Command::AddMember { by: anna, group, handle: handle("bob") }).answer;
    assert_eq!(refused(twice), Refusal::AlreadyMember);
    assert_eq!(world.tables.head(group), m(0), "nothing is visible before it is durable");
    world.publish();
    assert_eq!(world.tables.head(group), m(3));
    assert_eq!(world.tables.member_count(group), 2);
}

#[test]
fn a_batch_that_is_dropped_leaves_nothing() {
    let mut world = World::new();
    let anna = world.user("anna");
    world.decide(Command::CreateGroup { by: anna, name: "new".to_owned(), policy: Policy::FromJoin });
    world.state.drop_pending();
    let again = world.state.apply(
        &world.tables,
        Command::CreateGroup { by: anna, name: "new".to_owned(), policy: Policy::FromJoin },
        1,
    );
    assert_eq!(again.answer, Answer::GroupCreated(GroupId::new(1)));
}

#[test]
fn rows_forgotten_within_a_batch_are_gone_within_it() {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    world.decide(send(anna, 1, 1, group, "one"));
    world.decide(send(anna, 2, 2, group, "two"));
    let old = world.decide(send(anna, 1, 1, group, "one")).answer;
    assert_eq!(refused(old), Refusal::Forgotten);
    world.publish();
    assert_eq!(world.tables.sends_below(anna, ClientSeq::MAX).count(), 1);
}

#[test]
fn a_whole_window_fits_into_a_batch() {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    for number in 1..=SENDS_UNANSWERED_MAX {
        assert_eq!(sent(&world.decide(send(anna, number, 1, group, "text")).answer), number + 1);
    }
    let beyond = world.decide(send(anna, SENDS_UNANSWERED_MAX + 1, 1, group, "text")).answer;
    assert_eq!(refused(beyond), Refusal::WindowFull);
}

#[test]
fn two_enrolments_by_one_code_within_a_batch_make_one_device() {
    let mut world = World::new();
    world.user("anna");
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    world.answer(Command::Invite { by: Actor::Operator, handle: handle("bob"), group: None, code, expires_ms });
    let enrol = |byte| Command::Enrol { code, key: DeviceKey([byte; 32]), handle: None, device_name: "x".to_owned() };
    let first = world.decide(enrol(201)).answer;
    assert_eq!(world.decide(enrol(201)).answer, first);
    assert_eq!(refused(world.decide(enrol(202)).answer), Refusal::BadInvite);
    world.publish();
    assert_eq!(world.tables.counts().devices, 2);
}

#[test]
fn a_refused_command_other_than_a_send_writes_nothing() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    let refusals = [
        Command::AddMember { by: bob, group, handle: handle("anna") },
        Command::AddMember { by: anna, group, handle: handle("anna") },
        Command::RemoveMember { by: anna, group, handle: handle("bob") },
        Command::LeaveGroup { by: bob, group },
        Command::RenameGroup { by: anna, group, name: "\u{7}".to_owned() },
        Command::CreateGroup { by: DeviceId::new(99), name: "x".to_owned(), policy: Policy::FromJoin },
    ];
    for command in refusals {
        let applied = world.run(command);
        refused(applied.answer);
        assert!(applied.writes.is_empty() && applied.events.is_empty());
    }
}
