//! Policies of several parts, what is wiped while bytes are counted, groups beside one another, and clocks that are wrong.

use super::*;
use crate::core::retention::{DAY_MS, HOLDERS_LOOKED_AT};
use crate::limits::RETENTION_CLOCK_MS;
use crate::server::keeping::look::Look;
use crate::server::keeping::{Known, goes_on_after};
use crate::store::engine::Op;

fn m(msgid: u64) -> MessageId {
    MessageId::new(msgid)
}

/// A round; says how often a look failed.
fn round(story: &mut Story, keeper: &mut Keeper, now_ms: u64, now: Instant) -> usize {
    keeper.begin(now_ms, now);
    let mut failed = 0;
    loop {
        match keeper.step(&story.world.view) {
            Ok(Step::Ask(command)) => drop(story.world.ask(*command)),
            Ok(Step::Again) => {}
            Ok(Step::Rest) => return failed,
            Err(failure) => {
                failed += 1;
                let goes_on = goes_on_after(&failure, &story.world.view, &story.world.writer.watchdog.doubt);
                assert!(goes_on, "{failure}");
            }
        }
    }
}

/// Alice says something in a group, while the clock shows this.
fn says_at(story: &mut Story, group: GroupId, now_ms: u64) {
    let (sender, mut answer) = oneshot::channel();
    let command = acts(story.devices[0], story.seqs[0], group, Act::Says, "text");
    story.seqs[0] += 1;
    story.world.writer.take(Request::new(command, Reply::to(Recipient::Local(sender))), now_ms);
    story.world.commit();
    msgid(&answer.try_recv().unwrap());
}

fn group_of(story: &mut Story, name: &str) -> GroupId {
    let create = Command::CreateGroup { by: story.devices[0], name: name.to_owned(), policy: Policy::FromJoin };
    let Outcome::Decided(Answer::GroupCreated(group)) = story.world.ask(create) else { panic!("no group") };
    group
}

#[test]
fn number_and_bytes_together_give_up_what_either_does_and_no_more() {
    for count in [10, 25, 40] {
        let mut story = said(60);
        story.keeper.at_once = AtOnce { rows: 8, bytes: 400 };
        let bytes = story.sizes().iter().rev().take(25).map(|(_, bytes)| bytes).sum();
        story.keeps(Retention { count: Some(count), bytes: Some(bytes), ..Retention::ALL });
        let first = story.first_to_keep();
        assert_eq!(first, story.head() + 1 - count.min(25));
        story.keep_all();
        assert_eq!(story.first_kept(), first);
        // It is not too many once and for all: what is new stays.
        for _ in 0..40 {
            story.happens(Happens::Said { who: 0, mentions: 0 });
            story.keep_all();
        }
        story.keep_to_the_end();
        story.check();
    }
}

#[test]
fn age_and_acks_remove_by_themselves_beside_a_number() {
    let hour = Duration::from_secs(3_600);
    let mut story = said(40);
    let policy = Retention { count: Some(30), acked_ms: Some(0), age_ms: Some(2 * 3_600 * 1_000), ..Retention::ALL };
    let by_count = story.head() - 29;
    for (acked, first) in [(5, by_count), (20, 21)] {
        for device in story.devices.clone() {
            story.world.ask(Command::Ack { device, entries: vec![(story.group, m(acked))] });
        }
        assert_eq!(kept_at(&mut story, policy, NOW, Duration::ZERO), first);
    }
    assert_eq!(kept_at(&mut story, policy, NOW + 3_600 * 1_000, hour), 21);
    assert_eq!(kept_at(&mut story, policy, NOW + 3 * 3_600 * 1_000, 2 * hour), story.head() + 1);
}

#[test]
fn edits_that_go_with_what_they_edit_no_longer_count_as_bytes() {
    let mut story = said(12);
    story.keeper.at_once.rows = 1;
    story.long = 20;
    for target in 4..12 {
        assert!(story.acts(0, Act::Edits(m(target)), &[]));
        story.noted(0);
    }
    let whole: u64 = story.sizes().iter().map(|(_, bytes)| bytes).sum();
    story.keeps(Retention { bytes: Some(whole * 15 / 17), ..Retention::ALL });
    // That nothing goes which may stay is looked at with each command.
    story.keep_to_the_end();
    assert!(story.first_kept() > 1);
    story.check();
}

#[test]
fn what_is_recalled_during_a_count_of_bytes_no_longer_counts() {
    for steps in 0..40 {
        let mut story = said(20);
        story.long = 20;
        story.happens(Happens::Said { who: 0, mentions: 0 });
        let long = usize::try_from(story.head()).unwrap() - 1;
        story.long = 1;
        story.happens(Happens::Said { who: 0, mentions: 0 });
        let whole: u64 = story.sizes().iter().map(|(_, bytes)| bytes).sum();
        story.keeps(Retention { bytes: Some(whole * 15 / 17), ..Retention::ALL });
        story.keep(steps);
        story.happens(Happens::Recalled(long));
        story.keep_to_the_end();
        story.check();
    }
}

#[test]
fn what_the_server_says_holds_where_a_group_says_nothing_and_in_a_direct_chat() {
    let keeping = Keeping { default: Retention { count: Some(5), ..Retention::ALL }, ..KEEPING };
    let mut story = said(10);
    story.world.writer.state = State::new(Settings { keeping, ..Settings::default() });
    let (own, group, by) = (group_of(&mut story, "own"), story.group, story.devices[0]);
    story.world.ask(Command::SetRetention { by, group: own, policy: Some(Retention::ALL) });
    story.world.ask(Command::OpenDirect { by, handle: Handle::parse("bob").unwrap() });
    let direct = story.world.view.read().tables.groups().find(|group| group.pair().is_some()).unwrap();
    for _ in 0..10 {
        says_at(&mut story, own, NOW);
        says_at(&mut story, direct, NOW);
    }
    let now = crate::clock::monotonic();
    let mut keeper = Keeper::new(&story.world.view, keeping, NOW, now);
    assert_eq!(round(&mut story, &mut keeper, NOW, now), 0);
    let tables = &story.world.view.read().tables;
    let left = |group| tables.head(group).value() + 1 - tables.first_kept(group).value();
    assert_eq!([group, direct].map(left), [5, 5]);
    assert_eq!(tables.first_kept(own), m(1));
}

#[test]
fn a_group_that_cannot_be_read_keeps_no_other_from_being_trimmed_and_is_doubt() {
    let mut story = said(10);
    let second = group_of(&mut story, "second");
    for _ in 0..10 {
        says_at(&mut story, second, NOW);
    }
    story.happens(Happens::Keeps(5));
    let policy = Some(Retention { count: Some(5), ..Retention::ALL });
    story.world.ask(Command::SetRetention { by: story.devices[0], group: second, policy });
    story.world.apply_all();
    {
        let published = story.world.view.read();
        let key = keys::message(story.group, m(story.head() - 5));
        let broken = Op { tree: Tree::Messages, key, value: Some(bytes::Bytes::from_static(&[9])) };
        published.engine.apply(published.durable, &[broken]).unwrap();
    }
    let now = crate::clock::monotonic();
    let mut keeper = Keeper::new(&story.world.view, KEEPING, NOW, now);
    assert!(!story.world.writer.watchdog.doubt.is_raised());
    assert_eq!(round(&mut story, &mut keeper, NOW, now), 1);
    assert!(story.world.writer.watchdog.doubt.is_raised());
    // Where a rebuild would bring the same row the server goes on, and asks for it no more.
    assert_eq!(round(&mut story, &mut keeper, NOW, now), 0);
    let tables = &story.world.view.read().tables;
    assert_eq!(tables.first_kept(story.group), m(1));
    assert_eq!(tables.first_kept(second).value(), tables.head(second).value() - 4);
}

#[test]
fn mentions_that_come_during_a_look_leave_no_row_behind() {
    let mut story = said(0);
    let bob_is_mentioned = |story: &mut Story, times: usize| {
        for _ in 0..times {
            story.happens(Happens::Said { who: 0, mentions: 0b010 });
        }
    };
    bob_is_mentioned(&mut story, 4);
    story.happens(Happens::Keeps(2));
    while story.first_kept() == 1 {
        story.keep(1);
    }
    let at_once = AtOnce { rows: 100, bytes: 1 << 20 };
    let look = Look::of(&story.world.view.read(), story.group, KEEPING, at_once);
    // So many that halving looks for one that the look does not have.
    bob_is_mentioned(&mut story, 12);
    let trim = look.trim(&mut Known::default(), &story.world.view).unwrap().unwrap();
    let numbers: Vec<u64> = trim.mentions.iter().map(|(_, number, _)| *number).collect();
    assert_eq!(numbers, [2, 1]);
}

#[test]
fn a_clock_that_is_set_back_purges_nothing_that_is_new() {
    let day = Duration::from_millis(DAY_MS);
    let policy = Retention { age_ms: Some(DAY_MS), ..Retention::ALL };
    for set_back_ms in [5_000, NOW - 700 * DAY_MS, NOW + DAY_MS] {
        let mut story = said(3);
        let group = story.group;
        kept_at(&mut story, policy, NOW, Duration::ZERO);
        let first = story.head() + 1;
        assert_eq!(kept_at(&mut story, policy, NOW + 2 * DAY_MS, 2 * day), first);
        story.start(true);
        says_at(&mut story, group, set_back_ms);
        story.start(false);
        assert_eq!(kept_at(&mut story, policy, set_back_ms + 3_600_000, day / 24), first);
        // Set right again, its age is that of what was said then.
        assert_eq!(kept_at(&mut story, policy, NOW + 3 * DAY_MS - 1, day), first);
        assert_eq!(kept_at(&mut story, policy, NOW + 3 * DAY_MS, day), first + 1);
    }
}

#[test]
fn where_the_clock_is_set_back_while_the_server_runs_ages_begin_where_it_stood() {
    let hour = Duration::from_secs(3_600);
    let policy = Retention { age_ms: Some(60_000), ..Retention::ALL };
    let mut story = said(0);
    let (group, began) = (story.group, crate::clock::monotonic());
    story.keeps(policy);
    let mut keeper = Keeper::new(&story.world.view, KEEPING, NOW, began);
    // All goes, with which the clock is noted; for a while after that it is not.
    let (gone, later) = (NOW + 60_000, NOW + 60_000 + RETENTION_CLOCK_MS - 1);
    for now_ms in [gone, later] {
        round(&mut story, &mut keeper, now_ms, began + Duration::from_millis(now_ms - NOW));
    }
    assert_eq!(story.world.view.read().tables.meta(Meta::RetentionClock), gone);
    round(&mut story, &mut keeper, 5_000, began + Duration::from_millis(later - NOW));
    assert_eq!(story.world.view.read().tables.meta(Meta::RetentionClock), later);
    let first = story.first_kept();
    says_at(&mut story, group, 6_000);
    round(&mut story, &mut keeper, 7_000, began + hour);
    assert_eq!(story.first_kept(), first);
}

#[test]
fn what_was_said_before_the_clock_was_ever_set_is_as_old_as_what_comes_behind_it() {
    let day = Duration::from_millis(DAY_MS);
    let mut story = said(0);
    let (group, began) = (story.group, crate::clock::monotonic());
    let unset = story.head() + 1;
    story.keeps(Retention { age_ms: Some(DAY_MS), ..Retention::ALL });
    let mut keeper = Keeper::new(&story.world.view, KEEPING, 5_000, began);
    says_at(&mut story, group, 6_000);
    let mut kept = |story: &mut Story, now_ms, days| {
        round(story, &mut keeper, now_ms, began + day * days);
        story.first_kept()
    };
    assert_eq!(kept(&mut story, 7_000, 0), 1);
    // It is set now, years later in a moment: nothing is older for that.
    assert_eq!(kept(&mut story, NOW, 0), 1);
    assert_eq!(kept(&mut story, NOW + DAY_MS, 1), unset);
    says_at(&mut story, group, NOW + DAY_MS);
    assert_eq!(kept(&mut story, NOW + 2 * DAY_MS - 1, 2), unset);
    assert_eq!(kept(&mut story, NOW + 2 * DAY_MS, 3), unset + 2);
}

/// Found by a seed: each page that went made the whole rest be looked at again.
#[test]
fn what_lies_ahead_of_the_clock_is_looked_at_once_however_much_of_it_goes() {
    let steps = |items: u64| {
        let mut story = said(0);
        let group = story.group;
        (0..items).for_each(|_| says_at(&mut story, group, NOW + DAY_MS));
        story.keeps(Retention { age_ms: Some(DAY_MS), bytes: Some(1), ..Retention::ALL });
        let now = crate::clock::monotonic();
        let mut keeper = keeper(&story.world);
        keeper.begin(NOW, now);
        for steps in 1.. {
            match keeper.step(&story.world.view).unwrap() {
                Step::Ask(command) => drop(story.world.ask(*command)),
                Step::Again => {}
                Step::Rest => {
                    assert_eq!(story.first_kept(), story.head() + 1 + items);
                    return steps;
                }
            }
        }
        unreachable!()
    };
    let (few, many) = (steps(100), steps(200));
    assert!(2 * many < 5 * few, "{few} steps for 100 items, {many} for 200");
}

/// A group of many, from which what every device has goes once it is a day old; some read, and the last of them does not.
#[test]
fn all_members_are_looked_at_only_where_something_may_go_and_once_for_each_who_decides() {
    const MEMBERS: usize = 13;
    let mut story = said(0);
    let (group, began) = (story.group, crate::clock::monotonic());
    for byte in 11..21 {
        let device = story.world.join(story.devices[0], group, &format!("member-{byte}"), byte);
        story.devices.push(device);
    }
    (0..30).for_each(|_| says_at(&mut story, group, NOW));
    // Bytes are counted page by page.
    story.keeps(Retention { acked_ms: Some(DAY_MS), bytes: Some(1 << 20), ..Retention::ALL });
    let mut keeper = keeper(&story.world);
    // What each round looks at, and how often it asks for the first kept item to move.
    let mut round = |story: &mut Story, after_ms: u64| {
        keeper.begin(NOW + after_ms, began + Duration::from_millis(after_ms));
        HOLDERS_LOOKED_AT.set(0);
        let mut moves = 0;
        loop {
            match keeper.step(&story.world.view).unwrap() {
                Step::Ask(command) => {
                    moves += usize::from(matches!(*command, Command::Retain(_)));
                    drop(story.world.ask(*command));
                }
                Step::Again => {}
                Step::Rest => return (HOLDERS_LOOKED_AT.get(), moves),
            }
        }
    };
    let head = story.world.view.read().tables.head(group).value();
    let ack = |story: &mut Story, devices: std::ops::Range<usize>| {
        for device in &story.devices[devices] {
            story.world.ask(Command::Ack { device: *device, entries: vec![(group, m(head))] });
        }
    };
    ack(&mut story, 0..MEMBERS - 1);
    assert_eq!([round(&mut story, 0), round(&mut story, 0)], [(0, 0); 2], "nothing is old enough");
    // What came before the last one joined goes; they hold back the rest.
    let (looks, moves) = round(&mut story, DAY_MS);
    assert!(moves > 0 && looks <= (2 * moves + 2) * MEMBERS, "{looks} looks for {moves} moves");
    assert!(story.first_kept() < head);
    let held = [0; 5].map(|_| round(&mut story, DAY_MS));
    assert_eq!(held, [(1, 0); 5], "they still do");
    ack(&mut story, MEMBERS - 1..MEMBERS);
    let (looks, moves) = round(&mut story, DAY_MS);
    assert!(moves > 0 && looks <= (2 * moves + 2) * MEMBERS, "{looks} looks for {moves} moves");
    assert_eq!(story.first_kept(), head + 1);
}
