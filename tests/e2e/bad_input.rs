//! What no client should send: every case ends in a typed error or the documented effect, and the server goes on.
//!
//! After each case another client, who was there all along, is served.

use bytes::Bytes;
use gaggle::client::{Client, ListenError, RequestError, Subscription};
use gaggle::ids::{DeviceId, GroupId};
use gaggle::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX, SENDS_UNANSWERED_MAX};
use gaggle::wire::code::Code;
use gaggle::wire::codec;
use gaggle::wire::frame::{
    CreateGroup, Done, Error, Extensions, GroupCreated, ListUsers, RenameDevice, Sent, Status, StatusInfo, Subscribe,
    UserList,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::harness::{Scene, Site, quick, rounds};
use crate::raw::{Key, Pulling, Raw, Role, assert_refused, text_frame, texts};
use crate::relay::{Relay, Weather};

/// An envelope around any body.
fn envelope(kind: u16, flags: u8, request: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(7 + body.len()).unwrap();
    [&length.to_be_bytes()[..], &kind.to_be_bytes(), &[flags], &request.to_be_bytes(), body].concat()
}

fn none() -> Extensions {
    Extensions::default()
}

/// What is no frame at all, with the code it must be answered by.
fn no_frames() -> Vec<(&'static str, Vec<u8>, Code)> {
    let status = codec::encode(1, &Status { extensions: none() }).unwrap().to_vec();
    vec![
        ("a length below the envelope's own", vec![0, 0, 0, 6, 0, 47, 0, 0, 0, 0, 1], Code::Malformed),
        ("a length of zero", vec![0; 11], Code::Malformed),
        ("a length of four gigabytes", vec![0xff; 11], Code::TooLarge),
        ("one byte more than a frame may have", (FRAME_BYTES_MAX as u32 + 8).to_be_bytes().to_vec(), Code::TooLarge),
        ("half an envelope", status[..6].to_vec(), Code::Malformed),
        ("half a frame", status[..status.len() - 1].to_vec(), Code::Malformed),
        ("text", b"GET / HTTP/1.1\r\nHost: gaggle\r\n\r\n".to_vec(), Code::TooLarge),
    ]
}

/// What is a frame whose body is not what its type says. All are malformed.
fn malformed_requests() -> Vec<(&'static str, Vec<u8>)> {
    let status = |body: &[u8]| envelope(47, 0, 9, body);
    let long_name = CreateGroup { name: "x".repeat(2_000), policy: 0, extensions: none() };
    let many: Vec<(u16, Bytes)> = (0..17).map(|number| (number, Bytes::new())).collect();
    vec![
        ("no body where there is one", status(&[])),
        ("bytes behind the extension list", status(&[0, 0])),
        ("a varint longer than it need be", status(&[0x80, 0])),
        ("an extension list that claims more than there is", status(&[5])),
        ("a text that is no UTF-8", envelope(32, 0, 9, &[2, 0xff, 0xfe, 0, 0])),
        ("a text over every bound", codec::encode(9, &long_name).unwrap().to_vec()),
        ("more extensions than allowed", codec::encode(9, &Status { extensions: Extensions(many) }).unwrap().to_vec()),
        ("a number beyond its type", envelope(43, 0, 9, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0])),
        ("a bool that is neither", envelope(65, 0, 9, &[2, 0, 0])),
        ("a send that is none", envelope(16, 0, 9, b"hello")),
    ]
}

/// Somebody else, who was connected all along, sends and reads.
async fn still_serves(scene: &mut Scene) {
    let msgid = scene.send().await;
    let page = scene.ada.pull(scene.group, msgid - 1, 0, Pulling::Browse).await.unwrap();
    assert_eq!(page.msgids(), [msgid]);
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection_before_hello() {
    let mut scene = Scene::start().await;
    let mut cases = no_frames();
    let ask = codec::encode(1, &Status { extensions: none() }).unwrap().to_vec();
    cases.push(("a request before Hello", ask, Code::Malformed));
    cases.push((
        "a send before Hello",
        codec::encode(1, &text_frame(1, 1, scene.group, "x")).unwrap().to_vec(),
        Code::Malformed,
    ));
    cases.push(("an unknown type before Hello", envelope(9_999, 0, 1, &[0]), Code::Malformed));
    cases.push(("an Enrol that is none", envelope(3, 0, 1, &[1, 2, 3]), Code::Malformed));
    for (what, bytes, code) in cases {
        let mut raw = Raw::connect(scene.site.address()).await;
        raw.write(bytes.into()).await;
        raw.control.finish().unwrap();
        let answer = raw.answers.next().await.unwrap_or_else(|| panic!("no answer to {what}"));
        let error: Error = answer.decode().unwrap();
        assert_eq!(Code::from_number(error.code), Some(code), "{what}");
        assert_eq!(raw.closed().await, Some(code), "{what}");
        still_serves(&mut scene).await;
    }
}

#[tokio::test]
async fn a_hello_that_proves_nothing_is_refused() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    let stranger = Key::new().claiming(DeviceId::new(4_000));
    let thief = Key::new().claiming(scene.bob.device);
    for key in [stranger, thief] {
        let mut raw = Raw::connect(address).await;
        assert_refused(raw.hello(&key, Role::Caller).await, Code::UnknownDevice);
        assert_eq!(raw.closed().await, Some(Code::UnknownDevice));
        still_serves(&mut scene).await;
    }
    // A proof that was made for another connection, or for another Hello.
    let other = Raw::connect(address).await;
    let (hello, stolen) = other.hello_frames(&scene.bob, Role::Caller);
    let (listens, _) = other.hello_frames(&scene.bob, Role::Listener { instance: 1, attempt: 1 });
    let mut raw = Raw::connect(address).await;
    let (_, own) = raw.hello_frames(&scene.bob, Role::Caller);
    for (hello, prove) in [(&hello, &stolen), (&listens, &own)] {
        raw.write(codec::encode(1, hello).unwrap()).await;
        raw.write(codec::encode(1, prove).unwrap()).await;
        let answer: Result<Done, Error> = raw.answer(1).await;
        assert_refused(answer, Code::UnknownDevice);
        raw = Raw::connect(address).await;
    }
    // Something else where the proof should be.
    raw.write(codec::encode(1, &hello).unwrap()).await;
    raw.write(codec::encode(2, &Status { extensions: none() }).unwrap()).await;
    assert_eq!(raw.closed().await, Some(Code::Malformed));
    // Nothing at all, then the end.
    let mut raw = Raw::connect(address).await;
    raw.control.finish().unwrap();
    assert_eq!(raw.closed().await, Some(Code::Goodbye));
    // What comes on other streams before Hello waits unread and does nothing.
    let mut raw = Raw::connect(address).await;
    let mut early = raw.open_pull(scene.group, 0, 0, Pulling::Browse).await;
    raw.hello(&scene.bob, Role::Caller).await.unwrap();
    assert_eq!(early.next().await.map(|frame| frame.kind), Some(81));
    still_serves(&mut scene).await;
}

#[tokio::test]
async fn what_is_no_frame_or_malformed_on_control_ends_that_connection_alone() {
    let mut scene = Scene::start().await;
    let malformed = malformed_requests().into_iter().map(|(what, bytes)| (what, bytes, Code::Malformed));
    for (what, bytes, code) in no_frames().into_iter().chain(malformed) {
        if what == "a bool that is neither" {
            continue;
        }
        let mut bob = scene.bob.call(scene.site.address()).await;
        bob.write(bytes.into()).await;
        bob.control.finish().unwrap();
        assert_eq!(bob.closed().await, Some(code), "{what}");
        still_serves(&mut scene).await;
    }
}

#[tokio::test]
async fn an_unknown_request_is_answered_and_an_unknown_notice_skipped_unless_it_must_be_understood() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    // Frames that only servers send, and those that belong on other streams, are as unknown as others on this one.
    for kind in [9_999, u16::MAX, 0, 5, 17, 38, 80, 83, 64, 112] {
        bob.write(envelope(kind, 0, 1_000 + u32::from(kind), b"whatever it says").into()).await;
        assert_refused(bob.answer::<Done>(1_000 + u32::from(kind)).await, Code::Unsupported);
    }
    for kind in [9_999, 300] {
        bob.write(envelope(kind, 0, 0, b"whatever it says").into()).await;
    }
    // Unknown flags mean nothing.
    bob.write(envelope(47, 0xfe, 77, &[0]).into()).await;
    bob.answer::<StatusInfo>(77).await.unwrap();
    assert!(!bob.answers.has(|frame| frame.request == 0), "nothing was said about what was skipped");
    bob.write(envelope(9_999, 1, 0, b"whatever it says").into()).await;
    assert_eq!(bob.closed().await, Some(Code::Unsupported));
    still_serves(&mut scene).await;

    // On acks, where nothing is answered.
    let mut bob = scene.bob.follow(scene.site.address(), scene.group).await;
    bob.acks().await.write_all(&envelope(9_999, 0, 5, b"whatever it says")).await.unwrap();
    let msgid = scene.send().await;
    bob.pushed().await;
    bob.ack(scene.group, msgid).await;
    assert_eq!(bob.cursor_reaches(scene.group, msgid).await, [msgid]);
    bob.acks().await.write_all(&envelope(9_999, 1, 5, b"whatever it says")).await.unwrap();
    assert_eq!(bob.closed().await, Some(Code::Unsupported));
    still_serves(&mut scene).await;
}

#[tokio::test]
async fn bad_input_on_the_acks_stream_ends_that_connection_alone() {
    let mut scene = Scene::start().await;
    let bodies: [(&'static str, Vec<u8>); 3] = [
        ("an ack that is none", envelope(64, 0, 0, &[9, 9])),
        ("a bool that is neither", envelope(65, 0, 0, &[2, 0, 0])),
        ("more entries than allowed", envelope(64, 0, 0, &[0xff, 0x7f])),
    ];
    let bodies = bodies.into_iter().map(|(what, bytes)| (what, bytes, Code::Malformed));
    for (what, bytes, code) in no_frames().into_iter().chain(bodies) {
        let mut bob = scene.bob.listen(scene.site.address()).await;
        bob.subscribe().await;
        let acks = bob.acks().await;
        acks.write_all(&bytes).await.unwrap();
        acks.finish().unwrap();
        assert_eq!(bob.closed().await, Some(code), "{what}");
        still_serves(&mut scene).await;
    }
    // A reset of acks ends the connection, a second stream beside it does not.
    let mut bob = scene.bob.listen(scene.site.address()).await;
    bob.subscribe().await;
    let mut second = bob.connection.open_uni().await.unwrap();
    second
        .write_all(&codec::encode(0, &Subscribe { all: true, groups: vec![], extensions: none() }).unwrap())
        .await
        .unwrap();
    second.finish().unwrap();
    bob.cursor(scene.group).await;
    bob.acks().await.reset(0u32.into()).unwrap();
    assert_eq!(bob.closed().await, Some(Code::Goodbye));
    // A caller subscribes to nothing.
    let mut caller = scene.bob.call(scene.site.address()).await;
    caller.subscribe().await;
    assert_eq!(caller.closed().await, Some(Code::NotListening));
    still_serves(&mut scene).await;
}

#[tokio::test]
async fn bad_input_on_a_request_stream_ends_that_stream_alone() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    for (what, bytes, code) in no_frames() {
        let mut stream = bob.request_bytes(&bytes).await;
        assert_eq!(stream.reset_code().await, Some(u64::from(code.number())), "{what}");
    }
    for (what, bytes) in [
        ("a pull that is none", envelope(80, 0, 1, b"x")),
        ("bytes behind a list request", envelope(87, 0, 1, &[0, 0, 0])),
    ] {
        let mut stream = bob.request_bytes(&bytes).await;
        let error: Error = stream.next().await.unwrap().decode().unwrap();
        assert_eq!(Code::from_number(error.code), Some(Code::Malformed), "{what}");
    }
    for kind in [9_999, 16, 47, 64, 82, 0] {
        let mut stream = bob.request_bytes(&envelope(kind, 0, 7, &[0])).await;
        let answer = stream.next().await.unwrap();
        let error: Error = answer.decode().unwrap();
        assert_eq!((answer.request, Code::from_number(error.code)), (7, Some(Code::Unsupported)), "{kind}");
        assert!(stream.next().await.is_none(), "the answer ends the stream");
    }
    // Streams on which nothing is said, given up without a word: as many as there may be, again and again.
    for _ in 0..20 {
        let (mut send, _receive) = bob.connection.open_bi().await.unwrap();
        send.write_all(&[0]).await.unwrap();
        send.reset(0u32.into()).unwrap();
    }
    bob.list::<UserList>(&ListUsers { after: Default::default(), extensions: none() }).await.unwrap();
    bob.ask::<StatusInfo>(&Status { extensions: none() }).await.unwrap();
    still_serves(&mut scene).await;
}

/// Random bytes, and frames with random changes, on each kind of stream.
#[tokio::test]
async fn random_bytes_on_any_stream_harm_nobody_else() {
    let mut random = StdRng::seed_from_u64(5);
    let mut scene = Scene::start().await;
    for _ in 0..rounds(40) {
        let mut bob = scene.bob.listen(scene.site.address()).await;
        for _ in 0..random.random_range(1..6) {
            let kind = random.random_range(0..120);
            let mut bytes = match random.random_range(0..4) {
                0 => (0..random.random_range(0..300)).map(|_| random.random()).collect(),
                1 => envelope(kind, random.random(), random.random(), &random.random::<[u8; 20]>()),
                2 => codec::encode(5, &text_frame(1, 1, scene.group, "text")).unwrap().to_vec(),
                _ => envelope(kind, 0, 0, &[0; 12]),
            };
            if !bytes.is_empty() && random.random_bool(0.5) {
                let at = random.random_range(0..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
            // The connection may be over by now; then the bytes go nowhere, which is right too.
            match random.random_range(0..3) {
                0 => bob.write(bytes.into()).await,
                1 => drop(bob.acks().await.write_all(&bytes).await),
                _ => {
                    if let Ok((mut send, _receive)) = bob.connection.open_bi().await {
                        drop(send.write_all(&bytes).await);
                        drop(send.finish());
                    }
                }
            }
            if bob.connection.close_reason().is_some() {
                break;
            }
        }
        bob.connection.close(0u32.into(), b"");
        still_serves(&mut scene).await;
    }
}

#[tokio::test]
async fn an_invite_opens_for_one_key_and_answers_that_key_again() {
    let mut scene = Scene::start().await;
    // The first invite is used: it is nobody else's, and names nobody.
    let first = scene.site.first_link();
    assert_refused(Key::enrol(&first, Some("eve")).await.map(drop), Code::BadInvite);
    let link = scene.site.raw_invite(&mut scene.ada, "carl", Some(scene.group)).await;
    let carl = Key::new().enrol_with(&link, None).await.unwrap();
    // The same code with the same key: the same device, each time.
    for _ in 0..3 {
        let again = carl.clone().enrol_with(&link, None).await.unwrap();
        assert_eq!((again.device, again.user), (carl.device, carl.user));
    }
    assert_refused(Key::enrol(&link, None).await.map(drop), Code::BadInvite);
    // A key that has a device opens nothing else with it.
    let other = scene.site.raw_invite(&mut scene.ada, "dora", None).await;
    assert_refused(carl.clone().enrol_with(&other, None).await.map(drop), Code::BadInvite);
    // An invite whose handle was taken meanwhile by another.
    let twin = scene.site.raw_invite(&mut scene.ada, "dora", None).await;
    Key::enrol(&other, None).await.unwrap();
    assert_refused(Key::enrol(&twin, None).await.map(drop), Code::HandleTaken);
    // A code that was never given out, and a signature by another key.
    let link: gaggle::wire::link::Link = link.parse().unwrap();
    let guessed = gaggle::wire::link::Link { code: gaggle::wire::link::InviteCode([7; 16]), ..link.clone() };
    assert_refused(Key::enrol(&guessed.to_string(), None).await.map(drop), Code::BadInvite);
    let mut raw = Raw::connect(scene.site.address()).await;
    let mut frame = raw.enrol_frame(&Key::new(), &link, None);
    frame.signature = raw.enrol_frame(&Key::new(), &link, None).signature;
    assert_refused(raw.ask::<Done>(&frame).await, Code::Malformed);
    still_serves(&mut scene).await;
}

#[tokio::test]
async fn the_first_invite_wants_a_handle_and_is_void_after_a_restart() {
    let mut site = Site::start().await;
    let before = site.first_link();
    assert_refused(Key::enrol(&before, None).await.map(drop), Code::HandleNeeded);
    assert_refused(Key::enrol(&before, Some("no such\u{7}handle")).await.map(drop), Code::BadName);
    site.restart().await;
    assert_ne!(site.first_link(), before);
    assert_refused(Key::enrol(&before, Some("eve")).await.map(drop), Code::BadInvite);
    site.raw_operator("ada").await;
    site.restart().await;
    assert_refused(Key::enrol(&before, Some("eve")).await.map(drop), Code::BadInvite);
}

#[tokio::test]
async fn an_enrolment_whose_answer_was_lost_is_finished_by_the_same_link() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let way = Relay::new(site.address(), 6).way().await;
    let options = quick();
    // Where this machine was too busy to see the user before the answer had come, somebody else enrols.
    for handle in ["bob", "carol", "dave", "erin", "frank"] {
        let invite = ada.client.invite(handle, None, std::time::Duration::from_secs(600)).await.unwrap();
        let link = site.at(&invite.link, way.address());
        let profile = site.new_profile(handle);
        // The answer is still on its way when somebody else sees that the user exists, and the one who enrols gives up.
        way.weather(Weather { delay_ms: 200..201, ..Weather::default() });
        let exists = async {
            while !ada.client.users().await.unwrap().iter().any(|user| user.handle == handle) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let was_lost = tokio::select! {
            _ = Client::enrol(&profile, &link, None, "phone", &options) => false,
            () = exists => true,
        };
        way.weather(Weather::default());
        let account = Client::enrol(&profile, &link, None, "phone", &options).await.unwrap();
        assert_eq!(account.handle, handle);
        assert_eq!(Client::enrol(&profile, &link, None, "phone", &options).await.unwrap(), account);
        assert_eq!(ada.client.devices(Some(handle)).await.unwrap().len(), 1);
        if was_lost {
            return;
        }
    }
    panic!("no answer was lost");
}

#[tokio::test]
async fn names_with_control_characters_are_refused_with_a_reason() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let hour = std::time::Duration::from_secs(3_600);
    let is_bad_name = |what: &str, error: RequestError| match error {
        RequestError::Refused(refusal) => assert!(refusal.is(Code::BadName), "{what:?}: {refusal}"),
        other => panic!("{what:?}: {other}"),
    };
    for name in ["\u{1b}[31mred", "a\nb", "a\0b", "\u{7f}", "\u{9b}2J", "", "   ", "g7"] {
        is_bad_name(name, ada.client.create_group(name, Default::default()).await.unwrap_err());
        is_bad_name(name, ada.client.rename_group(group, name).await.unwrap_err());
    }
    for name in ["\u{1b}[31mred", "a\nb", "a\0b", "", "  "] {
        is_bad_name(name, ada.client.rename_device(ada.account.device, name).await.unwrap_err());
    }
    for handle in ["bob\n", "b\u{1b}ob", "bob bob", "", "-bob", "bøb", &"b".repeat(33)] {
        is_bad_name(handle, ada.client.invite(handle, None, hour).await.unwrap_err());
    }
    // Bodies are nobody's business: they come back byte for byte.
    let body = "\u{1b}[2J\u{7}\0\r\n\u{202e}body";
    let msgid = ada.send(group, body).await;
    let page = ada.client.pull(group, msgid.previous(), 0).await.unwrap();
    assert!(page.items[0].content == gaggle::client::Content::Text(body.to_owned()));
}

/// Sends beyond the window, all at once: not done, in order, and the same numbers do once it is their turn.
#[tokio::test]
async fn a_flood_of_sends_beyond_the_window_is_not_done_and_keeps_its_order() {
    let mut scene = Scene::start().await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let flood = 300;
    let mut requests = Vec::new();
    for seq in 1..=flood {
        requests.push(bob.post_text(seq, 1, scene.group, &format!("b{seq}")).await);
    }
    for (request, seq) in requests.into_iter().zip(1..) {
        let answer = bob.answer::<Sent>(request).await;
        if seq <= SENDS_UNANSWERED_MAX {
            answer.unwrap();
        } else {
            let code =
                if seq == SENDS_UNANSWERED_MAX + 1 { Code::WindowFull } else { answer.as_ref().unwrap_err().code() };
            assert!(matches!(code, Code::WindowFull | Code::OutOfTurn), "{code}");
            assert_refused(answer, code);
        }
    }
    still_serves(&mut scene).await;
    // The window has moved, and the next but one would fit: it waits for the one before it all the same.
    let early = text_frame(SENDS_UNANSWERED_MAX + 2, SENDS_UNANSWERED_MAX, scene.group, "too early");
    assert_refused(bob.ask::<Sent>(&early).await, Code::OutOfTurn);
    for seq in SENDS_UNANSWERED_MAX + 1..=flood {
        bob.send(seq, scene.group, &format!("b{seq}")).await.unwrap();
    }
    let texts: Vec<String> =
        texts(&bob.browse(scene.group, 0).await).into_iter().filter(|text| text.starts_with('b')).collect();
    assert_eq!(texts, (1..=flood).map(|seq| format!("b{seq}")).collect::<Vec<_>>());
}

trait ErrorCode {
    fn code(&self) -> Code;
}

impl ErrorCode for Error {
    fn code(&self) -> Code {
        Code::from_number(self.code).unwrap()
    }
}

/// The disk stands still and more is asked than the writer's channel and all queues hold: reading goes on, nothing is answered
/// that is not durable, and then everything is, in order.
#[tokio::test]
async fn a_full_channel_holds_back_and_loses_nothing() {
    let mut scene = Scene::start().await;
    let address = scene.site.address();
    let mut floods = Vec::new();
    let mut keys = vec![scene.bob.clone()];
    for number in 0..4 {
        keys.push(scene.site.raw_user(&mut scene.ada, &format!("user{number}"), Some(scene.group)).await);
    }
    for key in &keys {
        for _ in 0..4 {
            floods.push((key.clone(), key.call(address).await));
        }
    }
    scene.send_many(3).await;
    let durable = scene.ada.group(scene.group).await.head.value();

    scene.site.simulated().hold_syncs("log");
    let first = scene.ada.post_text(4, 4, scene.group, "held").await;
    let each = 400;
    let mut asked = Vec::new();
    for (key, raw) in &mut floods {
        let mut requests = Vec::new();
        for number in 0..each {
            let name = format!("pc {number}");
            requests.push(raw.post(&RenameDevice { device: key.device, name, extensions: none() }).await);
        }
        asked.push(requests);
    }
    // Who only reads is served from what is durable.
    let mut reader = scene.bob.listen(address).await;
    let seen = reader.browse(scene.group, durable - 1).await;
    assert_eq!(crate::raw::msgids(&seen), [durable]);
    // What needs no writer is answered on ada's connection, too; had the send been answered, that would be there.
    scene.ada.ask::<StatusInfo>(&Status { extensions: none() }).await.unwrap();
    assert!(!scene.ada.answers.has(|frame| frame.request == first), "nothing is answered before it is durable");

    scene.site.simulated().release_syncs();
    for ((_, raw), requests) in floods.iter_mut().zip(asked) {
        for request in requests {
            raw.answer::<Done>(request).await.unwrap();
        }
    }
    scene.ada.answer::<Sent>(first).await.unwrap();
    scene.next = 5;
    still_serves(&mut scene).await;
}

/// A peer that asks and never reads the answers is held back by itself; it costs nobody else anything.
#[tokio::test]
async fn a_peer_that_reads_no_answers_is_held_back_alone() {
    let mut scene = Scene::start().await;
    let body = "x".repeat(BODY_BYTES_MAX);
    for _ in 0..8 {
        let next = scene.next;
        scene.ada.send(next, scene.group, &body).await.unwrap();
        scene.next += 1;
    }
    let mut bob = scene.bob.listen(scene.site.address()).await;
    bob.subscribe().await;
    let mut unread = Vec::new();
    for _ in 0..12 {
        unread.push(bob.open_pull(scene.group, 1, 0, Pulling::Browse).await);
    }
    let status = codec::encode(1, &Status { extensions: none() }).unwrap();
    // Until its stream takes no more, or as many as would fill any queue without a bound.
    for _ in 0..5_000 {
        let wrote =
            tokio::time::timeout(std::time::Duration::from_millis(200), bob.control.write_chunk(status.clone()));
        if wrote.await.is_err() {
            break;
        }
    }
    for _ in 0..20 {
        still_serves(&mut scene).await;
    }
    // Once it reads, everything is there.
    for mut page in unread {
        assert!(!crate::raw::read_page(&mut page).await.unwrap().items.is_empty());
    }
    assert!(bob.answers.next().await.is_some());
}

#[tokio::test]
async fn a_second_listener_of_one_profile_is_told_so_and_a_sender_beside_it_is_not() {
    let site = Site::start().await;
    let ada = site.operator("ada").await;
    let group = ada.client.create_group("team", Default::default()).await.unwrap();
    let mut tail = ada.tail().await;
    tail.until("the group", |tail| !tail.received.is_empty()).await;
    let second = Client::listen(&ada.profile, quick(), Subscription::All, None).await;
    match second {
        Err(ListenError::AnotherListener { pid }) => assert_eq!(pid, std::process::id()),
        other => panic!("{:?}", other.map(drop)),
    }
    // Several processes send beside it, in whatever order they come.
    let beside = Client::open(&ada.profile, quick()).await.unwrap();
    let mut queued = Vec::new();
    for number in 0..10 {
        let client = [&ada.client, &beside, &tail.client][number % 3];
        queued.push(client.queue(group, &format!("text {number}")).await.unwrap());
    }
    assert!(queued.is_sorted());
    tail.until("ten texts", |tail| tail.texts(group).len() == 10).await;
    assert_eq!(tail.texts(group), (0..10).map(|number| format!("text {number}")).collect::<Vec<_>>());
    // When the listener ends, the next one may come.
    tail.client.close().await;
    drop(tail.listener);
    let (again, _listener) = Client::listen(&ada.profile, quick(), Subscription::All, None).await.unwrap();
    again.connected().await.unwrap();
}

/// Groups that do not exist and groups of others answer the same, from every verb.
#[tokio::test]
async fn absent_and_foreign_groups_answer_the_same() {
    let mut scene = Scene::start().await;
    let foreign = crate::harness::raw_group(&mut scene.ada, "foreign", 1).await;
    let mut bob = scene.bob.call(scene.site.address()).await;
    let mut answers = Vec::new();
    for gid in [foreign, GroupId::new(999_999)] {
        use gaggle::wire::frame::{AddMember, LeaveGroup, ListMembers, MemberList, RemoveMember, RenameGroup, Skip};
        let handle = || "ada".to_owned();
        let codes = [
            bob.send(answers.len() as u64 + 1, gid, "x").await.unwrap_err().code,
            bob.ask::<Done>(&AddMember { gid, handle: handle(), extensions: none() }).await.unwrap_err().code,
            bob.ask::<Done>(&RemoveMember { gid, handle: handle(), extensions: none() }).await.unwrap_err().code,
            bob.ask::<Done>(&LeaveGroup { gid, extensions: none() }).await.unwrap_err().code,
            bob.ask::<Done>(&RenameGroup { gid, name: handle(), extensions: none() }).await.unwrap_err().code,
            bob.ask::<Done>(&Skip { gid, to: Default::default(), extensions: none() }).await.unwrap_err().code,
            bob.pull(gid, 0, 0, Pulling::Browse).await.unwrap_err().code,
            bob.list::<MemberList>(&ListMembers { gid, after: Default::default(), extensions: none() })
                .await
                .unwrap_err()
                .code,
        ];
        answers.push(codes);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], [Code::NoSuchGroup.number(); 8]);
    bob.ask::<GroupCreated>(&CreateGroup { name: "own".into(), policy: 0, extensions: none() }).await.unwrap();
    let refused = bob.ask::<GroupCreated>(&CreateGroup { name: "own".into(), policy: 9, extensions: none() }).await;
    assert_refused(refused, Code::Malformed);
    still_serves(&mut scene).await;
}
