//! What is kept: the commit log, which is the record, and the ordered index that serves it.
//!
//! Bytes in, bytes out: `store` knows trees, keys and records, but not what they mean; `server` translates. Nothing
//! here is asynchronous.

pub mod engine;
pub mod tree;
