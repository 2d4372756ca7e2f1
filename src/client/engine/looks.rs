//! What a simulator may see of an engine.

use super::{Engine, Link};
use crate::client::net::Net;

impl<N: Net> Engine<N> {
    /// Whether an attempt to connect is under way.
    pub(in crate::client) const fn is_connecting(&self) -> bool {
        matches!(self.link, Link::Connecting(_))
    }

    /// Whether there is a connection.
    pub(in crate::client) const fn is_up(&self) -> bool {
        matches!(self.link, Link::Up { .. })
    }

    /// Whether the loop would turn at once: the application took something while more waits, or acknowledged something.
    pub(in crate::client) fn is_stirred(&self) -> bool {
        let Some(receiving) = &self.receiving else { return false };
        let queue = receiving.queue();
        let room = receiving.has_backlog() && !queue.is_closed() && queue.capacity() > 0;
        room || receiving.acks().has_changed().unwrap_or(false)
    }
}
