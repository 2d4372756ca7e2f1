//! An index beside its log: the same rows, at a place where it can stand, and recorded as such.

use super::scene::*;
use super::*;
use crate::ids::{ClientSeq, DeviceId};
use crate::store::flushed::FLUSHED_NAME;

/// An index that is open already.
struct There(Arc<MemoryEngine>);

impl Index for There {
    fn open(&self, _: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        Ok(Some(self.0.clone()))
    }

    fn begin(&self, _: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        unreachable!("a check makes no index")
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        unreachable!("a check removes nothing")
    }
}

/// An index that can't be opened.
struct Broken;

impl Index for Broken {
    fn open(&self, _: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        Err(EngineError::Open("its metadata is damaged".to_owned()))
    }

    fn begin(&self, _: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        unreachable!("a check makes no index")
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        unreachable!("a check removes nothing")
    }
}

fn flushed(disk: &SimulatedDisk) -> Flushed {
    let store = Format::read(disk, folder()).unwrap().unwrap().store;
    Flushed::read(&(Arc::new(disk.clone()) as SharedDisk), folder(), store).unwrap()
}

/// The folder, its index up to so many of its frames (the seal is the fifth), and that much recorded.
fn folder_and_index(applied: u64) -> (SimulatedDisk, Arc<MemoryEngine>) {
    let disk = folder_of(&frames());
    let engine = Arc::new(MemoryEngine::new());
    for (lsn, ops) in (1..=applied).zip(frames().into_iter().chain([Vec::new()])) {
        engine.apply(Lsn::new(lsn), &ops).unwrap();
    }
    flushed(&disk).record(Lsn::new(applied.min(5))).unwrap();
    (disk, engine)
}

fn beside(disk: &SimulatedDisk, engine: &Arc<MemoryEngine>) -> Told {
    let told = check_with(disk, &options(Arc::new(There(engine.clone())))).unwrap();
    // Whatever is said of many rows at once is said of few at a time.
    for rows_at_once in [1, 3, 7] {
        let options = Options { rows_at_once, ..options(Arc::new(There(engine.clone()))) };
        let again = check_with(disk, &options).unwrap();
        let sorted = |told: &Told| {
            let mut findings = told.findings.clone();
            findings.sort();
            findings
        };
        assert_eq!((sorted(&again), again.verified), (sorted(&told), told.verified), "{rows_at_once}");
    }
    told
}

#[test]
fn an_index_that_holds_what_the_log_says_has_no_finding() {
    let (disk, engine) = folder_and_index(5);
    let told = beside(&disk, &engine);
    assert_eq!(told.verified.index_rows, told.verified.rows.map(|rows| rows.rows));
    assert_eq!(told.clean(), [""; 0]);
}

#[test]
fn frames_that_the_index_lacks_are_a_remark_and_count_among_the_rows() {
    for applied in 1..5 {
        let (disk, engine) = folder_and_index(applied);
        let told = beside(&disk, &engine);
        assert_eq!(told.verified.rows.unwrap().items, 6);
        let behind = 5 - applied;
        let remark =
            format!("/srv/data/index: {behind} frames of the log are not in it yet; the next start replays them");
        assert_eq!(told.clean(), [remark]);
    }
    // It may have applied more than is recorded.
    let (disk, engine) = folder_and_index(3);
    engine.apply(Lsn::new(4), &frames()[3]).unwrap();
    assert_eq!(beside(&disk, &engine).clean().len(), 1);
}

#[test]
fn a_row_that_differs_one_too_many_and_one_too_few_are_each_named() {
    let (disk, engine) = folder_and_index(5);
    let wrong = handle("ada", BOB);
    engine.apply(Lsn::new(5), &[wrong]).unwrap();
    let told = beside(&disk, &engine);
    assert_eq!(told.findings[0], r#"the index holds handles "ada" with another value than frame l1 has put"#);

    let (disk, engine) = folder_and_index(5);
    engine.apply(Lsn::new(5), &[send(ADAS, 1, 3)]).unwrap();
    let told = beside(&disk, &engine);
    assert_eq!(told.findings[0], "the index holds sends d1 s1, which the log does not");

    let (disk, engine) = folder_and_index(5);
    let lost =
        [gone(Tree::Messages, keys::message(G, m(4))), gone(Tree::Cursors, keys::cursor(G, ADA, DeviceId::ZERO))];
    engine.apply(Lsn::new(5), &lost).unwrap();
    let told = beside(&disk, &engine);
    assert_eq!(told.findings[0], "the index lacks cursors g1 u1 read, which frame l2 has put");
    assert_eq!(told.findings[1], "the index lacks messages g1 m4, which frame l3 has put");
    assert!(told.findings.contains(&"g1: m4 is missing below m5".to_owned()), "{:?}", told.findings);
}

#[test]
fn an_index_ahead_of_the_log_or_behind_its_record_is_a_finding_and_the_log_alone_is_checked() {
    let (disk, engine) = folder_and_index(5);
    engine.apply(Lsn::new(6), &[]).unwrap();
    let told = beside(&disk, &engine);
    told.only("/srv/data/index: it holds frames up to l6, but the log ends with l5");
    assert_eq!((told.verified.index_rows, told.verified.rows.unwrap().items), (None, 6));

    let (disk, engine) = folder_and_index(3);
    flushed(&disk).record(Lsn::new(4)).unwrap();
    let told = beside(&disk, &engine);
    told.only(
        "/srv/data/index: it holds frames up to l3, but was flushed up to l4; the next start rebuilds it from the log",
    );
    assert_eq!(told.verified.rows.unwrap().items, 6);
}

#[test]
fn an_index_in_doubt_is_not_opened_and_one_that_does_not_open_is_a_finding() {
    let (disk, _) = folder_and_index(5);
    let broken = || check_with(&disk, &options(Arc::new(Broken))).unwrap();
    broken().only(
        "/srv/data/index: the index does not open: its metadata is damaged; the next start rebuilds it from the log",
    );
    let told = check(&disk);
    told.only("/srv/data/index: it is missing; the next start rebuilds it from the log");
    flushed(&disk).record_opening().unwrap();
    flushed(&disk).record_opening().unwrap();
    assert!(broken().clean()[0].contains("two attempts to open it did not end"));
    flushed(&disk).record_doubt().unwrap();
    assert!(broken().clean()[0].contains("it is recorded as in doubt"));
}

#[test]
fn one_record_that_cannot_be_read_is_a_remark_and_none_a_finding() {
    let (disk, engine) = folder_and_index(5);
    flushed(&disk).record(Lsn::new(5)).unwrap();
    let flip = |place| {
        let mut file = disk.open(&folder().join(FLUSHED_NAME)).unwrap();
        let mut byte = [0];
        file.read_at(place, &mut byte).unwrap();
        file.write_at(place, &[byte[0] ^ 1]).unwrap();
    };
    flip(20);
    assert!(beside(&disk, &engine).clean()[0].starts_with("/srv/data/flushed: one of its two records cannot be read"));
    flip(4096 + 20);
    let told = beside(&disk, &engine);
    told.only(
        "/srv/data/flushed: neither of its two records can be read; the next start rebuilds the index from the log",
    );
}

#[test]
fn deleted_rows_leave_nothing_to_miss() {
    let (disk, engine) = folder_and_index(5);
    let gone_send = keys::send(ADAS, ClientSeq::new(1));
    assert_eq!(engine.get(Tree::Sends, &gone_send).unwrap(), None);
    beside(&disk, &engine).clean();
}
