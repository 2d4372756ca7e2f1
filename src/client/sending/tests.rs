//! The sending half on a simulated disk.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::*;
use crate::client::live::Live;
use crate::core::inbox::Pull;
use crate::core::outbox::Settled;
use crate::disk::simulated::SimulatedDisk;
use crate::wire::WireError;

const FOLDER: &str = "/profile";

fn sending(disk: &SimulatedDisk) -> Sending {
    Sending::new(Files::InThread, Arc::new(disk.clone()), FOLDER.into(), Epoch::new([1; 16]))
}

fn entry(number: u64) -> Entry {
    let (group, tag, epoch) = (GroupId::new(7), Tag::new(number.to_be_bytes()), Epoch::new([1; 16]));
    Entry { group, tag, epoch, payload: Bytes::from_static(b"text"), attempted: false }
}

async fn outcome_of(sending: &mut Sending, number: u64) -> oneshot::Receiver<Result<Outcome, OutboxError>> {
    let (reply, answer) = oneshot::channel();
    sending.wait(ClientSeq::new(number), reply).await;
    answer
}

#[tokio::test]
async fn a_welcome_that_could_not_be_written_down_is_taken_in_later() {
    let disk = SimulatedDisk::new();
    let mut sending = sending(&disk);
    disk.fail_syncs(1, "outbox");
    sending.welcome = Some((ClientSeq::new(5), 16, 32 * 1024));
    sending.connected = true;
    sending.poll(1).await.unwrap_err();
    assert!(sending.welcome.is_some() && sending.drains());
    sending.poll(1 + FILE_PAUSE_MS).await.unwrap();
    let (reply, queued) = oneshot::channel();
    let queue = Queue { group: GroupId::new(7), tag: Tag::new([1; 8]), payload: Bytes::from_static(b"text"), reply };
    sending.queue(vec![queue], 2 + FILE_PAUSE_MS).await;
    let seq = queued.await.unwrap().unwrap();
    assert_eq!(seq, ClientSeq::new(6), "numbers up to 5 are used up at the server");
    assert!(sending.outbox().unwrap().entry(seq).unwrap().attempted, "it is sent at once");
}

#[tokio::test]
async fn who_waits_gets_the_answer_however_many_others_ended_since() {
    const COUNT: u64 = 1_500;
    let disk = SimulatedDisk::new();
    let mut sending = sending(&disk);
    let mut other = OutboxFile::new(Arc::new(disk.clone()), Path::new(FOLDER));
    let added = (1..=COUNT).map(|number| Change::Added(ClientSeq::new(number), entry(number))).collect();
    other.step::<ProfileError>(true, |_| Ok(added)).unwrap();
    let mut first = outcome_of(&mut sending, 1).await;
    assert!(first.try_recv().is_err());
    let settled = |number| Settled::Sent { group: GroupId::new(7), msgid: MessageId::new(number), time_ms: 1 };
    let ended = (1..=COUNT).map(|number| Change::Settled(ClientSeq::new(number), settled(number))).collect();
    other.step::<ProfileError>(true, |_| Ok(ended)).unwrap();
    sending.poll(1).await.unwrap();
    assert!(matches!(first.try_recv(), Ok(Ok(Outcome::Sent { msgid, .. })) if msgid == MessageId::new(1)));
    let asked_late = outcome_of(&mut sending, 2).await.await.unwrap();
    assert_eq!(asked_late, Ok(Outcome::NotKept));
    assert!(matches!(outcome_of(&mut sending, COUNT).await.await.unwrap(), Ok(Outcome::Sent { .. })));
    let never = outcome_of(&mut sending, COUNT + 1).await.await.unwrap();
    assert_eq!(never, Err(OutboxError::Absent(ClientSeq::new(COUNT + 1))));
}

#[test]
fn who_was_told_of_a_refusal_finds_it_after_a_power_loss() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new();
        let mut file = OutboxFile::new(Arc::new(disk.clone()), Path::new(FOLDER));
        let (seq, mut attempted) = (ClientSeq::new(1), entry(1));
        attempted.attempted = true;
        file.step::<ProfileError>(true, |_| Ok(vec![Change::Added(seq, attempted)])).unwrap();
        let refused = Settled::Refused { number: 7, detail: String::new() };
        file.step::<ProfileError>(false, |_| Ok(vec![Change::Settled(seq, refused)])).unwrap();
        let mut found = OutboxFile::new(Arc::new(disk.crash(seed)), Path::new(FOLDER));
        found.refresh().unwrap();
        assert!(found.outbox().entry(seq).is_none(), "it would be sent again, and may be stored: seed {seed}");
    }
}

/// The first of them goes behind all others, which have to come behind it, or it stays where it is.
#[test]
fn entries_that_get_new_numbers_together_keep_their_order_in_a_power_loss() {
    const COUNT: u64 = 200;
    let (mut moved, mut stayed) = (0, 0);
    for seed in 0..100 {
        let disk = SimulatedDisk::new();
        let mut file = OutboxFile::new(Arc::new(disk.clone()), Path::new(FOLDER));
        let added = (1..=COUNT).map(|number| Change::Added(ClientSeq::new(number), entry(number)));
        let attempted = Change::Attempted(vec![ClientSeq::new(1)]);
        file.step::<ProfileError>(true, |_| Ok(added.chain([attempted]).collect())).unwrap();
        let never = |outbox: &Outbox| Drain::default().answered(outbox, ClientSeq::new(1), &Answer::NeverStored, 0);
        file.step::<ProfileError>(false, |outbox| Ok(never(outbox))).unwrap();
        let mut found = OutboxFile::new(Arc::new(disk.crash(seed)), Path::new(FOLDER));
        found.refresh().unwrap();
        let tags = found.outbox().entries().map(|(_, entry)| entry.tag);
        assert!(tags.eq((1..=COUNT).map(|number| entry(number).tag)), "seed {seed}");
        let has_moved = found.outbox().entry(ClientSeq::new(1)).is_none();
        *if has_moved { &mut moved } else { &mut stayed } += 1;
    }
    assert!(moved > 0 && stayed > 0, "{moved} moved, {stayed} stayed");
}

/// A connection on which nothing may leave that a power loss would take back.
struct Held {
    disk: SimulatedDisk,
    sent: Mutex<Vec<ClientSeq>>,
}

impl Line for Held {
    async fn send(&self, seq: ClientSeq, _send: &frame::Send) -> Result<(), WireError> {
        for seed in 0..20 {
            let mut found = OutboxFile::new(Arc::new(self.disk.crash(seed)), Path::new(FOLDER));
            found.refresh().unwrap();
            assert!(found.outbox().entry(seq).is_some(), "{seq} would be given again: seed {seed}");
        }
        self.sent.lock().unwrap().push(seq);
        Ok(())
    }

    async fn write_acks(&self, _acks: &frame::Ack) -> Result<(), WireError> {
        Ok(())
    }

    fn open_page(&self, _pull: Pull) {}

    fn open_list(&self, _after: GroupId) {}

    fn fail(&self, error: &WireError) {
        panic!("{error}");
    }

    async fn close(&self) {}

    fn live(&self) -> Option<Arc<Live>> {
        None
    }
}

/// The file that was made anew is there under its name, though not for sure, and is read again.
#[tokio::test]
async fn what_could_not_be_made_durable_is_sent_by_nobody_before_it_is() {
    let disk = SimulatedDisk::new();
    let mut sending = sending(&disk);
    let line = Held { disk: disk.clone(), sent: Mutex::new(Vec::new()) };
    sending.welcome = Some((ClientSeq::ZERO, 16, 32 * 1024));
    sending.connected = true;
    sending.poll(1).await.unwrap();
    // The first leaves the file doubtful; of the new file that the second makes only the name fails.
    for (passing, number) in [(0, 1), (1, 2)] {
        disk.fail_syncs_after(passing, 1, "profile");
        let (reply, queued) = oneshot::channel();
        let (group, tag) = (GroupId::new(7), Tag::new([number; 8]));
        sending.queue(vec![Queue { group, tag, payload: Bytes::from_static(b"text"), reply }], 2).await;
        assert!(queued.await.unwrap().is_err());
    }
    assert_eq!(sending.outbox().unwrap().count(), 1, "the second is read again");
    sending.pump(&line, 3).await.unwrap();
    assert_eq!(line.sent.lock().unwrap().len(), 1);
}
