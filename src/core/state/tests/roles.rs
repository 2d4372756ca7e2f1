//! Roles, muting, bans, topics and the switch against being added.

use super::*;
use crate::core::command::Event;
use crate::core::rows::{MemberRow, Role, Switches};

fn trio() -> (World, [DeviceId; 3], GroupId) {
    let mut world = World::new();
    let devices = ["anna", "bob", "cleo"].map(|name| world.user(name));
    let group = world.group(devices[0]);
    world.add(devices[0], group, "bob");
    world.add(devices[0], group, "cleo");
    (world, devices, group)
}

fn row(world: &World, group: GroupId, device: DeviceId) -> MemberRow {
    world.tables.member(group, world.user_of(device)).unwrap().clone()
}

fn role(by: DeviceId, group: GroupId, name: &str, role: Role) -> Command {
    Command::SetRole { by, group, handle: handle(name), role }
}

fn mute(by: DeviceId, group: GroupId, name: &str, muted: bool) -> Command {
    Command::SetMuted { by, group, handle: handle(name), muted }
}

fn ban(by: DeviceId, group: GroupId, name: &str, banned: bool) -> Command {
    Command::SetBanned { by, group, handle: handle(name), banned }
}

#[test]
fn owners_give_roles_and_each_is_an_item() {
    let (mut world, [anna, bob, cleo], group) = trio();
    assert_eq!(world.answer(role(anna, group, "bob", Role::Admin)), Answer::Done(Some(m(4))));
    assert!(world.item(group, 4).content == ItemContent::RoleChanged(world.user_of(bob), Role::Admin));
    assert_eq!(world.answer(role(anna, group, "bob", Role::Admin)), Answer::Done(None));
    assert_eq!(refused(world.answer(role(bob, group, "cleo", Role::Admin))), Refusal::NotAllowed);
    assert_eq!(refused(world.answer(role(bob, group, "bob", Role::Owner))), Refusal::NotAllowed);
    assert_eq!(refused(world.answer(role(anna, group, "nobody", Role::Admin))), Refusal::NoSuchUser);
    assert_eq!(world.answer(role(bob, group, "bob", Role::Member)), Answer::Done(Some(m(5))), "stepping down");
    assert_eq!(row(&world, group, bob).role, Role::Member);
    world.leave(cleo, group);
    assert_eq!(refused(world.answer(role(anna, group, "cleo", Role::Admin))), Refusal::NotMember);
}

/// Scenario 23: the sole owner demotes themselves, and is told to make another one first.
#[test]
fn the_last_owner_stays_one_until_there_is_another() {
    let (mut world, [anna, bob, _], group) = trio();
    assert_eq!(refused(world.answer(role(anna, group, "anna", Role::Member))), Refusal::LastOwner);
    assert_eq!(world.answer(role(anna, group, "anna", Role::Owner)), Answer::Done(None));
    world.answer(role(anna, group, "bob", Role::Owner));
    assert_eq!(world.answer(role(anna, group, "anna", Role::Admin)), Answer::Done(Some(m(5))));
    assert_eq!(row(&world, group, bob).role, Role::Owner);
    assert_eq!(row(&world, group, anna).role, Role::Admin);
}

/// Scenario 23: two owners demote each other in one batch; one is first, and the other is no owner any more.
#[test]
fn of_two_owners_who_demote_each_other_at_once_one_stays() {
    let (mut world, [anna, bob, _], group) = trio();
    world.answer(role(anna, group, "bob", Role::Owner));
    let first = world.decide(role(bob, group, "anna", Role::Member)).answer;
    let second = world.decide(role(anna, group, "bob", Role::Member)).answer;
    let removal = world.decide(Command::RemoveMember { by: anna, group, handle: handle("bob") }).answer;
    world.publish();
    assert_eq!(first, Answer::Done(Some(m(5))));
    assert_eq!((refused(second), refused(removal)), (Refusal::NotAllowed, Refusal::NotAllowed));
    assert_eq!(row(&world, group, bob).role, Role::Owner);
}

/// Scenario 23: two owners step down in one batch; the second would be the last one, and stays.
#[test]
fn of_two_owners_who_step_down_at_once_one_stays() {
    let (mut world, [anna, bob, _], group) = trio();
    world.answer(role(anna, group, "bob", Role::Owner));
    let first = world.decide(role(anna, group, "anna", Role::Member)).answer;
    let second = world.decide(role(bob, group, "bob", Role::Member)).answer;
    world.publish();
    assert_eq!((first, refused(second)), (Answer::Done(Some(m(5))), Refusal::LastOwner));
}

/// Nobody could do in the group what owners do, as long as the other one is shut out.
#[test]
fn an_owner_who_is_deactivated_is_no_other_to_step_down_for() {
    let (mut world, [anna, bob, _], group) = trio();
    world.answer(role(anna, group, "bob", Role::Owner));
    world.answer(Command::DeactivateUser { by: Actor::Operator, handle: handle("bob") });
    assert_eq!(refused(world.answer(role(anna, group, "anna", Role::Member))), Refusal::LastOwner);
    world.answer(Command::ReactivateUser { by: Actor::Operator, handle: handle("bob") });
    assert_eq!(world.answer(role(anna, group, "anna", Role::Member)), Answer::Done(Some(m(5))));
    assert_eq!(row(&world, group, bob).role, Role::Owner);
}

/// Scenario 25: muted means no word, while pulls, acks, read marks and leaving go on.
#[test]
fn who_is_muted_reads_acknowledges_and_leaves_and_nothing_else() {
    let (mut world, [anna, bob, _], group) = trio();
    world.answer(role(anna, group, "bob", Role::Admin));
    assert_eq!(world.answer(mute(anna, group, "bob", true)), Answer::Done(Some(m(5))));
    assert!(world.item(group, 5).content == ItemContent::Muted(world.user_of(bob)));
    assert_eq!(world.answer(mute(anna, group, "bob", true)), Answer::Done(None));
    let topic = Command::SetTopic { by: bob, group, topic: "mine".to_owned() };
    let rename = Command::RenameGroup { by: bob, group, name: "mine".to_owned() };
    let verbs = [
        world.say(bob, group, "x"),
        world.add(bob, group, "cleo"),
        world.remove(bob, group, "cleo"),
        world.answer(mute(bob, group, "bob", false)),
        world.answer(ban(bob, group, "cleo", true)),
        world.answer(topic),
        world.answer(rename),
    ];
    assert!(verbs.iter().all(|answer| *answer == Answer::Refused(Refusal::Muted)), "{verbs:?}");
    world.say(anna, group, "to all");
    assert_eq!(stands(world.ack(bob, group, 6)), 6);
    assert_eq!(stands(world.answer(Command::ReadMarks { device: bob, entries: vec![(group, m(6))] })), 6);
    assert_eq!(world.seen(bob, group).last(), Some(&6));
    assert_eq!(world.answer(mute(anna, group, "bob", false)), Answer::Done(Some(m(7))));
    assert_eq!(sent(&world.say(bob, group, "again")), 8);
    world.answer(mute(anna, group, "bob", true));
    assert!(matches!(world.leave(bob, group), Answer::Done(Some(_))));
    world.add(anna, group, "bob");
    assert!(!row(&world, group, bob).muted, "it ends with the stay");
}

#[test]
fn nobody_mutes_an_owner_and_becoming_one_lifts_it() {
    let (mut world, [anna, bob, _], group) = trio();
    world.answer(role(anna, group, "bob", Role::Admin));
    assert_eq!(refused(world.answer(mute(bob, group, "anna", true))), Refusal::NotAllowed);
    assert_eq!(refused(world.answer(mute(anna, group, "anna", true))), Refusal::NotAllowed);
    assert_eq!(refused(world.answer(mute(bob, group, "bob", true))), Refusal::NotAllowed);
    world.answer(mute(anna, group, "bob", true));
    world.answer(role(anna, group, "bob", Role::Owner));
    assert!(!row(&world, group, bob).muted);
}

/// Scenario 23: the last owner leaves, and a group is never left to somebody who can't speak.
#[test]
fn ownership_passes_by_the_muted_as_long_as_somebody_can_speak() {
    let (mut world, [anna, bob, cleo], group) = trio();
    world.answer(role(anna, group, "bob", Role::Admin));
    world.answer(mute(anna, group, "bob", true));
    world.leave(anna, group);
    assert_eq!(row(&world, group, cleo).role, Role::Owner);
    world.leave(cleo, group);
    assert_eq!((row(&world, group, bob).role, row(&world, group, bob).muted), (Role::Owner, false));
}

/// Scenario 25: a ban outlives everything until it is lifted, and the banned one hears the same from every verb.
#[test]
fn who_is_banned_is_out_until_that_is_lifted() {
    let (mut world, [anna, bob, _], group) = trio();
    assert_eq!(world.answer(ban(anna, group, "bob", true)), Answer::Done(Some(m(4))));
    assert!(world.item(group, 4).content == ItemContent::Removed(world.user_of(bob)));
    assert_eq!(world.seen(bob, group), [2, 3, 4], "and keeps what they have seen");
    assert_eq!(refused(world.add(anna, group, "bob")), Refusal::Banned);
    let verbs = [
        world.say(bob, group, "x"),
        world.add(bob, group, "cleo"),
        world.leave(bob, group),
        world.answer(ban(bob, group, "bob", false)),
        world.answer(role(bob, group, "bob", Role::Member)),
    ];
    assert!(verbs.iter().all(|answer| *answer == Answer::Refused(Refusal::Banned)), "{verbs:?}");
    assert_eq!(stands(world.ack(bob, group, 9)), 4, "acks go on");
    assert_eq!(world.answer(ban(anna, group, "bob", true)), Answer::Done(None));
    assert_eq!(world.answer(ban(anna, group, "bob", false)), Answer::Done(Some(m(5))));
    assert!(world.item(group, 5).content == ItemContent::BanLifted(world.user_of(bob)));
    assert_eq!(world.answer(ban(anna, group, "bob", false)), Answer::Done(None));
    assert_eq!(world.add(anna, group, "bob"), Answer::Done(Some(m(6))));
}

#[test]
fn who_has_left_can_be_banned_and_who_never_was_there_can_not() {
    let (mut world, [anna, bob, _], group) = trio();
    world.leave(bob, group);
    let applied = world.run(ban(anna, group, "bob", true));
    assert_eq!(applied.answer, Answer::Done(None));
    assert!(row(&world, group, bob).banned);
    assert_eq!(refused(world.add(anna, group, "bob")), Refusal::Banned);
    world.user("dora");
    assert_eq!(refused(world.answer(ban(anna, group, "dora", true))), Refusal::NotMember);
    assert_eq!(refused(world.answer(ban(anna, group, "anna", true))), Refusal::NotAllowed);
}

#[test]
fn an_admin_bans_members_and_no_admin() {
    let (mut world, [anna, bob, cleo], group) = trio();
    world.answer(role(anna, group, "bob", Role::Admin));
    world.answer(role(anna, group, "cleo", Role::Admin));
    assert_eq!(refused(world.answer(ban(bob, group, "cleo", true))), Refusal::NotAllowed);
    assert_eq!(refused(world.answer(ban(bob, group, "anna", true))), Refusal::NotAllowed);
    world.answer(role(cleo, group, "cleo", Role::Member));
    assert!(matches!(world.answer(ban(bob, group, "cleo", true)), Answer::Done(Some(_))));
}

#[test]
fn a_topic_is_said_and_taken_away_by_items() {
    let (mut world, [anna, bob, _], group) = trio();
    let topic = |by, text: &str| Command::SetTopic { by, group, topic: text.to_owned() };
    assert_eq!(refused(world.answer(topic(bob, "x"))), Refusal::NotAllowed);
    assert_eq!(world.answer(topic(anna, "")), Answer::Done(None));
    assert_eq!(world.answer(topic(anna, "  food ")), Answer::Done(Some(m(4))));
    assert!(world.item(group, 4).content == ItemContent::Topic("food".to_owned()));
    assert_eq!(world.tables.group(group).unwrap().topic, "food");
    assert_eq!(refused(world.answer(topic(anna, "a\u{202e}b"))), Refusal::BadName);
    world.answer(Command::RenameGroup { by: anna, group, name: "crew".to_owned() });
    assert_eq!(world.tables.group(group).unwrap().topic, "food", "another name changes nothing of it");
    assert_eq!(world.answer(topic(anna, " ")), Answer::Done(Some(m(6))));
    assert_eq!(world.tables.group(group).unwrap().topic, "");
}

#[test]
fn nobody_adds_a_user_who_has_switched_that_off() {
    let (mut world, [anna, bob, _], _) = trio();
    let group = world.group(anna);
    let switch = |switch, on| Command::SetSwitch { by: bob, switch, on };
    assert_eq!(world.answer(switch(Switches::NOT_ADDED, true)), Answer::Done(None));
    assert!(world.run(switch(Switches::NOT_ADDED, true)).writes.is_empty());
    let applied = world.run(switch(Switches::PRESENCE_OFF | Switches::RECEIPTS_OFF, true));
    assert_eq!(applied.events, [Event::Switched(world.user_of(bob))]);
    assert_eq!(world.tables.user(world.user_of(bob)).unwrap().switches, Switches(Switches::KNOWN));
    assert_eq!(refused(world.add(anna, group, "bob")), Refusal::NotAddable);
    assert_eq!(refused(world.answer(switch(0, true))), Refusal::Unsupported);
    assert_eq!(refused(world.answer(switch(0x80, true))), Refusal::Unsupported);
    world.answer(switch(Switches::NOT_ADDED, false));
    assert!(matches!(world.add(anna, group, "bob"), Answer::Done(Some(_))));
}
