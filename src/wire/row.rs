//! Rows of a page or push: an item as stored, with what this member may know about it.

use std::fmt;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::ids::MessageId;
use crate::limits::ITEM_BYTES_MAX;
use crate::wire::WireError;
use crate::wire::item::Item;

/// Bytes of a row's length field, which does not count itself.
const LENGTH_BYTES: usize = 4;
/// What the length counts besides the item: flags and `edited_by`.
const COUNTED_BYTES: usize = 1 + 8;
/// Bytes of a row besides its item: what a page or credit counts of it is this and the item.
pub const ROW_HEAD_BYTES: usize = LENGTH_BYTES + COUNTED_BYTES;

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

impl Row {
    /// A row of an item that was never edited, as far as this member may know.
    #[must_use]
    pub fn plain(item: Bytes) -> Row {
        Row { flags: 0, edited_by: MessageId::ZERO, item }
    }

    /// Writes the row behind others.
    ///
    /// # Errors
    /// Where the item is larger than any item.
    pub fn append_to(&self, rows: &mut BytesMut) -> Result<(), WireError> {
        let too_large = || WireError::TooLarge { what: "item", bytes: self.item.len(), max: ITEM_BYTES_MAX };
        if self.item.len() > ITEM_BYTES_MAX {
            return Err(too_large());
        }
        let length = u32::try_from(COUNTED_BYTES + self.item.len()).map_err(|_| too_large())?;
        rows.reserve(ROW_HEAD_BYTES + self.item.len());
        rows.put_u32(length);
        rows.put_u8(self.flags);
        rows.put_u64(self.edited_by.value());
        rows.put_slice(&self.item);
        Ok(())
    }

    /// Reads the item.
    ///
    /// # Errors
    /// Where its bytes are none.
    pub fn decode_item(&self) -> Result<Item, WireError> {
        Item::decode(&self.item)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Row of {} bytes, edited by {}", self.item.len(), self.edited_by)
    }
}

/// The rows in these bytes, one after the other; ends after the first error. Items share the bytes, uncopied.
#[must_use]
pub fn rows(bytes: Bytes) -> RowsIn {
    RowsIn { rest: bytes }
}

/// See [`rows`].
#[derive(Clone)]
pub struct RowsIn {
    rest: Bytes,
}

impl RowsIn {
    fn cut(&mut self) -> Option<Row> {
        let mut head = self.rest.get(..ROW_HEAD_BYTES)?;
        let item_bytes = (head.get_u32() as usize).checked_sub(COUNTED_BYTES)?;
        let flags = head.get_u8();
        let edited_by = MessageId::new(head.get_u64());
        if item_bytes > ITEM_BYTES_MAX || item_bytes > self.rest.len() - ROW_HEAD_BYTES {
            return None;
        }
        self.rest.advance(ROW_HEAD_BYTES);
        Some(Row { flags, edited_by, item: self.rest.split_to(item_bytes) })
    }
}

impl Iterator for RowsIn {
    type Item = Result<Row, WireError>;

    fn next(&mut self) -> Option<Result<Row, WireError>> {
        if self.rest.is_empty() {
            return None;
        }
        let row = self.cut();
        if row.is_none() {
            self.rest = Bytes::new();
        }
        Some(row.ok_or(WireError::BadRows))
    }
}

impl fmt::Debug for RowsIn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RowsIn with {} bytes left", self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_share_the_bytes_they_came_in() {
        let mut bytes = BytesMut::new();
        Row::plain(Bytes::from_static(b"item")).append_to(&mut bytes).unwrap();
        let bytes = bytes.freeze();
        let row = rows(bytes.clone()).next().unwrap().unwrap();
        assert_eq!(row.item.as_ptr(), bytes[ROW_HEAD_BYTES..].as_ptr());
    }

    #[test]
    fn a_row_that_claims_too_little_or_too_much_ends_the_rows() {
        for length in [0u32, 8, 10, u32::MAX, 1 << 20] {
            let bytes = [&length.to_be_bytes()[..], &[0; COUNTED_BYTES]].concat();
            let read: Vec<_> = rows(bytes.into()).collect();
            assert_eq!(read, [Err(WireError::BadRows)], "{length}");
        }
        let huge = Row::plain(vec![0; ITEM_BYTES_MAX + 1].into());
        assert!(huge.append_to(&mut BytesMut::new()).is_err());
    }
}
