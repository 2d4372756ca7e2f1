//! A message as it stands, as a line for people or as a line of JSON: with its last edit and its reactions.

use serde::Serialize;

use crate::cli::exit::CliError;
use crate::cli::output::json_line;
use crate::cli::render::{self, Form, Names};
use crate::cli::{visible, when};
use crate::client::{Message, Standing};
use crate::ids::{GroupId, MessageId, UserId};

/// A message in JSON. Names of fields are a promise to scripts.
#[derive(Debug, Serialize)]
struct MessageJson<'a> {
    group: String,
    msgid: u64,
    from: Option<&'a str>,
    from_id: String,
    time_ms: u64,
    /// What it says by now; null where it was recalled.
    text: Option<&'a str>,
    edited_by: Option<u64>,
    reply_to: Option<u64>,
    mentions: Vec<String>,
    reactions: Vec<ReactionJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ReactionJson<'a> {
    reaction: &'a str,
    count: usize,
    from_ids: Vec<String>,
}

/// The users that a line about this message names.
pub fn mentioned(message: &Message) -> impl Iterator<Item = UserId> {
    let reacted = message.reactions.iter().flat_map(|(_, users)| users.iter().copied());
    std::iter::once(message.author).chain(reacted)
}

/// The line, with its line break.
///
/// # Errors
/// Where JSON cannot be made, which does not happen.
pub fn message(group: GroupId, message: &Message, names: &Names, form: Form<'_>) -> Result<String, CliError> {
    if form.json { json(group, message, names) } else { Ok(text(message, names, form)) }
}

fn text(message: &Message, names: &Names, form: Form<'_>) -> String {
    let who = |user: &UserId| render::who(*user, names);
    let (edited, said) = match &message.text {
        Standing::Original(text) => ("", visible::said(text)),
        Standing::Edited { text, .. } | Standing::Outdated { text, .. } => (" (edited)", visible::said(text)),
        Standing::Recalled => (" (recalled)", String::new()),
    };
    let reply = message.reply_to.map_or_else(String::new, |msgid| format!(" (to {})", msgid.value()));
    let reactions: String = message
        .reactions
        .iter()
        .map(|(reaction, users)| {
            let users: Vec<String> = users.iter().map(who).collect();
            format!(" [{} {}: {}]", visible::bracketed(reaction), users.len(), users.join(", "))
        })
        .collect();
    let (msgid, time) = (message.msgid.value(), when::short(message.time_ms, form.now_ms));
    let said = if said.is_empty() { said } else { format!(" {said}") };
    format!("{msgid} {time} {}:{edited}{reply}{said}{reactions}\n", who(&message.author))
}

fn json(group: GroupId, message: &Message, names: &Names) -> Result<String, CliError> {
    let (text, edited_by) = match &message.text {
        Standing::Original(text) => (Some(text.as_str()), None),
        Standing::Edited { by, text } | Standing::Outdated { by, text } => (Some(text.as_str()), Some(*by)),
        Standing::Recalled => (None, None),
    };
    let ids = |users: &[UserId]| users.iter().map(ToString::to_string).collect::<Vec<_>>();
    let reactions = message.reactions.iter();
    json_line(&MessageJson {
        group: group.to_string(),
        msgid: message.msgid.value(),
        from: names.get(&message.author).map(String::as_str),
        from_id: message.author.to_string(),
        time_ms: message.time_ms,
        text,
        edited_by: edited_by.map(MessageId::value),
        reply_to: message.reply_to.map(MessageId::value),
        mentions: ids(&message.mentions),
        reactions: reactions
            .map(|(reaction, users)| ReactionJson { reaction, count: users.len(), from_ids: ids(users) })
            .collect(),
    })
}
