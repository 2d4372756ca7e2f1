//! `gaggle status`: how the server is, and what this profile has waiting.

use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::{visible, when};
use crate::client::{Account, Status};

/// Examples, after the options.
pub const HELP: &str = "\
It prints one line a figure: who this profile is and how many messages it has still to send, for which no connection is \
needed; then the server's version, uptime, users, groups, devices, connections, items, the sizes of its log and its index, and, \
once that was counted, of what is live in them.

  gaggle status
  gaggle --operator status";

#[derive(Debug, Serialize)]
struct ProfileJson<'a> {
    profile: String,
    user: String,
    handle: &'a str,
    device: String,
    server: &'a str,
    outbox: usize,
}

#[derive(Debug, Serialize)]
struct ServerJson<'a> {
    version: &'a str,
    uptime_ms: u64,
    users: u64,
    groups: u64,
    devices: u64,
    connections: u64,
    items: u64,
    durable_lsn: u64,
    log_bytes: u64,
    index_bytes: u64,
    live_bytes: Option<u64>,
}

/// Prints both.
///
/// # Errors
/// Where the server is out of reach; the profile's part is printed all the same.
pub async fn run(context: &Context) -> Result<Exit, CliError> {
    if !context.common.operator {
        let profile = context.profile()?;
        let (account, waiting) = (profile.account()?, profile.outbox()?.len());
        print_profile(context, &profile.folder().display().to_string(), &account, waiting)?;
    }
    let client = context.anyone().await?;
    let status = client.status().await;
    print_server(context, &status?)
}

fn print_profile(context: &Context, folder: &str, account: &Account, waiting: usize) -> Result<(), CliError> {
    let json = ProfileJson {
        profile: folder.to_owned(),
        user: account.user.to_string(),
        handle: &account.handle,
        device: account.device.to_string(),
        server: &account.address,
        outbox: waiting,
    };
    let text = format!(
        "profile      {}\nuser         {} ({})\ndevice       {}\nserver       {}\noutbox       {waiting}",
        visible::name(folder),
        visible::name(&account.handle),
        account.user,
        account.device,
        visible::name(&account.address),
    );
    context.output.record(&text, &json)
}

fn print_server(context: &Context, status: &Status) -> Result<Exit, CliError> {
    let json = ServerJson {
        version: &status.version,
        uptime_ms: status.uptime_ms,
        users: status.users,
        groups: status.groups,
        devices: status.devices,
        connections: status.connections,
        items: status.items,
        durable_lsn: status.durable_lsn,
        log_bytes: status.log_bytes,
        index_bytes: status.index_bytes,
        live_bytes: (status.live_bytes > 0).then_some(status.live_bytes),
    };
    let text = format!(
        "version      {}\nuptime       {}\nusers        {}\ngroups       {}\ndevices      {}\nconnections  {}\nitems        {}\nlog          {} bytes, {} frames\nindex        {} bytes{}",
        visible::name(&status.version),
        when::span(status.uptime_ms),
        status.users,
        status.groups,
        status.devices,
        status.connections,
        status.items,
        status.log_bytes,
        status.durable_lsn,
        status.index_bytes,
        live(status),
    );
    context.output.record(&text, &json)?;
    Ok(Exit::Done)
}

/// The line about what is live; none where the server has not counted it. Its figures are whatever a server says.
fn live(status: &Status) -> String {
    match status.live_bytes {
        0 => String::new(),
        live => {
            let multiple = status.log_bytes.saturating_add(status.index_bytes) as f64 / live as f64;
            format!("\nlive         {live} bytes; log and index are {multiple:.1} times that")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(log_bytes: u64, index_bytes: u64, live_bytes: u64) -> Status {
        let version = String::new();
        let (uptime_ms, users, groups, devices, connections, items, durable_lsn) = Default::default();
        Status {
            version,
            uptime_ms,
            users,
            groups,
            devices,
            connections,
            items,
            durable_lsn,
            log_bytes,
            index_bytes,
            live_bytes,
        }
    }

    #[test]
    fn no_figure_of_a_server_is_too_large_to_be_shown() {
        assert_eq!(live(&sized(300, 100, 200)), "\nlive         200 bytes; log and index are 2.0 times that");
        assert_eq!(live(&sized(u64::MAX, u64::MAX, 0)), "");
        let largest = live(&sized(u64::MAX, u64::MAX, u64::MAX));
        assert!(largest.ends_with(" are 1.0 times that"), "{largest}");
    }
}
