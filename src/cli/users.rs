//! `gaggle users`: lists the users of the server.

/// Examples, after the options.
pub const HELP: &str = "\
It prints one line a user: id, handle, and whether they are an operator.

  gaggle users";
