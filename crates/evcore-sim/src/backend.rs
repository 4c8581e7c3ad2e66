//! The poller backend of a simulated process, which watches simulated sockets.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use evcore::poller::{Backend, Capabilities, EventSink, Registration, Result, Waker};

use crate::{sim::Sim, state::State};

/// Watches the sockets of a process. [`Process::backend`](crate::Process::backend) describes it.
#[derive(Debug)]
pub(crate) struct SimBackend {
    sim: Sim,
    process: u32,
    capabilities: Capabilities,
    /// The index of this backend's `KernelPoller` in the state.
    poller: u32,
}

impl SimBackend {
    pub(crate) fn new(sim: Sim, process: u32, capabilities: Capabilities) -> Self {
        let mut capabilities = capabilities;
        capabilities.simulated = true;
        let poller = sim.state().open_poller(process, capabilities);
        Self {
            sim,
            process,
            capabilities,
            poller,
        }
    }
}

impl SimBackend {
    /// Makes a call of the process. If the process is dead, the call has no effect. (When a fault
    /// kills a simulated process, the program's code runs on, so it may still make calls.)
    fn call(&self, call: impl FnOnce(&mut State) -> Result<()>) -> Result<()> {
        let mut state = self.sim.state();
        if !state.is_alive(self.process) {
            return Ok(());
        }
        call(&mut state)
    }
}

impl Backend for SimBackend {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        self.call(|state| state.watch(self.poller, registration))
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        self.call(|state| state.rewatch(self.poller, registration))
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        self.call(|state| state.unwatch(self.poller, registration.id()))
    }

    fn remove_before_close(&mut self, registration: &Registration) {
        // If the descriptor is closed already, the registration is gone.
        let _ = self.remove(registration);
    }

    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let mut state = self.sim.state();
        let process = &state.processes[self.process as usize];
        if process.driven_by_workers {
            let has_slept = process.has_slept && timeout != Some(Duration::ZERO);
            return state.collect(self.poller, events, has_slept);
        }
        state.wait(self.poller, events, timeout)
    }

    fn waker(&self) -> Waker {
        let state = self.sim.state();
        let flag = state.pollers[self.poller as usize].wake_flag();
        let any = Arc::clone(&state.waker_used);
        Waker::from_fn(move || {
            flag.store(true, Ordering::Release);
            any.store(true, Ordering::Release);
        })
    }
}

impl Drop for SimBackend {
    fn drop(&mut self) {
        if let Some(mut state) = self.sim.try_state() {
            state.close_poller(self.poller);
        }
    }
}
