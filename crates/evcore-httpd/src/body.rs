//! An incremental reader of request bodies, which have a known length or are chunked.

use crate::{
    body_memory::BodyMemory,
    chunk_extension::{Extension, is_text, is_token},
    response::Status,
};

/// The maximum size of a body, in bytes.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The memory that a chunked body reserves first, in bytes.
const FIRST_CHUNKED_RESERVATION: usize = 4096;

/// The way in which a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A length in bytes.
    Length(u64),
    /// Chunks, each with its length in front.
    Chunked,
}

impl Framing {
    /// Returns whether the body is empty.
    pub fn is_empty(self) -> bool {
        self == Self::Length(0)
    }

    /// The memory to reserve before the body is read, in bytes.
    pub fn first_reservation(self) -> usize {
        match self {
            Self::Length(length) => usize::try_from(length).unwrap_or(usize::MAX),
            Self::Chunked => FIRST_CHUNKED_RESERVATION,
        }
    }
}

/// Reads one body, and keeps or discards it.
#[derive(Debug)]
pub struct BodyReader {
    next: Next,
    /// The body so far, if it is kept.
    // Invariant: its capacity is no more than `room`.
    kept: Vec<u8>,
    /// The memory that the body has reserved; 0 if it is discarded.
    room: usize,
    /// The length of the body so far.
    length: u64,
    /// The size of the chunk that begins after the current line.
    announced: u64,
    /// The number of bytes so far that count as overhead: the digits of a size beyond
    /// `USUAL_SIZE_DIGITS`, chunk extensions and trailers. [`MAX_OVERHEAD`] limits it.
    overhead: usize,
}

/// The part of the body that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum Next {
    Content {
        left: u64,
    },
    Size {
        so_far: u64,
        digits: u32,
    },
    Extension(Extension),
    SizeLf,
    Chunk {
        left: u64,
    },
    ChunkCr,
    ChunkLf,
    /// The first byte of a trailer line or of the last line.
    TrailerStart,
    TrailerName,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

/// Number of digits that a chunk's size may have without counting as overhead. Leading zeros can
/// make a valid size longer.
const USUAL_SIZE_DIGITS: u32 = 15;

/// The maximum number of bytes of overhead: digits beyond `USUAL_SIZE_DIGITS`, extensions and
/// trailers together.
const MAX_OVERHEAD: usize = 16 * 1024;

impl BodyReader {
    /// Creates a reader that keeps the body. The caller must have reserved its
    /// [first memory](Framing::first_reservation).
    pub fn keeping(framing: Framing) -> Self {
        Self {
            room: framing.first_reservation(),
            ..Self::discarding(framing)
        }
    }

    /// Creates a reader that discards the body.
    pub fn discarding(framing: Framing) -> Self {
        let next = match framing {
            Framing::Length(0) => Next::End,
            Framing::Length(left) => Next::Content { left },
            Framing::Chunked => Next::SIZE,
        };
        Self {
            next,
            kept: Vec::new(),
            room: 0,
            length: 0,
            announced: 0,
            overhead: 0,
        }
    }

    /// Returns whether the body is complete.
    pub fn is_done(&self) -> bool {
        matches!(self.next, Next::End)
    }

    /// Returns the kept body. Call it when the body is [done](Self::is_done).
    pub fn into_kept(self) -> Vec<u8> {
        self.kept
    }

    /// The memory that the body has reserved, in bytes. The caller releases it.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Consumes the bytes of the body at the front of `bytes`. Returns their number.
    pub fn feed(&mut self, bytes: &[u8], bodies: &mut BodyMemory) -> Result<usize, Status> {
        let mut used = 0;
        while used < bytes.len() && !self.is_done() {
            used += match self.next {
                Next::Content { left } => {
                    let n = self.content(&bytes[used..], left, bodies)?;
                    self.next = match left - n as u64 {
                        0 => Next::End,
                        left => Next::Content { left },
                    };
                    n
                }
                Next::Chunk { left } => {
                    let n = self.content(&bytes[used..], left, bodies)?;
                    self.next = match left - n as u64 {
                        0 => Next::ChunkCr,
                        left => Next::Chunk { left },
                    };
                    n
                }
                _ => {
                    self.next = self.delimiter(bytes[used])?;
                    1
                }
            };
        }
        Ok(used)
    }

    fn content(
        &mut self,
        bytes: &[u8],
        left: u64,
        bodies: &mut BodyMemory,
    ) -> Result<usize, Status> {
        let n = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.length += n as u64;
        if self.length > MAX_BODY_BYTES as u64 {
            return Err(Status::BodyTooLarge);
        }
        if self.room > 0 {
            self.keep(&bytes[..n], bodies)?;
        }
        Ok(n)
    }

    fn keep(&mut self, bytes: &[u8], bodies: &mut BodyMemory) -> Result<(), Status> {
        let needed = self.kept.len() + bytes.len();
        if needed > self.room {
            self.grow(needed, bodies)?;
        }
        if needed > self.kept.capacity() {
            let missing = self.room - self.kept.len();
            if !bodies.headroom.allows(missing) {
                return Err(Status::ServiceUnavailable);
            }
            // The client controls the size, so the allocation may fail.
            let reserved = self.kept.try_reserve_exact(missing);
            reserved.map_err(|_| Status::ServiceUnavailable)?;
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }

    /// Reserves more memory for a chunked body: twice the present amount, or the needed amount if
    /// that is more.
    fn grow(&mut self, needed: usize, bodies: &mut BodyMemory) -> Result<(), Status> {
        let room = needed.max(self.room * 2).min(MAX_BODY_BYTES);
        if !bodies.reserve(room - self.room) {
            return Err(Status::ServiceUnavailable);
        }
        self.room = room;
        Ok(())
    }

    /// Consumes one byte of the framing between chunks (RFC 9112, section 7.1).
    ///
    /// Only CR LF ends a line, and each trailer line must be a field. Otherwise, two readers that
    /// are lenient in different ways could find the end of the body at different places.
    fn delimiter(&mut self, byte: u8) -> Result<Next, Status> {
        Ok(match (self.next, byte) {
            (Next::Size { so_far, digits }, byte) if byte.is_ascii_hexdigit() => {
                self.size_digit(so_far, digits, byte)?
            }
            (Next::Size { digits: 0, .. }, _) => return Err(Status::BadRequest),
            (Next::Size { so_far, .. }, b'\r') => {
                self.announce(so_far)?;
                Next::SizeLf
            }
            (Next::Size { so_far, .. }, byte) => {
                self.announce(so_far)?;
                self.extension(Extension::begin(byte))?
            }
            (Next::Extension(read), b'\r') if read.may_end() => Next::SizeLf,
            (Next::Extension(read), byte) => self.extension(read.next(byte))?,
            (Next::SizeLf, b'\n') if self.announced == 0 => Next::TrailerStart,
            (Next::SizeLf, b'\n') => Next::Chunk {
                left: self.announced,
            },
            (Next::ChunkCr, b'\r') => Next::ChunkLf,
            (Next::ChunkLf, b'\n') => Next::SIZE,
            (Next::TrailerStart, b'\r') => Next::EndLf,
            (Next::TrailerStart | Next::TrailerName, byte) if is_token(byte) => {
                self.over(Next::TrailerName)?
            }
            (Next::TrailerName, b':') => self.over(Next::Trailer)?,
            (Next::Trailer, b'\r') => Next::TrailerLf,
            (Next::Trailer, byte) if is_text(byte) => self.over(Next::Trailer)?,
            (Next::TrailerLf, b'\n') => Next::TrailerStart,
            (Next::EndLf, b'\n') => Next::End,
            _ => return Err(Status::BadRequest),
        })
    }

    fn size_digit(&mut self, so_far: u64, digits: u32, byte: u8) -> Result<Next, Status> {
        // Another digit would only make the size larger.
        if so_far > MAX_BODY_BYTES as u64 {
            return Err(Status::BodyTooLarge);
        }
        let digit = char::from(byte).to_digit(16).ok_or(Status::BadRequest)?;
        let next = Next::Size {
            so_far: so_far * 16 + u64::from(digit),
            digits: digits.saturating_add(1),
        };
        if digits < USUAL_SIZE_DIGITS {
            Ok(next)
        } else {
            self.over(next)
        }
    }

    /// Consumes a byte of an extension. `read` is the result of [`Extension::next`] or
    /// [`Extension::begin`].
    fn extension(&mut self, read: Option<Extension>) -> Result<Next, Status> {
        let read = read.ok_or(Status::BadRequest)?;
        self.over(Next::Extension(read))
    }

    /// Records the size of the next chunk. A chunk beyond the limit is refused before it is read.
    fn announce(&mut self, size: u64) -> Result<(), Status> {
        self.announced = size;
        if self.length + size > MAX_BODY_BYTES as u64 {
            Err(Status::BodyTooLarge)
        } else {
            Ok(())
        }
    }

    /// Counts a byte of overhead.
    fn over(&mut self, next: Next) -> Result<Next, Status> {
        self.overhead += 1;
        if self.overhead > MAX_OVERHEAD {
            Err(Status::HeadTooLarge)
        } else {
            Ok(next)
        }
    }
}

impl Next {
    const SIZE: Self = Self::Size {
        so_far: 0,
        digits: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enough() -> BodyMemory {
        BodyMemory::new(MAX_BODY_BYTES, 1)
    }

    const CHUNKED: &[u8] = b"4\r\nWiki\r\n6;x=1\r\npedia \r\n0\r\nT: 1\r\n\r\nGET /";

    #[test]
    fn chunks_are_read_across_any_split() {
        for cut in 0..CHUNKED.len() {
            let mut body = BodyReader::keeping(Framing::Chunked);
            let mut used = body.feed(&CHUNKED[..cut], &mut enough()).unwrap();
            used += body.feed(&CHUNKED[used..], &mut enough()).unwrap();
            assert!(body.is_done());
            assert_eq!(&CHUNKED[used..], b"GET /", "cut at {cut}");
            assert_eq!(body.into_kept(), b"Wikipedia ");
        }
    }

    #[test]
    fn invalid_chunk_framing_is_a_400() {
        for bad in [
            &b"\r\n"[..],
            b"x",
            b"4\r\nWikiX",
            b"4\nWiki",
            b"-1\r\n",
            b"4 \n",
            b"4 5\r\n",
            b"4 \r\n",
            b"4;\r\n",
            b"4;a\rb",
            b"4;\0",
            b"0\r\nGET /",
            b"0\r\nT\r",
            b"0\r\n:",
            b"0\r\nT: 1\n",
            b"0\r\nT: 1\r\r",
            b"0\r\n\n",
        ] {
            let refused = BodyReader::keeping(Framing::Chunked).feed(bad, &mut enough());
            assert_eq!(refused.unwrap_err(), Status::BadRequest, "{bad:?}");
        }
    }

    #[test]
    fn a_chunk_beyond_the_limit_is_refused_before_it_is_read() {
        for bad in [
            &b"100001\r\n"[..],
            b"fffffffffffffff\r\n",
            b"ffffffffffffffff\r\n",
        ] {
            let refused = BodyReader::keeping(Framing::Chunked).feed(bad, &mut enough());
            assert_eq!(refused, Err(Status::BodyTooLarge), "{bad:?}");
        }
    }

    #[test]
    fn zeros_in_front_of_a_size_are_allowed_up_to_the_overhead() {
        let chunk = |zeros| [vec![b'0'; zeros], b"3\r\nabc\r\n0\r\n\r\n".to_vec()].concat();
        let usual = USUAL_SIZE_DIGITS as usize - 1;
        for zeros in [0, 14, 15, 16, usual + MAX_OVERHEAD] {
            let mut body = BodyReader::keeping(Framing::Chunked);
            let chunk = chunk(zeros);
            assert_eq!(body.feed(&chunk, &mut enough()), Ok(chunk.len()), "{zeros}");
            assert_eq!(body.into_kept(), b"abc", "{zeros}");
        }
        let mut body = BodyReader::keeping(Framing::Chunked);
        let refused = body.feed(&chunk(usual + MAX_OVERHEAD + 1), &mut enough());
        assert_eq!(refused, Err(Status::HeadTooLarge));
    }

    #[test]
    fn a_body_of_known_length_ends_after_its_length() {
        let mut body = BodyReader::keeping(Framing::Length(3));
        assert_eq!(body.feed(b"ab", &mut enough()).unwrap(), 2);
        assert!(!body.is_done());
        assert_eq!(body.feed(b"cGET", &mut enough()).unwrap(), 1);
        assert!(body.is_done());
        assert_eq!(body.into_kept(), b"abc");
    }

    #[test]
    fn a_chunked_body_reserves_memory_as_it_grows() {
        let mut bodies = BodyMemory::new(20_000, 1);
        assert!(bodies.reserve(Framing::Chunked.first_reservation()));
        let mut body = BodyReader::keeping(Framing::Chunked);
        let chunk = [b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat();
        for room in [4096, 8192, 16_384, 16_384] {
            assert_eq!(body.feed(&chunk, &mut bodies), Ok(chunk.len()));
            assert_eq!((body.room(), bodies.reserved()), (room, room));
            assert!(body.kept.capacity() <= room);
        }
        let refused = body.feed(&chunk, &mut bodies);
        assert_eq!(refused, Err(Status::ServiceUnavailable));
        assert_eq!(bodies.reserved(), body.room());
    }

    #[test]
    fn a_body_of_known_length_allocates_its_length() {
        let mut body = BodyReader::keeping(Framing::Length(100_000));
        for _ in 0..100 {
            assert_eq!(body.feed(&[b'x'; 1000], &mut enough()), Ok(1000));
            assert_eq!(body.kept.capacity(), 100_000);
        }
        assert!(body.is_done());
    }
}
