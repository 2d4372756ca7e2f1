//! gaggle: group messaging for small self-hosted teams. One binary, one UDP port, one copy of every message.

pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod core;
pub mod disk;
pub mod ids;
pub mod limits;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod wire;
