//! The task behind a client: one loop over what is asked of it, what the network brings, and time.
//!
//! It owns the connection, connects again after a failure, and feeds [`Sending`] and [`Receiving`]. It ends when all
//! handles are gone. Whatever ends a client for good (replaced, revoked, another history, an inbox that cannot be
//! written) is told once, to everybody who waits and to all who ask later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::signature::Ed25519KeyPair;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::client::backoff::Backoff;
use crate::client::connect::Server;
use crate::client::error::{ConnectError, OutboxError, ProfileError, Refusal};
use crate::client::event::Event;
use crate::client::hello::{Accepted, FirstFlight, Who, introduce};
use crate::client::live::{Live, NetEvent, deliver, list};
use crate::client::options::ClientOptions;
use crate::client::profile::Profile;
use crate::client::receiving::{OwnItems, Receiving};
use crate::client::sending::{Queue, Sending};
use crate::client::stream::refusal;
use crate::client::types::{Account, OutboxEntry, Outcome, Session};
use crate::clock;
use crate::ids::ClientSeq;
use crate::wire::WireError;
use crate::wire::code::Class;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Frame, Welcome};

/// What the network may bring before the engine has to look at it; the tasks wait beyond that.
const EVENTS_QUEUED_MAX: usize = 64;
/// Events, or entries for the outbox, that are handled together.
const TOGETHER_MAX: usize = 64;
/// How often other processes of the profile are looked after, while there is reason to: a file's length is read.
const POLL: Duration = Duration::from_millis(20);
/// A group that is asked for is listed at most this often.
const LIST_PAUSE: Duration = Duration::from_millis(500);
/// How long a closing client waits for the answer to its last acks.
const LAST_ACKS: Duration = Duration::from_secs(2);
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

enum Link {
    /// No connection; the next attempt, if one is wanted, not before this.
    Down(Instant),
    Connecting(JoinHandle<Result<Accepted, ConnectError>>),
    Up {
        live: Arc<Live>,
        _tasks: JoinSet<()>,
        since: Instant,
    },
}

/// See the module.
pub(super) struct Engine {
    identity: Identity,
    key: Arc<Ed25519KeyPair>,
    options: ClientOptions,
    instance: u64,
    attempt: u64,
    pub(super) sending: Option<Sending>,
    pub(super) receiving: Option<Receiving>,
    commands: mpsc::Receiver<Command>,
    seen: watch::Sender<Seen>,
    link: Link,
    net: mpsc::Receiver<NetEvent>,
    net_sender: mpsc::Sender<NetEvent>,
    backoff: Backoff,
    /// Somebody wants a connection.
    wanted: bool,
    polled: Instant,
    listed: Option<Instant>,
    listing: bool,
}

/// What made the loop turn.
enum Turn {
    Commands(Vec<Command>),
    Net(Vec<NetEvent>),
    Connected(Result<Accepted, ConnectError>),
    /// Time has passed, or the application took or acknowledged something.
    Other,
    Abandoned,
}

/// What the engine begins with.
pub(super) struct Parts {
    pub(super) identity: Identity,
    pub(super) key: Ed25519KeyPair,
    pub(super) options: ClientOptions,
    pub(super) instance: u64,
    pub(super) sending: Option<Sending>,
    pub(super) receiving: Option<Receiving>,
}

impl Engine {
    pub(super) fn new(parts: Parts, commands: mpsc::Receiver<Command>, seen: watch::Sender<Seen>) -> Engine {
        let Parts { identity, key, options, instance, sending, receiving } = parts;
        let (net_sender, net) = mpsc::channel(EVENTS_QUEUED_MAX);
        let now = clock::monotonic();
        Engine {
            identity,
            key: Arc::new(key),
            options,
            instance,
            attempt: 0,
            sending,
            wanted: receiving.is_some(),
            receiving,
            commands,
            seen,
            link: Link::Down(now),
            net,
            net_sender,
            backoff: Backoff::default(),
            polled: now,
            listed: None,
            listing: false,
        }
    }

    /// Runs until all handles are gone, or it is closed.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(error) = self.advance().await {
                self.end(error).await;
            }
            let turned = match self.turn().await {
                Turn::Abandoned => return self.close().await,
                Turn::Other => Ok(()),
                Turn::Commands(commands) => match self.obey(commands).await {
                    Some(closed) => {
                        self.close().await;
                        // Who closed may be gone.
                        return closed.send(()).unwrap_or_default();
                    }
                    None => Ok(()),
                },
                Turn::Net(events) => self.happened(events).await,
                Turn::Connected(result) => self.connected(result).await,
            };
            if let Err(error) = turned {
                self.end(error).await;
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.seen.borrow().ended.is_some()
    }

    // ---- the loop ---------------------------------------------------------------------------------------------------

    /// Waits for whatever comes first.
    async fn turn(&mut self) -> Turn {
        let wake = tokio::time::Instant::from_std(self.wakes_at());
        let queue = self.receiving.as_ref().filter(|receiving| receiving.has_backlog()).map(Receiving::queue);
        let mut acks = self.receiving.as_ref().map(Receiving::acks);
        let connecting = async {
            match &mut self.link {
                Link::Connecting(handle) => handle.await,
                Link::Down(_) | Link::Up { .. } => std::future::pending().await,
            }
        };
        let room = async {
            match &queue {
                Some(queue) if queue.is_closed() => std::future::pending().await,
                // What is reserved is given back at once: the next step looks at the room that there is.
                Some(queue) => drop(queue.reserve().await),
                None => std::future::pending().await,
            }
        };
        let acked = async {
            match &mut acks {
                // Who does not listen any more acknowledges nothing.
                Some(acks) => match acks.changed().await {
                    Ok(()) => (),
                    Err(_) => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.commands.recv() => match command {
                Some(command) => {
                    let more = std::iter::from_fn(|| self.commands.try_recv().ok());
                    Turn::Commands(std::iter::once(command).chain(more.take(TOGETHER_MAX)).collect())
                }
                None => Turn::Abandoned,
            },
            Some(event) = self.net.recv() => {
                let more = std::iter::from_fn(|| self.net.try_recv().ok());
                Turn::Net(std::iter::once(event).chain(more.take(TOGETHER_MAX)).collect())
            }
            result = connecting => Turn::Connected(result.unwrap_or(Err(ConnectError::Closed))),
            () = room => Turn::Other,
            () = acked => Turn::Other,
            () = tokio::time::sleep_until(wake) => Turn::Other,
        }
    }

    fn wakes_at(&self) -> Instant {
        let now = clock::monotonic();
        let now_ms = clock::now_ms();
        let in_ms = |at: u64| now + Duration::from_millis(at.saturating_sub(now_ms));
        let sending = self.sending.as_ref().and_then(Sending::wakes_at).map(in_ms);
        let up = matches!(self.link, Link::Up { .. });
        let receiving = self.receiving.as_ref().filter(|_| up).and_then(Receiving::wakes_at).map(in_ms);
        let poll = self.sending.as_ref().filter(|sending| sending.watches_others()).map(|_| self.polled + POLL);
        let connect = match &self.link {
            Link::Down(at) if self.wants_connection() => Some(*at),
            Link::Down(_) | Link::Connecting(_) | Link::Up { .. } => None,
        };
        let ended = self.has_ended();
        let known = [sending, receiving, poll, connect].into_iter().flatten().filter(|_| !ended);
        // What is due already and could not be done is tried again a little later.
        known.min().unwrap_or(now + Duration::from_secs(3600)).max(now + Duration::from_millis(1))
    }

    fn wants_connection(&self) -> bool {
        self.wanted || self.sending.as_ref().is_some_and(|sending| sending.drains() && sending.has_work())
    }

    /// Everything that can be done without waiting for anybody.
    async fn advance(&mut self) -> Result<(), ConnectError> {
        if self.has_ended() {
            return self.tell_listener().await;
        }
        let now = clock::monotonic();
        let now_ms = clock::now_ms();
        if let Some(sending) = &mut self.sending {
            if sending.watches_others() && now >= self.polled + POLL {
                self.polled = now;
                report(sending.poll(now_ms).await);
            }
            if let Link::Up { live, .. } = &self.link {
                report(sending.pump(live, now_ms).await);
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
        let notices = self.sending.as_mut().map(|sending| std::mem::take(&mut sending.notices));
        let Some(receiving) = &mut self.receiving else { return Ok(()) };
        notices.into_iter().flatten().for_each(|event| receiving.notify(event));
        Ok(receiving.settle(clock::now_ms()).await?)
    }

    async fn pull_and_ack(&mut self, now_ms: u64) {
        let (Some(receiving), Link::Up { live, .. }) = (&mut self.receiving, &self.link) else { return };
        if let Some(ack) = receiving.due_acks(now_ms) {
            broken(live, live.write_acks(&ack).await);
        }
        while let Some(pull) = receiving.next_pull(now_ms) {
            tokio::spawn(deliver(live.connection.clone(), pull, self.net_sender.clone()));
        }
        let may_list = self.listed.is_none_or(|at| clock::monotonic() >= at + LIST_PAUSE);
        if !self.listing
            && may_list
            && let Some(after) = receiving.wants_list()
        {
            self.listing = true;
            self.listed = Some(clock::monotonic());
            tokio::spawn(list(live.connection.clone(), after, self.net_sender.clone()));
        }
    }

    // ---- the connection ---------------------------------------------------------------------------------------------

    fn connect(&mut self) {
        self.attempt += 1;
        let (server, who) = match &self.identity {
            Identity::Device { account, .. } => {
                let server = Server { address: account.address.clone(), pins: account.pins.clone() };
                let listens = self.receiving.is_some();
                let (device, epoch) = (account.device, account.epoch);
                (server, Who::Device { device, epoch, listens, instance: self.instance, attempt: self.attempt })
            }
            Identity::Operator { server } => (server.clone(), Who::Operator),
        };
        let mut first = FirstFlight::default();
        if let Some(receiving) = &mut self.receiving {
            let (subscribe, pulls) = receiving.first_flight();
            first = FirstFlight { subscribe: Some(subscribe), pulls };
            self.listing = true;
        }
        // What an older connection still had to say is not heard on the new one.
        let (sender, net) = mpsc::channel(EVENTS_QUEUED_MAX);
        self.net_sender = sender;
        self.net = net;
        let (key, options) = (Arc::clone(&self.key), self.options.clone());
        let attempt = async move { introduce(&server, &key, who, first, &options).await };
        self.link = Link::Connecting(tokio::spawn(attempt));
    }

    async fn connected(&mut self, result: Result<Accepted, ConnectError>) -> Result<(), ConnectError> {
        let accepted = match result {
            Ok(accepted) => accepted,
            Err(error) => return self.failed(error),
        };
        let Accepted { endpoint, connection, welcome, streams } = accepted;
        let address = match &self.identity {
            Identity::Device { account, .. } => {
                if welcome.epoch != account.epoch {
                    return Err(ConnectError::OtherHistory { known: account.epoch, now: welcome.epoch });
                }
                account.address.clone()
            }
            Identity::Operator { server } => server.address.clone(),
        };
        let session = session(&welcome);
        let (live, tasks) = Live::start(endpoint, connection, address, session.clone(), streams, &self.net_sender);
        self.link = Link::Up { live: Arc::clone(&live), _tasks: tasks, since: clock::monotonic() };
        if let Some(receiving) = &mut self.receiving {
            receiving.credit(welcome.credit_items, welcome.credit_bytes);
            receiving.notify(Event::Connected(session));
        }
        self.seen.send_modify(|seen| {
            seen.live = Some(live);
            seen.trouble = None;
        });
        if let Some(sending) = &mut self.sending {
            report(sending.connected(&welcome, clock::now_ms()).await);
        }
        self.learn(welcome).await
    }

    /// Keeps what the server said about itself and the user.
    async fn learn(&mut self, welcome: Welcome) -> Result<(), ConnectError> {
        let Identity::Device { profile, account } = &mut self.identity else { return Ok(()) };
        let pins = welcome.pins.iter().filter_map(|pin| pin.as_ref().try_into().ok());
        let pins: Vec<[u8; 32]> = pins.collect();
        let known = account.pins == pins && account.handle == welcome.handle;
        if known || pins.is_empty() {
            return Ok(());
        }
        account.pins = pins;
        account.handle.clone_from(&welcome.handle);
        let profile = profile.clone();
        let kept = tokio::task::spawn_blocking(move || profile.learn(&welcome.pins, &welcome.handle));
        // Not kept now, it is learned again at the next connection.
        report(kept.await.unwrap_or(Ok(())));
        Ok(())
    }

    /// There is no connection, or none any more: the next attempt comes after a pause, unless it would be pointless.
    fn failed(&mut self, error: ConnectError) -> Result<(), ConnectError> {
        if let Link::Up { since, .. } = &self.link {
            self.backoff.held(&self.options, clock::monotonic().duration_since(*since));
        }
        if let Some(sending) = &mut self.sending {
            sending.lost(clock::now_ms());
        }
        if error.is_terminal() {
            return Err(error);
        }
        let asked = match &error {
            ConnectError::Refused(Refusal { retry_after_ms, class: Class::NotDone, .. }) => *retry_after_ms,
            _ => 0,
        };
        let pause = self.backoff.failed(&self.options, rand::random::<f64>(), asked);
        self.link = Link::Down(clock::monotonic() + pause);
        self.listing = false;
        self.seen.send_modify(|seen| {
            seen.live = None;
            seen.failures += 1;
            seen.trouble = Some(error.clone());
        });
        if let Some(receiving) = &mut self.receiving {
            receiving.notify(Event::Disconnected { cause: error, retry_in: pause });
        }
        Ok(())
    }

    /// It is over for good.
    async fn end(&mut self, error: ConnectError) {
        if self.has_ended() {
            return;
        }
        if let Link::Up { live, .. } = &self.link {
            live.close().await;
        }
        self.link = Link::Down(clock::monotonic());
        if let Some(sending) = &mut self.sending {
            sending.end();
        }
        if let Some(receiving) = &mut self.receiving {
            receiving.notify(Event::Ended(error.clone()));
        }
        self.seen.send_modify(|seen| {
            seen.live = None;
            seen.failures += 1;
            seen.trouble = Some(error.clone());
            seen.ended = Some(error);
        });
    }

    /// Tells the server what was acknowledged, and goes.
    async fn close(&mut self) {
        let deadline = tokio::time::Instant::from_std(clock::monotonic() + LAST_ACKS);
        let told = self.tell_listener().await;
        if let (Ok(()), Some(receiving), Link::Up { live, .. }) = (told, &mut self.receiving, &self.link) {
            let live = Arc::clone(live);
            if let Some(ack) = receiving.all_acks(clock::now_ms()) {
                broken(&live, live.write_acks(&ack).await);
            }
            while self.receiving.as_ref().is_some_and(Receiving::awaits_answer) {
                match tokio::time::timeout_at(deadline, self.net.recv()).await {
                    Ok(Some(NetEvent::Closed(_)) | None) | Err(_) => break,
                    // What cannot be taken in any more is taken in by the next process.
                    Ok(Some(event)) => drop(self.happened(vec![event]).await),
                }
            }
        }
        if let Link::Up { live, .. } = &self.link {
            live.close().await;
        }
        self.seen.send_modify(|seen| {
            seen.live = None;
            seen.ended.get_or_insert(ConnectError::Closed);
        });
    }

    // ---- what is asked ----------------------------------------------------------------------------------------------

    /// Does what handles ask; the one who wants it closed comes back.
    async fn obey(&mut self, commands: Vec<Command>) -> Option<oneshot::Sender<()>> {
        let mut queued = Vec::new();
        let mut rest = Vec::new();
        for command in commands {
            match command {
                Command::Queue(queue) => queued.push(queue),
                Command::Connect
                | Command::Outcome(..)
                | Command::Outbox(_)
                | Command::Drained(_)
                | Command::Withdraw(..)
                | Command::Close(_) => rest.push(command),
            }
        }
        let now_ms = clock::now_ms();
        if !queued.is_empty()
            && let Some(sending) = self.sending.as_mut().filter(|_| self.seen.borrow().ended.is_none())
        {
            let connected = matches!(self.link, Link::Up { .. });
            sending.queue(queued, connected, now_ms).await;
            report(sending.poll(now_ms).await);
        }
        let mut closing = None;
        for command in rest {
            match command {
                Command::Connect => self.want(),
                Command::Close(reply) => closing = Some(reply),
                Command::Outcome(..)
                | Command::Outbox(_)
                | Command::Drained(_)
                | Command::Withdraw(..)
                | Command::Queue(_) => self.ask_outbox(command).await,
            }
        }
        closing
    }

    fn want(&mut self) {
        self.wanted = true;
        let soon = clock::monotonic() + ASKED_PAUSE;
        if let Link::Down(at) = &mut self.link {
            *at = soon.min(*at);
        }
    }

    /// Questions about the outbox. Where there is none, or it is over, the reply is dropped, which answers by itself.
    async fn ask_outbox(&mut self, command: Command) {
        let Some(sending) = &mut self.sending else { return };
        let ended = self.seen.borrow().ended.is_some();
        match command {
            Command::Outcome(seq, reply) => {
                sending.wait(seq, reply).await;
                if ended {
                    sending.end();
                }
            }
            // Who asked may be gone.
            Command::Outbox(reply) => drop(reply.send(sending.listed().await)),
            Command::Withdraw(seq, reply) => drop(reply.send(sending.withdraw(seq).await)),
            Command::Drained(reply) if !ended => sending.wait_drained(reply).await,
            Command::Drained(_) | Command::Connect | Command::Queue(_) | Command::Close(_) => {}
        }
    }

    // ---- what the network brings ------------------------------------------------------------------------------------

    async fn happened(&mut self, events: Vec<NetEvent>) -> Result<(), ConnectError> {
        let now_ms = clock::now_ms();
        let mut answers = Vec::new();
        let mut own = OwnItems::new();
        let mut closed = None;
        for event in events {
            let taken = match event {
                NetEvent::SendAnswered(seq, frame) => {
                    answers.push((seq, frame));
                    Ok(())
                }
                NetEvent::Closed(error) => {
                    closed = Some(error);
                    Ok(())
                }
                NetEvent::Frame(frame) => self.frame(&frame, &mut own, now_ms),
                NetEvent::Rows(..)
                | NetEvent::PageEnded(..)
                | NetEvent::PageFailed(..)
                | NetEvent::Listed(_)
                | NetEvent::ListFailed => self.page(event, &mut own, now_ms),
            };
            if let (Err(error), Link::Up { live, .. }) = (taken, &self.link) {
                live.fail(&error);
            }
        }
        if let Some(sending) = &mut self.sending {
            if !answers.is_empty() {
                report(sending.answered(answers, now_ms).await);
            }
            if !own.is_empty() {
                report(sending.seen(own, now_ms).await);
            }
        }
        match closed {
            Some(error) if matches!(self.link, Link::Up { .. }) => self.failed(error),
            Some(_) | None => Ok(()),
        }
    }

    fn page(&mut self, event: NetEvent, own: &mut OwnItems, now_ms: u64) -> Result<(), WireError> {
        let Some(receiving) = &mut self.receiving else { return Ok(()) };
        match event {
            NetEvent::Rows(group, rows) => own.extend(receiving.rows(group, rows, now_ms)?),
            NetEvent::PageEnded(group, end) => receiving.page_ended(group, end, now_ms),
            NetEvent::PageFailed(group, refusal) => {
                let for_good = refusal.as_ref().is_some_and(|refusal| refusal.class == Class::Permanent);
                let after_ms = refusal.map_or(0, |refusal| u64::from(refusal.retry_after_ms));
                receiving.page_failed(group, for_good, after_ms, now_ms);
            }
            NetEvent::Listed(groups) => {
                receiving.listed(&groups, now_ms);
                let last = groups.rows.0.last().map(|group| group.gid);
                self.listing = false;
                if let (true, Some(last), Link::Up { live, .. }) = (groups.more, last, &self.link) {
                    self.listing = true;
                    tokio::spawn(list(live.connection.clone(), last, self.net_sender.clone()));
                }
            }
            NetEvent::ListFailed => self.listing = false,
            NetEvent::SendAnswered(..) | NetEvent::Frame(_) | NetEvent::Closed(_) => {}
        }
        Ok(())
    }

    /// A frame that answers nothing.
    fn frame(&mut self, raw: &RawFrame, own: &mut OwnItems, now_ms: u64) -> Result<(), WireError> {
        if let Some(refusal) = refusal(raw)? {
            // The reason of the close that follows is the same.
            tracing::debug!(%refusal, "the server says");
            return Ok(());
        }
        let Some(receiving) = &mut self.receiving else { return Ok(()) };
        match raw.kind {
            frame::Push::TYPE => own.extend(receiving.push(raw.decode()?, now_ms)?),
            frame::Heads::TYPE => receiving.heads(&raw.decode::<frame::Heads>()?.entries),
            frame::Cursors::TYPE => receiving.cursors(&raw.decode::<frame::Cursors>()?.entries),
            frame::AcksRefused::TYPE => {
                let refused: frame::AcksRefused = raw.decode()?;
                refused.entries.iter().for_each(|(group, _)| receiving.ack_refused(*group));
            }
            frame::MembershipNotice::TYPE => {
                let frame::MembershipNotice { gid: group, member, msgid, extensions: _ } = raw.decode()?;
                receiving.notify(Event::Membership { group, member, msgid });
            }
            frame::DeviceNotice::TYPE => {
                let frame::DeviceNotice { device, name, added, extensions: _ } = raw.decode()?;
                receiving.notify(Event::Device { device, name, added });
            }
            _ if raw.must_understand() => return Err(WireError::WrongType { expected: 0, found: raw.kind }),
            _ => {}
        }
        Ok(())
    }
}

fn session(welcome: &Welcome) -> Session {
    Session {
        user: welcome.user,
        handle: welcome.handle.clone(),
        operator: welcome.operator,
        epoch: welcome.epoch,
        body_bytes_max: usize::try_from(welcome.body_bytes_max).unwrap_or(usize::MAX),
        time_ms: welcome.time_ms,
    }
}

/// A failure of the outbox file ends nothing: the entries are still there and are tried again.
fn report(result: Result<(), ProfileError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the outbox could not be brought forward");
    }
}

fn broken(live: &Live, result: Result<(), WireError>) {
    if let Err(error) = result {
        live.fail(&error);
    }
}
