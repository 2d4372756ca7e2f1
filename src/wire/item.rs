//! Items: what has a msgid in a group, as it travels and as the store keeps it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, MessageId, Tag, UserId};
use crate::wire::frame::Extensions;

/// Item kinds. A number is never reused; an unknown kind is handed on as unsupported, is contiguous, and is acked.
pub mod kind {
    /// A text, UTF-8. Content.
    pub const TEXT: u16 = 1;
    /// The group was created; body [`super::Created`]. The creator joins with it.
    pub const CREATED: u16 = 16;
    /// A user joined; body [`super::Joined`], author who added them.
    pub const JOINED: u16 = 17;
    /// A user left on their own; body [`super::Left`].
    pub const LEFT: u16 = 18;
    /// A user was removed; body [`super::Left`], author who removed them.
    pub const REMOVED: u16 = 19;
    /// The group has another name; body [`super::Renamed`].
    pub const RENAMED: u16 = 20;
    /// A member's role changed; body [`super::RoleChanged`].
    pub const ROLE_CHANGED: u16 = 21;
    /// The placeholder for what this member may not see under this msgid: gid and msgid only.
    pub const HIDDEN: u16 = 31;
}

/// Item flags.
pub mod flag {
    /// Content: counts as unread. Everything else tells of the group itself.
    pub const CONTENT: u8 = 1;
}

/// An item. On the wire and in the store it is the postcard encoding of this struct.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The group it belongs to.
    pub gid: GroupId,
    /// Its place in the group.
    pub msgid: MessageId,
    /// What it is, see [`kind`].
    pub kind: u16,
    /// See [`flag`].
    pub flags: u8,
    /// Who said or did it; zero: nobody, or hidden.
    pub author: UserId,
    /// The server's clock when it was decided, in ms since 1970. Display only: it orders nothing.
    pub time_ms: u64,
    /// The sender's tag.
    pub tag: Tag,
    /// At most [`crate::limits::BODY_BYTES_MAX`]; what it means depends on the kind.
    pub body: Bytes,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::CREATED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The group's first name.
    pub name: String,
    /// The first history policy: 0 from the join on, 1 full history.
    pub policy: u8,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::JOINED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Who joined.
    pub user: UserId,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::LEFT`] and [`kind::REMOVED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Who is gone.
    pub user: UserId,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::RENAMED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renamed {
    /// The group's new name.
    pub name: String,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::ROLE_CHANGED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleChanged {
    /// Whose role.
    pub user: UserId,
    /// The new role: 1 owner, 2 admin, 3 member.
    pub role: u8,
    /// What later versions add.
    pub extensions: Extensions,
}
