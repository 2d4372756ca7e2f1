//! The handle of a client: what can be asked, sent and awaited. The work is done by the engine task behind it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::client::error::{ConnectError, EnrolError, ListenError, OutboxError, ProfileError, RequestError};
use crate::client::event::{Event, Subscription};
use crate::client::options::ClientOptions;
use crate::client::profile::Profile;
use crate::client::types::{
    Account, Device, Group, History, Invite, Member, OutboxEntry, Outcome, Page, Position, Session, Status, User,
};
use crate::disk::SharedDisk;
use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, UserId};

/// A device at work. Cheap to clone; it ends when the last clone is dropped, or by [`Client::close`].
///
/// Must be made inside a tokio runtime with time and I/O enabled.
#[derive(Debug, Clone)]
pub struct Client {}

/// The listening side of a client: items, in order, and notices. One process of a profile can have it at a time.
#[derive(Debug)]
pub struct Listener {}

impl Client {
    /// Makes a device of this profile from an invite link. The key is on disk before anything is sent; after a lost
    /// answer the same link finishes it, and on a finished profile it answers what it answered before.
    ///
    /// # Errors
    /// See [`EnrolError`]. A profile that holds a device refuses any other link.
    pub async fn enrol(
        profile: &Profile,
        link: &str,
        handle: Option<&str>,
        device_name: &str,
        options: &ClientOptions,
    ) -> Result<Account, EnrolError> {
        Err(ConnectError::Closed.into())
    }

    /// A client that asks and sends. It connects when there is something to ask or to send.
    ///
    /// # Errors
    /// Where the profile cannot be used.
    pub async fn open(profile: &Profile, options: ClientOptions) -> Result<Client, ProfileError> {
        Err(ProfileError::Disk(String::new()))
    }

    /// A client that also listens. `from` is the last position that the application has with its own data: what lies
    /// above it is handed out, exactly once; without it everything that was not acknowledged is, marked where it may
    /// have been seen before.
    ///
    /// # Errors
    /// Where another process of this profile listens, or the profile cannot be used.
    pub async fn listen(
        profile: &Profile,
        options: ClientOptions,
        what: Subscription,
        from: Option<Position>,
    ) -> Result<(Client, Listener), ListenError> {
        Err(ProfileError::Disk(String::new()).into())
    }

    /// A client with the operator key in this folder, for the server at `host:port`. It can invite, revoke and look,
    /// not read groups nor send.
    ///
    /// # Errors
    /// Where the folder holds no operator key.
    pub async fn operator(
        disk: SharedDisk,
        certs: &Path,
        address: &str,
        options: ClientOptions,
    ) -> Result<Client, ProfileError> {
        Err(ProfileError::Disk(String::new()))
    }

    /// Waits for the connection.
    ///
    /// # Errors
    /// The first failure that has a name: no wait is longer than the time-out for connecting.
    pub async fn connected(&self) -> Result<Session, ConnectError> {
        Err(ConnectError::Closed)
    }

    /// Puts a text into the outbox and returns once it is synced there; it is then sent whatever happens, by this
    /// process or another of the profile.
    ///
    /// # Errors
    /// Where it was not put there.
    pub async fn queue(&self, group: GroupId, text: &str) -> Result<ClientSeq, OutboxError> {
        Err(OutboxError::Closed)
    }

    /// Waits for the answer to what was queued, also where another process sends it.
    ///
    /// # Errors
    /// Where the outbox holds no such number, or cannot be read.
    pub async fn outcome(&self, seq: ClientSeq) -> Result<Outcome, OutboxError> {
        Err(OutboxError::Closed)
    }

    /// As [`Client::outcome`], but no longer than this: none where the answer is still open then.
    ///
    /// # Errors
    /// As [`Client::outcome`].
    pub async fn outcome_within(&self, seq: ClientSeq, wait: Duration) -> Result<Option<Outcome>, OutboxError> {
        Err(OutboxError::Closed)
    }

    /// What the outbox holds: everything unanswered, and what ended with an unknown outcome.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub async fn outbox(&self) -> Result<Vec<OutboxEntry>, OutboxError> {
        Err(OutboxError::Closed)
    }

    /// Sends what the outbox holds, for as long as this; returns how many entries are unanswered then.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub async fn flush(&self, wait: Duration) -> Result<usize, OutboxError> {
        Err(OutboxError::Closed)
    }

    /// Why there is no connection just now; none where there is one, or none was tried.
    #[must_use]
    pub fn trouble(&self) -> Option<ConnectError> {
        None
    }

    /// Items above `after`, without acknowledging anything; zero items: as many as the server likes.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn pull(&self, group: GroupId, after: MessageId, items: u32) -> Result<Page, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Passes over everything up to this msgid: it will not be delivered to this device. Returns the cursor.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn skip(&self, group: GroupId, to: MessageId) -> Result<MessageId, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// All groups of one's own, past ones included.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn groups(&self) -> Result<Vec<Group>, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// The current members of a group.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn members(&self, group: GroupId) -> Result<Vec<Member>, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// All users of the server.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn users(&self) -> Result<Vec<User>, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// The handles of these users, asked once and remembered; who does not exist is missing.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn names(&self, users: &[UserId]) -> Result<BTreeMap<UserId, String>, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Devices: one's own, or as an operator somebody else's.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn devices(&self, handle: Option<&str>) -> Result<Vec<Device>, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// An invite for another device: one's own, or as an operator somebody else's.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn add_device(&self, handle: Option<&str>, good_for: Duration) -> Result<Invite, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Renames a device.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn rename_device(&self, device: DeviceId, name: &str) -> Result<(), RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Revokes a device: its connections close within 2 s, and it never connects again.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn revoke_device(&self, device: DeviceId) -> Result<(), RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Makes a group of which one is the owner.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn create_group(&self, name: &str, history: History) -> Result<GroupId, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Adds a user to a group. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn add_member(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Removes a member. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn remove_member(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Leaves a group. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn leave_group(&self, group: GroupId) -> Result<MessageId, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Renames a group. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn rename_group(&self, group: GroupId, name: &str) -> Result<MessageId, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// An invite for a new user, who joins the group at once if one is named.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn invite(
        &self,
        handle: &str,
        group: Option<GroupId>,
        good_for: Duration,
    ) -> Result<Invite, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// How the server is.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn status(&self) -> Result<Status, RequestError> {
        Err(ConnectError::Closed.into())
    }

    /// Ends: what was acknowledged is told to the server (waiting 2 s at most for its answer), then the connection
    /// closes with a goodbye.
    pub async fn close(self) {}
}

impl Listener {
    /// The next event; none after [`Event::Ended`], or once the client is closed.
    pub async fn next(&mut self) -> Option<Event> {
        None
    }

    /// Everything up to this position is safe with the application. Never waits; an older position is a no-op.
    pub fn ack(&self, position: Position) {}
}
