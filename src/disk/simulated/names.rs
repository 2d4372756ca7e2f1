//! What may still be lost of the names of files: each change, until its folder is synced. It knows nothing of bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Node, above};

type Names = BTreeMap<PathBuf, Node>;

/// A change of names that is not durable until its folder is synced.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Create(PathBuf, Node),
    Rename(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

/// The changes that are not durable, in order.
#[derive(Debug, Default)]
pub(super) struct NameChanges {
    /// A sync of their folder failed: no later one makes them durable.
    doomed: Vec<NameChange>,
    pending: Vec<NameChange>,
}

impl NameChanges {
    pub(super) fn push(&mut self, change: NameChange) {
        self.pending.push(change);
    }

    /// What is pending in this folder is durable now, and what an earlier failed sync has doomed is not; but where a name
    /// was changed again, what was doomed of it no longer matters.
    pub(super) fn sync(&mut self, folder: &Path, durable: &mut Names) {
        for change in self.take(folder) {
            change.make(durable);
            self.doomed.retain(|doomed| doomed.name() != change.name());
        }
    }

    /// The sync of this folder failed: what was pending in it is kept or lost at the next crash whatever is synced later.
    pub(super) fn fail_sync(&mut self, folder: &Path) {
        for change in self.take(folder) {
            let change = match change {
                // A file that is not kept under its first name may still be under its last.
                NameChange::Rename(from, to, node) => {
                    let is_birth = |doomed: &NameChange| doomed.name() == from && doomed.creates(&node);
                    match self.doomed.iter().position(is_birth) {
                        Some(birth) => {
                            self.doomed.remove(birth);
                            NameChange::Create(to, node)
                        }
                        None => NameChange::Rename(from, to, node),
                    }
                }
                NameChange::Create(..) | NameChange::Remove(_) => change,
            };
            self.doomed.push(change);
        }
    }

    /// Leaves of them what a power loss leaves: anything.
    pub(super) fn crash(&mut self, names: &mut Names, random: &mut StdRng) {
        for change in self.doomed.drain(..) {
            if random.random_bool(0.5) {
                change.make(names);
            }
        }
        for change in self.pending.drain(..) {
            if random.random_bool(0.5) && change.has_its_file(names) {
                change.make(names);
            }
        }
    }

    fn take(&mut self, folder: &Path) -> Vec<NameChange> {
        let (taken, rest) = self.pending.drain(..).partition(|change| above(change.name()) == folder);
        self.pending = rest;
        taken
    }
}

impl NameChange {
    /// The name that it changes; the sync of its folder makes it durable.
    fn name(&self) -> &Path {
        match self {
            NameChange::Create(path, _) | NameChange::Remove(path) | NameChange::Rename(_, path, _) => path,
        }
    }

    fn creates(&self, node: &Node) -> bool {
        matches!(self, NameChange::Create(_, created) if Arc::ptr_eq(created, node))
    }

    /// Whether what it renames is there under that name.
    fn has_its_file(&self, names: &Names) -> bool {
        match self {
            NameChange::Rename(from, _, node) => names.get(from).is_some_and(|there| Arc::ptr_eq(there, node)),
            NameChange::Create(..) | NameChange::Remove(_) => true,
        }
    }

    /// Makes it.
    fn make(&self, names: &mut Names) {
        match self {
            NameChange::Create(path, node) => {
                names.insert(path.clone(), Arc::clone(node));
            }
            NameChange::Rename(from, to, node) => {
                if self.has_its_file(names) {
                    names.remove(from);
                }
                names.insert(to.clone(), Arc::clone(node));
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}
