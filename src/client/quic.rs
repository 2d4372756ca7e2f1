//! The network of every release build: QUIC, with tasks that move frames and one bounded queue of what they bring.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::error::ConnectError;
use crate::client::hello::{Accepted, introduce, list_bytes, page_bytes};
use crate::client::live::{Live, read_list, read_page};
use crate::client::net::{Dial, Line, Net, NetEvent};
use crate::client::stream::{StreamError, ask_bytes};
use crate::client::types::Session;
use crate::core::inbox::Pull;
use crate::ids::{ClientSeq, GroupId};
use crate::wire::WireError;
use crate::wire::frame::{self, Welcome};

/// What the network may bring before the engine has to look at it; the tasks wait beyond that.
const EVENTS_QUEUED_MAX: usize = 64;

/// See the module.
pub(super) struct Quic {
    /// What the newest connection brings.
    pub(super) events: mpsc::Receiver<NetEvent>,
    sender: mpsc::Sender<NetEvent>,
}

/// How an attempt ended.
pub(super) type Dialled = Result<Box<(Welcome, Accepted)>, ConnectError>;

/// An attempt under way.
pub(super) struct Attempt(JoinSet<Dialled>);

impl Attempt {
    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> Dialled {
        match self.0.join_next().await {
            Some(Ok(result)) => result,
            // The attempt itself has failed.
            Some(Err(_)) | None => Err(ConnectError::Closed),
        }
    }
}

impl Quic {
    pub(super) fn new() -> Quic {
        let (sender, events) = mpsc::channel(EVENTS_QUEUED_MAX);
        Quic { events, sender }
    }
}

impl Net for Quic {
    type Attempt = Attempt;
    type Accepted = Accepted;
    type Line = QuicLine;

    fn dial(&mut self, dial: Dial) -> Attempt {
        *self = Quic::new();
        let Dial { server, key, who, first, options } = dial;
        let mut attempt = JoinSet::new();
        attempt.spawn(async move { introduce(&server, &key, who, first, &options).await.map(Box::new) });
        Attempt(attempt)
    }

    fn start(&mut self, accepted: Accepted, address: String, session: Session) -> QuicLine {
        let Accepted { endpoint, connection, streams } = accepted;
        let (live, tasks) = Live::start(endpoint, connection, address, session, streams, &self.sender);
        QuicLine { live, events: self.sender.clone(), _tasks: tasks }
    }
}

/// A connection and the tasks that serve it.
pub(super) struct QuicLine {
    live: Arc<Live>,
    events: mpsc::Sender<NetEvent>,
    _tasks: JoinSet<()>,
}

impl Line for QuicLine {
    async fn send(&self, seq: ClientSeq, send: &frame::Send) -> Result<(), WireError> {
        self.live.send(seq, send).await
    }

    async fn write_acks(&self, acks: &frame::Ack) -> Result<(), WireError> {
        self.live.write_acks(acks).await
    }

    fn open_page(&self, pull: Pull) {
        let (connection, events) = (self.live.connection.clone(), self.events.clone());
        tokio::spawn(async move {
            let asked = async { ask_bytes(&connection, page_bytes(pull)?).await };
            match asked.await {
                Ok(stream) => read_page(connection.clone(), pull.group, stream, events).await,
                // The engine may be gone already.
                Err::<_, StreamError>(_) => drop(events.send(NetEvent::PageFailed(pull.group, None)).await),
            }
        });
    }

    fn open_list(&self, after: GroupId) {
        let (connection, events) = (self.live.connection.clone(), self.events.clone());
        tokio::spawn(async move {
            let asked = async { ask_bytes(&connection, list_bytes(after)?).await };
            match asked.await {
                Ok(stream) => read_list(connection.clone(), stream, events).await,
                // The engine may be gone already.
                Err::<_, StreamError>(_) => drop(events.send(NetEvent::ListFailed).await),
            }
        });
    }

    fn fail(&self, error: &WireError) {
        self.live.fail(error);
    }

    async fn close(&self) {
        self.live.close().await;
    }

    fn live(&self) -> Option<Arc<Live>> {
        Some(Arc::clone(&self.live))
    }
}
