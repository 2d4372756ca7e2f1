//! What must hold of whatever stands in the files of a profile: for the fuzzer, and for the test that runs its corpora.
//!
//! Each function takes bytes that may be anything, and panics where a claim is broken: reading touches nothing, what is
//! damaged is named, what is read makes sense, and a file that was taken goes on as the same file. The journals are
//! built mostly with right checksums, since nothing else comes far. `tests/fuzz/README.md` says how to run them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a proof that meets what it does not expect should fail loudly"
)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::client::error::ProfileError;
use crate::client::inbox_file::{self, InboxFile};
use crate::client::journal::{self, Journal};
use crate::client::outbox_file::{self, OutboxFile};
use crate::client::profile::{self, Begun, Profile};
use crate::core::inbox::{Delivery, Row};
use crate::core::outbox::{Change, Entry, Outbox};
use crate::disk::simulated::SimulatedDisk;
use crate::disk::{SharedDisk, whole};
use crate::ids::{ClientSeq, Epoch, GroupId, MessageId, Tag};
use crate::proof::input::Input;
use crate::wire::link::{InviteCode, Link, Pin};

const FOLDER: &str = "/profile";
const MAGIC: [u8; 8] = *b"ggl-fuz1";
const LINK_PIN: Pin = Pin([9; 32]);

/// The file beneath outbox and inbox, whatever its records are.
pub fn journal(bytes: &[u8]) {
    let file = built(MAGIC, bytes);
    let disk = disk_with("journal", &file);
    let open = || Journal::new(Arc::new(disk.clone()), Path::new(FOLDER), "journal", MAGIC);
    let (mut reader, mut writer) = (open(), open());
    let read = reader.catch_up();
    assert!(contents(&disk, "journal") == file, "reading touches nothing");
    let written = match writer.catch_up_to_write() {
        Ok(written) => written,
        Err(error) => {
            named(&error, "journal");
            assert!(contents(&disk, "journal") == file, "what is damaged stays as it is");
            return;
        }
    };
    let read = read.unwrap();
    assert!(read == written && read.anew, "a reader and a writer see the same");
    let end = usize::try_from(writer.end()).unwrap();
    assert!(contents(&disk, "journal") == file[..end], "only a torn end is cut");
    writer.append(&[b"next".to_vec()]).unwrap();
    writer.sync().unwrap();
    let more = reader.catch_up().unwrap();
    assert!(!more.anew && more.records == [b"next"], "a reader goes on where it was");
    let all = [read.records, more.records].concat();
    assert!(open().catch_up().unwrap().records == all);
    writer.rewrite(&all).unwrap();
    let again = reader.catch_up().unwrap();
    assert!(again.anew && again.records == all, "a file made anew is noticed, and says the same");
}

/// The inbox: a file that makes no sense is given up, and then everything comes again from the server.
pub fn inbox(bytes: &[u8]) {
    let disk = disk_with("inbox", &built(inbox_file::MAGIC, bytes));
    let shared: SharedDisk = Arc::new(disk.clone());
    let open = || InboxFile::open(&shared, Path::new(FOLDER)).unwrap();
    let (mut inbox, _lost) = open();
    let (count, waiting_bytes) = inbox.waiting();
    let numbers: Vec<u64> = inbox.after(0).map(|stored| stored.number).collect();
    assert!(numbers.len() == count && numbers.is_sorted_by(|before, after| before < after), "positions rise");
    assert!(inbox.after(0).map(inbox_file::Stored::bytes).sum::<usize>() == waiting_bytes);
    let (acked, handed, last) = (inbox.acked(), inbox.handed(), inbox.last());
    assert!(inbox.name() != 0 && acked <= handed && handed <= last, "{acked} {handed} {last}");
    assert!(numbers.iter().all(|number| acked < *number && *number <= last));
    let (again, lost) = open();
    assert!(
        !lost && (again.acked(), again.handed(), again.last(), again.name()) == (acked, handed, last, inbox.name())
    );
    assert!(again.after(0).eq(inbox.after(0)) && again.kept().eq(inbox.kept()), "it is read as it was kept");
    inbox.hand(last).unwrap();
    let groups = inbox.ack(last).unwrap();
    assert!(groups.iter().map(|group| group.items).sum::<u64>() == count as u64 && inbox.waiting() == (0, 0));
    let delivery = Delivery::Item(GroupId::new(7), Row { msgid: MessageId::new(1), bytes: Bytes::from_static(b"row") });
    inbox.store(vec![delivery.clone()], &[]).unwrap();
    let (again, lost) = open();
    let found: Vec<_> = again.after(last).map(|stored| (stored.number, stored.what.clone())).collect();
    assert!(!lost && found == [(last + 1, delivery)], "what is stored next comes next");
}

/// The outbox: a file that makes no sense is named and left alone, as nothing else knows what it holds.
pub fn outbox(bytes: &[u8]) {
    let file = built(outbox_file::MAGIC, bytes);
    let disk = disk_with("outbox", &file);
    let shared: SharedDisk = Arc::new(disk.clone());
    let mut reader = OutboxFile::new(shared.clone(), Path::new(FOLDER));
    if let Err(error) = reader.refresh() {
        named(&error, "outbox");
        sensible(reader.outbox());
        assert!(reader.refresh().is_err(), "what makes no sense once makes none the next time");
        let profile = Profile::at(shared, FOLDER);
        assert!(profile.outbox().is_err());
        assert!(file.starts_with(&contents(&disk, "outbox")), "of what is damaged only a torn end is cut");
        assert!(reader.refresh().is_err());
        return;
    }
    sensible(reader.outbox());
    assert!(contents(&disk, "outbox") == file, "reading touches nothing");
    let mut writer = OutboxFile::new(shared.clone(), Path::new(FOLDER));
    let number = reader.outbox().highest().next();
    if writer.step::<ProfileError>(true, |_| Ok(Vec::new())).is_err() || number > ClientSeq::MAX {
        return;
    }
    assert!(same(writer.outbox(), reader.outbox()), "a reader and a writer see the same");
    let entry = Entry {
        group: GroupId::new(7),
        tag: Tag::NONE,
        epoch: Epoch::new([1; 16]),
        payload: Bytes::from_static(b"payload"),
        attempted: false,
    };
    writer.step::<ProfileError>(true, |_| Ok(vec![Change::Added(number, entry)])).unwrap();
    let listed = writer.listed();
    assert!(listed.iter().filter(|entry| entry.seq == number).count() == 1);
    reader.refresh().unwrap();
    assert!(same(writer.outbox(), reader.outbox()), "a reader goes on where it was");
    Profile::at(shared, FOLDER).withdraw(number).unwrap();
    reader.refresh().unwrap();
    assert!(reader.outbox().entry(number).is_none());
}

/// `profile.toml`, or the device's key; the first byte says which.
pub fn profile(bytes: &[u8]) {
    let mut input = Input(bytes);
    if input.byte() & 1 == 1 {
        let disk: SharedDisk = Arc::new(disk_with("device.key", input.0));
        drop(Profile::at(disk, FOLDER).key().inspect_err(|error| named(error, "device.key")));
        return;
    }
    let disk = disk_with("profile.toml", input.0);
    let profile = Profile::at(Arc::new(disk.clone()), FOLDER);
    let account = match profile.account() {
        Ok(account) => account,
        Err(error) => {
            if !matches!(error, ProfileError::NotEnrolled { .. }) {
                named(&error, "profile.toml");
            }
            return;
        }
    };
    assert!(contents(&disk, "profile.toml") == input.0, "reading touches nothing");
    let pin = Bytes::copy_from_slice(&LINK_PIN.0);
    profile.learn(&[pin], "renamed").unwrap();
    let learned = profile.account().unwrap();
    assert!(learned.handle == "renamed" && learned.pins == [LINK_PIN.0]);
    assert!((learned.device, learned.user, learned.epoch) == (account.device, account.user, account.epoch));
    let finished = profile.finish(account.device, account.user, &account.handle, account.epoch).unwrap();
    assert!(finished == crate::client::Account { pins: learned.pins, ..account }, "an account is kept as it is");
    let link = Link { address: "other:1".to_owned(), pin: LINK_PIN, code: InviteCode([3; 16]) };
    match profile.begin(&link) {
        Err(ProfileError::Used { .. }) | Ok(Begun::Already(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(Begun::Now(..)) => panic!("a profile that is used is used again"),
    }
    assert!(profile::code_hash(&link).len() == 43);
}

/// A file of these bytes. The first says how: as they are, or with a right header and out of pieces, each a record with a
/// right checksum, one with a wrong one, or bytes that are none.
fn built(magic: [u8; 8], bytes: &[u8]) -> Vec<u8> {
    let mut input = Input(bytes);
    if input.byte() == u8::MAX {
        return input.0.to_vec();
    }
    let number = input.take(4).iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) << 32;
    let mut file = [magic.as_slice(), &number.to_be_bytes()].concat();
    file.extend(crc32c::crc32c(&file).to_be_bytes());
    while !input.is_empty() {
        let (kind, count) = (input.byte(), input.small());
        let synced = input.near(file.len() as u64);
        let body = input.take(count);
        match kind {
            0 => file.extend_from_slice(body),
            1 => {
                let mut record = journal::framed_at(number, file.len() as u64, synced, body);
                record[8] ^= 1;
                file.extend(record);
            }
            _ => file.extend(journal::framed_at(number, file.len() as u64, synced, body)),
        }
    }
    file
}

/// What is claimed of what is known of an outbox.
fn sensible(outbox: &Outbox) {
    let (highest, lowest) = (outbox.highest(), outbox.lowest());
    assert!(outbox.entries().all(|(seq, _)| lowest <= seq && seq <= highest));
    assert!(outbox.entries().map(|(_, entry)| entry.payload.len()).sum::<usize>() == outbox.bytes());
    assert!(outbox.entries().count() == outbox.count());
    let mut again = Outbox::default();
    for change in outbox.condensed() {
        again.apply(&change).unwrap();
    }
    assert!(same(&again, outbox), "an outbox in a file that began anew is the same");
}

fn same(one: &Outbox, other: &Outbox) -> bool {
    let numbers = (0..40).map(ClientSeq::new).chain(one.entries().map(|(seq, _)| seq));
    let mut told = numbers.map(|seq| one.current(seq) == other.current(seq) && one.outcome(seq) == other.outcome(seq));
    one.highest() == other.highest()
        && one.entries().eq(other.entries())
        && one.unknown().eq(other.unknown())
        && told.all(|same| same)
}

fn named(error: &ProfileError, file: &str) {
    assert!(matches!(error, ProfileError::Damaged { .. } | ProfileError::Disk(_)), "{error}");
    assert!(error.to_string().contains(file), "{error}");
}

fn disk_with(name: &str, bytes: &[u8]) -> SimulatedDisk {
    SimulatedDisk::holding(Path::new(FOLDER), [(Path::new(name), bytes)]).unwrap()
}

fn contents(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    whole::read(disk, &Path::new(FOLDER).join(name), usize::MAX).unwrap().unwrap()
}
