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
