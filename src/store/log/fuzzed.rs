//! What must hold of whatever stands in the log's folder: for the fuzzer, and for the test that runs its corpora.
//!
//! A log is built from arbitrary bytes, mostly with right checksums, since nothing else comes far. Then: the survey
//! touches nothing; it errs by a sentence that names a file, or else what it hands on is all that a plain reading finds,
//! in order and without a gap. `gaggle verify` finds faults exactly where the survey errs. Settling writes nothing but
//! zeros behind the end; afterwards the log is the same and goes on. Segments may be condensed: then frames may be left out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a proof that meets what it does not expect should fail loudly"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::SharedDisk;
use crate::disk::simulated::SimulatedDisk;
use crate::ids::Lsn;
use crate::limits::LOG_FRAME_BYTES_MAX;
use crate::proof::input::Input;
use crate::store::engine::Op;
use crate::store::error::{StoreError, StoreErrorClass};
use crate::store::format::StoreId;
use crate::store::log::condensed;
use crate::store::log::frame::{self, FRAME_HEAD_BYTES, Parsed};
use crate::store::log::segment::{Condensed, SEGMENT_HEAD_BYTES, Segment, path_of};
use crate::store::log::survey::{LogOptions, Survey, survey};
use crate::store::log::walk::{Met, Walked, walk};
use crate::store::tree::Tree;

const FOLDER: &str = "/log";
const STORE: StoreId = StoreId::new([5; 16]);
const NONCE: u64 = 0x0102_0304_0506_0708;
/// A log of more segments than this shows nothing new.
const SEGMENTS_MAX: u64 = 6;

/// The step that condenses a segment and begins the next one.
const CONDENSE: u8 = 0xfb;

type Files = BTreeMap<PathBuf, Vec<u8>>;
type Frames = Vec<(Lsn, Vec<Op>)>;

/// A frame by itself, or bytes in which one is to be found. The first byte says whether its checksum is mended.
pub fn frame(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mended = input.byte() & 1 == 0;
    let mut bytes = input.0.to_vec();
    if mended {
        mend_frame(&mut bytes, NONCE);
    }
    let found = frame::parse(&bytes, NONCE);
    if let Some(parsed) = &found {
        assert!(parsed.bytes.len() <= LOG_FRAME_BYTES_MAX && bytes.starts_with(parsed.bytes));
        assert!(parsed.is_understood() == parsed.ops().is_some());
        if let Some(ops) = parsed.ops() {
            let mut again = Vec::new();
            assert!(frame::build(&mut again, parsed.head, (!parsed.seal).then_some(&ops)));
            assert!(again == parsed.bytes, "a frame has one form");
        }
        let head = bytes.first_chunk::<FRAME_HEAD_BYTES>().unwrap();
        assert!(frame::lsn_of(head, NONCE) == Some(parsed.head.lsn));
    }
    let first = (0..bytes.len().min(512)).find(|at| frame::parse(&bytes[*at..], NONCE).is_some());
    let searched = frame::search(&bytes, 0, NONCE).map(|(at, _)| at).filter(|at| *at < 512);
    assert!(first == searched, "the search finds another frame than the first");
}

/// Segments as raw bytes: for each its length in two bytes, then it. The first byte says whether headers and the
/// checksums of frames that follow one another are mended.
pub fn segments(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (flags, flushed) = (input.byte(), input.byte());
    let mut files = Files::new();
    while !input.is_empty() && files.len() < SEGMENTS_MAX as usize {
        let length = input.place();
        let number = files.len() as u64 + 1;
        let mut file = input.take(length).to_vec();
        if flags & 1 == 0 {
            mend_segment(&mut file, number);
        }
        files.insert(path_of(Path::new(FOLDER), number), file);
    }
    hold(&files, u64::from(flushed >> 4), usize::from(flushed & 7));
}

/// A log written by a program of small steps: frames right or nearly so, bytes between them, stale copies, damage.
pub fn folder(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flushed = input.byte();
    let mut building = Building { files: Files::new(), number: 0, last: 0, written: Vec::new() };
    building.begin_segment(&mut input);
    while !input.is_empty() {
        building.step(&mut input);
    }
    building.end_segment(0);
    hold(&building.files, u64::from(flushed >> 4), usize::from(flushed & 7));
}

struct Building {
    files: Files,
    /// The segment that is being written.
    number: u64,
    /// The last lsn that a frame bore.
    last: u64,
    written: Vec<Vec<u8>>,
}

impl Building {
    fn file(&mut self) -> &mut Vec<u8> {
        self.files.entry(path_of(Path::new(FOLDER), self.number)).or_default()
    }

    fn nonce(&self) -> u64 {
        NONCE + self.number
    }

    fn begin_segment(&mut self, input: &mut Input<'_>) {
        let left_out = u64::from(input.byte() == u8::MAX);
        self.number += 1 + left_out;
        *self.file() = vec![0; SEGMENT_HEAD_BYTES];
    }

    /// Fills up with zeros and writes the header.
    fn end_segment(&mut self, zeros: usize) {
        let (number, nonce) = (self.number, self.nonce());
        let file = self.file();
        file.resize(file.len() + zeros, 0);
        let segment = Segment { number, nonce, bytes: file.len() as u64, path: PathBuf::new(), condensed: None };
        file[..SEGMENT_HEAD_BYTES].copy_from_slice(&segment.head(STORE));
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() {
            CONDENSE if self.number < SEGMENTS_MAX => {
                self.condense_segment(input);
                self.begin_segment(input);
            }
            step => self.step_within(step % 8, input),
        }
    }

    fn step_within(&mut self, step: u8, input: &mut Input<'_>) {
        match step {
            0..=2 => self.frame(input),
            3 if self.number < SEGMENTS_MAX => {
                let zeros = input.small();
                self.end_segment(zeros);
                self.begin_segment(input);
            }
            4 => {
                let count = input.small();
                let bytes = input.take(count);
                self.file().extend_from_slice(bytes);
            }
            5 => {
                let count = input.small();
                let file = self.file();
                file.resize(file.len() + count, 0);
            }
            6 => {
                let stale = input.small();
                let stale = self.written.iter().cycle().nth(stale).cloned().unwrap_or_default();
                self.file().extend_from_slice(&stale);
            }
            _ => {
                let (place, bits) = (input.place(), input.byte());
                if let Some(byte) = self.file().get_mut(place) {
                    *byte ^= bits;
                }
            }
        }
    }

    /// Condenses what was written of the segment: without some of the frames, perhaps standing for later ones as well,
    /// perhaps damaged.
    fn condense_segment(&mut self, input: &mut Input<'_>) {
        let (left_out, flags) = (input.byte(), input.byte());
        let (number, nonce, next) = (self.number, self.nonce(), self.last.wrapping_add(1));
        let file = self.file();
        let frames: Vec<_> = frame::frames(&file[SEGMENT_HEAD_BYTES..], nonce).collect();
        let lsn = |parsed: Option<&Parsed<'_>>| parsed.map_or(next, |parsed| parsed.head.lsn.value());
        let (first, last) = (lsn(frames.first()), lsn(frames.last()).saturating_add(u64::from(flags & 7)));
        let kept = frames.iter().enumerate().filter(|(index, _)| left_out >> (index % 8) & 1 == 0);
        let kept: Vec<u8> = kept.flat_map(|(_, parsed)| parsed.bytes).copied().collect();
        let mut packed = condensed::pack(&kept, nonce).unwrap();
        if flags & 0x80 != 0 {
            let (place, bits) = (input.place() % packed.len(), input.byte());
            packed[place] ^= bits;
        }
        let says = Condensed { first: Lsn::new(first), last: Lsn::new(last), ops: 0 };
        let bytes = (SEGMENT_HEAD_BYTES + packed.len()) as u64;
        let segment = Segment { number, nonce, bytes, path: PathBuf::new(), condensed: Some(says) };
        *file = [segment.head(STORE), packed].concat();
        self.last = last;
    }

    fn frame(&mut self, input: &mut Input<'_>) {
        let lsn = input.near(self.last.wrapping_add(1));
        let previous = input.near(self.last);
        let synced = input.near(self.last);
        let (kind, count) = (input.byte(), input.small());
        let mut frame = vec![0; 8];
        for number in [lsn, previous, synced, self.nonce()] {
            frame.extend_from_slice(&number.to_be_bytes());
        }
        frame.push(1 + kind % 3);
        frame.extend_from_slice(input.take(count));
        let length = frame.len() as u32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        mend_frame(&mut frame, self.nonce());
        self.last = lsn;
        self.file().extend_from_slice(&frame);
        self.written.push(frame);
    }
}

/// Gives the frame that begins here this nonce and a right checksum, and says how long it is; zero where the length that
/// it says cannot be.
fn mend_frame(bytes: &mut [u8], nonce: u64) -> usize {
    let Some(length) = bytes.first_chunk::<4>() else { return 0 };
    let length = u32::from_be_bytes(*length);
    let size = length as usize;
    if !(FRAME_HEAD_BYTES..=bytes.len()).contains(&size) {
        return 0;
    }
    bytes[32..40].copy_from_slice(&nonce.to_be_bytes());
    let check = frame::checksum(length, &bytes[8..size]);
    bytes[4..8].copy_from_slice(&check.to_be_bytes());
    size
}

/// Gives a segment a right header, and right checksums to the frames that follow one another from its beginning.
fn mend_segment(file: &mut [u8], number: u64) {
    if file.len() < SEGMENT_HEAD_BYTES {
        return;
    }
    let nonce = NONCE + number;
    let segment = Segment { number, nonce, bytes: file.len() as u64, path: PathBuf::new(), condensed: None };
    file[..SEGMENT_HEAD_BYTES].copy_from_slice(&segment.head(STORE));
    let mut at = SEGMENT_HEAD_BYTES;
    loop {
        match mend_frame(&mut file[at..], nonce) {
            0 => return,
            size => at += size,
        }
    }
}

fn disk_of(files: &Files) -> SimulatedDisk {
    let files = files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice()));
    SimulatedDisk::holding(Path::new(FOLDER), files).unwrap()
}

fn files_on(disk: &SimulatedDisk) -> Files {
    disk.files(Path::new(FOLDER)).unwrap()
}

fn look(disk: &SimulatedDisk, flushed: u64, segments_checked: usize) -> Result<Survey, StoreError> {
    let shared: SharedDisk = Arc::new(disk.clone());
    let options = LogOptions { store: STORE, segment_bytes: 256, flushed: Lsn::new(flushed), segments_checked };
    survey(&shared, Path::new(FOLDER), options, &mut |_, _| {})
}

/// All that is claimed of a log's folder.
fn hold(files: &Files, flushed: u64, checked: usize) {
    let disk = disk_of(files);
    let looked = look(&disk, 0, usize::MAX);
    assert!(&files_on(&disk) == files, "a survey touches nothing");
    let (walked, met) = walked(&disk);
    assert!(&files_on(&disk) == files, "a walk touches nothing");
    let survey = match looked {
        Ok(survey) => survey,
        Err(error) => {
            assert!(matches!(error.class(), StoreErrorClass::Damaged | StoreErrorClass::Newer), "{error}");
            assert!(error.to_string().contains(FOLDER), "{error}");
            assert!(walked.faults > 0, "a walk finds no fault where a survey says: {error}");
            bounded(&disk, files, flushed, checked, None);
            return;
        }
    };
    assert!(walked.faults == 0, "a walk finds a fault in what a survey takes");
    let (last, sealed) = (survey.last, survey.recovery.sealed);
    let plain = plainly(&disk, files);
    assert!((walked.last, walked.frames, walked.sealed) == (last, plain.len() as u64, sealed));
    assert!(walked.frames == last.value() || files.values().any(|file| is_condensed(file)), "frames are missing");
    bounded(&disk, files, flushed, checked, Some(last));
    assert!(met == plain, "a walk hands on what a plain reading finds");
    let settled = survey.settle().unwrap();
    // A frame without operations stands for the last one where condensing has taken that out.
    let stand_in = plain.last().map_or(Lsn::ZERO, |(lsn, _)| *lsn) < last;
    let whole: Frames = plain.iter().cloned().chain(stand_in.then(|| (last, Vec::new()))).collect();
    assert!(replayed(&settled) == whole, "what is handed on is what a plain reading finds");
    let after = files_on(&disk);
    only_zeros_behind_the_end(files, &after);
    let op = Op { tree: Tree::Meta, key: Bytes::from_static(b"next"), value: None };
    let mut writer = settled.writer().unwrap();
    writer.append(std::slice::from_ref(&op)).unwrap();
    writer.sync().unwrap();
    let again = look(&disk, 0, usize::MAX).unwrap();
    assert!(again.last == last.next() && again.rests.is_empty());
    let frames = replayed(&again.settle().unwrap());
    assert!(frames == [plain, vec![(last.next(), vec![op])]].concat(), "the log goes on as the same one");
}

/// A start that reads only some segments takes whatever one takes that reads all, and comes to the same end, unless
/// something is missing that was flushed.
fn bounded(disk: &SimulatedDisk, files: &Files, flushed: u64, checked: usize, whole: Option<Lsn>) {
    let looked = look(disk, flushed, checked);
    assert!(&files_on(disk) == files, "a survey touches nothing");
    match (looked, whole) {
        (Ok(survey), Some(last)) => assert!(survey.last == last && last.value() >= flushed),
        (Ok(survey), None) => assert!(!survey.is_whole() && survey.last.value() >= flushed),
        (Err(error), Some(last)) => assert!(last.value() < flushed, "{error}"),
        (Err(error), None) => assert!(error.to_string().contains(FOLDER), "{error}"),
    }
}

fn walked(disk: &SimulatedDisk) -> (Walked, Frames) {
    let mut met = Vec::new();
    let walked = walk(disk, Path::new(FOLDER), STORE, &mut |step| match step {
        Met::Frame(frame) => met.push((frame.lsn, frame.ops)),
        Met::Fault(place) | Met::Remark(place) => assert!(!place.what.is_empty()),
        Met::Segment { place, segments } => assert!(place <= segments),
    });
    (walked, met)
}

fn replayed(settled: &super::SettledLog) -> Frames {
    let mut frames = Vec::new();
    let count = settled.replay(Lsn::ZERO, &mut |frame, _, _| {
        frames.push((frame.lsn, frame.ops));
        Ok(())
    });
    assert!(frames.len() as u64 - count.unwrap() <= 1, "one frame at the most stands for another");
    assert!(frames.is_sorted_by(|one, other| one.0 < other.0), "frames are handed on in order");
    frames
}

/// The frames that follow one another from the beginning of each segment, and nothing else asked.
fn plainly(disk: &SimulatedDisk, files: &Files) -> Frames {
    let (mut frames, mut image) = (Vec::new(), Vec::new());
    for number in 1..=files.len() as u64 {
        let segment = Segment::read(disk, Path::new(FOLDER), STORE, number, &mut image).unwrap();
        let of_segment = frame::frames(&image[SEGMENT_HEAD_BYTES..], segment.nonce);
        frames.extend(of_segment.map(|parsed| (parsed.head.lsn, parsed.ops().unwrap())));
    }
    frames
}

/// Whether the version and the kind in a header are those of a condensed segment.
fn is_condensed(file: &[u8]) -> bool {
    file.get(8..11) == Some(&[0, 2, 2])
}

/// Settling changes bytes to zeros behind the frames of a segment, and nothing else.
fn only_zeros_behind_the_end(before: &Files, after: &Files) {
    for (path, file) in before {
        let nonce = u64::from_be_bytes(*file[24..].first_chunk().unwrap());
        let mut end = SEGMENT_HEAD_BYTES;
        while let Some(parsed) = frame::parse(&file[end..], nonce) {
            end += parsed.bytes.len();
        }
        let now = &after[path];
        if is_condensed(file) {
            assert!(now == file);
            continue;
        }
        assert!(now.len() == file.len() && now[..end] == file[..end] && now[end..].iter().all(|byte| *byte == 0));
    }
    assert!(before.len() == after.len());
}
