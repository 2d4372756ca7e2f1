//! Who waits for which outcome, and what the outbox answers to questions.
//!
//! Whoever waits is answered by the change that ends the entry, or by what is still known of it; nobody waits for what
//! has ended.

use tokio::sync::oneshot;

use super::{OutcomeReply, Sending};
use crate::client::answer::outcome;
use crate::client::error::OutboxError;
use crate::client::types::{OutboxEntry, Outcome};
use crate::ids::ClientSeq;

impl Sending {
    /// Somebody waits for an outcome.
    pub(in crate::client) async fn wait(&mut self, seq: ClientSeq, reply: OutcomeReply) {
        let open = self.outbox().is_some_and(|outbox| outbox.entry(outbox.current(seq)).is_some());
        // What is known as open is looked after anyway.
        if !open && let Err(error) = self.refresh().await {
            // Who asked may be gone.
            return drop(reply.send(Err(error.into())));
        }
        let Some(outbox) = self.outbox() else { return };
        match (outbox.outcome(seq), outbox.entry(outbox.current(seq))) {
            // Who asked may be gone.
            (Some(settled), _) => drop(reply.send(Ok(outcome(settled)))),
            (None, Some(_)) => match &self.ended {
                // Who asked may be gone.
                Some(error) => drop(reply.send(Err(OutboxError::Ended(error.clone())))),
                None => {
                    let current = outbox.current(seq);
                    self.waiters.push((current, reply));
                }
            },
            // Who asked may be gone.
            (None, None) if outbox.is_forgotten(seq) => drop(reply.send(Ok(Outcome::NotKept))),
            (None, None) => drop(reply.send(Err(OutboxError::Absent(seq)))),
        }
    }

    /// Somebody waits until nothing is unanswered.
    pub(in crate::client) async fn wait_drained(&mut self, reply: oneshot::Sender<()>) {
        self.drained.push(reply);
        if let Err(error) = self.refresh().await {
            tracing::warn!(%error, "the outbox cannot be read");
        }
        self.answer_waiters();
    }

    /// Takes an entry out.
    pub(in crate::client) async fn withdraw(&mut self, seq: ClientSeq) -> Result<(), OutboxError> {
        self.refresh().await?;
        self.with_file(move |kept| kept.file.withdraw(seq)).await??;
        self.answer_waiters();
        Ok(())
    }

    /// What the outbox holds.
    pub(in crate::client) async fn listed(&mut self) -> Result<Vec<OutboxEntry>, OutboxError> {
        self.refresh().await?;
        Ok(self.with_file(|kept| kept.file.listed()).await?)
    }

    pub(super) fn answer(&mut self, seq: ClientSeq, outcome: &Outcome) {
        for (_, reply) in self.waiters.extract_if(.., |(waits, _)| *waits == seq) {
            // Who waited may be gone.
            drop(reply.send(Ok(outcome.clone())));
        }
    }

    pub(super) fn answer_waiters(&mut self) {
        let Some(kept) = &self.kept else { return };
        let outbox = kept.file.outbox();
        for (seq, reply) in std::mem::take(&mut self.waiters) {
            match outbox.outcome(seq) {
                // Who waited may be gone.
                Some(settled) => drop(reply.send(Ok(outcome(settled)))),
                None if outbox.is_forgotten(seq) => drop(reply.send(Ok(Outcome::NotKept))),
                None => self.waiters.push((seq, reply)),
            }
        }
        if outbox.count() == 0 {
            // Who waited may be gone.
            self.drained.drain(..).for_each(|reply| reply.send(()).unwrap_or_default());
        }
    }
}
