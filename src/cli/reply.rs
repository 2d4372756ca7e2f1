//! `gaggle reply`: a message that answers another.

use clap::Args;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::send;
use crate::client::Say;
use crate::ids::MessageId;

/// Examples, after the options.
pub const HELP: &str = "\
It is a message like any other and names the one that it answers; it holds nothing of what that said, so that nobody sees \
by it what they may not see. It prints the msgid of the reply.

Whether there is a message N that others may see is not asked: each sees the number, and the message where they may.

--mention looks the members up at the server: where that is out of reach, nothing is queued.

  gaggle reply team 42 \"so do I\"
  gaggle reply team 42 \"bob, is that right?\" --mention bob";

/// What `reply` takes.
#[derive(Debug, Clone, Args)]
pub struct ReplyArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message that is answered, by its msgid
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub msgid: u64,
    /// The answer; - reads stdin
    pub text: String,
    /// Mention a member of the group; several times for several
    #[arg(long, value_name = "HANDLE")]
    pub mention: Vec<String>,
}

/// Replies.
///
/// # Errors
/// Where the group is unknown or the profile cannot be used.
pub async fn run(context: &Context, args: &ReplyArgs) -> Result<Exit, CliError> {
    let reply_to = Some(MessageId::new(args.msgid));
    let what = Say::Text { text: send::text(&args.text)?, reply_to, mentions: Vec::new() };
    send::about(context, &args.group, &what, &args.mention).await
}
