//! What the server keeps of one identified connection: what waits to be written to it, and its listener.
//!
//! A session touches no stream: tasks of the connection take what waits here and write it. Everything is bounded:
//! answers by the places given out for requests, cursors and heads by being coalesced per group, pushes by credit.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::core::command::{Actor, Answer};
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits;
use crate::server::listening::Listening;
use crate::server::peer::Peer;
use crate::server::request::Outcome;
use crate::server::translate;
use crate::wire::code::Code;
use crate::wire::codec;
use crate::wire::frame::{AcksRefused, Cursors, Extensions, Frame};
use crate::wire::link::Link;

/// An identified connection.
pub(crate) struct Session {
    /// Counts sessions since the start.
    pub(crate) id: u64,
    /// Which device; none: the operator key.
    pub(crate) device: Option<DeviceId>,
    /// Whose; zero for the operator key.
    pub(crate) user: UserId,
    /// Whether it listens.
    pub(crate) listens: bool,
    /// Places for answers; one is taken by each request.
    pub(crate) places: Arc<Semaphore>,
    /// Wakes the task that writes the control stream.
    pub(crate) control_wake: Notify,
    /// Wakes the task that writes pushes.
    pub(crate) push_wake: Notify,
    peer: Box<dyn Peer>,
    control: Mutex<Control>,
    listening: Option<Mutex<Listening>>,
}

/// What waits for the control stream.
#[derive(Default)]
struct Control {
    answers: VecDeque<Waiting>,
    cursors: BTreeMap<GroupId, MessageId>,
    refused: BTreeMap<GroupId, u16>,
}

/// An encoded answer, with the place it holds until it is written.
pub(crate) struct Waiting {
    /// The frame.
    pub(crate) frame: Bytes,
    /// Given back when this is dropped.
    _place: Option<OwnedSemaphorePermit>,
}

impl Session {
    /// A session of a device.
    pub(crate) fn new(
        id: u64,
        device: Option<DeviceId>,
        user: UserId,
        peer: Box<dyn Peer>,
        listening: Option<Listening>,
    ) -> Session {
        Session {
            id,
            device,
            user,
            listens: listening.is_some(),
            places: Arc::new(Semaphore::new(limits::ANSWERS_QUEUED_MAX)),
            control_wake: Notify::new(),
            push_wake: Notify::new(),
            peer,
            control: Mutex::default(),
            listening: listening.map(Mutex::new),
        }
    }

    /// Who asks, for commands that operators may give too.
    pub(crate) fn actor(&self) -> Actor {
        self.device.map_or(Actor::Operator, Actor::Device)
    }

    /// Its user; none for the operator key.
    pub(crate) fn who(&self) -> Option<UserId> {
        self.device.map(|_| self.user)
    }

    /// The listener; none for callers.
    pub(crate) fn listening(&self) -> Option<MutexGuard<'_, Listening>> {
        self.listening.as_ref().map(|listening| listening.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Queues a frame for the control stream.
    pub(crate) fn queue(&self, frame: Bytes, place: Option<OwnedSemaphorePermit>) {
        self.control().answers.push_back(Waiting { frame, _place: place });
        self.control_wake.notify_one();
    }

    /// Answers a request that went to the writer.
    pub(crate) fn answer(
        &self,
        request: u32,
        outcome: Outcome,
        link: Option<Link>,
        place: Option<OwnedSemaphorePermit>,
    ) {
        match translate::answer(request, outcome, link) {
            Ok(frame) => self.queue(frame, place),
            Err(error) => {
                warn!(%error, "an answer does not fit a frame");
                self.close(Code::OutcomeUnknown);
            }
        }
    }

    /// Takes what became of acks: cursors and refusals, coalesced.
    pub(crate) fn acked(&self, outcome: Outcome) {
        let Outcome::Decided(Answer::Cursors { moved, refused }) = outcome else {
            // Not durable: the client acks again from what was answered, as its acks are cumulative.
            return;
        };
        self.cursors_moved(moved);
        self.refuse(refused.into_iter().map(|(group, why)| (group, translate::code(why).number())));
    }

    /// Notes where cursors of the device stand now.
    pub(crate) fn cursors_moved(&self, moved: Vec<(GroupId, MessageId)>) {
        if moved.is_empty() {
            return;
        }
        let mut control = self.control();
        for (group, msgid) in moved {
            let stands = control.cursors.entry(group).or_default();
            *stands = msgid.max(*stands);
        }
        drop(control);
        self.control_wake.notify_one();
    }

    /// Notes acks that are refused at once.
    pub(crate) fn refuse_acks(&self, groups: impl Iterator<Item = GroupId>, code: Code) {
        self.refuse(groups.map(|group| (group, code.number())));
    }

    /// The groups are whatever the peer named, so their number is bounded here: who reads none of it is closed.
    fn refuse(&self, refused: impl Iterator<Item = (GroupId, u16)>) {
        let mut control = self.control();
        control.refused.extend(refused);
        let is_flooded = control.refused.len() > limits::ACK_ENTRIES_MAX;
        drop(control);
        self.control_wake.notify_one();
        if is_flooded {
            self.close(Code::SlowDown);
        }
    }

    /// Queues a notice for a listener. One that reads none of them is closed, so that it comes back and asks anew.
    pub(crate) fn notice<F: Frame>(&self, frame: &F) {
        let Ok(bytes) = codec::encode(0, frame) else { return };
        let queued = self.listening().is_none_or(|mut listening| listening.notice(bytes));
        if queued {
            self.push_wake.notify_one();
        } else {
            self.close(Code::SlowDown);
        }
    }

    /// Everything that waits for the control stream; empty where nothing does.
    pub(crate) fn take_control(&self) -> Vec<Waiting> {
        let mut control = self.control();
        let mut waiting: Vec<Waiting> = control.answers.drain(..).collect();
        let cursors = std::mem::take(&mut control.cursors);
        let refused = std::mem::take(&mut control.refused);
        drop(control);
        for entries in chunks(cursors) {
            let frame = codec::encode(0, &Cursors { entries, extensions: Extensions::default() });
            waiting.extend(frame.into_iter().map(|frame| Waiting { frame, _place: None }));
        }
        for entries in chunks(refused) {
            let frame = codec::encode(0, &AcksRefused { entries, extensions: Extensions::default() });
            waiting.extend(frame.into_iter().map(|frame| Waiting { frame, _place: None }));
        }
        waiting
    }

    /// Closes the connection with this code.
    pub(crate) fn close(&self, code: Code) {
        self.peer.close(code);
    }

    /// Sends a datagram, which may be lost.
    pub(crate) fn tell(&self, datagram: Bytes) {
        self.peer.tell(datagram);
    }

    /// How long a packet takes to the other end of the connection and back.
    pub(crate) fn rtt(&self) -> Duration {
        self.peer.rtt()
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device {
            Some(device) => write!(out, "{} {device}", self.user),
            None => out.write_str("operator key"),
        }
    }
}

fn chunks<V: Copy>(entries: BTreeMap<GroupId, V>) -> Vec<Vec<(GroupId, V)>> {
    let entries: Vec<(GroupId, V)> = entries.into_iter().collect();
    entries.chunks(limits::ACK_ENTRIES_MAX).map(<[_]>::to_vec).collect()
}
