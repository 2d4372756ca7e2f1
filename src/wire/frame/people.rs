//! People: what they say of themselves, users shut out, let in again and deleted, who is there and who types.

use crate::ids::{GroupId, UserId};
use crate::limits::LIST_ROWS_MAX;
use crate::wire::bounded;

frames! {
    /// Says what the caller's user wants to be called. Answered by [`super::Done`].
    60 SetName {
        /// What; empty: by the handle alone.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
    }
    /// Shuts a user out until they are reactivated: their connections close within 2 s, everything of theirs stays.
    /// Operators only. Answered by [`super::Done`].
    62 DeactivateUser {
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Lets a user in again. Operators only. Answered by [`super::Done`].
    63 ReactivateUser {
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Deletes a user, a step at a time. Operators only. Answered by [`Deleting`].
    128 DeleteUser {
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// The user is shut out, and gone from some of their groups.
    129 Deleting {
        /// Groups that they are still in: ask again. Zero: the user is deleted.
        left: u32,
    }
    /// Lets somebody new have the handle of a deleted user. Operators only. Answered by [`super::Done`].
    130 FreeHandle {
        /// Which.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }

    // ---- request streams --------------------------------------------------------------------------------------------
    /// Asks who of a group is there now. Answered by [`OnlineList`].
    136 ListOnline {
        /// The group.
        gid: GroupId,
        /// Users with a higher id.
        after: UserId,
    }
    /// Current members who are there, by user id.
    137 OnlineList {
        /// Who.
        #[serde(deserialize_with = "bounded::list::<_, _, { LIST_ROWS_MAX }>")]
        users: Vec<UserId>,
        /// Whether there are more.
        more: bool,
    }

    // ---- datagrams --------------------------------------------------------------------------------------------------
    /// The caller's user is writing something. To the server; nothing answers.
    160 Typing {
        /// The group.
        gid: GroupId,
    }
    /// A fellow member is writing something. To listeners.
    161 TypingNote {
        /// The group.
        gid: GroupId,
        /// Who.
        user: UserId,
    }
    /// Somebody who is in a group with the receiver has come or gone. To listeners.
    162 PresenceNote {
        /// Who.
        user: UserId,
        /// True: is there now. False: is not any more.
        online: bool,
    }
}
