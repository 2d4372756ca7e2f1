//! Reads from several threads while one applies, flushes and recycles.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const FRAMES: u64 = 400;
/// Each frame writes this many rows: more than one leaf.
const ROWS: u64 = FANOUT as u64 + 30;
const READERS: usize = 3;

fn key(row: u64) -> Bytes {
    Bytes::copy_from_slice(&row.to_be_bytes())
}

/// A frame that writes its lsn into each row.
fn frame(lsn: u64) -> Vec<Op> {
    (0..ROWS).map(|row| Op { tree: Tree::Messages, key: key(row), value: Some(key(lsn)) }).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// What one read found: the lsns that stand in the rows; none where the index was busy.
fn read(engine: &dyn Engine, round: u64) -> Option<Vec<u64>> {
    let row = round * 7 % ROWS;
    let found = match round % 3 {
        0 => engine.get(Tree::Messages, &key(row)).map(|value| vec![number(&value.unwrap())]),
        1 => engine.last_at_or_below(Tree::Messages, &key(ROWS + row)).map(|last| {
            let (last, value) = last.unwrap();
            assert_eq!(number(&last), ROWS - 1);
            vec![number(&value)]
        }),
        _ => {
            let mut rows = Vec::new();
            let mut visit = |found: &[u8], value: &[u8]| {
                assert_eq!(number(found), row + rows.len() as u64);
                rows.push(number(value));
                ControlFlow::Continue(())
            };
            engine.scan(Tree::Messages, &key(row), &mut visit).map(|()| {
                assert_eq!(rows.len() as u64, ROWS - row);
                rows
            })
        }
    };
    match found {
        Ok(rows) => Some(rows),
        Err(EngineError::Busy) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn reads_find_what_was_applied_and_nothing_older_while_it_is_written_and_recycled() {
    let folder = tempfile::tempdir().unwrap();
    let index = SledIndex::new(folder.path(), Settings { cache_bytes: 64 * 1024, ..Settings::default() });
    let engine = index.begin(STORE).unwrap();
    engine.apply(Lsn::new(1), &frame(1)).unwrap();
    let (begun, ended) = (AtomicU64::new(1), AtomicBool::new(false));
    let start = Barrier::new(READERS + 1);
    thread::scope(|scope| {
        for reader in 0..READERS {
            let (engine, begun, ended, start) = (&engine, &begun, &ended, &start);
            scope.spawn(move || {
                start.wait();
                let mut round = reader as u64;
                let mut found = 0;
                while !ended.load(Ordering::Acquire) || found == 0 {
                    let before = engine.applied().unwrap().value();
                    let rows = read(&**engine, round).unwrap_or_default();
                    let after = begun.load(Ordering::Acquire);
                    assert!(rows.iter().all(|lsn| (before..=after).contains(lsn)), "{before} {rows:?} {after}");
                    found += rows.len();
                    round += 1;
                }
            });
        }
        // Whatever comes of it, the readers must see its end.
        let written = scope.spawn(|| {
            start.wait();
            for lsn in 2..=FRAMES {
                begun.store(lsn, Ordering::Release);
                engine.apply(Lsn::new(lsn), &frame(lsn))?;
                if lsn % 10 == 0 {
                    engine.flush()?;
                }
                if lsn % 40 == 0 {
                    engine.recycle()?;
                }
            }
            Ok::<(), EngineError>(())
        });
        let outcome = written.join();
        ended.store(true, Ordering::Release);
        outcome.unwrap().unwrap();
    });
    assert_eq!(engine.applied().unwrap(), Lsn::new(FRAMES));
    assert_eq!(read(&*engine, 2).unwrap(), vec![FRAMES; usize::try_from(ROWS - 14).unwrap()]);
}
