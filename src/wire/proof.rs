//! What a device signs to prove that it holds its key on this very connection.
//!
//! The signed message is `label | 0 | 32 bytes of TLS exporter | body of the frame that is proved`. The exporter makes it
//! worthless on any other connection, the label for any other purpose, the body with any other claim. Pure: signing,
//! verifying and the exporter itself are the business of whoever has a connection.

use bytes::Bytes;

use crate::limits::FRAME_BYTES_MAX;
use crate::wire::frame::{Enrol, Frame, Hello, OperatorHello};
use crate::wire::{WireError, codec};

/// The label under which keying material is exported from TLS (RFC 8446, 7.5); the context is empty.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-gaggle-1";
/// Bytes that are exported.
pub const EXPORTER_BYTES: usize = 32;

/// Before what proves a Hello.
pub const LABEL_HELLO: &[u8] = b"gaggle/1 hello";
/// Before what proves an Enrol.
pub const LABEL_ENROL: &[u8] = b"gaggle/1 enrol";
/// Before what proves an OperatorHello.
pub const LABEL_OPERATOR: &[u8] = b"gaggle/1 operator";

/// The bytes to sign.
#[must_use]
pub fn message(label: &[u8], exporter: &[u8; EXPORTER_BYTES], body: &[u8]) -> Vec<u8> {
    [label, &[0], exporter, body].concat()
}

/// The bytes that the device's key signs after a Hello.
///
/// # Errors
/// Where the frame is too large to be sent.
pub fn hello(exporter: &[u8; EXPORTER_BYTES], hello: &Hello) -> Result<Vec<u8>, WireError> {
    Ok(message(LABEL_HELLO, exporter, &body(hello)?))
}

/// The bytes that the new device's key signs for an Enrol: its signature counts as empty here.
///
/// # Errors
/// Where the frame is too large to be sent.
pub fn enrol(exporter: &[u8; EXPORTER_BYTES], enrol: &Enrol) -> Result<Vec<u8>, WireError> {
    let unsigned = Enrol { signature: Bytes::new(), ..enrol.clone() };
    Ok(message(LABEL_ENROL, exporter, &body(&unsigned)?))
}

/// The bytes that the operator key signs after an OperatorHello.
///
/// # Errors
/// Where the frame is too large to be sent.
pub fn operator(exporter: &[u8; EXPORTER_BYTES], hello: &OperatorHello) -> Result<Vec<u8>, WireError> {
    Ok(message(LABEL_OPERATOR, exporter, &body(hello)?))
}

fn body<F: Frame>(frame: &F) -> Result<Bytes, WireError> {
    codec::encode_value(F::NAME, frame, FRAME_BYTES_MAX)
}
