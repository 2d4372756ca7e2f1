//! `gaggle read`: moves your read mark, which all your devices share.

use clap::Args;
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;
use crate::ids::MessageId;

/// Examples, after the options.
pub const HELP: &str = "\
Without a msgid, or with one beyond the newest, everything there is counts as read. The mark goes forwards only, but for \
--unread, which puts it before the message that is named. It is yours, on all your devices, and apart from what this device has seen: nothing is \
passed over by it. It prints the mark.

  gaggle read team
  gaggle read team 1200
  gaggle read --unread team 1200";

/// What `read` takes.
#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The last msgid that counts as read; with --unread the first that does not
    #[arg(value_name = "N", required_if_eq("unread", "true"))]
    pub msgid: Option<u64>,
    /// Mark that message, and all behind it, as unread: one that counts as read
    #[arg(long)]
    pub unread: bool,
}

#[derive(Debug, Serialize)]
struct ReadJson {
    group: String,
    read: u64,
    version: u64,
}

/// Moves the mark.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, args: &ReadArgs) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    let group = context::group(&client, &profile, &args.group).await?;
    let named = MessageId::new(args.msgid.unwrap_or(u64::MAX).min(MessageId::MAX.value()));
    let mark = if args.unread {
        let before = client.read_mark(group).await?;
        if named.previous() > before.msgid {
            let up_to =
                format!("what counts as read in {} ends with {}", visible::name(&args.group), before.msgid.value());
            return Err(CliError::refused(up_to).advise("name a message up to there, the first that is to be unread"));
        }
        client.mark_unread(group, named.previous(), before.version).await?
    } else {
        client.mark_read(group, named, u64::MAX).await?
    };
    let read = mark.msgid.value();
    context.output.record(&read.to_string(), &ReadJson { group: group.to_string(), read, version: mark.version })?;
    context.output.words(&format!("{} counts as read up to {read}", visible::name(&args.group)));
    Ok(Exit::Done)
}
