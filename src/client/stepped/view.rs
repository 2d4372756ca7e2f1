//! What invariants look at in a stepped client, and how a profile comes to be on a simulated disk.

use std::path::Path;

use bytes::Bytes;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::Process;
use crate::client::error::{ConnectError, ProfileError};
use crate::client::outbox_file::OutboxFile;
use crate::client::profile::{Begun, Profile};
use crate::client::types::Account;
use crate::core::outbox;
use crate::disk::SharedDisk;
use crate::ids::{ClientSeq, GroupId, MessageId, Tag};
use crate::wire::frame::Enrolled;
use crate::wire::link::{InviteCode, Link, Pin};

/// What an Ed25519 key looks like as PKCS#8 v2: this, the seed, [`PKCS8_BETWEEN`], the public half.
const PKCS8_HEAD: [u8; 16] = [0x30, 0x53, 2, 1, 1, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PKCS8_BETWEEN: [u8; 5] = [0xa1, 0x23, 3, 0x21, 0];

/// An entry of an outbox that waits for its answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub seq: ClientSeq,
    /// Where it goes.
    pub group: GroupId,
    /// By which its own item is known again.
    pub tag: Tag,
    /// What is sent.
    pub payload: Bytes,
    /// Whether it may have reached the server.
    pub attempted: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.attempted { "attempted" } else { "waiting" };
        write!(out, "{} to {}, {word}", self.seq, self.group)
    }
}

/// An outbox, as a process knows it or as a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    /// Everything that waits for its answer, by number.
    pub entries: Vec<Entry>,
    /// What ended with an unknown outcome and was not taken out since.
    pub unknown: Vec<ClientSeq>,
    /// The lowest number that is unanswered; the next one where none is.
    pub lowest: ClientSeq,
    /// The highest number that is used up.
    pub highest: ClientSeq,
}

/// Where a listener stands in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The group.
    pub group: GroupId,
    /// Everything visible up to here was delivered.
    pub end: MessageId,
    /// The application has acknowledged up to here.
    pub acked: MessageId,
}

impl Process {
    /// What the process knows of the outbox. What others wrote since it last looked is missing: see [`outbox_on_disk`].
    #[must_use]
    pub fn outbox(&self) -> Option<Outbox> {
        let sending = self.engine.as_ref()?.sending.as_ref()?;
        sending.outbox().map(seen)
    }

    /// How many sends have no final answer, or an unknown one; none where the process does not know its outbox.
    #[must_use]
    pub fn unanswered(&self) -> Option<usize> {
        let sending = self.engine.as_ref()?.sending.as_ref()?;
        sending.outbox().map(|outbox| outbox.entries().count() + outbox.unknown().count())
    }

    /// Where a listener stands, by group.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let receiving = self.engine.as_ref().and_then(|engine| engine.receiving.as_ref());
        let kept = receiving.into_iter().flat_map(|receiving| receiving.kept());
        kept.map(|(group, kept)| Group { group, end: kept.end, acked: kept.acked }).collect()
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_up())
    }

    /// The connection that is there or tried.
    #[must_use]
    pub fn attempt(&self) -> Option<u64> {
        self.road.attempt()
    }

    /// Whether it sends for all processes of its profile.
    #[must_use]
    pub fn drains(&self) -> bool {
        let sending = self.engine.as_ref().and_then(|engine| engine.sending.as_ref());
        sending.is_some_and(|sending| sending.drains())
    }

    /// Why it is over for good: nothing is connected or sent any more.
    #[must_use]
    pub fn ended(&self) -> Option<ConnectError> {
        self.seen.borrow().ended.clone()
    }

    /// Whether an orderly end is done: its locks are free.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.engine.is_none()
    }
}

fn seen(outbox: &outbox::Outbox) -> Outbox {
    let entries = outbox.entries().map(|(seq, entry)| {
        let outbox::Entry { group, tag, epoch: _, payload, attempted } = entry.clone();
        Entry { seq, group, tag, payload, attempted }
    });
    Outbox {
        entries: entries.collect(),
        unknown: outbox.unknown().map(|(seq, _)| seq).collect(),
        lowest: outbox.lowest(),
        highest: outbox.highest(),
    }
}

/// What the outbox file in this folder says, where no process need be. Touches nothing.
///
/// # Errors
/// Where it cannot be read.
pub fn outbox_on_disk(disk: &SharedDisk, folder: &Path) -> Result<Outbox, ProfileError> {
    let mut file = OutboxFile::new(disk.clone(), folder);
    file.refresh()?;
    Ok(seen(file.outbox()))
}

/// The public half of the key with this seed.
///
/// # Errors
/// None that could happen: the seed is as long as one must be.
pub fn public_key(seed: &[u8; 32]) -> Result<[u8; 32], ProfileError> {
    let public = pair(seed)?.public_key().as_ref().try_into();
    public.map_err(|_| ProfileError::Disk("the key has another length".to_owned()))
}

fn pair(seed: &[u8; 32]) -> Result<Ed25519KeyPair, ProfileError> {
    let wrong = |_| ProfileError::Disk("this is no seed of a key".to_owned());
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(wrong)
}

/// Makes the profile of a device that the server has enrolled with the key of this seed, by the steps of a real
/// enrolment.
///
/// # Errors
/// Where the disk refuses, or the profile holds a device already.
pub fn enrol(
    profile: &Profile,
    seed: &[u8; 32],
    code: InviteCode,
    enrolled: &Enrolled,
) -> Result<Account, ProfileError> {
    let link = Link { address: "simulated:1".to_owned(), pin: Pin([0; 32]), code };
    let make = || Ok([&PKCS8_HEAD[..], seed, &PKCS8_BETWEEN, &public_key(seed)?].concat());
    match profile.begin_with(&link, make)? {
        Begun::Already(account) => Ok(account),
        Begun::Now(..) => profile.finish(enrolled.device, enrolled.user, &enrolled.handle, enrolled.epoch),
    }
}
