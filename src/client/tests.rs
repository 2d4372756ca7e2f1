//! The files of a profile under crashes and damage.

mod recalled;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::client::error::{OutboxError, ProfileError};
use crate::client::inbox_file::InboxFile;
use crate::client::journal::Journal;
use crate::client::outbox_file::{self, OutboxFile};
use crate::core::inbox::{Delivery, Kept, Row};
use crate::core::outbox::{Change, Entry, Settled};
use crate::disk::simulated::SimulatedDisk;
use crate::disk::{Disk as _, SharedDisk};
use crate::ids::{ClientSeq, Epoch, GroupId, MessageId, Tag};

const FOLDER: &str = "/profile";
const MAGIC: [u8; 8] = *b"ggl-test";

fn journal(disk: &SimulatedDisk) -> Journal {
    Journal::new(Arc::new(disk.clone()), Path::new(FOLDER), "file", MAGIC)
}

fn records(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number; 10 + usize::from(number)]).collect()
}

/// The bytes of a file, and a way to put others in their place.
fn bytes_of(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    crate::disk::whole::read(disk, &Path::new(FOLDER).join(name), 1 << 20).unwrap().unwrap()
}

fn put(disk: &SimulatedDisk, name: &str, bytes: &[u8]) {
    crate::disk::whole::replace(disk, &Path::new(FOLDER).join(name), bytes).unwrap();
}

#[test]
fn a_half_written_end_is_cut_wherever_it_was_cut_off() {
    let disk = SimulatedDisk::new();
    let mut whole = journal(&disk);
    whole.catch_up_to_write().unwrap();
    whole.append(&records(3)).unwrap();
    let start = usize::try_from(whole.end()).unwrap();
    whole.append(&[vec![9; 40]]).unwrap();
    let bytes = bytes_of(&disk, "file");
    for cut in start..bytes.len() {
        put(&disk, "file", &bytes[..cut]);
        let mut again = journal(&disk);
        assert_eq!(again.catch_up_to_write().unwrap().records, records(3), "cut at {cut}");
        assert_eq!(bytes_of(&disk, "file").len(), start);
        // Zeros behind the end, as a file system may leave them, are no records either.
        let mut zeros = bytes[..cut].to_vec();
        zeros.resize(bytes.len() + 100, 0);
        put(&disk, "file", &zeros);
        assert_eq!(journal(&disk).catch_up_to_write().unwrap().records, records(3), "zeros from {cut}");
    }
}

#[test]
fn a_bad_record_that_was_synced_is_named_damage_and_nothing_is_touched() {
    let disk = SimulatedDisk::new();
    let mut whole = journal(&disk);
    whole.catch_up_to_write().unwrap();
    for record in records(4) {
        whole.append(&[record]).unwrap();
        whole.sync().unwrap();
    }
    let bytes = bytes_of(&disk, "file");
    let last = bytes.len() - records(4).last().unwrap().len() - 20;
    for at in 0..last {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        put(&disk, "file", &damaged);
        let error = journal(&disk).catch_up_to_write().unwrap_err();
        assert!(matches!(&error, ProfileError::Damaged { file, .. } if file.ends_with("file")), "byte {at}: {error}");
        assert_eq!(bytes_of(&disk, "file"), damaged, "byte {at}");
    }
}

#[test]
fn of_writes_that_were_not_synced_the_later_may_be_kept_without_the_earlier_and_are_cut() {
    let disk = SimulatedDisk::new();
    let mut whole = journal(&disk);
    whole.catch_up_to_write().unwrap();
    whole.append(&records(2)).unwrap();
    whole.sync().unwrap();
    let kept = usize::try_from(whole.end()).unwrap();
    whole.append(&[vec![7; 40]]).unwrap();
    whole.append(&[vec![8; 40]]).unwrap();
    let mut bytes = bytes_of(&disk, "file");
    bytes[kept + 30] ^= 1;
    put(&disk, "file", &bytes);
    assert_eq!(journal(&disk).catch_up_to_write().unwrap().records, records(2));
    assert_eq!(bytes_of(&disk, "file").len(), kept);
}

#[test]
fn a_reader_without_the_lock_takes_no_half_record_and_cuts_nothing() {
    let disk = SimulatedDisk::new();
    let mut writer = journal(&disk);
    writer.catch_up_to_write().unwrap();
    writer.append(&records(2)).unwrap();
    let mut reader = journal(&disk);
    assert_eq!(reader.catch_up().unwrap().records, records(2));
    let bytes = bytes_of(&disk, "file");
    writer.append(&[vec![7; 50]]).unwrap();
    let whole = bytes_of(&disk, "file");
    put(&disk, "file", &whole[..bytes.len() + 20]);
    assert!(reader.catch_up().unwrap().records.is_empty());
    assert_eq!(bytes_of(&disk, "file").len(), bytes.len() + 20);
    put(&disk, "file", &whole);
    assert_eq!(reader.catch_up().unwrap().records, [vec![7; 50]]);
}

#[test]
fn a_reader_notices_that_the_file_was_made_anew() {
    let disk = SimulatedDisk::new();
    let mut writer = journal(&disk);
    writer.catch_up_to_write().unwrap();
    writer.append(&records(5)).unwrap();
    let mut reader = journal(&disk);
    reader.catch_up().unwrap();
    writer.rewrite(&records(2)).unwrap();
    let caught = reader.catch_up().unwrap();
    assert!(caught.anew);
    assert_eq!(caught.records, records(2));
}

/// What another process took back and wrote over lies beyond, at, or inside of what a reader has read.
#[test]
fn a_reader_of_what_was_taken_back_and_written_over_reads_again_and_cuts_nothing_synced() {
    for lengths in [vec![5], vec![40], vec![200], vec![5, 5], vec![30, 300], vec![]] {
        let disk = SimulatedDisk::new();
        let mut writer = journal(&disk);
        writer.catch_up_to_write().unwrap();
        writer.append(&records(3)).unwrap();
        writer.sync().unwrap();
        let end = writer.end();
        writer.append(&[vec![9; 40]]).unwrap();
        let (mut reader, mut next) = (journal(&disk), journal(&disk));
        reader.catch_up().unwrap();
        next.catch_up().unwrap();
        writer.go_back(end).unwrap();
        let mut other = journal(&disk);
        other.catch_up_to_write().unwrap();
        let bodies: Vec<_> = lengths.iter().map(|length| vec![7; *length]).collect();
        other.append(&bodies).unwrap();
        other.sync().unwrap();
        let all: Vec<_> = records(3).into_iter().chain(bodies).collect();
        let caught = reader.catch_up().unwrap();
        assert!(caught.anew && caught.records == all, "{lengths:?}");
        assert_eq!(next.catch_up_to_write().unwrap().records, all, "{lengths:?}");
        assert_eq!(journal(&disk).catch_up().unwrap().records, all, "{lengths:?}");
    }
}

#[test]
fn a_file_that_lost_what_was_synced_is_named_damage() {
    let disk = SimulatedDisk::new();
    let mut writer = journal(&disk);
    writer.catch_up_to_write().unwrap();
    writer.append(&records(3)).unwrap();
    writer.sync().unwrap();
    let bytes = bytes_of(&disk, "file");
    put(&disk, "file", &bytes[..bytes.len() - 1]);
    assert!(matches!(writer.catch_up(), Err(ProfileError::Damaged { .. })));
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new(FOLDER)).unwrap();
    put(&disk, "file", b"something else that is long enough for a header");
    assert!(matches!(journal(&disk).catch_up_to_write(), Err(ProfileError::Damaged { .. })));
}

// ---- the outbox -----------------------------------------------------------------------------------------------------

fn outbox(disk: &SimulatedDisk) -> OutboxFile {
    OutboxFile::new(Arc::new(disk.clone()), Path::new(FOLDER))
}

fn entry(number: u64) -> Entry {
    Entry {
        group: GroupId::new(7),
        tag: Tag::new(number.to_be_bytes()),
        epoch: Epoch::new([1; 16]),
        payload: Bytes::from(number.to_be_bytes().to_vec()),
        attempted: false,
    }
}

/// Adds an entry that carries this number in its bytes; answers the number it was given.
fn add(file: &mut OutboxFile, number: u64) -> Result<ClientSeq, OutboxError> {
    let added =
        file.step::<OutboxError>(true, |outbox| Ok(vec![Change::Added(outbox.highest().next(), entry(number))]));
    let (_, changes) = added?;
    match changes.as_slice() {
        [Change::Added(seq, _)] => Ok(*seq),
        _ => panic!("one entry was added"),
    }
}

fn change(file: &mut OutboxFile, synced: bool, change: Change) -> Result<(), ProfileError> {
    file.step::<ProfileError>(synced, |_| Ok(vec![change])).map(|_| ())
}

/// What the world saw of a profile: which bytes left under which number, and what was promised to be kept.
#[derive(Default)]
struct World {
    queued: BTreeMap<u64, Vec<u8>>,
    sent: BTreeMap<u64, Vec<u8>>,
    answered: BTreeMap<u64, u64>,
}

impl World {
    /// Nothing that was queued is lost, nothing that left is forgotten, and its bytes are still those that left.
    fn holds(&self, file: &OutboxFile, when: &str) {
        let outbox = file.outbox();
        for (number, payload) in &self.queued {
            let seq = ClientSeq::new(*number);
            let known = outbox.entry(seq).map(|entry| entry.payload.to_vec() == *payload);
            assert!(known == Some(true) || outbox.outcome(seq).is_some(), "{when}: {seq} is lost");
        }
        for (number, payload) in &self.sent {
            let seq = ClientSeq::new(*number);
            assert!(seq <= outbox.highest(), "{when}: {seq} could be used again");
            if let Some(entry) = outbox.entry(seq) {
                assert!(entry.attempted && entry.payload.to_vec() == *payload, "{when}: {seq} has changed");
            }
        }
    }
}

/// The steps of a sending process, each with a crash or a failing disk somewhere; `step` says where.
fn live_and_die(seed: u64, die_at: u64, how: u64) {
    let mut disk = SimulatedDisk::new();
    let mut world = World::default();
    let mut file = outbox(&disk);
    for step in 0..12 {
        let dies = step == die_at;
        if dies && how == 1 {
            disk.fail_writes(1, "outbox");
        }
        if dies && how == 2 {
            disk.fail_syncs(1, "outbox");
        }
        match step % 3 {
            0 => {
                if let Ok(seq) = add(&mut file, step) {
                    world.queued.insert(seq.value(), step.to_be_bytes().to_vec());
                }
            }
            1 => {
                let waiting: Vec<_> = file.outbox().entries().filter(|(_, entry)| !entry.attempted).collect();
                let seqs: Vec<_> = waiting.iter().map(|(seq, _)| *seq).collect();
                let payloads: Vec<_> =
                    waiting.iter().map(|(seq, entry)| (seq.value(), entry.payload.to_vec())).collect();
                if change(&mut file, true, Change::Attempted(seqs)).is_ok() {
                    // From here on they may be at the server.
                    world.sent.extend(payloads);
                }
            }
            _ => {
                let first = file.outbox().entries().find(|(_, entry)| entry.attempted).map(|(seq, _)| seq);
                if let Some(seq) = first {
                    let settled = Settled::Sent { group: GroupId::new(7), msgid: MessageId::new(step), time_ms: 1 };
                    if change(&mut file, false, Change::Settled(seq, settled)).is_ok() {
                        world.answered.insert(seq.value(), step);
                    }
                }
            }
        }
        if dies {
            disk = if how == 3 { disk.kill() } else { disk.crash(seed) };
            file = outbox(&disk);
            file.step::<ProfileError>(false, |_| Ok(Vec::new())).unwrap();
            world.holds(&file, &format!("seed {seed}, step {step}, how {how}"));
            let fresh = add(&mut file, 1_000).unwrap();
            assert!(!world.sent.contains_key(&fresh.value()), "seed {seed}: {fresh} is used for other bytes");
            world.queued.insert(fresh.value(), 1_000u64.to_be_bytes().to_vec());
        }
    }
    world.holds(&file, "at the end");
}

#[test]
fn after_a_crash_at_any_step_nothing_is_lost_silently_and_no_number_has_other_bytes() {
    for die_at in 0..12 {
        for how in 0..4 {
            for seed in 0..12 {
                live_and_die(seed, die_at, how);
            }
        }
    }
}

#[test]
fn what_could_not_be_synced_was_not_queued_and_is_not_sent_by_anybody() {
    let disk = SimulatedDisk::new();
    let mut file = outbox(&disk);
    add(&mut file, 1).unwrap();
    disk.fail_syncs(1, "outbox");
    add(&mut file, 2).unwrap_err();
    let mut other = outbox(&disk);
    other.refresh().unwrap();
    assert_eq!(other.outbox().count(), 1);
    add(&mut file, 3).unwrap();
    other.refresh().unwrap();
    let payloads: Vec<_> = other.outbox().entries().map(|(_, entry)| entry.payload.to_vec()).collect();
    assert_eq!(payloads, [1u64.to_be_bytes(), 3u64.to_be_bytes()]);
}

#[test]
fn processes_see_what_the_others_wrote_and_give_no_number_twice() {
    let disk = SimulatedDisk::new();
    let (mut one, mut two) = (outbox(&disk), outbox(&disk));
    let mut given = Vec::new();
    for number in 0..20 {
        let file = if number % 3 == 0 { &mut one } else { &mut two };
        given.push(add(file, number).unwrap().value());
    }
    assert_eq!(given, (1..=20).collect::<Vec<_>>());
    one.refresh().unwrap();
    assert_eq!(one.outbox().count(), 20);
}

#[test]
fn only_what_was_never_attempted_can_be_withdrawn() {
    let disk = SimulatedDisk::new();
    let mut file = outbox(&disk);
    let (one, two) = (add(&mut file, 1).unwrap(), add(&mut file, 2).unwrap());
    change(&mut file, true, Change::Attempted(vec![one])).unwrap();
    let mut other = outbox(&disk);
    assert_eq!(other.withdraw(one), Err(OutboxError::Attempted(one)));
    other.withdraw(two).unwrap();
    assert_eq!(other.withdraw(two), Err(OutboxError::Absent(two)));
    file.refresh().unwrap();
    assert_eq!(file.outbox().outcome(two), Some(&Settled::Withdrawn));
    assert_eq!(add(&mut file, 3).unwrap(), ClientSeq::new(3), "its number is used up");
}

#[test]
fn a_damaged_outbox_is_a_named_error_and_never_an_empty_one() {
    let disk = SimulatedDisk::new();
    let mut file = outbox(&disk);
    add(&mut file, 1).unwrap();
    add(&mut file, 2).unwrap();
    let mut bytes = bytes_of(&disk, "outbox");
    bytes[40] ^= 1;
    put(&disk, "outbox", &bytes);
    let error = outbox(&disk).step::<ProfileError>(false, |_| Ok(Vec::new())).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("outbox"), "{error}");
}

#[test]
fn an_outbox_that_has_seen_much_is_made_anew_and_keeps_what_matters() {
    let disk = SimulatedDisk::new();
    let mut file = outbox(&disk);
    let mut other = outbox(&disk);
    let kept = add(&mut file, 0).unwrap();
    for number in 1..=6_000 {
        let seq = add(&mut file, number).unwrap();
        let settled = Settled::Sent { group: GroupId::new(7), msgid: MessageId::new(number), time_ms: 1 };
        change(&mut file, false, Change::Settled(seq, settled)).unwrap();
    }
    assert!(bytes_of(&disk, "outbox").len() < 600 * 1024);
    other.refresh().unwrap();
    assert_eq!(other.outbox().entries().map(|(seq, _)| seq).collect::<Vec<_>>(), [kept]);
    assert_eq!(other.outbox().highest(), ClientSeq::new(6_001));
    assert!(other.outbox().outcome(ClientSeq::new(6_001)).is_some());
}

#[test]
fn an_entry_that_got_a_new_number_alone_is_read_as_such_files_wrote_it() {
    let disk = SimulatedDisk::new();
    let seq = add(&mut outbox(&disk), 1).unwrap();
    let shared: SharedDisk = Arc::new(disk.clone());
    let mut journal = Journal::new(shared, Path::new(FOLDER), "outbox", outbox_file::MAGIC);
    journal.catch_up_to_write().unwrap();
    journal.append(&[vec![4, 1, 2]]).unwrap();
    let mut file = outbox(&disk);
    file.refresh().unwrap();
    assert_eq!((seq, file.outbox().current(seq)), (ClientSeq::new(1), ClientSeq::new(2)));
    let waiting: Vec<_> = file.outbox().entries().map(|(seq, entry)| (seq, entry.payload.to_vec())).collect();
    assert_eq!(waiting, [(ClientSeq::new(2), entry(1).payload.to_vec())]);
}

// ---- the inbox ------------------------------------------------------------------------------------------------------

fn inbox(disk: &SimulatedDisk) -> (InboxFile, bool) {
    let disk: SharedDisk = Arc::new(disk.clone());
    InboxFile::open(&disk, Path::new(FOLDER)).unwrap()
}

fn item(number: u64) -> Delivery {
    Delivery::Item(GroupId::new(7), Row { msgid: MessageId::new(number), bytes: Bytes::from(vec![1; 30]) })
}

fn msgid(what: &Delivery) -> u64 {
    match what {
        Delivery::Item(_, row) => row.msgid.value(),
        Delivery::Gone(_, _, last) => last.value(),
    }
}

/// Scenario 9: the client dies between receiving, storing, handing out and acknowledging, at each point. The application
/// keeps its position with its own data: every item once, in order.
#[test]
fn by_position_every_item_comes_exactly_once_across_crashes() {
    for seed in 0..200u64 {
        let mut disk = SimulatedDisk::new();
        let mut kept: Vec<u64> = Vec::new();
        let mut position = 0;
        let mut next = 1;
        let mut name = 0;
        let mut dice = seed + 1;
        while next <= 30 {
            let (mut file, lost) = inbox(&disk);
            // Before anything was stored no position was given, and the inbox may still get another name.
            assert!(!lost && (next == 1 || file.name() == name), "seed {seed}");
            name = file.name();
            file.ack(position).unwrap();
            let end = file.kept().find(|(group, _)| *group == GroupId::new(7)).map_or(0, |(_, kept)| kept.end.value());
            next = next.min(end + 1);
            for step in 0..6 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let roll = (dice >> 33) % 4;
                if step == 5 {
                    break;
                }
                match roll {
                    0 | 1 => {
                        let group = (GroupId::new(7), Kept { end: MessageId::new(next + 1), acked: MessageId::ZERO });
                        file.store(vec![item(next), item(next + 1)], &[group]).unwrap();
                        file.sync().unwrap();
                        next += 2;
                    }
                    2 => {
                        let handed: Vec<_> = file.after(position).cloned().collect();
                        file.hand(handed.last().map_or(position, |stored| stored.number)).unwrap();
                        file.sync().unwrap();
                        for stored in handed {
                            // The application takes item and position in one transaction of its own.
                            kept.push(msgid(&stored.what));
                            position = stored.number;
                        }
                    }
                    _ => drop(file.ack(position).unwrap()),
                }
            }
            disk = if seed % 3 == 0 { disk.kill() } else { disk.crash(dice) };
        }
        let (file, _) = inbox(&disk);
        kept.extend(file.after(position).map(|stored| msgid(&stored.what)));
        let expected: Vec<u64> = (1..next).collect();
        assert_eq!(kept, expected, "seed {seed}");
    }
}

#[test]
fn what_was_handed_out_is_known_after_a_kill() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store(vec![item(1), item(2), item(3)], &[]).unwrap();
    file.hand(2).unwrap();
    let (file, _) = inbox(&disk.kill());
    assert_eq!((file.handed(), file.waiting().0), (2, 3));
}

#[test]
fn what_was_never_taken_out_of_the_queue_does_not_count_as_handed_out_after_an_orderly_end() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store(vec![item(1), item(2), item(3)], &[]).unwrap();
    file.hand(3).unwrap();
    file.take_back(1).unwrap();
    let (mut file, _) = inbox(&disk.kill());
    assert_eq!((file.handed(), file.waiting().0), (1, 3));
    file.ack(2).unwrap();
    file.take_back(1).unwrap();
    let (file, _) = inbox(&disk.kill());
    assert_eq!((file.handed(), file.waiting().0), (2, 1));
}

#[test]
fn a_damaged_inbox_begins_anew_under_another_name_and_says_so() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store(vec![item(1), item(2)], &[]).unwrap();
    file.sync().unwrap();
    file.store(vec![item(3)], &[]).unwrap();
    let name = file.name();
    let mut bytes = bytes_of(&disk, "inbox");
    bytes[60] ^= 1;
    put(&disk, "inbox", &bytes);
    let (file, lost) = inbox(&disk);
    assert!(lost && file.name() != name && file.waiting().0 == 0);
}

#[test]
fn an_inbox_that_was_read_is_made_anew_without_what_is_dead() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    let big = |number| {
        let bytes = Bytes::from(vec![1; 60_000]);
        Delivery::Item(GroupId::new(7), Row { msgid: MessageId::new(number), bytes })
    };
    for number in 1..=40 {
        file.store(vec![big(number)], &[]).unwrap();
        file.ack(number - 1).unwrap();
    }
    assert!(bytes_of(&disk, "inbox").len() < 1_300_000);
    let (again, lost) = inbox(&disk);
    assert!(!lost);
    assert_eq!((again.name(), again.last(), again.acked(), again.waiting().0), (file.name(), 40, 39, 1));
}
