//! A disk whose power can be cut: an ext4 in a file, which lies in another small file system.
//!
//! The server's ext4 is mounted over a loop device that bypasses the cache, so that its file holds exactly what the
//! server's file system has sent to its disk; what only lies in that file system's cache is not in it. To cut the power
//! the *outer* file system is frozen: from one instant on no write reaches the file, while the server's own file system
//! is not told to write anything. So the cut may fall within a sync, and nothing is flushed that the server did not sync.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::mount::{self, Mount, run};
use crate::process::Home;

const MB: u64 = 1024 * 1024;
/// Room for 48 MB that the server wants free, its ballast, and some history.
const DISK_BYTES: u64 = 192 * MB;
const OUTER_BYTES: u64 = 512 * MB;
/// The file system writes its journal by itself as late as this, in s: what nobody synced stays unsynced.
const OPTIONS: &str = "noatime,commit=60";

/// A folder on a real disk for all that lies in files here.
pub fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The server's disk.
pub struct Disk {
    // In this order, as one lies in the other.
    inner: Mount,
    outer: Mount,
    _place: TempDir,
}

impl Disk {
    /// An empty one.
    pub fn new() -> Result<Disk, String> {
        Disk::made(|image| mount::make(image, DISK_BYTES))
    }

    /// One that begins as a cut of another, so that its power can be cut again.
    pub fn of(cut: &Path) -> Result<Disk, String> {
        Disk::made(|image| copy(cut, image))
    }

    fn made(make: impl FnOnce(&Path) -> Result<(), String>) -> Result<Disk, String> {
        run("fsfreeze", ["--version"])?;
        let place = place();
        let file = place.path().join("outer");
        mount::make(&file, OUTER_BYTES)?;
        let outer = Mount::new(&file, &place.path().join("around"), false, "noatime,barrier=0")?;
        let image = outer.path().join("image");
        make(&image)?;
        let inner = Mount::new(&image, &place.path().join("disk"), true, OPTIONS)?;
        Ok(Disk { inner, outer, _place: place })
    }

    pub fn data(&self) -> PathBuf {
        self.inner.path().join("data")
    }

    pub fn free(&self) -> u64 {
        self.inner.free()
    }

    /// What freezes it.
    pub fn freezer(&self) -> Freezer {
        Freezer { folder: self.outer.path().to_owned() }
    }
}

/// Cuts the power.
pub struct Freezer {
    folder: PathBuf,
}

impl Freezer {
    /// From here on nothing reaches the disk.
    pub fn freeze(self) -> Frozen {
        run("fsfreeze", [OsStr::new("--freeze"), self.folder.as_os_str()]).unwrap();
        Frozen { folder: self.folder }
    }
}

/// A disk that nothing reaches, until this is dropped.
pub struct Frozen {
    folder: PathBuf,
}

impl Frozen {
    /// What a machine finds when the power comes back.
    pub fn copy_to(&self, cut: &Path) {
        copy(&self.folder.join("image"), cut).unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        run("fsfreeze", [OsStr::new("--unfreeze"), self.folder.as_os_str()]).unwrap();
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    run("cp", [OsStr::new("--sparse=always"), from.as_os_str(), to.as_os_str()]).map(drop)
}

/// Mounts a cut, whose file system then finds its way back.
pub fn mount_cut(cut: &Path, folder: &Path) -> Mount {
    Mount::new(cut, folder, false, OPTIONS).unwrap()
}

/// A server whose data lie here.
pub fn home(data: &Path) -> Home {
    Home::new().with("GAGGLE_DATA", data).without_sync()
}
