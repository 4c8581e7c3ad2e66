//! One end of a simulated connection.

use std::{
    io::{self, Read, Write},
    os::fd::RawFd,
    sync::MutexGuard,
};

use evcore::{
    Transport,
    net::Address,
    poller::{Source, Target},
};

use crate::{
    descriptor::SimDescriptor,
    faults::Fault,
    net::{Carried, EndpointId},
    sim::Sim,
    state::State,
};

/// A connection of the simulated network, with the main methods and the errors of
/// [`evcore::Stream`].
///
/// The stream is non-blocking. Dropping it closes its descriptor. If received bytes are unread when
/// the last descriptor is closed, the peer sees a reset.
///
/// ```
/// use evcore_sim::Sim;
/// use std::io::ErrorKind;
///
/// let sim = Sim::new(7);
/// let (near, far) = sim.process().unix_pair();
/// assert_eq!(far.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
/// assert_eq!(near.send(b"bye")?, 3);
/// drop(near);
/// assert_eq!(far.recv(&mut [0; 8])?, 3);
/// assert_eq!(far.recv(&mut [0; 8])?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SimStream {
    pub(crate) descriptor: SimDescriptor,
    pub(crate) id: EndpointId,
}

impl SimStream {
    pub(crate) fn new(sim: Sim, process: u32, fd: RawFd, id: EndpointId) -> Self {
        let object = Carried::Endpoint(id);
        let descriptor = SimDescriptor {
            sim,
            process,
            fd,
            object,
        };
        Self { descriptor, id }
    }

    pub(crate) fn id(&self) -> EndpointId {
        self.id
    }

    /// Receives the bytes that have arrived, up to the length of `buffer`. Returns their number,
    /// which is 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived,
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) once after a reset,
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead. The reason of a failed
    /// connect is returned once.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.before_call()?;
        let received = state.receive(self.id, buffer);
        state.may_die(self.descriptor.process, Fault::StreamKill);
        received
    }

    /// Sends as many of the `bytes` as fit, and returns their number.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the peer's buffer is full or the stream is not
    /// connected yet, [`BrokenPipe`](io::ErrorKind::BrokenPipe) or
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the connection has ended,
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead. The reason of a failed
    /// connect is returned once.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.before_call()?;
        let sent = state.send(self.id, bytes);
        state.may_die(self.descriptor.process, Fault::StreamKill);
        sent
    }

    /// Returns whether the peer has all bytes that were sent. On a TCP socket they have arrived at
    /// the peer, and on a Unix socket the peer has also read them.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead.
    ///
    /// ```
    /// # let sim = evcore_sim::Sim::new(7);
    /// let (near, far) = sim.process().unix_pair();
    /// near.send(b"hello")?;
    /// assert!(!near.is_delivered()?);
    /// far.recv(&mut [0; 8])?;
    /// assert!(near.is_delivered()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_delivered(&self) -> io::Result<bool> {
        let state = self.alive()?;
        Ok(state.net.endpoint(self.id.other()).has_taken_all())
    }

    /// Shuts down the sending half. The peer reads the end of the stream, and can still send.
    /// During a connect, this gives up the connection.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if a TCP connection was reset or has ended in
    /// both directions, or if the process is dead.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.alive()?.shutdown_write(self.id)
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the stream is not connected, or if the
    /// process is dead.
    pub fn peer_addr(&self) -> io::Result<Address> {
        let state = self.alive()?;
        if !state.net.endpoint(self.id).is_connected() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let route = state.net.route(self.id);
        let peer = if self.id.is_client() {
            route.to
        } else {
            route.from
        };
        Ok(peer.into())
    }

    /// Returns the pending error of the connection (`SO_ERROR`) and clears it.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the process is dead.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut state = self.alive()?;
        let error = state.net.endpoint_mut(self.id).take_error();
        Ok(error.map(io::Error::from))
    }

    /// Resets the connection. The peer can still read the bytes that have arrived there, and then
    /// sees the reset. If the connection has another descriptor, this only closes the stream's own.
    pub fn reset(self) {
        if let Ok(mut state) = self.alive() {
            state.reset_descriptor(self.descriptor.process, self.descriptor.fd, self.id);
        }
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let SimDescriptor { sim, process, .. } = &self.descriptor;
        sim.state_of_living(*process)
    }

    /// Locks the state. Fails if the process is dead, or if a fault kills the process now.
    fn before_call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.alive()?;
        match state.may_die(self.descriptor.process, Fault::StreamKill) {
            true => Err(io::ErrorKind::NotConnected.into()),
            false => Ok(state),
        }
    }
}

impl Transport for SimStream {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::recv(self, buffer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::send(self, bytes)
    }

    fn is_delivered(&self) -> io::Result<bool> {
        Self::is_delivered(self)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Self::shutdown_write(self)
    }

    fn peer_addr(&self) -> io::Result<Address> {
        Self::peer_addr(self)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Self::take_error(self)
    }
}

impl Read for SimStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Read for &SimStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Write for SimStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Does nothing, because nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &SimStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Does nothing, because nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for SimStream {
    fn target(&self) -> Target<'_> {
        self.descriptor.target()
    }
}

impl From<SimStream> for SimDescriptor {
    fn from(stream: SimStream) -> Self {
        stream.descriptor
    }
}

impl From<SimDescriptor> for SimStream {
    /// # Panics
    ///
    /// If the descriptor is not a stream.
    fn from(descriptor: SimDescriptor) -> Self {
        let Carried::Endpoint(id) = descriptor.object else {
            panic!("a stream has the descriptor of a connection: {descriptor:?}");
        };
        Self { descriptor, id }
    }
}
