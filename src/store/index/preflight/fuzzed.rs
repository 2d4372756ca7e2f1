//! What must hold of whatever stands in sled's files, before sled sees them: for the fuzzer, and for the test that runs
//! its corpora.
//!
//! Read are: a file of frames, the records in a frame, a slot of a slab and the leaf in it. What is compressed or
//! checked is mostly made so here, because damage that comes so far does not happen and a fuzzer does not find it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a proof that meets what it does not expect should fail loudly"
)]

use super::frames::{End, crc, frames, records, written};
use super::leaves::{data, leaf};
use crate::proof::input::Input;

/// The first byte says what it is and what of it is mended.
pub fn sled_files(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = input.byte() % 5;
    match kind {
        0 => file(input.0),
        1 => file_of_frames(input),
        2 => payload(input.0),
        3 => slot(input.0),
        _ => mended_slot(input),
    }
}

fn file(bytes: &[u8]) {
    let (payloads, end) = frames(bytes);
    let whole: usize = payloads.iter().map(|payload| payload.len() + 12).sum();
    assert!(whole <= bytes.len() && (end == End::Whole) == (whole == bytes.len()));
}

/// Frames with right checksums, some of them cut: the length of each, how much of it is cut, then it.
fn file_of_frames(mut input: Input<'_>) {
    let mut file = Vec::new();
    let mut whole = Vec::new();
    let mut is_cut = false;
    while !input.is_empty() {
        let (count, cut) = (input.small(), input.small() / 8);
        let payload = input.take(count);
        let mut frame = written(payload);
        frame.truncate(frame.len() - cut.min(frame.len()));
        file.extend_from_slice(&frame);
        is_cut |= cut > 0;
        if !is_cut {
            whole.push(payload);
        }
    }
    let (payloads, end) = frames(&file);
    assert!(payloads.starts_with(&whole), "whole frames at the beginning are read");
    assert!(is_cut || end == End::Whole);
}

fn payload(plain: &[u8]) {
    let Ok(records) = records(&zstd::stream::encode_all(plain, 1).unwrap()) else { return };
    let mut again = Vec::new();
    for record in records {
        for number in [record.object, record.collection, record.location, record.low_key.len() as u64] {
            again.extend_from_slice(&number.to_le_bytes());
        }
        again.extend_from_slice(&record.low_key);
    }
    assert!(again == plain, "records have one form");
}

fn slot(bytes: &[u8]) {
    if let Some(data) = data(bytes) {
        assert!(data.len() < bytes.len());
    }
    if let Some(leaf) = leaf(bytes) {
        let keys = leaf.rows.iter().map(|(key, value)| key.len() + value.len() + 16);
        assert!(keys.sum::<usize>() + leaf.low_key.len() < bytes.len());
    }
}

/// A slot with a right checksum: its data, and the length that it says.
fn mended_slot(mut input: Input<'_>) {
    let said = input.byte();
    let mut slot = input.0.to_vec();
    slot.truncate(250);
    slot.push(said);
    let check = crc(&slot);
    slot.extend_from_slice(&check);
    let found = data(&slot);
    let fits = usize::from(said) < slot.len() - 4;
    assert!(found.is_some() == fits && found.is_none_or(|data| data == &slot[..usize::from(said)]));
}
