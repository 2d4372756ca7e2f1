//! `gaggle skip`: moves this device's mark on purpose.

use clap::Args;
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;
use crate::ids::MessageId;

/// Examples, after the options.
pub const HELP: &str = "\
Everything up to and with msgid N counts as seen by this device; the mark goes forwards only. It prints the mark. What \
was passed over can be looked at with `gaggle pull`.

  gaggle skip team 1200";

/// What `skip` takes.
#[derive(Debug, Clone, Args)]
pub struct SkipArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The last msgid to pass over
    #[arg(value_name = "N")]
    pub msgid: u64,
}

#[derive(Debug, Serialize)]
struct SkipJson {
    group: String,
    cursor: u64,
}

/// Moves the mark.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, args: &SkipArgs) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    let group = context::group(&client, &profile, &args.group).await?;
    let cursor = client.skip(group, MessageId::new(args.msgid)).await;
    let cursor = cursor?.value();
    context.output.record(&cursor.to_string(), &SkipJson { group: group.to_string(), cursor })?;
    let words = if cursor > args.msgid { "was seen already up to" } else { "counts as seen up to" };
    context.output.words(&format!("{} {words} {cursor}", visible::name(&args.group)));
    Ok(Exit::Done)
}
