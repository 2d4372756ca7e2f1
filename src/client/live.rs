//! A connection that the server has accepted: questions and their answers, and the tasks that move frames.
//!
//! The tasks know nothing of what frames mean; they hand them to the engine through one bounded queue and stop reading
//! while it is full, so that a slow application slows the server down and not this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, ConnectionError, Endpoint, SendStream, VarInt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::client::connect::{ended, given_up};
use crate::client::error::{ConnectError, Refusal};
use crate::client::net::{NetEvent, list_event, page_event};
use crate::client::stream::{FrameStream, StreamError, ask};
use crate::client::types::Session;
use crate::client::waiters::{Waiter, Waiters};
use crate::core::inbox::Pull;
use crate::ids::{ClientSeq, GroupId};
use crate::wire::code::Code;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Frame};
use crate::wire::{WireError, codec};

/// Frames that wait for one stream's writer.
const WRITES_QUEUED_MAX: usize = 64;

/// A goodbye leaves at once; whether it arrives is not waited for.
const GOODBYE: Duration = Duration::from_millis(5);

/// Forgets who waits for an answer that nobody will take any more.
struct Forgets<'a> {
    live: &'a Live,
    request: u32,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        drop(self.live.waiters.take(self.request));
    }
}

/// An accepted connection.
pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) session: Session,
    address: String,
    endpoint: Endpoint,
    control: mpsc::Sender<Bytes>,
    acks: Option<mpsc::Sender<Bytes>>,
    waiters: Waiters,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Live connection of {}", self.session.user)
    }
}

/// The streams of a connection that was just accepted.
pub(super) struct Streams {
    pub(super) control: (SendStream, FrameStream),
    pub(super) acks: Option<SendStream>,
    pub(super) pages: Vec<(Pull, FrameStream)>,
    pub(super) list: Option<FrameStream>,
}

/// Why a question on a live connection has no answer.
#[derive(Debug)]
pub(super) enum AskError {
    /// It could not be asked.
    NotAsked(ConnectError),
    /// It was asked, and the connection broke.
    Lost(String),
    /// It was asked, and the server ended the connection because the device or its user is out.
    ShutOut(Refusal),
    /// What was asked or answered makes no sense.
    Wire(WireError),
}

impl Live {
    /// Starts the tasks of a connection; they end with it, or when the set is dropped.
    pub(super) fn start(
        endpoint: Endpoint,
        connection: Connection,
        address: String,
        session: Session,
        streams: Streams,
        events: &mpsc::Sender<NetEvent>,
    ) -> (Arc<Live>, JoinSet<()>) {
        let mut tasks = JoinSet::new();
        let (control, written) = mpsc::channel(WRITES_QUEUED_MAX);
        tasks.spawn(write_all(streams.control.0, written));
        let acks = streams.acks.map(|stream| {
            let (acks, written) = mpsc::channel(WRITES_QUEUED_MAX);
            tasks.spawn(write_all(stream, written));
            acks
        });
        let live = Arc::new(Live { connection, session, address, endpoint, control, acks, waiters: Waiters::new() });
        tasks.spawn(read_control(Arc::clone(&live), streams.control.1, events.clone()));
        tasks.spawn(read_datagrams(live.connection.clone(), events.clone()));
        tasks.spawn(accept_pushes(live.connection.clone(), events.clone()));
        tasks.spawn(watch(Arc::clone(&live), events.clone()));
        for (pull, stream) in streams.pages {
            tasks.spawn(read_page(live.connection.clone(), pull.group, stream, events.clone()));
        }
        if let Some(stream) = streams.list {
            tasks.spawn(read_list(live.connection.clone(), stream, events.clone()));
        }
        (live, tasks)
    }

    /// Asks on control.
    pub(super) async fn ask<F: Frame>(&self, question: &F) -> Result<RawFrame, AskError> {
        let (answer, answered) = oneshot::channel();
        let request = self.waiters.register(Waiter::Question(answer));
        // Who asks may stop waiting at any point.
        let _forgets = Forgets { live: self, request };
        let bytes = codec::encode(request, question).map_err(AskError::Wire)?;
        if self.control.send(bytes).await.is_err() {
            return Err(AskError::NotAsked(self.ending()));
        }
        tokio::select! {
            biased;
            answer = answered => answer.map_err(|_| self.lost()),
            _ = self.connection.closed() => Err(self.lost()),
        }
    }

    /// Why what was asked has no answer.
    fn lost(&self) -> AskError {
        let shuts_out = |refusal: &Refusal| {
            [Code::DeviceRevoked, Code::Deactivated, Code::UserDeleted].iter().any(|code| refusal.is(*code))
        };
        let ending = self.ending();
        if let ConnectError::Refused(refusal) = &ending
            && shuts_out(refusal)
        {
            return AskError::ShutOut(refusal.clone());
        }
        AskError::Lost(ending.to_string())
    }

    /// Asks on a stream of its own; the answer is one frame.
    pub(super) async fn ask_apart<F: Frame>(&self, question: &F) -> Result<RawFrame, AskError> {
        let lost = |error: StreamError| AskError::Lost(error.to_string());
        let mut stream = ask(&self.connection, question).await.map_err(lost)?;
        let frame = stream.next().await.map_err(lost)?;
        frame.ok_or_else(|| AskError::Lost("the stream ended without an answer".to_owned()))
    }

    /// Writes a send; its answer comes as an event.
    pub(super) async fn send(&self, seq: ClientSeq, send: &frame::Send) -> Result<(), WireError> {
        let bytes = self.waiters.ask_to_send(seq, send)?;
        // A writer that is gone is reported by the end of the connection.
        drop(self.control.send(bytes).await);
        Ok(())
    }

    /// Writes a frame to the acks stream.
    pub(super) async fn write_acks<F: Frame>(&self, frame: &F) -> Result<(), WireError> {
        let bytes = codec::encode(0, frame)?;
        if let Some(acks) = &self.acks {
            // A writer that is gone is reported by the end of the connection.
            drop(acks.send(bytes).await);
        }
        Ok(())
    }

    /// Sends a datagram; it may be lost.
    pub(super) fn tell<F: Frame>(&self, frame: &F) {
        if let Ok(bytes) = codec::encode(0, frame) {
            drop(self.connection.send_datagram(bytes));
        }
    }

    /// Why the connection is over, or would be.
    fn ending(&self) -> ConnectError {
        self.connection.close_reason().map_or(ConnectError::Closed, |reason| ended(&self.address, &reason))
    }

    /// Says goodbye, and waits a moment for it to leave. Of a connection that has ended the reason stays the one it has:
    /// who waits for an answer is told that.
    pub(super) async fn close(&self) {
        if self.connection.close_reason().is_none() {
            self.connection.close(VarInt::from_u32(u32::from(Code::Goodbye.number())), b"");
        }
        // Who does not hear it finds out by the idle time-out.
        drop(tokio::time::timeout(GOODBYE, self.endpoint.wait_idle()).await);
    }

    /// Ends the connection because the server broke the protocol.
    pub(super) fn fail(&self, error: &WireError) {
        fail(&self.connection, error);
    }
}

fn fail(connection: &Connection, error: &WireError) {
    connection.close(VarInt::from_u32(u32::from(error.code().number())), error.to_string().as_bytes());
}

async fn write_all(mut stream: SendStream, mut frames: mpsc::Receiver<Bytes>) {
    while let Some(frame) = frames.recv().await {
        // The end of the connection is reported by whoever watches it.
        if stream.write_chunk(frame).await.is_err() {
            return;
        }
    }
}

async fn read_control(live: Arc<Live>, mut stream: FrameStream, events: mpsc::Sender<NetEvent>) {
    loop {
        let frame = match stream.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) | Err(StreamError::Broken(_)) => return,
            Err(StreamError::Wire(error)) => return live.fail(&error),
        };
        let Some(event) = live.waiters.route(frame) else { continue };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// What comes by datagram may be lost anywhere, here too: where the engine is busy, or where it makes no sense.
async fn read_datagrams(connection: Connection, events: mpsc::Sender<NetEvent>) {
    while let Ok(datagram) = connection.read_datagram().await {
        if let Ok(frame) = RawFrame::of_datagram(&datagram) {
            drop(events.try_send(NetEvent::Datagram(frame)));
        }
    }
}

async fn accept_pushes(connection: Connection, events: mpsc::Sender<NetEvent>) {
    while let Ok(stream) = connection.accept_uni().await {
        let mut stream = FrameStream::new(stream);
        // One push stream at a time: a new one comes only after the old one ended.
        loop {
            match stream.next().await {
                Ok(Some(frame)) => {
                    if events.send(NetEvent::Frame(frame)).await.is_err() {
                        return;
                    }
                }
                Ok(None) | Err(StreamError::Broken(_)) => break,
                // Where it goes on nobody can tell: without the end of the connection nothing would ever come again.
                Err(StreamError::Wire(error)) => return fail(&connection, &error),
            }
        }
    }
}

async fn watch(live: Arc<Live>, events: mpsc::Sender<NetEvent>) {
    let reason = live.connection.closed().await;
    // Whoever says goodbye hears nothing of it any more.
    let was_given_up = matches!(reason, ConnectionError::LocallyClosed);
    let ended = if was_given_up { given_up(&live.address) } else { ended(&live.address, &reason) };
    // The engine may be gone already.
    drop(events.send(NetEvent::Closed(ended)).await);
}

/// Reads a page.
pub(super) async fn read_page(
    connection: Connection,
    group: GroupId,
    mut stream: FrameStream,
    events: mpsc::Sender<NetEvent>,
) {
    loop {
        let event = match stream.next().await {
            Ok(Some(frame)) => page_event(group, &frame),
            Ok(None) | Err(StreamError::Broken(_)) => Ok(NetEvent::PageFailed(group, None)),
            Err(StreamError::Wire(error)) => Err(error),
        };
        let event = match event {
            Ok(event) => event,
            // The same page would come in the same way again.
            Err(error) => return fail(&connection, &error),
        };
        let ends = !matches!(event, NetEvent::Rows(..));
        if events.send(event).await.is_err() || ends {
            return;
        }
    }
}

/// Reads a part of the list of groups.
pub(super) async fn read_list(connection: Connection, mut stream: FrameStream, events: mpsc::Sender<NetEvent>) {
    let event = match stream.next().await {
        Ok(Some(frame)) => list_event(&frame),
        Ok(None) | Err(StreamError::Broken(_)) => Ok(NetEvent::ListFailed),
        Err(StreamError::Wire(error)) => Err(error),
    };
    match event {
        // The engine may be gone already.
        Ok(event) => drop(events.send(event).await),
        Err(error) => fail(&connection, &error),
    }
}
