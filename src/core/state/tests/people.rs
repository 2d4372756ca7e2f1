//! Invites, enrolment, devices.

use super::*;
use crate::core::command::Event;
use crate::core::state::Rate;
use crate::limits::{
    INVITE_LIFETIME_S_MAX, INVITES_USER_MAX, READ_MARKS_A_MINUTE_MAX, SWITCHES_A_MINUTE_MAX, USER_DEVICES_EVER_MAX,
    USER_DEVICES_MAX,
};

fn key(world: &mut World) -> DeviceKey {
    DeviceKey(world.number())
}

fn enrol(code: CodeHash, key: DeviceKey, wanted: Option<&str>) -> Command {
    Command::Enrol { code, key, handle: wanted.map(handle), device_name: "phone".to_owned() }
}

fn invite(world: &mut World, by: Actor, name: &str, group: Option<GroupId>) -> (CodeHash, Answer) {
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    (code, world.answer(Command::Invite { by, handle: handle(name), group, code, expires_ms }))
}

#[test]
fn the_first_invite_names_nobody_and_makes_an_operator() {
    let mut world = World::new();
    let (code, key) = (world.code(), key(&mut world));
    let expires_ms = world.now_ms + DAY_MS;
    world.answer(Command::RenewFirstInvite { code, expires_ms });
    assert_eq!(refused(world.answer(enrol(code, key, None))), Refusal::HandleNeeded);
    let applied = world.run(enrol(code, key, Some("anna")));
    let device = device_of(applied.answer);
    assert!(applied.events.contains(&Event::OperatorExists));
    assert!(applied.events.contains(&Event::DeviceAdded(device)));
    assert!(world.tables.user(world.user_of(device)).unwrap().operator);
}

#[test]
fn each_new_first_invite_voids_the_one_before() {
    let mut world = World::new();
    let (old, new, key) = (world.code(), world.code(), key(&mut world));
    let expires_ms = world.now_ms + DAY_MS;
    world.answer(Command::RenewFirstInvite { code: old, expires_ms });
    world.answer(Command::RenewFirstInvite { code: new, expires_ms });
    assert_eq!(refused(world.answer(enrol(old, key, Some("anna")))), Refusal::BadInvite);
    device_of(world.answer(enrol(new, key, Some("anna"))));
}

#[test]
fn once_an_operator_s_device_existed_there_is_no_first_invite_even_when_it_is_revoked() {
    let mut world = World::new();
    let anna = world.user("anna");
    world.answer(Command::RevokeDevice { by: Actor::Operator, device: anna });
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    assert_eq!(refused(world.answer(Command::RenewFirstInvite { code, expires_ms })), Refusal::NotAllowed);
}

#[test]
fn the_same_code_with_the_same_key_answers_the_same_device_until_it_expires() {
    let mut world = World::new();
    world.user("anna");
    let key = key(&mut world);
    let (code, _) = invite(&mut world, Actor::Operator, "bob", None);
    let first = world.answer(enrol(code, key, None));
    let again = world.run(enrol(code, key, Some("someone")));
    assert_eq!(again.answer, first);
    assert!(again.writes.is_empty() && again.events.is_empty());
    world.now_ms += DAY_MS;
    assert_eq!(refused(world.answer(enrol(code, key, None))), Refusal::InviteExpired);
}

#[test]
fn a_code_that_was_used_opens_nothing_for_another_key() {
    let mut world = World::new();
    world.user("anna");
    let (mine, other) = (key(&mut world), key(&mut world));
    let (code, _) = invite(&mut world, Actor::Operator, "bob", None);
    world.answer(enrol(code, mine, None));
    assert_eq!(refused(world.answer(enrol(code, other, None))), Refusal::BadInvite);
    assert_eq!(refused(world.answer(enrol(CodeHash([99; 32]), other, None))), Refusal::BadInvite);
}

/// Scenario 40, as far as the server decides it: an expired invite is told from a wrong one.
#[test]
fn an_expired_invite_is_said_to_be_expired() {
    let mut world = World::new();
    world.user("anna");
    let key = key(&mut world);
    let (code, _) = invite(&mut world, Actor::Operator, "bob", None);
    world.now_ms += DAY_MS;
    assert_eq!(refused(world.answer(enrol(code, key, None))), Refusal::InviteExpired);
}

#[test]
fn an_invite_reserves_nothing_and_the_first_enrol_has_the_handle() {
    let mut world = World::new();
    world.user("anna");
    let (first, second) = (key(&mut world), key(&mut world));
    let (one, _) = invite(&mut world, Actor::Operator, "bob", None);
    let (two, made) = invite(&mut world, Actor::Operator, "bob", None);
    assert!(matches!(made, Answer::Invited { .. }));
    device_of(world.answer(enrol(two, second, None)));
    assert_eq!(refused(world.answer(enrol(one, first, None))), Refusal::HandleTaken);
    assert_eq!(invite(&mut world, Actor::Operator, "bob", None).1, Answer::Refused(Refusal::HandleTaken));
}

/// Scenario 36: in capitals too.
#[test]
fn a_handle_that_differs_in_case_alone_is_taken() {
    let mut world = World::new();
    world.user("anna");
    let (mine, other) = (key(&mut world), key(&mut world));
    let (early, _) = invite(&mut world, Actor::Operator, "BOB", None);
    let (code, _) = invite(&mut world, Actor::Operator, "bob", None);
    device_of(world.answer(enrol(code, mine, None)));
    assert_eq!(refused(world.answer(enrol(early, other, None))), Refusal::HandleTaken);
    assert_eq!(invite(&mut world, Actor::Operator, "Bob", None).1, Answer::Refused(Refusal::HandleTaken));
}

#[test]
fn operators_invite_and_other_users_do_not() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    assert!(matches!(invite(&mut world, Actor::Device(anna), "cleo", None).1, Answer::Invited { .. }));
    assert_eq!(refused(invite(&mut world, Actor::Device(bob), "dora", None).1), Refusal::NotAllowed);
    let group = world.group(bob);
    let into = invite(&mut world, Actor::Device(anna), "dora", Some(group)).1;
    assert_eq!(refused(into), Refusal::NoSuchGroup, "the right to invite is not the right to add");
}

#[test]
fn who_was_invited_into_a_group_joins_it_in_the_same_frame() {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    let key = key(&mut world);
    let (code, _) = invite(&mut world, Actor::Device(anna), "bob", Some(group));
    let applied = world.run(enrol(code, key, None));
    let bob = device_of(applied.answer);
    assert!(applied.events.contains(&Event::Items { group, first: m(2), last: m(2) }));
    assert_eq!(world.item(group, 2).author, world.user_of(anna));
    assert_eq!(world.seen(bob, group), [2]);
    assert_eq!(world.cursor(group, bob).msgid, m(1));
    assert_eq!(world.read_mark(group, bob).msgid, m(1));
}

#[test]
fn the_operator_key_lets_nobody_into_a_group_not_even_by_an_invite() {
    let mut world = World::new();
    let anna = world.user("anna");
    let group = world.group(anna);
    let into = invite(&mut world, Actor::Operator, "bob", Some(group)).1;
    assert_eq!(refused(into), Refusal::NotAllowed);
}

#[test]
fn an_inviter_who_lost_the_right_to_add_brings_nobody_into_the_group() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    world.add(anna, group, "bob");
    let key = key(&mut world);
    let (code, _) = invite(&mut world, Actor::Device(anna), "cleo", Some(group));
    world.leave(anna, group);
    let cleo = device_of(world.answer(enrol(code, key, None)));
    assert!(!world.tables.is_group_known_to(world.user_of(cleo), group));
    assert_eq!(world.tables.member_count(group), 1);
    assert!(world.say(bob, group, "still here") != Answer::Refused(Refusal::NotMember));
}

#[test]
fn devices_are_added_by_their_user_or_by_an_operator() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let expires_ms = world.now_ms + DAY_MS;
    let ask = |world: &mut World, by, user: Option<&str>| {
        let code = world.code();
        world.answer(Command::InviteDevice { by, user: user.map(handle), code, expires_ms })
    };
    let made = Answer::Invited { expires_ms };
    assert_eq!(ask(&mut world, Actor::Device(bob), None), made);
    assert_eq!(ask(&mut world, Actor::Device(bob), Some("bob")), made);
    assert_eq!(ask(&mut world, Actor::Device(anna), Some("bob")), made);
    assert_eq!(ask(&mut world, Actor::Operator, Some("bob")), made);
    assert_eq!(refused(ask(&mut world, Actor::Device(bob), Some("anna"))), Refusal::NotAllowed);
    assert_eq!(refused(ask(&mut world, Actor::Operator, None)), Refusal::NoSuchUser);
    assert_eq!(refused(ask(&mut world, Actor::Operator, Some("nobody"))), Refusal::NoSuchUser);
}

#[test]
fn a_user_has_so_many_live_devices_and_no_more() {
    let mut world = World::new();
    world.user("anna");
    for _ in 1..USER_DEVICES_MAX {
        world.device("anna");
    }
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    let more = Command::InviteDevice { by: Actor::Operator, user: Some(handle("anna")), code, expires_ms };
    assert_eq!(refused(world.answer(more)), Refusal::LimitReached);
}

#[test]
fn who_makes_devices_and_revokes_them_uses_up_their_own_share_and_nobody_elses() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let invite = |world: &mut World, by, days: u64| {
        let (code, expires_ms) = (world.code(), world.now_ms + days * DAY_MS);
        (code, world.answer(Command::InviteDevice { by, user: Some(handle("bob")), code, expires_ms }))
    };
    // Made in time, and used once there is no more room.
    let (kept, _) = invite(&mut world, Actor::Device(bob), 9);
    let mut devices = 1;
    while devices <= USER_DEVICES_EVER_MAX {
        world.now_ms += DAY_MS / 60;
        let (code, made) = invite(&mut world, Actor::Device(bob), 1);
        if made == Answer::Refused(Refusal::LimitReached) {
            break;
        }
        let device = device_of(world.enrol(code, "bob"));
        world.answer(Command::RevokeDevice { by: Actor::Device(bob), device });
        devices += 1;
    }
    assert_eq!(devices, USER_DEVICES_EVER_MAX);
    assert_eq!(refused(world.enrol(kept, "bob")), Refusal::LimitReached);
    let (code, _) = invite(&mut world, Actor::Device(anna), 1);
    device_of(world.enrol(code, "bob"));
}

/// Scenario 37: who has a stolen device is not back by what they had it make while they could.
#[test]
fn an_invite_that_was_made_on_a_revoked_device_opens_nothing() {
    let mut world = World::new();
    let (anna, spare) = (world.user("anna"), world.device("anna"));
    world.user("bob");
    let group = world.group(anna);
    let expires_ms = world.now_ms + DAY_MS;
    let invites = |world: &mut World, device| {
        let (own, others, new) = (world.code(), world.code(), world.code());
        let by = Actor::Device(device);
        world.answer(Command::InviteDevice { by, user: None, code: own, expires_ms });
        world.answer(Command::InviteDevice { by, user: Some(handle("bob")), code: others, expires_ms });
        world.answer(Command::Invite { by, handle: handle("eve"), group: Some(group), code: new, expires_ms });
        [(own, "anna"), (others, "bob"), (new, "eve")]
    };
    let (of_spare, of_anna) = (invites(&mut world, spare), invites(&mut world, anna));
    let used = world.code();
    world.answer(Command::InviteDevice { by: Actor::Device(spare), user: None, code: used, expires_ms });
    let key = DeviceKey(world.number());
    let enrol = Command::Enrol { code: used, key, handle: None, device_name: "phone".to_owned() };
    let phone = world.answer(enrol.clone());
    world.answer(Command::RevokeDevice { by: Actor::Device(anna), device: spare });
    for (code, name) in of_spare {
        assert_eq!(refused(world.enrol(code, name)), Refusal::BadInvite, "for {name}");
    }
    assert_eq!(world.answer(enrol), phone, "what it opened before is answered again");
    for (code, name) in of_anna {
        device_of(world.enrol(code, name));
    }
}

/// Scenario 37, as far as `State` decides it: nothing of a revoked device is done any more.
#[test]
fn a_revoked_device_gets_the_same_code_from_every_verb() {
    let mut world = World::new();
    let anna = world.user("anna");
    let phone = world.device("anna");
    let group = world.group(anna);
    world.answer(send(phone, 1, 1, group, "before"));
    let applied = world.run(Command::RevokeDevice { by: Actor::Device(anna), device: phone });
    assert_eq!(applied.answer, Answer::Done(None));
    assert_eq!(applied.events, [Event::DeviceRevoked(phone)]);
    assert_eq!(world.tables.counts().devices_live, 1);
    let verbs = [
        send(phone, 1, 1, group, "before"),
        send(phone, 2, 2, group, "after"),
        Command::Ack { device: phone, entries: vec![(group, m(1))] },
        Command::ReadMarks { device: phone, entries: vec![(group, m(1))] },
        Command::Skip { device: phone, group, to: m(1) },
        Command::CreateGroup { by: phone, name: "x".to_owned(), policy: Policy::FromJoin },
        Command::LeaveGroup { by: phone, group },
        Command::RevokeDevice { by: Actor::Device(phone), device: anna },
    ];
    for command in verbs {
        let applied = world.run(command);
        assert_eq!(applied.answer, Answer::Refused(Refusal::DeviceRevoked));
        assert!(applied.writes.is_empty());
    }
    assert!(world.tables.cursor(group, world.user_of(anna), phone).is_some(), "its cursors stay");
    let again = world.run(Command::RevokeDevice { by: Actor::Device(anna), device: phone });
    assert_eq!((again.answer, again.events.len()), (Answer::Done(None), 0));
}

#[test]
fn devices_of_others_are_absent_except_to_operators() {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let revoke = |by, device| Command::RevokeDevice { by, device };
    let rename = |by, device| Command::RenameDevice { by, device, name: "tablet".to_owned() };
    assert_eq!(refused(world.answer(revoke(Actor::Device(bob), anna))), Refusal::NoSuchDevice);
    assert_eq!(refused(world.answer(rename(Actor::Device(bob), anna))), Refusal::NoSuchDevice);
    assert_eq!(refused(world.answer(revoke(Actor::Device(bob), DeviceId::new(99)))), Refusal::NoSuchDevice);
    assert_eq!(world.answer(rename(Actor::Device(anna), bob)), Answer::Done(None));
    assert_eq!(world.tables.device(bob).unwrap().name, "tablet");
    assert_eq!(world.answer(revoke(Actor::Operator, bob)), Answer::Done(None));
    assert_eq!(refused(world.answer(rename(Actor::Device(anna), bob))), Refusal::DeviceRevoked);
}

#[test]
fn a_key_that_belongs_to_a_device_makes_no_second_one() {
    let mut world = World::new();
    world.user("anna");
    let key = key(&mut world);
    let (one, _) = invite(&mut world, Actor::Operator, "bob", None);
    let (two, _) = invite(&mut world, Actor::Operator, "cleo", None);
    world.answer(enrol(one, key, None));
    assert_eq!(refused(world.answer(enrol(two, key, None))), Refusal::BadInvite);
}

#[test]
fn an_invite_lives_no_longer_than_the_limit() {
    let mut world = World::new();
    world.user("anna");
    let code = world.code();
    let by = Actor::Operator;
    let made = world.answer(Command::Invite { by, handle: handle("bob"), group: None, code, expires_ms: u64::MAX });
    assert_eq!(made, Answer::Invited { expires_ms: world.now_ms + INVITE_LIFETIME_S_MAX * 1_000 });
}

#[test]
fn invites_that_expired_long_ago_make_room() {
    let mut world = World::new();
    world.user("anna");
    invite(&mut world, Actor::Operator, "bob", None);
    world.now_ms += 9 * DAY_MS;
    let before = world.tables.counts().invites;
    invite(&mut world, Actor::Operator, "cleo", None);
    assert_eq!(world.tables.counts().invites, before - 1, "two went, one came");
}

#[test]
fn a_device_name_that_shows_nothing_or_steers_the_terminal_is_refused_and_frees_the_invite() {
    let mut world = World::new();
    world.user("anna");
    let key = key(&mut world);
    let (code, _) = invite(&mut world, Actor::Operator, "bob", None);
    for name in ["", "  ", "\u{200b}", "a\u{1b}[31m", "d9"] {
        let command = Command::Enrol { code, key, handle: None, device_name: name.to_owned() };
        assert_eq!(refused(world.answer(command)), Refusal::BadName, "{name:?}");
    }
    device_of(world.answer(enrol(code, key, None)));
}

#[test]
fn a_user_has_so_many_invites_for_their_devices_and_stands_in_nobody_else_s_way() {
    let mut world = World::new();
    let anna = world.user("anna");
    let bob = world.user("bob");
    let invite = |world: &mut World, by, user: Option<&str>, seconds: u64| {
        let (code, expires_ms) = (world.code(), world.now_ms + seconds * 1_000);
        (code, world.decide(Command::InviteDevice { by, user: user.map(handle), code, expires_ms }).answer)
    };
    let is_made = |(_, answer): (CodeHash, Answer)| matches!(answer, Answer::Invited { .. });
    let bobs = Actor::Device(bob);
    assert!(is_made(invite(&mut world, bobs, None, 1)));
    for number in 2..=INVITES_USER_MAX {
        assert!(is_made(invite(&mut world, bobs, None, 60)));
        if number % 10 == 0 {
            world.publish();
        }
    }
    assert_eq!(refused(invite(&mut world, bobs, None, 60).1), Refusal::LimitReached, "within the batch");
    world.publish();
    assert_eq!(refused(invite(&mut world, bobs, None, 60).1), Refusal::LimitReached);
    assert!(is_made(invite(&mut world, Actor::Device(anna), None, 60)));
    let (code, made) = invite(&mut world, Actor::Operator, Some("bob"), 60);
    assert!(matches!(made, Answer::Invited { .. }));
    world.publish();
    device_of(world.enrol(code, "bob"));
    // One has expired, and the operator's counts for them.
    world.now_ms += 1_000;
    assert_eq!(refused(invite(&mut world, bobs, None, 60).1), Refusal::LimitReached);
    world.now_ms += 60_000;
    assert!(is_made(invite(&mut world, bobs, None, 60)));
    world.publish();
}

/// Setting what is set costs nothing, nor does what the holder of the operator key does.
#[test]
fn what_writes_a_row_has_a_rate_though_it_says_nothing() {
    let mut world = World::with(Settings { sends: Rate::a_second(1), ..Settings::default() });
    let anna = world.user("anna");
    let group = world.group(anna);
    let slowed = |world: &mut World, command: Command| {
        world.now_ms += 1_000;
        let settings = Command::SetRetention { by: anna, group, policy: None };
        assert_eq!(world.answer(settings), Answer::Done(None), "as it was");
        matches!(world.say(anna, group, "one"), Answer::Sent { .. })
            && matches!(world.answer(command), Answer::Refused(Refusal::SlowDown { .. }))
    };
    let rename = |by| Command::RenameDevice { by, device: anna, name: "tablet".to_owned() };
    let policy = Some(crate::core::retention::Retention { count: Some(9), ..Default::default() });
    assert!(slowed(&mut world, rename(Actor::Device(anna))));
    assert!(slowed(&mut world, Command::SetRetention { by: anna, group, policy }));
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    let invite = Command::InviteDevice { by: Actor::Device(anna), user: None, code, expires_ms };
    assert!(slowed(&mut world, invite));
    // Refused as the last owner, after all were looked at.
    let role = crate::core::rows::Role::Member;
    assert!(slowed(&mut world, Command::SetRole { by: anna, group, handle: handle("anna"), role }));
    assert_eq!(world.answer(rename(Actor::Operator)), Answer::Done(None));
}

#[test]
fn a_user_turns_switches_and_moves_read_marks_so_often_in_a_minute() {
    let mut world = World::new();
    let anna = world.user("anna");
    let [group, other] = [(); 2].map(|()| world.group(anna));
    world.say_up_to(anna, group, 9);
    world.say_up_to(anna, other, 9);
    let switch = |on| Command::SetSwitch { by: anna, switch: 2, on };
    for turn in 0..SWITCHES_A_MINUTE_MAX {
        assert_eq!(world.answer(switch(turn % 2 == 0)), Answer::Done(None));
    }
    assert!(matches!(refused(world.answer(switch(true))), Refusal::SlowDown { retry_after_ms: 1_000 }));
    assert_eq!(world.answer(switch(false)), Answer::Done(None), "it is off");
    world.now_ms += 1_000;
    assert_eq!(world.answer(switch(true)), Answer::Done(None));

    let unread = |version, msgid| Command::MarkUnread { device: anna, group, msgid: m(msgid), version };
    for version in 0..READ_MARKS_A_MINUTE_MAX {
        let answer = world.answer(unread(version, 1 + version % 2));
        assert!(matches!(answer, Answer::ReadMark { .. }), "{answer:?}");
    }
    assert!(matches!(refused(world.answer(unread(READ_MARKS_A_MINUTE_MAX, 1))), Refusal::SlowDown { .. }));
    let read = Command::MarkRead { device: anna, group, msgid: m(9), version: u64::MAX };
    assert!(matches!(refused(world.answer(read.clone())), Refusal::SlowDown { .. }));
    let marks = Command::ReadMarks { device: anna, entries: (2..=9).map(|msgid| (other, m(msgid))).collect() };
    let Answer::Cursors { refused, .. } = world.run(marks).answer else { panic!("not answered") };
    assert!(!refused.is_empty() && refused.iter().all(|(_, why)| matches!(why, Refusal::SlowDown { .. })));
    world.now_ms += 60_000;
    assert!(matches!(world.answer(read), Answer::ReadMark { .. }));
}
