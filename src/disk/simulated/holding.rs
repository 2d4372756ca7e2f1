//! A simulated disk as a set of files: made from one, and taken apart into one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::SimulatedDisk;
use crate::disk::{Disk, DiskError, whole};

impl SimulatedDisk {
    /// A disk with this folder and these files in it, all durable.
    ///
    /// # Errors
    /// Where a name is none that a file of the folder may have.
    pub fn holding<'a>(
        folder: &Path,
        files: impl IntoIterator<Item = (&'a Path, &'a [u8])>,
    ) -> Result<SimulatedDisk, DiskError> {
        let disk = SimulatedDisk::new();
        disk.create_folder(folder)?;
        for (name, bytes) in files {
            whole::replace(&disk, &folder.join(name), bytes)?;
        }
        Ok(disk)
    }

    /// Every file below a folder, however deep, with its bytes.
    ///
    /// # Errors
    /// Where the disk has lost its power.
    pub fn files(&self, folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, DiskError> {
        let paths: Vec<PathBuf> = {
            let state = self.alive("list", folder)?;
            state.names.keys().filter(|path| path.starts_with(folder)).cloned().collect()
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let bytes = whole::read(self, &path, usize::MAX)?;
            files.extend(bytes.map(|bytes| (path, bytes)));
        }
        Ok(files)
    }
}
