//! What is unread, on every device: counts, read marks, the list of conversations, receipts.

use gaggle::client::{Event, History, ReadMark, RequestError};
use gaggle::ids::{GroupId, MessageId, UserId};
use gaggle::wire::code::Code;
use gaggle::wire::frame::{self, ConversationList, Conversations, Extensions, MarkRead};
use gaggle::wire::item::kind;
use gaggle::wire::said::{extension, mentions_extension, msgid_extension};

use crate::harness::{Person, Scene, Site, Tail, rounds};
use crate::raw::{Raw, msgids, pushed_items};

async fn read(person: &Person, group: GroupId, msgid: MessageId) -> ReadMark {
    person.client.mark_read(group, msgid, u64::MAX).await.unwrap()
}

async fn until_mark(tail: &mut Tail, group: GroupId, msgid: MessageId, version: u64) {
    let mark = Event::ReadMark(ReadMark { group, msgid, version });
    tail.until("the read mark", |tail| tail.events.contains(&mark)).await;
}

/// Scenario 13: ada sends 3, another device of hers looks, bob sends 2, the server and her program start anew.
#[tokio::test]
async fn what_one_has_said_oneself_is_never_unread() {
    let mut site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let tablet = site.add_device(&ada).await;
    for number in 0..3 {
        ada.send(group, &format!("{number}")).await;
    }
    assert_eq!((ada.unread(group).await, tablet.unread(group).await), (0, 0));
    assert_eq!(bob.unread(group).await, 3);
    bob.send(group, "three").await;
    bob.send(group, "four").await;
    for _ in 0..2 {
        for device in [&ada, &tablet] {
            let row = device.row(group).await;
            assert_eq!((row.unread, row.last.unwrap().text.as_str()), (2, "four"));
        }
        site.restart().await;
        ada.back().await;
        tablet.back().await;
    }
}

/// Scenario 15: of 200 one device reads to 150; another that is connected is told, and one that comes later sees the same;
/// what became zero is listed too.
#[tokio::test]
async fn every_device_of_a_user_shows_the_same_and_hears_of_zero() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let phone = site.add_device(&bob).await;
    let mut tail = phone.tail().await;
    let mut last = MessageId::ZERO;
    for number in 0..200 {
        last = ada.send(group, &format!("{number}")).await;
    }
    let version = bob.client.conversations(0).await.unwrap().version;
    let to = MessageId::new(last.value() - 50);
    assert_eq!(read(&bob, group, to).await, ReadMark { group, msgid: to, version: 0 });
    until_mark(&mut tail, group, to, 0).await;
    let late = site.add_device(&bob).await;
    for device in [&bob, &phone, &late] {
        assert_eq!(device.unread(group).await, 50);
    }
    let changes = phone.client.conversations(version).await.unwrap();
    assert_eq!(changes.conversations.iter().map(|row| row.unread).collect::<Vec<_>>(), [50]);
    read(&late, group, last).await;
    let changes = phone.client.conversations(changes.version).await.unwrap();
    assert_eq!(changes.conversations.iter().map(|row| (row.group, row.unread)).collect::<Vec<_>>(), [(group, 0)]);
    assert!(phone.client.conversations(changes.version).await.unwrap().conversations.is_empty());
}

/// Scenario 16: a new device of a user who has lost the old one finds marks and counts as they were, and may pull.
#[tokio::test]
async fn a_new_device_finds_the_read_mark_and_the_count_as_they_were() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    for number in 0..9 {
        ada.send(group, &format!("{number}")).await;
    }
    read(&bob, group, MessageId::new(5)).await;
    let before = bob.row(group).await;
    let anew = site.add_device(&bob).await;
    let after = anew.row(group).await;
    assert_eq!((after.mark, after.unread, &after.last), (before.mark, 6, &before.last));
    assert_eq!(anew.client.pull(group, MessageId::ZERO, 0).await.unwrap().items.len(), 10);
}

/// Scenario 17: sends in parallel with marks, forth and back; each time all is quiet the count is that of the items.
#[tokio::test]
async fn sends_and_marks_in_parallel_leave_the_count_of_the_items_themselves() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let phone = site.add_device(&bob).await;
    for round in 0..rounds(5) {
        let sends = async {
            for number in 0..40 {
                let sender = if number % 4 == 0 { &bob } else { &ada };
                sender.send(group, &format!("{round} {number}")).await;
            }
        };
        let marks = async {
            for number in 0..20 {
                let head = phone.row(group).await.head.value();
                let to = MessageId::new(head - head.min(number % 7));
                let mark = read(&phone, group, to).await;
                if number % 5 == 4 {
                    let back = MessageId::new(to.value().saturating_sub(30));
                    phone.client.mark_unread(group, back, mark.version).await.unwrap();
                }
            }
        };
        tokio::join!(sends, marks);
        let listed = phone.row(group).await;
        let mut all = Vec::new();
        while let Some(page) = next_page(&bob, group, all.last()).await {
            all.extend(page);
        }
        let is_unread = |(msgid, author, content): &&(MessageId, _, bool)| {
            *content && *msgid > listed.mark.msgid && *author != bob.account.user
        };
        assert_eq!(listed.unread, all.iter().filter(is_unread).count() as u64, "round {round}");
    }
}

type Seen = (MessageId, gaggle::ids::UserId, bool);

async fn next_page(person: &Person, group: GroupId, last: Option<&Seen>) -> Option<Vec<Seen>> {
    let after = last.map_or(MessageId::ZERO, |(msgid, ..)| *msgid);
    let items = person.client.pull(group, after, 500).await.unwrap().items;
    let is_content = |item: &gaggle::client::Item| matches!(item.content, gaggle::client::Content::Text(_));
    let seen: Vec<Seen> = items.iter().map(|item| (item.msgid, item.author, is_content(item))).collect();
    (!seen.is_empty()).then_some(seen)
}

/// Scenario 18: after a restart of the server only what changed since is listed, each row whole, and with what one was
/// removed from.
#[tokio::test]
async fn the_list_holds_what_changed_since_across_a_restart_and_nothing_else() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let bob = site.join(&ada, "bob", None).await;
    let mut groups = Vec::new();
    for number in 0..30 {
        let group = ada.client.create_group(&format!("room {number}"), History::FromJoin).await.unwrap();
        ada.client.add_member(group, "bob").await.unwrap();
        ada.send(group, "hello").await;
        groups.push(group);
    }
    let all = bob.client.conversations(0).await.unwrap();
    assert_eq!(all.conversations.len(), 30);
    assert_eq!(all.conversations[0].group, groups[29], "what changed last comes first");
    read(&bob, groups[11], MessageId::MAX).await;
    site.restart().await;
    ada.back().await;
    ada.send(groups[4], "news").await;
    ada.client.remove_member(groups[7], "bob").await.unwrap();
    ada.send(groups[7], "not for bob").await;
    site.restart().await;
    bob.back().await;
    let changed = bob.client.conversations(all.version).await.unwrap();
    let rows: Vec<_> = changed.conversations.iter().map(|row| (row.group, row.unread)).collect();
    assert_eq!(rows, [(groups[7], 1), (groups[4], 2), (groups[11], 0)]);
    let left = &changed.conversations[0];
    assert_eq!((left.role, left.head.value(), left.members), (gaggle::client::Role::Former, 4, 0));
    assert_eq!(left.last.as_ref().unwrap().text, "hello");
    ada.send(groups[7], "not for bob either").await;
    assert!(bob.client.conversations(changed.version).await.unwrap().conversations.is_empty());
}

#[tokio::test]
async fn marking_unread_reaches_the_other_devices_and_a_late_mark_does_not_undo_it() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let phone = site.add_device(&bob).await;
    let mut tail = phone.tail().await;
    for number in 0..5 {
        ada.send(group, &format!("{number}")).await;
    }
    assert_eq!(bob.client.read_mark(group).await.unwrap().msgid, MessageId::new(1));
    read(&bob, group, MessageId::MAX).await;
    let set = bob.client.mark_unread(group, MessageId::new(3), 0).await.unwrap();
    assert_eq!((set.msgid, set.version), (MessageId::new(3), 1));
    until_mark(&mut tail, group, MessageId::new(3), 1).await;
    let late = phone.client.mark_read(group, MessageId::new(7), 0).await.unwrap();
    assert_eq!(late, set);
    let error = phone.client.mark_unread(group, MessageId::new(2), 0).await.unwrap_err();
    assert!(matches!(&error, RequestError::Refused(refusal) if refusal.is(Code::MarkMoved)), "{error}");
    assert_eq!((bob.unread(group).await, phone.row(group).await.mark), (4, set));
}

/// Who has received and who has read, by cursors and marks; the author is told.
#[tokio::test]
async fn receipts_come_from_cursors_and_marks_and_the_author_is_told() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let carl = site.join(&ada, "carl", Some(group)).await;
    let mut adas = ada.tail().await;
    let msgid = ada.send(group, "have you seen this?").await;
    let receipts = ada.client.receipts(group, msgid).await.unwrap();
    assert_eq!((receipts.members, receipts.received, receipts.read, receipts.silent), (2, 0, 0, 0));
    let mut bobs = bob.tail().await;
    bobs.until_msgid(group, msgid).await;
    bobs.listener.ack(bobs.position().unwrap());
    let came = |event: &Event| match event {
        Event::Receipts { group: it, users, .. } if *it == group => users.clone(),
        _ => Vec::new(),
    };
    let user = bob.account.user;
    adas.until("a receipt", |tail| tail.events.iter().flat_map(came).any(|it| it.0 == user && it.1 >= msgid)).await;
    read(&carl, group, msgid).await;
    let user = carl.account.user;
    adas.until("a mark", |tail| tail.events.iter().flat_map(came).any(|it| it == (user, msgid, msgid))).await;
    let receipts = ada.client.receipts(group, msgid).await.unwrap();
    assert_eq!((receipts.members, receipts.received, receipts.read), (2, 2, 1));
    let how: Vec<_> = receipts.users.iter().map(|it| (it.user, it.received, it.read)).collect();
    assert_eq!(how, [(bob.account.user, true, false), (carl.account.user, true, true)]);
    // Who came later was not there; who is not in the group learns nothing.
    let dora = site.join(&ada, "dora", Some(group)).await;
    let stranger = site.join(&ada, "eve", None).await;
    for (person, code) in [(&dora, Code::NoSuchItem), (&stranger, Code::NoSuchGroup)] {
        let error = person.client.receipts(group, msgid).await.unwrap_err();
        assert!(matches!(&error, RequestError::Refused(refusal) if refusal.is(code)), "{error}");
    }
    assert_eq!(ada.client.receipts(group, msgid).await.unwrap().members, 2);
}

// ---- what was recalled, edited, or mentions somebody ------------------------------------------------------------------

/// The one row of the list.
async fn only_row(raw: &mut Raw) -> frame::Conversation {
    let asked =
        Conversations { since: 0, behind: None, rows: 0, preview_bytes: 256, extensions: Extensions::default() };
    raw.list::<ConversationList>(&asked).await.unwrap().rows.0.remove(0)
}

async fn mark(raw: &mut Raw, gid: GroupId, msgid: u64) {
    let mark = MarkRead { gid, msgid: MessageId::new(msgid), version: 0, extensions: Extensions::default() };
    raw.ask::<frame::ReadMark>(&mark).await.unwrap();
}

/// Scenario 14: of five messages ada recalls the fifth and the second; bob is away, or there, or has read the second.
#[tokio::test]
async fn a_recalled_message_is_not_unread_and_the_preview_is_one_that_stands() {
    let mut scene = Scene::start().await;
    let sent = scene.send_many(5).await;
    scene.recall(sent[4]).await;
    scene.recall(sent[1]).await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let row = only_row(&mut bob).await;
    assert_eq!((row.unread, row.last.unwrap().msgid.value()), (3, sent[3]));

    let sent = scene.send_many(5).await;
    let mut there = scene.bob().await;
    mark(&mut bob, scene.group, sent[1]).await;
    assert_eq!(only_row(&mut bob).await.unread, 3);
    let recall = scene.recall(sent[4]).await;
    let row = only_row(&mut bob).await;
    assert_eq!((row.unread, row.last.unwrap().msgid.value()), (2, sent[3]));
    let last = scene.recall(sent[1]).await;
    assert_eq!(only_row(&mut bob).await.unread, 2, "what was read before changes nothing");
    let mut told = Vec::new();
    while !msgids(&told).contains(&last) {
        told.extend(pushed_items(&there.pushed().await));
    }
    let recalls = told.iter().filter(|item| item.kind == kind::RECALL);
    let recalls: Vec<_> = recalls.map(|item| (item.msgid.value(), item.target().unwrap().value())).collect();
    assert_eq!(recalls, [(recall, sent[4]), (last, sent[1])]);
}

#[tokio::test]
async fn the_preview_says_what_a_message_says_now_and_only_as_much_as_was_asked_for() {
    let mut scene = Scene::start().await;
    let sent = scene.send().await;
    let target = msgid_extension(extension::TARGET, MessageId::new(sent));
    scene.send_what(kind::EDIT, "naïvely put", vec![target.clone()]).await;
    scene.send_what(kind::REACTION, "+", vec![target]).await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let row = only_row(&mut bob).await;
    let last = row.last.unwrap();
    assert_eq!((row.unread, last.msgid.value(), last.text.as_str(), last.whole), (1, sent, "naïvely put", true));
    for (preview_bytes, text) in [(3, "na"), (4, "naï"), (0, "")] {
        let extensions = Extensions::default();
        let asked = Conversations { since: 0, behind: None, rows: 1, preview_bytes, extensions };
        let list: ConversationList = bob.list(&asked).await.unwrap();
        let last = list.rows.0[0].last.as_ref();
        assert_eq!(last.map(|last| (last.text.as_str(), last.whole)), (preview_bytes > 0).then_some((text, false)));
    }
}

#[tokio::test]
async fn mentions_are_counted_apart_until_they_are_read_or_recalled() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let mentions = vec![mentions_extension(&[UserId::new(2)])];
    let mut sent = Vec::new();
    for number in 0..6 {
        sent.push(scene.send_what(kind::TEXT, &format!("@bob {number}"), mentions.clone()).await);
        sent.push(scene.send().await);
    }
    let counts = |row: &frame::Conversation| (row.unread, row.mentions);
    assert_eq!(counts(&only_row(&mut bob).await), (12, 6));
    mark(&mut bob, scene.group, sent[2]).await;
    assert_eq!(counts(&only_row(&mut bob).await), (9, 4));
    scene.recall(sent[8]).await;
    scene.recall(sent[0]).await;
    assert_eq!(counts(&only_row(&mut bob).await), (8, 3));
    scene.site.restart().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    assert_eq!(counts(&only_row(&mut bob).await), (8, 3));
}
