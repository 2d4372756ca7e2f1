//! Whom a client tells what: servers that are not the right one, networks that lead nowhere, invites that open nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gaggle::client::{Client, ConnectError, EnrolError, Event, Failure, Profile, RequestError};
use gaggle::server::identity::Identity;
use gaggle::wire::code::Code;
use gaggle::wire::version::ALPN;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, RecvStream};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::net::UdpSocket;
use tokio::time::Instant;

use crate::harness::{Site, quick};
use crate::raw::{Raw, soon};
use crate::relay::Relay;

/// What is promised: a clear error in so much time.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);

/// Something at the other end that is not the server, and keeps every byte that it is told.
struct Impostor {
    address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
    task: tokio::task::JoinHandle<()>,
}

/// What an impostor could decrypt.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Heard {
    /// Connections that were tried.
    attempts: usize,
    /// Connections that the client completed.
    connections: usize,
    /// Everything that came on streams and in datagrams.
    bytes: Vec<u8>,
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Impostor {
    /// Shows this certificate, signs with this key, and speaks this protocol.
    fn start(certificate: CertificateDer<'static>, key: &PrivateKeyDer<'static>, protocol: &[u8]) -> Impostor {
        let key = rustls::crypto::ring::sign::any_supported_type(key).unwrap();
        let certified = CertifiedKey::new(vec![certificate], key);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        tls.alpn_protocols = vec![protocol.to_vec()];
        tls.max_early_data_size = u32::MAX;
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let config = quinn::ServerConfig::with_crypto(crypto);
        let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = endpoint.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hears = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                hears.lock().unwrap().attempts += 1;
                tokio::spawn(hear(incoming, Arc::clone(&hears)));
            }
        });
        Impostor { address, heard, task }
    }

    /// What it was told, once nobody is connected any more.
    fn heard(&self) -> Heard {
        self.heard.lock().unwrap().clone()
    }
}

/// Reads whatever comes, from as early on as TLS permits.
async fn hear(incoming: Incoming, heard: Arc<Mutex<Heard>>) {
    let Ok(connecting) = incoming.accept() else { return };
    let Ok((connection, completed)) = connecting.into_0rtt() else { return };
    let counts = Arc::clone(&heard);
    tokio::spawn(async move {
        if completed.await {
            counts.lock().unwrap().connections += 1;
        }
    });
    loop {
        let stream = tokio::select! {
            stream = connection.accept_bi() => stream.map(|(_, receive)| receive),
            stream = connection.accept_uni() => stream,
            datagram = connection.read_datagram() => {
                let Ok(datagram) = datagram else { return };
                heard.lock().unwrap().bytes.extend(datagram);
                continue;
            }
        };
        let Ok(stream) = stream else { return };
        tokio::spawn(keep(stream, Arc::clone(&heard)));
    }
}

async fn keep(mut stream: RecvStream, heard: Arc<Mutex<Heard>>) {
    while let Ok(Some(chunk)) = stream.read_chunk(65_536, true).await {
        heard.lock().unwrap().bytes.extend_from_slice(&chunk.bytes);
    }
}

/// The certificate that a server shows to anybody.
async fn certificate_of(server: SocketAddr) -> CertificateDer<'static> {
    let raw = Raw::connect(server).await;
    let shown = raw.connection.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
    shown[0].clone()
}

async fn enrol(profile: &Profile, link: &str, handle: Option<&str>) -> Result<(), EnrolError> {
    let since = Instant::now();
    let answer = Client::enrol(profile, link, handle, "test", &quick()).await.map(drop);
    assert!(since.elapsed() < CLEAR_WITHIN, "{answer:?} after {:?}", since.elapsed());
    answer
}

#[track_caller]
fn connect_error(answer: Result<(), EnrolError>) -> ConnectError {
    match answer {
        Err(EnrolError::Connect(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Scenario 40: a server that shows the right certificate without having its key: refused, and not one byte was told.
#[tokio::test]
async fn a_server_with_the_right_certificate_but_without_its_key_is_told_nothing() {
    let site = Site::start().await;
    let other = Identity::generate().unwrap();
    let impostor = Impostor::start(certificate_of(site.address()).await, &other.private_key(), ALPN);
    let profile = site.new_profile("ada");
    let link = site.at(&site.first_link(), impostor.address);
    for _ in 0..3 {
        let error = connect_error(enrol(&profile, &link, Some("ada")).await);
        assert!(matches!(error, ConnectError::NoProof { .. }), "{error}");
        assert_eq!(error.failure(), Failure::Refused);
        assert!(error.to_string().contains(&impostor.address.to_string()), "it names who: {error}");
    }
    assert_eq!(impostor.heard(), Heard { attempts: 3, connections: 0, bytes: Vec::new() });
    // The code is as good as it was: nobody saw it.
    enrol(&profile, &site.first_link(), Some("ada")).await.unwrap();
}

/// Scenario 40: a server with another key: refused, and not one byte was told, by a profile that has a device already either.
#[tokio::test]
async fn a_server_with_another_key_is_told_nothing() {
    let mut site = Site::start().await;
    let other = Identity::generate().unwrap();
    let impostor = Impostor::start(other.certificate(), &other.private_key(), ALPN);
    let profile = site.new_profile("ada");
    let error = connect_error(enrol(&profile, &site.at(&site.first_link(), impostor.address), Some("ada")).await);
    match &error {
        ConnectError::WrongPin { expected, found, .. } => {
            assert_eq!((expected, found), (&site.pin().to_string(), &other.pin().to_string()));
        }
        other => panic!("{other}"),
    }
    enrol(&profile, &site.first_link(), Some("ada")).await.unwrap();

    // Later the way to the server leads to somebody else.
    let way = Relay::new(site.address(), 40).way().await;
    let ada = Client::open(&profile, quick()).await.unwrap();
    let link = ada.add_device(None, Duration::from_secs(60)).await.unwrap().link;
    let phone = site.new_profile("ada");
    enrol(&phone, &site.at(&link, way.address()), None).await.unwrap();
    way.lead_to(impostor.address).await;
    let phone = Client::open(&phone, quick()).await.unwrap();
    let since = Instant::now();
    let refused = phone.connected().await.unwrap_err();
    assert!(since.elapsed() < CLEAR_WITHIN);
    assert!(matches!(refused, ConnectError::WrongPin { .. }), "{refused}");
    let asked = phone.groups().await.unwrap_err();
    assert!(matches!(asked, RequestError::Connect(ConnectError::WrongPin { .. })), "{asked}");
    let heard = impostor.heard();
    assert!(heard.attempts >= 2 && heard.connections == 0 && heard.bytes.is_empty(), "{heard:?}");
    site.stop().await;
}

/// Scenario 40: UDP goes nowhere: one clear error in under 5 s that names the cause, and nothing was sent that matters.
#[tokio::test]
async fn a_network_that_swallows_udp_is_named_as_the_cause() {
    let site = Site::start().await;
    let way = Relay::new(site.address(), 40).way().await;
    way.cut();
    let profile = site.new_profile("ada");
    let error = connect_error(enrol(&profile, &site.at(&site.first_link(), way.address()), Some("ada")).await);
    assert!(matches!(error, ConnectError::NoAnswer { .. }), "{error}");
    assert_eq!(error.failure(), Failure::Temporary);
    let told = error.to_string();
    assert!(told.contains("UDP") && told.contains(&way.address().to_string()), "{told}");
    assert_eq!(way.passed(), (0, 0));
    // The same link again, over a network that works, finishes it.
    way.heal();
    enrol(&profile, &site.at(&site.first_link(), way.address()), Some("ada")).await.unwrap();

    // A profile that has a device is told the same, by whatever it asks, and goes on when the network is back.
    way.sever();
    way.cut();
    let ada = Client::open(&profile, quick()).await.unwrap();
    let since = Instant::now();
    let refused = ada.connected().await.unwrap_err();
    assert!(since.elapsed() < CLEAR_WITHIN);
    assert!(matches!(refused, ConnectError::NoAnswer { .. }), "{refused}");
    way.heal();
    ada.groups().await.unwrap();
}

/// Scenario 40: something that answers, but is no such server: said in under 5 s.
#[tokio::test]
async fn what_is_no_gaggle_server_is_said_to_be_none() {
    let site = Site::start().await;
    let other = Identity::generate().unwrap();
    let web = Impostor::start(other.certificate(), &other.private_key(), b"h3");
    let error =
        connect_error(enrol(&site.new_profile("a"), &site.at(&site.first_link(), web.address), Some("a")).await);
    assert!(matches!(error, ConnectError::NotGaggle { .. }), "{error}");
    assert!(web.heard().bytes.is_empty());

    // Something that throws its own bytes back.
    let echo = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = echo.local_addr().unwrap();
    let echoes = tokio::spawn(async move {
        let mut packet = [0; 2_048];
        while let Ok((bytes, from)) = echo.recv_from(&mut packet).await {
            packet[..bytes].reverse();
            drop(echo.send_to(&packet[..bytes], from).await);
        }
    });
    let error = connect_error(enrol(&site.new_profile("a"), &site.at(&site.first_link(), address), Some("a")).await);
    assert_ne!(error.failure(), Failure::Refused, "{error}");
    echoes.abort();

    // A name that leads nowhere, and a link that is none.
    let nowhere = site.first_link().replace(&site.address().to_string(), "gaggle.invalid:1");
    let error = connect_error(enrol(&site.new_profile("a"), &nowhere, Some("a")).await);
    assert!(matches!(error, ConnectError::NoSuchHost { .. }), "{error}");
    for link in ["", "gaggle://", "https://example.org/", &site.first_link()[..40]] {
        let error = enrol(&site.new_profile("a"), link, Some("a")).await.unwrap_err();
        assert!(matches!(error, EnrolError::BadLink(_)), "{link}: {error}");
    }
}

/// Scenario 40: an expired invite: said in under 5 s, for good, and the profile is free for another.
#[tokio::test]
async fn an_expired_invite_is_named_as_such_and_frees_the_profile() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let expired = ada.client.invite("bob", None, Duration::ZERO).await.unwrap();
    let profile = site.new_profile("bob");
    match enrol(&profile, &site.at(&expired.link, site.address()), None).await {
        Err(EnrolError::Refused(refusal)) => {
            assert!(refusal.is(Code::InviteExpired), "{refusal}");
            assert_eq!(refusal.failure(), Failure::Refused);
        }
        other => panic!("{other:?}"),
    }
    let invite = ada.client.invite("bob", None, Duration::from_secs(60)).await.unwrap();
    enrol(&profile, &site.at(&invite.link, site.address()), None).await.unwrap();
    assert_eq!(profile.account().unwrap().handle, "bob");
}

/// A server that was told to stop says so, and its clients come back by themselves once it is there again.
#[tokio::test]
async fn clients_of_a_server_that_stops_are_told_and_come_back() {
    let mut site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let mut tail = ada.tail().await;
    tail.until("the group", |tail| !tail.received.is_empty()).await;
    site.stop().await;
    tail.until("the reason", |tail| {
        tail.events.iter().any(|event| match event {
            Event::Disconnected { cause: ConnectError::Refused(why), .. } => why.is(Code::ServerStopping),
            _ => false,
        })
    })
    .await;
    let queued = ada.client.queue(group, "while it was away").await.unwrap();
    site.start_again().await;
    soon("the answer", ada.client.outcome(queued)).await.unwrap();
    tail.until("the text", |tail| tail.texts(group) == ["while it was away"]).await;
}
