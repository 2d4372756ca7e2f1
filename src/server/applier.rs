//! The thread that applies durable frames to the index, behind the writer.
//!
//! It is the only mutator of the index. What it has applied, the overlay forgets. While the queue is full the writer
//! waits, so that the overlay is bounded.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use tracing::error;

use crate::limits;
use crate::store::applier::Applier;
use crate::store::log::Frame;
use crate::store::overlay::Overlay;

/// The writer's end of the queue of durable frames.
pub(crate) struct Frames {
    sender: Sender<Arc<Frame>>,
    thread: JoinHandle<()>,
}

impl Frames {
    /// Starts the thread.
    pub(crate) fn start(applier: Applier, overlay: Overlay) -> std::io::Result<Frames> {
        let (sender, receiver) = crossbeam_channel::bounded(limits::FRAMES_QUEUED_MAX);
        let thread = std::thread::Builder::new().name("applier".to_owned());
        let thread = thread.spawn(move || run(applier, &overlay, &receiver))?;
        Ok(Frames { sender, thread })
    }

    /// Hands a frame over; waits where the queue is full. Never called by a task. Says whether the applier is there: where
    /// it is not, the index is in doubt.
    pub(crate) fn push(&self, frame: Arc<Frame>) -> bool {
        #[allow(clippy::disallowed_methods, reason = "the writer's thread may wait for the applier: commits wait then")]
        let handed = self.sender.send(frame);
        handed.is_ok()
    }

    /// Waits until everything is applied and flushed.
    pub(crate) fn finish(self) {
        drop(self.sender);
        if self.thread.join().is_err() {
            error!("the applier panicked: the index is rebuilt from the log");
        }
    }
}

fn run(mut applier: Applier, overlay: &Overlay, frames: &Receiver<Arc<Frame>>) {
    for frame in frames {
        match applier.step(&frame) {
            Ok(applied) => overlay.forget(applied),
            Err(failure) => {
                error!(error = %failure, "the index failed: it is rebuilt from the log");
                return;
            }
        }
    }
    if let Err(failure) = applier.flush() {
        error!(error = %failure, "the index was not flushed: it is rebuilt from the log at the next start");
    }
}
