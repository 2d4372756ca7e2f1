//! The thread that applies durable frames to the index, behind the writer, and flushes and recycles it.
//!
//! It loops over [`Applying`], and is the only mutator and the only flusher of the index. Frames wait for it while the
//! index is flushed or recycled, and commits go on; only when so many bytes wait that the overlay has to be bounded, the
//! writer waits too. A failure is doubt about the index, and the end of this thread; one that hangs is left behind.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::server::applying::{Applying, End, is_full, weight};
use crate::server::watchdog::Watchdog;
use crate::store::applier::ApplyError;
use crate::store::log::Frame;
use crate::sync::{Builder, Condvar, JoinHandle, Mutex, MutexGuard};

/// How often who waits for the applier looks whether the index is in doubt, so that the wait is in vain.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

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
    pub(crate) fn start(applying: Applying, bytes_max: usize) -> std::io::Result<Frames> {
        let queue = Arc::new(Queue { bytes_max, ..Queue::default() });
        let watchdog = Arc::clone(applying.watchdog());
        let ended = Ended { queue: Arc::clone(&queue), watchdog: Arc::clone(&watchdog) };
        let thread = Builder::new().name("applier".to_owned());
        let thread = thread.spawn(move || run(applying, &ended))?;
        Ok(Frames { queue, watchdog, thread })
    }

    /// Hands a frame over; waits where too much waits already, though not for an index in doubt. Never called by a task.
    pub(crate) fn push(&self, frame: Arc<Frame>) {
        let full = |waiting: &Waiting| is_full(waiting.frames.len(), waiting.bytes, self.queue.bytes_max);
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

fn run(applying: Applying, ended: &Ended) {
    if let Err(failure) = apply(applying, &ended.queue) {
        ended.watchdog.doubt.raise(&failure);
    }
}

fn apply(mut applying: Applying, queue: &Queue) -> Result<(), ApplyError> {
    let mut done = 0;
    loop {
        let next = queue.next(done, applying.due_at());
        done = 0;
        let now = clock::monotonic();
        match next {
            Next::Frame(frame) => {
                applying.frame(&frame, now)?;
                done = weight(&frame);
            }
            Next::Idle => {}
            Next::End(end) => return applying.end(end, now),
        }
        applying.carry_out(applying.due(now), now)?;
    }
}

#[cfg(test)]
mod tests;
