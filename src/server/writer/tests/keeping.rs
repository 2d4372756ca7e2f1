//! Retention over the real log, step by step: what goes, what is left, and what is counted meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::said::acts;
use super::*;
use crate::core::conversations::READ_MARK;
use crate::core::retention::{Keeping, Retention};
use crate::core::rows::Meta;
use crate::core::visible::Span;
use crate::disk::SharedDisk;
use crate::ids::UserId;
use crate::server::conversations::Asked;
use crate::server::keeping::look::AtOnce;
use crate::server::keeping::{Keeper, Step};
use crate::server::snapshot::Snapshot;
use crate::server::translate;
use crate::store::keys;
use crate::store::records::MessageRecord;
use crate::store::tree::Tree;
use crate::store::verify::{Event, Options, verify};
use crate::wire::frame::{Conversation, Conversations, Extensions};
use crate::wire::item::{Item, kind};
use crate::wire::said::mentions_extension;

mod parts;

const KEEPING: Keeping = Keeping { default: Retention::ALL, unseen_ms: u64::MAX };
const NAMES: [&str; 3] = ["alice", "bob", "carl"];

/// What happens next.
#[derive(Debug, Clone)]
enum Happens {
    /// Somebody says something, which mentions these.
    Said {
        who: usize,
        mentions: u8,
    },
    /// Its author edits a text, or the owner recalls it.
    Edited(usize),
    Recalled(usize),
    /// Bob or Carl comes or goes.
    Moved(bool),
    /// A read mark is set, forth or back.
    Read(usize, usize),
    /// The group keeps so many items.
    Keeps(u64),
    /// It keeps so many items, and so many bytes of them.
    Limits(Option<u64>, Option<u64>),
    /// The keeper takes so many steps.
    Kept(usize),
    Applied,
    /// The server is started anew: after a clean stop, or not.
    Started {
        clean: bool,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        10 => (0usize..3, 0u8..8).prop_map(|(who, mentions)| Happens::Said { who, mentions }),
        2 => (0usize..40).prop_map(Happens::Edited),
        3 => (0usize..40).prop_map(Happens::Recalled),
        2 => any::<bool>().prop_map(Happens::Moved),
        3 => (0usize..3, 0usize..60).prop_map(|(who, msgid)| Happens::Read(who, msgid)),
        2 => (1u64..12).prop_map(Happens::Keeps),
        3 => (prop::option::of(1u64..30), prop::option::of(300u64..4_000))
            .prop_map(|(count, bytes)| Happens::Limits(count, bytes)),
        6 => (1usize..8).prop_map(Happens::Kept),
        1 => Just(Happens::Applied),
        1 => any::<bool>().prop_map(|clean| Happens::Started { clean }),
    ]
}

/// An item as the test knows it.
struct Said {
    author: UserId,
    is_content: bool,
    mentioned: Vec<UserId>,
    recalled: bool,
}

/// A group that is trimmed while people talk in it.
struct Story {
    world: World,
    keeper: Keeper,
    group: GroupId,
    devices: Vec<DeviceId>,
    users: Vec<UserId>,
    seqs: [u64; 3],
    present: [bool; 3],
    items: Vec<Said>,
    keeps: Retention,
    /// How long texts are.
    long: usize,
}

fn keeper(world: &World) -> Keeper {
    let mut keeper = Keeper::new(&world.view, KEEPING, NOW, crate::clock::monotonic());
    // Few, so that trimming takes several steps; of some items as many bytes, so that a page is full before.
    keeper.at_once = AtOnce { rows: 3, bytes: 400 };
    keeper
}

impl Story {
    fn new() -> Story {
        let mut world = open(&SimulatedDisk::new());
        let (alice, group) = world.people();
        let devices = vec![alice, world.join(alice, group, "bob", 9), world.join(alice, group, "carl", 10)];
        let users: Vec<UserId> = devices.iter().map(|device| world.user(*device)).collect();
        let none = |author| Said { author, is_content: false, mentioned: Vec::new(), recalled: false };
        let items = users.iter().map(|user| none(*user)).collect();
        let keeper = keeper(&world);
        Story {
            world,
            keeper,
            group,
            devices,
            users,
            seqs: [1; 3],
            present: [true; 3],
            items,
            keeps: Retention::ALL,
            long: 1,
        }
    }

    fn head(&self) -> u64 {
        self.items.len() as u64
    }

    fn noted(&mut self, who: usize) {
        self.items.push(Said { author: self.users[who], is_content: false, mentioned: Vec::new(), recalled: false });
    }

    fn acts(&mut self, who: usize, act: Act, mentions: &[UserId]) -> bool {
        let text = "text".repeat(self.long * (1 + usize::try_from(self.seqs[who] * 5 % 31).unwrap()));
        let Command::Send(mut send) = acts(self.devices[who], self.seqs[who], self.group, act, &text) else {
            unreachable!()
        };
        self.seqs[who] += 1;
        if let Ok(what) = &mut send.what
            && !mentions.is_empty()
        {
            what.mentions = mentions.to_vec();
            what.extensions = vec![mentions_extension(mentions)];
        }
        let mut command = Command::Send(send);
        if command.wanted().is_some() {
            command = self.world.attached(command);
        }
        let outcome = self.world.ask(command);
        if let Outcome::Decided(Answer::Refused(_)) = outcome {
            return false;
        }
        assert_eq!(msgid(&outcome), self.head() + 1);
        true
    }

    fn happens(&mut self, what: Happens) {
        match what {
            Happens::Said { who, mentions } => {
                let named: Vec<UserId> =
                    (0..3).filter(|it| mentions & (1 << it) != 0).map(|it| self.users[it]).collect();
                if self.present[who] && self.acts(who, Act::Says, &named) {
                    let noted = |it: &usize| *it != who && self.present[*it] && named.contains(&self.users[*it]);
                    let mentioned = (0..3).filter(noted).map(|it| self.users[it]).collect();
                    self.items.push(Said { author: self.users[who], is_content: true, mentioned, recalled: false });
                }
            }
            Happens::Edited(which) | Happens::Recalled(which) => {
                let which = which % self.items.len();
                let target = MessageId::new(which as u64 + 1);
                let is_edit = matches!(what, Happens::Edited(_));
                let author = self.users.iter().position(|user| *user == self.items[which].author).unwrap();
                let (who, act) = if is_edit { (author, Act::Edits(target)) } else { (0, Act::Recalls(target)) };
                let is_kept = target >= self.world.view.read().tables.first_kept(self.group);
                if self.items[which].is_content && self.acts(who, act, &[]) {
                    assert!(is_kept);
                    self.items[which].recalled |= !is_edit;
                    self.noted(who);
                }
            }
            Happens::Moved(carl) => self.moves(1 + usize::from(carl)),
            Happens::Read(who, msgid) => {
                let (device, group) = (self.devices[who], self.group);
                let version =
                    self.world.view.read().tables.read_mark(group, self.users[who]).map_or(0, |mark| mark.version);
                let msgid = MessageId::new((msgid as u64).min(self.head()));
                self.world.ask(Command::MarkUnread { device, group, msgid, version });
            }
            Happens::Keeps(count) => self.keeps(Retention { count: Some(count), ..Retention::ALL }),
            Happens::Limits(count, bytes) => self.keeps(Retention { count, bytes, ..Retention::ALL }),
            Happens::Kept(steps) => self.keep(steps),
            Happens::Applied => self.world.apply_all(),
            Happens::Started { clean } => self.start(clean),
        }
    }

    fn keeps(&mut self, policy: Retention) {
        self.keeps = policy;
        let (by, group) = (self.devices[0], self.group);
        let set = self.world.ask(Command::SetRetention { by, group, policy: Some(policy) });
        assert_eq!(set, Outcome::Decided(Answer::Done(None)));
    }

    /// Bytes of each item that is kept, as it is kept now.
    fn sizes(&self) -> Vec<(u64, u64)> {
        let published = self.world.view.read();
        let span = Span { first: published.tables.first_kept(self.group), last: MessageId::new(self.head()) };
        let page = Snapshot::of(&published).page(self.group, span, usize::MAX, usize::MAX).unwrap();
        page.rows.iter().map(|row| (row.msgid.value(), row.record.item.len() as u64)).collect()
    }

    /// The first item that is to be kept, as numbers and bytes are now.
    fn first_to_keep(&self) -> u64 {
        let mut gone = self.keeps.count.map_or(0, |count| self.head().saturating_sub(count));
        if let Some(most) = self.keeps.bytes {
            let sizes = self.sizes();
            let mut left: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
            for (msgid, bytes) in sizes {
                if left <= most {
                    break;
                }
                left -= bytes;
                gone = gone.max(msgid);
            }
        }
        gone + 1
    }

    fn first_kept(&self) -> u64 {
        self.world.view.read().tables.first_kept(self.group).value()
    }

    /// Rounds until nothing more goes: then no more is there than may be, but for the bytes that are let pass.
    fn keep_to_the_end(&mut self) {
        let mut still = 0;
        while still < 2 {
            let before = self.first_kept();
            self.keep_all();
            still = if self.first_kept() == before { still + 1 } else { 0 };
        }
        let sizes = self.sizes();
        let bytes: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
        assert!(self.keeps.count.is_none_or(|most| sizes.len() as u64 <= most), "{sizes:?}");
        assert!(self.keeps.bytes.is_none_or(|most| bytes <= most + most / 16), "{sizes:?}");
    }

    fn moves(&mut self, who: usize) {
        let (by, group, handle) = (self.devices[0], self.group, Handle::parse(NAMES[who]).unwrap());
        let command = if self.present[who] {
            Command::RemoveMember { by, group, handle }
        } else {
            Command::AddMember { by, group, handle }
        };
        if matches!(self.world.ask(command), Outcome::Decided(Answer::Done(_))) {
            self.present[who] = !self.present[who];
            self.noted(0);
        }
    }

    /// So many steps; says whether there is more to do.
    fn keep(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.keeper.step(&self.world.view).unwrap() {
                Step::Ask(command) => self.decides(*command),
                Step::Again => {}
                Step::Rest => self.keeper.begin(NOW, crate::clock::monotonic()),
            }
        }
    }

    fn decides(&mut self, command: Command) {
        let first_kept = self.world.view.read().tables.first_kept(self.group);
        if let Command::Retain(retain) = &command {
            let most = self.first_to_keep();
            assert!(retain.to.value() <= most, "{retain:?} though the first to keep is {most}");
        }
        if let Command::Trim(trim) = &command {
            assert!(trim.items.len() <= self.keeper.at_once.rows && trim.items.iter().all(|it| *it < first_kept));
        }
        assert_eq!(self.world.ask(command), Outcome::Decided(Answer::Done(None)));
    }

    fn keep_all(&mut self) {
        self.keeper.begin(NOW, crate::clock::monotonic());
        loop {
            match self.keeper.step(&self.world.view).unwrap() {
                Step::Ask(command) => self.decides(*command),
                Step::Again => {}
                Step::Rest => return,
            }
        }
    }

    fn start(&mut self, clean: bool) {
        if clean {
            self.world.writer.seal().unwrap().unwrap();
        }
        self.world = open(&self.world.disk.kill());
        self.keeper = keeper(&self.world);
    }

    fn listed(&self, who: usize) -> Conversation {
        let asked =
            Conversations { since: 0, behind: None, rows: 0, preview_bytes: 0, extensions: Extensions::default() };
        let asked = Asked::new(self.users[who], self.devices[who], &asked);
        let list = asked.read(&self.world.view, &self.world.writer.watchdog.doubt).unwrap();
        list.rows.0.into_iter().find(|row| row.gid == self.group).unwrap()
    }

    /// What is listed is what counting item by item gives; what is kept can be read, and nothing else.
    fn check(&self) {
        let first_kept = self.world.view.read().tables.first_kept(self.group);
        for (who, user) in self.users.iter().enumerate() {
            let row = self.listed(who);
            let mark = self.world.view.read().tables.cursor(self.group, *user, READ_MARK).unwrap().msgid;
            let numbered = (1..).map(MessageId::new).zip(&self.items);
            let unread = |(msgid, item): &(MessageId, &Said)| {
                let seen = self.world.view.read().tables.may_see(*user, self.group, *msgid);
                *msgid > mark && *msgid >= first_kept && seen && item.is_content && !item.recalled
            };
            let unread: Vec<&Said> = numbered.filter(unread).map(|(_, item)| item).collect();
            let others = unread.iter().filter(|item| item.author != *user).count();
            let mentions = unread.iter().filter(|item| item.mentioned.contains(user)).count();
            assert_eq!((row.unread, row.mentions), (others as u64, mentions as u64), "{user}");
        }
        let kept: Vec<u64> = self.world.page(self.group, self.users[0]).iter().map(|(msgid, ..)| *msgid).collect();
        assert_eq!(kept, (first_kept.value()..=self.head()).collect::<Vec<u64>>());
    }

    /// Rows of this tree that lie below the first kept item, by author and number where it has them.
    fn below(&self, tree: Tree) -> Vec<(UserId, u64)> {
        let published = self.world.view.read();
        let first_kept = published.tables.first_kept(self.group);
        let mut found = Vec::new();
        let scanned = published.engine.scan(tree, &[], &mut |key, value| {
            let record = |value| crate::store::records::OwnRecord::decode(value).unwrap().msgid;
            let of = |(_, user, number): (GroupId, UserId, u64)| (user, number, record(value));
            let (user, number, msgid) = if tree == Tree::Own {
                keys::parse_own(key).map(of).unwrap()
            } else if tree == Tree::Mentions {
                keys::parse_mention(key).map(of).unwrap()
            } else {
                keys::parse_message(key).map(|(_, msgid)| (UserId::ZERO, 0, msgid)).unwrap()
            };
            if msgid < first_kept {
                found.push((user, number));
            }
            std::ops::ControlFlow::Continue(())
        });
        scanned.unwrap();
        found
    }

    /// How many rows there are.
    fn rows(&self, tree: Tree) -> usize {
        let mut count = 0;
        let scanned = self.world.view.read().engine.scan(tree, &[], &mut |_, _| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        });
        scanned.unwrap();
        count
    }

    /// Nothing is left of what is gone, but for the rows by which what people said and where they were mentioned is
    /// counted on.
    fn check_rest(&self) {
        assert_eq!((self.below(Tree::Messages), self.below(Tree::Recalled)), (Vec::new(), Vec::new()));
        for tree in [Tree::Own, Tree::Mentions] {
            let below = self.below(tree);
            // Whoever was the last when their item went stays until the next goes.
            let users: std::collections::BTreeSet<UserId> = below.iter().map(|(user, _)| *user).collect();
            assert_eq!(users.len(), below.len(), "{below:?}");
        }
        let tables = &self.world.view.read().tables;
        let most = MessageId::MAX;
        let first_kept = tables.first_kept(self.group);
        let recalled = self.items.iter().skip(usize::try_from(first_kept.value()).unwrap() - 1);
        let recalled = recalled.filter(|item| item.recalled).count() as u64;
        assert_eq!(tables.recalled().in_group(self.group, MessageId::ZERO, most), recalled);
    }

    fn verify(mut self) {
        self.world.writer.seal().unwrap().unwrap();
        let disk: SharedDisk = Arc::new(self.world.disk.kill());
        let mut said = Vec::new();
        let options = Options::new(Arc::new(MemoryIndex), Box::new(translate::understand));
        let verified = verify(&disk, Path::new("/data"), &options, &mut |event| {
            if let Event::Finding(finding) = event {
                said.push(finding.to_string());
            }
        });
        assert!(verified.is_ok() && said.is_empty(), "{said:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario 27: whatever is sent, recalled and read while a group is trimmed, and wherever in the middle of that the
    /// server is started anew, what is unread is what counting item by item gives, everything that is kept can be read, and
    /// verify finds nothing. Nothing goes that the policy keeps as things are then, and what it gives up goes.
    #[test]
    fn what_is_unread_stays_exact_while_a_group_is_trimmed(steps in prop::collection::vec(happens(), 1..70)) {
        let mut story = Story::new();
        for step in steps {
            story.happens(step);
            story.check();
        }
        story.keep_to_the_end();
        story.check();
        story.world.apply_all();
        story.check_rest();
        story.start(true);
        story.check();
        story.verify();
    }
}

fn said(count: u64) -> Story {
    let mut story = Story::new();
    for _ in 0..count {
        story.happens(Happens::Said { who: 0, mentions: 0 });
    }
    story
}

#[test]
fn trimming_goes_on_after_a_stop_in_the_middle_and_the_first_kept_item_is_durable_before_anything_goes() {
    for steps in 0..12 {
        let mut story = said(20);
        story.happens(Happens::Keeps(5));
        story.keep(2 + steps);
        let first_kept = story.world.view.read().tables.first_kept(story.group);
        let left = story.below(Tree::Messages).len();
        story.start(false);
        assert_eq!(story.world.view.read().tables.first_kept(story.group), first_kept);
        assert!(first_kept > MessageId::new(1) || left == 0);
        story.check();
        story.keep_all();
        assert_eq!(story.world.view.read().tables.first_kept(story.group), MessageId::new(story.head() - 4));
        story.world.apply_all();
        story.check_rest();
        story.verify();
    }
}

#[test]
fn what_was_refused_is_asked_again_only_in_the_next_round() {
    let mut story = said(20);
    story.happens(Happens::Keeps(5));
    for _ in 0..3 {
        story.keeper.begin(NOW, crate::clock::monotonic());
        let mut asked = 0;
        loop {
            match story.keeper.step(&story.world.view).unwrap() {
                Step::Ask(command) => asked += usize::from(matches!(*command, Command::Retain(_))),
                Step::Again => {}
                Step::Rest => break,
            }
        }
        assert_eq!(asked, 1);
    }
    story.keep_all();
    assert_eq!(story.world.view.read().tables.first_kept(story.group).value(), story.head() - 4);
}

/// How far a keeper moves the first kept item of a group that keeps this, at a time of the clock after so long.
fn kept_at(story: &mut Story, policy: Retention, now_ms: u64, since: Duration) -> u64 {
    let (by, group) = (story.devices[0], story.group);
    story.world.ask(Command::SetRetention { by, group, policy: Some(policy) });
    let began: Instant = crate::clock::monotonic();
    let mut keeper = Keeper::new(&story.world.view, KEEPING, NOW, began);
    keeper.begin(now_ms, began + since);
    loop {
        match keeper.step(&story.world.view).unwrap() {
            Step::Ask(command) => drop(story.world.ask(*command)),
            Step::Again => {}
            Step::Rest => return story.world.view.read().tables.first_kept(group).value(),
        }
    }
}

#[test]
fn a_clock_that_jumps_a_year_ahead_purges_nothing_and_time_that_passes_does() {
    let hour = Duration::from_secs(3_600);
    let policy = Retention { age_ms: Some(3 * 3_600 * 1_000), ..Retention::ALL };
    let mut story = said(10);
    assert_eq!(kept_at(&mut story, policy, NOW + 365 * 24 * 3_600 * 1_000, hour), 1);
    assert_eq!(kept_at(&mut story, policy, NOW + 4 * 3_600 * 1_000, 4 * hour), story.head() + 1);
    // All are gone; the next message goes on, and a start finds it so.
    story.start(true);
    story.happens(Happens::Said { who: 0, mentions: 2 });
    story.check();
    story.verify();
}

#[test]
fn bytes_go_down_to_what_may_be_kept_and_no_further() {
    let mut story = said(100);
    let page = story.world.page(story.group, story.users[0]);
    let bytes: Vec<u64> = page.iter().map(|(.., item)| item.encode().unwrap().len() as u64).collect();
    let policy = |most| Retention { bytes: Some(most), ..Retention::ALL };
    let whole: u64 = bytes.iter().sum();
    assert_eq!(kept_at(&mut story, policy(whole), NOW, Duration::ZERO), 1);
    let first = kept_at(&mut story, policy(1_000), NOW, Duration::ZERO);
    let left: u64 = bytes.iter().skip(usize::try_from(first).unwrap() - 1).sum();
    let last_gone = bytes[usize::try_from(first).unwrap() - 2];
    assert!(left <= 1_000 && left + last_gone > 1_000, "{left}");
}

#[test]
fn what_edits_say_goes_with_what_they_edit_and_they_keep_their_places() {
    for applied in [false, true] {
        let mut story = said(3);
        let target = MessageId::new(story.head());
        for _ in 0..3 {
            assert!(story.acts(0, Act::Edits(target), &[]));
            story.noted(0);
        }
        story.happens(Happens::Said { who: 0, mentions: 0 });
        if applied {
            story.world.apply_all();
        }
        story.happens(Happens::Keeps(3));
        story.keep_all();
        story.world.apply_all();
        let page = story.world.page(story.group, story.users[0]);
        let kinds: Vec<u16> = page.iter().map(|(.., item)| item.kind).collect();
        assert_eq!(kinds, [kind::HIDDEN, kind::HIDDEN, kind::TEXT]);
        let published = story.world.view.read();
        for msgid in [story.head() - 2, story.head() - 1] {
            let value = published.engine.get(Tree::Messages, &keys::message(story.group, MessageId::new(msgid)));
            let record = MessageRecord::decode(&value.unwrap().unwrap()).unwrap();
            assert!(Item::decode(&record.item).unwrap().body.is_empty());
        }
        drop(published);
        story.check_rest();
        story.verify();
    }
}

#[test]
fn what_the_clock_shows_is_noted_now_and_then_and_a_start_goes_on_from_there() {
    let far = crate::limits::RETENTION_CLOCK_MS;
    let policy = Retention { age_ms: Some(1_000 * far), ..Retention::ALL };
    let mut story = said(1);
    let noted = |story: &Story| story.world.view.read().tables.meta(Meta::RetentionClock);
    kept_at(&mut story, Retention::ALL, NOW + far, Duration::from_millis(far));
    assert_eq!(noted(&story), 0);
    kept_at(&mut story, policy, NOW, Duration::ZERO);
    assert_eq!(noted(&story), NOW);
    kept_at(&mut story, policy, NOW + far - 1, Duration::from_millis(far - 1));
    assert_eq!(noted(&story), NOW);
    kept_at(&mut story, policy, NOW + far, Duration::from_millis(far));
    assert_eq!(noted(&story), NOW + far);
    story.start(true);
    let keeper = Keeper::new(&story.world.view, KEEPING, NOW + 9 * far, crate::clock::monotonic());
    assert_eq!(keeper.clock_ms(), NOW + far);
}

/// Scenario 28: while a group is trimmed all the time, log and index level off, whatever is sent.
#[test]
fn log_and_index_level_off_under_continuous_trimming() {
    let mut story = said(0);
    story.happens(Happens::Keeps(100));
    story.keeper.at_once = AtOnce { rows: crate::limits::RETENTION_ROWS_MAX, bytes: crate::limits::PAGE_BYTES_MAX };
    let mut sizes = Vec::new();
    for _ in 0..24 {
        for _ in 0..200 {
            story.happens(Happens::Said { who: 0, mentions: 2 });
        }
        story.keep_all();
        story.world.apply_all();
        while story.world.beside.prepare().unwrap() || story.world.beside.condense().unwrap() {}
        let rows: usize = Tree::ALL.into_iter().map(|tree| story.rows(tree)).sum();
        let log = story.world.writer.figures();
        let log = log.lock().unwrap();
        sizes.push((log.disk_bytes(), rows));
    }
    story.check();
    let (early, late) = (&sizes[8..16], &sizes[16..]);
    let most = |sizes: &[(u64, usize)]| {
        (sizes.iter().map(|(log, _)| *log).max().unwrap(), sizes.iter().map(|(_, rows)| *rows).max().unwrap())
    };
    let ((log_early, rows_early), (log_late, rows_late)) = (most(early), most(late));
    // A segment of which all is dead leaves its head.
    assert!(log_late <= log_early + log_early / 4 && rows_late <= rows_early, "{sizes:?}");
    // The segment that is written, and what is live.
    assert!(log_late <= 2 * SEGMENT_BYTES, "{sizes:?}");
    story.verify();
}
