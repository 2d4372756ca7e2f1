//! What travels: frames, items, error codes, versions; bytes to types and back.
//!
//! Pure: no I/O, no clock. A frame is an envelope written by hand and a body that is a frozen postcard struct ending in
//! an extension list. Limits are checked before memory is taken. `PROTOCOL.md` beside this file is enough to write a
//! client without reading any of this.

mod bounded;
pub mod code;
pub mod codec;
#[cfg(test)]
mod document;
mod error;
pub mod frame;
#[cfg(feature = "proof")]
pub mod fuzzed;
#[cfg(test)]
mod golden;
pub mod item;
pub mod link;
mod part;
pub mod proof;
#[cfg(test)]
mod properties;
pub mod row;
pub mod said;
mod shown;
mod talk;
pub mod version;

pub use error::WireError;
