//! Makes foreign text safe to show: what would steer a terminal or reorder a line is written out instead of obeyed.
//!
//! Names and bodies come from other people. Control characters, escape sequences, invisible and direction-changing
//! characters and bytes that are no UTF-8 appear as `\t`, `\x1b`, `\u{202e}`, `\xff`. It is for people's eyes and loses
//! which backslashes were in the text; `--json` is exact. Everything else, emoji and any script, passes as it is.
//!
//! Invariant: what comes out has no control character but the line breaks that this file itself writes.

/// What begins every line of a body after its first, so that no body can look like an item of its own.
const CONTINUATION: &str = "    | ";

/// What we write between an author and what they said.
const MARKS: [&str; 4] = ["(edited", "(recalled", "(again", "(to "];

/// A name or any other text on one line; joiners and the empty Braille cell are written out too, since two names must not
/// look the same.
#[must_use]
pub fn name(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let hides = matches!(character, '\u{200c}' | '\u{200d}' | '\u{2800}');
        if hides { escape(character, &mut shown) } else { push(character, &mut shown) }
    }
    shown
}

/// As [`name()`], between brackets of ours: its own are written out.
#[must_use]
pub fn bracketed(text: &str) -> String {
    name(text).replace('[', "\\x5b").replace(']', "\\x5d")
}

/// A person on one line: the handle, which is theirs alone, and in quotes what they want to be called.
#[must_use]
pub fn person(handle: &str, display_name: Option<&str>) -> String {
    match display_name {
        Some(display_name) => format!("{}  \"{}\"", name(handle), name(display_name)),
        None => name(handle),
    }
}

/// A body on one line, at most so many characters of it, for lists.
#[must_use]
pub fn excerpt(body: &[u8], characters_max: usize) -> String {
    let shown = line(body);
    if shown.chars().count() <= characters_max {
        return shown;
    }
    let mut cut: String = shown.chars().take(characters_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A body on one line: line breaks are written out.
#[must_use]
pub fn line(body: &[u8]) -> String {
    let mut shown = String::with_capacity(body.len());
    each(body, push, &mut shown);
    shown
}

/// A body over as many lines as it has: each after the first begins with an indented bar.
#[must_use]
pub fn lines(body: &[u8]) -> String {
    let mut shown = String::with_capacity(body.len());
    let break_line = |character, out: &mut String| match character {
        '\n' => {
            out.push('\n');
            out.push_str(CONTINUATION);
        }
        other => push(other, out),
    };
    each(body, break_line, &mut shown);
    shown
}

/// A body behind its author, as [`lines()`]: one that begins like a mark of ours, which stand there, is shown not to be one.
#[must_use]
pub fn said(body: &str) -> String {
    let begins =
        body.trim_start_matches(|letter: char| letter.is_whitespace() || matches!(letter, '\u{200c}' | '\u{200d}'));
    let shown = lines(body.as_bytes());
    if MARKS.iter().any(|mark| begins.starts_with(mark)) { shown.replacen('(', "\\x28", 1) } else { shown }
}

/// Words of our own that may hold foreign text: as [`line()`], with the line breaks kept.
#[must_use]
pub fn words(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' { shown.push('\n') } else { push(character, &mut shown) }
    }
    shown
}

fn each(body: &[u8], mut put: impl FnMut(char, &mut String), shown: &mut String) {
    for chunk in body.utf8_chunks() {
        chunk.valid().chars().for_each(|character| put(character, shown));
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
}

fn push(character: char, shown: &mut String) {
    if steers(character) { escape(character, shown) } else { shown.push(character) }
}

fn escape(character: char, shown: &mut String) {
    match character {
        '\t' => shown.push_str("\\t"),
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\0'..='\x7f' => shown.push_str(&format!("\\x{:02x}", u32::from(character))),
        _ => shown.push_str(&format!("\\u{{{:x}}}", u32::from(character))),
    }
}

/// Whether a terminal would do something else with it than show it, or show nothing at all. Joiners are not among them:
/// scripts and emoji need them, and they move nothing.
const fn steers(character: char) -> bool {
    matches!(character,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_shown_and_not_obeyed() {
        assert_eq!(line(b"\x1b[31mred\x1b[0m \x07"), "\\x1b[31mred\\x1b[0m \\x07");
        assert_eq!(line("\u{9b}31m".as_bytes()), "\\u{9b}31m");
        assert_eq!(line(b"a\rb\tc\x7f"), "a\\rb\\tc\\x7f");
    }

    #[test]
    fn direction_changes_and_invisible_characters_are_shown() {
        assert_eq!(line("abc\u{202e}fed".as_bytes()), "abc\\u{202e}fed");
        assert_eq!(line("\u{2066}x\u{2069}\u{200b}\u{feff}".as_bytes()), "\\u{2066}x\\u{2069}\\u{200b}\\u{feff}");
        assert_eq!(line("a\u{2028}b".as_bytes()), "a\\u{2028}b");
        assert_eq!(line("\u{3164}\u{115f}x\u{34f}".as_bytes()), "\\u{3164}\\u{115f}x\\u{34f}");
    }

    #[test]
    fn scripts_and_emoji_pass_as_they_are() {
        for text in ["שלום", "नमस्ते", "👩‍👩‍👧‍👦", "می‌خواهم", "é", "田中さん", "backslash \\ and 'quotes'"]
        {
            assert_eq!(line(text.as_bytes()), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        assert_eq!(line(b"a\xff\xc3(\xe2\x82"), "a\\xff\\xc3(\\xe2\\x82");
    }

    #[test]
    fn no_body_can_look_like_an_item_of_its_own() {
        assert_eq!(lines(b"hi\n7 12:04 bob: I never said that"), "hi\n    | 7 12:04 bob: I never said that");
        assert_eq!(lines(b"hi\r\n\x1b[A"), "hi\\r\n    | \\x1b[A");
    }

    #[test]
    fn two_names_never_look_the_same_by_joiners() {
        assert_eq!(name("te\u{200d}am\n"), "te\\u{200d}am\\n");
    }

    #[test]
    fn what_stands_between_brackets_does_not_end_them() {
        assert_eq!(bracketed("👍 9: alice] [y"), "👍 9: alice\\x5d \\x5by");
    }

    #[test]
    fn a_person_is_their_handle_and_then_what_they_want_to_be_called() {
        assert_eq!(person("bob", None), "bob");
        assert_eq!(person("bob", Some("Bo\u{202e}b")), "bob  \"Bo\\u{202e}b\"");
    }

    #[test]
    fn an_excerpt_says_that_it_is_one() {
        assert_eq!(excerpt("abcdef".as_bytes(), 6), "abcdef");
        assert_eq!(excerpt("abcdefg".as_bytes(), 6), "abcde…");
    }

    /// Scenario 36: the terminal is never controlled by a name or a body.
    #[test]
    fn nothing_that_steers_comes_out_of_any_character() {
        for character in '\0'..=char::MAX {
            let text = String::from(character);
            for shown in [name(&text), line(text.as_bytes())] {
                assert!(!shown.chars().any(|out| out.is_control() || steers(out)), "{character:?}");
            }
            let shown = lines(text.as_bytes());
            assert!(!shown.chars().any(|out| out != '\n' && (out.is_control() || steers(out))), "{character:?}");
        }
    }
}
