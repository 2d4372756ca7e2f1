//! The thread that applies durable frames to the index, behind the writer, and flushes and recycles it.
//!
//! It is the only mutator and the only flusher of the index. What it has applied, the overlay forgets. Frames wait for it
//! while the index is flushed or recycled, and commits go on; only when so many bytes wait that the overlay has to be
//! bounded, the writer waits too. A failure is doubt about the index, and the end of this thread; one that hangs is left
//! behind.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use crate::clock;
use crate::limits;
use crate::server::room::Room;
use crate::server::watchdog::{Watchdog, Work};
use crate::store::applier::{Applier, ApplyError, Checkpoint, Due};
use crate::store::log::Frame;
use crate::store::overlay::Overlay;

/// How often who waits for the applier looks whether the index is in doubt, so that the wait is in vain.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How the thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With everything applied.
    Applied,
    /// With everything applied, durable, and recorded as that.
    Flushed,
}

/// The writer's end of the queue of durable frames.
pub(crate) struct Frames {
    queue: Arc<Queue>,
    watchdog: Arc<Watchdog>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// A frame came, or the wish to end.
    came: Condvar,
    /// Frames went, or the thread.
    went: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Arc<Frame>>,
    /// Of the frames that wait and of the one at work.
    bytes: usize,
    end: Option<End>,
    /// The thread is gone.
    gone: bool,
}

enum Next {
    Frame(Arc<Frame>),
    Idle,
    End(End),
}

/// What a frame takes in the overlay.
fn weight(frame: &Frame) -> usize {
    let row = |value: usize| value.saturating_add(limits::OVERLAY_ROW_BYTES);
    frame.ops.iter().map(|op| op.key.len() + row(op.value.as_ref().map_or(0, bytes::Bytes::len))).sum()
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next thing to do, waiting for it until something is due. `done`: bytes of the frame that was the last.
    fn next(&self, done: usize, due_at: Option<Instant>) -> Next {
        let mut waiting = self.waiting();
        waiting.bytes = waiting.bytes.saturating_sub(done);
        self.went.notify_all();
        loop {
            if let Some(frame) = waiting.frames.pop_front() {
                return Next::Frame(frame);
            }
            if let Some(end) = waiting.end {
                return Next::End(end);
            }
            let Some(due_at) = due_at else {
                waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = due_at.saturating_duration_since(clock::monotonic());
            if left.is_zero() {
                return Next::Idle;
            }
            (waiting, _) = self.came.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits while this holds, the thread is there, and nobody doubts the index.
    fn wait_while<'a>(
        &self,
        mut waiting: MutexGuard<'a, Waiting>,
        watchdog: &Watchdog,
        holds: impl Fn(&Waiting) -> bool,
    ) -> MutexGuard<'a, Waiting> {
        while holds(&waiting) && !waiting.gone && !watchdog.doubt.is_raised() {
            (waiting, _) = self.went.wait_timeout(waiting, LOOK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
        }
        waiting
    }
}

impl Frames {
    /// Starts the thread. At so many bytes that wait, [`Frames::push`] waits too.
    pub(crate) fn start(
        applier: Applier,
        overlay: Overlay,
        watchdog: &Arc<Watchdog>,
        room: &Arc<Room>,
        bytes_max: usize,
    ) -> std::io::Result<Frames> {
        let queue = Arc::new(Queue { bytes_max, ..Queue::default() });
        let ended = Ended { queue: Arc::clone(&queue), watchdog: Arc::clone(watchdog) };
        let thread = std::thread::Builder::new().name("applier".to_owned());
        let room = Arc::clone(room);
        let thread = thread.spawn(move || run(applier, &overlay, &room, &ended))?;
        Ok(Frames { queue, watchdog: Arc::clone(watchdog), thread })
    }

    /// Hands a frame over; waits where too much waits already, though not for an index in doubt. Never called by a task.
    pub(crate) fn push(&self, frame: Arc<Frame>) {
        let full = |waiting: &Waiting| {
            waiting.bytes >= self.queue.bytes_max || waiting.frames.len() >= limits::FRAMES_QUEUED_MAX
        };
        let mut waiting = self.queue.wait_while(self.queue.waiting(), &self.watchdog, full);
        waiting.bytes = waiting.bytes.saturating_add(weight(&frame));
        waiting.frames.push_back(frame);
        drop(waiting);
        self.queue.came.notify_one();
    }

    /// Waits until the thread has ended so, or there is doubt; then it may hang, and is left behind.
    pub(crate) fn finish(self, end: End) {
        let mut waiting = self.queue.waiting();
        waiting.end = Some(end);
        self.queue.came.notify_one();
        let waiting = self.queue.wait_while(waiting, &self.watchdog, |_| true);
        let gone = waiting.gone;
        drop(waiting);
        // A panic is doubt, and was raised as that.
        if gone {
            drop(self.thread.join());
        }
    }
}

/// Says that the thread has ended, in whatever way.
struct Ended {
    queue: Arc<Queue>,
    watchdog: Arc<Watchdog>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.watchdog.doubt.raise(&"the thread that applies frames to the index panicked");
        }
        self.queue.waiting().gone = true;
        self.queue.went.notify_all();
    }
}

fn run(applier: Applier, overlay: &Overlay, room: &Room, ended: &Ended) {
    if let Err(failure) = apply(applier, overlay, room, &ended.queue, &ended.watchdog) {
        ended.watchdog.doubt.raise(&failure);
    }
}

fn apply(
    mut applier: Applier,
    overlay: &Overlay,
    room: &Room,
    queue: &Queue,
    watchdog: &Watchdog,
) -> Result<(), ApplyError> {
    let pulse = &watchdog.applier;
    let mut done = 0;
    loop {
        let next = queue.next(done, applier.due_at());
        done = 0;
        let now = clock::monotonic();
        match next {
            Next::Frame(frame) => {
                let applied = pulse.during(Work::Applying, || applier.step(&frame, now))?;
                overlay.forget(applied);
                done = weight(&frame);
            }
            Next::Idle => {}
            Next::End(End::Applied) => return Ok(()),
            Next::End(End::Flushed) if !room.may_checkpoint() => {
                warn!("there is no room to make the index durable: the next start reads the end of the log again");
                applier.leave();
                return Ok(());
            }
            Next::End(End::Flushed) => {
                told("flushed", now, pulse.during(Work::Flushing, || applier.finish())?);
                return Ok(());
            }
        }
        match applier.due(now) {
            Due::Nothing => {}
            // A flush that fails for want of room would cost the index.
            Due::Checkpoint | Due::Recycling if !room.may_checkpoint() => applier.postpone(now),
            Due::Checkpoint => told("flushed", now, pulse.during(Work::Flushing, || applier.checkpoint(now))?),
            Due::Recycling => told("recycled", now, pulse.during(Work::Recycling, || applier.recycle(now))?),
        }
        room.checkpoint_takes(applier.checkpoint_room());
    }
}

fn told(what: &str, since: Instant, checkpoint: Checkpoint) {
    let took = clock::monotonic().saturating_duration_since(since);
    debug!(lsn = %checkpoint.flushed, ms = clock::whole_ms(took), "the index was {what}");
    if let Some(failure) = checkpoint.unrecorded {
        warn!(error = %failure, "how far the index is durable could not be recorded; it is tried again");
    }
}

#[cfg(test)]
mod tests;
