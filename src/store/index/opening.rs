//! Opens sled's database of a folder.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::store::engine::EngineError;
use crate::store::index::{FANOUT, Settings, guarded, named};

/// sled gives its lock on the folder back only some time after the last handle is gone.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Opens the database of this folder, or makes one where there is none.
///
/// # Errors
/// Where it does not open.
pub(super) fn open_db(path: &Path, settings: &Settings) -> Result<sled::Db<FANOUT>, EngineError> {
    let config = sled::Config::new()
        .path(path)
        .flush_every_ms(Some(usize::MAX))
        .cache_capacity_bytes(settings.cache_bytes)
        .entry_cache_percent(settings.entry_cache_percent)
        .zstd_compression_level(settings.zstd_level);
    let mut tries = 0;
    let opened = guarded(|| {
        loop {
            match config.open() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && tries < LOCK_TRIES => tries += 1,
                Err(error) => return Err(io::Error::new(error.kind(), named(path, &error))),
                Ok(db) => return Ok(db),
            }
            thread::sleep(LOCK_PAUSE);
        }
    });
    opened.map_err(EngineError::Open)
}
