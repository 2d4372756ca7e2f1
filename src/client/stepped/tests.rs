//! A scripted server and clients that it steps.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;

use super::*;
use crate::client::event::Received;
use crate::client::types::Content;
use crate::disk::SharedDisk;
use crate::disk::simulated::SimulatedDisk;
use crate::ids::{DeviceId, Epoch, MessageId, UserId};
use crate::proof::time;
use crate::wire::codec::{FrameReader, RawFrame, encode};
use crate::wire::frame::{self, Enrolled, Extensions, Frame, GroupInfo, PushBatch, Rows, Welcome};
use crate::wire::item::{Item, kind};
use crate::wire::link::InviteCode;
use crate::wire::row::Row;

const GROUP: GroupId = GroupId::new(7);
const ME: UserId = UserId::new(3);
const EPOCH: Epoch = Epoch::new([1; 16]);
const KEY: [u8; 32] = [4; 32];

fn none() -> Extensions {
    Extensions::default()
}

fn msgid(number: u64) -> MessageId {
    MessageId::new(number)
}

/// A disk with an enrolled profile, at the start of time.
fn begin() -> (SharedDisk, Profile) {
    time::release();
    time::set(0, 1_000_000);
    let disk: SharedDisk = Arc::new(SimulatedDisk::new());
    let profile = Profile::at(disk.clone(), "/profile");
    let enrolled =
        Enrolled { device: DeviceId::new(9), user: ME, handle: "ann".into(), epoch: EPOCH, extensions: none() };
    enrol(&profile, &KEY, InviteCode([2; 16]), &enrolled).unwrap();
    (disk, profile)
}

fn process(profile: &Profile, instance: u64, listens: bool) -> Process {
    let listens = listens.then_some(Subscription::All);
    let (options, profile) = (ClientOptions::default(), profile.clone());
    let mut process = Process::open(Setup { profile, listens, from: None, instance, seed: instance, options }).unwrap();
    process.advance();
    process
}

fn later(process: &mut Process, now_ms: u64) {
    time::set(now_ms, 1_000_000 + now_ms);
    process.advance();
}

/// Lets time pass until the process asks for something; answers when that is, and what it asks.
fn wait(process: &mut Process) -> (u64, Vec<Asked>) {
    for _ in 0..1_000 {
        let at = process.wakes_at_ms().unwrap();
        later(process, at);
        let asked = process.take_asked();
        if !asked.is_empty() {
            return (at, asked);
        }
    }
    panic!("nothing is asked")
}

fn bytes<F: Frame>(request: u32, frame: &F) -> Bytes {
    encode(request, frame).unwrap()
}

fn frames(bytes: &Bytes) -> Vec<RawFrame> {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    std::iter::from_fn(|| reader.next_frame().unwrap()).collect()
}

fn welcome(highest: u64) -> Bytes {
    let welcome = Welcome {
        minor: 0,
        user: ME,
        handle: "ann".into(),
        operator: false,
        epoch: EPOCH,
        epochs_before: Vec::new(),
        body_bytes_max: 1000,
        sends_unanswered_max: 16,
        sends_unanswered_bytes_max: 32 * 1024,
        credit_items: 16,
        credit_bytes: 32 * 1024,
        highest_send: ClientSeq::new(highest),
        pins: Vec::new(),
        time_ms: 1,
        extensions: none(),
    };
    bytes(1, &welcome)
}

fn rows(numbers: std::ops::RangeInclusive<u64>) -> Bytes {
    let mut rows = BytesMut::new();
    for number in numbers {
        let item = Item {
            gid: GROUP,
            msgid: msgid(number),
            kind: kind::TEXT,
            flags: 0,
            author: UserId::new(5),
            time_ms: number,
            tag: Tag::NONE,
            body: Bytes::from(number.to_string()),
            extensions: none(),
        };
        Row::plain(item.encode().unwrap()).append_to(&mut rows).unwrap();
    }
    rows.freeze()
}

fn list(cursor: u64, head: u64) -> Bytes {
    let group = GroupInfo {
        gid: GROUP,
        name: "team".into(),
        role: 3,
        members: 2,
        head: msgid(head),
        cursor: msgid(cursor),
        extensions: none(),
    };
    bytes(1, &frame::GroupList { rows: Rows(vec![group]), more: false, extensions: none() })
}

fn page(from: u64, to: u64) -> Bytes {
    let rows = frame::PageRows { rows: rows(from..=to), extensions: none() };
    let (covered_to, head) = (msgid(to), msgid(to));
    let end = frame::PageEnd { covered_to, more: false, gone: Vec::new(), head, extensions: none() };
    [bytes(1, &rows), bytes(1, &end)].concat().into()
}

fn push(continues: u64, to: u64) -> Bytes {
    let batch = PushBatch {
        gid: GROUP,
        continues: msgid(continues),
        covered_to: msgid(to),
        rows: rows(continues + 1..=to),
        extensions: none(),
    };
    bytes(0, &frame::Push { credit_items: 16, credit_bytes: 32_768, batches: vec![batch], extensions: none() })
}

fn dial(process: &mut Process) -> Dial {
    match process.take_asked().as_slice() {
        [Asked::Dial(dial)] => dial.clone(),
        other => panic!("{other:?}"),
    }
}

/// The sends among what was asked: (request, send).
fn sends(asked: &[Asked]) -> Vec<(u32, frame::Send)> {
    let control = asked.iter().filter_map(|asked| {
        let Asked::Control { bytes, .. } = asked else { return None };
        Some(frames(bytes).remove(0))
    });
    control.map(|raw| (raw.request, raw.decode().unwrap())).collect()
}

/// What was handed out: (msgid, text, seen before).
fn items(events: &[Event]) -> Vec<(u64, String, bool)> {
    let item = |event: &Event| {
        let Event::Item(Received { item, seen_before, .. }) = event else { return None };
        let Content::Text(text) = &item.content else { panic!("{item:?}") };
        Some((item.msgid.value(), text.clone(), *seen_before))
    };
    events.iter().filter_map(item).collect()
}

fn position(events: &[Event]) -> Position {
    let position = |event: &Event| {
        let Event::Item(Received { position, .. }) = event else { return None };
        Some(*position)
    };
    events.iter().rev().find_map(position).unwrap()
}

fn text(number: u64, seen_before: bool) -> (u64, String, bool) {
    (number, number.to_string(), seen_before)
}

/// Accepts, lists the group with this cursor and head, and answers the page that is asked for then.
fn connect(process: &mut Process, cursor: u64, head: u64, highest: u64) -> (u64, Vec<Asked>) {
    let Dial { attempt, requests: first, .. } = dial(process);
    process.control(attempt, &welcome(highest));
    process.advance();
    let mut pages = Vec::new();
    let (list_stream, known) = first.split_last().map(|((stream, _), known)| (*stream, known)).unwrap();
    pages.extend(known.iter().map(|(stream, bytes)| (*stream, frames(bytes).remove(0))));
    process.stream(list_stream, &list(cursor, head));
    process.advance();
    let asked = process.take_asked();
    pages.extend(asked.iter().filter_map(|asked| {
        let Asked::Request { stream, bytes, .. } = asked else { return None };
        Some((*stream, frames(bytes).remove(0)))
    }));
    for (stream, question) in pages {
        let frame::Pull { gid, after, deliver, .. } = question.decode().unwrap();
        assert!(gid == GROUP && deliver);
        process.stream(stream, &page(after.value() + 1, head));
        process.advance();
    }
    (attempt, asked)
}

/// Tells of something new, and answers the stream on which its page is asked for.
fn ask_page(process: &mut Process, attempt: u64) -> u64 {
    process.control(attempt, &bytes(0, &frame::Heads { entries: vec![(GROUP, msgid(9))], extensions: none() }));
    process.advance();
    match process.take_asked()[..] {
        [Asked::Request { stream, .. }] => stream,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_listener_gets_page_and_pushes_in_order_and_its_acks_leave() {
    let (_, profile) = begin();
    let mut ann = process(&profile, 1, true);
    let (attempt, _) = connect(&mut ann, 2, 4, 0);
    ann.push(attempt, &push(4, 6));
    ann.advance();
    let events = ann.take_events(100);
    assert!(matches!(events[0], Event::Connected(_)));
    assert_eq!(items(&events), [text(3, false), text(4, false), text(5, false), text(6, false)]);
    assert_eq!(ann.groups(), [Group { group: GROUP, end: msgid(6), acked: msgid(2) }]);
    ann.ack(position(&events));
    assert_eq!(ann.wakes_at_ms(), Some(0), "an ack is looked at at once");
    ann.advance();
    assert_eq!(ann.take_asked(), []);
    let (at, asked) = wait(&mut ann);
    assert_eq!(at, 500);
    let [Asked::Acks { bytes, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    let frame::Ack { entries, .. } = frames(bytes)[0].decode().unwrap();
    assert_eq!(entries, [(GROUP, msgid(6))]);
}

#[test]
fn what_was_queued_before_a_kill_is_sent_with_the_same_number_and_bytes_and_the_outbox_empties() {
    let (disk, profile) = begin();
    let mut ann = process(&profile, 1, true);
    let seq = ann.queue(GROUP, Tag::new([5; 8]), "hello").unwrap();
    ann.advance();
    let (_, asked) = connect(&mut ann, 2, 4, 0);
    let first = sends(&asked);
    assert_eq!(first.len(), 1);
    assert_eq!(items(&ann.take_events(100)).len(), 2);
    drop(ann);
    let kept = outbox_on_disk(&disk, Path::new("/profile")).unwrap();
    assert_eq!(kept.entries.iter().map(|entry| (entry.seq, entry.attempted)).collect::<Vec<_>>(), [(seq, true)]);

    let mut ann = process(&profile, 2, true);
    ann.await_outcome(seq);
    ann.advance();
    let (attempt, asked) = connect(&mut ann, 2, 5, 1);
    let again = sends(&asked);
    assert_eq!(again[0].1, first[0].1);
    let sent = frame::Sent { msgid: msgid(5), time_ms: 5, extensions: none() };
    ann.control(attempt, &bytes(again[0].0, &sent));
    ann.advance();
    let outcome = Outcome::Sent { group: GROUP, msgid: msgid(5), time_ms: 5 };
    assert_eq!(ann.take_outcomes(), [(seq, Ok(outcome.clone()))]);
    let events = ann.take_events(100);
    assert!(events.contains(&Event::Settled { seq, outcome }));
    assert_eq!(items(&events), [text(3, true), text(4, true), text(5, false)]);
    assert_eq!(ann.outbox().unwrap().entries, []);
}

#[test]
fn an_attempt_is_given_up_in_time_and_what_comes_for_it_later_is_not_heard() {
    let (_, profile) = begin();
    let mut ann = process(&profile, 1, true);
    let first = dial(&mut ann);
    let at = ann.wakes_at_ms().unwrap();
    assert_eq!(at, 4_000);
    later(&mut ann, at);
    assert_eq!(ann.take_asked(), [Asked::Close { attempt: first.attempt, code: 0 }]);
    assert!(matches!(ann.take_events(9)[..], [Event::Disconnected { cause: ConnectError::NoAnswer { .. }, .. }]));
    ann.control(first.attempt, &welcome(0));
    ann.advance();
    assert!(!ann.is_connected());
    let (at, asked) = wait(&mut ann);
    assert!((4_001..=4_201).contains(&at), "{at}");
    assert!(matches!(&asked[..], [Asked::Dial(dial)] if dial.attempt == first.attempt + 1));
}

#[test]
fn a_frame_that_makes_no_sense_ends_the_connection_and_not_the_client() {
    let (_, profile) = begin();
    for wrong in [Bytes::from_static(&[0; 40]), bytes(0, &frame::Ack { entries: Vec::new(), extensions: none() })] {
        let mut ann = process(&profile, 1, true);
        let (attempt, _) = connect(&mut ann, 2, 2, 0);
        // Whatever comes on control and answers nothing may be of a later version; a page may not.
        let stream = ask_page(&mut ann, attempt);
        ann.stream(stream, &wrong);
        ann.advance();
        assert!(matches!(ann.take_asked()[..], [Asked::Close { code, .. }] if code != 0));
        assert_eq!(ann.ended(), None);
        let (_, asked) = wait(&mut ann);
        assert!(matches!(&asked[..], [Asked::Dial(dial)] if dial.attempt == attempt + 1));
    }
}

#[test]
fn a_caller_leaves_its_message_to_the_listener_and_learns_the_outcome() {
    let (_, profile) = begin();
    let mut listener = process(&profile, 1, true);
    let (attempt, _) = connect(&mut listener, 2, 2, 0);
    assert!(listener.drains());
    let mut caller = process(&profile, 2, false);
    assert_eq!(caller.take_asked(), []);
    let seq = caller.queue(GROUP, Tag::new([5; 8]), "hello").unwrap();
    caller.await_outcome(seq);
    caller.advance();
    assert!(!caller.drains());
    let at = listener.wakes_at_ms().unwrap();
    later(&mut listener, at);
    let asked = sends(&listener.take_asked());
    assert_eq!(asked[0].1.seq, seq);
    let sent = frame::Sent { msgid: msgid(3), time_ms: 5, extensions: none() };
    listener.control(attempt, &bytes(asked[0].0, &sent));
    listener.advance();
    assert_eq!(caller.take_outcomes(), []);
    let at = caller.wakes_at_ms().unwrap();
    later(&mut caller, at);
    assert_eq!(caller.take_outcomes(), [(seq, Ok(Outcome::Sent { group: GROUP, msgid: msgid(3), time_ms: 5 }))]);
}

#[test]
fn an_orderly_end_waits_for_the_answer_to_its_acks_and_says_goodbye() {
    let (_, profile) = begin();
    let mut ann = process(&profile, 1, true);
    let (attempt, _) = connect(&mut ann, 2, 4, 0);
    let events = ann.take_events(100);
    ann.ack(position(&events));
    ann.close();
    assert!(!ann.is_over());
    assert!(matches!(ann.take_asked()[..], [Asked::Acks { .. }]));
    assert_eq!(ann.queue(GROUP, Tag::new([5; 8]), "late"), Err(OutboxError::Closed));
    ann.control(attempt, &bytes(0, &frame::Cursors { entries: vec![(GROUP, msgid(4))], extensions: none() }));
    assert!(ann.is_over());
    assert!(matches!(ann.take_asked()[..], [Asked::Close { code, .. }] if code != 0));
    // Its lock is free.
    process(&profile, 2, true);
}

#[test]
fn the_same_seed_and_the_same_frames_make_the_same_process() {
    let run = || {
        let (_, profile) = begin();
        let mut ann = process(&profile, 1, true);
        let mut trace = Vec::new();
        ann.queue(GROUP, Tag::new([5; 8]), "hello").unwrap();
        let first = dial(&mut ann);
        ann.closed(first.attempt, Closing::Reset);
        ann.advance();
        let (at, again) = wait(&mut ann);
        trace.push(format!("{at} {:?}", ann.take_events(100)));
        ann.control(first.attempt + 1, &welcome(0));
        ann.advance();
        trace.push(format!("{:?} {:?}", ann.take_asked(), ann.take_events(100)));
        (trace, first, again)
    };
    assert_eq!(run(), run());
}
