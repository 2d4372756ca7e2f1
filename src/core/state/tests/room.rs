//! A full disk: what is refused, what is not, and that order holds.

use super::*;
use crate::core::command::Storage;

#[test]
fn on_a_full_disk_nothing_that_grows_is_taken_and_it_writes_nothing() {
    let (mut world, anna, _, group) = pair();
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    let invite = |code| Command::Invite { by: Actor::Operator, handle: handle("cleo"), group: None, code, expires_ms };
    world.answer(invite(code));
    world.state.set_storage(Storage::Reserve);
    let other = world.code();
    let (key, device_name) = (DeviceKey([99; 32]), "phone".to_owned());
    let enrol = Command::Enrol { code, key, handle: None, device_name: device_name.clone() };
    let commands = [
        send(anna, 1, 1, group, "hello"),
        invite(other),
        enrol,
        Command::InviteDevice { by: Actor::Device(anna), user: None, code: other, expires_ms },
        Command::RenameDevice { by: Actor::Device(anna), device: anna, name: device_name },
        Command::CreateGroup { by: anna, name: "another".to_owned(), policy: Policy::FromJoin },
        Command::AddMember { by: anna, group, handle: handle("bob") },
        Command::RenameGroup { by: anna, group, name: "other".to_owned() },
    ];
    for command in commands {
        let applied = world.run(command);
        assert_eq!(applied.answer, Answer::Refused(Refusal::StorageFull));
        assert!(applied.writes.is_empty() && applied.events.is_empty());
    }
}

#[test]
fn the_reserve_is_for_marks_leaves_removes_and_revokes() {
    let (mut world, anna, bob, group) = pair();
    world.say_up_to(anna, group, 5);
    world.state.set_storage(Storage::Reserve);
    assert_eq!(stands(world.ack(bob, group, 4)), 4);
    assert_eq!(stands(world.answer(Command::ReadMarks { device: bob, entries: vec![(group, m(4))] })), 4);
    let phone = {
        world.state.set_storage(Storage::Open);
        let phone = world.device("bob");
        world.state.set_storage(Storage::Reserve);
        phone
    };
    let revoke = Command::RevokeDevice { by: Actor::Device(bob), device: phone };
    assert!(matches!(world.answer(revoke), Answer::Done(_)));
    assert!(matches!(world.leave(bob, group), Answer::Done(_)));
    world.state.set_storage(Storage::Closed);
    assert_eq!(world.leave(anna, group), Answer::Refused(Refusal::StorageFull));
}

#[test]
fn what_was_decided_before_is_answered_on_the_fullest_disk() {
    let (mut world, anna, _, group) = pair();
    let first = world.answer(send(anna, 1, 1, group, "one"));
    let second = world.answer(send(anna, 2, 1, group, "two"));
    for storage in [Storage::Reserve, Storage::Closed] {
        world.state.set_storage(storage);
        assert_eq!(world.answer(send(anna, 1, 1, group, "one")), first);
        let conflict = world.answer(send(anna, 1, 1, group, "other"));
        assert_eq!(refused(conflict), Refusal::Conflict);
    }
    // The window would move by this; it can wait.
    let again = world.run(send(anna, 2, 2, group, "two"));
    assert_eq!(again.answer, second);
    assert!(again.writes.is_empty());
}

#[test]
fn order_holds_from_the_first_send_that_found_no_room() {
    let (mut world, anna, _, group) = pair();
    world.answer(send(anna, 1, 1, group, "one"));
    for storage in [Storage::Reserve, Storage::Closed] {
        world.state.set_storage(storage);
        for number in 2..=4 {
            assert_eq!(refused(world.answer(send(anna, number, 2, group, "more"))), Refusal::StorageFull);
        }
    }
    world.state.set_storage(Storage::Open);
    for number in [4, 3] {
        assert_eq!(refused(world.answer(send(anna, number, 2, group, "more"))), Refusal::OutOfTurn);
    }
    let msgids: Vec<u64> = (2..=4).map(|number| sent(&world.answer(send(anna, number, 2, group, "more")))).collect();
    assert_eq!(msgids, [4, 5, 6]);
}

#[test]
fn the_first_invite_of_a_start_is_made_on_a_full_disk() {
    let mut world = World::new();
    world.state.set_storage(Storage::Closed);
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    assert_eq!(world.answer(Command::RenewFirstInvite { code, expires_ms }), Answer::Invited { expires_ms });
}
