//! What is right, in so few lines that it can be read in one sitting.
//!
//! The model knows nothing of logs, indexes, sessions, credit or back-off. It knows what was committed, in which order;
//! who belonged when, which follows from the items themselves; what each sender was told; what each device was handed.
//! Whatever a server or a client does is held against that.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gaggle::ids::{DeviceId, GroupId, MessageId, Tag, UserId};
use gaggle::wire::item::{self, Item, SystemBody as _, kind};

/// A promise that was broken, and how.
pub type Broken = String;

/// An item as it was committed.
struct Committed {
    bytes: Bytes,
    tag: Tag,
}

/// The stays of one user in one group: first and last visible msgid; no last while the stay lasts.
type Stays = Vec<(MessageId, Option<MessageId>)>;

/// One group.
#[derive(Default)]
struct History {
    items: Vec<Committed>,
    full_history: bool,
    stays: BTreeMap<UserId, Stays>,
    /// The last send of each device in it, by the order in which they were queued.
    last_of: BTreeMap<DeviceId, u64>,
}

/// A send, from the moment that its application was told that it is safe in the outbox.
struct Send {
    device: DeviceId,
    group: GroupId,
    /// Its application was told that it is safe; else it may have been lost on the way into the outbox.
    safe: bool,
    /// Grows with each message that is queued.
    order: u64,
    /// Which stay of its user it was queued in; none: the user was no member.
    stay: Option<usize>,
    committed: Option<MessageId>,
    /// The server has refused it for good; an answer that is lost may be followed by another, under another number.
    refused: bool,
    /// Its application was told so.
    told_refused: bool,
}

/// One device.
#[derive(Default)]
struct Device {
    user: UserId,
    /// The last msgid handed to its application, or where delivery began.
    delivered: BTreeMap<GroupId, MessageId>,
    /// A return into a group with full history may leave what was missed behind the cursor: up to here it may be left out.
    skippable: BTreeMap<GroupId, MessageId>,
    /// What the server has answered as its cursor.
    answered: BTreeMap<GroupId, MessageId>,
    /// The end of what was ever written to it without a hole.
    written: BTreeMap<GroupId, MessageId>,
    /// Where somebody has acknowledged in its name what was written to it, received or not.
    lied: BTreeSet<GroupId>,
}

/// See the module.
#[derive(Default)]
pub struct Model {
    groups: BTreeMap<GroupId, History>,
    sends: BTreeMap<Tag, Send>,
    devices: BTreeMap<DeviceId, Device>,
    joins: Vec<(GroupId, UserId)>,
    progress: u64,
}

impl History {
    fn head(&self) -> MessageId {
        MessageId::new(self.items.len() as u64)
    }

    fn item(&self, msgid: MessageId) -> Option<&Committed> {
        self.items.get(usize::try_from(msgid.value().checked_sub(1)?).ok()?)
    }

    /// Everything that a user may see above this msgid.
    fn visible(&self, user: UserId, after: MessageId) -> impl DoubleEndedIterator<Item = MessageId> + '_ {
        let stays = self.stays.get(&user);
        let sees = move |msgid: MessageId| {
            let within = |(first, last): &(MessageId, Option<MessageId>)| {
                *first <= msgid && last.is_none_or(|last| msgid <= last)
            };
            stays.is_some_and(|stays| stays.iter().any(within))
        };
        (after.value() + 1..=self.head().value()).map(MessageId::new).filter(move |msgid| sees(*msgid))
    }

    /// Whether what begins behind a msgid joins what ends with another: nothing that the user may see lies between them.
    fn joins(&self, user: UserId, end: MessageId, after: MessageId) -> bool {
        after <= end || self.visible(user, end).next().is_none_or(|next| next > after)
    }

    /// Which stay of a user lasts.
    fn stay(&self, user: UserId) -> Option<usize> {
        let stays = self.stays.get(&user)?;
        stays.last().is_some_and(|(_, last)| last.is_none()).then_some(stays.len())
    }

    fn enters(&mut self, user: UserId, at: MessageId) {
        let first = if self.full_history { MessageId::new(1) } else { at };
        self.stays.entry(user).or_default().push((first, None));
    }

    fn leaves(&mut self, user: UserId, at: MessageId) {
        if let Some((_, last)) = self.stays.get_mut(&user).and_then(|stays| stays.last_mut()) {
            last.get_or_insert(at);
        }
    }
}

impl Model {
    // ---- what is committed ------------------------------------------------------------------------------------------

    /// An item was published as committed: the next of its group, its sender's next, and no send twice.
    pub fn commit(&mut self, bytes: &Bytes) -> Result<(), Broken> {
        let item = Item::decode(bytes).map_err(|error| format!("an item was committed that is none: {error}"))?;
        let Item { gid, msgid, kind: what, author, tag, body, .. } = item;
        let history = self.groups.entry(gid).or_default();
        if msgid != history.head().next() {
            return Err(format!("{gid} {msgid} was committed after {}", history.head()));
        }
        let about = |body: &Bytes| item::Left::decode(body).map(|left| left.user).map_err(|error| error.to_string());
        match what {
            kind::CREATED => {
                let created = item::Created::decode(&body).map_err(|error| error.to_string())?;
                history.full_history = created.policy == 1;
                history.enters(author, msgid);
                self.joins.push((gid, author));
            }
            kind::JOINED => {
                let user = about(&body)?;
                history.enters(user, msgid);
                self.joins.push((gid, user));
            }
            kind::LEFT | kind::REMOVED => history.leaves(about(&body)?, msgid),
            _ => {}
        }
        history.items.push(Committed { bytes: bytes.clone(), tag });
        self.progress += 1;
        if what != kind::TEXT {
            return Ok(());
        }
        let send = self.sends.get_mut(&tag).ok_or_else(|| format!("{gid} {msgid} was never sent by anybody"))?;
        if let Some(before) = send.committed.replace(msgid) {
            return Err(format!("a send of {} was stored twice: as {gid} {before} and {msgid}", send.device));
        }
        if send.told_refused {
            return Err(format!("a send of {} was refused for good, and stored as {gid} {msgid}", send.device));
        }
        if send.group != gid {
            return Err(format!("a send of {} to {} was stored in {gid}", send.device, send.group));
        }
        // Whoever was no member meanwhile may have been refused, which uses a number up: the message goes on under another.
        let is_steady = send.stay.is_some() && history.stay(author) == send.stay;
        let last = history.last_of.entry(send.device).or_default();
        if is_steady && send.order < *last {
            return Err(format!("{gid} {msgid} of {} was queued before what it comes behind", send.device));
        }
        *last = send.order.max(*last);
        Ok(())
    }

    /// A server has opened the store and found these items of a group: what was committed before comes first.
    pub fn reopened(&mut self, group: GroupId, found: &[Bytes]) -> Result<(), Broken> {
        let history = self.groups.entry(group).or_default();
        for (index, committed) in history.items.iter().enumerate() {
            let msgid = MessageId::new(index as u64 + 1);
            match found.get(index) {
                None => return Err(format!("{group} {msgid} was committed and is lost")),
                Some(other) if *other != committed.bytes => {
                    return Err(format!("{group} {msgid} was committed and is another item now"));
                }
                Some(_) => {}
            }
        }
        let known = history.items.len();
        found.iter().skip(known).try_for_each(|item| self.commit(item))
    }

    /// Grows with everything that is committed or handed to an application.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Who has joined what since this was last asked.
    pub fn take_joins(&mut self) -> Vec<(GroupId, UserId)> {
        std::mem::take(&mut self.joins)
    }

    /// Whether a user is a member now.
    pub fn is_member(&self, group: GroupId, user: UserId) -> bool {
        self.groups.get(&group).is_some_and(|history| history.stay(user).is_some())
    }

    /// The last item of a group.
    pub fn head(&self, group: GroupId) -> MessageId {
        self.groups.get(&group).map_or(MessageId::ZERO, History::head)
    }

    /// All groups.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.keys().copied()
    }

    /// The last item that a user may see.
    pub fn visible_head(&self, user: UserId, group: GroupId) -> MessageId {
        let history = self.groups.get(&group);
        history.and_then(|history| history.visible(user, MessageId::ZERO).next_back()).unwrap_or(MessageId::ZERO)
    }

    // ---- what senders are told --------------------------------------------------------------------------------------

    /// A message is safe in the outbox of a device, or may be; `order` grows with each.
    pub fn queued(&mut self, device: DeviceId, group: GroupId, tag: Tag, order: u64, safe: bool) -> Result<(), Broken> {
        let user = self.devices.get(&device).map_or(UserId::ZERO, |known| known.user);
        let stay = self.groups.get(&group).and_then(|history| history.stay(user));
        let (committed, refused, told_refused) = (None, false, false);
        let send = Send { device, group, safe, order, stay, committed, refused, told_refused };
        if self.sends.insert(tag, send).is_some() { Err("a tag was drawn twice".to_owned()) } else { Ok(()) }
    }

    /// The server answers that a send is stored, or an application is told.
    pub fn answered_sent(&self, tag: Tag, group: GroupId, msgid: MessageId) -> Result<(), Broken> {
        match self.groups.get(&group).and_then(|history| history.item(msgid)) {
            None => Err(format!("a send was answered as {group} {msgid} before that is committed")),
            Some(item) if item.tag != tag => Err(format!("a send was answered as {group} {msgid}, which is another")),
            Some(_) => Ok(()),
        }
    }

    /// The server answers that a send is refused for good.
    pub fn answered_refused(&mut self, tag: Tag) -> Result<(), Broken> {
        let Some(send) = self.sends.get_mut(&tag) else { return Ok(()) };
        send.refused = true;
        match send.committed {
            Some(msgid) => Err(format!("a send was stored as {} {msgid}, and its sender told otherwise", send.group)),
            None => Ok(()),
        }
    }

    /// An application is told that a send is refused for good.
    pub fn told_refused(&mut self, tag: Tag) -> Result<(), Broken> {
        self.answered_refused(tag)?;
        if let Some(send) = self.sends.get_mut(&tag) {
            send.told_refused = true;
        }
        Ok(())
    }

    /// Every outbox is empty: each message that was safe there is stored or refused.
    pub fn all_are_settled(&self) -> Result<(), Broken> {
        match self.sends.values().find(|send| send.safe && !send.refused && send.committed.is_none()) {
            Some(send) => Err(format!("a send of {} to {} vanished from its outbox", send.device, send.group)),
            None => Ok(()),
        }
    }

    // ---- what is shown ----------------------------------------------------------------------------------------------

    /// A device exists, and delivery to it begins behind these.
    pub fn enrolled(&mut self, device: DeviceId, user: UserId, cursors: impl Iterator<Item = (GroupId, MessageId)>) {
        let delivered: BTreeMap<GroupId, MessageId> = cursors.collect();
        let new = Device { user, written: delivered.clone(), delivered, ..Device::default() };
        self.devices.insert(device, new);
    }

    /// A user has joined a group, and the cursors of the user's devices stand here now: at a join they may be raised over
    /// what the user could not see, and over nothing else.
    pub fn joined(&mut self, device: DeviceId, group: GroupId, cursor: MessageId) -> Result<(), Broken> {
        let (Some(known), Some(history)) = (self.devices.get_mut(&device), self.groups.get(&group)) else {
            return Ok(());
        };
        let is_first = !known.delivered.contains_key(&group);
        known.delivered.entry(group).or_insert(cursor);
        let written = known.written.entry(group).or_insert(cursor);
        let answered = known.answered.get(&group).copied().unwrap_or_default();
        if cursor < answered {
            return Err(format!("the cursor of {device} in {group} went back at a join: from {answered} to {cursor}"));
        }
        let skipped = history.visible(known.user, *written).find(|msgid| *msgid <= cursor);
        if let Some(msgid) = skipped.filter(|_| !is_first && !history.full_history) {
            return Err(format!("a join moved the cursor of {device} over {group} {msgid}, which it never got"));
        }
        if history.full_history {
            known.skippable.insert(group, cursor);
        }
        *written = (*written).max(cursor);
        Ok(())
    }

    /// Rows were written to a device: all that is visible behind `after` and up to `covered_to`, no more. Only what counts
    /// as handed may its cursor pass later.
    pub fn shown(
        &mut self,
        device: DeviceId,
        group: GroupId,
        after: MessageId,
        covered_to: MessageId,
        rows: &[(MessageId, Bytes)],
        counts: bool,
    ) -> Result<(), Broken> {
        let known = self.devices.get_mut(&device).ok_or("items were shown to nobody")?;
        let history = self.groups.get(&group).ok_or_else(|| format!("items of {group}, which nobody has committed"))?;
        if covered_to > history.head() && covered_to > after {
            return Err(format!("{group} was covered to {covered_to} while its head is {}", history.head()));
        }
        let expected = history.visible(known.user, after).take_while(|msgid| *msgid <= covered_to);
        let shown = rows.iter().map(|(msgid, _)| *msgid);
        if let Some((right, wrong)) = first_difference(expected, shown) {
            let told = |msgid: Option<MessageId>| msgid.map_or("nothing".to_owned(), |msgid| msgid.to_string());
            let (right, wrong) = (told(right), told(wrong));
            return Err(format!(
                "{device} was shown {group} behind {after} up to {covered_to} with {wrong} for {right}"
            ));
        }
        for (msgid, bytes) in rows {
            if history.item(*msgid).is_none_or(|item| item.bytes != *bytes) {
                return Err(format!("{device} was shown another {group} {msgid} than was committed"));
            }
        }
        let written = known.written.entry(group).or_default();
        if counts && history.joins(known.user, *written, after) {
            *written = (*written).max(covered_to);
        }
        Ok(())
    }

    /// What was decided to be pushed to a device counts as written, though it waits for its stream.
    pub fn pushed(&mut self, device: DeviceId, group: GroupId, continues: MessageId, covered_to: MessageId) {
        let (Some(known), Some(history)) = (self.devices.get_mut(&device), self.groups.get(&group)) else { return };
        let written = known.written.entry(group).or_default();
        if history.joins(known.user, *written, continues) {
            *written = (*written).max(covered_to);
        }
    }

    /// A head was told to a device.
    pub fn told_head(&self, device: DeviceId, group: GroupId, head: MessageId) -> Result<(), Broken> {
        let user = self.devices.get(&device).map_or(UserId::ZERO, |known| known.user);
        let most = self.visible_head(user, group);
        if head > most { Err(format!("{device} was told a head of {group} of {head} over {most}")) } else { Ok(()) }
    }

    /// An application was handed an item: the next that it may see. Says whether it had it before.
    pub fn handed(&mut self, device: DeviceId, group: GroupId, msgid: MessageId, again: bool) -> Result<bool, Broken> {
        let known = self.devices.get_mut(&device).ok_or("an item was handed to nobody")?;
        let history = self.groups.get(&group).ok_or_else(|| format!("an item of {group}, which nobody committed"))?;
        let last = known.delivered.entry(group).or_default();
        if msgid <= *last {
            let words = format!("{device} was handed {group} {msgid} twice");
            return if again { Ok(true) } else { Err(words) };
        }
        let mut skippable = known.skippable.get(&group).copied().unwrap_or_default();
        if known.lied.contains(&group) {
            skippable = skippable.max(known.written.get(&group).copied().unwrap_or_default());
        }
        let left_out = |next: &MessageId| *next <= skippable && *next < msgid;
        let next = history.visible(known.user, *last).find(|next| !left_out(next));
        if next != Some(msgid) {
            let next = next.map_or("nothing".to_owned(), |next| next.to_string());
            return Err(format!("{device} was handed {group} {msgid} after {last}, where {next} comes next"));
        }
        *last = msgid;
        self.progress += 1;
        Ok(false)
    }

    /// A text was read: it is what was sent.
    pub fn read(&self, group: GroupId, msgid: MessageId, text: &str) -> Result<(), Broken> {
        let item = self.groups.get(&group).and_then(|history| history.item(msgid));
        let body = item.and_then(|item| Item::decode(&item.bytes).ok()).map(|item| item.body);
        let same = body.is_some_and(|body| body == text.as_bytes());
        if same { Ok(()) } else { Err(format!("the text of {group} {msgid} is not what was sent")) }
    }

    /// The application of a device had kept no more than this, and has lost the rest: it comes again.
    pub fn forgotten(&mut self, device: DeviceId, kept: &BTreeMap<GroupId, MessageId>) {
        if let Some(known) = self.devices.get_mut(&device) {
            let last = |group: &GroupId| kept.get(group).copied().unwrap_or_default();
            known.delivered.iter_mut().for_each(|(group, delivered)| *delivered = last(group));
        }
    }

    /// The last msgid of a group that the application of a device was handed.
    pub fn delivered(&self, device: DeviceId, group: GroupId) -> MessageId {
        let Some(known) = self.devices.get(&device) else { return MessageId::ZERO };
        let of = |by_group: &BTreeMap<GroupId, MessageId>| by_group.get(&group).copied().unwrap_or_default();
        let lost = if known.lied.contains(&group) { of(&known.written) } else { MessageId::ZERO };
        of(&known.delivered).max(of(&known.skippable)).max(lost)
    }

    // ---- cursors ----------------------------------------------------------------------------------------------------

    /// Somebody acknowledges in the name of a device what it may never have got: its own loss.
    pub fn lied(&mut self, device: DeviceId, group: GroupId) {
        if let Some(known) = self.devices.get_mut(&device) {
            known.lied.insert(group);
        }
    }

    /// The server answers a cursor: it never goes back, passes nothing that was not written to the device, and stands in
    /// the committed view.
    pub fn answered_cursor(
        &mut self,
        device: DeviceId,
        group: GroupId,
        cursor: MessageId,
        committed: MessageId,
    ) -> Result<(), Broken> {
        let known = self.devices.get_mut(&device).ok_or("a cursor was answered to nobody")?;
        let before = known.answered.entry(group).or_default();
        if cursor < *before {
            return Err(format!("the cursor of {device} in {group} went back from {before} to {cursor}"));
        }
        *before = cursor;
        if cursor > committed {
            return Err(format!(
                "a cursor of {device} in {group} was answered as {cursor}, while {committed} is durable"
            ));
        }
        let written = known.written.get(&group).copied().unwrap_or_default();
        let history = self.groups.get(&group);
        let missed = history.and_then(|history| history.visible(known.user, written).next());
        match missed.filter(|missed| *missed <= cursor) {
            Some(missed) => {
                Err(format!("the cursor of {device} passed {group} {missed}, which was never written to it"))
            }
            None => Ok(()),
        }
    }

    /// A store was opened: no cursor lies below what was answered.
    pub fn cursor_found(&self, device: DeviceId, group: GroupId, cursor: MessageId) -> Result<(), Broken> {
        let answered = self.devices.get(&device).and_then(|known| known.answered.get(&group)).copied();
        match answered.filter(|answered| cursor < *answered) {
            Some(answered) => {
                Err(format!("the cursor of {device} in {group} was answered as {answered}, and is {cursor}"))
            }
            None => Ok(()),
        }
    }
}

/// The first place where two sequences differ: (right, wrong).
fn first_difference(
    mut right: impl Iterator<Item = MessageId>,
    mut wrong: impl Iterator<Item = MessageId>,
) -> Option<(Option<MessageId>, Option<MessageId>)> {
    loop {
        match (right.next(), wrong.next()) {
            (None, None) => return None,
            (right, wrong) if right == wrong => {}
            differ => return Some(differ),
        }
    }
}
