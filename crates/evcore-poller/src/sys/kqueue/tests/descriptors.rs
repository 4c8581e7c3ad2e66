//! Descriptors that are watched twice, closed too early, or used again.

use super::*;

#[test]
fn a_second_key_for_a_descriptor_does_not_take_over_the_first() {
    let mut stage = Stage::new();
    stage.kernel().arrive(A, 1);
    stage.add(A, 1, Interest::READ, Mode::Level).expect("add");
    let second = stage.add(A, 2, Interest::BOTH, Mode::Level);
    assert!(matches!(second, Err(Error::AlreadyWatched { fd: A })));
    assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
    stage.poller.remove(1).expect("remove");
    stage.add(A, 2, Interest::BOTH, Mode::Level).expect("add");
    assert_eq!(stage.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_descriptor_that_was_closed_without_removal_is_silent() {
    let mut stage = Stage::new();
    stage.kernel().arrive(A, 1);
    stage.add(A, 1, Interest::READ, Mode::Level).expect("add");
    stage.kernel().close(A);
    assert_eq!(stage.wait(), []);
    assert!(matches!(stage.poller.remove(1), Err(Error::Os { .. })));
}

#[test]
fn its_number_begins_anew_under_another_key() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::BOTH, Mode::Level).expect("add");
    stage.kernel().close(A);
    stage.kernel().open(A);
    stage.kernel().arrive(A, 1);
    assert_eq!(stage.wait(), [], "not under the old key");
    assert!(matches!(stage.poller.remove(1), Err(Error::Os { .. })));
    stage.add(A, 2, Interest::READ, Mode::Level).expect("add");
    assert_eq!(stage.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_descriptor_that_is_forgotten_and_not_closed_does_not_spin() {
    let mut stage = Stage::new();
    stage.kernel().arrive(A, 1);
    stage.add(A, 1, Interest::READ, Mode::Level).expect("add");
    stage.poller.remove_before_close(1).expect("forget");
    stage.calls();
    let mut events = Events::with_capacity(4);
    stage
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert!(events.is_empty());
    // What the stray took of the timeout is the front's to measure.
    assert_eq!(stage.changes(), [0, 1, 0], "reported, dropped, waited on");
    assert_eq!(stage.kernel().knotes(), []);
}

#[test]
fn a_stray_takes_nobodys_name() {
    let mut stage = Stage::new();
    stage.kernel().arrive(A, 1);
    stage.add(A, 1, Interest::READ, Mode::Level).expect("add");
    stage.poller.remove_before_close(1).expect("forget");
    // The same id for another descriptor, while the knote of the first is still there.
    stage.add(B, 1, Interest::READ, Mode::Level).expect("add");
    assert_eq!(stage.wait(), []);
    stage.kernel().arrive(B, 1);
    assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_stray_that_could_not_be_dropped_is_nobodys_refusal() {
    // Another thread may close it between its report and its drop.
    let mut table = Table::default();
    table.enter(&Registration {
        fd: B,
        key: 1,
        interest: Interest::READ,
        ends: Ready::WRITE_CLOSED | Ready::ERROR,
        mode: Mode::Level,
        exclusive: false,
    });
    table.gather(&KernelEvent {
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
fn what_is_removed_inside_a_batch_is_not_reported_again() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        stage
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        stage.kernel().arrive(fd, 1);
    }
    assert_eq!(stage.wait().len(), 2);
    stage.poller.remove(2).expect("remove");
    stage.kernel().close(B);
    stage.kernel().open(B);
    let again = 2 | (1 << 32);
    stage
        .add(B, again, Interest::READ, Mode::Level)
        .expect("add");
    assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
    stage.kernel().arrive(B, 1);
    let found = stage.wait();
    assert!(found.contains(&(again, Ready::READABLE)) && found.len() == 2);
}

#[test]
fn a_closed_descriptor_is_not_added() {
    let mut stage = Stage::new();
    assert!(stage.add(9999, 1, Interest::READ, Mode::Level).is_err());
    assert_eq!(stage.wait(), []);
}

#[test]
fn a_negative_number_is_refused_and_the_refusal_ends_the_wait() {
    for number in [-100, RawFd::MIN, -2] {
        let mut stage = Stage::new();
        let refused = stage.add(number, 1, Interest::READ, Mode::Level);
        assert!(matches!(refused, Err(Error::NotOpen { fd }) if fd == number));
        stage
            .add(number, 1, Interest::NONE, Mode::Level)
            .expect("nothing is asked yet");
        stage.modify(1, Interest::READ);
        let mut events = Events::with_capacity(4);
        stage.poller.wait(&mut events, None).expect("a wait");
        let found: Vec<_> = events.iter().map(|it| (it.key, it.ready)).collect();
        assert_eq!(found, [(1, Ready::ERROR | Ready::READABLE)], "{number}");
        stage.poller.remove(1).expect("registered");
    }
}
