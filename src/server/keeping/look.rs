//! One look at a group: what is read of it at one moment for a step of the [`Keeper`](super::Keeper).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::core::command::Trim;
use crate::core::retention::{Keeping, Retention};
use crate::core::rows::{ItemRow, RecalledRow};
use crate::core::visible::Span;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::{CLOCK_MS_MIN, EDITS_MAX, ITEM_BYTES_MAX, RETENTION_MENTIONS_MAX};
use crate::proof::{self, Wrong};
use crate::server::keeping::Known;
use crate::server::snapshot::{Failed, Snapshot};
use crate::server::translate;
use crate::server::view::{Published, View};
use crate::store::page::{self, PageRow};
use crate::store::records::{message_extension, message_flag};
use crate::wire::item::{Item, kind};
use crate::wire::said::mentions_in;

/// A group is trimmed by its bytes only once it has so much more than it may keep: one in so many.
const SLACK: u64 = 16;

/// The look.
pub(in crate::server) struct Look {
    pub(super) group: GroupId,
    pub(super) policy: Retention,
    pub(super) first_kept: MessageId,
    pub(super) head: MessageId,
    at_once: AtOnce,
    snapshot: Snapshot,
}

/// So much is looked at, or removed, at once.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct AtOnce {
    pub(in crate::server) rows: usize,
    /// Of rows; one row is always looked at.
    pub(in crate::server) bytes: usize,
}

/// Bytes of the items of a group, from one to another.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    first: MessageId,
    last: MessageId,
    /// As they were when each item was counted.
    bytes: u64,
    /// How much of that may have been wiped since, at the most.
    wiped: u64,
    /// The head when the count began: what was recalled up to there was wiped before.
    begun_at: MessageId,
    /// They were counted anew because they are too many, and go down to what may be kept.
    is_exact: bool,
}

/// From when on the age of an item is reckoned: from when it was decided, where the clock had not been set back then.
/// Never, where it can't be understood, or the clock had not been set at all.
pub(super) fn time_of(row: &PageRow) -> u64 {
    let aged_from_ms = row.record.extensions.number(message_extension::AGED_FROM).unwrap_or(u64::MAX);
    let time_ms = Item::decode(&row.record.item).map_or(u64::MAX, |item| item.time_ms.max(aged_from_ms));
    if time_ms < CLOCK_MS_MIN { u64::MAX } else { time_ms }
}

fn bytes_of(row: &PageRow) -> u64 {
    u64::try_from(row.record.item.len()).unwrap_or(u64::MAX)
}

impl Look {
    pub(in crate::server) fn of(published: &Published, group: GroupId, keeping: Keeping, at_once: AtOnce) -> Look {
        let tables = &published.tables;
        Look {
            group,
            policy: tables.retention(group, keeping),
            first_kept: tables.first_kept(group),
            head: tables.head(group),
            at_once,
            snapshot: Snapshot::of(published),
        }
    }

    pub(super) fn items(&self, after: MessageId, up_to: MessageId, rows_max: usize) -> Result<Vec<PageRow>, Failed> {
        let span = Span { first: after.next(), last: up_to };
        Ok(self.snapshot.page(self.group, span, rows_max, self.at_once.bytes)?.rows)
    }

    /// The same, as many as at once.
    pub(super) fn page(&self, after: MessageId, up_to: MessageId) -> Result<Vec<PageRow>, Failed> {
        self.items(after, up_to, self.at_once.rows)
    }

    /// An item as it was decided, and the bytes of its row; none where there is none, or it can't be understood.
    fn item(&self, msgid: MessageId) -> Result<Option<(ItemRow, u64)>, Failed> {
        let value = self.snapshot.item_bytes(self.group, msgid, page::row)?;
        let bytes = value.as_ref().map_or(0, |value| value.len() as u64);
        let row = value.and_then(|value| translate::item_row(self.group, msgid, &value).ok());
        Ok(row.map(|row| (row, bytes)))
    }

    // ---- what goes ----------------------------------------------------------------------------------------------------

    /// The next rows to be removed; none where nothing is left from what is trimmed on.
    pub(in crate::server) fn trim(&self, known: &mut Known, view: &View) -> Result<Option<Trim>, Failed> {
        let last = if proof::is(Wrong::TrimOneTooMany) { self.first_kept } else { self.first_kept.previous() };
        let rows = self.page(known.trimmed.previous(), last)?;
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
        // Those below the lowest are gone; the others are once they are asked for again.
        known.trimmed = lowest;
        if let Some(counted) = &mut known.counted {
            counted.wiped = counted.wiped.saturating_add(going.wiped);
        }
        let Going { items, recalled, edits, .. } = going;
        Ok(Some(Trim { group: self.group, items, recalled, edits, own, mentions }))
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

    /// The rows that count mentions in what goes, and below, for those who are mentioned. How many there are is told by the
    /// view, so they are found at one look at that, which may be newer than this: a row that is not there yet would pass for
    /// one that is gone.
    fn mention_rows(&self, going: &Going, view: &View) -> Result<Vec<(UserId, u64, MessageId)>, Failed> {
        let last = going.items.last().copied().unwrap_or_default();
        let (snapshot, all): (Snapshot, Vec<(UserId, u64)>) = {
            let published = view.read();
            let all = |user: &UserId| (*user, published.tables.mentions(self.group, *user));
            (Snapshot::of(&published), going.mentioned.iter().map(all).collect())
        };
        let mut rows = Vec::new();
        for (user, all) in all {
            let mut number = snapshot.mentions_up_to(self.group, user, all, last)?;
            while let Some(msgid) = snapshot.mention(self.group, user, number)? {
                rows.push((user, number, msgid));
                number = number.saturating_sub(1);
            }
        }
        Ok(rows)
    }

    // ---- bytes --------------------------------------------------------------------------------------------------------

    /// Counts the bytes of what is kept, a page at a time: break while it is not done. Says up to which item they are
    /// more than may be kept. It begins once they are too many by some, and counts anew then, since what was recalled
    /// meanwhile does not count; and it ends when they are no more than may be kept, or may be so: what is wiped during
    /// such a count is taken off by the most that it can have been, and the next round counts anew.
    pub(super) fn count(&self, known: &mut Known, most: u64) -> Result<ControlFlow<(), MessageId>, Failed> {
        let (first, last) = (self.first_kept, self.first_kept.previous());
        let anew = Counted { first, last, bytes: 0, wiped: 0, begun_at: self.head, is_exact: false };
        let mut counted = known.counted.filter(|counted| counted.first == self.first_kept).unwrap_or(anew);
        if counted.last < self.head {
            let rows = self.page(counted.last, self.head)?;
            for row in rows.iter().filter(|row| row.msgid > counted.begun_at) {
                counted.wiped = counted.wiped.saturating_add(self.wiped_by(row)?);
            }
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
        let surely = counted.bytes.saturating_sub(counted.wiped);
        if counted.is_exact && surely > most {
            let mut left = surely;
            for row in self.page(self.first_kept.previous(), self.head)? {
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

    /// The bytes that an item can have wiped, at the most: those of what it recalls, and of the edits of that.
    fn wiped_by(&self, row: &PageRow) -> Result<u64, Failed> {
        let Ok(item) = Item::decode(&row.record.item) else { return Ok(0) };
        let Some(target) = item.target().filter(|_| item.kind == kind::RECALL) else { return Ok(0) };
        let edits = self.item(target)?.map_or(EDITS_MAX, |(target, _)| target.edits);
        Ok((u64::from(edits) + 1).saturating_mul(ITEM_BYTES_MAX as u64))
    }

    /// What goes at once where all below this item may: where bytes are counted no more than one page shows, so that all of
    /// it can be taken off; else the last item alone stands for all of it.
    pub(super) fn going(&self, to: MessageId) -> Result<Vec<PageRow>, Failed> {
        match self.policy.bytes {
            Some(_) => self.page(self.first_kept.previous(), to.previous()),
            None => self.items(to.previous().previous(), to.previous(), 1),
        }
    }

    /// What is about to go, up to this item, no longer counts.
    pub(super) fn take_off(&self, known: &mut Known, rows: &[PageRow], to: MessageId) {
        if let Some(counted) = known.counted.as_mut().filter(|_| self.policy.bytes.is_some()) {
            counted.bytes = rows.iter().fold(counted.bytes, |sum, row| sum.saturating_sub(bytes_of(row)));
            counted.first = to;
        }
    }
}

/// What is about to be removed.
#[derive(Default)]
struct Going {
    items: Vec<MessageId>,
    recalled: Vec<(MessageId, RecalledRow)>,
    edits: Vec<ItemRow>,
    /// Bytes of the rows of these edits.
    wiped: u64,
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
            && let Some((edit, bytes)) = look.item(next)?
        {
            next = edit.last_edit;
            self.wiped = self.wiped.saturating_add(bytes);
            self.edits.push(edit);
        }
        Ok(())
    }
}
