//! The rows that decisions are made of, one type a tree. Their encoding is the store's business.

use std::fmt;

use bytes::Bytes;

use crate::core::retention::Retention;
use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag, UserId};

pub use crate::core::people::{Handle, HandleError, Switches, UserRow, UserState};

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
    /// Sends and reads; adds users, removes, mutes and bans plain members, lifts bans, sets name and topic, and recalls
    /// what anybody said.
    Admin,
    /// Sends and reads.
    Member,
}

impl Role {
    /// Whether this is the higher one.
    #[must_use]
    pub const fn is_above(self, other: Role) -> bool {
        match (self, other) {
            (Role::Owner, Role::Admin | Role::Member) | (Role::Admin, Role::Member) => true,
            (Role::Owner, Role::Owner) | (Role::Admin, Role::Owner | Role::Admin) | (Role::Member, _) => false,
        }
    }
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
    /// What it is about; empty where nobody has said.
    pub topic: String,
    /// What it keeps; none: what the server says.
    pub retention: Option<Retention>,
    /// Content items below the first kept one.
    pub content_gone: u64,
}

impl GroupRow {
    /// A group that begins with this item.
    #[must_use]
    pub const fn begun(name: String, policy: Policy, first: MessageId, now_ms: u64) -> GroupRow {
        GroupRow {
            name,
            policy,
            first_kept: first,
            head_mark: first,
            content_mark: 0,
            created_ms: now_ms,
            topic: String::new(),
            retention: None,
            content_gone: 0,
        }
    }
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
    /// The last day on which it was there, in days since 1970; zero: not since it was enrolled.
    pub seen_day: u32,
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
    /// The device it was made on; none where no user made it, or a version before this was kept.
    pub by_device: Option<DeviceId>,
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
    /// Where the clock of retention stood when that was noted last, ms since 1970.
    RetentionClock,
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
    /// From when on its age is reckoned, where the clock had been set back when it was decided; zero: from then.
    pub aged_from_ms: u64,
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
        let mut row = ItemRow { recalled: true, ..self.without_body() };
        if let ItemContent::Sent { extensions, mentions, .. } = &mut row.content {
            extensions.clear();
            mentions.clear();
        }
        row
    }

    /// All of it but what it says.
    #[must_use]
    pub fn without_body(mut self) -> ItemRow {
        if let ItemContent::Sent { body, .. } = &mut self.content {
            *body = Bytes::new();
        }
        self
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

impl RecalledRow {
    /// The lists it is in: of its group, of its author, and of each whom it mentioned.
    #[must_use]
    pub fn entries(&self) -> usize {
        2 + self.mentions.len()
    }
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
    /// The group is about something else; empty: about nothing that was said.
    Topic(String),
    /// Those who join next see something else of the time before.
    PolicyChanged(Policy),
    /// A member only reads from now on.
    Muted(UserId),
    /// A member may speak again.
    Unmuted(UserId),
    /// A former member can be added again.
    BanLifted(UserId),
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
    /// Removes an item below the first kept one.
    ItemGone(GroupId, MessageId),
    /// Removes the row under (group, author, number) that counts such an item for its author.
    OwnGone(GroupId, UserId, u64),
    /// Removes the note that such an item was recalled.
    RecalledGone(GroupId, MessageId, RecalledRow),
    /// Removes the row under (group, user, number) that counts a mention in such an item.
    MentionGone(GroupId, UserId, u64),
    /// Puts a send that was stored.
    Send(DeviceId, ClientSeq, SendRow),
    /// Removes a send that the client knows to be answered.
    SendGone(DeviceId, ClientSeq),
    /// Puts the window of a device's sends.
    SendWindow(DeviceId, SendWindow),
    /// Puts a counter or mark.
    Meta(Meta, u64),
}
