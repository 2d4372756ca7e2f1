//! The client library.

mod backoff;
mod connect;
mod engine;
mod error;
mod event;
mod handle;
mod hello;
mod inbox_file;
mod journal;
mod live;
mod options;
mod outbox_file;
mod profile;
mod receiving;
mod requests;
mod sending;
mod stream;
mod tls;
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
