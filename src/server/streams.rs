//! Frames on QUIC streams: reading them whole, writing them whole.

use quinn::{RecvStream, SendStream};

use crate::limits;
use crate::wire::WireError;
use crate::wire::code::Code;
use crate::wire::codec::{FrameReader, RawFrame};

/// Bytes taken from a stream at a time.
const READ_BYTES: usize = 64 * 1024;

/// Why reading frames from a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The bytes are no frames.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The stream was reset, or the connection ended.
    #[error("the stream ended: {0}")]
    Ended(#[from] quinn::ReadError),
    /// The stream finished inside a frame.
    #[error("the stream finished inside a frame")]
    Torn,
}

impl StreamError {
    /// The code to close with; none where the peer is gone already.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            StreamError::Wire(error) => Some(error.code()),
            StreamError::Torn => Some(Code::Malformed),
            StreamError::Ended(_) => None,
        }
    }
}

/// Reads frames from a stream.
pub(crate) struct FrameStream {
    stream: RecvStream,
    reader: FrameReader,
}

impl FrameStream {
    /// Frames of this stream.
    pub(crate) fn new(stream: RecvStream) -> FrameStream {
        FrameStream { stream, reader: FrameReader::new() }
    }

    /// The next frame; none at the end of the stream. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Result<Option<RawFrame>, StreamError> {
        loop {
            if let Some(frame) = self.reader.next_frame()? {
                return Ok(Some(frame));
            }
            match self.stream.read_chunk(READ_BYTES, true).await? {
                Some(chunk) => self.reader.push(&chunk.bytes),
                None if self.reader.buffered() == 0 => return Ok(None),
                None => return Err(StreamError::Torn),
            }
        }
    }
}

/// Urgencies of the streams: answers first, which are short and waited for, then what is new, and pages and lists last,
/// which are long. quinn sends higher numbers first.
pub(crate) mod urgency {
    /// Control: answers.
    pub(crate) const CONTROL: i32 = -2;
    /// Pushes.
    pub(crate) const PUSH: i32 = -3;
    /// Pages and lists.
    pub(crate) const REQUEST: i32 = -4;
}

/// Sets the urgency of a stream; one that is closed already needs none.
pub(crate) fn set_urgency(stream: &SendStream, urgency: i32) {
    drop(stream.set_priority(urgency));
}

const _: () = assert!(READ_BYTES <= limits::FRAME_BYTES_MAX);
