//! Who may do what: the one function that every request of the protocol passes, on its way to the writer and to what is
//! read.
//!
//! It is told the verb and how its asker stands, and answers yes or why not; it looks at no row and remembers nothing.
//! Who somebody is was proved before, and what a request says is judged after. A group that is not there and one that
//! the asker never belonged to answer the same, whatever the verb.

use crate::core::command::Refusal;
use crate::core::rows::{MemberRow, Role, UserRow};
use crate::core::tables::Tables;
use crate::ids::{GroupId, UserId};

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Everything that can be asked by somebody who is known.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Verb {
            $($(#[$doc])* $name,)*
        }

        impl Verb {
            /// Every verb.
            pub const ALL: &'static [Verb] = &[$(Verb::$name,)*];
        }
    };
}

verbs! {
    // ---- items and marks of a group ---------------------------------------------------------------------------------
    /// Sends something.
    Send,
    /// Edits what they said.
    Edit,
    /// Recalls what they said: asked before it is known who that was.
    RecallOwn,
    /// Recalls what somebody else said.
    RecallOthers,
    /// Reacts to something.
    React,
    /// Reads a page.
    Pull,
    /// Acknowledges.
    Ack,
    /// Moves the read mark.
    ReadMark,
    /// Passes over what was not read.
    Skip,
    /// Asks who has received and read an item.
    Receipts,

    // ---- groups and their members -----------------------------------------------------------------------------------
    /// Makes a group.
    CreateGroup,
    /// Adds a user, or invites one into the group.
    AddMember,
    /// Removes or bans a member: asked before it is known who that is.
    RemoveMember,
    /// Removes or bans an admin.
    RemoveAdmin,
    /// Removes or bans another owner.
    RemoveOwner,
    /// Leaves.
    LeaveGroup,
    /// Asks for the direct chat with a user.
    OpenDirect,
    /// Gives the group another name.
    RenameGroup,
    /// Says what the group is about.
    SetTopic,
    /// Says what those see who join next.
    SetPolicy,
    /// Gives a member another role.
    SetRole,
    /// Takes a lower role, or keeps the own one.
    StepDown,
    /// Mutes a member, or lets one speak again: asked before it is known who that is.
    MuteMember,
    /// Mutes an admin, or lets one speak again.
    MuteAdmin,
    /// Mutes an owner.
    MuteOwner,
    /// Lets a former member be added again.
    LiftBan,
    /// Lists the members.
    ListMembers,
    /// Says what the group keeps.
    SetRetention,
    /// Asks what the group keeps, and why.
    ShowRetention,

    // ---- what belongs to no group -----------------------------------------------------------------------------------
    /// Says which groups are to be pushed: of others nothing is.
    Subscribe,
    /// Lists one's own groups.
    ListGroups,
    /// Lists one's own conversations, with what is unread.
    ListConversations,
    /// Lists the users.
    ListUsers,
    /// Asks for the handles of users.
    Names,
    /// Asks how the server is.
    Status,

    // ---- people and devices -----------------------------------------------------------------------------------------
    /// Turns a switch of one's own on or off.
    SetSwitch,
    /// Invites a new user.
    InviteUser,
    /// Invites another device of one's own.
    InviteOwnDevice,
    /// Invites a device of somebody else.
    InviteOthersDevice,
    /// Lists one's own devices.
    ListOwnDevices,
    /// Lists the devices of somebody else.
    ListOthersDevices,
    /// Renames a device of one's own.
    RenameOwnDevice,
    /// Renames a device of somebody else.
    RenameOthersDevice,
    /// Revokes a device of one's own.
    RevokeOwnDevice,
    /// Revokes a device of somebody else.
    RevokeOthersDevice,
    /// Shuts a user out.
    DeactivateUser,
    /// Lets a user in again.
    ReactivateUser,
    /// Deletes a user.
    DeleteUser,
    /// Frees the handle of a deleted user.
    FreeHandle,
    /// Says what one wants to be called.
    NameUser,
    /// Asks who of a group is there.
    ListOnline,
    /// Lets a group know that one is writing.
    Typing,
}

/// How somebody stands to the group that a verb is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Never belonged to it; or it is not there, or none is meant.
    Stranger,
    /// Belonged to it.
    Former {
        /// Whether they can't be added again.
        banned: bool,
    },
    /// Belongs to it.
    Present {
        /// As what.
        role: Role,
        /// Whether they only read.
        muted: bool,
    },
    /// One of the two of a direct chat, which is there for them whether anything was said in it or not.
    Direct,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The holder of the operator key, who is no user.
    OperatorKey,
    /// A user.
    User {
        /// Whether they have the operator flag.
        operator: bool,
        /// How they stand to the group in question.
        standing: Standing,
    },
}

/// Whom a right belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Every user whose role allows it.
    Everyone,
    /// Of those, only users with the operator flag.
    Operators,
}

/// What the settings of the server say about verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Who may make groups.
    pub create_groups: Who,
    /// Who may add to a group, where the role allows it.
    pub add_members: Who,
}

impl Default for Rights {
    fn default() -> Rights {
        Rights { create_groups: Who::Everyone, add_members: Who::Everyone }
    }
}

/// Whether this asker may do this.
///
/// # Errors
/// Why not; the same for every verb that fails on the same thing.
pub fn authorise(verb: Verb, asker: Asker, rights: Rights) -> Result<(), Refusal> {
    let operator = asker.is_operator();
    match need(verb, rights) {
        Need::Nothing => Ok(()),
        Need::User => asker.standing().map(|_| ()),
        Need::Operator { else_say } => {
            if operator {
                Ok(())
            } else {
                Err(else_say)
            }
        }
        Need::Setting(who) => asker.standing().and_then(|_| granted(who, operator)),
        Need::Known => match asker.standing()? {
            Standing::Stranger => Err(Refusal::NoSuchGroup),
            Standing::Former { .. } | Standing::Present { .. } | Standing::Direct => Ok(()),
        },
        Need::Present if asker.standing()? == Standing::Direct => Ok(()),
        Need::Present | Need::Stay => present(asker.standing()?).map(|_| ()),
        Need::Voice { of: Role::Member, .. } if asker.standing()? == Standing::Direct => Ok(()),
        Need::Voice { of, who } => match present(asker.standing()?)? {
            Present { muted: true, .. } => Err(Refusal::Muted),
            Present { role, muted: false } if of.is_above(role) => Err(Refusal::NotAllowed),
            Present { .. } => granted(who, operator),
        },
        Need::Nobody => match present(asker.standing()?)? {
            Present { muted: true, .. } => Err(Refusal::Muted),
            Present { .. } => Err(Refusal::NotAllowed),
        },
    }
}

impl Verb {
    /// Removing somebody in this role.
    #[must_use]
    pub const fn removal_of(role: Role) -> Verb {
        match role {
            Role::Owner => Verb::RemoveOwner,
            Role::Admin => Verb::RemoveAdmin,
            Role::Member => Verb::RemoveMember,
        }
    }
}

impl Asker {
    /// A user with this row, of whom a group has this row.
    #[must_use]
    pub fn user(user: Option<&UserRow>, member: Option<&MemberRow>) -> Asker {
        let standing = match member {
            None => Standing::Stranger,
            Some(row) if row.is_member() => Standing::Present { role: row.role, muted: row.muted },
            Some(row) => Standing::Former { banned: row.banned },
        };
        Asker::User { operator: user.is_some_and(|row| row.operator), standing }
    }

    /// Somebody (none: the operator key) who asks for what is about no group.
    pub(in crate::core) fn in_no_group<'a>(who: Option<UserId>, row: impl Fn(UserId) -> Option<&'a UserRow>) -> Asker {
        who.map_or(Asker::OperatorKey, |user| Asker::user(row(user), None))
    }

    /// Somebody who asks for something in a group, by the rows of users and of its members.
    pub(in crate::core) fn in_group<'a>(
        group: GroupId,
        who: Option<UserId>,
        row: impl Fn(UserId) -> Option<&'a UserRow>,
        member: impl Fn(UserId) -> Option<&'a MemberRow>,
    ) -> Asker {
        let Some(user) = who else { return Asker::OperatorKey };
        match group.partner_of(user) {
            Some(partner) if row(partner).is_some() => Asker::of_pair(row(user)),
            Some(_) | None => Asker::user(row(user), member(user)),
        }
    }

    /// A user with this row, who is one of the two of a direct chat.
    fn of_pair(user: Option<&UserRow>) -> Asker {
        Asker::User { operator: user.is_some_and(|row| row.operator), standing: Standing::Direct }
    }

    fn is_operator(self) -> bool {
        matches!(self, Asker::OperatorKey | Asker::User { operator: true, .. })
    }

    /// How they stand to the group; the key belongs to none, and what takes a user is not for it.
    fn standing(self) -> Result<Standing, Refusal> {
        match self {
            Asker::OperatorKey => Err(Refusal::NotAllowed),
            Asker::User { standing, .. } => Ok(standing),
        }
    }
}

impl Tables {
    /// Whether somebody (none: the operator key) may do what is about no group, and about no setting.
    ///
    /// # Errors
    /// Why not.
    pub fn may(&self, verb: Verb, who: Option<UserId>) -> Result<(), Refusal> {
        authorise(verb, Asker::in_no_group(who, |user| self.user(user)), Rights::default())
    }

    /// Whether somebody may do this in a group, where no setting has a say.
    ///
    /// # Errors
    /// Why not.
    pub fn may_in(&self, group: GroupId, verb: Verb, who: Option<UserId>) -> Result<(), Refusal> {
        let asker = Asker::in_group(group, who, |user| self.user(user), |user| self.member(group, user));
        authorise(verb, asker, Rights::default())
    }
}

/// What a verb takes.
enum Need {
    /// Nothing but being known.
    Nothing,
    /// A user.
    User,
    /// The rights of an operator.
    Operator {
        /// What everybody else is told.
        else_say: Refusal,
    },
    /// What a setting gives.
    Setting(Who),
    /// Belonging to the group, now or once.
    Known,
    /// Belonging to it now.
    Present,
    /// Belonging to it now, which can end: not to a direct chat.
    Stay,
    /// Belonging to it now and not muted.
    Voice {
        /// In this role or above.
        of: Role,
        /// And as a setting has it.
        who: Who,
    },
    /// What nobody may do, whatever the role.
    Nobody,
}

fn need(verb: Verb, rights: Rights) -> Need {
    let voice = |of| Need::Voice { of, who: Who::Everyone };
    let operator = Need::Operator { else_say: Refusal::NotAllowed };
    match verb {
        Verb::Status => Need::Nothing,
        Verb::Subscribe | Verb::ListGroups | Verb::ListConversations => Need::User,
        Verb::ListOwnDevices | Verb::InviteOwnDevice => Need::User,
        Verb::RenameOwnDevice | Verb::RevokeOwnDevice | Verb::NameUser => Need::User,
        Verb::SetSwitch | Verb::OpenDirect => Need::User,
        Verb::ListUsers | Verb::Names => Need::Nothing,
        Verb::CreateGroup => Need::Setting(rights.create_groups),
        Verb::Pull | Verb::Ack | Verb::ReadMark | Verb::Skip | Verb::Receipts => Need::Known,
        Verb::ListMembers | Verb::ListOnline | Verb::ShowRetention => Need::Present,
        Verb::LeaveGroup | Verb::StepDown => Need::Stay,
        Verb::Send | Verb::Edit | Verb::RecallOwn | Verb::React | Verb::Typing => voice(Role::Member),
        Verb::AddMember => Need::Voice { of: Role::Admin, who: rights.add_members },
        Verb::RemoveMember | Verb::MuteMember | Verb::LiftBan => voice(Role::Admin),
        Verb::RenameGroup | Verb::SetTopic | Verb::RecallOthers => voice(Role::Admin),
        Verb::RemoveAdmin | Verb::RemoveOwner | Verb::MuteAdmin => voice(Role::Owner),
        Verb::SetPolicy | Verb::SetRole | Verb::SetRetention => voice(Role::Owner),
        Verb::MuteOwner => Need::Nobody,
        Verb::InviteUser | Verb::InviteOthersDevice | Verb::ListOthersDevices => operator,
        Verb::DeactivateUser | Verb::ReactivateUser | Verb::DeleteUser | Verb::FreeHandle => operator,
        // A device of somebody else is as absent as one that is not there.
        Verb::RenameOthersDevice | Verb::RevokeOthersDevice => Need::Operator { else_say: Refusal::NoSuchDevice },
    }
}

/// A member as they are now.
struct Present {
    role: Role,
    muted: bool,
}

/// To a stranger a group that exists is as absent as any other; a former member is told, and why they can't come back.
fn present(standing: Standing) -> Result<Present, Refusal> {
    match standing {
        Standing::Stranger => Err(Refusal::NoSuchGroup),
        Standing::Former { banned: true } => Err(Refusal::Banned),
        Standing::Former { banned: false } => Err(Refusal::NotMember),
        Standing::Present { role, muted } => Ok(Present { role, muted }),
        Standing::Direct => Err(Refusal::DirectChat),
    }
}

fn granted(who: Who, operator: bool) -> Result<(), Refusal> {
    match who {
        Who::Operators if !operator => Err(Refusal::NotAllowed),
        Who::Operators | Who::Everyone => Ok(()),
    }
}

#[cfg(test)]
mod tests;
