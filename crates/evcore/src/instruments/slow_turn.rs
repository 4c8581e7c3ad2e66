//! What the watchdog reports of a turn.

use evcore_token::Token;

use crate::{Step, Timer};

/// A turn that took longer than the [watchdog](crate::InstrumentOptions::watchdog)'s limit.
///
/// [`Instruments::take_slow_turn`](crate::Instruments::take_slow_turn) returns it. Its number is the one
/// that [`Stats::turns`](crate::Stats::turns) counts.
///
/// ```
/// use evcore::{
///     EventLoop, InstrumentOptions, Ready, StepKind,
///     clock::{Clock, ManualTimeSource},
/// };
/// use std::time::Duration;
///
/// let time = ManualTimeSource::new();
/// let clock = Clock::with_source(time.clone());
/// let mut ev = EventLoop::builder()
///     .clock(clock)
///     .instruments(InstrumentOptions::new().watchdog(Duration::from_millis(100)))
///     .build()?;
/// let token = ev.add_unwatched()?;
/// ev.post(token, Ready::READABLE);
///
/// ev.wait()?;
/// while let Some(_step) = ev.next_step() {
///     time.advance(Duration::from_secs(3)); // what a handler must not do
/// }
/// ev.post(token, Ready::READABLE);
/// ev.wait()?;
/// let slow = ev.instruments().take_slow_turn().expect("the last turn was");
/// assert_eq!(slow.took, Duration::from_secs(3));
/// assert_eq!(slow.longest.unwrap().kind, StepKind::Ready(token));
/// # Ok::<(), evcore::Error>(())
/// ```
pub type SlowTurn = evcore_instrument::SlowTurn<StepKind>;

/// A step and its duration, from the beginning of the call that returned it to the next call: the
/// time that the loop took to find the step, plus the time that the handler took.
///
/// ```
/// use evcore::{EventLoop, InstrumentOptions, SlowStep};
/// use std::time::Duration;
///
/// let every_turn = InstrumentOptions::new().watchdog(Duration::ZERO);
/// let mut ev = EventLoop::builder().instruments(every_turn).build()?;
/// ev.handle().wake();
/// ev.wait()?;
/// while ev.next_step().is_some() {}
/// ev.handle().wake();
/// ev.wait()?;
/// let turn = ev.instruments().take_slow_turn().expect("it took some time");
/// let SlowStep { kind, took, .. } = turn.longest.expect("it was woken");
/// println!("{kind:?} took {took:?} of {:?}", turn.took);
/// # Ok::<(), evcore::Error>(())
/// ```
pub type SlowStep = evcore_instrument::SlowStep<StepKind>;

/// The kind of a [`Step`], with its token or listener.
///
/// ```
/// use evcore::{EventLoop, Ready, StepKind};
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// ev.post(token, Ready::READABLE);
/// ev.wait()?;
/// let step = ev.next_step().expect("it was posted");
/// assert_eq!(StepKind::of(&step), StepKind::Ready(token));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// [`Step::Accepted`], by the listener of this number.
    Accepted(usize),
    /// [`Step::Ready`].
    Ready(Token),
    /// [`Step::Expired`].
    Expired(Token, Timer),
    /// [`Step::Woken`].
    Woken,
    /// [`Step::ShuttingDown`].
    ShuttingDown,
    /// [`Step::Evict`].
    Evict(Token),
}

impl StepKind {
    /// The kind of a step.
    #[must_use]
    #[inline]
    pub fn of<S>(step: &Step<S>) -> Self {
        match *step {
            Step::Accepted(ref new) => Self::Accepted(new.listener),
            Step::Ready(token, _) => Self::Ready(token),
            Step::Expired(token, timer) => Self::Expired(token, timer),
            Step::Woken => Self::Woken,
            Step::ShuttingDown => Self::ShuttingDown,
            Step::Evict(token) => Self::Evict(token),
        }
    }
}
