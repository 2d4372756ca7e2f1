//! Made-up traffic: frames as the server writes them for sends, each message's bytes following from its group and msgid.
//!
//! So the model that pages are compared with is one number a group, and nothing has to be remembered.

use std::collections::HashMap;

use bytes::Bytes;
use gaggle::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};
use gaggle::store::engine::Op;
use gaggle::store::keys;
use gaggle::store::records::{
    Extensions, GroupRecord, MessageRecord, OwnRecord, SendRecord, SendWindowRecord, message_flag,
};
use gaggle::store::tree::Tree;

/// Bytes of an item: 200 of text, and what travels with it.
pub const ITEM_BYTES: usize = 232;
/// Rows of answered sends that a device keeps, as its window.
const WINDOW: u64 = 16;
/// Devices that send.
const DEVICES: u64 = 64;

/// What was written so far.
#[derive(Default)]
pub struct Traffic {
    heads: HashMap<u64, u64>,
    own: HashMap<(u64, u64), u64>,
    sequences: HashMap<u64, u64>,
    sent: u64,
}

impl Traffic {
    /// The ops of a frame with one message in each of these groups.
    pub fn frame(&mut self, lsn: Lsn, groups: impl Iterator<Item = u64>) -> Vec<Op> {
        let mut ops = Vec::new();
        for group in groups {
            self.send(lsn, group, &mut ops);
        }
        ops
    }

    /// How many messages were made.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The head of a group.
    pub fn head(&self, group: u64) -> u64 {
        self.heads.get(&group).copied().unwrap_or(0)
    }

    fn send(&mut self, lsn: Lsn, group: u64, ops: &mut Vec<Op>) {
        let device = self.sent % DEVICES + 1;
        self.sent += 1;
        let head = next(&mut self.heads, group);
        let own = next(&mut self.own, (group, device));
        let sequence = next(&mut self.sequences, device);
        let (gid, msgid) = (GroupId::new(group), MessageId::new(head));
        let extensions = Extensions::default;
        let record = MessageRecord {
            flags: message_flag::CONTENT,
            lsn,
            content: head,
            own,
            last_edit: MessageId::ZERO,
            extensions: extensions(),
            item: item(group, head),
        };
        put(ops, Tree::Messages, keys::message(gid, msgid), record.encode());
        let record = OwnRecord { msgid, extensions: extensions() };
        put(ops, Tree::Own, keys::own(gid, UserId::new(device as u32), own), record.encode());
        let (device, sequence) = (DeviceId::new(device as u32), sequence);
        let record = SendRecord {
            group: gid,
            msgid,
            time_ms: 1_796_000_000_000 + head,
            hash: [7; 32],
            extensions: extensions(),
        };
        put(ops, Tree::Sends, keys::send(device, ClientSeq::new(sequence)), record.encode());
        let lowest = ClientSeq::new(sequence.saturating_sub(WINDOW).max(1));
        let record = SendWindowRecord { lowest, highest: ClientSeq::new(sequence), extensions: extensions() };
        put(ops, Tree::Sends, keys::send(device, ClientSeq::ZERO), record.encode());
        if sequence > WINDOW {
            let key = keys::send(device, ClientSeq::new(sequence - WINDOW));
            ops.push(Op { tree: Tree::Sends, key, value: None });
        }
    }
}

/// The ops that trim a group: first kept moves in a frame of its own, before anything is removed.
pub fn first_kept(group: u64, first: u64) -> Vec<Op> {
    let record = GroupRecord {
        name: "team".to_owned(),
        policy: 1,
        first_kept: MessageId::new(first),
        head_mark: MessageId::ZERO,
        content_mark: 0,
        created_ms: 1_796_000_000_000,
        extensions: Extensions::default(),
    };
    let mut ops = Vec::new();
    put(&mut ops, Tree::Groups, keys::group(GroupId::new(group)), record.encode());
    ops
}

/// The ops that remove messages that were trimmed.
pub fn removed(group: u64, messages: std::ops::Range<u64>) -> Vec<Op> {
    let key = |msgid| keys::message(GroupId::new(group), MessageId::new(msgid));
    messages.map(|msgid| Op { tree: Tree::Messages, key: key(msgid), value: None }).collect()
}

/// The bytes of a message: text-like, so that it compresses as text does and no better.
pub fn item(group: u64, msgid: u64) -> Bytes {
    const WORDS: [&str; 32] = [
        "the", "lunch", "server", "when", "build", "is", "a", "broken", "again", "why", "tomorrow", "ok", "merged",
        "patch", "in", "of", "review", "please", "kernel", "it", "works", "here", "not", "for", "me", "log",
        "attached", "thanks", "version", "debian", "after", "reboot",
    ];
    let mut state = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ msgid.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(ITEM_BYTES + 16);
    bytes.extend_from_slice(&group.to_be_bytes());
    bytes.extend_from_slice(&msgid.to_be_bytes());
    bytes.extend_from_slice(&random().to_be_bytes());
    while bytes.len() < ITEM_BYTES {
        let number = random();
        if number.is_multiple_of(7) {
            bytes.extend_from_slice(format!("{:x}", number >> 40).as_bytes());
        } else {
            bytes.extend_from_slice(WORDS[(number >> 20) as usize % WORDS.len()].as_bytes());
        }
        bytes.push(b' ');
    }
    bytes.truncate(ITEM_BYTES);
    Bytes::from(bytes)
}

fn put(ops: &mut Vec<Op>, tree: Tree, key: Bytes, value: Bytes) {
    ops.push(Op { tree, key, value: Some(value) });
}

fn next<K: std::hash::Hash + Eq>(counters: &mut HashMap<K, u64>, key: K) -> u64 {
    let counter = counters.entry(key).or_default();
    *counter += 1;
    *counter
}
