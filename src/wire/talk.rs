//! What a user is told of their conversations: rows of the list, receipts, and versions of read marks.
//!
//! Like frames, each is a frozen postcard struct that ends in its extension list.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::EXTENSION_BYTES_MAX;
use crate::wire::bounded::Extensions;
use crate::wire::frame::ReadMarkNotice;
use crate::wire::{WireError, bounded, codec};

/// A conversation as it stood at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Its group.
    pub gid: GroupId,
    /// When it has changed last, as a version of the list.
    pub changed: u64,
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
    /// The user's read mark.
    pub read: MessageId,
    /// How often that was set anew.
    pub version: u64,
    /// Content items above the read mark that others wrote and this member may see, without those that were recalled or
    /// removed.
    pub unread: u64,
    /// Those of them that mention this member.
    pub mentions: u64,
    /// The last message that this member may see and that was not recalled, where that was asked for and one was found.
    pub last: Option<Preview>,
    /// What later versions add.
    pub extensions: Extensions,
}

/// The beginning of a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// Its place in the group.
    pub msgid: MessageId,
    /// The number of its kind.
    pub kind: u16,
    /// Who wrote it.
    pub author: UserId,
    /// The server's clock at the time, ms since 1970.
    pub time_ms: u64,
    /// How it begins, in at most as many bytes as were asked for, as it was edited last; empty where it is no text.
    #[serde(deserialize_with = "bounded::text")]
    pub text: String,
    /// Whether that is all of it.
    pub whole: bool,
    /// What later versions add.
    pub extensions: Extensions,
}

impl fmt::Debug for Preview {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Preview of {} with {} bytes", self.msgid, self.text.len())
    }
}

/// How far a user has come with an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptInfo {
    /// Who.
    pub user: UserId,
    /// Whether a device of theirs has it, or they have read it.
    pub received: bool,
    /// Whether they have read it.
    pub read: bool,
    /// What later versions add.
    pub extensions: Extensions,
}

/// The extension of [`ReadMarkNotice`] with the versions of the marks.
const VERSIONS: u16 = 1;

impl ReadMarkNotice {
    /// A notice of these marks: (group, msgid, version).
    ///
    /// # Errors
    /// Where they are more than [`crate::limits::READ_MARKS_TOLD_MAX`].
    pub fn of(marks: &[(GroupId, MessageId, u64)]) -> Result<ReadMarkNotice, WireError> {
        let entries = marks.iter().map(|(group, msgid, _)| (*group, *msgid)).collect();
        let versions: Vec<u64> = marks.iter().map(|(_, _, version)| *version).collect();
        let mut extensions = Extensions::default();
        if versions.iter().any(|version| *version > 0) {
            extensions.0.push((VERSIONS, codec::encode_value("versions", &versions, EXTENSION_BYTES_MAX)?));
        }
        Ok(ReadMarkNotice { entries, extensions })
    }

    /// The marks: (group, msgid, version).
    ///
    /// # Errors
    /// Where the versions are none.
    pub fn marks(&self) -> Result<Vec<(GroupId, MessageId, u64)>, WireError> {
        let bytes = self.extensions.find(VERSIONS).filter(|bytes| !bytes.is_empty());
        let versions = bytes.map(|bytes| codec::decode_whole::<Vec<u64>>("versions", bytes)).transpose()?;
        let versions = versions.unwrap_or_default();
        let version = |index: usize| versions.get(index).copied().unwrap_or(0);
        let marks = self.entries.iter().enumerate();
        Ok(marks.map(|(index, (group, msgid))| (*group, *msgid, version(index))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::READ_MARKS_TOLD_MAX;

    #[test]
    fn a_notice_of_read_marks_gives_back_their_versions() {
        let marks = |version: u64| vec![(GroupId::new(7), MessageId::new(42), version); READ_MARKS_TOLD_MAX];
        for version in [0, 1, u64::MAX] {
            let notice = ReadMarkNotice::of(&marks(version)).unwrap();
            assert_eq!(notice.extensions.0.is_empty(), version == 0);
            assert_eq!(notice.marks().unwrap(), marks(version));
        }
    }
}
