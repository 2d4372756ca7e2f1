//! `gaggle send GROUP -`: each line of stdin a message, the window of unanswered sends kept full.
//!
//! One half reads and queues, the other tells the answers in the order of the lines; between them lie a bounded number of
//! lines, so that neither the outbox nor memory grows while all is well. Lines that are there together are queued
//! together: they share a sync of the outbox.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use crate::cli::exit::{CliError, Exit};
use crate::cli::input::{self, Line};
use crate::cli::interrupt;
use crate::cli::send::{self, Asked, Sender, UNREACHABLE_MS_MAX, Waiting};
use crate::client::{OutboxError, Outcome};
use crate::clock;
use crate::ids::ClientSeq;
use crate::limits::BODY_BYTES_MAX;
use crate::wire::code::Code;

/// Lines that are read ahead of their answers: several windows of unanswered sends, so that the window is never idle.
const LINES_AHEAD_MAX: usize = 64;
/// Lines that are queued together.
const LINES_TOGETHER_MAX: usize = 32;
/// Once answers have failed to come, they are looked for this often, and each time so long.
const LOOK_GAP: Duration = Duration::from_secs(1);
const LOOK_TIME: Duration = Duration::from_millis(100);

/// Sends stdin, line by line, until it ends, the group is closed to this user, or a signal comes.
///
/// # Errors
/// Where stdin cannot be read or stdout written, or the outbox cannot be used.
pub async fn run(sender: &Sender<'_>) -> Result<Exit, CliError> {
    let (queued, incoming) = mpsc::channel(LINES_AHEAD_MAX);
    let stream = Stream { sender, exit: Cell::new(Exit::Done), empty: Cell::new(0), stop: Notify::new() };
    let mut answers = Answers { incoming, unanswered: VecDeque::new(), looked: None };
    let work = async {
        // Where reading fails, what was read is still told of; where telling fails, nothing more is read.
        let mut read = Ok(());
        let reading = async {
            read = stream.read(queued).await;
            Ok(())
        };
        let told = tokio::try_join!(reading, stream.tell(&mut answers)).map(|_| ());
        read.and(told)
    };
    let ended = tokio::select! {
        ended = work => ended,
        () = interrupt::asked() => Ok(()),
    };
    answers.incoming.close();
    while let Ok(asked) = answers.incoming.try_recv() {
        answers.unanswered.push_back(asked);
    }
    if stream.empty.get() > 0 {
        sender.context.output.words(&format!("left out {} empty lines", stream.empty.get()));
    }
    let unanswered: Vec<Waiting> = answers.unanswered.iter().map(|asked| asked.waiting).collect();
    let told = if unanswered.is_empty() { Exit::Done } else { sender.give_up(&unanswered)? };
    ended?;
    Ok(told.worse(stream.exit.get()))
}

struct Stream<'a> {
    sender: &'a Sender<'a>,
    exit: Cell<Exit>,
    empty: Cell<u64>,
    stop: Notify,
}

struct Answers {
    incoming: mpsc::Receiver<Asked>,
    unanswered: VecDeque<Asked>,
    /// When an answer was last looked for in vain. From then on lines are queued without waiting for one: nobody knows
    /// when it comes.
    looked: Option<Instant>,
}

impl Answers {
    /// How long to wait for the next answer; none: not now.
    fn patience(&self) -> Option<Duration> {
        match self.looked {
            None => Some(Duration::from_millis(UNREACHABLE_MS_MAX)),
            Some(last) if clock::monotonic().saturating_duration_since(last) < LOOK_GAP => None,
            Some(_) => Some(LOOK_TIME),
        }
    }
}

impl Stream<'_> {
    async fn read(&self, queued: mpsc::Sender<Asked>) -> Result<(), CliError> {
        let mut lines = input::lines(BODY_BYTES_MAX);
        loop {
            let first = tokio::select! {
                line = lines.recv() => line,
                () = self.stop.notified() => None,
            };
            let Some(first) = first else { return Ok(()) };
            let (mut texts, mut ended) = (Vec::new(), Ok(()));
            let mut next = Some(first);
            while let Some(line) = next.take() {
                match line {
                    Line::Text(_, text) if text.is_empty() => self.empty.set(self.empty.get().saturating_add(1)),
                    Line::Text(number, text) => texts.push((number, text)),
                    Line::Bad(error) => self.complain(error),
                    Line::End(error) => ended = Err(error),
                }
                if texts.len() < LINES_TOGETHER_MAX {
                    next = lines.try_recv().ok();
                }
            }
            let seqs = together(texts.iter().map(|(_, text)| self.sender.client.queue(self.sender.group, text))).await;
            for ((number, _), seq) in texts.iter().zip(seqs) {
                if !self.hand_over(&queued, *number, seq).await {
                    return Ok(());
                }
            }
            ended?;
        }
    }

    /// Gives what was queued to the other half; false where nothing more can be queued.
    async fn hand_over(&self, queued: &mpsc::Sender<Asked>, number: u64, seq: Result<ClientSeq, OutboxError>) -> bool {
        match seq {
            Ok(seq) => {
                let asked = Asked::of(self.sender.client, Waiting { seq, line: Some(number) });
                queued.send(asked).await.is_ok()
            }
            Err(error @ (OutboxError::TooLarge { .. } | OutboxError::Unsayable)) => {
                self.complain(CliError::from(error).at(&format!("line {number}: ")));
                true
            }
            Err(error) => {
                self.complain(CliError::from(error).at(&format!("line {number} and those after it were not taken: ")));
                false
            }
        }
    }

    fn complain(&self, error: CliError) {
        self.sender.context.output.error(&error);
        self.exit.set(self.exit.get().worse(error.exit()));
    }

    async fn tell(&self, answers: &mut Answers) -> Result<(), CliError> {
        loop {
            if let Some(patience) = answers.patience() {
                while let Some(asked) = answers.unanswered.front_mut() {
                    let waiting = asked.waiting;
                    let Some(outcome) = asked.within(patience).await? else {
                        answers.looked = Some(clock::monotonic());
                        break;
                    };
                    answers.unanswered.pop_front();
                    answers.looked = None;
                    self.told(waiting, &outcome)?;
                }
            }
            match answers.incoming.recv().await {
                Some(asked) => answers.unanswered.push_back(asked),
                None if answers.looked.is_none() => return Ok(()),
                None => return self.last_look(answers).await,
            }
        }
    }

    /// What has come in the end, after answers had failed to come.
    async fn last_look(&self, answers: &mut Answers) -> Result<(), CliError> {
        while let Some(asked) = answers.unanswered.front_mut() {
            let waiting = asked.waiting;
            match asked.within(LOOK_TIME).await? {
                Some(outcome) => {
                    answers.unanswered.pop_front();
                    self.told(waiting, &outcome)?;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn told(&self, waiting: Waiting, outcome: &Outcome) -> Result<(), CliError> {
        let exit = send::report(self.sender.context, &waiting.place(), waiting.seq, outcome)?;
        self.exit.set(self.exit.get().worse(exit));
        if ends_all(outcome) {
            self.sender.context.output.warn("reading no further lines");
            self.stop.notify_one();
        }
        Ok(())
    }
}

/// Whether a refusal is one that every later line would get too.
fn ends_all(outcome: &Outcome) -> bool {
    let Outcome::Refused(refusal) = outcome else { return false };
    [Code::NoSuchGroup, Code::NotAllowed, Code::NotMember].iter().any(|code| refusal.is(*code))
}

/// Drives futures together; they begin in their order.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(move |context| {
        let mut open = false;
        for (future, slot) in running.iter_mut().zip(&mut done) {
            if slot.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Some(output),
                    Poll::Pending => open = true,
                }
            }
        }
        if open { Poll::Pending } else { Poll::Ready(done.iter_mut().filter_map(Option::take).collect()) }
    })
    .await
}
