//! The client library: a device of a gaggle server, at work.
//!
//! Enough to write an application without reading anything else of this crate:
//!
//! - A [`Profile`] is the folder of a device: its key, its server, its outbox and inbox. [`Client::enrol`] makes one from
//!   an invite link. Any number of processes can use a profile at once.
//! - A [`Client`] asks and sends. [`Client::queue`] returns once a message is safe in the outbox on disk; from there it is
//!   sent exactly once, by this process or the next one that runs with the profile, and [`Client::outcome`] tells its
//!   msgid, or why it was refused. Connections come and go by themselves.
//! - A [`Listener`] hands out [`Event`]s: the items of all groups or of some, per group in order and without a hole, and
//!   notices. One process of a profile can listen at a time.
//!
//! # Nothing lost, nothing twice
//!
//! The server keeps every item for this device until it is acknowledged. Each item has a [`Position`]; acknowledge it with
//! [`Listener::ack`] once it is safe with you. What was not acknowledged comes again after a restart:
//!
//! - *exactly once*, if you keep the position of the last item beside your own data, in the same transaction, and give
//!   it to [`Client::listen`];
//! - else *at least once*, and [`Received::seen_before`] tells what may have been handed out before.
//!
//! Acknowledgements are also the brake: who does not read, or does not acknowledge, is sent no more than a bounded
//! amount, and costs nobody anything.
//!
//! # What was said, and what became of it
//!
//! Edits, recalls and reactions are items like any other ([`Content`]), so that every device learns of them by its cursor,
//! however long ago it got the message. [`Conversation`] folds items into messages as they stand; [`Client::say`] makes
//! them. What was recalled is gone from the server; a device that got it before forgets it when the recall comes: the
//! files of its profile do by themselves, and what the application keeps is the application's to forget.
//!
//! # Failures
//!
//! Each operation has its own error; each error has a `failure()`, which says whether it was refused for good, is broken
//! here, or is worth another try. A client goes on connecting by itself until something ends it for good: the device was
//! revoked, the profile was copied and the copy listens, the server's history is another one. Then a listener gets
//! [`Event::Ended`] as its last event, and everything that is asked answers that reason.
//!
//! Futures may be dropped at any time. A message whose `queue` future was dropped may have been queued.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use gaggle::client::{Client, ClientOptions, Content, Event, History, Outcome, Profile, Subscription};
//! use gaggle::disk::{SharedDisk, real::RealDisk};
//!
//! # use gaggle::{config::Config, server::Server};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let disk: SharedDisk = Arc::new(RealDisk);
//! # let config = Config {
//! #     listen: "127.0.0.1:0".parse()?,
//! #     advertise: None,
//! #     data: folder.path().join("data"),
//! #     certs: folder.path().join("certs"),
//! #     ..Config::default()
//! # };
//! # let server = Server::start(config, disk.clone(), |_| ()).await?;
//! # let here = |link: &str| link.replace("localhost", "127.0.0.1");
//! # let link = here(&server.first_invite().ok_or("no invite")?.1.to_string());
//! let options = ClientOptions::default();
//!
//! // `link` is what `gaggle serve` printed at its first start, or what somebody's invite said.
//! let profile = Profile::at(disk.clone(), folder.path().join("ann"));
//! Client::enrol(&profile, &link, Some("ann"), "laptop", &options).await?;
//! let ann = Client::open(&profile, options.clone()).await?;
//! let group = ann.create_group("team", History::FromJoin).await?;
//!
//! // Somebody else joins, and listens.
//! let invite = ann.invite("bob", Some(group), Duration::from_secs(3600)).await?;
//! # let invite = gaggle::client::Invite { link: here(&invite.link), ..invite };
//! let profile = Profile::at(disk.clone(), folder.path().join("bob"));
//! Client::enrol(&profile, &invite.link, None, "phone", &options).await?;
//! let (bob, mut listener) = Client::listen(&profile, options, Subscription::All, None).await?;
//!
//! let seq = ann.queue(group, "hello").await?;
//! let Outcome::Sent { msgid, .. } = ann.outcome(seq).await? else { return Err("refused".into()) };
//!
//! while let Some(event) = listener.next().await {
//!     let Event::Item(received) = event else { continue };
//!     if let Content::Text(text) = &received.item.content {
//!         assert_eq!((text.as_str(), received.item.msgid), ("hello", msgid));
//!         listener.ack(received.position);
//!         break;
//!     }
//! }
//! bob.close().await;
//! ann.close().await;
//! # server.stop().await?;
//! # Ok(())
//! # })
//! # }
//! ```

mod answer;
mod backoff;
mod chance;
mod connect;
mod conversation;
mod engine;
mod error;
mod event;
mod files;
#[cfg(feature = "proof")]
pub mod fuzzed;
mod groups;
mod handle;
mod hello;
mod inbox_file;
mod journal;
mod live;
mod names;
mod net;
mod options;
mod outbox_file;
mod people;
mod profile;
mod quic;
mod receiving;
mod requests;
mod retention;
mod say;
mod sending;
#[cfg(feature = "proof")]
pub mod stepped;
mod stream;
mod talk;
mod tls;
mod types;
mod waiters;

pub use conversation::{Conversation, Message, Standing};
pub use error::{
    ConnectError, EnrolError, Failure, ListenError, OutboxError, ProfileError, Refusal, RequestError, TooLong,
};
pub use event::{Event, Received, Subscription};
pub use handle::{Client, Listener};
pub use options::ClientOptions;
pub use people::Who;
pub use profile::Profile;
pub use retention::{Holder, Kept, Retention};
pub use say::Say;
pub use talk::{Changes, ConversationInfo, Preview, ReadMark, Receipt, Receipts};
pub use types::{
    Account, Content, Device, EntryState, Group, History, Invite, Item, Member, OutboxEntry, Outcome, Page, Position,
    Role, Session, Status, User, UserState,
};

#[cfg(test)]
mod tests;
