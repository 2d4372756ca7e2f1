//! How long what was recalled stays in the log, hours at a time.

use super::*;
use crate::disk::Disk as _;

/// Time between two messages, in ms: too short for the index to be idle in between.
const BETWEEN_MS: u64 = 4_000;

impl World {
    fn log_has(&self, text: &[u8]) -> bool {
        let folder = Path::new("/data/log");
        self.disk.list(folder).unwrap().iter().any(|name| {
            let file = self.disk.open(&folder.join(name)).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(0, &mut bytes).unwrap();
            bytes.windows(text.len()).any(|it| it == text)
        })
    }
}

/// A server as it is set by itself, in a group of which somebody posts a little every few seconds.
#[test]
fn what_was_recalled_is_gone_from_the_log_within_the_hour_under_small_steady_traffic() {
    let mut world = World::new(3);
    world.node = None;
    world.node = Some(Node::open(&Setup { pace: Pace::default(), ..world.setup() }).unwrap());
    let (alice, bob, group) = world.people();
    let (bot, person) = (world.call(alice), world.call(bob));
    let text = "what was said and taken back";
    world.act(person, 1, group, kind::TEXT, None, text);
    world.settle();
    world.act(person, 2, group, kind::RECALL, Some(3), "");
    world.settle();
    assert_eq!(world.sent(person).len(), 2);
    assert!(world.log_has(text.as_bytes()));
    let hour = 3_600_000 / BETWEEN_MS;
    for seq in 1..=hour {
        world.act(bot, seq, group, kind::TEXT, None, "all is well");
        world.settle();
        world.wait(BETWEEN_MS);
    }
    assert_eq!(world.sent(bot).len() as u64, hour);
    assert!(!world.log_has(text.as_bytes()));
}
