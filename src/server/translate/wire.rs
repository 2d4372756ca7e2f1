//! Between what `core` decides and what travels.

use bytes::Bytes;

use crate::core::command::{Answer, Refusal};
use crate::core::rows::{ItemContent, ItemRow, Policy, Role, UserRow, UserState};
use crate::ids::{MessageId, UserId};
use crate::server::request::Outcome;
use crate::server::translate::sent;
use crate::wire::WireError;
use crate::wire::code::{Class, Code};
use crate::wire::codec;
use crate::wire::frame::{
    Cursors, Deleting, Done, Error, Extensions, GroupCreated, InviteMade, ReadMark, Sent, UserInfo, user_info,
    user_state,
};
use crate::wire::item::{
    BanLifted, Created, Item, Joined, Left, Muted, PolicyChanged, Renamed, RoleChanged, SystemBody as _, Topic, flag,
    kind,
};
use crate::wire::link::Link;

/// How long a client waits with what was not done, where nothing better is known, in ms.
const RETRY_AFTER_MS: u32 = 500;
/// The same where the disk is full: somebody has to make room first, and every client that waits asks again.
const FULL_RETRY_AFTER_MS: u32 = 5_000;

/// The number of a role on wire and in the store; zero is a former member.
pub(crate) const fn role(role: Role) -> u8 {
    match role {
        Role::Owner => 1,
        Role::Admin => 2,
        Role::Member => 3,
    }
}

/// The number of a policy on wire and in the store.
pub(crate) const fn policy(policy: Policy) -> u8 {
    match policy {
        Policy::FromJoin => 0,
        Policy::FullHistory => 1,
    }
}

/// A user, for lists.
pub(crate) fn user(user: UserId, row: &UserRow) -> UserInfo {
    let state = match row.state {
        UserState::Active => None,
        UserState::Deactivated { .. } => Some(user_state::DEACTIVATED),
        UserState::Deleted { is_handle_free: false, .. } => Some(user_state::DELETED),
        UserState::Deleted { is_handle_free: true, .. } => Some(user_state::HANDLE_FREE),
    };
    let state = state.map(|number| (user_info::STATE, Bytes::copy_from_slice(&[number])));
    UserInfo {
        user,
        handle: row.handle.as_str().to_owned(),
        operator: row.operator,
        extensions: Extensions(name_extension(user_info::NAME, row).into_iter().chain(state).collect()),
    }
}

/// What a user wants to be called, as an extension of a row.
pub(crate) fn name_extension(number: u16, row: &UserRow) -> Option<(u16, Bytes)> {
    row.name.as_ref().map(|name| (number, Bytes::copy_from_slice(name.as_bytes())))
}

/// The code that says why.
pub(crate) const fn code(why: Refusal) -> Code {
    match why {
        Refusal::UnknownDevice => Code::UnknownDevice,
        Refusal::DeviceRevoked => Code::DeviceRevoked,
        Refusal::Deactivated => Code::Deactivated,
        Refusal::UserDeleted => Code::UserDeleted,
        Refusal::Malformed => Code::Malformed,
        Refusal::Unsupported => Code::Unsupported,
        Refusal::TooLarge => Code::TooLarge,
        Refusal::Conflict => Code::Conflict,
        Refusal::Forgotten => Code::Forgotten,
        Refusal::NeverStored => Code::NeverStored,
        Refusal::WindowFull => Code::WindowFull,
        Refusal::OutOfTurn => Code::OutOfTurn,
        Refusal::SlowDown { .. } => Code::SlowDown,
        Refusal::NoSuchGroup => Code::NoSuchGroup,
        Refusal::NotAllowed => Code::NotAllowed,
        Refusal::NoSuchUser => Code::NoSuchUser,
        Refusal::NoSuchDevice => Code::NoSuchDevice,
        Refusal::HandleTaken => Code::HandleTaken,
        Refusal::BadName => Code::BadName,
        Refusal::AlreadyMember => Code::AlreadyMember,
        Refusal::NotMember => Code::NotMember,
        Refusal::TooManyRejoins => Code::TooManyRejoins,
        Refusal::LimitReached => Code::LimitReached,
        Refusal::BadInvite => Code::BadInvite,
        Refusal::InviteExpired => Code::InviteExpired,
        Refusal::HandleNeeded => Code::HandleNeeded,
        Refusal::BeyondHead => Code::BeyondHead,
        Refusal::Muted => Code::Muted,
        Refusal::Banned => Code::Banned,
        Refusal::NotAddable => Code::NotAddable,
        Refusal::LastOwner => Code::LastOwner,
        Refusal::DirectChat => Code::DirectChat,
        Refusal::MarkMoved => Code::MarkMoved,
        Refusal::StorageFull => Code::StorageFull,
        Refusal::Busy => Code::Busy,
        Refusal::NoSuchItem => Code::NoSuchItem,
        Refusal::ItemRecalled => Code::ItemRecalled,
        Refusal::NotYours => Code::NotYours,
        Refusal::TooLate => Code::TooLate,
        Refusal::TooManyEdits => Code::TooManyEdits,
    }
}

/// When to try again, where nothing better is known.
pub(crate) const fn retry_after_ms(code: Code) -> u32 {
    match code.class() {
        Class::Permanent => 0,
        Class::NotDone if matches!(code, Code::StorageFull) => FULL_RETRY_AFTER_MS,
        Class::NotDone | Class::Unknown => RETRY_AFTER_MS,
    }
}

/// An encoded refusal.
pub(crate) fn error(request: u32, code: Code, retry_after_ms: u32, detail: &str) -> Bytes {
    let frame = Error {
        code: code.number(),
        class: code.class().number(),
        retry_after_ms,
        detail: detail.to_owned(),
        extensions: Extensions::default(),
    };
    // The details are our own short sentences, so this always fits; an empty frame would close the connection.
    codec::encode(request, &frame).unwrap_or_default()
}

/// The encoded answer to a request that went to the writer.
pub(crate) fn answer(request: u32, outcome: Outcome, link: Option<Link>) -> Result<Bytes, WireError> {
    let answer = match outcome {
        Outcome::Decided(answer) => answer,
        Outcome::Failed(code) => {
            return Ok(error(request, code, retry_after_ms(code), code.name()));
        }
    };
    let extensions = Extensions::default();
    match answer {
        Answer::Refused(why) => Ok(refused(request, why)),
        Answer::Sent { msgid, time_ms } => codec::encode(request, &Sent { msgid, time_ms, extensions }),
        Answer::Done(msgid) => codec::encode(request, &Done { msgid: msgid.unwrap_or(MessageId::ZERO), extensions }),
        Answer::Deleting { left } => {
            codec::encode(request, &Deleting { left: u32::try_from(left).unwrap_or(u32::MAX), extensions })
        }
        Answer::GroupCreated(gid) => codec::encode(request, &GroupCreated { gid, extensions }),
        Answer::Cursors { moved, refused: none } if none.is_empty() => {
            codec::encode(request, &Cursors { entries: moved, extensions })
        }
        Answer::Cursors { refused: why, .. } => {
            Ok(refused(request, why.first().map_or(Refusal::NoSuchGroup, |(_, why)| *why)))
        }
        Answer::ReadMark { group: gid, msgid, version } => {
            codec::encode(request, &ReadMark { gid, msgid, version, extensions })
        }
        Answer::Invited { expires_ms } => match link {
            Some(Link { address, pin, code }) => {
                let (code, pin) = (Bytes::copy_from_slice(&code.0), Bytes::copy_from_slice(&pin.0));
                codec::encode(request, &InviteMade { code, address, pin, expires_ms, extensions })
            }
            None => Ok(error(request, Code::OutcomeUnknown, RETRY_AFTER_MS, "the invite's code is lost: make another")),
        },
        // Enrolments are answered before there is a session.
        Answer::Enrolled { .. } => Ok(error(request, Code::OutcomeUnknown, 0, "an unexpected answer")),
    }
}

fn refused(request: u32, why: Refusal) -> Bytes {
    let code = code(why);
    let retry = if let Refusal::SlowDown { retry_after_ms } = why { retry_after_ms } else { retry_after_ms(code) };
    error(request, code, retry, &why.to_string())
}

/// An item as it travels.
pub(crate) fn item(row: &ItemRow) -> Result<Bytes, WireError> {
    let plain = |kind: u16, body: Bytes| (kind, body, Extensions::default());
    let extensions = Extensions::default();
    let (kind, body, extensions) = match &row.content {
        ItemContent::Sent { kind, act, body, extensions, .. } => {
            (*kind, body.clone(), sent::with_target(*act, extensions))
        }
        ItemContent::Created { name, policy: which } => {
            plain(kind::CREATED, Created { name: name.clone(), policy: policy(*which), extensions }.encode()?)
        }
        ItemContent::Joined(user) => plain(kind::JOINED, Joined { user: *user, extensions }.encode()?),
        ItemContent::Left(user) => plain(kind::LEFT, Left { user: *user, extensions }.encode()?),
        ItemContent::Removed(user) => plain(kind::REMOVED, Left { user: *user, extensions }.encode()?),
        ItemContent::Renamed(name) => plain(kind::RENAMED, Renamed { name: name.clone(), extensions }.encode()?),
        ItemContent::RoleChanged(user, to) => {
            plain(kind::ROLE_CHANGED, RoleChanged { user: *user, role: role(*to), extensions }.encode()?)
        }
        ItemContent::Topic(topic) => plain(kind::TOPIC, Topic { topic: topic.clone(), extensions }.encode()?),
        ItemContent::PolicyChanged(to) => {
            plain(kind::POLICY_CHANGED, PolicyChanged { policy: policy(*to), extensions }.encode()?)
        }
        ItemContent::Muted(user) => plain(kind::MUTED, Muted { user: *user, muted: true, extensions }.encode()?),
        ItemContent::Unmuted(user) => plain(kind::MUTED, Muted { user: *user, muted: false, extensions }.encode()?),
        ItemContent::BanLifted(user) => plain(kind::BAN_LIFTED, BanLifted { user: *user, extensions }.encode()?),
    };
    let item = Item {
        gid: row.group,
        msgid: row.msgid,
        kind,
        flags: if row.content.is_content() { flag::CONTENT } else { 0 } | if row.recalled { flag::RECALLED } else { 0 },
        author: row.author,
        time_ms: row.time_ms,
        tag: row.tag,
        body,
        extensions,
    };
    item.encode()
}
