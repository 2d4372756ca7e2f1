//! The protocol, frame by frame: what a client in any language would do, and what none should.
//!
//! It knows quinn and the codec and nothing of the client library. It keeps no state of its own but request numbers and
//! what came while something else was awaited; every wait ends by [`DEADLINE`]. It accepts any server certificate.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag, UserId};
use gaggle::wire::code::Code;
use gaggle::wire::codec::{self, FrameReader, RawFrame};
use gaggle::wire::frame::{
    Ack, AcksRefused, AddMember, Cursors, Enrol, Enrolled, Error, Extensions, Frame, GroupInfo, GroupList, Hello,
    InviteMade, ListGroups, MakeInvite, PageEnd, PageRows, Payload, Prove, Pull, Push, RemoveMember, Send, Sent,
    Subscribe, Welcome,
};
use gaggle::wire::item::{Item, kind};
use gaggle::wire::link::{InviteCode, Link, Pin};
use gaggle::wire::{proof, row, version};
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

/// How long anything may take on a busy machine before it counts as never.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Waits for something that must come.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what} did not come in {DEADLINE:?}"),
    }
}

/// A device's key, and what the server made of it.
#[derive(Clone)]
pub struct Key {
    seed: [u8; 32],
    pub device: DeviceId,
    pub user: UserId,
    pub handle: String,
}

impl Key {
    /// A new key that no server knows.
    pub fn new() -> Key {
        Key { seed: rand::random(), device: DeviceId::ZERO, user: UserId::ZERO, handle: String::new() }
    }

    /// The same key, said to be this device's.
    pub fn claiming(self, device: DeviceId) -> Key {
        Key { device, ..self }
    }

    fn pair(&self) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&self.seed).unwrap()
    }

    fn public(&self) -> Bytes {
        Bytes::copy_from_slice(self.pair().public_key().as_ref())
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(self.pair().sign(message).as_ref())
    }

    /// Enrols by a link, at the address that the link says.
    pub async fn enrol(link: &str, handle: Option<&str>) -> Result<Key, Error> {
        Key::new().enrol_with(link, handle).await
    }

    /// Enrols this key by a link.
    pub async fn enrol_with(self, link: &str, handle: Option<&str>) -> Result<Key, Error> {
        let link: Link = link.parse().unwrap();
        let mut raw = Raw::connect(link.address.parse().unwrap()).await;
        let frame = raw.enrol_frame(&self, &link, handle);
        let enrolled: Enrolled = raw.ask(&frame).await?;
        raw.closed().await;
        Ok(Key { device: enrolled.device, user: enrolled.user, handle: enrolled.handle, ..self })
    }

    /// Connects as a listener: a process of its own, which has subscribed to nothing yet.
    pub async fn listen(&self, server: SocketAddr) -> Raw {
        let mut raw = Raw::connect(server).await;
        raw.hello(self, Role::Listener { instance: rand::random(), attempt: 1 }).await.unwrap();
        raw
    }

    /// Connects as a listener to which everything there is in this group was handed, and what comes is pushed.
    pub async fn follow(&self, server: SocketAddr, group: GroupId) -> Raw {
        let mut raw = self.listen(server).await;
        raw.subscribe().await;
        let mut after = raw.cursor(group).await;
        loop {
            let page = raw.pull(group, after, 0, Pulling::Deliver).await.unwrap();
            after = page.covered_to.value();
            if !page.more {
                return raw;
            }
        }
    }

    /// Connects as a caller.
    pub async fn call(&self, server: SocketAddr) -> Raw {
        let mut raw = Raw::connect(server).await;
        raw.hello(self, Role::Caller).await.unwrap();
        raw
    }
}

/// What a connection says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Listener { instance: u64, attempt: u64 },
    Caller,
}

/// A stream of frames from the server, and one to it where there is any.
pub struct Frames {
    receive: RecvStream,
    reader: FrameReader,
    waiting: VecDeque<RawFrame>,
}

impl Frames {
    fn new(receive: RecvStream) -> Frames {
        Frames { receive, reader: FrameReader::new(), waiting: VecDeque::new() }
    }

    /// The next frame; none where the stream ended, whatever way.
    pub async fn next(&mut self) -> Option<RawFrame> {
        if let Some(frame) = self.waiting.pop_front() {
            return Some(frame);
        }
        self.read().await
    }

    async fn read(&mut self) -> Option<RawFrame> {
        loop {
            if let Some(frame) = self.reader.next_frame().unwrap() {
                return Some(frame);
            }
            let chunk = soon("a frame", self.receive.read_chunk(65_536, true)).await;
            match chunk {
                Ok(Some(chunk)) => self.reader.push(&chunk.bytes),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// The next frame that fits; what comes before it waits for [`Frames::next`].
    pub async fn find(&mut self, fits: impl Fn(&RawFrame) -> bool) -> Option<RawFrame> {
        if let Some(index) = self.waiting.iter().position(&fits) {
            return self.waiting.remove(index);
        }
        loop {
            let frame = self.read().await?;
            if fits(&frame) {
                return Some(frame);
            }
            self.waiting.push_back(frame);
        }
    }

    /// Whether a frame that fits came without anybody waiting for it so far.
    pub fn has(&self, fits: impl Fn(&RawFrame) -> bool) -> bool {
        self.waiting.iter().any(fits)
    }

    /// Why the stream ended: the code with which it was reset.
    pub async fn reset_code(&mut self) -> Option<u64> {
        loop {
            match soon("the end of the stream", self.receive.read_chunk(65_536, true)).await {
                Ok(Some(chunk)) => self.reader.push(&chunk.bytes),
                Ok(None) => return None,
                Err(quinn::ReadError::Reset(code)) => return Some(code.into_inner()),
                Err(_) => return None,
            }
        }
    }
}

/// A page as it was answered.
#[derive(Debug)]
pub struct Page {
    pub items: Vec<Item>,
    pub covered_to: MessageId,
    pub more: bool,
    pub head: MessageId,
}

impl Page {
    pub fn msgids(&self) -> Vec<u64> {
        msgids(&self.items)
    }
}

/// The numbers of items.
pub fn msgids(items: &[Item]) -> Vec<u64> {
    items.iter().map(|item| item.msgid.value()).collect()
}

/// The texts of those items that are texts.
pub fn texts(items: &[Item]) -> Vec<String> {
    let texts = items.iter().filter(|item| item.kind == kind::TEXT);
    texts.map(|item| String::from_utf8(item.body.to_vec()).unwrap()).collect()
}

fn items_of(rows: Bytes) -> Vec<Item> {
    row::rows(rows).map(|row| row.unwrap().decode_item().unwrap()).collect()
}

/// One connection.
pub struct Raw {
    pub connection: Connection,
    endpoint: Endpoint,
    /// To the server, on the control stream.
    pub control: SendStream,
    /// From the server, on the control stream.
    pub answers: Frames,
    acks: Option<SendStream>,
    pushes: Option<Frames>,
    requests: u32,
}

impl Raw {
    /// A handshake and a control stream on which nothing was said.
    pub async fn connect(server: SocketAddr) -> Raw {
        Raw::try_connect(server).await.unwrap()
    }

    /// As [`Raw::connect`], where it may fail.
    pub async fn try_connect(server: SocketAddr) -> Result<Raw, ConnectionError> {
        let endpoint = endpoint_for(server);
        let connection = soon("the handshake", endpoint.connect(server, "localhost").unwrap()).await?;
        let (control, receive) = connection.open_bi().await?;
        Ok(Raw { connection, endpoint, control, answers: Frames::new(receive), acks: None, pushes: None, requests: 0 })
    }

    fn exporter(&self) -> [u8; proof::EXPORTER_BYTES] {
        let mut bytes = [0; proof::EXPORTER_BYTES];
        self.connection.export_keying_material(&mut bytes, proof::EXPORTER_LABEL, b"").unwrap();
        bytes
    }

    /// A signed Enrol for this connection.
    pub fn enrol_frame(&self, key: &Key, link: &Link, handle: Option<&str>) -> Enrol {
        let mut frame = Enrol {
            code: Bytes::copy_from_slice(&link.code.0),
            key: key.public(),
            handle: handle.map(str::to_owned),
            device_name: "raw".to_owned(),
            minor: version::MINOR,
            signature: Bytes::new(),
            extensions: Extensions::default(),
        };
        frame.signature = key.sign(&proof::enrol(&self.exporter(), &frame).unwrap());
        frame
    }

    /// Hello and its proof, not yet sent.
    pub fn hello_frames(&self, key: &Key, role: Role) -> (Hello, Prove) {
        let (listens, instance, attempt) = match role {
            Role::Listener { instance, attempt } => (true, instance, attempt),
            Role::Caller => (false, 1, 1),
        };
        let hello = Hello {
            device: key.device,
            listens,
            instance,
            attempt,
            minor: version::MINOR,
            epoch: None,
            extensions: Extensions::default(),
        };
        let signature = key.sign(&proof::hello(&self.exporter(), &hello).unwrap());
        (hello, Prove { signature, extensions: Extensions::default() })
    }

    /// Says Hello and proves it.
    pub async fn hello(&mut self, key: &Key, role: Role) -> Result<Welcome, Error> {
        let request = self.say_hello(key, role).await;
        self.answer(request).await
    }

    /// As [`Raw::hello`], without waiting for Welcome.
    pub async fn say_hello(&mut self, key: &Key, role: Role) -> u32 {
        let (hello, prove) = self.hello_frames(key, role);
        let request = self.next_request();
        self.write(codec::encode(request, &hello).unwrap()).await;
        self.write(codec::encode(request, &prove).unwrap()).await;
        request
    }

    /// A request number that was not used yet.
    pub fn next_request(&mut self) -> u32 {
        self.requests += 1;
        self.requests
    }

    /// Writes bytes to the control stream; a connection that is gone swallows them.
    pub async fn write(&mut self, bytes: Bytes) {
        drop(soon("room on the control stream", self.control.write_chunk(bytes)).await);
    }

    /// Asks on the control stream; the answer is for [`Raw::answer`].
    pub async fn post<F: Frame>(&mut self, frame: &F) -> u32 {
        let request = self.next_request();
        self.write(codec::encode(request, frame).unwrap()).await;
        request
    }

    /// The answer to a request on the control stream.
    pub async fn answer<A: Frame>(&mut self, request: u32) -> Result<A, Error> {
        let Some(frame) = self.answers.find(|frame| frame.request == request).await else {
            panic!("the connection ended without an answer: {:?}", self.connection.close_reason());
        };
        match frame.kind {
            Error::TYPE => Err(frame.decode().unwrap()),
            _ => Ok(frame.decode().unwrap()),
        }
    }

    /// Asks on the control stream and waits for the answer.
    pub async fn ask<A: Frame>(&mut self, frame: &impl Frame) -> Result<A, Error> {
        let request = self.post(frame).await;
        self.answer(request).await
    }

    /// Posts a text; `lowest` is the lowest number that is still unanswered.
    pub async fn post_text(&mut self, seq: u64, lowest: u64, group: GroupId, text: &str) -> u32 {
        self.post(&text_frame(seq, lowest, group, text)).await
    }

    /// Sends a text and waits until it is stored, with nothing else unanswered.
    pub async fn send(&mut self, seq: u64, group: GroupId, text: &str) -> Result<Sent, Error> {
        self.ask(&text_frame(seq, seq, group, text)).await
    }

    /// The acks stream, opened at the first use.
    pub async fn acks(&mut self) -> &mut SendStream {
        if self.acks.is_none() {
            self.acks = Some(self.connection.open_uni().await.unwrap());
        }
        self.acks.as_mut().unwrap()
    }

    /// Writes a frame on the acks stream; a connection that is gone swallows it.
    pub async fn tell(&mut self, frame: &impl Frame) {
        let bytes = codec::encode(0, frame).unwrap();
        drop(soon("room on the acks stream", self.acks().await.write_chunk(bytes)).await);
    }

    /// Wants everything pushed.
    pub async fn subscribe(&mut self) {
        self.tell(&Subscribe { all: true, groups: Vec::new(), extensions: Extensions::default() }).await;
    }

    /// Acknowledges, without waiting for anything.
    pub async fn ack(&mut self, group: GroupId, msgid: u64) {
        self.ack_all(&[(group, msgid)]).await;
    }

    /// Acknowledges several groups in one frame.
    pub async fn ack_all(&mut self, entries: &[(GroupId, u64)]) {
        let entries = entries.iter().map(|(group, msgid)| (*group, MessageId::new(*msgid))).collect();
        self.tell(&Ack { entries, extensions: Extensions::default() }).await;
    }

    /// The next cursors that became durable.
    pub async fn cursors(&mut self) -> Vec<(GroupId, MessageId)> {
        let frame = self.answers.find(|frame| frame.kind == Cursors::TYPE && frame.request == 0).await;
        frame.expect("cursors").decode::<Cursors>().unwrap().entries
    }

    /// Waits until the durable cursor of a group, as answered, is this or higher; returns every value on the way.
    pub async fn cursor_reaches(&mut self, group: GroupId, msgid: u64) -> Vec<u64> {
        let mut answered = Vec::new();
        while answered.last().is_none_or(|last| *last < msgid) {
            let cursors = self.cursors().await;
            answered.extend(cursors.into_iter().filter(|(of, _)| *of == group).map(|(_, msgid)| msgid.value()));
        }
        answered
    }

    /// The next acks that were refused.
    pub async fn acks_refused(&mut self) -> Vec<(GroupId, u16)> {
        let frame = self.answers.find(|frame| frame.kind == AcksRefused::TYPE && frame.request == 0).await;
        frame.expect("refused acks").decode::<AcksRefused>().unwrap().entries
    }

    /// A request stream on which these bytes were said, and no more.
    pub async fn request_bytes(&mut self, bytes: &[u8]) -> Frames {
        let (mut send, receive) = self.connection.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        Frames::new(receive)
    }

    /// Asks on a request stream whose answer is one frame.
    pub async fn list<A: Frame>(&mut self, frame: &impl Frame) -> Result<A, Error> {
        let mut frames = self.request_bytes(&codec::encode(1, frame).unwrap()).await;
        let answer = frames.next().await.expect("an answer");
        match answer.kind {
            Error::TYPE => Err(answer.decode().unwrap()),
            _ => Ok(answer.decode().unwrap()),
        }
    }

    /// What the server tells of a group.
    pub async fn group(&mut self, group: GroupId) -> GroupInfo {
        let frame = ListGroups { after: group.previous(), extensions: Extensions::default() };
        let list: GroupList = self.list(&frame).await.unwrap();
        let info = list.rows.0.into_iter().next().expect("the group");
        assert_eq!(info.gid, group);
        info
    }

    /// The groups of this connection's user, page after page.
    pub async fn groups(&mut self) -> Vec<GroupInfo> {
        let mut groups: Vec<GroupInfo> = Vec::new();
        loop {
            let after = groups.last().map_or(GroupId::ZERO, |info| info.gid);
            let asked = ListGroups { after, extensions: Extensions::default() };
            let list: GroupList = self.list(&asked).await.unwrap();
            groups.extend(list.rows.0);
            if !list.more {
                return groups;
            }
        }
    }

    /// Asks for an invite of a new user; into this group too, where one is named.
    pub async fn invite(&mut self, handle: &str, group: Option<GroupId>) -> InviteMade {
        let extensions = Extensions::default();
        let frame = MakeInvite { handle: handle.to_owned(), gid: group, expires_s: 3_600, extensions };
        self.ask(&frame).await.unwrap()
    }

    /// The durable cursor of this device in a group.
    pub async fn cursor(&mut self, group: GroupId) -> u64 {
        self.group(group).await.cursor.value()
    }

    /// Asks for a page, which then comes on its own stream.
    pub async fn open_pull(&mut self, group: GroupId, after: u64, items: u32, how: Pulling) -> Frames {
        let deliver = how == Pulling::Deliver;
        let extensions = Extensions::default();
        let frame = Pull { gid: group, after: MessageId::new(after), items, deliver, extensions };
        self.request_bytes(&codec::encode(1, &frame).unwrap()).await
    }

    /// Asks for a page and reads it.
    pub async fn pull(&mut self, group: GroupId, after: u64, items: u32, how: Pulling) -> Result<Page, Error> {
        let mut frames = self.open_pull(group, after, items, how).await;
        read_page(&mut frames).await
    }

    /// Pages until nothing is left, browsing.
    pub async fn browse(&mut self, group: GroupId, after: u64) -> Vec<Item> {
        let (mut items, mut after) = (Vec::new(), after);
        loop {
            let page = self.pull(group, after, 0, Pulling::Browse).await.unwrap();
            assert!(!page.more || page.covered_to.value() > after, "a page that says more leads on: {page:?}");
            after = page.covered_to.value();
            items.extend(page.items);
            if !page.more {
                return items;
            }
        }
    }

    /// The next frame of the push stream.
    pub async fn pushed_frame(&mut self) -> RawFrame {
        if self.pushes.is_none() {
            let receive = soon("the push stream", self.connection.accept_uni()).await.unwrap();
            self.pushes = Some(Frames::new(receive));
        }
        self.pushes.as_mut().unwrap().next().await.expect("a frame on the push stream")
    }

    /// The next push, heads and notices skipped.
    pub async fn pushed(&mut self) -> Push {
        loop {
            let frame = self.pushed_frame().await;
            if frame.kind == Push::TYPE {
                return frame.decode().unwrap();
            }
        }
    }

    /// Stops the push stream, which was opened; what follows is read from the next one.
    pub fn stop_pushes(&mut self) {
        self.pushes.take().expect("a push stream").receive.stop(0_u32.into()).unwrap();
    }

    /// The code with which the server closes the connection.
    pub async fn closed(&self) -> Option<Code> {
        match soon("the end of the connection", self.connection.closed()).await {
            ConnectionError::ApplicationClosed(close) => {
                u16::try_from(close.error_code.into_inner()).ok().and_then(Code::from_number)
            }
            _ => None,
        }
    }

    /// Says goodbye, and waits until it is said.
    pub async fn close(self) {
        self.connection.close(u32::from(Code::Goodbye.number()).into(), b"");
        self.endpoint.wait_idle().await;
    }
}

/// What an answer to an invite says, as a link that leads to this address.
pub fn link(made: &InviteMade, server: SocketAddr) -> Link {
    let code = InviteCode(made.code.as_ref().try_into().unwrap());
    let pin = Pin(made.pin.as_ref().try_into().unwrap());
    Link { address: server.to_string(), pin, code }
}

/// How a page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulling {
    Deliver,
    Browse,
}

/// Reads a page to its end.
pub async fn read_page(frames: &mut Frames) -> Result<Page, Error> {
    let mut items = Vec::new();
    loop {
        let frame = frames.next().await.expect("the rest of a page");
        match frame.kind {
            PageRows::TYPE => items.extend(items_of(frame.decode::<PageRows>().unwrap().rows)),
            Error::TYPE => return Err(frame.decode().unwrap()),
            _ => {
                let end: PageEnd = frame.decode().unwrap();
                return Ok(Page { items, covered_to: end.covered_to, more: end.more, head: end.head });
            }
        }
    }
}

/// The items of a push, group after group.
pub fn pushed_items(push: &Push) -> Vec<Item> {
    push.batches.iter().flat_map(|batch| items_of(batch.rows.clone())).collect()
}

/// Puts a user into a group.
pub fn add(gid: GroupId, handle: &str) -> AddMember {
    AddMember { gid, handle: handle.to_owned(), extensions: Extensions::default() }
}

/// Puts a user out of a group.
pub fn remove(gid: GroupId, handle: &str) -> RemoveMember {
    RemoveMember { gid, handle: handle.to_owned(), extensions: Extensions::default() }
}

/// A send of a text.
pub fn text_frame(seq: u64, lowest: u64, group: GroupId, text: &str) -> Send {
    said_frame(seq, lowest, group, kind::TEXT, text, Vec::new())
}

/// A send of something of this kind. The tag is made of the number, so that the same number and text are the same bytes.
pub fn said_frame(seq: u64, lowest: u64, group: GroupId, kind: u16, body: &str, extensions: Vec<(u16, Bytes)>) -> Send {
    let payload = Payload {
        kind,
        tag: Tag::new(seq.to_be_bytes()),
        body: Bytes::copy_from_slice(body.as_bytes()),
        extensions: Extensions(extensions),
    };
    Send {
        seq: ClientSeq::new(seq),
        lowest: ClientSeq::new(lowest),
        gid: group,
        payload: payload.encode().unwrap(),
        extensions: Extensions::default(),
    }
}

/// Whether an answer is the refusal with this code.
#[track_caller]
pub fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Error>, code: Code) {
    let error = answer.unwrap_err();
    assert_eq!(Code::from_number(error.code), Some(code), "{error:?}");
    assert_eq!(error.class, code.class().number());
}

fn endpoint_for(server: SocketAddr) -> Endpoint {
    let any = if server.is_ipv4() { (Ipv4Addr::LOCALHOST, 0).into() } else { (Ipv6Addr::LOCALHOST, 0).into() };
    let mut endpoint = Endpoint::client(any).unwrap();
    endpoint.set_default_client_config(client_config());
    endpoint
}

fn client_config() -> quinn::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(schemes)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![version::ALPN.to_vec()];
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.initial_rtt(Duration::from_millis(50));
    config.transport_config(Arc::new(transport));
    config
}

/// Checks nothing: whom a client must not trust is tested with the library.
#[derive(Debug)]
struct Anybody(Vec<SignatureScheme>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
