//! How far people have come: read marks, what is unread, the list of conversations, and who is told of it.

use std::collections::{BTreeMap, BTreeSet};

use gaggle::ids::{DeviceId, GroupId, MessageId, UserId};
use gaggle::wire::frame;

use super::{Broken, Committed, History, Model};

/// Bytes of the last message that are asked for with a conversation.
pub const PREVIEW_BYTES: usize = 24;
/// Recalled messages at the end of a group behind which no message need be found.
const RECALLED_AT_END_MAX: usize = 20;

/// A read mark. The one with the higher version is the later; of one version the one that is further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark {
    /// How often it was set anew.
    pub version: u64,
    /// The last msgid that counts as read.
    pub msgid: MessageId,
}

/// What is known of a user's marks in a group.
#[derive(Default)]
pub(super) struct Marks {
    now: Mark,
    /// The furthest msgid that a device of theirs wanted it to be at.
    wanted: MessageId,
    /// The versions that it was to be set back under.
    set_back: BTreeSet<u64>,
    /// The furthest that they ever had received and read.
    reached: (MessageId, MessageId),
}

pub(super) type AllMarks = BTreeMap<(GroupId, UserId), Marks>;

/// A conversation as its user is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    role: u8,
    members: usize,
    head: MessageId,
    read: Mark,
    unread: u64,
    mentions: u64,
    /// The last message, as it begins.
    last: Option<(MessageId, String)>,
}

/// Who, whether they have received an item, and whether they have read it.
pub type Receipt = (UserId, bool, bool);

impl Row {
    /// As it was told.
    pub fn of(told: &frame::Conversation) -> Row {
        Row {
            role: told.role,
            members: told.members as usize,
            head: told.head,
            read: Mark { version: told.version, msgid: told.read },
            unread: told.unread,
            mentions: told.mentions,
            last: told.last.as_ref().map(|last| (last.msgid, last.text.clone())),
        }
    }

    /// The mark that it tells.
    pub fn mark(&self) -> Mark {
        self.read
    }
}

impl Model {
    // ---- read marks -------------------------------------------------------------------------------------------------

    /// A device wants a read mark to be here; under which version it was to be set back, if it was.
    pub fn wants_mark(&mut self, user: UserId, group: GroupId, msgid: MessageId, back_under: Option<u64>) {
        let marks = self.marks.entry((group, user)).or_default();
        marks.wanted = marks.wanted.max(msgid);
        marks.set_back.extend(back_under);
    }

    /// A read mark stands here in the committed view: further than before, unless somebody has set it anew, and nowhere
    /// that nobody wanted it.
    pub fn committed_mark(&mut self, user: UserId, group: GroupId, mark: Mark) -> Result<(), Broken> {
        let Some(history) = self.groups.get(&group) else { return Ok(()) };
        let marks = self.marks.entry((group, user)).or_default();
        let before = std::mem::replace(&mut marks.now, mark);
        if mark == before {
            return Ok(());
        }
        self.changes += 1;
        let was_set = mark.version > before.version && marks.set_back.contains(&(mark.version - 1));
        let is_further = mark.version == before.version && mark.msgid > before.msgid;
        let may_be_at = marks.wanted.max(history.joined(user).previous()).min(history.head());
        if (was_set || is_further) && mark.msgid <= may_be_at {
            return Ok(());
        }
        Err(format!("the read mark of {user} in {group} went from {before:?} to {mark:?}, wanted was {may_be_at}"))
    }

    /// A read mark is told: no later one than is committed.
    pub fn told_mark(&self, user: UserId, group: GroupId, mark: Mark) -> Result<(), Broken> {
        let now = self.mark(user, group);
        let words = || format!("a read mark of {user} in {group} was told as {mark:?}, while {now:?} is durable");
        if mark <= now { Ok(()) } else { Err(words()) }
    }

    /// Where a read mark stands.
    pub fn mark(&self, user: UserId, group: GroupId) -> Mark {
        self.marks.get(&(group, user)).map(|marks| marks.now).unwrap_or_default()
    }

    // ---- conversations ----------------------------------------------------------------------------------------------

    /// Counts everything that conversations depend on.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// All conversations of a user, past ones included, counted item by item.
    pub fn conversations(&self, user: UserId) -> BTreeMap<GroupId, Row> {
        let rows = self.groups.iter().filter(|(_, history)| history.users().any(|other| other == user));
        rows.map(|(group, _)| (*group, self.conversation(user, *group))).collect()
    }

    fn conversation(&self, user: UserId, group: GroupId) -> Row {
        let (history, read) = (&self.groups[&group], self.mark(user, group));
        let (role, members) = history.role(user);
        let counted: Vec<(bool, bool)> =
            history.visible(user, read.msgid).map(|msgid| history.counts(user, msgid)).collect();
        let count = |is: &dyn Fn(&(bool, bool)) -> bool| counted.iter().filter(|it| is(it)).count() as u64;
        Row {
            role,
            members,
            head: self.visible_head(user, group),
            read,
            unread: count(&|(unread, _)| *unread),
            mentions: count(&|(_, mentions)| *mentions),
            last: self.last_said(user, group),
        }
    }

    /// The last message that a user may see and that was not recalled, as its newest edit for them has it.
    fn last_said(&self, user: UserId, group: GroupId) -> Option<(MessageId, String)> {
        let history = &self.groups[&group];
        let content = |msgid: &MessageId| history.item(*msgid).is_some_and(|it| it.item.is_content());
        let said = history.visible(user, MessageId::ZERO).rev().filter(content).take(RECALLED_AT_END_MAX);
        let msgid = said.into_iter().find(|msgid| !history.is_recalled(*msgid))?;
        let shown = Some(history.newest_edit(user, msgid, history.head()))
            .filter(|edit| *edit > MessageId::ZERO)
            .unwrap_or(msgid);
        let body = &history.item(shown)?.item.body;
        Some((msgid, String::from_utf8_lossy(&body[..body.len().min(PREVIEW_BYTES)]).into_owned()))
    }

    // ---- receipts ---------------------------------------------------------------------------------------------------

    /// What a device has acknowledged, and its user read, is committed.
    pub fn reached(&mut self, user: UserId, group: GroupId, acked: MessageId) {
        let marks = self.marks.entry((group, user)).or_default();
        let (received, read) = &mut marks.reached;
        *read = marks.now.msgid.max(*read);
        *received = acked.max(*read).max(*received);
    }

    /// How far those have come with an item who were there when it came, but for its author; none where this user may not
    /// see it. An edit is for those alone who may see what it edits. `cursor` is what a device has acknowledged.
    pub fn receipts(
        &self,
        user: UserId,
        group: GroupId,
        msgid: MessageId,
        cursor: impl Fn(UserId, DeviceId) -> MessageId,
    ) -> Option<Vec<Receipt>> {
        let may_see = |history: &&History| history.sees(user, msgid) && !history.is_gone(msgid);
        let history = self.groups.get(&group).filter(may_see)?;
        let item = &history.item(msgid)?.item;
        let edited = item.edited();
        let is_for = |user| edited.is_none_or(|target| history.sees(user, target) && !history.is_gone(target));
        if !is_for(user) {
            return None;
        }
        let is_counted = |other: &UserId| *other != item.author && history.was_there(*other, msgid) && is_for(*other);
        let receipt = |other: UserId| {
            let devices = self.devices.iter().filter(|(_, known)| known.user == other);
            let acked = devices.map(|(device, _)| cursor(other, *device)).max().unwrap_or_default();
            let read = self.mark(other, group).msgid;
            (other, acked.max(read) >= msgid, read >= msgid)
        };
        Some(history.users().filter(is_counted).map(receipt).collect())
    }

    /// An author is told how far somebody has come: no further than they ever were, nor than the author may know of; and
    /// only of who was there for something of the author's.
    pub fn told_receipt(
        &self,
        author: UserId,
        group: GroupId,
        user: UserId,
        (received, read): (MessageId, MessageId),
    ) -> Result<(), Broken> {
        let history = self.groups.get(&group).ok_or_else(|| format!("a receipt of {group}, which nobody has"))?;
        let reached = self.marks.get(&(group, user)).map(|marks| marks.reached).unwrap_or_default();
        let words =
            |why: &str| Err(format!("{author} is told that {user} has come to {received}, {read} in {group}, {why}"));
        if received > reached.0 || read > reached.1 {
            return words(&format!("who never came further than {reached:?}"));
        }
        if received > self.visible_head(author, group) {
            return words("of which they may not know");
        }
        let is_said = |it: &&Committed| it.item.is_content() && it.item.author == author;
        let mut said = history.items.iter().filter(is_said).map(|it| it.item.msgid);
        if author == user || !said.any(|msgid| history.was_there(user, msgid)) {
            return words("who was there for nothing of theirs");
        }
        Ok(())
    }
}
