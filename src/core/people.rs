//! Users: what they are called, whether they may come in, and what they have switched.

use std::fmt;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    /// The handle; of a deleted user the one they had.
    pub handle: Handle,
    /// Whether its rights equal those of the operator key.
    pub operator: bool,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// What its user has switched.
    pub switches: Switches,
    /// Whether they may come in.
    pub state: UserState,
    /// What they want to be called, see [`crate::core::names::display_name`].
    pub name: Option<String>,
}

/// Whether a user may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserState {
    /// They may.
    Active,
    /// Shut out until an operator lets them in again; everything of theirs stays.
    Deactivated {
        /// Since when, ms since 1970.
        since_ms: u64,
    },
    /// Gone for ever: in no group, with no device. Their id is not given again.
    Deleted {
        /// Since when, ms since 1970.
        since_ms: u64,
        /// Whether somebody new may have the handle, or does.
        is_handle_free: bool,
    },
}

impl UserRow {
    /// A new user.
    #[must_use]
    pub const fn new(handle: Handle, operator: bool, created_ms: u64) -> UserRow {
        UserRow { handle, operator, created_ms, switches: Switches(0), state: UserState::Active, name: None }
    }

    /// Whether they let others know what they have received and read.
    #[must_use]
    pub const fn tells_receipts(&self) -> bool {
        !self.switches.is_on(Switches::RECEIPTS_OFF)
    }

    /// Whether they may come in.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        matches!(self.state, UserState::Active)
    }

    /// Whether they are gone for ever.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        matches!(self.state, UserState::Deleted { .. })
    }

    /// Whether the handle is theirs, or reserved because it was.
    #[must_use]
    pub const fn holds_handle(&self) -> bool {
        !matches!(self.state, UserState::Deleted { is_handle_free: true, .. })
    }
}

/// What a user has switched, one bit each; a bit that this version does not know is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches(pub u8);

impl Switches {
    /// Nobody adds this user to a group.
    pub const NOT_ADDED: u8 = 1;
    /// Nobody is told that this user is there or types.
    pub const PRESENCE_OFF: u8 = 2;
    /// Nobody is told what this user has received and read.
    pub const RECEIPTS_OFF: u8 = 4;
    /// Every switch that a user may set.
    pub const KNOWN: u8 = Switches::NOT_ADDED | Switches::PRESENCE_OFF | Switches::RECEIPTS_OFF;

    /// Whether a switch is on.
    #[must_use]
    pub const fn is_on(self, switch: u8) -> bool {
        self.0 & switch != 0
    }

    /// The same with a switch turned on.
    #[must_use]
    pub const fn with(self, switch: u8) -> Switches {
        Switches(self.0 | switch)
    }

    /// The same with a switch turned off.
    #[must_use]
    pub const fn without(self, switch: u8) -> Switches {
        Switches(self.0 & !switch)
    }
}

/// A user's name on this server: `[a-z0-9][a-z0-9._-]{0,31}`, upper case folded on input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(String);

/// Why a text is not a handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a handle is 1 to 32 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit")]
pub struct HandleError;

impl Handle {
    /// Reads a handle, folding ASCII upper case.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn parse(text: &str) -> Result<Handle, HandleError> {
        let folded = text.to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts = folded.bytes().next().is_some_and(plain);
        let fits = folded.len() <= crate::limits::HANDLE_BYTES_MAX;
        let rest = folded.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
        if starts && fits && rest { Ok(Handle(folded)) } else { Err(HandleError) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario 36: names that could be taken for one another are one handle, or none.
    #[test]
    fn a_handle_is_plain_ascii_in_lower_case_of_32_bytes_at_the_most() {
        let longest = "x".repeat(32);
        for (text, read) in [("bob", "bob"), ("BOB", "bob"), ("bOb", "bob"), ("0.B_-", "0.b_-"), (&longest, &longest)] {
            assert_eq!(Handle::parse(text).as_ref().map(Handle::as_str), Ok(read));
        }
        let too_long = "x".repeat(33);
        let punctuated = ["", ".bob", "_bob", "-bob", "bo b", "b@b", "b/b", &too_long];
        let unseen = ["bob\n", "\0bob", "bo\u{1b}b", "bo\u{7f}b", "bo\u{200b}b", "bo\u{202e}b", "bob\u{ad}"];
        // Cyrillic, the sign of Kelvin, whose lower case is a plain k, full width, and accents both ways.
        let alike = ["b\u{43e}b", "\u{212a}im", "\u{ff42}ob", "b\u{f3}b", "bo\u{301}b"];
        for text in punctuated.iter().chain(&unseen).chain(&alike) {
            assert_eq!(Handle::parse(text), Err(HandleError), "{text:?}");
        }
    }
}
