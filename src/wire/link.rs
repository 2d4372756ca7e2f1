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
