//! From what is kept to what is decided on: the resident rows at a start, and frames found again after a failure.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::core::conversations::READ_MARK;
use crate::core::rows::{
    Act, CodeHash, CursorRow, DeviceKey, DeviceRow, GroupRow, Handle, Interval, InviteFor, InviteRow, ItemContent,
    ItemRow, MemberRow, Meta, Policy, RecalledRow, Role, SendHash, SendRow, SendWindow, Switches, UserRow, UserState,
    Write,
};
use crate::core::tables::Tables;
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};
use crate::proof::{self, Wrong};
use crate::server::translate::kept::{KeptError, meta_name};
use crate::server::translate::{retention, sent};
use crate::store::engine::{Engine, EngineError};
use crate::store::keys;
use crate::store::records::{
    CursorRecord, DeviceRecord, Extensions, GroupRecord, IntervalRecord, InviteRecord, MemberRecord, MentionRecord,
    MessageRecord, MetaRecord, OwnRecord, RecalledRecord, SendRecord, SendWindowRecord, UserRecord, cursor_extension,
    device_extension, group_extension, invite_extension, member_extension, message_extension, opens,
    recalled_extension, user_extension, user_state,
};
use crate::store::tree::Tree;
use crate::wire::item::{
    BanLifted, Created, Item, Joined, Left, Muted, PolicyChanged, Renamed, RoleChanged, SystemBody as _, Topic, kind,
};
use crate::wire::said;

/// Why the resident rows cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The index cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A group has fewer items than something else says, so its newest are missing.
    #[error("the index is not of one time: {group} ends with {head}, but {named} is named elsewhere")]
    Behind {
        /// The group.
        group: GroupId,
        /// Its last item.
        head: MessageId,
        /// The item that a cursor or an answered send names.
        named: MessageId,
    },
    /// A row cannot be understood.
    #[error("the index holds what this program never wrote: {0}")]
    Row(#[from] KeptError),
}

/// The trees whose rows are resident, each with its rows translated one by one.
const RESIDENT: [Tree; 9] = [
    Tree::Groups,
    Tree::Members,
    Tree::Cursors,
    Tree::Users,
    Tree::Devices,
    Tree::Invites,
    Tree::Sends,
    Tree::Meta,
    Tree::Recalled,
];

/// Reads what must be resident: small trees whole, of each group its last item, of each author the last of their own, of
/// each user who was mentioned the last mention.
pub(crate) fn load(engine: &dyn Engine) -> Result<Tables, LoadError> {
    let mut tables = Tables::new();
    let mut named: BTreeMap<GroupId, MessageId> = BTreeMap::new();
    let mut load = |frame: Lsn, write: Write| {
        if let Write::Cursor(group, _, _, CursorRow { msgid, .. }) | Write::Send(_, _, SendRow { group, msgid, .. }) =
            write
        {
            let most = named.entry(group).or_insert(msgid);
            *most = (*most).max(msgid);
        }
        tables.begin_frame(frame);
        tables.load(write);
    };
    for tree in RESIDENT {
        let mut failed = None;
        let read = |key: &[u8], value: &[u8]| {
            let write = write(tree, key, &Bytes::copy_from_slice(value))?;
            Ok::<_, KeptError>((frame_of(tree, key, value)?, write))
        };
        engine.scan(tree, &[], &mut |key, value| match read(key, value) {
            Ok((frame, write)) => {
                write.into_iter().for_each(|write| load(frame, write));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    for (group, users) in members(&tables) {
        if let Some((frame, mut item)) = last_item(engine, group)? {
            if proof::is(Wrong::MsgidReused) && named.get(&group).is_none_or(|named| *named < item.msgid) {
                item.msgid = item.msgid.previous();
            }
            tables.begin_frame(frame);
            tables.load(Write::Item(item));
        }
        for user in users {
            if let Some((number, msgid)) = last_own(engine, group, user, tables.first_kept(group))? {
                tables.load_own(group, user, number, msgid);
            }
        }
    }
    last_mentions(engine, &mut tables)?;
    // An index that has lost its newest items in silence would have their msgids given again.
    for (group, named) in named {
        let head = tables.head(group);
        if named > head {
            return Err(LoadError::Behind { group, head, named });
        }
    }
    Ok(tables)
}

fn members(tables: &Tables) -> Vec<(GroupId, Vec<UserId>)> {
    let groups: Vec<GroupId> = tables.groups().collect();
    let users = |group| tables.members(group, UserId::ZERO).map(|(user, _)| user).collect();
    groups.into_iter().map(|group| (group, users(group))).collect()
}

/// The frame of the log that wrote a row, where the row says so and somebody wants to know.
fn frame_of(tree: Tree, key: &[u8], value: &[u8]) -> Result<Lsn, KeptError> {
    let lsn = match tree {
        Tree::Groups => GroupRecord::decode(value)?.extensions.number(group_extension::LSN)?,
        Tree::Cursors if keys::parse_cursor(key)?.2 == READ_MARK => {
            CursorRecord::decode(value)?.extensions.number(cursor_extension::LSN)?
        }
        Tree::Members => MemberRecord::decode(value)?.extensions.number(member_extension::LSN)?,
        Tree::Recalled => RecalledRecord::decode(value)?.extensions.number(recalled_extension::LSN)?,
        Tree::Messages
        | Tree::Cursors
        | Tree::Own
        | Tree::Mentions
        | Tree::Users
        | Tree::Devices
        | Tree::Invites
        | Tree::Handles
        | Tree::Keys
        | Tree::Memberships
        | Tree::Sends
        | Tree::Meta => 0,
    };
    Ok(Lsn::new(lsn))
}

fn last_item(engine: &dyn Engine, group: GroupId) -> Result<Option<(Lsn, ItemRow)>, LoadError> {
    let Some((key, value)) = engine.last_at_or_below(Tree::Messages, &keys::message(group, MessageId::MAX))? else {
        return Ok(None);
    };
    let (found, msgid) = keys::parse_message(&key).map_err(KeptError::from)?;
    if found != group {
        return Ok(None);
    }
    let frame = MessageRecord::decode(&value).map_err(KeptError::from)?.lsn;
    Ok(Some((frame, item_row(group, msgid, &value)?)))
}

/// From the last mention of all down, one look for each user in each group who was ever mentioned there.
fn last_mentions(engine: &dyn Engine, tables: &mut Tables) -> Result<(), LoadError> {
    let mut below = keys::mention(GroupId::MAX, UserId::MAX, u64::MAX);
    while let Some((key, value)) = engine.last_at_or_below(Tree::Mentions, &below)? {
        let (group, user, number) = keys::parse_mention(&key).map_err(KeptError::from)?;
        let MentionRecord { msgid, .. } = MentionRecord::decode(&value).map_err(KeptError::from)?;
        tables.load(Write::Mention(group, user, number, msgid));
        // Numbers begin with 1, so that nothing stands under 0.
        below = keys::mention(group, user, 0);
    }
    Ok(())
}

/// The last content item of a user by number and msgid; it may be gone, where it is below the first kept one.
fn last_own(
    engine: &dyn Engine,
    group: GroupId,
    user: UserId,
    first_kept: MessageId,
) -> Result<Option<(u64, MessageId)>, LoadError> {
    let Some((key, value)) = engine.last_at_or_below(Tree::Own, &keys::own(group, user, u64::MAX))? else {
        return Ok(None);
    };
    let (found, author, number) = keys::parse_own(&key).map_err(KeptError::from)?;
    if (found, author) != (group, user) {
        return Ok(None);
    }
    let own = OwnRecord::decode(&value).map_err(KeptError::from)?;
    let item = engine.get(Tree::Messages, &keys::message(group, own.msgid))?;
    match item {
        Some(item) => drop(item_row(group, own.msgid, &item)?),
        None if own.msgid < first_kept => {}
        None => return Err(KeptError::Unknown("item among those of its author").into()),
    }
    Ok(Some((number, own.msgid)))
}

/// What a row of a tree says; none where it only serves to find others.
pub(super) fn write(tree: Tree, key: &[u8], value: &Bytes) -> Result<Option<Write>, KeptError> {
    Ok(Some(match tree {
        Tree::Messages => {
            let (group, msgid) = keys::parse_message(key)?;
            Write::Item(item_row(group, msgid, value)?)
        }
        Tree::Groups => Write::Group(keys::parse_group(key)?, group_row(GroupRecord::decode(value)?)?),
        Tree::Members => {
            let (group, user) = keys::parse_member(key)?;
            Write::Member(group, user, member_row(MemberRecord::decode(value)?)?)
        }
        Tree::Cursors => {
            let (group, user, device) = keys::parse_cursor(key)?;
            let CursorRecord { msgid, content, own, extensions } = CursorRecord::decode(value)?;
            // A device's has none, and what stands there nobody would write again.
            let version = if device == READ_MARK { extensions.number(cursor_extension::VERSION)? } else { 0 };
            Write::Cursor(group, user, device, CursorRow { msgid, content, own, version })
        }
        Tree::Users => Write::User(keys::parse_user(key)?, user_row(&UserRecord::decode(value)?)?),
        Tree::Devices => Write::Device(keys::parse_device(key)?, device_row(DeviceRecord::decode(value)?)?),
        Tree::Invites => Write::Invite(CodeHash(keys::parse_digest(key)?), invite_row(InviteRecord::decode(value)?)?),
        Tree::Sends => {
            let (device, seq) = keys::parse_send(key)?;
            if seq == ClientSeq::ZERO {
                let SendWindowRecord { lowest, highest, .. } = SendWindowRecord::decode(value)?;
                Write::SendWindow(device, SendWindow { lowest, highest })
            } else {
                let SendRecord { group, msgid, time_ms, hash, .. } = SendRecord::decode(value)?;
                Write::Send(device, seq, SendRow { group, msgid, time_ms, hash: SendHash(hash) })
            }
        }
        Tree::Meta => {
            let name = keys::parse_name(key)?;
            let known =
                [Meta::LastGroup, Meta::LastUser, Meta::LastDevice, Meta::OperatorExisted, Meta::RetentionClock];
            let meta = known.into_iter().find(|meta| meta_name(*meta) == name);
            Write::Meta(meta.ok_or(KeptError::Unknown("counter"))?, MetaRecord::decode(value)?.value)
        }
        Tree::Recalled => {
            let (group, msgid) = keys::parse_message(key)?;
            Write::Recalled(group, msgid, recalled_row(&RecalledRecord::decode(value)?)?)
        }
        Tree::Mentions => {
            let (group, user, number) = keys::parse_mention(key)?;
            Write::Mention(group, user, number, MentionRecord::decode(value)?.msgid)
        }
        Tree::Own | Tree::Handles | Tree::Keys | Tree::Memberships => return Ok(None),
    }))
}

/// The role of this number, on wire and in the store.
pub(crate) fn role_of(number: u8) -> Result<Role, KeptError> {
    match number {
        1 => Ok(Role::Owner),
        2 => Ok(Role::Admin),
        3 => Ok(Role::Member),
        _ => Err(KeptError::Unknown("role")),
    }
}

/// The policy of this number, on wire and in the store.
pub(crate) fn policy(number: u8) -> Result<Policy, KeptError> {
    match number {
        0 => Ok(Policy::FromJoin),
        1 => Ok(Policy::FullHistory),
        _ => Err(KeptError::Unknown("policy")),
    }
}

fn handle_of(text: &str) -> Result<Handle, KeptError> {
    Handle::parse(text).map_err(|_| KeptError::Unknown("handle"))
}

fn switches(extensions: &Extensions) -> Result<Switches, KeptError> {
    match extensions.find(user_extension::SWITCHES).map(Bytes::as_ref) {
        None => Ok(Switches::default()),
        Some([bits]) => Ok(Switches(*bits)),
        Some(_) => Err(KeptError::Unknown("set of switches")),
    }
}

fn group_row(record: GroupRecord) -> Result<GroupRow, KeptError> {
    Ok(GroupRow {
        topic: record.extensions.find(group_extension::TOPIC).map_or(Ok(String::new()), |bytes| text(bytes))?,
        retention: record
            .extensions
            .find(group_extension::RETENTION)
            .map(|bytes| retention::policy(bytes))
            .transpose()?,
        content_gone: record.extensions.number(group_extension::CONTENT_GONE)?,
        name: record.name,
        policy: policy(record.policy)?,
        first_kept: record.first_kept,
        head_mark: record.head_mark,
        content_mark: record.content_mark,
        created_ms: record.created_ms,
    })
}

fn member_row(record: MemberRecord) -> Result<MemberRow, KeptError> {
    let interval = |record: &IntervalRecord| {
        Ok(Interval {
            joined: record.joined,
            left: record.left,
            policy: policy(record.policy)?,
            content_before: record.content_before,
            content_until: record.content_until,
        })
    };
    Ok(MemberRow {
        role: role_of(record.role)?,
        intervals: record.intervals.iter().map(interval).collect::<Result<_, KeptError>>()?,
        name_at_leave: record.name_at_leave,
        muted: record.extensions.find(member_extension::MUTED).is_some(),
        banned: record.extensions.find(member_extension::BANNED).is_some(),
    })
}

fn user_row(record: &UserRecord) -> Result<UserRow, KeptError> {
    let state = record.extensions.find(user_extension::STATE).map_or(Ok(UserState::Active), |bytes| user_state(bytes));
    Ok(UserRow {
        handle: handle_of(&record.handle)?,
        operator: record.operator,
        created_ms: record.created_ms,
        switches: switches(&record.extensions)?,
        state: state?,
        name: record.extensions.find(user_extension::NAME).map(|bytes| text(bytes)).transpose()?,
    })
}

fn text(bytes: &[u8]) -> Result<String, KeptError> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| KeptError::Unknown("text that is not UTF-8"))
}

fn user_state(bytes: &[u8]) -> Result<UserState, KeptError> {
    let unknown = KeptError::Unknown("state of a user");
    let Some((number, since)) = bytes.split_first() else { return Err(unknown) };
    let Ok(since) = since.try_into() else { return Err(unknown) };
    let since_ms = u64::from_be_bytes(since);
    match *number {
        user_state::DEACTIVATED => Ok(UserState::Deactivated { since_ms }),
        user_state::DELETED => Ok(UserState::Deleted { since_ms, is_handle_free: false }),
        user_state::HANDLE_FREE => Ok(UserState::Deleted { since_ms, is_handle_free: true }),
        _ => Err(unknown),
    }
}

fn device_row(record: DeviceRecord) -> Result<DeviceRow, KeptError> {
    let seen_day = record.extensions.number(device_extension::SEEN_DAY)?;
    Ok(DeviceRow {
        user: record.user,
        key: DeviceKey(record.key),
        name: record.name,
        enrolled_ms: record.enrolled_ms,
        revoked_ms: record.revoked_ms,
        invite: CodeHash(record.invite),
        seen_day: u32::try_from(seen_day).map_err(|_| KeptError::Unknown("day"))?,
    })
}

fn invite_row(record: InviteRecord) -> Result<InviteRow, KeptError> {
    let opens = match (record.opens, record.handle, record.user) {
        (opens::FIRST, None, None) => InviteFor::First,
        (opens::USER, Some(handle), None) => InviteFor::User { handle: handle_of(&handle)?, group: record.group },
        (opens::DEVICE, None, Some(user)) => InviteFor::Device { user },
        _ => return Err(KeptError::Unknown("kind of invite")),
    };
    let by_device = match record.extensions.number(invite_extension::BY_DEVICE)? {
        0 => None,
        device => Some(DeviceId::new(u32::try_from(device).map_err(|_| KeptError::Unknown("device"))?)),
    };
    Ok(InviteRow { opens, by: record.by, by_device, expires_ms: record.expires_ms, used: record.used })
}

/// What is kept of an item that was recalled.
pub(crate) fn recalled_row(record: &RecalledRecord) -> Result<RecalledRow, KeptError> {
    let mentioned = record.extensions.find(recalled_extension::MENTIONED);
    let (mentions, rest) = mentioned.map_or((&[][..], &[][..]), |bytes| bytes.as_chunks::<4>());
    if !record.content || !rest.is_empty() {
        return Err(KeptError::Unknown("kind of recalled item"));
    }
    let mentions = mentions.iter().map(|bytes| UserId::new(u32::from_be_bytes(*bytes))).collect();
    Ok(RecalledRow { author: record.author, mentions })
}

/// The item in a row of `messages`.
pub(crate) fn item_row(group: GroupId, msgid: MessageId, value: &Bytes) -> Result<ItemRow, KeptError> {
    let record = MessageRecord::decode(value)?;
    let item = Item::decode(&record.item)?;
    if (item.gid, item.msgid) != (group, msgid) {
        return Err(KeptError::Unknown("item under its key"));
    }
    let (author, time_ms, tag, recalled) = (item.author, item.time_ms, item.tag, item.is_recalled());
    Ok(ItemRow {
        group,
        msgid,
        author,
        time_ms,
        aged_from_ms: record.extensions.number(message_extension::AGED_FROM)?,
        tag,
        content: item_content(item)?,
        content_ordinal: record.content,
        own_ordinal: record.own,
        last_edit: record.last_edit,
        edits: edits(&record)?,
        recalled,
    })
}

/// How often an item was edited.
fn edits(record: &MessageRecord) -> Result<u32, KeptError> {
    let Some(bytes) = record.extensions.find(message_extension::EDITS) else { return Ok(0) };
    bytes.as_ref().try_into().map(u32::from_be_bytes).map_err(|_| KeptError::Unknown("count of edits"))
}

fn item_content(item: Item) -> Result<ItemContent, KeptError> {
    let says = item.is_content().then_some(Act::Says);
    if let Some(act) = sent::act(item.kind, &item.extensions)?.or(says) {
        let mentions = said::mentions_in(&item.extensions)?;
        let Item { kind, body, extensions, .. } = item;
        let extensions = sent::without_target(act, extensions);
        return Ok(ItemContent::Sent { kind, act, body, extensions, mentions });
    }
    let body = &item.body;
    Ok(match item.kind {
        kind::CREATED => {
            let Created { name, policy: number, .. } = Created::decode(body)?;
            ItemContent::Created { name, policy: policy(number)? }
        }
        kind::JOINED => ItemContent::Joined(Joined::decode(body)?.user),
        kind::LEFT => ItemContent::Left(Left::decode(body)?.user),
        kind::REMOVED => ItemContent::Removed(Left::decode(body)?.user),
        kind::RENAMED => ItemContent::Renamed(Renamed::decode(body)?.name),
        kind::ROLE_CHANGED => {
            let RoleChanged { user, role: number, .. } = RoleChanged::decode(body)?;
            ItemContent::RoleChanged(user, role_of(number)?)
        }
        kind::TOPIC => ItemContent::Topic(Topic::decode(body)?.topic),
        kind::POLICY_CHANGED => ItemContent::PolicyChanged(policy(PolicyChanged::decode(body)?.policy)?),
        kind::MUTED => {
            let Muted { user, muted, .. } = Muted::decode(body)?;
            if muted { ItemContent::Muted(user) } else { ItemContent::Unmuted(user) }
        }
        kind::BAN_LIFTED => ItemContent::BanLifted(BanLifted::decode(body)?.user),
        _ => return Err(KeptError::Unknown("kind of item")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lsn;
    use crate::server::translate::kept::kept;

    #[test]
    fn a_user_in_any_state_is_read_as_written_and_holds_the_handle_or_not() {
        let states = [
            UserState::Active,
            UserState::Deactivated { since_ms: 1 },
            UserState::Deleted { since_ms: u64::MAX, is_handle_free: false },
            UserState::Deleted { since_ms: 0, is_handle_free: true },
        ];
        for state in states {
            let name = Some("Bob é".to_owned()).filter(|_| state == UserState::Active);
            let row = UserRow { state, name, ..UserRow::new(Handle::parse("bob").unwrap(), true, 7) };
            let writes = [Write::User(UserId::new(3), row.clone())];
            let ops = kept(&writes, Lsn::new(1)).unwrap().ops;
            let of = |tree| ops.iter().find(|op| op.tree == tree).unwrap();
            let (user, handle) = (of(Tree::Users), of(Tree::Handles));
            let read = write(user.tree, &user.key, user.value.as_ref().unwrap()).unwrap().unwrap();
            assert!(read == writes[0], "{state:?}");
            assert_eq!(handle.value.is_some(), row.holds_handle());
        }
    }

    #[test]
    fn a_state_that_no_program_of_ours_writes_is_an_error() {
        for odd in [&[][..], &[1], &[9, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(user_state(odd).is_err(), "{odd:?}");
        }
    }
}
