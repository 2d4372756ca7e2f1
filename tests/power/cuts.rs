//! The tests: many cuts of a server that keeps its promises, and a few of one that answers before it has synced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use gaggle::ids::GroupId;
use gaggle::proof::Wrong;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use tokio::task::JoinError;

use crate::disk::{Disk, Frozen, home, place};
use crate::folder::copy;
use crate::harness::{crash_seed, rounds, variable};
use crate::judge::{Held, judge};
use crate::load::{Load, Notes};
use crate::mount::skipped;
use crate::process::Home;

const MB: u64 = 1024 * 1024;
/// Cuts in an ordinary run.
const CUTS: u64 = 6;
/// So many cuts, and the next disk is a new one; so is the next where less room is left.
const CUTS_OF_A_DISK: u64 = 12;
const ROOM: u64 = 90 * MB;
/// One in so many is read whole; of the others what is new since the last that was.
const WHOLE: u64 = 4;
/// Within so many a server that does not sync must be found out.
const CUTS_OF_WRONG: u64 = 6;
/// How long something in the data folder is waited for.
const AIM_MAX: Duration = Duration::from_millis(1_500);

/// When the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Aim {
    Anywhere,
    /// When a segment was just made or begun.
    Segment,
    /// When the index was just written.
    Index,
}

/// What is stopped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum First {
    /// The disk, at any point of a write or sync. The server goes on for a moment, and answers what it takes for durable.
    Disk,
    /// The server; what it began to sync comes to its end.
    Server,
}

/// A server at work on its own disk.
struct Site {
    // The server before its disk, which cannot be unmounted while it runs.
    home: Home,
    load: Load,
    disk: Disk,
    place: TempDir,
    /// Up to there everything was found in a cut.
    found: BTreeMap<GroupId, u64>,
    cuts: u64,
}

impl Site {
    async fn start(disk: Disk, small: bool, wrong: Option<Wrong>) -> Site {
        let mut home = home(&disk.data());
        if small {
            home = home.with("GAGGLE_SMALL", "1");
        }
        if let Some(wrong) = wrong {
            home = home.with("GAGGLE_WRONG", wrong.name());
        }
        home.start().await;
        let load = Load::new(&home).await;
        Site { home, load, disk, place: place(), found: BTreeMap::new(), cuts: 0 }
    }

    fn is_worn(&self) -> bool {
        self.cuts >= CUTS_OF_A_DISK || self.disk.free() < ROOM
    }

    /// Lets everybody work for a while, cuts the power, and lets everybody rest. The cut, and what was answered before.
    async fn cut(&mut self, random: &mut StdRng, aim: Aim, first: First) -> (PathBuf, Notes) {
        self.cuts += 1;
        let cut = self.place.path().join(format!("cut-{}", self.cuts));
        self.load.set_up(true);
        let answers = random.random_range(20..400);
        self.load.ledger.reaches(self.load.ledger.count() + answers).await;
        aim.comes(&self.disk.data()).await;
        // The moment is part of what is tested.
        tokio::time::sleep(Duration::from_micros(random.random_range(0..15_000))).await;
        let notes = match first {
            First::Disk => {
                let frozen = freeze(&self.disk).await;
                tokio::time::sleep(Duration::from_millis(random.random_range(5..120))).await;
                let notes = self.load.notes();
                self.home.pause();
                frozen.copy_to(&cut);
                notes
            }
            First::Server => {
                let notes = self.load.notes();
                self.home.pause();
                self.disk.freezer().freeze().copy_to(&cut);
                notes
            }
        };
        self.load.set_up(false);
        self.home.resume();
        self.load.goes_on();
        (cut, notes)
    }

    /// Judges a cut. An error is a judgement that failed.
    async fn judge(&mut self, cut: &Path, notes: Notes, whole: bool) -> Result<Held, JoinError> {
        let above = if whole { BTreeMap::new() } else { self.found.clone() };
        let keys = self.home.keys();
        let held = tokio::spawn(judge(cut.to_owned(), keys, self.load.team.clone(), notes, above)).await?;
        std::fs::remove_file(cut).unwrap();
        self.found.clone_from(&held.heads);
        Ok(held)
    }
}

/// The same on a thread of its own, so that the clients go on meanwhile.
async fn freeze(disk: &Disk) -> Frozen {
    let freezer = disk.freezer();
    tokio::task::spawn_blocking(move || freezer.freeze()).await.unwrap()
}

impl Aim {
    /// Waits for the moment; not for ever.
    async fn comes(self, data: &Path) {
        let (until, before) = (Instant::now() + AIM_MAX, self.looks(data));
        while before.is_some() && self.looks(data) == before && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Something that changes at that moment.
    fn looks(self, data: &Path) -> Option<(usize, Option<SystemTime>)> {
        let folder = match self {
            Aim::Anywhere => return None,
            Aim::Segment => data.join("log"),
            Aim::Index => data.join("index"),
        };
        let count = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        let flushed = std::fs::metadata(data.join("flushed")).and_then(|file| file.modified()).ok();
        Some((count, flushed.filter(|_| self == Aim::Index)))
    }
}

/// Starts a server on a cut and cuts the power again while it opens.
async fn cut_the_opening(cut: &Path, site: &Site, random: &mut StdRng, usual: Duration) {
    let disk = Disk::of(cut).unwrap();
    let mut opening = home(&disk.data());
    copy(&site.home.keys(), &opening.keys());
    let output = opening.begin(&[]);
    let usual = usual.as_micros() as u64;
    tokio::time::sleep(Duration::from_micros(random.random_range(usual / 10..usual + usual / 10))).await;
    let frozen = disk.freezer().freeze();
    opening.pause();
    frozen.copy_to(cut);
    drop(frozen);
    opening.kill();
    drop(output);
}

#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    disks: u64,
    aims: BTreeMap<(Aim, First), u64>,
    opening_cut: u64,
    segment_made: u64,
    rebuilt: u64,
    sends_held: usize,
    opening: Duration,
}

#[tokio::test]
async fn what_was_answered_outlives_every_cut_of_the_power() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped("power losses", &why),
    };
    let wanted = variable("GAGGLE_POWER_CUTS").unwrap_or_else(|| rounds(CUTS));
    let (seed, began) = (crash_seed(), Instant::now());
    let mut random = StdRng::seed_from_u64(seed);
    let mut tally = Tally { disks: 1, ..Tally::default() };
    let mut usual = Duration::from_millis(200);
    let mut site = Site::start(disk, true, None).await;
    while tally.cuts < wanted {
        if site.is_worn() {
            drop(site);
            // Every third with segments and checkpoints of their usual size.
            site = Site::start(Disk::new().unwrap(), tally.disks % 3 != 2, None).await;
            tally.disks += 1;
        }
        let aim = [Aim::Anywhere, Aim::Segment, Aim::Index][random.random_range(0..3)];
        let first = if random.random_range(0..3) == 0 { First::Server } else { First::Disk };
        let (cut, notes) = site.cut(&mut random, aim, first).await;
        tally.cuts += 1;
        *tally.aims.entry((aim, first)).or_default() += 1;
        if tally.cuts.is_multiple_of(3) {
            cut_the_opening(&cut, &site, &mut random, usual).await;
            tally.opening_cut += 1;
        }
        let whole = site.cuts.is_multiple_of(WHOLE);
        let held = site.judge(&cut, notes, whole).await.unwrap_or_else(|lost| {
            panic!("cut {} ({aim:?}, {first:?} first) of GAGGLE_CRASH_SEED={seed}: {lost}", tally.cuts)
        });
        usual = held.opened_in;
        tally.segment_made += u64::from(held.was_segment_made);
        tally.rebuilt += u64::from(held.was_rebuilt);
        tally.sends_held += held.sends;
        tally.opening += held.opened_in;
        println!(
            "{:>6.1?} cut {} ({aim:?}, {first:?} first): {} sends held, opened in {:?}",
            began.elapsed(),
            tally.cuts,
            held.sends,
            held.opened_in
        );
    }
    println!("{tally:?} in {:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_answers_before_it_has_synced_is_found_out() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped("power losses of a wrong build", &why),
    };
    let mut random = StdRng::seed_from_u64(crash_seed());
    let mut site = Site::start(disk, false, Some(Wrong::AnswerBeforeSync)).await;
    for number in 1..=CUTS_OF_WRONG {
        let (cut, notes) = site.cut(&mut random, Aim::Anywhere, First::Disk).await;
        let Err(lost) = site.judge(&cut, notes, true).await else { continue };
        let said = lost.into_panic();
        let said = said.downcast_ref::<String>().expect("a sentence");
        // Or its index, flushed, is ahead of its log, which no start takes for whole.
        assert!(said.contains("was answered as") || said.contains("did not start"), "{said}");
        println!("found out by cut {number}: {said}");
        return;
    }
    panic!("{CUTS_OF_WRONG} cuts, and nothing that was answered is lost");
}
