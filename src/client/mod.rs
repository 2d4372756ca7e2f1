//! The client library.

mod error;
mod event;
#[allow(unused_variables, reason = "the face comes first, the work behind it follows")]
mod handle;
mod options;
#[allow(unused_variables, dead_code, reason = "the face comes first, the work behind it follows")]
mod profile;
mod types;

pub use error::{ConnectError, EnrolError, Failure, ListenError, OutboxError, ProfileError, Refusal, RequestError};
pub use event::{Event, Received, Subscription};
pub use handle::{Client, Listener};
pub use options::ClientOptions;
pub use profile::Profile;
pub use types::{
    Account, Content, Device, EntryState, Group, History, Invite, Item, Member, OutboxEntry, Outcome, Page, Position,
    Role, Session, Status, User,
};
