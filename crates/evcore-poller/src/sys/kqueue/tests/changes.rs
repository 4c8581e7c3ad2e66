//! The changes that reach the kernel, and the number of calls for them.

use super::*;

/// The backend without a poller, and its kernel.
fn bare() -> (Kqueue<FakeKernel>, FakeKernel) {
    let kernel = FakeKernel::default();
    let kqueue = Kqueue::over(kernel.clone()).expect("a kqueue");
    kernel.machine().open(A);
    kernel.machine().calls();
    (kqueue, kernel)
}

fn registration(interest: Interest, mode: Mode) -> Registration {
    Registration {
        fd: A,
        key: 7,
        interest,
        ends: Ready::WRITE_CLOSED | Ready::ERROR,
        mode,
    }
}

fn wait(kqueue: &mut Kqueue<FakeKernel>) -> Result<usize> {
    let mut events = Events::bounded(4);
    kqueue.wait((&mut events).into(), Some(Duration::ZERO))?;
    Ok(events.len())
}

#[test]
fn add_and_remove_are_one_call_each() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::BOTH, Mode::Level);
    assert_eq!(changes_by_call(&fixture), [2]);
    fixture.remove(7);
    assert_eq!(changes_by_call(&fixture), [2]);
    assert_eq!(fixture.kernel().queue.knotes(), []);
}

#[test]
fn remove_before_close_costs_no_call() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::BOTH, Mode::Level);
    fixture.calls();
    fixture.remove_before_close(7);
    fixture.close(A);
    assert_eq!(fixture.calls(), []);
}

#[test]
fn stopping_and_starting_go_with_the_wait_too() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let mut fixture = fixture();
        fixture.add(A, 7, Interest::NONE, mode);
        fixture.raise(A, IN);
        assert_eq!(changes_by_call(&fixture), [], "no change is made");
        fixture.modify(7, Interest::READ);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
        assert_eq!(changes_by_call(&fixture), [1], "{mode:?}: started");
        fixture.modify(7, Interest::NONE);
        assert_eq!(fixture.wait(), []);
        assert_eq!(changes_by_call(&fixture), [1], "{mode:?}: stopped");
        fixture.remove(7);
        assert_eq!(changes_by_call(&fixture), [], "no knote was left");
        assert_eq!(fixture.kernel().queue.knotes(), []);
        // The id and the descriptor are registered again.
        fixture.add(A, 7, Interest::READ, mode);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    }
}

#[test]
fn a_removed_empty_interest_leaves_nothing_behind() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::READ, Mode::Level);
    fixture.modify(7, Interest::NONE);
    assert_eq!(fixture.wait(), []);
    fixture.remove_before_close(7);
    // This is another registration, with the same key and the same number.
    fixture.add(A, 7, Interest::NONE, Mode::Edge);
    fixture.raise(A, IN);
    fixture.modify(7, Interest::READ);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    assert_eq!(fixture.wait(), [], "the edge is reported once");
}

#[test]
fn changes_go_with_the_wait() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
    }
    fixture.calls();
    fixture.modify(1, Interest::WRITE);
    fixture.modify(2, Interest::BOTH);
    fixture.raise(B, OUT);
    assert_eq!(fixture.wait(), [(2, Ready::WRITABLE)]);
    assert_eq!(changes_by_call(&fixture), [3], "a drop and two additions");
    let expected = [
        (A, Filter::Write),
        (B, Filter::Read),
        (B, Filter::Write),
        (C, Filter::Read),
    ];
    assert_eq!(fixture.kernel().queue.knotes(), expected);
    fixture.wait();
    assert_eq!(changes_by_call(&fixture), [0], "the changes are made once");
}

#[test]
fn a_change_replaces_a_pending_one() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let (mut kqueue, kernel) = bare();
        kqueue
            .add(&registration(Interest::READ, mode))
            .expect("add");
        kernel.machine().calls();
        for interest in [Interest::BOTH, Interest::WRITE, Interest::READ] {
            kqueue
                .modify(&registration(interest, mode))
                .expect("modify");
        }
        wait(&mut kqueue).expect("a wait");
        let calls = kernel.machine().calls();
        assert_eq!(calls.len(), 1);
        assert_eq!(counts(&calls), [0], "{mode:?}");
    }
}

#[test]
fn remove_drops_the_knotes_that_exist() {
    let (mut kqueue, kernel) = bare();
    kqueue
        .add(&registration(Interest::READ, Mode::Level))
        .expect("add");
    let both = registration(Interest::BOTH, Mode::Level);
    kqueue.modify(&both).expect("modify");
    kernel.machine().calls();
    kqueue.remove(&both).expect("remove");
    wait(&mut kqueue).expect("a wait");
    assert_eq!(counts(&kernel.machine().calls()), [1, 0]);
    assert_eq!(kernel.machine().queue.knotes(), []);
}

#[test]
fn the_next_call_applies_changes_of_a_failed_one() {
    let (mut kqueue, kernel) = bare();
    kqueue
        .add(&registration(Interest::READ, Mode::Level))
        .expect("add");
    kqueue
        .modify(&registration(Interest::WRITE, Mode::Level))
        .expect("modify");
    kernel.machine().ends = [Some(Errno::NOMEM)].into();
    assert!(matches!(wait(&mut kqueue), Err(Error::Os { .. })));
    assert_eq!(kernel.machine().queue.knotes(), [(A, Filter::Read)]);
    wait(&mut kqueue).expect("a wait");
    assert_eq!(kernel.machine().queue.knotes(), [(A, Filter::Write)]);
}

#[test]
fn an_interrupted_wait_has_applied_its_changes() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::READ, Mode::Level);
    fixture.modify(7, Interest::WRITE);
    fixture.calls();
    fixture.kernel().ends.push_back(Some(Errno::INTR));
    let mut events = Events::raw(4);
    let interrupted = fixture.poller.wait(&mut events, Some(SECOND));
    assert!(matches!(interrupted, Err(Error::Interrupted)));
    assert_eq!(fixture.wait(), []);
    assert_eq!(changes_by_call(&fixture), [2, 0]);
    assert_eq!(fixture.kernel().queue.knotes(), [(A, Filter::Write)]);
}

#[test]
fn more_changes_than_room_are_made_before_the_wait() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Edge);
        fixture.raise(fd, OUT);
    }
    for key in 1..=3 {
        fixture.modify(key, Interest::WRITE);
    }
    fixture.calls();
    let mut keys: Vec<_> = (0..3).map(|_| wait_with(&mut fixture, 1)[0].0).collect();
    keys.sort_unstable();
    assert_eq!(keys, [1, 2, 3], "no edge is lost");
    assert_eq!(changes_by_call(&fixture), [6, 0, 0, 0]);
}

#[test]
fn a_reused_id_is_changed_once() {
    let (mut kqueue, kernel) = bare();
    let both = registration(Interest::BOTH, Mode::Oneshot);
    kqueue.add(&both).expect("add");
    kernel.machine().raise(A, IN);
    // The other filter's knote is not dropped yet when the registration ends and another begins.
    assert_eq!(wait(&mut kqueue).expect("a wait"), 1);
    kqueue.remove(&both).expect("remove");
    kqueue.table.verify();
    kernel.machine().lower(A, IN);
    kqueue.add(&both).expect("add");
    kqueue.table.verify();
    kernel.machine().calls();
    kqueue
        .modify(&registration(Interest::READ, Mode::Oneshot))
        .expect("modify");
    kqueue.table.verify();
    wait(&mut kqueue).expect("a wait");
    assert_eq!(counts(&kernel.machine().calls()), [1]);
}
