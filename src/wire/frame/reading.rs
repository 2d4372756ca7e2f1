//! Frames of the acks stream and of request streams.

use bytes::Bytes;

use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits::{ACK_ENTRIES_MAX, GONE_RANGES_MAX, LIST_ROWS_MAX};
use crate::wire::bounded::{self, Rows};
use crate::wire::part::{DeviceInfo, GroupInfo, MemberInfo, UserInfo};

frames! {
    // ---- acks stream ------------------------------------------------------------------------------------------------
    /// Cumulative acks of a listener: everything up to each msgid is with the application.
    64 Ack {
        /// (group, msgid), at most [`crate::limits::ACK_ENTRIES_MAX`].
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
    /// What a listener wants pushed; a newer one replaces an older.
    65 Subscribe {
        /// All groups, now and later; then `groups` is empty.
        all: bool,
        /// These groups.
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        groups: Vec<GroupId>,
    }
    /// Read marks of the user; callers may send them too.
    66 ReadMarks {
        /// (group, msgid).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }

    // ---- request streams --------------------------------------------------------------------------------------------
    /// Asks for a page. Answered by any number of [`PageRows`], then [`PageEnd`]; or [`super::Error`].
    80 Pull {
        /// The group.
        gid: GroupId,
        /// Items above this msgid.
        after: MessageId,
        /// At most so many items; zero: the server's default.
        items: u32,
        /// True: this hands items out and moves what a listener may ack. False: browsing.
        deliver: bool,
    }
    /// Some rows of a page, usable as they come.
    81 PageRows {
        /// Encoded rows, see [`crate::wire::row::Row`].
        rows: Bytes,
    }
    /// The page is complete.
    82 PageEnd {
        /// Everything visible up to here was given.
        covered_to: MessageId,
        /// Whether a visible item remains above.
        more: bool,
        /// Ranges that retention removed: (first, last).
        #[serde(deserialize_with = "bounded::list::<_, _, { GONE_RANGES_MAX }>")]
        gone: Vec<(MessageId, MessageId)>,
        /// The highest msgid this member may know of.
        head: MessageId,
    }
    /// Asks for the caller's groups. Answered by [`GroupList`].
    83 ListGroups {
        /// Groups with a higher id.
        after: GroupId,
    }
    /// Groups, by id.
    84 GroupList {
        /// Each with what this member may know of it.
        rows: Rows<GroupInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the members of a group. Answered by [`MemberList`].
    85 ListMembers {
        /// The group.
        gid: GroupId,
        /// Users with a higher id.
        after: UserId,
    }
    /// Current members, by user id.
    86 MemberList {
        /// Each with its role.
        rows: Rows<MemberInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the users of the server. Answered by [`UserList`].
    87 ListUsers {
        /// Users with a higher id.
        after: UserId,
    }
    /// Users, by id.
    88 UserList {
        /// Each with its handle.
        rows: Rows<UserInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the devices of a user. Answered by [`DeviceList`].
    89 ListDevices {
        /// Whose; none: the caller's own. Somebody else's: operators only.
        #[serde(deserialize_with = "bounded::maybe_text")]
        handle: Option<String>,
        /// Devices with a higher id.
        after: DeviceId,
    }
    /// Devices, by id.
    90 DeviceList {
        /// Each with its name.
        rows: Rows<DeviceInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the handles of users. Answered by [`UserList`] with those that exist.
    91 Names {
        /// At most [`crate::limits::LIST_ROWS_MAX`].
        #[serde(deserialize_with = "bounded::list::<_, _, { LIST_ROWS_MAX }>")]
        users: Vec<UserId>,
    }
}
