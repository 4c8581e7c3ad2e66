//! A poller's backend with no kernel behind it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use evcore::poller::{Backend, Capabilities, EventSink, Registration, Result, Waker};

use crate::World;

/// Watches the sockets of a [`Process`](crate::Process).
///
/// A wait lets simulated time pass: until something is ready, a waker wakes, or the timeout is
/// over;
/// whatever happens in the world happens meanwhile. It takes the
/// [time of a turn](crate::Conditions::turn) at least. A wait that would never end, because nothing
/// is left to happen, or that reaches [the end](World::set_end), fails with an
/// [`Error::Os`](evcore::poller::Error::Os) of the kind [`TimedOut`](std::io::ErrorKind::TimedOut).
///
/// Under [`Workers`](crate::Workers) its waits return at once: there it is they who let time pass.
///
/// Under a bare [`Poller`](evcore::poller::Poller) with
/// [`Fault::InterruptedWait`](crate::Fault::InterruptedWait), ask for
/// [`return_on_signal`](evcore::poller::Poller::return_on_signal), as the loop does: the poller would measure
/// by the real clock how long is left to wait.
///
/// From [`Process::backend`](crate::Process::backend).
///
/// ```
/// use evcore::{Interest, Mode, Ready, poller::{Events, Poller}};
/// use evcore_sim::World;
///
/// let process = World::new(7).process();
/// let mut poller = Poller::from(process.backend());
/// let (near, far) = process.pair();
/// poller.add(&far, 1, Interest::READ, Mode::Edge)?;
/// near.send(b"hello")?;
///
/// let mut events = Events::with_capacity(4);
/// poller.wait(&mut events, None)?;
/// assert_eq!(events.get(0).unwrap().ready, Ready::READABLE);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimBackend {
    world: World,
    process: u32,
    capabilities: Capabilities,
    /// Its place in the world's table of pollers.
    poller: u32,
}

impl SimBackend {
    pub(crate) fn new(world: World, process: u32, capabilities: Capabilities) -> Self {
        let mut capabilities = capabilities;
        capabilities.simulated = true;
        let poller = world.state().open_poller(process, capabilities);
        Self {
            world,
            process,
            capabilities,
            poller,
        }
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
        self.world.state().watch(self.poller, registration)
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        self.world.state().rewatch(self.poller, registration)
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        self.world.state().unwatch(self.poller, registration.id())
    }

    fn remove_before_close(&mut self, registration: &Registration) {
        // Where the descriptor was closed before, the kernel has forgotten it.
        let _ = self.remove(registration);
    }

    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let mut state = self.world.state();
        if state.processes[self.process as usize].is_driven {
            let sleeps = timeout != Some(Duration::ZERO);
            return state.look(self.poller, events, sleeps);
        }
        state.wait(self.poller, events, timeout)
    }

    fn waker(&self) -> Waker {
        let state = self.world.state();
        let (flag, any) = (
            state.pollers[self.poller as usize].flag(),
            Arc::clone(&state.woken),
        );
        Waker::from_fn(move || {
            flag.store(true, Ordering::Release);
            any.store(true, Ordering::Release);
        })
    }
}

/// The kernel's side of it goes too.
impl Drop for SimBackend {
    fn drop(&mut self) {
        if let Some(mut state) = self.world.try_state() {
            state.close_poller(self.poller);
        }
    }
}
