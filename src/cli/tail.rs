//! `gaggle tail`: listens; prints what this device has not seen, then what comes, and acknowledges what was printed.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use tokio::sync::{mpsc, watch};

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::interrupt::Interrupts;
use crate::cli::known::Known;
use crate::cli::printer::{self, Line, Progress};
use crate::cli::render::{self, Form};
use crate::cli::{pull, queued, trouble, visible};
use crate::client::{
    Client, ClientOptions, Content, Event, Group, Listener, Outcome, Position, Profile, Received, Role, Subscription,
};
use crate::clock;
use crate::ids::{ClientSeq, GroupId, MessageId, UserId};

/// Groups whose news are told one by one at the start; of more only their number is told.
const GREETED_MAX: usize = 20;
/// What is printed but not yet out gets so long at the end, for a pipe whose reader is slow.
const LAST_LINES_WAIT: Duration = Duration::from_secs(1);

/// Examples, after the options.
pub const HELP: &str = "\
It prints one item a line: msgid, time, who, text; before that the group where more than one is listened to. It says on \
stderr how much this device has seen already. What is printed counts as seen once it has left this program, so that \
nothing is lost when it is killed, and nothing is printed again after it has ended in order (Ctrl-C). One tail a \
profile: a second one says which process listens already, and ends with 1. It goes on by itself when a connection breaks; \
that the server has fallen silent it says after a minute.

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
    /// Say on stderr, too, who comes and goes, and who is writing
    ///
    /// That somebody is writing is told by clients that notice it while they type; the commands of this program don't.
    #[arg(long)]
    pub typing: bool,
}

/// Listens until it is asked to end, or has printed as much as was asked for.
///
/// # Errors
/// Where another process of the profile listens, or the connection has ended for good.
pub async fn run(context: &Context, args: &TailArgs) -> Result<Exit, CliError> {
    let profile = context.profile()?;
    // A profile that nobody has joined with says so before anything else.
    profile.account()?;
    let groups = match (args.after, args.groups.as_slice()) {
        (None, []) => None,
        (None, named) => Some(resolve(context, &profile, named).await?),
        (Some(after), [named]) => match behind(context, &profile, named, after, args.count).await? {
            Some(group) => Some(vec![group]),
            None => return Ok(Exit::Done),
        },
        (Some(_), _) => {
            return Err(
                CliError::failed("--after is a msgid of one group").advise("name one: gaggle tail GROUP --after N")
            );
        }
    };
    let what = groups.clone().map_or(Subscription::All, Subscription::Groups);
    // What was only asked of another connection is known by now.
    context.close().await;
    let (client, listener) = Client::listen(&profile, ClientOptions::default(), what, None).await?;
    let client = context.keep(client);
    let (lines, printed) = printer::start(context.output);
    let known = Known::load(&profile);
    let queued = profile.outbox()?.iter().map(|entry| (entry.seq, queued::place(entry, &known))).collect();
    let left = args.count.unwrap_or(u64::MAX);
    let mut tail = Tail {
        context,
        profile,
        client,
        groups,
        known,
        queued,
        trouble: String::new(),
        greeted: false,
        printed_to: BTreeMap::new(),
        left,
        typing: args.typing,
    };
    tail.listen(listener, lines, printed).await
}

/// The groups that were named.
async fn resolve(context: &Context, profile: &Profile, named: &[String]) -> Result<Vec<GroupId>, CliError> {
    if let Ok(groups) = named.iter().map(|text| text.parse()).collect() {
        return Ok(groups);
    }
    let (_, client) = context.member().await?;
    let mut groups = Vec::new();
    for text in named {
        groups.push(context::group_or_known(&client, profile, text, context.output).await?);
    }
    groups.sort_unstable();
    groups.dedup();
    Ok(groups)
}

/// Begins behind a msgid: shows what lies below the mark, and then there is nothing to listen to; or names the group to
/// listen to, where the mark stands exactly there.
async fn behind(
    context: &Context,
    profile: &Profile,
    named: &str,
    after: u64,
    count: Option<u64>,
) -> Result<Option<GroupId>, CliError> {
    let (_, client) = context.member().await?;
    let groups = context::fetch(&client, profile).await?;
    let group = context::among(&client, &groups, named).await?;
    let cursor = groups.iter().find(|known| known.group == group).map_or(0, |known| known.cursor.value());
    if after > cursor {
        return Err(CliError::refused(format!(
            "this device has seen {} up to {cursor}; from {after} on, what lies between would never be seen",
            visible::name(named)
        ))
        .advise(format!("gaggle tail shows it; gaggle skip {group} {after} passes over it on purpose")));
    }
    if after == cursor {
        return Ok(Some(group));
    }
    context.output.words(&format!(
        "{}: seen up to {cursor}; showing what follows {after}, marking nothing",
        visible::name(named)
    ));
    pull::from(context, &client, group, MessageId::new(after), count).await?;
    Ok(None)
}

/// From a group of which one never was a member nothing would ever come.
fn all_ones_own(named: &[GroupId], groups: &[Group]) -> Result<(), CliError> {
    let own = |id: &GroupId| groups.iter().any(|group| group.group == *id);
    let Some(foreign) = named.iter().find(|id| !own(id)) else { return Ok(()) };
    let current = groups.iter().filter(|group| group.role != Role::Former);
    let list: Vec<String> = current.map(|group| format!("{} {}", group.group, visible::name(&group.name))).collect();
    let yours = if list.is_empty() { "you are in none".to_owned() } else { format!("yours: {}", list.join(", ")) };
    let error = CliError::refused(format!("you are not in {foreign}, or there is no such group")).advise(yours);
    Err(error.advise_also("who is in it can add you: gaggle group add"))
}

struct Tail<'a> {
    context: &'a Context,
    profile: Profile,
    client: Client,
    /// The groups listened to; none: all.
    groups: Option<Vec<GroupId>>,
    known: Known,
    /// What was in the outbox at the start, and how it is named: whoever queued it wants to know how it ends.
    queued: BTreeMap<ClientSeq, String>,
    trouble: String,
    greeted: bool,
    /// The last item of each group that was printed: it may come from the profile before there is a connection.
    printed_to: BTreeMap<GroupId, MessageId>,
    /// Items that may still be taken.
    left: u64,
    /// Whether it is said who writes, comes and goes.
    typing: bool,
}

impl Tail<'_> {
    async fn listen(
        &mut self,
        mut listener: Listener,
        lines: mpsc::Sender<Line>,
        mut printed: watch::Receiver<Progress>,
    ) -> Result<Exit, CliError> {
        let mut signals = Interrupts::watch();
        let ended = tokio::select! {
            ended = self.work(&mut listener, &lines, &mut printed) => ended,
            () = signals.next() => Ok(()),
        };
        drop(lines);
        tokio::select! {
            last = self.finish(&listener, printed) => last.map_or(ended, Err)?,
            () = signals.next() => {
                return Err(CliError::failed("ended at once by a second signal; the last items may come again"));
            }
        }
        Ok(Exit::Done)
    }

    /// Lets the printer write what it holds, acknowledges what it has written, and says goodbye. Why printing failed, if
    /// it did.
    async fn finish(&self, listener: &Listener, mut printed: watch::Receiver<Progress>) -> Option<CliError> {
        // The printer ends when it has written what it holds; one whose reader has stalled is left behind.
        let drained = async { while printed.changed().await.is_ok() {} };
        tokio::time::timeout(LAST_LINES_WAIT, drained).await.unwrap_or(());
        let last = printed.borrow().clone();
        if let Some(position) = last.position {
            listener.ack(position);
        }
        self.context.close().await;
        last.failed
    }

    /// Takes events, hands lines to the printer and acknowledges what it has written.
    async fn work(
        &mut self,
        listener: &mut Listener,
        lines: &mpsc::Sender<Line>,
        printed: &mut watch::Receiver<Progress>,
    ) -> Result<(), CliError> {
        let mut next: Option<Line> = None;
        loop {
            if self.left == 0 && next.is_none() {
                return Ok(());
            }
            tokio::select! {
                changed = printed.changed() => {
                    let progress = printed.borrow_and_update().clone();
                    if let Some(position) = progress.position {
                        listener.ack(position);
                    }
                    if progress.failed.is_some() || changed.is_err() {
                        return Ok(());
                    }
                }
                room = lines.reserve(), if next.is_some() => match (room, next.take()) {
                    (Ok(room), Some(line)) => room.send(line),
                    (Ok(_), None) | (Err(_), _) => return Ok(()),
                },
                event = listener.next(), if next.is_none() => match event {
                    Some(Event::Ended(cause)) => return Err(cause.into()),
                    Some(event) => next = self.line(event).await?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// What an event prints on stdout; what it has to say on stderr is said here.
    async fn line(&mut self, event: Event) -> Result<Option<Line>, CliError> {
        match event {
            Event::Item(received) => return self.item(received).await.map(Some),
            Event::Gone { position, seen_before: _, group, first, last } => {
                let label = self.label(group);
                let text = render::gone(group, first, last, self.form(label.as_deref()))?;
                return Ok(Some(self.take(text, position)));
            }
            Event::Connected(_) => self.connected().await?,
            Event::Disconnected { cause, retry_in: _ } => {
                let CliError::Said { words, .. } = CliError::from(cause) else { return Ok(None) };
                if words != self.trouble {
                    self.context.output.words(&format!("not connected, trying again: {words}"));
                    self.trouble = words;
                }
            }
            Event::Membership { group, member, msgid: _ } => {
                if member {
                    // Without an answer the group is called by its id.
                    drop(self.learn().await);
                }
                let how = if member { "you are in" } else { "you are no longer in" };
                self.context.output.words(&format!("{how} {}", self.known.called(group)));
            }
            Event::Device { device, name, added } => {
                let how = if added { "was added to" } else { "is no longer one of" };
                self.context.output.warn(&format!("{device} \"{}\" {how} your devices", visible::name(&name)));
            }
            Event::Settled { seq, outcome } => self.settled(seq, &outcome),
            Event::Renumbered { from, to } => {
                if let Some(place) = self.queued.remove(&from) {
                    self.queued.insert(to, place);
                }
                let why = "the profile was copied, or restored from a backup";
                self.context.output.warn(&format!("{from} goes on as {to} in the outbox: {why}"));
            }
            Event::InboxLost => self.context.output.warn("the profile's inbox was lost: some items may come again"),
            Event::Typing { group, user } if self.typing => {
                let words = format!("{} is writing in {}", self.handle(user).await, self.known.called(group));
                self.context.output.words(&words);
            }
            Event::Presence { user, online } if self.typing => {
                let how = if online { "is here" } else { "has gone" };
                let words = format!("{} {how}", self.handle(user).await);
                self.context.output.words(&words);
            }
            Event::Head { .. } | Event::ReadMark(_) | Event::Receipts { .. } => {}
            Event::Typing { .. } | Event::Presence { .. } | Event::Ended(_) => {}
        }
        Ok(None)
    }

    /// Without an answer somebody is called by their id.
    async fn handle(&self, user: UserId) -> String {
        let names = self.client.names(&[user]).await.unwrap_or_default();
        render::who(user, &names)
    }

    async fn item(&mut self, received: Received) -> Result<Line, CliError> {
        let Received { position, seen_before, item } = received;
        if let Content::Created(name) | Content::Renamed(name) = &item.content
            && item.group.pair().is_none()
        {
            self.known.note(item.group, name);
        }
        let users: Vec<_> = render::mentioned(&item).collect();
        // Without an answer the line shows ids: late handles are better than late messages.
        let names = self.client.names(&users).await.unwrap_or_default();
        self.printed_to.insert(item.group, item.msgid);
        let label = self.label(item.group);
        let text = render::item(&item, seen_before, &names, self.form(label.as_deref()))?;
        Ok(self.take(text, position))
    }

    fn take(&mut self, text: String, position: Position) -> Line {
        self.left = self.left.saturating_sub(1);
        Line { text, position }
    }

    async fn connected(&mut self) -> Result<(), CliError> {
        if self.greeted && !self.trouble.is_empty() {
            self.context.output.words("connected again");
        }
        self.trouble.clear();
        let Some(groups) = self.learn().await else { return Ok(()) };
        if !self.greeted {
            self.greeted = true;
            all_ones_own(self.groups.as_deref().unwrap_or_default(), &groups)?;
            self.greet(&groups);
        }
        Ok(())
    }

    /// Looks up how groups are called. None: the connection has broken again; it is done at the next one.
    async fn learn(&mut self) -> Option<Vec<Group>> {
        let groups = context::fetch(&self.client, &self.profile).await.ok()?;
        for group in &groups {
            self.known.note(group.group, &group.name);
        }
        Some(groups)
    }

    fn greet(&self, groups: &[Group]) {
        let seen_to = |group: &Group| self.printed_to.get(&group.group).copied().unwrap_or_default().max(group.cursor);
        let listens = |group: &&Group| match &self.groups {
            None => group.role != Role::Former || seen_to(group) < group.head,
            Some(named) => named.contains(&group.group),
        };
        let listened: Vec<&Group> = groups.iter().filter(listens).collect();
        let (news, seen): (Vec<&Group>, Vec<&Group>) =
            listened.into_iter().partition(|group| seen_to(group) < group.head);
        for group in news.iter().take(GREETED_MAX) {
            let (seen, head) = (seen_to(group).value(), group.head.value());
            self.context
                .output
                .words(&format!("{}: seen up to {seen}, the newest is {head}", self.known.called(group.group)));
        }
        if let Some(more) = news.len().checked_sub(GREETED_MAX).filter(|more| *more > 0) {
            self.context.output.words(&format!("{more} more groups have something new"));
        }
        match (news.len(), seen.as_slice()) {
            (0, []) => self.context.output.words("you are in no group yet; listening (Ctrl-C ends)"),
            (0, [only]) => {
                let head = only.head.value();
                self.context
                    .output
                    .words(&format!("{}: all {head} seen; listening (Ctrl-C ends)", self.known.called(only.group)));
            }
            (0, all) => {
                self.context.output.words(&format!("{} groups, everything seen; listening (Ctrl-C ends)", all.len()));
            }
            (_, _) => {}
        }
    }

    fn settled(&mut self, seq: ClientSeq, outcome: &Outcome) {
        let queued = self.queued.remove(&seq);
        match (outcome, queued) {
            (Outcome::Sent { group, msgid, .. }, Some(_)) => {
                self.context.output.words(&queued::sent(seq, *group, *msgid, &self.known));
            }
            (Outcome::Sent { .. } | Outcome::Withdrawn | Outcome::NotKept, _) => {}
            (Outcome::Refused(refusal), Some(place)) => {
                self.context.output.error(&trouble::refusal(refusal).at(&place));
            }
            (Outcome::Refused(_), None) => {}
            (Outcome::Unknown, _) => self.context.output.warn(&format!(
                "the server no longer knows whether {seq} of the outbox was stored; look with gaggle pull, then gaggle outbox drop"
            )),
        }
    }

    /// What a line calls its group: nothing where it can be only one.
    fn label(&self, group: GroupId) -> Option<String> {
        let single = self.groups.as_ref().is_some_and(|groups| groups.len() == 1);
        if single { None } else { Some(self.known.called(group)) }
    }

    fn form<'b>(&self, label: Option<&'b str>) -> Form<'b> {
        Form { json: self.context.output.is_json(), label, now_ms: clock::now_ms() }
    }
}
