//! Reading a page of a group's messages: the overlay and the index as one, in order, up to a given head.
//!
//! Pure but for the index it reads. It does not know who asks: which items a member may see, and whether the page is
//! dense within that, is the caller's to check. A page has at least one row wherever one is left in its range.

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::ids::{GroupId, Lsn, MessageId};
use crate::store::engine::{Engine, EngineError};
use crate::store::keys;
use crate::store::overlay::{Change, Overlay};
use crate::store::records::{MessageRecord, RecordError};
use crate::store::tree::Tree;

/// Which rows are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Of which group.
    pub group: GroupId,
    /// The first row lies above this one.
    pub after: MessageId,
    /// The last row lies at or below this one: the head, or the end of what may be seen.
    pub up_to: MessageId,
    /// The durable lsn of the reader's snapshot.
    pub at: Lsn,
    /// Rows at the most; zero counts as one.
    pub rows_max: usize,
    /// Bytes of rows at the most, but for the first row.
    pub bytes_max: usize,
}

/// A message as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct PageRow {
    /// Its place in the group.
    pub msgid: MessageId,
    /// The header and the item.
    pub record: MessageRecord,
}

/// A page.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Rows in order.
    pub rows: Vec<PageRow>,
    /// Whether a row is left in the range asked for.
    pub more: bool,
}

/// Why a page or a row could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The index failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A row is none.
    #[error("the message {group} {msgid} cannot be read: {source}")]
    Record {
        /// The group.
        group: GroupId,
        /// The message.
        msgid: MessageId,
        /// Why.
        #[source]
        source: RecordError,
    },
    /// A key is none.
    #[error("the index holds {0}")]
    Key(#[from] keys::KeyError),
}

/// Collects rows until the page is full.
struct Collected {
    request: PageRequest,
    bytes: usize,
    page: Page,
    failed: Option<ReadError>,
}

/// Reads a page.
///
/// # Errors
/// Where the index fails, or holds what is no message.
pub fn read(engine: &dyn Engine, overlay: &Overlay, request: PageRequest) -> Result<Page, ReadError> {
    let mut collected = Collected { request, bytes: 0, page: Page::default(), failed: None };
    if request.after >= request.up_to {
        return Ok(collected.page);
    }
    let from = keys::message(request.group, request.after.next());
    let to = keys::message(request.group, request.up_to);
    // The overlay first: see there why nothing is missed between the two.
    let puts_max = request.rows_max.max(1).saturating_add(1);
    let mut changes = overlay.range(Tree::Messages, &from, &to, request.at, puts_max).into_iter().peekable();
    let mut full = false;
    engine.scan(Tree::Messages, &from, &mut |key, value| {
        while let Some((changed, change)) = changes.next_if(|(changed, _)| changed.as_ref() < key) {
            if collected.change(&changed, change).is_break() {
                full = true;
                return ControlFlow::Break(());
            }
        }
        if key > to.as_ref() {
            return ControlFlow::Break(());
        }
        let flow = match changes.next_if(|(changed, _)| changed.as_ref() == key) {
            Some((_, change)) => collected.change(key, change),
            None => collected.add(key, &Bytes::copy_from_slice(value)),
        };
        full = flow.is_break();
        flow
    })?;
    for (key, change) in changes {
        if full {
            break;
        }
        full = collected.change(&key, change).is_break();
    }
    match collected.failed {
        Some(error) => Err(error),
        None => Ok(collected.page),
    }
}

/// Reads one row of any tree: the overlay first, then the index.
///
/// # Errors
/// Where the index fails.
pub fn row(
    engine: &dyn Engine,
    overlay: &Overlay,
    tree: Tree,
    key: &[u8],
    at: Lsn,
) -> Result<Option<Bytes>, EngineError> {
    overlay.get(tree, key, at).map_or_else(|| engine.get(tree, key), Ok)
}

/// The same without waiting for an index that is being opened anew.
///
/// # Errors
/// Where the index fails, or is being opened anew.
pub fn row_now(
    engine: &dyn Engine,
    overlay: &Overlay,
    tree: Tree,
    key: &[u8],
    at: Lsn,
) -> Result<Option<Bytes>, EngineError> {
    overlay.get(tree, key, at).map_or_else(|| engine.get_now(tree, key), Ok)
}

impl Collected {
    fn change(&mut self, key: &[u8], change: Change) -> ControlFlow<()> {
        match change {
            Some(value) => self.add(key, &value),
            None => ControlFlow::Continue(()),
        }
    }

    /// Adds a row where it fits, else says that more is left.
    fn add(&mut self, key: &[u8], value: &Bytes) -> ControlFlow<()> {
        let some = !self.page.rows.is_empty();
        let bytes = self.bytes.saturating_add(value.len());
        if some && (self.page.rows.len() >= self.request.rows_max || bytes > self.request.bytes_max) {
            self.page.more = true;
            return ControlFlow::Break(());
        }
        match self.decode(key, value) {
            Ok(row) => {
                self.bytes = bytes;
                self.page.rows.push(row);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn decode(&self, key: &[u8], value: &Bytes) -> Result<PageRow, ReadError> {
        let (group, msgid) = keys::parse_message(key)?;
        let record = MessageRecord::decode(value);
        let record = record.map_err(|source| ReadError::Record { group, msgid, source })?;
        Ok(PageRow { msgid, record })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::store::engine::Op;
    use crate::store::log::Frame;
    use crate::store::records::Extensions;
    use crate::store::suite::on_each;

    const GROUP: GroupId = GroupId::new(7);

    fn put(group: GroupId, msgid: u64, lsn: u64, body: usize) -> Op {
        let record = MessageRecord {
            flags: 0,
            lsn: Lsn::new(lsn),
            content: msgid,
            own: 0,
            last_edit: MessageId::ZERO,
            extensions: Extensions::default(),
            item: Bytes::from(vec![1; body]),
        };
        Op { tree: Tree::Messages, key: keys::message(group, MessageId::new(msgid)), value: Some(record.encode()) }
    }

    fn request(after: u64, up_to: u64) -> PageRequest {
        let (after, up_to) = (MessageId::new(after), MessageId::new(up_to));
        PageRequest { group: GROUP, after, up_to, at: Lsn::new(99), rows_max: 100, bytes_max: 1 << 20 }
    }

    fn msgids(page: &Page) -> Vec<u64> {
        page.rows.iter().map(|row| row.msgid.value()).collect()
    }

    /// Messages 1 to 4 in the index, 4 to 6 in the overlay; 2 is removed there; another group on each side.
    fn fill(engine: &dyn Engine) -> Overlay {
        let mut ops: Vec<Op> = (1..=4).map(|msgid| put(GROUP, msgid, 1, 10)).collect();
        ops.extend([put(GroupId::new(6), 9, 1, 10), put(GroupId::new(8), 1, 1, 10)]);
        engine.apply(Lsn::new(1), &ops).unwrap();
        let overlay = Overlay::new();
        let mut ops: Vec<Op> = (4..=6).map(|msgid| put(GROUP, msgid, 2, 10)).collect();
        ops.push(Op { value: None, ..put(GROUP, 2, 2, 0) });
        ops.push(put(GroupId::new(8), 2, 2, 10));
        overlay.insert(Arc::new(Frame { lsn: Lsn::new(2), ops }));
        overlay
    }

    #[test]
    fn overlay_and_index_are_one_and_the_overlay_wins() {
        on_each(|engine| {
            let overlay = fill(&*engine);
            let page = read(&*engine, &overlay, request(0, 9)).unwrap();
            assert_eq!(msgids(&page), [1, 3, 4, 5, 6]);
            assert_eq!(page.rows[2].record.lsn, Lsn::new(2));
            assert!(!page.more);
            let older = read(&*engine, &overlay, PageRequest { at: Lsn::new(1), ..request(0, 9) }).unwrap();
            assert_eq!(msgids(&older), [1, 2, 3, 4]);
        });
    }

    #[test]
    fn nothing_above_the_head_and_nothing_of_another_group_is_read() {
        on_each(|engine| {
            let overlay = fill(&*engine);
            for (after, up_to, expected) in
                [(0, 5, &[1, 3, 4, 5][..]), (3, 4, &[4]), (6, 9, &[]), (1, 2, &[]), (5, 5, &[]), (9, 3, &[])]
            {
                let page = read(&*engine, &overlay, request(after, up_to)).unwrap();
                assert_eq!((msgids(&page), page.more), (expected.to_vec(), false));
            }
        });
    }

    #[test]
    fn more_is_said_exactly_when_a_row_is_left() {
        on_each(|engine| {
            let overlay = fill(&*engine);
            for rows_max in 0..7 {
                let page = read(&*engine, &overlay, PageRequest { rows_max, ..request(0, 9) }).unwrap();
                let rows = rows_max.clamp(1, 5);
                assert_eq!(msgids(&page), [1, 3, 4, 5, 6][..rows]);
                assert_eq!(page.more, rows < 5);
            }
        });
    }

    #[test]
    fn a_page_has_at_least_one_row_however_large() {
        on_each(|engine| {
            let overlay = fill(&*engine);
            let page = read(&*engine, &overlay, PageRequest { bytes_max: 1, ..request(0, 9) }).unwrap();
            assert_eq!((msgids(&page), page.more), (vec![1], true));
        });
    }

    #[test]
    fn a_row_that_is_no_message_is_an_error_that_names_it() {
        on_each(|engine| {
            let overlay = fill(&*engine);
            let broken = Op { value: Some(Bytes::from_static(&[9])), ..put(GROUP, 5, 3, 0) };
            overlay.insert(Arc::new(Frame { lsn: Lsn::new(3), ops: vec![broken] }));
            let error = read(&*engine, &overlay, request(0, 9)).err().unwrap().to_string();
            assert!(error.contains("g7 m5"), "{error}");
        });
    }

    #[test]
    fn one_row_is_read_from_the_overlay_first_and_then_from_the_index() {
        on_each(|engine| {
            let overlay = fill(&*engine);
            let lsn = |msgid, at| {
                let key = keys::message(GROUP, MessageId::new(msgid));
                let value = row(&*engine, &overlay, Tree::Messages, &key, Lsn::new(at)).unwrap();
                value.map(|value| MessageRecord::decode(&value).unwrap().lsn.value())
            };
            assert_eq!([1, 2, 4, 6, 7].map(|msgid| lsn(msgid, 2)), [Some(1), None, Some(2), Some(2), None]);
            assert_eq!([1, 2, 4, 6, 7].map(|msgid| lsn(msgid, 1)), [Some(1), Some(1), Some(1), None, None]);
        });
    }

    /// Frames of a put or a remove each, how many of them are applied, and the head and the size of the pages asked for.
    type Asked = (Vec<(u64, bool)>, usize, u64, usize, usize);

    fn asked() -> impl Strategy<Value = Asked> {
        let changes = proptest::collection::vec((1u64..30, any::<bool>()), 0..60);
        (changes, 0usize..60, 0u64..32, 1usize..9, 1usize..200)
    }

    /// The msgids that are read page by page from a group without rows, and those that the log says.
    fn joined(engine: &dyn Engine, group: GroupId, asked: Asked) -> (Vec<u64>, Vec<u64>) {
        let (changes, applied, head, rows_max, bytes_max) = asked;
        let overlay = Overlay::new();
        let mut model = BTreeSet::new();
        for (index, (msgid, keep)) in changes.iter().enumerate() {
            let lsn = index as u64 + 1;
            let op = put(group, *msgid, lsn, 10);
            let op = if *keep { op } else { Op { value: None, ..op } };
            let frame = Arc::new(Frame { lsn: Lsn::new(lsn), ops: vec![op] });
            overlay.insert(Arc::clone(&frame));
            if index < applied {
                engine.apply(frame.lsn, &frame.ops).unwrap();
                if index % 2 == 0 {
                    overlay.forget(frame.lsn);
                }
            }
            if *keep {
                model.insert(*msgid)
            } else {
                model.remove(msgid)
            };
        }
        let mut seen = Vec::new();
        let mut after = 0;
        loop {
            let wanted = PageRequest { group, rows_max, bytes_max, ..request(after, head) };
            let page = read(engine, &overlay, wanted).unwrap();
            assert!(page.rows.len() <= rows_max && !(page.more && page.rows.is_empty()));
            seen.extend(msgids(&page));
            match page.rows.last() {
                Some(last) if page.more => after = last.msgid.value(),
                Some(_) | None => break,
            }
        }
        (seen, model.into_iter().filter(|msgid| *msgid <= head).collect())
    }

    #[test]
    fn pages_of_any_size_join_to_what_the_log_says() {
        on_each(|engine| {
            // Each case has a group of its own, between those of earlier cases: an engine of its own takes far longer.
            let cases = Cell::new(0u64);
            let tried = TestRunner::new(ProptestConfig::with_cases(2_000)).run(&asked(), |asked| {
                cases.set(cases.get() + 1);
                let group = GroupId::new(cases.get().reverse_bits() >> 1);
                let (seen, said) = joined(&*engine, group, asked);
                prop_assert_eq!(seen, said);
                Ok(())
            });
            tried.unwrap();
        });
    }
}
