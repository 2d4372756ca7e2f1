//! Looks at the free space of the data folder's disk, about once a second, and says what there is room for.
//!
//! [`Watch`] is the step machine; its thread only loops over it, as asking a disk may block. The level stands in one
//! atomic that the writer looks at before it decides. The ballast is made here, where there is plenty of room.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use tracing::{error, info, warn};

use crate::clock;
use crate::core::command::Storage;
use crate::disk::SharedDisk;
use crate::limits::CHECKPOINT_ROOM_BYTES;
use crate::store::ballast;
use crate::store::room::{self, Level, Marks, Word};

/// How often the free space is looked at. A disk that fills up faster than the reserve in this time is noticed by the
/// failed write.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const MB: u64 = 1024 * 1024;

/// What there is room for, as all threads see it.
#[derive(Debug)]
pub(crate) struct Room {
    disk: SharedDisk,
    folder: PathBuf,
    level: AtomicU8,
    checkpoint_bytes: AtomicU64,
}

impl Room {
    /// The room below this folder; enough, until it was looked at.
    pub(crate) fn new(disk: SharedDisk, folder: PathBuf) -> Room {
        let level = AtomicU8::new(Level::Plenty as u8);
        Room { disk, folder, level, checkpoint_bytes: AtomicU64::new(0) }
    }

    /// What may be decided.
    pub(crate) fn storage(&self) -> Storage {
        let level = self.level.load(Ordering::Relaxed);
        if level >= Level::Closed as u8 {
            Storage::Closed
        } else if level >= Level::Full as u8 {
            Storage::Reserve
        } else {
            Storage::Open
        }
    }

    /// A write has found no room: nothing is decided until the next look.
    pub(crate) fn has_run_out(&self) {
        self.level.store(Level::Closed as u8, Ordering::Relaxed);
    }

    /// How much disk the next checkpoint of the index may take; what must be free before something is decided follows
    /// it, so that it never comes to be too much.
    pub(crate) fn checkpoint_takes(&self, bytes: u64) {
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether a checkpoint of the index may begin: one that fails for want of room would cost the index. May block.
    pub(crate) fn may_checkpoint(&self) -> bool {
        let needed = self.checkpoint_bytes.load(Ordering::Relaxed).saturating_add(CHECKPOINT_ROOM_BYTES);
        // A disk that cannot tell is tried.
        self.disk.free_bytes(&self.folder).map_or(true, |free| free >= needed)
    }
}

/// The step machine that looks.
pub(crate) struct Watch {
    shared: Arc<Room>,
    room: room::Room,
    /// Whether it was told that the disk cannot say how much is free.
    is_blind: bool,
    /// A ballast that could not be made is not tried again before the room has been short.
    ballast_failed: bool,
    looks: u64,
}

impl Watch {
    /// Looks after this room.
    pub(crate) fn new(shared: Arc<Room>) -> Watch {
        Watch { shared, room: room::Room::default(), is_blind: false, ballast_failed: false, looks: 0 }
    }

    /// Looks once, publishes the level, and makes the ballast where there is none and plenty of room.
    pub(crate) fn step(&mut self, now: Instant) {
        let (disk, folder) = (&self.shared.disk, &self.shared.folder);
        let told = disk.free_bytes(folder).and_then(|free| Ok((free, Marks::of_disk(disk.size_bytes(folder)?))));
        let (free, marks) = match told {
            Ok(told) => told,
            Err(failure) => {
                if !std::mem::replace(&mut self.is_blind, true) {
                    warn!(error = %failure, "a full disk will be noticed only when a write fails");
                }
                return;
            }
        };
        self.is_blind = false;
        let marks = marks.with_checkpoint(self.shared.checkpoint_bytes.load(Ordering::Relaxed));
        let word = self.room.look(free, marks, now);
        self.shared.level.store(self.room.level() as u8, Ordering::Relaxed);
        if let Some(word) = word {
            tell(word, free, marks);
        }
        // The first look is part of the start, which has better things to do.
        self.looks = self.looks.saturating_add(1);
        if self.room.level() > Level::Plenty {
            self.ballast_failed = false;
        } else if self.looks > 1 && free >= marks.for_ballast() && !self.ballast_failed {
            self.make_ballast();
        }
    }

    fn make_ballast(&mut self) {
        let (disk, folder) = (self.shared.disk.as_ref(), &self.shared.folder);
        let made = ballast::is_there(disk, folder)
            .and_then(|is_there| if is_there { Ok(()) } else { ballast::make(disk, folder) });
        if let Err(failure) = made {
            self.ballast_failed = true;
            warn!(error = %failure, "no room could be kept for opening the store on a full disk");
        }
    }
}

fn tell(word: Word, free: u64, marks: Marks) {
    let (free_mb, full_mb) = (free / MB, marks.full() / MB);
    match word {
        Word::Worse(Level::Plenty | Level::Low) => {
            warn!(free_mb, "the disk fills up: sends are refused from {full_mb} MB on; make room");
        }
        Word::Worse(Level::Full) => {
            error!(free_mb, "the disk is full: sends are refused below {full_mb} MB, reading goes on; make room");
        }
        Word::Worse(Level::Closed) => {
            error!(free_mb, "the disk is full to the last: nothing at all is taken, reading goes on; make room");
        }
        Word::Open => info!(free_mb, "there is room on the disk again: sends are taken"),
    }
}

/// The thread that loops over a [`Watch`]; it ends with [`Monitor::finish`].
pub(crate) struct Monitor {
    ending: Sender<()>,
    thread: JoinHandle<()>,
}

impl Monitor {
    /// Starts the thread.
    pub(crate) fn start(watch: Watch) -> std::io::Result<Monitor> {
        let (ending, ended) = crossbeam_channel::bounded(0);
        let thread = std::thread::Builder::new().name("room".to_owned()).spawn(move || run(watch, &ended))?;
        Ok(Monitor { ending, thread })
    }

    /// Ends the thread.
    pub(crate) fn finish(self) {
        drop(self.ending);
        if self.thread.join().is_err() {
            error!("the thread that looks at the disk's room panicked");
        }
    }
}

fn run(mut watch: Watch, ended: &Receiver<()>) {
    while ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        watch.step(clock::monotonic());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::Disk as _;
    use crate::disk::simulated::SimulatedDisk;
    use crate::limits::{BALLAST_BYTES, ROOM_EASE_BYTES, ROOM_FULL_BYTES, ROOM_LOW_BYTES_MAX};

    const DATA: &str = "/data";

    fn watched() -> (SimulatedDisk, Arc<Room>, Watch) {
        let disk = SimulatedDisk::new();
        disk.create_folder(Path::new(DATA)).unwrap();
        let room = Arc::new(Room::new(Arc::new(disk.clone()), PathBuf::from(DATA)));
        let watch = Watch::new(Arc::clone(&room));
        (disk, room, watch)
    }

    #[test]
    fn the_ballast_is_made_where_there_is_plenty_and_never_while_low() {
        let (disk, room, mut watch) = watched();
        let is_there = || ballast::is_there(&disk, Path::new(DATA)).unwrap();
        disk.set_free_bytes(ROOM_LOW_BYTES_MAX + ROOM_EASE_BYTES - 1);
        for _ in 0..3 {
            watch.step(clock::monotonic());
        }
        assert!(!is_there());
        disk.set_free_bytes(ROOM_LOW_BYTES_MAX + ROOM_EASE_BYTES);
        watch.step(clock::monotonic());
        assert!(is_there());
        watch.step(clock::monotonic());
        assert_eq!(watch.room.level(), Level::Plenty);
        // An open gave it up: it is made again once there is plenty.
        disk.set_free_bytes(0);
        assert!(ballast::give_up(&disk, Path::new(DATA)).unwrap());
        watch.step(clock::monotonic());
        assert!(!is_there() && room.storage() == Storage::Closed);
        disk.set_free_bytes(u64::MAX / 2);
        watch.step(clock::monotonic());
        assert!(is_there() && room.storage() == Storage::Open);
    }

    #[test]
    fn a_ballast_that_fails_is_not_tried_at_each_look() {
        let (disk, _room, mut watch) = watched();
        disk.fail_writes(2, "ballast");
        for _ in 0..5 {
            watch.step(clock::monotonic());
        }
        assert!(!ballast::is_there(&disk, Path::new(DATA)).unwrap());
        disk.set_free_bytes(BALLAST_BYTES);
        watch.step(clock::monotonic());
        disk.fail_writes(0, "ballast");
        disk.set_free_bytes(u64::MAX / 2);
        watch.step(clock::monotonic());
        assert!(ballast::is_there(&disk, Path::new(DATA)).unwrap());
    }

    #[test]
    fn what_the_next_checkpoint_takes_is_kept_free() {
        let (disk, room, mut watch) = watched();
        disk.set_free_bytes(ROOM_FULL_BYTES + ROOM_EASE_BYTES);
        watch.step(clock::monotonic());
        assert!(room.storage() == Storage::Open && room.may_checkpoint());
        room.checkpoint_takes(ROOM_EASE_BYTES + 1);
        watch.step(clock::monotonic());
        assert!(room.storage() == Storage::Reserve && room.may_checkpoint());
        // It takes what was kept for it, and that is all.
        disk.set_free_bytes(ROOM_FULL_BYTES - 1);
        room.checkpoint_takes(0);
        watch.step(clock::monotonic());
        assert!(room.storage() == Storage::Reserve && room.may_checkpoint());
        disk.set_free_bytes(CHECKPOINT_ROOM_BYTES - 1);
        assert!(!room.may_checkpoint());
    }

    #[test]
    fn the_thread_ends_when_it_is_told() {
        let (_disk, _room, watch) = watched();
        Monitor::start(watch).unwrap().finish();
    }
}
