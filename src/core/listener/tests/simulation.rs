//! Whole connections, with delays and cuts, against a client that follows the protocol: every visible item arrives, in
//! order, once; `handed` never passes what was written; the hand-over converges under a sender at full rate.
//!
//! Time is simulated and everything follows from one seed, which a failing case prints.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::core::command::{Answer, Command, Retain};
use crate::core::listener::{Amount, Effect, Fetched, Listener, Moment, Offered, Page, Pull, Sight, Wanted};
use crate::core::retention::{Keeping, Read, Retention};
use crate::core::sight::TablesSight;
use crate::core::state::tests::{World, handle, m};
use crate::core::visible::Span;
use crate::ids::{DeviceId, GroupId, MessageId};
use crate::limits::ACK_DELAY_MS_MAX;

const PAGE_ITEMS: usize = 500;
const CHUNK_ITEMS: usize = 50;

/// A small generator: enough to be unpredictable, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What happens in a run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    seed: u64,
    backlog: u64,
    /// The sender says so much every so many ms.
    every_ms: u64,
    at_once: u64,
    until_ms: u64,
    one_way_ms: u64,
    /// The link is cut about every so many ms; zero: never.
    cuts_ms: u64,
    /// The listener's user is removed and added again about every so many ms; zero: never.
    removals_ms: u64,
    /// Retention removes the oldest items of a group about every so many ms; zero: never.
    trims_ms: u64,
    item_bytes: u32,
}

/// From client to server.
#[derive(Clone)]
enum Up {
    Subscribe,
    Pull { group: GroupId, after: MessageId, stream: u64 },
    Ack(Vec<(GroupId, MessageId)>),
}

/// From server to client.
#[derive(Clone)]
enum Down {
    Push { group: GroupId, continues: MessageId, rows: Vec<MessageId>, covered_to: MessageId, credit: Amount },
    Heads(Vec<(GroupId, MessageId)>),
    Rows { group: GroupId, rows: Vec<MessageId> },
    End { group: GroupId, covered_to: MessageId, head: MessageId, gone: Vec<Span> },
}

#[derive(Clone)]
enum Happening {
    Speak,
    Remove,
    Trim,
    Cut,
    Connect,
    Tick,
    AckTimer,
    Arrives(Up),
    Reads { stream: u64 },
    Writes { stream: u64 },
    Fetched { group: GroupId, after: MessageId, most: Amount },
    Durable(Vec<(GroupId, MessageId)>),
    Reaches(Down),
}

/// A page on its way: what is still to be written of it.
struct Serving {
    page: Page,
    group: GroupId,
    rows: Vec<MessageId>,
    covered_to: MessageId,
    head: MessageId,
    gone: Vec<Span>,
    extra_ms: u64,
}

/// A client's view of a group.
#[derive(Default)]
struct Copy {
    end: MessageId,
    items: Vec<MessageId>,
    /// What it was told is gone.
    gone: Vec<Span>,
    /// Pushed ahead of an open page: what it continues, rows, covered to.
    ahead: Vec<(MessageId, Vec<MessageId>, MessageId)>,
    head: MessageId,
    is_pulling: bool,
}

impl Copy {
    fn take(&mut self, rows: &[MessageId], covered_to: MessageId) {
        for msgid in rows.iter().copied().filter(|msgid| *msgid > self.end) {
            self.items.push(msgid);
        }
        self.end = self.end.max(rows.last().copied().unwrap_or_default()).max(covered_to);
        self.head = self.head.max(self.end);
    }

    /// These are gone: what it does not have of them.
    fn lose(&mut self, gone: &[Span]) {
        for gone in gone {
            let Some(gone) = gone.within(self.end.next(), MessageId::MAX) else { continue };
            assert!(self.items.last().is_none_or(|last| *last < gone.first), "told before what comes behind it");
            self.gone.push(gone);
            self.end = gone.last;
        }
    }

    /// Joins what was kept ahead; says how many items that were.
    fn join_ahead(&mut self) -> usize {
        let mut joined = 0;
        for (continues, rows, covered_to) in std::mem::take(&mut self.ahead) {
            if continues <= self.end {
                self.take(&rows, covered_to);
                joined += rows.len();
            }
        }
        joined
    }
}

struct Simulation {
    plan: Plan,
    dice: Dice,
    world: World,
    anna: DeviceId,
    bob: DeviceId,
    groups: Vec<GroupId>,
    now_ms: u64,
    connection: u64,
    queue: BTreeMap<(u64, u64), (u64, Happening)>,
    order: u64,
    listener: Listener,
    pages: BTreeMap<u64, Serving>,
    /// What was written on this connection, or lay at or below the cursor when it began.
    written: BTreeMap<GroupId, BTreeSet<u64>>,
    copies: BTreeMap<GroupId, Copy>,
    credit: Amount,
    unacked: Amount,
    is_ack_due: bool,
    pulls: usize,
    last_pull_ms: u64,
}

impl Simulation {
    fn new(plan: Plan) -> Simulation {
        let mut world = World::new();
        let (anna, bob) = (world.user("anna"), world.user("bob"));
        let groups = vec![world.group(anna), world.group(anna)];
        for group in &groups {
            world.add(anna, *group, "bob");
            world.say_up_to(anna, *group, 2 + plan.backlog);
        }
        let copies = groups.iter().map(|group| (*group, Copy { end: m(1), ..Copy::default() })).collect();
        Simulation {
            plan,
            dice: Dice(plan.seed),
            world,
            anna,
            bob,
            groups,
            now_ms: 0,
            connection: 0,
            queue: BTreeMap::new(),
            order: 0,
            listener: Listener::new(),
            pages: BTreeMap::new(),
            written: BTreeMap::new(),
            copies,
            credit: Amount::default(),
            unacked: Amount::default(),
            is_ack_due: false,
            pulls: 0,
            last_pull_ms: 0,
        }
    }

    fn at(&mut self, in_ms: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((self.now_ms + in_ms, self.order), (self.connection, happening));
    }

    fn moment(&self) -> Moment {
        Moment { now_ms: self.now_ms, rtt_ms: 2 * self.plan.one_way_ms }
    }

    fn run(&mut self) {
        self.connect();
        self.at(0, Happening::Speak);
        self.at(0, Happening::Tick);
        if self.plan.cuts_ms > 0 {
            self.at(self.plan.cuts_ms, Happening::Cut);
        }
        if self.plan.removals_ms > 0 {
            self.at(self.plan.removals_ms, Happening::Remove);
        }
        if self.plan.trims_ms > 0 {
            let policy = Some(Retention { count: Some(0), ..Retention::ALL });
            for group in self.groups.clone() {
                self.world.answer(Command::SetRetention { by: self.anna, group, policy });
            }
            self.at(self.plan.trims_ms, Happening::Trim);
        }
        while let Some(((now_ms, _), (connection, happening))) = self.queue.pop_first() {
            self.now_ms = now_ms;
            let of_any = matches!(
                happening,
                Happening::Speak
                    | Happening::Remove
                    | Happening::Trim
                    | Happening::Cut
                    | Happening::Tick
                    | Happening::Durable(_)
            );
            if of_any || connection == self.connection {
                self.happen(happening);
                self.check_handed();
            }
        }
        self.check_copies();
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Speak => self.speak(),
            Happening::Remove => self.remove(),
            Happening::Trim => self.trim(),
            Happening::Cut => self.cut(),
            Happening::Connect => self.connect(),
            Happening::Tick => {
                self.listener.tick(self.moment());
                if self.now_ms < self.plan.until_ms {
                    self.at(100, Happening::Tick);
                }
            }
            Happening::AckTimer => self.send_acks(),
            Happening::Arrives(up) => self.arrives(up),
            Happening::Reads { stream } => self.reads(stream),
            Happening::Writes { stream } => self.writes(stream),
            Happening::Fetched { group, after, most } => self.fetched(group, after, most),
            Happening::Durable(entries) => self.durable(entries),
            Happening::Reaches(down) => self.reaches(down),
        }
        let heads = self.listener.take_heads();
        if !heads.is_empty() {
            self.at(self.plan.one_way_ms, Happening::Reaches(Down::Heads(heads)));
        }
    }

    // ---- the server ---------------------------------------------------------------------------------------------------

    fn speak(&mut self) {
        let before: Vec<MessageId> = self.groups.iter().map(|group| self.world.tables.head(*group)).collect();
        for _ in 0..self.plan.at_once {
            let group = self.groups[usize::try_from(self.dice.roll(2)).unwrap()];
            self.world.now_ms += 1;
            assert!(matches!(self.world.say(self.anna, group, "text"), Answer::Sent { .. }));
        }
        self.offer_since(&before);
        if self.now_ms < self.plan.until_ms {
            self.at(self.plan.every_ms, Happening::Speak);
        }
    }

    fn remove(&mut self) {
        let group = self.groups[0];
        let before: Vec<MessageId> = self.groups.iter().map(|group| self.world.tables.head(*group)).collect();
        let bobs = self.world.user_of(self.bob);
        let stood = self.world.cursor(group, self.bob).msgid;
        let is_member = self.world.tables.member(group, bobs).unwrap().is_member();
        let (by, handle) = (self.anna, handle("bob"));
        self.world.run(if is_member {
            Command::RemoveMember { by, group, handle }
        } else {
            Command::AddMember { by, group, handle }
        });
        // A rejoin may raise the cursor.
        let cursor = self.world.cursor(group, self.bob).msgid;
        let is_told = self.listener.cursor_rose(group, cursor);
        assert!(is_told || cursor == stood, "the client does not know of it");
        self.note_cursor(group, cursor);
        self.offer_since(&before);
        if self.now_ms < self.plan.until_ms {
            let in_ms = 1 + self.dice.roll(2 * self.plan.removals_ms);
            self.at(in_ms, Happening::Remove);
        }
    }

    /// The first kept item of a group moves up, by some or by all that there are.
    fn trim(&mut self) {
        let group = self.groups[usize::try_from(self.dice.roll(2)).unwrap()];
        let (first, head) = (self.world.tables.first_kept(group), self.world.tables.head(group));
        let some = first.value() + self.dice.roll(40);
        let to = if self.dice.roll(3) == 0 { head.next() } else { m(some).min(head.next()) };
        let (policy, clock_ms) = (self.world.tables.retention(group, Keeping::default()), self.world.now_ms);
        let content_gone = self.world.tables.group(group).unwrap().content_gone;
        let retain = Retain { group, policy, read: Read::default(), to, content_gone, clock_ms };
        self.world.answer(Command::Retain(retain));
        assert_eq!(self.world.tables.first_kept(group), to);
        if self.now_ms < self.plan.until_ms {
            let in_ms = 1 + self.dice.roll(2 * self.plan.trims_ms);
            self.at(in_ms, Happening::Trim);
        }
    }

    fn offer_since(&mut self, before: &[MessageId]) {
        let mut effects = Vec::new();
        for (group, before) in self.groups.clone().into_iter().zip(before) {
            let head = self.world.tables.head(group).value();
            let items: Vec<Offered> = (before.value() + 1..=head).map(|msgid| self.offered(m(msgid))).collect();
            if items.is_empty() {
                continue;
            }
            let sight = sight(&self.world, self.bob);
            let moment = Moment { now_ms: self.now_ms, rtt_ms: 2 * self.plan.one_way_ms };
            self.listener.offer(group, &items, moment, &sight, &mut effects);
        }
        self.carry_out(effects);
    }

    fn offered(&self, msgid: MessageId) -> Offered {
        Offered { msgid, bytes: self.plan.item_bytes }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Push(push) => {
                    let rows: Vec<MessageId> = (push.first.value()..=push.last.value()).map(m).collect();
                    self.note_written(push.group, &rows);
                    let credit = self.listener.credit();
                    let (group, continues, covered_to) = (push.group, push.continues, push.covered_to);
                    let down = Down::Push { group, continues, rows, covered_to, credit };
                    self.at(self.plan.one_way_ms, Happening::Reaches(down));
                }
                Effect::Fetch { group, after, most } => {
                    let in_ms = self.dice.roll(4);
                    self.at(in_ms, Happening::Fetched { group, after, most });
                }
            }
        }
    }

    fn arrives(&mut self, up: Up) {
        let mut effects = Vec::new();
        let moment = self.moment();
        let sight = sight(&self.world, self.bob);
        match up {
            Up::Subscribe => self.listener.subscribe(Wanted::All, &sight),
            Up::Pull { group, after, stream } => {
                let page = self.listener.open_page(group, after, Pull::Deliver, &sight).unwrap();
                let (covered_to, head) = (page.after(), MessageId::ZERO);
                let extra_ms = self.dice.roll(60);
                let (rows, gone) = (Vec::new(), Vec::new());
                self.pages.insert(stream, Serving { page, group, rows, covered_to, head, gone, extra_ms });
                self.at(1, Happening::Reads { stream });
            }
            Up::Ack(entries) => {
                let acked = self.listener.ack(&entries, moment, &sight, &mut effects);
                let in_ms = self.dice.roll(30);
                self.at(in_ms, Happening::Durable(acked));
            }
        }
        self.carry_out(effects);
    }

    /// What would be visible above a msgid, had it not been removed.
    fn gone(&self, group: GroupId, after: MessageId) -> Vec<Span> {
        self.world.tables.gone(self.world.user_of(self.bob), group, after).collect()
    }

    /// Visible items above a msgid as the store would give them, and how far they cover; none behind what is gone.
    fn read(&self, group: GroupId, after: MessageId, items: usize) -> (Vec<MessageId>, MessageId) {
        let items = if self.gone(group, after).is_empty() { items } else { 0 };
        let bobs = self.world.user_of(self.bob);
        let tables = &self.world.tables;
        let spans = tables.visible(bobs, group, after);
        let msgids = spans.flat_map(|span| span.first.value()..=span.last.value()).map(m);
        let rows: Vec<MessageId> = msgids.take(items).collect();
        let covered_to = tables.covered_to(bobs, group, rows.last().copied().unwrap_or(after));
        (rows, covered_to)
    }

    fn reads(&mut self, stream: u64) {
        let serving = &self.pages[&stream];
        let (group, after) = (serving.group, serving.page.after());
        let (rows, covered_to) = self.read(group, after, PAGE_ITEMS);
        let (head, gone) = (sight(&self.world, self.bob).head(group), self.gone(group, after));
        let serving = self.pages.get_mut(&stream).unwrap();
        (serving.rows, serving.covered_to, serving.head, serving.gone) = (rows, covered_to, head, gone);
        self.at(1, Happening::Writes { stream });
    }

    fn writes(&mut self, stream: u64) {
        let mut serving = self.pages.remove(&stream).unwrap();
        let group = serving.group;
        let chunk: Vec<MessageId> = serving.rows.drain(..serving.rows.len().min(CHUNK_ITEMS)).collect();
        let in_ms = self.plan.one_way_ms + serving.extra_ms;
        if let Some(last) = chunk.last() {
            self.note_written(group, &chunk);
            self.listener.page_written(&mut serving.page, *last);
            self.at(in_ms, Happening::Reaches(Down::Rows { group, rows: chunk }));
            self.pages.insert(stream, serving);
            let pause_ms = self.dice.roll(3);
            self.at(pause_ms, Happening::Writes { stream });
            return;
        }
        let mut effects = Vec::new();
        let sight = sight(&self.world, self.bob);
        self.listener.page_ended(serving.page, serving.covered_to, serving.head, &sight, &mut effects);
        let (covered_to, head, gone) = (serving.covered_to, serving.head, serving.gone);
        self.at(in_ms, Happening::Reaches(Down::End { group, covered_to, head, gone }));
        self.carry_out(effects);
    }

    fn fetched(&mut self, group: GroupId, after: MessageId, most: Amount) {
        let by_bytes = (most.bytes / self.plan.item_bytes).max(1);
        let (rows, covered_to) = self.read(group, after, usize::try_from(most.items.min(by_bytes)).unwrap());
        let rows: Vec<Offered> = rows.into_iter().map(|msgid| self.offered(msgid)).collect();
        let fetched = Fetched { group, after, rows: &rows, covered_to };
        let mut effects = Vec::new();
        let moment = self.moment();
        self.listener.fetched(&fetched, moment, &sight(&self.world, self.bob), &mut effects);
        self.carry_out(effects);
    }

    fn durable(&mut self, entries: Vec<(GroupId, MessageId)>) {
        let device = self.bob;
        let Answer::Cursors { moved, .. } = self.world.answer(Command::Ack { device, entries: entries.clone() }) else {
            panic!("acks are answered with cursors")
        };
        for ((group, asked), (_, stands)) in entries.into_iter().zip(moved) {
            assert!(asked <= stands, "what was handed is durable, thus an ack of it is never cut");
            let is_told = self.listener.cursor_rose(group, stands);
            let is_own = self.plan.cuts_ms == 0;
            assert!(!is_told || asked < stands || !is_own, "an ack is answered, and not told once more");
            self.note_cursor(group, stands);
        }
    }

    // ---- what must hold -----------------------------------------------------------------------------------------------

    fn note_written(&mut self, group: GroupId, rows: &[MessageId]) {
        self.written.entry(group).or_default().extend(rows.iter().map(|msgid| msgid.value()));
    }

    fn note_cursor(&mut self, group: GroupId, cursor: MessageId) {
        self.written.entry(group).or_default().extend(1..=cursor.value());
    }

    fn check_handed(&mut self) {
        let bobs = self.world.user_of(self.bob);
        for group in self.groups.clone() {
            let Some(handed) = self.listener.handed(group) else { continue };
            let written = self.written.entry(group).or_default();
            for span in self.world.tables.visible(bobs, group, MessageId::ZERO) {
                let last = span.last.value().min(handed.value());
                let hole = (span.first.value()..=last).rev().take(60).find(|msgid| !written.contains(msgid));
                assert_eq!(hole, None, "{handed} of {group} was handed, and this never written");
            }
            assert!(self.world.cursor(group, self.bob).msgid <= self.world.tables.visible_head(bobs, group));
        }
    }

    fn check_copies(&self) {
        for group in &self.groups {
            let copy = &self.copies[group];
            assert!(copy.items.is_sorted_by(|one, other| one < other), "{group}: in order, once");
            let mut told: Vec<MessageId> = copy.items.clone();
            for gone in &copy.gone {
                told.extend((gone.first.value()..=gone.last.value()).map(m));
            }
            told.sort_unstable();
            let removed = self.gone(*group, MessageId::ZERO).into_iter().chain(self.seen(*group));
            // The created and the join are below where it begins.
            let all = removed.flat_map(|span| span.first.value()..=span.last.value()).filter(|msgid| *msgid > 1);
            assert!(told.into_iter().eq(all.map(m)), "{group}: every visible item, or that it is gone");
        }
    }

    fn seen(&self, group: GroupId) -> Vec<Span> {
        self.world.tables.visible(self.world.user_of(self.bob), group, MessageId::ZERO).collect()
    }

    // ---- the client ---------------------------------------------------------------------------------------------------

    fn cut(&mut self) {
        self.connection += 1;
        self.at(self.plan.one_way_ms, Happening::Connect);
        if self.now_ms < self.plan.until_ms {
            let in_ms = 1 + self.dice.roll(2 * self.plan.cuts_ms);
            self.at(in_ms, Happening::Cut);
        }
    }

    fn connect(&mut self) {
        self.listener = Listener::new();
        self.pages.clear();
        self.written.clear();
        self.credit = self.listener.credit();
        self.unacked = Amount::default();
        self.is_ack_due = false;
        self.at(self.plan.one_way_ms, Happening::Arrives(Up::Subscribe));
        for group in self.groups.clone() {
            let cursor = self.world.cursor(group, self.bob).msgid;
            self.note_cursor(group, cursor);
            let copy = self.copies.get_mut(&group).unwrap();
            copy.ahead.clear();
            copy.is_pulling = false;
            self.pull(group);
        }
    }

    fn pull(&mut self, group: GroupId) {
        let copy = self.copies.get_mut(&group).unwrap();
        copy.is_pulling = true;
        let after = copy.end;
        self.pulls += 1;
        self.last_pull_ms = self.now_ms;
        let stream = self.order;
        self.at(self.plan.one_way_ms, Happening::Arrives(Up::Pull { group, after, stream }));
    }

    fn reaches(&mut self, down: Down) {
        let mut touched = Vec::new();
        match down {
            Down::Heads(heads) => {
                for (group, head) in heads {
                    let copy = self.copies.get_mut(&group).unwrap();
                    copy.head = copy.head.max(head);
                    touched.push(group);
                }
            }
            Down::Push { group, continues, rows, covered_to, credit } => {
                self.credit = credit;
                let copy = self.copies.get_mut(&group).unwrap();
                copy.head = copy.head.max(covered_to);
                if continues <= copy.end {
                    copy.take(&rows, covered_to);
                    self.count(rows.len());
                } else if copy.is_pulling {
                    copy.ahead.push((continues, rows, covered_to));
                }
                touched.push(group);
            }
            Down::Rows { group, rows } => {
                self.copies.get_mut(&group).unwrap().take(&rows, MessageId::ZERO);
                self.want_ack();
            }
            Down::End { group, covered_to, head, gone } => {
                let copy = self.copies.get_mut(&group).unwrap();
                copy.lose(&gone);
                copy.take(&[], covered_to);
                let joined = copy.join_ahead();
                copy.head = copy.head.max(head);
                copy.is_pulling = false;
                touched.push(group);
                self.count(joined);
            }
        }
        for group in touched {
            let copy = &self.copies[&group];
            if copy.head > copy.end && !copy.is_pulling {
                self.pull(group);
            }
        }
        self.want_ack();
    }

    /// Pushed items count for the ack once they are contiguous: before that an ack could not name them.
    fn count(&mut self, items: usize) {
        let items = u32::try_from(items).unwrap();
        self.unacked.items += items;
        self.unacked.bytes += items * self.plan.item_bytes;
    }

    /// Acks at half of the credit, else after a while.
    fn want_ack(&mut self) {
        if self.unacked.items * 2 >= self.credit.items || self.unacked.bytes * 2 >= self.credit.bytes {
            self.send_acks();
        } else if !self.is_ack_due {
            self.is_ack_due = true;
            self.at(ACK_DELAY_MS_MAX, Happening::AckTimer);
        }
    }

    fn send_acks(&mut self) {
        self.unacked = Amount::default();
        self.is_ack_due = false;
        let ends = self.copies.iter().map(|(group, copy)| (*group, copy.end)).collect();
        self.at(self.plan.one_way_ms, Happening::Arrives(Up::Ack(ends)));
    }
}

fn sight(world: &World, device: DeviceId) -> TablesSight<'_> {
    world.tables.sight(world.user_of(device), device)
}

const CALM: Plan = Plan {
    seed: 1,
    backlog: 0,
    every_ms: 1,
    at_once: 1,
    until_ms: 6_000,
    one_way_ms: 20,
    cuts_ms: 0,
    removals_ms: 0,
    trims_ms: 0,
    item_bytes: 120,
};

/// Scenario 6: a sender at 1 ms right through handshake and first pull; every item arrives once, and the hand-over
/// converges: after the backlog nobody pulls any more.
#[test]
fn the_hand_over_converges_under_a_sender_at_full_rate() {
    for one_way_ms in [1, 20, 150] {
        for backlog in [0, 1_000] {
            let mut simulation = Simulation::new(Plan { backlog, one_way_ms, ..CALM });
            simulation.run();
            let (pulls, last_ms) = (simulation.pulls, simulation.last_pull_ms);
            assert!(last_ms < simulation.plan.until_ms / 2, "still pulling at {last_ms} ms, one way {one_way_ms} ms");
            assert!(pulls <= 24, "{pulls} pulls at {one_way_ms} ms with a backlog of {backlog}");
        }
    }
}

/// Scenario 4: thousands waiting, live messages in mid-pull, cut and back.
#[test]
fn nothing_is_skipped_when_live_items_arrive_in_mid_pull_and_the_link_drops() {
    let plan = Plan { backlog: 5_000, every_ms: 20, until_ms: 4_000, cuts_ms: 400, ..CALM };
    Simulation::new(plan).run();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenarios 4 to 8 at random, and 27: delays, cuts, removals, retention; every visible item arrives, in order, once, or
    /// is said to be gone before what comes behind it.
    #[test]
    fn every_visible_item_arrives_in_order_and_once(
        seed in any::<u64>(),
        backlog in 0..400u64,
        every_ms in 2..30u64,
        at_once in 1..4u64,
        one_way_ms in 0..200u64,
        cuts_ms in prop_oneof![Just(0u64), 50..800u64],
        removals_ms in prop_oneof![Just(0u64), 20..500u64],
        trims_ms in prop_oneof![Just(0u64), 20..300u64],
        item_bytes in prop_oneof![Just(100u32), Just(3_000u32), Just(40_000u32)],
    ) {
        let until_ms = 1_500;
        let plan =
            Plan { seed, backlog, every_ms, at_once, until_ms, one_way_ms, cuts_ms, removals_ms, trims_ms, item_bytes };
        Simulation::new(plan).run();
    }
}
