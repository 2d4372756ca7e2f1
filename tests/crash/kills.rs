//! The real program, killed at random moments under load, again and again on the same folder.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gaggle::client::{Client, Content, Event, Outcome, Profile, Subscription};
use gaggle::disk::SharedDisk;
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::ids::{GroupId, MessageId};
use gaggle::wire::frame::{Cursors, Done, Frame as _};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::{Person, crash_seed, quick, raw_group, rounds};
use crate::process::Home;
use crate::raw::{Key, Pulling, Raw, add, soon};
use crate::window::{Ledger, Window, check};

const GROUPS: usize = 3;
/// Kills in an ordinary run, those while the server opens its folder included.
const KILLS: u64 = 30;
/// Sends of one device of the library that wait for their answers.
const LIBRARY_OPEN: usize = 6;
/// Sends of one device of the library between two kills, at the most.
const LIBRARY_SENDS: usize = 50;

/// Whether there is a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Up,
    Down,
    /// It is up, and will not be killed again: finish.
    Over,
}

/// Waits until the server is up; false once it will not be killed again.
async fn is_up(life: &mut watch::Receiver<Life>) -> bool {
    *life.wait_for(|life| *life != Life::Down).await.unwrap() == Life::Up
}

/// Sends by the protocol, a full window at any time.
async fn send_raw(
    mut window: Window,
    server: SocketAddr,
    mut life: watch::Receiver<Life>,
    mut most: watch::Receiver<u64>,
) {
    while is_up(&mut life).await {
        tokio::select! {
            changed = life.changed() => changed.unwrap(),
            () = send_in_one_life(&mut window, server, &mut most) => panic!("a connection ended while the server was up"),
        }
    }
    let mut raw = window.connect(server).await;
    window.finish(&mut raw).await;
}

/// Rests while all together have so many answers, so that the history stays one that can be read at each kill.
async fn send_in_one_life(window: &mut Window, server: SocketAddr, most: &mut watch::Receiver<u64>) {
    let mut raw = window.connect(server).await;
    while window.step(&mut raw).await.is_some() {
        most.wait_for(|most| window.ledger.count() < *most).await.unwrap();
    }
}

/// Every cursor that was answered, and how many answers there were.
#[derive(Default)]
struct Answered {
    cursors: BTreeMap<GroupId, MessageId>,
    count: u64,
}

/// Pulls and acknowledges everything, and holds the server to every cursor that it ever answered.
async fn acknowledge(key: Key, server: SocketAddr, mut life: watch::Receiver<Life>) -> u64 {
    let mut answered = Answered::default();
    while is_up(&mut life).await {
        tokio::select! {
            changed = life.changed() => changed.unwrap(),
            () = acknowledge_in_one_life(&mut answered, &key, server) => panic!("it goes on for ever"),
        }
    }
    answered.count
}

async fn acknowledge_in_one_life(answered: &mut Answered, key: &Key, server: SocketAddr) {
    let mut raw = key.listen(server).await;
    let listed = raw.groups().await;
    let mut handed: BTreeMap<GroupId, MessageId> = listed.iter().map(|info| (info.gid, info.cursor)).collect();
    for (group, cursor) in &answered.cursors {
        assert!(handed[group] >= *cursor, "the cursor of {group} was {cursor}, now it is {}", handed[group]);
    }
    loop {
        let mut acks = Vec::new();
        for (group, after) in &mut handed {
            let page = raw.pull(*group, after.value(), 50, Pulling::Deliver).await.unwrap();
            if page.covered_to > *after {
                *after = page.covered_to;
                acks.push((*group, page.covered_to.value()));
            }
        }
        if acks.is_empty() {
            continue;
        }
        raw.ack_all(&acks).await;
        let frame = raw.answers.find(|frame| frame.kind == Cursors::TYPE).await.expect("cursors");
        for (group, cursor) in frame.decode::<Cursors>().unwrap().entries {
            let before = answered.cursors.insert(group, cursor).unwrap_or(MessageId::ZERO);
            assert!(before <= cursor, "the cursor of {group} was {before}, now it is {cursor}");
            answered.count += 1;
        }
    }
}

/// Sends with the library, which finds its way through every kill by itself. Rests where it has so many answers as it may
/// have until the next kill, for the same reason.
async fn send_with_library(
    person: Person,
    name: String,
    groups: Vec<GroupId>,
    ledger: Ledger,
    life: watch::Receiver<Life>,
    mut most: watch::Receiver<usize>,
) {
    let mut open = VecDeque::new();
    let mut number = 0_usize;
    loop {
        let is_over = *life.borrow() == Life::Over;
        if open.is_empty() {
            if is_over {
                return;
            }
            most.wait_for(|most| number < *most).await.unwrap();
        }
        if !is_over && open.len() < LIBRARY_OPEN && number < *most.borrow() {
            let (group, text) = (groups[number % groups.len()], format!("{name} {number}"));
            number += 1;
            open.push_back((person.client.queue(group, &text).await.unwrap(), group, text));
            continue;
        }
        let (seq, group, text) = open.pop_front().unwrap();
        match soon("the outcome of a send", person.client.outcome(seq)).await.unwrap() {
            Outcome::Sent { msgid, .. } => ledger.answered(group, &text, msgid.value()),
            other => panic!("{text:?} ended as {other:?}"),
        }
    }
}

/// Listens with the library until it has everything of every group up to its head at the end.
async fn listen_with_library(profile: Profile, mut heads: watch::Receiver<Option<BTreeMap<GroupId, u64>>>) -> u64 {
    let (client, mut listener) = Client::listen(&profile, quick(), Subscription::All, None).await.unwrap();
    let mut last: BTreeMap<GroupId, u64> = BTreeMap::new();
    let mut texts = 0;
    loop {
        let is_complete = heads
            .borrow()
            .as_ref()
            .is_some_and(|heads| heads.iter().all(|(group, head)| last.get(group) == Some(head)));
        if is_complete {
            client.close().await;
            return texts;
        }
        let event = tokio::select! {
            event = soon("an event", listener.next()) => event.expect("a listener that goes on"),
            changed = heads.changed() => {
                changed.unwrap();
                continue;
            }
        };
        if let Event::Item(received) = event {
            let msgid = received.item.msgid.value();
            let before = last.insert(received.item.group, msgid);
            assert!(before.is_none_or(|before| before + 1 == msgid), "m{msgid} came after m{before:?}");
            assert!(!received.seen_before, "m{msgid} came again within one process");
            texts += u64::from(matches!(received.item.content, Content::Text(_)));
            listener.ack(received.position);
        }
    }
}

/// The people and groups of the test, and the connection that reads everything.
struct Team {
    ada: Key,
    groups: Vec<GroupId>,
}

impl Team {
    async fn new(home: &Home) -> Team {
        let ada = home.operator().await;
        let mut raw = ada.call(home.address()).await;
        let mut groups = Vec::new();
        for number in 0..GROUPS {
            groups.push(raw_group(&mut raw, &format!("group {number}"), 1).await);
        }
        raw.close().await;
        Team { ada, groups }
    }

    async fn add_everywhere(&self, raw: &mut Raw, handle: &str) {
        for gid in &self.groups[1..] {
            raw.ask::<Done>(&add(*gid, handle)).await.unwrap();
        }
    }

    /// Holds the whole history to what was answered before it is read.
    async fn check(&self, home: &Home, by_protocol: &Ledger, by_library: &[Ledger]) -> BTreeMap<GroupId, u64> {
        let mut answered = by_protocol.snapshot();
        by_library.iter().for_each(|ledger| answered.append(&mut ledger.snapshot()));
        let mut raw = self.ada.call(home.address()).await;
        let mut heads = BTreeMap::new();
        for group in &self.groups {
            let items = raw.browse(*group, 0).await;
            check(*group, &items, &answered);
            heads.insert(*group, items.len() as u64);
        }
        raw.close().await;
        heads
    }
}

#[tokio::test]
async fn what_was_answered_outlives_kills_under_load_and_while_the_server_opens() {
    let mut random = StdRng::seed_from_u64(crash_seed());
    let began = Instant::now();
    let mut home = Home::new().without_sync();
    home.start().await;
    let team = Team::new(&home).await;
    let server = home.address();
    let (life, lives) = watch::channel(Life::Up);
    let (most, mosts) = watch::channel(0);
    let (library_most, library_mosts) = watch::channel(0);
    let (by_protocol, mut by_library) = (Ledger::new(), Vec::new());

    let mut tasks = JoinSet::new();
    let mut listeners = JoinSet::new();
    let mut raw = team.ada.call(server).await;
    for (number, group) in team.groups.iter().enumerate() {
        let key = home.user(&mut raw, &format!("raw{number}"), team.groups[0]).await;
        team.add_everywhere(&mut raw, &key.handle).await;
        tasks.spawn(send_raw(Window::new(key, *group, by_protocol.clone()), server, lives.clone(), mosts.clone()));
    }
    let reader = home.user(&mut raw, "reader", team.groups[0]).await;
    team.add_everywhere(&mut raw, &reader.handle).await;
    let acks = tokio::spawn(acknowledge(reader, server, lives.clone()));
    let profiles: SharedDisk = std::sync::Arc::new(SimulatedDisk::new());
    let (heads, final_heads) = watch::channel(None);
    for number in 0..2 {
        let name = format!("person{number}");
        let link = home.invite(&mut raw, &name, team.groups[0]).await;
        let person = Person::enrol(Profile::at(profiles.clone(), format!("/{name}")), &link, None).await.unwrap();
        team.add_everywhere(&mut raw, &name).await;
        let other = person.client.add_device(None, Duration::from_secs(600)).await.unwrap();
        let other_profile = Profile::at(profiles.clone(), format!("/{name}-other"));
        let other = Person::enrol(other_profile, &home.here(&other.link), None).await.unwrap();
        listeners.spawn(listen_with_library(person.profile.clone(), final_heads.clone()));
        for (device, person) in [("a", person), ("b", other)] {
            let ledger = Ledger::new();
            by_library.push(ledger.clone());
            tasks.spawn(send_with_library(
                person,
                format!("{name}{device}"),
                team.groups.clone(),
                ledger,
                lives.clone(),
                library_mosts.clone(),
            ));
        }
    }
    raw.close().await;

    let kills = rounds(KILLS);
    let (mut down, mut starts) = (Duration::ZERO, 0);
    let mut kill = 0;
    while kill < kills {
        library_most.send((kill as usize + 1) * LIBRARY_SENDS).unwrap();
        // In turn, so that each device finds back at least every so many kills.
        let in_turn = &by_library[kill as usize % by_library.len()];
        in_turn.reaches(in_turn.count() + random.random_range(1..12)).await;
        let enough = by_protocol.count() + random.random_range(20..300);
        most.send(enough + 1_000).unwrap();
        by_protocol.reaches(enough).await;
        // The moment is part of what is tested: anywhere within a batch or between two.
        tokio::time::sleep(Duration::from_micros(random.random_range(0..15_000))).await;
        home.kill();
        life.send(Life::Down).unwrap();
        most.send(by_protocol.count()).unwrap();
        if kill % 10 == 5 {
            home.verify();
        }
        kill += 1;
        // Every third is at some moment of the opening that follows.
        if kill % 3 == 2 {
            let usual = down.checked_div(starts).unwrap_or(Duration::from_millis(100)).as_micros() as u64;
            home.start_and_kill(Duration::from_micros(random.random_range(0..usual + usual / 4))).await;
            kill += 1;
        }
        down += home.start().await;
        starts += 1;
        life.send(Life::Up).unwrap();
        team.check(&home, &by_protocol, &by_library).await;
        println!("kill {kill} at {:?}: {} sends", began.elapsed(), by_protocol.count());
        if let Some(ended) = tasks.try_join_next() {
            panic!("a sender ended early: {ended:?}");
        }
    }
    most.send(u64::MAX).unwrap();
    life.send(Life::Over).unwrap();
    library_most.send(usize::MAX).unwrap();
    while let Some(ended) = soon("the last answers", tasks.join_next()).await {
        ended.unwrap();
    }
    let cursors = soon("the end of the reader", acks).await.unwrap();
    heads.send(Some(team.check(&home, &by_protocol, &by_library).await)).unwrap();
    let mut texts = Vec::new();
    while let Some(ended) = soon("the last items", listeners.join_next()).await {
        texts.push(ended.unwrap());
    }
    home.kill();
    home.verify();
    // A stop soon after an opening that had to replay leaves all in order too.
    home.start().await;
    assert!(home.terminate().await.success(), "{}", home.errors());
    home.verify();
    let library: usize = by_library.iter().map(|ledger| ledger.snapshot().len()).sum();
    println!(
        "{kills} kills: {} sends answered by the protocol, {library} by the library, {cursors} cursors answered, listeners \
         got {texts:?} texts; a start took {:?}, all took {:?}",
        by_protocol.snapshot().len(),
        down / starts,
        began.elapsed()
    );
}
