//! How one field of a record is written: numbers as LEB128 in their shortest form, texts and bytes with their length,
//! an option as 0 or 1 and the value.
//!
//! There is exactly one encoding of each value, and reading accepts no other.

use bytes::Bytes;

use crate::ids::{ClientSeq, DeviceId, GroupId, Lsn, MessageId, UserId};
use crate::limits::{EXTENSION_BYTES_MAX, EXTENSIONS_MAX};
use crate::store::records::{Extensions, IntervalRecord, RecordError};

/// What is left to read of a record.
pub(in crate::store) struct Input<'a>(pub(in crate::store) &'a [u8]);

/// A value that stands in a record.
pub(in crate::store) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Input<'_>) -> Result<Self, RecordError>;
}

impl<'a> Input<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(RecordError::Short)?;
        self.0 = rest;
        Ok(first)
    }

    fn length(&mut self) -> Result<usize, RecordError> {
        usize::try_from(u64::take(self)?).map_err(|_| RecordError::Short)
    }
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    u64::try_from(length).unwrap_or(u64::MAX).put(out);
}

impl Field for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(input: &mut Input<'_>) -> Result<u8, RecordError> {
        let [byte] = <[u8; 1]>::take(input)?;
        Ok(byte)
    }
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<[u8; N], RecordError> {
        let (first, rest) = input.0.split_first_chunk::<N>().ok_or(RecordError::Short)?;
        input.0 = rest;
        Ok(*first)
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Input<'_>) -> Result<bool, RecordError> {
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RecordError::Malformed("a flag that is neither 0 nor 1")),
        }
    }
}

impl Field for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            let [low, ..] = rest.to_le_bytes();
            out.push(low | 0x80);
            rest >>= 7;
        }
        let [low, ..] = rest.to_le_bytes();
        out.push(low);
    }

    fn take(input: &mut Input<'_>) -> Result<u64, RecordError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = u8::take(input)?;
            if (shift == 63 && byte > 1) || (shift > 0 && byte == 0) {
                return Err(RecordError::Malformed("a number that is too long"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RecordError::Malformed("a number that is too long"))
    }
}

impl Field for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<u32, RecordError> {
        u32::try_from(u64::take(input)?).map_err(|_| RecordError::Malformed("a number that is too large"))
    }
}

macro_rules! ids {
    ($($name:ident $inner:ty),*) => {
        $(impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.value().put(out);
            }

            fn take(input: &mut Input<'_>) -> Result<$name, RecordError> {
                let id = $name::new(<$inner>::take(input)?);
                if id > $name::MAX { Err(RecordError::Malformed("an id beyond its highest")) } else { Ok(id) }
            }
        })*
    };
}

ids!(GroupId u64, MessageId u64, UserId u32, DeviceId u32, ClientSeq u64, Lsn u64);

impl Field for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<Bytes, RecordError> {
        let length = input.length()?;
        Ok(Bytes::copy_from_slice(input.bytes(length)?))
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(input: &mut Input<'_>) -> Result<String, RecordError> {
        let length = input.length()?;
        let text = std::str::from_utf8(input.bytes(length)?);
        text.map(str::to_owned).map_err(|_| RecordError::Malformed("a text that is not UTF-8"))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Option<T>, RecordError> {
        if bool::take(input)? { T::take(input).map(Some) } else { Ok(None) }
    }
}

impl Field for Vec<IntervalRecord> {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        self.iter().for_each(|interval| interval.put(out));
    }

    fn take(input: &mut Input<'_>) -> Result<Vec<IntervalRecord>, RecordError> {
        let mut intervals = Vec::new();
        for _ in 0..input.length()? {
            intervals.push(IntervalRecord::take(input)?);
        }
        Ok(intervals)
    }
}

impl Field for IntervalRecord {
    fn put(&self, out: &mut Vec<u8>) {
        self.joined.put(out);
        self.left.put(out);
        self.policy.put(out);
        self.content_before.put(out);
        self.content_until.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<IntervalRecord, RecordError> {
        Ok(IntervalRecord {
            joined: Field::take(input)?,
            left: Field::take(input)?,
            policy: Field::take(input)?,
            content_before: Field::take(input)?,
            content_until: Field::take(input)?,
        })
    }
}

impl Field for Extensions {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.0.len(), out);
        for (number, bytes) in &self.0 {
            u32::from(*number).put(out);
            bytes.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Extensions, RecordError> {
        let count = input.length()?;
        let mut extensions = Vec::new();
        let mut bytes_left = EXTENSION_BYTES_MAX;
        for _ in 0..count {
            let number = u16::try_from(u32::take(input)?).map_err(|_| RecordError::Extensions)?;
            let bytes = Bytes::take(input)?;
            bytes_left = bytes_left.checked_sub(bytes.len()).ok_or(RecordError::Extensions)?;
            extensions.push((number, bytes));
            if extensions.len() > EXTENSIONS_MAX {
                return Err(RecordError::Extensions);
            }
        }
        Ok(Extensions(extensions))
    }
}
