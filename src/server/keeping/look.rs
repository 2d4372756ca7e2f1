//! One look at a group: what is read of it at one moment for a step of the [`Keeper`](super::Keeper).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::core::command::Trim;
use crate::core::retention::{Keeping, Retention};
use crate::core::rows::{ItemRow, RecalledRow};
use crate::core::visible::Span;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::{PAGE_BYTES_MAX, RETENTION_MENTIONS_MAX};
use crate::proof::{self, Wrong};
use crate::server::keeping::Known;
use crate::server::snapshot::{Failed, Snapshot};
use crate::server::translate;
use crate::server::view::{Published, View};
use crate::store::page::{self, PageRow};
use crate::store::records::message_flag;
use crate::wire::item::Item;
use crate::wire::said::mentions_in;

/// A group is trimmed by its bytes only once it has so much more than it may keep: one in so many.
const SLACK: u64 = 16;

/// The look.
pub(super) struct Look {
    pub(super) group: GroupId,
    pub(super) policy: Retention,
    pub(super) first_kept: MessageId,
    pub(super) head: MessageId,
    /// Up to here every device has everything; zero where nobody wants to know.
    pub(super) acked: MessageId,
    /// Items that are looked at at once.
    rows_max: usize,
    snapshot: Snapshot,
}

/// Bytes of the items of a group, from one to another.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    first: MessageId,
    last: MessageId,
    bytes: u64,
    /// They were counted anew because they are too many, and go down to what may be kept.
    is_exact: bool,
}

/// When an item was decided; never, where it can't be understood.
pub(super) fn time_of(row: &PageRow) -> u64 {
    Item::decode(&row.record.item).map_or(u64::MAX, |item| item.time_ms)
}

fn bytes_of(row: &PageRow) -> u64 {
    u64::try_from(row.record.item.len()).unwrap_or(u64::MAX)
}

impl Look {
    pub(super) fn of(
        published: &Published,
        group: GroupId,
        keeping: Keeping,
        (clock_ms, rows_max): (u64, usize),
    ) -> Look {
        let tables = &published.tables;
        let policy = tables.retention(group, keeping);
        let acked = policy.acked_ms.map(|_| tables.acked_by_all(group, keeping, clock_ms));
        Look {
            group,
            policy,
            first_kept: tables.first_kept(group),
            head: tables.head(group),
            acked: acked.unwrap_or_default(),
            rows_max,
            snapshot: Snapshot::of(published),
        }
    }

    pub(super) fn items(&self, after: MessageId, up_to: MessageId, rows_max: usize) -> Result<Vec<PageRow>, Failed> {
        let span = Span { first: after.next(), last: up_to };
        Ok(self.snapshot.page(self.group, span, rows_max, PAGE_BYTES_MAX)?.rows)
    }

    /// An item as it was decided; none where there is none, or it can't be understood.
    fn item(&self, msgid: MessageId) -> Result<Option<ItemRow>, Failed> {
        let value = self.snapshot.item_bytes(self.group, msgid, page::row)?;
        Ok(value.and_then(|value| translate::item_row(self.group, msgid, &value).ok()))
    }

    // ---- what goes ----------------------------------------------------------------------------------------------------

    /// The next rows to be removed, and the lowest item among them; none where nothing is left from this item on.
    pub(super) fn trim(&self, from: MessageId, view: &View) -> Result<Option<(MessageId, Trim)>, Failed> {
        let last = if proof::is(Wrong::TrimOneTooMany) { self.first_kept } else { self.first_kept.previous() };
        let rows = self.items(from.previous(), last, self.rows_max)?;
        let Some(lowest) = rows.first().map(|row| row.msgid) else { return Ok(None) };
        let mut going = Going::default();
        for row in &rows {
            // So many mentions and edits at once; one item has fewer.
            if going.mentions + going.edits.len() > RETENTION_MENTIONS_MAX {
                break;
            }
            going.add(self, row)?;
        }
        let (own, mentions) = (self.own_rows(&going)?, self.mention_rows(&going, view)?);
        let Going { items, recalled, edits, .. } = going;
        Ok(Some((lowest, Trim { group: self.group, items, recalled, edits, own, mentions })))
    }

    /// The rows that count what goes for its authors. An older one may have stayed, because it was its author's last when
    /// its item went.
    fn own_rows(&self, going: &Going) -> Result<Vec<(UserId, u64, MessageId)>, Failed> {
        let mut rows = going.own.clone();
        for (author, lowest) in &going.authors {
            let number = lowest.saturating_sub(1);
            if let Some(msgid) = self.snapshot.own_item(self.group, *author, number)? {
                rows.push((*author, number, msgid));
            }
        }
        Ok(rows)
    }

    /// The rows that count mentions in what goes, and below, for those who are mentioned.
    fn mention_rows(&self, going: &Going, view: &View) -> Result<Vec<(UserId, u64, MessageId)>, Failed> {
        let last = going.items.last().copied().unwrap_or_default();
        let all: Vec<(UserId, u64)> = {
            let tables = &view.read().tables;
            going.mentioned.iter().map(|user| (*user, tables.mentions(self.group, *user))).collect()
        };
        let mut rows = Vec::new();
        for (user, all) in all {
            let mut number = self.snapshot.mentions_up_to(self.group, user, all, last)?;
            while let Some(msgid) = self.snapshot.mention(self.group, user, number)? {
                rows.push((user, number, msgid));
                number = number.saturating_sub(1);
            }
        }
        Ok(rows)
    }

    // ---- bytes --------------------------------------------------------------------------------------------------------

    /// Counts the bytes of what is kept, a page at a time: break while it is not done. Says up to which item they are
    /// more than may be kept. It begins once they are too many by some, and counts anew then, since what was recalled
    /// meanwhile does not count; and it ends when they are no more than may be kept.
    pub(super) fn count(&self, known: &mut Known, most: u64) -> Result<ControlFlow<(), MessageId>, Failed> {
        let anew = Counted { first: self.first_kept, last: self.first_kept.previous(), bytes: 0, is_exact: false };
        let mut counted = known.counted.filter(|counted| counted.first == self.first_kept).unwrap_or(anew);
        if counted.last < self.head {
            let rows = self.items(counted.last, self.head, self.rows_max)?;
            counted.bytes = rows.iter().fold(counted.bytes, |sum, row| sum.saturating_add(bytes_of(row)));
            counted.last = rows.last().map_or(self.head, |row| row.msgid);
            known.counted = Some(counted);
            return Ok(ControlFlow::Break(()));
        }
        if !counted.is_exact && counted.bytes > most.saturating_add(most / SLACK) {
            known.counted = Some(Counted { is_exact: true, ..anew });
            return Ok(ControlFlow::Break(()));
        }
        let mut over = MessageId::ZERO;
        if counted.is_exact && counted.bytes > most {
            let mut left = counted.bytes;
            for row in self.items(self.first_kept.previous(), self.head, self.rows_max)? {
                if left <= most {
                    break;
                }
                left = left.saturating_sub(bytes_of(&row));
                over = row.msgid;
            }
        } else {
            counted.is_exact = false;
        }
        known.counted = Some(counted);
        Ok(ControlFlow::Continue(over))
    }

    /// What is about to go no longer counts.
    pub(super) fn take_off(&self, known: &mut Known, to: MessageId) -> Result<(), Failed> {
        let Some(mut counted) = known.counted.filter(|_| self.policy.bytes.is_some()) else { return Ok(()) };
        let rows = self.items(self.first_kept.previous(), to.previous(), self.rows_max)?;
        counted.bytes = rows.iter().fold(counted.bytes, |sum, row| sum.saturating_sub(bytes_of(row)));
        counted.first = to;
        known.counted = Some(counted);
        Ok(())
    }
}

/// What is about to be removed.
#[derive(Default)]
struct Going {
    items: Vec<MessageId>,
    recalled: Vec<(MessageId, RecalledRow)>,
    edits: Vec<ItemRow>,
    own: Vec<(UserId, u64, MessageId)>,
    /// The lowest number of each author in `own`.
    authors: BTreeMap<UserId, u64>,
    mentioned: BTreeSet<UserId>,
    /// How many mentions there are.
    mentions: usize,
}

impl Going {
    fn add(&mut self, look: &Look, row: &PageRow) -> Result<(), Failed> {
        let msgid = row.msgid;
        self.items.push(msgid);
        // An item that can't be understood goes all the same; nothing is counted by it.
        let Ok(item) = Item::decode(&row.record.item) else { return Ok(()) };
        if row.record.own > 0 {
            self.own.push((item.author, row.record.own, msgid));
            self.authors.entry(item.author).or_insert(row.record.own);
        }
        let mut mentioned = mentions_in(&item.extensions).unwrap_or_default();
        if row.record.flags & message_flag::RECALLED != 0
            && let Some(record) = look.snapshot.recalled(look.group, msgid)?
            && let Ok(recalled) = translate::recalled_row(&record)
        {
            mentioned.clone_from(&recalled.mentions);
            self.recalled.push((msgid, recalled));
        }
        self.mentions += mentioned.len();
        self.mentioned.extend(mentioned);
        if row.record.flags & (message_flag::RECALLED | message_flag::EDIT) == 0 {
            self.add_edits(look, row.record.last_edit)?;
        }
        Ok(())
    }

    /// The edits of an item, the newest first, as far as they do not go themselves.
    fn add_edits(&mut self, look: &Look, newest: MessageId) -> Result<(), Failed> {
        let mut next = newest;
        while next >= look.first_kept
            && let Some(edit) = look.item(next)?
        {
            next = edit.last_edit;
            self.edits.push(edit);
        }
        Ok(())
    }
}
