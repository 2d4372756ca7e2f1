//! How a connection begins: who one is, the proof of it, and everything else that can leave with it.

use bytes::Bytes;
use quinn::{Connection, Endpoint};
use ring::signature::Ed25519KeyPair;
use tokio::time::timeout;

use crate::client::connect::{Connected, Server, connect, ended};
use crate::client::error::{ConnectError, EnrolError, Refusal};
use crate::client::live::Streams;
use crate::client::options::ClientOptions;
use crate::client::profile::public_half;
use crate::client::stream::{FrameStream, StreamError, ask_bytes, refusal};
use crate::clock;
use crate::core::inbox::Pull;
use crate::ids::{DeviceId, Epoch, GroupId};
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::code::Code;
use crate::wire::codec::{self, RawFrame};
use crate::wire::frame::{
    self, Enrol, Enrolled, Extensions, Frame, Hello, ListGroups, OperatorHello, Prove, Subscribe, Welcome,
};
use crate::wire::link::InviteCode;
use crate::wire::version::MINOR;
use crate::wire::{WireError, proof};

/// Who connects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    /// A device.
    Device { device: DeviceId, epoch: Epoch, listens: bool, instance: u64, attempt: u64 },
    /// The holder of the operator key.
    Operator,
}

/// What leaves together with Hello.
#[derive(Debug, Default)]
pub(super) struct FirstFlight {
    pub(super) subscribe: Option<Subscribe>,
    pub(super) pulls: Vec<Pull>,
}

/// An accepted connection.
pub(super) struct Accepted {
    pub(super) endpoint: Endpoint,
    pub(super) connection: Connection,
    pub(super) streams: Streams,
}

/// The first frames of a connection, by their streams.
pub(super) struct Flight {
    /// Hello and its proof.
    pub(super) control: Bytes,
    /// A listener's.
    pub(super) acks: Option<Bytes>,
    /// Each on a stream of its own.
    pub(super) pages: Vec<(Pull, Bytes)>,
    /// A listener's, on a stream of its own.
    pub(super) list: Option<Bytes>,
}

impl Flight {
    /// The frames of who connects so, over a TLS session with this exporter.
    pub(super) fn new(
        exporter: &[u8; proof::EXPORTER_BYTES],
        key: &Ed25519KeyPair,
        who: Who,
        first: FirstFlight,
    ) -> Result<Flight, WireError> {
        let control = hello_bytes(exporter, key, who)?;
        let mut flight = Flight { control, acks: None, pages: Vec::new(), list: None };
        if let Some(subscribe) = &first.subscribe {
            flight.acks = Some(codec::encode(0, subscribe)?);
            for pull in first.pulls {
                flight.pages.push((pull, page_bytes(pull)?));
            }
            flight.list = Some(list_bytes(GroupId::ZERO)?);
        }
        Ok(flight)
    }
}

/// The frame that asks for a page to deliver: a large one, so that whoever is far away catches up with a busy group.
pub(super) fn page_bytes(pull: Pull) -> Result<Bytes, WireError> {
    let Pull { group: gid, after } = pull;
    let question = frame::Pull { gid, after, items: PAGE_ITEMS_MAX, deliver: true, extensions: Extensions::default() };
    codec::encode(1, &question)
}

/// The frame that asks for groups above this one.
pub(super) fn list_bytes(after: GroupId) -> Result<Bytes, WireError> {
    codec::encode(1, &ListGroups { after, extensions: Extensions::default() })
}

/// Connects and introduces oneself.
pub(super) async fn introduce(
    server: &Server,
    key: &Ed25519KeyPair,
    who: Who,
    first: FirstFlight,
    options: &ClientOptions,
) -> Result<(Welcome, Accepted), ConnectError> {
    let since = clock::monotonic();
    let connected = connect(server, options, options.connect_timeout).await?;
    let left = options.connect_timeout.saturating_sub(clock::monotonic().duration_since(since));
    let result = timeout(left, hello(server, key, who, first, connected)).await;
    let waited_ms = clock::whole_ms(options.connect_timeout);
    result.unwrap_or_else(|_| Err(ConnectError::NoAnswer { address: server.address.clone(), waited_ms }))
}

async fn hello(
    server: &Server,
    key: &Ed25519KeyPair,
    who: Who,
    first: FirstFlight,
    connected: Connected,
) -> Result<(Welcome, Accepted), ConnectError> {
    let Connected { endpoint, connection } = connected;
    let broken = |error: StreamError| broke(server, &connection, &error);
    let exporter = exporter(&connection).map_err(broken)?;
    let flight = Flight::new(&exporter, key, who, first).map_err(|error| broken(error.into()))?;
    let control = connection.open_bi().await;
    let (mut send, receive) = control.map_err(|error| ended(&server.address, &error))?;
    send.write_chunk(flight.control).await.map_err(|error| broken(StreamError::Broken(error.to_string())))?;
    let mut streams = Streams { control: (send, FrameStream::new(receive)), acks: None, pages: Vec::new(), list: None };
    if let Some(bytes) = flight.acks {
        let mut acks = connection.open_uni().await.map_err(|error| ended(&server.address, &error))?;
        acks.write_chunk(bytes).await.map_err(|error| broken(StreamError::Broken(error.to_string())))?;
        streams.acks = Some(acks);
    }
    for (pull, bytes) in flight.pages {
        streams.pages.push((pull, ask_bytes(&connection, bytes).await.map_err(broken)?));
    }
    if let Some(bytes) = flight.list {
        streams.list = Some(ask_bytes(&connection, bytes).await.map_err(broken)?);
    }
    let answer = first_answer(server, &connection, &mut streams.control.1).await?;
    let welcome = answer.decode::<Welcome>().map_err(|error| broken(error.into()))?;
    Ok((welcome, Accepted { endpoint, connection, streams }))
}

fn hello_bytes(exporter: &[u8; proof::EXPORTER_BYTES], key: &Ed25519KeyPair, who: Who) -> Result<Bytes, WireError> {
    let extensions = Extensions::default();
    let (hello, message) = match who {
        Who::Device { device, epoch, listens, instance, attempt } => {
            let hello = Hello { device, listens, instance, attempt, minor: MINOR, epoch: Some(epoch), extensions };
            (codec::encode(1, &hello)?, proof::hello(exporter, &hello)?)
        }
        Who::Operator => {
            let hello = OperatorHello { minor: MINOR, extensions };
            (codec::encode(1, &hello)?, proof::operator(exporter, &hello)?)
        }
    };
    let signature = Bytes::copy_from_slice(key.sign(&message).as_ref());
    let prove = codec::encode(1, &Prove { signature, extensions: Extensions::default() })?;
    Ok([hello, prove].concat().into())
}

fn exporter(connection: &Connection) -> Result<[u8; proof::EXPORTER_BYTES], StreamError> {
    let mut bytes = [0; proof::EXPORTER_BYTES];
    let exported = connection.export_keying_material(&mut bytes, proof::EXPORTER_LABEL, &[]);
    exported.map_err(|_| StreamError::Broken("TLS exports no keying material".to_owned()))?;
    Ok(bytes)
}

/// The first frame on control that answers; a refusal is an error.
async fn first_answer(
    server: &Server,
    connection: &Connection,
    control: &mut FrameStream,
) -> Result<RawFrame, ConnectError> {
    let frame = control.next().await.map_err(|error| broke(server, connection, &error))?;
    let silent = || StreamError::Broken("it ended the conversation without a word".to_owned());
    let frame = frame.ok_or_else(|| broke(server, connection, &silent()))?;
    accepts(frame).map_err(|error| broke(server, connection, &error.into()))?.map_err(ConnectError::Refused)
}

/// The answer to a first frame, or the refusal that it is.
pub(super) fn accepts(frame: RawFrame) -> Result<Result<RawFrame, Refusal>, WireError> {
    Ok(refusal(&frame)?.map_or(Ok(frame), Err))
}

/// What a stream that broke means: the connection's own reason says more, where it has one.
fn broke(server: &Server, connection: &Connection, error: &StreamError) -> ConnectError {
    let address = server.address.clone();
    match (error, connection.close_reason()) {
        (StreamError::Wire(error), _) => ConnectError::NotGaggle { address, cause: error.to_string() },
        (StreamError::Broken(_), Some(reason)) => ended(&address, &reason),
        (StreamError::Broken(cause), None) => ConnectError::Lost { address, cause: cause.clone() },
    }
}

/// What an enrolment says.
pub(super) struct Wish<'a> {
    pub(super) code: InviteCode,
    pub(super) handle: Option<&'a str>,
    pub(super) device_name: &'a str,
}

/// Connects and makes a device of this key.
pub(super) async fn enrol(
    server: &Server,
    key: &Ed25519KeyPair,
    wish: &Wish<'_>,
    options: &ClientOptions,
) -> Result<Enrolled, EnrolError> {
    let connected = connect(server, options, options.connect_timeout).await?;
    let result = timeout(options.request_timeout, ask_for_device(server, key, wish, &connected)).await;
    connected.connection.close(quinn::VarInt::from_u32(u32::from(Code::Goodbye.number())), b"");
    let waited_ms = clock::whole_ms(options.request_timeout);
    let silence = ConnectError::NoAnswer { address: server.address.clone(), waited_ms };
    match result.unwrap_or(Err(silence)) {
        Ok(enrolled) => Ok(enrolled),
        Err(ConnectError::Refused(refusal)) => Err(EnrolError::Refused(refusal)),
        Err(error) => Err(error.into()),
    }
}

async fn ask_for_device(
    server: &Server,
    key: &Ed25519KeyPair,
    wish: &Wish<'_>,
    connected: &Connected,
) -> Result<Enrolled, ConnectError> {
    let connection = &connected.connection;
    let broken = |error: StreamError| broke(server, connection, &error);
    let exporter = exporter(connection).map_err(broken)?;
    let bytes = enrol_bytes(&exporter, key, wish).map_err(|error| broken(error.into()))?;
    let control = connection.open_bi().await;
    let (mut send, receive) = control.map_err(|error| ended(&server.address, &error))?;
    send.write_chunk(bytes).await.map_err(|error| broken(StreamError::Broken(error.to_string())))?;
    let answer = first_answer(server, connection, &mut FrameStream::new(receive)).await?;
    decode(&answer).map_err(|error: WireError| broken(error.into()))
}

fn decode<F: Frame>(frame: &RawFrame) -> Result<F, WireError> {
    frame.decode()
}

/// The frame that asks for a device, over a TLS session with this exporter.
fn enrol_bytes(
    exporter: &[u8; proof::EXPORTER_BYTES],
    key: &Ed25519KeyPair,
    wish: &Wish<'_>,
) -> Result<Bytes, WireError> {
    let mut enrol = Enrol {
        code: Bytes::copy_from_slice(&wish.code.0),
        key: public_half(key),
        handle: wish.handle.map(str::to_owned),
        device_name: wish.device_name.to_owned(),
        minor: MINOR,
        signature: Bytes::new(),
        extensions: Extensions::default(),
    };
    let message = proof::enrol(exporter, &enrol)?;
    enrol.signature = Bytes::copy_from_slice(key.sign(&message).as_ref());
    codec::encode(1, &enrol)
}
