//! Lists, texts and extension lists whose bounds are checked while they are read, before memory is taken for them.
//!
//! Only decoding is bounded here: who encodes keeps the same bounds by building nothing larger.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use crate::limits;
use crate::wire::codec;

/// What a later version adds to a frame, an item or a row: (number, bytes). Unknown numbers are skipped.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
pub struct Extensions(pub Vec<(u16, Bytes)>);

impl Extensions {
    /// The bytes under this number, if it is there.
    #[must_use]
    pub fn find(&self, number: u16) -> Option<&Bytes> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, bytes)| bytes)
    }
}

/// A list of rows, each length-prefixed with its own extension list, so that a row can grow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows<T>(pub Vec<T>);

/// Reads a list of at most `MAX` elements.
pub(super) fn list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(ListVisitor::<T, MAX>(PhantomData))
}

/// Reads a text of at most [`limits::TEXT_BYTES_MAX`]; names have tighter bounds of their own, which `server` checks.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0)
}

/// Reads such a text, or none.
pub(super) fn maybe_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<Text>::deserialize(deserializer).map(|text| text.map(|text| text.0))
}

/// Reads a key, code, pin or signature: at most [`limits::SIGNATURE_BYTES`].
pub(super) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    Secret::deserialize(deserializer).map(|secret| secret.0)
}

/// Reads at most [`limits::PINS_MAX`] pins.
pub(super) fn pins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Bytes>, D::Error> {
    let pins = list::<_, Secret, { limits::PINS_MAX }>(deserializer)?;
    Ok(pins.into_iter().map(|pin| pin.0).collect())
}

struct ListVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let hint = seq.size_hint().unwrap_or(0);
        if hint > MAX {
            return Err(A::Error::invalid_length(hint, &self));
        }
        let mut elements = Vec::with_capacity(hint);
        while let Some(element) = seq.next_element()? {
            if elements.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        if text.len() > limits::TEXT_BYTES_MAX {
            return Err(D::Error::custom("a text is too long"));
        }
        Ok(Text(text.to_owned()))
    }
}

struct Secret(Bytes);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        if bytes.len() > limits::SIGNATURE_BYTES {
            return Err(D::Error::custom("a key, code or signature is too long"));
        }
        Ok(Secret(Bytes::copy_from_slice(bytes)))
    }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Extensions, D::Error> {
        let borrowed = list::<_, (u16, &[u8]), { limits::EXTENSIONS_MAX }>(deserializer)?;
        let bytes: usize = borrowed.iter().map(|(_, bytes)| bytes.len()).sum();
        if bytes > limits::EXTENSION_BYTES_MAX {
            return Err(D::Error::custom("extensions are too long"));
        }
        Ok(Extensions(borrowed.into_iter().map(|(number, bytes)| (number, Bytes::copy_from_slice(bytes))).collect()))
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().map(|(number, _)| number)).finish()
    }
}

impl<T: Serialize> Serialize for Rows<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use ser::Error as _;
        let rows: Result<Vec<Bytes>, _> = self.0.iter().map(|row| postcard::to_stdvec(row).map(Bytes::from)).collect();
        rows.map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de, T: Serialize + DeserializeOwned> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rows<T>, D::Error> {
        let rows = list::<_, &[u8], { limits::LIST_ROWS_MAX }>(deserializer)?;
        let rows: Result<Vec<T>, _> = rows.into_iter().map(|row| codec::decode_whole("row", row)).collect();
        rows.map(Rows).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, MessageId, UserId};
    use crate::limits::{BODY_BYTES_MAX, EXTENSION_BYTES_MAX, EXTENSIONS_MAX, ITEM_BYTES_MAX, TEXT_BYTES_MAX};
    use crate::wire::WireError;
    use crate::wire::codec::RawFrame;
    use crate::wire::frame::{Ack, Frame, Names, Prove, RenameGroup, Status, UserInfo, UserList, Welcome};
    use crate::wire::item::Item;

    fn read<F: Frame>(body: impl Into<Bytes>) -> Result<F, WireError> {
        RawFrame { kind: F::TYPE, flags: 0, request: 0, body: body.into() }.decode()
    }

    fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
        postcard::to_stdvec(value).unwrap()
    }

    #[test]
    fn a_list_at_its_bound_passes_and_one_over_it_does_not() {
        let ack = |count: usize| encoded(&(vec![(GroupId::MAX, MessageId::MAX); count], Extensions::default()));
        assert_eq!(read::<Ack>(ack(limits::ACK_ENTRIES_MAX)).unwrap().entries.len(), limits::ACK_ENTRIES_MAX);
        assert_eq!(read::<Ack>(ack(limits::ACK_ENTRIES_MAX + 1)), Err(WireError::OverLimit { what: "Ack" }));
        let names = |count: usize| encoded(&(vec![UserId::MAX; count], Extensions::default()));
        assert!(read::<Names>(names(limits::LIST_ROWS_MAX)).is_ok());
        assert_eq!(read::<Names>(names(limits::LIST_ROWS_MAX + 1)), Err(WireError::OverLimit { what: "Names" }));
    }

    #[test]
    fn a_declared_count_takes_no_memory_before_its_elements_are_there() {
        for count in [5_000u64, 1 << 32, u64::MAX] {
            assert!(read::<Ack>(encoded(&count)).is_err());
            assert!(read::<UserList>(encoded(&count)).is_err());
            assert!(read::<Status>(encoded(&count)).is_err());
            assert!(read::<Prove>(encoded(&count)).is_err());
            assert!(read::<RenameGroup>(encoded(&(GroupId::MAX, count))).is_err());
        }
    }

    #[test]
    fn a_text_at_its_bound_passes_and_one_over_it_does_not() {
        let rename = |bytes: usize| encoded(&(GroupId::MAX, "x".repeat(bytes), Extensions::default()));
        assert!(read::<RenameGroup>(rename(TEXT_BYTES_MAX)).is_ok());
        let error = read::<RenameGroup>(rename(TEXT_BYTES_MAX + 1));
        assert_eq!(error, Err(WireError::OverLimit { what: "RenameGroup" }));
    }

    #[test]
    fn a_signature_longer_than_any_is_refused() {
        let prove = |bytes: usize| encoded(&(Bytes::from(vec![0; bytes]), Extensions::default()));
        assert!(read::<Prove>(prove(64)).is_ok());
        assert_eq!(read::<Prove>(prove(65)), Err(WireError::OverLimit { what: "Prove" }));
    }

    #[test]
    fn extensions_are_bounded_in_count_and_in_bytes() {
        let status = |count: usize, bytes: usize| encoded(&Extensions(vec![(9, vec![0; bytes].into()); count]));
        assert!(read::<Status>(status(EXTENSIONS_MAX, EXTENSION_BYTES_MAX / EXTENSIONS_MAX)).is_ok());
        assert!(read::<Status>(status(1, EXTENSION_BYTES_MAX)).is_ok());
        for (count, bytes) in [(EXTENSIONS_MAX + 1, 0), (1, EXTENSION_BYTES_MAX + 1), (2, EXTENSION_BYTES_MAX / 2 + 1)]
        {
            let error = read::<Status>(status(count, bytes));
            assert_eq!(error, Err(WireError::OverLimit { what: "Status" }), "{count} of {bytes}");
        }
    }

    #[test]
    fn a_row_of_a_list_is_read_as_strictly_as_a_frame() {
        let row =
            UserInfo { user: UserId::MAX, handle: "a".into(), operator: false, extensions: Extensions::default() };
        let row = encoded(&row);
        let list = |row: &[u8]| encoded(&(vec![Bytes::copy_from_slice(row)], false, Extensions::default()));
        assert_eq!(read::<UserList>(list(&row)).unwrap().rows.0.len(), 1);
        assert!(read::<UserList>(list(&[&row[..], &[0]].concat())).is_err());
        assert!(read::<UserList>(list(&row[..row.len() - 1])).is_err());
    }

    #[test]
    fn the_largest_item_fits() {
        let fill = |count: usize| vec![(u16::MAX, Bytes::from(vec![0; EXTENSION_BYTES_MAX / count])); count];
        let item = Item {
            gid: GroupId::MAX,
            msgid: MessageId::MAX,
            kind: u16::MAX,
            flags: u8::MAX,
            author: UserId::MAX,
            time_ms: u64::MAX,
            tag: crate::ids::Tag::NONE,
            body: vec![0; BODY_BYTES_MAX].into(),
            extensions: Extensions(fill(EXTENSIONS_MAX)),
        };
        let encoded = item.encode().unwrap();
        assert!(encoded.len() < ITEM_BYTES_MAX && encoded.len() > ITEM_BYTES_MAX - 256);
        assert_eq!(Item::decode(&encoded), Ok(item));
    }

    #[test]
    fn a_welcome_names_so_many_epochs_and_pins_and_no_more() {
        let golden = crate::wire::golden::frames().into_iter().map(|bytes| crate::wire::golden::raw(&bytes));
        let welcome = golden.into_iter().find(|raw| raw.kind == Welcome::TYPE).unwrap().decode::<Welcome>().unwrap();
        let epochs = |count| Welcome { epochs_before: vec![welcome.epoch; count], ..welcome.clone() };
        let pins = |count| Welcome { pins: vec![Bytes::from_static(&[7; 32]); count], ..welcome.clone() };
        assert!(read::<Welcome>(encoded(&epochs(limits::EPOCHS_BEFORE_MAX))).is_ok());
        assert!(read::<Welcome>(encoded(&epochs(limits::EPOCHS_BEFORE_MAX + 1))).is_err());
        assert!(read::<Welcome>(encoded(&pins(limits::PINS_MAX))).is_ok());
        assert!(read::<Welcome>(encoded(&pins(limits::PINS_MAX + 1))).is_err());
    }
}
