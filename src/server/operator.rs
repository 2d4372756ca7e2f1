//! What lets the operator in: the operator key, and the link of the first invite, both in the certs folder.
//!
//! The key is Ed25519, as devices' keys are, and made at the first start. The link's file is there only until an
//! operator's device exists. Neither file is ever readable by others, nor seen half-written. What the holder of the key
//! may do is decided in `core`.

use std::path::{Path, PathBuf};

use rcgen::{PKCS_ED25519, PublicKeyData as _};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::core::rows::DeviceKey;
use crate::disk::{Disk, DiskError, whole};
use crate::server::identity::{IdentityError, load_key, make_pair};
use crate::wire::link::Link;

/// The operator key in the certs folder.
pub const KEY_FILE: &str = "operator.key";
/// The first invite's link in the certs folder.
pub const FIRST_INVITE_FILE: &str = "first-invite.txt";

const WANTED: &str = "an Ed25519 key as PKCS#8 PEM (BEGIN PRIVATE KEY)";

/// The public half of the operator key, which is made where there is none.
///
/// # Errors
/// Where the file cannot be read or written, is open to others, or holds something else.
pub fn load_or_create(disk: &dyn Disk, certs: &Path) -> Result<DeviceKey, IdentityError> {
    match load(disk, certs) {
        Ok(pair) => public_half(pair.public_key().as_ref(), certs),
        Err(IdentityError::NoOperatorKey { path }) => {
            public_half(make_pair(disk, certs, &path, &PKCS_ED25519)?.der_bytes(), certs)
        }
        Err(error) => Err(error),
    }
}

/// The operator key itself, to sign with.
///
/// # Errors
/// Where the file is missing, cannot be read, is open to others, or holds something else.
pub fn load(disk: &dyn Disk, certs: &Path) -> Result<Ed25519KeyPair, IdentityError> {
    let path = certs.join(KEY_FILE);
    let Some(key) = load_key(disk, &path, WANTED)? else { return Err(IdentityError::NoOperatorKey { path }) };
    // Keys made by other programs may lack the public half; there is then nothing to check it against.
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.secret_pkcs8_der())
        .map_err(|_| IdentityError::NotAKey { path, wanted: WANTED })
}

fn public_half(bytes: &[u8], certs: &Path) -> Result<DeviceKey, IdentityError> {
    let wrong = || IdentityError::NotAKey { path: certs.join(KEY_FILE), wanted: WANTED };
    bytes.try_into().map(DeviceKey).map_err(|_| wrong())
}

/// Puts the link of the first invite where the operator finds it; says where.
///
/// # Errors
/// Where it cannot be written.
pub fn write_first_invite(disk: &dyn Disk, certs: &Path, link: &Link) -> Result<PathBuf, DiskError> {
    disk.create_folder(certs)?;
    let path = certs.join(FIRST_INVITE_FILE);
    whole::replace(disk, &path, format!("{link}\n").as_bytes())?;
    Ok(path)
}

/// Removes the link of the first invite, which opens nothing any more.
///
/// # Errors
/// Where it is there and cannot be removed.
pub fn remove_first_invite(disk: &dyn Disk, certs: &Path) -> Result<(), DiskError> {
    whole::remove(disk, &certs.join(FIRST_INVITE_FILE))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::disk::real::RealDisk;
    use crate::server::auth;
    use crate::wire::link::{InviteCode, Pin};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_operator_key_is_made_once_and_signs_for_its_public_half() {
        let certs = tempfile::tempdir().unwrap();
        let public = load_or_create(&RealDisk, certs.path()).unwrap();
        assert_eq!(load_or_create(&RealDisk, certs.path()).unwrap(), public);
        assert_eq!(mode(&certs.path().join(KEY_FILE)), 0o600);
        let signature = load(&RealDisk, certs.path()).unwrap().sign(b"message");
        assert_eq!(auth::verify(&public, b"message", signature.as_ref()), Ok(()));
    }

    #[test]
    fn without_a_key_the_operator_is_told_where_it_should_be() {
        let certs = tempfile::tempdir().unwrap();
        let error = load(&RealDisk, certs.path()).unwrap_err();
        assert!(matches!(error, IdentityError::NoOperatorKey { .. }));
        assert!(error.to_string().contains(&certs.path().join(KEY_FILE).display().to_string()), "{error}");
    }

    #[test]
    fn a_damaged_operator_key_is_named_and_not_made_anew() {
        let certs = tempfile::tempdir().unwrap();
        load_or_create(&RealDisk, certs.path()).unwrap();
        let path = certs.path().join(KEY_FILE);
        std::fs::write(&path, b"-----BEGIN PRIVATE KEY-----\n").unwrap();
        let error = load_or_create(&RealDisk, certs.path()).unwrap_err();
        assert!(matches!(error, IdentityError::NotAKey { .. }), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load_or_create(&RealDisk, certs.path()), Err(IdentityError::NotPrivate { .. })));
    }

    #[test]
    fn the_first_invite_is_its_owners_alone_and_goes_without_a_trace() {
        let certs = tempfile::tempdir().unwrap();
        let link =
            |code: u8| Link { address: "localhost:4433".to_owned(), pin: Pin([1; 32]), code: InviteCode([code; 16]) };
        for code in [1, 2] {
            let path = write_first_invite(&RealDisk, certs.path(), &link(code)).unwrap();
            assert_eq!(mode(&path), 0o600);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", link(code)));
        }
        for _ in 0..2 {
            remove_first_invite(&RealDisk, certs.path()).unwrap();
            assert_eq!(std::fs::read_dir(certs.path()).unwrap().count(), 0);
        }
    }
}
