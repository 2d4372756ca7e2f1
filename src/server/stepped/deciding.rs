//! The writer's loop in steps, with the queue before it and the batches behind it.

use std::collections::VecDeque;

use bytes::Bytes;
use crossbeam_channel::Receiver;

use super::work::Work;
use crate::clock;
use crate::limits;
use crate::server::byhand::ByHand;
use crate::server::request::Request;
use crate::server::rows::Rows;
use crate::server::writer::{Batch, Told, Writer};
use crate::wire::row;

/// Where in its loop the writer is.
enum Stage {
    /// It takes commands.
    Collecting,
    /// The frame is appended.
    Appended,
    /// The batch is settled, and the dispatcher not told of it yet.
    Settled(Batch),
    /// The log is sealed.
    Sealed,
}

/// The writer.
pub(super) struct Deciding {
    /// None once it has ended.
    running: Option<(Writer, Receiver<Request>)>,
    stage: Stage,
    told: VecDeque<Told>,
    /// Items that were published.
    published: Vec<Bytes>,
    /// No more commands come.
    stopping: bool,
}

impl Deciding {
    pub(super) fn new(writer: Writer, received: Receiver<Request>) -> Deciding {
        let (told, published) = (VecDeque::new(), Vec::new());
        Deciding { running: Some((writer, received)), stage: Stage::Collecting, told, published, stopping: false }
    }

    /// No more commands come; those that wait are decided, unless the index is in doubt.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether the store is open.
    pub(super) fn is_open(&self) -> bool {
        self.running.as_ref().is_some_and(|(writer, _)| !writer.has_failed())
    }

    /// Whether the writer has ended, and the dispatcher has taken all that it told.
    pub(super) fn has_ended(&self) -> bool {
        self.running.is_none() && self.told.is_empty()
    }

    /// When the writer closes a batch even if nothing comes.
    pub(super) fn due_at(&self) -> Option<std::time::Instant> {
        self.running.as_ref().and_then(|(writer, _)| writer.due())
    }

    /// What the dispatcher is told next.
    pub(super) fn next_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// The items that were published since this was last asked.
    pub(super) fn take_published(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.published)
    }

    /// What can be done now.
    pub(super) fn works(&self, beside: &ByHand, in_doubt: bool, works: &mut Vec<Work>) {
        let may_tell = self.told.len() < limits::BATCHES_QUEUED_MAX;
        if let Some((writer, received)) = &self.running {
            match &self.stage {
                Stage::Collecting => {
                    let has_batch = writer.has_batch(clock::monotonic());
                    let has_failed = writer.has_failed();
                    let comes = !received.is_empty() && !in_doubt;
                    if comes && (has_failed || !writer.is_full()) {
                        works.push(Work::Take);
                    }
                    if has_failed && !in_doubt {
                        works.extend(may_tell.then_some(Work::Reopen));
                    } else if has_batch {
                        works.push(Work::Append);
                    }
                    let ends = in_doubt || self.stopping && !comes;
                    if ends && (has_failed || !has_batch) {
                        works.extend(may_tell.then_some(Work::Seal));
                    }
                }
                Stage::Appended => works.push(Work::Settle),
                // With threads it waits here until the index has caught up, though not for one in doubt.
                Stage::Settled(_) => works.extend((may_tell && (in_doubt || !beside.is_full())).then_some(Work::Tell)),
                Stage::Sealed => works.push(Work::Finish),
            }
        }
        if !self.told.is_empty() {
            works.push(Work::Dispatch);
        }
    }

    /// The writer takes a command.
    pub(super) fn take(&mut self) {
        if let (Some((writer, received)), Stage::Collecting) = (&mut self.running, &self.stage)
            && let Ok(request) = received.try_recv()
        {
            writer.take(request, clock::now_ms());
        }
    }

    /// The writer closes its batch.
    pub(super) fn append(&mut self) {
        if let (Some((writer, _)), Stage::Collecting) = (&mut self.running, &self.stage) {
            writer.append(clock::now_ms());
            self.stage = Stage::Appended;
        }
    }

    /// The writer makes its batch durable.
    pub(super) fn settle(&mut self) {
        if let (Some((writer, _)), Stage::Appended) = (&mut self.running, &self.stage) {
            self.stage = writer.settle().map_or(Stage::Collecting, |batch| {
                self.published.extend(batch.items.values().flat_map(items));
                Stage::Settled(batch)
            });
        }
    }

    /// The writer tells the dispatcher.
    pub(super) fn tell(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Collecting) {
            Stage::Settled(batch) => self.told.push_back(Told::Batch(batch)),
            other @ (Stage::Collecting | Stage::Appended | Stage::Sealed) => self.stage = other,
        }
    }

    /// The writer opens the store anew.
    pub(super) fn reopen(&mut self) {
        if let (Some((writer, _)), Stage::Collecting) = (&mut self.running, &self.stage)
            && writer.has_failed()
            && writer.try_reopen()
        {
            self.told.push_back(Told::Reopened);
        }
    }

    /// The writer seals the log.
    pub(super) fn seal(&mut self) {
        if let (Some((writer, _)), Stage::Collecting) = (&mut self.running, &self.stage) {
            self.told.push_back(Told::Stopped(writer.seal()));
            self.stage = Stage::Sealed;
        }
    }

    /// The writer ends; who still waits for it hears that its outcome is unknown. Says whether it has.
    pub(super) fn finish(&mut self) -> bool {
        let running = self.running.take_if(|_| matches!(self.stage, Stage::Sealed));
        let ends = running.is_some();
        if let Some((writer, received)) = running {
            writer.finish();
            drop(received);
        }
        ends
    }
}

/// The items of these rows, encoded.
fn items(rows: &Rows) -> Vec<Bytes> {
    row::rows(rows.all()).flatten().map(|row| row.item).collect()
}
