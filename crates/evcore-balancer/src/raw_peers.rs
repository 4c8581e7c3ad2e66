//! The words that workers share so that one of them always listens: the keeper, and a seat each.
//!
//! The keeper's word is 0 or names the seat of a worker *whose listeners are registered* (all that
//! work there; or it has died since). That holds without any lock:
//!
//! - a worker names itself, and nobody else, and only after it has registered;
//! - it stops only while the word names another, or after it has taken its own name out.
//!
//! A worker that stops has seen another's name, and only it could put its own back.
//! What a dead worker leaves, its parent clears.
//!
//! Generic over the word, so that loom checks the very code that ships: `tests/loom_peers.rs`.

use std::num::NonZeroU32;

use crate::{
    Keeper, Peer, View, Word,
    planted::{Bug, is_planted},
    raw::FREE,
    sync::Ordering,
};

/// The algorithm of [`Peers`](crate::Peers), over any [`Word`].
///
/// [`Peers`](crate::Peers) is this over shared memory, and what users want.
/// This one is for words that live elsewhere, and for checkers: loom runs it over its own atomics.
///
/// ```
/// use evcore_balancer::{Keeper, RawPeers, SeatWords};
/// use std::{num::NonZeroU32, sync::atomic::AtomicU32};
///
/// let keeper = AtomicU32::new(0);
/// let seats: [SeatWords<AtomicU32>; 2] = Default::default();
/// let peers = RawPeers::new(&keeper, &seats);
///
/// let [one, two] = [1, 2].map(|pid| peers.sit(NonZeroU32::new(pid).unwrap()).unwrap());
/// peers.take(one); // registered
/// assert_eq!(peers.look(two, Some(0)).keeper, Keeper::Other);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawPeers<'a, W> {
    keeper: &'a W,
    seats: &'a [SeatWords<W>],
}

/// One worker's words, alone in their cache line. All zero: nobody's.
///
/// ```
/// use evcore_balancer::SeatWords;
/// use std::sync::atomic::AtomicU32;
///
/// assert_eq!(size_of::<SeatWords<AtomicU32>>(), 64);
/// let nobodys = SeatWords::<AtomicU32>::default();
/// ```
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct SeatWords<W> {
    /// 0, or who sits here.
    owner: W,
    /// 0: no free place; else one more than how many connections it has.
    load: W,
    /// 1 from a call until it is answered.
    called: W,
}

impl<'a, W: Word> RawPeers<'a, W> {
    /// The algorithm over these words, which are all 0 or have been used like this before.
    pub const fn new(keeper: &'a W, seats: &'a [SeatWords<W>]) -> Self {
        Self { keeper, seats }
    }

    /// Takes a free seat for `owner` and says which; `None`: there is none.
    #[must_use = "the seat is taken now"]
    pub fn sit(&self, owner: NonZeroU32) -> Option<u32> {
        let free = |seat: &SeatWords<W>| {
            replace(&seat.owner, FREE, owner.get(), Ordering::Acquire).is_ok()
        };
        let index = self.seats.iter().position(free)?;
        Some(u32::try_from(index).expect("no more seats than processes"))
    }

    /// Shows what load `me` has (`None`: no free place), answers a call, and then tells whether
    /// there was one and what is seen of the others.
    ///
    /// Of two workers that look at the same time, at least one sees what the other shows.
    /// Costs a cache line a seat.
    ///
    /// # Panics
    ///
    /// If there is no seat `me`; so do the other methods that take a seat.
    #[must_use]
    pub fn look(&self, me: u32, load: Option<u32>) -> View {
        let seat = self.seat(me);
        let shown = load.map_or(0, |load| load.saturating_add(1));
        seat.load.store(shown, Ordering::Relaxed);
        let called = seat.answer();
        // What is shown comes before what is seen: else a worker that becomes full and one that
        // becomes free could miss each other, and neither would call.
        W::fence();
        View {
            keeper: self.keeper(me),
            least: self.least_but(me),
            called,
        }
    }

    /// Whether `me` was called and has not [looked](Self::look) since. Costs a load.
    #[must_use]
    pub fn is_called(&self, me: u32) -> bool {
        self.seat(me).called.load(Ordering::Relaxed) != 0
    }

    /// Makes `me` the keeper, in whosoever's place.
    ///
    /// Its listeners must be registered, and stay so until another is the keeper.
    pub fn take(&self, me: u32) {
        // Release: whoever sees this name sees the registration. Whom it overwrites need not be
        // asked: both are registered.
        self.keeper.store(name(me), Ordering::Release);
    }

    /// Makes `me` the keeper no longer, if it was, and nobody else in its place.
    pub fn resign(&self, me: u32) {
        let _ = replace(self.keeper, name(me), FREE, Ordering::Relaxed);
    }

    /// Notes that worker `peer` is to come, and says whether it has to be woken for that: not if it
    /// has been called before.
    #[must_use = "the one that is called sleeps"]
    pub fn call(&self, peer: u32) -> bool {
        // Release: see `answer`.
        replace(&self.seat(peer).called, 0, 1, Ordering::Release).is_ok()
    }

    /// Gives the seat of `me` up; its duty first. Says whether it goes with a call unanswered, so
    /// that another is to be called.
    #[must_use = "whoever called relies on somebody's coming"]
    pub fn stand_up(&self, me: u32) -> bool {
        self.clear(me, self.seat(me).owner.load(Ordering::Relaxed))
    }

    /// Clears what the `dead` has left, and says whether there was anything.
    ///
    /// For the parent, after it has reaped the worker and before it forks another, which may be
    /// given the same process id.
    #[must_use = "without a keeper, somebody is to be called"]
    pub fn bury(&self, dead: NonZeroU32) -> bool {
        let mut found = false;
        for (index, seat) in (0..).zip(self.seats) {
            if seat.owner.load(Ordering::Relaxed) == dead.get() {
                // Somebody is called in any case, see there.
                let _ = self.clear(index, dead.get());
                found = true;
            }
        }
        found
    }

    /// Whether any worker has the duty to listen.
    #[must_use]
    pub fn has_keeper(&self) -> bool {
        self.keeper.load(Ordering::Relaxed) != FREE
    }

    /// The least loaded of those that have room and answer, for a caller that has no seat.
    #[must_use]
    pub fn least(&self) -> Option<Peer> {
        self.least_of(0..self.seats.len())
    }

    /// The seat itself goes last, by Release: until then nobody else writes to its words.
    fn clear(&self, index: u32, owner: u32) -> bool {
        let seat = self.seat(index);
        self.resign(index);
        seat.load.store(0, Ordering::Relaxed);
        let called = seat.answer();
        if !is_planted(Bug::SeatOutlives) {
            let _ = replace(&seat.owner, owner, FREE, Ordering::Release);
        }
        called
    }

    fn keeper(&self, me: u32) -> Keeper {
        // Acquire: the registration of whomever it names comes before what I do now.
        match self.keeper.load(Ordering::Acquire) {
            FREE => Keeper::Nobody,
            who if who == name(me) => Keeper::Me,
            _ => Keeper::Other,
        }
    }

    /// From the neighbour on, so that among equals each is called by another.
    fn least_but(&self, me: u32) -> Option<Peer> {
        let me = me as usize;
        self.least_of((me + 1..self.seats.len()).chain(0..me))
    }

    fn least_of(&self, seats: impl Iterator<Item = usize>) -> Option<Peer> {
        seats
            .filter_map(|index| {
                let load = self.seats[index].load_if_it_answers()?;
                let seat = u32::try_from(index).expect("no more seats than processes");
                Some(Peer { seat, load })
            })
            .min_by_key(|peer| peer.load)
    }

    fn seat(&self, index: u32) -> &'a SeatWords<W> {
        &self.seats[index as usize]
    }
}

impl<W: Word> SeatWords<W> {
    /// Answers a call, and says whether there was one: who calls for a client that nobody else
    /// knows of relies on what follows from that.
    fn answer(&self) -> bool {
        // Acquire: what made it call comes before what is done for it.
        replace(&self.called, 1, 0, Ordering::Acquire).is_ok()
    }

    fn load_if_it_answers(&self) -> Option<u32> {
        let load = self.load.load(Ordering::Relaxed).checked_sub(1)?;
        let answers = self.called.load(Ordering::Relaxed) == 0;
        answers.then_some(load)
    }
}

/// The number under which a seat is the keeper: 0 is nobody's.
fn name(seat: u32) -> u32 {
    seat + 1
}

fn replace<W: Word>(word: &W, current: u32, new: u32, success: Ordering) -> Result<u32, u32> {
    word.compare_exchange(current, new, success, Ordering::Relaxed)
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sync::AtomicU32;

    struct Server {
        keeper: AtomicU32,
        seats: Vec<SeatWords<AtomicU32>>,
    }

    impl Server {
        fn new(seats: usize) -> Self {
            Self {
                keeper: AtomicU32::new(0),
                seats: (0..seats).map(|_| SeatWords::default()).collect(),
            }
        }

        fn peers(&self) -> RawPeers<'_, AtomicU32> {
            RawPeers::new(&self.keeper, &self.seats)
        }

        /// A server with all seats taken, by owners from 1 on, that have shown these loads.
        fn with(loads: &[Option<u32>]) -> Self {
            let server = Self::new(loads.len());
            for (seat, &load) in (0..).zip(loads) {
                assert_eq!(server.peers().sit(owner(seat + 1)), Some(seat));
                let _ = server.peers().look(seat, load);
            }
            server
        }
    }

    fn owner(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn peer(seat: u32, load: u32) -> Option<Peer> {
        Some(Peer { seat, load })
    }

    #[test]
    fn each_worker_gets_a_seat_until_there_is_none() {
        let server = Server::new(2);
        assert_eq!(server.peers().sit(owner(10)), Some(0));
        assert_eq!(server.peers().sit(owner(11)), Some(1));
        assert_eq!(server.peers().sit(owner(12)), None);
        assert!(server.peers().call(0));
        assert!(server.peers().stand_up(0), "with a call unanswered");
        assert_eq!(server.peers().sit(owner(12)), Some(0));
    }

    #[test]
    fn the_least_loaded_is_another_with_room_that_answers() {
        let server = Server::with(&[Some(0), None, Some(9), Some(5)]);
        let look = || server.peers().look(0, Some(0)).least;
        assert_eq!(look(), peer(3, 5));
        assert!(server.peers().call(3));
        assert_eq!(look(), peer(2, 9));
        assert!(server.peers().call(2));
        assert_eq!(look(), None);
        let _ = server.peers().look(3, Some(6));
        assert_eq!(look(), peer(3, 6));
    }

    #[test]
    fn of_equals_it_is_the_next_neighbour() {
        let server = Server::with(&[Some(1); 4]);
        for (me, next) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
            assert_eq!(server.peers().look(me, Some(1)).least, peer(next, 1));
        }
    }

    #[test]
    fn a_seat_that_nobody_has_shown_a_load_for_is_not_called() {
        let server = Server::new(3);
        let me = server.peers().sit(owner(1)).unwrap();
        let _just_begun = server.peers().sit(owner(2)).unwrap();
        assert_eq!(server.peers().look(me, Some(0)).least, None);
    }

    #[test]
    fn who_takes_over_is_the_keeper_and_who_resigns_leaves_none() {
        let server = Server::with(&[Some(0), Some(0)]);
        let keepers = || [0, 1].map(|me| server.peers().look(me, Some(0)).keeper);
        assert_eq!(keepers(), [Keeper::Nobody, Keeper::Nobody]);
        server.peers().take(0);
        assert_eq!(keepers(), [Keeper::Me, Keeper::Other]);
        server.peers().take(1);
        assert_eq!(keepers(), [Keeper::Other, Keeper::Me]);
        server.peers().resign(0);
        assert_eq!(keepers(), [Keeper::Other, Keeper::Me], "it is not its own");
        server.peers().resign(1);
        assert_eq!(keepers(), [Keeper::Nobody, Keeper::Nobody]);
    }

    #[test]
    fn a_call_wakes_once_and_looking_answers_it() {
        let server = Server::with(&[Some(0), Some(0)]);
        assert!(server.peers().call(1));
        assert!(!server.peers().call(1), "it has been woken");
        assert!(server.peers().is_called(1) && !server.peers().is_called(0));
        assert!(server.peers().look(1, Some(0)).called);
        assert!(!server.peers().is_called(1));
        assert!(!server.peers().look(1, Some(0)).called, "it has answered");
        assert!(server.peers().call(1));
    }

    #[test]
    fn what_the_dead_left_is_cleared_and_nothing_else() {
        let server = Server::with(&[Some(3), Some(4), Some(5)]);
        server.peers().take(1);
        let _ = server.peers().call(1);

        assert!(!server.peers().bury(owner(99)));
        assert_eq!(server.peers().look(0, Some(3)).keeper, Keeper::Other);

        assert!(server.peers().bury(owner(2)));
        let view = server.peers().look(0, Some(3));
        assert_eq!((view.keeper, view.least), (Keeper::Nobody, peer(2, 5)));
        assert_eq!(server.peers().sit(owner(7)), Some(1));
        assert!(!server.peers().is_called(1));
    }

    #[test]
    fn a_keeper_that_took_over_from_the_dead_keeps() {
        let server = Server::with(&[Some(0), Some(0)]);
        server.peers().take(1);
        server.peers().take(0);
        assert!(server.peers().bury(owner(2)));
        assert_eq!(server.peers().look(0, Some(0)).keeper, Keeper::Me);
    }

    proptest! {
        #[test]
        fn the_least_loaded_is_what_a_plain_search_finds(
            loads in prop::collection::vec(prop::option::of(0_u32..5), 1..8),
            me in 0_usize..8,
        ) {
            let me = me % loads.len();
            let server = Server::with(&loads);
            let found = server.peers().look(u32::try_from(me).unwrap(), loads[me]).least;
            let others = loads.iter().enumerate().filter(|(i, _)| *i != me);
            let expected = others.filter_map(|(_, load)| *load).min();
            prop_assert_eq!(found.map(|peer| peer.load), expected);
            if let Some(peer) = found {
                prop_assert_eq!(loads[peer.seat as usize], Some(peer.load));
            }
        }
    }
}
