//! Golden bytes of every record, and what is refused.

use proptest::prelude::*;

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn none() -> Extensions {
    Extensions::default()
}

macro_rules! golden {
    ($name:ident { $($field:ident: $value:expr),* $(,)? } $bytes:expr) => {
        let record = $name { $($field: $value,)* extensions: none() };
        assert_eq!(hex(&record.encode()), $bytes, stringify!($name));
        assert!($name::decode(&record.encode()) == Ok(record), stringify!($name));
    };
}

#[test]
fn every_record_has_its_golden_bytes() {
    let (m, u, d, g) = (MessageId::new(300), UserId::new(3), DeviceId::new(9), GroupId::new(7));
    golden!(CursorRecord { msgid: m, content: 2, own: 1 } "01ac02020100");
    let extensions =
        none().with_number(cursor_extension::VERSION, 2).with_number(9, 0).with_number(cursor_extension::LSN, 200);
    let mark = CursorRecord { msgid: m, content: 2, own: 1, extensions };
    assert_eq!(hex(&mark.encode()), "01ac020201020101020302c801");
    let read = CursorRecord::decode(&mark.encode()).unwrap().extensions;
    assert_eq!([1, 3, 9].map(|extension| read.number(extension)), [Ok(2), Ok(200), Ok(0)]);
    golden!(RecalledRecord { author: u, content: true } "01030100");
    golden!(OwnRecord { msgid: m } "01ac0200");
    golden!(MentionRecord { msgid: m } "01ac0200");
    golden!(GroupRecord {
        name: "team".to_owned(), policy: policy::FROM_JOIN, first_kept: MessageId::new(1), head_mark: m,
        content_mark: 250, created_ms: 1_700_000_000_000,
    } "01047465616d0001ac02fa0180d095ffbc3100");
    golden!(UserRecord { handle: "ada".to_owned(), operator: true, created_ms: 1 } "0103616461010100");
    let key = "0b".repeat(32);
    golden!(DeviceRecord {
        user: u, key: [11; 32], name: "pc".to_owned(), enrolled_ms: 5, revoked_ms: Some(6), invite: [12; 32],
    } format!("0103{key}027063050106{}00", "0c".repeat(32)));
    golden!(InviteRecord {
        opens: opens::USER, handle: Some("bob".to_owned()), group: Some(g), user: None, by: Some(u), expires_ms: 128,
        used: Some(d),
    } "01020103626f6201070001038001010900");
    golden!(HandleRecord { user: u } "010300");
    golden!(KeyRecord { device: d } "010900");
    golden!(MembershipRecord {} "0100");
    golden!(SendRecord { group: g, msgid: m, time_ms: 1, hash: [11; 32] } format!("0107ac0201{key}00"));
    golden!(SendWindowRecord { lowest: ClientSeq::new(4), highest: ClientSeq::new(5) } "01040500");
    golden!(MetaRecord { value: u64::MAX } "01ffffffffffffffffff0100");
    let intervals = vec![
        IntervalRecord { joined: MessageId::new(1), left: Some(m), policy: 1, content_before: 0, content_until: 9 },
        IntervalRecord { joined: m, left: None, policy: 0, content_before: 10, content_until: 0 },
    ];
    golden!(MemberRecord { role: role::MEMBER, intervals: intervals, name_at_leave: Some("x".to_owned()) }
        "0103020101ac02010009ac0200000a0001017800");
}

#[test]
fn a_message_is_a_header_and_the_item_as_it_travels() {
    let record = MessageRecord {
        flags: message_flag::CONTENT,
        lsn: Lsn::new(200),
        content: 3,
        own: 2,
        last_edit: MessageId::ZERO,
        extensions: Extensions(vec![(5, Bytes::from_static(b"ab"))]),
        item: Bytes::from_static(b"item"),
    };
    let bytes = record.encode();
    assert_eq!(hex(&bytes), "0101c80103020001050261626974656d");
    assert!(MessageRecord::decode(&bytes) == Ok(record));
}

#[test]
fn other_versions_rests_and_stubs_are_refused() {
    let bytes = CursorRecord { msgid: MessageId::new(1), content: 1, own: 1, extensions: none() }.encode();
    assert!(CursorRecord::decode(&[&bytes[..], &[0]].concat()).is_err_and(|error| error == RecordError::Long(1)));
    for length in 0..bytes.len() {
        assert!(CursorRecord::decode(&bytes[..length]).is_err_and(|error| error == RecordError::Short));
    }
    let newer = [&[2], &bytes[1..]].concat();
    assert!(CursorRecord::decode(&newer).is_err_and(|error| error == RecordError::Version(2)));
    assert!(RecalledRecord::decode(&[1, 1, 2, 0]).is_err());
    assert!(OwnRecord::decode(&[1, 0x81, 0, 0]).is_err(), "a number not in its shortest form");
    assert!(HandleRecord::decode(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]).is_err(), "a uid beyond its highest");
}

#[test]
fn too_many_extensions_are_refused() {
    let many = Extensions((0..17).map(|number| (number, Bytes::new())).collect());
    let record = MembershipRecord { extensions: many };
    assert!(MembershipRecord::decode(&record.encode()).is_err_and(|error| error == RecordError::Extensions));
    let large = Extensions(vec![(1, Bytes::from(vec![0; 5000]))]);
    let record = MembershipRecord { extensions: large };
    assert!(MembershipRecord::decode(&record.encode()).is_err_and(|error| error == RecordError::Extensions));
}

/// Tries the bytes as this record: an error, or a record that encodes to them.
macro_rules! attempt {
    ($bytes:expr, $($name:ident),*) => {
        $(if let Ok(record) = $name::decode(&$bytes) {
            prop_assert_eq!(hex(&record.encode()), hex(&$bytes), "{}", stringify!($name));
        })*
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn arbitrary_bytes_are_an_error_or_exactly_one_record(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(first) = bytes.first_mut() {
            *first %= 3;
        }
        let bytes = Bytes::from(bytes);
        attempt!(bytes, CursorRecord, MemberRecord, RecalledRecord, OwnRecord, GroupRecord, UserRecord, DeviceRecord,
            InviteRecord, HandleRecord, KeyRecord, MembershipRecord, SendRecord, SendWindowRecord, MetaRecord,
            MessageRecord);
    }

    #[test]
    fn small_numbers_make_plausible_records_and_still_no_panic(bytes in proptest::collection::vec(0u8..4, 0..60)) {
        let bytes = Bytes::from([vec![VERSION], bytes].concat());
        attempt!(bytes, CursorRecord, MemberRecord, RecalledRecord, OwnRecord, GroupRecord, UserRecord, DeviceRecord,
            InviteRecord, HandleRecord, KeyRecord, MembershipRecord, SendRecord, SendWindowRecord, MetaRecord,
            MessageRecord);
    }
}
