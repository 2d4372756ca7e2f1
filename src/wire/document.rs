//! `PROTOCOL.md` says what the code says: every frame with its fields, every code with its class, kinds, labels, limits.

use crate::limits;
use crate::wire::code::{Class, Code};
use crate::wire::{frame, item, proof, version};

const DOCUMENT: &str = include_str!("PROTOCOL.md");

/// The cells of the one table line that begins with these.
fn line(cells: &[&str]) -> Vec<&'static str> {
    let begin = format!("| {} |", cells.join(" | "));
    let mut lines = DOCUMENT.lines().filter(|line| line.starts_with(&begin));
    let line = lines.next().unwrap_or_else(|| panic!("PROTOCOL.md has no line {begin}"));
    assert_eq!(lines.next(), None, "PROTOCOL.md has {begin} twice");
    line.trim_matches('|').split(" | ").map(str::trim).collect()
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

#[test]
fn the_document_names_every_frame_with_its_fields_in_order() {
    for ((kind, name), (_, fields)) in frame::all().into_iter().zip(frame::fields()) {
        let cells = line(&[&kind.to_string(), name]);
        let words: Vec<&str> = cells[3].split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut places = fields.iter().map(|field| words.iter().position(|word| word == field));
        assert!(places.all(|place| place.is_some()), "{name}: {fields:?} in {words:?}");
        let places: Vec<_> = fields.iter().map(|field| words.iter().position(|word| word == field)).collect();
        assert!(places.is_sorted(), "{name}: another order of fields");
    }
}

#[test]
fn the_document_names_every_error_code_with_its_class() {
    for code in Code::ALL {
        let class = match code.class() {
            Class::Permanent => "permanent",
            Class::NotDone => "not done",
            Class::Unknown => "outcome unknown",
        };
        line(&[&code.number().to_string(), code.name(), class]);
    }
}

#[test]
fn the_document_has_no_frame_or_code_that_the_program_has_not() {
    let rows = |section: &str| {
        let text = DOCUMENT.split(section).nth(1).unwrap().split("\n## ").next().unwrap();
        let text = text.split("\nParts of").next().unwrap();
        text.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).count()
    };
    assert_eq!(rows("\n## 9. "), frame::all().len());
    assert_eq!(rows("\n## 10. "), Code::ALL.len());
}

#[test]
fn the_document_names_every_item_kind() {
    use item::kind::*;
    for (kind, name) in [
        (TEXT, "text, content"),
        (EDIT, "edit"),
        (RECALL, "recall"),
        (REACTION, "reaction"),
        (CREATED, "created"),
        (JOINED, "joined"),
        (LEFT, "left"),
        (REMOVED, "removed"),
        (RENAMED, "renamed"),
        (ROLE_CHANGED, "role changed"),
        (TOPIC, "topic"),
        (POLICY_CHANGED, "policy changed"),
        (MUTED, "muted"),
        (BAN_LIFTED, "ban lifted"),
        (HIDDEN, "hidden"),
    ] {
        line(&[&kind.to_string(), name]);
    }
}

#[test]
fn the_document_has_the_labels_the_versions_and_the_limits_of_the_code() {
    let labels = [proof::EXPORTER_LABEL, proof::LABEL_HELLO, proof::LABEL_ENROL, proof::LABEL_OPERATOR, version::ALPN];
    for label in labels {
        let quoted = format!("`{}`", String::from_utf8_lossy(label));
        assert!(DOCUMENT.contains(&quoted), "{quoted}");
    }
    assert!(DOCUMENT.contains(&format!("The minor version, now {},", version::MINOR)));
    for (what, limit) in [
        ("body of an item", limits::BODY_BYTES_MAX),
        ("body of a frame", limits::FRAME_BYTES_MAX),
        ("rows in one PageRows or Push", limits::FRAME_ROWS_BYTES_MAX),
        ("rows in one PageRows or Push", limits::PUSH_BATCHES_MAX),
        ("item", limits::ITEM_BYTES_MAX),
        ("extensions of one struct", limits::EXTENSIONS_MAX),
        ("extensions of one struct", limits::EXTENSION_BYTES_MAX),
        ("users mentioned by an item", limits::MENTIONS_MAX),
        ("body of a reaction", limits::REACTION_BYTES_MAX),
        ("edits of an item", limits::EDITS_MAX as usize),
        ("any text", limits::TEXT_BYTES_MAX),
        ("any text", limits::GROUP_NAME_BYTES_MAX),
        ("any text", limits::GROUP_TOPIC_BYTES_MAX),
        ("any text", limits::DEVICE_NAME_BYTES_MAX),
        ("any text", limits::DISPLAY_NAME_BYTES_MAX),
        ("any text", limits::HANDLE_BYTES_MAX),
        ("users in Names and OnlineList, rows of a list", limits::LIST_ROWS_MAX),
        ("users in Names and OnlineList, rows of a list", limits::CONVERSATION_ROWS_MAX),
        ("`gone` of a page", limits::GONE_RANGES_MAX),
        ("entries of Ack, Subscribe, ReadMarks, Cursors, AcksRefused, Heads, ReadMarkNotice", limits::ACK_ENTRIES_MAX),
        ("life of an invite", usize::try_from(limits::INVITE_LIFETIME_S_MAX).unwrap()),
        ("invites of a user for devices of their own that have not expired", limits::INVITES_USER_MAX),
        ("turns of a user's switches", usize::try_from(limits::SWITCHES_A_MINUTE_MAX).unwrap()),
        ("read marks of a user that move", usize::try_from(limits::READ_MARKS_A_MINUTE_MAX).unwrap()),
    ] {
        assert!(line(&[what])[1].contains(&grouped(limit)), "{what}: {}", grouped(limit));
    }
    for sentence in [
        format!("at most {} items; `items` 0 asks for {}", limits::PAGE_ITEMS_MAX, limits::PAGE_ITEMS_DEFAULT),
        format!("gap of more than {} items", limits::NEAR_HEAD_ITEMS),
        format!("up to {} items and", grouped(limits::CREDIT_ITEMS_MAX as usize)),
        format!("({} items, {} bytes)", limits::CREDIT_ITEMS_START, grouped(limits::CREDIT_BYTES_START as usize)),
        format!("after {} ms", limits::ACK_DELAY_MS_MAX),
        format!("permits {} bidirectional and {} uni", limits::STREAMS_BIDI_MAX, limits::STREAMS_UNI_MAX),
        format!("At most {} sends and", limits::SENDS_UNANSWERED_MAX),
        format!("sends and {} bytes of payload", grouped(limits::SENDS_UNANSWERED_BYTES_MAX)),
        format!("`preview_bytes` bytes ({} at the most)", limits::PREVIEW_BYTES_MAX),
        format!("where the newest {} were recalled", limits::PREVIEW_TRIES_MAX),
        format!("come and gone {} times", limits::INTERVALS_MAX),
        format!("may have up to {}\n", limits::CALLERS_PER_DEVICE_MAX),
        format!("listens, and {} s longer", limits::PRESENCE_GRACE_MS / 1_000),
        format!("groups of more than {} members", grouped(limits::DATAGRAM_TOLD_MAX)),
    ] {
        assert!(DOCUMENT.contains(&sentence), "{sentence}");
    }
}

#[test]
fn the_bytes_in_the_document_are_golden() {
    let golden: Vec<String> = super::golden::frames().iter().map(|bytes| super::golden::hex(bytes)).collect();
    let shown = DOCUMENT.split("Two frames in bytes").nth(1).unwrap().split("```").nth(1).unwrap();
    let shown: Vec<String> = shown.trim().lines().map(|line| line.replace(' ', "")).collect();
    assert_eq!(shown.len(), 2);
    assert!(shown.iter().all(|line| golden.contains(line)), "{shown:?}");
}
