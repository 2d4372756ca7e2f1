//! Single rows as they stood at one look at the committed view, and the ordinals that are found in them.
//!
//! The ordinal of the group's content at a msgid stands in the item there. That of an author's own is found by halving:
//! the tree `own` has one row for each of their content items, by number, with the msgid; as many reads as the number
//! of them has binary digits, at the most. Mentions
//! of a user are found in the same way. A row that retention has removed counts as one that lies below.

use std::sync::Arc;

use bytes::Bytes;
use tracing::{debug, error};

use crate::core::conversations::Mentioned;
use crate::core::unread::Counting;
use crate::core::visible::Span;
use crate::ids::{GroupId, Lsn, MessageId, UserId};
use crate::limits::PREVIEW_TRIES_MAX;
use crate::server::doubt::Doubt;
use crate::server::view::{Published, View};
use crate::store::engine::{Engine, EngineError};
use crate::store::keys;
use crate::store::overlay::Overlay;
use crate::store::page::{self, Page, PageRequest, ReadError};
use crate::store::records::{MentionRecord, MessageRecord, OwnRecord, RecalledRecord, RecordError, message_flag};
use crate::store::tree::Tree;
use crate::wire::code::Code;

/// Rows at one look.
pub(crate) struct Snapshot {
    engine: Arc<dyn Engine>,
    overlay: Overlay,
    at: Lsn,
}

/// How one row is read.
pub(crate) type ReadRow = fn(&dyn Engine, &Overlay, Tree, &[u8], Lsn) -> Result<Option<Bytes>, EngineError>;

/// Why something was not found out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// A row can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An item is not there that should be.
    #[error("{0} {1} is missing")]
    Missing(GroupId, MessageId),
}

impl From<EngineError> for Failed {
    fn from(failure: EngineError) -> Failed {
        Failed::Read(ReadError::from(failure))
    }
}

impl Failed {
    /// Whether it is about one row, and others can be read.
    pub(crate) const fn is_of_a_row(&self) -> bool {
        match self {
            Failed::Read(ReadError::Engine(_)) => false,
            Failed::Read(ReadError::Record { .. } | ReadError::Key(_)) | Failed::Missing(..) => true,
        }
    }

    /// The code for whoever asked. What retention has removed since the look is no fault: asked again it is no longer
    /// wanted.
    pub(crate) fn code(&self, view: &View, doubt: &Doubt) -> Code {
        match self {
            Failed::Read(ReadError::Engine(EngineError::Busy)) => debug!("a look has to wait for the index"),
            Failed::Read(ReadError::Engine(engine)) => doubt.raise(engine),
            Failed::Missing(group, msgid) if *msgid < view.read().tables.first_kept(*group) => {
                debug!(%group, %msgid, "an item was removed during a look");
            }
            Failed::Read(ReadError::Record { .. } | ReadError::Key(_)) | Failed::Missing(..) => {
                error!(error = %self, "a row cannot be read");
                doubt.suspect(self);
            }
        }
        Code::Busy
    }
}

impl Snapshot {
    /// Of this look.
    pub(crate) fn of(published: &Published) -> Snapshot {
        Snapshot { engine: Arc::clone(&published.engine), overlay: published.overlay.clone(), at: published.durable }
    }

    /// The bytes of an item, read so; none where there is none.
    pub(crate) fn item_bytes(
        &self,
        group: GroupId,
        msgid: MessageId,
        read: ReadRow,
    ) -> Result<Option<Bytes>, EngineError> {
        read(self.engine.as_ref(), &self.overlay, Tree::Messages, &keys::message(group, msgid), self.at)
    }

    /// An item as it is kept; none where there is none.
    pub(crate) fn item(&self, group: GroupId, msgid: MessageId) -> Result<Option<MessageRecord>, ReadError> {
        let value = self.item_bytes(group, msgid, page::row)?;
        let record = value.map(|value| MessageRecord::decode(&value)).transpose();
        record.map_err(|source| ReadError::Record { group, msgid, source })
    }

    /// The items of a span, at most so many rows and bytes, but one at least.
    pub(crate) fn page(
        &self,
        group: GroupId,
        span: Span,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Page, ReadError> {
        let (after, up_to) = (span.first.previous(), span.last);
        let request = PageRequest { group, after, up_to, at: self.at, rows_max, bytes_max };
        page::read(self.engine.as_ref(), &self.overlay, request)
    }

    /// The newest edit at or before this one, of the same item, that is seen; zero where none is.
    pub(crate) fn newest_seen(
        &self,
        group: GroupId,
        edit: MessageId,
        is_seen: impl Fn(MessageId) -> bool,
    ) -> Result<MessageId, ReadError> {
        let mut edit = edit;
        while edit != MessageId::ZERO && !is_seen(edit) {
            edit = self.item(group, edit)?.map_or(MessageId::ZERO, |record| record.last_edit);
        }
        Ok(edit)
    }

    /// An item that is there.
    fn kept(&self, group: GroupId, msgid: MessageId) -> Result<MessageRecord, Failed> {
        self.item(group, msgid)?.ok_or(Failed::Missing(group, msgid))
    }

    /// Finishes a count.
    pub(crate) fn unread(&self, group: GroupId, user: UserId, counting: &Counting) -> Result<u64, Failed> {
        let Some(needed) = counting.needed() else { return Ok(counting.known()) };
        let content = if needed.content { self.content(group, counting.floor)? } else { 0 };
        let own = needed.own_of.map(|all| self.own(group, user, all, counting.floor)).transpose()?;
        Ok(counting.with(content, own.unwrap_or(0)))
    }

    /// Content items of a group up to and with this one, which is kept, or the beginning.
    fn content(&self, group: GroupId, msgid: MessageId) -> Result<u64, Failed> {
        if msgid == MessageId::ZERO { Ok(0) } else { Ok(self.kept(group, msgid)?.content) }
    }

    /// Content items of an author in a group up to and with this msgid, of so many.
    pub(crate) fn own(&self, group: GroupId, user: UserId, all: u64, msgid: MessageId) -> Result<u64, Failed> {
        up_to(all, msgid, |number| self.own_item(group, user, number))
    }

    /// The content item that an author has under this number; none where there is none.
    pub(crate) fn own_item(&self, group: GroupId, user: UserId, number: u64) -> Result<Option<MessageId>, Failed> {
        let row = self.row(Tree::Own, &keys::own(group, user, number))?;
        let record = row.map(|value| OwnRecord::decode(&value)).transpose();
        Ok(record.map_err(|source| bad(group, source))?.map(|record| record.msgid))
    }

    /// Finishes a count of mentions.
    pub(crate) fn mentions(&self, group: GroupId, user: UserId, of: &Mentioned) -> Result<u64, Failed> {
        let mut count = 0;
        for span in &of.spans {
            let up_to = |msgid: MessageId| self.mentions_up_to(group, user, of.all, msgid);
            count += up_to(span.last)?.saturating_sub(up_to(span.first.previous())?);
        }
        Ok(count.saturating_sub(of.recalled))
    }

    /// Mentions of a user in a group up to and with this msgid, of so many.
    pub(crate) fn mentions_up_to(
        &self,
        group: GroupId,
        user: UserId,
        all: u64,
        msgid: MessageId,
    ) -> Result<u64, Failed> {
        up_to(all, msgid, |number| self.mention(group, user, number))
    }

    /// The item that holds the mention of a user under this number; none where there is none.
    pub(crate) fn mention(&self, group: GroupId, user: UserId, number: u64) -> Result<Option<MessageId>, Failed> {
        let row = self.row(Tree::Mentions, &keys::mention(group, user, number))?;
        let record = row.map(|value| MentionRecord::decode(&value)).transpose();
        Ok(record.map_err(|source| bad(group, source))?.map(|record| record.msgid))
    }

    /// What is kept of an item that was recalled.
    pub(crate) fn recalled(&self, group: GroupId, msgid: MessageId) -> Result<Option<RecalledRecord>, Failed> {
        let row = self.row(Tree::Recalled, &keys::message(group, msgid))?;
        let record = row.map(|value| RecalledRecord::decode(&value)).transpose();
        Ok(record.map_err(|source| ReadError::Record { group, msgid, source })?)
    }

    fn row(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, Failed> {
        Ok(page::row(self.engine.as_ref(), &self.overlay, tree, key, self.at)?)
    }

    /// An item's newest edit that may be seen in these spans.
    pub(crate) fn edit_of(
        &self,
        group: GroupId,
        item: &MessageRecord,
        spans: &[Span],
    ) -> Result<Option<MessageRecord>, Failed> {
        let is_seen = |edit| spans.iter().any(|span| span.contains(edit));
        let edit = self.newest_seen(group, item.last_edit, is_seen)?;
        if edit == MessageId::ZERO { Ok(None) } else { Ok(self.item(group, edit)?) }
    }

    /// The last message in these spans, the last span first.
    pub(crate) fn last_message(
        &self,
        group: GroupId,
        spans: &[Span],
    ) -> Result<Option<(MessageId, MessageRecord)>, Failed> {
        let mut tries = PREVIEW_TRIES_MAX;
        for span in spans {
            let mut last = span.last;
            while last >= span.first && tries > 0 {
                tries -= 1;
                let Some(found) = self.last_content(group, Span { first: span.first, last })? else { break };
                if is_shown(&found.1) {
                    return Ok(Some(found));
                }
                last = found.0.previous();
            }
        }
        Ok(None)
    }

    /// The last content item of a span. It is the first whose ordinal is that of the span's end: looked for backwards,
    /// each time twice as far, then by halving.
    fn last_content(&self, group: GroupId, span: Span) -> Result<Option<(MessageId, MessageRecord)>, Failed> {
        let mut found = (span.last, self.kept(group, span.last)?);
        if is_content(&found.1) {
            return Ok(Some(found));
        }
        let ordinal = found.1.content;
        let mut low = span.first;
        let mut back = 1;
        while low < found.0 {
            let far = MessageId::new(found.0.value().saturating_sub(back)).max(low);
            let record = self.kept(group, far)?;
            if record.content < ordinal {
                low = far.next();
                break;
            }
            found = (far, record);
            back = back.saturating_mul(2);
        }
        while low < found.0 {
            let middle = MessageId::new(low.value() + (found.0.value() - low.value()) / 2);
            let record = self.kept(group, middle)?;
            if record.content < ordinal { low = middle.next() } else { found = (middle, record) }
        }
        Ok(is_content(&found.1).then_some(found))
    }
}

/// How many of these rows, numbered from 1 in the order of their msgids, lie up to a msgid. Those that are gone do.
fn up_to(
    all: u64,
    msgid: MessageId,
    msgid_of: impl Fn(u64) -> Result<Option<MessageId>, Failed>,
) -> Result<u64, Failed> {
    let (mut low, mut high) = (0, all);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if msgid_of(middle)?.is_none_or(|found| found <= msgid) { low = middle } else { high = middle - 1 }
    }
    Ok(low)
}

/// A row that only counts an item cannot be understood.
fn bad(group: GroupId, source: RecordError) -> Failed {
    Failed::Read(ReadError::Record { group, msgid: MessageId::ZERO, source })
}

fn is_content(record: &MessageRecord) -> bool {
    record.flags & message_flag::CONTENT != 0
}

fn is_shown(record: &MessageRecord) -> bool {
    is_content(record) && record.flags & message_flag::RECALLED == 0
}
