//! The writer step by step, over the real log on a simulated disk.

use std::path::PathBuf;

use tokio::sync::oneshot;

use super::*;
use crate::core::command::{SendCommand, Sendable};
use crate::core::rows::{Act, CodeHash, DeviceKey, Handle, Policy, SendHash};
use crate::core::state::Settings;
use crate::disk::simulated::{Operation, SimulatedDisk};
use crate::ids::Tag;
use crate::server::beside::{Beside, Threads};
use crate::server::byhand::ByHand;
use crate::server::opening::IndexOptions;
use crate::server::reader::{self, Page, PageAsked};
use crate::store::engine::{Engine, EngineError, Index};
use crate::store::faulty::{Fault, FaultyIndex};
use crate::store::format::StoreId;
use crate::store::index::{self, SledIndex};
use crate::store::log::NamesInDoubt;
use crate::store::memory::MemoryIndex;

mod explaining;
mod keeping;
mod reads;
mod room;
mod said;
mod threads;
mod wrong;

const NOW: u64 = 1_700_000_000_000;
/// Small, so that hundreds of stores are made quickly.
const SEGMENT_BYTES: u64 = 64 * 1024;

/// An index that is this engine, which is empty.
struct Given(Arc<dyn Engine>);

impl Index for Given {
    fn is_kept(&self) -> bool {
        false
    }

    fn open(&self, _store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        Ok(None)
    }

    fn begin(&self, _store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::clone(&self.0))
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

struct World {
    disk: SimulatedDisk,
    view: Arc<View>,
    room: Arc<Room>,
    writer: Writer,
    /// What goes on beside the writer; does nothing where threads do it.
    beside: ByHand,
}

fn open(disk: &SimulatedDisk) -> World {
    open_with(disk, Arc::new(MemoryIndex))
}

fn open_with(disk: &SimulatedDisk, index: Arc<dyn Index>) -> World {
    open_treated(disk, IndexOptions::of(index))
}

fn open_treated(disk: &SimulatedDisk, index: IndexOptions) -> World {
    let beside = ByHand::default();
    let world = open_beside(disk, index, Watchdog::by_hand(), Arc::new(beside.clone()));
    World { beside, ..world }
}

/// The same with threads beside the writer, for claims about them.
fn open_with_threads(disk: &SimulatedDisk, index: IndexOptions) -> World {
    let watchdog = Watchdog::new(index.stall);
    open_beside(disk, index, watchdog, Arc::new(Threads))
}

fn open_beside(disk: &SimulatedDisk, index: IndexOptions, watchdog: Arc<Watchdog>, beside: Arc<dyn Beside>) -> World {
    let (folder, segment_bytes) = (PathBuf::from("/data"), SEGMENT_BYTES);
    let place = Place {
        disk: Arc::new(disk.clone()),
        folder,
        segment_bytes,
        index,
        beside,
        names_in_doubt: NamesInDoubt::default(),
    };
    let Found { store, tables, applier, .. } = place.open(|_| {}).unwrap();
    let view = Arc::new(View::new(tables, store.engine, store.durable));
    let room = Arc::new(Room::new(Arc::new(disk.clone()), PathBuf::from("/data")));
    let open = Open::start(store.log, applier, &view, &watchdog, &room, &place).unwrap();
    let state = State::new(Settings::default());
    let writer = Writer::new(state, open, place, Arc::clone(&view), Arc::clone(&room), watchdog);
    World { disk: disk.clone(), view, room, writer, beside: ByHand::default() }
}

impl World {
    fn take(&mut self, command: Command) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        let request = Request::new(command, Reply::to(Recipient::Local(sender)));
        self.writer.take(request, NOW);
        receiver
    }

    /// Commits, and gives the answers as the dispatcher would.
    fn commit(&mut self) -> Option<BTreeMap<GroupId, Rows>> {
        let batch = self.writer.commit(NOW)?;
        batch.answers.into_iter().for_each(|(reply, outcome)| reply.give(outcome));
        Some(batch.items)
    }

    fn ask(&mut self, command: Command) -> Outcome {
        let mut answer = self.take(command);
        self.commit();
        answer.try_recv().unwrap()
    }

    /// Applies everything that waits to the index.
    fn apply_all(&self) {
        while self.beside.next_frame().is_some() {
            self.beside.apply();
        }
    }

    /// The first user with a device and a group.
    fn people(&mut self) -> (DeviceId, GroupId) {
        let code = CodeHash([1; 32]);
        self.ask(Command::RenewFirstInvite { code, expires_ms: NOW + 1_000 });
        let handle = Some(Handle::parse("alice").unwrap());
        let enrol = Command::Enrol { code, key: DeviceKey([2; 32]), handle, device_name: "laptop".to_owned() };
        let Outcome::Decided(Answer::Enrolled { device, .. }) = self.ask(enrol) else { panic!("not enrolled") };
        let create = Command::CreateGroup { by: device, name: "team".to_owned(), policy: Policy::FromJoin };
        let Outcome::Decided(Answer::GroupCreated(group)) = self.ask(create) else { panic!("no group") };
        (device, group)
    }
}

fn send(device: DeviceId, seq: u64, group: GroupId) -> Command {
    let what = Ok(Sendable {
        kind: crate::wire::item::kind::TEXT,
        tag: Tag::new([7; 8]),
        body: bytes::Bytes::from(format!("text {seq}")),
        act: Act::Says,
        extensions: Vec::new(),
        mentions: Vec::new(),
    });
    let (seq, lowest) = (ClientSeq::new(seq), ClientSeq::new(1));
    Command::Send(SendCommand { device, seq, lowest, group, hash: SendHash([9; 32]), what, attached: None })
}

fn read(world: &World, asked: PageAsked) -> Result<Page, Code> {
    reader::read(&world.view, asked, &world.writer.watchdog.doubt)
}

fn msgid(outcome: &Outcome) -> u64 {
    let Outcome::Decided(Answer::Sent { msgid, .. }) = outcome else { panic!("not sent: {outcome:?}") };
    msgid.value()
}

#[test]
fn a_batch_is_one_write_and_one_sync_and_nothing_is_answered_or_published_before_it() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    world.disk.record();
    let mut answers: Vec<_> = (1..=5).map(|seq| world.take(send(device, seq, group))).collect();
    assert!(answers.iter_mut().all(|answer| answer.try_recv().is_err()));
    assert_eq!(world.view.read().tables.head(group).value(), 1);
    let batch = world.writer.commit(NOW).unwrap();
    world.disk.note("committed");
    let log = |operation: &Operation| match operation {
        Operation::Write { path, .. } | Operation::Sync(path) => path.starts_with("/data/log"),
        Operation::Note(_) => true,
        Operation::Create(_)
        | Operation::SetLen(..)
        | Operation::SyncFolder(_)
        | Operation::Rename(..)
        | Operation::Remove(_) => false,
    };
    let trace: Vec<Operation> = world.disk.recorded().into_iter().filter(log).collect();
    let [Operation::Write { .. }, Operation::Sync(_), Operation::Note(_)] = trace.as_slice() else {
        panic!("not one write, one sync, then the answers: {trace:?}")
    };
    assert_eq!(batch.items[&group].offered().len(), 5);
    assert_eq!(world.view.read().tables.head(group).value(), 6);
    batch.answers.into_iter().for_each(|(reply, outcome)| reply.give(outcome));
    let sent: Vec<u64> = answers.iter_mut().map(|answer| msgid(&answer.try_recv().unwrap())).collect();
    assert_eq!(sent, [2, 3, 4, 5, 6]);
}

#[test]
fn after_a_failed_sync_answers_are_unknown_reads_go_on_and_a_resend_finds_its_place() {
    for crash_seed in 0..20 {
        let mut world = open(&SimulatedDisk::new());
        let (device, group) = world.people();
        let first = world.ask(send(device, 1, group));
        world.disk.fail_syncs(1, "/data/log");
        let mut lost = world.take(send(device, 2, group));
        world.commit();
        assert_eq!(lost.try_recv().unwrap(), Outcome::Failed(Code::OutcomeUnknown));
        assert!(world.writer.has_failed());
        assert_eq!(world.view.read().tables.head(group).value(), 2);
        let mut later = world.take(send(device, 3, group));
        assert_eq!(later.try_recv().unwrap(), Outcome::Failed(Code::OutcomeUnknown));
        if crash_seed > 0 {
            world = open(&world.disk.crash(crash_seed));
        } else {
            world.writer.reopen().unwrap();
            let refused = world.ask(send(device, 3, group));
            assert_eq!(refused, Outcome::Decided(Answer::Refused(crate::core::command::Refusal::OutOfTurn)));
        }
        assert_eq!(world.ask(send(device, 1, group)), first);
        assert_eq!(msgid(&world.ask(send(device, 2, group))), 3);
        assert_eq!(msgid(&world.ask(send(device, 3, group))), 4);
        assert_eq!(world.view.read().tables.head(group).value(), 4);
    }
}

#[test]
fn what_was_to_be_wiped_is_still_to_be_wiped_after_the_store_was_opened_anew() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    world.writer.wipe_due = Some(clock::monotonic());
    world.ask(send(device, 1, group));
    assert!(world.writer.wipe_due.is_none());
    world.disk.fail_syncs(1, "/data/log");
    let _lost = world.take(send(device, 2, group));
    world.commit();
    assert!(world.writer.has_failed());
    world.writer.reopen().unwrap();
    assert!(world.writer.wipe_due.is_some_and(|due| due > clock::monotonic()));
    // One that waits already does not wait longer.
    world.ask(send(device, 2, group));
    let due = clock::monotonic() + Duration::from_secs(1);
    world.writer.wipe_due = Some(due);
    world.disk.fail_syncs(1, "/data/log");
    let _lost = world.take(send(device, 3, group));
    world.commit();
    world.writer.reopen().unwrap();
    assert_eq!(world.writer.wipe_due, Some(due));
}

#[test]
fn what_was_answered_is_there_after_any_power_loss() {
    for seed in 0..50 {
        let mut world = open(&SimulatedDisk::new());
        let (device, group) = world.people();
        let mut answered = Vec::new();
        for number in 1..=seed % 7 {
            answered.push((number, msgid(&world.ask(send(device, number, group)))));
        }
        let _undecided = world.take(send(device, 8, group));
        let mut world = open(&world.disk.crash(seed));
        for (number, before) in answered {
            assert_eq!(msgid(&world.ask(send(device, number, group))), before);
        }
    }
}

#[test]
fn a_batch_of_resends_needs_no_frame() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let before = world.ask(send(device, 1, group));
    let durable = world.view.read().durable;
    assert_eq!(world.ask(send(device, 1, group)), before);
    assert_eq!(world.view.read().durable, durable);
}

#[test]
fn a_dropped_request_answers_that_its_outcome_is_unknown() {
    let (sender, mut receiver) = oneshot::channel();
    let device = DeviceId::new(1);
    drop(Request::new(send(device, 1, GroupId::new(1)), Reply::to(Recipient::Local(sender))));
    assert_eq!(receiver.try_recv().unwrap(), Outcome::Failed(Code::OutcomeUnknown));
}

#[test]
fn a_page_holds_what_is_published_whether_it_is_applied_or_not() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    for seq in 1..=10 {
        world.ask(send(device, seq, group));
    }
    let user = world.view.read().tables.device(device).unwrap().user;
    let asked = |after, items, bytes| PageAsked { user, group, after, items, bytes, gone_alone: false };
    let whole = read(&world, asked(MessageId::ZERO, 100, 1 << 20)).unwrap();
    assert_eq!(whole.rows.offered().len(), 11);
    assert_eq!((whole.covered_to.value(), whole.more), (11, false));
    let some = read(&world, asked(MessageId::new(3), 4, 1 << 20)).unwrap();
    assert_eq!(some.rows.offered().iter().map(|row| row.msgid.value()).collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert_eq!((some.covered_to.value(), some.more), (7, true));
    let one = read(&world, asked(MessageId::new(3), 4, 1)).unwrap();
    assert_eq!((one.rows.offered().len(), one.covered_to.value(), one.more), (1, 4, true));
    let none = read(&world, asked(MessageId::new(11), 4, 100)).unwrap();
    assert_eq!((none.rows.offered().len(), none.covered_to.value(), none.more), (0, 11, false));
    let stranger = PageAsked { user: crate::ids::UserId::new(99), ..asked(MessageId::ZERO, 1, 1) };
    assert_eq!(read(&world, stranger), Err(Code::NoSuchGroup));
}

/// A text with a window of one.
fn send_alone(device: DeviceId, seq: u64, group: GroupId) -> Command {
    let Command::Send(send) = send(device, seq, group) else { panic!("not a send") };
    Command::Send(SendCommand { lowest: send.seq, ..send })
}

/// Whether the next start finds the index as the log ends; stops this one as a server does.
fn replayed_after_a_stop(mut world: World) -> u64 {
    assert!(matches!(world.writer.seal(), Some(Ok(()))));
    let place = world.writer.place.clone();
    world.writer.finish();
    drop(world.view);
    let found = place.open(|_| {}).unwrap();
    assert!(found.store.recovery.sealed && found.store.rebuilt.is_none());
    assert_eq!(found.applier.applied(), found.store.durable);
    found.store.replayed
}

#[test]
fn after_a_clean_stop_the_next_start_replays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sled = SledIndex::new(folder.path(), index::Settings::default());
    let indexes: [Arc<dyn Index>; 2] = [Arc::new(sled), Arc::new(FaultyIndex::default())];
    for index in indexes {
        let mut world = open_with(&SimulatedDisk::new(), index);
        let (device, group) = world.people();
        for seq in 1..=10 {
            world.ask(send(device, seq, group));
        }
        assert_eq!(replayed_after_a_stop(world), 0);
    }
}

#[test]
fn after_a_failed_sync_the_index_stays_open_and_gets_each_frame_once() {
    let index = Arc::new(FaultyIndex::default());
    let mut world = open_with(&SimulatedDisk::new(), index.clone());
    let (device, group) = world.people();
    world.ask(send(device, 1, group));
    world.disk.fail_syncs(1, "/data/log");
    let _lost = world.take(send(device, 2, group));
    world.commit();
    world.writer.reopen().unwrap();
    world.ask(send(device, 2, group));
    world.ask(send(device, 3, group));
    let user = world.view.read().tables.device(device).unwrap().user;
    let asked = PageAsked { user, group, after: MessageId::ZERO, items: 100, bytes: 1 << 20, gone_alone: false };
    assert_eq!(read(&world, asked).unwrap().rows.offered().len(), 4);
    assert_eq!(index.begun(), 1);
    assert!(Arc::ptr_eq(&(index.engine() as Arc<dyn Engine>), &world.view.read().engine));
    assert!(!world.writer.watchdog.doubt.is_raised());
    assert_eq!(replayed_after_a_stop(world), 0);
}

/// How many sends are committed while nothing is applied, until so much waits that commits would wait too. The frame that
/// is being applied counts as one that waits.
fn commits_before_waiting(options: IndexOptions) -> u64 {
    let mut world = open_treated(&SimulatedDisk::new(), options);
    let (device, group) = world.people();
    world.apply_all();
    let mut sent = 0;
    while !world.beside.is_full() {
        sent += 1;
        msgid(&world.ask(send_alone(device, sent, group)));
    }
    sent
}

#[test]
fn commits_go_on_while_the_index_hangs_until_so_many_bytes_wait_and_then_go_on() {
    let index = Arc::new(FaultyIndex::default());
    let options = |index: Arc<FaultyIndex>| IndexOptions { waiting_bytes_max: 100_000, ..IndexOptions::of(index) };
    let expected = commits_before_waiting(options(Arc::default()));
    assert!((30..150).contains(&expected), "{expected} commits beside an index that hangs");
    let mut world = open_with_threads(&SimulatedDisk::new(), options(index.clone()));
    let (device, group) = world.people();
    let view = Arc::clone(&world.view);
    let engine = index.engine();
    while engine.applied().unwrap() < view.read().durable {
        std::thread::yield_now();
    }
    engine.set(Fault::Stall);
    let (told, committed) = std::sync::mpsc::channel();
    let committing = std::thread::spawn(move || {
        for seq in 1..=200 {
            msgid(&world.ask(send_alone(device, seq, group)));
            told.send(seq).unwrap();
        }
        world
    });
    assert_eq!(committed.iter().take(usize::try_from(expected).unwrap()).last(), Some(expected));
    // The one that waits is durable and published already.
    while view.read().tables.head(group).value() < 1 + expected + 1 {
        std::thread::yield_now();
    }
    assert!(committed.recv_timeout(Duration::from_millis(200)).is_err(), "nothing bounds what waits");
    engine.heal();
    let world = committing.join().unwrap();
    assert_eq!(committed.iter().last(), Some(200));
    assert_eq!(replayed_after_a_stop(world), 0);
}
