//! Locks and threads that are shuttle's where a test is run by [`check`], and the standard library's everywhere else.
//!
//! What a test makes under [`check`] belongs to that run alone. A wait with a timeout may end at any time there, without
//! being woken: no clock says when. What takes no lock from here is not interleaved.

use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LockResult, PoisonError};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Changes of threads that a schedule of the second kind forces: few faults need more.
const DEPTH: usize = 4;
/// A schedule with more steps than this does not end.
const STEPS_MAX: usize = 200_000;
/// Of a thread.
const STACK_BYTES: usize = 512 * 1024;

thread_local! {
    static SCHEDULED: Cell<bool> = const { Cell::new(false) };
    /// Threads that this one may still start.
    static MAY_START: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Threads that this one has started and that have not ended.
    static RUNNING: Arc<AtomicUsize> = Arc::default();
}

/// Lets this thread start so many others; those after them fail to start.
pub(crate) fn let_start(threads: usize) {
    MAY_START.set(threads);
}

/// How many threads that this one has started have not ended.
pub(crate) fn running() -> usize {
    RUNNING.with(|running| running.load(Ordering::SeqCst))
}

/// Runs a test under so many random schedules, and as many in which few changes of threads stand at random places;
/// `GAGGLE_TEST_SCALE` times as many. Prints the schedule that a test fails under.
pub(crate) fn check(schedules: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    let scale = std::env::var("GAGGLE_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    run(RandomScheduler::new(schedules * scale), test.clone());
    run(PctScheduler::new(DEPTH, schedules * scale), test);
}

fn run(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let _under_schedule = UnderSchedule::begin();
    Runner::new(scheduler, config).run(test);
}

/// As long as this lives, what is made is made for the scheduler.
struct UnderSchedule;

impl UnderSchedule {
    fn begin() -> UnderSchedule {
        SCHEDULED.set(true);
        UnderSchedule
    }
}

impl Drop for UnderSchedule {
    fn drop(&mut self) {
        SCHEDULED.set(false);
    }
}

/// Lets another thread go on, where a scheduler decides that.
pub(crate) fn step() {
    if SCHEDULED.get() {
        shuttle::thread::yield_now();
    }
}

/// One of the two.
#[derive(Debug)]
enum Either<S, T> {
    System(S),
    Scheduled(T),
}

fn wrap<A, B>(result: LockResult<A>, wrap: impl Fn(A) -> B) -> LockResult<B> {
    result.map(&wrap).map_err(|poisoned| PoisonError::new(wrap(poisoned.into_inner())))
}

/// Guards that lead to what they guard.
macro_rules! guard {
    ($guard:ident) => {
        impl<T> Deref for $guard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                match &self.0 {
                    Either::System(guard) => guard,
                    Either::Scheduled(guard) => guard,
                }
            }
        }
    };
    (mut $guard:ident) => {
        guard!($guard);

        impl<T> DerefMut for $guard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                match &mut self.0 {
                    Either::System(guard) => guard,
                    Either::Scheduled(guard) => guard,
                }
            }
        }
    };
}

/// See [`std::sync::Mutex`].
#[derive(Debug)]
pub(crate) struct Mutex<T>(Either<std::sync::Mutex<T>, shuttle::sync::Mutex<T>>);

/// See [`std::sync::MutexGuard`].
pub(crate) struct MutexGuard<'a, T>(
    Either<std::sync::MutexGuard<'a, T>, shuttle::sync::MutexGuard<'a, T>>,
    &'a Mutex<T>,
);

guard!(mut MutexGuard);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(if SCHEDULED.get() {
            Either::Scheduled(shuttle::sync::Mutex::new(value))
        } else {
            Either::System(std::sync::Mutex::new(value))
        })
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match &self.0 {
            Either::System(mutex) => wrap(mutex.lock(), |guard| MutexGuard(Either::System(guard), self)),
            Either::Scheduled(mutex) => wrap(mutex.lock(), |guard| MutexGuard(Either::Scheduled(guard), self)),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

/// See [`std::sync::Condvar`].
#[derive(Debug)]
pub(crate) struct Condvar(Either<std::sync::Condvar, shuttle::sync::Condvar>);

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(if SCHEDULED.get() {
            Either::Scheduled(shuttle::sync::Condvar::new())
        } else {
            Either::System(std::sync::Condvar::new())
        })
    }

    pub(crate) fn notify_one(&self) {
        match &self.0 {
            Either::System(condvar) => condvar.notify_one(),
            Either::Scheduled(condvar) => condvar.notify_one(),
        }
    }

    pub(crate) fn notify_all(&self) {
        match &self.0 {
            Either::System(condvar) => condvar.notify_all(),
            Either::Scheduled(condvar) => condvar.notify_all(),
        }
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard(held, mutex) = guard;
        match (&self.0, held) {
            (Either::System(condvar), Either::System(held)) => {
                wrap(condvar.wait(held), |guard| MutexGuard(Either::System(guard), mutex))
            }
            (Either::Scheduled(condvar), Either::Scheduled(held)) => {
                wrap(condvar.wait(held), |guard| MutexGuard(Either::Scheduled(guard), mutex))
            }
            (Either::System(_), Either::Scheduled(_)) | (Either::Scheduled(_), Either::System(_)) => {
                panic!("a lock of another run")
            }
        }
    }

    /// Whether it timed out is not told: nobody asks.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        let MutexGuard(held, mutex) = guard;
        match (&self.0, held) {
            (Either::System(condvar), Either::System(held)) => {
                wrap(condvar.wait_timeout(held, timeout), |(guard, _)| (MutexGuard(Either::System(guard), mutex), ()))
            }
            (_, held) => {
                drop(held);
                step();
                wrap(mutex.lock(), |guard| (guard, ()))
            }
        }
    }

    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        let MutexGuard(held, mutex) = guard;
        match (&self.0, held) {
            (Either::System(condvar), Either::System(held)) => {
                let waited = condvar.wait_timeout_while(held, timeout, waits);
                wrap(waited, |(guard, _)| (MutexGuard(Either::System(guard), mutex), ()))
            }
            (_, mut held) => {
                let waits = match &mut held {
                    Either::System(guard) => waits(guard),
                    Either::Scheduled(guard) => waits(guard),
                };
                if !waits {
                    return Ok((MutexGuard(held, mutex), ()));
                }
                drop(held);
                step();
                wrap(mutex.lock(), |guard| (guard, ()))
            }
        }
    }
}

/// See [`std::sync::RwLock`].
#[derive(Debug)]
pub(crate) struct RwLock<T>(Either<std::sync::RwLock<T>, shuttle::sync::RwLock<T>>);

/// See [`std::sync::RwLockReadGuard`].
pub(crate) struct RwLockReadGuard<'a, T>(
    Either<std::sync::RwLockReadGuard<'a, T>, shuttle::sync::RwLockReadGuard<'a, T>>,
);

/// See [`std::sync::RwLockWriteGuard`].
pub(crate) struct RwLockWriteGuard<'a, T>(
    Either<std::sync::RwLockWriteGuard<'a, T>, shuttle::sync::RwLockWriteGuard<'a, T>>,
);

guard!(RwLockReadGuard);
guard!(mut RwLockWriteGuard);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(if SCHEDULED.get() {
            Either::Scheduled(shuttle::sync::RwLock::new(value))
        } else {
            Either::System(std::sync::RwLock::new(value))
        })
    }

    pub(crate) fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        match &self.0 {
            Either::System(lock) => wrap(lock.read(), |guard| RwLockReadGuard(Either::System(guard))),
            Either::Scheduled(lock) => wrap(lock.read(), |guard| RwLockReadGuard(Either::Scheduled(guard))),
        }
    }

    pub(crate) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        match &self.0 {
            Either::System(lock) => wrap(lock.write(), |guard| RwLockWriteGuard(Either::System(guard))),
            Either::Scheduled(lock) => wrap(lock.write(), |guard| RwLockWriteGuard(Either::Scheduled(guard))),
        }
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

/// See [`std::sync::atomic::AtomicBool`].
#[derive(Debug)]
pub(crate) struct AtomicBool(std::sync::atomic::AtomicBool);

impl AtomicBool {
    pub(crate) const fn new(value: bool) -> AtomicBool {
        AtomicBool(std::sync::atomic::AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        step();
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        step();
        self.0.store(value, order);
    }
}

/// See [`std::thread::Builder`].
pub(crate) struct Builder(Either<std::thread::Builder, shuttle::thread::Builder>);

/// See [`std::thread::JoinHandle`].
pub(crate) struct JoinHandle<T>(Either<std::thread::JoinHandle<T>, shuttle::thread::JoinHandle<T>>);

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder(if SCHEDULED.get() {
            Either::Scheduled(shuttle::thread::Builder::new())
        } else {
            Either::System(std::thread::Builder::new())
        })
    }

    pub(crate) fn name(self, name: String) -> Builder {
        Builder(match self.0 {
            Either::System(builder) => Either::System(builder.name(name)),
            Either::Scheduled(builder) => Either::Scheduled(builder.name(name)),
        })
    }

    pub(crate) fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        MAY_START.set(MAY_START.get().checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?);
        let running = RUNNING.with(Arc::clone);
        running.fetch_add(1, Ordering::SeqCst);
        let body = move || {
            let done = body();
            running.fetch_sub(1, Ordering::SeqCst);
            done
        };
        Ok(JoinHandle(match self.0 {
            Either::System(builder) => Either::System(builder.spawn(body)?),
            Either::Scheduled(builder) => Either::Scheduled(builder.spawn(body)?),
        }))
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn join(self) -> std::thread::Result<T> {
        match self.0 {
            Either::System(handle) => handle.join(),
            Either::Scheduled(handle) => handle.join(),
        }
    }
}
