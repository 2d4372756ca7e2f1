//! What all tasks of a server share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tracing::warn;

use crate::clock;
use crate::core::command::Command;
use crate::core::retention::Keeping;
use crate::core::rows::DeviceKey;
use crate::disk::SharedDisk;
use crate::ids::{Epoch, GroupId, UserId};
use crate::server::admission::Admission;
use crate::server::explaining::{RetentionAsked, StatusAsked};
use crate::server::presence::Presence;
use crate::server::reader::Readers;
use crate::server::receipts::Moved;
use crate::server::registry::Registry;
use crate::server::request::{Commands, Reply};
use crate::server::view::View;
use crate::server::{keeping, operator};
use crate::store::log::Figures;
use crate::wire::link::{InviteCode, Link, Pin};

/// What all tasks of a server share.
pub(crate) struct Shared {
    /// The committed view.
    pub(crate) view: Arc<View>,
    /// Who is connected.
    pub(crate) registry: Registry,
    /// Who was told to be there.
    pub(crate) presence: Presence,
    /// How many may be.
    pub(crate) admission: Admission,
    /// The way to the writer.
    pub(crate) commands: Commands,
    /// The threads that read pages.
    pub(crate) readers: Readers,
    /// Who has come further, for authors to be told.
    pub(crate) moved: Moved,
    /// The public half of the operator key.
    pub(crate) operator_key: DeviceKey,
    /// The current pin and the next, as Welcome carries them.
    pub(crate) pins: Vec<Bytes>,
    /// The current pin.
    pub(crate) pin: Pin,
    /// `host:port` as links say it.
    pub(crate) advertise: String,
    /// The store's epoch.
    pub(crate) epoch: Epoch,
    /// How large the log is.
    pub(crate) log: Arc<Mutex<Figures>>,
    /// What groups keep that say nothing of it.
    pub(crate) keeping: Keeping,
    /// What the clock of retention shows, ms since 1970; zero until it was looked at.
    pub(crate) retention_ms: AtomicU64,
    /// For the first invite's file.
    pub(crate) disk: SharedDisk,
    /// The folder of the keys.
    pub(crate) certs: PathBuf,
    /// When the server started.
    pub(crate) started: Instant,
    /// Counts sessions.
    pub(crate) sessions: AtomicU64,
}

impl Shared {
    /// A number for the next session.
    pub(crate) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a command of a stream on to the writer, after what it wants to know of stored items was read: the next one of
    /// the stream waits for both.
    pub(crate) async fn submit(&self, mut command: Command, reply: Reply) {
        self.readers.attach(&mut command).await;
        self.commands.submit(command, reply).await;
    }

    /// The link that carries this code.
    pub(crate) fn link(&self, code: InviteCode) -> Link {
        Link { address: self.advertise.clone(), pin: self.pin, code }
    }

    /// Asks how the server is.
    pub(crate) fn status(&self) -> StatusAsked {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
        StatusAsked {
            uptime_ms: clock::whole_ms(clock::monotonic().saturating_duration_since(self.started)),
            connections: u64::try_from(self.admission.connections()).unwrap_or(u64::MAX),
            log_bytes: log.disk_bytes(),
            log_live_bytes: log.live_bytes(),
        }
    }

    /// Asks for a user what a group keeps, and why.
    pub(crate) fn retention(&self, user: UserId, group: GroupId) -> RetentionAsked {
        RetentionAsked { user, group, keeping: self.keeping, clock_ms: keeping::clock_ms(self) }
    }

    /// The first invite opens nothing any more: its file goes too.
    pub(crate) fn first_invite_used(&self) {
        if let Err(error) = operator::remove_first_invite(self.disk.as_ref(), &self.certs) {
            warn!(%error, "the first invite is void, but its file stays");
        }
    }
}
