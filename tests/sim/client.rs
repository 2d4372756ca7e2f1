//! A device with its machine: a disk, a process of the client library, and an application that keeps what it is handed,
//! with its own data or without.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gaggle::client::stepped::{Process, Setup, enrol, outbox_on_disk};
use gaggle::client::{ClientOptions, Event, ListenError, Outcome, Position, Profile, Received, Say, Subscription};
use gaggle::disk::SharedDisk;
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag, UserId};
use gaggle::wire::frame::Enrolled;
use gaggle::wire::link::InviteCode;

use crate::chance::{Chance, Kind};
use crate::model::{Broken, Mark, Model};
use crate::talk::Talk;

const FOLDER: &str = "/profile";
/// Events that wait for an application: few, so that it is often the slow one.
const EVENTS_MAX: usize = 8;

/// What the application was handed and has not put in a safe place yet.
struct Taken {
    position: Position,
    group: GroupId,
    msgid: MessageId,
}

/// See the module.
pub struct Client {
    /// The device.
    pub device: DeviceId,
    /// Whose.
    pub user: UserId,
    /// The process that runs.
    pub process: Option<Process>,
    /// When it has something to do by itself, or comes back to what it could not do when it last looked.
    pub wakes_at: Option<u64>,
    /// When the next one starts.
    pub starts_at: u64,
    /// The machine's power goes now, if it goes.
    pub fails_at: Option<u64>,
    disk: SimulatedDisk,
    started: u64,
    /// The application keeps its position with its own data; else it relies on the mark that it may have seen an item.
    keeps_position: bool,
    position: Option<Position>,
    kept: BTreeMap<GroupId, MessageId>,
    taken: VecDeque<Taken>,
    /// It lost its inbox: from then on it may be handed again what it had not acknowledged.
    has_lost_inbox: bool,
    tags: BTreeMap<ClientSeq, Tag>,
    /// What it knows of its conversations.
    pub talk: Talk,
}

impl Client {
    /// The machine of a device that the server has just enrolled.
    pub fn new(seed: [u8; 32], code: InviteCode, enrolled: &Enrolled, keeps_position: bool) -> Client {
        let disk = SimulatedDisk::new();
        let shared: SharedDisk = Arc::new(disk.clone());
        enrol(&Profile::at(shared, FOLDER), &seed, code, enrolled).expect("an enrolled device has a profile");
        Client {
            device: enrolled.device,
            user: enrolled.user,
            process: None,
            wakes_at: None,
            starts_at: 0,
            fails_at: None,
            disk,
            started: 0,
            keeps_position,
            position: None,
            kept: BTreeMap::new(),
            taken: VecDeque::new(),
            has_lost_inbox: false,
            tags: BTreeMap::new(),
            talk: Talk::default(),
        }
    }

    /// Delivery of a group begins behind this.
    pub fn begins(&mut self, group: GroupId, cursor: MessageId) {
        self.kept.entry(group).or_insert(cursor);
    }

    fn shared(&self) -> SharedDisk {
        Arc::new(self.disk.clone())
    }

    /// Whether a process of the profile can be started now: none runs, and the machine has power.
    pub fn can_start(&self, now_ms: u64) -> bool {
        self.process.is_none() && self.fails_at.is_none() && self.starts_at <= now_ms
    }

    /// Starts a process of the profile.
    pub fn start(&mut self, chance: &mut Chance) -> Result<(), Broken> {
        // What an earlier process numbered anew without telling is read from the file.
        let outbox = outbox_on_disk(&self.shared(), FOLDER.as_ref());
        let outbox = outbox.map_err(|error| format!("{} cannot read its outbox: {error}", self.device))?;
        self.tags.extend(outbox.entries.iter().map(|entry| (entry.seq, entry.tag)));
        let from = self.position.filter(|_| self.keeps_position);
        self.process = match self.open(from, chance) {
            Err(ListenError::LostPosition) => {
                self.position = None;
                self.has_lost_inbox = true;
                Some(self.open(None, chance).map_err(|error| format!("{} does not start: {error}", self.device))?)
            }
            opened => Some(opened.map_err(|error| format!("{} does not start: {error}", self.device))?),
        };
        Ok(())
    }

    fn open(&mut self, from: Option<Position>, chance: &mut Chance) -> Result<Process, ListenError> {
        self.started += 1;
        let options = ClientOptions {
            reconnect_pause: Duration::from_millis(50),
            reconnect_pause_max: Duration::from_secs(2),
            events_max: EVENTS_MAX,
            ..ClientOptions::default()
        };
        Process::open(Setup {
            profile: Profile::at(self.shared(), FOLDER),
            listens: Some(Subscription::All),
            from,
            instance: u64::from(self.device.value()) * 1_000_000 + self.started,
            seed: chance.below(Kind::Schedule, u64::MAX),
            options,
        })
    }

    /// Its process does what can be done without waiting.
    pub fn advance(&mut self) {
        if let Some(process) = &mut self.process {
            process.advance();
            self.wakes_at = None;
        }
    }

    /// Notes when it wakes: what is due now and could not be done is told as due a little later, again and again.
    pub fn note_wake(&mut self) {
        let at = self.process.as_ref().and_then(Process::wakes_at_ms);
        self.wakes_at = self.wakes_at.into_iter().chain(at).min().filter(|_| at.is_some());
    }

    /// From here on its disk takes only so many changes more.
    pub fn cut_power_after(&mut self, changes: u64, at_ms: u64) {
        self.disk.stop_after(changes);
        self.fails_at = Some(at_ms);
    }

    /// The process ends at once.
    pub fn kill(&mut self, model: &mut Model) {
        self.process = None;
        self.disk = self.disk.kill();
        self.forget(model);
    }

    /// The machine loses its power.
    pub fn crash(&mut self, seed: u64, model: &mut Model) {
        self.process = None;
        self.disk = self.disk.crash(seed);
        self.fails_at = None;
        self.forget(model);
    }

    /// What the application had only in memory is gone, and comes again.
    fn forget(&mut self, model: &mut Model) {
        self.taken.clear();
        self.talk.ended(self.keeps_position);
        if self.keeps_position {
            model.forgotten(self.device, &self.kept);
        }
    }

    /// The application says something.
    pub fn say(&mut self, group: GroupId, tag: Tag, what: &Say, order: u64, model: &mut Model) -> Result<bool, Broken> {
        let Some(process) = &mut self.process else { return Ok(false) };
        // Where that fails nobody can tell whether it is in the outbox.
        let queued = process.say(group, tag, what);
        model.queued(self.device, group, tag, what, order, queued.is_ok())?;
        self.tags.extend(queued.as_ref().ok().map(|seq| (*seq, tag)));
        Ok(queued.is_ok())
    }

    /// The application takes answers, and events.
    pub fn take(&mut self, max: usize, model: &mut Model) -> Result<Vec<String>, Broken> {
        let Some(process) = &mut self.process else { return Ok(Vec::new()) };
        self.talk.answers(process)?;
        let mut told = Vec::new();
        for event in process.take_events(max) {
            told.extend(self.event(event, model)?);
        }
        Ok(told)
    }

    /// Says what it was, where that is worth telling.
    fn event(&mut self, event: Event, model: &mut Model) -> Result<Option<String>, Broken> {
        let device = self.device;
        Ok(Some(match event {
            Event::Item(Received { position, seen_before, item }) => {
                let (group, msgid) = (item.group, item.msgid);
                let again = (seen_before && !self.keeps_position) || self.has_lost_inbox;
                model.read(device, group, msgid, &item.content)?;
                let had = model.handed(device, group, msgid, again)?;
                self.taken.push_back(Taken { position, group, msgid });
                format!("{device} is handed {group} {msgid}{}", if had { " again" } else { "" })
            }
            Event::Settled { seq, outcome } => {
                let words = format!("{device} is told of its send {seq}");
                if let Some(tag) = self.tags.get(&seq) {
                    match outcome {
                        Outcome::Sent { group, msgid, .. } => model.answered_sent(*tag, group, msgid)?,
                        Outcome::Refused(_) => model.told_refused(*tag)?,
                        Outcome::Unknown => {
                            return Err(format!("{device} is told that nobody knows of its send {seq}"));
                        }
                        Outcome::Withdrawn | Outcome::NotKept => {}
                    }
                }
                words
            }
            Event::Renumbered { from, to } => {
                if let Some(tag) = self.tags.remove(&from) {
                    self.tags.insert(to, tag);
                }
                format!("{device} sends {from} as {to}")
            }
            Event::InboxLost => {
                self.has_lost_inbox = true;
                format!("{device} has lost its inbox")
            }
            Event::Gone { position, group, first, last, .. } => {
                model.gone(device, group, first, last)?;
                self.taken.push_back(Taken { position, group, msgid: last });
                format!("{device} is told that {group} {first} to {last} are gone")
            }
            // Without a disk it cannot go on.
            Event::Ended(error) if self.fails_at.is_some() => format!("{device} has ended: {error}"),
            Event::Ended(error) => return Err(format!("{device} has ended for good: {error}")),
            Event::Connected(_) => {
                self.talk.wants_list = true;
                format!("{device} is connected")
            }
            Event::Disconnected { cause, .. } => format!("{device} has no connection: {cause}"),
            Event::Head { .. } | Event::Membership { .. } | Event::Device { .. } => return Ok(None),
            Event::Typing { .. } | Event::Presence { .. } => return Ok(None),
            Event::ReadMark(mark) => {
                self.talk.told(mark.group, Mark { version: mark.version, msgid: mark.msgid });
                format!("{device} is told of a read mark: {mark:?}")
            }
            Event::Receipts { .. } => return Ok(None),
        }))
    }

    /// The application puts what it was handed in a safe place, and acknowledges it.
    pub fn keep(&mut self, most: usize) {
        let Some(process) = &mut self.process else { return };
        let count = most.min(self.taken.len());
        let mut last = None;
        for Taken { position, group, msgid } in self.taken.drain(..count) {
            let kept = self.kept.entry(group).or_default();
            *kept = (*kept).max(msgid);
            last = Some(position);
        }
        if let Some(position) = last {
            self.position = Some(position);
            process.ack(position);
        }
    }

    /// Whether the application has something that is not in a safe place.
    pub fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// How its process stands, in words.
    pub fn standing(&self) -> String {
        let Some(process) = &self.process else { return format!("{} is down", self.device) };
        let connected = if process.is_connected() { "connected" } else { "not connected" };
        let drains = if process.drains() { "drains" } else { "does not drain" };
        let (attempt, wakes_at) = (process.attempt(), process.wakes_at_ms());
        format!("{}: {connected}, {drains}, attempt {attempt:?}, wakes at {wakes_at:?}", self.device)
    }

    /// What waits in its outbox.
    pub fn unanswered(&self) -> usize {
        self.process.as_ref().and_then(Process::unanswered).unwrap_or(usize::MAX)
    }
}
