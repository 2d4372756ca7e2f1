//! Encoded rows of one group, in order, in one piece of memory that everyone shares.
//!
//! Not everyone may see all of it: an edit is for those who may see what it edits. Who may not gets rows of their own.

use bytes::{Bytes, BytesMut};

use crate::core::listener::Offered;
use crate::core::tables::Tables;
use crate::ids::{GroupId, MessageId};
use crate::proof::{self, Wrong};
use crate::wire::WireError;
use crate::wire::item::Item;
use crate::wire::row::{self, Row};

/// Rows in the making.
#[derive(Debug, Default)]
pub(crate) struct RowsMaker(Rows, BytesMut);

impl RowsMaker {
    /// Adds the row of an item that is new; msgids ascend. It says which item it edits, if it does.
    pub(crate) fn add(&mut self, msgid: MessageId, item: Bytes, edits: Option<MessageId>) -> Result<(), WireError> {
        self.0.edits.extend(edits.map(|target| (msgid, target)));
        self.add_row(msgid, &Row::plain(item))
    }

    /// Adds a row as its reader may see it.
    pub(crate) fn add_row(&mut self, msgid: MessageId, row: &Row) -> Result<(), WireError> {
        let RowsMaker(rows, bytes) = self;
        let before = bytes.len();
        row.append_to(bytes)?;
        let row_bytes = u32::try_from(bytes.len() - before).unwrap_or(u32::MAX);
        rows.offered.push(Offered { msgid, bytes: row_bytes });
        rows.ends.push(bytes.len());
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.1.len()
    }

    /// The rows.
    pub(crate) fn finish(self) -> Rows {
        Rows { bytes: self.1.freeze(), ..self.0 }
    }
}

/// Encoded rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    offered: Vec<Offered>,
    ends: Vec<usize>,
    /// Edits among them, with what each edits.
    edits: Vec<(MessageId, MessageId)>,
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

    /// The same for a member who may see only these items: an edit of any other is hidden. Copies only where one is.
    pub(crate) fn seen_between(
        &self,
        group: GroupId,
        first: MessageId,
        last: MessageId,
        may_see: impl Fn(MessageId) -> bool,
    ) -> Bytes {
        let shared = self.between(first, last);
        let is_hidden = |(edit, target): &&(MessageId, MessageId)| first <= *edit && *edit <= last && !may_see(*target);
        let hidden: Vec<MessageId> = self.edits.iter().filter(is_hidden).map(|(edit, _)| *edit).collect();
        if hidden.is_empty() {
            return shared;
        }
        changed(&shared, |item| hidden.contains(&item.msgid).then(|| Item::hidden(group, item.msgid)))
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

/// Rows of a group that wait to be written, without what was recalled since they were made. Of what retention has removed
/// since nothing tells whether it was recalled before: it is hidden.
pub(crate) fn without_recalled(rows: &Bytes, tables: &Tables, group: GroupId) -> Bytes {
    let first_kept = tables.first_kept(group);
    changed(rows, |item| {
        let msgid = item.goes_with().filter(|_| !proof::is(Wrong::RecallKept))?;
        if msgid < first_kept {
            return Some(Item::hidden(group, item.msgid));
        }
        tables.recalled().contains(group, msgid).then(|| item.clone().wiped())
    })
}

/// Rows of which some items are others; the same ones where none is. What can't be read or written is left out of new ones:
/// all of it was made here.
fn changed(rows: &Bytes, change: impl Fn(&Item) -> Option<Item>) -> Bytes {
    let is_changed = |row: Row| row.decode_item().is_ok_and(|item| change(&item).is_some());
    if !row::rows(rows.clone()).flatten().any(is_changed) {
        return rows.clone();
    }
    let mut made = BytesMut::with_capacity(rows.len());
    for row in row::rows(rows.clone()).flatten() {
        let Ok(item) = row.decode_item() else { continue };
        let row = match change(&item).map(|item| item.encode()) {
            Some(Ok(item)) => Row::plain(item),
            Some(Err(_)) => continue,
            None => row,
        };
        // A row that was taken apart fits.
        drop(row.append_to(&mut made));
    }
    made.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sizes: &[usize]) -> Rows {
        let mut maker = RowsMaker::default();
        for (index, size) in sizes.iter().enumerate() {
            maker.add(MessageId::new(5 + index as u64), Bytes::from(vec![7; *size]), None).unwrap();
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
