//! What the recorded channel says, as steps of people, and which items each of them must end up with.
//!
//! It knows nothing of the crate under test: the expectation is computed here, from the lines alone, by counting.

use std::collections::{HashMap, HashSet};

/// A person: an index into [`Nicks`].
pub type Nick = usize;

/// The logs, oldest first.
pub const LOGS: [&str; 5] = [
    include_str!("../../data/irc/ubuntu-2006-06-01.log"),
    include_str!("../../data/irc/ubuntu-2006-12-10.log"),
    include_str!("../../data/irc/ubuntu-2007-06-04.log"),
    include_str!("../../data/irc/ubuntu-2008-04-27.log"),
    include_str!("../../data/irc/ubuntu-2011-04-14.log"),
];

/// The Big List of Naughty Strings.
pub const NAUGHTY: &str = include_str!("../../data/blns.txt");

/// Everybody who is named, over all logs.
#[derive(Default)]
pub struct Nicks {
    by_name: HashMap<String, Nick>,
}

impl Nicks {
    fn of(&mut self, name: &str) -> Nick {
        let next = self.by_name.len();
        *self.by_name.entry(name.to_owned()).or_insert(next)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Joined(Nick),
    Left(Nick),
    Renamed(Nick, Nick),
    Said(Nick, String),
}

/// Reads a log; a line of no known form is an error of the test.
pub fn read(log: &str, nicks: &mut Nicks) -> Vec<Line> {
    log.lines().map(|line| read_line(line, nicks).unwrap_or_else(|| panic!("unknown line {line:?}"))).collect()
}

fn read_line(line: &str, nicks: &mut Nicks) -> Option<Line> {
    if let Some(notice) = line.strip_prefix("=== ") {
        let (nick, what) = notice.split_once(' ')?;
        let nick = nicks.of(nick);
        return if let Some(new) = what.strip_prefix("is now known as ") {
            Some(Line::Renamed(nick, nicks.of(new)))
        } else if what.starts_with("has joined #") {
            Some(Line::Joined(nick))
        } else {
            what.starts_with("has left #").then_some(Line::Left(nick))
        };
    }
    let said = line.strip_prefix('[')?.split_once("] ")?.1;
    if let Some(action) = said.strip_prefix(" * ") {
        let nick = action.split_once(' ').map_or(action, |(nick, _)| nick);
        return Some(Line::Said(nicks.of(nick), format!("* {action}")));
    }
    let (nick, text) = said.strip_prefix('<')?.split_once("> ")?;
    Some(Line::Said(nicks.of(nick), text.to_owned()))
}

/// What somebody does; each step makes exactly one item. Targets are msgids of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Join(Nick),
    Leave(Nick),
    Say(Nick, String),
    Edit(Nick, u64, String),
    Recall(Nick, u64),
    React(Nick, u64, Reaction),
}

/// A reaction, given or taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    pub word: &'static str,
    pub removed: bool,
}

impl Step {
    pub fn who(&self) -> Nick {
        match self {
            Step::Join(nick)
            | Step::Leave(nick)
            | Step::Say(nick, _)
            | Step::Edit(nick, ..)
            | Step::Recall(nick, _)
            | Step::React(nick, ..) => *nick,
        }
    }
}

/// The steps of one group, and who sees which of their items.
pub struct Script {
    pub steps: Vec<Step>,
    /// For each person the ranges of msgids, borders included, in which they belong; the last may be open.
    pub stays: HashMap<Nick, Vec<Stay>>,
    /// The texts that somebody recalls at some time.
    pub recalled: HashSet<u64>,
    /// Where people set their read marks, in order.
    pub marks: Vec<Mark>,
}

/// Somebody sets their read mark: forwards, or, where something is to be unread again, anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Before the step with this index.
    pub before: usize,
    pub by: Nick,
    pub to: u64,
    /// The version that they know.
    pub version: u64,
    pub is_anywhere: bool,
}

/// A stay in the group: the msgid of the join, and of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    pub joined: u64,
    pub left: Option<u64>,
}

impl Script {
    /// By the rules in `tests/data/README.md`. The first item of a group tells that it was made.
    pub fn of(lines: impl IntoIterator<Item = Line>) -> Script {
        let mut script = Script::empty();
        lines.into_iter().for_each(|line| script.take(line));
        script
    }

    /// A group in which nothing has happened yet.
    pub fn empty() -> Script {
        Script { steps: Vec::new(), stays: HashMap::new(), recalled: HashSet::new(), marks: Vec::new() }
    }

    /// What a line comes to.
    pub fn take(&mut self, line: Line) {
        match line {
            Line::Joined(nick) => self.join(nick),
            Line::Left(nick) => self.leave(nick),
            Line::Renamed(old, new) => {
                self.leave(old);
                self.join(new);
            }
            Line::Said(nick, text) => {
                self.join(nick);
                self.steps.push(Step::Say(nick, text));
            }
        }
    }

    /// The msgid of the step with this index.
    pub fn msgid(index: usize) -> u64 {
        index as u64 + 2
    }

    /// The step behind a msgid; none: the creation.
    pub fn step(&self, msgid: u64) -> Option<&Step> {
        self.steps.get(usize::try_from(msgid.checked_sub(2)?).unwrap())
    }

    /// The highest msgid.
    pub fn head(&self) -> u64 {
        self.steps.len() as u64 + 1
    }

    pub fn is_in(&self, nick: Nick) -> bool {
        self.stays.get(&nick).and_then(|stays| stays.last()).is_some_and(|stay| stay.left.is_none())
    }

    fn join(&mut self, nick: Nick) {
        if !self.is_in(nick) {
            let joined = Script::msgid(self.steps.len());
            self.stays.entry(nick).or_default().push(Stay { joined, left: None });
            self.steps.push(Step::Join(nick));
        }
    }

    fn leave(&mut self, nick: Nick) {
        if self.is_in(nick) {
            let left = Script::msgid(self.steps.len());
            self.stays.get_mut(&nick).unwrap().last_mut().unwrap().left = Some(left);
            self.steps.push(Step::Leave(nick));
        }
    }

    /// Whether a person may see an item.
    pub fn sees(&self, nick: Nick, msgid: u64) -> bool {
        self.next_visible(nick, msgid - 1) == Some(msgid)
    }

    /// The next msgid above this one that a person must see.
    pub fn next_visible(&self, nick: Nick, after: u64) -> Option<u64> {
        let stays = self.stays.get(&nick)?;
        stays.iter().find_map(|stay| {
            let next = stay.joined.max(after + 1);
            (next <= stay.left.unwrap_or(self.head())).then_some(next)
        })
    }

    /// How many items a person must end up with.
    pub fn visible(&self, nick: Nick) -> u64 {
        let stays = self.stays.get(&nick).into_iter().flatten();
        stays.map(|stay| stay.left.unwrap_or(self.head()) + 1 - stay.joined).sum()
    }

    /// How many items all of them must end up with together.
    pub fn deliveries(&self) -> u64 {
        self.stays.keys().map(|nick| self.visible(*nick)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_logs_say_what_their_readme_says() {
        let mut nicks = Nicks::default();
        let logs: Vec<Vec<Line>> = LOGS.iter().map(|log| read(log, &mut nicks)).collect();
        let lines: Vec<&Line> = logs.iter().flatten().collect();
        let count = |fits: fn(&Line) -> bool| lines.iter().filter(|line| fits(line)).count();
        assert_eq!(lines.len(), 9_145);
        assert_eq!(count(|line| matches!(line, Line::Said(..))), 7_744);
        assert_eq!(count(|line| matches!(line, Line::Joined(_))), 1_108);
        assert_eq!(count(|line| matches!(line, Line::Left(_))), 223);
        assert_eq!(count(|line| matches!(line, Line::Renamed(..))), 70);
        let speakers: HashSet<Nick> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Said(nick, _) => Some(*nick),
                Line::Joined(_) | Line::Left(_) | Line::Renamed(..) => None,
            })
            .collect();
        assert_eq!(speakers.len(), 817);
        let apart: Vec<Script> = logs.iter().map(|log| Script::of(log.clone())).collect();
        assert_eq!(apart.iter().map(members_max).max(), Some(346));
        assert_eq!(apart.iter().map(Script::deliveries).sum::<u64>(), 1_454_793);
        let together = Script::of(logs.concat());
        assert_eq!((members_max(&together), together.deliveries()), (1_282, 7_022_010));
    }

    /// How many belonged at the same time, at the most.
    fn members_max(script: &Script) -> usize {
        let mut members = 0;
        let numbers = script.steps.iter().map(|step| {
            match step {
                Step::Join(_) => members += 1,
                Step::Leave(_) => members -= 1,
                Step::Say(..) | Step::Edit(..) | Step::Recall(..) | Step::React(..) => {}
            }
            members
        });
        numbers.max().unwrap()
    }

    #[test]
    fn a_stay_is_bordered_by_the_items_that_say_so() {
        let mut nicks = Nicks::default();
        let text = "=== a has left #x\n[00:00] <a> one\n=== a has joined #x\n=== a is now known as b\n[00:01] <b> two\n\
                    [00:01]  * a waves";
        let script = Script::of(read(text, &mut nicks));
        let said = |nick, text: &str| Step::Say(nick, text.to_owned());
        let steps = [
            Step::Join(0),
            said(0, "one"),
            Step::Leave(0),
            Step::Join(1),
            said(1, "two"),
            Step::Join(0),
            said(0, "* a waves"),
        ];
        assert_eq!(script.steps, steps);
        assert_eq!(script.stays[&0], [Stay { joined: 2, left: Some(4) }, Stay { joined: 7, left: None }]);
        assert_eq!(script.stays[&1], [Stay { joined: 5, left: None }]);
        assert_eq!((script.visible(0), script.visible(1), script.deliveries()), (5, 4, 9));
        let seen: Vec<u64> =
            std::iter::successors(script.next_visible(0, 0), |last| script.next_visible(0, *last)).collect();
        assert_eq!(seen, [2, 3, 4, 7, 8]);
    }
}
