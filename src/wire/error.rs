//! Why bytes are not what they claim to be, or cannot be made.
//!
//! An error never holds the bytes themselves: they may be a body, a code or a key.

use crate::limits;
use crate::wire::code::Code;

/// What is wrong with bytes that came, or with a value that should travel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// An envelope announces more than a frame may hold; nothing of it was buffered.
    #[error("a frame of {bytes} bytes, where {} are allowed", limits::FRAME_BYTES_MAX)]
    FrameTooLarge {
        /// Bytes of its body.
        bytes: usize,
    },
    /// An envelope announces less than its own fields take.
    #[error("a frame whose length of {bytes} does not even cover its envelope")]
    FrameTooShort {
        /// The length it gave.
        bytes: usize,
    },
    /// The stream ended in the middle of a frame.
    #[error("the stream ended inside a frame")]
    EndsInside,
    /// A frame of another type than the one asked for.
    #[error("a frame of type {found} where {expected} was expected")]
    WrongType {
        /// The type expected.
        expected: u16,
        /// The type that came.
        found: u16,
    },
    /// The bytes are not the encoding of this type.
    #[error("a malformed {what}: {source}")]
    Malformed {
        /// The name of the type.
        what: &'static str,
        /// What the decoder met.
        #[source]
        source: postcard::Error,
    },
    /// Bytes are left over behind the extension list, or a number is not in its shortest form.
    #[error("a malformed {what}: not the one encoding of its value")]
    NotCanonical {
        /// The name of the type.
        what: &'static str,
    },
    /// A list, a text or an extension list is over its bound, or a row inside is malformed.
    #[error("a {what} with a part that is over its limit")]
    OverLimit {
        /// The name of the type.
        what: &'static str,
    },
    /// A body is over the limit for bodies, or an item over that for items.
    #[error("a {what} of {bytes} bytes, where {max} are allowed")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The rows of a page or push are cut off or shorter than a row can be.
    #[error("malformed rows")]
    BadRows,
    /// Something sent whose body or extensions are not those of its kind.
    #[error("{0} that is not what its kind says")]
    BadSaid(&'static str),
}

impl WireError {
    /// The code with which a peer's mistake of this kind is answered.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            WireError::FrameTooLarge { .. } | WireError::OverLimit { .. } | WireError::TooLarge { .. } => {
                Code::TooLarge
            }
            WireError::FrameTooShort { .. }
            | WireError::EndsInside
            | WireError::WrongType { .. }
            | WireError::Malformed { .. }
            | WireError::NotCanonical { .. }
            | WireError::BadRows
            | WireError::BadSaid(_) => Code::Malformed,
        }
    }
}
