//! The handle to a simulation.

use std::{
    fmt, io,
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    time::Duration,
};

use crate::{
    config::SimConfig,
    faults::{Fault, Faults},
    restriction::Restriction,
    rng::{Rng, whole_ns},
    state::State,
    timeline::Timeline,
    trace::lines,
};

/// A simulated machine and its network. A seed decides everything that is random in it.
///
/// A clone is another handle to the same simulation. The simulation starts without faults, at time
/// 0, which the wall clock shows as 1970-01-01. Time passes only in the waits of a loop, while
/// [`Workers`](crate::Workers) run, and in [`run_for`](Self::run_for).
///
/// The same seed and the same program give the same trace, on every machine and in every profile.
/// The program must not use an `Instant`, a thread, or the order of a hash table.
///
/// The seed also chooses the kind of kernel: if it is even, pollers work as over epoll. If it is
/// odd, they work as over `poll`, and emulate `Edge` and `Oneshot` by level-triggered
/// registrations. So any two consecutive seeds cover both kinds.
///
/// ```
/// use evcore::{TokenMap, Interest, Mode, Step};
/// use evcore_sim::{Script, Sim};
///
/// let sim = Sim::new(7);
/// let address = "10.0.0.1:80".parse()?;
/// let process = sim.process();
/// let mut ev = process.builder().listener(process.listen(address)).build()?;
/// let client = sim.client(address, Script::new().send("ping").recv(4));
///
/// let mut conns = TokenMap::new();
/// while !client.is_done() {
///     ev.wait()?; // lets simulated time pass
///     while let Some(step) = ev.next_step() {
///         match step {
///             Step::Accepted(new) => {
///                 conns.add(&mut ev, new.stream, Interest::READ, Mode::Level)?;
///             }
///             Step::Ready(token, _) => {
///                 let stream = conns.get(token).expect("its token is live");
///                 let mut buffer = [0; 64];
///                 let n = stream.recv(&mut buffer)?;
///                 stream.send(&buffer[..n])?;
///             }
///             _ => {}
///         }
///     }
/// }
/// assert_eq!(client.received(), b"ping");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Sim {
    state: Arc<Mutex<State>>,
    seed: u64,
}

impl Sim {
    /// A new simulation from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(seed))),
            seed,
        }
    }

    pub(crate) fn restricted(seed: u64, restriction: Restriction) -> Self {
        let sim = Self::new(seed);
        sim.state().restriction = restriction;
        sim
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Sets the probabilities of faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets the delays and limits from now on.
    pub fn set_config(&self, config: SimConfig) {
        self.state().config = config;
    }

    /// Sets a limit on the simulated time. From then on, a wait that would sleep fails with an
    /// [`Error::Os`](evcore::poller::Error::Os) of the kind [`TimedOut`](io::ErrorKind::TimedOut).
    /// This ends a server whose own loop never returns. Waits under `Workers` ignore the limit.
    pub fn set_time_limit(&self, limit: Duration) {
        self.state().time_limit_ns = whole_ns(limit);
    }

    /// Sets the wall clock forward by `seconds`, or back if the number is negative.
    pub fn step_wall_clock(&self, seconds: i64) {
        self.state().step_wall_clock(seconds);
    }

    /// The simulated time since the start. (The monotonic clock of a process is ahead of it after a
    /// [`ClockJump`](Fault::ClockJump).)
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now_ns())
    }

    /// A new generator for the random choices of the test itself. The seed decides its numbers.
    #[must_use]
    pub fn rng(&self) -> Rng {
        self.state().rng.fork()
    }

    /// Draws how many clients a test starts. Yields a random generator for each of them.
    ///
    /// A test that fails usually has more clients than the failure needs. [`check`](crate::check)
    /// looks for a small number with which the test still fails, and can leave out only clients of
    /// this call.
    ///
    /// ```
    /// use evcore_sim::{Script, Sim};
    ///
    /// let sim = Sim::new(7);
    /// for mut rng in sim.clients(10..=40) {
    ///     let bytes = vec![b'a'; rng.index(2_000)];
    ///     sim.client("10.0.0.1:80".parse()?, Script::new().send(bytes).recv_eof());
    /// }
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn clients(&self, count: RangeInclusive<usize>) -> impl Iterator<Item = Rng> + use<> {
        let mut state = self.state();
        let mut rng = state.rng.fork();
        let (least, most) = count.into_inner();
        let wanted = least + rng.index(most.saturating_sub(least) + 1);
        state.clients_wanted += wanted;
        let count = state
            .restriction
            .clients
            .map_or(wanted, |most| most.min(wanted));
        (0..count).map(move |_| rng.fork())
    }

    /// Number of connections that wait to be accepted at an address.
    #[must_use]
    pub fn backlog_len(&self, address: SocketAddr) -> usize {
        self.state().backlog_len(address)
    }

    /// Lets time pass while no loop runs. The next wait of each loop reports the events of this
    /// time. With [`Duration::MAX`] time passes until nothing is left to happen.
    pub fn run_for(&self, time: Duration) {
        let mut state = self.state();
        let until_ns = state.now_ns().saturating_add(whole_ns(time));
        while state.now_ns() < until_ns && !state.is_over(until_ns) {
            state.run(until_ns, false);
        }
    }

    /// Number of times that a fault has occurred.
    #[must_use]
    pub fn fault_count(&self, fault: Fault) -> u64 {
        self.state().fault_count(fault)
    }

    /// The hash of all events so far, with their order, their times and the sent bytes.
    ///
    /// The same seed and the same program give the same hash on every machine.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.state().trace.hash()
    }

    /// Records the trace from now on, for [`trace_lines`](Self::trace_lines) and
    /// [`timeline`](Self::timeline). This does not change the hash.
    pub fn record_trace(&self) {
        self.state().trace.record();
    }

    /// The lines of the trace since [`record_trace`](Self::record_trace). Without that call there
    /// are none.
    #[must_use]
    pub fn trace_lines(&self) -> Vec<String> {
        let state = self.state();
        state.trace.recording().map_or_else(Vec::new, lines)
    }

    /// The picture of the trace since [`record_trace`](Self::record_trace). Without that call it is
    /// empty.
    ///
    /// ```
    /// use evcore_sim::{Script, Sim};
    /// use std::time::Duration;
    ///
    /// let sim = Sim::new(7);
    /// sim.record_trace();
    /// sim.client("10.0.0.1:80".parse()?, Script::new().send("hello"));
    /// sim.run_for(Duration::from_secs(1));
    /// let page = sim.timeline("one client and no server").to_html();
    /// assert!(page.contains("client 0 gets Refused"));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn timeline(&self, title: &str) -> Timeline {
        let state = self.state();
        let end_ns = state.now_ns();
        let recording = state.trace.recording();
        recording.map_or_else(Timeline::default, |recording| {
            Timeline::of_recording(title, recording, end_ns)
        })
    }

    /// Adds a note to the trace. This changes the trace's hash.
    pub fn note(&self, text: &str) {
        let mut state = self.state();
        let now_ns = state.now_ns();
        state.trace.text(now_ns, None, text);
    }

    /// Locks the state, which stays locked while a client is called.
    #[track_caller]
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.try_state().expect(
            "a `Sim` is in use already: use it from one thread, inside `Client::on_event` use only \
             the `ClientCx`, and do not use it in a job of a thread pool",
        )
    }

    /// Locks the state for a call of a process on one of its sockets. Fails if the process is dead.
    pub(crate) fn state_of_living(&self, process: u32) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.is_alive(process) {
            Ok(state)
        } else {
            Err(io::ErrorKind::NotConnected.into())
        }
    }

    /// Locks the state for a destructor. Returns `None` if the state is locked already, as in a
    /// destructor that runs because a client panics.
    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            // A client has panicked. The destructors of the test still need the state.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Shows the seed, the time and the hash.
impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sim = f.debug_struct("Sim");
        sim.field("seed", &self.seed);
        if let Some(state) = self.try_state() {
            sim.field("now", &Duration::from_nanos(state.now_ns()))
                .field("trace_hash", &state.trace.hash());
        }
        sim.finish_non_exhaustive()
    }
}
