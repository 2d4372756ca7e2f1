//! A stepped server whose steps come in any order, with clients that know a few frames.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::core::rows::{CodeHash, Handle, Policy};
use crate::disk::simulated::SimulatedDisk;
use crate::disk::whole;
use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag};
use crate::proof::{chance, time};
use crate::store::faulty::{Fault, FaultyIndex};
use crate::wire::codec::{self, FrameReader, RawFrame};
use crate::wire::frame::{
    Ack, AddMember, CreateGroup, Cursors, Extensions, Frame, GroupCreated, Hello, PageEnd, PageRows, Payload, Prove,
    Pull, Push, Send, Sent, Subscribe, Welcome,
};
use crate::wire::item::kind;
use crate::wire::row;

mod beside;
mod said;
mod wiped;

const NOW_MS: u64 = 1_000_000;

/// A server on a simulated disk, with steps in an order that a seed decides.
struct World {
    disk: SimulatedDisk,
    index: Arc<FaultyIndex>,
    node: Option<Node>,
    random: StdRng,
    elapsed_ms: u64,
    /// What was written, by connection.
    written: BTreeMap<Conn, Vec<Out>>,
    steps: Vec<Work>,
}

impl World {
    fn new(seed: u64) -> World {
        chance::swap(Some(chance::Source::new(seed)));
        time::set(0, NOW_MS);
        let mut world = World {
            disk: SimulatedDisk::new(),
            index: Arc::default(),
            node: None,
            random: StdRng::seed_from_u64(seed),
            elapsed_ms: 0,
            written: BTreeMap::new(),
            steps: Vec::new(),
        };
        world.open();
        world
    }

    fn setup(&self) -> Setup {
        Setup {
            disk: Arc::new(self.disk.clone()),
            folder: PathBuf::from("/data"),
            segment_bytes: 16 * 1024,
            index: Arc::clone(&self.index) as Arc<dyn Index>,
            pace: Pace { checkpoint_bytes: 2_000, idle: Duration::from_secs(5), ..Pace::default() },
            waiting_bytes_max: 4_000,
            members: Settings::default(),
        }
    }

    fn open(&mut self) {
        self.node = Some(Node::open(&self.setup()).unwrap());
        self.written.clear();
    }

    /// The power goes, and comes back.
    fn crash(&mut self) {
        self.node = None;
        self.disk = self.disk.crash(self.random.random());
        let kept = self.random.random_range(0..=self.index.unflushed());
        self.index.crash(kept).unwrap();
        self.open();
    }

    fn node(&mut self) -> &mut Node {
        self.node.as_mut().unwrap()
    }

    fn wait(&mut self, ms: u64) {
        self.elapsed_ms += ms;
        time::set(self.elapsed_ms, NOW_MS + self.elapsed_ms);
    }

    /// One step, if there is one to take.
    fn step(&mut self) -> bool {
        let works = self.node().works();
        self.step_one_of(&works)
    }

    fn step_one_of(&mut self, works: &[Work]) -> bool {
        if works.is_empty() {
            return false;
        }
        let work = works[self.random.random_range(0..works.len())];
        self.take(work);
        true
    }

    fn take(&mut self, work: Work) {
        self.steps.push(work);
        self.node().step(work);
        for (conn, out) in self.node().take_written() {
            self.written.entry(conn).or_default().push(out);
        }
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    /// Takes every step there is but for this one.
    fn settle_but_for(&mut self, held_up: Work) {
        self.settle_but_for_all(&[held_up]);
    }

    /// The same for several.
    fn settle_but_for_all(&mut self, held_up: &[Work]) {
        loop {
            let mut works = self.node().works();
            works.retain(|work| !held_up.contains(work));
            if !self.step_one_of(&works) {
                return;
            }
        }
    }

    fn ask(&mut self, command: Command) -> Answer {
        let ask = self.node().ask(command);
        self.settle();
        self.node().answer(ask).unwrap().unwrap()
    }

    fn enrol(&mut self, number: u8, handle: &str) -> DeviceId {
        let code = CodeHash([number; 32]);
        let expires_ms = NOW_MS * 2;
        let handle = Handle::parse(handle).unwrap();
        if number == 1 {
            self.ask(Command::RenewFirstInvite { code, expires_ms });
        } else {
            let by = crate::core::command::Actor::Operator;
            self.ask(Command::Invite { by, handle: handle.clone(), group: None, code, expires_ms });
        }
        let (key, handle, device_name) = (DeviceKey([number; 32]), Some(handle), "laptop".to_owned());
        let Answer::Enrolled { device, .. } = self.ask(Command::Enrol { code, key, handle, device_name }) else {
            panic!("not enrolled")
        };
        device
    }

    fn say<F: Frame>(&mut self, conn: Conn, request: u32, frame: &F) {
        let bytes = codec::encode(request, frame).unwrap();
        self.node().control(conn, &bytes);
    }

    /// Connects, and says who it is.
    fn greet(&mut self, device: DeviceId, listens: bool, attempt: u64) -> Conn {
        let conn = self.node().connect().unwrap();
        let (instance, extensions) = (7, Extensions::default());
        self.say(conn, 1, &Hello { device, listens, instance, attempt, minor: 0, epoch: None, extensions });
        conn
    }

    fn call(&mut self, device: DeviceId) -> Conn {
        self.greet(device, false, 1)
    }

    fn listen(&mut self, device: DeviceId, attempt: u64) -> Conn {
        let conn = self.greet(device, true, attempt);
        let prove = Prove { signature: Bytes::from_static(&[0; 64]), extensions: Extensions::default() };
        self.say(conn, 0, &prove);
        let subscribe = Subscribe { all: true, groups: Vec::new(), extensions: Extensions::default() };
        let bytes = codec::encode(0, &subscribe).unwrap();
        self.node().acks(conn, &bytes);
        conn
    }

    fn send(&mut self, conn: Conn, seq: u64, group: GroupId) {
        let payload = Payload {
            kind: kind::TEXT,
            tag: Tag::new([7; 8]),
            body: Bytes::from(format!("text {seq}")),
            extensions: Extensions::default(),
        };
        let (seq, lowest) = (ClientSeq::new(seq), ClientSeq::new(1));
        let payload = payload.encode().unwrap();
        let send = Send { seq, lowest, gid: group, payload, extensions: Extensions::default() };
        self.say(conn, 100 + u32::try_from(seq.value()).unwrap(), &send);
    }

    /// Asks for everything above a msgid, on a stream of this number.
    fn pull(&mut self, conn: Conn, stream: u64, group: GroupId, after: u64) {
        let after = MessageId::new(after);
        let pull = Pull { gid: group, after, items: 0, deliver: true, extensions: Extensions::default() };
        let bytes = codec::encode(9, &pull).unwrap();
        self.node().request(conn, stream, &bytes);
    }

    fn ack(&mut self, conn: Conn, group: GroupId, msgid: u64) {
        let entries = vec![(group, MessageId::new(msgid))];
        let bytes = codec::encode(0, &Ack { entries, extensions: Extensions::default() }).unwrap();
        self.node().acks(conn, &bytes);
    }

    /// The frames of one kind that a connection was written.
    fn got<F: Frame>(&self, conn: Conn) -> Vec<(u32, F)> {
        let mut readers: BTreeMap<u64, FrameReader> = BTreeMap::new();
        let mut frames: Vec<RawFrame> = Vec::new();
        for out in self.written.get(&conn).into_iter().flatten() {
            let (stream, bytes) = match out {
                Out::Control(bytes) => (0, bytes),
                Out::Push(bytes) => (1, bytes),
                Out::Page(stream, bytes) => (10 + stream, bytes),
                Out::PageDone(_) | Out::PageReset(..) | Out::Closed(_) => continue,
            };
            let reader = readers.entry(stream).or_default();
            reader.push(bytes);
            while let Some(frame) = reader.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        let of_kind = frames.iter().filter(|frame| frame.kind == F::TYPE);
        of_kind.map(|frame| (frame.request, frame.decode().unwrap())).collect()
    }

    /// msgids by request of what was answered as sent.
    fn sent(&self, conn: Conn) -> BTreeMap<u32, u64> {
        self.got::<Sent>(conn).into_iter().map(|(request, sent)| (request, sent.msgid.value())).collect()
    }

    fn pushed(&self, conn: Conn) -> u64 {
        let batches = self.got::<Push>(conn).into_iter().flat_map(|(_, push)| push.batches);
        batches.map(|batch| row::rows(batch.rows).count() as u64).sum()
    }

    /// Two people in a group.
    fn people(&mut self) -> (DeviceId, DeviceId, GroupId) {
        let (alice, bob) = (self.enrol(1, "alice"), self.enrol(2, "bob"));
        let group = Command::CreateGroup { by: alice, name: "team".to_owned(), policy: Policy::FromJoin };
        let Answer::GroupCreated(group) = self.ask(group) else { panic!("no group") };
        self.ask(Command::AddMember { by: alice, group, handle: Handle::parse("bob").unwrap() });
        (alice, bob, group)
    }
}

/// The view has the leave already when the dispatcher comes to the return before it.
#[test]
fn who_returns_and_leaves_before_either_is_told_gets_both_borders() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let (alice, bob, group) = world.people();
        world.ask(Command::LeaveGroup { by: bob, group });
        let reader = world.listen(bob, 1);
        world.settle();
        world.pull(reader, 4, group, 1);
        world.settle();
        world.ack(reader, group, 3);
        world.settle();
        world.node().ask(Command::AddMember { by: alice, group, handle: Handle::parse("bob").unwrap() });
        world.settle_but_for(Work::Dispatch);
        world.node().ask(Command::LeaveGroup { by: bob, group });
        world.settle_but_for(Work::Dispatch);
        world.settle();
        assert_eq!(world.pushed(reader), 2);
    }
}

#[test]
fn what_was_answered_and_acked_outlives_the_power_and_arrives_in_any_order_of_steps() {
    for seed in 0..30 {
        let mut world = World::new(seed);
        let (alice, bob, group) = world.people();
        let (sender, reader) = (world.listen(alice, 1), world.listen(bob, 1));
        world.settle();
        assert_eq!(world.got::<Welcome>(reader).len(), 1);
        // What follows continues what was handed.
        world.pull(reader, 4, group, 1);
        world.settle();
        (1..=8).for_each(|seq| world.send(sender, seq, group));
        world.settle();
        let sent = world.sent(sender);
        // The group's making and bob's joining came before.
        assert_eq!(sent.values().copied().collect::<Vec<_>>(), (3..=10).collect::<Vec<_>>(), "{:?}", world.steps);
        assert_eq!(world.pushed(reader), 8);
        assert_eq!(world.node().handed(reader, group), Some(MessageId::new(10)));
        world.ack(reader, group, 8);
        world.settle();
        assert_eq!(world.got::<Cursors>(reader)[0].1.entries, [(group, MessageId::new(8))]);
        // Some more, in the middle of which the power goes.
        (9..=16).for_each(|seq| world.send(sender, seq, group));
        let cut = world.random.random_range(0..60);
        for _ in 0..cut {
            world.step();
        }
        let sent = world.sent(sender);
        world.crash();
        let user = world.node().tables(|tables| tables.device(bob).unwrap().user);
        let cursor = world.node().tables(|tables| tables.cursor(group, user, bob).unwrap().msgid);
        assert_eq!(cursor, MessageId::new(8));
        let seen = world.node().read(user, group, MessageId::ZERO).unwrap();
        assert!(seen.items.len() as u64 > sent.values().copied().max().unwrap() - 2);
        let sender = world.listen(alice, 2);
        (1..=16).for_each(|seq| world.send(sender, seq, group));
        world.settle();
        let again = world.sent(sender);
        assert!(sent.iter().all(|(request, msgid)| again[request] == *msgid), "{sent:?} {again:?}");
        assert_eq!(again.values().copied().collect::<Vec<_>>(), (3..=18).collect::<Vec<_>>());
    }
}

#[test]
fn a_page_is_handed_with_each_frame_that_is_written() {
    let mut world = World::new(1);
    let (alice, bob, group) = world.people();
    let sender = world.listen(alice, 1);
    (1..=5).for_each(|seq| world.send(sender, seq, group));
    world.settle();
    let reader = world.listen(bob, 1);
    world.settle();
    world.pull(reader, 4, group, 1);
    // Whatever else there is to do is done before anything of the page is written.
    let write = Work::WritePage(reader, 4);
    world.settle_but_for(write);
    assert!(world.node().works().contains(&write));
    assert!(world.got::<PageRows>(reader).is_empty());
    let before = world.node().handed(reader, group).unwrap();
    world.settle();
    let rows = world.got::<PageRows>(reader).into_iter().flat_map(|(_, page)| row::rows(page.rows)).count();
    let (_, end) = world.got::<PageEnd>(reader).pop().unwrap();
    assert_eq!((rows, end.covered_to, end.more), (6, MessageId::new(7), false));
    assert_eq!(world.written[&reader].last(), Some(&Out::PageDone(4)));
    assert_eq!((before, world.node().handed(reader, group).unwrap()), (MessageId::new(1), MessageId::new(7)));
}

#[test]
fn a_listener_is_replaced_by_a_later_attempt_and_what_fails_is_closed() {
    let mut world = World::new(2);
    let (alice, _, group) = world.people();
    let first = world.listen(alice, 1);
    world.settle();
    let second = world.listen(alice, 2);
    world.settle();
    assert_eq!(world.written[&first].last(), Some(&Out::Closed(Code::StaleAttempt)));
    assert!(!world.node().is_connected(first) && world.node().is_connected(second));
    let stale = world.listen(alice, 1);
    world.settle();
    assert_eq!(world.written[&stale].last(), Some(&Out::Closed(Code::StaleAttempt)));
    world.node().control(second, &[0xff; 64]);
    world.settle();
    assert!(matches!(world.written[&second].last(), Some(Out::Closed(_))));
    assert_eq!(world.node().handed(second, group), None);
}

#[test]
fn groups_are_made_and_joined_over_the_control_stream() {
    let mut world = World::new(3);
    let (alice, bob) = (world.enrol(1, "alice"), world.enrol(2, "bob"));
    let (conn, other) = (world.listen(alice, 1), world.listen(bob, 1));
    world.say(conn, 2, &CreateGroup { name: "team".to_owned(), policy: 0, extensions: Extensions::default() });
    world.settle();
    let (_, GroupCreated { gid, .. }) = world.got::<GroupCreated>(conn).pop().unwrap();
    world.say(conn, 3, &AddMember { gid, handle: "bob".to_owned(), extensions: Extensions::default() });
    world.settle();
    assert_eq!(world.pushed(other), 1);
}

#[test]
fn after_a_failed_sync_the_store_is_opened_anew_and_everybody_comes_back() {
    let mut world = World::new(4);
    let (alice, _, group) = world.people();
    let conn = world.listen(alice, 1);
    world.settle();
    world.send(conn, 1, group);
    while !world.node().works().contains(&Work::Settle) {
        world.step();
    }
    world.disk.fail_syncs(1, "/data/log");
    world.node().step(Work::Settle);
    assert!(!world.node().is_open());
    world.settle();
    assert!(world.node().is_open());
    assert_eq!(world.written[&conn].last(), Some(&Out::Closed(Code::OutcomeUnknown)));
    let conn = world.listen(alice, 2);
    world.send(conn, 1, group);
    world.settle();
    assert_eq!(world.sent(conn)[&101], 3);
}

#[test]
fn an_index_that_fails_ends_the_server_and_is_rebuilt_by_the_next() {
    let mut world = World::new(5);
    let (alice, _, group) = world.people();
    world.index.engine().set(Fault::Apply);
    let conn = world.listen(alice, 1);
    world.send(conn, 1, group);
    while world.node().ended().is_none() {
        assert!(world.step());
    }
    assert!(matches!(world.node().ended(), Some(Ended::Doubt(_))));
    let begun = world.index.begun();
    world.crash();
    assert_eq!(world.index.begun(), begun + 1);
    let user = world.node().tables(|tables| tables.device(alice).unwrap().user);
    assert!(world.node().read(user, group, MessageId::ZERO).unwrap().items.len() >= 2);
}

#[test]
fn a_clean_stop_decides_what_waits_seals_and_leaves_nothing_to_replay() {
    let mut world = World::new(6);
    let (alice, _, group) = world.people();
    let conn = world.listen(alice, 1);
    (1..=4).for_each(|seq| world.send(conn, seq, group));
    world.settle();
    world.send(conn, 5, group);
    while !world.node().works().contains(&Work::Take) {
        world.step();
    }
    world.node().stop();
    world.settle();
    assert_eq!(world.node().ended(), Some(Ended::Stopped));
    assert_eq!(world.written[&conn].last(), Some(&Out::Closed(Code::ServerStopping)));
    assert_eq!(world.index.unflushed(), 0);
    world.node = None;
    world.disk = world.disk.kill();
    world.open();
    assert_eq!(world.node().applied(), Some(world.node().durable()));
    assert_eq!(world.node().tables(|tables| tables.head(group)), MessageId::new(7));
}

/// What a run with this seed leaves behind.
fn trace(seed: u64) -> (Vec<Work>, BTreeMap<Conn, Vec<Out>>, Vec<u8>) {
    let mut world = World::new(seed);
    let (alice, bob, group) = world.people();
    let (sender, reader) = (world.listen(alice, 1), world.listen(bob, 1));
    for seq in 1..=20 {
        world.send(sender, seq, group);
        for _ in 0..seq {
            world.step();
        }
        world.wait(seq * 100);
    }
    world.ack(reader, group, 9);
    world.settle();
    let bytes = whole::read(&world.disk, Path::new("/data/log/00000001.log"), usize::MAX).unwrap().unwrap();
    (world.steps, world.written, bytes)
}

#[test]
fn the_same_seed_gives_the_same_steps_and_the_same_bytes() {
    for seed in 0..8 {
        assert!(trace(seed) == trace(seed), "seed {seed}");
    }
    assert!(trace(0).2 != trace(1).2);
}
