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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DeviceId;
    use crate::wire::frame::Extensions;

    const EXPORTER: [u8; EXPORTER_BYTES] = [0xee; EXPORTER_BYTES];

    fn an_enrol(signature: &'static [u8]) -> Enrol {
        Enrol {
            code: Bytes::from_static(&[0xc0; 16]),
            key: Bytes::from_static(&[0x4b; 32]),
            handle: None,
            device_name: "pc".into(),
            minor: 0,
            signature: Bytes::from_static(signature),
            extensions: Extensions::default(),
        }
    }

    #[test]
    fn what_is_signed_is_label_zero_exporter_and_body() {
        let frame = Hello {
            device: DeviceId::new(9),
            listens: true,
            instance: 1,
            attempt: 2,
            minor: 0,
            epoch: None,
            extensions: Extensions::default(),
        };
        let expected = [&b"gaggle/1 hello\0"[..], &EXPORTER, &[9, 1, 1, 2, 0, 0, 0]].concat();
        assert_eq!(hello(&EXPORTER, &frame), Ok(expected));
        let frame = OperatorHello { minor: 0, extensions: Extensions::default() };
        let expected = [&b"gaggle/1 operator\0"[..], &EXPORTER, &[0, 0]].concat();
        assert_eq!(operator(&EXPORTER, &frame), Ok(expected));
    }

    #[test]
    fn an_enrol_is_signed_without_its_signature() {
        let signed = enrol(&EXPORTER, &an_enrol(&[1; 64])).unwrap();
        assert_eq!(signed, enrol(&EXPORTER, &an_enrol(&[])).unwrap());
        assert!(signed.starts_with(b"gaggle/1 enrol\0"));
        assert!(signed.ends_with(&[2, b'p', b'c', 0, 0, 0]));
    }

    #[test]
    fn another_connection_or_another_claim_is_another_message() {
        let one = enrol(&EXPORTER, &an_enrol(&[])).unwrap();
        assert_ne!(one, enrol(&[0; EXPORTER_BYTES], &an_enrol(&[])).unwrap());
        assert_ne!(one, enrol(&EXPORTER, &Enrol { minor: 1, ..an_enrol(&[]) }).unwrap());
    }
}
