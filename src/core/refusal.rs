//! Why something was refused: a closed list, in words for people. What it means to a client is the wire's business.

/// Why something was refused. `server` gives each its code on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The device does not exist.
    #[error("no such device")]
    UnknownDevice,
    /// The device was revoked.
    #[error("the device was revoked")]
    DeviceRevoked,
    /// The user was deactivated.
    #[error("the user is deactivated")]
    Deactivated,
    /// The user was deleted.
    #[error("the user is deleted")]
    UserDeleted,
    /// The payload is none.
    #[error("the payload is malformed")]
    Malformed,
    /// The item kind cannot be sent, or the switch is none.
    #[error("this server knows no such kind of item or switch")]
    Unsupported,
    /// The body is over the limit.
    #[error("the body is over {} bytes", crate::limits::BODY_BYTES_MAX)]
    TooLarge,
    /// The number was used for other bytes.
    #[error("this send number was used for other bytes")]
    Conflict,
    /// The number lies below what was stated as answered.
    #[error("this send number was stated as answered and is forgotten")]
    Forgotten,
    /// The number was passed over.
    #[error("this send number was passed over")]
    NeverStored,
    /// The number lies beyond the window.
    #[error("too many sends are unanswered")]
    WindowFull,
    /// An earlier number was not done.
    #[error("an earlier send of this device was not done")]
    OutOfTurn,
    /// A rate limit.
    #[error("too much in too short a time")]
    SlowDown {
        /// When to try again.
        retry_after_ms: u32,
    },
    /// Absent or forbidden.
    #[error("no such group, or not for you")]
    NoSuchGroup,
    /// The role does not allow it.
    #[error("your role does not allow this")]
    NotAllowed,
    /// No such user.
    #[error("no such user")]
    NoSuchUser,
    /// No such device.
    #[error("no such device of that user")]
    NoSuchDevice,
    /// Taken or reserved.
    #[error("the handle is taken")]
    HandleTaken,
    /// The text is no name.
    #[error("not a valid name")]
    BadName,
    /// Is a member already.
    #[error("already a member")]
    AlreadyMember,
    /// Is not a member.
    #[error("not a member")]
    NotMember,
    /// Too many intervals.
    #[error("has come and gone too often")]
    TooManyRejoins,
    /// A bound of the server.
    #[error("a limit of the server is reached")]
    LimitReached,
    /// The code opens nothing.
    #[error("the invite opens nothing: wrong, used by another device, or replaced")]
    BadInvite,
    /// The invite has expired.
    #[error("the invite has expired")]
    InviteExpired,
    /// The first invite needs a handle.
    #[error("this invite names nobody: choose a handle")]
    HandleNeeded,
    /// Beyond the head.
    #[error("beyond the last item")]
    BeyondHead,
    /// The member is muted.
    #[error("muted in this group: reading goes on")]
    Muted,
    /// The former member is banned.
    #[error("banned from this group")]
    Banned,
    /// The user has said that nobody adds them.
    #[error("this user lets nobody add them to a group")]
    NotAddable,
    /// A direct chat has its two users, and nothing else to decide.
    #[error("this cannot be done to a direct chat")]
    DirectChat,
    /// The group would have members and no owner.
    #[error("the last owner stays one until there is another")]
    LastOwner,
    /// Another device has set the read mark anew.
    #[error("another device has set the read mark anew")]
    MarkMoved,
    /// The disk is full.
    #[error("the disk is full: nothing that grows is taken until there is room")]
    StorageFull,
    /// A stored item could not be read just now.
    #[error("what was said cannot be looked up just now")]
    Busy,
    /// The target is absent, gone, not visible to who asks, or no content.
    #[error("no such message, or not for you")]
    NoSuchItem,
    /// The target was recalled.
    #[error("that message was recalled")]
    ItemRecalled,
    /// Only its author may.
    #[error("only who wrote it may edit it")]
    NotYours,
    /// The time for it is over.
    #[error("the time in which this can be changed is over")]
    TooLate,
    /// The target was edited as often as it can be.
    #[error("it was edited {} times, which is as often as can be", crate::limits::EDITS_MAX)]
    TooManyEdits,
}

impl Refusal {
    /// Whether nothing was decided, and the same command may succeed later as it is.
    #[must_use]
    pub fn is_not_done(self) -> bool {
        matches!(
            self,
            Refusal::WindowFull | Refusal::OutOfTurn | Refusal::SlowDown { .. } | Refusal::StorageFull | Refusal::Busy
        )
    }
}
