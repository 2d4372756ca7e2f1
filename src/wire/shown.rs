//! What `Debug` may show of a frame: numbers and ids. Of texts and bytes it shows the length, of lists the count.

use std::fmt;

use bytes::Bytes;

use crate::ids::{ClientSeq, DeviceId, Epoch, GroupId, MessageId, UserId};
use crate::wire::bounded::Rows;

/// A field of a frame, for `Debug`.
pub(super) struct Shown<'a, T>(pub(super) &'a T);

/// How a type of field is shown. A type without this cannot be a field.
pub(super) trait Show {
    /// Writes what may be seen of it.
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<T: Show> fmt::Debug for Shown<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(out)
    }
}

macro_rules! plain {
    ($($type:ty)*) => {
        $(impl Show for $type {
            fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, out)
            }
        })*
    };
}

plain! { bool u8 u16 u32 u64 ClientSeq DeviceId Epoch GroupId MessageId UserId }

impl<A: Show, B: Show> Show for (A, B) {
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(")?;
        self.0.show(out)?;
        out.write_str(", ")?;
        self.1.show(out)?;
        out.write_str(")")
    }
}

impl Show for String {
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} bytes)", self.len())
    }
}

impl Show for Bytes {
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} bytes)", self.len())
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(value) => value.show(out),
            None => out.write_str("none"),
        }
    }
}

impl<T> Show for Vec<T> {
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} entries)", self.len())
    }
}

impl<T> Show for Rows<T> {
    fn show(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(out)
    }
}
