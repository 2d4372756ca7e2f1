//! What is decided, and nothing else: no I/O, no async, no clock, no randomness, no bytes of wire or store.
//!
//! [`state::State`] turns commands into writes, an answer and events; [`tables::Tables`] is the committed view that
//! everything is read from; [`listener`] decides what is pushed and what may be acked; [`outbox`] and [`inbox`] are the
//! client's side of the same promises. All are step machines that a simulator can drive.

pub mod attached;
pub mod authorise;
mod changes;
pub mod command;
pub mod conversations;
mod cursors;
pub mod event;
pub mod inbox;
pub mod listener;
pub mod names;
pub mod outbox;
pub mod people;
pub mod recalled;
pub mod refusal;
pub mod retention;
pub mod rows;
pub mod sendable;
pub mod sight;
pub mod state;
pub mod tables;
pub mod unread;
pub mod visible;
