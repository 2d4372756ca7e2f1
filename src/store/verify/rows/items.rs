//! Items: dense in each group, with the ordinals that follow from one another, and found by their authors.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::ControlFlow;

use crate::ids::{GroupId, MessageId, UserId};
use crate::store::engine::EngineError;
use crate::store::keys;
use crate::store::records::{MentionRecord, MessageRecord, OwnRecord, RecalledRecord, message_flag};
use crate::store::tree::Tree;
use crate::store::verify::row::{Meaning, are};
use crate::store::verify::rows::{Authored, Rows};

/// Where the reading of the items of one group stands.
struct Reading {
    group: GroupId,
    /// The last item at or above the first kept one; zero before it.
    last: MessageId,
    content: Option<u64>,
}

impl Authored {
    /// Takes the next content item; the order of ordinals and of msgids is the same.
    fn add(&mut self, ordinal: u64, msgid: MessageId) {
        if self.first == 0 {
            self.first = ordinal;
        }
        self.last = ordinal;
        let mut hasher = DefaultHasher::new();
        (self.digest, ordinal, msgid.value()).hash(&mut hasher);
        self.digest = hasher.finish();
    }
}

impl Rows<'_, '_> {
    pub(super) fn items(&mut self) -> Result<(), EngineError> {
        let mut reading = Reading { group: GroupId::ZERO, last: MessageId::ZERO, content: None };
        self.each(Tree::Messages, |rows, key, value, meaning| {
            let (Ok((group, msgid)), Ok(record), Some(meaning)) =
                (keys::parse_message(key), MessageRecord::decode(value), meaning)
            else {
                return;
            };
            if group != reading.group {
                rows.end_group(&reading);
                reading = Reading { group, last: MessageId::ZERO, content: None };
                if !rows.groups.contains_key(&group) {
                    rows.report.rows(format!("{group} has items, but does not exist"));
                }
            }
            rows.counted.items += 1;
            rows.one_item(&mut reading, msgid, &record, meaning);
        })?;
        self.end_group(&reading);
        // Groups of which no item is there: everything was removed, or is missing.
        let bare: Vec<GroupId> =
            self.groups.iter().filter(|(_, row)| row.head == MessageId::ZERO).map(|(group, _)| *group).collect();
        for group in bare {
            self.end_group(&Reading { group, last: MessageId::ZERO, content: None });
        }
        Ok(())
    }

    fn one_item(&mut self, reading: &mut Reading, msgid: MessageId, record: &MessageRecord, meaning: Meaning) {
        let group = reading.group;
        let row =
            self.groups.get(&group).map(|row| (row.first_kept, row.content_gone, row.head_mark, row.content_mark));
        let (first_kept, content_gone, head_mark, content_mark) =
            row.unwrap_or((MessageId::new(1), Some(0), MessageId::ZERO, 0));
        // What lies below first kept may be gone or not yet.
        if msgid < first_kept {
            return;
        }
        let expected = reading.last.next().max(first_kept);
        if msgid > expected {
            self.report.rows(format!("{group}: {} missing below {msgid}", are(expected, msgid.previous())));
            reading.content = None;
        }
        reading.last = msgid;
        let is_content = record.flags & message_flag::CONTENT != 0;
        let before = if msgid == first_kept { content_gone } else { reading.content };
        if let Some(before) = before.filter(|before| before + u64::from(is_content) != record.content) {
            let what = format!("{group} {msgid}: its content ordinal is {} behind {before}", record.content);
            self.report.rows(what);
        }
        reading.content = Some(record.content);
        if msgid == head_mark && record.content != content_mark {
            let what = format!(
                "{group}: its row says {content_mark} content items up to {msgid}, the item {}",
                record.content
            );
            self.report.rows(what);
        }
        if meaning.author != UserId::ZERO {
            self.check_user(meaning.author, &format!("{group} {msgid} is by"));
        }
        self.one_edit(group, msgid, record);
        if is_content && record.flags & message_flag::RECALLED != 0 {
            self.wiped.insert((group, msgid));
        }
        self.one_ordinal(group, msgid, record, meaning, is_content);
    }

    /// An item names a later one as its newest edit, an edit an earlier one as the edit before it.
    fn one_edit(&mut self, group: GroupId, msgid: MessageId, record: &MessageRecord) {
        let named = record.last_edit;
        if named == MessageId::ZERO {
            return;
        }
        if named == msgid {
            self.report.rows(format!("{group} {msgid} names itself as its edit"));
        } else if (record.flags & message_flag::EDIT == 0) != (named > msgid) {
            self.report.rows(format!("{group} {msgid} names {named} as its edit, which it can't be"));
        }
    }

    fn one_ordinal(
        &mut self,
        group: GroupId,
        msgid: MessageId,
        record: &MessageRecord,
        meaning: Meaning,
        is_content: bool,
    ) {
        if !is_content {
            if record.own != 0 {
                self.report
                    .rows(format!("{group} {msgid} is no content, but counts as number {} of its author", record.own));
            }
            return;
        }
        let from_the_first = self.groups.get(&group).is_none_or(|row| row.first_kept <= MessageId::new(1));
        let authored = self.authored.entry((group, meaning.author)).or_default();
        let expected = authored.last + 1;
        let is_known = from_the_first || authored.last > 0;
        if is_known && record.own != expected {
            let what = format!(
                "{group} {msgid}: it counts as number {} of {}, after number {}",
                record.own, meaning.author, authored.last
            );
            self.report.rows(what);
        }
        authored.add(record.own, msgid);
    }

    /// What a group's row says beside its items.
    fn end_group(&mut self, reading: &Reading) {
        let group = reading.group;
        let Some(row) = self.groups.get_mut(&group) else { return };
        row.head = reading.last.max(row.head_mark);
        row.content = if reading.last < row.head_mark { row.content_mark } else { reading.content.unwrap_or(0) };
        let (first_kept, head_mark, head) = (row.first_kept, row.head_mark, row.head);
        if first_kept == MessageId::ZERO || first_kept > head.next() {
            self.report
                .rows(format!("{group}: its row says that {first_kept} is the first kept item, the head is {head}"));
            return;
        }
        if first_kept > head && self.groups.get(&group).is_some_and(|row| row.content_gone != Some(row.content)) {
            self.report.rows(format!("{group}: nothing is kept, but its row does not say that all content is gone"));
        }
        let expected = reading.last.next().max(first_kept);
        if expected <= head_mark {
            let missing = are(expected, head_mark);
            self.report.rows(format!("{group}: {missing} missing, but its row says that {head_mark} was there"));
        }
        if head == MessageId::ZERO {
            self.report.rows(format!("{group} has no items"));
        }
    }

    /// Each content item is found by its author and ordinal, and nothing else is.
    pub(super) fn own(&mut self) -> Result<(), EngineError> {
        let mut found: BTreeMap<(GroupId, UserId), Authored> = BTreeMap::new();
        self.each(Tree::Own, |rows, key, value, _| {
            let (Ok((group, user, ordinal)), Ok(record)) = (keys::parse_own(key), OwnRecord::decode(value)) else {
                return;
            };
            if rows.groups.get(&group).is_none_or(|row| record.msgid >= row.first_kept) {
                found.entry((group, user)).or_default().add(ordinal, record.msgid);
            }
        })?;
        let all: std::collections::BTreeSet<_> = found.keys().chain(self.authored.keys()).copied().collect();
        for (group, user) in all {
            if found.get(&(group, user)) != self.authored.get(&(group, user)) {
                self.own_of(group, user)?;
            }
        }
        Ok(())
    }

    /// Says where the rows of an author begin to differ from the items.
    fn own_of(&mut self, group: GroupId, user: UserId) -> Result<(), EngineError> {
        let first_kept = self.groups.get(&group).map_or(MessageId::new(1), |row| row.first_kept);
        let authored = self.authored.get(&(group, user)).copied().unwrap_or_default();
        let mut expected = authored.first;
        let mut wrong = None;
        let mut failed = Ok(());
        let view = self.view;
        view.scan(Tree::Own, &keys::own(group, user, 0), &mut |key, value| {
            let (Ok((of, by, ordinal)), Ok(record)) = (keys::parse_own(key), OwnRecord::decode(value)) else {
                return ControlFlow::Continue(());
            };
            if (of, by) != (group, user) {
                return ControlFlow::Break(());
            }
            if record.msgid < first_kept {
                return ControlFlow::Continue(());
            }
            match self.item(group, record.msgid) {
                Err(error) => failed = Err(error),
                Ok(_) if authored.first == 0 => {
                    wrong = Some(format!("number {ordinal} of {user} leads to {}, which is not theirs", record.msgid));
                }
                Ok(_) if ordinal != expected => wrong = Some(format!("number {expected} of {user} leads nowhere")),
                Ok(Some((item, meaning))) if meaning.author == user && item.own == ordinal => {
                    expected += 1;
                    return ControlFlow::Continue(());
                }
                Ok(_) => {
                    wrong = Some(format!("number {ordinal} of {user} leads to {}, which is not that", record.msgid));
                }
            }
            ControlFlow::Break(())
        })?;
        failed?;
        if wrong.is_none() && authored.first > 0 && expected <= authored.last {
            wrong = Some(format!("number {expected} of {user} leads nowhere"));
        }
        if let Some(wrong) = wrong {
            self.report.rows(format!("{group}: content item {wrong}"));
        }
        Ok(())
    }

    /// What is noted as recalled was wiped, and the other way round.
    pub(super) fn recalled(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Recalled, |rows, key, value, _| {
            let (Ok((group, msgid)), Ok(record)) = (keys::parse_message(key), RecalledRecord::decode(value)) else {
                return;
            };
            let was_wiped = rows.wiped.remove(&(group, msgid));
            let is_kept = rows.groups.get(&group).is_none_or(|row| msgid >= row.first_kept);
            if rows.head(group).is_none_or(|head| msgid > head || msgid == MessageId::ZERO) {
                rows.report.rows(format!("{group} {msgid} is recalled, but there is no such item"));
            } else if is_kept && !was_wiped {
                rows.report.rows(format!("{group} {msgid} is recalled, but still says something"));
            }
            rows.check_user(record.author, &format!("{group} {msgid}, which is recalled, is by"));
        })?;
        for (group, msgid) in std::mem::take(&mut self.wiped) {
            self.report.rows(format!("{group} {msgid} says nothing, but was not recalled"));
        }
        Ok(())
    }

    /// Mentions of a user in a group are numbered as they came.
    pub(super) fn mentions(&mut self) -> Result<(), EngineError> {
        let mut last: Option<((GroupId, UserId), u64, MessageId)> = None;
        self.each(Tree::Mentions, |rows, key, value, _| {
            let (Ok((group, user, number)), Ok(MentionRecord { msgid, .. })) =
                (keys::parse_mention(key), MentionRecord::decode(value))
            else {
                return;
            };
            let before = last.filter(|(of, ..)| *of == (group, user)).map(|(_, number, msgid)| (number, msgid));
            let from_the_first = rows.groups.get(&group).is_none_or(|row| row.first_kept <= MessageId::new(1));
            let name = format!("{group}: mention {number} of {user}");
            match before {
                Some((number_before, _)) if number_before + 1 != number => {
                    rows.report.rows(format!("{name} follows number {number_before}"));
                }
                Some((_, msgid_before)) if msgid_before >= msgid => {
                    rows.report.rows(format!("{name} is {msgid}, after {msgid_before}"));
                }
                None if from_the_first && number != 1 => rows.report.rows(format!("{name} is the first")),
                Some(_) | None => {}
            }
            if rows.head(group).is_none_or(|head| msgid > head || msgid == MessageId::ZERO) {
                rows.report.rows(format!("{name} leads to {msgid}, which does not exist"));
            }
            rows.check_user(user, &format!("{name} is of"));
            last = Some(((group, user), number, msgid));
        })
    }
}
