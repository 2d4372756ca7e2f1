//! How the engine gets its connection, loses it, and ends.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{EVENTS_QUEUED_MAX, Engine, Identity, LAST_ACKS, Link, broken, report};
use crate::client::connect::Server;
use crate::client::error::ConnectError;
use crate::client::event::Event;
use crate::client::hello::{Accepted, FirstFlight, Who, introduce};
use crate::client::live::{Live, NetEvent};
use crate::client::receiving::Receiving;
use crate::client::types::Session;
use crate::clock;
use crate::wire::frame::Welcome;

impl Engine {
    pub(super) fn connect(&mut self) {
        self.attempt += 1;
        // Who has once begun to send goes on, also while another process may hold the drain lock.
        self.wanted = true;
        let (server, who) = match &self.identity {
            Identity::Device { account, .. } => {
                let server = Server { address: account.address.clone(), pins: account.pins.clone() };
                let listens = self.receiving.is_some();
                let (device, epoch) = (account.device, account.epoch);
                (server, Who::Device { device, epoch, listens, instance: self.instance, attempt: self.attempt })
            }
            Identity::Operator { server } => (server.clone(), Who::Operator),
        };
        let mut first = FirstFlight::default();
        if let Some(receiving) = &mut self.receiving {
            let (subscribe, pulls) = receiving.first_flight();
            first = FirstFlight { subscribe: Some(subscribe), pulls };
            self.listing = true;
        }
        // What an older connection still had to say is not heard on the new one.
        let (sender, net) = mpsc::channel(EVENTS_QUEUED_MAX);
        self.net_sender = sender;
        self.net = net;
        let (key, options) = (Arc::clone(&self.key), self.options.clone());
        let mut attempt = JoinSet::new();
        attempt.spawn(async move { introduce(&server, &key, who, first, &options).await });
        self.link = Link::Connecting(attempt);
    }

    pub(super) async fn connected(&mut self, result: Result<Box<Accepted>, ConnectError>) -> Result<(), ConnectError> {
        let accepted = match result {
            Ok(accepted) => accepted,
            Err(error) => return self.failed(error),
        };
        let Accepted { endpoint, connection, welcome, streams } = *accepted;
        let address = match &self.identity {
            Identity::Device { account, .. } => {
                if welcome.epoch != account.epoch {
                    return Err(ConnectError::OtherHistory { known: account.epoch, now: welcome.epoch });
                }
                account.address.clone()
            }
            Identity::Operator { server } => server.address.clone(),
        };
        let session = session(&welcome);
        let (live, tasks) = Live::start(endpoint, connection, address, session.clone(), streams, &self.net_sender);
        self.link = Link::Up { live: Arc::clone(&live), _tasks: tasks, since: clock::monotonic() };
        if let Some(receiving) = &mut self.receiving {
            receiving.credit(welcome.credit_items, welcome.credit_bytes);
            receiving.notify(Event::Connected(session));
        }
        self.seen.send_modify(|seen| {
            seen.live = Some(live);
            seen.trouble = None;
        });
        if let Some(sending) = &mut self.sending {
            report(sending.connected(&welcome, clock::monotonic_ms()).await);
        }
        self.learn(welcome).await
    }

    /// Keeps what the server said about itself and the user.
    async fn learn(&mut self, welcome: Welcome) -> Result<(), ConnectError> {
        let Identity::Device { profile, account } = &mut self.identity else { return Ok(()) };
        let pins = welcome.pins.iter().filter_map(|pin| pin.as_ref().try_into().ok());
        let pins: Vec<[u8; 32]> = pins.collect();
        let known = account.pins == pins && account.handle == welcome.handle;
        if known || pins.is_empty() {
            return Ok(());
        }
        account.pins = pins;
        account.handle.clone_from(&welcome.handle);
        let profile = profile.clone();
        let kept = tokio::task::spawn_blocking(move || profile.learn(&welcome.pins, &welcome.handle));
        // Not kept now, it is learned again at the next connection.
        report(kept.await.unwrap_or(Ok(())));
        Ok(())
    }

    /// There is no connection, or none any more: the next attempt comes after a pause, unless it would be pointless.
    pub(super) fn failed(&mut self, error: ConnectError) -> Result<(), ConnectError> {
        if let Link::Up { since, .. } = &self.link {
            self.backoff.held(&self.options, clock::monotonic().duration_since(*since));
        }
        if let Some(sending) = &mut self.sending {
            sending.lost(clock::monotonic_ms());
        }
        if error.is_terminal() {
            return Err(error);
        }
        let asked = if let ConnectError::Refused(refusal) = &error { refusal.retry_after_ms } else { 0 };
        let pause = self.backoff.failed(&self.options, rand::random::<f64>(), asked);
        self.link = Link::Down(clock::monotonic() + pause);
        self.listing = false;
        self.seen.send_modify(|seen| {
            seen.live = None;
            seen.failures += 1;
            seen.trouble = Some(error.clone());
        });
        if let Some(receiving) = &mut self.receiving {
            receiving.notify(Event::Disconnected { cause: error, retry_in: pause });
        }
        Ok(())
    }

    /// It is over for good.
    pub(super) async fn end(&mut self, error: ConnectError) {
        if self.has_ended() {
            return;
        }
        if let Link::Up { live, .. } = &self.link {
            live.close().await;
        }
        self.link = Link::Down(clock::monotonic());
        if let Some(sending) = &mut self.sending {
            sending.end(&error);
        }
        if let Some(receiving) = &mut self.receiving {
            receiving.notify(Event::Ended(error.clone()));
        }
        self.seen.send_modify(|seen| {
            seen.live = None;
            seen.failures += 1;
            seen.trouble = Some(error.clone());
            seen.ended = Some(error);
        });
    }

    /// Tells the server what was acknowledged, and goes.
    pub(super) async fn close(&mut self) {
        if matches!(self.link, Link::Connecting(_)) {
            self.link = Link::Down(clock::monotonic());
        }
        let deadline = tokio::time::Instant::from_std(clock::monotonic() + LAST_ACKS);
        let told = self.tell_listener().await;
        if let (Ok(()), Some(receiving), Link::Up { live, .. }) = (told, &mut self.receiving, &self.link) {
            let live = Arc::clone(live);
            if let Some(ack) = receiving.all_acks(clock::monotonic_ms()) {
                broken(&live, live.write_acks(&ack).await);
            }
            while self.receiving.as_ref().is_some_and(Receiving::expects_answer) {
                match tokio::time::timeout_at(deadline, self.net.recv()).await {
                    Ok(Some(NetEvent::Closed(_)) | None) | Err(_) => break,
                    // What cannot be taken in any more is taken in by the next process.
                    Ok(Some(event)) => drop(self.happened(vec![event]).await),
                }
            }
        }
        if let Some(receiving) = &mut self.receiving {
            receiving.end().await;
        }
        if let Link::Up { live, .. } = &self.link {
            live.close().await;
        }
        self.seen.send_modify(|seen| {
            seen.live = None;
            seen.ended.get_or_insert(ConnectError::Closed);
        });
    }
}

fn session(welcome: &Welcome) -> Session {
    Session {
        user: welcome.user,
        handle: welcome.handle.clone(),
        operator: welcome.operator,
        epoch: welcome.epoch,
        body_bytes_max: usize::try_from(welcome.body_bytes_max).unwrap_or(usize::MAX),
        time_ms: welcome.time_ms,
    }
}
