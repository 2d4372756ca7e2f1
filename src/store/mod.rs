//! What is kept: the commit log, which is the record, and the ordered index that serves it.
//!
//! Bytes in, bytes out: `store` knows trees, keys and records, but not what they mean; `server` translates. Nothing
//! here is asynchronous, and no thread is started here but to open the index under a watchdog: [`log::LogWriter`], [`log::Preparer`], [`applier::Applier`] and
//! [`page::read`] are steps that threads elsewhere loop over. [`verify`] checks a stopped folder whole.
//!
//! A data folder holds `FORMAT` (written last when it is made, read first), `LOCK`, `log/`, the segments of the commit
//! log, `index/`, the ordered index ([`index`]; `index.old` while it is rebuilt), [`flushed`], which records how far the
//! index is durable, and the [`ballast`]. FORMAT and log are the record. All else can be made from them, and is, on any
//! doubt.

pub mod applier;
pub mod ballast;
pub mod engine;
pub mod error;
pub mod faulty;
pub mod flushed;
pub mod format;
pub mod index;
pub mod keys;
pub mod log;
pub mod memory;
mod open;
pub mod overlay;
pub mod page;
pub mod records;
pub mod room;
#[cfg(test)]
mod suite;
pub mod tree;
pub mod verify;

pub use self::error::{StoreError, StoreErrorClass};
pub use self::open::{Opened, Options, Progress, Reason, Rebuild, open};
