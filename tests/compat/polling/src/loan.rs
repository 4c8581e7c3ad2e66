//! A value that many threads use, although one of them sleeps while it holds the value.
//!
//! A mutex alone would block the others while the sleeper sleeps. Here the sleeper borrows the
//! value. Another thread requests it, interrupts the sleep, and gets it as soon as the sleeper
//! [hands it over](Loan::hand_over) or returns it. Nothing is queued: when a call returns, its
//! change has been made.

use std::{
    fmt,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

pub(crate) struct Shared<T> {
    state: Mutex<State<T>>,
    /// Notified when the value is handed over or returned, and when a requesting thread has got it.
    changed: Condvar,
}

struct State<T> {
    // Invariant: `Some` unless `is_lent`.
    thing: Option<T>,
    is_lent: bool,
    /// Number of threads that have requested the value and wait for it.
    asking: usize,
}

/// The borrowed value. Dropping the loan returns it.
pub(crate) struct Loan<'a, T> {
    lender: &'a Shared<T>,
    // Invariant: `Some` except while the value is handed over.
    thing: Option<T>,
}

impl<T> Shared<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self {
            state: Mutex::new(State {
                thing: Some(thing),
                is_lent: false,
                asking: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Borrows the value for a sleep. Returns `None` while another thread has borrowed it.
    ///
    /// Threads that have requested the value from the last borrower come first, because they would
    /// not interrupt the next one.
    pub(crate) fn borrow(&self) -> Option<Loan<'_, T>> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_lent, true) {
            return None;
        }
        let mut state = self.wait_while(state, |state| state.asking > 0);
        Some(Loan {
            lender: self,
            thing: state.thing.take(),
        })
    }

    /// Calls `work` with the value. If the value is lent, first calls `interrupt`, which makes the
    /// borrower hand the value over, and waits until it is handed over or returned.
    pub(crate) fn with<R>(&self, interrupt: impl Fn(), work: impl FnOnce(&mut T) -> R) -> R {
        let mut state = self.lock();
        if state.thing.is_none() {
            state.asking += 1;
            interrupt();
            state = self.wait_while(state, |state| state.thing.is_none());
            state.asking -= 1;
            self.changed.notify_all();
        }
        work(state.thing.as_mut().expect("it is here"))
    }

    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, State<T>>,
        condition: impl FnMut(&mut State<T>) -> bool,
    ) -> MutexGuard<'a, State<T>> {
        let waited = self.changed.wait_while(state, condition);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic in `work` cannot leave the fields of `State` half changed, so a poisoned lock is
    /// ignored.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Loan<'_, T> {
    pub(crate) fn get(&mut self) -> &mut T {
        self.thing.as_mut().expect("not handed over")
    }

    /// Lets all threads that have requested the value use it, and then takes it back.
    ///
    /// This ends, because a thread that comes meanwhile finds the value in place, and does not
    /// request it.
    pub(crate) fn hand_over(&mut self) {
        let mut state = self.lender.lock();
        state.thing = self.thing.take();
        self.lender.changed.notify_all();
        let mut state = self.lender.wait_while(state, |state| state.asking > 0);
        self.thing = state.thing.take();
    }
}

impl<T> Drop for Loan<'_, T> {
    fn drop(&mut self) {
        let mut state = self.lender.lock();
        state.thing = self.thing.take();
        state.is_lent = false;
        self.lender.changed.notify_all();
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Shared")
            .field("is_lent", &state.is_lent)
            .field("asking", &state.asking)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn there_is_one_loan_at_a_time() {
        let shared = Shared::new(1);
        let loan = shared.borrow().expect("nobody has it");
        assert!(shared.borrow().is_none());
        drop(loan);
        assert!(shared.borrow().is_some());
    }

    #[test]
    fn waiting_threads_get_the_value_by_a_hand_over() {
        const ASKING: usize = 8;
        let (interrupt, interrupted) = mpsc::channel();
        let shared = Shared::new(0);
        let mut loan = shared.borrow().expect("nobody has it");
        let ring = || interrupt.send(()).expect("it listens");
        thread::scope(|scope| {
            for _ in 0..ASKING {
                scope.spawn(|| shared.with(ring, |count| *count += 1));
            }
            (0..ASKING).for_each(|_| interrupted.recv().expect("one asks"));
            loan.hand_over();
            assert_eq!(*loan.get(), ASKING);
        });
        assert!(shared.borrow().is_none(), "still on loan");
    }

    #[test]
    fn a_loan_that_ends_serves_waiting_threads() {
        let shared = Shared::new(0);
        let loan = shared.borrow().expect("nobody has it");
        let (interrupt, interrupted) = mpsc::channel();
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                shared.with(
                    || interrupt.send(()).expect("it listens"),
                    |count| *count += 1,
                );
            });
            interrupted.recv().expect("it asks");
            drop(loan);
            asking.join().expect("it was served");
        });
        assert_eq!(*shared.borrow().expect("nobody has it").get(), 1);
    }

    #[test]
    fn the_next_borrower_does_not_overtake_waiting_threads() {
        let shared = Shared::new(0);
        let (interrupt, interrupted) = mpsc::channel();
        let ring = || interrupt.send(()).expect("it listens");
        for round in 1..=100 {
            let loan = shared.borrow().expect("nobody has it");
            thread::scope(|scope| {
                scope.spawn(|| shared.with(ring, |count| *count += 1));
                interrupted.recv().expect("it asks");
                drop(loan);
                let mut next = shared.borrow().expect("nobody has it");
                assert_eq!(*next.get(), round);
            });
        }
    }

    #[test]
    fn after_a_panic_in_work_the_value_can_be_borrowed() {
        let shared = Shared::new(0);
        thread::scope(|scope| {
            let work = scope.spawn(|| shared.with(|| (), |_| panic!("for this test")));
            assert!(work.join().is_err());
        });
        assert!(shared.borrow().is_some());
    }
}
