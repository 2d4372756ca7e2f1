//! The rows of a small server: ada, who made g1, bob, who joined and left it, and what they wrote there.

use super::*;
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};
use crate::store::records::{
    CursorRecord, DeviceRecord, Extensions, GroupRecord, HandleRecord, IntervalRecord, InviteRecord, KeyRecord,
    MemberRecord, MembershipRecord, MetaRecord, OwnRecord, SendRecord, SendWindowRecord, UserRecord, group_extension,
    message_flag, opens, policy, role, user_extension,
};

pub(super) const G: GroupId = GroupId::new(1);
pub(super) const ADA: UserId = UserId::new(1);
pub(super) const BOB: UserId = UserId::new(2);
pub(super) const ADAS: DeviceId = DeviceId::new(1);
pub(super) const BOBS: DeviceId = DeviceId::new(2);

pub(super) fn none() -> Extensions {
    Extensions::default()
}

pub(super) fn m(msgid: u64) -> MessageId {
    MessageId::new(msgid)
}

pub(super) fn put(tree: Tree, key: Bytes, value: Bytes) -> Op {
    Op { tree, key, value: Some(value) }
}

pub(super) fn gone(tree: Tree, key: Bytes) -> Op {
    Op { tree, key, value: None }
}

pub(super) fn item_record(lsn: u64, item: [u8; 3], content: u64, own: u64) -> MessageRecord {
    MessageRecord {
        flags: if item[1] == 0 { message_flag::CONTENT } else { 0 },
        lsn: Lsn::new(lsn),
        content,
        own,
        last_edit: MessageId::ZERO,
        extensions: none(),
        item: item.to_vec().into(),
    }
}

/// An item of g1: who, what it says of a stay, of whose; content items and own ones up to it.
pub(super) fn item(lsn: u64, msgid: u64, item: [u8; 3], content: u64, own: u64) -> Op {
    put(Tree::Messages, keys::message(G, m(msgid)), item_record(lsn, item, content, own).encode())
}

pub(super) fn own(user: UserId, ordinal: u64, msgid: u64) -> Op {
    put(Tree::Own, keys::own(G, user, ordinal), OwnRecord { msgid: m(msgid), extensions: none() }.encode())
}

pub(super) fn meta(name: &str, value: u64) -> Op {
    put(Tree::Meta, keys::name(name), MetaRecord { value, extensions: none() }.encode())
}

pub(super) fn handle(handle: &str, user: UserId) -> Op {
    put(Tree::Handles, keys::name(handle), HandleRecord { user, extensions: none() }.encode())
}

pub(super) fn user(user: UserId, handle: &str, operator: bool) -> Op {
    let record = UserRecord { handle: handle.to_owned(), operator, created_ms: 1, extensions: none() };
    put(Tree::Users, keys::user(user), record.encode())
}

/// bob, in a state: its number, and how long it stands.
pub(super) fn bob_in_state(state: &[u8]) -> Op {
    bob_with(user_extension::STATE, state)
}

/// bob, with an extension.
pub(super) fn bob_with(number: u16, bytes: &[u8]) -> Op {
    let extensions = Extensions(vec![(number, Bytes::copy_from_slice(bytes))]);
    let record = UserRecord { handle: "bob".to_owned(), operator: false, created_ms: 1, extensions };
    put(Tree::Users, keys::user(BOB), record.encode())
}

pub(super) fn device(device: DeviceId, user: UserId, revoked_ms: Option<u64>) -> Op {
    let byte = u8::try_from(device.value()).unwrap();
    let record = DeviceRecord {
        user,
        key: [byte; 32],
        name: "laptop".to_owned(),
        enrolled_ms: 1,
        revoked_ms,
        invite: [100 + byte; 32],
        extensions: none(),
    };
    put(Tree::Devices, keys::device(device), record.encode())
}

pub(super) fn key(key: u8, device: DeviceId) -> Op {
    put(Tree::Keys, keys::digest(&[key; 32]), KeyRecord { device, extensions: none() }.encode())
}

pub(super) fn invite_record() -> InviteRecord {
    InviteRecord {
        opens: opens::FIRST,
        handle: None,
        group: None,
        user: None,
        by: None,
        expires_ms: 9,
        used: None,
        extensions: none(),
    }
}

pub(super) fn invite(code: u8, record: &InviteRecord) -> Op {
    put(Tree::Invites, keys::digest(&[code; 32]), record.encode())
}

pub(super) fn group(first_kept: u64, head_mark: u64, content_mark: u64) -> Op {
    group_without(first_kept, head_mark, content_mark, 0)
}

/// The same of which so many content items are gone.
pub(super) fn group_without(first_kept: u64, head_mark: u64, content_mark: u64, content_gone: u64) -> Op {
    let record = GroupRecord {
        name: "team".to_owned(),
        policy: policy::FROM_JOIN,
        first_kept: m(first_kept),
        head_mark: m(head_mark),
        content_mark,
        created_ms: 1,
        extensions: none().with_number(group_extension::CONTENT_GONE, content_gone),
    };
    put(Tree::Groups, keys::group(G), record.encode())
}

pub(super) fn stay(joined: u64, left: Option<u64>, content_before: u64, content_until: u64) -> IntervalRecord {
    let left = left.map(m);
    IntervalRecord { joined: m(joined), left, policy: policy::FROM_JOIN, content_before, content_until }
}

/// Ada owns g1, whoever else is there is a member.
pub(super) fn member(user: UserId, intervals: Vec<IntervalRecord>) -> Op {
    let role = if user == ADA { role::OWNER } else { role::MEMBER };
    member_with(user, role, intervals, &[])
}

pub(super) fn member_with(user: UserId, role: u8, intervals: Vec<IntervalRecord>, marks: &[u16]) -> Op {
    let extensions = Extensions(marks.iter().map(|mark| (*mark, Bytes::new())).collect());
    let record = MemberRecord { role, intervals, name_at_leave: None, extensions };
    put(Tree::Members, keys::member(G, user), record.encode())
}

pub(super) fn membership(user: UserId, group: GroupId) -> Op {
    put(Tree::Memberships, keys::membership(user, group), MembershipRecord { extensions: none() }.encode())
}

pub(super) fn cursor(user: UserId, device: DeviceId, msgid: u64, content: u64, own: u64) -> Op {
    let record = CursorRecord { msgid: m(msgid), content, own, extensions: none() };
    put(Tree::Cursors, keys::cursor(G, user, device), record.encode())
}

pub(super) fn window(device: DeviceId, lowest: u64, highest: u64) -> Op {
    let (lowest, highest) = (ClientSeq::new(lowest), ClientSeq::new(highest));
    let record = SendWindowRecord { lowest, highest, extensions: none() };
    put(Tree::Sends, keys::send(device, ClientSeq::ZERO), record.encode())
}

pub(super) fn send(device: DeviceId, seq: u64, msgid: u64) -> Op {
    let record = SendRecord { group: G, msgid: m(msgid), time_ms: 1, hash: [3; 32], extensions: none() };
    put(Tree::Sends, keys::send(device, ClientSeq::new(seq)), record.encode())
}

/// Two people with a device each.
fn people() -> Vec<Op> {
    let used = |device| InviteRecord { used: Some(device), ..invite_record() };
    let for_bob = InviteRecord { opens: opens::USER, handle: Some("bob".to_owned()), by: Some(ADA), ..used(BOBS) };
    vec![
        meta("last-group", 1),
        meta("last-user", 2),
        meta("last-device", 2),
        meta("operator-existed", 1),
        user(ADA, "ada", true),
        handle("ada", ADA),
        user(BOB, "bob", false),
        handle("bob", BOB),
        device(ADAS, ADA, None),
        key(1, ADAS),
        device(BOBS, BOB, None),
        key(2, BOBS),
        invite(101, &used(ADAS)),
        invite(102, &for_bob),
    ]
}

/// g1 up to where bob joined.
fn group_made() -> Vec<Op> {
    vec![
        item(2, 1, [1, 1, 1], 0, 0),
        group(1, 1, 0),
        member(ADA, vec![stay(1, None, 0, 0)]),
        membership(ADA, G),
        item(2, 2, [1, 1, 2], 0, 0),
        member(BOB, vec![stay(2, None, 0, 0)]),
        membership(BOB, G),
        cursor(ADA, DeviceId::ZERO, 0, 0, 0),
        cursor(ADA, ADAS, 0, 0, 0),
        cursor(BOB, BOBS, 1, 0, 0),
    ]
}

/// What they wrote; then bob left.
fn written() -> Vec<Op> {
    vec![
        item(3, 3, [1, 0, 0], 1, 1),
        own(ADA, 1, 3),
        item(3, 4, [2, 0, 0], 2, 1),
        own(BOB, 1, 4),
        item(3, 5, [1, 0, 0], 3, 2),
        own(ADA, 2, 5),
        send(ADAS, 1, 3),
        send(ADAS, 2, 5),
        window(ADAS, 1, 2),
        send(BOBS, 7, 4),
        window(BOBS, 7, 7),
    ]
}

fn left() -> Vec<Op> {
    vec![
        item(4, 6, [2, 2, 2], 3, 0),
        member(BOB, vec![stay(2, Some(6), 0, 3)]),
        cursor(ADA, ADAS, 6, 3, 2),
        cursor(BOB, BOBS, 5, u64::MAX, u64::MAX),
        gone(Tree::Sends, keys::send(ADAS, ClientSeq::new(1))),
        window(ADAS, 2, 2),
    ]
}

/// The frames of the folder.
pub(super) fn frames() -> [Vec<Op>; 4] {
    [people(), group_made(), written(), left()]
}

/// The frame that comes after them and the seal.
pub(super) const NEXT: u64 = 6;
