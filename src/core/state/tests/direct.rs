//! Direct chats: one for each pair, whoever begins it and how.

use super::*;
use crate::core::command::Event;
use crate::core::rows::{GroupRow, Interval, MemberRow, Role, Switches};
use crate::limits::{GROUPS_MAX, MEMBERSHIPS_MAX};

fn open(by: DeviceId, name: &str) -> Command {
    Command::OpenDirect { by, handle: handle(name) }
}

fn pair() -> (World, DeviceId, DeviceId, GroupId) {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = GroupId::direct(world.user_of(anna), world.user_of(bob));
    (world, anna, bob, group)
}

/// Scenario 24: each of two opens the chat with the other in one batch, by asking or by sending, for a thousand pairs and
/// themselves: one group each time, and a retry returns it.
#[test]
fn a_thousand_pairs_that_begin_at_once_have_one_chat_each() {
    let mut world =
        World::with(Settings { groups: crate::core::state::Rate { amount: 0, per_ms: 1 }, ..Settings::default() });
    let people: Vec<(String, DeviceId)> = (0..45)
        .map(|number| {
            let name = format!("user{number}");
            let device = world.user(&name);
            (name, device)
        })
        .collect();
    let mut sends = vec![0u64; people.len()];
    let mut chats = 0;
    for (one, (one_name, one_device)) in people.iter().enumerate() {
        for (other, (other_name, other_device)) in people.iter().enumerate().skip(one) {
            let group = GroupId::direct(world.user_of(*one_device), world.user_of(*other_device));
            let mut commands = vec![open(*one_device, other_name), open(*other_device, one_name)];
            if chats % 3 == 0 {
                sends[one] += 1;
                commands.insert(chats % 2, send(*one_device, sends[one], sends[one], group, "first"));
            }
            for command in commands {
                let answer = world.decide(command).answer;
                assert!(matches!(answer, Answer::Sent { .. }) || answer == Answer::GroupCreated(group), "{answer:?}");
            }
            world.publish();
            let again = world.run(open(*other_device, one_name));
            assert_eq!(again.answer, Answer::GroupCreated(group));
            assert!(again.writes.is_empty() && again.events.is_empty());
            let made = world.items.iter().filter(|item| item.group == group && !is_text(item)).count();
            assert_eq!(made, 1);
            assert_eq!(world.tables.member_count(group), if one == other { 1 } else { 2 });
            chats += 1;
        }
    }
    assert_eq!((chats, world.tables.counts().groups), (1_035, 1_035));
}

#[test]
fn a_chat_begins_with_one_item_that_both_see_and_neither_owns_it() {
    let (mut world, anna, bob, group) = pair();
    let applied = world.run(open(anna, "bob"));
    assert!(world.item(group, 1).content == ItemContent::Created { name: String::new(), policy: Policy::FromJoin });
    for device in [anna, bob] {
        let user = world.user_of(device);
        assert_eq!(world.tables.member(group, user).unwrap().role, Role::Member);
        assert_eq!((world.seen(device, group), world.cursor(group, device).msgid), (vec![1], m(0)));
        assert_eq!(world.read_mark(group, device).msgid, m(0));
        assert!(applied.events.contains(&Event::Membership { group, user, member: true, msgid: m(1) }));
    }
    assert_eq!(sent(&world.say(bob, group, "hello")), 2);
    assert_eq!(world.seen(anna, group), [1, 2]);
}

/// The chat is there for its two users before anything was said in it, and as absent as any other for everybody else.
#[test]
fn a_chat_is_there_without_being_made_and_for_nobody_else() {
    let (mut world, anna, _, group) = pair();
    let carl = world.user("carl");
    assert_eq!(stands(world.ack(anna, group, 9)), 0);
    assert_eq!(refused(world.say(carl, group, "x")), Refusal::NoSuchGroup);
    let nobody = GroupId::direct(world.user_of(anna), UserId::new(77));
    assert_eq!(refused(world.say(anna, nobody, "x")), Refusal::NoSuchGroup);
    assert_eq!(refused(world.answer(open(anna, "nobody"))), Refusal::NoSuchUser);
    assert_eq!(world.tables.counts().groups, 0, "who may not begins none");
    assert_eq!(sent(&world.say(anna, group, "first")), 2, "the first message begins it");
    assert_eq!(refused(world.say(carl, group, "x")), Refusal::NoSuchGroup);
}

/// The id of a chat names its users, so that a send can name one who is gone.
#[test]
fn no_chat_begins_with_who_is_deleted_and_one_that_is_there_stays() {
    let (mut world, anna, bob, group) = pair();
    let carl = world.user("carl");
    let begun = GroupId::direct(world.user_of(anna), world.user_of(carl));
    assert_eq!(sent(&world.say(anna, begun, "first")), 2);
    for name in ["bob", "carl"] {
        world.answer(Command::DeactivateUser { by: Actor::Operator, handle: handle(name) });
    }
    let dora = world.user("dora");
    let other = GroupId::direct(world.user_of(dora), world.user_of(bob));
    assert_eq!(sent(&world.say(dora, other, "when you are back")), 2, "who is deactivated may come back");
    for name in ["bob", "carl"] {
        world.answer(Command::DeleteUser { by: Actor::Operator, handle: handle(name) });
    }
    let applied = world.run(send(anna, 2, 2, group, "too late"));
    assert_eq!((refused(applied.answer), applied.events.len()), (Refusal::NoSuchUser, 0));
    assert!(world.tables.group(group).is_none() && world.tables.member(group, world.user_of(bob)).is_none());
    assert_eq!(refused(world.answer(open(anna, "bob"))), Refusal::NoSuchUser, "by either road");
    let left = world.tables.head(begun);
    assert_eq!(sent(&world.say(anna, begun, "still mine")), left.next().value());
}

#[test]
fn a_send_that_is_refused_begins_no_chat() {
    let (mut world, anna, _, group) = pair();
    let Command::Send(command) = send(anna, 1, 1, group, "text") else { panic!() };
    let refused_one = Command::Send(SendCommand { what: Err(Refusal::TooLarge), ..command });
    assert_eq!(refused(world.answer(refused_one)), Refusal::TooLarge);
    assert!(world.tables.group(group).is_none());
}

#[test]
fn nobody_joins_leaves_or_rules_a_direct_chat() {
    let (mut world, anna, bob, group) = pair();
    world.user("carl");
    for begun in [false, true] {
        if begun {
            world.answer(open(anna, "bob"));
        }
        let bobs = || handle("bob");
        let commands = [
            Command::AddMember { by: anna, group, handle: handle("carl") },
            Command::RemoveMember { by: anna, group, handle: bobs() },
            Command::LeaveGroup { by: bob, group },
            Command::RenameGroup { by: anna, group, name: "us".to_owned() },
            Command::SetTopic { by: anna, group, topic: "us".to_owned() },
            Command::SetPolicy { by: anna, group, policy: Policy::FullHistory },
            Command::SetRole { by: anna, group, handle: bobs(), role: Role::Owner },
            Command::SetMuted { by: anna, group, handle: bobs(), muted: true },
            Command::SetBanned { by: anna, group, handle: bobs(), banned: true },
            Command::SetBanned { by: anna, group, handle: bobs(), banned: false },
        ];
        for command in commands {
            let applied = world.run(command);
            assert_eq!((refused(applied.answer), applied.writes.len()), (Refusal::DirectChat, 0));
        }
    }
}

/// The group has to fit, and all of its memberships and cursors; what is decided before it in the batch counts.
#[test]
fn a_chat_begins_only_where_the_tables_have_room_for_both() {
    let (mut world, anna, bob, group) = pair();
    let notebook = GroupId::direct(world.user_of(anna), world.user_of(anna));
    let row = |policy| GroupRow::begun(String::new(), policy, m(1), 0);
    for number in 1..GROUPS_MAX as u64 {
        world.tables.load(Write::Group(GroupId::new(number), row(Policy::FromJoin)));
    }
    assert_eq!(world.decide(open(anna, "bob")).answer, Answer::GroupCreated(group));
    assert_eq!(refused(world.decide(open(anna, "anna")).answer), Refusal::LimitReached);
    world.publish();
    assert_eq!(refused(world.say(anna, notebook, "x")), Refusal::LimitReached);
    assert_eq!(world.answer(open(bob, "anna")), Answer::GroupCreated(group), "what is there needs no room");
    assert_eq!(sent(&world.say(bob, group, "hello")), 2);
}

#[test]
fn one_membership_has_room_where_two_have_none() {
    let (mut world, anna, _, group) = pair();
    let notebook = GroupId::direct(world.user_of(anna), world.user_of(anna));
    let stay = Interval { joined: m(1), left: None, policy: Policy::FromJoin, content_before: 0, content_until: 0 };
    let row = MemberRow::present(Role::Member, vec![stay]);
    for number in 1..u32::try_from(MEMBERSHIPS_MAX).unwrap() {
        world.tables.load(Write::Member(GroupId::new(1), UserId::new(number), row.clone()));
    }
    assert_eq!(refused(world.answer(open(anna, "bob"))), Refusal::LimitReached);
    assert_eq!(refused(world.say(anna, group, "x")), Refusal::LimitReached);
    assert!(world.tables.group(group).is_none());
    assert_eq!(world.answer(open(anna, "anna")), Answer::GroupCreated(notebook));
}

/// A message to somebody is no adding: the switch against that does not concern it.
#[test]
fn who_lets_nobody_add_them_can_still_be_written_to() {
    let (mut world, anna, bob, group) = pair();
    world.answer(Command::SetSwitch { by: bob, switch: Switches::NOT_ADDED, on: true });
    assert_eq!(sent(&world.say(anna, group, "hello")), 2);
    assert_eq!(world.seen(bob, group), [1, 2]);
}

#[test]
fn a_new_device_begins_where_its_user_has_come_in_a_chat() {
    let (mut world, anna, bob, group) = pair();
    world.say(anna, group, "one");
    world.ack(bob, group, 2);
    world.say(anna, group, "two");
    let other = world.device("bob");
    assert_eq!(world.cursor(group, other).msgid, m(2));
}
