//! An item as a line for people or as a line of JSON.
//!
//! Pure: handles and names are looked up by the caller. In the text form every line that begins without a blank is one
//! item, whatever is in a body; in the JSON form the text is exact.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::cli::exit::CliError;
use crate::cli::output::json_line;
use crate::cli::{visible, when};
use crate::client::{Content, History, Item, Role};
use crate::ids::{GroupId, MessageId, UserId};
use crate::wire::item::kind;

/// Handles by user, as far as they are known.
pub type Names = BTreeMap<UserId, String>;

/// How items are written.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// As JSON.
    pub json: bool,
    /// What the group is called, where a line has to say it.
    pub label: Option<&'a str>,
    /// Now, for times of another day.
    pub now_ms: u64,
}

/// An item in JSON. Names of fields are a promise to scripts.
#[derive(Debug, Serialize)]
struct ItemJson<'a> {
    group: String,
    msgid: u64,
    kind: &'static str,
    /// The handle; null where nobody is named.
    from: Option<&'a str>,
    from_id: Option<String>,
    time_ms: u64,
    /// A message's text, byte for byte; of everything else words that say what happened.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind_number: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_by: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mentions: Vec<String>,
    /// The message that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reaction: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    seen_before: bool,
}

/// What retention has removed, in JSON.
#[derive(Debug, Serialize)]
struct GoneJson {
    group: String,
    msgid: u64,
    kind: &'static str,
    first: u64,
    last: u64,
}

/// The users that a line about this item names.
pub fn mentioned(item: &Item) -> impl Iterator<Item = UserId> {
    std::iter::once(item.author).chain(whom(&item.content)).filter(|user| *user != UserId::ZERO)
}

/// The user that it happened to, where it is about one.
fn whom(content: &Content) -> Option<UserId> {
    match content {
        Content::Joined(user)
        | Content::Left(user)
        | Content::Removed(user)
        | Content::RoleChanged(user, _)
        | Content::Muted(user)
        | Content::Unmuted(user)
        | Content::BanLifted(user) => Some(*user),
        Content::Text(_)
        | Content::Recalled { .. }
        | Content::Edit { .. }
        | Content::Recall(_)
        | Content::Reaction { .. }
        | Content::Created(_)
        | Content::Renamed(_)
        | Content::Topic(_)
        | Content::PolicyChanged(_)
        | Content::Hidden
        | Content::Unsupported(_) => None,
    }
}

/// The line, with its line break.
///
/// # Errors
/// Where JSON cannot be made, which does not happen.
pub fn item(item: &Item, seen_before: bool, names: &Names, form: Form<'_>) -> Result<String, CliError> {
    if form.json { json(item, seen_before, names) } else { Ok(text(item, seen_before, names, form)) }
}

/// The line about a range that retention has removed, with its line break.
///
/// # Errors
/// Where JSON cannot be made, which does not happen.
pub fn gone(group: GroupId, first: MessageId, last: MessageId, form: Form<'_>) -> Result<String, CliError> {
    let (first, last) = (first.value(), last.value());
    if form.json {
        return json_line(&GoneJson { group: group.to_string(), msgid: last, kind: "gone", first, last });
    }
    let which = if first == last { format!("{first}") } else { format!("{first}-{last}") };
    Ok(format!("{}{which} * gone: the group does not keep this any more\n", label(form)))
}

fn text(item: &Item, seen_before: bool, names: &Names, form: Form<'_>) -> String {
    let again = if seen_before { " (again)" } else { "" };
    let edited = if item.edited_by == MessageId::ZERO {
        String::new()
    } else {
        format!(" (edited by {})", item.edited_by.value())
    };
    let reply = item.reply_to.map_or_else(String::new, |msgid| format!(" (to {})", msgid.value()));
    let author = || who(item.author, names);
    let said = if let Content::Text(body) = &item.content {
        format!("{}:{again}{edited}{reply} {}", author(), visible::said(body))
    } else if let Content::Edit { target, text } = &item.content {
        format!("*{again} {} edited {}: {}", author(), target.value(), visible::lines(text.as_bytes()))
    } else {
        format!("*{again} {}", happened(item, names))
    };
    // What is hidden has no time that one may know.
    let time = if item.time_ms == 0 { String::new() } else { format!("{} ", when::short(item.time_ms, form.now_ms)) };
    format!("{}{} {time}{said}\n", label(form), item.msgid.value())
}

fn label(form: Form<'_>) -> String {
    form.label.map_or_else(String::new, |label| format!("[{}] ", visible::name(label)))
}

fn json(item: &Item, seen_before: bool, names: &Names) -> Result<String, CliError> {
    let user = whom(&item.content);
    let name =
        if let Content::Created(name) | Content::Renamed(name) = &item.content { Some(name.as_str()) } else { None };
    let role = if let Content::RoleChanged(_, role) = &item.content { Some(role.name()) } else { None };
    let target = if let Content::Edit { target, .. } | Content::Recall(target) | Content::Reaction { target, .. } =
        &item.content
    {
        Some(target.value())
    } else {
        None
    };
    let (reaction, removed) = if let Content::Reaction { reaction, removed, .. } = &item.content {
        (Some(reaction.as_str()), *removed)
    } else {
        (None, false)
    };
    let topic = if let Content::Topic(topic) = &item.content { Some(topic.as_str()) } else { None };
    let policy = if let Content::PolicyChanged(history) = &item.content { Some(history.name()) } else { None };
    let unsupported = if let Content::Unsupported(body) = &item.content { Some(STANDARD.encode(body)) } else { None };
    let text = if let Content::Text(text) | Content::Edit { text, .. } = &item.content {
        text.clone()
    } else {
        happened(item, names)
    };
    let author = Some(item.author).filter(|author| *author != UserId::ZERO);
    let handle = |user: Option<UserId>| user.and_then(|user| names.get(&user)).map(String::as_str);
    json_line(&ItemJson {
        group: item.group.to_string(),
        msgid: item.msgid.value(),
        kind: kind_name(&item.content),
        from: handle(author),
        from_id: author.map(|author| author.to_string()),
        time_ms: item.time_ms,
        text,
        user: handle(user),
        user_id: user.map(|user| user.to_string()),
        name,
        role,
        topic,
        policy,
        kind_number: unsupported.is_some().then_some(item.kind),
        body_base64: unsupported,
        edited_by: Some(item.edited_by.value()).filter(|edit| *edit > 0),
        reply_to: item.reply_to.map(MessageId::value),
        mentions: item.mentions.iter().map(ToString::to_string).collect(),
        target,
        reaction,
        removed,
        seen_before,
    })
}

/// The word for a kind of item, in JSON.
const fn kind_name(content: &Content) -> &'static str {
    match content {
        Content::Text(_) => "text",
        Content::Recalled { .. } => "recalled",
        Content::Edit { .. } => "edit",
        Content::Recall(_) => "recall",
        Content::Reaction { .. } => "reaction",
        Content::Created(_) => "created",
        Content::Joined(_) => "joined",
        Content::Left(_) => "left",
        Content::Removed(_) => "removed",
        Content::Renamed(_) => "renamed",
        Content::RoleChanged(..) => "role",
        Content::Topic(_) => "topic",
        Content::PolicyChanged(_) => "policy",
        Content::Muted(_) => "muted",
        Content::Unmuted(_) => "unmuted",
        Content::BanLifted(_) => "ban-lifted",
        Content::Hidden => "hidden",
        Content::Unsupported(_) => "unsupported",
    }
}

/// What happened, in words; empty for texts, which speak for themselves.
fn happened(item: &Item, names: &Names) -> String {
    let author = who(item.author, names);
    match &item.content {
        Content::Text(_) | Content::Edit { .. } => String::new(),
        Content::Recalled { edit: false } => format!("what {author} said was recalled"),
        Content::Recalled { edit: true } => format!("an edit by {author}, of what was recalled"),
        Content::Recall(target) => format!("{author} recalled {}", target.value()),
        Content::Reaction { target, reaction, removed } => {
            let how = if *removed { "took back a reaction to" } else { "reacted to" };
            format!("{author} {how} {}: {}", target.value(), visible::name(reaction))
        }
        Content::Created(_) if item.group.pair().is_some() => format!("{author} opened this chat"),
        Content::Created(name) => format!("{author} made the group \"{}\"", visible::name(name)),
        Content::Joined(user) if *user == item.author => format!("{author} joined"),
        Content::Joined(user) => format!("{} joined, added by {author}", who(*user, names)),
        Content::Left(user) => format!("{} left", who(*user, names)),
        Content::Removed(user) if item.author == UserId::ZERO => {
            format!("{} was removed: the user was deleted", who(*user, names))
        }
        Content::Removed(user) => format!("{} was removed by {author}", who(*user, names)),
        Content::Renamed(name) => format!("{author} renamed the group to \"{}\"", visible::name(name)),
        Content::RoleChanged(user, role) if item.author == UserId::ZERO => {
            format!("{} is {} now: the group had no owner left", who(*user, names), article(*role))
        }
        Content::RoleChanged(user, role) => format!("{author} made {} {}", who(*user, names), article(*role)),
        Content::Topic(topic) if topic.is_empty() => format!("{author} took the topic away"),
        Content::Topic(topic) => format!("{author} set the topic to \"{}\"", visible::name(topic)),
        Content::PolicyChanged(History::FromJoin) => {
            format!("{author} changed what newcomers see: only what comes after they join")
        }
        Content::PolicyChanged(History::Full) => {
            format!("{author} changed what newcomers see: everything from before as well")
        }
        Content::Muted(user) => format!("{} was muted by {author}", who(*user, names)),
        Content::Unmuted(user) => format!("{} may speak again, says {author}", who(*user, names)),
        Content::BanLifted(user) => format!("{} may be added again, says {author}", who(*user, names)),
        Content::Hidden => "not for you to see".to_owned(),
        Content::Unsupported(_) if item.kind == kind::TEXT => {
            format!("unsupported: {author} sent a text that is not UTF-8")
        }
        Content::Unsupported(body) => {
            format!("unsupported: kind {} of {} bytes by {author}; a newer gaggle may show it", item.kind, body.len())
        }
    }
}

/// The handle of a user, or their id where it is not known.
pub fn who(user: UserId, names: &Names) -> String {
    match names.get(&user) {
        Some(handle) => visible::name(handle),
        // No handle has such signs.
        None if user == UserId::ZERO => "(nobody)".to_owned(),
        None => user.to_string(),
    }
}

const fn article(role: Role) -> &'static str {
    match role {
        Role::Owner => "an owner",
        Role::Admin => "an admin",
        Role::Member => "a member",
        Role::Former => "a former member",
        Role::Other(_) => "something that this version does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NOON_MS: u64 = 1_796_040_240_000;

    fn names() -> Names {
        [(UserId::new(1), "alice".to_owned()), (UserId::new(2), "bob".to_owned())].into()
    }

    fn made(content: Content) -> Item {
        Item {
            group: GroupId::new(7),
            msgid: MessageId::new(42),
            kind: kind::TEXT,
            author: UserId::new(1),
            time_ms: NOON_MS,
            edited_by: MessageId::ZERO,
            reply_to: None,
            mentions: Vec::new(),
            content,
        }
    }

    fn line(content: Content) -> String {
        let form = Form { json: false, label: None, now_ms: NOON_MS };
        item(&made(content), false, &names(), form).unwrap()
    }

    fn parsed(content: Content) -> serde_json::Value {
        let form = Form { json: true, label: None, now_ms: NOON_MS };
        let line = item(&made(content), false, &names(), form).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn a_message_is_a_line_with_its_msgid() {
        assert_eq!(line(Content::Text("hello".to_owned())), "42 12:04 alice: hello\n");
    }

    #[test]
    fn the_group_is_named_where_several_are_shown() {
        let form = Form { json: false, label: Some("te\x1bam"), now_ms: NOON_MS };
        let shown = item(&made(Content::Text("hello".to_owned())), true, &names(), form).unwrap();
        assert_eq!(shown, "[te\\x1bam] 42 12:04 alice: (again) hello\n");
    }

    #[test]
    fn what_happens_to_a_group_reads_as_a_sentence() {
        assert_eq!(line(Content::Joined(UserId::new(2))), "42 12:04 * bob joined, added by alice\n");
        assert_eq!(line(Content::Joined(UserId::new(1))), "42 12:04 * alice joined\n");
        assert_eq!(line(Content::Left(UserId::new(1))), "42 12:04 * alice left\n");
        assert_eq!(line(Content::Removed(UserId::new(9))), "42 12:04 * u9 was removed by alice\n");
        let mut by_nobody = made(Content::Removed(UserId::new(2)));
        by_nobody.author = UserId::ZERO;
        let form = Form { json: false, label: None, now_ms: NOON_MS };
        let shown = item(&by_nobody, false, &names(), form).unwrap();
        assert_eq!(shown, "42 12:04 * bob was removed: the user was deleted\n");
        assert_eq!(line(Content::Renamed("a\nb".to_owned())), "42 12:04 * alice renamed the group to \"a\\nb\"\n");
        assert_eq!(line(Content::RoleChanged(UserId::new(2), Role::Admin)), "42 12:04 * alice made bob an admin\n");
    }

    #[test]
    fn edits_recalls_reactions_and_replies_name_what_they_are_about() {
        let target = MessageId::new(40);
        assert_eq!(line(Content::Edit { target, text: "a\nb".to_owned() }), "42 12:04 * alice edited 40: a\n    | b\n");
        assert_eq!(line(Content::Recall(target)), "42 12:04 * alice recalled 40\n");
        let reaction = |removed| Content::Reaction { target, reaction: "👍".to_owned(), removed };
        assert_eq!(line(reaction(false)), "42 12:04 * alice reacted to 40: 👍\n");
        assert_eq!(line(reaction(true)), "42 12:04 * alice took back a reaction to 40: 👍\n");
        assert_eq!(line(Content::Recalled { edit: false }), "42 12:04 * what alice said was recalled\n");
        let reply =
            Item { reply_to: Some(target), mentions: vec![UserId::new(2)], ..made(Content::Text("yes".to_owned())) };
        let form = Form { json: false, label: None, now_ms: NOON_MS };
        assert_eq!(item(&reply, false, &names(), form).unwrap(), "42 12:04 alice: (to 40) yes\n");
        let form = Form { json: true, ..form };
        let json: serde_json::Value = serde_json::from_str(&item(&reply, false, &names(), form).unwrap()).unwrap();
        assert_eq!((&json["reply_to"], &json["mentions"][0], &json["text"]), (&40.into(), &"u2".into(), &"yes".into()));
        let json = parsed(reaction(true));
        assert_eq!((&json["kind"], &json["target"]), (&"reaction".into(), &40.into()));
        assert_eq!((&json["reaction"], &json["removed"]), (&"👍".into(), &true.into()));
        let json = parsed(Content::Edit { target, text: "new".to_owned() });
        assert_eq!((&json["kind"], &json["text"]), (&"edit".into(), &"new".into()));
        assert_eq!(parsed(Content::Recalled { edit: false })["kind"], "recalled");
    }

    #[test]
    fn what_nobody_did_names_nobody_and_what_is_hidden_has_no_time() {
        let form = Form { json: false, label: None, now_ms: NOON_MS };
        let passed = Item { author: UserId::ZERO, ..made(Content::RoleChanged(UserId::new(2), Role::Owner)) };
        let shown = item(&passed, false, &names(), form).unwrap();
        assert_eq!(shown, "42 12:04 * bob is an owner now: the group had no owner left\n");
        let hidden = Item { author: UserId::ZERO, time_ms: 0, ..made(Content::Hidden) };
        assert_eq!(item(&hidden, false, &names(), form).unwrap(), "42 * not for you to see\n");
    }

    #[test]
    fn no_text_looks_as_if_it_were_edited() {
        assert_eq!(line(Content::Text("(edited by 5) fake".to_owned())), "42 12:04 alice: \\x28edited by 5) fake\n");
    }

    #[test]
    fn no_body_looks_like_an_item_of_another() {
        let shown = line(Content::Text("x\n43 12:04 bob: lies".to_owned()));
        assert_eq!(shown.lines().filter(|line| !line.starts_with(' ')).count(), 1);
    }

    #[test]
    fn unknown_kinds_are_said_to_be_unsupported() {
        let mut unknown = made(Content::Unsupported(Bytes::from_static(b"\x01\x02")));
        unknown.kind = 77;
        let form = Form { json: false, label: None, now_ms: NOON_MS };
        let shown = item(&unknown, false, &names(), form).unwrap();
        assert_eq!(shown, "42 12:04 * unsupported: kind 77 of 2 bytes by alice; a newer gaggle may show it\n");
        let form = Form { json: true, ..form };
        let json: serde_json::Value = serde_json::from_str(&item(&unknown, false, &names(), form).unwrap()).unwrap();
        assert_eq!(json["kind"], "unsupported");
        assert_eq!(json["kind_number"], 77);
        assert_eq!(json["body_base64"], "AQI=");
    }

    #[test]
    fn json_has_the_promised_fields_and_the_exact_text() {
        let text = "a\u{202e}\x1b[31m\t\0\n\"\\ é \u{feff}";
        let json = parsed(Content::Text(text.to_owned()));
        assert_eq!(json["group"], "g7");
        assert_eq!(json["msgid"], 42);
        assert_eq!(json["kind"], "text");
        assert_eq!(json["from"], "alice");
        assert_eq!(json["from_id"], "u1");
        assert_eq!(json["time_ms"], NOON_MS);
        assert_eq!(json["text"], text);
    }

    #[test]
    fn json_of_a_membership_names_whom() {
        let json = parsed(Content::Joined(UserId::new(2)));
        assert_eq!((&json["kind"], &json["user"], &json["user_id"]), (&"joined".into(), &"bob".into(), &"u2".into()));
        assert_eq!(json["text"], "bob joined, added by alice");
        let json = parsed(Content::Hidden);
        assert_eq!(json["kind"], "hidden");
    }

    #[test]
    fn what_is_gone_is_named() {
        let form = Form { json: false, label: Some("team"), now_ms: 0 };
        let shown = gone(GroupId::new(1), MessageId::new(1), MessageId::new(9), form).unwrap();
        assert_eq!(shown, "[team] 1-9 * gone: the group does not keep this any more\n");
        let shown = gone(GroupId::new(1), MessageId::new(9), MessageId::new(9), form).unwrap();
        assert_eq!(shown, "[team] 9 * gone: the group does not keep this any more\n");
    }
}
