//! A disk in memory that can lose power, fail and fill up, for tests and simulators.
//!
//! It keeps no more of its promises than [`super`] assumes of a disk. After [`SimulatedDisk::crash`] or
//! [`SimulatedDisk::kill`] every older handle fails, as a process would be gone; the handle returned sees what is left.
//! It is not a model of speed.

mod content;
#[cfg(feature = "proof")]
mod holding;
mod names;
mod operation;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rand::SeedableRng;
use rand::rngs::StdRng;

use self::content::Content;
use self::names::{NameChange, NameChanges};
pub use self::operation::{Counts, Operation};
use crate::disk::{Disk, DiskError, File, Lock};

/// A simulated disk. A clone is another handle on the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
    generation: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

type Node = Arc<Mutex<Content>>;

#[derive(Debug)]
struct State {
    generation: u64,
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    changes: NameChanges,
    folders: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    faults: Faults,
    counts: Counts,
    trace: Option<Vec<Operation>>,
    free_bytes: u64,
}

/// What is to go wrong.
#[derive(Debug, Default)]
struct Faults {
    writes: Option<Fault>,
    syncs: Option<Fault>,
    held: Option<String>,
    /// Changes that are still made; then the power is gone.
    changes_left: Option<u64>,
}

/// The part of a path that something concerns, how often it passes first, and how often it fails then.
#[derive(Debug)]
struct Fault {
    path_part: String,
    passing: u64,
    failing: u64,
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    path: PathBuf,
    node: Node,
}

#[derive(Debug)]
struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.whole();
        if state.generation == self.disk.generation {
            state.locks.remove(&self.path);
        }
    }
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SimulatedDisk(generation {})", self.generation)
    }
}

impl Default for SimulatedDisk {
    fn default() -> SimulatedDisk {
        SimulatedDisk::new()
    }
}

fn content(node: &Node) -> MutexGuard<'_, Content> {
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error(action: &'static str, path: &Path, kind: ErrorKind, why: &str) -> DiskError {
    DiskError { action, path: path.to_owned(), source: io::Error::new(kind, why.to_owned()) }
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn index(action: &'static str, path: &Path, offset: u64) -> Result<usize, DiskError> {
    usize::try_from(offset).map_err(|_| error(action, path, ErrorKind::InvalidInput, "beyond any file"))
}

fn above(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Uses up one fault, if it concerns this path.
fn strikes(fault: &mut Option<Fault>, path: &Path) -> bool {
    let Some(Fault { path_part, passing, failing }) = fault else { return false };
    if !path.to_string_lossy().contains(path_part.as_str()) {
        return false;
    }
    if *passing > 0 {
        *passing -= 1;
        return false;
    }
    let strikes = *failing > 0;
    *failing = failing.saturating_sub(1);
    strikes
}

impl SimulatedDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> SimulatedDisk {
        let state = State {
            generation: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: NameChanges::default(),
            folders: ["", "/", "."].map(PathBuf::from).into(),
            locks: BTreeSet::new(),
            faults: Faults::default(),
            counts: Counts::default(),
            trace: None,
            free_bytes: u64::MAX / 2,
        };
        SimulatedDisk { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }), generation: 0 }
    }

    /// A power loss: synced bytes and names stay; of the rest anything may be kept, lost or torn, as the seed has it.
    /// Locks are released, faults are gone, and every older handle fails.
    #[must_use = "older handles fail from here on"]
    pub fn crash(&self, seed: u64) -> SimulatedDisk {
        let mut random = StdRng::seed_from_u64(seed);
        let mut state = self.whole();
        let mut names = std::mem::take(&mut state.durable_names);
        state.changes.crash(&mut names, &mut random);
        names.values().for_each(|node| content(node).crash(&mut random));
        state.names = names.clone();
        state.durable_names = names;
        self.begin_again(&mut state)
    }

    /// The end of the process alone: whatever was written is kept, as the system has it, though nothing more is
    /// durable than before. Locks are released, faults are gone, and every older handle fails.
    #[must_use = "older handles fail from here on"]
    pub fn kill(&self) -> SimulatedDisk {
        self.begin_again(&mut self.whole())
    }

    fn begin_again(&self, state: &mut State) -> SimulatedDisk {
        state.generation += 1;
        state.locks.clear();
        state.faults = Faults::default();
        self.shared.changed.notify_all();
        SimulatedDisk { shared: Arc::clone(&self.shared), generation: state.generation }
    }

    /// The next writes of files whose path has this part fail, after half of the bytes.
    pub fn fail_writes(&self, count: u64, path_part: &str) {
        self.fail_writes_after(0, count, path_part);
    }

    /// The same of those after the next few.
    pub fn fail_writes_after(&self, passing: u64, failing: u64, path_part: &str) {
        self.whole().faults.writes = Some(Fault { path_part: path_part.to_owned(), passing, failing });
    }

    /// The next syncs of files or folders whose path has this part fail. What they were to make durable stays doubtful
    /// for ever, even if a later sync succeeds, unless it is written again.
    pub fn fail_syncs(&self, count: u64, path_part: &str) {
        self.fail_syncs_after(0, count, path_part);
    }

    /// The same of those after the next few.
    pub fn fail_syncs_after(&self, passing: u64, failing: u64, path_part: &str) {
        self.whole().faults.syncs = Some(Fault { path_part: path_part.to_owned(), passing, failing });
    }

    /// After this many more changes (of bytes, lengths, names or durability) everything fails, as if the power had gone
    /// at that moment, until a crash or a kill; so a test can end a program at each of its steps.
    pub fn stop_after(&self, changes: u64) {
        self.whole().faults.changes_left = Some(changes);
    }

    /// Whether [`SimulatedDisk::stop_after`] has come to its end: nothing works any more.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.whole().faults.changes_left == Some(0)
    }

    /// Syncs of files whose path has this part wait until [`SimulatedDisk::release_syncs`], or a crash.
    pub fn hold_syncs(&self, path_part: &str) {
        self.whole().faults.held = Some(path_part.to_owned());
    }

    /// Ends what [`SimulatedDisk::hold_syncs`] began.
    pub fn release_syncs(&self) {
        self.whole().faults.held = None;
        self.shared.changed.notify_all();
    }

    /// Leaves this many bytes free. What extends a file uses them up.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.whole().free_bytes = bytes;
    }

    /// How often what was done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.whole().counts
    }

    /// Records every operation from here on; forgets those before.
    pub fn record(&self) {
        self.whole().trace = Some(Vec::new());
    }

    /// Puts a mark into the record.
    pub fn note(&self, text: &str) {
        self.whole().note(|| Operation::Note(text.to_owned()));
    }

    /// Takes what was recorded, and goes on recording.
    #[must_use]
    pub fn recorded(&self) -> Vec<Operation> {
        self.whole().trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn whole(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a handle that is still alive.
    fn alive(&self, action: &'static str, path: &Path) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.whole();
        self.check_generation(&state, action, path)?;
        if state.faults.changes_left == Some(0) {
            return Err(error(action, path, ErrorKind::Other, "the simulated machine has lost its power"));
        }
        Ok(state)
    }

    /// The state, for a handle that is still alive and is going to change something.
    fn changing(&self, action: &'static str, path: &Path) -> Result<MutexGuard<'_, State>, DiskError> {
        let mut state = self.alive(action, path)?;
        if let Some(left) = &mut state.faults.changes_left {
            *left -= 1;
        }
        Ok(state)
    }

    fn check_generation(&self, state: &State, action: &'static str, path: &Path) -> Result<(), DiskError> {
        if state.generation == self.generation {
            Ok(())
        } else {
            Err(error(action, path, ErrorKind::Other, "the simulated machine was switched off"))
        }
    }

    fn file(&self, path: &Path, node: &Node) -> Box<dyn File> {
        Box::new(SimulatedFile { disk: self.clone(), path: path.to_owned(), node: Arc::clone(node) })
    }
}

impl State {
    fn note(&mut self, operation: impl FnOnce() -> Operation) {
        if let Some(trace) = &mut self.trace {
            trace.push(operation());
        }
    }

    fn make_file(&mut self, action: &'static str, path: &Path) -> Result<Node, DiskError> {
        if !self.folders.contains(above(path)) {
            return Err(error(action, path, ErrorKind::NotFound, "no such folder"));
        }
        if self.names.contains_key(path) || self.folders.contains(path) {
            return Err(error(action, path, ErrorKind::AlreadyExists, "exists"));
        }
        let node = Node::default();
        self.names.insert(path.to_owned(), Arc::clone(&node));
        self.changes.push(NameChange::Create(path.to_owned(), Arc::clone(&node)));
        self.note(|| Operation::Create(path.to_owned()));
        Ok(node)
    }

    /// Takes room for a file that grows, or gives it back.
    fn resize(&mut self, action: &'static str, path: &Path, from: usize, to: usize) -> Result<(), DiskError> {
        let free = self.free_bytes.saturating_add(size(from));
        match free.checked_sub(size(to)) {
            Some(left) => {
                self.free_bytes = left;
                Ok(())
            }
            None => Err(error(action, path, ErrorKind::StorageFull, "no space left on the simulated disk")),
        }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> Result<Box<dyn File>, DiskError> {
        let state = self.alive("open", path)?;
        let node = state.names.get(path).ok_or_else(|| error("open", path, ErrorKind::NotFound, "no such file"))?;
        Ok(self.file(path, node))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn File>, DiskError> {
        let node = self.changing("create", path)?.make_file("create", path)?;
        Ok(self.file(path, &node))
    }

    fn create_folder(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.changing("create folder", path)?;
        for folder in path.ancestors() {
            if state.names.contains_key(folder) {
                return Err(error("create folder", folder, ErrorKind::AlreadyExists, "is a file"));
            }
        }
        state.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        let state = self.alive("list", path)?;
        if !state.folders.contains(path) {
            return Err(error("list", path, ErrorKind::NotFound, "no such folder"));
        }
        let name = |entry: &PathBuf| entry.file_name().map(|name| name.to_string_lossy().into_owned());
        let entries = state.names.keys().chain(&state.folders);
        let mut names: Vec<String> = entries.filter(|entry| entry.parent() == Some(path)).filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool, DiskError> {
        let state = self.alive("look for", path)?;
        Ok(state.names.contains_key(path) || state.folders.contains(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut state = self.changing("rename", from)?;
        if !state.folders.contains(above(to)) || state.folders.contains(to) {
            return Err(error("rename", to, ErrorKind::NotFound, "no such place"));
        }
        let node = state.names.remove(from);
        let node = node.ok_or_else(|| error("rename", from, ErrorKind::NotFound, "no such file"))?;
        if let Some(replaced) = state.names.insert(to.to_owned(), Arc::clone(&node)) {
            let length = content(&replaced).len();
            state.free_bytes = state.free_bytes.saturating_add(size(length));
        }
        state.changes.push(NameChange::Rename(from.to_owned(), to.to_owned(), node));
        state.note(|| Operation::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.changing("remove", path)?;
        let node = state.names.remove(path);
        let node = node.ok_or_else(|| error("remove", path, ErrorKind::NotFound, "no such file"))?;
        let length = content(&node).len();
        state.free_bytes = state.free_bytes.saturating_add(size(length));
        state.changes.push(NameChange::Remove(path.to_owned()));
        state.note(|| Operation::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.changing("sync", path)?;
        let State { faults, changes, durable_names, .. } = &mut *state;
        if strikes(&mut faults.syncs, path) {
            changes.fail_sync(path);
            return Err(error("sync", path, ErrorKind::Other, "the simulated disk failed"));
        }
        changes.sync(path, durable_names);
        state.counts.folder_syncs += 1;
        state.note(|| Operation::SyncFolder(path.to_owned()));
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        Ok(self.alive("ask for free space below", path)?.free_bytes)
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn Lock>>, DiskError> {
        let mut state = self.changing("lock", path)?;
        let node = match state.names.get(path) {
            Some(node) => Arc::clone(node),
            None => state.make_file("lock", path)?,
        };
        if !state.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        let mut content = content(&node);
        content.set_len(0);
        content.write(0, std::process::id().to_string().as_bytes());
        Ok(Some(Box::new(SimulatedLock { disk: self.clone(), path: path.to_owned() })))
    }
}

impl File for SimulatedFile {
    fn len(&self) -> Result<u64, DiskError> {
        let _state = self.disk.alive("read", &self.path)?;
        Ok(size(content(&self.node).len()))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        let _state = self.disk.alive("read", &self.path)?;
        let offset = index("read", &self.path, offset)?;
        if content(&self.node).read(offset, bytes) {
            return Ok(());
        }
        Err(error("read", &self.path, ErrorKind::UnexpectedEof, "the file is too short"))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.disk.changing("write", &self.path)?;
        let place = index("write", &self.path, offset)?;
        let mut content = content(&self.node);
        if strikes(&mut state.faults.writes, &self.path) {
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            let length = content.len();
            state.resize("write", &self.path, length, length.max(place.saturating_add(half.len())))?;
            content.write(place, half);
            return Err(error("write", &self.path, ErrorKind::Other, "the simulated disk failed"));
        }
        let length = content.len();
        state.resize("write", &self.path, length, length.max(place.saturating_add(bytes.len())))?;
        content.write(place, bytes);
        state.counts.writes += 1;
        state.counts.bytes_written += size(bytes.len());
        state.note(|| Operation::Write { path: self.path.clone(), offset, bytes: size(bytes.len()) });
        Ok(())
    }

    fn set_len(&mut self, bytes: u64) -> Result<(), DiskError> {
        let mut state = self.disk.changing("resize", &self.path)?;
        let length = index("resize", &self.path, bytes)?;
        let mut content = content(&self.node);
        state.resize("resize", &self.path, content.len(), length)?;
        content.set_len(length);
        state.note(|| Operation::SetLen(self.path.clone(), bytes));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        let mut state = self.disk.changing("sync", &self.path)?;
        while state.faults.held.as_ref().is_some_and(|part| self.path.to_string_lossy().contains(part.as_str())) {
            state = self.disk.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.disk.check_generation(&state, "sync", &self.path)?;
        }
        if strikes(&mut state.faults.syncs, &self.path) {
            content(&self.node).fail_sync();
            return Err(error("sync", &self.path, ErrorKind::Other, "the simulated disk failed"));
        }
        content(&self.node).sync();
        state.counts.syncs += 1;
        state.note(|| Operation::Sync(self.path.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_its_folder_is_synced_and_may_vanish_before() {
        let (mut kept, mut gone) = (0, 0);
        for seed in 0..60 {
            let disk = SimulatedDisk::new();
            let folder = Path::new("/data");
            disk.create_folder(folder).unwrap();
            disk.create(&folder.join("synced")).unwrap();
            disk.sync_folder(folder).unwrap();
            disk.create(&folder.join("new")).unwrap();
            let disk = disk.crash(seed);
            let names = disk.list(folder).unwrap();
            assert!(names.contains(&"synced".to_owned()));
            match names.len() {
                1 => gone += 1,
                _ => kept += 1,
            }
        }
        assert!(kept > 5 && gone > 5, "{kept} {gone}");
    }

    #[test]
    fn a_rename_is_whole_or_not_at_all() {
        let path = |name: &str| Path::new("/data").join(name);
        for seed in 0..60 {
            let disk = SimulatedDisk::new();
            disk.create_folder(Path::new("/data")).unwrap();
            for (name, bytes) in [("a", b"1"), ("b", b"2")] {
                let mut file = disk.create(&path(name)).unwrap();
                file.write_at(0, bytes).unwrap();
                file.sync().unwrap();
            }
            disk.sync_folder(Path::new("/data")).unwrap();
            disk.rename(&path("a"), &path("b")).unwrap();
            let disk = disk.crash(seed);
            let mut byte = [0];
            disk.open(&path("b")).unwrap().read_at(0, &mut byte).unwrap();
            assert_eq!(&byte, if disk.exists(&path("a")).unwrap() { b"2" } else { b"1" });
        }
    }

    #[test]
    fn a_rename_whose_folder_failed_to_sync_stays_in_doubt_unless_it_is_made_again() {
        let (folder, old, new) = (Path::new("/data"), Path::new("/data/a"), Path::new("/data/a.new"));
        let written = |disk: &SimulatedDisk, path: &Path, byte: u8| {
            let mut file = disk.create(path).unwrap();
            file.write_at(0, &[byte]).unwrap();
            file.sync().unwrap();
        };
        let mut back = 0;
        for seed in 0..60 {
            let disk = SimulatedDisk::new();
            disk.create_folder(folder).unwrap();
            written(&disk, old, 1);
            disk.sync_folder(folder).unwrap();
            disk.fail_syncs_after(1, 1, "/data");
            written(&disk, new, 2);
            disk.rename(new, old).unwrap();
            assert!(disk.sync_folder(folder).is_err());
            written(&disk, &folder.join("other"), 9);
            disk.sync_folder(folder).unwrap();
            let byte_of = |disk: &SimulatedDisk| {
                let mut byte = [0];
                disk.open(old).unwrap().read_at(0, &mut byte).unwrap();
                byte[0]
            };
            let is_again = seed % 2 == 0;
            if is_again {
                written(&disk, new, 3);
                disk.rename(new, old).unwrap();
                disk.sync_folder(folder).unwrap();
            }
            let disk = disk.kill();
            assert_eq!(byte_of(&disk), if is_again { 3 } else { 2 });
            let disk = disk.crash(seed);
            assert!(disk.exists(&folder.join("other")).unwrap() && !disk.exists(new).unwrap());
            match byte_of(&disk) {
                3 => assert!(is_again),
                2 => assert!(!is_again),
                byte => {
                    assert!(byte == 1 && !is_again);
                    back += 1;
                }
            }
        }
        assert!((5..25).contains(&back), "{back}");
    }

    #[test]
    fn older_handles_fail_after_a_crash_and_locks_are_free() {
        let disk = SimulatedDisk::new();
        let path = Path::new("/LOCK");
        let _held = disk.lock(path).unwrap().unwrap();
        assert!(disk.lock(path).unwrap().is_none());
        let mut file = disk.create(Path::new("/file")).unwrap();
        let after = disk.kill();
        assert!(file.write_at(0, b"x").is_err() && file.sync().is_err() && disk.list(Path::new("/")).is_err());
        assert!(after.lock(path).unwrap().is_some());
        assert!(after.exists(Path::new("/file")).unwrap());
    }

    #[test]
    fn faults_strike_as_often_as_asked_and_where_asked() {
        let disk = SimulatedDisk::new();
        let mut log = disk.create(Path::new("/log")).unwrap();
        let mut other = disk.create(Path::new("/other")).unwrap();
        disk.fail_syncs(1, "log");
        disk.fail_writes(1, "log");
        other.write_at(0, b"x").unwrap();
        other.sync().unwrap();
        assert!(log.write_at(0, b"xy").is_err());
        assert!(log.sync().is_err());
        log.write_at(0, b"xy").unwrap();
        log.sync().unwrap();
        disk.set_free_bytes(3);
        assert_eq!(log.write_at(2, b"wxyz").unwrap_err().source.kind(), ErrorKind::StorageFull);
        log.write_at(0, b"zz").unwrap();
    }

    #[test]
    fn what_was_done_is_recorded_in_order_with_the_notes_of_the_test() {
        let disk = SimulatedDisk::new();
        disk.record();
        let path = PathBuf::from("/file");
        let mut file = disk.create(&path).unwrap();
        file.write_at(2, b"abc").unwrap();
        disk.note("answered");
        file.sync().unwrap();
        let expected = [
            Operation::Create(path.clone()),
            Operation::Write { path: path.clone(), offset: 2, bytes: 3 },
            Operation::Note("answered".to_owned()),
            Operation::Sync(path),
        ];
        assert_eq!(disk.recorded(), expected);
        assert_eq!(disk.counts(), Counts { writes: 1, bytes_written: 3, syncs: 1, folder_syncs: 0 });
    }

    #[test]
    fn a_held_sync_waits_until_it_is_released() {
        let disk = SimulatedDisk::new();
        let mut file = disk.create(Path::new("/log")).unwrap();
        disk.hold_syncs("log");
        let thread = std::thread::spawn(move || file.sync().is_ok());
        assert_eq!(disk.counts().syncs, 0);
        disk.release_syncs();
        assert!(thread.join().unwrap());
        assert_eq!(disk.counts().syncs, 1);
    }
}
