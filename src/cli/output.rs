//! The only place that prints. stdout is data, stderr is words; nothing foreign reaches either unless it was made
//! visible before, or is JSON.
//!
//! A line is written whole and flushed before the call returns: what `tail` acknowledges has left this process. Knows
//! nothing of commands. Invariant: a reader that has gone is [`CliError::BrokenPipe`], never a panic.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;

/// How much is printed, and in which form. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// `json`: data as one JSON object a line. `quiet`: no words but errors and warnings.
    #[must_use]
    pub const fn new(json: bool, quiet: bool) -> Output {
        Output { json, quiet }
    }

    /// Whether data is printed as JSON.
    #[must_use]
    pub const fn is_json(self) -> bool {
        self.json
    }

    /// One record of data: the text, or its JSON. The text must have been made visible where it is foreign.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub fn record(self, text: &str, json: &impl Serialize) -> Result<(), CliError> {
        if !self.json && text.is_empty() {
            return Ok(());
        }
        let line = if self.json { json_line(json)? } else { format!("{text}\n") };
        self.raw(line.as_bytes())
    }

    /// Bytes that were made by [`json_line`] or are visible text.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub fn raw(self, bytes: &[u8]) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(stdout_error)
    }

    /// Words for a person; nothing where quiet is asked for.
    pub fn words(self, words: &str) {
        if !self.quiet {
            self.warn(words);
        }
    }

    /// Words that are said even where quiet is asked for.
    pub fn warn(self, words: &str) {
        // Whoever closed stderr does not want to hear, not even that it is closed.
        writeln!(io::stderr().lock(), "{}", visible::words(words)).unwrap_or(());
    }

    /// How a command ended, where it did not do what was asked.
    pub fn error(self, error: &CliError) {
        match error {
            CliError::Said { exit: _, words, advice } if advice.is_empty() => self.warn(&format!("error: {words}")),
            CliError::Said { exit: _, words, advice } => self.warn(&format!("error: {words}\n  {advice}")),
            CliError::BrokenPipe => {}
        }
    }
}

/// What clap has to say: help and versions are data, everything else is words.
#[must_use]
pub fn usage(error: &clap::Error) -> Exit {
    // Help whose reader has gone is a quiet end, as everywhere.
    error.print().unwrap_or(());
    if error.use_stderr() { Exit::Failed } else { Exit::Done }
}

/// Whether a person sees what is said.
#[must_use]
pub fn words_reach_a_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person types what is read.
#[must_use]
pub fn input_is_a_terminal() -> bool {
    io::stdin().is_terminal()
}

/// One JSON object and its line break.
///
/// # Errors
/// Where the value cannot be written as JSON, which none of ours does.
pub fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    let mut line =
        serde_json::to_string(value).map_err(|error| CliError::failed(format!("failed to write JSON: {error}")))?;
    line.push('\n');
    Ok(line)
}

fn stdout_error(error: io::Error) -> CliError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError::BrokenPipe;
    }
    CliError::failed(format!("failed to write to stdout: {error}"))
}
