//! `gaggle users`: lists the users of the server.

use clap::Args;
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;
use crate::client::UserState;

/// Examples, after the options.
pub const HELP: &str = "\
It prints one line a user: id, handle, what they want to be called, whether they are an operator, and whether they are deactivated. Deleted users \
are listed with --all: their handles are reserved unless it says that they are free.

  gaggle users";

/// What `users` takes.
#[derive(Debug, Clone, Args)]
pub struct UsersArgs {
    /// Deleted users too
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Serialize)]
struct UserJson<'a> {
    user: String,
    handle: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    operator: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

/// Prints them.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, args: &UsersArgs) -> Result<Exit, CliError> {
    let client = context.anyone().await?;
    let users = client.users().await?;
    for user in users.into_iter().filter(|user| args.all || !user.state.is_deleted()) {
        let state = Some(user.state).filter(|state| *state != UserState::Active).map(UserState::name);
        let json = UserJson {
            user: user.user.to_string(),
            handle: &user.handle,
            name: user.name.as_deref(),
            operator: user.operator,
            state,
        };
        let mark = if user.operator { "  operator" } else { "" };
        let state = state.map_or_else(String::new, |state| format!("  {state}"));
        let who = visible::person(&user.handle, user.name.as_deref());
        let text = format!("{:<4} {who}{mark}{state}", user.user.to_string());
        context.output.record(&text, &json)?;
    }
    Ok(Exit::Done)
}
