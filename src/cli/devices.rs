//! `gaggle devices`: lists, adds, renames and revokes the devices of a user.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::when;
use crate::ids::DeviceId;

/// What can be done to devices.
#[derive(Debug, Clone, Subcommand)]
pub enum DevicesCommand {
    /// List devices
    #[command(after_long_help = "\
It prints one line a device: id, since when, whether it is connected, name.

  gaggle devices list
  gaggle --operator devices list --for bob")]
    List(ForArgs),
    /// Make a link by which another device of yours joins
    #[command(after_long_help = "\
It prints the link, in quotes. Your other devices are told when it is used. The new device starts where your furthest \
one is; everything older can be looked at with `gaggle pull`.

  gaggle devices add
  gaggle --operator devices add --for bob      bob has lost every device")]
    Add(AddArgs),
    /// Give a device another name
    #[command(after_long_help = "  gaggle devices rename d9 \"old phone\"")]
    Rename {
        /// The device: d9
        device: DeviceId,
        /// Its new name
        name: String,
    },
    /// Shut a device out for ever: its connections close within 2 seconds
    #[command(after_long_help = "\
What the device has already fetched stays on it.

  gaggle devices revoke d9")]
    Revoke {
        /// The device: d9
        device: DeviceId,
    },
}

/// Whose devices.
#[derive(Debug, Clone, Args)]
pub struct ForArgs {
    /// Whose [default: your own; others' for operators only]
    #[arg(long = "for", value_name = "HANDLE")]
    pub whose: Option<String>,
}

/// What `devices add` takes.
#[derive(Debug, Clone, Args)]
pub struct AddArgs {
    /// Whose device it will be [default: yours; others' for operators only]
    #[arg(long = "for", value_name = "HANDLE")]
    pub whose: Option<String>,
    /// How long the link is good for: 90s, 30m, 24h, 7d; at most 30d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = when::parse_span)]
    pub expires: Duration,
}
