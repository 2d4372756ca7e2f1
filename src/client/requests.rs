//! What can be asked of the server: groups, people, devices, pages.
//!
//! A question waits for a connection, then for its answer, within the time-out of the options. Reading is repeated by
//! itself where the connection breaks; what changes something is not: it may have been done.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA256, digest};
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::time::{Instant, timeout_at};

use crate::client::connect::Server;
use crate::client::engine::{Identity, Parts};
use crate::client::error::{ProfileError, RequestError};
use crate::client::files::Files;
use crate::client::handle::{Client, on_disk};
use crate::client::live::AskError;
use crate::client::names;
use crate::client::options::ClientOptions;
use crate::client::receiving::read_item;
use crate::client::stream::{StreamError, ask, refusal};
use crate::client::types::{Device, Group, History, Invite, Member, Page, Role, Status, User, byte, text};
use crate::clock;
use crate::disk::{SharedDisk, whole};
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits::LIST_ROWS_MAX;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Extensions, Frame, group_info, member_info};
use crate::wire::link::{InviteCode, Link, Pin};
use crate::wire::row;

const OPERATOR_KEY: &str = "operator.key";
const SERVER_KEY: &str = "server.key";
const KEY_FILE_BYTES_MAX: usize = 16 * 1024;

/// What a question does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Asked again where the connection broke.
    Reads,
    /// Not asked again by itself.
    Changes,
}

/// No blank stands in a handle, so that nobody can look deleted, or like somebody who is.
fn called(user: User) -> String {
    if user.state.is_deleted() { format!("{} (deleted)", user.handle) } else { user.handle }
}

pub(super) fn none() -> Extensions {
    Extensions::default()
}

impl Client {
    /// A client with the operator key in this folder, for the server at `host:port`. It can invite, revoke and look,
    /// not read groups nor send.
    ///
    /// # Errors
    /// Where the folder does not hold the operator's and the server's key.
    pub async fn operator(
        disk: SharedDisk,
        certs: &Path,
        address: &str,
        options: ClientOptions,
    ) -> Result<Client, ProfileError> {
        let certs = certs.to_owned();
        let address = address.to_owned();
        let (key, pin) = on_disk(move || operator_keys(&disk, &certs)).await?;
        let server = Server { address, pins: vec![pin] };
        let identity = Identity::Operator { server };
        let parts = Parts {
            files: Files::InThread,
            identity,
            key,
            options: options.clone(),
            instance: 0,
            sending: None,
            receiving: None,
        };
        Ok(Client::start(parts, options))
    }

    fn deadline(&self) -> Instant {
        Instant::from_std(clock::monotonic()) + self.inner.options.request_timeout
    }

    /// Asks on control.
    pub(super) async fn call<Q: Frame, A: Frame>(&self, effect: Effect, question: &Q) -> Result<A, RequestError> {
        let deadline = self.deadline();
        loop {
            let live = self.live(deadline).await?;
            match read(timeout_at(deadline, live.ask(question)).await) {
                Err(RequestError::NoAnswer { .. } | RequestError::ShutOut(_))
                    if effect == Effect::Reads && in_time(deadline) => {}
                done => return done?,
            }
        }
    }

    /// Asks on a stream of its own; reads only.
    pub(super) async fn look<Q: Frame, A: Frame>(&self, question: &Q) -> Result<A, RequestError> {
        let deadline = self.deadline();
        loop {
            let live = self.live(deadline).await?;
            match read(timeout_at(deadline, live.ask_apart(question)).await) {
                Err(RequestError::NoAnswer { .. }) if in_time(deadline) => {}
                done => return done?,
            }
        }
    }

    // ---- pages ------------------------------------------------------------------------------------------------------

    /// Items above `after`, without acknowledging anything; zero items: as many as the server likes.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn pull(&self, group: GroupId, after: MessageId, items: u32) -> Result<Page, RequestError> {
        let deadline = self.deadline();
        let question = frame::Pull { gid: group, after, items, deliver: false, extensions: none() };
        loop {
            let live = self.live(deadline).await?;
            let page = timeout_at(deadline, async {
                let mut stream = ask(&live.connection, &question).await.map_err(lost)?;
                let mut page = Page::default();
                loop {
                    let frame = stream.next().await.map_err(lost)?;
                    let frame = frame.ok_or_else(|| no_answer("the page ended early"))?;
                    if take(&mut page, &frame)? {
                        return Ok(page);
                    }
                }
            });
            match page.await.unwrap_or_else(|_| Err(no_answer("the time was over"))) {
                Err(RequestError::NoAnswer { .. }) if in_time(deadline) => {}
                done => return done,
            }
        }
    }

    /// Passes over everything up to this msgid: it will not be delivered to this device. Returns the cursor.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn skip(&self, group: GroupId, to: MessageId) -> Result<MessageId, RequestError> {
        let question = frame::Skip { gid: group, to, extensions: none() };
        let cursors: frame::Cursors = self.call(Effect::Reads, &question).await?;
        let cursor = cursors.entries.into_iter().find(|(other, _)| *other == group);
        cursor.map(|(_, cursor)| cursor).ok_or_else(|| RequestError::Protocol("no cursor of the group".to_owned()))
    }

    // ---- lists ------------------------------------------------------------------------------------------------------

    /// All groups of one's own, past ones included.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn groups(&self) -> Result<Vec<Group>, RequestError> {
        let mut all = Vec::new();
        let mut after = GroupId::ZERO;
        loop {
            let list: frame::GroupList = self.look(&frame::ListGroups { after, extensions: none() }).await?;
            let frame::GroupList { rows, more, extensions: _ } = list;
            all.extend(rows.0.into_iter().map(|row| Group {
                group: row.gid,
                name: row.name,
                role: Role::from_number(row.role),
                members: row.members,
                head: row.head,
                cursor: row.cursor,
                topic: text(&row.extensions, group_info::TOPIC).unwrap_or_default(),
                history: byte(&row.extensions, group_info::POLICY).and_then(History::from_number).unwrap_or_default(),
            }));
            match all.last() {
                Some(last) if more && last.group > after => after = last.group,
                Some(_) | None => return Ok(all),
            }
        }
    }

    /// The current members of a group.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn members(&self, group: GroupId) -> Result<Vec<Member>, RequestError> {
        let mut all: Vec<Member> = Vec::new();
        let mut after = UserId::ZERO;
        loop {
            let question = frame::ListMembers { gid: group, after, extensions: none() };
            let frame::MemberList { rows, more, extensions: _ } = self.look(&question).await?;
            all.extend(rows.0.into_iter().map(|row| Member {
                user: row.user,
                name: text(&row.extensions, frame::member_info::NAME),
                handle: row.handle,
                role: Role::from_number(row.role),
                joined: row.joined,
                muted: row.extensions.find(member_info::MUTED).is_some(),
            }));
            match all.last() {
                Some(last) if more && last.user > after => after = last.user,
                Some(_) | None => return Ok(all),
            }
        }
    }

    /// All users of the server.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn users(&self) -> Result<Vec<User>, RequestError> {
        let mut all: Vec<User> = Vec::new();
        let mut after = UserId::ZERO;
        loop {
            let question = frame::ListUsers { after, extensions: none() };
            let frame::UserList { rows, more, extensions: _ } = self.look(&question).await?;
            all.extend(rows.0.into_iter().map(User::of));
            match all.last() {
                Some(last) if more && last.user > after => after = last.user,
                Some(_) | None => return Ok(all),
            }
        }
    }

    /// The handles of these users, asked once and remembered; behind that of a deleted user, which may be somebody else's
    /// now, stands ` (deleted)`. Who does not exist is missing.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn names(&self, users: &[UserId]) -> Result<BTreeMap<UserId, String>, RequestError> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        {
            let known = self.inner.names.lock().unwrap_or_else(PoisonError::into_inner);
            for user in users {
                match known.get(user) {
                    Some(name) => drop(found.insert(*user, name.clone())),
                    None => missing.push(*user),
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        for users in missing.chunks(LIST_ROWS_MAX) {
            let question = frame::Names { users: users.to_vec(), extensions: none() };
            let list: frame::UserList = self.look(&question).await?;
            let users = list.rows.0.into_iter().map(User::of);
            let names: Vec<_> = users.map(|user| (user.user, called(user))).collect();
            found.extend(names.iter().cloned());
            self.inner.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        }
        Ok(found)
    }

    /// Devices: one's own, or as an operator somebody else's.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn devices(&self, handle: Option<&str>) -> Result<Vec<Device>, RequestError> {
        let handle = handle.map(names::handle).transpose()?;
        let mut all: Vec<Device> = Vec::new();
        let mut after = DeviceId::ZERO;
        loop {
            let question = frame::ListDevices { handle: handle.clone(), after, extensions: none() };
            let frame::DeviceList { rows, more, extensions: _ } = self.look(&question).await?;
            all.extend(rows.0.into_iter().map(|row| Device {
                device: row.device,
                name: row.name,
                enrolled_ms: row.enrolled_ms,
                revoked: row.revoked,
                online: row.online,
            }));
            match all.last() {
                Some(last) if more && last.device > after => after = last.device,
                Some(_) | None => return Ok(all),
            }
        }
    }

    // ---- changes ----------------------------------------------------------------------------------------------------

    /// An invite for another device: one's own, or as an operator somebody else's.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn add_device(&self, handle: Option<&str>, good_for: Duration) -> Result<Invite, RequestError> {
        let handle = handle.map(names::handle).transpose()?;
        let question = frame::AddDevice { handle, expires_s: good_for.as_secs(), extensions: none() };
        invite(self.call(Effect::Changes, &question).await?)
    }

    /// Renames a device.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn rename_device(&self, device: DeviceId, name: &str) -> Result<(), RequestError> {
        let question = frame::RenameDevice { device, name: names::device_name(name)?, extensions: none() };
        self.call::<_, frame::Done>(Effect::Reads, &question).await.map(|_| ())
    }

    /// Revokes a device: its connections close within 2 s, and it never connects again.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn revoke_device(&self, device: DeviceId) -> Result<(), RequestError> {
        let question = frame::RevokeDevice { device, extensions: none() };
        self.call::<_, frame::Done>(Effect::Changes, &question).await.map(|_| ())
    }

    /// An invite for a new user, who joins the group at once if one is named.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn invite(
        &self,
        handle: &str,
        group: Option<GroupId>,
        good_for: Duration,
    ) -> Result<Invite, RequestError> {
        let expires_s = good_for.as_secs();
        let question = frame::MakeInvite { handle: names::handle(handle)?, gid: group, expires_s, extensions: none() };
        invite(self.call(Effect::Changes, &question).await?)
    }

    /// How the server is.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn status(&self) -> Result<Status, RequestError> {
        let info: frame::StatusInfo = self.call(Effect::Reads, &frame::Status { extensions: none() }).await?;
        let (index_bytes, live_bytes) = info.sizes();
        Ok(Status {
            version: info.version,
            uptime_ms: info.uptime_ms,
            users: info.users,
            groups: info.groups,
            devices: info.devices,
            connections: info.connections,
            items: info.items,
            durable_lsn: info.durable_lsn,
            log_bytes: info.log_bytes,
            index_bytes,
            live_bytes,
        })
    }
}

fn in_time(deadline: Instant) -> bool {
    Instant::from_std(clock::monotonic()) < deadline
}

fn no_answer(cause: &str) -> RequestError {
    RequestError::NoAnswer { cause: cause.to_owned() }
}

fn protocol(error: &dyn std::fmt::Display) -> RequestError {
    RequestError::Protocol(error.to_string())
}

fn lost(error: StreamError) -> RequestError {
    match error {
        StreamError::Broken(cause) => RequestError::NoAnswer { cause },
        StreamError::Wire(error) => protocol(&error),
    }
}

type Asked = Result<Result<RawFrame, AskError>, tokio::time::error::Elapsed>;

/// The answer in what came: outside a failure of the road to it, inside what the server said.
fn read<A: Frame>(asked: Asked) -> Result<Result<A, RequestError>, RequestError> {
    let frame = match asked.map_err(|_| no_answer("the time was over"))? {
        Ok(frame) => frame,
        Err(AskError::NotAsked(error)) => return Ok(Err(error.into())),
        Err(AskError::Lost(cause)) => return Err(RequestError::NoAnswer { cause }),
        Err(AskError::ShutOut(refusal)) => return Err(RequestError::ShutOut(refusal)),
        Err(AskError::Wire(error)) => return Ok(Err(protocol(&error))),
    };
    Ok(match refusal(&frame) {
        Ok(Some(refusal)) => Err(RequestError::Refused(refusal)),
        Ok(None) => frame.decode().map_err(|error| protocol(&error)),
        Err(error) => Err(protocol(&error)),
    })
}

/// Takes a frame of a page; whether it was the last.
fn take(page: &mut Page, frame: &RawFrame) -> Result<bool, RequestError> {
    if let Some(refusal) = refusal(frame).map_err(|error| protocol(&error))? {
        return Err(RequestError::Refused(refusal));
    }
    if frame.kind == frame::PageRows::TYPE {
        let rows: frame::PageRows = frame.decode().map_err(|error| protocol(&error))?;
        for row in row::rows(rows.rows) {
            let item = row.and_then(|row| read_item(&row)).map_err(|error| protocol(&error))?;
            page.items.push(item);
        }
        return Ok(false);
    }
    let end: frame::PageEnd = frame.decode().map_err(|error| protocol(&error))?;
    page.covered_to = end.covered_to;
    page.more = end.more;
    page.gone = end.gone;
    page.head = end.head;
    Ok(true)
}

fn invite(made: frame::InviteMade) -> Result<Invite, RequestError> {
    let code = made.code.as_ref().try_into().map_err(|_| RequestError::Protocol("a code of odd length".to_owned()))?;
    let pin = made.pin.as_ref().try_into().map_err(|_| RequestError::Protocol("a pin of odd length".to_owned()))?;
    let link = Link { address: made.address, pin: Pin(pin), code: InviteCode(code) };
    Ok(Invite { link: link.to_string(), expires_ms: made.expires_ms })
}

fn operator_keys(disk: &SharedDisk, certs: &Path) -> Result<(Ed25519KeyPair, [u8; 32]), ProfileError> {
    let read = |name: &str| {
        let path = certs.join(name);
        let damaged = |what: &str| ProfileError::Damaged { file: path.display().to_string(), what: what.to_owned() };
        let missing = || ProfileError::Missing { file: path.display().to_string() };
        let bytes = whole::read(disk.as_ref(), &path, KEY_FILE_BYTES_MAX)?.ok_or_else(missing)?;
        PrivatePkcs8KeyDer::from_pem_slice(&bytes).map_err(|_| damaged("it holds no key")).map(|key| (key, path))
    };
    let wrong =
        |path: &Path, what: &str| ProfileError::Damaged { file: path.display().to_string(), what: what.to_owned() };
    let (operator, path) = read(OPERATOR_KEY)?;
    let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(operator.secret_pkcs8_der());
    let key = key.map_err(|_| wrong(&path, "it holds no Ed25519 key"))?;
    let (server, path) = read(SERVER_KEY)?;
    let server = KeyPair::try_from(&server).map_err(|_| wrong(&path, "it holds no key of a server"))?;
    let pin = digest(&SHA256, &server.subject_public_key_info());
    Ok((key, pin.as_ref().try_into().map_err(|_| wrong(&path, "its pin cannot be made"))?))
}
