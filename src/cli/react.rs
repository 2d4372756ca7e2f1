//! `gaggle react`: reacts to a message, or takes that back.

use clap::Args;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::send;
use crate::client::Say;
use crate::ids::MessageId;

/// Examples, after the options.
pub const HELP: &str = "\
A reaction is an emoji or a word, 64 bytes at most. The same one again changes no count, though `gaggle tail` shows that \
it was said; several different ones stand side by side. It makes nothing unread for anybody. It prints the msgid of the reaction.

  gaggle react team 42 👍
  gaggle react team 42 👍 --remove";

/// What `react` takes.
#[derive(Debug, Clone, Args)]
pub struct ReactArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message, by its msgid
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub msgid: u64,
    /// The reaction
    pub reaction: String,
    /// Take it back
    #[arg(long)]
    pub remove: bool,
}

/// Reacts.
///
/// # Errors
/// Where the group is unknown or the profile cannot be used.
pub async fn run(context: &Context, args: &ReactArgs) -> Result<Exit, CliError> {
    let (target, reaction) = (MessageId::new(args.msgid), args.reaction.clone());
    let what = if args.remove { Say::Unreact { target, reaction } } else { Say::React { target, reaction } };
    send::about(context, &args.group, &what, &[]).await
}
