//! Folders that are clean, and clean ones into which exactly one fault was planted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::disk::simulated::SimulatedDisk;
use crate::store::engine::Op;
use crate::store::format::StoreId;
use crate::store::memory::{MemoryEngine, MemoryIndex};
use crate::store::records::MessageRecord;
use crate::store::tree::Tree;
use crate::store::{keys, open};

mod index;
mod kept;
mod log_tests;
mod planted;
mod scene;
mod sled_index;

const FOLDER: &str = "/srv/data";
const SMALL: u64 = 2048;

fn folder() -> &'static Path {
    Path::new(FOLDER)
}

/// What was told.
struct Told {
    findings: Vec<String>,
    remarks: Vec<String>,
    verified: Verified,
}

impl Told {
    /// Nothing is wrong; what was remarked.
    fn clean(self) -> Vec<String> {
        assert_eq!(self.findings, [""; 0]);
        assert_eq!(self.verified.findings, 0);
        self.remarks
    }

    /// This is wrong, and nothing else.
    fn only(&self, sentence: &str) {
        assert_eq!(self.findings, [sentence]);
        assert_eq!(self.verified.findings, 1);
    }
}

/// In these tests an item says who wrote it, what it says of a stay, and of whose.
fn understand(tree: Tree, _: &[u8], value: &Bytes) -> Result<Option<Meaning>, String> {
    if tree != Tree::Messages {
        return Ok(None);
    }
    let record = MessageRecord::decode(value).map_err(|error| error.to_string())?;
    let [author, border, user] = record.item[..] else { return Err("no item".to_owned()) };
    let user = crate::ids::UserId::new(user.into());
    let sent = border == 0;
    let border = match border {
        1 => Border::Join(user),
        2 => Border::Leave(user),
        _ => Border::None,
    };
    Ok(Some(Meaning { author: crate::ids::UserId::new(author.into()), border, sent }))
}

fn options(index: Arc<dyn Index>) -> Options {
    Options::new(index, Box::new(understand))
}

fn check_with(disk: &SimulatedDisk, options: &Options) -> Result<Told, StoreError> {
    let shared: SharedDisk = Arc::new(disk.clone());
    let (mut findings, mut remarks) = (Vec::new(), Vec::new());
    let verified = verify(&shared, folder(), options, &mut |event| match event {
        Event::Finding(said) => findings.push(said.to_string()),
        Event::Remark(said) => remarks.push(said.to_string()),
        Event::Step(_) => {}
    })?;
    Ok(Told { findings, remarks, verified })
}

/// An index that is kept on disk, and is not there.
struct Absent;

impl Index for Absent {
    fn open(&self, _: StoreId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        Ok(None)
    }

    fn begin(&self, _: StoreId) -> Result<Arc<dyn Engine>, EngineError> {
        unreachable!("a check makes no index")
    }

    fn remove_old(&self) -> Result<(), EngineError> {
        unreachable!("a check removes nothing")
    }
}

fn check(disk: &SimulatedDisk) -> Told {
    check_with(disk, &options(Arc::new(Absent))).unwrap()
}

/// A folder with these frames, each synced, in small segments, cleanly stopped.
fn folder_of(frames: &[Vec<Op>]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    append(&disk, frames);
    disk
}

/// Adds these frames to a folder and stops it cleanly.
fn append(disk: &SimulatedDisk, frames: &[Vec<Op>]) {
    let options = open_options();
    let mut store = open(Arc::new(disk.clone()), folder(), options).unwrap();
    for frame in frames {
        store.log.append(frame).unwrap();
        store.log.sync().unwrap();
    }
    store.log.seal().unwrap();
}

fn open_options() -> crate::store::Options {
    crate::store::Options { segment_bytes: SMALL, ..crate::store::Options::default() }
}

/// The bytes of every file but the lock.
fn everything(disk: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = disk.files(folder()).unwrap();
    files.retain(|path, _| !path.ends_with("LOCK"));
    files
}

#[test]
fn a_clean_folder_has_no_finding_and_nothing_of_it_is_changed() {
    let disk = folder_of(&scene::frames());
    let before = everything(&disk);
    let told = check(&disk);
    let (rows, sealed) = (told.verified.rows.unwrap(), told.verified.sealed);
    assert_eq!((rows.groups, rows.users, rows.items, sealed), (1, 2, 6, true));
    assert_eq!(
        told.clean(),
        ["/srv/data/index: nothing is recorded of an index; the next start makes one from the log"]
    );
    assert!(before == everything(&disk));
}

#[test]
fn a_folder_in_use_or_none_at_all_is_not_checked() {
    let disk = folder_of(&scene::frames());
    let store = open(Arc::new(disk.clone()), folder(), open_options()).unwrap();
    let refused = |disk: &SimulatedDisk| check_with(disk, &options(Arc::new(MemoryIndex))).err().unwrap();
    assert!(matches!(refused(&disk), StoreError::Locked { .. }));
    drop(store);
    assert!(check_with(&disk, &options(Arc::new(MemoryIndex))).is_ok());
    disk.remove(&folder().join("FORMAT")).unwrap();
    assert!(refused(&disk).to_string().contains("/srv/data/FORMAT"));
    assert!(refused(&SimulatedDisk::new()).to_string().contains("/srv/data/FORMAT"));
}

#[test]
fn without_an_index_and_with_more_rows_than_fit_it_is_said_that_rows_were_not_checked() {
    let disk = folder_of(&scene::frames());
    let told = check_with(&disk, &Options { above_bytes_max: 500, ..options(Arc::new(MemoryIndex)) }).unwrap();
    assert_eq!(told.verified.rows, None);
    assert!(told.clean().iter().any(|remark| remark.contains("gaggle rebuild")));
}

#[test]
fn an_index_that_is_never_kept_is_not_missed() {
    let disk = folder_of(&scene::frames());
    assert_eq!(check_with(&disk, &options(Arc::new(MemoryIndex))).unwrap().clean(), [""; 0]);
}

#[test]
fn a_folder_of_a_new_server_is_clean() {
    let disk = folder_of(&[]);
    assert_eq!(check(&disk).clean().len(), 1);
    let disk = SimulatedDisk::new();
    drop(open(Arc::new(disk.clone()), folder(), open_options()).unwrap());
    assert_eq!(check(&disk).clean().len(), 1);
}
