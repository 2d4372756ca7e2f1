//! The network as the engine sees it: attempts to connect, and accepted connections that carry frames.
//!
//! QUIC is one ([`crate::client::quic`]); where a proof schedules every frame, its own code is another. What frames
//! mean, when to connect and what to send is decided above this.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use ring::signature::Ed25519KeyPair;

use crate::client::connect::Server;
use crate::client::error::{ConnectError, Refusal};
use crate::client::hello::{FirstFlight, Who};
use crate::client::live::Live;
use crate::client::options::ClientOptions;
use crate::client::stream::refusal;
use crate::client::types::Session;
use crate::core::inbox::{PageEnd, Pull};
use crate::ids::{ClientSeq, GroupId};
use crate::wire::WireError;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Frame};

/// What happens on a connection, for the engine.
#[derive(Debug)]
pub(super) enum NetEvent {
    /// An answer to a send.
    SendAnswered(ClientSeq, RawFrame),
    /// A frame that answers nothing, on control or push.
    Frame(RawFrame),
    /// Rows of the open page of a group.
    Rows(GroupId, Bytes),
    /// The open page of a group is complete.
    PageEnded(GroupId, PageEnd),
    /// The open page of a group failed.
    PageFailed(GroupId, Option<Refusal>),
    /// A part of the list of groups.
    Listed(frame::GroupList),
    /// The list of groups could not be had.
    ListFailed,
    /// A frame that came by datagram.
    Datagram(RawFrame),
    /// The connection is over.
    Closed(ConnectError),
}

/// Whom to connect to, as whom, and what leaves with the first frames.
pub(super) struct Dial {
    pub(super) server: Server,
    pub(super) key: Arc<Ed25519KeyPair>,
    pub(super) who: Who,
    pub(super) first: FirstFlight,
    pub(super) options: ClientOptions,
}

/// A network.
pub(super) trait Net: Send + 'static {
    /// An attempt under way. It ends when this is dropped: a Hello of it that came later would displace a newer listener.
    type Attempt: Send;
    /// What a server that accepted left, besides its Welcome. The connection ends when this is dropped.
    type Accepted: Send;
    /// A connection at work. It ends when this is dropped.
    type Line: Line;

    /// Begins to connect. What an older connection still had to say is not heard any more.
    fn dial(&mut self, dial: Dial) -> Self::Attempt;

    /// Goes to work on an accepted connection.
    fn start(&mut self, accepted: Self::Accepted, address: String, session: Session) -> Self::Line;
}

/// A connection at work.
pub(super) trait Line: Send + Sync + 'static {
    /// Writes a send; its answer comes as an event.
    fn send(&self, seq: ClientSeq, send: &frame::Send) -> impl Future<Output = Result<(), WireError>> + Send;

    /// Writes to the acks stream.
    fn write_acks(&self, acks: &frame::Ack) -> impl Future<Output = Result<(), WireError>> + Send;

    /// Asks for a page to deliver, on a stream of its own.
    fn open_page(&self, pull: Pull);

    /// Asks for groups above this one, on a stream of its own.
    fn open_list(&self, after: GroupId);

    /// Ends the connection because the server broke the protocol.
    fn fail(&self, error: &WireError);

    /// Says goodbye.
    fn close(&self) -> impl Future<Output = ()> + Send;

    /// The connection as handles ask on it by themselves, where they can.
    fn live(&self) -> Option<Arc<Live>>;
}

/// What a frame of a page says. After all but rows the page is over.
pub(super) fn page_event(group: GroupId, frame: &RawFrame) -> Result<NetEvent, WireError> {
    if frame.kind == frame::PageRows::TYPE {
        return Ok(NetEvent::Rows(group, frame.decode::<frame::PageRows>()?.rows));
    }
    if let Some(refusal) = refusal(frame)? {
        return Ok(NetEvent::PageFailed(group, Some(refusal)));
    }
    let frame::PageEnd { covered_to, more, gone, head, extensions: _ } = frame.decode()?;
    Ok(NetEvent::PageEnded(group, PageEnd { covered_to, more, gone, head }))
}

/// What the answer to a question for groups says.
pub(super) fn list_event(frame: &RawFrame) -> Result<NetEvent, WireError> {
    if refusal(frame)?.is_some() {
        return Ok(NetEvent::ListFailed);
    }
    Ok(NetEvent::Listed(frame.decode()?))
}
