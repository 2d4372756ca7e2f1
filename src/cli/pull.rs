//! `gaggle pull`: browses a group; nothing counts as seen by it.

use clap::Args;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::render::{self, Form};
use crate::cli::standing;
use crate::client::{Client, Conversation, Item, Page};
use crate::clock;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::PAGE_ITEMS_MAX;

/// Examples, after the options.
pub const HELP: &str = "\
It prints one item a line, oldest first: msgid, time, who, text. Without an option it prints everything you may see.

With --folded it prints the messages as they stand instead: each with its last edit, with counts of \
reactions and who reacted; of what was recalled nothing but (recalled).

  gaggle pull team --last 20
  gaggle pull team --after 1200 --limit 100
  gaggle pull team --folded
  gaggle --json pull team > team.jsonl";

/// What `pull` takes.
#[derive(Debug, Clone, Args)]
pub struct PullArgs {
    /// The group: g7, or its name
    pub group: String,
    /// Begin behind this msgid
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// Only the newest N items
    #[arg(long, value_name = "N", conflicts_with = "after", value_parser = clap::value_parser!(u64).range(1..))]
    pub last: Option<u64>,
    /// At most N items
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// The messages as they stand, with edits and reactions folded into them
    #[arg(long, conflicts_with_all = ["after", "last", "limit"])]
    pub folded: bool,
}

/// Prints the items asked for.
///
/// # Errors
/// Where the server refuses or is out of reach, or stdout is gone.
pub async fn run(context: &Context, args: &PullArgs) -> Result<Exit, CliError> {
    let (profile, client) = context.member().await?;
    let group = context::group(&client, &profile, &args.group).await?;
    if args.folded {
        folded(context, &client, group).await?;
    } else if let Some(count) = args.last {
        last(context, &client, group, count, args.limit).await?;
    } else {
        let after = MessageId::new(args.after.unwrap_or(0).min(MessageId::MAX.value()));
        from(context, &client, group, after, args.limit).await?;
    }
    Ok(Exit::Done)
}

/// Prints everything above this msgid, at most so many items, page by page.
///
/// # Errors
/// As [`run`].
pub async fn from(
    context: &Context,
    client: &Client,
    group: GroupId,
    after: MessageId,
    limit: Option<u64>,
) -> Result<(), CliError> {
    let mut after = after;
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let page = client.pull(group, after, page_size(left)).await?;
        print(context, client, group, &page).await?;
        left = left.saturating_sub(count(&page.items));
        if !page.more || page.covered_to <= after {
            break;
        }
        after = page.covered_to;
    }
    Ok(())
}

/// Prints every message as it stands.
async fn folded(context: &Context, client: &Client, group: GroupId) -> Result<(), CliError> {
    let all = between(client, group, MessageId::ZERO, MessageId::MAX).await?;
    let mut conversation = Conversation::new();
    all.items.iter().for_each(|item| conversation.take(item));
    let messages: Vec<_> = conversation.messages().collect();
    let names = names(client, messages.iter().flat_map(standing::mentioned)).await?;
    let form = Form { json: context.output.is_json(), label: None, now_ms: clock::now_ms() };
    let lines: Result<String, CliError> =
        messages.iter().map(|message| standing::message(group, message, &names, form)).collect();
    context.output.raw(lines?.as_bytes())
}

/// What these users are called.
async fn names(client: &Client, users: impl Iterator<Item = UserId>) -> Result<render::Names, CliError> {
    let mut users: Vec<_> = users.collect();
    users.sort_unstable();
    users.dedup();
    Ok(client.names(&users).await?)
}

/// Prints the newest items. What lies between the stays of a member is invisible, so that the distance to go back is
/// found by trying: each time twice as far.
async fn last(
    context: &Context,
    client: &Client,
    group: GroupId,
    count: u64,
    limit: Option<u64>,
) -> Result<(), CliError> {
    let head = client.pull(group, MessageId::MAX, 1).await?.head.value();
    let mut back = count;
    let mut page = Page::default();
    let mut begin = head.saturating_add(1);
    while u64::try_from(page.items.len()).unwrap_or(u64::MAX) < count && begin > 1 {
        let from = head.saturating_sub(back);
        let older = between(client, group, MessageId::new(from), MessageId::new(begin)).await?;
        page = Page {
            items: older.items.into_iter().chain(page.items).collect(),
            gone: older.gone.into_iter().chain(page.gone).collect(),
            ..page
        };
        begin = from.saturating_add(1);
        back = back.saturating_mul(2).min(head);
    }
    let surplus = page.items.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    page.items.drain(..surplus);
    page.items.truncate(usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX));
    let first = page.items.first().map_or(MessageId::ZERO, |item| item.msgid);
    page.gone.retain(|(_, last)| surplus == 0 || *last >= first);
    print(context, client, group, &page).await
}

/// Everything visible above `after` and below `end`.
async fn between(client: &Client, group: GroupId, after: MessageId, end: MessageId) -> Result<Page, CliError> {
    let mut all = Page::default();
    let mut after = after;
    while after.next() < end {
        let room = end.value().saturating_sub(after.value()).saturating_sub(1);
        let page = client.pull(group, after, page_size(room)).await?;
        all.items.extend(page.items.into_iter().filter(|item| item.msgid < end));
        all.gone.extend(page.gone.into_iter().filter(|(first, _)| *first < end));
        if !page.more || page.covered_to <= after {
            break;
        }
        after = page.covered_to;
    }
    Ok(all)
}

async fn print(context: &Context, client: &Client, group: GroupId, page: &Page) -> Result<(), CliError> {
    let names = names(client, page.items.iter().flat_map(render::mentioned)).await?;
    let form = Form { json: context.output.is_json(), label: None, now_ms: clock::now_ms() };
    let mut gone = page.gone.iter().peekable();
    let mut lines = String::new();
    for item in &page.items {
        while let Some((first, last)) = gone.next_if(|(first, _)| *first < item.msgid) {
            lines.push_str(&render::gone(group, *first, *last, form)?);
        }
        lines.push_str(&render::item(item, false, &names, form)?);
    }
    for (first, last) in gone {
        lines.push_str(&render::gone(group, *first, *last, form)?);
    }
    context.output.raw(lines.as_bytes())
}

fn page_size(left: u64) -> u32 {
    u32::try_from(left).unwrap_or(u32::MAX).clamp(1, PAGE_ITEMS_MAX)
}

fn count(items: &[Item]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}
