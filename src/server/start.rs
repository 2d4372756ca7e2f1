//! Starting a server and stopping it.
//!
//! The order of the start: the data folder (locked and understood before anything else is touched), the keys, the
//! threads, the socket, the first invite. The order of the stop: no new connections and requests, the commits that wait
//! finish and are answered, the log is sealed, peers are told, the socket closes.

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
use crate::server::admission::{Admission, Arrival, Bounds};
use crate::server::endpoint::{self, BindError, BoundAs};
use crate::server::identity::{self, Identity, IdentityError};
use crate::server::opening::{Found, OpenError, Place};
use crate::server::reader::Readers;
use crate::server::registry::Registry;
use crate::server::request::{Commands, Outcome};
use crate::server::room::{Monitor, Room, Watch};
use crate::server::view::View;
use crate::server::writer::{self, Open, Writer};
use crate::server::{Shared, auth, connection, dispatch, operator};
use crate::store::{Progress, StoreError};
use crate::wire::code::Code;
use crate::wire::link::{InviteCode, Link, Pin};

/// How long peers may take to read their last answers when the server stops.
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// How long the socket may take to say goodbye to everybody.
const GOODBYE_TIME: Duration = Duration::from_secs(2);

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
    threads: Vec<JoinHandle<()>>,
    monitor: Monitor,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Server").field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server on this runtime. `progress` is told how far reading the log has come.
    ///
    /// # Errors
    /// Where the data folder, a key or the socket cannot be had; nothing is left running then.
    pub async fn start(
        config: Config,
        disk: SharedDisk,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<Server, ServeError> {
        let place =
            Place { disk: Arc::clone(&disk), folder: config.data.clone(), segment_bytes: limits::SEGMENT_BYTES };
        let opening = place.clone();
        let room = Arc::new(Room::new(Arc::clone(&disk), config.data.clone()));
        let mut watch = Watch::new(Arc::clone(&room));
        let opened = tokio::task::spawn_blocking(move || {
            let found = opening.open(progress)?;
            // Known before the first command is decided.
            watch.step(clock::monotonic());
            Ok::<_, OpenError>((found, watch))
        });
        let (Found { store, tables, applier }, watch) = opened.await.map_err(|_| ServeError::WriterEnded)??;
        let record = config.data.join(identity::PIN_FILE);
        let identity = Identity::load_or_create(disk.as_ref(), &config.certs, &record, config.other_key)?;
        let operator_key = operator::load_or_create(disk.as_ref(), &config.certs)?;
        let settings = endpoint::Settings { idle_ms: config.idle_ms };
        let (endpoint, bound) = endpoint::bind(config.listen, &identity, &settings)?;

        let view = Arc::new(View::new(tables, store.engine, store.durable));
        let open = Open::start(store.log, applier, &view).map_err(ServeError::Thread)?;
        let (commands, received) = Commands::new();
        let (told, batches) = mpsc::channel(limits::BATCHES_QUEUED_MAX);
        let log_bytes = Arc::new(AtomicU64::new(0));
        let state = State::new(config.members);
        let writer = Writer::new(state, open, place, Arc::clone(&view), room, Arc::clone(&log_bytes));
        let (readers, mut threads) = Readers::start(&view).map_err(ServeError::Thread)?;
        threads.push(thread("writer", move || writer::run(writer, &received, &told))?);
        let monitor = Monitor::start(watch).map_err(ServeError::Thread)?;

        let advertise = match &config.advertise {
            Some(advertise) => advertise.to_string(),
            None => format!("localhost:{}", bound.address.port()),
        };
        let shared = Arc::new(Shared {
            view,
            registry: Registry::default(),
            admission: Admission::new(Bounds::default()),
            commands,
            readers,
            operator_key,
            pins: identity.pins().map(|pin| Bytes::copy_from_slice(&pin.0)).collect(),
            pin: identity.pin(),
            advertise,
            epoch: store.epoch,
            log_bytes,
            disk,
            certs: config.certs,
            started: clock::monotonic(),
            sessions: AtomicU64::new(1),
        });
        let dispatcher = Some(tokio::spawn(dispatch::run(Arc::clone(&shared), batches)));
        let accepting = tokio::spawn(accept(Arc::clone(&shared), endpoint.clone()));
        let mut server =
            Server { shared, endpoint, bound, first_invite: None, accepting, dispatcher, threads, monitor };
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

    /// Waits until the server has ended by itself, which it does only by a fault of its own. Safe to cancel.
    pub async fn failed(&mut self) -> ServeError {
        let Some(dispatcher) = &mut self.dispatcher else { return ServeError::WriterEnded };
        let ended = dispatcher.await;
        self.dispatcher = None;
        match ended {
            Ok(Err(error)) => error,
            Ok(Ok(())) | Err(_) => ServeError::WriterEnded,
        }
    }

    /// Stops: commits that wait finish and are answered, peers are told, the log is sealed.
    ///
    /// # Errors
    /// Where the log could not be sealed; what was answered is kept all the same.
    pub async fn stop(self) -> Result<(), ServeError> {
        let Server { shared, endpoint, accepting, dispatcher, threads, monitor, .. } = self;
        endpoint.set_server_config(None);
        shared.commands.close();
        let sealed = match dispatcher {
            Some(dispatcher) => dispatcher.await.unwrap_or(Err(ServeError::WriterEnded)),
            None => Err(ServeError::WriterEnded),
        };
        tokio::time::sleep(if shared.registry.all().is_empty() { Duration::ZERO } else { DRAIN_TIME }).await;
        for session in shared.registry.all() {
            session.close(Code::ServerStopping);
        }
        accepting.abort();
        endpoint.close(VarInt::from_u32(u32::from(Code::ServerStopping.number())), b"server-stopping");
        if tokio::time::timeout(GOODBYE_TIME, endpoint.wait_idle()).await.is_err() {
            warn!("not every peer was told that the server stops");
        }
        shared.readers.close();
        let joined = tokio::task::spawn_blocking(move || {
            monitor.finish();
            threads.into_iter().map(JoinHandle::join).all(|end| end.is_ok())
        });
        if !joined.await.unwrap_or(false) {
            warn!("a thread panicked");
        }
        sealed
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServeError> {
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
