//! Edits and recalls, step by step: commands that wait for what they are about, and texts that wait to be written.

use super::*;
use crate::ids::UserId;
use crate::limits::RETENTION_INTERVAL_MS;
use crate::wire::frame::{LeaveGroup, SetRetention};
use crate::wire::item::Item;
use crate::wire::said::{extension, msgid_extension};

impl World {
    /// Alice and Bob in a group, both listening.
    fn listening(seed: u64) -> (World, [Conn; 2], DeviceId, GroupId) {
        let mut world = World::new(seed);
        let (alice, bob, group) = world.people();
        let listeners = [world.listen(alice, 1), world.listen(bob, 1)];
        world.settle();
        (world, listeners, bob, group)
    }

    /// Sends something of this kind about an item, or a text.
    pub(super) fn act(&mut self, conn: Conn, seq: u64, group: GroupId, kind: u16, target: Option<u64>, body: &str) {
        let target = target.map(|target| msgid_extension(extension::TARGET, MessageId::new(target)));
        let payload = Payload {
            kind,
            tag: Tag::new([7; 8]),
            body: Bytes::copy_from_slice(body.as_bytes()),
            extensions: Extensions(target.into_iter().collect()),
        };
        let (payload, extensions) = (payload.encode().unwrap(), Extensions::default());
        let (number, lowest) = (ClientSeq::new(seq), ClientSeq::new(seq.saturating_sub(15).max(1)));
        let send = Send { seq: number, lowest, gid: group, payload, extensions };
        self.say(conn, 100 + u32::try_from(seq).unwrap(), &send);
    }

    /// Everything that was written to a connection, in one piece.
    fn bytes(&self, conn: Conn) -> Vec<u8> {
        let of = |out: &Out| match out {
            Out::Control(bytes) | Out::Push(bytes) | Out::Page(_, bytes) => bytes.to_vec(),
            Out::PageDone(_) | Out::PageReset(..) | Out::Closed(_) => Vec::new(),
        };
        self.written.get(&conn).into_iter().flatten().flat_map(of).collect()
    }

    fn was_told(&self, conn: Conn, text: &str) -> bool {
        self.bytes(conn).windows(text.len()).any(|window| window == text.as_bytes())
    }
}

#[test]
fn a_command_that_waits_for_its_item_is_overtaken_by_nothing_of_its_stream() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        let (alice, bob, group) = world.people();
        let (sender, other) = (world.listen(alice, 1), world.listen(bob, 1));
        world.act(sender, 1, group, kind::TEXT, None, "helo");
        world.settle();
        for seq in 0..4 {
            world.act(sender, 3 * seq + 2, group, kind::EDIT, Some(3), "edited");
            world.act(sender, 3 * seq + 3, group, kind::TEXT, None, "between");
            world.act(sender, 3 * seq + 4, group, kind::REACTION, Some(3), "+1");
            world.act(other, seq + 1, group, kind::REACTION, Some(3), "+1");
        }
        world.settle();
        let sent = world.sent(sender);
        assert_eq!(sent.len(), 13, "{:?}", world.steps);
        assert!(sent.values().is_sorted(), "{sent:?} {:?}", world.steps);
        assert_eq!(world.sent(other).len(), 4);
        let user = world.node().tables(|tables| tables.device(alice).unwrap().user);
        let seen = world.node().read(user, group, MessageId::ZERO).unwrap();
        let edits =
            seen.items.iter().map(|(_, item)| Item::decode(item).unwrap()).filter(|item| item.kind == kind::EDIT);
        assert_eq!(edits.count(), 4);
    }
}

#[test]
fn a_stream_waits_for_what_it_wants_while_others_go_on() {
    let mut world = World::new(5);
    let (alice, bob, group) = world.people();
    let (sender, other) = (world.listen(alice, 1), world.listen(bob, 1));
    world.act(sender, 1, group, kind::TEXT, None, "helo");
    world.settle();
    world.act(sender, 2, group, kind::EDIT, Some(3), "hello");
    world.act(sender, 3, group, kind::TEXT, None, "behind it");
    world.act(other, 1, group, kind::TEXT, None, "of somebody else");
    let is_look = |work: &Work| matches!(work, Work::Look(_));
    loop {
        let mut works = world.node().works();
        works.retain(|work| !is_look(work));
        if !world.step_one_of(&works) {
            break;
        }
    }
    assert_eq!((world.sent(sender).len(), world.sent(other).len()), (1, 1));
    world.settle();
    assert_eq!(world.sent(sender).values().copied().collect::<Vec<_>>(), [3, 5, 6]);
}

/// Scenario 26: a text that waits for a slow reader, in a push or in the rest of a page, is not written any more once it
/// was recalled.
#[test]
fn what_waits_to_be_written_is_not_written_once_it_was_recalled() {
    for seed in 0..20 {
        let (mut world, [sender, reader], bob, group) = World::listening(seed);
        world.pull(reader, 4, group, 1);
        world.settle();
        let push = Work::WritePush(reader);
        world.act(sender, 1, group, kind::TEXT, None, "to be pushed");
        world.act(sender, 2, group, kind::TEXT, None, "to stay");
        world.settle_but_for(push);
        world.act(sender, 3, group, kind::RECALL, Some(3), "");
        world.settle_but_for(push);
        world.settle();
        assert!(world.was_told(reader, "to stay") && !world.was_told(reader, "to be pushed"));
        // More than one frame of a page.
        let filler = "x".repeat(8 * 1024);
        (4..=13).for_each(|seq| world.act(sender, seq, group, kind::TEXT, None, &filler));
        world.act(sender, 14, group, kind::TEXT, None, "to be paged");
        world.settle();
        let browsing = world.call(bob);
        world.settle();
        let pull =
            Pull { gid: group, after: MessageId::new(5), items: 0, deliver: false, extensions: Extensions::default() };
        let bytes = codec::encode(9, &pull).unwrap();
        world.node().request(browsing, 6, &bytes);
        world.settle_but_for(Work::WritePage(browsing, 6));
        world.act(sender, 15, group, kind::RECALL, Some(16), "");
        world.settle_but_for(Work::WritePage(browsing, 6));
        assert_eq!(world.sent(sender).len(), 15);
        world.settle();
        assert!(world.got::<PageRows>(browsing).len() > 1, "one frame would be under way already");
        assert!(!world.was_told(browsing, "to be paged"));
    }
}

/// Once retention has removed what was recalled, nothing tells any more that it was (found by a seed).
#[test]
fn what_waits_to_be_written_is_not_written_once_it_was_recalled_and_removed() {
    for seed in 0..20 {
        let (mut world, [sender, reader], _, group) = World::listening(seed);
        world.pull(reader, 4, group, 1);
        world.settle();
        let push = Work::WritePush(reader);
        world.act(sender, 1, group, kind::TEXT, None, "to be pushed");
        world.act(sender, 2, group, kind::EDIT, Some(3), "to be edited");
        world.act(sender, 3, group, kind::TEXT, None, "to stay");
        world.settle_but_for(push);
        world.act(sender, 4, group, kind::RECALL, Some(3), "");
        let (age_s, bytes, acked_s, extensions) = (None, None, None, Extensions::default());
        world.say(
            sender,
            9,
            &SetRetention { gid: group, own: true, age_s, count: Some(2), bytes, acked_s, extensions },
        );
        world.settle_but_for(push);
        while world.node().tables(|tables| tables.recalled().contains(group, MessageId::new(3))) {
            world.wait(RETENTION_INTERVAL_MS);
            world.settle_but_for(push);
        }
        assert_eq!(world.node().tables(|tables| tables.first_kept(group)), MessageId::new(5));
        world.settle();
        assert!(world.was_told(reader, "to stay"));
        assert!(!world.was_told(reader, "to be pushed") && !world.was_told(reader, "to be edited"));
    }
}

impl World {
    /// Takes steps until a page that was looked at waits to be read.
    fn settle_up_to_a_scan(&mut self) -> Work {
        loop {
            let works = self.node().works();
            if let Some(scan) = works.iter().find(|work| matches!(work, Work::Scan(_))) {
                return *scan;
            }
            assert!(self.step_one_of(&works), "nothing is to be read");
        }
    }
}

/// The page of a listener that is behind shows what was said when it was looked at; it is read and pushed after the recall.
#[test]
fn what_was_looked_at_for_a_push_is_not_written_once_it_was_recalled() {
    for seed in 0..20 {
        let (mut world, [sender, reader], _, group) = World::listening(seed);
        world.act(sender, 1, group, kind::TEXT, None, "to be pushed");
        world.act(sender, 2, group, kind::TEXT, None, "to stay");
        world.settle();
        assert_eq!(world.pushed(reader), 0, "it has not come to what continues");
        world.ack(reader, group, 1);
        let scan = world.settle_up_to_a_scan();
        world.act(sender, 3, group, kind::RECALL, Some(3), "");
        // The index has the text, and the overlay what took its place, which is later than the look.
        world.settle_but_for_all(&[scan, Work::Apply]);
        assert_eq!(world.sent(sender).len(), 3);
        world.take(scan);
        world.settle();
        assert!(world.was_told(reader, "to stay") && !world.was_told(reader, "to be pushed"), "{:?}", world.steps);
    }
}

/// Whoever has left is told no more of the group, and still has its last pushes to be written.
#[test]
fn what_waits_for_a_former_member_is_not_written_once_it_was_recalled() {
    for seed in 0..20 {
        let (mut world, [sender, reader], _, group) = World::listening(seed);
        world.pull(reader, 4, group, 1);
        world.settle();
        let push = Work::WritePush(reader);
        world.act(sender, 1, group, kind::TEXT, None, "to be pushed");
        world.act(sender, 2, group, kind::TEXT, None, "to stay");
        world.settle_but_for(push);
        world.say(reader, 2, &LeaveGroup { gid: group, extensions: Extensions::default() });
        world.settle_but_for(push);
        assert!(!world.node().tables(|tables| tables.member(group, UserId::new(2)).unwrap().is_member()));
        world.act(sender, 3, group, kind::RECALL, Some(3), "");
        world.settle_but_for(push);
        world.settle();
        assert!(world.was_told(reader, "to stay") && !world.was_told(reader, "to be pushed"));
    }
}
