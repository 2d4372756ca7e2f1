//! Who is in a group and as what: borders of stays by every road, roles, muting, bans, policies, owners.

use gaggle::client::{Content, History, Outcome, RequestError, Role, Who};
use gaggle::ids::{GroupId, MessageId};
use gaggle::wire::code::Code;
use gaggle::wire::frame::{
    AskRetention, Done, Error, Extensions, GroupCreated, LeaveGroup, ListMembers, ListOnline, MemberList, OnlineList,
    OpenDirect, RenameGroup, RetentionInfo, Sent, SetBanned, SetMuted, SetPolicy, SetRetention, SetRole, SetTopic,
    Skip,
};
use gaggle::wire::item::kind;
use gaggle::wire::said::{extension, msgid_extension};

use crate::harness::{Person, Scene, Site, raw_group};
use crate::raw::{Pulling, Raw, add, assert_refused, msgids, remove, said_frame};

fn none() -> Extensions {
    Extensions::default()
}

fn mute(gid: GroupId, handle: &str, muted: bool) -> SetMuted {
    SetMuted { gid, handle: handle.to_owned(), muted, extensions: none() }
}

fn ban(gid: GroupId, handle: &str, banned: bool) -> SetBanned {
    SetBanned { gid, handle: handle.to_owned(), banned, extensions: none() }
}

fn role(gid: GroupId, handle: &str, role: u8) -> SetRole {
    SetRole { gid, handle: handle.to_owned(), role, extensions: none() }
}

fn leave(gid: GroupId) -> LeaveGroup {
    LeaveGroup { gid, extensions: none() }
}

/// Every item that one may see, by browsing.
async fn browsed(person: &Person, group: GroupId) -> Vec<u64> {
    let (mut seen, mut after) = (Vec::new(), MessageId::ZERO);
    loop {
        let page = person.client.pull(group, after, 0).await.unwrap();
        seen.extend(page.items.iter().map(|item| item.msgid.value()));
        after = page.covered_to;
        if !page.more {
            return seen;
        }
    }
}

/// Scenario 19: in at 10, gone at 20, again from 40 to 60, again from 80 on, while another sends throughout: exactly those
/// are seen, both borders included, by push, by pull, and from a device that is new.
#[tokio::test]
async fn who_comes_and_goes_gets_exactly_the_stays_by_every_road() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let bob = site.join(&ada, "bob", None).await;
    let group = ada.client.create_group("team", History::FromJoin).await.unwrap();
    let mut listens = bob.tail().await;
    for (join, end) in [(10, Some(20)), (40, Some(60)), (80, None)] {
        while ada.send(group, "between").await.value() < join - 1 {}
        assert_eq!(ada.client.add_member(group, "bob").await.unwrap().value(), join);
        let Some(end) = end else { break };
        while ada.send(group, "during").await.value() < end - 1 {}
        let ended =
            if end == 20 { bob.client.leave_group(group).await } else { ada.client.remove_member(group, "bob").await };
        assert_eq!(ended.unwrap().value(), end);
    }
    while ada.send(group, "last").await.value() < 90 {}
    listens.until_msgid(group, MessageId::new(90)).await;
    let stays: Vec<u64> = (10..=20).chain(40..=60).chain(80..=90).collect();
    assert_eq!(listens.msgids(group), stays, "pushed or pulled by the listener");
    assert_eq!(browsed(&bob, group).await, stays, "browsed");
    let new = site.add_device(&bob).await;
    assert_eq!(browsed(&new, group).await, stays, "from a device that is new");
}

/// Scenario 21: somebody is added while three send at full rate and a fourth is away, and removed before that one returns:
/// join and leave have their place in the one order, and every message its author.
#[tokio::test]
async fn joins_and_leaves_have_their_place_in_the_one_order() {
    let site = Site::start().await;
    let carl = site.operator("carl").await;
    let group = carl.client.create_group("team", History::FromJoin).await.unwrap();
    let dora = site.join(&carl, "dora", Some(group)).await;
    let away = site.join(&carl, "ada", Some(group)).await;
    let bob = site.join(&carl, "bob", None).await;
    let says = |person: &Person, name: &'static str| {
        let client = person.client.clone();
        async move {
            for number in 0..60 {
                let seq = client.queue(group, &format!("{name} {number}")).await.unwrap();
                client.outcome(seq).await.unwrap();
            }
        }
    };
    let changes = async {
        let joined = carl.client.add_member(group, "bob").await.unwrap();
        says(&bob, "bob").await;
        (joined, carl.client.remove_member(group, "bob").await.unwrap())
    };
    let ((joined, removed), (), ()) = tokio::join!(changes, says(&carl, "carl"), says(&dora, "dora"));
    let mut returns = away.tail().await;
    let head = carl.client.pull(group, MessageId::ZERO, 1).await.unwrap().head;
    returns.until_msgid(group, head).await;
    let bobs = bob.account.user;
    let items = returns.received.iter().map(|received| &received.item).filter(|item| item.group == group);
    let (mut of_bob, mut comes, mut goes) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        match &item.content {
            Content::Joined(user) if *user == bobs => comes.push(item.msgid),
            Content::Removed(user) => goes.push((*user, item.msgid)),
            Content::Text(text) => {
                let expected = match text.split(' ').next().unwrap() {
                    "bob" => &bob,
                    "dora" => &dora,
                    _ => &carl,
                };
                assert_eq!(item.author, expected.account.user, "{text}");
                if item.author == bobs {
                    of_bob.push(item.msgid);
                }
            }
            _ => {}
        }
    }
    assert_eq!((comes, goes), (vec![joined], vec![(bobs, removed)]));
    assert_eq!(of_bob.len(), 60);
    assert!(of_bob.iter().all(|msgid| joined < *msgid && *msgid < removed));
}

/// Scenario 22: the history policy changes after bob joined; his stay keeps the one it was made under.
#[tokio::test]
async fn another_policy_is_for_those_who_join_next() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    scene.send_many(3).await;
    let policy = SetPolicy { gid: scene.group, policy: 1, extensions: none() };
    assert_eq!(scene.ada.ask::<Done>(&policy).await.unwrap().msgid, MessageId::new(6));
    assert_eq!(scene.ada.ask::<Done>(&policy).await.unwrap().msgid, MessageId::ZERO);
    let carl = scene.site.raw_user(&mut scene.ada, "carl", Some(scene.group)).await;
    let mut carl = carl.call(address).await;
    assert_eq!(msgids(&carl.browse(scene.group, 0).await), (1..=7).collect::<Vec<_>>());
    let mut bob = scene.bob.call(address).await;
    assert_eq!(msgids(&bob.browse(scene.group, 0).await), (2..=7).collect::<Vec<_>>());
    assert_refused(bob.ask::<Done>(&policy).await, Code::NotAllowed);
    let unknown = SetPolicy { gid: scene.group, policy: 9, extensions: none() };
    assert_refused(scene.ada.ask::<Done>(&unknown).await, Code::Malformed);
}

/// Scenario 23: the sole owner demotes themselves; two owners demote each other at once, over and over; the last one leaves.
#[tokio::test]
async fn a_group_with_members_always_has_an_owner() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    assert_refused(scene.ada.ask::<Done>(&role(scene.group, "ada", 3)).await, Code::LastOwner);
    for round in 0..20 {
        let owns = if owner_of(&mut scene.ada, scene.group).await == "ada" { &mut scene.ada } else { &mut bob };
        for name in ["ada", "bob"] {
            owns.ask::<Done>(&role(scene.group, name, 1)).await.unwrap();
        }
        let (by_ada, by_bob) = (role(scene.group, "bob", 3), role(scene.group, "ada", 3));
        let (first, second) = tokio::join!(scene.ada.ask::<Done>(&by_ada), bob.ask::<Done>(&by_bob));
        match (first, second) {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => {
                assert_eq!(refused.code, Code::NotAllowed.number(), "round {round}");
            }
            both => panic!("round {round}: {both:?}"),
        }
    }
    let (leaver, stays) =
        if owner_of(&mut scene.ada, scene.group).await == "ada" { (&mut scene.ada, "bob") } else { (&mut bob, "ada") };
    leaver.ask::<Done>(&leave(scene.group)).await.unwrap();
    let left = if stays == "bob" { &mut bob } else { &mut scene.ada };
    assert_eq!(owner_of(left, scene.group).await, stays);
}

/// Scenario 23: the last member leaves, then an old invite is used: its user exists, and the group stays dead.
#[tokio::test]
async fn an_old_invite_leads_into_no_dead_group() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let link = scene.site.raw_invite(&mut scene.ada, "eve", Some(scene.group)).await;
    scene.ada.ask::<Done>(&leave(scene.group)).await.unwrap();
    bob.ask::<Done>(&leave(scene.group)).await.unwrap();
    let eve = crate::raw::Key::enrol(&link, None).await.unwrap();
    let mut eve = eve.call(scene.site.address()).await;
    assert!(eve.groups().await.is_empty());
    assert_refused(eve.pull(scene.group, 0, 0, Pulling::Browse).await, Code::NoSuchGroup);
    assert_refused(scene.ada.ask::<Done>(&add(scene.group, "eve")).await, Code::NotMember);
}

async fn owner_of(raw: &mut Raw, gid: GroupId) -> String {
    let list: MemberList = raw.list(&ListMembers { gid, after: Default::default(), extensions: none() }).await.unwrap();
    let mut owners = list.rows.0.into_iter().filter(|row| row.role == 1);
    let owner = owners.next().expect("an owner").handle;
    assert!(owners.next().is_none());
    owner
}

/// The code of a refusal.
fn code<T>(answer: Result<T, Error>) -> Option<u16> {
    answer.err().map(|error| error.code)
}

/// So many sends are among the verbs.
const SENDS: u64 = 4;

/// What the verbs that change a group answer, all of which an owner may ask for.
async fn verbs(raw: &mut Raw, gid: GroupId, seq: u64) -> Vec<(&'static str, Option<u16>)> {
    let rename = RenameGroup { gid, name: "other".to_owned(), extensions: none() };
    let topic = SetTopic { gid, topic: "other".to_owned(), extensions: none() };
    let policy = SetPolicy { gid, policy: 1, extensions: none() };
    let (count, extensions) = (Some(1), none());
    let keeps = SetRetention { gid, own: true, age_s: None, count, bytes: None, acked_s: None, extensions };
    let about = |seq, kind, body| {
        let target = msgid_extension(extension::TARGET, MessageId::new(2));
        said_frame(seq, seq, gid, kind, body, vec![target])
    };
    vec![
        ("send", code(raw.send(seq, gid, "text").await)),
        ("edit", code(raw.ask::<Sent>(&about(seq + 1, kind::EDIT, "text")).await)),
        ("recall", code(raw.ask::<Sent>(&about(seq + 2, kind::RECALL, "")).await)),
        ("react", code(raw.ask::<Sent>(&about(seq + 3, kind::REACTION, "+1")).await)),
        ("add", code(raw.ask::<Done>(&add(gid, "zoe")).await)),
        ("remove", code(raw.ask::<Done>(&remove(gid, "zoe")).await)),
        ("rename", code(raw.ask::<Done>(&rename).await)),
        ("topic", code(raw.ask::<Done>(&topic).await)),
        ("policy", code(raw.ask::<Done>(&policy).await)),
        ("retention", code(raw.ask::<Done>(&keeps).await)),
        ("role", code(raw.ask::<Done>(&role(gid, "zoe", 2)).await)),
        ("mute", code(raw.ask::<Done>(&mute(gid, "zoe", true)).await)),
        ("ban", code(raw.ask::<Done>(&ban(gid, "zoe", true)).await)),
        ("unban", code(raw.ask::<Done>(&ban(gid, "zoe", false)).await)),
    ]
}

/// What the verbs answer that only ask, which every member may.
async fn questions(raw: &mut Raw, gid: GroupId) -> Vec<(&'static str, Option<u16>)> {
    let members = ListMembers { gid, after: Default::default(), extensions: none() };
    let online = ListOnline { gid, after: Default::default(), extensions: none() };
    vec![
        ("members", code(raw.list::<MemberList>(&members).await)),
        ("online", code(raw.list::<OnlineList>(&online).await)),
        ("kept", code(raw.ask::<RetentionInfo>(&AskRetention { gid, extensions: none() }).await)),
    ]
}

/// Scenario 25: a muted, a removed, a banned member and a stranger try every verb: one code from each verb, and the muted
/// one reads, acknowledges, asks, steps down and leaves.
#[tokio::test]
async fn every_verb_answers_whoever_may_not_with_the_same_code() {
    let mut scene = Scene::start().await;
    let (group, address) = (scene.group, scene.site.address());
    scene.site.raw_user(&mut scene.ada, "zoe", Some(group)).await;
    let stranger = scene.site.raw_user(&mut scene.ada, "carl", None).await;
    let mut bob = scene.bob.call(address).await;
    let mut seq = 1;
    let mut tries = async |raw: &mut Raw, code: Code| {
        for (verb, answer) in verbs(raw, group, seq).await {
            assert_eq!(answer, Some(code.number()), "{verb} by one who is {code}");
        }
        for (verb, answer) in questions(raw, group).await {
            let expected = (code != Code::Muted).then_some(code.number());
            assert_eq!(answer, expected, "{verb} by one who is {code}");
        }
        seq += SENDS;
    };
    tries(&mut stranger.call(address).await, Code::NoSuchGroup).await;
    scene.ada.ask::<Done>(&role(group, "bob", 2)).await.unwrap();
    scene.ada.ask::<Done>(&mute(group, "bob", true)).await.unwrap();
    tries(&mut bob, Code::Muted).await;
    scene.send().await;
    let head = scene.ada.group(group).await.head.value();
    assert_eq!(msgids(&bob.browse(group, 0).await), (2..=head).collect::<Vec<_>>(), "pulls go on");
    let mut listens = scene.bob().await;
    listens.ack(group, head).await;
    listens.cursor_reaches(group, head).await;
    bob.ask::<gaggle::wire::frame::Cursors>(&Skip { gid: group, to: MessageId::new(head), extensions: none() })
        .await
        .unwrap();
    let list: MemberList =
        bob.list(&ListMembers { gid: group, after: Default::default(), extensions: none() }).await.unwrap();
    let muted: Vec<&str> =
        list.rows.0.iter().filter(|row| !row.extensions.0.is_empty()).map(|row| row.handle.as_str()).collect();
    assert_eq!(muted, ["bob"]);
    bob.ask::<Done>(&role(group, "bob", 3)).await.unwrap();
    bob.ask::<Done>(&leave(group)).await.unwrap();
    tries(&mut bob, Code::NotMember).await;

    scene.ada.ask::<Done>(&add(group, "bob")).await.unwrap();
    scene.ada.ask::<Done>(&remove(group, "bob")).await.unwrap();
    tries(&mut bob, Code::NotMember).await;
    assert_refused(bob.ask::<Done>(&leave(group)).await, Code::NotMember);
    scene.ada.ask::<Done>(&ban(group, "bob", true)).await.unwrap();
    tries(&mut bob, Code::Banned).await;
    assert_refused(bob.ask::<Done>(&leave(group)).await, Code::Banned);
    assert_refused(scene.ada.ask::<Done>(&add(group, "bob")).await, Code::Banned);
    assert!(!bob.browse(group, 0).await.is_empty(), "what was seen stays to be seen");
    scene.ada.ask::<Done>(&ban(group, "bob", false)).await.unwrap();
    scene.ada.ask::<Done>(&add(group, "bob")).await.unwrap();
    bob.send(seq, group, "back").await.unwrap();
}

/// Roles, topic, policy, ban and the switch are there again after the server was started anew.
#[tokio::test]
async fn what_was_decided_about_members_outlives_the_server() {
    let mut site = Site::start().await;
    let (ada, bob, group) = site.team().await;
    let carl = site.join(&ada, "carl", Some(group)).await;
    ada.client.set_role(group, "bob", Role::Admin).await.unwrap();
    ada.client.mute(group, "bob").await.unwrap();
    ada.client.ban(group, "carl").await.unwrap();
    ada.client.set_topic(group, "what we eat").await.unwrap();
    ada.client.set_history(group, History::Full).await.unwrap();
    carl.client.set_added_by(Who::Nobody).await.unwrap();
    site.restart().await;
    for person in [&ada, &bob, &carl] {
        // An attempt from before the server was there again may still be under way.
        person.back().await;
    }
    let about = ada.client.groups().await.unwrap();
    assert_eq!((about[0].topic.as_str(), about[0].history), ("what we eat", History::Full));
    let members = ada.client.members(group).await.unwrap();
    let found: Vec<_> = members.iter().map(|member| (member.handle.as_str(), member.role, member.muted)).collect();
    assert_eq!(found, [("ada", Role::Owner, false), ("bob", Role::Admin, true)]);
    let refused = |answer: Result<MessageId, RequestError>, code: Code| {
        assert!(matches!(&answer, Err(RequestError::Refused(refusal)) if refusal.is(code)), "{answer:?}");
    };
    refused(ada.client.add_member(group, "carl").await, Code::Banned);
    ada.client.unban(group, "carl").await.unwrap();
    assert_eq!(carl.client.added_by().await.unwrap(), Who::Nobody);
    refused(ada.client.add_member(group, "carl").await, Code::NotAddable);
    carl.client.set_added_by(Who::Everyone).await.unwrap();
    ada.client.add_member(group, "carl").await.unwrap();
    let outcome = bob.outcome(group, "still muted").await;
    assert!(matches!(&outcome, Outcome::Refused(refusal) if refusal.is(Code::Muted)), "{outcome:?}");
}

/// A switch against being added is shown to its user and to nobody else.
#[tokio::test]
async fn a_switch_is_its_users_own() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let switch = gaggle::wire::frame::SetSwitch { switch: 1, on: true, extensions: none() };
    bob.ask::<Done>(&switch).await.unwrap();
    let group = raw_group(&mut scene.ada, "another", 0).await;
    assert_refused(scene.ada.ask::<Done>(&add(group, "bob")).await, Code::NotAddable);
    let all = gaggle::wire::frame::ListUsers { after: Default::default(), extensions: none() };
    let said = async |raw: &mut Raw| {
        let list: gaggle::wire::frame::UserList = raw.list(&all).await.unwrap();
        list.rows.0.iter().map(|row| row.extensions.0.len()).collect::<Vec<_>>()
    };
    assert_eq!(said(&mut bob).await, [0, 1]);
    assert_eq!(said(&mut scene.ada).await, [0, 0]);
}

/// Scenario 24: two open the chat with each other at once, a thousand times, and each their notebook: one group each time,
/// on each one's list, with the messages of both in one order.
#[tokio::test]
async fn direct_chats_are_one_for_each_pair() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let open = |handle: &str| OpenDirect { handle: handle.to_owned(), extensions: none() };
    let (with_bob, with_ada) = (open("bob"), open("ada"));
    let mut chats = std::collections::BTreeSet::new();
    for _ in 0..1_000 {
        let (of_ada, of_bob) =
            tokio::join!(scene.ada.ask::<GroupCreated>(&with_bob), bob.ask::<GroupCreated>(&with_ada));
        chats.extend([of_ada.unwrap().gid, of_bob.unwrap().gid]);
    }
    let chat = chats.pop_first().unwrap();
    assert!(chats.is_empty(), "{chats:?}");
    scene.ada.send(1, chat, "from ada").await.unwrap();
    bob.send(1, chat, "from bob").await.unwrap();
    for (raw, called) in [(&mut scene.ada, "bob"), (&mut bob, "ada")] {
        let listed: Vec<_> = raw.groups().await.into_iter().filter(|info| info.gid == chat).collect();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].name.as_str(), listed[0].members, listed[0].head), (called, 2, MessageId::new(3)));
        assert_eq!(crate::raw::texts(&raw.browse(chat, 1).await), ["from ada", "from bob"]);
    }
    let notebook = scene.ada.ask::<GroupCreated>(&with_ada).await.unwrap().gid;
    assert_eq!(scene.ada.ask::<GroupCreated>(&with_ada).await.unwrap().gid, notebook);
    scene.ada.send(2, notebook, "do not forget").await.unwrap();
    assert_eq!(crate::raw::texts(&scene.ada.browse(notebook, 1).await), ["do not forget"]);
    assert_refused(bob.pull(notebook, 0, 0, Pulling::Browse).await, Code::NoSuchGroup);
    assert_refused(scene.ada.ask::<Done>(&leave(chat)).await, Code::DirectChat);
}

/// Scenario 24: the first message of each side, sent at once, begins one chat; both listeners get both, and find them after
/// the server was started anew.
#[tokio::test]
async fn first_messages_that_cross_are_in_one_chat() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let bob = site.join(&ada, "bob", None).await;
    let chat = GroupId::direct(ada.account.user, bob.account.user);
    let (mut at_ada, mut at_bob) = (ada.tail().await, bob.tail().await);
    let (one, other) = tokio::join!(ada.send(chat, "from ada"), bob.send(chat, "from bob"));
    assert_eq!(one.min(other), MessageId::new(2));
    for tail in [&mut at_ada, &mut at_bob] {
        tail.until_msgid(chat, MessageId::new(3)).await;
        assert_eq!(tail.msgids(chat), [1, 2, 3]);
        let mut texts = tail.texts(chat);
        texts.sort_unstable();
        assert_eq!(texts, ["from ada", "from bob"]);
    }
    site.restart().await;
    bob.back().await;
    assert_eq!(browsed(&bob, chat).await, [1, 2, 3]);
}
