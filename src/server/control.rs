//! The control stream of an identified connection: sends and short requests in, answers out in any order.

use std::sync::Arc;

use quinn::SendStream;
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

use crate::clock;
use crate::core::authorise::Verb;
use crate::core::command::{Actor, Command, Refusal, SendCommand};
use crate::core::retention::Retention;
use crate::core::rows::Handle;
use crate::ids::DeviceId;
use crate::limits;
use crate::server::gather::{Gather, Gathered};
use crate::server::request::{Recipient, Reply, places_of};
use crate::server::session::Session;
use crate::server::streams::FrameStream;
use crate::server::{Shared, auth, translate};
use crate::wire::code::Code;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{
    AddDevice, AddMember, AskRetention, CreateGroup, DeactivateUser, DeleteUser, Frame, FreeHandle, LeaveGroup,
    MakeInvite, MarkRead, MarkUnread, OpenDirect, Payload, ReactivateUser, RemoveMember, RenameDevice, RenameGroup,
    RevokeDevice, Send, SetBanned, SetMuted, SetName, SetPolicy, SetRetention, SetRole, SetSwitch, SetTopic, Skip,
    Status,
};
use crate::wire::link::{InviteCode, Link};

/// Reads requests until the stream ends; returns why the connection ends with it.
pub(crate) async fn read(shared: Arc<Shared>, session: Arc<Session>, mut frames: FrameStream) -> Code {
    loop {
        let raw = match frames.next().await {
            Ok(Some(raw)) => raw,
            Ok(None) => return Code::Goodbye,
            Err(error) => {
                debug!(%error, "control stream ended");
                return error.code().unwrap_or(Code::Goodbye);
            }
        };
        let places = places_of(raw.body.len());
        let Ok(place) = Arc::clone(&session.places).acquire_many_owned(places).await else { return Code::Goodbye };
        match take(&shared, &session, &raw, place) {
            Ok(Taken::Command(command, reply)) => shared.submit(*command, reply).await,
            // The next request waits for it, so that who asks much is served one at a time.
            Ok(Taken::Gather(gather, answers)) => {
                let gathered = shared.readers.gather(gather).await;
                answers.give(&shared, &session, gathered);
            }
            Ok(Taken::Done) => {}
            Err(code) => return code,
        }
    }
}

/// Writes what waits for the control stream, as soon as it does.
pub(crate) async fn write(session: Arc<Session>, mut send: SendStream) -> Code {
    loop {
        let woken = session.control_wake.notified();
        let waiting = session.take_control();
        if waiting.is_empty() {
            woken.await;
            continue;
        }
        let mut frames: Vec<_> = waiting.iter().map(|waiting| waiting.frame.clone()).collect();
        if let Err(error) = send.write_all_chunks(&mut frames).await {
            debug!(%error, "control stream cannot be written");
            return Code::Goodbye;
        }
    }
}

/// What a request turns into.
enum Asked {
    /// A command for the writer.
    Command(Command),
    /// A command whose answer carries a link.
    Invite(Command, Link),
    /// Something that is answered at once.
    Refuse(Code),
    /// Something that a reader thread puts together.
    Gather(Gather),
}

/// What is to be done for a request that was taken.
pub(crate) enum Taken {
    /// This is for the writer.
    Command(Box<Command>, Reply),
    /// This is to be put together, by a reader thread.
    Gather(Gather, Answers),
    /// Nothing: it is answered.
    Done,
}

/// The answer that a request waits for, with the place it holds.
pub(crate) struct Answers {
    request: u32,
    place: Option<OwnedSemaphorePermit>,
}

impl Answers {
    /// Gives it.
    pub(crate) fn give(self, shared: &Shared, session: &Session, gathered: Result<Gathered, Code>) {
        let Answers { request, place } = self;
        let frame = gathered.and_then(|gathered| gathered.frame(request, &shared.view.read().tables));
        let refused = |code: Code| translate::error(request, code, translate::retry_after_ms(code), code.name());
        session.queue(frame.unwrap_or_else(refused), place);
    }
}

/// Takes one request, which holds this place until it is answered.
pub(crate) fn take(
    shared: &Shared,
    session: &Arc<Session>,
    raw: &RawFrame,
    place: OwnedSemaphorePermit,
) -> Result<Taken, Code> {
    let place = Some(place);
    let (command, link) = match understand(shared, session, raw)? {
        Asked::Command(command) => (command, None),
        Asked::Invite(command, link) => (command, Some(link)),
        Asked::Gather(gather) => return Ok(Taken::Gather(gather, Answers { request: raw.request, place })),
        Asked::Refuse(code) => {
            if raw.request != 0 {
                session.queue(translate::error(raw.request, code, 0, code.name()), place);
            }
            return Ok(Taken::Done);
        }
    };
    let recipient = Recipient::Control { session: Arc::clone(session), request: raw.request, link, place };
    Ok(Taken::Command(Box::new(command), Reply::to(recipient)))
}

fn understand(shared: &Shared, session: &Session, raw: &RawFrame) -> Result<Asked, Code> {
    match raw.kind {
        Send::TYPE
        | CreateGroup::TYPE
        | AddMember::TYPE
        | RemoveMember::TYPE
        | LeaveGroup::TYPE
        | RenameGroup::TYPE
        | SetName::TYPE
        | MarkRead::TYPE
        | MarkUnread::TYPE
        | SetRole::TYPE
        | SetMuted::TYPE
        | SetBanned::TYPE
        | SetTopic::TYPE
        | SetPolicy::TYPE
        | SetSwitch::TYPE
        | OpenDirect::TYPE
        | SetRetention::TYPE
        | Skip::TYPE => match session.device {
            Some(device) => of_device(session, device, raw),
            None => Ok(Asked::Refuse(Code::NotAllowed)),
        },
        MakeInvite::TYPE | AddDevice::TYPE => invite(shared, session, raw),
        RenameDevice::TYPE => {
            let RenameDevice { device, name, .. } = decode(raw)?;
            Ok(Asked::Command(Command::RenameDevice { by: session.actor(), device, name }))
        }
        RevokeDevice::TYPE => {
            let RevokeDevice { device, .. } = decode(raw)?;
            Ok(Asked::Command(Command::RevokeDevice { by: session.actor(), device }))
        }
        DeactivateUser::TYPE | ReactivateUser::TYPE | DeleteUser::TYPE | FreeHandle::TYPE => of_users(session, raw),
        Status::TYPE => {
            decode::<Status>(raw)?;
            match shared.view.read().tables.may(Verb::Status, session.who()) {
                Ok(()) => Ok(Asked::Gather(Gather::Status(shared.status()))),
                Err(why) => Ok(Asked::Refuse(translate::code(why))),
            }
        }
        AskRetention::TYPE => {
            let AskRetention { gid, .. } = decode(raw)?;
            match shared.view.read().tables.may_in(gid, Verb::ShowRetention, session.who()) {
                Ok(()) => Ok(Asked::Gather(Gather::Retention(shared.retention(session.user, gid)))),
                Err(why) => Ok(Asked::Refuse(translate::code(why))),
            }
        }
        // A request hears that it is not supported; what asks for nothing cannot hear it but by the end.
        _ if raw.request == 0 && raw.must_understand() => Err(Code::Unsupported),
        _ => Ok(Asked::Refuse(Code::Unsupported)),
    }
}

fn of_device(session: &Session, by: DeviceId, raw: &RawFrame) -> Result<Asked, Code> {
    let command = match raw.kind {
        Send::TYPE => Command::Send(send(by, decode(raw)?)),
        CreateGroup::TYPE => {
            let CreateGroup { name, policy, .. } = decode(raw)?;
            let Ok(policy) = translate::policy(policy) else { return Ok(Asked::Refuse(Code::Malformed)) };
            Command::CreateGroup { by, name, policy }
        }
        AddMember::TYPE => {
            let AddMember { gid, handle, .. } = decode(raw)?;
            let Ok(handle) = Handle::parse(&handle) else { return Ok(Asked::Refuse(Code::NoSuchUser)) };
            Command::AddMember { by, group: gid, handle }
        }
        RemoveMember::TYPE => {
            let RemoveMember { gid, handle, .. } = decode(raw)?;
            let Ok(handle) = Handle::parse(&handle) else { return Ok(Asked::Refuse(Code::NoSuchUser)) };
            Command::RemoveMember { by, group: gid, handle }
        }
        LeaveGroup::TYPE => {
            let LeaveGroup { gid, .. } = decode(raw)?;
            Command::LeaveGroup { by, group: gid }
        }
        RenameGroup::TYPE => {
            let RenameGroup { gid, name, .. } = decode(raw)?;
            Command::RenameGroup { by, group: gid, name }
        }
        SetName::TYPE => {
            let SetName { name, .. } = decode(raw)?;
            Command::NameUser { by, name }
        }
        MarkRead::TYPE => {
            let MarkRead { gid, msgid, version, .. } = decode(raw)?;
            Command::MarkRead { device: by, group: gid, msgid, version }
        }
        MarkUnread::TYPE => {
            let MarkUnread { gid, msgid, version, .. } = decode(raw)?;
            Command::MarkUnread { device: by, group: gid, msgid, version }
        }
        SetRole::TYPE | SetMuted::TYPE | SetBanned::TYPE => return of_member(by, raw),
        SetTopic::TYPE => {
            let SetTopic { gid, topic, .. } = decode(raw)?;
            Command::SetTopic { by, group: gid, topic }
        }
        SetPolicy::TYPE => {
            let SetPolicy { gid, policy, .. } = decode(raw)?;
            let Ok(policy) = translate::policy(policy) else { return Ok(Asked::Refuse(Code::Malformed)) };
            Command::SetPolicy { by, group: gid, policy }
        }
        OpenDirect::TYPE => {
            let OpenDirect { handle, .. } = decode(raw)?;
            let Ok(handle) = Handle::parse(&handle) else { return Ok(Asked::Refuse(Code::NoSuchUser)) };
            Command::OpenDirect { by, handle }
        }
        SetSwitch::TYPE => {
            let SetSwitch { switch, on, .. } = decode(raw)?;
            Command::SetSwitch { by, switch, on }
        }
        SetRetention::TYPE => {
            let SetRetention { gid, own, age_s, count, bytes, acked_s, .. } = decode(raw)?;
            let ms = |seconds: u64| seconds.saturating_mul(1_000);
            let policy = Retention { age_ms: age_s.map(ms), count, bytes, acked_ms: acked_s.map(ms) };
            Command::SetRetention { by, group: gid, policy: own.then_some(policy) }
        }
        Skip::TYPE => {
            let Skip { gid, to, .. } = decode(raw)?;
            Command::Skip { device: by, group: gid, to }
        }
        _ => return Ok(Asked::Refuse(Code::Unsupported)),
    };
    debug_assert_eq!(session.device, Some(by));
    Ok(Asked::Command(command))
}

/// What operators do to users.
fn of_users(session: &Session, raw: &RawFrame) -> Result<Asked, Code> {
    let by = session.actor();
    let (text, command): (String, fn(Actor, Handle) -> Command) = match raw.kind {
        DeactivateUser::TYPE => {
            (decode::<DeactivateUser>(raw)?.handle, |by, handle| Command::DeactivateUser { by, handle })
        }
        ReactivateUser::TYPE => {
            (decode::<ReactivateUser>(raw)?.handle, |by, handle| Command::ReactivateUser { by, handle })
        }
        DeleteUser::TYPE => (decode::<DeleteUser>(raw)?.handle, |by, handle| Command::DeleteUser { by, handle }),
        _ => (decode::<FreeHandle>(raw)?.handle, |by, handle| Command::FreeHandle { by, handle }),
    };
    let Ok(handle) = Handle::parse(&text) else { return Ok(Asked::Refuse(Code::NoSuchUser)) };
    Ok(Asked::Command(command(by, handle)))
}

/// What is done to one member of a group.
fn of_member(by: DeviceId, raw: &RawFrame) -> Result<Asked, Code> {
    let nobody = Ok(Asked::Refuse(Code::NoSuchUser));
    let command = match raw.kind {
        SetRole::TYPE => {
            let SetRole { gid: group, handle, role, .. } = decode(raw)?;
            let Ok(role) = translate::role_of(role) else { return Ok(Asked::Refuse(Code::Malformed)) };
            let Ok(handle) = Handle::parse(&handle) else { return nobody };
            Command::SetRole { by, group, handle, role }
        }
        SetMuted::TYPE => {
            let SetMuted { gid: group, handle, muted, .. } = decode(raw)?;
            let Ok(handle) = Handle::parse(&handle) else { return nobody };
            Command::SetMuted { by, group, handle, muted }
        }
        _ => {
            let SetBanned { gid: group, handle, banned, .. } = decode(raw)?;
            let Ok(handle) = Handle::parse(&handle) else { return nobody };
            Command::SetBanned { by, group, handle, banned }
        }
    };
    Ok(Asked::Command(command))
}

/// A payload that can never be stored still takes its number, so it goes to the writer with the reason.
fn send(device: DeviceId, frame: Send) -> SendCommand {
    let hash = auth::send_hash(frame.gid, &frame.payload);
    let what = match Payload::decode(&frame.payload) {
        Ok(payload) if payload.body.len() > limits::BODY_BYTES_MAX => Err(Refusal::TooLarge),
        Ok(payload) => translate::sendable(payload),
        Err(error) if error.code() == Code::TooLarge => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::Malformed),
    };
    SendCommand { device, seq: frame.seq, lowest: frame.lowest, group: frame.gid, hash, what, attached: None }
}

fn invite(shared: &Shared, session: &Session, raw: &RawFrame) -> Result<Asked, Code> {
    let code = InviteCode(auth::random().map_err(|_| Code::Busy)?);
    let hash = auth::code_hash(&code.0);
    let by = session.actor();
    let expires = |seconds: u64| clock::now_ms().saturating_add(seconds.saturating_mul(1_000));
    let command = if raw.kind == MakeInvite::TYPE {
        let MakeInvite { handle, gid, expires_s, .. } = decode(raw)?;
        let Ok(handle) = Handle::parse(&handle) else { return Ok(Asked::Refuse(Code::BadName)) };
        Command::Invite { by, handle, group: gid, code: hash, expires_ms: expires(expires_s) }
    } else {
        let AddDevice { handle, expires_s, .. } = decode(raw)?;
        let Ok(user) = handle.as_deref().map(Handle::parse).transpose() else {
            return Ok(Asked::Refuse(Code::NoSuchUser));
        };
        Command::InviteDevice { by, user, code: hash, expires_ms: expires(expires_s) }
    };
    Ok(Asked::Invite(command, shared.link(code)))
}

fn decode<F: Frame>(raw: &RawFrame) -> Result<F, Code> {
    raw.decode().map_err(|error| {
        debug!(%error, kind = raw.kind, "malformed frame");
        Code::Malformed
    })
}
