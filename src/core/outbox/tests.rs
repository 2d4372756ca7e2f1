//! The outbox and its drain in named steps.

use super::*;

fn seq(number: u64) -> ClientSeq {
    ClientSeq::new(number)
}

fn entry(tag: u8) -> Entry {
    entry_of(tag, 100)
}

fn entry_of(tag: u8, bytes: usize) -> Entry {
    Entry {
        group: GroupId::new(7),
        tag: Tag::new([tag; 8]),
        epoch: Epoch::new([1; 16]),
        payload: Bytes::from(vec![tag; bytes]),
        attempted: false,
    }
}

fn outbox(entries: u8) -> Outbox {
    let mut outbox = Outbox::default();
    for number in 1..=entries {
        outbox.apply(&Change::Added(seq(number.into()), entry(number))).unwrap();
    }
    outbox
}

fn apply(outbox: &mut Outbox, changes: &[Change]) {
    changes.iter().for_each(|change| outbox.apply(change).unwrap());
}

fn accepted(outbox: &mut Outbox, highest: u64) -> Drain {
    let mut drain = Drain::default();
    let changes = drain.welcome(outbox, seq(highest), 16, 32 * 1024);
    apply(outbox, &changes);
    drain
}

/// Sends everything that is due.
fn send(outbox: &mut Outbox, drain: &mut Drain, now_ms: u64) -> Vec<u64> {
    let due = drain.due(outbox, now_ms);
    apply(outbox, &[Change::Attempted(due.clone())]);
    drain.started(outbox, &due);
    due.into_iter().map(ClientSeq::value).collect()
}

fn answer(outbox: &mut Outbox, drain: &mut Drain, number: u64, answer: &Answer, now_ms: u64) {
    let changes = drain.answered(outbox, seq(number), answer, now_ms);
    apply(outbox, &changes);
}

fn sent(msgid: u64) -> Answer {
    Answer::Sent { msgid: MessageId::new(msgid), time_ms: 5 }
}

fn numbers(outbox: &Outbox) -> Vec<u64> {
    outbox.entries().map(|(seq, _)| seq.value()).collect()
}

#[test]
fn a_number_is_never_given_to_other_bytes() {
    let mut outbox = outbox(2);
    assert!(outbox.apply(&Change::Added(seq(2), entry(9))).is_err());
    apply(&mut outbox, &[Change::Settled(seq(2), Settled::Withdrawn)]);
    assert!(outbox.apply(&Change::Added(seq(2), entry(9))).is_err());
    assert_eq!(outbox.highest(), seq(2));
}

#[test]
fn nothing_is_sent_before_the_server_has_accepted_the_connection() {
    let mut outbox = outbox(2);
    let mut drain = Drain::default();
    assert!(drain.due(&outbox, 0).is_empty());
    drain = accepted(&mut outbox, 0);
    assert_eq!(send(&mut outbox, &mut drain, 0), [1, 2]);
    drain.lost();
    assert!(drain.due(&outbox, 0).is_empty());
}

#[test]
fn at_most_a_window_is_unanswered_in_items_and_in_bytes_but_one_always_goes() {
    let mut by_items = outbox(20);
    let mut drain = accepted(&mut by_items, 0);
    assert_eq!(send(&mut by_items, &mut drain, 0), (1..=16).collect::<Vec<_>>());
    assert!(send(&mut by_items, &mut drain, 0).is_empty());
    // The window begins at the lowest that is unanswered, however many above it are answered.
    answer(&mut by_items, &mut drain, 3, &sent(3), 0);
    assert!(send(&mut by_items, &mut drain, 0).is_empty());
    answer(&mut by_items, &mut drain, 1, &sent(1), 0);
    assert_eq!(send(&mut by_items, &mut drain, 0), [17]);

    let mut by_bytes = Outbox::default();
    for number in 1..=3 {
        apply(&mut by_bytes, &[Change::Added(seq(number), entry_of(1, 60 * 1024))]);
    }
    let mut drain = accepted(&mut by_bytes, 0);
    for number in 1..=3 {
        assert_eq!(send(&mut by_bytes, &mut drain, 0), [number]);
        answer(&mut by_bytes, &mut drain, number, &sent(number), 0);
    }
}

#[test]
fn what_is_lowest_passes_only_what_has_its_answer() {
    let mut outbox = outbox(3);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 2, &sent(2), 0);
    assert_eq!(outbox.lowest(), seq(1));
    answer(&mut outbox, &mut drain, 1, &sent(1), 0);
    assert_eq!(outbox.lowest(), seq(3));
    answer(&mut outbox, &mut drain, 3, &sent(3), 0);
    assert_eq!(outbox.lowest(), seq(4));
}

#[test]
fn after_a_lost_connection_everything_attempted_comes_first_and_in_order() {
    let mut outbox = outbox(3);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 2, &sent(2), 0);
    drain = accepted(&mut outbox, 3);
    apply(&mut outbox, &[Change::Added(seq(4), entry(4))]);
    assert_eq!(send(&mut outbox, &mut drain, 0), [1, 3, 4]);
}

#[test]
fn whichever_comes_first_answer_or_item_settles_the_entry() {
    let mut outbox = outbox(2);
    let mut drain = accepted(&mut outbox, 0);
    let see = |outbox: &Outbox, drain: &mut Drain, tag: u8| {
        drain.seen(outbox, GroupId::new(7), Tag::new([tag; 8]), MessageId::new(9), 5)
    };
    assert!(see(&outbox, &mut drain, 1).is_none(), "what was never sent cannot have come");
    send(&mut outbox, &mut drain, 0);
    let change = see(&outbox, &mut drain, 1).unwrap();
    apply(&mut outbox, &[change]);
    assert!(matches!(outbox.outcome(seq(1)), Some(Settled::Sent { msgid, .. }) if *msgid == MessageId::new(9)));
    assert!(drain.answered(&outbox, seq(1), &sent(9), 0).is_empty(), "the late answer says nothing new");
    answer(&mut outbox, &mut drain, 2, &sent(10), 0);
    assert!(see(&outbox, &mut drain, 2).is_none());
}

#[test]
fn an_item_of_another_group_settles_nothing() {
    let mut outbox = outbox(1);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    assert!(drain.seen(&outbox, GroupId::new(8), Tag::new([1; 8]), MessageId::new(9), 5).is_none());
}

/// Scenario 2: the same number with other bytes is a conflict; the first stays, and the second goes on under its own.
#[test]
fn a_conflict_goes_on_above_together_with_all_that_was_never_attempted_behind_it() {
    let mut outbox = outbox(20);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 2, &Answer::Conflict, 0);
    let attempted: Vec<u64> = [1].into_iter().chain(3..=16).collect();
    let moved = 21..=25;
    assert_eq!(numbers(&outbox), attempted.iter().copied().chain(moved).collect::<Vec<_>>());
    let order: Vec<_> = outbox.entries().skip(15).map(|(_, entry)| entry.tag.bytes()[0]).collect();
    assert_eq!(order, [2, 17, 18, 19, 20]);
    assert!(outbox.entries().skip(15).all(|(_, entry)| !entry.attempted));
    assert_eq!(outbox.current(seq(2)), seq(21));
}

#[test]
fn a_number_that_was_passed_over_goes_on_under_a_new_one() {
    let mut outbox = outbox(2);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 1, &Answer::NeverStored, 0);
    answer(&mut outbox, &mut drain, 2, &sent(1), 0);
    assert_eq!(send(&mut outbox, &mut drain, 0), [3]);
    answer(&mut outbox, &mut drain, 3, &sent(2), 0);
    assert!(matches!(outbox.outcome(seq(1)), Some(Settled::Sent { msgid, .. }) if *msgid == MessageId::new(2)));
}

#[test]
fn a_forgotten_number_ends_with_an_unknown_outcome_and_is_not_sent_again() {
    let mut outbox = outbox(1);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 1, &Answer::Forgotten, 0);
    assert!(matches!(outbox.outcome(seq(1)), Some(Settled::Unknown { .. })));
    assert_eq!(outbox.unknown().count(), 1);
    assert!(send(&mut outbox, &mut drain, 0).is_empty());
    apply(&mut outbox, &[Change::Settled(seq(1), Settled::Withdrawn)]);
    assert_eq!(outbox.unknown().count(), 0);
}

#[test]
fn after_something_was_not_done_nothing_later_is_sent_before_it() {
    let mut outbox = outbox(3);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 1, &Answer::Again { after_ms: 100 }, 1_000);
    apply(&mut outbox, &[Change::Added(seq(4), entry(4))]);
    assert!(send(&mut outbox, &mut drain, 1_200).is_empty(), "2 and 3 have no answer yet");
    answer(&mut outbox, &mut drain, 2, &Answer::OutOfTurn, 1_010);
    answer(&mut outbox, &mut drain, 3, &Answer::OutOfTurn, 1_010);
    assert!(send(&mut outbox, &mut drain, 1_050).is_empty(), "the server asked for a pause");
    assert_eq!(drain.wakes_at(&outbox, 0), Some(1_100));
    assert_eq!(send(&mut outbox, &mut drain, 1_100), [1, 2, 3, 4]);
}

#[test]
fn pauses_grow_where_the_server_names_none() {
    let mut outbox = outbox(1);
    let mut drain = accepted(&mut outbox, 0);
    let mut now_ms = 0;
    let mut pauses = Vec::new();
    for _ in 0..10 {
        send(&mut outbox, &mut drain, now_ms);
        answer(&mut outbox, &mut drain, 1, &Answer::Again { after_ms: 0 }, now_ms);
        let at = drain.wakes_at(&outbox, 0).unwrap();
        pauses.push(at - now_ms);
        now_ms = at;
    }
    assert!(pauses.is_sorted() && pauses[0] < 100 && pauses[9] == 5_000, "{pauses:?}");
}

#[test]
fn a_profile_that_is_behind_jumps_above_and_leaves_attempted_ones_their_number() {
    let mut outbox = outbox(3);
    apply(&mut outbox, &[Change::Attempted(vec![seq(1)])]);
    let mut drain = accepted(&mut outbox, 40);
    assert_eq!(numbers(&outbox), [1, 41, 42]);
    assert!(outbox.entry(seq(1)).unwrap().attempted);
    // 41 lies beyond the window that begins at 1: it waits for the answer to 1.
    assert_eq!(send(&mut outbox, &mut drain, 0), [1]);
    answer(&mut outbox, &mut drain, 1, &Answer::Conflict, 0);
    assert_eq!(numbers(&outbox).len(), 3);
    assert_eq!(send(&mut outbox, &mut drain, 0).len(), 3);
}

#[test]
fn numbers_that_a_copy_of_the_profile_used_are_not_used_again_though_no_longer_behind() {
    let mut outbox = outbox(5);
    apply(&mut outbox, &[Change::Attempted(vec![seq(1)])]);
    accepted(&mut outbox, 3);
    assert_eq!(numbers(&outbox), [1, 6, 7, 8, 9]);
}

#[test]
fn a_profile_that_is_not_behind_keeps_its_numbers() {
    let mut outbox = outbox(3);
    apply(&mut outbox, &[Change::Attempted(vec![seq(1), seq(2)])]);
    accepted(&mut outbox, 2);
    assert_eq!(numbers(&outbox), [1, 2, 3]);
}

#[test]
fn what_fits_behind_the_rest_can_be_marked_when_it_is_added() {
    let mut outbox = outbox(15);
    let mut drain = accepted(&mut outbox, 0);
    assert!(drain.room(&outbox, 0).is_none(), "something waits already");
    send(&mut outbox, &mut drain, 0);
    let mut room = drain.room(&outbox, 0).unwrap();
    assert!(room.take(seq(16), 100));
    assert!(!room.take(seq(17), 100), "the window is full");
    drain.lost();
    assert!(drain.room(&outbox, 0).is_none());
}

#[test]
fn a_condensed_outbox_knows_what_the_whole_one_knew() {
    let mut outbox = outbox(4);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 1, &sent(1), 0);
    answer(&mut outbox, &mut drain, 2, &Answer::Forgotten, 0);
    answer(&mut outbox, &mut drain, 3, &Answer::Conflict, 0);
    answer(&mut outbox, &mut drain, 4, &Answer::Refused { number: 35, detail: "no".to_owned() }, 0);
    apply(&mut outbox, &[Change::Highest(seq(70))]);
    let mut again = Outbox::default();
    apply(&mut again, &outbox.condensed());
    assert_eq!((again.highest(), again.lowest()), (outbox.highest(), outbox.lowest()));
    assert_eq!(numbers(&again), numbers(&outbox));
    for number in 1..=4 {
        assert_eq!(again.outcome(seq(number)), outbox.outcome(seq(number)), "{number}");
        assert_eq!(again.current(seq(number)), outbox.current(seq(number)), "{number}");
    }
    assert_eq!(again.unknown().count(), 1);
}

/// They come back under numbers that were used up, as when whoever sent them was removed, and came back before the answers
/// did.
#[test]
fn what_was_passed_over_keeps_its_order_in_whichever_order_the_answers_come() {
    let texts = |outbox: &Outbox| outbox.entries().map(|(_, entry)| entry.payload[0]).collect::<Vec<_>>();
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let mut outbox = outbox(3);
        let mut drain = accepted(&mut outbox, 0);
        assert_eq!(send(&mut outbox, &mut drain, 0), [1, 2, 3]);
        apply(&mut outbox, &[Change::Added(seq(4), entry(4))]);
        for number in order {
            answer(&mut outbox, &mut drain, number, &Answer::NeverStored, 0);
        }
        assert_eq!(texts(&outbox), [1, 2, 3, 4], "{order:?}");
        let mut again = Outbox::default();
        apply(&mut again, &outbox.condensed());
        let first = again.entries().next().unwrap().0;
        let mut drain = accepted(&mut again, 0);
        send(&mut again, &mut drain, 0);
        let next = again.highest().next();
        apply(&mut again, &[Change::Added(next, entry(5))]);
        answer(&mut again, &mut drain, first.value(), &Answer::Conflict, 0);
        assert_eq!(texts(&again), [2, 3, 4, 1, 5], "what is under way already goes first");
    }
}

#[test]
fn an_outcome_is_found_through_several_renumberings() {
    let mut outbox = outbox(1);
    let mut drain = accepted(&mut outbox, 0);
    for number in 1..=5 {
        assert_eq!(send(&mut outbox, &mut drain, 0), [number]);
        answer(&mut outbox, &mut drain, number, &Answer::Conflict, 0);
    }
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 6, &sent(3), 0);
    for number in 1..=6 {
        assert!(matches!(outbox.outcome(seq(number)), Some(Settled::Sent { .. })), "{number}");
    }
}

#[test]
fn a_pause_that_has_passed_wakes_nobody() {
    let mut outbox = outbox(20);
    let mut drain = accepted(&mut outbox, 0);
    send(&mut outbox, &mut drain, 0);
    answer(&mut outbox, &mut drain, 16, &Answer::Again { after_ms: 100 }, 1_000);
    assert_eq!(drain.wakes_at(&outbox, 1_099), Some(1_100));
    assert_eq!(send(&mut outbox, &mut drain, 1_100), [16]);
    assert!(numbers(&outbox).contains(&17), "17 waits for the window, not for time");
    assert_eq!(drain.wakes_at(&outbox, 1_100), None);
}

#[test]
fn of_a_number_that_was_queued_it_is_known_for_ever_that_it_ended() {
    let mut outbox = Outbox::default();
    let last = OUTBOX_SETTLED_KEPT as u64 + 10;
    for number in 1..=last {
        apply(&mut outbox, &[Change::Added(seq(number), entry(1))]);
    }
    for number in 2..=last {
        apply(&mut outbox, &[Change::Settled(seq(number), Settled::Withdrawn)]);
    }
    assert!(outbox.outcome(seq(3)).is_none() && outbox.is_forgotten(seq(3)));
    for open_or_known in [1, last, last + 1] {
        assert!(!outbox.is_forgotten(seq(open_or_known)), "{open_or_known}");
    }
    let mut anew = Outbox::default();
    apply(&mut anew, &outbox.condensed());
    assert!(anew.is_forgotten(seq(3)));
}
