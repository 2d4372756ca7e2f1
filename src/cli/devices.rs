//! `gaggle devices`: lists, adds, renames and revokes the devices of a user.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::{invite, trouble, visible, when};
use crate::client::{Client, Device, RequestError};
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
What the device has already fetched stays on it, and invites that were made on it open nothing any more. The device \
that you are on is shut out with --yes alone: nothing more can be done with its profile.

  gaggle devices revoke d9")]
    Revoke {
        /// The device: d9
        device: DeviceId,
        /// Do it even to the device that you are on
        #[arg(long)]
        yes: bool,
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

#[derive(Debug, Serialize)]
struct DeviceJson<'a> {
    device: String,
    name: &'a str,
    enrolled_ms: u64,
    online: bool,
    revoked: bool,
    this: bool,
}

#[derive(Debug, Serialize)]
struct DoneJson {
    device: String,
}

/// Does it.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, command: &DevicesCommand) -> Result<Exit, CliError> {
    if let DevicesCommand::List(ForArgs { whose }) | DevicesCommand::Add(AddArgs { whose, .. }) = command
        && whose.is_none()
        && context.common.operator
    {
        return Err(
            CliError::failed("the operator key is nobody, and has no devices").advise("say whose: --for HANDLE")
        );
    }
    let client = context.anyone().await?;
    match command {
        DevicesCommand::List(args) => list(context, &client, args.whose.as_deref()).await,
        DevicesCommand::Add(args) => {
            let link = client.add_device(args.whose.as_deref(), args.expires).await.map_err(trouble::of_operators)?;
            invite::print(context, &link, args.whose.as_deref())
        }
        DevicesCommand::Rename { device, name } => {
            client.rename_device(*device, name).await?;
            tell(context, *device, &format!("{device} is called \"{}\" now", visible::name(name.trim())))
        }
        DevicesCommand::Revoke { device, yes } => {
            if !yes && this(context)? == Some(*device) {
                return Err(CliError::refused(format!("{device} is the device that you are on")).advise(
                    "--yes shuts it out all the same; then only another device of yours, or an operator, lets you in",
                ));
            }
            match client.revoke_device(*device).await {
                // The connection ends by it, before there is an answer.
                Err(RequestError::ShutOut(_)) if this(context)? == Some(*device) => {}
                revoked => revoked?,
            }
            tell(context, *device, &format!("{device} is shut out"))
        }
    }
}

/// The device of this profile; none with the operator key.
fn this(context: &Context) -> Result<Option<DeviceId>, CliError> {
    if context.common.operator { Ok(None) } else { Ok(Some(context.profile()?.account()?.device)) }
}

async fn list(context: &Context, client: &Client, whose: Option<&str>) -> Result<Exit, CliError> {
    let this = this(context)?;
    for device in client.devices(whose).await.map_err(trouble::of_operators)? {
        let this = this == Some(device.device);
        let json = DeviceJson {
            device: device.device.to_string(),
            name: &device.name,
            enrolled_ms: device.enrolled_ms,
            online: device.online,
            revoked: device.revoked,
            this,
        };
        let mark = if this { "  (this one)" } else { "" };
        let (state, since) = (state(&device), when::day(device.enrolled_ms));
        let text =
            format!("{:<4} {since}  {state:<8} {}{mark}", device.device.to_string(), visible::name(&device.name));
        context.output.record(&text, &json)?;
    }
    Ok(Exit::Done)
}

const fn state(device: &Device) -> &'static str {
    match (device.revoked, device.online) {
        (true, _) => "revoked",
        (false, true) => "online",
        (false, false) => "offline",
    }
}

fn tell(context: &Context, device: DeviceId, words: &str) -> Result<Exit, CliError> {
    context.output.record("", &DoneJson { device: device.to_string() })?;
    context.output.words(words);
    Ok(Exit::Done)
}
