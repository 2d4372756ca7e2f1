//! What is kept: the commit log, which is the record, and the ordered index that serves it.
//!
//! Bytes in, bytes out: `store` knows trees, keys and records, but not what they mean; `server` translates. Nothing
//! here is asynchronous, and no thread is started here but to open the index under a watchdog: [`log::LogWriter`],
//! [`log::Preparer`], [`log::Condenser`], [`applier::Applier`] and [`page::read`] are steps that threads elsewhere loop over. [`verify`]
//! checks a stopped folder whole.
//!
//! A data folder holds `FORMAT` (written last when it is made, read first), `LOCK`, `log/`, the segments of the commit
//! log, `index/`, the ordered index ([`index`]; `index.old` while it is rebuilt), [`flushed`], which records how far the
//! index is durable, and the [`ballast`]. FORMAT and log are the record. All else can be made from them, and is, on any
//! doubt.
//!
//! # What damage does
//!
//! To `index/` or `flushed`: a rebuild from the log, at the start, or at the start after the read that noticed. To the log
//! or FORMAT: a sentence that names the file, and nothing is touched. What is not noticed is no more than this:
//!
//! - after an unclean stop, the loss of the whole end of the log from somewhere behind the last recorded flush on: it
//!   looks as if it had never been written;
//! - damage inside a segment that is flushed and older than [`crate::limits::LOG_SEGMENTS_CHECKED`]
//!   others, until somebody reads all of the log: `gaggle verify`, or a rebuild, which then changes nothing. The index
//!   has what stood there;
//! - after an unclean stop, one file of leaves of the index in the state of an earlier time while the others are of now,
//!   where each leaf in it is whole. A page that it makes a hole in is noticed, and a group that ends below its cursors
//!   and answered sends; `gaggle verify` finds all of it. After a clean stop [`flushed`] tells, and a whole index of an
//!   earlier time is noticed in any case.

pub mod applier;
pub mod ballast;
pub mod engine;
pub mod error;
pub mod faulty;
pub mod flushed;
pub mod format;
#[cfg(feature = "proof")]
pub mod fuzzed;
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

/// A size as it is counted on disk.
fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
