//! Which verbs a frame asks for, said for every frame there is.

use std::collections::BTreeSet;

use crate::core::authorise::Verb;
use crate::wire::frame;

/// The requests, each with the verbs that it may turn out to be.
const REQUESTS: &[(&str, &[Verb])] = &[
    ("Send", &[Verb::Send, Verb::Edit, Verb::RecallOwn, Verb::RecallOthers, Verb::React]),
    ("CreateGroup", &[Verb::CreateGroup]),
    ("AddMember", &[Verb::AddMember]),
    ("RemoveMember", &[Verb::RemoveMember, Verb::RemoveAdmin, Verb::RemoveOwner, Verb::LeaveGroup]),
    ("LeaveGroup", &[Verb::LeaveGroup]),
    ("RenameGroup", &[Verb::RenameGroup]),
    ("SetRole", &[Verb::SetRole, Verb::StepDown]),
    ("SetMuted", &[Verb::MuteMember, Verb::MuteAdmin, Verb::MuteOwner]),
    ("SetBanned", &[Verb::RemoveMember, Verb::RemoveAdmin, Verb::RemoveOwner, Verb::LiftBan]),
    ("SetTopic", &[Verb::SetTopic]),
    ("SetPolicy", &[Verb::SetPolicy]),
    ("OpenDirect", &[Verb::OpenDirect]),
    ("SetSwitch", &[Verb::SetSwitch]),
    ("MakeInvite", &[Verb::InviteUser, Verb::AddMember]),
    ("AddDevice", &[Verb::InviteOwnDevice, Verb::InviteOthersDevice]),
    ("RenameDevice", &[Verb::RenameOwnDevice, Verb::RenameOthersDevice]),
    ("RevokeDevice", &[Verb::RevokeOwnDevice, Verb::RevokeOthersDevice]),
    ("SetName", &[Verb::NameUser]),
    ("ListOnline", &[Verb::ListOnline]),
    ("Typing", &[Verb::Typing]),
    ("DeactivateUser", &[Verb::DeactivateUser]),
    ("ReactivateUser", &[Verb::ReactivateUser]),
    ("DeleteUser", &[Verb::DeleteUser]),
    ("FreeHandle", &[Verb::FreeHandle]),
    ("Skip", &[Verb::Skip]),
    ("MarkRead", &[Verb::ReadMark]),
    ("MarkUnread", &[Verb::ReadMark]),
    ("Status", &[Verb::Status]),
    ("Ack", &[Verb::Ack]),
    ("Subscribe", &[Verb::Subscribe]),
    ("ReadMarks", &[Verb::ReadMark]),
    ("Pull", &[Verb::Pull]),
    ("ListGroups", &[Verb::ListGroups]),
    ("ListMembers", &[Verb::ListMembers]),
    ("SetRetention", &[Verb::SetRetention]),
    ("AskRetention", &[Verb::ShowRetention]),
    ("ListUsers", &[Verb::ListUsers]),
    ("ListDevices", &[Verb::ListOwnDevices, Verb::ListOthersDevices]),
    ("Conversations", &[Verb::ListConversations]),
    ("Receipts", &[Verb::Receipts]),
    ("Names", &[Verb::Names]),
];

/// How somebody becomes known: by a proof or by a code, not by a verb.
const INTRODUCTIONS: &[&str] = &["Hello", "Prove", "Enrol", "OperatorHello"];

/// What only the server says.
const ANSWERS: &[&str] = &[
    "Welcome",
    "Enrolled",
    "Error",
    "Sent",
    "GroupCreated",
    "Done",
    "InviteMade",
    "Deleting",
    "OnlineList",
    "TypingNote",
    "PresenceNote",
    "Cursors",
    "AcksRefused",
    "StatusInfo",
    "ReadMark",
    "RetentionInfo",
    "PageRows",
    "PageEnd",
    "GroupList",
    "MemberList",
    "UserList",
    "DeviceList",
    "ConversationList",
    "ReceiptList",
    "Push",
    "Heads",
    "MembershipNotice",
    "DeviceNotice",
    "ReadMarkNotice",
    "ReceiptNotice",
];

/// Scenario 25: the verbs of the one function are those of the protocol, no more and no fewer.
#[test]
fn every_request_of_the_protocol_is_a_verb_and_every_verb_is_asked_by_one() {
    let requests = REQUESTS.iter().map(|(name, _)| *name);
    let mut said: Vec<&str> = requests.chain(INTRODUCTIONS.iter().copied()).chain(ANSWERS.iter().copied()).collect();
    said.sort_unstable();
    let mut all: Vec<&str> = frame::all().into_iter().map(|(_, name)| name).collect();
    all.sort_unstable();
    assert_eq!(said, all, "each frame stands in one of the three lists");
    let asked: BTreeSet<Verb> = REQUESTS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
    assert_eq!(asked, Verb::ALL.iter().copied().collect());
}
