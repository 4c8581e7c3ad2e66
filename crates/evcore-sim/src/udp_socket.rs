//! A simulated UDP socket.

use std::{io, net::SocketAddr, os::fd::RawFd, sync::MutexGuard};

use evcore::poller::{Source, Target};

use crate::{fd_table, net::UdpId, sim::Sim, state::State};

/// A UDP socket of the simulated network. Its methods work as those of a non-blocking
/// [`std::net::UdpSocket`], with the same errors.
///
/// [`Process::bind_udp`](crate::Process::bind_udp) returns it. Dropping the value closes the
/// socket. A datagram is lost if no socket is bound to its address when it arrives, or if it does
/// not fit into the socket's [buffer](crate::SimConfig::socket_buffer). The faults
/// [`DatagramLoss`](crate::Fault::DatagramLoss),
/// [`DatagramDuplicate`](crate::Fault::DatagramDuplicate) and
/// [`DatagramDelay`](crate::Fault::DatagramDelay) lose, double and delay further datagrams.
///
/// ```
/// use evcore_sim::Sim;
/// use std::{io::ErrorKind, time::Duration};
///
/// let sim = Sim::new(7);
/// let server = sim.process().bind_udp("10.0.0.1:53".parse()?)?;
/// let client = sim.process().bind_udp("10.0.0.2:0".parse()?)?;
/// client.send_to(b"question", server.local_addr()?)?;
/// assert_eq!(server.recv_from(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
///
/// sim.run_for(Duration::from_millis(1));
/// assert_eq!(server.recv_from(&mut [0; 16])?, (8, client.local_addr()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimUdpSocket {
    sim: Sim,
    process: u32,
    fd: RawFd,
    id: UdpId,
}

impl SimUdpSocket {
    pub(crate) fn new(sim: Sim, process: u32, fd: RawFd, id: UdpId) -> Self {
        Self {
            sim,
            process,
            fd,
            id,
        }
    }

    /// Sends a datagram, and returns its length.
    ///
    /// # Errors
    ///
    /// EMSGSIZE if the datagram is longer than 65,507 bytes.
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.alive()?
            .send_datagram(self.process, self.id, to, bytes)
    }

    /// Receives a datagram. Returns its length and the address of its sender. Bytes that do not fit
    /// into `buffer` are lost.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram has arrived.
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.alive()?
            .receive_datagram(self.process, self.id, buffer)
    }

    /// The address to which the socket is bound.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.alive()?.net.udp.socket(self.id).address)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        self.sim.state_of_living(self.process)
    }
}

impl Source for SimUdpSocket {
    fn target(&self) -> Target<'_> {
        fd_table::target(self.fd)
    }
}

impl Drop for SimUdpSocket {
    fn drop(&mut self) {
        if let Some(mut state) = self.sim.try_state() {
            if state.is_alive(self.process) {
                state.close_descriptor(self.process, self.fd);
            }
        }
    }
}
