//! Where somebody listens, and who has come.
//!
//! One type for both, since a Unix socket's name may be anything that its owner has bound it to.
//! Names of hosts are not looked up: that takes time, and may take all of it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::option;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a written address of a Unix socket begins with.
const UNIX_PREFIX: &str = "unix:";

/// The address of a socket: of a listener, or of a peer.
///
/// It is written, and read, as `127.0.0.1:80`, `[::1]:80` or `unix:/run/server.sock`.
/// Making or cloning one allocates for a path alone, which a peer hardly ever has.
///
/// # Examples
///
/// ```
/// use evcore_accept::Address;
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
/// assert!(error.to_string().contains("names of hosts are not looked up"));
/// # Ok::<(), evcore_accept::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// An address and a port, of IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix socket that is bound to a path.
    Unix(PathBuf),
    /// A Unix socket without a path: of nearly every client. Names that are no path, which Linux
    /// calls abstract, count as none. Written `unix:`.
    Unnamed,
}

impl Address {
    /// The address and port, if it has any.
    #[must_use]
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) | Self::Unnamed => None,
        }
    }

    /// The path of a Unix socket, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) | Self::Unnamed => None,
        }
    }

    /// Whether it is a Unix socket's.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Unnamed)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
            Self::Unnamed => f.write_str(UNIX_PREFIX),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parsed = match text.strip_prefix(UNIX_PREFIX) {
            Some("") => Err(Problem::NoPath),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| Problem::with_tcp(text)),
        };
        parsed.map_err(|problem| AddressError {
            text: text.to_owned(),
            problem,
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

/// So that `TcpStream::connect` takes one.
impl ToSocketAddrs for Address {
    type Iter = option::IntoIter<SocketAddr>;

    /// The address and port, with nothing to look up.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is a Unix socket's.
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

/// A text that is no [`Address`]: what is wrong with it, and what to write.
///
/// # Examples
///
/// ```
/// use evcore_accept::Address;
///
/// let error = "::1:80".parse::<Address>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "\"::1:80\" is no address: IPv6 goes in brackets, with the port behind them; \
///      write ADDRESS:PORT, [V6-ADDRESS]:PORT or unix:PATH",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address: {problem}; write ADDRESS:PORT, [V6-ADDRESS]:PORT or unix:PATH")]
pub struct AddressError {
    text: String,
    problem: Problem,
}

/// What people get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    NoPath,
    PortAlone,
    NoPort,
    NoBrackets,
    BadPort,
    NotANumber,
}

impl Problem {
    /// What is wrong with a text that should have been an address and a port.
    fn with_tcp(text: &str) -> Self {
        if text.parse::<u64>().is_ok() {
            return Self::PortAlone;
        }
        if !text.starts_with('[') && text.matches(':').count() > 1 {
            return Self::NoBrackets;
        }
        match text.rsplit_once(':') {
            Some((host, _)) if host.starts_with('[') && !host.ends_with(']') => Self::NoPort,
            Some((_, port)) if port.parse::<u16>().is_err() => Self::BadPort,
            Some(_) => Self::NotANumber,
            None => Self::NoPort,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPath => "there is no path behind unix:",
            Self::PortAlone => "a port alone does not say on which address",
            Self::NoPort => "there is no port",
            Self::NoBrackets => "IPv6 goes in brackets, with the port behind them",
            Self::BadPort => "the port is no number from 0 to 65535",
            Self::NotANumber => "names of hosts are not looked up, and this is none in numbers",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpListener, TcpStream};

    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        text.parse::<Address>().unwrap_err().to_string()
    }

    #[test]
    fn each_form_is_read_as_what_it_is() {
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
    fn a_refusal_says_what_is_wrong_and_what_to_write() {
        for (text, problem) in [
            ("unix:", "no path"),
            ("8080", "a port alone"),
            ("99999", "a port alone"),
            ("", "no port"),
            ("127.0.0.1", "no port"),
            ("[::1]", "no port"),
            ("/run/a.sock", "no port"),
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
            let message = refusal(text);
            assert!(message.contains(problem), "{message}");
            assert!(message.starts_with(&format!("{text:?}")), "{message}");
            assert!(message.ends_with("or unix:PATH"), "{message}");
        }
    }

    #[test]
    fn a_client_connects_by_it() {
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
    fn one_with_a_path_takes_no_more_room_than_the_largest_without() {
        assert_eq!(size_of::<Address>(), size_of::<SocketAddr>());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(address in any::<SocketAddr>(), path in "[^\0]{1,100}") {
            for address in [Address::Tcp(address), Address::Unix(path.into())] {
                let is_scoped_flow = matches!(
                    address.tcp(), Some(SocketAddr::V6(v6)) if v6.flowinfo() != 0
                );
                // The flow is not written (nor by the standard library).
                if !is_scoped_flow {
                    prop_assert_eq!(address.to_string().parse(), Ok(address));
                }
            }
        }

        #[test]
        fn no_text_is_refused_without_a_reason(text in ".*") {
            if let Err(error) = text.parse::<Address>() {
                prop_assert!(error.to_string().contains("write ADDRESS:PORT"));
            }
        }
    }
}
