//! What goes on beside the writer: the next segment is made ahead, durable frames are applied to the index, and sealed
//! segments are condensed.
//!
//! [`Threads`] is how a server does it. Behind a trait, so that a test, and whoever schedules every step of a server, can
//! do the same work when it is told to (`byhand`): beside threads nobody can say which of two meets a fault first.

use std::io;
use std::sync::Arc;

use crate::server::applier::Frames;
use crate::server::applying::{Applying, End};
use crate::server::condensing::Condensing;
use crate::server::preparing::Preparing;
use crate::store::log::{Condenser, Frame, Preparer};

/// What works on a log beside its writer.
pub(crate) struct OnLog {
    /// Makes the next segment.
    pub(crate) preparer: Preparer,
    /// Condenses those that are sealed.
    pub(crate) condenser: Condenser,
}

/// How what goes on beside the writer is done.
pub(crate) trait Beside: Send + Sync {
    /// Begins, beside a log that was just opened. Once so many bytes wait for the index, [`Begun::push`] may wait too.
    ///
    /// # Errors
    /// Where a thread does not start; those before it have ended then.
    fn begin(&self, log: OnLog, applying: Applying, bytes_max: usize) -> io::Result<Box<dyn Begun>>;
}

/// The writer's end of it.
pub(crate) trait Begun: Send {
    /// Hands over a durable frame.
    fn push(&mut self, frame: Arc<Frame>);

    /// Ends it.
    fn finish(self: Box<Self>, end: End);
}

/// A thread for each.
pub(crate) struct Threads;

struct Running {
    preparing: Preparing,
    condensing: Condensing,
    frames: Frames,
}

impl Beside for Threads {
    fn begin(&self, log: OnLog, applying: Applying, bytes_max: usize) -> io::Result<Box<dyn Begun>> {
        let preparing = Preparing::start(log.preparer)?;
        let condensing = match Condensing::start(log.condenser) {
            Ok(condensing) => condensing,
            Err(error) => {
                preparing.finish();
                return Err(error);
            }
        };
        match Frames::start(applying, bytes_max) {
            Ok(frames) => Ok(Box::new(Running { preparing, condensing, frames })),
            Err(error) => {
                preparing.finish();
                condensing.finish();
                Err(error)
            }
        }
    }
}

impl Begun for Running {
    fn push(&mut self, frame: Arc<Frame>) {
        self.frames.push(frame);
    }

    fn finish(self: Box<Self>, end: End) {
        self.preparing.finish();
        self.condensing.finish();
        self.frames.finish(end);
    }
}
