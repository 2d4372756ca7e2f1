//! Who is there and who types: told by datagram to fellow members who listen, and kept nowhere but here.
//!
//! Nothing of it is promised: a datagram may be lost, and in groups of more than [`DATAGRAM_TOLD_MAX`] members nobody is
//! told anything by itself. Who wants to know asks, by ListOnline. A user is there while one of their devices listens,
//! and still for a moment afterwards: whoever only changes networks does not come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::Connection;

use crate::clock;
use crate::core::authorise::Verb;
use crate::core::rows::Switches;
use crate::core::tables::Tables;
use crate::ids::{GroupId, UserId};
use crate::limits::{DATAGRAM_TOLD_MAX, PRESENCE_GRACE_MS, PRESENCE_GROUPS_MAX, TYPING_PAUSE_MS};
use crate::server::Shared;
use crate::server::session::Session;
use crate::wire::code::Code;
use crate::wire::codec::{self, RawFrame};
use crate::wire::frame::{Extensions, Frame, PresenceNote, Typing, TypingNote};

/// What was told last.
#[derive(Default)]
pub(crate) struct Presence(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// Users who were told to be there.
    there: BTreeSet<UserId>,
    /// When each was last told to type, in ms; so that they cannot make the server send without end.
    typed_ms: BTreeMap<UserId, u64>,
}

impl Presence {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is so; says whether that is news.
    fn is_news(&self, user: UserId, is_there: bool) -> bool {
        let mut told = self.told();
        if is_there { told.there.insert(user) } else { told.there.remove(&user) }
    }

    /// Whether it is time again to tell that somebody types.
    fn may_type(&self, user: UserId, now_ms: u64) -> bool {
        let mut told = self.told();
        let due = told.typed_ms.get(&user).is_none_or(|last| now_ms >= last.saturating_add(TYPING_PAUSE_MS));
        if due {
            told.typed_ms.insert(user, now_ms);
        }
        due
    }

    /// Whether something is kept of a user.
    pub(crate) fn knows(&self, user: UserId) -> bool {
        let told = self.told();
        told.there.contains(&user) || told.typed_ms.contains_key(&user)
    }

    /// Forgets somebody who is not connected any more.
    fn forget(&self, user: UserId) {
        self.told().typed_ms.remove(&user);
    }
}

/// Whether others may know that a user is there.
pub(crate) fn shows(tables: &Tables, user: UserId) -> bool {
    tables.user(user).is_some_and(|row| row.is_active() && !row.switches.is_on(Switches::PRESENCE_OFF))
}

/// Tells whether somebody is there, where that is news.
pub(crate) fn settle(shared: &Shared, user: UserId) {
    let view = shared.view.read();
    let tables = &view.tables;
    let is_there = shared.registry.is_listening(user) && shows(tables, user);
    if !shared.presence.is_news(user, is_there) {
        return;
    }
    let current = |group: &GroupId| tables.is_member(*group, user);
    let groups = tables.groups_of(user, GroupId::ZERO).filter(current).take(PRESENCE_GROUPS_MAX);
    let groups: Vec<GroupId> = groups.filter(|group| is_told(tables, *group)).collect();
    drop(view);
    let note = PresenceNote { user, online: is_there, extensions: Extensions::default() };
    tell(&fellows(shared, user, &groups), &note);
}

/// The last of a connection: once the user has not come back for a while, they are gone.
pub(crate) async fn left(shared: &Shared, user: UserId) {
    if shared.presence.knows(user) {
        tokio::time::sleep(Duration::from_millis(PRESENCE_GRACE_MS)).await;
        gone(shared, user);
    }
}

/// The while is over.
pub(crate) fn gone(shared: &Shared, user: UserId) {
    settle(shared, user);
    if shared.registry.of_user(user).is_empty() {
        shared.presence.forget(user);
    }
}

/// Reads what comes by datagram until the connection ends.
pub(crate) async fn read(shared: Arc<Shared>, session: Arc<Session>, connection: Connection) -> Code {
    loop {
        let Ok(datagram) = connection.read_datagram().await else { return Code::Goodbye };
        if let Err(code) = take(&shared, &session, &datagram) {
            return code;
        }
    }
}

/// Takes one datagram, which nothing is ever answered to.
pub(crate) fn take(shared: &Shared, session: &Session, datagram: &Bytes) -> Result<(), Code> {
    let raw = RawFrame::of_datagram(datagram).map_err(|_| Code::Malformed)?;
    match raw.kind {
        Typing::TYPE => {
            typing(shared, session, raw.decode::<Typing>().map_err(|_| Code::Malformed)?.gid);
            Ok(())
        }
        _ if raw.must_understand() => Err(Code::Unsupported),
        _ => Ok(()),
    }
}

fn typing(shared: &Shared, session: &Session, gid: GroupId) {
    let user = session.user;
    let view = shared.view.read();
    let may = view.tables.may_in(gid, Verb::Typing, session.who()).is_ok() && shows(&view.tables, user);
    let is_told = is_told(&view.tables, gid);
    drop(view);
    if may && shared.presence.may_type(user, clock::monotonic_ms()) && is_told {
        let note = TypingNote { gid, user, extensions: Extensions::default() };
        tell(&fellows(shared, user, &[gid]), &note);
    }
}

/// Whether anything is told in a group by itself.
fn is_told(tables: &Tables, group: GroupId) -> bool {
    tables.member_count(group) <= DATAGRAM_TOLD_MAX
}

/// Those who listen and are with a user in one of these groups now. A commit waits no longer than for a look at each.
fn fellows(shared: &Shared, user: UserId, groups: &[GroupId]) -> Vec<Arc<Session>> {
    let following = shared.registry.following(groups, user, DATAGRAM_TOLD_MAX);
    let tables = &shared.view.read().tables;
    following.into_iter().filter(|(group, it)| tables.is_member(*group, it.user)).map(|(_, session)| session).collect()
}

fn tell<F: Frame>(sessions: &[Arc<Session>], note: &F) {
    let Ok(bytes) = codec::encode(0, note) else { return };
    for session in sessions {
        session.tell(bytes.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_is_told_of_a_user_so_often_and_not_more() {
        let (presence, ada, bob) = (Presence::default(), UserId::new(1), UserId::new(2));
        let told = (0..10 * TYPING_PAUSE_MS).filter(|now_ms| presence.may_type(ada, *now_ms)).count();
        assert_eq!(told, 10);
        assert!(presence.may_type(bob, 0));
        presence.forget(ada);
        assert!(presence.told().typed_ms.len() == 1);
        assert!(!presence.knows(ada) && presence.knows(bob));
    }

    #[test]
    fn only_a_change_is_news() {
        let (presence, ada) = (Presence::default(), UserId::new(1));
        let news = [false, true, true, false, false].map(|is_there| presence.is_news(ada, is_there));
        assert_eq!(news, [false, true, false, true, false]);
    }
}
