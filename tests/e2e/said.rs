//! Edits, recalls, replies, reactions and mentions, by the library, by the wire and by the command line.

use gaggle::client::{
    Client, Content, Conversation, History, Item, Message, Outcome, Receipts, RequestError, Say, Standing,
};
use gaggle::ids::{GroupId, MessageId};
use gaggle::wire::code::Code;
use gaggle::wire::item::kind;
use gaggle::wire::said::{extension, msgid_extension};

use crate::harness::{Person, Scene, Site, quick};
use crate::raw::{Pulling, soon};
use crate::shell::Served;

fn m(msgid: u64) -> MessageId {
    MessageId::new(msgid)
}

impl Person {
    async fn ends(&self, group: GroupId, what: &Say) -> Outcome {
        let seq = self.client.say(group, what).await.unwrap();
        soon("the answer", self.client.outcome(seq)).await.unwrap()
    }

    async fn says(&self, group: GroupId, what: &Say) -> MessageId {
        match self.ends(group, what).await {
            Outcome::Sent { msgid, .. } => msgid,
            other => panic!("{what:?} was not stored: {other:?}"),
        }
    }

    async fn is_refused(&self, group: GroupId, what: &Say, code: Code) {
        match self.ends(group, what).await {
            Outcome::Refused(refusal) => assert!(refusal.is(code), "{what:?}: {refusal}"),
            other => panic!("{what:?} was not refused: {other:?}"),
        }
    }

    async fn edits(&self, group: GroupId, target: MessageId, text: &str) -> MessageId {
        self.says(group, &Say::Edit { target, text: text.to_owned() }).await
    }

    async fn recalls(&self, group: GroupId, target: MessageId) -> MessageId {
        self.says(group, &Say::Recall(target)).await
    }

    async fn reacts(&self, group: GroupId, target: MessageId, reaction: &str) -> MessageId {
        self.says(group, &Say::React { target, reaction: reaction.to_owned() }).await
    }
}

async fn all(client: &Client, group: GroupId) -> Vec<Item> {
    let mut items = Vec::new();
    let mut after = MessageId::ZERO;
    loop {
        let page = client.pull(group, after, 3).await.unwrap();
        items.extend(page.items);
        if !page.more {
            return items;
        }
        after = page.covered_to;
    }
}

fn folded<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Message> {
    let mut conversation = Conversation::new();
    items.into_iter().for_each(|item| conversation.take(item));
    conversation.messages().collect()
}

/// What the messages say that were not recalled.
fn texts(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|message| match &message.text {
            Standing::Original(text) | Standing::Edited { text, .. } => Some(text.as_str()),
            Standing::Outdated { .. } => panic!("an edit is missing: {message:?}"),
            Standing::Recalled => None,
        })
        .collect()
}

/// Scenario 26: changes to messages that a device has acknowledged reach it when it returns, and it ends with what a fresh
/// device of the same user ends with; nothing that was recalled is in a page any more.
#[tokio::test]
async fn changes_reach_a_device_whose_cursor_is_past_the_message_and_it_ends_like_a_fresh_one() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let mut sent = Vec::new();
    for number in 1..=10 {
        sent.push(ada.send(group, &format!("secret {number}")).await);
    }
    let mut tail = bob.tail().await;
    tail.until_msgid(group, sent[9]).await;
    let before = std::mem::take(&mut tail.received);
    tail.client.close().await;
    drop(tail.listener);
    // While bob is away.
    ada.edits(group, sent[2], "third, mended").await;
    ada.recalls(group, sent[4]).await;
    ada.edits(group, sent[6], "seventh, mended").await;
    ada.recalls(group, sent[6]).await;
    ada.reacts(group, sent[0], "👍").await;
    let last = ada.send(group, "last").await;
    let mut tail = bob.tail().await;
    tail.until_msgid(group, last).await;
    assert_eq!(tail.received.len(), 6, "nothing that was acknowledged comes again");
    let returned = folded(before.iter().chain(&tail.received).map(|received| &received.item));
    let fresh = site.add_device(&bob).await;
    let items = all(&fresh.client, group).await;
    assert_eq!(returned, folded(&items));
    let expected =
        ["secret 1", "secret 2", "third, mended", "secret 4", "secret 6", "secret 8", "secret 9", "secret 10", "last"];
    assert_eq!(texts(&returned), expected);
    assert_eq!(returned[0].reactions, [("👍".to_owned(), vec![ada.account.user])]);
    for item in &items {
        let is_gone = item.msgid == sent[4] || item.msgid == sent[6];
        assert_eq!(matches!(item.content, Content::Recalled { edit: false }), is_gone, "{item:?}");
    }
    // The row names the edit for who browses only the old part.
    let page = fresh.client.pull(group, sent[1], 1).await.unwrap();
    assert!(page.items[0].edited_by > sent[9] && page.items[0].msgid == sent[2]);
}

/// Scenario 26: not a byte of what was recalled is on the wire, neither of the text nor of its edit, also after a restart.
#[tokio::test]
async fn a_recalled_text_is_on_no_wire() {
    let mut scene = Scene::start().await;
    let sent = scene.send_what(kind::TEXT, "never to be seen", Vec::new()).await;
    let target = msgid_extension(extension::TARGET, m(sent));
    scene.send_what(kind::EDIT, "nor this to be seen", vec![target]).await;
    scene.recall(sent).await;
    for restarted in [false, true] {
        if restarted {
            scene.site.restart().await;
            scene.reconnect_ada().await;
        }
        let mut frames = scene.ada.open_pull(scene.group, 0, 0, Pulling::Browse).await;
        let mut count = 0;
        while let Some(raw) = frames.next().await {
            count += 1;
            let has = |text: &[u8]| raw.body.windows(text.len()).any(|window| window == text);
            assert!(!has(b"to be seen"), "restarted: {restarted}");
        }
        assert_eq!(count, 2, "rows and their end");
    }
}

/// Scenario 14: of five messages two are recalled, and three are left, whether one was there or away.
#[tokio::test]
async fn what_was_recalled_is_left_out_by_who_was_there_and_by_who_was_away() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let mut online = bob.tail().await;
    let mut sent = Vec::new();
    for number in 1..=5 {
        sent.push(ada.send(group, &format!("m{number}")).await);
    }
    online.until_msgid(group, sent[4]).await;
    ada.recalls(group, sent[4]).await;
    let last = ada.recalls(group, sent[1]).await;
    online.until_msgid(group, last).await;
    let there = folded(online.received.iter().map(|received| &received.item));
    let away = folded(&all(&bob.client, group).await);
    assert_eq!(there, away);
    assert_eq!(texts(&there), ["m1", "m3", "m4"]);
}

/// Of two who said something that an owner recalled: one has a listener beside, the other recalls it and has none.
#[tokio::test]
async fn a_recalled_text_is_in_no_file_of_who_said_it_nor_of_who_was_given_it() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let carl = site.join(&ada, "carl", Some(group)).await;
    let mut tails = [bob.tail().await, carl.tail().await];
    let said = bob.send(group, "never to be seen").await;
    let edit = bob.edits(group, said, "nor this to be seen").await;
    let own = ada.send(group, "nor that to be seen").await;
    for tail in &mut tails {
        tail.until_msgid(group, own).await;
    }
    let disk = site.profiles();
    let has = |person: &Person| {
        let folder = person.profile.folder();
        let names = disk.list(folder).unwrap();
        let read = |name: &String| gaggle::disk::whole::read(disk.as_ref(), &folder.join(name), 1 << 20).unwrap();
        let has = |bytes: Vec<u8>| bytes.windows(10).any(|window| window == b"to be seen");
        names.iter().filter_map(read).any(has)
    };
    assert!(edit < own && [&ada, &bob, &carl].iter().all(|person| has(person)));
    ada.recalls(group, own).await;
    assert!(!has(&ada));
    let last = ada.recalls(group, said).await;
    for tail in &mut tails {
        tail.until_msgid(group, last).await;
    }
    assert!(!has(&bob) && !has(&carl));
}

/// Scenario 19: a reply holds nothing of what it answers, and an edit of what one may not see is hidden, by page and by
/// push, on a new device too.
#[tokio::test]
async fn who_may_not_see_a_message_learns_nothing_of_it_by_replies_and_edits() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let early = ada.send(group, "before carl").await;
    let carl = site.join(&ada, "carl", Some(group)).await;
    let mut tail = carl.tail().await;
    let text = "so do I".to_owned();
    let reply = bob.says(group, &Say::Text { text, reply_to: Some(early), mentions: Vec::new() }).await;
    let edit = ada.edits(group, early, "edited before carl").await;
    let seen = ada.send(group, "with carl").await;
    let other = ada.edits(group, seen, "edited with carl").await;
    tail.until_msgid(group, other).await;
    let fresh = site.add_device(&carl).await;
    let pulled = all(&fresh.client, group).await;
    let pushed: Vec<_> = tail.received.iter().map(|received| received.item.clone()).collect();
    for items in [&pulled, &pushed] {
        let item = |msgid| items.iter().find(|item| item.msgid == msgid).unwrap();
        assert_eq!((&item(reply).content, item(reply).reply_to), (&Content::Text("so do I".to_owned()), Some(early)));
        assert_eq!((&item(edit).content, item(edit).author.value(), item(edit).time_ms), (&Content::Hidden, 0, 0));
        let text = "edited with carl".to_owned();
        assert_eq!(item(other).content, Content::Edit { target: seen, text });
        assert!(items.iter().all(|item| item.msgid > early));
    }
    // Who may see both sees both; and what carl can't see he can't answer to.
    let bobs = all(&bob.client, group).await;
    assert_eq!(texts(&folded(&bobs)), ["edited before carl", "so do I", "edited with carl"]);
    let reaction = || "👍".to_owned();
    carl.is_refused(group, &Say::React { target: early, reaction: reaction() }, Code::NoSuchItem).await;
    carl.is_refused(group, &Say::React { target: edit, reaction: reaction() }, Code::NoSuchItem).await;
    // Nor is he told who wrote the edit, by who is left out of its receipts, or counted among those who get it.
    let refused = carl.client.receipts(group, edit).await.unwrap_err();
    assert!(matches!(&refused, RequestError::Refused(refusal) if refusal.is(Code::NoSuchItem)), "{refused}");
    let members = |receipts: Receipts| receipts.users.iter().map(|receipt| receipt.user).collect::<Vec<_>>();
    assert_eq!(members(bob.client.receipts(group, edit).await.unwrap()), [bob.account.user]);
    assert_eq!(members(carl.client.receipts(group, other).await.unwrap()), [bob.account.user, carl.account.user]);
}

/// Scenario 25: who may edit and recall what.
#[tokio::test]
async fn authors_edit_and_recall_and_owners_recall_what_others_said() {
    let site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let hers = ada.send(group, "hers").await;
    let his = bob.send(group, "his").await;
    bob.is_refused(group, &Say::Edit { target: hers, text: "mine".to_owned() }, Code::NotYours).await;
    ada.is_refused(group, &Say::Edit { target: his, text: "mine".to_owned() }, Code::NotYours).await;
    bob.is_refused(group, &Say::Recall(hers), Code::NotAllowed).await;
    ada.recalls(group, his).await;
    bob.is_refused(group, &Say::Edit { target: his, text: "again".to_owned() }, Code::ItemRecalled).await;
    bob.is_refused(group, &Say::Recall(m(99)), Code::NoSuchItem).await;
    // A refusal holds up nothing.
    bob.send(group, "on").await;
}

/// Scenario 1: edits that are sent one behind the other without waiting end in their order.
#[tokio::test]
async fn edits_of_one_device_keep_their_order_however_fast_they_come() {
    let site = Site::start().await;
    let (ada, _bob, group) = site.team().await;
    let target = ada.send(group, "0").await;
    let mut seqs = Vec::new();
    for number in 1..=40 {
        let edit = Say::Edit { target, text: number.to_string() };
        seqs.push(ada.client.say(group, &edit).await.unwrap());
        if number % 8 == 0 {
            seqs.push(ada.client.queue(group, "between").await.unwrap());
        }
    }
    let mut last = MessageId::ZERO;
    for seq in seqs {
        let outcome = soon("an answer", ada.client.outcome(seq)).await.unwrap();
        let Outcome::Sent { msgid, .. } = outcome else { panic!("{outcome:?}") };
        assert!(msgid > last, "in the order in which they were said");
        last = msgid;
    }
    let items = all(&ada.client, group).await;
    let message = folded(&items).into_iter().find(|message| message.msgid == target).unwrap();
    assert!(matches!(message.text, Standing::Edited { ref text, .. } if text == "40"), "{message:?}");
}

#[tokio::test]
async fn an_edit_after_the_time_for_it_is_too_late() {
    let site = Site::start_with(|config| config.members.edit_ms = 1).await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", History::FromJoin).await.unwrap();
    let target = ada.send(group, "hello").await;
    let edit = Say::Edit { target, text: "late".to_owned() };
    // In time until the clock has gone on.
    let refused = async {
        loop {
            if let Outcome::Refused(refusal) = ada.ends(group, &edit).await {
                return refusal;
            }
        }
    };
    let refusal = soon("a refusal", refused).await;
    assert!(refusal.is(Code::TooLate), "{refusal}");
    ada.recalls(group, target).await;
}

#[tokio::test]
async fn what_was_queued_offline_is_said_when_there_is_a_server_again() {
    let mut site = Site::start().await;
    let (ada, _bob, group) = site.team().await;
    let target = ada.send(group, "helo").await;
    site.stop().await;
    let profile = ada.profile.clone();
    let edit = ada.client.say(group, &Say::Edit { target, text: "hello".to_owned() }).await.unwrap();
    let client = Client::open(&profile, quick()).await.unwrap();
    let react = client.say(group, &Say::React { target, reaction: "+1".to_owned() }).await.unwrap();
    site.start_again().await;
    for seq in [edit, react] {
        let outcome = soon("the answer", client.outcome(seq)).await.unwrap();
        assert!(matches!(outcome, Outcome::Sent { .. }), "{outcome:?}");
    }
    let messages = folded(&all(&client, group).await);
    assert_eq!((texts(&messages), messages[0].reactions.len()), (vec!["hello"], 1));
}

#[test]
fn edits_recalls_replies_and_reactions_read_well_in_a_terminal_and_as_json() {
    let served = Served::start();
    let (alice, bob) = served.team();
    assert_eq!(alice.ok(&["send", "team", "helo", "--mention", "bob"]).out, "3\n");
    assert_eq!(alice.ok(&["edit", "team", "3", "hello"]).out, "4\n");
    assert_eq!(bob.ok(&["reply", "team", "3", "so do I"]).out, "5\n");
    assert_eq!(bob.ok(&["react", "team", "3", "👍"]).out, "6\n");
    assert_eq!(bob.ok(&["react", "team", "3", "👀"]).out, "7\n");
    assert_eq!(bob.ok(&["react", "team", "3", "👀", "--remove"]).out, "8\n");
    alice.ok(&["send", "team", "oh no"]);
    assert_eq!(alice.json(&["recall", "team", "9"])[0]["msgid"], 10);
    let pulled = bob.ok(&["pull", "team", "--after", "2"]).out;
    let said: Vec<&str> = pulled.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(
        said,
        [
            "alice: (edited by 4) helo",
            "* alice edited 3: hello",
            "bob: (to 3) so do I",
            "* bob reacted to 3: 👍",
            "* bob reacted to 3: 👀",
            "* bob took back a reaction to 3: 👀",
            "* what alice said was recalled",
            "* alice recalled 9",
        ]
    );
    let folded = bob.ok(&["pull", "team", "--folded"]).out;
    let said: Vec<&str> = folded.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(said, ["alice: (edited) hello [👍 1: bob]", "bob: (to 3) so do I", "alice: (recalled)"]);
    let json = bob.json(&["tail", "--count", "9"]);
    assert_eq!((&json[1]["mentions"][0], &json[3]["reply_to"]), (&"u2".into(), &3.into()));
    assert_eq!((&json[2]["kind"], &json[2]["target"], &json[2]["text"]), (&"edit".into(), &3.into(), &"hello".into()));
    assert_eq!((&json[6]["reaction"], &json[6]["removed"]), (&"👀".into(), &true.into()));
    let json = alice.json(&["pull", "team", "--folded"]);
    assert_eq!((&json[0]["text"], &json[0]["edited_by"]), (&"hello".into(), &4.into()));
    assert_eq!((&json[0]["reactions"][0]["count"], &json[2]["text"]), (&1.into(), &serde_json::Value::Null));
    // What does not work says why, and what can be done.
    let refused = bob.run(&["edit", "team", "3", "mine"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("only who wrote a message may edit it"), "{refused:?}");
    let refused = alice.run(&["edit", "team", "9", "back"]);
    assert!(refused.code == Some(1) && refused.err.contains("was recalled"), "{refused:?}");
    let unknown = bob.run(&["reply", "team", "3", "hm", "--mention", "carol"]);
    assert!(unknown.code == Some(1) && unknown.err.contains("\"carol\" is not the handle of a member"), "{unknown:?}");
}
