//! From what is decided to what is kept: each write becomes puts and removes of rows, items their encoded bytes.
//!
//! Rows that only serve to find others (`handles`, `keys`, `memberships`, `own`) are made here, so that they cannot
//! disagree with the rows they belong to.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::core::conversations::READ_MARK;
use crate::core::rows::{
    Act, CursorRow, DeviceRow, GroupRow, Interval, InviteFor, InviteRow, ItemContent, ItemRow, MemberRow, Meta,
    RecalledRow, SendRow, SendWindow, Switches, UserRow, UserState, Write,
};
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};
use crate::limits;
use crate::server::rows::{Rows, RowsMaker};
use crate::server::translate::{retention, wire};
use crate::store::engine::Op;
use crate::store::keys::{self, KeyError};
use crate::store::records::{
    CursorRecord, DeviceRecord, Extensions, GroupRecord, HandleRecord, IntervalRecord, InviteRecord, KeyRecord,
    MemberRecord, MembershipRecord, MentionRecord, MessageRecord, MetaRecord, OwnRecord, RecalledRecord, RecordError,
    SendRecord, SendWindowRecord, UserRecord, cursor_extension, device_extension, group_extension, invite_extension,
    member_extension, message_extension, message_flag, opens, recalled_extension, user_extension, user_state,
};
use crate::store::tree::Tree;
use crate::wire::WireError;

/// Bytes that a write takes in a frame beside a body and extensions, at the most in all but rare cases; for closing batches
/// in time.
const WRITE_BYTES: usize = 128;

// A batch of commands that write many small rows each (recalls, mentions) is closed by what its rows weigh.
const _: () =
    assert!(limits::BATCH_BYTES_MAX / WRITE_BYTES * limits::OVERLAY_ROW_BYTES * 2 < limits::OVERLAY_BYTES_MAX);

/// What a batch becomes.
pub(crate) struct Kept {
    /// Operations for the log, in order.
    pub(crate) ops: Vec<Op>,
    /// The new items as rows that can be pushed.
    pub(crate) items: BTreeMap<GroupId, Rows>,
}

/// Why kept rows cannot be understood, or a decided one not be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An item.
    #[error(transparent)]
    Item(#[from] WireError),
    /// A value that no program of ours writes.
    #[error("a row with an unknown {0}")]
    Unknown(&'static str),
}

/// Roughly how many bytes a write adds to a frame.
pub(crate) fn weight(write: &Write) -> usize {
    let body = match write {
        Write::Item(row) | Write::Changed(row) => match &row.content {
            ItemContent::Sent { body, extensions, .. } => {
                body.len() + extensions.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
            }
            ItemContent::Created { .. }
            | ItemContent::Joined(_)
            | ItemContent::Left(_)
            | ItemContent::Removed(_)
            | ItemContent::Renamed(_)
            | ItemContent::RoleChanged(..)
            | ItemContent::PolicyChanged(_)
            | ItemContent::Muted(_)
            | ItemContent::Unmuted(_)
            | ItemContent::BanLifted(_) => 0,
            ItemContent::Topic(topic) => topic.len(),
        },
        Write::Member(_, _, row) => row.intervals.len() * size_of::<Interval>(),
        Write::Recalled(_, _, row) => row.mentions.len() * size_of::<UserId>(),
        Write::Group(..)
        | Write::Mention(..)
        | Write::Cursor(..)
        | Write::User(..)
        | Write::Device(..)
        | Write::Invite(..)
        | Write::InviteGone(_)
        | Write::ItemGone(..)
        | Write::OwnGone(..)
        | Write::RecalledGone(..)
        | Write::MentionGone(..)
        | Write::Send(..)
        | Write::SendGone(..)
        | Write::SendWindow(..)
        | Write::Meta(..) => 0,
    };
    body + WRITE_BYTES
}

/// Translates the writes of a batch that becomes the frame `lsn`.
///
/// # Errors
/// Where an item is over a limit of the wire, which deciding has ruled out.
pub(crate) fn kept(writes: &[Write], lsn: Lsn) -> Result<Kept, KeptError> {
    let mut making = Making { ops: Vec::with_capacity(writes.len() * 2), items: BTreeMap::new() };
    for write in writes {
        making.write(write, lsn)?;
    }
    let items =
        making.items.into_iter().map(|(group, items)| Ok((group, rows(items)?))).collect::<Result<_, WireError>>()?;
    Ok(Kept { ops: making.ops, items })
}

/// The new items of a group, each with the one that it edits, if it does.
type New = BTreeMap<MessageId, (Bytes, Option<MessageId>)>;

fn rows(items: New) -> Result<Rows, WireError> {
    let mut rows = RowsMaker::default();
    for (msgid, (item, edits)) in items {
        rows.add(msgid, item, edits)?;
    }
    Ok(rows.finish())
}

struct Making {
    ops: Vec<Op>,
    items: BTreeMap<GroupId, New>,
}

impl Making {
    fn put(&mut self, tree: Tree, key: Bytes, value: Bytes) {
        self.ops.push(Op { tree, key, value: Some(value) });
    }

    fn remove(&mut self, tree: Tree, key: Bytes) {
        self.ops.push(Op { tree, key, value: None });
    }

    fn write(&mut self, write: &Write, lsn: Lsn) -> Result<(), KeptError> {
        match write {
            Write::Group(group, row) => self.put(Tree::Groups, keys::group(*group), group_record(row, lsn).encode()),
            Write::Member(group, user, row) => {
                self.put(Tree::Members, keys::member(*group, *user), member_record(row, lsn).encode());
                let record = MembershipRecord { extensions: Extensions::default() };
                self.put(Tree::Memberships, keys::membership(*user, *group), record.encode());
            }
            Write::Cursor(group, user, device, row) => {
                self.put(
                    Tree::Cursors,
                    keys::cursor(*group, *user, *device),
                    cursor_record(*device, *row, lsn).encode(),
                );
            }
            Write::User(user, row) => self.user(*user, row),
            Write::Device(device, row) => self.device(*device, row),
            Write::Invite(code, row) => self.put(Tree::Invites, keys::digest(&code.0), invite_record(row).encode()),
            Write::InviteGone(code) => self.remove(Tree::Invites, keys::digest(&code.0)),
            Write::Item(row) => self.item(row, lsn)?,
            Write::Changed(row) => self.changed(row, lsn)?,
            Write::Recalled(group, msgid, row) => {
                self.put(Tree::Recalled, keys::message(*group, *msgid), recalled_record(row, lsn).encode());
            }
            Write::Mention(group, user, number, msgid) => {
                let record = MentionRecord { msgid: *msgid, extensions: Extensions::default() };
                self.put(Tree::Mentions, keys::mention(*group, *user, *number), record.encode());
            }
            Write::ItemGone(group, msgid) => self.remove(Tree::Messages, keys::message(*group, *msgid)),
            Write::OwnGone(group, author, number) => self.remove(Tree::Own, keys::own(*group, *author, *number)),
            Write::RecalledGone(group, msgid, _) => self.remove(Tree::Recalled, keys::message(*group, *msgid)),
            Write::MentionGone(group, user, number) => {
                self.remove(Tree::Mentions, keys::mention(*group, *user, *number));
            }
            Write::Send(device, seq, row) => {
                self.put(Tree::Sends, keys::send(*device, *seq), send_record(row).encode());
            }
            Write::SendGone(device, seq) => self.remove(Tree::Sends, keys::send(*device, *seq)),
            Write::SendWindow(device, window) => {
                let key = keys::send(*device, ClientSeq::ZERO);
                self.put(Tree::Sends, key, window_record(*window).encode());
            }
            Write::Meta(meta, value) => {
                let record = MetaRecord { value: *value, extensions: Extensions::default() };
                self.put(Tree::Meta, keys::name(meta_name(*meta)), record.encode());
            }
        }
        Ok(())
    }

    fn user(&mut self, user: UserId, row: &UserRow) {
        let name = wire::name_extension(user_extension::NAME, row);
        let Switches(bits) = row.switches;
        let switches = (bits != 0).then(|| (user_extension::SWITCHES, Bytes::copy_from_slice(&[bits])));
        let record = UserRecord {
            handle: row.handle.as_str().to_owned(),
            operator: row.operator,
            created_ms: row.created_ms,
            extensions: Extensions(name.into_iter().chain(switches).chain(user_state_extension(row.state)).collect()),
        };
        self.put(Tree::Users, keys::user(user), record.encode());
        let handle = keys::name(row.handle.as_str());
        if row.holds_handle() {
            self.put(Tree::Handles, handle, HandleRecord { user, extensions: Extensions::default() }.encode());
        } else {
            self.remove(Tree::Handles, handle);
        }
    }

    fn device(&mut self, device: DeviceId, row: &DeviceRow) {
        let extensions = Extensions::default();
        let record = DeviceRecord {
            user: row.user,
            key: row.key.0,
            name: row.name.clone(),
            enrolled_ms: row.enrolled_ms,
            revoked_ms: row.revoked_ms,
            invite: row.invite.0,
            extensions: Extensions::default().with_number(device_extension::SEEN_DAY, u64::from(row.seen_day)),
        };
        self.put(Tree::Devices, keys::device(device), record.encode());
        self.put(Tree::Keys, keys::digest(&row.key.0), KeyRecord { device, extensions }.encode());
    }

    fn item(&mut self, row: &ItemRow, lsn: Lsn) -> Result<(), KeptError> {
        let item = wire::item(row)?;
        self.put(Tree::Messages, keys::message(row.group, row.msgid), message_record(row, lsn, item.clone()).encode());
        if row.content.is_content() {
            let record = OwnRecord { msgid: row.msgid, extensions: Extensions::default() };
            self.put(Tree::Own, keys::own(row.group, row.author, row.own_ordinal), record.encode());
        }
        let edits = if let Some(Act::Edits(target)) = row.content.act() { Some(target) } else { None };
        self.items.entry(row.group).or_default().insert(row.msgid, (item, edits));
        Ok(())
    }

    /// An item that is there already. Where the same frame has added it, neither the frame nor the row that is pushed holds
    /// what it was before: a recall may follow in the batch of what it recalls.
    fn changed(&mut self, row: &ItemRow, lsn: Lsn) -> Result<(), KeptError> {
        let item = wire::item(row)?;
        let (key, value) = (keys::message(row.group, row.msgid), message_record(row, lsn, item.clone()).encode());
        let Some((new, _)) = self.items.get_mut(&row.group).and_then(|items| items.get_mut(&row.msgid)) else {
            self.put(Tree::Messages, key, value);
            return Ok(());
        };
        if row.recalled {
            *new = item;
        }
        match self.ops.iter_mut().rev().find(|op| op.tree == Tree::Messages && op.key == key) {
            Some(op) => op.value = Some(value),
            None => self.put(Tree::Messages, key, value),
        }
        Ok(())
    }
}

fn message_record(row: &ItemRow, lsn: Lsn, item: Bytes) -> MessageRecord {
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let edits = (row.edits > 0).then(|| (message_extension::EDITS, Bytes::copy_from_slice(&row.edits.to_be_bytes())));
    MessageRecord {
        flags: flag(row.content.is_content(), message_flag::CONTENT)
            | flag(row.recalled, message_flag::RECALLED)
            | flag(matches!(row.content.act(), Some(Act::Edits(_))), message_flag::EDIT),
        lsn,
        content: row.content_ordinal,
        own: row.own_ordinal,
        last_edit: row.last_edit,
        extensions: Extensions(edits.into_iter().collect()).with_number(message_extension::AGED_FROM, row.aged_from_ms),
        item,
    }
}

fn recalled_record(row: &RecalledRow, lsn: Lsn) -> RecalledRecord {
    let mentioned: Bytes = row.mentions.iter().flat_map(|user| user.value().to_be_bytes()).collect();
    let mentioned = (!mentioned.is_empty()).then_some((recalled_extension::MENTIONED, mentioned));
    let extensions = Extensions(mentioned.into_iter().collect());
    let extensions = extensions.with_number(recalled_extension::LSN, lsn.value());
    RecalledRecord { author: row.author, content: true, extensions }
}

/// The name under which a counter or mark is kept; never reused.
pub(super) const fn meta_name(meta: Meta) -> &'static str {
    match meta {
        Meta::LastGroup => "last-group",
        Meta::LastUser => "last-user",
        Meta::LastDevice => "last-device",
        Meta::OperatorExisted => "operator-existed",
        Meta::RetentionClock => "retention-clock",
    }
}

fn group_record(row: &GroupRow, lsn: Lsn) -> GroupRecord {
    let topic = (!row.topic.is_empty()).then(|| (group_extension::TOPIC, Bytes::from(row.topic.clone())));
    let policy = row.retention.as_ref().map(|policy| (group_extension::RETENTION, retention::bytes(policy)));
    GroupRecord {
        name: row.name.clone(),
        policy: wire::policy(row.policy),
        first_kept: row.first_kept,
        head_mark: row.head_mark,
        content_mark: row.content_mark,
        created_ms: row.created_ms,
        extensions: Extensions(topic.into_iter().chain(policy).collect())
            .with_number(group_extension::CONTENT_GONE, row.content_gone)
            .with_number(group_extension::LSN, lsn.value()),
    }
}

fn member_record(row: &MemberRow, lsn: Lsn) -> MemberRecord {
    let interval = |interval: &Interval| IntervalRecord {
        joined: interval.joined,
        left: interval.left,
        policy: wire::policy(interval.policy),
        content_before: interval.content_before,
        content_until: interval.content_until,
    };
    let muted = row.muted.then_some(member_extension::MUTED);
    let marks = muted.into_iter().chain(row.banned.then_some(member_extension::BANNED));
    MemberRecord {
        role: wire::role(row.role),
        intervals: row.intervals.iter().map(interval).collect(),
        name_at_leave: row.name_at_leave.clone(),
        extensions: Extensions(marks.into_iter().map(|number| (number, Bytes::new())).collect())
            .with_number(member_extension::LSN, lsn.value()),
    }
}

fn user_state_extension(state: UserState) -> Option<(u16, Bytes)> {
    let (number, since_ms) = match state {
        UserState::Active => return None,
        UserState::Deactivated { since_ms } => (user_state::DEACTIVATED, since_ms),
        UserState::Deleted { since_ms, is_handle_free: false } => (user_state::DELETED, since_ms),
        UserState::Deleted { since_ms, is_handle_free: true } => (user_state::HANDLE_FREE, since_ms),
    };
    let bytes = [&[number][..], &since_ms.to_be_bytes()].concat();
    Some((user_extension::STATE, bytes.into()))
}

fn cursor_record(device: DeviceId, row: CursorRow, lsn: Lsn) -> CursorRecord {
    let mut extensions = Extensions::default();
    if device == READ_MARK {
        extensions = extensions
            .with_number(cursor_extension::VERSION, row.version)
            .with_number(cursor_extension::LSN, lsn.value());
    }
    CursorRecord { msgid: row.msgid, content: row.content, own: row.own, extensions }
}

fn invite_record(row: &InviteRow) -> InviteRecord {
    let (opens, handle, group, user) = match &row.opens {
        InviteFor::First => (opens::FIRST, None, None, None),
        InviteFor::User { handle, group } => (opens::USER, Some(handle.as_str().to_owned()), *group, None),
        InviteFor::Device { user } => (opens::DEVICE, None, None, Some(*user)),
    };
    InviteRecord {
        opens,
        handle,
        group,
        user,
        by: row.by,
        expires_ms: row.expires_ms,
        used: row.used,
        extensions: Extensions::default()
            .with_number(invite_extension::BY_DEVICE, row.by_device.map_or(0, |device| device.value().into())),
    }
}

fn send_record(row: &SendRow) -> SendRecord {
    SendRecord {
        group: row.group,
        msgid: row.msgid,
        time_ms: row.time_ms,
        hash: row.hash.0,
        extensions: Extensions::default(),
    }
}

fn window_record(window: SendWindow) -> SendWindowRecord {
    SendWindowRecord { lowest: window.lowest, highest: window.highest, extensions: Extensions::default() }
}
