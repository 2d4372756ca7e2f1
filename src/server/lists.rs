//! Lists of groups, members, users and devices, read from the committed view, a page at a time.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::core::authorise::Verb;
use crate::core::rows::{GroupRow, Handle, MemberRow, Switches, UserRow};
use crate::core::tables::Tables;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits;
use crate::server::session::Session;
use crate::server::{Shared, presence, translate};
use crate::wire::code::Code;
use crate::wire::frame::{
    DeviceInfo, DeviceList, Extensions, GroupInfo, GroupList, ListDevices, ListGroups, ListMembers, ListOnline,
    ListUsers, MemberInfo, MemberList, Names, OnlineList, Rows, UserInfo, UserList, group_info, member_info, user_info,
};

/// Bytes of a group's row beside its name and extensions, at the most.
const GROUP_ROW_BYTES: usize = 64;

/// The caller's groups.
pub(crate) fn groups(shared: &Shared, session: &Session, asked: &ListGroups) -> Result<GroupList, Code> {
    let view = shared.view.read();
    let tables = &view.tables;
    tables.may(Verb::ListGroups, session.who()).map_err(translate::code)?;
    Ok(groups_of(tables, (session.user, session.device.unwrap_or_default()), asked.after))
}

/// As many as a frame has room for: topics are long.
fn groups_of(tables: &Tables, (user, device): (UserId, DeviceId), after: GroupId) -> GroupList {
    let mut rows = Vec::new();
    let (mut bytes, mut more) = (0, false);
    for gid in tables.groups_of(user, after) {
        let (Some(group), Some(member)) = (tables.group(gid), tables.member(gid, user)) else { continue };
        let extensions = if member.is_member() { about(group) } else { Extensions::default() };
        let Standing { name, role, members, head, cursor } = standing(tables, gid, (user, device), member);
        let said: usize = extensions.0.iter().map(|(_, bytes)| bytes.len()).sum();
        bytes += GROUP_ROW_BYTES + name.len() + said;
        if rows.len() == limits::LIST_ROWS_MAX || bytes > limits::FRAME_ROWS_BYTES_MAX {
            more = true;
            break;
        }
        rows.push(GroupInfo { gid, name, role, members, head, cursor, extensions });
    }
    GroupList { rows: Rows(rows), more, extensions: Extensions::default() }
}

/// The current members of a group, for a current member.
pub(crate) fn members(shared: &Shared, session: &Session, asked: &ListMembers) -> Result<MemberList, Code> {
    let view = shared.view.read();
    let tables = &view.tables;
    tables.may_in(asked.gid, Verb::ListMembers, session.who()).map_err(translate::code)?;
    let mut rows = Vec::new();
    let mut more = false;
    for (user, member) in tables.members(asked.gid, asked.after).filter(|(_, member)| member.is_member()) {
        if rows.len() == limits::LIST_ROWS_MAX {
            more = true;
            break;
        }
        let row = tables.user(user);
        let name = row.and_then(|row| translate::name_extension(member_info::NAME, row));
        let muted = member.muted.then(|| (member_info::MUTED, Bytes::new()));
        rows.push(MemberInfo {
            user,
            handle: row.map(|row| row.handle.as_str().to_owned()).unwrap_or_default(),
            role: translate::role(member.role),
            joined: member.joined(),
            extensions: Extensions(name.into_iter().chain(muted).collect()),
        });
    }
    Ok(MemberList { rows: Rows(rows), more, extensions: Extensions::default() })
}

/// Who of a group is there, for a current member.
pub(crate) fn online(shared: &Shared, session: &Session, asked: &ListOnline) -> Result<OnlineList, Code> {
    let listening: BTreeSet<UserId> =
        shared.registry.followers(asked.gid).iter().map(|it| it.user).filter(|user| *user > asked.after).collect();
    let view = shared.view.read();
    let tables = &view.tables;
    tables.may_in(asked.gid, Verb::ListOnline, session.who()).map_err(translate::code)?;
    let mut there =
        listening.into_iter().filter(|user| tables.is_member(asked.gid, *user) && presence::shows(tables, *user));
    let users = there.by_ref().take(limits::LIST_ROWS_MAX).collect();
    let more = there.next().is_some();
    Ok(OnlineList { users, more, extensions: Extensions::default() })
}

/// What a group is called for this user: by its name, or the last one they knew; a direct chat by who the other is.
fn called(tables: &Tables, gid: GroupId, user: UserId) -> String {
    if let Some(partner) = gid.partner_of(user).and_then(|partner| tables.user(partner)) {
        return partner.handle.as_str().to_owned();
    }
    match (tables.group(gid), tables.member(gid, user)) {
        (Some(group), Some(member)) if member.is_member() => group.name.clone(),
        (_, member) => member.and_then(|member| member.name_at_leave.clone()).unwrap_or_default(),
    }
}

/// How a group stands for one of its members, current or former.
pub(crate) struct Standing {
    /// What it is called.
    pub(crate) name: String,
    /// The role; zero for a former member.
    pub(crate) role: u8,
    /// How many current members it has; zero for a former one.
    pub(crate) members: u32,
    /// The last item that they may see.
    pub(crate) head: MessageId,
    /// The cursor of their device.
    pub(crate) cursor: MessageId,
}

/// How a group stands for a member and their device.
pub(crate) fn standing(tables: &Tables, gid: GroupId, (user, device): (UserId, DeviceId), row: &MemberRow) -> Standing {
    let current = row.is_member();
    Standing {
        name: called(tables, gid, user),
        role: if current { translate::role(row.role) } else { 0 },
        members: if current { u32::try_from(tables.member_count(gid)).unwrap_or(u32::MAX) } else { 0 },
        head: tables.visible_head(user, gid),
        cursor: tables.cursor(gid, user, device).map(|row| row.msgid).unwrap_or_default(),
    }
}

/// What a group's row says beside its fields, for who belongs to it.
fn about(group: &GroupRow) -> Extensions {
    let topic = (!group.topic.is_empty()).then(|| (group_info::TOPIC, Bytes::from(group.topic.clone())));
    let policy = translate::policy_number(group.policy);
    let policy = (policy != 0).then(|| (group_info::POLICY, Bytes::copy_from_slice(&[policy])));
    Extensions(topic.into_iter().chain(policy).collect())
}

/// A user's row, which says more to that user alone.
fn of_user(session: &Session, user: UserId, row: &UserRow) -> UserInfo {
    let mut info = translate::user(user, row);
    let Switches(bits) = row.switches;
    if session.who() == Some(user) && bits != 0 {
        info.extensions.0.push((user_info::SWITCHES, Bytes::copy_from_slice(&[bits])));
    }
    info
}

/// The users of the server.
pub(crate) fn users(shared: &Shared, session: &Session, asked: &ListUsers) -> Result<UserList, Code> {
    let view = shared.view.read();
    view.tables.may(Verb::ListUsers, session.who()).map_err(translate::code)?;
    let mut users = view.tables.users(asked.after).map(|(user, row)| of_user(session, user, row));
    let rows = users.by_ref().take(limits::LIST_ROWS_MAX).collect();
    let more = users.next().is_some();
    Ok(UserList { rows: Rows(rows), more, extensions: Extensions::default() })
}

/// The handles of these users.
pub(crate) fn names(shared: &Shared, session: &Session, asked: &Names) -> Result<UserList, Code> {
    if asked.users.len() > limits::LIST_ROWS_MAX {
        return Err(Code::TooLarge);
    }
    let view = shared.view.read();
    view.tables.may(Verb::Names, session.who()).map_err(translate::code)?;
    let wanted: BTreeSet<UserId> = asked.users.iter().copied().collect();
    let known = |user: UserId| Some(of_user(session, user, view.tables.user(user)?));
    let rows = wanted.into_iter().filter_map(known).collect();
    Ok(UserList { rows: Rows(rows), more: false, extensions: Extensions::default() })
}

/// The devices of the caller, or for operators of anybody.
pub(crate) fn devices(shared: &Shared, session: &Session, asked: &ListDevices) -> Result<DeviceList, Code> {
    let view = shared.view.read();
    let tables = &view.tables;
    let user = match &asked.handle {
        None if session.device.is_some() => session.user,
        None => return Err(Code::HandleNeeded),
        Some(text) => {
            let handle = Handle::parse(text).map_err(|_| Code::NoSuchUser)?;
            tables.user_by_handle(&handle).ok_or(Code::NoSuchUser)?
        }
    };
    let verb = if user == session.user { Verb::ListOwnDevices } else { Verb::ListOthersDevices };
    tables.may(verb, session.who()).map_err(translate::code)?;
    let online: BTreeSet<DeviceId> =
        shared.registry.of_user(user).into_iter().filter_map(|session| session.device).collect();
    let mut devices = tables.devices_of(user, asked.after).map(|(device, row)| DeviceInfo {
        device,
        name: row.name.clone(),
        enrolled_ms: row.enrolled_ms,
        revoked: row.revoked_ms.is_some(),
        online: online.contains(&device),
        extensions: Extensions::default(),
    });
    let rows = devices.by_ref().take(limits::LIST_ROWS_MAX).collect();
    let more = devices.next().is_some();
    Ok(DeviceList { rows: Rows(rows), more, extensions: Extensions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::command::Command;
    use crate::core::state::tests::World;
    use crate::wire::codec;

    #[test]
    fn a_list_of_groups_with_the_longest_names_and_topics_comes_in_pages_that_fit_a_frame() {
        let mut world = World::new();
        let anna = world.user("anna");
        for _ in 0..limits::LIST_ROWS_MAX + 1 {
            let group = world.group(anna);
            let (name, topic) = ("n".repeat(limits::GROUP_NAME_BYTES_MAX), "t".repeat(limits::GROUP_TOPIC_BYTES_MAX));
            world.run(Command::RenameGroup { by: anna, group, name });
            world.run(Command::SetTopic { by: anna, group, topic });
        }
        let (mut listed, mut pages, mut after) = (Vec::new(), 0, GroupId::ZERO);
        loop {
            let page = groups_of(&world.tables, (world.user_of(anna), anna), after);
            let bytes = codec::encode(1, &page).unwrap().len();
            assert!(bytes <= limits::FRAME_BYTES_MAX && !page.rows.0.is_empty(), "{bytes} bytes");
            listed.extend(page.rows.0.iter().map(|row| row.gid));
            (pages, after) = (pages + 1, *listed.last().unwrap());
            if !page.more {
                break;
            }
        }
        let all: Vec<GroupId> = world.tables.groups_of(world.user_of(anna), GroupId::ZERO).collect();
        assert_eq!((listed.len(), pages), (limits::LIST_ROWS_MAX + 1, 2));
        assert_eq!(listed, all);
    }
}
