//! `gaggle retention`: what a group keeps of its messages, why, and which device holds it.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::{visible, when};
use crate::client::{Client, Kept, Retention};
use crate::ids::GroupId;

/// A clock of ages that is this far behind is worth a word.
const CLOCK_BEHIND_MS: u64 = 60_000;

const SHOW_HELP: &str = "\
It prints what the group keeps, the first message that is kept and the last one.

  gaggle retention show team";

const SET_HELP: &str = "\
Each limit that is given removes what is beyond it, a few seconds later and for good; limits that are not given remove \
nothing. For owners of the group. --count counts everything that has a msgid, joins, edits and reactions as well as \
messages; --bytes what all of that takes on the server, which is some more than the texts. With --acked messages go once \
every live device of every member has acknowledged them; a device that nobody has seen for long (30 days, the server's \
setting) holds nothing back.

  gaggle retention set team --age 90d
  gaggle retention set team --count 10000 --bytes 50000000
  gaggle retention set team --acked 7d
  gaggle retention set team --all
  gaggle retention set team --default";

const EXPLAIN_HELP: &str = "\
It says what is kept, what each limit makes of it, whether the clock that ages are reckoned by is behind, and which device holds \
back what is kept for devices.

  gaggle retention explain team";

/// What `retention` can do.
#[derive(Debug, Clone, Subcommand)]
pub enum RetentionCommand {
    /// What a group keeps
    #[command(after_long_help = SHOW_HELP)]
    Show {
        /// The group: g7, or its name
        group: String,
    },
    /// Say what a group keeps
    #[command(after_long_help = SET_HELP)]
    Set(SetArgs),
    /// What a group keeps, why, and which device holds it
    #[command(after_long_help = EXPLAIN_HELP)]
    Explain {
        /// The group: g7, or its name
        group: String,
    },
}

/// What `retention set` takes.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct SetArgs {
    /// The group: g7, or its name
    pub group: String,
    /// Remove messages older than this: 24h, 90d
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span, group = "what")]
    pub age: Option<Duration>,
    /// Keep so many items at the most: messages, and all else that has a msgid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), group = "what")]
    pub count: Option<u64>,
    /// Keep so many bytes of items at the most, or a sixteenth more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), group = "what")]
    pub bytes: Option<u64>,
    /// Remove what everybody's devices have acknowledged, once it is older than this
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span, group = "what")]
    pub acked: Option<Duration>,
    /// Keep everything
    #[arg(long, group = "what", conflicts_with_all = ["age", "count", "bytes", "acked"])]
    pub all: bool,
    /// Keep what the server's settings say
    #[arg(long = "default", group = "what", conflicts_with_all = ["age", "count", "bytes", "acked", "all"])]
    pub by_default: bool,
}

#[derive(Debug, Serialize)]
struct KeptJson {
    group: String,
    own: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked_s: Option<u64>,
    first_kept: u64,
    head: u64,
    clock_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderJson>,
}

#[derive(Debug, Serialize)]
struct HolderJson {
    user: String,
    handle: String,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_day: Option<String>,
}

/// Does it.
///
/// # Errors
/// Where the server refuses or is out of reach.
pub async fn run(context: &Context, command: &RetentionCommand) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    let group = match command {
        RetentionCommand::Show { group } | RetentionCommand::Explain { group } => group,
        RetentionCommand::Set(args) => &args.group,
    };
    let id = context::group(&client, &profile, group).await?;
    if let RetentionCommand::Set(args) = command {
        client.set_retention(id, policy(args)).await?;
    }
    let kept = client.retention(id).await?;
    let is_explained = matches!(command, RetentionCommand::Explain { .. });
    tell(context, &client, id, &kept, is_explained).await
}

fn policy(args: &SetArgs) -> Option<Retention> {
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs());
    let SetArgs { age, count, bytes, acked, .. } = args;
    let policy = Retention { age_s: seconds(*age), count: *count, bytes: *bytes, acked_s: seconds(*acked) };
    (!args.by_default).then_some(policy)
}

async fn tell(
    context: &Context,
    client: &Client,
    group: GroupId,
    kept: &Kept,
    is_explained: bool,
) -> Result<Exit, CliError> {
    let holder = match kept.holder.filter(|_| is_explained) {
        Some(holder) => {
            let names = client.names(&[holder.user]).await?;
            let handle = names.get(&holder.user).cloned().unwrap_or_default();
            let seen_day = holder.is_told().then(|| when::day(u64::from(holder.seen_day) * 24 * 3_600 * 1_000));
            let acked = holder.is_told().then(|| holder.acked.value());
            let (user, device) = (holder.user.to_string(), holder.device.to_string());
            Some(HolderJson { user, handle, device, acked, seen_day })
        }
        None => None,
    };
    let Retention { age_s, count, bytes, acked_s } = kept.policy;
    let mut text = words(kept);
    if is_explained {
        // The first that is kept need not be one that this member may see.
        let page = client.pull(group, kept.first_kept.previous(), 1).await?;
        let first_ms = page.items.first().filter(|item| item.msgid == kept.first_kept).map(|item| item.time_ms);
        let now_ms = client.connected().await.map_or(kept.clock_ms, |session| session.time_ms);
        text.push_str(&explained(kept, first_ms, now_ms, holder.as_ref()));
    }
    let json = KeptJson {
        group: group.to_string(),
        own: kept.own,
        age_s,
        count,
        bytes,
        acked_s,
        first_kept: kept.first_kept.value(),
        head: kept.head.value(),
        clock_ms: kept.clock_ms,
        holder,
    };
    context.output.record(&text, &json)?;
    Ok(Exit::Done)
}

fn span(seconds: u64) -> String {
    when::span(seconds.saturating_mul(1_000))
}

fn words(kept: &Kept) -> String {
    let Retention { age_s, count, bytes, acked_s } = kept.policy;
    let limits = [
        age_s.map(|age| format!("for {}", span(age))),
        count.map(|count| format!("{count} items at the most")),
        bytes.map(|bytes| format!("{bytes} bytes at the most")),
        acked_s.map(|grace| format!("until every device has it and {} have passed", span(grace))),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let keeps = if limits.is_empty() { "everything".to_owned() } else { limits.join("; ") };
    let whose = if kept.own { "the group's own" } else { "the server's" };
    let (first, head) = (kept.first_kept.value(), kept.head.value());
    let there = match head.saturating_add(1).saturating_sub(first) {
        0 => format!("nothing: all {head} are gone"),
        left => format!("{first} to {head}, which are {left}"),
    };
    format!("keeps        {keeps} ({whose} policy)\nthere is     {there}")
}

/// Why what is there is still there: what each limit makes of the first item that is kept, sent at this time.
fn explained(kept: &Kept, first_ms: Option<u64>, now_ms: u64, holder: Option<&HolderJson>) -> String {
    let mut lines = String::new();
    let (first, head) = (kept.first_kept.value(), kept.head.value());
    let left = head.saturating_add(1).saturating_sub(first);
    if first > 1 {
        lines.push_str(&format!("\ngone         1 to {}, for good", first - 1));
    }
    if kept.policy == Retention::default() {
        lines.push_str("\nwhy          no limit is set");
    }
    if let Some(age_s) = kept.policy.age_s.filter(|_| left > 0) {
        // An edit of what is gone has no time, and what was stamped by a wrong clock is not as old as it looks.
        let old_ms = first_ms.map(|sent_ms| kept.clock_ms.saturating_sub(sent_ms));
        let old_ms = old_ms.filter(|old_ms| *old_ms <= age_s.saturating_mul(1_000));
        let is = old_ms.map_or_else(String::new, |old_ms| format!("it is {} old, and ", when::span(old_ms)));
        lines
            .push_str(&format!("\nby age       {first} is the oldest: {is}goes once it is older than {}", span(age_s)));
    }
    if let Some(count) = kept.policy.count {
        let then = if left < count { "it is not reached" } else { "with each new one the oldest goes" };
        lines.push_str(&format!("\nby count     {left} of {count}: {then}"));
    }
    if let Some(bytes) = kept.policy.bytes {
        lines.push_str(&format!("\nby bytes     the oldest goes where all takes more than {bytes} by a sixteenth"));
    }
    let behind_ms = now_ms.saturating_sub(kept.clock_ms);
    if behind_ms > CLOCK_BEHIND_MS && (kept.policy.age_s.is_some() || kept.policy.acked_s.is_some()) {
        lines.push_str(&format!(
            "\nclock        ages are reckoned by one that is {} behind: after a stop it takes as long to catch up",
            when::span(behind_ms)
        ));
    }
    let Some(grace) = kept.policy.acked_s else { return lines };
    match holder {
        Some(HolderJson { handle, device, acked, seen_day, .. }) => {
            let handle = visible::name(handle);
            let stands = match (acked, seen_day) {
                (Some(acked), Some(day)) => format!("which has everything up to {acked} and was seen last on {day}"),
                (None, _) | (_, None) => "who lets nobody know how far it is".to_owned(),
            };
            lines.push_str(&format!(
                "\nheld by      {device} of {handle}, {stands}; not seen for {} it holds nothing back",
                span(kept.unseen_s)
            ));
        }
        None => lines.push_str(&format!(
            "\nheld by      no device: all have everything, of those that let it be known; the rest waits for its {}",
            span(grace)
        )),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MessageId;

    #[test]
    fn each_limit_says_what_it_makes_of_what_is_there_and_a_clock_that_is_behind_is_told() {
        let policy = Retention { age_s: Some(7 * 24 * 3_600), count: Some(5), bytes: Some(1_000), acked_s: None };
        let (first_kept, head) = (MessageId::new(4), MessageId::new(8));
        let kept = Kept { policy, own: true, first_kept, head, clock_ms: 86_400_000, unseen_s: 0, holder: None };
        let said = explained(&kept, Some(0), 2 * 86_400_000, None);
        for line in [
            "gone         1 to 3, for good",
            "by age       4 is the oldest: it is 1 d old, and goes once it is older than 7 d",
            "by count     5 of 5: with each new one the oldest goes",
            "by bytes     the oldest goes where all takes more than 1000 by a sixteenth",
            "clock        ages are reckoned by one that is 1 d behind",
        ] {
            assert!(said.contains(line), "{line:?} is not in {said}");
        }
        let old = explained(&Kept { clock_ms: 30 * 86_400_000, ..kept.clone() }, Some(0), 30 * 86_400_000, None);
        assert!(old.contains("by age       4 is the oldest: goes once it is older than 7 d"), "{old}");
        let said = explained(&Kept { head: MessageId::new(5), ..kept }, None, 86_400_000, None);
        assert!(said.contains("by count     2 of 5: it is not reached") && !said.contains("clock"), "{said}");
    }
}
