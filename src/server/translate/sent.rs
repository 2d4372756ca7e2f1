//! From what a member sends to what is decided about it, and back from kept items to the same.

use bytes::Bytes;

use crate::core::command::{Refusal, Sendable};
use crate::core::rows::Act;
use crate::ids::MessageId;
use crate::wire::WireError;
use crate::wire::frame::{Extensions, Payload};
use crate::wire::item::kind;
use crate::wire::said::{self, extension};

/// A payload as it is decided on.
pub(crate) fn sendable(payload: Payload) -> Result<Sendable, Refusal> {
    let Payload { kind: sent, tag, body, extensions } = payload;
    if !matches!(sent, kind::TEXT | kind::EDIT | kind::RECALL | kind::REACTION) {
        return Err(Refusal::Unsupported);
    }
    said::check(sent, &body, &extensions).map_err(|_| Refusal::Malformed)?;
    let act = act(sent, &extensions).map_err(|_| Refusal::Malformed)?.unwrap_or(Act::Says);
    let mentions = said::mentions_in(&extensions).map_err(|_| Refusal::Malformed)?;
    Ok(Sendable { kind: sent, act, tag, body, extensions: without_target(act, extensions), mentions })
}

/// What a kind does to another item; none where it is about none.
pub(super) fn act(sent: u16, extensions: &Extensions) -> Result<Option<Act>, WireError> {
    let does: fn(MessageId) -> Act = match sent {
        kind::EDIT => Act::Edits,
        kind::RECALL => Act::Recalls,
        kind::REACTION => Act::Reacts,
        _ => return Ok(None),
    };
    let target = said::msgid_in(extensions, extension::TARGET)?;
    target.map(does).map(Some).ok_or(WireError::BadSaid("something about no item"))
}

/// The extensions as they are decided on: what they say of the target is said by the act.
pub(super) fn without_target(act: Act, extensions: Extensions) -> Vec<(u16, Bytes)> {
    let names_target = |number: u16| act.target().is_some() && number == extension::TARGET;
    extensions.0.into_iter().filter(|(number, _)| !names_target(*number)).collect()
}

/// The same as they travel.
pub(super) fn with_target(act: Act, extensions: &[(u16, Bytes)]) -> Extensions {
    let target = act.target().map(|target| said::msgid_extension(extension::TARGET, target));
    Extensions(extensions.iter().cloned().chain(target).collect())
}
