//! A bad network: UDP relays between clients and a server on loopback that lose, delay, swallow and move packets.
//!
//! Each [`Way`] is an address that a client is sent to instead of the server's. Every decision of a way comes from its
//! seed and from how many packets it has seen in that direction, so a failure is replayed by its seed as far as a network can be. It knows
//! nothing of what it carries.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Clients that a way remembers; a client that connects anew is mostly another port.
const CLIENTS_MAX: usize = 16;
/// Larger than any packet on loopback.
const PACKET_BYTES: usize = 65_536;

/// Makes ways to one server.
pub struct Relay {
    server: SocketAddr,
    seeds: StdRng,
}

impl Relay {
    /// Ways to this server; the seed decides everything on them.
    pub fn new(server: SocketAddr, seed: u64) -> Relay {
        Relay { server, seeds: StdRng::seed_from_u64(seed) }
    }

    /// Another way, at first without any fault.
    pub async fn way(&mut self) -> Way {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = front.local_addr().unwrap();
        let state = State {
            server: self.server,
            random: [(); 2].map(|()| StdRng::seed_from_u64(self.seeds.random())),
            weather: Weather::default(),
            cut: Cut::None,
            clients: VecDeque::new(),
            passed: [0; 2],
            dropped: [0; 2],
        };
        let shared = Arc::new(Shared { front, state: Mutex::new(state) });
        let forward = tokio::spawn(forward(Arc::clone(&shared)));
        Way { address, shared, forward }
    }
}

/// What happens to packets of a way, either direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Weather {
    /// The share that is lost, from 0 to 1.
    pub loss: f64,
    /// For how long each packet is held up, in ms; different ones overtake each other.
    pub delay_ms: Range<u64>,
}

impl Default for Weather {
    fn default() -> Weather {
        Weather { loss: 0.0, delay_ms: 0..0 }
    }
}

/// Which direction a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a client to the server.
    Up,
    /// From the server to a client.
    Down,
}

/// What a way swallows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cut {
    None,
    /// Everything in this direction.
    One(Direction),
    /// Everything.
    Both,
}

/// One address that leads to the server. It ends when dropped.
pub struct Way {
    address: SocketAddr,
    shared: Arc<Shared>,
    forward: JoinHandle<()>,
}

struct Shared {
    front: UdpSocket,
    state: Mutex<State>,
}

struct State {
    server: SocketAddr,
    random: [StdRng; 2],
    weather: Weather,
    cut: Cut,
    clients: VecDeque<Known>,
    passed: [u64; 2],
    dropped: [u64; 2],
}

/// A client's address and what it looks like from the server.
struct Known {
    client: SocketAddr,
    /// Swallowed for ever: the link under this connection is dead.
    is_dead: bool,
    upstream: Arc<UdpSocket>,
    back: JoinHandle<()>,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.back.abort();
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.forward.abort();
        self.state().clients.clear();
    }
}

impl Way {
    /// Where clients are sent to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to packets from now on.
    pub fn weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Swallows everything until [`Way::heal`].
    pub fn cut(&self) {
        self.state().cut = Cut::Both;
    }

    /// Swallows everything in one direction until [`Way::heal`]. Cutting both, one after the other, is [`Way::cut`].
    pub fn cut_one(&self, direction: Direction) {
        let mut state = self.state();
        state.cut = match &state.cut {
            Cut::One(other) if *other != direction => Cut::Both,
            Cut::Both => Cut::Both,
            Cut::None | Cut::One(_) => Cut::One(direction),
        };
    }

    /// Lets packets through again, except those of connections that were [`Way::sever`]ed.
    pub fn heal(&self) {
        self.state().cut = Cut::None;
    }

    /// Swallows everything of the sockets that clients use now, for ever. Who comes from a new socket gets through.
    pub fn sever(&self) {
        for known in &mut self.state().clients {
            known.is_dead = true;
        }
    }

    /// From now on everything comes to the server from new addresses, and goes back to the clients all the same; what
    /// the server still sends to the old addresses is lost.
    pub async fn rebind(&self) {
        let clients: Vec<SocketAddr> = self.state().clients.iter().map(|known| known.client).collect();
        for client in clients {
            let known = Known::new(&self.shared, client).await;
            let mut state = self.state();
            if let Some(old) = state.clients.iter_mut().find(|known| known.client == client) {
                let is_dead = old.is_dead;
                *old = known;
                old.is_dead = is_dead;
            }
        }
    }

    /// Sends to another server address from now on, which is what a restart on another port needs.
    pub async fn lead_to(&self, server: SocketAddr) {
        self.state().server = server;
        self.rebind().await;
    }

    /// Packets that went through so far, up and down.
    pub fn passed(&self) -> (u64, u64) {
        let [up, down] = self.state().passed;
        (up, down)
    }

    /// Packets that were swallowed so far, up and down.
    pub fn dropped(&self) -> (u64, u64) {
        let [up, down] = self.state().dropped;
        (up, down)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// Whether a packet goes on, and how much later; none: it is lost.
    fn judge(&mut self, client: SocketAddr, direction: Direction) -> Option<Duration> {
        let is_dead = self.clients.iter().any(|known| known.client == client && known.is_dead);
        let is_cut = match &self.cut {
            Cut::None => false,
            Cut::One(cut) => *cut == direction,
            Cut::Both => true,
        };
        // Drawn for every packet, so that a cut does not shift what happens to those after it.
        let random = &mut self.random[direction as usize];
        let (luck, delay) = (random.random::<f64>(), random.random::<f64>());
        if is_dead || is_cut || luck < self.weather.loss {
            self.dropped[direction as usize] += 1;
            return None;
        }
        self.passed[direction as usize] += 1;
        let Range { start, end } = self.weather.delay_ms;
        let spread = (end.saturating_sub(start) as f64 * delay) as u64;
        Some(Duration::from_millis(start + spread))
    }
}

impl Known {
    async fn new(shared: &Arc<Shared>, client: SocketAddr) -> Known {
        let server = shared.state().server;
        let upstream = match server {
            SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await,
            SocketAddr::V6(_) => UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)).await,
        };
        let upstream = Arc::new(upstream.unwrap());
        upstream.connect(server).await.unwrap();
        let back = tokio::spawn(back(Arc::clone(shared), Arc::clone(&upstream), client));
        Known { client, is_dead: false, upstream, back }
    }
}

async fn forward(shared: Arc<Shared>) {
    let mut packet = vec![0; PACKET_BYTES];
    loop {
        let Ok((bytes, client)) = shared.front.recv_from(&mut packet).await else { continue };
        let known =
            shared.state().clients.iter().find(|known| known.client == client).map(|it| Arc::clone(&it.upstream));
        let upstream = match known {
            Some(upstream) => upstream,
            None => {
                let known = Known::new(&shared, client).await;
                let upstream = Arc::clone(&known.upstream);
                let mut state = shared.state();
                state.clients.push_back(known);
                if state.clients.len() > CLIENTS_MAX {
                    state.clients.pop_front();
                }
                upstream
            }
        };
        let judged = shared.state().judge(client, Direction::Up);
        match judged {
            None => {}
            // A server that is not there is like a packet that is lost.
            Some(Duration::ZERO) => drop(upstream.send(&packet[..bytes]).await),
            Some(delay) => {
                let packet = packet[..bytes].to_vec();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    drop(upstream.send(&packet).await);
                });
            }
        }
    }
}

async fn back(shared: Arc<Shared>, upstream: Arc<UdpSocket>, client: SocketAddr) {
    let mut packet = vec![0; PACKET_BYTES];
    loop {
        let Ok(bytes) = upstream.recv(&mut packet).await else { continue };
        let judged = shared.state().judge(client, Direction::Down);
        match judged {
            None => {}
            Some(Duration::ZERO) => drop(shared.front.send_to(&packet[..bytes], client).await),
            Some(delay) => {
                let (packet, shared) = (packet[..bytes].to_vec(), Arc::clone(&shared));
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    drop(shared.front.send_to(&packet, client).await);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> (SocketAddr, JoinHandle<()>) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut packet = [0; 64];
            loop {
                let (_, from) = socket.recv_from(&mut packet).await.unwrap();
                // The answer says where the packet seemed to come from.
                socket.send_to(&from.port().to_be_bytes(), from).await.unwrap();
            }
        });
        (address, task)
    }

    async fn asks(client: &UdpSocket, way: &Way) -> u16 {
        let mut answer = [0; 2];
        client.send_to(b"?", way.address()).await.unwrap();
        client.recv_from(&mut answer).await.unwrap();
        u16::from_be_bytes(answer)
    }

    #[tokio::test]
    async fn a_way_that_is_rebound_looks_like_another_address_and_still_leads_back() {
        let (server, _task) = echo().await;
        let way = Relay::new(server, 1).way().await;
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let before = asks(&client, &way).await;
        assert_eq!(asks(&client, &way).await, before);
        way.rebind().await;
        assert_ne!(asks(&client, &way).await, before);
    }

    #[tokio::test]
    async fn a_severed_socket_is_dead_for_ever_and_a_new_one_is_not() {
        let (server, _task) = echo().await;
        let way = Relay::new(server, 1).way().await;
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        asks(&client, &way).await;
        way.sever();
        client.send_to(b"?", way.address()).await.unwrap();
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        asks(&other, &way).await;
        assert_eq!(way.dropped(), (1, 0));
        assert_eq!(way.passed(), (2, 2));
    }

    #[tokio::test]
    async fn the_same_seed_loses_the_same_packets() {
        let mut passed = Vec::new();
        for seed in [7, 7, 8] {
            let (server, _task) = echo().await;
            let way = Relay::new(server, seed).way().await;
            let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            way.weather(Weather { loss: 0.5, ..Weather::default() });
            let mut luck = Vec::new();
            for sent in 1..=64 {
                client.send_to(b"?", way.address()).await.unwrap();
                while way.passed().0 + way.dropped().0 < sent {
                    tokio::task::yield_now().await;
                }
                luck.push(way.passed().0);
            }
            passed.push(luck);
        }
        assert_eq!(passed[0], passed[1]);
        assert_ne!(passed[0], passed[2]);
    }
}
