//! `gaggle tail`: listens; prints what this device has not seen, then what comes, and acknowledges what was printed.

use clap::Args;

/// Examples, after the options.
pub const HELP: &str = "\
It prints one item a line: msgid, time, who, text; before that the group where more than one is listened to. It says on \
stderr how much this device has seen already. What is printed counts as seen once it has left this program, so that \
nothing is lost when it is killed, and nothing is printed again after it has ended in order (Ctrl-C). One tail a \
profile: a second one says which process listens already, and ends with 1.

--after N of one GROUP begins behind msgid N. What lies below this device's mark was seen: it is shown up to the newest \
item, and the command ends. Above the mark it is refused, since what lies between would never be seen; `gaggle skip` \
does that on purpose.

  gaggle tail
  gaggle tail team --count 1
  gaggle tail team --after 0
  gaggle --json tail | jq -r .text";

/// What `tail` takes.
#[derive(Debug, Clone, Args)]
pub struct TailArgs {
    /// The groups: g7, or names [default: all of yours, and those you join]
    #[arg(value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Begin behind this msgid, of one group
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// End after so many items
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}
