//! Proofs and hashes at the server's door: whether a signature fits a key, what is kept of a code, what names a send.
//!
//! What is signed is the business of [`crate::wire::proof`]; who may do what is decided in `core`. A code or a payload
//! goes in here and only its hash comes out. Signatures and hashes are compared by ring or looked up by their hash, so
//! that the time taken tells nothing about a secret.

use ring::digest::{Context, SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::chance;
use crate::core::rows::{CodeHash, DeviceKey, SendHash};
use crate::ids::GroupId;
use crate::limits::KEY_BYTES;
use crate::wire::proof::{EXPORTER_BYTES, EXPORTER_LABEL};

/// The proof does not fit the key: another key signed, or something else was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not fit the key")]
pub struct BadProof;

/// The TLS layer gave no exporter, thus nothing can be proved on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection has no keying material to prove anything by")]
pub struct NoExporter;

/// The system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random bytes")]
pub struct NoRandomness;

/// Bytes that nobody can guess: for codes, epochs and whatever else opens or names something.
///
/// # Errors
/// Where the system has none.
pub fn random<const BYTES: usize>() -> Result<[u8; BYTES], NoRandomness> {
    chance::bytes().ok_or(NoRandomness)
}

/// Whether `signature` is that of `key` over `message`.
///
/// # Errors
/// Where it is not, whatever its length.
pub fn verify(key: &DeviceKey, message: &[u8], signature: &[u8]) -> Result<(), BadProof> {
    UnparsedPublicKey::new(&ED25519, key.0).verify(message, signature).map_err(|_| BadProof)
}

/// What is kept of an invite's code. A code is 128 random bits, so that nothing slower than a plain hash is needed.
#[must_use]
pub fn code_hash(code: &[u8]) -> CodeHash {
    CodeHash(array(digest(&SHA256, code).as_ref()))
}

/// What a send is compared by when its number comes again: group and payload, exactly as they travelled.
#[must_use]
pub fn send_hash(group: GroupId, payload: &[u8]) -> SendHash {
    let mut context = Context::new(&SHA256);
    context.update(&group.to_key());
    context.update(payload);
    SendHash(array(context.finish().as_ref()))
}

/// Bytes that only the two ends of this TLS connection know: what proofs are bound to, so that none can be replayed on
/// another connection.
///
/// # Errors
/// Where the handshake is not complete.
pub fn exporter(connection: &quinn::Connection) -> Result<[u8; EXPORTER_BYTES], NoExporter> {
    let mut bytes = [0; EXPORTER_BYTES];
    connection.export_keying_material(&mut bytes, EXPORTER_LABEL, b"").map_err(|_| NoExporter)?;
    Ok(bytes)
}

fn array(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let mut array = [0; KEY_BYTES];
    for (to, from) in array.iter_mut().zip(bytes) {
        *to = *from;
    }
    array
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn key_pair(seed: u8) -> (Ed25519KeyPair, DeviceKey) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let public = DeviceKey(pair.public_key().as_ref().try_into().unwrap());
        (pair, public)
    }

    #[test]
    fn a_proof_fits_its_own_key_and_message_only() {
        let (pair, public) = key_pair(1);
        let (_, other) = key_pair(2);
        let signature = pair.sign(b"message");
        assert_eq!(verify(&public, b"message", signature.as_ref()), Ok(()));
        assert_eq!(verify(&other, b"message", signature.as_ref()), Err(BadProof));
        assert_eq!(verify(&public, b"messagf", signature.as_ref()), Err(BadProof));
        let mut bent = signature.as_ref().to_vec();
        bent[0] ^= 1;
        assert_eq!(verify(&public, b"message", &bent), Err(BadProof));
    }

    #[test]
    fn signatures_of_any_length_are_refused_without_a_panic() {
        let (pair, public) = key_pair(1);
        let signature = pair.sign(b"message");
        for length in (0..200).filter(|length| *length != 64) {
            let bytes: Vec<u8> = signature.as_ref().iter().copied().cycle().take(length).collect();
            assert_eq!(verify(&public, b"message", &bytes), Err(BadProof));
        }
    }

    #[test]
    fn random_bytes_differ_each_time() {
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
    }

    #[test]
    fn a_send_is_named_by_its_group_too() {
        let hash = send_hash(GroupId::new(1), b"payload");
        assert_eq!(hash, send_hash(GroupId::new(1), b"payload"));
        assert_ne!(hash, send_hash(GroupId::new(2), b"payload"));
        assert_ne!(hash, send_hash(GroupId::new(1), b"payloae"));
    }

    #[test]
    fn hashes_are_the_ones_stored_by_earlier_versions() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(code_hash(&[0; 16]).0), "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb",);
        assert_eq!(
            hex(send_hash(GroupId::new(7), b"gaggle").0),
            "5ddc375bb14cd2cfc638fec486d6b460908bd29edf13fc645a08c2a196a63c0a",
        );
    }
}
