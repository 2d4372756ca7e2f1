//! The list of conversations: all of it, then only what has changed; and the count of what is unread in a full group.

use std::time::{Duration, Instant};

use gaggle::ids::{GroupId, MessageId};
use gaggle::wire::frame::{
    ConversationList, Conversations, CreateGroup, Extensions, GroupCreated, MarkRead, ReadMark, Sent,
};

use crate::raw::{Key, Raw};
use crate::result::Run;
use crate::{Team, body};

/// Requests of ada under way at once.
const WINDOW: usize = 16;
/// How often each list is asked for.
const ROUNDS: usize = 500;

async fn make_groups(team: &mut Team, count: u64) -> Vec<GroupId> {
    let mut groups = Vec::new();
    while (groups.len() as u64) < count {
        let mut asked = Vec::new();
        for _ in 0..WINDOW {
            let frame = CreateGroup { name: "room".to_owned(), policy: 0, extensions: Extensions::default() };
            asked.push(team.ada.post(&frame).await);
        }
        for request in asked {
            groups.push(team.ada.answer::<GroupCreated>(request).await.unwrap().gid);
        }
    }
    groups.truncate(count as usize);
    groups
}

/// Says something in each of these, the numbers of the sends going on behind this one; returns the last.
async fn say(ada: &mut Raw, groups: &[GroupId], last: u64) -> u64 {
    let text = body(0);
    let mut seq = last;
    for groups in groups.chunks(WINDOW) {
        let lowest = seq + 1;
        let mut asked = Vec::new();
        for group in groups {
            seq += 1;
            asked.push(ada.post_text(seq, lowest, *group, &text).await);
        }
        for request in asked {
            ada.answer::<Sent>(request).await.unwrap();
        }
    }
    seq
}

async fn list(raw: &mut Raw, since: u64) -> (ConversationList, u64) {
    let mut behind = None;
    let mut version = None;
    let mut rows = Vec::new();
    loop {
        let frame = Conversations { since, behind, rows: 0, preview_bytes: 160, extensions: Extensions::default() };
        let mut list: ConversationList = raw.list(&frame).await.unwrap();
        let version = *version.get_or_insert(list.version);
        rows.append(&mut list.rows.0);
        behind = rows.last().map(|row| (row.changed, row.gid));
        if !list.more {
            list.rows.0 = rows;
            return (list, version);
        }
    }
}

/// Asks for the list again and again; it must have so many rows.
async fn measure(team: &Team, raw: &mut Raw, test: &str, since: u64, rows: u64, rounds: usize) {
    let run = Run::start(team.home.pid());
    let mut latencies: Vec<Duration> = Vec::new();
    for _ in 0..rounds {
        let asked = Instant::now();
        let (list, _) = list(raw, since).await;
        latencies.push(asked.elapsed());
        assert_eq!(list.rows.0.len() as u64, rows);
    }
    run.finish(&format!("gaggle.{test}"), rounds as u64, latencies, &[("rows", rows as f64)]);
}

/// See the module.
pub async fn conversations(mut team: Team, groups: u64, changed: u64, waiting: u64) {
    let all = make_groups(&mut team, groups).await;
    let key = team.members(1, &all).await.pop().unwrap();
    let mut seq = say(&mut team.ada, &all, 0).await;
    let mut bob = key.call(team.home.address()).await;
    let (list, version) = list(&mut bob, 0).await;
    assert_eq!(list.rows.0.len() as u64, groups);
    assert!(list.rows.0.iter().all(|row| row.unread == 1 && row.last.is_some()));
    measure(&team, &mut bob, "conversations.all", 0, groups, 10).await;
    measure(&team, &mut bob, "conversations.none", version, 0, ROUNDS).await;
    let step = (groups / changed).max(1) as usize;
    let some: Vec<GroupId> = all.iter().step_by(step).take(changed as usize).copied().collect();
    seq = say(&mut team.ada, &some, seq).await;
    measure(&team, &mut bob, "conversations.changed", version, changed, ROUNDS).await;
    drop(bob);
    full(team, &key, all[0], seq, waiting).await;
}

/// One group with so much waiting, with the read mark at its beginning and in the middle, where the ordinals have to be
/// found.
async fn full(mut team: Team, key: &Key, group: GroupId, last: u64, waiting: u64) {
    let mut seq = last;
    for _ in 0..waiting / 1_000 {
        seq = say(&mut team.ada, &[group; 1_000], seq).await;
    }
    // Only now, as a connection that is idle for so long ends.
    let mut bob = key.call(team.home.address()).await;
    let since = list(&mut bob, 0).await.1;
    say(&mut team.ada, &[group], seq).await;
    measure(&team, &mut bob, "unread.from-the-start", since, 1, ROUNDS).await;
    let middle = MessageId::new(waiting / 2);
    let mark = MarkRead { gid: group, msgid: middle, version: 0, extensions: Extensions::default() };
    assert_eq!(bob.ask::<ReadMark>(&mark).await.unwrap().msgid, middle);
    let (rows, _) = list(&mut bob, since).await;
    // Neither the making of the group nor the join of its member is a message.
    assert!(rows.rows.0[0].unread >= waiting / 2, "{}", rows.rows.0[0].unread);
    measure(&team, &mut bob, "unread.from-the-middle", since, 1, ROUNDS).await;
}
