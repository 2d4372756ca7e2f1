//! The thread that makes the next segment of the log ahead of need, so that no commit waits for zeros to be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{error, warn};

use crate::store::log::Preparer;
use crate::sync::{Builder, JoinHandle};

/// How often the thread looks whether it should end; also how long it rests after a failure.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The thread, which ends with [`Preparing::finish`].
pub(crate) struct Preparing {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Preparing {
    /// Starts the thread.
    pub(crate) fn start(preparer: Preparer) -> std::io::Result<Preparing> {
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        let thread = Builder::new().name("preparer".to_owned()).spawn(move || run(&preparer, &told))?;
        Ok(Preparing { ended, thread })
    }

    /// Ends the thread; a segment that it is making is finished first.
    pub(crate) fn finish(self) {
        self.ended.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            error!("the thread that makes segments panicked");
        }
    }
}

fn run(preparer: &Preparer, ended: &AtomicBool) {
    let mut was_told = false;
    while !ended.load(Ordering::Relaxed) {
        if !preparer.wait(LOOK_INTERVAL) {
            continue;
        }
        match preparer.prepare() {
            Ok(_) => was_told = false,
            // The writer makes the segment itself when it needs it, and fails then if it must.
            Err(failure) => {
                if !std::mem::replace(&mut was_told, true) {
                    warn!(error = %failure, "no segment could be made ahead; it is tried again");
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
        }
    }
}
