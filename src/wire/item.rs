//! Items: what has a msgid in a group, as it travels and as the store keeps it.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, MessageId, Tag, UserId};
use crate::limits::{BODY_BYTES_MAX, ITEM_BYTES_MAX};
use crate::wire::bounded::{self, Extensions};
use crate::wire::{WireError, codec, part};

/// Item kinds. A number is never reused; an unknown kind is handed on as unsupported, is contiguous, and is acked.
pub mod kind {
    /// A text, UTF-8. Content.
    pub const TEXT: u16 = 1;
    /// A text in place of an earlier one; body the new text, see [`crate::wire::said`].
    pub const EDIT: u16 = 2;
    /// An earlier item is taken back: its body, and that of each of its edits, is gone.
    pub const RECALL: u16 = 3;
    /// A reaction to an earlier item, or one less; body the reaction.
    pub const REACTION: u16 = 4;
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
    /// The group is about something else; body [`super::Topic`].
    pub const TOPIC: u16 = 22;
    /// Those who join next see something else of the time before; body [`super::PolicyChanged`].
    pub const POLICY_CHANGED: u16 = 23;
    /// A member only reads from now on, or speaks again; body [`super::Muted`].
    pub const MUTED: u16 = 24;
    /// A former member can be added again; body [`super::BanLifted`].
    pub const BAN_LIFTED: u16 = 25;
    /// The placeholder for what this member may not see under this msgid: gid and msgid only.
    pub const HIDDEN: u16 = 31;
}

/// Item flags.
pub mod flag {
    /// Content: counts as unread. Everything else tells of the group itself.
    pub const CONTENT: u8 = 1;
    /// It was recalled, or is an edit of what was: its body is empty.
    pub const RECALLED: u8 = 2;
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

impl Item {
    /// The item as it travels and is kept.
    ///
    /// # Errors
    /// Where it is over a limit.
    pub fn encode(&self) -> Result<Bytes, WireError> {
        part::check_body("item", &self.body)?;
        codec::encode_value("item", self, ITEM_BYTES_MAX)
    }

    /// Reads an item.
    ///
    /// # Errors
    /// Where the bytes are none, or over a limit.
    pub fn decode(bytes: &[u8]) -> Result<Item, WireError> {
        if bytes.len() > ITEM_BYTES_MAX {
            return Err(WireError::TooLarge { what: "item", bytes: bytes.len(), max: ITEM_BYTES_MAX });
        }
        let item: Item = codec::decode_whole("item", bytes)?;
        part::check_body("item", &item.body)?;
        Ok(item)
    }

    /// What stands under this msgid for a member who may not see what is there.
    #[must_use]
    pub fn hidden(gid: GroupId, msgid: MessageId) -> Item {
        Item {
            gid,
            msgid,
            kind: kind::HIDDEN,
            flags: 0,
            author: UserId::ZERO,
            time_ms: 0,
            tag: Tag::NONE,
            body: Bytes::new(),
            extensions: Extensions::default(),
        }
    }

    /// Whether it counts as unread for others.
    #[must_use]
    pub const fn is_content(&self) -> bool {
        self.flags & flag::CONTENT != 0
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Item { gid, msgid, kind, author, body, .. } = self;
        write!(out, "Item {gid} {msgid} of kind {kind} by {author} with {} bytes", body.len())
    }
}

/// The body of an item that tells of the group itself.
pub trait SystemBody: Serialize + DeserializeOwned {
    /// The name in errors.
    const NAME: &'static str;

    /// The body as it travels.
    ///
    /// # Errors
    /// Where it is over the limit for bodies.
    fn encode(&self) -> Result<Bytes, WireError> {
        codec::encode_value(Self::NAME, self, BODY_BYTES_MAX)
    }

    /// Reads the body.
    ///
    /// # Errors
    /// Where the bytes are none.
    fn decode(body: &[u8]) -> Result<Self, WireError> {
        codec::decode_whole(Self::NAME, body)
    }
}

macro_rules! bodies {
    ($($name:ident)*) => {
        $(impl SystemBody for $name {
            const NAME: &'static str = stringify!($name);
        })*
    };
}

bodies! { Created Joined Left Renamed RoleChanged Topic PolicyChanged Muted BanLifted }

/// Body of [`kind::CREATED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The group's first name.
    #[serde(deserialize_with = "bounded::text")]
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
    #[serde(deserialize_with = "bounded::text")]
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

/// Body of [`kind::TOPIC`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// What the group is about; empty: nothing.
    #[serde(deserialize_with = "bounded::text")]
    pub topic: String,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::POLICY_CHANGED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// The history policy of those who join next: 0 from the join on, 1 full history.
    pub policy: u8,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::MUTED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Muted {
    /// Who.
    pub user: UserId,
    /// True: only reads. False: speaks again.
    pub muted: bool,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Body of [`kind::BAN_LIFTED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanLifted {
    /// Who can be added again.
    pub user: UserId,
    /// What later versions add.
    pub extensions: Extensions,
}
