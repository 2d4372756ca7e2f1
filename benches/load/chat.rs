//! What short messages take on disk: the words of a real channel, log and index against the bodies.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gaggle::ids::GroupId;
use gaggle::wire::frame::Sent;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::task::JoinSet;

use crate::Team;
use crate::raw::Raw;
use crate::result::Run;
use crate::script::{LOGS, Line, Nicks, read};

/// Who speaks, each with [`WINDOW`] sends under way.
const SPEAKERS: u64 = 32;
const WINDOW: u64 = 8;
/// Lines of the disk's use on the way.
const LINES: u64 = 8;
/// The log is being condensed in the background: it has come to rest when nothing has changed for so long.
const REST: Duration = Duration::from_secs(20);

/// Messages as long as those of the channel, of words that are drawn from it. The channel itself, over and over, would
/// compress as no channel does.
struct Words {
    lengths: Vec<usize>,
    words: Vec<String>,
}

impl Words {
    fn new() -> Words {
        let mut nicks = Nicks::default();
        let (mut lengths, mut words) = (Vec::new(), Vec::new());
        for line in LOGS.iter().flat_map(|log| read(log, &mut nicks)) {
            let Line::Said(_, text) = line else { continue };
            let from = words.len();
            words.extend(text.split_whitespace().map(str::to_owned));
            lengths.push(words.len() - from);
        }
        Words { lengths, words }
    }

    fn text(&self, random: &mut StdRng) -> String {
        let length = *self.lengths.choose(random).unwrap();
        let words: Vec<&str> = (0..length.max(1)).map(|_| self.words.choose(random).unwrap().as_str()).collect();
        words.join(" ")
    }
}

/// Bytes of the disk that a folder takes.
fn disk_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |path: &Path| {
        if path.is_dir() { disk_bytes(path) } else { fs::metadata(path).map_or(0, |file| file.blocks() * 512) }
    };
    entries.flatten().map(|entry| of(&entry.path())).sum()
}

/// Somebody who says something.
struct Speaker {
    raw: Raw,
    random: StdRng,
    words: Arc<Words>,
}

/// Says so many messages from `first` on; returns the bytes of the bodies.
async fn say(speaker: &mut Speaker, group: GroupId, first: u64, count: u64) -> u64 {
    let mut bytes = 0;
    for lowest in (first..first + count).step_by(WINDOW as usize) {
        let mut asked = Vec::new();
        for seq in lowest..(first + count).min(lowest + WINDOW) {
            let text = speaker.words.text(&mut speaker.random);
            bytes += text.len() as u64;
            asked.push(speaker.raw.post_text(seq, lowest, group, &text).await);
        }
        for request in asked {
            speaker.raw.answer::<Sent>(request).await.unwrap();
        }
    }
    bytes
}

/// See the module.
pub async fn chat(mut team: Team, messages: u64) {
    let group = team.group().await;
    let (words, mut speakers) = (Arc::new(Words::new()), Vec::new());
    for (number, key) in team.members(SPEAKERS, &[group]).await.into_iter().enumerate() {
        let raw = key.call(team.home.address()).await;
        speakers.push(Speaker { raw, random: StdRng::seed_from_u64(number as u64), words: Arc::clone(&words) });
    }
    let data = team.home.data();
    let each = messages / SPEAKERS / LINES;
    let mut bodies = 0;
    for part in 0..LINES {
        let run = Run::start(team.home.pid());
        let mut tasks = JoinSet::new();
        for mut speaker in std::mem::take(&mut speakers) {
            tasks.spawn(async move { (say(&mut speaker, group, 1 + part * each, each).await, speaker) });
        }
        for (bytes, speaker) in tasks.join_all().await {
            bodies += bytes;
            speakers.push(speaker);
        }
        report(run, "chat", each * SPEAKERS, bodies, &data);
    }
    let run = Run::start(team.home.pid());
    let mut before = 0;
    while before != disk_bytes(&data) {
        before = disk_bytes(&data);
        tokio::time::sleep(REST).await;
    }
    report(run, "chat.at-rest", 0, bodies, &data);
}

fn report(run: Run, test: &str, sends: u64, bodies: u64, data: &Path) {
    let of = |bytes: u64| bytes as f64 / bodies as f64;
    let (log, all) = (disk_bytes(&data.join("log")), disk_bytes(data));
    let extra = [("body_mb", bodies as f64 / 1e6), ("log_x", of(log)), ("index_x", of(all - log)), ("disk_x", of(all))];
    run.finish(&format!("gaggle.{test}"), sends, Vec::new(), &extra);
}
