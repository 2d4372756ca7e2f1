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
use crate::core::conversations::Receipt;
use crate::core::rows::UserRow;
use crate::core::tables::Tables;
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
        let item = {
            let published = view.read();
            if !published.tables.may_see(user, group, msgid) {
                return Err(Code::NoSuchItem);
            }
            let snapshot = Snapshot::of(&published);
            drop(published);
            item(&snapshot, group, msgid).map_err(|failed| failed.code(view, doubt))?
        };
        // An edit is for who may see what it edits: to others it is a placeholder, which has no author and no readers.
        let edited = item.edited();
        let is_for = |tables: &Tables, user| edited.is_none_or(|target| tables.may_see(user, group, target));
        if !is_for(&view.read().tables, user) {
            return Err(Code::NoSuchItem);
        }
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
            let is_counted = |receipt: &Receipt| receipt.user != item.author && is_for(&published.tables, receipt.user);
            for receipt in receipts.into_iter().filter(is_counted) {
                if !published.tables.user(receipt.user).is_some_and(UserRow::tells_receipts) {
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

fn item(snapshot: &Snapshot, group: GroupId, msgid: MessageId) -> Result<Item, Failed> {
    let record = snapshot.item(group, msgid)?.ok_or(Failed::Missing(group, msgid))?;
    let source = RecordError::Malformed("no item");
    Ok(Item::decode(&record.item).map_err(|_| ReadError::Record { group, msgid, source })?)
}

// ---- told -------------------------------------------------------------------------------------------------------------

/// Who has come further, by group, since authors were told last.
#[derive(Default)]
pub(crate) struct Moved(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    groups: BTreeMap<GroupId, Gathered>,
    due: Option<Instant>,
    /// How far somebody had come in a group when authors were told last.
    known: BTreeMap<(GroupId, UserId), Reached>,
}

/// Who has come further in one group.
#[derive(Default)]
struct Gathered {
    users: BTreeSet<UserId>,
    /// Whether others have, too.
    more: bool,
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

/// Somebody who may be told of it.
struct Author {
    user: UserId,
    last_said: MessageId,
}

impl Author {
    /// Who of these has come further with something that the author has said, by what was the last of it while they were
    /// there. To most of a large group nobody has to be looked at: they have said nothing.
    fn news<'a>(&self, came: &'a [Came], last: impl Fn(UserId) -> MessageId) -> impl Iterator<Item = &'a Came> {
        let came = if self.last_said == MessageId::ZERO { &[] } else { came };
        let author = self.user;
        came.iter().filter(move |came| came.user != author && came.concerns(last(came.user)))
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
            let gathered = waiting.groups.entry(group).or_default();
            // One more than is named, as an author is not told of themselves.
            if gathered.users.len() <= RECEIPTS_TOLD_MAX {
                gathered.users.insert(user);
            } else {
                gathered.more |= !gathered.users.contains(&user);
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

    fn take(&self) -> BTreeMap<GroupId, Gathered> {
        let mut waiting = self.lock();
        waiting.due = None;
        std::mem::take(&mut waiting.groups)
    }

    /// Forgets how far anybody had come.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.lock().known.clear();
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

/// Tells the authors who are connected, and belong to the group.
pub(crate) fn tell(shared: &Shared) {
    for (group, Gathered { users, more }) in shared.moved.take() {
        let view = shared.view.read();
        let tables = &view.tables;
        let telling = |user: &&UserId| tables.user(**user).is_some_and(UserRow::tells_receipts);
        let came = |user: &UserId| shared.moved.came(group, *user, tables.reached(group, *user));
        let came: Vec<Came> = users.iter().filter(telling).map(came).collect();
        if came.is_empty() {
            continue;
        }
        // Who has left follows until the dispatcher has come to that.
        let followers = shared.registry.followers(group).into_iter();
        for session in followers.filter(|session| tables.is_member(group, session.user)) {
            let author = Author { user: session.user, last_said: tables.last_said(group, session.user) };
            let before = |user| tables.last_said_before(group, session.user, user);
            let mut news = author.news(&came, before).peekable();
            if news.peek().is_none() {
                continue;
            }
            let users = news.map(|came| (came.user, came.now));
            if session.listening().is_some_and(|mut listening| listening.receipts_moved(group, users, more)) {
                session.push_wake.notify_one();
            }
        }
    }
}

/// What a listener has to be told of the receipts of its user's items; bounded, the newest of each.
#[derive(Debug, Default)]
pub(crate) struct Told(BTreeMap<GroupId, ToldOf>);

/// What it has to be told of one group.
#[derive(Debug, Default)]
struct ToldOf {
    users: BTreeMap<UserId, Reached>,
    more: bool,
}

impl Told {
    /// These have come so far in a group, and perhaps more have. Says whether there was room for it.
    pub(crate) fn note(&mut self, group: GroupId, users: impl Iterator<Item = (UserId, Reached)>, more: bool) -> bool {
        if self.0.len() >= RECEIPT_GROUPS_MAX && !self.0.contains_key(&group) {
            return false;
        }
        let told = self.0.entry(group).or_default();
        told.more |= more;
        for (user, reached) in users {
            if told.users.len() < RECEIPTS_TOLD_MAX || told.users.contains_key(&user) {
                told.users.insert(user, reached);
            } else {
                told.more = true;
            }
        }
        true
    }

    /// Takes it, as notices.
    pub(crate) fn take(&mut self) -> Vec<ReceiptNotice> {
        let told = std::mem::take(&mut self.0).into_iter();
        told.map(|(gid, ToldOf { users, more })| ReceiptNotice {
            gid,
            users: users.into_iter().map(|(user, (received, read))| (user, received, read)).collect(),
            more,
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
    fn for_an_author_who_has_said_nothing_nobody_is_looked_at() {
        let (from, to) = ((MessageId::ZERO, MessageId::ZERO), (MessageId::new(9), MessageId::ZERO));
        let came: Vec<_> = (1..4).map(|user| Came { user: UserId::new(user), before: from, now: to }).collect();
        let looked = std::cell::Cell::new(0);
        let news = |last_said| {
            let author = Author { user: UserId::new(3), last_said };
            let last = |_| {
                looked.set(looked.get() + 1);
                last_said
            };
            author.news(&came, last).map(|came| came.user.value()).collect::<Vec<_>>()
        };
        assert_eq!(news(MessageId::new(5)), [1, 2]);
        assert_eq!(looked.take(), 2);
        assert!(news(MessageId::ZERO).is_empty() && looked.take() == 0);
    }

    #[test]
    fn a_slow_listener_is_told_the_newest_of_each_and_that_there_are_more() {
        let (group, at) = (GroupId::new(1), |msgid| (MessageId::new(msgid), MessageId::ZERO));
        let mut told = Told::default();
        for msgid in [5, 9] {
            assert!(told.note(group, std::iter::once((UserId::new(3), at(msgid))), false));
        }
        let notices = told.take();
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].users, [(UserId::new(3), MessageId::new(9), MessageId::ZERO)]);
        assert!(!notices[0].more && told.take().is_empty());
        let crowd: Vec<_> = (1..200).map(|user| (UserId::new(user), at(1))).collect();
        for group in 1..200 {
            let has_room = group <= RECEIPT_GROUPS_MAX as u64;
            assert_eq!(told.note(GroupId::new(group), crowd.iter().copied(), false), has_room);
        }
        let notices = told.take();
        assert_eq!(notices.len(), RECEIPT_GROUPS_MAX);
        assert!(notices.iter().all(|notice| notice.more && notice.users.len() == RECEIPTS_TOLD_MAX));
    }

    #[test]
    fn what_moved_in_as_many_groups_as_are_gathered_is_told_at_once() {
        let moved = Moved::default();
        let groups = |range: std::ops::Range<u64>| range.map(GroupId::new);
        let most = RECEIPT_GROUPS_WAITING_MAX as u64;
        moved.note(UserId::new(1), groups(1..most));
        assert!(moved.due().unwrap() > clock::monotonic(), "half a second from now");
        moved.note(UserId::new(2), groups(1..most));
        assert!(moved.due().unwrap() > clock::monotonic(), "no further group");
        moved.note(UserId::new(1), groups(most..most + 1));
        assert!(moved.due().unwrap() <= clock::monotonic());
        assert_eq!(moved.take().len(), RECEIPT_GROUPS_WAITING_MAX);
        assert_eq!(moved.due(), None);
    }

    #[test]
    fn how_far_somebody_had_come_is_remembered_of_so_many_and_of_nobody_beyond_them() {
        let (moved, group) = (Moved::default(), GroupId::new(1));
        let reached = (MessageId::new(5), MessageId::new(4));
        let before = |user: usize| moved.came(group, UserId::new(u32::try_from(user).unwrap()), reached).before;
        let first: BTreeSet<_> = (1..RECEIPTS_KNOWN_MAX).map(before).collect();
        assert_eq!(first, BTreeSet::from([Reached::default()]));
        assert_eq!((before(1), before(RECEIPTS_KNOWN_MAX)), (reached, Reached::default()));
        assert_eq!(before(1), Reached::default(), "it had to be forgotten");
        assert_eq!(moved.lock().known.len(), 1);
    }
}
