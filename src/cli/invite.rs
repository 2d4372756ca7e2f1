//! `gaggle invite`: makes a link by which a new user joins.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::{trouble, visible, when};
use crate::client::Invite;
use crate::clock;
use crate::wire::code::Code;

/// Examples, after the options.
pub const HELP: &str = "\
For operators: the first user is one, and who has the server's keys (--operator). Who is on the server already is brought \
into a group by `gaggle group add`.

It prints the link, in quotes, ready to be pasted behind `gaggle join`. Send it by a road you trust: whoever uses it \
first is that user. Another device of somebody who has joined is `gaggle devices add`.

  gaggle invite bob --group team
  gaggle invite carol --expires 7d";

/// What `invite` takes.
#[derive(Debug, Clone, Args)]
pub struct InviteArgs {
    /// The handle of the new user
    pub handle: String,
    /// A group of yours that they join at once
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// How long the link is good for: 90s, 30m, 24h, 7d; at most 30d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = when::parse_span)]
    pub expires: Duration,
}

#[derive(Debug, Serialize)]
struct InviteJson<'a> {
    link: &'a str,
    handle: Option<&'a str>,
    expires_ms: u64,
}

/// Makes the link and prints it.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, args: &InviteArgs) -> Result<Exit, CliError> {
    let (client, group) = match &args.group {
        None => (context.anyone().await?, None),
        Some(named) => {
            let (profile, client) = context.member().await?;
            let group = context::group(&client, &profile, named).await?;
            (client, Some(group))
        }
    };
    let only_operators = if group.is_some() {
        "operators alone invite (gaggle users shows them), into a group only where they are its owner or admin; to bring in \
         who is on the server: gaggle group add"
    } else {
        trouble::OPERATORS_ALONE
    };
    let taken = "for who is on the server already: gaggle group add GROUP HANDLE, or another device by gaggle devices add; \
                 for somebody new choose another handle, or free that of a deleted user: gaggle user free-handle";
    let advice = [(Code::NotAllowed, only_operators), (Code::HandleTaken, taken)];
    let invite = client.invite(&args.handle, group, args.expires).await;
    let invite = invite.map_err(|error| trouble::advised(error, &advice))?;
    print(context, &invite, Some(&args.handle))
}

/// Prints a link, in quotes, and how long it is good for.
///
/// # Errors
/// Where stdout cannot be written.
pub fn print(context: &Context, invite: &Invite, handle: Option<&str>) -> Result<Exit, CliError> {
    let json = InviteJson { link: &invite.link, handle, expires_ms: invite.expires_ms };
    context.output.record(&format!("\"{}\"", visible::name(&invite.link)), &json)?;
    let left = when::span(invite.expires_ms.saturating_sub(clock::now_ms()).saturating_add(999));
    context.output.words(&format!("it works once, within {left}: gaggle join \"LINK\""));
    Ok(Exit::Done)
}
