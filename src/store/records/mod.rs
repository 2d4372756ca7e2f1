//! The record of every tree: a version byte, the fields in order, an extension list, and nothing after it.
//!
//! A field is never removed and its meaning never changes; what is added later is an extension. Records say what is
//! kept, not what it means: roles, policies and flags are the numbers given here, and `server` translates them. A
//! record that decodes encodes to the same bytes.

mod field;

use bytes::Bytes;

pub(in crate::store) use self::field::{Field, Input};
use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};

/// The version that is written, and the highest that is read.
pub const VERSION: u8 = 1;

/// Why bytes are no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A version that this program does not know.
    #[error("a record of version {0}, which this program does not know")]
    Version(u8),
    /// It ends too early.
    #[error("a record that ends too early")]
    Short,
    /// It does not end where it should.
    #[error("a record with {0} bytes too many")]
    Long(usize),
    /// Too many extensions, or too large.
    #[error("a record with more extensions than allowed")]
    Extensions,
    /// A field that no program of ours writes.
    #[error("a record with {0}")]
    Malformed(&'static str),
}

/// What later versions add: (number, bytes). Unknown numbers are kept and skipped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extensions(pub Vec<(u16, Bytes)>);

impl Extensions {
    /// The bytes under this number, if it is there.
    #[must_use]
    pub fn find(&self, number: u16) -> Option<&Bytes> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, bytes)| bytes)
    }

    /// The same with this number under this extension, where it is not zero.
    #[must_use]
    pub fn with_number(mut self, extension: u16, number: u64) -> Extensions {
        if number > 0 {
            let mut bytes = Vec::new();
            number.put(&mut bytes);
            self.0.push((extension, Bytes::from(bytes)));
        }
        self
    }

    /// The number under this extension; zero where there is none.
    ///
    /// # Errors
    /// Where what stands there is no number.
    pub fn number(&self, extension: u16) -> Result<u64, RecordError> {
        let Some(bytes) = self.find(extension) else { return Ok(0) };
        let mut input = Input(bytes);
        let number = u64::take(&mut input)?;
        if input.0.is_empty() { Ok(number) } else { Err(RecordError::Long(input.0.len())) }
    }
}

fn version(input: &mut Input<'_>) -> Result<(), RecordError> {
    match u8::take(input)? {
        VERSION => Ok(()),
        other => Err(RecordError::Version(other)),
    }
}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
                /// What later versions add.
                pub extensions: Extensions,
            }

            impl $name {
                /// The bytes of the record.
                #[must_use]
                pub fn encode(&self) -> Bytes {
                    let mut out = vec![VERSION];
                    $(self.$field.put(&mut out);)*
                    self.extensions.put(&mut out);
                    Bytes::from(out)
                }

                /// Reads a record.
                ///
                /// # Errors
                /// Where the bytes are not exactly one record of a known version.
                pub fn decode(bytes: &[u8]) -> Result<$name, RecordError> {
                    let mut input = Input(bytes);
                    version(&mut input)?;
                    let record = $name {
                        $($field: Field::take(&mut input)?,)*
                        extensions: Field::take(&mut input)?,
                    };
                    if input.0.is_empty() { Ok(record) } else { Err(RecordError::Long(input.0.len())) }
                }
            }
        )*
    };
}

/// Numbers of [`MemberRecord::role`].
pub mod role {
    /// Owner.
    pub const OWNER: u8 = 1;
    /// Admin.
    pub const ADMIN: u8 = 2;
    /// Member.
    pub const MEMBER: u8 = 3;
}

/// Extensions of [`GroupRecord`].
pub mod group_extension {
    /// What the group is about, UTF-8; absent: nothing.
    pub const TOPIC: u16 = 1;
    /// What the group keeps of its items; absent: what the server says.
    pub const RETENTION: u16 = 2;
    /// Content items below the first kept one.
    pub const CONTENT_GONE: u16 = 3;
    /// The frame of the log that wrote it.
    pub const LSN: u16 = 4;
}

/// Extensions of [`MemberRecord`]; each is there, without bytes, where it holds.
pub mod member_extension {
    /// The member is muted.
    pub const MUTED: u16 = 1;
    /// The former member is banned.
    pub const BANNED: u16 = 2;
    /// The frame of the log that wrote it.
    pub const LSN: u16 = 3;
}

/// Extensions of [`DeviceRecord`].
pub mod device_extension {
    /// The last day on which the device was there, in days since 1970.
    pub const SEEN_DAY: u16 = 1;
}

/// Extensions of [`UserRecord`].
pub mod user_extension {
    /// What they want to be called, UTF-8. Absent: by the handle alone.
    pub const NAME: u16 = 1;
    /// One byte of switches; absent: all off.
    pub const SWITCHES: u16 = 2;
    /// See [`super::user_state`]: one byte, then since when, ms since 1970, in eight bytes big-endian. Absent: active.
    pub const STATE: u16 = 3;
}

/// The first byte of [`user_extension::STATE`].
pub mod user_state {
    /// Shut out until they are reactivated.
    pub const DEACTIVATED: u8 = 1;
    /// Deleted; the handle is reserved.
    pub const DELETED: u8 = 2;
    /// Deleted; the handle is free, or somebody else's.
    pub const HANDLE_FREE: u8 = 3;
}

/// Numbers of a history policy.
pub mod policy {
    /// From the join on.
    pub const FROM_JOIN: u8 = 0;
    /// All earlier history as well.
    pub const FULL_HISTORY: u8 = 1;
}

/// Numbers of [`InviteRecord::opens`].
pub mod opens {
    /// The first user.
    pub const FIRST: u8 = 1;
    /// A new user.
    pub const USER: u8 = 2;
    /// Another device of a user.
    pub const DEVICE: u8 = 3;
}

/// Extensions of [`InviteRecord`].
pub mod invite_extension {
    /// The device it was made on; absent: none, or not known.
    pub const BY_DEVICE: u16 = 1;
}

/// Extensions of [`CursorRecord`], where it is a read mark.
pub mod cursor_extension {
    /// How often it was set anew.
    pub const VERSION: u16 = 1;
    /// The frame of the log that wrote it.
    pub const LSN: u16 = 3;
}

/// Flags of [`MessageRecord::flags`].
pub mod message_flag {
    /// The item is content.
    pub const CONTENT: u8 = 1;
    /// The item was recalled, itself or as an edit of what was.
    pub const RECALLED: u8 = 2;
    /// The item is an edit.
    pub const EDIT: u8 = 4;
}

/// Extensions of [`MessageRecord`].
pub mod message_extension {
    /// How often the item was edited, u32, big-endian; absent: never.
    pub const EDITS: u16 = 1;
    /// From when on the age of the item is reckoned, in ms since 1970; absent: from when it was decided.
    pub const AGED_FROM: u16 = 2;
}

/// Extensions of [`RecalledRecord`].
pub mod recalled_extension {
    /// Whom the item mentioned, u32 each, big-endian; absent: nobody.
    pub const MENTIONED: u16 = 1;
    /// The frame of the log that recalled it.
    pub const LSN: u16 = 2;
}

/// One stay of a member in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalRecord {
    /// The join item.
    pub joined: MessageId,
    /// The leave item.
    pub left: Option<MessageId>,
    /// See [`policy`].
    pub policy: u8,
    /// Content items of the group below the join.
    pub content_before: u64,
    /// Content items of the group up to the leave; zero while the interval is open.
    pub content_until: u64,
}

records! {
    /// In `cursors`.
    CursorRecord {
        /// Everything up to here is acknowledged, or read.
        msgid: MessageId,
        /// Content items of the group up to there.
        content: u64,
        /// Content items of the user's own up to there.
        own: u64,
    }
    /// In `members`.
    MemberRecord {
        /// See [`role`].
        role: u8,
        /// By join, oldest first.
        intervals: Vec<IntervalRecord>,
        /// The group's name when a former member left.
        name_at_leave: Option<String>,
    }
    /// In `recalled`.
    RecalledRecord {
        /// Who wrote what was recalled.
        author: UserId,
        /// Whether it was content.
        content: bool,
    }
    /// In `own`.
    OwnRecord {
        /// The item.
        msgid: MessageId,
    }
    /// In `mentions`.
    MentionRecord {
        /// The item.
        msgid: MessageId,
    }
    /// In `groups`.
    GroupRecord {
        /// Its name.
        name: String,
        /// See [`policy`].
        policy: u8,
        /// The first item that retention has kept.
        first_kept: MessageId,
        /// The head when this was written.
        head_mark: MessageId,
        /// The content ordinal there.
        content_mark: u64,
        /// When it was made, ms since 1970.
        created_ms: u64,
    }
    /// In `users`.
    UserRecord {
        /// The handle.
        handle: String,
        /// Whether it has the operator's rights.
        operator: bool,
        /// When it was made, ms since 1970.
        created_ms: u64,
    }
    /// In `devices`.
    DeviceRecord {
        /// Whose.
        user: UserId,
        /// Its public key.
        key: [u8; 32],
        /// What its user calls it.
        name: String,
        /// When it was enrolled, ms since 1970.
        enrolled_ms: u64,
        /// When it was revoked.
        revoked_ms: Option<u64>,
        /// Hash of the code it was enrolled with.
        invite: [u8; 32],
    }
    /// In `invites`.
    InviteRecord {
        /// See [`opens`].
        opens: u8,
        /// The new user's handle.
        handle: Option<String>,
        /// The group to join.
        group: Option<GroupId>,
        /// Whose device.
        user: Option<UserId>,
        /// Who made it.
        by: Option<UserId>,
        /// When it expires, ms since 1970.
        expires_ms: u64,
        /// The device it was used for.
        used: Option<DeviceId>,
    }
    /// In `handles`.
    HandleRecord {
        /// Whose.
        user: UserId,
    }
    /// In `keys`.
    KeyRecord {
        /// Whose.
        device: DeviceId,
    }
    /// In `memberships`: the key says it all.
    MembershipRecord {
    }
    /// In `sends`, by number.
    SendRecord {
        /// Where it went.
        group: GroupId,
        /// Its place there.
        msgid: MessageId,
        /// When it was decided, ms since 1970.
        time_ms: u64,
        /// Hash of what it was.
        hash: [u8; 32],
    }
    /// In `sends`, under number zero.
    SendWindowRecord {
        /// The lowest number that the client calls unanswered.
        lowest: ClientSeq,
        /// The highest number decided.
        highest: ClientSeq,
    }
    /// In `meta`.
    MetaRecord {
        /// The counter or mark.
        value: u64,
    }
}

/// In `messages`: the store's header, then the item as it travels, which nobody here looks into.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageRecord {
    /// See [`message_flag`].
    pub flags: u8,
    /// The frame of the log that wrote this.
    pub lsn: Lsn,
    /// Content items of the group up to and with this one.
    pub content: u64,
    /// Content items of its author in the group up to and with this one; zero where it is none.
    pub own: u64,
    /// The newest edit of this item; of an edit, the edit before it; zero: none.
    pub last_edit: MessageId,
    /// What later versions add.
    pub extensions: Extensions,
    /// The item as it travels.
    pub item: Bytes,
}

impl MessageRecord {
    /// The bytes of the record.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.item.len().saturating_add(32));
        out.push(VERSION);
        self.flags.put(&mut out);
        self.lsn.put(&mut out);
        self.content.put(&mut out);
        self.own.put(&mut out);
        self.last_edit.put(&mut out);
        self.extensions.put(&mut out);
        out.extend_from_slice(&self.item);
        Bytes::from(out)
    }

    /// Reads a record; the item is a slice of the bytes given.
    ///
    /// # Errors
    /// Where the bytes do not begin with a header of a known version.
    pub fn decode(bytes: &Bytes) -> Result<MessageRecord, RecordError> {
        let mut input = Input(bytes);
        version(&mut input)?;
        let record = MessageRecord {
            flags: Field::take(&mut input)?,
            lsn: Field::take(&mut input)?,
            content: Field::take(&mut input)?,
            own: Field::take(&mut input)?,
            last_edit: Field::take(&mut input)?,
            extensions: Field::take(&mut input)?,
            item: Bytes::new(),
        };
        let header_bytes = bytes.len() - input.0.len();
        Ok(MessageRecord { item: bytes.slice(header_bytes..), ..record })
    }
}

#[cfg(test)]
mod tests;
