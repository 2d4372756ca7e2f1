//! Edits, recalls and reactions over the real log: what is attached, what is kept, and what is left of a text.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::core::attached::Attached;
use crate::core::command::Actor;
use crate::disk::Disk as _;
use crate::ids::UserId;
use crate::server::attaching;
use crate::store::engine::Op;
use crate::store::tree::Tree;
use crate::wire::item::{Item, kind};
use crate::wire::row::{self, Row};

const FIRST: MessageId = MessageId::new(2);

impl World {
    /// Another user, in the group.
    pub(super) fn join(&mut self, by: DeviceId, group: GroupId, name: &str, byte: u8) -> DeviceId {
        let (code, handle) = (CodeHash([byte; 32]), Handle::parse(name).unwrap());
        let invite =
            Command::Invite { by: Actor::Operator, handle: handle.clone(), group: None, code, expires_ms: NOW + 1_000 };
        self.ask(invite);
        let enrol = Command::Enrol { code, key: DeviceKey([byte; 32]), handle: None, device_name: "phone".to_owned() };
        let Outcome::Decided(Answer::Enrolled { device, .. }) = self.ask(enrol) else { panic!("not enrolled") };
        self.ask(Command::AddMember { by, group, handle });
        device
    }

    pub(super) fn user(&self, device: DeviceId) -> UserId {
        self.view.read().tables.device(device).unwrap().user
    }

    /// Reads what a command wants, as a reader thread does.
    pub(super) fn attached(&self, mut command: Command) -> Command {
        let wanted = command.wanted().unwrap();
        let attached = attaching::scan(&attaching::look(&self.view, wanted), &self.writer.watchdog.doubt).unwrap();
        command.attach(attached);
        command
    }

    /// The bytes of the log on disk.
    fn log(&self) -> Vec<u8> {
        let folder = PathBuf::from("/data/log");
        let segments = self.disk.list(&folder).unwrap().into_iter();
        let read = |name: String| {
            let file = self.disk.open(&folder.join(name)).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        segments.flat_map(read).collect()
    }

    pub(super) fn page(&self, group: GroupId, user: UserId) -> Vec<(u64, Row, Item)> {
        let page = read(
            self,
            PageAsked { user, group, after: MessageId::ZERO, items: 500, bytes: 1 << 20, gone_alone: false },
        )
        .unwrap();
        shown(page.rows.between(MessageId::ZERO, MessageId::MAX))
    }

    /// Whether a text stands anywhere in memory or on disk, but in what the log was told before.
    fn is_served(&self, text: &[u8]) -> bool {
        let published = self.view.read();
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        let overlay = published.overlay.range(Tree::Messages, &[], &[0xff; 17], published.durable, usize::MAX);
        let mut found = overlay.iter().any(|(_, change)| change.as_ref().is_some_and(|value| has(value)));
        let overlaid: Vec<_> = overlay.iter().map(|(key, _)| key.clone()).collect();
        for tree in Tree::ALL {
            let scanned = published.engine.scan(tree, &[], &mut |key, value| {
                found |= has(value) && !overlaid.iter().any(|overlaid| overlaid.as_ref() == key);
                std::ops::ControlFlow::Continue(())
            });
            scanned.unwrap();
        }
        found
    }
}

fn shown(rows: bytes::Bytes) -> Vec<(u64, Row, Item)> {
    let rows = row::rows(rows).map(Result::unwrap);
    rows.map(|row| (row.decode_item().unwrap().msgid.value(), row.clone(), row.decode_item().unwrap())).collect()
}

/// A send that does this, its number and text, with nothing attached.
pub(super) fn acts(device: DeviceId, seq: u64, group: GroupId, act: Act, text: &str) -> Command {
    let Command::Send(mut command) = send(device, seq, group) else { unreachable!() };
    let number = match act {
        Act::Says => kind::TEXT,
        Act::Edits(_) => kind::EDIT,
        Act::Recalls(_) => kind::RECALL,
        Act::Reacts(_) => kind::REACTION,
    };
    let what = command.what.unwrap();
    let (body, seq) = (bytes::Bytes::copy_from_slice(text.as_bytes()), ClientSeq::new(seq));
    command.what = Ok(Sendable { kind: number, act, body, ..what });
    Command::Send(SendCommand { lowest: seq, ..command })
}

#[test]
fn an_edit_that_was_read_before_another_is_read_again_in_its_place() {
    for applied in [false, true] {
        let mut world = open(&SimulatedDisk::new());
        let (device, group) = world.people();
        world.ask(acts(device, 1, group, Act::Says, "helo"));
        let one = world.attached(acts(device, 2, group, Act::Edits(FIRST), "hallo"));
        let other = world.attached(acts(device, 3, group, Act::Edits(FIRST), "hello"));
        assert_eq!(msgid(&world.ask(one)), 3);
        if applied {
            world.apply_all();
        }
        assert_eq!(msgid(&world.ask(other)), 4);
        let page = world.page(group, world.user(device));
        assert_eq!(page[1].1.edited_by, MessageId::new(4));
        assert_eq!(page[3].2.target(), Some(FIRST));
        // A recall finds both.
        let recall = world.attached(acts(device, 4, group, Act::Recalls(FIRST), ""));
        assert_eq!(msgid(&world.ask(recall)), 5);
        for text in [&b"helo"[..], b"hallo", b"hello"] {
            assert!(!world.is_served(text));
        }
    }
}

#[test]
fn what_could_not_be_read_is_read_when_it_is_decided_or_not_done_while_the_index_is_opened_anew() {
    let index = Arc::new(FaultyIndex::default());
    let mut world = open_with(&SimulatedDisk::new(), Arc::clone(&index) as Arc<dyn Index>);
    let (device, group) = world.people();
    world.ask(acts(device, 1, group, Act::Says, "helo"));
    assert_eq!(msgid(&world.ask(acts(device, 2, group, Act::Edits(FIRST), "hello"))), 3);
    world.apply_all();
    index.engine().set(Fault::Read);
    let refused = world.ask(acts(device, 3, group, Act::Edits(FIRST), "hullo"));
    assert_eq!(refused, Outcome::Decided(Answer::Refused(crate::core::command::Refusal::Busy)));
    // What comes later of the device waits for it.
    let later = world.ask(acts(device, 4, group, Act::Says, "later").lowest(3));
    assert_eq!(later, Outcome::Decided(Answer::Refused(crate::core::command::Refusal::OutOfTurn)));
    index.engine().heal();
    assert_eq!(msgid(&world.ask(acts(device, 3, group, Act::Edits(FIRST), "hullo"))), 4);
}

impl Command {
    /// A send whose device still waits for the answer to this one.
    fn lowest(self, lowest: u64) -> Command {
        let Command::Send(send) = self else { unreachable!() };
        Command::Send(SendCommand { lowest: ClientSeq::new(lowest), ..send })
    }
}

#[test]
fn a_text_that_is_recalled_in_its_own_batch_is_pushed_to_nobody_and_not_even_in_the_log() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    world.take(acts(device, 1, group, Act::Says, "never said"));
    world.take(acts(device, 2, group, Act::Edits(FIRST), "nor was this"));
    world.take(acts(device, 3, group, Act::Recalls(FIRST), ""));
    let rows = world.commit().unwrap().remove(&group).unwrap();
    let rows = shown(rows.between(MessageId::ZERO, MessageId::MAX));
    assert_eq!(rows.iter().map(|(msgid, ..)| *msgid).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(rows[..2].iter().all(|(_, _, item)| item.is_recalled() && item.body.is_empty()));
    let log = world.log();
    assert!(![&b"never said"[..], b"nor was"].iter().any(|text| log.windows(text.len()).any(|it| it == *text)));
}

/// Scenario 26: a text that was recalled is in no page, overlay or row of the index, after a start neither, and stays
/// recalled.
#[test]
fn what_is_recalled_is_served_by_nothing_any_more_after_a_start_neither() {
    for applied in [false, true] {
        let mut world = open(&SimulatedDisk::new());
        let (device, group) = world.people();
        world.ask(acts(device, 1, group, Act::Says, "first text"));
        let edit = world.attached(acts(device, 2, group, Act::Edits(FIRST), "second text"));
        world.ask(edit);
        if applied {
            world.apply_all();
        }
        assert!(world.is_served(b"first text") && world.is_served(b"second text"));
        let recall = world.attached(acts(device, 3, group, Act::Recalls(FIRST), ""));
        world.ask(recall);
        assert!(!world.is_served(b"first text") && !world.is_served(b"second text"));
        world.apply_all();
        assert!(!world.is_served(b"first text") && !world.is_served(b"second text"));
        world.writer.seal().unwrap().unwrap();
        let disk = world.disk.kill();
        drop(world);
        let world = open(&disk);
        world.apply_all();
        assert!(!world.is_served(b"first text") && !world.is_served(b"second text"));
        let tables = &world.view.read().tables;
        assert!(tables.recalled().contains(group, FIRST));
        assert_eq!(tables.recalled().of_author(group, UserId::new(1), MessageId::ZERO, MessageId::MAX), 1);
    }
}

#[test]
fn mentions_are_numbered_on_after_a_start() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let bob = world.join(device, group, "bob", 9);
    let user = world.user(bob);
    let mention = |seq| {
        let Command::Send(mut command) = acts(device, seq, group, Act::Says, "you there") else { unreachable!() };
        if let Ok(what) = &mut command.what {
            what.mentions = vec![user];
            what.extensions = vec![crate::wire::said::mentions_extension(&[user])];
        }
        Command::Send(command)
    };
    (1..=3).for_each(|seq| drop(world.ask(mention(seq))));
    let recall = world.attached(acts(device, 4, group, Act::Recalls(MessageId::new(4)), ""));
    assert_eq!(msgid(&world.ask(recall)), 6);
    world.writer.seal().unwrap().unwrap();
    let mut world = open(&world.disk.kill());
    assert_eq!(world.view.read().tables.mentions(group, user), 3);
    assert_eq!(world.view.read().tables.recalled().mentioning(group, user, MessageId::ZERO, MessageId::MAX), 1);
    world.ask(mention(5));
    let published = world.view.read();
    assert_eq!(published.tables.mentions(group, user), 4);
    let key = crate::store::keys::mention(group, user, 4);
    assert!(published.overlay.get(Tree::Mentions, &key, published.durable).is_some());
}

/// Of a ban of somebody who has left no item tells.
#[test]
fn a_start_knows_when_each_conversation_has_changed_last() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let bob = world.join(device, group, "bob", 9);
    let user = world.user(bob);
    world.ask(Command::LeaveGroup { by: bob, group });
    let handle = Handle::parse("bob").unwrap();
    world.ask(Command::SetBanned { by: device, group, handle, banned: true });
    world.ask(acts(device, 1, group, Act::Says, "no more of it"));
    let changed = |world: &World| world.view.read().tables.changed_at(user, group).unwrap();
    let before = changed(&world);
    world.writer.seal().unwrap().unwrap();
    assert_eq!(changed(&open(&world.disk.kill())), before);
}

/// What somebody does next.
#[derive(Debug, Clone)]
enum Step {
    Say(bool),
    Edit(usize),
    Recall(usize),
    React(usize),
    /// The second user comes or goes.
    Move,
    Commit,
    Apply,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Say),
        5 => (0usize..30).prop_map(Step::Edit),
        1 => (0usize..30).prop_map(Step::Recall),
        1 => (0usize..30).prop_map(Step::React),
        2 => Just(Step::Move),
        4 => Just(Step::Commit),
        1 => Just(Step::Apply),
    ]
}

/// A history, told step by step, and every row that was pushed.
struct Told {
    world: World,
    group: GroupId,
    devices: [DeviceId; 2],
    seqs: [u64; 2],
    present: bool,
    /// Texts with who wrote them.
    texts: Vec<(usize, u64)>,
    head: u64,
    pushed: BTreeMap<u64, bytes::Bytes>,
    waiting: Vec<oneshot::Receiver<Outcome>>,
}

impl Told {
    fn new() -> Told {
        let mut world = open(&SimulatedDisk::new());
        let (alice, group) = world.people();
        let bob = world.join(alice, group, "bob", 9);
        let (devices, pushed, waiting) = ([alice, bob], BTreeMap::new(), Vec::new());
        Told { world, group, devices, seqs: [1; 2], present: true, texts: Vec::new(), head: 2, pushed, waiting }
    }

    fn act(&mut self, who: usize, act: Act) {
        let mut command = acts(self.devices[who], self.seqs[who], self.group, act, "text");
        if command.wanted().is_some() {
            command = self.world.attached(command);
        }
        self.seqs[who] += 1;
        self.waiting.push(self.world.take(command));
        self.head += 1;
    }

    fn step(&mut self, step: &Step) {
        let text = |which: usize| (!self.texts.is_empty()).then(|| self.texts[which % self.texts.len()]);
        match step {
            Step::Say(who) => {
                let who = usize::from(*who && self.present);
                self.act(who, Act::Says);
                self.texts.push((who, self.head));
            }
            Step::Edit(which) => {
                if let Some((who, msgid)) = text(*which).filter(|(who, _)| *who == 0 || self.present) {
                    self.act(who, Act::Edits(MessageId::new(msgid)));
                }
            }
            Step::Recall(which) => {
                if let Some((_, msgid)) = text(*which) {
                    self.texts.retain(|(_, text)| *text != msgid);
                    self.act(0, Act::Recalls(MessageId::new(msgid)));
                }
            }
            Step::React(which) => {
                if let Some((_, msgid)) = text(*which) {
                    self.act(0, Act::Reacts(MessageId::new(msgid)));
                }
            }
            Step::Move => {
                let (by, group, handle) = (self.devices[0], self.group, Handle::parse("bob").unwrap());
                let command = if self.present {
                    Command::RemoveMember { by, group, handle }
                } else {
                    Command::AddMember { by, group, handle }
                };
                self.present = !self.present;
                self.head += 1;
                self.waiting.push(self.world.take(command));
            }
            Step::Commit => self.commit(),
            Step::Apply => self.world.apply_all(),
        }
    }

    fn commit(&mut self) {
        let Some(mut items) = self.world.commit() else { return };
        for mut answer in self.waiting.drain(..) {
            let outcome = answer.try_recv().unwrap();
            assert!(!matches!(outcome, Outcome::Decided(Answer::Refused(_))), "{outcome:?}");
        }
        let Some(rows) = items.remove(&self.group) else { return };
        let view = self.world.view.read();
        let bob = view.tables.device(self.devices[1]).unwrap().user;
        let may_see = |target| view.tables.may_see(bob, self.group, target);
        for offered in rows.offered().iter().filter(|offered| may_see(offered.msgid)) {
            let row = rows.seen_between(self.group, offered.msgid, offered.msgid, may_see);
            self.pushed.insert(offered.msgid.value(), row);
        }
    }

    /// Compares what a user reads with what follows from the rows that the owner reads, who sees all of it.
    fn check(&self) {
        let all = self.world.page(self.group, self.world.user(self.devices[0]));
        assert_eq!(all.len() as u64, self.head);
        let bob = self.world.user(self.devices[1]);
        let tables = &self.world.view.read().tables;
        let sees = |msgid: MessageId| tables.may_see(bob, self.group, msgid);
        let read = self.world.page(self.group, bob);
        let mut expected = Vec::new();
        for (msgid, row, item) in all.iter().filter(|(.., item)| sees(item.msgid)) {
            let is_hidden = item.kind == kind::EDIT && !sees(item.target().unwrap());
            let edits = all.iter().filter(|(.., edit)| edit.kind == kind::EDIT && edit.target() == Some(item.msgid));
            let newest = edits.filter(|(.., edit)| sees(edit.msgid)).map(|(msgid, ..)| *msgid).max();
            let edited_by = newest.filter(|_| !item.is_recalled()).unwrap_or(0);
            let item = if is_hidden { Item::hidden(self.group, item.msgid) } else { item.clone() };
            let row = Row { edited_by: MessageId::new(edited_by), ..row.clone() };
            let row = if is_hidden { Row::plain(item.encode().unwrap()) } else { row };
            expected.push((*msgid, row, item));
        }
        assert_eq!(read, expected);
        // What was pushed is hidden where what is read is.
        for (msgid, bytes) in &self.pushed {
            let pushed = shown(bytes.clone()).remove(0).2;
            let now = &read.iter().find(|(read, ..)| read == msgid).unwrap().2;
            assert_eq!(pushed.kind == kind::HIDDEN, now.kind == kind::HIDDEN, "m{msgid}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario 19: an edit is seen where it and what it edits are visible, by page and by push, and nowhere else.
    #[test]
    fn edits_are_seen_by_those_who_see_both_ends_of_them(steps in prop::collection::vec(step(), 1..70)) {
        let mut told = Told::new();
        for step in &steps {
            told.step(step);
        }
        told.commit();
        told.check();
        told.world.apply_all();
        told.check();
    }
}

#[test]
fn rows_that_wait_to_be_written_lose_what_was_recalled_since() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    world.take(acts(device, 1, group, Act::Says, "first text"));
    world.take(acts(device, 2, group, Act::Edits(FIRST), "second text"));
    world.take(acts(device, 3, group, Act::Says, "another"));
    let rows = world.commit().unwrap().remove(&group).unwrap().between(MessageId::ZERO, MessageId::MAX);
    let recall = world.attached(acts(device, 4, group, Act::Recalls(FIRST), ""));
    world.ask(recall);
    let left = crate::server::rows::without_recalled(&rows, &world.view.read().tables, group);
    let left = shown(left);
    assert_eq!(left.iter().map(|(_, _, item)| item.body.len()).collect::<Vec<_>>(), [0, 0, 7]);
    assert!(left[0].2.is_recalled() && left[1].2.is_recalled() && !left[2].2.is_recalled());
    assert_eq!(left[1].2.target(), Some(FIRST));
}

#[test]
fn what_is_attached_ends_at_the_durable_head() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    world.take(acts(device, 1, group, Act::Says, "not durable"));
    let Command::Send(early) = world.attached(acts(device, 2, group, Act::Edits(FIRST), "edit")) else {
        unreachable!()
    };
    assert_eq!(early.attached.map(|Attached { head, items }| (head.value(), items.len())), Some((1, 0)));
    world.commit();
    let Command::Send(late) = world.attached(acts(device, 2, group, Act::Edits(FIRST), "edit")) else { unreachable!() };
    assert_eq!(late.attached.map(|Attached { head, items }| (head.value(), items.len())), Some((2, 1)));
}

/// A row of the index that can't be read is doubt, and what wanted it is not done.
#[test]
fn an_item_that_cannot_be_read_is_doubt() {
    let index = Arc::new(FaultyIndex::default());
    let mut world = open_with(&SimulatedDisk::new(), Arc::clone(&index) as Arc<dyn Index>);
    let (device, group) = world.people();
    world.ask(acts(device, 1, group, Act::Says, "text"));
    world.apply_all();
    let (engine, key) = (index.engine(), crate::store::keys::message(group, FIRST));
    let value = Some(bytes::Bytes::from_static(b"\x01junk"));
    engine.apply(engine.applied().unwrap(), &[Op { tree: Tree::Messages, key, value }]).unwrap();
    world.ask(acts(device, 2, group, Act::Edits(FIRST), "edit"));
    assert!(world.writer.is_in_doubt());
}

/// The same with as many bytes of extensions as fit beside the one that names a target.
fn laden(command: Command) -> Command {
    let Command::Send(mut command) = command else { unreachable!() };
    let extension = |number: u16| (100 + number, bytes::Bytes::from(vec![7; 270]));
    command.what = command.what.map(|what| Sendable { extensions: (0..15).map(extension).collect(), ..what });
    Command::Send(command)
}

#[test]
fn a_batch_that_is_full_of_edits_with_all_the_extensions_there_may_be_fits_a_frame() {
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let mut seq = 0;
    let targets: Vec<u64> = (0..16)
        .map(|_| {
            seq += 1;
            msgid(&world.ask(laden(acts(device, seq, group, Act::Says, "text"))))
        })
        .collect();
    let mut edits = Vec::new();
    for target in targets.iter().cycle().take(targets.len() * 64) {
        if world.writer.is_full() {
            break;
        }
        seq += 1;
        let edit = laden(acts(device, seq, group, Act::Edits(MessageId::new(*target)), "edit"));
        let edit = world.attached(edit);
        edits.push(world.take(edit));
    }
    assert!(world.writer.is_full());
    world.commit();
    assert!(!world.writer.has_failed());
    assert!(edits.into_iter().all(|mut edit| msgid(&edit.try_recv().unwrap()) > 17));
}

/// Nobody has to ask: a quarter of an hour after the first recall the log is wanted without what is dead.
#[test]
fn a_recall_arms_the_timer_after_which_what_it_wiped_leaves_the_log() {
    let start = clock::monotonic_ms();
    proof::time::set(start, NOW);
    let mut world = open(&SimulatedDisk::new());
    let (device, group) = world.people();
    let later = |ms| proof::time::set(start + ms, NOW);
    // What may have been wiped before a start goes first.
    world.ask(acts(device, 1, group, Act::Says, "first text"));
    later(limits::WIPE_WAIT_MS);
    world.commit();
    assert_eq!(world.writer.due(), None, "nothing is known that must go");
    world.ask(acts(device, 2, group, Act::Says, "another"));
    assert_eq!(world.writer.due(), None);
    later(limits::WIPE_WAIT_MS + 1);
    let recall = world.attached(acts(device, 3, group, Act::Recalls(FIRST), ""));
    world.ask(recall);
    let due = clock::monotonic() + WIPE_WAIT;
    assert_eq!(world.writer.due(), Some(due));
    later(2 * limits::WIPE_WAIT_MS);
    world.commit();
    assert_eq!(world.writer.due(), Some(due), "a ms too early");
    later(2 * limits::WIPE_WAIT_MS + 1);
    world.commit();
    assert_eq!(world.writer.due(), None);
    world.apply_all();
    while world.beside.prepare().unwrap() || world.beside.condense().unwrap() {}
    let (log, text) = (world.log(), b"first text");
    assert!(!log.windows(text.len()).any(|it| it == text));
    proof::time::release();
}
