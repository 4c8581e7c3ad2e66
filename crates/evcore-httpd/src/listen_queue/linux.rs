//! Reads the backlogs of listeners by `sock_diag(7)`, and the kernel's counts of full backlogs and
//! of dropped clients from `/proc/net/netstat`.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
};

use rustix::{
    io,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
        socket_with,
    },
};

use super::Losses;

// From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and net/tcp_states.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_OF_ALL: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const TCP: u8 = 6;
const LISTEN: u32 = 1 << 10;

/// The length of a message's header: its length, kind, flags, number and sender.
const HEADER: usize = 16;
/// The length of a request: family, protocol, states, and the id of a socket, which stays zero.
const QUESTION: usize = 56;
/// The length of a listener in an answer: family, state, addresses, a time, two queue lengths,
/// user, inode.
const ANSWER: usize = 72;

// Places in an answer.
const FAMILY: usize = 0;
const PORT: usize = 4;
const IP: usize = 8;
const WAITING: usize = 56;

pub(super) fn waiting(addresses: &[SocketAddr]) -> Option<u64> {
    let flags = SocketFlags::CLOEXEC;
    let family = AddressFamily::NETLINK;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG)).ok()?;
    let mut sum = 0;
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        ask(&socket, family, |address, waiting| {
            // `own` may have an IPv6 scope, and `address` has none.
            let same = |own: &SocketAddr| (own.ip(), own.port()) == (address.ip(), address.port());
            if addresses.iter().any(same) {
                sum += u64::from(waiting);
            }
        })?;
    }
    Some(sum)
}

/// Calls `found` with the address of each listener of a family, and with the number of clients that
/// wait there.
fn ask(
    socket: &OwnedFd,
    family: AddressFamily,
    mut found: impl FnMut(SocketAddr, u32),
) -> Option<()> {
    let mut question = [0; HEADER + QUESTION];
    let length = u32::try_from(question.len()).ok()?;
    question[0..4].copy_from_slice(&length.to_ne_bytes());
    question[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question[6..8].copy_from_slice(&REQUEST_OF_ALL.to_ne_bytes());
    question[HEADER] = u8::try_from(family.as_raw()).ok()?;
    question[HEADER + 1] = TCP;
    question[HEADER + 4..HEADER + 8].copy_from_slice(&LISTEN.to_ne_bytes());
    io::retry_on_intr(|| send(socket, &question, SendFlags::empty())).ok()?;
    let mut buffer = [0; 16 * 1024];
    loop {
        let received = io::retry_on_intr(|| recv(socket, &mut buffer[..], RecvFlags::empty()));
        let mut rest = &buffer[..received.ok()?.0];
        while rest.len() >= HEADER {
            let length = usize::try_from(u32_at(rest, 0)?).ok()?;
            let message = rest.get(HEADER..length)?;
            match u16::from_ne_bytes([rest[4], rest[5]]) {
                DONE => return Some(()),
                ERROR => return None,
                _ => {
                    if let Some((address, waiting)) = listener(message) {
                        found(address, waiting);
                    }
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// The address of a listener in an answer, and the number of clients that wait there.
fn listener(answer: &[u8]) -> Option<(SocketAddr, u32)> {
    let answer = answer.get(..ANSWER)?;
    let port = u16::from_be_bytes([answer[PORT], answer[PORT + 1]]);
    let ip: [u8; 16] = answer[IP..IP + 16].try_into().ok()?;
    let ip = match AddressFamily::from_raw(u16::from(answer[FAMILY])) {
        AddressFamily::INET => IpAddr::V4(Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3])),
        _ => IpAddr::V6(Ipv6Addr::from(ip)),
    };
    Some((SocketAddr::new(ip, port), u32_at(answer, WAITING)?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// The overflows and drops of all listeners in this network namespace.
pub(super) fn losses() -> Option<Losses> {
    parse(&fs::read_to_string("/proc/net/netstat").ok()?)
}

/// Parses `/proc/net/netstat`: a line of names is followed by a line of numbers.
fn parse(text: &str) -> Option<Losses> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let number = |wanted: &str| {
        let at = names.split(' ').position(|name| name == wanted)?;
        numbers.split(' ').nth(at)?.parse().ok()
    };
    Some(Losses {
        overflows: number("ListenOverflows")?,
        drops: number("ListenDrops")?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn clients_that_wait_in_the_backlog_are_counted() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue; // without IPv6
            };
            let address = listener.local_addr().expect("it is bound");
            assert_eq!(waiting(&[address]), Some(0));
            let clients = [(); 3].map(|()| TcpStream::connect(address).expect("it listens"));
            assert_eq!(waiting(&[address]), Some(3));
            drop(listener.accept().expect("a client waits"));
            assert_eq!(waiting(&[address]), Some(2));
            drop(clients);
        }
        assert_eq!(waiting(&[]), Some(0));
    }

    #[test]
    fn losses_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops Other\n\
                    TcpExt: 1 20 21 4\n\
                    IpExt: InNoRoutes ListenDrops\nIpExt: 5 6\n";
        let expected = Losses {
            overflows: 20,
            drops: 21,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("TcpExt: A\nTcpExt: 1\n"), None);
        assert!(losses().is_some(), "Linux has them");
    }
}
