//! The disk of this machine, through the standard library.
//!
//! It adds nothing of its own: no buffering, no retries after a failed sync. Files are made 0600 and folders 0700, as
//! everything in them is somebody's. It does not promise more than the system does: see [`super`] for what is assumed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError, File, Lock};

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// An open file of the real disk; it remembers its path for what it says when it fails.
#[derive(Debug)]
struct RealFile {
    file: fs::File,
    path: PathBuf,
}

/// The locked file: the system takes the lock back when it is closed.
#[derive(Debug)]
struct RealLock {
    _file: fs::File,
}

impl Lock for RealLock {}

/// Wraps what the system said into an error that names the file.
fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> DiskError + 'a {
    move |source| DiskError { action, path: path.to_owned(), source }
}

/// The folder that holds this one; the current folder for a bare name.
fn folder_above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        Some(_) | None => Path::new("."),
    }
}

fn sync_names(path: &Path) -> Result<(), DiskError> {
    let folder = fs::File::open(path).map_err(failed("open", path))?;
    folder.sync_all().map_err(failed("sync", path))
}

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> Result<Box<dyn File>, DiskError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed("open", path))?;
        Ok(Box::new(RealFile { file, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn File>, DiskError> {
        let mut how = OpenOptions::new();
        how.read(true).write(true).create_new(true).mode(0o600);
        let file = how.open(path).map_err(failed("create", path))?;
        Ok(Box::new(RealFile { file, path: path.to_owned() }))
    }

    fn create_folder(&self, path: &Path) -> Result<(), DiskError> {
        if path.is_dir() {
            return Ok(());
        }
        let above = folder_above(path);
        self.create_folder(above)?;
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => sync_names(above),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(error) => Err(failed("create folder", path)(error)),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(failed("list", path))? {
            let name: OsString = entry.map_err(failed("list", path))?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool, DiskError> {
        path.try_exists().map_err(failed("look for", path))
    }

    fn is_private(&self, path: &Path) -> Result<bool, DiskError> {
        let told = fs::metadata(path).map_err(failed("look at", path))?;
        Ok(told.permissions().mode() & 0o077 == 0)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::rename(from, to).map_err(failed("rename", from))
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        fs::remove_file(path).map_err(failed("remove", path))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        sync_names(path)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        let told =
            rustix::fs::statvfs(path).map_err(io::Error::from).map_err(failed("ask for free space below", path))?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    fn size_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        let told = rustix::fs::statvfs(path).map_err(io::Error::from).map_err(failed("ask for the size of", path))?;
        Ok(told.f_blocks.saturating_mul(told.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn Lock>>, DiskError> {
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = how.open(path).map_err(failed("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
        }
        file.set_len(0).map_err(failed("write", path))?;
        file.write_all_at(std::process::id().to_string().as_bytes(), 0).map_err(failed("write", path))?;
        Ok(Some(Box::new(RealLock { _file: file })))
    }
}

impl File for RealFile {
    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.file.metadata().map_err(failed("read", &self.path))?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.file.read_exact_at(bytes, offset).map_err(failed("read", &self.path))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, offset).map_err(failed("write", &self.path))
    }

    fn set_len(&mut self, bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(bytes).map_err(failed("resize", &self.path))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        RealDisk.create_folder(&deep).unwrap();
        RealDisk.create_folder(&deep).unwrap();
        RealDisk.create(&deep.join("file")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&deep), 0o700);
        assert_eq!(mode(&deep.join("file")), 0o600);
        assert!(RealDisk.is_private(&deep.join("file")).unwrap());
        fs::set_permissions(deep.join("file"), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(!RealDisk.is_private(&deep.join("file")).unwrap());
        assert!(RealDisk.create(&deep.join("file")).is_err());
    }

    #[test]
    fn what_is_written_is_read_and_a_short_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = RealDisk.create(&path).unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 6);
        let mut bytes = [9; 6];
        RealDisk.open(&path).unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0\0abc");
        let error = file.read_at(1, &mut bytes).unwrap_err().to_string();
        assert!(error.contains("failed to read") && error.contains("file"), "{error}");
    }

    #[test]
    fn a_lock_is_held_once_and_says_by_whom() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let held = RealDisk.lock(&path).unwrap().unwrap();
        assert!(RealDisk.lock(&path).unwrap().is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), std::process::id().to_string());
        drop(held);
        assert!(RealDisk.lock(&path).unwrap().is_some());
    }

    #[test]
    fn names_are_listed_in_order_and_renames_replace() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            RealDisk.create(&folder.path().join(name)).unwrap();
        }
        assert_eq!(RealDisk.list(folder.path()).unwrap(), ["a", "b"]);
        RealDisk.rename(&folder.path().join("a"), &folder.path().join("b")).unwrap();
        RealDisk.sync_folder(folder.path()).unwrap();
        assert_eq!(RealDisk.list(folder.path()).unwrap(), ["b"]);
        let free = RealDisk.free_bytes(folder.path()).unwrap();
        assert!(free > 0 && RealDisk.size_bytes(folder.path()).unwrap() > free);
        RealDisk.remove(&folder.path().join("b")).unwrap();
        assert!(!RealDisk.exists(&folder.path().join("b")).unwrap());
    }
}
