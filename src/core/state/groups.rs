//! Groups: made, renamed, and told what they are about and what who joins sees.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Event, Refusal};
use crate::core::names::{group_name, group_topic};
use crate::core::rows::{GroupRow, Interval, ItemContent, MemberRow, Meta, Policy, Role, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{DeviceId, GroupId, Tag, UserId};

impl Decision<'_> {
    /// The item that says so is the first, and the creator's join.
    pub(super) fn create_group(&mut self, by: DeviceId, name: &str, policy: Policy) -> Decided {
        let user = self.session(by)?;
        self.may(Verb::CreateGroup, Some(user))?;
        let name = group_name(name).ok_or(Refusal::BadName)?;
        if self.meta(Meta::LastGroup) >= GroupId::COUNTED_MAX.value() {
            return Err(Refusal::LimitReached);
        }
        let group = GroupId::new(self.meta(Meta::LastGroup) + 1);
        self.check_room_for(group, &[user])?;
        self.use_up(user, Limited::Groups, 1, self.settings.groups)?;
        self.put(Write::Meta(Meta::LastGroup, group.value()));
        self.begin_group(group, user, (name, policy), (Role::Owner, &[user]));
        Ok(Answer::GroupCreated(group))
    }

    /// Makes a group, which was checked: an item that says so, with which these users join it in this role.
    pub(super) fn begin_group(
        &mut self,
        group: GroupId,
        author: UserId,
        (name, policy): (String, Policy),
        (role, users): (Role, &[UserId]),
    ) {
        let created = ItemContent::Created { name: name.clone(), policy };
        let msgid = self.add_item(group, author, Tag::NONE, created);
        self.put(Write::Group(group, GroupRow::begun(name, policy, msgid, self.now_ms)));
        for user in users.iter().copied() {
            let stay = Interval { joined: msgid, left: None, policy, content_before: 0, content_until: 0 };
            self.put(Write::Member(group, user, MemberRow::present(role, vec![stay])));
            self.start_cursors(group, user, msgid.previous(), 0);
            self.events.push(Event::Membership { group, user, member: true, msgid });
        }
    }

    /// The name it has already is no change, and no item.
    pub(super) fn rename_group(&mut self, by: DeviceId, group: GroupId, name: &str) -> Decided {
        let user = self.session(by)?;
        self.may_in(group, Verb::RenameGroup, Some(user))?;
        let name = group_name(name).ok_or(Refusal::BadName)?;
        let row = self.group(group).ok_or(Refusal::NoSuchGroup)?.clone();
        if row.name == name {
            return Ok(Answer::Done(None));
        }
        self.change_group(group, user, ItemContent::Renamed(name.clone()), GroupRow { name, ..row })
    }

    /// The topic that it has already is no change, and no item.
    pub(super) fn set_topic(&mut self, by: DeviceId, group: GroupId, topic: &str) -> Decided {
        let user = self.session(by)?;
        self.may_in(group, Verb::SetTopic, Some(user))?;
        let topic = group_topic(topic).ok_or(Refusal::BadName)?.to_owned();
        let row = self.group(group).ok_or(Refusal::NoSuchGroup)?.clone();
        if row.topic == topic {
            return Ok(Answer::Done(None));
        }
        self.change_group(group, user, ItemContent::Topic(topic.clone()), GroupRow { topic, ..row })
    }

    /// For those who join next: every stay keeps the policy that it began with.
    pub(super) fn set_policy(&mut self, by: DeviceId, group: GroupId, policy: Policy) -> Decided {
        let user = self.session(by)?;
        self.may_in(group, Verb::SetPolicy, Some(user))?;
        let row = self.group(group).ok_or(Refusal::NoSuchGroup)?.clone();
        if row.policy == policy {
            return Ok(Answer::Done(None));
        }
        self.change_group(group, user, ItemContent::PolicyChanged(policy), GroupRow { policy, ..row })
    }

    /// Adds the item that says so, and puts the row of a group with its marks as they are then.
    fn change_group(&mut self, group: GroupId, user: UserId, says: ItemContent, row: GroupRow) -> Decided {
        self.use_up(user, Limited::Sends, 1, self.settings.sends)?;
        let msgid = self.add_item(group, user, Tag::NONE, says);
        self.put_group(group, row);
        Ok(Answer::Done(Some(msgid)))
    }

    /// Puts the row of a group with its marks as they are now.
    pub(super) fn put_group(&mut self, group: GroupId, row: GroupRow) {
        let marks = self.marks(group);
        self.put(Write::Group(group, GroupRow { head_mark: marks.head, content_mark: marks.content, ..row }));
    }
}
