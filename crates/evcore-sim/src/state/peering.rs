//! Workers to each other: who has which seat, who listens, and who is called.
//!
//! What is decided is decided by the words (`RawPeers`); here is who may ask them, and what a call
//! does to whom it wakes.

use evcore::balancer::{Load, Peer, View};

use super::State;
use crate::{
    poll::Object,
    seats::{SeatId, Seats, owner},
    trace::What,
};

impl State {
    /// Seats for the workers of one server.
    pub(crate) fn open_seats(&mut self, seats: usize) -> u32 {
        self.seats.push(Seats::new(seats));
        u32::try_from(self.seats.len() - 1).expect("there are fewer servers")
    }

    /// A process sits down, and opens its bell: the seat, and its descriptor of the bell.
    pub(crate) fn sit(&mut self, server: u32, process: u32) -> Option<(SeatId, i32)> {
        let index = self.seats[server as usize].raw().sit(owner(process))?;
        let seat = SeatId { server, index };
        self.note(What::Sit, u64::from(process), u64::from(index));
        self.silence(seat);
        let descriptors = &mut self.processes[process as usize].descriptors;
        Some((seat, descriptors.insert(Object::Bell(seat))))
    }

    /// A process that lives stands up; nobody else sits there before.
    pub(crate) fn stand_up(&mut self, seat: SeatId) {
        let called = self.seats_of(seat).raw().stand_up(seat.index);
        self.call_if_missed(seat.server, called);
    }

    /// The parent clears what the dead has left.
    pub(crate) fn bury(&mut self, process: u32) {
        for server in (0..).take(self.seats.len()) {
            if self.seats[server as usize].raw().bury(owner(process)) {
                // The dead may have been told of a client, and nobody else.
                let least = self.seats[server as usize].raw().least();
                self.call_any(server, least);
            }
        }
    }

    pub(crate) fn look_around(&mut self, seat: SeatId, load: Load) -> View {
        let shown = (!load.is_full()).then_some(load.active);
        self.seats_of(seat).raw().look(seat.index, shown)
    }

    pub(crate) fn take_duty(&mut self, process: u32, seat: SeatId) {
        self.note(What::Take, u64::from(process), u64::from(seat.index));
        self.seats_of(seat).raw().take(seat.index);
    }

    pub(crate) fn resign_duty(&mut self, process: u32, seat: SeatId) {
        self.note(What::Resign, u64::from(process), u64::from(seat.index));
        self.seats_of(seat).raw().resign(seat.index);
    }

    /// Calls whoever has that seat: its bell rings, and wakes it if it sleeps.
    pub(crate) fn call_peer(&mut self, seat: SeatId) {
        if !self.seats_of(seat).raw().call(seat.index) {
            return;
        }
        self.note(What::Call, u64::from(seat.server), u64::from(seat.index));
        let bell = self.seats[seat.server as usize].bell_mut(seat.index);
        bell.rings = true;
        for watch in bell.watches.clone() {
            self.queue(watch);
            self.rouse(watch.poller);
        }
    }

    pub(crate) fn silence(&mut self, seat: SeatId) {
        self.seats[seat.server as usize].bell_mut(seat.index).rings = false;
    }

    pub(crate) fn seats_of(&self, seat: SeatId) -> &Seats {
        &self.seats[seat.server as usize]
    }

    fn call_if_missed(&mut self, server: u32, called: bool) {
        let raw = self.seats[server as usize].raw();
        let least = raw.least().filter(|_| called || !raw.has_keeper());
        self.call_any(server, least);
    }

    fn call_any(&mut self, server: u32, peer: Option<Peer>) {
        if let Some(Peer { seat: index, .. }) = peer {
            self.call_peer(SeatId { server, index });
        }
    }
}
