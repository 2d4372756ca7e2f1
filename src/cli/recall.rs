//! `gaggle recall`: takes a message back.

use clap::Args;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::send;
use crate::client::Say;
use crate::ids::MessageId;

/// Examples, after the options.
pub const HELP: &str = "\
What the message said, and what its edits said, is gone from the server and shown to nobody any more; that there was one, \
from whom and when, stays. Devices that have it already are told, and forget it. It prints the msgid of the recall. You \
recall what you wrote; admins and owners of the group recall what anybody wrote. There is no way back.

  gaggle recall team 42";

/// What `recall` takes.
#[derive(Debug, Clone, Args)]
pub struct RecallArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message, by its msgid
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub msgid: u64,
}

/// Recalls a message.
///
/// # Errors
/// Where the group is unknown or the profile cannot be used.
pub async fn run(context: &Context, args: &RecallArgs) -> Result<Exit, CliError> {
    send::about(context, &args.group, &Say::Recall(MessageId::new(args.msgid)), &[]).await
}
