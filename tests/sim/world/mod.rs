//! One simulated world: a server, machines with clients, a network and time; what happens next, and which faults strike, is
//! drawn from the seed. After every step everything that came of it is held against the model.

mod doings;
mod links;
mod outcome;
mod people;
mod strikes;

use std::panic::{AssertUnwindSafe, catch_unwind};

use gaggle::client::Say;
use gaggle::client::stepped::{Asked, Closing};
use gaggle::core::command::{Answer, Command};
use gaggle::core::retention::Retention;
use gaggle::core::rows::{Handle, Policy, Role};
use gaggle::ids::{GroupId, MessageId, Tag, UserId};
use gaggle::proof;
use gaggle::server::stepped::Ask;
use gaggle::wire::frame::{Enrolled, Extensions};
use gaggle::wire::link::InviteCode;

use crate::chance::{Chance, Kind};
use crate::client::Client;
use crate::errand::{Done, Errand};
use crate::model::{Broken, Model};
use crate::network::{Arrival, LinkId, Network, Packet, Stream, Way};
use crate::plan::Plan;
use crate::server::{Out, Server, Work};
use crate::story::{Failure, Story};
use crate::wire::Wire;

/// Steps that may pass, once the faults have stopped, in which nothing is committed or handed to anybody.
const STUCK_STEPS_MAX: u64 = 20_000;
/// The clock of day at the beginning, in ms since 1970.
const DAY_MS: u64 = 1_700_000_000_000;
/// The longest jump of the clock that passes without anything to do, in ms.
const IDLE_MS_MAX: u64 = 10_000;

/// What a run was.
pub struct Ran {
    /// Steps.
    pub steps: u64,
    /// What two runs of one seed have in common.
    pub digest: u64,
    /// How it failed.
    pub failure: Option<Failure>,
}

/// A user.
pub struct Person {
    /// Who.
    pub user: UserId,
    /// The handle.
    pub handle: Handle,
}

/// See the module.
pub struct World {
    seed: u64,
    /// Every happening is printed.
    pub tells: bool,
    plan: Plan,
    chance: Chance,
    story: Story,
    model: Model,
    network: Network,
    wire: Wire,
    server: Server,
    people: Vec<Person>,
    clients: Vec<Client>,
    groups: Vec<GroupId>,
    /// Direct chats that are used.
    chats: Vec<GroupId>,
    /// Whom the owner of the groups has banned, without an answer so far.
    bans: Vec<(Ask, GroupId, UserId)>,
    /// A device that is being enrolled.
    errand: Option<Errand>,
    enrolled: u64,
    elapsed_ms: u64,
    /// How far the clock of day is ahead of the time that has passed.
    day_ms: u64,
    sent: u64,
}

/// Something that can happen next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Server(Work),
    Arrival(Arrival),
    Client(usize),
    Application(usize),
    Start(usize),
    StartServer,
    Churn,
    Time,
}

/// Runs a seed.
pub fn run(seed: u64) -> Ran {
    finish(World::new(seed))
}

/// Runs a world to its end.
pub fn finish(mut world: World) -> Ran {
    let result = catch_unwind(AssertUnwindSafe(|| world.live()));
    proof::time::release();
    proof::chance::swap(None);
    let broken = match result {
        Ok(Ok(())) => None,
        Ok(Err(broken)) => Some(broken),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
            Some(format!("a panic: {}", words.unwrap_or_default()))
        }
    };
    let failure = broken.map(|broken| world.story.failure(world.seed, broken));
    let ran = Ran { steps: world.story.steps(), digest: world.story.digest(), failure };
    // What a panic has left may panic again.
    drop(catch_unwind(AssertUnwindSafe(|| drop(world))));
    ran
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(seed: u64) -> World {
        let mut chance = Chance::new(seed);
        let plan = Plan::of(&mut chance);
        proof::time::release();
        proof::time::set(0, DAY_MS);
        proof::chance::swap(Some(proof::chance::Source::new(seed)));
        World {
            seed,
            tells: false,
            server: Server::new(&plan),
            plan,
            chance,
            story: Story::new(),
            model: Model::default(),
            network: Network::default(),
            wire: Wire::default(),
            people: Vec::new(),
            clients: Vec::new(),
            groups: Vec::new(),
            chats: Vec::new(),
            bans: Vec::new(),
            errand: None,
            enrolled: 0,
            elapsed_ms: 0,
            day_ms: DAY_MS,
            sent: 0,
        }
    }

    fn live(&mut self) -> Result<(), Broken> {
        self.begin()?;
        while self.story.steps() < self.plan.steps {
            self.step()?;
        }
        self.calm_down()
    }

    fn tell(&mut self, words: std::fmt::Arguments<'_>) {
        if self.tells {
            eprintln!("{:>6} {:>8} ms  {words}", self.story.steps(), self.elapsed_ms);
        }
        self.story.tell(words);
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.story.step();
        self.strike();
        let next = self.choose();
        self.act(next)?;
        self.after()
    }

    /// What happens next, of all that can.
    fn choose(&mut self) -> Next {
        let mut kinds: Vec<(u64, Vec<Next>)> = Vec::new();
        let mut offer = |weight: u64, what: Vec<Next>| {
            if !what.is_empty() {
                kinds.push((weight, what));
            }
        };
        let now = self.elapsed_ms;
        self.server.ease(now);
        let network = &self.network;
        let works = self.server.works(now, |link, stream| network.has_room(link, stream));
        offer(40, works.into_iter().map(Next::Server).collect());
        offer(40, network.arrivals(now).into_iter().map(Next::Arrival).collect());
        let all = || self.clients.iter().enumerate();
        let clients = all().filter(|(_, client)| client.wakes_at.is_some_and(|at| at <= now));
        offer(30, clients.map(|(index, _)| Next::Client(index)).collect());
        let running = all().filter(|(_, client)| client.process.is_some());
        offer(12, running.map(|(index, _)| Next::Application(index)).collect());
        let starting = all().filter(|(_, client)| client.can_start(now));
        offer(20, starting.map(|(index, _)| Next::Start(index)).collect());
        if self.server.starts_at().is_some_and(|at| at <= now) {
            offer(20, vec![Next::StartServer]);
        }
        if self.server.is_up() {
            offer(1, vec![Next::Churn]);
        }
        offer(6, vec![Next::Time]);
        let total = kinds.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.chance.below(Kind::Schedule, total);
        for (weight, what) in &kinds {
            if drawn < *weight {
                return *self.chance.one(Kind::Schedule, what);
            }
            drawn -= weight;
        }
        Next::Time
    }

    fn act(&mut self, next: Next) -> Result<(), Broken> {
        match next {
            Next::Server(work) => {
                self.tell(format_args!("server: {work:?}"));
                self.server.step(work);
                if let Work::Request(conn, number) = work
                    && let Some(link) = self.server.link(conn)
                {
                    self.wire.looked(link, number, &self.server, &self.model);
                }
                Ok(())
            }
            Next::Arrival(arrival) => self.arrive(arrival),
            Next::Client(index) => {
                self.clients[index].advance();
                Ok(())
            }
            Next::Application(index) => self.application(index),
            Next::Start(index) => {
                let device = self.clients[index].device;
                self.tell(format_args!("{device} starts"));
                self.clients[index].start(&mut self.chance)
            }
            Next::StartServer => self.start_server(),
            Next::Churn => self.churn(),
            Next::Time => {
                self.pass();
                Ok(())
            }
        }
    }

    /// Time passes: a little, or until something is due.
    fn pass(&mut self) {
        let mut step = self.chance.scaled(Kind::Time, 1, 100);
        if self.chance.hits(Kind::Time, 0.5) {
            let clients = self.clients.iter().filter_map(|client| match &client.process {
                Some(_) => client.wakes_at,
                None => Some(client.starts_at),
            });
            let times = clients.chain(self.network.next_at()).chain(self.server.wakes_at());
            let next = times.filter(|at| *at > self.elapsed_ms).min();
            step = next.map_or(IDLE_MS_MAX, |at| at - self.elapsed_ms).min(IDLE_MS_MAX);
        }
        self.elapsed_ms += step;
        self.set_clock();
    }

    fn set_clock(&self) {
        proof::time::set(self.elapsed_ms, self.day_ms + self.elapsed_ms);
    }
}
