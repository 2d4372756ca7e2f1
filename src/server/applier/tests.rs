//! The applier's thread, and how it ends.

use super::*;
use crate::disk::SharedDisk;
use crate::disk::simulated::SimulatedDisk;
use crate::ids::Lsn;
use crate::limits;
use crate::server::room::Room;
use crate::store::applier::{Applier, Pace, Record};
use crate::store::engine::{Engine, Op};
use crate::store::faulty::{Fault, FaultyEngine};
use crate::store::flushed::{Flushed, Known};
use crate::store::format::StoreId;
use crate::store::overlay::Overlay;
use crate::store::tree::Tree;

const LONG: Duration = Duration::from_secs(3_600);

struct World {
    disk: SharedDisk,
    simulated: SimulatedDisk,
    engine: Arc<FaultyEngine>,
    watchdog: Arc<Watchdog>,
    frames: Frames,
}

fn frame(lsn: u64) -> Arc<Frame> {
    let op = Op { tree: Tree::Meta, key: "k".into(), value: Some("v".into()) };
    Arc::new(Frame { lsn: Lsn::new(lsn), ops: vec![op] })
}

fn flushed(disk: &SharedDisk) -> Flushed {
    Flushed::read(disk, "/data".as_ref(), StoreId::new([7; 16])).unwrap()
}

impl World {
    /// The record stands at zero; two frames may wait.
    fn new(pace: Pace) -> World {
        let simulated = SimulatedDisk::new();
        let disk: SharedDisk = Arc::new(simulated.clone());
        disk.create_folder("/data".as_ref()).unwrap();
        let mut record = flushed(&disk);
        record.record(Lsn::ZERO).unwrap();
        let record = Record::new(Some(record));
        let (engine, watchdog) = (Arc::new(FaultyEngine::new()), Watchdog::new(LONG));
        let room = Arc::new(Room::new(Arc::clone(&disk), "/data".into()));
        let door = Arc::clone(&engine) as Arc<dyn Engine>;
        let applier = Applier::new(door, record, pace, clock::monotonic()).unwrap();
        let applying = Applying::new(applier, Overlay::new(), &room, &watchdog);
        let frames = Frames::start(applying, 2 * weight(&frame(1))).unwrap();
        World { disk, simulated, engine, watchdog, frames }
    }

    fn known(&self) -> Known {
        flushed(&self.disk).known().unwrap()
    }
}

#[test]
fn it_ends_with_everything_applied_and_only_if_told_so_flushed_and_recorded() {
    for (end, recorded) in [(End::Applied, 0), (End::Flushed, 9)] {
        let World { disk, engine, watchdog, frames, .. } = World::new(Pace { idle: LONG, ..Pace::default() });
        for lsn in 1..=9 {
            frames.push(frame(lsn));
        }
        frames.finish(end);
        assert_eq!(engine.applied().unwrap(), Lsn::new(9));
        assert_eq!(flushed(&disk).known().unwrap().lsn, Lsn::new(recorded));
        assert!(!watchdog.doubt.is_raised());
    }
}

#[tokio::test]
async fn an_idle_index_is_flushed_and_recycled_without_being_asked() {
    // That it is done at all is seen where it fails.
    let idle = Duration::from_millis(1);
    let world = World::new(Pace { idle, ..Pace::default() });
    world.engine.set(Fault::Flush);
    world.frames.push(frame(1));
    assert_eq!(world.watchdog.doubt.raised().await, "the index cannot be written: it was told to");
    world.watchdog.doubt.recorded().await;
    assert_eq!(world.known(), Known { lsn: Lsn::ZERO, files: None, opens: 0, doubt: true });

    let world = World::new(Pace { idle, held_bytes_idle: 10, ..Pace::default() });
    world.engine.hold(10);
    world.frames.push(frame(1));
    let World { engine, frames, .. } = world;
    while engine.held_bytes() > 0 {
        tokio::task::yield_now().await;
    }
    frames.finish(End::Flushed);
}

#[tokio::test]
async fn nobody_waits_for_an_index_in_doubt() {
    let World { disk, engine, watchdog, frames, .. } = World::new(Pace::default());
    engine.set(Fault::Stall);
    for lsn in 1..=2 {
        frames.push(frame(lsn));
    }
    let (told, handed) = std::sync::mpsc::channel();
    let pushing = std::thread::spawn(move || {
        frames.push(frame(3));
        told.send(()).unwrap();
        frames.finish(End::Flushed);
    });
    assert!(handed.recv_timeout(Duration::from_millis(200)).is_err(), "nothing bounds what waits");
    watchdog.doubt.raise(&"a page could not be read");
    watchdog.doubt.raise(&"a second reason, which nobody asks for");
    pushing.join().unwrap();
    assert_eq!(watchdog.doubt.raised().await, "a page could not be read");
    watchdog.doubt.recorded().await;
    // What hung comes back, and takes nothing back.
    engine.heal();
    while engine.applied().unwrap() < Lsn::new(3) {
        tokio::task::yield_now().await;
    }
    assert!(flushed(&disk).known().unwrap().doubt);
}

#[test]
fn without_room_nothing_is_flushed_and_the_index_is_not_in_doubt() {
    let idle = Duration::from_millis(1);
    let World { disk, simulated, engine, watchdog, frames } = World::new(Pace { idle, ..Pace::default() });
    simulated.set_free_bytes(limits::CHECKPOINT_ROOM_BYTES - 1);
    engine.set(Fault::Flush);
    for lsn in 1..=3 {
        frames.push(frame(lsn));
    }
    frames.finish(End::Flushed);
    assert_eq!(engine.applied().unwrap(), Lsn::new(3));
    assert_eq!(flushed(&disk).known().unwrap(), Known { lsn: Lsn::ZERO, files: None, opens: 0, doubt: false });
    assert!(!watchdog.doubt.is_raised());
}
