//! A simulated connection, as who holds an end of it sees it.

use std::{
    io::{self, Read, Write},
    os::fd::RawFd,
    sync::MutexGuard,
};

use evcore::{
    Transport,
    accept::Address,
    poller::{Source, Target},
};

use crate::{World, descriptors, net::EndId, state::State};

/// A connection of the simulated network: the counterpart of [`evcore::Stream`], with its methods
/// and its errors.
///
/// Non-blocking, closed when dropped. Where bytes were not read, closing is a reset for the other
/// side.
///
/// ```
/// use evcore_sim::World;
/// use std::io::ErrorKind;
///
/// let world = World::new(7);
/// let (near, far) = world.process().pair();
/// assert_eq!(far.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
/// assert_eq!(near.send(b"bye")?, 3);
/// drop(near);
/// assert_eq!(far.recv(&mut [0; 8])?, 3);
/// assert_eq!(far.recv(&mut [0; 8])?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SimStream {
    world: World,
    process: u32,
    fd: RawFd,
    end: EndId,
}

impl SimStream {
    pub(crate) fn new(world: World, process: u32, fd: RawFd, end: EndId) -> Self {
        Self {
            world,
            process,
            fd,
            end,
        }
    }

    /// Receives what has arrived, up to the length of `buffer`, and returns how much it was.
    ///
    /// 0 means that the peer will send no more.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived,
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the connection was reset, once.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.alive()?.receive(self.end, buffer)
    }

    /// Sends as much of `bytes` as there is room for, and returns how much that was.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the peer has not read what came before,
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) or
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the connection is no more.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.alive()?.send(self.end, bytes)
    }

    /// Tells the peer that no more will come; it can still be heard.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the connection was reset.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.alive()?.finish(self.end)
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the connection was reset.
    pub fn peer_addr(&self) -> io::Result<Address> {
        let state = self.alive()?;
        if !state.net.end(self.end).lasts() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let route = state.net.route(self.end);
        let peer = if self.end.is_client() {
            route.to
        } else {
            route.from
        };
        Ok(peer.into())
    }

    /// Takes the error that is pending on the connection (`SO_ERROR`), which clears it.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if its process is dead.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut state = self.alive()?;
        let error = state.net.end_mut(self.end).take_error();
        Ok(error.map(io::Error::from))
    }

    /// Destroys the connection: the peer sees a reset, and what is unread there is lost to nobody.
    pub fn reset(self) {
        if let Ok(mut state) = self.alive() {
            state.reset_descriptor(self.process, self.fd, self.end);
        }
    }

    /// The world, if the process that holds this has not been killed in it.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.world.state();
        if state.is_alive(self.process) {
            Ok(state)
        } else {
            Err(io::ErrorKind::NotConnected.into())
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

    /// Does nothing: nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &SimStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Does nothing: nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for SimStream {
    fn target(&self) -> Target<'_> {
        descriptors::target(self.fd)
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // What a dead process held was closed when it died; a reset one is closed already.
        if let Some(mut state) = self.world.try_state() {
            if state.is_alive(self.process) {
                state.close_descriptor(self.process, self.fd);
            }
        }
    }
}
