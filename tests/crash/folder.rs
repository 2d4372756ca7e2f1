//! Folders, as a whole.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Copies a folder as `cp -a` does: times are kept.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            fs::File::options().write(true).open(&target).unwrap().set_modified(modified).unwrap();
        }
    }
}

/// Every file below a folder with its bytes, by its path from there.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    each(folder, &mut |path, _| {
        found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(path).unwrap());
    });
    found
}

/// How long the files below a folder are together.
pub fn bytes(folder: &Path) -> u64 {
    let mut sum = 0;
    each(folder, &mut |_, known| sum += known.len());
    sum
}

/// Meets every file below a folder in which nothing changes meanwhile.
fn each(folder: &Path, meet: &mut impl FnMut(&Path, &Metadata)) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.metadata().unwrap() {
            known if known.is_dir() => each(&entry.path(), meet),
            known => meet(&entry.path(), &known),
        }
    }
}

/// When each file below a folder was last written, while others write there.
pub fn written(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(known) if known.is_dir() => found.extend(written(&entry.path())),
            Ok(known) => drop(found.insert(entry.path(), known.modified().unwrap())),
            // Gone since it was listed.
            Err(_) => {}
        }
    }
    found
}
