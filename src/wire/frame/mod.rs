//! Every frame there is. The body of each is the postcard encoding of its struct; none is ever changed, only its
//! extension list grows.
//!
//! They stand in files by what they are for; `PROTOCOL.md` says which stream carries which frame and what answers it.

use serde::{Deserialize, Serialize};

pub use crate::wire::bounded::{Extensions, Rows};
pub use crate::wire::part::{
    DeviceInfo, GroupInfo, MemberInfo, Payload, PushBatch, UserInfo, group_info, member_info, user_info, user_state,
};
pub use crate::wire::talk::{Conversation, Preview, ReceiptInfo};

/// A frame: its number and its name.
pub trait Frame: Serialize + for<'a> Deserialize<'a> {
    /// The number in the envelope; never reused.
    const TYPE: u16;
    /// The name in logs, errors and `PROTOCOL.md`.
    const NAME: &'static str;
}

/// The name of the frame with this number, where this version knows it.
#[must_use]
pub fn name(kind: u16) -> Option<&'static str> {
    FILES.iter().copied().flatten().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

macro_rules! frames {
    ($($(#[$doc:meta])* $number:literal $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
            pub struct $name {
                $($(#[$fdoc])* pub $field: $type,)*
                /// What later versions add.
                pub extensions: $crate::wire::bounded::Extensions,
            }
            impl $crate::wire::frame::Frame for $name {
                const TYPE: u16 = $number;
                const NAME: &'static str = stringify!($name);
            }
            impl std::fmt::Debug for $name {
                fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    let mut fields = out.debug_struct(stringify!($name));
                    $(fields.field(stringify!($field), &$crate::wire::shown::Shown(&self.$field));)*
                    fields.finish()
                }
            }
        )*
        /// Number and name of each frame of this file.
        pub(super) const ALL: &[(u16, &str)] = &[$(($number, stringify!($name)),)*];

        /// The names of the fields of each.
        #[cfg(test)]
        pub(super) const FIELDS: &[(u16, &[&str])] = &[$(($number, &[$(stringify!($field),)*]),)*];

        /// Decodes one of them and encodes it again; none where the type is another.
        #[cfg(feature = "proof")]
        pub(super) fn again(
            raw: &$crate::wire::codec::RawFrame,
        ) -> Option<Result<bytes::Bytes, $crate::wire::WireError>> {
            match raw.kind {
                $($number => Some(raw.decode::<$name>().and_then(|it| $crate::wire::codec::encode(raw.request, &it))),)*
                _ => None,
            }
        }
    };
}

mod control;
mod people;
mod push;
mod reading;
mod retention;
mod session;
mod talk;

pub use control::*;
pub use people::*;
pub use push::*;
pub use reading::*;
pub use retention::*;
pub use session::*;
pub use talk::*;

/// Number and name of the frames of each file.
const FILES: [&[(u16, &str)]; 7] =
    [session::ALL, control::ALL, reading::ALL, push::ALL, people::ALL, retention::ALL, talk::ALL];

/// Number and name of every frame, by number: for tests, logs and documentation.
#[must_use]
pub fn all() -> Vec<(u16, &'static str)> {
    let mut all = FILES.concat();
    all.sort_unstable();
    all
}

/// The names of each frame's fields, in the same order.
#[cfg(test)]
pub(crate) fn fields() -> Vec<(u16, &'static [&'static str])> {
    let mut all = [
        session::FIELDS,
        control::FIELDS,
        reading::FIELDS,
        push::FIELDS,
        people::FIELDS,
        retention::FIELDS,
        talk::FIELDS,
    ]
    .concat();
    all.sort_unstable();
    all
}

/// Decodes a frame of whatever type and encodes it again; none where the type is unknown.
#[cfg(any(test, feature = "proof"))]
pub(crate) fn again(raw: &crate::wire::codec::RawFrame) -> Option<Result<bytes::Bytes, crate::wire::WireError>> {
    let files =
        [session::again, control::again, reading::again, push::again, people::again, retention::again, talk::again];
    files.into_iter().find_map(|again| again(raw))
}
