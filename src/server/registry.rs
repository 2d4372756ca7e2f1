//! Who is connected: sessions by device and user, and which listeners follow which group.
//!
//! Only tasks of the one runtime thread use it. It decides who replaces whom (`PROTOCOL.md`, section 5) and nothing
//! else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::tables::Tables;
use crate::ids::{DeviceId, GroupId, UserId};
use crate::server::session::Session;
use crate::wire::code::Code;

/// What a listener said of itself in Hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Random number of its process.
    pub(crate) instance: u64,
    /// Counts the connections of that process.
    pub(crate) attempt: u64,
}

/// A listener that had to go, and the code to close it with.
pub(crate) struct Displaced {
    /// The session.
    pub(crate) session: Arc<Session>,
    /// Terminal only where another process took over.
    pub(crate) code: Code,
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Sessions>);

#[derive(Default)]
struct Sessions {
    all: BTreeMap<u64, Arc<Session>>,
    listeners: HashMap<DeviceId, (Instance, u64)>,
    followers: HashMap<GroupId, BTreeMap<u64, Arc<Session>>>,
    /// What each listener follows, so that its leaving costs no walk over all groups.
    followed: HashMap<u64, BTreeSet<GroupId>>,
    users: HashMap<UserId, BTreeSet<u64>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session; a listener displaces the one there was, unless that is a later attempt of the same instance.
    pub(crate) fn enter(
        &self,
        session: &Arc<Session>,
        listener: Option<Instance>,
        tables: &Tables,
    ) -> Result<Option<Displaced>, Code> {
        let mut sessions = self.lock();
        let mut displaced = None;
        if let (Some(instance), Some(device)) = (listener, session.device) {
            if let Some((before, id)) = sessions.listeners.get(&device).copied() {
                let same = before.instance == instance.instance;
                if same && before.attempt >= instance.attempt {
                    return Err(Code::StaleAttempt);
                }
                let code = if same { Code::StaleAttempt } else { Code::Replaced };
                displaced = sessions.all.get(&id).map(|old| Displaced { session: Arc::clone(old), code });
                sessions.forget(id);
            }
            sessions.listeners.insert(device, (instance, session.id));
            let is_member = |group: &GroupId| tables.is_member(*group, session.user);
            for group in tables.groups_of(session.user, GroupId::ZERO).filter(is_member) {
                sessions.follow(session, group);
            }
        }
        sessions.users.entry(session.user).or_default().insert(session.id);
        sessions.all.insert(session.id, Arc::clone(session));
        Ok(displaced)
    }

    /// Takes a session out.
    pub(crate) fn leave(&self, session: &Session) {
        self.lock().forget(session.id);
    }

    /// Lets the listeners of a user follow a group, or no longer.
    pub(crate) fn follow(&self, user: UserId, group: GroupId, member: bool) {
        for session in self.of_user(user).into_iter().filter(|session| session.listens) {
            let mut sessions = self.lock();
            if member { sessions.follow(&session, group) } else { sessions.unfollow(session.id, group) }
        }
    }

    /// The listeners that follow a group.
    pub(crate) fn followers(&self, group: GroupId) -> Vec<Arc<Session>> {
        self.lock()
            .followers
            .get(&group)
            .map(|followers| followers.values().map(Arc::clone).collect())
            .unwrap_or_default()
    }

    /// The listeners that follow any of these groups, so many at the most and but for those of one user: each once, with the
    /// first of the groups.
    pub(crate) fn following(&self, groups: &[GroupId], but: UserId, most: usize) -> Vec<(GroupId, Arc<Session>)> {
        let sessions = self.lock();
        let mut found: BTreeMap<u64, (GroupId, Arc<Session>)> = BTreeMap::new();
        for group in groups {
            for (id, session) in sessions.followers.get(group).into_iter().flatten() {
                if found.len() >= most {
                    return found.into_values().collect();
                }
                if session.user != but {
                    found.entry(*id).or_insert_with(|| (*group, Arc::clone(session)));
                }
            }
        }
        found.into_values().collect()
    }

    /// Every session of a device of this user.
    pub(crate) fn of_device(&self, user: UserId, device: DeviceId) -> Vec<Arc<Session>> {
        self.of_user(user).into_iter().filter(|session| session.device == Some(device)).collect()
    }

    /// Every session of a user; with zero those of the operator key.
    pub(crate) fn of_user(&self, user: UserId) -> Vec<Arc<Session>> {
        let sessions = self.lock();
        let ids = sessions.users.get(&user).into_iter().flatten();
        ids.filter_map(|id| sessions.all.get(id)).map(Arc::clone).collect()
    }

    /// Whether a device of this user listens.
    pub(crate) fn is_listening(&self, user: UserId) -> bool {
        let sessions = self.lock();
        let mut ids = sessions.users.get(&user).into_iter().flatten();
        ids.any(|id| sessions.all.get(id).is_some_and(|session| session.listens))
    }

    /// Every session.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().all.values().map(Arc::clone).collect()
    }
}

impl Sessions {
    fn forget(&mut self, id: u64) {
        let Some(session) = self.all.remove(&id) else { return };
        if let Some(device) = session.device
            && self.listeners.get(&device).is_some_and(|(_, listener)| *listener == id)
        {
            self.listeners.remove(&device);
        }
        if let Some(ids) = self.users.get_mut(&session.user) {
            ids.remove(&id);
            if ids.is_empty() {
                self.users.remove(&session.user);
            }
        }
        for group in self.followed.remove(&id).unwrap_or_default() {
            self.drop_follower(id, group);
        }
    }

    fn follow(&mut self, session: &Arc<Session>, group: GroupId) {
        self.followers.entry(group).or_default().insert(session.id, Arc::clone(session));
        self.followed.entry(session.id).or_default().insert(group);
    }

    fn unfollow(&mut self, id: u64, group: GroupId) {
        if let Some(groups) = self.followed.get_mut(&id) {
            groups.remove(&group);
        }
        self.drop_follower(id, group);
    }

    fn drop_follower(&mut self, id: u64, group: GroupId) {
        if let Some(followers) = self.followers.get_mut(&group) {
            followers.remove(&id);
            if followers.is_empty() {
                self.followers.remove(&group);
            }
        }
    }
}
