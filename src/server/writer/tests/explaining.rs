//! What a group keeps, as it is told to those who ask.

use super::*;
use crate::core::command::Retain;
use crate::core::retention::{Keeping, Read, Retention, day_of};
use crate::core::rows::Switches;
use crate::server::explaining::RetentionAsked;

/// Which device is named, up to where it has everything, and the last day on which it was there.
type Named = Option<(DeviceId, u64, u32)>;

impl World {
    /// What is told to the user of this device of who holds something back.
    fn holder(&self, group: GroupId, asks: DeviceId) -> Named {
        let (user, keeping) = (self.user(asks), Keeping::default());
        let info = RetentionAsked { user, group, keeping, clock_ms: NOW }.read(&self.view).unwrap();
        let device = info.holder_device?;
        assert_eq!(info.holder_user, Some(self.user(device)));
        Some((device, info.holder_acked.value(), info.holder_seen_day))
    }

    fn ack(&mut self, device: DeviceId, group: GroupId, msgid: u64) {
        self.ask(Command::Ack { device, entries: vec![(group, MessageId::new(msgid))] });
    }
}

#[test]
fn how_far_a_device_is_whose_user_lets_nobody_know_is_told_to_no_other_and_which_it_is_to_owners_alone() {
    let mut world = open(&SimulatedDisk::new());
    let (alice, group) = world.people();
    let [bob, carl] = [("bob", 9), ("carl", 10)].map(|(name, byte)| world.join(alice, group, name, byte));
    world.ask(Command::Seen { device: bob, day: 20_000 });
    (1..=3).for_each(|seq| drop(world.ask(send(alice, seq, group))));
    let all = [alice, bob, carl];
    [alice, carl].into_iter().for_each(|device| world.ack(device, group, 6));
    let told = |world: &World| all.map(|asks| world.holder(group, asks));
    assert_eq!(told(&world), [None; 3], "nothing is kept for devices");
    let policy = Retention { acked_ms: Some(1_000), ..Retention::ALL };
    world.ask(Command::SetRetention { by: alice, group, policy: Some(policy) });
    let whole = Some((bob, 1, 20_000));
    assert_eq!(told(&world), [whole; 3]);

    world.ask(Command::SetSwitch { by: bob, switch: Switches::RECEIPTS_OFF, on: true });
    assert_eq!(told(&world), [None, whole, None], "not yet the next item is kept for it");
    let read = Read { settled: MessageId::new(6), ..Read::default() };
    let to = MessageId::new(2);
    world.ask(Command::Retain(Retain { group, policy, read, to, content_gone: 0, clock_ms: NOW }));
    assert_eq!(world.view.read().tables.first_kept(group), to);
    assert_eq!(told(&world), [Some((bob, 0, 0)), whole, None]);
    // Who has less stands for it, but to those who are told nothing.
    world.ask(send(alice, 4, group));
    let today = day_of(NOW);
    let carls = Some((carl, 6, today));
    assert_eq!(told(&world), [Some((bob, 0, 0)), whole, Some((alice, 6, today))]);
    world.ack(alice, group, 7);
    assert_eq!(told(&world)[2], carls);
    world.ack(bob, group, 3);
    assert_eq!(told(&world), [carls, Some((bob, 3, 20_000)), carls]);
}
