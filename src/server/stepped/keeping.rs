//! What groups keep, in steps: the loop of the task over its [`Keeper`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Node;
use crate::clock;
use crate::core::command::Answer;
use crate::limits::RETENTION_INTERVAL_MS;
use crate::server::Shared;
use crate::server::keeping::{self, Keeper, Step};
use crate::server::request::{Outcome, Recipient, Reply};

/// How often groups are looked at: more often than by a real server, so that a short run sees it.
const INTERVAL: Duration = Duration::from_millis(RETENTION_INTERVAL_MS / 10);
/// Items that are looked at, or removed, at once: few, so that it takes several times.
const ROWS_MAX: usize = 8;

/// Where the loop is.
pub(super) struct Keeping {
    keeper: Keeper,
    /// When the next round begins.
    round_at: Instant,
    /// A round is under way.
    goes_on: bool,
    /// What it asked for and is not answered.
    asked: Option<oneshot::Receiver<Outcome>>,
}

impl Keeping {
    pub(super) fn new(shared: &Shared) -> Keeping {
        let now = clock::monotonic();
        let mut keeper = Keeper::new(&shared.view, shared.keeping, clock::now_ms(), now);
        keeper.at_once.rows = ROWS_MAX;
        shared.retention_ms.store(keeper.clock_ms(), Ordering::Relaxed);
        Keeping { keeper, round_at: now + INTERVAL, goes_on: false, asked: None }
    }

    pub(super) fn is_due(&self) -> bool {
        self.asked.is_none() && (self.goes_on || self.round_at <= clock::monotonic())
    }

    pub(super) fn due_at(&self) -> Option<Instant> {
        self.asked.is_none().then_some(self.round_at)
    }

    /// Takes note of what became of a command that was asked for.
    pub(super) fn note(&mut self) {
        let Some(answer) = &mut self.asked else { return };
        match answer.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return,
            Ok(Outcome::Decided(Answer::Done(_))) => {}
            // The disk is full, or the store is opened anew: it is tried again with the next round.
            Ok(_) | Err(oneshot::error::TryRecvError::Closed) => self.goes_on = false,
        }
        self.asked = None;
    }
}

impl Node {
    /// Begins a round, or goes on with it.
    pub(super) fn keep(&mut self) {
        let (shared, it) = (Arc::clone(&self.shared), &mut self.keeping);
        if !it.is_due() {
            return;
        }
        if !std::mem::replace(&mut it.goes_on, true) {
            let now = clock::monotonic();
            it.round_at = now + INTERVAL;
            it.keeper.begin(clock::now_ms(), now);
            shared.retention_ms.store(it.keeper.clock_ms(), Ordering::Relaxed);
            let seen = |session: Arc<_>| Some((keeping::seen(&shared, &session)?, Reply::none()));
            self.asked.extend(shared.registry.all().into_iter().filter_map(seen));
            return;
        }
        match it.keeper.step(&shared.view) {
            Ok(Step::Ask(command)) => {
                let (sender, answer) = oneshot::channel();
                it.asked = Some(answer);
                self.asked.push_back((*command, Reply::to(Recipient::Local(sender))));
            }
            Ok(Step::Again) => {}
            Ok(Step::Rest) => it.goes_on = false,
            Err(failure) => it.goes_on = keeping::goes_on_after(&failure, &shared.view, &self.watchdog.doubt),
        }
    }
}
