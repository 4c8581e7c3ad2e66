//! Descriptors that are closed too early, or reused.

use super::*;

#[test]
fn a_reused_number_reports_under_its_new_key() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::BOTH, Mode::Level);
    fixture.raise(A, IN);
    fixture.close(A);
    assert_eq!(fixture.wait(), [], "closed without being removed");
    fixture.open(A);
    fixture.raise(A, IN);
    assert_eq!(fixture.wait(), [], "closed, and not under the old key");
    assert!(matches!(fixture.poller.remove(1), Err(Error::Os { .. })));
    fixture.add(A, 2, Interest::READ, Mode::Level);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_stray_does_not_make_the_loop_spin() {
    let mut fixture = fixture();
    fixture.raise(A, IN);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.remove_before_close(1);
    fixture.calls();
    assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
    // The stray has ended the first wait early, so the poller waits for the rest of the timeout.
    assert_eq!(
        changes_by_call(&fixture),
        [0, 1, 0],
        "the stray is reported, then dropped, then the wait goes on"
    );
    assert_eq!(fixture.kernel().queue.knotes(), []);
}

/// The kernel does not change the mode of a knote that exists.
#[test]
fn a_descriptor_that_was_not_closed_gets_the_mode_of_its_new_registration() {
    for (first, second) in [
        (Mode::Edge, Mode::Level),
        (Mode::Oneshot, Mode::Level),
        (Mode::Level, Mode::Edge),
    ] {
        for begins_empty in [false, true] {
            let mut fixture = fixture();
            fixture.add(A, 1, Interest::READ, first);
            fixture.remove_before_close(1);
            if begins_empty {
                fixture.add(A, 2, Interest::NONE, second);
                fixture.modify(2, Interest::READ);
            } else {
                fixture.add(A, 2, Interest::READ, second);
            }
            fixture.raise(A, IN);
            assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
            let reports_again = fixture.wait() == [(2, Ready::READABLE)];
            let is_level = second == Mode::Level;
            assert_eq!(reports_again, is_level, "after {first:?}, {begins_empty}");
        }
    }
}

#[test]
fn a_removed_registration_with_pending_changes_takes_no_knote_of_the_next_one() {
    for closes in [true, false] {
        let mut fixture = fixture();
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.modify(1, Interest::NONE);
        fixture.kernel().ends = [Some(Errno::NOMEM)].into();
        assert!(fixture.try_wait(None).is_err());
        match closes {
            true => fixture.remove_before_close(1),
            false => fixture.remove(1),
        }
        fixture.add(A, 2, Interest::READ, Mode::Level);
        assert_eq!(fixture.wait(), []);
        fixture.raise(A, IN);
        assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "{closes}");
    }
}

#[test]
fn a_stray_is_reported_under_no_key() {
    let mut fixture = fixture();
    fixture.raise(A, IN);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.remove_before_close(1);
    // Another descriptor gets the same id, while the knote of the first still exists.
    fixture.add(B, 1, Interest::READ, Mode::Level);
    assert_eq!(fixture.wait(), []);
    fixture.raise(B, IN);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_stray_that_cannot_be_dropped_is_not_a_refusal() {
    // Another thread may close the descriptor after the stray was reported and before it is
    // dropped.
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
