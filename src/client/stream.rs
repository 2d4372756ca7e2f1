//! Frames on the streams of a connection.

use bytes::Bytes;
use quinn::{Connection, ReadError, RecvStream};

use crate::client::error::Refusal;
use crate::wire::code::{Class, Code};
use crate::wire::codec::{FrameReader, RawFrame};
use crate::wire::frame::{self, Frame};
use crate::wire::{WireError, codec};

/// Bytes taken from a stream at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Why a stream gives no more frames.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum StreamError {
    /// The stream or its connection broke.
    #[error("{0}")]
    Broken(String),
    /// What came makes no sense.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The receiving half of a stream, cut into frames.
pub(super) struct FrameStream {
    stream: RecvStream,
    reader: FrameReader,
}

impl FrameStream {
    pub(super) fn new(stream: RecvStream) -> FrameStream {
        FrameStream { stream, reader: FrameReader::new() }
    }

    /// The next frame; none at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<RawFrame>, StreamError> {
        loop {
            if let Some(frame) = self.reader.next_frame()? {
                return Ok(Some(frame));
            }
            let piece = self.stream.read_chunk(PIECE_BYTES, true).await;
            match piece.map_err(|error: ReadError| StreamError::Broken(error.to_string()))? {
                Some(piece) => self.reader.push(&piece.bytes),
                None => return self.reader.finish().map(|()| None).map_err(StreamError::from),
            }
        }
    }
}

/// Opens a request stream and asks on it; what follows is the answer.
pub(super) async fn ask<F: Frame>(connection: &Connection, question: &F) -> Result<FrameStream, StreamError> {
    ask_bytes(connection, codec::encode(1, question)?).await
}

/// As [`ask`], with the encoded frame.
pub(super) async fn ask_bytes(connection: &Connection, question: Bytes) -> Result<FrameStream, StreamError> {
    let broken = |error: &dyn std::fmt::Display| StreamError::Broken(error.to_string());
    let (mut send, receive) = connection.open_bi().await.map_err(|error| broken(&error))?;
    send.write_chunk(question).await.map_err(|error| broken(&error))?;
    send.finish().map_err(|error| broken(&error))?;
    Ok(FrameStream::new(receive))
}

/// The refusal in a frame, if it is one.
pub(super) fn refusal(frame: &RawFrame) -> Result<Option<Refusal>, WireError> {
    if frame.kind != frame::Error::TYPE {
        return Ok(None);
    }
    let error: frame::Error = frame.decode()?;
    // A class that this version does not know is met with the greatest care: only the same may be tried again.
    let class = Code::from_number(error.code).map(Code::class).or(Class::from_number(error.class));
    let class = class.unwrap_or(Class::Unknown);
    Ok(Some(Refusal { number: error.code, class, retry_after_ms: error.retry_after_ms, detail: error.detail }))
}
