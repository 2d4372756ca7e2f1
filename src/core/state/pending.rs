//! The batch that is being decided, laid over the committed view.
//!
//! Its rows are kept in the same structure as the committed ones; what is removed is remembered beside them. What a
//! batch adds to the bounded tables is counted here, so that no bound is passed within a batch.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::rows::{CodeHash, ItemRow, Write};
use crate::core::tables::Tables;
use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId};

/// Rows of the batch under way.
#[derive(Default)]
pub(super) struct Pending {
    /// Rows put by the batch. Its counts and counters of members mean nothing.
    pub(super) rows: Tables,
    /// Items that the batch added or changed, as they are now.
    items: BTreeMap<(GroupId, MessageId), ItemRow>,
    gone_invites: BTreeSet<CodeHash>,
    gone_sends: BTreeSet<(DeviceId, ClientSeq)>,
    /// Rows that neither the committed view nor the batch had before.
    pub(super) added: Added,
}

/// Rows that a batch adds to bounded tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Added {
    pub(super) users: usize,
    pub(super) groups: usize,
    pub(super) devices: usize,
    pub(super) memberships: usize,
    pub(super) cursors: usize,
    pub(super) invites: usize,
}

impl Pending {
    /// Takes a write over this committed view.
    pub(super) fn put(&mut self, tables: &Tables, write: &Write) {
        let (rows, added) = (&self.rows, &mut self.added);
        match write {
            Write::Group(group, _) => {
                added.groups += usize::from(rows.group(*group).or(tables.group(*group)).is_none());
            }
            Write::Member(group, user, _) => {
                let before = rows.member(*group, *user).or(tables.member(*group, *user));
                added.memberships += usize::from(before.is_none());
            }
            Write::Cursor(group, user, device, _) => {
                let before = rows.cursor(*group, *user, *device).or_else(|| tables.cursor(*group, *user, *device));
                added.cursors += usize::from(before.is_none());
            }
            Write::User(user, _) => added.users += usize::from(rows.user(*user).or(tables.user(*user)).is_none()),
            Write::Device(device, _) => {
                added.devices += usize::from(rows.device(*device).or(tables.device(*device)).is_none());
            }
            Write::Invite(code, _) => {
                added.invites += usize::from(rows.invite(*code).or(tables.invite(*code)).is_none());
                self.gone_invites.remove(code);
            }
            Write::InviteGone(code) => {
                self.gone_invites.insert(*code);
            }
            Write::Send(device, seq, _) => {
                self.gone_sends.remove(&(*device, *seq));
            }
            Write::SendGone(device, seq) => {
                self.gone_sends.insert((*device, *seq));
            }
            Write::Item(item) | Write::Changed(item) => {
                self.items.insert((item.group, item.msgid), item.clone());
            }
            Write::ItemGone(..)
            | Write::OwnGone(..)
            | Write::RecalledGone(..)
            | Write::MentionGone(..)
            | Write::Recalled(..)
            | Write::Mention(..)
            | Write::SendWindow(..)
            | Write::Meta(..) => {}
        }
        self.rows.apply(std::slice::from_ref(write));
    }

    /// An item that the batch added or changed.
    pub(super) fn item(&self, group: GroupId, msgid: MessageId) -> Option<&ItemRow> {
        self.items.get(&(group, msgid))
    }

    pub(super) fn is_invite_gone(&self, code: CodeHash) -> bool {
        self.gone_invites.contains(&code)
    }

    pub(super) fn is_send_gone(&self, device: DeviceId, seq: ClientSeq) -> bool {
        self.gone_sends.contains(&(device, seq))
    }
}
