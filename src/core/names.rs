//! Which texts may name a group, a device or a person, or say what a group is about. Handles have their own, narrower
//! grammar in [`super::rows::Handle`].
//!
//! A name is shown on terminals and in lists next to other names: it needs something to see, and nothing that breaks a
//! line, turns the direction of what follows, or looks like an id.

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use crate::limits::{DEVICE_NAME_BYTES_MAX, DISPLAY_NAME_BYTES_MAX, GROUP_NAME_BYTES_MAX, GROUP_TOPIC_BYTES_MAX};

/// A group's name, normalised (NFC) and without the blanks around it; none where the text is none.
#[must_use]
pub fn group_name(text: &str) -> Option<String> {
    name(text, GROUP_NAME_BYTES_MAX, 'g')
}

/// What a group is about, without the blanks around it: nothing at all, or something to see; none where the text is
/// neither.
#[must_use]
pub fn group_topic(text: &str) -> Option<&str> {
    let topic = text.trim();
    let fits = topic.len() <= GROUP_TOPIC_BYTES_MAX;
    (fits && is_plain(topic) && (topic.is_empty() || is_visible(topic))).then_some(topic)
}

/// A device's name, normalised (NFC) and without the blanks around it; none where the text is none.
#[must_use]
pub fn device_name(text: &str) -> Option<String> {
    name(text, DEVICE_NAME_BYTES_MAX, 'd')
}

/// What a person wants to be called, normalised (NFC) and without the blanks around it; none where the text is none.
///
/// It is stricter than the others, as it stands for a person beside those of other people: nothing that shows nothing by
/// itself is in it but blanks between its words, joiners included, and nothing that Unicode has not assigned yet.
#[must_use]
pub fn display_name(text: &str) -> Option<String> {
    let name = normalised(text, DISPLAY_NAME_BYTES_MAX)?;
    (name.chars().all(may_stand_in_a_display_name) && is_visible(&name)).then_some(name)
}

/// What is seen of a name: where it is the same of two, they look the same.
#[must_use]
pub fn seen(name: &str) -> String {
    name.nfc().filter(|letter| !is_blank(*letter)).collect()
}

/// A text in its normal form, without the blanks around it, where it fits.
fn normalised(text: &str, bytes_max: usize) -> Option<String> {
    // What is longer than any name can only come from a peer, and is not looked at.
    if text.len() > 3 * bytes_max {
        return None;
    }
    let text: String = text.trim().nfc().collect();
    (text.len() <= bytes_max).then_some(text)
}

/// Neither controls, formats (all that turn a direction, join or hide are among them) nor what has no meaning to all.
fn may_stand_in_a_display_name(letter: char) -> bool {
    let category = letter.general_category();
    let is_none = matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    !is_none && (category == GeneralCategory::NonspacingMark || !is_blank(letter))
}

/// Marks change what stands before them, separators keep apart, and formats steer.
fn shows_by_itself(letter: char) -> bool {
    !matches!(
        letter.general_category(),
        GeneralCategory::NonspacingMark
            | GeneralCategory::EnclosingMark
            | GeneralCategory::SpacingMark
            | GeneralCategory::SpaceSeparator
            | GeneralCategory::Format
    )
}

fn name(text: &str, bytes_max: usize, id_prefix: char) -> Option<String> {
    let name = normalised(text, bytes_max)?;
    (is_plain(&name) && is_visible(&name) && !looks_like_id(&seen(&name), id_prefix)).then_some(name)
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(|letter| letter.is_control() || breaks_layout(letter))
}

fn is_visible(text: &str) -> bool {
    text.chars().any(|letter| shows_by_itself(letter) && !is_blank(letter))
}

/// `g7`, `G7`, `g007`: on a command line they would be taken for an id, or be mistaken for one.
fn looks_like_id(name: &str, prefix: char) -> bool {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|letter| letter.eq_ignore_ascii_case(&prefix));
    let digits = letters.as_str();
    begins && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Line and paragraph separators, embeddings, overrides and isolates of direction.
fn breaks_layout(letter: char) -> bool {
    matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Letters that show nothing by themselves; joiners and selectors are fine inside a name that has something to see.
fn is_blank(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_lose_the_blanks_around_them() {
        assert_eq!(group_name("  team \n").as_deref(), Some("team"));
        assert_eq!(device_name("Anna's laptop").as_deref(), Some("Anna's laptop"));
    }

    /// Scenario 36: zero-width, bidirectional overrides, only blanks, control characters.
    #[test]
    fn names_that_show_nothing_or_steer_what_shows_them_are_refused() {
        let nothing = [
            "",
            " ",
            "\u{3000}",
            "\u{200b}\u{200d}",
            "\u{feff}",
            "\u{3164}",
            "\u{2800}",
            "\u{fe0f}",
            "\u{ad}",
            "\u{301}",
            "\u{1bca0}",
        ];
        let steering = ["a\u{202e}b", "a\u{2066}b", "a\u{1b}[2J", "a\nb", "a\0", "a\u{7f}", "a\u{9b}b", "a\u{2028}b"];
        for name in nothing.into_iter().chain(steering) {
            assert_eq!(group_name(name), None, "{name:?}");
            assert_eq!(device_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn names_of_every_language_pass() {
        for name in ["команда", "群组", "فريق", "टीम", "café", "👩\u{200d}👩\u{200d}👧", "a b", "g", "g7x", "7"]
        {
            assert_eq!(group_name(name).as_deref(), Some(name), "{name:?}");
        }
    }

    #[test]
    fn names_that_look_like_ids_are_refused_where_they_would_be_taken_for_one() {
        for name in ["g7", "G7", "g007", " g7 ", "g99999999999999999999", "g7\u{fe0f}", "\u{200d}g\u{2060}7"] {
            assert_eq!(group_name(name), None, "{name:?}");
        }
        assert_eq!(device_name("d9"), None);
        assert_eq!(device_name("g7").as_deref(), Some("g7"));
    }

    /// Scenario 36, for groups and devices: NFC and NFD are one name.
    #[test]
    fn names_of_groups_and_devices_are_normalised() {
        assert_eq!(group_name("cafe\u{301}").as_deref(), Some("caf\u{e9}"));
        assert_eq!(device_name("cafe\u{301}"), device_name("caf\u{e9}"));
        let fits = "e\u{301}".repeat(GROUP_NAME_BYTES_MAX / 2);
        assert_eq!(group_name(&fits).map(|name| name.len()), Some(GROUP_NAME_BYTES_MAX), "once it is normalised");
        assert_eq!(group_name(&format!("{fits}x")), None);
    }

    #[test]
    fn names_that_differ_in_what_is_not_seen_are_seen_to_be_the_same() {
        for name in ["team\u{fe0f}", "te\u{200d}am", "t\u{34f}eam", "team\u{1160}"] {
            assert_eq!(seen(name), "team", "{name:?}");
        }
        assert_eq!(seen("cafe\u{301}"), seen("caf\u{e9}"));
        assert_ne!(seen("team"), seen("teem"));
    }

    #[test]
    fn a_topic_is_nothing_or_something_to_see() {
        assert_eq!(group_topic("  what we eat "), Some("what we eat"));
        assert_eq!(group_topic(" \t "), Some(""));
        assert_eq!(group_topic("g7"), Some("g7"), "nobody looks a group up by its topic");
        for topic in ["\u{200b}", "a\u{202e}b", "a\nb", "a\u{1b}[2J"] {
            assert_eq!(group_topic(topic), None, "{topic:?}");
        }
        let fits = "é".repeat(GROUP_TOPIC_BYTES_MAX / 2);
        assert_eq!(group_topic(&fits), Some(fits.as_str()));
        assert_eq!(group_topic(&format!("{fits}x")), None);
    }

    /// Scenario 36: NFC and NFD are one name, and what comes out is never changed again.
    #[test]
    fn display_names_are_normalised() {
        assert_eq!(display_name("  Zoe\u{308} \n").as_deref(), Some("Zo\u{eb}"));
        assert_eq!(display_name("Zo\u{eb}"), display_name("Zoe\u{308}"));
        assert_eq!(display_name("\u{1112}\u{1161}\u{11ab}").as_deref(), Some("\u{d55c}"));
        // The sign of the unit ångström is the letter.
        assert_eq!(display_name("\u{212b}sa").as_deref(), Some("\u{c5}sa"));
    }

    #[test]
    fn display_names_of_every_language_pass() {
        let names = [
            "Анна Каренина",
            "田中 太郎",
            "عبد الله",
            "प्रिया",
            "Đặng Thị Hà",
            "O’Brien",
            "陳大文 (Tai)",
            "g7",
            "❤\u{fe0f} Bo",
            "J. R. \"Bob\" Dobbs",
            "שרה",
        ];
        for name in names {
            assert_eq!(display_name(name).as_deref(), Some(name), "{name:?}");
        }
    }

    /// Scenario 36: zero-width, bidirectional overrides, only blanks, control and format characters, in display names.
    #[test]
    fn display_names_that_show_nothing_or_steer_what_shows_them_are_refused() {
        let nothing = ["", "  ", "\u{3000}", "\u{301}", "\u{3164}", "\u{2800}", "\u{fe0f}", "\u{34f}", "\u{a0}"];
        let hiding = [
            "a\u{200b}b",
            "a\u{200d}b",
            "a\u{200c}b",
            "a\u{ad}b",
            "a\u{feff}",
            "a\u{61c}",
            "a\u{180e}b",
            "a\u{e0041}",
            "a\u{3164}b",
            "a\u{ffa0}",
            "a\u{2060}b",
            "a\u{2800}b",
        ];
        let steering = [
            "a\u{202e}b",
            "a\u{202a}b",
            "a\u{2066}b",
            "a\u{200f}b",
            "a\u{1b}[2J",
            "a\nb",
            "a\tb",
            "a\0",
            "a\u{7f}",
            "a\u{9b}b",
            "a\u{2028}b",
            "a\u{e000}",
            "a\u{378}",
            "a\u{fffff}",
        ];
        for name in nothing.into_iter().chain(hiding).chain(steering) {
            assert_eq!(display_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn display_names_are_limited_in_bytes_as_they_are_kept() {
        let most = "é".repeat(DISPLAY_NAME_BYTES_MAX / 2);
        assert_eq!(display_name(&most).as_deref(), Some(most.as_str()));
        assert_eq!(display_name(&"e\u{301}".repeat(DISPLAY_NAME_BYTES_MAX / 2)), Some(most.clone()));
        assert_eq!(display_name(&format!("{most}x")), None);
        // A letter that comes out as three.
        assert_eq!(display_name(&"\u{fb2c}".repeat(DISPLAY_NAME_BYTES_MAX / 4)), None);
    }

    proptest! {
        #[test]
        fn a_display_name_is_its_own_display_name_and_steers_nothing(text in any::<String>()) {
            if let Some(name) = display_name(&text) {
                prop_assert_eq!(display_name(&name), Some(name.clone()));
                prop_assert!(name.len() <= DISPLAY_NAME_BYTES_MAX && !name.chars().any(char::is_control));
                let handed_on: String = name.nfc().collect();
                prop_assert_eq!(handed_on, name);
            }
        }
    }

    /// Scenario 35, for names: the limit is in bytes.
    #[test]
    fn names_are_limited_in_bytes() {
        let four = "😀";
        let fits = four.repeat(GROUP_NAME_BYTES_MAX / 4);
        assert_eq!(group_name(&fits).as_deref(), Some(fits.as_str()));
        assert_eq!(group_name(&format!("{fits}x")), None);
        assert_eq!(device_name(&four.repeat(DEVICE_NAME_BYTES_MAX / 4 + 1)), None);
    }
}
