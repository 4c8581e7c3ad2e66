//! The address of a listener or of a peer.
//!
//! Both have one type, because a Unix socket of either side may or may not be bound to a path. Host
//! names are not looked up, because a lookup blocks without a limit.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::option;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const UNIX_PREFIX: &str = "unix:";

/// The address of a listener or of a peer.
///
/// Its text form is `127.0.0.1:80`, `[::1]:80` or `unix:/run/server.sock`. It converts from a text,
/// from a [`SocketAddr`], and from an IP address with a port. Only an address with a path or an
/// abstract name allocates, and few peers have such an address.
///
/// # Examples
///
/// ```
/// use evcore_net::Address;
/// use std::path::Path;
///
/// let address: Address = "[::1]:8080".parse()?;
/// assert_eq!(address.tcp().unwrap().port(), 8080);
///
/// let address: Address = "unix:/run/server.sock".parse()?;
/// assert_eq!(address.path(), Some(Path::new("/run/server.sock")));
/// assert_eq!(address.to_string(), "unix:/run/server.sock");
///
/// let error = "localhost:8080".parse::<Address>().unwrap_err();
/// assert!(error.to_string().contains("host names are not looked up"));
/// # Ok::<(), evcore_net::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// An IPv4 or IPv6 address and a port.
    Tcp(SocketAddr),
    /// A Unix socket that is bound to a path.
    Unix(PathBuf),
    /// A Unix socket that is bound to this abstract name (Linux). Only other programs bind to such
    /// a name, because this crate neither binds nor connects to one. The text form is `unix:@NAME`,
    /// in which bytes are escaped as by `escape_ascii`. This form is not parsed as a name, but as
    /// the path `@NAME`.
    Abstract(Box<[u8]>),
    /// A Unix socket without a path or a name, such as the socket of nearly every client. A peer
    /// whose path leaves no room for a zero byte in the socket address (a path of 108 bytes on
    /// Linux) also counts as unnamed. The text form is `unix:`.
    Unnamed,
}

impl Address {
    /// The IP address and port; `None` for a Unix socket.
    #[must_use]
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) | Self::Abstract(_) | Self::Unnamed => None,
        }
    }

    /// The path of a Unix socket; `None` if it has no path, and for TCP.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) | Self::Abstract(_) | Self::Unnamed => None,
        }
    }

    /// Returns whether this is the address of a Unix socket.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Abstract(_) | Self::Unnamed)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
            Self::Abstract(name) => write!(f, "{UNIX_PREFIX}@{}", name.escape_ascii()),
            Self::Unnamed => f.write_str(UNIX_PREFIX),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parsed = match text.strip_prefix(UNIX_PREFIX) {
            Some("") => Err(Reason::NoPath),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| Reason::of_tcp(text)),
        };
        parsed.map_err(|reason| AddressError {
            text: text.to_owned(),
            reason,
        })
    }
}

impl TryFrom<&str> for Address {
    type Error = AddressError;

    /// Parses the text, as [`str::parse`] does.
    fn try_from(text: &str) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl TryFrom<&String> for Address {
    type Error = AddressError;

    /// Parses the text, as [`str::parse`] does.
    fn try_from(text: &String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    /// Parses the text, as [`str::parse`] does.
    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<SocketAddrV4> for Address {
    fn from(address: SocketAddrV4) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<SocketAddrV6> for Address {
    fn from(address: SocketAddrV6) -> Self {
        Self::Tcp(address.into())
    }
}

/// An IP address and a port, such as `([127, 0, 0, 1], 80)` or `(Ipv6Addr::LOCALHOST, 80)`.
impl<I: Into<IpAddr>> From<(I, u16)> for Address {
    fn from(address: (I, u16)) -> Self {
        Self::Tcp(address.into())
    }
}

impl PartialEq<SocketAddr> for Address {
    fn eq(&self, other: &SocketAddr) -> bool {
        self.tcp() == Some(*other)
    }
}

/// Lets `TcpStream::connect` take an address.
impl ToSocketAddrs for Address {
    type Iter = option::IntoIter<SocketAddr>;

    /// Returns the IP address and port. Nothing is looked up.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for the address of a Unix socket.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.tcp() {
            Some(address) => Ok(Some(address).into_iter()),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{self} is the address of a Unix socket, which has no port"),
            )),
        }
    }
}

/// The error for a text that is not an [`Address`]. Its message names the mistake and the forms
/// that are possible.
///
/// # Examples
///
/// ```
/// use evcore_net::Address;
///
/// let error = "::1:80".parse::<Address>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "\"::1:80\" is not an address: an IPv6 address needs brackets before the port; \
///      write ADDRESS:PORT, [V6-ADDRESS]:PORT or unix:PATH",
/// );
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address: {reason}; write ADDRESS:PORT, [V6-ADDRESS]:PORT or unix:PATH")]
pub struct AddressError {
    text: String,
    reason: Reason,
}

/// Prints the text of `Display`, so that a program whose `main` returns the error, or that unwraps
/// it, ends with a line that names the remedy.
impl fmt::Debug for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    NoPath,
    PortAlone,
    NoPort,
    NoBrackets,
    BadPort,
    HostName,
}

impl Reason {
    /// The reason why this text is not an IP address with a port.
    fn of_tcp(text: &str) -> Self {
        if text.parse::<u64>().is_ok() {
            return Self::PortAlone;
        }
        if !text.starts_with('[') && text.matches(':').count() > 1 {
            return Self::NoBrackets;
        }
        match text.rsplit_once(':') {
            Some((host, _)) if host.starts_with('[') && !host.ends_with(']') => Self::NoPort,
            Some((_, port)) if port.parse::<u16>().is_err() => Self::BadPort,
            Some(_) => Self::HostName,
            None => Self::NoPort,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPath => "the path after unix: is missing",
            Self::PortAlone => "a port alone names no address",
            Self::NoPort => "the port is missing",
            Self::NoBrackets => "an IPv6 address needs brackets before the port",
            Self::BadPort => "the port is not a number from 0 to 65535",
            Self::HostName => "host names are not looked up, so the address must be numeric",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpListener, TcpStream};

    use proptest::prelude::*;

    fn error(text: &str) -> String {
        text.parse::<Address>().unwrap_err().to_string()
    }

    #[test]
    fn each_text_form_is_parsed() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        for text in ["127.0.0.1:80", "[::1]:80", "[fe80::1%3]:80", "0.0.0.0:0"] {
            assert_eq!(text.parse(), Ok(tcp(text)), "{text}");
        }
        for path in ["/run/a.sock", "relative", "/with:colon", "unix:", " "] {
            let text = format!("unix:{path}");
            assert_eq!(text.parse(), Ok(Address::Unix(path.into())), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_mistake_and_the_possible_forms() {
        for (text, reason) in [
            ("unix:", "path after unix: is missing"),
            ("8080", "a port alone"),
            ("99999", "a port alone"),
            ("", "port is missing"),
            ("127.0.0.1", "port is missing"),
            ("[::1]", "port is missing"),
            ("/run/a.sock", "port is missing"),
            ("::1", "brackets"),
            ("::1:80", "brackets"),
            ("127.0.0.1:99999", "0 to 65535"),
            ("127.0.0.1:http", "0 to 65535"),
            ("127.0.0.1:", "0 to 65535"),
            ("[::1]:-1", "0 to 65535"),
            ("localhost:80", "not looked up"),
            ("256.0.0.1:80", "not looked up"),
            (":80", "not looked up"),
        ] {
            let message = error(text);
            assert!(message.contains(reason), "{message}");
            assert!(message.starts_with(&format!("{text:?}")), "{message}");
            assert!(message.ends_with("or unix:PATH"), "{message}");
        }
    }

    #[test]
    fn a_tcp_client_connects_to_an_address() {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
            .or_else(|_| TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let client = TcpStream::connect(&address).unwrap();
        assert_eq!(address, client.peer_addr().unwrap());
    }

    #[test]
    fn tcp_cannot_connect_to_a_unix_socket() {
        for address in [Address::Unix("/run/a.sock".into()), Address::Unnamed] {
            let error = address.to_socket_addrs().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with(&address.to_string()));
        }
    }

    #[test]
    fn an_address_with_a_path_is_no_larger_than_a_tcp_address() {
        assert_eq!(size_of::<Address>(), size_of::<SocketAddr>());
    }

    proptest! {
        #[test]
        fn parsing_the_text_form_gives_the_same_address(address in any::<SocketAddr>(), path in "[^\0]{1,100}") {
            for address in [Address::Tcp(address), Address::Unix(path.into())] {
                let has_flow = matches!(
                    address.tcp(), Some(SocketAddr::V6(v6)) if v6.flowinfo() != 0
                );
                // The text form leaves out the IPv6 flow information, as in the standard library.
                if !has_flow {
                    prop_assert_eq!(address.to_string().parse(), Ok(address));
                }
            }
        }

        #[test]
        fn every_error_names_the_possible_forms(text in ".*") {
            if let Err(error) = text.parse::<Address>() {
                prop_assert!(error.to_string().contains("write ADDRESS:PORT"));
            }
        }
    }
}
