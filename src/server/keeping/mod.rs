//! Retention: what a group's policy gives up goes, a few rows at a time.
//!
//! [`Keeper`] is a step machine: it looks at the committed view and at a page of items, and says which command is due.
//! It decides nothing: `State` checks again what it is asked for. First the first kept item moves, in a frame of its own;
//! then the rows below it are removed, key by key, from the oldest on. Whoever loops over it ([`task`]) waits for each
//! command to be durable, so that at most one is under way. A step looks at so many groups, or reads so many items of one,
//! at the most; what was half done at a stop goes on where the rows begin.
//!
//! Ages are reckoned by a clock that does not jump ([`SteadyClock`]). An item whose time lies ahead of that clock was
//! stamped by a clock that had jumped: it is as old as what comes behind it. So is one that was stamped by a clock that
//! nobody had set. One that was stamped by a clock that had been set back says itself from when on its age counts.

pub(in crate::server) mod look;
mod task;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tracing::warn;

use crate::clock;
use crate::core::command::{Command, Retain};
use crate::core::retention::{Keeping, Read, Retention, SteadyClock, day_of};
use crate::core::rows::Meta;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::{PAGE_BYTES_MAX, RETENTION_CLOCK_MS, RETENTION_GROUPS_MAX, RETENTION_ROWS_MAX};
use crate::server::Shared;
use crate::server::doubt::Doubt;
use crate::server::keeping::look::{AtOnce, Counted, Look};
use crate::server::session::Session;
use crate::server::snapshot::Failed;
use crate::server::view::View;

pub(crate) use task::Task;

/// What is known of a group from looks before.
#[derive(Default)]
pub(in crate::server) struct Known {
    /// No row is left below this item.
    trimmed: MessageId,
    /// What was asked last: from which first kept item to which.
    asked: Option<(MessageId, MessageId)>,
    ages: Option<Ages>,
    counted: Option<Counted>,
    /// Whose device held back the first item when all members were looked at last.
    holder: Option<UserId>,
    /// A row of it can't be read: it is left alone.
    is_unreadable: bool,
}

/// What is known of the ages of a group's items, as long as the limits are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ages {
    first_kept: MessageId,
    limits: Limits,
    /// Items up to here lie ahead of the clock, before it shows this.
    ahead: MessageId,
    ahead_until_ms: u64,
    /// Nothing is old enough before the clock shows this.
    quiet_until_ms: u64,
}

/// The ages that matter now, in ms.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// From which on all goes.
    old: Option<u64>,
    /// From which on goes what every device has; none where one is known to hold back the first item already.
    settled: Option<u64>,
}

/// The machine.
pub(crate) struct Keeper {
    /// Items that are looked at, or removed, at once, and bytes of them.
    pub(crate) at_once: AtOnce,
    keeping: Keeping,
    clock: SteadyClock,
    since: Instant,
    /// The machine's clock lies behind.
    is_ahead: bool,
    known: BTreeMap<GroupId, Known>,
    /// Groups above this one were not looked at in this round; none: all were.
    rest: Option<GroupId>,
    due: VecDeque<GroupId>,
}

/// What comes of a step.
pub(crate) enum Step {
    /// This is to be decided.
    Ask(Box<Command>),
    /// Something was read, and there is more to do.
    Again,
    /// Nothing more is due now.
    Rest,
}

impl Keeper {
    /// A keeper for this view.
    pub(crate) fn new(view: &View, keeping: Keeping, now_ms: u64, now: Instant) -> Keeper {
        let kept_ms = view.read().tables.meta(Meta::RetentionClock);
        let clock = SteadyClock::from(kept_ms, now_ms);
        Keeper {
            at_once: AtOnce { rows: RETENTION_ROWS_MAX, bytes: PAGE_BYTES_MAX },
            keeping,
            clock,
            since: now,
            is_ahead: now_ms < clock.ms(),
            known: BTreeMap::new(),
            rest: None,
            due: VecDeque::new(),
        }
    }

    /// What its clock shows.
    pub(crate) fn clock_ms(&self) -> u64 {
        self.clock.ms()
    }

    /// Begins to look at all groups anew.
    pub(crate) fn begin(&mut self, now_ms: u64, now: Instant) {
        self.clock.pass(clock::whole_ms(now.saturating_duration_since(self.since)), now_ms);
        self.since = now;
        self.is_ahead = now_ms < self.clock.ms();
        self.due.clear();
        self.rest = Some(GroupId::ZERO);
    }

    /// Takes a step: for the next group that is due, or to find some that are.
    ///
    /// # Errors
    /// Where the index can't be read now, or a row of a group can't at all: that group is looked at no more, and the next
    /// step is for another.
    pub(crate) fn step(&mut self, view: &View) -> Result<Step, Failed> {
        let Some(group) = self.due.front().copied() else { return Ok(self.find(view)) };
        let look = Look::of(&view.read(), group, self.keeping, self.at_once);
        let mut known = self.known.remove(&group).unwrap_or_default();
        let stepped = self.look(view, &look, &mut known);
        known.is_unreadable = stepped.as_ref().is_err_and(Failed::is_of_a_row);
        if known.is_unreadable {
            warn!(%group, "a row of a group cannot be read: nothing more of it goes before the next start");
            self.due.pop_front();
        }
        self.known.insert(group, known);
        let stepped = stepped?;
        if let Step::Rest = stepped {
            self.due.pop_front();
            return Ok(Step::Again);
        }
        Ok(stepped)
    }

    /// Finds groups that keep less than all, or of which something is left to be removed.
    fn find(&mut self, view: &View) -> Step {
        let Some(after) = self.rest else { return Step::Rest };
        let tables = &view.read().tables;
        let groups: Vec<GroupId> = tables.groups_above(after).take(RETENTION_GROUPS_MAX).collect();
        self.rest = groups.last().copied();
        let first = MessageId::new(1);
        let is_due = |group: &GroupId| {
            let known = self.known.get(group);
            if known.is_some_and(|known| known.is_unreadable) {
                return false;
            }
            let is_trimmed = known.map_or(first, |known| known.trimmed) >= tables.first_kept(*group);
            !is_trimmed || !tables.retention(*group, self.keeping).keeps_all()
        };
        self.due = groups.into_iter().filter(is_due).collect();
        let (clock_ms, kept_ms) = (self.clock.ms(), tables.meta(Meta::RetentionClock));
        // Where everything is kept nobody asks what time it is.
        let is_far = clock_ms >= kept_ms.saturating_add(RETENTION_CLOCK_MS);
        // Where the machine's clock lies behind, ages begin with what is noted.
        let is_to_be_noted = kept_ms == 0 || is_far || self.is_ahead && clock_ms > kept_ms;
        if !self.due.is_empty() && is_to_be_noted {
            return Step::Ask(Box::new(Command::KeepClock { clock_ms }));
        }
        Step::Again
    }

    fn look(&self, view: &View, look: &Look, known: &mut Known) -> Result<Step, Failed> {
        if known.trimmed < look.first_kept {
            let Some(trim) = look.trim(known, view)? else {
                known.trimmed = look.first_kept;
                return Ok(Step::Again);
            };
            return Ok(Step::Ask(Box::new(Command::Trim(trim))));
        }
        let mut read = Read::default();
        match self.read_ages(view, look, known)? {
            ControlFlow::Continue(ages) => (read.old, read.settled) = ages,
            ControlFlow::Break(()) => return Ok(Step::Again),
        }
        if let Some(most) = look.policy.bytes {
            match look.count(known, most)? {
                ControlFlow::Continue(over) => read.over = over,
                ControlFlow::Break(()) => return Ok(Step::Again),
            }
        }
        self.retain(view, look, known, read)
    }

    /// Asks for the first kept item to move, if it may.
    fn retain(&self, view: &View, look: &Look, known: &mut Known, read: Read) -> Result<Step, Failed> {
        let clock_ms = self.clock.ms();
        let published = view.read();
        let most = published.tables.first_to_keep(look.group, look.policy, self.keeping, read, clock_ms);
        if most <= read.settled {
            let acked = published.tables.acked_from(look.group, most, self.keeping, clock_ms);
            known.holder = acked.break_value().map(|holder| holder.user);
        }
        drop(published);
        // What came since the look is for the next one.
        let most = most.min(look.head.next());
        let going = if most > look.first_kept { look.going(most)? } else { Vec::new() };
        let Some(last) = going.last() else {
            // Nothing may go, or somebody else has moved it.
            known.asked = None;
            return Ok(Step::Rest);
        };
        let to = last.msgid.next();
        // What was refused is asked again in the next round.
        let asked = Some((look.first_kept, to)).filter(|asked| known.asked != Some(*asked));
        known.asked = asked;
        if asked.is_none() {
            return Ok(Step::Rest);
        }
        look.take_off(known, &going, to);
        let (group, policy, content_gone) = (look.group, look.policy, last.record.content);
        Ok(Step::Ask(Box::new(Command::Retain(Retain { group, policy, read, to, content_gone, clock_ms }))))
    }

    /// Whether who held back the first item of a group still does. Nobody looks at all members while they do, and else only
    /// once something would go.
    fn is_held(&self, view: &View, look: &Look, known: &Known) -> bool {
        known.holder.is_some_and(|user| {
            let holder = view.read().tables.holder_of(look.group, user, self.keeping, self.clock.ms());
            holder.is_some_and(|holder| holder.acked < look.first_kept)
        })
    }

    /// Up to where items are too old, and old enough to go once every device has them; break while it is not known. At most
    /// so many are looked at.
    fn read_ages(
        &self,
        view: &View,
        look: &Look,
        known: &mut Known,
    ) -> Result<ControlFlow<(), (MessageId, MessageId)>, Failed> {
        let nothing = (MessageId::ZERO, MessageId::ZERO);
        let Retention { age_ms, acked_ms, .. } = look.policy;
        let limits = Limits { old: age_ms, settled: acked_ms.filter(|_| !self.is_held(view, look, known)) };
        let Some(soonest) = limits.old.into_iter().chain(limits.settled).min() else {
            return Ok(ControlFlow::Continue(nothing));
        };
        let anew = Ages {
            first_kept: look.first_kept,
            limits,
            ahead: look.first_kept.previous(),
            ahead_until_ms: u64::MAX,
            quiet_until_ms: 0,
        };
        let clock_ms = self.clock.ms();
        let stands = |ages: &Ages| ages.limits == anew.limits && clock_ms < ages.ahead_until_ms;
        let mut ages = match known.ages.filter(stands) {
            Some(ages) if ages.first_kept == anew.first_kept => ages,
            // What lay ahead of the clock still does; behind it another item may be the first.
            Some(ages) => Ages { ahead: ages.ahead.max(anew.ahead), ahead_until_ms: ages.ahead_until_ms, ..anew },
            None => anew,
        };
        if clock_ms < ages.quiet_until_ms {
            return Ok(ControlFlow::Continue(nothing));
        }
        let is_over = |time_ms: u64, limit: Option<u64>| {
            limit.is_some_and(|limit| clock_ms.checked_sub(limit).is_some_and(|border| time_ms <= border))
        };
        let (mut old, mut settled) = nothing;
        let items = look.page(ages.ahead, look.head)?;
        let mut of_the_clock = items.iter().map(|row| (row.msgid, look::time_of(row))).peekable();
        while let Some((msgid, time_ms)) = of_the_clock.next_if(|(_, time_ms)| *time_ms > clock_ms) {
            (ages.ahead, ages.ahead_until_ms) = (msgid, ages.ahead_until_ms.min(time_ms));
        }
        let is_ahead = of_the_clock.peek().is_none() && !items.is_empty();
        if let Some((_, time_ms)) = of_the_clock.peek() {
            ages.quiet_until_ms = time_ms.saturating_add(soonest);
        }
        for (msgid, time_ms) in of_the_clock.filter(|(_, time_ms)| *time_ms <= clock_ms) {
            let (is_old, is_settled) = (is_over(time_ms, limits.old), is_over(time_ms, limits.settled));
            if !is_old && !is_settled {
                break;
            }
            // What is older than something that is too old is so too.
            old = if is_old { msgid } else { old };
            settled = if is_settled { msgid } else { settled };
        }
        known.ages = Some(ages);
        Ok(if is_ahead { ControlFlow::Break(()) } else { ControlFlow::Continue((old, settled)) })
    }
}

/// A look failed: says whether the round goes on. A row that can't be read is doubt, as for whoever reads, and the other
/// groups are looked at all the same; for an index that fails, or is busy, all wait for the next round.
pub(crate) fn goes_on_after(failure: &Failed, view: &View, doubt: &Doubt) -> bool {
    // Nobody waits for a code.
    let _code = failure.code(view, doubt);
    failure.is_of_a_row()
}

/// What is to be decided of a device that listens: that it is there. None where that was noted today.
pub(crate) fn seen(shared: &Shared, session: &Session) -> Option<Command> {
    let device = session.device.filter(|_| session.listens)?;
    let day = day_of(clock_ms(shared));
    let seen_day = shared.view.read().tables.device(device)?.seen_day();
    (seen_day < day).then_some(Command::Seen { device, day })
}

/// What the clock shows that ages are reckoned by.
pub(crate) fn clock_ms(shared: &Shared) -> u64 {
    match shared.retention_ms.load(Ordering::Relaxed) {
        0 => clock::now_ms(),
        ms => ms,
    }
}
