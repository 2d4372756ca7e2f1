//! What a stepped server can be told to do, and what comes out of it.

use bytes::Bytes;

use crate::ids::MessageId;
use crate::wire::code::Code;

/// A connection to a server, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub(super) u64);

impl Conn {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A page that is being read, counted from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Read(pub(super) u64);

/// A command of the operator, counted from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ask(pub(super) u64);

/// One step of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// The writer takes a command out of its queue, and decides it.
    Take,
    /// The writer closes its batch: it decides the acks that wait, and appends the frame.
    Append,
    /// The writer syncs the frame, publishes it, and hands it over to the index.
    Settle,
    /// The writer tells the dispatcher of the batch.
    Tell,
    /// The store is opened anew, after a failure.
    Reopen,
    /// The writer seals the log, at the end.
    Seal,
    /// The writer ends: the index catches up and is made durable, and the folder is let go.
    Finish,
    /// The dispatcher takes a batch: answers, fan-out, notices.
    Dispatch,
    /// The dispatcher tells authors who has come further, which is due.
    Receipts,
    /// A frame is applied to the index.
    Apply,
    /// What is due on the index is done: a flush with its record, or a recycling.
    Checkpoint,
    /// The next segment of the log is made.
    Prepare,
    /// A step of condensing the log is taken.
    Condense,
    /// The free space is looked at.
    Room,
    /// What groups keep is looked at, or asked for.
    Keep,
    /// Commands of the operator that found the writer's queue full go into it.
    Asked,
    /// The same for those of a connection.
    Submit(Conn),
    /// A frame of a control stream is taken.
    Control(Conn),
    /// A frame of an acks stream is taken.
    Acks(Conn),
    /// The request of a request stream is taken.
    Request(Conn, u64),
    /// For a page, the committed view is looked at.
    Look(Read),
    /// The page that was looked at is read.
    Scan(Read),
    /// Everything that waits for a control stream is written.
    WriteControl(Conn),
    /// What waits for a push stream is taken and written, and the reads that its listener wants are begun.
    WritePush(Conn),
    /// The next frame of a request stream is written.
    WritePage(Conn, u64),
    /// A listener hears that time has passed.
    Tick(Conn),
    /// A connection that has ended is taken out.
    Leave(Conn),
}

/// What a server writes to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// On its control stream.
    Control(Bytes),
    /// On its push stream, one frame or several; opens it where it is not open.
    Push(Bytes),
    /// On a request stream.
    Page(u64, Bytes),
    /// That request stream is finished.
    PageDone(u64),
    /// That request stream is reset.
    PageReset(u64, Code),
    /// The connection is closed. What its streams held and nobody had read yet is gone with it.
    Closed(Code),
}

/// How a server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The index is in doubt, for this reason.
    Doubt(String),
    /// It was stopped, and the log is sealed.
    Stopped,
    /// It was stopped, and the log could not be sealed, for this reason.
    NotSealed(String),
    /// It was stopped while the store was not open.
    NotOpen,
}

/// Everything of a group that a user may see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The items, encoded, in order.
    pub items: Vec<(MessageId, Bytes)>,
    /// Everything visible up to here is among them.
    pub covered_to: MessageId,
    /// What retention has removed.
    pub gone: Vec<(MessageId, MessageId)>,
    /// The highest msgid that the user may know of.
    pub head: MessageId,
}
