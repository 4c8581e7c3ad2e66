//! Many workers on one thread: who runs when, who is stopped, who dies and who comes after him.
//!
//! A worker is a [`Process`] with an application on it. Its turns are made of the two halves of
//! [`EventLoop::wait`]: between them it sleeps, as it would in the kernel, with its listeners
//! registered and with the accept lock, if it has it. And between any two steps it may be stopped
//! or killed.

use std::{fmt, time::Duration};

use evcore::{EventLoop, Step};

use crate::{Process, SimListener, SimStream, World, rng::whole_ns, worker::Worker};

/// An application that [`Workers`] can drive: a loop, and what is done for each step.
///
/// A server whose own `run` pulls the steps has both already, so this is mostly a split of its
/// body.
/// For an example, see [`Workers`].
pub trait App {
    /// The loop, whose turns are now somebody else's affair.
    fn event_loop(&mut self) -> &mut EventLoop<SimListener>;

    /// Takes one step.
    fn take(&mut self, step: Step<SimStream>);

    /// The turn is over: nginx would log, publish its counts and look for signals here.
    fn turn_over(&mut self) {}

    /// The turn was [left](crate::Fault::TurnLeft) before it was over, as by a `break` or a `?`:
    /// the loop waits next, and what was not taken comes in the turn after. In place of
    /// [`turn_over`](Self::turn_over).
    fn turn_left(&mut self) {}

    /// Whether it has come to its end, and the process may exit. Asked after every turn, over or
    /// left.
    ///
    /// Where it has, the process does exit: what it had is closed, and nobody comes after it. The
    /// application stays where [`Workers::app`] finds it.
    fn is_done(&self) -> bool {
        false
    }

    /// The wait has failed.
    ///
    /// # Panics
    ///
    /// Unless overridden: the simulator fails no wait.
    fn failed(&mut self, error: evcore::Error) {
        panic!("the wait failed: {error}");
    }
}

/// Workers of one server, in simulated time.
///
/// ```
/// use evcore::{EventLoop, Step};
/// use evcore_sim::{App, Process, Script, SimListener, SimStream, Workers, World};
/// use std::time::Duration;
///
/// struct Greeter { ev: EventLoop<SimListener> }
///
/// impl App for Greeter {
///     fn event_loop(&mut self) -> &mut EventLoop<SimListener> { &mut self.ev }
///
///     fn take(&mut self, step: Step<SimStream>) {
///         if let Step::Accepted(new) = step {
///             let _ = new.stream.send(b"hello, and good-bye");
///         }
///     }
/// }
///
/// let world = World::new(7);
/// let address = "10.0.0.1:80".parse()?;
/// let mut workers = Workers::new(&world, 4, move |process: &Process, _| {
///     let builder = process.builder().listener(process.listen(address));
///     Greeter { ev: builder.build().expect("a loop") }
/// });
/// let client = world.client(address, Script::new().hear_end());
/// assert!(workers.run_until(Duration::from_secs(1), |_| client.is_done()));
/// assert_eq!(client.heard(), b"hello, and good-bye");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub struct Workers<A> {
    world: World,
    workers: Vec<Worker<A>>,
    begin: Box<Begin<A>>,
    on_death: Box<dyn FnMut(usize)>,
}

/// How a worker begins: from its process and its index.
type Begin<A> = dyn FnMut(&Process, usize) -> A;

impl<A: App> Workers<A> {
    /// So many workers, each of them made by `begin` from its process and its index. A worker that
    /// was killed has a successor made so too, on a new process and with the same index.
    pub fn new(
        world: &World,
        count: usize,
        begin: impl FnMut(&Process, usize) -> A + 'static,
    ) -> Self {
        let mut workers = Self {
            world: world.clone(),
            workers: Vec::with_capacity(count),
            begin: Box::new(begin),
            on_death: Box::new(|_| {}),
        };
        for index in 0..count {
            let worker = workers.born(index);
            workers.workers.push(worker);
        }
        workers
    }

    /// Calls this when the parent has noticed that a worker is dead, with its index: after the
    /// what it held of a [`SimGroup`](crate::SimGroup) is released, and before its successor begins.
    /// The place to release its line of a [`Scoreboard`](evcore::balancer::Scoreboard).
    pub fn on_death(&mut self, call: impl FnMut(usize) + 'static) {
        self.on_death = Box::new(call);
    }

    /// Runs for so long, of simulated time.
    pub fn run_for(&mut self, time: Duration) {
        let until_ns = whole_ns(self.world.now().saturating_add(time));
        self.run(until_ns, None);
    }

    /// Runs until it is so, and says whether it came to be; after `at_most` of simulated time it
    /// gives up. Asked whenever a worker or a client has done something.
    pub fn run_until(&mut self, at_most: Duration, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let until_ns = whole_ns(self.world.now().saturating_add(at_most));
        self.run(until_ns, Some(&mut is_so))
    }

    fn run(&mut self, until_ns: u64, mut is_so: Option<&mut dyn FnMut(&Self) -> bool>) -> bool {
        while !is_so.as_mut().is_some_and(|is_so| is_so(self)) {
            match self.next(until_ns, is_so.is_some()) {
                Next::Due(index) => self.work(index),
                Next::Happened => {}
                Next::Nothing => return false,
            }
        }
        true
    }

    /// The application of a worker; `None`: it is dead.
    #[must_use]
    pub fn app(&self, index: usize) -> Option<&A> {
        self.workers[index].app()
    }

    /// The application of a worker, to be changed from outside, as a signal would; its wait ends
    /// for that. `None`: it is dead.
    pub fn app_mut(&mut self, index: usize) -> Option<&mut A> {
        let now_ns = whole_ns(self.world.now());
        self.workers[index].interrupt(now_ns)
    }

    /// The applications that live, with their indices.
    pub fn apps(&self) -> impl Iterator<Item = (usize, &A)> {
        let workers = self.workers.iter().enumerate();
        workers.filter_map(|(index, worker)| Some((index, worker.app()?)))
    }

    /// The process of a worker: another one after each death.
    #[must_use]
    pub fn process(&self, index: usize) -> &Process {
        &self.workers[index].process
    }

    /// Whether a worker is stopped at this moment; the dead are not.
    #[must_use]
    pub fn is_stopped(&self, index: usize) -> bool {
        self.workers[index].is_stopped(whole_ns(self.world.now()))
    }

    /// Whether all have come to their end.
    #[must_use]
    pub fn are_done(&self) -> bool {
        self.workers.iter().all(Worker::is_done)
    }

    /// Kills a worker, wherever it is: the kernel closes what it had, and a lock that it held stays
    /// taken until the parent notices. Then a successor begins. (One that has come to its end is
    /// there no more to be killed.)
    pub fn kill(&mut self, index: usize) {
        self.workers[index].kill();
    }

    /// Stops a worker for so long (SIGSTOP): it does nothing, and keeps all that it has.
    pub fn stop(&mut self, index: usize, time: Duration) {
        let until_ns = whole_ns(self.world.now().saturating_add(time));
        self.workers[index].stop_until(until_ns);
    }

    /// Lets time pass until there is something to do for a worker, or something has happened that
    /// may lead to that (or, where that is of interest, a client was called).
    fn next(&mut self, until_ns: u64, to_clients: bool) -> Next {
        let mut state = self.world.state();
        loop {
            for worker in &mut self.workers {
                worker.look(&mut state);
            }
            let dues = self.workers.iter().map(Worker::due_ns).zip(0..);
            // Of equals, the one of the least index.
            let (due_ns, index) = dues.min().unwrap_or((u64::MAX, 0));
            if due_ns <= state.now_ns() {
                return Next::Due(index);
            }
            if state.now_ns() >= until_ns {
                return Next::Nothing;
            }
            state.run(due_ns.min(until_ns), to_clients);
            if to_clients {
                return Next::Happened;
            }
        }
    }

    fn work(&mut self, index: usize) {
        if self.workers[index].is_dead() {
            (self.on_death)(index);
            self.workers[index] = self.born(index);
        } else {
            self.workers[index].work();
        }
    }

    fn born(&mut self, index: usize) -> Worker<A> {
        let id = self.world.state().begin_process(true);
        let process = Process::new(self.world.clone(), id);
        let app = (self.begin)(&process, index);
        Worker::new(process, app)
    }
}

/// What comes next.
enum Next {
    /// Something is to be done for this worker, now.
    Due(usize),
    /// Something has happened that may be of interest.
    Happened,
    /// Nothing, for as long as was asked.
    Nothing,
}

/// Where each worker is.
impl<A: App> fmt::Debug for Workers<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("world", &self.world)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
