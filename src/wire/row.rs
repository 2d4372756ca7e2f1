//! Rows of a page or push: an item as stored, with what this member may know about it.

use bytes::Bytes;

use crate::ids::MessageId;

/// A row travels as `len u32 | flags u8 | edited_by u64 | item bytes`, big-endian; `len` counts what follows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// Kept for later; zero.
    pub flags: u8,
    /// The newest edit of this item that this member may see; zero: none, or hidden.
    pub edited_by: MessageId,
    /// The encoded [`crate::wire::item::Item`].
    pub item: Bytes,
}
