//! How the server is, and what a group keeps and why: put together by a reader thread, since the one asks the disk how large
//! the index is, and the other looks at every device of every member.

use crate::core::authorise::Verb;
use crate::core::retention::{Holder, Keeping, Retention};
use crate::core::rows::UserRow;
use crate::core::tables::Tables;
use crate::ids::{GroupId, MessageId, UserId};
use crate::limits::RECEIPTS_LOOKED_MAX;
use crate::server::translate;
use crate::server::view::View;
use crate::wire::code::Code;
use crate::wire::frame::{Extensions, RetentionInfo, StatusInfo};

/// How the server is, as far as the view does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusAsked {
    /// For how long it has been running.
    pub(crate) uptime_ms: u64,
    /// How many are connected.
    pub(crate) connections: u64,
    /// Bytes of the log on disk.
    pub(crate) log_bytes: u64,
    /// Bytes of what is live in it.
    pub(crate) log_live_bytes: u64,
}

impl StatusAsked {
    /// The rest of it.
    pub(crate) fn read(self, view: &View) -> StatusInfo {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let published = view.read();
        let (counts, durable, engine) = (published.tables.counts(), published.durable, published.engine.clone());
        drop(published);
        StatusInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.uptime_ms,
            users: count(counts.users),
            groups: count(counts.groups),
            devices: count(counts.devices_live),
            connections: self.connections,
            items: counts.items,
            durable_lsn: durable.value(),
            log_bytes: self.log_bytes,
            extensions: Extensions::default(),
        }
        .with_sizes(engine.disk_bytes(), self.log_live_bytes)
    }
}

/// What a group keeps is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetentionAsked {
    /// By whom.
    pub(crate) user: UserId,
    /// Which group.
    pub(crate) group: GroupId,
    /// What groups keep that say nothing of it.
    pub(crate) keeping: Keeping,
    /// What the clock of retention shows.
    pub(crate) clock_ms: u64,
}

impl RetentionAsked {
    /// What it keeps, and why.
    pub(crate) fn read(self, view: &View) -> Result<RetentionInfo, Code> {
        let RetentionAsked { user, group: gid, keeping, clock_ms } = self;
        let published = view.read();
        let tables = &published.tables;
        tables.may_in(gid, Verb::ShowRetention, Some(user)).map_err(translate::code)?;
        let Retention { age_ms, count, bytes, acked_ms } = tables.retention(gid, keeping);
        let (own, first_kept) = (tables.group(gid).is_some_and(|row| row.retention.is_some()), tables.first_kept(gid));
        let head = tables.head(gid);
        drop(published);
        // Where nothing is kept for devices, none holds anything.
        let holder = acked_ms.and_then(|_| self.holder(view, first_kept, head));
        Ok(RetentionInfo {
            gid,
            own,
            age_s: age_ms.map(|ms| ms / 1_000),
            count,
            bytes,
            acked_s: acked_ms.map(|ms| ms / 1_000),
            first_kept,
            head,
            clock_ms,
            unseen_s: keeping.unseen_ms / 1_000,
            holder_user: holder.map(|holder| holder.user),
            holder_device: holder.map(|holder| holder.device),
            holder_acked: holder.map_or(head, |holder| holder.acked),
            holder_seen_day: holder.map_or(0, |holder| holder.seen_day),
            extensions: Extensions::default(),
        })
    }

    /// Of the devices that have not acknowledged everything the one that has least, as far as its user lets others know. One
    /// of whom nobody is told what they have received is named to who can do something about it, owners and operators, where
    /// it stands in the way of the next item, and without how far it is.
    fn holder(self, view: &View, first_kept: MessageId, head: MessageId) -> Option<Holder> {
        let (mut silent, mut telling) = (None, None);
        let mut after = Some(UserId::ZERO);
        while let Some(from) = after {
            // A commit waits no longer than for these.
            let published = view.read();
            let tables = &published.tables;
            let is_named = self.names_silent(tables);
            after = None;
            for (member, _) in tables.members(self.group, from).take(RECEIPTS_LOOKED_MAX) {
                after = Some(member);
                let holder = tables.holder_of(self.group, member, self.keeping, self.clock_ms);
                let holder = holder.filter(|holder| holder.acked < head);
                if member == self.user || tables.user(member).is_some_and(UserRow::tells_receipts) {
                    telling = least(telling, holder);
                } else {
                    silent = least(silent, holder.filter(|holder| is_named && holder.acked < first_kept));
                }
            }
        }
        let silent = silent.filter(|silent| telling.is_none_or(|telling| silent.acked < telling.acked));
        silent.map(|silent| Holder { acked: MessageId::ZERO, seen_day: 0, ..silent }).or(telling)
    }

    fn names_silent(self, tables: &Tables) -> bool {
        let is_owner = tables.may_in(self.group, Verb::SetRetention, Some(self.user)).is_ok();
        is_owner || tables.user(self.user).is_some_and(|row| row.operator)
    }
}

/// Of two the one that has acknowledged less.
fn least(one: Option<Holder>, other: Option<Holder>) -> Option<Holder> {
    one.into_iter().chain(other).min_by_key(|holder| holder.acked)
}
