//! Every file of a data folder, damaged in every way that files are: what of it costs time, and what is told.
//!
//! The index is never missed: whatever is damaged in it, a start comes up with everything, at once or at the start after
//! the read that noticed. The log is the record: whatever is damaged in it is told by name, and then not a byte of the
//! folder is changed.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use gaggle::disk::real::RealDisk;
use gaggle::ids::{GroupId, Lsn, MessageId};
use gaggle::limits::LOG_SEGMENTS_CHECKED;
use gaggle::store::engine::{EngineError, Index as _, Op};
use gaggle::store::index::{Settings, SledIndex};
use gaggle::store::overlay::Overlay;
use gaggle::store::page::{self, PageRequest, ReadError};
use gaggle::store::records::{Extensions, MessageRecord, message_flag};
use gaggle::store::tree::Tree;
use gaggle::store::{self, Opened, Options, Reason, Rebuild, StoreError, StoreErrorClass, keys};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::folder::{copy, files};

const GROUP: GroupId = GroupId::new(7);
const MESSAGES_A_FRAME: u64 = 10;
/// So small that the history has more segments than a start reads whole.
const SEGMENT_BYTES: u64 = 8 * 1024;
/// A segment's header, and what stands before the operations of a frame.
const SEGMENT_HEAD_BYTES: usize = 80;
const FRAME_HEAD_BYTES: usize = 41;

type Rows = BTreeMap<(Tree, Bytes), Bytes>;

fn open(data: &Path, rebuild: Rebuild) -> Result<Opened, StoreError> {
    let index = Arc::new(SledIndex::new(data, Settings { cache_bytes: 1 << 20, ..Settings::default() }));
    let options = Options { segment_bytes: SEGMENT_BYTES, index, rebuild, ..Options::default() };
    store::open(Arc::new(RealDisk), data, options)
}

/// A frame of messages, each with a row that many frames change: some leaves are written again and again.
fn frame(number: u64) -> Vec<Op> {
    let mut random = StdRng::seed_from_u64(number);
    let first = number * MESSAGES_A_FRAME + 1;
    let mut ops = Vec::new();
    for msgid in (first..).take(usize::try_from(MESSAGES_A_FRAME).unwrap()) {
        let text: Vec<u8> = (0..100).map(|_| random.random::<u8>()).collect();
        let record = MessageRecord {
            flags: message_flag::CONTENT,
            lsn: Lsn::new(number + 1),
            content: msgid,
            own: msgid,
            last_edit: MessageId::ZERO,
            extensions: Extensions::default(),
            item: text.into(),
        };
        let key = keys::message(GROUP, MessageId::new(msgid));
        ops.push(Op { tree: Tree::Messages, key, value: Some(record.encode()) });
    }
    let cursor = Bytes::copy_from_slice(&(number % 40).to_be_bytes());
    ops.push(Op { tree: Tree::Cursors, key: cursor, value: Some(Bytes::copy_from_slice(&number.to_be_bytes())) });
    ops
}

fn rows(frames: u64) -> Rows {
    let mut rows = Rows::new();
    for op in (0..frames).flat_map(frame) {
        rows.insert((op.tree, op.key), op.value.unwrap());
    }
    rows
}

fn commit(store: &mut Opened, frames: std::ops::Range<u64>) {
    for number in frames {
        let ops = frame(number);
        let lsn = store.log.append(&ops).unwrap();
        store.log.sync().unwrap();
        store.engine.apply(lsn, &ops).unwrap();
        if number % 25 == 24 {
            checkpoint(store);
        }
    }
}

fn checkpoint(store: &mut Opened) {
    let lsn = store.engine.flush().unwrap();
    store.flushed.as_mut().unwrap().record(lsn).unwrap();
}

fn stop(mut store: Opened, data: &Path) {
    let lsn = store.log.seal().unwrap();
    store.engine.apply(lsn, &[]).unwrap();
    let flushed = store.engine.settle().unwrap();
    drop(store.engine);
    store.flushed.as_mut().unwrap().record_rest(flushed, SledIndex::new(data, Settings::default()).rest()).unwrap();
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Killed,
}

/// A folder as a stopped server leaves it, and as it was some time before.
struct Made {
    above: TempDir,
    frames: u64,
}

impl Made {
    fn new() -> Made {
        Made::ended(End::Clean)
    }

    fn ended(end: End) -> Made {
        let made = Made { above: tempfile::tempdir().unwrap(), frames: 300 };
        let mut store = open(&made.data(), Rebuild::InDoubt).unwrap();
        commit(&mut store, 0..210);
        stop(store, &made.data());
        copy(&made.data(), &made.older());
        let mut store = open(&made.data(), Rebuild::InDoubt).unwrap();
        commit(&mut store, 210..made.frames);
        match end {
            End::Clean => stop(store, &made.data()),
            End::Killed => drop(store),
        }
        made
    }

    fn data(&self) -> PathBuf {
        self.above.path().join("data")
    }

    fn older(&self) -> PathBuf {
        self.above.path().join("older")
    }

    /// A copy to be damaged.
    fn copy(&self) -> (TempDir, PathBuf) {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        copy(&self.data(), &data);
        (above, data)
    }
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Empty,
    Halved,
    Zeroed,
    /// One bit, so far into what is used of it, in percent.
    Flipped(usize),
    Deleted,
    Older,
}

const DAMAGES: [Damage; 7] = [
    Damage::Empty,
    Damage::Halved,
    Damage::Zeroed,
    Damage::Flipped(0),
    Damage::Flipped(70),
    Damage::Deleted,
    Damage::Older,
];

impl Damage {
    /// Says whether that makes any difference to this file.
    fn make(self, made: &Made, data: &Path, name: &Path) -> bool {
        let path = data.join(name);
        let before = fs::read(&path).unwrap();
        let used = before.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let after = match self {
            Damage::Empty => Vec::new(),
            Damage::Halved => before[..used / 2].to_vec(),
            Damage::Zeroed => vec![0; before.len()],
            Damage::Flipped(_) if used == 0 => return false,
            Damage::Flipped(percent) => {
                let mut flipped = before.clone();
                flipped[(used - 1) * percent / 100] ^= 0x10;
                flipped
            }
            Damage::Deleted => {
                fs::remove_file(&path).unwrap();
                return true;
            }
            Damage::Older => match fs::read(made.older().join(name)) {
                Ok(older) => older,
                Err(_) => return false,
            },
        };
        fs::write(&path, &after).unwrap();
        after != before
    }
}

/// What reading everything shows.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Everything,
    /// A read noticed that something is wrong.
    Noticed(String),
    /// Something is wrong, and no read noticed.
    Wrong(&'static str),
}

/// Reads as the server does: pages of messages, which must be dense, and everything else whole.
fn look(store: &Opened, frames: u64) -> Seen {
    let head = frames * MESSAGES_A_FRAME;
    let mut found = Rows::new();
    for tree in Tree::ALL {
        let mut visit = |key: &[u8], value: &[u8]| {
            found.insert((tree, Bytes::copy_from_slice(key)), Bytes::copy_from_slice(value));
            ControlFlow::Continue(())
        };
        match store.engine.scan(tree, &[], &mut visit) {
            Ok(()) => {}
            Err(EngineError::Busy) => return Seen::Wrong("nothing may be busy"),
            Err(error) => return Seen::Noticed(error.to_string()),
        }
    }
    let mut after = 0;
    while after < head {
        let request = PageRequest {
            group: GROUP,
            after: MessageId::new(after),
            up_to: MessageId::new(head),
            at: store.durable,
            rows_max: 100,
            bytes_max: 1 << 20,
        };
        match page::read(store.engine.as_ref(), &Overlay::new(), request) {
            Ok(page) if page.rows.is_empty() => return Seen::Noticed("an empty page".to_owned()),
            Ok(page) => {
                let dense = page.rows.iter().zip(after + 1..).all(|(row, wanted)| row.msgid.value() == wanted);
                if !dense {
                    return Seen::Noticed("a hole in a page".to_owned());
                }
                after = page.rows.last().unwrap().msgid.value();
            }
            Err(error @ (ReadError::Engine(_) | ReadError::Record { .. } | ReadError::Key(_))) => {
                return Seen::Noticed(error.to_string());
            }
        }
    }
    if found == rows(frames) { Seen::Everything } else { Seen::Wrong("rows are missing or are others") }
}

/// Opens what was damaged: everything is there, or a read notices and it is there after the next start. Says whether
/// the index was rebuilt at once, and whether something was wrong unnoticed.
fn comes_up(data: &Path, frames: u64, what: &str) -> (bool, bool) {
    let mut store = open(data, Rebuild::InDoubt).unwrap_or_else(|error| panic!("{what}: {error}"));
    let at_once = store.rebuilt.is_some();
    let seen = look(&store, frames);
    match &seen {
        Seen::Everything => return (at_once, false),
        Seen::Wrong(_) if !at_once => return (at_once, true),
        Seen::Noticed(_) if !at_once => {}
        Seen::Wrong(_) | Seen::Noticed(_) => panic!("{what}: {seen:?} after a rebuild"),
    }
    store.flushed.as_mut().unwrap().record_doubt().unwrap();
    drop(store);
    let store = open(data, Rebuild::InDoubt).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(store.rebuilt, Some(Reason::InDoubt), "{what}: {seen:?}");
    assert_eq!(look(&store, frames), Seen::Everything, "{what}: {seen:?}");
    (at_once, false)
}

fn is_slab(name: &Path) -> bool {
    name.components().any(|part| part.as_os_str() == "slabs")
}

/// Damages these files one by one, and opens what is left. Says how many were damaged, for how many the index was rebuilt
/// at once, and what was wrong and unnoticed.
fn damage_all(made: &Made, names: impl Iterator<Item = PathBuf>) -> (usize, usize, Vec<(Damage, PathBuf)>) {
    let (mut tried, mut rebuilt, mut unnoticed) = (0, 0, Vec::new());
    for name in names {
        for damage in DAMAGES {
            let (_above, data) = made.copy();
            if !damage.make(made, &data, &name) {
                continue;
            }
            let what = format!("{damage:?} {}", name.display());
            let log = files(&data.join("log"));
            let (at_once, wrong) = comes_up(&data, made.frames, &what);
            assert!(log == files(&data.join("log")), "{what}");
            tried += 1;
            rebuilt += usize::from(at_once);
            if wrong {
                unnoticed.push((damage, name.clone()));
            }
            let is_lost = matches!(damage, Damage::Empty | Damage::Zeroed | Damage::Deleted);
            assert!(at_once || !(is_lost && name == Path::new("flushed")), "nothing is known of the index");
        }
    }
    println!("{tried} damages, {rebuilt} rebuilt at once, {} wrong and unnoticed", unnoticed.len());
    (tried, rebuilt, unnoticed)
}

#[test]
fn whatever_is_damaged_in_the_index_or_its_record_a_server_comes_up_with_everything() {
    let made = Made::new();
    let names = files(&made.data()).into_keys();
    let names = names.filter(|name| name.starts_with("index") || name == Path::new("flushed"));
    let (tried, rebuilt, unnoticed) = damage_all(&made, names);
    assert!(tried > 60 && rebuilt > 50, "{tried} {rebuilt}");
    assert_eq!(unnoticed, []);
}

#[test]
fn after_a_kill_nothing_but_leaves_of_an_earlier_time_in_their_places_goes_unnoticed() {
    let made = Made::ended(End::Killed);
    let (tried, _, unnoticed) = damage_all(&made, files(&made.data()).into_keys().filter(|name| is_slab(name)));
    assert!(tried > 10, "{tried}");
    // What no checksum can tell: one file of leaves as it was before, each leaf of it whole. `gaggle verify` can.
    assert!(unnoticed.iter().all(|(damage, _)| *damage == Damage::Older), "{unnoticed:?}");
}

#[test]
fn a_whole_index_of_an_earlier_time_is_rebuilt_or_brought_up_to_the_log() {
    let made = Made::ended(End::Killed);
    let (_above, data) = made.copy();
    fs::remove_dir_all(data.join("index")).unwrap();
    copy(&made.older().join("index"), &data.join("index"));
    let store = open(&data, Rebuild::InDoubt).unwrap();
    assert!(matches!(store.rebuilt, Some(Reason::Behind { .. })), "{:?}", store.rebuilt);
    assert_eq!(look(&store, made.frames), Seen::Everything);
    drop(store);
    // With the record of the same time it is as it was then.
    let (_above, data) = made.copy();
    fs::remove_dir_all(data.join("index")).unwrap();
    copy(&made.older().join("index"), &data.join("index"));
    fs::copy(made.older().join("flushed"), data.join("flushed")).unwrap();
    let store = open(&data, Rebuild::InDoubt).unwrap();
    assert_eq!((store.rebuilt.clone(), store.replayed), (None, 90));
    assert_eq!(look(&store, made.frames), Seen::Everything);
}

#[test]
fn an_index_of_another_store_is_not_taken() {
    let (made, other) = (Made::ended(End::Killed), Made::new());
    let (_above, data) = made.copy();
    fs::remove_dir_all(data.join("index")).unwrap();
    copy(&other.data().join("index"), &data.join("index"));
    let store = open(&data, Rebuild::InDoubt).unwrap();
    assert!(matches!(store.rebuilt, Some(Reason::Failed(_))), "{:?}", store.rebuilt);
    assert_eq!(look(&store, made.frames), Seen::Everything);
}

/// It is refused with a sentence that says where and what to do, and the folder is as it was, to the byte.
fn is_refused(data: &Path, rebuild: Rebuild, what: &str) -> String {
    let before = files(data);
    let error = open(data, rebuild).err().unwrap_or_else(|| panic!("{what} was not noticed"));
    let said = error.to_string();
    assert_eq!(error.class(), StoreErrorClass::Damaged, "{what}: {said}");
    assert!(said.contains("keep a copy of the folder, then restore it from a backup"), "{what}: {said}");
    assert!(before == files(data), "{what}: something was touched");
    said
}

/// Segments that matter: the ends, those around the bound of what a start reads whole, and some in between.
fn segments(data: &Path) -> Vec<PathBuf> {
    let names: Vec<PathBuf> = files(&data.join("log")).into_keys().collect();
    let count = names.len();
    assert!(count > LOG_SEGMENTS_CHECKED + 4, "{count} segments");
    let bound = count - LOG_SEGMENTS_CHECKED;
    let chosen = [0, bound / 2, bound - 1, bound, bound + 1, count / 2 + 10, count - 2, count - 1];
    chosen.into_iter().map(|index| Path::new("log").join(&names[index])).collect()
}

#[test]
fn whatever_is_damaged_in_the_log_or_format_is_told_by_name_and_nothing_is_touched() {
    let made = Made::new();
    let (_above, data) = made.copy();
    let whole_from = {
        let count = files(&data.join("log")).len() - LOG_SEGMENTS_CHECKED;
        Path::new("log").join(format!("{:08}.log", count + 1))
    };
    let mut unnoticed = Vec::new();
    for name in segments(&data).into_iter().chain([PathBuf::from("FORMAT")]) {
        for damage in DAMAGES {
            let before = fs::read(data.join(&name)).unwrap();
            if damage.make(&made, &data, &name) {
                let what = format!("{damage:?} {}", name.display());
                let is_inside = matches!(damage, Damage::Flipped(70)) && name < whole_from;
                if is_inside && name != Path::new("FORMAT") {
                    // Told to whoever reads it: a rebuild, before it gives up the index; and `gaggle verify`.
                    is_refused(&data, Rebuild::Always, &what);
                    unnoticed.push(what);
                } else {
                    let said = is_refused(&data, Rebuild::InDoubt, &what);
                    let place = if name == Path::new("FORMAT") { "FORMAT" } else { ".log" };
                    assert!(said.contains(place), "{what}: {said}");
                }
            }
            fs::write(data.join(&name), before).unwrap();
        }
    }
    assert!(!unnoticed.is_empty());
    // Nothing of all this has changed anything: there is no doubt, and everything is there.
    let store = open(&data, Rebuild::InDoubt).unwrap();
    assert_eq!((store.rebuilt.clone(), store.replayed), (None, 0));
    assert_eq!(look(&store, made.frames), Seen::Everything);
}

/// What a start does not read of the oldest segments it does not answer wrongly either: the index has it.
#[test]
fn damage_inside_an_old_segment_costs_nothing_until_the_index_is_rebuilt() {
    let made = Made::new();
    let (_above, data) = made.copy();
    assert!(Damage::Flipped(70).make(&made, &data, Path::new("log/00000001.log")));
    let store = open(&data, Rebuild::InDoubt).unwrap();
    assert_eq!((store.rebuilt.clone(), look(&store, made.frames)), (None, Seen::Everything));
    drop(store);
    // A damaged index on top of that: the log cannot make up for it, and both stay as they are.
    fs::remove_file(data.join("flushed")).unwrap();
    is_refused(&data, Rebuild::InDoubt, "an old segment and the record");
}

/// Where the frames of a segment begin, and where the last one ends.
fn offsets(segment: &[u8]) -> Vec<usize> {
    let mut offsets = vec![SEGMENT_HEAD_BYTES];
    loop {
        let at = *offsets.last().unwrap();
        let length = segment.get(at..at + 4).map_or(0, |length| u32::from_be_bytes(length.try_into().unwrap()));
        if length == 0 {
            return offsets;
        }
        assert!(length as usize >= FRAME_HEAD_BYTES);
        offsets.push(at + length as usize);
    }
}

/// After an unclean stop nobody can tell a frame that was lost at the end of the log from one that was never written. It
/// is no more than that: what lies behind the last recorded flush, and only from somewhere on to the very end.
#[test]
fn what_damage_can_take_unnoticed_is_the_end_of_the_log_behind_the_last_recorded_flush_and_no_more() {
    let above = tempfile::tempdir().unwrap();
    let data = above.path().join("data");
    let mut store = open(&data, Rebuild::InDoubt).unwrap();
    commit(&mut store, 0..53);
    checkpoint(&mut store);
    commit(&mut store, 53..55);
    // As SIGKILL leaves it: closed in order, the index would be flushed.
    let killed = above.path().join("killed");
    copy(&data, &killed);
    drop(store);
    let data = killed;
    let last = files(&data.join("log")).into_keys().last().unwrap();
    let last = Path::new("log").join(last);
    let bytes = fs::read(data.join(&last)).unwrap();
    let offsets = offsets(&bytes);
    let in_last = u64::try_from(offsets.len() - 1).unwrap();
    assert!(in_last > 2, "{in_last} frames");
    for (index, from) in offsets.iter().enumerate() {
        let work = tempfile::tempdir().unwrap();
        let copied = work.path().join("data");
        copy(&data, &copied);
        let mut cut = bytes.clone();
        cut[*from..].fill(0);
        fs::write(copied.join(&last), &cut).unwrap();
        let kept = 55 - in_last + u64::try_from(index).unwrap();
        let what = format!("the log ends with frame {kept}");
        if kept < 53 {
            assert!(is_refused(&copied, Rebuild::InDoubt, &what).contains("l53"));
            continue;
        }
        let store = open(&copied, Rebuild::InDoubt).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(store.durable, Lsn::new(kept), "{what}");
        assert_eq!(look(&store, kept), Seen::Everything, "{what}");
        drop(store);
        // One bit in a frame that is not the last: told.
        if index + 2 < offsets.len() {
            copy(&data, &copied);
            let mut flipped = bytes.clone();
            flipped[from + FRAME_HEAD_BYTES + 5] ^= 1;
            fs::write(copied.join(&last), &flipped).unwrap();
            is_refused(&copied, Rebuild::InDoubt, "a bit in the middle of what was not flushed");
        }
    }
}
