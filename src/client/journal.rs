//! An append-only, checksummed file of a profile: the outbox and the inbox are two of them.
//!
//! A record is `marker u32 | len u32 | crc32c u32 | synced u64 | body`, big-endian; the checksum covers the record's offset
//! and everything in it but itself, and the marker comes from the file's own random number. `synced` is the byte up to
//! which the file was known to be durable when the record was written: a bad record below that is damage and named,
//! never skipped; what a crash leaves of writes that were not synced is cut. A file is made, and made anew without what
//! is dead, beside itself and renamed, so that its header is always whole; readers notice by its number.
//!
//! Several processes may read. Who writes holds a lock that the owner of the journal chooses, and has caught up.

use std::path::{Path, PathBuf};

use crate::client::chance;
use crate::client::error::ProfileError;
use crate::disk::{DiskError, File, SharedDisk, whole};

const MAGIC_BYTES: usize = 8;
const NUMBER_BYTES: usize = 8;
/// Magic, number, checksum of both.
const HEADER_BYTES: usize = MAGIC_BYTES + NUMBER_BYTES + 4;
/// Marker, length, checksum, synced.
const RECORD_HEAD_BYTES: usize = 20;
/// The number of no file: of one that was not read yet.
const NONE: u64 = 0;
/// No record is larger: a message or an item, with room.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Caught {
    /// True: the file was made anew, and the records are all of it. False: they follow what was read before.
    pub(super) anew: bool,
    /// The bodies, in order.
    pub(super) records: Vec<Vec<u8>>,
}

/// A reader and writer of such a file.
#[derive(Debug)]
pub(super) struct Journal {
    disk: SharedDisk,
    folder: PathBuf,
    path: PathBuf,
    magic: [u8; MAGIC_BYTES],
    number: u64,
    end: u64,
    synced: u64,
    /// Where the last record that was read begins, and its head: what a writer took back and wrote over is known by it.
    last: Option<(u64, [u8; RECORD_HEAD_BYTES])>,
    file: Option<Box<dyn File>>,
}

impl Journal {
    /// The journal of this name in this folder; touches nothing.
    pub(super) fn new(disk: SharedDisk, folder: &Path, name: &str, magic: [u8; MAGIC_BYTES]) -> Journal {
        let path = folder.join(name);
        Journal {
            disk,
            folder: folder.to_owned(),
            path,
            magic,
            number: NONE,
            end: 0,
            synced: 0,
            last: None,
            file: None,
        }
    }

    /// Bytes that are known to be good.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Reads what is new. A half-written end is not reported: its writer may be at it.
    pub(super) fn catch_up(&mut self) -> Result<Caught, ProfileError> {
        self.read(false)
    }

    /// Reads what is new and cuts a half-written end. The caller holds the writers' lock.
    pub(super) fn catch_up_to_write(&mut self) -> Result<Caught, ProfileError> {
        if !self.disk.exists(&self.path)? {
            self.rewrite(&[])?;
            return Ok(Caught { anew: true, records: Vec::new() });
        }
        self.read(true)
    }

    fn read(&mut self, to_write: bool) -> Result<Caught, ProfileError> {
        if !self.disk.exists(&self.path)? {
            return Ok(Caught { anew: false, records: Vec::new() });
        }
        let mut file = self.disk.open(&self.path)?;
        let number = self.header(file.as_ref())?;
        let anew = number != self.number || !self.still_holds_the_last(file.as_ref())?;
        if anew {
            self.number = number;
            self.end = HEADER_BYTES as u64;
            self.synced = self.end;
            self.last = None;
        }
        let bytes = read_from(file.as_ref(), self.end)?;
        let (records, good, synced) = self.cut(&bytes);
        if to_write {
            self.check_rest(&bytes, good)?;
        }
        self.synced = self.synced.max(synced);
        self.note_last(&bytes, &records, good);
        self.end += good as u64;
        if to_write && good < bytes.len() {
            file.set_len(self.end)?;
            file.sync()?;
        }
        self.file = Some(file);
        Ok(Caught { anew, records })
    }

    /// Whether what was read is still what the file says. Another process may have taken back what it could not sync, and
    /// others may have written in its place: then everything is read again. What was synced does not change.
    fn still_holds_the_last(&self, file: &dyn File) -> Result<bool, ProfileError> {
        let length = file.len()?;
        if length < self.synced {
            return Err(self.damaged(format!("it is shorter than the {} bytes that were synced", self.synced)));
        }
        let Some((at, known)) = self.last.filter(|_| length >= self.end) else { return Ok(length >= self.end) };
        let mut head = [0; RECORD_HEAD_BYTES];
        file.read_at(at, &mut head)?;
        if head != known && at < self.synced {
            return Err(self.damaged(format!("the record at byte {at} has changed, and was synced")));
        }
        Ok(head == known)
    }

    /// Notes the last of these records, which take the first `good` of these bytes, which lie at `end`.
    fn note_last(&mut self, bytes: &[u8], records: &[Vec<u8>], good: usize) {
        let Some(body) = records.last() else { return };
        let start = good.saturating_sub(RECORD_HEAD_BYTES + body.len());
        let head = bytes.get(start..).and_then(|rest| rest.first_chunk());
        self.last = head.map(|head| (self.end + start as u64, *head));
    }

    fn header(&self, file: &dyn File) -> Result<u64, ProfileError> {
        let mut bytes = [0; HEADER_BYTES];
        if file.len()? < HEADER_BYTES as u64 {
            return Err(self.damaged("it has no whole header".to_owned()));
        }
        file.read_at(0, &mut bytes)?;
        let (stated, sum) = bytes.split_at(MAGIC_BYTES + NUMBER_BYTES);
        let (magic, number) = stated.split_at(MAGIC_BYTES);
        if magic != self.magic {
            return Err(self.damaged("it is of another kind or version".to_owned()));
        }
        match (crc32c::crc32c(stated).to_be_bytes() == *sum, <[u8; NUMBER_BYTES]>::try_from(number)) {
            (true, Ok(number)) if u64::from_be_bytes(number) != NONE => Ok(u64::from_be_bytes(number)),
            (true | false, _) => Err(self.damaged("its header does not check".to_owned())),
        }
    }

    /// The whole records at the start of these bytes, which lie at `end`, how many bytes they take, and up to where
    /// they say the file was synced.
    fn cut(&self, bytes: &[u8]) -> (Vec<Vec<u8>>, usize, u64) {
        let mut records = Vec::new();
        let mut good = 0;
        let mut highest = 0;
        while let Some((synced, body)) = bytes.get(good..).and_then(|rest| self.record(rest, self.end + good as u64)) {
            good += RECORD_HEAD_BYTES + body.len();
            records.push(body.to_vec());
            highest = highest.max(synced);
        }
        (records, good, highest)
    }

    /// What follows the good records was never synced, or else is damage: then a record behind it says so.
    fn check_rest(&self, bytes: &[u8], good: usize) -> Result<(), ProfileError> {
        let marker = self.marker().to_be_bytes();
        let rest = bytes.get(good..).unwrap_or_default();
        for (at, _) in rest.windows(marker.len()).enumerate().filter(|(_, window)| *window == marker) {
            let offset = self.end + (good + at) as u64;
            let bad = self.end + good as u64;
            let later = rest.get(at..).and_then(|rest| self.record(rest, offset));
            if later.is_some_and(|(synced, _)| synced > bad) {
                return Err(self.damaged(format!("the record at byte {bad} does not check, and was synced")));
            }
        }
        Ok(())
    }

    fn record<'a>(&self, bytes: &'a [u8], offset: u64) -> Option<(u64, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(RECORD_HEAD_BYTES)?;
        let (marker, head) = head.split_first_chunk::<4>()?;
        let (length, head) = head.split_first_chunk::<4>()?;
        let (sum, head) = head.split_first_chunk::<4>()?;
        let synced = u64::from_be_bytes(head.try_into().ok()?);
        let length = u32::from_be_bytes(*length) as usize;
        // What was synced when a record was written lies before it.
        if u32::from_be_bytes(*marker) != self.marker() || length > BODY_BYTES_MAX || synced > offset {
            return None;
        }
        let body = rest.get(..length)?;
        (checksum(offset, synced, body) == u32::from_be_bytes(*sum)).then_some((synced, body))
    }

    fn marker(&self) -> u32 {
        marker(self.number)
    }

    /// Writes these behind what was read, with one write. They are kept for certain once synced. The caller holds the
    /// writers' lock and has caught up under it.
    pub(super) fn append(&mut self, bodies: &[Vec<u8>]) -> Result<(), ProfileError> {
        let bytes = self.framed(bodies, self.end);
        let Some(file) = self.file.as_mut() else { return Err(self.damaged("it was not opened".to_owned())) };
        if let Err(error) = file.write_at(self.end, &bytes) {
            // What was written of it is cut now, or else by the next writer.
            let cut = file.set_len(self.end);
            return Err(cut.err().unwrap_or(error).into());
        }
        self.note_last(&bytes, bodies, bytes.len());
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes everything written so far durable, whoever wrote it.
    pub(super) fn sync(&mut self) -> Result<(), ProfileError> {
        match self.file.as_mut() {
            Some(file) => {
                file.sync()?;
                self.synced = self.end;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Forgets what was read: the next reading begins anew.
    pub(super) fn forget(&mut self) {
        self.number = NONE;
        self.file = None;
    }

    /// Cuts what was written behind this byte, and forgets what was read: the next reading begins anew.
    pub(super) fn go_back(&mut self, end: u64) -> Result<(), ProfileError> {
        self.synced = self.synced.min(end);
        let file = self.file.take();
        self.forget();
        let Some(mut file) = file else { return Ok(()) };
        if file.len()? > end { Ok(file.set_len(end)?) } else { Ok(()) }
    }

    /// Replaces the file by one with these records only, durably. The caller holds the writers' lock.
    pub(super) fn rewrite(&mut self, bodies: &[Vec<u8>]) -> Result<(), ProfileError> {
        self.disk.create_folder(&self.folder)?;
        let beside = self.path.with_extension("new");
        whole::remove(self.disk.as_ref(), &beside)?;
        let old = (self.number, self.synced);
        self.synced = HEADER_BYTES as u64;
        self.number = chance::number()?.max(NONE + 1);
        let mut bytes = [self.magic.as_slice(), &self.number.to_be_bytes()].concat();
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        bytes.extend(self.framed(bodies, HEADER_BYTES as u64));
        let written = self.replace(&beside, &bytes);
        match written {
            Ok(file) => {
                self.file = Some(file);
                self.end = 0;
                self.last = None;
                self.note_last(&bytes, bodies, bytes.len());
                self.end = bytes.len() as u64;
                self.synced = self.end;
                Ok(())
            }
            Err(error) => {
                (self.number, self.synced) = old;
                Err(error.into())
            }
        }
    }

    fn replace(&self, beside: &Path, bytes: &[u8]) -> Result<Box<dyn File>, DiskError> {
        let mut file = self.disk.create(beside)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        self.disk.rename(beside, &self.path)?;
        self.disk.sync_folder(&self.folder)?;
        self.disk.open(&self.path)
    }

    fn framed(&self, bodies: &[Vec<u8>], mut offset: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bodies.iter().map(|body| RECORD_HEAD_BYTES + body.len()).sum());
        for body in bodies {
            put_record(&mut bytes, self.marker(), offset, self.synced, body);
            offset += (RECORD_HEAD_BYTES + body.len()) as u64;
        }
        bytes
    }

    fn damaged(&self, what: String) -> ProfileError {
        ProfileError::Damaged { file: self.path.display().to_string(), what }
    }

    /// The error for a record that makes no sense although it checks.
    pub(super) fn senseless(&self, what: &dyn std::fmt::Display) -> ProfileError {
        self.damaged(what.to_string())
    }
}

/// A marker is never zero, so that zeros are no record.
fn marker(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) | 1
}

fn put_record(bytes: &mut Vec<u8>, marker: u32, offset: u64, synced: u64, body: &[u8]) {
    bytes.extend(marker.to_be_bytes());
    bytes.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(checksum(offset, synced, body).to_be_bytes());
    bytes.extend(synced.to_be_bytes());
    bytes.extend(body);
}

/// A record as it stands at this byte of the file of this number, for proofs that build such files.
#[cfg(feature = "proof")]
pub(super) fn framed_at(number: u64, offset: u64, synced: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_record(&mut bytes, marker(number), offset, synced, body);
    bytes
}

fn checksum(offset: u64, synced: u64, body: &[u8]) -> u32 {
    let start = crc32c::crc32c(&offset.to_be_bytes());
    let start = crc32c::crc32c_append(start, &synced.to_be_bytes());
    let start = crc32c::crc32c_append(start, &(body.len() as u64).to_be_bytes());
    crc32c::crc32c_append(start, body)
}

fn read_from(file: &dyn File, offset: u64) -> Result<Vec<u8>, DiskError> {
    let length = file.len()?.saturating_sub(offset);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_at(offset, &mut bytes)?;
    Ok(bytes)
}
