//! What goes on beside the writer, done when somebody says so and by the one who says it: for tests, and for whoever
//! schedules every step of a server. It does what the threads of [`super::beside`] do, by the same machines.
//!
//! Nothing here waits: frames above the bound are taken, and whoever schedules asks [`ByHand::is_full`] before it lets the
//! writer go on.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::ids::Lsn;
use crate::server::applying::{Applying, End, is_full, weight};
use crate::server::beside::{Begun, Beside, OnLog};
use crate::store::StoreError;
use crate::store::applier::{ApplyError, Due};
use crate::store::log::Frame;

/// The work beside one writer. A clone is another handle on the same work.
#[derive(Clone, Default)]
pub(crate) struct ByHand(Arc<Mutex<Option<Hand>>>);

struct Hand {
    log: OnLog,
    /// None after a failure: the index is in doubt then.
    applying: Option<Applying>,
    /// What became due by the frame applied last, to be done before the next one.
    due: Due,
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    bytes_max: usize,
}

impl Hand {
    /// Takes a step of the machine; a failure is doubt, and its end.
    fn step<T>(&mut self, step: impl FnOnce(&mut Applying) -> Result<T, ApplyError>) -> Option<T> {
        let applying = self.applying.as_mut()?;
        match step(applying) {
            Ok(done) => Some(done),
            Err(failure) => {
                applying.watchdog().doubt.raise(&failure);
                self.applying = None;
                None
            }
        }
    }

    fn apply(&mut self) {
        self.carry_out_due();
        let Some(frame) = self.frames.pop_front() else { return };
        self.bytes = self.bytes.saturating_sub(weight(&frame));
        let now = clock::monotonic();
        let applied = self.step(|applying| {
            applying.frame(&frame, now)?;
            Ok(applying.due(now))
        });
        self.due = applied.unwrap_or(Due::Nothing);
    }

    fn carry_out_due(&mut self) {
        let due = std::mem::replace(&mut self.due, Due::Nothing);
        if due != Due::Nothing {
            self.step(|applying| applying.carry_out(due, clock::monotonic()));
        }
    }

    /// What is due now: by the last frame, else because none has come for so long.
    fn due(&self) -> Due {
        let idle = |applying: &Applying| {
            let now = clock::monotonic();
            if applying.due_at().is_some_and(|due_at| due_at <= now) { applying.due(now) } else { Due::Nothing }
        };
        match (self.due, &self.applying) {
            (Due::Nothing, Some(applying)) if self.frames.is_empty() => idle(applying),
            (due, _) => due,
        }
    }
}

impl ByHand {
    fn hand(&self) -> MutexGuard<'_, Option<Hand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lsn of the frame that [`ByHand::apply`] would apply.
    pub(crate) fn next_frame(&self) -> Option<Lsn> {
        let hand = self.hand();
        let hand = hand.as_ref().filter(|hand| hand.applying.is_some())?;
        hand.frames.front().map(|frame| frame.lsn)
    }

    /// What is to be done before the next frame is applied.
    pub(crate) fn due(&self) -> Due {
        self.hand().as_ref().filter(|hand| hand.applying.is_some()).map_or(Due::Nothing, Hand::due)
    }

    /// When something becomes due if no frame comes until then.
    #[cfg(feature = "proof")]
    pub(crate) fn due_at(&self) -> Option<std::time::Instant> {
        let hand = self.hand();
        hand.as_ref().filter(|hand| hand.frames.is_empty())?.applying.as_ref()?.due_at()
    }

    /// Whether a writer with threads would wait before it hands over the next frame.
    pub(crate) fn is_full(&self) -> bool {
        let is_full = |hand: &Hand| is_full(hand.frames.len(), hand.bytes, hand.bytes_max);
        self.hand().as_ref().is_some_and(|hand| hand.applying.is_some() && is_full(hand))
    }

    /// Applies one frame, after what is due before it.
    pub(crate) fn apply(&self) {
        if let Some(hand) = self.hand().as_mut() {
            hand.apply();
        }
    }

    /// Does what is due.
    pub(crate) fn carry_out_due(&self) {
        if let Some(hand) = self.hand().as_mut() {
            hand.due = hand.due();
            hand.carry_out_due();
        }
    }

    /// Whether the next segment is not made yet.
    pub(crate) fn wants_segment(&self) -> bool {
        self.hand().as_ref().is_some_and(|hand| hand.log.preparer.wait(std::time::Duration::ZERO))
    }

    /// Makes the next segment, where it is not made yet.
    ///
    /// # Errors
    /// Where the disk refuses; it may be tried again.
    pub(crate) fn prepare(&self) -> Result<bool, StoreError> {
        self.hand().as_ref().map_or(Ok(false), |hand| hand.log.preparer.prepare())
    }

    /// Whether there is something of the log to condense.
    #[cfg(feature = "proof")]
    pub(crate) fn wants_condensing(&self) -> bool {
        self.hand().as_ref().is_some_and(|hand| hand.log.condenser.is_due())
    }

    /// Takes a step of condensing.
    ///
    /// # Errors
    /// Where the disk refuses; it may be tried again.
    #[cfg(feature = "proof")]
    pub(crate) fn condense(&self) -> Result<bool, StoreError> {
        self.hand().as_mut().map_or(Ok(false), |hand| hand.log.condenser.step())
    }
}

impl Beside for ByHand {
    fn begin(&self, log: OnLog, applying: Applying, bytes_max: usize) -> io::Result<Box<dyn Begun>> {
        let frames = VecDeque::new();
        let hand = Hand { log, applying: Some(applying), due: Due::Nothing, frames, bytes: 0, bytes_max };
        *self.hand() = Some(hand);
        Ok(Box::new(self.clone()))
    }
}

impl Begun for ByHand {
    fn push(&mut self, frame: Arc<Frame>) {
        if let Some(hand) = self.hand().as_mut() {
            hand.bytes = hand.bytes.saturating_add(weight(&frame));
            hand.frames.push_back(frame);
        }
    }

    fn finish(self: Box<Self>, end: End) {
        let Some(mut hand) = self.hand().take() else { return };
        while hand.applying.is_some() && !hand.frames.is_empty() {
            hand.apply();
        }
        hand.carry_out_due();
        let Some(applying) = hand.applying.take() else { return };
        let watchdog = Arc::clone(applying.watchdog());
        if let Err(failure) = applying.end(end, clock::monotonic()) {
            watchdog.doubt.raise(&failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::disk::simulated::SimulatedDisk;
    use crate::disk::{Disk as _, SharedDisk};
    use crate::server::room::Room;
    use crate::server::watchdog::Watchdog;
    use crate::store::applier::{Applier, Pace, Record};
    use crate::store::engine::{Engine, Op};
    use crate::store::faulty::{Fault, FaultyEngine};
    use crate::store::log::NamesInDoubt;
    use crate::store::overlay::Overlay;
    use crate::store::tree::Tree;
    use crate::store::{Options, open};

    /// Beside the log of a new store: an index that is flushed after each frame, and may have two of them wait.
    fn begun() -> (SimulatedDisk, Arc<FaultyEngine>, ByHand, Box<dyn Begun>) {
        let disk = SimulatedDisk::new();
        let shared: SharedDisk = Arc::new(disk.clone());
        let options = Options { segment_bytes: 64 * 1024, ..Options::default() };
        let store = open(Arc::clone(&shared), Path::new("/data"), options).unwrap();
        let engine = Arc::new(FaultyEngine::new());
        let pace = Pace { checkpoint_bytes: 1, idle: Duration::from_secs(3_600), ..Pace::default() };
        let door = Arc::clone(&engine) as Arc<dyn Engine>;
        let applier = Applier::new(door, Record::new(None), pace, clock::monotonic()).unwrap();
        let room = Arc::new(Room::new(shared, "/data".into()));
        let applying = Applying::new(applier, Overlay::new(), &room, &Watchdog::by_hand());
        let by_hand = ByHand::default();
        let condenser = store.log.condenser(Box::new(|| Lsn::MAX), NamesInDoubt::default());
        let begun = by_hand
            .begin(OnLog { preparer: store.log.preparer(), condenser }, applying, 2 * weight(&frame(1)))
            .unwrap();
        (disk, engine, by_hand, begun)
    }

    fn frame(lsn: u64) -> Arc<Frame> {
        let op = Op { tree: Tree::Meta, key: "k".into(), value: Some("v".into()) };
        Arc::new(Frame { lsn: Lsn::new(lsn), ops: vec![op] })
    }

    #[test]
    fn a_step_is_taken_when_it_is_told_and_not_before() {
        let (disk, engine, by_hand, mut begun) = begun();
        let names = || disk.list(Path::new("/data/log")).unwrap().len();
        assert!(names() == 1 && by_hand.wants_segment());
        assert!(by_hand.prepare().unwrap() && !by_hand.wants_segment());
        assert_eq!(names(), 2);
        for lsn in 1..=2 {
            assert!(!by_hand.is_full());
            begun.push(frame(lsn));
        }
        assert!(by_hand.is_full());
        assert_eq!((engine.applied().unwrap(), by_hand.next_frame()), (Lsn::ZERO, Some(Lsn::new(1))));
        by_hand.apply();
        assert_eq!((engine.applied().unwrap(), by_hand.due()), (Lsn::new(1), Due::Checkpoint));
        by_hand.carry_out_due();
        assert_eq!((by_hand.next_frame(), by_hand.due()), (Some(Lsn::new(2)), Due::Nothing));
        begun.finish(End::Flushed);
        assert_eq!(engine.flush().unwrap(), Lsn::new(2));
        assert_eq!((by_hand.next_frame(), by_hand.wants_segment()), (None, false));
    }

    #[test]
    fn after_a_failure_nothing_is_done_and_nobody_waits() {
        let (_disk, engine, by_hand, mut begun) = begun();
        engine.set(Fault::Apply);
        (1..=3).for_each(|lsn| begun.push(frame(lsn)));
        by_hand.apply();
        engine.heal();
        assert!(by_hand.next_frame().is_none() && !by_hand.is_full());
        by_hand.apply();
        begun.finish(End::Flushed);
        assert_eq!(engine.applied().unwrap(), Lsn::ZERO);
    }
}
