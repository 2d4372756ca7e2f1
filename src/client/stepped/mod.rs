//! A client whose every step and every frame somebody else schedules: for simulators.
//!
//! A [`Process`] is one process of a profile: the engine of [`super::Client`] and [`super::Listener`], its outbox, inbox
//! and their files, with the loop and the network taken away. It has no thread, no runtime, no socket, no randomness but
//! its seed's, and no time but what this thread's clock shows ([`crate::proof::time`]). Everything that it does on its
//! disk is done when the call returns. Several processes of a profile may be there at once, as at a real one: one that
//! listens, others that call.
//!
//! One turn of the loop is two calls: something comes in ([`Process::queue`], [`Process::control`] …), then
//! [`Process::advance`] does everything that can be done without waiting. What the process wants of its network is then in
//! [`Process::take_asked`]. Where `advance` is left out, it is made up for before the next thing comes in; between the
//! two a process may be killed, like anywhere else, by dropping it. [`Process::wakes_at_ms`] says when to call `advance`
//! although nothing came in.
//!
//! ```text
//! Process::open(setup) ── advance ── take_asked: Dial ── … ── control(attempt, Welcome) ── advance ── take_asked …
//! ```

mod asked;
mod road;
#[cfg(test)]
mod tests;
mod view;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use self::road::Road;
use crate::client::engine::{Command, Engine, LAST_ACKS, Parts, Seen};
use crate::client::error::{ConnectError, ListenError, OutboxError};
use crate::client::event::{Event, Subscription};
use crate::client::files::Files;
use crate::client::handle::{Outlet, listening, parts};
use crate::client::net::NetEvent;
use crate::client::options::ClientOptions;
use crate::client::profile::Profile;
use crate::client::say::Say;
use crate::client::sending::Queue;
use crate::client::types::{Outcome, Position};
use crate::clock;
use crate::ids::{ClientSeq, GroupId, Tag};
use crate::limits::BODY_BYTES_MAX;
use crate::proof::chance;
use crate::wire::codec::RawFrame;
use crate::wire::frame::Frame;
use crate::wire::proof::EXPORTER_BYTES;

pub use self::asked::{Asked, Closing, Dial};
pub use self::view::{Entry, Group, Outbox, enrol, outbox_on_disk, public_key};

/// The keying material of every simulated connection: what a device signs in Prove is about this.
pub const EXPORTER: [u8; EXPORTER_BYTES] = [0x5e; EXPORTER_BYTES];

/// What a process begins with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The profile, which holds a device: see [`enrol`].
    pub profile: Profile,
    /// What it listens to; none: it only calls.
    pub listens: Option<Subscription>,
    /// Of a listener, the last position that the application has with its own data.
    pub from: Option<Position>,
    /// The number of the process that Hello says: another one for each process.
    pub instance: u64,
    /// From which all its randomness follows.
    pub seed: u64,
    /// Times and sizes; `events_max` is the room of the queue of events.
    pub options: ClientOptions,
}

type Answer = oneshot::Receiver<Result<Outcome, OutboxError>>;

/// One process of a profile. Dropping it is a kill: what it wrote is there as far as the disk has it, its locks are
/// free, and nobody is told. See the module.
pub struct Process {
    /// None once it has ended in an orderly way.
    engine: Option<Engine<Road>>,
    road: Road,
    seen: watch::Receiver<Seen>,
    outlet: Option<Outlet>,
    answers: Vec<(ClientSeq, Answer)>,
    /// What handles have asked and have no answer to.
    questions: Vec<(u64, oneshot::Receiver<RawFrame>)>,
    /// Counts these.
    questions_asked: u64,
    chance: Option<chance::Source>,
    /// The second half of a turn is still to come.
    owed: bool,
    /// An orderly end has begun, and waits no longer than this.
    closing: Option<Instant>,
}

impl Process {
    /// A process starts with a profile. Nothing is done yet but what opening takes.
    ///
    /// # Errors
    /// As [`super::Client::open`] and [`super::Client::listen`].
    pub fn open(setup: Setup) -> Result<Process, ListenError> {
        let Setup { profile, listens, from, instance, seed, options } = setup;
        let mut chance = Some(chance::Source::new(seed));
        let opened = with(&mut chance, || match listens {
            Some(what) => listening(Files::Here, &profile, options, what, from).map(|(parts, end)| (parts, Some(end))),
            None => Ok((parts(Files::Here, &profile, options)?, None)),
        });
        let (parts, outlet) = opened?;
        let road = Road::default();
        let (shown, seen) = watch::channel(Seen::default());
        let engine = Engine::new(Parts { instance, ..parts }, road.clone(), shown);
        Ok(Process {
            engine: Some(engine),
            road,
            seen,
            outlet,
            answers: Vec::new(),
            questions: Vec::new(),
            questions_asked: 0,
            chance,
            owed: true,
            closing: None,
        })
    }

    // ---- the application --------------------------------------------------------------------------------------------

    /// As [`super::Client::queue`], with the tag that a real client draws.
    ///
    /// # Errors
    /// As [`super::Client::queue`].
    pub fn queue(&mut self, group: GroupId, tag: Tag, text: &str) -> Result<ClientSeq, OutboxError> {
        self.say(group, tag, &Say::text(text))
    }

    /// As [`super::Client::say`], with the tag that a real client draws.
    ///
    /// # Errors
    /// As [`super::Client::say`].
    pub fn say(&mut self, group: GroupId, tag: Tag, what: &Say) -> Result<ClientSeq, OutboxError> {
        let payload = what.payload(tag, BODY_BYTES_MAX)?;
        let (reply, mut answer) = oneshot::channel();
        self.obey(Command::Queue(Queue { group, tag, payload, reply }));
        answer.try_recv().unwrap_or(Err(OutboxError::Closed))
    }

    /// Begins to wait for an outcome, as [`super::Client::outcome`] does: see [`Process::take_outcomes`].
    pub fn await_outcome(&mut self, seq: ClientSeq) {
        let (reply, answer) = oneshot::channel();
        self.obey(Command::Outcome(seq, reply));
        self.answers.push((seq, answer));
    }

    /// The outcomes that were waited for and have come since the last call, by the numbers that were asked for.
    pub fn take_outcomes(&mut self) -> Vec<(ClientSeq, Result<Outcome, OutboxError>)> {
        let mut come = Vec::new();
        self.answers.retain_mut(|(seq, answer)| match answer.try_recv() {
            Ok(outcome) => {
                come.push((*seq, outcome));
                false
            }
            Err(oneshot::error::TryRecvError::Empty) => true,
            Err(oneshot::error::TryRecvError::Closed) => {
                come.push((*seq, Err(OutboxError::Closed)));
                false
            }
        });
        come
    }

    /// Asks on control, as handles ask what changes something; none where there is no connection. The number is that of
    /// the answer in [`Process::take_answers`].
    pub fn ask<F: Frame>(&mut self, question: &F) -> Option<u64> {
        let answer = self.road.ask(question)?;
        Some(self.await_answer(answer))
    }

    /// Asks on a stream of its own, as handles ask what reads and is answered by one frame.
    pub fn look<F: Frame>(&mut self, question: &F) -> Option<u64> {
        let answer = self.road.look(question)?;
        Some(self.await_answer(answer))
    }

    fn await_answer(&mut self, answer: oneshot::Receiver<RawFrame>) -> u64 {
        self.questions_asked += 1;
        self.questions.push((self.questions_asked, answer));
        self.questions_asked
    }

    /// The answers that have come since the last call; none for each whose connection ended before.
    pub fn take_answers(&mut self) -> Vec<(u64, Option<RawFrame>)> {
        let mut come = Vec::new();
        self.questions.retain_mut(|(number, answer)| match answer.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => true,
            answered => {
                come.push((*number, answered.ok()));
                false
            }
        });
        come
    }

    /// The events that are there, at most so many; none from one that only calls.
    pub fn take_events(&mut self, max: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.outlet.as_mut()?.try_next()).take(max).collect()
    }

    /// As [`super::Listener::ack`].
    pub fn ack(&mut self, position: Position) {
        if let Some(outlet) = &self.outlet {
            outlet.ack(position);
        }
    }

    fn obey(&mut self, command: Command) {
        if self.closing.is_some() {
            return;
        }
        self.settle_debt();
        self.with_engine(async |engine| drop(engine.obey(vec![command]).await));
        self.owed = true;
    }

    // ---- the network ------------------------------------------------------------------------------------------------

    /// What the process wants of its network, in order, since the last call.
    pub fn take_asked(&mut self) -> Vec<Asked> {
        self.road.take_asked()
    }

    /// Bytes came on control: whole frames or pieces of them. The first is the answer to Hello. What comes for a
    /// connection that is over is not heard.
    pub fn control(&mut self, attempt: u64, bytes: &Bytes) {
        self.settle_debt();
        if self.road.control(attempt, bytes) {
            self.hear();
        }
    }

    /// Bytes came on the push stream.
    pub fn push(&mut self, attempt: u64, bytes: &Bytes) {
        self.settle_debt();
        if self.road.push(attempt, bytes) {
            self.hear();
        }
    }

    /// Bytes came on a request stream.
    pub fn stream(&mut self, stream: u64, bytes: &Bytes) {
        self.settle_debt();
        if self.road.stream(stream, bytes) {
            self.hear();
        }
    }

    /// A request stream ended without more.
    pub fn stream_broken(&mut self, stream: u64) {
        self.settle_debt();
        if self.road.stream_broken(stream) {
            self.hear();
        }
    }

    /// The connection has ended, or an attempt has failed.
    pub fn closed(&mut self, attempt: u64, closing: Closing) {
        self.settle_debt();
        let connecting = self.engine.as_ref().is_some_and(Engine::is_connecting);
        match self.road.closed(attempt, closing) {
            Some(error) if connecting => self.dialled(Err(error)),
            Some(error) => self.happened(vec![NetEvent::Closed(error)]),
            None => {}
        }
    }

    fn hear(&mut self) {
        if self.engine.as_ref().is_some_and(Engine::is_connecting) {
            if let Some(dialled) = self.road.dialled() {
                self.dialled(dialled);
            }
        } else {
            let events = self.road.events();
            self.happened(events);
        }
    }

    fn dialled(&mut self, dialled: road::Dialled) {
        self.run(async |engine| engine.connected(dialled).await);
        self.owed = true;
    }

    fn happened(&mut self, events: Vec<NetEvent>) {
        if events.is_empty() {
            return;
        }
        if self.closing.is_some() && events.iter().any(|event| matches!(event, NetEvent::Closed(_))) {
            return self.leave();
        }
        let result = self.with_engine(async |engine| engine.happened(events).await);
        if self.closing.is_some() {
            // What cannot be taken in any more is taken in by the next process.
            return self.leave_in_time();
        }
        if let Some(Err(error)) = result {
            self.with_engine(async |engine| engine.end(error).await);
        }
        self.owed = true;
    }

    // ---- time -------------------------------------------------------------------------------------------------------

    /// When [`Process::advance`] has something to do by itself, in ms of the clock that never goes back; that may be now.
    /// None: it has ended in an orderly way.
    #[must_use]
    pub fn wakes_at_ms(&self) -> Option<u64> {
        let engine = self.engine.as_ref()?;
        let now_ms = clock::monotonic_ms();
        if let Some(deadline) = self.closing {
            return Some(in_ms(now_ms, deadline));
        }
        if self.owed || self.road.has_news() || engine.is_stirred() {
            return Some(now_ms);
        }
        let at = self.road.gives_up().into_iter().chain([engine.wakes_at()]).min()?;
        Some(in_ms(now_ms, at))
    }

    /// Everything that can be done without waiting: after something came in, after the application took or acknowledged
    /// something, and when time has passed.
    pub fn advance(&mut self) {
        if self.closing.is_some() {
            return self.leave_in_time();
        }
        self.step();
        while self.road.has_news() || self.road.gives_up().is_some_and(|at| at <= clock::monotonic()) {
            self.hear();
            if self.closing.is_some() || !std::mem::take(&mut self.owed) {
                return;
            }
            self.step();
        }
    }

    fn step(&mut self) {
        self.owed = false;
        self.run(async |engine| engine.advance().await);
    }

    fn settle_debt(&mut self) {
        if self.owed && self.closing.is_none() {
            self.advance();
        }
    }

    // ---- the end ----------------------------------------------------------------------------------------------------

    /// Begins an orderly end, as [`super::Client::close`]: what was acknowledged is told to the server. Schedule what it
    /// asks and what comes until [`Process::is_over`]; it waits 2 s at most.
    pub fn close(&mut self) {
        if self.closing.is_some() {
            return;
        }
        self.settle_debt();
        self.closing = Some(clock::monotonic() + LAST_ACKS);
        self.with_engine(async |engine| engine.close().await);
        self.leave_in_time();
    }

    fn leave_in_time(&mut self) {
        let waits = self.engine.as_ref().is_some_and(Engine::waits_for_last_answer);
        if !waits || self.closing.is_some_and(|deadline| deadline <= clock::monotonic()) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.with_engine(async |engine| engine.leave().await);
        self.engine = None;
    }

    /// Runs a step; what it fails with ends the process's work for good.
    fn run(&mut self, step: impl AsyncFnOnce(&mut Engine<Road>) -> Result<(), ConnectError>) {
        self.with_engine(async |engine| {
            if let Err(error) = step(engine).await {
                engine.end(error).await;
            }
        });
    }

    /// Lets this be done with the engine, with the randomness of this process.
    fn with_engine<T>(&mut self, work: impl AsyncFnOnce(&mut Engine<Road>) -> T) -> Option<T> {
        let engine = self.engine.as_mut()?;
        Some(with(&mut self.chance, || at_once(work(engine))))
    }
}

/// Does this with this source of randomness.
fn with<T>(source: &mut Option<chance::Source>, work: impl FnOnce() -> T) -> T {
    let outer = chance::swap(source.take());
    let done = work();
    *source = chance::swap(outer);
    done
}

/// The result of what waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut waits = false;
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
        assert!(!waits, "a step of a stepped client waited for something");
        waits = true;
    }
}

/// A point of the clock that never goes back in whole ms of it, not before that point.
fn in_ms(now_ms: u64, at: Instant) -> u64 {
    let left = at.saturating_duration_since(clock::monotonic());
    now_ms + u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
