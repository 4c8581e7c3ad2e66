//! The work of each phase, as a loop that has all of it before it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore::{Budgets, EventLoop, Interest, Listener, Mode, Ready, Step, Timer};

/// One phase, with more to do than the greatest budget allows.
pub(super) trait Phase {
    /// As the budget is called.
    fn name(&self) -> &'static str;

    /// How much there is to do.
    fn items(&self) -> usize;

    /// Sets the budget of this phase.
    fn set(&self, budgets: &mut Budgets, budget: usize);

    /// A loop that has all of it before it.
    fn ready(&self, budgets: Budgets) -> EventLoop;

    /// Handles the step like an application. Returns whether it was of this phase.
    fn serves(&self, step: Step) -> bool;
}

/// All four.
pub(super) fn all() -> [Box<dyn Phase>; 4] {
    let pairs = || UnixStream::pair().expect("there are descriptors left");
    [
        Box::new(Batch {
            pairs: std::iter::repeat_with(pairs).take(4_096).collect(),
        }),
        Box::new(Accepts),
        Box::new(Expired),
        Box::new(Posted),
    ]
}

fn built(budgets: Budgets) -> EventLoop {
    let built = EventLoop::builder()
        .histograms(true)
        .connections(1 << 16)
        .budgets(budgets)
        .build();
    built.expect("there is a descriptor left")
}

/// A byte in each of the sockets, which is read.
struct Batch {
    pairs: Vec<(UnixStream, UnixStream)>,
}

impl Phase for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn items(&self) -> usize {
        self.pairs.len()
    }

    fn set(&self, budgets: &mut Budgets, budget: usize) {
        budgets.batch = budget;
    }

    fn ready(&self, budgets: Budgets) -> EventLoop {
        let mut ev = built(budgets);
        for (near, mut far) in self.pairs.iter().map(|(a, b)| (a, b)) {
            far.write_all(b"x").expect("a byte fits");
            ev.add(near, Interest::READ, Mode::Level)
                .expect("it is not watched yet");
        }
        ev
    }

    fn serves(&self, step: Step) -> bool {
        let Step::Ready(token, _) = step else {
            return false;
        };
        let mut near = &self.pairs[token.index() as usize].0;
        near.read_exact(&mut [0]).expect("it is ready");
        true
    }
}

/// Clients in the backlog, which get no response.
struct Accepts;

impl Phase for Accepts {
    fn name(&self) -> &'static str {
        "accepts"
    }

    fn items(&self) -> usize {
        1_024
    }

    fn set(&self, budgets: &mut Budgets, budget: usize) {
        budgets.accepts = budget;
    }

    fn ready(&self, budgets: Budgets) -> EventLoop {
        let options = Listener::builder().backlog(4_096);
        let listener = options.bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().tcp().expect("it is of TCP");
        let built = EventLoop::builder()
            .histograms(true)
            .listener(listener)
            .connections(u32::MAX)
            .budgets(budgets)
            .build();
        for _ in 0..self.items() {
            drop(TcpStream::connect(address).expect("the backlog has room"));
        }
        built.expect("there is a descriptor left")
    }

    fn serves(&self, step: Step) -> bool {
        matches!(step, Step::Accepted(_))
    }
}

/// Timers that are due.
struct Expired;

impl Phase for Expired {
    fn name(&self) -> &'static str {
        "expired"
    }

    fn items(&self) -> usize {
        65_536
    }

    fn set(&self, budgets: &mut Budgets, budget: usize) {
        budgets.expired = budget;
    }

    fn ready(&self, budgets: Budgets) -> EventLoop {
        let mut ev = built(budgets);
        for _ in 0..self.items() {
            let token = ev.add_unwatched().expect("there are indices left");
            ev.arm(token, Timer::READ, Duration::ZERO);
        }
        ev
    }

    fn serves(&self, step: Step) -> bool {
        matches!(step, Step::Expired(..))
    }
}

/// Tokens that are posted.
struct Posted;

impl Phase for Posted {
    fn name(&self) -> &'static str {
        "posted"
    }

    fn items(&self) -> usize {
        65_536
    }

    fn set(&self, budgets: &mut Budgets, budget: usize) {
        budgets.posted = budget;
    }

    fn ready(&self, budgets: Budgets) -> EventLoop {
        let mut ev = built(budgets);
        for _ in 0..self.items() {
            let token = ev.add_unwatched().expect("there are indices left");
            ev.post(token, Ready::READABLE);
        }
        ev
    }

    fn serves(&self, step: Step) -> bool {
        matches!(step, Step::Ready(..))
    }
}
