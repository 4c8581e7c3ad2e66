//! The load balancers whose connections begin with a header of the PROXY protocol.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use evcore::net::Address;
use ipnet::{IpNet, Ipv4Net};

const TIMEOUT: Duration = Duration::from_secs(5);

/// The load balancers whose connections begin with a header of the PROXY protocol, version 1 or 2,
/// which has the address of the client.
///
/// Pass it to [`Server::proxy_protocol`](crate::Server::proxy_protocol). Its text form is a list of
/// networks, addresses and `unix:`, separated by commas or spaces; `unix:` stands for the clients
/// of Unix sockets. Trust only load balancers, because the sender of a header chooses the address
/// that your program sees and logs.
///
/// ```
/// use evcore_serve::ProxyProtocol;
///
/// let senders: ProxyProtocol = "10.0.0.0/8, 2001:db8::7, unix:".parse()?;
/// assert!(senders.trusts(&"10.1.2.3:4567".parse()?));
/// assert!(!senders.trusts(&"192.0.2.1:4567".parse()?));
///
/// let error = "10.0.0.0/33".parse::<ProxyProtocol>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "\"10.0.0.0/33\" is not a network: write ADDRESS, ADDRESS/BITS or unix:",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocol {
    networks: Vec<IpNet>,
    unix: bool,
    timeout: Duration,
}

impl ProxyProtocol {
    /// Sets the time after the accept within which the whole header must arrive. Default 5 seconds.
    /// A connection whose header is late or malformed is closed, and
    /// [reported](crate::Event::NoProxyHeader).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns whether the connections of this peer begin with a header. O(networks).
    #[must_use]
    pub fn trusts(&self, peer: &Address) -> bool {
        match peer.tcp() {
            // A listener for both families reports the addresses of IPv4 peers as mapped IPv6
            // addresses.
            Some(peer) => {
                let ip = peer.ip().to_canonical();
                self.networks.iter().any(|network| network.contains(&ip))
            }
            None => self.unix,
        }
    }

    pub(crate) fn header_timeout(&self) -> Duration {
        self.timeout
    }
}

impl FromStr for ProxyProtocol {
    type Err = ProxyProtocolError;

    fn from_str(text: &str) -> Result<Self, ProxyProtocolError> {
        let mut senders = Self {
            networks: Vec::new(),
            unix: false,
            timeout: TIMEOUT,
        };
        let names = text.split([',', ' ']).filter(|name| !name.is_empty());
        for name in names {
            match name {
                "unix:" => senders.unix = true,
                _ => senders.networks.push(network(name)?),
            }
        }
        if senders.networks.is_empty() && !senders.unix {
            return Err(ProxyProtocolError(text.to_owned()));
        }
        Ok(senders)
    }
}

fn network(name: &str) -> Result<IpNet, ProxyProtocolError> {
    let network = name.parse().ok();
    let network = network.or_else(|| Some(IpNet::from(name.parse::<IpAddr>().ok()?)));
    network
        .map(canonical)
        .ok_or_else(|| ProxyProtocolError(name.to_owned()))
}

/// Returns the network of IPv4 addresses for a network of mapped IPv6 addresses. Returns any other
/// network unchanged.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else {
        return network;
    };
    let bits = v6.prefix_len().checked_sub(128 - 32);
    let mapped = v6.addr().to_ipv4_mapped().zip(bits);
    let mapped = mapped.and_then(|(ip, bits)| Ipv4Net::new(ip, bits).ok());
    mapped.map_or(network, IpNet::V4)
}

/// The error for a text that is not a list of networks. Its message names the part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocolError(String);

impl fmt::Display for ProxyProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is not a network: write ADDRESS, ADDRESS/BITS or unix:"
        )
    }
}

impl std::error::Error for ProxyProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(senders: &str, peer: &str) -> bool {
        let senders: ProxyProtocol = senders.parse().unwrap();
        senders.trusts(&peer.parse().unwrap())
    }

    #[test]
    fn a_peer_is_trusted_if_a_network_has_its_address() {
        let senders = "10.0.0.0/8,127.0.0.1 ::1, 2001:db8::/32";
        for peer in ["10.9.8.7:1", "127.0.0.1:2", "[::1]:3", "[2001:db8:1::]:4"] {
            assert!(trusts(senders, peer), "{peer}");
        }
        for peer in ["11.0.0.1:1", "127.0.0.2:2", "[::2]:3", "unix:"] {
            let peer = match peer {
                "unix:" => Address::Unnamed,
                peer => peer.parse().unwrap(),
            };
            let senders: ProxyProtocol = senders.parse().unwrap();
            assert!(!senders.trusts(&peer), "{peer}");
        }
    }

    #[test]
    fn an_ipv4_peer_of_an_ipv6_listener_is_in_an_ipv4_network() {
        assert!(trusts("10.0.0.0/8", "[::ffff:10.0.0.1]:5"));
        assert!(!trusts("10.0.0.0/8", "[::ffff:11.0.0.1]:5"));
        assert!(trusts("::ffff:10.0.0.0/104", "10.0.0.1:5"));
        assert!(trusts("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:5"));
        assert!(!trusts("::ffff:10.0.0.0/104", "11.0.0.1:5"));
    }

    #[test]
    fn clients_of_unix_sockets_are_trusted_by_name() {
        let senders: ProxyProtocol = "unix:".parse().unwrap();
        assert!(senders.trusts(&Address::Unnamed));
        assert!(senders.trusts(&Address::Unix("/run/balancer.sock".into())));
        assert!(!trusts("unix:", "127.0.0.1:1"));
    }

    #[test]
    fn an_error_names_the_part_that_is_not_a_network() {
        for (list, part) in [
            ("", ""),
            (" , ", " , "),
            ("10.0.0.0/8,localhost", "localhost"),
            ("10.0.0.0/33", "10.0.0.0/33"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            let error = list.parse::<ProxyProtocol>().unwrap_err();
            assert_eq!(error, ProxyProtocolError(part.to_owned()), "{list:?}");
        }
    }
}
