//! `gaggle who`: who of a group is there now.

use clap::Args;
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;

/// Examples, after the options.
pub const HELP: &str = "\
It prints one line a member who is there now: user, handle, and what they want to be called. Somebody is there while one \
of their devices listens (gaggle tail), unless they keep it to themselves (gaggle user presence nobody). What it says may have changed a moment later.

  gaggle who team";

/// What `who` takes.
#[derive(Debug, Clone, Args)]
pub struct WhoArgs {
    /// The group: g7, or its name
    pub group: String,
}

#[derive(Debug, Serialize)]
struct OnlineJson<'a> {
    user: String,
    handle: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

/// Prints them.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, args: &WhoArgs) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    let group = context::group(&client, &profile, &args.group).await?;
    let online = client.online(group).await?;
    for user in client.people(&online).await? {
        let json = OnlineJson { user: user.user.to_string(), handle: &user.handle, name: user.name.as_deref() };
        let who = visible::person(&user.handle, user.name.as_deref());
        context.output.record(&format!("{:<4} {who}", user.user.to_string()), &json)?;
    }
    Ok(Exit::Done)
}
