//! The thread that condenses sealed segments of the log, beside everything else: it rests as long as each step took, so
//! that it never has more than half of a core and of the disk.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tracing::{error, warn};

use crate::clock;
use crate::store::log::Condenser;
use crate::sync::{Builder, Condvar, JoinHandle, Mutex};

/// How often the thread looks whether there is something to condense.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long it rests after a failure: a disk without room, or damage, are not mended in a moment.
const FAILED_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Ending {
    ended: Mutex<bool>,
    told: Condvar,
}

/// The thread, which ends with [`Condensing::finish`].
pub(crate) struct Condensing {
    ending: Arc<Ending>,
    thread: JoinHandle<()>,
}

impl Condensing {
    /// Starts the thread.
    pub(crate) fn start(condenser: Condenser) -> std::io::Result<Condensing> {
        let ending = Arc::new(Ending::default());
        let told = Arc::clone(&ending);
        let thread = Builder::new().name("condenser".to_owned()).spawn(move || run(condenser, &told))?;
        Ok(Condensing { ending, thread })
    }

    /// Ends the thread; the step that it takes is finished first.
    pub(crate) fn finish(self) {
        *self.ending.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ending.told.notify_all();
        if self.thread.join().is_err() {
            error!("the thread that condenses the log panicked");
        }
    }
}

impl Ending {
    /// Rests for so long, or until it has to end; says whether it has to.
    fn rest(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(ended, time, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *ended
    }
}

fn run(mut condenser: Condenser, ending: &Ending) {
    let mut was_told = false;
    let mut rest = LOOK_INTERVAL;
    while !ending.rest(rest) {
        let since = clock::monotonic();
        rest = match condenser.step() {
            Ok(true) => {
                was_told = false;
                clock::monotonic().saturating_duration_since(since)
            }
            Ok(false) => LOOK_INTERVAL,
            Err(failure) => {
                if !std::mem::replace(&mut was_told, true) {
                    warn!(error = %failure, "the log could not be condensed; it is tried again");
                }
                FAILED_INTERVAL
            }
        };
    }
}
