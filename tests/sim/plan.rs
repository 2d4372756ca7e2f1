//! How large one simulated world is, and which faults strike it how often: drawn from its seed, so that worlds without a
//! kind of fault, and with nothing but one kind, come up as well.

use gaggle::core::state::{Rate, Settings};

use crate::chance::{Chance, Kind};

/// The world of one seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Users, each with one device at least.
    pub users: usize,
    /// Devices that exist from the beginning.
    pub devices: usize,
    /// Groups.
    pub groups: usize,
    /// Steps until the faults stop.
    pub steps: u64,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// Bytes of log between two checkpoints.
    pub checkpoint_bytes: u64,
    /// Bytes that may wait for the index.
    pub waiting_bytes_max: usize,
    /// What members may do in which time.
    pub members: Settings,
    /// How long a packet takes at most, in ms.
    pub delay_ms_max: u64,
    /// How often an application sends, of its turns.
    pub talkative: f64,
    /// The faults there are, and what else is done, by kind: how probable at each step, or at each occasion.
    rates: Vec<(Kind, f64)>,
}

/// Every kind of fault, and how probable it is where it occurs: at each step, or, for packets and flights, for each of
/// them, and for openings at each opening. And what applications do beside sending messages, at each turn of one.
const RATES: [(Kind, f64); 29] = [
    (Kind::Loss, 0.03),
    (Kind::Cut, 0.002),
    (Kind::Late, 0.1),
    (Kind::Twice, 0.1),
    (Kind::ServerPower, 0.000_5),
    (Kind::ServerKill, 0.000_5),
    (Kind::ServerStop, 0.000_3),
    (Kind::OpenPower, 0.3),
    (Kind::StepPower, 0.000_7),
    (Kind::ClientPower, 0.001),
    (Kind::ClientKill, 0.001),
    (Kind::WriteError, 0.000_3),
    (Kind::SyncError, 0.000_3),
    (Kind::Slow, 0.002),
    (Kind::Full, 0.000_3),
    (Kind::IndexError, 0.000_2),
    (Kind::IndexStall, 0.000_5),
    (Kind::ClockJump, 0.001),
    (Kind::Rude, 0.003),
    (Kind::Marks, 0.15),
    (Kind::Lists, 0.05),
    (Kind::Replies, 0.03),
    (Kind::Edits, 0.06),
    (Kind::Recalls, 0.05),
    (Kind::Reactions, 0.02),
    (Kind::Receipts, 0.05),
    (Kind::Direct, 0.03),
    (Kind::Roles, 0.3),
    (Kind::Keeps, 0.1),
];

/// Limits that a talkative member meets.
fn narrow(chance: &mut Chance) -> Settings {
    let a_second = |amount: u64| Rate { amount, per_ms: 1_000 };
    Settings {
        sends: a_second(chance.scaled(Kind::Setup, 10, 200)),
        bytes: a_second(chance.scaled(Kind::Setup, 10_000, 50_000)),
        ..Settings::default()
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn of(chance: &mut Chance) -> Plan {
        let setup = Kind::Setup;
        let users = chance.between(setup, 2, 4) as usize;
        // Each by its own generator: another kind changes nothing about the world.
        let rates = RATES.into_iter().map(|(kind, rate)| {
            let factor = if chance.hits(kind, 0.4) { 0.0 } else { chance.scaled(kind, 25, 400) as f64 / 100.0 };
            (kind, rate * factor)
        });
        let rates = rates.collect();
        Plan {
            users,
            devices: users + chance.below(setup, 3) as usize,
            groups: chance.between(setup, 1, 3) as usize,
            steps: chance.between(setup, 1_500, 4_000),
            segment_bytes: *chance.one(setup, &[8 * 1024, 16 * 1024, 128 * 1024]),
            checkpoint_bytes: chance.scaled(setup, 1_000, 60_000),
            waiting_bytes_max: chance.scaled(setup, 2_000, 100_000) as usize,
            members: if chance.hits(setup, 0.3) { narrow(chance) } else { Settings::default() },
            delay_ms_max: chance.scaled(setup, 2, 2_000),
            talkative: chance.between(setup, 10, 60) as f64 / 100.0,
            rates,
        }
    }

    /// How probable something is; zero once the faults have stopped.
    pub fn rate(&self, kind: Kind) -> f64 {
        self.rates.iter().find(|(known, _)| *known == kind).map_or(0.0, |(_, rate)| *rate)
    }

    /// No faults any more.
    pub fn calm(&mut self) {
        self.rates.clear();
    }
}
