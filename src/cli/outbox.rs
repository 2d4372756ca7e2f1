//! `gaggle outbox`: shows, sends and withdraws what this profile has still to send.

use clap::{Args, Subcommand};

use crate::ids::ClientSeq;

/// What can be done to the outbox.
#[derive(Debug, Clone, Subcommand)]
pub enum OutboxCommand {
    /// List what is not answered yet
    #[command(after_long_help = "\
It needs no connection. It prints one line a message: its number here, its group, its state, its text. The states: \
waiting (never tried, can be dropped), tried (it may be on the server; it is sent again under the same number and \
stored once), unknown (the server no longer knows whether it was stored; look with `gaggle pull`, then drop it).

  gaggle outbox list")]
    List,
    /// Send what is waiting, now
    #[command(after_long_help = "\
It prints the msgid of each message once the server has it on disk, in the order they were queued.

  gaggle outbox flush")]
    Flush,
    /// Withdraw what was never tried, or forget what ended
    #[command(after_long_help = "\
Only what was never tried can be withdrawn: what was tried may be on the server already.

  gaggle outbox drop s5
  gaggle outbox drop --all")]
    Drop(DropArgs),
}

/// What `outbox drop` takes.
#[derive(Debug, Clone, Args)]
pub struct DropArgs {
    /// Which, as `gaggle outbox list` prints them: s5
    #[arg(required_unless_present = "all", value_name = "NUMBER")]
    pub numbers: Vec<ClientSeq>,
    /// Everything that was never tried
    #[arg(long, conflicts_with = "numbers")]
    pub all: bool,
}
