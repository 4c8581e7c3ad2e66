//! A simulated listener, as a process that has a descriptor of it sees it.

use std::os::fd::RawFd;

use evcore::{
    Acceptor,
    accept::{Accept, Error},
    poller::{Source, Target},
};

use crate::{SimStream, World, descriptors, poll::Object};

/// A listener of the simulated network: what an [`EventLoop`](evcore::EventLoop) accepts from here.
///
/// From [`Process::listen`](crate::Process::listen). Its descriptor is closed when it is dropped;
/// the socket stays, as the parent's.
///
/// ```
/// use evcore::{Acceptor, accept::Accept};
/// use evcore_sim::World;
///
/// let world = World::new(7);
/// let listener = world.process().listen("10.0.0.1:80".parse()?);
/// assert!(matches!(listener.accept()?, Accept::WouldBlock));
/// let client = world.connect("10.0.0.1:80".parse()?)?;
/// assert!(matches!(listener.accept()?, Accept::Connection(..)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimListener {
    world: World,
    process: u32,
    fd: RawFd,
}

impl SimListener {
    pub(crate) fn new(world: World, process: u32, fd: RawFd) -> Self {
        Self { world, process, fd }
    }
}

impl Acceptor for SimListener {
    type Stream = SimStream;

    fn accept(&self) -> Result<Accept<SimStream>, Error> {
        let mut state = self.world.state();
        let descriptors = &state.processes[self.process as usize].descriptors;
        let Some(Object::Listener(listener)) = descriptors.object(self.fd) else {
            // Its process is dead: nobody comes to it any more.
            return Ok(Accept::WouldBlock);
        };
        Ok(match state.accept(self.process, listener) {
            Accept::Connection((end, fd), peer) => {
                drop(state);
                let stream = SimStream::new(self.world.clone(), self.process, fd, end);
                Accept::Connection(stream, peer)
            }
            Accept::WouldBlock => Accept::WouldBlock,
            Accept::Aborted => Accept::Aborted,
            Accept::Exhausted(shortage) => Accept::Exhausted(shortage),
        })
    }
}

impl Source for SimListener {
    fn target(&self) -> Target<'_> {
        descriptors::target(self.fd)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        if let Some(mut state) = self.world.try_state() {
            if state.is_alive(self.process) {
                state.close_descriptor(self.process, self.fd);
            }
        }
    }
}
