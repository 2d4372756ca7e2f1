//! `gaggle outbox`: shows, sends and withdraws what this profile has still to send.

use std::collections::VecDeque;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::known::Known;
use crate::cli::send::{self, Asked, Waiting};
use crate::cli::{queued, trouble};
use crate::client::{EntryState, OutboxEntry, Profile};
use crate::ids::ClientSeq;

/// What can be done to the outbox.
#[derive(Debug, Clone, Subcommand)]
pub enum OutboxCommand {
    /// List what is not answered yet
    #[command(after_long_help = "\
It needs no connection. It prints one line a message: its number here, its group, its state, its size, its text. The states: \
waiting (never tried, can be dropped), tried (it may be on the server; it is sent again under the same number and \
stored once), unknown (the server no longer knows whether it was stored; look with `gaggle pull`, then drop it). Of a \
long text it shows the beginning, --json all of it; the text of what is unknown is not kept.

  gaggle outbox list")]
    List,
    /// Send what is waiting, now
    #[command(after_long_help = "\
It prints the msgid of each message once the server has it on disk, in the order they were queued, and says which ones \
are refused.

  gaggle outbox flush")]
    Flush,
    /// Withdraw what was never tried, or forget what ended
    #[command(after_long_help = "\
Only what was never tried can be withdrawn: what was tried may be on the server already.

  gaggle outbox drop s5
  gaggle outbox drop --all")]
    Drop(DropArgs),
}

/// What `outbox drop` takes.
#[derive(Debug, Clone, Args)]
pub struct DropArgs {
    /// Which, as `gaggle outbox list` prints them: s5
    #[arg(required_unless_present = "all", value_name = "NUMBER")]
    pub numbers: Vec<ClientSeq>,
    /// Everything that was never tried
    #[arg(long, conflicts_with = "numbers")]
    pub all: bool,
}

#[derive(Debug, Serialize)]
struct EntryJson {
    number: String,
    group: String,
    state: &'static str,
    bytes: usize,
    /// Byte for byte; of a reaction the reaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Debug, Serialize)]
struct DroppedJson {
    number: String,
}

/// Does it.
///
/// # Errors
/// Where the profile cannot be used, or what is to be dropped was tried.
pub async fn run(context: &Context, command: &OutboxCommand) -> Result<Exit, CliError> {
    match command {
        OutboxCommand::List => list(context),
        OutboxCommand::Flush => flush(context).await,
        OutboxCommand::Drop(args) => drop_entries(context, args),
    }
}

/// The profile, where somebody has joined with it: an empty outbox of nobody would be no answer.
fn joined(context: &Context) -> Result<Profile, CliError> {
    let profile = context.profile()?;
    profile.account()?;
    Ok(profile)
}

fn list(context: &Context) -> Result<Exit, CliError> {
    for entry in joined(context)?.outbox()? {
        let (number, group, state) = (entry.seq.to_string(), entry.group.to_string(), state(&entry));
        let what = entry.what.as_ref().map_or_else(String::new, |what| format!("  {}", queued::said(what)));
        let line = format!("{number:<5} {group:<4} {state:<8} {} bytes{what}", entry.bytes);
        let text = entry.what.as_ref().map(|what| what.body().to_owned()).filter(|body| !body.is_empty());
        context.output.record(&line, &EntryJson { number, group, state, bytes: entry.bytes, text })?;
    }
    Ok(Exit::Done)
}

const fn state(entry: &OutboxEntry) -> &'static str {
    match entry.state {
        EntryState::Waiting => "waiting",
        EntryState::Attempted => "tried",
        EntryState::OutcomeUnknown => "unknown",
    }
}

async fn flush(context: &Context) -> Result<Exit, CliError> {
    let (profile, client) = context.alone().await?;
    let known = Known::load(&profile);
    let open = profile.outbox()?.into_iter().filter(|entry| entry.state != EntryState::OutcomeUnknown);
    let asked = open.map(|entry| {
        let asked = Asked::of(&client, Waiting { seq: entry.seq, line: None });
        (queued::place(&entry, &known), asked)
    });
    let mut open: VecDeque<(String, Asked)> = asked.collect();
    let mut exit = Exit::Done;
    while let Some((place, mut asked)) = open.pop_front() {
        let wait = Duration::from_millis(send::UNREACHABLE_MS_MAX);
        match asked.within(wait).await? {
            Some(outcome) => exit = exit.worse(send::report(context, &place, asked.waiting.seq, &outcome)?),
            None => {
                let words = format!("{} messages are still queued", open.len().saturating_add(1));
                return Err(CliError::try_again(words).advise(trouble::cause(&client)));
            }
        }
    }
    Ok(exit)
}

fn drop_entries(context: &Context, args: &DropArgs) -> Result<Exit, CliError> {
    let profile = joined(context)?;
    let waiting = |entry: &OutboxEntry| entry.state == EntryState::Waiting;
    let numbers = if args.all {
        profile.outbox()?.iter().filter(|entry| waiting(entry)).map(|entry| entry.seq).collect()
    } else {
        args.numbers.clone()
    };
    for seq in &numbers {
        profile.withdraw(*seq)?;
        context.output.record(&seq.to_string(), &DroppedJson { number: seq.to_string() })?;
    }
    context.output.words(&format!("dropped {}; what is left: gaggle outbox list", numbers.len()));
    Ok(Exit::Done)
}
