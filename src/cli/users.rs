//! `gaggle users`: lists the users of the server.

use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;

/// Examples, after the options.
pub const HELP: &str = "\
It prints one line a user: id, handle, and whether they are an operator.

  gaggle users";

#[derive(Debug, Serialize)]
struct UserJson<'a> {
    user: String,
    handle: &'a str,
    operator: bool,
}

/// Prints them.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context) -> Result<Exit, CliError> {
    let client = context.anyone().await?;
    let users = client.users().await;
    for user in users? {
        let json = UserJson { user: user.user.to_string(), handle: &user.handle, operator: user.operator };
        let mark = if user.operator { "  operator" } else { "" };
        let text = format!("{:<4} {}{mark}", user.user.to_string(), visible::name(&user.handle));
        context.output.record(&text, &json)?;
    }
    Ok(Exit::Done)
}
