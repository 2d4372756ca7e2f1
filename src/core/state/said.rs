//! What members say, and what they do with what was said: edit, recall, react.
//!
//! An edit, recall or reaction names a content item that is kept, that its sender may see, and that was not recalled.
//! `State` holds no items: the target comes attached, unless the batch under way has added or changed it. What is attached
//! and outdated is refused as *not done*; whoever loops over `State` sees to it that this does not happen.

use crate::core::attached::Attached;
use crate::core::authorise::Verb;
use crate::core::command::{Refusal, Sendable};
use crate::core::rows::{Act, ItemContent, ItemRow, RecalledRow, Write};
use crate::core::state::decision::Decision;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::{EDITS_MAX, RECALLED_ENTRIES_AUTHOR_MAX, RECALLED_ENTRIES_MAX};

impl Decision<'_> {
    /// Adds what a member sends, which was judged but for its target.
    pub(super) fn say(
        &mut self,
        group: GroupId,
        user: UserId,
        what: Sendable,
        attached: Option<&Attached>,
    ) -> Result<MessageId, Refusal> {
        match what.act {
            Act::Says => {
                let mentions = self.mentioned(group, user, &what.mentions);
                let msgid = self.add_sent(group, user, what, MessageId::ZERO);
                for mentioned in mentions {
                    let number = self.mentions(group, mentioned) + 1;
                    self.put(Write::Mention(group, mentioned, number, msgid));
                }
                Ok(msgid)
            }
            Act::Edits(target) => {
                let target = self.target(group, user, target, attached)?;
                self.edit(user, what, target)
            }
            Act::Recalls(target) => {
                let target = self.target(group, user, target, attached)?;
                self.recall(user, what, target, attached)
            }
            Act::Reacts(target) => {
                self.target(group, user, target, attached)?;
                Ok(self.add_sent(group, user, what, MessageId::ZERO))
            }
        }
    }

    fn edit(&mut self, user: UserId, what: Sendable, target: ItemRow) -> Result<MessageId, Refusal> {
        if target.author != user {
            return Err(Refusal::NotYours);
        }
        self.check_time(&target, self.settings.edit_ms)?;
        if target.edits >= EDITS_MAX {
            return Err(Refusal::TooManyEdits);
        }
        let msgid = self.add_sent(target.group, user, what, target.last_edit);
        self.put(Write::Changed(ItemRow { last_edit: msgid, edits: target.edits + 1, ..target }));
        Ok(msgid)
    }

    /// Wipes the target and every edit of it.
    fn recall(
        &mut self,
        user: UserId,
        what: Sendable,
        target: ItemRow,
        attached: Option<&Attached>,
    ) -> Result<MessageId, Refusal> {
        let group = target.group;
        if target.author == user {
            self.check_time(&target, self.settings.recall_ms)?;
        } else {
            self.may_in(group, Verb::RecallOthers, Some(user))?;
        }
        let row = RecalledRow { author: target.author, mentions: self.were_mentioned(&target) };
        self.check_room_for_recall(user, &row)?;
        let mut edits = Vec::new();
        let mut next = target.last_edit;
        while next != MessageId::ZERO {
            let edit = self.item(group, next, attached).ok_or(Refusal::Busy)?.clone();
            next = edit.last_edit;
            edits.push(edit);
        }
        let msgid = self.add_sent(group, user, what, MessageId::ZERO);
        self.put(Write::Recalled(group, target.msgid, row));
        for item in std::iter::once(target).chain(edits) {
            self.put(Write::Changed(item.wiped()));
        }
        Ok(msgid)
    }

    /// Whether the lists of recalled items have room for one. What somebody else takes back counts as its author's, but their
    /// share bounds only themselves.
    fn check_room_for_recall(&self, by: UserId, row: &RecalledRow) -> Result<(), Refusal> {
        let (committed, pending) = (self.tables.recalled(), self.pending.rows.recalled());
        let all = committed.entries() + pending.entries() + row.entries();
        let of_author = committed.entries_of(row.author) + pending.entries_of(row.author) + row.entries();
        let is_over = all > RECALLED_ENTRIES_MAX || (by == row.author && of_author > RECALLED_ENTRIES_AUTHOR_MAX);
        if is_over { Err(Refusal::LimitReached) } else { Ok(()) }
    }

    fn add_sent(&mut self, group: GroupId, user: UserId, what: Sendable, last_edit: MessageId) -> MessageId {
        let Sendable { kind, act, tag, body, extensions, mentions } = what;
        self.add_edit(group, user, tag, ItemContent::Sent { kind, act, body, extensions, mentions }, last_edit)
    }

    // ---- the target ---------------------------------------------------------------------------------------------------

    /// The content item that something is about, as the batch under way leaves it.
    fn target(
        &self,
        group: GroupId,
        user: UserId,
        msgid: MessageId,
        attached: Option<&Attached>,
    ) -> Result<ItemRow, Refusal> {
        let head = self.marks(group).head;
        let is_kept = self.first_kept(group) <= msgid && msgid <= head && msgid != MessageId::ZERO;
        if !is_kept || !self.member(group, user).is_some_and(|row| row.may_see(msgid, head)) {
            return Err(Refusal::NoSuchItem);
        }
        if self.is_recalled(group, msgid) {
            return Err(Refusal::ItemRecalled);
        }
        let item = self.item(group, msgid, attached).ok_or(Refusal::Busy)?;
        if item.content.is_content() { Ok(item.clone()) } else { Err(Refusal::NoSuchItem) }
    }

    /// An item as the batch under way leaves it; none where what is attached says too little.
    fn item<'a>(&'a self, group: GroupId, msgid: MessageId, attached: Option<&'a Attached>) -> Option<&'a ItemRow> {
        let newest = || attached.filter(|attached| attached.head >= self.tables.last_change(group));
        self.pending.item(group, msgid).or_else(|| newest()?.item(group, msgid))
    }

    fn check_time(&self, target: &ItemRow, within_ms: u64) -> Result<(), Refusal> {
        let is_over = within_ms > 0 && self.now_ms > target.time_ms.saturating_add(within_ms);
        if is_over { Err(Refusal::TooLate) } else { Ok(()) }
    }

    // ---- mentions -----------------------------------------------------------------------------------------------------

    /// Of those named, the other members.
    fn mentioned(&self, group: GroupId, author: UserId, named: &[UserId]) -> Vec<UserId> {
        let is_other = |user: &UserId| *user != author && self.is_member(group, *user);
        named.iter().copied().filter(is_other).collect()
    }

    /// Of those whom an item named, the ones who were other members at the time: exactly those for whom it was noted.
    fn were_mentioned(&self, item: &ItemRow) -> Vec<UserId> {
        let ItemContent::Sent { mentions, .. } = &item.content else { return Vec::new() };
        let was_member =
            |user: &UserId| self.member(item.group, *user).is_some_and(|row| row.was_member_at(item.msgid));
        mentions.iter().copied().filter(|user| *user != item.author && was_member(user)).collect()
    }
}
