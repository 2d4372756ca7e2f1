//! `gaggle edit`: another text in place of a message of one's own.

use clap::Args;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::send;
use crate::client::Say;
use crate::ids::MessageId;

/// Examples, after the options.
pub const HELP: &str = "\
The message keeps its place and its msgid; from now on everybody is shown the new text, and that it was edited. Whoever \
was away learns of it like of a message. It prints the msgid of the edit. Only you edit what you wrote, for a week unless \
the server says otherwise, 64 times at most. A message that was recalled stays so.

  gaggle edit team 42 \"hello, everybody\"
  gaggle edit g7 42 - < corrected.txt";

/// What `edit` takes.
#[derive(Debug, Clone, Args)]
pub struct EditArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message, by its msgid
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub msgid: u64,
    /// What it says from now on; - reads stdin
    pub text: String,
}

/// Edits a message.
///
/// # Errors
/// Where the group is unknown or the profile cannot be used.
pub async fn run(context: &Context, args: &EditArgs) -> Result<Exit, CliError> {
    let target = MessageId::new(args.msgid);
    let what = Say::Edit { target, text: send::text(&args.text)? };
    send::about(context, &args.group, &what, &[]).await
}
