//! A segment of the log: one file, zero-filled ahead, whose header says whose it is.
//!
//! It is born as `*.new`: zero-filled, header, sync, rename, sync of the folder; only then its first frame is written.
//! So a segment under its own name has a whole header and its whole length, and anything else is damage. Its number is
//! its place in the log; its size stands in it, so segments of different sizes lie in one log.
//!
//! A condensed segment takes the place of a live one that was sealed: it is born in the same way, over the live one's
//! name. Its header says which lsns the live one held, and what stands behind it is packed (`condensed`). Read into
//! memory, both look alike: a header, and frames behind it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError, File, whole};
use crate::ids::Lsn;
use crate::limits::OPEN_ROOM_BYTES;
use crate::store::error::StoreError;
use crate::store::format::{StoreId, random};
use crate::store::log::condensed;
use crate::store::log::frame::FRAME_HEAD_BYTES;
use crate::store::wide;

/// Bytes before the first frame.
pub(super) const SEGMENT_HEAD_BYTES: usize = 80;
/// The version of live segments; a condensed one has the next, so that an older program does not take it for damage.
const SEGMENT_VERSION: u16 = 1;
/// The version of condensed segments, and the highest that is read.
const CONDENSED_VERSION: u16 = 2;
const MAGIC: [u8; 8] = *b"gagglelg";
/// A segment that frames are appended to.
const KIND_LIVE: u8 = 1;
/// A segment that was sealed, and written anew.
const KIND_CONDENSED: u8 = 2;
/// Zeros are written in pieces of this size, and condensed bytes are synced so: a commit waits no longer for its own sync.
const FILL_BYTES: usize = 1024 * 1024;

const NEW_SUFFIX: &str = ".new";
const SUFFIX: &str = ".log";

/// What a segment's header says, and which file it is.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) nonce: u64,
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
    /// None while it is live.
    pub(super) condensed: Option<Condensed>,
}

/// The last frame that a condensed segment may stand for. Frames are numbered without a gap from 1, and only such a
/// segment leaves some out: so no frame of a log comes near the last number there is, which the next one would bear again.
const CONDENSED_LSN_MAX: Lsn = Lsn::new(u64::MAX / 2);

/// What the header of a condensed segment says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condensed {
    /// The first frame that stood in it when it was live.
    pub(super) first: Lsn,
    /// The last one.
    pub(super) last: Lsn,
    /// Operations in it.
    pub(super) ops: u32,
}

/// The file of this number.
pub(super) fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}{SUFFIX}"))
}

/// The number in a file name, if it is one that this version would give.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (format!("{number:08}{SUFFIX}") == name).then_some(number)
}

/// Whether a file is one whose birth did not come to its end.
pub(super) fn is_unborn(name: &str) -> bool {
    name.ends_with(NEW_SUFFIX)
}

/// The nonce that a header names which is not right as a whole, unless it names another store.
pub(super) fn nonce_in(bytes: &[u8], store: StoreId) -> Option<u64> {
    let nonce = bytes.get(24..32).and_then(<[u8]>::first_chunk::<8>).copied().map(u64::from_be_bytes)?;
    // Zeros are what a segment is filled with, and no nonce to look for.
    (nonce != 0 && bytes.get(32..48) == Some(&store.bytes())).then_some(nonce)
}

fn damaged(path: &Path, what: impl Into<String>) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what: what.into() }
}

impl Segment {
    /// Makes a segment, durably; in place of an empty one of the same number, if there is one. Nothing is begun where the
    /// disk has no room for it, and for an open afterwards; what could not be made to its end gives its room back.
    pub(super) fn create(
        disk: &dyn Disk,
        folder: &Path,
        store: StoreId,
        number: u64,
        bytes: u64,
    ) -> Result<Segment, StoreError> {
        let nonce = u64::from_be_bytes(random()?);
        let segment = Segment { number, nonce, bytes, path: path_of(folder, number), condensed: None };
        segment.write(disk, folder, &mut |file| {
            fill(file, bytes)?;
            file.write_at(0, &segment.head(store))?;
            Ok(file.sync()?)
        })?;
        segment.take_name(disk, folder)?;
        Ok(segment)
    }

    /// Writes what is to take the place of this one by [`Segment::take_name`]: a condensed segment with the frames in
    /// `image`, which is what [`Segment::read`] gives, with this nonce.
    pub(super) fn condense(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        store: StoreId,
        says: Condensed,
        image: &[u8],
    ) -> Result<Segment, StoreError> {
        let frames = image.get(SEGMENT_HEAD_BYTES..).unwrap_or_default();
        let packed = condensed::pack(frames, self.nonce).map_err(|what| damaged(&self.path, what))?;
        let bytes = wide(SEGMENT_HEAD_BYTES.saturating_add(packed.len()));
        let segment = Segment { bytes, condensed: Some(says), ..self.clone() };
        let whole = [segment.head(store), packed].concat();
        segment.write(disk, folder, &mut |file| {
            let mut offset = 0;
            for piece in whole.chunks(FILL_BYTES) {
                file.write_at(offset, piece)?;
                file.sync()?;
                offset = offset.saturating_add(wide(piece.len()));
            }
            Ok(())
        })?;
        Ok(segment)
    }

    /// Gives what was written its own name, durably. Where that fails nobody knows which one a power loss would leave
    /// under that name, and no later sync tells.
    pub(super) fn take_name(&self, disk: &dyn Disk, folder: &Path) -> Result<(), StoreError> {
        disk.rename(&self.unborn(folder), &self.path)?;
        Ok(disk.sync_folder(folder)?)
    }

    fn unborn(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{:08}{NEW_SUFFIX}", self.number))
    }

    /// Writes it durably under another name.
    fn write(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        write: &mut dyn FnMut(&mut dyn File) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let new = self.unborn(folder);
        whole::remove(disk, &new)?;
        check_room(disk, folder, self)?;
        let written = disk.create(&new).map_err(StoreError::from).and_then(|mut file| write(&mut *file));
        if let Err(error) = written {
            // Why it could not be made is what counts; what stays of it is removed at the next attempt or open.
            drop(disk.remove(&new));
            return Err(error);
        }
        Ok(())
    }

    pub(super) fn head(&self, store: StoreId) -> Vec<u8> {
        let (version, kind) = match self.condensed {
            None => (SEGMENT_VERSION, KIND_LIVE),
            Some(_) => (CONDENSED_VERSION, KIND_CONDENSED),
        };
        let mut head = Vec::with_capacity(SEGMENT_HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&version.to_be_bytes());
        head.extend_from_slice(&[kind, 0, 0, 0, 0, 0]);
        head.extend_from_slice(&self.number.to_be_bytes());
        head.extend_from_slice(&self.nonce.to_be_bytes());
        head.extend_from_slice(&store.bytes());
        head.extend_from_slice(&self.bytes.to_be_bytes());
        let says = self.condensed.unwrap_or(Condensed { first: Lsn::ZERO, last: Lsn::ZERO, ops: 0 });
        head.extend_from_slice(&says.first.value().to_be_bytes());
        head.extend_from_slice(&says.last.value().to_be_bytes());
        head.extend_from_slice(&says.ops.to_be_bytes());
        head.extend_from_slice(&crc32c::crc32c(&head).to_be_bytes());
        head
    }

    /// Reads a whole segment into a buffer that is used again, and checks its header. A condensed one is unpacked: what
    /// stands in the buffer are a header and frames in any case.
    pub(super) fn read(
        disk: &dyn Disk,
        folder: &Path,
        store: StoreId,
        number: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Segment, StoreError> {
        let (segment, file) = Segment::open(disk, folder, store, number)?;
        buffer.clear();
        buffer.resize(usize::try_from(segment.bytes).unwrap_or(usize::MAX), 0);
        file.read_at(0, buffer)?;
        if segment.condensed.is_some() {
            let (head, packed) = buffer.split_at_checked(SEGMENT_HEAD_BYTES).unwrap_or_default();
            let frames = condensed::unpack(packed, segment.nonce).map_err(|what| damaged(&segment.path, what))?;
            *buffer = [head, &frames].concat();
        }
        Ok(segment)
    }

    /// Checks the header of a segment and its length, and returns what stands where the head of its first frame would;
    /// zeros where it is condensed, and says itself what it holds.
    pub(super) fn look(
        disk: &dyn Disk,
        folder: &Path,
        store: StoreId,
        number: u64,
    ) -> Result<(Segment, [u8; FRAME_HEAD_BYTES]), StoreError> {
        let (segment, file) = Segment::open(disk, folder, store, number)?;
        let mut head = [0; FRAME_HEAD_BYTES];
        if segment.condensed.is_none() && segment.bytes >= wide(SEGMENT_HEAD_BYTES + FRAME_HEAD_BYTES) {
            file.read_at(wide(SEGMENT_HEAD_BYTES), &mut head)?;
        }
        Ok((segment, head))
    }

    /// Opens a segment whose header and length are right. The length is believed, and memory taken, only then.
    fn open(
        disk: &dyn Disk,
        folder: &Path,
        store: StoreId,
        number: u64,
    ) -> Result<(Segment, Box<dyn File>), StoreError> {
        let path = path_of(folder, number);
        let file = disk.open(&path)?;
        let length = file.len()?;
        let mut head = [0; SEGMENT_HEAD_BYTES];
        if length < wide(SEGMENT_HEAD_BYTES) {
            return Err(damaged(&path, "it is shorter than its header"));
        }
        file.read_at(0, &mut head)?;
        Ok((Segment::check(path, &head, length, store, number)?, file))
    }

    fn check(
        path: PathBuf,
        head: &[u8; SEGMENT_HEAD_BYTES],
        length: u64,
        store: StoreId,
        number: u64,
    ) -> Result<Segment, StoreError> {
        let part = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk::<8>).copied().map(u64::from_be_bytes);
        let number_at = |at: usize| part(at).unwrap_or_default();
        if head.get(..8) != Some(&MAGIC) {
            return Err(damaged(&path, "it does not begin as a segment of the log"));
        }
        let (said, check) = head.split_at(SEGMENT_HEAD_BYTES - 4);
        if crc32c::crc32c(said).to_be_bytes() != check {
            return Err(damaged(&path, "the checksum of its header does not match"));
        }
        let version_and_kind = number_at(8) >> 40;
        let of = |version: u16, kind: u8| (u64::from(version) << 8) | u64::from(kind);
        let is_condensed = version_and_kind == of(CONDENSED_VERSION, KIND_CONDENSED);
        if !is_condensed && version_and_kind != of(SEGMENT_VERSION, KIND_LIVE) {
            return Err(StoreError::Newer { path, found: version_and_kind >> 8, known: u64::from(CONDENSED_VERSION) });
        }
        if head.get(32..48) != Some(&store.bytes()) {
            return Err(damaged(&path, "it belongs to another store"));
        }
        if number_at(16) != number {
            return Err(damaged(&path, format!("it is segment {} under another name", number_at(16))));
        }
        if number_at(48) != length {
            return Err(damaged(&path, format!("it has {length} bytes, not {}", number_at(48))));
        }
        let ops = u32::try_from(number_at(72) >> 32).unwrap_or(u32::MAX);
        let says = Condensed { first: Lsn::new(number_at(56)), last: Lsn::new(number_at(64)), ops };
        if is_condensed && (says.first == Lsn::ZERO || says.last < says.first || says.last > CONDENSED_LSN_MAX) {
            return Err(damaged(&path, format!("it says that it holds frames {} to {}", says.first, says.last)));
        }
        let condensed = is_condensed.then_some(says);
        Ok(Segment { number, nonce: number_at(24), bytes: length, path, condensed })
    }
}

fn check_room(disk: &dyn Disk, folder: &Path, segment: &Segment) -> Result<(), StoreError> {
    let needed = segment.bytes.saturating_add(OPEN_ROOM_BYTES);
    let free = disk.free_bytes(folder)?;
    if free >= needed {
        return Ok(());
    }
    let why = format!("{} MB must be free, {} MB are", needed >> 20, free >> 20);
    let source = io::Error::new(ErrorKind::StorageFull, why);
    Err(DiskError { action: "make", path: segment.path.clone(), source }.into())
}

/// Really writes zeros: a segment that is only preallocated costs a fifth of the throughput.
fn fill(file: &mut dyn File, bytes: u64) -> Result<(), StoreError> {
    let zeros = vec![0; FILL_BYTES.min(usize::try_from(bytes).unwrap_or(usize::MAX))];
    let mut done = 0;
    while done < bytes {
        let step = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(zeros.len());
        file.write_at(done, zeros.get(..step).unwrap_or(&zeros))?;
        done = done.saturating_add(wide(step));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::simulated::SimulatedDisk;

    const STORE: StoreId = StoreId::new([3; 16]);

    #[test]
    fn a_segment_has_its_golden_header() {
        let segment = Segment { number: 2, nonce: 0x55, bytes: 4096, path: PathBuf::new(), condensed: None };
        let hex = |segment: &Segment| segment.head(STORE).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let said = "676167676c656c670001010000000000\
            00000000000000020000000000000055\
            03030303030303030303030303030303\
            00000000000010000000000000000000\
            00000000000000000000000095fc6d60";
        assert_eq!(hex(&segment), said);
        let says = Condensed { first: Lsn::new(7), last: Lsn::new(9), ops: 5 };
        let condensed = Segment { bytes: 100, condensed: Some(says), ..segment };
        let said = "676167676c656c670002020000000000\
            00000000000000020000000000000055\
            03030303030303030303030303030303\
            00000000000000640000000000000007\
            000000000000000900000005";
        assert_eq!(&hex(&condensed)[..152], said);
    }

    #[test]
    fn a_condensed_segment_that_leaves_what_follows_no_numbers_is_damage() {
        let folder = Path::new("/log");
        let look_at = |last| {
            let says = Condensed { first: Lsn::new(1), last, ops: 0 };
            let bytes = SEGMENT_HEAD_BYTES as u64 + 9;
            let segment = Segment { number: 1, nonce: 0x55, bytes, path: PathBuf::new(), condensed: Some(says) };
            let file = [segment.head(STORE).as_slice(), &[0; 9]].concat();
            let path = path_of(folder, 1);
            let disk = SimulatedDisk::holding(folder, [(path.as_path(), file.as_slice())]).unwrap();
            Segment::look(&disk, folder, STORE, 1).map(|(segment, _)| segment.condensed)
        };
        assert!(look_at(CONDENSED_LSN_MAX).unwrap().is_some_and(|says| says.last == CONDENSED_LSN_MAX));
        for last in [CONDENSED_LSN_MAX.next(), Lsn::new(u64::MAX)] {
            let error = look_at(last).unwrap_err();
            assert!(matches!(&error, StoreError::Damaged { path, .. } if path == &path_of(folder, 1)), "{error}");
        }
    }

    #[test]
    fn names_are_numbers_of_eight_digits_or_more() {
        assert_eq!(number_of("00000007.log"), Some(7));
        assert_eq!(number_of("123456789.log"), Some(123_456_789));
        assert!(
            ["7.log", "0000000x.log", "00000007.new", "+0000007.log", ".log"].iter().all(|n| number_of(n).is_none())
        );
    }

    #[test]
    fn a_segment_is_whole_under_its_name_after_any_crash_in_its_birth() {
        let folder = Path::new("/log");
        for seed in 0..200 {
            let disk = SimulatedDisk::new();
            disk.create_folder(folder).unwrap();
            disk.fail_syncs(seed % 3, "log");
            let made = Segment::create(&disk, folder, STORE, 1, 4096).is_ok();
            let disk = disk.crash(seed);
            let found = disk.exists(&path_of(folder, 1)).unwrap();
            assert!(found || !made);
            if found {
                Segment::read(&disk, folder, STORE, 1, &mut Vec::new()).unwrap();
            }
        }
    }

    #[test]
    fn a_segment_without_room_takes_none() {
        let folder = Path::new("/log");
        let disk = SimulatedDisk::new();
        disk.create_folder(folder).unwrap();
        disk.set_free_bytes(OPEN_ROOM_BYTES + 4095);
        let error = Segment::create(&disk, folder, STORE, 1, 4096).unwrap_err();
        assert_eq!(error.class(), crate::store::StoreErrorClass::Full);
        disk.set_free_bytes(OPEN_ROOM_BYTES + 4096);
        disk.fail_writes(1, "log");
        assert!(Segment::create(&disk, folder, STORE, 1, 4096).is_err());
        assert_eq!(disk.list(folder).unwrap(), [""; 0]);
        assert_eq!(disk.free_bytes(folder).unwrap(), OPEN_ROOM_BYTES + 4096);
        Segment::create(&disk, folder, STORE, 1, 4096).unwrap();
    }

    #[test]
    fn any_flipped_bit_of_the_header_and_any_cut_is_named() {
        let folder = Path::new("/log");
        let disk = SimulatedDisk::new();
        disk.create_folder(folder).unwrap();
        Segment::create(&disk, folder, STORE, 1, 256).unwrap();
        let file = || disk.open(&path_of(folder, 1)).unwrap();
        let read = |store: StoreId| Segment::read(&disk, folder, store, 1, &mut Vec::new());
        for index in 0..SEGMENT_HEAD_BYTES as u64 {
            for bit in 0..8 {
                let mut byte = [0];
                file().read_at(index, &mut byte).unwrap();
                file().write_at(index, &[byte[0] ^ (1 << bit)]).unwrap();
                let error = read(STORE).unwrap_err();
                assert!(matches!(&error, StoreError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains("00000001.log"), "{error}");
                file().write_at(index, &byte).unwrap();
            }
        }
        assert!(read(STORE).is_ok());
        assert!(read(StoreId::new([4; 16])).is_err());
        file().set_len(257).unwrap();
        assert!(matches!(read(STORE), Err(StoreError::Damaged { .. })));
        for length in (0..256).rev() {
            file().set_len(length).unwrap();
            assert!(matches!(read(STORE), Err(StoreError::Damaged { .. })));
        }
    }

    #[test]
    fn a_segment_under_another_name_is_refused() {
        let folder = Path::new("/log");
        let disk = SimulatedDisk::new();
        disk.create_folder(folder).unwrap();
        Segment::create(&disk, folder, STORE, 1, 256).unwrap();
        disk.rename(&path_of(folder, 1), &path_of(folder, 2)).unwrap();
        let error = Segment::read(&disk, folder, STORE, 2, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("it is segment 1 under another name"), "{error}");
    }
}
