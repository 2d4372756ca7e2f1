//! One row by itself: its name for people, and whether key and record are what this version writes.
//!
//! What an item says is not known here; whoever calls for a check passes on what can be understood of it.

use bytes::Bytes;

use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, UserId};
use crate::store::keys;
use crate::store::records::{
    CursorRecord, DeviceRecord, GroupRecord, HandleRecord, InviteRecord, KeyRecord, MemberRecord, MembershipRecord,
    MentionRecord, MessageRecord, MetaRecord, OwnRecord, RecalledRecord, SendRecord, SendWindowRecord, UserRecord,
};
use crate::store::tree::Tree;

/// What an item says of the stay of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Border {
    /// A stay of this user begins with it.
    Join(UserId),
    /// A stay of this user ends with it.
    Leave(UserId),
    /// Nothing.
    None,
}

/// What is understood of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// Who wrote it.
    pub author: UserId,
    /// What it says of a stay.
    pub border: Border,
    /// Whether its author sent it; else the server itself tells of something.
    pub sent: bool,
}

/// Understands a row as a server would that starts on it: none where it is no item, an error in words where the
/// server would refuse it.
pub type Understand = dyn Fn(Tree, &[u8], &Bytes) -> Result<Option<Meaning>, String> + Send + Sync;

/// The first bytes of a key that is a digest, or none at all.
pub(super) fn short(key: &[u8]) -> String {
    key.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>() + "…"
}

/// A row by tree and key: "messages g1 m5".
pub(super) fn name(tree: Tree, key: &[u8]) -> String {
    let parts = match tree {
        Tree::Messages | Tree::Recalled => keys::parse_message(key).map(|(g, m)| format!("{g} {m}")),
        Tree::Cursors => keys::parse_cursor(key).map(|(group, user, device)| cursor(group, user, device)),
        Tree::Members => keys::parse_member(key).map(|(g, u)| format!("{g} {u}")),
        Tree::Own => keys::parse_own(key).map(|(g, u, n)| format!("{g} {u} {n}")),
        Tree::Mentions => keys::parse_mention(key).map(|(g, u, n)| format!("{g} {u} {n}")),
        Tree::Groups => keys::parse_group(key).map(|g| g.to_string()),
        Tree::Users => keys::parse_user(key).map(|u| u.to_string()),
        Tree::Devices => keys::parse_device(key).map(|d| d.to_string()),
        Tree::Invites | Tree::Keys => keys::parse_digest(key).map(|digest| short(&digest)),
        Tree::Handles | Tree::Meta => keys::parse_name(key).map(|name| format!("{name:?}")),
        Tree::Memberships => keys::parse_membership(key).map(|(u, g)| format!("{u} {g}")),
        Tree::Sends => keys::parse_send(key).map(|(d, s)| format!("{d} {s}")),
    };
    format!("{} {}", tree.name(), parts.unwrap_or_else(|_| short(key)))
}

/// A cursor, or a read mark.
pub(super) fn cursor(group: GroupId, user: UserId, device: DeviceId) -> String {
    if device == DeviceId::ZERO { format!("{group} {user} read") } else { format!("{group} {user} {device}") }
}

/// Whether key and record are what this version writes; what an item says where it is one.
pub(super) fn check(tree: Tree, key: &[u8], value: &Bytes, understand: &Understand) -> Result<Option<Meaning>, String> {
    parse(tree, key, value)?;
    understand(tree, key, value)
}

fn parse(tree: Tree, key: &[u8], value: &Bytes) -> Result<(), String> {
    fn both<K, R>(
        key: Result<K, keys::KeyError>,
        record: Result<R, crate::store::records::RecordError>,
    ) -> Result<K, String> {
        let key = key.map_err(|error| error.to_string())?;
        record.map_err(|error| error.to_string())?;
        Ok(key)
    }
    match tree {
        Tree::Messages => both(keys::parse_message(key), MessageRecord::decode(value)).map(drop),
        Tree::Cursors => both(keys::parse_cursor(key), CursorRecord::decode(value)).map(drop),
        Tree::Members => both(keys::parse_member(key), MemberRecord::decode(value)).map(drop),
        Tree::Recalled => both(keys::parse_message(key), RecalledRecord::decode(value)).map(drop),
        Tree::Own => both(keys::parse_own(key), OwnRecord::decode(value)).map(drop),
        Tree::Mentions => both(keys::parse_mention(key), MentionRecord::decode(value)).map(drop),
        Tree::Groups => both(keys::parse_group(key), GroupRecord::decode(value)).map(drop),
        Tree::Users => both(keys::parse_user(key), UserRecord::decode(value)).map(drop),
        Tree::Devices => both(keys::parse_device(key), DeviceRecord::decode(value)).map(drop),
        Tree::Invites => both(keys::parse_digest(key), InviteRecord::decode(value)).map(drop),
        Tree::Handles => both(keys::parse_name(key), HandleRecord::decode(value)).map(drop),
        Tree::Keys => both(keys::parse_digest(key), KeyRecord::decode(value)).map(drop),
        Tree::Memberships => both(keys::parse_membership(key), MembershipRecord::decode(value)).map(drop),
        Tree::Sends => match keys::parse_send(key) {
            Ok((_, ClientSeq::ZERO)) => both(keys::parse_send(key), SendWindowRecord::decode(value)).map(drop),
            parsed => both(parsed, SendRecord::decode(value)).map(drop),
        },
        Tree::Meta => both(keys::parse_name(key), MetaRecord::decode(value)).map(drop),
    }
}

/// Consecutive msgids: "m5 is", "m5 to m7 are".
pub(super) fn are(first: MessageId, last: MessageId) -> String {
    if first == last { format!("{first} is") } else { format!("{first} to {last} are") }
}
