//! `gaggle pull`: browses a group; nothing counts as seen by it.

use clap::Args;

/// Examples, after the options.
pub const HELP: &str = "\
It prints one item a line, oldest first: msgid, time, who, text. Without an option it prints everything you may see.

  gaggle pull team --last 20
  gaggle pull team --after 1200 --limit 100
  gaggle --json pull team > team.jsonl";

/// What `pull` takes.
#[derive(Debug, Clone, Args)]
pub struct PullArgs {
    /// The group: g7, or its name
    pub group: String,
    /// Begin behind this msgid
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// Only the newest N items
    #[arg(long, value_name = "N", conflicts_with = "after", value_parser = clap::value_parser!(u64).range(1..))]
    pub last: Option<u64>,
    /// At most N items
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}
