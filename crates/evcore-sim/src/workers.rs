//! Runs many workers on one thread, in simulated time.
//!
//! A worker is a [`Process`] with an application. Each iteration of its loop uses the two halves of
//! [`EventLoop::wait`]. Between these halves the worker sleeps as it would in the kernel: its
//! listeners are registered, and it may hold the accept lock.

use std::{fmt, time::Duration};

use crate::{app::App, process::Process, rng::whole_ns, sim::Sim, worker::Worker};

/// The workers of one server, in simulated time.
///
/// ```
/// use evcore::{EventLoop, Step};
/// use evcore_sim::{App, Process, Script, Sim, SimListener, SimStream, Workers};
/// use std::time::Duration;
///
/// struct Greeter { ev: EventLoop<SimListener> }
///
/// impl App for Greeter {
///     fn event_loop(&mut self) -> &mut EventLoop<SimListener> { &mut self.ev }
///
///     fn on_step(&mut self, step: Step<SimStream>) {
///         if let Step::Accepted(new) = step {
///             let _ = new.stream.send(b"hello, and good-bye");
///         }
///     }
/// }
///
/// let sim = Sim::new(7);
/// let address = "10.0.0.1:80".parse()?;
/// let mut workers = Workers::new(&sim, 4, move |process: &Process, _| {
///     let builder = process.builder().listener(process.listen(address));
///     Greeter { ev: builder.build().expect("a loop") }
/// });
/// let client = sim.client(address, Script::new().recv_eof());
/// assert!(workers.run_until(Duration::from_secs(1), |_| client.is_done()));
/// assert_eq!(client.received(), b"hello, and good-bye");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub struct Workers<A> {
    // The first field is dropped first.
    _end: EndOfRun,
    sim: Sim,
    workers: Vec<Worker<A>>,
    start: Box<Start<A>>,
    on_death: Box<dyn FnMut(usize)>,
}

type Start<A> = dyn FnMut(&Process, usize) -> A;

impl<A: App> Workers<A> {
    /// Starts `count` workers. `start` makes the application of each from its process and its
    /// index.
    ///
    /// If a worker is killed, `start` also makes the application of its successor, which has a new
    /// process and the same index.
    pub fn new(sim: &Sim, count: usize, start: impl FnMut(&Process, usize) -> A + 'static) -> Self {
        let mut workers = Self {
            _end: EndOfRun(sim.clone()),
            sim: sim.clone(),
            workers: Vec::with_capacity(count),
            start: Box::new(start),
            on_death: Box::new(|_| {}),
        };
        for index in 0..count {
            let worker = workers.spawn(index);
            workers.workers.push(worker);
        }
        workers
    }

    /// Sets the hook that the parent calls when it notices a death. The hook gets the index of the
    /// dead worker.
    ///
    /// At that time the worker's lock and membership of a [`SimGroup`](crate::SimGroup) are already
    /// released, and its successor does not exist yet. Release the worker's line of a
    /// [`Scoreboard`](evcore::balancer::Scoreboard) here.
    pub fn on_death(&mut self, call: impl FnMut(usize) + 'static) {
        self.on_death = Box::new(call);
    }

    /// Runs the workers for a simulated time.
    pub fn run_for(&mut self, time: Duration) {
        let until_ns = whole_ns(self.sim.now().saturating_add(time));
        self.run(until_ns, None);
    }

    /// Runs the workers until `condition` holds, for at most `limit` of simulated time. Returns
    /// whether the condition holds.
    ///
    /// The condition is checked at the beginning, and each time that a worker or a client has run.
    pub fn run_until(&mut self, limit: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        let until_ns = whole_ns(self.sim.now().saturating_add(limit));
        self.run(until_ns, Some(&mut condition))
    }

    fn run(&mut self, until_ns: u64, mut condition: Option<&mut dyn FnMut(&Self) -> bool>) -> bool {
        while !condition.as_mut().is_some_and(|holds| holds(self)) {
            match self.next(until_ns, condition.is_some()) {
                Next::Worker(index) => self.run_worker(index),
                Next::Client => {}
                Next::TimeUp => return false,
            }
        }
        true
    }

    /// The application of a worker. `None` if the worker was killed and its successor has not
    /// started.
    #[must_use]
    pub fn app(&self, index: usize) -> Option<&A> {
        self.workers[index].app()
    }

    /// The application of a worker. `None` if the worker was killed and its successor has not
    /// started. The worker's wait ends, as by a signal.
    pub fn app_mut(&mut self, index: usize) -> Option<&mut A> {
        let now_ns = whole_ns(self.sim.now());
        self.workers[index].interrupt(now_ns)
    }

    /// The applications of all workers that are not dead, with the workers' indices.
    pub fn apps(&self) -> impl Iterator<Item = (usize, &A)> {
        let workers = self.workers.iter().enumerate();
        workers.filter_map(|(index, worker)| Some((index, worker.app()?)))
    }

    /// The process of a worker. The worker's successor has another process.
    #[must_use]
    pub fn process(&self, index: usize) -> &Process {
        &self.workers[index].process
    }

    /// Returns whether a worker is paused now. A dead worker is not paused.
    #[must_use]
    pub fn is_paused(&self, index: usize) -> bool {
        self.workers[index].is_paused(whole_ns(self.sim.now()))
    }

    /// Returns whether each worker has exited by itself.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.workers.iter().all(Worker::is_done)
    }

    /// Kills a worker. The kernel closes its descriptors, except idle connections that a
    /// [store](Process::set_store) keeps. A lock that the worker held stays locked until the parent
    /// notices the death. Then the successor starts. The call does nothing if the worker is dead or
    /// has exited.
    pub fn kill(&mut self, index: usize) {
        self.workers[index].kill();
    }

    /// Pauses a worker (SIGSTOP) for `time`. A paused worker does nothing, and keeps all that it
    /// holds.
    pub fn pause(&mut self, index: usize, time: Duration) {
        let until_ns = whole_ns(self.sim.now().saturating_add(time));
        self.workers[index].pause_until(until_ns);
    }

    /// Lets time pass until a worker is due, at most until `until_ns`. If `to_clients` is set, also
    /// stops when a client may have run.
    fn next(&mut self, until_ns: u64, to_clients: bool) -> Next {
        let mut state = self.sim.state();
        loop {
            for worker in &mut self.workers {
                worker.observe(&mut state);
            }
            let dues = self.workers.iter().map(Worker::due_ns).zip(0..);
            // Of workers that are due at the same time, the lowest index comes first.
            let (due_ns, index) = dues.min().unwrap_or((u64::MAX, 0));
            if due_ns <= state.now_ns() {
                return Next::Worker(index);
            }
            let next_ns = due_ns.min(until_ns);
            if state.now_ns() >= until_ns || state.is_over(next_ns) {
                return Next::TimeUp;
            }
            state.run(next_ns, to_clients);
            if to_clients {
                return Next::Client;
            }
        }
    }

    fn run_worker(&mut self, index: usize) {
        if self.workers[index].is_dead() {
            (self.on_death)(index);
            self.workers[index] = self.spawn(index);
        } else {
            self.workers[index].run();
        }
    }

    fn spawn(&mut self, index: usize) -> Worker<A> {
        let id = self.sim.state().spawn_process(Some(index));
        let process = Process::new(self.sim.clone(), id);
        let app = (self.start)(&process, index);
        Worker::new(process, app)
    }
}

/// Marks in the trace the time at which the workers are dropped.
struct EndOfRun(Sim);

impl Drop for EndOfRun {
    fn drop(&mut self) {
        if let Some(mut state) = self.0.try_state() {
            let now_ns = state.now_ns();
            if let Some(recording) = state.trace.recording_mut() {
                recording.mark_end(now_ns);
            }
        }
    }
}

enum Next {
    Worker(usize),
    /// A client may have run.
    Client,
    TimeUp,
}

impl<A: App> fmt::Debug for Workers<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("sim", &self.sim)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
