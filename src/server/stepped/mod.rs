//! A server whose every step somebody else schedules: for simulators.
//!
//! [`Node`] holds the machines that the server's threads and tasks loop over, and loops over none of them: it says what
//! can be done now ([`Node::works`]) and does one piece of it ([`Node::step`]). It has no thread, no runtime and no
//! socket. Its clock is [`crate::proof::time`], its chance [`crate::proof::chance`], both of the calling thread, so that
//! the same steps on the same disk and index give the same bytes.
//!
//! What it leaves out, of a real server: QUIC and TLS, and with them the check of signatures; threads that race inside
//! one step; peers that stop a stream; the guard over an index that hangs (an index that waits would wait for ever
//! here); the first invite and the files of the certs folder; whatever ends a connection by time alone; the pauses of a
//! stop; datagrams, thus who is there and who types. Conversations and receipts that are asked for are looked up and read
//! in one step. A step is what the real thread or task does between two points where another could come in between and
//! matter.
//!
//! Dropping a node is as good as killing its process; the power of its disk is the disk's business.

mod connection;
mod deciding;
mod keeping;
mod looks;
mod serving;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::debug;

use self::connection::Connection;
use self::deciding::Deciding;
use self::keeping::Keeping;
pub use self::work::{Ask, Conn, Ended, Out, Read, Seen, Work};
use crate::clock;
use crate::core::attached::Wanted;
use crate::core::command::{Answer, Command};
use crate::core::rows::DeviceKey;
use crate::core::state::{Settings, State};
use crate::disk::SharedDisk;
use crate::limits;
use crate::server::admission::{Admission, Arrival, Bounds};
use crate::server::attaching;
use crate::server::byhand::ByHand;
use crate::server::listening::Fetch;
use crate::server::opening::{Found, IndexOptions, Place};
use crate::server::presence::Presence;
use crate::server::reader::{self, PageAsked, Readers};
use crate::server::receipts::{self, Moved};
use crate::server::registry::Registry;
use crate::server::request::{Commands, Outcome, Recipient, Reply};
use crate::server::room::{self, Room, Watch};
use crate::server::view::View;
use crate::server::watchdog::Watchdog;
use crate::server::writer::{Open, Writer};
use crate::server::{ServeError, Shared, dispatch};
use crate::store::applier::{Due, Pace};
use crate::store::engine::Index;
use crate::store::log::NamesInDoubt;
use crate::wire::code::Code;
use crate::wire::link::Pin;

/// What a server is made of.
#[derive(Clone)]
pub struct Setup {
    /// Its disk.
    pub disk: SharedDisk,
    /// Its data folder.
    pub folder: PathBuf,
    /// Size of the segments of its log.
    pub segment_bytes: u64,
    /// Its index, none of whose work may wait for somebody else.
    pub index: Arc<dyn Index>,
    /// When the index is flushed and recycled.
    pub pace: Pace,
    /// Bytes of rows that may wait for the index before commits wait too.
    pub waiting_bytes_max: usize,
    /// What members may do.
    pub members: Settings,
}

/// Who wants a page.
#[derive(Clone, Copy)]
enum Whose {
    /// A request stream.
    Page(Conn, u64),
    /// A listener, to push it.
    Fetch(Conn, Fetch),
}

/// What is being read.
enum Reading {
    /// A page.
    Page {
        read: Read,
        whose: Whose,
        asked: PageAsked,
        /// What the committed view said, once it was looked at.
        look: Option<reader::Look>,
    },
    /// An item that the command held by this stream of a connection wants.
    Item { read: Read, conn: Conn, stream: usize, wanted: Wanted, look: Option<attaching::Look> },
}

impl Reading {
    fn read(&self) -> Read {
        match self {
            Reading::Page { read, .. } | Reading::Item { read, .. } => *read,
        }
    }

    fn is_looked_at(&self) -> bool {
        match self {
            Reading::Page { look, .. } => look.is_some(),
            Reading::Item { look, .. } => look.is_some(),
        }
    }
}

/// A server.
pub struct Node {
    shared: Arc<Shared>,
    watchdog: Arc<Watchdog>,
    index: Arc<dyn Index>,
    beside: ByHand,
    watch: Watch,
    look_at: Instant,
    keeping: Keeping,
    deciding: Deciding,
    /// How the writer has ended, once the dispatcher knows.
    ended: Option<Ended>,
    connections: BTreeMap<Conn, Connection>,
    readings: VecDeque<Reading>,
    /// Commands of the operator, and of the server itself, for which the writer's queue has no place yet.
    asked: VecDeque<(Command, Reply)>,
    asks: BTreeMap<Ask, oneshot::Receiver<Outcome>>,
    written: Vec<(Conn, Out)>,
    connected: u64,
    reads: u64,
    asks_made: u64,
}

impl Node {
    /// Starts a server: its store is opened, and made where there is none.
    ///
    /// # Errors
    /// Where the store does not open.
    pub fn open(setup: &Setup) -> Result<Node, ServeError> {
        let Setup { disk, folder, segment_bytes, index, pace, waiting_bytes_max, members } = setup.clone();
        let (beside, kept) = (ByHand::default(), Arc::clone(&index));
        let index = IndexOptions { pace, waiting_bytes_max, ..IndexOptions::of(index) };
        let place = Place {
            disk: Arc::clone(&disk),
            folder,
            segment_bytes,
            index,
            beside: Arc::new(beside.clone()),
            names_in_doubt: NamesInDoubt::default(),
        };
        let watchdog = Watchdog::by_hand();
        let room = Arc::new(Room::new(Arc::clone(&disk), place.folder.clone()));
        let mut watch = Watch::new(Arc::clone(&room));
        let Found { store, tables, applier, made_now } = place.open(|_| {})?;
        watch.step(clock::monotonic());
        if made_now {
            watchdog.doubt.made_now();
        }
        let view = Arc::new(View::new(tables, store.engine, store.durable));
        let open = Open::start(store.log, applier, &view, &watchdog, &room, &place).map_err(ServeError::Thread)?;
        let (commands, received) = Commands::new();
        let keeping = members.keeping;
        let state = State::new(members);
        let writer = Writer::new(state, open, place, Arc::clone(&view), room, Arc::clone(&watchdog));
        let writer_log = writer.figures();
        let shared = Arc::new(Shared {
            view,
            registry: Registry::default(),
            presence: Presence::default(),
            admission: Admission::new(Bounds::default()),
            commands,
            readers: Readers::none(),
            moved: Moved::default(),
            operator_key: DeviceKey([0; limits::KEY_BYTES]),
            pins: Vec::new(),
            pin: Pin([0; limits::KEY_BYTES]),
            advertise: "localhost:4433".to_owned(),
            epoch: store.epoch,
            log: writer_log,
            keeping,
            retention_ms: AtomicU64::new(0),
            disk,
            certs: PathBuf::from("/certs"),
            started: clock::monotonic(),
            sessions: AtomicU64::new(1),
        });
        Ok(Node {
            keeping: Keeping::new(&shared),
            shared,
            watchdog,
            index: kept,
            beside,
            watch,
            look_at: clock::monotonic() + room::LOOK_INTERVAL,
            deciding: Deciding::new(writer, received),
            ended: None,
            connections: BTreeMap::new(),
            readings: VecDeque::new(),
            asked: VecDeque::new(),
            asks: BTreeMap::new(),
            written: Vec::new(),
            connected: 0,
            reads: 0,
            asks_made: 0,
        })
    }

    /// What can be done now, in an order that is always the same. Where there is nothing, something must come or time
    /// pass ([`Node::due_at`]).
    #[must_use]
    pub fn works(&self) -> Vec<Work> {
        let mut works = Vec::new();
        self.deciding.works(&self.beside, self.watchdog.doubt.is_raised(), &mut works);
        if self.beside.due() != Due::Nothing {
            works.push(Work::Checkpoint);
        } else if self.beside.next_frame().is_some() {
            works.push(Work::Apply);
        }
        if self.beside.wants_segment() {
            works.push(Work::Prepare);
        }
        if self.beside.wants_condensing() {
            works.push(Work::Condense);
        }
        if self.look_at <= clock::monotonic() {
            works.push(Work::Room);
        }
        if self.keeping.is_due() {
            works.push(Work::Keep);
        }
        if self.shared.moved.due().is_some_and(|due| due <= clock::monotonic()) {
            works.push(Work::Receipts);
        }
        if self.submits_asked() {
            works.push(Work::Asked);
        }
        self.works_of_connections(&mut works);
        works
    }

    /// When time alone makes something new to be done, at the earliest.
    #[must_use]
    pub fn due_at(&self) -> Instant {
        let ticks = self.connections.values().filter_map(|it| it.tick_at);
        let others = [self.deciding.due_at(), self.beside.due_at(), self.shared.moved.due(), self.keeping.due_at()];
        others.into_iter().flatten().chain(ticks).fold(self.look_at, Instant::min)
    }

    /// Does one piece of work; nothing, where it is none of [`Node::works`].
    pub fn step(&mut self, work: Work) {
        match work {
            Work::Take => self.deciding.take(),
            Work::Append => self.deciding.append(),
            Work::Settle => self.deciding.settle(),
            Work::Tell => self.deciding.tell(),
            Work::Reopen => self.deciding.reopen(),
            Work::Seal => self.deciding.seal(),
            Work::Finish => self.finish(),
            Work::Dispatch => self.dispatch(),
            Work::Receipts => receipts::tell(&self.shared),
            Work::Apply => self.beside.apply(),
            Work::Checkpoint => self.beside.carry_out_due(),
            Work::Prepare => self.prepare(),
            Work::Condense => self.condense(),
            Work::Room => {
                let now = clock::monotonic();
                self.watch.step(now);
                self.look_at = now + room::LOOK_INTERVAL;
            }
            Work::Keep => self.keep(),
            Work::Asked => self.submit_asked(),
            Work::Submit(conn) => {
                let shared = Arc::clone(&self.shared);
                self.connections.get_mut(&conn).into_iter().for_each(|it| it.submit(&shared));
            }
            Work::Control(conn) => self.take_control(conn),
            Work::Acks(conn) => self.take_acks(conn),
            Work::Request(conn, stream) => self.take_request(conn, stream),
            Work::Look(read) => self.look(read),
            Work::Scan(read) => self.scan(read),
            Work::WriteControl(conn) => self.write_control(conn),
            Work::WritePush(conn) => self.write_push(conn),
            Work::WritePage(conn, stream) => self.write_page(conn, stream),
            Work::Tick(conn) => self.tick(conn),
            Work::Leave(conn) => self.leave(conn),
        }
        self.answer_enrolled();
        self.keeping.note();
        for (conn, it) in &mut self.connections {
            it.notice_wakes();
            if let Some(code) = it.line.is_closed()
                && !std::mem::replace(&mut it.is_told, true)
            {
                self.written.push((*conn, Out::Closed(code)));
            }
        }
    }

    /// A real server closes the index before it records how that was left; this one goes on showing it.
    fn finish(&mut self) {
        if self.deciding.finish() && !self.watchdog.doubt.is_raised() {
            self.watchdog.doubt.at_rest(self.index.rest());
        }
    }

    fn dispatch(&mut self) {
        let Some(told) = self.deciding.next_told() else { return };
        let Some(ended) = dispatch::take(&self.shared, told) else { return };
        self.ended = Some(match ended {
            Ok(()) => Ended::Stopped,
            Err(ServeError::NotOpen) => Ended::NotOpen,
            Err(failure) => Ended::NotSealed(failure.to_string()),
        });
        for session in self.shared.registry.all() {
            session.close(Code::ServerStopping);
        }
    }

    fn prepare(&self) {
        if let Err(failure) = self.beside.prepare() {
            debug!(error = %failure, "no segment could be made ahead; it is tried again");
        }
    }

    fn condense(&self) {
        if let Err(failure) = self.beside.condense() {
            debug!(error = %failure, "the log could not be condensed; it is tried again");
        }
    }

    /// What was written to connections since this was last asked, in order.
    pub fn take_written(&mut self) -> Vec<(Conn, Out)> {
        std::mem::take(&mut self.written)
    }

    /// The items that were published as committed since this was last asked, encoded, in the order of their frames and,
    /// within one, of each group.
    pub fn take_published(&mut self) -> Vec<bytes::Bytes> {
        self.deciding.take_published()
    }

    /// How the server has ended; a real one leaves its process then. Where the index is in doubt there may be steps left,
    /// which a real server's threads may or may not come to; else there are none.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        let doubt = self.watchdog.doubt.why().map(Ended::Doubt);
        doubt.or_else(|| self.ended.clone().filter(|_| self.deciding.has_ended()))
    }

    /// Begins a clean stop: no more commands are taken, those that wait are decided, the log is sealed.
    pub fn stop(&mut self) {
        self.shared.commands.close();
        self.deciding.stop();
    }

    /// A peer has connected, and said nothing yet.
    ///
    /// # Errors
    /// Where there are as many connections as there may be.
    pub fn connect(&mut self) -> Result<Conn, Code> {
        let Arrival::Admit(permit) = self.shared.admission.arrive(true) else { return Err(Code::TooManyConnections) };
        self.connected += 1;
        let conn = Conn(self.connected);
        self.connections.insert(conn, Connection::new(permit));
        Ok(conn)
    }

    /// More bytes have come on the control stream. The first frame says who it is; a proof may follow it, and nothing is
    /// checked of it.
    pub fn control(&mut self, conn: Conn, bytes: &[u8]) {
        if let Some(it) = self.connections.get_mut(&conn) {
            it.control.push(bytes);
        }
    }

    /// More bytes have come on the acks stream.
    pub fn acks(&mut self, conn: Conn, bytes: &[u8]) {
        if let Some(it) = self.connections.get_mut(&conn) {
            it.acks.push(bytes);
        }
    }

    /// More bytes have come on a request stream; the peer numbers them, and uses no number twice.
    pub fn request(&mut self, conn: Conn, stream: u64, bytes: &[u8]) {
        if let Some(it) = self.connections.get_mut(&conn) {
            it.streams.entry(stream).or_default().incoming.push(bytes);
        }
    }

    /// The server has noticed that the peer is gone.
    pub fn gone(&mut self, conn: Conn) {
        if let Some(it) = self.connections.get_mut(&conn) {
            it.close(Code::Goodbye);
            it.is_told = true;
        }
    }

    /// The operator gives a command, on the server's own machine.
    pub fn ask(&mut self, command: Command) -> Ask {
        let (sender, answer) = oneshot::channel();
        self.asks_made += 1;
        let ask = Ask(self.asks_made);
        self.asks.insert(ask, answer);
        self.asked.push_back((command, Reply::to(Recipient::Local(sender))));
        ask
    }

    /// What became of a command of the operator, once.
    pub fn answer(&mut self, ask: Ask) -> Option<Result<Answer, Code>> {
        let outcome = match self.asks.get_mut(&ask)?.try_recv() {
            Ok(Outcome::Decided(answer)) => Ok(answer),
            Ok(Outcome::Failed(code)) => Err(code),
            Err(oneshot::error::TryRecvError::Empty) => return None,
            Err(oneshot::error::TryRecvError::Closed) => Err(Code::OutcomeUnknown),
        };
        self.asks.remove(&ask);
        Some(outcome)
    }
}

#[cfg(test)]
mod tests;
