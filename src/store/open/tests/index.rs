//! What becomes of an index that is kept: opened, brought up to the log, or rebuilt, whatever it was interrupted by.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::store::engine::{EngineError, Visit};
use crate::store::faulty::FaultyEngine;
use crate::store::flushed::Known;

/// What opening the test's index does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    Well,
    WithAnError,
    Never,
}

/// What a machine has of the index, beside its simulated disk.
struct Machine {
    disk: SimulatedDisk,
    current: Option<Arc<FaultyEngine>>,
    has_old: bool,
    opens: Opens,
    /// What recycling forgets: an index that comes back with less.
    forgets: bool,
    old_stays: bool,
}

/// Each step of it changes one byte of the disk, so that it ends where everything ends, at whichever step.
#[derive(Clone)]
struct TestIndex {
    machine: Arc<Mutex<Machine>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    opened: AtomicU64,
    begun: AtomicU64,
    applied: AtomicU64,
    flushed: AtomicU64,
    recycled: AtomicU64,
    rows_read: AtomicU64,
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn one_more(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct TestEngine {
    inner: Arc<FaultyEngine>,
    index: TestIndex,
    held: AtomicU64,
}

impl TestIndex {
    fn new(disk: &SimulatedDisk) -> TestIndex {
        let machine = Machine {
            disk: disk.clone(),
            current: None,
            has_old: false,
            opens: Opens::Well,
            forgets: false,
            old_stays: false,
        };
        let index = TestIndex { machine: Arc::new(Mutex::new(machine)), counts: Arc::default() };
        disk.create_folder(Path::new("/srv")).unwrap();
        disk.create(Path::new("/srv/steps")).unwrap();
        disk.sync_folder(Path::new("/srv")).unwrap();
        index
    }

    /// What is left of it on the disk after a crash that kept so many frames behind the last flush.
    fn crashed(self, disk: &SimulatedDisk, frames_kept: usize) -> TestIndex {
        let mut machine = self.machine.lock().unwrap();
        let remains = machine.current.take().map(|engine| {
            let engine = Arc::try_unwrap(engine).unwrap_or_else(|_| panic!("the store is still open"));
            Arc::new(engine.crash(frames_kept).open().unwrap())
        });
        let (has_old, opens) = (machine.has_old, machine.opens);
        drop(machine);
        let machine =
            Machine { disk: disk.clone(), current: remains, has_old, opens, forgets: false, old_stays: false };
        TestIndex { machine: Arc::new(Mutex::new(machine)), counts: Arc::default() }
    }

    fn opens(&self, how: Opens) {
        self.machine.lock().unwrap().opens = how;
    }

    fn has_old(&self) -> bool {
        self.machine.lock().unwrap().has_old
    }

    fn remove(&self) {
        self.machine.lock().unwrap().current = None;
    }

    /// Takes what another one holds.
    fn replace(&self, other: TestIndex) {
        self.machine.lock().unwrap().current = other.machine.lock().unwrap().current.take();
    }

    fn step(&self, machine: &Machine) -> Result<(), EngineError> {
        let done = machine.disk.open(Path::new("/srv/steps")).and_then(|mut file| file.write_at(0, &[1]));
        done.map_err(|error| EngineError::Write(error.to_string()))
    }

    fn engine(&self, inner: &Arc<FaultyEngine>) -> Arc<dyn Engine> {
        Arc::new(TestEngine { inner: Arc::clone(inner), index: self.clone(), held: AtomicU64::new(0) })
    }
}

impl Index for TestIndex {
    fn open(&self, _store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let machine = self.machine.lock().unwrap();
        one_more(&self.counts.opened);
        self.step(&machine)?;
        match machine.opens {
            Opens::Well => Ok(machine.current.as_ref().map(|engine| self.engine(engine))),
            Opens::WithAnError => Err(EngineError::Open("it was told to".to_owned())),
            Opens::Never => Err(EngineError::Stalled("it was told to".to_owned())),
        }
    }

    fn begin(&self, _store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        let mut machine = self.machine.lock().unwrap();
        one_more(&self.counts.begun);
        self.step(&machine)?;
        machine.has_old |= machine.current.take().is_some();
        self.step(&machine)?;
        let engine = Arc::new(FaultyEngine::new());
        machine.current = Some(Arc::clone(&engine));
        machine.opens = Opens::Well;
        Ok(self.engine(&engine))
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        let mut machine = self.machine.lock().unwrap();
        if machine.has_old && machine.old_stays {
            return Err(EngineError::Write("it stays".to_owned()));
        }
        if machine.has_old {
            self.step(&machine)?;
            machine.has_old = false;
        }
        Ok(())
    }
}

impl Engine for TestEngine {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        one_more(&self.index.counts.rows_read);
        self.inner.get(tree, key)
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        self.inner.scan(tree, from, &mut |key, value| {
            one_more(&self.index.counts.rows_read);
            visit(key, value)
        })
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        one_more(&self.index.counts.rows_read);
        self.inner.last_at_or_below(tree, key)
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        self.index.step(&self.index.machine.lock().unwrap())?;
        one_more(&self.index.counts.applied);
        self.held.fetch_add(100, Ordering::Relaxed);
        self.inner.apply(lsn, ops)
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        self.inner.applied()
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        self.index.step(&self.index.machine.lock().unwrap())?;
        one_more(&self.index.counts.flushed);
        self.inner.flush()
    }

    fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn recycle(&self) -> Result<(), EngineError> {
        let machine = self.index.machine.lock().unwrap();
        self.index.step(&machine)?;
        one_more(&self.index.counts.recycled);
        self.held.store(0, Ordering::Relaxed);
        if machine.forgets {
            self.inner.apply(Lsn::new(1), &[])?;
        }
        Ok(())
    }
}

fn with(index: &TestIndex) -> Options {
    Options { index: Arc::new(index.clone()), ..small() }
}

fn open_with(disk: &SimulatedDisk, index: &TestIndex) -> Result<Opened, StoreError> {
    open(Arc::new(disk.clone()), folder(), with(index))
}

fn message(number: u64) -> Vec<Op> {
    vec![put(Tree::Messages, &number.to_be_bytes(), &[7; 120]), put(Tree::Meta, b"k", &number.to_be_bytes())]
}

/// Commits these messages, one a frame, and applies them.
fn commit(store: &mut Opened, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let lsn = store.log.append(&message(number)).unwrap();
        store.log.sync().unwrap();
        store.engine.apply(lsn, &message(number)).unwrap();
    }
}

fn checkpoint(store: &mut Opened) {
    let lsn = store.engine.flush().unwrap();
    store.flushed.as_mut().unwrap().record(lsn).unwrap();
}

fn stop_cleanly(mut store: Opened) {
    let lsn = store.log.seal().unwrap();
    store.engine.apply(lsn, &[]).unwrap();
    checkpoint(&mut store);
}

fn expected(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<(Tree, Bytes), Bytes> {
    let mut rows = BTreeMap::new();
    numbers.into_iter().for_each(|number| apply(&mut rows, &message(number)));
    rows
}

/// A folder with 30 messages in several segments, of which 20 are flushed; the program was killed.
fn killed() -> (SimulatedDisk, TestIndex) {
    let disk = SimulatedDisk::new();
    let index = TestIndex::new(&disk);
    let mut store = open_with(&disk, &index).unwrap();
    assert!(store.created && store.rebuilt.is_none());
    commit(&mut store, 1..=20);
    checkpoint(&mut store);
    commit(&mut store, 21..=30);
    drop(store);
    let disk = disk.kill();
    let index = index.crashed(&disk, 0);
    (disk, index)
}

fn known(disk: &SimulatedDisk) -> Option<Known> {
    let store = Format::read(disk, folder()).unwrap().unwrap().store;
    Flushed::read(&(Arc::new(disk.clone()) as SharedDisk), folder(), store).unwrap().known()
}

#[test]
fn a_start_after_a_clean_stop_replays_nothing_and_reads_no_row() {
    let (disk, index) = killed();
    stop_cleanly(open_with(&disk, &index).unwrap());
    let disk = disk.kill();
    let index = index.crashed(&disk, 0);
    let store = open_with(&disk, &index).unwrap();
    assert_eq!((store.replayed, store.rebuilt, store.durable), (0, None, Lsn::new(31)));
    let counts = &index.counts;
    assert_eq!([&counts.applied, &counts.flushed, &counts.rows_read, &counts.begun].map(count), [0; 4]);
    assert!(contents(&*store.engine) == expected(1..=30));
}

#[test]
fn a_start_after_a_kill_replays_what_the_index_lacks_and_nothing_else() {
    for kept in [0, 3, 10] {
        let (disk, index) = killed();
        let store = open_with(&disk, &index).unwrap();
        drop(store);
        let index = index.crashed(&disk, kept);
        let store = open_with(&disk, &index).unwrap();
        assert_eq!((store.replayed, store.rebuilt), (10 - kept as u64, None));
        assert_eq!([count(&index.counts.applied), count(&index.counts.begun)], [10 - kept as u64, 0]);
        assert!(contents(&*store.engine) == expected(1..=30));
        assert_eq!(known(&disk).unwrap(), Known { lsn: Lsn::new(20), files: None, opens: 0, doubt: false });
    }
}

/// Each doubt there is: how it comes about, and the words for it.
type Doubt = (&'static str, fn(&SimulatedDisk, &TestIndex));

const DOUBTS: [Doubt; 8] = [
    ("nothing is recorded", |disk, _| disk.remove(&folder().join("flushed")).unwrap()),
    ("nothing is recorded", |disk, _| write(disk, "flushed", &[0; 8192])),
    ("it had failed", |disk, _| flushed(disk).record_doubt().unwrap()),
    ("the last 2 attempts", |disk, _| (0..2).for_each(|_| flushed(disk).record_opening().unwrap())),
    ("it is missing", |_, index| index.remove()),
    ("does not open", |_, index| index.opens(Opens::WithAnError)),
    ("up to l0, though it was recorded as durable up to l20", |disk, index| {
        let empty = TestIndex::new(&SimulatedDisk::new());
        drop(empty.begin(StoreId::new([0; 16])).unwrap());
        index.replace(empty.crashed(disk, 0));
    }),
    ("up to l20, though it was recorded as durable up to l25", |disk, _| flushed(disk).record(Lsn::new(25)).unwrap()),
];

fn flushed(disk: &SimulatedDisk) -> Flushed {
    let store = Format::read(disk, folder()).unwrap().unwrap().store;
    Flushed::read(&(Arc::new(disk.clone()) as SharedDisk), folder(), store).unwrap()
}

#[test]
fn on_every_doubt_the_index_is_rebuilt_from_the_log_and_the_reason_is_told_before() {
    for (words, plant) in DOUBTS {
        let (disk, index) = killed();
        plant(&disk, &index);
        let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let teller = Arc::clone(&told);
        let progress = Box::new(move |progress| teller.lock().unwrap().push(progress));
        let store = open(Arc::new(disk.clone()), folder(), Options { progress, ..with(&index) }).unwrap();
        let reason = store.rebuilt.clone().unwrap();
        assert!(reason.to_string().contains(words), "{words}: {reason}");
        assert!(contents(&*store.engine) == expected(1..=30));
        assert_eq!((store.replayed, index.has_old()), (30, false));
        assert_eq!(known(&disk).unwrap(), Known { lsn: Lsn::new(30), files: None, opens: 0, doubt: false });
        let told = told.lock().unwrap();
        let at = told.iter().position(|told| *told == Progress::Rebuilding(reason.clone())).unwrap();
        assert!(told.iter().skip(at).any(|told| matches!(told, Progress::Filling { .. })));
        assert_eq!(told.last(), Some(&Progress::Rebuilt { messages: 30 }));
        drop(store);
        let index = index.crashed(&disk, 0);
        let store = open_with(&disk, &index).unwrap();
        assert_eq!((store.rebuilt, store.replayed), (None, 0));
    }
}

#[test]
fn a_rebuild_that_was_asked_for_is_done_without_any_doubt() {
    let (disk, index) = killed();
    let options = Options { rebuild: Rebuild::Always, ..with(&index) };
    let store = open(Arc::new(disk), folder(), options).unwrap();
    assert_eq!(store.rebuilt, Some(Reason::Asked));
    assert_eq!([count(&index.counts.opened), count(&index.counts.begun)], [0, 1]);
    assert!(contents(&*store.engine) == expected(1..=30));
}

#[test]
fn an_index_that_hangs_as_it_opens_is_in_doubt_and_rebuilt_at_the_next_start() {
    let (disk, index) = killed();
    index.opens(Opens::Never);
    let error = open_with(&disk, &index).err().unwrap();
    assert_eq!(error.class(), StoreErrorClass::Index, "{error}");
    assert!(known(&disk).unwrap().doubt);
    let store = open_with(&disk, &index).unwrap();
    assert_eq!(store.rebuilt, Some(Reason::InDoubt));
    assert!(contents(&*store.engine) == expected(1..=30));
}

#[test]
fn attempts_to_open_that_ended_without_a_word_are_counted_and_the_third_does_not_touch_the_index() {
    let (mut disk, index) = killed();
    for opens in 1..=2 {
        // The power goes right after the attempt was recorded: at the write of the slot and its sync.
        disk.stop_after(2);
        assert!(open_with(&disk, &index).is_err());
        disk = disk.kill();
        assert_eq!(known(&disk).unwrap().opens, opens);
        index.machine.lock().unwrap().disk = disk.clone();
    }
    let opened = count(&index.counts.opened);
    assert_eq!(open_with(&disk, &index).unwrap().rebuilt, Some(Reason::NeverOpened { opens: 2 }));
    assert_eq!(count(&index.counts.opened), opened);
}

#[test]
fn an_index_or_a_record_ahead_of_the_log_is_damage_to_the_log_however_often_it_is_tried() {
    let ahead: [fn(&SimulatedDisk, &TestIndex); 3] = [
        |disk, _| flushed(disk).record(Lsn::new(31)).unwrap(),
        |disk, _| {
            flushed(disk).record(Lsn::new(31)).unwrap();
            flushed(disk).record_doubt().unwrap();
        },
        |_, index| {
            let machine = index.machine.lock().unwrap();
            let engine = machine.current.as_ref().unwrap();
            engine.apply(Lsn::new(31), &[]).unwrap();
            engine.flush().unwrap();
        },
    ];
    for plant in ahead {
        let (disk, index) = killed();
        plant(&disk, &index);
        let before = everything(&disk);
        for _ in 0..4 {
            let error = open_with(&disk, &index).err().unwrap();
            assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
            assert!(error.to_string().contains(".log") && error.to_string().contains("l31"), "{error}");
        }
        assert_eq!(count(&index.counts.begun), 0);
        let log = |files: BTreeMap<PathBuf, Vec<u8>>| {
            files.into_iter().filter(|(path, _)| path.starts_with("/srv/data/log")).collect::<Vec<_>>()
        };
        assert!(log(before) == log(everything(&disk)));
    }
}

#[test]
fn damage_to_the_log_is_told_before_the_index_or_its_record_is_touched() {
    for doubt in [false, true] {
        let (disk, index) = killed();
        if doubt {
            flushed(&disk).record_doubt().unwrap();
        }
        write(&disk, "log/00000003.log", &[0; 1024]);
        let before = everything(&disk);
        let error = open_with(&disk, &index).err().unwrap();
        assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
        assert!(error.to_string().contains("00000003.log"), "{error}");
        assert!(before == everything(&disk));
        assert_eq!([count(&index.counts.opened), count(&index.counts.begun)], [0, 0]);
    }
}

#[test]
fn memory_is_given_back_at_its_bound_and_what_was_flushed_then_is_recorded() {
    let bound = |index: &TestIndex| Options { held_bytes_max: 350, ..with(index) };
    let (disk, index) = killed();
    let store = open(Arc::new(disk.clone()), folder(), bound(&index)).unwrap();
    assert_eq!([count(&index.counts.recycled), store.replayed], [2, 10]);
    assert_eq!(known(&disk).unwrap().lsn, Lsn::new(28));
    drop(store);

    let options = Options { rebuild: Rebuild::Always, ..bound(&index) };
    let store = open(Arc::new(disk.clone()), folder(), options).unwrap();
    assert_eq!([count(&index.counts.recycled), store.replayed], [9, 30]);
    assert!(contents(&*store.engine) == expected(1..=30));
}

#[test]
fn an_index_that_comes_back_with_less_after_giving_memory_back_is_in_doubt() {
    let (disk, index) = killed();
    index.machine.lock().unwrap().forgets = true;
    let error = open(Arc::new(disk.clone()), folder(), Options { held_bytes_max: 350, ..with(&index) }).err().unwrap();
    assert!(error.class() == StoreErrorClass::Index && error.to_string().contains("l24"), "{error}");
    assert!(known(&disk).unwrap().doubt);
    index.machine.lock().unwrap().forgets = false;
    assert_eq!(open_with(&disk, &index).unwrap().rebuilt, Some(Reason::InDoubt));
}

#[test]
fn an_index_that_is_never_kept_is_filled_at_every_start_without_a_word_and_nothing_is_recorded() {
    let disk = used();
    let before = everything(&disk);
    let store = reopen(&disk).unwrap();
    assert!(store.flushed.is_none() && store.rebuilt.is_none() && store.replayed == 1);
    assert!(before == everything(&disk));
    assert!(!disk.exists(&folder().join("flushed")).unwrap());
}

#[test]
fn where_there_is_too_little_room_a_rebuild_is_not_begun_and_it_says_how_much_is_needed() {
    let (disk, index) = killed();
    flushed(&disk).record_doubt().unwrap();
    disk.set_free_bytes(100);
    let error = open_with(&disk, &index).err().unwrap();
    assert_eq!(error.class(), StoreErrorClass::Full);
    let said = error.to_string();
    assert!(said.contains("needs about 8 MB of free space, and there are 0 MB"), "{said}");
    assert!(!index.has_old() && known(&disk).unwrap().doubt);
    disk.set_free_bytes(crate::limits::OPEN_ROOM_BYTES + (1 << 20));
    let store = open_with(&disk, &index).unwrap();
    assert_eq!(store.rebuilt, Some(Reason::InDoubt));
    assert!(contents(&*store.engine) == expected(1..=30));
}

#[test]
fn an_index_set_aside_that_cannot_be_removed_is_told_and_neither_doubt_nor_the_end() {
    let (disk, index) = killed();
    flushed(&disk).record_doubt().unwrap();
    index.machine.lock().unwrap().old_stays = true;
    for rebuilt in [Some(Reason::InDoubt), None] {
        let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let teller = Arc::clone(&told);
        let progress = Box::new(move |progress| teller.lock().unwrap().push(progress));
        let store = open(Arc::new(disk.clone()), folder(), Options { progress, ..with(&index) }).unwrap();
        assert_eq!(store.rebuilt, rebuilt);
        let stays = Progress::OldStays("the index cannot be written: it stays".to_owned());
        assert!(told.lock().unwrap().contains(&stays) && index.has_old());
    }
}

/// The folder is as it was before the index was kept: no `flushed`, no index.
#[test]
fn a_folder_that_never_had_an_index_gets_one() {
    let disk = used();
    let format = everything(&disk)[&folder().join("FORMAT")].clone();
    let index = TestIndex::new(&disk);
    let store = open_with(&disk, &index).unwrap();
    assert_eq!((store.rebuilt, store.replayed), (Some(Reason::Unrecorded), 1));
    assert_eq!(everything(&disk)[&folder().join("FORMAT")], format);
}

/// The power goes, or the process is killed, at each step of opening: of a rebuild, and of a replay with its memory
/// bound. The next start has everything, and the one after it has no doubt left.
#[test]
fn opening_that_is_interrupted_at_any_step_is_followed_by_a_right_start() {
    let doubts = DOUBTS.iter().map(|(_, plant)| Some(*plant)).chain([None]);
    for (which, doubt) in doubts.enumerate() {
        let mut stop = 0;
        loop {
            let mut went_through = false;
            for seed in 0..4 {
                let (disk, index) = killed();
                if let Some(plant) = doubt {
                    plant(&disk, &index);
                }
                disk.stop_after(stop);
                let options = Options { held_bytes_max: 350, ..with(&index) };
                went_through |= open(Arc::new(disk.clone()), folder(), options).is_ok();
                let disk = if seed == 0 { disk.kill() } else { disk.crash(seed) };
                let index = index.crashed(&disk, usize::try_from(seed).unwrap());
                let store = open_with(&disk, &index).unwrap_or_else(|error| panic!("{which} {stop} {seed}: {error}"));
                assert!(contents(&*store.engine) == expected(1..=30), "{which} {stop} {seed}");
                assert!(!index.has_old());
                stop_cleanly(store);
                let index = index.crashed(&disk, 0);
                let store = open_with(&disk, &index).unwrap();
                assert_eq!((store.rebuilt, store.replayed), (None, 0), "{which} {stop} {seed}");
                assert!(contents(&*store.engine) == expected(1..=30));
            }
            if went_through {
                break;
            }
            stop += 1;
        }
        assert!(stop > 10, "{which} {stop}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Log and index together on a machine whose power goes at any step: what was synced is in the index after every
    /// start, as far as the index was applied before, or not, or less than it should.
    #[test]
    fn an_index_that_is_kept_holds_what_was_synced_after_every_power_loss(lives in lives()) {
        let mut disk = SimulatedDisk::new();
        let mut index = TestIndex::new(&disk);
        let (mut durable, mut maybe) = (BTreeMap::new(), BTreeMap::new());
        for (batches, stop, seed) in lives.iter().map(Some).chain([None]).map(|life| {
            life.map_or((Vec::new(), u64::MAX, 0), Clone::clone)
        }) {
            if stop != u64::MAX {
                disk.stop_after(stop);
            }
            let opened = open(Arc::new(disk.clone()), folder(), Options { held_bytes_max: 250, ..with(&index) });
            prop_assert!(stop != u64::MAX || opened.is_ok());
            if let Ok(mut store) = opened {
                let found = contents(&*store.engine);
                prop_assert!(found == durable || found == maybe);
                durable.clone_from(&found);
                maybe = found;
                for (number, batch) in batches.iter().enumerate() {
                    let ops = ops(batch);
                    apply(&mut maybe, &ops);
                    if store.log.append(&ops).is_err() || store.log.sync().is_err() {
                        break;
                    }
                    durable.clone_from(&maybe);
                    let applied = store.engine.apply(store.log.last(), &ops).is_ok();
                    if applied && number % 3 == 2 && let Ok(lsn) = store.engine.flush() {
                        drop(store.flushed.as_mut().unwrap().record(lsn));
                    }
                    if !applied {
                        break;
                    }
                }
            }
            disk = disk.crash(seed);
            index = index.crashed(&disk, usize::try_from(seed % 4).unwrap());
        }
    }
}
