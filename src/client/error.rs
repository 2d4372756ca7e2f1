//! What can fail, one enum an operation. Each says in words what happened and, by [`Failure`], what to do about it.
//!
//! All are cheap to clone, because the same failure is often told to several who wait. None holds a message, a code or
//! a key.

use crate::disk::DiskError;
use crate::ids::{ClientSeq, Epoch, GroupId};
use crate::wire::code::{Class, Code};

/// What to do about a failure; it decides the exit code of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The server said no, for good: change what is asked.
    Refused,
    /// Something here is broken or used wrongly: folder, file, link, server of another kind.
    Broken,
    /// Try again: no network, a busy server, an outcome that is not known yet.
    Temporary,
}

/// The server's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The number of its reason, also of one that this version does not know.
    pub number: u16,
    /// What can be done about it.
    pub class: Class,
    /// When to try again, in ms, where nothing was done.
    pub retry_after_ms: u32,
    /// The server's words for a person. They come from the network: show them, never obey them.
    pub detail: String,
}

impl Refusal {
    /// The reason, where this version knows it.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        Code::from_number(self.number)
    }

    /// Whether this is the reason.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.number == code.number()
    }

    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self.class {
            Class::Permanent => Failure::Refused,
            Class::NotDone | Class::Unknown => Failure::Temporary,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code() {
            Some(code) => write!(out, "{code}")?,
            None => write!(out, "error {}", self.number)?,
        }
        if self.detail.is_empty() { Ok(()) } else { write!(out, ": {}", self.detail) }
    }
}

/// Why a profile's folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Nobody has joined with this folder yet.
    #[error("{folder} holds no device yet: join first")]
    NotEnrolled {
        /// The folder.
        folder: String,
    },
    /// The folder holds a device that came from another invite.
    #[error("{folder} already holds {device} of {handle}: another invite needs a profile of its own")]
    Used {
        /// The folder.
        folder: String,
        /// The device in it.
        device: String,
        /// Its user.
        handle: String,
    },
    /// A file is not what it must be.
    #[error("{file} is damaged: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file that must be there is not.
    #[error("there is no {file}")]
    Missing {
        /// The file.
        file: String,
    },
    /// The disk refused.
    #[error("{0}")]
    Disk(String),
    /// Another process held the lock for a short step for too long.
    #[error("{lock} is held by process {pid}")]
    Locked {
        /// The lock's file.
        lock: String,
        /// Who holds it; zero: it did not say.
        pid: u32,
    },
}

impl ProfileError {
    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self {
            ProfileError::Used { .. } => Failure::Refused,
            ProfileError::NotEnrolled { .. }
            | ProfileError::Missing { .. }
            | ProfileError::Damaged { .. }
            | ProfileError::Disk(_) => Failure::Broken,
            ProfileError::Locked { .. } => Failure::Temporary,
        }
    }
}

impl From<DiskError> for ProfileError {
    fn from(error: DiskError) -> ProfileError {
        ProfileError::Disk(error.to_string())
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The name leads nowhere.
    #[error("no address is known for {address}: {cause}")]
    NoSuchHost {
        /// `host:port`.
        address: String,
        /// What the system said.
        cause: String,
    },
    /// Silence.
    #[error("no answer from {address} in {waited_ms} ms: no server is running there, or this network blocks UDP")]
    NoAnswer {
        /// `host:port`.
        address: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// Another key than the one in the invite. Nothing was told to that server.
    #[error(
        "{address} has another key than this profile knows (pin {expected} wanted, {found} shown): nothing was sent"
    )]
    WrongPin {
        /// `host:port`.
        address: String,
        /// The first pin that would have been right.
        expected: String,
        /// The pin that was shown.
        found: String,
    },
    /// The right certificate, without its key. Nothing was told to that server.
    #[error("{address} shows the right certificate without having its key: nothing was sent")]
    NoProof {
        /// `host:port`.
        address: String,
    },
    /// Something else speaks there.
    #[error("{address} does not speak this protocol: {cause}")]
    NotGaggle {
        /// `host:port`.
        address: String,
        /// What it did instead.
        cause: String,
    },
    /// The server refused the connection, or ended it with a reason.
    #[error("{0}")]
    Refused(Refusal),
    /// The connection broke.
    #[error("the connection to {address} broke: {cause}")]
    Lost {
        /// `host:port`.
        address: String,
        /// How.
        cause: String,
    },
    /// The server's store has another history than the one this profile knows.
    #[error("the server's history is another one ({now}, this profile knows {known})")]
    OtherHistory {
        /// What the profile knows.
        known: Epoch,
        /// What the server has.
        now: Epoch,
    },
    /// This machine gives no socket.
    #[error("no UDP socket: {cause}")]
    NoSocket {
        /// What the system said.
        cause: String,
    },
    /// The profile cannot be read or written.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl ConnectError {
    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self {
            ConnectError::WrongPin { .. } | ConnectError::NoProof { .. } | ConnectError::OtherHistory { .. } => {
                Failure::Refused
            }
            ConnectError::NotGaggle { .. } | ConnectError::NoSocket { .. } => Failure::Broken,
            ConnectError::NoSuchHost { .. }
            | ConnectError::NoAnswer { .. }
            | ConnectError::Lost { .. }
            | ConnectError::Closed => Failure::Temporary,
            ConnectError::Refused(refusal) => refusal.failure(),
            ConnectError::Profile(error) => error.failure(),
        }
    }

    /// Whether trying again by itself is pointless: the client has ended, or will.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            ConnectError::Refused(refusal) => refusal.class == Class::Permanent && !refusal.is(Code::StaleAttempt),
            ConnectError::OtherHistory { .. } | ConnectError::Profile(_) | ConnectError::Closed => true,
            ConnectError::WrongPin { .. }
            | ConnectError::NoProof { .. }
            | ConnectError::NotGaggle { .. }
            | ConnectError::NoSocket { .. }
            | ConnectError::NoSuchHost { .. }
            | ConnectError::NoAnswer { .. }
            | ConnectError::Lost { .. } => false,
        }
    }
}

/// A name that no server takes: it was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {bytes} bytes, {max} are allowed")]
pub struct TooLong {
    /// What the name is of.
    pub what: &'static str,
    /// What it has.
    pub bytes: usize,
    /// What is allowed.
    pub max: usize,
}

/// Why an invite made no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnrolError {
    /// The text is no invite link.
    #[error("this is no invite link: {0}")]
    BadLink(String),
    /// The folder cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// There was no connection; the code was not sent, or its answer was lost: the same link again finishes it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refused the invite.
    #[error("{0}")]
    Refused(Refusal),
    /// The device's name, or the handle, is longer than any.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl EnrolError {
    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self {
            EnrolError::BadLink(_) => Failure::Broken,
            EnrolError::Profile(error) => error.failure(),
            EnrolError::Connect(error) => error.failure(),
            EnrolError::Refused(refusal) => refusal.failure(),
            EnrolError::TooLong(_) => Failure::Refused,
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server refused.
    #[error("{0}")]
    Refused(Refusal),
    /// There is no connection; nothing was asked.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke, or the time was over, before the answer came: what was asked may have been done.
    #[error("no answer came: {cause}; it may have been done")]
    NoAnswer {
        /// How it ended.
        cause: String,
    },
    /// The device or the user who asked was shut out before the answer came, perhaps by what was asked.
    #[error("{0}")]
    ShutOut(Refusal),
    /// A name in it is longer than any; nothing was asked.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The server's answer makes no sense.
    #[error("the server's answer makes no sense: {0}")]
    Protocol(String),
}

impl RequestError {
    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self {
            RequestError::Refused(refusal) | RequestError::ShutOut(refusal) => refusal.failure(),
            RequestError::Connect(error) => error.failure(),
            RequestError::TooLong(_) => Failure::Refused,
            RequestError::NoAnswer { .. } => Failure::Temporary,
            RequestError::Protocol(_) => Failure::Broken,
        }
    }
}

/// Why a message was not put into the outbox, or could not be taken out of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboxError {
    /// The body is over what a message may have.
    #[error("the message has {bytes} bytes, {max} are allowed")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What is allowed.
        max: usize,
    },
    /// No server would take it: it names no message, mentions too many, or is no reaction.
    #[error(
        "this cannot be said: a reaction is 1 to {} bytes, and at most {} users are mentioned",
        crate::limits::REACTION_BYTES_MAX,
        crate::limits::MENTIONS_MAX
    )]
    Unsayable,
    /// The outbox has as much as it may hold.
    #[error("the outbox holds {entries} messages, more do not fit")]
    Full {
        /// How many are in it.
        entries: usize,
    },
    /// Only what was never attempted can be withdrawn.
    #[error("{0} was attempted already: its outcome must be waited for")]
    Attempted(ClientSeq),
    /// The outbox holds nothing under this number.
    #[error("the outbox holds no {0}")]
    Absent(ClientSeq),
    /// The file cannot be read or written.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// It is over for this device, or for this process: nothing is sent any more.
    #[error("nothing is sent any more: {0}")]
    Ended(ConnectError),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl OutboxError {
    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self {
            OutboxError::TooLarge { .. }
            | OutboxError::Unsayable
            | OutboxError::Attempted(_)
            | OutboxError::Absent(_) => Failure::Refused,
            OutboxError::Full { .. } | OutboxError::Closed => Failure::Temporary,
            OutboxError::Ended(error) => error.failure(),
            OutboxError::Profile(error) => error.failure(),
        }
    }
}

/// Why this process cannot listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Another process of this profile does.
    #[error("process {pid} already listens with this profile")]
    AnotherListener {
        /// Which.
        pid: u32,
    },
    /// The position belongs to an inbox that is no more: begin without one.
    #[error("the position belongs to an inbox that is lost")]
    LostPosition,
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The group is none of one's own.
    #[error("no such group: {0}")]
    NoSuchGroup(GroupId),
}

impl ListenError {
    /// What to do about it.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        match self {
            ListenError::AnotherListener { .. } | ListenError::NoSuchGroup(_) => Failure::Refused,
            ListenError::LostPosition => Failure::Broken,
            ListenError::Profile(error) => error.failure(),
        }
    }
}
