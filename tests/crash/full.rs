//! A disk that is full: a simulated one under a server in this process, and a small file system of its own under the real
//! program. Sends are refused before they are decided, everything else goes on, and nothing that was answered is lost.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gaggle::ids::GroupId;
use gaggle::limits;
use gaggle::store::ballast::BALLAST_NAME;
use gaggle::wire::code::Code;
use gaggle::wire::frame::Sent;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::folder::{bytes, written};
use crate::harness::{Scene, raw_group, rounds};
use crate::mount::{self, Mount};
use crate::process::Home;
use crate::raw::{Key, Pulling, Raw, soon, text_frame};
use crate::window::{Ledger, Window, check};

const MB: u64 = 1024 * 1024;
/// Between two looks at something that another process does by itself.
const LOOK: Duration = Duration::from_millis(50);

// ---- simulated ------------------------------------------------------------------------------------------------------

/// Sends one message until it is refused for this reason.
async fn until_refused(raw: &mut Raw, seq: u64, lowest: u64, group: GroupId, code: Code) {
    let repeat = async {
        while raw.ask::<Sent>(&text_frame(seq, lowest, group, "later")).await.unwrap_err().code != code.number() {
            tokio::time::sleep(LOOK).await;
        }
    };
    soon("another reason", repeat).await;
}

#[tokio::test]
async fn on_a_full_disk_sends_are_refused_in_order_acks_go_on_and_room_ends_it_without_a_restart() {
    let mut scene = Scene::start().await;
    let group = scene.group;
    let stored = scene.send_many(5).await;
    let mut bob = scene.bob.follow(scene.site.address(), group).await;
    scene.site.simulated().set_free_bytes(limits::ROOM_FULL_BYTES - 1);
    // The server looks once a second; what it takes until then is in order too.
    let mut next = scene.next;
    let mut head = stored[stored.len() - 1];
    let refused = loop {
        match scene.ada.ask::<Sent>(&text_frame(next, next, group, "more")).await {
            Ok(sent) => {
                assert_eq!(sent.msgid.value(), head + 1);
                (head, next) = (head + 1, next + 1);
                // Not so many that bob's credit, which he gives back only afterwards, doesn't cover them.
                tokio::time::sleep(5 * LOOK).await;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(Code::from_number(refused.code), Some(Code::StorageFull), "{refused:?}");
    assert!(refused.retry_after_ms > 0);
    until_refused(&mut scene.ada, next + 1, next, group, Code::StorageFull).await;
    bob.ack(group, head).await;
    assert_eq!(bob.cursor_reaches(group, head).await.last(), Some(&head));
    assert_eq!(scene.ada.pull(group, 0, 0, Pulling::Browse).await.unwrap().msgids().last(), Some(&head));

    scene.site.simulated().set_free_bytes(u64::MAX / 2);
    until_refused(&mut scene.ada, next + 1, next, group, Code::OutOfTurn).await;
    for (seq, text, msgid) in [(next, "more", head + 1), (next + 1, "later", head + 2)] {
        let sent: Sent = scene.ada.ask(&text_frame(seq, next, group, text)).await.unwrap();
        assert_eq!(sent.msgid.value(), msgid);
    }
}

// ---- a file system of its own ---------------------------------------------------------------------------------------

/// A small disk, which other programs can fill.
struct Disk {
    // Before its place, which cannot be removed while it is mounted.
    mount: Mount,
    _place: TempDir,
}

impl Disk {
    /// None where this machine or this user may not.
    fn new() -> Option<Disk> {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("image");
        let mounted = mount::make(&image, 200 * MB);
        match mounted.and_then(|()| Mount::new(&image, &place.path().join("disk"), false, "defaults")) {
            Ok(mount) => Some(Disk { mount, _place: place }),
            Err(why) => {
                mount::skipped("a small disk that fills up", &why);
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.mount.path()
    }

    fn free(&self) -> u64 {
        self.mount.free()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Another program writes until so much is free; all of it, for zero.
    fn fill(&self, leave: u64) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        let block = vec![7; 256 * 1024];
        while self.free() > leave {
            match file.write(&block[..block.len().min(usize::try_from(self.free() - leave).unwrap())]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
        file.sync_all().unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

/// Whether there is a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Up,
    Down,
    /// It stays up: finish.
    Over,
}

/// A device that sends whenever there is a server.
async fn send(mut window: Window, server: SocketAddr, mut life: watch::Receiver<Life>) {
    while *life.wait_for(|life| *life != Life::Down).await.unwrap() == Life::Up {
        tokio::select! {
            biased;
            changed = life.changed() => changed.unwrap(),
            () = send_in_one_life(&mut window, server) => panic!("a connection ended while the server was up"),
        }
    }
    let mut raw = window.connect(server).await;
    window.finish(&mut raw).await;
}

async fn send_in_one_life(window: &mut Window, server: SocketAddr) {
    let mut raw = window.connect(server).await;
    let mut refused = window.full;
    while window.step(&mut raw).await.is_some() {
        if std::mem::replace(&mut refused, window.full) < window.full {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A team on a small disk, some of it under load.
struct Small {
    // Before the disk, which cannot be unmounted while it runs.
    home: Home,
    senders: JoinSet<()>,
    life: watch::Sender<Life>,
    ledger: Ledger,
    ada: Key,
    group: GroupId,
    disk: Disk,
}

impl Small {
    async fn start(disk: Disk) -> Small {
        let mut home = Home::new();
        std::os::unix::fs::symlink(disk.path().join("data"), home.data()).unwrap();
        fs::create_dir(disk.path().join("data")).unwrap();
        home.start().await;
        // Before the load, which may be through with the room for it in a moment.
        let ballast = disk.path().join("data").join(BALLAST_NAME);
        soon("the ballast", async {
            while !ballast.exists() {
                tokio::time::sleep(LOOK).await;
            }
        })
        .await;
        let ada = home.operator().await;
        let mut raw = ada.call(home.address()).await;
        let group = raw_group(&mut raw, "team", 1).await;
        let (life, lives) = watch::channel(Life::Up);
        let (ledger, mut senders) = (Ledger::new(), JoinSet::new());
        for number in 0..3 {
            let key = home.user(&mut raw, &format!("sender{number}"), group).await;
            let window = Window::new(key, group, ledger.clone()).padded(1_500);
            senders.spawn(send(window, home.address(), lives.clone()));
        }
        raw.close().await;
        Small { home, senders, life, ledger, ada, group, disk }
    }

    async fn start_again(&mut self) {
        self.home.start().await;
        self.life.send_replace(Life::Up);
    }

    fn kill(&mut self) {
        self.life.send_replace(Life::Down);
        self.home.kill();
    }

    async fn terminate(&mut self) {
        self.life.send_replace(Life::Down);
        let status = self.home.terminate().await;
        assert_eq!(status.code(), Some(0), "{}", self.home.errors());
    }

    /// Every answered send is there, in its place.
    async fn check(&self) -> u64 {
        // What is answered from here on may or may not be in what is read.
        let answered = self.ledger.snapshot();
        let mut raw = self.ada.call(self.home.address()).await;
        let items = raw.browse(self.group, 0).await;
        raw.close().await;
        check(self.group, &items, &answered);
        items.len() as u64
    }

    fn said(&self, words: &str) -> usize {
        self.home.errors().matches(words).count()
    }

    async fn says(&self, words: &str, times: usize) {
        let waits = async {
            while self.said(words) < times {
                tokio::time::sleep(LOOK).await;
            }
        };
        soon(words, waits).await;
    }

    /// The same where the load has to bring it about, which takes as long as it takes on a busy machine.
    async fn says_under_load(&self, words: &str) {
        while self.said(words) == 0 {
            let before = self.ledger.count();
            let goes_on = async {
                while self.said(words) == 0 && self.ledger.count() == before {
                    tokio::time::sleep(LOOK).await;
                }
            };
            soon(words, goes_on).await;
        }
    }

    /// Acknowledges the next page behind this msgid, which goes on while the disk is full.
    async fn acks(&self, after: u64) {
        let mut reader = self.ada.listen(self.home.address()).await;
        let head = reader.pull(self.group, after, 50, Pulling::Deliver).await.unwrap().covered_to.value();
        reader.ack(self.group, head).await;
        reader.cursor_reaches(self.group, head).await;
        reader.close().await;
    }

    /// Waits until nothing was written for longer than it takes for an index to count as idle: it is flushed then, and
    /// opened anew where that was due.
    async fn comes_to_rest(&self) {
        let look = Duration::from_millis(100);
        let (mut quiet, mut last) = (Duration::ZERO, BTreeMap::new());
        while quiet < Duration::from_millis(limits::INDEX_IDLE_MS) + 20 * look {
            tokio::time::sleep(look).await;
            let now = written(&self.disk.path().join("data"));
            quiet = if now == last { quiet + look } else { Duration::ZERO };
            last = now;
        }
    }

    /// Waits until everything is refused, whoever asks.
    async fn settles(&self) -> u64 {
        loop {
            let before = self.ledger.count();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.ledger.count() == before {
                return before;
            }
        }
    }
}

#[tokio::test]
async fn on_a_small_disk_that_fills_up_under_load_nothing_that_was_answered_is_lost() {
    let Some(disk) = Disk::new() else { return };
    let began = Instant::now();
    let told = |what: &str, small: &Small| {
        println!(
            "{:>6.1?} {what}: {} answers, {} MB free",
            began.elapsed(),
            small.ledger.count(),
            small.disk.free() / MB
        );
    };
    let mut small = Small::start(disk).await;
    let data = small.disk.path().join("data");
    let ballast = data.join(BALLAST_NAME);
    small.ledger.reaches(300 * rounds(1)).await;
    told("load", &small);

    // Filled by another program almost to the mark, and by the load beyond it.
    small.disk.fill(limits::ROOM_LOW_BYTES_MIN - MB);
    small.says("the disk fills up", 1).await;
    small.disk.fill(limits::ROOM_FULL_BYTES + 24 * MB);
    small.says_under_load("the disk is full").await;
    let answered = small.settles().await;
    told("full by the load", &small);
    assert!(small.disk.free() >= limits::ROOM_CLOSED_BYTES, "{}", small.disk.free());
    small.check().await;
    small.acks(0).await;

    // Freed: it goes on by itself.
    small.disk.empty();
    small.ledger.reaches(answered + 100).await;
    small.says("there is room on the disk again", 1).await;
    told("freed", &small);

    // Filled to the last byte by another program, though not in the middle of a flush, which would cost the index.
    small.life.send_replace(Life::Down);
    small.comes_to_rest().await;
    small.disk.fill(0);
    small.life.send_replace(Life::Up);
    small.says("the disk is full to the last", 1).await;
    small.settles().await;
    small.check().await;
    told("full to the last", &small);
    assert_eq!(small.said("the log failed"), 0, "{}", small.home.errors());

    // Restarted while full: in order, and killed.
    small.terminate().await;
    small.disk.fill(0);
    small.start_again().await;
    assert!(!ballast.exists());
    small.check().await;
    told("started on a full disk", &small);
    small.kill();
    small.start_again().await;
    small.check().await;
    told("started on a full disk after a kill", &small);

    // The index has to be rebuilt, and there is no room.
    small.kill();
    fs::remove_file(data.join("flushed")).unwrap();
    fs::remove_dir_all(data.join("index")).unwrap();
    small.disk.fill(0);
    let (status, said) = small.home.starts_in_vain().await;
    println!("{said}");
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("MB of free space") && said.contains("make room"), "{said}");
    small.disk.empty();
    small.start_again().await;
    told("freed and started", &small);
    let answered = small.ledger.count();
    small.ledger.reaches(answered + 100).await;
    small.life.send_replace(Life::Over);
    while let Some(ended) = soon("the last answers", small.senders.join_next()).await {
        ended.unwrap();
    }
    let items = small.check().await;
    small.terminate().await;
    println!(
        "{items} items, {} sends answered, none lost; log {} MB, index {} MB; all took {:?}",
        small.ledger.snapshot().len(),
        bytes(&data.join("log")) / MB,
        bytes(&data.join("index")) / MB,
        began.elapsed()
    );
}
