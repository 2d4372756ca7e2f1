//! What a send is kept as.

use crate::core::command::{Answer, Command};
use crate::core::rows::Policy;
use crate::core::state::tests::{World, handle, send, sent};
use crate::ids::Lsn;
use crate::server::translate::kept;

/// The records and the bytes of keys and values that one send is kept as, in groups of 10, 500 and 10,000 members: rows
/// of the members would show at once. Numbers in records are packed, so the groups are as far on as makes each number
/// take two bytes.
#[test]
fn a_send_writes_the_same_whatever_the_number_of_members() {
    let mut world = World::new();
    let ada = world.user("ada");
    let mut written = Vec::new();
    let mut members = Vec::new();
    for count in [10, 500, 10_000] {
        while members.len() < count - 1 {
            let name = format!("member{}", members.len());
            world.user(&name);
            members.push(name);
        }
        let group = world.group_with(ada, Policy::FromJoin);
        for name in &members {
            let added = world.answer(Command::AddMember { by: ada, group, handle: handle(name) });
            assert!(matches!(added, Answer::Done(Some(_))), "{added:?}");
        }
        world.say_up_to(ada, group, count as u64 + 200);
        let number = world.tables.window(ada).unwrap().highest.value() + 1;
        let applied = world.run(send(ada, number, number, group, "the same to all"));
        sent(&applied.answer);
        assert_eq!(applied.events.len(), 1);
        let ops = kept(&applied.writes, Lsn::new(1 << 30)).unwrap().ops;
        let bytes = ops.iter().map(|op| op.key.len() + op.value.as_ref().map_or(0, |value| value.len())).sum::<usize>();
        written.push((count, ops.len(), bytes));
    }
    let first = written[0];
    assert_eq!(first.1, 5, "{written:?}");
    assert!(written.iter().all(|(_, records, bytes)| (*records, *bytes) == (first.1, first.2)), "{written:?}");
}
