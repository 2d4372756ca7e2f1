//! `gaggle user`: what one wants to be called and lets others know; and for operators: shuts users out, lets them in
//! again, deletes them.

use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::{trouble, visible};
use crate::client::{Group, RequestError, Role, Who};
use crate::limits::STAYS_ENDED_AT_ONCE;
use crate::wire::code::Code;

/// What can be done to users.
#[derive(Debug, Clone, Subcommand)]
pub enum UserCommand {
    /// Say what you want to be called
    #[command(after_long_help = "\
It is shown beside your handle in lists of users and members; only the handle says who you are. It may have any \
letters, signs and symbols, and blanks between them. Nobody is told of a change.

  gaggle user name \"Alice Liddell\"
  gaggle user name \"\"                    by your handle alone")]
    Name {
        /// What: at most 128 bytes
        text: String,
    },
    /// Say who is told that you are there, and that you type, or show it
    #[command(after_long_help = "\
Without a word it prints what is set: everyone (who is in a group with you), or nobody. It is for all your devices.

  gaggle user presence
  gaggle user presence nobody")]
    Presence {
        /// Who
        who: Option<WhoArg>,
    },
    /// Say who is told what you have received and read, or show it
    #[command(after_long_help = "\
Without a word it prints what is set: everyone (who may see the message), or nobody. It is for all your devices; among \
them what you have read is always told.

  gaggle user receipts
  gaggle user receipts nobody")]
    Receipts {
        /// Who
        who: Option<WhoArg>,
    },
    /// Shut a user out until they are reactivated: all their connections close within 2 seconds
    #[command(after_long_help = "\
Operators only. Nothing of theirs is lost: groups, what they have not seen yet, and devices stay as they are, and what \
waits in their outbox waits on. Links that they made for others open nothing meanwhile.

  gaggle user deactivate bob
  gaggle --operator user deactivate bob        on the server's machine, without a device")]
    Deactivate {
        /// The user's handle
        handle: String,
    },
    /// Let a user in again; they find everything as it was
    #[command(after_long_help = "\
Operators only.

  gaggle user reactivate bob")]
    Reactivate {
        /// The user's handle
        handle: String,
    },
    /// Delete a user for ever
    #[command(after_long_help = "\
Operators only. They are shut out at once, leave all their groups and lose all their devices. What they wrote stays, \
under their handle with \"(deleted)\" behind it. A group whose last owner they were gets another. The handle is \
reserved: nobody can have it until it is freed. There is no way back; to keep somebody out for a while there is \
`gaggle user deactivate`. Who is in more than 256 groups cannot delete themselves: another operator can.

  gaggle user delete bob")]
    Delete {
        /// The user's handle
        handle: String,
    },
    /// Let somebody new have the handle of a deleted user
    #[command(after_long_help = "\
Operators only. Whoever joins by it is a new user, who sees nothing of the old one; but others may take them for the \
old one, so wait until nobody does.

  gaggle user free-handle bob
  gaggle invite bob")]
    FreeHandle {
        /// The handle
        handle: String,
    },
}

#[derive(Debug, Serialize)]
struct DoneJson<'a> {
    handle: &'a str,
}

/// Who does something with you, or is told something of you.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhoArg {
    /// Everybody whom it concerns
    Everyone,
    /// No one
    Nobody,
}

#[derive(Debug, Serialize)]
struct ToldJson {
    told_to: &'static str,
}

#[derive(Debug, Serialize)]
struct NamedJson<'a> {
    name: &'a str,
}

/// Does it.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, command: &UserCommand) -> Result<Exit, CliError> {
    let (handle, words) = match command {
        UserCommand::Name { text } => return name(context, text).await,
        UserCommand::Presence { who } => {
            let (_, client) = context.member().await?;
            if let Some(who) = who {
                client.set_presence(Who::from(*who)).await?;
            }
            return told(context, client.presence().await?);
        }
        UserCommand::Receipts { who } => {
            let (_, client) = context.member().await?;
            if let Some(who) = who {
                client.set_receipts(Who::from(*who)).await?;
            }
            return told(context, client.receipts_told_to().await?);
        }
        UserCommand::Deactivate { handle } => {
            context.anyone().await?.deactivate_user(handle).await.map_err(trouble::of_operators)?;
            (handle, "is shut out; gaggle user reactivate lets them in again")
        }
        UserCommand::Reactivate { handle } => {
            context.anyone().await?.reactivate_user(handle).await.map_err(trouble::of_operators)?;
            (handle, "may come in again")
        }
        UserCommand::Delete { handle } => {
            let client = context.anyone().await?;
            if client.connected().await?.handle.eq_ignore_ascii_case(handle) {
                let is_in = |group: &Group| group.role != Role::Former;
                may_delete_themselves(client.groups().await?.iter().filter(|group| is_in(group)).count())?;
            }
            client.delete_user(handle).await.map_err(trouble::of_operators)?;
            (handle, "is deleted; the handle is reserved until gaggle user free-handle")
        }
        UserCommand::FreeHandle { handle } => {
            context.anyone().await?.free_handle(handle).await.map_err(not_freed)?;
            (handle, "is free: gaggle invite makes a link for somebody new")
        }
    };
    context.output.record("", &DoneJson { handle })?;
    context.output.words(&format!("{} {words}", visible::name(handle)));
    Ok(Exit::Done)
}

/// Who is in more groups is shut out before all of it is done, and hears nothing of the rest.
fn may_delete_themselves(groups: usize) -> Result<(), CliError> {
    if groups <= STAYS_ENDED_AT_ONCE {
        return Ok(());
    }
    let words = format!("you are in {groups} groups, and who deletes themselves may be in {STAYS_ENDED_AT_ONCE}");
    Err(CliError::refused(words).advise("leave some of them first, or ask another operator to delete you"))
}

/// Only what a deleted user leaves behind can be freed.
fn not_freed(error: RequestError) -> CliError {
    let deleted = "gaggle users --all shows the deleted users, and whose handles are free already";
    let taken = "it is somebody's who is not deleted; it can be freed after gaggle user delete";
    let advice =
        [(Code::NotAllowed, trouble::OPERATORS_ALONE), (Code::NoSuchUser, deleted), (Code::HandleTaken, taken)];
    trouble::advised(error, &advice)
}

impl From<WhoArg> for Who {
    fn from(who: WhoArg) -> Who {
        match who {
            WhoArg::Everyone => Who::Everyone,
            WhoArg::Nobody => Who::Nobody,
        }
    }
}

fn told(context: &Context, told_to: Who) -> Result<Exit, CliError> {
    let told_to = told_to.name();
    context.output.record(told_to, &ToldJson { told_to })?;
    Ok(Exit::Done)
}

async fn name(context: &Context, text: &str) -> Result<Exit, CliError> {
    let (_, client) = context.member().await?;
    client.set_name(text).await?;
    context.output.record("", &NamedJson { name: text })?;
    let words = if text.is_empty() {
        "you are called by your handle alone now".to_owned()
    } else {
        format!("you are called \"{}\" now, beside your handle", visible::name(text.trim()))
    };
    context.output.words(&words);
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_too_many_groups_is_told_so_before_they_are_shut_out_half_deleted() {
        assert_eq!(may_delete_themselves(STAYS_ENDED_AT_ONCE), Ok(()));
        let error = may_delete_themselves(STAYS_ENDED_AT_ONCE + 1).unwrap_err();
        assert_eq!(error.exit(), Exit::Refused);
        assert!(error.to_string().contains("in 257 groups"), "{error}");
    }
}
