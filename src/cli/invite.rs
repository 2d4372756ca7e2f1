//! `gaggle invite`: makes a link by which a new user joins.

use std::time::Duration;

use clap::Args;

use crate::cli::when;

/// Examples, after the options.
pub const HELP: &str = "\
It prints the link, in quotes, ready to be pasted behind `gaggle join`. Send it by a road you trust: whoever uses it \
first is that user. Another device of somebody who has joined is `gaggle devices add`.

  gaggle invite bob --group team
  gaggle invite carol --expires 7d";

/// What `invite` takes.
#[derive(Debug, Clone, Args)]
pub struct InviteArgs {
    /// The handle of the new user
    pub handle: String,
    /// A group of yours that they join at once
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// How long the link is good for: 90s, 30m, 24h, 7d; at most 30d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = when::parse_span)]
    pub expires: Duration,
}
