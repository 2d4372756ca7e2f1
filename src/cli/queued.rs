//! What earlier commands have left in the outbox: what it is, and how it ends.
//!
//! Whichever command connects sends it, and the one that queued it is gone. So every one of them says how it ended. Decides
//! nothing: the exit code is that of what the command itself was asked for.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::cli::exit::CliError;
use crate::cli::known::Known;
use crate::cli::output::Output;
use crate::cli::send::{Asked, Waiting};
use crate::cli::{trouble, visible};
use crate::client::{Client, EntryState, OutboxEntry, Outcome, Profile, Say};
use crate::ids::{ClientSeq, GroupId, MessageId};

/// So much of a text is shown where one of many is named.
const EXCERPT_CHARACTERS: usize = 40;
/// For so long a command that has done its own goes on sending what waited.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);
/// Once the client is closed there is nothing left to wait for but what was answered.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Says how what waits in the outbox ends, beside whatever a command does.
#[derive(Debug)]
pub struct Queued {
    telling: JoinHandle<()>,
}

impl Queued {
    /// Waits a moment for what can still be sent; of a client that is connected.
    pub async fn settle(&mut self) {
        // What takes longer stays in the outbox.
        self.is_told_within(SETTLED_WITHIN).await;
    }

    /// Watches over what waits; none where nothing does.
    pub async fn watch(output: Output, profile: &Profile, client: &Client) -> Option<Queued> {
        // An outbox that cannot be read says so to who sends.
        let entries = client.outbox().await.unwrap_or_default();
        let known = Known::load(profile);
        let open = entries.iter().filter(|entry| entry.state != EntryState::OutcomeUnknown);
        let asked = open.map(|entry| (place(entry, &known), Asked::of(client, Waiting { seq: entry.seq, line: None })));
        let asked: Vec<(String, Asked)> = asked.collect();
        if asked.is_empty() {
            return None;
        }
        let telling = tokio::spawn(async move {
            for (place, mut asked) in asked {
                // What has no answer stays in the outbox.
                if let Ok(outcome) = asked.answer().await {
                    tell(output, &known, &place, asked.waiting.seq, &outcome);
                }
            }
        });
        Some(Queued { telling })
    }

    /// Says what is still to be said; of a client that is closed.
    pub async fn end(mut self) {
        if !self.is_told_within(LAST_WORDS).await {
            self.telling.abort();
        }
    }

    /// Whether all is said, by the end of this time at the latest.
    async fn is_told_within(&mut self, wait: Duration) -> bool {
        self.telling.is_finished() || tokio::time::timeout(wait, &mut self.telling).await.is_ok()
    }
}

fn tell(output: Output, known: &Known, place: &str, seq: ClientSeq, outcome: &Outcome) {
    if let Outcome::Sent { group, msgid, .. } = outcome {
        output.words(&sent(seq, *group, *msgid, known));
    }
    let by_hand = matches!(outcome, Outcome::Withdrawn);
    if let Some(error) = failure(seq, outcome).filter(|_| !by_hand) {
        output.error(&error.at(place));
    }
}

/// What is said of a queued message that the server has.
#[must_use]
pub fn sent(seq: ClientSeq, group: GroupId, msgid: MessageId, known: &Known) -> String {
    format!("{seq} of the outbox is sent: {} {}", known.called(group), msgid.value())
}

/// What is said of a message that ended otherwise than on the server's disk; none where that is not known.
#[must_use]
pub fn failure(seq: ClientSeq, outcome: &Outcome) -> Option<CliError> {
    match outcome {
        Outcome::Sent { .. } | Outcome::NotKept => None,
        Outcome::Refused(refusal) => Some(trouble::refusal(refusal)),
        Outcome::Unknown => Some(
            CliError::try_again(format!("the server no longer knows whether {seq} was stored"))
                .advise("look with gaggle pull whether it is there; then gaggle outbox drop"),
        ),
        Outcome::Withdrawn => Some(CliError::refused(format!("{seq} was dropped from the outbox"))),
    }
}

/// Which message something is said of: `s5 of the outbox, "hello" to team: `.
#[must_use]
pub fn place(entry: &OutboxEntry, known: &Known) -> String {
    let what = entry.what.as_ref().map_or_else(String::new, |what| format!("{} ", said(what)));
    format!("{} of the outbox, {what}to {}: ", entry.seq, known.called(entry.group))
}

/// A message in a few words, on one line.
#[must_use]
pub fn said(what: &Say) -> String {
    let body = visible::excerpt(what.body().as_bytes(), EXCERPT_CHARACTERS);
    match what {
        Say::Text { reply_to: None, .. } => format!("\"{body}\""),
        Say::Text { reply_to: Some(msgid), .. } => format!("\"{body}\" in reply to {}", msgid.value()),
        Say::Edit { target, .. } => format!("\"{body}\" in place of {}", target.value()),
        Say::Recall(target) => format!("the recall of {}", target.value()),
        Say::React { target, .. } => format!("{body} on {}", target.value()),
        Say::Unreact { target, .. } => format!("{body} off {}", target.value()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_named_by_number_words_and_group_and_steers_nothing() {
        let mut known = Known::default();
        known.note(GroupId::new(1), "te\x1bam");
        let entry = |group, what| OutboxEntry {
            seq: ClientSeq::new(5),
            group: GroupId::new(group),
            what,
            bytes: 0,
            state: EntryState::Waiting,
        };
        let text = Say::text("\x1b[2Jhello\nyou");
        assert_eq!(place(&entry(1, Some(text)), &known), "s5 of the outbox, \"\\x1b[2Jhello\\nyou\" to te\\x1bam: ");
        assert_eq!(place(&entry(2, None), &known), "s5 of the outbox, to g2: ");
        let target = MessageId::new(3);
        assert_eq!(said(&Say::Recall(target)), "the recall of 3");
        assert_eq!(said(&Say::Edit { target, text: "x".repeat(99) }), format!("\"{}…\" in place of 3", "x".repeat(39)));
    }
}
