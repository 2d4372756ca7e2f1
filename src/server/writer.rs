//! The one thread that decides: commands in, one frame and one sync a batch, answers out.
//!
//! [`Writer`] is the step machine; `writing` loops over it. The order is fixed: decide, append, sync, publish, answer.
//! Nothing is published or answered before its frame is durable. After a failed append or sync the batch's answers are
//! *outcome unknown*, what was decided is dropped, reads go on from the committed view, and the store is opened anew
//! before anything else is decided.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::clock;
use crate::core::command::{Answer, Command, Event, Storage};
use crate::core::rows::Write;
use crate::core::state::State;
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId};
use crate::limits;
use crate::proof::{self, Wrong};
use crate::server::applying::{Applying, End};
use crate::server::attaching;
use crate::server::beside::{Begun, OnLog};
use crate::server::opening::{Found, OpenError, Place};
use crate::server::request::{Outcome, Recipient, Reply, Request};
use crate::server::room::Room;
use crate::server::rows::Rows;
use crate::server::session::Session;
use crate::server::translate::{self, KeptError};
use crate::server::view::View;
use crate::server::watchdog::{Watchdog, Work};
use crate::store::applier::Applier;
use crate::store::log::{Figures, Frame, LogWriter};
use crate::store::{StoreError, StoreErrorClass};
use crate::wire::code::Code;

/// How long a body that was wiped waits for others, so that one reading of the log takes out all of them.
const WIPE_WAIT: Duration = Duration::from_millis(limits::WIPE_WAIT_MS);

/// A durable batch, for the dispatcher.
pub(crate) struct Batch {
    /// Who is told what.
    pub(crate) answers: Vec<(Reply, Outcome)>,
    /// What others must be told, in order of decision.
    pub(crate) events: Vec<Event>,
    /// The new items of each group, dense and in order; shared by everyone they are pushed to.
    pub(crate) items: BTreeMap<GroupId, Rows>,
}

/// What the writer tells the dispatcher.
pub(crate) enum Told {
    /// A batch is durable.
    Batch(Batch),
    /// The store was opened anew: what sessions were told before may be less than what turned out to be kept.
    Reopened,
    /// The log is sealed; nothing follows.
    /// None: the store was not open, so that there was nothing to seal.
    Stopped(Option<Result<(), StoreError>>),
}

/// Why a batch was not kept.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    /// The log could not be written or synced.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row could not be translated.
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// Why the store could not be opened anew.
#[derive(Debug, thiserror::Error)]
enum ReopenError {
    /// It does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The applier's thread does not start.
    #[error("failed to start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Acks of one device that ride in the next frame.
struct WaitingAcks {
    session: Arc<Session>,
    entries: BTreeMap<GroupId, MessageId>,
}

/// What is open: the log, and what goes on beside it. Gone while the store has to be opened anew.
pub(crate) struct Open {
    log: LogWriter,
    beside: Box<dyn Begun>,
}

impl Open {
    /// Begins what goes with a log.
    pub(crate) fn start(
        log: LogWriter,
        applier: Applier,
        view: &View,
        watchdog: &Arc<Watchdog>,
        room: &Arc<Room>,
        place: &Place,
    ) -> std::io::Result<Open> {
        let record = applier.record().clone();
        // What an index that is never kept begins at after a kill is the beginning.
        let is_kept = !record.is_none_kept();
        let limit = move || if is_kept { record.lsn() } else { Lsn::MAX };
        let condenser = log.condenser(Box::new(limit), place.names_in_doubt.clone());
        let on_log = OnLog { preparer: log.preparer(), condenser };
        let applying = Applying::new(applier, view.read().overlay.clone(), room, watchdog);
        let beside = place.beside.begin(on_log, applying, place.index.waiting_bytes_max)?;
        Ok(Open { log, beside })
    }

    /// Ends all of it, the log last, as it holds the folder's lock.
    fn finish(self, end: End) {
        self.beside.finish(end);
        drop(self.log);
    }
}

/// The step machine of the writer.
pub(crate) struct Writer {
    state: State,
    open: Option<Open>,
    place: Place,
    view: Arc<View>,
    room: Arc<Room>,
    watchdog: Arc<Watchdog>,
    figures: Arc<Mutex<Figures>>,
    acks: BTreeMap<DeviceId, WaitingAcks>,
    /// When acks were put off, for want of any room.
    acks_put_off_since: Option<Instant>,
    acks_waiting: usize,
    answers: Vec<(Reply, Answer)>,
    /// The sends of the batch: whose, their number, and the lowest one that was waited for.
    sends: Vec<(DeviceId, ClientSeq, ClientSeq)>,
    events: Vec<Event>,
    writes: Vec<Write>,
    bytes: usize,
    /// When all that is dead has to go from the log; none while nothing is known that must.
    wipe_due: Option<Instant>,
    /// What came of appending the batch's frame, until it is settled.
    appended: Option<Result<Appended, WriteError>>,
}

/// A frame in the log that is not known to be durable.
struct Appended {
    frame: Arc<Frame>,
    items: BTreeMap<GroupId, Rows>,
}

impl Writer {
    /// A writer over an open store.
    pub(crate) fn new(
        state: State,
        open: Open,
        place: Place,
        view: Arc<View>,
        room: Arc<Room>,
        watchdog: Arc<Watchdog>,
    ) -> Writer {
        let figures = Arc::new(Mutex::new(open.log.figures()));
        Writer {
            state,
            open: Some(open),
            place,
            view,
            room,
            watchdog,
            figures,
            acks: BTreeMap::new(),
            acks_put_off_since: None,
            acks_waiting: 0,
            answers: Vec::new(),
            sends: Vec::new(),
            events: Vec::new(),
            writes: Vec::new(),
            bytes: 0,
            // What was wiped before this start is not known: it goes as if it had been just now.
            wipe_due: Some(clock::monotonic() + WIPE_WAIT),
            appended: None,
        }
    }

    /// How large the log is, whichever is open.
    pub(crate) fn figures(&self) -> Arc<Mutex<Figures>> {
        Arc::clone(&self.figures)
    }

    /// Decides one command, or lets acks wait until the batch is closed.
    pub(crate) fn take(&mut self, request: Request, now_ms: u64) {
        let (command, reply) = request.open();
        if self.open.is_none() {
            if let Command::Send(send) = &command {
                self.state.hold_from(send.device, send.seq, send.lowest);
            }
            reply.give(Outcome::Failed(Code::OutcomeUnknown));
            return;
        }
        match (command, reply.take_acks()) {
            (Command::Ack { device, entries }, Ok(session)) => self.wait_acks(device, entries, session),
            (command, Ok(session)) => self.decide(command, Reply::to(Recipient::Acks(session)), now_ms),
            (command, Err(reply)) => self.decide(command, reply, now_ms),
        }
    }

    /// Whether the batch should be closed.
    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() >= limits::BATCH_COMMANDS_MAX
            || self.bytes >= limits::BATCH_BYTES_MAX
            || self.acks_waiting >= limits::BATCH_ACKS_MAX
    }

    /// When acks that were put off are tried again, even if nothing else comes.
    pub(crate) fn acks_due(&self) -> Option<Instant> {
        self.acks_put_off_since.map(|since| since + Duration::from_millis(limits::ACK_RETRY_MS))
    }

    /// When [`Writer::append`] must be called even if nothing comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.acks_due().into_iter().chain(self.wipe_due.filter(|_| self.open.is_some())).min()
    }

    /// Whether the index is in doubt, so that the server ends.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.watchdog.doubt.is_raised()
    }

    /// Whether the store has to be opened anew before anything can be decided.
    pub(crate) fn has_failed(&self) -> bool {
        self.open.is_none()
    }

    /// Closes the batch: decides the acks that wait, and appends what was decided as one frame. Nothing of it is durable,
    /// and nothing else may be decided, before [`Writer::settle`]. A batch without writes (all resends or refusals) needs
    /// no frame: everything it answers was durable before it.
    pub(crate) fn append(&mut self, now_ms: u64) {
        if self.open.is_none() {
            // Acks that wait for room go on waiting: nothing could be kept of them.
            return;
        }
        self.decide_acks(now_ms);
        self.wipe();
        if !self.writes.is_empty()
            && let Some(open) = self.open.as_mut()
        {
            let appended = append(&mut open.log, &self.writes);
            if let (true, Ok(early)) = (proof::is(Wrong::HeadBeforeDurable), &appended) {
                self.view.publish(&self.writes, Arc::clone(&early.frame));
            }
            self.appended = Some(appended);
        }
    }

    /// Makes the batch durable, publishes it, and gives what there is to tell; nothing where there is nothing.
    pub(crate) fn settle(&mut self) -> Option<Batch> {
        let appended = self.appended.take();
        if appended.is_none() && self.answers.is_empty() {
            return None;
        }
        let items = match appended.map_or(Ok(BTreeMap::new()), |appended| self.publish(appended)) {
            Ok(items) => items,
            Err(failure) => return Some(self.fail(&failure)),
        };
        self.state.pending_is_durable();
        self.clear_batch();
        let answers = std::mem::take(&mut self.answers);
        let answers = answers.into_iter().map(|(reply, answer)| (reply, Outcome::Decided(answer))).collect();
        Some(Batch { answers, events: std::mem::take(&mut self.events), items })
    }

    /// Closes the batch and makes it durable: [`Writer::append`], then [`Writer::settle`].
    pub(crate) fn commit(&mut self, now_ms: u64) -> Option<Batch> {
        self.append(now_ms);
        self.settle()
    }

    /// Whether there is anything to append or to tell. Acks alone are, but for those that were put off.
    #[cfg(feature = "proof")]
    pub(crate) fn has_batch(&self, now: Instant) -> bool {
        let acks = !self.acks.is_empty()
            && (self.room.storage() != Storage::Closed || self.acks_due().is_none_or(|due| due <= now));
        !self.answers.is_empty() || acks || self.open.is_some() && self.wipe_due.is_some_and(|due| due <= now)
    }

    /// Where it is time, wants the log condensed up to here. A failure is met again by the next frame.
    fn wipe(&mut self) {
        if self.wipe_due.is_none_or(|due| due > clock::monotonic()) {
            return;
        }
        self.wipe_due = None;
        if let Some(Err(failure)) = self.open.as_mut().map(|open| open.log.wipe()) {
            warn!(error = %failure, "the log could not be prepared for taking out what was wiped; it is tried again");
            self.wipe_due = Some(clock::monotonic() + WIPE_WAIT);
        }
    }

    /// Tries to open the store anew after a failure; says whether it is open.
    pub(crate) fn try_reopen(&mut self) -> bool {
        match self.reopen() {
            Ok(()) => {
                info!("the store is open again");
                return true;
            }
            Err(ReopenError::Open(failure)) if failure.is_doubt() => self.watchdog.doubt.raise(&failure),
            Err(failure) => warn!(error = %failure, "the store does not open yet"),
        }
        false
    }

    /// Opens the store anew after a failure, and publishes what turns out to be kept. The log is read again from its
    /// beginning, under the rules for its end, as a sync that failed proves nothing about what was written.
    fn reopen(&mut self) -> Result<(), ReopenError> {
        let Found { store, tables, applier, .. } = self.place.open(|_| {})?;
        self.view.replace(tables, store.engine, store.durable);
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = store.log.figures();
        self.open = Some(Open::start(store.log, applier, &self.view, &self.watchdog, &self.room, &self.place)?);
        // A wish that the log had before is gone with it, fulfilled or not: as at a start it goes as if just now.
        self.wipe_due.get_or_insert(clock::monotonic() + WIPE_WAIT);
        Ok(())
    }

    /// Seals the log; none where the store is not open. The seal goes to the index too, which then holds the whole log.
    pub(crate) fn seal(&mut self) -> Option<Result<(), StoreError>> {
        let open = self.open.as_mut()?;
        let before = open.log.synced();
        let sealed = open.log.seal();
        if let Ok(lsn) = sealed
            && lsn > before
        {
            open.beside.push(Arc::new(Frame { lsn, ops: Vec::new() }));
        }
        Some(sealed.map(drop))
    }

    /// Lets the index catch up, and makes it durable.
    pub(crate) fn finish(self) {
        if let Some(open) = self.open {
            open.finish(End::Flushed);
        }
    }

    /// Syncs the frame that was appended, then publishes it and hands it over to the index.
    fn publish(&mut self, appended: Result<Appended, WriteError>) -> Result<BTreeMap<GroupId, Rows>, WriteError> {
        let Appended { frame, items } = appended?;
        let Some(Open { log, beside }) = self.open.as_mut() else { return Ok(items) };
        if !proof::is(Wrong::AnswerBeforeSync) {
            log.sync()?;
        }
        if !proof::is(Wrong::HeadBeforeDurable) {
            self.view.publish(&self.writes, Arc::clone(&frame));
        }
        if proof::is(Wrong::OverlayDroppedEarly) {
            self.view.read().overlay.forget(frame.lsn);
        }
        beside.push(frame);
        if self.wipe_due.is_none() && self.writes.iter().any(is_wipe) {
            self.wipe_due = Some(clock::monotonic() + WIPE_WAIT);
        }
        Ok(items)
    }

    fn decide(&mut self, mut command: Command, reply: Reply, now_ms: u64) {
        if command.wanted().is_some() {
            self.watchdog.writer.during(Work::Reading, || {
                attaching::refresh(&self.view, &mut command, &self.watchdog.doubt);
            });
        }
        if let Command::Send(send) = &command {
            self.sends.push((send.device, send.seq, send.lowest));
        }
        self.state.set_storage(self.room.storage());
        let applied = self.state.apply(&self.view.read().tables, command, now_ms);
        let is_resend = matches!(applied.answer, Answer::Sent { .. }) && applied.events.is_empty();
        self.bytes += applied.writes.iter().map(translate::weight).sum::<usize>();
        self.writes.extend(applied.writes);
        self.events.extend(applied.events);
        if is_resend && proof::is(Wrong::ResendBeforeDurable) {
            return reply.give(Outcome::Decided(applied.answer));
        }
        self.answers.push((reply, applied.answer));
    }

    fn wait_acks(&mut self, device: DeviceId, entries: Vec<(GroupId, MessageId)>, session: Arc<Session>) {
        let new = || WaitingAcks { session: Arc::clone(&session), entries: BTreeMap::new() };
        let waiting = self.acks.entry(device).or_insert_with(new);
        waiting.session = session;
        self.acks_waiting += entries.len();
        for (group, msgid) in entries {
            let entry = waiting.entries.entry(group).or_insert(msgid);
            *entry = (*entry).max(msgid);
        }
        if proof::is(Wrong::CursorBeforeDurable) {
            let tables = &self.view.read().tables;
            let durable =
                |group| tables.cursor(group, waiting.session.user, device).map_or(MessageId::ZERO, |row| row.msgid);
            let moved = waiting.entries.iter().map(|(group, msgid)| (*group, durable(*group).max(*msgid))).collect();
            waiting.session.acked(Outcome::Decided(Answer::Cursors { moved, refused: Vec::new() }));
        }
    }

    /// Decides the acks that wait, or puts them off where there is no room for anything.
    fn decide_acks(&mut self, now_ms: u64) {
        self.acks_put_off_since = None;
        self.acks_waiting = 0;
        if self.room.storage() == Storage::Closed && !self.acks.is_empty() {
            // They wait until there is room: who acked does not ask again.
            self.acks_put_off_since = Some(clock::monotonic());
            return;
        }
        for (device, waiting) in std::mem::take(&mut self.acks) {
            let entries = waiting.entries.into_iter().collect();
            self.decide(Command::Ack { device, entries }, Reply::to(Recipient::Acks(waiting.session)), now_ms);
        }
    }

    fn fail(&mut self, failure: &WriteError) -> Batch {
        error!(error = %failure, "the log failed: sends answer outcome-unknown until it opens again");
        if let WriteError::Store(failure) = failure
            && failure.class() == StoreErrorClass::Full
        {
            self.room.has_run_out();
        }
        self.close_store();
        self.state.drop_pending();
        for (device, seq, lowest) in std::mem::take(&mut self.sends) {
            self.state.hold_from(device, seq, lowest);
        }
        self.clear_batch();
        self.events.clear();
        let answers = std::mem::take(&mut self.answers);
        let answers = answers.into_iter().map(|(reply, _)| (reply, Outcome::Failed(Code::OutcomeUnknown))).collect();
        Batch { answers, events: Vec::new(), items: BTreeMap::new() }
    }

    fn close_store(&mut self) {
        if let Some(open) = self.open.take() {
            // Not flushed: the disk has just failed, and what a start would replay is applied already.
            open.finish(End::Applied);
        }
    }

    fn clear_batch(&mut self) {
        self.writes.clear();
        self.sends.clear();
        self.bytes = 0;
    }
}

/// Whether a write takes the body out of an item: no byte of that may stay in the log for long.
fn is_wipe(write: &Write) -> bool {
    matches!(write, Write::Changed(item) if item.recalled)
}

/// Appends what was decided.
fn append(log: &mut LogWriter, writes: &[Write]) -> Result<Appended, WriteError> {
    let kept = translate::kept(writes, log.next())?;
    if proof::is(Wrong::AnswerBeforeSync) {
        // Late: when the next frame comes.
        log.sync()?;
    }
    let lsn = log.append(&kept.ops)?;
    Ok(Appended { frame: Arc::new(Frame { lsn, ops: kept.ops }), items: kept.items })
}

#[cfg(test)]
mod tests;
