//! The folder of a device: its key, what it knows of itself and its server, its outbox and inbox, its locks.
//!
//! `device.key` is the Ed25519 key (PKCS#8, 0600, not encrypted); it is on disk before anything is sent with it.
//! `profile.toml` says which server, which invite, and once the invite was answered which device. Both are replaced
//! whole. A profile counts as used from the answer on; a permanent refusal frees it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};

use crate::client::error::{OutboxError, ProfileError};
use crate::client::outbox_file::{self, OutboxFile};
use crate::client::types::{Account, OutboxEntry};
use crate::disk::{Lock, SharedDisk, whole};
use crate::ids::{ClientSeq, DeviceId, Epoch, UserId};
use crate::wire::link::{Link, Pin};

const KEY_FILE: &str = "device.key";
const PROFILE_FILE: &str = "profile.toml";
const JOIN_LOCK: &str = "join.lock";
const FILE_BYTES_MAX: usize = 64 * 1024;
const FORMAT: u32 = 1;

/// The folder of a device. Making the value touches nothing.
#[derive(Debug, Clone)]
pub struct Profile {
    disk: SharedDisk,
    folder: PathBuf,
}

/// `profile.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    format: u32,
    address: String,
    /// Base64url, unpadded; the current one first.
    pins: Vec<String>,
    /// SHA-256 of the invite's code, so that the same link is known again.
    invite: String,
    device: Option<DeviceKept>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct DeviceKept {
    device: String,
    user: String,
    handle: String,
    epoch: String,
}

/// What an enrolment begins with.
pub(super) enum Begun {
    /// The device exists already, from this very link.
    Already(Account),
    /// The key to enrol with; the lock keeps other processes of the profile from doing the same.
    Now(Ed25519KeyPair, Box<dyn Lock>),
}

impl Profile {
    /// The profile in this folder, which need not exist yet.
    #[must_use]
    pub fn at(disk: SharedDisk, folder: impl Into<PathBuf>) -> Profile {
        Profile { disk, folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the profile knows of itself.
    ///
    /// # Errors
    /// Where nobody has joined with it yet, or it cannot be read.
    pub fn account(&self) -> Result<Account, ProfileError> {
        let none = ProfileError::NotEnrolled { folder: self.folder.display().to_string() };
        let kept = self.kept()?.ok_or(none.clone())?;
        self.account_of(&kept)?.ok_or(none)
    }

    /// What the outbox holds: everything unanswered, and what ended with an unknown outcome. No connection is needed.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn outbox(&self) -> Result<Vec<OutboxEntry>, OutboxError> {
        let mut file = OutboxFile::new(self.disk.clone(), &self.folder);
        file.step::<OutboxError>(false, |_| Ok(Vec::new()))?;
        Ok(file.listed())
    }

    /// Takes an entry out of the outbox: one that was never attempted, which is then never sent, or one that ended with
    /// an unknown outcome, which is then not listed any more.
    ///
    /// # Errors
    /// Where it was attempted and its answer must be waited for.
    pub fn withdraw(&self, seq: ClientSeq) -> Result<(), OutboxError> {
        OutboxFile::new(self.disk.clone(), &self.folder).withdraw(seq)
    }

    pub(super) const fn disk(&self) -> &SharedDisk {
        &self.disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn damaged(&self, name: &str, what: impl Into<String>) -> ProfileError {
        ProfileError::Damaged { file: self.path(name).display().to_string(), what: what.into() }
    }

    fn missing(&self, name: &str) -> ProfileError {
        ProfileError::Missing { file: self.path(name).display().to_string() }
    }

    fn kept(&self) -> Result<Option<Kept>, ProfileError> {
        let Some(bytes) = whole::read(self.disk.as_ref(), &self.path(PROFILE_FILE), FILE_BYTES_MAX)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).map_err(|_| self.damaged(PROFILE_FILE, "it is no text"))?;
        let kept: Kept =
            toml::from_str(&text).map_err(|error| self.damaged(PROFILE_FILE, error.message().to_owned()))?;
        if kept.format != FORMAT {
            return Err(self.damaged(PROFILE_FILE, format!("it has format {}, not {FORMAT}", kept.format)));
        }
        Ok(Some(kept))
    }

    fn keep(&self, kept: &Kept) -> Result<(), ProfileError> {
        let text = toml::to_string(kept).map_err(|error| self.damaged(PROFILE_FILE, error.to_string()))?;
        Ok(whole::replace(self.disk.as_ref(), &self.path(PROFILE_FILE), text.as_bytes())?)
    }

    fn account_of(&self, kept: &Kept) -> Result<Option<Account>, ProfileError> {
        let Some(device) = &kept.device else { return Ok(None) };
        let wrong = |what: &str| self.damaged(PROFILE_FILE, format!("{what} cannot be read"));
        let pins = kept.pins.iter().map(|pin| pin.parse::<Pin>().map(|pin| pin.0));
        Ok(Some(Account {
            address: kept.address.clone(),
            pins: pins.collect::<Result<_, _>>().map_err(|_| wrong("a pin"))?,
            device: device.device.parse::<DeviceId>().map_err(|_| wrong("the device"))?,
            user: device.user.parse::<UserId>().map_err(|_| wrong("the user"))?,
            handle: device.handle.clone(),
            epoch: read_epoch(&device.epoch).ok_or_else(|| wrong("the epoch"))?,
        }))
    }

    /// The device's key.
    pub(super) fn key(&self) -> Result<Ed25519KeyPair, ProfileError> {
        let bytes = whole::read(self.disk.as_ref(), &self.path(KEY_FILE), FILE_BYTES_MAX)?;
        let bytes = bytes.ok_or_else(|| self.missing(KEY_FILE))?;
        Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| self.damaged(KEY_FILE, "it holds no Ed25519 key"))
    }

    /// Prepares an enrolment: key and link are on disk when this returns.
    pub(super) fn begin(&self, link: &Link) -> Result<Begun, ProfileError> {
        let wrong = |_| ProfileError::Disk("the system gives no randomness for a key".to_owned());
        let make = || Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(wrong);
        self.begin_with(link, || make().map(|made| made.as_ref().to_vec()))
    }

    /// As [`Profile::begin`], with a key (PKCS#8) that the caller makes where one is needed.
    pub(super) fn begin_with(
        &self,
        link: &Link,
        make_key: impl FnOnce() -> Result<Vec<u8>, ProfileError>,
    ) -> Result<Begun, ProfileError> {
        self.disk.create_folder(&self.folder)?;
        let path = self.path(JOIN_LOCK);
        let held = self.disk.lock(&path)?;
        let taken =
            || ProfileError::Locked { lock: path.display().to_string(), pid: outbox_file::holder(&self.disk, &path) };
        let lock = held.ok_or_else(taken)?;
        let invite = code_hash(link);
        let kept = self.kept()?;
        let same = kept.as_ref().is_some_and(|kept| kept.invite == invite);
        if let Some(account) = kept.as_ref().map(|kept| self.account_of(kept)).transpose()?.flatten() {
            if same {
                return Ok(Begun::Already(account));
            }
            return Err(ProfileError::Used {
                folder: self.folder.display().to_string(),
                device: account.device.to_string(),
                handle: account.handle,
            });
        }
        if let Some(mut kept) = kept.filter(|_| same) {
            // The same code may come with a corrected address: what counts is where it will have been answered.
            kept.address.clone_from(&link.address);
            kept.pins = vec![link.pin.to_string()];
            self.keep(&kept)?;
            return Ok(Begun::Now(self.key()?, lock));
        }
        whole::replace(self.disk.as_ref(), &self.path(KEY_FILE), &make_key()?)?;
        self.keep(&Kept {
            format: FORMAT,
            address: link.address.clone(),
            pins: vec![link.pin.to_string()],
            invite,
            device: None,
        })?;
        Ok(Begun::Now(self.key()?, lock))
    }

    /// The invite was answered: from here on the profile is used.
    pub(super) fn finish(
        &self,
        device: DeviceId,
        user: UserId,
        handle: &str,
        epoch: Epoch,
    ) -> Result<Account, ProfileError> {
        let mut kept = self.kept()?.ok_or_else(|| self.missing(PROFILE_FILE))?;
        kept.device = Some(DeviceKept {
            device: device.to_string(),
            user: user.to_string(),
            handle: handle.to_owned(),
            epoch: URL_SAFE_NO_PAD.encode(epoch.bytes()),
        });
        self.keep(&kept)?;
        self.account()
    }

    /// The invite was refused for good: the profile is free for another.
    pub(super) fn give_up(&self) -> Result<(), ProfileError> {
        whole::remove(self.disk.as_ref(), &self.path(PROFILE_FILE))?;
        Ok(whole::remove(self.disk.as_ref(), &self.path(KEY_FILE))?)
    }

    /// Keeps what a Welcome said, where it is new: the pins and the handle.
    pub(super) fn learn(&self, pins: &[Bytes], handle: &str) -> Result<(), ProfileError> {
        // Two processes that replaced the file at once would write over each other beside it.
        let _lock = outbox_file::lock_shortly(&self.disk, &self.folder, JOIN_LOCK)?;
        let Some(mut kept) = self.kept()? else { return Ok(()) };
        let pins = pins.iter().filter_map(|pin| Some(Pin(pin.as_ref().try_into().ok()?).to_string()));
        let pins: Vec<String> = pins.collect();
        let Some(device) = kept.device.as_mut() else { return Ok(()) };
        let known = device.handle == handle && kept.pins == pins;
        if known || pins.is_empty() {
            return Ok(());
        }
        handle.clone_into(&mut device.handle);
        kept.pins = pins;
        self.keep(&kept)
    }
}

/// The public half of a key.
pub(super) fn public_half(key: &Ed25519KeyPair) -> Bytes {
    Bytes::copy_from_slice(key.public_key().as_ref())
}

pub(super) fn code_hash(link: &Link) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, &link.code.0))
}

fn read_epoch(text: &str) -> Option<Epoch> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(Epoch::new(bytes.try_into().ok()?))
}
