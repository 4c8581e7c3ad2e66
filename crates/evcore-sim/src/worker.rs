//! One worker: a process, its application, and its progress in the present turn (one iteration of
//! its event loop).

use std::{fmt, time::Duration};

use evcore::Step;

use crate::{
    app::App,
    faults::Fault,
    process::Process,
    rng::whole_ns,
    state::State,
    stream::SimStream,
    trace::{Detail, Event, StepName, Subject},
};

const SLOW_STEP_MAX: Duration = Duration::from_millis(200);

const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A worker, until its successor takes its place.
pub(crate) struct Worker<A> {
    pub(crate) process: Process,
    // Invariant: `None` exactly if the worker was killed.
    app: Option<A>,
    phase: Phase,
    /// The time at which the worker runs next.
    due_ns: u64,
    /// The time before which the worker does not run, even if it is due.
    paused_until_ns: u64,
    /// True if the trace was recorded at the last [`interfere`](Self::interfere).
    is_recorded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ready,
    /// The worker is in a wait, at most until `until_ns`.
    Waiting {
        timeout: Option<Duration>,
        until_ns: u64,
        /// True if the kernel has woken the worker, which runs when it is due.
        is_woken: bool,
    },
    /// The worker is between two steps.
    Running,
    /// The worker was killed. It is due when its parent has noticed the death.
    Dead,
    /// The worker's process has exited by itself.
    Done,
}

/// The interference with a worker between two steps.
enum Interference {
    None,
    /// The step takes until this time.
    Work(u64),
    Pause(u64),
    AbandonTurn,
    Kill,
}

impl<A: App> Worker<A> {
    pub(crate) fn new(process: Process, app: A) -> Self {
        let due_ns = process.sim().state().now_ns();
        Self {
            process,
            app: Some(app),
            phase: Phase::Ready,
            due_ns,
            paused_until_ns: 0,
            is_recorded: false,
        }
    }

    pub(crate) fn app(&self) -> Option<&A> {
        self.app.as_ref()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.phase == Phase::Dead
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns.max(self.paused_until_ns)
    }

    pub(crate) fn is_paused(&self, now_ns: u64) -> bool {
        now_ns < self.paused_until_ns
    }

    pub(crate) fn pause_until(&mut self, until_ns: u64) {
        self.paused_until_ns = self.paused_until_ns.max(until_ns);
        let (process, until_ns) = (self.process.id(), self.paused_until_ns);
        let paused = || Detail::Paused { process, until_ns };
        self.process.sim().state().detail(paused);
    }

    /// Ends the worker's wait, if the worker is in one.
    pub(crate) fn interrupt(&mut self, now_ns: u64) -> Option<&mut A> {
        if let Phase::Waiting { until_ns, .. } = &mut self.phase {
            *until_ns = now_ns;
            self.due_ns = self.due_ns.min(now_ns);
        }
        self.app.as_mut()
    }

    pub(crate) fn kill(&mut self) {
        if self.is_dead() || self.is_done() {
            return;
        }
        self.process.sim().state().kill(self.process.id());
        self.mark_dead();
    }

    /// Returns whether the process was killed inside a call of the application. If so, the worker
    /// is dead from now on.
    fn was_killed(&mut self) -> bool {
        let was_killed = !self.process.sim().state().is_alive(self.process.id());
        if was_killed {
            self.mark_dead();
        }
        was_killed
    }

    fn mark_dead(&mut self) {
        (self.phase, self.due_ns, self.paused_until_ns) = (Phase::Dead, u64::MAX, 0);
        // The destructors run, but the calls of a dead process have no effect.
        self.app = None;
    }

    /// Updates the time at which the worker is due, after an event.
    pub(crate) fn observe(&mut self, state: &mut State) {
        let id = self.process.id();
        match &mut self.phase {
            Phase::Waiting { is_woken, .. } if !*is_woken => {
                *is_woken = state.is_process_woken(id);
                if *is_woken {
                    self.due_ns = self.due_ns.min(state.now_ns() + state.wake_ns());
                }
            }
            Phase::Dead if state.processes[id as usize].is_reaped => {
                self.due_ns = state.now_ns();
            }
            _ => {}
        }
    }

    pub(crate) fn run(&mut self) {
        match self.phase {
            Phase::Ready => self.begin_wait(),
            Phase::Waiting {
                timeout, until_ns, ..
            } => self.finish_wait(timeout, until_ns),
            Phase::Running => self.run_steps(),
            Phase::Dead | Phase::Done => self.due_ns = u64::MAX,
        }
    }

    /// Runs the first half of a wait. The simulated duration of the turn that has just ended passes
    /// during this wait.
    fn begin_wait(&mut self) {
        let app = self.app.as_mut().expect("it is not killed");
        let prepared = app.event_loop().prepare().map(|sleep| sleep.timeout);
        let mut state = self.process.sim().state();
        let turn_end_ns = state.now_ns() + state.turn_ns();
        match prepared {
            Ok(timeout) => {
                let timeout_ns = timeout.map_or(u64::MAX, whole_ns);
                let until_ns = state.now_ns().saturating_add(timeout_ns).max(turn_end_ns);
                let has_events = state.begin_wait(self.process.id());
                self.due_ns = if has_events { turn_end_ns } else { until_ns };
                self.phase = Phase::Waiting {
                    timeout,
                    until_ns,
                    is_woken: has_events,
                };
                let process = self.process.id();
                let until_ns = timeout.map_or(u64::MAX, |_| until_ns);
                state.detail(|| Detail::Sleeps { process, until_ns });
            }
            Err(error) => {
                drop(state);
                app.on_wait_error(error);
                // The worker tries again, but only after the time of a turn.
                (self.phase, self.due_ns) = (Phase::Ready, turn_end_ns);
            }
        }
    }

    /// Runs the second half of a wait. If nothing ends the wait, the worker goes on waiting.
    fn finish_wait(&mut self, timeout: Option<Duration>, until_ns: u64) {
        let mut state = self.process.sim().state();
        if state.now_ns() < until_ns && !state.has_events(self.process.id()) {
            // Another worker has taken the event. The kernel does not end the wait of this one.
            state.set_sleeping(self.process.id(), true);
            self.due_ns = until_ns;
            self.phase = Phase::Waiting {
                timeout,
                until_ns,
                is_woken: false,
            };
            return;
        }
        state.set_sleeping(self.process.id(), false);
        drop(state);
        let app = self.app.as_mut().expect("it is not killed");
        match app.event_loop().wait_at_most(timeout) {
            Ok(_) => self.run_steps(),
            Err(error) => {
                app.on_wait_error(error);
                self.end_turn();
            }
        }
    }

    /// Handles steps until one takes time, a fault interferes, or the turn is over.
    fn run_steps(&mut self) {
        self.phase = Phase::Running;
        let mut interference = self.interfere(0);
        while let Interference::None = interference {
            let app = self.app.as_mut().expect("it is not killed");
            let Some(step) = app.event_loop().next_step() else {
                app.on_turn_end();
                return self.end_turn();
            };
            if self.is_recorded {
                let (process, step) = (self.process.id(), name_of(&step));
                let began = || Detail::StepBegan { process, step };
                self.process.sim().state().detail(began);
            }
            app.on_step(step);
            if self.was_killed() {
                return;
            }
            interference = self.interfere(1);
        }
        match interference {
            Interference::None => unreachable!("the loop goes on"),
            Interference::Work(until_ns) => self.due_ns = until_ns,
            Interference::Pause(until_ns) => self.pause_until(until_ns),
            Interference::AbandonTurn => {
                let app = self.app.as_mut().expect("it is not killed");
                app.on_turn_abandoned();
                self.end_turn();
            }
            Interference::Kill => self.kill(),
        }
    }

    /// Draws the interference after `steps` steps, 0 or 1. A step takes its time first, and the
    /// faults follow when that time is over.
    fn interfere(&mut self, steps: u64) -> Interference {
        let mut state = self.process.sim().state();
        self.is_recorded = state.trace.recording().is_some();
        let process = self.process.id();
        let subject = Subject::Process(process);
        if steps > 0 {
            state.note(Event::StepEnded { process });
            let mut step_ns = state.step_ns();
            if state.draw_fault(Fault::SlowStep, subject) {
                step_ns += state.random_up_to(SLOW_STEP_MAX);
            }
            if step_ns > 0 {
                return Interference::Work(state.now_ns() + step_ns);
            }
        }
        if state.draw_fault(Fault::Kill, subject) {
            return Interference::Kill;
        }
        if state.draw_fault(Fault::Pause, subject) {
            return Interference::Pause(state.now_ns() + state.random_up_to(PAUSE_MAX));
        }
        if state.draw_fault(Fault::AbandonedTurn, subject) {
            return Interference::AbandonTurn;
        }
        Interference::None
    }

    fn end_turn(&mut self) {
        if self.was_killed() {
            return;
        }
        if self.app.as_ref().is_some_and(App::is_done) {
            // The kernel closes the connections that are left. The application stays for the test.
            self.process.sim().state().exit(self.process.id());
            (self.phase, self.due_ns) = (Phase::Done, u64::MAX);
        } else {
            self.begin_wait();
        }
    }
}

fn name_of(step: &Step<SimStream>) -> StepName {
    match step {
        Step::Accepted(new) => StepName::Accepted(new.stream.id()),
        Step::Ready(token, ready) => StepName::Ready(*token, *ready),
        Step::Expired(token, timer) => StepName::Expired(*token, *timer),
        Step::Woken => StepName::Woken,
        Step::ShuttingDown => StepName::ShuttingDown,
        Step::Evict(token) => StepName::Evict(*token),
    }
}

/// Leaves out the application, which may not implement `Debug`.
impl<A> fmt::Debug for Worker<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("process", &self.process.id())
            .field("phase", &self.phase)
            .field("due_ns", &self.due_ns)
            .finish_non_exhaustive()
    }
}
