//! Traps of sled `=1.0.0-alpha.124`, and what stands between them and us. Each was read in its source or measured; those
//! that can be shown are pinned in the tests of this module. It holds no code: an update of sled begins by reading here.
//!
//! # Opening
//!
//! - **A kill inside it can cost everything.** It writes a snapshot under the number of the last log, removes logs and
//!   old snapshot, then makes the next log. After a kill before that there is no log: the next opening writes the
//!   snapshot under its old name and then removes "the old one". It serves all, and the one after that serves nothing.
//!   Where an older snapshot was left behind, that one comes back. Guard: [`super::preflight::Metadata::mend`].
//! - **It never looks whether a log is whole.** It reads up to the first frame that does not hold; later frames, and
//!   later logs, count all the same. So damage in an older log leaves leaves of different times beside each other, with
//!   the lsn of the newest. Guard: preflight; damage in the newest log only goes back to a whole flush, and the recorded
//!   lsn tells that.
//! - **It panics** on names that begin with `log` or `snapshot` and do not go on as it expects, where a tree has no
//!   beginning (a missing snapshot), no name or two leaves of one key, and on a leaf that is not one. **It aborts the
//!   process** where the snapshot's reading panics (that runs in a pool), or where a length claims more memory than
//!   there is: lengths have 16 bits of checksum, and are believed. Guard: preflight, and a thread of its own; for what
//!   is left, `flushed` counts openings that never ended.
//! - **It spins for ever** on a leaf that does not begin where the metadata says: stale metadata, or a slab of another
//!   time. So does every read. Guard: preflight reads the trees that an opening and a start read; a limit on the time.
//! - **A slab that is missing is made anew, empty.** Guard: preflight.
//! - **It runs the command `sync` twice**, each a sync of the whole machine. Recycling does too. Nothing needs it: what
//!   we rely on was flushed and synced. Guard: the limit on the time is generous. It does without where there is none.
//! - **A new database is not durable by itself**: the cookie is never synced, and the folder only before the metadata's
//!   is made in it. Guard: the guard syncs both.
//! - **It removes a superseded snapshot by a path without a folder**, so never there, and what the working directory has
//!   under that name instead. Guard: there never is a superseded one.
//! - **Its locks may lag**: the last handle may be dropped by another thread, and a process that is being started has
//!   copies of them for a moment. Guard: wait, then open again while it says so, for a bounded time.
//!
//! # Reading
//!
//! - **The end of `range(a..b)` does not stop its scan**: it goes on through the tree, and drops what it finds. Guard:
//!   `range(a..)` and an end of our own.
//! - **Leaves that a short scan reads are never evicted**: an iterator is a handle of its own, and a handle tells the
//!   cache what it used only after 32 leaves; what an iterator has noted by then is dropped with it. So whoever reads by
//!   pages fills the memory, whatever the size of the cache. Guard: a `get`, on a handle that lives on, of a key here and
//!   there in a scan. (Each of the cache's 256 parts keeps one leaf in any case.)
//! - **`flush_every_ms(None)` flushes whenever a handle is dropped**, thus at every scan. Guard: an interval without end.
//! - **Short reads are told on stdout**, with a backtrace on stderr. Guard: preflight knows where slabs are too short.
//! - **One failed read is the end**: all later reads and writes fail, and closing may end the process. Guard: a failed
//!   engine is leaked.
//! - **A slab in the state of an earlier time, whose leaves are in their places, is served as if it were of now.** sled
//!   cannot know it, nor can preflight. Guard: holes in a page are seen; the rest only comparing with the log shows.
//!
//! # Writing
//!
//! - **After a failed flush the next waits for ever**, and closing, which flushes, does too; `apply_batch` still says
//!   that all is well (`insert`, `remove` and reads err). Where the *sync* of a slab fails, not even they do. Guard: a
//!   failed flush makes the engine failed; it is leaked, and a watchdog looks after the applier.
//! - **Closing flushes, and aborts the process where that fails.** It moves leaves that lie scattered, so it reads some
//!   that nobody asked for: one of them damaged is enough. Guard: flush until there is nothing left to write, then
//!   close; what errs then is leaked.
//! - **Leaves written are never evicted** while the database is open: the flush takes the mark by which it would know
//!   them. Guard: recycling.
//! - **Removing by batch leaves empty leaves behind**, each of which a scan visits. Guard: `remove`, key by key.
//! - **Two threads that write may wait for one another for ever**: a batch locks leaves from left to right, and merging
//!   an emptied leaf goes from right to left. Guard: one thread writes.
//! - **Slots that a flush frees come back when the thread that flushed flushes again, or ends.** Until then the file
//!   grows. Guard: the same thread flushes.
//! - A fault of the thread that compacts metadata shows at the next call only. It is one like any other then.
//!
//! # For good
//!
//! - **The fanout is fixed when the database is made.** Guard: the cookie is compared first.
//! - **`Db` and `Tree` are not `Sync`**, and each clone is a handle of its own. Guard: a pool of clones.

#[cfg(test)]
mod tests;
