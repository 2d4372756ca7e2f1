//! `gaggle serve`: runs the server until a signal ends it. All it does itself is to say where the server listens, how
//! to join, and how it ended.

use std::env;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::interrupt::Interrupts;
use crate::cli::{opening, output, visible};
use crate::config::{Config, ConfigError, ServeFlags};
use crate::server::{OpenError, ServeError, Server};
use crate::telemetry::{self, LEVEL_VARIABLE, TelemetryError};

/// A stop that takes longer than this says why.
const SLOW_STOP: Duration = Duration::from_secs(2);

/// Examples, after the options.
pub const HELP: &str = "\
Nothing is needed before the first start: keys are made in certs/, messages are kept in data/. Both belong to every \
backup; without certs/ nobody's device finds the server again.

Until an operator's device exists each start makes a link for the first one (certs/first-invite.txt, readable by you \
alone) and prints it where stderr is a terminal. Whoever joins by it is the operator and invites the others.

SIGINT (Ctrl-C) or SIGTERM ends it in order: what was sent is on disk and answered, clients are told. A second signal \
ends it at once; what was answered is on disk all the same.

It prints where it listens, and its pin, on stderr; with --json one line on stdout once it can be reached.

  gaggle serve
  gaggle serve --listen 0.0.0.0:443 --advertise chat.example.org:443";

/// What `serve` takes. What is not given comes from the environment, then from the settings file.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Where to listen.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        help = "UDP address and port; [::] is IPv6 and IPv4 [default: [::]:4433] [env: GAGGLE_LISTEN]"
    )]
    pub listen: Option<String>,
    /// Where messages are kept [default: data] [env: GAGGLE_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What invite links say: how others reach this server [default: localhost and the port] [env: GAGGLE_ADVERTISE]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Memory for the index's cache, in MiB; the server takes about 200 more at the most [default: 64] [env: GAGGLE_CACHE_MB]
    #[arg(long, value_name = "MIB")]
    pub cache_mb: Option<String>,
    /// Accept that the key in certs/ is another than before; every device must then be invited anew
    #[arg(long)]
    pub new_pin: bool,
    /// Settings file [default: gaggle.toml, where there is one] [env: GAGGLE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How log lines on stderr look: human or json [env: GAGGLE_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Who may make groups: everyone or operators [default: everyone] [env: GAGGLE_CREATE_GROUPS]
    #[arg(long, value_name = "WHO")]
    pub create_groups: Option<String>,
    /// Whose owners and admins may add others to a group: everyone or operators [default: everyone] [env: GAGGLE_ADD_MEMBERS]
    #[arg(long, value_name = "WHO")]
    pub add_members: Option<String>,
}

#[derive(Debug, Serialize)]
struct ServingJson {
    listening: String,
    families: String,
    pin: String,
    first_invite: Option<String>,
}

/// Serves.
///
/// # Errors
/// Where it does not start, or ends by a fault.
pub async fn run(context: &Context, args: &ServeArgs) -> Result<Exit, CliError> {
    let flags = ServeFlags {
        listen: args.listen.clone(),
        data: args.data.clone(),
        certs: context.common.certs.clone(),
        advertise: args.advertise.clone(),
        cache_mb: args.cache_mb.clone(),
        new_pin: args.new_pin,
        config: args.config.clone(),
        log_format: args.log_format.clone(),
        create_groups: args.create_groups.clone(),
        add_members: args.add_members.clone(),
    };
    let config = Config::load(&flags.or_environment(|name| env::var(name).ok()))?;
    let level = env::var(LEVEL_VARIABLE).ok().filter(|level| !level.trim().is_empty());
    let quiet_level = if output::words_reach_a_terminal() && !context.common.verbose { "warn" } else { "info" };
    telemetry::init(config.log_format, Some(level.as_deref().unwrap_or(quiet_level)))?;
    let advertised = config.advertise.is_some();

    let mut server = Server::start(config, Context::disk(), opening::told(context.output)).await?;
    let mut signals = Interrupts::watch();
    greet(context, &server, advertised)?;
    tokio::select! {
        error = server.failed() => {
            server.abandon().await;
            return Err(error.into());
        }
        () = signals.next() => {}
    }
    context
        .output
        .words("stopping: what was sent is being answered, clients are told (a second signal ends it at once)");
    let mut stopping = pin!(server.stop());
    let mut slow = pin!(tokio::time::sleep(SLOW_STOP));
    let mut told = false;
    loop {
        tokio::select! {
            stopped = &mut stopping => {
                stopped?;
                context.output.words("stopped");
                return Ok(Exit::Done);
            }
            () = signals.next() => {
                return Err(CliError::failed("ended at once by a second signal; what was answered is on disk"));
            }
            () = &mut slow, if !told => {
                told = true;
                context.output.words("still stopping: the index is being brought up to date, so that the next start is quick");
            }
        }
    }
}

/// Says where it listens and, while there is no operator, how to become one.
fn greet(context: &Context, server: &Server, advertised: bool) -> Result<(), CliError> {
    let bound = server.bound();
    let first = server.first_invite();
    let path = first.map(|(path, _)| path.display().to_string());
    if context.output.is_json() {
        let json = ServingJson {
            listening: bound.address.to_string(),
            families: bound.families.to_string(),
            pin: server.pin().to_string(),
            first_invite: path.clone(),
        };
        context.output.record("", &json)?;
    }
    context.output.words(&format!("listening on {} ({}), pin {}", bound.address, bound.families, server.pin()));
    if !advertised {
        let port = bound.address.port();
        context.output.words(&format!("links say localhost:{port}; for other machines: --advertise HOST:{port}"));
    }
    match first {
        Some((_, link)) if output::words_reach_a_terminal() => {
            context
                .output
                .warn("nobody is the operator yet; whoever joins first by this link is (each start makes another):");
            context.output.warn(&format!("  gaggle join \"{}\" --as YOUR-HANDLE", visible::name(&link.to_string())));
        }
        Some((path, _)) => {
            let path = visible::name(&path.display().to_string());
            context.output.warn(&format!(
                "nobody is the operator yet; whoever joins first by the link in {path} is (each start makes another)"
            ));
        }
        None => {}
    }
    Ok(())
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> CliError {
        CliError::failed(visible::name(&error.to_string()))
    }
}

impl From<TelemetryError> for CliError {
    fn from(error: TelemetryError) -> CliError {
        CliError::failed(visible::name(&error.to_string()))
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> CliError {
        let exit = match &error {
            ServeError::Open(cause) if cause.is_doubt() => Exit::TryAgain,
            ServeError::Open(OpenError::Store(cause)) | ServeError::Seal(cause) => opening::exit(cause.class()),
            ServeError::Index(_) => Exit::TryAgain,
            ServeError::Open(OpenError::Load { .. } | OpenError::Engine(_))
            | ServeError::Identity(_)
            | ServeError::Bind(_)
            | ServeError::Thread(_)
            | ServeError::FirstInvite(_)
            | ServeError::NotOpen
            | ServeError::WriterEnded => Exit::Failed,
        };
        CliError::new(exit, visible::name(&error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;
    use crate::store::engine::EngineError;

    #[test]
    fn an_index_that_failed_is_temporary_at_the_start_and_while_serving() {
        let stalled = || EngineError::Stalled("it hangs".to_owned());
        for error in [
            ServeError::Index(stalled().to_string()),
            ServeError::Open(OpenError::Store(StoreError::Index(stalled()))),
            ServeError::Open(OpenError::Engine(stalled())),
        ] {
            let error = CliError::from(error);
            assert_eq!(error.exit(), Exit::TryAgain);
            assert!(error.to_string().starts_with("the index has stalled: it hangs"), "{error}");
        }
        assert_eq!(CliError::from(ServeError::WriterEnded).exit(), Exit::Failed);
    }
}
