//! `gaggle group`: makes groups, shows them, changes who is in them.

use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::known::Known;
use crate::cli::membership::{self, Change, Way};
use crate::cli::user::WhoArg;
use crate::cli::{trouble, visible};
use crate::client::{Client, ConversationInfo, History, Profile, Role};
use crate::ids::{GroupId, MessageId};
use crate::wire::code::Code;

/// What can be done to groups.
#[derive(Debug, Clone, Subcommand)]
pub enum GroupCommand {
    /// Make a group; you are its owner
    #[command(after_long_help = "\
It prints the new group's id.

  gaggle group create team
  gaggle group create \"reading circle\" --full-history")]
    Create(CreateArgs),
    /// List your groups
    #[command(after_long_help = "\
It prints one line a group: id, your role, members, up to where this device has seen how much there is, how many \
messages you have not read on any device and how many of those mention you, name; a chat of two has direct in place of \
your role, and is called as the other, with (deleted) behind where they are.

  gaggle group list")]
    List,
    /// List who is in a group
    #[command(after_long_help = "\
It prints one line a member: user, role, handle, and what they want to be called.

  gaggle group members team")]
    Members {
        /// The group: g7, or its name
        group: String,
    },
    /// Add a user to a group
    #[command(after_long_help = "  gaggle group add team bob")]
    Add(MemberArgs),
    /// Remove a member from a group
    #[command(after_long_help = "\
They keep what they have seen, and see their removal, and nothing after it.

  gaggle group remove team bob")]
    Remove(MemberArgs),
    /// Leave a group
    #[command(after_long_help = "  gaggle group leave team")]
    Leave {
        /// The group: g7, or its name
        group: String,
    },
    /// Give a member a higher role
    #[command(after_long_help = "\
Owners do it. Admins add and remove members, mute and ban them, and change name and topic; owners do that to admins as \
well, give roles, and say what newcomers see.

  gaggle group promote team bob
  gaggle group promote team bob --to owner")]
    Promote(PromoteArgs),
    /// Give a member a lower role, or yourself
    #[command(after_long_help = "\
Owners do it to anyone, everybody to themselves. A group keeps an owner: the last one makes somebody else an owner \
first, or leaves; then the admin who is there longest takes over, else the member who is.

  gaggle group demote team bob
  gaggle group demote team bob --to admin")]
    Demote(DemoteArgs),
    /// Let a member only read
    #[command(after_long_help = "\
They read on, and can leave; what they send is refused. It ends when they leave, or by unmute. Nobody mutes an owner.

  gaggle group mute team bob")]
    Mute(MemberArgs),
    /// Let a muted member speak again
    #[command(after_long_help = "  gaggle group unmute team bob")]
    Unmute(MemberArgs),
    /// Remove somebody for good
    #[command(after_long_help = "\
Nobody can add them again until unban. They keep what they have seen; to all others it looks like a removal. Somebody \
who has left can be banned too.

  gaggle group ban team bob")]
    Ban(MemberArgs),
    /// Let somebody who was banned be added again
    #[command(after_long_help = "  gaggle group unban team bob")]
    Unban(MemberArgs),
    /// Show what a group is about, or say it
    #[command(after_long_help = "\
Without TEXT it prints the topic. An empty TEXT takes it away.

  gaggle group topic team
  gaggle group topic team \"what we eat today\"
  gaggle group topic team \"\"")]
    Topic {
        /// The group: g7, or its name
        group: String,
        /// What it is about
        text: Option<String>,
    },
    /// Show what those see who join next, or say it
    #[command(after_long_help = "\
Without POLICY it prints the one in force. from-join: what comes after they join. full-history: everything before as \
well. Who is in the group keeps what they joined under.

  gaggle group policy team
  gaggle group policy team full-history")]
    Policy {
        /// The group: g7, or its name
        group: String,
        /// What they see
        policy: Option<PolicyArg>,
    },
    /// Show who may add you to groups, or say it
    #[command(after_long_help = "\
Without WHO it prints what is in force. everyone: owners and admins, to their groups. nobody: no one can; groups that you \
are in, and messages sent to you alone, go on.

  gaggle group added-by
  gaggle group added-by nobody")]
    AddedBy {
        /// Who may
        who: Option<WhoArg>,
    },
    /// Give a group another name
    #[command(after_long_help = "  gaggle group rename team \"the team\"")]
    Rename {
        /// The group: g7, or its name
        group: String,
        /// Its new name
        name: String,
    },
}

/// What `group create` takes.
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// Its name: anything with a visible character that does not look like an id (g7)
    pub name: String,
    /// Those who join later also see everything from before
    #[arg(long)]
    pub full_history: bool,
}

/// What `group promote` takes.
#[derive(Debug, Clone, Args)]
pub struct PromoteArgs {
    /// Which group, and whom
    #[command(flatten)]
    pub member: MemberArgs,
    /// The role
    #[arg(long, value_enum, default_value_t = Higher::Admin)]
    pub to: Higher,
}

/// What `group demote` takes.
#[derive(Debug, Clone, Args)]
pub struct DemoteArgs {
    /// Which group, and whom
    #[command(flatten)]
    pub member: MemberArgs,
    /// The role
    #[arg(long, value_enum, default_value_t = Lower::Member)]
    pub to: Lower,
}

/// Roles above a plain member's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Higher {
    /// Everything
    Owner,
    /// Everything but what concerns owners and admins
    Admin,
}

/// Roles below an owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lower {
    /// Everything but what concerns owners and admins
    Admin,
    /// Sends and reads
    Member,
}

/// What newcomers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// What comes after they join
    FromJoin,
    /// Everything before as well
    FullHistory,
}

/// Which group, and whom.
#[derive(Debug, Clone, Args)]
pub struct MemberArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The user's handle
    pub handle: String,
}

#[derive(Debug, Serialize)]
struct GroupJson<'a> {
    group: String,
    name: &'a str,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<u32>,
    head: u64,
    cursor: u64,
    read: u64,
    unread: u64,
    mentions: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    direct: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct MemberJson<'a> {
    user: String,
    handle: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    role: &'static str,
    joined: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    muted: bool,
}

#[derive(Debug, Serialize)]
struct ChangedJson<'a> {
    group: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msgid: Option<u64>,
}

/// Does it.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, command: &GroupCommand) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    act(context, &profile, &client, command).await
}

async fn act(context: &Context, profile: &Profile, client: &Client, command: &GroupCommand) -> Result<Exit, CliError> {
    match command {
        GroupCommand::Create(args) => create(context, profile, client, args).await,
        GroupCommand::List => list(context, profile, client).await,
        GroupCommand::Members { group } => {
            members(context, client, context::group(client, profile, group).await?).await
        }
        GroupCommand::Add(MemberArgs { group, handle }) => {
            let id = context::group(client, profile, group).await?;
            let msgid = client.add_member(id, handle).await?;
            tell(context, id, msgid, &format!("{} is in {} now", visible::name(handle), visible::name(group)))
        }
        GroupCommand::Remove(MemberArgs { group, handle }) => {
            let id = context::group(client, profile, group).await?;
            let removed = client.remove_member(id, handle).await;
            let msgid = membership::done(client, id, removed).await?;
            tell(context, id, msgid, &format!("{} is no longer in {}", visible::name(handle), visible::name(group)))
        }
        GroupCommand::Leave { group } => {
            let id = context::group(client, profile, group).await?;
            let msgid = client.leave_group(id).await?;
            tell(context, id, msgid, &format!("you have left {}", visible::name(group)))
        }
        GroupCommand::Promote(PromoteArgs { member, to }) => {
            let role = match to {
                Higher::Owner => Role::Owner,
                Higher::Admin => Role::Admin,
            };
            membership::role(context, profile, client, member, (Way::Up, role)).await
        }
        GroupCommand::Demote(DemoteArgs { member, to }) => {
            let role = match to {
                Lower::Admin => Role::Admin,
                Lower::Member => Role::Member,
            };
            membership::role(context, profile, client, member, (Way::Down, role)).await
        }
        GroupCommand::Mute(args) => membership::change(context, profile, client, args, Change::Mute).await,
        GroupCommand::Unmute(args) => membership::change(context, profile, client, args, Change::Unmute).await,
        GroupCommand::Ban(args) => membership::change(context, profile, client, args, Change::Ban).await,
        GroupCommand::Unban(args) => membership::change(context, profile, client, args, Change::Unban).await,
        GroupCommand::Topic { group, text } => {
            membership::topic(context, profile, client, group, text.as_deref()).await
        }
        GroupCommand::Policy { group, policy } => membership::policy(context, profile, client, group, *policy).await,
        GroupCommand::AddedBy { who } => membership::added_by(context, client, *who).await,
        GroupCommand::Rename { group, name } => {
            let id = context::group(client, profile, group).await?;
            let name = name.trim();
            let msgid = client.rename_group(id, name).await?;
            tell(context, id, msgid, &format!("{id} is called \"{}\" now", visible::name(name)))
        }
    }
}

async fn create(context: &Context, profile: &Profile, client: &Client, args: &CreateArgs) -> Result<Exit, CliError> {
    let history = if args.full_history { History::Full } else { History::FromJoin };
    // The blanks around it are no part of a name.
    let name = args.name.trim();
    let only_operators = "this server lets operators alone make groups: gaggle users shows who they are";
    let group = client.create_group(name, history).await;
    let group = group.map_err(|error| trouble::advised(error, &[(Code::NotAllowed, only_operators)]))?;
    let json = ChangedJson { group: group.to_string(), name: Some(name), msgid: None };
    context.output.record(&group.to_string(), &json)?;
    // It stood just now; without it, what everybody may do is said.
    let invites = client.connected().await.is_ok_and(|session| session.operator);
    let how = if invites {
        format!("gaggle invite HANDLE --group {group}")
    } else {
        format!("gaggle group add {group} HANDLE")
    };
    context.output.words(&format!("made \"{}\"; bring others in: {how}", visible::name(name)));
    let mut known = Known::load(profile);
    known.note(group, name);
    known.save(profile);
    Ok(Exit::Done)
}

async fn list(context: &Context, profile: &Profile, client: &Client) -> Result<Exit, CliError> {
    let listed = client.conversations(0).await?.conversations;
    let conversations: BTreeMap<GroupId, ConversationInfo> = listed.into_iter().map(|it| (it.group, it)).collect();
    let groups = context::fetch(client, profile).await?;
    let gone = context::of_deleted(client, &groups.iter().collect::<Vec<_>>()).await;
    for group in &groups {
        let is_direct = group.group.pair().is_some();
        let deleted = gone.contains(&group.group);
        // Of a group that was left nobody is told how many are in it.
        let members = Some(group.members).filter(|_| group.role != Role::Former);
        let talk = conversations.get(&group.group);
        let (unread, mentions) = talk.map_or((0, 0), |talk| (talk.unread, talk.mentions));
        let json = GroupJson {
            group: group.group.to_string(),
            name: &group.name,
            role: group.role.name(),
            members,
            head: group.head.value(),
            cursor: group.cursor.value(),
            read: talk.map_or(0, |talk| talk.mark.msgid.value()),
            unread,
            mentions,
            direct: is_direct,
            deleted,
            topic: &group.topic,
            policy: Some(group.history).filter(|history| *history == History::Full).map(History::name),
        };
        let text = format!(
            "{:<4} {:<7} {:>4} members  seen {} of {}  {}{}{}",
            group.group.to_string(),
            if is_direct { "direct" } else { group.role.name() },
            members.map_or_else(|| "?".to_owned(), |members| members.to_string()),
            group.cursor.value(),
            group.head.value(),
            waiting(unread, mentions),
            visible::name(&group.name),
            if deleted { " (deleted)" } else { "" }
        );
        context.output.record(&text, &json)?;
    }
    Ok(Exit::Done)
}

fn waiting(unread: u64, mentions: u64) -> String {
    match (unread, mentions) {
        (0, _) => String::new(),
        (unread, 0) => format!("{unread} unread  "),
        (unread, mentions) => format!("{unread} unread, {mentions} naming you  "),
    }
}

async fn members(context: &Context, client: &Client, group: GroupId) -> Result<Exit, CliError> {
    for member in client.members(group).await? {
        let json = MemberJson {
            user: member.user.to_string(),
            handle: &member.handle,
            name: member.name.as_deref(),
            role: member.role.name(),
            joined: member.joined.value(),
            muted: member.muted,
        };
        let muted = if member.muted { "  (muted)" } else { "" };
        let who = visible::person(&member.handle, member.name.as_deref());
        let text = format!("{:<4} {:<7} {who}{muted}", member.user.to_string(), member.role.name());
        context.output.record(&text, &json)?;
    }
    Ok(Exit::Done)
}

/// Says that a group was changed, by this item; zero: by none.
///
/// # Errors
/// Where stdout is gone.
pub fn tell(context: &Context, group: GroupId, msgid: MessageId, words: &str) -> Result<Exit, CliError> {
    let msgid = Some(msgid.value()).filter(|msgid| *msgid > 0);
    context.output.record("", &ChangedJson { group: group.to_string(), name: None, msgid })?;
    context.output.words(words);
    Ok(Exit::Done)
}
