//! The server: the only place that knows quinn on the server's side, and that translates between wire, core and store.
//!
//! One writer thread decides (`writer`), one applier thread feeds the index (`applier`), a few reader threads read
//! pages (`reader`); everything that touches the network is a task of the runtime that [`Server::start`] is called
//! on. They share one committed view (`view`). Fan-out never waits for a peer, and the writer never waits for the
//! network. Nothing waits for an index that fails or hangs (`watchdog`): that is doubt (`doubt`), which is recorded and
//! ends the server.
//!
//! What a thread or task does between two waits is a function that knows neither threads nor QUIC: `writer`, `applying`,
//! `pushing`, `answering` are step machines, others are functions of one frame or batch. `stepped`, for tests alone, hands
//! them to a simulator.

mod acks;
pub mod admission;
mod answering;
mod applier;
mod applying;
mod attaching;
pub mod auth;
mod beside;
#[cfg(feature = "proof")]
mod byhand;
mod condensing;
mod connection;
mod control;
mod conversations;
mod dispatch;
mod doubt;
pub mod endpoint;
mod explaining;
mod gather;
mod handshake;
pub mod identity;
mod keeping;
mod listening;
mod lists;
mod opening;
pub mod operator;
mod peer;
mod preparing;
mod presence;
mod push;
mod pushing;
mod reader;
mod receipts;
mod registry;
mod request;
mod requests;
mod room;
mod rows;
mod session;
mod shared;
mod snapshot;
mod start;
#[cfg(feature = "proof")]
pub mod stepped;
mod streams;
mod translate;
#[cfg(test)]
mod verbs;
mod view;
mod watchdog;
mod writer;
mod writing;

pub use opening::{IndexOptions, OpenError};
pub(crate) use shared::Shared;
pub use start::{ServeError, Server};
#[cfg(feature = "proof")]
pub use translate::fuzzed;
pub(crate) use translate::understand;
pub use translate::{KeptError, LoadError};
