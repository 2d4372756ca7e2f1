//! A load for the real server: durable sends, fan-out, catch-up. One JSON line a result.
//!
//! It starts `gaggle serve` on a folder of its own (below `TMPDIR`: choose one on a real disk) and speaks the protocol by
//! itself, so that it measures the server and as little of a client as possible. Modes and options:
//!
//! ```text
//! w1 senders=64 secs=5 groups=100       each sender has one send outstanding, each is answered when durable
//! w2 members=500 secs=5 rate=0          one group, all members listen; rate=0: flat out, 32 sends in flight
//! w3 members=1 items=10000              catch-up in pages of 100, each followed by an ack; the last cursor is awaited
//! conversations groups=5000 changed=50 waiting=1000000
//!                                       the list of them, then what has changed; and what is unread in a full group
//! chat messages=1000000                 words of a real channel: log and index as multiples of the bodies, on the way and
//!                                       when the log has been condensed
//! all                                   the shapes of the table in one go
//! ```
//!
//! Large crowds need `ulimit -n` above three times their number.

#![allow(
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a measurement that meets what it does not expect should end loudly"
)]

mod chat;
mod conversations;
mod fan;
mod options;
#[allow(dead_code, reason = "it is shared with the tests")]
#[path = "../../tests/crash/process.rs"]
mod process;
#[allow(dead_code, reason = "it is shared with the tests")]
#[path = "../../tests/e2e/raw.rs"]
mod raw;
mod result;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests")]
#[path = "../../tests/e2e/replay/script.rs"]
mod script;

use std::time::{Duration, Instant};

use gaggle::ids::GroupId;
use gaggle::wire::frame::{AddMember, CreateGroup, Done, Extensions, GroupCreated};
use tokio::task::JoinSet;

use crate::options::Options;
use crate::process::Home;
use crate::raw::{Key, Pulling, Raw, link};
use crate::result::Run;

/// Bytes of a message, as in the table of peers.
const BODY_BYTES: usize = 200;
/// A team without limits: they are not what is measured.
const SETTINGS: &str = "[limits]\nsends_per_second = 4294967295\nsend_bytes_per_day = 1125899906842624\n\
                        groups_per_day = 4294967295\nadditions_per_day = 4294967295\n";

/// A server, and the connection of whoever owns everything on it.
pub struct Team {
    pub home: Home,
    pub ada: Raw,
    users: u64,
}

impl Team {
    async fn start() -> Team {
        let mut home = Home::new();
        std::fs::write(home.folder().join("gaggle.toml"), SETTINGS).unwrap();
        home.start().await;
        let ada = home.operator().await.call(home.address()).await;
        Team { home, ada, users: 0 }
    }

    pub async fn group(&mut self) -> GroupId {
        let frame = CreateGroup { name: "team".to_owned(), policy: 1, extensions: Extensions::default() };
        self.ada.ask::<GroupCreated>(&frame).await.unwrap().gid
    }

    /// So many new users in these groups; they connect only once all are there, as a connection that waits is given up.
    pub async fn members(&mut self, count: u64, groups: &[GroupId]) -> Vec<Key> {
        let mut keys = Vec::new();
        for _ in 0..count {
            keys.push(self.member(groups).await);
        }
        keys
    }

    async fn member(&mut self, groups: &[GroupId]) -> Key {
        self.users += 1;
        let handle = format!("member{}", self.users);
        let link = link(&self.ada.invite(&handle, groups.first().copied()).await, self.home.address());
        let key = Key::enrol(&link.to_string(), None).await.unwrap();
        let mut asked = Vec::new();
        for gid in groups.iter().skip(1) {
            let frame = AddMember { gid: *gid, handle: handle.clone(), extensions: Extensions::default() };
            asked.push(self.ada.post(&frame).await);
        }
        for request in asked {
            self.ada.answer::<Done>(request).await.unwrap();
        }
        key
    }

    /// Fills a group, a window at a time.
    async fn fill(&mut self, group: GroupId, items: u64) {
        let text = body(0);
        let mut next = 1;
        while next <= items {
            let end = items.min(next + 15);
            let mut asked = Vec::new();
            for seq in next..=end {
                asked.push(self.ada.post_text(seq, next, group, &text).await);
            }
            for request in asked {
                self.ada.answer::<gaggle::wire::frame::Sent>(request).await.unwrap();
            }
            next = end + 1;
        }
    }
}

/// A text of the usual size that begins with a number.
pub fn body(number: u64) -> String {
    let mut text = format!("{number:016x}");
    text.extend(std::iter::repeat_n('x', BODY_BYTES - text.len()));
    text
}

/// Senders with one send outstanding each.
async fn w1(senders: u64, secs: u64, groups: u64) {
    let mut team = Team::start().await;
    let mut all = Vec::new();
    for _ in 0..groups {
        all.push(team.group().await);
    }
    let keys = team.members(senders, &all).await;
    let mut connections = Vec::new();
    for key in keys {
        connections.push(key.call(team.home.address()).await);
    }
    let run = Run::start(team.home.pid());
    let until = Instant::now() + Duration::from_secs(secs);
    let mut tasks = JoinSet::new();
    for (number, mut raw) in connections.into_iter().enumerate() {
        let groups = all.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut seq = 0;
            while Instant::now() < until {
                seq += 1;
                let group = groups[(number * 7_919 + seq as usize) % groups.len()];
                let since = Instant::now();
                raw.send(seq, group, &body(seq)).await.unwrap();
                latencies.push(since.elapsed());
            }
            latencies
        });
    }
    let latencies = tasks.join_all().await.concat();
    run.finish(&format!("gaggle.w1.{senders}"), latencies.len() as u64, latencies, &[]);
}

/// Members who come back and read everything.
async fn w3(members: u64, items: u64) {
    let mut team = Team::start().await;
    let group = team.group().await;
    team.fill(group, items).await;
    let keys = team.members(members, &[group]).await;
    let mut connections = Vec::new();
    for key in keys {
        connections.push(key.listen(team.home.address()).await);
    }
    let run = Run::start(team.home.pid());
    let mut tasks = JoinSet::new();
    for mut raw in connections {
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut after = 0;
            while after < items {
                let since = Instant::now();
                let page = raw.pull(group, after, 100, Pulling::Deliver).await.unwrap();
                assert!(page.covered_to.value() > after);
                after = page.covered_to.value();
                raw.ack(group, after).await;
                latencies.push(since.elapsed());
            }
            raw.cursor_reaches(group, items).await;
            latencies
        });
    }
    let latencies = tasks.join_all().await.concat();
    run.finish(&format!("gaggle.w3.m{members}.p100"), members * items, latencies, &[]);
}

async fn measure(options: &Options) {
    let secs = options.get("secs", 5);
    match options.mode.as_str() {
        "w1" => w1(options.get("senders", 64), secs, options.get("groups", 100)).await,
        "w2" => fan::w2(Team::start().await, options.get("members", 500), secs, options.get("rate", 0)).await,
        "w3" => w3(options.get("members", 1), options.get("items", 10_000)).await,
        "conversations" => {
            let (groups, changed) = (options.get("groups", 5_000), options.get("changed", 50));
            let waiting = options.get("waiting", 1_000_000);
            conversations::conversations(Team::start().await, groups, changed, waiting).await;
        }
        "chat" => chat::chat(Team::start().await, options.get("messages", 1_000_000)).await,
        "all" => {
            w1(64, secs, 100).await;
            w1(1, secs, 100).await;
            fan::w2(Team::start().await, 500, secs, 50).await;
            fan::w2(Team::start().await, 500, secs, 0).await;
            w3(1, 10_000).await;
            w3(1_000, 100).await;
        }
        mode => panic!("{mode:?} is none of w1, w2, w3, conversations, chat, all"),
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&Options::read()));
}
