//! Answers that are put together by a reader thread, in one frame: from rows of the index, or by looking at much of the view.

use bytes::Bytes;
use tracing::debug;

use crate::core::tables::Tables;
use crate::server::doubt::Doubt;
use crate::server::explaining::{RetentionAsked, StatusAsked};
use crate::server::view::View;
use crate::server::{conversations, receipts};
use crate::wire::code::Code;
use crate::wire::codec;
use crate::wire::frame::{ConversationList, Frame, ReceiptList, RetentionInfo, StatusInfo};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gather {
    /// Conversations that have changed.
    Conversations(conversations::Asked),
    /// Who has received and read an item.
    Receipts(receipts::Asked),
    /// What a group keeps, and why.
    Retention(RetentionAsked),
    /// How the server is.
    Status(StatusAsked),
}

/// What was put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// Conversations that have changed.
    Conversations(ConversationList),
    /// Who has received and read an item.
    Receipts(ReceiptList),
    /// What a group keeps, and why.
    Retention(RetentionInfo),
    /// How the server is.
    Status(StatusInfo),
}

impl Gather {
    /// Puts it together.
    pub(crate) fn read(self, view: &View, doubt: &Doubt) -> Result<Gathered, Code> {
        match self {
            Gather::Conversations(asked) => asked.read(view, doubt).map(Gathered::Conversations),
            Gather::Receipts(asked) => asked.read(view, doubt).map(Gathered::Receipts),
            Gather::Retention(asked) => asked.read(view).map(Gathered::Retention),
            Gather::Status(asked) => Ok(Gathered::Status(asked.read(view))),
        }
    }
}

impl Gathered {
    /// The frame that answers a request, as it may be written now.
    pub(crate) fn frame(self, request: u32, tables: &Tables) -> Result<Bytes, Code> {
        match self {
            Gathered::Conversations(list) => encode(request, &conversations::still_said(list, tables)),
            Gathered::Receipts(list) => encode(request, &list),
            Gathered::Retention(info) => encode(request, &info),
            Gathered::Status(info) => encode(request, &info),
        }
    }
}

/// A frame that answers.
pub(crate) fn encode<F: Frame>(request: u32, frame: &F) -> Result<Bytes, Code> {
    codec::encode(request, frame).map_err(|error| {
        debug!(%error, "an answer does not fit a frame");
        Code::TooLarge
    })
}
