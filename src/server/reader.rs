//! The threads that read pages, so that neither the runtime nor the writer ever waits for the index.
//!
//! A page is read in one look at the committed view (who may see what, the durable head, rows not applied yet) and one
//! scan of the index; what the look says wins. A page is dense within what its reader may see: a hole is a fault of the
//! index and ends the page with an error, never as silence. While the index is opened anew a page that cannot wait is
//! *not done*; any other failure of the index is doubt, and the end of the server.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{Semaphore, oneshot};
use tracing::{debug, error};

use crate::core::attached::{Attached, Wanted};
use crate::core::authorise::Verb;
use crate::core::command::Command;
use crate::core::visible::Span;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits;
use crate::proof::{self, Wrong};
use crate::server::attaching;
use crate::server::doubt::Doubt;
use crate::server::gather::{Gather, Gathered};
use crate::server::rows::{Rows, RowsMaker};
use crate::server::snapshot::Snapshot;
use crate::server::translate;
use crate::server::view::View;
use crate::server::watchdog::{Pulse, Watchdog, Work};
use crate::store::engine::EngineError;
use crate::store::page::{PageRow, ReadError};
use crate::store::records::{MessageRecord, message_flag};
use crate::wire::code::Code;
use crate::wire::item::Item;
use crate::wire::row::Row;

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageAsked {
    /// For whom.
    pub(crate) user: UserId,
    /// Of which group.
    pub(crate) group: GroupId,
    /// Items above this msgid.
    pub(crate) after: MessageId,
    /// At most so many, and one at least where there is one.
    pub(crate) items: u32,
    /// At most so many bytes of rows, but for that one.
    pub(crate) bytes: usize,
    /// Whether it has no items where it would begin behind what retention removed: then that is told before what comes
    /// behind it.
    pub(crate) gone_alone: bool,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Of which group.
    pub(crate) group: GroupId,
    /// Its rows.
    pub(crate) rows: Rows,
    /// Everything visible up to here is in it.
    pub(crate) covered_to: MessageId,
    /// Whether a visible item remains above.
    pub(crate) more: bool,
    /// What retention removed of it.
    pub(crate) gone: Vec<(MessageId, MessageId)>,
    /// The highest msgid that its reader may know of.
    pub(crate) head: MessageId,
    /// The last item that changed an earlier one when it was looked at.
    pub(crate) last_change: MessageId,
}

/// What a thread is to read, and for whom.
enum Job {
    Page(PageAsked, oneshot::Sender<Result<Page, Code>>),
    Attach(Wanted, oneshot::Sender<Result<Attached, Code>>),
    Gather(Gather, oneshot::Sender<Result<Gathered, Code>>),
}

/// What a thread holds as long as it runs, so that its end can be waited for without waiting for it for ever.
pub(crate) type Alive = tokio::sync::mpsc::Sender<std::convert::Infallible>;

/// The way to the reader threads.
pub(crate) struct Readers {
    /// None once the server stops.
    sender: Mutex<Option<Sender<Job>>>,
    places: Semaphore,
}

impl Readers {
    /// Starts the threads; each lets go of its clone of `alive` when it ends.
    pub(crate) fn start(
        view: &Arc<View>,
        watchdog: &Arc<Watchdog>,
        alive: &Alive,
    ) -> std::io::Result<(Readers, Vec<JoinHandle<()>>)> {
        let (sender, receiver) = crossbeam_channel::bounded(limits::READS_QUEUED_MAX);
        let mut threads = Vec::with_capacity(limits::READER_THREADS);
        for number in 0..limits::READER_THREADS {
            let (view, jobs, watchdog, alive) =
                (Arc::clone(view), receiver.clone(), Arc::clone(watchdog), alive.clone());
            let thread = std::thread::Builder::new().name(format!("reader-{number}"));
            threads.push(thread.spawn(move || {
                let _alive = alive;
                if let Some(pulse) = watchdog.readers.get(number) {
                    run(&view, &jobs, pulse, &watchdog.doubt);
                }
            })?);
        }
        let sender = Mutex::new(Some(sender));
        Ok((Readers { sender, places: Semaphore::new(limits::READS_QUEUED_MAX) }, threads))
    }

    /// No threads: pages are read by [`look`] and [`scan`], by whoever schedules every step of a server.
    #[cfg(feature = "proof")]
    pub(crate) fn none() -> Readers {
        Readers { sender: Mutex::new(None), places: Semaphore::new(0) }
    }

    /// Reads a page.
    pub(crate) async fn page(&self, asked: PageAsked) -> Result<Page, Code> {
        self.ask(|reply| Job::Page(asked, reply)).await
    }

    /// Reads what a command wants to know of a stored item, and attaches it. Where it can't be read the command goes on
    /// without.
    pub(crate) async fn attach(&self, command: &mut Command) {
        let Some(wanted) = command.wanted() else { return };
        if let Ok(attached) = self.ask(|reply| Job::Attach(wanted, reply)).await {
            command.attach(attached);
        }
    }

    /// Puts an answer together.
    pub(crate) async fn gather(&self, gather: Gather) -> Result<Gathered, Code> {
        self.ask(|reply| Job::Gather(gather, reply)).await
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, Code>>) -> Job) -> Result<T, Code> {
        let Ok(_place) = self.places.acquire().await else { return Err(Code::ServerStopping) };
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (reply, answer) = oneshot::channel();
        // There are as many places as the channel holds, so it is never full; a thread that is gone drops the reply.
        sender.ok_or(Code::ServerStopping)?.try_send(job(reply)).map_err(|_| Code::Busy)?;
        answer.await.unwrap_or(Err(Code::Busy))
    }

    /// Reads no more; the threads end.
    pub(crate) fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn run(view: &View, jobs: &Receiver<Job>, pulse: &Pulse, doubt: &Doubt) {
    for job in jobs {
        match job {
            Job::Page(asked, reply) => answer(pulse, reply, || read(view, asked, doubt)),
            Job::Attach(wanted, reply) => {
                answer(pulse, reply, || attaching::scan(&attaching::look(view, wanted), doubt));
            }
            Job::Gather(gather, reply) => answer(pulse, reply, || gather.read(view, doubt)),
        }
    }
}

fn answer<T>(pulse: &Pulse, reply: oneshot::Sender<Result<T, Code>>, read: impl FnOnce() -> Result<T, Code>) {
    // A fault of ours in one page is no reason to serve no other.
    let read = pulse.during(Work::Reading, || std::panic::catch_unwind(AssertUnwindSafe(read)));
    // Whoever asked may be gone by now.
    drop(reply.send(read.unwrap_or(Err(Code::Busy))));
}

/// What one look at the committed view says about a page.
pub(crate) struct Look {
    asked: PageAsked,
    spans: Vec<Span>,
    /// All that the reader may see, read or not.
    visible: Vec<Span>,
    snapshot: Snapshot,
    gone: Vec<(MessageId, MessageId)>,
    head: MessageId,
    /// Everything visible up to here is in the page if it holds all of the spans.
    covers: MessageId,
    /// The last item of the group that changed an earlier one.
    last_change: MessageId,
}

/// Looks at the committed view for a page.
pub(crate) fn look(view: &View, asked: PageAsked) -> Result<Look, Code> {
    let PageAsked { user, group, after, items, gone_alone, .. } = asked;
    let published = view.read();
    let tables = &published.tables;
    tables.may_in(group, Verb::Pull, Some(user)).map_err(translate::code)?;
    let gone: Vec<_> = tables.gone(user, group, after).map(|span| (span.first, span.last)).collect();
    let mut left = if gone_alone && !gone.is_empty() { 0 } else { u64::from(items.max(1)) };
    let mut spans = Vec::new();
    let mut planned = after;
    for span in tables.visible(user, group, after) {
        if left == 0 {
            break;
        }
        let last = MessageId::new(span.first.value().saturating_add(left - 1)).min(span.last);
        spans.push(Span { first: span.first, last });
        planned = last;
        left -= last.value() - span.first.value() + 1;
    }
    Ok(Look {
        asked,
        snapshot: Snapshot::of(&published),
        gone,
        head: tables.visible_head(user, group),
        covers: tables.covered_to(user, group, planned),
        visible: tables.visible(user, group, MessageId::ZERO).collect(),
        last_change: tables.last_change(group),
        spans,
    })
}

/// Reads one page.
pub(crate) fn read(view: &View, asked: PageAsked, doubt: &Doubt) -> Result<Page, Code> {
    scan(look(view, asked)?, view, doubt)
}

/// Reads the page that was looked at. What was published since changes nothing of it, but for what retention has removed
/// since: then the view is looked at anew.
pub(crate) fn scan(look: Look, view: &View, doubt: &Doubt) -> Result<Page, Code> {
    let asked = look.asked;
    match read_spans(look, doubt)? {
        Ok(page) => Ok(page),
        Err(Hole(missing)) if view.read().tables.first_kept(asked.group) > missing => read(view, asked, doubt),
        Err(hole) => Err(fault(asked, &hole, doubt)),
    }
}

fn read_spans(look: Look, doubt: &Doubt) -> Result<Result<Page, Hole>, Code> {
    let asked = look.asked;
    let mut rows = RowsMaker::default();
    let mut cut = None;
    for span in &look.spans {
        let room = asked.bytes.saturating_sub(rows.bytes());
        if room == 0 {
            cut = Some(span.first.previous());
            break;
        }
        let rows_max = usize::try_from(asked.items).unwrap_or(usize::MAX);
        let page = look.snapshot.page(asked.group, *span, rows_max, room);
        let page = page.map_err(|failure| index_fault(asked, &failure, doubt))?;
        let mut expected = span.first;
        for PageRow { msgid, record } in page.rows {
            if msgid != expected {
                return Ok(Err(Hole(expected)));
            }
            let row = look.row(msgid, record).map_err(|failure| index_fault(asked, &failure, doubt))?;
            rows.add_row(msgid, &row).map_err(|failure| fault(asked, &failure, doubt))?;
            expected = msgid.next();
        }
        if page.more {
            cut = Some(expected.previous());
            break;
        }
        if expected <= span.last {
            return Ok(Err(Hole(expected)));
        }
    }
    let covered_to = cut.unwrap_or(look.covers);
    let (more, last_change) = (covered_to < look.head, look.last_change);
    Ok(Ok(Page {
        group: asked.group,
        rows: rows.finish(),
        covered_to,
        more,
        gone: look.gone,
        head: look.head,
        last_change,
    }))
}

impl Look {
    fn may_see(&self, msgid: MessageId) -> bool {
        self.visible.iter().any(|span| span.contains(msgid))
    }

    /// A row as the reader may see it: an edit of what is not for them is hidden, and of the edits of an item the newest
    /// that is for them is named.
    fn row(&self, msgid: MessageId, record: MessageRecord) -> Result<Row, ReadError> {
        let is = |flag: u8| record.flags & flag != 0;
        if is(message_flag::EDIT) {
            let target = Item::decode(&record.item).ok().and_then(|item| item.target());
            let shown = target.is_some_and(|target| self.may_see(target)) || proof::is(Wrong::EditShownUnseen);
            let hidden = || Item::hidden(self.asked.group, msgid).encode().unwrap_or_default();
            return Ok(Row::plain(if shown { record.item } else { hidden() }));
        }
        let newest_seen = |edit| self.snapshot.newest_seen(self.asked.group, edit, |edit| self.may_see(edit));
        let edited_by = if is(message_flag::RECALLED) { MessageId::ZERO } else { newest_seen(record.last_edit)? };
        Ok(Row { edited_by, ..Row::plain(record.item) })
    }
}

/// An item that should be there and is not.
#[derive(Debug, thiserror::Error)]
#[error("{0} is missing")]
struct Hole(MessageId);

/// The page was not read. Whoever asked can ask again: by then the index is open anew, or the server.
fn index_fault(asked: PageAsked, failure: &ReadError, doubt: &Doubt) -> Code {
    match failure {
        ReadError::Engine(EngineError::Busy) => {
            debug!(group = %asked.group, after = %asked.after, "a page has to wait until the index is open anew");
            Code::Busy
        }
        ReadError::Engine(engine) => {
            doubt.raise(engine);
            Code::Busy
        }
        ReadError::Record { .. } | ReadError::Key(_) => fault(asked, failure, doubt),
    }
}

fn fault(asked: PageAsked, failure: &dyn std::error::Error, doubt: &Doubt) -> Code {
    let PageAsked { group, after, .. } = asked;
    error!(%group, %after, error = %failure, "a page cannot be read");
    doubt.suspect(&format!("a page of {group} behind {after} cannot be read: {failure}"));
    Code::Busy
}
