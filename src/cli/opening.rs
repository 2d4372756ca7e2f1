//! What is said on stderr, and in the log, while a data folder is opened: for `serve` and `rebuild`.
//!
//! That the index is rebuilt, and why, is always said, since it may take a while and a person should know of the
//! reason; everything else only where it takes long enough to wonder.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::visible;
use crate::clock;
use crate::store::{Progress, StoreError, StoreErrorClass};

/// Words about progress come no closer together.
const GAP: Duration = Duration::from_secs(1);

/// A person's view of how far it has come.
struct Teller {
    output: Output,
    /// When something was said last.
    last: Instant,
    /// Since when the index is being rebuilt, if it is.
    since: Option<Instant>,
}

/// Tells how far opening has come.
pub fn told(output: Output) -> impl FnMut(Progress) + Send + 'static {
    let mut teller = Teller { output, last: clock::monotonic(), since: None };
    move |progress| teller.hear(progress, clock::monotonic())
}

/// How a command ends whose data folder does not open: what passes by itself, or once there is room, may be tried again.
#[must_use]
pub const fn exit(class: StoreErrorClass) -> Exit {
    match class {
        StoreErrorClass::Full | StoreErrorClass::Index => Exit::TryAgain,
        StoreErrorClass::Locked
        | StoreErrorClass::Foreign
        | StoreErrorClass::Newer
        | StoreErrorClass::Damaged
        | StoreErrorClass::Disk
        | StoreErrorClass::Writer => Exit::Failed,
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> CliError {
        CliError::new(exit(error.class()), visible::name(&error.to_string()))
    }
}

impl Teller {
    fn hear(&mut self, progress: Progress, now: Instant) {
        match progress {
            Progress::Rebuilding(reason) => {
                let reason = visible::name(&reason.to_string());
                info!(%reason, "the index is rebuilt from the log");
                self.output.warn(&format!("rebuilding the index from the log, which has everything: {reason}"));
                self.since = Some(now);
                self.last = now;
            }
            Progress::Rebuilt { messages } => {
                let rate = self.rate(messages, now);
                info!(messages, "the index is rebuilt");
                self.output.words(&format!(
                    "the index is rebuilt: {messages} messages and other items, removed ones of the log included{rate}"
                ));
                self.since = None;
                self.last = now;
            }
            Progress::OldStays(why) => {
                let why = visible::name(&why);
                warn!(%why, "the index that was set aside could not be removed");
                self.output.warn(&format!("the index that was set aside could not be removed: {why}"));
            }
            Progress::Checking { segment, segments } => {
                self.say(now, &format!("checking the log: {segment} of {segments} segments"));
            }
            Progress::Filling { segment, segments, lsn, messages } => {
                let doing = if self.since.is_some() { "rebuilding the index" } else { "reading the log" };
                let rate = self.rate(messages, now);
                let words = format!("{doing}: {segment} of {segments} segments, {messages} messages{rate}, at {lsn}");
                self.say(now, &words);
            }
        }
    }

    fn say(&mut self, now: Instant, words: &str) {
        if now.saturating_duration_since(self.last) >= GAP {
            info!("{words}");
            self.output.words(words);
            self.last = now;
        }
    }

    /// How fast the rebuild goes; nothing where that cannot be told yet.
    fn rate(&self, messages: u64, now: Instant) -> String {
        let Some(since) = self.since else { return String::new() };
        let ms = u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
        match messages.saturating_mul(1_000).checked_div(ms) {
            Some(rate) if ms >= 1_000 => format!(" ({rate} a second)"),
            Some(_) | None => String::new(),
        }
    }
}
