//! The workers of a simulated server to each other, as their loops see it.

use std::os::fd::RawFd;

use evcore::balancer::{Load, Seat, View};

use crate::{Process, World, seats::SeatId};

/// Seats for the workers of one server, as
/// [`Policy::LeastLoaded`](evcore::balancer::Policy::LeastLoaded) needs them.
///
/// It is [`Peers`](evcore::balancer::Peers) in a world: the same protocol, on simulated bells. A
/// clone is another handle to the same. What a killed worker leaves stays until the parent
/// [notices](crate::Conditions::reap), who then calls another, as in life.
///
/// ```
/// use evcore::balancer::{Keeper, Load, Seat};
/// use evcore_sim::World;
///
/// let world = World::new(7);
/// let peers = world.peers(2);
/// let mut one = peers.seat(&world.process()).expect("two seats");
/// let mut two = peers.seat(&world.process()).expect("one is left");
/// one.take(); // it listens
/// let load = Load { active: 3, capacity: 64 };
/// assert_eq!(two.look(load).keeper, Keeper::Other);
/// ```
#[derive(Clone, Debug)]
pub struct SimPeers {
    world: World,
    server: u32,
}

impl SimPeers {
    pub(crate) fn new(world: World, seats: usize) -> Self {
        let server = world.state().open_seats(seats);
        Self { world, server }
    }

    /// A free seat for a process: for [`Builder::seat`](evcore::Builder::seat). `None`: there is
    /// none.
    #[must_use]
    pub fn seat(&self, process: &Process) -> Option<SimSeat> {
        let (seat, bell) = self.world.state().sit(self.server, process.id())?;
        Some(SimSeat {
            world: self.world.clone(),
            process: process.id(),
            seat,
            bell,
        })
    }

    /// Whether any worker has the duty to listen; one that has died counts until its parent
    /// notices.
    #[must_use]
    pub fn has_keeper(&self) -> bool {
        let state = self.world.state();
        state.seats[self.server as usize].raw().has_keeper()
    }
}

/// A seat among [`SimPeers`], in the hands of one process; dropping it gives it up, unless the
/// process was killed. For an example, see there.
#[derive(Debug)]
pub struct SimSeat {
    world: World,
    process: u32,
    seat: SeatId,
    /// Its descriptor.
    bell: RawFd,
}

impl Seat for SimSeat {
    fn is_called(&self) -> bool {
        let state = self.world.state();
        state.seats_of(self.seat).raw().is_called(self.seat.index)
    }

    fn look(&mut self, load: Load) -> View {
        self.world.state().look_around(self.seat, load)
    }

    fn take(&mut self) {
        self.world.state().take_duty(self.process, self.seat);
    }

    fn resign(&mut self) {
        self.world.state().resign_duty(self.process, self.seat);
    }

    fn call(&mut self, peer: u32) {
        let server = self.seat.server;
        let seat = SeatId {
            server,
            index: peer,
        };
        self.world.state().call_peer(seat);
    }

    fn bell(&self) -> Option<RawFd> {
        Some(self.bell)
    }

    fn silence(&mut self) {
        self.world.state().silence(self.seat);
    }
}

impl Drop for SimSeat {
    fn drop(&mut self) {
        let Some(mut state) = self.world.try_state() else {
            return;
        };
        // The dead say nothing more: their parent does.
        if state.is_alive(self.process) {
            state.close_descriptor(self.process, self.bell);
            state.stand_up(self.seat);
        }
    }
}
