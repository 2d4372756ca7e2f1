//! The other end of a session's connection, as far as a session knows of it: it can be closed, and it is so far away.

use std::time::Duration;

use quinn::{Connection, VarInt};

use crate::wire::code::Code;

/// The other end.
pub(crate) trait Peer: Send + Sync {
    /// Closes the connection with this code; where it is closed already, nothing.
    fn close(&self, code: Code);

    /// How long a packet takes there and back.
    fn rtt(&self) -> Duration;
}

impl Peer for Connection {
    fn close(&self, code: Code) {
        Connection::close(self, VarInt::from_u32(u32::from(code.number())), code.name().as_bytes());
    }

    fn rtt(&self) -> Duration {
        Connection::rtt(self)
    }
}
