//! The engine on disk does whatever the one in memory does: random frames, reads, flushes, recycles and crashes.
//!
//! A crash of the engine on disk is a copy of its folder as it stands: what was not flushed is in memory only. A crash
//! of the other keeps no frame behind its last flush.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::ids::{GroupId, MessageId};
use crate::store::faulty::FaultyEngine;
use crate::store::keys;
use crate::store::log::Frame;
use crate::store::overlay::Overlay;
use crate::store::page::{self, PageRequest};
use crate::store::records::{Extensions, MessageRecord};

const GROUPS: u64 = 3;
/// More than a leaf holds, so that leaves are split and merged.
const MSGIDS: u64 = 3 * FANOUT as u64;

#[derive(Debug, Clone)]
enum Change {
    /// Messages of a group, with bodies of so many bytes.
    Fill { group: u64, from: u64, count: u64, body: usize },
    /// Removes messages of a group.
    Trim { group: u64, from: u64, count: u64 },
    /// A row of a tree with few keys.
    Put { tree: Tree, key: Vec<u8>, bytes: usize },
    /// Removes one.
    Remove { tree: Tree, key: Vec<u8> },
}

#[derive(Debug, Clone)]
enum Step {
    /// A frame becomes durable: it is in the overlay.
    Frame(Vec<Change>),
    /// The next frames are applied and leave the overlay.
    Apply(usize),
    Get(Tree, Vec<u8>),
    Scan(Tree, Vec<u8>, usize),
    Last(Tree, Vec<u8>),
    Page {
        group: u64,
        after: u64,
        up_to: u64,
        rows_max: usize,
        bytes_max: usize,
    },
    Flush,
    Recycle,
    Crash,
}

fn tree() -> impl Strategy<Value = Tree> {
    prop_oneof![Just(Tree::Sends), Just(Tree::Meta), Just(Tree::Handles)]
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"ab", b"b", &[0xff; 255]];
    proptest::sample::select(keys.map(<[u8]>::to_vec).to_vec())
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0), 8 => 1usize..300, 1 => 60_000usize..70_000]
}

fn change() -> impl Strategy<Value = Change> {
    let group = || 1..=GROUPS;
    let from = || 1..=MSGIDS;
    prop_oneof![
        2 => (group(), from(), bytes()).prop_map(|(group, from, body)| Change::Fill { group, from, count: 1, body }),
        1 => (group(), from(), 1..=MSGIDS, 0usize..60)
            .prop_map(|(group, from, count, body)| Change::Fill { group, from, count, body }),
        2 => (group(), from(), 1..=MSGIDS).prop_map(|(group, from, count)| Change::Trim { group, from, count }),
        4 => (tree(), key(), bytes()).prop_map(|(tree, key, bytes)| Change::Put { tree, key, bytes }),
        2 => (tree(), key()).prop_map(|(tree, key)| Change::Remove { tree, key }),
    ]
}

fn any_row() -> impl Strategy<Value = (Tree, Vec<u8>)> {
    let message = (1..=GROUPS, 0..=MSGIDS).prop_map(|(group, msgid)| (Tree::Messages, message_key(group, msgid)));
    prop_oneof![(tree(), key()), message]
}

fn step() -> impl Strategy<Value = Step> {
    let page = (1..=GROUPS, 0..=MSGIDS, 0..=MSGIDS, 1usize..200, 1usize..100_000);
    prop_oneof![
        6 => proptest::collection::vec(change(), 0..6).prop_map(Step::Frame),
        5 => (1usize..4).prop_map(Step::Apply),
        3 => any_row().prop_map(|(tree, key)| Step::Get(tree, key)),
        3 => (any_row(), 1usize..300).prop_map(|((tree, key), rows)| Step::Scan(tree, key, rows)),
        3 => any_row().prop_map(|(tree, key)| Step::Last(tree, key)),
        4 => page.prop_map(|(group, after, up_to, rows_max, bytes_max)| Step::Page {
            group, after, up_to, rows_max, bytes_max
        }),
        2 => Just(Step::Flush),
        1 => Just(Step::Recycle),
        1 => Just(Step::Crash),
    ]
}

fn message_key(group: u64, msgid: u64) -> Vec<u8> {
    keys::message(GroupId::new(group), MessageId::new(msgid)).to_vec()
}

/// Bytes that do not shrink much, different for each seed.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

fn ops(lsn: u64, changes: &[Change]) -> Vec<Op> {
    let message = |group: u64, msgid: u64, body: Option<usize>| {
        let record = |body| MessageRecord {
            flags: 0,
            lsn: Lsn::new(lsn),
            content: msgid,
            own: 0,
            last_edit: MessageId::ZERO,
            extensions: Extensions::default(),
            item: content(lsn + msgid, body).into(),
        };
        let value = body.map(|body| record(body).encode());
        Op { tree: Tree::Messages, key: message_key(group, msgid).into(), value }
    };
    let row = |tree, key: &[u8], value| Op { tree, key: Bytes::copy_from_slice(key), value };
    let mut ops = Vec::new();
    for change in changes {
        match change {
            Change::Fill { group, from, count, body } => {
                ops.extend((*from..from + count).map(|msgid| message(*group, msgid, Some(*body))));
            }
            Change::Trim { group, from, count } => {
                ops.extend((*from..from + count).map(|msgid| message(*group, msgid, None)));
            }
            Change::Put { tree, key, bytes } => ops.push(row(*tree, key, Some(content(lsn, *bytes).into()))),
            Change::Remove { tree, key } => ops.push(row(*tree, key, None)),
        }
    }
    ops
}

/// Two engines that are told the same.
struct Both {
    folder: TempDir,
    index: SledIndex,
    sled: Arc<dyn Engine>,
    faulty: FaultyEngine,
    overlay: Overlay,
    pending: VecDeque<Arc<Frame>>,
    last: Lsn,
}

impl Both {
    fn new() -> Both {
        let folder = tempfile::tempdir().unwrap();
        // A cache that holds a few leaves only, so that most are read from disk.
        let index = SledIndex::new(folder.path(), Settings { cache_bytes: 256 * 1024, ..Settings::default() });
        let sled = index.begin(STORE).unwrap();
        let (overlay, pending) = (Overlay::new(), VecDeque::new());
        Both { folder, index, sled, faulty: FaultyEngine::new(), overlay, pending, last: Lsn::ZERO }
    }

    fn apply(&mut self, frames: usize) {
        for frame in self.pending.drain(..frames.min(self.pending.len())) {
            self.sled.apply(frame.lsn, &frame.ops).unwrap();
            self.faulty.apply(frame.lsn, &frame.ops).unwrap();
            self.overlay.forget(frame.lsn);
        }
    }

    fn crash(self) -> Both {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), folder.path());
        let index = SledIndex::new(folder.path(), self.index.settings);
        let sled = index.open(STORE).unwrap().unwrap();
        let faulty = self.faulty.crash(0).open().unwrap();
        let last = faulty.applied().unwrap();
        Both { folder, index, sled, faulty, overlay: Overlay::new(), pending: VecDeque::new(), last }
    }

    /// The same question to both.
    fn same<T: PartialEq>(&self, ask: impl Fn(&dyn Engine) -> T) -> bool {
        ask(&*self.sled) == ask(&self.faulty)
    }

    fn step(mut self, step: Step) -> Result<Both, TestCaseError> {
        match step {
            Step::Frame(changes) => {
                self.last = self.last.next();
                let frame = Arc::new(Frame { lsn: self.last, ops: ops(self.last.value(), &changes) });
                self.overlay.insert(Arc::clone(&frame));
                self.pending.push_back(frame);
            }
            Step::Apply(frames) => self.apply(frames),
            Step::Get(tree, key) => prop_assert!(self.same(|engine| engine.get(tree, &key).unwrap())),
            Step::Scan(tree, from, rows) => prop_assert!(self.same(|engine| scanned(engine, tree, &from, rows))),
            Step::Last(tree, key) => prop_assert!(self.same(|engine| engine.last_at_or_below(tree, &key).unwrap())),
            Step::Page { group, after, up_to, rows_max, bytes_max } => {
                let (group, at) = (GroupId::new(group), self.last);
                let (after, up_to) = (MessageId::new(after), MessageId::new(up_to));
                let request = PageRequest { group, after, up_to, at, rows_max, bytes_max };
                let same = self.same(|engine| {
                    let page = page::read(engine, &self.overlay, request).unwrap();
                    let rows = page.rows.into_iter().map(|row| (row.msgid, row.record.encode()));
                    (rows.collect::<Vec<_>>(), page.more)
                });
                prop_assert!(same);
            }
            Step::Flush => prop_assert!(self.same(|engine| engine.flush().unwrap())),
            Step::Recycle => {
                self.faulty.flush().unwrap();
                self.sled.recycle().unwrap();
            }
            Step::Crash => self = self.crash(),
        }
        prop_assert!(self.same(|engine| engine.applied().unwrap()));
        Ok(self)
    }
}

fn scanned(engine: &dyn Engine, tree: Tree, from: &[u8], rows: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        seen.push((key.to_vec(), value.to_vec()));
        if seen.len() < rows { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    engine.scan(tree, from, &mut visit).unwrap();
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn whatever_is_done_both_engines_read_the_same(steps in proptest::collection::vec(step(), 1..80)) {
        let mut both = Both::new();
        for step in steps {
            both = both.step(step)?;
        }
        both.apply(usize::MAX);
        for tree in Tree::ALL {
            prop_assert!(both.same(|engine| scanned(engine, tree, &[], usize::MAX)));
        }
    }
}
