//! A simulated listener.

use std::os::fd::RawFd;

use evcore::{
    Acceptor,
    net::{Accept, Error},
    poller::{Source, Target},
};

use crate::{fd_table, kernel_poller::Object, sim::Sim, stream::SimStream};

/// A listener of the simulated network, for [`Builder::listener`](evcore::Builder::listener).
///
/// [`Process::listen`](crate::Process::listen) returns it. Dropping the value closes the
/// descriptor. A socket that processes share stays open, because their parent has a descriptor of
/// it as well.
///
/// ```
/// use evcore::{Acceptor, net::Accept};
/// use evcore_sim::Sim;
///
/// let sim = Sim::new(7);
/// let listener = sim.process().listen("10.0.0.1:80".parse()?);
/// assert!(matches!(listener.accept()?, Accept::WouldBlock));
/// let client = sim.connect("10.0.0.1:80".parse()?)?;
/// assert!(matches!(listener.accept()?, Accept::Connection(..)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimListener {
    sim: Sim,
    process: u32,
    fd: RawFd,
}

impl SimListener {
    pub(crate) fn new(sim: Sim, process: u32, fd: RawFd) -> Self {
        Self { sim, process, fd }
    }
}

impl Acceptor for SimListener {
    type Stream = SimStream;

    fn accept(&self) -> Result<Accept<SimStream>, Error> {
        let mut state = self.sim.state();
        let descriptors = &state.processes[self.process as usize].descriptors;
        let Some(Object::Listener(listener)) = descriptors.object(self.fd) else {
            // The process is dead.
            return Ok(Accept::WouldBlock);
        };
        Ok(match state.accept(self.process, listener) {
            Accept::Connection((end, fd), peer) => {
                drop(state);
                let stream = SimStream::new(self.sim.clone(), self.process, fd, end);
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
        fd_table::target(self.fd)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        if let Some(mut state) = self.sim.try_state() {
            if state.is_alive(self.process) {
                state.close_descriptor(self.process, self.fd);
            }
        }
    }
}
