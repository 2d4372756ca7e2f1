//! The task that loops over the [`Keeper`](super::Keeper), and notes which devices are there.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::clock;
use crate::core::command::{Answer, Command};
use crate::limits::RETENTION_INTERVAL_MS;
use crate::proof;
use crate::server::Shared;
use crate::server::keeping::{self, Keeper, Step};
use crate::server::request::Outcome;
use crate::server::watchdog::Watchdog;

/// The task; it ends with [`Task::finish`].
pub(crate) struct Task {
    ending: mpsc::Sender<Infallible>,
    task: JoinHandle<()>,
}

impl Task {
    /// Starts the task.
    pub(crate) fn start(shared: &Arc<Shared>, watchdog: &Arc<Watchdog>) -> Task {
        let (ending, ended) = mpsc::channel(1);
        let keeper = Keeper::new(&shared.view, shared.keeping, clock::now_ms(), clock::monotonic());
        shared.retention_ms.store(keeper.clock_ms(), Ordering::Relaxed);
        Task { ending, task: tokio::spawn(run(Arc::clone(shared), Arc::clone(watchdog), keeper, ended)) }
    }

    /// Ends the task, once what it reads was read; an index that hangs is left behind after so long.
    pub(crate) async fn finish(self, at_most: Duration) {
        drop(self.ending);
        if tokio::time::timeout(at_most, self.task).await.is_err() {
            warn!("a look at what groups keep hangs and is left behind");
        }
    }
}

/// Looks at all groups, over and over, and has done what is due.
async fn run(shared: Arc<Shared>, watchdog: Arc<Watchdog>, mut keeper: Keeper, mut ended: mpsc::Receiver<Infallible>) {
    let interval = if proof::is_small() { RETENTION_INTERVAL_MS / 50 } else { RETENTION_INTERVAL_MS };
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(interval)) => {}
            _ = ended.recv() => return,
        }
        keeper.begin(clock::now_ms(), clock::monotonic());
        shared.retention_ms.store(keeper.clock_ms(), Ordering::Relaxed);
        note_seen(&shared).await;
        while !ended.is_closed() {
            let view = Arc::clone(&shared.view);
            // What it reads may wait for the disk.
            let stepped = tokio::task::spawn_blocking(move || {
                let step = keeper.step(&view);
                (keeper, step)
            });
            let Ok((back, step)) = stepped.await else {
                return warn!("the task that keeps and removes items panicked");
            };
            keeper = back;
            let goes_on = match step {
                Ok(Step::Ask(command)) => asked(&shared, *command).await,
                Ok(Step::Again) => true,
                Ok(Step::Rest) => false,
                Err(failure) => keeping::goes_on_after(&failure, &shared.view, &watchdog.doubt),
            };
            if !goes_on {
                break;
            }
        }
    }
}

/// Whoever listens for days is there on each of them.
async fn note_seen(shared: &Shared) {
    for session in shared.registry.all() {
        if let Some(command) = keeping::seen(shared, &session) {
            // Where it fails it is tried again with the next round.
            let _is_noted = asked(shared, command).await;
        }
    }
}

/// Says whether a command was carried out, durably. Where it was not (the disk is full, the store is opened anew) it is tried
/// again with the next round.
async fn asked(shared: &Shared, command: Command) -> bool {
    let outcome = shared.commands.ask(command).await;
    let is_done = matches!(outcome, Outcome::Decided(Answer::Done(_)));
    if !is_done {
        debug!(?outcome, "nothing is noted or removed now; it is tried again");
    }
    is_done
}
