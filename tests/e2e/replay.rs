//! Real input: five days of a busy channel, replayed by real members over real QUIC on a network that cuts connections at
//! random; the same with messages that are edited, recalled and reacted to, read marks, absences and second devices; and
//! strings that are hard on whoever reads them.
//!
//! Variables: `GAGGLE_REPLAY_SEED` (printed, replays the cuts), `GAGGLE_REPLAY_LOGS` (how many logs, all by default),
//! `GAGGLE_REPLAY_TOGETHER=1` (all logs in one group: 1,282 members, 7 million deliveries), `GAGGLE_REPLAY_LINES` (how many
//! lines of each log are played with changes, 80 by default).

mod changes;
mod crowd;
mod script;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use gaggle::client::{Client, Content, Conversation, History, Say, Standing};
use gaggle::ids::{MessageId, UserId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::crowd::{Act, Conversations, Crowd, Order, STALL};
use self::script::{LOGS, NAUGHTY, Nick, Nicks, Script, Stay, Step, read};
use crate::harness::{Site, variable};
use crate::raw::soon;
use crate::relay::Relay;

/// One of so many steps is followed by a fault of the network or of somebody's process.
const STEPS_PER_FAULT: u32 = 20;
/// One of so many people has a second device.
const TWIN_OF: usize = 4;
/// Texts of one person in a row that are queued together.
const TOGETHER_MAX: usize = 8;

/// What is done to people, drawn anew for each fault.
async fn fault(crowd: &Arc<Crowd>, random: &mut StdRng, members: &[Nick]) {
    let seat = crowd.any_seat(members[random.random_range(0..members.len())], random).await;
    match random.random_range(0..100) {
        0..45 => seat.way.sever(),
        45..60 => seat.way.rebind().await,
        60..75 => seat.orders.send(Order::Restart).await.unwrap(),
        75..85 => {
            seat.way.sever();
            seat.orders.send(Order::Restart).await.unwrap();
        }
        _ => seat.orders.send(Order::GoAway).await.unwrap(),
    }
}

/// Open files that the whole crowd needs: a socket for each person and each way through the relay.
const OPEN_FILES: u64 = 5_000;

/// Raises the limit of this process to what the system allows; many systems begin with 1,024.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let enough = limit.maximum.is_none_or(|files| files >= OPEN_FILES) || variable("GAGGLE_REPLAY_LOGS").is_some();
    assert!(
        enough,
        "the replay needs {OPEN_FILES} open files: raise the hard limit (ulimit -Hn), or set GAGGLE_REPLAY_LOGS=1"
    );
}

/// Plays one group from its first line to its last.
async fn play(crowd: Arc<Crowd>, index: usize, mut random: StdRng) {
    let act = &crowd.acts[index];
    let steps = &act.script.steps;
    let mut marks = act.script.marks.iter().peekable();
    let mut members: Vec<Nick> = Vec::new();
    let mut next = 0;
    while next < steps.len() {
        let nick = steps[next].who();
        let seat = crowd.any_seat(nick, &mut random).await;
        let expected = Script::msgid(next);
        while let Some(mark) = marks.next_if(|mark| mark.before <= next) {
            crowd.mark(crowd.any_seat(mark.by, &mut random).await, act.group, *mark).await;
        }
        match &steps[next] {
            Step::Join(_) => {
                let joined = crowd.add(nick, act.group).await;
                assert!(joined.is_none_or(|msgid| msgid == expected), "joined as {joined:?}, not as {expected}");
                members.push(nick);
                next += 1;
            }
            Step::Leave(_) => {
                let left = crowd.leave(seat, act.group).await;
                assert!(left.is_none_or(|msgid| msgid == expected), "left as {left:?}, not as {expected}");
                members.retain(|member| *member != nick);
                next += 1;
            }
            Step::Say(..) | Step::Edit(..) | Step::Recall(..) | Step::React(..) => {
                let said = steps[next..].iter().map_while(|step| said(step).filter(|_| step.who() == nick));
                let said: Vec<Say> = said.take(TOGETHER_MAX).collect();
                let stored = crowd.say(seat, act.group, &said).await;
                let wanted: Vec<u64> = (expected..expected + said.len() as u64).collect();
                assert_eq!(stored, wanted);
                next += said.len();
            }
        }
        if random.random_ratio(1, STEPS_PER_FAULT) && !members.is_empty() {
            fault(&crowd, &mut random, &members).await;
        }
    }
    for mark in marks {
        crowd.mark(crowd.any_seat(mark.by, &mut random).await, act.group, *mark).await;
    }
}

/// What somebody says in a step, if they do.
fn said(step: &Step) -> Option<Say> {
    let msgid = |target: &u64| MessageId::new(*target);
    match step {
        Step::Join(_) | Step::Leave(_) => None,
        Step::Say(_, text) => Some(Say::text(text)),
        Step::Edit(_, target, text) => Some(Say::Edit { target: msgid(target), text: text.clone() }),
        Step::Recall(_, target) => Some(Say::Recall(msgid(target))),
        Step::React(_, target, reaction) => {
            let (target, word) = (msgid(target), reaction.word.to_owned());
            Some(match reaction.removed {
                true => Say::Unreact { target, reaction: word },
                false => Say::React { target, reaction: word },
            })
        }
    }
}

/// Waits until nothing is missing; fails where something is wrong, or nothing moves any more.
async fn completed(crowd: &Crowd) {
    loop {
        let before = crowd.missing.load(Ordering::Relaxed);
        if before == 0 {
            return;
        }
        tokio::select! {
            () = crowd.complete.notified() => {}
            () = tokio::time::sleep(STALL) => {
                let missing = crowd.missing.load(Ordering::Relaxed);
                assert!(missing < before, "{missing} items are missing, and nothing moves");
            }
        }
    }
}

async fn replay(crowd: &Arc<Crowd>, seed: u64) {
    let mut plays = JoinSet::new();
    for index in 0..crowd.acts.len() {
        let random = StdRng::seed_from_u64(seed.wrapping_add(index as u64));
        plays.spawn(play(Arc::clone(crowd), index, random));
    }
    while let Some(played) = plays.join_next().await {
        played.unwrap();
    }
    // Everybody is needed for the end.
    for (_, seat) in crowd.seated() {
        crowd.client(seat).await;
    }
    completed(crowd).await;
}

/// Who has left a group, and some of the others, browse what they may see.
async fn browse(crowd: &Arc<Crowd>) -> u64 {
    let mut readers = JoinSet::new();
    for (index, act) in crowd.acts.iter().enumerate() {
        for (nick, stays) in &act.script.stays {
            if stays.iter().any(|stay| stay.left.is_some()) || nick % 10 == 0 {
                let (crowd, nick) = (Arc::clone(crowd), *nick);
                readers.spawn(async move { crowd.browse(nick, &crowd.acts[index]).await });
            }
        }
    }
    let mut items = 0;
    while let Some(read) = readers.join_next().await {
        items += read.unwrap();
    }
    items
}

fn acts(nicks: &mut Nicks) -> Vec<Script> {
    let logs = variable("GAGGLE_REPLAY_LOGS").map_or(LOGS.len(), |logs| logs as usize);
    let logs = LOGS.iter().take(logs).map(|log| read(log, nicks));
    match variable("GAGGLE_REPLAY_TOGETHER") {
        Some(1) => vec![Script::of(logs.flatten())],
        _ => logs.map(Script::of).collect(),
    }
}

#[test]
fn every_member_of_a_busy_channel_ends_up_with_exactly_the_items_of_their_stays() {
    // The profiles' disk is in memory: more threads for it would only get in each other's way.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(2).build().unwrap().block_on(replay_all());
}

async fn replay_all() {
    let seed = variable("GAGGLE_REPLAY_SEED").unwrap_or_else(rand::random);
    println!("GAGGLE_REPLAY_SEED={seed}");
    allow_open_files();
    let began = Instant::now();
    let site = Site::start().await;
    let keeper = site.operator("keeper").await;
    let mut nicks = Nicks::default();
    let mut acts = acts(&mut nicks);
    let mut groups = Vec::new();
    for (number, script) in acts.iter_mut().enumerate() {
        script.stays.insert(nicks.len(), vec![Stay { joined: 1, left: None }]);
        groups.push(keeper.client.create_group(&format!("log {number}"), History::FromJoin).await.unwrap());
    }
    let acts: Vec<Act> = acts.into_iter().zip(groups).map(|(script, group)| Act { script, group }).collect();
    let relay = Relay::new(site.address(), seed);
    let crowd = Arc::new(Crowd::new(site, keeper, nicks, acts, relay, Vec::new()));
    played(&crowd, seed).await;
    let delivered = began.elapsed();
    let browsed = browse(&crowd).await;
    finished(&crowd).await;
    println!("{browsed} items browsed; delivered in {delivered:?}, all in {:?}", began.elapsed());
}

/// Plays all, until everybody was told everything.
async fn played(crowd: &Arc<Crowd>, seed: u64) {
    let deliveries = crowd.missing.load(Ordering::Relaxed);
    crowd.seat(crowd.keeper_nick()).await;
    tokio::select! {
        () = replay(crowd, seed) => {}
        () = crowd.faulty.notified() => {}
    }
    assert_eq!(crowd.fault(), None);
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{deliveries} deliveries to {} devices, {} connections, {} restarts",
        crowd.seated().count(),
        count(&crowd.counts.connections),
        count(&crowd.counts.restarts),
    );
}

/// Ends all devices; gives what each of them was told came to.
async fn finished(crowd: &Arc<Crowd>) -> Vec<(Nick, Conversations)> {
    let mut all = Vec::new();
    for (nick, seat) in crowd.seated() {
        let (finish, finished) = oneshot::channel();
        seat.orders.send(Order::Finish(finish)).await.unwrap();
        all.push((nick, soon("the end of a device", finished).await.unwrap()));
    }
    assert_eq!(crowd.fault(), None);
    assert_eq!(crowd.missing.load(Ordering::Relaxed), 0);
    all
}

#[tokio::test]
async fn every_device_of_a_lively_channel_ends_as_the_script_says_and_as_a_fresh_one() {
    let seed = variable("GAGGLE_REPLAY_SEED").unwrap_or_else(rand::random);
    println!("GAGGLE_REPLAY_SEED={seed}");
    let began = Instant::now();
    let site = Site::start().await;
    let keeper = site.operator("keeper").await;
    let mut nicks = Nicks::default();
    let lines = variable("GAGGLE_REPLAY_LINES").map_or(80, |lines| lines as usize);
    let logs = LOGS.map(|log| Vec::from_iter(read(log, &mut nicks).into_iter().take(lines)));
    let mut random = StdRng::seed_from_u64(seed);
    let mut acts = Vec::new();
    for log in logs {
        let script = changes::sprinkled(log, nicks.len(), &mut random);
        let group = keeper.client.create_group("lively", History::FromJoin).await.unwrap();
        acts.push(Act { script, group });
    }
    let twins = (0..nicks.len()).filter(|nick| nick % TWIN_OF == 0).collect();
    let relay = Relay::new(site.address(), seed);
    let crowd = Arc::new(Crowd::new(site, keeper, nicks, acts, relay, twins));
    played(&crowd, seed).await;

    for (nick, seat) in crowd.seated() {
        marks_are_as_they_should(&crowd, nick, &crowd.client(seat).await).await;
    }
    for nick in 0..=crowd.keeper_nick() {
        if crowd.acts.iter().any(|act| act.script.stays.contains_key(&nick)) {
            let (profile, _way) = crowd.new_device(crowd.seat(nick).await).await;
            let fresh = Client::open(&profile, crowd::options()).await.unwrap();
            shows_what_it_should(&crowd, nick, &all_pages(&crowd, nick, &fresh).await);
            fresh.close().await;
        }
    }
    for (nick, conversations) in finished(&crowd).await {
        shows_what_it_should(&crowd, nick, &conversations);
    }
    let steps = || crowd.acts.iter().flat_map(|act| &act.script.steps);
    let count = |of: fn(&Step) -> bool| steps().filter(|step| of(step)).count();
    println!(
        "{} steps, of which {} edits, {} recalls, {} reactions, all in {:?}",
        steps().count(),
        count(|step| matches!(step, Step::Edit(..))),
        count(|step| matches!(step, Step::Recall(..))),
        count(|step| matches!(step, Step::React(..))),
        began.elapsed()
    );
}

/// The acts that somebody has a part in.
fn acts_of(crowd: &Crowd, nick: Nick) -> impl Iterator<Item = &Act> {
    crowd.acts.iter().filter(move |act| act.script.stays.contains_key(&nick))
}

async fn marks_are_as_they_should(crowd: &Crowd, nick: Nick, client: &Client) {
    let listed = client.conversations(0).await.unwrap().conversations;
    for act in acts_of(crowd, nick) {
        let row = listed.iter().find(|row| row.group == act.group).unwrap();
        let (msgid, version) = act.script.mark_of(nick);
        let (expected, group) = ((msgid, version, act.script.unread(nick)), act.group);
        let marked = (row.mark.msgid.value(), row.mark.version, row.unread);
        assert_eq!(marked, expected, "mark, its version, and unread of u{nick} in {group}");
    }
}

/// What a device comes to that was told nothing and browses everything.
async fn all_pages(crowd: &Crowd, nick: Nick, client: &Client) -> Conversations {
    let mut all = Conversations::new();
    for Act { group, .. } in acts_of(crowd, nick) {
        let (conversation, mut after) = (all.entry(*group).or_default(), MessageId::ZERO);
        loop {
            let page = client.pull(*group, after, 0).await.unwrap();
            page.items.iter().for_each(|item| conversation.take(item));
            after = page.covered_to;
            if !page.more {
                break;
            }
        }
    }
    all
}

fn shows_what_it_should(crowd: &Crowd, nick: Nick, conversations: &Conversations) {
    for act in acts_of(crowd, nick) {
        let shown = conversations.get(&act.group).map(shown).unwrap_or_default();
        let expected = messages(crowd, act, nick);
        let other = shown.iter().zip(&expected).find(|(shown, expected)| shown != expected);
        assert!(other.is_none() && shown.len() == expected.len(), "u{nick} in {}: {other:?}", act.group);
    }
}

/// A message as it is compared: msgid, author, the edit and the text, reactions.
type Message = (u64, UserId, Option<(u64, String)>, Vec<(String, Vec<UserId>)>);

/// What somebody must see in the end.
fn messages(crowd: &Crowd, act: &Act, nick: Nick) -> Vec<Message> {
    let by_users = |nicks: &BTreeSet<Nick>| {
        let mut users: Vec<UserId> = nicks.iter().map(|nick| crowd.user(*nick)).collect();
        users.sort_unstable();
        users
    };
    let all = act.script.messages(nick).map(|message| {
        let reactions = message.reactions.iter().map(|(word, nicks)| ((*word).to_owned(), by_users(nicks)));
        let text = message.text.map(|text| (message.edited_by, text));
        (message.msgid, crowd.user(message.author), text, reactions.collect())
    });
    all.collect()
}

/// What a device shows.
fn shown(conversation: &Conversation) -> Vec<Message> {
    let all = conversation.messages().map(|message| {
        let text = match message.text {
            Standing::Original(text) => Some((0, text)),
            Standing::Edited { by, text } => Some((by.value(), text)),
            Standing::Outdated { by, .. } => panic!("the edit {by} is missing"),
            Standing::Recalled => None,
        };
        (message.msgid.value(), message.author, text, message.reactions)
    });
    all.collect()
}

#[tokio::test]
async fn naughty_strings_arrive_byte_for_byte_by_push_and_by_page() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("strings", History::FromJoin).await.unwrap();
    let bob = site.join(&ada, "bob", Some(group)).await;
    let mut tail = bob.tail().await;
    let mut strings: Vec<&str> = NAUGHTY.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(strings.len() > 500);
    strings.extend(["", "\0", "\r\n", NAUGHTY]);
    let mut queued = Vec::new();
    for string in &strings {
        queued.push(ada.client.queue(group, string).await.unwrap());
    }
    let mut last = None;
    for seq in queued {
        match soon("the outcome of a send", ada.client.outcome(seq)).await.unwrap() {
            gaggle::client::Outcome::Sent { msgid, .. } => last = Some(msgid),
            other => panic!("{other:?}"),
        }
    }
    tail.until_msgid(group, last.unwrap()).await;
    assert_same(&tail.texts(group), &strings);

    site.restart().await;
    let mut browsed = Vec::new();
    let mut after = Default::default();
    loop {
        let page = bob.client.pull(group, after, 0).await.unwrap();
        after = page.covered_to;
        browsed.extend(page.items.into_iter().filter_map(|item| match item.content {
            Content::Text(text) => Some(text),
            _ => None,
        }));
        if !page.more {
            break;
        }
    }
    assert_same(&browsed.iter().map(String::as_str).collect::<Vec<_>>(), &strings);
}

/// Names the first difference alone: whole lists of these strings are no sight for a terminal.
fn assert_same(found: &[&str], wanted: &[&str]) {
    let first = found.iter().zip(wanted).find(|(found, wanted)| found != wanted);
    assert_eq!(first, None);
    assert_eq!(found.len(), wanted.len());
}
