//! The network between clients and the server, as streams see it: whole frames, in order on each stream, in any order
//! between streams, delayed, sent again when lost; connections that are cut without a word, so that either end notices in
//! its own time; first flights that are late, or arrive twice.
//!
//! Below this line are the transport and the kernel, which are not simulated.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// Which connection.
pub type LinkId = u64;

/// Frames that may be under way on one stream from the server before it has to wait.
const UNDER_WAY_MAX: usize = 6;

/// A stream of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// The control stream.
    Control,
    /// The acks stream.
    Acks,
    /// The push stream.
    Push,
    /// A request stream, by the number that its client gave it.
    Page(u64),
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the client.
    Up,
    /// From the server.
    Down,
}

/// What travels on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// A frame.
    Frame(Bytes),
    /// Nothing follows.
    End,
}

/// A connection.
pub struct Link {
    /// Which client's it is.
    pub owner: usize,
    /// The client that reads what comes back; none: nobody does.
    pub client: Option<usize>,
    /// The attempt that it was made with.
    pub attempt: u64,
    /// The server has seen its Hello, and taken it.
    pub accepted: bool,
    /// The client has seen the answer to its Hello.
    pub welcomed: bool,
    /// The server has let go of it, or never had it.
    pub server_gone: bool,
    /// Nothing passes any more.
    pub is_cut: bool,
    /// When the client gives it up without having heard anything.
    pub client_gives_up: Option<u64>,
    /// When the server does.
    pub server_gives_up: Option<u64>,
    /// The server's last word: when it arrives, and which.
    pub closing_down: Option<(u64, u16)>,
    /// The client's last word.
    pub closing_up: Option<u64>,
    lanes: BTreeMap<(Way, Stream), VecDeque<(u64, Packet)>>,
}

/// All connections.
#[derive(Default)]
pub struct Network {
    links: BTreeMap<LinkId, Link>,
    next: LinkId,
}

/// Something that can arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next packet of a stream.
    Packet(LinkId, Way, Stream),
    /// The server's last word.
    ClosedDown(LinkId),
    /// The client's last word.
    ClosedUp(LinkId),
    /// The client has heard nothing for too long.
    ClientGivesUp(LinkId),
    /// The server has heard nothing for too long.
    ServerGivesUp(LinkId),
}

impl Network {
    /// A connection that begins.
    pub fn open(&mut self, owner: usize, reads: bool, attempt: u64) -> LinkId {
        self.next += 1;
        let link = Link {
            owner,
            client: reads.then_some(owner),
            attempt,
            accepted: false,
            welcomed: false,
            server_gone: false,
            is_cut: false,
            client_gives_up: None,
            server_gives_up: None,
            closing_down: None,
            closing_up: None,
            lanes: BTreeMap::new(),
        };
        self.links.insert(self.next, link);
        self.next
    }

    /// A connection that either end still has.
    pub fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&id)
    }

    /// All of them.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.links.iter().map(|(id, link)| (*id, link))
    }

    /// Puts a packet on its way, to arrive not before this.
    pub fn send(&mut self, id: LinkId, way: Way, stream: Stream, at_ms: u64, packet: Packet) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let lane = link.lanes.entry((way, stream)).or_default();
        // What was sent later on a stream is not read earlier.
        let at_ms = lane.back().map_or(at_ms, |(before, _)| at_ms.max(*before));
        lane.push_back((at_ms, packet));
    }

    /// Whether the server can write to this stream.
    pub fn has_room(&self, id: LinkId, stream: Stream) -> bool {
        self.links
            .get(&id)
            .is_none_or(|link| link.lanes.get(&(Way::Down, stream)).is_none_or(|lane| lane.len() < UNDER_WAY_MAX))
    }

    /// Everything that can arrive now.
    pub fn arrivals(&self, now_ms: u64) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (id, link) in &self.links {
            link.arrivals(*id, now_ms, &mut arrivals);
        }
        arrivals
    }

    /// When the next thing arrives.
    pub fn next_at(&self) -> Option<u64> {
        self.links.values().flat_map(Link::times).min()
    }

    /// Takes the next packet of a stream.
    pub fn take(&mut self, id: LinkId, way: Way, stream: Stream) -> Option<Packet> {
        let lanes = &mut self.links.get_mut(&id)?.lanes;
        let lane = lanes.get_mut(&(way, stream))?;
        let (_, packet) = lane.pop_front()?;
        if lane.is_empty() {
            lanes.remove(&(way, stream));
        }
        Some(packet)
    }

    /// Nothing passes from now on; either end notices by itself.
    pub fn cut(&mut self, id: LinkId, client_gives_up: u64, server_gives_up: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.is_cut = true;
        link.client_gives_up.get_or_insert(client_gives_up);
        link.server_gives_up.get_or_insert(server_gives_up);
    }

    /// The client has let go of it.
    pub fn client_is_gone(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.client = None;
            link.client_gives_up = None;
        }
        self.sweep(id);
    }

    /// A client's process is gone: a connection that the server does not serve yet never comes to be, as that takes two.
    /// Says which these are.
    pub fn owner_is_gone(&mut self, owner: usize, is_served: impl Fn(LinkId) -> bool) -> Vec<LinkId> {
        let begun = |(id, link): (&LinkId, &Link)| (link.owner == owner && !is_served(*id)).then_some(*id);
        let begun: Vec<LinkId> = self.links.iter().filter_map(begun).collect();
        self.links.retain(|id, _| !begun.contains(id));
        begun
    }

    /// The server has let go of it.
    pub fn server_is_gone(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.server_gone = true;
            link.server_gives_up = None;
            link.lanes.retain(|(way, _), _| *way == Way::Down);
        }
        self.sweep(id);
    }

    /// Forgets a connection that neither end has any more.
    fn sweep(&mut self, id: LinkId) {
        if self.links.get(&id).is_some_and(|link| link.client.is_none() && link.server_gone) {
            self.links.remove(&id);
        }
    }
}

impl Link {
    fn passes(&self, way: Way, stream: Stream) -> bool {
        let reader_is_there = match way {
            Way::Up => !self.server_gone && (self.accepted || stream == Stream::Control),
            Way::Down => self.client.is_some() && (self.welcomed || stream == Stream::Control),
        };
        !self.is_cut && reader_is_there
    }

    fn arrivals(&self, id: LinkId, now_ms: u64, arrivals: &mut Vec<Arrival>) {
        for ((way, stream), lane) in &self.lanes {
            if self.passes(*way, *stream) && lane.front().is_some_and(|(at, _)| *at <= now_ms) {
                arrivals.push(Arrival::Packet(id, *way, *stream));
            }
        }
        let due = |at: u64| at <= now_ms;
        if self.client.is_some() {
            if !self.is_cut && self.closing_down.is_some_and(|(at, _)| due(at)) {
                arrivals.push(Arrival::ClosedDown(id));
            }
            if self.client_gives_up.is_some_and(due) {
                arrivals.push(Arrival::ClientGivesUp(id));
            }
        }
        if !self.server_gone {
            if !self.is_cut && self.closing_up.is_some_and(due) {
                arrivals.push(Arrival::ClosedUp(id));
            }
            if self.server_gives_up.is_some_and(due) {
                arrivals.push(Arrival::ServerGivesUp(id));
            }
        }
    }

    fn times(&self) -> impl Iterator<Item = u64> {
        let passing = self.lanes.iter().filter(|((way, stream), _)| self.passes(*way, *stream));
        let packets = passing.filter_map(|(_, lane)| lane.front().map(|(at, _)| *at));
        let client = self.client.is_some();
        let last_words = [
            self.closing_down.map(|(at, _)| at).filter(|_| client && !self.is_cut),
            self.closing_up.filter(|_| !self.server_gone && !self.is_cut),
            self.client_gives_up.filter(|_| client),
            self.server_gives_up.filter(|_| !self.server_gone),
        ];
        packets.chain(last_words.into_iter().flatten())
    }
}
