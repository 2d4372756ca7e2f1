//! What a user may see of the committed view: by every road the same.
//!
//! Pages, pushes, lists and counts ask here; the arithmetic on the stays of one member is in [`super::visible`].

use crate::core::listener::Sight;
use crate::core::tables::Tables;
use crate::core::visible::Span;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};

impl Tables {
    /// Whether a user may see an item, by any road. An item below first kept is gone, and nobody sees it.
    #[must_use]
    pub fn may_see(&self, user: UserId, group: GroupId, msgid: MessageId) -> bool {
        msgid >= self.first_kept(group)
            && self.member(group, user).is_some_and(|row| row.may_see(msgid, self.head(group)))
    }

    /// What a user may see of a group above a msgid and not below first kept: ascending, without overlaps.
    pub fn visible(&self, user: UserId, group: GroupId, after: MessageId) -> impl Iterator<Item = Span> + '_ {
        self.spans(user, group, after.next().max(self.first_kept(group)), self.head(group))
    }

    /// What a user could have seen of a group above a msgid, had retention not removed it.
    pub fn gone(&self, user: UserId, group: GroupId, after: MessageId) -> impl Iterator<Item = Span> + '_ {
        self.spans(user, group, after.next(), self.first_kept(group).previous())
    }

    fn spans(
        &self,
        user: UserId,
        group: GroupId,
        first: MessageId,
        last: MessageId,
    ) -> impl Iterator<Item = Span> + '_ {
        let head = self.head(group);
        let row = self.member(group, user);
        row.into_iter().flat_map(move |row| row.visible(head)).filter_map(move |span| span.within(first, last))
    }

    /// The first item above a msgid that a user may see.
    #[must_use]
    pub fn next_visible(&self, user: UserId, group: GroupId, after: MessageId) -> Option<MessageId> {
        self.member(group, user)?.next_visible(after, self.first_kept(group), self.head(group))
    }

    /// The highest msgid that a user may know of: the head, or for a former member the item that ended the last stay;
    /// zero for everybody else.
    #[must_use]
    pub fn visible_head(&self, user: UserId, group: GroupId) -> MessageId {
        self.member(group, user).map_or(MessageId::ZERO, |row| row.visible_head(self.head(group)))
    }

    /// How far a msgid up to which all was given reaches: over invisible and gone ranges to just before the next
    /// visible item, at most to the visible head. Never below the msgid itself.
    #[must_use]
    pub fn covered_to(&self, user: UserId, group: GroupId, given: MessageId) -> MessageId {
        let end = self.next_visible(user, group, given).map_or(self.visible_head(user, group), MessageId::previous);
        end.max(given)
    }

    /// What the listener of a device sees.
    #[must_use]
    pub fn sight(&self, user: UserId, device: DeviceId) -> TablesSight<'_> {
        TablesSight { tables: self, user, device }
    }
}

/// The committed view with the eyes of one device.
#[derive(Clone, Copy)]
pub struct TablesSight<'a> {
    tables: &'a Tables,
    user: UserId,
    device: DeviceId,
}

impl Sight for TablesSight<'_> {
    fn cursor(&self, group: GroupId) -> Option<MessageId> {
        let cursor = self.tables.cursor(group, self.user, self.device).map(|row| row.msgid);
        cursor.or_else(|| self.tables.is_group_known_to(self.user, group).then_some(MessageId::ZERO))
    }

    fn head(&self, group: GroupId) -> MessageId {
        self.tables.visible_head(self.user, group)
    }

    fn next_span(&self, group: GroupId, after: MessageId) -> Option<Span> {
        self.tables.visible(self.user, group, after).next()
    }

    fn is_gone(&self, group: GroupId, after: MessageId) -> bool {
        after.next() < self.tables.first_kept(group) && self.tables.gone(self.user, group, after).next().is_some()
    }

    fn groups(&self, visit: &mut dyn FnMut(GroupId)) {
        self.tables.groups_of(self.user, GroupId::ZERO).for_each(visit);
    }
}
