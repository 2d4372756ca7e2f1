//! How much is read of the index for an answer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::ids::Lsn;
use crate::server::conversations::Asked;
use crate::store::engine::{Op, Visit};
use crate::store::memory::MemoryEngine;
use crate::store::tree::Tree;
use crate::wire::frame::{Conversations, Extensions};

/// An index in memory that counts the rows that are read.
#[derive(Default)]
struct Counted {
    rows: MemoryEngine,
    read: AtomicU64,
}

impl Counted {
    fn count(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }
}

impl Engine for Counted {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<bytes::Bytes>, EngineError> {
        self.count();
        self.rows.get(tree, key)
    }

    fn scan(&self, tree: Tree, from: &[u8], visit: Visit<'_>) -> Result<(), EngineError> {
        self.rows.scan(tree, from, &mut |key, value| {
            self.count();
            visit(key, value)
        })
    }

    fn last_at_or_below(&self, tree: Tree, key: &[u8]) -> Result<Option<(bytes::Bytes, bytes::Bytes)>, EngineError> {
        self.count();
        self.rows.last_at_or_below(tree, key)
    }

    fn apply(&self, lsn: Lsn, ops: &[Op]) -> Result<(), EngineError> {
        self.rows.apply(lsn, ops)
    }

    fn applied(&self) -> Result<Lsn, EngineError> {
        self.rows.applied()
    }

    fn flush(&self) -> Result<Lsn, EngineError> {
        self.rows.flush()
    }
}

/// The rows that are read for the list of somebody with so many groups, in two of which something was said since a version.
fn read_for_two_of(groups: usize) -> u64 {
    let engine = Arc::new(Counted::default());
    let mut world = open_with(&SimulatedDisk::new(), Arc::new(Given(engine.clone())));
    let (device, first) = world.people();
    let mut all = vec![first];
    while all.len() < groups {
        let create = Command::CreateGroup { by: device, name: "another".to_owned(), policy: Policy::FromJoin };
        let Outcome::Decided(Answer::GroupCreated(group)) = world.ask(create) else { panic!("no group") };
        msgid(&world.ask(send_alone(device, all.len() as u64, group)));
        world.apply_all();
        all.push(group);
    }
    let changed = [first, all[1]];
    let bob = world.join(device, first, "bob", 5);
    world.ask(Command::AddMember { by: device, group: changed[1], handle: Handle::parse("bob").unwrap() });
    let version = world.view.read().durable.value();
    for (seq, group) in (1..).zip(changed.repeat(3)) {
        msgid(&world.ask(send_alone(bob, seq, group)));
    }
    world.apply_all();
    engine.read.store(0, Ordering::Relaxed);
    let extensions = Extensions::default();
    let asked = Conversations { since: version, behind: None, rows: 0, preview_bytes: 256, extensions };
    let asked = Asked::new(world.user(device), device, &asked);
    let list = asked.read(&world.view, &world.writer.watchdog.doubt).unwrap();
    let rows: Vec<_> = list.rows.0.iter().map(|row| (row.gid, row.unread)).collect();
    assert_eq!(rows, [(changed[1], 3), (first, 3)]);
    engine.read.load(Ordering::Relaxed)
}

/// Scenario 18: what has not changed is not looked at.
#[test]
fn a_list_since_a_version_reads_what_changed_and_no_more_however_many_groups_there_are() {
    let read = read_for_two_of(500);
    assert!((2..=20).contains(&read), "{read}");
    assert_eq!(read_for_two_of(1_000), read);
}
