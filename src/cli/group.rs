//! `gaggle group`: makes groups, shows them, changes who is in them.

use clap::{Args, Subcommand};

/// What can be done to groups.
#[derive(Debug, Clone, Subcommand)]
pub enum GroupCommand {
    /// Make a group; you are its owner
    #[command(after_long_help = "\
It prints the new group's id.

  gaggle group create team
  gaggle group create \"reading circle\" --full-history")]
    Create(CreateArgs),
    /// List your groups
    #[command(after_long_help = "\
It prints one line a group: id, your role, members, how many messages and other items this device has not seen of how \
many there are, name.

  gaggle group list")]
    List,
    /// List who is in a group
    #[command(after_long_help = "\
It prints one line a member: user, role, handle.

  gaggle group members team")]
    Members {
        /// The group: g7, or its name
        group: String,
    },
    /// Add a user to a group
    #[command(after_long_help = "  gaggle group add team bob")]
    Add(MemberArgs),
    /// Remove a member from a group
    #[command(after_long_help = "\
They keep what they have seen, and see their removal, and nothing after it.

  gaggle group remove team bob")]
    Remove(MemberArgs),
    /// Leave a group
    #[command(after_long_help = "  gaggle group leave team")]
    Leave {
        /// The group: g7, or its name
        group: String,
    },
    /// Give a group another name
    #[command(after_long_help = "  gaggle group rename team \"the team\"")]
    Rename {
        /// The group: g7, or its name
        group: String,
        /// Its new name
        name: String,
    },
}

/// What `group create` takes.
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// Its name: anything with a visible character that does not look like an id (g7)
    pub name: String,
    /// Those who join later also see everything from before
    #[arg(long)]
    pub full_history: bool,
}

/// Which group, and whom.
#[derive(Debug, Clone, Args)]
pub struct MemberArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The user's handle
    pub handle: String,
}
