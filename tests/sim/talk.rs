//! What an application knows of its conversations, and asks: the list as far as it has changed, and read marks.

use std::collections::BTreeMap;

use gaggle::client::stepped::Process;
use gaggle::ids::{GroupId, MessageId, UserId};
use gaggle::wire::codec::RawFrame;
use gaggle::wire::frame::{self, ConversationList, Extensions, Frame};

use crate::model::{Broken, Mark, PREVIEW_BYTES, Row};

/// What was asked and is not answered.
enum Question {
    /// The next part of the list.
    List(Listing),
    /// How a read mark stands now.
    Mark,
    /// Who has received and read an item.
    Receipts,
}

/// A list that is being read.
#[derive(Clone, Copy)]
struct Listing {
    /// What had changed when it began, as the model counts.
    changes: u64,
    /// The version that its first part told.
    version: Option<u64>,
    behind: Option<(u64, GroupId)>,
    rows: u32,
}

/// See the module.
#[derive(Default)]
pub struct Talk {
    /// It has been away, and what changed meanwhile nobody tells.
    pub wants_list: bool,
    rows: BTreeMap<GroupId, Row>,
    /// What to ask since.
    version: u64,
    marks: BTreeMap<GroupId, Mark>,
    asked: BTreeMap<u64, Question>,
    /// Everything had come that had changed by then, as the model counts.
    listed: Option<u64>,
}

impl Talk {
    /// Its process is gone; what it knew is kept, or not.
    pub fn ended(&mut self, keeps: bool) {
        self.asked.clear();
        if !keeps {
            *self = Talk::default();
        }
    }

    /// A read mark is told: of two the later one counts.
    pub fn told(&mut self, group: GroupId, mark: Mark) {
        let known = self.marks.entry(group).or_default();
        *known = mark.max(*known);
    }

    /// How it knows a read mark.
    pub fn mark(&self, group: GroupId) -> Mark {
        self.marks.get(&group).copied().unwrap_or_default()
    }

    /// All that it knows: conversations, and read marks.
    pub fn known(&self) -> (&BTreeMap<GroupId, Row>, &BTreeMap<GroupId, Mark>) {
        (&self.rows, &self.marks)
    }

    /// Whether it has listed all that had changed by then.
    pub fn has_listed(&self, changes: u64) -> bool {
        self.listed == Some(changes)
    }

    // ---- questions --------------------------------------------------------------------------------------------------

    /// Begins to read what has changed, so many rows at a time, where there is a connection and it is not doing so.
    pub fn list(&mut self, process: &mut Process, changes: u64, rows: u32) {
        if !self.asked.values().any(|question| matches!(question, Question::List(_))) {
            self.go_on(process, Listing { changes, version: None, behind: None, rows });
        }
    }

    fn go_on(&mut self, process: &mut Process, listing: Listing) {
        let Listing { behind, rows, .. } = listing;
        let (preview_bytes, extensions) = (PREVIEW_BYTES as u32, Extensions::default());
        let question = frame::Conversations { since: self.version, behind, rows, preview_bytes, extensions };
        if let Some(number) = process.look(&question) {
            self.asked.insert(number, Question::List(listing));
        }
    }

    /// Everything up to there is read.
    pub fn read(&mut self, process: &mut Process, gid: GroupId, msgid: MessageId) {
        let version = self.mark(gid).version;
        let question = frame::MarkRead { gid, msgid, version, extensions: Extensions::default() };
        self.asked.extend(process.ask(&question).map(|number| (number, Question::Mark)));
    }

    /// Everything behind there is to count as unread.
    pub fn unread(&mut self, process: &mut Process, gid: GroupId, msgid: MessageId) {
        let version = self.mark(gid).version;
        let question = frame::MarkUnread { gid, msgid, version, extensions: Extensions::default() };
        self.asked.extend(process.ask(&question).map(|number| (number, Question::Mark)));
    }

    /// Who has received and read an item?
    pub fn receipts(&mut self, process: &mut Process, gid: GroupId, msgid: MessageId) {
        let question = frame::Receipts { gid, msgid, after: UserId::ZERO, extensions: Extensions::default() };
        self.asked.extend(process.look(&question).map(|number| (number, Question::Receipts)));
    }

    // ---- answers ----------------------------------------------------------------------------------------------------

    /// Takes what was answered.
    pub fn answers(&mut self, process: &mut Process) -> Result<(), Broken> {
        for (number, answer) in process.take_answers() {
            match (self.asked.remove(&number), answer) {
                (Some(Question::List(listing)), Some(frame)) => self.listed(process, listing, &frame)?,
                (Some(Question::Mark), Some(frame)) if frame.kind == frame::ReadMark::TYPE => {
                    let frame::ReadMark { gid, msgid, version, .. } = read(&frame)?;
                    self.told(gid, Mark { version, msgid });
                }
                // Who hears nothing of it comes back to it with the next list.
                (Some(Question::List(_)), None) => self.wants_list = true,
                (Some(Question::Mark | Question::Receipts), _) | (None, _) => {}
            }
        }
        Ok(())
    }

    fn listed(&mut self, process: &mut Process, mut listing: Listing, frame: &RawFrame) -> Result<(), Broken> {
        if frame.kind != ConversationList::TYPE {
            self.wants_list = true;
            return Ok(());
        }
        let ConversationList { rows, more, version, .. } = read(frame)?;
        listing.version.get_or_insert(version);
        listing.behind = rows.0.last().map(|row| (row.changed, row.gid));
        for told in &rows.0 {
            let row = Row::of(told);
            self.told(told.gid, row.mark());
            self.rows.insert(told.gid, row);
        }
        if more && !rows.0.is_empty() {
            self.go_on(process, listing);
        } else {
            self.version = listing.version.unwrap_or_default();
            self.listed = Some(listing.changes);
        }
        Ok(())
    }
}

fn read<F: Frame>(raw: &RawFrame) -> Result<F, Broken> {
    raw.decode().map_err(|error| format!("an answer of type {} cannot be read: {error}", raw.kind))
}
