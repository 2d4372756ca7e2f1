//! What can be asked about conversations: which have changed, what is unread in them, and who has read what one said.

use std::fmt;

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::requests::{Effect, none};
use crate::client::types::Role;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::PREVIEW_BYTES_MAX;
use crate::wire::frame;

/// One's own read mark in a group: shared by all one's devices, apart from what a device has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadMark {
    /// The group.
    pub group: GroupId,
    /// The last msgid that counts as read.
    pub msgid: MessageId,
    /// How often it was set anew, as by marking something unread. What is marked as read names it.
    pub version: u64,
}

/// A conversation, as it stood at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationInfo {
    /// Its group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// One's own role.
    pub role: Role,
    /// Current members; zero for a former member.
    pub members: u32,
    /// The highest msgid one may see.
    pub head: MessageId,
    /// What this device has acknowledged.
    pub cursor: MessageId,
    /// One's read mark.
    pub mark: ReadMark,
    /// Messages above it that others wrote and one may see, without those that were recalled or removed.
    pub unread: u64,
    /// Those of them that mention one.
    pub mentions: u64,
    /// The last message one may see that was not recalled, where one was found.
    pub last: Option<Preview>,
}

/// The beginning of a message.
#[derive(Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its place in the group.
    pub msgid: MessageId,
    /// The number of its kind.
    pub kind: u16,
    /// Who wrote it.
    pub author: UserId,
    /// The server's clock at the time, ms since 1970.
    pub time_ms: u64,
    /// How it begins, in at most [`PREVIEW_BYTES_MAX`] bytes, as it was edited last; empty where it is no text.
    pub text: String,
    /// Whether that is all of it.
    pub whole: bool,
}

impl fmt::Debug for Preview {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Preview of {} with {} bytes", self.msgid, self.text.len())
    }
}

/// What has changed in one's conversations since some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The conversations that have changed, each as it is now, the newest first.
    pub conversations: Vec<ConversationInfo>,
    /// What to ask since next time; keep it with them.
    pub version: u64,
}

/// How far somebody has come with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Who.
    pub user: UserId,
    /// Whether a device of theirs has it, or they have read it.
    pub received: bool,
    /// Whether they have read it.
    pub read: bool,
}

/// Who has received and who has read an item, of those who were in the group when it was sent, but for its author.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipts {
    /// How many say how far they have come.
    pub members: u32,
    /// How many of those have received it.
    pub received: u32,
    /// How many of those have read it.
    pub read: u32,
    /// How many do not say.
    pub silent: u32,
    /// Each who says so, by user id.
    pub users: Vec<Receipt>,
}

impl Client {
    /// The conversations that have changed since this version of the list, past ones included; zero: all. What changes
    /// while this is read comes with the next question.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn conversations(&self, since: u64) -> Result<Changes, RequestError> {
        let preview_bytes = u32::try_from(PREVIEW_BYTES_MAX).unwrap_or(u32::MAX);
        let mut changes = Changes::default();
        let mut behind = None;
        loop {
            let question = frame::Conversations { since, behind, rows: 0, preview_bytes, extensions: none() };
            let list: frame::ConversationList = self.look(&question).await?;
            if behind.is_none() {
                changes.version = list.version;
            }
            let last = list.rows.0.last().map(|row| (row.changed, row.gid));
            changes.conversations.extend(list.rows.0.into_iter().map(conversation));
            match last {
                Some(last) if list.more && behind.is_none_or(|behind| last < behind) => behind = Some(last),
                Some(_) | None => return Ok(changes),
            }
        }
    }

    /// Marks everything up to this msgid as read, on all one's devices; one above the head counts as the head. The
    /// version is that of the mark when it was read: where it has been set anew since, nothing moves. [`u64::MAX`]
    /// means whatever it is. Returns the mark as it stands.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn mark_read(&self, group: GroupId, msgid: MessageId, version: u64) -> Result<ReadMark, RequestError> {
        let question = frame::MarkRead { gid: group, msgid, version, extensions: none() };
        self.call(Effect::Reads, &question).await.map(mark)
    }

    /// One's read mark in a group.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn read_mark(&self, group: GroupId) -> Result<ReadMark, RequestError> {
        // Nothing lies below it, so this moves nothing.
        self.mark_read(group, MessageId::ZERO, 0).await
    }

    /// Sets the read mark where it is wanted, backwards too: what lies behind it is unread, on all one's devices. The
    /// version is the one that the mark has; where another device has set it anew, that is refused. Returns the mark as it
    /// stands, under its next version.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn mark_unread(&self, group: GroupId, msgid: MessageId, version: u64) -> Result<ReadMark, RequestError> {
        // Asked again it is done already.
        let question = frame::MarkUnread { gid: group, msgid, version, extensions: none() };
        self.call(Effect::Reads, &question).await.map(mark)
    }

    /// Who has received and who has read an item.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn receipts(&self, group: GroupId, msgid: MessageId) -> Result<Receipts, RequestError> {
        let mut receipts = Receipts::default();
        let mut after = UserId::ZERO;
        loop {
            let question = frame::Receipts { gid: group, msgid, after, extensions: none() };
            let list: frame::ReceiptList = self.look(&question).await?;
            let frame::ReceiptList { members, received, read, silent, rows, more, extensions: _ } = list;
            receipts = Receipts { members, received, read, silent, ..receipts };
            receipts.users.extend(rows.0.into_iter().map(|row| Receipt {
                user: row.user,
                received: row.received,
                read: row.read,
            }));
            match receipts.users.last() {
                Some(last) if more && last.user > after => after = last.user,
                Some(_) | None => return Ok(receipts),
            }
        }
    }
}

fn mark(mark: frame::ReadMark) -> ReadMark {
    ReadMark { group: mark.gid, msgid: mark.msgid, version: mark.version }
}

fn conversation(row: frame::Conversation) -> ConversationInfo {
    ConversationInfo {
        group: row.gid,
        name: row.name,
        role: Role::from_number(row.role),
        members: row.members,
        head: row.head,
        cursor: row.cursor,
        mark: ReadMark { group: row.gid, msgid: row.read, version: row.version },
        unread: row.unread,
        mentions: row.mentions,
        last: row.last.map(|last| Preview {
            msgid: last.msgid,
            kind: last.kind,
            author: last.author,
            time_ms: last.time_ms,
            text: last.text,
            whole: last.whole,
        }),
    }
}
