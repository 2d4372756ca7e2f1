//! What an application can say: a text, a reply, an edit, a recall, a reaction; as a payload, encoded once.

use bytes::Bytes;

use crate::client::error::OutboxError;
use crate::ids::{MessageId, Tag, UserId};
use crate::wire::frame::{Extensions, Payload};
use crate::wire::item::kind;
use crate::wire::said::{self, extension};

/// Something to be put into the outbox. What names an earlier message names it by its msgid, and holds nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub enum Say {
    /// A message.
    Text {
        /// What it says.
        text: String,
        /// The message that it answers.
        reply_to: Option<MessageId>,
        /// Who is mentioned, at most [`crate::limits::MENTIONS_MAX`].
        mentions: Vec<UserId>,
    },
    /// Another text in place of a message of one's own.
    Edit {
        /// Which.
        target: MessageId,
        /// What it says now.
        text: String,
    },
    /// A message is taken back: nobody is shown what it said any more.
    Recall(MessageId),
    /// A reaction to a message, one emoji or a word.
    React {
        /// Which.
        target: MessageId,
        /// The reaction, at most [`crate::limits::REACTION_BYTES_MAX`] bytes.
        reaction: String,
    },
    /// A reaction of one's own is taken back.
    Unreact {
        /// Of which message.
        target: MessageId,
        /// The reaction.
        reaction: String,
    },
}

impl std::fmt::Debug for Say {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Say::Text { text, reply_to, .. } => write!(out, "Text({} bytes, to {reply_to:?})", text.len()),
            Say::Edit { target, text } => write!(out, "Edit({target}, {} bytes)", text.len()),
            Say::Recall(target) => write!(out, "Recall({target})"),
            Say::React { target, .. } => write!(out, "React({target})"),
            Say::Unreact { target, .. } => write!(out, "Unreact({target})"),
        }
    }
}

impl Say {
    /// A plain message.
    #[must_use]
    pub fn text(text: &str) -> Say {
        Say::Text { text: text.to_owned(), reply_to: None, mentions: Vec::new() }
    }

    /// What it says in words: the text, or the reaction; of a recall nothing.
    #[must_use]
    pub fn body(&self) -> &str {
        match self {
            Say::Text { text, .. } | Say::Edit { text, .. } => text,
            Say::React { reaction, .. } | Say::Unreact { reaction, .. } => reaction,
            Say::Recall(_) => "",
        }
    }

    /// What an encoded payload says; none where it is of no kind that is said here.
    pub(super) fn of(payload: &Bytes) -> Option<Say> {
        let Payload { kind, body, extensions, .. } = Payload::decode(payload).ok()?;
        let text = std::str::from_utf8(&body).ok()?.to_owned();
        let named = |number| said::msgid_in(&extensions, number).ok().flatten();
        let target = named(extension::TARGET);
        let removes = extensions.find(extension::REMOVES).is_some();
        match kind {
            kind::TEXT => {
                let mentions = said::mentions_in(&extensions).ok()?;
                Some(Say::Text { text, reply_to: named(extension::REPLY_TO), mentions })
            }
            kind::EDIT => Some(Say::Edit { target: target?, text }),
            kind::RECALL => target.map(Say::Recall),
            kind::REACTION if removes => Some(Say::Unreact { target: target?, reaction: text }),
            kind::REACTION => Some(Say::React { target: target?, reaction: text }),
            _ => None,
        }
    }

    /// The encoded payload.
    pub(super) fn payload(&self, tag: Tag, max: usize) -> Result<Bytes, OutboxError> {
        let target = |target: &MessageId| said::msgid_extension(extension::TARGET, *target);
        let (kind, body, extensions) = match self {
            Say::Text { text, reply_to, mentions } => {
                let reply = reply_to.map(|msgid| said::msgid_extension(extension::REPLY_TO, msgid));
                let mentions = (!mentions.is_empty()).then(|| said::mentions_extension(mentions));
                (kind::TEXT, text.as_str(), reply.into_iter().chain(mentions).collect())
            }
            Say::Edit { target: of, text } => (kind::EDIT, text.as_str(), vec![target(of)]),
            Say::Recall(of) => (kind::RECALL, "", vec![target(of)]),
            Say::React { target: of, reaction } => (kind::REACTION, reaction.as_str(), vec![target(of)]),
            Say::Unreact { target: of, reaction } => {
                (kind::REACTION, reaction.as_str(), vec![target(of), (extension::REMOVES, Bytes::new())])
            }
        };
        let too_large = || OutboxError::TooLarge { bytes: body.len(), max };
        if body.len() > max {
            return Err(too_large());
        }
        let extensions = Extensions(extensions);
        said::check(kind, body.as_bytes(), &extensions).map_err(|_| OutboxError::Unsayable)?;
        let body = Bytes::copy_from_slice(body.as_bytes());
        Payload { kind, tag, body, extensions }.encode().map_err(|_| too_large())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(say: &Say) -> Result<Bytes, OutboxError> {
        say.payload(Tag::new([7; 8]), 100)
    }

    #[test]
    fn what_no_server_would_take_is_not_put_into_the_outbox() {
        let target = MessageId::new(5);
        let many = (1..=40).map(UserId::new).collect();
        for say in [
            Say::Edit { target: MessageId::ZERO, text: "x".to_owned() },
            Say::Text { text: "x".to_owned(), reply_to: None, mentions: many },
            Say::React { target, reaction: String::new() },
            Say::React { target, reaction: "\x1b[2J".to_owned() },
            Say::Unreact { target, reaction: "x".repeat(65) },
        ] {
            assert_eq!(payload(&say), Err(OutboxError::Unsayable), "{say:?}");
        }
        let long = Say::Edit { target, text: "x".repeat(101) };
        assert_eq!(payload(&long), Err(OutboxError::TooLarge { bytes: 101, max: 100 }));
    }

    #[test]
    fn what_was_said_is_read_back_from_what_waits() {
        let target = MessageId::new(5);
        let mentions = vec![UserId::new(2), UserId::new(9)];
        for say in [
            Say::text("hello"),
            Say::Text { text: "yes".to_owned(), reply_to: Some(target), mentions },
            Say::Edit { target, text: "x".to_owned() },
            Say::Recall(target),
            Say::React { target, reaction: "👍".to_owned() },
            Say::Unreact { target, reaction: "👍".to_owned() },
        ] {
            assert_eq!(Say::of(&payload(&say).unwrap()), Some(say));
        }
        assert_eq!(Say::of(&Bytes::from_static(b"no payload")), None);
    }

    #[test]
    fn a_reply_holds_the_msgid_and_nothing_of_what_it_answers() {
        let text = "yes".to_owned();
        let say = Say::Text { text, reply_to: Some(MessageId::new(5)), mentions: vec![UserId::new(9), UserId::new(2)] };
        let payload = Payload::decode(&payload(&say).unwrap()).unwrap();
        assert_eq!((payload.kind, payload.body.as_ref()), (kind::TEXT, &b"yes"[..]));
        assert_eq!(said::msgid_in(&payload.extensions, extension::REPLY_TO), Ok(Some(MessageId::new(5))));
        assert_eq!(said::mentions_in(&payload.extensions), Ok(vec![UserId::new(2), UserId::new(9)]));
    }
}
