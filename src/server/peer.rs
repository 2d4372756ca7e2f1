//! The other end of a session's connection, as far as a session knows of it: it can be closed, told something
//! that may be lost, and it is so far away.

use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, VarInt};
use tracing::debug;

use crate::wire::code::Code;

/// The other end.
pub(crate) trait Peer: Send + Sync {
    /// Closes the connection with this code; where it is closed already, nothing.
    fn close(&self, code: Code);

    /// Sends it a datagram, which may be lost; where it takes none, or the connection is closed, nothing.
    fn tell(&self, datagram: Bytes);

    /// How long a packet takes there and back.
    fn rtt(&self) -> Duration;
}

impl Peer for Connection {
    fn close(&self, code: Code) {
        Connection::close(self, VarInt::from_u32(u32::from(code.number())), code.name().as_bytes());
    }

    fn tell(&self, datagram: Bytes) {
        if let Err(error) = self.send_datagram(datagram) {
            debug!(%error, "a datagram is lost");
        }
    }

    fn rtt(&self) -> Duration {
        Connection::rtt(self)
    }
}
