//! The application that the workers of a simulation run.

use evcore::{EventLoop, Step};

use crate::{listener::SimListener, stream::SimStream};

/// An application that [`Workers`](crate::Workers) can run: an event loop, and a handler for its
/// steps. A turn is one iteration of the loop.
///
/// A server that calls [`next_step`](EventLoop::next_step) in a loop has both already: the code in
/// that loop moves into these methods. [`Workers`](crate::Workers) has an example.
pub trait App {
    /// The event loop, which [`Workers`](crate::Workers) drive.
    fn event_loop(&mut self) -> &mut EventLoop<SimListener>;

    /// Handles one step.
    fn on_step(&mut self, step: Step<SimStream>);

    /// Handles the end of a turn, after its last step. A server writes its logs and counters here,
    /// and checks for signals.
    fn on_turn_end(&mut self) {}

    /// Handles the end of a turn that was [abandoned](crate::Fault::AbandonedTurn), as by a `break`
    /// or a `?` in a server's loop. This is called in place of [`on_turn_end`](Self::on_turn_end).
    /// The steps that are left come in the next turn.
    fn on_turn_abandoned(&mut self) {}

    /// Returns whether the process may exit. This is called after every turn, also after an
    /// abandoned one.
    ///
    /// If it returns `true`, the process exits and everything it holds is closed. The process has
    /// no successor. [`Workers::app`](crate::Workers::app) still returns the application.
    fn is_done(&self) -> bool {
        false
    }

    /// Handles a wait that has failed.
    ///
    /// # Panics
    ///
    /// The default always panics, because no wait under [`Workers`](crate::Workers) fails.
    fn on_wait_error(&mut self, error: evcore::Error) {
        panic!("the wait failed: {error}");
    }
}
