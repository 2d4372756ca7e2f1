//! `tests/data/folder-v1`: a small data folder that the first version made, and that every later one must open.
//!
//! It is never made again in place. `GAGGLE_MAKE_FOLDER=DIR cargo test --lib makes_a_folder_to_keep` makes one like it
//! in DIR, for a new format version.

use super::*;
use crate::ids::{ClientSeq, DeviceId, Epoch, GroupId, MessageId, UserId};
use crate::store::format::FORMAT_NAME;
use crate::store::index::{Settings, SledIndex};
use crate::store::records::{
    CursorRecord, DeviceRecord, Extensions, GroupRecord, HandleRecord, IntervalRecord, InviteRecord, KeyRecord,
    MemberRecord, MembershipRecord, MessageRecord, MetaRecord, OwnRecord, RecalledRecord, SendRecord, SendWindowRecord,
    UserRecord, message_flag, opens, policy, role,
};
use crate::store::{keys, page};

const GROUP: GroupId = GroupId::new(7);
const USER: UserId = UserId::new(3);
const DEVICE: DeviceId = DeviceId::new(9);
/// The clock of everything in the folder, ms since 1970.
const THEN: u64 = 1_700_000_000_000;

fn none() -> Extensions {
    Extensions::default()
}

fn row(tree: Tree, key: Bytes, value: Bytes) -> Op {
    Op { tree, key, value: Some(value) }
}

/// Message `msgid` of group 7 by user 3, a text, as it travels.
fn message(msgid: u8) -> Op {
    let head = [7, msgid, 1, 1, 3, 0x80, 0xd0, 0x95, 0xff, 0xbc, 0x31];
    let text = format!("message {msgid}");
    let item = [&head[..], &[0x7a; 8], &[9], text.as_bytes(), &[0]].concat();
    let record = MessageRecord {
        flags: message_flag::CONTENT,
        lsn: Lsn::new(2),
        content: msgid.into(),
        own: msgid.into(),
        last_edit: MessageId::ZERO,
        extensions: none(),
        item: item.into(),
    };
    row(Tree::Messages, keys::message(GROUP, MessageId::new(msgid.into())), record.encode())
}

/// A group, its member, and what belongs to them: a row in every tree.
fn people() -> Vec<Op> {
    let first = MessageId::new(1);
    let interval =
        IntervalRecord { joined: first, left: None, policy: policy::FROM_JOIN, content_before: 0, content_until: 0 };
    let group = GroupRecord {
        name: "team".to_owned(),
        policy: policy::FROM_JOIN,
        first_kept: first,
        head_mark: MessageId::new(3),
        content_mark: 3,
        created_ms: THEN,
        extensions: none(),
    };
    let user = UserRecord { handle: "ada".to_owned(), operator: true, created_ms: THEN, extensions: none() };
    let device = DeviceRecord {
        user: USER,
        key: [11; 32],
        name: "laptop".to_owned(),
        enrolled_ms: THEN,
        revoked_ms: None,
        invite: [12; 32],
        extensions: none(),
    };
    let invite = InviteRecord {
        opens: opens::FIRST,
        handle: None,
        group: None,
        user: None,
        by: None,
        expires_ms: THEN,
        used: Some(DEVICE),
        extensions: none(),
    };
    let member = MemberRecord { role: role::OWNER, intervals: vec![interval], name_at_leave: None, extensions: none() };
    let cursor = CursorRecord { msgid: MessageId::new(2), content: 2, own: 2, extensions: none() };
    vec![
        row(Tree::Groups, keys::group(GROUP), group.encode()),
        row(Tree::Users, keys::user(USER), user.encode()),
        row(Tree::Handles, keys::name("ada"), HandleRecord { user: USER, extensions: none() }.encode()),
        row(Tree::Devices, keys::device(DEVICE), device.encode()),
        row(Tree::Keys, keys::digest(&[11; 32]), KeyRecord { device: DEVICE, extensions: none() }.encode()),
        row(Tree::Invites, keys::digest(&[12; 32]), invite.encode()),
        row(Tree::Members, keys::member(GROUP, USER), member.encode()),
        row(Tree::Memberships, keys::membership(USER, GROUP), MembershipRecord { extensions: none() }.encode()),
        row(Tree::Cursors, keys::cursor(GROUP, USER, DEVICE), cursor.encode()),
        row(Tree::Meta, keys::name("last-group"), MetaRecord { value: 7, extensions: none() }.encode()),
    ]
}

fn sends() -> Vec<Op> {
    let msgid = MessageId::new(1);
    let send = SendRecord { group: GROUP, msgid, time_ms: THEN, hash: [13; 32], extensions: none() };
    let window = SendWindowRecord { lowest: ClientSeq::new(1), highest: ClientSeq::new(1), extensions: none() };
    let recalled = RecalledRecord { author: USER, content: true, extensions: none() };
    vec![
        message(1),
        message(2),
        message(3),
        message(4),
        row(Tree::Own, keys::own(GROUP, USER, 1), OwnRecord { msgid, extensions: none() }.encode()),
        row(Tree::Sends, keys::send(DEVICE, ClientSeq::new(1)), send.encode()),
        row(Tree::Sends, keys::send(DEVICE, ClientSeq::ZERO), window.encode()),
        row(Tree::Recalled, keys::message(GROUP, MessageId::new(4)), recalled.encode()),
    ]
}

/// The frames of the folder; the seal follows.
fn frames() -> [Vec<Op>; 3] {
    [people(), sends(), vec![Op { value: None, ..message(4) }]]
}

#[test]
fn makes_a_folder_to_keep() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("GAGGLE_MAKE_FOLDER").map_or_else(|| temporary.path().join("kept"), PathBuf::from);
    // So small that there are several segments.
    let options = Options { segment_bytes: 512, ..Options::default() };
    let mut store = open(Arc::new(RealDisk), &folder, options).unwrap();
    for frame in frames() {
        store.log.append(&frame).unwrap();
        store.log.sync().unwrap();
    }
    store.log.seal().unwrap();
    drop(store);
    check(&folder);
}

/// Opens a folder and compares every row with what was put into it.
fn check(folder: &Path) -> (StoreId, Epoch) {
    let store = open(Arc::new(RealDisk), folder, Options::default()).unwrap();
    check_opened(&store);
    (store.store, store.epoch)
}

fn check_opened(store: &Opened) {
    let mut expected = BTreeMap::new();
    frames().iter().for_each(|frame| apply(&mut expected, frame));
    assert!(contents(&*store.engine) == expected);
    // Trees that came later have no rows in it.
    let first = Tree::ALL.into_iter().filter(|tree| *tree != Tree::Mentions);
    assert!(first.into_iter().all(|tree| expected.keys().any(|(found, _)| *found == tree)));
    assert_eq!((store.durable, store.created, store.recovery.sealed), (Lsn::new(4), false, true));
    let request = page::PageRequest {
        group: GROUP,
        after: MessageId::ZERO,
        up_to: MessageId::new(9),
        at: store.durable,
        rows_max: 9,
        bytes_max: 9999,
    };
    let page = page::read(&*store.engine, &crate::store::overlay::Overlay::new(), request).unwrap();
    assert_eq!(page.rows.len(), 3);
    assert!(page.rows[2].record.item.windows(9).any(|part| part == b"message 3"));
}

/// A copy of the folder that was kept.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/folder-v1");
    let above = tempfile::tempdir().unwrap();
    let copy = above.path().join("data");
    std::fs::create_dir_all(copy.join("log")).unwrap();
    for name in [FORMAT_NAME, "log/00000001.log", "log/00000002.log", "log/00000003.log"] {
        std::fs::copy(kept.join(name), copy.join(name)).unwrap();
    }
    (above, copy)
}

#[test]
fn the_folder_kept_from_version_1_opens_and_holds_what_was_put_into_it() {
    let (_above, copy) = copy();
    let (store, _) = check(&copy);
    let first = check(&copy);
    assert_eq!(store, first.0);
}

/// It has no index and no record of one: it gets them, and FORMAT is not touched.
#[test]
fn the_folder_kept_from_version_1_gets_an_index_on_disk_and_keeps_its_format() {
    let (_above, copy) = copy();
    let format = std::fs::read(copy.join(FORMAT_NAME)).unwrap();
    for rebuilt in [Some(Reason::Unrecorded), None] {
        let index = Arc::new(SledIndex::new(&copy, Settings::default()));
        let store = open(Arc::new(RealDisk), &copy, Options { index, ..Options::default() }).unwrap();
        check_opened(&store);
        assert_eq!(store.replayed, if rebuilt.is_some() { 4 } else { 0 });
        assert_eq!(store.rebuilt, rebuilt);
        assert_eq!(std::fs::read(copy.join(FORMAT_NAME)).unwrap(), format);
    }
}
