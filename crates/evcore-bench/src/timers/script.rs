//! The operations that are measured. They are made beforehand, the same for all queues.

/// Number of operations of each kind that a round measures, whatever the number of timers.
pub(super) const STEPS: usize = 1 << 18;

/// Milliseconds from an event to its timeout.
pub(crate) const TIMEOUT_MS: u64 = 60_000;

/// The end of virtual time: every deadline comes before it.
pub(super) const END_MS: u64 = 180_000;

/// Number of steps in a millisecond of `Script::rearm` and `Script::replace`.
const EVENTS_PER_MS: usize = 100;

/// Number of steps in a millisecond of `Script::serve`.
pub(super) const SERVED_PER_MS: usize = 20;

/// Number of turns (iterations of the loop) in a millisecond of a server with few clients.
const TURNS_PER_MS: usize = 10;

const SEED: u64 = 1;

/// Number of timers that come and go in addition to the armed ones.
const SPARE: usize = 64;

/// One operation: the timer, and the deadline that it gets. The layout is that of `struct step` in
/// `c/peer.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Step {
    pub(crate) deadline: u64,
    pub(crate) id: u32,
}

/// The operations that are measured on queues of the same size. A size is a number of armed timers.
#[derive(Debug)]
pub(super) struct Script {
    /// Arms all timers, with deadlines that are spread over a minute.
    pub(super) arm: Vec<Step>,
    /// Re-arms timers at random, each with a deadline a minute after its event.
    pub(super) rearm: Vec<Step>,
    /// Arms the spare timers.
    pub(super) spare: Vec<Step>,
    /// Disarms the spare timer that was armed longest ago, and arms it again with a deadline within
    /// a minute.
    pub(super) replace: Vec<Step>,
    /// A minute of re-arming at random, in which the time advances. All steps of a millisecond have
    /// the same deadline.
    pub(super) serve: Vec<Step>,
    /// The events of turns that have one event each. Each event is of a client chosen at random.
    pub(super) kept: Vec<Step>,
    /// The events of turns that have one event each. Each event is of a connection that closes, and
    /// all of them have the last id.
    pub(super) closed: Vec<Step>,
}

impl Script {
    /// Makes `steps` operations of each measured kind for `size` timers, and a minute of serving.
    pub(super) fn new(size: usize, steps: usize) -> Script {
        let mut random = fastrand::Rng::with_seed(SEED);
        let spare = size..size + SPARE;
        let mut soon = |id, now: u64| Step::new(id, now + 1 + random.u64(..TIMEOUT_MS));
        let arm = (0..size).map(|id| soon(id, 0)).collect();
        let replace = spare.clone().cycle().take(steps).enumerate();
        let replace = replace.map(|(at, id)| soon(id, (at / EVENTS_PER_MS) as u64));
        let replace = replace.collect();
        let spare = spare.map(|id| soon(id, 0)).collect();
        let mut events = |steps, per_ms| -> Vec<Step> {
            let deadline = |at| (at / per_ms) as u64 + TIMEOUT_MS;
            let steps = (0..steps).map(|at| Step::new(random.usize(..size), deadline(at)));
            steps.collect()
        };
        let rearm = events(steps, EVENTS_PER_MS);
        let serve = events(60_000 * SERVED_PER_MS, SERVED_PER_MS);
        let kept = events(steps, TURNS_PER_MS);
        let closed = kept.iter().map(|step| Step::new(size - 1, step.deadline));
        Script {
            closed: closed.collect(),
            arm,
            rearm,
            spare,
            replace,
            serve,
            kept,
        }
    }

    pub(super) fn ids(&self) -> usize {
        self.arm.len() + SPARE
    }
}

impl Step {
    fn new(id: usize, deadline: u64) -> Step {
        let id = u32::try_from(id).expect("ids are few");
        Step { deadline, id }
    }
}
