//! A simulated process: what a loop is built on.

use std::{io, net::SocketAddr};

use evcore::{
    Builder,
    clock::{Clock, Reading, TimeSource},
    poller::Capabilities,
};

use crate::{SimBackend, SimListener, SimStream, World, net::Family};

/// A process of a [`World`]: it has descriptors of its own, and dies as one.
///
/// A clone is another handle to the same process.
///
/// ```
/// use evcore_sim::World;
///
/// let world = World::new(7);
/// let process = world.process();
/// let listener = process.listen("10.0.0.1:80".parse()?);
/// let mut ev = process.builder().listener(listener).build()?;
/// assert_eq!(ev.status().backend, "simulated");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Process {
    world: World,
    id: u32,
}

impl Process {
    pub(crate) fn new(world: World, id: u32) -> Self {
        Self { world, id }
    }

    /// A builder of a loop of this process: with the simulated clock, and a simulated poller that
    /// can what epoll can. All else is as [`Builder::new`] has it, and yours to change.
    pub fn builder(&self) -> Builder<SimListener> {
        Builder::new().clock(self.clock()).backend(self.backend())
    }

    /// A clock that shows simulated time.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::with_source(SimClock {
            world: self.world.clone(),
        })
    }

    /// A poller's backend that can what epoll can: edges, one-shots and exclusive registrations.
    #[must_use]
    pub fn backend(&self) -> SimBackend {
        let mut as_epoll = Capabilities::default();
        (as_epoll.edge, as_epoll.oneshot, as_epoll.exclusive) = (true, true, true);
        self.backend_with(as_epoll)
    }

    /// A poller's backend that can this by itself: what it cannot, the poller keeps by masking, as
    /// over `poll` and `select`.
    #[must_use]
    pub fn backend_with(&self, capabilities: Capabilities) -> SimBackend {
        SimBackend::new(self.world.clone(), self.id, capabilities)
    }

    /// A descriptor of the listener at an address.
    ///
    /// All processes that listen at one address share one socket, as workers do that inherited it
    /// from their parent; and as the parent keeps it, it outlives them.
    #[must_use]
    pub fn listen(&self, address: SocketAddr) -> SimListener {
        self.open_listener(address, false)
    }

    /// A listener of this process alone, at an address where others may have theirs
    /// (`SO_REUSEPORT`): each client comes to one of them by chance. Who waits there when it is
    /// closed is reset.
    #[must_use]
    pub fn listen_alone(&self, address: SocketAddr) -> SimListener {
        self.open_listener(address, true)
    }

    /// Connects to a server, at once.
    ///
    /// # Errors
    ///
    /// As [`World::connect`].
    pub fn connect(&self, server: SocketAddr) -> io::Result<SimStream> {
        let (end, fd) = self.world.state().connect_now(self.id, server)?;
        Ok(SimStream::new(self.world.clone(), self.id, fd, end))
    }

    /// Two streams that are connected to each other, with the ways of Unix sockets: what one does,
    /// the other sees at once.
    #[must_use]
    pub fn pair(&self) -> (SimStream, SimStream) {
        self.pair_of(Family::Unix)
    }

    /// Two streams that are connected to each other, with the ways of TCP: what one does, the other
    /// sees when the [latency](crate::Conditions::latency) has passed.
    #[must_use]
    pub fn tcp_pair(&self) -> (SimStream, SimStream) {
        self.pair_of(Family::Tcp)
    }

    /// The world that it is in.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Its number: of all processes of its world, from 0.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    fn pair_of(&self, family: Family) -> (SimStream, SimStream) {
        let [one, two] = self.world.state().pair(self.id, family);
        let stream = |(end, fd)| SimStream::new(self.world.clone(), self.id, fd, end);
        (stream(one), stream(two))
    }

    fn open_listener(&self, address: SocketAddr, alone: bool) -> SimListener {
        let fd = self.world.state().listen(self.id, address, alone);
        SimListener::new(self.world.clone(), self.id, fd)
    }
}

/// The simulated clocks, as a [`TimeSource`]: monotonic time, and a wall clock that may be set. Local
/// time is UTC.
///
/// From [`Process::clock`].
///
/// ```
/// use evcore_sim::World;
/// use std::time::Duration;
///
/// let world = World::new(7);
/// let mut clock = world.process().clock();
/// world.run_for(Duration::from_secs(90));
/// world.step_wall(3_600);
/// clock.update();
/// assert_eq!(clock.monotonic_ms(), 90_000);
/// assert_eq!(clock.error_log_time().as_str(), "1970/01/01 01:01:30");
/// ```
#[derive(Clone, Debug)]
pub struct SimClock {
    world: World,
}

impl TimeSource for SimClock {
    fn read(&self) -> Reading {
        self.world.state().reading()
    }

    fn monotonic_ns(&self) -> u64 {
        self.world.state().monotonic_ns()
    }
}
