//! Sends: one number, one msgid; windows; turns; limits for members.

use super::*;
use crate::core::rows::SendWindow;
use crate::core::state::Rate;
use crate::limits::SENDS_UNANSWERED_MAX;

fn pair() -> (World, DeviceId, GroupId) {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    (world, anna, group)
}

/// Scenario 1: the same send again, at any later time, has the same msgid and is stored once.
#[test]
fn a_send_again_answers_the_same_msgid_and_is_stored_once() {
    let (mut world, anna, group) = pair();
    let first = world.answer(send(anna, 1, 1, group, "hello"));
    for later_ms in [10_000, 3_600_000, DAY_MS] {
        world.now_ms += later_ms;
        assert_eq!(world.answer(send(anna, 1, 1, group, "hello")), first);
    }
    world.now_ms = 0;
    assert_eq!(world.answer(send(anna, 1, 1, group, "hello")), first);
    assert_eq!(world.items.iter().filter(|item| is_text(item)).count(), 1);
}

/// Scenario 1: twice at once on two connections, in one batch.
#[test]
fn a_send_twice_within_a_batch_is_stored_once() {
    let (mut world, anna, group) = pair();
    let first = world.decide(send(anna, 1, 1, group, "hello"));
    let second = world.decide(send(anna, 1, 1, group, "hello"));
    world.publish();
    assert_eq!(first.answer, second.answer);
    assert!(second.writes.is_empty() && second.events.is_empty());
    assert_eq!(world.tables.head(group), m(2));
}

/// Scenario 2: the same number with another body, or to another group, is a conflict, and the first stays.
#[test]
fn a_number_used_for_other_bytes_is_a_conflict_and_the_first_stays() {
    let (mut world, anna, group) = pair();
    let other = world.group(anna);
    let first = world.answer(send(anna, 1, 1, group, "hello"));
    assert_eq!(refused(world.answer(send(anna, 1, 1, group, "other"))), Refusal::Conflict);
    assert_eq!(refused(world.answer(send(anna, 1, 1, other, "hello"))), Refusal::Conflict);
    assert_eq!(world.answer(send(anna, 1, 1, group, "hello")), first);
    assert_eq!(world.tables.head(group), m(2));
}

/// Scenario 3: msgids are dense and unique, and a batch that failed wedges nothing and leaves no hole.
#[test]
fn msgids_are_dense_also_after_a_failed_batch() {
    let (mut world, anna, group) = pair();
    let bob = world.user("bob");
    world.add(anna, group, "bob");
    assert_eq!(sent(&world.say(anna, group, "a")), 3);
    assert_eq!(sent(&world.decide(send(anna, 2, 2, group, "lost")).answer), 4);
    assert_eq!(sent(&world.decide(send(bob, 1, 1, group, "lost too")).answer), 5);
    world.fail(&[(anna, seq(2)), (bob, seq(1))]);
    assert_eq!(world.tables.head(group), m(3));
    assert_eq!(sent(&world.answer(send(bob, 1, 1, group, "lost too"))), 4);
    assert_eq!(sent(&world.answer(send(anna, 2, 2, group, "lost"))), 5);
    let msgids: Vec<u64> = world.items.iter().map(|item| item.msgid.value()).collect();
    assert_eq!(msgids, [1, 2, 3, 4, 5]);
}

#[test]
fn after_an_unknown_outcome_later_sends_wait_for_that_number() {
    let (mut world, anna, group) = pair();
    world.decide(send(anna, 1, 1, group, "one"));
    world.decide(send(anna, 2, 1, group, "two"));
    world.fail(&[(anna, seq(1)), (anna, seq(2))]);
    assert_eq!(refused(world.answer(send(anna, 2, 1, group, "two"))), Refusal::OutOfTurn);
    assert_eq!(refused(world.answer(send(anna, 3, 1, group, "three"))), Refusal::OutOfTurn);
    assert_eq!(sent(&world.answer(send(anna, 1, 1, group, "one"))), 2);
    assert_eq!(sent(&world.answer(send(anna, 2, 1, group, "two"))), 3);
}

#[test]
fn where_the_first_of_several_unknown_outcomes_turns_out_stored_later_sends_wait_for_the_others() {
    let (mut world, anna, group) = pair();
    let first = world.answer(send(anna, 1, 1, group, "one"));
    world.decide(send(anna, 2, 1, group, "two"));
    world.fail(&[(anna, seq(1)), (anna, seq(2)), (anna, seq(3))]);
    // The client has seen the first among the items, so that it waits for it no longer.
    assert_eq!(refused(world.answer(send(anna, 4, 2, group, "four"))), Refusal::OutOfTurn);
    assert_eq!(sent(&world.answer(send(anna, 2, 2, group, "two"))), sent(&first) + 1);
    assert_eq!(refused(world.answer(send(anna, 4, 2, group, "four"))), Refusal::OutOfTurn);
    assert_eq!(sent(&world.answer(send(anna, 3, 2, group, "three"))), sent(&first) + 2);
    assert_eq!(sent(&world.answer(send(anna, 4, 2, group, "four"))), sent(&first) + 3);
}

#[test]
fn a_send_that_was_stored_before_its_outcome_got_unknown_keeps_its_msgid() {
    let (mut world, anna, group) = pair();
    let first = world.answer(send(anna, 1, 1, group, "one"));
    let second = world.answer(send(anna, 2, 1, group, "two"));
    world.fail(&[(anna, seq(1)), (anna, seq(2))]);
    assert_eq!(world.answer(send(anna, 2, 1, group, "two")), second, "what is stored is answered in any order");
    assert_eq!(world.answer(send(anna, 1, 1, group, "one")), first);
    assert_eq!(sent(&world.answer(send(anna, 3, 1, group, "three"))), 4);
}

#[test]
fn a_send_that_was_not_done_is_waited_for_however_many_before_it_were_not_done_earlier() {
    let (mut world, anna, group) = pair();
    let before: Vec<_> = (1..=SENDS_UNANSWERED_MAX).map(|number| (anna, seq(number))).collect();
    for (_, number) in &before {
        world.answer(send(anna, number.value(), 1, group, "text"));
    }
    world.fail(&before);
    let missing = SENDS_UNANSWERED_MAX + 1;
    world.state.hold_from(anna, seq(missing), seq(missing));
    assert_eq!(refused(world.answer(send(anna, missing + 1, missing, group, "later"))), Refusal::OutOfTurn);
    let before = sent(&world.answer(send(anna, missing, missing, group, "missing")));
    assert_eq!(sent(&world.answer(send(anna, missing + 1, missing, group, "later"))), before + 1);
}

#[test]
fn of_what_was_sent_beyond_the_window_the_lowest_comes_first() {
    let (mut world, anna, group) = pair();
    for number in 1..=3 * SENDS_UNANSWERED_MAX {
        world.run(send(anna, number, 1, group, "text"));
    }
    let (next, lowest) = (SENDS_UNANSWERED_MAX + 1, SENDS_UNANSWERED_MAX);
    assert_eq!(refused(world.answer(send(anna, next + 1, lowest, group, "too early"))), Refusal::OutOfTurn);
    sent(&world.answer(send(anna, next, lowest, group, "next")));
    sent(&world.answer(send(anna, next + 1, lowest, group, "in turn")));
}

#[test]
fn a_client_that_no_longer_waits_for_the_missing_number_is_not_held_back() {
    let (mut world, anna, group) = pair();
    world.state.hold_from(anna, seq(1), seq(1));
    assert_eq!(refused(world.answer(send(anna, 2, 1, group, "two"))), Refusal::OutOfTurn);
    assert_eq!(sent(&world.answer(send(anna, 2, 2, group, "two"))), 2);
}

#[test]
fn a_number_above_the_highest_is_decided_when_it_comes_and_those_passed_over_never_are() {
    let (mut world, anna, group) = pair();
    assert_eq!(sent(&world.answer(send(anna, 4, 2, group, "four"))), 2);
    assert_eq!(refused(world.answer(send(anna, 3, 2, group, "three"))), Refusal::NeverStored);
    assert_eq!(refused(world.answer(send(anna, 1, 1, group, "one"))), Refusal::Forgotten);
    assert_eq!(sent(&world.answer(send(anna, 5, 2, group, "five"))), 3);
}

#[test]
fn what_lies_below_the_lowest_number_is_forgotten_in_the_same_frame() {
    let (mut world, anna, group) = pair();
    for number in 1..=3 {
        world.answer(send(anna, number, 1, group, "text"));
    }
    let applied = world.run(send(anna, 4, 3, group, "four"));
    let gone = |number| applied.writes.contains(&Write::SendGone(anna, seq(number)));
    assert!(gone(1) && gone(2) && !gone(3));
    assert_eq!(world.tables.sends_below(anna, ClientSeq::MAX).count(), 2);
    assert_eq!(refused(world.answer(send(anna, 2, 2, group, "text"))), Refusal::Forgotten);
    assert_eq!(world.tables.window(anna), Some(SendWindow { lowest: seq(3), highest: seq(4) }));
}

#[test]
fn the_lowest_number_never_falls() {
    let (mut world, anna, group) = pair();
    world.answer(send(anna, 5, 5, group, "five"));
    world.answer(send(anna, 6, 2, group, "six"));
    assert_eq!(world.tables.window(anna), Some(SendWindow { lowest: seq(5), highest: seq(6) }));
}

#[test]
fn a_lowest_number_above_the_number_itself_or_of_zero_is_malformed() {
    let (mut world, anna, group) = pair();
    for (number, lowest) in [(1, 2), (1, 0), (0, 0)] {
        let applied = world.run(send(anna, number, lowest, group, "text"));
        assert_eq!(applied.answer, Answer::Refused(Refusal::Malformed));
        assert!(applied.writes.is_empty());
    }
}

#[test]
fn beyond_the_window_nothing_is_done_and_later_numbers_wait() {
    let (mut world, anna, group) = pair();
    let edge = 1 + SENDS_UNANSWERED_MAX;
    world.answer(send(anna, 1, 1, group, "one"));
    assert_eq!(refused(world.answer(send(anna, edge, 1, group, "edge"))), Refusal::WindowFull);
    assert_eq!(refused(world.answer(send(anna, edge + 1, 3, group, "later"))), Refusal::OutOfTurn);
    assert_eq!(sent(&world.answer(send(anna, edge - 1, 3, group, "inside"))), 3, "earlier ones do not wait");
    assert_eq!(sent(&world.answer(send(anna, edge, 3, group, "edge"))), 4);
    let beyond = u64::MAX - 1;
    assert_eq!(refused(world.answer(send(anna, beyond, 3, group, "far"))), Refusal::WindowFull);
}

#[test]
fn no_device_ever_has_more_open_rows_than_the_window_is_wide() {
    let (mut world, anna, group) = pair();
    for number in 1..200u64 {
        let lowest = number.saturating_sub(number % 40).max(1);
        world.answer(send(anna, number, lowest, group, "text"));
        let rows = world.tables.sends_below(anna, ClientSeq::MAX).count();
        assert!(rows as u64 <= SENDS_UNANSWERED_MAX);
    }
}

#[test]
fn a_permanent_refusal_consumes_its_number_durably() {
    let (mut world, anna, group) = pair();
    let mut command = send(anna, 1, 1, group, "too large");
    if let Command::Send(send) = &mut command {
        send.what = Err(Refusal::TooLarge);
    }
    let applied = world.run(command);
    assert_eq!(applied.answer, Answer::Refused(Refusal::TooLarge));
    assert_eq!(applied.writes.len(), 1, "the window, and nothing else");
    assert_eq!(refused(world.answer(send(anna, 1, 1, group, "smaller"))), Refusal::NeverStored);
    assert_eq!(sent(&world.answer(send(anna, 2, 1, group, "next"))), 2);
}

#[test]
fn a_resend_of_a_stored_message_is_answered_to_somebody_who_was_removed_since() {
    let (mut world, anna, group) = pair();
    let bob = world.user("bob");
    world.add(anna, group, "bob");
    let stored = world.answer(send(bob, 1, 1, group, "hi"));
    world.remove(anna, group, "bob");
    assert_eq!(world.answer(send(bob, 1, 1, group, "hi")), stored);
    assert_eq!(refused(world.answer(send(bob, 2, 1, group, "again"))), Refusal::NotMember);
}

/// Scenario 20: one commit point. Nothing of B lies above the kick, B sees the kick and nothing above it, and what B
/// had queued ends in a permanent refusal.
#[test]
fn nothing_of_a_removed_member_lies_above_the_item_that_removed_them() {
    let (mut world, anna, group) = pair();
    let bob = world.user("bob");
    let phone = world.device("bob");
    world.add(anna, group, "bob");
    for number in 1..=5 {
        world.decide(send(bob, number, number, group, "text"));
    }
    let kick = world.decide(Command::RemoveMember { by: anna, group, handle: handle("bob") });
    let late = world.decide(send(bob, 6, 5, group, "late"));
    world.publish();
    let Answer::Done(Some(kick)) = kick.answer else { panic!("{:?}", kick.answer) };
    assert_eq!(late.answer, Answer::Refused(Refusal::NotMember));
    for number in 1..=3 {
        let queued = world.answer(send(phone, number, number, group, "queued"));
        assert_eq!(queued, Answer::Refused(Refusal::NotMember));
    }
    assert!(!Refusal::NotMember.is_not_done(), "for good: nobody tries again");
    world.say(anna, group, "after");
    let bobs = world.user_of(bob);
    assert!(world.items.iter().all(|item| item.author != bobs || item.msgid < kick));
    assert_eq!(world.seen(bob, group), (2..=kick.value()).collect::<Vec<_>>());
    assert_eq!(world.tables.visible_head(bobs, group), kick);
    assert_eq!(
        sent(&world.answer(send(bob, 5, 5, group, "text"))),
        kick.value() - 1,
        "what was stored is answered as ever"
    );
}

#[test]
fn an_absent_group_and_a_forbidden_one_answer_the_same() {
    let (mut world, _, group) = pair();
    let bob = world.user("bob");
    let absent = refused(world.answer(send(bob, 1, 1, GroupId::new(99), "x")));
    assert_eq!(absent, Refusal::NoSuchGroup);
    assert_eq!(refused(world.answer(send(bob, 2, 2, group, "x"))), absent);
}

#[test]
fn who_sends_too_much_in_a_second_waits_and_keeps_the_order() {
    let mut world = World::with(Settings { sends: Rate::a_second(2), ..Settings::default() });
    let anna = world.user("anna");
    let group = world.group(anna);
    let first = world.answer(send(anna, 1, 1, group, "one"));
    world.answer(send(anna, 2, 1, group, "two"));
    let Refusal::SlowDown { retry_after_ms } = refused(world.answer(send(anna, 3, 1, group, "three"))) else {
        panic!("was not limited")
    };
    assert_eq!(world.answer(send(anna, 1, 1, group, "one")), first, "a resend is never limited");
    world.now_ms += u64::from(retry_after_ms);
    assert_eq!(refused(world.answer(send(anna, 4, 1, group, "four"))), Refusal::OutOfTurn);
    assert_eq!(sent(&world.answer(send(anna, 3, 1, group, "three"))), 4);
}

#[test]
fn what_was_refused_for_the_bytes_of_a_day_keeps_its_number() {
    let mut world = World::with(Settings { bytes: Rate::a_day(10), ..Settings::default() });
    let anna = world.user("anna");
    let group = world.group(anna);
    world.answer(send(anna, 1, 1, group, "12345678"));
    let slow = refused(world.answer(send(anna, 2, 2, group, "12345678")));
    assert!(slow.is_not_done(), "{slow:?}");
    world.now_ms += DAY_MS;
    assert_eq!(sent(&world.answer(send(anna, 2, 2, group, "12345678"))), 3);
}

#[test]
fn a_clock_that_was_set_back_locks_nobody_out() {
    let mut world = World::with(Settings { sends: Rate::a_second(1), ..Settings::default() });
    let anna = world.user("anna");
    let group = world.group(anna);
    world.answer(send(anna, 1, 1, group, "one"));
    world.now_ms -= 3 * DAY_MS;
    assert_eq!(sent(&world.answer(send(anna, 2, 2, group, "two"))), 3);
    assert!(refused(world.answer(send(anna, 3, 3, group, "three"))).is_not_done(), "and the limit holds");
}

/// Scenario 39: client clocks order nothing, and the server's own clock does not either.
#[test]
fn order_is_by_msgid_whatever_the_clock_says() {
    let (mut world, anna, group) = pair();
    for (number, now_ms) in [(1, DAY_MS * 40_000), (2, 0), (3, 5)] {
        world.now_ms = now_ms;
        assert_eq!(sent(&world.answer(send(anna, number, number, group, "text"))), number + 1);
    }
    let texts = world.items.iter().filter(|item| is_text(item));
    let order: Vec<_> = texts.map(|item| (item.msgid.value(), item.time_ms)).collect();
    assert_eq!(order, [(2, DAY_MS * 40_000), (3, 0), (4, 5)]);
}

#[test]
fn ordinals_count_content_and_the_author_s_own() {
    let (mut world, anna, group) = pair();
    let bob = world.user("bob");
    world.say(anna, group, "one");
    world.add(anna, group, "bob");
    world.say(bob, group, "two");
    world.say(anna, group, "three");
    let ordinals = |msgid| (world.item(group, msgid).content_ordinal, world.item(group, msgid).own_ordinal);
    assert_eq!([1, 2, 3, 4, 5].map(ordinals), [(0, 0), (1, 1), (1, 0), (2, 1), (3, 2)]);
    assert_eq!(world.tables.content(group), 3);
    assert_eq!(world.tables.own(group, world.user_of(anna)), 2);
}
