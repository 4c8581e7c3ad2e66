//! Descriptors that are watched twice, closed too early, or reused.

use super::*;

#[test]
fn a_second_key_for_a_descriptor_is_refused() {
    let mut fixture = Fixture::new();
    fixture.kernel().arrive(A, 1);
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    let second = fixture.add(A, 2, Interest::BOTH, Mode::Level);
    assert!(matches!(second, Err(Error::AlreadyWatched { fd: A })));
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    fixture.poller.remove(1).expect("remove");
    fixture.add(A, 2, Interest::BOTH, Mode::Level).expect("add");
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_descriptor_closed_without_removal_is_silent() {
    let mut fixture = Fixture::new();
    fixture.kernel().arrive(A, 1);
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.kernel().close(A);
    assert_eq!(fixture.wait(), []);
    assert!(matches!(fixture.poller.remove(1), Err(Error::Os { .. })));
}

#[test]
fn a_reused_number_reports_under_its_new_key() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::BOTH, Mode::Level).expect("add");
    fixture.kernel().close(A);
    fixture.kernel().open(A);
    fixture.kernel().arrive(A, 1);
    assert_eq!(fixture.wait(), [], "not under the old key");
    assert!(matches!(fixture.poller.remove(1), Err(Error::Os { .. })));
    fixture.add(A, 2, Interest::READ, Mode::Level).expect("add");
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_stray_does_not_make_the_loop_spin() {
    let mut fixture = Fixture::new();
    fixture.kernel().arrive(A, 1);
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(1).expect("forget");
    fixture.calls();
    let mut events = Events::bounded(4);
    fixture
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert!(events.is_empty());
    // The poller measures the part of the timeout that the stray has used up.
    assert_eq!(fixture.changes(), [0, 1, 0], "reported, dropped, waited on");
    assert_eq!(fixture.kernel().knotes(), []);
}

#[test]
fn a_stray_is_reported_under_no_key() {
    let mut fixture = Fixture::new();
    fixture.kernel().arrive(A, 1);
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(1).expect("forget");
    // Another descriptor gets the same id, while the knote of the first still exists.
    fixture.add(B, 1, Interest::READ, Mode::Level).expect("add");
    assert_eq!(fixture.wait(), []);
    fixture.kernel().arrive(B, 1);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_stray_that_cannot_be_dropped_is_no_refusal() {
    // Another thread may close the descriptor between its report and its drop.
    let mut table = Table::default();
    table.enter(&Registration {
        fd: B,
        key: 1,
        interest: Interest::READ,
        ends: Ready::WRITE_CLOSED | Ready::ERROR,
        mode: Mode::Level,
    });
    table.collect(&KernelEvent {
        ident: Ident::new(A),
        filter: Filter::Read,
        flags: flag::ERROR,
        fflags: 0,
        data: Errno::BADF.raw_os_error().into(),
        id: 1,
    });
    assert_eq!(table.news(), 0);
}

#[test]
fn a_key_removed_inside_a_batch_is_not_reported_again() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        fixture.kernel().arrive(fd, 1);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.poller.remove(2).expect("remove");
    fixture.kernel().close(B);
    fixture.kernel().open(B);
    let again = 2 | (1 << 32);
    fixture
        .add(B, again, Interest::READ, Mode::Level)
        .expect("add");
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    fixture.kernel().arrive(B, 1);
    let found = fixture.wait();
    assert!(found.contains(&(again, Ready::READABLE)) && found.len() == 2);
}

#[test]
fn a_closed_descriptor_is_not_added() {
    let mut fixture = Fixture::new();
    assert!(fixture.add(9999, 1, Interest::READ, Mode::Level).is_err());
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_refused_negative_number_ends_the_wait() {
    for number in [-100, RawFd::MIN, -2] {
        let mut fixture = Fixture::new();
        let refused = fixture.add(number, 1, Interest::READ, Mode::Level);
        assert!(matches!(refused, Err(Error::NotOpen { fd }) if fd == number));
        fixture
            .add(number, 1, Interest::NONE, Mode::Level)
            .expect("the interest is empty");
        fixture.modify(1, Interest::READ);
        let mut events = Events::bounded(4);
        fixture.poller.wait(&mut events, None).expect("a wait");
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect();
        assert_eq!(found, [(1, Ready::ERROR | Ready::READABLE)], "{number}");
        fixture.poller.remove(1).expect("registered");
    }
}
