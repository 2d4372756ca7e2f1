//! Edits, recalls, reactions, read marks and absences, sprinkled into a script by a seed; and what everybody's messages
//! come to by them.
//!
//! Like the script it knows nothing of the crate under test.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rand::RngExt;
use rand::rngs::StdRng;

use super::script::{Line, Mark, Nick, Reaction, Script, Stay, Step};

/// One of so many lines is followed by somebody leaving, who comes back this many lines later.
const LINES_PER_ABSENCE: u32 = 30;
const ABSENCE_LINES: std::ops::Range<usize> = 10..60;
/// The share of lines that are followed by a change, and of changes by another one.
const CHANGES: f64 = 0.4;
/// People change and mark what was said so many steps ago at the most.
const RECENT: usize = 80;
const WORDS: [&str; 3] = ["👍", "+1", "❤️"];

/// A message as somebody must see it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub msgid: u64,
    pub author: Nick,
    /// None: recalled.
    pub text: Option<String>,
    /// The edit that says so; zero: none.
    pub edited_by: u64,
    pub reactions: BTreeMap<&'static str, BTreeSet<Nick>>,
}

/// The script of these lines with changes. The keeper is there from the beginning on, and may recall everything.
pub fn sprinkled(lines: Vec<Line>, keeper: Nick, random: &mut StdRng) -> Script {
    let mut script = Script::empty();
    script.stays.insert(keeper, vec![Stay { joined: 1, left: None }]);
    let mut coming_back: BTreeMap<usize, Nick> = BTreeMap::new();
    for (index, line) in lines.into_iter().enumerate() {
        script.take(line);
        while let Some(back) = coming_back.first_entry().filter(|back| *back.key() <= index) {
            script.take(Line::Joined(back.remove()));
        }
        let present = present(&script, keeper);
        if random.random_ratio(1, LINES_PER_ABSENCE) && !present.is_empty() {
            let who = one_of(&present, random);
            script.take(Line::Left(who));
            coming_back.insert(index + random.random_range(ABSENCE_LINES), who);
        }
        while random.random_bool(CHANGES) {
            change(&mut script, keeper, random);
        }
    }
    script
}

fn one_of<T: Copy>(all: &[T], random: &mut StdRng) -> T {
    all[random.random_range(0..all.len())]
}

/// Who is there, but for the keeper.
fn present(script: &Script, keeper: Nick) -> Vec<Nick> {
    let mut all: Vec<Nick> =
        script.stays.keys().copied().filter(|nick| *nick != keeper && script.is_in(*nick)).collect();
    all.sort_unstable();
    all
}

fn change(script: &mut Script, keeper: Nick, random: &mut StdRng) {
    let present = present(script, keeper);
    if present.is_empty() {
        return;
    }
    let by = one_of(&present, random);
    let texts: Vec<(u64, Nick)> = texts(script).filter(|(msgid, _)| script.sees(by, *msgid)).collect();
    let own: Vec<u64> = texts.iter().filter(|(_, author)| *author == by).map(|(msgid, _)| *msgid).collect();
    let seen: Vec<u64> = texts.into_iter().map(|(msgid, _)| msgid).collect();
    if seen.is_empty() {
        return;
    }
    let target = one_of(&seen, random);
    match random.random_range(0..20) {
        0..6 if !own.is_empty() => {
            let target = one_of(&own, random);
            script.steps.push(Step::Edit(by, target, format!("{target}, mended at {}", script.head() + 1)));
        }
        6..8 => recall(script, keeper, target),
        8..12 => {
            let reaction = Reaction { word: one_of(&WORDS, random), removed: false };
            script.steps.push(Step::React(by, target, reaction));
        }
        12..15 => {
            let standing = script.steps.iter().rev().take(RECENT).find_map(|step| match step {
                Step::React(nick, target, given) if *nick == by && seen.contains(target) => Some((*target, given.word)),
                _ => None,
            });
            let (target, word) = standing.unwrap_or((target, WORDS[0]));
            script.steps.push(Step::React(by, target, Reaction { word, removed: true }));
        }
        15..19 => mark(script, by, target, false),
        _ => mark(script, by, target - 1, true),
    }
}

/// The texts of the last steps that stand, with their authors.
fn texts(script: &Script) -> impl Iterator<Item = (u64, Nick)> {
    let from = script.steps.len().saturating_sub(RECENT);
    script.steps.iter().enumerate().skip(from).filter_map(|(index, step)| match step {
        Step::Say(nick, _) if !script.recalled.contains(&Script::msgid(index)) => Some((Script::msgid(index), *nick)),
        _ => None,
    })
}

/// Its author recalls a text, or the keeper where they have left. Who has left and saw it would not hear of it, and a
/// device of theirs would go on showing what no other does: so only what everybody who saw it can hear is recalled.
fn recall(script: &mut Script, keeper: Nick, target: u64) {
    let Some(Step::Say(author, _)) = script.step(target) else { return };
    let by = if script.is_in(*author) && target.is_multiple_of(2) { *author } else { keeper };
    let saw = script.stays.keys().filter(|nick| script.sees(**nick, target));
    if saw.clone().all(|nick| script.is_in(*nick)) {
        script.recalled.insert(target);
        script.steps.push(Step::Recall(by, target));
    }
}

fn mark(script: &mut Script, by: Nick, to: u64, is_anywhere: bool) {
    let (_, version) = script.mark_of(by);
    // Now and then one is late: it names a version that is over.
    let is_late = !is_anywhere && version > 0 && to.is_multiple_of(4);
    let version = if is_late { version - 1 } else { version };
    script.marks.push(Mark { before: script.steps.len(), by, to, version, is_anywhere });
}

impl Script {
    /// Whether anything is said of messages in it.
    pub fn is_changed(&self) -> bool {
        let says_of = |step: &Step| matches!(step, Step::Edit(..) | Step::Recall(..) | Step::React(..));
        self.steps.iter().any(says_of)
    }

    /// Where somebody's read mark stands, and its version. Whoever joins has nothing to read from before; whoever comes
    /// back, where they had read all of their last stay.
    pub fn mark_of(&self, nick: Nick) -> (u64, u64) {
        let mut own = self.marks.iter().filter(|mark| mark.by == nick).peekable();
        let (mut at, mut version, mut ended) = (0, 0, 0);
        for stay in self.stays.get(&nick).into_iter().flatten() {
            if at >= ended {
                at = stay.joined - 1;
            }
            ended = stay.left.unwrap_or(u64::MAX);
            while let Some(mark) = own.next_if(|mark| Script::msgid(mark.before) <= ended) {
                if mark.is_anywhere {
                    (at, version) = (mark.to, version + 1);
                } else if mark.version >= version {
                    at = at.max(mark.to);
                }
            }
        }
        (at, version)
    }

    /// The texts of others above somebody's read mark that they see and that were not recalled.
    pub fn unread(&self, nick: Nick) -> u64 {
        let (mark, _) = self.mark_of(nick);
        let unread = self.messages(nick).filter(|message| message.msgid > mark && message.author != nick);
        unread.filter(|message| message.text.is_some()).count() as u64
    }

    /// Everything that somebody sees in the end.
    pub fn messages(&self, nick: Nick) -> impl Iterator<Item = Expected> {
        let mut all: BTreeMap<u64, Expected> = BTreeMap::new();
        let mut last: HashMap<(u64, &'static str, Nick), bool> = HashMap::new();
        let seen = self.steps.iter().enumerate().map(|(index, step)| (Script::msgid(index), step));
        for (msgid, step) in seen.filter(|(msgid, _)| self.sees(nick, *msgid)) {
            match step {
                Step::Join(_) | Step::Leave(_) => {}
                Step::Say(author, text) => {
                    let (author, text) = (*author, Some(text.clone()));
                    let message = Expected { msgid, author, text, edited_by: 0, reactions: BTreeMap::new() };
                    all.insert(msgid, message);
                }
                Step::Edit(_, target, text) => {
                    if let Some(message) = all.get_mut(target) {
                        (message.text, message.edited_by) = (Some(text.clone()), msgid);
                    }
                }
                Step::Recall(..) => {}
                Step::React(by, target, reaction) => {
                    last.insert((*target, reaction.word, *by), !reaction.removed);
                }
            }
        }
        for ((target, word, by), _) in last.into_iter().filter(|(_, stands)| *stands) {
            if let Some(message) = all.get_mut(&target) {
                message.reactions.entry(word).or_default().insert(by);
            }
        }
        all.into_values().map(|message| match self.recalled.contains(&message.msgid) {
            true => Expected { text: None, edited_by: 0, reactions: BTreeMap::new(), ..message },
            false => message,
        })
    }
}
