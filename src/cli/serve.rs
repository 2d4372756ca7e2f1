//! `gaggle serve`: runs the server until a signal ends it. All it does itself is to say where the server listens, how
//! to join, and how it ended.

use std::path::PathBuf;

use clap::Args;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};

/// Examples, after the options.
pub const HELP: &str = "\
Nothing is needed before the first start: keys are made in certs/, messages are kept in data/. Both belong to every \
backup; without certs/ nobody's device finds the server again.

Until an operator's device exists each start makes a link for the first one (certs/first-invite.txt, readable by you \
alone) and prints it where stderr is a terminal. Whoever joins by it is the operator and invites the others.

SIGINT (Ctrl-C) or SIGTERM ends it in order: what was sent is on disk and answered, clients are told. A second signal \
ends it at once; what was answered is on disk all the same.

It prints where it listens, and its pin, on stderr; with --json one line on stdout once it can be reached.

  gaggle serve
  gaggle serve --listen 0.0.0.0:443 --advertise chat.example.org:443";

/// What `serve` takes.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// UDP address and port; [::] is IPv6 and IPv4
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:4433")]
    pub listen: String,
    /// Where messages are kept
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub data: PathBuf,
    /// What invite links say [default: localhost and the port]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Accept that the key in certs/ is another than before; every device must then be invited anew
    #[arg(long)]
    pub new_pin: bool,
}

/// Serves.
///
/// # Errors
/// Where it does not start, or ends by a fault.
pub async fn run(_context: &Context, _args: &ServeArgs) -> Result<Exit, CliError> {
    Err(CliError::failed("this build has no server"))
}
