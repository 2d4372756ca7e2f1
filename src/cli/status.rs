//! `gaggle status`: how the server is, and what this profile has waiting.

/// Examples, after the options.
pub const HELP: &str = "\
It prints one line a figure: the server's version, uptime, users, groups, devices, connections, items and the size of \
its log; then who this profile is and how many messages it has still to send. The profile's part needs no connection.

  gaggle status
  gaggle --operator status";
