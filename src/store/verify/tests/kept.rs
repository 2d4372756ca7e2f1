//! The folder kept from the first version. Its rows were made by hand, one of each kind, and are no history: its log is
//! clean, and what its rows contradict is found.

use super::*;
use crate::disk::real::RealDisk;
use crate::store::records::message_flag;

#[test]
fn the_log_of_the_folder_kept_from_version_1_is_clean() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/folder-v1");
    let above = tempfile::tempdir().unwrap();
    let copy = above.path().join("data");
    std::fs::create_dir_all(copy.join("log")).unwrap();
    for name in ["FORMAT", "log/00000001.log", "log/00000002.log", "log/00000003.log"] {
        std::fs::copy(kept.join(name), copy.join(name)).unwrap();
    }
    let mut options = options(Arc::new(MemoryIndex));
    // Its items are those of the wire; who wrote them stands in their fifth byte.
    options.understand = Box::new(|tree, _, value| {
        let record = MessageRecord::decode(value).ok().filter(|_| tree == Tree::Messages);
        Ok(record.map(|record| Meaning {
            author: crate::ids::UserId::new(record.item[4].into()),
            border: Border::None,
            sent: record.flags & message_flag::CONTENT != 0,
        }))
    });
    let mut said = Vec::new();
    let disk: SharedDisk = Arc::new(RealDisk);
    let verified = verify(&disk, &copy, &options, &mut |event| {
        if let Event::Finding(finding) = event {
            said.push(finding);
        }
    })
    .unwrap();
    assert_eq!((verified.segments, verified.frames, verified.sealed), (3, 4, true));
    assert!(said.iter().all(|finding| finding.check == Check::Rows), "{said:?}");
    let said: Vec<String> = said.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "u3 exists, but the counter last-user stands at 0",
            "u3 is an operator, but the mark operator-existed is not set",
            "d9 exists, but the counter last-device stands at 0",
            "g7: content item number 2 of u3 leads nowhere",
            "g7 m4 is recalled, but there is no such item",
            "g7 u3: m1 does not say that they joined, as the stay has it",
        ]
    );
}
