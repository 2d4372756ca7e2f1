//! The push stream of a listener: what its machine decided to push, heads, and notices.
//!
//! Everything that waits is written in one go. A peer that does not read is bounded by its credit; it holds up nobody
//! else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::SendStream;
use tokio::task::JoinSet;
use tracing::debug;

use crate::limits;
use crate::server::Shared;
use crate::server::listening::{Fetch, Outgoing, Pushed};
use crate::server::reader::PageAsked;
use crate::server::session::Session;
use crate::server::streams::{self, urgency};
use crate::wire::WireError;
use crate::wire::code::Code;
use crate::wire::codec;
use crate::wire::frame::{Extensions, Heads, Push, PushBatch};

/// A sleep that something else ends first.
const LONG: Duration = Duration::from_secs(3600);

/// Writes what waits for the push stream, as long as the connection lives.
pub(crate) async fn run(shared: Arc<Shared>, session: Arc<Session>) -> Code {
    let mut stream: Option<Opened> = None;
    let mut fetches = JoinSet::new();
    loop {
        let woken = session.push_wake.notified();
        let Some((outgoing, tick)) = take(&session) else { return Code::Goodbye };
        for fetch in &outgoing.fetches {
            fetches.spawn(run_fetch(Arc::clone(&shared), Arc::clone(&session), *fetch));
        }
        let frames = match frames(&outgoing) {
            Ok(frames) => frames,
            Err(error) => {
                debug!(%error, "a push does not fit a frame");
                return Code::OutcomeUnknown;
            }
        };
        if !frames.is_empty() {
            match write(&session, &mut stream, frames).await {
                Written::Yes => {}
                Written::Stopped => {
                    let opened_under = stream.take().map_or(0, |opened| opened.under);
                    let view = shared.view.read();
                    if let Some(mut listening) = session.listening() {
                        listening.stopped(&view.tables, opened_under);
                    }
                }
                Written::Gone => return Code::Goodbye,
            }
            continue;
        }
        tokio::select! {
            () = woken => {}
            Some(_) = fetches.join_next() => {}
            () = tokio::time::sleep(tick.unwrap_or(LONG)) => {
                let rtt = session.connection.rtt();
                if let Some(mut listening) = session.listening() {
                    listening.tick(rtt);
                }
            }
        }
    }
}

fn take(session: &Session) -> Option<(Outgoing, Option<Duration>)> {
    let rtt = session.connection.rtt();
    let mut listening = session.listening()?;
    let outgoing = listening.take();
    let tick = listening.next_tick(rtt).map(|due| due.max(Duration::from_millis(10)));
    Some((outgoing, tick))
}

enum Written {
    Yes,
    /// The peer stopped the stream: it does not listen until it subscribes again.
    Stopped,
    Gone,
}

/// A push stream, and the subscription that it was opened under.
struct Opened {
    stream: SendStream,
    under: u64,
}

async fn write(session: &Session, stream: &mut Option<Opened>, mut frames: Vec<Bytes>) -> Written {
    let open = match stream {
        Some(open) => open,
        None => {
            let under = session.listening().map_or(0, |listening| listening.subscriptions());
            match session.connection.open_uni().await {
                Ok(opened) => {
                    streams::set_urgency(&opened, urgency::PUSH);
                    stream.insert(Opened { stream: opened, under })
                }
                Err(_) => return Written::Gone,
            }
        }
    };
    match open.stream.write_all_chunks(&mut frames).await {
        Ok(()) => Written::Yes,
        Err(quinn::WriteError::Stopped(_)) => Written::Stopped,
        Err(_) => Written::Gone,
    }
}

/// Everything that waits, as frames: rows first, in as few frames as they fit in.
fn frames(outgoing: &Outgoing) -> Result<Vec<Bytes>, WireError> {
    let mut frames = Vec::new();
    let mut batches: Vec<PushBatch> = Vec::new();
    let mut bytes = 0;
    for Pushed { push, rows } in &outgoing.pushes {
        let is_full = bytes + rows.len() > limits::FRAME_ROWS_BYTES_MAX || batches.len() >= limits::PUSH_BATCHES_MAX;
        if is_full && !batches.is_empty() {
            frames.extend(push_frame(outgoing, std::mem::take(&mut batches))?);
            bytes = 0;
        }
        bytes += rows.len();
        batches.push(PushBatch {
            gid: push.group,
            continues: push.continues,
            covered_to: push.covered_to,
            rows: rows.clone(),
            extensions: Extensions::default(),
        });
    }
    if !batches.is_empty() {
        frames.extend(push_frame(outgoing, batches)?);
    }
    for entries in outgoing.heads.chunks(limits::ACK_ENTRIES_MAX) {
        frames.push(codec::encode(0, &Heads { entries: entries.to_vec(), extensions: Extensions::default() })?);
    }
    frames.extend(outgoing.notices.iter().cloned());
    Ok(frames)
}

fn push_frame(outgoing: &Outgoing, batches: Vec<PushBatch>) -> Result<Vec<Bytes>, WireError> {
    codec::encode_push(&Push {
        credit_items: outgoing.credit.items,
        credit_bytes: outgoing.credit.bytes,
        batches,
        extensions: Extensions::default(),
    })
}

/// Reads rows that the machine wants to push by itself, and gives them to it.
async fn run_fetch(shared: Arc<Shared>, session: Arc<Session>, fetch: Fetch) {
    let asked = PageAsked {
        user: session.user,
        group: fetch.group,
        after: fetch.after,
        items: fetch.most.items.max(1),
        bytes: usize::try_from(fetch.most.bytes).unwrap_or(usize::MAX),
    };
    let page = shared.readers.page(asked).await;
    let rtt = session.connection.rtt();
    let view = shared.view.read();
    if let Some(mut listening) = session.listening() {
        let read = page.as_ref().ok().map(|page| (&page.rows, page.covered_to));
        listening.fetched(&view.tables, fetch, read, rtt);
    }
    drop(view);
    session.push_wake.notify_one();
}
