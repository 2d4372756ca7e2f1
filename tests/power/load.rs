//! Clients at work, which write down every answer.
//!
//! All of them run on the one thread of the test, so what is written down at any moment is what was answered by then.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gaggle::client::{Outcome, Profile};
use gaggle::disk::SharedDisk;
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::ids::{DeviceId, GroupId, MessageId};
use gaggle::wire::frame::{AddMember, Cursors, Done, Extensions, Frame as _, Heads, Push, RemoveMember, RenameGroup};
use gaggle::wire::item::{Item, kind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::{Person, raw_group};
use crate::process::Home;
use crate::raw::{Key, Pulling, Raw, Role, link, pushed_items, soon};
use crate::window::{Ledger, Window};

const GROUPS: usize = 3;
/// Bytes by which the texts of each sending device are longer: small ones, and a full window.
const PADDING: [usize; 4] = [0, 200, 900, 1_500];
/// Sends of one device of the library that wait for their answers.
const LIBRARY_OPEN: usize = 4;
/// Answers to sends between two changes to groups.
const BETWEEN_CHANGES: u64 = 30;

/// Whether somebody is in a group, as far as it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    In,
    Out,
    /// Asked for and not answered.
    Either,
}

/// A group that was made while the load ran.
#[derive(Debug, Clone)]
pub struct Made {
    /// Its name, or one of these where a new one was asked for and not answered.
    pub names: Vec<String>,
    pub members: BTreeMap<String, Membership>,
}

/// Every change to groups, users and devices that was answered.
#[derive(Clone, Default)]
pub struct Changes {
    pub groups: BTreeMap<GroupId, Made>,
    pub enrolled: Vec<Key>,
    begun: u64,
}

/// Everything that was answered to anybody by one moment.
pub struct Notes {
    /// Each sending device, to go on from that moment by itself.
    pub windows: Vec<Window>,
    /// Where those go on writing.
    pub ledger: Ledger,
    /// Texts with their msgids that were answered to the library, or shown to a listener.
    pub others: BTreeMap<(GroupId, String), u64>,
    pub cursors: BTreeMap<(DeviceId, GroupId), MessageId>,
    pub changes: Changes,
}

/// Who can be asked about everything.
#[derive(Clone)]
pub struct Team {
    pub ada: Key,
    pub groups: Vec<GroupId>,
    pub readers: Vec<Key>,
}

type Shared<T> = Arc<Mutex<T>>;

/// A team at work.
pub struct Load {
    pub team: Team,
    /// What the senders by the protocol were answered.
    pub ledger: Ledger,
    library: Vec<Ledger>,
    shown: Ledger,
    senders: Vec<Shared<Window>>,
    cursors: Shared<BTreeMap<(DeviceId, GroupId), MessageId>>,
    changes: Shared<Changes>,
    is_up: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Makes the team; nobody does anything yet.
    pub async fn new(home: &Home) -> Load {
        let (is_up, up) = watch::channel(false);
        let server = home.address();
        let ada = home.operator().await;
        let mut raw = ada.call(server).await;
        let mut groups = Vec::new();
        for number in 0..GROUPS {
            groups.push(raw_group(&mut raw, &format!("group {number}"), 1).await);
        }
        let mut readers = Vec::new();
        for number in 0..2 {
            readers.push(join(home, &mut raw, &groups, &format!("reader{number}")).await);
        }
        let team = Team { ada, groups, readers };
        let mut load = Load {
            team,
            ledger: Ledger::new(),
            library: Vec::new(),
            shown: Ledger::new(),
            senders: Vec::new(),
            cursors: Shared::default(),
            changes: Shared::default(),
            is_up,
            tasks: JoinSet::new(),
        };
        load.start_raw(home, &mut raw, &up).await;
        load.start_library(home, &mut raw, &up).await;
        raw.close().await;
        load
    }

    async fn start_raw(&mut self, home: &Home, raw: &mut Raw, up: &watch::Receiver<bool>) {
        let server = home.address();
        for (number, padding) in PADDING.into_iter().enumerate() {
            let group = self.team.groups[number % GROUPS];
            let key = join(home, raw, &self.team.groups, &format!("sender{number}")).await;
            let window = Arc::new(Mutex::new(Window::new(key, group, self.ledger.clone()).padded(padding)));
            self.senders.push(window.clone());
            self.tasks.spawn(while_up(up.clone(), move || send(window.clone(), server)));
        }
        for (key, is_pushed_to) in self.team.readers.clone().into_iter().zip([false, true]) {
            let (cursors, shown) = (self.cursors.clone(), self.shown.clone());
            let reading = move || {
                let reader = Reader { key: key.clone(), cursors: cursors.clone(), shown: shown.clone() };
                async move { if is_pushed_to { reader.is_pushed_to(server).await } else { reader.pulls(server).await } }
            };
            self.tasks.spawn(while_up(up.clone(), reading));
        }
        let (ada, changes, ledger) = (self.team.ada.clone(), self.changes.clone(), self.ledger.clone());
        self.tasks.spawn(while_up(up.clone(), move || change(ada.clone(), server, changes.clone(), ledger.clone())));
    }

    async fn start_library(&mut self, home: &Home, raw: &mut Raw, up: &watch::Receiver<bool>) {
        let profiles: SharedDisk = Arc::new(SimulatedDisk::new());
        for number in 0..2 {
            let name = format!("person{number}");
            let link = home.invite(raw, &name, self.team.groups[0]).await;
            let profile = Profile::at(profiles.clone(), format!("/{name}"));
            let person = Person::enrol(profile, &link, None).await.unwrap();
            let ledger = Ledger::new();
            self.library.push(ledger.clone());
            self.tasks.spawn(send_with_library(person, name, self.team.groups[0], ledger, up.clone()));
        }
    }

    /// Everybody works, or rests; what is unanswered stays so.
    pub fn set_up(&self, is_up: bool) {
        self.is_up.send_replace(is_up);
    }

    /// Whoever has ended has failed.
    pub fn goes_on(&mut self) {
        if let Some(ended) = self.tasks.try_join_next() {
            panic!("a client ended: {ended:?}");
        }
    }

    /// Everything that was answered by now.
    pub fn notes(&self) -> Notes {
        let ledger = self.ledger.fork();
        let windows = self.senders.iter().map(|window| window.lock().unwrap().fork(ledger.clone())).collect();
        let mut others = self.shown.snapshot();
        self.library.iter().for_each(|ledger| others.append(&mut ledger.snapshot()));
        let cursors = self.cursors.lock().unwrap().clone();
        Notes { windows, ledger, others, cursors, changes: self.changes.lock().unwrap().clone() }
    }
}

/// A new user, in all groups.
async fn join(home: &Home, raw: &mut Raw, groups: &[GroupId], handle: &str) -> Key {
    let key = home.user(raw, handle, groups[0]).await;
    for gid in &groups[1..] {
        add(raw, *gid, handle).await;
    }
    key
}

async fn add(raw: &mut Raw, gid: GroupId, handle: &str) {
    raw.ask::<Done>(&AddMember { gid, handle: handle.to_owned(), extensions: Extensions::default() }).await.unwrap();
}

/// Works whenever it may, beginning anew each time.
async fn while_up<W: Future<Output = ()>>(mut up: watch::Receiver<bool>, mut work: impl FnMut() -> W) {
    while up.wait_for(|is_up| *is_up).await.is_ok() {
        tokio::select! {
            biased;
            _ = up.changed() => {}
            () = work() => panic!("a connection ended while the server was up"),
        }
    }
}

/// A full window at any time.
async fn send(window: Shared<Window>, server: SocketAddr) {
    let key = window.lock().unwrap().key.clone();
    let mut raw = Raw::connect(server).await;
    let welcome = raw.hello(&key, Role::Caller).await.unwrap();
    window.lock().unwrap().welcomed(&welcome);
    loop {
        let frames = window.lock().unwrap().due(|| raw.next_request());
        for frame in frames {
            raw.write(frame).await;
        }
        let Some(answer) = raw.answers.next().await else { return };
        window.lock().unwrap().took(&answer);
    }
}

async fn send_with_library(
    person: Person,
    name: String,
    group: GroupId,
    ledger: Ledger,
    mut up: watch::Receiver<bool>,
) {
    let mut open = std::collections::VecDeque::new();
    for number in 0.. {
        if up.wait_for(|is_up| *is_up).await.is_err() {
            return;
        }
        let text = format!("{name} {number}");
        open.push_back((person.client.queue(group, &text).await.unwrap(), text));
        if open.len() < LIBRARY_OPEN {
            continue;
        }
        let (seq, text) = open.pop_front().unwrap();
        match soon("the outcome of a send", person.client.outcome(seq)).await.unwrap() {
            Outcome::Sent { msgid, .. } => ledger.answered(group, &text, msgid.value()),
            other => panic!("{text:?} ended as {other:?}"),
        }
    }
}

/// A listener, which writes down what it is shown and each cursor that it is answered.
struct Reader {
    key: Key,
    cursors: Shared<BTreeMap<(DeviceId, GroupId), MessageId>>,
    shown: Ledger,
}

impl Reader {
    fn is_shown(&self, items: &[Item]) {
        for item in items.iter().filter(|item| item.kind == kind::TEXT) {
            self.shown.answered(item.gid, &String::from_utf8_lossy(&item.body), item.msgid.value());
        }
    }

    /// Waits for cursors.
    async fn is_answered(&self, raw: &mut Raw) {
        let frame = raw.answers.find(|frame| frame.kind == Cursors::TYPE).await.expect("cursors");
        for (group, cursor) in frame.decode::<Cursors>().unwrap().entries {
            let before = self.cursors.lock().unwrap().insert((self.key.device, group), cursor);
            assert!(
                before.is_none_or(|before| before <= cursor),
                "the cursor of {group} went from {before:?} to {cursor}"
            );
        }
    }

    /// A page of what comes after; whether there was anything.
    async fn pull(&self, raw: &mut Raw, group: GroupId, after: &mut MessageId) -> bool {
        let page = raw.pull(group, after.value(), 50, Pulling::Deliver).await.unwrap();
        self.is_shown(&page.items);
        let is_further = page.covered_to > *after;
        *after = page.covered_to.max(*after);
        is_further
    }

    /// Pulls and acknowledges, group after group.
    async fn pulls(&self, server: SocketAddr) {
        let mut raw = self.key.listen(server).await;
        let mut handed = cursors(&mut raw).await;
        loop {
            let mut acks = Vec::new();
            for (group, after) in &mut handed {
                if self.pull(&mut raw, *group, after).await {
                    acks.push((*group, after.value()));
                }
            }
            if acks.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            raw.ack_all(&acks).await;
            self.is_answered(&mut raw).await;
        }
    }

    /// Takes what is pushed, and pulls where a push left something out.
    async fn is_pushed_to(&self, server: SocketAddr) {
        let mut raw = self.key.listen(server).await;
        let mut handed = cursors(&mut raw).await;
        raw.subscribe().await;
        loop {
            let mut acks = Vec::new();
            for (group, after) in &mut handed {
                while self.pull(&mut raw, *group, after).await {
                    acks.push((*group, after.value()));
                }
            }
            loop {
                if !acks.is_empty() {
                    raw.ack_all(&std::mem::take(&mut acks)).await;
                    self.is_answered(&mut raw).await;
                }
                let frame = raw.pushed_frame().await;
                if frame.kind == Push::TYPE {
                    let items = pushed_items(&frame.decode::<Push>().unwrap());
                    self.is_shown(&items);
                    for item in items {
                        let after = handed.entry(item.gid).or_insert(MessageId::ZERO);
                        *after = item.msgid.max(*after);
                        acks.push((item.gid, item.msgid.value()));
                    }
                } else if frame.kind == Heads::TYPE {
                    break;
                }
            }
        }
    }
}

/// The durable cursors of a connection's device.
async fn cursors(raw: &mut Raw) -> BTreeMap<GroupId, MessageId> {
    raw.groups().await.into_iter().map(|info| (info.gid, info.cursor)).collect()
}

/// Makes groups, users and devices, adds, removes and renames; one thing at a time.
async fn change(ada: Key, server: SocketAddr, changes: Shared<Changes>, ledger: Ledger) {
    let mut raw = ada.call(server).await;
    loop {
        let number = {
            let mut changes = changes.lock().unwrap();
            changes.begun += 1;
            changes.begun
        };
        let (name, handle) = (format!("made {number}"), format!("x{number}"));
        let gid = raw_group(&mut raw, &name, 1).await;
        let member = |how| {
            changes.lock().unwrap().groups.get_mut(&gid).unwrap().members.insert(handle.clone(), how);
        };
        changes.lock().unwrap().groups.insert(gid, Made { names: vec![name], members: BTreeMap::new() });

        member(Membership::Either);
        let link = link(&raw.invite(&handle, Some(gid)).await, server);
        let key = Key::enrol(&link.to_string(), None).await.unwrap();
        changes.lock().unwrap().enrolled.push(key);
        member(Membership::In);

        let new = format!("renamed {number}");
        changes.lock().unwrap().groups.get_mut(&gid).unwrap().names.push(new.clone());
        let frame = RenameGroup { gid, name: new.clone(), extensions: Extensions::default() };
        raw.ask::<Done>(&frame).await.unwrap();
        changes.lock().unwrap().groups.get_mut(&gid).unwrap().names = vec![new];

        member(Membership::Either);
        let frame = RemoveMember { gid, handle: handle.clone(), extensions: Extensions::default() };
        raw.ask::<Done>(&frame).await.unwrap();
        member(Membership::Out);
        if number % 2 == 0 {
            member(Membership::Either);
            add(&mut raw, gid, &handle).await;
            member(Membership::In);
        }
        ledger.reaches(ledger.count() + BETWEEN_CHANGES).await;
    }
}
