//! What may still be lost of the names of files: each change, until its folder is synced. It knows nothing of bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Node, above};

/// A change of names that is not durable until its folder is synced.
#[derive(Debug)]
pub(super) enum NameChange {
    Create(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    /// The folder whose sync makes it durable.
    pub(super) fn folder(&self) -> &Path {
        match self {
            NameChange::Create(path, _) | NameChange::Remove(path) | NameChange::Rename(_, path) => above(path),
        }
    }

    /// Makes it.
    pub(super) fn make(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            NameChange::Create(path, node) => {
                names.insert(path.clone(), Arc::clone(node));
            }
            NameChange::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}
