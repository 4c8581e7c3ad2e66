//! One worker: a process and its application, and where it is in its turn.

use std::{fmt, time::Duration};

use crate::{App, Fault, Process, rng::whole_ns, state::State, trace::What};

/// How much longer a slow step takes, at most.
const SLOW: Duration = Duration::from_millis(200);

/// How long a worker is stopped, at most.
const STOPPED: Duration = Duration::from_secs(2);

/// A worker, until it is replaced.
pub(crate) struct Worker<A> {
    pub(crate) process: Process,
    // `None` while it is being moved on, and for ever once it was killed.
    app: Option<A>,
    stage: Stage,
    /// When there is something to do for it.
    due_ns: u64,
    /// Before this nothing is done for it, whatever is due.
    stopped_until_ns: u64,
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// About to begin a turn.
    Awake,
    /// In a wait of so long at most.
    Asleep {
        timeout: Option<Duration>,
        until_ns: u64,
        /// The kernel has woken it; it runs when it is due.
        is_roused: bool,
    },
    /// Between two steps.
    AtWork,
    /// It was killed; its parent does not know it yet, until it is due.
    Dead,
    /// It has come to its end by itself, and its process has exited.
    Done,
}

/// What becomes of a worker between two steps.
enum Fate {
    GoesOn,
    /// It is at work until then.
    Works(u64),
    Stops(u64),
    LeavesTurn,
    Dies,
}

impl<A: App> Worker<A> {
    pub(crate) fn new(process: Process, app: A) -> Self {
        let due_ns = process.world().state().now_ns();
        Self {
            process,
            app: Some(app),
            stage: Stage::Awake,
            due_ns,
            stopped_until_ns: 0,
        }
    }

    pub(crate) fn app(&self) -> Option<&A> {
        self.app.as_ref()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.stage == Stage::Dead
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns.max(self.stopped_until_ns)
    }

    pub(crate) fn is_stopped(&self, now_ns: u64) -> bool {
        now_ns < self.stopped_until_ns
    }

    pub(crate) fn stop_until(&mut self, until_ns: u64) {
        self.stopped_until_ns = self.stopped_until_ns.max(until_ns);
    }

    /// Ends its wait, if it is in one.
    pub(crate) fn interrupt(&mut self, now_ns: u64) -> Option<&mut A> {
        if let Stage::Asleep { until_ns, .. } = &mut self.stage {
            *until_ns = now_ns;
            self.due_ns = self.due_ns.min(now_ns);
        }
        self.app.as_mut()
    }

    pub(crate) fn kill(&mut self) {
        if self.is_dead() || self.is_done() {
            return;
        }
        self.process.world().state().kill(self.process.id());
        (self.stage, self.due_ns, self.stopped_until_ns) = (Stage::Dead, u64::MAX, 0);
        // Its destructors run, as nothing is lost by that; but nobody hears what they say.
        self.app = None;
    }

    /// Sees whether anything that has happened is its affair.
    pub(crate) fn look(&mut self, state: &mut State) {
        let id = self.process.id();
        match &mut self.stage {
            Stage::Asleep { is_roused, .. } if !*is_roused => {
                *is_roused = state.is_roused(id);
                if *is_roused {
                    self.due_ns = self.due_ns.min(state.now_ns() + state.wake_ns());
                }
            }
            Stage::Dead if state.processes[id as usize].is_reaped => {
                self.due_ns = state.now_ns();
            }
            _ => {}
        }
    }

    /// Does what is due.
    pub(crate) fn work(&mut self) {
        match self.stage {
            Stage::Awake => self.fall_asleep(),
            Stage::Asleep {
                timeout, until_ns, ..
            } => self.wake(timeout, until_ns),
            Stage::AtWork => self.go_on(),
            Stage::Dead | Stage::Done => self.due_ns = u64::MAX,
        }
    }

    /// The first half of a wait. What the turn before has cost in time passes in the wait.
    fn fall_asleep(&mut self) {
        let app = self.app.as_mut().expect("it lives");
        let prepared = app.event_loop().prepare();
        let mut state = self.process.world().state();
        let free_ns = state.now_ns() + state.turn_ns();
        match prepared {
            Ok(timeout) => {
                let timeout_ns = timeout.map_or(u64::MAX, whole_ns);
                let until_ns = state.now_ns().saturating_add(timeout_ns).max(free_ns);
                let has_news = state.has_news(self.process.id());
                state.set_sleeping(self.process.id(), !has_news);
                self.due_ns = if has_news { free_ns } else { until_ns };
                self.stage = Stage::Asleep {
                    timeout,
                    until_ns,
                    is_roused: has_news,
                };
            }
            Err(error) => {
                drop(state);
                app.failed(error);
                // As in life it tries again; but not without time passing.
                (self.stage, self.due_ns) = (Stage::Awake, free_ns);
            }
        }
    }

    /// The second half, if there is a reason to wake.
    fn wake(&mut self, timeout: Option<Duration>, until_ns: u64) {
        let mut state = self.process.world().state();
        if state.now_ns() < until_ns && !state.has_news(self.process.id()) {
            // Somebody else was quicker; the kernel lets it sleep on.
            state.set_sleeping(self.process.id(), true);
            self.due_ns = until_ns;
            self.stage = Stage::Asleep {
                timeout,
                until_ns,
                is_roused: false,
            };
            return;
        }
        state.set_sleeping(self.process.id(), false);
        drop(state);
        let app = self.app.as_mut().expect("it lives");
        match app.event_loop().poll(timeout) {
            Ok(()) => self.go_on(),
            Err(error) => {
                app.failed(error);
                self.end_turn();
            }
        }
    }

    /// Takes steps, until one takes time, somebody interferes, or the turn is over.
    fn go_on(&mut self) {
        self.stage = Stage::AtWork;
        let mut fate = self.interfere(0);
        while let Fate::GoesOn = fate {
            let app = self.app.as_mut().expect("it lives");
            let Some(step) = app.event_loop().next_step() else {
                app.turn_over();
                return self.end_turn();
            };
            app.take(step);
            fate = self.interfere(1);
        }
        match fate {
            Fate::GoesOn => unreachable!("it ends where it does not go on"),
            Fate::Works(until_ns) => self.due_ns = until_ns,
            Fate::Stops(until_ns) => self.stop_until(until_ns),
            Fate::LeavesTurn => {
                self.app.as_mut().expect("it lives").turn_left();
                self.end_turn();
            }
            Fate::Dies => self.kill(),
        }
    }

    /// What becomes of it now, after so many steps: after one, that took its time; then, whether
    /// somebody interferes.
    fn interfere(&self, steps: u64) -> Fate {
        let mut state = self.process.world().state();
        if steps > 0 {
            state.note(What::Step, u64::from(self.process.id()), 0);
            let mut worked_ns = state.step_ns();
            if state.fails(Fault::SlowStep) {
                worked_ns += state.up_to(SLOW);
            }
            if worked_ns > 0 {
                return Fate::Works(state.now_ns() + worked_ns);
            }
        }
        if state.fails(Fault::Kill) {
            return Fate::Dies;
        }
        if state.fails(Fault::Stop) {
            return Fate::Stops(state.now_ns() + state.up_to(STOPPED));
        }
        if state.fails(Fault::TurnLeft) {
            return Fate::LeavesTurn;
        }
        Fate::GoesOn
    }

    fn end_turn(&mut self) {
        if self.app.as_ref().is_some_and(App::is_done) {
            // Whoever it leaves behind hears of it from the kernel. The application stays, to be
            // asked how it went.
            self.process.world().state().exit(self.process.id());
            (self.stage, self.due_ns) = (Stage::Done, u64::MAX);
        } else {
            self.fall_asleep();
        }
    }
}

/// Where it is, and not its application, which need not be able to say.
impl<A> fmt::Debug for Worker<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("process", &self.process.id())
            .field("stage", &self.stage)
            .field("due_ns", &self.due_ns)
            .finish_non_exhaustive()
    }
}
