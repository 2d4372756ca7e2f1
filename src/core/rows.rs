//! The rows that decisions are made of, one type a tree. Their encoding is the store's business.

use std::fmt;

use bytes::Bytes;

use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag, UserId};

/// SHA-256 of an invite's code: all that is kept of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeHash(pub [u8; 32]);

/// SHA-256 over the gid and the payload of a send.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendHash(pub [u8; 32]);

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey(pub [u8; 32]);

impl fmt::Debug for CodeHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("CodeHash(..)")
    }
}

impl fmt::Debug for SendHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SendHash(..)")
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DeviceKey(..)")
    }
}

/// What a member may do in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything.
    Owner,
    /// Everything but what concerns owners.
    Admin,
    /// Sends and reads.
    Member,
}

/// What a new member sees of the time before; frozen into the interval at the join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// From the join on.
    FromJoin,
    /// Everything before as well.
    FullHistory,
}

/// One stay of a member in a group. Both borders are visible to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The join item.
    pub joined: MessageId,
    /// The leave item; none while it lasts.
    pub left: Option<MessageId>,
    /// What is seen of the time before.
    pub policy: Policy,
    /// Content items of the group below the join, at the join.
    pub content_before: u64,
    /// Content items of the group up to the leave; zero while it lasts.
    pub content_until: u64,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// Its name.
    pub name: String,
    /// The policy for those who join next.
    pub policy: Policy,
    /// The first item that retention has kept; 1 where nothing was removed.
    pub first_kept: MessageId,
    /// The head when this row was written: the last word only where every item was trimmed.
    pub head_mark: MessageId,
    /// The content ordinal that belongs to it.
    pub content_mark: u64,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
}

/// A member of a group, current or former.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// The role; of a former member the last one.
    pub role: Role,
    /// By join, oldest first, not empty, at most [`crate::limits::INTERVALS_MAX`]; only the last can be open.
    pub intervals: Vec<Interval>,
    /// The group's name when a former member left.
    pub name_at_leave: Option<String>,
    /// Whether they only read, as long as the stay lasts.
    pub muted: bool,
    /// Whether a former member can't be added again.
    pub banned: bool,
}

/// A cursor of a device, or with device 0 the read mark of a user.
///
/// The two ordinals are known without reading an item at a join, at the head, at the item that ended a stay, and where
/// one cursor starts from another; anywhere else both are [`CursorRow::UNKNOWN`], and whoever needs them finds them
/// in the index, by the msgid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorRow {
    /// Everything up to here is acknowledged (or read).
    pub msgid: MessageId,
    /// Content items of the group up to there, or [`CursorRow::UNKNOWN`].
    pub content: u64,
    /// Content items of the user's own up to there, or [`CursorRow::UNKNOWN`].
    pub own: u64,
    /// Of a read mark, how often it was set anew, as by marking something unread; a mark that was made under a lower
    /// version is late and does nothing. Zero for devices.
    pub version: u64,
}

impl CursorRow {
    /// Stands for an ordinal that was not known when the row was written.
    pub const UNKNOWN: u64 = u64::MAX;

    /// A cursor between the places where ordinals are known.
    #[must_use]
    pub const fn without_ordinals(msgid: MessageId) -> CursorRow {
        CursorRow { msgid, content: CursorRow::UNKNOWN, own: CursorRow::UNKNOWN, version: 0 }
    }

    /// Content items of the group and of the user's own up to the cursor, where they are known.
    #[must_use]
    pub fn ordinals(&self) -> Option<(u64, u64)> {
        (self.content != CursorRow::UNKNOWN && self.own != CursorRow::UNKNOWN).then_some((self.content, self.own))
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    /// The handle; of a deleted user the one they had.
    pub handle: Handle,
    /// Whether its rights equal those of the operator key.
    pub operator: bool,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// Whether they may come in.
    pub state: UserState,
    /// What they want to be called, see [`crate::core::names::display_name`].
    pub name: Option<String>,
}

/// Whether a user may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserState {
    /// They may.
    Active,
    /// Shut out until an operator lets them in again; everything of theirs stays.
    Deactivated {
        /// Since when, ms since 1970.
        since_ms: u64,
    },
    /// Gone for ever: in no group, with no device. Their id is not given again.
    Deleted {
        /// Since when, ms since 1970.
        since_ms: u64,
        /// Whether somebody new may have the handle, or does.
        is_handle_free: bool,
    },
}

impl UserRow {
    /// A new user.
    #[must_use]
    pub const fn new(handle: Handle, operator: bool, created_ms: u64) -> UserRow {
        UserRow { handle, operator, created_ms, state: UserState::Active, name: None }
    }

    /// Whether they may come in.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        matches!(self.state, UserState::Active)
    }

    /// Whether they are gone for ever.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        matches!(self.state, UserState::Deleted { .. })
    }

    /// Whether the handle is theirs, or reserved because it was.
    #[must_use]
    pub const fn holds_handle(&self) -> bool {
        !matches!(self.state, UserState::Deleted { is_handle_free: true, .. })
    }
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRow {
    /// Whose.
    pub user: UserId,
    /// Its public key.
    pub key: DeviceKey,
    /// What its user calls it.
    pub name: String,
    /// When it was enrolled, ms since 1970.
    pub enrolled_ms: u64,
    /// When it was revoked, if it was.
    pub revoked_ms: Option<u64>,
    /// The invite it came from, so that the same code with the same key finds it again.
    pub invite: CodeHash,
}

/// What an invite opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InviteFor {
    /// The first user, who becomes an operator and chooses the handle.
    First,
    /// A new user of this handle, who joins the group at once if one is named.
    User {
        /// The handle it will have; the first Enrol has it.
        handle: Handle,
        /// The group to join.
        group: Option<GroupId>,
    },
    /// Another device of this user.
    Device {
        /// Whose.
        user: UserId,
    },
}

/// An invite, open or used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteRow {
    /// What it opens.
    pub opens: InviteFor,
    /// Who made it; none: the operator key, or the server at its start.
    pub by: Option<UserId>,
    /// When it expires, ms since 1970.
    pub expires_ms: u64,
    /// The device it was used for.
    pub used: Option<DeviceId>,
}

/// A send that was stored, by (device, number).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRow {
    /// Where it went.
    pub group: GroupId,
    /// Its place there.
    pub msgid: MessageId,
    /// When it was decided.
    pub time_ms: u64,
    /// What it was.
    pub hash: SendHash,
}

/// The window of a device's send numbers, kept under (device, number 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendWindow {
    /// The lowest number that the client still calls unanswered; rows below are forgotten.
    pub lowest: ClientSeq,
    /// The highest number decided, a permanent refusal included.
    pub highest: ClientSeq,
}

/// Counters and marks of the server, each under a name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meta {
    /// The last group id given out.
    LastGroup,
    /// The last user id given out.
    LastUser,
    /// The last device id given out.
    LastDevice,
    /// 1 once a device of an operator has existed.
    OperatorExisted,
}

/// An item as decided; how it travels and is kept is decided elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ItemRow {
    /// The group.
    pub group: GroupId,
    /// Its place.
    pub msgid: MessageId,
    /// Who did it.
    pub author: UserId,
    /// When it was decided, ms since 1970.
    pub time_ms: u64,
    /// The sender's tag.
    pub tag: Tag,
    /// What it is.
    pub content: ItemContent,
    /// Content items of the group up to and with this one.
    pub content_ordinal: u64,
    /// Content items of the author in this group up to and with this one; zero where it is none.
    pub own_ordinal: u64,
    /// Its newest edit; of an edit, the edit before it; zero: none.
    pub last_edit: MessageId,
    /// How often it was edited.
    pub edits: u32,
    /// Whether it was recalled, itself or as an edit of what was: then its body is empty.
    pub recalled: bool,
}

impl ItemRow {
    /// What is left of it once it is recalled.
    #[must_use]
    pub fn wiped(self) -> ItemRow {
        let content = match self.content {
            ItemContent::Sent { kind, act, .. } => {
                ItemContent::Sent { kind, act, body: Bytes::new(), extensions: Vec::new(), mentions: Vec::new() }
            }
            other @ (ItemContent::Created { .. }
            | ItemContent::Joined(_)
            | ItemContent::Left(_)
            | ItemContent::Removed(_)
            | ItemContent::Renamed(_)
            | ItemContent::RoleChanged(..)) => other,
        };
        ItemRow { content, recalled: true, ..self }
    }
}

/// What a member does with something that they send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Says something: content.
    Says,
    /// Edits a content item of their own.
    Edits(MessageId),
    /// Recalls a content item.
    Recalls(MessageId),
    /// Reacts to a content item, or takes that back.
    Reacts(MessageId),
}

impl Act {
    /// The item that it is about; none where it stands for itself.
    #[must_use]
    pub const fn target(self) -> Option<MessageId> {
        match self {
            Act::Says => None,
            Act::Edits(target) | Act::Recalls(target) | Act::Reacts(target) => Some(target),
        }
    }
}

/// What is kept of a content item that was recalled, so that unread items can be counted without reading any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledRow {
    /// Who wrote it.
    pub author: UserId,
    /// Whom it mentioned.
    pub mentions: Vec<UserId>,
}

/// What an item says.
#[derive(Clone, PartialEq, Eq)]
pub enum ItemContent {
    /// Something that a member sent.
    Sent {
        /// The item kind, as it travels.
        kind: u16,
        /// What they do with it.
        act: Act,
        /// The body, as it travels.
        body: Bytes,
        /// The extension list, as it travels, but for what names the target.
        extensions: Vec<(u16, Bytes)>,
        /// Whom it mentions, as the extensions say.
        mentions: Vec<UserId>,
    },
    /// The group was made.
    Created {
        /// Its name.
        name: String,
        /// Its policy.
        policy: Policy,
    },
    /// A user joined.
    Joined(UserId),
    /// A user left.
    Left(UserId),
    /// A user was removed.
    Removed(UserId),
    /// The group was renamed.
    Renamed(String),
    /// A member has another role.
    RoleChanged(UserId, Role),
}

impl ItemContent {
    /// Whether it counts as unread for others.
    #[must_use]
    pub fn is_content(&self) -> bool {
        matches!(self, ItemContent::Sent { act: Act::Says, .. })
    }

    /// What a member does with it; none where they did not send it.
    #[must_use]
    pub fn act(&self) -> Option<Act> {
        if let ItemContent::Sent { act, .. } = self { Some(*act) } else { None }
    }
}

/// A user's name on this server: `[a-z0-9][a-z0-9._-]{0,31}`, upper case folded on input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(String);

/// Why a text is not a handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a handle is 1 to 32 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit")]
pub struct HandleError;

impl Handle {
    /// Reads a handle, folding ASCII upper case.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn parse(text: &str) -> Result<Handle, HandleError> {
        let folded = text.to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts = folded.bytes().next().is_some_and(plain);
        let fits = folded.len() <= crate::limits::HANDLE_BYTES_MAX;
        let rest = folded.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
        if starts && fits && rest { Ok(Handle(folded)) } else { Err(HandleError) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One absolute change of one row: what `State` decides and the store keeps.
#[derive(Clone, PartialEq, Eq)]
pub enum Write {
    /// Puts a group.
    Group(GroupId, GroupRow),
    /// Puts a member. The store keeps `memberships` (user, group) beside it.
    Member(GroupId, UserId, MemberRow),
    /// Puts a cursor (device 0: the read mark).
    Cursor(GroupId, UserId, DeviceId, CursorRow),
    /// Puts a user. The store keeps `handles` beside it; of who holds none any more, it removes that.
    User(UserId, UserRow),
    /// Puts a device. The store keeps `keys` beside it.
    Device(DeviceId, DeviceRow),
    /// Puts an invite.
    Invite(CodeHash, InviteRow),
    /// Removes an invite.
    InviteGone(CodeHash),
    /// Puts an item; where it is content, the store keeps `own` beside it.
    Item(ItemRow),
    /// Puts an item that is there already: another edit is its newest, or it was recalled.
    Changed(ItemRow),
    /// Notes that a content item was recalled.
    Recalled(GroupId, MessageId, RecalledRow),
    /// Notes under (group, user, number of the mention) that an item mentions a user.
    Mention(GroupId, UserId, u64, MessageId),
    /// Puts a send that was stored.
    Send(DeviceId, ClientSeq, SendRow),
    /// Removes a send that the client knows to be answered.
    SendGone(DeviceId, ClientSeq),
    /// Puts the window of a device's sends.
    SendWindow(DeviceId, SendWindow),
    /// Puts a counter or mark.
    Meta(Meta, u64),
}
