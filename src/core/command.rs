//! What can be asked of [`super::state::State`], what it answers, and what else it tells.

use crate::core::attached::{Attached, Wanted};
pub use crate::core::event::Event;
pub use crate::core::refusal::Refusal;
use crate::core::retention::{Read, Retention};
use crate::core::rows::{CodeHash, DeviceKey, Handle, ItemRow, Policy, RecalledRow, Role};
pub use crate::core::sendable::{SendCommand, Sendable};
use crate::core::tables::Tables;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};

/// Who asks. `State` checks at the moment of decision that a device is still live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A device, for its user.
    Device(DeviceId),
    /// The holder of the operator key.
    Operator,
}

/// A request that may change something.
#[derive(Clone, PartialEq, Eq)]
pub enum Command {
    /// Makes a device from an invite; the proof of the key was checked.
    Enrol {
        /// Hash of the code.
        code: CodeHash,
        /// The device's public key.
        key: DeviceKey,
        /// The handle wanted.
        handle: Option<Handle>,
        /// The device's name.
        device_name: String,
    },
    /// Voids the first invite there is and makes a new one, unless an operator's device has existed.
    RenewFirstInvite {
        /// Hash of the new code.
        code: CodeHash,
        /// When it expires.
        expires_ms: u64,
    },
    /// Makes an invite for a new user.
    Invite {
        /// Who asks.
        by: Actor,
        /// The handle.
        handle: Handle,
        /// A group to join.
        group: Option<GroupId>,
        /// Hash of the code.
        code: CodeHash,
        /// When it expires.
        expires_ms: u64,
    },
    /// Makes an invite for another device.
    InviteDevice {
        /// Who asks.
        by: Actor,
        /// Whose device; none: the asker's.
        user: Option<Handle>,
        /// Hash of the code.
        code: CodeHash,
        /// When it expires.
        expires_ms: u64,
    },
    /// Renames a device.
    RenameDevice {
        /// Who asks.
        by: Actor,
        /// Which.
        device: DeviceId,
        /// Its new name.
        name: String,
    },
    /// Revokes a device.
    RevokeDevice {
        /// Who asks.
        by: Actor,
        /// Which.
        device: DeviceId,
    },
    /// Shuts a user out until they are reactivated.
    DeactivateUser {
        /// Who asks.
        by: Actor,
        /// Whom.
        handle: Handle,
    },
    /// Lets a user in again.
    ReactivateUser {
        /// Who asks.
        by: Actor,
        /// Whom.
        handle: Handle,
    },
    /// Deletes a user, a step at a time.
    DeleteUser {
        /// Who asks.
        by: Actor,
        /// Whom.
        handle: Handle,
    },
    /// Lets somebody new have the handle of a deleted user.
    FreeHandle {
        /// Who asks.
        by: Actor,
        /// Which.
        handle: Handle,
    },
    /// Says what a user wants to be called.
    NameUser {
        /// Who asks: for themselves.
        by: DeviceId,
        /// What; empty: by the handle alone.
        name: String,
    },
    /// Makes a group.
    CreateGroup {
        /// Who asks.
        by: DeviceId,
        /// Its name.
        name: String,
        /// Its policy.
        policy: Policy,
    },
    /// Asks for the direct chat with a user, which is there from then on.
    OpenDirect {
        /// Who asks.
        by: DeviceId,
        /// With whom; oneself: a notebook.
        handle: Handle,
    },
    /// Adds a user to a group.
    AddMember {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// Whom.
        handle: Handle,
    },
    /// Removes a member.
    RemoveMember {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// Whom.
        handle: Handle,
    },
    /// Leaves a group.
    LeaveGroup {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
    },
    /// Renames a group.
    RenameGroup {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// Its new name.
        name: String,
    },
    /// Gives a member another role.
    SetRole {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// Whose.
        handle: Handle,
        /// Which.
        role: Role,
    },
    /// Lets a member only read, or speak again.
    SetMuted {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// Whom.
        handle: Handle,
        /// Whether they only read.
        muted: bool,
    },
    /// Removes a user for good, or lets them be added again.
    SetBanned {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// Whom.
        handle: Handle,
        /// Whether they are banned.
        banned: bool,
    },
    /// Says what a group is about.
    SetTopic {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// What it is about; empty: nothing.
        topic: String,
    },
    /// Says what those see who join next.
    SetPolicy {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// The policy.
        policy: Policy,
    },
    /// Turns switches of the device's user on or off.
    SetSwitch {
        /// Who asks.
        by: DeviceId,
        /// Which, see [`crate::core::rows::Switches`].
        switch: u8,
        /// Whether it is on.
        on: bool,
    },
    /// Stores a send.
    Send(SendCommand),
    /// Moves cursors of a device up; already clamped by its listener to what was handed out.
    Ack {
        /// Which.
        device: DeviceId,
        /// (group, msgid).
        entries: Vec<(GroupId, MessageId)>,
    },
    /// Moves read marks of the device's user up.
    ReadMarks {
        /// Which.
        device: DeviceId,
        /// (group, msgid).
        entries: Vec<(GroupId, MessageId)>,
    },
    /// Moves the read mark of the device's user in a group up.
    MarkRead {
        /// Which.
        device: DeviceId,
        /// The group.
        group: GroupId,
        /// The last msgid that was read.
        msgid: MessageId,
        /// The version of the mark that it was made under: a late one does nothing.
        version: u64,
    },
    /// Sets the read mark where it is wanted, backwards too: everything behind it is unread.
    MarkUnread {
        /// Which.
        device: DeviceId,
        /// The group.
        group: GroupId,
        /// The last msgid that counts as read.
        msgid: MessageId,
        /// The version that the mark has.
        version: u64,
    },
    /// Moves a cursor up on purpose.
    Skip {
        /// Which.
        device: DeviceId,
        /// The group.
        group: GroupId,
        /// The last msgid to pass over.
        to: MessageId,
    },
    /// Says what a group keeps.
    SetRetention {
        /// Who asks.
        by: DeviceId,
        /// The group.
        group: GroupId,
        /// What it keeps; none: what the server says.
        policy: Option<Retention>,
    },
    /// Moves the first kept item of a group: the server asks.
    Retain(Retain),
    /// Removes rows below the first kept item: the server asks.
    Trim(Trim),
    /// Where the clock of retention stands, so that the next start goes on from there: the server asks.
    KeepClock {
        /// Ms since 1970.
        clock_ms: u64,
    },
    /// A device listens.
    Seen {
        /// Which.
        device: DeviceId,
        /// The day, by the clock of retention, in days since 1970.
        day: u32,
    },
}

/// The first kept item of a group is to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retain {
    /// Which group.
    pub group: GroupId,
    /// The policy for which its items were read.
    pub policy: Retention,
    /// What was read.
    pub read: Read,
    /// The item that becomes the first kept one.
    pub to: MessageId,
    /// Content items below it.
    pub content_gone: u64,
    /// Where the clock of retention stands.
    pub clock_ms: u64,
}

/// Some of the rows below the first kept item of a group.
#[derive(Clone, PartialEq, Eq)]
pub struct Trim {
    /// The group.
    pub group: GroupId,
    /// Items.
    pub items: Vec<MessageId>,
    /// Notes that an item was recalled.
    pub recalled: Vec<(MessageId, RecalledRow)>,
    /// Edits of items that go, which stay in their places: what they say goes too.
    pub edits: Vec<ItemRow>,
    /// Rows that count a content item for its author: whose, which of theirs, and the item.
    pub own: Vec<(UserId, u64, MessageId)>,
    /// Rows that count a mention for a user: whose, which of theirs, and the item.
    pub mentions: Vec<(UserId, u64, MessageId)>,
}

impl Command {
    /// The stored item that has to be read and attached before this can be decided: `State` holds none. Whoever hands the
    /// command on reads it first, and again where [`Command::is_outdated`] says so.
    #[must_use]
    pub fn wanted(&self) -> Option<Wanted> {
        if let Command::Send(send) = self { send.wanted() } else { None }
    }

    /// Attaches what was read.
    pub fn attach(&mut self, attached: Attached) {
        if let Command::Send(send) = self {
            send.attached = Some(attached);
        }
    }

    /// Whether it has to be read (again) what this wants, since the committed view knows of something newer.
    #[must_use]
    pub fn is_outdated(&self, tables: &Tables) -> bool {
        let Command::Send(send) = self else { return false };
        send.wanted()
            .is_some_and(|wanted| send.attached.as_ref().is_none_or(|attached| attached.is_outdated(wanted, tables)))
    }

    /// How little room there may be for it.
    pub(in crate::core) fn room_needed(&self) -> RoomNeeded {
        match self {
            Command::Invite { .. }
            | Command::InviteDevice { .. }
            | Command::RenameDevice { .. }
            | Command::ReactivateUser { .. }
            | Command::NameUser { .. }
            | Command::CreateGroup { .. }
            | Command::OpenDirect { .. }
            | Command::AddMember { .. }
            | Command::RenameGroup { .. }
            | Command::SetRole { .. }
            | Command::SetMuted { .. }
            | Command::SetTopic { .. }
            | Command::SetPolicy { .. } => RoomNeeded::Growth,
            Command::RevokeDevice { .. }
            | Command::DeactivateUser { .. }
            | Command::DeleteUser { .. }
            | Command::FreeHandle { .. }
            | Command::RemoveMember { .. }
            | Command::LeaveGroup { .. }
            | Command::SetBanned { .. }
            | Command::SetSwitch { .. }
            | Command::Ack { .. }
            | Command::ReadMarks { .. }
            | Command::MarkRead { .. }
            | Command::MarkUnread { .. }
            | Command::Skip { .. }
            | Command::SetRetention { .. }
            | Command::Retain(_)
            | Command::Trim(_)
            | Command::KeepClock { .. }
            | Command::Seen { .. } => RoomNeeded::Reserve,
            Command::Enrol { .. } | Command::Send(_) | Command::RenewFirstInvite { .. } => RoomNeeded::Judged,
        }
    }
}

/// How little room there may be for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum RoomNeeded {
    /// It adds something, so it has to wait while the disk is full.
    Growth,
    /// It takes something away, or moves a mark: the reserve is for it.
    Reserve,
    /// What was decided before is answered at any time, so it is judged where it is decided; or it is the server's own.
    Judged,
}

/// What there is room for on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Storage {
    /// Everything.
    #[default]
    Open,
    /// The reserve: what takes something away, or moves a mark. Nothing that grows.
    Reserve,
    /// Nothing: not even the reserve is left.
    Closed,
}

/// The answer to a command, given once the batch it was decided in is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The device exists.
    Enrolled {
        /// The new device.
        device: DeviceId,
        /// Its user.
        user: UserId,
        /// The user's handle.
        handle: Handle,
    },
    /// The invite exists.
    Invited {
        /// When it expires.
        expires_ms: u64,
    },
    /// The group exists.
    GroupCreated(GroupId),
    /// It is done; the item that records it, if there is one.
    Done(Option<MessageId>),
    /// The user is being deleted.
    Deleting {
        /// Groups that they are still in: ask again until there are none, and then they are deleted.
        left: usize,
    },
    /// The item is stored.
    Sent {
        /// Its place.
        msgid: MessageId,
        /// When it was decided.
        time_ms: u64,
    },
    /// Cursors (or read marks) as they stand now, and those that were refused.
    Cursors {
        /// (group, msgid).
        moved: Vec<(GroupId, MessageId)>,
        /// (group, why).
        refused: Vec<(GroupId, Refusal)>,
    },
    /// The read mark as it stands now.
    ReadMark {
        /// The group.
        group: GroupId,
        /// The last msgid that counts as read.
        msgid: MessageId,
        /// How often it was set anew.
        version: u64,
    },
    /// It was refused.
    Refused(Refusal),
}
