//! gaggle: group messaging for small self-hosted teams. One binary, one UDP port, an embedded store, no other service.
//!
//! This page is the map of the house. What travels is told in `src/wire/PROTOCOL.md`, how to run it in `README.md`;
//! someone who only wants to write a client in Rust begins at [`client`].
//!
//! # Bird's eye view
//!
//! A message to a group is kept once for all its members, under (group, msgid). Every device has one cursor in each
//! group, the last msgid that its application acknowledged. Whoever is connected is pushed to; everybody else pulls
//! pages from the cursor. So a send costs the same in a group of ten and in one of ten thousand, and what a device has
//! not seen is a number, not a list.
//!
//! ```text
//!  client ──QUIC──► server::connection ──Command──► server::writer ──────► store::log: append, fdatasync
//!                        ▲      ▲        bounded     core::State decides       │ durable: the view is published,
//!                        │      └── answers ◄─────────────────────────────────┤ then answers and fan-out
//!                        └────────── server::dispatch ◄────────────────────────┤
//!                                                                              ▼
//!                  pull ─► server::reader threads ─► store::overlay ◄ frames ► server::applier ─► store::index
//!                              └───────────────── prefix range scans from the cursor ─────────────────┘  (sled)
//! ```
//!
//! One thread, the writer, decides everything that changes anything. It drains its channel into a batch, lets
//! [`core::state::State`] decide each command, appends one frame to the commit log, syncs once, publishes the committed
//! view in one swap, and hands answers and events to one dispatcher. Everything that is read is read from that view.
//! The log is the record; the ordered index behind it serves pages, lags behind by what the overlay holds, and can be
//! rebuilt from the log at any time.
//!
//! # Code map
//!
//! | folder | what it is for | what it never does |
//! | --- | --- | --- |
//! | [`ids`], [`limits`], [`clock`] | names of numbers, every bound with its reason, the one clock | decide |
//! | `chance` | the one source of random bytes | make keys |
//! | [`wire`] | frames, items, codes, links, proofs: bytes to types and back | I/O; know core or store |
//! | [`core`] | what is decided: groups, members, sends, cursors, hand-out; the client's outbox and inbox | I/O, async, clock, randomness |
//! | [`disk`] | the one door to files: real, and simulated with power loss | know what the files mean |
//! | [`store`] | the commit log, records and keys, overlay, the index on sled, verify | be asynchronous; know the wire |
//! | [`server`] | QUIC, threads, sessions, fan-out; translates between wire, core and store | decide |
//! | [`client`] | the public library: connect, outbox, inbox, pages | know the server or the store |
//! | [`cli`] | one file a command; one that prints | know frames or streams |
//! | [`proof`] | deliberate faults, a clock to move and chance from a seed, for tests alone | anything, in a release build |
//! | `sync` | locks and threads between the writer and those beside it: unit tests may interleave them | |
//! | [`config`], [`telemetry`] | settings from file, flags and environment; logs without secrets | |
//!
//! With the feature `proof`, which only tests switch on, `server::stepped` and `client::stepped` are a server and a client
//! whose every step somebody else schedules: the same machines that threads and tasks loop over. `tests/sim` runs whole
//! worlds of them from one seed.
//!
//! Dependencies point downwards only: `ids, limits, clock ← wire, core, disk ← store ← server ← cli`, and `wire, core,
//! disk ← client ← cli`. `wire`, `core` and `store` never import one another. `tests/tidy.rs` holds all of this.
//!
//! # Invariants
//!
//! 1. Nothing is answered, pushed, listed or counted before the frame that holds it is synced, and everything before
//!    it (`server`'s writer: sync, then publish, then answer).
//! 2. A send is named by (device, number). Whatever fails, the same number with the same bytes has one msgid, and with
//!    other bytes it is a conflict ([`core::state`], window and rows of sends).
//! 3. msgids of a group are dense from 1 and given by one thread; joins, leaves and renames are items of the same order.
//! 4. The committed view changes only by publishing a durable frame, and a reader takes authorisation, head and rows in
//!    one look at it.
//! 5. `handed` of a listener covers only what was written to it without a hole; an ack never passes it, so a cursor
//!    never passes an item that its device was not given ([`core::listener`]).
//! 6. What a member sees is a set of intervals, by every road: pages, pushes, lists and counts ask
//!    [`core::tables::Tables`].
//!    An edit is seen where it and what it edits are; what was recalled is seen nowhere ([`core::recalled`]).
//! 7. Every queue is bounded and says what full means: a stream is not read on, a commit waits, or the head is told in
//!    place of items. Nobody waits for a slow peer.
//! 8. Of the log only an unsynced last frame is ever cut; anything else that does not fit is a named error that leaves
//!    the folder as it is ([`store::log`]).
//! 9. The index holds no frame that is not synced in the log, is flushed by one thread, and is never used on any doubt:
//!    not when it holds less than was recorded outside it, has failed once, did not open twice, or has other files than
//!    a clean stop left ([`store::flushed`]).
//! 10. What grows is refused before it is decided where the disk has no room for it ([`store::room`]).
//! 11. No panic is reachable from the network or from the disk, and no log line holds a body, a code, a key or a whole
//!     address.
//! 12. What a group keeps begins with its first kept item. That moves up, durably, before anything below it is removed,
//!     never further than the group's policy allows, and nothing from it on is ever removed ([`core::retention`]).
//!
//! # Decisions, and why
//!
//! - **A log of our own under the index.** Measured, sled alone does not keep what it was given through a power loss. The
//!   log is the point of durability, the atomicity across trees, and the source of every rebuild. Sled is the ordered
//!   index that serves it, behind a door ([`store::engine`]) that a map in memory fits as well; its traps, each pinned by
//!   a test, stand in `store::index::traps`, and how its fanout, compression and cache were chosen in [`store::index`].
//! - **Written behind, beside the commits.** Frames wait for the index in the overlay, up to 48 MB of rows; at the bound
//!   commits wait. So a commit does not wait for a flush, which takes half a second, nor for a recycling.
//! - **An index in doubt ends the process** (exit 3), and the next start rebuilds it. Sled that has failed once can
//!   neither be flushed nor closed, and a thread that hangs in it can't be ended; nothing answered is lost, since the log
//!   has it. Only an open that fails, without hanging, is followed by a rebuild in the same start.
//! - **A start reads the newest half GB of the log whole, and of the rest the beginnings of segments.** Then a start
//!   takes no longer the longer the history is; damage deep in an old segment is told by `gaggle verify` and by every
//!   rebuild, which read all of it before they give anything up. What no start can notice after an unclean stop: the
//!   loss, by damage, of the log's whole end behind the last recorded flush.
//! - **What a group keeps is decided in two steps.** A task reads what the tables do not know, the age and the bytes of
//!   items, and asks; the writer decides again over its own tables and moves the first kept item, in a frame of its own; only
//!   then rows are removed, a few hundred at a time (`server::keeping`). The group's row says how much content is gone, so that
//!   what is unread stays arithmetic. Ages are reckoned by a clock that never goes back and goes at most twice
//!   as fast as time passes, so that a clock that was set forward by a year purges nothing before somebody notices; after a
//!   stop it takes as long again to catch up. An item that was stamped by a clock that had been set back says itself from
//!   when on it ages; one that was stamped before the clock was ever set is as old as what comes behind it. A first start
//!   years ahead looks the same as a clock set back later, and keeps what it need not. The last row by which an author's items, or the
//!   mentions of somebody, are counted stays.
//! - **The log is condensed behind the writer.** A sealed segment is compressed at once, and when the log has grown by a
//!   quarter all sealed ones are gone over, and written anew without what is dead ([`store::log::Condenser`]). What is dead
//!   is told by the log alone, a part of the keys at a time, never by the index, which may be wrong. So the log stays within
//!   a quarter of what is live in it, and each byte written costs about four read, for each part of the keys (of
//!   [`limits::CONDENSE_KEYS_MAX`] at the most); a segment of which everything is dead leaves a file of a hundred bytes,
//!   which is not gone over again. Where more is written than condensing keeps up with, it grows until there is time.
//!   A wiped body is gone after an hour: what was wiped before a start is not known at the next one, so each start goes
//!   over the log as if something had been. Nothing above the index's last recorded flush goes, so that is recorded after
//!   ten minutes at the latest ([`limits::INDEX_UNRECORDED_MS_MAX`]). A log of tens of millions of messages may take
//!   longer to go over than what is left of the hour.
//! - **One copy of the resident rows.** [`core::state::State`] holds only what the batch under way changes, over the
//!   committed [`core::tables::Tables`], which readers share. A batch that fails is dropped by forgetting that; and the
//!   writer takes the write lock only to publish.
//! - **After a failed write or sync the store is opened anew** under the rules for the end of the log, because a second
//!   sync proves nothing about what the first one lost. Sends in doubt are answered *outcome unknown*; what their
//!   device sends later waits for them, so that order holds. Connections are closed then: what they were told may be
//!   less than what turned out to be kept, and coming back asks for everything anew.
//! - **A refusal is synced before it is told**, and so is the mark that an item was handed out. An outcome of *stored* need
//!   not be: sent again it ends in the same way. Both were found missing by simulation.
//! - **A full disk is refused before deciding.** Below a mark of free space what grows gets `storage-full`, while acks,
//!   leaves, removals and revocations go on from a reserve; below another nothing is taken, because a flush of the index
//!   that fails for want of room would cost the index. The operator is warned well before. A ballast of 8 MB keeps room
//!   for a start where another program fills the disk. All of it is over by itself once there is room.
//! - **What was said is read before the writer sees the command.** `core::state` holds no items, and the writer must not wait
//!   for a disk. So a reader thread reads what an edit, recall or reaction is about, in the order of its stream, and
//!   attaches it; the writer reads again only what turned out to be outdated, which was in memory a moment ago
//!   ([`core::attached`]).
//! - **A batch without writes needs no frame.** Resends and refusals change nothing, and everything that they answer
//!   was durable before.
//! - **Acks ride in the next frame.** Those that come while a frame is synced share one, the highest of each device and
//!   group counting; nothing waits for company. Only where the disk has no room for anything they are put off, and
//!   tried again every 200 ms, as who acked does not ask again.
//! - **A listener's pushes count as handed when they are queued for its stream.** The queue is bounded by the credit and
//!   dies with the connection, as does `handed`; an ack for something that was never read cannot come.
//! - **Proof in the first flight.** Hello and its signature travel together, as the exporter of TLS 1.3 is known to the
//!   client by then. Early data (0-RTT) is not accepted.
//! - **Ownership passes by itself.** Whose last owner leaves is owned by the admin who is there longest, else by the
//!   member who is; when the last member leaves, the group is dead and nobody comes back into it. An owner who is shut out
//!   counts only where everybody is.
//! - **An invite falls with the device it was made on**, as it does with its user: a revoked device would else come back by
//!   what it had made in time. So many devices of a user are theirs to make, revoked ones included, as none is ever freed.
//! - **Unread is arithmetic.** Each content item carries its ordinal in its group and among those of its author, and so
//!   do the borders of stays. A count is a difference of ordinals for each stay: constant where the read mark stands at the
//!   head, else one row and a search by halving ([`core::unread`]). Nothing is written for a member when something is sent.
//! - **The list of conversations is ordered by frames of the log.** A group notes the last frame that changed it, a
//!   membership that of its row or read mark; whoever asks compares these along their own groups ([`core::conversations`]).
//!   The frames stand in rows on disk too, so that a start makes nobody list everything anew.
//! - **Another history is refused, not merged.** A client that knows another epoch than the store's is told so and ends;
//!   restoring a backup, which would make such clients, is not part of this version.

mod chance;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod core;
pub mod disk;
pub mod ids;
pub mod limits;
pub mod proof;
pub mod server;
pub mod store;
mod sync;
pub mod telemetry;
pub mod wire;
