//! `gaggle receipts`: who has received and who has read a message.

use clap::Args;
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::render;
use crate::client::Receipt;
use crate::ids::{MessageId, UserId};

/// Examples, after the options.
pub const HELP: &str = "\
It prints how many have read and how many have received it, of those who were in the group when it was sent, but for \
its author; then one line for each: user, how far, handle. Who joined later and sees all of the history is not counted.

  gaggle receipts team 1200";

/// What `receipts` takes.
#[derive(Debug, Clone, Args)]
pub struct ReceiptsArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message
    #[arg(value_name = "N")]
    pub msgid: u64,
}

#[derive(Debug, Serialize)]
struct CountsJson {
    group: String,
    msgid: u64,
    members: u32,
    received: u32,
    read: u32,
    silent: u32,
}

#[derive(Debug, Serialize)]
struct ReceiptJson<'a> {
    user: String,
    handle: &'a str,
    received: bool,
    read: bool,
}

/// Prints them.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, args: &ReceiptsArgs) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    let group = context::group(&client, &profile, &args.group).await?;
    let msgid = MessageId::new(args.msgid.min(MessageId::MAX.value()));
    let receipts = client.receipts(group, msgid).await?;
    let users: Vec<UserId> = receipts.users.iter().map(|receipt| receipt.user).collect();
    let names = client.names(&users).await?;
    let json = CountsJson {
        group: group.to_string(),
        msgid: msgid.value(),
        members: receipts.members,
        received: receipts.received,
        read: receipts.read,
        silent: receipts.silent,
    };
    let silent = if receipts.silent > 0 { format!(", {} do not say", receipts.silent) } else { String::new() };
    let (read, received, members) = (receipts.read, receipts.received, receipts.members);
    context.output.record(&format!("read by {read}, received by {received}, of {members}{silent}"), &json)?;
    for Receipt { user, received, read } in receipts.users {
        let handle = names.get(&user).map(String::as_str).unwrap_or_default();
        let how = if read {
            "read"
        } else if received {
            "received"
        } else {
            "-"
        };
        let text = format!("{:<4} {how:<8} {}", user.to_string(), render::who(user, &names));
        context.output.record(&text, &ReceiptJson { user: user.to_string(), handle, received, read })?;
    }
    Ok(Exit::Done)
}
