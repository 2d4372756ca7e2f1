//! The rules of the end of the log, on logs that were written, cut up and made up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::frame::Head;
use super::segment::{SEGMENT_HEAD_BYTES, Segment, path_of};
use super::*;
use crate::disk::simulated::{Operation, SimulatedDisk};
use crate::disk::{SharedDisk, whole};
use crate::store::error::StoreErrorClass;
use crate::store::tree::Tree;

const FOLDER: &str = "/log";
const STORE: StoreId = StoreId::new([5; 16]);
const SMALL: u64 = 512;
const SMALL_BYTES: usize = 512;

/// One put whose value says which frame it is.
fn ops(number: u64, bytes: usize) -> Vec<Op> {
    let value = [number.to_be_bytes().to_vec(), vec![0xee; bytes]].concat();
    vec![Op { tree: Tree::Meta, key: Bytes::from_static(b"k"), value: Some(value.into()) }]
}

fn number(frame: &Frame) -> u64 {
    frame.ops.first().map_or(0, |op| u64::from_be_bytes(op.value.as_ref().unwrap()[..8].try_into().unwrap()))
}

fn new_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    create(&disk, Path::new(FOLDER), STORE, SMALL).unwrap();
    disk
}

struct Reopened {
    writer: LogWriter,
    recovery: Recovery,
    /// The frames handed on; zero for a seal.
    numbers: Vec<u64>,
}

fn options(flushed: u64) -> LogOptions {
    LogOptions { store: STORE, segment_bytes: SMALL, flushed: Lsn::new(flushed), segments_checked: usize::MAX }
}

fn look(disk: &SimulatedDisk, options: LogOptions) -> Result<Survey, StoreError> {
    let shared: SharedDisk = Arc::new(disk.clone());
    survey(&shared, Path::new(FOLDER), options, &mut |_, _| {})
}

fn reopen_flushed(disk: &SimulatedDisk, flushed: u64) -> Result<Reopened, StoreError> {
    let settled = look(disk, options(flushed))?.settle()?;
    let mut numbers = Vec::new();
    let mut last = Lsn::ZERO;
    settled.replay(Lsn::ZERO, &mut |frame, _, _| {
        assert_eq!(frame.lsn, last.next());
        last = frame.lsn;
        numbers.push(number(&frame));
        Ok(())
    })?;
    let recovery = settled.recovery();
    Ok(Reopened { writer: settled.writer()?, recovery, numbers })
}

fn reopen(disk: &SimulatedDisk) -> Result<Reopened, StoreError> {
    reopen_flushed(disk, 0)
}

/// Commits frames with these numbers, of this size.
fn commit(writer: &mut LogWriter, numbers: impl IntoIterator<Item = u64>, bytes: usize) {
    for number in numbers {
        writer.append(&ops(number, bytes)).unwrap();
        writer.sync().unwrap();
    }
}

/// A log of this many committed frames of about 150 bytes, thus two a segment, without a seal.
fn log_of(frames: u64) -> SimulatedDisk {
    let disk = new_disk();
    commit(&mut reopen(&disk).unwrap().writer, 1..=frames, 100);
    disk
}

fn contents(disk: &SimulatedDisk, number: u64) -> Vec<u8> {
    whole::read(disk, &path_of(Path::new(FOLDER), number), usize::MAX).unwrap().unwrap()
}

fn overwrite(disk: &SimulatedDisk, number: u64, offset: usize, bytes: &[u8]) {
    let mut file = disk.open(&path_of(Path::new(FOLDER), number)).unwrap();
    file.write_at(offset as u64, bytes).unwrap();
    file.sync().unwrap();
}

fn everything(disk: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.files(Path::new(FOLDER)).unwrap()
}

/// Opening fails with damage that names this file, and touches nothing.
fn assert_damaged(disk: &SimulatedDisk, file: &str) {
    let before = everything(disk);
    let error = reopen(disk).err().unwrap();
    assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
    assert!(error.to_string().contains(file), "{error}");
    assert!(before == everything(disk), "nothing is touched");
}

/// Where the frames of a segment begin, and where the last one ends.
fn frame_offsets(disk: &SimulatedDisk, number: u64) -> Vec<usize> {
    let bytes = contents(disk, number);
    let mut offsets = vec![SEGMENT_HEAD_BYTES];
    loop {
        let at = *offsets.last().unwrap();
        let length = bytes.get(at..at + 4).map_or(0, |length| u32::from_be_bytes(length.try_into().unwrap()));
        if length == 0 {
            return offsets;
        }
        offsets.push(at + length as usize);
    }
}

fn nonce(disk: &SimulatedDisk, number: u64) -> u64 {
    Segment::read(disk, Path::new(FOLDER), STORE, number, &mut Vec::new()).unwrap().nonce
}

#[test]
fn a_log_is_read_back_in_order_through_all_its_segments() {
    let disk = log_of(9);
    assert_eq!(disk.list(Path::new(FOLDER)).unwrap().len(), 5);
    let again = reopen(&disk).unwrap();
    assert_eq!(again.numbers, (1..=9).collect::<Vec<_>>());
    assert_eq!((again.writer.last(), again.writer.synced()), (Lsn::new(9), Lsn::new(9)));
    assert_eq!(again.recovery, Recovery { frames: 9, rewritten: 1, cut_bytes: 0, sealed: false });
}

#[test]
fn a_clean_stop_leaves_a_seal_and_a_second_one_adds_nothing() {
    let disk = log_of(3);
    let mut log = reopen(&disk).unwrap().writer;
    assert_eq!(log.seal().unwrap(), Lsn::new(4));
    assert_eq!(log.seal().unwrap(), Lsn::new(4));
    let mut again = reopen(&disk).unwrap();
    assert!(again.recovery.sealed);
    assert_eq!(again.writer.seal().unwrap(), Lsn::new(4));
    commit(&mut again.writer, [5], 0);
    assert!(!reopen(&disk).unwrap().recovery.sealed);
    assert_eq!(reopen(&disk).unwrap().numbers, [1, 2, 3, 0, 5]);
}

#[test]
fn a_frame_is_written_with_one_system_call_and_synced_with_one() {
    let disk = new_disk();
    let mut log = reopen(&disk).unwrap().writer;
    let before = disk.counts();
    commit(&mut log, 1..=3, 20);
    let after = disk.counts();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (3, 3));
}

#[test]
fn at_most_one_frame_is_unsynced() {
    let disk = new_disk();
    let mut log = reopen(&disk).unwrap().writer;
    log.append(&ops(1, 0)).unwrap();
    assert!(matches!(log.append(&ops(2, 0)), Err(StoreError::Unsynced { lsn }) if lsn == Lsn::new(1)));
    assert_eq!((log.last(), log.synced()), (Lsn::new(1), Lsn::ZERO));
    assert_eq!(log.sync().unwrap(), Lsn::new(1));
    assert_eq!(log.append(&ops(2, 0)).unwrap(), Lsn::new(2));
}

#[test]
fn a_torn_last_frame_is_cut_and_zeroed_wherever_it_was_torn() {
    for kept in 0..150 {
        let disk = log_of(2);
        let (start, end) = (frame_offsets(&disk, 1)[1], frame_offsets(&disk, 1)[2]);
        let torn = kept.min(end - start - 1);
        overwrite(&disk, 1, start + torn, &vec![0; end - start - torn]);
        let mut again = reopen(&disk).unwrap();
        assert_eq!(again.numbers, [1]);
        assert!(contents(&disk, 1)[start..].iter().all(|byte| *byte == 0));
        commit(&mut again.writer, [7], 30);
        assert_eq!(reopen(&disk).unwrap().numbers, [1, 7]);
    }
}

#[test]
fn a_torn_last_frame_that_opened_a_new_segment_is_cut_and_both_segments_are_used_again() {
    let disk = log_of(3);
    let start = frame_offsets(&disk, 2)[0];
    overwrite(&disk, 2, start + 60, &[0; 90]);
    let mut again = reopen(&disk).unwrap();
    assert_eq!(again.numbers, [1, 2]);
    assert!(again.recovery.cut_bytes > 0);
    commit(&mut again.writer, [3, 4, 5], 60);
    assert_eq!(reopen(&disk).unwrap().numbers, [1, 2, 3, 4, 5]);
    assert_eq!(disk.list(Path::new(FOLDER)).unwrap().len(), 2);
}

#[test]
fn a_bad_frame_with_a_valid_one_behind_it_in_its_segment_is_damage() {
    for index in 0..2 {
        let disk = log_of(2);
        commit(&mut reopen(&disk).unwrap().writer, [3], 0);
        let start = frame_offsets(&disk, 1)[index];
        overwrite(&disk, 1, start + 50, &[1]);
        assert_damaged(&disk, "00000001.log");
    }
}

#[test]
fn a_valid_frame_behind_the_cut_is_found_at_any_offset() {
    // The length of the bad frame is damaged too, so nothing says where the next one begins.
    let disk = log_of(2);
    let start = frame_offsets(&disk, 1)[0];
    overwrite(&disk, 1, start, &[0xff; 20]);
    assert_damaged(&disk, "00000001.log");
}

#[test]
fn a_bad_frame_with_a_valid_one_in_a_later_segment_is_damage() {
    let disk = log_of(9);
    let start = frame_offsets(&disk, 2)[1];
    overwrite(&disk, 2, start + 50, &[1]);
    assert_damaged(&disk, "00000003.log");
    // The same where the whole of what follows in its segment is zeros, as if it had never been written.
    let disk = log_of(9);
    overwrite(&disk, 2, start, &vec![0; SMALL_BYTES - start]);
    assert_damaged(&disk, "00000003.log");
}

#[test]
fn a_zeroed_segment_in_the_middle_is_damage() {
    let disk = log_of(9);
    overwrite(&disk, 3, SEGMENT_HEAD_BYTES, &[0; SMALL_BYTES - SEGMENT_HEAD_BYTES]);
    assert_damaged(&disk, "00000004.log");
}

#[test]
fn a_missing_segment_is_damage_that_names_it() {
    for missing in [1, 3] {
        let disk = log_of(9);
        disk.remove(&path_of(Path::new(FOLDER), missing)).unwrap();
        assert_damaged(&disk, &format!("0000000{missing}.log"));
    }
    let disk = log_of(1);
    disk.remove(&path_of(Path::new(FOLDER), 1)).unwrap();
    assert_damaged(&disk, "00000001.log");
}

#[test]
fn two_segments_that_changed_their_names_are_damage() {
    let disk = log_of(9);
    let path = |number| path_of(Path::new(FOLDER), number);
    disk.rename(&path(2), Path::new("/log/x")).unwrap();
    disk.rename(&path(3), &path(2)).unwrap();
    disk.rename(Path::new("/log/x"), &path(3)).unwrap();
    assert_damaged(&disk, "00000002.log");
}

#[test]
fn a_gap_in_the_lsns_is_damage_though_every_frame_is_valid() {
    let disk = log_of(1);
    let mut frame = Vec::new();
    let end = frame_offsets(&disk, 1)[1];
    for (lsn, previous, synced) in [(3, 2, 1), (2, 0, 1), (1, 0, 0), (2, 1, 2), (3, 1, 1)] {
        let [lsn, previous, synced] = [lsn, previous, synced].map(Lsn::new);
        let head = Head { lsn, previous, synced, nonce: nonce(&disk, 1) };
        assert!(super::frame::build(&mut frame, head, Some(&ops(9, 0))));
        overwrite(&disk, 1, end, &frame);
        assert_damaged(&disk, "00000001.log");
    }
}

#[test]
fn an_operation_of_an_unknown_kind_is_an_error_even_in_the_last_frame() {
    let disk = log_of(1);
    let head = Head { lsn: Lsn::new(2), previous: Lsn::new(1), synced: Lsn::new(1), nonce: nonce(&disk, 1) };
    let mut frame = Vec::new();
    assert!(super::frame::build(&mut frame, head, Some(&ops(9, 0))));
    // Another tree number, and the checksum that belongs to it.
    frame[super::frame::FRAME_HEAD_BYTES] = 200;
    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
    let check = crc32c::crc32c_append(crc32c::crc32c(&length), &frame[8..]);
    frame[4..8].copy_from_slice(&check.to_be_bytes());
    overwrite(&disk, 1, frame_offsets(&disk, 1)[1], &frame);
    assert_damaged(&disk, "00000001.log");
}

#[test]
fn a_frame_of_another_segment_is_no_frame_of_this_one() {
    let disk = log_of(3);
    let offsets = frame_offsets(&disk, 2);
    let foreign = contents(&disk, 2)[offsets[0]..offsets[1]].to_vec();
    overwrite(&disk, 2, offsets[0], &vec![0; foreign.len()]);
    overwrite(&disk, 1, frame_offsets(&disk, 1)[1], &foreign);
    assert_eq!(reopen(&disk).unwrap().numbers, [1]);
}

#[test]
fn a_cut_below_the_recorded_flush_is_damage() {
    let disk = log_of(2);
    let start = frame_offsets(&disk, 1)[1];
    overwrite(&disk, 1, start + 50, &[1]);
    let before = everything(&disk);
    let error = reopen_flushed(&disk, 2).err().unwrap();
    assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
    assert!(before == everything(&disk));
    assert_eq!(reopen_flushed(&disk, 1).unwrap().numbers, [1]);
}

#[test]
fn frames_not_known_to_be_synced_are_written_again_and_synced_before_they_are_handed_on() {
    let disk = log_of(2);
    let (start, end) = (frame_offsets(&disk, 1)[1], frame_offsets(&disk, 1)[2]);
    overwrite(&disk, 1, end + 7, b"torn");
    let frame_before = contents(&disk, 1)[start..end].to_vec();
    disk.record();
    let settled = look(&disk, options(0)).unwrap().settle().unwrap();
    let handed = settled.replay(Lsn::ZERO, &mut |frame, _, _| {
        disk.note(&format!("handed on {}", frame.lsn));
        Ok(())
    });
    assert_eq!(handed.unwrap(), 2);
    let path = path_of(Path::new(FOLDER), 1);
    let write = |offset: usize, bytes: usize| Operation::Write {
        path: path.clone(),
        offset: offset as u64,
        bytes: bytes as u64,
    };
    let expected = [
        Operation::SyncFolder(FOLDER.into()),
        write(start, end - start),
        Operation::Sync(path.clone()),
        write(end, 11),
        Operation::Sync(path.clone()),
        Operation::Note("handed on l1".to_owned()),
        Operation::Note("handed on l2".to_owned()),
    ];
    assert_eq!(disk.recorded(), expected);
    assert_eq!(contents(&disk, 1)[start..end], frame_before);
}

#[test]
fn a_frame_whose_sync_failed_is_durable_after_reopening_whatever_the_disk_had_kept_of_it() {
    for seed in 0..60 {
        let disk = log_of(1);
        let mut log = reopen(&disk).unwrap().writer;
        disk.fail_syncs(1, "log");
        log.append(&ops(2, 100)).unwrap();
        assert!(log.sync().is_err());
        assert!(matches!(log.sync(), Err(StoreError::Latched { .. })));
        assert!(matches!(log.append(&ops(3, 0)), Err(StoreError::Latched { .. })));
        assert!(matches!(log.seal(), Err(StoreError::Latched { .. })));
        assert_eq!(reopen(&disk).unwrap().numbers, [1, 2]);
        let disk = disk.crash(seed);
        assert_eq!(reopen(&disk).unwrap().numbers, [1, 2], "it was served, so it stays");
    }
}

#[test]
fn a_failed_write_latches_and_what_it_left_is_cut() {
    let disk = log_of(1);
    let mut log = reopen(&disk).unwrap().writer;
    disk.fail_writes(1, "log");
    assert!(log.append(&ops(2, 100)).is_err());
    assert!(matches!(log.append(&ops(2, 100)), Err(StoreError::Latched { .. })));
    assert_eq!(log.synced(), Lsn::new(1));
    let mut again = reopen(&disk).unwrap();
    assert_eq!(again.numbers, [1]);
    commit(&mut again.writer, [2], 0);
}

#[test]
fn segments_never_born_are_removed_and_a_prepared_one_is_used() {
    let disk = log_of(1);
    disk.create(Path::new("/log/00000002.new")).unwrap();
    let mut log = reopen(&disk).unwrap().writer;
    assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), ["00000001.log"]);
    let preparer = log.preparer();
    assert!(preparer.wait(Duration::ZERO));
    assert!(preparer.prepare().unwrap());
    assert!(!preparer.prepare().unwrap() && !preparer.wait(Duration::ZERO));
    let before = disk.counts();
    commit(&mut log, [2, 3], 100);
    let after = disk.counts();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (2, 2), "nothing was made on the way");
    assert!(preparer.wait(Duration::ZERO) && preparer.prepare().unwrap());
    drop(log);
    let mut again = reopen(&disk).unwrap();
    assert!(!again.writer.preparer().wait(Duration::ZERO), "the prepared one is still there");
    commit(&mut again.writer, 4..=9, 100);
    assert_eq!(reopen(&disk).unwrap().numbers, (1..=9).collect::<Vec<_>>());
}

#[test]
fn a_commit_waits_for_a_segment_that_is_being_made_instead_of_making_it_twice() {
    let disk = log_of(2);
    let mut log = reopen(&disk).unwrap().writer;
    let preparer = log.preparer();
    disk.hold_syncs("00000002.new");
    let side = std::thread::spawn(move || preparer.prepare().unwrap());
    while !disk.list(Path::new(FOLDER)).unwrap().contains(&"00000002.new".to_owned()) {
        std::thread::yield_now();
    }
    let main = std::thread::spawn(move || commit(&mut log, [3], 100));
    disk.release_syncs();
    assert!(side.join().unwrap());
    main.join().unwrap();
    assert_eq!(reopen(&disk).unwrap().numbers, [1, 2, 3]);
}

#[test]
fn a_failing_preparation_costs_nothing_until_the_segment_is_needed() {
    let disk = log_of(1);
    let mut log = reopen(&disk).unwrap().writer;
    disk.set_free_bytes(100);
    assert!(log.preparer().prepare().is_err());
    commit(&mut log, [2], 100);
    assert_eq!(log.append(&ops(3, 100)).unwrap_err().class(), StoreErrorClass::Full);
    disk.set_free_bytes(1 << 30);
    let mut again = reopen(&disk).unwrap();
    commit(&mut again.writer, [3], 100);
    assert_eq!(reopen(&disk).unwrap().numbers, [1, 2, 3]);
}

#[test]
fn a_frame_larger_than_a_segment_gets_one_of_its_own_size_even_where_a_small_one_was_prepared() {
    let disk = log_of(1);
    let mut log = reopen(&disk).unwrap().writer;
    assert!(log.preparer().prepare().unwrap());
    commit(&mut log, [2], 5000);
    commit(&mut log, [3, 4], 100);
    assert_eq!(reopen(&disk).unwrap().numbers, [1, 2, 3, 4]);
    assert_eq!(disk.list(Path::new(FOLDER)).unwrap().len(), 3);
}

#[test]
fn a_frame_over_the_limit_is_refused_and_the_log_goes_on() {
    let disk = new_disk();
    let mut log = reopen(&disk).unwrap().writer;
    let error = log.append(&ops(1, crate::limits::LOG_FRAME_BYTES_MAX)).unwrap_err();
    assert!(matches!(error, StoreError::FrameTooLarge { .. }));
    commit(&mut log, [1], 0);
}

#[test]
fn files_that_are_no_segments_are_left_alone() {
    let disk = log_of(1);
    disk.create(Path::new("/log/notes.txt")).unwrap();
    reopen(&disk).unwrap();
    assert!(disk.exists(Path::new("/log/notes.txt")).unwrap());
}

#[test]
fn any_flipped_bit_is_damage_that_names_a_file_or_takes_the_last_frame_alone() {
    let disk = log_of(3);
    for segment in 1..=2 {
        let bytes = contents(&disk, segment);
        for index in 0..bytes.len() {
            let bit = 1 << (index % 8);
            overwrite(&disk, segment, index, &[bytes[index] ^ bit]);
            match reopen(&disk) {
                Ok(again) => {
                    // In a region of zeros, or in the last frame: after an unclean stop nobody can tell it from a torn one.
                    let full = again.numbers == [1, 2, 3];
                    assert!(full || (segment == 2 && again.numbers == [1, 2]), "{segment} {index}");
                }
                Err(error) => {
                    assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
                    assert!(error.to_string().contains(".log"), "{error}");
                }
            }
            overwrite(&disk, segment, 0, &bytes);
        }
    }
    assert_eq!(reopen(&disk).unwrap().numbers, [1, 2, 3]);
}

#[test]
fn after_a_clean_stop_no_flipped_bit_takes_a_message() {
    let disk = log_of(3);
    reopen(&disk).unwrap().writer.seal().unwrap();
    for segment in 1..=2 {
        let bytes = contents(&disk, segment);
        for index in 0..bytes.len() {
            overwrite(&disk, segment, index, &[bytes[index] ^ 1]);
            if let Ok(again) = reopen(&disk) {
                assert!(again.numbers.starts_with(&[1, 2, 3]), "{segment} {index}");
            }
            overwrite(&disk, segment, 0, &bytes);
        }
    }
}

#[test]
fn every_truncation_of_every_segment_is_damage_that_names_it() {
    for segment in 1..=2u64 {
        let disk = log_of(3);
        for length in (0..SMALL).rev() {
            disk.open(&path_of(Path::new(FOLDER), segment)).unwrap().set_len(length).unwrap();
            assert_damaged(&disk, &format!("0000000{segment}.log"));
        }
    }
}

/// What a random history does next.
#[derive(Debug, Clone)]
enum Step {
    Commit(usize),
    Append(usize),
    Prepare,
    Seal,
    FailSync,
    FailWrite,
    Kill,
    Crash(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..300).prop_map(Step::Commit),
        2 => (0usize..300).prop_map(Step::Append),
        1 => Just(Step::Prepare),
        1 => Just(Step::Seal),
        1 => Just(Step::FailSync),
        1 => Just(Step::FailWrite),
        1 => Just(Step::Kill),
        3 => any::<u64>().prop_map(Step::Crash),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A log that is used, killed and crashed, beside what it must hold.
struct History {
    disk: SimulatedDisk,
    log: LogWriter,
    /// Frames that were told to be durable.
    durable: Vec<u64>,
    /// A frame that was written, and of which nothing was told.
    open: Option<u64>,
    next: u64,
}

impl History {
    fn append(&mut self, bytes: usize) -> bool {
        // One frame at a time: the writer refuses a second.
        if self.open.is_some() && self.log.sync().is_ok() {
            self.durable.extend(self.open.take());
        }
        if self.open.is_some() {
            return false;
        }
        let number = self.next;
        self.next += 1;
        self.open = Some(number);
        self.log.append(&ops(number, bytes)).is_ok()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Commit(bytes) => {
                if self.append(*bytes) && self.log.sync().is_ok() {
                    self.durable.extend(self.open.take());
                }
            }
            Step::Append(bytes) => {
                self.append(*bytes);
            }
            Step::Prepare => drop(self.log.preparer().prepare()),
            Step::Seal => {
                if self.log.seal().is_ok() {
                    self.durable.extend(self.open.take());
                }
            }
            Step::FailSync => self.disk.fail_syncs(1, "log"),
            Step::FailWrite => self.disk.fail_writes(1, "log"),
            Step::Kill => self.reopen(self.disk.kill()),
            Step::Crash(seed) => self.reopen(self.disk.crash(*seed)),
        }
    }

    /// All that was told is there; the one frame of which nothing was told is there as a whole, or not at all.
    fn reopen(&mut self, disk: SimulatedDisk) {
        let again = reopen(&disk).unwrap();
        let found: Vec<u64> = again.numbers.into_iter().filter(|number| *number != 0).collect();
        let with_open: Vec<u64> = self.durable.iter().copied().chain(self.open).collect();
        assert!(found == self.durable || found == with_open, "{found:?} {:?} {:?}", self.durable, self.open);
        self.durable = found;
        self.open = None;
        self.disk = disk;
        self.log = again.writer;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn whatever_happens_every_synced_frame_is_there_and_the_last_one_is_whole_or_gone(steps in steps()) {
        let disk = new_disk();
        let log = reopen(&disk).unwrap().writer;
        let mut history = History { disk, log, durable: Vec::new(), open: None, next: 1 };
        for step in &steps {
            history.step(step);
        }
        let disk = history.disk.crash(steps.len() as u64);
        history.reopen(disk);
    }

    #[test]
    fn arbitrary_bytes_in_a_segment_are_an_error_or_a_log(
        at in 0usize..600,
        bytes in proptest::collection::vec(any::<u8>(), 1..60),
        segment in 1u64..=2,
    ) {
        let disk = log_of(3);
        overwrite(&disk, segment, at, &bytes);
        match reopen(&disk) {
            Ok(again) => prop_assert!([1, 2, 3].starts_with(&again.numbers)),
            Err(error) => prop_assert_eq!(error.class(), StoreErrorClass::Damaged),
        }
    }
}

/// Forty segments of two frames, flushed to the end, of which the newest few are to be read whole.
fn long_log() -> (SimulatedDisk, LogOptions) {
    (log_of(80), LogOptions { segments_checked: 3, ..options(80) })
}

#[test]
fn of_old_segments_that_are_flushed_only_the_beginning_is_looked_at() {
    let (disk, bounded) = long_log();
    let shared: SharedDisk = Arc::new(disk.clone());
    let read = |options| {
        let mut read = Vec::new();
        let survey = survey(&shared, Path::new(FOLDER), options, &mut |segment, _| read.push(segment)).unwrap();
        assert_eq!(survey.last, Lsn::new(80));
        assert_eq!(survey.is_whole(), read.len() == 40);
        read
    };
    assert_eq!(read(bounded), [38, 39, 40]);
    // What was not flushed is read, however old it is: frame 60 is the last one of segment 30.
    assert_eq!(read(LogOptions { flushed: Lsn::new(60), ..bounded }), (31..=40).collect::<Vec<_>>());
    assert_eq!(read(LogOptions { flushed: Lsn::new(59), ..bounded }), (30..=40).collect::<Vec<_>>());
    assert_eq!(read(LogOptions { flushed: Lsn::ZERO, ..bounded }).len(), 40);
}

#[test]
fn damage_inside_an_old_segment_is_found_by_who_reads_all_and_by_nobody_else() {
    let (disk, bounded) = long_log();
    overwrite(&disk, 7, frame_offsets(&disk, 7)[1] + 50, &[1]);
    let settled = look(&disk, bounded).unwrap().settle().unwrap();
    assert_eq!(settled.replay(Lsn::new(75), &mut |_, _, _| Ok(())).unwrap(), 5);
    assert!(look(&disk, options(80)).err().unwrap().to_string().contains("00000008.log"));
    // Who hands it on checks it all the same.
    assert!(settled.replay(Lsn::ZERO, &mut |_, _, _| Ok(())).unwrap_err().to_string().contains("00000008.log"));
}

#[test]
fn where_no_frame_can_be_read_in_the_newest_segments_the_log_ends_before_them_and_goes_on_there() {
    let (disk, bounded) = long_log();
    for segment in 38..=40 {
        overwrite(&disk, segment, frame_offsets(&disk, segment)[0] + 45, &[1]);
        overwrite(&disk, segment, frame_offsets(&disk, segment)[1] + 45, &[1]);
    }
    let error = look(&disk, bounded).err().unwrap();
    assert!(error.to_string().contains("00000037.log") && error.class() == StoreErrorClass::Damaged, "{error}");
    let survey = look(&disk, LogOptions { flushed: Lsn::new(74), ..bounded }).unwrap();
    assert_eq!((survey.last, survey.is_whole()), (Lsn::new(74), true));
    commit(&mut survey.settle().unwrap().writer().unwrap(), 75..=76, 100);
    assert_eq!(reopen(&disk).unwrap().numbers, (1..=76).collect::<Vec<_>>());
}

#[test]
fn a_header_a_length_a_name_and_a_first_frame_of_an_old_segment_are_checked_at_every_start() {
    let plants: [fn(&SimulatedDisk); 4] = [
        |disk| overwrite(disk, 7, 20, &[1]),
        |disk| disk.open(&path_of(Path::new(FOLDER), 7)).unwrap().set_len(500).unwrap(),
        |disk| disk.remove(&path_of(Path::new(FOLDER), 7)).unwrap(),
        |disk| overwrite(disk, 7, SEGMENT_HEAD_BYTES, &[0; SMALL_BYTES - SEGMENT_HEAD_BYTES]),
    ];
    for plant in plants {
        let (disk, bounded) = long_log();
        plant(&disk);
        let before = everything(&disk);
        let error = look(&disk, bounded).err().unwrap();
        assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
        assert!(["00000007.log", "00000008.log"].iter().any(|file| error.to_string().contains(file)), "{error}");
        assert!(before == everything(&disk));
    }
}

#[test]
fn frames_above_an_lsn_are_handed_on_from_the_segments_that_hold_them_alone() {
    for after in 0..=9 {
        let disk = log_of(9);
        let settled = look(&disk, options(0)).unwrap().settle().unwrap();
        let mut numbers = Vec::new();
        let mut segments = Vec::new();
        // Segments without such frames are gone from under it, and it does not notice.
        for segment in 1..=5 {
            if 2 * segment <= after {
                disk.remove(&path_of(Path::new(FOLDER), segment)).unwrap();
            }
        }
        let handed = settled.replay(Lsn::new(after), &mut |frame, segment, count| {
            numbers.push(number(&frame));
            segments.push(u64::try_from(segment).unwrap());
            assert_eq!(count, 5);
            Ok(())
        });
        assert_eq!(handed.unwrap(), 9 - after);
        assert_eq!(numbers, (after + 1..=9).collect::<Vec<_>>());
        assert_eq!(segments, numbers.iter().map(|number| number.div_ceil(2)).collect::<Vec<_>>());
    }
}
