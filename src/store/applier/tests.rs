//! The step machine of the applier, on an index that fails as told; time is what the test says.

use std::path::Path;

use super::*;
use crate::disk::simulated::SimulatedDisk;
use crate::disk::{Disk as _, SharedDisk};
use crate::store::engine::{Op, Visit};
use crate::store::faulty::{Fault, FaultyEngine};
use crate::store::flushed::Known;
use crate::store::format::StoreId;
use crate::store::memory::MemoryEngine;
use crate::store::tree::Tree;

const STORE: StoreId = StoreId::new([7; 16]);
const VALUE: &[u8] = &[0; 99];
const IDLE: Duration = Duration::from_secs(5);
const UNRECORDED: Duration = Duration::from_secs(600);
/// Four frames.
const PACE: Pace =
    Pace { checkpoint_bytes: 400, idle: IDLE, unrecorded: UNRECORDED, held_bytes_idle: 1_000, held_bytes_max: 2_000 };

struct World {
    disk: SimulatedDisk,
    engine: Arc<FaultyEngine>,
    applier: Applier,
    start: Instant,
}

fn flushed(disk: &SimulatedDisk) -> Flushed {
    Flushed::read(&(Arc::new(disk.clone()) as SharedDisk), Path::new("/data"), STORE).unwrap()
}

fn frame(lsn: u64) -> Frame {
    let op = Op { tree: Tree::Meta, key: Bytes::from_static(b"k"), value: Some(Bytes::from_static(VALUE)) };
    Frame { lsn: Lsn::new(lsn), ops: vec![op] }
}

impl World {
    fn new() -> World {
        World::of(PACE)
    }

    fn of(pace: Pace) -> World {
        let disk = SimulatedDisk::new();
        disk.create_folder(Path::new("/data")).unwrap();
        let mut record = flushed(&disk);
        record.record(Lsn::ZERO).unwrap();
        let engine = Arc::new(FaultyEngine::new());
        let start = crate::clock::monotonic();
        let door = Arc::clone(&engine) as Arc<dyn Engine>;
        let applier = Applier::new(door, Record::new(Some(record)), pace, start).unwrap();
        World { disk, engine, applier, start }
    }

    fn known(&self) -> Known {
        flushed(&self.disk).known().unwrap()
    }

    fn step(&mut self, lsn: u64, after: Duration) -> Result<Lsn, ApplyError> {
        self.applier.step(&frame(lsn), self.start + after)
    }

    fn due(&self, after: Duration) -> Due {
        self.applier.due(self.start + after)
    }
}

#[test]
fn frames_are_applied_in_order_without_a_gap() {
    let mut world = World::new();
    assert_eq!(world.step(1, Duration::ZERO).unwrap(), Lsn::new(1));
    assert!(matches!(world.step(3, Duration::ZERO), Err(ApplyError::OutOfOrder { .. })));
    assert!(matches!(world.step(1, Duration::ZERO), Err(ApplyError::OutOfOrder { .. })));
    assert_eq!(world.step(2, Duration::ZERO).unwrap(), Lsn::new(2));
    assert_eq!(world.applier.checkpoint(world.start).unwrap().flushed, Lsn::new(2));
}

#[test]
fn after_a_failure_nothing_is_applied_and_nothing_is_due() {
    for fault in [Fault::Apply, Fault::Flush] {
        let mut world = World::new();
        world.engine.set(fault);
        assert!(world.step(1, Duration::ZERO).is_err() || world.applier.checkpoint(world.start).is_err());
        world.engine.heal();
        assert!(world.step(2, Duration::ZERO).is_err());
        assert!(world.applier.checkpoint(world.start).is_err() && world.applier.recycle(world.start).is_err());
        assert_eq!((world.due(IDLE), world.applier.due_at()), (Due::Nothing, None));
        assert_eq!(world.known().lsn, Lsn::ZERO);
    }
}

#[test]
fn a_checkpoint_is_due_after_so_many_bytes_and_recorded_outside_the_index() {
    let mut world = World::new();
    for lsn in 1..=4 {
        assert_eq!(world.due(Duration::ZERO), Due::Nothing);
        world.step(lsn, Duration::ZERO).unwrap();
    }
    assert_eq!(world.due(Duration::ZERO), Due::Checkpoint);
    assert_eq!(world.known().lsn, Lsn::ZERO);
    world.applier.checkpoint(world.start).unwrap();
    assert_eq!(world.known().lsn, Lsn::new(4));
    assert_eq!(world.due(Duration::ZERO), Due::Nothing);
}

#[test]
fn an_idle_index_is_flushed_once() {
    let mut world = World::new();
    assert_eq!((world.due(IDLE), world.applier.due_at()), (Due::Nothing, None));
    let second = Duration::from_secs(1);
    world.step(1, second).unwrap();
    assert_eq!(world.applier.due_at(), Some(world.start + second + IDLE));
    assert_eq!(world.due(IDLE), Due::Nothing);
    assert_eq!(world.due(second + IDLE), Due::Checkpoint);
    world.applier.checkpoint(world.start + second + IDLE).unwrap();
    assert_eq!((world.due(IDLE * 9), world.applier.due_at()), (Due::Nothing, None));
    assert_eq!(world.known().lsn, Lsn::new(1));
}

#[test]
fn what_was_applied_is_recorded_within_ten_minutes_however_steadily_frames_come() {
    let mut world = World::of(Pace { checkpoint_bytes: u64::MAX, ..PACE });
    let between = Duration::from_secs(4);
    let (mut now, mut checkpoints, mut oldest) = (Duration::ZERO, 0, None);
    for lsn in 1..=900 {
        now += between;
        let since = *oldest.get_or_insert(now);
        world.step(lsn, now).unwrap();
        assert!(now - since <= UNRECORDED, "frames wait since {since:?}, and it is {now:?}");
        if world.due(now) == Due::Checkpoint {
            world.applier.checkpoint(world.start + now).unwrap();
            assert_eq!(world.known().lsn, Lsn::new(lsn));
            (checkpoints, oldest) = (checkpoints + 1, None);
        }
    }
    assert_eq!(checkpoints, 5, "no more often than that");
    assert_eq!(world.applier.due_at(), Some(world.start + now + IDLE));
}

#[test]
fn what_is_unrecorded_for_too_long_is_due_then_and_is_put_off_where_there_is_no_room() {
    let mut world = World::of(Pace { checkpoint_bytes: u64::MAX, ..PACE });
    let second = Duration::from_secs(1);
    world.step(1, Duration::ZERO).unwrap();
    world.step(2, UNRECORDED - second).unwrap();
    assert_eq!((world.due(UNRECORDED - second), world.due(UNRECORDED)), (Due::Nothing, Due::Checkpoint));
    assert_eq!(world.applier.due_at(), Some(world.start + UNRECORDED));
    world.applier.postpone(world.start + UNRECORDED);
    assert_eq!(world.applier.due_at(), Some(world.start + UNRECORDED + IDLE));
    world.step(3, UNRECORDED + second).unwrap();
    assert_eq!(world.due(UNRECORDED + IDLE - second), Due::Nothing);
    assert_eq!(world.due(UNRECORDED + IDLE), Due::Checkpoint);
    // A record that cannot be written is put off as well.
    world.disk.fail_syncs(1, "/data");
    assert!(world.applier.checkpoint(world.start + UNRECORDED + IDLE).unwrap().unrecorded.is_some());
    assert_eq!(world.applier.due_at(), Some(world.start + UNRECORDED + 2 * IDLE));
    assert!(world.applier.checkpoint(world.start + UNRECORDED + 2 * IDLE).unwrap().unrecorded.is_none());
    assert_eq!((world.known().lsn, world.applier.due_at()), (Lsn::new(3), None));
}

#[test]
fn what_was_replayed_at_the_start_is_flushed_when_idle() {
    let world = World::new();
    world.engine.apply(Lsn::new(1), &frame(1).ops).unwrap();
    let door = Arc::clone(&world.engine) as Arc<dyn Engine>;
    let applier = Applier::new(door, world.applier.record().clone(), PACE, world.start).unwrap();
    assert_eq!(applier.due(world.start + IDLE), Due::Checkpoint);
}

#[test]
fn a_record_that_cannot_be_written_stays_as_it_was_and_is_written_when_idle() {
    let mut world = World::new();
    world.step(1, Duration::ZERO).unwrap();
    world.disk.fail_syncs(1, "/data");
    let checkpoint = world.applier.checkpoint(world.start).unwrap();
    assert!(checkpoint.unrecorded.is_some());
    assert_eq!((world.due(Duration::ZERO), world.due(IDLE)), (Due::Nothing, Due::Checkpoint));
    assert!(world.applier.checkpoint(world.start + IDLE).unwrap().unrecorded.is_none());
    assert_eq!((world.known().lsn, world.due(IDLE * 9)), (Lsn::new(1), Due::Nothing));
}

#[test]
fn it_is_recycled_when_idle_above_one_bound_and_at_once_above_the_other() {
    let mut world = World::new();
    world.step(1, Duration::ZERO).unwrap();
    world.engine.hold(999);
    assert_eq!(world.due(IDLE), Due::Checkpoint);
    world.engine.hold(1_000);
    assert_eq!((world.due(Duration::ZERO), world.due(IDLE)), (Due::Nothing, Due::Recycling));
    world.engine.hold(2_000);
    assert_eq!(world.due(Duration::ZERO), Due::Recycling);
    world.applier.recycle(world.start).unwrap();
    assert_eq!((world.known().lsn, world.due(IDLE)), (Lsn::new(1), Due::Nothing));
    world.engine.hold(1_000);
    assert_eq!(world.applier.due_at(), Some(world.start + IDLE));
}

/// Opens anew with something missing, and gives nothing back.
struct Forgetful(MemoryEngine);

impl Engine for Forgetful {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.0.get(tree, key)
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        self.0.scan(tree, from, visit)
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        self.0.last_at_or_below(tree, key)
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        self.0.apply(lsn, ops)
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        self.0.applied()
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        self.0.flush()
    }

    fn held_bytes(&self) -> u64 {
        3_000
    }

    fn recycle(&self) -> Result<(), EngineError> {
        let applied = self.applied()?.value();
        self.0.apply(Lsn::new(if applied == 2 { 1 } else { applied }), &[])
    }
}

#[test]
fn an_index_that_comes_back_with_something_else_is_in_doubt() {
    let world = World::new();
    let door = Arc::new(Forgetful(MemoryEngine::new()));
    let mut applier = Applier::new(door, world.applier.record().clone(), PACE, world.start).unwrap();
    applier.step(&frame(1), world.start).unwrap();
    applier.recycle(world.start).unwrap();
    // What could not be given back is no reason to try again at once.
    assert_eq!(applier.due(world.start), Due::Nothing);
    applier.step(&frame(2), world.start).unwrap();
    let (left, found) = (Lsn::new(2), Lsn::new(1));
    let Err(ApplyError::NotTheSame { left: was, found: is }) = applier.recycle(world.start) else {
        panic!("nothing was noticed")
    };
    assert_eq!((was, is), (left, found));
    assert!(applier.step(&frame(3), world.start).is_err());
}

#[test]
fn a_doubt_is_not_taken_back_by_a_checkpoint_that_ends_after_it() {
    let mut world = World::new();
    world.step(1, Duration::ZERO).unwrap();
    world.applier.record().doubt().unwrap();
    world.applier.checkpoint(world.start).unwrap();
    assert_eq!(world.known(), Known { lsn: Lsn::ZERO, files: None, opens: 0, doubt: true });
}

#[test]
fn what_a_checkpoint_takes_follows_what_was_applied_and_where() {
    let mut world = World::new();
    assert_eq!(world.applier.checkpoint_room(), 0);
    let op = |key: &'static [u8]| Op { tree: Tree::Messages, key: Bytes::from_static(key), value: None };
    let ops = vec![op(b"group  1 message 1"), op(b"group  1 message 2"), op(b"group  2 message 1")];
    world.applier.step(&Frame { lsn: Lsn::new(1), ops }, world.start).unwrap();
    assert_eq!(world.applier.checkpoint_room(), 3 * 18 + 2 * limits::LEAF_ROOM_BYTES);
    world.applier.checkpoint(world.start).unwrap();
    assert_eq!(world.applier.checkpoint_room(), 0);
}

#[test]
fn how_the_files_look_is_recorded_of_an_index_that_settled_and_is_not_in_doubt() {
    let mut world = World::new();
    world.step(1, Duration::ZERO).unwrap();
    let record = world.applier.record.clone();
    record.rest(Some(7)).unwrap();
    assert_eq!(world.known(), Known { lsn: Lsn::ZERO, files: None, opens: 0, doubt: false });
    world.applier.finish().unwrap();
    assert_eq!(world.known(), Known { lsn: Lsn::new(1), files: None, opens: 0, doubt: false });
    record.rest(None).unwrap();
    record.rest(Some(7)).unwrap();
    assert_eq!(world.known(), Known { lsn: Lsn::new(1), files: Some(7), opens: 0, doubt: false });
    record.doubt().unwrap();
    record.rest(Some(8)).unwrap();
    assert!(world.known().doubt);
}
