//! One frame after a clean history, with rows that contradict it: the sentence that each is worth.

use super::scene::*;
use super::*;
use crate::ids::{ClientSeq, DeviceId, GroupId, UserId};
use crate::store::records::{
    Extensions, GroupRecord, InviteRecord, MemberRecord, MentionRecord, MessageRecord, OwnRecord, RecalledRecord,
    invite_extension, member_extension, message_flag, opens, policy, role, user_extension,
};

fn planted(ops: Vec<Op>) -> Told {
    let disk = folder_of(&frames());
    append(&disk, &[ops]);
    check(&disk)
}

/// What is found where these rows come after the clean history.
fn found(ops: Vec<Op>) -> Vec<String> {
    let told = planted(ops);
    assert_eq!(told.findings.len() as u64, told.verified.findings);
    told.findings
}

fn raw(tree: Tree, key: Bytes, value: &'static [u8]) -> Op {
    put(tree, key, Bytes::from_static(value))
}

#[test]
fn a_history_that_goes_on_is_clean() {
    assert_eq!(
        found(vec![item(NEXT, 7, [1, 1, 2], 3, 0), member(BOB, vec![stay(2, Some(6), 0, 3), stay(7, None, 3, 0)])]),
        [""; 0]
    );
    let trimmed = [
        vec![group_without(6, 6, 3, 3)],
        vec![gone(Tree::Messages, keys::message(G, m(3))), gone(Tree::Own, keys::own(G, ADA, 1))],
    ];
    for count in 1..=2 {
        let disk = folder_of(&frames());
        append(&disk, &trimmed[..count]);
        check(&disk).clean();
    }
}

/// Of a group that was trimmed, wholly or not, what is left follows from what its row says is gone.
#[test]
fn what_is_kept_goes_on_from_what_the_row_says_is_gone() {
    assert_eq!(found(vec![group_without(4, 6, 3, 1)]), [""; 0]);
    assert_eq!(found(vec![group_without(4, 6, 3, 2)]), ["g1 m4: its content ordinal is 2 behind 2"]);
    assert_eq!(found(vec![group(4, 6, 3)]), ["g1 m4: its content ordinal is 2 behind 0"]);
    assert_eq!(found(vec![group_without(7, 6, 3, 3)]), [""; 0]);
    let all = "g1: nothing is kept, but its row does not say that all content is gone";
    assert_eq!(found(vec![group_without(7, 6, 3, 2)]), [all]);
    let missing = vec![group_without(4, 6, 3, 1), gone(Tree::Messages, keys::message(G, m(4)))];
    assert!(found(missing).contains(&"g1: m4 is missing below m5".to_owned()));
}

#[test]
fn records_that_are_none_are_named_with_frame_and_byte() {
    for tree in Tree::ALL {
        let found = found(vec![raw(tree, Bytes::from_static(b"\xff"), b"\x07")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("/srv/data/log/0000000"), "{found:?}");
        assert!(found[0].contains(" byte ") && found[0].contains("frame l6 puts "), "{found:?}");
    }
    let found = found(vec![raw(Tree::Cursors, keys::cursor(G, ADA, ADAS), b"\x09")]);
    assert!(found[0].contains("cursors g1 u1 d1: a record of version 9"), "{found:?}");
}

#[test]
fn an_item_of_another_frame_and_one_that_is_not_understood_are_named() {
    let found_item = found(vec![item(3, 7, [1, 0, 0], 4, 3), own(ADA, 3, 7)]);
    assert!(found_item[0].ends_with("frame l6 puts messages g1 m7: an item of frame l3"), "{found_item:?}");
    let mut record = item_record(NEXT, [1, 0, 0], 4, 3);
    record.item = Bytes::from_static(b"?");
    let found = found(vec![put(Tree::Messages, keys::message(G, m(7)), record.encode())]);
    assert!(found[0].ends_with("messages g1 m7: no item"), "{found:?}");
}

#[test]
fn items_are_dense() {
    assert_eq!(found(vec![item(NEXT, 9, [1, 1, 2], 3, 0)]), ["g1: m7 to m8 are missing below m9"]);
    assert_eq!(
        found(vec![gone(Tree::Messages, keys::message(G, m(4))), gone(Tree::Own, keys::own(G, BOB, 1))]),
        ["g1: m4 is missing below m5", "send s7 of d2 became g1 m4, which is no message of u2"]
    );
    assert_eq!(found(vec![group(1, 8, 3)]), ["g1: m7 to m8 are missing, but its row says that m8 was there"]);
    assert_eq!(found(vec![group(9, 6, 3)]), ["g1: its row says that m9 is the first kept item, the head is m6"]);
}

#[test]
fn the_row_of_a_group_and_its_items_belong_together() {
    assert_eq!(found(vec![group(1, 4, 3)]), ["g1: its row says 3 content items up to m4, the item 2"]);
    let lost = found(vec![gone(Tree::Groups, keys::group(G))]);
    assert_eq!(lost[0], "g1 has items, but does not exist");
    assert!(lost.contains(&"u1 is a member of g1, which does not exist".to_owned()), "{lost:?}");
}

#[test]
fn content_ordinals_follow_from_one_another() {
    let found = found(vec![item(NEXT, 7, [1, 0, 0], 5, 3), own(ADA, 3, 7)]);
    assert_eq!(found, ["g1 m7: its content ordinal is 5 behind 3"]);
}

#[test]
fn every_content_item_is_found_by_its_author() {
    let (lost, other) = (gone(Tree::Own, keys::own(G, ADA, 1)), own(ADA, 1, 4));
    assert_eq!(found(vec![lost]), ["g1: content item number 1 of u1 leads nowhere"]);
    assert_eq!(found(vec![other]), ["g1: content item number 1 of u1 leads to m4, which is not that"]);
    assert_eq!(found(vec![gone(Tree::Own, keys::own(G, ADA, 2))]), ["g1: content item number 2 of u1 leads nowhere"]);
    assert_eq!(found(vec![own(ADA, 3, 5)]), ["g1: content item number 3 of u1 leads to m5, which is not that"]);
    assert_eq!(
        found(vec![own(UserId::new(9), 1, 5)]),
        ["g1: content item number 1 of u9 leads to m5, which is not theirs"]
    );
    assert_eq!(
        found(vec![item(NEXT, 7, [1, 0, 0], 4, 4), own(ADA, 4, 7)])[0],
        "g1 m7: it counts as number 4 of u1, after number 2"
    );
    assert_eq!(
        found(vec![item(NEXT, 7, [1, 1, 2], 3, 3)]),
        ["g1 m7 is no content, but counts as number 3 of its author"]
    );
    let record = OwnRecord { msgid: m(3), extensions: none() };
    let elsewhere = put(Tree::Own, keys::own(GroupId::new(5), ADA, 1), record.encode());
    assert_eq!(found(vec![elsewhere]), ["g5: content item number 1 of u1 leads to m3, which is not theirs"]);
}

#[test]
fn authors_and_members_exist() {
    let found_item = found(vec![item(NEXT, 7, [9, 0, 0], 4, 1), own(UserId::new(9), 1, 7)]);
    assert_eq!(found_item, ["g1 m7 is by u9, who does not exist"]);
    let stranger = UserId::new(9);
    let ops =
        vec![item(NEXT, 7, [1, 1, 9], 3, 0), member(stranger, vec![stay(7, None, 3, 0)]), membership(stranger, G)];
    assert_eq!(found(ops), ["a member of g1 is u9, who does not exist"]);
}

#[test]
fn stays_are_in_order_and_begin_and_end_with_the_items_that_say_so() {
    let stays = |stays: Vec<_>| found(vec![member(BOB, stays)]);
    assert_eq!(stays(vec![]), ["g1 u2: a member of 0 stays"]);
    assert_eq!(
        stays(vec![stay(2, Some(6), 0, 3), stay(2, None, 0, 0)]),
        ["g1 u2: the stay from m2 begins before m6, where another ended"]
    );
    let open_first = stays(vec![stay(2, None, 0, 0), stay(9, None, 0, 0)]);
    assert_eq!(open_first[0], "g1 u2: the stay from m2 is open, but another follows");
    assert_eq!(open_first[1], "g1 u2: the stay from m9 goes beyond the head m6");
    assert_eq!(stays(vec![stay(2, Some(2), 0, 0)])[0], "g1 u2: the stay from m2 ends before that, at m2");
    assert_eq!(stays(vec![stay(2, Some(9), 0, 3)]), ["g1 u2: the stay from m2 goes beyond the head m6"]);
    assert_eq!(stays(vec![stay(3, Some(6), 1, 3)]), ["g1 u2: m3 does not say that they joined, as the stay has it"]);
    assert_eq!(stays(vec![stay(2, Some(5), 0, 3)]), ["g1 u2: m5 does not say that they left, as the stay has it"]);
    assert_eq!(stays(vec![stay(2, Some(6), 0, 2)]), ["g1 u2: 2 content items up to m6 by the stay, 3 by the item"]);
    let falls = stays(vec![stay(2, Some(6), 4, 3)]);
    assert_eq!(falls[0], "g1 u2: in the stay from m2 the count of content items falls");
}

#[test]
fn memberships_are_those_of_the_members() {
    let lost = vec![gone(Tree::Memberships, keys::membership(BOB, G))];
    assert_eq!(found(lost), ["g1 does not stand among the groups of u2, who is or was a member"]);
    let other = GroupId::new(4);
    assert_eq!(found(vec![membership(BOB, other)]), ["g4 stands among the groups of u2, who never was a member"]);
}

#[test]
fn cursors_and_read_marks_are_of_members_and_not_above_the_head() {
    assert_eq!(found(vec![cursor(ADA, ADAS, 7, 3, 2)]), ["the cursor g1 u1 d1 stands at m7, above the head m6"]);
    assert_eq!(
        found(vec![cursor(BOB, DeviceId::ZERO, 9, u64::MAX, u64::MAX)]),
        ["the read mark g1 u2 read stands at m9, above the head m6"]
    );
    assert_eq!(found(vec![cursor(ADA, ADAS, 6, 4, 2)]), ["the cursor g1 u1 d1 counts 4 content items up to m6"]);
    assert_eq!(
        found(vec![cursor(ADA, ADAS, 6, 3, 3)]),
        ["the cursor g1 u1 d1 counts 3 items of their own, who wrote 2"]
    );
    assert_eq!(found(vec![cursor(ADA, BOBS, 1, 0, 0)]), ["the cursor g1 u1 d2 is of a device that u1 does not have"]);
    let stranger = cursor(UserId::new(9), DeviceId::ZERO, 1, 0, 0);
    assert_eq!(found(vec![stranger]), ["the read mark g1 u9 read is of somebody who never was a member"]);
}

#[test]
fn handles_and_keys_lead_to_whom_they_belong() {
    assert_eq!(found(vec![handle("eve", BOB)]), [r#"the handle "eve" leads to u2, who has another or does not exist"#]);
    assert_eq!(
        found(vec![gone(Tree::Handles, keys::name("bob"))]),
        [r#"u2 has the handle "bob", which leads nowhere"#]
    );
    assert_eq!(
        found(vec![key(9, BOBS)]),
        ["the key 0909090909090909… leads to d2, which has another or does not exist"]
    );
    assert_eq!(found(vec![gone(Tree::Keys, keys::digest(&[2; 32]))]), ["d2 has a key that leads nowhere"]);
    assert_eq!(found(vec![device(BOBS, UserId::new(9), None)])[0], "d2 belongs to u9, who does not exist");
}

#[test]
fn a_deleted_user_has_no_device_and_no_group_and_a_freed_handle_leads_to_nobody() {
    let state = |number: u8| bob_in_state(&[&[number][..], &[0; 8]].concat());
    let with = |ops: Vec<Op>| {
        let revoked = [device(BOBS, BOB, Some(5)), gone(Tree::Sends, keys::send(BOBS, ClientSeq::new(7)))];
        found(revoked.into_iter().chain(ops).collect())
    };
    assert_eq!(found(vec![state(1)]), [""; 0]);
    assert_eq!(with(vec![state(2)]), [""; 0]);
    assert_eq!(with(vec![state(3), gone(Tree::Handles, keys::name("bob"))]), [""; 0]);
    assert_eq!(found(vec![state(2)]), ["d2 is not revoked, but u2, whose it is, is deleted"]);
    assert_eq!(with(vec![state(3)]), [r#"the handle "bob" leads to u2, who has another or does not exist"#]);
    let back = [item(NEXT, 7, [1, 1, 2], 3, 0), member(BOB, vec![stay(2, Some(6), 0, 3), stay(7, None, 3, 0)])];
    assert_eq!(with([vec![state(2)], back.to_vec()].concat()), ["g1 u2: a member, but deleted"]);
    for odd in [&[][..], &[9, 0, 0, 0, 0, 0, 0, 0, 0], &[1]] {
        assert_eq!(found(vec![bob_in_state(odd)])[0], "u2 is in no state that there is");
    }
}

#[test]
fn a_display_name_is_a_text_of_bounded_length() {
    assert_eq!(found(vec![bob_with(user_extension::NAME, "Bob é".as_bytes())]), [""; 0]);
    for odd in [&[][..], b"\xff", &[b'x'; 129]] {
        assert_eq!(found(vec![bob_with(user_extension::NAME, odd)]), ["u2 wants to be called what is no name"]);
    }
}

#[test]
fn counters_are_not_below_what_was_given_out() {
    assert_eq!(found(vec![meta("last-group", 0)]), ["g1 exists, but the counter last-group stands at 0"]);
    assert_eq!(found(vec![meta("last-user", 1)]), ["u2 exists, but the counter last-user stands at 1"]);
    assert_eq!(found(vec![meta("last-device", 1)]), ["d2 exists, but the counter last-device stands at 1"]);
    assert_eq!(
        found(vec![gone(Tree::Meta, keys::name("operator-existed"))]),
        ["u1 is an operator, but the mark operator-existed is not set"]
    );
}

#[test]
fn sends_lie_in_their_window_and_lead_to_what_they_became() {
    assert_eq!(found(vec![send(ADAS, 3, 5)]), ["send s3 of d1 lies outside of its window, s2 to s2"]);
    assert_eq!(found(vec![send(ADAS, 2, 4)]), ["send s2 of d1 became g1 m4, which is no message of u1"]);
    assert_eq!(found(vec![send(ADAS, 2, 1)]), ["send s2 of d1 became g1 m1, which is no message of u1"]);
    assert_eq!(found(vec![send(ADAS, 2, 9)]), ["send s2 of d1 became g1 m9, which is no message of u1"]);
    let nobody = DeviceId::new(8);
    assert_eq!(
        found(vec![window(nobody, 1, 1), send(nobody, 1, 3)]),
        [
            "there is a window of sends of d8, which does not exist",
            "send s1 of d8, which does not exist, is remembered"
        ]
    );
    assert_eq!(found(vec![device(BOBS, BOB, Some(5))]), ["send s7 of d2, which is revoked, is remembered"]);
    let clean = vec![device(BOBS, BOB, Some(5)), gone(Tree::Sends, keys::send(BOBS, ClientSeq::new(7)))];
    assert_eq!(found(clean), [""; 0]);
}

#[test]
fn invites_are_of_a_kind_and_name_what_there_is() {
    let name = "the invite 0505050505050505…";
    let one = |record: &InviteRecord| found(vec![invite(5, record)]);
    assert_eq!(one(&invite_record()), [""; 0]);
    assert_eq!(one(&InviteRecord { opens: 9, ..invite_record() }), [format!("{name} is of no kind that there is")]);
    let for_device = InviteRecord { opens: opens::DEVICE, user: Some(UserId::new(9)), ..invite_record() };
    assert_eq!(one(&for_device), [format!("{name} names u9, who does not exist")]);
    let into = InviteRecord {
        opens: opens::USER,
        handle: Some("eve".to_owned()),
        group: Some(GroupId::new(4)),
        ..invite_record()
    };
    assert_eq!(one(&into), [format!("{name} leads into g4, which does not exist")]);
    let used = |device| InviteRecord { used: Some(DeviceId::new(device)), ..invite_record() };
    assert_eq!(one(&used(9)), [format!("{name} was used for d9, which does not exist")]);
    assert_eq!(one(&used(2)), [format!("{name} was used for d2, which came by another")]);
    let made_on = |device| {
        let extensions = Extensions::default().with_number(invite_extension::BY_DEVICE, device);
        InviteRecord { extensions, ..invite_record() }
    };
    assert_eq!(one(&made_on(2)), [""; 0]);
    assert_eq!(one(&made_on(9)), [format!("{name} was made on d9, which does not exist")]);
}

/// An item of g1 that names this one as its edit, or is one, or was recalled.
fn edited(msgid: u64, item: [u8; 3], ordinals: (u64, u64), flags: u8, last_edit: u64) -> Op {
    let record = item_record(NEXT, item, ordinals.0, ordinals.1);
    let record = MessageRecord { flags: record.flags | flags, last_edit: m(last_edit), ..record };
    put(Tree::Messages, keys::message(G, m(msgid)), record.encode())
}

#[test]
fn what_is_recalled_exists_and_was_wiped_and_nothing_else_was() {
    let wiped = || edited(3, [1, 0, 0], (1, 1), message_flag::RECALLED, 0);
    let recalled = |msgid, author| {
        let record = RecalledRecord { author, content: true, extensions: none() };
        put(Tree::Recalled, keys::message(G, m(msgid)), record.encode())
    };
    assert_eq!(found(vec![wiped(), recalled(3, ADA)]), [""; 0]);
    assert_eq!(found(vec![recalled(3, ADA)]), ["g1 m3 is recalled, but still says something"]);
    assert_eq!(found(vec![wiped()]), ["g1 m3 says nothing, but was not recalled"]);
    assert_eq!(found(vec![recalled(7, ADA)]), ["g1 m7 is recalled, but there is no such item"]);
    assert_eq!(
        found(vec![wiped(), recalled(3, UserId::new(9))]),
        ["g1 m3, which is recalled, is by u9, who does not exist"]
    );
}

#[test]
fn edits_come_after_what_they_edit_and_after_one_another() {
    let edit = |before| edited(7, [1, 1, 0], (3, 0), message_flag::EDIT, before);
    let target = |last| edited(3, [1, 0, 0], (1, 1), 0, last);
    assert_eq!(found(vec![edit(0), target(7)]), [""; 0]);
    assert_eq!(found(vec![edit(0), target(3)]), ["g1 m3 names itself as its edit"]);
    assert_eq!(found(vec![edit(0), target(2)]), ["g1 m3 names m2 as its edit, which it can't be"]);
    assert_eq!(found(vec![edit(8)]), ["g1 m7 names m8 as its edit, which it can't be"]);
}

#[test]
fn mentions_are_numbered_as_they_came() {
    let mention = |user, number, msgid| {
        let record = MentionRecord { msgid: m(msgid), extensions: none() };
        put(Tree::Mentions, keys::mention(G, user, number), record.encode())
    };
    assert_eq!(found(vec![mention(BOB, 1, 3), mention(BOB, 2, 5), mention(ADA, 1, 4)]), [""; 0]);
    assert_eq!(found(vec![mention(BOB, 2, 3)]), ["g1: mention 2 of u2 is the first"]);
    assert_eq!(found(vec![mention(BOB, 1, 3), mention(BOB, 3, 5)]), ["g1: mention 3 of u2 follows number 1"]);
    assert_eq!(found(vec![mention(BOB, 1, 5), mention(BOB, 2, 3)]), ["g1: mention 2 of u2 is m3, after m5"]);
    assert_eq!(found(vec![mention(BOB, 1, 9)]), ["g1: mention 1 of u2 leads to m9, which does not exist"]);
    let stranger = UserId::new(9);
    assert_eq!(found(vec![mention(stranger, 1, 3)]), ["g1: mention 1 of u9 is of u9, who does not exist"]);
}

/// Scenario 23, 25: what can't be of owners, of the muted and of the banned.
#[test]
fn owners_and_marks_fit_the_stays() {
    let (here, left) = (vec![stay(1, None, 0, 0)], vec![stay(2, Some(6), 0, 3)]);
    let as_member = member_with(ADA, role::MEMBER, here.clone(), &[]);
    assert_eq!(found(vec![as_member]), ["g1 has members, but no owner"]);
    let banned = member_with(ADA, role::OWNER, here.clone(), &[member_extension::BANNED]);
    assert_eq!(found(vec![banned]), ["g1 u1: banned, but in the group"]);
    let muted = member_with(ADA, role::OWNER, here, &[member_extension::MUTED]);
    assert_eq!(found(vec![muted]), ["g1 u1: muted, but no member who could be"]);
    let muted = member_with(BOB, role::MEMBER, left.clone(), &[member_extension::MUTED]);
    assert_eq!(found(vec![muted]), ["g1 u2: muted, but no member who could be"]);
    assert_eq!(found(vec![member_with(BOB, role::MEMBER, left, &[member_extension::BANNED])]), [""; 0]);
}

/// Scenario 24: with the first item of a direct chat both of its users begin, and nobody else is in it.
#[test]
fn a_direct_chat_is_of_its_two_users() {
    let begun = |chat: GroupId, users: &[UserId]| {
        let record = GroupRecord {
            name: String::new(),
            policy: policy::FROM_JOIN,
            first_kept: m(1),
            head_mark: m(1),
            content_mark: 0,
            created_ms: 1,
            extensions: none(),
        };
        let mut ops = vec![
            put(Tree::Messages, keys::message(chat, m(1)), item_record(NEXT, [1, 1, 1], 0, 0).encode()),
            put(Tree::Groups, keys::group(chat), record.encode()),
        ];
        for user in users {
            let intervals = vec![stay(1, None, 0, 0)];
            let record = MemberRecord { role: role::MEMBER, intervals, name_at_leave: None, extensions: none() };
            ops.push(put(Tree::Members, keys::member(chat, *user), record.encode()));
            ops.push(membership(*user, chat));
        }
        ops
    };
    assert_eq!(found(begun(GroupId::direct(ADA, BOB), &[ADA, BOB])), [""; 0]);
    let notebook = GroupId::direct(ADA, ADA);
    assert_eq!(
        found(begun(notebook, &[ADA, BOB])),
        [format!("{notebook} u2: a member of a direct chat that is not theirs")]
    );
}
