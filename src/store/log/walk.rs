//! A walk through the whole log that goes on behind whatever is damaged, and touches nothing: for `gaggle verify`.
//!
//! It holds the log against the same rules as opening does, but where opening ends with the first thing that breaks
//! one, the walk says it and looks for the next frame that can be read. Frames are handed on in the order of the log;
//! one that repeats an lsn, or stands in a segment of another store, is said and not handed on. What is no damage but
//! worth knowing (a frame torn by an unclean stop, files never born) is a remark. A condensed segment stands for all
//! frames that its header says, whichever of them are still in it.

use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::error::StoreError;
use crate::store::format::StoreId;
use crate::store::log::frame::{self, Parsed};
use crate::store::log::segment::{self, Condensed, SEGMENT_HEAD_BYTES, Segment};
use crate::store::log::survey::does_not_follow_in;
use crate::store::wide;

/// A segment whose header is damaged says nothing reliable of its size; a larger one than this is not read then.
const UNTOLD_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Missing segments that are named one by one.
const MISSING_NAMED_MAX: u64 = 20;

/// What is met on the way.
pub(in crate::store) enum Met {
    /// A segment is about to be read: its place among how many, from 1.
    Segment { place: usize, segments: usize },
    /// A frame.
    Frame(MetFrame),
    /// Something that no program of ours leaves behind.
    Fault(Place),
    /// Something that an unclean stop leaves behind.
    Remark(Place),
}

/// A frame whose checksum and nonce are right.
pub(in crate::store) struct MetFrame {
    pub(in crate::store) lsn: Lsn,
    pub(in crate::store) path: PathBuf,
    /// Where it begins; none where it stands in a condensed segment.
    pub(in crate::store) byte: Option<u64>,
    pub(in crate::store) ops: Vec<Op>,
}

/// A place in a file, and what is to be said of it.
pub(in crate::store) struct Place {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) byte: Option<u64>,
    pub(in crate::store) what: String,
}

/// What the walk has found in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Walked {
    pub(in crate::store) segments: usize,
    pub(in crate::store) bytes: u64,
    pub(in crate::store) frames: u64,
    /// The last frame.
    pub(in crate::store) last: Lsn,
    /// Whether it is the seal of a clean stop.
    pub(in crate::store) sealed: bool,
    pub(in crate::store) faults: u64,
}

/// Bytes that are no frame, behind the last one that could be read; what they are shows when it is known whether
/// another follows.
struct Torn {
    path: PathBuf,
    from: usize,
    bytes: usize,
}

struct Walk<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    store: StoreId,
    meet: &'a mut dyn FnMut(Met),
    torn: Vec<Torn>,
    walked: Walked,
}

/// Walks through the log of this folder.
pub(in crate::store) fn walk(disk: &dyn Disk, folder: &Path, store: StoreId, meet: &mut dyn FnMut(Met)) -> Walked {
    let mut walk = Walk { disk, folder, store, meet, torn: Vec::new(), walked: Walked::default() };
    let numbers = walk.list();
    walk.walked.segments = numbers.len();
    let mut bytes = Vec::new();
    let mut is_open = true;
    for (index, number) in numbers.iter().enumerate() {
        (walk.meet)(Met::Segment { place: index + 1, segments: numbers.len() });
        is_open = walk.segment(*number, &mut bytes);
    }
    if let (false, Some(number)) = (is_open, numbers.last()) {
        let path = segment::path_of(folder, *number);
        walk.fault(&path, None, "it is condensed, but the segment that followed it is missing");
    }
    for torn in std::mem::take(&mut walk.torn) {
        let what = format!(
            "{} bytes behind the last frame, {}, are a frame that was not written to its end; the next start cuts it",
            torn.bytes, walk.walked.last
        );
        (walk.meet)(Met::Remark(Place { path: torn.path, byte: Some(wide(torn.from)), what }));
    }
    walk.walked
}

/// "frame l3 is", "frames l3 to l5 are".
fn frames_are(first: Lsn, last: Lsn) -> String {
    if first == last { format!("frame {first} is") } else { format!("frames {first} to {last} are") }
}

/// What an error says of its file, without the file and without advice.
fn words(error: &StoreError) -> String {
    if let StoreError::Damaged { what, .. } = error { what.clone() } else { error.to_string() }
}

impl Walk<'_> {
    fn fault(&mut self, path: &Path, byte: Option<usize>, what: impl Into<String>) {
        self.walked.faults += 1;
        (self.meet)(Met::Fault(Place { path: path.to_owned(), byte: byte.map(wide), what: what.into() }));
    }

    /// The numbers of the segments; says which are missing.
    fn list(&mut self) -> Vec<u64> {
        let folder = self.folder;
        let names = match self.disk.list(folder) {
            Ok(names) => names,
            Err(error) => {
                self.fault(folder, None, format!("the folder of the log is missing or unreadable: {error}"));
                return Vec::new();
            }
        };
        for name in names.iter().filter(|name| segment::is_unborn(name)) {
            let what = "it was never finished; the next start removes it".to_owned();
            (self.meet)(Met::Remark(Place { path: folder.join(name), byte: None, what }));
        }
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
        numbers.sort_unstable();
        if numbers.is_empty() {
            self.fault(folder, None, "it has no segments");
        }
        let mut next = 1u64;
        for number in &numbers {
            for missing in next..(*number).min(next.saturating_add(MISSING_NAMED_MAX)) {
                self.fault(&segment::path_of(folder, missing), None, "this segment of the log is missing");
            }
            if number.saturating_sub(next) > MISSING_NAMED_MAX {
                self.fault(
                    folder,
                    None,
                    format!("all segments below {number:08}.log down to {next:08}.log are missing"),
                );
            }
            next = number.saturating_add(1);
        }
        numbers
    }

    /// Reads a segment; says whether frames may be appended to it.
    fn segment(&mut self, number: u64, bytes: &mut Vec<u8>) -> bool {
        let path = segment::path_of(self.folder, number);
        match Segment::read(self.disk, self.folder, self.store, number, bytes) {
            Ok(Segment { nonce, condensed: Some(says), bytes: on_disk, .. }) => {
                self.walked.bytes = self.walked.bytes.saturating_add(on_disk);
                self.condensed(&path, says, nonce, bytes);
                return false;
            }
            Ok(segment) => self.frames(&path, segment.nonce, bytes),
            Err(error) => {
                self.fault(&path, None, words(&error));
                let looked = Segment::look(self.disk, self.folder, self.store, number);
                if let Ok((segment, _)) = looked.as_ref()
                    && segment.condensed.is_some()
                {
                    // What is packed in it is lost as a whole: there are no frames to be found.
                    self.walked.bytes = self.walked.bytes.saturating_add(segment.bytes);
                    return false;
                }
                if let Some(nonce) = self.read_anyway(&path, bytes) {
                    self.frames(&path, nonce, bytes);
                }
            }
        }
        true
    }

    /// Takes the frames of a condensed segment.
    fn condensed(&mut self, path: &Path, says: Condensed, nonce: u64, bytes: &[u8]) {
        let last = self.walked.last;
        for Torn { path: torn_path, from, bytes } in std::mem::take(&mut self.torn) {
            let what = format!(
                "{bytes} bytes from here on are no frame that can be read, but the log goes on with frame {} in {}",
                says.first,
                path.display()
            );
            self.fault(&torn_path, Some(from), what);
        }
        if says.first != last.next() {
            let what = format!("it stands for frames {} to {}, behind frame {last}", says.first, says.last);
            self.fault(path, None, what);
        }
        let mut before = None;
        for parsed in frame::frames(bytes.get(SEGMENT_HEAD_BYTES..).unwrap_or_default(), nonce) {
            let lsn = parsed.head.lsn;
            if does_not_follow_in(says, &parsed, before) || lsn <= last {
                let what = format!("frame {lsn} stands in it, which is for frames {} to {}", says.first, says.last);
                self.fault(path, None, what);
                continue;
            }
            before = Some(lsn);
            self.take(path, None, lsn, &parsed);
        }
        self.walked.last = says.last.max(last);
        self.walked.sealed = false;
    }

    /// Reads a segment whose header is not right, where it still says a nonce and is not another store's.
    fn read_anyway(&self, path: &Path, bytes: &mut Vec<u8>) -> Option<u64> {
        let file = self.disk.open(path).ok()?;
        let length = file.len().ok().filter(|length| *length <= UNTOLD_BYTES_MAX)?;
        bytes.clear();
        bytes.resize(usize::try_from(length).ok()?, 0);
        file.read_at(0, bytes).ok()?;
        segment::nonce_in(bytes, self.store)
    }

    /// Takes frame after frame of a segment, over whatever lies between them.
    fn frames(&mut self, path: &Path, nonce: u64, bytes: &[u8]) {
        self.walked.bytes = self.walked.bytes.saturating_add(wide(bytes.len()));
        let mut offset = SEGMENT_HEAD_BYTES;
        loop {
            let rest = bytes.get(offset..).unwrap_or_default();
            let (at, parsed) = match frame::parse(rest, nonce) {
                Some(parsed) => (offset, parsed),
                None => match frame::search(bytes, offset, nonce) {
                    Some(found) => found,
                    None => break,
                },
            };
            let hole = (at > offset).then_some(offset);
            self.frame(path, hole, at, &parsed);
            offset = at.saturating_add(parsed.bytes.len());
        }
        let rest = bytes.get(offset..).unwrap_or_default();
        if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
            self.torn.push(Torn { path: path.to_owned(), from: offset, bytes: last + 1 });
        }
    }

    fn frame(&mut self, path: &Path, hole: Option<usize>, at: usize, parsed: &Parsed<'_>) {
        let last = self.walked.last;
        let (lsn, previous, synced) = (parsed.head.lsn, parsed.head.previous, parsed.head.synced);
        let torn = std::mem::take(&mut self.torn);
        if lsn <= last {
            self.fault(path, Some(at), format!("frame {lsn} stands here, behind frame {last}"));
            return;
        }
        let gap = (lsn > last.next()).then(|| frames_are(last.next(), lsn.previous()));
        let is_explained = hole.is_some() || !torn.is_empty();
        for Torn { path: torn_path, from, bytes } in torn {
            let lost = gap.as_ref().map_or(String::new(), |gap| format!("; {gap} lost"));
            let what = format!(
                "{bytes} bytes from here on are no frame that can be read, but the log goes on with frame {lsn} in {}{lost}",
                path.display()
            );
            self.fault(&torn_path, Some(from), what);
        }
        if let Some(from) = hole {
            let lost = gap.as_ref().map_or(String::new(), |gap| format!("; {gap} lost"));
            let what = format!("no frame can be read from here to byte {at}, where frame {lsn} stands{lost}");
            self.fault(path, Some(from), what);
        }
        if let (Some(gap), false) = (gap.as_ref(), is_explained) {
            self.fault(path, Some(at), format!("frame {lsn} stands here behind frame {last}: {gap} missing"));
        }
        if gap.is_none() && previous != last {
            self.fault(path, Some(at), format!("frame {lsn} says that it follows {previous}, not {last}"));
        }
        if synced >= lsn {
            self.fault(path, Some(at), format!("frame {lsn} says that {synced} is synced, which is not below it"));
        }
        self.walked.last = lsn;
        self.walked.sealed = parsed.seal;
        self.take(path, Some(at), lsn, parsed);
    }

    /// Hands on a frame that is in its place.
    fn take(&mut self, path: &Path, at: Option<usize>, lsn: Lsn, parsed: &Parsed<'_>) {
        self.walked.frames += 1;
        let Some(ops) = parsed.ops() else {
            self.fault(path, at, format!("frame {lsn} holds operations that this version does not know"));
            return;
        };
        (self.meet)(Met::Frame(MetFrame { lsn, path: path.to_owned(), byte: at.map(wide), ops }));
    }
}
