//! The step machine of the applier: it applies durable frames to the index, and flushes and recycles it when that is due.
//!
//! What it has applied, the overlay forgets. A failure is doubt about the index; whoever loops over the machine raises
//! it, and takes no step after it. There is no queue here, and the clock says no more than how long a flush took: see
//! [`super::applier`] for the thread.

use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, warn};

use crate::clock;
use crate::limits;
use crate::server::room::Room;
use crate::server::watchdog::{Watchdog, Work};
use crate::store::applier::{Applier, ApplyError, Checkpoint, Due};
use crate::store::log::Frame;
use crate::store::overlay::Overlay;

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With everything applied.
    Applied,
    /// With everything applied, durable, and recorded as that.
    Flushed,
}

/// What a frame takes in the overlay.
pub(crate) fn weight(frame: &Frame) -> usize {
    let row = |value: usize| value.saturating_add(limits::OVERLAY_ROW_BYTES);
    frame.ops.iter().map(|op| op.key.len() + row(op.value.as_ref().map_or(0, bytes::Bytes::len))).sum()
}

/// Whether who hands over another frame should wait, where so many wait with so many bytes.
pub(crate) fn is_full(frames: usize, bytes: usize, bytes_max: usize) -> bool {
    bytes >= bytes_max || frames >= limits::FRAMES_QUEUED_MAX
}

/// The machine.
pub(crate) struct Applying {
    applier: Applier,
    overlay: Overlay,
    room: Arc<Room>,
    watchdog: Arc<Watchdog>,
}

impl Applying {
    /// A machine for an index; what it applies, this overlay forgets. Doubt is recorded where the applier records.
    pub(crate) fn new(applier: Applier, overlay: Overlay, room: &Arc<Room>, watchdog: &Arc<Watchdog>) -> Applying {
        watchdog.doubt.record_in(applier.record().clone());
        Applying { applier, overlay, room: Arc::clone(room), watchdog: Arc::clone(watchdog) }
    }

    /// The guard that a failure is told.
    pub(crate) fn watchdog(&self) -> &Arc<Watchdog> {
        &self.watchdog
    }

    /// When something becomes due if no frame comes until then.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.applier.due_at()
    }

    /// What is to be done before the next frame, if none has come until now.
    pub(crate) fn due(&self, now: Instant) -> Due {
        self.applier.due(now)
    }

    /// Applies a frame.
    pub(crate) fn frame(&mut self, frame: &Frame, now: Instant) -> Result<(), ApplyError> {
        let applied = self.watchdog.applier.during(Work::Applying, || self.applier.step(frame, now))?;
        self.overlay.forget(applied);
        Ok(())
    }

    /// Does what is due, where there is room for it.
    pub(crate) fn carry_out(&mut self, due: Due, now: Instant) -> Result<(), ApplyError> {
        let pulse = &self.watchdog.applier;
        match due {
            Due::Nothing => {}
            // A flush that fails for want of room would cost the index.
            Due::Checkpoint | Due::Recycling if !self.room.may_checkpoint() => self.applier.postpone(now),
            Due::Checkpoint => {
                told("flushed", now, pulse.during(Work::Flushing, || self.applier.checkpoint(now))?);
            }
            Due::Recycling => {
                told("recycled", now, pulse.during(Work::Recycling, || self.applier.recycle(now))?);
            }
        }
        self.room.checkpoint_takes(self.applier.checkpoint_room());
        Ok(())
    }

    /// Ends, with every frame applied.
    pub(crate) fn end(mut self, end: End, now: Instant) -> Result<(), ApplyError> {
        match end {
            End::Applied => {}
            End::Flushed if !self.room.may_checkpoint() => {
                warn!("there is no room to make the index durable: the next start reads the end of the log again");
                self.applier.leave();
            }
            End::Flushed => {
                let pulse = &self.watchdog.applier;
                told("flushed", now, pulse.during(Work::Flushing, || self.applier.finish())?);
            }
        }
        Ok(())
    }
}

fn told(what: &str, since: Instant, checkpoint: Checkpoint) {
    let took = clock::monotonic().saturating_duration_since(since);
    debug!(lsn = %checkpoint.flushed, ms = clock::whole_ms(took), "the index was {what}");
    if let Some(failure) = checkpoint.unrecorded {
        warn!(error = %failure, "how far the index is durable could not be recorded; it is tried again");
    }
}
