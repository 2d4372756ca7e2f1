//! Invite links: `gaggle://host:port/#PIN.CODE`, PIN and CODE in base64url without padding.
//!
//! The pin says which server it is, the code opens the door. Neither is shown by `Debug` or by an error.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::limits::{INVITE_CODE_BYTES, KEY_BYTES};

const SCHEME: &str = "gaggle://";
/// A DNS name has at most 253 bytes; the rest is for brackets, colon and port.
const ADDRESS_BYTES_MAX: usize = 253 + 8;

/// SHA-256 over the DER SubjectPublicKeyInfo of a server's key: all that a client needs to know it again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin(pub [u8; KEY_BYTES]);

/// The secret of an invite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InviteCode(pub [u8; INVITE_CODE_BYTES]);

/// What an invite link says. Its `Display` is the link itself: for the person who asked for it, never for a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Link {
    /// `host:port`, an IPv6 address in brackets.
    pub address: String,
    /// By which the server is known.
    pub pin: Pin,
    /// What opens the door.
    pub code: InviteCode,
}

/// Why a text is not an invite link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It begins otherwise.
    #[error("an invite link begins with gaggle://")]
    Scheme,
    /// It has no `/#`, or nothing that could be a host and port before it.
    #[error("an invite link has host:port/ between gaggle:// and #")]
    Address,
    /// What follows the `#` is not PIN.CODE; mostly it was cut off in copying, or the shell took the `#` for a comment.
    #[error("the part of the invite link after # is incomplete: copy the whole link, and put it in quotes")]
    Secret,
}

impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Link, LinkError> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(LinkError::Scheme)?;
        let (address, secret) = match rest.split_once("/#") {
            Some((address, secret)) => (address, secret),
            None if is_address(rest.trim_end_matches('/')) => return Err(LinkError::Secret),
            None => return Err(LinkError::Address),
        };
        if !is_address(address) {
            return Err(LinkError::Address);
        }
        let (pin, code) = secret.split_once('.').ok_or(LinkError::Secret)?;
        let code = InviteCode(decode(code).ok_or(LinkError::Secret)?);
        Ok(Link { address: address.to_owned(), pin: Pin(decode(pin).ok_or(LinkError::Secret)?), code })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}/#{}.{}", self.address, self.pin, URL_SAFE_NO_PAD.encode(self.code.0))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Link(..)")
    }
}

impl FromStr for Pin {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Pin, LinkError> {
        decode(text).map(Pin).ok_or(LinkError::Secret)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Pin(..)")
    }
}

impl fmt::Debug for InviteCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("InviteCode(..)")
    }
}

/// Whether this is `host:port`: a name or an IPv4 address, or an IPv6 address in brackets, and a port that is not zero.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let port_fits = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0);
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_fits = match bracketed {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    port_fits && host_fits && text.len() <= ADDRESS_BYTES_MAX
}

fn decode<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    // Longer texts fail for want of room; shorter ones are caught by the count.
    let written = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    (written == BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        let code = InviteCode([0xfb; INVITE_CODE_BYTES]);
        Link { address: "chat.example.org:4433".into(), pin: Pin([0xff; KEY_BYTES]), code }
    }

    #[test]
    fn a_link_is_written_as_it_always_was() {
        let text = "gaggle://chat.example.org:4433/#__________________________________________8.-_v7-_v7-_v7-_v7-_v7-w";
        assert_eq!(link().to_string(), text);
        assert_eq!(text.parse(), Ok(link()));
        assert_eq!(format!("  {text}\n").parse(), Ok(link()), "what pasting adds is taken off");
    }

    #[test]
    fn a_link_that_lost_its_end_says_what_to_do() {
        let text = link().to_string();
        for cut in 0..text.len() {
            let error = text[..cut].parse::<Link>().unwrap_err();
            let expected = match cut {
                0..9 => LinkError::Scheme,
                // A port may end anywhere behind its first digit.
                9..27 => LinkError::Address,
                _ => LinkError::Secret,
            };
            let port_is_there = cut > "gaggle://chat.example.org:".len();
            assert_eq!(error, if port_is_there { LinkError::Secret } else { expected }, "{}", &text[..cut]);
        }
        assert_eq!(format!("{text}x").parse::<Link>(), Err(LinkError::Secret));
        assert_eq!(
            text.replace("8.-", "9.-").parse::<Link>(),
            Err(LinkError::Secret),
            "bits that mean nothing are set"
        );
    }

    #[test]
    fn addresses_are_host_and_port() {
        for good in ["localhost:1", "10.0.0.1:4433", "[::1]:4433", "a-b.c_d:65535"] {
            assert!(is_address(good), "{good}");
        }
        let long = format!("{}:1", "a".repeat(300));
        for bad in
            ["", ":1", "a", "a:", "a:0", "a:65536", "a:+1", "::1:4433", "[::1]", "[x]:1", "a b:1", "a/b:1", &long]
        {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn nothing_of_a_link_is_shown_by_debug() {
        let shown = format!("{:?} {:?} {:?}", link(), link().pin, link().code);
        assert_eq!(shown, "Link(..) Pin(..) InviteCode(..)");
    }
}
