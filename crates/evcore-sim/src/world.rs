//! The handle to a simulated world.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    time::Duration,
};

use crate::{
    Client, Conditions, Fault, Faults, Process, Rng, Script, Scripted, SimGroup, SimStream,
    rng::whole_ns, state::State, trace::What,
};

/// A simulated machine and its network, all of it from one seed.
///
/// A clone is another handle to the same world. It begins with no faults, at time 0, which a wall
/// clock shows as the beginning of 1970. Nothing happens by itself: time passes where a loop
/// [waits](crate::SimBackend), where [`Workers`](crate::Workers) run, and in
/// [`run_for`](Self::run_for).
///
/// One seed and one program make one trace, on every machine and in every profile, as long as the
/// program has no chance or time of its own: no `Instant`, no hash table's order, no threads.
///
/// ```
/// use evcore::{Connections, Interest, Mode, Step};
/// use evcore_sim::{Script, World};
///
/// let world = World::new(7);
/// let address = "10.0.0.1:80".parse()?;
/// let process = world.process();
/// let mut ev = process.builder().listener(process.listen(address)).build()?;
/// let client = world.client(address, Script::new().send("ping").hear(4));
///
/// let mut conns = Connections::new();
/// while !client.is_done() {
///     ev.wait()?; // lets simulated time pass
///     while let Some(step) = ev.next_step() {
///         match step {
///             Step::Accepted(new) => {
///                 conns.add(&mut ev, new.stream, Interest::READ, Mode::Level)?;
///             }
///             Step::Ready(token, _) => {
///                 let stream = conns.get(token).expect("it lives");
///                 let mut buffer = [0; 64];
///                 let n = stream.recv(&mut buffer)?;
///                 stream.send(&buffer[..n])?;
///             }
///             _ => {}
///         }
///     }
/// }
/// assert_eq!(client.heard(), b"ping");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
    seed: u64,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(seed))),
            seed,
        }
    }

    /// The seed that it was made from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Changes what goes wrong, from here on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Changes how long things take, and how much there is of them, from here on.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.state().conditions = conditions;
    }

    /// No wait goes beyond this time of the world: there it fails, with an
    /// [`Error::Os`](evcore::poller::Error::Os) of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut). So a server ends whose own loop has no end.
    pub fn set_end(&self, end: Duration) {
        self.state().end_ns = whole_ns(end);
    }

    /// Sets the wall clock forward or, with a negative number, back, by whole seconds.
    pub fn step_wall(&self, seconds: i64) {
        self.state().set_wall(seconds);
    }

    /// How long the world has existed. (A process sees another time where its clock
    /// [jumped](Fault::ClockJump).)
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now_ns())
    }

    /// A generator of this world's chance, for what the test itself leaves to it.
    #[must_use]
    pub fn rng(&self) -> Rng {
        self.state().rng.fork()
    }

    /// Begins a process: what a loop, its clock and its sockets belong to.
    #[must_use]
    pub fn process(&self) -> Process {
        let id = self.state().begin_process(false);
        Process::new(self.clone(), id)
    }

    /// What this many workers of one server share, of which each has a slot.
    ///
    /// # Panics
    ///
    /// If there is no worker.
    #[must_use]
    pub fn group(&self, workers: usize) -> SimGroup {
        SimGroup::new(self.clone(), workers)
    }

    /// A client that does as its script says, from now on.
    #[allow(
        clippy::must_use_candidate,
        reason = "a client that only makes trouble needs no watching"
    )]
    pub fn client(&self, server: SocketAddr, script: Script) -> Scripted {
        let (client, handle) = script.into_client(server);
        self.add_client(client);
        handle
    }

    /// A client of your own.
    pub fn add_client(&self, client: impl Client + 'static) {
        self.state().add_client(Box::new(client));
    }

    /// Connects at once, and gives the client's end to the test itself: to be used by hand between
    /// two waits. What is sent takes its time.
    ///
    /// # Errors
    ///
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) where nobody listens,
    /// [`TimedOut`](io::ErrorKind::TimedOut) where the backlog is full.
    pub fn connect(&self, server: SocketAddr) -> io::Result<SimStream> {
        self.process().connect(server)
    }

    /// How many clients wait to be accepted at an address.
    #[must_use]
    pub fn waiting(&self, address: SocketAddr) -> usize {
        self.state().waiting(address)
    }

    /// Lets time pass while no loop is looking: what happens meanwhile is found by the next wait.
    pub fn run_for(&self, time: Duration) {
        let mut state = self.state();
        let until_ns = state.now_ns().saturating_add(whole_ns(time));
        // Whom it wakes finds it when he is next asked.
        while state.now_ns() < until_ns {
            state.run(until_ns, false);
        }
    }

    /// How often a fault has occurred.
    #[must_use]
    pub fn count(&self, fault: Fault) -> u64 {
        self.state().count(fault)
    }

    /// A number made of all that has happened so far, in its order, with its times and its bytes.
    ///
    /// The same seed and the same program give the same number, always and everywhere.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.state().trace.hash()
    }

    /// Keeps a line of each thing that happens from here on; the hash stays the same.
    pub fn record(&self) {
        self.state().trace.record();
    }

    /// The lines of what was [recorded](Self::record).
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.state().trace.lines().to_vec()
    }

    /// Puts a word on the record: it counts for the hash too.
    pub fn note(&self, text: &str) {
        let mut state = self.state();
        let now_ns = state.now_ns();
        state.note(What::Client, u64::MAX, 0);
        state.trace.say(now_ns, text);
    }

    /// All of it. Never held while the application is called.
    #[track_caller]
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.try_state().expect(
            "a world is for one thread at a time; and a client is given it as its `Visit`: \
             it must not use another handle to it while it is called",
        )
    }

    /// For destructors, which may run while the state is in use: in a client's panic.
    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            // A client has panicked, and the test with it: its destructors still need the world.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The seed, the time and the hash: enough to find it again.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut world = f.debug_struct("World");
        world.field("seed", &self.seed);
        if let Some(state) = self.try_state() {
            world
                .field("now", &Duration::from_nanos(state.now_ns()))
                .field("trace_hash", &state.trace.hash());
        }
        world.finish_non_exhaustive()
    }
}
