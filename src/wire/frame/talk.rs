//! Frames about conversations: read marks, what is unread, and who has received and read what.

use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::RECEIPTS_TOLD_MAX;
use crate::wire::bounded::{self, Rows};
use crate::wire::talk::{Conversation, ReceiptInfo};

frames! {
    // ---- control stream ---------------------------------------------------------------------------------------------
    /// Moves the user's read mark in a group forwards. A mark that was made under a lower version is late and does nothing.
    /// Answered by [`ReadMark`].
    56 MarkRead {
        /// The group.
        gid: GroupId,
        /// The last msgid that was read.
        msgid: MessageId,
        /// The version of the mark when that was read.
        version: u64,
    }
    /// The user's read mark in a group as it stands, durably.
    57 ReadMark {
        /// The group.
        gid: GroupId,
        /// The last msgid that counts as read.
        msgid: MessageId,
        /// How often it was set anew.
        version: u64,
    }
    /// Sets the user's read mark where it is wanted, backwards too: what lies behind it is unread. Answered by
    /// [`ReadMark`].
    58 MarkUnread {
        /// The group.
        gid: GroupId,
        /// The last msgid that counts as read.
        msgid: MessageId,
        /// The version that the mark has; the answer has the next.
        version: u64,
    }

    // ---- request streams --------------------------------------------------------------------------------------------
    /// Asks for the caller's conversations that have changed. Answered by [`ConversationList`].
    92 Conversations {
        /// The version of the list that the caller has; zero: none, so all of it.
        since: u64,
        /// The place of the last row that was given, where the list goes on: its `changed` and `gid`.
        behind: Option<(u64, GroupId)>,
        /// At most so many rows; zero: as many as the server likes.
        rows: u32,
        /// At most so many bytes of what was said last in each; zero: nothing of it.
        preview_bytes: u32,
    }
    /// Conversations, those that have changed last before the others.
    93 ConversationList {
        /// Each as it stood at one moment.
        rows: Rows<Conversation>,
        /// Whether there are more behind the last.
        more: bool,
        /// What to ask since next time, once all of the list that began here was read.
        version: u64,
    }
    /// Asks who has received and who has read an item. Answered by [`ReceiptList`].
    94 Receipts {
        /// The group.
        gid: GroupId,
        /// The item.
        msgid: MessageId,
        /// Users with a higher id.
        after: UserId,
    }
    /// How far those have come with an item who were in the group when it was sent, but for its author.
    95 ReceiptList {
        /// How many of them say how far they have come.
        members: u32,
        /// How many of those have received it.
        received: u32,
        /// How many of those have read it.
        read: u32,
        /// How many do not say.
        silent: u32,
        /// Each who says so, by user id.
        rows: Rows<ReceiptInfo>,
        /// Whether there are more.
        more: bool,
    }

    // ---- push stream ------------------------------------------------------------------------------------------------
    /// Others have come further in a group in which the user has said something.
    117 ReceiptNotice {
        /// The group.
        gid: GroupId,
        /// Who: (user, the last msgid received, the last msgid read).
        #[serde(deserialize_with = "bounded::list::<_, _, { RECEIPTS_TOLD_MAX }>")]
        users: Vec<(UserId, MessageId, MessageId)>,
        /// Whether there are others, whom to ask for.
        more: bool,
    }
}
