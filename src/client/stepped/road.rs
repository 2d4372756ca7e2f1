//! The network of a stepped client: it records what the engine asks of it, and cuts what comes into frames.
//!
//! Only one connection is there at a time, as only one is at a real client. Nothing here knows what frames mean.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::{ApplicationClose, ConnectionError, VarInt};
use tokio::sync::oneshot;

use super::EXPORTER;
use super::asked::{Asked, Closing, Dial};
use crate::client::connect::{ended, given_up};
use crate::client::error::ConnectError;
use crate::client::hello::{Flight, Who, accepts, list_bytes, page_bytes};
use crate::client::live::Live;
use crate::client::net::{self, Line, Net, NetEvent, list_event, page_event};
use crate::client::types::Session;
use crate::client::waiters::{Waiter, Waiters};
use crate::clock;
use crate::core::inbox::Pull;
use crate::ids::{ClientSeq, GroupId};
use crate::wire::WireError;
use crate::wire::code::Code;
use crate::wire::codec::{FrameReader, RawFrame, encode};
use crate::wire::frame::{self, Frame, Welcome};

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Hello has left.
    Calling,
    /// Welcome came.
    Accepted,
    /// It carries frames.
    Up,
}

/// What a request stream brings.
enum Question {
    Page(GroupId),
    List,
    /// The answer that a handle waits for, until it came.
    Handle(Option<oneshot::Sender<RawFrame>>),
}

struct Request {
    question: Question,
    reader: FrameReader,
    broken: bool,
}

/// The connection.
struct Open {
    attempt: u64,
    stage: Stage,
    address: String,
    gives_up: Instant,
    patience: Duration,
    control: FrameReader,
    push: FrameReader,
    requests: BTreeMap<u64, Request>,
    waiters: Waiters,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    open: Option<Open>,
    last_stream: u64,
    /// Something came that was not looked at.
    news: bool,
    /// The end of the connection, where it came from here: it is told as if the network had told it.
    closed: Option<ConnectError>,
}

/// A clone is another handle on the same network.
#[derive(Clone, Default)]
pub(super) struct Road(Arc<Mutex<State>>);

/// The connection of an attempt, as far as this stage. Where it got no further, it is over when this is dropped.
pub(super) struct Held {
    road: Road,
    attempt: u64,
    stage: Stage,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.road.state();
        if state.open.as_ref().is_some_and(|open| open.attempt == self.attempt && open.stage == self.stage) {
            state.close(0);
        }
    }
}

/// What the answer to Hello made of an attempt.
pub(super) type Dialled = Result<Box<(Welcome, Held)>, ConnectError>;

impl State {
    fn close(&mut self, code: u16) {
        if let Some(Open { attempt, .. }) = self.open.take() {
            self.asked.push(Asked::Close { attempt, code });
        }
    }

    /// Ends the connection because the server broke the protocol.
    fn fail(&mut self, error: &WireError) {
        let Some(open) = &self.open else { return };
        self.closed = Some(given_up(&open.address));
        self.close(error.code().number());
    }

    fn request(&mut self, question: Question) -> u64 {
        self.last_stream += 1;
        if let Some(open) = &mut self.open {
            let request = Request { question, reader: FrameReader::new(), broken: false };
            open.requests.insert(self.last_stream, request);
        }
        self.last_stream
    }

    fn ask(&mut self, question: Question, bytes: Result<Bytes, WireError>) {
        let Some(attempt) = self.open.as_ref().map(|open| open.attempt) else { return };
        let stream = self.request(question);
        match bytes {
            Ok(bytes) => self.asked.push(Asked::Request { attempt, stream, bytes }),
            // As at a real network: what could not be asked has failed.
            Err(_) => self.open.iter_mut().for_each(|open| open.break_request(stream)),
        }
    }

    fn dial(&mut self, attempt: u64, dial: net::Dial) {
        let net::Dial { server, key, who, first, options } = dial;
        let address = server.address;
        let Flight { control, acks, pages, list } = match Flight::new(&EXPORTER, &key, who, first) {
            Ok(flight) => flight,
            Err(error) => return self.closed = Some(ConnectError::NotGaggle { address, cause: error.to_string() }),
        };
        self.open = Some(Open {
            attempt,
            stage: Stage::Calling,
            address,
            gives_up: clock::monotonic() + options.connect_timeout,
            patience: options.connect_timeout,
            control: FrameReader::new(),
            push: FrameReader::new(),
            requests: BTreeMap::new(),
            waiters: Waiters::new(),
        });
        let pages = pages.into_iter().map(|(pull, bytes)| (Question::Page(pull.group), bytes));
        let questions = pages.chain(list.map(|bytes| (Question::List, bytes)));
        let requests = questions.map(|(question, bytes)| (self.request(question), bytes)).collect();
        self.asked.push(Asked::Dial(Dial { attempt, control, acks, requests }));
    }
}

impl Request {
    /// Reads what came; whether that was all.
    fn read(&mut self, events: &mut Vec<NetEvent>) -> Result<bool, WireError> {
        while let Some(frame) = self.reader.next_frame()? {
            let event = match &mut self.question {
                Question::Page(group) => page_event(*group, &frame)?,
                Question::List => list_event(&frame)?,
                Question::Handle(answer) => {
                    if let Some(answer) = answer.take() {
                        // Who asked may have stopped waiting.
                        drop(answer.send(frame));
                    }
                    return Ok(true);
                }
            };
            let over = !matches!(event, NetEvent::Rows(..));
            events.push(event);
            if over {
                return Ok(true);
            }
        }
        if self.broken {
            match self.question {
                Question::Page(group) => events.push(NetEvent::PageFailed(group, None)),
                Question::List => events.push(NetEvent::ListFailed),
                Question::Handle(_) => {}
            }
        }
        Ok(self.broken)
    }
}

impl Open {
    fn break_request(&mut self, stream: u64) {
        if let Some(request) = self.requests.get_mut(&stream) {
            request.broken = true;
        }
    }

    /// The answer to Hello, once it is there.
    fn answer(&mut self) -> Option<Result<Welcome, ConnectError>> {
        let frame = self.control.next_frame().transpose()?;
        let answer = frame.and_then(accepts).map(|accepted| accepted.map(|frame| frame.decode()));
        Some(match answer {
            Ok(Ok(Ok(welcome))) => Ok(welcome),
            Ok(Err(refusal)) => Err(ConnectError::Refused(refusal)),
            Ok(Ok(Err(error))) | Err(error) => {
                Err(ConnectError::NotGaggle { address: self.address.clone(), cause: error.to_string() })
            }
        })
    }

    /// Reads what came, stream by stream.
    fn read(&mut self, events: &mut Vec<NetEvent>) -> Result<(), WireError> {
        while let Some(frame) = self.control.next_frame()? {
            events.extend(self.waiters.route(frame));
        }
        while let Some(frame) = self.push.next_frame()? {
            events.push(NetEvent::Frame(frame));
        }
        let mut over = Vec::new();
        for (stream, request) in &mut self.requests {
            if request.read(events)? {
                over.push(*stream);
            }
        }
        over.iter().for_each(|stream| drop(self.requests.remove(stream)));
        Ok(())
    }
}

impl Road {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets this be done with the connection of this attempt; whether it is there.
    fn with(&self, attempt: u64, work: impl FnOnce(&mut Open)) -> bool {
        let mut state = self.state();
        let State { open, news, .. } = &mut *state;
        let known = open.as_mut().filter(|open| open.attempt == attempt).map(work).is_some();
        *news |= known;
        known
    }

    pub(super) fn control(&self, attempt: u64, bytes: &[u8]) -> bool {
        self.with(attempt, |open| open.control.push(bytes))
    }

    pub(super) fn push(&self, attempt: u64, bytes: &[u8]) -> bool {
        self.with(attempt, |open| open.push.push(bytes))
    }

    /// Lets this be done with a request stream; whether it is there.
    fn with_request(&self, stream: u64, work: impl FnOnce(&mut Request)) -> bool {
        let mut state = self.state();
        let State { open, news, .. } = &mut *state;
        let known = open.as_mut().and_then(|open| open.requests.get_mut(&stream)).map(work).is_some();
        *news |= known;
        known
    }

    pub(super) fn stream(&self, stream: u64, bytes: &[u8]) -> bool {
        self.with_request(stream, |request| request.reader.push(bytes))
    }

    pub(super) fn stream_broken(&self, stream: u64) -> bool {
        self.with_request(stream, |request| request.broken = true)
    }

    /// The connection is over; why, in the words of a client, where it was there.
    pub(super) fn closed(&self, attempt: u64, closing: Closing) -> Option<ConnectError> {
        let mut state = self.state();
        let open = state.open.take_if(|open| open.attempt == attempt)?;
        Some(ended(&open.address, &reason(closing)))
    }

    /// Whether something came, or happened here, that was not looked at.
    pub(super) fn has_news(&self) -> bool {
        let state = self.state();
        state.news || state.closed.is_some()
    }

    /// What came of an attempt; none while nothing did.
    pub(super) fn dialled(&self) -> Option<Dialled> {
        let mut state = self.state();
        state.news = false;
        if let Some(error) = state.closed.take() {
            return Some(Err(error));
        }
        let open = state.open.as_mut().filter(|open| open.stage == Stage::Calling)?;
        if let Some(welcome) = open.answer() {
            return Some(welcome.map(|welcome| {
                open.stage = Stage::Accepted;
                Box::new((welcome, Held { road: self.clone(), attempt: open.attempt, stage: Stage::Accepted }))
            }));
        }
        let (address, waited_ms) = (open.address.clone(), clock::whole_ms(open.patience));
        (clock::monotonic() >= open.gives_up).then_some(Err(ConnectError::NoAnswer { address, waited_ms }))
    }

    /// What came on a connection at work.
    pub(super) fn events(&self) -> Vec<NetEvent> {
        let mut state = self.state();
        let mut events = Vec::new();
        state.news = false;
        if let Some(open) = state.open.as_mut().filter(|open| open.stage == Stage::Up)
            && let Err(error) = open.read(&mut events)
        {
            state.fail(&error);
        }
        events.extend(state.closed.take().map(NetEvent::Closed));
        events
    }

    /// When an attempt is given up.
    pub(super) fn gives_up(&self) -> Option<Instant> {
        let state = self.state();
        state.open.as_ref().filter(|open| open.stage == Stage::Calling).map(|open| open.gives_up)
    }

    /// The attempt of the connection that is there, or tried.
    pub(super) fn attempt(&self) -> Option<u64> {
        self.state().open.as_ref().map(|open| open.attempt)
    }

    pub(super) fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }

    /// Asks on control as a handle does; none where there is no connection. With it the answer is gone.
    pub(super) fn ask<F: Frame>(&self, question: &F) -> Option<oneshot::Receiver<RawFrame>> {
        let mut state = self.state();
        let open = state.open.as_ref().filter(|open| open.stage == Stage::Up)?;
        let (answer, answered) = oneshot::channel();
        let request = open.waiters.register(Waiter::Question(answer));
        let (attempt, bytes) = (open.attempt, encode(request, question).ok()?);
        state.asked.push(Asked::Control { attempt, bytes });
        Some(answered)
    }

    /// The same on a stream of its own, where the answer is one frame.
    pub(super) fn look<F: Frame>(&self, question: &F) -> Option<oneshot::Receiver<RawFrame>> {
        let mut state = self.state();
        let open = state.open.as_ref().filter(|open| open.stage == Stage::Up)?;
        let (attempt, bytes) = (open.attempt, encode(1, question).ok()?);
        let (answer, answered) = oneshot::channel();
        let stream = state.request(Question::Handle(Some(answer)));
        state.asked.push(Asked::Request { attempt, stream, bytes });
        Some(answered)
    }
}

fn reason(closing: Closing) -> ConnectionError {
    match closing {
        Closing::ByServer { code, detail } => ConnectionError::ApplicationClosed(ApplicationClose {
            error_code: VarInt::from_u32(u32::from(code)),
            reason: detail.into(),
        }),
        Closing::Silence => ConnectionError::TimedOut,
        Closing::Reset => ConnectionError::Reset,
    }
}

impl Net for Road {
    type Attempt = Held;
    type Accepted = Held;
    type Line = Held;

    fn dial(&mut self, dial: net::Dial) -> Held {
        let attempt = match dial.who {
            Who::Device { attempt, .. } => attempt,
            Who::Operator => 0,
        };
        self.state().dial(attempt, dial);
        Held { road: self.clone(), attempt, stage: Stage::Calling }
    }

    fn start(&mut self, accepted: Held, _address: String, _session: Session) -> Held {
        let attempt = accepted.attempt;
        self.with(attempt, |open| open.stage = Stage::Up);
        Held { road: self.clone(), attempt, stage: Stage::Up }
    }
}

impl Line for Held {
    async fn send(&self, seq: ClientSeq, send: &frame::Send) -> Result<(), WireError> {
        let mut state = self.road.state();
        let Some(open) = &state.open else { return Ok(()) };
        let (attempt, bytes) = (open.attempt, open.waiters.ask_to_send(seq, send)?);
        state.asked.push(Asked::Control { attempt, bytes });
        Ok(())
    }

    async fn write_acks(&self, acks: &frame::Ack) -> Result<(), WireError> {
        let bytes = encode(0, acks)?;
        let mut state = self.road.state();
        if let Some(attempt) = state.open.as_ref().map(|open| open.attempt) {
            state.asked.push(Asked::Acks { attempt, bytes });
        }
        Ok(())
    }

    fn open_page(&self, pull: Pull) {
        self.road.state().ask(Question::Page(pull.group), page_bytes(pull));
    }

    fn open_list(&self, after: GroupId) {
        self.road.state().ask(Question::List, list_bytes(after));
    }

    fn fail(&self, error: &WireError) {
        self.road.state().fail(error);
    }

    async fn close(&self) {
        self.road.state().close(Code::Goodbye.number());
    }

    fn live(&self) -> Option<Arc<Live>> {
        None
    }
}
