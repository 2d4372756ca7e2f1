//! The keys of every tree: built and parsed, big-endian and of fixed width, so that byte order is meaning.
//!
//! A key that was parsed builds the same bytes again; whatever is no key of its tree is refused.

use bytes::Bytes;

use crate::ids::{ClientSeq, DeviceId, GroupId, MessageId, UserId};

/// Bytes that are no key of the tree they were found in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes that are no key of {tree}")]
pub struct KeyError {
    tree: &'static str,
    bytes: usize,
}

/// Takes a key apart from the left.
struct Parts<'a> {
    tree: &'static str,
    whole: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(tree: &'static str, key: &'a [u8]) -> Parts<'a> {
        Parts { tree, whole: key, rest: key }
    }

    fn error(&self) -> KeyError {
        KeyError { tree: self.tree, bytes: self.whole.len() }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], KeyError> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.error())?;
        self.rest = rest;
        Ok(*first)
    }

    fn group(&mut self) -> Result<GroupId, KeyError> {
        self.take().map(u64::from_be_bytes).map(GroupId::new)
    }

    fn message(&mut self) -> Result<MessageId, KeyError> {
        let msgid = MessageId::new(u64::from_be_bytes(self.take()?));
        if msgid > MessageId::MAX { Err(self.error()) } else { Ok(msgid) }
    }

    fn user(&mut self) -> Result<UserId, KeyError> {
        let user = UserId::new(u32::from_be_bytes(self.take()?));
        if user > UserId::MAX { Err(self.error()) } else { Ok(user) }
    }

    fn device(&mut self) -> Result<DeviceId, KeyError> {
        let device = DeviceId::new(u32::from_be_bytes(self.take()?));
        if device > DeviceId::MAX { Err(self.error()) } else { Ok(device) }
    }

    fn end<T>(&self, value: T) -> Result<T, KeyError> {
        if self.rest.is_empty() { Ok(value) } else { Err(self.error()) }
    }
}

fn joined(parts: &[&[u8]]) -> Bytes {
    Bytes::from(parts.concat())
}

/// Key in `messages`, `recalled`.
#[must_use]
pub fn message(group: GroupId, msgid: MessageId) -> Bytes {
    joined(&[&group.to_key(), &msgid.to_key()])
}

/// Parses a key of `messages` or `recalled`.
///
/// # Errors
/// Where it is none.
pub fn parse_message(key: &[u8]) -> Result<(GroupId, MessageId), KeyError> {
    let mut parts = Parts::of("messages", key);
    let value = (parts.group()?, parts.message()?);
    parts.end(value)
}

/// Key in `cursors`; device zero is the user's read mark.
#[must_use]
pub fn cursor(group: GroupId, user: UserId, device: DeviceId) -> Bytes {
    joined(&[&group.to_key(), &user.to_key(), &device.to_key()])
}

/// Parses a key of `cursors`.
///
/// # Errors
/// Where it is none.
pub fn parse_cursor(key: &[u8]) -> Result<(GroupId, UserId, DeviceId), KeyError> {
    let mut parts = Parts::of("cursors", key);
    let value = (parts.group()?, parts.user()?, parts.device()?);
    parts.end(value)
}

/// Key in `members`.
#[must_use]
pub fn member(group: GroupId, user: UserId) -> Bytes {
    joined(&[&group.to_key(), &user.to_key()])
}

/// Parses a key of `members`.
///
/// # Errors
/// Where it is none.
pub fn parse_member(key: &[u8]) -> Result<(GroupId, UserId), KeyError> {
    let mut parts = Parts::of("members", key);
    let value = (parts.group()?, parts.user()?);
    parts.end(value)
}

/// Key in `own`: the author's content item of this ordinal in the group.
#[must_use]
pub fn own(group: GroupId, user: UserId, ordinal: u64) -> Bytes {
    joined(&[&group.to_key(), &user.to_key(), &ordinal.to_be_bytes()])
}

/// Parses a key of `own`.
///
/// # Errors
/// Where it is none.
pub fn parse_own(key: &[u8]) -> Result<(GroupId, UserId, u64), KeyError> {
    parse_counted("own", key)
}

/// Key in `mentions`: the item that mentions a user in a group for the nth time.
#[must_use]
pub fn mention(group: GroupId, user: UserId, number: u64) -> Bytes {
    own(group, user, number)
}

/// Parses a key of `mentions`.
///
/// # Errors
/// Where it is none.
pub fn parse_mention(key: &[u8]) -> Result<(GroupId, UserId, u64), KeyError> {
    parse_counted("mentions", key)
}

fn parse_counted(tree: &'static str, key: &[u8]) -> Result<(GroupId, UserId, u64), KeyError> {
    let mut parts = Parts::of(tree, key);
    let value = (parts.group()?, parts.user()?, parts.take().map(u64::from_be_bytes)?);
    parts.end(value)
}

/// Key in `groups`.
#[must_use]
pub fn group(group: GroupId) -> Bytes {
    joined(&[&group.to_key()])
}

/// Parses a key of `groups`.
///
/// # Errors
/// Where it is none.
pub fn parse_group(key: &[u8]) -> Result<GroupId, KeyError> {
    let mut parts = Parts::of("groups", key);
    let value = parts.group()?;
    parts.end(value)
}

/// Key in `users`.
#[must_use]
pub fn user(user: UserId) -> Bytes {
    joined(&[&user.to_key()])
}

/// Parses a key of `users`.
///
/// # Errors
/// Where it is none.
pub fn parse_user(key: &[u8]) -> Result<UserId, KeyError> {
    let mut parts = Parts::of("users", key);
    let value = parts.user()?;
    parts.end(value)
}

/// Key in `devices`.
#[must_use]
pub fn device(device: DeviceId) -> Bytes {
    joined(&[&device.to_key()])
}

/// Parses a key of `devices`.
///
/// # Errors
/// Where it is none.
pub fn parse_device(key: &[u8]) -> Result<DeviceId, KeyError> {
    let mut parts = Parts::of("devices", key);
    let value = parts.device()?;
    parts.end(value)
}

/// Key in `invites`, by the hash of the code, and in `keys`, by the public key.
#[must_use]
pub fn digest(bytes: &[u8; 32]) -> Bytes {
    joined(&[bytes])
}

/// Parses a key of `invites` or `keys`.
///
/// # Errors
/// Where it is none.
pub fn parse_digest(key: &[u8]) -> Result<[u8; 32], KeyError> {
    let mut parts = Parts::of("invites or keys", key);
    let value = parts.take()?;
    parts.end(value)
}

/// Key in `handles` and in `meta`: the name itself.
#[must_use]
pub fn name(name: &str) -> Bytes {
    joined(&[name.as_bytes()])
}

/// Parses a key of `handles` or `meta`.
///
/// # Errors
/// Where it is none.
pub fn parse_name(key: &[u8]) -> Result<&str, KeyError> {
    std::str::from_utf8(key).map_err(|_| Parts::of("handles or meta", key).error())
}

/// Key in `memberships`.
#[must_use]
pub fn membership(user: UserId, group: GroupId) -> Bytes {
    joined(&[&user.to_key(), &group.to_key()])
}

/// Parses a key of `memberships`.
///
/// # Errors
/// Where it is none.
pub fn parse_membership(key: &[u8]) -> Result<(UserId, GroupId), KeyError> {
    let mut parts = Parts::of("memberships", key);
    let value = (parts.user()?, parts.group()?);
    parts.end(value)
}

/// Key in `sends`; number zero is the device's window.
#[must_use]
pub fn send(device: DeviceId, seq: ClientSeq) -> Bytes {
    joined(&[&device.to_key(), &seq.to_key()])
}

/// Parses a key of `sends`.
///
/// # Errors
/// Where it is none.
pub fn parse_send(key: &[u8]) -> Result<(DeviceId, ClientSeq), KeyError> {
    let mut parts = Parts::of("sends", key);
    let value = (parts.device()?, parts.take().map(u64::from_be_bytes).map(ClientSeq::new)?);
    parts.end(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_keys_of_a_group_lie_together_in_the_order_of_its_msgids() {
        let keys = [(1, 1), (1, 2), (1, 255), (1, 256), (2, 1), (256, 1)];
        let keys: Vec<_> = keys.map(|(g, m)| message(GroupId::new(g), MessageId::new(m))).into();
        assert!(keys.is_sorted());
        assert_eq!(keys[2].as_ref(), [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 255]);
    }

    #[test]
    fn every_key_has_its_golden_bytes() {
        let (g, m, u, d) = (GroupId::new(0x0102), MessageId::new(3), UserId::new(4), DeviceId::new(5));
        let hex = |key: Bytes| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(message(g, m)), "00000000000001020000000000000003");
        assert_eq!(hex(cursor(g, u, d)), "00000000000001020000000400000005");
        assert_eq!(hex(member(g, u)), "000000000000010200000004");
        assert_eq!(hex(own(g, u, 6)), "0000000000000102000000040000000000000006");
        assert_eq!(hex(mention(g, u, 6)), "0000000000000102000000040000000000000006");
        assert_eq!(hex(group(g)), "0000000000000102");
        assert_eq!(hex(user(u)), "00000004");
        assert_eq!(hex(device(d)), "00000005");
        assert_eq!(hex(name("ada")), "616461");
        assert_eq!(hex(membership(u, g)), "000000040000000000000102");
        assert_eq!(hex(send(d, ClientSeq::new(7))), "000000050000000000000007");
    }

    proptest! {
        #[test]
        fn whatever_parses_as_a_key_builds_the_same_bytes(key in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((g, m)) = parse_message(&key) { prop_assert_eq!(&message(g, m)[..], &key[..]); }
            if let Ok((g, u, d)) = parse_cursor(&key) { prop_assert_eq!(&cursor(g, u, d)[..], &key[..]); }
            if let Ok((g, u)) = parse_member(&key) { prop_assert_eq!(&member(g, u)[..], &key[..]); }
            if let Ok((g, u, n)) = parse_own(&key) { prop_assert_eq!(&own(g, u, n)[..], &key[..]); }
            if let Ok((g, u, n)) = parse_mention(&key) { prop_assert_eq!(&mention(g, u, n)[..], &key[..]); }
            if let Ok(g) = parse_group(&key) { prop_assert_eq!(&group(g)[..], &key[..]); }
            if let Ok(u) = parse_user(&key) { prop_assert_eq!(&user(u)[..], &key[..]); }
            if let Ok(d) = parse_device(&key) { prop_assert_eq!(&device(d)[..], &key[..]); }
            if let Ok(h) = parse_digest(&key) { prop_assert_eq!(&digest(&h)[..], &key[..]); }
            if let Ok(n) = parse_name(&key) { prop_assert_eq!(&name(n)[..], &key[..]); }
            if let Ok((u, g)) = parse_membership(&key) { prop_assert_eq!(&membership(u, g)[..], &key[..]); }
            if let Ok((d, s)) = parse_send(&key) { prop_assert_eq!(&send(d, s)[..], &key[..]); }
        }
    }
}
