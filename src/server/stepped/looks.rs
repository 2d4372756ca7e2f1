//! What a simulator may look at between two steps of a stepped server. Looking changes nothing.

use bytes::Bytes;

use super::Node;
use super::connection::Connection;
use super::work::{Conn, Seen};
use crate::core::tables::Tables;
use crate::ids::{DeviceId, Epoch, GroupId, Lsn, MessageId, UserId};
use crate::limits;
use crate::server::doubt::Doubt;
use crate::server::reader::{self, PageAsked};
use crate::wire::row;

impl Node {
    /// Looks at the committed view as it is published.
    pub fn tables<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.shared.view.read().tables)
    }

    /// The last frame that is published as durable.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.view.read().durable
    }

    /// The last frame that the published index holds; none where it cannot say.
    #[must_use]
    pub fn applied(&self) -> Option<Lsn> {
        self.shared.view.read().engine.applied().ok()
    }

    /// Whether the store is open. It is not after a failure of the log, until it is opened anew.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.deciding.is_open()
    }

    /// Why the index is in doubt, where it is.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        self.watchdog.doubt.why()
    }

    /// Whether a connection is there, whoever it is.
    #[must_use]
    pub fn is_connected(&self, conn: Conn) -> bool {
        self.connections.get(&conn).is_some_and(|it| !it.is_closed())
    }

    /// Which device a connection has said it is.
    #[must_use]
    pub fn device(&self, conn: Conn) -> Option<DeviceId> {
        self.connections.get(&conn)?.session()?.device
    }

    /// The last msgid of a group that was handed to a listener; none where it is none, or has nothing to do with the
    /// group yet.
    #[must_use]
    pub fn handed(&self, conn: Conn, group: GroupId) -> Option<MessageId> {
        self.connections.get(&conn)?.session()?.listening()?.handed(group)
    }

    /// What waits to be pushed, and counts as handed already: (device, group, what it continues, what it covers).
    #[must_use]
    pub fn queued(&self) -> Vec<(DeviceId, GroupId, MessageId, MessageId)> {
        let mut queued = Vec::new();
        for session in self.connections.values().filter_map(Connection::session) {
            let (Some(device), Some(listening)) = (session.device, session.listening()) else { continue };
            queued.extend(listening.queued().map(|push| (device, push.group, push.continues, push.covered_to)));
        }
        queued
    }

    /// The history of the store.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// Reads everything of a group that a user may see above a msgid, as pages are read. It raises no doubt.
    ///
    /// # Errors
    /// Where the user may not know of the group, or the index cannot be read or has a hole: says which item is missing.
    pub fn read(&self, user: UserId, group: GroupId, after: MessageId) -> Result<Seen, String> {
        let doubt = Doubt::none_by_hand();
        let mut seen = Seen { covered_to: after, ..Seen::default() };
        loop {
            let asked = PageAsked {
                user,
                group,
                after: seen.covered_to,
                items: limits::PAGE_ITEMS_MAX,
                bytes: limits::PAGE_BYTES_MAX,
                gone_alone: false,
            };
            let page = reader::read(&self.shared.view, asked, &doubt);
            let page = page.map_err(|code| doubt.why().unwrap_or_else(|| code.to_string()))?;
            let msgids = page.rows.offered().iter().map(|offered| offered.msgid);
            let rows = row::rows(page.rows.all()).map(|row| row.map_or_else(|_| Bytes::new(), |row| row.item));
            seen.items.extend(msgids.zip(rows));
            if seen.gone.is_empty() {
                seen.gone = page.gone;
            }
            seen.head = page.head;
            seen.covered_to = page.covered_to;
            if !page.more {
                return Ok(seen);
            }
        }
    }
}
