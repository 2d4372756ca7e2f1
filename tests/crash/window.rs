//! A device that sends as fast as its window lets it, sends again what has no answer, and holds the server to each answer
//! that it ever gave.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use gaggle::ids::GroupId;
use gaggle::wire::code::{Class, Code};
use gaggle::wire::codec::{self, RawFrame};
use gaggle::wire::frame::{Error, Frame as _, Sent, Welcome};
use gaggle::wire::item::{Item, kind};
use tokio::sync::watch;

use crate::raw::{Key, Raw, Role, soon, text_frame};

/// W of the protocol.
const WINDOW: u64 = 16;
/// So many answered numbers are kept in the window, to be sent again.
const KEPT: u64 = 4;

/// Every send that anybody was ever told to be stored, by group and text.
#[derive(Clone)]
pub struct Ledger {
    stored: Arc<Mutex<BTreeMap<(GroupId, String), u64>>>,
    count: Arc<watch::Sender<u64>>,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger { stored: Arc::default(), count: Arc::new(watch::Sender::new(0)) }
    }

    /// Writes an answer down. The same text must always have the same msgid.
    pub fn answered(&self, group: GroupId, text: &str, msgid: u64) {
        let before = self.stored.lock().unwrap().insert((group, text.to_owned()), msgid);
        assert!(before.is_none_or(|before| before == msgid), "{text:?} was m{before:?}, now it is m{msgid}");
        self.count.send_modify(|count| *count += 1);
    }

    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Waits until so many answers were written down, however long that takes while they come.
    pub async fn reaches(&self, count: u64) {
        let mut counts = self.count.subscribe();
        let mut now = *counts.borrow();
        while now < count {
            now = *soon("another answer to a send", counts.wait_for(|count| *count > now)).await.unwrap();
        }
    }

    /// What is written down here so far, to go on from by itself.
    pub fn fork(&self) -> Ledger {
        let ledger = Ledger::new();
        ledger.stored.lock().unwrap().clone_from(&self.stored.lock().unwrap());
        ledger
    }

    pub fn snapshot(&self) -> BTreeMap<(GroupId, String), u64> {
        self.stored.lock().unwrap().clone()
    }
}

/// Holds a whole history to what was answered before it was read: dense, each text once, each answer in its place.
pub fn check(group: GroupId, items: &[Item], answered: &BTreeMap<(GroupId, String), u64>) {
    check_above(0, group, items, answered);
}

/// The same for what lies above this msgid.
pub fn check_above(after: u64, group: GroupId, items: &[Item], answered: &BTreeMap<(GroupId, String), u64>) {
    let msgids: Vec<u64> = items.iter().map(|item| item.msgid.value()).collect();
    let end = after + items.len() as u64;
    let dense: Vec<u64> = (after + 1..=end).collect();
    assert_eq!(msgids, dense, "msgids of {group} are not dense");
    let mut seen = BTreeSet::new();
    for item in items.iter().filter(|item| item.kind == kind::TEXT) {
        assert!(seen.insert(item.body.clone()), "{:?} is there twice", item.body);
    }
    for ((_, text), msgid) in answered.iter().filter(|((of, _), msgid)| *of == group && **msgid > after) {
        let item = usize::try_from(*msgid - after - 1).ok().and_then(|index| items.get(index));
        let item = item.unwrap_or_else(|| panic!("{text:?} was answered as m{msgid}, {group} ends at m{end}"));
        assert_eq!(item.body, text.as_bytes(), "m{msgid} of {group} is another one");
    }
}

/// The sends of one device.
#[derive(Clone)]
pub struct Window {
    pub key: Key,
    group: GroupId,
    pub ledger: Ledger,
    next: u64,
    /// The lowest number without an answer.
    lowest: u64,
    answers: BTreeMap<u64, u64>,
    /// The highest stated lowest number of which a send was answered.
    forgotten_below: u64,
    in_flight: HashMap<u32, (u64, u64)>,
    again: BTreeSet<u64>,
    /// How many answers said that the outcome is not known.
    pub unknown: u64,
    /// How many said that there is no room.
    pub full: u64,
    padding: usize,
}

impl Window {
    pub fn new(key: Key, group: GroupId, ledger: Ledger) -> Window {
        Window {
            key,
            group,
            ledger,
            next: 1,
            lowest: 1,
            answers: BTreeMap::new(),
            forgotten_below: 1,
            in_flight: HashMap::new(),
            again: BTreeSet::new(),
            unknown: 0,
            full: 0,
            padding: 0,
        }
    }

    /// The same with texts that are so much longer, and do not compress well.
    pub fn padded(self, bytes: usize) -> Window {
        Window { padding: bytes, ..self }
    }

    fn text(&self, seq: u64) -> String {
        let mut text = format!("{} {seq}", self.key.handle);
        let whole = text.len() + self.padding;
        let mut state = seq;
        while text.len() < whole {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!(" {:x}", state >> 8));
        }
        text
    }

    fn stated(&self) -> u64 {
        self.lowest.saturating_sub(KEPT).max(1)
    }

    /// What the device has at this moment, to go on from by itself: what is in flight will be sent again.
    pub fn fork(&self, ledger: Ledger) -> Window {
        Window { ledger, ..self.clone() }
    }

    /// Begins a connection; everything in the window is to be sent again on it, what was answered too.
    pub fn welcomed(&mut self, welcome: &Welcome) {
        let answered = self.answers.keys().next_back().copied().unwrap_or(0);
        let decided = welcome.highest_send.value();
        assert!((answered..self.next).contains(&decided), "highest decided {decided}, answered {answered}");
        self.in_flight.clear();
        self.again = (self.stated()..self.next).collect();
    }

    /// A connection, on which what the device has stated as answered is known to be.
    pub async fn connect(&mut self, server: SocketAddr) -> Raw {
        let mut raw = Raw::connect(server).await;
        let welcome = raw.hello(&self.key, Role::Caller).await.unwrap();
        self.welcomed(&welcome);
        if self.forgotten_below > 1 {
            let (seq, group) = (self.forgotten_below - 1, self.group);
            match raw.send(seq, group, &self.text(seq)).await {
                Err(refused) => assert_eq!(Code::from_number(refused.code), Some(Code::Forgotten), "{refused:?}"),
                // Where there is no room at all, the server answers, and what a send states has to wait.
                Ok(sent) => assert!(self.full > 0 && self.answers.get(&seq) == Some(&sent.msgid.value()), "{sent:?}"),
            }
        }
        raw
    }

    /// The last answered number with other bytes, which must not be taken for it.
    pub async fn is_conflict(&self, raw: &mut Raw) {
        let Some((seq, _)) = self.answers.last_key_value() else { return };
        let other = text_frame(*seq, self.stated(), self.group, &format!("{} otherwise", self.text(*seq)));
        let refused = raw.ask::<Sent>(&other).await.unwrap_err();
        assert_eq!(Code::from_number(refused.code), Some(Code::Conflict), "number {seq}: {refused:?}");
    }

    /// What is to be written now: the window filled, or what is to be sent again once nothing is in flight.
    pub fn due(&mut self, next_request: impl FnMut() -> u32) -> Vec<Bytes> {
        let mut due = self.due_again();
        while self.again.is_empty() && self.next < self.stated() + WINDOW {
            due.push(self.next);
            self.next += 1;
        }
        self.post(&due, next_request)
    }

    fn due_again(&mut self) -> Vec<u64> {
        let again = if self.in_flight.is_empty() { std::mem::take(&mut self.again) } else { BTreeSet::new() };
        again.into_iter().collect()
    }

    fn post(&mut self, due: &[u64], mut next_request: impl FnMut() -> u32) -> Vec<Bytes> {
        let stated = self.stated();
        let mut frames = Vec::new();
        for seq in due {
            let request = next_request();
            let frame = text_frame(*seq, stated.min(*seq), self.group, &self.text(*seq));
            frames.push(codec::encode(request, &frame).unwrap());
            self.in_flight.insert(request, (*seq, stated));
        }
        frames
    }

    /// Fills the window and takes one answer; none where the connection is gone.
    pub async fn step(&mut self, raw: &mut Raw) -> Option<()> {
        for bytes in self.due(|| raw.next_request()) {
            raw.write(bytes).await;
        }
        self.take(raw).await
    }

    async fn take(&mut self, raw: &mut Raw) -> Option<()> {
        let frame = raw.answers.next().await?;
        self.took(&frame);
        Some(())
    }

    /// Takes an answer.
    pub fn took(&mut self, frame: &RawFrame) {
        let Some((seq, stated)) = self.in_flight.remove(&frame.request) else { return };
        if frame.kind == Error::TYPE {
            let error: Error = frame.decode().unwrap();
            let code = Code::from_number(error.code).unwrap();
            let class = code.class();
            assert_ne!(class, Class::Permanent, "number {seq}, lowest {}: {error:?}", self.lowest);
            self.unknown += u64::from(class == Class::Unknown);
            self.full += u64::from(code == Code::StorageFull);
            self.again.insert(seq);
            return;
        }
        let msgid = frame.decode::<Sent>().unwrap().msgid.value();
        self.ledger.answered(self.group, &self.text(seq), msgid);
        self.answers.insert(seq, msgid);
        self.forgotten_below = self.forgotten_below.max(stated);
        while self.answers.contains_key(&self.lowest) {
            self.lowest += 1;
        }
    }

    /// Sends again what has no answer until everything has one.
    pub async fn finish(&mut self, raw: &mut Raw) {
        while self.lowest < self.next || !self.in_flight.is_empty() || !self.again.is_empty() {
            let due = self.due_again();
            for bytes in self.post(&due, || raw.next_request()) {
                raw.write(bytes).await;
            }
            self.take(raw).await.expect("an answer");
        }
        let msgids: Vec<u64> = self.answers.values().copied().collect();
        assert!(msgids.is_sorted(), "the sends of a device do not keep their order");
    }
}
