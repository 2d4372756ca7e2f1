//! The faults that strike the network, the clients, the clock and the server; and the server's way back.

use super::*;

impl World {
    pub(super) fn is_calm(&self) -> bool {
        self.story.steps() >= self.plan.steps
    }

    pub(super) fn hits(&mut self, kind: Kind) -> bool {
        let rate = self.plan.rate(kind);
        self.chance.hits(kind, rate)
    }

    /// The faults of this step.
    pub(super) fn strike(&mut self) {
        if self.hits(Kind::Cut) {
            let links: Vec<LinkId> = self.network.links().map(|(id, _)| id).collect();
            if !links.is_empty() {
                let id = *self.chance.one(Kind::Cut, &links);
                let now = self.elapsed_ms;
                let client = now + self.chance.between(Kind::Cut, 100, 8_000);
                let server = now + self.chance.between(Kind::Cut, 100, 8_000);
                self.tell(format_args!("link {id} is cut"));
                self.network.cut(id, client, server);
            }
        }
        if self.hits(Kind::ClockJump) {
            let by = self.chance.between(Kind::ClockJump, 0, 200_000_000_000);
            self.day_ms = 1_600_000_000_000 + by;
            self.tell(format_args!("the clock of day jumps"));
            self.set_clock();
        }
        self.strike_clients();
        self.strike_rudely();
        if self.server.is_up() {
            self.strike_server();
        }
    }

    pub(super) fn strike_clients(&mut self) {
        let now = self.elapsed_ms;
        for index in 0..self.clients.len() {
            if self.clients[index].fails_at.is_some_and(|at| at <= now) {
                let seed = self.chance.below(Kind::ClientPower, u64::MAX);
                self.clients[index].crash(seed, &mut self.model);
                self.client_is_gone(index, Kind::ClientPower, "loses its power");
            }
        }
        let count = self.clients.len() as u64;
        if self.hits(Kind::ClientPower) {
            let index = self.chance.below(Kind::ClientPower, count) as usize;
            let changes = self.chance.below(Kind::ClientPower, 12);
            let at = now + self.chance.scaled(Kind::ClientPower, 1, 300);
            self.clients[index].cut_power_after(changes, at);
        }
        if self.hits(Kind::ClientKill) {
            let index = self.chance.below(Kind::ClientKill, count) as usize;
            if self.clients[index].process.is_some() && self.clients[index].fails_at.is_none() {
                self.clients[index].kill(&mut self.model);
                self.client_is_gone(index, Kind::ClientKill, "is killed");
            }
        }
    }

    pub(super) fn client_is_gone(&mut self, index: usize, kind: Kind, how: &str) {
        let device = self.clients[index].device;
        self.tell(format_args!("{device} {how}"));
        self.clients[index].starts_at = self.elapsed_ms + self.chance.scaled(kind, 1, 5_000);
        let server = &self.server;
        for id in self.network.owner_is_gone(index, |id| server.is_served(id)) {
            self.server.gone(id);
        }
        let links: Vec<LinkId> =
            self.network.links().filter(|(_, link)| link.client == Some(index)).map(|(id, _)| id).collect();
        for id in links {
            let patience = self.elapsed_ms + self.chance.between(kind, 100, 8_000);
            if let Some(link) = self.network.link(id) {
                link.server_gives_up.get_or_insert(patience);
            }
            self.network.client_is_gone(id);
        }
    }

    /// Somebody acknowledges what it never got.
    pub(super) fn strike_rudely(&mut self) {
        if !self.hits(Kind::Rude) {
            return;
        }
        let links: Vec<LinkId> = self.network.links().filter(|(_, link)| link.accepted).map(|(id, _)| id).collect();
        if links.is_empty() || self.groups.is_empty() {
            return;
        }
        let id = *self.chance.one(Kind::Rude, &links);
        let group = *self.chance.one(Kind::Rude, &self.groups);
        let head = self.model.head(group).value();
        let msgid = match self.chance.below(Kind::Rude, 4) {
            0 => head + 1 + self.chance.below(Kind::Rude, 100),
            1 => u64::MAX,
            2 => self.chance.between(Kind::Rude, 0, head),
            _ => head,
        };
        self.tell(format_args!("link {id}: somebody acknowledges {group} up to {msgid}"));
        if let Some(link) = self.network.link(id) {
            self.model.lied(self.clients[link.owner].device, group);
        }
        let at = self.elapsed_ms;
        let frame = Wire::ack(group, MessageId::new(msgid));
        self.network.send(id, Way::Up, Stream::Acks, at, Packet::Frame(frame));
    }

    pub(super) fn strike_server(&mut self) {
        for kind in [Kind::WriteError, Kind::SyncError, Kind::Slow, Kind::Full, Kind::IndexError, Kind::IndexStall] {
            if self.hits(kind)
                && let Some(words) = self.server.fault(kind, &mut self.chance, self.elapsed_ms)
            {
                self.tell(format_args!("{words}"));
            }
        }
        if self.hits(Kind::StepPower) {
            let changes = self.chance.below(Kind::StepPower, 20);
            self.tell(format_args!("the server's power goes in {changes} changes of its disk"));
            self.server.cut_power_after(changes);
        }
        if self.hits(Kind::ServerPower) || self.server.has_lost_power() {
            self.tell(format_args!("the server loses its power"));
            self.server.crash(&mut self.chance);
            self.server_is_gone();
        } else if self.hits(Kind::ServerKill) {
            self.tell(format_args!("the server is killed"));
            self.server.kill(&mut self.chance);
            self.server_is_gone();
        } else if self.hits(Kind::ServerStop) {
            self.tell(format_args!("the server is to stop"));
            self.server.begin_stop();
        }
    }

    /// The server's process is gone: its connections are, and it starts again some time.
    pub(super) fn server_is_gone(&mut self) {
        let starts_at = self.elapsed_ms + self.chance.scaled(Kind::Schedule, 1, 3_000);
        self.server.is_gone(starts_at);
        self.errand.iter_mut().for_each(Errand::interrupted);
        self.bans.clear();
        let links: Vec<LinkId> = self.network.links().map(|(id, _)| id).collect();
        for id in links {
            let patience = self.elapsed_ms + self.chance.between(Kind::Cut, 10, 5_000);
            if let Some(link) = self.network.link(id) {
                link.client_gives_up.get_or_insert(patience);
            }
            self.network.server_is_gone(id);
        }
    }

    pub(super) fn start_server(&mut self) -> Result<(), Broken> {
        let dies = self.hits(Kind::OpenPower).then(|| self.chance.scaled(Kind::OpenPower, 1, 60));
        match self.server.open(dies) {
            Ok(()) => self.tell(format_args!("the server is open")),
            Err(error) if self.server.has_lost_power() => {
                self.tell(format_args!("the server's power goes while it opens: {error}"));
                self.server.crash(&mut self.chance);
                self.server_is_gone();
                return Ok(());
            }
            Err(error) if self.server.is_full() => {
                self.tell(format_args!("the server does not open on a full disk: {error}"));
                self.server.end();
                self.server_is_gone();
                return Ok(());
            }
            Err(error) => return Err(format!("the server does not open: {error}")),
        }
        self.compare()
    }

    /// What an open server holds is at least what was shown and answered.
    pub(super) fn compare(&mut self) -> Result<(), Broken> {
        let known: Vec<GroupId> = self.model.groups().collect();
        let mut groups = self.server.groups();
        groups.extend(known);
        groups.sort_unstable();
        groups.dedup();
        self.server.let_index_be_read();
        self.model.store_was_opened(self.server.is_open());
        for group in groups {
            let found = self.server.items(group)?;
            let (reader, first_kept) = (self.server.reader(group), self.server.first_kept(group));
            self.model.reopened(group, reader, first_kept, &found)?;
        }
        self.note_joins()?;
        for client in &self.clients {
            for group in &self.places() {
                let cursor = self.server.cursor(*group, client.user, client.device);
                self.model.cursor_found(client.device, *group, cursor)?;
            }
        }
        Ok(())
    }
}
