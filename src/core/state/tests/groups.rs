//! Groups and members: borders, roles, ownership, names, bounds.

use super::*;
use crate::core::authorise::{Rights, Who};
use crate::core::command::Event;
use crate::core::rows::{MemberRow, Meta, Role};
use crate::core::state::Rate;
use crate::limits::INTERVALS_MAX;

fn trio() -> (World, [DeviceId; 3], GroupId) {
    let mut world = World::new();
    let devices = ["anna", "bob", "cleo"].map(|name| world.user(name));
    let group = world.group(devices[0]);
    (world, devices, group)
}

fn row(world: &World, group: GroupId, device: DeviceId) -> MemberRow {
    world.tables.member(group, world.user_of(device)).unwrap().clone()
}

/// Makes somebody an admin without an item that says so, so that msgids are easy to count.
fn make_admin(world: &mut World, group: GroupId, device: DeviceId) {
    let user = world.user_of(device);
    let row = MemberRow { role: Role::Admin, ..row(world, group, device) };
    world.tables.apply(&[Write::Member(group, user, row)]);
}

#[test]
fn a_group_begins_with_the_item_that_made_it_and_its_owner_sees_it() {
    let (world, [anna, ..], group) = trio();
    assert!(world.item(group, 1).content == ItemContent::Created { name: "team".to_owned(), policy: Policy::FromJoin });
    assert_eq!(row(&world, group, anna).role, Role::Owner);
    assert_eq!(world.seen(anna, group), [1]);
    assert_eq!(world.cursor(group, anna).msgid, m(0), "its maker is handed it too");
    assert_eq!(world.tables.group(group).unwrap().head_mark, m(1));
}

/// Scenario 21: joins and leaves have their place in the one order, for whoever was away as well.
#[test]
fn joins_and_leaves_are_items_of_the_same_order() {
    let (mut world, [anna, bob, cleo], group) = trio();
    world.add(anna, group, "cleo");
    world.say(cleo, group, "c3");
    world.decide(Command::AddMember { by: anna, group, handle: handle("bob") });
    world.decide(send(bob, 1, 1, group, "b5"));
    world.decide(send(cleo, 2, 2, group, "c6"));
    world.decide(Command::RemoveMember { by: anna, group, handle: handle("bob") });
    world.publish();
    world.say(cleo, group, "c8");
    let bobs = world.user_of(bob);
    assert!(world.item(group, 4).content == ItemContent::Joined(bobs));
    assert_eq!(world.item(group, 4).author, world.user_of(anna));
    assert_eq!(world.item(group, 5).author, bobs);
    assert!(world.item(group, 7).content == ItemContent::Removed(bobs));
    assert_eq!(world.seen(bob, group), [4, 5, 6, 7]);
    assert_eq!(world.seen(cleo, group), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(world.seen(anna, group), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Scenario 19, as far as the intervals go: exactly the stays, borders included.
#[test]
fn who_comes_and_goes_sees_exactly_the_stays() {
    let (mut world, [anna, bob, _], group) = trio();
    let bobs = world.user_of(bob);
    for (join, leave) in [(10, 20), (40, 60)] {
        world.say_up_to(anna, group, join - 1);
        world.add(anna, group, "bob");
        world.say_up_to(anna, group, leave - 1);
        world.remove(anna, group, "bob");
    }
    world.say_up_to(anna, group, 79);
    world.add(anna, group, "bob");
    world.say_up_to(anna, group, 90);
    let expected: Vec<u64> = (10..=20).chain(40..=60).chain(80..=90).collect();
    assert_eq!(world.seen(bob, group), expected);
    let spans = world.tables.visible(bobs, group, m(15)).map(|span| (span.first.value(), span.last.value()));
    assert_eq!(spans.collect::<Vec<_>>(), [(16, 20), (40, 60), (80, 90)]);
    assert_eq!(world.tables.next_visible(bobs, group, m(20)), Some(m(40)));
    assert_eq!(world.tables.covered_to(bobs, group, m(20)), m(39));
    assert_eq!(world.tables.covered_to(bobs, group, m(0)), m(9));
    assert_eq!(world.tables.covered_to(bobs, group, m(90)), m(90));
}

#[test]
fn a_former_member_knows_of_nothing_above_the_item_that_ended_the_stay() {
    let (mut world, [anna, bob, _], group) = trio();
    world.add(anna, group, "bob");
    world.leave(bob, group);
    world.say_up_to(anna, group, 9);
    let bobs = world.user_of(bob);
    assert_eq!(world.tables.visible_head(bobs, group), m(3));
    assert_eq!(world.tables.covered_to(bobs, group, m(3)), m(3));
    assert!(world.tables.is_group_known_to(bobs, group));
}

/// Scenario 22: the policy changes after somebody has joined; older stays keep the one that they were made under.
#[test]
fn the_policy_of_a_group_is_frozen_into_the_stay() {
    let (mut world, [anna, bob, cleo], _) = trio();
    let group = world.group_with(anna, Policy::FullHistory);
    world.say_up_to(anna, group, 5);
    world.add(anna, group, "bob");
    assert_eq!(world.seen(bob, group), [1, 2, 3, 4, 5, 6]);
    assert_eq!(world.cursor(group, bob).msgid, m(5), "what is older is browsed, and holds nothing back");
    let narrow = Command::SetPolicy { by: anna, group, policy: Policy::FromJoin };
    assert_eq!(world.answer(narrow.clone()), Answer::Done(Some(m(7))));
    assert!(world.item(group, 7).content == ItemContent::PolicyChanged(Policy::FromJoin));
    assert_eq!(world.answer(narrow), Answer::Done(None), "what it is already is no item");
    world.add(anna, group, "cleo");
    assert_eq!(world.seen(cleo, group), [8]);
    assert_eq!(world.seen(bob, group), [1, 2, 3, 4, 5, 6, 7, 8]);
    world.leave(bob, group);
    world.say_up_to(anna, group, 12);
    world.add(anna, group, "bob");
    assert_eq!(world.seen(bob, group), [1, 2, 3, 4, 5, 6, 7, 8, 9, 13], "each stay by its own policy");
}

#[test]
fn a_stay_with_full_history_shows_what_lay_between_the_stays_before() {
    let (mut world, [anna, bob, _], group) = trio();
    world.add(anna, group, "bob");
    world.leave(bob, group);
    world.say_up_to(anna, group, 8);
    world.answer(Command::SetPolicy { by: anna, group, policy: Policy::FullHistory });
    world.add(anna, group, "bob");
    assert_eq!(world.seen(bob, group), (1..=10).collect::<Vec<_>>());
    assert_eq!(world.tables.visible(world.user_of(bob), group, m(0)).count(), 1, "spans do not overlap");
}

#[test]
fn owners_and_admins_add_and_members_do_not() {
    let (mut world, [anna, bob, cleo], group) = trio();
    world.add(anna, group, "bob");
    assert_eq!(refused(world.add(bob, group, "cleo")), Refusal::NotAllowed);
    make_admin(&mut world, group, bob);
    assert_eq!(world.add(bob, group, "cleo"), Answer::Done(Some(m(3))));
    assert_eq!(refused(world.add(bob, group, "cleo")), Refusal::AlreadyMember);
    assert_eq!(refused(world.add(bob, group, "nobody")), Refusal::NoSuchUser);
    assert_eq!(refused(world.add(cleo, GroupId::new(77), "bob")), Refusal::NoSuchGroup);
}

#[test]
fn an_owner_removes_anyone_and_an_admin_removes_members() {
    let (mut world, [anna, bob, cleo], group) = trio();
    let dora = world.user("dora");
    for name in ["bob", "cleo", "dora"] {
        world.add(anna, group, name);
    }
    make_admin(&mut world, group, bob);
    make_admin(&mut world, group, cleo);
    assert_eq!(refused(world.remove(dora, group, "cleo")), Refusal::NotAllowed);
    assert_eq!(refused(world.remove(bob, group, "anna")), Refusal::NotAllowed);
    assert_eq!(refused(world.remove(bob, group, "cleo")), Refusal::NotAllowed);
    assert!(matches!(world.remove(bob, group, "dora"), Answer::Done(Some(_))));
    assert_eq!(refused(world.remove(bob, group, "dora")), Refusal::NotMember);
    assert!(matches!(world.remove(anna, group, "cleo"), Answer::Done(Some(_))));
}

/// Scenario 25, as far as these verbs go: whoever was removed gets the same code from each.
#[test]
fn a_former_member_gets_the_same_code_from_every_verb() {
    let (mut world, [anna, bob, _], group) = trio();
    world.add(anna, group, "bob");
    world.remove(anna, group, "bob");
    let rename = Command::RenameGroup { by: bob, group, name: "mine".to_owned() };
    let verbs = [
        world.say(bob, group, "x"),
        world.add(bob, group, "cleo"),
        world.remove(bob, group, "anna"),
        world.leave(bob, group),
        world.answer(rename),
    ];
    assert!(verbs.iter().all(|answer| *answer == Answer::Refused(Refusal::NotMember)), "{verbs:?}");
}

/// Scenario 23: the sole owner leaves; the admin who is there longest takes over, in the same frame.
#[test]
fn ownership_passes_to_the_admin_who_is_there_longest() {
    let (mut world, [anna, bob, cleo], group) = trio();
    world.user("dora");
    for name in ["dora", "cleo", "bob"] {
        world.add(anna, group, name);
    }
    make_admin(&mut world, group, bob);
    make_admin(&mut world, group, cleo);
    let applied = world.run(Command::LeaveGroup { by: anna, group });
    assert_eq!(applied.answer, Answer::Done(Some(m(5))));
    assert!(world.item(group, 6).content == ItemContent::RoleChanged(world.user_of(cleo), Role::Owner));
    assert_eq!(world.item(group, 6).author, UserId::ZERO);
    assert_eq!(row(&world, group, cleo).role, Role::Owner);
    assert_eq!(world.seen(anna, group), [1, 2, 3, 4, 5], "not what came after leaving");
}

/// Scenario 23: without an admin the member who is there longest takes over, counted from the stay that goes on.
#[test]
fn ownership_passes_to_the_member_who_is_there_longest() {
    let (mut world, [anna, bob, cleo], group) = trio();
    world.add(anna, group, "bob");
    world.add(anna, group, "cleo");
    world.leave(bob, group);
    world.add(anna, group, "bob");
    world.remove(anna, group, "anna");
    assert_eq!(row(&world, group, cleo).role, Role::Owner);
    assert_eq!(row(&world, group, bob).role, Role::Member);
}

#[test]
fn another_owner_keeps_ownership_from_passing_on() {
    let (mut world, [anna, bob, _], group) = trio();
    world.add(anna, group, "bob");
    let bobs = world.user_of(bob);
    let owner = MemberRow { role: Role::Owner, ..row(&world, group, bob) };
    world.tables.apply(&[Write::Member(group, bobs, owner)]);
    world.leave(anna, group);
    assert_eq!(world.tables.head(group), m(3), "no item about roles");
}

/// Scenario 23: the last member leaves, then an old invite into the group is used: no way back into a dead group.
#[test]
fn a_group_without_members_is_dead_for_ever() {
    let (mut world, [anna, ..], group) = trio();
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    let by = Actor::Device(anna);
    world.answer(Command::Invite { by, handle: handle("eve"), group: Some(group), code, expires_ms });
    world.leave(anna, group);
    assert_eq!(world.tables.member_count(group), 0);
    let eve = device_of(world.enrol(code, "eve"));
    assert!(!world.tables.is_group_known_to(world.user_of(eve), group));
    assert_eq!(refused(world.add(anna, group, "anna")), Refusal::NotMember);
    let code = world.code();
    let into = Command::Invite { by, handle: handle("fay"), group: Some(group), code, expires_ms };
    assert_eq!(refused(world.answer(into)), Refusal::NotMember);
    assert_eq!(world.tables.head(group), m(2));
}

#[test]
fn who_comes_and_goes_too_often_is_told_so() {
    let (mut world, [anna, ..], group) = trio();
    for _ in 0..INTERVALS_MAX {
        assert!(matches!(world.add(anna, group, "bob"), Answer::Done(Some(_))));
        assert!(matches!(world.remove(anna, group, "bob"), Answer::Done(Some(_))));
    }
    assert_eq!(refused(world.add(anna, group, "bob")), Refusal::TooManyRejoins);
}

#[test]
fn a_rename_is_an_item_and_the_same_name_is_none() {
    let (mut world, [anna, bob, _], group) = trio();
    world.add(anna, group, "bob");
    let rename = |by, name: &str| Command::RenameGroup { by, group, name: name.to_owned() };
    assert_eq!(refused(world.answer(rename(bob, "bobs"))), Refusal::NotAllowed);
    assert_eq!(world.answer(rename(anna, "  crew ")), Answer::Done(Some(m(3))));
    assert!(world.item(group, 3).content == ItemContent::Renamed("crew".to_owned()));
    assert_eq!(world.answer(rename(anna, "crew")), Answer::Done(None));
    assert_eq!(refused(world.answer(rename(anna, "g7"))), Refusal::BadName);
    assert_eq!(world.tables.group(group).unwrap().head_mark, m(3));
}

#[test]
fn who_leaves_keeps_the_name_the_group_had_then() {
    let (mut world, [anna, bob, _], group) = trio();
    world.add(anna, group, "bob");
    world.leave(bob, group);
    world.answer(Command::RenameGroup { by: anna, group, name: "without bob".to_owned() });
    assert_eq!(row(&world, group, bob).name_at_leave.as_deref(), Some("team"));
    world.add(anna, group, "bob");
    assert_eq!(row(&world, group, bob).name_at_leave, None);
}

#[test]
fn stays_remember_how_much_content_lay_at_their_borders() {
    let (mut world, [anna, bob, _], group) = trio();
    world.say_up_to(anna, group, 4);
    world.add(anna, group, "bob");
    world.say_up_to(anna, group, 7);
    world.leave(bob, group);
    let stay = row(&world, group, bob).intervals[0];
    assert_eq!((stay.content_before, stay.content_until), (3, 5));
}

#[test]
fn a_membership_that_begins_or_ends_is_told() {
    let (mut world, [anna, bob, _], group) = trio();
    let user = world.user_of(bob);
    let joined = world.run(Command::AddMember { by: anna, group, handle: handle("bob") });
    let told = |member, msgid| Event::Membership { group, user, member, msgid };
    assert!(joined.events.contains(&told(true, m(2))));
    assert!(joined.events.contains(&Event::Items { group, first: m(2), last: m(2) }));
    let left = world.run(Command::LeaveGroup { by: bob, group });
    assert!(left.events.contains(&told(false, m(3))));
}

#[test]
fn settings_say_who_makes_groups_and_who_adds() {
    let rights = Rights { create_groups: Who::Operators, add_members: Who::Operators };
    let settings = Settings { rights, ..Settings::default() };
    let mut world = World::with(settings);
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    world.add(anna, group, "bob");
    make_admin(&mut world, group, bob);
    world.user("cleo");
    assert_eq!(refused(world.add(bob, group, "cleo")), Refusal::NotAllowed);
    let create = Command::CreateGroup { by: bob, name: "mine".to_owned(), policy: Policy::FromJoin };
    assert_eq!(refused(world.answer(create)), Refusal::NotAllowed);
}

#[test]
fn groups_and_additions_a_day_are_limited() {
    let mut world = World::with(Settings { groups: Rate::a_day(1), additions: Rate::a_day(1), ..Settings::default() });
    let anna = world.user("anna");
    world.user("bob");
    world.user("cleo");
    let group = world.group(anna);
    let create = Command::CreateGroup { by: anna, name: "second".to_owned(), policy: Policy::FromJoin };
    assert!(refused(world.answer(create)).is_not_done());
    world.add(anna, group, "bob");
    assert!(refused(world.add(anna, group, "cleo")).is_not_done());
    world.now_ms += DAY_MS;
    assert!(matches!(world.add(anna, group, "cleo"), Answer::Done(_)));
}

#[test]
fn group_ids_count_up_and_are_never_those_of_direct_chats() {
    let (mut world, [anna, ..], group) = trio();
    assert_eq!(world.group(anna), GroupId::new(group.value() + 1));
    world.tables.apply(&[Write::Meta(Meta::LastGroup, GroupId::COUNTED_MAX.value())]);
    let create = Command::CreateGroup { by: anna, name: "one more".to_owned(), policy: Policy::FromJoin };
    assert_eq!(refused(world.answer(create)), Refusal::LimitReached);
}
