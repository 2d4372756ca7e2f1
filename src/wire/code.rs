//! The closed list of error codes. A number is never reused and never changes its class.
//!
//! The class travels beside the code, so that an older client knows what to do about a code that it has never seen.

use std::fmt;

/// What a client may do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// It will never succeed as it is: drop it, tell the user.
    Permanent = 1,
    /// Nothing was done: try again after `retry_after_ms`.
    NotDone = 2,
    /// It may have been done: try again with the same number only.
    Unknown = 3,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $class:ident;)*) => {
        /// Why something was refused or a connection closed. Also the QUIC application close code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// Every code, for tests and documentation.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code with this number, where this version knows it.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Code> {
                match number { $($number => Some(Code::$name),)* _ => None }
            }

            /// The number that travels.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Code::$name => $number,)* }
            }

            /// The name in logs, JSON and PROTOCOL.md.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What a client may do about it.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(Code::$name => Class::$class,)* }
            }
        }
    };
}

codes! {
    // 1–31: the connection.
    /// A frame, stream or value that the protocol does not allow.
    Malformed = 1, "malformed", Permanent;
    /// A request of a type that this server does not know.
    Unsupported = 2, "unsupported", Permanent;
    /// Something was larger than the advertised limit.
    TooLarge = 3, "too-large", Permanent;
    /// The client's minor version is below what the server still speaks.
    ClientTooOld = 4, "client-too-old", Permanent;
    /// No device with this id, or the proof did not fit its key.
    UnknownDevice = 5, "unknown-device", Permanent;
    /// The device was revoked.
    DeviceRevoked = 6, "device-revoked", Permanent;
    /// Another instance of this device listens now.
    Replaced = 7, "replaced", Permanent;
    /// The connection did not identify itself in time.
    HelloTimeout = 8, "hello-timeout", NotDone;
    /// More connections of this device, user or server than allowed.
    TooManyConnections = 9, "too-many-connections", NotDone;
    /// The server is stopping; it will be back.
    ServerStopping = 10, "server-stopping", NotDone;
    /// The peer is done and says goodbye.
    Goodbye = 11, "goodbye", NotDone;
    /// The store's history is another than the one this client knows.
    OtherHistory = 12, "other-history", Permanent;
    /// An older attempt of an instance that has already connected anew.
    StaleAttempt = 13, "stale-attempt", Permanent;
    /// The request is allowed to a listening connection only.
    NotListening = 14, "not-listening", Permanent;

    // 32–63: sends.
    /// The same send number was used for other bytes.
    Conflict = 32, "conflict", Permanent;
    /// The number lies below what the client has stated as answered.
    Forgotten = 33, "forgotten", Permanent;
    /// The number was passed over: it was never stored and never will be.
    NeverStored = 34, "never-stored", Permanent;
    /// The number lies beyond the window of unanswered sends.
    WindowFull = 35, "window-full", NotDone;
    /// An earlier number of this device was not done; this one waits for it.
    OutOfTurn = 36, "out-of-turn", NotDone;
    /// More than this device or user may do in this time.
    SlowDown = 37, "slow-down", NotDone;
    /// The server is at a bound of its own and takes nothing new now.
    Busy = 38, "busy", NotDone;
    /// The disk is full: reading works, writing waits for space.
    StorageFull = 39, "storage-full", NotDone;
    /// The log could not be written or synced; whether it was done shows after a retry.
    OutcomeUnknown = 40, "outcome-unknown", Unknown;

    // 64–95: groups, people, devices.
    /// No such group, or none that this user may see: both answer the same.
    NoSuchGroup = 64, "no-such-group", Permanent;
    /// The user's role does not allow it.
    NotAllowed = 65, "not-allowed", Permanent;
    /// No such user.
    NoSuchUser = 66, "no-such-user", Permanent;
    /// No such device of that user.
    NoSuchDevice = 67, "no-such-device", Permanent;
    /// The handle belongs to somebody, or is reserved.
    HandleTaken = 68, "handle-taken", Permanent;
    /// The text is not a handle, a group name, a topic, a device name or a display name.
    BadName = 69, "bad-name", Permanent;
    /// The user is in the group already.
    AlreadyMember = 70, "already-member", Permanent;
    /// The user is not in the group.
    NotMember = 71, "not-member", Permanent;
    /// The member has come and gone more often than the server keeps.
    TooManyRejoins = 72, "too-many-rejoins", Permanent;
    /// A bound on users, devices, groups, members, invites or recalls is reached.
    LimitReached = 73, "limit-reached", Permanent;
    /// The code opens nothing: wrong, used by another device, replaced or expired long ago.
    BadInvite = 74, "bad-invite", Permanent;
    /// The invite has expired.
    InviteExpired = 75, "invite-expired", Permanent;
    /// The first invite names nobody: a handle must be given.
    HandleNeeded = 76, "handle-needed", Permanent;
    /// The cursor would pass the head.
    BeyondHead = 77, "beyond-head", Permanent;
    /// The member is muted in this group: they read and acknowledge, and leave.
    Muted = 78, "muted", Permanent;
    /// The user is banned from the group: nobody can add them until that is lifted.
    Banned = 79, "banned", Permanent;
    /// The user lets nobody add them to a group.
    NotAddable = 80, "not-addable", Permanent;
    /// The group would have members and no owner.
    LastOwner = 81, "last-owner", Permanent;
    /// A direct chat has its two users, and nothing else to decide.
    DirectChat = 82, "direct-chat", Permanent;
    /// The message is absent, gone, of no kind that this can be done with, or not visible to this user.
    NoSuchItem = 84, "no-such-item", Permanent;
    /// The message was recalled.
    ItemRecalled = 85, "item-recalled", Permanent;
    /// Only the message's author may edit it.
    NotYours = 86, "not-yours", Permanent;
    /// The time in which the message can be changed is over.
    TooLate = 87, "too-late", Permanent;
    /// The message was edited as often as it can be.
    TooManyEdits = 88, "too-many-edits", Permanent;

    // 90–92: read marks; 93–95: users.
    /// Another device has set the read mark anew: look where it stands, and ask again.
    MarkMoved = 90, "mark-moved", Permanent;
    /// The user is deactivated: nothing of theirs is lost, and an operator can let them in again.
    Deactivated = 93, "deactivated", Permanent;
    /// The user is deleted.
    UserDeleted = 94, "user-deleted", Permanent;
}

impl Class {
    /// The class with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Class> {
        match number {
            1 => Some(Class::Permanent),
            2 => Some(Class::NotDone),
            3 => Some(Class::Unknown),
            _ => None,
        }
    }

    /// The number that travels.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Class::Permanent => 1,
            Class::NotDone => 2,
            Class::Unknown => 3,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
