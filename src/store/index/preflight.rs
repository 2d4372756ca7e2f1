//! What must hold of a folder of sled's before sled may open it, seen without sled and without changing anything.
//!
//! sled trusts its folder: a name that it does not expect, a length that is not one, a leaf that is not where it should
//! be end in a panic, an abort or an endless loop, and a log that is damaged in its middle opens with batches missing.
//! So it is read here first:
//!
//! - the cookie is whole and of our fanout, and no name stands in the folder that sled did not put there;
//! - there is a snapshot, it is one whole frame, and every log behind the newest snapshot is there;
//! - of these logs, each is whole frames to its end. The newest may end with a torn one: sled then is where its last
//!   finished flush left it, as that only uses slots which were free. (A flipped bit in the last frame looks the same. It
//!   costs one flush, and the lsn recorded outside tells.) An older log was finished before the next was made;
//! - each leaf that they name lies within its slab, no two share a slot or a place in a tree, and every tree has a name
//!   and a beginning;
//! - the trees that a start reads whole can be read, leaf by leaf, without a gap. The others are large and are read by
//!   pages; for them it is left to sled's checksums, to the page's own check, and to whoever watches over reads.
//!
//! Whatever does not hold is doubt, and costs a rebuild. What this cannot see is a slab in the state of an earlier time,
//! whose leaves are whole and in their places.

mod frames;
#[cfg(feature = "proof")]
pub(in crate::store) mod fuzzed;
mod leaves;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::frames::{End, Record, crc, frames, records};
use self::leaves::{Leaf, Slabs};

const COOKIE_NAME: &str = "durability_cookie";
const WARNING_NAME: &str = "DO_NOT_PUT_YOUR_FILES_HERE";
const METADATA_NAME: &str = "metadata";
pub(super) const SLABS_NAME: &str = "slabs";
const LOG_PREFIX: &str = "log_";
const SNAPSHOT_PREFIX: &str = "snapshot_";
const UNFINISHED_SUFFIX: &str = ".tmp";

const COOKIE_BYTES: usize = 64;
const COOKIE_VERSION: u16 = 1;

/// The tree of sled's in which the names of trees stand, and the one that has none and is not used.
const NAMES: u64 = 0;
const NAMELESS: u64 = 1;

/// What there is to open.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No folder, or an empty one.
    Nothing,
    /// A database that holds.
    Database(Metadata),
}

/// The folder of sled's metadata.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    folder: PathBuf,
    snapshots: BTreeSet<u64>,
    logs: BTreeSet<u64>,
}

impl Metadata {
    /// Puts the folder into a state in which a kill at any step of sled's opening loses nothing.
    ///
    /// sled writes a new snapshot under the number of the last log, then removes the logs and the old snapshot. Where
    /// there is no log, as after a kill between that and the making of the next log, the new snapshot has the name of
    /// the old one, and is removed with it. And where an older snapshot was left behind, the next start finds that one.
    /// So: an empty next log where there is none, and no snapshot but the newest, which was seen to be whole.
    pub(super) fn mend(&self) -> io::Result<()> {
        let Some(newest) = self.snapshots.last() else { return Ok(()) };
        let mut mended = false;
        if self.logs.range(newest..).all(|log| log == newest) {
            let next = newest.checked_add(1).ok_or_else(|| io::Error::other("its snapshots are out of numbers"))?;
            fs::File::create_new(self.folder.join(numbered(LOG_PREFIX, next)))?.sync_all()?;
            mended = true;
        }
        for older in self.snapshots.range(..newest) {
            fs::remove_file(self.folder.join(numbered(SNAPSHOT_PREFIX, *older)))?;
            mended = true;
        }
        if mended { fs::File::open(&self.folder)?.sync_all() } else { Ok(()) }
    }
}

/// Looks at the folder of a database of this fanout. `by_page` names the trees whose leaves are not read here.
///
/// # Errors
/// Where something does not hold; the error names it.
pub(super) fn check(folder: &Path, fanout: usize, by_page: &[&str]) -> io::Result<Found> {
    if !folder.try_exists()? || folder.read_dir()?.next().is_none() {
        return Ok(Found::Nothing);
    }
    check_names(folder)?;
    check_cookie(&folder.join(COOKIE_NAME), fanout)?;
    let metadata = survey(&folder.join(METADATA_NAME))?;
    let leaves = read(&metadata)?;
    check_leaves(&leaves, &folder.join(SLABS_NAME), by_page)?;
    Ok(Found::Database(metadata))
}

/// The folder of the metadata, which sled locks too.
pub(super) fn metadata_in(folder: &Path) -> PathBuf {
    folder.join(METADATA_NAME)
}

/// The cookie, which sled writes without syncing it.
pub(super) fn cookie_in(folder: &Path) -> PathBuf {
    folder.join(COOKIE_NAME)
}

fn bad(path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{} {what}", path.display()))
}

fn named<T>(path: &Path, outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn check_names(folder: &Path) -> io::Result<()> {
    for entry in named(folder, folder.read_dir())? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let belongs = match entry.file_name().to_str() {
            Some(COOKIE_NAME | WARNING_NAME) => kind.is_file(),
            Some(METADATA_NAME | SLABS_NAME) => kind.is_dir(),
            Some(_) | None => false,
        };
        if !belongs {
            return Err(bad(&entry.path(), "does not belong there"));
        }
    }
    Ok(())
}

fn check_cookie(path: &Path, fanout: usize) -> io::Result<()> {
    let bytes = named(path, fs::read(path))?;
    let said = bytes.first_chunk::<COOKIE_BYTES>().and_then(|bytes| {
        let (said, check) = bytes.split_at_checked(COOKIE_BYTES - 4)?;
        let (version, rest) = said.split_first_chunk::<2>()?;
        let (fanout, _) = rest.split_first_chunk::<8>()?;
        (crc(said) == check).then(|| (u16::from_le_bytes(*version), u64::from_le_bytes(*fanout)))
    });
    match said {
        None => Err(bad(path, "is damaged")),
        Some((COOKIE_VERSION, said)) if usize::try_from(said) == Ok(fanout) => Ok(()),
        Some(_) => Err(bad(path, "is of another version or fanout")),
    }
}

fn numbered(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:016x}")
}

/// The number in a name, if it is exactly as sled writes it.
fn number_in(name: &str, prefix: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_prefix(prefix)?, 16).ok()?;
    (numbered(prefix, number) == name).then_some(number)
}

/// What stands in the folder of the metadata, by name.
fn survey(folder: &Path) -> io::Result<Metadata> {
    let mut found = Metadata { folder: folder.to_owned(), snapshots: BTreeSet::new(), logs: BTreeSet::new() };
    for entry in named(folder, folder.read_dir())? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        // sled removes a snapshot that it had not finished.
        let unfinished = name.strip_suffix(UNFINISHED_SUFFIX).and_then(|name| number_in(name, SNAPSHOT_PREFIX));
        let snapshot = number_in(name, SNAPSHOT_PREFIX);
        let log = number_in(name, LOG_PREFIX);
        let is_known = name == WARNING_NAME || unfinished.or(snapshot).or(log).is_some();
        if !is_known || !entry.file_type()?.is_file() {
            return Err(bad(&entry.path(), "does not belong there"));
        }
        found.snapshots.extend(snapshot);
        found.logs.extend(log);
    }
    Ok(found)
}

/// The leaves that snapshot and logs name, as sled will find them.
fn read(metadata: &Metadata) -> io::Result<BTreeMap<u64, Record>> {
    let folder = &metadata.folder;
    let newest = metadata.snapshots.last().ok_or_else(|| bad(folder, "holds no snapshot"))?;
    let mut leaves = BTreeMap::new();
    read_file(&folder.join(numbered(SNAPSHOT_PREFIX, *newest)), Kind::Snapshot, &mut leaves)?;
    let last = metadata.logs.last().copied().unwrap_or_default();
    for log in newest.saturating_add(1)..=last {
        let kind = if log == last { Kind::NewestLog } else { Kind::Log };
        read_file(&folder.join(numbered(LOG_PREFIX, log)), kind, &mut leaves)?;
    }
    Ok(leaves)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Snapshot,
    Log,
    NewestLog,
}

fn read_file(path: &Path, kind: Kind, leaves: &mut BTreeMap<u64, Record>) -> io::Result<()> {
    let bytes = named(path, fs::read(path))?;
    let (payloads, end) = frames(&bytes);
    let holds = match kind {
        Kind::Snapshot => payloads.len() == 1 && end == End::Whole,
        Kind::Log => end == End::Whole,
        Kind::NewestLog => end != End::Damaged,
    };
    if !holds {
        return Err(bad(path, "is damaged"));
    }
    for payload in payloads {
        for record in named(path, records(payload))? {
            if record.object == 0 {
                return Err(bad(path, "names a leaf that cannot be"));
            }
            if record.location == 0 {
                leaves.remove(&record.object);
            } else {
                leaves.insert(record.object, record);
            }
        }
    }
    Ok(())
}

type Trees<'a> = BTreeMap<u64, BTreeMap<&'a [u8], u64>>;

fn check_leaves(leaves: &BTreeMap<u64, Record>, folder: &Path, by_page: &[&str]) -> io::Result<()> {
    let slabs = named(folder, Slabs::open(folder))?;
    let mut taken = BTreeSet::new();
    let mut trees: Trees<'_> = BTreeMap::new();
    for leaf in leaves.values() {
        if !slabs.holds(leaf.location) {
            return Err(bad(folder, "lacks a leaf that the metadata names"));
        }
        let tree = trees.entry(leaf.collection).or_default();
        if !taken.insert(leaf.location) || tree.insert(&leaf.low_key, leaf.location).is_some() {
            return Err(bad(folder, "is older or newer than the metadata: two leaves have one place"));
        }
    }
    let unread = check_tree_names(&trees, &slabs, folder, by_page)?;
    for (_, tree) in trees.iter().filter(|(number, _)| !unread.contains(number)) {
        leaves_of(tree, &slabs, folder).try_for_each(|leaf| leaf.map(drop))?;
    }
    Ok(())
}

/// Sees that every tree has a beginning and a name. Returns the trees that are read by page.
fn check_tree_names(trees: &Trees<'_>, slabs: &Slabs, folder: &Path, by_page: &[&str]) -> io::Result<BTreeSet<u64>> {
    let mut known = BTreeSet::from([NAMES, NAMELESS]);
    let mut unread = BTreeSet::new();
    for leaf in trees.get(&NAMES).into_iter().flat_map(|names| leaves_of(names, slabs, folder)) {
        for (name, number) in leaf?.rows {
            let number = <[u8; 8]>::try_from(number.as_slice()).map(u64::from_le_bytes);
            let number = number.ok().filter(|number| known.insert(*number));
            let number = number.ok_or_else(|| bad(folder, "gives a tree no number, or one twice"))?;
            if by_page.iter().any(|tree| tree.as_bytes() == name) {
                unread.insert(number);
            }
        }
    }
    let holds = |(number, tree): (&u64, &BTreeMap<&[u8], u64>)| known.contains(number) && tree.contains_key(&[][..]);
    if trees.iter().all(holds) { Ok(unread) } else { Err(bad(folder, "lacks the name or the beginning of a tree")) }
}

/// Reads the leaves of a tree, each of which must reach to the next.
fn leaves_of<'a>(
    tree: &'a BTreeMap<&[u8], u64>,
    slabs: &'a Slabs,
    folder: &'a Path,
) -> impl Iterator<Item = io::Result<Leaf>> + 'a {
    let next_keys = tree.keys().skip(1).copied().map(Some).chain([None]);
    tree.iter().zip(next_keys).map(move |((low_key, location), next_key)| {
        let leaf = named(folder, slabs.read(*location))?;
        if leaf.low_key == *low_key && leaf.high_key.as_deref() == next_key {
            Ok(leaf)
        } else {
            Err(bad(folder, "is older or newer than the metadata: a leaf is not the one it should be"))
        }
    })
}

#[cfg(test)]
mod tests;
