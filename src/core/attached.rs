//! What is read of stored items for a command, since [`super::state::State`] holds none, and until when that counts.
//!
//! Whoever hands a command on looks at the committed view, reads the item up to the durable head, and attaches it. Until
//! the command is decided the item may change: by an edit or a recall, each of which is an item of the same group with a
//! higher msgid. So what was read counts as long as nothing in the group was edited or recalled above the head that it
//! was read at; else it is read again, where the command stands in the order of its device. What the batch under way
//! changes `State` knows by itself.

use crate::core::rows::ItemRow;
use crate::core::tables::Tables;
use crate::ids::{GroupId, MessageId};

/// Which item a command wants to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its group.
    pub group: GroupId,
    /// Its place.
    pub msgid: MessageId,
    /// How much of it.
    pub of: Extent,
}

/// How much of an item is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All but what it says.
    Head,
    /// All of it.
    Whole,
    /// All but what it says, and the same of each edit.
    WithEdits,
}

/// What was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Attached {
    /// The durable head of the group when it was read; nothing above is in it.
    pub head: MessageId,
    /// The item, where there was one, and then its edits, the newest first, where they were wanted.
    pub items: Vec<ItemRow>,
}

impl Attached {
    pub(in crate::core) fn is_outdated(&self, wanted: Wanted, tables: &Tables) -> bool {
        let Wanted { group, msgid, .. } = wanted;
        let came_since = self.head < msgid && msgid <= tables.head(group);
        came_since || tables.last_change(group) > self.head
    }

    /// An item of it.
    pub(in crate::core) fn item(&self, group: GroupId, msgid: MessageId) -> Option<&ItemRow> {
        self.items.iter().find(|item| (item.group, item.msgid) == (group, msgid))
    }
}
