//! Users who are deactivated, reactivated and deleted, and their handles.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::core::command::Event;
use crate::core::rows::{Role, UserState};
use crate::limits::STAYS_ENDED_AT_ONCE;

const KEY: Actor = Actor::Operator;

fn deactivate(by: Actor, name: &str) -> Command {
    Command::DeactivateUser { by, handle: handle(name) }
}

fn reactivate(by: Actor, name: &str) -> Command {
    Command::ReactivateUser { by, handle: handle(name) }
}

fn delete(by: Actor, name: &str) -> Command {
    Command::DeleteUser { by, handle: handle(name) }
}

fn free(by: Actor, name: &str) -> Command {
    Command::FreeHandle { by, handle: handle(name) }
}

fn device_invite(world: &mut World, name: &str) -> CodeHash {
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    let made = world.answer(Command::InviteDevice { by: KEY, user: Some(handle(name)), code, expires_ms });
    assert_eq!(made, Answer::Invited { expires_ms });
    code
}

fn user_invite(world: &mut World, by: Actor, name: &str) -> (CodeHash, Answer) {
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    (code, world.answer(Command::Invite { by, handle: handle(name), group: None, code, expires_ms }))
}

/// anna, the operator, who owns a group that bob is in.
fn two() -> (World, DeviceId, DeviceId, GroupId) {
    let mut world = World::new();
    let (anna, bob) = (world.user("anna"), world.user("bob"));
    let group = world.group(anna);
    world.add(anna, group, "bob");
    (world, anna, bob, group)
}

/// Scenario 37, as far as `State` decides it: nothing of a deactivated user is done any more.
#[test]
fn a_deactivated_user_gets_the_same_code_from_every_verb_and_device() {
    let (mut world, anna, bob, group) = two();
    let phone = world.device("bob");
    world.answer(send(bob, 1, 1, group, "before"));
    let applied = world.run(deactivate(Actor::Device(anna), "bob"));
    assert_eq!(applied.answer, Answer::Done(None));
    assert_eq!(applied.events, [Event::UserShutOut(world.user_of(bob))]);
    let verbs = [
        send(bob, 1, 1, group, "before"),
        send(phone, 1, 1, group, "after"),
        Command::Ack { device: phone, entries: vec![(group, m(1))] },
        Command::ReadMarks { device: bob, entries: vec![(group, m(1))] },
        Command::Skip { device: bob, group, to: m(1) },
        Command::CreateGroup { by: bob, name: "x".to_owned(), policy: Policy::FromJoin },
        Command::LeaveGroup { by: phone, group },
        Command::RevokeDevice { by: Actor::Device(bob), device: phone },
        Command::RenameDevice { by: Actor::Device(bob), device: phone, name: "x".to_owned() },
        reactivate(Actor::Device(bob), "bob"),
    ];
    for command in verbs {
        let applied = world.run(command);
        assert_eq!(applied.answer, Answer::Refused(Refusal::Deactivated));
        assert!(applied.writes.is_empty());
    }
    let again = world.run(deactivate(KEY, "bob"));
    assert_eq!((again.answer, again.writes.len(), again.events.len()), (Answer::Done(None), 0, 0));
    world.answer(Command::RevokeDevice { by: KEY, device: phone });
    let by_phone = world.answer(Command::LeaveGroup { by: phone, group });
    assert_eq!(refused(by_phone), Refusal::DeviceRevoked, "what lasts longer is said");
}

/// Scenario 37: what was there before is there again.
#[test]
fn a_reactivated_user_finds_groups_cursors_read_mark_and_backlog_as_they_were() {
    let (mut world, anna, bob, group) = two();
    world.say_up_to(anna, group, 6);
    world.ack(bob, group, 4);
    world.answer(Command::ReadMarks { device: bob, entries: vec![(group, m(3))] });
    let before = (world.cursor(group, bob), world.read_mark(group, bob));
    world.answer(deactivate(KEY, "bob"));
    world.say_up_to(anna, group, 9);
    world.answer(reactivate(KEY, "bob"));
    assert_eq!((world.cursor(group, bob), world.read_mark(group, bob)), before);
    assert_eq!(world.seen(bob, group), (2..=9).collect::<Vec<_>>());
    assert_eq!(sent(&world.say(bob, group, "back")), 10);
    let again = world.run(reactivate(KEY, "bob"));
    assert_eq!((again.answer, again.writes.len()), (Answer::Done(None), 0));
}

#[test]
fn who_is_added_while_deactivated_has_cursors_on_all_devices_once_they_are_back() {
    let (mut world, anna, bob, _) = two();
    world.answer(deactivate(KEY, "bob"));
    let other = world.group(anna);
    world.add(anna, other, "bob");
    world.answer(reactivate(KEY, "bob"));
    assert_eq!((world.cursor(other, bob).msgid, world.read_mark(other, bob).msgid), (m(1), m(1)));
}

#[test]
fn invites_of_and_for_who_may_not_come_in_open_nothing() {
    let (mut world, anna, bob, _) = two();
    let by_anna = user_invite(&mut world, Actor::Device(anna), "cleo").0;
    let for_bob = device_invite(&mut world, "bob");
    world.answer(deactivate(KEY, "bob"));
    assert_eq!(refused(world.enrol(for_bob, "bob")), Refusal::Deactivated);
    world.answer(deactivate(KEY, "anna"));
    assert_eq!(refused(world.enrol(by_anna, "cleo")), Refusal::BadInvite);
    world.answer(reactivate(KEY, "anna"));
    device_of(world.enrol(by_anna, "cleo"));
    world.answer(delete(KEY, "bob"));
    assert_eq!(refused(world.enrol(for_bob, "bob")), Refusal::UserDeleted);
    assert!(world.tables.devices_of(world.user_of(bob), DeviceId::ZERO).all(|(_, row)| row.revoked_ms.is_some()));
}

#[test]
fn operators_alone_shut_out_let_in_delete_and_free() {
    let (mut world, anna, bob, _) = two();
    world.user("cleo");
    for command in [deactivate, reactivate, delete, free] {
        assert_eq!(refused(world.answer(command(Actor::Device(bob), "cleo"))), Refusal::NotAllowed);
        assert_eq!(refused(world.answer(command(Actor::Device(anna), "nobody"))), Refusal::NoSuchUser);
    }
    assert_eq!(refused(world.answer(free(KEY, "cleo"))), Refusal::HandleTaken);
}

/// Scenario 23: the sole owner of a group is deleted.
#[test]
fn a_deleted_user_leaves_by_items_and_a_group_gets_another_owner() {
    let (mut world, anna, bob, group) = two();
    let mine = world.group(bob);
    world.add(bob, mine, "anna");
    let applied = world.run(delete(Actor::Device(anna), "bob"));
    assert_eq!(applied.answer, Answer::Deleting { left: 0 });
    let user = world.user_of(bob);
    assert!(applied.events.contains(&Event::UserShutOut(user)));
    for (group, end) in [(group, 3), (mine, 3)] {
        let item = world.item(group, end);
        assert_eq!((item.author, item.content == ItemContent::Removed(user)), (UserId::ZERO, true));
        assert_eq!(world.tables.member(group, user).unwrap().intervals.last().unwrap().left, Some(m(end)));
    }
    assert_eq!(world.tables.member(mine, world.user_of(anna)).unwrap().role, Role::Owner);
    assert_eq!(world.tables.member_count(mine), 1);
    for command in [send(bob, 1, 1, group, "x"), Command::LeaveGroup { by: bob, group }] {
        assert_eq!(refused(world.answer(command)), Refusal::UserDeleted);
    }
    for command in [deactivate, reactivate] {
        assert_eq!(refused(world.answer(command(KEY, "bob"))), Refusal::UserDeleted);
    }
    assert_eq!(world.answer(delete(KEY, "bob")), Answer::Deleting { left: 0 }, "again is no error");
    assert_eq!(refused(world.add(anna, group, "bob")), Refusal::NoSuchUser);
}

#[test]
fn ownership_passes_to_who_is_deactivated_only_where_there_is_nobody_else() {
    let (mut world, anna, bob, group) = two();
    let cleo = world.user("cleo");
    world.add(anna, group, "cleo");
    world.answer(deactivate(KEY, "bob"));
    world.leave(anna, group);
    assert_eq!(world.tables.member(group, world.user_of(cleo)).unwrap().role, Role::Owner);
    world.leave(cleo, group);
    assert_eq!(world.tables.member(group, world.user_of(bob)).unwrap().role, Role::Owner);
}

/// Who is shut out can do nothing that owners do, so the group is as if it had none.
#[test]
fn beside_an_owner_who_is_deactivated_ownership_passes_on_as_if_there_were_none() {
    let leaving: fn(&mut World, DeviceId, GroupId) = |world, anna, group| drop(world.leave(anna, group));
    let deleted: fn(&mut World, DeviceId, GroupId) = |world, _, _| drop(world.answer(delete(KEY, "anna")));
    for goes in [leaving, deleted] {
        let (mut world, anna, bob, group) = two();
        let cleo = world.user("cleo");
        world.add(anna, group, "cleo");
        let role = |world: &World, device| world.tables.member(group, world.user_of(device)).unwrap().role;
        world.answer(Command::SetRole { by: anna, group, handle: handle("bob"), role: Role::Owner });
        world.answer(deactivate(KEY, "bob"));
        goes(&mut world, anna, group);
        assert_eq!((role(&world, bob), role(&world, cleo)), (Role::Owner, Role::Owner));
        world.leave(cleo, group);
        assert_eq!(role(&world, bob), Role::Owner, "the only one left");
    }
}

#[test]
fn a_user_of_many_groups_is_shut_out_at_once_and_deleted_in_steps() {
    let (mut world, anna, bob, _) = two();
    for _ in 0..STAYS_ENDED_AT_ONCE {
        let group = world.group(anna);
        world.add(anna, group, "bob");
    }
    let user = world.user_of(bob);
    assert_eq!(world.answer(delete(KEY, "bob")), Answer::Deleting { left: 1 });
    assert!(matches!(world.tables.user(user).unwrap().state, UserState::Deactivated { .. }));
    assert_eq!(refused(world.say(bob, GroupId::new(1), "x")), Refusal::Deactivated);
    assert_eq!(world.answer(delete(KEY, "bob")), Answer::Deleting { left: 0 });
    assert!(matches!(world.tables.user(user).unwrap().state, UserState::Deleted { is_handle_free: false, .. }));
    let is_in = |group| world.tables.is_member(group, user);
    assert!(!world.tables.groups_of(user, GroupId::ZERO).any(is_in));
}

/// The handle of a deleted user is reserved until it is freed; then it is a new user's, who sees nothing of the old.
#[test]
fn a_freed_handle_makes_a_new_user_with_another_id_who_sees_nothing_of_the_old() {
    let (mut world, anna, old, group) = two();
    world.say(anna, group, "for the old bob");
    let early = user_invite(&mut world, KEY, "dora").0;
    device_of(world.enrol(early, "dora"));
    world.answer(delete(KEY, "bob"));
    assert_eq!(user_invite(&mut world, KEY, "bob").1, Answer::Refused(Refusal::HandleTaken));
    assert_eq!(world.answer(free(KEY, "bob")), Answer::Done(None));
    assert_eq!(refused(world.answer(free(KEY, "bob"))), Refusal::NoSuchUser);
    let new = world.user("bob");
    assert_ne!(world.user_of(new), world.user_of(old));
    assert!(world.seen(new, group).is_empty());
    assert!(!world.tables.is_group_known_to(world.user_of(new), group));
    assert_eq!(world.tables.user_by_handle(&handle("bob")), Some(world.user_of(new)));
    assert_eq!(refused(world.say(old, group, "x")), Refusal::UserDeleted);
    // Whatever comes first when the server starts again.
    for reversed in [false, true] {
        let mut rows: Vec<_> = world.tables.users(UserId::ZERO).map(|(user, row)| (user, row.clone())).collect();
        if reversed {
            rows.reverse();
        }
        let mut tables = Tables::new();
        rows.into_iter().for_each(|(user, row)| tables.load(Write::User(user, row)));
        assert_eq!(tables.user_by_handle(&handle("bob")), Some(world.user_of(new)));
    }
}

#[test]
fn a_handle_is_free_within_the_batch_that_frees_it() {
    let (mut world, ..) = two();
    world.answer(delete(KEY, "bob"));
    assert_eq!(world.decide(free(KEY, "bob")).answer, Answer::Done(None));
    let (code, expires_ms) = (world.code(), world.now_ms + DAY_MS);
    let invite = Command::Invite { by: KEY, handle: handle("bob"), group: None, code, expires_ms };
    assert_eq!(world.decide(invite).answer, Answer::Invited { expires_ms });
    world.publish();
    device_of(world.enrol(code, "bob"));
}

#[test]
fn a_display_name_is_kept_normalised_and_a_change_is_no_item_and_tells_nobody() {
    let (mut world, _, bob, group) = two();
    let name = |text: &str| Command::NameUser { by: bob, name: text.to_owned() };
    let head = world.tables.head(group);
    let applied = world.run(name(" Zoe\u{308} "));
    assert_eq!((applied.answer, applied.writes.len(), applied.events.len()), (Answer::Done(None), 1, 0));
    let user = world.user_of(bob);
    assert_eq!(world.tables.user(user).unwrap().name.as_deref(), Some("Zo\u{eb}"));
    assert!(world.run(name("Zo\u{eb}")).writes.is_empty(), "the same name is no change");
    for odd in ["\u{200b}", " ", "a\u{202e}b", "a\nb"] {
        assert_eq!(refused(world.answer(name(odd))), Refusal::BadName, "{odd:?}");
    }
    assert_eq!(world.tables.user(user).unwrap().name.as_deref(), Some("Zo\u{eb}"));
    world.answer(name(""));
    assert_eq!(world.tables.user(user).unwrap().name, None);
    assert_eq!(world.tables.head(group), head);
    world.answer(name("Bob"));
    world.answer(delete(KEY, "bob"));
    assert_eq!(world.tables.user(user).unwrap().name, None, "what was said of oneself goes with oneself");
}

// ---- random histories against a model -----------------------------------------------------------------------------------

const NAMES: [&str; 3] = ["bob", "cleo", "dora"];

#[derive(Debug, Clone, Copy)]
enum Step {
    Deactivate(usize),
    Reactivate(usize),
    Delete(usize),
    Free(usize),
    Join(usize),
    Add(usize, usize),
    Leave(usize),
    Publish,
    Fail,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        2 => name().prop_map(Step::Deactivate),
        2 => name().prop_map(Step::Reactivate),
        1 => name().prop_map(Step::Delete),
        2 => name().prop_map(Step::Free),
        2 => name().prop_map(Step::Join),
        3 => (name(), name()).prop_map(|(by, whom)| Step::Add(by, whom)),
        1 => name().prop_map(Step::Leave),
        3 => Just(Step::Publish),
        1 => Just(Step::Fail),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Active,
    Deactivated,
    Deleted,
}

/// Who holds which handle, and the devices of those who hold none any more.
#[derive(Debug, Clone, Default)]
struct Model {
    holders: BTreeMap<usize, (DeviceId, UserId, Life)>,
    gone: Vec<DeviceId>,
    last: UserId,
}

impl Model {
    fn operate(&mut self, name: usize, allowed: Life, to: Life) -> Answer {
        match self.holders.get_mut(&name) {
            None => Answer::Refused(Refusal::NoSuchUser),
            Some((_, _, Life::Deleted)) => Answer::Refused(Refusal::UserDeleted),
            Some((_, _, life)) => {
                *life = if *life == allowed { to } else { *life };
                Answer::Done(None)
            }
        }
    }

    fn delete(&mut self, name: usize) -> Answer {
        let Some((_, _, life)) = self.holders.get_mut(&name) else { return Answer::Refused(Refusal::NoSuchUser) };
        *life = Life::Deleted;
        Answer::Deleting { left: 0 }
    }

    fn free(&mut self, name: usize) -> Answer {
        match self.holders.get(&name).copied() {
            None => Answer::Refused(Refusal::NoSuchUser),
            Some((device, _, Life::Deleted)) => {
                self.gone.push(device);
                self.holders.remove(&name);
                Answer::Done(None)
            }
            Some(_) => Answer::Refused(Refusal::HandleTaken),
        }
    }
}

struct Run {
    world: World,
    group: GroupId,
    now: Model,
    durable: Model,
}

impl Run {
    fn new() -> Run {
        let mut world = World::new();
        let anna = world.user("anna");
        let group = world.group(anna);
        let last = world.user_of(anna);
        let now = Model { last, ..Model::default() };
        Run { world, group, durable: now.clone(), now }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Deactivate(name) => {
                let answer = self.world.decide(deactivate(KEY, NAMES[name])).answer;
                assert_eq!(answer, self.now.operate(name, Life::Active, Life::Deactivated));
            }
            Step::Reactivate(name) => {
                let answer = self.world.decide(reactivate(KEY, NAMES[name])).answer;
                assert_eq!(answer, self.now.operate(name, Life::Deactivated, Life::Active));
            }
            Step::Delete(name) => {
                assert_eq!(self.world.decide(delete(KEY, NAMES[name])).answer, self.now.delete(name));
            }
            Step::Free(name) => assert_eq!(self.world.decide(free(KEY, NAMES[name])).answer, self.now.free(name)),
            Step::Join(name) => self.join(name),
            Step::Add(by, whom) => {
                let group = self.group;
                self.by(by, |device| Command::AddMember { by: device, group, handle: handle(NAMES[whom]) });
            }
            Step::Leave(name) => {
                let group = self.group;
                self.by(name, |device| Command::LeaveGroup { by: device, group });
            }
            Step::Publish => {
                self.world.publish();
                self.durable = self.now.clone();
                self.check();
            }
            Step::Fail => {
                self.world.fail(&[]);
                self.now = self.durable.clone();
            }
        }
    }

    fn join(&mut self, name: usize) {
        let (code, key) = (CodeHash(self.unique()), DeviceKey(self.unique()));
        let expires_ms = self.world.now_ms + DAY_MS;
        let wanted = handle(NAMES[name]);
        let invite = Command::Invite { by: KEY, handle: wanted, group: None, code, expires_ms };
        let answer = self.world.decide(invite).answer;
        if self.now.holders.contains_key(&name) {
            assert_eq!(answer, Answer::Refused(Refusal::HandleTaken));
            return;
        }
        let enrol = Command::Enrol { code, key, handle: None, device_name: "phone".to_owned() };
        let Answer::Enrolled { device, user, .. } = self.world.decide(enrol).answer else { panic!("{answer:?}") };
        assert!(user > self.now.last, "an id is given once");
        self.now.last = user;
        self.now.holders.insert(name, (device, user, Life::Active));
        let anna = DeviceId::new(1);
        self.world.decide(Command::AddMember { by: anna, group: self.group, handle: handle(NAMES[name]) });
    }

    fn unique(&mut self) -> [u8; 32] {
        self.world.now_ms += 1;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.world.now_ms.to_be_bytes());
        bytes
    }

    /// Something that a device asks: whoever may not come in is told why, in whatever they ask.
    fn by(&mut self, name: usize, command: impl Fn(DeviceId) -> Command) {
        for device in self.now.gone.clone() {
            assert_eq!(self.world.decide(command(device)).answer, Answer::Refused(Refusal::UserDeleted));
        }
        let Some((device, _, life)) = self.now.holders.get(&name).copied() else { return };
        let answer = self.world.decide(command(device)).answer;
        match life {
            Life::Active => assert!(!matches!(
                answer,
                Answer::Refused(Refusal::Deactivated | Refusal::UserDeleted | Refusal::DeviceRevoked)
            )),
            Life::Deactivated => assert_eq!(answer, Answer::Refused(Refusal::Deactivated)),
            Life::Deleted => assert_eq!(answer, Answer::Refused(Refusal::UserDeleted)),
        }
    }

    fn check(&self) {
        let tables = &self.world.tables;
        for (name, text) in NAMES.iter().enumerate() {
            let held = self.now.holders.get(&name);
            assert_eq!(tables.handle_holder(&handle(text)), held.map(|(_, user, _)| *user));
            let named = held.filter(|(_, _, life)| *life != Life::Deleted).map(|(_, user, _)| *user);
            assert_eq!(tables.user_by_handle(&handle(text)), named);
        }
        for (user, row) in tables.users(UserId::ZERO).filter(|(_, row)| row.is_deleted()) {
            assert!(!tables.is_member(self.group, user), "{row:?}");
            assert!(tables.devices_of(user, DeviceId::ZERO).all(|(_, device)| device.revoked_ms.is_some()));
        }
        let members = tables.members(self.group, UserId::ZERO).filter(|(_, row)| row.is_member());
        let roles: Vec<Role> = members.map(|(_, row)| row.role).collect();
        assert!(roles.is_empty() || roles.contains(&Role::Owner));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Handles, ids and who may come in, against a model; some batches fail.
    #[test]
    fn whatever_operators_do_to_users_handles_have_one_holder_and_nobody_gone_comes_in(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut run = Run::new();
        steps.into_iter().for_each(|step| run.step(step));
        run.step(Step::Publish);
    }
}
