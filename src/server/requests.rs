//! Request streams: pages and lists. Each stream carries one request and its answer; a fault ends that stream alone.

use std::sync::Arc;

use bytes::Bytes;
use quinn::{RecvStream, SendStream, VarInt};
use tokio::task::JoinSet;
use tracing::debug;

use crate::core::listener as machine;
use crate::limits;
use crate::server::reader::{Page, PageAsked};
use crate::server::session::Session;
use crate::server::streams::{self, FrameStream};
use crate::server::{Shared, lists, translate};
use crate::wire::code::Code;
use crate::wire::codec::{self, RawFrame};
use crate::wire::frame::{
    Extensions, Frame, ListDevices, ListGroups, ListMembers, ListUsers, Names, PageEnd, PageRows, Pull,
};

/// Bytes of rows in one frame of a page.
const PART_BYTES: usize = 64 * 1024;

/// Accepts request streams until the connection ends. How many there are at once is bounded by the transport.
pub(crate) async fn accept(shared: Arc<Shared>, session: Arc<Session>) -> Code {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            accepted = session.connection.accept_bi() => match accepted {
                Ok((send, receive)) => {
                    running.spawn(serve(Arc::clone(&shared), Arc::clone(&session), send, receive));
                }
                Err(_) => return Code::Goodbye,
            },
            Some(_) = running.join_next() => {}
        }
    }
}

async fn serve(shared: Arc<Shared>, session: Arc<Session>, mut send: SendStream, receive: RecvStream) {
    streams::set_urgency(&send, streams::urgency::REQUEST);
    let mut frames = FrameStream::new(receive);
    let asked = match frames.next().await {
        Ok(Some(raw)) => raw,
        Ok(None) => return,
        Err(error) => {
            debug!(%error, "request stream ended");
            let code = error.code().unwrap_or(Code::Goodbye);
            drop(send.reset(VarInt::from_u32(u32::from(code.number()))));
            return;
        }
    };
    let done = match answer(&shared, &session, &mut send, &asked).await {
        Ok(()) => Ok(()),
        Err(Failed::Refused(code)) => {
            let mut frame = [translate::error(asked.request, code, translate::retry_after_ms(code), code.name())];
            send.write_all_chunks(&mut frame).await
        }
        Err(Failed::Gone(error)) => Err(error),
    };
    match done {
        // A peer that reset the stream in the meantime does not wait for its end.
        Ok(()) => drop(send.finish()),
        Err(error) => debug!(%error, "request stream cannot be written"),
    }
}

/// Why a request has no answer.
enum Failed {
    /// It was refused.
    Refused(Code),
    /// The stream cannot be written.
    Gone(quinn::WriteError),
}

impl From<Code> for Failed {
    fn from(code: Code) -> Failed {
        Failed::Refused(code)
    }
}

async fn answer(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    send: &mut SendStream,
    raw: &RawFrame,
) -> Result<(), Failed> {
    let request = raw.request;
    let frame = match raw.kind {
        Pull::TYPE => return pull(shared, session, send, request, decode(raw)?).await,
        ListGroups::TYPE => encode(request, &lists::groups(shared, session, &decode::<ListGroups>(raw)?)?)?,
        ListMembers::TYPE => encode(request, &lists::members(shared, session, &decode::<ListMembers>(raw)?)?)?,
        ListUsers::TYPE => encode(request, &lists::users(shared, &decode::<ListUsers>(raw)?))?,
        Names::TYPE => encode(request, &lists::names(shared, &decode::<Names>(raw)?)?)?,
        ListDevices::TYPE => encode(request, &lists::devices(shared, session, &decode::<ListDevices>(raw)?)?)?,
        _ => return Err(Code::Unsupported.into()),
    };
    send.write_all_chunks(&mut [frame]).await.map_err(Failed::Gone)
}

async fn pull(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    send: &mut SendStream,
    request: u32,
    pull: Pull,
) -> Result<(), Failed> {
    if session.device.is_none() {
        return Err(Code::NotAllowed.into());
    }
    let mut handing = open(shared, session, &pull)?;
    let asked = PageAsked {
        user: session.user,
        group: pull.gid,
        after: handing.as_ref().map_or(pull.after, machine::Page::after),
        items: if pull.items == 0 { limits::PAGE_ITEMS_DEFAULT } else { pull.items.min(limits::PAGE_ITEMS_MAX) },
        bytes: limits::PAGE_BYTES_MAX,
    };
    let written = match shared.readers.page(asked).await {
        Ok(page) => write_page(session, send, request, &page, &mut handing).await.map(|()| page),
        Err(code) => Err(code.into()),
    };
    if let Some(handing) = handing {
        let view = shared.view.read();
        if let Some(mut listening) = session.listening() {
            match &written {
                Ok(page) => listening.page_ended(&view.tables, handing, page.covered_to, page.head),
                Err(_) => listening.page_cut(&view.tables, handing),
            }
        }
        drop(view);
        session.push_wake.notify_one();
    }
    written.map(drop)
}

/// Tells the listener of a page; a caller has none, and only browses.
fn open(shared: &Shared, session: &Session, pull: &Pull) -> Result<Option<machine::Page>, Code> {
    let view = shared.view.read();
    let how = if pull.deliver { machine::Pull::Deliver } else { machine::Pull::Browse };
    match session.listening() {
        Some(mut listening) => {
            listening.open_page(&view.tables, pull.gid, pull.after, how).map(Some).ok_or(Code::NoSuchGroup)
        }
        None if pull.deliver => Err(Code::NotListening),
        None => Ok(None),
    }
}

async fn write_page(
    session: &Session,
    send: &mut SendStream,
    request: u32,
    page: &Page,
    handing: &mut Option<machine::Page>,
) -> Result<(), Failed> {
    for (rows, last) in page.rows.pieces(PART_BYTES) {
        let frame = encode(request, &PageRows { rows, extensions: Extensions::default() })?;
        send.write_all_chunks(&mut [frame]).await.map_err(Failed::Gone)?;
        if let (Some(handing), Some(mut listening)) = (handing.as_mut(), session.listening()) {
            listening.page_written(handing, last);
        }
    }
    let end = PageEnd {
        covered_to: page.covered_to,
        more: page.more,
        gone: page.gone.clone(),
        head: page.head,
        extensions: Extensions::default(),
    };
    send.write_all_chunks(&mut [encode(request, &end)?]).await.map_err(Failed::Gone)
}

fn decode<F: Frame>(raw: &RawFrame) -> Result<F, Failed> {
    raw.decode().map_err(|_| Code::Malformed.into())
}

fn encode<F: Frame>(request: u32, frame: &F) -> Result<Bytes, Failed> {
    codec::encode(request, frame).map_err(|error| {
        debug!(%error, "an answer does not fit a frame");
        Code::TooLarge.into()
    })
}
