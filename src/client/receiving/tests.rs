//! The listening half on a simulated disk.

use std::path::Path;

use super::*;
use crate::disk::SharedDisk;
use crate::disk::simulated::SimulatedDisk;

/// A listener on this disk, what its application is told, and how it acknowledges.
fn listener(disk: &SimulatedDisk) -> (Receiving, mpsc::Receiver<Event>, watch::Sender<u64>) {
    let disk: SharedDisk = Arc::new(disk.clone());
    let folder = Path::new("/profile");
    let (file, lost) = InboxFile::open(&disk, folder).unwrap();
    let lock = disk.lock(&folder.join("listen.lock")).unwrap().unwrap();
    let (events, received) = mpsc::channel(4);
    let (acks, acked) = watch::channel(0);
    let (subscription, me, taken) = (Subscription::All, UserId::new(1), Arc::default());
    let begin =
        Begin { files: Files::InThread, file, lock, subscription, me, events, acks: acked, taken, from: None, lost };
    (Receiving::new(begin).unwrap(), received, acks)
}

/// The rows of items with these msgids.
fn rows(msgids: std::ops::RangeInclusive<u64>) -> Bytes {
    let mut rows = BytesMut::new();
    for msgid in msgids {
        let item = item::Item {
            gid: GroupId::new(7),
            msgid: MessageId::new(msgid),
            kind: kind::TEXT,
            flags: item::flag::CONTENT,
            author: UserId::new(5),
            time_ms: msgid,
            tag: Tag::NONE,
            body: Bytes::from_static(b"text"),
            extensions: Extensions::default(),
        };
        row::Row::plain(item.encode().unwrap()).append_to(&mut rows).unwrap();
    }
    rows.freeze()
}

#[tokio::test]
async fn what_was_handed_out_says_so_when_it_comes_again_after_a_power_loss() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new();
        let (mut receiving, mut received, _acks) = listener(&disk);
        receiving.inbox.listed(GroupId::new(7), MessageId::ZERO, MessageId::new(2), 0);
        let pull = receiving.next_pull(0).unwrap();
        receiving.rows(pull.group, rows(1..=2), 0).unwrap();
        receiving.settle(0).await.unwrap();
        assert!(matches!(received.try_recv(), Ok(Event::Item(first)) if !first.seen_before));
        drop(receiving);
        let (mut again, mut received, _acks) = listener(&disk.crash(seed));
        again.settle(0).await.unwrap();
        assert!(matches!(received.try_recv(), Ok(Event::Item(first)) if first.seen_before), "seed {seed}");
    }
}

/// The row of a recall.
fn recall(msgid: u64, target: u64) -> Bytes {
    let target = said::msgid_extension(extension::TARGET, MessageId::new(target));
    let item = item::Item {
        gid: GroupId::new(7),
        msgid: MessageId::new(msgid),
        kind: kind::RECALL,
        flags: 0,
        author: UserId::new(5),
        time_ms: msgid,
        tag: Tag::NONE,
        body: Bytes::new(),
        extensions: Extensions(vec![target]),
    };
    let mut rows = BytesMut::new();
    row::Row::plain(item.encode().unwrap()).append_to(&mut rows).unwrap();
    rows.freeze()
}

/// The queue to the application has room for four: the others wait in the file.
#[tokio::test]
async fn a_row_that_waits_is_handed_out_as_recalled_once_its_recall_is_stored() {
    let (mut receiving, mut received, _acks) = listener(&SimulatedDisk::new());
    receiving.inbox.listed(GroupId::new(7), MessageId::ZERO, MessageId::new(6), 0);
    let pull = receiving.next_pull(0).unwrap();
    receiving.rows(pull.group, rows(1..=6), 0).unwrap();
    receiving.settle(0).await.unwrap();
    receiving.rows(pull.group, recall(7, 5), 0).unwrap();
    assert_eq!(receiving.recalled(), [(GroupId::new(7), MessageId::new(5))]);
    receiving.settle(0).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..2 {
        while let Ok(event) = received.try_recv() {
            let Event::Item(Received { position, item, .. }) = event else { panic!("items are told") };
            told.push((position.number, item.msgid.value(), item.content));
        }
        receiving.settle(0).await.unwrap();
    }
    assert!(told.iter().map(|(number, msgid, _)| (*number, *msgid)).eq((1..=7).map(|number| (number, number))));
    let contents: Vec<_> = told.into_iter().skip(3).map(|(_, _, content)| content).collect();
    let said = || Content::Text("text".to_owned());
    let expected = [said(), Content::Recalled { edit: false }, said(), Content::Recall(MessageId::new(5))];
    assert_eq!(contents, expected);
}

#[tokio::test]
async fn acks_after_the_inbox_failed_turn_the_loop_once_and_not_for_ever() {
    let (mut receiving, _received, acks) = listener(&SimulatedDisk::new());
    receiving.file = None;
    acks.send(3).unwrap();
    assert!(receiving.acks().has_changed().unwrap());
    receiving.settle(0).await.unwrap();
    assert!(!receiving.acks().has_changed().unwrap());
}
