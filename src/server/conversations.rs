//! The list of a user's conversations, as far as it has changed: one look at the committed view for all rows of an
//! answer, then for each the ordinals that its count needs and its last message.
//!
//! What did not change is not looked at, and of no conversation more than a few items are read, however much is waiting.

use crate::core::conversations::{Mentioned, Place};
use crate::core::tables::Tables;
use crate::core::unread::Counting;
use crate::core::visible::Span;
use crate::ids::{DeviceId, Lsn, MessageId, UserId};
use crate::limits::{CONVERSATION_ROWS_MAX, PREVIEW_BYTES_MAX};
use crate::server::doubt::Doubt;
use crate::server::lists::{self, Standing};
use crate::server::snapshot::{Failed, Snapshot};
use crate::server::view::View;
use crate::store::records::MessageRecord;
use crate::wire::code::Code;
use crate::wire::frame::{Conversation, ConversationList, Conversations, Extensions, Preview, Rows};
use crate::wire::item::{Item, kind};

/// How often a list is looked at for one answer.
const LOOKS_MAX: usize = 4;

/// Which part of whose list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    user: UserId,
    device: DeviceId,
    since: Lsn,
    behind: Option<Place>,
    rows: usize,
    preview_bytes: usize,
}

impl Asked {
    /// As a device of this user asks.
    pub(crate) fn new(user: UserId, device: DeviceId, asked: &Conversations) -> Asked {
        let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let rows = if asked.rows == 0 { CONVERSATION_ROWS_MAX } else { size(asked.rows) };
        Asked {
            user,
            device,
            since: Lsn::new(asked.since),
            behind: asked.behind.map(|(changed, group)| (Lsn::new(changed), group)),
            rows: rows.min(CONVERSATION_ROWS_MAX),
            preview_bytes: size(asked.preview_bytes).min(PREVIEW_BYTES_MAX),
        }
    }

    /// The rows. Where retention removes something of them meanwhile they are looked at anew.
    pub(crate) fn read(self, view: &View, doubt: &Doubt) -> Result<ConversationList, Code> {
        for _ in 0..LOOKS_MAX {
            if let Some(list) = self.look_and_read(view, doubt)? {
                return Ok(list);
            }
        }
        Err(Code::Busy)
    }

    /// None where what was looked at has gone while it was read: rows that are gone count as read, whatever they were.
    fn look_and_read(self, view: &View, doubt: &Doubt) -> Result<Option<ConversationList>, Code> {
        let published = view.read();
        let (tables, version) = (&published.tables, published.durable);
        let places = tables.changed(self.user, self.since, self.behind);
        let more = places.len() > self.rows;
        let looks: Vec<Look> =
            places.into_iter().take(self.rows).filter_map(|place| self.look(tables, place)).collect();
        let snapshot = Snapshot::of(&published);
        let kept: Vec<_> = looks.iter().map(|look| (look.row.gid, tables.first_kept(look.row.gid))).collect();
        drop(published);
        let rows: Result<_, Failed> = looks.into_iter().map(|look| self.row(&snapshot, look)).collect();
        let is_kept = {
            let tables = &view.read().tables;
            kept.iter().all(|(group, first)| tables.first_kept(*group) == *first)
        };
        if !is_kept {
            return Ok(None);
        }
        let rows = Rows(rows.map_err(|failed| failed.code(view, doubt))?);
        Ok(Some(ConversationList { rows, more, version: version.value(), extensions: Extensions::default() }))
    }

    fn look(&self, tables: &Tables, (changed, gid): Place) -> Option<Look> {
        let member = tables.member(gid, self.user)?;
        let mark = tables.read_mark(gid, self.user);
        let standing = lists::standing(tables, gid, (self.user, self.device), member);
        let Standing { name, role, members, head, cursor } = standing;
        let row = Conversation {
            gid,
            changed: changed.value(),
            name,
            role,
            members,
            head,
            cursor,
            read: mark.map(|mark| mark.msgid).unwrap_or_default(),
            version: mark.map_or(0, |mark| mark.version),
            unread: 0,
            mentions: 0,
            last: None,
            extensions: Extensions::default(),
        };
        let mut spans: Vec<Span> = Vec::new();
        if self.preview_bytes > 0 {
            spans.extend(tables.visible(self.user, gid, MessageId::ZERO));
            spans.reverse();
        }
        let counting = tables.counting(gid, self.user)?;
        let mentioned = tables.mentioned(gid, self.user, counting.floor);
        Some(Look { row, counting, mentioned, spans })
    }

    fn row(&self, snapshot: &Snapshot, look: Look) -> Result<Conversation, Failed> {
        let Look { row, counting, mentioned, spans } = look;
        let unread = snapshot.unread(row.gid, self.user, &counting)?;
        let last = snapshot.last_message(row.gid, &spans)?;
        let mentions = snapshot.mentions(row.gid, self.user, &mentioned)?;
        let last = match last {
            Some((msgid, record)) => {
                let edit = snapshot.edit_of(row.gid, &record, &spans)?;
                preview(msgid, &record, edit.as_ref(), self.preview_bytes)
            }
            None => None,
        };
        Ok(Conversation { unread, mentions, last, ..row })
    }
}

/// The list as it may be written now: since it was read, messages may have been recalled, or removed by retention after that.
pub(crate) fn still_said(mut list: ConversationList, tables: &Tables) -> ConversationList {
    for row in &mut list.rows.0 {
        let (gid, first_kept) = (row.gid, tables.first_kept(row.gid));
        // What changes here changes the conversation, which comes again with the next question.
        let is_said = |msgid| msgid >= first_kept && !tables.recalled().contains(gid, msgid);
        row.last = row.last.take().filter(|last| is_said(last.msgid));
    }
    list
}

/// What one look says of a conversation.
struct Look {
    row: Conversation,
    counting: Counting,
    mentioned: Mentioned,
    /// What the user may see, the last first; empty where no message is asked for.
    spans: Vec<Span>,
}

/// The beginning of a message; none where it can't be read, which its reader hears when they ask for it.
fn preview(
    msgid: MessageId,
    record: &MessageRecord,
    edit: Option<&MessageRecord>,
    bytes_max: usize,
) -> Option<Preview> {
    let item = Item::decode(&record.item).ok()?;
    let body = match edit {
        Some(edit) => Item::decode(&edit.item).ok()?.body,
        None => item.body,
    };
    let all = if item.kind == kind::TEXT { std::str::from_utf8(&body).unwrap_or_default() } else { "" };
    let end = (0..=all.len().min(bytes_max)).rev().find(|end| all.is_char_boundary(*end));
    let text = all.get(..end.unwrap_or(0)).unwrap_or_default();
    Some(Preview {
        msgid,
        kind: item.kind,
        author: item.author,
        time_ms: item.time_ms,
        text: text.to_owned(),
        whole: text.len() == body.len(),
        extensions: Extensions::default(),
    })
}
