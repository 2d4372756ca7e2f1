//! What the server is known by: a P-256 key in `certs/server.key`, and the pin that invite links carry.
//!
//! The certificate is made anew from the key at each start: names and dates in it are not checked by anybody, so that
//! keeping it would be a second copy of a fact. The pin is recorded in the data folder, apart from the key, so that a
//! lost or exchanged key is noticed here and not by every client. A key is made only where no pin is recorded, or where
//! another one is accepted on purpose.
//!
//! Invariants: a private key is never written in place, never readable by others, never shown by `Debug` or an error.

use std::fmt;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SignatureAlgorithm};
use ring::digest::{SHA256, digest};
use ring::hmac;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::config::OtherKey;
use crate::disk::{Disk, DiskError, whole};
use crate::limits::KEY_BYTES;
use crate::wire::link::Pin;

/// The server's key in the certs folder.
pub const KEY_FILE: &str = "server.key";
/// The key that is to follow it, where one is prepared: its pin is announced to clients beforehand.
pub const NEXT_KEY_FILE: &str = "server.next.key";
/// The record of the pin, in the data folder.
pub const PIN_FILE: &str = "server-pin";

/// A PEM file of one key is under 1 KiB; comments may stand around it.
const KEY_FILE_BYTES_MAX: usize = 16 * 1024;
const PIN_FILE_BYTES_MAX: usize = 256;
const PIN_MAGIC: &str = "gaggle-pin-1";

/// Why the server has no identity. Each says which file it is about, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A private key is open to others.
    #[error("{} can be read by others than its owner: run chmod 600 {}", path.display(), path.display())]
    NotPrivate {
        /// The key's file.
        path: PathBuf,
    },
    /// A file holds something else than a key of the right kind.
    #[error("{} does not hold {wanted}: bring it back from a backup", path.display())]
    NotAKey {
        /// The key's file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The server is known by a key that is not there.
    #[error(
        "{} is missing, and clients know this server by that key (pin {recorded}): bring it back from a backup of the \
         certs folder; if it is lost for good, start once with --new-pin and invite everybody's devices again",
        path.display()
    )]
    KeyLost {
        /// The key's file.
        path: PathBuf,
        /// The pin of the missing key.
        recorded: Pin,
    },
    /// The server is known by another key.
    #[error(
        "{} is another key (pin {found}) than the one clients know this server by (pin {recorded}): bring that one \
         back; if the new one is meant, start once with --new-pin",
        path.display()
    )]
    OtherKey {
        /// The key's file.
        path: PathBuf,
        /// The pin of the key found.
        found: Pin,
        /// The pin on record.
        recorded: Pin,
    },
    /// The record of the pin cannot be understood.
    #[error("{} is damaged: start once with --new-pin to record the pin of the key in the certs folder anew", path.display())]
    RecordDamaged {
        /// The record's file.
        path: PathBuf,
    },
    /// There is no operator key where one was asked for.
    #[error("{} is missing: --operator works on the server's own machine, and --certs names its folder", path.display())]
    NoOperatorKey {
        /// The key's file.
        path: PathBuf,
    },
    /// A key or certificate could not be made.
    #[error("failed to make a key or its certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The key, its certificate and its pin.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    pin: Pin,
    next: Option<Pin>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Identity").field("pin", &self.pin).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Identity {
    /// Loads the key from the certs folder, or makes it at a first start, and holds it against the record of the pin in
    /// `record`. Call it when the data folder is open, thus locked and understood.
    ///
    /// # Errors
    /// Where a file cannot be read or written or is not what it should be, or the key is another than the recorded one.
    pub fn load_or_create(
        disk: &dyn Disk,
        certs: &Path,
        record: &Path,
        other_key: OtherKey,
    ) -> Result<Identity, IdentityError> {
        let recorded = match recorded_pin(disk, record) {
            Err(IdentityError::RecordDamaged { .. }) if other_key == OtherKey::Accept => None,
            told => told?,
        };
        let path = certs.join(KEY_FILE);
        let pair = match (load_pair(disk, &path)?, recorded, other_key) {
            (Some(pair), _, _) => pair,
            (None, Some(recorded), OtherKey::Refuse) => return Err(IdentityError::KeyLost { path, recorded }),
            (None, _, _) => make_pair(disk, certs, &path, &PKCS_ECDSA_P256_SHA256)?,
        };
        let mut identity = Identity::of(&pair)?;
        check_recorded(disk, record, &path, identity.pin, other_key)?;
        identity.next = load_pair(disk, &certs.join(NEXT_KEY_FILE))?.map(|next| pin_of(&next));
        Ok(identity)
    }

    /// A new identity that is kept nowhere.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn generate() -> Result<Identity, IdentityError> {
        Identity::of(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
    }

    fn of(pair: &KeyPair) -> Result<Identity, IdentityError> {
        let mut params = CertificateParams::new(vec!["gaggle".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "gaggle");
        let certificate = params.self_signed(pair)?.der().clone();
        Ok(Identity { certificate, key: pair.serialize_der(), pin: pin_of(pair), next: None })
    }

    /// By what clients know this server.
    #[must_use]
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// The pins for Welcome: the current one, then the next where one is prepared.
    pub fn pins(&self) -> impl Iterator<Item = Pin> {
        std::iter::once(self.pin).chain(self.next)
    }

    /// A key for what has to be recognised by the next process too, and by nobody without the server's key.
    #[must_use]
    pub fn derived_key(&self, purpose: &[u8]) -> hmac::Key {
        let root = hmac::Key::new(hmac::HMAC_SHA256, &self.key);
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&root, purpose).as_ref())
    }

    /// The self-signed certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The key, for TLS.
    #[must_use]
    pub fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

/// The pin that the data folder remembers; none before the first start.
///
/// # Errors
/// Where the record cannot be read, or is damaged.
pub fn recorded_pin(disk: &dyn Disk, record: &Path) -> Result<Option<Pin>, IdentityError> {
    let Some(bytes) = whole::read(disk, record, PIN_FILE_BYTES_MAX)? else { return Ok(None) };
    let damaged = || IdentityError::RecordDamaged { path: record.to_owned() };
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
    let mut words = text.split_ascii_whitespace();
    let (Some(PIN_MAGIC), Some(pin), Some(sum), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(damaged());
    };
    let pin: Pin = pin.parse().map_err(|_| damaged())?;
    if record_line(pin) == text && sum.len() == 8 { Ok(Some(pin)) } else { Err(damaged()) }
}

/// Holds a pin against the record, and records it where there is none, or where another one is accepted.
///
/// # Errors
/// Where another pin is recorded and not to be replaced, or the record cannot be read or written.
pub fn check_recorded(
    disk: &dyn Disk,
    record: &Path,
    key_file: &Path,
    pin: Pin,
    other_key: OtherKey,
) -> Result<(), IdentityError> {
    match (recorded_pin(disk, record), other_key) {
        (Ok(Some(recorded)), _) if recorded == pin => Ok(()),
        (Ok(Some(recorded)), OtherKey::Refuse) => {
            Err(IdentityError::OtherKey { path: key_file.to_owned(), found: pin, recorded })
        }
        (Ok(None), _) | (Ok(Some(_)) | Err(IdentityError::RecordDamaged { .. }), OtherKey::Accept) => {
            Ok(whole::replace(disk, record, record_line(pin).as_bytes())?)
        }
        (Err(error), _) => Err(error),
    }
}

fn record_line(pin: Pin) -> String {
    format!("{PIN_MAGIC} {pin} {:08x}\n", crc32c::crc32c(&pin.0))
}

fn pin_of(pair: &KeyPair) -> Pin {
    let mut pin = [0; KEY_BYTES];
    for (to, from) in pin.iter_mut().zip(digest(&SHA256, &pair.subject_public_key_info()).as_ref()) {
        *to = *from;
    }
    Pin(pin)
}

fn load_pair(disk: &dyn Disk, path: &Path) -> Result<Option<KeyPair>, IdentityError> {
    let Some(key) = load_key(disk, path, "a P-256 key as PKCS#8 PEM (BEGIN PRIVATE KEY)")? else { return Ok(None) };
    let wanted = "a P-256 key (openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 makes one)";
    KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
        .map(Some)
        .map_err(|_| IdentityError::NotAKey { path: path.to_owned(), wanted })
}

/// The key in a PEM file that nobody else may read; none where there is no such file.
pub(super) fn load_key(
    disk: &dyn Disk,
    path: &Path,
    wanted: &'static str,
) -> Result<Option<PrivatePkcs8KeyDer<'static>>, IdentityError> {
    let Some(pem) = whole::read(disk, path, KEY_FILE_BYTES_MAX)? else { return Ok(None) };
    if !disk.is_private(path)? {
        return Err(IdentityError::NotPrivate { path: path.to_owned() });
    }
    PrivatePkcs8KeyDer::from_pem_slice(&pem)
        .map(Some)
        .map_err(|_| IdentityError::NotAKey { path: path.to_owned(), wanted })
}

/// Makes a key and keeps it in a PEM file that nobody else may read.
pub(super) fn make_pair(
    disk: &dyn Disk,
    certs: &Path,
    path: &Path,
    kind: &'static SignatureAlgorithm,
) -> Result<KeyPair, IdentityError> {
    disk.create_folder(certs)?;
    let pair = KeyPair::generate_for(kind)?;
    whole::replace(disk, path, pair.serialize_pem().as_bytes())?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::disk::real::RealDisk;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            Place { folder: tempfile::tempdir().unwrap() }
        }

        fn certs(&self) -> PathBuf {
            self.folder.path().join("certs")
        }

        fn key(&self) -> PathBuf {
            self.certs().join(KEY_FILE)
        }

        fn record(&self) -> PathBuf {
            self.folder.path().join(PIN_FILE)
        }

        fn load(&self, other_key: OtherKey) -> Result<Identity, IdentityError> {
            Identity::load_or_create(&RealDisk, &self.certs(), &self.record(), other_key)
        }
    }

    fn write_private(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn the_key_outlives_a_restart_and_so_does_the_pin() {
        let place = Place::new();
        let first = place.load(OtherKey::Refuse).unwrap();
        let again = place.load(OtherKey::Refuse).unwrap();
        assert_eq!(first.pin(), again.pin());
        assert_eq!(std::fs::metadata(place.key()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(recorded_pin(&RealDisk, &place.record()).unwrap(), Some(first.pin()));
        let left: Vec<_> = std::fs::read_dir(place.certs()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [KEY_FILE]);
    }

    #[test]
    fn the_pin_is_the_hash_of_the_key_in_the_certificate() {
        let identity = Identity::generate().unwrap();
        let certificate = identity.certificate();
        let parsed = webpki::EndEntityCert::try_from(&certificate).unwrap();
        let spki = parsed.subject_public_key_info();
        assert_eq!(identity.pin().0.as_slice(), digest(&SHA256, spki.as_ref()).as_ref());
    }

    #[test]
    fn another_key_is_refused_until_it_is_accepted_on_purpose() {
        let place = Place::new();
        let first = place.load(OtherKey::Refuse).unwrap();
        let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        write_private(&place.key(), other.serialize_pem().as_bytes());
        let error = place.load(OtherKey::Refuse).unwrap_err();
        assert!(matches!(&error, IdentityError::OtherKey { recorded, .. } if *recorded == first.pin()), "{error}");
        assert!(error.to_string().contains("--new-pin") && error.to_string().contains(KEY_FILE), "{error}");
        assert_eq!(place.load(OtherKey::Accept).unwrap().pin(), pin_of(&other));
        assert_eq!(place.load(OtherKey::Refuse).unwrap().pin(), pin_of(&other));
    }

    #[test]
    fn a_lost_key_is_not_replaced_behind_the_clients_backs() {
        let place = Place::new();
        let first = place.load(OtherKey::Refuse).unwrap();
        std::fs::remove_file(place.key()).unwrap();
        for _ in 0..2 {
            let error = place.load(OtherKey::Refuse).unwrap_err();
            assert!(matches!(&error, IdentityError::KeyLost { recorded, .. } if *recorded == first.pin()), "{error}");
            assert!(!place.key().exists());
        }
        assert_ne!(place.load(OtherKey::Accept).unwrap().pin(), first.pin());
    }

    #[test]
    fn a_key_that_others_may_read_is_refused_with_the_remedy() {
        let place = Place::new();
        place.load(OtherKey::Refuse).unwrap();
        for mode in [0o640, 0o604, 0o660, 0o666] {
            std::fs::set_permissions(place.key(), std::fs::Permissions::from_mode(mode)).unwrap();
            let error = place.load(OtherKey::Refuse).unwrap_err();
            assert!(matches!(error, IdentityError::NotPrivate { .. }), "{error}");
            assert!(error.to_string().contains("chmod 600") && error.to_string().contains(KEY_FILE), "{error}");
        }
    }

    #[test]
    fn what_is_no_key_is_named_and_left_alone() {
        let place = Place::new();
        place.load(OtherKey::Refuse).unwrap();
        let pem = std::fs::read(place.key()).unwrap();
        let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
        let mut bad: Vec<Vec<u8>> = (0..pem.len() - 1).step_by(7).map(|length| pem[..length].to_vec()).collect();
        bad.extend([b"\xff\xfe".to_vec(), ed25519.into_bytes(), b"gaggle".repeat(100)]);
        for bytes in bad {
            write_private(&place.key(), &bytes);
            for other_key in [OtherKey::Refuse, OtherKey::Accept] {
                let error = place.load(other_key).unwrap_err();
                assert!(matches!(error, IdentityError::NotAKey { .. }), "{error}");
                assert!(error.to_string().contains(KEY_FILE), "{error}");
            }
            assert_eq!(std::fs::read(place.key()).unwrap(), bytes);
        }
        write_private(&place.key(), &vec![b'a'; KEY_FILE_BYTES_MAX + 1]);
        assert!(matches!(place.load(OtherKey::Refuse), Err(IdentityError::Disk(_))));
    }

    #[test]
    fn a_damaged_record_is_named_and_only_rewritten_on_purpose() {
        let place = Place::new();
        let first = place.load(OtherKey::Refuse).unwrap();
        let good = std::fs::read(place.record()).unwrap();
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            write_private(&place.record(), &bad);
            let error = place.load(OtherKey::Refuse).unwrap_err();
            assert!(matches!(error, IdentityError::RecordDamaged { .. }), "{index}: {error}");
            write_private(&place.record(), &good[..index]);
            assert!(place.load(OtherKey::Refuse).is_err());
        }
        assert_eq!(place.load(OtherKey::Accept).unwrap().pin(), first.pin());
        assert_eq!(std::fs::read(place.record()).unwrap(), good);
    }

    #[test]
    fn the_pin_of_the_next_key_is_announced_beforehand() {
        let place = Place::new();
        let now = place.load(OtherKey::Refuse).unwrap();
        assert_eq!(now.pins().collect::<Vec<_>>(), [now.pin()]);
        let next = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        write_private(&place.certs().join(NEXT_KEY_FILE), next.serialize_pem().as_bytes());
        let announced = place.load(OtherKey::Refuse).unwrap();
        assert_eq!(announced.pins().collect::<Vec<_>>(), [now.pin(), pin_of(&next)]);
        assert_eq!(announced.pin(), now.pin());
    }

    #[test]
    fn debug_shows_no_key() {
        let identity = Identity::generate().unwrap();
        assert!(format!("{identity:?}").len() < 80, "{identity:?}");
    }
}
