//! The application that the workers of a simulation run.

use evcore::{EventLoop, Step};

use crate::{listener::SimListener, stream::SimStream};

/// An application that [`Workers`](crate::Workers) can run: a loop, and a handler for its steps.
///
/// A server whose own `run` pulls the steps has both already; its body is split into these methods.
/// [`Workers`](crate::Workers) has an example.
pub trait App {
    /// The loop, which the workers drive.
    fn event_loop(&mut self) -> &mut EventLoop<SimListener>;

    /// Handles one step.
    fn on_step(&mut self, step: Step<SimStream>);

    /// This is called when all steps of a turn are handled. A server writes its logs and counters
    /// here, and looks for signals.
    fn on_turn_end(&mut self) {}

    /// This is called in place of [`on_turn_end`](Self::on_turn_end) if the turn was
    /// [abandoned](crate::Fault::AbandonedTurn), as by a `break` or a `?`. The steps that are left
    /// come in the next turn.
    fn on_turn_abandoned(&mut self) {}

    /// Returns whether the process may exit. This is called after every turn, also an abandoned
    /// one.
    ///
    /// If it returns `true`, the process exits and everything it holds is closed. It has no
    /// successor. [`Workers::app`](crate::Workers::app) still returns the application.
    fn is_done(&self) -> bool {
        false
    }

    /// This is called when a wait fails.
    ///
    /// # Panics
    ///
    /// Always, unless overridden, because the simulator makes no wait fail.
    fn on_wait_error(&mut self, error: evcore::Error) {
        panic!("the wait failed: {error}");
    }
}
