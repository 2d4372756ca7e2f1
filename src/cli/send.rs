//! `gaggle send`: sends through the profile's outbox, so that a message is never lost between here and the server.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::{input, interrupt, output, queued, stream, trouble, visible};
use crate::client::{Client, OutboxError, Outcome, Profile, Say};
use crate::clock;
use crate::ids::{ClientSeq, GroupId, UserId};
use crate::limits::BODY_BYTES_MAX;
use crate::wire::code::Code;

/// A person waits so long for an answer; then the message is called queued, and they are free to go.
pub const UNREACHABLE_MS_MAX: u64 = 10_000;
const SENT_WHEN_ROOM: &str = "tell whoever runs the server; once it has room ";
const SENT_BY: &str =
    "the next command of this profile that reaches the server sends it, gaggle outbox flush for one, and gaggle tail";

/// Examples, after the options.
pub const HELP: &str = "\
It prints the msgid of each message once the server has it on disk. A message is on this disk before it is sent, and \
is sent once, whatever breaks in between. If the server cannot be reached for 10 seconds, or its disk is full, it is queued: the command says \
so and ends with 3, and the next command of this profile that reaches the server sends it, `gaggle outbox flush` for one, \
and `gaggle tail`. That command says on stderr that it was sent, or why it was refused; its exit code is that of its own.

With - (or nothing, and stdin not a terminal) each line of stdin is a message, empty lines are left out, and msgids are \
printed in the order of the lines. Text must be UTF-8, 64 KiB at most. A text that begins with - goes behind --.

--mention looks the members up at the server: where that is out of reach, nothing is queued.

  gaggle send team \"hello, everybody\"
  tail -f /var/log/app.log | gaggle send g7 -
  git log -1 -p | gaggle send team --whole
  gaggle send team \"bob, have a look\" --mention bob
  gaggle send team -- \"- a list\"";

/// What `send` takes.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// The group: g7, or its name
    pub group: String,
    /// The message, in quotes where it has spaces; - reads stdin
    pub text: Option<String>,
    /// All of stdin is one message
    #[arg(long)]
    pub whole: bool,
    /// Mention a member of the group; several times for several
    #[arg(long, value_name = "HANDLE")]
    pub mention: Vec<String>,
    /// Do not queue: where the server cannot be reached, nothing is kept for later
    #[arg(long)]
    pub no_queue: bool,
}

#[derive(Debug, Serialize)]
struct SentJson {
    group: String,
    msgid: u64,
    time_ms: u64,
}

#[derive(Debug, Serialize)]
struct QueuedJson {
    group: String,
    queued: String,
}

/// A message whose answer is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// Its number in the outbox.
    pub seq: ClientSeq,
    /// The line of stdin that it was, from 1.
    pub line: Option<u64>,
}

/// A message whose answer is asked for from now on, so that it is not forgotten before it is told.
#[derive(Debug)]
pub struct Asked {
    /// Which.
    pub waiting: Waiting,
    answer: JoinHandle<Result<Outcome, OutboxError>>,
}

impl Waiting {
    /// What is said before words about it.
    #[must_use]
    pub fn place(&self) -> String {
        self.line.map_or_else(String::new, |line| format!("line {line}: "))
    }
}

impl Asked {
    /// Asks for its answer.
    #[must_use]
    pub fn of(client: &Client, waiting: Waiting) -> Asked {
        let client = client.clone();
        Asked { waiting, answer: tokio::spawn(async move { client.outcome(waiting.seq).await }) }
    }

    /// The answer; none where it does not come within this time. Not to be asked again after it came.
    ///
    /// # Errors
    /// Where the outbox cannot be read, or it is over.
    pub async fn within(&mut self, wait: Duration) -> Result<Option<Outcome>, CliError> {
        match tokio::time::timeout(wait, self.answer()).await {
            Ok(answer) => Ok(Some(answer?)),
            Err(_) => Ok(None),
        }
    }

    /// The answer, whenever it comes. Not to be asked again after it came.
    ///
    /// # Errors
    /// Where the outbox cannot be read, or it is over.
    pub async fn answer(&mut self) -> Result<Outcome, OutboxError> {
        (&mut self.answer).await.unwrap_or(Err(OutboxError::Closed))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.answer.abort();
    }
}

/// Where it goes.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// To a group, by id or name.
    Group(&'a str),
    /// To a user, by handle.
    User(&'a str),
}

/// What is sent, and how.
#[derive(Debug, Clone, Copy)]
pub struct Sending<'a> {
    /// The message; none, or `-`: stdin.
    pub text: Option<&'a str>,
    /// All of stdin is one message.
    pub whole: bool,
    /// Nothing is kept for later.
    pub no_queue: bool,
    /// Whom it mentions.
    pub mention: &'a [String],
}

enum Source {
    One(String),
    Lines,
}

/// Sends.
///
/// # Errors
/// Where there is nothing to send, the group is unknown, or the profile cannot be used.
pub async fn run(context: &Context, args: &SendArgs) -> Result<Exit, CliError> {
    let SendArgs { group, text, whole, no_queue, mention } = args;
    let sending = Sending { text: text.as_deref(), whole: *whole, no_queue: *no_queue, mention };
    send(context, Target::Group(group), sending).await
}

/// Sends to a group or a user.
///
/// # Errors
/// As [`run`].
pub async fn send(context: &Context, target: Target<'_>, sending: Sending<'_>) -> Result<Exit, CliError> {
    let begun = clock::monotonic();
    let source = source(context, sending)?;
    let (profile, client) = context.member().await?;
    let found = async {
        if sending.no_queue {
            client.connected().await?;
        }
        let group = match target {
            Target::Group(group) => context::group_or_known(&client, &profile, group, context.output).await?,
            Target::User(handle) => context::direct_or_known(&client, &profile, handle, context.output).await?,
        };
        Ok((group, mentioned(&client, group, sending.mention).await?))
    };
    let (group, mentions) = unless_interrupted(found).await?;
    let sender = Sender { context, profile: &profile, client: &client, group, queues: !sending.no_queue };
    match source {
        Source::One(text) => sender.one(&Say::Text { text, reply_to: None, mentions }, patience(begun)).await,
        Source::Lines => stream::run(&sender).await,
    }
}

/// Says one thing about an earlier message, and its msgid; what can't be said now is queued.
///
/// # Errors
/// As [`run`].
pub async fn about(context: &Context, group: &str, what: &Say, mention: &[String]) -> Result<Exit, CliError> {
    let begun = clock::monotonic();
    let (profile, client) = context.member().await?;
    let found = async {
        let group = context::group_or_known(&client, &profile, group, context.output).await?;
        Ok((group, mentioned(&client, group, mention).await?))
    };
    let (group, whom) = unless_interrupted(found).await?;
    let sender = Sender { context, profile: &profile, client: &client, group, queues: true };
    let mut what = what.clone();
    if let Say::Text { mentions, .. } = &mut what {
        *mentions = whom;
    }
    sender.one(&what, patience(begun)).await
}

/// What is looked up before anything is said; who ends it meanwhile hears that nothing was.
async fn unless_interrupted<T>(found: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::select! {
        found = found => found,
        () = interrupt::asked() => Err(CliError::try_again("interrupted; nothing was sent, and nothing is queued")),
    }
}

/// The text of an argument, or with - all of stdin.
///
/// # Errors
/// Where stdin is no text, or it is empty.
pub fn text(given: &str) -> Result<String, CliError> {
    said(if given == "-" { input::whole(BODY_BYTES_MAX)? } else { given.to_owned() })
}

/// A text that says something.
fn said(text: String) -> Result<String, CliError> {
    if text.is_empty() { Err(CliError::failed("there is nothing to send: the message is empty")) } else { Ok(text) }
}

/// For how long an answer is still waited for.
fn patience(begun: std::time::Instant) -> Duration {
    let spent = clock::monotonic().saturating_duration_since(begun);
    Duration::from_millis(UNREACHABLE_MS_MAX).saturating_sub(spent)
}

/// The members of these handles.
async fn mentioned(client: &Client, group: GroupId, handles: &[String]) -> Result<Vec<UserId>, CliError> {
    if handles.is_empty() {
        return Ok(Vec::new());
    }
    let members = client.members(group).await?;
    let find = |handle: &String| {
        let named = handle.trim_start_matches('@').to_ascii_lowercase();
        let found = members.iter().find(|member| member.handle == named).map(|member| member.user);
        found.ok_or_else(|| {
            CliError::refused(format!("\"{}\" is not the handle of a member of the group", visible::name(handle)))
                .advise("gaggle group members GROUP shows them")
        })
    };
    handles.iter().map(find).collect()
}

/// What there is to send. A whole message is read before anything is connected.
fn source(context: &Context, sending: Sending<'_>) -> Result<Source, CliError> {
    let text = match sending.text {
        Some("-") | None if sending.whole => input::whole(BODY_BYTES_MAX)?,
        Some("-") | None if !sending.mention.is_empty() => {
            return Err(CliError::failed("--mention is of one message, but each line of stdin is one")
                .advise("--whole makes one of all of them"));
        }
        Some("-") | None => {
            if output::input_is_a_terminal() {
                context.output.words("each line is a message; Ctrl-D ends");
            }
            return Ok(Source::Lines);
        }
        Some(_) if sending.whole => {
            return Err(CliError::failed("--whole reads the message from stdin, but there is a TEXT too")
                .advise("leave out one of them"));
        }
        Some(text) => text.to_owned(),
    };
    said(text).map(Source::One)
}

/// Says how a message ended: its msgid on stdout, anything else on stderr, behind which message it is.
///
/// # Errors
/// Where stdout is gone.
pub fn report(context: &Context, place: &str, seq: ClientSeq, outcome: &Outcome) -> Result<Exit, CliError> {
    if let Outcome::Sent { group, msgid, time_ms } = outcome {
        let json = SentJson { group: group.to_string(), msgid: msgid.value(), time_ms: *time_ms };
        context.output.record(&msgid.value().to_string(), &json)?;
    }
    if matches!(outcome, Outcome::NotKept) {
        context.output.warn(&format!("{place}{seq} has its answer, which is no longer kept; gaggle pull shows it"));
    }
    let Some(error) = queued::failure(seq, outcome) else { return Ok(Exit::Done) };
    let exit = error.exit();
    context.output.error(&error.at(place));
    Ok(exit)
}

/// Where messages go, and what becomes of those that cannot be sent.
#[derive(Debug)]
pub struct Sender<'a> {
    /// The options.
    pub context: &'a Context,
    /// The profile.
    pub profile: &'a Profile,
    /// Its client.
    pub client: &'a Client,
    /// The group.
    pub group: GroupId,
    /// Whether what cannot be sent stays in the outbox.
    pub queues: bool,
}

impl Sender<'_> {
    async fn one(&self, what: &Say, patience: Duration) -> Result<Exit, CliError> {
        let seq = self.client.say(self.group, what).await?;
        let waiting = Waiting { seq, line: None };
        tokio::select! {
            outcome = self.client.outcome_within(seq, patience) => match outcome? {
                Some(outcome) => report(self.context, &waiting.place(), seq, &outcome),
                None => self.give_up(&[waiting]),
            },
            () = interrupt::asked() => self.give_up(&[waiting]),
        }
    }

    /// Says what becomes of messages without an answer.
    ///
    /// # Errors
    /// Where stdout is gone.
    pub fn give_up(&self, waiting: &[Waiting]) -> Result<Exit, CliError> {
        let cause = trouble::cause(self.client);
        let mut queued = 0_u64;
        for waiting in waiting {
            let (seq, place) = (&waiting.seq, waiting.place());
            let withdrawn = !self.queues && self.profile.withdraw(*seq).is_ok();
            if withdrawn {
                self.context
                    .output
                    .error(&CliError::try_again(format!("{place}not sent, and nothing is kept: {cause}")));
                continue;
            }
            queued = queued.saturating_add(1);
            let json = QueuedJson { group: self.group.to_string(), queued: seq.to_string() };
            self.context.output.record("", &json)?;
        }
        if queued > 0 {
            let tried = if self.queues { "" } else { " (it was tried already, and may be on the server)" };
            let count = if queued == 1 { String::new() } else { format!("{queued} messages ") };
            let is_full = self.client.held().is_some_and(|held| held.is(Code::StorageFull));
            let when = if is_full { SENT_WHEN_ROOM } else { "" };
            self.context.output.warn(&format!("{count}queued{tried}: {cause}\n  {when}{SENT_BY}"));
        }
        Ok(Exit::TryAgain)
    }
}
