//! The simulated server's machine: its disk, its index, the real server on it while it runs, and what strikes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle::core::command::{Answer, Command};
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::ids::{DeviceId, Epoch, GroupId, MessageId, UserId};
use gaggle::limits::ROOM_FULL_BYTES;
use gaggle::proof;
use gaggle::server::stepped::{Ask, Conn, Ended, Node, Setup};
use gaggle::store::applier::Pace;
use gaggle::store::faulty::{Fault, FaultyIndex};
use gaggle::wire::code::Code;

use crate::chance::{Chance, Kind};
use crate::model::{Broken, Mark};
use crate::network::{LinkId, Packet, Stream};
use crate::plan::Plan;

pub use gaggle::server::stepped::Work;

const DATA: &str = "/data";
/// Steps that a command of the operator may take.
const COMMAND_STEPS_MAX: u64 = 1_000;

/// What the server writes to a connection.
pub enum Out {
    /// On a stream.
    Packet(Stream, Packet),
    /// The connection is closed, with this code.
    Closed(u16),
}

/// See the module.
pub struct Server {
    disk: SimulatedDisk,
    index: Arc<FaultyIndex>,
    setup: Setup,
    node: Option<Node>,
    starts_at: u64,
    conns: BTreeMap<LinkId, Conn>,
    links: BTreeMap<Conn, LinkId>,
    /// The index was made to fail since the process began.
    index_is_struck: bool,
    /// At the next crash the index loses its last flush.
    rolls_back: bool,
    /// Nothing of the index is worked on until then.
    stalls_until: u64,
    /// Nothing is appended or synced until then.
    slow_until: u64,
    /// The disk is full until then.
    full_until: Option<u64>,
    is_stopping: bool,
    /// The store was opened anew, or may have been: what it holds has to be compared.
    pub reopened: bool,
    /// Something was published since this was last taken.
    pub published: bool,
    /// Who has belonged to every group from its beginning.
    founder: UserId,
}

impl Server {
    /// A machine with an empty disk.
    pub fn new(plan: &Plan) -> Server {
        let (disk, index) = (SimulatedDisk::new(), Arc::new(FaultyIndex::default()));
        let pace = Pace {
            checkpoint_bytes: plan.checkpoint_bytes,
            idle: Duration::from_millis(500),
            unrecorded: Duration::from_secs(60),
            held_bytes_idle: 4_000,
            held_bytes_max: 40_000,
        };
        let setup = Setup {
            disk: Arc::new(disk.clone()),
            folder: PathBuf::from(DATA),
            segment_bytes: plan.segment_bytes,
            index: index.clone(),
            pace,
            waiting_bytes_max: plan.waiting_bytes_max,
            members: plan.members.clone(),
        };
        Server {
            disk,
            index,
            setup,
            node: None,
            starts_at: 0,
            conns: BTreeMap::new(),
            links: BTreeMap::new(),
            index_is_struck: false,
            rolls_back: false,
            stalls_until: 0,
            slow_until: 0,
            full_until: None,
            is_stopping: false,
            reopened: false,
            published: false,
            founder: UserId::ZERO,
        }
    }

    // ---- coming and going -------------------------------------------------------------------------------------------

    /// Starts it; the power goes after so many changes of the disk, if that is wanted and there are so many.
    pub fn open(&mut self, dies_after: Option<u64>) -> Result<(), String> {
        if let Some(changes) = dies_after {
            self.cut_power_after(changes);
        }
        let node = Node::open(&self.setup).map_err(|error| error.to_string())?;
        // Where it got through, what is left to it of its changes goes on.
        self.node = Some(node);
        self.published = true;
        Ok(())
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.node.is_some()
    }

    /// When it starts, where it does not run.
    pub fn starts_at(&self) -> Option<u64> {
        self.node.is_none().then_some(self.starts_at)
    }

    /// From here on its disk takes only so many changes more.
    pub fn cut_power_after(&mut self, changes: u64) {
        self.disk.stop_after(changes);
    }

    /// Whether its disk has taken its last change.
    pub fn has_lost_power(&self) -> bool {
        self.disk.has_stopped()
    }

    /// Its machine loses its power.
    pub fn crash(&mut self, chance: &mut Chance) {
        self.node = None;
        self.disk = self.disk.crash(chance.below(Kind::ServerPower, u64::MAX));
        self.crash_index(chance.below(Kind::IndexLoss, 6) as usize);
        self.comes_back();
    }

    /// Its process is killed.
    pub fn kill(&mut self, chance: &mut Chance) {
        self.node = None;
        self.disk = self.disk.kill();
        self.crash_index(chance.below(Kind::IndexLoss, 6) as usize);
        self.comes_back();
    }

    /// Its process has come to its end by itself.
    pub fn end(&mut self) {
        self.node = None;
        self.disk = self.disk.kill();
        self.crash_index(usize::MAX);
        self.comes_back();
    }

    /// The process that used the index is gone, and so many frames behind the last flush are kept; or even the last flush
    /// is lost.
    fn crash_index(&mut self, frames_kept: usize) {
        let left =
            if std::mem::take(&mut self.rolls_back) { self.index.roll_back() } else { self.index.crash(frames_kept) };
        left.expect("what is left of an index can be put together");
    }

    fn comes_back(&mut self) {
        self.setup.disk = Arc::new(self.disk.clone());
        self.is_stopping = false;
        self.index_is_struck = false;
        (self.stalls_until, self.slow_until) = (0, 0);
    }

    /// Nobody is connected, and it starts then.
    pub fn is_gone(&mut self, starts_at: u64) {
        self.conns.clear();
        self.links.clear();
        self.starts_at = starts_at;
    }

    /// It is stopped in order, as far as that goes.
    pub fn begin_stop(&mut self) {
        if let Some(node) = &mut self.node {
            node.stop();
            self.is_stopping = true;
        }
    }

    /// How it has ended, if it has.
    pub fn has_ended(&mut self) -> Result<Option<String>, Broken> {
        let Some(ended) = self.node.as_ref().and_then(Node::ended) else { return Ok(None) };
        let was_struck = self.index_is_struck;
        self.end();
        match ended {
            Ended::Doubt(why) if was_struck => Ok(Some(format!("the index is in doubt: {why}"))),
            Ended::Doubt(why) => Err(format!("an index that nothing has struck is in doubt: {why}")),
            Ended::Stopped => Ok(Some("it was stopped".to_owned())),
            Ended::NotSealed(why) => Ok(Some(format!("it was stopped, and not sealed: {why}"))),
            Ended::NotOpen => Ok(Some("it was stopped while its store was not open".to_owned())),
        }
    }

    // ---- faults -----------------------------------------------------------------------------------------------------

    /// Something strikes it; says what.
    pub fn fault(&mut self, kind: Kind, chance: &mut Chance, now_ms: u64) -> Option<String> {
        let parts = ["/data/log", "/data/flushed", "/data"];
        match kind {
            Kind::WriteError => {
                let (count, part) = (chance.between(kind, 1, 3), *chance.one(kind, &parts));
                self.disk.fail_writes(count, part);
                Some(format!("the next {count} writes below {part} fail"))
            }
            Kind::SyncError => {
                let (count, part) = (chance.between(kind, 1, 3), *chance.one(kind, &parts));
                self.disk.fail_syncs(count, part);
                Some(format!("the next {count} syncs below {part} fail"))
            }
            Kind::Full => {
                let left = chance.below(kind, ROOM_FULL_BYTES);
                self.disk.set_free_bytes(left);
                self.full_until = Some(now_ms + chance.scaled(kind, 100, 20_000));
                Some(format!("another program leaves {left} bytes free"))
            }
            Kind::IndexError => {
                let faults = [Some(Fault::Read), Some(Fault::Apply), Some(Fault::Flush), None];
                match *chance.one(kind, &faults) {
                    Some(fault) => {
                        self.index_is_struck = true;
                        self.index.engine().set(fault);
                        Some(format!("the index fails: {fault:?}"))
                    }
                    None if chance.hits(kind, 0.5) => {
                        self.index.fail_to_open(1);
                        Some("the index will fail to open".to_owned())
                    }
                    None => {
                        self.rolls_back = true;
                        Some("the index will lose its last flush".to_owned())
                    }
                }
            }
            Kind::Slow => {
                self.slow_until = now_ms + chance.scaled(kind, 5, 5_000);
                Some("the disk is slow".to_owned())
            }
            Kind::IndexStall => {
                self.stalls_until = now_ms + chance.scaled(kind, 10, 20_000);
                Some("the index stalls".to_owned())
            }
            _ => None,
        }
    }

    /// Time has passed: what lasts only so long ends.
    pub fn ease(&mut self, now_ms: u64) {
        if self.full_until.is_some_and(|until| until <= now_ms) {
            self.full_until = None;
            self.disk.set_free_bytes(u64::MAX / 2);
        }
    }

    /// Whether another program has taken the room on its disk.
    pub fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// Nothing strikes it any more.
    pub fn heal(&mut self) {
        self.disk.fail_writes(0, "");
        self.disk.fail_syncs(0, "");
        self.disk.set_free_bytes(u64::MAX / 2);
        self.full_until = None;
        (self.stalls_until, self.slow_until) = (0, 0);
        self.rolls_back = false;
        self.index.fail_to_open(0);
        self.index.heal();
    }

    // ---- steps ------------------------------------------------------------------------------------------------------

    /// What it can do now.
    pub fn works(&self, now_ms: u64, has_room: impl Fn(LinkId, Stream) -> bool) -> Vec<Work> {
        let Some(node) = &self.node else { return Vec::new() };
        let writes = |work: &Work| match *work {
            Work::WriteControl(conn) => Some((conn, Stream::Control)),
            Work::WritePush(conn) => Some((conn, Stream::Push)),
            Work::WritePage(conn, number) => Some((conn, Stream::Page(number))),
            _ => None,
        };
        let (stalls, slow) = (self.stalls_until > now_ms, self.slow_until > now_ms);
        let mut works = node.works();
        works.retain(|work| {
            let waits = match work {
                Work::Apply | Work::Checkpoint => stalls,
                Work::Append | Work::Settle => slow,
                _ => false,
            };
            if waits {
                return false;
            }
            let Some((conn, stream)) = writes(work) else { return true };
            self.links.get(&conn).is_none_or(|link| has_room(*link, stream))
        });
        works
    }

    /// When time alone gives it something to do.
    pub fn wakes_at(&self) -> Option<u64> {
        let due = self.node.as_ref()?.due_at();
        let lasting = [self.stalls_until, self.slow_until].into_iter().filter(|until| *until > 0);
        Some(proof::time::ms_at(due)).into_iter().chain(self.full_until).chain(lasting).min()
    }

    /// It does something.
    pub fn step(&mut self, work: Work) {
        if let Some(node) = &mut self.node {
            node.step(work);
            self.reopened |= work == Work::Reopen;
            self.published |= matches!(work, Work::Settle | Work::Reopen);
        }
    }

    /// A client's first words arrive; says whether there is a connection for them.
    pub fn connect(&mut self, link: LinkId) -> bool {
        let Some(conn) = self.node.as_mut().and_then(|node| node.connect().ok()) else { return false };
        self.conns.insert(link, conn);
        self.links.insert(conn, link);
        true
    }

    /// Bytes arrive.
    pub fn arrives(&mut self, link: LinkId, stream: Stream, bytes: &Bytes) {
        let (Some(node), Some(conn)) = (&mut self.node, self.conns.get(&link)) else { return };
        match stream {
            Stream::Control => node.control(*conn, bytes),
            Stream::Acks => node.acks(*conn, bytes),
            Stream::Page(number) => node.request(*conn, number, bytes),
            Stream::Push => {}
        }
    }

    /// Which link a connection is.
    pub fn link(&self, conn: Conn) -> Option<LinkId> {
        self.links.get(&conn).copied()
    }

    /// Whether it knows who a connection is.
    pub fn is_served(&self, link: LinkId) -> bool {
        let conn = self.conns.get(&link);
        self.node.as_ref().zip(conn).is_some_and(|(node, conn)| node.device(*conn).is_some())
    }

    /// It notices that a client is gone.
    pub fn gone(&mut self, link: LinkId) {
        let Some(conn) = self.conns.remove(&link) else { return };
        self.links.remove(&conn);
        if let Some(node) = &mut self.node {
            node.gone(conn);
        }
    }

    /// What it has written, by connection, in order.
    pub fn take_written(&mut self) -> Vec<(LinkId, Out)> {
        use gaggle::server::stepped::Out as Written;
        let Some(node) = &mut self.node else { return Vec::new() };
        let mut written = Vec::new();
        for (conn, out) in node.take_written() {
            let Some(link) = self.links.get(&conn).copied() else { continue };
            let out = match out {
                Written::Control(bytes) => Out::Packet(Stream::Control, Packet::Frame(bytes)),
                Written::Push(bytes) => Out::Packet(Stream::Push, Packet::Frame(bytes)),
                Written::Page(number, bytes) => Out::Packet(Stream::Page(number), Packet::Frame(bytes)),
                Written::PageDone(number) | Written::PageReset(number, _) => {
                    Out::Packet(Stream::Page(number), Packet::End)
                }
                Written::Closed(code) => {
                    self.links.remove(&conn);
                    self.conns.remove(&link);
                    Out::Closed(code.number())
                }
            };
            written.push((link, out));
        }
        written
    }

    /// The items that were published since this was last asked, in the order of their frames.
    pub fn take_published(&mut self) -> Vec<Bytes> {
        self.node.as_mut().map(Node::take_published).unwrap_or_default()
    }

    /// What waits to be pushed: (device, group, what it continues, what it covers).
    pub fn queued(&self) -> Vec<(DeviceId, GroupId, MessageId, MessageId)> {
        self.node.as_ref().map(Node::queued).unwrap_or_default()
    }

    // ---- looks ------------------------------------------------------------------------------------------------------

    /// The groups there are.
    pub fn groups(&self) -> Vec<GroupId> {
        self.node.as_ref().map(|node| node.tables(|tables| tables.groups().collect())).unwrap_or_default()
    }

    /// A cursor, as it is published.
    pub fn cursor(&self, group: GroupId, user: UserId, device: DeviceId) -> MessageId {
        let cursor = |node: &Node| node.tables(|tables| tables.cursor(group, user, device).map(|row| row.msgid));
        self.node.as_ref().and_then(cursor).unwrap_or_default()
    }

    /// The first item that a group keeps, as it is published.
    pub fn first_kept(&self, group: GroupId) -> MessageId {
        let first = |node: &Node| node.tables(|tables| tables.first_kept(group));
        self.node.as_ref().map_or(MessageId::new(1), first)
    }

    /// A read mark, as it is published.
    pub fn mark(&self, group: GroupId, user: UserId) -> Mark {
        let row = |node: &Node| node.tables(|tables| tables.read_mark(group, user));
        let row = self.node.as_ref().and_then(row);
        row.map(|row| Mark { version: row.version, msgid: row.msgid }).unwrap_or_default()
    }

    /// All cursors of a device, as they are published.
    pub fn cursors(&self, user: UserId, device: DeviceId) -> Vec<(GroupId, MessageId)> {
        let groups = self.groups().into_iter();
        groups
            .map(|group| (group, self.cursor(group, user, device)))
            .filter(|(_, cursor)| *cursor > MessageId::ZERO)
            .collect()
    }

    /// The index can be read, whatever has just struck it: what it holds is looked at, not how it fails.
    pub fn let_index_be_read(&self) {
        self.index.heal();
    }

    /// Who sees every item of a group.
    pub fn reader(&self, group: GroupId) -> UserId {
        group.pair().map_or(self.founder, |(low, _)| low)
    }

    /// Every item of a group, as the founder reads it, or one of a pair.
    pub fn items(&self, group: GroupId) -> Result<Vec<Bytes>, Broken> {
        let Some(node) = &self.node else { return Ok(Vec::new()) };
        let reader = self.reader(group);
        let seen = node.read(reader, group, MessageId::ZERO);
        let seen = seen.map_err(|why| format!("{reader} cannot read {group}: {why}"))?;
        Ok(seen.items.into_iter().map(|(_, item)| item).collect())
    }

    /// Whether its store is open.
    pub fn is_open(&self) -> bool {
        self.node.as_ref().is_some_and(Node::is_open)
    }

    /// What holds of an open server after every step.
    pub fn check(&self) -> Result<(), Broken> {
        let Some(node) = &self.node else { return Ok(()) };
        match node.applied() {
            // The seal is no batch: nobody is shown it. What a store that opens anew found is shown once it is open.
            Some(applied) if applied > node.durable() && node.is_open() && !self.is_stopping => {
                Err(format!("frame {applied} is in the index, and only {} is durable", node.durable()))
            }
            _ => Ok(()),
        }
    }

    // ---- what people ask of it --------------------------------------------------------------------------------------

    /// Asks a command as the operator does; none where the server is down.
    pub fn ask(&mut self, command: Command) -> Option<Ask> {
        self.node.as_mut().map(|node| node.ask(command))
    }

    /// What became of a command, once.
    pub fn answer(&mut self, ask: Ask) -> Option<Result<Answer, Code>> {
        self.node.as_mut()?.answer(ask)
    }

    /// Lets a command be decided while nothing else happens.
    pub fn decide(&mut self, command: Command) -> Result<Answer, Broken> {
        let ask = self.ask(command).ok_or("the server is down")?;
        for _ in 0..COMMAND_STEPS_MAX {
            if let Some(answer) = self.answer(ask) {
                return answer.map_err(|code| format!("a command of the beginning failed: {code}"));
            }
            match self.works(0, |_, _| true).first() {
                Some(work) => self.step(*work),
                None => break,
            }
        }
        Err("a command of the beginning was not answered".to_owned())
    }

    /// The store's history.
    pub fn epoch(&self) -> Option<Epoch> {
        self.node.as_ref().map(Node::epoch)
    }

    /// Who is a member of each group from its beginning.
    pub fn set_founder(&mut self, founder: UserId) {
        self.founder = founder;
    }
}
