//! What is behind a client: steps for what is asked of it, what the network brings, and time.
//!
//! It owns the connection, connects again after a failure, and feeds [`Sending`] and [`Receiving`]. A task loops over the
//! steps ([`Engine::run`]) until all handles are gone. Whatever ends a client for good (replaced, revoked, another history, an inbox that cannot be
//! written) is told once, to everybody who waits and to all who ask later.

mod events;
mod link;
#[cfg(feature = "proof")]
mod looks;
mod run;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::signature::Ed25519KeyPair;
use tokio::sync::{oneshot, watch};

use crate::client::backoff::Backoff;
use crate::client::connect::Server;
use crate::client::error::{ConnectError, OutboxError, ProfileError, Refusal};
use crate::client::files::Files;
use crate::client::live::Live;
use crate::client::net::{Line, Net};
use crate::client::options::ClientOptions;
use crate::client::profile::Profile;
use crate::client::receiving::Receiving;
use crate::client::sending::{Queue, Sending};
use crate::client::types::{Account, OutboxEntry, Outcome};
use crate::clock;
use crate::ids::ClientSeq;
use crate::wire::WireError;

/// A group that is asked for is listed at most this often.
const LIST_PAUSE: Duration = Duration::from_millis(500);
/// How long a closing client waits for the answer to its last acks.
pub(in crate::client) const LAST_ACKS: Duration = Duration::from_secs(2);
/// Someone who asks makes a waiting client connect, but not more often than this.
const ASKED_PAUSE: Duration = Duration::from_millis(200);

/// What a handle asks of the engine.
pub(super) enum Command {
    /// There should be a connection.
    Connect,
    /// A message for the outbox.
    Queue(Queue),
    /// An outcome is waited for.
    Outcome(ClientSeq, oneshot::Sender<Result<Outcome, OutboxError>>),
    /// What does the outbox hold?
    Outbox(oneshot::Sender<Result<Vec<OutboxEntry>, OutboxError>>),
    /// Tell when nothing is unanswered.
    Drained(oneshot::Sender<()>),
    /// Take an entry out of the outbox.
    Withdraw(ClientSeq, oneshot::Sender<Result<(), OutboxError>>),
    /// End.
    Close(oneshot::Sender<()>),
}

/// What handles see of the engine.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The connection, where there is one.
    pub(super) live: Option<Arc<Live>>,
    /// How often connecting has failed or a connection was lost.
    pub(super) failures: u64,
    /// The last failure.
    pub(super) trouble: Option<ConnectError>,
    /// Why the server took none of the last sends for now.
    pub(super) held: Option<Refusal>,
    /// It is over.
    pub(super) ended: Option<ConnectError>,
}

/// Who the engine works for.
pub(super) enum Identity {
    /// A device.
    Device { profile: Profile, account: Account },
    /// The holder of the operator key.
    Operator { server: Server },
}

enum Link<N: Net> {
    /// No connection; the next attempt, if one is wanted, not before this.
    Down(Instant),
    /// One attempt.
    Connecting(N::Attempt),
    Up {
        line: N::Line,
        since: Instant,
    },
}

/// See the module.
pub(super) struct Engine<N: Net> {
    pub(super) net: N,
    files: Files,
    identity: Identity,
    key: Arc<Ed25519KeyPair>,
    options: ClientOptions,
    instance: u64,
    attempt: u64,
    pub(super) sending: Option<Sending>,
    pub(super) receiving: Option<Receiving>,
    seen: watch::Sender<Seen>,
    link: Link<N>,
    backoff: Backoff,
    /// Somebody wants a connection.
    wanted: bool,
    polled: Instant,
    /// When it was last looked what is due.
    looked_ms: u64,
    listed: Option<Instant>,
    listing: bool,
    /// An orderly end has begun, and the application's acks were taken in.
    told_all: bool,
}

/// What the engine begins with.
pub(super) struct Parts {
    pub(super) files: Files,
    pub(super) identity: Identity,
    pub(super) key: Ed25519KeyPair,
    pub(super) options: ClientOptions,
    pub(super) instance: u64,
    pub(super) sending: Option<Sending>,
    pub(super) receiving: Option<Receiving>,
}

impl<N: Net> Engine<N> {
    pub(super) fn new(parts: Parts, net: N, seen: watch::Sender<Seen>) -> Engine<N> {
        let Parts { files, identity, key, options, instance, sending, receiving } = parts;
        let now = clock::monotonic();
        Engine {
            net,
            files,
            identity,
            key: Arc::new(key),
            options,
            instance,
            attempt: 0,
            sending,
            wanted: receiving.is_some(),
            receiving,
            seen,
            link: Link::Down(now),
            backoff: Backoff::default(),
            polled: now,
            looked_ms: 0,
            listed: None,
            listing: false,
            told_all: false,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.seen.borrow().ended.is_some()
    }

    /// When to go on although nothing happened.
    pub(super) fn wakes_at(&self) -> Instant {
        let now = clock::monotonic();
        let now_ms = clock::monotonic_ms();
        let in_ms = |at: u64| now + Duration::from_millis(at.saturating_sub(now_ms));
        // What was due when it was last looked, and is still there, waits for something else than time.
        let sending = self.sending.as_ref().and_then(|sending| sending.wakes_at(self.looked_ms)).map(in_ms);
        let up = matches!(self.link, Link::Up { .. });
        let receiving = self.receiving.as_ref().filter(|_| up);
        let receiving = receiving.and_then(|receiving| receiving.wakes_at(self.looked_ms)).map(in_ms);
        let poll = self.poll_at(now_ms);
        let connect = match &self.link {
            Link::Down(at) if self.wants_connection() => Some(*at),
            Link::Down(_) | Link::Connecting(_) | Link::Up { .. } => None,
        };
        let ended = self.has_ended();
        let known = [sending, receiving, poll, connect].into_iter().flatten().filter(|_| !ended);
        // What is due already and could not be done is tried again a little later.
        known.min().unwrap_or(now + Duration::from_secs(3600)).max(now + Duration::from_millis(1))
    }

    fn poll_at(&self, now_ms: u64) -> Option<Instant> {
        let every = self.sending.as_ref()?.watches_others(now_ms, clock::whole_ms(self.options.outbox_poll))?;
        Some(self.polled + Duration::from_millis(every))
    }

    fn wants_connection(&self) -> bool {
        self.wanted || self.sending.as_ref().is_some_and(|sending| sending.drains() && sending.has_work())
    }

    /// Everything that can be done without waiting for anybody.
    pub(super) async fn advance(&mut self) -> Result<(), ConnectError> {
        if self.has_ended() {
            return self.tell_listener().await;
        }
        let now = clock::monotonic();
        let now_ms = clock::monotonic_ms();
        self.looked_ms = now_ms;
        let polls = self.poll_at(now_ms).is_some_and(|at| now >= at);
        if let Some(sending) = &mut self.sending {
            if polls {
                self.polled = now;
                report(sending.poll(now_ms).await);
            }
            if let Link::Up { line, .. } = &self.link {
                report(sending.pump(line, now_ms).await);
            }
        }
        self.tell_listener().await?;
        self.pull_and_ack(now_ms).await;
        match &self.link {
            Link::Down(at) if *at <= now && self.wants_connection() => self.connect(),
            Link::Down(_) | Link::Connecting(_) | Link::Up { .. } => {}
        }
        Ok(())
    }

    async fn tell_listener(&mut self) -> Result<(), ConnectError> {
        let recalled = self.receiving.as_ref().map(Receiving::recalled).unwrap_or_default();
        if let Some(sending) = self.sending.as_mut().filter(|_| !recalled.is_empty()) {
            // Before the recalls are kept: once they are, nobody comes back to this.
            report(sending.forget(recalled).await);
        }
        let notices = self.sending.as_mut().map(|sending| std::mem::take(&mut sending.notices));
        let Some(receiving) = &mut self.receiving else { return Ok(()) };
        notices.into_iter().flatten().for_each(|event| receiving.notify(event));
        Ok(receiving.settle(clock::monotonic_ms()).await?)
    }

    async fn pull_and_ack(&mut self, now_ms: u64) {
        let (Some(receiving), Link::Up { line, .. }) = (&mut self.receiving, &self.link) else { return };
        if let Some(ack) = receiving.due_acks(now_ms) {
            broken(line, line.write_acks(&ack).await);
        }
        while let Some(pull) = receiving.next_pull(now_ms) {
            line.open_page(pull);
        }
        let may_list = self.listed.is_none_or(|at| clock::monotonic() >= at + LIST_PAUSE);
        if !self.listing
            && may_list
            && let Some(after) = receiving.wants_list()
        {
            self.listing = true;
            self.listed = Some(clock::monotonic());
            line.open_list(after);
        }
    }
}

/// A failure of the outbox file ends nothing: the entries are still there and are tried again.
fn report(result: Result<(), ProfileError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the outbox could not be brought forward");
    }
}

fn broken(line: &impl Line, result: Result<(), WireError>) {
    if let Err(error) = result {
        line.fail(&error);
    }
}
