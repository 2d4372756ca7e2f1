//! What is said and what becomes of it: edits, recalls, reactions, mentions. Items are attached as a server does it.

use super::*;
use crate::core::attached::{Attached, Extent};
use crate::core::command::Storage;
use crate::core::rows::{RecalledRow, Role};
use crate::limits::{EDITS_MAX, RECALLED_ENTRIES_AUTHOR_MAX, RECALLED_ENTRIES_MAX};

/// Kinds as they travel; `State` hands them on.
const KINDS: [u16; 4] = [1, 2, 3, 4];

impl World {
    /// An item as it is kept.
    fn kept(&self, group: GroupId, msgid: u64) -> Option<ItemRow> {
        self.log.iter().rev().find_map(|write| {
            let (Write::Item(item) | Write::Changed(item)) = write else { return None };
            ((item.group, item.msgid) == (group, m(msgid))).then(|| item.clone())
        })
    }

    /// Reads what a command wants, as a server does.
    fn attach(&self, command: &mut Command) {
        let Some(wanted) = command.wanted() else { return };
        let mut items = Vec::new();
        let mut next = self.kept(wanted.group, wanted.msgid.value());
        while let Some(item) = next {
            let last = Some(item.last_edit).filter(|edit| wanted.of == Extent::WithEdits && *edit > m(0));
            next = last.and_then(|edit| self.kept(wanted.group, edit.value()));
            items.push(item);
        }
        command.attach(Attached { head: self.tables.head(wanted.group), items });
    }

    fn acting(&self, device: DeviceId, number: u64, group: GroupId, act: Act, text: &str) -> Command {
        let mut command = send(device, number, number, group, text);
        let Command::Send(SendCommand { what: Ok(what), .. }) = &mut command else { unreachable!() };
        what.act = act;
        what.kind = KINDS[match act {
            Act::Says => 0,
            Act::Edits(_) => 1,
            Act::Recalls(_) => 2,
            Act::Reacts(_) => 3,
        }];
        self.attach(&mut command);
        command
    }

    fn next_number(&self, device: DeviceId) -> u64 {
        self.tables.window(device).unwrap_or_default().highest.value() + 1
    }

    fn act(&mut self, device: DeviceId, group: GroupId, act: Act, text: &str) -> Answer {
        let command = self.acting(device, self.next_number(device), group, act, text);
        self.answer(command)
    }

    fn mention(&mut self, device: DeviceId, group: GroupId, users: &[UserId]) -> u64 {
        let mut command = send(device, self.next_number(device), self.next_number(device), group, "you there");
        let Command::Send(SendCommand { what: Ok(what), .. }) = &mut command else { unreachable!() };
        what.mentions = users.to_vec();
        sent(&self.answer(command))
    }

    fn text(&self, group: GroupId, msgid: u64) -> String {
        let Some(ItemContent::Sent { body, .. }) = self.kept(group, msgid).map(|item| item.content) else {
            panic!("{msgid} was not sent")
        };
        String::from_utf8(body.to_vec()).unwrap()
    }
}

const M3: MessageId = MessageId::new(3);

#[test]
fn an_edit_is_an_item_of_its_own_and_the_target_names_the_newest() {
    let (mut world, _, bob, group) = pair();
    world.say(bob, group, "helo");
    assert_eq!(sent(&world.act(bob, group, Act::Edits(M3), "hallo")), 4);
    assert_eq!(sent(&world.act(bob, group, Act::Edits(M3), "hello")), 5);
    let target = world.kept(group, 3).unwrap();
    assert_eq!((target.last_edit, target.edits, target.recalled), (m(5), 2, false));
    assert_eq!(world.kept(group, 5).unwrap().last_edit, m(4));
    assert_eq!((world.text(group, 3), world.text(group, 5)), ("helo".to_owned(), "hello".to_owned()));
    assert_eq!((world.tables.content(group), world.tables.own(group, world.user_of(bob))), (1, 1));
}

#[test]
fn only_its_author_edits_an_item_and_only_for_a_time_and_only_so_often() {
    let (mut world, anna, bob, group) = pair();
    world.say(bob, group, "hello");
    assert_eq!(refused(world.act(anna, group, Act::Edits(M3), "mine")), Refusal::NotYours);
    for _ in 0..EDITS_MAX {
        sent(&world.act(bob, group, Act::Edits(M3), "again"));
        world.now_ms += 1;
    }
    assert_eq!(refused(world.act(bob, group, Act::Edits(M3), "again")), Refusal::TooManyEdits);
    let late = sent(&world.say(bob, group, "hello"));
    world.now_ms += 7 * DAY_MS;
    sent(&world.act(bob, group, Act::Edits(m(late)), "in time"));
    world.now_ms += 1;
    assert_eq!(refused(world.act(bob, group, Act::Edits(m(late)), "too late")), Refusal::TooLate);
}

#[test]
fn a_recall_wipes_the_target_and_every_edit_of_it_in_one_frame() {
    let (mut world, anna, bob, group) = pair();
    world.say(bob, group, "helo");
    world.act(bob, group, Act::Edits(M3), "hallo");
    world.act(bob, group, Act::Edits(M3), "hello");
    let command = world.acting(bob, world.next_number(bob), group, Act::Recalls(M3), "");
    let applied = world.run(command);
    assert_eq!(sent(&applied.answer), 6);
    for msgid in [3, 4, 5] {
        let item = world.kept(group, msgid).unwrap();
        assert!(item.recalled && world.text(group, msgid).is_empty(), "m{msgid}");
        assert!(applied.writes.iter().any(|write| matches!(write, Write::Changed(item) if item.msgid == m(msgid))));
    }
    // By this whoever writes rows that wait knows that they may not be what they were.
    assert_eq!(world.tables.last_change(group), m(6));
    assert!(world.tables.recalled().contains(group, M3) && !world.tables.recalled().contains(group, m(4)));
    assert_eq!(world.tables.recalled().of_author(group, world.user_of(bob), m(0), m(9)), 1);
    // A recall wins over whatever comes late.
    assert_eq!(refused(world.act(bob, group, Act::Edits(M3), "late")), Refusal::ItemRecalled);
    assert_eq!(refused(world.act(bob, group, Act::Recalls(M3), "")), Refusal::ItemRecalled);
    assert_eq!(refused(world.act(anna, group, Act::Reacts(M3), "+1")), Refusal::ItemRecalled);
    assert_eq!(world.tables.content(group), 1, "its place is kept");
}

#[test]
fn members_recall_what_is_theirs_and_admins_and_owners_what_anybody_said() {
    let (mut world, anna, bob, group) = pair();
    world.say(anna, group, "hers");
    world.say(bob, group, "his");
    assert_eq!(refused(world.act(bob, group, Act::Recalls(M3), "")), Refusal::NotAllowed);
    sent(&world.act(anna, group, Act::Recalls(m(4)), ""));
    let row = world.tables.member(group, world.user_of(bob)).unwrap().clone();
    let promoted = Write::Member(group, world.user_of(bob), crate::core::rows::MemberRow { role: Role::Admin, ..row });
    world.tables.apply(&[promoted]);
    sent(&world.act(bob, group, Act::Recalls(M3), ""));
}

#[test]
fn an_author_recalls_only_as_long_as_the_settings_say_and_an_owner_at_any_time() {
    let (mut world, anna, bob, group) = pair();
    world.state = State::new(Settings { recall_ms: DAY_MS, ..Settings::default() });
    world.say(bob, group, "his");
    world.now_ms += DAY_MS + 1;
    assert_eq!(refused(world.act(bob, group, Act::Recalls(M3), "")), Refusal::TooLate);
    sent(&world.act(anna, group, Act::Recalls(M3), ""));
}

#[test]
fn only_content_that_is_there_and_visible_can_be_a_target() {
    let (mut world, anna, bob, group) = pair();
    world.say(anna, group, "hello");
    let edit = sent(&world.act(anna, group, Act::Edits(M3), "hullo"));
    let reaction = sent(&world.act(bob, group, Act::Reacts(M3), "+1"));
    for msgid in [0, 1, 2, edit, reaction, 99, u64::MAX - 1] {
        for act in [Act::Edits, Act::Recalls, Act::Reacts] {
            let answer = world.act(anna, group, act(m(msgid)), "");
            assert_eq!(refused(answer), Refusal::NoSuchItem, "{:?}", act(m(msgid)));
        }
    }
    let carol = world.user("carol");
    world.add(anna, group, "carol");
    assert_eq!(refused(world.act(carol, group, Act::Reacts(M3), "+1")), Refusal::NoSuchItem);
    assert_eq!(refused(world.act(carol, group, Act::Recalls(M3), "")), Refusal::NoSuchItem);
}

#[test]
fn what_the_batch_under_way_adds_can_be_edited_and_recalled_within_it() {
    let (mut world, anna, bob, group) = pair();
    let unread = |number, act, text| {
        let mut command = send(bob, number, 1, group, text);
        let Command::Send(SendCommand { what: Ok(what), .. }) = &mut command else { unreachable!() };
        what.act = act;
        // Read before any of it was durable.
        command.attach(Attached { head: m(2), items: Vec::new() });
        command
    };
    for (number, act, text) in
        [(1, Act::Says, "helo"), (2, Act::Edits(M3), "hallo"), (3, Act::Edits(M3), "hello"), (4, Act::Recalls(M3), "")]
    {
        assert_eq!(sent(&world.decide(unread(number, act, text)).answer), number + 2);
    }
    assert_eq!(refused(world.decide(unread(5, Act::Edits(M3), "late")).answer), Refusal::ItemRecalled);
    world.publish();
    assert!([3, 4, 5].into_iter().all(|msgid| world.kept(group, msgid).unwrap().recalled));
    assert_eq!(world.kept(group, 5).unwrap().last_edit, m(4));
    assert_eq!(refused(world.act(anna, group, Act::Reacts(M3), "+1")), Refusal::ItemRecalled);
}

#[test]
fn what_was_read_before_the_last_change_is_outdated_and_never_decided_on() {
    let (mut world, _, bob, group) = pair();
    world.say(bob, group, "helo");
    let before = world.acting(bob, 2, group, Act::Edits(M3), "first");
    let mut late = world.acting(bob, 3, group, Act::Edits(M3), "second");
    assert!(!before.is_outdated(&world.tables));
    sent(&world.answer(before));
    assert!(late.is_outdated(&world.tables));
    assert_eq!(refused(world.answer(late.clone())), Refusal::Busy);
    world.attach(&mut late);
    assert!(!late.is_outdated(&world.tables));
    sent(&world.answer(late));
    assert_eq!((world.kept(group, 3).unwrap().edits, world.kept(group, 5).unwrap().last_edit), (2, m(4)));
    // Without anything attached it is outdated as well, and what names nothing that is there is not.
    let Command::Send(bare) = world.acting(bob, 4, group, Act::Edits(M3), "third") else { unreachable!() };
    assert!(Command::Send(SendCommand { attached: None, ..bare }).is_outdated(&world.tables));
    assert!(!world.acting(bob, 4, group, Act::Edits(m(99)), "third").is_outdated(&world.tables));
}

#[test]
fn what_was_read_before_its_target_came_is_outdated() {
    let (mut world, _, bob, group) = pair();
    let early = world.acting(bob, 2, group, Act::Reacts(M3), "+1");
    assert!(!early.is_outdated(&world.tables));
    world.say(bob, group, "hello");
    assert!(early.is_outdated(&world.tables));
}

#[test]
fn after_a_start_everything_read_before_is_outdated_but_at_the_head() {
    let (mut world, _, bob, group) = pair();
    world.say(bob, group, "helo");
    let before = world.acting(bob, 2, group, Act::Edits(M3), "hallo");
    world.say(bob, group, "more");
    assert!(!before.is_outdated(&world.tables));
    let mut tables = Tables::new();
    world.log.iter().for_each(|write| tables.load(write.clone()));
    assert!(before.is_outdated(&tables));
    assert!(!world.acting(bob, 3, group, Act::Edits(M3), "hallo").is_outdated(&tables));
}

#[test]
fn reactions_edits_and_recalls_are_no_content() {
    let (mut world, anna, bob, group) = pair();
    world.say(anna, group, "hello");
    world.act(bob, group, Act::Reacts(M3), "+1");
    world.act(anna, group, Act::Edits(M3), "hullo");
    world.act(anna, group, Act::Recalls(M3), "");
    assert_eq!((world.tables.content(group), world.tables.head(group)), (1, m(6)));
    assert_eq!(world.tables.own(group, world.user_of(bob)), 0);
}

#[test]
fn mentions_are_counted_for_other_members_and_known_again_when_recalled() {
    let (mut world, anna, bob, group) = pair();
    let carol = world.user("carol");
    let (a, b, c) = (world.user_of(anna), world.user_of(bob), world.user_of(carol));
    let stranger = UserId::new(99);
    let first = world.mention(anna, group, &[a, b, c, stranger]);
    let second = world.mention(anna, group, &[b]);
    assert_eq!([a, b, c, stranger].map(|user| world.tables.mentions(group, user)), [0, 2, 0, 0]);
    world.add(anna, group, "carol");
    let rows: Vec<_> = world
        .log
        .iter()
        .filter_map(
            |write| if let Write::Mention(_, user, number, at) = write { Some((*user, *number, *at)) } else { None },
        )
        .collect();
    assert_eq!(rows, [(b, 1, m(first)), (b, 2, m(second))]);
    sent(&world.act(anna, group, Act::Recalls(m(first)), ""));
    let recalled = world.tables.recalled();
    assert_eq!([a, b, c, stranger].map(|user| recalled.mentioning(group, user, m(0), m(99))), [0, 1, 0, 0]);
}

/// Each entry of the lists of recalled items counts, and so do those of the batch under way.
#[test]
fn a_recall_is_refused_where_the_lists_of_recalled_items_have_no_room_for_it() {
    let (mut world, anna, bob, group) = pair();
    let user = world.user_of(bob);
    let mentioning = world.mention(anna, group, &[user]);
    let [first, second] = [1, 2].map(|_| sent(&world.say(anna, group, "hello")));
    let mentions: Vec<UserId> = (10..10 + 98).map(UserId::new).collect();
    let other = |msgid, most| {
        let row = RecalledRow { author: UserId::new(9), mentions: mentions[..most].to_vec() };
        Write::Recalled(GroupId::new(9), m(msgid), row)
    };
    let rows = RECALLED_ENTRIES_MAX as u64 / 100 - 1;
    (1..=rows).for_each(|msgid| world.tables.load(other(msgid, 98)));
    world.tables.load(other(rows + 1, 95));
    assert_eq!(world.tables.recalled().entries() + 3, RECALLED_ENTRIES_MAX);
    let number = world.next_number(anna);
    let [first, second] = [(number, first), (number + 1, second)]
        .map(|(number, msgid)| world.acting(anna, number, group, Act::Recalls(m(msgid)), ""));
    sent(&world.decide(first).answer);
    assert_eq!(refused(world.decide(second).answer), Refusal::LimitReached);
    world.publish();
    assert_eq!(refused(world.act(anna, group, Act::Recalls(m(mentioning)), "")), Refusal::LimitReached);
    assert!(!world.tables.recalled().contains(group, m(mentioning)));
}

#[test]
fn a_recall_is_taken_from_the_reserve_and_an_edit_is_not() {
    let (mut world, _, bob, group) = pair();
    world.say(bob, group, "hello");
    world.state.set_storage(Storage::Reserve);
    let recall = world.acting(bob, 2, group, Act::Recalls(M3), "");
    sent(&world.answer(recall));
    let edit = world.acting(bob, 3, group, Act::Edits(M3), "hullo");
    assert_eq!(refused(world.answer(edit)), Refusal::StorageFull);
}

/// Scenario 1: an edit or a recall sent again answers the same msgid, whatever became of its target since.
#[test]
fn an_edit_or_recall_again_answers_the_same_and_changes_nothing() {
    let (mut world, _, bob, group) = pair();
    world.say(bob, group, "helo");
    let edit = world.acting(bob, 2, group, Act::Edits(M3), "hello");
    let first = world.answer(edit.clone());
    let Command::Send(recall) = world.acting(bob, 3, group, Act::Recalls(M3), "") else { unreachable!() };
    // The client still calls the first of them unanswered.
    let recall = Command::Send(SendCommand { lowest: seq(2), ..recall });
    let second = world.answer(recall.clone());
    assert_eq!((world.answer(edit), world.answer(recall)), (first, second));
    assert_eq!(world.tables.head(group), m(5));
}

#[test]
fn who_has_used_up_their_share_of_recalls_is_in_nobody_s_way_and_admins_recall_what_they_said() {
    let (mut world, anna, bob, group) = pair();
    let author = world.user_of(bob);
    let theirs = [1, 2, 3, 4].map(|_| sent(&world.say(bob, group, "hello")));
    let hers = sent(&world.say(anna, group, "hello"));
    let mentions: Vec<UserId> = (10..10 + 98).map(UserId::new).collect();
    let other = |msgid, most| {
        let row = RecalledRow { author, mentions: mentions[..most].to_vec() };
        Write::Recalled(GroupId::new(9), m(msgid), row)
    };
    let rows = RECALLED_ENTRIES_AUTHOR_MAX as u64 / 100 - 1;
    (1..=rows).for_each(|msgid| world.tables.load(other(msgid, 98)));
    world.tables.load(other(rows + 1, 95));
    assert_eq!(world.tables.recalled().entries_of(author) + 3, RECALLED_ENTRIES_AUTHOR_MAX);
    let number = world.next_number(bob);
    let [first, second] = [(number, theirs[0]), (number + 1, theirs[1])]
        .map(|(number, msgid)| world.acting(bob, number, group, Act::Recalls(m(msgid)), ""));
    sent(&world.decide(first).answer);
    assert_eq!(refused(world.decide(second).answer), Refusal::LimitReached);
    world.publish();
    assert_eq!(refused(world.act(bob, group, Act::Recalls(m(theirs[2])), "")), Refusal::LimitReached);
    sent(&world.act(anna, group, Act::Recalls(m(hers)), ""));
    sent(&world.act(anna, group, Act::Recalls(m(theirs[3])), ""));
    // What retention removes makes room.
    let Write::Recalled(of, gone, row) = other(1, 98) else { unreachable!() };
    world.tables.apply(&[Write::RecalledGone(of, gone, row)]);
    sent(&world.act(bob, group, Act::Recalls(m(theirs[2])), ""));
}
