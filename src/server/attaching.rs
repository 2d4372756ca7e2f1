//! What is read of stored items for a command before it is decided: see [`crate::core::attached`].
//!
//! Whoever takes a command off a stream has a reader thread read what it wants, and hands it on after that, so that the
//! commands of a stream stay in their order. Where the committed view knows of something newer when the writer comes to
//! it, the writer reads it again by itself. That holds up nobody for long: what it reads was read or written a moment
//! ago, and for an index that is being opened anew it does not wait.

use tracing::{debug, error};

use crate::core::attached::{Attached, Extent, Wanted};
use crate::core::command::Command;
use crate::core::rows::ItemRow;
use crate::ids::MessageId;
use crate::limits::EDITS_MAX;
use crate::server::doubt::Doubt;
use crate::server::snapshot::{ReadRow, Snapshot};
use crate::server::translate;
use crate::server::view::View;
use crate::store::engine::EngineError;
use crate::store::page;
use crate::wire::code::Code;

/// What one look at the committed view says about an item that is wanted.
pub(crate) struct Look {
    wanted: Wanted,
    head: MessageId,
    snapshot: Snapshot,
}

/// Looks at the committed view for an item.
pub(crate) fn look(view: &View, wanted: Wanted) -> Look {
    let published = view.read();
    Look { wanted, head: published.tables.head(wanted.group), snapshot: Snapshot::of(&published) }
}

/// Reads what was looked at. What was published since is no part of it.
pub(crate) fn scan(look: &Look, doubt: &Doubt) -> Result<Attached, Code> {
    look.read(page::row, doubt)
}

/// Reads again what a command wants, where what it has is outdated. Where that can't be done at once, it stays so.
pub(crate) fn refresh(view: &View, command: &mut Command, doubt: &Doubt) {
    let outdated = command.is_outdated(&view.read().tables);
    if let Some(wanted) = command.wanted().filter(|_| outdated)
        && let Ok(attached) = look(view, wanted).read(page::row_now, doubt)
    {
        command.attach(attached);
    }
}

impl Look {
    fn read(&self, row: ReadRow, doubt: &Doubt) -> Result<Attached, Code> {
        let mut items = Vec::new();
        let mut next = Some(self.wanted.msgid).filter(|msgid| *msgid <= self.head);
        while let Some(msgid) = next {
            // Retention may have removed it meanwhile: then it is not there, which the writer knows better.
            let Some(item) = self.item(row, msgid, doubt)? else { break };
            let goes_on = self.wanted.of == Extent::WithEdits && items.len() <= EDITS_MAX as usize;
            next = Some(item.last_edit).filter(|edit| goes_on && *edit != MessageId::ZERO);
            items.push(item);
        }
        Ok(Attached { head: self.head, items })
    }

    fn item(&self, row: ReadRow, msgid: MessageId, doubt: &Doubt) -> Result<Option<ItemRow>, Code> {
        let group = self.wanted.group;
        let found = self.snapshot.item_bytes(group, msgid, row).map_err(|failure| {
            if matches!(failure, EngineError::Busy) {
                debug!(%group, %msgid, "an item has to wait until the index is open anew");
            } else {
                doubt.raise(&failure);
            }
            Code::Busy
        })?;
        let item = found.map(|value| translate::item_row(group, msgid, &value)).transpose();
        let item = item.map_err(|failure| {
            error!(%group, %msgid, error = %failure, "an item cannot be read");
            doubt.suspect(&format!("{group} {msgid} cannot be read: {failure}"));
            Code::Busy
        })?;
        Ok(match self.wanted.of {
            Extent::Whole => item,
            Extent::Head | Extent::WithEdits => item.map(ItemRow::without_body),
        })
    }
}
