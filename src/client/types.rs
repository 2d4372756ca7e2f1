//! What the library tells an application: items, groups, people, devices, outcomes. Plain values, no behaviour.
//!
//! Texts in them come from the network: show them, never let a terminal obey them. `Debug` shows no body.

use std::fmt;

use bytes::Bytes;

use crate::client::error::Refusal;
use crate::client::say::Say;
use crate::ids::{ClientSeq, DeviceId, Epoch, GroupId, MessageId, UserId};
use crate::wire::frame::{Extensions, UserInfo, user_info, user_state};

/// What a profile knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// `host:port` of the server.
    pub address: String,
    /// The server's pins: SHA-256 of its public key, the current one first.
    pub pins: Vec<[u8; 32]>,
    /// This device.
    pub device: DeviceId,
    /// Its user.
    pub user: UserId,
    /// The user's handle.
    pub handle: String,
    /// The history that this profile's cursors belong to.
    pub epoch: Epoch,
}

/// What the server said when it accepted a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// One's own user; zero with the operator key.
    pub user: UserId,
    /// One's own handle; empty with the operator key.
    pub handle: String,
    /// Whether one has the rights of an operator.
    pub operator: bool,
    /// The server's history.
    pub epoch: Epoch,
    /// Largest body of a message, in bytes.
    pub body_bytes_max: usize,
    /// The server's clock, ms since 1970.
    pub time_ms: u64,
}

/// An item of a group.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    /// Its group.
    pub group: GroupId,
    /// Its place in the group.
    pub msgid: MessageId,
    /// The number of its kind, see [`crate::wire::item::kind`].
    pub kind: u16,
    /// Who said or did it; zero: nobody, or hidden.
    pub author: UserId,
    /// The server's clock at the time, ms since 1970. For display: it orders nothing.
    pub time_ms: u64,
    /// Its newest edit that one may see; zero: none.
    pub edited_by: MessageId,
    /// The message that it answers.
    pub reply_to: Option<MessageId>,
    /// Who is mentioned in it.
    pub mentions: Vec<UserId>,
    /// What it says.
    pub content: Content,
}

/// What an item says.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// A message.
    Text(String),
    /// A message, or an edit of one, that was recalled: what it said is gone.
    Recalled {
        /// Whether it was an edit.
        edit: bool,
    },
    /// The author puts this text in place of an earlier message of theirs.
    Edit {
        /// Which.
        target: MessageId,
        /// What it says now.
        text: String,
    },
    /// This message is taken back: forget what it said, and what its edits did.
    Recall(MessageId),
    /// The author reacts to a message, or takes that back.
    Reaction {
        /// Which.
        target: MessageId,
        /// The reaction.
        reaction: String,
        /// Whether it is taken back.
        removed: bool,
    },
    /// The group was made by the author, under this name.
    Created(String),
    /// This user joined; the author added them.
    Joined(UserId),
    /// This user left.
    Left(UserId),
    /// This user was removed by the author.
    Removed(UserId),
    /// The author gave the group this name.
    Renamed(String),
    /// The author gave this user this role.
    RoleChanged(UserId, Role),
    /// The author said what the group is about; empty: nothing.
    Topic(String),
    /// The author changed what those see who join next.
    PolicyChanged(History),
    /// The author muted this user: they only read.
    Muted(UserId),
    /// The author let this user speak again.
    Unmuted(UserId),
    /// The author let this user be added again, who was banned.
    BanLifted(UserId),
    /// There is something under this msgid that one may not see.
    Hidden,
    /// Of a kind that this version does not know, or with a body that is not what its kind says.
    Unsupported(Bytes),
}

impl fmt::Debug for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Item {}/{} kind {} by {}", self.group, self.msgid, self.kind, self.author)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Text(text) => write!(out, "Text({} bytes)", text.len()),
            Content::Recalled { .. } => out.write_str("Recalled"),
            Content::Edit { target, text } => write!(out, "Edit({target}, {} bytes)", text.len()),
            Content::Recall(target) => write!(out, "Recall({target})"),
            Content::Reaction { target, removed, .. } => write!(out, "Reaction({target}, removed: {removed})"),
            Content::Created(_) => out.write_str("Created(..)"),
            Content::Joined(user) => write!(out, "Joined({user})"),
            Content::Left(user) => write!(out, "Left({user})"),
            Content::Removed(user) => write!(out, "Removed({user})"),
            Content::Renamed(_) => out.write_str("Renamed(..)"),
            Content::RoleChanged(user, role) => write!(out, "RoleChanged({user}, {})", role.name()),
            Content::Topic(_) => out.write_str("Topic(..)"),
            Content::PolicyChanged(history) => write!(out, "PolicyChanged({})", history.name()),
            Content::Muted(user) => write!(out, "Muted({user})"),
            Content::Unmuted(user) => write!(out, "Unmuted({user})"),
            Content::BanLifted(user) => write!(out, "BanLifted({user})"),
            Content::Hidden => out.write_str("Hidden"),
            Content::Unsupported(body) => write!(out, "Unsupported({} bytes)", body.len()),
        }
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
    /// Reads what was said while a member.
    Former,
    /// Something that this version does not know.
    Other(u8),
}

impl Role {
    /// The role with this number on the wire.
    #[must_use]
    pub const fn from_number(number: u8) -> Role {
        match number {
            0 => Role::Former,
            1 => Role::Owner,
            2 => Role::Admin,
            3 => Role::Member,
            other => Role::Other(other),
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Role::Former => 0,
            Role::Owner => 1,
            Role::Admin => 2,
            Role::Member => 3,
            Role::Other(other) => other,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Owner => "owner",
            Role::Admin => "admin",
            Role::Member => "member",
            Role::Former => "former",
            Role::Other(_) => "other",
        }
    }
}

/// What a new member sees of the time before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum History {
    /// From the join on.
    #[default]
    FromJoin,
    /// Everything before as well.
    Full,
}

impl History {
    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            History::FromJoin => 0,
            History::Full => 1,
        }
    }

    /// The policy with this number on the wire, where this version knows it.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<History> {
        match number {
            0 => Some(History::FromJoin),
            1 => Some(History::Full),
            _ => None,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            History::FromJoin => "from-join",
            History::Full => "full-history",
        }
    }
}

/// A group of one's own, past or present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its id.
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
    /// What it is about; empty: nothing, or one has left.
    pub topic: String,
    /// What those see who join next.
    pub history: History,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub user: UserId,
    /// Their handle.
    pub handle: String,
    /// Their role.
    pub role: Role,
    /// The item with which they joined.
    pub joined: MessageId,
    /// What they want to be called. It identifies nobody: two people may want the same.
    pub name: Option<String>,
    /// Whether they only read.
    pub muted: bool,
}

/// A user of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Who.
    pub user: UserId,
    /// Their handle; of a deleted user the one they had.
    pub handle: String,
    /// Whether they have the rights of an operator.
    pub operator: bool,
    /// Whether they may come in.
    pub state: UserState,
    /// What they want to be called. It identifies nobody: two people may want the same.
    pub name: Option<String>,
}

/// Whether a user may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UserState {
    /// They may.
    Active,
    /// Shut out until an operator lets them in again.
    Deactivated,
    /// Gone for ever; the handle is reserved.
    Deleted,
    /// Gone for ever; the handle is free, or somebody else's.
    HandleFree,
    /// Something that this version does not know.
    Other(u8),
}

impl UserState {
    /// The state with this number on the wire.
    #[must_use]
    pub const fn from_number(number: u8) -> UserState {
        match number {
            user_state::DEACTIVATED => UserState::Deactivated,
            user_state::DELETED => UserState::Deleted,
            user_state::HANDLE_FREE => UserState::HandleFree,
            other => UserState::Other(other),
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            UserState::Active => "active",
            UserState::Deactivated => "deactivated",
            UserState::Deleted => "deleted",
            UserState::HandleFree => "deleted, handle free",
            UserState::Other(_) => "other",
        }
    }

    /// Whether they are gone for ever.
    #[must_use]
    pub const fn is_deleted(self) -> bool {
        matches!(self, UserState::Deleted | UserState::HandleFree)
    }
}

/// A byte among the extensions of a row.
pub(super) fn byte(extensions: &Extensions, number: u16) -> Option<u8> {
    extensions.find(number).and_then(|bytes| bytes.first().copied())
}

/// A text among them; none where it is no UTF-8.
pub(super) fn text(extensions: &Extensions, number: u16) -> Option<String> {
    extensions.find(number).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned)
}

impl User {
    /// What a list says.
    pub(super) fn of(row: UserInfo) -> User {
        let state = byte(&row.extensions, user_info::STATE).map_or(UserState::Active, UserState::from_number);
        let name = text(&row.extensions, user_info::NAME);
        User { user: row.user, handle: row.handle, operator: row.operator, state, name }
    }
}

/// A device of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Which.
    pub device: DeviceId,
    /// What its user calls it.
    pub name: String,
    /// When it was enrolled, ms since 1970.
    pub enrolled_ms: u64,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Whether it is connected now.
    pub online: bool,
}

/// An invite that was just made.
#[derive(Clone, PartialEq, Eq)]
pub struct Invite {
    /// The link to hand over. Who has it can use it: it is shown once and kept nowhere.
    pub link: String,
    /// When it expires, ms since 1970.
    pub expires_ms: u64,
}

impl fmt::Debug for Invite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Invite until {}", self.expires_ms)
    }
}

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// ms since it started.
    pub uptime_ms: u64,
    /// Users.
    pub users: u64,
    /// Groups.
    pub groups: u64,
    /// Devices that are not revoked.
    pub devices: u64,
    /// Connections now.
    pub connections: u64,
    /// Items ever committed.
    pub items: u64,
    /// The last durable frame of the log.
    pub durable_lsn: u64,
    /// Bytes of the commit log on disk.
    pub log_bytes: u64,
    /// Bytes of the index on disk; zero where the server doesn't say.
    pub index_bytes: u64,
    /// Bytes of everything that is there, as it was put into the log; zero until the server has counted it.
    pub live_bytes: u64,
}

/// A page of a group's items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// What is visible to one, by msgid.
    pub items: Vec<Item>,
    /// Everything visible up to here was given.
    pub covered_to: MessageId,
    /// Whether something visible remains above.
    pub more: bool,
    /// Ranges (first, last) that retention removed.
    pub gone: Vec<(MessageId, MessageId)>,
    /// The highest msgid one may know of.
    pub head: MessageId,
}

/// A message in the outbox that has no final answer, or one that a person should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Its number.
    pub seq: ClientSeq,
    /// Where it goes.
    pub group: GroupId,
    /// What it says; none of one whose outcome is unknown, which is kept no longer.
    pub what: Option<Say>,
    /// Bytes of its body, or where that is not kept of all that was sent.
    pub bytes: usize,
    /// Where it stands.
    pub state: EntryState,
}

/// Where an entry of the outbox stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryState {
    /// Never attempted: it can still be withdrawn.
    Waiting,
    /// Attempted at least once, not answered.
    Attempted,
    /// The server has forgotten its number: whether it was stored cannot be told any more.
    OutcomeUnknown,
}

/// How a send ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored, durably, under this msgid.
    Sent {
        /// Its group.
        group: GroupId,
        /// Its place there.
        msgid: MessageId,
        /// The server's clock at the time, ms since 1970; zero where only the item itself was seen.
        time_ms: u64,
    },
    /// The server refused it for good.
    Refused(Refusal),
    /// The server has forgotten its number: whether it was stored cannot be told any more.
    Unknown,
    /// It was taken out before it was ever attempted.
    Withdrawn,
    /// It has ended, so long ago that the outbox no longer keeps how.
    NotKept,
}

/// A place in the inbox: of which inbox, and how far. Positions of one inbox are ordered; keep the last one beside your
/// own data, in the same transaction, and give it to the next [`crate::client::Client::listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The random name of the inbox; another one after the old was lost.
    pub inbox: u64,
    /// Counts what was handed out, from 1.
    pub number: u64,
}
