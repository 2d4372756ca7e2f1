//! How a command ends: the one table of exit codes, and the error that carries one with its words and advice.
//!
//! Nothing is printed here. Every way out of a command is one of the four codes; `--help` prints the same table.

use std::process::ExitCode;

/// The exit codes. The numbers are a promise to scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// It is done.
    Done = 0,
    /// The server, or a rule of this program, said no: the same command will not succeed as it is.
    Refused = 1,
    /// The command line was wrong, or something is broken here: a locked folder, a damaged file, an address in use.
    Failed = 2,
    /// Not now, or not known: the same command may succeed later, and repeating it does no harm.
    TryAgain = 3,
}

impl Exit {
    /// All of them with what they mean, for `--help`.
    pub const TABLE: [(Exit, &'static str); 4] = [
        (Exit::Done, "done"),
        (
            Exit::Refused,
            "refused: repeating it as it is will not help (also: verify found something, this profile is listening already)",
        ),
        (Exit::Failed, "wrong usage, or a failure here (also: folder locked, damaged file, address in use)"),
        (
            Exit::TryAgain,
            "temporary, try again (also: queued, server not reachable, storage full, index to be rebuilt)",
        ),
    ];

    /// The number that the shell sees.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Failed => 2,
            Exit::TryAgain => 3,
        }
    }

    /// The more serious of two, for a command that did several things: what must be looked at before what passes.
    #[must_use]
    pub const fn worse(self, other: Exit) -> Exit {
        match (self, other) {
            (Exit::Failed, _) | (_, Exit::Failed) => Exit::Failed,
            (Exit::Refused, _) | (_, Exit::Refused) => Exit::Refused,
            (Exit::TryAgain, _) | (_, Exit::TryAgain) => Exit::TryAgain,
            (Exit::Done, Exit::Done) => Exit::Done,
        }
    }

    /// The table as `--help` prints it.
    #[must_use]
    pub fn table() -> String {
        let rows = Exit::TABLE.iter().map(|(exit, meaning)| format!("  {}  {meaning}\n", exit.number()));
        rows.collect::<String>().trim_end().to_owned()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

/// Why a command did not do what was asked: what to say, what to do about it, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CliError {
    /// Something to say.
    #[error("{words}")]
    Said {
        /// The exit code.
        exit: Exit,
        /// What happened: a sentence without its first capital and its full stop.
        words: String,
        /// What the person can do now; empty where there is nothing.
        advice: String,
    },
    /// Whoever read our output has gone. A quiet end.
    #[error("the reader of the output has gone")]
    BrokenPipe,
}

impl CliError {
    /// An error with this code.
    #[must_use]
    pub fn new(exit: Exit, words: impl Into<String>) -> CliError {
        CliError::Said { exit, words: words.into(), advice: String::new() }
    }

    /// Wrong usage or a failure here.
    #[must_use]
    pub fn failed(words: impl Into<String>) -> CliError {
        CliError::new(Exit::Failed, words)
    }

    /// A refusal.
    #[must_use]
    pub fn refused(words: impl Into<String>) -> CliError {
        CliError::new(Exit::Refused, words)
    }

    /// Something temporary.
    #[must_use]
    pub fn try_again(words: impl Into<String>) -> CliError {
        CliError::new(Exit::TryAgain, words)
    }

    /// The same error with what to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> CliError {
        match self {
            CliError::Said { exit, words, advice: _ } => CliError::Said { exit, words, advice: advice.into() },
            CliError::BrokenPipe => CliError::BrokenPipe,
        }
    }

    /// The same error with one more advice, on a line of its own.
    #[must_use]
    pub fn advise_also(self, more: &str) -> CliError {
        match self {
            CliError::Said { exit, words, advice } if advice.is_empty() => {
                CliError::Said { exit, words, advice: more.to_owned() }
            }
            CliError::Said { exit, words, advice } => {
                CliError::Said { exit, words, advice: format!("{advice}\n  {more}") }
            }
            CliError::BrokenPipe => CliError::BrokenPipe,
        }
    }

    /// The same error, said of this place: `line 3: `.
    #[must_use]
    pub fn at(self, place: &str) -> CliError {
        match self {
            CliError::Said { exit, words, advice } => CliError::Said { exit, words: format!("{place}{words}"), advice },
            CliError::BrokenPipe => CliError::BrokenPipe,
        }
    }

    /// The exit code. A reader that has gone had what it wanted.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            CliError::Said { exit, .. } => *exit,
            CliError::BrokenPipe => Exit::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_looked_at_outweighs_what_passes() {
        assert_eq!(Exit::Done.worse(Exit::TryAgain), Exit::TryAgain);
        assert_eq!(Exit::TryAgain.worse(Exit::Refused), Exit::Refused);
        assert_eq!(Exit::Refused.worse(Exit::Failed), Exit::Failed);
        assert_eq!(Exit::Failed.worse(Exit::Done), Exit::Failed);
    }

    #[test]
    fn the_table_names_each_code_once() {
        let numbers: Vec<_> = Exit::TABLE.iter().map(|(exit, _)| exit.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(Exit::table().lines().count(), 4);
    }
}
