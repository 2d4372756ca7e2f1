//! Who is let in: counts of connections of the server, of a user, of a device, and of those not yet identified.
//!
//! Pure counting behind one short lock: no I/O, no clock, no addresses. A [`Permit`] is one connection from its first
//! packet to its end; dropping it gives everything back, so a count is never above what is really there. The most that
//! may exist at once is a [`Bounds`], checked before anything is counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::{DeviceId, UserId};
use crate::limits;

/// The most connections of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of the server.
    pub server: usize,
    /// Of one user, over all devices.
    pub user: usize,
    /// That call, of one device.
    pub callers: usize,
    /// Of the holder of the operator key.
    pub operator: usize,
    /// Not identified yet; above this, new addresses must first prove that they receive what is sent to them.
    pub unproven: usize,
    /// Not identified yet, at all.
    pub unidentified: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            server: limits::CONNECTIONS_MAX,
            user: limits::CONNECTIONS_PER_USER_MAX,
            callers: limits::CALLERS_PER_DEVICE_MAX,
            operator: limits::CALLERS_PER_DEVICE_MAX,
            unproven: limits::HANDSHAKES_BEFORE_RETRY,
            unidentified: limits::HANDSHAKES_MAX,
        }
    }
}

/// What to do with a connection attempt.
#[derive(Debug)]
pub enum Arrival {
    /// Let it in; it counts as long as the permit lives.
    Admit(Permit),
    /// Ask its address for a retry token first: nothing is counted.
    Retry,
    /// Turn it away: nothing is counted.
    Refuse(TooMany),
}

/// Who a connection turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A device that listens. How many of a device do is decided where listeners replace one another.
    Listener(UserId, DeviceId),
    /// A device that calls.
    Caller(UserId, DeviceId),
    /// The holder of the operator key.
    Operator,
}

/// Which bound is reached. Nobody is displaced by it: whoever comes last is refused, and may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// Of the server.
    #[error("the server has as many connections as it takes")]
    Server,
    /// Of the server, before they have said who they are.
    #[error("too many connections are being made at once")]
    Unidentified,
    /// Of one user.
    #[error("this user has as many connections as one user may have")]
    User(UserId),
    /// Of one device.
    #[error("this device has as many calling connections as one device may have")]
    Callers(DeviceId),
    /// Of the operator key.
    #[error("the operator key has as many connections as it may have")]
    Operator,
}

#[derive(Debug, Default)]
struct Counts {
    server: usize,
    unidentified: usize,
    operator: usize,
    users: HashMap<UserId, usize>,
    callers: HashMap<DeviceId, usize>,
}

/// The counts. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Admission {
    bounds: Bounds,
    counts: Arc<Mutex<Counts>>,
}

impl Admission {
    /// Nobody is here yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Admission {
        Admission { bounds, counts: Arc::default() }
    }

    /// Decides about a connection attempt. `address_proven`: its address came back with a token of ours.
    #[must_use]
    pub fn arrive(&self, address_proven: bool) -> Arrival {
        let mut counts = self.counts();
        if counts.server >= self.bounds.server {
            return Arrival::Refuse(TooMany::Server);
        }
        if counts.unidentified >= self.bounds.unidentified {
            return Arrival::Refuse(TooMany::Unidentified);
        }
        if counts.unidentified >= self.bounds.unproven && !address_proven {
            return Arrival::Retry;
        }
        counts.server += 1;
        counts.unidentified += 1;
        Arrival::Admit(Permit { admission: self.clone(), who: None })
    }

    /// Connections now, whoever they are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.counts().server
    }

    /// Connections now that have not said who they are.
    #[must_use]
    pub fn unidentified(&self) -> usize {
        self.counts().unidentified
    }

    // A thread that panicked while it counted leaves whole numbers behind: each is changed by one step.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection that was let in.
#[derive(Debug)]
#[must_use = "the connection counts only as long as this lives"]
pub struct Permit {
    admission: Admission,
    who: Option<Who>,
}

impl Permit {
    /// Counts the connection for whoever it turned out to be. Once identified, it stays who it is.
    ///
    /// # Errors
    /// Where that user, device or key has as many as it may; the connection then still counts as unidentified.
    pub fn identify(&mut self, who: Who) -> Result<(), TooMany> {
        if self.who.is_some() {
            return Ok(());
        }
        let bounds = self.admission.bounds;
        let mut counts = self.admission.counts();
        match who {
            Who::Listener(user, _) => {
                count_up(&mut counts.users, user, bounds.user).map_err(TooMany::User)?;
            }
            Who::Caller(user, device) => {
                count_up(&mut counts.callers, device, bounds.callers).map_err(TooMany::Callers)?;
                if let Err(user) = count_up(&mut counts.users, user, bounds.user) {
                    count_down(&mut counts.callers, device);
                    return Err(TooMany::User(user));
                }
            }
            Who::Operator if counts.operator >= bounds.operator => return Err(TooMany::Operator),
            Who::Operator => counts.operator += 1,
        }
        counts.unidentified = counts.unidentified.saturating_sub(1);
        drop(counts);
        self.who = Some(who);
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.server = counts.server.saturating_sub(1);
        match self.who {
            None => counts.unidentified = counts.unidentified.saturating_sub(1),
            Some(Who::Listener(user, _)) => count_down(&mut counts.users, user),
            Some(Who::Caller(user, device)) => {
                count_down(&mut counts.users, user);
                count_down(&mut counts.callers, device);
            }
            Some(Who::Operator) => counts.operator = counts.operator.saturating_sub(1),
        }
    }
}

fn count_up<K: Eq + Hash + Copy>(counts: &mut HashMap<K, usize>, key: K, bound: usize) -> Result<(), K> {
    let count = counts.entry(key).or_insert(0);
    if *count >= bound {
        return Err(key);
    }
    *count += 1;
    Ok(())
}

fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut entry) = counts.entry(key) {
        let left = entry.get().saturating_sub(1);
        if left == 0 {
            entry.remove();
        } else {
            *entry.get_mut() = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Bounds = Bounds { server: 12, user: 4, callers: 2, operator: 1, unproven: 3, unidentified: 5 };

    fn admit(admission: &Admission) -> Permit {
        match admission.arrive(true) {
            Arrival::Admit(permit) => permit,
            other @ (Arrival::Retry | Arrival::Refuse(_)) => panic!("{other:?}"),
        }
    }

    fn admit_as(admission: &Admission, who: Who) -> Result<Permit, TooMany> {
        let mut permit = admit(admission);
        permit.identify(who).map(|()| permit)
    }

    fn caller(user: u32, device: u32) -> Who {
        Who::Caller(UserId::new(user), DeviceId::new(device))
    }

    fn listener(user: u32, device: u32) -> Who {
        Who::Listener(UserId::new(user), DeviceId::new(device))
    }

    #[test]
    fn above_the_threshold_only_proven_addresses_come_in() {
        let admission = Admission::new(SMALL);
        let held: Vec<_> = (0..3).map(|_| admit(&admission)).collect();
        assert!(matches!(admission.arrive(false), Arrival::Retry));
        let more: Vec<_> = (0..2).map(|_| admit(&admission)).collect();
        assert!(matches!(admission.arrive(true), Arrival::Refuse(TooMany::Unidentified)));
        drop(held);
        assert!(matches!(admission.arrive(false), Arrival::Admit(_)));
        drop(more);
        assert_eq!((admission.connections(), admission.unidentified()), (0, 0));
    }

    #[test]
    fn the_server_has_a_bound_of_its_own() {
        let admission = Admission::new(SMALL);
        let held: Vec<_> = (0..12).map(|user| admit_as(&admission, listener(user, user)).unwrap()).collect();
        assert!(matches!(admission.arrive(true), Arrival::Refuse(TooMany::Server)));
        assert_eq!(held.len(), admission.connections());
    }

    #[test]
    fn a_device_may_call_a_few_times_and_listening_does_not_count_as_calling() {
        let admission = Admission::new(SMALL);
        let _listens = admit_as(&admission, listener(1, 9)).unwrap();
        let first = admit_as(&admission, caller(1, 9)).unwrap();
        let _second = admit_as(&admission, caller(1, 9)).unwrap();
        assert_eq!(admit_as(&admission, caller(1, 9)).unwrap_err(), TooMany::Callers(DeviceId::new(9)));
        drop(first);
        assert!(admit_as(&admission, caller(1, 9)).is_ok());
    }

    #[test]
    fn a_user_refused_leaves_no_count_at_the_device() {
        let admission = Admission::new(SMALL);
        let held: Vec<_> = (0..4).map(|device| admit_as(&admission, listener(1, device)).unwrap()).collect();
        for _ in 0..5 {
            assert_eq!(admit_as(&admission, caller(1, 8)).unwrap_err(), TooMany::User(UserId::new(1)));
        }
        drop(held);
        assert!(admit_as(&admission, caller(1, 8)).is_ok());
    }

    #[test]
    fn the_operator_key_is_counted_apart() {
        let admission = Admission::new(SMALL);
        let held = admit_as(&admission, Who::Operator).unwrap();
        assert_eq!(admit_as(&admission, Who::Operator).unwrap_err(), TooMany::Operator);
        drop(held);
        assert!(admit_as(&admission, Who::Operator).is_ok());
    }

    #[test]
    fn who_is_identified_twice_is_counted_once() {
        let admission = Admission::new(SMALL);
        let mut permit = admit_as(&admission, caller(1, 1)).unwrap();
        permit.identify(caller(2, 2)).unwrap();
        drop(permit);
        assert_eq!((admission.connections(), admission.unidentified()), (0, 0));
        assert!(admission.counts().users.is_empty());
        assert!(admission.counts().callers.is_empty());
    }

    proptest! {
        #[test]
        fn counts_are_exactly_what_lives(steps in prop::collection::vec((0u8..5, 0u32..3, 0u32..4), 1..200)) {
            let admission = Admission::new(SMALL);
            let mut alive: Vec<Permit> = Vec::new();
            for (step, user, device) in steps {
                match step {
                    0 => drop((!alive.is_empty()).then(|| alive.remove(0))),
                    1 => drop(alive.pop()),
                    _ => {
                        let Arrival::Admit(mut permit) = admission.arrive(true) else { continue };
                        let who = if step == 2 { caller(user, device) } else { listener(user, device) };
                        if permit.identify(who).is_ok() || step == 4 {
                            alive.push(permit);
                        }
                    }
                }
                prop_assert_eq!(admission.connections(), alive.len());
                let unknown = alive.iter().filter(|permit| permit.who.is_none()).count();
                prop_assert_eq!(admission.unidentified(), unknown);
                prop_assert!(admission.counts().users.values().all(|count| *count > 0 && *count <= SMALL.user));
                prop_assert!(admission.counts().callers.values().all(|count| *count > 0 && *count <= SMALL.callers));
            }
            alive.clear();
            prop_assert!(admission.counts().users.is_empty() && admission.counts().callers.is_empty());
        }
    }
}
