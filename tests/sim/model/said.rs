//! What members say and do in a group: who might, and what of it each reader may see.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gaggle::ids::{DeviceId, GroupId, MessageId, UserId};
use gaggle::wire::item::{self, Item, kind};
use gaggle::wire::said::mentions_in;

use super::{Broken, Committed, Shown};

/// The number of a plain member's role; those of owners and admins lie below.
const MEMBER: u8 = 3;
const OWNER: u8 = 1;

/// One group.
#[derive(Default)]
pub(super) struct History {
    pub(super) items: Vec<Committed>,
    pub(super) full_history: bool,
    /// How many items, from the first on, it does not keep any more.
    gone: u64,
    members: BTreeMap<UserId, Member>,
    recalled: BTreeSet<MessageId>,
    /// Whose recalls may be in the log and are not shown yet.
    pub(super) wiped_early: BTreeSet<MessageId>,
    /// The edits of each item.
    edits: BTreeMap<MessageId, Vec<MessageId>>,
    /// The last message of each device in it, by the order in which they were queued.
    pub(super) last_of: BTreeMap<DeviceId, u64>,
}

/// What a user is and was in a group.
#[derive(Default)]
struct Member {
    role: u8,
    muted: bool,
    /// The operator of the group was told that they can't be added again.
    banned: bool,
    stays: Vec<Stay>,
    /// Counts what has changed for them.
    changes: usize,
}

/// The join item, the first visible one, and the one that ended it; none of these while it lasts.
struct Stay {
    joined: MessageId,
    first: MessageId,
    last: Option<MessageId>,
}

impl Stay {
    fn sees(&self, msgid: MessageId) -> bool {
        self.first <= msgid && self.last.is_none_or(|last| msgid <= last)
    }
}

impl Member {
    fn is_present(&self) -> bool {
        self.stays.last().is_some_and(|stay| stay.last.is_none())
    }

    fn sees(&self, msgid: MessageId) -> bool {
        self.stays.iter().any(|stay| stay.sees(msgid))
    }
}

impl History {
    pub(super) fn head(&self) -> MessageId {
        MessageId::new(self.items.len() as u64)
    }

    pub(super) fn item(&self, msgid: MessageId) -> Option<&Committed> {
        self.items.get(usize::try_from(msgid.value().checked_sub(1)?).ok()?)
    }

    // ---- what happens -----------------------------------------------------------------------------------------------

    /// Adds an item, which is the next. Answers who joins with it.
    pub(super) fn add(&mut self, bytes: Bytes, item: Item) -> Result<Vec<UserId>, Broken> {
        let msgid = item.msgid;
        let mut joins = Vec::new();
        let mut mentions = Vec::new();
        match item.kind {
            kind::TEXT | kind::EDIT | kind::RECALL | kind::REACTION => {
                self.check(&item)?;
                let named = mentions_in(&item.extensions).map_err(|error| error.to_string())?;
                let others = named.into_iter().filter(|user| *user != item.author && self.is_member(*user));
                mentions = others.filter(|_| item.kind == kind::TEXT).collect();
                let target = item.target().unwrap_or_default();
                match item.kind {
                    kind::EDIT => self.edits.entry(target).or_default().push(msgid),
                    kind::RECALL => drop(self.recalled.insert(target)),
                    _ => {}
                }
            }
            kind::CREATED => {
                self.full_history = read::<item::Created>(&item)?.policy == 1;
                joins = item.gid.pair().map_or(vec![item.author], |(low, high)| vec![low, high]);
                joins.dedup();
                let role = if item.gid.pair().is_some() { MEMBER } else { OWNER };
                joins.iter().try_for_each(|user| self.enters(*user, role, msgid))?;
            }
            kind::JOINED => {
                let user = read::<item::Joined>(&item)?.user;
                self.enters(user, MEMBER, msgid)?;
                joins.push(user);
            }
            kind::LEFT | kind::REMOVED => {
                let member = self.changing(read::<item::Left>(&item)?.user);
                member.muted = false;
                if let Some(stay) = member.stays.last_mut() {
                    stay.last.get_or_insert(msgid);
                }
            }
            kind::ROLE_CHANGED => {
                let item::RoleChanged { user, role, .. } = read(&item)?;
                let member = self.changing(user);
                member.role = role;
                member.muted &= role != OWNER;
            }
            kind::MUTED => {
                let item::Muted { user, muted, .. } = read(&item)?;
                self.changing(user).muted = muted;
            }
            kind::BAN_LIFTED => self.changing(read::<item::BanLifted>(&item)?.user).banned = false,
            _ => {}
        }
        self.items.push(Committed { bytes, item, mentions });
        Ok(joins)
    }

    fn changing(&mut self, user: UserId) -> &mut Member {
        let member = self.members.entry(user).or_default();
        member.changes += 1;
        member
    }

    fn enters(&mut self, user: UserId, role: u8, at: MessageId) -> Result<(), Broken> {
        let first = if self.full_history { MessageId::new(1) } else { at };
        let member = self.changing(user);
        if member.banned || member.is_present() {
            return Err(format!("{user} joined at {at}, who is banned or there already"));
        }
        member.role = role;
        member.stays.push(Stay { joined: at, first, last: None });
        Ok(())
    }

    /// Somebody was told that a user is out for good.
    pub(super) fn ban(&mut self, user: UserId) {
        self.changing(user).banned = true;
    }

    /// Whether its author might say this, and about what it is about.
    fn check(&self, item: &Item) -> Result<(), Broken> {
        let Item { gid, msgid, author, .. } = *item;
        let member = self.members.get(&author).filter(|member| member.is_present() && !member.muted);
        let member = member.ok_or_else(|| format!("{gid} {msgid} is of {author}, who may not send there"))?;
        let Some(target) = item.target() else { return Ok(()) };
        let about = self.item(target).filter(|about| about.item.is_content() && member.sees(target));
        let about = about.ok_or_else(|| format!("{gid} {msgid} is about {target}, which {author} may not see"))?;
        if self.recalled.contains(&target) {
            return Err(format!("{gid} {msgid} is about {target}, which was recalled"));
        }
        let may = match item.kind {
            kind::EDIT => about.item.author == author,
            kind::RECALL => about.item.author == author || member.role < MEMBER,
            _ => true,
        };
        if may { Ok(()) } else { Err(format!("{gid} {msgid} of {author} is about {target} of {}", about.item.author)) }
    }

    // ---- who is there -----------------------------------------------------------------------------------------------

    /// Everybody who is or was in it.
    pub(super) fn users(&self) -> impl Iterator<Item = UserId> + '_ {
        self.members.iter().filter(|(_, member)| !member.stays.is_empty()).map(|(user, _)| *user)
    }

    pub(super) fn is_member(&self, user: UserId) -> bool {
        self.members.get(&user).is_some_and(Member::is_present)
    }

    /// The number of a user's role, and of the members; for a former member zero and none.
    pub(super) fn role(&self, user: UserId) -> (u8, usize) {
        let Some(member) = self.members.get(&user).filter(|member| member.is_present()) else { return (0, 0) };
        (member.role, self.members.values().filter(|member| member.is_present()).count())
    }

    /// Under what a user may send: another each time that something has changed for them; none where they may not.
    pub(super) fn voice(&self, user: UserId) -> Option<usize> {
        let member = self.members.get(&user)?;
        (member.is_present() && !member.muted).then_some(member.changes)
    }

    /// The item with which a user's last stay began.
    pub(super) fn joined(&self, user: UserId) -> MessageId {
        let stays = self.members.get(&user).and_then(|member| member.stays.last());
        stays.map_or(MessageId::ZERO, |stay| stay.joined)
    }

    /// Whether a user was in the group when an item came.
    pub(super) fn was_there(&self, user: UserId, msgid: MessageId) -> bool {
        let within = |stay: &Stay| stay.joined <= msgid && stay.last.is_none_or(|last| msgid <= last);
        self.members.get(&user).is_some_and(|member| member.stays.iter().any(within))
    }

    // ---- what is seen -----------------------------------------------------------------------------------------------

    pub(super) fn sees(&self, user: UserId, msgid: MessageId) -> bool {
        self.members.get(&user).is_some_and(|member| member.sees(msgid))
    }

    /// Everything that a user may see above this msgid, and that is kept.
    pub(super) fn visible(&self, user: UserId, after: MessageId) -> impl DoubleEndedIterator<Item = MessageId> + '_ {
        self.ever_visible(user, after.max(MessageId::new(self.gone)))
    }

    /// The same, with what is not kept any more.
    pub(super) fn ever_visible(
        &self,
        user: UserId,
        after: MessageId,
    ) -> impl DoubleEndedIterator<Item = MessageId> + '_ {
        let member = self.members.get(&user);
        let sees = move |msgid: &MessageId| member.is_some_and(|member| member.sees(*msgid));
        (after.value() + 1..=self.head().value()).map(MessageId::new).filter(sees)
    }

    /// Whether what begins behind a msgid joins what ends with another: nothing that the user may see lies between them.
    pub(super) fn joins(&self, user: UserId, end: MessageId, after: MessageId) -> bool {
        after <= end || self.visible(user, end).next().is_none_or(|next| next > after)
    }

    /// Whether an item is not kept any more.
    pub(super) fn is_gone(&self, msgid: MessageId) -> bool {
        msgid.value() <= self.gone
    }

    /// It keeps items from this one on: no lower one than before.
    pub(super) fn keeps(&mut self, first: MessageId) -> Result<bool, Broken> {
        let gone = first.previous().value();
        if gone < self.gone || gone > self.head().value() {
            return Err(format!("the first item kept is {first}, after {} were gone", self.gone));
        }
        Ok(std::mem::replace(&mut self.gone, gone) < gone)
    }

    /// Whether what an item said is gone.
    pub(super) fn is_recalled(&self, msgid: MessageId) -> bool {
        let edited = self.item(msgid).filter(|it| it.item.kind == kind::EDIT).and_then(|it| it.item.target());
        self.recalled.contains(&edited.unwrap_or(msgid))
    }

    /// The newest edit of an item up to a msgid that a user may see; zero: none.
    pub(super) fn newest_edit(&self, user: UserId, msgid: MessageId, up_to: MessageId) -> MessageId {
        let edits = self.edits.get(&msgid).filter(|_| !self.recalled.contains(&msgid)).into_iter().flatten();
        edits.copied().rfind(|edit| *edit <= up_to && self.sees(user, *edit)).unwrap_or_default()
    }

    /// Whether one item is an edit of another that a user may see, and neither is gone.
    fn is_edit(&self, user: UserId, edit: MessageId, of: MessageId) -> bool {
        let is_edit = self.edits.get(&of).is_some_and(|edits| edits.contains(&edit));
        is_edit && self.sees(user, edit) && !self.recalled.contains(&of)
    }

    /// Whether this is an item as a user may read it, who may see it: what was recalled is empty, and an edit of what they
    /// may not see is hidden.
    pub(super) fn may_be_read(&self, user: UserId, msgid: MessageId, as_read: &Bytes) -> bool {
        let Some(Committed { bytes, item, .. }) = self.item(msgid) else { return false };
        let target = item.target().filter(|_| item.kind == kind::EDIT);
        let is = |right: Item| right.encode().is_ok_and(|right| right == *as_read);
        let (is_hidden, is_wiped) = (|| is(Item::hidden(item.gid, msgid)), || is(item.clone().wiped()));
        match target {
            Some(target) if !self.sees(user, target) => is_hidden(),
            _ if self.is_recalled(msgid) => is_wiped() || (self.is_gone(target.unwrap_or(msgid)) && is_hidden()),
            // What it edits was kept when it was looked at, or not.
            Some(target) if self.is_gone(target) => as_read == bytes || is_hidden() || is_wiped(),
            // It may be gone since it was looked at, and nobody knows any more whether it was recalled.
            _ if self.is_gone(msgid) && is_hidden() => true,
            _ => as_read == bytes || (self.wiped_early.contains(&target.unwrap_or(msgid)) && is_wiped()),
        }
    }

    /// A row was written for a user: what they may read of it, with the newest edit that they may see, at least of those
    /// up to `edited_to`.
    pub(super) fn shows(&self, user: UserId, row: &Shown, edited_to: MessageId) -> Result<(), Broken> {
        let Shown { msgid, edited_by, item } = row;
        let group = self.items.first().map_or(GroupId::ZERO, |first| first.item.gid);
        if !self.may_be_read(user, *msgid, item) {
            return Err(format!("{user} was shown another {group} {msgid} than may be read of it"));
        }
        let newest = if self.is_gone(*msgid) { MessageId::ZERO } else { self.newest_edit(user, *msgid, edited_to) };
        let is_edit = *edited_by == MessageId::ZERO || self.is_edit(user, *edited_by, *msgid);
        if is_edit && *edited_by >= newest {
            return Ok(());
        }
        Err(format!("{user} was shown {group} {msgid} as edited by {edited_by}, not by {newest}"))
    }

    /// Whether an item counts as unread for a user above their mark, and whether it mentions them.
    pub(super) fn counts(&self, user: UserId, msgid: MessageId) -> (bool, bool) {
        let Some(Committed { item, mentions, .. }) = self.item(msgid) else { return (false, false) };
        let is_said = item.is_content() && !self.is_recalled(msgid);
        (is_said && item.author != user, is_said && mentions.contains(&user))
    }
}

fn read<B: item::SystemBody>(item: &Item) -> Result<B, Broken> {
    B::decode(&item.body).map_err(|error| format!("{} {} cannot be read: {error}", item.gid, item.msgid))
}

/// In words.
pub(super) fn told(msgid: Option<MessageId>) -> String {
    msgid.map_or("nothing".to_owned(), |msgid| msgid.to_string())
}
