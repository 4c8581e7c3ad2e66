//! The workers of a server, to each other: who listens, how loaded each is, and how to wake one.
//!
//! The algorithm is in `raw_peers.rs`; here is the memory that it runs on, and the bells.
//! Nothing of this goes across `exec`: a new binary's workers are peers of each other only, and one
//! of them listens at any time, as does one of the old.

use std::{
    io,
    num::NonZeroU32,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::Arc,
};

use crate::{
    Load, RawPeers, Seat, SeatWords, View,
    bell::Bell,
    lock::this_process,
    planted::{Bug, is_planted},
    shared::Shared,
    sync::SharedU32,
};

/// The workers of a server, as [`Policy::LeastLoaded`](crate::Policy::LeastLoaded) needs them.
///
/// A clone is another handle to the same. It is made before the fork and shared with every process
/// forked from then on; between threads it works as well. Each worker has a [seat](Self::seat).
///
/// ```
/// use evcore_balancer::{Duty, Keeper, Load, Peers, Seat, this_process};
///
/// # fn main() -> std::io::Result<()> {
/// let peers = Peers::new(4)?; // before the fork
///
/// // In each worker:
/// let mut seat = peers.seat(this_process()).expect("as many seats as workers");
/// let view = seat.look(Load { active: 3, capacity: 1024 });
/// assert_eq!(view.keeper, Keeper::Nobody);
/// seat.take(); // once it listens
///
/// // In their parent, when a worker has died:
/// peers.bury(this_process());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Peers {
    shared: Arc<Parts>,
}

#[derive(Debug)]
struct Parts {
    keeper: Shared<SharedU32>,
    seats: Shared<SeatWords<SharedU32>>,
    bells: Vec<Bell>,
}

impl Peers {
    /// The most seats there can be: 4096.
    pub const MAX_SEATS: usize = 4096;

    /// Peers with `seats` seats, from 1 to [`MAX_SEATS`](Self::MAX_SEATS).
    ///
    /// As many as there are workers at a time: several times their number where a reload starts new
    /// ones before the old have gone. Each costs a cache line and a descriptor in every worker (two
    /// where there is no eventfd), and every look reads all lines.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for no or too many seats; else the operating
    /// system's, if it has no memory to map or no descriptors left.
    pub fn new(seats: usize) -> io::Result<Self> {
        if !(1..=Self::MAX_SEATS).contains(&seats) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "cannot seat {seats} workers: from 1 to {} are possible",
                    Self::MAX_SEATS
                ),
            ));
        }
        let shared = Parts {
            keeper: Shared::new(1)?,
            seats: Shared::new(seats)?,
            bells: (0..seats).map(|_| Bell::new()).collect::<io::Result<_>>()?,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// A seat for the worker that is known as `owner`, for its event loop to hold; `None`: all are
    /// taken. A worker process asks after the fork, by its [process id](this_process).
    #[must_use]
    pub fn seat(&self, owner: NonZeroU32) -> Option<PeerSeat> {
        let index = self.raw().sit(owner)?;
        // The one who sat here before may have been called.
        self.shared.bells[index as usize].silence();
        Some(PeerSeat {
            peers: self.clone(),
            index,
            process: this_process(),
        })
    }

    /// Clears what the `dead` worker has left, and says whether it had a seat. Whoever has to look
    /// who waits is woken:
    ///
    /// - the least loaded of the others, since the dead one may have been the only one that
    ///   listened, or the only one that was told of a client;
    /// - who has not answered a call: the dead one may have died on the way to that bell.
    ///
    /// For the parent, after it has reaped the worker and before it forks another, which may be
    /// given the same process id.
    #[allow(
        clippy::must_use_candidate,
        reason = "whoever buries rarely needs the answer"
    )]
    pub fn bury(&self, dead: NonZeroU32) -> bool {
        let found = self.raw().bury(dead);
        if is_planted(Bug::DeathUntold) {
            return found;
        }
        self.ring_for_the_called();
        // Also where there was no seat: who gives it up calls another after that, unless it dies.
        if let Some(least) = self.raw().least() {
            self.call(least.seat);
        }
        found
    }

    /// How many seats there are.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.shared.seats.len()
    }

    fn raw(&self) -> RawPeers<'_, SharedU32> {
        RawPeers::new(&self.shared.keeper[0], &self.shared.seats)
    }

    fn call(&self, peer: u32) {
        if self.raw().call(peer) {
            self.shared.bells[peer as usize].ring();
        }
    }

    fn ring_for_the_called(&self) {
        for (index, bell) in (0..).zip(&self.shared.bells) {
            if self.raw().is_called(index) {
                bell.ring();
            }
        }
    }

    /// Calls the least loaded if nobody has to listen, or one that was called has gone.
    fn call_if_missed(&self, called: bool) {
        if called || !self.raw().has_keeper() {
            if let Some(least) = self.raw().least() {
                self.call(least.seat);
            }
        }
    }
}

/// A seat among [`Peers`]; dropping it gives it up, and with it the duty to listen.
///
/// A copy that came into a forked child gives nothing up when it is dropped there.
///
/// ```
/// use evcore_balancer::{Keeper, Load, Peers, Seat};
/// use std::num::NonZeroU32;
///
/// # fn main() -> std::io::Result<()> {
/// let peers = Peers::new(2)?;
/// let [mut one, mut two] = [1, 2].map(|n| peers.seat(NonZeroU32::new(n).unwrap()).unwrap());
/// let load = Load { active: 0, capacity: 64 };
///
/// one.take();
/// assert_eq!(two.look(load).keeper, Keeper::Other);
/// drop(one);
/// assert_eq!(two.look(load).keeper, Keeper::Nobody);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PeerSeat {
    peers: Peers,
    index: u32,
    /// The process that took this seat.
    process: NonZeroU32,
}

impl PeerSeat {
    /// The number of the seat, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    fn my_bell(&self) -> &Bell {
        &self.peers.shared.bells[self.index as usize]
    }
}

impl Seat for PeerSeat {
    fn is_called(&self) -> bool {
        self.peers.raw().is_called(self.index)
    }

    fn look(&mut self, load: Load) -> View {
        let shown = (!load.is_full()).then_some(load.active);
        self.peers.raw().look(self.index, shown)
    }

    fn take(&mut self) {
        self.peers.raw().take(self.index);
    }

    fn resign(&mut self) {
        self.peers.raw().resign(self.index);
    }

    fn call(&mut self, peer: u32) {
        self.peers.call(peer);
    }

    fn bell(&self) -> Option<RawFd> {
        Some(self.as_fd().as_raw_fd())
    }

    fn silence(&mut self) {
        self.my_bell().silence();
    }
}

/// The bell.
impl AsFd for PeerSeat {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.my_bell().as_fd()
    }
}

impl Drop for PeerSeat {
    fn drop(&mut self) {
        if self.process == this_process() {
            let called = self.peers.raw().stand_up(self.index);
            self.peers.call_if_missed(called);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::Keeper;

    fn owner(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn load(active: u32) -> Load {
        Load {
            active,
            capacity: 64,
        }
    }

    /// Seats that have shown these loads.
    fn seated<const N: usize>(loads: [u32; N]) -> (Peers, [PeerSeat; N]) {
        let peers = Peers::new(N).unwrap();
        let mut next = 0;
        let seats = loads.map(|active| {
            next += 1;
            let mut seat = peers.seat(owner(next)).unwrap();
            let _ = seat.look(load(active));
            seat
        });
        (peers, seats)
    }

    fn rings(seat: &PeerSeat) -> bool {
        let mut fds = [PollFd::new(seat, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_call_rings_the_bell_of_the_one_that_is_called() {
        let (_peers, [mut one, mut two, three]) = seated([0, 0, 0]);
        one.call(1);
        assert!(rings(&two) && two.is_called());
        assert!(!rings(&one) && !rings(&three));
        two.silence();
        let _ = two.look(load(0));
        assert!(!rings(&two) && !two.is_called());
    }

    #[test]
    fn when_the_keeper_has_died_the_least_loaded_is_called() {
        let (peers, [mut one, two, three]) = seated([3, 2, 1]);
        one.take();
        std::mem::forget(one);
        assert!(peers.bury(owner(1)));
        assert!(rings(&three) && !rings(&two));
        assert!(!peers.bury(owner(1)), "once");
    }

    #[test]
    fn when_another_has_died_the_keeper_looks_who_waits_and_keeps() {
        let (peers, [one, mut two]) = seated([0, 0]);
        two.take();
        std::mem::forget(one);
        assert!(peers.bury(owner(1)));
        assert!(rings(&two) && two.is_called());
        assert_eq!(two.look(load(0)).keeper, Keeper::Me);
    }

    #[test]
    fn who_was_called_by_one_that_died_before_it_rang_is_woken() {
        let (peers, [mut one, two]) = seated([0, 0]);
        one.take();
        assert!(peers.raw().call(1));
        std::mem::forget(one);
        assert!(peers.bury(owner(1)));
        assert!(rings(&two));
    }

    #[test]
    fn when_one_died_that_had_given_its_seat_up_and_called_nobody_yet_another_is_called() {
        let (peers, [mut one, two]) = seated([0, 0]);
        one.take();
        assert!(!peers.raw().stand_up(0), "nobody has called it");
        std::mem::forget(one);
        assert!(!peers.bury(owner(1)));
        assert!(rings(&two));
    }

    #[test]
    fn one_that_goes_with_a_call_unanswered_calls_another() {
        let (peers, [mut one, two, mut three]) = seated([0, 0, 5]);
        one.take();
        three.take();
        peers.call(0);
        drop(one);
        assert!(rings(&two));
    }

    #[test]
    fn a_keeper_that_goes_in_order_calls_another() {
        let (_peers, [mut one, two]) = seated([0, 0]);
        one.take();
        drop(one);
        assert!(rings(&two));
    }

    #[test]
    fn a_full_worker_is_not_called_by_anybody() {
        let (peers, [mut one, mut two]) = seated([0, 0]);
        let _ = two.look(load(64));
        assert_eq!(one.look(load(0)).least, None);
        one.take();
        std::mem::forget(one);
        assert!(peers.bury(owner(1)));
        assert!(!rings(&two));
    }

    #[test]
    fn a_seat_that_was_taken_by_another_process_is_not_given_up() {
        let (_peers, [mut one, mut two]) = seated([0, 0]);
        one.take();
        // What a forked child finds: a seat of a process that it is not.
        one.process = owner(this_process().get() ^ 1 << 30);
        drop(one);
        assert_eq!(two.look(load(0)).keeper, Keeper::Other);
    }

    #[test]
    fn who_sits_down_on_a_seat_that_was_called_is_not() {
        let (peers, [one, mut two]) = seated([0, 0]);
        two.call(0);
        drop(one);
        let again = peers.seat(owner(7)).unwrap();
        assert_eq!(again.index(), 0);
        assert!(!again.is_called() && !rings(&again));
    }

    #[test]
    fn there_are_from_one_to_4096_seats() {
        assert_eq!(Peers::new(1).unwrap().seats(), 1);
        for seats in [0, 4097, usize::MAX] {
            let error = Peers::new(seats).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("from 1 to 4096"), "{error}");
        }
    }
}
