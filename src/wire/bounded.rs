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
