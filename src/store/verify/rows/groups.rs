//! Members with their stays, the groups of each user, and how far everybody has come in them.

use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits::INTERVALS_MAX;
use crate::store::engine::EngineError;
use crate::store::keys;
use crate::store::records::{CursorRecord, IntervalRecord, MemberRecord, member_extension, policy, role};
use crate::store::tree::Tree;
use crate::store::verify::row::{self, Border};
use crate::store::verify::rows::Rows;

/// Stands in a cursor for an ordinal that was not known.
const UNKNOWN: u64 = u64::MAX;

impl Rows<'_, '_> {
    pub(super) fn members(&mut self) -> Result<(), EngineError> {
        let mut failed = Ok(());
        self.each(Tree::Members, |rows, key, value, _| {
            let (Ok((group, user)), Ok(record)) = (keys::parse_member(key), MemberRecord::decode(value)) else {
                return;
            };
            rows.members.insert((group, user));
            if failed.is_ok() {
                failed = rows.member(group, user, &record);
            }
        })?;
        failed?;
        let is_ownerless = |group: &GroupId, has_owner: bool| !has_owner && group.pair().is_none();
        let owned = self.owned.iter().filter(|(group, has_owner)| is_ownerless(group, **has_owner));
        let ownerless: Vec<GroupId> = owned.map(|(group, _)| *group).collect();
        for group in ownerless {
            self.report.rows(format!("{group} has members, but no owner"));
        }
        Ok(())
    }

    /// What the marks of a member and the role say beside the stays.
    fn standing(&mut self, group: GroupId, user: UserId, record: &MemberRecord) {
        if group > GroupId::COUNTED_MAX && group.partner_of(user).is_none() {
            self.report.rows(format!("{group} {user}: a member of a direct chat that is not theirs"));
        }
        let is_present = is_present(record);
        let marked = |mark| record.extensions.find(mark).is_some();
        if is_present && marked(member_extension::BANNED) {
            self.report.rows(format!("{group} {user}: banned, but in the group"));
        }
        if marked(member_extension::MUTED) && (!is_present || record.role == role::OWNER) {
            self.report.rows(format!("{group} {user}: muted, but no member who could be"));
        }
        if is_present {
            *self.owned.entry(group).or_default() |= record.role == role::OWNER;
        }
    }

    fn member(&mut self, group: GroupId, user: UserId, record: &MemberRecord) -> Result<(), EngineError> {
        self.check_user(user, &format!("a member of {group} is"));
        if !(role::OWNER..=role::MEMBER).contains(&record.role) {
            self.report.rows(format!("{group} {user}: no role has the number {}", record.role));
        }
        if self.is_deleted(user) && is_present(record) {
            self.report.rows(format!("{group} {user}: a member, but deleted"));
        }
        let Some(head) = self.head(group) else {
            self.report.rows(format!("{user} is a member of {group}, which does not exist"));
            return Ok(());
        };
        self.standing(group, user, record);
        let stays = record.intervals.len();
        if stays == 0 || stays > INTERVALS_MAX {
            self.report.rows(format!("{group} {user}: a member of {stays} stays"));
        }
        let mut ended = MessageId::ZERO;
        for (index, stay) in record.intervals.iter().enumerate() {
            self.order(group, user, stay, ended, index + 1 == stays);
            ended = stay.left.unwrap_or(stay.joined);
            if stay.joined > head || ended > head {
                let what = format!("{group} {user}: the stay from {} goes beyond the head {head}", stay.joined);
                self.report.rows(what);
                continue;
            }
            self.border(group, user, stay.joined, Border::Join(user), stay.content_before)?;
            if let Some(left) = stay.left {
                self.border(group, user, left, Border::Leave(user), stay.content_until)?;
            }
        }
        Ok(())
    }

    /// A stay by itself, and behind the one before.
    fn order(&mut self, group: GroupId, user: UserId, stay: &IntervalRecord, ended: MessageId, is_last: bool) {
        let joined = stay.joined;
        if joined <= ended {
            self.report
                .rows(format!("{group} {user}: the stay from {joined} begins before {ended}, where another ended"));
        }
        match stay.left {
            None if !is_last => {
                self.report.rows(format!("{group} {user}: the stay from {joined} is open, but another follows"));
            }
            Some(left) if left <= joined => {
                self.report.rows(format!("{group} {user}: the stay from {joined} ends before that, at {left}"));
            }
            Some(_) if stay.content_until < stay.content_before => {
                self.report.rows(format!("{group} {user}: in the stay from {joined} the count of content items falls"));
            }
            Some(_) | None => {}
        }
        if ![policy::FROM_JOIN, policy::FULL_HISTORY].contains(&stay.policy) {
            self.report.rows(format!("{group} {user}: no history policy has the number {}", stay.policy));
        }
    }

    /// A border of a stay is the item that says so, and the content items before it are as many as the stay says.
    fn border(
        &mut self,
        group: GroupId,
        user: UserId,
        msgid: MessageId,
        border: Border,
        content: u64,
    ) -> Result<(), EngineError> {
        if self.groups.get(&group).is_some_and(|row| msgid < row.first_kept) {
            return Ok(());
        }
        let Some((item, meaning)) = self.item(group, msgid)? else {
            self.report.rows(format!("{group} {user}: {msgid}, the border of a stay, is missing"));
            return Ok(());
        };
        // With the first item of a direct chat both of its users begin.
        let begins = |border| matches!(border, Border::Join(_));
        let begins_both = group.pair().is_some() && begins(meaning.border) && begins(border);
        if meaning.border != border && !begins_both {
            let says = if matches!(border, Border::Join(_)) { "joined" } else { "left" };
            self.report.rows(format!("{group} {user}: {msgid} does not say that they {says}, as the stay has it"));
        } else if item.content != content {
            let what = format!(
                "{group} {user}: {content} content items up to {msgid} by the stay, {} by the item",
                item.content
            );
            self.report.rows(what);
        }
        Ok(())
    }

    pub(super) fn memberships(&mut self) -> Result<(), EngineError> {
        let mut lost = self.members.clone();
        self.each(Tree::Memberships, |rows, key, _, _| {
            let Ok((user, group)) = keys::parse_membership(key) else { return };
            if !lost.remove(&(group, user)) {
                rows.report.rows(format!("{group} stands among the groups of {user}, who never was a member"));
            }
        })?;
        for (group, user) in lost {
            self.report.rows(format!("{group} does not stand among the groups of {user}, who is or was a member"));
        }
        Ok(())
    }

    pub(super) fn cursors(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Cursors, |rows, key, value, _| {
            let (Ok((group, user, device)), Ok(record)) = (keys::parse_cursor(key), CursorRecord::decode(value)) else {
                return;
            };
            rows.cursor(group, user, device, &record);
        })
    }

    fn cursor(&mut self, group: GroupId, user: UserId, device: DeviceId, record: &CursorRecord) {
        let what = if device == DeviceId::ZERO { "the read mark" } else { "the cursor" };
        let name = format!("{what} {}", row::cursor(group, user, device));
        if device != DeviceId::ZERO && self.devices.get(&device).is_none_or(|row| row.user != user) {
            self.report.rows(format!("{name} is of a device that {user} does not have"));
        }
        if !self.members.contains(&(group, user)) {
            self.report.rows(format!("{name} is of somebody who never was a member"));
        }
        let Some((head, content)) = self.groups.get(&group).map(|row| (row.head, row.content)) else { return };
        if record.msgid > head {
            self.report.rows(format!("{name} stands at {}, above the head {head}", record.msgid));
        }
        if record.content != UNKNOWN && record.content > content.min(record.msgid.value()) {
            self.report.rows(format!("{name} counts {} content items up to {}", record.content, record.msgid));
        }
        let own = self.authored.get(&(group, user)).map_or(0, |authored| authored.last);
        let is_whole = self.groups.get(&group).is_some_and(|row| row.first_kept <= MessageId::new(1));
        if record.own != UNKNOWN && is_whole && record.own > own {
            self.report.rows(format!("{name} counts {} items of their own, who wrote {own}", record.own));
        }
    }
}

/// Whether the last stay goes on.
fn is_present(record: &MemberRecord) -> bool {
    record.intervals.last().is_some_and(|stay| stay.left.is_none())
}
