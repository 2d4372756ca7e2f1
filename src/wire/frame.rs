//! Every frame there is. The body of each is the postcard encoding of its struct; none is ever changed, only its
//! extension list grows.
//!
//! `PROTOCOL.md` says which stream carries which frame and what answers it.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{ClientSeq, DeviceId, Epoch, GroupId, MessageId, UserId};
use crate::limits::{ACK_ENTRIES_MAX, EPOCHS_BEFORE_MAX, GONE_RANGES_MAX, LIST_ROWS_MAX, PUSH_BATCHES_MAX};
use crate::wire::bounded;
use crate::wire::shown::Shown;

pub use crate::wire::bounded::{Extensions, Rows};
pub use crate::wire::part::{DeviceInfo, GroupInfo, MemberInfo, Payload, PushBatch, UserInfo};

/// A frame: its number and its name.
pub trait Frame: Serialize + for<'a> Deserialize<'a> {
    /// The number in the envelope; never reused.
    const TYPE: u16;
    /// The name in logs, errors and `PROTOCOL.md`.
    const NAME: &'static str;
}

/// The name of the frame with this number, where this version knows it.
#[must_use]
pub fn name(kind: u16) -> Option<&'static str> {
    ALL.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

macro_rules! frames {
    ($($(#[$doc:meta])* $number:literal $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
            pub struct $name {
                $($(#[$fdoc])* pub $field: $type,)*
                /// What later versions add.
                pub extensions: Extensions,
            }
            impl Frame for $name {
                const TYPE: u16 = $number;
                const NAME: &'static str = stringify!($name);
            }
            impl fmt::Debug for $name {
                fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let mut fields = out.debug_struct(stringify!($name));
                    $(fields.field(stringify!($field), &Shown(&self.$field));)*
                    fields.finish()
                }
            }
        )*
        /// Number and name of every frame, for tests, logs and documentation.
        pub const ALL: &[(u16, &str)] = &[$(($number, stringify!($name)),)*];

        /// The names of each frame's fields.
        #[cfg(test)]
        pub(crate) const FIELDS: &[(u16, &[&str])] = &[$(($number, &[$(stringify!($field),)*]),)*];

        /// Decodes a frame of whatever type and encodes it again; none where the type is unknown.
        #[cfg(feature = "proof")]
        pub(crate) fn again(raw: &crate::wire::codec::RawFrame) -> Option<Result<Bytes, crate::wire::WireError>> {
            match raw.kind {
                $($number => Some(raw.decode::<$name>().and_then(|it| crate::wire::codec::encode(raw.request, &it))),)*
                _ => None,
            }
        }
    };
}

frames! {
    // ---- control stream: who is there -------------------------------------------------------------------------------
    /// The first frame of a device. Followed at once by [`Prove`]. Answered by [`Welcome`] or [`Error`].
    1 Hello {
        /// Which device this is.
        device: DeviceId,
        /// True: a listener, which is pushed to and acks. False: a caller, which asks and sends.
        listens: bool,
        /// Random number of this process.
        instance: u64,
        /// Counts the connections of this instance, from 1.
        attempt: u64,
        /// The client's minor version.
        minor: u16,
        /// The epoch that the client's cursors belong to, if it has any.
        epoch: Option<Epoch>,
    }
    /// Ed25519 signature by the device (or operator) key over the TLS exporter, see PROTOCOL.md.
    2 Prove {
        /// 64 bytes.
        #[serde(deserialize_with = "bounded::secret")]
        signature: Bytes,
    }
    /// Makes a device from an invite. Answered by [`Enrolled`] or [`Error`]; then the connection is done.
    3 Enrol {
        /// The code of the invite link, 16 bytes.
        #[serde(deserialize_with = "bounded::secret")]
        code: Bytes,
        /// The new device's Ed25519 public key, 32 bytes.
        #[serde(deserialize_with = "bounded::secret")]
        key: Bytes,
        /// The handle wanted; only the first invite needs one.
        #[serde(deserialize_with = "bounded::maybe_text")]
        handle: Option<String>,
        /// What the user calls this device.
        #[serde(deserialize_with = "bounded::text")]
        device_name: String,
        /// The client's minor version.
        minor: u16,
        /// Signature by that key over the TLS exporter, 64 bytes.
        #[serde(deserialize_with = "bounded::secret")]
        signature: Bytes,
    }
    /// The first frame of a connection that holds the operator key. Followed by [`Prove`].
    4 OperatorHello {
        /// The client's minor version.
        minor: u16,
    }
    /// The connection is accepted.
    5 Welcome {
        /// The server's minor version.
        minor: u16,
        /// The user of this device; zero for the operator key.
        user: UserId,
        /// The user's handle; empty for the operator key.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
        /// Whether the user has the operator flag.
        operator: bool,
        /// The store's epoch.
        epoch: Epoch,
        /// At most the last 16 epochs before it, newest first.
        #[serde(deserialize_with = "bounded::list::<_, _, { EPOCHS_BEFORE_MAX }>")]
        epochs_before: Vec<Epoch>,
        /// Largest body, in bytes.
        body_bytes_max: u32,
        /// W: sends of this device that may be unanswered.
        sends_unanswered_max: u32,
        /// Bytes of unanswered sends; one send is always allowed.
        sends_unanswered_bytes_max: u32,
        /// Push credit at the start, in items.
        credit_items: u32,
        /// Push credit at the start, in bytes.
        credit_bytes: u32,
        /// The highest send number of this device that is decided; zero: none.
        highest_send: ClientSeq,
        /// Pins by which the server is known: the current one, then the next if there is one; 32 bytes each.
        #[serde(deserialize_with = "bounded::pins")]
        pins: Vec<Bytes>,
        /// The server's clock, ms since 1970.
        time_ms: u64,
    }
    /// The device exists; the same code with the same key gets the same answer until the invite expires.
    6 Enrolled {
        /// The new device.
        device: DeviceId,
        /// Its user.
        user: UserId,
        /// The user's handle.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
        /// The store's epoch.
        epoch: Epoch,
    }
    /// A refusal, as the answer to the request of the same number; with request 0 it is about the connection.
    7 Error {
        /// See [`crate::wire::code::Code`].
        code: u16,
        /// See [`crate::wire::code::Class`].
        class: u8,
        /// When to try again, in ms, for what was not done.
        retry_after_ms: u32,
        /// Words for a person; never parsed.
        #[serde(deserialize_with = "bounded::text")]
        detail: String,
    }

    // ---- control stream: sends --------------------------------------------------------------------------------------
    /// A send. Answered by [`Sent`] once durable, or [`Error`].
    16 Send {
        /// The device's number for it.
        seq: ClientSeq,
        /// The lowest number of this device that is still unanswered.
        lowest: ClientSeq,
        /// The group.
        gid: GroupId,
        /// The encoded [`Payload`]; the conflict hash covers exactly these bytes and the gid.
        payload: Bytes,
    }
    /// The item is on disk.
    17 Sent {
        /// Its place in the group.
        msgid: MessageId,
        /// The server's clock when it was decided, ms since 1970.
        time_ms: u64,
    }

    // ---- control stream: short requests -----------------------------------------------------------------------------
    /// Makes a group; the caller becomes its owner. Answered by [`GroupCreated`].
    32 CreateGroup {
        /// Its name.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
        /// 0: members see what comes from their join on. 1: and everything before.
        policy: u8,
    }
    /// The group exists.
    33 GroupCreated {
        /// Its id.
        gid: GroupId,
    }
    /// Adds a user to a group. Answered by [`Done`].
    34 AddMember {
        /// The group.
        gid: GroupId,
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Removes a member. Answered by [`Done`].
    35 RemoveMember {
        /// The group.
        gid: GroupId,
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Leaves a group. Answered by [`Done`].
    36 LeaveGroup {
        /// The group.
        gid: GroupId,
    }
    /// Renames a group. Answered by [`Done`].
    37 RenameGroup {
        /// The group.
        gid: GroupId,
        /// Its new name.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
    }
    /// It is done and durable.
    38 Done {
        /// The item that records it; zero: none.
        msgid: MessageId,
    }
    /// Makes an invite for a new user. Answered by [`InviteMade`].
    39 MakeInvite {
        /// The handle the new user will have.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
        /// A group to join at once.
        gid: Option<GroupId>,
        /// How long it is good for, in seconds.
        expires_s: u64,
    }
    /// Makes an invite for another device. Answered by [`InviteMade`].
    40 AddDevice {
        /// Whose device; none: the caller's own. Somebody else's: operators only.
        #[serde(deserialize_with = "bounded::maybe_text")]
        handle: Option<String>,
        /// How long it is good for, in seconds.
        expires_s: u64,
    }
    /// The invite exists. The link is `gaggle://host:port/#PIN.CODE`.
    41 InviteMade {
        /// 16 bytes; the server keeps only its hash.
        #[serde(deserialize_with = "bounded::secret")]
        code: Bytes,
        /// `host:port` as the server advertises itself.
        #[serde(deserialize_with = "bounded::text")]
        address: String,
        /// The server's pin, 32 bytes.
        #[serde(deserialize_with = "bounded::secret")]
        pin: Bytes,
        /// When it expires, ms since 1970.
        expires_ms: u64,
    }
    /// Renames a device. Answered by [`Done`].
    42 RenameDevice {
        /// Which.
        device: DeviceId,
        /// Its new name.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
    }
    /// Revokes a device: its connections close within 2 s. Answered by [`Done`].
    43 RevokeDevice {
        /// Which.
        device: DeviceId,
    }
    /// Moves this device's cursor on purpose, forwards only. Answered by [`Cursors`].
    44 Skip {
        /// The group.
        gid: GroupId,
        /// The last msgid to pass over.
        to: MessageId,
    }
    /// Cursors of this device that are durable; as an answer, or with request 0 after acks.
    45 Cursors {
        /// (group, last msgid acknowledged).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
    /// Acks that were refused.
    46 AcksRefused {
        /// (group, code).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, u16)>,
    }
    /// Asks how the server is. Answered by [`StatusInfo`].
    47 Status {}
    /// How the server is.
    48 StatusInfo {
        /// The program's version.
        #[serde(deserialize_with = "bounded::text")]
        version: String,
        /// ms since it started.
        uptime_ms: u64,
        /// Users, groups, devices that are not revoked, connections now.
        users: u64,
        /// Groups.
        groups: u64,
        /// Live devices.
        devices: u64,
        /// Connections now.
        connections: u64,
        /// Items committed since creation.
        items: u64,
        /// The last durable frame of the log.
        durable_lsn: u64,
        /// Bytes of the commit log on disk.
        log_bytes: u64,
    }

    // ---- acks stream ------------------------------------------------------------------------------------------------
    /// Cumulative acks of a listener: everything up to each msgid is with the application.
    64 Ack {
        /// (group, msgid), at most [`crate::limits::ACK_ENTRIES_MAX`].
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
    /// What a listener wants pushed; a newer one replaces an older.
    65 Subscribe {
        /// All groups, now and later; then `groups` is empty.
        all: bool,
        /// These groups.
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        groups: Vec<GroupId>,
    }
    /// Read marks of the user; callers may send them too.
    66 ReadMarks {
        /// (group, msgid).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }

    // ---- request streams --------------------------------------------------------------------------------------------
    /// Asks for a page. Answered by any number of [`PageRows`], then [`PageEnd`]; or [`Error`].
    80 Pull {
        /// The group.
        gid: GroupId,
        /// Items above this msgid.
        after: MessageId,
        /// At most so many items; zero: the server's default.
        items: u32,
        /// True: this hands items out and moves what a listener may ack. False: browsing.
        deliver: bool,
    }
    /// Some rows of a page, usable as they come.
    81 PageRows {
        /// Encoded rows, see [`crate::wire::row::Row`].
        rows: Bytes,
    }
    /// The page is complete.
    82 PageEnd {
        /// Everything visible up to here was given.
        covered_to: MessageId,
        /// Whether a visible item remains above.
        more: bool,
        /// Ranges that retention removed: (first, last).
        #[serde(deserialize_with = "bounded::list::<_, _, { GONE_RANGES_MAX }>")]
        gone: Vec<(MessageId, MessageId)>,
        /// The highest msgid this member may know of.
        head: MessageId,
    }
    /// Asks for the caller's groups. Answered by [`GroupList`].
    83 ListGroups {
        /// Groups with a higher id.
        after: GroupId,
    }
    /// Groups, by id.
    84 GroupList {
        /// Each with what this member may know of it.
        rows: Rows<GroupInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the members of a group. Answered by [`MemberList`].
    85 ListMembers {
        /// The group.
        gid: GroupId,
        /// Users with a higher id.
        after: UserId,
    }
    /// Current members, by user id.
    86 MemberList {
        /// Each with its role.
        rows: Rows<MemberInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the users of the server. Answered by [`UserList`].
    87 ListUsers {
        /// Users with a higher id.
        after: UserId,
    }
    /// Users, by id.
    88 UserList {
        /// Each with its handle.
        rows: Rows<UserInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the devices of a user. Answered by [`DeviceList`].
    89 ListDevices {
        /// Whose; none: the caller's own. Somebody else's: operators only.
        #[serde(deserialize_with = "bounded::maybe_text")]
        handle: Option<String>,
        /// Devices with a higher id.
        after: DeviceId,
    }
    /// Devices, by id.
    90 DeviceList {
        /// Each with its name.
        rows: Rows<DeviceInfo>,
        /// Whether there are more.
        more: bool,
    }
    /// Asks for the handles of users. Answered by [`UserList`] with those that exist.
    91 Names {
        /// At most [`crate::limits::LIST_ROWS_MAX`].
        #[serde(deserialize_with = "bounded::list::<_, _, { LIST_ROWS_MAX }>")]
        users: Vec<UserId>,
    }

    // ---- push stream ------------------------------------------------------------------------------------------------
    /// New items for a listener.
    112 Push {
        /// The credit in force, in items.
        credit_items: u32,
        /// The credit in force, in bytes.
        credit_bytes: u32,
        /// One a group.
        #[serde(deserialize_with = "bounded::list::<_, _, { PUSH_BATCHES_MAX }>")]
        batches: Vec<PushBatch>,
    }
    /// Heads of groups, in place of items; costs no credit.
    113 Heads {
        /// (group, highest msgid this member may know of).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
    /// The user's membership changed.
    114 MembershipNotice {
        /// The group.
        gid: GroupId,
        /// True: is a member now. False: is not any more.
        member: bool,
        /// The join or leave item.
        msgid: MessageId,
    }
    /// A device of the user was added or revoked.
    115 DeviceNotice {
        /// Which.
        device: DeviceId,
        /// Its name.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
        /// True: added. False: revoked.
        added: bool,
    }
    /// The user's read mark moved, by another device.
    116 ReadMarkNotice {
        /// (group, msgid).
        #[serde(deserialize_with = "bounded::list::<_, _, { ACK_ENTRIES_MAX }>")]
        entries: Vec<(GroupId, MessageId)>,
    }
}
