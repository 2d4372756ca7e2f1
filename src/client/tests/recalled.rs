//! What a recall leaves of a text in the files of a profile.

use bytes::BytesMut;

use super::*;
use crate::client::say::Say;
use crate::wire::code::Code;
use crate::wire::frame::Extensions;
use crate::wire::item::{Item, flag, kind};
use crate::wire::row;
use crate::wire::said::{extension, msgid_extension};

const SECRET: &str = "nobody is to read this";
const GROUP: GroupId = GroupId::new(7);

fn m(msgid: u64) -> MessageId {
    MessageId::new(msgid)
}

fn said(msgid: u64, kind: u16, body: &str, target: Option<u64>) -> Delivery {
    let item = Item {
        gid: GROUP,
        msgid: m(msgid),
        kind,
        flags: if kind == kind::TEXT { flag::CONTENT } else { 0 },
        author: crate::ids::UserId::new(5),
        time_ms: msgid,
        tag: Tag::new(msgid.to_be_bytes()),
        body: Bytes::copy_from_slice(body.as_bytes()),
        extensions: Extensions(
            target.map(|target| msgid_extension(extension::TARGET, m(target))).into_iter().collect(),
        ),
    };
    let mut bytes = BytesMut::new();
    row::Row::plain(item.encode().unwrap()).append_to(&mut bytes).unwrap();
    Delivery::Item(GROUP, Row { msgid: m(msgid), bytes: bytes.freeze() })
}

fn text(msgid: u64) -> Delivery {
    said(msgid, kind::TEXT, SECRET, None)
}

fn edit(msgid: u64, target: u64) -> Delivery {
    said(msgid, kind::EDIT, SECRET, Some(target))
}

fn recall(msgid: u64, target: u64) -> Delivery {
    said(msgid, kind::RECALL, "", Some(target))
}

fn is_there(disk: &SimulatedDisk) -> bool {
    let has = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    disk.list(Path::new(FOLDER)).unwrap().iter().any(|name| has(&bytes_of(disk, name)))
}

/// The number of a file, which another has that is made in its place.
fn number_of(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    bytes_of(disk, name)[8..16].to_vec()
}

/// What waits: position, msgid, body, whether it was recalled, and what it is about.
fn waits(file: &InboxFile) -> Vec<(u64, u64, String, bool, Option<u64>)> {
    let read = |stored: &crate::client::inbox_file::Stored| {
        let Delivery::Item(_, row) = &stored.what else { panic!("it is an item") };
        let item = row::rows(row.bytes.clone()).next().unwrap().unwrap().decode_item().unwrap();
        assert_eq!(row.msgid, item.msgid);
        let body = String::from_utf8(item.body.to_vec()).unwrap();
        (stored.number, item.msgid.value(), body, item.is_recalled(), item.target().map(MessageId::value))
    };
    file.after(0).map(read).collect()
}

fn other() -> Delivery {
    said(7, kind::TEXT, "to be read", None)
}

fn wiped() -> [(u64, u64, String, bool, Option<u64>); 4] {
    [
        (1, 5, String::new(), true, None),
        (2, 6, String::new(), true, Some(5)),
        (3, 7, "to be read".to_owned(), false, None),
        (4, 8, String::new(), false, Some(5)),
    ]
}

// ---- the inbox ------------------------------------------------------------------------------------------------------

#[test]
fn a_recalled_text_is_in_no_file_of_the_profile_once_the_recall_is_stored() {
    for acked in 0..=3 {
        for seed in 0..10 {
            let disk = SimulatedDisk::new();
            let (mut file, _) = inbox(&disk);
            file.store(vec![text(5), edit(6, 5), other()], &[]).unwrap();
            file.sync().unwrap();
            file.ack(acked).unwrap();
            assert!(is_there(&disk));
            file.store(vec![recall(8, 5)], &[(GROUP, Kept { end: m(8), acked: m(0) })]).unwrap();
            assert!(!is_there(&disk) && !is_there(&disk.crash(seed)), "{acked} acknowledged, seed {seed}");
            let (found, lost) = inbox(&disk.crash(seed));
            let left = usize::try_from(acked).unwrap();
            assert!(!lost && found.name() == file.name() && found.acked() == acked);
            assert_eq!((waits(&file), waits(&found)), (wiped()[left..].to_vec(), wiped()[left..].to_vec()));
            assert!(found.waiting() == file.waiting() && found.kept().eq(file.kept()));
            assert_eq!(found.waiting().1, found.after(0).map(crate::client::inbox_file::Stored::bytes).sum::<usize>());
        }
    }
}

#[test]
fn a_text_that_is_stored_together_with_its_recall_is_never_in_the_file() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store(vec![text(5), edit(6, 5), other(), recall(8, 5)], &[]).unwrap();
    assert!(!is_there(&disk));
    assert_eq!((waits(&file), waits(&inbox(&disk).0)), (wiped().to_vec(), wiped().to_vec()));
}

#[test]
fn of_another_group_nothing_is_recalled() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store(vec![text(5)], &[]).unwrap();
    let Delivery::Item(_, row) = recall(8, 5) else { panic!("it is an item") };
    file.store(vec![Delivery::Item(GroupId::new(8), row)], &[]).unwrap();
    assert_eq!(waits(&file)[0].2, SECRET);
}

#[test]
fn wherever_the_power_goes_a_recall_has_taken_the_text_with_it_or_comes_again() {
    let (mut kept, mut comes_again) = (0, 0);
    for stop in 0..12 {
        for seed in 0..10 {
            let disk = SimulatedDisk::new();
            let (mut file, _) = inbox(&disk);
            file.store(vec![text(5), edit(6, 5), other()], &[]).unwrap();
            file.sync().unwrap();
            file.ack(1).unwrap();
            file.sync().unwrap();
            disk.stop_after(stop);
            let stored = file.store(vec![recall(8, 5)], &[]).and_then(|()| file.sync());
            let disk = disk.crash(seed);
            let (mut found, lost) = inbox(&disk);
            let is_kept = waits(&found).iter().any(|(_, msgid, ..)| *msgid == 8);
            assert!(!lost && (is_kept || stored.is_err()), "it was stored: stop {stop}, seed {seed}");
            assert!(!is_kept || !is_there(&disk), "stop {stop}, seed {seed}");
            *if is_kept { &mut kept } else { &mut comes_again } += 1;
            if !is_kept {
                found.store(vec![recall(8, 5)], &[]).unwrap();
            }
            assert!(!is_there(&disk));
            assert_eq!(waits(&found), wiped()[1..], "stop {stop}, seed {seed}");
        }
    }
    assert!(kept > 0 && comes_again > 0, "{kept} kept, {comes_again} come again");
}

#[test]
fn a_file_that_still_says_what_was_recalled_is_made_anew_when_it_is_opened() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store(vec![text(5), edit(6, 5), other()], &[]).unwrap();
    file.ack(1).unwrap();
    // As such files were written before recalls made them anew.
    let Delivery::Item(_, row) = recall(8, 5) else { panic!("it is an item") };
    let record = postcard::to_extend(&(4u64, GROUP, row.msgid, &row.bytes), vec![6]).unwrap();
    let shared: SharedDisk = Arc::new(disk.clone());
    let mut journal = Journal::new(shared, Path::new(FOLDER), "inbox", crate::client::inbox_file::MAGIC);
    journal.catch_up_to_write().unwrap();
    journal.append(&[record]).unwrap();
    assert!(is_there(&disk));
    let (found, lost) = inbox(&disk);
    assert!(!lost && !is_there(&disk));
    assert_eq!(waits(&found), wiped()[1..]);
}

#[test]
fn the_inbox_is_made_anew_once_for_many_recalls_and_not_for_what_it_does_not_say() {
    let disk = SimulatedDisk::new();
    let (mut file, _) = inbox(&disk);
    file.store((1..=50).map(text).collect(), &[]).unwrap();
    let (number, synced) = (number_of(&disk, "inbox"), disk.counts().syncs);
    file.store(vec![recall(51, 60)], &[]).unwrap();
    assert_eq!((number_of(&disk, "inbox"), disk.counts().syncs), (number, synced), "it never had that one");
    file.store((1..=50).map(|target| recall(60 + target, target)).collect(), &[]).unwrap();
    let (number, synced_once) = (number_of(&disk, "inbox"), disk.counts().syncs);
    assert!(!is_there(&disk));
    assert_eq!(synced_once - synced, 1);
    file.store((1..=50).map(|target| recall(120 + target, target)).collect(), &[]).unwrap();
    assert_eq!((number_of(&disk, "inbox"), disk.counts().syncs), (number, synced_once), "they are gone already");
}

// ---- the outbox -----------------------------------------------------------------------------------------------------

/// Puts this into the outbox as if it were on its way.
fn send(file: &mut OutboxFile, say: &Say) -> ClientSeq {
    let payload = say.payload(Tag::new([7; 8]), 1_000).unwrap();
    let entry = Entry { payload, attempted: true, ..entry(1) };
    let added = file.step::<ProfileError>(true, |outbox| Ok(vec![Change::Added(outbox.highest().next(), entry)]));
    added.unwrap();
    file.outbox().highest()
}

fn as_sent(msgid: u64) -> Settled {
    Settled::Sent { group: GROUP, msgid: m(msgid), time_ms: 1 }
}

fn ends(file: &mut OutboxFile, seq: ClientSeq, settled: Settled) {
    change(file, false, Change::Settled(seq, settled)).unwrap();
}

/// An outbox whose text, and an edit of it, were stored as m5 and m6; something else waits.
fn with_a_text_sent(disk: &SimulatedDisk) -> (OutboxFile, ClientSeq) {
    let mut file = outbox(disk);
    let said = send(&mut file, &Say::text(SECRET));
    ends(&mut file, said, as_sent(5));
    let edit = send(&mut file, &Say::Edit { target: m(5), text: SECRET.to_owned() });
    ends(&mut file, edit, as_sent(6));
    let waits = send(&mut file, &Say::text("to be sent"));
    assert!(is_there(disk));
    (file, waits)
}

fn still_knows(disk: &SimulatedDisk, waits: ClientSeq) {
    let mut found = outbox(disk);
    found.refresh().unwrap();
    assert_eq!(found.outbox().outcome(ClientSeq::new(1)), Some(&as_sent(5)));
    let entry = found.outbox().entry(waits).unwrap();
    assert!(entry.attempted && Say::of(&entry.payload) == Some(Say::text("to be sent")));
}

#[test]
fn a_sent_text_is_in_no_file_of_the_profile_once_its_recall_is_answered() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new();
        let (mut file, waits) = with_a_text_sent(&disk);
        let recall = send(&mut file, &Say::Recall(m(5)));
        assert!(is_there(&disk), "it may still be refused");
        ends(&mut file, recall, as_sent(7));
        assert!(!is_there(&disk) && !is_there(&disk.crash(seed)), "seed {seed}");
        still_knows(&disk.crash(seed), waits);
        assert_eq!(file.outbox().outcome(recall), Some(&as_sent(7)));
    }
}

#[test]
fn a_sent_text_is_in_no_file_of_the_profile_once_any_process_heard_of_its_recall() {
    let disk = SimulatedDisk::new();
    let (mut file, waits) = with_a_text_sent(&disk);
    let number = number_of(&disk, "outbox");
    let mut other = outbox(&disk);
    other.forget(&[(GROUP, m(6)), (GroupId::new(8), m(5))]).unwrap();
    assert_eq!(number_of(&disk, "outbox"), number, "these were said by others");
    other.forget(&[(GROUP, m(9)), (GROUP, m(5))]).unwrap();
    assert!(!is_there(&disk));
    still_knows(&disk, waits);
    let number = number_of(&disk, "outbox");
    other.forget(&[(GROUP, m(5))]).unwrap();
    assert_eq!(number_of(&disk, "outbox"), number, "it is gone already");
    ends(&mut file, waits, as_sent(8));
    other.refresh().unwrap();
    assert_eq!(other.outbox().outcome(waits), Some(&as_sent(8)));
    assert_eq!(send(&mut other, &Say::text("next")), ClientSeq::new(4));
    assert!(!is_there(&disk.crash(3)));
}

#[test]
fn an_edit_that_came_too_late_for_the_recall_and_a_text_of_unknown_outcome_are_in_no_file_then() {
    let disk = SimulatedDisk::new();
    let mut file = outbox(&disk);
    let edit = send(&mut file, &Say::Edit { target: m(5), text: SECRET.to_owned() });
    let refused = Settled::Refused { number: Code::ItemRecalled.number(), detail: String::new() };
    ends(&mut file, edit, refused);
    assert!(!is_there(&disk));
    let said = send(&mut file, &Say::text(SECRET));
    ends(&mut file, said, Settled::Unknown { group: GROUP, bytes: 9 });
    file.forget(&[(GroupId::new(8), m(5))]).unwrap();
    assert!(is_there(&disk));
    file.forget(&[(GROUP, m(9))]).unwrap();
    assert!(!is_there(&disk));
    assert_eq!(file.outbox().unknown().count(), 1);
}

#[test]
fn what_could_not_be_forgotten_is_by_the_next_step() {
    for how in 0..4 {
        let disk = SimulatedDisk::new();
        let (mut file, waits) = with_a_text_sent(&disk);
        match how {
            0 => disk.fail_writes(1, "outbox"),
            1 => disk.fail_syncs(1, "outbox"),
            _ => disk.fail_syncs_after(how - 2, 1, "profile"),
        }
        assert!(file.forget(&[(GROUP, m(5))]).is_err());
        file.step::<ProfileError>(false, |_| Ok(Vec::new())).unwrap();
        assert!(!is_there(&disk) && !is_there(&disk.crash(how)), "how {how}");
        still_knows(&disk.crash(how), waits);
    }
}

#[test]
fn wherever_the_power_goes_an_answered_recall_has_taken_the_text_with_it_or_is_sent_again() {
    let (mut answered, mut again) = (0, 0);
    for stop in 0..12 {
        for seed in 0..10 {
            let disk = SimulatedDisk::new();
            let (mut file, _) = with_a_text_sent(&disk);
            let recall = send(&mut file, &Say::Recall(m(5)));
            disk.stop_after(stop);
            let told = change(&mut file, false, Change::Settled(recall, as_sent(7)));
            let disk = disk.crash(seed);
            let mut found = outbox(&disk);
            found.step::<ProfileError>(false, |_| Ok(Vec::new())).unwrap();
            let is_answered = found.outbox().outcome(recall).is_some();
            assert!(is_answered || (told.is_err() && found.outbox().entry(recall).is_some()));
            assert!(!is_answered || !is_there(&disk), "stop {stop}, seed {seed}");
            *if is_answered { &mut answered } else { &mut again } += 1;
            if !is_answered {
                ends(&mut found, recall, as_sent(7));
            }
            assert!(!is_there(&disk), "stop {stop}, seed {seed}");
        }
    }
    assert!(answered > 0 && again > 0, "{answered} answered, {again} again");
}
