//! The bytes of every frame, item kind and body, as they were when they were first spoken. They never change: whoever
//! wrote a client or a store by them must still be understood.
//!
//! The hexadecimal digits come from an encoder that was written apart from this one, by the rules of `PROTOCOL.md`.

use bytes::{Bytes, BytesMut};

use crate::ids::{ClientSeq, DeviceId, Epoch, GroupId, MessageId, Tag, UserId};
use crate::wire::codec::{self, FrameReader, RawFrame};
use crate::wire::frame::{self, *};
use crate::wire::item::{
    self, BanLifted, Created, Item, Joined, Left, Muted, PolicyChanged, Renamed, RoleChanged, SystemBody, Topic, kind,
};
use crate::wire::row::{self, Row};
use crate::wire::said::{self, extension};

const NONE: Extensions = Extensions(Vec::new());
const EPOCH: Epoch = Epoch::new([0xe0; 16]);
const G7: GroupId = GroupId::new(7);
const G300: GroupId = GroupId::new(300);
const M42: MessageId = MessageId::new(42);
const M300: MessageId = MessageId::new(300);

fn later() -> Extensions {
    Extensions(vec![(1, Bytes::from_static(b"later")), (300, Bytes::new())])
}

fn bytes(byte: u8, count: usize) -> Bytes {
    vec![byte; count].into()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

macro_rules! golden {
    ($($request:literal $name:ident { $($field:ident: $value:expr),* $(,)? } $hex:literal)*) => {
        /// Every frame with its golden bytes.
        fn check() -> Vec<(u16, Bytes)> {
            vec![$({
                let frame = $name { $($field: $value,)* };
                let golden = unhex($hex);
                assert_eq!(hex(&codec::encode($request, &frame).unwrap()), hex(&golden), "{}", $name::NAME);
                let raw = raw(&golden);
                assert_eq!(raw.request, $request);
                assert_eq!(raw.decode::<$name>().unwrap(), frame, "{}", $name::NAME);
                ($name::TYPE, golden)
            },)*]
        }
    };
}

/// The one frame in these bytes.
pub(super) fn raw(bytes: &[u8]) -> RawFrame {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    let raw = reader.next_frame().unwrap().unwrap();
    reader.finish().unwrap();
    raw
}

/// The golden bytes of every frame.
pub(super) fn frames() -> Vec<Bytes> {
    check().into_iter().map(|(_, bytes)| bytes).collect()
}

golden! {
    1 Hello { device: DeviceId::new(9), listens: true, instance: 0x1234, attempt: 2, minor: 0, epoch: Some(EPOCH), extensions: later() } "00000029000100000000010901b424020001e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e00201056c61746572ac0200"
    0 Prove { signature: bytes(0x51, 64), extensions: NONE } "0000004900020000000000405151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515100"
    1 Enrol { code: bytes(0xc0, 16), key: bytes(0x4b, 32), handle: Some("bob".into()), device_name: "phone".into(), minor: 0, signature: bytes(0x51, 64), extensions: NONE } "000000870003000000000110c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0204b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b0103626f620570686f6e6500405151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515151515100"
    1 OperatorHello { minor: 0, extensions: NONE } "00000009000400000000010000"
    1 Welcome { minor: 0, user: UserId::new(3), handle: "bob".into(), operator: false, epoch: EPOCH, epochs_before: vec![Epoch::new([0xe1; 16])], body_bytes_max: 65_536, sends_unanswered_max: 16, sends_unanswered_bytes_max: 32_768, credit_items: 16, credit_bytes: 32_768, highest_send: ClientSeq::new(5), pins: vec![bytes(0xa1, 32)], time_ms: 1_700_000_000_000, extensions: NONE } "0000006400050000000001000303626f6200e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e001e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e18080041080800210808002050120a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a180d095ffbc3100"
    1 Enrolled { device: DeviceId::new(9), user: UserId::new(3), handle: "bob".into(), epoch: EPOCH, extensions: NONE } "0000001e00060000000001090303626f62e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e000"
    2 Error { code: 39, class: 2, retry_after_ms: 1_000, detail: "disk full".into(), extensions: NONE } "00000016000700000000022702e807096469736b2066756c6c00"
    3 Send { seq: ClientSeq::new(6), lowest: ClientSeq::new(5), gid: G7, payload: payload().encode().unwrap(), extensions: NONE } "0000001a001000000000030605070e017a7a7a7a7a7a7a7a0368c3a90000"
    3 Sent { msgid: M42, time_ms: 1_700_000_000_000, extensions: NONE } "0000000f001100000000032a80d095ffbc3100"
    4 CreateGroup { name: "team".into(), policy: 1, extensions: NONE } "0000000e00200000000004047465616d0100"
    4 GroupCreated { gid: G7, extensions: NONE } "00000009002100000000040700"
    5 AddMember { gid: G7, handle: "bob".into(), extensions: NONE } "0000000d002200000000050703626f6200"
    6 RemoveMember { gid: G7, handle: "bob".into(), extensions: NONE } "0000000d002300000000060703626f6200"
    7 LeaveGroup { gid: G300, extensions: NONE } "0000000a00240000000007ac0200"
    8 RenameGroup { gid: G7, name: "crew".into(), extensions: NONE } "0000000e0025000000000807046372657700"
    8 Done { msgid: M42, extensions: NONE } "00000009002600000000082a00"
    9 MakeInvite { handle: "bob".into(), gid: Some(G7), expires_s: 86_400, extensions: NONE } "000000110027000000000903626f62010780a30500"
    10 AddDevice { handle: None, expires_s: 86_400, extensions: NONE } "0000000c0028000000000a0080a30500"
    10 InviteMade { code: bytes(0xc0, 16), address: "h:4433".into(), pin: bytes(0xa1, 32), expires_ms: 1_700_000_000_000, extensions: NONE } "000000470029000000000a10c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c006683a3434333320a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a180d095ffbc3100"
    11 RenameDevice { device: DeviceId::new(9), name: "tablet".into(), extensions: NONE } "00000010002a000000000b09067461626c657400"
    12 RevokeDevice { device: DeviceId::new(9), extensions: NONE } "00000009002b000000000c0900"
    13 Skip { gid: G7, to: M300, extensions: NONE } "0000000b002c000000000d07ac0200"
    13 Cursors { entries: vec![(G7, M300)], extensions: NONE } "0000000c002d000000000d0107ac0200"
    0 AcksRefused { entries: vec![(G300, 64)], extensions: NONE } "0000000c002e000000000001ac024000"
    14 Status { extensions: NONE } "00000008002f000000000e00"
    14 StatusInfo { version: "0.1.0".into(), uptime_ms: 1_000, users: 2, groups: 1, devices: 3, connections: 2, items: 300, durable_lsn: 77, log_bytes: 16_777_216, extensions: NONE } "0000001b0030000000000e05302e312e30e80702010302ac024d8080800800"
    15 SetRole { gid: G7, handle: "bob".into(), role: 2, extensions: NONE } "0000000e0031000000000f0703626f620200"
    16 SetMuted { gid: G7, handle: "bob".into(), muted: true, extensions: NONE } "0000000e003200000000100703626f620100"
    17 SetBanned { gid: G7, handle: "bob".into(), banned: true, extensions: NONE } "0000000e003300000000110703626f620100"
    18 SetTopic { gid: G7, topic: "food".into(), extensions: NONE } "0000000e003400000000120704666f6f6400"
    19 SetPolicy { gid: G7, policy: 1, extensions: NONE } "0000000a00350000000013070100"
    20 OpenDirect { handle: "bob".into(), extensions: NONE } "0000000c0036000000001403626f6200"
    20 SetSwitch { switch: 1, on: true, extensions: NONE } "0000000a00370000000014010100"
    15 MarkRead { gid: G7, msgid: M42, version: 1, extensions: NONE } "0000000b0038000000000f072a0100"
    15 ReadMark { gid: G7, msgid: M300, version: 2, extensions: NONE } "0000000c0039000000000f07ac020200"
    16 MarkUnread { gid: G7, msgid: M42, version: 300, extensions: NONE } "0000000c003a0000000010072aac0200"
    15 SetName { name: "Bo é".into(), extensions: NONE } "0000000e003c000000000f05426f20c3a900"
    15 DeactivateUser { handle: "bob".into(), extensions: NONE } "0000000c003e000000000f03626f6200"
    15 ReactivateUser { handle: "bob".into(), extensions: NONE } "0000000c003f000000000f03626f6200"
    0 Ack { entries: vec![(G7, M42), (G300, M300)], extensions: NONE } "0000000f0040000000000002072aac02ac0200"
    0 Subscribe { all: false, groups: vec![G7, G300], extensions: NONE } "0000000d00410000000000000207ac0200"
    0 ReadMarks { entries: vec![(G7, M42)], extensions: NONE } "0000000b0042000000000001072a00"
    1 Pull { gid: G7, after: M42, items: 100, deliver: true, extensions: NONE } "0000000c00500000000001072a640100"
    1 PageRows { rows: rows(), extensions: NONE } "0000002e00510000000001250000002100000000000000012c072a01010380d095ffbc317a7a7a7a7a7a7a7a0368c3a90000"
    1 PageEnd { covered_to: M42, more: true, gone: vec![(MessageId::new(1), MessageId::new(9))], head: M300, extensions: NONE } "0000000f005200000000012a01010109ac0200"
    1 ListGroups { after: GroupId::ZERO, extensions: NONE } "00000009005300000000010000"
    1 GroupList { rows: Rows(vec![GroupInfo { gid: G7, name: "team".into(), role: 1, members: 2, head: M300, cursor: M42, extensions: later() }]), more: false, extensions: NONE } "0000002100540000000001011607047465616d0102ac022a0201056c61746572ac02000000"
    1 ListMembers { gid: G7, after: UserId::ZERO, extensions: NONE } "0000000a00550000000001070000"
    1 MemberList { rows: Rows(vec![MemberInfo { user: UserId::new(3), handle: "bob".into(), role: 3, joined: M42, extensions: NONE }]), more: false, extensions: NONE } "000000130056000000000101080303626f62032a000000"
    1 ListUsers { after: UserId::new(2), extensions: NONE } "00000009005700000000010200"
    1 UserList { rows: Rows(vec![UserInfo { user: UserId::new(3), handle: "bob".into(), operator: false, extensions: NONE }]), more: true, extensions: NONE } "000000120058000000000101070303626f6200000100"
    1 ListDevices { handle: Some("bob".into()), after: DeviceId::ZERO, extensions: NONE } "0000000e005900000000010103626f620000"
    1 DeviceList { rows: Rows(vec![DeviceInfo { device: DeviceId::new(9), name: "phone".into(), enrolled_ms: 1_700_000_000_000, revoked: false, online: true, extensions: NONE }]), more: false, extensions: NONE } "0000001b005a00000000010110090570686f6e6580d095ffbc310001000000"
    1 Names { users: vec![UserId::new(3), UserId::new(300)], extensions: NONE } "0000000c005b00000000010203ac0200"
    1 Conversations { since: 300, behind: Some((299, G7)), rows: 100, preview_bytes: 160, extensions: NONE } "00000011005c0000000001ac0201ab020764a00100"
    1 ConversationList { rows: Rows(vec![conversation(), left_conversation()]), more: true, version: 300, extensions: NONE } "00000049005d0000000001022d07ab02047465616d0302ac022a2a01820201012a010380d095ffbc310368c3a901000201056c61746572ac02000eac02050000002a0000000000000001ac0200"
    1 Receipts { gid: G7, msgid: M42, after: UserId::ZERO, extensions: NONE } "0000000b005e0000000001072a0000"
    1 ReceiptList { members: 2, received: 1, read: 0, silent: 1, rows: Rows(vec![ReceiptInfo { user: UserId::new(3), received: true, read: false, extensions: NONE }]), more: false, extensions: NONE } "00000013005f0000000001020100010104030100000000"
    0 Push { credit_items: 16, credit_bytes: 32_768, batches: vec![PushBatch { gid: G7, continues: MessageId::new(41), covered_to: M42, rows: rows(), extensions: NONE }], extensions: NONE } "0000003700700000000000108080020107292a250000002100000000000000012c072a01010380d095ffbc317a7a7a7a7a7a7a7a0368c3a9000000"
    0 Heads { entries: vec![(G7, M300)], extensions: NONE } "0000000c007100000000000107ac0200"
    0 MembershipNotice { gid: G7, member: true, msgid: M42, extensions: NONE } "0000000b0072000000000007012a00"
    0 DeviceNotice { device: DeviceId::new(9), name: "phone".into(), added: true, extensions: NONE } "0000001000730000000000090570686f6e650100"
    0 ReadMarkNotice { entries: vec![(G7, M42)], extensions: NONE } "0000000b0074000000000001072a00"
    0 ReceiptNotice { gid: G7, users: vec![(UserId::new(3), M300, M42)], more: true, extensions: NONE } "0000000f00750000000000070103ac022a0100"
    15 DeleteUser { handle: "bob".into(), extensions: NONE } "0000000c0080000000000f03626f6200"
    15 Deleting { left: 300, extensions: NONE } "0000000a0081000000000fac0200"
    15 FreeHandle { handle: "bob".into(), extensions: NONE } "0000000c0082000000000f03626f6200"
    1 ListOnline { gid: G7, after: UserId::ZERO, extensions: NONE } "0000000a00880000000001070000"
    1 OnlineList { users: vec![UserId::new(3), UserId::new(300)], more: false, extensions: NONE } "0000000d008900000000010203ac020000"
    5 SetRetention { gid: G7, own: true, age_s: Some(86_400), count: None, bytes: Some(1_000), acked_s: Some(0), extensions: NONE } "00000014008c000000000507010180a3050001e807010000"
    5 AskRetention { gid: G7, extensions: NONE } "00000009008d00000000050700"
    5 RetentionInfo { gid: G7, own: false, age_s: None, count: Some(500), bytes: None, acked_s: None, first_kept: MessageId::new(11), head: M42, clock_ms: 1_700_000_000_000, unseen_s: 2_592_000, holder_user: Some(UserId::new(3)), holder_device: Some(DeviceId::new(9)), holder_acked: MessageId::new(10), holder_seen_day: 19_675, extensions: NONE } "00000024008e000000000507000001f40300000b2a80d095ffbc31809a9e01010301090adb990100"
    0 Typing { gid: G300, extensions: NONE } "0000000a00a00000000000ac0200"
    0 TypingNote { gid: G7, user: UserId::new(3), extensions: NONE } "0000000a00a10000000000070300"
    0 PresenceNote { user: UserId::new(3), online: true, extensions: NONE } "0000000a00a20000000000030100"
}

/// A conversation with everything in it.
fn conversation() -> Conversation {
    let text = "hé".to_owned();
    let last = Preview {
        msgid: M42,
        kind: kind::TEXT,
        author: UserId::new(3),
        time_ms: 1_700_000_000_000,
        text,
        whole: true,
        extensions: NONE,
    };
    Conversation {
        gid: G7,
        changed: 299,
        name: "team".into(),
        role: 3,
        members: 2,
        head: M300,
        cursor: M42,
        read: M42,
        version: 1,
        unread: 258,
        mentions: 1,
        last: Some(last),
        extensions: later(),
    }
}

/// A conversation with nothing in it.
fn left_conversation() -> Conversation {
    Conversation {
        gid: G300,
        changed: 5,
        name: String::new(),
        role: 0,
        members: 0,
        head: M42,
        cursor: MessageId::ZERO,
        read: MessageId::ZERO,
        version: 0,
        unread: 0,
        mentions: 0,
        last: None,
        extensions: NONE,
    }
}

/// What is sent in the golden Send.
pub(super) fn payload() -> Payload {
    Payload { kind: kind::TEXT, tag: Tag::new([0x7a; 8]), body: Bytes::from_static("hé".as_bytes()), extensions: NONE }
}

fn item(kind: u16, flags: u8, body: Bytes) -> Item {
    let author = UserId::new(3);
    let tag = if flags == item::flag::CONTENT { Tag::new([0x7a; 8]) } else { Tag::NONE };
    Item { gid: G7, msgid: M42, kind, flags, author, time_ms: 1_700_000_000_000, tag, body, extensions: NONE }
}

fn sent(kind: u16, flags: u8, body: &'static str, extensions: &[(u16, Bytes)]) -> Item {
    let extensions = Extensions(extensions.to_vec());
    Item { tag: Tag::new([0x7a; 8]), extensions, ..item(kind, flags, Bytes::from_static(body.as_bytes())) }
}

/// What members send beside texts, and what is left of a text and an edit that were recalled.
fn items_about_others() -> Vec<(Item, &'static str)> {
    let target = said::msgid_extension(extension::TARGET, MessageId::new(5));
    let reply = said::msgid_extension(extension::REPLY_TO, MessageId::new(3));
    let mentions = said::mentions_extension(&[UserId::new(300), UserId::new(2)]);
    let edit = sent(kind::EDIT, 0, "hé", &[reply, mentions, target.clone()]);
    vec![
        (
            edit.clone(),
            "072a02000380d095ffbc317a7a7a7a7a7a7a7a0368c3a903\
             01080000000000000003 0208000000020000012c 03080000000000000005",
        ),
        (edit.wiped(), "072a02020380d095ffbc317a7a7a7a7a7a7a7a0001 03080000000000000005"),
        (
            sent(kind::RECALL, 0, "", std::slice::from_ref(&target)),
            "072a03000380d095ffbc317a7a7a7a7a7a7a7a0001 03080000000000000005",
        ),
        (
            sent(kind::REACTION, 0, "👍", &[target, (extension::REMOVES, Bytes::new())]),
            "072a04000380d095ffbc317a7a7a7a7a7a7a7a04f09f918d02 03080000000000000005 0400",
        ),
        (item(kind::TEXT, item::flag::CONTENT, payload().body).wiped(), "072a01030380d095ffbc317a7a7a7a7a7a7a7a0000"),
    ]
}

fn rows() -> Bytes {
    let mut rows = BytesMut::new();
    let text = item(kind::TEXT, item::flag::CONTENT, payload().body);
    Row { flags: 0, edited_by: M300, item: text.encode().unwrap() }.append_to(&mut rows).unwrap();
    rows.freeze()
}

/// Every item kind with its golden bytes.
pub(super) fn items() -> Vec<(Item, Bytes)> {
    let user = UserId::new(300);
    let body = |body: Result<Bytes, crate::wire::WireError>| body.unwrap();
    let created = Created { name: "team".into(), policy: 1, extensions: NONE };
    vec![
        (item(kind::TEXT, item::flag::CONTENT, payload().body), "072a01010380d095ffbc317a7a7a7a7a7a7a7a0368c3a900"),
        (item(kind::CREATED, 0, body(created.encode())), "072a10000380d095ffbc31000000000000000007047465616d010000"),
        (
            item(kind::JOINED, 0, body(Joined { user, extensions: NONE }.encode())),
            "072a11000380d095ffbc31000000000000000003ac020000",
        ),
        (
            item(kind::LEFT, 0, body(Left { user, extensions: NONE }.encode())),
            "072a12000380d095ffbc31000000000000000003ac020000",
        ),
        (
            item(kind::REMOVED, 0, body(Left { user, extensions: later() }.encode())),
            "072a13000380d095ffbc3100000000000000000dac020201056c61746572ac020000",
        ),
        (
            item(kind::RENAMED, 0, body(Renamed { name: "crew".into(), extensions: NONE }.encode())),
            "072a14000380d095ffbc3100000000000000000604637265770000",
        ),
        (
            item(kind::ROLE_CHANGED, 0, body(RoleChanged { user, role: 2, extensions: NONE }.encode())),
            "072a15000380d095ffbc31000000000000000004ac02020000",
        ),
        (
            item(kind::TOPIC, 0, body(Topic { topic: "food".into(), extensions: NONE }.encode())),
            "072a16000380d095ffbc31000000000000000006 04666f6f64 00 00",
        ),
        (
            item(kind::POLICY_CHANGED, 0, body(PolicyChanged { policy: 1, extensions: NONE }.encode())),
            "072a17000380d095ffbc31000000000000000002 0100 00",
        ),
        (
            item(kind::MUTED, 0, body(Muted { user, muted: true, extensions: NONE }.encode())),
            "072a18000380d095ffbc31000000000000000004 ac020100 00",
        ),
        (
            item(kind::BAN_LIFTED, 0, body(BanLifted { user, extensions: NONE }.encode())),
            "072a19000380d095ffbc31000000000000000003 ac0200 00",
        ),
        (Item::hidden(G7, M42), "072a1f00000000000000000000000000"),
        (item(999, 0x80, Bytes::from_static(b"?")), "072ae707800380d095ffbc310000000000000000013f00"),
    ]
    .into_iter()
    .chain(items_about_others())
    .map(|(item, golden)| (item, unhex(golden)))
    .collect()
}

#[test]
fn versions_of_read_marks_have_their_golden_bytes() {
    let notice = ReadMarkNotice::of(&[(G7, M42, 300)]).unwrap();
    assert_eq!(hex(&codec::encode(0, &notice).unwrap()), "000000100074000000000001072a01010301ac02");
}

#[test]
fn every_frame_has_its_golden_bytes() {
    let checked: Vec<u16> = check().into_iter().map(|(kind, _)| kind).collect();
    let all: Vec<u16> = frame::all().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(checked, all, "a frame without golden bytes, or in another order");
}

#[test]
fn every_item_kind_and_the_hidden_placeholder_have_their_golden_bytes() {
    for (item, golden) in items() {
        assert_eq!(hex(&item.encode().unwrap()), hex(&golden), "{item:?}");
        assert_eq!(Item::decode(&golden).unwrap(), item);
    }
}

#[test]
fn bodies_of_system_items_read_back() {
    let of = |wanted: u16| items().into_iter().map(|(item, _)| item).find(|item| item.kind == wanted).unwrap().body;
    assert_eq!(Created::decode(&of(kind::CREATED)).unwrap().name, "team");
    assert_eq!(Joined::decode(&of(kind::JOINED)).unwrap().user, UserId::new(300));
    assert_eq!(Left::decode(&of(kind::LEFT)).unwrap().user, UserId::new(300));
    assert_eq!(Left::decode(&of(kind::REMOVED)).unwrap().extensions, later());
    assert_eq!(Renamed::decode(&of(kind::RENAMED)).unwrap().name, "crew");
    assert_eq!(RoleChanged::decode(&of(kind::ROLE_CHANGED)).unwrap().role, 2);
    assert_eq!(Topic::decode(&of(kind::TOPIC)).unwrap().topic, "food");
    assert_eq!(PolicyChanged::decode(&of(kind::POLICY_CHANGED)).unwrap().policy, 1);
    assert!(Muted::decode(&of(kind::MUTED)).unwrap().muted);
    assert_eq!(BanLifted::decode(&of(kind::BAN_LIFTED)).unwrap().user, UserId::new(300));
}

#[test]
fn payload_and_row_have_their_golden_bytes() {
    assert_eq!(hex(&payload().encode().unwrap()), "017a7a7a7a7a7a7a7a0368c3a900");
    let row = row::rows(rows()).next().unwrap().unwrap();
    assert_eq!(row.edited_by, M300);
    assert_eq!(row.decode_item().unwrap().body, "hé");
    assert_eq!(hex(&rows()), "0000002100000000000000012c072a01010380d095ffbc317a7a7a7a7a7a7a7a0368c3a900");
}

#[test]
fn an_item_of_an_unknown_kind_is_read_like_any_other() {
    let (unknown, golden) = items().into_iter().find(|(item, _)| item.kind == 999).unwrap();
    assert_eq!(Item::decode(&golden).unwrap(), unknown);
    assert!(!unknown.is_content());
}

#[test]
fn numbers_of_frames_and_codes_are_used_once() {
    let mut kinds: Vec<_> = frame::all().into_iter().map(|(kind, _)| kind).collect();
    kinds.dedup();
    assert!(kinds.is_sorted() && kinds.len() == frame::all().len());
    let mut codes: Vec<_> = crate::wire::code::Code::ALL.iter().map(|code| code.number()).collect();
    codes.dedup();
    assert!(codes.is_sorted() && codes.len() == crate::wire::code::Code::ALL.len());
}
