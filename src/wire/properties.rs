//! What holds for any bytes and any values: no decoder panics, what is read is the one encoding of its value, what is
//! written is read back, and nothing that is cut off is taken for whole.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::ids::{ClientSeq, GroupId, MessageId, Tag, UserId};
use crate::limits::{BODY_BYTES_MAX, EXTENSIONS_MAX};
use crate::wire::codec::{self, FrameReader, RawFrame};
use crate::wire::frame::{self, Extensions, Frame, Payload, Push, PushBatch, Send};
use crate::wire::golden;
use crate::wire::item::{Created, Item, Joined, Left, Renamed, RoleChanged, SystemBody};
use crate::wire::link::{InviteCode, Link, Pin};
use crate::wire::row::{self, Row};

fn kinds() -> impl Strategy<Value = u16> {
    prop::sample::select(frame::all().into_iter().map(|(kind, _)| kind).collect::<Vec<_>>())
}

fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), range).prop_map(Bytes::from)
}

fn extensions() -> impl Strategy<Value = Extensions> {
    vec((any::<u16>(), bytes(0..40)), 0..EXTENSIONS_MAX + 1).prop_map(Extensions)
}

fn msgid() -> impl Strategy<Value = MessageId> {
    any::<u64>().prop_map(MessageId::new)
}

fn gid() -> impl Strategy<Value = GroupId> {
    any::<u64>().prop_map(GroupId::new)
}

prop_compose! {
    fn items()(gid in gid(), msgid in msgid(), kind: u16, flags: u8, author: u32, time_ms: u64, tag: [u8; 8],
        body in bytes(0..300), extensions in extensions()) -> Item {
        Item { gid, msgid, kind, flags, author: UserId::new(author), time_ms, tag: Tag::new(tag), body, extensions }
    }
}

/// A golden frame, damaged: some bytes overwritten, one run removed, one inserted (often a huge number).
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let huge = Just(vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    let inserted = prop_oneof![Just(Vec::new()), huge, vec(any::<u8>(), 1..12)];
    let place = any::<prop::sample::Index>;
    let frames = prop::sample::select(golden::frames());
    (frames, vec((place(), any::<u8>()), 0..4), place(), 0usize..6, place(), inserted).prop_map(
        |(frame, overwrite, cut, cut_bytes, insert, inserted)| {
            let mut body = frame.to_vec();
            for (place, byte) in overwrite {
                let place = place.index(body.len());
                body[place] = byte;
            }
            let start = cut.index(body.len());
            body.drain(start..(start + cut_bytes).min(body.len()));
            let place = insert.index(body.len() + 1);
            body.splice(place..place, inserted);
            body
        },
    )
}

/// Reads frames until the end or an error; each is decoded, and must come out as it came in.
fn read_all(stream: &[u8]) {
    let mut reader = FrameReader::new();
    reader.push(stream);
    while let Ok(Some(raw)) = reader.next_frame() {
        if let Some(Ok(again)) = frame::again(&raw) {
            assert_eq!(golden::raw(&again).body, raw.body, "{raw:?}");
        }
    }
    let _ends_inside_or_not = reader.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_body_makes_a_frame_panic_and_what_is_read_is_its_one_encoding(
        kind in kinds(), request: u32, body in bytes(0..200),
    ) {
        let raw = RawFrame { kind, flags: 0, request, body };
        if let Some(Ok(again)) = frame::again(&raw) {
            prop_assert_eq!(golden::raw(&again).body, raw.body);
        }
    }

    #[test]
    fn no_damage_to_a_frame_makes_its_reader_panic(stream in damaged()) {
        read_all(&stream);
    }

    #[test]
    fn no_damage_behind_the_envelope_makes_a_decoder_panic(stream in damaged(), kind in kinds()) {
        let body = Bytes::from(stream).slice(4..);
        for kind in [kind, u16::from_be_bytes([body[0], body[1]])] {
            let raw = RawFrame { kind, flags: 0, request: 1, body: body.slice(7.min(body.len())..) };
            if let Some(Ok(again)) = frame::again(&raw) {
                prop_assert_eq!(golden::raw(&again).body, raw.body);
            }
        }
    }

    #[test]
    fn no_stream_makes_the_frame_reader_panic(stream in vec(any::<u8>(), 0..300)) {
        read_all(&stream);
    }

    #[test]
    fn no_bytes_make_items_bodies_payloads_or_rows_panic(bytes in bytes(0..200)) {
        if let Ok(item) = Item::decode(&bytes) {
            prop_assert_eq!(&item.encode().unwrap(), &bytes);
        }
        if let Ok(payload) = Payload::decode(&bytes) {
            prop_assert_eq!(&payload.encode().unwrap(), &bytes);
        }
        if let Ok(body) = Created::decode(&bytes) {
            prop_assert_eq!(&body.encode().unwrap(), &bytes);
        }
        if let Ok(body) = Renamed::decode(&bytes) {
            prop_assert_eq!(&body.encode().unwrap(), &bytes);
        }
        let _no_panic = (Joined::decode(&bytes), Left::decode(&bytes), RoleChanged::decode(&bytes));
        let rows: Vec<_> = row::rows(bytes).collect();
        prop_assert!(rows.iter().rev().skip(1).all(Result::is_ok), "rows go on after an error");
    }

    #[test]
    fn no_text_makes_the_link_reader_panic(text in "(gaggle://)?[a-z0-9.:\\[\\]]{0,20}(/#)?[A-Za-z0-9_.=-]{0,70}|\\PC{0,40}") {
        if let Ok(link) = text.parse::<Link>() {
            prop_assert_eq!(link.to_string(), text.trim());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn items_and_rows_read_back_as_written(items in vec((items(), any::<u8>(), msgid()), 0..5)) {
        let mut bytes = BytesMut::new();
        let mut written = Vec::new();
        for (item, flags, edited_by) in items {
            let row = Row { flags, edited_by, item: item.encode().unwrap() };
            row.append_to(&mut bytes).unwrap();
            prop_assert_eq!(row.decode_item().unwrap(), item);
            written.push(row);
        }
        let read: Result<Vec<_>, _> = row::rows(bytes.freeze()).collect();
        prop_assert_eq!(read.unwrap(), written);
    }

    #[test]
    fn rows_that_are_cut_off_end_in_an_error(items in vec(items(), 1..4), cut: prop::sample::Index) {
        let mut bytes = BytesMut::new();
        let mut ends = vec![0];
        for item in items {
            Row::plain(item.encode().unwrap()).append_to(&mut bytes).unwrap();
            ends.push(bytes.len());
        }
        let cut = cut.index(bytes.len());
        let whole = row::rows(bytes.freeze().slice(..cut)).all(|row| row.is_ok());
        prop_assert_eq!(whole, ends.contains(&cut));
    }

    #[test]
    fn a_send_and_its_payload_read_back_as_written(
        seq: u64, lowest: u64, gid in gid(), kind: u16, tag: [u8; 8], body in bytes(0..3_000), inner in extensions(),
        outer in extensions(), request: u32,
    ) {
        let payload = Payload { kind, tag: Tag::new(tag), body, extensions: inner };
        let encoded = payload.encode().unwrap();
        prop_assert_eq!(Payload::decode(&encoded).unwrap(), payload);
        let (seq, lowest) = (ClientSeq::new(seq), ClientSeq::new(lowest));
        let send = Send { seq, lowest, gid, payload: encoded, extensions: outer };
        let raw = golden::raw(&codec::encode(request, &send).unwrap());
        prop_assert_eq!((raw.kind, raw.request), (Send::TYPE, request));
        prop_assert_eq!(raw.decode::<Send>().unwrap(), send);
    }

    #[test]
    fn a_push_in_pieces_is_the_same_push(
        credit_items: u32, credit_bytes: u32, outer in extensions(),
        batches in vec((gid(), msgid(), msgid(), bytes(0..2_000), extensions()), 0..5),
    ) {
        let batches = batches.into_iter().map(|(gid, continues, covered_to, rows, extensions)| {
            PushBatch { gid, continues, covered_to, rows, extensions }
        }).collect();
        let push = Push { credit_items, credit_bytes, batches, extensions: outer };
        let whole = codec::encode(0, &push).unwrap();
        prop_assert_eq!(codec::encode_push(&push).unwrap().concat(), &whole[..]);
        prop_assert_eq!(golden::raw(&whole).decode::<Push>().unwrap(), push);
    }

    #[test]
    fn a_link_reads_back_as_written(pin: [u8; 32], code: [u8; 16], port in 1u16.., host in "[a-z][a-z0-9.-]{0,40}") {
        let link = Link { address: format!("{host}:{port}"), pin: Pin(pin), code: InviteCode(code) };
        prop_assert_eq!(link.to_string().parse::<Link>(), Ok(link));
    }
}

#[test]
fn no_frame_that_is_cut_off_or_continued_is_taken_for_whole() {
    for golden in golden::frames() {
        let raw = golden::raw(&golden);
        for cut in 0..raw.body.len() {
            let short = RawFrame { body: raw.body.slice(..cut), ..raw.clone() };
            assert!(frame::again(&short).unwrap().is_err(), "{raw:?} cut at {cut}");
        }
        for byte in 0..=255 {
            let long = RawFrame { body: [&raw.body[..], &[byte]].concat().into(), ..raw.clone() };
            assert!(frame::again(&long).unwrap().is_err(), "{raw:?} continued by {byte}");
        }
    }
}

#[test]
fn no_item_or_payload_that_is_cut_off_or_continued_is_taken_for_whole() {
    let payload = golden::payload().encode().unwrap();
    assert!((0..payload.len()).all(|cut| Payload::decode(&payload[..cut]).is_err()));
    for (_, bytes) in golden::items() {
        assert!((0..bytes.len()).all(|cut| Item::decode(&bytes[..cut]).is_err()));
        assert!(Item::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}

/// Scenario 35: limit−1, limit, limit+1 bytes in 4-byte characters; the limit counts bytes.
#[test]
fn a_body_over_the_limit_is_a_typed_error_and_one_at_the_limit_passes() {
    let payload = |bytes: usize| {
        let text = "🪿".repeat(bytes / 4) + &"x".repeat(bytes % 4);
        Payload { body: text.into(), ..golden::payload() }
    };
    for bytes in [BODY_BYTES_MAX - 1, BODY_BYTES_MAX] {
        let encoded = payload(bytes).encode().unwrap();
        assert_eq!(Payload::decode(&encoded).unwrap().body.len(), bytes);
    }
    let over = payload(BODY_BYTES_MAX + 1);
    let error = over.encode().unwrap_err();
    assert_eq!(error.code(), crate::wire::code::Code::TooLarge);
    let encoded = codec::encode_value("payload", &over, usize::MAX).unwrap();
    assert_eq!(Payload::decode(&encoded), Err(error));
}
