//! The commands of `gaggle group` that change what somebody may do: roles, muting, bans, topic, what newcomers see.

use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::group::{MemberArgs, PolicyArg, tell};
use crate::cli::user::WhoArg;
use crate::cli::{trouble, visible};
use crate::client::{Client, Group, History, Member, Profile, RequestError, Role, Who};
use crate::ids::{GroupId, MessageId};
use crate::wire::code::Code;

/// What is done to somebody, beside their role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// They only read.
    Mute,
    /// They speak again.
    Unmute,
    /// They are out for good.
    Ban,
    /// They can be added again.
    Unban,
}

#[derive(Debug, Serialize)]
struct TopicJson<'a> {
    group: String,
    topic: &'a str,
}

#[derive(Debug, Serialize)]
struct PolicyJson {
    group: String,
    policy: &'static str,
}

#[derive(Debug, Serialize)]
struct AddedByJson {
    added_by: &'static str,
}

/// Which way a role is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To a higher one.
    Up,
    /// To a lower one.
    Down,
}

/// Gives a higher or a lower role.
///
/// # Errors
/// Where the member's role is beyond that already, or the server refuses or is out of reach.
pub async fn role(
    context: &Context,
    profile: &Profile,
    client: &Client,
    MemberArgs { group, handle }: &MemberArgs,
    (way, role): (Way, Role),
) -> Result<Exit, CliError> {
    let id = context::group(client, profile, group).await?;
    let named = handle.to_ascii_lowercase();
    // Of whom it finds no member the server says what they are.
    if let Some(member) = client.members(id).await?.iter().find(|member| member.handle == named) {
        beyond(id, member, (way, role))?;
    }
    let changed = client.set_role(id, handle, role).await;
    let msgid = done(client, id, changed).await?;
    let now = if msgid == MessageId::ZERO { "is already" } else { "is now" };
    let (handle, role, group) = (visible::name(handle), role.name(), visible::name(group));
    tell(context, id, msgid, &format!("{handle} {now} {role} of {group}"))
}

/// Refuses a change that would go the other way.
fn beyond(group: GroupId, member: &Member, (way, role): (Way, Role)) -> Result<(), CliError> {
    let (Some(now), Some(then)) = (height(member.role), height(role)) else { return Ok(()) };
    let (is_beyond, higher_or_lower, other) = match way {
        Way::Up => (now > then, "higher", "demote"),
        Way::Down => (now < then, "lower", "promote"),
    };
    if !is_beyond {
        return Ok(());
    }
    let (handle, is, role) = (visible::name(&member.handle), member.role.name(), role.name());
    Err(CliError::refused(format!("{handle} is {is} of {group}, and {role} is no {higher_or_lower} role"))
        .advise(format!("gaggle group {other} {group} {handle} --to {role}")))
}

/// How high a role is; none of one that this version does not know.
const fn height(role: Role) -> Option<u8> {
    match role {
        Role::Owner => Some(3),
        Role::Admin => Some(2),
        Role::Member => Some(1),
        Role::Former | Role::Other(_) => None,
    }
}

/// Mutes, bans, or takes either back.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn change(
    context: &Context,
    profile: &Profile,
    client: &Client,
    MemberArgs { group, handle }: &MemberArgs,
    change: Change,
) -> Result<Exit, CliError> {
    let id = context::group(client, profile, group).await?;
    let (changed, what) = match change {
        Change::Mute => (client.mute(id, handle).await, "only reads now, in"),
        Change::Unmute => (client.unmute(id, handle).await, "can speak in"),
        Change::Ban => (client.ban(id, handle).await, "is banned from"),
        Change::Unban => (client.unban(id, handle).await, "can be added to"),
    };
    let msgid = done(client, id, changed).await?;
    tell(context, id, msgid, &format!("{} {what} {}", visible::name(handle), visible::name(group)))
}

/// What was done to a member. Of who is not in the group the server does not say whether it is they or who asks; to one
/// of the two it lists the members.
///
/// # Errors
/// Where it was not done.
pub async fn done(
    client: &Client,
    group: GroupId,
    changed: Result<MessageId, RequestError>,
) -> Result<MessageId, CliError> {
    let absent = matches!(&changed, Err(RequestError::Refused(refusal)) if refusal.is(Code::NotMember));
    if absent && client.members(group).await.is_ok() {
        return Err(CliError::refused("they are not in the group").advise("gaggle group members GROUP shows who is"));
    }
    Ok(changed?)
}

/// Shows or sets what a group is about.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn topic(
    context: &Context,
    profile: &Profile,
    client: &Client,
    group: &str,
    text: Option<&str>,
) -> Result<Exit, CliError> {
    let Some(text) = text else {
        let Group { group, topic, .. } = one(client, profile, group).await?;
        context.output.record(&visible::name(&topic), &TopicJson { group: group.to_string(), topic: &topic })?;
        return Ok(Exit::Done);
    };
    let id = context::group(client, profile, group).await?;
    let line = "a topic is at most 512 bytes on one line, with something to see and nothing that turns its direction";
    let set = client.set_topic(id, text).await;
    let msgid = set.map_err(|error| trouble::advised(error, &[(Code::BadName, line)]))?;
    let group = visible::name(group);
    let words = if text.trim().is_empty() {
        format!("{group} has no topic now")
    } else {
        format!("{group} is about \"{}\" now", visible::name(text.trim()))
    };
    tell(context, id, msgid, &words)
}

/// Shows or sets what newcomers see.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn policy(
    context: &Context,
    profile: &Profile,
    client: &Client,
    group: &str,
    policy: Option<PolicyArg>,
) -> Result<Exit, CliError> {
    let Some(policy) = policy else {
        let Group { group, history, .. } = one(client, profile, group).await?;
        let policy = history.name();
        context.output.record(policy, &PolicyJson { group: group.to_string(), policy })?;
        return Ok(Exit::Done);
    };
    let history = match policy {
        PolicyArg::FromJoin => History::FromJoin,
        PolicyArg::FullHistory => History::Full,
    };
    let id = context::group(client, profile, group).await?;
    let msgid = client.set_history(id, history).await?;
    tell(context, id, msgid, &format!("who joins {} from now on: {}", visible::name(group), history.name()))
}

/// Shows or sets who may add the user to groups.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn added_by(context: &Context, client: &Client, who: Option<WhoArg>) -> Result<Exit, CliError> {
    if let Some(who) = who {
        client.set_added_by(Who::from(who)).await?;
    }
    let added_by = client.added_by().await?.name();
    context.output.record(added_by, &AddedByJson { added_by })?;
    Ok(Exit::Done)
}

/// A group of one's own, with all that is said of it.
async fn one(client: &Client, profile: &Profile, text: &str) -> Result<Group, CliError> {
    let groups = context::fetch(client, profile).await?;
    let id = context::among(client, &groups, text).await?;
    let found = groups.into_iter().find(|group| group.group == id);
    found.ok_or_else(|| trouble::refused_with(Code::NoSuchGroup))
}
