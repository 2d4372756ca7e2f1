//! Which texts may name a group or a device. Handles have their own, narrower grammar in [`super::rows::Handle`].
//!
//! A name is shown on terminals and in lists next to other names: it needs something to see, and nothing that breaks a
//! line, turns the direction of what follows, or looks like an id.

use crate::limits::{DEVICE_NAME_BYTES_MAX, GROUP_NAME_BYTES_MAX};

/// A group's name, without the blanks around it; none where the text is none.
#[must_use]
pub fn group_name(text: &str) -> Option<&str> {
    name(text, GROUP_NAME_BYTES_MAX, 'g')
}

/// A device's name, without the blanks around it; none where the text is none.
#[must_use]
pub fn device_name(text: &str) -> Option<&str> {
    name(text, DEVICE_NAME_BYTES_MAX, 'd')
}

fn name(text: &str, bytes_max: usize, id_prefix: char) -> Option<&str> {
    let name = text.trim();
    let fits = name.len() <= bytes_max;
    let plain = !name.chars().any(|letter| letter.is_control() || breaks_layout(letter));
    let visible = name.chars().any(|letter| !letter.is_whitespace() && !is_blank(letter));
    (fits && plain && visible && !looks_like_id(name, id_prefix)).then_some(name)
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
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_blanks_around_them() {
        assert_eq!(group_name("  team \n"), Some("team"));
        assert_eq!(device_name("Anna's laptop"), Some("Anna's laptop"));
    }

    /// Scenario 36: zero-width, bidirectional overrides, only blanks, control characters.
    #[test]
    fn names_that_show_nothing_or_steer_what_shows_them_are_refused() {
        let nothing =
            ["", " ", "\u{3000}", "\u{200b}\u{200d}", "\u{feff}", "\u{3164}", "\u{2800}", "\u{fe0f}", "\u{ad}"];
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
            assert_eq!(group_name(name), Some(name), "{name:?}");
        }
    }

    #[test]
    fn names_that_look_like_ids_are_refused_where_they_would_be_taken_for_one() {
        for name in ["g7", "G7", "g007", " g7 ", "g99999999999999999999"] {
            assert_eq!(group_name(name), None, "{name:?}");
        }
        assert_eq!(device_name("d9"), None);
        assert_eq!(device_name("g7"), Some("g7"));
    }

    /// Scenario 35, for names: the limit is in bytes.
    #[test]
    fn names_are_limited_in_bytes() {
        let four = "😀";
        let fits = four.repeat(GROUP_NAME_BYTES_MAX / 4);
        assert_eq!(group_name(&fits), Some(fits.as_str()));
        assert_eq!(group_name(&format!("{fits}x")), None);
        assert_eq!(device_name(&four.repeat(DEVICE_NAME_BYTES_MAX / 4 + 1)), None);
    }
}
