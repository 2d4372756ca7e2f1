//! Encoded rows of one group, in order, in one piece of memory that everyone shares.

use bytes::{Bytes, BytesMut};

use crate::core::listener::Offered;
use crate::ids::MessageId;
use crate::wire::WireError;
use crate::wire::row::Row;

/// Rows in the making.
#[derive(Debug, Default)]
pub(crate) struct RowsMaker {
    offered: Vec<Offered>,
    ends: Vec<usize>,
    bytes: BytesMut,
}

impl RowsMaker {
    /// Adds the row of an item; msgids ascend.
    pub(crate) fn add(&mut self, msgid: MessageId, item: Bytes) -> Result<(), WireError> {
        let before = self.bytes.len();
        Row::plain(item).append_to(&mut self.bytes)?;
        let bytes = u32::try_from(self.bytes.len() - before).unwrap_or(u32::MAX);
        self.offered.push(Offered { msgid, bytes });
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The rows.
    pub(crate) fn finish(self) -> Rows {
        Rows { offered: self.offered, ends: self.ends, bytes: self.bytes.freeze() }
    }
}

/// Encoded rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    offered: Vec<Offered>,
    ends: Vec<usize>,
    bytes: Bytes,
}

impl Rows {
    /// What a listener is told of them before it decides.
    pub(crate) fn offered(&self) -> &[Offered] {
        &self.offered
    }

    /// The rows from one msgid to another, both included, without copying.
    pub(crate) fn between(&self, first: MessageId, last: MessageId) -> Bytes {
        let from = self.offered.partition_point(|item| item.msgid < first);
        let until = self.offered.partition_point(|item| item.msgid <= last);
        let end_of = |count: usize| count.checked_sub(1).and_then(|index| self.ends.get(index)).copied().unwrap_or(0);
        let (start, end) = (end_of(from), end_of(until));
        if start < end { self.bytes.slice(start..end) } else { Bytes::new() }
    }

    /// All rows, without copying.
    #[cfg(feature = "proof")]
    pub(crate) fn all(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The rows in pieces of at most so many bytes, at least one row each, with the last msgid of each.
    pub(crate) fn pieces(&self, bytes_max: usize) -> Vec<(Bytes, MessageId)> {
        let mut pieces = Vec::new();
        let mut start = 0;
        let mut before = None;
        for (item, end) in self.offered.iter().zip(&self.ends) {
            if let Some((last, last_end)) = before
                && end - start > bytes_max
            {
                pieces.push((self.bytes.slice(start..last_end), last));
                start = last_end;
            }
            before = Some((item.msgid, *end));
        }
        pieces.extend(before.map(|(last, end)| (self.bytes.slice(start..end), last)));
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sizes: &[usize]) -> Rows {
        let mut maker = RowsMaker::default();
        for (index, size) in sizes.iter().enumerate() {
            maker.add(MessageId::new(5 + index as u64), Bytes::from(vec![7; *size])).unwrap();
        }
        maker.finish()
    }

    #[test]
    fn a_range_of_rows_is_exactly_those_rows() {
        let rows = rows(&[10, 20, 30]);
        let sizes: Vec<u32> = rows.offered().iter().map(|offered| offered.bytes).collect();
        assert_eq!(rows.between(MessageId::new(6), MessageId::new(6)).len(), sizes[1] as usize);
        assert_eq!(rows.between(MessageId::new(5), MessageId::new(7)).len(), rows.bytes.len());
        assert_eq!(rows.between(MessageId::new(1), MessageId::new(4)), Bytes::new());
        assert_eq!(rows.between(MessageId::new(8), MessageId::new(9)), Bytes::new());
    }

    #[test]
    fn pieces_hold_every_row_once_and_one_at_least() {
        let rows = rows(&[100, 100, 100, 900, 10]);
        let pieces = rows.pieces(250);
        assert_eq!(pieces.iter().map(|(bytes, _)| bytes.len()).sum::<usize>(), rows.bytes.len());
        assert_eq!(pieces.iter().map(|(_, last)| last.value()).collect::<Vec<_>>(), [6, 7, 8, 9]);
    }
}
