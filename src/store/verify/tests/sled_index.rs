//! The index on disk beside its log: larger than its cache, with faults planted in it, and with its files damaged.

use std::fs;

use super::scene::*;
use super::*;
use crate::disk::real::RealDisk;
use crate::ids::UserId;
use crate::store::index::{INDEX_NAME, INDEX_OLD_NAME, Settings, SledIndex};
use crate::store::records::role;

const PEOPLE: u64 = 200;
const ITEMS: u64 = 4_000;

/// So small that the rows of [`crowd`] don't fit.
fn settings() -> Settings {
    Settings { cache_bytes: 64 * 1024, ..Settings::default() }
}

fn index(folder: &Path) -> Arc<SledIndex> {
    Arc::new(SledIndex::new(folder, settings()))
}

/// Whose turn it is.
fn byte(number: u64) -> u8 {
    u8::try_from(number % PEOPLE).unwrap() + 3
}

/// A group of many, who each joined, wrote, and have read what they wrote.
fn crowd() -> Vec<Vec<Op>> {
    let mut ops = vec![meta("last-group", 1), meta("last-user", 300), group(1, 1, 0), item(1, 1, [3, 1, 3], 0, 0)];
    let mut head = 1;
    for number in 3..203u32 {
        let id = UserId::new(number);
        ops.extend([
            user(id, &format!("user{number}"), false),
            handle(&format!("user{number}"), id),
            membership(id, G),
        ]);
        if number > 3 {
            head += 1;
            ops.push(item(1, head, [3, 1, u8::try_from(number).unwrap()], 0, 0));
        }
        let role = if number == 3 { role::OWNER } else { role::MEMBER };
        ops.push(member_with(id, role, vec![stay(head, None, 0, 0)], &[]));
    }
    let mut frames = vec![ops];
    for first in (1..=ITEMS).step_by(20) {
        let lsn = frames.len() as u64 + 1;
        let written = |content: u64| {
            // In turn; the first of them is the last in each round.
            let (author, ordinal, at) = (byte(content), content.div_ceil(PEOPLE), head + content);
            let id = UserId::new(author.into());
            let read = cursor(id, crate::ids::DeviceId::ZERO, at, content, u64::MAX);
            [item(lsn, at, [author, 0, 0], content, ordinal), own(id, ordinal, at), read]
        };
        frames.push((first..first + 20).flat_map(written).collect());
    }
    frames
}

/// The folder of a server that was stopped.
fn stopped(folder: &Path) {
    let options = crate::store::Options { index: index(folder), ..crate::store::Options::default() };
    let mut store = open(Arc::new(RealDisk), folder, options).unwrap();
    for frame in crowd() {
        let lsn = store.log.append(&frame).unwrap();
        store.engine.apply(lsn, &frame).unwrap();
        store.log.sync().unwrap();
    }
    let seal = store.log.seal().unwrap();
    store.engine.apply(seal, &[]).unwrap();
    store.flushed.as_mut().unwrap().record(store.engine.flush().unwrap()).unwrap();
}

fn verify_real(folder: &Path) -> (Verified, Vec<String>, Vec<String>) {
    let disk: SharedDisk = Arc::new(RealDisk);
    let (mut findings, mut remarks) = (Vec::new(), Vec::new());
    let options = Options { rows_at_once: 5_000, ..options(index(folder)) };
    let verified = verify(&disk, folder, &options, &mut |event| match event {
        Event::Finding(said) => findings.push(said.to_string()),
        Event::Remark(said) => remarks.push(said.to_string()),
        Event::Step(_) => {}
    })
    .unwrap();
    (verified, findings, remarks)
}

/// Applies this to the index behind the log's back.
fn plant(folder: &Path, ops: &[Op]) {
    let store = Format::read(&RealDisk, folder).unwrap().unwrap().store;
    let engine = index(folder).open(store).unwrap().unwrap();
    engine.apply(engine.applied().unwrap(), ops).unwrap();
    engine.flush().unwrap();
}

#[test]
fn an_index_larger_than_its_cache_is_compared_row_by_row_and_each_planted_fault_is_named() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("data");
    stopped(&folder);
    let (verified, findings, remarks) = verify_real(&folder);
    assert_eq!((findings, remarks), (Vec::new(), Vec::new()));
    assert_eq!(verified.index_rows, verified.rows.map(|rows| rows.rows));
    assert!(verified.index_rows.unwrap() > 2 * ITEMS);

    plant(&folder, &[gone(Tree::Messages, keys::message(G, m(2_000)))]);
    let (_, findings, _) = verify_real(&folder);
    let lost = "the index lacks messages g1 m2000, which frame l91 has put";
    assert_eq!(findings[..2], [lost, "g1: m2000 is missing below m2001"]);
    plant(&folder, &[send(ADAS, 1, 3), handle("user3", BOB)]);
    let (_, findings, _) = verify_real(&folder);
    assert!(findings.contains(&"the index holds sends d1 s1, which the log does not".to_owned()), "{findings:?}");
    let other = r#"the index holds handles "user3" with another value than frame l1 has put"#;
    assert!(findings.contains(&other.to_owned()), "{findings:?}");
    // Whatever is wrong with the index, the log has everything: made anew from it, it is clean.
    let rebuild = crate::store::Rebuild::Always;
    let options = crate::store::Options { index: index(&folder), rebuild, ..crate::store::Options::default() };
    let mut store = open(Arc::new(RealDisk), &folder, options).unwrap();
    let seal = store.log.seal().unwrap();
    assert_eq!(store.engine.applied().unwrap(), seal);
    drop(store);
    assert_eq!(verify_real(&folder).1, [""; 0]);
}

#[test]
fn an_index_whose_files_are_damaged_is_a_finding_and_the_log_is_checked_all_the_same() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("data");
    stopped(&folder);
    let slabs = folder.join(INDEX_NAME).join("slabs");
    for entry in fs::read_dir(&slabs).unwrap() {
        let path = entry.unwrap().path();
        let zeros = vec![0; usize::try_from(fs::metadata(&path).unwrap().len()).unwrap()];
        fs::write(&path, zeros).unwrap();
    }
    let (verified, findings, _) = verify_real(&folder);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].ends_with("the next start rebuilds it from the log"), "{findings:?}");
    assert_eq!(verified.rows.unwrap().items, ITEMS + PEOPLE);
    fs::rename(folder.join(INDEX_NAME), folder.join(INDEX_OLD_NAME)).unwrap();
    let (_, findings, remarks) = verify_real(&folder);
    assert_eq!(findings.len(), 1);
    assert!(remarks[0].contains("index.old: it was set aside for a rebuild"), "{remarks:?}");
    assert!(findings[0].ends_with("index: it is missing; the next start rebuilds it from the log"), "{findings:?}");
}
