//! How the engine gets its connection, loses it, and ends.

use std::sync::Arc;

use super::{Engine, Identity, Link, broken, report};
use crate::client::chance;
use crate::client::connect::Server;
use crate::client::error::ConnectError;
use crate::client::event::Event;
use crate::client::hello::{FirstFlight, Who};
use crate::client::net::{Dial, Line, Net};
use crate::client::receiving::Receiving;
use crate::client::types::Session;
use crate::clock;
use crate::wire::frame::Welcome;

impl<N: Net> Engine<N> {
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
        let (key, options) = (Arc::clone(&self.key), self.options.clone());
        self.link = Link::Connecting(self.net.dial(Dial { server, key, who, first, options }));
    }

    pub(in crate::client) async fn connected(
        &mut self,
        result: Result<Box<(Welcome, N::Accepted)>, ConnectError>,
    ) -> Result<(), ConnectError> {
        let (welcome, accepted) = match result {
            Ok(accepted) => *accepted,
            Err(error) => return self.failed(error),
        };
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
        let line = self.net.start(accepted, address, session.clone());
        let live = line.live();
        self.link = Link::Up { line, since: clock::monotonic() };
        if let Some(receiving) = &mut self.receiving {
            receiving.credit(welcome.credit_items, welcome.credit_bytes);
            receiving.notify(Event::Connected(session));
        }
        self.seen.send_modify(|seen| {
            seen.live = live;
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
        let kept = self.files.work(move || profile.learn(&welcome.pins, &welcome.handle));
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
        let pause = self.backoff.failed(&self.options, chance::fraction(), asked);
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
    pub(in crate::client) async fn end(&mut self, error: ConnectError) {
        if self.has_ended() {
            return;
        }
        if let Link::Up { line, .. } = &self.link {
            line.close().await;
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

    /// An orderly end begins: the server is told what was acknowledged.
    pub(in crate::client) async fn close(&mut self) {
        if matches!(self.link, Link::Connecting(_)) {
            self.link = Link::Down(clock::monotonic());
        }
        self.told_all = self.tell_listener().await.is_ok();
        if let (true, Some(receiving), Link::Up { line, .. }) = (self.told_all, &mut self.receiving, &self.link)
            && let Some(ack) = receiving.all_acks(clock::monotonic_ms())
        {
            broken(line, line.write_acks(&ack).await);
        }
    }

    /// Whether an orderly end waits for the answer to the last acks.
    pub(in crate::client) fn waits_for_last_answer(&self) -> bool {
        let up = matches!(self.link, Link::Up { .. });
        self.told_all && up && self.receiving.as_ref().is_some_and(Receiving::expects_answer)
    }

    /// The last step of an orderly end.
    pub(in crate::client) async fn leave(&mut self) {
        if let Some(receiving) = &mut self.receiving {
            receiving.end().await;
        }
        if let Link::Up { line, .. } = &self.link {
            line.close().await;
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
