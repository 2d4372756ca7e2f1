//! Frames of the control stream that say who is there, and sends with their answers.

use bytes::Bytes;

use crate::ids::{ClientSeq, DeviceId, Epoch, GroupId, MessageId, UserId};
use crate::limits::EPOCHS_BEFORE_MAX;
use crate::wire::bounded;

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
        /// The encoded [`super::Payload`]; the conflict hash covers exactly these bytes and the gid.
        payload: Bytes,
    }
    /// The item is on disk.
    17 Sent {
        /// Its place in the group.
        msgid: MessageId,
        /// The server's clock when it was decided, ms since 1970.
        time_ms: u64,
    }
}
