//! Frames of the push stream.

use crate::ids::{DeviceId, GroupId, MessageId};
use crate::limits::{ACK_ENTRIES_MAX, PUSH_BATCHES_MAX};
use crate::wire::bounded;
use crate::wire::part::PushBatch;

frames! {
    // ---- push stream ------------------------------------------------------------------------------------------------
    /// New items for a listener.
    112 Push {
        /// The credit in force, in items.
        credit_items: u32,
        /// The credit in force, in bytes.
        credit_bytes: u32,
        /// One a group.
        #[serde(deserialize_with = "bounded::list::<_, _, { PUSH_BATCHES_MAX }>")]
        batches: Vec<PushBatch>,
    }
    /// Heads of groups, in place of items; costs no credit.
    113 Heads {
        /// (group, highest msgid this member may know of).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
    /// The user's membership changed.
    114 MembershipNotice {
        /// The group.
        gid: GroupId,
        /// True: is a member now. False: is not any more.
        member: bool,
        /// The join or leave item.
        msgid: MessageId,
    }
    /// A device of the user was added or revoked.
    115 DeviceNotice {
        /// Which.
        device: DeviceId,
        /// Its name.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
        /// True: added. False: revoked.
        added: bool,
    }
    /// The user's read mark moved, by another device. Extension 1: the versions of the marks, a list in the same order;
    /// without it all are zero.
    116 ReadMarkNotice {
        /// (group, msgid).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
}
