//! The command line: one file a command, one that prints, one table of exit codes.
//!
//! Uses the server and the client library as anybody else would; knows nothing of streams, frames or stores.
//! Invariants: only `output` prints; every way out is one of [`exit::Exit`]; nothing foreign is shown before `visible`
//! has seen it.

pub mod args;
pub mod devices;
pub mod exit;
pub mod group;
pub mod invite;
pub mod join;
pub mod outbox;
pub mod output;
pub mod pull;
pub mod send;
pub mod serve;
pub mod skip;
pub mod status;
pub mod tail;
pub mod users;
pub mod visible;
pub mod when;

use std::ffi::OsString;

use exit::{CliError, Exit};
use output::Output;

/// Runs the command line to its end.
#[must_use]
pub fn main(args: impl Iterator<Item = OsString>) -> Exit {
    let cli = match args::parse(args) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let output = Output::new(cli.common.json, cli.common.quiet);
    let ended = run(&cli, output);
    match ended {
        Ok(exit) => exit,
        Err(error) => {
            output.error(&error);
            error.exit()
        }
    }
}

fn run(_cli: &args::Cli, _output: Output) -> Result<Exit, CliError> {
    Ok(Exit::Done)
}
