//! Cursors and read marks: up, clamped, at joins and rejoins, on new devices.

use super::*;
use crate::core::command::Event;

fn pair() -> (World, DeviceId, DeviceId, GroupId) {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    (world, anna, bob, group)
}

/// Scenario 12: the highest wins, and each answer has the current value.
#[test]
fn of_acks_out_of_order_the_highest_wins_and_each_answer_has_the_current_value() {
    let (mut world, anna, _, group) = pair();
    world.say_up_to(anna, group, 10);
    let stood = [5, 9, 7, 9].map(|msgid| stands(world.ack(anna, group, msgid)));
    assert_eq!(stood, [5, 9, 9, 9]);
    assert_eq!(world.cursor(group, anna).msgid, m(9));
    let replayed = world.run(Command::Ack { device: anna, entries: vec![(group, m(9))] });
    assert!(replayed.writes.is_empty() && replayed.events.is_empty());
}

/// Scenario 11: acks of anything are clamped, a no-op, or a typed refusal.
#[test]
fn an_ack_is_clamped_to_what_is_durable_and_visible() {
    let (mut world, anna, bob, group) = pair();
    world.say_up_to(anna, group, 10);
    for wild in [1_010, u64::MAX, u64::MAX - 1] {
        assert_eq!(stands(world.ack(anna, group, wild)), 10);
    }
    assert_eq!(stands(world.ack(anna, group, 0)), 10);
    for group in [group, GroupId::new(99), GroupId::ZERO, GroupId::MAX] {
        let answer = world.ack(bob, group, 5);
        assert_eq!(answer, Answer::Cursors { moved: vec![], refused: vec![(group, Refusal::NoSuchGroup)] });
    }
    let other = world.group(anna);
    assert_eq!(stands(world.ack(anna, other, 10)), 1, "a cursor of another group says nothing here");
}

#[test]
fn an_ack_never_passes_what_is_durable_though_more_is_decided() {
    let (mut world, anna, _, group) = pair();
    world.decide(send(anna, 1, 1, group, "not durable yet"));
    let answer = world.decide(Command::Ack { device: anna, entries: vec![(group, m(2))] }).answer;
    assert_eq!(stands(answer), 1);
    world.fail(&[(anna, seq(1))]);
    assert_eq!(world.tables.head(group), m(1));
}

/// Scenario 5, as far as the server's cursor goes: it moves by what is acked and by nothing else.
#[test]
fn a_cursor_stands_still_until_it_is_acked() {
    let (mut world, anna, bob, group) = pair();
    world.add(anna, group, "bob");
    world.say_up_to(anna, group, 50);
    assert_eq!(world.cursor(group, bob).msgid, m(1));
    world.ack(bob, group, 3);
    world.say_up_to(anna, group, 60);
    assert_eq!(world.cursor(group, bob).msgid, m(3));
}

#[test]
fn a_former_member_s_ack_is_clamped_to_the_end_of_the_stay() {
    let (mut world, anna, bob, group) = pair();
    world.add(anna, group, "bob");
    world.say_up_to(anna, group, 4);
    world.remove(anna, group, "bob");
    world.say_up_to(anna, group, 20);
    assert_eq!(stands(world.ack(bob, group, 20)), 5);
    assert_eq!(world.cursor(group, bob).ordinals(), Some((2, 0)));
}

#[test]
fn a_first_join_starts_every_live_device_and_the_read_mark_just_before_it() {
    let (mut world, anna, bob, group) = pair();
    let phone = world.device("bob");
    let lost = world.device("bob");
    world.answer(Command::RevokeDevice { by: Actor::Device(bob), device: lost });
    world.say_up_to(anna, group, 6);
    world.add(anna, group, "bob");
    let start = CursorRow { msgid: m(6), content: 5, own: 0, version: 0 };
    assert_eq!(world.cursor(group, bob), start);
    assert_eq!(world.cursor(group, phone), start);
    assert_eq!(world.read_mark(group, bob), start);
    assert_eq!(world.tables.cursor(group, world.user_of(lost), lost), None);
}

#[test]
fn a_rejoin_raises_only_what_had_passed_the_stay_before() {
    let (mut world, anna, bob, group) = pair();
    let phone = world.device("bob");
    world.add(anna, group, "bob");
    world.say(bob, group, "own");
    world.say_up_to(anna, group, 5);
    world.remove(anna, group, "bob");
    world.ack(bob, group, 6);
    world.ack(phone, group, 5);
    world.say_up_to(anna, group, 9);
    let applied = world.run(Command::AddMember { by: anna, group, handle: handle("bob") });
    assert_eq!(world.cursor(group, bob), CursorRow { msgid: m(9), content: 6, own: 1, version: 0 });
    assert_eq!(world.cursor(group, phone).msgid, m(5), "it still has the end of the old stay to get");
    assert_eq!(world.read_mark(group, bob).msgid, m(1));
    assert!(applied.events.contains(&Event::Cursors { device: bob, entries: vec![(group, m(9))] }));
    assert_eq!(applied.events.iter().filter(|event| matches!(event, Event::Cursors { .. })).count(), 1);
}

#[test]
fn a_new_device_starts_at_the_furthest_cursor_of_its_user_s_devices() {
    let (mut world, anna, bob, group) = pair();
    let old = world.device("bob");
    world.add(anna, group, "bob");
    world.say_up_to(anna, group, 10);
    world.ack(bob, group, 4);
    world.ack(old, group, 8);
    world.answer(Command::RevokeDevice { by: Actor::Device(bob), device: old });
    let new = world.device("bob");
    assert_eq!(world.cursor(group, new).msgid, m(8), "revoked devices count");
    assert_eq!(world.cursor(group, bob).msgid, m(4));
}

#[test]
fn a_new_device_without_a_device_before_it_starts_before_the_first_visible_item() {
    let (mut world, anna, bob, group) = pair();
    let open = world.group_with(anna, Policy::FullHistory);
    world.answer(Command::RevokeDevice { by: Actor::Device(bob), device: bob });
    world.say_up_to(anna, group, 5);
    world.say_up_to(anna, open, 5);
    world.add(anna, group, "bob");
    world.add(anna, open, "bob");
    let new = world.device("bob");
    assert_eq!(world.cursor(group, new), CursorRow { msgid: m(5), content: 4, own: 0, version: 0 });
    assert_eq!(world.cursor(open, new), CursorRow { msgid: m(0), content: 0, own: 0, version: 0 });
}

/// Scenario 16, as far as cursors go: a new device changes no read mark, and has a place in every group.
#[test]
fn a_new_device_has_a_place_in_every_group_and_moves_no_read_mark() {
    let (mut world, anna, bob, group) = pair();
    let left = world.group(anna);
    for group in [group, left] {
        world.add(anna, group, "bob");
        world.say_up_to(anna, group, 5);
    }
    world.answer(Command::ReadMarks { device: bob, entries: vec![(group, m(3))] });
    world.leave(bob, left);
    let applied_before = world.log.len();
    let new = world.device("bob");
    assert_eq!(world.read_mark(group, bob).msgid, m(3));
    assert_eq!(world.cursor(group, new).msgid, m(1));
    assert_eq!(world.cursor(left, new).msgid, m(1), "of a group that was left the rest is delivered too");
    assert!(world.log.len() > applied_before);
}

#[test]
fn read_marks_are_the_user_s_and_move_like_cursors() {
    let (mut world, anna, _, group) = pair();
    let phone = world.device("anna");
    world.say_up_to(anna, group, 10);
    let marks = |device, msgid| Command::ReadMarks { device, entries: vec![(group, m(msgid))] };
    let applied = world.run(marks(phone, 7));
    let user = world.user_of(anna);
    assert_eq!(applied.events, [Event::ReadMarks { user, by: phone, entries: vec![(group, m(7))] }]);
    assert_eq!(stands(world.answer(marks(anna, 4))), 7);
    assert_eq!(stands(world.answer(marks(anna, 400))), 10);
    assert_eq!(world.cursor(group, anna).msgid, m(0), "reading is not receiving");
}

#[test]
fn skipping_goes_forwards_only_and_not_beyond_the_head() {
    let (mut world, anna, bob, group) = pair();
    world.say_up_to(anna, group, 10);
    let skip = |device, msgid| Command::Skip { device, group, to: m(msgid) };
    let applied = world.run(skip(anna, 6));
    assert_eq!(applied.events, [Event::Cursors { device: anna, entries: vec![(group, m(6))] }]);
    assert_eq!(stands(applied.answer), 6);
    assert_eq!(stands(world.answer(skip(anna, 2))), 6);
    assert_eq!(refused(world.answer(skip(anna, 11))), Refusal::BeyondHead);
    assert_eq!(refused(world.answer(skip(bob, 1))), Refusal::NoSuchGroup);
}

#[test]
fn ordinals_stand_in_a_cursor_where_they_are_known_and_are_said_to_be_unknown_elsewhere() {
    let (mut world, anna, _, group) = pair();
    world.say_up_to(anna, group, 10);
    world.ack(anna, group, 5);
    assert_eq!(world.cursor(group, anna).ordinals(), None);
    world.ack(anna, group, 10);
    assert_eq!(world.cursor(group, anna).ordinals(), Some((9, 9)));
}

fn mark_read(device: DeviceId, group: GroupId, msgid: u64, version: u64) -> Command {
    Command::MarkRead { device, group, msgid: m(msgid), version }
}

fn mark_unread(device: DeviceId, group: GroupId, msgid: u64, version: u64) -> Command {
    Command::MarkUnread { device, group, msgid: m(msgid), version }
}

/// What a read mark stands at: msgid and version.
fn marked(answer: Answer) -> (u64, u64) {
    let Answer::ReadMark { msgid, version, .. } = answer else { panic!("{answer:?}") };
    (msgid.value(), version)
}

#[test]
fn a_late_mark_of_an_older_version_does_not_undo_marking_unread() {
    let (mut world, anna, _, group) = pair();
    let phone = world.device("anna");
    world.say_up_to(anna, group, 10);
    assert_eq!(marked(world.answer(mark_read(anna, group, 8, 0))), (8, 0));
    let applied = world.run(mark_unread(phone, group, 3, 0));
    let user = world.user_of(anna);
    assert_eq!(applied.events, [Event::ReadMarks { user, by: phone, entries: vec![(group, m(3))] }]);
    assert_eq!(marked(applied.answer), (3, 1));
    let late = world.run(mark_read(anna, group, 9, 0));
    assert_eq!((marked(late.answer), late.writes.len()), ((3, 1), 0));
    let older_still = Command::ReadMarks { device: anna, entries: vec![(group, m(9))] };
    assert_eq!(stands(world.answer(older_still)), 3);
    assert_eq!(marked(world.answer(mark_read(anna, group, 5, 1))), (5, 1));
    assert_eq!(marked(world.answer(mark_read(anna, group, u64::MAX, u64::MAX))), (10, 1));
}

#[test]
fn marking_unread_names_the_version_and_asked_again_is_done_already() {
    let (mut world, anna, bob, group) = pair();
    world.say_up_to(anna, group, 10);
    assert_eq!(marked(world.answer(mark_unread(anna, group, 3, 0))), (3, 1));
    let again = world.run(mark_unread(anna, group, 3, 0));
    assert_eq!((marked(again.answer), again.writes.len()), ((3, 1), 0));
    assert_eq!(refused(world.answer(mark_unread(anna, group, 2, 0))), Refusal::MarkMoved);
    assert_eq!(refused(world.answer(mark_unread(anna, group, 2, 7))), Refusal::MarkMoved);
    assert_eq!(marked(world.answer(mark_unread(anna, group, 400, 1))), (10, 2), "no further than the head");
    assert_eq!(refused(world.answer(mark_unread(bob, group, 1, 0))), Refusal::NoSuchGroup);
    assert_eq!(refused(world.answer(mark_read(bob, group, 1, 0))), Refusal::NoSuchGroup);
}

/// A mark without a membership would be of nobody, and pass the bound of cursors.
#[test]
fn marking_unread_writes_nothing_where_nothing_has_begun_a_direct_chat() {
    let (mut world, anna, bob, _) = pair();
    let group = GroupId::direct(world.user_of(anna), world.user_of(bob));
    for msgid in [0, 7] {
        let unread = world.run(mark_unread(anna, group, msgid, 0));
        assert_eq!((marked(unread.answer), unread.writes.len(), unread.events.len()), ((0, 0), 0, 0));
    }
    assert_eq!(refused(world.answer(mark_unread(anna, group, 7, 3))), Refusal::MarkMoved);
    world.decide(send(bob, 1, 1, group, "first"));
    let unread = world.decide(mark_unread(anna, group, 2, 0));
    assert_eq!((marked(unread.answer), unread.writes.len()), ((0, 0), 0), "what is not durable is not there");
    world.publish();
    assert_eq!(marked(world.answer(mark_unread(anna, group, 1, 0))), (1, 1));
}

/// Nor is a mark of a group that is not durable: acks and skips are refused there too.
#[test]
fn a_read_mark_is_of_what_is_durable() {
    let (mut world, anna, bob, group) = pair();
    world.decide(Command::AddMember { by: anna, group, handle: handle("bob") });
    for command in [mark_read(bob, group, 1, 0), mark_unread(bob, group, 1, 0)] {
        assert_eq!(refused(world.decide(command).answer), Refusal::NoSuchGroup);
    }
    world.publish();
    assert_eq!(marked(world.answer(mark_unread(bob, group, 2, 0))), (2, 1));
}

#[test]
fn coming_back_keeps_the_version_of_a_read_mark() {
    let (mut world, anna, bob, group) = pair();
    world.add(anna, group, "bob");
    world.say_up_to(anna, group, 5);
    assert_eq!(marked(world.answer(mark_unread(bob, group, 5, 0))), (5, 1));
    world.remove(anna, group, "bob");
    assert_eq!(marked(world.answer(mark_read(bob, group, 6, 1))), (6, 1));
    world.add(anna, group, "bob");
    let mark = world.read_mark(group, bob);
    assert_eq!((mark.msgid, mark.version), (m(6), 1));
}
