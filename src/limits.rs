//! Every bound of the system, each with its reason; relations between them are checked when the program is built.
//!
//! A bound stands here and nowhere else. Those that a client must know travel in Welcome.

/// Largest body of an item, in bytes of UTF-8. Chat texts are hundreds of bytes; pastes fit, files do not belong here.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Extensions of one frame, item or row: enough for every feature foreseen, few enough to check by eye.
pub const EXTENSIONS_MAX: usize = 16;
/// All extension bytes of one frame, item or row.
pub const EXTENSION_BYTES_MAX: usize = 4 * 1024;
/// Largest item as it travels: body, extensions and 256 bytes for everything else (181 at the most).
pub const ITEM_BYTES_MAX: usize = BODY_BYTES_MAX + EXTENSION_BYTES_MAX + 256;
/// Largest frame on a stream, without the envelope. A frame holds several rows, always at least one item of any size.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Rows of one page or push frame: leaves room in it for the heads of [`PUSH_BATCHES_MAX`] batches.
pub const FRAME_ROWS_BYTES_MAX: usize = FRAME_BYTES_MAX - 64 * 1024;
/// Groups of one push frame: one for each item of the largest credit.
pub const PUSH_BATCHES_MAX: usize = CREDIT_ITEMS_MAX as usize;
/// Bytes of an envelope: `len u32 | type u16 | flags u8 | request u32`.
pub const ENVELOPE_BYTES: usize = 11;

/// Longest text of any kind in a frame, in bytes: what is longer is refused unread, what is shorter is judged by its own bound.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Longest group name, in bytes.
pub const GROUP_NAME_BYTES_MAX: usize = 128;
/// Longest topic of a group, in bytes: a line or three.
pub const GROUP_TOPIC_BYTES_MAX: usize = 512;
/// Longest device name, in bytes.
pub const DEVICE_NAME_BYTES_MAX: usize = 64;
/// Longest display name of a user, in bytes: most people's full names in any script.
pub const DISPLAY_NAME_BYTES_MAX: usize = 128;
/// Longest handle, in bytes: its grammar (`PROTOCOL.md`, section 11) has one character and up to 31 more.
pub const HANDLE_BYTES_MAX: usize = 32;

/// Users of a server: a team, with room.
pub const USERS_MAX: usize = 50_000;
/// Live devices of one user.
pub const USER_DEVICES_MAX: usize = 32;
/// Devices of one user, revoked ones included, beyond which only an operator invites further ones: they and their cursors
/// stay, so nobody may use up those of everybody.
pub const USER_DEVICES_EVER_MAX: usize = 4 * USER_DEVICES_MAX;
/// Devices of a server, revoked ones included.
pub const DEVICES_MAX: usize = 100_000;
/// Groups of a server.
pub const GROUPS_MAX: usize = 100_000;
/// Current members of one group.
pub const GROUP_MEMBERS_MAX: usize = 20_000;
/// Memberships of a server, former ones included: they are resident in memory.
pub const MEMBERSHIPS_MAX: usize = 500_000;
/// Cursors of a server: they are resident in memory.
pub const CURSORS_MAX: usize = 1_000_000;
/// Bytes of memory that a membership of one stay may cost at the most, with its counts and the version of its read mark; a
/// test holds this.
pub const MEMBERSHIP_BYTES: usize = 640;
/// Bytes of memory that a cursor may cost at the most; a test holds this.
pub const CURSOR_BYTES: usize = 128;
/// Intervals of one member in one group; who comes back more often than that is told so.
pub const INTERVALS_MAX: usize = 64;
/// Stays of a deleted user that one step ends: each is an item, a row and perhaps a new owner, and all of them go into
/// one frame with what else is in the batch.
pub const STAYS_ENDED_AT_ONCE: usize = 256;
/// Edits of one item: for slips of the pen, and for a script that reports its progress in one message. A recall and some
/// pages read all of them.
pub const EDITS_MAX: u32 = 64;
/// Users that one item may mention: each costs a row.
pub const MENTIONS_MAX: usize = 32;
/// Longest reaction, in bytes: one emoji of several parts, or a word.
pub const REACTION_BYTES_MAX: usize = 64;
/// Entries of the lists of recalled items of a server, which are resident in memory: each item is in that of its group, in that
/// of its author, and in that of each whom it mentioned. A million items that mention nobody.
pub const RECALLED_ENTRIES_MAX: usize = 2_000_000;
/// Entries of them for items of one author beyond which they recall nothing more themselves: a tenth of all, so that nobody
/// uses up the recalls of everybody. Admins recall what they said all the same.
pub const RECALLED_ENTRIES_AUTHOR_MAX: usize = RECALLED_ENTRIES_MAX / 10;
/// Bytes of memory that such an entry may cost at the most; a test holds this.
pub const RECALLED_ENTRY_BYTES: usize = 16;
/// Bytes of memory that the count of an author's entries may cost at the most; a test holds this.
pub const RECALLED_AUTHOR_BYTES: usize = 48;
/// Lists of recalled items: of each group, and two of each membership.
pub const RECALLED_LISTS_MAX: usize = GROUPS_MAX + 2 * MEMBERSHIPS_MAX;
/// Bytes of memory that such a list may cost at the most, without its entries; a test holds this.
pub const RECALLED_LIST_BYTES: usize = 160;
/// Invites that are open at once.
pub const INVITES_MAX: usize = 10_000;
/// Of them those that a user has for devices of their own: twice as many as they may have devices, and so few that nobody
/// uses up those of everybody.
pub const INVITES_USER_MAX: usize = 2 * USER_DEVICES_MAX;
/// Longest life of an invite, in seconds: 30 days.
pub const INVITE_LIFETIME_S_MAX: u64 = 30 * 24 * 3600;

/// Sends of one device that may be unanswered (W): hides a round trip, bounds what a server must remember of a device.
pub const SENDS_UNANSWERED_MAX: u64 = 16;
/// Bytes of unanswered sends of one device; one send is always allowed. A client holds to it; what a server holds of one that
/// does not is bounded by [`ANSWERS_QUEUED_MAX`].
pub const SENDS_UNANSWERED_BYTES_MAX: usize = 32 * 1024;

/// Messages that wait in the outbox of a device: days of typing without a network.
pub const OUTBOX_ENTRIES_MAX: usize = 10_000;
/// Payload bytes that wait in the outbox of a device.
pub const OUTBOX_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Answers that an outbox remembers, so that another process of the profile can still read its own.
pub const OUTBOX_SETTLED_KEPT: usize = 1_024;

/// Push credit at the start, in items.
pub const CREDIT_ITEMS_START: u32 = 16;
/// Push credit at the start, in bytes.
pub const CREDIT_BYTES_START: u32 = 32 * 1024;
/// Push credit at the most, in items.
pub const CREDIT_ITEMS_MAX: u32 = 1024;
/// Push credit at the most, in bytes.
pub const CREDIT_BYTES_MAX: u32 = 256 * 1024;
/// Credit falls back when items stay unacked for this long plus two round trips, in ms; see [`CREDIT_STALL_MS_MIN`].
pub const CREDIT_STALL_MS_BASE: u64 = 500;
/// Shortest time after which unacked items count as late, in ms.
pub const CREDIT_STALL_MS_MIN: u64 = 1_000;
/// A client acks after this long at the latest, in ms; it acks at half of its credit before.
pub const ACK_DELAY_MS_MAX: u64 = 500;
/// Acks that were put off, because the disk has no room for anything, are tried again after this long, in ms: who acked
/// does not ask again, and a try costs nothing.
pub const ACK_RETRY_MS: u64 = 200;
/// A page that ends this near to the head, in items, is followed by pushes without being asked.
pub const NEAR_HEAD_ITEMS: u64 = 64;

/// Items of one page.
pub const PAGE_ITEMS_MAX: u32 = 500;
/// Items of one page where the client named no number.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;
/// Bytes of one page; one item is always given.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Rows of one page of a list (groups, members, users, devices).
pub const LIST_ROWS_MAX: usize = 500;
/// Conversations in one answer, each with its name and a preview.
pub const CONVERSATION_ROWS_MAX: usize = 200;
/// Bytes of a message in the list of conversations: a line of it.
pub const PREVIEW_BYTES_MAX: usize = 256;
/// Messages that are looked at, from the last backwards, for one to show in the list of conversations: those before it
/// were recalled.
pub const PREVIEW_TRIES_MAX: usize = 32;
/// Members who are looked at at once for the receipts of an item: a commit waits meanwhile.
pub const RECEIPTS_LOOKED_MAX: usize = 1_000;
/// Users that one notice of receipts names; of more an author is told that there are.
pub const RECEIPTS_TOLD_MAX: usize = 32;
/// Groups of which a listener is told receipts at once: those that it has on the screen, and many more.
pub const RECEIPT_GROUPS_MAX: usize = 64;
/// Receipts are gathered for so long before authors are told of them, in ms: a tick need not be quicker.
pub const RECEIPTS_TOLD_MS: u64 = 500;
/// Groups whose receipts are gathered for that; beyond it they are told at once.
pub const RECEIPT_GROUPS_WAITING_MAX: usize = 1_024;
/// Users, each in one group, of whom it is remembered how far they had come when authors were told last; beyond it that is
/// forgotten, and some are told what they know.
pub const RECEIPTS_KNOWN_MAX: usize = 65_536;
/// Read marks of one notice: leaves each its version among the extensions.
pub const READ_MARKS_TOLD_MAX: usize = 400;
/// Ranges of a page that retention removed: one for each interval of a member, and one before them.
pub const GONE_RANGES_MAX: usize = INTERVALS_MAX + 1;
/// Entries of one frame that names groups or users with a mark each: acks, subscriptions, heads, cursors.
pub const ACK_ENTRIES_MAX: usize = 4_096;

/// Items that a listener keeps for an application that does not acknowledge; beyond it nothing is pulled.
pub const INBOX_WAITING_ITEMS_MAX: usize = 8_192;
/// Bytes of such items; a full credit and the pages under way may come on top.
pub const INBOX_WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Notices that wait for a slow application; the oldest goes first.
pub const LISTENER_NOTICES_MAX: usize = 256;
/// Pages that a listener asks for at once: enough to hide a round trip, few enough for its other requests.
pub const PULLS_UNDER_WAY_MAX: usize = 4;
/// Bidirectional streams a client may have open: control and a few requests (measured: 33 KiB a connection, not 168).
pub const STREAMS_BIDI_MAX: u32 = 16;
/// Unidirectional streams a client may have open: acks, and one being replaced.
pub const STREAMS_UNI_MAX: u32 = 8;
/// Connections that call, for one device: commands in a few terminals, and some that were killed and count until their
/// idle timeout.
pub const CALLERS_PER_DEVICE_MAX: usize = 8;
/// Connections of one user, of all devices.
pub const CONNECTIONS_PER_USER_MAX: usize = 64;
/// Connections of the server.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Handshakes under way above which new addresses must prove themselves by a retry token.
pub const HANDSHAKES_BEFORE_RETRY: usize = 256;
/// Connections that have not identified themselves, at all: a flood of them stays below what members need.
pub const HANDSHAKES_MAX: usize = 2_048;
/// Connection attempts that wait to be looked at; each is one packet and what follows it at once.
pub const INCOMING_QUEUED_MAX: usize = 1_024;
/// Bytes buffered of one connection attempt that waits to be looked at: a first flight.
pub const INCOMING_BYTES_MAX: u64 = 16 * 1024;
/// Bytes buffered of all connection attempts that wait to be looked at.
pub const INCOMING_BYTES_TOTAL_MAX: u64 = 8 * 1024 * 1024;
/// A connection that has not identified itself after this long is closed, in ms.
pub const HELLO_MS_MAX: u64 = 10_000;
/// Connection idle timeout, in ms.
pub const IDLE_MS_MAX: u64 = 60_000;
/// A client keeps its connection alive this often, in ms.
pub const KEEP_ALIVE_MS: u64 = 15_000;
/// Round trip assumed before one was measured, in ms: a third of the usual, so that a lost first packet costs less.
pub const INITIAL_RTT_MS: u64 = 100;
/// Bytes a client may have on the way in one stream: a window of sends, or one send of the largest size.
pub const STREAM_RECEIVE_BYTES_MAX: u32 = 128 * 1024;
/// Bytes a client may have on the way in all its streams: what an unread connection can cost.
pub const CONNECTION_RECEIVE_BYTES_MAX: u32 = 256 * 1024;
/// Bytes on the way to a client, in all streams: a page and full credit; more than that waits for the slow reader.
pub const CONNECTION_SEND_BYTES_MAX: u64 = 512 * 1024;
/// Bytes of datagrams on the way, either side: they are small, and the newest is worth the most.
pub const DATAGRAM_BYTES_MAX: usize = 16 * 1024;
/// Connections that one datagram about somebody goes to, and members of a group beyond which none goes out at all: as
/// many as see one another on a screen, and what a person who types may cost a server a second.
pub const DATAGRAM_TOLD_MAX: usize = 1_024;
/// Groups whose members are told that somebody is there, or gone.
pub const PRESENCE_GROUPS_MAX: usize = 256;
/// Somebody whose last listener has gone still counts as there for so long, in ms: a change of networks takes less.
pub const PRESENCE_GRACE_MS: u64 = 3_000;
/// That somebody types is told this often at most, in ms; what comes in between is dropped.
pub const TYPING_PAUSE_MS: u64 = 1_000;
/// How often a user turns a switch in a minute: who is there, or not, is told to as many as who types.
pub const SWITCHES_A_MINUTE_MAX: u64 = 60;
/// Read marks of a user that move in a minute, each a row of the log: a client that marks all conversations as read may do so
/// at once, and again.
pub const READ_MARKS_A_MINUTE_MAX: u64 = 4 * ACK_ENTRIES_MAX as u64;
/// Size of the UDP socket buffers, in bytes (measured: six times the fan-out of the default).
pub const UDP_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Commands that wait for the writer, in KiB of their bodies and one for each. Full means: stop reading that stream.
pub const COMMANDS_QUEUED_MAX: usize = 4_096;
/// Commands of one batch, thus of one frame of the log.
pub const BATCH_COMMANDS_MAX: usize = 1_024;
/// Bytes at which a batch is closed; the last command may overshoot by one item.
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Cursors that wait for the next frame: a batch is closed at so many.
pub const BATCH_ACKS_MAX: usize = 16_384;
/// Batches that wait for the dispatcher.
pub const BATCHES_QUEUED_MAX: usize = 64;
/// Bytes of rows that wait for the applier, thus of the overlay; at the bound commits wait. A second of the fastest
/// commits measured, so that they go on while the index is flushed or recycled.
pub const OVERLAY_BYTES_MAX: usize = 48 * 1024 * 1024;
/// What a row in the overlay takes besides its key and value: in its frame, in the tree of its keys, and for two
/// shared allocations.
pub const OVERLAY_ROW_BYTES: usize = 320;
/// Frames that wait for the applier. Bytes bound them long before, unless they are tiny.
pub const FRAMES_QUEUED_MAX: usize = 16 * 1024;
/// Page reads that wait for a reader thread.
pub const READS_QUEUED_MAX: usize = 256;
/// Threads that read pages.
pub const READER_THREADS: usize = 2;
/// Requests of one connection that are not answered yet, in KiB of their bodies and one for each: a full window of sends
/// and some.
pub const ANSWERS_QUEUED_MAX: usize = 256;

/// Notices that wait for one listener; beyond, it is closed and asks anew when it comes back.
pub const NOTICES_QUEUED_MAX: usize = 256;

/// Bytes of one segment of the commit log.
pub const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// Newest segments of the commit log that are read whole at every start, whatever the index holds of them: half a GB,
/// a second or two. Damage in what was written lately is thus told at once, and a start takes no longer the longer the
/// history is.
pub const LOG_SEGMENTS_CHECKED: usize = 32;
/// Memory that the index may hold for what was written to it since it was opened, while it is filled from the log and
/// while it serves; at the bound it is opened anew. Some 250,000 messages: seconds of the fastest commits measured.
pub const INDEX_HELD_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Largest frame of the commit log: a full batch, its rows and their keys.
pub const LOG_FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How often what groups keep is looked at, in ms: nobody sees the difference, and it costs a look at each group.
pub const RETENTION_INTERVAL_MS: u64 = 5_000;
/// A clock that shows less, in ms since 1970, was never set: September 2020. What speaks QUIC is younger, and machines
/// without a clock of their own wake in 1970, 1980, 2000 or at the beginning of 2020.
pub const CLOCK_MS_MIN: u64 = 1_600_000_000_000;
/// How far the clock of retention goes before that is noted, in ms: a start takes so much longer to catch up at the most. A
/// server that never runs for half as long gets no further.
pub const RETENTION_CLOCK_MS: u64 = 5 * 60 * 1_000;
/// Items that are looked at, and rows that are removed, at once: a fraction of a batch, so that no send waits for it.
pub const RETENTION_ROWS_MAX: usize = 256;
/// Mentions in items and edits of them after which no more items are removed at once; one item has at the most
/// [`MENTIONS_MAX`] and [`EDITS_MAX`].
pub const RETENTION_MENTIONS_MAX: usize = 1_024;
/// Groups that are looked at at once: a commit waits for that, and it is a fraction of a millisecond.
pub const RETENTION_GROUPS_MAX: usize = 1_000;
/// A body that was wiped is gone from the log an hour later at the most: it waits so long for others, in ms, then until the
/// index is flushed ([`INDEX_UNRECORDED_MS_MAX`]), and the rest is for the reading and writing.
pub const WIPE_WAIT_MS: u64 = 15 * 60 * 1_000;
/// Keys that are told apart at once while the log is condensed, some 30 bytes of memory each; where there are more, the log is
/// read once for each part of them. The rest of what it takes are two bits for each operation of the log and one for each pair
/// of its segments, and of the segment at hand its bytes, twice, and some 50 bytes for each of its operations.
pub const CONDENSE_KEYS_MAX: usize = 900_000;

/// Bytes of disk that opening the store may take: the metadata of the index written anew, and the end of the log.
pub const OPEN_ROOM_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of disk that a checkpoint of the index may take beyond what was applied since the last one.
pub const CHECKPOINT_ROOM_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of disk for each leaf of the index that a checkpoint rewrites, whose old place is free only afterwards: a full
/// one of chat texts, compressed, and more.
pub const LEAF_ROOM_BYTES: u64 = 32 * 1024;
/// With less free than this and what the next checkpoint takes, nothing is taken any more: a checkpoint that fails for
/// want of room, or an open, would cost the index.
pub const ROOM_CLOSED_BYTES: u64 = OPEN_ROOM_BYTES + CHECKPOINT_ROOM_BYTES;
/// With less free than this and what the next checkpoint takes, nothing that grows is taken. The reserve below it is the
/// segment of the log that is made ahead just then, and one more: millions of acks.
pub const ROOM_FULL_BYTES: u64 = ROOM_CLOSED_BYTES + 2 * SEGMENT_BYTES;
/// What must be free above a mark before it counts as passed upwards: the segment that is made ahead at once must not
/// turn the tide again.
pub const ROOM_EASE_BYTES: u64 = SEGMENT_BYTES;
/// With less free than this the operator is warned, on a small disk: four segments before sends are refused.
pub const ROOM_LOW_BYTES_MIN: u64 = ROOM_FULL_BYTES + 4 * SEGMENT_BYTES;
/// The same on a large disk, where it is a tenth of it: days of a busy team, so that a warning on Friday reaches Monday.
pub const ROOM_LOW_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes of the file that keeps room for an open where another program fills the disk.
pub const BALLAST_BYTES: u64 = OPEN_ROOM_BYTES;
/// Memory of the index's cache where nothing else is said, in MiB.
pub const INDEX_CACHE_MIB_DEFAULT: u32 = 64;
/// Least that can be said there, in MiB: the upper levels of a large index.
pub const INDEX_CACHE_MIB_MIN: u32 = 8;
/// Most that can be said there, in MiB: no small server has more.
pub const INDEX_CACHE_MIB_MAX: u32 = 64 * 1024;
/// Bytes applied to the index after which it is flushed, and that recorded: a segment, which a start after a kill
/// replays in a fraction of a second.
pub const CHECKPOINT_BYTES: u64 = SEGMENT_BYTES;
/// The index is idle, thus flushed, when nothing came for so long, in ms: a flush costs a few syncs, and nothing depends
/// on it but how much a start after a kill replays, and what may go from the log.
pub const INDEX_IDLE_MS: u64 = 5_000;
/// The same happens once something that was applied has been so old and unrecorded, in ms, however little comes: where a
/// frame comes every few seconds the index is never idle, and nothing above what was recorded goes from the log.
pub const INDEX_UNRECORDED_MS_MAX: u64 = 10 * 60 * 1_000;
/// The same above which it is opened anew already when idle.
pub const INDEX_HELD_BYTES_IDLE: u64 = 48 * 1024 * 1024;
/// An index that takes longer than this for one batch, flush, recycling or page will not come back, in ms. The slowest
/// healthy disk is ten times as fast.
pub const INDEX_STALL_MS: u64 = 60_000;

/// Earlier epochs that Welcome names.
pub const EPOCHS_BEFORE_MAX: usize = 16;
/// Pins that Welcome names: the current one and the next, with room.
pub const PINS_MAX: usize = 4;
/// Ed25519 signature, in bytes: the longest of keys, codes, pins and signatures.
pub const SIGNATURE_BYTES: usize = 64;
/// Ed25519 public key and SHA-256 digest, in bytes.
pub const KEY_BYTES: usize = 32;
/// Bytes of the code in an invite link: 128 bit.
pub const INVITE_CODE_BYTES: usize = 16;

const _: () = assert!(ITEM_BYTES_MAX + 1024 <= FRAME_BYTES_MAX);
const _: () = assert!(ITEM_BYTES_MAX + 1024 <= FRAME_ROWS_BYTES_MAX);
const _: () = assert!(FRAME_ROWS_BYTES_MAX + PUSH_BATCHES_MAX * 40 + EXTENSION_BYTES_MAX <= FRAME_BYTES_MAX);
const _: () = assert!(ACK_ENTRIES_MAX * 20 + EXTENSION_BYTES_MAX <= FRAME_BYTES_MAX);
// But for groups, whose topics are long: of those come as many as fit.
const _: () = assert!(LIST_ROWS_MAX * 256 <= FRAME_BYTES_MAX);
const _: () = assert!(GROUP_NAME_BYTES_MAX + GROUP_TOPIC_BYTES_MAX + 256 <= FRAME_ROWS_BYTES_MAX);
const _: () = assert!(CONVERSATION_ROWS_MAX * (PREVIEW_BYTES_MAX + GROUP_NAME_BYTES_MAX + 256) <= FRAME_BYTES_MAX);
const _: () = assert!(READ_MARKS_TOLD_MAX * 10 + 16 <= EXTENSION_BYTES_MAX);
const _: () = assert!((LOG_FRAME_BYTES_MAX as u64) < SEGMENT_BYTES);
const _: () = assert!(ROOM_LOW_BYTES_MIN < ROOM_LOW_BYTES_MAX);
// Made when there is plenty, the ballast leaves plenty.
const _: () = assert!(BALLAST_BYTES <= ROOM_EASE_BYTES);
// A segment made ahead just above the mark of a full disk doesn't use up the reserve.
const _: () = assert!(ROOM_FULL_BYTES > ROOM_CLOSED_BYTES + SEGMENT_BYTES);
const _: () = assert!(BATCH_BYTES_MAX + 2 * ITEM_BYTES_MAX < LOG_FRAME_BYTES_MAX);
// A stay's end is two items and two rows of members with all their intervals, at the most.
const _: () = assert!(BATCH_BYTES_MAX + STAYS_ENDED_AT_ONCE * 2 * (512 + INTERVALS_MAX * 48) < LOG_FRAME_BYTES_MAX);
const _: () = assert!(CREDIT_ITEMS_START <= CREDIT_ITEMS_MAX && CREDIT_BYTES_START <= CREDIT_BYTES_MAX);
const _: () = assert!(CREDIT_ITEMS_MAX as u64 >= NEAR_HEAD_ITEMS);
const _: () = assert!(ACK_DELAY_MS_MAX <= CREDIT_STALL_MS_MIN);
const _: () = assert!(CONNECTION_SEND_BYTES_MAX >= PAGE_BYTES_MAX as u64 + CREDIT_BYTES_MAX as u64);
const _: () = assert!(SENDS_UNANSWERED_BYTES_MAX <= STREAM_RECEIVE_BYTES_MAX as usize);
const _: () = assert!(ITEM_BYTES_MAX + ENVELOPE_BYTES <= STREAM_RECEIVE_BYTES_MAX as usize);
const _: () = assert!(STREAM_RECEIVE_BYTES_MAX < CONNECTION_RECEIVE_BYTES_MAX);
const _: () = assert!(HANDSHAKES_BEFORE_RETRY < HANDSHAKES_MAX && HANDSHAKES_MAX < CONNECTIONS_MAX);
const _: () = assert!(KEEP_ALIVE_MS * 3 <= IDLE_MS_MAX);
const _: () = assert!(DEVICE_NAME_BYTES_MAX < BODY_BYTES_MAX && GROUP_NAME_BYTES_MAX < BODY_BYTES_MAX);
const _: () = assert!(MEMBERSHIPS_MAX <= CURSORS_MAX);
const _: () = assert!(BATCH_BYTES_MAX + BATCH_COMMANDS_MAX * 3 * OVERLAY_ROW_BYTES < OVERLAY_BYTES_MAX);
const _: () = assert!(INDEX_HELD_BYTES_IDLE < INDEX_HELD_BYTES_MAX);
// Of the hour after which a wiped body is gone from the log, half is left for the reading and writing.
const _: () = assert!(WIPE_WAIT_MS + INDEX_UNRECORDED_MS_MAX <= 30 * 60 * 1_000);
// What is wanted gone lies below what is recorded before more is wanted gone, so that a round may begin.
const _: () = assert!(INDEX_IDLE_MS < INDEX_UNRECORDED_MS_MAX && INDEX_UNRECORDED_MS_MAX < WIPE_WAIT_MS);
// What the index may take by default is half of 512 MB; the other half is for resident rows and connections.
const _: () = assert!(
    OVERLAY_BYTES_MAX as u64 + INDEX_HELD_BYTES_MAX + INDEX_CACHE_MIB_DEFAULT as u64 * 1024 * 1024 <= 256 * 1024 * 1024
);
// A tenth of them, which is a team, takes an eighth of 512 MB. All of them at once, each table full and badly packed, leave a
// third of a machine with 1 GB to everything else.
const _: () = assert!(
    MEMBERSHIPS_MAX * MEMBERSHIP_BYTES
        + CURSORS_MAX * CURSOR_BYTES
        + RECALLED_ENTRIES_MAX * RECALLED_ENTRY_BYTES
        + RECALLED_LISTS_MAX * RECALLED_LIST_BYTES
        + USERS_MAX * RECALLED_AUTHOR_BYTES
        <= 680_000_000
);
