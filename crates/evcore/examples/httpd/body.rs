//! A request's body, from bytes that come in any pieces.

use crate::{request::MOST_BODY_BYTES, response::Status};

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
}

/// Reads one body, and keeps it or throws it away.
#[derive(Debug)]
pub struct BodyReader {
    next: Next,
    /// What was kept.
    kept: Vec<u8>,
    keeps: bool,
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
    pub fn new(framing: Framing, keeps: bool) -> Self {
        let next = match framing {
            Framing::Length(0) => Next::End,
            Framing::Length(left) => Next::Content { left },
            Framing::Chunked => Next::SIZE,
        };
        Self {
            next,
            kept: Vec::new(),
            keeps,
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

    /// Takes what belongs to the body from the front of `bytes`; how many those were.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Status> {
        let mut used = 0;
        while used < bytes.len() && !self.is_done() {
            used += match self.next {
                Next::Content { left } => {
                    let n = self.content(&bytes[used..], left)?;
                    self.next = match left - n as u64 {
                        0 => Next::End,
                        left => Next::Content { left },
                    };
                    n
                }
                Next::Chunk { left } => {
                    let n = self.content(&bytes[used..], left)?;
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
    fn content(&mut self, bytes: &[u8], left: u64) -> Result<usize, Status> {
        let n = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.length += n as u64;
        if self.length > MOST_BODY_BYTES {
            return Err(Status::BodyTooLarge);
        }
        if self.keeps {
            self.kept.extend_from_slice(&bytes[..n]);
        }
        Ok(n)
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
        if self.length + size > MOST_BODY_BYTES {
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

    const CHUNKED: &[u8] = b"4\r\nWiki\r\n6;x=1\r\npedia \r\n0\r\nT: 1\r\n\r\nGET /";

    #[test]
    fn chunks_come_in_any_pieces() {
        for cut in 0..CHUNKED.len() {
            let mut body = BodyReader::new(Framing::Chunked, true);
            let mut used = body.feed(&CHUNKED[..cut]).unwrap();
            used += body.feed(&CHUNKED[used..]).unwrap();
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
            let refused = BodyReader::new(Framing::Chunked, true).feed(bad);
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
            let refused = BodyReader::new(Framing::Chunked, true).feed(bad);
            assert_eq!(refused.unwrap_err(), Status::BodyTooLarge, "{bad:?}");
        }
    }

    #[test]
    fn a_length_ends_where_it_says() {
        let mut body = BodyReader::new(Framing::Length(3), true);
        assert_eq!(body.feed(b"ab").unwrap(), 2);
        assert!(!body.is_done());
        assert_eq!(body.feed(b"cGET").unwrap(), 1);
        assert!(body.is_done());
        assert_eq!(body.into_kept(), b"abc");
    }
}
