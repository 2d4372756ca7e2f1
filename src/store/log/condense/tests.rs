//! Condensing beside commits, crashes and failures, against a model that is only a map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::disk::simulated::SimulatedDisk;
use crate::disk::{Disk as _, SharedDisk};
use crate::store::engine::Op;
use crate::store::error::StoreErrorClass;
use crate::store::format::StoreId;
use crate::store::log::segment::path_of;
use crate::store::log::survey::{LogOptions, survey};
use crate::store::log::walk::{Met, walk};
use crate::store::log::{LogWriter, create};
use crate::store::tree::Tree;

const FOLDER: &str = "/log";
const STORE: StoreId = StoreId::new([5; 16]);
const SMALL: u64 = 512;

type Rows = BTreeMap<Bytes, Bytes>;

fn op(key: u8, value: Option<&[u8]>) -> Op {
    Op { tree: Tree::Meta, key: Bytes::copy_from_slice(&[key]), value: value.map(Bytes::copy_from_slice) }
}

fn apply(rows: &mut Rows, ops: &[Op]) {
    for op in ops {
        match &op.value {
            Some(value) => rows.insert(op.key.clone(), value.clone()),
            None => rows.remove(&op.key),
        };
    }
}

/// A log, what must be in it, and who condenses it.
struct Scene {
    disk: SimulatedDisk,
    writer: LogWriter,
    condenser: Condenser,
    /// What whoever opens the log in this process knows of its names.
    names_in_doubt: NamesInDoubt,
    /// Up to where an index would hold it durably.
    flushed: Arc<AtomicU64>,
    segment_bytes: u64,
    /// The rows after each frame.
    states: Vec<Rows>,
}

fn opened(
    disk: &SimulatedDisk,
    flushed: &Arc<AtomicU64>,
    segment_bytes: u64,
    names_in_doubt: &NamesInDoubt,
) -> Result<(LogWriter, Condenser), StoreError> {
    let shared: SharedDisk = Arc::new(disk.clone());
    let options = LogOptions {
        store: STORE,
        segment_bytes,
        flushed: Lsn::new(flushed.load(Ordering::Relaxed)),
        segments_checked: 2,
    };
    let writer = survey(&shared, Path::new(FOLDER), options, &mut |_, _| {})?.settle()?.writer()?;
    let limit = Arc::clone(flushed);
    let limit = Box::new(move || Lsn::new(limit.load(Ordering::Relaxed)));
    let condenser = writer.condenser(limit, names_in_doubt.clone()).with_keys_max(5);
    Ok((writer, condenser))
}

impl Scene {
    fn new() -> Scene {
        Scene::of(SMALL)
    }

    fn of(segment_bytes: u64) -> Scene {
        let (disk, flushed) = (SimulatedDisk::new(), Arc::new(AtomicU64::new(0)));
        create(&disk, Path::new(FOLDER), STORE, segment_bytes).unwrap();
        let names_in_doubt = NamesInDoubt::default();
        let (writer, condenser) = opened(&disk, &flushed, segment_bytes, &names_in_doubt).unwrap();
        Scene { disk, writer, condenser, names_in_doubt, flushed, segment_bytes, states: vec![Rows::new()] }
    }

    fn commit(&mut self, ops: &[Op]) {
        self.writer.append(ops).unwrap();
        self.writer.sync().unwrap();
        let mut rows = self.states.last().unwrap().clone();
        apply(&mut rows, ops);
        self.states.push(rows);
    }

    fn flush(&self) {
        self.flushed.store(self.writer.synced().value(), Ordering::Relaxed);
    }

    /// Writes these rows again and again until so many more segments are sealed, and flushed.
    fn seal(&mut self, segments: u64, keys: std::ops::Range<u8>) {
        let before = self.writer_number();
        while self.writer_number() < before + segments {
            keys.clone().for_each(|key| self.commit(&[op(key, Some(&[key; 40]))]));
        }
        self.flush();
    }

    fn condense(&mut self) {
        while self.condenser.is_due() {
            self.condenser.step().unwrap();
        }
        assert!(!self.condenser.step().unwrap());
    }

    /// Opens the log anew in the same process.
    fn reopen(&mut self) {
        let opened = opened(&self.disk, &self.flushed, self.segment_bytes, &self.names_in_doubt);
        (self.writer, self.condenser) = opened.unwrap();
        assert_eq!(self.writer.last().value(), self.states.len() as u64 - 1);
    }

    /// The power goes, which says what is there, and comes back.
    fn crash(&mut self, seed: u64) {
        self.disk = self.disk.crash(seed);
        self.names_in_doubt = NamesInDoubt::default();
        self.reopen();
    }

    /// Who reads from the beginning, and who reads from the last flush on, come to the same rows; and nothing is wrong.
    fn check(&self) {
        let flushed = self.flushed.load(Ordering::Relaxed);
        for after in [0, flushed, (flushed + self.writer.last().value()) / 2] {
            let mut rows = self.states[usize::try_from(after).unwrap()].clone();
            let mut last = after;
            self.replay(after, &mut |lsn, ops| {
                assert!(lsn > last);
                last = lsn;
                apply(&mut rows, ops);
            });
            assert_eq!(last, self.writer.last().value());
            assert!(&rows == self.states.last().unwrap(), "rows read from {after} on are others");
        }
        let mut rows = Rows::new();
        let walked = walk(&self.disk, Path::new(FOLDER), STORE, &mut |met| match met {
            Met::Frame(frame) => apply(&mut rows, &frame.ops),
            Met::Fault(place) => panic!("{}: {}", place.path.display(), place.what),
            Met::Segment { .. } | Met::Remark(_) => {}
        });
        assert!(walked.last == self.writer.last() && &rows == self.states.last().unwrap());
        let on_disk = |number| self.disk.open(&path_of(Path::new(FOLDER), number)).unwrap().len().unwrap();
        assert_eq!((1..=self.writer_number()).map(on_disk).sum::<u64>(), self.writer.disk_bytes());
    }

    fn writer_number(&self) -> u64 {
        self.condenser.ahead.current.load(Ordering::Relaxed)
    }

    fn replay(&self, after: u64, each: &mut dyn FnMut(u64, &[Op])) {
        let shared: SharedDisk = Arc::new(self.disk.clone());
        let options = LogOptions { store: STORE, segment_bytes: SMALL, flushed: Lsn::ZERO, segments_checked: 2 };
        let settled = survey(&shared, Path::new(FOLDER), options, &mut |_, _| {}).unwrap().settle().unwrap();
        settled
            .replay(Lsn::new(after), &mut |frame, _, _| {
                each(frame.lsn.value(), &frame.ops);
                Ok(())
            })
            .unwrap();
    }

    fn ops(&self) -> Vec<Op> {
        let mut all = Vec::new();
        self.replay(0, &mut |_, ops| all.extend_from_slice(ops));
        all
    }
}

#[derive(Debug, Clone)]
enum Act {
    Commit(Vec<(u8, Option<Vec<u8>>)>),
    Step,
    Flush,
    Wipe,
    Reopen,
    Crash(u64),
    FailingStep { writes: bool, after: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let ops = proptest::collection::vec(
        (0_u8..12, proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60))),
        0..6,
    );
    prop_oneof![
        8 => ops.prop_map(Act::Commit),
        12 => Just(Act::Step),
        3 => Just(Act::Flush),
        1 => Just(Act::Wipe),
        1 => Just(Act::Reopen),
        1 => any::<u64>().prop_map(Act::Crash),
        1 => (any::<bool>(), 0_u64..3).prop_map(|(writes, after)| Act::FailingStep { writes, after }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_log_says_the_same_however_it_was_condensed_and_wherever_that_crashed(
        acts in proptest::collection::vec(act(), 1..250),
    ) {
        let mut scene = Scene::new();
        for act in acts {
            match act {
                Act::Commit(ops) => {
                    let ops: Vec<Op> = ops.iter().map(|(key, value)| op(*key, value.as_deref())).collect();
                    scene.commit(&ops);
                }
                Act::Step => {
                    let is_due = scene.condenser.is_due();
                    prop_assert!(!scene.condenser.step().unwrap() || is_due);
                }
                Act::Flush => scene.flush(),
                Act::Wipe => scene.writer.wipe().unwrap(),
                Act::Reopen => scene.reopen(),
                Act::Crash(seed) => scene.crash(seed),
                Act::FailingStep { writes, after } => {
                    let fail = if writes { SimulatedDisk::fail_writes_after } else { SimulatedDisk::fail_syncs_after };
                    fail(&scene.disk, after, 1, "log");
                    let failed = scene.condenser.step().is_err();
                    scene.disk.fail_writes(0, "log");
                    scene.disk.fail_syncs(0, "log");
                    if failed {
                        scene.check();
                    }
                }
            }
        }
        scene.check();
        scene.flush();
        scene.writer.wipe().unwrap();
        scene.condense();
        scene.check();
        let live = scene.states.last().unwrap();
        let puts: Rows = scene.ops().into_iter().filter_map(|op| Some((op.key, op.value?))).collect();
        prop_assert!(&puts == live);
        prop_assert_eq!(scene.ops().iter().filter(|op| op.value.is_some()).count(), live.len());
    }
}

#[test]
fn after_a_wipe_no_byte_of_what_is_dead_is_in_the_log() {
    let secret = b"what was said and taken back";
    let mut scene = Scene::new();
    let noise = |number: u64| op(200, Some(&number.to_be_bytes().repeat(9)));
    for number in 0..20 {
        scene.commit(&[noise(number), op(100 + u8::try_from(number).unwrap(), Some(&number.to_be_bytes()))]);
    }
    scene.commit(&[op(7, Some(secret))]);
    (20..40).for_each(|number| scene.commit(&[noise(number)]));
    scene.flush();
    scene.condense();
    assert!(scene.ops().iter().any(|op| op.value.as_deref() == Some(secret)));
    scene.commit(&[op(7, Some(b""))]);
    scene.writer.wipe().unwrap();
    scene.condense();
    // The index would still begin before it.
    assert!(scene.ops().iter().any(|op| op.value.as_deref() == Some(secret)));
    scene.flush();
    scene.condense();
    scene.check();
    assert!(!scene.ops().iter().any(|op| op.value.as_deref() == Some(secret)));
    // Nor is there a byte of it in a place where no frame stands: every file is as long as what is packed in it, or live.
    for name in scene.disk.list(Path::new(FOLDER)).unwrap() {
        let file = scene.disk.open(&Path::new(FOLDER).join(name)).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}

#[test]
fn a_remove_outlives_every_earlier_put_of_its_key() {
    // A put in a segment that holds too little that is dead to be written anew, and its remove in another.
    let mut scene = Scene::new();
    scene.commit(&[op(1, Some(b"x")), op(2, Some(&[7; 300]))]);
    scene.commit(&[op(3, Some(&[8; 300]))]);
    scene.commit(&[op(1, None), op(4, Some(&[9; 300]))]);
    (5..9).for_each(|key| scene.commit(&[op(key, Some(&[key; 300]))]));
    scene.flush();
    scene.condense();
    let removes = |scene: &Scene| scene.ops().iter().filter(|op| op.value.is_none()).count();
    assert_eq!(removes(&scene), 1);
    scene.check();
    scene.writer.wipe().unwrap();
    scene.condense();
    scene.check();
    assert!(!scene.ops().iter().any(|op| op.value.as_deref() == Some(b"x")));
}

#[test]
fn damage_in_a_condensed_segment_is_named_by_who_reads_it_and_nothing_is_touched() {
    let mut scene = Scene::new();
    (0..60).for_each(|number: u8| scene.commit(&[op(number, Some(&[number; 40]))]));
    scene.flush();
    scene.condense();
    let path = path_of(Path::new(FOLDER), 2);
    let length = scene.disk.open(&path).unwrap().len().unwrap();
    for at in [20, 60, 66, 75, 90, length - 1] {
        let mut byte = [0];
        let mut file = scene.disk.open(&path).unwrap();
        file.read_at(at, &mut byte).unwrap();
        file.write_at(at, &[byte[0] ^ 4]).unwrap();
        let shared: SharedDisk = Arc::new(scene.disk.clone());
        let options =
            LogOptions { store: STORE, segment_bytes: SMALL, flushed: Lsn::ZERO, segments_checked: usize::MAX };
        let error = survey(&shared, Path::new(FOLDER), options, &mut |_, _| {}).err().unwrap();
        assert!(error.class() == StoreErrorClass::Damaged && error.to_string().contains("00000002.log"), "{error}");
        let mut faults = Vec::new();
        walk(&scene.disk, Path::new(FOLDER), STORE, &mut |met| {
            if let Met::Fault(place) = met {
                faults.push(place.path);
            }
        });
        assert!(faults.contains(&path), "{faults:?}");
        file.write_at(at, &byte).unwrap();
    }
    scene.check();
    // The log never ends with a condensed segment.
    for number in scene.writer_number().. {
        let behind = path_of(Path::new(FOLDER), number);
        if !scene.disk.exists(&behind).unwrap() {
            break;
        }
        scene.disk.remove(&behind).unwrap();
    }
    let opened = opened(&scene.disk, &Arc::new(AtomicU64::new(0)), SMALL, &NamesInDoubt::default());
    let error = opened.err().unwrap();
    assert!(error.to_string().contains("the segment that followed it is missing"), "{error}");
}

#[test]
fn no_put_comes_back_whose_remove_went_whichever_sync_fails_and_whatever_a_power_loss_takes() {
    for (after, seed) in (0..25).flat_map(|after| (0..12).map(move |seed| (after, seed))) {
        let mut scene = Scene::new();
        (0..8).for_each(|key| scene.commit(&[op(key, Some(&[key; 90]))]));
        (0..8).for_each(|key| scene.commit(&[op(key, None), op(20 + key, Some(&[key; 90]))]));
        (0..8).for_each(|key| scene.commit(&[op(40 + key, Some(&[key; 90]))]));
        scene.flush();
        scene.disk.fail_syncs_after(after, 1, "log");
        let mut failures = 0;
        while scene.condenser.is_due() {
            failures += usize::from(scene.condenser.step().is_err());
        }
        assert!(failures <= 1);
        scene.disk.fail_syncs(0, "log");
        scene.check();
        scene.crash(seed);
        scene.check();
    }
}

#[test]
fn no_put_comes_back_whose_remove_went_once_the_log_was_opened_anew_after_a_failed_sync() {
    for (after, seed) in (0..25).flat_map(|after| (0..12).map(move |seed| (after, seed))) {
        let mut scene = Scene::new();
        (0..8).for_each(|key| scene.commit(&[op(key, Some(&[key; 90]))]));
        (0..40).for_each(|number| scene.commit(&[op(number % 8, None)]));
        (0..8).for_each(|key| scene.commit(&[op(40 + key, Some(&[key; 90]))]));
        scene.flush();
        scene.disk.fail_syncs_after(after, 1, "log");
        while scene.condenser.is_due() && scene.condenser.step().is_ok() {}
        scene.disk.fail_syncs(0, "log");
        scene.reopen();
        scene.writer.wipe().unwrap();
        scene.condense();
        scene.check();
        scene.crash(seed);
        scene.check();
    }
}

fn bytes_of(disk: &SimulatedDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_sealed_segment_that_is_not_as_it_was_written_is_named_and_never_replaced() {
    let mut scene = Scene::new();
    (0..20).for_each(|number: u8| scene.commit(&[op(number, Some(&[number; 40]))]));
    scene.flush();
    while scene.condenser.look().unwrap() {}
    let path = path_of(Path::new(FOLDER), 1);
    let whole = bytes_of(&scene.disk, &path);
    let nonce = scene.condenser.segments[0].nonce;
    let frames: Vec<usize> =
        frame::frames(&whole[SEGMENT_HEAD_BYTES..], nonce).map(|parsed| parsed.bytes.len()).collect();
    let end = SEGMENT_HEAD_BYTES + frames.iter().sum::<usize>();
    let last_at = end - frames.last().unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    let in_second = SEGMENT_HEAD_BYTES + frames[0] + 50;
    let mut without_last = whole.clone();
    without_last[last_at..end].fill(0);
    let mut without_any = whole.clone();
    without_any[SEGMENT_HEAD_BYTES..].fill(0);
    // An operation of a kind that nobody has written yet, in a frame that is right otherwise.
    let mut unknown = whole.clone();
    let mut built = Vec::new();
    let parsed = frame::parse(&whole[last_at..], nonce).unwrap();
    let ops = [parsed.ops_bytes(), &[1, 7, 0]].concat();
    assert!(frame::build_of_bytes(&mut built, parsed.head, &ops) && last_at + built.len() < unknown.len());
    unknown[last_at..last_at + built.len()].copy_from_slice(&built);
    for bytes in
        [flipped(SEGMENT_HEAD_BYTES + 50), flipped(in_second), flipped(end), without_last, without_any, unknown]
    {
        scene.disk.open(&path).unwrap().write_at(0, &bytes).unwrap();
        assert!(scene.condenser.is_due());
        let error = scene.condenser.step().unwrap_err();
        assert!(error.class() == StoreErrorClass::Damaged && error.to_string().contains("00000001.log"), "{error}");
        assert!(bytes_of(&scene.disk, &path) == bytes, "{error}");
    }
    scene.disk.open(&path).unwrap().write_at(0, &whole).unwrap();
    scene.condense();
    scene.check();
}

#[test]
fn an_operation_that_is_unknown_in_a_condensed_segment_is_named_and_the_segment_never_replaced() {
    let mut scene = Scene::new();
    (0..20).for_each(|number: u8| scene.commit(&[op(number % 3, Some(&[number; 40]))]));
    scene.flush();
    while scene.condenser.condensed == 0 {
        assert!(scene.condenser.step().unwrap());
    }
    let shared = scene.disk.clone();
    let (segment, image, (first, last)) = scene.condenser.read(0).unwrap();
    let mut built = Vec::new();
    let head = frame::Head { lsn: first, previous: Lsn::ZERO, synced: Lsn::ZERO, nonce: segment.nonce };
    assert!(frame::build_of_bytes(&mut built, head, &[1, 7, 0]));
    let odd = [&image.0[..SEGMENT_HEAD_BYTES], &built].concat();
    let says = Condensed { first, last, ops: 1 };
    let odd = segment.condense(&shared, Path::new(FOLDER), STORE, says, &odd).unwrap();
    odd.take_name(&shared, Path::new(FOLDER)).unwrap();
    let before = bytes_of(&shared, &segment.path);
    scene.writer.wipe().unwrap();
    let error = loop {
        match scene.condenser.step() {
            Ok(worked) => assert!(worked),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("does not know") && error.to_string().contains("00000001.log"), "{error}");
    assert!(bytes_of(&shared, &segment.path) == before);
}

#[test]
fn what_is_sealed_during_a_round_is_compressed_at_once_and_the_round_goes_on() {
    let mut scene = Scene::new();
    scene.seal(3, 0..6);
    while scene.condenser.round.is_none() {
        assert!(scene.condenser.step().unwrap());
    }
    let (condensed, going_over) = (scene.condenser.condensed, scene.condenser.round.as_ref().unwrap().segments());
    scene.seal(3, 0..6);
    while scene.condenser.segments.len() < scene.condenser.sealed() || scene.condenser.condensed < condensed + 3 {
        assert!(scene.condenser.step().unwrap());
        assert_eq!(scene.condenser.round.as_ref().map(Round::segments), Some(going_over), "the round is under way");
    }
    scene.check();
    scene.condense();
    scene.check();
}

#[test]
fn a_round_takes_no_step_for_segments_in_which_nothing_is_left() {
    let mut scene = Scene::new();
    let rounds = |scene: &mut Scene| {
        scene.seal(4, 1..2);
        let mut steps = 0;
        while scene.condenser.step().unwrap() {
            steps += 1;
        }
        steps
    };
    let steps: Vec<u32> = (0..12).map(|_| rounds(&mut scene)).collect();
    let empty = scene.condenser.segments.iter().filter(|it| it.condensed.is_some_and(|says| says.ops == 0)).count();
    assert!(empty > 40, "{empty}");
    assert!(steps.iter().all(|steps| *steps < 20), "{steps:?}");
    scene.check();
}

/// What a segment leaves behind of which every row is dead.
const EMPTY_BYTES: u64 = SEGMENT_HEAD_BYTES as u64 + 20;

/// Scenario 28: however long rows are overwritten and removed, the log stays within a quarter of what is live in it.
#[test]
fn a_log_levels_off_at_what_is_live() {
    let mut scene = Scene::of(4_096);
    for number in 0..1_500_u64 {
        let random = |part: u64| (number * 5 + part).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value: Vec<u8> = (0..5).flat_map(random).collect();
        scene.commit(&[op(u8::try_from(number % 50).unwrap(), Some(&value))]);
        scene.flush();
        if number % 10 == 0 {
            scene.condense();
            // 50 rows of 41 bytes, a quarter more, and the segment that is written to.
            let most = 4_096 + 2 * 50 * 41 + scene.writer_number() * EMPTY_BYTES;
            assert!(scene.writer.disk_bytes() <= most, "{number}: {} {most}", scene.writer.disk_bytes());
        }
    }
    assert!(scene.writer_number() > 30);
}
