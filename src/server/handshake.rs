//! Who is there: Hello, Enrol or the operator key, each with its proof over the TLS exporter.
//!
//! Decides nothing about groups. A device is looked up in the committed view; an enrolment goes through the writer
//! like every other change.

use std::sync::Arc;

use bytes::Bytes;
use quinn::{Connection, SendStream};

use crate::core::command::{Answer, Command};
use crate::core::rows::{DeviceKey, Handle};
use crate::core::state::may_come_in;
use crate::ids::{ClientSeq, UserId};
use crate::limits;
use crate::server::admission::{Permit, Who};
use crate::server::connection::Refused;
use crate::server::listening::Listening;
use crate::server::peer::Peer;
use crate::server::registry::Instance;
use crate::server::request::Outcome as Decision;
use crate::server::session::Session;
use crate::server::streams::FrameStream;
use crate::server::{Shared, auth, translate};
use crate::wire::code::Code;
use crate::wire::codec::{self, RawFrame};
use crate::wire::frame::{Enrol, Enrolled, Extensions, Frame, Hello, OperatorHello, Prove, Welcome};
use crate::wire::{proof, version};

/// What came of the first frames.
pub(crate) enum Outcome {
    /// A connection to be served.
    Session(Parts),
    /// A device was made; this is the answer, and nothing follows.
    Enrolled(Bytes),
}

/// What a session begins with.
pub(crate) struct Parts {
    /// The session.
    pub(crate) session: Arc<Session>,
    /// The request number of its Hello.
    pub(crate) request: u32,
    /// The encoded Welcome.
    pub(crate) welcome: Bytes,
    /// What a listener said of itself.
    pub(crate) instance: Option<Instance>,
}

/// An identified connection with its control stream.
pub(crate) struct Identified {
    /// What its session begins with.
    pub(crate) parts: Parts,
    /// The control stream, to the peer.
    pub(crate) send: SendStream,
    /// The control stream, from the peer.
    pub(crate) frames: FrameStream,
}

/// Reads the first frames of the control stream and checks them.
pub(crate) async fn identify(
    shared: &Arc<Shared>,
    connection: &Connection,
    frames: &mut FrameStream,
    permit: &mut Permit,
) -> Result<Outcome, Refused> {
    let first = frame(frames).await?;
    let peer = || Box::new(connection.clone()) as Box<dyn Peer>;
    let came = match first.kind {
        Hello::TYPE => {
            let prove = prove(frames).await?;
            let check = |label: &[u8], key: &DeviceKey| check_proof(connection, label, &first, key, &prove);
            hello(shared, &first, check, permit, peer()).map(Outcome::Session)
        }
        OperatorHello::TYPE => {
            let prove = prove(frames).await?;
            let check = |label: &[u8], key: &DeviceKey| check_proof(connection, label, &first, key, &prove);
            operator(shared, &first, check, permit, peer()).map(Outcome::Session)
        }
        Enrol::TYPE => match enrol(&first, |enrol, key| check_enrol(connection, enrol, key)) {
            Ok(command) => {
                let decision = shared.commands.ask(command).await;
                enrolled(shared, first.request, decision).map(Outcome::Enrolled)
            }
            Err(code) => Err(code),
        },
        _ => Err(Code::Malformed),
    };
    came.map_err(|code| answering(&first, code))
}

/// The frame that says why.
pub(crate) fn refusal(refused: &Refused) -> Bytes {
    translate::error(refused.request, refused.code, 0, &refused.detail)
}

/// Why the peer that sent this frame is refused.
pub(crate) fn answering(frame: &RawFrame, code: Code) -> Refused {
    Refused { request: frame.request, ..Refused::from(code) }
}

async fn frame(frames: &mut FrameStream) -> Result<RawFrame, Refused> {
    match frames.next().await {
        Ok(Some(frame)) => Ok(frame),
        Ok(None) => Err(Code::Goodbye.into()),
        Err(error) => Err(error.code().unwrap_or(Code::Goodbye).into()),
    }
}

async fn prove(frames: &mut FrameStream) -> Result<Prove, Refused> {
    let raw = frame(frames).await?;
    if raw.kind != Prove::TYPE {
        return Err(Code::Malformed.into());
    }
    raw.decode().map_err(|_| Code::Malformed.into())
}

/// Lets a device in that says this Hello. `check` says whether the peer has proved that it holds a key, under a label.
pub(crate) fn hello(
    shared: &Shared,
    raw: &RawFrame,
    check: impl FnOnce(&[u8], &DeviceKey) -> Result<(), Code>,
    permit: &mut Permit,
    peer: Box<dyn Peer>,
) -> Result<Parts, Code> {
    let hello: Hello = raw.decode().map_err(|_| Code::Malformed)?;
    check_minor(hello.minor)?;
    let device = hello.device;
    let view = shared.view.read();
    let row = view.tables.device(device).ok_or(Code::UnknownDevice)?;
    check(proof::LABEL_HELLO, &row.key)?;
    let user = view.tables.user(row.user);
    may_come_in(row, user).map_err(translate::code)?;
    if hello.epoch.is_some_and(|epoch| epoch != shared.epoch) {
        return Err(Code::OtherHistory);
    }
    let user = user.ok_or(Code::UnknownDevice)?;
    let who = if hello.listens { Who::Listener(row.user, device) } else { Who::Caller(row.user, device) };
    permit.identify(who).map_err(|_| Code::TooManyConnections)?;
    let welcome = Welcome {
        user: row.user,
        handle: user.handle.as_str().to_owned(),
        operator: user.operator,
        highest_send: view.tables.window(device).unwrap_or_default().highest,
        ..welcome(shared)
    };
    let listening = hello.listens.then(|| Listening::new(row.user, device));
    let user = row.user;
    drop(view);
    let session = Session::new(shared.next_session(), Some(device), user, peer, listening);
    let instance = hello.listens.then_some(Instance { instance: hello.instance, attempt: hello.attempt });
    parts(session, &welcome, raw.request, instance)
}

/// Lets the holder of the operator key in.
pub(crate) fn operator(
    shared: &Shared,
    raw: &RawFrame,
    check: impl FnOnce(&[u8], &DeviceKey) -> Result<(), Code>,
    permit: &mut Permit,
    peer: Box<dyn Peer>,
) -> Result<Parts, Code> {
    let hello: OperatorHello = raw.decode().map_err(|_| Code::Malformed)?;
    check_minor(hello.minor)?;
    check(proof::LABEL_OPERATOR, &shared.operator_key)?;
    permit.identify(Who::Operator).map_err(|_| Code::TooManyConnections)?;
    let welcome = Welcome { operator: true, ..welcome(shared) };
    let session = Session::new(shared.next_session(), None, UserId::ZERO, peer, None);
    parts(session, &welcome, raw.request, None)
}

/// Whether the peer has signed this frame with this key. A proof that does not fit is answered like a device that does
/// not exist.
fn check_proof(
    connection: &Connection,
    label: &[u8],
    raw: &RawFrame,
    key: &DeviceKey,
    prove: &Prove,
) -> Result<(), Code> {
    let exporter = auth::exporter(connection).map_err(|_| Code::Malformed)?;
    let message = proof::message(label, &exporter, &raw.body);
    auth::verify(key, &message, &prove.signature).map_err(|_| Code::UnknownDevice)
}

fn parts(session: Session, welcome: &Welcome, request: u32, instance: Option<Instance>) -> Result<Parts, Code> {
    let welcome = codec::encode(request, welcome).map_err(|_| Code::OutcomeUnknown)?;
    Ok(Parts { session: Arc::new(session), request, welcome, instance })
}

/// The command of a peer that wants to be enrolled. `check` says whether it has proved that it holds the key.
pub(crate) fn enrol(
    raw: &RawFrame,
    check: impl FnOnce(&Enrol, &DeviceKey) -> Result<(), Code>,
) -> Result<Command, Code> {
    let enrol: Enrol = raw.decode().map_err(|_| Code::Malformed)?;
    check_minor(enrol.minor)?;
    let key: [u8; 32] = enrol.key.as_ref().try_into().map_err(|_| Code::Malformed)?;
    let key = DeviceKey(key);
    check(&enrol, &key)?;
    let handle = enrol.handle.as_deref().map(Handle::parse).transpose().map_err(|_| Code::BadName)?;
    let code = auth::code_hash(&enrol.code);
    Ok(Command::Enrol { code, key, handle, device_name: enrol.device_name })
}

fn check_enrol(connection: &Connection, enrol: &Enrol, key: &DeviceKey) -> Result<(), Code> {
    let exporter = auth::exporter(connection).map_err(|_| Code::Malformed)?;
    let message = proof::enrol(&exporter, enrol).map_err(|_| Code::Malformed)?;
    auth::verify(key, &message, &enrol.signature).map_err(|_| Code::Malformed)
}

/// The answer to who wants to be enrolled.
pub(crate) fn enrolled(shared: &Shared, request: u32, decision: Decision) -> Result<Bytes, Code> {
    match decision {
        Decision::Decided(Answer::Enrolled { device, user, handle }) => {
            let answer = Enrolled {
                device,
                user,
                handle: handle.as_str().to_owned(),
                epoch: shared.epoch,
                extensions: Extensions::default(),
            };
            codec::encode(request, &answer).map_err(|_| Code::OutcomeUnknown)
        }
        Decision::Decided(Answer::Refused(why)) => Err(translate::code(why)),
        Decision::Decided(_) => Err(Code::OutcomeUnknown),
        Decision::Failed(code) => Err(code),
    }
}

fn check_minor(minor: u16) -> Result<(), Code> {
    #[allow(clippy::absurd_extreme_comparisons, reason = "true only as long as the lowest minor version is zero")]
    let too_old = minor < version::MINOR_MIN;
    if too_old { Err(Code::ClientTooOld) } else { Ok(()) }
}

/// A Welcome with everything that is the same for all.
fn welcome(shared: &Shared) -> Welcome {
    let bound = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Welcome {
        minor: version::MINOR,
        user: UserId::ZERO,
        handle: String::new(),
        operator: false,
        epoch: shared.epoch,
        epochs_before: Vec::new(),
        body_bytes_max: bound(limits::BODY_BYTES_MAX),
        sends_unanswered_max: u32::try_from(limits::SENDS_UNANSWERED_MAX).unwrap_or(u32::MAX),
        sends_unanswered_bytes_max: bound(limits::SENDS_UNANSWERED_BYTES_MAX),
        credit_items: limits::CREDIT_ITEMS_START,
        credit_bytes: limits::CREDIT_BYTES_START,
        highest_send: ClientSeq::ZERO,
        pins: shared.pins.clone(),
        time_ms: crate::clock::now_ms(),
        extensions: Extensions::default(),
    }
}
