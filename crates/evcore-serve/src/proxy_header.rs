//! A header of the PROXY protocol, as its bytes arrive.
//!
//! The bytes after the header belong to the program. So this code peeks at the bytes first, and
//! then takes only those of the header.

use std::io;
use std::net::SocketAddr;

use proxy_header::{Error, ParseConfig, ProxyHeader};

/// The length of the longest header that is accepted, in bytes. A header of version 1 has at most
/// 107 bytes; to a header of version 2, load balancers add less than a kilobyte of their own
/// values.
const LENGTH_MAX: usize = 4096;

const CONFIG: ParseConfig = ParseConfig {
    include_tlvs: false,
    allow_v1: true,
    allow_v2: true,
};

#[derive(Debug, Default)]
pub(crate) struct Header {
    taken: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receive {
    /// The bytes stay in the socket.
    Peek,
    Take,
}

impl Header {
    /// Takes the bytes of the header that have arrived. When the header is complete, returns the
    /// address of the client; `None` if the load balancer speaks for itself (a health check), or if
    /// the header has no TCP address.
    ///
    /// # Errors
    ///
    /// The errors of `receive`, [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) at the end of the
    /// stream, and [`InvalidData`](io::ErrorKind::InvalidData) if the bytes are not a header.
    pub(crate) fn read(
        &mut self,
        mut receive: impl FnMut(&mut [u8], Receive) -> io::Result<usize>,
    ) -> io::Result<Option<SocketAddr>> {
        let mut buffer = [0; LENGTH_MAX];
        loop {
            let held = self.taken.len();
            let seen = receive(&mut buffer[held..], Receive::Peek)?;
            if seen == 0 {
                let ended = "the connection ended before it was complete";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, ended));
            }
            self.taken.extend_from_slice(&buffer[held..][..seen]);
            let parsed = match local_length(&self.taken) {
                Some(length) if length > self.taken.len() => Err(Error::BufferTooShort),
                Some(length) => Ok((None, length)),
                None => ProxyHeader::parse(&self.taken, CONFIG).map(|(header, length)| {
                    let address = header.proxied_address();
                    (address.map(|address| address.source), length)
                }),
            };
            match parsed {
                Ok((client, length)) => {
                    receive(&mut buffer[held..length], Receive::Take)?;
                    return Ok(client);
                }
                Err(Error::BufferTooShort) if self.taken.len() < LENGTH_MAX => {
                    receive(&mut buffer[held..][..seen], Receive::Take)?;
                }
                Err(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "it is malformed",
                    ));
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// The length of a header of version 2 with the command LOCAL, if these bytes begin one. Its family
/// and addresses must be ignored, but the parser refuses a family without its addresses.
fn local_length(bytes: &[u8]) -> Option<usize> {
    const SIGNATURE_AND_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20";
    let [_family, high, low, ..] = bytes.strip_prefix(SIGNATURE_AND_LOCAL)? else {
        return None;
    };
    Some(16 + usize::from(u16::from_be_bytes([*high, *low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::ErrorKind;

    use proptest::prelude::*;

    const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
    const V1_IPV6: &[u8] = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n";
    const V1_UNKNOWN: &[u8] = b"PROXY UNKNOWN\r\n";
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &length, rest].concat()
    }

    fn v2_ipv4(values: &[u8]) -> Vec<u8> {
        let addresses = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 1, 187];
        v2(0x21, 0x11, &[&addresses, values].concat())
    }

    /// A socket to which `arrived` of the `bytes` have come, and from which `taken` were taken.
    struct Socket<'a> {
        bytes: &'a [u8],
        arrived: usize,
        taken: usize,
    }

    impl<'a> Socket<'a> {
        fn new(bytes: &'a [u8]) -> Self {
            Self {
                bytes,
                arrived: bytes.len(),
                taken: 0,
            }
        }

        fn receive(&mut self, buffer: &mut [u8], how: Receive) -> io::Result<usize> {
            let there = &self.bytes[self.taken..self.arrived];
            if there.is_empty() && self.arrived < self.bytes.len() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let length = there.len().min(buffer.len());
            buffer[..length].copy_from_slice(&there[..length]);
            if how == Receive::Take {
                self.taken += length;
            }
            Ok(length)
        }
    }

    /// Reads a header that arrives whole. Returns the client's address, and the bytes that are
    /// left.
    fn read(bytes: &[u8]) -> Result<(Option<SocketAddr>, &[u8]), ErrorKind> {
        let mut socket = Socket::new(bytes);
        let client = Header::default().read(|buffer, how| socket.receive(buffer, how));
        Ok((
            client.map_err(|error| error.kind())?,
            &bytes[socket.taken..],
        ))
    }

    fn client(address: &str) -> Option<SocketAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn each_version_and_family_has_the_address_of_the_client() {
        let mut ipv6 = [0; 36];
        ipv6[..2].copy_from_slice(&[0x20, 0x01]);
        ipv6[15] = 9;
        ipv6[33] = 80;
        for (header, expected) in [
            (V1.to_vec(), client("192.0.2.1:56324")),
            (V1_IPV6.to_vec(), client("[2001:db8::1]:1")),
            (v2_ipv4(b""), client("192.0.2.1:56324")),
            (v2_ipv4(&[4, 0, 2, 0, 0]), client("192.0.2.1:56324")), // a value without a meaning
            (v2(0x21, 0x21, &ipv6), client("[2001::9]:80")),
        ] {
            let bytes = [&header, GET].concat();
            assert_eq!(read(&bytes), Ok((expected, GET)), "{header:?}");
        }
    }

    #[test]
    fn a_header_may_have_no_client_address() {
        for header in [
            V1_UNKNOWN.to_vec(),
            b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(),
            v2(0x20, 0, b""),
            v2(0x20, 0x11, &[0; 12]),
            v2(0x20, 0x11, b""),
            v2(0x20, 0x99, b"ignored"),
            v2(0x21, 0, b""),
            v2(0x21, 0x31, &[0; 216]), // a Unix socket
        ] {
            let bytes = [&header, GET].concat();
            assert_eq!(read(&bytes), Ok((None, GET)), "{header:?}");
        }
    }

    #[test]
    fn a_stream_without_a_header_is_refused() {
        let no_port = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n".as_slice();
        for bytes in [
            GET,
            no_port,
            b"PROXY TCP4 192.0.2.999 198.51.100.2 56324 443\r\n",
            b"PROXY TCP5 192.0.2.1 198.51.100.2 56324 443\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 99443\r\n",
            &v2(0x31, 0x11, &[0; 12]),         // version 3
            &v2(0x22, 0x11, &[0; 12]),         // neither LOCAL nor PROXY
            &v2(0x21, 0x11, &[0; 11]),         // too short for its addresses
            &v2(0x21, 0x41, &[0; 12]),         // no such family
            &v2(0x21, 0x11, &[0; LENGTH_MAX]), // longer than any load balancer sends
        ] {
            let bytes = [bytes, GET].concat();
            assert_eq!(read(&bytes), Err(ErrorKind::InvalidData), "{bytes:?}");
        }
    }

    #[test]
    fn a_stream_may_end_within_the_header() {
        for bytes in [b"".as_slice(), &V1[..20], &v2_ipv4(b"")[..27]] {
            assert_eq!(read(bytes), Err(ErrorKind::UnexpectedEof), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_header_in_pieces_is_the_same_header(
            pieces in proptest::collection::vec(1..9usize, 0..40),
            of in 0..4usize,
        ) {
            let header = [V1.to_vec(), V1_IPV6.to_vec(), V1_UNKNOWN.to_vec(), v2_ipv4(&[4, 0, 1, 0])];
            let bytes = [&header[of], GET].concat();
            let whole = read(&bytes).unwrap();
            let mut socket = Socket { bytes: &bytes, arrived: 0, taken: 0 };
            let mut header = Header::default();
            let mut pieces = pieces.into_iter();
            let client = loop {
                match header.read(|buffer, how| socket.receive(buffer, how)) {
                    Ok(client) => break client,
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                let piece = pieces.next().unwrap_or(bytes.len());
                socket.arrived = (socket.arrived + piece).min(bytes.len());
            };
            prop_assert_eq!((client, &bytes[socket.taken..]), whole);
        }
    }
}
