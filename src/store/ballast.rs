//! A file that does nothing but take up room, given up where there is too little of it to open the store.
//!
//! The server refuses in time what it has no room for; other programs don't. The file is really written, with bytes that
//! no file system compresses, and holds nothing: whatever is found in its place can go.

use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};

use crate::disk::{Disk, DiskError, whole};
use crate::limits::{BALLAST_BYTES, OPEN_ROOM_BYTES};

/// The name of the file in the data folder.
pub const BALLAST_NAME: &str = "ballast";
/// It is written in pieces of this size.
const FILL_BYTES: usize = 1024 * 1024;

fn path_in(folder: &Path) -> PathBuf {
    folder.join(BALLAST_NAME)
}

/// Whether it is there, whole.
///
/// # Errors
/// Where the disk refuses.
pub fn is_there(disk: &dyn Disk, folder: &Path) -> Result<bool, DiskError> {
    let path = path_in(folder);
    Ok(disk.exists(&path)? && disk.open(&path)?.len()? == BALLAST_BYTES)
}

/// Makes it, in place of what is there. What cannot be written to its end is removed again.
///
/// # Errors
/// Where the disk refuses.
pub fn make(disk: &dyn Disk, folder: &Path) -> Result<(), DiskError> {
    let path = path_in(folder);
    whole::remove(disk, &path)?;
    let made = fill(disk, &path);
    if made.is_err() {
        whole::remove(disk, &path)?;
    }
    made
}

fn fill(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    let mut file = disk.create(path)?;
    let mut bytes = vec![0; FILL_BYTES];
    StdRng::seed_from_u64(0).fill_bytes(&mut bytes);
    let mut done = 0;
    while done < BALLAST_BYTES {
        let step = usize::try_from(BALLAST_BYTES - done).unwrap_or(FILL_BYTES).min(FILL_BYTES);
        file.write_at(done, bytes.get(..step).unwrap_or(&bytes))?;
        done = done.saturating_add(u64::try_from(step).unwrap_or(u64::MAX));
    }
    file.sync()
}

/// Gives it up where an open has too little room; says whether it did. Made again once there is plenty.
///
/// # Errors
/// Where the disk refuses.
pub fn give_up(disk: &dyn Disk, folder: &Path) -> Result<bool, DiskError> {
    if disk.free_bytes(folder)? >= OPEN_ROOM_BYTES || !disk.exists(&path_in(folder))? {
        return Ok(false);
    }
    remove(disk, folder)?;
    Ok(true)
}

/// Gives it up, if it is there.
///
/// # Errors
/// Where the disk refuses.
pub fn remove(disk: &dyn Disk, folder: &Path) -> Result<(), DiskError> {
    whole::remove(disk, &path_in(folder))
}

/// What giving it up would free.
///
/// # Errors
/// Where the disk refuses.
pub fn bytes(disk: &dyn Disk, folder: &Path) -> Result<u64, DiskError> {
    let path = path_in(folder);
    if disk.exists(&path)? { disk.open(&path)?.len() } else { Ok(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::simulated::SimulatedDisk;

    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        disk.create_folder(Path::new("/data")).unwrap();
        disk
    }

    #[test]
    fn it_takes_its_room_and_gives_it_back_only_where_an_open_needs_it() {
        let (disk, folder) = (disk(), Path::new("/data"));
        disk.set_free_bytes(BALLAST_BYTES + OPEN_ROOM_BYTES);
        make(&disk, folder).unwrap();
        assert!(is_there(&disk, folder).unwrap());
        assert_eq!(disk.free_bytes(folder).unwrap(), OPEN_ROOM_BYTES);
        assert!(!give_up(&disk, folder).unwrap());
        disk.set_free_bytes(OPEN_ROOM_BYTES - 1);
        assert!(give_up(&disk, folder).unwrap());
        assert_eq!(disk.free_bytes(folder).unwrap(), OPEN_ROOM_BYTES - 1 + BALLAST_BYTES);
        assert!(!give_up(&disk, folder).unwrap());
        assert!(!is_there(&disk, folder).unwrap());
    }

    #[test]
    fn what_could_not_be_written_whole_is_gone_again() {
        let (disk, folder) = (disk(), Path::new("/data"));
        disk.set_free_bytes(BALLAST_BYTES - 1);
        assert!(make(&disk, folder).is_err());
        assert_eq!(disk.free_bytes(folder).unwrap(), BALLAST_BYTES - 1);
        assert!(!disk.exists(&path_in(folder)).unwrap());
    }

    #[test]
    fn a_part_of_it_is_replaced() {
        let (disk, folder) = (disk(), Path::new("/data"));
        disk.create(&path_in(folder)).unwrap().write_at(0, b"part").unwrap();
        assert!(!is_there(&disk, folder).unwrap());
        make(&disk, folder).unwrap();
        assert!(is_there(&disk, folder).unwrap());
        assert_eq!(bytes(&disk, folder).unwrap(), BALLAST_BYTES);
    }
}
