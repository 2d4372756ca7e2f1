//! What is right, in so few lines that it can be read in one sitting.
//!
//! The model knows nothing of logs, indexes, sessions, credit or back-off. It knows what was committed, in which order;
//! who belonged when and as what, and what was edited and recalled, which follows from the items themselves ([`said`]);
//! how far people have come, what is unread of theirs, and who may be told of it ([`marks`]); what each sender was told,
//! and what each device was handed. Whatever a server or a client does is held against that.

mod marks;
mod said;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gaggle::client::{Content, Say};
use gaggle::ids::{DeviceId, GroupId, MessageId, Tag, UserId};
use gaggle::wire::item::{Item, kind};

pub use self::marks::{Mark, PREVIEW_BYTES, Receipt, Row};
use self::said::{History, told};

/// Messages of a group that somebody looks back at.
const MESSAGES_MAX: usize = 12;

/// A promise that was broken, and how.
pub type Broken = String;

/// An item as it was committed.
struct Committed {
    bytes: Bytes,
    item: Item,
    /// The other members whom it mentions.
    mentions: Vec<UserId>,
}

/// A row of a page or push.
pub struct Shown {
    /// Which item.
    pub msgid: MessageId,
    /// The edit of it that is named.
    pub edited_by: MessageId,
    /// What is shown of it.
    pub item: Bytes,
}

/// A send, from the moment that its application was told that it is safe in the outbox.
struct Send {
    device: DeviceId,
    group: GroupId,
    /// Its application was told that it is safe; else it may have been lost on the way into the outbox.
    safe: bool,
    /// Grows with each message that is queued.
    order: u64,
    /// Under what its user might send when it was queued; none: they might not.
    voice: Option<usize>,
    committed: Option<MessageId>,
    /// What it recalls.
    recalls: Option<MessageId>,
    /// What it edits.
    edits: Option<MessageId>,
    /// The server has refused it for good; an answer that is lost may be followed by another, under another number.
    refused: bool,
    /// Its application was told so.
    told_refused: bool,
}

/// One device.
#[derive(Default)]
struct Device {
    user: UserId,
    /// The last msgid handed to its application, or where delivery began.
    delivered: BTreeMap<GroupId, MessageId>,
    /// A return into a group with full history may leave what was missed behind the cursor: up to here it may be left out.
    skippable: BTreeMap<GroupId, MessageId>,
    /// What the server has answered as its cursor.
    answered: BTreeMap<GroupId, MessageId>,
    /// The end of what was ever written to it without a hole.
    written: BTreeMap<GroupId, MessageId>,
    /// Where somebody has acknowledged in its name what was written to it, received or not.
    lied: BTreeSet<GroupId>,
}

/// See the module.
#[derive(Default)]
pub struct Model {
    groups: BTreeMap<GroupId, History>,
    sends: BTreeMap<Tag, Send>,
    devices: BTreeMap<DeviceId, Device>,
    marks: marks::AllMarks,
    joins: Vec<(GroupId, UserId)>,
    progress: u64,
    changes: u64,
}

impl Model {
    // ---- what is committed ------------------------------------------------------------------------------------------

    /// An item was published as committed: the next of its group, its sender's next, and no send twice.
    pub fn commit(&mut self, bytes: &Bytes) -> Result<(), Broken> {
        let item = Item::decode(bytes).map_err(|error| format!("an item was committed that is none: {error}"))?;
        let Item { gid, msgid, kind: what, author, tag, .. } = item;
        let history = self.groups.entry(gid).or_default();
        if msgid != history.head().next() {
            return Err(format!("{gid} {msgid} was committed after {}", history.head()));
        }
        let joins = history.add(bytes.clone(), item)?;
        self.joins.extend(joins.into_iter().map(|user| (gid, user)));
        self.progress += 1;
        self.changes += 1;
        if !matches!(what, kind::TEXT | kind::EDIT | kind::RECALL | kind::REACTION) {
            return Ok(());
        }
        let send = self.sends.get_mut(&tag).ok_or_else(|| format!("{gid} {msgid} was never sent by anybody"))?;
        if let Some(before) = send.committed.replace(msgid) {
            return Err(format!("a send of {} was stored twice: as {gid} {before} and {msgid}", send.device));
        }
        if send.told_refused {
            return Err(format!("a send of {} was refused for good, and stored as {gid} {msgid}", send.device));
        }
        if send.group != gid {
            return Err(format!("a send of {} to {} was stored in {gid}", send.device, send.group));
        }
        if what != kind::TEXT {
            return Ok(());
        }
        // Whoever might not send meanwhile may have been refused, which uses a number up: the message goes on under another.
        let is_steady = send.voice.is_some() && history.voice(author) == send.voice;
        let last = history.last_of.entry(send.device).or_default();
        if is_steady && send.order < *last {
            return Err(format!("{gid} {msgid} of {} was queued before what it comes behind", send.device));
        }
        *last = send.order.max(*last);
        Ok(())
    }

    /// A server has opened the store and this reader finds these items of a group: what was committed before and is kept
    /// comes first, and nothing is left of what was recalled.
    pub fn reopened(
        &mut self,
        group: GroupId,
        reader: UserId,
        first_kept: MessageId,
        found: &[Bytes],
    ) -> Result<(), Broken> {
        let mut kept = BTreeMap::new();
        for bytes in found {
            let item = Item::decode(bytes).map_err(|error| format!("an item was found that is none: {error}"))?;
            if item.msgid > self.head(group) {
                self.commit(bytes)?;
            }
            kept.insert(item.msgid, bytes);
        }
        self.keeps(group, first_kept)?;
        let Some(history) = self.groups.get(&group) else { return Ok(()) };
        let kept_on = history.items.iter().map(|it| it.item.msgid).filter(|msgid| !history.is_gone(*msgid));
        for msgid in kept_on {
            match kept.get(&msgid) {
                None => return Err(format!("{group} {msgid} was committed and is lost")),
                Some(found) if history.may_be_read(reader, msgid, found) => {}
                Some(_) => return Err(format!("{group} {msgid} was committed and is another item now")),
            }
        }
        Ok(())
    }

    /// A store was opened. Where that failed half-way, what its log turned out to hold may be in the index already, and is
    /// published later: what a recall among it wipes may read as wiped before the recall is shown.
    pub fn store_was_opened(&mut self, is_open: bool) {
        for (group, history) in &mut self.groups {
            let waits = |send: &&Send| !is_open && send.group == *group && send.committed.is_none();
            history.wiped_early = self.sends.values().filter(waits).filter_map(|send| send.recalls).collect();
        }
    }

    /// Grows with everything that is committed, handed to an application, or given up by what a group keeps.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Who has joined what since this was last asked.
    pub fn take_joins(&mut self) -> Vec<(GroupId, UserId)> {
        std::mem::take(&mut self.joins)
    }

    /// Whether a user is a member now.
    pub fn is_member(&self, group: GroupId, user: UserId) -> bool {
        self.groups.get(&group).is_some_and(|history| history.is_member(user))
    }

    /// Somebody was told that a user is out of a group for good.
    pub fn banned(&mut self, group: GroupId, user: UserId) {
        self.groups.entry(group).or_default().ban(user);
    }

    /// The last messages of a group that a user may see, recalled ones too; of one author, or of all.
    pub fn messages(&self, user: UserId, group: GroupId, author: Option<UserId>) -> Vec<MessageId> {
        let Some(history) = self.groups.get(&group) else { return Vec::new() };
        let is_of = |item: &Item| item.is_content() && author.is_none_or(|author| author == item.author);
        let is_meant = |msgid: &MessageId| history.item(*msgid).is_some_and(|it| is_of(&it.item));
        history.visible(user, MessageId::ZERO).rev().filter(is_meant).take(MESSAGES_MAX).collect()
    }

    /// The last item of a group.
    pub fn head(&self, group: GroupId) -> MessageId {
        self.groups.get(&group).map_or(MessageId::ZERO, History::head)
    }

    /// All groups.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.keys().copied()
    }

    /// The last item that a user may see, or might once.
    pub fn visible_head(&self, user: UserId, group: GroupId) -> MessageId {
        let history = self.groups.get(&group);
        history.and_then(|history| history.ever_visible(user, MessageId::ZERO).next_back()).unwrap_or(MessageId::ZERO)
    }

    /// The last item that a user may see.
    pub fn last_visible(&self, user: UserId, group: GroupId) -> MessageId {
        let history = self.groups.get(&group);
        history.and_then(|history| history.visible(user, MessageId::ZERO).next_back()).unwrap_or(MessageId::ZERO)
    }

    /// A group keeps items from this one on.
    pub fn keeps(&mut self, group: GroupId, first: MessageId) -> Result<(), Broken> {
        let Some(history) = self.groups.get_mut(&group) else { return Ok(()) };
        let has_moved = history.keeps(first).map_err(|broken| format!("{group}: {broken}"))?;
        self.changes += u64::from(has_moved);
        self.progress += u64::from(has_moved);
        Ok(())
    }

    // ---- what senders are told --------------------------------------------------------------------------------------

    /// A message is safe in the outbox of a device, or may be; `order` grows with each.
    pub fn queued(
        &mut self,
        device: DeviceId,
        group: GroupId,
        tag: Tag,
        what: &Say,
        order: u64,
        safe: bool,
    ) -> Result<(), Broken> {
        let user = self.devices.get(&device).map_or(UserId::ZERO, |known| known.user);
        let voice = self.groups.get(&group).and_then(|history| history.voice(user));
        let recalls = if let Say::Recall(target) = what { Some(*target) } else { None };
        let edits = if let Say::Edit { target, .. } = what { Some(*target) } else { None };
        let (committed, refused, told_refused) = (None, false, false);
        let send = Send { device, group, safe, order, voice, committed, recalls, edits, refused, told_refused };
        if self.sends.insert(tag, send).is_some() { Err("a tag was drawn twice".to_owned()) } else { Ok(()) }
    }

    /// The server answers that a send is stored, or an application is told.
    pub fn answered_sent(&mut self, tag: Tag, group: GroupId, msgid: MessageId) -> Result<(), Broken> {
        let is_it = match self.groups.get(&group).and_then(|history| history.item(msgid)) {
            None => return Err(format!("a send was answered as {group} {msgid} before that is committed")),
            Some(committed) if committed.item.kind == kind::HIDDEN => self.is_hidden_edit(tag, group, msgid),
            Some(committed) => committed.item.tag == tag,
        };
        if is_it { Ok(()) } else { Err(format!("a send was answered as {group} {msgid}, which is another")) }
    }

    /// Whether this is the edit that a start found hidden, as what it edits had gone before anybody saw it: only the
    /// answer says whose it is, and nobody else is told so afterwards.
    fn is_hidden_edit(&mut self, tag: Tag, group: GroupId, msgid: MessageId) -> bool {
        let has_it = |send: &Send| send.group == group && send.committed == Some(msgid);
        if let Some((owner, _)) = self.sends.iter().find(|(_, send)| has_it(send)) {
            return *owner == tag;
        }
        let Some(send) = self.sends.get_mut(&tag) else { return false };
        let is_gone = |target| self.groups.get(&group).is_some_and(|history| history.is_gone(target));
        let may_be = send.group == group && send.committed.is_none() && send.edits.is_some_and(is_gone);
        if may_be {
            send.committed = Some(msgid);
        }
        may_be
    }

    /// The server answers that a send is refused for good.
    pub fn answered_refused(&mut self, tag: Tag) -> Result<(), Broken> {
        let Some(send) = self.sends.get_mut(&tag) else { return Ok(()) };
        send.refused = true;
        match send.committed {
            Some(msgid) => Err(format!("a send was stored as {} {msgid}, and its sender told otherwise", send.group)),
            None => Ok(()),
        }
    }

    /// An application is told that a send is refused for good.
    pub fn told_refused(&mut self, tag: Tag) -> Result<(), Broken> {
        self.answered_refused(tag)?;
        if let Some(send) = self.sends.get_mut(&tag) {
            send.told_refused = true;
        }
        Ok(())
    }

    /// Every outbox is empty: each message that was safe there is stored or refused.
    pub fn all_are_settled(&self) -> Result<(), Broken> {
        match self.sends.values().find(|send| send.safe && !send.refused && send.committed.is_none()) {
            Some(send) => Err(format!("a send of {} to {} vanished from its outbox", send.device, send.group)),
            None => Ok(()),
        }
    }

    // ---- what is shown ----------------------------------------------------------------------------------------------

    /// A device exists, and delivery to it begins behind these.
    pub fn enrolled(&mut self, device: DeviceId, user: UserId, cursors: impl Iterator<Item = (GroupId, MessageId)>) {
        let delivered: BTreeMap<GroupId, MessageId> = cursors.collect();
        let new = Device { user, written: delivered.clone(), delivered, ..Device::default() };
        self.devices.insert(device, new);
    }

    /// A user has joined a group, and the cursors of the user's devices stand here now: at a join they may be raised over
    /// what the user could not see, and over nothing else.
    pub fn joined(&mut self, device: DeviceId, group: GroupId, cursor: MessageId) -> Result<(), Broken> {
        let (Some(known), Some(history)) = (self.devices.get_mut(&device), self.groups.get(&group)) else {
            return Ok(());
        };
        let is_first = !known.delivered.contains_key(&group);
        known.delivered.entry(group).or_insert(cursor);
        let written = known.written.entry(group).or_insert(cursor);
        let answered = known.answered.get(&group).copied().unwrap_or_default();
        if cursor < answered {
            return Err(format!("the cursor of {device} in {group} went back at a join: from {answered} to {cursor}"));
        }
        let skipped = history.visible(known.user, *written).find(|msgid| *msgid <= cursor);
        if let Some(msgid) = skipped.filter(|_| !is_first && !history.full_history) {
            return Err(format!("a join moved the cursor of {device} over {group} {msgid}, which it never got"));
        }
        if history.full_history {
            known.skippable.insert(group, cursor);
        }
        *written = (*written).max(cursor);
        Ok(())
    }

    /// Rows were written to a device: all that is visible behind `after` and up to `covered_to`, no more. Only what counts
    /// as handed may its cursor pass later. Of what had been edited up to `edited_to` the newest edit is named. Answers what
    /// is missing because it is gone.
    pub fn shown(
        &mut self,
        device: DeviceId,
        group: GroupId,
        (after, covered_to): (MessageId, MessageId),
        rows: &[Shown],
        edited_to: MessageId,
        counts: bool,
    ) -> Result<Vec<MessageId>, Broken> {
        let known = self.devices.get_mut(&device).ok_or("items were shown to nobody")?;
        let history = self.groups.get(&group).ok_or_else(|| format!("items of {group}, which nobody has committed"))?;
        if covered_to > history.head() && covered_to > after {
            return Err(format!("{group} was covered to {covered_to} while its head is {}", history.head()));
        }
        // What is gone by now may have been kept when it was looked at.
        let expected = history.ever_visible(known.user, after).take_while(|msgid| *msgid <= covered_to);
        let is_shown = |msgid: &MessageId| rows.binary_search_by_key(msgid, |row| row.msgid).is_ok();
        let (gone, expected): (Vec<_>, Vec<_>) =
            expected.partition(|msgid| history.is_gone(*msgid) && !is_shown(msgid));
        let shown = rows.iter().map(|row| row.msgid);
        if let Some((right, wrong)) = first_difference(expected.into_iter(), shown) {
            let (right, wrong) = (told(right), told(wrong));
            return Err(format!(
                "{device} was shown {group} behind {after} up to {covered_to} with {wrong} for {right}"
            ));
        }
        rows.iter().try_for_each(|row| history.shows(known.user, row, edited_to))?;
        let written = known.written.entry(group).or_default();
        if counts && history.joins(known.user, *written, after) {
            *written = (*written).max(covered_to);
        }
        Ok(gone)
    }

    /// What was decided to be pushed to a device counts as written, though it waits for its stream.
    pub fn pushed(&mut self, device: DeviceId, group: GroupId, continues: MessageId, covered_to: MessageId) {
        let (Some(known), Some(history)) = (self.devices.get_mut(&device), self.groups.get(&group)) else { return };
        let written = known.written.entry(group).or_default();
        if history.joins(known.user, *written, continues) {
            *written = (*written).max(covered_to);
        }
    }

    /// A head was told to a device.
    pub fn told_head(&self, device: DeviceId, group: GroupId, head: MessageId) -> Result<(), Broken> {
        let user = self.devices.get(&device).map_or(UserId::ZERO, |known| known.user);
        let most = self.visible_head(user, group);
        if head > most { Err(format!("{device} was told a head of {group} of {head} over {most}")) } else { Ok(()) }
    }

    /// An application was handed an item: the next that it may see. Says whether it had it before.
    pub fn handed(&mut self, device: DeviceId, group: GroupId, msgid: MessageId, again: bool) -> Result<bool, Broken> {
        let known = self.devices.get_mut(&device).ok_or("an item was handed to nobody")?;
        let history = self.groups.get(&group).ok_or_else(|| format!("an item of {group}, which nobody committed"))?;
        let last = known.delivered.entry(group).or_default();
        if msgid <= *last {
            let words = format!("{device} was handed {group} {msgid} twice");
            return if again { Ok(true) } else { Err(words) };
        }
        let mut skippable = known.skippable.get(&group).copied().unwrap_or_default();
        if known.lied.contains(&group) {
            skippable = skippable.max(known.written.get(&group).copied().unwrap_or_default());
        }
        let left_out = |next: &MessageId| *next <= skippable && *next < msgid;
        let next = history.ever_visible(known.user, *last).find(|next| !left_out(next));
        if next != Some(msgid) {
            let next = told(next);
            return Err(format!("{device} was handed {group} {msgid} after {last}, where {next} comes next"));
        }
        *last = msgid;
        self.progress += 1;
        Ok(false)
    }

    /// An application is told that items are gone: those that come next, and that its group does not keep.
    pub fn gone(&mut self, device: DeviceId, group: GroupId, first: MessageId, last: MessageId) -> Result<(), Broken> {
        let known = self.devices.get_mut(&device).ok_or("nobody was told what is gone")?;
        let history = self.groups.get(&group).ok_or_else(|| format!("items of {group}, which nobody committed"))?;
        let delivered = known.delivered.entry(group).or_default();
        let kept = history.visible(known.user, first.previous()).next().filter(|kept| *kept <= last);
        if let Some(kept) = kept {
            return Err(format!("{device} is told that {group} {first} to {last} are gone, and {kept} is kept"));
        }
        let skippable = known.skippable.get(&group).copied().unwrap_or_default();
        let next = history.ever_visible(known.user, (*delivered).max(skippable)).next();
        if let Some(next) = next.filter(|next| *next < first && !known.lied.contains(&group)) {
            return Err(format!("{device} is told that {group} {first} to {last} are gone, where {next} comes next"));
        }
        *delivered = last.max(*delivered);
        self.progress += 1;
        Ok(())
    }

    /// An application reads what an item says: it is what was sent, of what its user may see.
    pub fn read(&self, device: DeviceId, group: GroupId, msgid: MessageId, content: &Content) -> Result<(), Broken> {
        let user = self.devices.get(&device).map_or(UserId::ZERO, |known| known.user);
        let history = self.groups.get(&group).ok_or_else(|| format!("an item of {group}, which nobody committed"))?;
        let says = |text: &str| history.item(msgid).is_some_and(|it| it.item.body == text.as_bytes());
        let is_right = match content {
            Content::Text(text) => says(text),
            Content::Edit { target, text } => says(text) && history.sees(user, *target),
            Content::Recalled { .. } => history.is_recalled(msgid),
            _ => true,
        };
        if is_right { Ok(()) } else { Err(format!("{device} reads {group} {msgid} as what it is not: {content:?}")) }
    }

    /// The application of a device had kept no more than this, and has lost the rest: it comes again.
    pub fn forgotten(&mut self, device: DeviceId, kept: &BTreeMap<GroupId, MessageId>) {
        if let Some(known) = self.devices.get_mut(&device) {
            let last = |group: &GroupId| kept.get(group).copied().unwrap_or_default();
            known.delivered.iter_mut().for_each(|(group, delivered)| *delivered = last(group));
        }
    }

    /// The last msgid of a group that the application of a device was handed.
    pub fn delivered(&self, device: DeviceId, group: GroupId) -> MessageId {
        let Some(known) = self.devices.get(&device) else { return MessageId::ZERO };
        let of = |by_group: &BTreeMap<GroupId, MessageId>| by_group.get(&group).copied().unwrap_or_default();
        let lost = if known.lied.contains(&group) { of(&known.written) } else { MessageId::ZERO };
        of(&known.delivered).max(of(&known.skippable)).max(lost)
    }

    // ---- cursors ----------------------------------------------------------------------------------------------------

    /// Somebody acknowledges in the name of a device what it may never have got: its own loss.
    pub fn lied(&mut self, device: DeviceId, group: GroupId) {
        if let Some(known) = self.devices.get_mut(&device) {
            known.lied.insert(group);
        }
    }

    /// The server answers a cursor: it never goes back, passes nothing that was not written to the device, and stands in
    /// the committed view.
    pub fn answered_cursor(
        &mut self,
        device: DeviceId,
        group: GroupId,
        cursor: MessageId,
        committed: MessageId,
    ) -> Result<(), Broken> {
        let known = self.devices.get_mut(&device).ok_or("a cursor was answered to nobody")?;
        let before = known.answered.entry(group).or_default();
        if cursor < *before {
            return Err(format!("the cursor of {device} in {group} went back from {before} to {cursor}"));
        }
        *before = cursor;
        if cursor > committed {
            return Err(format!(
                "a cursor of {device} in {group} was answered as {cursor}, while {committed} is durable"
            ));
        }
        let written = known.written.get(&group).copied().unwrap_or_default();
        let history = self.groups.get(&group);
        let missed = history.and_then(|history| history.visible(known.user, written).next());
        match missed.filter(|missed| *missed <= cursor) {
            Some(missed) => {
                Err(format!("the cursor of {device} passed {group} {missed}, which was never written to it"))
            }
            None => Ok(()),
        }
    }

    /// A store was opened: no cursor lies below what was answered.
    pub fn cursor_found(&self, device: DeviceId, group: GroupId, cursor: MessageId) -> Result<(), Broken> {
        let answered = self.devices.get(&device).and_then(|known| known.answered.get(&group)).copied();
        match answered.filter(|answered| cursor < *answered) {
            Some(answered) => {
                Err(format!("the cursor of {device} in {group} was answered as {answered}, and is {cursor}"))
            }
            None => Ok(()),
        }
    }
}

/// The first place where two sequences differ: (right, wrong).
fn first_difference(
    mut right: impl Iterator<Item = MessageId>,
    mut wrong: impl Iterator<Item = MessageId>,
) -> Option<(Option<MessageId>, Option<MessageId>)> {
    loop {
        match (right.next(), wrong.next()) {
            (None, None) => return None,
            (right, wrong) if right == wrong => {}
            differ => return Some(differ),
        }
    }
}
