//! A round over the condensed segments: first all are marked, from the newest to the oldest and once for each part of the
//! keys; then those that hold enough that is dead are written anew, from the oldest to the newest.

use std::collections::HashMap;

use super::marks::{Bits, Key, Marks, Part, Seen};
use crate::ids::Lsn;
use crate::store::wide;

/// A segment is written anew where one byte in so many is dead.
const DEAD: u64 = 8;

/// The last word on a key: in which segment, and whether it is a put.
#[derive(Clone, Copy)]
struct Last {
    segment: u32,
    is_put: bool,
}

/// A round.
pub(super) struct Round {
    end: Lsn,
    is_thorough: bool,
    marks: Vec<Marks>,
    part: Part,
    parts: Vec<Part>,
    last: HashMap<Key, Last>,
    /// Segments that are still to be marked for this part: those below.
    unmarked: usize,
    /// Which segments are written anew, once that is decided, and of which all removes go.
    plan: Option<Vec<Plan>>,
    written: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Stays,
    WithoutDead,
    WithoutDeadAndRemoves,
}

impl Round {
    /// Over so many segments, the last frame of which is this. A thorough one takes out all that is dead, however little.
    pub(super) fn new(segments: usize, end: Lsn, is_thorough: bool) -> Round {
        Round {
            end,
            is_thorough,
            marks: std::iter::repeat_with(Marks::default).take(segments).collect(),
            part: Part::ALL,
            parts: Vec::new(),
            last: HashMap::new(),
            unmarked: segments,
            plan: None,
            written: 0,
        }
    }

    pub(super) fn segments(&self) -> usize {
        self.marks.len()
    }

    pub(super) fn end(&self) -> Lsn {
        self.end
    }

    pub(super) fn is_thorough(&self) -> bool {
        self.is_thorough
    }

    /// Bytes of all rows that are there at its end.
    pub(super) fn live_bytes(&self) -> u64 {
        let live = |marks: &Marks| marks.bytes.saturating_sub(marks.dead_bytes).saturating_sub(marks.remove_bytes);
        self.marks.iter().map(live).sum()
    }

    /// The next segment to be marked, but for those that are empty; none when all are.
    pub(super) fn next_to_mark(&mut self, is_empty: impl Fn(usize) -> bool) -> Option<usize> {
        loop {
            if self.unmarked == 0 && self.plan.is_none() {
                self.last = HashMap::new();
                match self.parts.pop() {
                    Some(part) => (self.part, self.unmarked) = (part, self.segments()),
                    None => self.plan = Some(self.decide()),
                }
            }
            match self.unmarked.checked_sub(1) {
                Some(index) if is_empty(index) => self.unmarked = index,
                next => return next,
            }
        }
    }

    /// Marks the operations of a segment.
    pub(super) fn mark(&mut self, segment: usize, ops: impl Iterator<Item = Seen>, keys_max: usize) {
        self.unmarked = segment;
        let segments = self.segments();
        // A log of more segments than that would hold 70 PB.
        let place = u32::try_from(segment).unwrap_or(u32::MAX);
        let ops: Vec<Seen> = ops.collect();
        let Some(mut marks) = self.marks.get_mut(segment).map(std::mem::take) else { return };
        if marks.bytes == 0 {
            marks.dead = Bits::new(ops.len());
            marks.removes = Bits::new(ops.len());
            marks.puts_in = Bits::new(segments);
            marks.bytes = ops.iter().map(|op| wide(op.bytes)).sum();
        }
        for (index, op) in ops.iter().enumerate().rev() {
            if !self.part.has(op.key) {
                continue;
            }
            let Some(last) = self.last.get(&op.key).copied() else {
                self.last.insert(op.key, Last { segment: place, is_put: op.is_put });
                if !op.is_put && marks.removes.set(index) {
                    marks.remove_bytes = marks.remove_bytes.saturating_add(wide(op.bytes));
                }
                self.halve_above(keys_max);
                continue;
            };
            if marks.dead.set(index) {
                marks.dead_bytes = marks.dead_bytes.saturating_add(wide(op.bytes));
            }
            if op.is_put
                && !last.is_put
                && let Some(remover) = usize::try_from(last.segment).ok().and_then(|at| self.marks.get_mut(at))
            {
                remover.puts_in.set(segment);
            }
        }
        if let Some(place) = self.marks.get_mut(segment) {
            *place = marks;
        }
    }

    /// Where the keys are too many, half of them are left for later.
    fn halve_above(&mut self, keys_max: usize) {
        while self.last.len() > keys_max {
            let (one, other) = self.part.halves();
            self.part = one;
            self.parts.push(other);
            self.last.retain(|key, _| one.has(*key));
        }
    }

    /// Which segments are written anew. A remove goes only where all earlier puts of its key go before it.
    fn decide(&self) -> Vec<Plan> {
        let mut plan: Vec<Plan> = Vec::with_capacity(self.segments());
        for marks in &self.marks {
            let stays = |(index, plan): (usize, &Plan)| *plan == Plan::Stays && marks.puts_in.has(index);
            let removes_go = !plan.iter().enumerate().any(stays);
            let gone = marks.dead_bytes.saturating_add(if removes_go { marks.remove_bytes } else { 0 });
            let is_enough = gone > 0 && gone.saturating_mul(DEAD) >= marks.bytes;
            let is_written = is_enough || self.is_thorough && marks.dead_bytes > 0;
            plan.push(match (is_written, removes_go) {
                (false, _) => Plan::Stays,
                (true, false) => Plan::WithoutDead,
                (true, true) => Plan::WithoutDeadAndRemoves,
            });
        }
        plan
    }

    /// The next segment to be written anew; none when all are.
    pub(super) fn next_to_write(&mut self) -> Option<usize> {
        let plan = self.plan.as_deref().unwrap_or_default();
        let rest = plan.iter().enumerate().skip(self.written);
        let (index, _) = rest.into_iter().find(|(_, plan)| **plan != Plan::Stays)?;
        self.written = index + 1;
        Some(index)
    }

    /// The operations that go from a segment; removes only where they may.
    pub(super) fn gone(&self, segment: usize, removes_may_go: bool) -> Bits {
        let Some(marks) = self.marks.get(segment) else { return Bits::default() };
        let plan = self.plan.as_ref().and_then(|plan| plan.get(segment));
        let mut gone = marks.dead.clone();
        if removes_may_go && plan == Some(&Plan::WithoutDeadAndRemoves) {
            gone.add(&marks.removes);
        }
        gone
    }
}
