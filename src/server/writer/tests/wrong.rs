//! An index that holds what cannot be right.

use super::*;
use crate::store::engine::Op;
use crate::store::keys;
use crate::store::tree::Tree;
use crate::store::{Options, open as open_store};

/// A server with some messages, all of them in the index.
fn used(index: &Arc<FaultyIndex>) -> (World, DeviceId, GroupId) {
    let mut world = open_with(&SimulatedDisk::new(), Arc::clone(index) as Arc<dyn Index>);
    let (device, group) = world.people();
    for seq in 1..=10 {
        assert_eq!(msgid(&world.ask(send(device, seq, group))), seq + 1);
    }
    world.apply_all();
    assert_eq!(index.engine().applied().unwrap(), world.view.read().durable);
    (world, device, group)
}

/// Takes a message out of the index.
fn lose(index: &FaultyIndex, group: GroupId, msgid: u64) {
    let key = keys::message(group, MessageId::new(msgid));
    let engine = index.engine();
    engine.apply(engine.applied().unwrap(), &[Op { tree: Tree::Messages, key, value: None }]).unwrap();
}

fn all(group: GroupId) -> PageAsked {
    let user = crate::ids::UserId::new(1);
    PageAsked { user, group, after: MessageId::ZERO, items: 100, bytes: 1 << 20, gone_alone: false }
}

#[test]
fn a_hole_in_a_page_is_doubt_unless_the_index_was_made_from_the_log_just_now() {
    for made_now in [true, false] {
        let index = Arc::new(FaultyIndex::default());
        let (world, _, group) = used(&index);
        let doubt = &world.writer.watchdog.doubt;
        if made_now {
            doubt.made_now();
        }
        assert_eq!(read(&world, all(group)).unwrap().rows.offered().len(), 11);
        lose(&index, group, 5);
        assert_eq!(read(&world, all(group)), Err(Code::Busy));
        assert_eq!(doubt.is_raised(), !made_now);
    }
}

#[test]
fn an_index_that_ends_below_what_was_answered_is_rebuilt_in_the_same_start_and_no_msgid_is_given_twice() {
    let index = Arc::new(FaultyIndex::default());
    let (world, device, group) = used(&index);
    let disk = world.disk.kill();
    drop(world);
    (9..=11).for_each(|msgid| lose(&index, group, msgid));
    let mut world = open_with(&disk, Arc::clone(&index) as Arc<dyn Index>);
    assert_eq!(index.begun(), 2);
    assert_eq!(read(&world, all(group)).unwrap().rows.offered().len(), 11);
    assert_eq!(msgid(&world.ask(send(device, 11, group))), 12);
}

#[test]
fn an_index_that_could_twice_not_be_read_to_the_end_is_rebuilt() {
    let index = Arc::new(FaultyIndex::default());
    let (world, _, group) = used(&index);
    let mut disk = world.disk.kill();
    drop(world);
    for begun in [1, 1, 2] {
        assert_eq!(index.begun(), 1);
        let options = Options { index: Arc::clone(&index) as Arc<dyn Index>, ..Options::default() };
        let mut store = open_store(Arc::new(disk.clone()), std::path::Path::new("/data"), options).unwrap();
        assert_eq!(index.begun(), begun);
        crate::store::applier::Record::new(store.flushed.take()).begin_reading().unwrap();
        drop(store);
        disk = disk.kill();
    }
    let world = open_with(&disk, Arc::clone(&index) as Arc<dyn Index>);
    assert_eq!(read(&world, all(group)).unwrap().rows.offered().len(), 11);
}
