//! Notices an index that does not come back: whoever works on it says so, and a task looks whether they get on.
//!
//! Time is counted in looks, not by a clock: a process that was stopped for an hour and goes on has not stalled for an
//! hour. A thread that hangs is left behind; it cannot be ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits;
use crate::server::doubt::Doubt;

/// Looks that must find the same work under way before it counts as stalled: few enough to cost nothing, enough for one
/// of them to be late.
const LOOKS: u32 = 20;

/// What is being done with the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A batch.
    Applying = 1,
    /// A flush.
    Flushing = 2,
    /// Closing and opening it anew.
    Recycling = 3,
    /// A page.
    Reading = 4,
    /// Closing it for good.
    Closing = 5,
}

impl Work {
    /// How many times as long as other work it may take: opening anew waits for readers, and sled syncs the whole
    /// machine, under a guard of its own.
    const fn patience(self) -> u32 {
        match self {
            Work::Recycling => 5,
            Work::Applying | Work::Flushing | Work::Reading | Work::Closing => 1,
        }
    }

    const ALL: [Work; 5] = [Work::Applying, Work::Flushing, Work::Recycling, Work::Reading, Work::Closing];
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Work::Applying => "a batch is applied",
            Work::Flushing => "it is flushed",
            Work::Recycling => "it is opened anew",
            Work::Reading => "a page is read",
            Work::Closing => "it is closed",
        })
    }
}

/// What one thread does with the index: a number that is another for each piece of work, and which work it is; no work
/// where the last byte is zero.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU64);

struct AtWork<'a>(&'a Pulse);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        // Only the thread itself writes.
        let now = self.0.0.load(Ordering::Relaxed);
        self.0.0.store((now | 0xff).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Pulse {
    /// Does this piece of work.
    pub(crate) fn during<T>(&self, work: Work, body: impl FnOnce() -> T) -> T {
        self.0.store(self.0.load(Ordering::Relaxed) | work as u64, Ordering::Relaxed);
        let _at_work = AtWork(self);
        body()
    }

    fn beat(&self) -> (u64, Option<Work>) {
        let beat = self.0.load(Ordering::Relaxed);
        (beat, Work::ALL.into_iter().find(|work| *work as u64 == beat & 0xff))
    }
}

/// The guard over the index of one server.
pub(crate) struct Watchdog {
    /// Raised by whoever meets a failure, or here.
    pub(crate) doubt: Doubt,
    /// The applier.
    pub(crate) applier: Pulse,
    /// The writer, where it reads an item again.
    pub(crate) writer: Pulse,
    /// The readers.
    pub(crate) readers: [Pulse; limits::READER_THREADS],
    /// How long any work may take.
    stall: Duration,
}

impl Watchdog {
    /// A guard that takes what lasts longer than this for a stall.
    pub(crate) fn new(stall: Duration) -> Arc<Watchdog> {
        Watchdog::over(stall, Doubt::none())
    }

    /// A guard where every step is taken by hand: no thread records a doubt, and nobody looks for stalls.
    #[cfg(feature = "proof")]
    pub(crate) fn by_hand() -> Arc<Watchdog> {
        Watchdog::over(Duration::MAX, Doubt::none_by_hand())
    }

    fn over(stall: Duration, doubt: Doubt) -> Arc<Watchdog> {
        Arc::new(Watchdog {
            doubt,
            applier: Pulse::default(),
            writer: Pulse::default(),
            readers: std::array::from_fn(|_| Pulse::default()),
            stall,
        })
    }

    /// Looks again and again until there is doubt.
    pub(crate) async fn run(self: Arc<Watchdog>) {
        let mut looks = Looks::default();
        while !self.doubt.is_raised() {
            tokio::time::sleep(self.stall / LOOKS).await;
            if let Some(work) = looks.look([&self.applier, &self.writer].into_iter().chain(&self.readers)) {
                let ms = (self.stall * work.patience()).as_millis();
                self.doubt.raise(&format!("the index has stalled: for more than {ms} ms {work}"));
            }
        }
    }
}

/// What the looks before have seen of each pulse, and how often in a row.
#[derive(Default)]
struct Looks(Vec<(u64, u32)>);

impl Looks {
    /// Looks once; gives work that has not come to its end for too long.
    fn look<'a>(&mut self, pulses: impl Iterator<Item = &'a Pulse>) -> Option<Work> {
        let mut stalled = None;
        for (index, pulse) in pulses.enumerate() {
            let (beat, work) = pulse.beat();
            match self.0.get_mut(index) {
                Some((last, times)) if *last == beat => *times = times.saturating_add(1),
                Some(seen) => *seen = (beat, 0),
                None => self.0.push((beat, 0)),
            }
            let times = self.0.get(index).map_or(0, |(_, times)| *times);
            stalled = stalled.or(work.filter(|work| times >= LOOKS * work.patience()));
        }
        stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_end_is_a_stall_and_neither_much_work_nor_none_is() {
        let pulses = [Pulse::default(), Pulse::default(), Pulse::default()];
        let mut looks = Looks::default();
        for _ in 0..10 * LOOKS {
            pulses[0].during(Work::Applying, || {
                assert_eq!(looks.look(pulses.iter()), None);
            });
        }
        pulses[1].during(Work::Reading, || {
            for _ in 0..LOOKS {
                assert_eq!(looks.look(pulses.iter()), None);
            }
            assert_eq!(looks.look(pulses.iter()), Some(Work::Reading));
        });
    }

    #[tokio::test]
    async fn a_stall_is_told_with_what_was_done() {
        let watchdog = Watchdog::new(Duration::from_millis(20));
        let looking = tokio::spawn(Arc::clone(&watchdog).run());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let at_work = Arc::clone(&watchdog);
        let working = std::thread::spawn(move || at_work.applier.during(Work::Flushing, || ended.recv()));
        let why = watchdog.doubt.raised().await;
        assert_eq!(why, "the index has stalled: for more than 20 ms it is flushed");
        watchdog.doubt.recorded().await;
        looking.await.unwrap();
        drop(end);
        assert!(working.join().unwrap().is_err());
    }

    #[test]
    fn a_piece_of_work_that_panics_has_ended() {
        let pulse = Pulse::default();
        let panicked = std::panic::catch_unwind(|| pulse.during(Work::Reading, || panic!("told to")));
        assert!(panicked.is_err());
        assert_eq!(pulse.beat().1, None);
    }
}
