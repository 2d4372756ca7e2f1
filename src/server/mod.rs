//! The server: the only place that knows quinn on the server's side, and that translates between wire, core and store.

pub mod admission;
pub mod auth;
pub mod endpoint;
pub mod identity;
pub mod operator;
