//! `gaggle join`: makes this profile a device.

use clap::Args;
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;
use crate::client::{Client, ClientOptions, EnrolError, Failure, Profile};
use crate::limits::DEVICE_NAME_BYTES_MAX;
use crate::wire::code::Code;

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

#[derive(Debug, Serialize)]
struct JoinJson<'a> {
    user: String,
    handle: &'a str,
    device: String,
    server: &'a str,
    profile: String,
}

/// Joins.
///
/// # Errors
/// Where the link is none, the server refuses or is out of reach, or the profile is used.
pub async fn run(context: &Context, args: &JoinArgs) -> Result<Exit, CliError> {
    let profile = context.profile()?;
    let device = args.device.clone().unwrap_or_else(machine);
    // Some shells hand the quotes on.
    let link = args.link.trim().trim_matches(['"', '\'']);
    let options = ClientOptions::default();
    let account = match Client::enrol(&profile, link, args.handle.as_deref(), &device, &options).await {
        Ok(account) => account,
        Err(error) => return Err(explain(&profile, error)),
    };
    let json = JoinJson {
        user: account.user.to_string(),
        handle: &account.handle,
        device: account.device.to_string(),
        server: &account.address,
        profile: profile.folder().display().to_string(),
    };
    let text = format!("{} {} {}", account.user, account.device, visible::name(&account.handle));
    context.output.record(&text, &json)?;
    if let Some(asked) = args.handle.as_ref().filter(|asked| !asked.eq_ignore_ascii_case(&account.handle)) {
        let (asked, handle) = (visible::name(asked), visible::name(&account.handle));
        context.output.warn(&format!("the link is {handle}'s, so --as {asked} was not needed"));
    }
    context.output.words(&format!(
        "you are {}. Next: gaggle tail shows what comes, gaggle group list your groups, gaggle group create NAME makes one",
        visible::name(&account.handle)
    ));
    Ok(Exit::Done)
}

fn explain(profile: &Profile, error: EnrolError) -> CliError {
    let broke_off = matches!(&error, EnrolError::Connect(cause) if cause.failure() == Failure::Temporary);
    let bad_name = matches!(&error, EnrolError::Refused(refusal) if refusal.is(Code::BadName));
    let error = CliError::from(error);
    if bad_name {
        return error.advise(
            "--as takes 1 to 32 of a-z, 0-9, '.', '_', '-', the first a letter or digit; --device needs a visible character, and has 64 bytes at most",
        );
    }
    if broke_off {
        let folder = visible::name(&profile.folder().display().to_string());
        return error.advise_also(&format!("the same command again finishes it; what was begun is kept in {folder}"));
    }
    error
}

/// What this machine calls itself, as far as it fits into a device's name.
fn machine() -> String {
    let system = rustix::system::uname();
    let name: String =
        system.nodename().to_string_lossy().chars().filter(|character| !character.is_control()).collect();
    let mut cut = name.trim();
    while cut.len() > DEVICE_NAME_BYTES_MAX {
        cut = cut.char_indices().next_back().map_or("", |(last, _)| &cut[..last]);
    }
    if cut.is_empty() { "device".to_owned() } else { cut.to_owned() }
}
