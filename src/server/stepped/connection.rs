//! One connection of a stepped server: what has come on its streams, and the machines that take it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future as _;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use crate::core::command::Command;
use crate::server::Shared;
use crate::server::admission::Permit;
use crate::server::answering::Answering;
use crate::server::peer::Peer;
use crate::server::pushing::Pushing;
use crate::server::request::{Outcome, Reply, has_places};
use crate::server::session::Session;
use crate::wire::code::Code;
use crate::wire::codec::{FrameReader, RawFrame};

/// The round trip of every connection.
const RTT: Duration = Duration::from_millis(50);

/// The other end of a connection, as its session knows it.
#[derive(Default)]
pub(super) struct Line {
    closed: Mutex<Option<Code>>,
}

impl Line {
    pub(super) fn is_closed(&self) -> Option<Code> {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's handle on its [`Line`].
pub(super) struct Handle(pub(super) Arc<Line>);

impl Peer for Handle {
    fn close(&self, code: Code) {
        self.0.closed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(code);
    }

    /// Nothing that is promised depends on a datagram: all are lost here.
    fn tell(&self, _: Bytes) {}

    fn rtt(&self) -> Duration {
        RTT
    }
}

/// A stream from the peer, cut into frames; a fault comes in its place among them.
#[derive(Default)]
pub(super) struct Incoming {
    reader: FrameReader,
    frames: VecDeque<Result<RawFrame, Code>>,
    has_failed: bool,
}

impl Incoming {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
        while !self.has_failed {
            match self.reader.next_frame() {
                Ok(Some(frame)) => self.frames.push_back(Ok(frame)),
                Ok(None) => break,
                Err(error) => {
                    self.has_failed = true;
                    self.frames.push_back(Err(error.code()));
                }
            }
        }
    }

    pub(super) fn next(&self) -> Option<&Result<RawFrame, Code>> {
        self.frames.front()
    }

    pub(super) fn take(&mut self) -> Option<Result<RawFrame, Code>> {
        self.frames.pop_front()
    }
}

/// How far a connection has come.
pub(super) enum Stage {
    /// It has not said who it is.
    Arrived,
    /// It wants to be enrolled by this request.
    Enrolling { request: u32, answer: oneshot::Receiver<Outcome> },
    /// It is served.
    Served(Arc<Session>),
}

/// A request stream.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) incoming: Incoming,
    /// None until its request was taken.
    pub(super) answering: Option<Answering>,
    /// Something is to be written next.
    pub(super) writes: bool,
}

/// One connection.
pub(super) struct Connection {
    pub(super) line: Arc<Line>,
    pub(super) permit: Permit,
    pub(super) stage: Stage,
    /// A proof follows its Hello, if it is sent at all: nothing is checked of it.
    pub(super) proof_may_come: bool,
    pub(super) control: Incoming,
    pub(super) acks: Incoming,
    /// Commands that found the writer's queue full: of the control stream, of the acks stream.
    pub(super) held: [Option<(Command, Reply)>; 2],
    /// Whether those wait until what they want to know is read.
    pub(super) attaching: [bool; 2],
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) pushing: Pushing,
    /// What the tasks that write would have been woken by.
    pub(super) push_woken: bool,
    pub(super) control_woken: bool,
    /// When the listener is to hear that time has passed.
    pub(super) tick_at: Option<Instant>,
    /// The peer was told that the connection is closed, or it is gone itself.
    pub(super) is_told: bool,
}

/// Which stream of commands.
pub(super) const CONTROL: usize = 0;
/// Which stream of commands.
pub(super) const ACKS: usize = 1;

impl Connection {
    pub(super) fn new(permit: Permit) -> Connection {
        Connection {
            line: Arc::default(),
            permit,
            stage: Stage::Arrived,
            proof_may_come: false,
            control: Incoming::default(),
            acks: Incoming::default(),
            held: [None, None],
            attaching: [false, false],
            streams: BTreeMap::new(),
            pushing: Pushing::default(),
            push_woken: true,
            control_woken: true,
            tick_at: None,
            is_told: false,
        }
    }

    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        match &self.stage {
            Stage::Served(session) => Some(session),
            Stage::Arrived | Stage::Enrolling { .. } => None,
        }
    }

    /// Ends it with this code.
    pub(super) fn close(&self, code: Code) {
        Handle(Arc::clone(&self.line)).close(code);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.line.is_closed().is_some()
    }

    /// Whether a frame of the control stream can be taken: there is a place for its answer, and the one before it found a
    /// place in the writer's queue.
    pub(super) fn takes_control(&self) -> bool {
        match (&self.stage, self.control.next()) {
            (Stage::Enrolling { .. }, _) | (_, None) => false,
            (Stage::Arrived, Some(_)) | (_, Some(Err(_))) => true,
            (Stage::Served(session), Some(Ok(raw))) => {
                self.held[CONTROL].is_none() && has_places(&session.places, raw.body.len())
            }
        }
    }

    /// Whether the command held of this stream has to wait until what it wants to know is read.
    pub(super) fn set_attaching(&mut self, stream: usize, waits: bool) {
        self.attaching.get_mut(stream).into_iter().for_each(|attaching| *attaching = waits);
    }

    /// Whether a command that was held can be handed over.
    pub(super) fn submits(&self, shared: &Shared) -> bool {
        let held = self.held.iter().zip(self.attaching).filter(|(_, attaching)| !attaching);
        held.filter_map(|(held, _)| held.as_ref()).any(|(command, _)| shared.commands.has_place(command))
    }

    /// Hands over what the writer's queue has places for.
    pub(super) fn submit(&mut self, shared: &Shared) {
        for (held, _) in self.held.iter_mut().zip(self.attaching).filter(|(_, attaching)| !attaching) {
            if let Some((command, reply)) = held.take_if(|(command, _)| shared.commands.has_place(command)) {
                shared.commands.submit_now(command, reply);
            }
        }
    }

    /// Notes what the tasks that write would be woken by.
    pub(super) fn notice_wakes(&mut self) {
        let Stage::Served(session) = &self.stage else { return };
        self.push_woken |= was_notified(&session.push_wake);
        self.control_woken |= was_notified(&session.control_wake);
    }
}

/// Whether somebody was to be woken; takes note of it.
fn was_notified(wake: &Notify) -> bool {
    pin!(wake.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
