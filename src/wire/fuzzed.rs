//! What must hold of whatever bytes a peer or a link brings: for the fuzzer, and for the test that runs its corpora.
//!
//! Each function takes bytes that may be anything, and panics where a claim is broken: that what is read is the one
//! encoding of its value, that every bound is kept, that a refusal is a typed error that shows nothing of the bytes, and
//! that the pieces in which a stream comes make no difference. `tests/fuzz/README.md` says how to run them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a proof that meets what it does not expect should fail loudly"
)]

use bytes::{Bytes, BytesMut};

use crate::limits::{
    ACK_ENTRIES_MAX, BODY_BYTES_MAX, ENVELOPE_BYTES, EXTENSION_BYTES_MAX, EXTENSIONS_MAX, FRAME_BYTES_MAX,
    ITEM_BYTES_MAX, LIST_ROWS_MAX, MENTIONS_MAX, PUSH_BATCHES_MAX, TEXT_BYTES_MAX,
};
use crate::wire::WireError;
use crate::wire::code::Code;
use crate::wire::codec::{self, FrameReader, RawFrame};
use crate::wire::frame::{self, Ack, Enrol, Extensions, Hello, Names, OperatorHello, PageRows, Payload, Push, Send};
use crate::wire::item::{
    BanLifted, Created, Item, Joined, Left, Muted, PolicyChanged, Renamed, RoleChanged, SystemBody, Topic, kind,
};
use crate::wire::link::{Link, Pin, is_address};
use crate::wire::proof;
use crate::wire::row::{self, ROW_HEAD_BYTES};
use crate::wire::said::{self, extension};

/// No error needs more words, whatever the bytes were.
const WORDS_BYTES_MAX: usize = 200;

/// A stream of frames; the first byte says in what pieces it comes.
pub fn frames(bytes: &[u8]) {
    let Some((first, stream)) = bytes.split_first() else { return };
    let whole = read(stream, stream.len().max(1));
    assert!(whole == read(stream, usize::from(*first).max(1)), "the pieces of a stream make a difference");
    whole.0.iter().for_each(decoded);
}

/// The body of a frame; the first byte is the number of its type, or else says which one is taken.
pub fn bodies(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let all: Vec<u16> = frame::all().into_iter().map(|(kind, _)| kind).collect();
    let named = all.iter().find(|kind| **kind == u16::from(*first));
    let kind = *named.or_else(|| all.iter().cycle().nth(usize::from(*first))).unwrap();
    decoded(&RawFrame { kind, flags: 0, request: u32::from(*first), body: Bytes::copy_from_slice(body) });
}

/// An item, a payload, the body of an item that tells of the group, and rows.
pub fn items(bytes: &[u8]) {
    match Item::decode(bytes) {
        Ok(item) => {
            assert!(bytes.len() <= ITEM_BYTES_MAX && item.body.len() <= BODY_BYTES_MAX);
            bounded(&item.extensions);
            assert!(item.encode().unwrap() == bytes, "{item:?}");
            said(item.kind, &item.body, &item.extensions);
            let left = item.clone().wiped();
            assert!(left.is_recalled() && left.body.is_empty() && left.target() == item.target());
            assert!(Item::decode(&left.encode().unwrap()).as_ref() == Ok(&left));
        }
        Err(error) => refused(&error),
    }
    payload(bytes);
    body::<Created>(bytes, |body| (body.name.len(), &body.extensions));
    body::<Renamed>(bytes, |body| (body.name.len(), &body.extensions));
    body::<Joined>(bytes, |body| (0, &body.extensions));
    body::<Left>(bytes, |body| (0, &body.extensions));
    body::<RoleChanged>(bytes, |body| (0, &body.extensions));
    body::<Topic>(bytes, |body| (body.topic.len(), &body.extensions));
    body::<PolicyChanged>(bytes, |body| (0, &body.extensions));
    body::<Muted>(bytes, |body| (0, &body.extensions));
    body::<BanLifted>(bytes, |body| (0, &body.extensions));
    rows(&Bytes::copy_from_slice(bytes));
}

/// An invite link or a pin, as somebody pasted it.
pub fn link(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Link>() {
        Ok(link) => {
            assert!(link.to_string() == text.trim(), "a link has one form");
            assert!(is_address(&link.address) && text.parse() == Ok(link));
        }
        Err(error) => assert!(error.to_string().len() < WORDS_BYTES_MAX),
    }
    if let Ok(pin) = text.parse::<Pin>() {
        assert!(pin.to_string() == text, "a pin has one form");
    }
}

/// All frames of a stream that comes in pieces of this size, and how it ends.
fn read(stream: &[u8], piece_bytes: usize) -> (Vec<RawFrame>, Result<(), WireError>) {
    let mut reader = FrameReader::new();
    let mut frames = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(raw)) => frames.push(raw),
                Ok(None) => break,
                Err(error) => {
                    refused(&error);
                    assert!(reader.buffered() == 0 && reader.finish() == Err(error.clone()));
                    return (frames, Err(error));
                }
            }
        }
        assert!(reader.buffered() < ENVELOPE_BYTES + FRAME_BYTES_MAX, "more than a frame is held");
    }
    let end = reader.finish();
    (frames, end)
}

fn decoded(raw: &RawFrame) {
    let Some(again) = frame::again(raw) else {
        assert!(frame::name(raw.kind).is_none(), "a known type is not decoded");
        return;
    };
    match again {
        Ok(again) => {
            let (frames, end) = read(&again, again.len());
            assert!(end == Ok(()));
            assert!(frames == [RawFrame { flags: 0, ..raw.clone() }], "{raw:?} comes out otherwise");
            inside(raw);
        }
        Err(error) => refused(&error),
    }
}

/// What stands in a frame that was decoded.
fn inside(raw: &RawFrame) {
    if let Ok(push) = raw.decode::<Push>() {
        assert!(push.batches.len() <= PUSH_BATCHES_MAX);
        assert!(codec::encode_push(&push).unwrap().concat() == codec::encode(0, &push).unwrap());
        push.batches.iter().for_each(|batch| rows(&batch.rows));
    }
    if let Ok(page) = raw.decode::<PageRows>() {
        rows(&page.rows);
    }
    if let Ok(send) = raw.decode::<Send>() {
        payload(&send.payload);
    }
    if let Ok(ack) = raw.decode::<Ack>() {
        assert!(ack.entries.len() <= ACK_ENTRIES_MAX);
    }
    if let Ok(names) = raw.decode::<Names>() {
        assert!(names.users.len() <= LIST_ROWS_MAX);
    }
    signed(raw);
}

/// What a signature covers is the body as it came.
fn signed(raw: &RawFrame) {
    let exporter = [0xee; proof::EXPORTER_BYTES];
    if let Ok(hello) = raw.decode::<Hello>() {
        assert!(proof::hello(&exporter, &hello) == Ok(proof::message(proof::LABEL_HELLO, &exporter, &raw.body)));
    }
    if let Ok(hello) = raw.decode::<OperatorHello>() {
        assert!(proof::operator(&exporter, &hello) == Ok(proof::message(proof::LABEL_OPERATOR, &exporter, &raw.body)));
    }
    if let Ok(enrol) = raw.decode::<Enrol>() {
        let unsigned = codec::encode(0, &Enrol { signature: Bytes::new(), ..enrol.clone() }).unwrap();
        let body = unsigned.slice(ENVELOPE_BYTES..);
        assert!(proof::enrol(&exporter, &enrol) == Ok(proof::message(proof::LABEL_ENROL, &exporter, &body)));
    }
}

fn payload(bytes: &[u8]) {
    match Payload::decode(bytes) {
        Ok(payload) => {
            assert!(payload.body.len() <= BODY_BYTES_MAX);
            bounded(&payload.extensions);
            assert!(payload.encode().unwrap() == bytes);
            said(payload.kind, &payload.body, &payload.extensions);
        }
        Err(error) => refused(&error),
    }
}

/// What members send is what its kind has, or is refused.
fn said(sent: u16, body: &[u8], extensions: &Extensions) {
    let target = said::msgid_in(extensions, extension::TARGET);
    let mentions = said::mentions_in(extensions);
    if let Ok(users) = &mentions {
        assert!(users.len() <= MENTIONS_MAX && users.is_sorted_by(|one, other| one < other));
    }
    match said::check(sent, body, extensions) {
        Ok(()) => {
            let refers = target.unwrap().is_some();
            let must_refer = matches!(sent, kind::EDIT | kind::RECALL | kind::REACTION);
            // Of a kind that nobody sends nothing is known.
            assert!(refers == must_refer || !(must_refer || sent == kind::TEXT));
            assert!(mentions.is_ok() || !matches!(sent, kind::TEXT | kind::EDIT));
        }
        Err(error) => refused(&error),
    }
}

fn body<B: SystemBody>(bytes: &[u8], parts: impl Fn(&B) -> (usize, &Extensions)) {
    match B::decode(bytes) {
        Ok(body) => {
            let (text_bytes, extensions) = parts(&body);
            assert!(text_bytes <= TEXT_BYTES_MAX);
            bounded(extensions);
            assert!(body.encode().unwrap() == bytes, "{}", B::NAME);
        }
        Err(error) => refused(&error),
    }
}

fn rows(bytes: &Bytes) {
    let mut again = BytesMut::new();
    let mut rows = row::rows(bytes.clone());
    for row in rows.by_ref() {
        match row {
            Ok(row) => {
                row.append_to(&mut again).unwrap();
                assert!(bytes.starts_with(&again), "rows come out otherwise");
                assert!(row.item.len() <= ITEM_BYTES_MAX);
                drop(row.decode_item().inspect_err(refused));
            }
            Err(error) => {
                refused(&error);
                assert!(rows.next().is_none(), "rows go on after an error");
                return;
            }
        }
    }
    assert!(again == bytes && (bytes.is_empty() || bytes.len() >= ROW_HEAD_BYTES));
}

fn bounded(extensions: &Extensions) {
    let bytes: usize = extensions.0.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(extensions.0.len() <= EXTENSIONS_MAX && bytes <= EXTENSION_BYTES_MAX);
}

fn refused(error: &WireError) {
    assert!(matches!(error.code(), Code::Malformed | Code::TooLarge));
    assert!(error.to_string().len() < WORDS_BYTES_MAX);
}
