//! The inbox of a profile on disk: what was received and not acknowledged by the application, by position.
//!
//! Rows are synced before anything is handed to the application, so that a position names the same item for ever. Marks
//! (how far was handed out, how far was acknowledged) are not: losing them repeats items, which are then marked as seen
//! before. The whole file may be lost; the server has everything that was not acknowledged. Only the holder of the
//! listener's lock touches it.
//!
//! What a recall takes back is in the file no more once the recall is, acknowledged or not: the file is made anew without
//! it, once for all that is stored together. What still waits keeps its place, and nothing of what it said.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::client::chance;
use crate::client::error::ProfileError;
use crate::client::journal::Journal;
use crate::core::inbox::{Delivery, Kept, Row};
use crate::disk::{SharedDisk, whole};
use crate::ids::{GroupId, MessageId};
use crate::wire::WireError;
use crate::wire::item::{Item, kind as said_as};
use crate::wire::row;

const NAME: &str = "inbox";
pub(super) const MAGIC: [u8; 8] = *b"ggl-inb1";
/// A file below this is not worth making anew.
const REWRITE_BYTES_MIN: u64 = 1024 * 1024;

/// Something that waits for the application.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// Its position.
    pub(super) number: u64,
    /// What it is.
    pub(super) what: Delivery,
}

impl Stored {
    fn place(&self) -> (GroupId, MessageId) {
        match &self.what {
            Delivery::Item(group, row) => (*group, row.msgid),
            Delivery::Gone(group, _, last) => (*group, *last),
        }
    }

    /// Bytes of it, as credit counts them.
    pub(super) fn bytes(&self) -> usize {
        match &self.what {
            Delivery::Item(_, row) => row.bytes.len(),
            Delivery::Gone(..) => 0,
        }
    }
}

/// What a row has to do with recalls.
enum Said {
    /// It says something, which goes when this is recalled.
    Of(MessageId),
    /// This is recalled.
    Recalls(MessageId),
    Nothing,
}

/// The msgid that a delivery recalls, with its group.
pub(super) fn recalled_by(what: &Delivery) -> Option<(GroupId, MessageId)> {
    match (what, said(what)) {
        (Delivery::Item(group, _), Said::Recalls(target)) => Some((*group, target)),
        (Delivery::Item(..) | Delivery::Gone(..), _) => None,
    }
}

/// What cannot be read says nothing.
fn said(what: &Delivery) -> Said {
    let Delivery::Item(_, row) = what else { return Said::Nothing };
    let Ok(item) = item_of(row) else { return Said::Nothing };
    match item.kind {
        said_as::RECALL => item.target().map_or(Said::Nothing, Said::Recalls),
        _ => item.goes_with().map_or(Said::Nothing, Said::Of),
    }
}

fn item_of(row: &Row) -> Result<Item, WireError> {
    row::rows(row.bytes.clone()).next().ok_or(WireError::BadRows)??.decode_item()
}

/// The row as the server gives it once its item is recalled.
fn wiped(row: &Row) -> Result<Row, WireError> {
    let mut bytes = BytesMut::new();
    row::Row::plain(item_of(row)?.wiped().encode()?).append_to(&mut bytes)?;
    Ok(Row { msgid: row.msgid, bytes: bytes.freeze() })
}

/// What the application acknowledged of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AckedGroup {
    pub(super) group: GroupId,
    pub(super) msgid: MessageId,
    pub(super) items: u64,
    pub(super) bytes: u64,
}

/// The file and what is known from it.
pub(super) struct InboxFile {
    journal: Journal,
    name: u64,
    next: u64,
    acked: u64,
    handed: u64,
    kept: BTreeMap<GroupId, Kept>,
    waiting: VecDeque<Stored>,
    waiting_bytes: usize,
    /// Whatever in the file says something, waiting or not: its group, what it goes with when that is recalled, its position.
    saying: BTreeSet<(GroupId, MessageId, u64)>,
    /// The file still says what was recalled.
    holds_recalled: bool,
}

impl std::fmt::Debug for InboxFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "InboxFile with {} waiting, next {}", self.waiting.len(), self.next)
    }
}

impl InboxFile {
    /// Opens or makes the inbox of the profile in this folder. True: there was one that could not be read; it is gone.
    pub(super) fn open(disk: &SharedDisk, folder: &Path) -> Result<(InboxFile, bool), ProfileError> {
        let mut inbox = InboxFile::empty(disk, folder);
        match inbox.load() {
            Ok(()) => Ok((inbox, false)),
            Err(ProfileError::Damaged { .. }) => {
                whole::remove(disk.as_ref(), &folder.join(NAME))?;
                let mut inbox = InboxFile::empty(disk, folder);
                inbox.load()?;
                Ok((inbox, true))
            }
            Err(error) => Err(error),
        }
    }

    fn empty(disk: &SharedDisk, folder: &Path) -> InboxFile {
        InboxFile {
            journal: Journal::new(disk.clone(), folder, NAME, MAGIC),
            name: 0,
            next: 1,
            acked: 0,
            handed: 0,
            kept: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            saying: BTreeSet::new(),
            holds_recalled: false,
        }
    }

    fn load(&mut self) -> Result<(), ProfileError> {
        let caught = self.journal.catch_up_to_write()?;
        for record in &caught.records {
            let record = decode(record).ok_or_else(|| self.journal.senseless(&"a record of an unknown kind"))?;
            if !self.follows(&record) {
                return Err(self.journal.senseless(&"a record that cannot follow those before it"));
            }
            self.take_in(record);
        }
        if self.name == 0 {
            self.name = chance::number()?.max(1);
            self.journal.append(&[encode(kind::NAME, &self.name)])?;
        }
        if self.holds_recalled { self.begin_anew() } else { Ok(()) }
    }

    /// Whether a record makes sense behind those before it: positions rise, and nothing is marked that was not given one.
    fn follows(&self, record: &Record) -> bool {
        match record {
            Record::Name(name) => *name != 0,
            Record::Next(next) => *next != u64::MAX,
            Record::Acked(number) | Record::Handed(number) | Record::Returned(number) => *number < self.next,
            Record::Group(..) => true,
            Record::Stored(stored) => {
                let before = self.waiting.back().map_or(self.acked, |last| last.number.max(self.acked));
                before < stored.number && stored.number != u64::MAX
            }
        }
    }

    fn take_in(&mut self, record: Record) {
        match record {
            Record::Name(name) => self.name = name,
            Record::Next(next) => self.next = self.next.max(next),
            Record::Acked(number) => drop(self.pass(number)),
            Record::Handed(number) => self.handed = self.handed.max(number),
            Record::Returned(number) => self.handed = number.max(self.acked),
            Record::Group(group, kept) => {
                let known = self.kept.entry(group).or_default();
                known.end = known.end.max(kept.end);
                known.acked = known.acked.max(kept.acked);
            }
            Record::Stored(stored) => self.keep(stored),
        }
    }

    fn keep(&mut self, stored: Stored) {
        let (group, msgid) = stored.place();
        let known = self.kept.entry(group).or_default();
        known.end = known.end.max(msgid);
        self.next = self.next.max(stored.number + 1);
        self.waiting_bytes += stored.bytes();
        match said(&stored.what) {
            Said::Of(msgid) => drop(self.saying.insert((group, msgid, stored.number))),
            Said::Recalls(target) => self.wipe(group, target),
            Said::Nothing => {}
        }
        self.waiting.push_back(stored);
    }

    /// Nothing of what was recalled waits any more, nor of its edits; what the file says of it is noted.
    fn wipe(&mut self, group: GroupId, target: MessageId) {
        let of_target = (group, target, 0)..=(group, target, u64::MAX);
        let numbers: Vec<u64> = self.saying.range(of_target).map(|(_, _, number)| *number).collect();
        for number in numbers {
            self.saying.remove(&(group, target, number));
            self.holds_recalled = true;
            let at = self.waiting.partition_point(|stored| stored.number < number);
            // What was acknowledged is only in the file.
            let Some(stored) = self.waiting.get_mut(at).filter(|stored| stored.number == number) else { continue };
            let Delivery::Item(_, row) = &mut stored.what else { continue };
            // What was read can be written, with less in it.
            let Ok(wiped) = wiped(row) else { continue };
            self.waiting_bytes = self.waiting_bytes + wiped.bytes.len() - row.bytes.len();
            *row = wiped;
        }
    }

    /// The random name of this inbox, for positions.
    pub(super) const fn name(&self) -> u64 {
        self.name
    }

    /// What was handed out up to here, by this or an earlier process.
    pub(super) const fn handed(&self) -> u64 {
        self.handed
    }

    /// What the application has acknowledged.
    pub(super) const fn acked(&self) -> u64 {
        self.acked
    }

    /// The last position that was given.
    pub(super) const fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// How much waits for the application's ack.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting_bytes)
    }

    /// Where each group stands.
    pub(super) fn kept(&self) -> impl Iterator<Item = (GroupId, Kept)> + '_ {
        self.kept.iter().map(|(group, kept)| (*group, *kept))
    }

    /// What comes behind this position, in order.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = &Stored> {
        let from = self.waiting.partition_point(|stored| stored.number <= number);
        self.waiting.range(from..)
    }

    /// Stores what was delivered, and where the groups stand then. Kept for certain once synced; of what it recalls the
    /// file says nothing any more when this returns. Where it fails, this value is of no use any more.
    pub(super) fn store(&mut self, deliveries: Vec<Delivery>, groups: &[(GroupId, Kept)]) -> Result<(), ProfileError> {
        let (first, before) = (self.next, self.waiting.len());
        for (number, what) in (first..).zip(deliveries) {
            self.keep(Stored { number, what });
        }
        for (group, kept) in groups {
            self.take_in(Record::Group(*group, *kept));
        }
        if self.holds_recalled {
            return self.begin_anew();
        }
        let stored = self.waiting.range(before..).map(encode_stored);
        let groups = groups.iter().map(|(group, kept)| encode(kind::GROUP, &(*group, kept.end, kept.acked)));
        self.journal.append(&stored.chain(groups).collect::<Vec<_>>())
    }

    /// Replaces the file by one without what is dead, durably.
    fn begin_anew(&mut self) -> Result<(), ProfileError> {
        self.journal.rewrite(&self.condensed())?;
        self.saying.retain(|(_, _, number)| *number > self.acked);
        self.holds_recalled = false;
        Ok(())
    }

    /// Makes everything noted so far durable.
    pub(super) fn sync(&mut self) -> Result<(), ProfileError> {
        self.journal.sync()
    }

    /// Notes that everything up to this position is being handed out, which must be durable before it is: else what comes
    /// again after a power loss would not say so.
    pub(super) fn hand(&mut self, number: u64) -> Result<(), ProfileError> {
        if number <= self.handed {
            return Ok(());
        }
        self.handed = number;
        self.journal.append(&[encode(kind::HANDED, &number)])
    }

    /// At an orderly end: of what was handed out the application took only what lies up to here.
    pub(super) fn take_back(&mut self, number: u64) -> Result<(), ProfileError> {
        let number = number.max(self.acked);
        if number >= self.handed {
            return Ok(());
        }
        self.handed = number;
        self.journal.append(&[encode(kind::RETURNED, &number)])
    }

    /// The application has everything up to this position: says what that is in each group.
    pub(super) fn ack(&mut self, number: u64) -> Result<Vec<AckedGroup>, ProfileError> {
        let number = number.min(self.next.saturating_sub(1));
        if number <= self.acked {
            return Ok(Vec::new());
        }
        let passed = self.pass(number);
        if self.journal.end() > REWRITE_BYTES_MIN && self.journal.end() > 4 * self.waiting_bytes as u64 {
            self.begin_anew()?;
        } else {
            self.journal.append(&[encode(kind::ACKED, &number)])?;
        }
        Ok(passed)
    }

    fn pass(&mut self, number: u64) -> Vec<AckedGroup> {
        self.acked = self.acked.max(number);
        self.handed = self.handed.max(number);
        let mut groups: BTreeMap<GroupId, AckedGroup> = BTreeMap::new();
        let passed = self.waiting.partition_point(|stored| stored.number <= number);
        for stored in self.waiting.drain(..passed) {
            let (group, msgid) = stored.place();
            let sum = groups.entry(group).or_insert(AckedGroup { group, msgid, items: 0, bytes: 0 });
            sum.msgid = sum.msgid.max(msgid);
            sum.items += 1;
            sum.bytes += stored.bytes() as u64;
            self.waiting_bytes -= stored.bytes();
            let known = self.kept.entry(group).or_default();
            known.acked = known.acked.max(msgid);
        }
        groups.into_values().collect()
    }

    fn condensed(&self) -> Vec<Vec<u8>> {
        let marks = [
            encode(kind::NAME, &self.name),
            encode(kind::NEXT, &self.next),
            encode(kind::ACKED, &self.acked),
            encode(kind::HANDED, &self.handed),
        ];
        let groups = self.kept.iter().map(|(group, kept)| encode(kind::GROUP, &(*group, kept.end, kept.acked)));
        marks.into_iter().chain(groups).chain(self.waiting.iter().map(encode_stored)).collect()
    }
}

enum Record {
    Name(u64),
    Next(u64),
    Acked(u64),
    Handed(u64),
    Returned(u64),
    Group(GroupId, Kept),
    Stored(Stored),
}

mod kind {
    pub(super) const NAME: u8 = 1;
    pub(super) const NEXT: u8 = 2;
    pub(super) const ACKED: u8 = 3;
    pub(super) const HANDED: u8 = 4;
    pub(super) const GROUP: u8 = 5;
    pub(super) const ITEM: u8 = 6;
    pub(super) const GONE: u8 = 7;
    pub(super) const RETURNED: u8 = 8;
}

/// These values always have an encoding: they are numbers and bytes of bounded length.
fn encode<T: Serialize>(kind: u8, value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![kind]).unwrap_or_default()
}

fn encode_stored(stored: &Stored) -> Vec<u8> {
    match &stored.what {
        Delivery::Item(group, row) => encode(kind::ITEM, &(stored.number, *group, row.msgid, &row.bytes)),
        Delivery::Gone(group, first, last) => encode(kind::GONE, &(stored.number, *group, *first, *last)),
    }
}

fn decode(record: &[u8]) -> Option<Record> {
    let (kind, body) = record.split_first()?;
    Some(match *kind {
        kind::NAME => Record::Name(read(body)?),
        kind::NEXT => Record::Next(read(body)?),
        kind::ACKED => Record::Acked(read(body)?),
        kind::HANDED => Record::Handed(read(body)?),
        kind::RETURNED => Record::Returned(read(body)?),
        kind::GROUP => read(body).map(|(group, end, acked)| Record::Group(group, Kept { end, acked }))?,
        kind::ITEM => {
            let (number, group, msgid, bytes) = read::<(u64, GroupId, MessageId, Bytes)>(body)?;
            Record::Stored(Stored { number, what: Delivery::Item(group, Row { msgid, bytes }) })
        }
        kind::GONE => {
            let (number, group, first, last) = read(body)?;
            Record::Stored(Stored { number, what: Delivery::Gone(group, first, last) })
        }
        _ => return None,
    })
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    postcard::from_bytes(body).ok()
}
