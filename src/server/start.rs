//! Starting a server and stopping it.
//!
//! The order of the start: the data folder (locked and understood before anything else is touched), the keys, the
//! threads, the socket, the first invite. The order of the stop: no new connections and requests, the commits that wait
//! finish and are answered, the log is sealed, peers are told, the socket closes, the index is made durable. Where the
//! index is in doubt nothing waits for it: threads that hang in it are left behind, for the end of the process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use quinn::{Endpoint, VarInt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::clock;
use crate::config::Config;
use crate::core::command::{Answer, Command};
use crate::core::rows::Meta;
use crate::core::state::State;
use crate::disk::SharedDisk;
use crate::limits;
use crate::proof;
use crate::server::admission::{Admission, Arrival, Bounds};
use crate::server::beside::Threads;
use crate::server::endpoint::{self, BindError, BoundAs};
use crate::server::identity::{self, Identity, IdentityError};
use crate::server::opening::{Found, IndexOptions, OpenError, Place};
use crate::server::presence::Presence;
use crate::server::reader::{Alive, Readers};
use crate::server::receipts::Moved;
use crate::server::registry::Registry;
use crate::server::request::{Commands, Outcome};
use crate::server::room::{Monitor, Room, Watch};
use crate::server::view::View;
use crate::server::watchdog::{Watchdog, Work};
use crate::server::writer::{Open, Writer};
use crate::server::{Shared, auth, connection, dispatch, keeping, operator, writing};
use crate::store::applier::Pace;
use crate::store::engine::Index;
use crate::store::index::{self, SledIndex};
use crate::store::log::NamesInDoubt;
use crate::store::{Progress, StoreError};
use crate::wire::code::Code;
use crate::wire::link::{InviteCode, Link, Pin};

/// How long peers may take to read their last answers when the server stops.
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// How long the socket may take to say goodbye to everybody.
const GOODBYE_TIME: Duration = Duration::from_secs(2);
/// How long a server that has failed may take for each thing that it still does.
const ABANDON_TIME: Duration = Duration::from_secs(1);

/// Why a server does not start, or has ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data folder.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log could not be sealed.
    #[error("failed to seal the log: {0}")]
    Seal(#[source] StoreError),
    /// The keys.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The log had failed and did not open again before the server was stopped.
    #[error("the log had failed and was not open again; what was answered is kept: mend the disk and start the server")]
    NotOpen,
    /// A thread could not be started.
    #[error("failed to start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The first invite could not be made.
    #[error("failed to make the first invite: {0}")]
    FirstInvite(String),
    /// The index failed or stalled.
    #[error("{0}; all that was answered is kept: the next start rebuilds the index from the log")]
    Index(String),
    /// The writer is gone though nobody stopped it.
    #[error("the writer thread ended by itself; what was answered is safe: start the server again")]
    WriterEnded,
}

/// A running server. Dropping it without [`Server::stop`] is as good as pulling the plug.
pub struct Server {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    bound: BoundAs,
    first_invite: Option<(PathBuf, Link)>,
    accepting: tokio::task::JoinHandle<()>,
    /// None once its end was seen.
    dispatcher: Option<tokio::task::JoinHandle<Result<(), ServeError>>>,
    watchdog: Arc<Watchdog>,
    index: Arc<dyn Index>,
    threads: Vec<JoinHandle<()>>,
    monitor: Monitor,
    /// None once it was ended.
    keeper: Option<keeping::Task>,
    /// Nothing comes, but its end once the threads have ended.
    threads_end: mpsc::Receiver<Infallible>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Server").field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server on this runtime, its index on the real disk. `progress` is told how far reading the log has come.
    ///
    /// # Errors
    /// Where the data folder, a key or the socket cannot be had; nothing is left running then.
    pub async fn start(
        config: Config,
        disk: SharedDisk,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<Server, ServeError> {
        let settings = index::Settings { cache_bytes: config.cache_bytes, ..index::Settings::default() };
        let mut index = IndexOptions::of(Arc::new(SledIndex::new(&config.data, settings)));
        if proof::is_small() {
            index.pace = Pace::SMALL;
        }
        Server::start_with(config, disk, index, progress).await
    }

    /// The same with another index.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_with(
        config: Config,
        disk: SharedDisk,
        index: IndexOptions,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<Server, ServeError> {
        let watchdog = Watchdog::new(index.stall);
        let small = if proof::is_small() { 64 } else { 1 };
        let (folder, segment_bytes) = (config.data.clone(), limits::SEGMENT_BYTES / small);
        let kept = Arc::clone(&index.index);
        let place = Place {
            disk: Arc::clone(&disk),
            folder,
            segment_bytes,
            index,
            beside: Arc::new(Threads),
            names_in_doubt: NamesInDoubt::default(),
        };
        let opening = place.clone();
        let room = Arc::new(Room::new(Arc::clone(&disk), config.data.clone()));
        let mut watch = Watch::new(Arc::clone(&room));
        let opened = tokio::task::spawn_blocking(move || {
            let found = opening.open(progress)?;
            // Known before the first command is decided.
            watch.step(clock::monotonic());
            Ok::<_, OpenError>((found, watch))
        });
        let (Found { store, tables, applier, made_now }, watch) =
            opened.await.map_err(|_| ServeError::WriterEnded)??;
        if made_now {
            watchdog.doubt.made_now();
        }
        let record = config.data.join(identity::PIN_FILE);
        let identity = Identity::load_or_create(disk.as_ref(), &config.certs, &record, config.other_key)?;
        let operator_key = operator::load_or_create(disk.as_ref(), &config.certs)?;
        let settings = endpoint::Settings { idle_ms: config.idle_ms };
        let (endpoint, bound) = endpoint::bind(config.listen, &identity, &settings)?;

        let view = Arc::new(View::new(tables, store.engine, store.durable));
        let open = Open::start(store.log, applier, &view, &watchdog, &room, &place).map_err(ServeError::Thread)?;
        let (commands, received) = Commands::new();
        let (told, batches) = mpsc::channel(limits::BATCHES_QUEUED_MAX);
        let keeping = config.members.keeping;
        let state = State::new(config.members);
        let writer = Writer::new(state, open, place, Arc::clone(&view), room, Arc::clone(&watchdog));
        let writer_log = writer.figures();
        let (alive, threads_end) = mpsc::channel(1);
        let (readers, mut threads) = Readers::start(&view, &watchdog, &alive).map_err(ServeError::Thread)?;
        threads.push(thread("writer", alive, move || writing::run(writer, &received, &told))?);
        let monitor = Monitor::start(watch).map_err(ServeError::Thread)?;
        tokio::spawn(Arc::clone(&watchdog).run());

        let advertise = match &config.advertise {
            Some(advertise) => advertise.to_string(),
            None => format!("localhost:{}", bound.address.port()),
        };
        let shared = Arc::new(Shared {
            view,
            registry: Registry::default(),
            presence: Presence::default(),
            admission: Admission::new(Bounds::default()),
            commands,
            readers,
            moved: Moved::default(),
            operator_key,
            pins: identity.pins().map(|pin| Bytes::copy_from_slice(&pin.0)).collect(),
            pin: identity.pin(),
            advertise,
            epoch: store.epoch,
            log: writer_log,
            keeping,
            retention_ms: AtomicU64::new(0),
            disk,
            certs: config.certs,
            started: clock::monotonic(),
            sessions: AtomicU64::new(1),
        });
        let dispatcher = Some(tokio::spawn(dispatch::run(Arc::clone(&shared), batches)));
        let keeper = keeping::Task::start(&shared, &watchdog);
        let accepting = tokio::spawn(accept(Arc::clone(&shared), endpoint.clone()));
        let mut server = Server {
            shared,
            endpoint,
            bound,
            first_invite: None,
            accepting,
            dispatcher,
            watchdog,
            index: kept,
            threads,
            threads_end,
            monitor,
            keeper: Some(keeper),
        };
        match first_invite(&server.shared).await {
            Ok(made) => server.first_invite = made,
            Err(error) => {
                // What is said is why it did not start; whether it stopped well changes nothing about that.
                drop(server.stop().await);
                return Err(error);
            }
        }
        if let Some(advice) = bound.small_buffers() {
            info!("{advice}");
        }
        info!(address = %server.bound.address, families = %server.bound.families, pin = %server.shared.pin, "serving");
        Ok(server)
    }

    /// Where it listens, and how.
    #[must_use]
    pub fn bound(&self) -> &BoundAs {
        &self.bound
    }

    /// The port and address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.bound.address
    }

    /// The pin by which clients know it.
    #[must_use]
    pub fn pin(&self) -> Pin {
        self.shared.pin
    }

    /// The file and the link of the first invite, until an operator exists.
    #[must_use]
    pub fn first_invite(&self) -> Option<(&Path, &Link)> {
        self.first_invite.as_ref().map(|(path, link)| (path.as_path(), link))
    }

    /// Waits until the server has ended by itself, which it does only by a fault of its own: what is left to do is
    /// [`Server::abandon`]. Safe to cancel.
    pub async fn failed(&mut self) -> ServeError {
        tokio::select! {
            biased;
            why = self.watchdog.doubt.raised() => ServeError::Index(why),
            ended = ended(&mut self.dispatcher) => ended.err().unwrap_or(ServeError::WriterEnded),
        }
    }

    /// Stops: commits that wait finish and are answered, the log is sealed, peers are told, the index is made durable.
    ///
    /// # Errors
    /// Where the log could not be sealed, or the index not be made durable; what was answered is kept all the same.
    pub async fn stop(mut self) -> Result<(), ServeError> {
        self.endpoint.set_server_config(None);
        self.shared.commands.close();
        let sealed = tokio::select! {
            biased;
            sealed = ended(&mut self.dispatcher) => sealed,
            why = self.watchdog.doubt.raised() => Err(ServeError::Index(why)),
        };
        tokio::time::sleep(if self.shared.registry.all().is_empty() { Duration::ZERO } else { DRAIN_TIME }).await;
        self.say_goodbye(GOODBYE_TIME).await;
        self.shared.readers.close();
        if let Some(keeper) = self.keeper.take() {
            keeper.finish(ABANDON_TIME).await;
        }
        tokio::select! {
            biased;
            _ = self.threads_end.recv() => {
                let (threads, monitor) = (self.threads, self.monitor);
                let joined = tokio::task::spawn_blocking(move || {
                    monitor.finish();
                    threads.into_iter().map(JoinHandle::join).all(|end| end.is_ok())
                });
                if !joined.await.unwrap_or(false) {
                    warn!("a thread panicked");
                }
                close_index(&self.shared.view, &self.watchdog, self.index).await;
            }
            _ = self.watchdog.doubt.raised() => self.what_hangs_is_left_behind().await,
        }
        // The threads may have ended because of it.
        if self.watchdog.doubt.is_raised() {
            doubt_is_recorded(&self.watchdog).await;
            return Err(ServeError::Index(self.watchdog.doubt.raised().await));
        }
        sealed
    }

    /// Ends a server that has failed, in a few seconds at most: peers are told, and what hangs is left behind.
    pub async fn abandon(mut self) {
        self.endpoint.set_server_config(None);
        self.shared.commands.close();
        self.shared.readers.close();
        tokio::join!(self.say_goodbye(ABANDON_TIME), doubt_is_recorded(&self.watchdog));
        self.what_hangs_is_left_behind().await;
    }

    /// Waits until the writer has let go of the folder and the readers have ended, though not for one that hangs. The index
    /// is never closed, as that could hang too.
    async fn what_hangs_is_left_behind(&mut self) {
        std::mem::forget(Arc::clone(&self.shared.view.read().engine));
        if tokio::time::timeout(ABANDON_TIME, self.threads_end.recv()).await.is_err() {
            warn!("a thread hangs and is left behind");
        }
    }

    async fn say_goodbye(&self, at_most: Duration) {
        for session in self.shared.registry.all() {
            session.close(Code::ServerStopping);
        }
        self.accepting.abort();
        self.endpoint.close(VarInt::from_u32(u32::from(Code::ServerStopping.number())), b"server-stopping");
        if tokio::time::timeout(at_most, self.endpoint.wait_idle()).await.is_err() {
            warn!("not every peer was told that the server stops");
        }
    }
}

/// Waits until a doubt is recorded, where there is one, though not for a disk that hangs.
async fn doubt_is_recorded(watchdog: &Watchdog) {
    let doubt = &watchdog.doubt;
    if doubt.is_raised() && tokio::time::timeout(ABANDON_TIME, doubt.recorded()).await.is_err() {
        warn!("the disk hangs: the doubt about the index may not be recorded");
    }
}

/// Closes the index and records how it was left, on a thread of its own: what is left to flush and to sync may hang as
/// any work on it may, and is doubt then. Only once it is closed nothing is written to its files any more.
async fn close_index(view: &View, watchdog: &Arc<Watchdog>, index: Arc<dyn Index>) {
    let (alive, mut closed) = mpsc::channel(1);
    let (engine, guard) = (view.take_engine(), Arc::clone(watchdog));
    let close = move || {
        guard.applier.during(Work::Closing, || {
            drop(engine);
            guard.doubt.at_rest(index.rest());
        });
    };
    if let Err(error) = thread("closing", alive, close) {
        warn!(%error, "the index was closed without a watch");
    }
    tokio::select! {
        _ = closed.recv() => {}
        _ = watchdog.doubt.raised() => {}
    }
}

/// How the dispatcher, and with it the writer, has ended; it is none once that was seen.
async fn ended(dispatcher: &mut Option<tokio::task::JoinHandle<Result<(), ServeError>>>) -> Result<(), ServeError> {
    let Some(running) = dispatcher else { return Err(ServeError::WriterEnded) };
    let ended = running.await;
    *dispatcher = None;
    ended.unwrap_or(Err(ServeError::WriterEnded))
}

fn thread(name: &str, alive: Alive, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServeError> {
    let body = move || {
        let _alive = alive;
        body();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(ServeError::Thread)
}

/// Until an operator's device has existed, every start makes a new first invite and voids the old.
async fn first_invite(shared: &Shared) -> Result<Option<(PathBuf, Link)>, ServeError> {
    if shared.view.read().tables.meta(Meta::OperatorExisted) != 0 {
        shared.first_invite_used();
        return Ok(None);
    }
    let failed = |why: String| ServeError::FirstInvite(why);
    let code = InviteCode(auth::random().map_err(|error| failed(error.to_string()))?);
    let expires_ms = clock::now_ms().saturating_add(limits::INVITE_LIFETIME_S_MAX * 1_000);
    let command = Command::RenewFirstInvite { code: auth::code_hash(&code.0), expires_ms };
    match shared.commands.ask(command).await {
        Outcome::Decided(Answer::Invited { .. }) => {}
        Outcome::Decided(Answer::Refused(why)) => return Err(failed(why.to_string())),
        Outcome::Decided(_) => return Err(failed("an unexpected answer".to_owned())),
        Outcome::Failed(code) => return Err(failed(code.to_string())),
    }
    let link = shared.link(code);
    let path = operator::write_first_invite(shared.disk.as_ref(), &shared.certs, &link)
        .map_err(|error| failed(error.to_string()))?;
    Ok(Some((path, link)))
}

async fn accept(shared: Arc<Shared>, endpoint: Endpoint) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { break };
                match shared.admission.arrive(incoming.remote_address_validated()) {
                    Arrival::Admit(permit) => {
                        connections.spawn(connection::serve(Arc::clone(&shared), incoming, permit));
                    }
                    // A peer that was asked already and comes without a token is turned away.
                    Arrival::Retry => drop(incoming.retry()),
                    Arrival::Refuse(_) => incoming.refuse(),
                }
            }
            Some(ended) = connections.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    tracing::error!("a connection's task panicked");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tables::Tables;
    use crate::ids::Lsn;
    use crate::store::engine::{Engine, EngineError};
    use crate::store::faulty::{Fault, FaultyEngine};
    use crate::store::format::StoreId;
    use crate::store::memory::MemoryIndex;

    /// An index that works, but whose files the disk never makes durable.
    struct NeverAtRest;

    impl Index for NeverAtRest {
        fn rest(&self) -> Option<u64> {
            loop {
                std::thread::park();
            }
        }

        fn open(&self, _store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
            Ok(None)
        }

        fn begin(&self, _store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
            Ok(Arc::new(FaultyEngine::new()))
        }

        fn remove_old(&self) -> Result<(), EngineError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_index_that_hangs_while_it_is_closed_is_in_doubt() {
        for hangs in [false, true] {
            let engine = FaultyEngine::new();
            if hangs {
                engine.set(Fault::StallClosing);
            }
            let view = View::new(Tables::new(), Arc::new(engine), Lsn::ZERO);
            // However busy the machine is, what does not hang is done by then.
            let watchdog = Watchdog::new(if hangs { Duration::from_millis(200) } else { Duration::from_secs(3_600) });
            tokio::spawn(Arc::clone(&watchdog).run());
            close_index(&view, &watchdog, Arc::new(MemoryIndex)).await;
            assert_eq!(watchdog.doubt.is_raised(), hangs);
        }
    }

    #[tokio::test]
    async fn a_disk_that_hangs_once_the_index_is_closed_is_doubt_and_holds_up_no_stop() {
        let view = View::new(Tables::new(), Arc::new(FaultyEngine::new()), Lsn::ZERO);
        let watchdog = Watchdog::new(Duration::from_millis(200));
        tokio::spawn(Arc::clone(&watchdog).run());
        let closing = close_index(&view, &watchdog, Arc::new(NeverAtRest));
        tokio::time::timeout(Duration::from_secs(60), closing).await.unwrap();
        assert!(watchdog.doubt.is_raised());
    }
}
