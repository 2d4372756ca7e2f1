//! What every engine behind the door of [`super::engine`] must do, tried on each; and the engines, for the tests of
//! other modules.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;

use crate::ids::Lsn;
use crate::store::engine::{Engine, Index, Op};
use crate::store::faulty::FaultyEngine;
use crate::store::format::StoreId;
use crate::store::index::{Settings, SledIndex};
use crate::store::memory::MemoryEngine;
use crate::store::tree::Tree;

/// The store that engines of tests belong to.
pub(crate) const STORE: StoreId = StoreId::new([7; 16]);

/// An empty engine of each kind, by its name, with the folder that it may need.
pub(crate) fn engines() -> Vec<(&'static str, Arc<dyn Engine>, TempDir)> {
    let folder = || tempfile::tempdir().unwrap();
    let sled_folder = folder();
    let sled = SledIndex::new(sled_folder.path(), Settings::default()).begin(STORE).unwrap();
    vec![
        ("memory", Arc::new(MemoryEngine::new()), folder()),
        ("faulty", Arc::new(FaultyEngine::new()), folder()),
        ("sled", sled, sled_folder),
    ]
}

/// Tries a claim on an empty engine of each kind.
pub(crate) fn on_each(claim: impl Fn(Arc<dyn Engine>)) {
    for (name, engine, _folder) in engines() {
        let tried = catch_unwind(AssertUnwindSafe(|| claim(engine)));
        assert!(tried.is_ok(), "it does not hold for the {name} engine");
    }
}

/// Opens a database whose locks may be held for a moment more: a process that another test starts has copies of them.
pub(crate) fn once_unlocked<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..1_000 {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
            outcome => return outcome,
        }
    }
    open()
}

/// Copies a folder as it stands.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn put(number: u32) -> Op {
    let key = Bytes::copy_from_slice(&number.to_be_bytes());
    Op { tree: Tree::Messages, key: key.clone(), value: Some(key) }
}

fn key(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn fill(engine: &dyn Engine, count: u32) {
    engine.apply(Lsn::new(1), &(0..count).map(put).collect::<Vec<_>>()).unwrap();
}

fn scanned(engine: &dyn Engine, tree: Tree, from: &[u8]) -> Vec<u32> {
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        seen.push(u32::from_be_bytes(key.try_into().unwrap()));
        ControlFlow::Continue(())
    };
    engine.scan(tree, from, &mut visit).unwrap();
    seen
}

#[test]
fn a_scan_sees_each_row_once_in_order_across_its_steps() {
    for count in [0, 1, 127, 128, 129, 256, 300, 1_000] {
        on_each(|engine| {
            fill(&*engine, count);
            assert_eq!(scanned(&*engine, Tree::Messages, &1u32.to_be_bytes()), (1..count).collect::<Vec<_>>());
            assert!(scanned(&*engine, Tree::Groups, &[]).is_empty());
        });
    }
}

#[test]
fn a_visitor_that_breaks_is_not_called_again() {
    on_each(|engine| {
        fill(&*engine, 300);
        let mut calls = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            calls += 1;
            ControlFlow::Break(())
        };
        engine.scan(Tree::Messages, &[], &mut visit).unwrap();
        assert_eq!(calls, 1);
    });
}

#[test]
fn rows_are_put_replaced_removed_and_found_from_above() {
    on_each(|engine| {
        fill(&*engine, 10);
        let gone = Op { value: None, ..put(9) };
        let other = Op { value: Some(Bytes::from_static(b"other")), ..put(7) };
        engine.apply(Lsn::new(2), &[gone, other]).unwrap();
        assert_eq!(engine.get(Tree::Messages, &key(9)).unwrap(), None);
        assert_eq!(engine.get(Tree::Messages, &key(7)).unwrap().unwrap(), "other");
        assert_eq!(engine.get(Tree::Groups, &key(7)).unwrap(), None);
        assert_eq!(engine.last_at_or_below(Tree::Messages, &key(100)).unwrap().unwrap().0, key(8));
        assert_eq!(engine.last_at_or_below(Tree::Messages, &key(7)).unwrap().unwrap().1, "other");
        assert!(engine.last_at_or_below(Tree::Messages, &[]).unwrap().is_none());
        assert_eq!((engine.applied().unwrap(), engine.flush().unwrap()), (Lsn::new(2), Lsn::new(2)));
    });
}

#[test]
fn the_operations_of_a_frame_are_applied_in_order() {
    on_each(|engine| {
        let gone = |number| Op { value: None, ..put(number) };
        engine.apply(Lsn::new(1), &[put(1), gone(1), put(2), gone(2), put(2), gone(3), put(3)]).unwrap();
        assert_eq!(scanned(&*engine, Tree::Messages, &[]), [2, 3]);
    });
}

#[test]
fn each_tree_is_one_of_its_own_and_a_frame_reaches_all() {
    on_each(|engine| {
        let ops = Tree::ALL.map(|tree| Op { tree, ..put(u32::from(tree.number())) });
        engine.apply(Lsn::new(1), &ops).unwrap();
        for tree in Tree::ALL {
            assert_eq!(scanned(&*engine, tree, &[]), [u32::from(tree.number())]);
        }
    });
}

#[test]
fn the_last_key_below_is_found_across_what_was_removed() {
    on_each(|engine| {
        fill(&*engine, 1_000);
        let gone: Vec<Op> = (3..998).map(|number| Op { value: None, ..put(number) }).collect();
        engine.apply(Lsn::new(2), &gone).unwrap();
        for from in [2, 3, 500, 997] {
            assert_eq!(engine.last_at_or_below(Tree::Messages, &key(from)).unwrap().unwrap().0, key(2));
        }
        assert_eq!(scanned(&*engine, Tree::Messages, &key(2)), [2, 998, 999]);
    });
}

#[test]
fn what_was_flushed_and_recycled_is_what_was_there() {
    on_each(|engine| {
        for round in 1..5 {
            fill(&*engine, round * 100);
            engine.apply(Lsn::new(u64::from(round)), &[]).unwrap();
            engine.flush().unwrap();
            engine.recycle().unwrap();
            assert_eq!(engine.applied().unwrap(), Lsn::new(u64::from(round)));
            assert_eq!(scanned(&*engine, Tree::Messages, &[]), (0..round * 100).collect::<Vec<_>>());
        }
    });
}
