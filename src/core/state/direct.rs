//! Direct chats: a group of two, or of one with themselves, whose id follows from who they are.
//!
//! Nobody makes one: it is there for its two users, and its rows come into being with the first request or message that
//! needs them, whoever of the two is first. Both belong to it from its first item on, neither owns it, nobody else can
//! come in, and nobody leaves. With who is deleted none begins any more.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Event, Refusal};
use crate::core::rows::{GroupRow, Handle, Interval, ItemContent, MemberRow, Policy, Role, UserRow, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, Tag, UserId};
use crate::limits::{GROUPS_MAX, MEMBERSHIPS_MAX};

impl Decision<'_> {
    /// The same chat every time, from either side.
    pub(super) fn open_direct(&mut self, by: DeviceId, handle: &Handle) -> Decided {
        let user = self.session(by)?;
        self.may(Verb::OpenDirect, Some(user))?;
        let partner = self.user_by_handle(handle).ok_or(Refusal::NoSuchUser)?;
        let group = GroupId::direct(user, partner);
        self.begin_direct(group, user)?;
        Ok(Answer::GroupCreated(group))
    }

    /// Sees to it that the rows of a direct chat are there, which this user may use; of any other group they are.
    pub(super) fn begin_direct(&mut self, group: GroupId, user: UserId) -> Result<(), Refusal> {
        let Some((low, high)) = group.pair().filter(|_| self.group(group).is_none()) else { return Ok(()) };
        let users = if low == high { vec![low] } else { vec![low, high] };
        if users.iter().any(|user| self.user(*user).is_none_or(UserRow::is_deleted)) {
            return Err(Refusal::NoSuchUser);
        }
        let counts = self.tables.counts();
        let memberships = counts.memberships + self.pending.added.memberships + users.len();
        let cursors = users.iter().map(|user| self.live_devices_of(*user).len() + 1).sum();
        let fits = counts.groups + self.pending.added.groups < GROUPS_MAX && memberships <= MEMBERSHIPS_MAX;
        if !fits || !self.has_room_for_cursors(cursors) {
            return Err(Refusal::LimitReached);
        }
        self.use_up(user, Limited::Groups, 1, self.settings.groups)?;
        let policy = Policy::FromJoin;
        let msgid = self.add_item(group, user, Tag::NONE, ItemContent::Created { name: String::new(), policy });
        let (name, topic) = (String::new(), String::new());
        let (first_kept, head_mark, created_ms) = (msgid, msgid, self.now_ms);
        let row = GroupRow { name, policy, first_kept, head_mark, content_mark: 0, created_ms, topic };
        self.put(Write::Group(group, row));
        for user in users {
            let stay = Interval { joined: msgid, left: None, policy, content_before: 0, content_until: 0 };
            self.put(Write::Member(group, user, MemberRow::present(Role::Member, vec![stay])));
            self.start_cursors(group, user, msgid.previous(), 0);
            self.events.push(Event::Membership { group, user, member: true, msgid });
        }
        Ok(())
    }
}
