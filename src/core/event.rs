//! What a decision did that others must be told.

use crate::ids::{DeviceId, GroupId, MessageId, UserId};

/// What a command did that others must be told, once durable. Read the rest from the committed view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Items were added: fan them out.
    Items {
        /// The group.
        group: GroupId,
        /// The first.
        first: MessageId,
        /// The last.
        last: MessageId,
    },
    /// A user's membership began or ended.
    Membership {
        /// The group.
        group: GroupId,
        /// Who.
        user: UserId,
        /// Whether they are a member now.
        member: bool,
        /// The item that says so.
        msgid: MessageId,
    },
    /// A device was enrolled.
    DeviceAdded(DeviceId),
    /// A device was revoked: close its connections.
    DeviceRevoked(DeviceId),
    /// A user was deactivated: close the connections of all their devices.
    UserShutOut(UserId),
    /// A user has switched something: what others may know of them is another.
    Switched(UserId),
    /// Read marks of a user moved: tell the other devices.
    ReadMarks {
        /// Whose.
        user: UserId,
        /// By which device.
        by: DeviceId,
        /// (group, msgid).
        entries: Vec<(GroupId, MessageId)>,
    },
    /// Cursors of a device moved: the listener learns of a skip by another connection.
    Cursors {
        /// Which.
        device: DeviceId,
        /// (group, msgid).
        entries: Vec<(GroupId, MessageId)>,
    },
    /// The first operator's device exists: the first invite's file can go.
    OperatorExists,
}
