//! Opening data folders: new, old, torn, damaged, foreign and newer ones.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::disk::real::RealDisk;
use crate::disk::simulated::{Operation, SimulatedDisk};
use crate::store::StoreErrorClass;
use crate::store::engine::Op;
use crate::store::tree::Tree;

mod index;
mod kept;

const FOLDER: &str = "/srv/data";
const SMALL: u64 = 1024;

fn folder() -> &'static Path {
    Path::new(FOLDER)
}

fn small() -> Options {
    Options { segment_bytes: SMALL, ..Options::default() }
}

fn reopen(disk: &SimulatedDisk) -> Result<Opened, StoreError> {
    open(Arc::new(disk.clone()), folder(), small())
}

fn refused(disk: &SimulatedDisk) -> StoreError {
    let error = reopen(disk).err();
    error.unwrap()
}

fn put(tree: Tree, key: &[u8], value: &[u8]) -> Op {
    Op { tree, key: Bytes::copy_from_slice(key), value: Some(Bytes::copy_from_slice(value)) }
}

/// All that an index holds.
fn contents(engine: &dyn Engine) -> BTreeMap<(Tree, Bytes), Bytes> {
    let mut rows = BTreeMap::new();
    for tree in Tree::ALL {
        let mut visit = |key: &[u8], value: &[u8]| {
            rows.insert((tree, Bytes::copy_from_slice(key)), Bytes::copy_from_slice(value));
            ControlFlow::Continue(())
        };
        engine.scan(tree, &[], &mut visit).unwrap();
    }
    rows
}

/// The bytes of every file below the folder.
fn everything(disk: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.files(folder()).unwrap()
}

fn write(disk: &SimulatedDisk, name: &str, bytes: &[u8]) {
    let path = folder().join(name);
    if disk.exists(&path).unwrap() {
        disk.remove(&path).unwrap();
    }
    disk.create(&path).unwrap().write_at(0, bytes).unwrap();
}

/// A store with one committed row.
fn used() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut store = reopen(&disk).unwrap();
    store.log.append(&[put(Tree::Meta, b"k", b"v")]).unwrap();
    store.log.sync().unwrap();
    drop(store);
    disk
}

#[test]
fn a_new_folder_is_made_and_is_the_same_store_when_opened_again() {
    let disk = SimulatedDisk::new();
    let mut first = reopen(&disk).unwrap();
    assert!(first.created && first.durable == Lsn::ZERO);
    assert_eq!(first.log.append(&[put(Tree::Meta, b"k", b"v")]).unwrap(), Lsn::new(1));
    first.log.seal().unwrap();
    let (store, epoch) = (first.store, first.epoch);
    drop(first);
    let again = reopen(&disk).unwrap();
    assert_eq!((again.store, again.epoch, again.durable, again.created), (store, epoch, Lsn::new(2), false));
    assert!(again.recovery.sealed);
    assert_eq!(again.engine.get(Tree::Meta, b"k").unwrap().unwrap(), "v");
    assert_eq!(again.engine.applied().unwrap(), Lsn::new(2));
}

#[test]
fn format_is_written_after_everything_else_and_renamed_once_it_is_synced() {
    let disk = SimulatedDisk::new();
    disk.record();
    reopen(&disk).unwrap();
    let done = disk.recorded();
    let at = |wanted: Operation| done.iter().position(|operation| *operation == wanted).unwrap();
    let path = |name: &str| folder().join(name);
    let log = at(Operation::SyncFolder(path("log")));
    let synced = at(Operation::Sync(path("FORMAT.new")));
    let renamed = at(Operation::Rename(path("FORMAT.new"), path("FORMAT")));
    let kept = at(Operation::SyncFolder(folder().to_owned()));
    assert!(log < synced && synced < renamed && renamed < kept, "{done:?}");
}

/// Scenario 30, for a store that is being made: the power goes at each step, and the next start goes through.
#[test]
fn a_power_loss_at_any_step_of_the_making_leaves_a_folder_that_opens() {
    for stop in 0..30 {
        for seed in 0..20 {
            let disk = SimulatedDisk::new();
            disk.stop_after(stop);
            let made = reopen(&disk).map(|store| (store.store, store.epoch));
            let disk = disk.crash(seed);
            let again = reopen(&disk).unwrap_or_else(|error| panic!("stop {stop} seed {seed}: {error}"));
            if let Ok(made) = made {
                assert_eq!((again.store, again.epoch), made);
            }
        }
    }
}

#[test]
fn a_second_process_on_the_folder_is_refused_and_told_the_pid() {
    let disk = SimulatedDisk::new();
    let held = reopen(&disk).unwrap();
    let before = everything(&disk);
    let error = refused(&disk);
    assert_eq!(error.class(), StoreErrorClass::Locked);
    let said = error.to_string();
    assert!(said.contains(&std::process::id().to_string()) && said.contains(FOLDER), "{said}");
    assert_eq!(before, everything(&disk));
    drop(held);
    reopen(&disk).unwrap();
}

#[test]
fn a_folder_of_another_program_is_refused_and_not_touched() {
    let disk = SimulatedDisk::new();
    disk.create_folder(folder()).unwrap();
    write(&disk, "photos.db", b"precious");
    let before = everything(&disk);
    let error = refused(&disk);
    assert_eq!(error.class(), StoreErrorClass::Foreign);
    assert!(error.to_string().contains("photos.db"), "{error}");
    assert_eq!(before, everything(&disk));
}

#[test]
fn a_folder_with_the_readme_of_a_checkout_becomes_a_data_folder() {
    let disk = SimulatedDisk::new();
    disk.create_folder(folder()).unwrap();
    write(&disk, "README.md", b"what is kept here");
    write(&disk, ".gitignore", b"*");
    assert!(reopen(&disk).unwrap().created);
    assert!(disk.exists(&folder().join("README.md")).unwrap());
}

/// Scenario 32: the older version refuses and touches nothing.
#[test]
fn a_folder_of_a_newer_version_is_refused_and_not_touched() {
    let disk = used();
    let said = "gaggle data folder\nversion 7\n";
    write(&disk, "FORMAT", format!("{said}check {:08x}\n", crc32c::crc32c(said.as_bytes())).as_bytes());
    let before = everything(&disk);
    let error = refused(&disk);
    assert_eq!(error.class(), StoreErrorClass::Newer);
    assert!(error.to_string().contains("FORMAT") && error.to_string().contains("format 7"), "{error}");
    assert_eq!(before, everything(&disk));
}

/// Scenario 30: no damage to FORMAT ends in a panic or in an empty store.
#[test]
fn format_cut_flipped_zeroed_or_missing_is_damage_that_names_it() {
    let disk = used();
    let whole = everything(&disk);
    let format = whole.get(&folder().join("FORMAT")).unwrap().clone();
    let mut broken: Vec<Vec<u8>> = (0..format.len()).map(|length| format[..length].to_vec()).collect();
    broken.extend((0..format.len()).map(|index| {
        let mut flipped = format.clone();
        flipped[index] ^= 1 << (index % 8);
        flipped
    }));
    broken.push(vec![0; format.len()]);
    broken.push(vec![b'x'; 1 << 20]);
    for bytes in broken {
        write(&disk, "FORMAT", &bytes);
        let error = refused(&disk);
        assert_eq!(error.class(), StoreErrorClass::Damaged, "{error}");
        assert!(error.to_string().contains("/srv/data/FORMAT"), "{error}");
    }
    disk.remove(&folder().join("FORMAT")).unwrap();
    let error = refused(&disk);
    assert_eq!(error.class(), StoreErrorClass::Damaged);
    assert!(error.to_string().contains("/srv/data/FORMAT"), "{error}");
    write(&disk, "FORMAT", &format);
    assert_eq!(contents(&*reopen(&disk).unwrap().engine).len(), 1);
}

#[test]
fn a_lost_log_or_a_log_of_another_store_is_damage_and_never_an_empty_store() {
    let disk = used();
    let segment = folder().join("log/00000001.log");
    let bytes = everything(&disk).remove(&segment).unwrap();
    disk.remove(&segment).unwrap();
    assert!(refused(&disk).to_string().contains("00000001.log"));

    let other = used();
    write(&other, "log/00000001.log", &bytes);
    let error = refused(&other);
    assert_eq!(error.class(), StoreErrorClass::Damaged);
    assert!(error.to_string().contains("another store"), "{error}");
}

#[test]
fn a_full_disk_is_told_from_a_broken_one() {
    let disk = SimulatedDisk::new();
    disk.set_free_bytes(100);
    assert_eq!(refused(&disk).class(), StoreErrorClass::Full);
    disk.set_free_bytes(1 << 24);
    disk.fail_syncs(1, "log");
    assert_eq!(refused(&disk).class(), StoreErrorClass::Disk);
    assert!(reopen(&disk).unwrap().created);
}

#[test]
fn progress_is_told_for_each_segment() {
    let disk = SimulatedDisk::new();
    let mut store = reopen(&disk).unwrap();
    for _ in 0..9 {
        store.log.append(&[put(Tree::Meta, b"k", &[1; 300])]).unwrap();
        store.log.sync().unwrap();
    }
    drop(store);
    let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let teller = Arc::clone(&told);
    let progress = Box::new(move |progress| teller.lock().unwrap().push(progress));
    open(Arc::new(disk), folder(), Options { progress, ..small() }).unwrap();
    let told = told.lock().unwrap();
    let checking = (1..=5).map(|segment| Progress::Checking { segment, segments: 5 });
    let filling = [1, 3, 5, 7, 9].into_iter().zip(1..).map(|(lsn, segment)| Progress::Filling {
        segment,
        segments: 5,
        lsn: Lsn::new(lsn),
        messages: 0,
    });
    assert_eq!(*told, checking.chain(filling).collect::<Vec<_>>());
}

#[test]
fn the_real_disk_keeps_a_store_and_a_torn_end_of_its_log_is_cut() {
    let above = tempfile::tempdir().unwrap();
    let data = above.path().join("new/data");
    let open = || open(Arc::new(RealDisk), &data, small());
    let mut store = open().unwrap();
    for number in 0..20u8 {
        store.log.append(&[put(Tree::Meta, &[number], &[number; 200])]).unwrap();
        store.log.sync().unwrap();
    }
    assert_eq!(open().err().unwrap().class(), StoreErrorClass::Locked);
    drop(store);
    assert_eq!(contents(&*open().unwrap().engine).len(), 20);

    let last = data.join("log/00000007.log");
    let mut bytes = std::fs::read(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end] = 0;
    std::fs::write(&last, &bytes).unwrap();
    let mut store = open().unwrap();
    assert_eq!((contents(&*store.engine).len(), store.durable), (19, Lsn::new(19)));
    assert!(store.log.preparer().prepare().unwrap());
    store.log.seal().unwrap();
    drop(store);

    std::fs::remove_file(data.join("log/00000003.log")).unwrap();
    assert!(open().err().unwrap().to_string().contains("00000003.log"));
}

#[test]
fn a_file_where_the_folder_should_be_is_an_error_that_names_it() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("data");
    std::fs::write(&path, b"").unwrap();
    let error = open(Arc::new(RealDisk), &path, small()).err().unwrap();
    assert_eq!(error.class(), StoreErrorClass::Disk);
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

/// One batch: (tree, key, value; none: remove).
type Batch = Vec<(usize, u8, Option<u8>)>;

/// What is done between two power losses: batches, and after how many changes of the disk the power goes.
fn lives() -> impl Strategy<Value = Vec<(Vec<Batch>, u64, u64)>> {
    let op = (0..Tree::ALL.len(), 0u8..6, proptest::option::of(any::<u8>()));
    let batch = proptest::collection::vec(op, 0..8);
    let life = (proptest::collection::vec(batch, 0..12), 0u64..60, any::<u64>());
    proptest::collection::vec(life, 1..6)
}

fn ops(batch: &Batch) -> Vec<Op> {
    let op = |(tree, key, value): &(usize, u8, Option<u8>)| Op {
        tree: Tree::ALL[*tree],
        key: Bytes::copy_from_slice(&[*key]),
        value: value.map(|value| Bytes::from(vec![value; 40])),
    };
    batch.iter().map(op).collect()
}

fn apply(model: &mut BTreeMap<(Tree, Bytes), Bytes>, ops: &[Op]) {
    for op in ops {
        match &op.value {
            Some(value) => model.insert((op.tree, op.key.clone()), value.clone()),
            None => model.remove(&(op.tree, op.key.clone())),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    /// Scenario 29, on a simulated disk: what was synced is there after every power loss, at whatever step it came,
    /// opening included; the one batch that was not synced is there whole or not at all.
    #[test]
    fn what_a_reopened_store_holds_equals_the_model_of_what_was_synced(lives in lives()) {
        let mut disk = SimulatedDisk::new();
        let mut durable = BTreeMap::new();
        let mut maybe = durable.clone();
        for (batches, stop, seed) in &lives {
            disk.stop_after(*stop);
            if let Ok(mut store) = reopen(&disk) {
                let found = contents(&*store.engine);
                prop_assert!(found == durable || found == maybe);
                durable.clone_from(&found);
                maybe = found;
                for batch in batches {
                    let ops = ops(batch);
                    apply(&mut maybe, &ops);
                    if store.log.append(&ops).is_err() || store.log.sync().is_err() {
                        break;
                    }
                    durable.clone_from(&maybe);
                }
            }
            disk = disk.crash(*seed);
        }
        let found = contents(&*reopen(&disk).unwrap().engine);
        prop_assert!(found == durable || found == maybe);
    }
}
