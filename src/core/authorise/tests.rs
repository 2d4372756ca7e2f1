//! Scenario 25: verbs × roles × states, from a table written out by hand.

use super::*;

/// What everybody is told, one place a state: stranger, former, banned, member, admin, owner, muted member, muted admin, one
/// of the two of a direct chat.
/// `+` yes, `g` no such group, `f` not a member, `b` banned, `a` not allowed, `m` muted, `d` no such device, `D` not in a direct chat.
type Row = &'static str;

/// For each verb: a user, a user with the operator flag, the operator key.
const TABLE: &[(Verb, Row, Row, Row)] = &[
    //                          sfb mao mm d sfb mao mm d
    (Verb::Send, /*          */ "gfb+++mm+", "gfb+++mm+", "a"),
    (Verb::Edit, /*          */ "gfb+++mm+", "gfb+++mm+", "a"),
    (Verb::RecallOwn, /*     */ "gfb+++mm+", "gfb+++mm+", "a"),
    (Verb::RecallOthers, /*  */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::React, /*         */ "gfb+++mm+", "gfb+++mm+", "a"),
    (Verb::Pull, /*          */ "g++++++++", "g++++++++", "a"),
    (Verb::Ack, /*           */ "g++++++++", "g++++++++", "a"),
    (Verb::ReadMark, /*      */ "g++++++++", "g++++++++", "a"),
    (Verb::Skip, /*          */ "g++++++++", "g++++++++", "a"),
    (Verb::Receipts, /*      */ "g++++++++", "g++++++++", "a"),
    (Verb::CreateGroup, /*   */ "+++++++++", "+++++++++", "a"),
    (Verb::AddMember, /*     */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::RemoveMember, /*  */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::RemoveAdmin, /*   */ "gfbaa+mmD", "gfbaa+mmD", "a"),
    (Verb::RemoveOwner, /*   */ "gfbaa+mmD", "gfbaa+mmD", "a"),
    (Verb::LeaveGroup, /*    */ "gfb+++++D", "gfb+++++D", "a"),
    (Verb::OpenDirect, /*    */ "+++++++++", "+++++++++", "a"),
    (Verb::RenameGroup, /*   */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::SetTopic, /*      */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::SetPolicy, /*     */ "gfbaa+mmD", "gfbaa+mmD", "a"),
    (Verb::SetRole, /*       */ "gfbaa+mmD", "gfbaa+mmD", "a"),
    (Verb::StepDown, /*      */ "gfb+++++D", "gfb+++++D", "a"),
    (Verb::MuteMember, /*    */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::MuteAdmin, /*     */ "gfbaa+mmD", "gfbaa+mmD", "a"),
    (Verb::MuteOwner, /*     */ "gfbaaammD", "gfbaaammD", "a"),
    (Verb::LiftBan, /*       */ "gfba++mmD", "gfba++mmD", "a"),
    (Verb::ListMembers, /*   */ "gfb++++++", "gfb++++++", "a"),
    (Verb::SetRetention, /*  */ "gfbaa+mmD", "gfbaa+mmD", "a"),
    (Verb::ShowRetention, /* */ "gfb++++++", "gfb++++++", "a"),
    (Verb::Subscribe, /*     */ "+++++++++", "+++++++++", "a"),
    (Verb::ListGroups, /*    */ "+++++++++", "+++++++++", "a"),
    (Verb::ListConversations, /*  */ "+++++++++", "+++++++++", "a"),
    (Verb::ListUsers, /*     */ "+++++++++", "+++++++++", "+"),
    (Verb::Names, /*         */ "+++++++++", "+++++++++", "+"),
    (Verb::Status, /*        */ "+++++++++", "+++++++++", "+"),
    (Verb::SetSwitch, /*     */ "+++++++++", "+++++++++", "a"),
    (Verb::InviteUser, /*    */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::InviteOwnDevice, /*    */ "+++++++++", "+++++++++", "a"),
    (Verb::InviteOthersDevice, /* */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::ListOwnDevices, /*     */ "+++++++++", "+++++++++", "a"),
    (Verb::ListOthersDevices, /*  */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::RenameOwnDevice, /*    */ "+++++++++", "+++++++++", "a"),
    (Verb::RenameOthersDevice, /* */ "ddddddddd", "+++++++++", "+"),
    (Verb::RevokeOwnDevice, /*    */ "+++++++++", "+++++++++", "a"),
    (Verb::RevokeOthersDevice, /* */ "ddddddddd", "+++++++++", "+"),
    (Verb::DeactivateUser, /* */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::ReactivateUser, /* */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::DeleteUser, /*     */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::FreeHandle, /*     */ "aaaaaaaaa", "+++++++++", "+"),
    (Verb::NameUser, /*       */ "+++++++++", "+++++++++", "a"),
    (Verb::ListOnline, /*     */ "gfb++++++", "gfb++++++", "a"),
    (Verb::Typing, /*         */ "gfb+++mm+", "gfb+++mm+", "a"),
];

const fn present(role: Role, muted: bool) -> Standing {
    Standing::Present { role, muted }
}

const STANDINGS: [Standing; 9] = [
    Standing::Stranger,
    Standing::Former { banned: false },
    Standing::Former { banned: true },
    present(Role::Member, false),
    present(Role::Admin, false),
    present(Role::Owner, false),
    present(Role::Member, true),
    present(Role::Admin, true),
    Standing::Direct,
];

fn letter(answer: Result<(), Refusal>) -> char {
    match answer {
        Ok(()) => '+',
        Err(Refusal::NoSuchGroup) => 'g',
        Err(Refusal::NotMember) => 'f',
        Err(Refusal::Banned) => 'b',
        Err(Refusal::NotAllowed) => 'a',
        Err(Refusal::Muted) => 'm',
        Err(Refusal::NoSuchDevice) => 'd',
        Err(Refusal::DirectChat) => 'D',
        Err(other) => panic!("no verb is answered with {other:?}"),
    }
}

fn row(verb: Verb, operator: bool, rights: Rights) -> String {
    STANDINGS.map(|standing| letter(authorise(verb, Asker::User { operator, standing }, rights))).iter().collect()
}

/// Scenario 25: who is muted, banned, removed or a stranger meets the same answer from each verb, and no other.
#[test]
fn every_verb_answers_every_asker_as_the_table_says() {
    for (verb, users, operators, key) in TABLE.iter().copied() {
        let rights = Rights::default();
        assert_eq!(row(verb, false, rights), users, "{verb:?}, a user");
        assert_eq!(row(verb, true, rights), operators, "{verb:?}, an operator");
        assert_eq!(letter(authorise(verb, Asker::OperatorKey, rights)).to_string(), key, "{verb:?}, the operator key");
    }
}

#[test]
fn no_verb_is_missing_from_the_table_and_none_stands_there_twice() {
    let mut named: Vec<Verb> = TABLE.iter().map(|(verb, ..)| *verb).collect();
    named.sort_unstable();
    assert_eq!(named, Verb::ALL);
}

#[test]
fn a_setting_takes_from_all_but_operators_what_a_role_allows_and_gives_nobody_more() {
    let rights = Rights { create_groups: Who::Operators, add_members: Who::Operators };
    for (verb, users, operators, _) in TABLE.iter().copied() {
        let is_given = matches!(verb, Verb::CreateGroup | Verb::AddMember);
        let users = if is_given { users.replace('+', "a") } else { users.to_owned() };
        assert_eq!(row(verb, false, rights), users, "{verb:?}, a user");
        assert_eq!(row(verb, true, rights), operators, "{verb:?}, an operator");
    }
}
