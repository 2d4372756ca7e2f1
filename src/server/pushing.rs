//! The step machine of a listener's push stream: what waits for it, as frames, and what the listener has to be told.

use std::time::Duration;

use bytes::Bytes;
use tracing::debug;

use crate::limits;
use crate::server::Shared;
use crate::server::listening::{Fetch, Outgoing, Pushed};
use crate::server::reader::{Page, PageAsked};
use crate::server::rows;
use crate::server::session::Session;
use crate::wire::WireError;
use crate::wire::code::Code;
use crate::wire::codec;
use crate::wire::frame::{Extensions, Heads, Push, PushBatch};

/// The least time between two looks at what time has made due.
const TICK_MIN: Duration = Duration::from_millis(10);

/// The machine.
#[derive(Debug, Default)]
pub(crate) struct Pushing {
    /// The subscription that the push stream was opened under; none: it is not open.
    under: Option<u64>,
}

/// What is to be done now.
#[derive(Debug)]
pub(crate) struct Due {
    /// Frames to write, in one go.
    pub(crate) frames: Vec<Bytes>,
    /// Reads to do.
    pub(crate) fetches: Vec<Fetch>,
    /// When [`tick`] has something to do, from now on.
    pub(crate) tick: Option<Duration>,
}

impl Pushing {
    /// Takes what waits; an error is a fault of ours, and ends the connection.
    pub(crate) fn take(&self, shared: &Shared, session: &Session) -> Result<Due, Code> {
        let rtt = session.rtt();
        let Some(mut listening) = session.listening() else { return Err(Code::Goodbye) };
        let mut outgoing = listening.take();
        let tick = listening.next_tick(rtt).map(|due| due.max(TICK_MIN));
        drop(listening);
        wipe_recalled(shared, &mut outgoing.pushes);
        let frames = frames(&outgoing).map_err(|error| {
            debug!(%error, "a push does not fit a frame");
            Code::OutcomeUnknown
        })?;
        Ok(Due { frames, fetches: outgoing.fetches, tick })
    }

    /// What was taken is going to be written to the stream, which is opened for that where it is not open.
    pub(crate) fn opens(&mut self, session: &Session) {
        self.under.get_or_insert_with(|| session.listening().map_or(0, |listening| listening.subscriptions()));
    }

    /// The peer has stopped the stream: it does not listen until it subscribes again.
    pub(crate) fn stopped(&mut self, shared: &Shared, session: &Session) {
        let opened_under = self.under.take().unwrap_or(0);
        let view = shared.view.read();
        if let Some(mut listening) = session.listening() {
            listening.stopped(&view.tables, opened_under);
        }
    }
}

/// Rows as they may be written now: since they were offered or read, items may have been recalled. What comes after the
/// last change of its group was made after it.
fn wipe_recalled(shared: &Shared, pushes: &mut [Pushed]) {
    if pushes.is_empty() {
        return;
    }
    let tables = &shared.view.read().tables;
    for Pushed { push, rows } in pushes {
        if tables.last_change(push.group) > push.last {
            *rows = rows::without_recalled(rows, tables, push.group);
        }
    }
}

/// Time has passed.
pub(crate) fn tick(session: &Session) {
    let rtt = session.rtt();
    if let Some(mut listening) = session.listening() {
        listening.tick(rtt);
    }
}

/// What a read that the machine wants asks for.
pub(crate) fn asked(session: &Session, fetch: Fetch) -> PageAsked {
    PageAsked {
        user: session.user,
        group: fetch.group,
        after: fetch.after,
        items: fetch.most.items.max(1),
        bytes: usize::try_from(fetch.most.bytes).unwrap_or(usize::MAX),
        gone_alone: true,
    }
}

/// Rows were read as the machine wants them, or could not be.
pub(crate) fn fetched(shared: &Shared, session: &Session, fetch: Fetch, page: &Result<Page, Code>) {
    let rtt = session.rtt();
    let view = shared.view.read();
    if let Some(mut listening) = session.listening() {
        let read = page.as_ref().ok().map(|page| (&page.rows, page.covered_to));
        listening.fetched(&view.tables, fetch, read, rtt);
    }
    drop(view);
    session.push_wake.notify_one();
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
    for notice in &outgoing.receipts {
        frames.push(codec::encode(0, notice)?);
    }
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
