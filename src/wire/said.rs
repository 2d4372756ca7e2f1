//! What a member sends beside a plain text: replies, mentions, edits, recalls, reactions; which extensions say so, in the
//! payload of a send and in the item that it becomes.
//!
//! A reference is a msgid or uid of fixed width, big-endian, and never the text of what it refers to.

use bytes::Bytes;

use crate::ids::{MessageId, UserId};
use crate::limits::{MENTIONS_MAX, REACTION_BYTES_MAX};
use crate::wire::WireError;
use crate::wire::bounded::Extensions;
use crate::wire::item::{Item, flag, kind};

/// Extensions of payloads and items.
pub mod extension {
    /// Of a text or edit: the msgid that it answers, u64.
    pub const REPLY_TO: u16 = 1;
    /// Of a text or edit: the users that it mentions, u32 each, ascending.
    pub const MENTIONS: u16 = 2;
    /// Of an edit, recall or reaction: the msgid that it is about, u64.
    pub const TARGET: u16 = 3;
    /// Of a reaction, empty: it is taken back.
    pub const REMOVES: u16 = 4;
}

/// The extension that names a msgid.
#[must_use]
pub fn msgid_extension(number: u16, msgid: MessageId) -> (u16, Bytes) {
    (number, Bytes::copy_from_slice(&msgid.value().to_be_bytes()))
}

/// The extension that mentions these users.
#[must_use]
pub fn mentions_extension(users: &[UserId]) -> (u16, Bytes) {
    let mut users = users.to_vec();
    users.sort_unstable();
    users.dedup();
    (extension::MENTIONS, users.iter().flat_map(|user| user.value().to_be_bytes()).collect())
}

/// The msgid that an extension names; none where there is none.
///
/// # Errors
/// Where it is there twice, or names no msgid.
pub fn msgid_in(extensions: &Extensions, number: u16) -> Result<Option<MessageId>, WireError> {
    let Some(bytes) = only(extensions, number)? else { return Ok(None) };
    let bytes: [u8; 8] = bytes.as_ref().try_into().map_err(|_| bad("a reference"))?;
    let msgid = MessageId::new(u64::from_be_bytes(bytes));
    if msgid == MessageId::ZERO || msgid > MessageId::MAX { Err(bad("a reference")) } else { Ok(Some(msgid)) }
}

/// The users that are mentioned: ascending, none twice, at most [`MENTIONS_MAX`].
///
/// # Errors
/// Where the extension is there twice, or is not that.
pub fn mentions_in(extensions: &Extensions) -> Result<Vec<UserId>, WireError> {
    let Some(bytes) = only(extensions, extension::MENTIONS)? else { return Ok(Vec::new()) };
    let (users, rest) = bytes.as_chunks::<4>();
    let users: Vec<UserId> = users.iter().map(|bytes| UserId::new(u32::from_be_bytes(*bytes))).collect();
    let ascends = users.is_sorted_by(|one, other| one < other) && users.first() != Some(&UserId::ZERO);
    let fits = !users.is_empty() && users.len() <= MENTIONS_MAX && users.last() <= Some(&UserId::MAX);
    if rest.is_empty() && ascends && fits { Ok(users) } else { Err(bad("mentions")) }
}

/// Whether body and extensions are what this kind has; of a kind that can't be sent nothing is known.
///
/// # Errors
/// Where they are not.
pub fn check(sent: u16, body: &[u8], extensions: &Extensions) -> Result<(), WireError> {
    let has = |number| extensions.0.iter().any(|(found, _)| *found == number);
    let refers = msgid_in(extensions, extension::TARGET)?.is_some();
    let is_whole = match sent {
        kind::TEXT => !refers,
        kind::EDIT => refers,
        kind::RECALL => refers && body.is_empty() && extensions.0.len() == 1,
        kind::REACTION => {
            let is_short = !body.is_empty() && body.len() <= REACTION_BYTES_MAX;
            let taken_back = only(extensions, extension::REMOVES)?.is_none_or(Bytes::is_empty);
            let is_text = std::str::from_utf8(body).is_ok_and(|text| !text.chars().any(char::is_control));
            refers && is_short && is_text && taken_back
        }
        _ => true,
    };
    let is_said = matches!(sent, kind::TEXT | kind::EDIT);
    if is_said {
        msgid_in(extensions, extension::REPLY_TO)?;
        mentions_in(extensions)?;
    }
    let is_strange = !is_said && (has(extension::REPLY_TO) || has(extension::MENTIONS));
    if is_whole && !is_strange { Ok(()) } else { Err(bad("something sent")) }
}

impl Item {
    /// Whether it was recalled, or is an edit of what was: its body is empty then.
    #[must_use]
    pub const fn is_recalled(&self) -> bool {
        self.flags & flag::RECALLED != 0
    }

    /// The msgid that an edit, recall or reaction is about.
    #[must_use]
    pub fn target(&self) -> Option<MessageId> {
        matches!(self.kind, kind::EDIT | kind::RECALL | kind::REACTION)
            .then(|| msgid_in(&self.extensions, extension::TARGET).ok().flatten())
            .flatten()
    }

    /// What an edit is of.
    #[must_use]
    pub fn edited(&self) -> Option<MessageId> {
        self.target().filter(|_| self.kind == kind::EDIT)
    }

    /// The message whose recall takes away what this says: itself, or what it edits; none where it says nothing, or nothing
    /// any more.
    #[must_use]
    pub fn goes_with(&self) -> Option<MessageId> {
        let message = if self.kind == kind::EDIT { self.target() } else { self.is_content().then_some(self.msgid) };
        message.filter(|_| !self.is_recalled())
    }

    /// What is left of it once it is recalled: who and when, and what an edit was of.
    #[must_use]
    pub fn wiped(self) -> Item {
        let target = self.target().map(|target| msgid_extension(extension::TARGET, target));
        let extensions = Extensions(target.into_iter().collect());
        Item { flags: self.flags | flag::RECALLED, body: Bytes::new(), extensions, ..self }
    }
}

fn only(extensions: &Extensions, number: u16) -> Result<Option<&Bytes>, WireError> {
    let mut found = extensions.0.iter().filter(|(at, _)| *at == number).map(|(_, bytes)| bytes);
    let first = found.next();
    if found.next().is_some() { Err(bad("an extension")) } else { Ok(first) }
}

fn bad(what: &'static str) -> WireError {
    WireError::BadSaid(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, Tag};

    fn m(msgid: u64) -> MessageId {
        MessageId::new(msgid)
    }

    fn with(extensions: &[(u16, Bytes)]) -> Extensions {
        Extensions(extensions.to_vec())
    }

    fn to(target: u64) -> (u16, Bytes) {
        msgid_extension(extension::TARGET, m(target))
    }

    fn mentioned(users: &[u32]) -> (u16, Bytes) {
        (extension::MENTIONS, users.iter().flat_map(|user| user.to_be_bytes()).collect())
    }

    #[test]
    fn each_kind_that_can_be_sent_has_what_it_needs_and_nothing_else() {
        let reply = msgid_extension(extension::REPLY_TO, m(3));
        let takes_back = (extension::REMOVES, Bytes::new());
        for (kind, body, extensions) in [
            (kind::TEXT, "hello", with(&[])),
            (kind::TEXT, "", with(&[reply.clone(), mentioned(&[1, 2, 9])])),
            (kind::EDIT, "hullo", with(&[to(5), reply.clone(), mentioned(&[4])])),
            (kind::RECALL, "", with(&[to(5)])),
            (kind::REACTION, "👍🏽", with(&[to(5)])),
            (kind::REACTION, "👍🏽", with(&[to(5), takes_back.clone()])),
        ] {
            check(kind, body.as_bytes(), &extensions).unwrap();
        }
        let many: Vec<u32> = (1..=33).collect();
        let long = "x".repeat(REACTION_BYTES_MAX + 1);
        let short = (extension::TARGET, Bytes::from_static(&[5]));
        for (kind, body, extensions) in [
            (kind::TEXT, "hello", with(&[to(5)])),
            (kind::TEXT, "hello", with(&[(extension::REPLY_TO, Bytes::from_static(&[0; 8]))])),
            (kind::TEXT, "hello", with(&[reply.clone(), reply.clone()])),
            (kind::TEXT, "hello", with(&[mentioned(&[])])),
            (kind::TEXT, "hello", with(&[mentioned(&[2, 2])])),
            (kind::TEXT, "hello", with(&[mentioned(&[0, 2])])),
            (kind::TEXT, "hello", with(&[mentioned(&many)])),
            (kind::TEXT, "hello", with(&[(extension::MENTIONS, Bytes::from_static(&[0, 0, 0, 1, 0]))])),
            (kind::EDIT, "hullo", with(&[])),
            (kind::EDIT, "hullo", with(&[short])),
            (kind::RECALL, "why", with(&[to(5)])),
            (kind::RECALL, "", with(&[to(5), reply.clone()])),
            (kind::RECALL, "", with(&[])),
            (kind::REACTION, "", with(&[to(5)])),
            (kind::REACTION, &long, with(&[to(5)])),
            (kind::REACTION, "\x1b[2J", with(&[to(5)])),
            (kind::REACTION, "👍", with(&[to(5), mentioned(&[4])])),
            (kind::REACTION, "👍", with(&[to(5), (extension::REMOVES, Bytes::from_static(b"x"))])),
        ] {
            assert!(check(kind, body.as_bytes(), &extensions).is_err(), "{kind} {body:?} {extensions:?}");
        }
    }

    #[test]
    fn what_is_recalled_keeps_nothing_of_what_it_said() {
        let reply = msgid_extension(extension::REPLY_TO, m(3));
        let item = Item {
            gid: GroupId::new(1),
            msgid: m(7),
            kind: kind::EDIT,
            flags: 0,
            author: UserId::new(2),
            time_ms: 5,
            tag: Tag::new([7; 8]),
            body: Bytes::from_static(b"hullo"),
            extensions: with(&[reply, to(5), mentions_extension(&[UserId::new(4)])]),
        };
        let wiped = item.wiped();
        assert!(wiped.is_recalled() && wiped.body.is_empty());
        assert_eq!((wiped.target(), wiped.author, &wiped.extensions), (Some(m(5)), UserId::new(2), &with(&[to(5)])));
    }
}
