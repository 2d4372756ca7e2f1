//! `gaggle dm`: a message to one user, or to oneself.

use clap::Args;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::send::{self, Sending, Target};

/// Examples, after the options.
pub const HELP: &str = "\
Every two users have a chat of their own; nobody has to make it, and nobody else can come in. With your own handle it \
is a notebook. It prints what gaggle send prints, and queues and ends like that, but for the first message to somebody: where \
the server is out of reach and this profile knows of no chat with them, nothing is queued. Read it with tail and pull like a \
group, by the other's handle.

  gaggle dm bob lunch at noon?
  gaggle dm bob -- \"- a list\"
  git log -1 -p | gaggle dm bob --whole
  gaggle pull bob --last 20";

/// What `dm` takes.
#[derive(Debug, Clone, Args)]
pub struct DmArgs {
    /// To whom; your own handle is a notebook
    pub handle: String,
    /// The message, words are put together with blanks; - or nothing reads stdin
    pub text: Vec<String>,
    /// All of stdin is one message
    #[arg(long)]
    pub whole: bool,
    /// Do not queue: where the server cannot be reached, nothing is kept for later
    #[arg(long)]
    pub no_queue: bool,
}

/// Sends.
///
/// # Errors
/// Where there is nothing to send, there is no such user, or the profile cannot be used.
pub async fn run(context: &Context, args: &DmArgs) -> Result<Exit, CliError> {
    let text = if args.text.is_empty() { None } else { Some(args.text.join(" ")) };
    let sending = Sending { text: text.as_deref(), whole: args.whole, no_queue: args.no_queue, mention: &[] };
    send::send(context, Target::User(&args.handle), sending).await
}
