//! What must hold of whatever bytes stand in a data folder: for the fuzzer, and for the test that runs its corpora.
//!
//! Each function takes bytes that may be anything, and panics where a claim is broken: that what is read is the one
//! encoding of its value, that bounds are kept, that a refusal is a typed error which names the file. The log's claims
//! stand beside the log, those of sled's files beside what reads them. `tests/fuzz/README.md` says how to run them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a proof that meets what it does not expect should fail loudly"
)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

pub use crate::store::index::fuzzed::sled_files;
pub use crate::store::log::fuzzed::{folder as log_folder, frame as log_frame, segments as log_segments};

use crate::disk::simulated::SimulatedDisk;
use crate::disk::{Disk, SharedDisk, whole};
use crate::ids::{DeviceId, Lsn, MessageId, UserId};
use crate::limits::{EXTENSION_BYTES_MAX, EXTENSIONS_MAX};
use crate::proof::input::Input;
use crate::store::error::StoreErrorClass;
use crate::store::flushed::{self, CHECKED_BYTES, FLUSHED_NAME, Flushed, SAID_BYTES, SLOT_BYTES, Slot};
use crate::store::format::{FORMAT_NAME, Format, StoreId};
use crate::store::keys;
use crate::store::records::{
    CursorRecord, DeviceRecord, Extensions, GroupRecord, HandleRecord, InviteRecord, KeyRecord, MemberRecord,
    MembershipRecord, MessageRecord, MetaRecord, OwnRecord, RecalledRecord, SendRecord, SendWindowRecord, UserRecord,
};

const FOLDER: &str = "/data";
const STORE: StoreId = StoreId::new([7; 16]);

macro_rules! one_of {
    ($kind:expr, $bytes:expr, $($number:literal $name:ident),*) => {
        match $kind {
            $($number => match $name::decode($bytes) {
                Ok(record) => {
                    bounded(&record.extensions);
                    assert!(record.encode() == $bytes, "a {} has one form", stringify!($name));
                }
                Err(error) => assert!(error.to_string().len() < 200),
            },)*
            _ => {}
        }
    };
}

/// The record of some tree; the first byte says of which.
pub fn record(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = input.byte() % 15;
    let bytes = &Bytes::copy_from_slice(input.0);
    one_of!(kind, bytes, 0 CursorRecord, 1 MemberRecord, 2 RecalledRecord, 3 OwnRecord, 4 GroupRecord, 5 UserRecord,
        6 DeviceRecord, 7 InviteRecord, 8 HandleRecord, 9 KeyRecord, 10 MembershipRecord, 11 SendRecord,
        12 SendWindowRecord, 13 MetaRecord, 14 MessageRecord);
    if let Ok(record) = MessageRecord::decode(bytes) {
        let end = bytes.as_ptr_range().end;
        assert!(record.item.as_ptr_range().end == end, "the item is a slice of the record");
    }
}

fn bounded(extensions: &Extensions) {
    let bytes: usize = extensions.0.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(extensions.0.len() <= EXTENSIONS_MAX && bytes <= EXTENSION_BYTES_MAX);
}

/// Two keys of equal length: whatever parses builds the same bytes again, and their order is that of their parts.
pub fn key(bytes: &[u8]) {
    let (one, rest) = bytes.split_at(bytes.len() / 2);
    let other = &rest[..one.len()];
    ordered(one, other, keys::parse_message, |(group, msgid)| {
        assert!(*msgid <= MessageId::MAX);
        keys::message(*group, *msgid)
    });
    ordered(one, other, keys::parse_cursor, |(group, user, device)| {
        assert!(*user <= UserId::MAX && *device <= DeviceId::MAX);
        keys::cursor(*group, *user, *device)
    });
    ordered(one, other, keys::parse_member, |(group, user)| keys::member(*group, *user));
    ordered(one, other, keys::parse_own, |(group, user, ordinal)| keys::own(*group, *user, *ordinal));
    ordered(one, other, keys::parse_mention, |(group, user, number)| keys::mention(*group, *user, *number));
    ordered(one, other, keys::parse_group, |group| keys::group(*group));
    ordered(one, other, keys::parse_user, |user| keys::user(*user));
    ordered(one, other, keys::parse_device, |device| keys::device(*device));
    ordered(one, other, keys::parse_digest, keys::digest);
    ordered(one, other, |key| keys::parse_name(key).map(str::to_owned), |name| keys::name(name));
    ordered(one, other, keys::parse_membership, |(user, group)| keys::membership(*user, *group));
    ordered(one, other, keys::parse_send, |(device, seq)| keys::send(*device, *seq));
}

fn ordered<K: Ord>(
    one: &[u8],
    other: &[u8],
    parse: impl Fn(&[u8]) -> Result<K, keys::KeyError>,
    build: impl Fn(&K) -> Bytes,
) {
    let parsed = [one, other].map(|key| parse(key).inspect(|parts| assert!(build(parts) == key, "a key has one form")));
    if let [Ok(first), Ok(second)] = parsed {
        assert!(first.cmp(&second) == one.cmp(other), "the order of bytes is the order of parts");
    }
}

/// The file FORMAT. The first byte says whether its checksum is mended.
pub fn format(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mended = input.byte() & 1 == 0;
    let mut text = input.0.to_vec();
    if mended {
        let check = crc32c::crc32c(&text);
        text.extend_from_slice(format!("check {check:08x}\n").as_bytes());
    }
    let disk = disk_with(FORMAT_NAME, &text);
    match Format::read(&disk, Path::new(FOLDER)) {
        Ok(format) => {
            let fresh = SimulatedDisk::new();
            fresh.create_folder(Path::new(FOLDER)).unwrap();
            format.unwrap().write(&fresh, Path::new(FOLDER)).unwrap();
            assert!(contents(&fresh, FORMAT_NAME) == text, "FORMAT has one form");
        }
        Err(error) => {
            assert!(matches!(error.class(), StoreErrorClass::Damaged | StoreErrorClass::Newer), "{error}");
            assert!(error.to_string().contains(FORMAT_NAME), "{error}");
        }
    }
    assert!(contents(&disk, FORMAT_NAME) == text, "reading touches nothing");
}

/// The file that records how far the index is durable: two slots. The first byte says which checksums are mended.
pub fn flushed(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flags = input.byte();
    let mut file = input.0.to_vec();
    if flags & 4 != 0 {
        // Slots lie far apart: a fuzzer gives them side by side.
        let (first, second) = file.split_at(file.len().min(64));
        file = [first, &vec![0; SLOT_BYTES - first.len()], second].concat();
    }
    for (bit, place) in [(1, 0), (2, SLOT_BYTES)] {
        if let Some(slot) = file.get_mut(place..place + CHECKED_BYTES).filter(|_| flags & bit != 0) {
            let (said, check) = slot.split_at_mut(SAID_BYTES);
            check.copy_from_slice(&crc32c::crc32c(said).to_be_bytes());
        }
    }
    let disk = disk_with(FLUSHED_NAME, &file);
    let shared: SharedDisk = Arc::new(disk.clone());
    let read = || Flushed::read(&shared, Path::new(FOLDER), STORE).unwrap();
    let known = read().known();
    let slots = flushed::slots_in(&disk, Path::new(FOLDER), STORE).unwrap();
    assert!(known.is_some() == slots.contains(&Slot::Valid), "what is known stands in a valid slot");
    assert!(contents(&disk, FLUSHED_NAME) == file, "reading touches nothing");
    let lsn = known.map_or(Lsn::new(1), |known| known.lsn.next());
    let mut writer = read();
    writer.record_opening().unwrap();
    let opening = read().known().unwrap();
    assert!(opening.opens == known.map_or(0, |known| known.opens).saturating_add(1) && opening.files.is_none());
    assert!(opening.lsn == known.map_or(Lsn::ZERO, |known| known.lsn), "an lsn is never forgotten");
    writer.record_doubt().unwrap();
    assert!(read().known().unwrap().doubt);
    writer.record(lsn).unwrap();
    let recorded = read().known().unwrap();
    assert!((recorded.lsn, recorded.opens, recorded.doubt) == (lsn, 0, false), "what was recorded is read");
}

fn disk_with(name: &str, bytes: &[u8]) -> SimulatedDisk {
    SimulatedDisk::holding(Path::new(FOLDER), [(Path::new(name), bytes)]).unwrap()
}

fn contents(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    whole::read(disk, &Path::new(FOLDER).join(name), usize::MAX).unwrap().unwrap()
}
