//! Who has received and who has read an item: from cursors and read marks alone, without a row for any item.
//!
//! Who wants to know asks. Authors who are connected are also told when others come further in a group in which they have
//! said something: what moved is gathered for half a second, then each listener of an author is told once a group, and
//! where it reads slowly the newest of it takes the place of the older. It is a hint and no more: bounded, and what does
//! not fit is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::core::people::{Switches, UserRow};
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::{
    LIST_ROWS_MAX, RECEIPT_GROUPS_MAX, RECEIPT_GROUPS_WAITING_MAX, RECEIPTS_KNOWN_MAX, RECEIPTS_LOOKED_MAX,
    RECEIPTS_TOLD_MAX, RECEIPTS_TOLD_MS,
};
use crate::server::Shared;
use crate::server::doubt::Doubt;
use crate::server::snapshot::{Failed, Snapshot};
use crate::server::view::View;
use crate::store::page::ReadError;
use crate::store::records::RecordError;
use crate::wire::code::Code;
use crate::wire::frame::{Extensions, ReceiptInfo, ReceiptList, ReceiptNotice, Receipts, Rows};
use crate::wire::item::Item;

// ---- asked ------------------------------------------------------------------------------------------------------------

/// Receipts of which item, for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    user: UserId,
    group: GroupId,
    msgid: MessageId,
    after: UserId,
}

impl Asked {
    /// As a device of this user asks.
    pub(crate) fn new(user: UserId, asked: &Receipts) -> Asked {
        Asked { user, group: asked.gid, msgid: asked.msgid, after: asked.after }
    }

    /// The receipts.
    pub(crate) fn read(self, view: &View, doubt: &Doubt) -> Result<ReceiptList, Code> {
        let Asked { user, group, msgid, after } = self;
        let author = {
            let published = view.read();
            if !published.tables.may_see(user, group, msgid) {
                return Err(Code::NoSuchItem);
            }
            let snapshot = Snapshot::of(&published);
            drop(published);
            author(&snapshot, group, msgid).map_err(|failed| failed.code(view, doubt))?
        };
        let extensions = Extensions::default;
        let mut list = ReceiptList {
            members: 0,
            received: 0,
            read: 0,
            silent: 0,
            rows: Rows(Vec::new()),
            more: false,
            extensions: extensions(),
        };
        let mut from = Some(UserId::ZERO);
        while let Some(at) = from {
            // A commit waits no longer than for these. Marks only rise meanwhile, but for who marks something unread.
            let published = view.read();
            let (receipts, next) = published.tables.receipts(group, msgid, at, RECEIPTS_LOOKED_MAX);
            for receipt in receipts.into_iter().filter(|receipt| receipt.user != author) {
                if !published.tables.user(receipt.user).is_some_and(tells) {
                    list.silent += 1;
                    continue;
                }
                list.members += 1;
                list.received += u32::from(receipt.received);
                list.read += u32::from(receipt.read);
                if receipt.user <= after {
                    continue;
                }
                if list.rows.0.len() == LIST_ROWS_MAX {
                    list.more = true;
                    continue;
                }
                let (user, received, read) = (receipt.user, receipt.received, receipt.read);
                list.rows.0.push(ReceiptInfo { user, received, read, extensions: extensions() });
            }
            from = next;
        }
        Ok(list)
    }
}

/// Whether a user lets others know how far they have come.
fn tells(user: &UserRow) -> bool {
    !user.switches.is_on(Switches::RECEIPTS_OFF)
}

fn author(snapshot: &Snapshot, group: GroupId, msgid: MessageId) -> Result<UserId, Failed> {
    let record = snapshot.item(group, msgid)?.ok_or(Failed::Missing(group, msgid))?;
    let source = RecordError::Malformed("no item");
    let item = Item::decode(&record.item).map_err(|_| ReadError::Record { group, msgid, source })?;
    Ok(item.author)
}

// ---- told -------------------------------------------------------------------------------------------------------------

/// Who has come further, by group, since authors were told last.
#[derive(Default)]
pub(crate) struct Moved(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    groups: BTreeMap<GroupId, BTreeSet<UserId>>,
    due: Option<Instant>,
    /// How far somebody had come in a group when authors were told last.
    known: BTreeMap<(GroupId, UserId), Reached>,
}

/// The last msgid received, and the last read.
type Reached = (MessageId, MessageId);

/// Somebody who has come further.
struct Came {
    user: UserId,
    before: Reached,
    now: Reached,
}

impl Came {
    /// Whether that says something new of an author's items, of which this is the last.
    fn concerns(&self, last: MessageId) -> bool {
        let moved = |before: MessageId, now: MessageId| before != now && before.min(now) < last;
        moved(self.before.0, self.now.0) || moved(self.before.1, self.now.1)
    }
}

impl Moved {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A user has come further in these groups.
    pub(crate) fn note(&self, user: UserId, groups: impl Iterator<Item = GroupId>) {
        let mut waiting = self.lock();
        for group in groups {
            let users = waiting.groups.entry(group).or_default();
            // One more than is named says that there are more.
            if users.len() <= RECEIPTS_TOLD_MAX {
                users.insert(user);
            }
        }
        let (full, now) = (waiting.groups.len() >= RECEIPT_GROUPS_WAITING_MAX, clock::monotonic());
        let later = now + Duration::from_millis(RECEIPTS_TOLD_MS);
        let due = waiting.due.unwrap_or(later);
        waiting.due = Some(if full { now } else { due });
    }

    /// When [`tell`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due
    }

    fn take(&self) -> BTreeMap<GroupId, BTreeSet<UserId>> {
        let mut waiting = self.lock();
        waiting.due = None;
        std::mem::take(&mut waiting.groups)
    }

    /// Somebody has come so far, and authors are told now.
    fn came(&self, group: GroupId, user: UserId, now: Reached) -> Came {
        let mut waiting = self.lock();
        if waiting.known.len() >= RECEIPTS_KNOWN_MAX {
            waiting.known.clear();
        }
        let before = waiting.known.insert((group, user), now).unwrap_or_default();
        Came { user, before, now }
    }
}

/// Tells the authors who are connected.
pub(crate) fn tell(shared: &Shared) {
    for (group, users) in shared.moved.take() {
        // Looked at before the lock on the view, as where items are offered.
        let followers = shared.registry.followers(group);
        let view = shared.view.read();
        let tables = &view.tables;
        let telling = |user: &&UserId| tables.user(**user).is_some_and(tells);
        let came = |user: &UserId| shared.moved.came(group, *user, tables.reached(group, *user));
        let came: Vec<Came> = users.iter().filter(telling).map(came).collect();
        for session in followers {
            let last = tables.last_said(group, session.user);
            let mut news = came.iter().filter(|came| came.user != session.user && came.concerns(last)).peekable();
            if news.peek().is_none() {
                continue;
            }
            if let Some(mut listening) = session.listening() {
                listening.receipts_moved(group, news.map(|came| (came.user, came.now)));
            }
            session.push_wake.notify_one();
        }
    }
}

/// What a listener has to be told of the receipts of its user's items; bounded, the newest of each.
#[derive(Debug, Default)]
pub(crate) struct Told(BTreeMap<GroupId, BTreeMap<UserId, Reached>>);

impl Told {
    /// These have come so far in a group.
    pub(crate) fn note(&mut self, group: GroupId, users: impl Iterator<Item = (UserId, Reached)>) {
        let mut users = users.peekable();
        if users.peek().is_none() || (self.0.len() >= RECEIPT_GROUPS_MAX && !self.0.contains_key(&group)) {
            return;
        }
        let told = self.0.entry(group).or_default();
        for (user, reached) in users {
            if told.len() <= RECEIPTS_TOLD_MAX || told.contains_key(&user) {
                told.insert(user, reached);
            }
        }
    }

    /// Takes it, as notices.
    pub(crate) fn take(&mut self) -> Vec<ReceiptNotice> {
        let told = std::mem::take(&mut self.0).into_iter();
        told.map(|(gid, users)| ReceiptNotice {
            gid,
            more: users.len() > RECEIPTS_TOLD_MAX,
            users: users
                .into_iter()
                .take(RECEIPTS_TOLD_MAX)
                .map(|(user, (received, read))| (user, received, read))
                .collect(),
            extensions: Extensions::default(),
        })
        .collect()
    }

    /// Forgets it: nobody listens.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_author_of_whose_items_something_new_is_known_is_told() {
        let m = MessageId::new;
        let came = |before: (u64, u64), now: (u64, u64)| {
            let pair = |(received, read)| (m(received), m(read));
            Came { user: UserId::new(1), before: pair(before), now: pair(now) }
        };
        assert!(came((4, 0), (7, 0)).concerns(m(5)));
        assert!(!came((5, 0), (7, 0)).concerns(m(5)), "it was received before");
        assert!(came((9, 4), (9, 7)).concerns(m(5)));
        assert!(came((9, 7), (9, 4)).concerns(m(5)), "it was marked unread");
        assert!(!came((9, 7), (9, 7)).concerns(m(5)));
        assert!(!came((0, 0), (9, 7)).concerns(MessageId::ZERO), "who has said nothing");
    }

    #[test]
    fn a_slow_listener_is_told_the_newest_of_each_and_that_there_are_more() {
        let (group, at) = (GroupId::new(1), |msgid| (MessageId::new(msgid), MessageId::ZERO));
        let mut told = Told::default();
        for msgid in [5, 9] {
            told.note(group, std::iter::once((UserId::new(3), at(msgid))));
        }
        let notices = told.take();
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].users, [(UserId::new(3), MessageId::new(9), MessageId::ZERO)]);
        assert!(!notices[0].more && told.take().is_empty());
        let crowd: Vec<_> = (1..200).map(|user| (UserId::new(user), at(1))).collect();
        for group in 1..200 {
            told.note(GroupId::new(group), crowd.iter().copied());
        }
        let notices = told.take();
        assert_eq!(notices.len(), RECEIPT_GROUPS_MAX);
        assert!(notices.iter().all(|notice| notice.more && notice.users.len() == RECEIPTS_TOLD_MAX));
    }
}
