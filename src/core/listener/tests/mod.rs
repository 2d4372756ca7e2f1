//! The hand-out rule, one claim a test; and whole connections against a model client in `simulation`.

mod simulation;

use super::*;
use crate::core::command::{Command, Retain};
use crate::core::retention::{Read, Retention};
use crate::core::sight::TablesSight;
use crate::core::state::tests::{World, m};
use crate::ids::DeviceId;
use crate::limits::{CREDIT_BYTES_MAX, CREDIT_BYTES_START, CREDIT_ITEMS_MAX, CREDIT_ITEMS_START};

const SOON: Moment = Moment { now_ms: 1_000, rtt_ms: 50 };
const ITEM_BYTES: u32 = 100;

/// Anna speaks in a group, and a listener of bob is connected.
struct Desk {
    world: World,
    anna: DeviceId,
    bob: DeviceId,
    group: GroupId,
    listener: Listener,
    effects: Vec<Effect>,
}

impl Desk {
    /// Bob has joined with m2 and was handed nothing.
    fn new() -> Desk {
        let mut world = World::new();
        let (anna, bob) = (world.user("anna"), world.user("bob"));
        let group = world.group(anna);
        world.add(anna, group, "bob");
        Desk { world, anna, bob, group, listener: Listener::new(), effects: Vec::new() }
    }

    /// Bob has subscribed to all and was handed all there is.
    fn live() -> Desk {
        let mut desk = Desk::new();
        desk.listener.subscribe(Wanted::All, &sight(&desk.world, desk.bob));
        desk.page(1, 2);
        assert!(desk.effects.is_empty());
        desk
    }

    fn handed(&self) -> u64 {
        self.listener.handed(self.group).unwrap().value()
    }

    /// Commits items up to a msgid and offers them in one batch.
    fn commit(&mut self, head: u64) {
        let first = self.world.tables.head(self.group).next();
        self.world.say_up_to(self.anna, self.group, head);
        self.offer(first.value(), head);
    }

    fn offer(&mut self, first: u64, last: u64) {
        let items: Vec<Offered> = (first..=last).map(offered).collect();
        let sight = sight(&self.world, self.bob);
        self.listener.offer(self.group, &items, SOON, &sight, &mut self.effects);
    }

    /// A whole page is pulled and written.
    fn page(&mut self, after: u64, to: u64) {
        let sight = sight(&self.world, self.bob);
        let mut page = self.listener.open_page(self.group, m(after), Pull::Deliver, &sight).unwrap();
        self.listener.page_written(&mut page, m(to));
        let head = sight.head(self.group);
        self.listener.page_ended(page, m(to), head, &sight, &mut self.effects);
    }

    fn ack(&mut self, msgid: u64, moment: Moment) -> u64 {
        let sight = sight(&self.world, self.bob);
        let acked = self.listener.ack(&[(self.group, m(msgid))], moment, &sight, &mut self.effects);
        acked[0].1.value()
    }

    fn fetched(&mut self, after: u64, to: u64) {
        let rows: Vec<Offered> = (after + 1..=to).map(offered).collect();
        let fetched = Fetched { group: self.group, after: m(after), rows: &rows, covered_to: m(to) };
        self.listener.fetched(&fetched, SOON, &sight(&self.world, self.bob), &mut self.effects);
    }

    /// Retention removes what lies below a msgid.
    fn trim(&mut self, to: u64) {
        let (by, group, policy) = (self.anna, self.group, Retention { count: Some(0), ..Retention::ALL });
        self.world.answer(Command::SetRetention { by, group, policy: Some(policy) });
        let clock_ms = self.world.now_ms;
        let retain = Retain { group, policy, read: Read::default(), to: m(to), content_gone: 0, clock_ms };
        self.world.answer(Command::Retain(retain));
        assert_eq!(self.world.tables.first_kept(group), m(to));
    }

    fn heads(&mut self) -> Vec<u64> {
        self.listener.take_heads().into_iter().map(|(_, head)| head.value()).collect()
    }

    /// (continues, first, last, covered to) of the pushes since the last call; fetches as (after, 0, 0, items).
    fn done(&mut self) -> Vec<(u64, u64, u64, u64)> {
        std::mem::take(&mut self.effects)
            .into_iter()
            .map(|effect| match effect {
                Effect::Push(push) => {
                    (push.continues.value(), push.first.value(), push.last.value(), push.covered_to.value())
                }
                Effect::Fetch { after, most, .. } => (after.value(), 0, 0, u64::from(most.items)),
            })
            .collect()
    }
}

fn sight(world: &World, device: DeviceId) -> TablesSight<'_> {
    world.tables.sight(world.user_of(device), device)
}

fn offered(msgid: u64) -> Offered {
    Offered { msgid: m(msgid), bytes: ITEM_BYTES }
}

// ---- what is pushed ---------------------------------------------------------------------------------------------------

#[test]
fn what_continues_is_pushed() {
    let mut desk = Desk::live();
    desk.commit(3);
    desk.commit(5);
    assert_eq!(desk.done(), [(2, 3, 3, 3), (3, 4, 5, 5)]);
    assert_eq!(desk.handed(), 5);
    assert!(desk.heads().is_empty(), "whoever gets the items needs no head");
}

/// Scenario 27: what is gone is named by a page, and passed over by no push, whether offered or read for one.
#[test]
fn nothing_is_pushed_over_what_retention_removed() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 9);
    desk.trim(10);
    desk.commit(10);
    assert_eq!((desk.done(), desk.heads(), desk.handed()), (vec![], vec![10], 2));
    desk.fetched(2, 2);
    assert_eq!((desk.done(), desk.handed()), (vec![], 2));
    // The page that names it covers it, and what lies behind is read at once.
    desk.page(2, 9);
    assert_eq!(desk.done().into_iter().map(|(after, ..)| after).collect::<Vec<u64>>(), [9]);
    desk.fetched(9, 10);
    assert_eq!((desk.done(), desk.handed()), (vec![(9, 10, 10, 10)], 10));
    // Whoever has it all is not held up by what goes.
    desk.trim(11);
    desk.commit(11);
    assert_eq!((desk.done(), desk.heads()), (vec![(10, 11, 11, 11)], vec![]));
}

#[test]
fn nothing_is_pushed_or_told_before_subscribe() {
    let mut desk = Desk::new();
    desk.commit(5);
    assert!(desk.done().is_empty() && desk.heads().is_empty());
}

#[test]
fn a_subscription_tells_the_heads_of_what_was_not_handed() {
    let mut desk = Desk::new();
    desk.commit(9);
    desk.listener.subscribe(Wanted::All, &sight(&desk.world, desk.bob));
    assert_eq!(desk.heads(), [9]);
    assert!(desk.done().is_empty());
}

#[test]
fn of_groups_that_were_not_asked_for_only_heads_are_told() {
    let mut desk = Desk::new();
    desk.listener.subscribe(Wanted::Groups(BTreeSet::new()), &sight(&desk.world, desk.bob));
    desk.page(1, 2);
    desk.commit(3);
    desk.commit(4);
    assert!(desk.done().is_empty());
    assert_eq!(desk.heads(), [4], "coalesced");
    assert!(desk.heads().is_empty(), "each once");
}

#[test]
fn what_does_not_continue_is_not_pushed_and_the_head_is_told() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 6);
    desk.offer(5, 6);
    assert!(desk.done().is_empty());
    assert_eq!((desk.heads(), desk.handed()), (vec![6], 2));
}

#[test]
fn items_that_were_handed_already_are_not_pushed_again() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 5);
    desk.page(2, 5);
    desk.world.say_up_to(desk.anna, desk.group, 6);
    desk.offer(3, 6);
    assert_eq!(desk.done(), [(5, 6, 6, 6)]);
}

/// Scenario 20, as far as the push goes: the item that removed somebody is the last they are pushed.
#[test]
fn a_removed_member_is_pushed_the_removal_and_nothing_above() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 3);
    desk.world.remove(desk.anna, desk.group, "bob");
    desk.world.say_up_to(desk.anna, desk.group, 6);
    desk.offer(3, 6);
    assert_eq!(desk.done(), [(2, 3, 4, 4)]);
    assert!(desk.heads().is_empty(), "and is not told of a head above");
}

#[test]
fn what_lies_between_two_stays_is_covered_and_not_pushed() {
    let mut desk = Desk::live();
    desk.world.remove(desk.anna, desk.group, "bob");
    desk.world.say_up_to(desk.anna, desk.group, 6);
    desk.world.add(desk.anna, desk.group, "bob");
    desk.world.say_up_to(desk.anna, desk.group, 8);
    desk.offer(3, 8);
    assert_eq!(desk.done(), [(2, 3, 3, 6), (6, 7, 8, 8)]);
}

#[test]
fn a_stopped_push_stream_is_silent_until_the_next_subscription() {
    let mut desk = Desk::live();
    desk.listener.stop();
    desk.commit(4);
    assert!(desk.done().is_empty() && desk.heads().is_empty());
    desk.listener.subscribe(Wanted::All, &sight(&desk.world, desk.bob));
    assert_eq!(desk.heads(), [4]);
}

// ---- pages ------------------------------------------------------------------------------------------------------------

#[test]
fn a_page_moves_what_was_handed_as_it_is_written_and_over_what_nobody_sees() {
    let mut desk = Desk::new();
    desk.world.say_up_to(desk.anna, desk.group, 9);
    let sight = sight(&desk.world, desk.bob);
    let mut page = desk.listener.open_page(desk.group, m(1), Pull::Deliver, &sight).unwrap();
    assert_eq!((page.after(), page.pull()), (m(1), Pull::Deliver));
    for last in [4, 9] {
        desk.listener.page_written(&mut page, m(last));
        assert_eq!(desk.listener.handed(desk.group), Some(m(last)));
    }
}

#[test]
fn a_page_below_the_cursor_is_browsed_and_moves_nothing() {
    let mut desk = Desk::new();
    desk.world.say_up_to(desk.anna, desk.group, 9);
    desk.world.ack(desk.bob, desk.group, 5);
    let sight = sight(&desk.world, desk.bob);
    let mut page = desk.listener.open_page(desk.group, m(3), Pull::Deliver, &sight).unwrap();
    assert_eq!((page.after(), page.pull()), (m(3), Pull::Browse));
    desk.listener.page_written(&mut page, m(9));
    assert_eq!(desk.listener.handed(desk.group), Some(m(5)));
}

#[test]
fn a_page_starts_at_what_was_handed_where_the_client_claims_more() {
    let mut desk = Desk::new();
    desk.world.say_up_to(desk.anna, desk.group, 9);
    let page = desk.listener.open_page(desk.group, m(8), Pull::Deliver, &sight(&desk.world, desk.bob)).unwrap();
    assert_eq!(page.after(), m(1));
}

/// Scenario 5: a hole is handed out again, and never jumped.
#[test]
fn a_pull_below_what_was_handed_starts_there_again() {
    let mut desk = Desk::live();
    desk.commit(9);
    assert_eq!(desk.handed(), 9);
    let page = desk.listener.open_page(desk.group, m(4), Pull::Deliver, &sight(&desk.world, desk.bob)).unwrap();
    assert_eq!((page.after(), desk.handed()), (m(4), 4));
    assert_eq!(desk.ack(9, SOON), 4, "what lies above the hole cannot be acked");
}

#[test]
fn late_writes_of_a_page_that_no_longer_fit_move_nothing() {
    let mut desk = Desk::new();
    desk.world.say_up_to(desk.anna, desk.group, 20);
    let sight = sight(&desk.world, desk.bob);
    let mut old = desk.listener.open_page(desk.group, m(1), Pull::Deliver, &sight).unwrap();
    desk.listener.page_written(&mut old, m(10));
    let mut new = desk.listener.open_page(desk.group, m(5), Pull::Deliver, &sight).unwrap();
    desk.listener.page_written(&mut old, m(15));
    assert_eq!(desk.listener.handed(desk.group), Some(m(5)));
    desk.listener.page_written(&mut new, m(12));
    assert_eq!(desk.listener.handed(desk.group), Some(m(12)));
}

#[test]
fn pushes_go_on_while_a_page_is_open_if_they_continue() {
    let mut desk = Desk::live();
    desk.commit(4);
    let sight_before = sight(&desk.world, desk.bob);
    let page = desk.listener.open_page(desk.group, m(4), Pull::Deliver, &sight_before).unwrap();
    desk.commit(5);
    assert_eq!(desk.done(), [(2, 3, 4, 4), (4, 5, 5, 5)]);
    desk.listener.page_cut(page, &sight(&desk.world, desk.bob));
}

#[test]
fn what_is_committed_while_a_page_is_open_follows_it_without_being_asked_for() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 50);
    let before = sight(&desk.world, desk.bob);
    let mut page = desk.listener.open_page(desk.group, m(2), Pull::Deliver, &before).unwrap();
    desk.commit(60);
    assert!(desk.done().is_empty() && desk.heads().is_empty(), "the end of the page takes care of it");
    let after = sight(&desk.world, desk.bob);
    desk.listener.page_written(&mut page, m(50));
    desk.listener.page_ended(page, m(50), m(50), &after, &mut desk.effects);
    assert_eq!(desk.done(), [(50, 0, 0, u64::from(CREDIT_ITEMS_START))]);
    desk.commit(61);
    assert!(desk.done().is_empty(), "one fetch at a time");
    desk.fetched(50, 61);
    assert_eq!(desk.done(), [(50, 51, 61, 61)]);
    desk.commit(62);
    assert_eq!(desk.done(), [(61, 62, 62, 62)], "and from here on it is live");
}

#[test]
fn after_a_page_that_ends_far_from_the_head_the_client_asks_again() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 200);
    let sight = sight(&desk.world, desk.bob);
    let page = desk.listener.open_page(desk.group, m(2), Pull::Deliver, &sight).unwrap();
    desk.listener.page_ended(page, m(102), m(199), &sight, &mut desk.effects);
    assert!(desk.done().is_empty());
    assert_eq!(desk.heads(), [200], "the page told of 199");
}

#[test]
fn a_page_that_is_browsed_hides_no_head_from_what_is_delivered() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 200);
    desk.offer(100, 200);
    let sight = sight(&desk.world, desk.bob);
    let page = desk.listener.open_page(desk.group, m(2), Pull::Browse, &sight).unwrap();
    desk.listener.page_ended(page, m(102), m(200), &sight, &mut desk.effects);
    assert!(desk.done().is_empty());
    assert_eq!(desk.heads(), [200], "who browsed is not who delivers");
}

#[test]
fn a_fetch_that_failed_ends_in_the_head_being_told() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 10);
    let sight = sight(&desk.world, desk.bob);
    let page = desk.listener.open_page(desk.group, m(2), Pull::Deliver, &sight).unwrap();
    desk.listener.page_ended(page, m(5), m(5), &sight, &mut desk.effects);
    desk.listener.fetch_failed(desk.group, &sight);
    assert_eq!(desk.heads(), [10]);
}

#[test]
fn a_fetch_that_was_overtaken_by_a_pull_pushes_nothing() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 10);
    desk.page(2, 5);
    assert_eq!(desk.done().len(), 1);
    let page = desk.listener.open_page(desk.group, m(4), Pull::Deliver, &sight(&desk.world, desk.bob)).unwrap();
    desk.fetched(5, 10);
    assert!(desk.done().is_empty());
    assert_eq!(desk.handed(), 4);
    desk.listener.page_ended(page, m(10), m(10), &sight(&desk.world, desk.bob), &mut desk.effects);
    assert_eq!(desk.handed(), 10);
}

/// Scenario 10, as far as the listener goes: a page without a row still covers what is hidden from this member.
#[test]
fn a_page_of_nothing_visible_covers_it() {
    let mut desk = Desk::live();
    desk.world.remove(desk.anna, desk.group, "bob");
    desk.page(2, 3);
    desk.world.say_up_to(desk.anna, desk.group, 40);
    desk.world.add(desk.anna, desk.group, "bob");
    let bobs = desk.world.user_of(desk.bob);
    assert_eq!(desk.world.tables.covered_to(bobs, desk.group, m(3)), m(40));
    desk.page(3, 40);
    assert_eq!(desk.handed(), 40);
}

// ---- acks and cursors -------------------------------------------------------------------------------------------------

/// Scenarios 4 and 11: an ack never passes what was contiguously handed to that device.
#[test]
fn an_ack_is_clamped_to_what_was_handed() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 50);
    desk.page(2, 10);
    for (acked, stands) in [(5, 5), (50, 10), (u64::MAX, 10), (0, 0)] {
        assert_eq!(desk.ack(acked, SOON), stands);
    }
}

#[test]
fn acks_of_unknown_groups_go_on_to_where_they_are_refused_and_leave_nothing_here() {
    let mut desk = Desk::live();
    let strange = GroupId::new(99);
    let sight = sight(&desk.world, desk.bob);
    let acked = desk.listener.ack(&[(strange, m(7))], SOON, &sight, &mut desk.effects);
    assert_eq!(acked, [(strange, m(0))]);
    assert_eq!(desk.listener.handed(strange), None);
    assert!(desk.listener.open_page(strange, m(0), Pull::Deliver, &sight).is_none());
}

/// Scenario 7: a late ack of an older connection raises the cursor, and what was handed is never below it.
#[test]
fn what_was_handed_is_never_below_the_cursor_however_that_rose() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 9);
    desk.world.ack(desk.bob, desk.group, 8);
    assert!(desk.listener.cursor_rose(desk.group, m(8)));
    assert_eq!(desk.handed(), 8);
    desk.offer(9, 9);
    assert_eq!(desk.done(), [(8, 9, 9, 9)]);
}

/// What another process of the device skipped, or a return to a group: nothing else would say so.
#[test]
fn a_cursor_that_rose_by_another_way_is_told_and_one_that_was_acked_here_is_only_answered() {
    let mut desk = Desk::live();
    desk.commit(9);
    assert_eq!(desk.ack(6, SOON), 6);
    assert!(!desk.listener.cursor_rose(desk.group, m(6)));
    assert!(desk.listener.cursor_rose(desk.group, m(8)), "though it lies below what was handed");
    assert!(!desk.listener.cursor_rose(desk.group, m(5)), "an older one");
    let sight = sight(&desk.world, desk.bob);
    let strange = GroupId::new(99);
    assert!(desk.listener.ack(&[(strange, m(7))], SOON, &sight, &mut desk.effects) == [(strange, m(0))]);
    assert!(desk.listener.cursor_rose(strange, m(3)));
}

// ---- credit -----------------------------------------------------------------------------------------------------------

#[test]
fn pushes_stop_where_the_credit_ends_and_go_on_when_an_ack_comes() {
    let mut desk = Desk::live();
    let items = u64::from(CREDIT_ITEMS_START);
    desk.commit(2 + items + 5);
    assert_eq!(desk.done(), [(2, 3, 2 + items, 2 + items)]);
    assert_eq!(desk.heads(), [2 + items + 5]);
    desk.ack(2 + items / 2, SOON);
    let credit = u64::from(desk.listener.credit().items);
    assert_eq!(credit, 2 * items);
    assert_eq!(desk.done(), [(2 + items, 0, 0, credit - items / 2)], "a small gap is filled unasked");
}

#[test]
fn a_large_gap_is_left_to_the_client_when_credit_returns() {
    let mut desk = Desk::live();
    desk.commit(200);
    desk.done();
    assert_eq!(desk.heads(), [200]);
    desk.ack(10, SOON);
    assert!(desk.done().is_empty());
}

#[test]
fn credit_counts_bytes_and_always_allows_one_item() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 4);
    let huge = |msgid| Offered { msgid: m(msgid), bytes: CREDIT_BYTES_START + 1 };
    let sight = sight(&desk.world, desk.bob);
    desk.listener.offer(desk.group, &[huge(3), huge(4)], SOON, &sight, &mut desk.effects);
    assert_eq!(desk.done(), [(2, 3, 3, 3)]);
}

#[test]
fn credit_doubles_with_each_timely_ack_up_to_its_bound() {
    let mut desk = Desk::live();
    for head in 3..20 {
        desk.commit(head);
        desk.ack(head, SOON);
    }
    assert_eq!(desk.listener.credit(), Amount { items: CREDIT_ITEMS_MAX, bytes: CREDIT_BYTES_MAX });
}

#[test]
fn credit_falls_back_when_items_stay_unacked() {
    let start = Amount { items: CREDIT_ITEMS_START, bytes: CREDIT_BYTES_START };
    for (rtt_ms, stall_ms) in [(50, 1_000), (400, 1_300)] {
        let mut desk = Desk::live();
        desk.commit(3);
        desk.ack(3, SOON);
        desk.commit(4);
        let at = |later_ms| Moment { now_ms: SOON.now_ms + later_ms, rtt_ms };
        assert_eq!(desk.listener.stalls_at_ms(rtt_ms), Some(SOON.now_ms + stall_ms));
        desk.listener.tick(at(stall_ms - 1));
        assert_eq!(desk.listener.credit().items, 2 * CREDIT_ITEMS_START);
        desk.listener.tick(at(stall_ms));
        assert_eq!(desk.listener.credit(), start);
        desk.ack(4, at(stall_ms + 1));
        assert_eq!(desk.listener.credit(), start, "a late ack earns nothing");
    }
}

#[test]
fn pages_and_heads_cost_no_credit() {
    let mut desk = Desk::live();
    desk.world.say_up_to(desk.anna, desk.group, 100);
    desk.page(2, 100);
    assert_eq!(desk.listener.stalls_at_ms(0), None);
    desk.commit(116);
    assert_eq!(desk.done(), [(100, 101, 116, 116)]);
}

#[test]
fn a_cursor_that_rose_by_other_ways_frees_its_credit() {
    let mut desk = Desk::live();
    desk.commit(10);
    assert!(desk.listener.cursor_rose(desk.group, m(10)));
    desk.done();
    desk.commit(10 + u64::from(CREDIT_ITEMS_START));
    assert_eq!(desk.done(), [(10, 11, 26, 26)]);
}

#[test]
fn items_that_stay_unacked_wake_nobody_once_the_credit_has_fallen() {
    let mut desk = Desk::live();
    desk.commit(3);
    desk.ack(3, SOON);
    desk.commit(4);
    let late = Moment { now_ms: SOON.now_ms + 60_000, ..SOON };
    desk.listener.tick(late);
    assert_eq!(desk.listener.stalls_at_ms(SOON.rtt_ms), None);
}

#[test]
fn one_ack_has_no_more_read_than_its_credit_pays_for() {
    let mut desk = Desk::live();
    desk.commit(3);
    for _ in 0..100 {
        let group = desk.world.group(desk.anna);
        desk.world.add(desk.anna, group, "bob");
        desk.world.say_up_to(desk.anna, group, 12);
    }
    desk.listener.subscribe(Wanted::All, &sight(&desk.world, desk.bob));
    desk.done();
    desk.ack(3, SOON);
    let fetches = desk.done().len();
    assert!((1..=4).contains(&fetches), "{fetches} groups are read at once");
    assert_eq!(desk.heads().len(), 100 - fetches, "the others are told");
}
