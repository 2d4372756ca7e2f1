//! A connection that the server has accepted: questions and their answers, and the tasks that move frames.
//!
//! The tasks know nothing of what frames mean; they hand them to the engine through one bounded queue and stop reading
//! while it is full, so that a slow application slows the server down and not this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, Endpoint, SendStream, VarInt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::client::connect::ended;
use crate::client::error::{ConnectError, Refusal};
use crate::client::stream::{FrameStream, StreamError, ask, refusal};
use crate::client::types::Session;
use crate::core::inbox::{PageEnd, Pull};
use crate::ids::{ClientSeq, GroupId};
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::code::Code;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Extensions, Frame};
use crate::wire::{WireError, codec};

/// Frames that wait for one stream's writer.
const WRITES_QUEUED_MAX: usize = 64;

/// A goodbye leaves at once; whether it arrives is not waited for.
const GOODBYE: Duration = Duration::from_millis(5);

/// What happens on a connection, for the engine.
#[derive(Debug)]
pub(super) enum NetEvent {
    /// An answer to a send.
    SendAnswered(ClientSeq, RawFrame),
    /// A frame that answers nothing, on control or push.
    Frame(RawFrame),
    /// Rows of the open page of a group.
    Rows(GroupId, Bytes),
    /// The open page of a group is complete.
    PageEnded(GroupId, PageEnd),
    /// The open page of a group failed.
    PageFailed(GroupId, Option<Refusal>),
    /// A part of the list of groups.
    Listed(frame::GroupList),
    /// The list of groups could not be had.
    ListFailed,
    /// The connection is over.
    Closed(ConnectError),
}

/// Who waits for an answer on control.
enum Waiter {
    Question(oneshot::Sender<RawFrame>),
    Send(ClientSeq),
}

/// Forgets who waits for an answer that nobody will take any more.
struct Forgets<'a> {
    live: &'a Live,
    request: u32,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        drop(self.live.waiter(self.request));
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
    waiters: Mutex<HashMap<u32, Waiter>>,
    next_request: AtomicU32,
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
        let live = Arc::new(Live {
            connection,
            session,
            address,
            endpoint,
            control,
            acks,
            waiters: Mutex::default(),
            next_request: AtomicU32::new(2),
        });
        tasks.spawn(read_control(Arc::clone(&live), streams.control.1, events.clone()));
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

    fn register(&self, waiter: Waiter) -> u32 {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let request = self.next_request.fetch_add(1, Ordering::Relaxed);
            if request > 1 && !waiters.contains_key(&request) {
                waiters.insert(request, waiter);
                return request;
            }
        }
    }

    fn waiter(&self, request: u32) -> Option<Waiter> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&request)
    }

    /// Asks on control.
    pub(super) async fn ask<F: Frame>(&self, question: &F) -> Result<RawFrame, AskError> {
        let (answer, answered) = oneshot::channel();
        let request = self.register(Waiter::Question(answer));
        // Who asks may stop waiting at any point.
        let _forgets = Forgets { live: self, request };
        let bytes = codec::encode(request, question).map_err(AskError::Wire)?;
        if self.control.send(bytes).await.is_err() {
            return Err(AskError::NotAsked(self.ending()));
        }
        tokio::select! {
            biased;
            answer = answered => answer.map_err(|_| AskError::Lost(self.ending().to_string())),
            _ = self.connection.closed() => Err(AskError::Lost(self.ending().to_string())),
        }
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
        let request = self.register(Waiter::Send(seq));
        let bytes = codec::encode(request, send).inspect_err(|_| drop(self.waiter(request)))?;
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

    /// Why the connection is over, or would be.
    fn ending(&self) -> ConnectError {
        self.connection.close_reason().map_or(ConnectError::Closed, |reason| ended(&self.address, &reason))
    }

    /// Says goodbye, and waits a moment for it to leave.
    pub(super) async fn close(&self) {
        self.connection.close(VarInt::from_u32(u32::from(Code::Goodbye.number())), b"");
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
        let event = match (frame.request, live.waiter(frame.request)) {
            (_, Some(Waiter::Question(answer))) => {
                // Who asked may have stopped waiting.
                drop(answer.send(frame));
                continue;
            }
            (_, Some(Waiter::Send(seq))) => NetEvent::SendAnswered(seq, frame),
            (0, None) => NetEvent::Frame(frame),
            (_, None) => continue,
        };
        if events.send(event).await.is_err() {
            return;
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
    // The engine may be gone already.
    drop(events.send(NetEvent::Closed(ended(&live.address, &reason))).await);
}

/// Asks for a page and reads it.
pub(super) async fn deliver(connection: Connection, pull: Pull, events: mpsc::Sender<NetEvent>) {
    match ask(&connection, &page_of(pull)).await {
        Ok(stream) => read_page(connection, pull.group, stream, events).await,
        Err(_) => drop(events.send(NetEvent::PageFailed(pull.group, None)).await),
    }
}

/// The frame that asks for a page to deliver: a large one, so that whoever is far away catches up with a busy group.
pub(super) fn page_of(pull: Pull) -> frame::Pull {
    frame::Pull {
        gid: pull.group,
        after: pull.after,
        items: PAGE_ITEMS_MAX,
        deliver: true,
        extensions: Extensions::default(),
    }
}

async fn read_page(connection: Connection, group: GroupId, mut stream: FrameStream, events: mpsc::Sender<NetEvent>) {
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

fn page_event(group: GroupId, frame: &RawFrame) -> Result<NetEvent, WireError> {
    if frame.kind == frame::PageRows::TYPE {
        return Ok(NetEvent::Rows(group, frame.decode::<frame::PageRows>()?.rows));
    }
    if let Some(refusal) = refusal(frame)? {
        return Ok(NetEvent::PageFailed(group, Some(refusal)));
    }
    let frame::PageEnd { covered_to, more, gone, head, extensions: _ } = frame.decode()?;
    Ok(NetEvent::PageEnded(group, PageEnd { covered_to, more, gone, head }))
}

/// Asks for groups above this one and reads the answer.
pub(super) async fn list(connection: Connection, after: GroupId, events: mpsc::Sender<NetEvent>) {
    let question = frame::ListGroups { after, extensions: Extensions::default() };
    match ask(&connection, &question).await {
        Ok(stream) => read_list(connection, stream, events).await,
        Err(_) => drop(events.send(NetEvent::ListFailed).await),
    }
}

async fn read_list(connection: Connection, mut stream: FrameStream, events: mpsc::Sender<NetEvent>) {
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

fn list_event(frame: &RawFrame) -> Result<NetEvent, WireError> {
    if refusal(frame)?.is_some() {
        return Ok(NetEvent::ListFailed);
    }
    Ok(NetEvent::Listed(frame.decode()?))
}
