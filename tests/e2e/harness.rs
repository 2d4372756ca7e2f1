//! Servers and people for tests, in this process.
//!
//! A [`Site`] is a server on a runtime and a thread of its own, on a simulated disk. It can be stopped, killed or lose power,
//! and started again on the same disk and port. A [`Person`] is a profile with the client library at work on it; a [`Tail`]
//! collects what its listener is told. Nothing here sleeps: it waits for what must come, and [`DEADLINE`] ends a wait that
//! is in vain.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use gaggle::client::{
    Account, Client, ClientOptions, Content, ConversationInfo, EnrolError, Event, History, Listener, Outcome, Position,
    Profile, Received, Subscription,
};
use gaggle::config::Config;
use gaggle::core::state::{self, Rate};
use gaggle::disk::SharedDisk;
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::ids::{GroupId, MessageId};
use gaggle::server::{IndexOptions, Server};
use gaggle::store::engine::{Engine, EngineError, Index};
use gaggle::store::format::StoreId;
use gaggle::store::index::{Settings, SledIndex};
use gaggle::store::memory::MemoryIndex;
use gaggle::wire::frame::{CreateGroup, Extensions, GroupCreated, InviteMade, Sent};
use gaggle::wire::item::kind;
use gaggle::wire::link::{Link, Pin};
use gaggle::wire::said::{extension, msgid_extension};
use tokio::sync::oneshot;

use crate::raw::{self, Key, Raw, soon};

pub use crate::raw::DEADLINE;

/// A number that the environment says, if it says one; anything else there is a mistake that is told.
pub fn variable(name: &str) -> Option<u64> {
    let said = std::env::var_os(name)?;
    let number = said.to_str().and_then(|said| said.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{name} is to be a whole number, not {}", said.display())))
}

/// How many rounds a random test does: its own number, or so many times more with `GAGGLE_TEST_SCALE`.
pub fn rounds(few: u64) -> u64 {
    few * variable("GAGGLE_TEST_SCALE").unwrap_or(1)
}

/// From which the choices of a run of kills or cuts follow: what `GAGGLE_CRASH_SEED` says, or a new one. It is printed.
pub fn crash_seed() -> u64 {
    let seed = variable("GAGGLE_CRASH_SEED").unwrap_or_else(rand::random);
    println!("GAGGLE_CRASH_SEED={seed}");
    seed
}

/// A server, its disk, and the disk of the people's profiles.
pub struct Site {
    config: Config,
    disk: SimulatedDisk,
    index: IndexOptions,
    profiles: SharedDisk,
    profiles_made: AtomicU64,
    running: Option<Running>,
    first: Option<Link>,
    address: SocketAddr,
    pin: Pin,
}

/// A server's thread. It ends with the sentence of a server that has ended by itself.
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Option<String>>,
}

/// What a server says once it serves.
struct Ready {
    address: SocketAddr,
    pin: Pin,
    first: Option<Link>,
}

/// What members may do where a test is not about limits: everything.
pub fn without_limits() -> state::Settings {
    let none = Rate { amount: 0, per_ms: 1_000 };
    state::Settings { sends: none, bytes: none, groups: none, additions: none, ..state::Settings::default() }
}

impl Site {
    /// A server without limits of rate.
    pub async fn start() -> Site {
        Site::start_with(|_| ()).await
    }

    /// The same with another configuration.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Site {
        Site::start_on(beside_a_simulated_disk(), change).await
    }

    /// A server with this index.
    pub async fn start_with_index(index: IndexOptions) -> Site {
        Site::start_on(index, |_| ()).await
    }

    async fn start_on(index: IndexOptions, change: impl FnOnce(&mut Config)) -> Site {
        let disk = SimulatedDisk::new();
        let mut config = Config {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            data: "/server/data".into(),
            certs: "/server/certs".into(),
            members: without_limits(),
            ..Config::default()
        };
        change(&mut config);
        let (running, ready) = run(config.clone(), Arc::new(disk.clone()), index.clone()).await;
        config.listen = ready.address;
        Site {
            config,
            disk,
            index,
            profiles: Arc::new(SimulatedDisk::new()),
            profiles_made: AtomicU64::new(0),
            running: Some(running),
            first: ready.first,
            address: ready.address,
            pin: ready.pin,
        }
    }

    /// Where the server listens; the same after a restart.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// By which it is known.
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// The folder of its keys.
    pub fn certs(&self) -> &Path {
        &self.config.certs
    }

    /// The disk that the people's profiles are on.
    pub fn profiles(&self) -> &SharedDisk {
        &self.profiles
    }

    /// The simulated disk that the server is on, to make it fail.
    pub fn simulated(&self) -> &SimulatedDisk {
        &self.disk
    }

    // ---- its life -----------------------------------------------------------------------------------------------------

    /// Ends as a clean stop does.
    pub async fn stop(&mut self) {
        let Running { stop, thread } = self.running.take().expect("a running server");
        stop.send(()).expect("a server that waits to be stopped");
        assert_eq!(end(thread).await, None);
    }

    /// Waits until it has ended by itself; gives what it said.
    pub async fn failed(&mut self) -> String {
        let Running { stop, thread } = self.running.take().expect("a running server");
        let said = end(thread).await;
        drop(stop);
        said.expect("a server that fails")
    }

    /// Stops a server that cannot end as it should; gives what it said.
    pub async fn fail_to_stop(&mut self) -> String {
        let Running { stop, thread } = self.running.take().expect("a running server");
        stop.send(()).expect("a server that waits to be stopped");
        end(thread).await.expect("a server that fails")
    }

    /// Ends as kill -9 does: peers are told nothing, what was written is kept, what was to be written is not.
    pub async fn kill(&mut self) {
        self.disk = self.disk.kill();
        self.vanish().await;
    }

    /// Ends as by a power loss: what was synced is kept, of the rest what the seed has it.
    pub async fn lose_power(&mut self, seed: u64) {
        self.disk = self.disk.crash(seed);
        self.vanish().await;
    }

    async fn vanish(&mut self) {
        let Running { stop, thread } = self.running.take().expect("a running server");
        drop(stop);
        end(thread).await;
        // Its threads may still be at work on the index, which is not theirs any more.
        if is_sled_wanted() {
            self.index = beside_a_simulated_disk();
        }
    }

    /// Starts again, on the same disk and port.
    pub async fn start_again(&mut self) {
        let (running, ready) = run(self.config.clone(), Arc::new(self.disk.clone()), self.index.clone()).await;
        assert_eq!((ready.address, ready.pin), (self.address, self.pin));
        self.first = ready.first;
        self.running = Some(running);
    }

    /// Stops cleanly and starts again.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    // ---- links --------------------------------------------------------------------------------------------------------

    /// The first invite, until somebody used it.
    pub fn first_link(&self) -> String {
        self.at(&self.first.as_ref().expect("a first invite").to_string(), self.address)
    }

    /// A link that leads to another address, such as a relay's.
    pub fn at(&self, link: &str, address: SocketAddr) -> String {
        let link: Link = link.parse().unwrap();
        Link { address: address.to_string(), ..link }.to_string()
    }

    /// What an answer to an invite says, as a link that leads straight to this server.
    pub fn link(&self, made: &InviteMade) -> String {
        let link = raw::link(made, self.address);
        assert_eq!(link.pin, self.pin);
        link.to_string()
    }

    // ---- people by the raw protocol -----------------------------------------------------------------------------------

    /// Whoever uses the first invite.
    pub async fn raw_operator(&self, handle: &str) -> Key {
        Key::enrol(&self.first_link(), Some(handle)).await.unwrap()
    }

    /// A new user, invited by an operator's connection.
    pub async fn raw_user(&self, by: &mut Raw, handle: &str, group: Option<GroupId>) -> Key {
        let link = self.raw_invite(by, handle, group).await;
        Key::enrol(&link, None).await.unwrap()
    }

    /// A link for a new user.
    pub async fn raw_invite(&self, by: &mut Raw, handle: &str, group: Option<GroupId>) -> String {
        self.link(&by.invite(handle, group).await)
    }

    // ---- people by the client library ---------------------------------------------------------------------------------

    /// A profile that nobody has used yet.
    pub fn new_profile(&self, name: &str) -> Profile {
        let number = self.profiles_made.fetch_add(1, Ordering::Relaxed);
        Profile::at(Arc::clone(&self.profiles), format!("/people/{name}-{number}"))
    }

    /// Whoever uses the first invite.
    pub async fn operator(&self, handle: &str) -> Person {
        Person::enrol(self.new_profile(handle), &self.first_link(), Some(handle)).await.unwrap()
    }

    /// A new user, invited by an operator.
    pub async fn join(&self, by: &Person, handle: &str, group: Option<GroupId>) -> Person {
        self.join_at(by, handle, group, self.address).await
    }

    /// A new user who knows the server by another address, such as a relay's.
    pub async fn join_at(&self, by: &Person, handle: &str, group: Option<GroupId>, address: SocketAddr) -> Person {
        let invite = by.client.invite(handle, group, Duration::from_secs(3_600)).await.unwrap();
        Person::enrol(self.new_profile(handle), &self.at(&invite.link, address), None).await.unwrap()
    }

    /// The smallest scene by the library: ada, who made a group, and bob, who is in it.
    pub async fn team(&self) -> (Person, Person, GroupId) {
        let ada = self.operator("ada").await;
        let group = ada.client.create_group("team", History::FromJoin).await.unwrap();
        let bob = self.join(&ada, "bob", Some(group)).await;
        (ada, bob, group)
    }

    /// Another device of a person.
    pub async fn add_device(&self, of: &Person) -> Person {
        let invite = of.client.add_device(None, Duration::from_secs(3_600)).await.unwrap();
        let link = self.at(&invite.link, self.address);
        Person::enrol(self.new_profile(&of.account.handle), &link, None).await.unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A test that failed must not wait for its server; its runtime is dropped, which ends everything of it.
        if let Some(Running { stop, thread }) = self.running.take() {
            drop(stop);
            drop(thread.join());
        }
    }
}

async fn end(thread: JoinHandle<Option<String>>) -> Option<String> {
    soon("the end of the server", tokio::task::spawn_blocking(|| thread.join())).await.unwrap().unwrap()
}

/// Whether servers on a simulated disk have their index in sled all the same, on the real disk.
fn is_sled_wanted() -> bool {
    std::env::var("GAGGLE_TEST_INDEX").is_ok_and(|index| index == "sled")
}

/// The index of servers on a simulated disk, where nothing is kept but the log.
fn beside_a_simulated_disk() -> IndexOptions {
    let index: Arc<dyn Index> = if is_sled_wanted() { Arc::new(Temporary::new()) } else { Arc::new(MemoryIndex) };
    IndexOptions::of(index)
}

/// An index in sled that goes with the last server that has it.
struct Temporary {
    index: SledIndex,
    _folder: tempfile::TempDir,
}

impl Temporary {
    fn new() -> Temporary {
        let folder = tempfile::tempdir().unwrap();
        Temporary { index: SledIndex::new(folder.path(), Settings::default()), _folder: folder }
    }
}

impl Index for Temporary {
    fn open(&self, store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        self.index.open(store)
    }

    fn begin(&self, store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        self.index.begin(store)
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        self.index.remove_old()
    }
}

async fn run(config: Config, disk: SharedDisk, index: IndexOptions) -> (Running, Ready) {
    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = oneshot::channel();
    let thread = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut server = Server::start_with(config, disk, index, |_| ()).await.unwrap();
            let first = server.first_invite().map(|(_, link)| link.clone());
            drop(ready.send(Ready { address: server.address(), pin: server.pin(), first }));
            tokio::select! {
                failure = server.failed() => {
                    server.abandon().await;
                    Some(failure.to_string())
                }
                // A sender that was dropped pulls the plug: the runtime ends with everything on it.
                stopped = stopped => match stopped {
                    Ok(()) => server.stop().await.err().map(|failure| failure.to_string()),
                    Err(_) => None,
                },
            }
        })
    });
    let thread = thread.unwrap();
    let ready = soon("the start of the server", is_ready).await.expect("a server that starts");
    (Running { stop, thread }, ready)
}

/// Times for tests: a dead link is noticed soon, and connecting again is not put off for long.
pub fn quick() -> ClientOptions {
    ClientOptions {
        idle_timeout: Duration::from_millis(1_500),
        keep_alive: Duration::from_millis(300),
        reconnect_pause: Duration::from_millis(20),
        reconnect_pause_max: Duration::from_millis(200),
        request_timeout: DEADLINE,
        ..ClientOptions::default()
    }
}

/// A device at work.
pub struct Person {
    pub profile: Profile,
    pub account: Account,
    pub client: Client,
}

impl Person {
    /// Enrols and opens the client, which connects when it has something to say.
    pub async fn enrol(profile: Profile, link: &str, handle: Option<&str>) -> Result<Person, EnrolError> {
        let account = Client::enrol(&profile, link, handle, "test", &quick()).await?;
        let client = Client::open(&profile, quick()).await.unwrap();
        Ok(Person { profile, account, client })
    }

    /// Sends a text through the outbox and waits until it is stored.
    pub async fn send(&self, group: GroupId, text: &str) -> MessageId {
        match self.outcome(group, text).await {
            Outcome::Sent { msgid, .. } => msgid,
            other => panic!("{text:?} was not stored: {other:?}"),
        }
    }

    /// Sends a text through the outbox and waits for how that ends.
    pub async fn outcome(&self, group: GroupId, text: &str) -> Outcome {
        let seq = self.client.queue(group, text).await.unwrap();
        soon("the answer to a send", self.client.outcome(seq)).await.unwrap()
    }

    /// The row of a group in the list of conversations.
    pub async fn row(&self, group: GroupId) -> ConversationInfo {
        let all = self.client.conversations(0).await.unwrap().conversations;
        all.into_iter().find(|row| row.group == group).unwrap()
    }

    /// What is unread of a group.
    pub async fn unread(&self, group: GroupId) -> u64 {
        self.row(group).await.unread
    }

    /// Waits until the client is connected again.
    pub async fn back(&self) {
        soon("a connection", async { while self.client.connected().await.is_err() {} }).await;
    }

    /// Listens to everything with this profile, acknowledging each item.
    pub async fn tail(&self) -> Tail {
        self.tail_from(None).await
    }

    /// The same from a position that the application kept.
    pub async fn tail_from(&self, from: Option<Position>) -> Tail {
        let (client, listener) = Client::listen(&self.profile, quick(), Subscription::All, from).await.unwrap();
        Tail { client, listener, acks: Acks::Each, received: Vec::new(), events: Vec::new() }
    }
}

/// When a [`Tail`] acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Each item as it comes.
    Each,
    /// Nothing by itself.
    None,
}

/// What a listener was told so far.
pub struct Tail {
    pub client: Client,
    pub listener: Listener,
    pub acks: Acks,
    /// Items, in the order in which they came.
    pub received: Vec<Received>,
    /// Everything else.
    pub events: Vec<Event>,
}

impl Tail {
    /// Takes the next event; none at the end.
    pub async fn step(&mut self) -> Option<()> {
        let event = self.listener.next().await?;
        match event {
            Event::Item(received) => {
                if self.acks == Acks::Each {
                    self.listener.ack(received.position);
                }
                self.received.push(received);
            }
            other => self.events.push(other),
        }
        Some(())
    }

    /// Takes events until this holds.
    pub async fn until(&mut self, what: &str, mut holds: impl FnMut(&Tail) -> bool) {
        let reached = tokio::time::timeout(DEADLINE, async {
            while !holds(self) {
                assert!(self.step().await.is_some(), "the listener ended before {what}: {:?}", self.events.last());
            }
        });
        if reached.await.is_err() {
            let last = self.received.last().map(|received| &received.item);
            panic!("{what} did not come; {} items, the last {last:?}, events {:?}", self.received.len(), self.events);
        }
    }

    /// Takes events until the item with this number came.
    pub async fn until_msgid(&mut self, group: GroupId, msgid: MessageId) {
        let what = format!("{group}/{msgid}");
        let is_it = |received: &Received| received.item.group == group && received.item.msgid == msgid;
        self.until(&what, |tail| tail.received.last().is_some_and(is_it)).await;
    }

    /// Takes events until the client is told that it is over.
    pub async fn until_ended(&mut self) -> gaggle::client::ConnectError {
        self.until("the end", |tail| matches!(tail.events.last(), Some(Event::Ended(_)))).await;
        match self.events.last() {
            Some(Event::Ended(cause)) => cause.clone(),
            other => panic!("not the end: {other:?}"),
        }
    }

    /// The numbers of the items of a group, in the order in which they came.
    pub fn msgids(&self, group: GroupId) -> Vec<u64> {
        let of_group = self.received.iter().filter(|received| received.item.group == group);
        of_group.map(|received| received.item.msgid.value()).collect()
    }

    /// The texts of a group, in the order in which they came.
    pub fn texts(&self, group: GroupId) -> Vec<&str> {
        let of_group = self.received.iter().filter(|received| received.item.group == group);
        of_group
            .filter_map(|received| match &received.item.content {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The last position that came.
    pub fn position(&self) -> Option<Position> {
        self.received.last().map(|received| received.position)
    }
}

/// A group made by this connection.
pub async fn raw_group(by: &mut Raw, name: &str, policy: u8) -> GroupId {
    let frame = CreateGroup { name: name.to_owned(), policy, extensions: Extensions::default() };
    by.ask::<GroupCreated>(&frame).await.unwrap().gid
}

/// The smallest scene by the raw protocol: ada, who made a group and is connected as a caller, and bob, who is in it.
pub struct Scene {
    pub site: Site,
    pub ada_key: Key,
    pub ada: Raw,
    pub group: GroupId,
    pub bob: Key,
    /// The next number of ada's sends.
    pub next: u64,
}

impl Scene {
    /// Items 1 (created) and 2 (bob joined) are there; members see what comes from their join on.
    pub async fn start() -> Scene {
        Scene::on(Site::start().await).await
    }

    /// The same on this server.
    pub async fn on(site: Site) -> Scene {
        let ada_key = site.raw_operator("ada").await;
        let mut ada = ada_key.call(site.address()).await;
        let group = raw_group(&mut ada, "team", 0).await;
        let bob = site.raw_user(&mut ada, "bob", Some(group)).await;
        Scene { site, ada_key, ada, group, bob, next: 1 }
    }

    /// Ada sends so many texts, as many at once as the window allows, and waits until all are stored. Returns their msgids.
    pub async fn send_many(&mut self, count: u64) -> Vec<u64> {
        let mut stored = Vec::new();
        let end = self.next + count;
        let mut open = std::collections::VecDeque::new();
        while self.next < end || !open.is_empty() {
            while self.next < end && open.len() < 16 {
                let lowest = open.front().map_or(self.next, |(seq, _)| *seq);
                let text = format!("text {}", self.next);
                let request = self.ada.post_text(self.next, lowest, self.group, &text).await;
                open.push_back((self.next, request));
                self.next += 1;
            }
            let (_, request) = open.pop_front().unwrap();
            stored.push(self.ada.answer::<Sent>(request).await.unwrap().msgid.value());
        }
        stored
    }

    /// Ada sends one text.
    pub async fn send(&mut self) -> u64 {
        self.send_many(1).await[0]
    }

    /// Ada sends something of this kind; returns its msgid.
    pub async fn send_what(&mut self, kind: u16, body: &str, extensions: Vec<(u16, Bytes)>) -> u64 {
        let frame = raw::said_frame(self.next, self.next, self.group, kind, body, extensions);
        self.next += 1;
        self.ada.ask::<Sent>(&frame).await.unwrap().msgid.value()
    }

    /// Ada recalls something; returns the msgid of that.
    pub async fn recall(&mut self, msgid: u64) -> u64 {
        let target = msgid_extension(extension::TARGET, MessageId::new(msgid));
        self.send_what(kind::RECALL, "", vec![target]).await
    }

    /// Bob as a listener to whom everything was handed and what comes is pushed.
    pub async fn bob(&self) -> Raw {
        self.bob.follow(self.site.address(), self.group).await
    }

    /// Bob's durable cursor.
    pub async fn bobs_cursor(&self) -> u64 {
        let mut bob = self.bob.call(self.site.address()).await;
        let cursor = bob.cursor(self.group).await;
        bob.close().await;
        cursor
    }

    /// Ada's connection dies with the server; this makes another.
    pub async fn reconnect_ada(&mut self) {
        self.ada = self.ada_key.call(self.site.address()).await;
    }
}
