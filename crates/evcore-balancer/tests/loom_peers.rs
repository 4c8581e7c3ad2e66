//! Every interleaving of workers that come, leave, fill up and die: the code that ships, over
//! loom's atomics.
//!
//! A registration with the kernel is modelled twice. As a cell that is not atomic, which the worker
//! writes when it registers and another reads before it leaves: loom fails when the two are not
//! ordered. And as a count: whoever leaves must not be the last.
//! Each mutant is a word, or a worker, that does a little less than it should, and must be caught.
//!
//! What loom cannot show is a change of `sit`'s and `stand_up`'s orderings: its read-modify-writes
//! are never seen in another order than they were made.
//! (Nor does it find a race that hides behind a load of the same word by the same thread: so `take`
//! is a plain store.)

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "a cell that threads share is what is tested")]

use std::num::NonZeroU32;

use evcore_balancer::{Keeper, RawPeers, SeatWords, View, Word};
use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{self, Acquire, Relaxed, Release},
        },
    },
    thread,
};

/// A server of three seats.
struct Server<W> {
    keeper: W,
    seats: [SeatWords<W>; 3],
    /// How many workers are registered.
    registered: AtomicU32,
    registration: [UnsafeCell<()>; 3],
}

// SAFETY: not a fact but the claim under test; loom panics before an access that contradicts it.
unsafe impl<W: Sync> Sync for Server<W> {}

const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;

impl<W: Word + Default> Server<W> {
    /// Workers on all seats that have shown these loads; none is registered.
    fn new(loads: [Option<u32>; 3]) -> Arc<Self> {
        let server = Self {
            keeper: W::default(),
            seats: Default::default(),
            registered: AtomicU32::new(0),
            registration: Default::default(),
        };
        for (seat, load) in (0..).zip(loads) {
            assert_eq!(server.peers().sit(owner(seat)), Some(seat));
            let _ = server.peers().look(seat, load);
        }
        Arc::new(server)
    }

    fn peers(&self) -> RawPeers<'_, W> {
        RawPeers::new(&self.keeper, &self.seats)
    }

    fn come(&self, me: u32) {
        self.register(me);
        self.peers().take(me);
    }

    fn register(&self, me: u32) {
        // loom's part is to see the access; there is no need to make one.
        self.registration[me as usize].with_mut(|_| ());
        self.registered.fetch_add(1, Relaxed);
    }

    /// Leaves, if it may.
    fn leave(&self, me: u32) {
        if self.peers().look(me, Some(9)).keeper == Keeper::Other {
            let listened = self.registered.fetch_sub(1, Relaxed);
            assert!(listened > 1, "nobody listens");
        }
    }
}

fn owner(seat: u32) -> NonZeroU32 {
    NonZeroU32::new(100 + seat).unwrap()
}

fn spawn<W, R>(
    server: &Arc<Server<W>>,
    work: impl FnOnce(&Server<W>) -> R + 'static,
) -> thread::JoinHandle<R>
where
    W: Sync + 'static,
    R: 'static,
{
    let server = Arc::clone(server);
    thread::spawn(move || work(&server))
}

/// The keeper wants to leave while another comes.
fn a_registration_comes_before_the_leaving_that_it_allows<W>()
where
    W: Word + Default + Send + Sync + 'static,
{
    loom::model(|| {
        let server = Server::<W>::new([Some(9), Some(0), None]);
        server.come(A);
        let other = spawn(&server, |server| server.come(B));
        if server.peers().look(A, Some(9)).keeper == Keeper::Other {
            // What B wrote when it registered.
            server.registration[B as usize].with(|_| ());
        }
        other.join().unwrap();
    });
}

/// One comes and would leave again, while the keeper and another would leave too.
///
/// With at most three preemptions: all interleavings of three lookers take hours.
fn three_would_leave<W>(come: fn(&Server<W>, u32))
where
    W: Word + Default + Send + Sync + 'static,
{
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let server = Server::<W>::new([Some(9), Some(9), Some(9)]);
        server.register(C);
        server.come(A);
        let others = [
            spawn(&server, move |server| {
                come(server, B);
                server.leave(B);
            }),
            spawn(&server, |server| server.leave(C)),
        ];
        server.leave(A);
        for other in others {
            other.join().unwrap();
        }
        assert!(server.registered.load(Relaxed) > 0);
    });
}

/// The keeper becomes full while a full worker becomes free.
fn one_fills_up_while_another_becomes_free<W>()
where
    W: Word + Default + Send + Sync + 'static,
{
    loom::model(|| {
        let server = Server::<W>::new([Some(0), None, None]);
        server.come(A);
        let other = spawn(&server, |server| {
            // So loaded that it comes only if there is nobody else.
            let view = server.peers().look(B, Some(50));
            view.keeper == Keeper::Nobody || view.least.is_none()
        });
        fill_up(&server, A);
        let came = other.join().unwrap();
        assert!(
            came || server.peers().is_called(B),
            "a place is left unserved"
        );
    });
}

/// What the keeper does that has no place left: it resigns, leaves, and calls who has.
fn fill_up<W: Word + Default>(server: &Server<W>, me: u32) {
    let View { keeper, least, .. } = server.peers().look(me, None);
    assert_eq!(keeper, Keeper::Me);
    server.peers().resign(me);
    if let Some(peer) = least {
        let _ = server.peers().call(peer.seat);
    }
}

/// One that leaves calls for a client that nobody else was told of, while the called one, which
/// listens, plans a turn; who hears of the call registers anew.
fn one_is_called_while_it_looks<W>(is_told: fn(View) -> bool)
where
    W: Word + Default + Send + Sync + 'static,
{
    loom::model(move || {
        let server = Server::<W>::new([Some(9), Some(0), None]);
        let caller = spawn(&server, |server| {
            // What made it call.
            server.registration[A as usize].with_mut(|_| ());
            let _ = server.peers().call(B);
        });
        let is_called = server.peers().is_called(B);
        let hears = is_told(server.peers().look(B, Some(0))) || is_called;
        if hears {
            server.registration[A as usize].with(|_| ());
        }
        caller.join().unwrap();
        assert!(
            hears || server.peers().is_called(B),
            "a call is answered unheard"
        );
    });
}

/// The keeper dies, or (`early`) one that has registered and was about to take over; its parent
/// clears up, while one that listens would leave and one is away.
fn one_dies_while_another_leaves<W>(early: bool)
where
    W: Word + Default + Send + Sync + 'static,
{
    loom::model(move || {
        let server = Server::<W>::new([Some(0), Some(0), Some(9)]);
        server.register(C);
        if early {
            server.peers().take(C);
        }
        let dying = spawn(&server, move |server| {
            if !early {
                server.come(A);
            }
        });
        let listening = spawn(&server, |server| {
            match server.peers().look(C, Some(9)).keeper {
                Keeper::Other => false,
                Keeper::Me => true,
                Keeper::Nobody => {
                    server.peers().take(C);
                    true
                }
            }
        });
        dying.join().unwrap();
        assert!(server.peers().bury(owner(A)));
        if !server.peers().has_keeper() {
            let least = server.peers().least().expect("two have room");
            let _ = server.peers().call(least.seat);
        }
        let listens = listening.join().unwrap();
        let comes = [B, C].iter().any(|&peer| server.peers().is_called(peer));
        assert!(listens || comes, "each believes that another listens");
    });
}

#[test]
fn a_keeper_leaves_after_another_has_registered() {
    a_registration_comes_before_the_leaving_that_it_allows::<AtomicU32>();
}

#[test]
fn of_three_that_would_leave_one_always_listens() {
    three_would_leave::<AtomicU32>(Server::come);
}

#[test]
fn of_a_full_and_a_free_worker_one_sees_the_other() {
    one_fills_up_while_another_becomes_free::<AtomicU32>();
}

#[test]
fn whoever_is_called_while_it_looks_hears_of_it_then_or_later() {
    one_is_called_while_it_looks::<AtomicU32>(|view| view.called);
}

#[test]
fn when_the_keeper_dies_another_stays_or_is_called() {
    one_dies_while_another_leaves::<AtomicU32>(false);
}

#[test]
fn when_one_dies_that_would_have_been_the_keeper_the_old_one_stays() {
    one_dies_while_another_leaves::<AtomicU32>(true);
}

/// A word with a fault; which one, `M` says.
#[derive(Debug, Default)]
struct Faulty<M>(AtomicU32, std::marker::PhantomData<M>);

trait Fault {
    /// The ordering used where `order` was asked for.
    fn order(order: Ordering) -> Ordering {
        order
    }

    fn fence() {
        AtomicU32::fence();
    }
}

impl<M: Fault> Word for Faulty<M> {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(M::order(order))
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, M::order(order));
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0
            .compare_exchange(current, new, M::order(success), failure)
    }

    fn fence() {
        M::fence();
    }
}

/// Looking does not acquire.
#[derive(Debug, Default)]
struct NoAcquire;

impl Fault for NoAcquire {
    fn order(order: Ordering) -> Ordering {
        if order == Acquire { Relaxed } else { order }
    }

    // It would acquire too.
    fn fence() {}
}

/// Taking over does not release.
#[derive(Debug, Default)]
struct NoRelease;

impl Fault for NoRelease {
    fn order(order: Ordering) -> Ordering {
        if order == Release { Relaxed } else { order }
    }
}

/// What is shown may come after what is seen.
#[derive(Debug, Default)]
struct NoFence;

impl Fault for NoFence {
    fn fence() {}
}

#[test]
#[should_panic(expected = "Causality violation")]
fn looking_must_acquire() {
    a_registration_comes_before_the_leaving_that_it_allows::<Faulty<NoAcquire>>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn taking_over_must_release() {
    a_registration_comes_before_the_leaving_that_it_allows::<Faulty<NoRelease>>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn who_hears_a_call_must_acquire() {
    one_is_called_while_it_looks::<Faulty<NoAcquire>>(|view| view.called);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn calling_must_release() {
    one_is_called_while_it_looks::<Faulty<NoRelease>>(|view| view.called);
}

#[test]
#[should_panic(expected = "a call is answered unheard")]
fn a_look_must_tell_whether_it_answered_a_call() {
    one_is_called_while_it_looks::<AtomicU32>(|_| false);
}

#[test]
#[should_panic(expected = "a place is left unserved")]
fn what_is_shown_must_come_before_what_is_seen() {
    one_fills_up_while_another_becomes_free::<Faulty<NoFence>>();
}

#[test]
#[should_panic(expected = "nobody listens")]
fn a_worker_must_register_before_it_takes_over() {
    three_would_leave::<AtomicU32>(|server, me| {
        server.peers().take(me);
        server.register(me);
    });
}
