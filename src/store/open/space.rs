//! Whether the disk has room for a rebuild of the index, and what becomes of the old one for that.
//!
//! The old index is in doubt anyway: it is set aside while there is room for two, and dropped where there is room for
//! one. How large the new one becomes is estimated, so a rebuild may still run out of room; that is told alike.

use std::path::Path;

use crate::disk::{Disk, DiskError};
use crate::limits::{CHECKPOINT_BYTES, CHECKPOINT_ROOM_BYTES, OPEN_ROOM_BYTES};
use crate::store::ballast;
use crate::store::error::StoreError;
use crate::store::index::{INDEX_NAME, INDEX_OLD_NAME};

/// What an index takes of the room that its log takes, in percent: measured, 40 with texts of 1.5 KB that hardly compress;
/// and half of that again for what is rewritten on the way.
const INDEX_OF_LOG_PERCENT: u64 = 60;

/// What an open takes at the least: new names, and the first pieces of files.
const OPEN_BYTES_LEAST: u64 = 1024 * 1024;
/// The part of the index that an open writes anew.
const METADATA_NAME: &str = "metadata";
const REBUILT: &str = "rebuilt from the log";

/// What becomes of the index that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Old {
    /// It stays, under another name, until the new one is whole.
    SetAside,
    /// It goes before the new one is filled.
    Dropped,
}

/// Looks whether there is room, and makes some by giving up the ballast where that decides it.
pub(super) fn for_rebuild(disk: &dyn Disk, data: &Path, log_bytes: u64) -> Result<Old, StoreError> {
    let needed = needed(log_bytes);
    let free = disk.free_bytes(data)?;
    if free >= needed {
        return Ok(Old::SetAside);
    }
    let old = bytes_below(disk, &data.join(INDEX_NAME))?.saturating_add(bytes_below(disk, &data.join(INDEX_OLD_NAME))?);
    let given_up = old.saturating_add(ballast::bytes(disk, data)?);
    if free.saturating_add(given_up) < needed {
        return Err(no_room(data, REBUILT, needed.saturating_sub(given_up), free));
    }
    if free.saturating_add(old) < needed {
        ballast::remove(disk, data)?;
    }
    Ok(Old::Dropped)
}

/// What a rebuild that failed says: that there was no room, where there is none left.
pub(super) fn explain(disk: &dyn Disk, data: &Path, log_bytes: u64, failure: StoreError) -> StoreError {
    match disk.free_bytes(data) {
        Ok(free) if matches!(failure, StoreError::Index(_)) && free < OPEN_ROOM_BYTES => {
            // It has taken all there was, and more is needed than was thought.
            let taken = bytes_below(disk, &data.join(INDEX_NAME)).unwrap_or_default();
            let needed = needed(log_bytes).max(taken.saturating_mul(2)).saturating_sub(taken);
            no_room(data, REBUILT, needed, free)
        }
        // That there was room, or that nobody knows, leaves the failure as it is.
        Ok(_) | Err(_) => failure,
    }
}

/// Looks whether there is room to open the index: sled writes its metadata anew then.
pub(super) fn for_open(disk: &dyn Disk, data: &Path) -> Result<(), StoreError> {
    let metadata = bytes_below(disk, &data.join(INDEX_NAME).join(METADATA_NAME))?;
    let needed = OPEN_BYTES_LEAST.saturating_add(metadata.saturating_mul(2));
    let free = disk.free_bytes(data)?;
    if free >= needed { Ok(()) } else { Err(no_room(data, "opened", needed, free)) }
}

fn no_room(data: &Path, what: &'static str, needed: u64, free: u64) -> StoreError {
    StoreError::NoRoom { folder: data.to_owned(), what, needed, free }
}

/// Whether there is room to flush an index that is kept as it is: a flush that fails would cost it.
pub(super) fn may_flush(disk: &dyn Disk, data: &Path) -> Result<bool, DiskError> {
    Ok(disk.free_bytes(data)? >= CHECKPOINT_BYTES + CHECKPOINT_ROOM_BYTES)
}

fn needed(log_bytes: u64) -> u64 {
    (log_bytes / 100).saturating_mul(INDEX_OF_LOG_PERCENT).saturating_add(OPEN_ROOM_BYTES)
}

/// Bytes of a file, or of all files in a folder and those in it; none where there is no such thing.
fn bytes_below(disk: &dyn Disk, path: &Path) -> Result<u64, DiskError> {
    if !disk.exists(path)? {
        return Ok(0);
    }
    // What cannot be listed is a file.
    let Ok(names) = disk.list(path) else { return disk.open(path)?.len() };
    names.iter().try_fold(0, |sum: u64, name| Ok(sum.saturating_add(bytes_below(disk, &path.join(name))?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::simulated::SimulatedDisk;
    use crate::limits::BALLAST_BYTES;

    const DATA: &str = "/data";
    const MB: u64 = 1024 * 1024;

    const LOG_BYTES: u64 = 100 * MB;

    /// An old index of so many MB.
    fn disk_with(old_mb: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        let path = Path::new(DATA).join("index/slabs/64");
        disk.create_folder(path.parent().unwrap()).unwrap();
        disk.create(&path).unwrap().set_len(old_mb * MB).unwrap();
        disk
    }

    fn outcome(disk: &SimulatedDisk, free_mb: u64) -> Result<Old, StoreError> {
        disk.set_free_bytes(free_mb * MB);
        for_rebuild(disk, Path::new(DATA), LOG_BYTES)
    }

    #[test]
    fn the_old_index_is_set_aside_dropped_or_not_enough() {
        let disk = disk_with(30);
        assert_eq!(outcome(&disk, 68).unwrap(), Old::SetAside);
        assert_eq!(outcome(&disk, 67).unwrap(), Old::Dropped);
        assert_eq!(outcome(&disk, 38).unwrap(), Old::Dropped);
        let error = outcome(&disk, 37).unwrap_err();
        assert_eq!(error.class(), crate::store::StoreErrorClass::Full);
        let said = error.to_string();
        assert!(said.contains("/data") && said.contains("38 MB of free space, and there are 37 MB"), "{said}");
    }

    #[test]
    fn an_open_that_could_fail_for_want_of_room_is_not_tried() {
        let disk = disk_with(30);
        let path = Path::new(DATA).join("index/metadata/log");
        disk.create_folder(path.parent().unwrap()).unwrap();
        disk.create(&path).unwrap().set_len(MB).unwrap();
        disk.set_free_bytes(3 * MB);
        for_open(&disk, Path::new(DATA)).unwrap();
        disk.set_free_bytes(3 * MB - 1);
        let said = for_open(&disk, Path::new(DATA)).unwrap_err().to_string();
        assert!(said.contains("has to be opened") && said.contains("3 MB of free space"), "{said}");
    }

    #[test]
    fn the_ballast_goes_only_where_that_decides_it() {
        let disk = disk_with(30);
        let is_there = || ballast::is_there(&disk, Path::new(DATA)).unwrap();
        ballast::make(&disk, Path::new(DATA)).unwrap();
        assert_eq!(outcome(&disk, 38).unwrap(), Old::Dropped);
        assert!(outcome(&disk, 38 - BALLAST_BYTES / MB - 1).is_err());
        assert!(is_there());
        assert_eq!(outcome(&disk, 37).unwrap(), Old::Dropped);
        assert!(!is_there());
    }

    #[test]
    fn a_rebuild_that_ran_out_of_room_says_so_and_another_failure_stays_what_it_is() {
        let disk = disk_with(60);
        let failed = || crate::store::engine::EngineError::Write("it failed".to_owned()).into();
        disk.set_free_bytes(OPEN_ROOM_BYTES);
        assert!(matches!(explain(&disk, Path::new(DATA), LOG_BYTES, failed()), StoreError::Index(_)));
        disk.set_free_bytes(MB);
        let StoreError::NoRoom { needed, free, .. } = explain(&disk, Path::new(DATA), LOG_BYTES, failed()) else {
            panic!()
        };
        assert_eq!((needed, free), (60 * MB, MB));
    }
}
