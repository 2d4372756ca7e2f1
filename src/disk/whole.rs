//! Small files that are read whole and replaced whole: keys, pins, links.
//!
//! A file is never seen half-written: it is made beside its name, synced and renamed. Readers bound what they take, so
//! that a wrong path costs no memory. Nothing here knows what is in a file.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError};

/// Reads a file whole; none where there is no such file.
///
/// # Errors
/// Where it cannot be read, or has more than `bytes_max` bytes.
pub fn read(disk: &dyn Disk, path: &Path, bytes_max: usize) -> Result<Option<Vec<u8>>, DiskError> {
    if !disk.exists(path)? {
        return Ok(None);
    }
    let file = disk.open(path)?;
    let length = usize::try_from(file.len()?).ok().filter(|length| *length <= bytes_max);
    let Some(length) = length else {
        let source = io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes"));
        return Err(DiskError { action: "read", path: path.to_owned(), source });
    };
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Puts these bytes in the place of a file, whether it is there or not; durable when this returns.
///
/// # Errors
/// Where it cannot be written; the old file is then still there, whole.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let fresh = beside(path);
    // What an interrupted attempt left goes durably, else a power loss could undo that and keep the rename, of what was left.
    remove(disk, &fresh)?;
    let mut file = disk.create(&fresh)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&fresh, path)?;
    sync_names(disk, path)
}

/// Removes a file where it is there; durable when this returns.
///
/// # Errors
/// Where it cannot be removed.
pub fn remove(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    if !disk.exists(path)? {
        return Ok(());
    }
    disk.remove(path)?;
    sync_names(disk, path)
}

fn sync_names(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => disk.sync_folder(folder),
        None => disk.sync_folder(Path::new(".")),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::real::RealDisk;
    use crate::disk::simulated::SimulatedDisk;

    #[test]
    fn a_replaced_file_is_the_new_bytes_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(read(&RealDisk, &path, 10).unwrap(), None);
        std::fs::write(beside(&path), "left by a crash").unwrap();
        for bytes in [b"0123456789".as_slice(), b"abc", b""] {
            replace(&RealDisk, &path, bytes).unwrap();
            assert_eq!(read(&RealDisk, &path, 10).unwrap().as_deref(), Some(bytes));
            assert!(!beside(&path).exists());
        }
    }

    #[test]
    fn a_file_over_the_bound_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&RealDisk, &path, b"0123456789a").unwrap();
        let told = read(&RealDisk, &path, 10).unwrap_err().to_string();
        assert!(told.contains("10 bytes") && told.contains("file"), "{told}");
    }

    #[test]
    fn what_an_interrupted_attempt_left_never_takes_the_place_of_the_file() {
        let path = Path::new("/data/file");
        for stop in 0..7 {
            for seed in 0..40 {
                let disk = SimulatedDisk::new();
                disk.create_folder(Path::new("/data")).unwrap();
                disk.create(&beside(path)).unwrap().write_at(0, b"torn").unwrap();
                disk.sync_folder(Path::new("/data")).unwrap();
                disk.stop_after(stop);
                let replaced = replace(&disk, path, b"whole").is_ok();
                let found = read(&disk.crash(seed), path, 10).unwrap();
                assert!(
                    found.as_deref() == Some(b"whole") || (found.is_none() && !replaced),
                    "{stop} {seed} {found:?}"
                );
            }
        }
    }
}
