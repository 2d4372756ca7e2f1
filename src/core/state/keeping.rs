//! What groups keep: the policy is set, the first kept item moves, and what lies below it goes, a few rows at a time.
//!
//! The first kept item moves in a frame that is durable before anything is removed, so that at any moment everything from
//! it on is there. It never moves down.

use std::cmp::Reverse;

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Refusal, Retain, Trim};
use crate::core::retention::Retention;
use crate::core::rows::{Act, DeviceRow, GroupRow, ItemRow, Meta, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, MessageId};
use crate::proof::{self, Wrong};

impl Decision<'_> {
    /// A group keeps what is said here; none: what the server says.
    pub(super) fn set_retention(&mut self, by: DeviceId, group: GroupId, policy: Option<Retention>) -> Decided {
        let user = self.session(by)?;
        self.may_in(group, Verb::SetRetention, Some(user))?;
        let row = self.group(group).ok_or(Refusal::NoSuchGroup)?.clone();
        if row.retention != policy {
            self.use_up(user, Limited::Sends, 1, self.settings.sends)?;
            self.put_group(group, GroupRow { retention: policy, ..row });
        }
        Ok(Answer::Done(None))
    }

    /// Moves the first kept item up, where what was read and what is committed agree that it may.
    pub(super) fn retain(&mut self, retain: &Retain) -> Decided {
        let Retain { group, policy, read, to, content_gone, clock_ms } = *retain;
        let row = self.group(group).ok_or(Refusal::NoSuchGroup)?.clone();
        let keeping = self.settings.keeping;
        let stands = row.retention.unwrap_or(keeping.default) == policy;
        let most = self.tables.first_to_keep(group, policy, keeping, read, clock_ms);
        if stands && row.first_kept < to && to <= most && self.counts(&row, retain) {
            self.put_group(group, GroupRow { first_kept: to, content_gone, ..row });
            return self.keep_clock(clock_ms);
        }
        Ok(Answer::Done(None))
    }

    /// It never goes back.
    pub(super) fn keep_clock(&mut self, clock_ms: u64) -> Decided {
        if clock_ms > self.meta(Meta::RetentionClock) {
            self.put(Write::Meta(Meta::RetentionClock, clock_ms));
        }
        Ok(Answer::Done(None))
    }

    /// Whether as many content items may go with these items as was read.
    fn counts(&self, row: &GroupRow, retain: &Retain) -> bool {
        let items = retain.to.value().saturating_sub(row.first_kept.value());
        let content = retain.content_gone.checked_sub(row.content_gone);
        content.is_some_and(|content| content <= items) && retain.content_gone <= self.marks(retain.group).content
    }

    /// Removes rows of items that lie below the first kept one in the committed view. The last row by which an author's
    /// items are counted stays, and the last one by which the mentions of a user are.
    pub(super) fn trim(&mut self, trim: Trim) -> Decided {
        let Trim { group, items, mut recalled, edits, own, mentions } = trim;
        let first_kept = self.tables.first_kept(group);
        let goes = |msgid: &MessageId| *msgid < first_kept || proof::is(Wrong::TrimOneTooMany);
        for msgid in items.into_iter().filter(goes) {
            self.put(Write::ItemGone(group, msgid));
        }
        // The newest first, see [`crate::core::recalled::Recalled`].
        recalled.sort_unstable_by_key(|(msgid, _)| Reverse(*msgid));
        for (msgid, row) in recalled.into_iter().filter(|(msgid, _)| *msgid < first_kept) {
            self.put(Write::RecalledGone(group, msgid, row));
        }
        let is_of_what_is_gone = |edit: &ItemRow| match edit.content.act() {
            Some(Act::Edits(target)) => target < first_kept,
            Some(Act::Says | Act::Recalls(_) | Act::Reacts(_)) | None => false,
        };
        for edit in edits.into_iter().filter(|edit| first_kept <= edit.msgid && is_of_what_is_gone(edit)) {
            self.put(Write::Changed(edit.wiped()));
        }
        for (author, number, _) in own.into_iter().filter(|(.., msgid)| *msgid < first_kept) {
            if number < self.tables.own(group, author) {
                self.put(Write::OwnGone(group, author, number));
            }
        }
        for (user, number, _) in mentions.into_iter().filter(|(.., msgid)| *msgid < first_kept) {
            if number < self.tables.mentions(group, user) {
                self.put(Write::MentionGone(group, user, number));
            }
        }
        Ok(Answer::Done(None))
    }

    /// A device is there on this day: it holds back what it has not acknowledged.
    pub(super) fn seen(&mut self, device: DeviceId, day: u32) -> Decided {
        self.session(device)?;
        if let Some(row) = self.device(device).filter(|row| row.seen_day() < day).cloned() {
            self.put(Write::Device(device, DeviceRow { seen_day: day, ..row }));
        }
        Ok(Answer::Done(None))
    }
}
