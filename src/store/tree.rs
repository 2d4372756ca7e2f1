//! The trees of the store and their keys: big-endian and of fixed width, so that byte order is meaning.

/// A tree. Its number stands in log frames and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tree {
    /// gid · msgid → store header and item.
    Messages = 1,
    /// gid · uid · device → cursor.
    Cursors = 2,
    /// gid · uid → member.
    Members = 3,
    /// gid · msgid → author and content flag of what was recalled.
    Recalled = 4,
    /// gid · uid · own ordinal → msgid.
    Own = 5,
    /// gid → group.
    Groups = 6,
    /// uid → user.
    Users = 7,
    /// device → device.
    Devices = 8,
    /// code hash → invite.
    Invites = 9,
    /// handle → uid.
    Handles = 10,
    /// public key → device.
    Keys = 11,
    /// uid · gid → nothing.
    Memberships = 12,
    /// device · client sequence → send; sequence 0: the window.
    Sends = 13,
    /// name → counter.
    Meta = 14,
}
