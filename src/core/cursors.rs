//! Cursors and read marks as the committed view keeps them: as small as they can be, since they are the most rows.
//!
//! Versions of read marks are rare, and stand apart.

use std::collections::BTreeMap;

use crate::core::conversations::READ_MARK;
use crate::core::rows::CursorRow;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};

/// Where one stands.
#[derive(Clone, Copy)]
pub(in crate::core) struct Stands {
    msgid: MessageId,
    content: u64,
    own: u64,
}

/// All of them.
#[derive(Default)]
pub(in crate::core) struct Cursors {
    rows: BTreeMap<(GroupId, UserId, DeviceId), Stands>,
    /// Versions of read marks, but for those that are zero.
    versions: BTreeMap<(GroupId, UserId), u64>,
}

impl Stands {
    fn row(self, version: u64) -> CursorRow {
        let Stands { msgid, content, own } = self;
        CursorRow { msgid, content, own, version }
    }
}

impl Cursors {
    /// Puts one.
    pub(in crate::core) fn put(&mut self, group: GroupId, user: UserId, device: DeviceId, row: CursorRow) {
        let CursorRow { msgid, content, own, version } = row;
        self.rows.insert((group, user, device), Stands { msgid, content, own });
        if version > 0 {
            self.versions.insert((group, user), version);
        } else if device == READ_MARK {
            self.versions.remove(&(group, user));
        }
    }

    /// The cursor of a device, or the read mark of a user.
    pub(in crate::core) fn one(&self, group: GroupId, user: UserId, device: DeviceId) -> Option<CursorRow> {
        let stands = self.rows.get(&(group, user, device))?;
        let version = if device == READ_MARK { self.versions.get(&(group, user)) } else { None };
        Some(stands.row(version.copied().unwrap_or(0)))
    }

    /// The cursors of all devices of a user in a group.
    pub(in crate::core) fn of_devices(
        &self,
        group: GroupId,
        user: UserId,
    ) -> impl Iterator<Item = (DeviceId, CursorRow)> + '_ {
        let devices = (group, user, READ_MARK.next())..=(group, user, DeviceId::new(u32::MAX));
        self.rows.range(devices).map(|((_, _, device), stands)| (*device, stands.row(0)))
    }

    /// How many there are.
    pub(in crate::core) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on disk, where a row without a version stands in the place of the one before it.
    #[test]
    fn a_read_mark_that_is_put_again_has_the_version_that_was_put() {
        let (group, user) = (GroupId::new(1), UserId::new(2));
        let row = |version| CursorRow { version, ..CursorRow::without_ordinals(MessageId::new(3)) };
        let mut cursors = Cursors::default();
        for version in [0, 2, 3, 0] {
            cursors.put(group, user, READ_MARK, row(version));
            cursors.put(group, user, READ_MARK.next(), row(0));
            assert_eq!(cursors.one(group, user, READ_MARK), Some(row(version)));
        }
        assert!(cursors.versions.is_empty());
    }
}
