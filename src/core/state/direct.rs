//! Direct chats: a group of two, or of one with themselves, whose id follows from who they are.
//!
//! Nobody makes one: it is there for its two users, and its rows come into being with the first request or message that
//! needs them, whoever of the two is first. Both belong to it from its first item on, neither owns it, nobody else can
//! come in, and nobody leaves. With who is deleted none begins any more.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Refusal};
use crate::core::rows::{Handle, Policy, Role, UserRow};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, UserId};

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
        self.check_room_for(group, &users)?;
        self.use_up(user, Limited::Groups, 1, self.settings.groups)?;
        self.begin_group(group, user, (String::new(), Policy::FromJoin), (Role::Member, &users));
        Ok(())
    }
}
