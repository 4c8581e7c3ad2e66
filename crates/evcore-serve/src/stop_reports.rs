//! The reports of a server's stop, in a process that has no supervisor to make them.

use std::cell::Cell;

use evcore_prefork::Stop;

use crate::event::{Event, OnEvent};

pub(crate) struct StopReports {
    on_event: OnEvent,
    /// The last stop that was reported.
    reported: Cell<Option<Stop>>,
}

impl StopReports {
    pub(crate) fn new(on_event: OnEvent) -> Self {
        Self {
            on_event,
            reported: Cell::new(None),
        }
    }

    /// Reports a stop, unless this stop or a faster one was reported before.
    pub(crate) fn report(&self, stop: Option<Stop>) {
        if let Some(kind) = stop.filter(|_| stop > self.reported.get()) {
            self.reported.set(stop);
            (self.on_event)(Event::Stopping(kind));
        }
    }
}
