//! What a person is told where something did not go as they meant: which message, which group, who may, how long.

use serde_json::json;

use crate::shell::{Person, Served};

#[test]
fn whichever_command_sends_what_was_queued_says_what_is_refused() {
    let mut served = Served::start();
    let (alice, bob) = served.team();
    let (carol, dave) = (served.join(&alice, "carol"), served.join(&alice, "dave"));
    alice.ok(&["group", "create", "other"]);
    alice.ok(&["group", "add", "other", "bob"]);
    let all = [&bob, &carol, &dave];
    all.iter().for_each(|person| drop(person.ok(&["group", "list"])));
    served.stop();
    let queued = all.map(|person| person.spawn(&["send", "team", "important"]));
    queued.into_iter().for_each(|sending| sending.end().ends_with(3, "queued"));
    let waits = bob.ok(&["outbox", "list"]).out;
    assert!(waits.contains(" 9 bytes  \"important\"\n"), "{waits}");
    assert_eq!(bob.json(&["outbox", "list"])[0]["text"], "important");

    served.again();
    ["bob", "carol", "dave"].iter().for_each(|handle| drop(alice.ok(&["group", "remove", "team", handle])));
    let said = "of the outbox, \"important\" to team: you are not in this group any more";
    let sent = bob.run(&["send", "other", "next"]);
    sent.ends_with(0, said);
    assert_eq!(sent.out, "3\n");
    assert!(bob.json(&["outbox", "list"]).is_empty());
    // It need not get so far as to send it; what was sent is never refused in silence.
    let listed = carol.ok(&["group", "list"]);
    assert_eq!(listed.err.contains(said), carol.json(&["outbox", "list"]).is_empty(), "{listed:?}");
    dave.run(&["outbox", "flush"]).ends_with(1, said);
}

#[test]
fn a_group_called_like_a_user_never_stands_in_for_the_chat_with_them() {
    let served = Served::start();
    let (alice, bob) = served.team();
    let carol = served.join(&alice, "carol");
    alice.ok(&["dm", "carol", "hello"]);
    let chat = alice.json(&["group", "list"])[1]["group"].as_str().unwrap().to_owned();
    bob.ok(&["group", "create", "carol"]);
    bob.ok(&["group", "add", "g2", "alice"]);
    let several = alice.run(&["send", "carol", "secret"]);
    several.ends_with(2, "2 groups of yours are called \"carol\"");
    several.ends_with(2, "g2  group of 2 members");
    several.ends_with(2, &format!("{chat}  direct chat"));
    let rows = alice.ok(&["group", "list"]).out;
    let row = |id: &str| rows.lines().find(|row| row.starts_with(&format!("{id} "))).unwrap().to_owned();
    assert!(row(&chat).contains(" direct ") && row("g2").contains(" member "), "{rows}");

    bob.ok(&["group", "remove", "g2", "alice"]);
    assert_eq!(alice.ok(&["send", "carol", "secret"]).out, "3\n");
    assert_eq!(carol.json(&["pull", "alice", "--last", "1"])[0]["text"], "secret");
    // Of a group that was left nobody is told how many are in it.
    let left = alice.json(&["group", "list"]).into_iter().find(|group| group["group"] == "g2").unwrap();
    assert!(left["role"] == "former" && left.get("members").is_none(), "{left}");

    alice.ok(&["user", "delete", "carol"]);
    assert!(alice.ok(&["group", "list"]).out.contains(" carol (deleted)\n"));
    alice.run(&["invite", "carol"]).ends_with(1, "gaggle user free-handle");
    alice.ok(&["user", "free-handle", "carol"]);
    let link = alice.ok(&["invite", "carol"]).out;
    served.person("new-carol").ok(&["join", link.trim()]);
    alice.ok(&["dm", "carol", "welcome"]);
    alice.run(&["send", "carol", "again"]).ends_with(2, &format!("{chat}  direct chat (deleted)"));
}

#[test]
fn who_shuts_themselves_out_is_told_that_it_is_done() {
    let served = Served::start();
    let (alice, _) = served.team();
    let link = alice.ok(&["devices", "add"]).out;
    let phone = served.person("phone");
    phone.ok(&["join", link.trim()]);
    phone.run(&["devices", "revoke", "d3"]).ends_with(1, "--yes shuts it out all the same");
    phone.run(&["devices", "revoke", "d3", "--yes"]).ends_with(0, "d3 is shut out");
    phone.run(&["group", "list"]).ends_with(1, "this device was revoked");
    alice.run(&["user", "deactivate", "Alice"]).ends_with(0, "is shut out");
    alice.run(&["group", "list"]).ends_with(1, "this user is deactivated");
    alice.ok(&["--operator", "user", "reactivate", "alice"]);
    alice.run(&["user", "delete", "alice"]).ends_with(0, "alice is deleted");
    alice.run(&["group", "list"]).ends_with(1, "this user is deleted");
}

#[test]
fn names_beyond_their_bounds_are_refused_with_the_bound() {
    let served = Served::start();
    let (alice, _) = served.team();
    let refused = |args: &[&str], max: u32| alice.run(args).ends_with(1, &format!("{max} are allowed"));
    for name in ["x".repeat(513), "x".repeat(1_025), "x".repeat(20_000)] {
        refused(&["group", "create", &name], 128);
        refused(&["group", "rename", "team", &name], 128);
        refused(&["group", "topic", "team", &name], 512);
        refused(&["devices", "rename", "d1", &name], 64);
        refused(&["user", "name", &name], 128);
    }
    let handle = "x".repeat(1_025);
    refused(&["group", "add", "team", &handle], 32);
    refused(&["invite", &handle], 32);
    refused(&["dm", &handle, "hello"], 32);
    refused(&["user", "delete", &handle], 32);
    let link = alice.ok(&["invite", "carol"]).out;
    let carol = served.person("carol");
    carol.run(&["join", link.trim(), "--device", &handle]).ends_with(1, "64 are allowed");
    carol.ok(&["join", link.trim()]);
    alice.run(&["group", "topic", "team", "a\nb"]).ends_with(1, "a topic is at most 512 bytes on one line");
}

#[test]
fn who_is_refused_is_told_whom_it_is_about_and_who_may() {
    let served = Served::start();
    let (alice, bob) = served.team();
    assert!(
        bob.ok(&["group", "create", "  mine "])
            .err
            .contains("made \"mine\"; bring others in: gaggle group add g2 HANDLE")
    );
    assert_eq!(bob.json(&["group", "create", " padded "])[0], json!({"group": "g3", "name": "padded"}));
    let told = |person: &Person, said: &str, all: &[&[&str]]| {
        for args in all {
            person.run(args).ends_with(1, said);
        }
    };
    let no_such = "there is no such group, or you are not in it";
    told(&alice, no_such, &[&["group", "topic", "g2"], &["group", "policy", "g2"], &["group", "members", "g2"]]);
    let of_operators: [&[&str]; 5] = [
        &["invite", "carol"],
        &["user", "delete", "alice"],
        &["user", "free-handle", "alice"],
        &["devices", "list", "--for", "alice"],
        &["devices", "add", "--for", "alice"],
    ];
    told(&bob, "operators alone may", &of_operators);
    alice.run(&["--operator", "devices", "list"]).ends_with(2, "--for HANDLE");
    alice.run(&["--operator", "devices", "add"]).ends_with(2, "--for HANDLE");
    alice.run(&["user", "free-handle", "bob"]).ends_with(1, "after gaggle user delete");

    alice.ok(&["group", "remove", "team", "bob"]);
    let of_members: [&[&str]; 10] = [
        &["group", "leave", "team"],
        &["group", "members", "team"],
        &["group", "rename", "team", "ours"],
        &["group", "add", "team", "alice"],
        &["group", "mute", "team", "alice"],
        &["group", "remove", "team", "alice"],
        &["group", "policy", "team", "full-history"],
        &["who", "team"],
        &["retention", "explain", "team"],
        &["retention", "set", "team", "--all"],
    ];
    told(&bob, "you are not in this group any more", &of_members);
    let about_bob: [&[&str]; 3] =
        [&["group", "remove", "team", "bob"], &["group", "mute", "team", "bob"], &["group", "promote", "team", "bob"]];
    told(&alice, "they are not in the group", &about_bob);
}
