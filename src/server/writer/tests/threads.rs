//! What the writer shares with other threads, under a scheduler that interleaves them in any order: the published view,
//! the overlay, the queue of frames, the segments made ahead, the doubt about the index, and the way of commands. All of
//! it is the real thing, but for an index in memory that others may find half-way through a frame, and a disk that works
//! at once. The channels of other crates are not interleaved within themselves.

use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::future::block_on;

use super::*;
use crate::core::command::Actor;
use crate::ids::{Lsn, UserId};
use crate::proof::time;
use crate::server::doubt::Doubt;
use crate::server::request::Commands;
use crate::store::engine::{Op, Visit};
use crate::store::log::NamesInDoubt;
use crate::store::memory::MemoryEngine;
use crate::store::overlay::Overlay;
use crate::store::tree::Tree;
use crate::sync::scheduled::{self, step};
use crate::sync::{Builder, JoinHandle};

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 80;

/// An index in memory in which each row takes a step of its own. It holds that frames come once and in order, and that
/// the overlay has a frame until it is applied.
#[derive(Default)]
struct Stepwise {
    rows: MemoryEngine,
    overlay: std::sync::OnceLock<Overlay>,
    /// The frame that fails; zero: none.
    fails_at: AtomicU64,
}

impl Engine for Stepwise {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<bytes::Bytes>, EngineError> {
        step();
        self.rows.get(tree, key)
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        step();
        self.rows.scan(tree, from, &mut |key, value| {
            step();
            visit(key, value)
        })
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(bytes::Bytes, bytes::Bytes)>, EngineError> {
        self.rows.last_at_or_below(tree, key)
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        let before = self.rows.applied()?;
        assert_eq!(lsn, before.next(), "a frame comes once and in order");
        if lsn.value() == self.fails_at.load(Ordering::Relaxed) {
            return Err(EngineError::Write("it was told to".to_owned()));
        }
        for op in ops {
            step();
            if let Some(overlay) = self.overlay.get() {
                assert!(overlay.get(op.tree, &op.key, lsn).is_some(), "{lsn} left the overlay before it was applied");
            }
            self.rows.apply(before, std::slice::from_ref(op))?;
        }
        self.rows.apply(lsn, &[])
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        self.rows.applied()
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        step();
        self.rows.applied()
    }
}

/// A server of one user with a group, and the threads beside its writer.
struct Begun {
    world: World,
    engine: Arc<Stepwise>,
    watchdog: Arc<Watchdog>,
    device: DeviceId,
    group: GroupId,
}

/// So many bytes of rows may wait for the index.
fn begun(waiting_bytes_max: usize) -> Begun {
    let engine = Arc::new(Stepwise::default());
    let mut index = IndexOptions::of(Arc::new(Given(engine.clone())));
    index.waiting_bytes_max = waiting_bytes_max;
    // Flushed after each frame: then nothing is due, and who waits for the next frame waits without a timeout.
    index.pace.checkpoint_bytes = 1;
    let watchdog = Watchdog::by_hand();
    let mut world = open_beside(&SimulatedDisk::new(), index, Arc::clone(&watchdog), Arc::new(Threads));
    let (device, group) = world.people();
    drop(engine.overlay.set(world.view.read().overlay.clone()));
    Begun { world, engine, watchdog, device, group }
}

impl Begun {
    /// Commits so many sends from this number on as one batch.
    fn batch(&mut self, from: u64, sends: u64) {
        let take = |seq| self.world.take(send(self.device, seq, self.group));
        let answers: Vec<_> = (from..from + sends).map(take).collect();
        self.world.writer.append(NOW);
        step();
        drop(self.world.writer.settle());
        drop(answers);
    }

    /// Somebody who looks three times while others work.
    fn look(&self, name: &str, mut look: impl FnMut(&View) + Send + 'static) -> JoinHandle<()> {
        let view = Arc::clone(&self.world.view);
        spawn(name, move || (0..3).for_each(|_| look(&view)))
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().name(name.to_owned()).spawn(body).unwrap()
}

/// A clock that stands still, so that a schedule comes to the same each time.
struct Still;

impl Drop for Still {
    fn drop(&mut self) {
        time::release();
    }
}

/// Runs a test under so many schedules of each kind.
fn check(schedules: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    time::set(0, NOW);
    let _still = Still;
    scheduled::check(schedules, test);
}

/// Whether a fault makes a test fail under some schedule.
fn is_caught(wrong: Wrong, test: fn()) -> bool {
    proof::set(Some(wrong));
    let outcome = std::panic::catch_unwind(move || check(SCHEDULES, test));
    proof::set(None);
    outcome.is_err()
}

// ---- the published view -------------------------------------------------------------------------------------------------

fn heads_have_their_rows() {
    let mut begun = begun(usize::MAX);
    let (watchdog, group) = (Arc::clone(&begun.watchdog), begun.group);
    let reader = begun.look("reader", move |view| {
        let head = view.read().tables.head(group);
        let asked = PageAsked {
            user: UserId::new(1),
            group,
            after: MessageId::ZERO,
            items: 100,
            bytes: limits::PAGE_BYTES_MAX,
            gone_alone: false,
        };
        let page = reader::read(view, asked, &watchdog.doubt).unwrap();
        assert!(page.head >= head && page.covered_to == page.head);
        let msgids = page.rows.offered().iter().map(|offered| offered.msgid.value());
        assert!(msgids.eq(1..=page.head.value()));
    });
    (1..=3).for_each(|seq| begun.batch(seq, 1));
    reader.join().unwrap();
    begun.world.writer.finish();
    assert!(!begun.watchdog.doubt.is_raised());
}

#[test]
fn a_reader_never_sees_a_head_without_the_rows_up_to_it() {
    check(SCHEDULES, heads_have_their_rows);
    assert!(is_caught(Wrong::OverlayDroppedEarly, heads_have_their_rows));
}

/// Frames of the first segment that are synced, of those written since the record began.
fn synced(record: &[Operation]) -> u64 {
    let (mut written, mut synced) = (0, 0);
    for operation in record {
        if let Operation::Write { path, .. } = operation
            && path.ends_with("00000001.log")
        {
            written += 1;
        } else if *operation == Operation::Sync("/data/log/00000001.log".into()) {
            synced = written;
        }
    }
    synced
}

fn nothing_is_early() {
    let mut begun = begun(usize::MAX);
    let (disk, before) = (begun.world.disk.clone(), begun.world.view.read().durable);
    disk.record();
    let mut record = Vec::new();
    let reader = begun.look("reader", move |view| {
        let published = view.read();
        record.extend(disk.recorded());
        assert!(published.durable.value() <= before.value() + synced(&record));
    });
    (1..=3).for_each(|seq| begun.batch(seq, 1));
    reader.join().unwrap();
    begun.world.writer.finish();
}

#[test]
fn nothing_is_published_before_its_frame_is_synced() {
    check(SCHEDULES, nothing_is_early);
    assert!(is_caught(Wrong::HeadBeforeDurable, nothing_is_early));
}

fn batches_are_whole() {
    let mut begun = begun(usize::MAX);
    let (device, group) = (begun.device, begun.group);
    let reader = begun.look("reader", move |view| {
        let published = view.read();
        let (head, window) = (published.tables.head(group).value(), published.tables.window(device));
        let rows = (2..=head).filter(|msgid| published.tables.send(device, ClientSeq::new(msgid - 1)).is_some());
        // The group's own item, and batches of two sends, with their numbers and the rows that name them.
        assert!(head % 2 == 1 && window.map_or(0, |window| window.highest.value()) == head - 1);
        assert_eq!(rows.count() as u64, head - 1);
    });
    (0..3).for_each(|batch| begun.batch(1 + 2 * batch, 2));
    reader.join().unwrap();
    begun.world.writer.finish();
}

#[test]
fn a_batch_is_seen_whole_in_one_look_or_not_at_all() {
    check(SCHEDULES, batches_are_whole);
}

fn who_was_removed_looks() {
    let mut begun = begun(usize::MAX);
    let (watchdog, device, group) = (Arc::clone(&begun.watchdog), begun.device, begun.group);
    let bob = Handle::parse("bob").unwrap();
    let (by, code) = (Actor::Device(device), CodeHash([3; 32]));
    begun.world.ask(Command::Invite { by, handle: bob.clone(), group: Some(group), code, expires_ms: NOW + 1_000 });
    let enrol = Command::Enrol { code, key: DeviceKey([4; 32]), handle: None, device_name: "phone".to_owned() };
    begun.world.ask(enrol);
    let reader = begun.look("reader", move |view| {
        let asked = PageAsked {
            user: UserId::new(2),
            group,
            after: MessageId::ZERO,
            items: 100,
            bytes: 1 << 20,
            gone_alone: false,
        };
        let page = reader::read(view, asked, &watchdog.doubt).unwrap();
        let msgids = page.rows.offered().iter().map(|offered| offered.msgid.value());
        // From the join to the item that ended the stay.
        assert!(page.head.value() <= 4 && msgids.eq(2..=page.head.value()));
    });
    begun.batch(1, 1);
    let removed = begun.world.take(Command::RemoveMember { by: device, group, handle: bob });
    begun.batch(2, 1);
    begun.batch(3, 1);
    drop(removed);
    reader.join().unwrap();
    begun.world.writer.finish();
}

#[test]
fn who_was_removed_sees_nothing_above_that_in_any_look() {
    check(SCHEDULES, who_was_removed_looks);
}

// ---- the queue of frames ------------------------------------------------------------------------------------------------

fn frames_are_applied() {
    let mut begun = begun(usize::MAX);
    (1..=3).for_each(|seq| begun.batch(seq, 1));
    begun.world.writer.finish();
    let published = begun.world.view.read();
    assert_eq!(begun.engine.applied().unwrap(), published.durable);
    assert_eq!(published.overlay.rows(), 0);
}

#[test]
fn a_frame_is_applied_once_in_order_and_stays_in_the_overlay_until_then() {
    check(SCHEDULES, frames_are_applied);
    assert!(is_caught(Wrong::OverlayDroppedEarly, frames_are_applied));
}

fn the_queue_is_bounded() {
    let mut begun = begun(1);
    for seq in 1..=4 {
        begun.batch(seq, 1);
        let waiting = begun.world.view.read().durable.value() - begun.engine.applied().unwrap().value();
        assert!(waiting <= 1, "{waiting} frames wait");
    }
    begun.world.writer.finish();
}

#[test]
fn the_writer_waits_where_too_much_waits_and_not_for_ever() {
    check(SCHEDULES, the_queue_is_bounded);
}

/// The index fails at one of the frames, or somebody else raises a doubt meanwhile, or neither.
fn the_writer_ends(fails_at: u64, somebody_doubts: bool) {
    let mut begun = begun(1);
    let before = begun.world.view.read().durable.value();
    begun.engine.fails_at.store(if fails_at > 0 { before + fails_at } else { 0 }, Ordering::Relaxed);
    let watchdog = Arc::clone(&begun.watchdog);
    let other = spawn("other", move || {
        step();
        if somebody_doubts {
            watchdog.doubt.raise(&"a page could not be read");
        }
    });
    (1..=3).for_each(|seq| begun.batch(seq, 1));
    begun.world.writer.finish();
    other.join().unwrap();
    assert_eq!(begun.watchdog.doubt.is_raised(), fails_at > 0 || somebody_doubts);
}

#[test]
fn nobody_waits_for_an_applier_that_has_ended_or_for_an_index_in_doubt() {
    for fails_at in 0..=3 {
        for somebody_doubts in [false, true] {
            check(SCHEDULES / 6, move || the_writer_ends(fails_at, somebody_doubts));
        }
    }
}

// ---- segments made ahead ------------------------------------------------------------------------------------------------

fn segments_are_used_once() {
    let mut begun = begun(usize::MAX);
    for seq in 1..=5 {
        let Command::Send(mut large) = send(begun.device, seq, begun.group) else { return };
        if let Ok(what) = &mut large.what {
            // No two in one segment.
            what.body = bytes::Bytes::from(vec![7; 40_000]);
        }
        begun.world.ask(Command::Send(large));
    }
    begun.world.writer.finish();
    let world = open(&begun.world.disk.kill());
    assert_eq!(world.view.read().tables.head(begun.group).value(), 6);
}

#[test]
fn a_segment_made_ahead_is_used_once_and_none_is_left_out() {
    check(SCHEDULES / 3, segments_are_used_once);
}

// ---- doubt --------------------------------------------------------------------------------------------------------------

/// Two raise one while somebody waits for it.
fn a_doubt_is_told() {
    let doubt = Arc::new(Doubt::none());
    let raising = ["one", "another"].map(|why| {
        let doubt = Arc::clone(&doubt);
        spawn(why, move || doubt.raise(&why))
    });
    let why = block_on(doubt.raised());
    assert!(doubt.is_raised());
    block_on(doubt.recorded());
    raising.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(block_on(doubt.raised()), why);
}

#[test]
fn who_is_told_of_a_doubt_finds_it_raised_and_waits_for_its_record_not_for_ever() {
    check(SCHEDULES, a_doubt_is_told);
}

// ---- commands -----------------------------------------------------------------------------------------------------------

/// Two ask, one answers, and one closes the way at some time.
fn commands_are_answered() {
    let (commands, received) = Commands::new();
    let commands = Arc::new(commands);
    let asking = |device: u32| {
        let commands = Arc::clone(&commands);
        move || {
            let mut is_open = true;
            for seq in 1..=3 {
                let command = send(DeviceId::new(device), seq, GroupId::new(1));
                let outcome = block_on(commands.ask(command));
                let is_decided = matches!(outcome, Outcome::Decided(_));
                assert!(is_decided || outcome == Outcome::Failed(Code::ServerStopping));
                assert!(is_open || !is_decided, "taken after it was refused");
                is_open = is_decided;
            }
        }
    };
    let asking = [spawn("first", asking(1)), spawn("second", asking(2))];
    let closing = Arc::clone(&commands);
    let closing = spawn("closing", move || {
        (0..5).for_each(|_| step());
        closing.close();
    });
    let mut last = BTreeMap::new();
    loop {
        step();
        match received.try_recv() {
            Ok(request) => {
                let (command, reply) = request.open();
                let Command::Send(send) = command else { return };
                assert!(last.insert(send.device, send.seq) < Some(send.seq), "in the order in which one asks");
                reply.give(Outcome::Decided(Answer::Done(None)));
            }
            Err(crossbeam_channel::TryRecvError::Empty) => {}
            Err(crossbeam_channel::TryRecvError::Disconnected) => break,
        }
    }
    asking.into_iter().chain([closing]).for_each(|thread| thread.join().unwrap());
}

#[test]
fn every_command_is_answered_in_order_even_while_the_server_stops() {
    check(SCHEDULES, commands_are_answered);
}

/// Else each try to open a store anew would leave threads behind, which hold the log of the try before.
#[test]
fn where_a_thread_beside_the_writer_does_not_start_those_before_it_have_ended() {
    for may_start in 0..3 {
        let disk = SimulatedDisk::new();
        let (folder, index, beside) =
            (PathBuf::from("/data"), IndexOptions::of(Arc::new(MemoryIndex)), Arc::new(Threads));
        let place = Place {
            disk: Arc::new(disk.clone()),
            folder,
            segment_bytes: SEGMENT_BYTES,
            index,
            beside,
            names_in_doubt: NamesInDoubt::default(),
        };
        let Found { store, tables, applier, .. } = place.open(|_| {}).unwrap();
        let view = Arc::new(View::new(tables, store.engine, store.durable));
        let room = Arc::new(Room::new(Arc::new(disk), PathBuf::from("/data")));
        scheduled::let_start(may_start);
        let open = Open::start(store.log, applier, &view, &Watchdog::by_hand(), &room, &place);
        scheduled::let_start(usize::MAX);
        assert_eq!((open.is_err(), scheduled::running()), (true, 0), "{may_start} start");
    }
}
