//! What a listener is told, in the order in which it happened.

use std::time::Duration;

use crate::client::error::ConnectError;
use crate::client::talk::ReadMark;
use crate::client::types::{Item, Outcome, Position, Session};
use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, UserId};

/// Something that a listening application may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An item of a subscribed group, in the order of its group.
    Item(Received),
    /// Retention removed these items before this device got them.
    Gone {
        /// Its place in the inbox; acknowledge it like an item.
        position: Position,
        /// Whether it may have been handed out before.
        seen_before: bool,
        /// The group.
        group: GroupId,
        /// The first msgid that is gone.
        first: MessageId,
        /// The last msgid that is gone.
        last: MessageId,
    },
    /// There is something up to here in a group that is not subscribed. Only the newest note of a group is kept.
    Head {
        /// The group.
        group: GroupId,
        /// Its highest msgid that one may know of.
        head: MessageId,
    },
    /// One's read mark in a group was moved by another device of one's own, forwards or, under a new version, anywhere.
    ReadMark(ReadMark),
    /// Others have come further in a group in which one has said something. A hint: what it leaves out can be asked for.
    Receipts {
        /// The group.
        group: GroupId,
        /// Who: (user, the last msgid received, the last msgid read).
        users: Vec<(UserId, MessageId, MessageId)>,
        /// Whether there are others.
        more: bool,
    },
    /// One's own membership began or ended.
    Membership {
        /// The group.
        group: GroupId,
        /// Whether one is a member now.
        member: bool,
        /// The item that says so.
        msgid: MessageId,
    },
    /// A device of one's own was added or revoked.
    Device {
        /// Which.
        device: DeviceId,
        /// Its name.
        name: String,
        /// Whether it was added; else it was revoked.
        added: bool,
    },
    /// Somebody in a group of one's own is writing. It may be lost, and says nothing about whether anything is sent.
    Typing {
        /// The group.
        group: GroupId,
        /// Who.
        user: UserId,
    },
    /// Somebody of a group of one's own has come or gone. It may be lost: [`crate::client::Client::online`] tells what is
    /// so.
    Presence {
        /// Who.
        user: UserId,
        /// Whether they are there now.
        online: bool,
    },
    /// A message of the outbox, from whichever process, has its answer.
    Settled {
        /// Its number.
        seq: ClientSeq,
        /// How it ended.
        outcome: Outcome,
    },
    /// A message of the outbox goes on under another number, because the old one was used up by a copy of this profile
    /// or passed over. It is sent once nevertheless.
    Renumbered {
        /// The number it had.
        from: ClientSeq,
        /// The number it has.
        to: ClientSeq,
    },
    /// The connection stands.
    Connected(Session),
    /// There is no connection; the next attempt follows by itself.
    Disconnected {
        /// Why.
        cause: ConnectError,
        /// When.
        retry_in: Duration,
    },
    /// The inbox file was lost or damaged and begins anew: what was handed out, but not acknowledged, comes again without
    /// the mark that it was seen before.
    InboxLost,
    /// It is over and does not come back by itself. The last event.
    Ended(ConnectError),
}

/// An item that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Its place in the inbox: acknowledge this once the item is safe with you.
    pub position: Position,
    /// Whether it may have been handed out before, by a process that ended before it acknowledged.
    pub seen_before: bool,
    /// The item.
    pub item: Item,
}

/// Which groups a listener wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subscription {
    /// All of one's own, now and later.
    All,
    /// These; of the others only the heads are told.
    Groups(Vec<GroupId>),
}
