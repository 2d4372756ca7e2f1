//! What is said of a folder: findings, remarks and where the check stands; and how much of it.
//!
//! It decides nothing but when enough of one kind was said: a folder whose every row is wrong shall fill neither a disk
//! nor a screen. Everything counts, said or not.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Findings of one kind that are said one by one.
const SAID_MAX: u64 = 100;

/// What was checked when something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// `flushed`, and what else lies in the folder.
    Folder,
    /// Segments and frames of the log.
    Log,
    /// A record of the log by itself.
    Record,
    /// What rows say of one another.
    Rows,
    /// The index beside the log.
    Index,
}

impl Check {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Check::Folder => "folder",
            Check::Log => "log",
            Check::Record => "record",
            Check::Rows => "rows",
            Check::Index => "index",
        }
    }
}

/// Something that is wrong, or worth knowing: a sentence, and where it can be told the file and the byte in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What was checked.
    pub check: Check,
    /// In which file or folder.
    pub path: Option<PathBuf>,
    /// At which byte of it.
    pub byte: Option<u64>,
    /// What.
    pub what: String,
}

impl Said {
    /// Of no file.
    pub(super) fn new(check: Check, what: impl Into<String>) -> Said {
        Said { check, path: None, byte: None, what: what.into() }
    }

    /// Of a file or folder.
    pub(super) fn of(check: Check, path: &Path, what: impl Into<String>) -> Said {
        Said { check, path: Some(path.to_owned()), byte: None, what: what.into() }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.byte) {
            (Some(path), Some(byte)) => write!(out, "{}, byte {byte}: {}", path.display(), self.what),
            (Some(path), None) => write!(out, "{}: {}", path.display(), self.what),
            (None, _) => out.write_str(&self.what),
        }
    }
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is being done.
    pub doing: &'static str,
    /// How much of it is done.
    pub done: u64,
    /// Of how much, where that is known.
    pub of: Option<u64>,
    /// What is counted.
    pub unit: &'static str,
}

/// What is said while a folder is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something is wrong.
    Finding(Said),
    /// Nothing is wrong, but this is worth knowing.
    Remark(Said),
    /// It goes on.
    Step(Step),
}

/// Who is told.
pub type Tell<'a> = &'a mut dyn FnMut(Event);

/// Tells, and counts.
pub(super) struct Report<'a> {
    tell: Tell<'a>,
    found: BTreeMap<Check, u64>,
    remarks: u64,
}

impl<'a> Report<'a> {
    pub(super) fn new(tell: Tell<'a>) -> Report<'a> {
        Report { tell, found: BTreeMap::new(), remarks: 0 }
    }

    pub(super) fn finding(&mut self, said: Said) {
        let found = self.found.entry(said.check).or_default();
        *found += 1;
        if *found <= SAID_MAX {
            (self.tell)(Event::Finding(said));
        }
    }

    /// A finding of rows, of no file.
    pub(super) fn rows(&mut self, what: impl Into<String>) {
        self.finding(Said::new(Check::Rows, what));
    }

    pub(super) fn remark(&mut self, said: Said) {
        self.remarks += 1;
        if self.remarks <= SAID_MAX {
            (self.tell)(Event::Remark(said));
        }
    }

    pub(super) fn step(&mut self, doing: &'static str, done: u64, of: Option<u64>, unit: &'static str) {
        (self.tell)(Event::Step(Step { doing, done, of, unit }));
    }

    /// Says how many findings were counted and not said; returns how many there are in all.
    pub(super) fn end(mut self) -> u64 {
        for (check, found) in std::mem::take(&mut self.found) {
            self.found.insert(check, found);
            if let Some(more) = found.checked_sub(SAID_MAX).filter(|more| *more > 0) {
                let what = format!("{more} more findings of the kind \"{}\" are not said one by one", check.name());
                self.remark(Said::new(check, what));
            }
        }
        self.found.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_counts_and_a_hundred_of_a_kind_are_said() {
        let mut events = Vec::new();
        let mut tell = |event| events.push(event);
        let mut report = Report::new(&mut tell);
        for number in 0..105 {
            report.rows(format!("row {number}"));
        }
        report.finding(Said::of(Check::Log, Path::new("data/log"), "it has no segments"));
        assert_eq!(report.end(), 106);
        let findings = events.iter().filter(|event| matches!(event, Event::Finding(_))).count();
        assert_eq!(findings, 101);
        let last = Said::new(Check::Rows, "5 more findings of the kind \"rows\" are not said one by one");
        assert_eq!(events.last(), Some(&Event::Remark(last)));
    }

    #[test]
    fn a_finding_names_file_and_byte_where_it_has_them() {
        let said = Said { byte: Some(7), ..Said::of(Check::Log, Path::new("data/log/00000001.log"), "no frame") };
        assert_eq!(said.to_string(), "data/log/00000001.log, byte 7: no frame");
        assert_eq!(Said::new(Check::Rows, "g1: m2 is missing").to_string(), "g1: m2 is missing");
    }
}
