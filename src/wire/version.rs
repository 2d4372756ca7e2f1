//! Versions of the protocol: the major one is the ALPN, the minor one is stated in Hello and Welcome.
//!
//! A minor version adds frames, item kinds, codes and extensions; it changes nothing that was there.

/// The TLS application protocol. Another major version is another name.
pub const ALPN: &[u8] = b"gaggle/1";
/// The minor version of this program.
pub const MINOR: u16 = 0;
/// The lowest minor version of a client that the server still speaks.
pub const MINOR_MIN: u16 = 0;
