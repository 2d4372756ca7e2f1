//! `gaggle join`: makes this profile a device.

use clap::Args;

/// Examples, after the options.
pub const HELP: &str = "\
The link works once. The device's key is made here and stays here (in the profile, readable by you alone, not \
encrypted). If the connection breaks before the answer comes, run the same command again: it finishes what was begun. \
A profile that has joined takes no other link; use another --profile.

It prints who you are now: user, device and handle.

  gaggle join \"gaggle://chat.example.org:4433/#PIN.CODE\"
  gaggle join \"gaggle://localhost:4433/#PIN.CODE\" --as alice      the first link of a server names nobody";

/// What `join` takes.
#[derive(Debug, Clone, Args)]
pub struct JoinArgs {
    /// The link somebody gave you, in quotes
    pub link: String,
    /// Your handle, for the first link of a server: a-z, 0-9, '.', '_', '-', at most 32
    #[arg(long = "as", value_name = "HANDLE")]
    pub handle: Option<String>,
    /// What you call this device [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
}
