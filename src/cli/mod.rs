//! The command line: one file a command, one that prints, one table of exit codes.
//!
//! Uses the server and the client library as anybody else would; knows nothing of streams, frames or stores.
//! Invariants: only `output` prints; every way out is one of [`exit::Exit`]; nothing foreign is shown before `visible`
//! has seen it.

pub mod args;
pub mod context;
pub mod devices;
pub mod dm;
pub mod edit;
pub mod exit;
pub mod group;
pub mod input;
pub mod interrupt;
pub mod invite;
pub mod join;
pub mod known;
pub mod membership;
pub mod opening;
pub mod outbox;
pub mod output;
pub mod printer;
pub mod pull;
pub mod queued;
pub mod react;
pub mod read;
pub mod rebuild;
pub mod recall;
pub mod receipts;
pub mod render;
pub mod reply;
pub mod retention;
pub mod send;
pub mod serve;
pub mod skip;
pub mod standing;
pub mod status;
pub mod stream;
pub mod tail;
pub mod trouble;
pub mod user;
pub mod users;
pub mod verify;
pub mod visible;
pub mod when;
pub mod who;

use std::ffi::OsString;

use args::Command;
use context::Context;
use exit::{CliError, Exit};

use crate::telemetry::{self, LogFormat};

/// Runs the command line to its end.
#[must_use]
pub fn main(args: impl Iterator<Item = OsString>) -> Exit {
    let cli = match args::parse(args) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    #[cfg(feature = "proof")]
    crate::proof::from_environment();
    let context = Context::new(cli.common);
    match run(&context, &cli.command) {
        Ok(exit) => exit,
        Err(error) => {
            context.output.error(&error);
            error.exit()
        }
    }
}

fn run(context: &Context, command: &Command) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::failed(format!("failed to start: {error}")))?;
    let ended = runtime.block_on(async {
        let ended = dispatch(context, command).await;
        context.close().await;
        ended
    });
    // Whatever still waits for a disk or a name must not keep a finished command from ending.
    runtime.shutdown_background();
    ended
}

/// The log of the client library, on stderr, where it was asked for.
fn log(context: &Context) -> Result<(), CliError> {
    let level = std::env::var(telemetry::LEVEL_VARIABLE).ok().filter(|level| !level.trim().is_empty());
    let asked = if context.common.verbose { Some("gaggle=debug") } else { None };
    match level.as_deref().or(asked) {
        Some(level) => Ok(telemetry::init(LogFormat::Human, Some(level))?),
        None => Ok(()),
    }
}

async fn dispatch(context: &Context, command: &Command) -> Result<Exit, CliError> {
    let says = matches!(
        command,
        Command::Send(_)
            | Command::Dm(_)
            | Command::Edit(_)
            | Command::Recall(_)
            | Command::Reply(_)
            | Command::React(_)
    );
    if says || matches!(command, Command::Serve(_) | Command::Tail(_) | Command::Verify(_)) {
        // These decide for themselves what ending early means.
        return act(context, command).await;
    }
    tokio::select! {
        ended = act(context, command) => ended,
        () = interrupt::asked() => Err(CliError::try_again("interrupted; what was asked may have been done")),
    }
}

async fn act(context: &Context, command: &Command) -> Result<Exit, CliError> {
    if !matches!(command, Command::Serve(_)) {
        log(context)?;
    }
    match command {
        Command::Serve(args) => serve::run(context, args).await,
        Command::Send(args) => send::run(context, args).await,
        Command::Dm(args) => dm::run(context, args).await,
        Command::Tail(args) => tail::run(context, args).await,
        Command::Verify(args) => verify::run(context, args).await,
        Command::Rebuild(args) => rebuild::run(context, args).await,
        Command::Join(args) => join::run(context, args).await,
        Command::Invite(args) => invite::run(context, args).await,
        Command::Devices(command) => devices::run(context, command).await,
        Command::Group(command) => group::run(context, command).await,
        Command::Edit(args) => edit::run(context, args).await,
        Command::Recall(args) => recall::run(context, args).await,
        Command::Reply(args) => reply::run(context, args).await,
        Command::React(args) => react::run(context, args).await,
        Command::Retention(command) => retention::run(context, command).await,
        Command::Outbox(command) => outbox::run(context, command).await,
        Command::Read(args) => read::run(context, args).await,
        Command::Receipts(args) => receipts::run(context, args).await,
        Command::Skip(args) => skip::run(context, args).await,
        Command::Pull(args) => pull::run(context, args).await,
        Command::Who(args) => who::run(context, args).await,
        Command::User(command) => user::run(context, command).await,
        Command::Users(args) => users::run(context, args).await,
        Command::Status => status::run(context).await,
    }
}
