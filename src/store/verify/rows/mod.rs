//! What rows say of one another: that each refers to what there is, and none says more than another allows.
//!
//! Small trees are read first and kept (people, devices, groups, memberships: what a server holds in memory too, and
//! bounded by the same limits); items are read once in order and leave a few numbers for each group and author. A row
//! that is no record was said when the log was read, or differs from the log; here it is only passed over.

mod groups;
mod items;
mod people;
mod sends;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::store::engine::EngineError;
use crate::store::records::{GroupRecord, MessageRecord, group_extension};
use crate::store::tree::Tree;
use crate::store::verify::row::{self, Meaning, Understand};
use crate::store::verify::said::Report;
use crate::store::verify::view::View;

/// What is kept of a user.
struct User {
    handle: String,
    is_deleted: bool,
    holds_handle: bool,
}

/// What is kept of a device.
struct Device {
    user: UserId,
    key: [u8; 32],
    invite: [u8; 32],
    is_revoked: bool,
}

/// What is kept of a group.
struct Group {
    first_kept: MessageId,
    /// Content items below it; none where that can't be read.
    content_gone: Option<u64>,
    head_mark: MessageId,
    content_mark: u64,
    head: MessageId,
    content: u64,
}

/// The content items of an author in a group: the ordinals, and a digest over (ordinal, msgid).
#[derive(Default, Clone, Copy, PartialEq, Eq)]
struct Authored {
    first: u64,
    last: u64,
    digest: u64,
}

/// How many rows were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// All.
    pub rows: u64,
    /// Groups.
    pub groups: u64,
    /// Users.
    pub users: u64,
    /// Items.
    pub items: u64,
}

/// The check of one view.
pub(super) struct Rows<'a, 'r> {
    view: &'a View,
    understand: &'a Understand,
    report: &'a mut Report<'r>,
    counted: Counted,
    counters: BTreeMap<String, u64>,
    users: BTreeMap<UserId, User>,
    devices: BTreeMap<DeviceId, Device>,
    groups: BTreeMap<GroupId, Group>,
    authored: BTreeMap<(GroupId, UserId), Authored>,
    /// Content items that say that they were recalled.
    wiped: BTreeSet<(GroupId, MessageId)>,
    members: BTreeSet<(GroupId, UserId)>,
    /// Groups with members, and whether one of them is an owner.
    owned: BTreeMap<GroupId, bool>,
}

impl<'a, 'r> Rows<'a, 'r> {
    pub(super) fn new(view: &'a View, understand: &'a Understand, report: &'a mut Report<'r>) -> Rows<'a, 'r> {
        Rows {
            view,
            understand,
            report,
            counted: Counted::default(),
            counters: BTreeMap::new(),
            users: BTreeMap::new(),
            devices: BTreeMap::new(),
            groups: BTreeMap::new(),
            authored: BTreeMap::new(),
            wiped: BTreeSet::new(),
            members: BTreeSet::new(),
            owned: BTreeMap::new(),
        }
    }

    /// Checks everything.
    pub(super) fn run(mut self) -> Result<Counted, EngineError> {
        self.meta()?;
        self.users()?;
        self.devices()?;
        self.load_groups()?;
        self.items()?;
        self.own()?;
        self.recalled()?;
        self.mentions()?;
        self.members()?;
        self.memberships()?;
        self.cursors()?;
        self.sends()?;
        self.invites()?;
        self.counted.groups = u64::try_from(self.groups.len()).unwrap_or(u64::MAX);
        self.counted.users = u64::try_from(self.users.len()).unwrap_or(u64::MAX);
        Ok(self.counted)
    }

    /// Visits each row of a tree that is a record, with what it means where it is an item.
    fn each(
        &mut self,
        tree: Tree,
        mut row: impl FnMut(&mut Self, &[u8], &Bytes, Option<Meaning>),
    ) -> Result<(), EngineError> {
        let view = self.view;
        view.scan(tree, &[], &mut |key, value| {
            self.counted.rows += 1;
            if self.counted.rows.is_multiple_of(4096) {
                self.report.step("checking rows", self.counted.rows, None, "rows");
            }
            if let Ok(meaning) = row::check(tree, key, value, self.understand) {
                row(self, key, value, meaning);
            }
            ControlFlow::Continue(())
        })
    }

    fn load_groups(&mut self) -> Result<(), EngineError> {
        self.each(Tree::Groups, |rows, key, value, _| {
            let (Ok(group), Ok(record)) = (crate::store::keys::parse_group(key), GroupRecord::decode(value)) else {
                return;
            };
            rows.counted_id("last-group", group.value(), group <= GroupId::COUNTED_MAX, &group.to_string());
            rows.groups.insert(
                group,
                Group {
                    first_kept: record.first_kept,
                    content_gone: record.extensions.number(group_extension::CONTENT_GONE).ok(),
                    head_mark: record.head_mark,
                    content_mark: record.content_mark,
                    head: MessageId::ZERO,
                    content: 0,
                },
            );
        })
    }

    /// An id that was given out is not above its counter.
    fn counted_id(&mut self, counter: &str, id: u64, is_counted: bool, name: &str) {
        let last = self.counters.get(counter).copied().unwrap_or(0);
        if is_counted && id > last {
            self.report.rows(format!("{name} exists, but the counter {counter} stands at {last}"));
        }
    }

    /// The head of a group; none where there is no such group.
    fn head(&self, group: GroupId) -> Option<MessageId> {
        self.groups.get(&group).map(|group| group.head)
    }

    /// An item, if it is there and can be understood.
    fn item(&self, group: GroupId, msgid: MessageId) -> Result<Option<(MessageRecord, Meaning)>, EngineError> {
        let key = crate::store::keys::message(group, msgid);
        let Some(value) = self.view.get(Tree::Messages, &key)? else { return Ok(None) };
        let meaning = row::check(Tree::Messages, &key, &value, self.understand).ok().flatten();
        Ok(MessageRecord::decode(&value).ok().zip(meaning))
    }
}
