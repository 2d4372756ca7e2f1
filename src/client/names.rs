//! Names in what is asked, looked at before it is asked: one that no frame holds would end the connection and not the
//! request.
//!
//! Only lengths are judged here, by the bounds of the server; whether a name is one is for the server to say.

use unicode_normalization::UnicodeNormalization as _;

use crate::client::error::TooLong;
use crate::limits::{
    DEVICE_NAME_BYTES_MAX, DISPLAY_NAME_BYTES_MAX, GROUP_NAME_BYTES_MAX, GROUP_TOPIC_BYTES_MAX, HANDLE_BYTES_MAX,
    TEXT_BYTES_MAX,
};

/// A group's name, without the blanks around it.
pub(super) fn group_name(text: &str) -> Result<String, TooLong> {
    fits("the group's name", text.trim(), GROUP_NAME_BYTES_MAX)
}

/// A group's topic, without the blanks around it.
pub(super) fn group_topic(text: &str) -> Result<String, TooLong> {
    fits("the topic", text.trim(), GROUP_TOPIC_BYTES_MAX)
}

/// A device's name, without the blanks around it.
pub(super) fn device_name(text: &str) -> Result<String, TooLong> {
    fits("the device's name", text.trim(), DEVICE_NAME_BYTES_MAX)
}

/// A display name. It counts as it is kept, normalised and without the blanks around it, which may be shorter; it is asked
/// for as it is, since blanks alone are no name, and nothing at all takes the name away.
pub(super) fn display_name(text: &str) -> Result<String, TooLong> {
    let fits_a_frame = text.len() <= TEXT_BYTES_MAX;
    let bytes = if fits_a_frame { text.trim().nfc().map(char::len_utf8).sum() } else { text.len() };
    let max = DISPLAY_NAME_BYTES_MAX;
    if bytes > max { Err(TooLong { what: "the name", bytes, max }) } else { Ok(text.to_owned()) }
}

/// A handle. Of one that is too long, but fits into a frame, the server says more: nobody has it, or it is none.
pub(super) fn handle(text: &str) -> Result<String, TooLong> {
    if text.len() > TEXT_BYTES_MAX { fits("the handle", text, HANDLE_BYTES_MAX) } else { Ok(text.to_owned()) }
}

fn fits(what: &'static str, text: &str, max: usize) -> Result<String, TooLong> {
    if text.len() > max { Err(TooLong { what, bytes: text.len(), max }) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_the_server_keeps_them() {
        assert_eq!(group_name(&format!(" {} ", "x".repeat(128))), Ok("x".repeat(128)));
        assert_eq!(group_name(&"x".repeat(129)), Err(TooLong { what: "the group's name", bytes: 129, max: 128 }));
        assert_eq!(group_topic(&"x".repeat(513)), Err(TooLong { what: "the topic", bytes: 513, max: 512 }));
        assert_eq!(device_name(&"x".repeat(65)), Err(TooLong { what: "the device's name", bytes: 65, max: 64 }));
        // Sixty-four letters with two dots each are 128 bytes once they are one.
        let composed = "o\u{308}".repeat(64);
        assert_eq!(display_name(&composed), Ok(composed.clone()));
        assert!(display_name(&format!("{composed}o")).is_err());
        assert!(display_name(&"x".repeat(2_000)).is_err());
        assert_eq!(display_name("   "), Ok("   ".to_owned()));
        assert_eq!(handle(&"x".repeat(33)), Ok("x".repeat(33)));
        assert_eq!(handle(&"x".repeat(1_025)), Err(TooLong { what: "the handle", bytes: 1_025, max: 32 }));
    }
}
