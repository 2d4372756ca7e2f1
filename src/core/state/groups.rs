//! Groups: made and renamed.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Event, Refusal};
use crate::core::names::group_name;
use crate::core::rows::{GroupRow, Interval, ItemContent, MemberRow, Meta, Policy, Role, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, MessageId, Tag};
use crate::limits::GROUPS_MAX;

impl Decision<'_> {
    /// The item that says so is the first, and the creator's join.
    pub(super) fn create_group(&mut self, by: DeviceId, name: &str, policy: Policy) -> Decided {
        let user = self.session(by)?;
        self.may(Verb::CreateGroup, Some(user))?;
        let name = group_name(name).ok_or(Refusal::BadName)?.to_owned();
        let groups = self.tables.counts().groups + self.pending.added.groups;
        if groups >= GROUPS_MAX || self.meta(Meta::LastGroup) >= GroupId::COUNTED_MAX.value() {
            return Err(Refusal::LimitReached);
        }
        let group = GroupId::new(self.meta(Meta::LastGroup) + 1);
        self.check_room_for(group, user)?;
        self.use_up(user, Limited::Groups, 1, self.settings.groups)?;
        self.put(Write::Meta(Meta::LastGroup, group.value()));
        let created = ItemContent::Created { name: name.clone(), policy };
        let msgid = self.add_item(group, user, Tag::NONE, created);
        self.put_group(group, name, policy, self.now_ms, msgid);
        let stay = Interval { joined: msgid, left: None, policy, content_before: 0, content_until: 0 };
        let row = MemberRow::present(Role::Owner, vec![stay]);
        self.put(Write::Member(group, user, row));
        self.start_cursors(group, user, msgid.previous(), 0);
        self.events.push(Event::Membership { group, user, member: true, msgid });
        Ok(Answer::GroupCreated(group))
    }

    /// The name it has already is no change, and no item.
    pub(super) fn rename_group(&mut self, by: DeviceId, group: GroupId, name: &str) -> Decided {
        let user = self.session(by)?;
        self.may_in(group, Verb::RenameGroup, Some(user))?;
        let name = group_name(name).ok_or(Refusal::BadName)?.to_owned();
        let row = self.group(group).ok_or(Refusal::NoSuchGroup)?;
        if row.name == name {
            return Ok(Answer::Done(None));
        }
        let (policy, created_ms, first_kept) = (row.policy, row.created_ms, row.first_kept);
        self.use_up(user, Limited::Sends, 1, self.settings.sends)?;
        let msgid = self.add_item(group, user, Tag::NONE, ItemContent::Renamed(name.clone()));
        self.put_group(group, name, policy, created_ms, first_kept);
        Ok(Answer::Done(Some(msgid)))
    }

    /// Puts the row of a group with its marks as they are now.
    fn put_group(&mut self, group: GroupId, name: String, policy: Policy, created_ms: u64, first_kept: MessageId) {
        let marks = self.marks(group);
        let row = GroupRow { name, policy, first_kept, head_mark: marks.head, content_mark: marks.content, created_ms };
        self.put(Write::Group(group, row));
    }
}
