//! Handshakes over loopback, with a client that knows a pin and nothing else.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

use super::*;
use crate::server::auth;
use crate::wire::link::Pin;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn refuse(kind: io::ErrorKind) -> impl Fn(SocketAddr, Stack) -> io::Result<SocketAddr> {
    move |address, stack| if stack == Stack::Dual { Err(kind.into()) } else { Ok(address) }
}

#[test]
fn without_ipv6_the_wildcard_becomes_ipv4_and_says_so() {
    for kind in [io::ErrorKind::Unsupported, io::ErrorKind::AddrNotAvailable, io::ErrorKind::InvalidInput] {
        let (bound, families) = open_families(address("[::]:4433"), refuse(kind)).unwrap();
        assert_eq!((bound, families), (address("0.0.0.0:4433"), Families::V4));
    }
}

#[test]
fn a_taken_or_forbidden_port_is_not_tried_again_in_the_other_family() {
    let taken = open_families(address("[::]:4433"), refuse(io::ErrorKind::AddrInUse));
    assert!(matches!(taken, Err(BindError::InUse { .. })));
    let forbidden = open_families(address("[::]:443"), refuse(io::ErrorKind::PermissionDenied));
    assert!(matches!(forbidden, Err(BindError::NotAllowed { .. })));
}

#[test]
fn one_named_address_is_that_address_alone() {
    let open = |address: SocketAddr, stack: Stack| {
        assert_eq!(stack, Stack::Single);
        Ok(address)
    };
    assert_eq!(open_families(address("127.0.0.1:0"), open).unwrap().1, Families::V4);
    assert_eq!(open_families(address("[::1]:0"), open).unwrap().1, Families::V6);
}

#[test]
fn an_address_of_somebody_else_is_named() {
    let error = open_families(address("192.0.2.1:4433"), open_socket).unwrap_err();
    assert!(matches!(error, BindError::NoSuchAddress { .. }), "{error}");
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
}

#[test]
fn smaller_buffers_than_wanted_are_told_with_the_remedy() {
    let bound = |buffer_bytes| BoundAs { address: address("[::]:1"), families: Families::Both, buffer_bytes };
    assert_eq!(bound(limits::UDP_BUFFER_BYTES).small_buffers(), None);
    assert!(bound(212_992).small_buffers().unwrap().contains("208 KiB"));
}

#[tokio::test]
async fn a_second_server_on_the_port_is_told_which_port_it_is() {
    let identity = Identity::generate().unwrap();
    let (_first, bound) = bind(address("127.0.0.1:0"), &identity, &Settings::default()).unwrap();
    assert_ne!(bound.address.port(), 0);
    let error = bind(bound.address, &identity, &Settings::default()).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }));
    assert!(error.to_string().contains(&bound.address.port().to_string()), "{error}");
}

#[tokio::test]
async fn the_wildcard_takes_ipv4_too() {
    let identity = Identity::generate().unwrap();
    let (_endpoint, bound) = bind(address("[::]:0"), &identity, &Settings::default()).unwrap();
    let asks = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Long enough for a first packet, of a version that nobody speaks: the server answers which ones it does.
    let mut packet = vec![0xc0, 0xba, 0xba, 0xba, 0xba, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1];
    packet.resize(1200, 0);
    asks.send_to(&packet, (Ipv4Addr::LOCALHOST, bound.address.port())).unwrap();
    asks.set_nonblocking(true).unwrap();
    let asks = tokio::net::UdpSocket::from_std(asks).unwrap();
    let mut answer = [0; 1500];
    let answered = tokio::time::timeout(Duration::from_secs(60), asks.recv(&mut answer)).await;
    assert!(answered.unwrap().unwrap() > 0);
}

/// What a client must check: the pin of the key in the certificate, and that the handshake is signed by it.
#[derive(Debug)]
struct ByPin {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ByPin {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let spki = ring::digest::digest(&ring::digest::SHA256, parsed.subject_public_key_info().as_ref());
        if spki.as_ref() == self.pin.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn client_config(pin: Pin, protocol: &[u8]) -> quinn::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ByPin { pin, provider }))
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    tls.enable_early_data = true;
    quinn::ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap()))
}

fn client() -> Endpoint {
    Endpoint::client(address("127.0.0.1:0")).unwrap()
}

/// Connects with this configuration; gives both ends.
async fn meet(
    server: &Endpoint,
    client: &Endpoint,
    config: quinn::ClientConfig,
) -> Result<(quinn::Connection, quinn::Connection), quinn::ConnectionError> {
    let connecting = client.connect_with(config, server.local_addr().unwrap(), "gaggle").unwrap();
    let accepted = async { server.accept().await.unwrap().await };
    let (ours, theirs) = tokio::join!(connecting, accepted);
    Ok((ours?, theirs?))
}

#[tokio::test]
async fn whoever_knows_the_pin_gets_in_and_both_ends_share_an_exporter_of_their_own() {
    let identity = Identity::generate().unwrap();
    let (server, _) = bind(address("127.0.0.1:0"), &identity, &Settings::default()).unwrap();
    let client = client();
    let first = meet(&server, &client, client_config(identity.pin(), ALPN)).await.unwrap();
    let second = meet(&server, &client, client_config(identity.pin(), ALPN)).await.unwrap();
    let exporter = |end: &quinn::Connection| auth::exporter(end).unwrap();
    assert_eq!(exporter(&first.0), exporter(&first.1));
    assert_eq!(exporter(&second.0), exporter(&second.1));
    assert_ne!(exporter(&first.0), exporter(&second.0));
}

#[tokio::test]
async fn a_server_with_the_right_certificate_but_not_its_key_is_refused() {
    let identity = Identity::generate().unwrap();
    let other = Identity::generate().unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&other.private_key()).unwrap();
    let certified = CertifiedKey::new(vec![identity.certificate()], key);
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let impostor = Endpoint::server(config, address("127.0.0.1:0")).unwrap();
    let refused = meet(&impostor, &client(), client_config(identity.pin(), ALPN)).await.unwrap_err();
    assert!(refused.to_string().contains("BadSignature"), "{refused}");
}

#[tokio::test]
async fn a_server_with_another_key_is_refused() {
    let identity = Identity::generate().unwrap();
    let other = Identity::generate().unwrap();
    let (server, _) = bind(address("127.0.0.1:0"), &other, &Settings::default()).unwrap();
    let refused = meet(&server, &client(), client_config(identity.pin(), ALPN)).await.unwrap_err();
    assert!(matches!(refused, quinn::ConnectionError::TransportError(_)), "{refused}");
}

#[tokio::test]
async fn another_protocol_is_refused() {
    let identity = Identity::generate().unwrap();
    let (server, _) = bind(address("127.0.0.1:0"), &identity, &Settings::default()).unwrap();
    for protocol in [b"h3".as_slice(), b"gaggle/2"] {
        let refused = meet(&server, &client(), client_config(identity.pin(), protocol)).await.unwrap_err();
        assert!(matches!(refused, quinn::ConnectionError::ConnectionClosed(_)), "{refused}");
    }
}

#[tokio::test]
async fn no_early_data_is_taken() {
    let identity = Identity::generate().unwrap();
    let (server, bound) = bind(address("127.0.0.1:0"), &identity, &Settings::default()).unwrap();
    let (client, config) = (client(), client_config(identity.pin(), ALPN));
    let (ours, theirs) = meet(&server, &client, config.clone()).await.unwrap();
    // Something has to arrive after the handshake, so that a ticket has arrived too.
    theirs.open_uni().await.unwrap().write_all(b"ticket").await.unwrap();
    ours.accept_uni().await.unwrap().read_chunk(6, true).await.unwrap();
    let connecting = client.connect_with(config, bound.address, "gaggle").unwrap();
    assert!(connecting.into_0rtt().is_err());
}
