//! What stands before shared memory that another binary may find: what it is, and of which version.
//!
//! Numbers are in the machine's own order: memory does not leave the machine.

use std::io;

/// What a piece of memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AcceptMutex = 1,
    Board = 2,
}

impl Kind {
    const ALL: [Self; 2] = [Self::AcceptMutex, Self::Board];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AcceptMutex => "accept lock",
            Self::Board => "board",
        }
    }
}

/// How many bytes a header takes; what follows is aligned to as many.
pub(crate) const HEADER_BYTES: usize = 64;

/// To be raised whenever the layout or the meaning of what follows a header changes.
const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"evcore\x00\x01";

/// What a header says beside magic and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) item_bytes: usize,
    pub(crate) items: usize,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_ne_bytes());
        bytes[16..24].copy_from_slice(&(self.item_bytes as u64).to_ne_bytes());
        bytes[24..32].copy_from_slice(&(self.items as u64).to_ne_bytes());
        bytes
    }

    /// How many bytes header and items take.
    pub(crate) fn file_bytes(self) -> usize {
        HEADER_BYTES + self.item_bytes * self.items
    }

    /// The header of a file of `file_bytes` bytes that begins with `bytes`, if it is of this kind,
    /// of this version, and of the size that it says.
    pub(crate) fn read(
        bytes: &[u8; HEADER_BYTES],
        file_bytes: u64,
        kind: Kind,
        item_bytes: usize,
    ) -> io::Result<Self> {
        let what = kind.name();
        if bytes[..8] != MAGIC {
            return Err(unfit(what, "it is no shared memory of evcore".to_owned()));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            let why = format!("it is of version {version}, this program's is {VERSION}");
            return Err(unfit(what, why));
        }
        let found = u32_at(bytes, 12);
        if found != kind as u32 {
            let mut known = Kind::ALL.into_iter();
            let why = match known.find(|kind| *kind as u32 == found) {
                Some(other) => format!("it holds the {}", other.name()),
                None => format!("it holds something unknown, of kind {found}"),
            };
            return Err(unfit(what, why));
        }
        let (theirs, items) = (u64_at(bytes, 16), u64_at(bytes, 24));
        if theirs != item_bytes as u64 {
            let why = format!("its items have {theirs} bytes, this program's {item_bytes}");
            return Err(unfit(what, why));
        }
        let expected = theirs
            .checked_mul(items)
            .and_then(|size| size.checked_add(HEADER_BYTES as u64));
        match usize::try_from(items) {
            Ok(items) if items > 0 && expected == Some(file_bytes) => Ok(Self {
                kind,
                item_bytes,
                items,
            }),
            _ => {
                let why = format!("it has {file_bytes} bytes, which is not room for {items} items");
                Err(unfit(what, why))
            }
        }
    }
}

/// An error that says what was to be inherited, and why it cannot be.
pub(crate) fn unfit(what: &str, why: String) -> io::Error {
    let message = format!("cannot inherit the {what}: {why}; make a new one");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: Header = Header {
        kind: Kind::Board,
        item_bytes: 64,
        items: 3,
    };

    fn read(bytes: [u8; HEADER_BYTES], file_bytes: u64) -> Result<Header, String> {
        Header::read(&bytes, file_bytes, Kind::Board, 64).map_err(|error| error.to_string())
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(read(BOARD.to_bytes(), 256), Ok(BOARD));
        assert_eq!(BOARD.file_bytes(), 256);
    }

    #[test]
    fn whatever_does_not_fit_is_refused_with_the_reason() {
        let with = |at: usize, value: u8| {
            let mut bytes = BOARD.to_bytes();
            bytes[at] = value;
            bytes
        };
        let lock = Header {
            kind: Kind::AcceptMutex,
            ..BOARD
        };
        let wider = Header {
            item_bytes: 128,
            ..BOARD
        };
        let endless = Header {
            items: usize::MAX,
            ..BOARD
        };
        let none = Header { items: 0, ..BOARD };
        for (bytes, file_bytes, why) in [
            ([0; 64], 256, "no shared memory of evcore"),
            (with(0, b'E'), 256, "no shared memory of evcore"),
            (with(8, 2), 256, "of version 2, this program's is 1"),
            (lock.to_bytes(), 256, "it holds the accept lock"),
            (with(12, 77), 256, "something unknown, of kind 77"),
            (wider.to_bytes(), 448, "items have 128 bytes"),
            (BOARD.to_bytes(), 255, "255 bytes"),
            (BOARD.to_bytes(), 4096, "4096 bytes"),
            (endless.to_bytes(), 256, "not room for"),
            (none.to_bytes(), 64, "not room for 0 items"),
        ] {
            let error = read(bytes, file_bytes).unwrap_err();
            assert!(error.contains("cannot inherit the board"), "{error}");
            assert!(error.contains(why), "{error}");
        }
    }
}
