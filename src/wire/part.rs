//! What frames are made of besides plain fields: the payload of a send, the batches of a push, the rows of lists.
//!
//! Like frames, each is a frozen postcard struct that ends in its extension list.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{DeviceId, GroupId, MessageId, Tag, UserId};
use crate::limits::{BODY_BYTES_MAX, ITEM_BYTES_MAX};
use crate::wire::bounded::Extensions;
use crate::wire::{WireError, bounded, codec};

/// What a send carries, encoded once by the client and never again: a true resend has the same bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// See [`crate::wire::item::kind`]; only content kinds can be sent.
    pub kind: u16,
    /// The sender's tag.
    pub tag: Tag,
    /// At most [`crate::limits::BODY_BYTES_MAX`].
    pub body: Bytes,
    /// What later versions add.
    pub extensions: Extensions,
}

impl Payload {
    /// The bytes to keep, hash and send.
    ///
    /// # Errors
    /// Where the body is over [`BODY_BYTES_MAX`].
    pub fn encode(&self) -> Result<Bytes, WireError> {
        check_body("payload", &self.body)?;
        codec::encode_value("payload", self, ITEM_BYTES_MAX)
    }

    /// Reads the payload of a send.
    ///
    /// # Errors
    /// Where the bytes are none, or the body is over [`BODY_BYTES_MAX`].
    pub fn decode(bytes: &[u8]) -> Result<Payload, WireError> {
        let payload: Payload = codec::decode_whole("payload", bytes)?;
        check_body("payload", &payload.body)?;
        Ok(payload)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Payload of kind {} with {} bytes", self.kind, self.body.len())
    }
}

impl fmt::Debug for PushBatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PushBatch { gid, continues, covered_to, rows, .. } = self;
        write!(out, "PushBatch of {gid} from {continues} to {covered_to}, {} bytes", rows.len())
    }
}

/// Refuses a body over the limit.
pub(super) fn check_body(what: &'static str, body: &[u8]) -> Result<(), WireError> {
    if body.len() <= BODY_BYTES_MAX {
        return Ok(());
    }
    Err(WireError::TooLarge { what, bytes: body.len(), max: BODY_BYTES_MAX })
}

/// Pushed rows of one group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushBatch {
    /// The group.
    pub gid: GroupId,
    /// The msgid up to which everything visible was handed out before: the first row continues it.
    pub continues: MessageId,
    /// Everything visible up to here is handed out with this batch.
    pub covered_to: MessageId,
    /// Encoded rows, see [`crate::wire::row::Row`].
    pub rows: Bytes,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Extensions of [`GroupInfo`].
pub mod group_info {
    /// What the group is about, UTF-8; absent: nothing. For current members.
    pub const TOPIC: u16 = 1;
    /// The history policy of those who join next, one byte as in CreateGroup; absent: 0. For current members.
    pub const POLICY: u16 = 2;
}

/// A group as one member may know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Its id.
    pub gid: GroupId,
    /// Its name; for a former member the one it had when they left.
    #[serde(deserialize_with = "bounded::text")]
    pub name: String,
    /// 1 owner, 2 admin, 3 member, 0 former member.
    pub role: u8,
    /// Current members; zero for a former member.
    pub members: u32,
    /// The highest msgid this member may see.
    pub head: MessageId,
    /// This device's cursor.
    pub cursor: MessageId,
    /// What later versions add.
    pub extensions: Extensions,
}

/// A current member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    /// Who.
    pub user: UserId,
    /// Their handle.
    #[serde(deserialize_with = "bounded::text")]
    pub handle: String,
    /// 1 owner, 2 admin, 3 member.
    pub role: u8,
    /// The item with which they joined.
    pub joined: MessageId,
    /// What later versions add.
    pub extensions: Extensions,
}

/// Extensions of [`MemberInfo`].
pub mod member_info {
    /// There, without bytes, where the member is muted.
    pub const MUTED: u16 = 1;
    /// What they want to be called, UTF-8; absent: by the handle alone.
    pub const NAME: u16 = 2;
}

/// Extensions of [`UserInfo`].
pub mod user_info {
    /// What they want to be called, UTF-8; absent: by the handle alone.
    pub const NAME: u16 = 1;
    /// The user's switches, one byte of bits as in SetSwitch; only in one's own row, absent: all off.
    pub const SWITCHES: u16 = 2;
    /// One byte, see [`super::user_state`]; absent: the user may come in.
    pub const STATE: u16 = 3;
}

/// Numbers of [`user_info::STATE`].
pub mod user_state {
    /// Shut out until they are reactivated.
    pub const DEACTIVATED: u8 = 1;
    /// Deleted; the handle is reserved.
    pub const DELETED: u8 = 2;
    /// Deleted; somebody new may have the handle.
    pub const HANDLE_FREE: u8 = 3;
}

/// A user of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// Who.
    pub user: UserId,
    /// Their handle.
    #[serde(deserialize_with = "bounded::text")]
    pub handle: String,
    /// Whether they have the operator flag.
    pub operator: bool,
    /// What later versions add.
    pub extensions: Extensions,
}

/// A device of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Which.
    pub device: DeviceId,
    /// Its name.
    #[serde(deserialize_with = "bounded::text")]
    pub name: String,
    /// When it was enrolled, ms since 1970.
    pub enrolled_ms: u64,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Whether it is connected now.
    pub online: bool,
    /// What later versions add.
    pub extensions: Extensions,
}
