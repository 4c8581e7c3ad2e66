//! A simulated process, which owns a loop and its sockets.

use std::{io, net::SocketAddr, sync::atomic::AtomicU8};

use evcore::{
    Address, Builder, Connector, Handle, Token,
    clock::{Clock, TimeSource, WallTime},
    net::Error,
    poller::{Backend, Capabilities},
    pool::Pool,
};

use crate::{
    backend::SimBackend, descriptor::SimDescriptor, listener::SimListener, net::Family, sim::Sim,
    state::Store, stream::SimStream, udp_socket::SimUdpSocket,
};

/// A process of a [`Sim`]. It has its own descriptors, which are closed when the process exits or
/// is killed. (A [store](Self::set_store) may keep idle connections.)
///
/// A clone is another handle to the same process. A process is also the [`Connector`] of the
/// program that runs in it:
///
/// ```
/// use evcore::{Connector, Interest, Mode, Step};
/// use evcore_sim::Sim;
///
/// let sim = Sim::new(7);
/// let process = sim.process();
/// let listener = process.listen("10.0.0.1:80".parse()?);
/// let mut ev = process.builder().build()?;
/// assert_eq!(ev.stats().backend, "simulated");
///
/// let stream = process.connect(&"10.0.0.1:80".parse()?)?; // is in progress
/// let token = ev.add(&stream, Interest::WRITE, Mode::Level)?;
/// ev.wait()?;
/// assert!(matches!(ev.next_step(), Some(Step::Ready(_, _))));
/// assert!(stream.take_error()?.is_none()); // is connected
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Connecting
///
/// Without faults the result comes after the [latency](crate::SimConfig::latency) of both
/// directions: the connection is made, or refused if no process listens at the address. If the
/// backlog is full, the kernel tries again as for a [client](crate::SimConfig::backlog), and
/// connecting fails with [`TimedOut`](io::ErrorKind::TimedOut) after 31 s. A process without a free
/// descriptor cannot connect. Only TCP addresses can be used.
///
/// The faults [`ImmediateConnect`](crate::Fault::ImmediateConnect),
/// [`ConnectRefused`](crate::Fault::ConnectRefused),
/// [`ConnectTimeout`](crate::Fault::ConnectTimeout) and [`NoLocalPort`](crate::Fault::NoLocalPort)
/// change the result.
#[derive(Clone, Debug)]
pub struct Process {
    sim: Sim,
    id: u32,
}

impl Sim {
    /// Starts a process, for a loop and its sockets.
    #[must_use]
    pub fn process(&self) -> Process {
        let id = self.state().spawn_process(None);
        Process::new(self.clone(), id)
    }

    /// Connects at once. Returns the client's end of the connection, which the test uses between
    /// two waits. The bytes that the test sends arrive after the
    /// [latency](crate::SimConfig::latency).
    ///
    /// # Errors
    ///
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) if no process listens at the
    /// address, [`TimedOut`](io::ErrorKind::TimedOut) if the backlog is full.
    pub fn connect(&self, server: SocketAddr) -> io::Result<SimStream> {
        let process = self.process();
        let (id, fd) = self.state().connect_now(process.id(), server)?;
        Ok(SimStream::new(self.clone(), process.id(), fd, id))
    }
}

impl Process {
    pub(crate) fn new(sim: Sim, id: u32) -> Self {
        Self { sim, id }
    }

    /// A builder of a loop with the simulated [clock](Self::clock) and [backend](Self::backend).
    /// Everything else is as in [`EventLoop::builder`](evcore::EventLoop::builder).
    pub fn builder(&self) -> Builder<SimListener> {
        Builder::default()
            .clock(self.clock())
            .backend(self.backend())
    }

    /// A clock that shows simulated time. Its monotonic time may jump ahead, its wall time may be
    /// set, and its local time is UTC.
    ///
    /// ```
    /// use evcore_sim::Sim;
    /// use std::time::Duration;
    ///
    /// let sim = Sim::new(7);
    /// let mut clock = sim.process().clock();
    /// sim.run_for(Duration::from_secs(90));
    /// sim.step_wall_clock(3_600);
    /// clock.update();
    /// assert_eq!(clock.monotonic_ms(), 90_000);
    /// assert_eq!(clock.error_log_time().as_str(), "1970/01/01 01:01:30");
    /// ```
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::with_source(SimClock {
            sim: self.sim.clone(),
        })
    }

    /// A poller backend that watches the sockets of this process. The seed chooses its
    /// capabilities. With an even seed they are those of epoll (edge-triggered, one-shot and
    /// exclusive registrations), with an odd seed those of `poll` (level-triggered ones only).
    ///
    /// A wait lets simulated time pass until something is ready, a waker is used or the timeout
    /// expires. The wait takes at least the [time of a turn](crate::SimConfig::turn_time). It fails
    /// with an [`Error::Os`](evcore::poller::Error::Os) of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut) if it would never end, because nothing is left to
    /// happen, and at [the time limit](Sim::set_time_limit). Under [`Workers`](crate::Workers),
    /// which let the time pass, a wait returns at once.
    ///
    /// A bare [`Poller`](evcore::poller::Poller) continues an interrupted wait, and measures the
    /// remaining time by the real clock. With
    /// [`Fault::InterruptedWait`](crate::Fault::InterruptedWait), use
    /// [`Events::raw`](evcore::poller::Events::raw) as the loop does, so that the interruption ends
    /// the wait.
    ///
    /// ```
    /// use evcore::{Interest, Mode, Ready, poller::{Events, Poller}};
    /// use evcore_sim::Sim;
    ///
    /// let process = Sim::new(7).process();
    /// let mut poller = Poller::from(process.backend());
    /// let (near, far) = process.unix_pair();
    /// poller.add(&far, 1, Interest::READ, Mode::Edge)?;
    /// near.send(b"hello")?;
    ///
    /// let mut events = Events::bounded(4);
    /// poller.wait(&mut events, None)?;
    /// assert_eq!(events.get(0).unwrap().ready, Ready::READABLE);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn backend(&self) -> impl Backend + use<> {
        let is_native = self.sim.seed() % 2 == 0;
        let mut capabilities = Capabilities::default();
        capabilities.edge = is_native;
        capabilities.oneshot = is_native;
        capabilities.exclusive = is_native;
        self.backend_with(capabilities)
    }

    /// A [backend](Self::backend) whose capabilities do not depend on the seed. If it lacks `Edge`
    /// or `Oneshot`, the poller emulates this mode. For `Edge`, it stops watching a direction
    /// (reading or writing) that it has reported, until the program rearms that direction. For
    /// `Oneshot`, it stops watching the reported registration until the program modifies it.
    #[must_use]
    pub fn backend_with(&self, capabilities: Capabilities) -> impl Backend + use<> {
        SimBackend::new(self.sim.clone(), self.id, capabilities)
    }

    /// Opens a descriptor of the listener at an address.
    ///
    /// All processes that listen at one address share one socket, like workers that have inherited
    /// it. Their parent keeps the socket open, so it outlives them.
    #[must_use]
    pub fn listen(&self, address: SocketAddr) -> SimListener {
        self.open_listener(address, false)
    }

    /// Opens a listener that belongs only to this process (`SO_REUSEPORT`).
    ///
    /// Several listeners may share the address. A connection goes to one of them at random. When
    /// such a listener is closed, the connections in its backlog are reset.
    #[must_use]
    pub fn listen_reuseport(&self, address: SocketAddr) -> SimListener {
        self.open_listener(address, true)
    }

    /// Binds a UDP socket. Port 0 stands for a free port.
    ///
    /// # Errors
    ///
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if the address is in use or no port is free. EMFILE
    /// if the process is dead or has no free descriptor.
    pub fn bind_udp(&self, address: SocketAddr) -> io::Result<SimUdpSocket> {
        let (id, fd) = self.sim.state().bind_udp(self.id, address)?;
        Ok(SimUdpSocket::new(self.sim.clone(), self.id, fd, id))
    }

    /// A thread pool whose jobs run in simulated time, and whose results wake the loop of
    /// `loop_handle`.
    ///
    /// The program uses it like one from [`Pool::new`]. Its `threads` threads are simulated. A job
    /// occupies one of them for its [time](crate::SimConfig::job_time), and its closure runs at the
    /// end of that time. So the seed decides the order of the results. A job must not use the
    /// simulation. [`Pool::shutdown`] drops the jobs that have not ended.
    ///
    /// # Panics
    ///
    /// If `threads` or `limit` is 0.
    ///
    /// ```
    /// use evcore::Step;
    /// use evcore_sim::Sim;
    ///
    /// let process = Sim::new(7).process();
    /// let mut ev = process.builder().build()?;
    /// let mut pool = process.thread_pool(ev.handle(), 2, 10);
    /// let token = ev.add_unwatched()?;
    /// for number in [1, 2, 3] {
    ///     assert!(pool.submit(token, move || number).is_ok());
    /// }
    /// let mut results = Vec::new();
    /// while !pool.is_empty() {
    ///     ev.wait()?; // lets simulated time pass
    ///     while let Some(step) = ev.next_step() {
    ///         assert!(matches!(step, Step::Woken));
    ///         while let Some((_, result)) = pool.next_result() {
    ///             results.push(result.expect("no job panics"));
    ///         }
    ///     }
    /// }
    /// results.sort(); // the seed decides their order
    /// assert_eq!(results, [1, 2, 3]);
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[must_use]
    pub fn thread_pool<T: Send + 'static>(
        &self,
        loop_handle: Handle,
        threads: usize,
        limit: usize,
    ) -> Pool<Token, T> {
        assert!(threads > 0, "a thread pool must have at least one thread");
        let sim = self.sim.clone();
        let pool = sim.state().open_thread_pool(self.id, threads);
        let simulator = move |job| sim.state().start_job(pool, job);
        Pool::simulated(limit, move || loop_handle.wake(), simulator)
    }

    /// Two connected streams that behave as Unix sockets: bytes arrive at once.
    #[must_use]
    pub fn unix_pair(&self) -> (SimStream, SimStream) {
        self.pair(Family::Unix)
    }

    /// Two connected streams that behave as TCP sockets: bytes arrive after the
    /// [latency](crate::SimConfig::latency).
    #[must_use]
    pub fn tcp_pair(&self) -> (SimStream, SimStream) {
        self.pair(Family::Tcp)
    }

    /// Returns two connected sockets that carry messages with descriptors. Before a parent starts a
    /// worker, it makes such a pair as the worker's mailbox, by which the worker receives
    /// connections.
    ///
    /// # Panics
    ///
    /// If the process is dead or has not two free descriptors.
    #[must_use]
    pub fn channel_pair(&self) -> (SimDescriptor, SimDescriptor) {
        let pair = self.sim.state().channel_pair(self.id);
        let [one, two] = pair.expect("the process has free descriptors");
        let descriptor = |held| SimDescriptor::new(self.sim.clone(), self.id, held);
        (descriptor(one), descriptor(two))
    }

    /// Gives this process a descriptor of another process's open file, as a child inherits it by a
    /// fork.
    #[must_use]
    pub fn inherit(&self, descriptor: &SimDescriptor) -> SimDescriptor {
        let object = descriptor.object;
        let fd = self.sim.state().inherit(object, self.id);
        SimDescriptor::new(self.sim.clone(), self.id, (object, fd))
    }

    /// Makes `store` the descriptor store of this process. If this process is killed while the
    /// store is alive, the store keeps the connections that `marks` shows as idle
    /// ([`set_idle_marks`](evcore::ListenersMut::set_idle_marks)).
    pub fn set_store(&self, store: &Self, marks: &'static [AtomicU8]) {
        let process = store.id;
        let store = Store { process, marks };
        let mut state = self.sim.state();
        state.processes[self.id as usize].store = Some(store);
        state.processes[process as usize].is_store = true;
    }

    /// Takes the connections that killed processes have left to this [store](Self::set_store).
    #[must_use]
    pub fn take_kept(&self) -> Vec<SimDescriptor> {
        let kept = std::mem::take(&mut self.sim.state().processes[self.id as usize].kept);
        let kept = kept.into_iter();
        kept.map(|held| SimDescriptor::new(self.sim.clone(), self.id, held))
            .collect()
    }

    /// The simulation of this process.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// The number of this process among those of the simulation, from 0.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    fn pair(&self, family: Family) -> (SimStream, SimStream) {
        let [one, two] = self.sim.state().pair(self.id, family);
        let stream = |(id, fd)| SimStream::new(self.sim.clone(), self.id, fd, id);
        (stream(one), stream(two))
    }

    fn open_listener(&self, address: SocketAddr, reuseport: bool) -> SimListener {
        let fd = self.sim.state().listen(self.id, address, reuseport);
        SimListener::new(self.sim.clone(), self.id, fd)
    }
}

impl Connector for Process {
    type Stream = SimStream;

    fn connect(&self, address: &Address) -> Result<SimStream, Error> {
        let connected = match address {
            Address::Tcp(server) => self.sim.state().connect_process(self.id, *server),
            _ => Err(("connect", io::ErrorKind::Unsupported.into())),
        };
        let (id, fd) = connected.map_err(|(call, source)| Error::Connect {
            address: address.clone(),
            call,
            source,
        })?;
        Ok(SimStream::new(self.sim.clone(), self.id, fd, id))
    }
}

#[derive(Clone, Debug)]
struct SimClock {
    sim: Sim,
}

impl TimeSource for SimClock {
    fn monotonic_ns(&self) -> u64 {
        self.sim.state().monotonic_ns()
    }

    fn wall_time(&self) -> WallTime {
        self.sim.state().wall_time()
    }
}
