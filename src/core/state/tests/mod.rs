//! What `State` promises, one claim a test. Here: a small server without disk or network, for the tests beside it.

mod batches;
mod cursors;
mod direct;
mod groups;
mod keeping;
mod model;
mod people;
mod roles;
mod room;
mod said;
mod sends;
mod users;

use bytes::Bytes;

use crate::core::command::{Actor, Answer, Command, Refusal, SendCommand, Sendable};
pub(crate) use crate::core::retention::DAY_MS;
use crate::core::rows::{Act, CodeHash, CursorRow, DeviceKey, Handle, ItemContent, ItemRow, Policy, SendHash, Write};
use crate::core::state::{Applied, Settings, State};
use crate::core::tables::Tables;
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, Tag, UserId};

pub(crate) fn m(msgid: u64) -> MessageId {
    MessageId::new(msgid)
}

pub(crate) fn seq(number: u64) -> ClientSeq {
    ClientSeq::new(number)
}

pub(crate) fn handle(text: &str) -> Handle {
    Handle::parse(text).unwrap()
}

pub(crate) fn refused(answer: Answer) -> Refusal {
    let Answer::Refused(refusal) = answer else { panic!("not refused but {answer:?}") };
    refusal
}

/// A server without a disk: what is decided is durable at once, unless a test says when.
pub(crate) struct World {
    pub(crate) tables: Tables,
    pub(crate) state: State,
    pub(crate) now_ms: u64,
    /// Every durable item, in order.
    pub(crate) items: Vec<ItemRow>,
    /// Every durable write, in order.
    pub(crate) log: Vec<Write>,
    /// Durable frames.
    pub(crate) frames: u64,
    undecided: Vec<Write>,
    numbers: u32,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> World {
        World {
            tables: Tables::new(),
            state: State::new(settings),
            now_ms: 1_700_000_000_000,
            items: Vec::new(),
            log: Vec::new(),
            frames: 0,
            undecided: Vec::new(),
            numbers: 0,
        }
    }

    /// Decides a command within the batch under way.
    pub(crate) fn decide(&mut self, command: Command) -> Applied {
        let applied = self.state.apply(&self.tables, command, self.now_ms);
        self.undecided.extend(applied.writes.iter().cloned());
        applied
    }

    /// The batch is durable.
    pub(crate) fn publish(&mut self) {
        let writes = std::mem::take(&mut self.undecided);
        self.frames += 1;
        self.tables.begin_frame(Lsn::new(self.frames));
        self.tables.apply(&writes);
        self.state.pending_is_durable();
        for write in &writes {
            if let Write::Item(item) = write {
                self.items.push(item.clone());
            }
        }
        self.log.extend(writes);
    }

    /// The batch failed: the store is opened again, and only the turns are kept.
    pub(crate) fn fail(&mut self, sends: &[(DeviceId, ClientSeq)]) {
        self.undecided.clear();
        self.state.drop_pending();
        for (device, seq) in sends {
            self.state.hold_from(*device, *seq, ClientSeq::ZERO.next());
        }
    }

    /// Decides a command in a batch of its own.
    pub(crate) fn run(&mut self, command: Command) -> Applied {
        let applied = self.decide(command);
        self.publish();
        applied
    }

    pub(crate) fn answer(&mut self, command: Command) -> Answer {
        self.run(command).answer
    }

    /// Bytes for a key or a code that no other has.
    pub(crate) fn number(&mut self) -> [u8; 32] {
        self.numbers += 1;
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&self.numbers.to_le_bytes());
        bytes
    }

    pub(crate) fn code(&mut self) -> CodeHash {
        CodeHash(self.number())
    }

    pub(crate) fn enrol(&mut self, code: CodeHash, name: &str) -> Answer {
        let key = DeviceKey(self.number());
        let device_name = "laptop".to_owned();
        self.answer(Command::Enrol { code, key, handle: Some(handle(name)), device_name })
    }

    /// A new user with one device; the first is an operator.
    pub(crate) fn user(&mut self, name: &str) -> DeviceId {
        let code = self.code();
        let expires_ms = self.now_ms + DAY_MS;
        let invite = if self.tables.counts().users == 0 {
            Command::RenewFirstInvite { code, expires_ms }
        } else {
            Command::Invite { by: Actor::Operator, handle: handle(name), group: None, code, expires_ms }
        };
        assert_eq!(self.answer(invite), Answer::Invited { expires_ms });
        device_of(self.enrol(code, name))
    }

    /// Another device of a user.
    pub(crate) fn device(&mut self, name: &str) -> DeviceId {
        let (code, expires_ms) = (self.code(), self.now_ms + DAY_MS);
        let user = Some(handle(name));
        let made = self.answer(Command::InviteDevice { by: Actor::Operator, user, code, expires_ms });
        assert_eq!(made, Answer::Invited { expires_ms });
        device_of(self.enrol(code, name))
    }

    pub(crate) fn user_of(&self, device: DeviceId) -> UserId {
        self.tables.device(device).unwrap().user
    }

    pub(crate) fn group(&mut self, by: DeviceId) -> GroupId {
        self.group_with(by, Policy::FromJoin)
    }

    pub(crate) fn group_with(&mut self, by: DeviceId, policy: Policy) -> GroupId {
        let answer = self.answer(Command::CreateGroup { by, name: "team".to_owned(), policy });
        let Answer::GroupCreated(group) = answer else { panic!("{answer:?}") };
        group
    }

    pub(crate) fn add(&mut self, by: DeviceId, group: GroupId, name: &str) -> Answer {
        self.answer(Command::AddMember { by, group, handle: handle(name) })
    }

    pub(crate) fn remove(&mut self, by: DeviceId, group: GroupId, name: &str) -> Answer {
        self.answer(Command::RemoveMember { by, group, handle: handle(name) })
    }

    pub(crate) fn leave(&mut self, by: DeviceId, group: GroupId) -> Answer {
        self.answer(Command::LeaveGroup { by, group })
    }

    /// Sends with the device's next number, and nothing unanswered.
    pub(crate) fn say(&mut self, device: DeviceId, group: GroupId, text: &str) -> Answer {
        let number = self.tables.window(device).unwrap_or_default().highest.value() + 1;
        self.answer(send(device, number, number, group, text))
    }

    /// Sends until the group's head is there.
    pub(crate) fn say_up_to(&mut self, device: DeviceId, group: GroupId, head: u64) {
        while self.tables.head(group) < m(head) {
            self.now_ms += 1;
            let answer = self.say(device, group, "text");
            assert!(matches!(answer, Answer::Sent { .. }), "{answer:?}");
        }
    }

    pub(crate) fn ack(&mut self, device: DeviceId, group: GroupId, msgid: u64) -> Answer {
        self.answer(Command::Ack { device, entries: vec![(group, m(msgid))] })
    }

    pub(crate) fn cursor(&self, group: GroupId, device: DeviceId) -> CursorRow {
        self.tables.cursor(group, self.user_of(device), device).unwrap()
    }

    pub(crate) fn read_mark(&self, group: GroupId, device: DeviceId) -> CursorRow {
        self.tables.cursor(group, self.user_of(device), DeviceId::ZERO).unwrap()
    }

    pub(crate) fn item(&self, group: GroupId, msgid: u64) -> &ItemRow {
        self.items.iter().find(|item| item.group == group && item.msgid == m(msgid)).unwrap()
    }

    /// What every device of a user would see of a group in the end, by msgid.
    pub(crate) fn seen(&self, device: DeviceId, group: GroupId) -> Vec<u64> {
        let user = self.user_of(device);
        let head = self.tables.head(group).value();
        (1..=head).filter(|msgid| self.tables.may_see(user, group, m(*msgid))).collect()
    }
}

/// Anna owns a group in which Bob is a member; the next item is m3.
fn pair() -> (World, DeviceId, DeviceId, GroupId) {
    let mut world = World::new();
    let anna = world.user("anna");
    let bob = world.user("bob");
    let group = world.group(anna);
    world.add(anna, group, "bob");
    (world, anna, bob, group)
}

pub(crate) fn device_of(answer: Answer) -> DeviceId {
    let Answer::Enrolled { device, .. } = answer else { panic!("{answer:?}") };
    device
}

pub(crate) fn send(device: DeviceId, number: u64, lowest: u64, group: GroupId, text: &str) -> Command {
    let mut hash = [0u8; 32];
    for (place, byte) in group.to_key().iter().chain(text.as_bytes()).enumerate() {
        hash[place % 32] = byte.wrapping_add(hash[place % 32].rotate_left(3));
    }
    let body = Bytes::copy_from_slice(text.as_bytes());
    let (act, extensions, mentions) = (Act::Says, Vec::new(), Vec::new());
    let what = Ok(Sendable { kind: 1, act, tag: Tag::new([7; 8]), body, extensions, mentions });
    let (seq, lowest, hash) = (seq(number), seq(lowest), SendHash(hash));
    Command::Send(SendCommand { device, seq, lowest, group, hash, what, attached: None })
}

pub(crate) fn sent(answer: &Answer) -> u64 {
    let Answer::Sent { msgid, .. } = answer else { panic!("not sent but {answer:?}") };
    msgid.value()
}

/// Where one cursor stands, as answered.
pub(crate) fn stands(answer: Answer) -> u64 {
    let Answer::Cursors { moved, refused } = &answer else { panic!("{answer:?}") };
    assert!(refused.is_empty(), "{refused:?}");
    moved.first().unwrap().1.value()
}

pub(crate) fn is_text(item: &ItemRow) -> bool {
    matches!(item.content, ItemContent::Sent { .. })
}
