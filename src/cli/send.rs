//! `gaggle send`: sends through the profile's outbox, so that a message is never lost between here and the server.

use clap::Args;

/// Examples, after the options.
pub const HELP: &str = "\
It prints the msgid of each message once the server has it on disk. A message is on this disk before it is sent, and \
is sent once, whatever breaks in between. If the server cannot be reached for 10 seconds it is queued: the command says \
so and ends with 3, and the next `gaggle send`, `gaggle tail` or `gaggle outbox flush` of this profile sends it.

With - (or nothing, and stdin not a terminal) each line of stdin is a message, empty lines are left out, and msgids are \
printed in the order of the lines. Text must be UTF-8, 64 KiB at most. A text that begins with - goes behind --.

  gaggle send team \"hello, everybody\"
  tail -f /var/log/app.log | gaggle send g7 -
  git log -1 -p | gaggle send team --whole
  gaggle send team -- \"- a list\"";

/// What `send` takes.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message, in quotes where it has spaces; - reads stdin
    pub text: Option<String>,
    /// All of stdin is one message
    #[arg(long)]
    pub whole: bool,
    /// Do not queue: where the server cannot be reached, nothing is kept for later
    #[arg(long)]
    pub no_queue: bool,
}
