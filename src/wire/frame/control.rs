//! Short requests of the control stream, each with its answer.

use bytes::Bytes;

use crate::ids::{DeviceId, GroupId, MessageId};
use crate::limits::ACK_ENTRIES_MAX;
use crate::wire::bounded;

frames! {
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
        /// Users, deleted ones included.
        users: u64,
        /// Groups.
        groups: u64,
        /// Devices that are not revoked.
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
    /// Gives a member another role, or oneself a lower one. Answered by [`Done`].
    49 SetRole {
        /// The group.
        gid: GroupId,
        /// Whose.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
        /// 1 owner, 2 admin, 3 member.
        role: u8,
    }
    /// Lets a member only read, or speak again. Answered by [`Done`].
    50 SetMuted {
        /// The group.
        gid: GroupId,
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
        /// True: only read.
        muted: bool,
    }
    /// Removes a member whom nobody can add again, or lets them be added. Answered by [`Done`].
    51 SetBanned {
        /// The group.
        gid: GroupId,
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
        /// True: removed and kept out.
        banned: bool,
    }
    /// Says what a group is about. Answered by [`Done`].
    52 SetTopic {
        /// The group.
        gid: GroupId,
        /// What it is about; empty: nothing.
        #[serde(deserialize_with = "bounded::text")]
        topic: String,
    }
    /// Says what those see who join next. Answered by [`Done`].
    53 SetPolicy {
        /// The group.
        gid: GroupId,
        /// As in [`CreateGroup`].
        policy: u8,
    }
    /// Asks for the direct chat with a user, which is there from then on. Answered by [`GroupCreated`].
    54 OpenDirect {
        /// With whom; oneself: a notebook.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Turns switches of the caller's user on or off. Answered by [`Done`].
    55 SetSwitch {
        /// Which, as bits: 1 nobody adds this user to a group, 2 nobody is told that they are there or type, 4 nobody is
        /// told what they have received and read.
        switch: u8,
        /// Whether it is on.
        on: bool,
    }
}

/// Extensions of [`StatusInfo`]: what the index takes on disk, and what the rows take that are there.
const STATUS_INDEX_BYTES: u16 = 1;
const STATUS_LIVE_BYTES: u16 = 2;

impl StatusInfo {
    /// What it says of sizes beside the log; the second is zero until it was counted.
    #[must_use]
    pub fn with_sizes(mut self, index_bytes: u64, live_bytes: u64) -> StatusInfo {
        let bytes = |bytes: u64| Bytes::copy_from_slice(&bytes.to_be_bytes());
        self.extensions.0.push((STATUS_INDEX_BYTES, bytes(index_bytes)));
        self.extensions.0.push((STATUS_LIVE_BYTES, bytes(live_bytes)));
        self
    }

    /// Bytes of the index and of what is there, where it says them; else zero.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        let of = |wanted: u16| {
            let found = self.extensions.find(wanted);
            found.and_then(|bytes| bytes.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes)
        };
        (of(STATUS_INDEX_BYTES), of(STATUS_LIVE_BYTES))
    }
}
