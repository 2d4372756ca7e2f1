//! What came of a step: it goes its way, and is held against the model; and the end, at which everybody must have
//! everything.

use super::*;

impl World {
    /// Everything that a step has brought forth goes its way, and is held against the model.
    pub(super) fn after(&mut self) -> Result<(), Broken> {
        for item in self.server.take_published() {
            self.model.commit(&item)?;
        }
        if std::mem::take(&mut self.server.reopened) {
            self.compare()?;
        }
        self.note_joins()?;
        self.note_marks()?;
        for (id, out) in self.server.take_written() {
            self.written(id, out)?;
        }
        for (device, group, continues, covered_to) in self.server.queued() {
            self.model.pushed(device, group, continues, covered_to);
        }
        self.go_on_with_errand()?;
        self.note_bans();
        for index in 0..self.clients.len() {
            self.carry_out(index);
            self.clients[index].note_wake();
        }
        self.server.check()?;
        if let Some(reason) = self.server.has_ended()? {
            self.tell(format_args!("the server ends: {reason}"));
            self.server_is_gone();
        }
        Ok(())
    }

    pub(super) fn note_joins(&mut self) -> Result<(), Broken> {
        for (group, user) in self.model.take_joins() {
            for client in self.clients.iter_mut().filter(|client| client.user == user) {
                let cursor = self.server.cursor(group, user, client.device);
                client.begins(group, cursor);
                self.model.joined(client.device, group, cursor)?;
            }
        }
        Ok(())
    }

    pub(super) fn written(&mut self, id: LinkId, out: Out) -> Result<(), Broken> {
        let (stream, packet) = match out {
            Out::Packet(stream, packet) => (stream, packet),
            Out::Closed(code) => {
                self.tell(format_args!("link {id}: the server closes it with {code}"));
                let at = self.delay();
                let patience = self.elapsed_ms + self.chance.between(Kind::Cut, 1_000, 8_000);
                if let Some(link) = self.network.link(id) {
                    link.closing_down = Some((at, code));
                    link.client_gives_up.get_or_insert(patience.max(at));
                }
                self.network.server_is_gone(id);
                return Ok(());
            }
        };
        if let Packet::Frame(bytes) = &packet {
            self.story.mix(bytes);
            for words in self.wire.written(id, stream, bytes, &self.server, &mut self.model)? {
                self.tell(format_args!("{words}"));
            }
        }
        let at = self.delay();
        self.network.send(id, Way::Down, stream, at, packet);
        Ok(())
    }

    /// The faults stop: everything that was sent arrives, everybody has everything, and the next start finds it so.
    pub(super) fn calm_down(&mut self) -> Result<(), Broken> {
        self.plan.calm();
        self.server.heal();
        self.tell(format_args!("the faults stop"));
        let (mut progress, mut since) = (self.model.progress(), self.story.steps());
        while let Some(missing) = self.missing() {
            if self.model.progress() > progress {
                (progress, since) = (self.model.progress(), self.story.steps());
            }
            if self.story.steps() - since > STUCK_STEPS_MAX {
                let standing = self.clients.iter().map(Client::standing).collect::<Vec<_>>().join("; ");
                return Err(format!("the faults have stopped, and nothing goes on, but {missing} ({standing})"));
            }
            self.step()?;
        }
        self.model.all_are_settled()?;
        self.unaware()?;
        self.server.begin_stop();
        while self.server.is_up() {
            let works = self.server.works(self.elapsed_ms, |_, _| true);
            let work = works.first().ok_or("a server that is to stop has nothing to do, and does not end")?;
            self.act(Next::Server(*work))?;
            self.after()?;
        }
        self.server.open(None).map_err(|error| format!("after a clean stop: {error}"))?;
        self.compare()
    }

    /// What is not as it will be once everybody has everything; none where it is.
    pub(super) fn missing(&self) -> Option<String> {
        if !self.server.is_up() {
            return Some("the server is down".to_owned());
        }
        for client in &self.clients {
            let device = client.device;
            if client.process.is_none() || client.fails_at.is_some() {
                return Some(format!("{device} is down"));
            }
            if client.unanswered() > 0 {
                return Some(format!("{device} has {} unanswered sends", client.unanswered()));
            }
            if client.has_taken() {
                return Some(format!("{device} has not kept what it was handed"));
            }
            if !client.talk.has_listed(self.model.changes()) {
                return Some(format!("{device} has not listed its conversations"));
            }
            for group in &self.places() {
                let head = self.model.last_visible(client.user, *group);
                let delivered = self.model.delivered(device, *group);
                if delivered < head {
                    return Some(format!("{device} has {group} up to {delivered} of {head}"));
                }
                let cursor = self.server.cursor(*group, client.user, device);
                if cursor < head {
                    return Some(format!("the cursor of {device} in {group} is {cursor} of {head}"));
                }
            }
        }
        None
    }
}
