//! A disk that fills up under the writer, and has room again.

use super::*;
use crate::core::command::Refusal;
use crate::limits::{ROOM_CLOSED_BYTES, ROOM_EASE_BYTES, ROOM_FULL_BYTES};
use crate::server::peer::Peer;
use crate::server::room::Watch;

const FULL: Outcome = Outcome::Decided(Answer::Refused(Refusal::StorageFull));

/// A send of a device that waits for no answer.
fn next(device: DeviceId, seq: u64, group: GroupId) -> Command {
    let Command::Send(command) = send(device, seq, group) else { panic!("a send") };
    Command::Send(SendCommand { lowest: ClientSeq::new(seq), ..command })
}

/// The disk has so much room from now on, and somebody has looked.
fn leave(world: &World, bytes: u64) {
    world.disk.set_free_bytes(bytes);
    Watch::new(Arc::clone(&world.room)).step(clock::monotonic());
}

/// A connection that nobody is at the other end of.
struct Nobody;

impl Peer for Nobody {
    fn close(&self, _: Code) {}

    fn tell(&self, _: bytes::Bytes) {}

    fn rtt(&self) -> Duration {
        Duration::ZERO
    }
}

fn session_of(device: DeviceId) -> Session {
    Session::new(1, Some(device), crate::ids::UserId::new(1), Box::new(Nobody), None)
}

fn read_mark(device: DeviceId, group: GroupId, msgid: u64) -> Command {
    Command::ReadMarks { device, entries: vec![(group, MessageId::new(msgid))] }
}

#[test]
fn a_send_without_room_is_refused_before_it_is_decided_and_marks_go_on() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let first = world.ask(send(device, 1, group));
    leave(&world, ROOM_FULL_BYTES - 1);
    let durable = world.view.read().durable;
    world.disk.record();
    assert_eq!(world.ask(send(device, 2, group)), FULL);
    assert_eq!(world.ask(send(device, 3, group)), FULL);
    assert_eq!(world.ask(send(device, 1, group)), first);
    assert_eq!(world.disk.recorded(), []);
    assert_eq!(world.view.read().durable, durable);
    let Outcome::Decided(Answer::Cursors { moved, .. }) = world.ask(read_mark(device, group, 2)) else { panic!() };
    assert_eq!(moved, [(group, MessageId::new(2))]);
    assert_eq!(world.view.read().durable, durable.next());

    leave(&world, ROOM_FULL_BYTES + ROOM_EASE_BYTES);
    assert_eq!(world.ask(send(device, 3, group)), Outcome::Decided(Answer::Refused(Refusal::OutOfTurn)));
    assert_eq!(msgid(&world.ask(send(device, 2, group))), 3);
    assert_eq!(msgid(&world.ask(send(device, 3, group))), 4);
}

#[test]
fn without_any_room_nothing_is_written_and_the_store_stays_open() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    world.ask(send(device, 1, group));
    leave(&world, ROOM_CLOSED_BYTES - 1);
    world.disk.record();
    assert_eq!(world.ask(send(device, 2, group)), FULL);
    assert_eq!(world.ask(read_mark(device, group, 2)), FULL);
    assert_eq!(world.disk.recorded(), []);
    assert!(!world.writer.has_failed());
    leave(&world, u64::MAX / 2);
    assert_eq!(msgid(&world.ask(send(device, 2, group))), 3);
}

/// Another program has taken everything between two looks: the log fails, and comes back by itself.
#[test]
fn a_write_that_found_no_room_closes_the_store_to_growth_until_there_is_some() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let mut sent = 0;
    world.disk.set_free_bytes(0);
    while !world.writer.has_failed() {
        sent += 1;
        assert!(sent < 10_000, "the log takes all that it is given");
        let outcome = world.ask(next(device, sent, group));
        if outcome == Outcome::Failed(Code::OutcomeUnknown) {
            break;
        }
        assert_eq!(msgid(&outcome), sent + 1);
    }
    world.writer.reopen().unwrap();
    // Nobody has looked yet, and still nothing runs into the same wall.
    assert_eq!(world.ask(next(device, sent, group)), FULL);
    assert!(!world.writer.has_failed());
    leave(&world, u64::MAX / 2);
    assert_eq!(msgid(&world.ask(next(device, sent, group))), sent + 1);
    assert_eq!(msgid(&world.ask(next(device, sent + 1, group))), sent + 2);
}

/// Somebody has acked while there was no room, and then the log failed: whoever stops the server now ends the last batch.
#[test]
fn acks_that_waited_for_room_are_not_answered_while_the_store_is_closed() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let session = Arc::new(session_of(device));
    world.room.has_run_out();
    let ack = Command::Ack { device, entries: vec![(group, MessageId::new(1))] };
    let request = Request::new(ack, Reply::to(Recipient::Acks(Arc::clone(&session))));
    world.writer.take(request, NOW);
    world.commit();
    world.writer.close_store();
    leave(&world, u64::MAX / 2);
    world.commit();
    assert!(session.take_control().is_empty());
    world.writer.reopen().unwrap();
    world.commit();
    assert_eq!(session.take_control().len(), 1);
}
