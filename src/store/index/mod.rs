//! The ordered index on disk: sled, behind the door of [`super::engine`].
//!
//! `data/index` holds one sled tree for each tree of the store, and one named `index` with the store's id and the lsn
//! of the last frame applied. It is written behind the log by one thread and is durable as of its last flush; it is
//! never trusted further than that, and after any error, of a read too, not at all: it is set aside and rebuilt from
//! the log. No other module names sled. Its traps, and the guards against them, are told in `traps`.
//!
//! - sled never flushes by itself here, so a flush holds whole frames and the lsn that belongs to them.
//! - Every call into sled goes through `guarded`: an error or a panic makes the engine *failed*, every later call errs
//!   at once, and what is open of sled is leaked, since dropping it would flush again.
//! - [`SledIndex::open`] returns the engine that is open in this process while it is healthy: the log beneath it can be
//!   opened anew without it.
//!
//! # What was measured, and chosen
//!
//! Messages of 200 B of text with the rows that the server keeps with each (own, send, window, a cursor now and then:
//! 5.25 puts and removes, 396 B of log), in frames of 64, with a flush after each 16 MB, on two cores shared with other
//! work; so CPU time is told. In one group, in 100 in any order, and in 10,000 in turn, with leaves of 32 to 512 keys:
//!
//! | of a message | 32 | 64 | **128** | 256 | 512 |
//! | --- | --- | --- | --- | --- | --- |
//! | CPU in us: 1, 100, 10,000 groups | 38, 73, 66 | 36, 58, 49 | 23, 49, 43 | 32, 44, 42 | 36, 45, 39 |
//! | B on disk | 182, 185, 367 | 139, 183, 446 | 136, 186, 363 | 118, 166, 351 | 118, 194, 370 |
//! | B of memory until recycled | 582, 688, 1045 | 549, 611, 841 | 484, 549, 757 | 478, 540, 672 | 502, 534, 704 |
//! | B written, 10,000 groups that hold 128 each | | 2417 | 3476 | 4454 | 4142 |
//!
//! With more keys a message in a quiet group writes a larger leaf anew and draws it into memory; with fewer, more leaves
//! are known at all times and more CPU is spent. Hence [`FANOUT`]. A page of 100 takes 10 to 20 us from the cache and
//! about 0.1 ms from files that the system has in memory, with any of these.
//!
//! - **A whole leaf is held for one row written into it.** In 10,000 groups with a history, each message draws two
//!   leaves into memory that stay until the index is recycled (1.3 million messages: all 0.7 GB of them after three
//!   flushes), so what is held is not a matter of bytes written alone; [`Engine::held_bytes`] estimates both.
//! - **Closing writes nothing**: flushes come to their end (nothing left to write, nothing to move) after 3 to 6, and
//!   only then sled is closed, since it ends the process where the flush of its own closing fails.
//! - **A frame is applied row by row.** Batches save 5 to 12 % of the CPU; they lock all their leaves at once, leave
//!   empty ones behind and do not tell what they replaced.
//! - zstd's levels 1, 3, 6 and 9 take 186, 186, 185 and 184 B on disk, where a leaf takes the next of fixed sizes
//!   anyway, and 40, 39, 56 and 93 us: hence 3. The part of the cache kept from scans is sled's own default, for want
//!   of a measurement that speaks for another.
//! - `get_lt` looks into one leaf, as a page does; it is slow only across leaves that are empty.

mod engine;
mod held;
mod lease;
mod opening;
mod preflight;
mod traps;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use self::engine::SledEngine;
#[cfg(feature = "proof")]
pub(super) use self::preflight::fuzzed;
use crate::store::engine::{Engine, EngineError, Index};
use crate::store::format::StoreId;

/// The folder of the index, in the data folder.
pub const INDEX_NAME: &str = "index";
/// What was set aside for a rebuild that has not ended.
pub const INDEX_OLD_NAME: &str = "index.old";

/// Keys of a leaf; fixed when the index is made.
pub const FANOUT: usize = 128;

/// How much it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of leaves kept in memory for reading.
    pub cache_bytes: usize,
    /// The part of the cache, in percent, that a scan of everything does not sweep out.
    pub entry_cache_percent: u8,
    /// The level of zstd for leaves on disk.
    pub zstd_level: i32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { cache_bytes: 64 * 1024 * 1024, entry_cache_percent: 20, zstd_level: 3 }
    }
}

/// The index of a data folder, on disk.
pub struct SledIndex {
    folder: PathBuf,
    settings: Settings,
    opened: Mutex<Weak<SledEngine>>,
}

impl SledIndex {
    /// The index of this data folder.
    #[must_use]
    pub fn new(folder: &Path, settings: Settings) -> SledIndex {
        SledIndex { folder: folder.to_owned(), settings, opened: Mutex::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(INDEX_NAME)
    }

    fn old_path(&self) -> PathBuf {
        self.folder.join(INDEX_OLD_NAME)
    }

    /// Puts what is there out of the way. An older one that was set aside is better than what an interrupted rebuild
    /// has left, so that goes instead.
    fn set_aside(&self) -> io::Result<()> {
        let (path, old) = (self.path(), self.old_path());
        if path.symlink_metadata().is_ok() {
            if old.symlink_metadata().is_ok() {
                remove(&path)?
            } else {
                fs::rename(&path, &old)?
            }
            sync_folder(&self.folder)?;
        }
        Ok(())
    }
}

impl Index for SledIndex {
    fn open(&self, store: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = opened.upgrade().filter(|engine| engine.is_healthy()) {
            engine.check_store(store)?;
            return Ok(Some(engine));
        }
        let path = self.path();
        if !path.try_exists().map_err(|error| EngineError::Open(named(&path, &error)))? {
            return Ok(None);
        }
        let engine = Arc::new(SledEngine::open(&path, self.settings, store)?);
        *opened = Arc::downgrade(&engine);
        Ok(Some(engine))
    }

    fn files(&self) -> Option<u64> {
        engine::files(&self.path())
    }

    fn rest(&self) -> Option<u64> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.strong_count() > 0 || engine::sync_files(&self.path()).is_err() {
            return None;
        }
        self.files()
    }

    fn begin(&self, store: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = opened.upgrade() {
            engine.abandon();
        }
        self.set_aside().map_err(|error| EngineError::Write(named(&self.path(), &error)))?;
        let engine = Arc::new(SledEngine::create(&self.path(), self.settings, store)?);
        sync_folder(&self.folder).map_err(|error| EngineError::Write(named(&self.folder, &error)))?;
        *opened = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        let old = self.old_path();
        if old.symlink_metadata().is_err() {
            return Ok(());
        }
        let removed = remove(&old).and_then(|()| sync_folder(&self.folder));
        removed.map_err(|error| EngineError::Write(named(&old, &error)))
    }
}

/// Calls sled. Its errors and its panics are told alike; whoever calls makes the engine failed then.
fn guarded<T>(call: impl FnOnce() -> io::Result<T>) -> Result<T, String> {
    // What a panic leaves half changed is not looked at again: a failed engine is leaked.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned())
        }
    }
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Removes a folder, or the file that stands in its place.
fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests;
