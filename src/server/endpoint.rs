//! The one UDP port: socket, TLS and transport settings, and how they come together in a quinn endpoint.
//!
//! The settings are measured ones; their values stand in [`crate::limits`]. TLS is 1.3 by ring, the only protocol is
//! [`ALPN`], and no early data is taken. An unspecified IPv6 address means both families where the system can, else
//! IPv4, and [`BoundAs`] says which. Who is let in is [`crate::server::admission`]'s business.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits;
use crate::server::identity::Identity;
use crate::wire::version::ALPN;

/// What can differ between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// A connection on which nothing comes for this long is given up, in ms.
    pub idle_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { idle_ms: limits::IDLE_MS_MAX }
    }
}

/// Which families the port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// IPv6 and IPv4.
    Both,
    /// IPv6 alone.
    V6,
    /// IPv4 alone.
    V4,
}

impl fmt::Display for Families {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Families::Both => "IPv4 and IPv6",
            Families::V6 => "IPv6 only",
            Families::V4 => "IPv4 only",
        })
    }
}

/// What came of binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundAs {
    /// Address and port; never port 0.
    pub address: SocketAddr,
    /// Which families it takes.
    pub families: Families,
    /// The smaller of the socket's two buffers as the system granted it, in bytes.
    pub buffer_bytes: usize,
}

impl BoundAs {
    /// Words for the log where the system granted smaller buffers than wanted.
    #[must_use]
    pub fn small_buffers(&self) -> Option<String> {
        (self.buffer_bytes < limits::UDP_BUFFER_BYTES).then(|| {
            format!(
                "the system grants UDP buffers of {} KiB, not {} KiB, which costs speed with many members: \
                 sysctl -w net.core.rmem_max={bytes} net.core.wmem_max={bytes}",
                self.buffer_bytes / 1024,
                limits::UDP_BUFFER_BYTES / 1024,
                bytes = limits::UDP_BUFFER_BYTES,
            )
        })
    }
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody has the port.
    #[error(
        "UDP port {} of {} is in use: another server runs there; stop it, or choose another port with --listen",
        address.port(), address.ip()
    )]
    InUse {
        /// What was asked for.
        address: SocketAddr,
    },
    /// The port is a privileged one.
    #[error(
        "not allowed to use UDP port {}: ports below 1024 need a right that this user does not have \
         (setcap cap_net_bind_service=+ep on the program), or choose another port with --listen",
        address.port()
    )]
    NotAllowed {
        /// What was asked for.
        address: SocketAddr,
    },
    /// The address is not this machine's.
    #[error("{} is not an address of this machine; --listen [::]:{} takes all of them", address.ip(), address.port())]
    NoSuchAddress {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Something else.
    #[error("failed to listen on {address}: {source}")]
    Socket {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The key does not do for TLS.
    #[error("the server's key cannot be used for TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The TLS library lacks what QUIC starts with.
    #[error("the TLS library lacks the cipher suite that QUIC starts with")]
    NoInitialSuite,
}

/// The shortest time between two answers to connections that nobody knows: after a restart thousands may come at once.
/// Each is smaller than what it answers.
const RESET_INTERVAL: Duration = Duration::from_millis(1);

/// Binds the port and makes the endpoint; must be called inside the runtime that will drive it.
///
/// # Errors
/// Where the port cannot be had, or the key does not do.
pub fn bind(listen: SocketAddr, identity: &Identity, settings: &Settings) -> Result<(Endpoint, BoundAs), BindError> {
    let config = server_config(identity, settings)?;
    let (socket, families) = open_families(listen, open_socket)?;
    let failed = |source| BindError::Socket { address: listen, source };
    let buffer_bytes = grow_buffers(&socket);
    let address = socket.local_addr().map_err(failed)?;
    let endpoint =
        Endpoint::new(endpoint_config(identity), Some(config), socket, Arc::new(TokioRuntime)).map_err(failed)?;
    Ok((endpoint, BoundAs { address, families, buffer_bytes }))
}

/// Connection ids and reset tokens are made from the server's key, so that a server that was killed tells the clients of
/// the process before it that their connections are gone (RFC 9000, 10.3). Without it they would wait for their idle
/// timeout.
fn endpoint_config(identity: &Identity) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(identity.derived_key(b"stateless reset")));
    let mut cid_key = [0; 8];
    let tag = hmac::sign(&identity.derived_key(b"connection ids"), b"");
    for (to, from) in cid_key.iter_mut().zip(tag.as_ref()) {
        *to = *from;
    }
    let cid_key = u64::from_be_bytes(cid_key);
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(cid_key)));
    config.min_reset_interval(RESET_INTERVAL);
    config
}

/// TLS and transport as the server speaks them.
///
/// # Errors
/// Where the key does not do for TLS.
pub fn server_config(identity: &Identity, settings: &Settings) -> Result<ServerConfig, BindError> {
    let crypto = QuicServerConfig::try_from(tls(identity)?).map_err(|_| BindError::NoInitialSuite)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(Arc::new(transport(settings)))
        .max_incoming(limits::INCOMING_QUEUED_MAX)
        .incoming_buffer_size(limits::INCOMING_BYTES_MAX)
        .incoming_buffer_size_total(limits::INCOMING_BYTES_TOTAL_MAX);
    Ok(config)
}

fn tls(identity: &Identity) -> Result<rustls::ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate()], identity.private_key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.max_early_data_size = 0;
    Ok(tls)
}

fn transport(settings: &Settings) -> TransportConfig {
    // An idle timeout beyond what QUIC can say cannot be configured; none at all would be worse than the longest.
    let idle = VarInt::from_u64(settings.idle_ms).unwrap_or(VarInt::MAX);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(limits::STREAMS_BIDI_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(limits::STREAMS_UNI_MAX))
        .stream_receive_window(VarInt::from_u32(limits::STREAM_RECEIVE_BYTES_MAX))
        .receive_window(VarInt::from_u32(limits::CONNECTION_RECEIVE_BYTES_MAX))
        .send_window(limits::CONNECTION_SEND_BYTES_MAX)
        .initial_rtt(Duration::from_millis(limits::INITIAL_RTT_MS))
        .max_idle_timeout(Some(IdleTimeout::from(idle)))
        .datagram_receive_buffer_size(Some(limits::DATAGRAM_BYTES_MAX))
        .datagram_send_buffer_size(limits::DATAGRAM_BYTES_MAX)
        .congestion_controller_factory(Arc::new(CubicConfig::default()));
    transport
}

/// Whether an IPv6 socket is to take IPv4 too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stack {
    Dual,
    Single,
}

/// Opens the address with as many families as the system gives: both for `[::]`, else IPv4 in its place.
fn open_families<S>(
    listen: SocketAddr,
    open: impl Fn(SocketAddr, Stack) -> io::Result<S>,
) -> Result<(S, Families), BindError> {
    let wants_all = listen.ip() == IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
    if !wants_all {
        let families = if listen.is_ipv4() { Families::V4 } else { Families::V6 };
        return open(listen, Stack::Single).map(|socket| (socket, families)).map_err(|source| why(listen, source));
    }
    match open(listen, Stack::Dual) {
        Ok(socket) => Ok((socket, Families::Both)),
        // A port that is taken or not allowed is so in both families; anything else says that IPv6 is not there.
        Err(source) if matches!(source.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) => {
            Err(why(listen, source))
        }
        Err(_) => {
            let listen = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), listen.port());
            open(listen, Stack::Single).map(|socket| (socket, Families::V4)).map_err(|source| why(listen, source))
        }
    }
}

fn why(address: SocketAddr, source: io::Error) -> BindError {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the system's list of errors is open; the rest is told as it is")]
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        io::ErrorKind::PermissionDenied => BindError::NotAllowed { address },
        io::ErrorKind::AddrNotAvailable => BindError::NoSuchAddress { address },
        _ => BindError::Socket { address, source },
    }
}

fn open_socket(address: SocketAddr, stack: Stack) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(stack == Stack::Single)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Asks for large buffers; gives the smaller of the two as granted. A system that refuses keeps its own sizes.
fn grow_buffers(socket: &UdpSocket) -> usize {
    let socket = socket2::SockRef::from(socket);
    let asked =
        [socket.set_recv_buffer_size(limits::UDP_BUFFER_BYTES), socket.set_send_buffer_size(limits::UDP_BUFFER_BYTES)];
    if let Some(error) = asked.into_iter().find_map(Result::err) {
        tracing::debug!(%error, "the system keeps its own UDP buffer sizes");
    }
    // Linux reports twice what it grants, the other half being for its own bookkeeping.
    let doubled = if cfg!(target_os = "linux") { 2 } else { 1 };
    let granted = |size: io::Result<usize>| size.map_or(0, |size| size / doubled);
    granted(socket.recv_buffer_size()).min(granted(socket.send_buffer_size()))
}

#[cfg(test)]
mod tests;
