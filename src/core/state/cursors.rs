//! Cursors and read marks: up, never down, and never past what is durable.
//!
//! Acks and read marks are clamped to the durable visible head and are no error when they say nothing new. Skipping is
//! a request of its own, and may be refused.

use std::collections::BTreeSet;

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Event, Refusal};
use crate::core::conversations::READ_MARK;
use crate::core::rows::{CursorRow, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::{Limited, READ_MARKS};
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::proof::{self, Wrong};

type Entries = Vec<(GroupId, MessageId)>;

impl Decision<'_> {
    pub(super) fn ack(&mut self, device: DeviceId, entries: &[(GroupId, MessageId)]) -> Decided {
        let user = self.session(device)?;
        let (answer, risen) = self.raise_all(user, device, Verb::Ack, entries);
        if !risen.is_empty() {
            self.events.push(Event::Cursors { device, entries: risen });
        }
        Ok(answer)
    }

    pub(super) fn read_marks(&mut self, device: DeviceId, entries: &[(GroupId, MessageId)]) -> Decided {
        let user = self.session(device)?;
        let (answer, risen) = self.raise_all(user, READ_MARK, Verb::ReadMark, entries);
        if !risen.is_empty() {
            self.events.push(Event::ReadMarks { user, by: device, entries: risen });
        }
        Ok(answer)
    }

    /// Moves the read mark up, where it has still the version that the mark was made under.
    pub(super) fn mark_read(&mut self, device: DeviceId, group: GroupId, to: MessageId, version: u64) -> Decided {
        let user = self.session(device)?;
        let before = self.mark_of(user, group)?;
        let is_behind = to.min(self.tables.visible_head(user, group)) <= before.msgid;
        if version < before.version || (is_behind && !proof::is(Wrong::ReadMarkGoesBack)) {
            return Ok(Answer::ReadMark { group, msgid: before.msgid, version: before.version });
        }
        self.put_mark(user, device, group, to, before.version)
    }

    /// Sets the read mark where it is wanted, backwards too, under a new version. Asked again it is done already; where
    /// another device was faster the asker has to look first.
    pub(super) fn mark_unread(&mut self, device: DeviceId, group: GroupId, to: MessageId, version: u64) -> Decided {
        let user = self.session(device)?;
        let before = self.mark_of(user, group)?;
        let to = to.min(self.tables.visible_head(user, group));
        if before.version == version.saturating_add(1) && before.msgid == to {
            return Ok(Answer::ReadMark { group, msgid: to, version: before.version });
        }
        if before.version != version {
            return Err(Refusal::MarkMoved);
        }
        // In a direct chat that nothing has begun there is nothing to be unread, and no membership for a mark to be of.
        if self.tables.member(group, user).is_none() {
            return Ok(Answer::ReadMark { group, msgid: MessageId::ZERO, version: before.version });
        }
        self.put_mark(user, device, group, to, version.saturating_add(1))
    }

    fn mark_of(&self, user: UserId, group: GroupId) -> Result<CursorRow, Refusal> {
        self.tables.may_in(group, Verb::ReadMark, Some(user))?;
        Ok(self.cursor(group, user, READ_MARK).unwrap_or(CursorRow::without_ordinals(MessageId::ZERO)))
    }

    fn put_mark(&mut self, user: UserId, by: DeviceId, group: GroupId, to: MessageId, version: u64) -> Decided {
        self.use_up(user, Limited::ReadMarks, 1, READ_MARKS)?;
        let msgid = to.min(self.tables.visible_head(user, group));
        let row = CursorRow { version, ..self.cursor_at(group, user, msgid) };
        self.put(Write::Cursor(group, user, READ_MARK, row));
        self.events.push(Event::ReadMarks { user, by, entries: vec![(group, msgid)] });
        Ok(Answer::ReadMark { group, msgid, version })
    }

    pub(super) fn skip(&mut self, device: DeviceId, group: GroupId, to: MessageId) -> Decided {
        let user = self.session(device)?;
        self.tables.may_in(group, Verb::Skip, Some(user))?;
        if to > self.tables.visible_head(user, group) {
            return Err(Refusal::BeyondHead);
        }
        self.ack(device, &[(group, to)])
    }

    /// Raises cursors as far as asked and possible; answers where each stands, and which have risen.
    fn raise_all(
        &mut self,
        user: UserId,
        device: DeviceId,
        verb: Verb,
        entries: &[(GroupId, MessageId)],
    ) -> (Answer, Entries) {
        let (mut moved, mut refused, mut risen) = (Vec::with_capacity(entries.len()), Vec::new(), Vec::new());
        for (group, to) in entries.iter().copied() {
            if let Err(why) = self.tables.may_in(group, verb, Some(user)) {
                refused.push((group, why));
                continue;
            }
            let now = self
                .cursor(group, user, device)
                .unwrap_or_else(|| self.delivery_start(group, user, &self.devices_of(user)));
            // What names no version was marked under the first.
            let is_late = device == READ_MARK && now.version > 0;
            let now = now.msgid;
            let to = to.min(self.tables.visible_head(user, group));
            if to > now && !is_late {
                if device == READ_MARK
                    && let Err(why) = self.use_up(user, Limited::ReadMarks, 1, READ_MARKS)
                {
                    refused.push((group, why));
                    continue;
                }
                self.put(Write::Cursor(group, user, device, self.cursor_at(group, user, to)));
                risen.push((group, to));
            }
            moved.push((group, if is_late { now } else { to.max(now) }));
        }
        (Answer::Cursors { moved, refused }, risen)
    }

    /// A cursor at a committed item, with the ordinals where no item must be read for them: at the visible head.
    fn cursor_at(&self, group: GroupId, user: UserId, msgid: MessageId) -> CursorRow {
        let stay = self.tables.member(group, user).and_then(|row| row.intervals.last());
        let own = self.tables.own(group, user);
        match stay.map(|stay| (stay.left, stay.content_until)) {
            Some((None, _)) if msgid == self.tables.head(group) => {
                CursorRow { msgid, content: self.tables.content(group), own, version: 0 }
            }
            Some((Some(left), content)) if msgid == left => CursorRow { msgid, content, own, version: 0 },
            Some(_) | None => CursorRow::without_ordinals(msgid),
        }
    }

    /// Where delivery to a new device starts: at the furthest cursor of its user's devices, revoked ones included, else
    /// before the first visible item.
    pub(super) fn delivery_start(&self, group: GroupId, user: UserId, devices: &BTreeSet<DeviceId>) -> CursorRow {
        let cursors = devices.iter().filter_map(|device| self.cursor(group, user, *device));
        if let Some(furthest) = cursors.max_by_key(|row| row.msgid) {
            return furthest;
        }
        let head = self.marks(group).head;
        let kept = self.first_kept(group);
        let Some(row) = self.member(group, user) else { return CursorRow::without_ordinals(MessageId::ZERO) };
        let first = row.next_visible(MessageId::ZERO, kept, head).unwrap_or(head.next());
        match row.intervals.first() {
            _ if first == MessageId::new(1) => CursorRow { msgid: MessageId::ZERO, content: 0, own: 0, version: 0 },
            Some(stay) if stay.joined == first => {
                CursorRow { msgid: first.previous(), content: stay.content_before, own: 0, version: 0 }
            }
            Some(_) | None => CursorRow::without_ordinals(first.previous()),
        }
    }
}
