//! A request's body, from bytes that come in any pieces.

use crate::{bodies::Bodies, request::MOST_BODY_BYTES, response::Status};

/// The room that a chunked body begins with.
const FIRST_CHUNKED_ROOM: usize = 4096;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
}

impl Framing {
    /// Whether there is no body at all.
    pub fn is_empty(self) -> bool {
        self == Self::Length(0)
    }

    /// How much room it takes to begin to keep the body.
    pub fn first_room(self) -> usize {
        match self {
            Self::Length(length) => usize::try_from(length).unwrap_or(usize::MAX),
            Self::Chunked => FIRST_CHUNKED_ROOM,
        }
    }
}

/// Reads one body, and keeps it or throws it away.
#[derive(Debug)]
pub struct BodyReader {
    next: Next,
    /// What was kept.
    // Invariant: its capacity is no more than `room`.
    kept: Vec<u8>,
    /// What it has taken of the room for bodies; 0: it is thrown away.
    room: usize,
    /// Bytes of body so far.
    length: u64,
    /// The size of the chunk that begins at the end of this line.
    announced: u64,
    /// Bytes of chunk extensions and trailers so far: they are bounded too.
    overhead: usize,
}

/// What the next byte is.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Of a body whose end is known.
    Content {
        left: u64,
    },
    /// Of a chunk's size.
    Size {
        so_far: u64,
        digits: u32,
    },
    /// Of an extension behind the size, up to the line's end.
    Extension,
    SizeLf,
    Chunk {
        left: u64,
    },
    ChunkCr,
    ChunkLf,
    /// The first of a trailer line, or the end.
    TrailerStart,
    Trailer,
    EndLf,
    End,
}

/// The most digits of a chunk's size: far more than any body that is allowed.
const MOST_SIZE_DIGITS: u32 = 15;

/// The most bytes of extensions and trailers together.
const MOST_OVERHEAD: usize = 16 * 1024;

impl BodyReader {
    /// For a body that is kept, for which its [first room](Framing::first_room) has been taken.
    pub fn keeping(framing: Framing) -> Self {
        Self {
            room: framing.first_room(),
            ..Self::discarding(framing)
        }
    }

    /// For a body that is read and thrown away.
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

    /// Whether the body has come to its end.
    pub fn is_done(&self) -> bool {
        matches!(self.next, Next::End)
    }

    /// The body, once it is [done](Self::is_done).
    pub fn into_kept(self) -> Vec<u8> {
        self.kept
    }

    /// How much room it has taken, which is to be given back.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Takes what belongs to the body from the front of `bytes`; how many those were.
    pub fn feed(&mut self, bytes: &[u8], bodies: &mut Bodies) -> Result<usize, Status> {
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

    /// Takes at most `left` bytes of content.
    fn content(&mut self, bytes: &[u8], left: u64, bodies: &mut Bodies) -> Result<usize, Status> {
        let n = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.length += n as u64;
        if self.length > MOST_BODY_BYTES as u64 {
            return Err(Status::BodyTooLarge);
        }
        if self.room > 0 {
            self.keep(&bytes[..n], bodies)?;
        }
        Ok(n)
    }

    fn keep(&mut self, bytes: &[u8], bodies: &mut Bodies) -> Result<(), Status> {
        let needed = self.kept.len() + bytes.len();
        if needed > self.room {
            self.grow(needed, bodies)?;
        }
        if needed > self.kept.capacity() {
            let missing = self.room - self.kept.len();
            // The client has decided how much it is: the system may not have it.
            let reserved = self.kept.try_reserve_exact(missing);
            reserved.map_err(|_| Status::ServiceUnavailable)?;
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes more room for a chunked body: twice as much as it has, or what it needs.
    fn grow(&mut self, needed: usize, bodies: &mut Bodies) -> Result<(), Status> {
        let room = needed.max(self.room * 2).min(MOST_BODY_BYTES);
        if !bodies.take(room - self.room) {
            return Err(Status::ServiceUnavailable);
        }
        self.room = room;
        Ok(())
    }

    /// Takes one byte of what stands between chunks (RFC 9112, section 7.1).
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
            (Next::Size { so_far, .. }, b';' | b' ' | b'\t') => {
                self.announce(so_far)?;
                Next::Extension
            }
            (Next::Extension, b'\r') => Next::SizeLf,
            (Next::Extension, byte) if byte != b'\n' => self.over(Next::Extension)?,
            (Next::SizeLf, b'\n') if self.announced == 0 => Next::TrailerStart,
            (Next::SizeLf, b'\n') => Next::Chunk {
                left: self.announced,
            },
            (Next::ChunkCr, b'\r') => Next::ChunkLf,
            (Next::ChunkLf, b'\n') => Next::SIZE,
            (Next::TrailerStart, b'\r') => Next::EndLf,
            (Next::TrailerStart | Next::Trailer, byte) if byte != b'\n' => {
                self.over(Next::Trailer)?
            }
            (Next::Trailer, b'\n') => Next::TrailerStart,
            (Next::EndLf, b'\n') => Next::End,
            _ => return Err(Status::BadRequest),
        })
    }

    fn size_digit(&mut self, so_far: u64, digits: u32, byte: u8) -> Result<Next, Status> {
        if digits == MOST_SIZE_DIGITS {
            return Err(Status::BodyTooLarge);
        }
        let digit = char::from(byte).to_digit(16).ok_or(Status::BadRequest)?;
        Ok(Next::Size {
            so_far: so_far * 16 + u64::from(digit),
            digits: digits + 1,
        })
    }

    /// A chunk of that size is to come: refused before it comes if it is too much.
    fn announce(&mut self, size: u64) -> Result<(), Status> {
        self.announced = size;
        if self.length + size > MOST_BODY_BYTES as u64 {
            Err(Status::BodyTooLarge)
        } else {
            Ok(())
        }
    }

    /// Counts a byte that is neither content nor needed.
    fn over(&mut self, next: Next) -> Result<Next, Status> {
        self.overhead += 1;
        if self.overhead > MOST_OVERHEAD {
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

    /// Room for all that these tests need.
    fn enough() -> Bodies {
        Bodies::new(MOST_BODY_BYTES, 1)
    }

    const CHUNKED: &[u8] = b"4\r\nWiki\r\n6;x=1\r\npedia \r\n0\r\nT: 1\r\n\r\nGET /";

    #[test]
    fn chunks_come_in_any_pieces() {
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
    fn what_is_not_chunked_is_refused() {
        for bad in [
            &b"\r\n"[..],
            b"x",
            b"4\r\nWikiX",
            b"4\nWiki",
            b"-1\r\n",
            b"4 \n",
        ] {
            let refused = BodyReader::keeping(Framing::Chunked).feed(bad, &mut enough());
            assert_eq!(refused.unwrap_err(), Status::BadRequest, "{bad:?}");
        }
    }

    #[test]
    fn too_much_is_refused_before_it_comes() {
        for bad in [
            &b"100001\r\n"[..],
            b"fffffffffffffff\r\n",
            b"ffffffffffffffff\r\n",
        ] {
            let refused = BodyReader::keeping(Framing::Chunked).feed(bad, &mut enough());
            assert_eq!(refused.unwrap_err(), Status::BodyTooLarge, "{bad:?}");
        }
    }

    #[test]
    fn a_length_ends_where_it_says() {
        let mut body = BodyReader::keeping(Framing::Length(3));
        assert_eq!(body.feed(b"ab", &mut enough()).unwrap(), 2);
        assert!(!body.is_done());
        assert_eq!(body.feed(b"cGET", &mut enough()).unwrap(), 1);
        assert!(body.is_done());
        assert_eq!(body.into_kept(), b"abc");
    }

    #[test]
    fn a_chunked_body_takes_room_as_it_grows() {
        let mut bodies = Bodies::new(20_000, 1);
        assert!(bodies.take(Framing::Chunked.first_room()));
        let mut body = BodyReader::keeping(Framing::Chunked);
        let chunk = [b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat();
        for room in [4096, 8192, 16_384, 16_384] {
            assert_eq!(body.feed(&chunk, &mut bodies), Ok(chunk.len()));
            assert_eq!((body.room(), bodies.held()), (room, room));
            assert!(body.kept.capacity() <= room);
        }
        let refused = body.feed(&chunk, &mut bodies);
        assert_eq!(refused, Err(Status::ServiceUnavailable));
        assert_eq!(bodies.held(), body.room());
    }

    #[test]
    fn a_length_takes_no_more_memory_than_it_says() {
        let mut body = BodyReader::keeping(Framing::Length(100_000));
        for _ in 0..100 {
            assert_eq!(body.feed(&[b'x'; 1000], &mut enough()), Ok(1000));
            assert_eq!(body.kept.capacity(), 100_000);
        }
        assert!(body.is_done());
    }
}
