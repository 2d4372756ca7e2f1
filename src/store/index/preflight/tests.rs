//! Databases that sled made, damaged in every file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::store::suite::{copy_folder, once_unlocked};

const FANOUT: usize = 8;
const BY_PAGE: [&str; 1] = ["messages"];
const TREES: [&str; 3] = ["members", "messages", "index"];

type State = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

/// Opens without any guard.
fn open(folder: &Path) -> io::Result<sled::Db<FANOUT>> {
    once_unlocked(|| sled::Config::new().path(folder).flush_every_ms(Some(usize::MAX)).open())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// A database after each of its flushes, and what it held then.
struct History {
    folder: TempDir,
    states: Vec<State>,
}

impl History {
    fn new() -> History {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let mut state = State::new();
        let mut states = Vec::new();
        let mut db = open(&live).unwrap();
        for flush in 0_u8..6 {
            let trees = TREES.map(|name| db.open_tree(name).unwrap());
            for row in 0..40 {
                let (key, value) = (vec![row, flush % 3], vec![flush; 9 + usize::from(row)]);
                for (name, tree) in TREES.into_iter().zip(&trees).take(2) {
                    tree.insert(&key, value.clone()).unwrap();
                    state.insert((name, key.clone()), value.clone());
                }
            }
            trees[2].insert(b"applied", vec![flush; 8]).unwrap();
            state.insert((TREES[2], b"applied".to_vec()), vec![flush; 8]);
            db.flush().unwrap();
            states.push(state.clone());
            copy_folder(&live, &folder.path().join(format!("{flush}")));
            drop(trees);
            if flush == 3 {
                drop(db);
                db = open(&live).unwrap();
            }
        }
        // Not closed in order: there is a log with frames.
        std::mem::forget(db);
        History { folder, states }
    }

    fn after(&self, flush: usize) -> PathBuf {
        self.folder.path().join(flush.to_string())
    }

    fn last(&self) -> PathBuf {
        self.after(self.states.len() - 1)
    }

    /// A copy of the last state, for damaging.
    fn copy(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&self.last(), folder.path());
        folder
    }
}

fn looked(folder: &Path) -> io::Result<Found> {
    check(folder, FANOUT, &BY_PAGE)
}

/// What sled finds in these trees.
fn contents(folder: &Path, trees: &[&'static str]) -> io::Result<State> {
    let db = open(folder)?;
    let mut state = State::new();
    for name in trees {
        for row in &db.open_tree(name)? {
            match row {
                Ok((key, value)) => drop(state.insert((*name, key.to_vec()), value.to_vec())),
                Err(error) => {
                    // Closing would write, which after an error of reading ends the process.
                    std::mem::forget(db);
                    return Err(error);
                }
            }
        }
    }
    Ok(state)
}

/// The same, without sled, which keeps what it cannot close.
fn rows(folder: &Path, trees: &[&'static str]) -> io::Result<State> {
    let leaves = read(&survey(&metadata_in(folder))?)?;
    let slabs = Slabs::open(&folder.join(SLABS_NAME))?;
    let mut by_tree: Trees<'_> = BTreeMap::new();
    for leaf in leaves.values() {
        by_tree.entry(leaf.collection).or_default().insert(&leaf.low_key, leaf.location);
    }
    let mut state = State::new();
    for leaf in leaves_of(&by_tree[&NAMES], &slabs, folder) {
        for (name, number) in leaf?.rows {
            let number = u64::from_le_bytes(number.try_into().unwrap());
            let Some(name) = trees.iter().find(|tree| tree.as_bytes() == name) else { continue };
            for leaf in leaves_of(&by_tree[&number], &slabs, folder) {
                state.extend(leaf?.rows.into_iter().map(|(key, value)| ((*name, key), value)));
            }
        }
    }
    Ok(state)
}

fn of_trees(state: &State, trees: &[&str]) -> State {
    state
        .iter()
        .filter(|((name, _), _)| trees.contains(name))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Everything that may happen to a file, with its name.
fn damages(bytes: &[u8], older: &BTreeSet<Vec<u8>>) -> Vec<(String, Option<Vec<u8>>)> {
    let mut damages = vec![("deleted".to_owned(), None), ("zeroed".to_owned(), Some(vec![0; bytes.len()]))];
    for length in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        damages.push((format!("cut to {length}"), Some(bytes[..length].to_vec())));
    }
    for place in (0..bytes.len()).step_by((bytes.len() / 40).max(1)) {
        let mut flipped = bytes.to_vec();
        flipped[place] ^= 1 << (place % 8);
        damages.push((format!("flipped at {place}"), Some(flipped)));
    }
    damages.push(("longer".to_owned(), Some([bytes, &[7; 20]].concat())));
    damages.extend(older.iter().map(|older| ("an older one".to_owned(), Some(older.clone()))));
    damages.retain(|(_, damaged)| damaged.as_deref() != Some(bytes));
    damages
}

#[test]
fn what_sled_leaves_holds_after_each_flush_and_each_close() {
    let history = History::new();
    for (flush, state) in history.states.iter().enumerate() {
        let folder = history.after(flush);
        assert!(matches!(looked(&folder).unwrap(), Found::Database(_)));
        for _ in 0..3 {
            assert!(rows(&folder, &TREES).unwrap() == *state, "{flush}");
            assert!(contents(&folder, &TREES).unwrap() == *state, "{flush}");
            assert!(matches!(looked(&folder).unwrap(), Found::Database(_)));
        }
    }
    assert_eq!(looked(&history.folder.path().join("none")).unwrap(), Found::Nothing);
}

#[test]
fn metadata_damaged_in_any_way_is_an_error_or_opens_with_all_of_an_earlier_flush() {
    let history = History::new();
    let (mut refused, mut earlier) = (0, 0);
    for path in files(&history.last()) {
        let inner = path.strip_prefix(history.last()).unwrap().to_owned();
        if inner.starts_with(SLABS_NAME) || inner.ends_with(WARNING_NAME) {
            continue;
        }
        let older = (0..history.states.len() - 1).filter_map(|flush| fs::read(history.after(flush).join(&inner)).ok());
        for (damage, bytes) in damages(&fs::read(&path).unwrap(), &older.collect()) {
            let folder = history.copy();
            let place = folder.path().join(&inner);
            bytes.map_or_else(|| fs::remove_file(&place), |bytes| fs::write(&place, bytes)).unwrap();
            if looked(folder.path()).is_err() {
                refused += 1;
                continue;
            }
            let resident = ["members", "index"];
            let found = contents(folder.path(), &resident).unwrap();
            let known = history.states.iter().any(|state| of_trees(state, &resident) == found);
            assert!(known || found.is_empty(), "{} {damage}", inner.display());
            earlier += 1;
        }
    }
    assert!(refused > 100 && earlier > 5, "{refused} refused, {earlier} opened as of an earlier flush");
}

#[test]
fn slabs_damaged_in_any_way_are_an_error_or_fail_when_read_but_never_serve_something_else() {
    let history = History::new();
    let mut refused = 0;
    let state = history.states.last().unwrap();
    for path in files(&history.last().join(SLABS_NAME)) {
        let inner = path.strip_prefix(history.last()).unwrap().to_owned();
        for (damage, bytes) in damages(&fs::read(&path).unwrap(), &BTreeSet::new()) {
            let folder = history.copy();
            let place = folder.path().join(&inner);
            bytes.map_or_else(|| fs::remove_file(&place), |bytes| fs::write(&place, bytes)).unwrap();
            if looked(folder.path()).is_err() {
                refused += 1;
                continue;
            }
            let resident = ["members", "index"];
            let found = rows(folder.path(), &resident).unwrap();
            assert!(found == of_trees(state, &resident), "{} {damage}", inner.display());
            if let Ok(found) = rows(folder.path(), &["messages"]) {
                assert!(found == of_trees(state, &["messages"]), "{} {damage}", inner.display());
            }
        }
    }
    assert!(refused > 20, "{refused} refused");
}

#[test]
fn a_name_that_sled_did_not_put_there_is_an_error() {
    let history = History::new();
    let names = [
        "x",
        "index.bak",
        "slabs/63",
        "slabs/lost+found",
        "metadata/log",
        "metadata/log_1",
        "metadata/log_000000000000000g",
        "metadata/log_00000000000000A1",
        "metadata/log_0000000000000001x",
        "metadata/snapshot_x.tmp",
        "metadata/x.tmp",
        "metadata/snapshot_é",
    ];
    for name in names {
        let folder = history.copy();
        fs::write(folder.path().join(name), b"").unwrap();
        let error = looked(folder.path()).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    let folder = history.copy();
    fs::write(folder.path().join("metadata/snapshot_00000000000000ff.tmp"), b"half").unwrap();
    assert!(looked(folder.path()).is_ok());
    assert!(check(folder.path(), FANOUT + 1, &BY_PAGE).unwrap_err().to_string().contains("fanout"));
}

#[test]
fn a_missing_log_is_an_error_whatever_stands_behind_it() {
    let history = History::new();
    let folder = history.copy();
    let metadata = survey(&metadata_in(folder.path())).unwrap();
    let (first, second) = (*metadata.logs.last().unwrap(), metadata.logs.last().unwrap() + 1);
    let path = |number| metadata.folder.join(numbered(LOG_PREFIX, number));
    fs::write(path(second), b"").unwrap();
    assert!(looked(folder.path()).is_ok());
    fs::remove_file(path(first)).unwrap();
    assert!(looked(folder.path()).is_err());
}

#[test]
fn mending_leaves_the_newest_snapshot_and_a_log_behind_it_and_does_nothing_twice() {
    let history = History::new();
    let folder = history.copy();
    let metadata = metadata_in(folder.path());
    let newest = *survey(&metadata).unwrap().snapshots.last().unwrap();
    fs::write(metadata.join(numbered(SNAPSHOT_PREFIX, newest.checked_sub(1).unwrap())), b"an older one").unwrap();
    for log in survey(&metadata).unwrap().logs {
        fs::remove_file(metadata.join(numbered(LOG_PREFIX, log))).unwrap();
    }
    let before = survey(&metadata).unwrap();
    before.mend().unwrap();
    let mended = survey(&metadata).unwrap();
    assert_eq!((mended.snapshots.len(), mended.logs.len()), (1, 1));
    assert_eq!(mended.logs.last().copied(), Some(newest + 1));
    mended.mend().unwrap();
    assert_eq!(survey(&metadata).unwrap(), mended);
}
