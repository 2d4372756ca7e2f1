//! Opens a cut with the real server, and holds it to everything that was answered before, over the wire.
//!
//! A sentence that says "was answered" tells of a loss.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gaggle::ids::{GroupId, UserId};
use gaggle::wire::frame::{Extensions, GroupInfo, ListMembers, MemberList};

use crate::disk::{home, mount_cut, place};
use crate::folder::copy;
use crate::load::{Changes, Membership, Notes, Team};
use crate::process::Home;
use crate::raw::Raw;
use crate::window::check_above;

/// What the senders sent again may lie so far below the head, and more.
const TAIL: u64 = 400;

/// What a cut turned out to hold.
#[derive(Debug, Default)]
pub struct Held {
    pub heads: BTreeMap<GroupId, u64>,
    pub opened_in: Duration,
    /// A segment of the log was being made.
    pub was_segment_made: bool,
    /// The index had to be made again.
    pub was_rebuilt: bool,
    pub sends: usize,
}

/// The judgement of one cut; a panic where something is lost.
pub async fn judge(cut: PathBuf, keys: PathBuf, team: Team, notes: Notes, above: BTreeMap<GroupId, u64>) -> Held {
    let place = place();
    let mount = mount_cut(&cut, &place.path().join("disk"));
    let data = mount.path().join("data");
    let mut held = Held { was_segment_made: is_segment_made(&data), ..Held::default() };
    let mut home = home(&data).with("GAGGLE_LOG", "info");
    copy(&keys, &home.keys());
    held.opened_in = home.start().await;
    held.was_rebuilt = home.errors().contains("rebuilt");

    let mut raw = team.ada.call(home.address()).await;
    let mut answered = notes.ledger.snapshot();
    held.sends = answered.len();
    answered.extend(notes.others.clone());
    held.heads = histories(&mut raw, &team, &above, &answered).await;
    are_cursors_kept(&home, &team, &notes).await;
    are_changes_kept(&home, &mut raw, &notes.changes).await;
    for mut window in notes.windows {
        let mut raw = window.connect(home.address()).await;
        window.finish(&mut raw).await;
        window.is_conflict(&mut raw).await;
        raw.close().await;
    }
    // With what was sent again: each once, where it was.
    answered.extend(notes.ledger.snapshot());
    let tails = held.heads.iter().map(|(group, head)| (*group, head.saturating_sub(TAIL))).collect();
    histories(&mut raw, &team, &tails, &answered).await;
    raw.close().await;
    assert_eq!(home.terminate().await.code(), Some(0), "{}", home.errors());
    home.verify();
    held
}

/// Reads what lies above these msgids, and holds it to what was answered; the heads.
async fn histories(
    raw: &mut Raw,
    team: &Team,
    above: &BTreeMap<GroupId, u64>,
    answered: &BTreeMap<(GroupId, String), u64>,
) -> BTreeMap<GroupId, u64> {
    let mut heads = BTreeMap::new();
    for group in &team.groups {
        let after = above.get(group).copied().unwrap_or(0);
        let items = raw.browse(*group, after).await;
        check_above(after, *group, &items, answered);
        heads.insert(*group, after + items.len() as u64);
    }
    heads
}

async fn are_cursors_kept(home: &Home, team: &Team, notes: &Notes) {
    for reader in &team.readers {
        let mut raw = reader.call(home.address()).await;
        for info in raw.groups().await {
            let Some(cursor) = notes.cursors.get(&(reader.device, info.gid)) else { continue };
            let found = info.cursor;
            assert!(found >= *cursor, "the cursor of {} was answered as {cursor}, now it is {found}", info.gid);
        }
        raw.close().await;
    }
}

async fn are_changes_kept(home: &Home, raw: &mut Raw, changes: &Changes) {
    let there: BTreeMap<GroupId, GroupInfo> = raw.groups().await.into_iter().map(|info| (info.gid, info)).collect();
    for (gid, made) in &changes.groups {
        let info = there.get(gid).unwrap_or_else(|| panic!("{gid} was answered as made, it is gone"));
        assert!(made.names.contains(&info.name), "{gid} was answered as {:?}, it is {:?}", made.names, info.name);
        let members = members(raw, *gid).await;
        for (handle, membership) in &made.members {
            let is_in = members.contains(handle);
            let fits = *membership == Membership::Either || (*membership == Membership::In) == is_in;
            assert!(fits, "{handle} was answered as {membership:?} of {gid}, now: {is_in}");
        }
    }
    // One after another that was enrolled is known; the last one was answered last.
    for key in changes.enrolled.iter().rev().take(2) {
        let mut raw = Raw::connect(home.address()).await;
        let welcome = raw.hello(key, crate::raw::Role::Caller).await;
        assert!(welcome.is_ok(), "{} was answered as enrolled: {welcome:?}", key.device);
        raw.close().await;
    }
}

async fn members(raw: &mut Raw, gid: GroupId) -> Vec<String> {
    let asked = ListMembers { gid, after: UserId::ZERO, extensions: Extensions::default() };
    let list = raw.list::<MemberList>(&asked).await.unwrap();
    assert!(!list.more, "these groups are small");
    list.rows.0.into_iter().map(|member| member.handle).collect()
}

/// Whether there is a segment that is not yet one of the log.
fn is_segment_made(data: &Path) -> bool {
    let names = std::fs::read_dir(data.join("log")).unwrap();
    names.into_iter().any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".new"))
}
