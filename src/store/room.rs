//! How much room the disk has: levels of free space, what each still allows, and when the operator is told.
//!
//! Room that runs out is noticed before anything is decided, because what is decided and cannot be written is neither
//! done nor refused. Pure: it is told how much is free and when, and starts nothing. A level is entered as soon as its
//! mark is passed and left only well above it, so that it doesn't flap.

use std::time::{Duration, Instant};

use crate::limits::{ROOM_CLOSED_BYTES, ROOM_EASE_BYTES, ROOM_FULL_BYTES, ROOM_LOW_BYTES_MAX, ROOM_LOW_BYTES_MIN};

/// The same level is told again no sooner than this, however often it is entered.
const TOLD_GAP: Duration = Duration::from_secs(60);
/// A level that lasts is told again this often.
const REMIND_GAP: Duration = Duration::from_secs(3600);

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Level {
    /// Enough.
    #[default]
    Plenty,
    /// Everything is taken; the operator is warned.
    Low,
    /// Nothing that grows is taken; the reserve is for what takes away, and for marks.
    Full,
    /// Nothing is taken.
    Closed,
}

/// How much must be free for each level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    low: u64,
    full: u64,
    closed: u64,
}

impl Marks {
    /// The marks on a disk of this size.
    #[must_use]
    pub fn of_disk(size_bytes: u64) -> Marks {
        let low = (size_bytes / 10).clamp(ROOM_LOW_BYTES_MIN, ROOM_LOW_BYTES_MAX);
        Marks { low, full: ROOM_FULL_BYTES, closed: ROOM_CLOSED_BYTES }
    }

    /// The same where the next checkpoint of the index may take so much. Once it has taken it, the marks are lower by
    /// that, so that its coming and going changes no level.
    #[must_use]
    pub fn with_checkpoint(self, bytes: u64) -> Marks {
        let raised = |mark: u64| mark.saturating_add(bytes);
        Marks { low: raised(self.low), full: raised(self.full), closed: raised(self.closed) }
    }

    /// With less free than this, nothing that grows is taken.
    #[must_use]
    pub fn full(self) -> u64 {
        self.full
    }

    /// How much must be free for the ballast to be made: afterwards there is still plenty.
    #[must_use]
    pub fn for_ballast(self) -> u64 {
        self.low.saturating_add(ROOM_EASE_BYTES)
    }

    fn level(self, free: u64) -> Level {
        if free < self.closed {
            Level::Closed
        } else if free < self.full {
            Level::Full
        } else if free < self.low {
            Level::Low
        } else {
            Level::Plenty
        }
    }
}

/// What the operator should hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It has come to this level, or is still there.
    Worse(Level),
    /// Growth is taken again, which it was not.
    Open,
}

/// The room of one disk as it was last looked at.
#[derive(Debug, Clone, Default)]
pub struct Room {
    level: Level,
    /// A worse level was entered that was not told yet.
    untold: bool,
    /// What was told last, and when.
    told: Option<(Level, Instant)>,
    /// It was told that nothing that grows is taken, so its end has to be told too.
    told_full: bool,
}

impl Room {
    /// How much room there is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// So many bytes are free now. Returns what the operator should hear.
    pub fn look(&mut self, free: u64, marks: Marks, now: Instant) -> Option<Word> {
        let at = marks.level(free);
        let eased = marks.level(free.saturating_sub(ROOM_EASE_BYTES));
        if at > self.level {
            self.level = at;
            self.untold = true;
        } else if eased < self.level {
            self.level = eased;
        }
        self.word(now)
    }

    fn word(&mut self, now: Instant) -> Option<Word> {
        if self.told_full && self.level < Level::Full {
            self.told_full = false;
            return Some(Word::Open);
        }
        if self.level == Level::Plenty {
            self.untold = false;
            return None;
        }
        let is_due = self.told.is_none_or(|(level, at)| {
            let since = now.saturating_duration_since(at);
            let is_news = self.untold && (self.level > level || since >= TOLD_GAP);
            is_news || since >= REMIND_GAP
        });
        if !is_due {
            return None;
        }
        self.untold = false;
        self.told = Some((self.level, now));
        self.told_full |= self.level >= Level::Full;
        Some(Word::Worse(self.level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROOM_EASE_BYTES as EASE;

    const MARKS: Marks = Marks { low: 300 * MB, full: 200 * MB, closed: 100 * MB };
    const MB: u64 = 1024 * 1024;

    fn at(seconds: u64) -> Instant {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGIN.get_or_init(crate::clock::monotonic) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_level_is_entered_at_its_mark_and_left_well_above_it() {
        let mut room = Room::default();
        let mut look = |free: u64| {
            room.look(free, MARKS, at(0));
            room.level()
        };
        assert_eq!(look(300 * MB), Level::Plenty);
        assert_eq!(look(300 * MB - 1), Level::Low);
        assert_eq!(look(300 * MB + EASE - 1), Level::Low);
        assert_eq!(look(200 * MB - 1), Level::Full);
        assert_eq!(look(200 * MB + EASE - 1), Level::Full);
        assert_eq!(look(200 * MB + EASE), Level::Low);
        assert_eq!(look(0), Level::Closed);
        assert_eq!(look(100 * MB + EASE), Level::Full);
        assert_eq!(look(300 * MB + EASE), Level::Plenty);
    }

    #[test]
    fn a_segment_made_ahead_just_above_the_mark_leaves_the_reserve() {
        let marks = Marks::of_disk(0);
        let mut room = Room::default();
        room.look(ROOM_FULL_BYTES, marks, at(0));
        assert_eq!(room.level(), Level::Low);
        room.look(ROOM_FULL_BYTES - crate::limits::SEGMENT_BYTES, marks, at(1));
        assert_eq!(room.level(), Level::Full);
    }

    #[test]
    fn each_worse_level_is_told_at_once_and_the_same_at_most_once_a_minute() {
        let mut room = Room::default();
        let mut heard = |seconds: u64, free: u64| room.look(free, MARKS, at(seconds));
        assert_eq!(heard(0, 400 * MB), None);
        assert_eq!(heard(1, 250 * MB), Some(Word::Worse(Level::Low)));
        assert_eq!(heard(2, 250 * MB), None);
        assert_eq!(heard(3, 150 * MB), Some(Word::Worse(Level::Full)));
        assert_eq!(heard(4, 250 * MB), Some(Word::Open));
        // It comes and goes: told again after a minute, if it is still so.
        assert_eq!(heard(5, 150 * MB), None);
        assert_eq!(heard(6, 250 * MB), None);
        assert_eq!(heard(7, 150 * MB), None);
        assert_eq!(heard(62, 150 * MB), None);
        assert_eq!(heard(63, 150 * MB), Some(Word::Worse(Level::Full)));
        assert_eq!(heard(64, 50 * MB), Some(Word::Worse(Level::Closed)));
        assert_eq!(heard(65, 400 * MB), Some(Word::Open));
        assert_eq!(heard(66, 400 * MB), None);
        assert_eq!(heard(200, 250 * MB), Some(Word::Worse(Level::Low)));
        assert_eq!(heard(3_799, 250 * MB), None);
        assert_eq!(heard(3_800, 250 * MB), Some(Word::Worse(Level::Low)));
    }

    #[test]
    fn a_small_disk_warns_later_and_a_large_checkpoint_sooner() {
        assert_eq!(Marks::of_disk(0).low, ROOM_LOW_BYTES_MIN);
        assert_eq!(Marks::of_disk(5 << 30).low, (5 << 30) / 10);
        assert_eq!(Marks::of_disk(u64::MAX).low, ROOM_LOW_BYTES_MAX);
        let marks = Marks::of_disk(0);
        assert_eq!(marks.with_checkpoint(7).full(), marks.full() + 7);
        assert!(marks.level(marks.for_ballast() - crate::limits::BALLAST_BYTES) == Level::Plenty);
    }
}
