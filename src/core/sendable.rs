//! A send, as it is decided.

use bytes::Bytes;

use crate::core::attached::{Attached, Extent, Wanted};
use crate::core::command::Refusal;
use crate::core::rows::{Act, SendHash};
use crate::ids::{ClientSeq, DeviceId, GroupId, Tag, UserId};

/// A send.
#[derive(Clone, PartialEq, Eq)]
pub struct SendCommand {
    /// Which device.
    pub device: DeviceId,
    /// Its number for it.
    pub seq: ClientSeq,
    /// The lowest number it still calls unanswered.
    pub lowest: ClientSeq,
    /// The group.
    pub group: GroupId,
    /// Hash over gid and payload.
    pub hash: SendHash,
    /// What is sent; or why it can never be stored, which consumes the number.
    pub what: Result<Sendable, Refusal>,
    /// What it needs to know of its target; see [`crate::core::command::Command::wanted`].
    pub attached: Option<Attached>,
}

impl SendCommand {
    pub(in crate::core) fn wanted(&self) -> Option<Wanted> {
        let act = self.what.as_ref().ok()?.act;
        let of = match act {
            Act::Says => return None,
            Act::Edits(_) => Extent::Whole,
            Act::Recalls(_) => Extent::WithEdits,
            Act::Reacts(_) => Extent::Head,
        };
        act.target().map(|msgid| Wanted { group: self.group, msgid, of })
    }
}

/// What a send carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Sendable {
    /// The item kind, as it travels.
    pub kind: u16,
    /// What its sender does with it.
    pub act: Act,
    /// The sender's tag.
    pub tag: Tag,
    /// The body, as it travels.
    pub body: Bytes,
    /// The extension list, as it travels, but for what names the target.
    pub extensions: Vec<(u16, Bytes)>,
    /// Whom it mentions, as its extensions say.
    pub mentions: Vec<UserId>,
}
