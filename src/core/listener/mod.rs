//! What one connection that listens is handed, and what of it its device may acknowledge.

use crate::ids::{GroupId, MessageId};

/// What the device of a listener can see of the committed view.
pub trait Sight {
    /// The durable cursor of the device; none where the user may not know of the group.
    fn cursor(&self, group: GroupId) -> Option<MessageId>;
    /// The highest durable msgid of a group that the user may know of.
    fn head(&self, group: GroupId) -> MessageId;
    /// The first visible item above a msgid that is durable and was not removed.
    fn next_visible(&self, group: GroupId, after: MessageId) -> Option<MessageId>;
    /// Visits every group that the user may know of.
    fn groups(&self, visit: &mut dyn FnMut(GroupId));
}
