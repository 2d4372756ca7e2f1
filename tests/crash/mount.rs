//! File systems in files: made with mkfs.ext4, mounted over a loop device until they are dropped.
//!
//! It takes root, loop devices and the programs for both. A test that can't have them says so on stderr by [`skipped`],
//! past the test harness, which shows what is printed by failing tests only, and ends.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::statvfs;

/// Says that a test does nothing here, and why.
pub fn skipped(test: &str, why: &str) {
    let why = why.trim();
    drop(writeln!(std::io::stderr(), "SKIPPED: {test}: it takes root, ext4 and loop devices (Linux): {why}"));
}

/// Runs a program to its end; what it said on stdout, or on stderr where it failed.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    let said = String::from_utf8_lossy(said).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{program}: {said}")) }
}

/// A new file system of this size, of which only what is used takes room.
pub fn make(image: &Path, bytes: u64) -> Result<(), String> {
    let file = fs::File::create(image).map_err(|error| error.to_string())?;
    file.set_len(bytes).map_err(|error| error.to_string())?;
    run("mkfs.ext4", [OsStr::new("-q"), OsStr::new("-F"), OsStr::new("-m0"), image.as_os_str()]).map(drop)
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    folder: PathBuf,
}

impl Mount {
    /// Mounts what is in this file. Direct: what the loop device was given is in the file, not in memory alone.
    pub fn new(image: &Path, folder: &Path, is_direct: bool, options: &str) -> Result<Mount, String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let direct = if is_direct { "--direct-io=on" } else { "--direct-io=off" };
        let find = [OsStr::new(direct), OsStr::new("--find"), OsStr::new("--show"), image.as_os_str()];
        let device = run("losetup", find)?;
        let mounted = mount(&device, folder, is_direct, options);
        // A device in use goes when it is not any more, even where this process is killed before it can unmount.
        run("losetup", ["--detach", &device])?;
        mounted.map(|()| Mount { folder: folder.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Bytes that can be written.
    pub fn free(&self) -> u64 {
        let told = statvfs(&self.folder).unwrap();
        told.f_bavail * told.f_frsize
    }
}

fn mount(device: &str, folder: &Path, is_direct: bool, options: &str) -> Result<(), String> {
    let name = device.trim_start_matches("/dev/");
    let direct = fs::read_to_string(format!("/sys/block/{name}/loop/dio")).unwrap_or_default();
    if is_direct && direct.trim() != "1" {
        return Err(format!("{device} cannot bypass the cache of what it lies on"));
    }
    let arguments = [OsStr::new("-o"), OsStr::new(options), OsStr::new(device), folder.as_os_str()];
    run("mount", arguments).map(drop)
}

impl Drop for Mount {
    fn drop(&mut self) {
        if run("umount", [&self.folder]).is_err() {
            // Something still holds it: it goes when that does.
            drop(run("umount", [OsStr::new("-l"), self.folder.as_os_str()]));
        }
    }
}
