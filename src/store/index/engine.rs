//! The engine on sled.
//!
//! One thread applies and flushes, with a handle of its own; reads lease theirs. A frame is its puts and removes one
//! after another and then the row that says its lsn, so that a flush between frames holds whole ones.
//!
//! A failed engine is leaked, not dropped; a healthy one is flushed until there is nothing left to write before it is
//! closed, because sled ends the process where the flush of its own closing fails.

use std::fs;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::ids::Lsn;
use crate::store::engine::{Engine, EngineError, Op, Visit};
use crate::store::format::StoreId;
use crate::store::index::held::Held;
use crate::store::index::lease::{Gate, Lease};
use crate::store::index::preflight::SLABS_NAME;
use crate::store::index::{FANOUT, Settings, guarded, opening};
use crate::store::tree::Tree;

/// The tree that says whose index it is and where it stands.
const OWN_TREE: &str = "index";
const STORE_KEY: &[u8] = b"store";
const APPLIED_KEY: &[u8] = b"applied";

/// Of so many rows of a scan the cache is told one, so that it knows of every leaf that is at least so full.
const TOLD_ROWS: usize = FANOUT / 4;
/// Flushes before closing, each of which may move what the one before has left scattered.
const SETTLE_FLUSHES: usize = 16;

/// What is open of sled, for one thread at a time.
#[derive(Clone)]
pub(super) struct Handle {
    db: sled::Db<FANOUT>,
    /// In the order of [`Tree::ALL`].
    trees: Vec<sled::Tree<FANOUT>>,
    own: sled::Tree<FANOUT>,
}

impl Handle {
    fn new(db: sled::Db<FANOUT>) -> io::Result<Handle> {
        let trees = Tree::ALL.into_iter().map(|tree| db.open_tree(tree.name())).collect::<io::Result<_>>()?;
        let own = db.open_tree(OWN_TREE)?;
        Ok(Handle { db, trees, own })
    }

    fn tree(&self, tree: Tree) -> io::Result<&sled::Tree<FANOUT>> {
        let place = usize::from(tree.number()).checked_sub(1);
        place.and_then(|place| self.trees.get(place)).ok_or_else(|| io::Error::other("a tree is not open"))
    }

    /// The lsn of the last frame applied; none where no such row stands.
    fn applied(&self) -> io::Result<Option<Lsn>> {
        let Some(value) = self.own.get(APPLIED_KEY)? else { return Ok(None) };
        let bytes = <[u8; 8]>::try_from(&*value).map_err(|_| io::Error::other("its lsn is no number"))?;
        Ok(Some(Lsn::new(u64::from_be_bytes(bytes))))
    }

    fn apply(&self, lsn: Lsn, ops: &[Op], held: &mut Held) -> io::Result<()> {
        for op in ops {
            let tree = self.tree(op.tree)?;
            let found = match &op.value {
                Some(value) => tree.insert(&op.key, &**value)?,
                None => tree.remove(&op.key)?,
            };
            held.count(op, found.map(|found| found.len()));
        }
        self.own.insert(APPLIED_KEY, lsn.value().to_be_bytes().as_slice())?;
        Ok(())
    }

    /// Flushes until there seems to be nothing left to write. Closing may still find something: places that were freed
    /// are known as such only when the thread that freed them has ended, and what is scattered then is moved.
    fn settle(&self) -> io::Result<()> {
        for _ in 0..SETTLE_FLUSHES {
            if self.db.flush()?.objects_flushed == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// What the applying thread has.
#[derive(Default)]
struct Writer {
    /// None while sled is closed.
    handle: Option<Handle>,
    held: Held,
}

/// The index on disk of one store.
pub struct SledEngine {
    path: PathBuf,
    settings: Settings,
    store: StoreId,
    gate: Gate,
    writer: Mutex<Writer>,
    applied: AtomicU64,
    held: AtomicU64,
    /// Nothing is written when it is closed.
    left: AtomicBool,
}

impl SledEngine {
    /// Opens the index in this folder, which must be this store's.
    pub(super) fn open(path: &Path, settings: Settings, store: StoreId) -> Result<SledEngine, EngineError> {
        let (handle, applied) = open_handle(path, &settings, store)?;
        Ok(SledEngine::with(path, settings, store, handle, applied))
    }

    /// Makes an empty index in this folder, durably.
    pub(super) fn create(path: &Path, settings: Settings, store: StoreId) -> Result<SledEngine, EngineError> {
        let db = opening::open_db(path, &settings)?;
        let made = guarded(|| {
            let handle = Handle::new(db.clone())?;
            handle.own.insert(STORE_KEY, store.bytes().as_slice())?;
            handle.own.insert(APPLIED_KEY, Lsn::ZERO.value().to_be_bytes().as_slice())?;
            handle.db.flush()?;
            Ok(handle)
        });
        match made {
            Ok(handle) => Ok(SledEngine::with(path, settings, store, handle, Lsn::ZERO)),
            Err(why) => {
                mem::forget(db);
                Err(EngineError::Write(why))
            }
        }
    }

    fn with(path: &Path, settings: Settings, store: StoreId, handle: Handle, applied: Lsn) -> SledEngine {
        SledEngine {
            path: path.to_owned(),
            settings,
            store,
            gate: Gate::new(handle.clone()),
            writer: Mutex::new(Writer { handle: Some(handle), held: Held::default() }),
            applied: AtomicU64::new(applied.value()),
            held: AtomicU64::new(0),
            left: AtomicBool::new(false),
        }
    }

    /// Whether no call has failed so far.
    pub(super) fn is_healthy(&self) -> bool {
        self.gate.failure().is_none()
    }

    /// Makes it failed: what is open of sled is left as it is, and leaked.
    pub(super) fn abandon(&self) {
        self.gate.fail("it was given up");
    }

    pub(super) fn check_store(&self, store: StoreId) -> Result<(), EngineError> {
        if self.store == store { Ok(()) } else { Err(foreign(&self.path)) }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A failed call makes the engine failed.
    fn told<T>(&self, outcome: Result<T, String>, error: fn(String) -> EngineError) -> Result<T, EngineError> {
        outcome.map_err(|why| {
            self.gate.fail(&why);
            error(why)
        })
    }

    fn read<T>(&self, lease: &Lease<'_>, call: impl FnOnce(&Handle) -> io::Result<T>) -> Result<T, EngineError> {
        let handle = lease.handle()?;
        self.told(guarded(|| call(handle)), EngineError::Read)
    }

    fn get_by(&self, lease: &Lease<'_>, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let value = self.read(lease, |handle| handle.tree(tree)?.get(key))?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn write<T>(&self, call: impl FnOnce(&Handle, &mut Held) -> io::Result<T>) -> Result<T, EngineError> {
        if let Some(why) = self.gate.failure() {
            return Err(EngineError::Write(why));
        }
        let mut writer = self.writer();
        let Writer { handle, held } = &mut *writer;
        let handle = handle.as_ref().ok_or_else(|| EngineError::Write("it is closed".to_owned()))?;
        self.told(guarded(|| call(handle, held)), EngineError::Write)
    }
}

/// Opens sled and its trees, and sees whose it is and where it stands.
fn open_handle(path: &Path, settings: &Settings, store: StoreId) -> Result<(Handle, Lsn), EngineError> {
    let db = opening::open_db(path, settings)?;
    let read = guarded(|| {
        let handle = Handle::new(db.clone())?;
        let found = handle.own.get(STORE_KEY)?;
        let applied = handle.applied()?;
        Ok((handle, found, applied))
    });
    let failed = match read {
        Ok((handle, Some(found), Some(applied))) if *found == store.bytes() => return Ok((handle, applied)),
        Ok((_, Some(found), _)) if *found != store.bytes() => foreign(path),
        Ok(_) => EngineError::Open(format!("{} does not say whose it is or where it stands", path.display())),
        Err(why) => EngineError::Open(format!("{}: {why}", path.display())),
    };
    mem::forget(db);
    Err(failed)
}

fn foreign(path: &Path) -> EngineError {
    EngineError::Open(format!("{} belongs to another store", path.display()))
}

impl Engine for SledEngine {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.get_by(&self.gate.enter()?, tree, key)
    }

    fn get_now(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.get_by(&self.gate.enter_now()?, tree, key)
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        let lease = self.gate.enter()?;
        // No upper end is given: with one, sled goes on to the end of the tree.
        let mut rows = self.read(&lease, |handle| Ok(handle.tree(tree)?.range(from..)))?;
        let mut number = 0;
        // The visitor is called outside of the guard: a panic of its own is not the index's.
        while let Some((key, value)) = self.told(guarded(|| rows.next().transpose()), EngineError::Read)? {
            // What an iterator reads is lost on sled's cache unless it is much; what is asked for here is not.
            if number % TOLD_ROWS == 0 {
                self.read(&lease, |handle| handle.tree(tree)?.get(&key))?;
            }
            number += 1;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        self.read(&self.gate.enter()?, |handle| {
            let tree = handle.tree(tree)?;
            if let Some(value) = tree.get(key)? {
                return Ok(Some((Bytes::copy_from_slice(key), Bytes::copy_from_slice(&value))));
            }
            let below = tree.get_lt(key)?;
            Ok(below.map(|(key, value)| (Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&value))))
        })
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        let bytes = self.write(|handle, held| {
            handle.apply(lsn, ops, held)?;
            Ok(held.bytes(handle.db.stats().cache.cache_misses))
        })?;
        self.held.store(bytes, Ordering::Relaxed);
        self.applied.store(lsn.value(), Ordering::Release);
        Ok(())
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        match self.gate.failure() {
            Some(why) => Err(EngineError::Read(why)),
            None => Ok(Lsn::new(self.applied.load(Ordering::Acquire))),
        }
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        self.write(|handle, _| handle.db.flush().map(|_| ()))?;
        Ok(Lsn::new(self.applied.load(Ordering::Acquire)))
    }

    fn settle(&self) -> Result<Lsn, EngineError> {
        self.write(|handle, _| handle.settle())?;
        Ok(Lsn::new(self.applied.load(Ordering::Acquire)))
    }

    fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn recycle(&self) -> Result<(), EngineError> {
        self.write(|handle, _| handle.settle())?;
        let handles = self.gate.close()?;
        let writer = mem::take(&mut *self.writer());
        let closed = guarded(|| {
            drop((handles, writer));
            Ok(())
        });
        self.told(closed, EngineError::Write)?;
        let (handle, applied) = open_handle(&self.path, &self.settings, self.store).inspect_err(|error| {
            self.gate.fail(&error.to_string());
        })?;
        self.applied.store(applied.value(), Ordering::Release);
        self.held.store(0, Ordering::Relaxed);
        self.writer().handle = Some(handle.clone());
        self.gate.reopen(handle);
        Ok(())
    }

    fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.path).unwrap_or(0)
    }
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        let (mut handles, failed) = self.gate.take();
        handles.extend(self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).handle.take());
        let failed = failed || self.left.load(Ordering::Acquire);
        let settled = !failed && handles.first().is_none_or(|handle| guarded(|| handle.settle()).is_ok());
        if !settled {
            mem::forget(handles);
        }
    }
}

/// The files that leaves lie in, in one number: their names, lengths and times. A file of another time is whole, and its
/// leaves may lie where they are looked for; sled could not know it. (The metadata is told from older ones by its lsn.)
pub(super) fn files(path: &Path) -> Option<u64> {
    let mut known: Vec<_> = fs::read_dir(path.join(SLABS_NAME)).ok()?.collect::<io::Result<_>>().ok()?;
    known.sort_by_key(fs::DirEntry::file_name);
    let mut sum = 0;
    for file in known {
        let metadata = file.metadata().ok()?;
        sum = crc32c::crc32c_append(sum, file.file_name().as_encoded_bytes());
        for number in [i64::try_from(metadata.len()).ok()?, metadata.mtime(), metadata.mtime_nsec()] {
            sum = crc32c::crc32c_append(sum, &number.to_be_bytes());
        }
    }
    Some(u64::from(sum) + 1)
}

/// Makes durable what [`files`] tells: sled cuts files after it has synced them.
pub(super) fn sync_files(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path.join(SLABS_NAME))? {
        fs::File::open(entry?.path())?.sync_all()?;
    }
    Ok(())
}

/// What the files of a folder take on disk, holes not counted.
fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let known = entry.metadata()?;
        bytes += if known.is_dir() { disk_bytes(&entry.path())? } else { known.blocks() * 512 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::store::index::lease::ENTER_WAIT;

    #[test]
    fn a_read_that_may_not_wait_is_busy_at_once_while_the_index_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let engine = SledEngine::create(&path, Settings::default(), StoreId::new([1; 16])).unwrap();
        let mut handles = engine.gate.close().unwrap();
        let since = clock::monotonic();
        assert!(matches!(engine.get_now(Tree::Meta, b"k"), Err(EngineError::Busy)));
        assert!(clock::monotonic().saturating_duration_since(since) < ENTER_WAIT);
        engine.gate.reopen(handles.pop().unwrap());
        assert!(engine.get_now(Tree::Meta, b"k").unwrap().is_none());
    }
}
