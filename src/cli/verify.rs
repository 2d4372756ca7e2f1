//! `gaggle verify`: checks the folder of a stopped server, and says all that is wrong with it.
//!
//! The check runs on a thread of its own and tells what it finds through a short channel; this file prints. Whoever
//! interrupts it, or stops reading, ends it at once: nothing was changed that would have to be finished.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::{interrupt, visible};
use crate::clock;
use crate::config::{Config, ServeFlags};
use crate::server;
use crate::store::index::{Settings, SledIndex};
use crate::store::verify::{Event, Options, Said, Step, Verified, verify};
use crate::store::{StoreError, StoreErrorClass};

/// Words about progress come no closer together.
const PROGRESS_GAP: Duration = Duration::from_secs(1);
/// Events that wait to be printed; the check waits beyond that.
const EVENTS_QUEUED_MAX: usize = 64;

/// Examples, after the options.
pub const HELP: &str = "\
Stop the server first: a folder in use is refused (2). A copy of a stopped folder can be checked as well as the folder.

It reads every frame of the log, holds what the rows say against one another (messages numbered without a hole, cursors \
no further than their group, stays that begin and end with the items that say so, …), and compares the index with \
the log, row by row. It goes on after what it finds. Nothing is repaired, and the log is only read; the index is opened as \
the next start would open it, which may tidy its files.

Each finding is one sentence on stdout, with the file and the byte where they can be told; remarks (worth knowing, nothing \
wrong), progress and a summary go to stderr. With --json each finding, each remark and the summary is one object on \
stdout. It ends with 0 where nothing is wrong, 1 after any finding, 2 where the folder can't be checked at all.

After kill -9 or a power loss remarks are usual: the next start makes the end of the log whole and replays what \
the index lacks. A finding about the index alone costs no message: `gaggle rebuild` makes it anew. For a finding \
about the log keep a copy of the folder, then restore it from a backup.

  gaggle verify
  gaggle verify --data /var/lib/gaggle/data --json";

/// What `verify` takes. What is not given comes from the environment, then from the settings file, as with `serve`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// The folder to check [default: data] [env: GAGGLE_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Settings file [default: gaggle.toml, where there is one] [env: GAGGLE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct SaidJson<'a> {
    kind: &'static str,
    check: &'static str,
    file: Option<String>,
    byte: Option<u64>,
    what: &'a str,
}

#[derive(Debug, Serialize)]
struct SummaryJson {
    kind: &'static str,
    findings: u64,
    segments: u64,
    log_bytes: u64,
    frames: u64,
    last_frame: u64,
    sealed: bool,
    operations: u64,
    index_rows: Option<u64>,
    rows: Option<u64>,
    groups: Option<u64>,
    users: Option<u64>,
    items: Option<u64>,
}

/// Checks.
///
/// # Errors
/// Where the folder can't be checked, or whoever asked does not wait for it.
pub async fn run(context: &Context, args: &VerifyArgs) -> Result<Exit, CliError> {
    let flags = ServeFlags { data: args.data.clone(), config: args.config.clone(), ..ServeFlags::default() };
    let config = Config::load(&flags.or_environment(|name| env::var(name).ok()))?;
    let (tell, mut told) = mpsc::channel(EVENTS_QUEUED_MAX);
    let folder = config.data.clone();
    let checking = tokio::task::spawn_blocking(move || check(&folder, &tell));
    let mut words = Words { output: context.output, last: clock::monotonic() };
    let ended = async {
        while let Some(event) = told.recv().await {
            words.event(event)?;
        }
        Ok::<(), CliError>(())
    };
    tokio::select! {
        printed = ended => printed?,
        () = interrupt::asked() => {
            let exit = Exit::TryAgain;
            return Err(CliError::new(exit, "interrupted; what was not reached is not checked, and nothing was changed"));
        }
    }
    let verified = checking.await.map_err(|error| CliError::failed(format!("the check ended early: {error}")))??;
    words.summary(&config.data, verified)
}

/// The whole check, on a thread that may wait for the disk.
fn check(folder: &Path, tell: &mpsc::Sender<Event>) -> Result<Verified, CliError> {
    let options = Options::new(Arc::new(SledIndex::new(folder, Settings::default())), Box::new(server::understand));
    let mut tell = |event| {
        // Where nobody listens any more the process is about to end.
        tell.blocking_send(event).unwrap_or(());
    };
    verify(&Context::disk(), folder, &options, &mut tell).map_err(|error| refused(&error))
}

fn refused(error: &StoreError) -> CliError {
    let exit = if error.class() == StoreErrorClass::Full { Exit::TryAgain } else { Exit::Failed };
    CliError::new(exit, visible::name(&error.to_string()))
}

/// Prints.
struct Words {
    output: Output,
    last: std::time::Instant,
}

impl Words {
    fn event(&mut self, event: Event) -> Result<(), CliError> {
        match event {
            Event::Finding(said) => self.output.record(&visible::name(&said.to_string()), &json("finding", &said)),
            Event::Remark(said) if self.output.is_json() => self.output.record("", &json("remark", &said)),
            Event::Remark(said) => {
                self.output.words(&format!("remark: {}", visible::name(&said.to_string())));
                Ok(())
            }
            Event::Step(step) => {
                self.step(&step);
                Ok(())
            }
        }
    }

    /// How far it is, where that takes long enough to wonder.
    fn step(&mut self, step: &Step) {
        let now = clock::monotonic();
        if now.saturating_duration_since(self.last) >= PROGRESS_GAP {
            self.last = now;
            let of = step.of.map_or(String::new(), |of| format!(" of {of}"));
            self.output.words(&format!("{}: {}{of} {}", step.doing, step.done, step.unit));
        }
    }

    fn summary(&self, folder: &Path, verified: Verified) -> Result<Exit, CliError> {
        let rows = verified.rows;
        let json = SummaryJson {
            kind: "summary",
            findings: verified.findings,
            segments: verified.segments,
            log_bytes: verified.log_bytes,
            frames: verified.frames,
            last_frame: verified.last.value(),
            sealed: verified.sealed,
            operations: verified.operations,
            index_rows: verified.index_rows,
            rows: rows.map(|rows| rows.rows),
            groups: rows.map(|rows| rows.groups),
            users: rows.map(|rows| rows.users),
            items: rows.map(|rows| rows.items),
        };
        self.output.record("", &json)?;
        self.output.words(&summary(folder, verified));
        Ok(if verified.findings == 0 { Exit::Done } else { Exit::Refused })
    }
}

fn json<'a>(kind: &'static str, said: &'a Said) -> SaidJson<'a> {
    let file = said.path.as_ref().map(|path| path.display().to_string());
    SaidJson { kind, check: said.check.name(), file, byte: said.byte, what: &said.what }
}

/// What was checked, in one line.
fn summary(folder: &Path, verified: Verified) -> String {
    let findings = match verified.findings {
        0 => "nothing is wrong".to_owned(),
        1 => "1 finding".to_owned(),
        more => format!("{more} findings"),
    };
    let rows = verified.rows.map_or(", rows not held against one another".to_owned(), |rows| {
        format!(
            ", {} rows ({} messages and other items, {} groups, {} users)",
            rows.rows, rows.items, rows.groups, rows.users
        )
    });
    let index = verified.index_rows.map_or(", no index".to_owned(), |rows| format!(", {rows} rows of the index"));
    format!(
        "{}: {findings}; checked {} frames in {} segments{rows}{index}",
        visible::name(&folder.display().to_string()),
        verified.frames,
        verified.segments
    )
}
