//! What a client asks of its network, and what its network can tell it.

use std::fmt;

use bytes::Bytes;

/// Something that a client wants done. Whoever schedules the network does it, whenever it likes or never.
///
/// Bytes are whole encoded frames. `attempt` names the connection; its `Debug` shows no bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum Asked {
    /// Connect, and write these first frames. Another connection of this process was over before.
    Dial(Dial),
    /// Write to the control stream.
    Control {
        /// On which connection.
        attempt: u64,
        /// What.
        bytes: Bytes,
    },
    /// Write to the acks stream.
    Acks {
        /// On which connection.
        attempt: u64,
        /// What.
        bytes: Bytes,
    },
    /// Open a request stream, write this question and finish it. What comes back is told by
    /// [`super::Process::stream`].
    Request {
        /// On which connection.
        attempt: u64,
        /// The stream: a number of this process, never used again.
        stream: u64,
        /// What.
        bytes: Bytes,
    },
    /// Close the connection. The client hears nothing of it any more.
    Close {
        /// Which connection.
        attempt: u64,
        /// The code that the server is told; zero: the client dropped it without a word.
        code: u16,
    },
}

/// The first frames of a connection, which leave together. They are on different streams, so that they may arrive in any
/// order, and apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Dial {
    /// Which connection: counts up in a process, and is the attempt that Hello says.
    pub attempt: u64,
    /// On control: Hello and Prove.
    pub control: Bytes,
    /// On acks: Subscribe; a listener's only.
    pub acks: Option<Bytes>,
    /// On request streams of their own (stream, question): first pages, then the list of groups; a listener's only.
    pub requests: Vec<(u64, Bytes)>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Dial(dial) => write!(out, "{dial:?}"),
            Asked::Control { attempt, bytes } => write!(out, "control {attempt}: {} bytes", bytes.len()),
            Asked::Acks { attempt, bytes } => write!(out, "acks {attempt}: {} bytes", bytes.len()),
            Asked::Request { attempt, stream, bytes } => {
                write!(out, "request {attempt}.{stream}: {} bytes", bytes.len())
            }
            Asked::Close { attempt, code } => write!(out, "close {attempt} with {code}"),
        }
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dial { attempt, control, acks, requests } = self;
        let acks = acks.as_ref().map_or(0, Bytes::len);
        write!(out, "dial {attempt}: control {}, acks {acks} bytes, {} requests", control.len(), requests.len())
    }
}

/// How a connection ended, as the client notices it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closing {
    /// The server closed it with this code and these words.
    ByServer {
        /// The number of a [`crate::wire::code::Code`].
        code: u16,
        /// Words for a person.
        detail: String,
    },
    /// Nothing came for too long.
    Silence,
    /// The server does not know the connection any more.
    Reset,
}
