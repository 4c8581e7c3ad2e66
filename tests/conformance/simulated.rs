//! Implements `Platform` with the simulator. `Platform` is the interface by which scenarios make
//! pollers and sockets. A wait lets simulated time pass.

use std::{io::Write, time::Duration};

use evcore_poller::{Capabilities, Events, Interest, Mode, Poller, Ready, Source, Target, Waker};
use evcore_sim::{Client, ClientCx, ClientEvent, Process, Sim, SimConfig};

use crate::{
    expectations::Backend,
    platform::{ManySockets, Platform},
    socket::Socket,
};

/// The features that a simulated backend has by itself. The poller emulates edges and one-shots
/// that a backend lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    name: &'static str,
    edge: bool,
    oneshot: bool,
    exclusive: bool,
}

impl Shape {
    /// The shape with all features, like epoll.
    pub(crate) const NATIVE: Self = Self::new("native", true, true, true);
    /// The shape without features, like poll.
    pub(crate) const MASKED: Self = Self::new("masked", false, false, false);
    pub(crate) const EDGES: Self = Self::new("edges alone", true, false, false);
    pub(crate) const ONESHOTS: Self = Self::new("one-shots alone", false, true, false);

    pub(crate) const ALL: [Self; 4] = [Self::NATIVE, Self::MASKED, Self::EDGES, Self::ONESHOTS];

    const fn new(name: &'static str, edge: bool, oneshot: bool, exclusive: bool) -> Self {
        Self {
            name,
            edge,
            oneshot,
            exclusive,
        }
    }

    fn capabilities(self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.edge = self.edge;
        capabilities.oneshot = self.oneshot;
        capabilities.exclusive = self.exclusive;
        capabilities
    }
}

/// Number of bytes that fit into a socket, enough for scenarios that write before they read.
const BUFFER: usize = 16 * 1024;

/// The time from the beginning of a wait until something happens in it, and the latency of the
/// network. It is longer than the time between two waits of the process, and shorter than any
/// timeout of the scenarios.
const MEANWHILE: Duration = Duration::from_millis(1);

/// A process in a simulation of its own, without faults.
#[derive(Debug)]
pub(crate) struct Simulated {
    process: Process,
    shape: Shape,
}

impl Simulated {
    pub(crate) fn new(shape: Shape) -> Self {
        let process = Sim::new(0).process();
        let platform = Self { process, shape };
        platform.set_buffer(BUFFER);
        platform
    }

    /// Sets the number of bytes that fit into later sockets.
    fn set_buffer(&self, buffer: usize) {
        self.process.sim().set_config(SimConfig {
            socket_buffer: buffer,
            latency: MEANWHILE..=MEANWHILE,
            ..SimConfig::default()
        });
    }
}

impl Platform for Simulated {
    fn name(&self) -> String {
        format!("simulated, {}", self.shape.name)
    }

    fn poller(&self) -> Poller {
        let backend = self.process.backend_with(self.shape.capabilities());
        Poller::from(backend)
    }

    fn backend(&self) -> Backend {
        Backend::Simulated
    }

    fn has_exclusive(&self) -> bool {
        self.backend().has_exclusive() && self.shape.exclusive
    }

    fn time(&self) -> Duration {
        self.process.sim().now()
    }

    fn pair(&self) -> (Socket, Socket) {
        let (near, far) = self.process.unix_pair();
        (Socket::Simulated(near), Socket::Simulated(far))
    }

    /// The sockets behave as TCP sockets, so bytes arrive after a latency.
    fn late_pair(&self) -> (Socket, Socket) {
        let (near, far) = self.process.tcp_pair();
        (Socket::Simulated(near), Socket::Simulated(far))
    }

    fn succeed(&self, old: Socket) -> (Socket, Socket) {
        let number = number(&old);
        drop(old);
        // The first socket of a pair gets the lowest free number.
        let (new, near) = self.pair();
        assert_eq!(self::number(&new), number, "the number comes back");
        (near, new)
    }

    /// The socket keeps its number, because nothing else is opened in this simulation.
    fn with_a_number_of_its_own(&self, socket: Socket, _nth: i32) -> Socket {
        socket
    }

    fn many_sockets(&self, count: u64) -> ManySockets {
        self.set_buffer(16);
        let pairs = (0..count).map(|_| self.pair()).collect();
        self.set_buffer(BUFFER);
        ManySockets::new(pairs, Vec::new())
    }

    fn truth(&self, socket: &Socket, interest: Interest) -> Ready {
        let backend = self.process.backend_with(Capabilities::default());
        let mut poller = Poller::from(backend);
        let mut events = Events::bounded(1);
        poller.add(socket, 0, interest, Mode::Level).expect("add");
        let waited = poller.wait(&mut events, Some(Duration::ZERO));
        waited.expect("wait");
        events.get(0).map_or(Ready::NONE, |event| event.ready)
    }

    fn wake_during(&self, waker: &Waker, wait: &mut dyn FnMut()) {
        self.process.sim().add_client(Waking {
            waker: waker.clone(),
            has_waited: false,
        });
        wait();
    }

    fn write_during(&self, mut near: &Socket, wait: &mut dyn FnMut()) {
        near.write_all(b"a").expect("write");
        wait();
    }
}

fn number(socket: &Socket) -> u32 {
    match socket.target() {
        Target::Simulated(number) => number,
        Target::Descriptor(_) => panic!("a socket of a kernel"),
    }
}

#[derive(Debug)]
struct Waking {
    waker: Waker,
    has_waited: bool,
}

impl Client for Waking {
    fn on_event(&mut self, _: ClientEvent, cx: &mut ClientCx<'_>) {
        if self.has_waited {
            self.waker.wake();
            cx.exit();
        } else {
            self.has_waited = true;
            cx.arm(MEANWHILE);
        }
    }
}
