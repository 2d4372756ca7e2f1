//! `gaggle skip`: moves this device's mark on purpose.

use clap::Args;

/// Examples, after the options.
pub const HELP: &str = "\
Everything up to and with msgid N counts as seen by this device; the mark goes forwards only. It prints the mark. What \
was passed over can be looked at with `gaggle pull`.

  gaggle skip team 1200";

/// What `skip` takes.
#[derive(Debug, Clone, Args)]
pub struct SkipArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The last msgid to pass over
    #[arg(value_name = "N")]
    pub msgid: u64,
}
