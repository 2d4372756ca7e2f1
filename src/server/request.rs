//! A command on its way to the writer, and the promise that it is answered.
//!
//! Whoever drops a [`Reply`] without giving it answers *outcome unknown* by that, so that no client ever waits for
//! something that was lost inside the server.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::core::command::{Answer, Command, SendCommand};
use crate::limits;
use crate::server::session::Session;
use crate::wire::code::Code;
use crate::wire::link::Link;

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was decided, and the decision is durable.
    Decided(Answer),
    /// It was not decided, or nobody knows.
    Failed(Code),
}

/// A command for the writer.
pub(crate) struct Request {
    /// What is asked.
    pub(crate) command: Command,
    /// Who is told.
    pub(crate) reply: Reply,
    /// The place it takes in the queue; given back when the writer takes it out.
    place: Option<OwnedSemaphorePermit>,
}

impl Request {
    /// A command that takes no place in a queue.
    #[cfg(test)]
    pub(crate) fn new(command: Command, reply: Reply) -> Request {
        Request { command, reply, place: None }
    }

    /// Takes it apart, giving its place in the queue to the next.
    pub(crate) fn open(self) -> (Command, Reply) {
        drop(self.place);
        (self.command, self.reply)
    }
}

/// Where an answer goes.
pub(crate) enum Recipient {
    /// A request on a control stream.
    Control {
        /// Whose.
        session: Arc<Session>,
        /// The request's number.
        request: u32,
        /// The link that an invite's answer carries: the store keeps only the hash of its code.
        link: Option<Link>,
        /// The place among the session's answers.
        place: Option<OwnedSemaphorePermit>,
    },
    /// Acks, which are answered for all groups at once and never as a request.
    Acks(Arc<Session>),
    /// The server itself.
    Local(oneshot::Sender<Outcome>),
}

/// The promise of an answer.
pub(crate) struct Reply(Option<Recipient>);

impl Reply {
    /// Promises an answer to this recipient.
    pub(crate) fn to(recipient: Recipient) -> Reply {
        Reply(Some(recipient))
    }

    /// Nobody waits for an answer.
    pub(crate) fn none() -> Reply {
        Reply(None)
    }

    /// Gives the answer.
    pub(crate) fn give(mut self, outcome: Outcome) {
        if let Some(recipient) = self.0.take() {
            hand_over(recipient, outcome);
        }
    }

    /// The session, where this promises the answer to acks; the promise is then kept by whoever took it.
    pub(crate) fn take_acks(mut self) -> Result<Arc<Session>, Reply> {
        match self.0.take() {
            Some(Recipient::Acks(session)) => Ok(session),
            other => Err(Reply(other)),
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(recipient) = self.0.take() {
            hand_over(recipient, Outcome::Failed(Code::OutcomeUnknown));
        }
    }
}

fn hand_over(recipient: Recipient, outcome: Outcome) {
    match recipient {
        Recipient::Control { session, request, link, place } => session.answer(request, outcome, link, place),
        Recipient::Acks(session) => session.acked(outcome),
        Recipient::Local(sender) => {
            // The asker may have gone; then nobody wants to know.
            drop(sender.send(outcome));
        }
    }
}

/// Places that something with a body of so many bytes takes in a queue: one, and one for each KiB.
pub(crate) fn places_of(body_bytes: usize) -> u32 {
    u32::try_from(body_bytes / 1024).unwrap_or(u32::MAX).saturating_add(1)
}

/// Whether something with a body of so many bytes finds its places free.
#[cfg(feature = "proof")]
pub(crate) fn has_places(places: &Semaphore, body_bytes: usize) -> bool {
    u32::try_from(places.available_permits()).unwrap_or(u32::MAX) >= places_of(body_bytes)
}

fn body_bytes(command: &Command) -> usize {
    if let Command::Send(SendCommand { what: Ok(what), .. }) = command { what.body.len() } else { 0 }
}

/// The way to the writer: bounded, and full means that the sender of a command waits, not the runtime.
pub(crate) struct Commands {
    /// None once the server stops.
    sender: Mutex<Option<Sender<Request>>>,
    places: Arc<Semaphore>,
}

impl Commands {
    /// A way to the writer, and the writer's end of it.
    pub(crate) fn new() -> (Commands, Receiver<Request>) {
        let (sender, receiver) = crossbeam_channel::bounded(limits::COMMANDS_QUEUED_MAX);
        (
            Commands {
                sender: Mutex::new(Some(sender)),
                places: Arc::new(Semaphore::new(limits::COMMANDS_QUEUED_MAX)),
            },
            receiver,
        )
    }

    /// Hands a command to the writer, waiting for a place where the channel is full. A writer that is gone answers
    /// by the dropped promise.
    pub(crate) async fn submit(&self, command: Command, reply: Reply) {
        let place = Arc::clone(&self.places).acquire_many_owned(places_of(body_bytes(&command))).await.ok();
        self.hand_over(command, reply, place);
    }

    /// Whether [`Commands::submit`] would not have to wait.
    #[cfg(feature = "proof")]
    pub(crate) fn has_place(&self, command: &Command) -> bool {
        has_places(&self.places, body_bytes(command))
    }

    /// The same where there is a place, without waiting.
    #[cfg(feature = "proof")]
    pub(crate) fn submit_now(&self, command: Command, reply: Reply) {
        let place = Arc::clone(&self.places).try_acquire_many_owned(places_of(body_bytes(&command))).ok();
        self.hand_over(command, reply, place);
    }

    fn hand_over(&self, command: Command, reply: Reply, place: Option<OwnedSemaphorePermit>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match sender {
            // There are as many places as the channel holds, so this fails only where the writer is gone.
            Some(sender) => drop(sender.try_send(Request { command, reply, place })),
            None => reply.give(Outcome::Failed(Code::ServerStopping)),
        }
    }

    /// Takes no more commands; the writer finishes those it has.
    pub(crate) fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Hands a command to the writer and waits for what becomes of it.
    pub(crate) async fn ask(&self, command: Command) -> Outcome {
        let (sender, receiver) = oneshot::channel();
        self.submit(command, Reply::to(Recipient::Local(sender))).await;
        receiver.await.unwrap_or(Outcome::Failed(Code::OutcomeUnknown))
    }
}
