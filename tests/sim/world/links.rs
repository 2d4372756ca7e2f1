//! What travels between clients and the server, and how connections begin and end.

use super::*;

impl World {
    pub(super) fn delay(&mut self) -> u64 {
        let mut delay = self.chance.scaled(Kind::Delay, 1, self.plan.delay_ms_max.max(2));
        while self.chance.hits(Kind::Loss, self.plan.rate(Kind::Loss)) {
            delay += self.chance.between(Kind::Loss, 50, 1_500);
        }
        self.elapsed_ms + delay
    }

    pub(super) fn arrive(&mut self, arrival: Arrival) -> Result<(), Broken> {
        match arrival {
            Arrival::Packet(link, Way::Up, stream) => self.arrive_up(link, stream),
            Arrival::Packet(link, Way::Down, stream) => {
                self.arrive_down(link, stream);
                Ok(())
            }
            Arrival::ClosedDown(id) => {
                let Some((_, code)) = self.network.link(id).and_then(|link| link.closing_down) else { return Ok(()) };
                self.tell(format_args!("link {id}: its client hears that it is closed with {code}"));
                self.client_loses(id, Closing::ByServer { code, detail: String::new() });
                Ok(())
            }
            Arrival::ClientGivesUp(id) => {
                self.tell(format_args!("link {id}: its client gives up"));
                let reset = self.chance.hits(Kind::Cut, 0.3);
                self.client_loses(id, if reset { Closing::Reset } else { Closing::Silence });
                Ok(())
            }
            Arrival::ClosedUp(id) | Arrival::ServerGivesUp(id) => {
                self.tell(format_args!("link {id}: the server lets go"));
                self.server.gone(id);
                self.network.server_is_gone(id);
                Ok(())
            }
        }
    }

    pub(super) fn client_loses(&mut self, id: LinkId, closing: Closing) {
        let Some((client, attempt)) = self.network.link(id).and_then(|link| Some((link.client?, link.attempt))) else {
            return;
        };
        self.network.client_is_gone(id);
        if let Some(process) = &mut self.clients[client].process {
            process.closed(attempt, closing);
        }
    }

    pub(super) fn arrive_up(&mut self, id: LinkId, stream: Stream) -> Result<(), Broken> {
        let Some(Packet::Frame(bytes)) = self.network.take(id, Way::Up, stream) else { return Ok(()) };
        self.story.mix(&bytes);
        if !self.network.link(id).is_some_and(|link| link.accepted) {
            self.tell(format_args!("link {id}: its first words arrive"));
            let is_there = self.server.connect(id);
            match self.network.link(id).filter(|_| is_there) {
                Some(link) => link.accepted = true,
                None => return Ok(()),
            }
        }
        match stream {
            Stream::Control => self.wire.asked(id, &bytes, &mut self.model)?,
            Stream::Page(number) => self.wire.pulls(id, number, &bytes, &self.server, &self.model)?,
            Stream::Acks | Stream::Push => {}
        }
        self.server.arrives(id, stream, &bytes);
        Ok(())
    }

    pub(super) fn arrive_down(&mut self, id: LinkId, stream: Stream) {
        let Some(packet) = self.network.take(id, Way::Down, stream) else { return };
        let Some(link) = self.network.link(id) else { return };
        link.welcomed = true;
        let (Some(client), attempt) = (link.client, link.attempt) else { return };
        let Some(process) = &mut self.clients[client].process else { return };
        match (stream, packet) {
            (Stream::Control, Packet::Frame(bytes)) => process.control(attempt, &bytes),
            (Stream::Push, Packet::Frame(bytes)) => process.push(attempt, &bytes),
            (Stream::Page(number), Packet::Frame(bytes)) => process.stream(number, &bytes),
            (Stream::Page(number), Packet::End) => process.stream_broken(number),
            (Stream::Control | Stream::Push | Stream::Acks, _) => {}
        }
    }

    /// What clients want of their network.
    pub(super) fn carry_out(&mut self, index: usize) {
        let Some(process) = &mut self.clients[index].process else { return };
        for asked in process.take_asked() {
            match asked {
                Asked::Dial(dial) => self.dial(index, dial),
                Asked::Control { attempt, bytes } => self.send_up(index, attempt, Stream::Control, bytes),
                Asked::Acks { attempt, bytes } => self.send_up(index, attempt, Stream::Acks, bytes),
                Asked::Request { attempt, stream, bytes } => self.send_up(index, attempt, Stream::Page(stream), bytes),
                Asked::Close { attempt, code } => self.hang_up(index, attempt, code),
            }
        }
    }

    pub(super) fn dial(&mut self, index: usize, dial: gaggle::client::stepped::Dial) {
        let mut late = 0;
        if self.chance.hits(Kind::Late, self.plan.rate(Kind::Late)) {
            late = self.chance.scaled(Kind::Late, 100, 10_000);
        }
        let twice = self.chance.hits(Kind::Twice, self.plan.rate(Kind::Twice));
        for copy in 0..=u64::from(twice) {
            let id = self.network.open(index, copy == 0, dial.attempt);
            let device = self.clients[index].device;
            self.tell(format_args!("link {id}: {device} dials, attempt {}", dial.attempt));
            self.wire.opened(id, device, self.clients[index].user);
            let acks = dial.acks.iter().map(|bytes| (Stream::Acks, bytes));
            let requests = dial.requests.iter().map(|(number, bytes)| (Stream::Page(*number), bytes));
            let first = std::iter::once((Stream::Control, &dial.control)).chain(acks).chain(requests);
            for (stream, bytes) in first {
                let at = self.delay() + late + copy * late;
                self.network.send(id, Way::Up, stream, at, Packet::Frame(bytes.clone()));
            }
            if copy > 0 {
                // Nobody answers its server.
                let gives_up = self.elapsed_ms + late + self.chance.between(Kind::Twice, 100, 5_000);
                self.network.link(id).expect("it was just opened").server_gives_up = Some(gives_up);
            }
        }
    }

    pub(super) fn link_of(&self, index: usize, attempt: u64) -> Option<LinkId> {
        let links = self.network.links();
        links.filter(|(_, link)| link.client == Some(index) && link.attempt == attempt).map(|(id, _)| id).next()
    }

    pub(super) fn send_up(&mut self, index: usize, attempt: u64, stream: Stream, bytes: bytes::Bytes) {
        let Some(id) = self.link_of(index, attempt) else { return };
        let at = self.delay();
        self.network.send(id, Way::Up, stream, at, Packet::Frame(bytes));
    }

    pub(super) fn hang_up(&mut self, index: usize, attempt: u64, code: u16) {
        let Some(id) = self.link_of(index, attempt) else { return };
        self.tell(format_args!("link {id}: its client hangs up with {code}"));
        let heard = self.delay();
        let patience = self.elapsed_ms + self.chance.between(Kind::Cut, 100, 5_000);
        if let Some(link) = self.network.link(id) {
            if code == 0 {
                link.server_gives_up = Some(patience);
            } else {
                link.closing_up = Some(heard);
                // The word may be lost.
                link.server_gives_up = Some(patience.max(heard));
            }
        }
        self.network.client_is_gone(id);
    }
}
