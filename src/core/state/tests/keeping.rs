//! What groups keep.

use std::ops::ControlFlow;

use super::*;
use crate::core::command::{Retain, Trim};
use crate::core::retention::{Keeping, Read, Retention, day_of};
use crate::ids::UserId;

/// Asks for what the policy of a group gives up, as one who has read its items would.
fn retain(world: &mut World, group: GroupId, read: Read) -> MessageId {
    let (keeping, clock_ms) = (Keeping::default(), world.now_ms);
    let policy = world.tables.retention(group, keeping);
    let to = world.tables.first_to_keep(group, policy, keeping, read, clock_ms);
    ask(world, Retain { group, policy, read, to, content_gone: 0, clock_ms });
    world.tables.first_kept(group)
}

fn ask(world: &mut World, retain: Retain) {
    assert_eq!(world.answer(Command::Retain(retain)), Answer::Done(None));
}

fn set(world: &mut World, by: DeviceId, group: GroupId, policy: Retention) {
    let set = Command::SetRetention { by, group, policy: Some(policy) };
    assert_eq!(world.answer(set), Answer::Done(None));
}

fn old(msgid: u64) -> Read {
    Read { old: m(msgid), settled: m(msgid), over: m(msgid) }
}

#[test]
fn each_limit_gives_up_what_lies_beyond_it_and_a_policy_that_keeps_all_nothing() {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    world.say_up_to(anna, group, 20);
    assert_eq!(retain(&mut world, group, old(20)), m(1));
    set(&mut world, anna, group, Retention { count: Some(15), ..Retention::ALL });
    assert_eq!(retain(&mut world, group, old(20)), m(6));
    set(&mut world, anna, group, Retention { age_ms: Some(1_000), ..Retention::ALL });
    assert_eq!(retain(&mut world, group, Read { old: m(8), ..old(20) }), m(9));
    set(&mut world, anna, group, Retention { bytes: Some(1_000), ..Retention::ALL });
    assert_eq!(retain(&mut world, group, Read { over: m(10), ..old(20) }), m(11));
    // It never goes back, and never beyond the head.
    set(&mut world, anna, group, Retention { count: Some(100), ..Retention::ALL });
    assert_eq!(retain(&mut world, group, old(20)), m(11));
    set(&mut world, anna, group, Retention { age_ms: Some(1_000), ..Retention::ALL });
    assert_eq!(retain(&mut world, group, old(99)), m(21));
    assert_eq!(sent(&world.say(anna, group, "next")), 21);
}

#[test]
fn what_was_read_for_another_policy_or_goes_too_far_moves_nothing() {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    world.say_up_to(anna, group, 20);
    let policy = Retention { count: Some(15), ..Retention::ALL };
    set(&mut world, anna, group, policy);
    let clock_ms = world.now_ms;
    let right = Retain { group, policy, read: Read::default(), to: m(6), content_gone: 4, clock_ms };
    ask(&mut world, Retain { to: m(7), ..right });
    ask(&mut world, Retain { policy: Retention { count: Some(3), ..policy }, to: m(5), ..right });
    assert_eq!(world.tables.first_kept(group), m(1));
    ask(&mut world, right);
    let row = world.tables.group(group).unwrap();
    assert_eq!((row.first_kept, row.content_gone, row.head_mark), (m(6), 4, m(20)));
}

#[test]
fn what_a_live_device_has_not_acknowledged_stays_until_it_was_not_seen_for_long() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    world.add(anna, group, "bob");
    let bobs = world.device("bob");
    set(&mut world, anna, group, Retention { acked_ms: Some(0), ..Retention::ALL });
    world.say_up_to(anna, group, 20);
    for (device, msgid) in [(anna, 20), (bob, 12), (bobs, 7)] {
        world.ack(device, group, msgid);
    }
    let acked_from = |msgid| world.tables.acked_from(group, m(msgid), Keeping::default(), world.now_ms);
    let holder = acked_from(8).break_value().unwrap();
    assert_eq!((holder.device, holder.acked), (bobs, m(7)));
    assert_eq!(acked_from(7), ControlFlow::Continue(m(7)));
    assert_eq!(retain(&mut world, group, old(20)), m(8));
    // What is not old enough stays all the same.
    assert_eq!(retain(&mut world, group, old(3)), m(8));
    // Bob's second device is gone for a month; his first comes now and then.
    world.now_ms += 20 * DAY_MS;
    for device in [anna, bob] {
        let day = day_of(world.now_ms);
        assert_eq!(world.answer(Command::Seen { device, day }), Answer::Done(None));
    }
    assert_eq!(retain(&mut world, group, old(20)), m(8));
    world.now_ms += 11 * DAY_MS;
    assert_eq!(retain(&mut world, group, old(20)), m(13));
    // Who leaves holds nothing back.
    world.leave(bob, group);
    assert_eq!(retain(&mut world, group, old(21)), m(21));
}

#[test]
fn rows_go_only_below_the_first_kept_item_and_the_last_of_an_author_still_counts_theirs() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    world.add(anna, group, "bob");
    world.say(bob, group, "three");
    world.say_up_to(anna, group, 10);
    set(&mut world, anna, group, Retention { count: Some(6), ..Retention::ALL });
    assert_eq!(retain(&mut world, group, Read::default()), m(5));
    let (a, b): (UserId, UserId) = (world.user_of(anna), world.user_of(bob));
    let own = vec![(b, 1, m(3)), (a, 1, m(4)), (a, 2, m(5))];
    let items = [1, 3, 4, 5].map(m).to_vec();
    let trim = Trim { group, items, recalled: Vec::new(), edits: Vec::new(), own, mentions: Vec::new() };
    let writes = world.run(Command::Trim(trim)).writes;
    let gone = [Write::ItemGone(group, m(1)), Write::ItemGone(group, m(3)), Write::ItemGone(group, m(4))];
    assert!(writes == [&gone[..], &[Write::OwnGone(group, a, 1)]].concat());
}

#[test]
fn only_owners_say_what_a_group_keeps() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    world.add(anna, group, "bob");
    let set = |by| Command::SetRetention { by, group, policy: Some(Retention::ALL) };
    assert_eq!(refused(world.answer(set(bob))), Refusal::NotAllowed);
    assert_eq!(world.answer(set(anna)), Answer::Done(None));
    assert_eq!(world.tables.group(group).unwrap().retention, Some(Retention::ALL));
}

#[test]
fn a_device_that_was_enrolled_by_a_wrong_clock_holds_back_what_it_has_not_acknowledged() {
    let right_ms = World::new().now_ms;
    for (noted_ms, enrolled_ms) in [(0, 5_000), (right_ms, 5_000), (right_ms, right_ms - 400 * DAY_MS)] {
        let mut world = World::new();
        let anna = world.user("anna");
        let group = world.group(anna);
        world.answer(Command::KeepClock { clock_ms: noted_ms });
        world.now_ms = enrolled_ms;
        let bob = world.user("bob");
        world.add(anna, group, "bob");
        world.now_ms = right_ms;
        set(&mut world, anna, group, Retention { acked_ms: Some(0), ..Retention::ALL });
        world.say_up_to(anna, group, 20);
        world.ack(anna, group, 20);
        world.ack(bob, group, 7);
        assert_eq!(retain(&mut world, group, old(20)), m(8));
    }
}
