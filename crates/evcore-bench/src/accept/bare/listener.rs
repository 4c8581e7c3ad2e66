//! The listeners of a bare server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};

use super::Sharing;

/// As many clients may wait as at nginx.
const BACKLOG: i32 = 511;

/// A listener for each worker, all on one address: of one socket, or each of its own.
pub(super) fn listeners(sharing: Sharing, n: usize) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let reuse_port = sharing == Sharing::ReusePort;
    let first = listener(any_port, reuse_port)?;
    let address = SocketAddr::try_from(getsockname(&first)?)?;
    let mut all = vec![first];
    while all.len() < n {
        all.push(if reuse_port {
            listener(address, true)?
        } else {
            all[0].try_clone()?
        });
    }
    Ok((address, all))
}

fn listener(address: SocketAddr, reuse_port: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseport(&socket, reuse_port)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
