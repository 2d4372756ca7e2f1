//! Pages that say rightly whether they are the end, and acks that mean what they can.

use gaggle::ids::{GroupId, MessageId};
use gaggle::limits::BODY_BYTES_MAX;
use gaggle::wire::code::Code;
use gaggle::wire::frame::{Ack, Done, Extensions};

use crate::harness::{Scene, raw_group};
use crate::raw::{Pulling, Raw, add, assert_refused, remove};

/// Scenario 10: a backlog of one page − 1, one page and one page + 1: `more` is right each time, by number asked for and by
/// default, delivered and browsed.
#[tokio::test]
async fn a_page_says_more_exactly_when_there_is_more() {
    let mut scene = Scene::start().await;
    // Item 2 is bob's join; it counts.
    scene.send_many(100).await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    for (items, page) in [(0, 100), (10, 10), (1, 1), (50, 50)] {
        for (backlog, more) in [(page - 1, false), (page, false), (page + 1, true)] {
            let after = 102 - backlog;
            let got = bob.pull(scene.group, after, items, Pulling::Browse).await.unwrap();
            let expected: Vec<u64> = (after + 1..=102).take(page as usize).collect();
            assert_eq!((got.msgids(), got.more), (expected, more), "{items} items of {backlog}");
            assert_eq!(got.head.value(), 102);
            assert!(more || got.covered_to.value() == 102);
        }
    }
    // Delivered page by page: each begins where the last ended, and only the last says that it is.
    for (items, pages) in [(0, 2), (101, 1), (100, 2), (50, 3), (34, 3)] {
        let mut bob = scene.bob.listen(scene.site.address()).await;
        let (mut got, mut count) = (Vec::new(), 0);
        loop {
            let after = got.last().copied().unwrap_or(1);
            let page = bob.pull(scene.group, after, items, Pulling::Deliver).await.unwrap();
            got.extend(page.msgids());
            count += 1;
            if !page.more {
                break;
            }
        }
        assert_eq!((got, count), ((2..=102).collect(), pages), "{items}");
    }
}

/// Scenario 10: a page that ends early because its items are large says that there is more.
#[tokio::test]
async fn a_page_cut_short_by_its_bytes_says_more() {
    let mut scene = Scene::start().await;
    let body = "x".repeat(BODY_BYTES_MAX);
    for seq in 1..=10 {
        scene.ada.send(seq, scene.group, &body).await.unwrap();
    }
    for how in [Pulling::Browse, Pulling::Deliver] {
        let mut bob = scene.bob.listen(scene.site.address()).await;
        let (mut got, mut more) = (Vec::new(), true);
        while more {
            let page = bob.pull(scene.group, got.last().copied().unwrap_or(1), 0, how).await.unwrap();
            assert!((1..=5).contains(&page.items.len()));
            got.extend(page.msgids());
            more = page.more;
            assert_eq!(more, got.last() != Some(&12));
        }
        assert_eq!(got, (2..=12).collect::<Vec<_>>());
    }
}

async fn come_and_go(ada: &mut Raw, group: GroupId, comes: bool) -> u64 {
    let done: Done = match comes {
        true => ada.ask(&add(group, "bob")).await.unwrap(),
        false => ada.ask(&remove(group, "bob")).await.unwrap(),
    };
    done.msgid.value()
}

/// Scenario 10: whole pages of what is hidden from this member, in the middle and at the end: a filtered page never reads
/// as the end while something visible remains, and never is empty then.
#[tokio::test]
async fn pages_of_invisible_items_are_passed_over_and_never_read_as_the_end() {
    let mut scene = Scene::start().await;
    let mut visible = vec![2];
    let mut ends = Vec::new();
    for hidden in [99, 100, 101, 350] {
        visible.extend(scene.send_many(3).await);
        let gone = come_and_go(&mut scene.ada, scene.group, false).await;
        visible.push(gone);
        ends.push(gone);
        scene.send_many(hidden).await;
        visible.push(come_and_go(&mut scene.ada, scene.group, true).await);
    }
    visible.push(scene.send().await);
    for items in [0, 1, 3, 100] {
        for how in [Pulling::Browse, Pulling::Deliver] {
            let mut bob = scene.bob.listen(scene.site.address()).await;
            let (mut got, mut after) = (Vec::new(), 1);
            loop {
                let page = bob.pull(scene.group, after, items, how).await.unwrap();
                assert!(!page.items.is_empty(), "{items} {how:?} above {after}");
                got.extend(page.msgids());
                assert!(page.covered_to.value() >= *got.last().unwrap());
                assert_eq!(page.more, got.last() != visible.last(), "{items} {how:?} above {after}");
                // What was passed over is covered up to just before the next visible item.
                let next = visible.get(got.len());
                assert!(next.is_none_or(|next| page.covered_to.value() < *next));
                after = page.covered_to.value();
                if !page.more {
                    break;
                }
            }
            assert_eq!(got, visible, "{items} {how:?}");
        }
    }
    // From inside a range that is hidden the page begins at the next visible item.
    let mut bob = scene.bob.call(scene.site.address()).await;
    let page = bob.pull(scene.group, ends[3] + 7, 1, Pulling::Browse).await.unwrap();
    assert_eq!(page.msgids(), [ends[3] + 351]);
    assert!(page.more);

    // Hidden up to the end: that is the end for this member, who does not learn of the head either.
    let gone = come_and_go(&mut scene.ada, scene.group, false).await;
    scene.send_many(250).await;
    let page = bob.pull(scene.group, gone, 0, Pulling::Browse).await.unwrap();
    assert_eq!((page.msgids(), page.more), (vec![], false));
    assert_eq!(page.head.value(), gone);
    assert_eq!(bob.group(scene.group).await.head.value(), gone);
}

/// Scenario 11: acks at head + 1000, at the highest number there is, at 0, in groups that do not exist or are none of one's
/// own, with the cursor of another group: clamped, without effect or refused, and the server goes on.
#[tokio::test]
async fn absurd_acks_are_clamped_or_refused_and_hurt_nobody() {
    let mut scene = Scene::start().await;
    let (group, foreign) = (scene.group, raw_group(&mut scene.ada, "foreign", 0).await);
    let longer = raw_group(&mut scene.ada, "longer", 0).await;
    come_and_go(&mut scene.ada, longer, true).await;
    scene.send_many(5).await;
    scene.group = longer;
    scene.send_many(50).await;
    scene.group = group;

    // Nothing was handed yet: every ack is the cursor.
    let mut bob = scene.bob.listen(scene.site.address()).await;
    let absent = GroupId::new(1 << 40);
    let absurd = [(group, 1_007), (group, u64::MAX), (foreign, 1), (absent, 1), (longer, 0), (GroupId::ZERO, 1)];
    bob.ack_all(&absurd).await;
    let mut refused = bob.acks_refused().await;
    refused.sort();
    let code = Code::NoSuchGroup.number();
    assert_eq!(refused, [(GroupId::ZERO, code), (foreign, code), (absent, code)]);
    assert_eq!((bob.cursor(group).await, bob.cursor(longer).await), (1, 1));

    // After a page they are what the page covered.
    bob.pull(group, 1, 3, Pulling::Deliver).await.unwrap();
    for msgid in [1_007, u64::MAX] {
        bob.ack(group, msgid).await;
        assert_eq!(bob.cursor_reaches(group, 4).await.last(), Some(&4));
    }
    bob.ack(group, 0).await;
    // The cursor of the longer group, said of the shorter one.
    let handed = bob.pull(longer, 1, 0, Pulling::Deliver).await.unwrap().covered_to.value();
    bob.ack_all(&[(group, handed), (longer, handed)]).await;
    assert_eq!(bob.cursor_reaches(longer, handed).await.last(), Some(&handed));
    assert_eq!((bob.cursor(group).await, bob.cursor(longer).await), (4, handed));

    // Absurd pulls are answered, too.
    for after in [1_007, u64::MAX] {
        let page = bob.pull(group, after, u32::MAX, Pulling::Browse).await.unwrap();
        assert_eq!((page.items.len(), page.more), (0, false));
        let page = bob.pull(group, after, u32::MAX, Pulling::Deliver).await.unwrap();
        assert_eq!((page.msgids(), page.more), (vec![5, 6, 7], false), "a delivery begins at what was handed");
        bob = scene.bob.listen(scene.site.address()).await;
        assert_eq!(bob.cursor(group).await, 4);
        bob.pull(group, 4, 0, Pulling::Browse).await.unwrap();
    }
    for missing in [foreign, absent, GroupId::ZERO] {
        assert_refused(bob.pull(missing, 0, 0, Pulling::Deliver).await, Code::NoSuchGroup);
    }
    // An empty ack, and one that names a group more than once.
    bob.tell(&Ack { entries: Vec::new(), extensions: Extensions::default() }).await;
    bob.pull(group, 4, 0, Pulling::Deliver).await.unwrap();
    bob.ack_all(&[(group, 6), (group, 5), (group, 6)]).await;
    assert_eq!(bob.cursor_reaches(group, 6).await.last(), Some(&6));

    // A caller acks nothing.
    let mut caller = scene.bob.call(scene.site.address()).await;
    caller.ack(group, 7).await;
    assert_eq!(caller.acks_refused().await, [(group, Code::NotListening.number())]);
    assert_eq!(scene.bobs_cursor().await, 6);
    scene.send().await;
}

/// Scenario 12: acks of 5, 9 and 7 in that order, and one again: the highest counts, and every answer carries the cursor as it is.
#[tokio::test]
async fn the_highest_ack_counts_whatever_order_they_come_in() {
    let mut scene = Scene::start().await;
    scene.send_many(10).await;
    let mut bob = scene.bob().await;
    let mut answered = Vec::new();
    for (msgid, cursor) in [(5, 5), (9, 9), (7, 9), (9, 9), (5, 9)] {
        bob.ack(scene.group, msgid).await;
        let cursors = bob.cursors().await;
        assert_eq!(cursors, [(scene.group, MessageId::new(cursor))], "after an ack of {msgid}");
        answered.push(cursor);
    }
    // All at once, in one packet or several.
    for msgid in [10, 12, 11, 10] {
        bob.ack(scene.group, msgid).await;
    }
    answered.extend(bob.cursor_reaches(scene.group, 12).await);
    assert!(answered.is_sorted(), "{answered:?}");
    assert_eq!(bob.cursor(scene.group).await, 12);
    scene.site.restart().await;
    assert_eq!(scene.bobs_cursor().await, 12, "it is kept");
}
