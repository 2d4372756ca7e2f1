//! `gaggle send`: sends through the profile's outbox, so that a message is never lost between here and the server.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::sync::{Notify, mpsc};

use crate::cli::context::{self, Context};
use crate::cli::exit::{CliError, Exit};
use crate::cli::input::{self, Line};
use crate::cli::{interrupt, output, trouble, visible};
use crate::client::{Client, OutboxError, Outcome, Profile};
use crate::clock;
use crate::ids::{ClientSeq, GroupId};
use crate::limits::BODY_BYTES_MAX;
use crate::wire::code::Code;

/// A person waits so long for an answer; then the message is called queued, and they are free to go.
pub const UNREACHABLE_MS_MAX: u64 = 10_000;
/// Lines that are read ahead of their answers: several windows of unanswered sends, so that the window is never idle.
const LINES_AHEAD_MAX: usize = 64;
const SENT_BY: &str = "the next gaggle send, gaggle tail or gaggle outbox flush of this profile sends it";

/// Examples, after the options.
pub const HELP: &str = "\
It prints the msgid of each message once the server has it on disk. A message is on this disk before it is sent, and \
is sent once, whatever breaks in between. If the server cannot be reached for 10 seconds it is queued: the command says \
so and ends with 3, and the next `gaggle send`, `gaggle tail` or `gaggle outbox flush` of this profile sends it.

With - (or nothing, and stdin not a terminal) each line of stdin is a message, empty lines are left out, and msgids are \
printed in the order of the lines. Text must be UTF-8, 64 KiB at most. A text that begins with - goes behind --.

  gaggle send team \"hello, everybody\"
  tail -f /var/log/app.log | gaggle send g7 -
  git log -1 -p | gaggle send team --whole
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

enum Source {
    One(String),
    Lines,
}

/// Sends.
///
/// # Errors
/// Where there is nothing to send, the group is unknown, or the profile cannot be used.
pub async fn run(context: &Context, args: &SendArgs) -> Result<Exit, CliError> {
    let begun = clock::monotonic();
    let source = source(context, args)?;
    let (profile, client) = context.member().await?;
    if args.no_queue {
        client.connected().await?;
    }
    let group = context::group_or_known(&client, &profile, &args.group, context.output).await?;
    let sender = Sender { context, profile: &profile, client: &client, group, queues: !args.no_queue };
    match source {
        Source::One(text) => {
            let patience = Duration::from_millis(UNREACHABLE_MS_MAX);
            let spent = clock::monotonic().saturating_duration_since(begun);
            sender.one(&text, patience.saturating_sub(spent)).await
        }
        Source::Lines => sender.lines().await,
    }
}

/// What there is to send. A whole message is read before anything is connected.
fn source(context: &Context, args: &SendArgs) -> Result<Source, CliError> {
    let text = match args.text.as_deref() {
        Some("-") | None if args.whole => input::whole(BODY_BYTES_MAX)?,
        Some("-") | None => {
            if output::input_is_a_terminal() {
                context.output.words("each line is a message; Ctrl-D ends");
            }
            return Ok(Source::Lines);
        }
        Some(_) if args.whole => {
            return Err(CliError::failed("--whole reads the message from stdin, but there is a TEXT too")
                .advise("leave out one of them"));
        }
        Some(text) => text.to_owned(),
    };
    if text.is_empty() {
        return Err(CliError::failed("there is nothing to send: the message is empty"));
    }
    Ok(Source::One(text))
}

/// Says how a message ended: its msgid on stdout, anything else on stderr.
///
/// # Errors
/// Where stdout is gone.
pub fn report(context: &Context, waiting: Waiting, outcome: &Outcome) -> Result<Exit, CliError> {
    let place = waiting.line.map_or_else(String::new, |line| format!("line {line}: "));
    let error = match outcome {
        Outcome::Sent { group, msgid, time_ms } => {
            let json = SentJson { group: group.to_string(), msgid: msgid.value(), time_ms: *time_ms };
            context.output.record(&msgid.value().to_string(), &json)?;
            return Ok(Exit::Done);
        }
        Outcome::Refused(refusal) if refusal.is(Code::NotMember) => {
            CliError::refused("you are not in this group any more").advise("gaggle group list shows yours")
        }
        Outcome::Refused(refusal) => trouble::refusal(refusal),
        Outcome::Unknown => {
            CliError::try_again(format!("the server no longer knows whether {} was stored", waiting.seq))
                .advise("look with gaggle pull whether it is there; then gaggle outbox drop")
        }
        Outcome::Withdrawn => CliError::refused(format!("{} was dropped from the outbox", waiting.seq)),
    };
    let exit = error.exit();
    context.output.error(&error.at(&place));
    Ok(exit)
}

struct Sender<'a> {
    context: &'a Context,
    profile: &'a Profile,
    client: &'a Client,
    group: GroupId,
    queues: bool,
}

impl Sender<'_> {
    async fn one(&self, text: &str, patience: Duration) -> Result<Exit, CliError> {
        let seq = self.client.queue(self.group, text).await?;
        let waiting = Waiting { seq, line: None };
        tokio::select! {
            outcome = self.client.outcome_within(seq, patience) => match outcome? {
                Some(outcome) => report(self.context, waiting, &outcome),
                None => self.give_up(&[waiting]),
            },
            () = interrupt::asked() => self.give_up(&[waiting]),
        }
    }

    /// Says what becomes of messages without an answer.
    fn give_up(&self, waiting: &[Waiting]) -> Result<Exit, CliError> {
        let cause =
            self.client.trouble().map_or_else(|| "no answer yet".to_owned(), |cause| visible::name(&cause.to_string()));
        let mut queued = 0_u64;
        for Waiting { seq, line } in waiting {
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
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
            self.context.output.warn(&format!("{count}queued{tried}: {cause}\n  {SENT_BY}"));
        }
        Ok(Exit::TryAgain)
    }

    /// Each line a message. One half reads and queues, the other tells the answers in order; between them lie a bounded
    /// number of lines, so that neither the outbox nor memory grows while all is well.
    async fn lines(&self) -> Result<Exit, CliError> {
        let (queued, answers) = mpsc::channel(LINES_AHEAD_MAX);
        let state = Lines { exit: Cell::new(Exit::Done), stop: Notify::new() };
        let mut answers = Answers { incoming: answers, unanswered: VecDeque::new(), patient: true };
        let work = async {
            let (read, told) = tokio::join!(self.read(queued, &state), self.tell(&mut answers, &state));
            read.and(told)
        };
        let ended = tokio::select! {
            ended = work => ended,
            () = interrupt::asked() => Ok(()),
        };
        answers.incoming.close();
        while let Ok(waiting) = answers.incoming.try_recv() {
            answers.unanswered.push_back(waiting);
        }
        ended?;
        let unanswered: Vec<Waiting> = answers.unanswered.into_iter().collect();
        if unanswered.is_empty() {
            return Ok(state.exit.get());
        }
        Ok(self.give_up(&unanswered)?.worse(state.exit.get()))
    }

    async fn read(&self, queued: mpsc::Sender<Waiting>, state: &Lines) -> Result<(), CliError> {
        let mut lines = input::lines(BODY_BYTES_MAX);
        let mut empty = 0_u64;
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = state.stop.notified() => break,
            };
            let (number, text) = match line {
                None => break,
                Some(Line::Text(_, text)) if text.is_empty() => {
                    empty = empty.saturating_add(1);
                    continue;
                }
                Some(Line::Text(number, text)) => (number, text),
                Some(Line::Bad(error)) => {
                    self.context.output.error(&error);
                    state.exit.set(state.exit.get().worse(error.exit()));
                    continue;
                }
                Some(Line::End(error)) => return Err(error),
            };
            match self.client.queue(self.group, &text).await {
                Ok(seq) => {
                    if queued.send(Waiting { seq, line: Some(number) }).await.is_err() {
                        break;
                    }
                }
                Err(error @ OutboxError::TooLarge { .. }) => {
                    let error = CliError::from(error).at(&format!("line {number}: "));
                    self.context.output.error(&error);
                    state.exit.set(state.exit.get().worse(error.exit()));
                }
                Err(error) => {
                    let error = CliError::from(error).at(&format!("line {number} and those after it were not taken: "));
                    self.context.output.error(&error);
                    state.exit.set(state.exit.get().worse(error.exit()));
                    break;
                }
            }
        }
        if empty > 0 {
            self.context.output.words(&format!("left out {empty} empty lines"));
        }
        Ok(())
    }

    async fn tell(&self, answers: &mut Answers, state: &Lines) -> Result<(), CliError> {
        loop {
            let Some(waiting) = answers.unanswered.front().copied() else {
                match answers.incoming.recv().await {
                    Some(waiting) => answers.unanswered.push_back(waiting),
                    None => return Ok(()),
                }
                continue;
            };
            // Without an answer for long, lines are queued without waiting for each: nobody knows when it comes.
            let patience = if answers.patient { Duration::from_millis(UNREACHABLE_MS_MAX) } else { Duration::ZERO };
            match self.client.outcome_within(waiting.seq, patience).await? {
                Some(outcome) => {
                    answers.unanswered.pop_front();
                    answers.patient = true;
                    let exit = report(self.context, waiting, &outcome)?;
                    state.exit.set(state.exit.get().worse(exit));
                    if ends_all(&outcome) {
                        self.context.output.warn("reading no further lines");
                        state.stop.notify_one();
                    }
                }
                None => {
                    answers.patient = false;
                    match answers.incoming.recv().await {
                        Some(waiting) => answers.unanswered.push_back(waiting),
                        None => return Ok(()),
                    }
                }
            }
        }
    }
}

/// Whether a refusal is one that every later line would get too.
fn ends_all(outcome: &Outcome) -> bool {
    let Outcome::Refused(refusal) = outcome else { return false };
    [Code::NoSuchGroup, Code::NotAllowed, Code::NotMember].iter().any(|code| refusal.is(*code))
}

struct Lines {
    exit: Cell<Exit>,
    stop: Notify,
}

struct Answers {
    incoming: mpsc::Receiver<Waiting>,
    unanswered: VecDeque<Waiting>,
    patient: bool,
}
