//! What a group keeps: how it is said, and how it is explained.

use crate::ids::{DeviceId, GroupId, MessageId, UserId};

frames! {
    /// Says what a group keeps; a part that is none removes nothing. Answered by [`Done`](super::Done) with msgid 0.
    140 SetRetention {
        /// The group.
        gid: GroupId,
        /// Whether the group has a policy of its own; else what follows is none, and what the server says counts.
        own: bool,
        /// Items older than this go, in seconds.
        age_s: Option<u64>,
        /// Of more items than this the oldest go.
        count: Option<u64>,
        /// Of more bytes of items than this the oldest go.
        bytes: Option<u64>,
        /// What every live device of every member has acknowledged goes once it is older than this, in seconds.
        acked_s: Option<u64>,
    }
    /// Asks what a group keeps, and why. Answered by [`RetentionInfo`].
    141 AskRetention {
        /// The group.
        gid: GroupId,
    }
    /// What a group keeps, and why.
    142 RetentionInfo {
        /// The group.
        gid: GroupId,
        /// Whether the group has a policy of its own; else it is the server's.
        own: bool,
        /// As in [`SetRetention`].
        age_s: Option<u64>,
        /// As in [`SetRetention`].
        count: Option<u64>,
        /// As in [`SetRetention`].
        bytes: Option<u64>,
        /// As in [`SetRetention`].
        acked_s: Option<u64>,
        /// The first item that is kept.
        first_kept: MessageId,
        /// The last item.
        head: MessageId,
        /// What the clock shows that ages are reckoned by, ms since 1970.
        clock_ms: u64,
        /// A device that was not seen for so long holds nothing back, in seconds.
        unseen_s: u64,
        /// Of the live devices of members, whose has acknowledged least.
        holder_user: Option<UserId>,
        /// Which device that is.
        holder_device: Option<DeviceId>,
        /// Up to where it has everything that it may see.
        holder_acked: MessageId,
        /// The last day on which it was there, in days since 1970.
        holder_seen_day: u32,
    }
}
