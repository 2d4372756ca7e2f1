//! One connection from its first packet to its last: identify, then run its streams side by side.
//!
//! Nothing is served before the first frame of the control stream has proved who is there. A fault of the peer on
//! control or acks ends its connection with a code from the closed list; a fault on a request stream ends that stream.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, Incoming, SendStream};
use tokio::task::JoinSet;
use tracing::{Instrument, debug, info, info_span};

use crate::limits;
use crate::server::admission::Permit;
use crate::server::handshake::{self, Identified, Parts};
use crate::server::peer::Peer;
use crate::server::session::Session;
use crate::server::streams::{self, FrameStream};
use crate::server::{Shared, acks, control, presence, push, requests};
use crate::telemetry;
use crate::wire::code::Code;

/// How long a refused peer may take to read why, before the connection is closed all the same.
const REFUSAL_READ_TIME: Duration = Duration::from_millis(500);

/// Why a connection was refused, for the peer.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    /// The code.
    pub(crate) code: Code,
    /// The request it answers.
    pub(crate) request: u32,
    /// Words for a person.
    pub(crate) detail: String,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Refused {
        Refused { code, request: 0, detail: code.name().to_owned() }
    }
}

/// Serves one connection.
pub(crate) async fn serve(shared: Arc<Shared>, incoming: Incoming, permit: Permit) {
    let peer = telemetry::peer_prefix(incoming.remote_address());
    let span = info_span!("connection", %peer);
    async move {
        match incoming.await {
            Ok(connection) => accepted(shared, connection, permit).await,
            Err(error) => debug!(%error, "handshake failed"),
        }
    }
    .instrument(span)
    .await;
}

async fn accepted(shared: Arc<Shared>, connection: Connection, mut permit: Permit) {
    let limit = Duration::from_millis(limits::HELLO_MS_MAX);
    let identified = tokio::time::timeout(limit, identify(&shared, &connection, &mut permit)).await;
    let (code, user) = match identified {
        Ok(Some(identified)) => {
            let user = identified.parts.session.who();
            (run(&shared, &connection, identified).await, user)
        }
        Ok(None) => (Code::Goodbye, None),
        Err(_) => (Code::HelloTimeout, None),
    };
    Peer::close(&connection, code);
    debug!(%code, "connection ended");
    // What is held of it goes with its place: what follows takes a while.
    drop(connection);
    drop(permit);
    if let Some(user) = user {
        presence::left(&shared, user).await;
    }
}

/// Opens the control stream and finds out who is there; none: refused, or enrolled and done.
async fn identify(shared: &Arc<Shared>, connection: &Connection, permit: &mut Permit) -> Option<Identified> {
    let (mut send, receive) = connection.accept_bi().await.ok()?;
    streams::set_urgency(&send, streams::urgency::CONTROL);
    let mut frames = FrameStream::new(receive);
    match handshake::identify(shared, connection, &mut frames, permit).await {
        Ok(handshake::Outcome::Session(parts)) => Some(Identified { parts, send, frames }),
        Ok(handshake::Outcome::Enrolled(answer)) => {
            finish(connection, &mut send, answer, Code::Goodbye).await;
            None
        }
        Err(refused) => {
            info!(code = %refused.code, "refused");
            let answer = handshake::refusal(&refused);
            finish(connection, &mut send, answer, refused.code).await;
            None
        }
    }
}

/// Writes a last frame, gives the peer a moment to read it, and closes.
async fn finish(connection: &Connection, send: &mut SendStream, answer: bytes::Bytes, code: Code) {
    let written = async {
        send.write_chunk(answer).await.ok()?;
        send.finish().ok()?;
        send.stopped().await.ok()
    };
    // Whether it was read or not, the close that follows carries the code too.
    drop(tokio::time::timeout(REFUSAL_READ_TIME, written).await);
    Peer::close(connection, code);
}

/// Runs the streams of an identified connection until one of them ends it.
async fn run(shared: &Arc<Shared>, connection: &Connection, identified: Identified) -> Code {
    let Identified { parts, mut send, frames } = identified;
    let session = Arc::clone(&parts.session);
    if let Err(refused) = enter(shared, parts) {
        finish(connection, &mut send, handshake::refusal(&refused), refused.code).await;
        return refused.code;
    }
    let mut tasks = JoinSet::new();
    spawn(&mut tasks, control::write(Arc::clone(&session), send));
    spawn(&mut tasks, control::read(Arc::clone(shared), Arc::clone(&session), frames));
    spawn(&mut tasks, acks::accept(Arc::clone(shared), Arc::clone(&session), connection.clone()));
    spawn(&mut tasks, requests::accept(Arc::clone(shared), Arc::clone(&session), connection.clone()));
    spawn(&mut tasks, presence::read(Arc::clone(shared), Arc::clone(&session), connection.clone()));
    if session.listens {
        presence::settle(shared, session.user);
        spawn(&mut tasks, push::run(Arc::clone(shared), Arc::clone(&session), connection.clone()));
    }
    let code = match tasks.join_next().await {
        Some(Ok(code)) => code,
        Some(Err(error)) if error.is_panic() => {
            tracing::error!("a task of a connection panicked");
            Code::OutcomeUnknown
        }
        Some(Err(_)) | None => Code::Goodbye,
    };
    leave(shared, &session);
    code
}

fn spawn(tasks: &mut JoinSet<Code>, task: impl Future<Output = Code> + Send + 'static) {
    tasks.spawn(task.in_current_span());
}

/// Enters an identified connection, in place of the one that it displaces, and welcomes it.
pub(crate) fn enter(shared: &Shared, parts: Parts) -> Result<(), Refused> {
    let Parts { session, request, welcome, instance } = parts;
    let entered = shared.registry.enter(&session, instance, &shared.view.read().tables);
    let displaced = entered.map_err(|code| Refused { request, ..Refused::from(code) })?;
    if let Some(displaced) = displaced {
        displaced.session.close(displaced.code);
    }
    session.queue(welcome, None);
    info!(who = %session, listens = session.listens, "connected");
    Ok(())
}

/// Takes a connection out that has ended.
pub(crate) fn leave(shared: &Shared, session: &Session) {
    shared.registry.leave(session);
    info!(who = %session, "disconnected");
}
