//! What a conversation comes to: its messages with their last edits, without what was recalled, with the reactions.
//!
//! Give [`Conversation::take`] the items as they come from a listener or a page. In which order they come, and how often
//! each does, makes no difference: what was said of a message before it came waits for it. So a device that was away ends
//! with the same as one that is new.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::types::{Content, Item};
use crate::ids::{MessageId, UserId};

/// The messages of one group, as far as its items were taken.
#[derive(Clone, Default)]
pub struct Conversation {
    entries: BTreeMap<MessageId, Entry>,
}

/// Everything that was said of one msgid.
#[derive(Clone, Default)]
struct Entry {
    said: Option<Said>,
    /// The newest edit that was named or came.
    edited_by: MessageId,
    /// The newest edit that came.
    edit: Option<(MessageId, String)>,
    recalled: bool,
    /// By reaction and user the last word on it, and whether it stands.
    reactions: BTreeMap<(String, UserId), (MessageId, bool)>,
}

#[derive(Clone)]
struct Said {
    author: UserId,
    time_ms: u64,
    text: String,
    reply_to: Option<MessageId>,
    mentions: Vec<UserId>,
}

/// A message as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place in the group.
    pub msgid: MessageId,
    /// Who wrote it.
    pub author: UserId,
    /// The server's clock at the time, ms since 1970.
    pub time_ms: u64,
    /// What it says.
    pub text: Standing,
    /// The message that it answers.
    pub reply_to: Option<MessageId>,
    /// Who is mentioned in it.
    pub mentions: Vec<UserId>,
    /// Reactions with those who reacted so, both in order.
    pub reactions: Vec<(String, Vec<UserId>)>,
}

/// What a message says by now.
#[derive(Clone, PartialEq, Eq)]
pub enum Standing {
    /// What it said from the beginning.
    Original(String),
    /// What its last edit says.
    Edited {
        /// The edit.
        by: MessageId,
        /// Its text.
        text: String,
    },
    /// It was edited, and the edit did not come yet: this is what it said before.
    Outdated {
        /// The edit: pull behind the msgid before it.
        by: MessageId,
        /// The earlier text.
        text: String,
    },
    /// It was taken back.
    Recalled,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Standing::Original(text) => write!(out, "Original({} bytes)", text.len()),
            Standing::Edited { by, text } => write!(out, "Edited({by}, {} bytes)", text.len()),
            Standing::Outdated { by, .. } => write!(out, "Outdated({by})"),
            Standing::Recalled => out.write_str("Recalled"),
        }
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Conversation of {} messages", self.entries.len())
    }
}

impl Conversation {
    /// Nothing was said yet.
    #[must_use]
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// Takes an item of the group.
    pub fn take(&mut self, item: &Item) {
        match &item.content {
            Content::Text(text) => {
                let entry = self.said(item, text);
                entry.edited_by = entry.edited_by.max(item.edited_by);
            }
            // An edit of what was recalled says nothing, and nothing of what it was an edit of.
            Content::Recalled { edit: true } => {}
            Content::Recalled { edit: false } => self.said(item, "").recall(),
            Content::Edit { target, text } => {
                let entry = self.entries.entry(*target).or_default();
                entry.edited_by = entry.edited_by.max(item.msgid);
                if !entry.recalled && entry.edit.as_ref().is_none_or(|(last, _)| *last < item.msgid) {
                    entry.edit = Some((item.msgid, text.clone()));
                }
            }
            Content::Recall(target) => self.entries.entry(*target).or_default().recall(),
            Content::Reaction { target, reaction, removed } => {
                let entry = self.entries.entry(*target).or_default();
                let last = entry.reactions.entry((reaction.clone(), item.author)).or_default();
                if last.0 < item.msgid {
                    *last = (item.msgid, !removed);
                }
            }
            Content::Created(_)
            | Content::Joined(_)
            | Content::Left(_)
            | Content::Removed(_)
            | Content::Renamed(_)
            | Content::RoleChanged(..)
            | Content::Topic(_)
            | Content::PolicyChanged(_)
            | Content::Muted(_)
            | Content::Unmuted(_)
            | Content::BanLifted(_)
            | Content::Hidden
            | Content::Unsupported(_) => {}
        }
    }

    fn said(&mut self, item: &Item, text: &str) -> &mut Entry {
        let entry = self.entries.entry(item.msgid).or_default();
        let text = if entry.recalled { String::new() } else { text.to_owned() };
        let Item { author, time_ms, reply_to, .. } = *item;
        let mentions = item.mentions.clone();
        entry.said.get_or_insert(Said { author, time_ms, text, reply_to, mentions });
        entry
    }

    /// The messages that came, by msgid.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = Message> + '_ {
        self.entries.iter().filter_map(|(msgid, entry)| entry.message(*msgid))
    }

    /// One message, if it came.
    #[must_use]
    pub fn message(&self, msgid: MessageId) -> Option<Message> {
        self.entries.get(&msgid)?.message(msgid)
    }
}

impl Entry {
    /// What it said is forgotten.
    fn recall(&mut self) {
        self.recalled = true;
        self.edit = None;
        self.reactions.clear();
        if let Some(said) = &mut self.said {
            said.text.clear();
        }
    }

    fn message(&self, msgid: MessageId) -> Option<Message> {
        let Said { author, time_ms, text, reply_to, mentions } = self.said.clone()?;
        if self.recalled {
            let (reply_to, mentions, reactions) = (None, Vec::new(), Vec::new());
            return Some(Message { msgid, author, time_ms, text: Standing::Recalled, reply_to, mentions, reactions });
        }
        let text = match &self.edit {
            Some((by, text)) if *by >= self.edited_by => Standing::Edited { by: *by, text: text.clone() },
            Some((_, text)) => Standing::Outdated { by: self.edited_by, text: text.clone() },
            None if self.edited_by > MessageId::ZERO => Standing::Outdated { by: self.edited_by, text },
            None => Standing::Original(text),
        };
        let mut reactions: BTreeMap<&str, BTreeSet<UserId>> = BTreeMap::new();
        for ((reaction, user), (_, stands)) in &self.reactions {
            if *stands {
                reactions.entry(reaction).or_default().insert(*user);
            }
        }
        let reactions =
            reactions.into_iter().map(|(reaction, users)| (reaction.to_owned(), users.into_iter().collect())).collect();
        Some(Message { msgid, author, time_ms, text, reply_to, mentions, reactions })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::GroupId;

    fn item(msgid: u64, author: u32, content: Content) -> Item {
        Item {
            group: GroupId::new(1),
            msgid: m(msgid),
            kind: 1,
            author: UserId::new(author),
            time_ms: msgid,
            edited_by: MessageId::ZERO,
            reply_to: None,
            mentions: Vec::new(),
            content,
        }
    }

    fn m(msgid: u64) -> MessageId {
        MessageId::new(msgid)
    }

    fn text(text: &str) -> Content {
        Content::Text(text.to_owned())
    }

    fn edit(target: u64, text: &str) -> Content {
        Content::Edit { target: m(target), text: text.to_owned() }
    }

    fn reaction(target: u64, removed: bool) -> Content {
        Content::Reaction { target: m(target), reaction: "+1".to_owned(), removed }
    }

    fn folded<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Message> {
        let mut conversation = Conversation::new();
        items.into_iter().for_each(|item| conversation.take(item));
        conversation.messages().collect()
    }

    #[test]
    fn the_newest_edit_stands_and_a_recall_wins_over_it() {
        let mut items = vec![item(1, 1, text("helo")), item(2, 1, edit(1, "hallo")), item(3, 1, edit(1, "hello"))];
        assert_eq!(folded(&items)[0].text, Standing::Edited { by: m(3), text: "hello".to_owned() });
        items.push(item(4, 1, Content::Recall(m(1))));
        items.push(item(5, 1, edit(1, "late")));
        assert_eq!(folded(&items)[0].text, Standing::Recalled);
    }

    #[test]
    fn an_edit_that_is_named_and_did_not_come_is_said_to_be_missing() {
        let named = Item { edited_by: m(9), ..item(1, 1, text("helo")) };
        let outdated = |text: &str| Standing::Outdated { by: m(9), text: text.to_owned() };
        assert_eq!(folded([&named])[0].text, outdated("helo"));
        let older = item(5, 1, edit(1, "hallo"));
        assert_eq!(folded([&named, &older])[0].text, outdated("hallo"));
        let newest = item(9, 1, edit(1, "hello"));
        assert_eq!(folded([&named, &newest, &older])[0].text, Standing::Edited { by: m(9), text: "hello".to_owned() });
    }

    #[test]
    fn reactions_are_counted_once_for_each_who_reacted() {
        let items = [
            item(1, 1, text("hello")),
            item(2, 2, reaction(1, false)),
            item(3, 2, reaction(1, false)),
            item(4, 3, reaction(1, false)),
            item(5, 4, reaction(1, false)),
            item(6, 4, reaction(1, true)),
        ];
        assert_eq!(folded(&items)[0].reactions, [("+1".to_owned(), vec![UserId::new(2), UserId::new(3)])]);
    }

    fn contents() -> impl Strategy<Value = Content> {
        let target = 1u64..12;
        prop_oneof![
            3 => "[a-c]{1,3}".prop_map(Content::Text),
            3 => (target.clone(), "[a-c]{1,3}").prop_map(|(target, text)| edit(target, &text)),
            1 => target.clone().prop_map(|target| Content::Recall(m(target))),
            1 => Just(Content::Recalled { edit: true }),
            2 => (target, any::<bool>()).prop_map(|(target, removed)| reaction(target, removed)),
        ]
    }

    proptest! {
        /// Scenario 26: whoever got the items one by one as they came, and whoever gets them later, wiped and with their
        /// edits named, in whatever order and however often, ends with the same.
        #[test]
        fn every_device_ends_with_the_same(
            contents in prop::collection::vec((1u32..4, contents()), 1..12),
            order in prop::collection::vec(any::<u32>(), 30),
        ) {
            let first: Vec<Item> = (1..).zip(contents).map(|(msgid, (by, content))| item(msgid, by, content)).collect();
            let edits_of = |target: MessageId| {
                first.iter().filter(move |item| matches!(item.content, Content::Edit { target: of, .. } if of == target))
            };
            let recalled = |of: MessageId| first.iter().any(|item| item.content == Content::Recall(of));
            let later: Vec<Item> = first.iter().map(|item| {
                let edited_by = edits_of(item.msgid).map(|edit| edit.msgid).max().unwrap_or_default();
                let gone = |edit| Item { content: Content::Recalled { edit }, ..item.clone() };
                if let Content::Text(_) = &item.content {
                    return if recalled(item.msgid) { gone(false) } else { Item { edited_by, ..item.clone() } };
                }
                let of = if let Content::Edit { target, .. } = &item.content { Some(*target) } else { None };
                if of.is_some_and(recalled) { gone(true) } else { item.clone() }
            }).collect();
            let expected = folded(&first);
            prop_assert_eq!(&folded(&later), &expected);
            let count = later.len();
            let shuffled = order.iter().map(|at| &later[*at as usize % count]);
            prop_assert_eq!(&folded(shuffled.chain(later.iter().rev())), &expected);
            prop_assert_eq!(&folded(first.iter().chain(&later)), &expected);
        }
    }
}
