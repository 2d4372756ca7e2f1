//! From `host:port` to a QUIC connection with the right server, or to a failure that has a name.
//!
//! All addresses of the name are tried, each a little after the one before, and the first that completes its handshake
//! is taken. Nothing of the device is told to anybody here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, Endpoint, IdleTimeout, TransportConfig, VarInt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::error::{ConnectError, Refusal};
use crate::client::options::ClientOptions;
use crate::client::tls::{self, Distrust, Verdict};
use crate::clock;
use crate::limits::{DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX};
use crate::wire::code::{Class, Code};
use crate::wire::link::Pin;

/// How long an address is tried alone before the next one is tried beside it.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(200);
/// Names of certificates are not checked, so nothing about the server needs to be told to the network.
const SERVER_NAME: &str = "gaggle";
/// The server opens one stream at a time, and sometimes its successor.
const STREAMS_FROM_SERVER: u32 = 4;
/// Room for a page or push under way on each stream, and for a few streams together.
const STREAM_WINDOW_BYTES: u32 = 512 * 1024;
const WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// What may wait to be sent: a window of sends and some requests.
const SEND_WINDOW_BYTES: u64 = 512 * 1024;
const _: () = assert!(STREAM_WINDOW_BYTES as usize >= 2 * FRAME_BYTES_MAX && WINDOW_BYTES > STREAM_WINDOW_BYTES);
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The TLS alert of a server that speaks none of the protocols offered, as QUIC numbers it.
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// Which server, known by which pins.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// `host:port`.
    pub(super) address: String,
    /// Any of these.
    pub(super) pins: Vec<[u8; 32]>,
}

/// A connection whose server has proved its key.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) endpoint: Endpoint,
    pub(super) connection: quinn::Connection,
}

/// Connects, within this time.
pub(super) async fn connect(
    server: &Server,
    options: &ClientOptions,
    within: Duration,
) -> Result<Connected, ConnectError> {
    let since = clock::monotonic();
    let verdict = Verdict::default();
    let result = timeout(within, try_all(server, options, &verdict)).await;
    match result {
        Ok(Ok(connected)) => Ok(connected),
        // An idle timeout shorter than the patience here ends an attempt by itself: silence all the same.
        Ok(Err(Attempt::Silence)) | Err(_) => {
            let waited_ms = clock::whole_ms(clock::monotonic().duration_since(since));
            Err(ConnectError::NoAnswer { address: server.address.clone(), waited_ms })
        }
        Ok(Err(Attempt::Failed(error))) => Err(error),
    }
}

/// Why no address led to the server.
enum Attempt {
    /// Nothing ever came back.
    Silence,
    /// Something that has a name.
    Failed(ConnectError),
}

impl From<ConnectError> for Attempt {
    fn from(error: ConnectError) -> Attempt {
        Attempt::Failed(error)
    }
}

async fn try_all(server: &Server, options: &ClientOptions, verdict: &Verdict) -> Result<Connected, Attempt> {
    let addresses = resolve(&server.address).await?;
    let endpoint = endpoint(&addresses)?;
    let config = config(server, options, verdict)?;
    let mut attempts = JoinSet::new();
    let mut left = addresses.into_iter();
    let mut worst = None;
    loop {
        let next = left.next();
        if let Some(address) = next {
            match endpoint.connect_with(config.clone(), address, SERVER_NAME) {
                Ok(connecting) => drop(attempts.spawn(connecting)),
                Err(error) => worst = Some(ConnectError::NoSocket { cause: error.to_string() }.into()),
            }
        } else if attempts.is_empty() {
            let none = ConnectError::NoSuchHost { address: server.address.clone(), cause: "no address".to_owned() };
            return Err(worst.unwrap_or(none.into()));
        }
        let patience = if left.len() > 0 { NEXT_ADDRESS_AFTER } else { Duration::from_secs(3600) };
        match timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(connection)))) => return Ok(Connected { endpoint, connection }),
            Ok(Some(Ok(Err(error)))) => worst = Some(worse(worst, failure(server, verdict, &error))),
            Ok(Some(Err(error))) => worst = Some(ConnectError::NoSocket { cause: error.to_string() }.into()),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Of two failures the one that says more: silence says least.
fn worse(known: Option<Attempt>, new: Attempt) -> Attempt {
    match known {
        Some(known @ Attempt::Failed(_)) => known,
        Some(Attempt::Silence) | None => new,
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, ConnectError> {
    let unknown = |cause: String| ConnectError::NoSuchHost { address: address.to_owned(), cause };
    let found: Vec<SocketAddr> =
        tokio::net::lookup_host(address).await.map_err(|error| unknown(error.to_string()))?.collect();
    if found.is_empty() { Err(unknown("the name has no address".to_owned())) } else { Ok(found) }
}

/// One socket for all addresses: of both kinds where the system has it.
fn endpoint(addresses: &[SocketAddr]) -> Result<Endpoint, ConnectError> {
    let failed = |error: std::io::Error| ConnectError::NoSocket { cause: error.to_string() };
    let four = || Endpoint::client(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
    if addresses.iter().all(SocketAddr::is_ipv4) {
        return four().map_err(failed);
    }
    let six = Endpoint::client(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0));
    six.or_else(|_| four()).map_err(failed)
}

fn config(server: &Server, options: &ClientOptions, verdict: &Verdict) -> Result<ClientConfig, ConnectError> {
    let broken = |cause: String| ConnectError::NoSocket { cause };
    let tls = tls::config(&server.pins, verdict.clone()).map_err(|error| broken(error.to_string()))?;
    let tls = QuicClientConfig::try_from(tls).map_err(|error| broken(error.to_string()))?;
    let idle = IdleTimeout::try_from(options.idle_timeout).map_err(|error| broken(error.to_string()))?;
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(options.keep_alive))
        .initial_rtt(INITIAL_RTT)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS_FROM_SERVER))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .datagram_receive_buffer_size(Some(DATAGRAM_BYTES_MAX))
        .datagram_send_buffer_size(DATAGRAM_BYTES_MAX);
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

fn failure(server: &Server, verdict: &Verdict, error: &ConnectionError) -> Attempt {
    let address = server.address.clone();
    let failed = match verdict.distrust() {
        Some(Distrust::OtherKey(found)) => {
            let expected = server.pins.first().map(|pin| Pin(*pin).to_string()).unwrap_or_default();
            ConnectError::WrongPin { address, expected, found: Pin(found).to_string() }
        }
        Some(Distrust::NoKey) => ConnectError::NoProof { address },
        None if *error == ConnectionError::TimedOut => return Attempt::Silence,
        None => ended(&address, error),
    };
    Attempt::Failed(failed)
}

/// What the end of a connection means that was closed from here because the server broke the protocol. It may do better
/// at the next one.
pub(super) fn given_up(address: &str) -> ConnectError {
    ConnectError::Lost { address: address.to_owned(), cause: "what it sent makes no sense".to_owned() }
}

/// What the end of a connection means.
pub(super) fn ended(address: &str, error: &ConnectionError) -> ConnectError {
    let address = address.to_owned();
    let lost = |cause: String| ConnectError::Lost { address: address.clone(), cause };
    match error {
        ConnectionError::VersionMismatch => {
            ConnectError::NotGaggle { address, cause: "it speaks another version of QUIC".to_owned() }
        }
        // Which of the two it is depends on who noticed first.
        ConnectionError::TransportError(error) if u64::from(error.code) == NO_APPLICATION_PROTOCOL => {
            ConnectError::NotGaggle { address, cause: "it has no common protocol with this program".to_owned() }
        }
        ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == NO_APPLICATION_PROTOCOL => {
            ConnectError::NotGaggle { address, cause: "it has no common protocol with this program".to_owned() }
        }
        ConnectionError::TransportError(error) => lost(error.to_string()),
        ConnectionError::ConnectionClosed(close) => lost(close.to_string()),
        ConnectionError::ApplicationClosed(close) => {
            let number = u16::try_from(close.error_code.into_inner()).unwrap_or(0);
            let detail = String::from_utf8_lossy(&close.reason).into_owned();
            let class = Code::from_number(number).map_or(Class::NotDone, Code::class);
            ConnectError::Refused(Refusal { number, class, retry_after_ms: 0, detail })
        }
        ConnectionError::Reset => lost("the server does not know this connection any more".to_owned()),
        ConnectionError::TimedOut => lost("nothing came from it for too long".to_owned()),
        ConnectionError::LocallyClosed => ConnectError::Closed,
        ConnectionError::CidsExhausted => lost(error.to_string()),
    }
}
