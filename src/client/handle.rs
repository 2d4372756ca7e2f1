//! The handle of a client: what can be sent, awaited and listened to. The work is done by the engine task behind it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::client::engine::{Command, Engine, Identity, Parts, Seen};
use crate::client::error::{ConnectError, EnrolError, ListenError, OutboxError, ProfileError, Refusal};
use crate::client::event::{Event, Received, Subscription};
use crate::client::files::Files;
use crate::client::hello::{Wish, enrol};
use crate::client::inbox_file::InboxFile;
use crate::client::live::Live;
use crate::client::options::ClientOptions;
use crate::client::outbox_file::holder;
use crate::client::profile::{Begun, Profile};
use crate::client::quic::Quic;
use crate::client::receiving::{Begin, Receiving};
use crate::client::say::Say;
use crate::client::sending::{Queue, Sending};
use crate::client::types::{Account, OutboxEntry, Outcome, Position, Session};
use crate::client::{chance, connect, names};
use crate::clock;
use crate::ids::{ClientSeq, GroupId, Tag, UserId};
use crate::limits::BODY_BYTES_MAX;
use crate::wire::code::Class;
use crate::wire::link::Link;

const LISTEN_LOCK: &str = "listen.lock";
/// Questions to the engine that wait; beyond it who asks waits.
const COMMANDS_QUEUED_MAX: usize = 256;

/// A device at work. Cheap to clone; it ends when the last clone is dropped, or by [`Client::close`].
///
/// Must be made inside a tokio runtime with time and I/O enabled.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    commands: mpsc::Sender<Command>,
    seen: watch::Receiver<Seen>,
    pub(super) options: ClientOptions,
    pub(super) names: Mutex<BTreeMap<UserId, String>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "connected: {}", self.seen.borrow().live.is_some())
    }
}

/// The listening side of a client: items, in order, and notices. One process of a profile can have it at a time.
#[derive(Debug)]
pub struct Listener {
    outlet: Outlet,
    _client: Client,
}

/// The application's end of the queue of events.
#[derive(Debug)]
pub(super) struct Outlet {
    events: mpsc::Receiver<Event>,
    acks: watch::Sender<u64>,
    taken: Arc<AtomicU64>,
    inbox: u64,
    over: bool,
}

impl Client {
    /// Makes a device of this profile from an invite link. The key is on disk before anything is sent; after a lost
    /// answer the same link finishes it, and on a finished profile it answers what it answered before.
    ///
    /// # Errors
    /// See [`EnrolError`]. A profile that holds a device refuses any other link.
    pub async fn enrol(
        profile: &Profile,
        link: &str,
        handle: Option<&str>,
        device_name: &str,
        options: &ClientOptions,
    ) -> Result<Account, EnrolError> {
        let link: Link =
            link.parse().map_err(|error: crate::wire::link::LinkError| EnrolError::BadLink(error.to_string()))?;
        let device_name = names::device_name(device_name)?;
        let handle = handle.map(names::handle).transpose()?;
        let begin = profile.clone();
        let (link, begun) = on_disk(move || begin.begin(&link).map(|begun| (link, begun))).await?;
        let (key, _lock) = match begun {
            Begun::Already(account) => return Ok(account),
            Begun::Now(key, lock) => (key, lock),
        };
        let server = connect::Server { address: link.address, pins: vec![link.pin.0] };
        let answer = enrol(
            &server,
            &key,
            &Wish { code: link.code, handle: handle.as_deref(), device_name: &device_name },
            options,
        )
        .await;
        let finish = profile.clone();
        match answer {
            Ok(made) => Ok(on_disk(move || finish.finish(made.device, made.user, &made.handle, made.epoch)).await?),
            Err(EnrolError::Refused(refusal)) => {
                if refusal.class == Class::Permanent {
                    on_disk(move || finish.give_up()).await?;
                }
                Err(EnrolError::Refused(refusal))
            }
            Err(error) => Err(error),
        }
    }

    /// A client that asks and sends. It connects when there is something to ask or to send.
    ///
    /// # Errors
    /// Where the profile cannot be used.
    pub async fn open(profile: &Profile, options: ClientOptions) -> Result<Client, ProfileError> {
        let (profile, with) = (profile.clone(), options.clone());
        let parts = on_disk(move || parts(Files::InThread, &profile, with)).await?;
        Ok(Client::start(parts, options))
    }

    /// A client that also listens. `from` is the last position that the application has with its own data: what lies
    /// above it is handed out, exactly once; without it everything that was not acknowledged is, marked where it may
    /// have been seen before.
    ///
    /// # Errors
    /// Where another process of this profile listens, or the profile cannot be used.
    pub async fn listen(
        profile: &Profile,
        options: ClientOptions,
        what: Subscription,
        from: Option<Position>,
    ) -> Result<(Client, Listener), ListenError> {
        let (profile, with) = (profile.clone(), options.clone());
        let (parts, outlet) = on_disk(move || listening(Files::InThread, &profile, with, what, from)).await?;
        let client = Client::start(parts, options);
        let listener = Listener { outlet, _client: client.clone() };
        Ok((client, listener))
    }

    pub(super) fn start(parts: Parts, options: ClientOptions) -> Client {
        let (commands, obeyed) = mpsc::channel(COMMANDS_QUEUED_MAX);
        let (shown, seen) = watch::channel(Seen::default());
        tokio::spawn(Engine::new(parts, Quic::new(), shown).run(obeyed));
        Client { inner: Arc::new(Inner { commands, seen, options, names: Mutex::default() }) }
    }

    /// Waits for the connection.
    ///
    /// # Errors
    /// The first failure that has a name: no wait is longer than the time-out for connecting.
    pub async fn connected(&self) -> Result<Session, ConnectError> {
        let deadline = Instant::from_std(clock::monotonic()) + self.inner.options.connect_timeout * 2;
        self.live(deadline).await.map(|live| live.session.clone())
    }

    /// The connection, which is made where there is none.
    pub(super) async fn live(&self, deadline: Instant) -> Result<Arc<Live>, ConnectError> {
        let mut seen = self.inner.seen.clone();
        let before = seen.borrow().failures;
        let mut asked = false;
        loop {
            let now = seen.borrow_and_update().clone();
            match (now.ended, now.live, now.trouble) {
                (Some(ended), _, _) => return Err(ended),
                (None, Some(live), _) => return Ok(live),
                (None, None, Some(trouble)) if now.failures > before => return Err(trouble),
                (None, None, _) => {}
            }
            if !asked {
                self.command(Command::Connect).await.map_err(|_| ConnectError::Closed)?;
                asked = true;
            }
            match tokio::time::timeout_at(deadline, seen.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(ConnectError::Closed),
                Err(_) => return Err(self.trouble().unwrap_or(ConnectError::Closed)),
            }
        }
    }

    /// The connection, where there is one.
    pub(super) fn live_now(&self) -> Option<Arc<Live>> {
        self.inner.seen.borrow().live.clone()
    }

    async fn command(&self, command: Command) -> Result<(), OutboxError> {
        self.inner.commands.send(command).await.map_err(|_| OutboxError::Closed)
    }

    /// Puts a text into the outbox and returns once it is synced there; it is then sent whatever happens, by this
    /// process or another of the profile.
    ///
    /// # Errors
    /// Where it was not put there.
    pub async fn queue(&self, group: GroupId, text: &str) -> Result<ClientSeq, OutboxError> {
        self.say(group, &Say::text(text)).await
    }

    /// As [`Client::queue`], of whatever can be said: a reply, an edit, a recall, a reaction.
    ///
    /// # Errors
    /// Where it was not put into the outbox.
    pub async fn say(&self, group: GroupId, what: &Say) -> Result<ClientSeq, OutboxError> {
        let known = self.inner.seen.borrow().live.as_ref().map(|live| live.session.body_bytes_max);
        let max = known.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        let tag = Tag::new(chance::bytes()?);
        let payload = what.payload(tag, max)?;
        let (reply, answer) = oneshot::channel();
        self.command(Command::Queue(Queue { group, tag, payload, reply })).await?;
        answer.await.map_err(|_| OutboxError::Closed)?
    }

    /// Waits for the answer to what was queued, also where another process sends it.
    ///
    /// # Errors
    /// Where the outbox holds no such number, or cannot be read.
    pub async fn outcome(&self, seq: ClientSeq) -> Result<Outcome, OutboxError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Outcome(seq, reply)).await?;
        answer.await.map_err(|_| OutboxError::Closed)?
    }

    /// As [`Client::outcome`], but no longer than this: none where the answer is still open then.
    ///
    /// # Errors
    /// As [`Client::outcome`].
    pub async fn outcome_within(&self, seq: ClientSeq, wait: Duration) -> Result<Option<Outcome>, OutboxError> {
        match tokio::time::timeout(wait, self.outcome(seq)).await {
            Ok(outcome) => outcome.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// What the outbox holds: everything unanswered, and what ended with an unknown outcome.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub async fn outbox(&self) -> Result<Vec<OutboxEntry>, OutboxError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Outbox(reply)).await?;
        answer.await.map_err(|_| OutboxError::Closed)?
    }

    /// Takes an entry out of the outbox: one that was never attempted, which is then never sent, or one that ended with
    /// an unknown outcome, which is then not listed any more.
    ///
    /// # Errors
    /// Where it was attempted and its answer must be waited for.
    pub async fn withdraw(&self, seq: ClientSeq) -> Result<(), OutboxError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Withdraw(seq, reply)).await?;
        answer.await.map_err(|_| OutboxError::Closed)?
    }

    /// Sends what the outbox holds, for as long as this; returns how many entries are unanswered then.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub async fn flush(&self, wait: Duration) -> Result<usize, OutboxError> {
        let (reply, drained) = oneshot::channel();
        self.command(Command::Drained(reply)).await?;
        if let Ok(Ok(())) = tokio::time::timeout(wait, drained).await {
            return Ok(0);
        }
        let unanswered = |entry: &OutboxEntry| entry.state != crate::client::types::EntryState::OutcomeUnknown;
        Ok(self.outbox().await?.into_iter().filter(unanswered).count())
    }

    /// Why there is no connection just now; none where there is one, or none was tried.
    #[must_use]
    pub fn trouble(&self) -> Option<ConnectError> {
        self.inner.seen.borrow().trouble.clone()
    }

    /// Why the server takes no sends just now, as it said to the last one; none where it took that, or said nothing.
    #[must_use]
    pub fn held(&self) -> Option<Refusal> {
        self.inner.seen.borrow().held.clone()
    }

    /// Ends: what was acknowledged is told to the server (waiting 2 s at most for its answer), then the connection
    /// closes with a goodbye.
    pub async fn close(self) {
        let (reply, closed) = oneshot::channel();
        if self.command(Command::Close(reply)).await.is_ok() {
            // Where the engine is gone already, it is closed.
            drop(closed.await);
        }
    }
}

impl Listener {
    /// The next event; none after [`Event::Ended`], or once the client is closed.
    pub async fn next(&mut self) -> Option<Event> {
        self.outlet.next().await
    }

    /// Everything up to this position is safe with the application. Never waits; an older position is a no-op, and so is
    /// one of another inbox.
    pub fn ack(&self, position: Position) {
        self.outlet.ack(position);
    }
}

impl Outlet {
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        let event = self.events.recv().await;
        self.over = matches!(event, None | Some(Event::Ended(_)));
        event.inspect(|event| self.took(event))
    }

    /// The next event, if one is there.
    #[cfg(feature = "proof")]
    pub(super) fn try_next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        let event = self.events.try_recv().ok();
        self.over = matches!(event, Some(Event::Ended(_)));
        event.inspect(|event| self.took(event))
    }

    fn took(&self, event: &Event) {
        if let Event::Item(Received { position, .. }) | Event::Gone { position, .. } = event {
            self.taken.store(position.number, Ordering::Relaxed);
        }
    }

    pub(super) fn ack(&self, position: Position) {
        if position.inbox == self.inbox {
            self.acks.send_if_modified(|acked| {
                let higher = position.number > *acked;
                *acked = position.number.max(*acked);
                higher
            });
        }
    }
}

/// Works on files where one may wait for the disk.
pub(super) async fn on_disk<T: Send + 'static, E: From<ProfileError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let stopped = || ProfileError::Disk("a thread that worked on files has stopped".to_owned());
    Files::InThread.work(work).await.unwrap_or_else(|| Err(stopped().into()))
}

/// What a client of this profile begins with.
pub(super) fn parts(files: Files, profile: &Profile, options: ClientOptions) -> Result<Parts, ProfileError> {
    parts_of(files, profile, profile.account()?, options)
}

/// The same where it is known whose profile it is.
fn parts_of(files: Files, profile: &Profile, account: Account, options: ClientOptions) -> Result<Parts, ProfileError> {
    let key = profile.key()?;
    let instance = chance::number()?;
    let sending = Sending::new(files, profile.disk().clone(), profile.folder().to_owned(), account.epoch);
    let identity = Identity::Device { profile: profile.clone(), account };
    Ok(Parts { files, identity, key, options, instance, sending: Some(sending), receiving: None })
}

/// As [`parts`], of a client that listens; and the application's end of it.
pub(super) fn listening(
    files: Files,
    profile: &Profile,
    options: ClientOptions,
    what: Subscription,
    from: Option<Position>,
) -> Result<(Parts, Outlet), ListenError> {
    let account = profile.account()?;
    let me = account.user;
    let mut parts = parts_of(files, profile, account, options)?;
    let path = profile.folder().join(LISTEN_LOCK);
    let lock = profile.disk().lock(&path).map_err(ProfileError::from)?;
    let lock = lock.ok_or_else(|| ListenError::AnotherListener { pid: holder(profile.disk(), &path) })?;
    let (file, lost) = InboxFile::open(profile.disk(), profile.folder())?;
    if from.is_some_and(|from| from.inbox != file.name()) {
        return Err(ListenError::LostPosition);
    }
    let (given, events) = mpsc::channel(parts.options.events_max.max(1));
    let (acks, acked) = watch::channel(0);
    let taken = Arc::new(AtomicU64::new(0));
    let outlet = Outlet { events, acks, taken: Arc::clone(&taken), inbox: file.name(), over: false };
    let from = from.map(|from| from.number);
    let begin = Begin { files, file, lock, subscription: what, me, events: given, acks: acked, taken, from, lost };
    parts.receiving = Some(Receiving::new(begin)?);
    Ok((parts, outlet))
}
