//! Doubt about the index: raised once, recorded, and the end of this server.
//!
//! Whoever meets a failure of the index raises it, and never waits for anything by that: the record is written by a
//! thread of its own, as the disk may hang like the index. (Only where every step is taken by hand it is written
//! before whoever raised it goes on.) Nothing is mended here; the next start rebuilds the index from the log, which has
//! all that was answered.

use std::fmt::Display;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use tracing::{error, warn};

use crate::store::applier::Record;
use crate::sync::{AtomicBool, Builder, Mutex};

/// Who records a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recording {
    /// A thread of its own, for which nobody waits.
    ByThread,
    /// Whoever raises it, before it goes on.
    #[cfg(feature = "proof")]
    ByHand,
}

/// Whether the index is in doubt.
pub(crate) struct Doubt {
    /// The same as `why` having a value, for those who ask with each batch.
    raised: AtomicBool,
    why: watch::Sender<Option<String>>,
    /// Whether recording it has come to an end, in whatever way.
    recorded: watch::Sender<bool>,
    recording: Recording,
    record: Mutex<Option<Record>>,
    /// The index was made from the log when this server started.
    made_now: AtomicBool,
}

impl Doubt {
    /// No doubt.
    pub(crate) fn none() -> Doubt {
        Doubt::recorded_so(Recording::ByThread)
    }

    /// No doubt; one that is raised is recorded before whoever raises it goes on.
    #[cfg(feature = "proof")]
    pub(crate) fn none_by_hand() -> Doubt {
        Doubt::recorded_so(Recording::ByHand)
    }

    fn recorded_so(recording: Recording) -> Doubt {
        Doubt {
            recording,
            raised: AtomicBool::new(false),
            why: watch::Sender::new(None),
            recorded: watch::Sender::new(false),
            record: Mutex::new(None),
            made_now: AtomicBool::new(false),
        }
    }

    /// Where a doubt is recorded from now on.
    pub(crate) fn record_in(&self, record: Record) {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
        if self.is_raised() {
            self.write_down();
        }
    }

    /// The index was made from the log just now: a row that is missing or wrong is so in the log too.
    pub(crate) fn made_now(&self) {
        self.made_now.store(true, Ordering::Release);
    }

    /// A row of the index is missing or wrong. That is doubt, unless a rebuild would bring the same.
    pub(crate) fn suspect(&self, why: &dyn Display) {
        if !self.made_now.load(Ordering::Acquire) {
            self.raise(why);
        }
    }

    /// The index cannot be trusted any more: says why, the first time.
    pub(crate) fn raise(&self, why: &dyn Display) {
        // Before anybody is told: who is told asks this next.
        self.raised.store(true, Ordering::Release);
        let first = self.why.send_if_modified(|said| {
            let first = said.is_none();
            said.get_or_insert_with(|| why.to_string());
            first
        });
        if first {
            error!(failure = %why, "the index is in doubt: the server ends, and rebuilds it from the log when it starts again");
            self.write_down();
        }
    }

    /// Whether it was raised.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// The reason, where it was raised.
    #[cfg(feature = "proof")]
    pub(crate) fn why(&self) -> Option<String> {
        self.why.borrow().clone()
    }

    /// Waits until it is raised; gives the reason.
    pub(crate) async fn raised(&self) -> String {
        let mut why = self.why.subscribe();
        // The sender lives as long as this does.
        let said = why.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        said.unwrap_or_default()
    }

    /// Waits until it was recorded or could not be.
    pub(crate) async fn recorded(&self) {
        // As above: this cannot end early.
        drop(self.recorded.subscribe().wait_for(|recorded| *recorded).await);
    }

    /// The index was closed, and its files look like this: recorded where it came so far in order.
    pub(crate) fn at_rest(&self, files: Option<u64>) {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Err(failure)) = record.map(|record| record.rest(files)) {
            warn!(error = %failure, "how the index was left is not recorded: the next start takes it as it is");
        }
    }

    fn write_down(&self) {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let recorded = self.recorded.clone();
        let body = move || {
            if let Some(Err(failure)) = record.map(|record| record.doubt()) {
                error!(error = %failure, "the doubt about the index could not be recorded");
            }
            recorded.send_replace(true);
        };
        match self.recording {
            #[cfg(feature = "proof")]
            Recording::ByHand => return body(),
            Recording::ByThread => {}
        }
        if let Err(failure) = Builder::new().name("doubt".to_owned()).spawn(body) {
            error!(error = %failure, "the doubt about the index could not be recorded: no thread starts");
            self.recorded.send_replace(true);
        }
    }
}
