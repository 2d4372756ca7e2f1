//! The task that loops over the steps of an engine on a real network.

use tokio::sync::mpsc;

use super::{Command, Engine, LAST_ACKS, Link};
use crate::client::net::NetEvent;
use crate::client::quic::{Dialled, Quic};
use crate::client::receiving::Receiving;
use crate::clock;

/// Events, or entries for the outbox, that are handled together.
const TOGETHER_MAX: usize = 64;

/// What made the loop turn.
enum Turn {
    Commands(Vec<Command>),
    Net(Vec<NetEvent>),
    Connected(Dialled),
    /// Time has passed, or the application took or acknowledged something.
    Other,
    Abandoned,
}

impl Engine<Quic> {
    /// Runs until all handles are gone, or it is closed.
    pub(in crate::client) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            if let Err(error) = self.advance().await {
                self.end(error).await;
            }
            match self.turn(&mut commands).await {
                Turn::Abandoned => return self.finish(&mut commands).await,
                Turn::Commands(asked) => {
                    if let Some(closed) = self.obey(asked).await {
                        self.finish(&mut commands).await;
                        // Who closed may be gone.
                        return closed.send(()).unwrap_or_default();
                    }
                }
                turn @ (Turn::Net(_) | Turn::Connected(_) | Turn::Other) => self.take(turn).await,
            }
        }
    }

    /// Takes what came.
    async fn take(&mut self, turn: Turn) {
        let taken = match turn {
            Turn::Net(events) => self.happened(events).await,
            Turn::Connected(result) => self.connected(result).await,
            Turn::Commands(_) | Turn::Other | Turn::Abandoned => Ok(()),
        };
        if let Err(error) = taken {
            self.end(error).await;
        }
    }

    /// Tells the server what was acknowledged, waits a while for its answer, and goes.
    async fn finish(&mut self, commands: &mut mpsc::Receiver<Command>) {
        let deadline = tokio::time::Instant::from_std(clock::monotonic() + LAST_ACKS);
        // What was stored by an earlier process may have been acknowledged before there was a connection to tell it on.
        let gone_on = tokio::time::timeout_at(deadline, self.go_on_for_acks(commands));
        gone_on.await.unwrap_or(());
        self.close().await;
        while self.waits_for_last_answer() {
            match tokio::time::timeout_at(deadline, self.net.events.recv()).await {
                Ok(Some(NetEvent::Closed(_)) | None) | Err(_) => break,
                // What cannot be taken in any more is taken in by the next process.
                Ok(Some(event)) => drop(self.happened(vec![event]).await),
            }
        }
        self.leave().await;
    }

    /// Goes on as long as there is a connection, or soon may be, that acks wait for.
    async fn go_on_for_acks(&mut self, commands: &mut mpsc::Receiver<Command>) {
        loop {
            if let Err(error) = self.advance().await {
                self.end(error).await;
            }
            let holds_back = self.receiving.as_ref().is_some_and(Receiving::holds_acks_back);
            if !holds_back || matches!(self.link, Link::Down(_)) {
                return;
            }
            match self.turn(commands).await {
                Turn::Abandoned => return,
                turn @ (Turn::Commands(_) | Turn::Net(_) | Turn::Connected(_) | Turn::Other) => self.take(turn).await,
            }
        }
    }

    /// Waits for whatever comes first.
    async fn turn(&mut self, commands: &mut mpsc::Receiver<Command>) -> Turn {
        let wake = tokio::time::Instant::from_std(self.wakes_at());
        let queue = self.receiving.as_ref().filter(|receiving| receiving.has_backlog()).map(Receiving::queue);
        let mut acks = self.receiving.as_ref().map(Receiving::acks);
        let connecting = async {
            match &mut self.link {
                Link::Connecting(attempt) => attempt.ended().await,
                Link::Down(_) | Link::Up { .. } => std::future::pending().await,
            }
        };
        let room = async {
            match &queue {
                Some(queue) if queue.is_closed() => std::future::pending().await,
                // What is reserved is given back at once: the next step looks at the room that there is.
                Some(queue) => drop(queue.reserve().await),
                None => std::future::pending().await,
            }
        };
        let acked = async {
            match &mut acks {
                // Who does not listen any more acknowledges nothing.
                Some(acks) => match acks.changed().await {
                    Ok(()) => (),
                    Err(_) => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => {
                    let more = std::iter::from_fn(|| commands.try_recv().ok());
                    Turn::Commands(std::iter::once(command).chain(more.take(TOGETHER_MAX)).collect())
                }
                None => Turn::Abandoned,
            },
            Some(event) = self.net.events.recv() => {
                let more = std::iter::from_fn(|| self.net.events.try_recv().ok());
                Turn::Net(std::iter::once(event).chain(more.take(TOGETHER_MAX)).collect())
            }
            result = connecting => Turn::Connected(result),
            () = room => Turn::Other,
            () = acked => Turn::Other,
            () = tokio::time::sleep_until(wake) => Turn::Other,
        }
    }
}
