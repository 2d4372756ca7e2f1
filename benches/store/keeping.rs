//! A store at work: a writer that commits, a thread that applies, makes checkpoints and recycles, and, where it is asked
//! for, one that condenses the log, as the server's do. What its queue holds is bounded as the server's is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use gaggle::disk::real::RealDisk;
use gaggle::ids::Lsn;
use gaggle::limits;
use gaggle::store::applier::{Applier, Due, Pace, Record};
use gaggle::store::engine::{Engine, Op};
use gaggle::store::index::{Settings, SledIndex};
use gaggle::store::log::{Condenser, Frame, LogWriter, NamesInDoubt};
use gaggle::store::overlay::Overlay;
use gaggle::store::{self, Opened, Options};

/// Frames that wait at the most, beside the bound on bytes.
const FRAMES_MAX: usize = 65_536;
/// How often is looked whether there is something to condense.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What the applying thread is at.
#[derive(Default)]
pub struct Progress {
    waiting_bytes: AtomicU64,
    pub checkpointing: AtomicBool,
    pub checkpoints: Mutex<Vec<Duration>>,
    pub recycles: Mutex<Vec<Duration>>,
    /// Steps of condensing that did something.
    pub condensed: AtomicU64,
    ended: AtomicBool,
}

/// An open store and its threads.
pub struct Keeping {
    pub folder: PathBuf,
    pub log: LogWriter,
    pub engine: Arc<dyn Engine>,
    pub overlay: Overlay,
    pub progress: Arc<Progress>,
    frames: Sender<Arc<Frame>>,
    thread: JoinHandle<Applier>,
    durable: Record,
    condensing: Option<JoinHandle<()>>,
}

/// Opens the store of a folder, with the index on disk.
pub fn open(folder: &Path) -> Opened {
    let index = Arc::new(SledIndex::new(folder, Settings::default()));
    store::open(Arc::new(RealDisk), folder, Options { index, ..Options::default() }).unwrap()
}

impl Keeping {
    pub fn start(folder: &Path) -> Keeping {
        Keeping::with(folder, open(folder), Pace::default())
    }

    pub fn with(folder: &Path, opened: Opened, pace: Pace) -> Keeping {
        let record = Record::new(opened.flushed);
        let durable = record.clone();
        let applier = Applier::new(Arc::clone(&opened.engine), record, pace, Instant::now()).unwrap();
        let (frames, received) = crossbeam_channel::bounded(FRAMES_MAX);
        let (overlay, progress) = (Overlay::new(), Arc::new(Progress::default()));
        let (forgetting, noting) = (overlay.clone(), Arc::clone(&progress));
        let thread = std::thread::spawn(move || apply(applier, &received, &forgetting, &noting));
        let (log, engine, folder) = (opened.log, opened.engine, folder.to_owned());
        Keeping { folder, log, engine, overlay, progress, frames, thread, durable, condensing: None }
    }

    /// Condenses the log from here on.
    pub fn condense(&mut self) {
        let (durable, noting) = (self.durable.clone(), Arc::clone(&self.progress));
        let condenser = self.log.condenser(Box::new(move || durable.lsn()), NamesInDoubt::default());
        self.condensing = Some(std::thread::spawn(move || condense(condenser, &noting)));
    }

    /// Whether a commit would have to wait for the index.
    pub fn is_full(&self) -> bool {
        self.progress.waiting_bytes.load(Ordering::Relaxed) > limits::OVERLAY_BYTES_MAX as u64
    }

    /// Makes a frame durable and hands it on; says how long that took, waiting for the index included.
    pub fn commit(&mut self, ops: Vec<Op>) -> (Lsn, Duration) {
        let since = Instant::now();
        while self.is_full() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let lsn = self.log.append(&ops).unwrap();
        self.log.sync().unwrap();
        let frame = Arc::new(Frame { lsn, ops });
        self.overlay.insert(Arc::clone(&frame));
        self.progress.waiting_bytes.fetch_add(weight(&frame), Ordering::Relaxed);
        self.frames.send(frame).unwrap();
        (lsn, since.elapsed())
    }

    /// Waits until the index has caught up.
    pub fn settle(&self) {
        while self.progress.waiting_bytes.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A clean stop: seal, last checkpoint.
    pub fn stop(mut self) {
        self.progress.ended.store(true, Ordering::Relaxed);
        if let Some(condensing) = self.condensing {
            condensing.join().unwrap();
        }
        let lsn = self.log.seal().unwrap();
        self.frames.send(Arc::new(Frame { lsn, ops: Vec::new() })).unwrap();
        drop(self.frames);
        let mut applier = self.thread.join().unwrap();
        applier.finish().unwrap();
    }
}

fn apply(mut applier: Applier, frames: &Receiver<Arc<Frame>>, overlay: &Overlay, progress: &Progress) -> Applier {
    loop {
        match frames.recv_timeout(Duration::from_millis(100)) {
            Ok(frame) => {
                let applied = applier.step(&frame, Instant::now()).unwrap();
                overlay.forget(applied);
                progress.waiting_bytes.fetch_sub(weight(&frame), Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return applier,
        }
        let since = Instant::now();
        progress.checkpointing.store(true, Ordering::Relaxed);
        match applier.due(since) {
            Due::Nothing => {}
            Due::Checkpoint => {
                applier.checkpoint(since).unwrap();
                progress.checkpoints.lock().unwrap().push(since.elapsed());
            }
            Due::Recycling => {
                applier.recycle(since).unwrap();
                progress.recycles.lock().unwrap().push(since.elapsed());
            }
        }
        progress.checkpointing.store(false, Ordering::Relaxed);
    }
}

/// Rests as long as each step took, as the server does.
fn condense(mut condenser: Condenser, progress: &Progress) {
    while !progress.ended.load(Ordering::Relaxed) {
        let since = Instant::now();
        let has_done = condenser.step().unwrap();
        progress.condensed.fetch_add(u64::from(has_done), Ordering::Relaxed);
        std::thread::sleep(if has_done { since.elapsed() } else { LOOK_INTERVAL });
    }
}

fn weight(frame: &Frame) -> u64 {
    let bytes = |op: &Op| op.key.len() + op.value.as_ref().map_or(0, bytes::Bytes::len) + limits::OVERLAY_ROW_BYTES;
    frame.ops.iter().map(bytes).sum::<usize>() as u64
}

/// Bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_below(&entry.path()),
        // What was allocated, not how long it says it is.
        Ok(data) => std::os::unix::fs::MetadataExt::blocks(&data) * 512,
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// Resident memory of this process, in MB.
pub fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
