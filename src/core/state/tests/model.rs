//! Random histories against a model that walks the items: dense msgids, visibility, cursors, owners, sends.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::core::command::Event;
use crate::core::rows::{MemberRow, Role};

const NAMES: [&str; 4] = ["anna", "bob", "cleo", "dora"];

#[derive(Debug, Clone)]
enum Step {
    /// A device writes something down to be sent.
    Queue {
        device: usize,
        group: usize,
    },
    /// A device sends what it has written down, at this place; the answer may get lost.
    Send {
        device: usize,
        place: usize,
        answer_is_lost: bool,
    },
    Add {
        by: usize,
        group: usize,
        user: usize,
    },
    Remove {
        by: usize,
        group: usize,
        user: usize,
    },
    Leave {
        by: usize,
        group: usize,
    },
    Role {
        by: usize,
        group: usize,
        user: usize,
        role: Role,
    },
    Mute {
        by: usize,
        group: usize,
        user: usize,
        muted: bool,
    },
    Ban {
        by: usize,
        group: usize,
        user: usize,
        banned: bool,
    },
    Policy {
        by: usize,
        group: usize,
        policy: Policy,
    },
    Ack {
        device: usize,
        group: usize,
        msgid: u64,
    },
    Skip {
        device: usize,
        group: usize,
        msgid: u64,
    },
    Enrol {
        user: usize,
    },
    Revoke {
        device: usize,
    },
    Publish,
    Fail,
}

fn step() -> impl Strategy<Value = Step> {
    let (device, group, user, msgid) = (0..8usize, 0..3usize, 0..4usize, 0..30u64);
    prop_oneof![
        4 => (device.clone(), group.clone()).prop_map(|(device, group)| Step::Queue { device, group }),
        6 => (device.clone(), 0..4usize, any::<bool>())
            .prop_map(|(device, place, answer_is_lost)| Step::Send { device, place, answer_is_lost }),
        4 => (device.clone(), group.clone(), user.clone()).prop_map(|(by, group, user)| Step::Add { by, group, user }),
        2 => (device.clone(), group.clone(), user.clone())
            .prop_map(|(by, group, user)| Step::Remove { by, group, user }),
        1 => (device.clone(), group.clone()).prop_map(|(by, group)| Step::Leave { by, group }),
        3 => (device.clone(), group.clone(), user.clone(), role())
            .prop_map(|(by, group, user, role)| Step::Role { by, group, user, role }),
        1 => (device.clone(), group.clone(), user.clone(), any::<bool>())
            .prop_map(|(by, group, user, muted)| Step::Mute { by, group, user, muted }),
        1 => (device.clone(), group.clone(), user.clone(), prop::bool::weighted(0.3))
            .prop_map(|(by, group, user, banned)| Step::Ban { by, group, user, banned }),
        1 => (device.clone(), group.clone(), any::<bool>()).prop_map(|(by, group, full)| {
            Step::Policy { by, group, policy: if full { Policy::FullHistory } else { Policy::FromJoin } }
        }),
        3 => (device.clone(), group.clone(), msgid.clone())
            .prop_map(|(device, group, msgid)| Step::Ack { device, group, msgid }),
        1 => (device.clone(), group, msgid).prop_map(|(device, group, msgid)| Step::Skip { device, group, msgid }),
        1 => user.prop_map(|user| Step::Enrol { user }),
        1 => device.prop_map(|device| Step::Revoke { device }),
        5 => Just(Step::Publish),
        1 => Just(Step::Fail),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Owner), Just(Role::Admin), Just(Role::Member)]
}

/// What a device has written down and has no answer for.
#[derive(Default)]
struct Client {
    last: u64,
    outbox: BTreeMap<u64, GroupId>,
}

struct Run {
    world: World,
    devices: Vec<DeviceId>,
    groups: Vec<GroupId>,
    clients: BTreeMap<DeviceId, Client>,
    /// Sends decided in the batch under way, whose answer will arrive or not.
    decided: Vec<(DeviceId, u64, Answer, bool)>,
    /// Sends that were answered as stored.
    stored: BTreeMap<(DeviceId, u64), u64>,
    cursors: BTreeMap<(GroupId, UserId, DeviceId), MessageId>,
}

fn text(device: DeviceId, number: u64) -> String {
    format!("{device}/{number}")
}

impl Run {
    fn new() -> Run {
        let mut world = World::new();
        let devices: Vec<DeviceId> = NAMES.iter().map(|name| world.user(name)).collect();
        let groups =
            vec![world.group(devices[0]), world.group_with(devices[1], Policy::FullHistory), world.group(devices[2])];
        Run {
            world,
            devices,
            groups,
            clients: BTreeMap::new(),
            decided: Vec::new(),
            stored: BTreeMap::new(),
            cursors: BTreeMap::new(),
        }
    }

    fn device(&self, index: usize) -> DeviceId {
        self.devices[index % self.devices.len()]
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Queue { device, group } => {
                let (device, group) = (self.device(device), self.groups[group]);
                let client = self.clients.entry(device).or_default();
                client.last += 1;
                client.outbox.insert(client.last, group);
            }
            Step::Send { device, place, answer_is_lost } => self.send(self.device(device), place, answer_is_lost),
            Step::Add { by, group, user } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::AddMember { by, group, handle: handle(NAMES[user]) });
            }
            Step::Remove { by, group, user } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::RemoveMember { by, group, handle: handle(NAMES[user]) });
            }
            Step::Leave { by, group } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::LeaveGroup { by, group });
            }
            Step::Role { by, group, user, role } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::SetRole { by, group, handle: handle(NAMES[user]), role });
            }
            Step::Mute { by, group, user, muted } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::SetMuted { by, group, handle: handle(NAMES[user]), muted });
            }
            Step::Ban { by, group, user, banned } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::SetBanned { by, group, handle: handle(NAMES[user]), banned });
            }
            Step::Policy { by, group, policy } => {
                let (by, group) = (self.device(by), self.groups[group]);
                self.world.decide(Command::SetPolicy { by, group, policy });
            }
            Step::Ack { device, group, msgid } => {
                let (device, group) = (self.device(device), self.groups[group]);
                self.world.decide(Command::Ack { device, entries: vec![(group, m(msgid))] });
                self.world.decide(Command::ReadMarks { device, entries: vec![(group, m(msgid))] });
            }
            Step::Skip { device, group, msgid } => {
                let (device, group) = (self.device(device), self.groups[group]);
                self.world.decide(Command::Skip { device, group, to: m(msgid) });
            }
            Step::Enrol { user } => {
                self.publish();
                if self.devices.len() < 8 {
                    let device = self.world.device(NAMES[user]);
                    self.devices.push(device);
                }
            }
            Step::Revoke { device } => {
                let device = self.device(device);
                self.world.decide(Command::RevokeDevice { by: Actor::Operator, device });
            }
            Step::Publish => self.publish(),
            Step::Fail => {
                let unknown: Vec<_> =
                    self.decided.drain(..).map(|(device, number, ..)| (device, seq(number))).collect();
                self.world.fail(&unknown);
            }
        }
    }

    fn send(&mut self, device: DeviceId, place: usize, answer_is_lost: bool) {
        let Some(client) = self.clients.get(&device) else { return };
        let Some((lowest, _)) = client.outbox.first_key_value() else { return };
        let Some((number, group)) = client.outbox.iter().nth(place) else { return };
        let command = send(device, *number, *lowest, *group, &text(device, *number));
        let number = *number;
        let answer = self.world.decide(command).answer;
        self.decided.push((device, number, answer, answer_is_lost));
    }

    fn publish(&mut self) {
        self.world.publish();
        for (device, number, answer, is_lost) in std::mem::take(&mut self.decided) {
            if is_lost {
                continue;
            }
            let outbox = &mut self.clients.entry(device).or_default().outbox;
            if let Answer::Sent { msgid, .. } = answer {
                let before = self.stored.insert((device, number), msgid.value());
                assert!(before.is_none_or(|before| before == msgid.value()), "one send, two msgids");
                outbox.remove(&number);
                continue;
            }
            let refusal = refused(answer);
            assert!(refusal != Refusal::Conflict, "a true resend is no conflict");
            if !refusal.is_not_done() {
                outbox.remove(&number);
            }
        }
        self.check();
    }

    fn check(&mut self) {
        for group in self.groups.clone() {
            self.check_group(group);
        }
        self.check_sends();
        self.check_cursors();
    }

    /// Walks the items of a group: who was there, who saw what.
    fn check_group(&self, group: GroupId) {
        let items: Vec<&ItemRow> = self.world.items.iter().filter(|item| item.group == group).collect();
        let msgids: Vec<u64> = items.iter().map(|item| item.msgid.value()).collect();
        assert_eq!(msgids, (1..=msgids.len() as u64).collect::<Vec<_>>(), "msgids are dense");
        let mut policy = Policy::FromJoin;
        let mut present: BTreeMap<UserId, (Role, bool)> = BTreeMap::new();
        let mut seen: BTreeMap<UserId, BTreeSet<u64>> = BTreeMap::new();
        for item in items {
            let msgid = item.msgid.value();
            match &item.content {
                ItemContent::Created { policy: first, .. } => {
                    policy = *first;
                    present.insert(item.author, (Role::Owner, false));
                }
                ItemContent::Joined(user) => {
                    assert!(present.insert(*user, (Role::Member, false)).is_none());
                    if policy == Policy::FullHistory {
                        seen.entry(*user).or_default().extend(1..msgid);
                    }
                }
                ItemContent::Sent { .. } => {
                    assert!(matches!(present.get(&item.author), Some((_, false))), "sent by somebody outside or muted");
                }
                ItemContent::RoleChanged(user, role) => {
                    let muted = present[user].1 && *role != Role::Owner;
                    present.insert(*user, (*role, muted));
                }
                ItemContent::Muted(user) => present.get_mut(user).unwrap().1 = true,
                ItemContent::Unmuted(user) => present.get_mut(user).unwrap().1 = false,
                ItemContent::PolicyChanged(to) => policy = *to,
                ItemContent::Left(_) | ItemContent::Removed(_) => {}
                ItemContent::Renamed(_) | ItemContent::Topic(_) | ItemContent::BanLifted(_) => {}
            }
            for user in present.keys() {
                seen.entry(*user).or_default().insert(msgid);
            }
            if let ItemContent::Left(user) | ItemContent::Removed(user) = &item.content {
                assert!(present.remove(user).is_some());
            }
        }
        for device in &self.devices {
            let user = self.world.user_of(*device);
            let expected: Vec<u64> = seen.get(&user).into_iter().flatten().copied().collect();
            assert_eq!(self.world.seen(*device, group), expected, "{user} in {group}");
            let highest = m(expected.last().copied().unwrap_or(0));
            assert_eq!(self.world.tables.visible_head(user, group), highest);
        }
        let rows: Vec<_> = self.world.tables.members(group, UserId::ZERO).filter(|(_, row)| row.is_member()).collect();
        assert_eq!(rows.iter().map(|(user, row)| (*user, (row.role, row.muted))).collect::<BTreeMap<_, _>>(), present);
        assert_eq!(self.world.tables.member_count(group), present.len());
        assert!(rows.iter().all(|(_, row)| !row.banned), "nobody banned is in the group");
        let can_speak = |(_, row): &&(UserId, &MemberRow)| row.role == Role::Owner && !row.muted;
        assert!(rows.is_empty() || rows.iter().find(can_speak).is_some(), "no owner, though somebody is there");
    }

    /// Each send is stored at most once, answered ones exactly under their msgid, each device's in its order.
    fn check_sends(&self) {
        let mut found = BTreeMap::new();
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for item in &self.world.items {
            let ItemContent::Sent { body, .. } = &item.content else { continue };
            let text = String::from_utf8(body.to_vec()).unwrap();
            let (device, number) = text.split_once('/').unwrap();
            let number: u64 = number.parse().unwrap();
            let before = last.insert(device.to_owned(), number);
            assert!(before.is_none_or(|before| before < number), "sends of {device} keep their order");
            assert!(found.insert(text, item.msgid.value()).is_none(), "stored twice");
        }
        for ((device, number), msgid) in &self.stored {
            assert_eq!(found.get(&text(*device, *number)), Some(msgid));
        }
    }

    fn check_cursors(&mut self) {
        for group in self.groups.clone() {
            for device in self.devices.clone() {
                let user = self.world.user_of(device);
                for device in [device, DeviceId::ZERO] {
                    let Some(row) = self.world.tables.cursor(group, user, device) else { continue };
                    let before = self.cursors.insert((group, user, device), row.msgid).unwrap_or_default();
                    assert!(row.msgid >= before, "a cursor went back");
                    assert!(row.msgid <= self.world.tables.visible_head(user, group), "a cursor passed the head");
                    if let Some((content, own)) = row.ordinals() {
                        let below = self
                            .world
                            .items
                            .iter()
                            .filter(|item| item.group == group && item.msgid <= row.msgid && is_text(item));
                        let authors: Vec<UserId> = below.map(|item| item.author).collect();
                        assert_eq!(content, authors.len() as u64, "ordinals that are given are right");
                        assert_eq!(own, authors.iter().filter(|author| **author == user).count() as u64);
                    }
                }
            }
        }
    }

    /// In the end every device sends all it has, in order, and nothing stays behind.
    fn drain(&mut self) {
        self.publish();
        for device in self.devices.clone() {
            for _ in 0..1_000 {
                if self.clients.get(&device).is_none_or(|client| client.outbox.is_empty()) {
                    break;
                }
                self.send(device, 0, false);
                self.publish();
            }
            assert!(self.clients.get(&device).is_none_or(|client| client.outbox.is_empty()), "a send got stuck");
        }
    }

    /// The view that is loaded from the last version of each row, in any order, is the one that grew.
    fn check_reload(&self) {
        let mut last: BTreeMap<String, Write> = BTreeMap::new();
        for write in &self.world.log {
            let (key, gone) = key_of(write);
            if gone {
                last.remove(&key);
            } else {
                last.insert(key, write.clone());
            }
        }
        let mut tables = Tables::new();
        for write in last.into_values().rev() {
            tables.load(write);
        }
        assert_eq!(tables.counts(), self.world.tables.counts());
        for group in &self.groups {
            assert_eq!(tables.marks(*group), self.world.tables.marks(*group));
            assert_eq!(tables.member_count(*group), self.world.tables.member_count(*group));
            for device in &self.devices {
                let user = self.world.user_of(*device);
                assert_eq!(tables.own(*group, user), self.world.tables.own(*group, user));
                assert_eq!(tables.member(*group, user), self.world.tables.member(*group, user));
                assert_eq!(tables.cursor(*group, user, *device), self.world.tables.cursor(*group, user, *device));
                assert_eq!(tables.window(*device), self.world.tables.window(*device));
            }
        }
    }
}

/// The key of a write's row, and whether it removes it.
fn key_of(write: &Write) -> (String, bool) {
    match write {
        Write::Group(group, _) => (format!("group {group}"), false),
        Write::Member(group, user, _) => (format!("member {group} {user}"), false),
        Write::Cursor(group, user, device, _) => (format!("cursor {group} {user} {device}"), false),
        Write::User(user, _) => (format!("user {user}"), false),
        Write::Device(device, _) => (format!("device {device}"), false),
        Write::Invite(code, _) => (format!("invite {:?}", code.0), false),
        Write::InviteGone(code) => (format!("invite {:?}", code.0), true),
        Write::Item(item) => (format!("item {} {}", item.group, item.msgid), false),
        Write::Changed(item) => (format!("item {} {}", item.group, item.msgid), false),
        Write::Recalled(group, msgid, _) => (format!("recalled {group} {msgid}"), false),
        Write::Mention(group, user, number, _) => (format!("mention {group} {user} {number}"), false),
        Write::ItemGone(group, msgid) => (format!("item {group} {msgid}"), true),
        Write::OwnGone(group, user, number) => (format!("own {group} {user} {number}"), true),
        Write::RecalledGone(group, msgid, _) => (format!("recalled {group} {msgid}"), true),
        Write::MentionGone(group, user, number) => (format!("mention {group} {user} {number}"), true),
        Write::Send(device, seq, _) => (format!("send {device} {seq}"), false),
        Write::SendGone(device, seq) => (format!("send {device} {seq}"), true),
        Write::SendWindow(device, _) => (format!("window {device}"), false),
        Write::Meta(meta, _) => (format!("meta {meta:?}"), false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenarios 3, 19, 21, 22, 23 at random: one dense order, visibility by stays and the policy that each began under,
    /// cursors that never go back, sends once, and always an owner.
    #[test]
    fn any_history_keeps_what_is_promised(steps in prop::collection::vec(step(), 1..120)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.drain();
        run.check_reload();
    }
}

#[test]
fn every_item_is_told_by_an_event() {
    let mut world = World::new();
    let anna = world.user("anna");
    world.user("bob");
    let group = world.group(anna);
    world.add(anna, group, "bob");
    let applied = world.run(Command::LeaveGroup { by: anna, group });
    let items = applied.writes.iter().filter(|write| matches!(write, Write::Item(_))).count();
    let told = applied.events.iter().filter(|event| matches!(event, Event::Items { .. })).count();
    assert_eq!((items, told), (2, 2));
}
