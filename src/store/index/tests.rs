//! The index on disk as the store meets it: begun, opened, crashed, recycled, set aside.

mod differential;
mod readers;

use std::ops::ControlFlow;
use std::thread;

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::suite::{STORE, copy_folder};
use crate::store::tree::Tree;

fn put(tree: Tree, key: &'static str, value: &'static str) -> Op {
    Op { tree, key: Bytes::from(key), value: Some(Bytes::from(value)) }
}

fn index(folder: &Path) -> SledIndex {
    SledIndex::new(folder, Settings::default())
}

fn value(engine: &dyn Engine, tree: Tree, key: &str) -> Option<Bytes> {
    engine.get(tree, key.as_bytes()).unwrap()
}

#[test]
fn what_an_index_rests_with_is_told_only_once_nobody_writes_to_it() {
    let (_folder, index, engine) = begun();
    assert_eq!(engine.settle().unwrap(), Lsn::new(2));
    assert!(index.files().is_some());
    assert_eq!(index.rest(), None);
    drop(engine);
    assert!(index.rest().is_some());
    assert_eq!(index.rest(), index.files());
}

/// An index with one frame that was flushed and one that was not.
fn begun() -> (TempDir, SledIndex, Arc<dyn Engine>) {
    let folder = tempfile::tempdir().unwrap();
    let index = index(folder.path());
    let engine = index.begin(STORE).unwrap();
    engine.apply(Lsn::new(1), &[put(Tree::Meta, "a", "1"), put(Tree::Groups, "a", "2")]).unwrap();
    assert_eq!(engine.flush().unwrap(), Lsn::new(1));
    engine.apply(Lsn::new(2), &[put(Tree::Meta, "b", "1"), Op { value: None, ..put(Tree::Groups, "a", "") }]).unwrap();
    (folder, index, engine)
}

#[test]
fn there_is_no_index_before_one_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    assert!(index(folder.path()).open(STORE).unwrap().is_none());
}

#[test]
fn a_crash_keeps_what_was_flushed_and_loses_whole_frames_behind_it() {
    let (folder, _index, _engine) = begun();
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), copy.path());
    let engine = index(copy.path()).open(STORE).unwrap().unwrap();
    assert_eq!(engine.applied().unwrap(), Lsn::new(1));
    assert_eq!(value(&*engine, Tree::Groups, "a").unwrap(), "2");
    assert_eq!(value(&*engine, Tree::Meta, "b"), None);
}

#[test]
fn what_was_applied_is_there_after_a_recycle_and_after_closing() {
    let (folder, index, engine) = begun();
    assert!(engine.held_bytes() > 0);
    engine.recycle().unwrap();
    assert_eq!(engine.held_bytes(), 0);
    for engine in [engine, index.open(STORE).unwrap().unwrap()] {
        assert_eq!(engine.applied().unwrap(), Lsn::new(2));
        assert_eq!(value(&*engine, Tree::Groups, "a"), None);
        assert_eq!(value(&*engine, Tree::Meta, "b").unwrap(), "1");
        assert!(engine.disk_bytes() > 0);
    }
    let engine = super::tests::index(folder.path()).open(STORE).unwrap().unwrap();
    assert_eq!(engine.applied().unwrap(), Lsn::new(2));
}

#[test]
fn the_engine_that_is_open_is_returned_while_it_is_healthy() {
    let (folder, index, engine) = begun();
    let again = index.open(STORE).unwrap().unwrap();
    assert!(Arc::ptr_eq(&engine, &again));
    drop((engine, again));
    let engine = index.open(STORE).unwrap().unwrap();
    assert_eq!(engine.applied().unwrap(), Lsn::new(2));
    let aside = index.begin(STORE).unwrap();
    assert!(engine.get(Tree::Meta, b"a").is_err_and(|error| error.is_doubt()));
    assert!(engine.apply(Lsn::new(3), &[]).is_err() && engine.flush().is_err() && engine.recycle().is_err());
    assert!(engine.applied().is_err());
    assert_eq!(aside.applied().unwrap(), Lsn::ZERO);
    assert!(folder.path().join(INDEX_OLD_NAME).is_dir());
}

#[test]
fn a_second_beginning_keeps_what_the_first_one_set_aside() {
    let (folder, index, engine) = begun();
    drop(engine);
    for _ in 0..2 {
        let engine = index.begin(STORE).unwrap();
        assert_eq!(value(&*engine, Tree::Meta, "a"), None);
    }
    let aside = tempfile::tempdir().unwrap();
    copy_folder(&folder.path().join(INDEX_OLD_NAME), &aside.path().join(INDEX_NAME));
    let old = super::tests::index(aside.path()).open(STORE).unwrap().unwrap();
    assert_eq!(old.applied().unwrap(), Lsn::new(2));
    index.remove_old().unwrap();
    index.remove_old().unwrap();
    assert!(!folder.path().join(INDEX_OLD_NAME).exists());
}

#[test]
fn an_index_of_another_store_or_of_none_does_not_open() {
    let (folder, index, engine) = begun();
    let other = StoreId::new([8; 16]);
    assert!(matches!(index.open(other), Err(EngineError::Open(_))));
    drop(engine);
    assert!(matches!(index.open(other), Err(EngineError::Open(_))));
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&folder.path().join(INDEX_NAME), &copy.path().join(INDEX_NAME));
    assert!(super::tests::index(copy.path()).open(STORE).unwrap().is_some());
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join(INDEX_NAME)).unwrap();
    assert!(matches!(super::tests::index(empty.path()).open(STORE), Err(EngineError::Open(_))));
}

#[test]
fn what_stands_in_the_way_of_the_folder_is_set_aside_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(INDEX_NAME), "no folder").unwrap();
    assert!(index(folder.path()).open(STORE).is_err());
    index(folder.path()).begin(STORE).unwrap();
    index(folder.path()).remove_old().unwrap();
    assert!(!folder.path().join(INDEX_OLD_NAME).exists());
}

#[test]
fn a_read_that_comes_during_a_recycle_finds_afterwards_what_was_there() {
    // Opening sled syncs the whole machine, which may take longer than a read waits.
    let get = |engine: &dyn Engine| {
        loop {
            match engine.get(Tree::Meta, b"b") {
                Err(EngineError::Busy) => {}
                found => break found.unwrap(),
            }
        }
    };
    let (_folder, _index, engine) = begun();
    thread::scope(|scope| {
        let mut visited = 0;
        let mut recycling = None;
        let mut waiting = None;
        engine
            .scan(Tree::Meta, b"a", &mut |_, _| {
                visited += 1;
                // The recycle can't end before this scan, nor the other read before the recycle has begun to wait.
                recycling = Some(scope.spawn(|| engine.recycle()));
                waiting = Some(scope.spawn(|| get(&*engine)));
                ControlFlow::Break(())
            })
            .unwrap();
        assert_eq!(visited, 1);
        recycling.unwrap().join().unwrap().unwrap();
        assert_eq!(waiting.unwrap().join().unwrap().unwrap(), "1");
    });
}

#[test]
fn a_panic_and_an_error_are_told_alike() {
    assert_eq!(guarded(|| Ok(1)).unwrap(), 1);
    assert_eq!(guarded::<()>(|| Err(io::Error::other("it is so"))).unwrap_err(), "it is so");
    assert_eq!(guarded::<()>(|| panic!("it is {}", "so")).unwrap_err(), "it is so");
    assert_eq!(guarded::<()>(|| panic!("it is so")).unwrap_err(), "it is so");
}
