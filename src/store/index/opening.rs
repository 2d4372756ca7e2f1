//! Opens sled's database of a folder, guarded: it ends in time, and what sled cannot be trusted with it never sees.
//!
//! In a thread of its own, which a panic of sled ends and nobody has to wait for, it waits for the lock on the folder,
//! looks at it ([`preflight`]), makes it safe against a kill ([`preflight::Metadata::mend`]), and only then calls sled.
//! Each opening of sled also runs the system's `sync` command twice, which writes back everything that any process of
//! the machine has left to write; that takes as long as it takes, and where there is no such command sled does without.
//!
//! After [`EngineError::Stalled`] the thread may still be in sled, and the folder be locked: nothing but the end of the
//! process helps.

use std::fs::{File, TryLockError};
use std::io;
use std::mem;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::store::engine::EngineError;
use crate::store::index::preflight::{self, Found, Metadata};
use crate::store::index::{FANOUT, Settings, guarded, named};

/// How long opening may take. It is well under a second for millions of messages; but two syncs of a whole machine,
/// with gigabytes of others' to be written to a slow disk, take a minute, and are no reason for a rebuild.
const OPEN_TIME: Duration = Duration::from_secs(120);
/// How long the lock on the folder may be held on to. Whoever closes sled gives it back when its last handle is dropped
/// in whatever thread, and a process that was just started holds it until it has become the other program.
const LOCK_TIME: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Trees that are only ever read by page, and not whole by a start: they are the large ones.
const TREES_BY_PAGE: [&str; 2] = ["messages", "own"];

/// Opens the database of this folder, or makes one where there is none.
///
/// # Errors
/// Where it does not open, or not in time.
pub(super) fn open_db(path: &Path, settings: &Settings) -> Result<sled::Db<FANOUT>, EngineError> {
    let (folder, settings) = (path.to_owned(), *settings);
    within(OPEN_TIME, path, move || open_here(&folder, &settings))
}

/// Runs it in a thread of its own, and waits so long.
fn within<T: Send + 'static>(
    time: Duration,
    path: &Path,
    open: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, EngineError> {
    let (told, outcome) = mpsc::sync_channel(0);
    let run = move || {
        if let Err(late) = told.send(guarded(open)) {
            // Nobody waits any more. Closing sled would flush, and end the process where that fails.
            mem::forget(late);
        }
    };
    let started = thread::Builder::new().name("index-open".to_owned()).spawn(run);
    started.map_err(|error| EngineError::Open(named(path, &error)))?;
    match outcome.recv_timeout(time) {
        Ok(outcome) => outcome.map_err(EngineError::Open),
        Err(RecvTimeoutError::Timeout) => {
            Err(EngineError::Stalled(format!("{} did not open within {} s", path.display(), time.as_secs())))
        }
        Err(RecvTimeoutError::Disconnected) => Err(EngineError::Open(format!("{} did not open", path.display()))),
    }
}

fn open_here(path: &Path, settings: &Settings) -> io::Result<sled::Db<FANOUT>> {
    let found = look(path)?;
    let config = sled::Config::new()
        .path(path)
        .flush_every_ms(Some(usize::MAX))
        .cache_capacity_bytes(settings.cache_bytes)
        .entry_cache_percent(settings.entry_cache_percent)
        .zstd_compression_level(settings.zstd_level);
    let until = clock::monotonic() + LOCK_TIME;
    let db = loop {
        match config.open() {
            // The locks were free just now; a process that this one is starting meanwhile has a copy for a moment.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && clock::monotonic() < until => {
                thread::sleep(LOCK_PAUSE);
            }
            outcome => break outcome.map_err(|error| io::Error::new(error.kind(), named(path, &error)))?,
        }
    };
    if found == Found::Nothing {
        sync_new(path)?;
    }
    Ok(db)
}

/// Looks at what is there, and mends what a kill has left. Nobody else has the folder open meanwhile.
fn look(path: &Path) -> io::Result<Found> {
    let _locks = if path.try_exists()? { lock(path)? } else { Vec::new() };
    let found = preflight::check(path, FANOUT, &TREES_BY_PAGE)?;
    if let Found::Database(metadata) = &found {
        Metadata::mend(metadata)?;
    }
    Ok(found)
}

/// Waits until both of sled's locks are free, and takes them.
fn lock(path: &Path) -> io::Result<Vec<File>> {
    let until = clock::monotonic() + LOCK_TIME;
    let metadata = preflight::metadata_in(path);
    let mut locks = Vec::new();
    for folder in [path, &metadata] {
        if !folder.try_exists()? {
            continue;
        }
        let file = File::open(folder)?;
        while let Err(error) = file.try_lock() {
            match error {
                TryLockError::WouldBlock if clock::monotonic() < until => thread::sleep(LOCK_PAUSE),
                TryLockError::WouldBlock => {
                    let what = format!("{} stays locked; end the process that has it open", folder.display());
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, what));
                }
                TryLockError::Error(error) => return Err(error),
            }
        }
        locks.push(file);
    }
    Ok(locks)
}

/// Makes a new database durable as far as sled does not: it syncs its cookie never, and the folder too early.
fn sync_new(path: &Path) -> io::Result<()> {
    File::open(preflight::cookie_in(path))?.sync_all()?;
    File::open(path)?.sync_all()?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::index::preflight::metadata_in;

    fn settings() -> Settings {
        Settings::default()
    }

    #[test]
    fn what_does_not_end_in_time_is_a_stall_and_a_panic_is_an_error() {
        let path = Path::new("index");
        let (go, wait) = mpsc::channel::<()>();
        let stalled = within(Duration::from_millis(1), path, move || wait.recv().map_err(io::Error::other));
        assert!(matches!(stalled, Err(EngineError::Stalled(_))));
        drop(go);
        let panicked = within(OPEN_TIME, path, || -> io::Result<()> { panic!("a fault of sled") });
        assert!(matches!(panicked, Err(EngineError::Open(why)) if why.contains("a fault of sled")));
        assert_eq!(within(OPEN_TIME, path, || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn opening_waits_for_whoever_is_closing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let db = open_db(&path, &settings()).unwrap();
        db.insert(b"key", b"value").unwrap();
        thread::scope(|scope| {
            let again = scope.spawn(|| open_db(&path, &settings()).unwrap().get(b"key").unwrap());
            drop(db);
            assert_eq!(again.join().unwrap().as_deref(), Some(b"value".as_slice()));
        });
    }

    #[test]
    fn an_empty_folder_becomes_a_database_and_half_of_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_db(folder.path(), &settings()).unwrap());
        drop(open_db(folder.path(), &settings()).unwrap());
        std::fs::remove_dir_all(metadata_in(folder.path())).unwrap();
        assert!(matches!(open_db(folder.path(), &settings()), Err(EngineError::Open(_))));
    }
}
