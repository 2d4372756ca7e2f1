//! The numbers that name things: groups, messages, users, devices, and the counters of log and sends.
//!
//! Each is a newtype with a private number, so that a msgid is never taken for a cursor's group or a length. They are
//! written for people as `g7`, `m42`, `u3`, `d9` and stored as fixed-width big-endian bytes, whose byte order is their
//! order. Nothing here decides or remembers anything.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id of the form {example}")]
pub struct IdError {
    text: String,
    example: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal, $example:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
        pub struct $name($inner);

        impl $name {
            /// The lowest possible value; for most counters "none yet".
            pub const ZERO: $name = $name(0);
            /// The highest value that is ever given out.
            pub const MAX: $name = $name($max);

            /// Wraps a number; limits are the business of whoever read it.
            #[must_use]
            pub const fn new(value: $inner) -> $name {
                $name(value)
            }

            /// The bare number, for wire and store.
            #[must_use]
            pub const fn value(self) -> $inner {
                self.0
            }

            /// The next higher number; stays where it is at the highest.
            #[must_use]
            pub const fn next(self) -> $name {
                $name(self.0.saturating_add(1))
            }

            /// The next lower number; stays at zero.
            #[must_use]
            pub const fn previous(self) -> $name {
                $name(self.0.saturating_sub(1))
            }

            /// Key bytes: big-endian and of fixed width, so that byte order is numeric order.
            #[must_use]
            pub const fn to_key(self) -> [u8; size_of::<$inner>()] {
                self.0.to_be_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<$name, IdError> {
                let error = || IdError { text: text.chars().take(40).collect(), example: $example };
                let digits = text.strip_prefix($prefix).ok_or_else(error)?;
                let plain = !digits.is_empty()
                    && digits.bytes().all(|byte| byte.is_ascii_digit())
                    && (digits == "0" || !digits.starts_with('0'));
                if !plain {
                    return Err(error());
                }
                let value: $inner = digits.parse().map_err(|_| error())?;
                if value > $max { Err(error()) } else { Ok($name(value)) }
            }
        }
    };
}

id!(
    /// A group. Ids count up from 1 and are never reused; ids with the top bit set are kept for direct chats.
    GroupId, u64, "g", "g7", u64::MAX
);
id!(
    /// The place of an item in its group: dense, from 1. Zero is "before the first".
    MessageId, u64, "m", "m42", u64::MAX - 1
);
id!(
    /// A user, from 1, never reused.
    UserId, u32, "u", "u3", (1 << 31) - 1
);
id!(
    /// A device, from 1, counted over the whole server, never reused. Zero in a cursor's key is its user's read mark.
    DeviceId, u32, "d", "d9", u32::MAX - 1
);
id!(
    /// The number a device gives to a send: from 1, counting up within the device.
    ClientSeq, u64, "s", "s5", u64::MAX - 1
);
id!(
    /// The place of a frame in the commit log: from 1, without gaps in segments that were not condensed.
    Lsn, u64, "l", "l12", u64::MAX - 1
);

impl GroupId {
    /// The highest id a counted group can have; above it lie direct chats.
    pub const COUNTED_MAX: GroupId = GroupId((1 << 63) - 1);

    /// The direct chat of two users, or of one with themselves: the same whichever of them asks.
    #[must_use]
    pub const fn direct(one: UserId, other: UserId) -> GroupId {
        let (low, high) = if one.0 <= other.0 { (one.0, other.0) } else { (other.0, one.0) };
        GroupId((1 << 63) | ((low as u64) << 31) | high as u64)
    }

    /// The two users of a direct chat, the lower first; none for a counted group, and for a number that no two users give.
    #[must_use]
    pub const fn pair(self) -> Option<(UserId, UserId)> {
        let (low, high) = ((self.0 >> 31) & UserId::MAX.0 as u64, self.0 & UserId::MAX.0 as u64);
        #[allow(clippy::cast_possible_truncation, reason = "both have 31 bits")]
        let (low, high) = (UserId(low as u32), UserId(high as u32));
        if low.0 > 0 && self.0 == GroupId::direct(low, high).0 && low.0 <= high.0 { Some((low, high)) } else { None }
    }

    /// The other user of a direct chat of this one; who writes to themselves is that.
    #[must_use]
    pub fn partner_of(self, user: UserId) -> Option<UserId> {
        match self.pair() {
            Some((low, high)) if low == user => Some(high),
            Some((low, high)) if high == user => Some(low),
            Some(_) | None => None,
        }
    }
}

/// The random name of one history of a store. A restore makes a new one, which is how clients notice it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch([u8; 16]);

impl Epoch {
    /// Wraps sixteen random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Epoch {
        Epoch(bytes)
    }

    /// The bytes, for wire and store.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Eight random bytes that a sender puts on an item, so that its own item is known again when it comes back before the
/// answer does. They name neither device nor sequence number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default, Debug)]
pub struct Tag([u8; 8]);

impl Tag {
    /// The tag of items that nobody sent.
    pub const NONE: Tag = Tag([0; 8]);

    /// Wraps eight random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 8]) -> Tag {
        Tag(bytes)
    }

    /// The bytes, for wire and store.
    #[must_use]
    pub const fn bytes(self) -> [u8; 8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print() {
        assert_eq!("g7".parse::<GroupId>(), Ok(GroupId::new(7)));
        assert_eq!(GroupId::new(7).to_string(), "g7");
        assert_eq!("m42".parse::<MessageId>(), Ok(MessageId::new(42)));
        assert_eq!(format!("{:?}", UserId::new(3)), "u3");
    }

    #[test]
    fn texts_that_are_no_ids_are_refused() {
        for text in ["", "g", "7", "g-1", "g07", "g7 ", "G7", "g1x", "g99999999999999999999", "m3"] {
            assert!(text.parse::<GroupId>().is_err(), "{text}");
        }
        assert!("u2147483648".parse::<UserId>().is_err());
    }

    #[test]
    fn a_direct_chat_is_named_by_its_two_users_whoever_asks() {
        let (ada, bob, last) = (UserId::new(1), UserId::new(700), UserId::MAX);
        for (one, other) in [(ada, bob), (bob, ada), (ada, ada), (bob, last), (last, last)] {
            let chat = GroupId::direct(one, other);
            assert_eq!(chat, GroupId::direct(other, one));
            assert!(chat > GroupId::COUNTED_MAX);
            assert_eq!(chat.pair(), Some((one.min(other), one.max(other))));
            assert_eq!((chat.partner_of(one), chat.partner_of(other)), (Some(other), Some(one)));
            assert_eq!(chat.to_string().parse(), Ok(chat));
        }
        assert_eq!(GroupId::direct(ada, bob).partner_of(last), None);
        let no_pairs = [1, GroupId::COUNTED_MAX.value(), 1 << 63, (1 << 63) | 5, (1 << 63) | (9 << 31) | 5, u64::MAX];
        for number in no_pairs {
            assert_eq!(GroupId::new(number).pair(), None, "{number}");
        }
    }

    #[test]
    fn key_bytes_sort_as_the_numbers_do() {
        let mut numbers = [0u64, 1, 255, 256, 65_536, u64::MAX - 1];
        numbers.sort_unstable();
        let keys: Vec<_> = numbers.iter().map(|number| MessageId::new(*number).to_key()).collect();
        assert!(keys.is_sorted());
    }
}
