//! What must hold of whatever rows stand in an index that a server starts on: for the fuzzer, and for the test that runs
//! its corpora.
//!
//! A row is refused by a typed error, or what it says is kept and read again as the same; `gaggle verify` refuses exactly
//! what a start would; and a start on all of them errs or has its tables. `tests/fuzz/README.md` says how to run it.

#![allow(clippy::unwrap_used, reason = "a proof that meets what it does not expect should fail loudly")]

use bytes::Bytes;

use crate::ids::{GroupId, Lsn, UserId};
use crate::proof::input::Input;
use crate::server::translate::load::{load, write};
use crate::server::translate::{kept, understand, weight};
use crate::store::engine::{Engine as _, Op};
use crate::store::memory::MemoryEngine;
use crate::store::tree::Tree;

/// Rows one after the other: its tree, the length of its key, the key, the length of its record, the record.
pub fn rows(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut ops = Vec::new();
    while !input.is_empty() {
        let tree = Tree::ALL.into_iter().cycle().nth(input.small()).unwrap();
        let count = input.small();
        let key = Bytes::copy_from_slice(input.take(count));
        let count = input.small();
        let value = Bytes::copy_from_slice(input.take(count));
        row(tree, &key, &value);
        ops.push(Op { tree, key, value: Some(value) });
    }
    let engine = MemoryEngine::new();
    engine.apply(Lsn::new(1), &ops).unwrap();
    match load(&engine) {
        Ok(tables) => {
            let groups: Vec<GroupId> = tables.groups().collect();
            let members = groups.iter().map(|group| tables.members(*group, UserId::ZERO).count()).sum::<usize>();
            assert!(groups.is_sorted() && members <= ops.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn row(tree: Tree, key: &Bytes, value: &Bytes) {
    let read = write(tree, key, value);
    assert!(read.is_ok() == understand(tree, key, value).is_ok(), "verify and a start refuse the same");
    let Ok(Some(said)) = read else { return };
    let ops = kept(std::slice::from_ref(&said), Lsn::new(1)).unwrap().ops;
    let bytes: usize = ops.iter().map(|op| op.key.len() + op.value.as_ref().map_or(0, Bytes::len)).sum();
    assert!(bytes <= 2 * value.len() + 4 * weight(&said));
    let again = ops.iter().find(|op| (op.tree, &op.key) == (tree, key)).and_then(|op| op.value.clone()).unwrap();
    assert!(write(tree, key, &again).is_ok_and(|again| again == Some(said)), "what was read is kept as it was");
}
