//! The listening half on a simulated disk.

use std::path::Path;

use super::*;
use crate::disk::SharedDisk;
use crate::disk::simulated::SimulatedDisk;

#[tokio::test]
async fn acks_after_the_inbox_failed_turn_the_loop_once_and_not_for_ever() {
    let disk: SharedDisk = Arc::new(SimulatedDisk::new());
    let folder = Path::new("/profile");
    let (file, lost) = InboxFile::open(&disk, folder).unwrap();
    let lock = disk.lock(&folder.join("listen.lock")).unwrap().unwrap();
    let (events, _received) = mpsc::channel(4);
    let (acks, acked) = watch::channel(0);
    let (subscription, me, taken) = (Subscription::All, UserId::new(1), Arc::default());
    let begin =
        Begin { files: Files::InThread, file, lock, subscription, me, events, acks: acked, taken, from: None, lost };
    let mut receiving = Receiving::new(begin).unwrap();
    receiving.file = None;
    acks.send(3).unwrap();
    assert!(receiving.acks().has_changed().unwrap());
    receiving.settle(0).await.unwrap();
    assert!(!receiving.acks().has_changed().unwrap());
}
