//! What can be typed: the command line and its help. Nothing is done here.
//!
//! The help is written for somebody who has never seen gaggle: each command says what it prints on stdout, what it
//! waits for and how it ends, with an example that works as it stands.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::cli::exit::Exit;
use crate::cli::{
    devices, dm, edit, group, invite, join, outbox, pull, react, read, rebuild, recall, receipts, reply, retention,
    send, serve, skip, status, tail, user, users, verify, who,
};

/// Group messaging for small self-hosted teams.
#[derive(Debug, Parser)]
#[command(
    name = "gaggle",
    version,
    about = "Group messaging for small self-hosted teams: one binary, one UDP port",
    long_about = LONG_ABOUT,
    max_term_width = 100,
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
    /// Which command.
    #[command(subcommand)]
    pub command: Command,
}

const LONG_ABOUT: &str = "\
gaggle is a group-messaging server for small self-hosted teams, and its client: one binary, one UDP port, no database.

Every message is kept once, in one order, and each device has a mark of what it has seen. Whoever was away gets \
exactly what they missed.

Try it: `gaggle serve` in one terminal; it prints a link. In another: `gaggle join LINK --as alice`, \
`gaggle group create team`, `gaggle send team hello`, `gaggle tail`.";

fn after_long_help() -> String {
    format!(
        "\
GROUP is a group's id as printed (g7), or its exact name among your groups; a chat of two is called as the other's handle. \
Where several have that name the command ends with 2 and lists them with their ids.

A profile is the folder of one device of one user: its key, the messages it still has to send, and what it has seen. \
To try several people on one machine give each a profile of its own:
  gaggle --profile ./bob join LINK
  GAGGLE_PROFILE=./bob gaggle tail

stdout is data, stderr is words for you. --json prints one JSON object a line: ids are strings (\"g7\", \"u3\", \"d9\"), \
msgids are numbers, text is exact. Without it, control characters and escape sequences in names and messages are \
shown as \\x1b and the like, never obeyed. Times are UTC.

Exit codes:
{}",
        Exit::table()
    )
}

/// Reads the command line.
///
/// # Errors
/// With what clap has to say: wrong usage, but also help and version.
pub fn parse(args: impl Iterator<Item = std::ffi::OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches_from(args)?)
}

/// The whole command line, for parsing and for tests.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command().after_long_help(after_long_help())
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The folder of this device [default: $XDG_DATA_HOME/gaggle, else ~/.local/share/gaggle]
    #[arg(long, global = true, env = "GAGGLE_PROFILE", hide_env_values = true, value_name = "DIR", help_heading = EVERYWHERE)]
    pub profile: Option<PathBuf>,
    /// Print data as one JSON object a line
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// Say nothing but errors and warnings
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub quiet: bool,
    /// Say on stderr what happens on the connection (never what is in a message)
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub verbose: bool,
    /// Act with the operator key of this machine's server instead of a profile
    ///
    /// Works where the server's certs folder can be read. It can invite, list and revoke, shut users out, delete them and
    /// free their handles, not read or send: for the time before anybody has joined, and for the day when the operator
    /// has lost every device.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub operator: bool,
    /// The server's folder of keys, for serve and --operator [default: certs]
    #[arg(long, global = true, env = "GAGGLE_CERTS", hide_env_values = true, value_name = "DIR", help_heading = EVERYWHERE)]
    pub certs: Option<PathBuf>,
    /// Where the server is, with --operator
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "localhost:4433", help_heading = EVERYWHERE)]
    pub server: String,
}

const EVERYWHERE: &str = "Everywhere";

/// The server's folder of keys where none is named.
pub const CERTS_DEFAULT: &str = "certs";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    #[command(after_long_help = serve::HELP)]
    Serve(serve::ServeArgs),
    /// Check the data folder of a stopped server
    #[command(after_long_help = verify::HELP)]
    Verify(verify::VerifyArgs),
    /// Become a user, or another device of one, by an invite link
    #[command(after_long_help = join::HELP)]
    Join(join::JoinArgs),
    /// Make a link by which a new user joins
    #[command(after_long_help = invite::HELP)]
    Invite(invite::InviteArgs),
    /// List, add, rename and revoke devices
    #[command(subcommand)]
    Devices(devices::DevicesCommand),
    /// Make groups, see who is in them, change who is
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// What a group keeps of its messages, and why
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    /// Send a message, or one for each line of stdin
    #[command(after_long_help = send::HELP)]
    Send(send::SendArgs),
    /// Send a message to one user, or to yourself
    #[command(after_long_help = dm::HELP)]
    Dm(dm::DmArgs),
    /// Put another text in place of a message of yours
    #[command(after_long_help = edit::HELP)]
    Edit(edit::EditArgs),
    /// Take a message back
    #[command(after_long_help = recall::HELP)]
    Recall(recall::RecallArgs),
    /// Answer a message
    #[command(after_long_help = reply::HELP)]
    Reply(reply::ReplyArgs),
    /// React to a message
    #[command(after_long_help = react::HELP)]
    React(react::ReactArgs),
    /// What is still to be sent
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Print what this device has not seen, then what comes
    #[command(after_long_help = tail::HELP)]
    Tail(tail::TailArgs),
    /// Mark messages as read on all your devices, or as unread
    #[command(after_long_help = read::HELP)]
    Read(read::ReadArgs),
    /// Who has received and who has read a message
    #[command(after_long_help = receipts::HELP)]
    Receipts(receipts::ReceiptsArgs),
    /// Pass over messages without seeing them
    #[command(after_long_help = skip::HELP)]
    Skip(skip::SkipArgs),
    /// Look at messages, new or old, without marking any as seen
    #[command(after_long_help = pull::HELP)]
    Pull(pull::PullArgs),
    /// List who of a group is there now
    #[command(after_long_help = who::HELP)]
    Who(who::WhoArgs),
    /// List the users of the server
    #[command(after_long_help = users::HELP)]
    Users(users::UsersArgs),
    /// Name yourself; shut users out, let them in again, delete them
    #[command(subcommand)]
    User(user::UserCommand),
    /// How the server is, and what this profile has waiting
    #[command(after_long_help = status::HELP)]
    Status,
    /// Make the index of a stopped server anew from its log
    #[command(after_long_help = rebuild::HELP)]
    Rebuild(rebuild::RebuildArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn help_of_every_command_has_an_example() {
        fn walk(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let name = format!("{path} {}", sub.get_name());
                let help = sub.clone().render_long_help().to_string();
                if sub.has_subcommands() {
                    walk(sub, &name);
                } else {
                    assert!(help.contains(&format!("  {name}")), "no example in the help of {name}:\n{help}");
                }
            }
        }
        walk(&command(), "gaggle");
    }

    #[test]
    fn top_level_help_has_the_exit_codes() {
        let help = command().render_long_help().to_string();
        for (exit, meaning) in Exit::TABLE {
            assert!(help.contains(&format!("{}  {}", exit.number(), &meaning[..4])), "{help}");
        }
    }
}
