//! Frames to bytes and back: the envelope, written by hand, and the body, a postcard struct.
//!
//! Decoding is strict: nothing may follow the extension list, and a value has exactly one encoding. An envelope's length
//! is checked before anything is buffered for it. No I/O: [`FrameReader`] is fed with whatever pieces a stream gives.

use std::fmt;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

use crate::limits::{ENVELOPE_BYTES, FRAME_BYTES_MAX};
use crate::wire::WireError;
use crate::wire::frame::{self, Frame, Push};

/// Envelope flags.
pub mod flag {
    /// A receiver that does not know the type must end the connection instead of skipping the frame.
    pub const MUST_UNDERSTAND: u8 = 1;
}

/// Bytes of the length field, which does not count itself.
const LENGTH_BYTES: usize = 4;
/// What the length counts besides the body: type, flags, request.
const COUNTED_BYTES: usize = ENVELOPE_BYTES - LENGTH_BYTES;

/// Envelope and body of a frame. Request 0 means that no answer is wanted, or that this answers none.
///
/// # Errors
/// Where the body would be over [`FRAME_BYTES_MAX`].
pub fn encode<F: Frame>(request: u32, frame: &F) -> Result<Bytes, WireError> {
    let mut bytes = Vec::with_capacity(64);
    bytes.resize(ENVELOPE_BYTES, 0);
    let mut bytes = append(F::NAME, frame, bytes, ENVELOPE_BYTES + FRAME_BYTES_MAX)?;
    let body_bytes = bytes.len() - ENVELOPE_BYTES;
    if let Some(envelope) = bytes.get_mut(..ENVELOPE_BYTES) {
        write_envelope(envelope, F::TYPE, request, body_bytes)?;
    }
    Ok(bytes.into())
}

/// A push, request 0, as pieces that follow one another on the stream: the rows of each batch are a piece of their own,
/// not copied, so that all receivers of a fan-out share them.
///
/// # Errors
/// Where the body would be over [`FRAME_BYTES_MAX`].
pub fn encode_push(push: &Push) -> Result<Vec<Bytes>, WireError> {
    let mut body_bytes = 0;
    let mut pieces = Vec::with_capacity(2 * push.batches.len() + 1);
    let mut between = vec![0; ENVELOPE_BYTES];
    let what = Push::NAME;
    between = append(what, &(push.credit_items, push.credit_bytes, push.batches.len()), between, usize::MAX)?;
    for batch in &push.batches {
        let head = (batch.gid, batch.continues, batch.covered_to, batch.rows.len());
        between = append(what, &head, between, usize::MAX)?;
        body_bytes += between.len() + batch.rows.len();
        pieces.push(between);
        between = append(what, &batch.extensions, Vec::with_capacity(64), usize::MAX)?;
    }
    between = append(what, &push.extensions, between, usize::MAX)?;
    body_bytes += between.len();
    pieces.push(between);
    if let Some(envelope) = pieces.first_mut().and_then(|first| first.get_mut(..ENVELOPE_BYTES)) {
        write_envelope(envelope, Push::TYPE, 0, body_bytes - ENVELOPE_BYTES)?;
    }
    let mut rows = push.batches.iter().map(|batch| batch.rows.clone());
    Ok(pieces.into_iter().flat_map(|piece| [Some(Bytes::from(piece)), rows.next()]).flatten().collect())
}

fn write_envelope(mut envelope: &mut [u8], kind: u16, request: u32, body_bytes: usize) -> Result<(), WireError> {
    let too_large = WireError::FrameTooLarge { bytes: body_bytes };
    let length = u32::try_from(COUNTED_BYTES + body_bytes).map_err(|_| too_large.clone())?;
    if body_bytes > FRAME_BYTES_MAX {
        return Err(too_large);
    }
    envelope.put_u32(length);
    envelope.put_u16(kind);
    envelope.put_u8(0);
    envelope.put_u32(request);
    Ok(())
}

/// A frame whose envelope is read and whose body is not yet.
#[derive(Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// The number of its type, see [`frame::all`].
    pub kind: u16,
    /// See [`flag`]; unknown bits mean nothing.
    pub flags: u8,
    /// The request it asks or answers; zero: none.
    pub request: u32,
    /// The body as it came.
    pub body: Bytes,
}

impl RawFrame {
    /// Reads the body as a frame of this type.
    ///
    /// # Errors
    /// Where it is of another type, or not the one encoding of any value of it within the limits.
    pub fn decode<F: Frame>(&self) -> Result<F, WireError> {
        if self.kind != F::TYPE {
            return Err(WireError::WrongType { expected: F::TYPE, found: self.kind });
        }
        decode_whole(F::NAME, &self.body)
    }

    /// The one frame that a datagram holds.
    ///
    /// # Errors
    /// Where it holds none, a part of one, or more.
    pub fn of_datagram(datagram: &[u8]) -> Result<RawFrame, WireError> {
        let mut reader = FrameReader::new();
        reader.push(datagram);
        let frame = reader.next_frame()?;
        reader.finish()?;
        frame.ok_or(WireError::EndsInside)
    }

    /// Whether a receiver that does not know the type must not skip it.
    #[must_use]
    pub const fn must_understand(&self) -> bool {
        self.flags & flag::MUST_UNDERSTAND != 0
    }
}

impl fmt::Debug for RawFrame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = frame::name(self.kind).unwrap_or("unknown");
        write!(out, "{name}({}) request {} of {} bytes", self.kind, self.request, self.body.len())
    }
}

/// Cuts what a stream gives into frames. After an error the stream is of no more use: every later call fails alike.
#[derive(Default)]
pub struct FrameReader {
    buffer: BytesMut,
    failed: Option<WireError>,
}

impl FrameReader {
    /// A reader at the start of a stream.
    #[must_use]
    pub fn new() -> FrameReader {
        FrameReader::default()
    }

    /// Adds the next piece of the stream. Take all frames with [`FrameReader::next_frame`] before adding another: then
    /// at most one frame and one piece are ever held.
    pub fn push(&mut self, piece: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(piece);
        }
    }

    /// The next whole frame; none until more of the stream is there.
    ///
    /// # Errors
    /// Where the envelope's length cannot be; known as soon as the length itself is there.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, WireError> {
        match self.failed.clone() {
            Some(error) => Err(error),
            None => self.cut().inspect_err(|error| {
                self.failed = Some(error.clone());
                self.buffer = BytesMut::new();
            }),
        }
    }

    /// Bytes that wait for the rest of their frame.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// To be called where the stream ends.
    ///
    /// # Errors
    /// Where it ended inside a frame, or had failed before.
    pub fn finish(&self) -> Result<(), WireError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.buffer.is_empty() => Ok(()),
            None => Err(WireError::EndsInside),
        }
    }

    fn cut(&mut self) -> Result<Option<RawFrame>, WireError> {
        let Some((length, _)) = self.buffer.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        let Some(body_bytes) = length.checked_sub(COUNTED_BYTES) else {
            return Err(WireError::FrameTooShort { bytes: length });
        };
        if body_bytes > FRAME_BYTES_MAX {
            return Err(WireError::FrameTooLarge { bytes: body_bytes });
        }
        let whole = LENGTH_BYTES + length;
        if self.buffer.len() < whole {
            self.buffer.reserve(whole - self.buffer.len());
            return Ok(None);
        }
        let mut bytes = self.buffer.split_to(whole).freeze();
        bytes.advance(LENGTH_BYTES);
        Ok(Some(RawFrame { kind: bytes.get_u16(), flags: bytes.get_u8(), request: bytes.get_u32(), body: bytes }))
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FrameReader with {} bytes", self.buffer.len())
    }
}

/// The encoding of a value, of at most `max` bytes.
pub(super) fn encode_value<T: Serialize>(what: &'static str, value: &T, max: usize) -> Result<Bytes, WireError> {
    append(what, value, Vec::with_capacity(64), max).map(Bytes::from)
}

/// Reads a value that takes all of the bytes, in its one encoding.
pub(super) fn decode_whole<'de, T>(what: &'static str, bytes: &'de [u8]) -> Result<T, WireError>
where
    T: Serialize + Deserialize<'de>,
{
    let (value, rest) = postcard::take_from_bytes::<T>(bytes).map_err(|source| {
        // Only our own bounds speak through serde: postcard has a variant for each of its own complaints.
        let ours = source == postcard::Error::SerdeDeCustom;
        if ours { WireError::OverLimit { what } } else { WireError::Malformed { what, source } }
    })?;
    let shortest = postcard::ser_flavors::Size::default();
    let shortest = postcard::serialize_with_flavor(&value, shortest)
        .map_err(|source: postcard::Error| WireError::Malformed { what, source })?;
    if rest.is_empty() && shortest == bytes.len() { Ok(value) } else { Err(WireError::NotCanonical { what }) }
}

fn append<T: Serialize>(what: &'static str, value: &T, bytes: Vec<u8>, max: usize) -> Result<Vec<u8>, WireError> {
    postcard::serialize_with_flavor(value, Bounded { bytes, max }).map_err(|source| {
        let full = source == postcard::Error::SerializeBufferFull;
        if full { WireError::OverLimit { what } } else { WireError::Malformed { what, source } }
    })
}

/// Where an encoding grows, up to a bound.
struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl Flavor for Bounded {
    type Output = Vec<u8>;

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if data.len() > self.max.saturating_sub(self.bytes.len()) {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.try_extend(&[data])
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, MessageId};
    use crate::wire::code::Code;
    use crate::wire::frame::{Ack, Done, Error, Extensions, PushBatch, Status};

    fn done() -> Done {
        Done { msgid: MessageId::new(300), extensions: Extensions::default() }
    }

    fn read(bytes: &[u8]) -> Result<Option<RawFrame>, WireError> {
        let mut reader = FrameReader::new();
        reader.push(bytes);
        reader.next_frame()
    }

    #[test]
    fn a_frame_comes_back_whole_from_pieces_of_any_size() {
        let frames = [encode(7, &done()).unwrap(), encode(8, &Status { extensions: Extensions::default() }).unwrap()];
        let stream = frames.concat();
        for size in 1..stream.len() {
            let mut reader = FrameReader::new();
            let mut got = Vec::new();
            for piece in stream.chunks(size) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    got.push((frame.kind, frame.request));
                }
            }
            assert_eq!(got, [(Done::TYPE, 7), (Status::TYPE, 8)]);
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_says_so() {
        let bytes = encode(1, &done()).unwrap();
        for cut in 1..bytes.len() {
            let mut reader = FrameReader::new();
            reader.push(&bytes[..cut]);
            assert_eq!(reader.next_frame(), Ok(None));
            assert_eq!(reader.finish(), Err(WireError::EndsInside));
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_buffered_for_it() {
        let length = u32::try_from(FRAME_BYTES_MAX + COUNTED_BYTES).unwrap();
        assert_eq!(read(&length.to_be_bytes()), Ok(None));
        let mut reader = FrameReader::new();
        reader.push(&(length + 1).to_be_bytes());
        let error = reader.next_frame().unwrap_err();
        assert_eq!(error, WireError::FrameTooLarge { bytes: FRAME_BYTES_MAX + 1 });
        assert_eq!(error.code(), Code::TooLarge);
        reader.push(&[0; 1000]);
        assert_eq!(reader.buffered(), 0);
        assert_eq!(reader.next_frame(), Err(error), "a failed stream stays failed");
    }

    #[test]
    fn a_length_below_the_envelope_is_refused() {
        for length in 0..7u32 {
            let error = read(&length.to_be_bytes()).unwrap_err();
            assert_eq!(error, WireError::FrameTooShort { bytes: length as usize });
            assert_eq!(error.code(), Code::Malformed);
        }
    }

    #[test]
    fn a_body_is_refused_as_another_type_than_its_own() {
        let raw = read(&encode(0, &done()).unwrap()).unwrap().unwrap();
        assert_eq!(raw.decode::<Done>(), Ok(done()));
        assert_eq!(raw.decode::<Ack>(), Err(WireError::WrongType { expected: Ack::TYPE, found: Done::TYPE }));
    }

    #[test]
    fn nothing_may_follow_the_extension_list() {
        let mut raw = read(&encode(0, &done()).unwrap()).unwrap().unwrap();
        raw.body = [&raw.body[..], &[0]].concat().into();
        assert_eq!(raw.decode::<Done>(), Err(WireError::NotCanonical { what: "Done" }));
    }

    #[test]
    fn a_number_that_is_longer_than_it_need_be_is_refused() {
        let body = Bytes::from_static(&[0x85, 0x00, 0x00]);
        let raw = RawFrame { kind: Done::TYPE, flags: 0, request: 0, body };
        assert_eq!(raw.decode::<Done>(), Err(WireError::NotCanonical { what: "Done" }));
    }

    #[test]
    fn a_frame_over_the_limit_is_not_encoded() {
        let batch = |bytes: usize| PushBatch {
            gid: GroupId::new(1),
            continues: MessageId::ZERO,
            covered_to: MessageId::ZERO,
            rows: vec![0; bytes].into(),
            extensions: Extensions::default(),
        };
        let push = |bytes| Push {
            credit_items: 1,
            credit_bytes: 1,
            batches: vec![batch(bytes)],
            extensions: Extensions::default(),
        };
        assert!(encode(0, &push(FRAME_BYTES_MAX - 100)).is_ok());
        assert!(encode_push(&push(FRAME_BYTES_MAX - 100)).is_ok());
        assert_eq!(encode(0, &push(FRAME_BYTES_MAX)), Err(WireError::OverLimit { what: "Push" }));
        assert!(matches!(encode_push(&push(FRAME_BYTES_MAX)), Err(WireError::FrameTooLarge { .. })));
    }

    #[test]
    fn a_push_in_pieces_is_the_push_and_shares_its_rows() {
        for count in 0..4u64 {
            let batches: Vec<_> = (0..count)
                .map(|number| PushBatch {
                    gid: GroupId::new(number * 1000),
                    continues: MessageId::new(number),
                    covered_to: MessageId::new(number + 2),
                    rows: (0..300 * number).map(|_| 7).collect(),
                    extensions: Extensions(vec![(9, Bytes::from_static(b"later"))]),
                })
                .collect();
            let push = Push { credit_items: 16, credit_bytes: 70_000, batches, extensions: Extensions::default() };
            let pieces = encode_push(&push).unwrap();
            assert_eq!(pieces.concat(), encode(0, &push).unwrap());
            for batch in &push.batches {
                assert!(pieces.iter().any(|piece| piece.as_ptr() == batch.rows.as_ptr()));
            }
        }
    }

    #[test]
    fn debug_shows_numbers_and_no_texts() {
        let error = Error {
            code: 8,
            class: 2,
            retry_after_ms: 5,
            detail: "secret".into(),
            extensions: Extensions(vec![(3, Bytes::from_static(b"secret"))]),
        };
        let shown = format!("{error:?} {:?}", read(&encode(0, &error).unwrap()));
        assert!(shown.contains("retry_after_ms: 5") && !shown.contains("secret"), "{shown}");
        assert!(!shown.contains("115"), "{shown}");
    }
}
