//! `Edge` and `Oneshot`, by the kernel or by masking (the poller stops watching a reported side),
//! and errors, which are reported on every side of the interest.

use super::*;

const HALF_CLOSE: Ready = Ready::READ_CLOSED;

fn hang_up() -> Ready {
    Ready::WRITE_CLOSED | Ready::ERROR
}

#[test]
fn a_one_shot_that_has_not_fired_needs_no_arming() {
    for capabilities in [ALL, NOTHING] {
        let mut fixture = Fixture::new(capabilities);
        fixture.add(3, Interest::READ, Mode::Oneshot).expect("add");
        fixture.calls();
        fixture.modify(3, Interest::READ);
        fixture.idle();
        assert_eq!(fixture.calls(), [Wait(None)]);
    }
}

#[test]
fn modify_arms_a_fired_one_shot_of_the_kernel() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Oneshot).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.modify(3, Interest::READ);
    fixture.idle();
    let expected = [Wait(None), Modify(3, Interest::READ), Wait(None)];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn a_fired_one_shot_is_masked_until_modify() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::BOTH, Mode::Oneshot).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.poller.rearm(3, Interest::BOTH).expect("registered");
    fixture.idle();
    fixture.modify(3, Interest::BOTH);
    fixture.idle();
    let expected = [
        Wait(None),
        Remove(3, Interest::BOTH),
        Wait(None),
        Add(3, Interest::BOTH),
        Wait(None),
    ];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn a_reported_edge_is_masked_on_that_side_until_rearmed() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::BOTH, Mode::Edge).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::WRITABLE)]));
    fixture.idle();
    assert_eq!(
        fixture.calls(),
        [Wait(None), Modify(3, Interest::READ), Wait(None)]
    );
    fixture.poller.rearm(3, Interest::READ).expect("registered");
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None)], "another side was rearmed");
    fixture
        .poller
        .rearm(3, Interest::WRITE)
        .expect("registered");
    fixture.idle();
    assert_eq!(fixture.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn an_edge_rearmed_before_the_next_wait_costs_no_call() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Edge).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.poller.rearm(3, Interest::READ).expect("registered");
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None), Wait(None)]);
}

#[test]
fn an_edge_stays_masked_if_modify_is_taken_back() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Edge).expect("add");
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.calls();
    fixture.modify(3, Interest::NONE);
    fixture.modify(3, Interest::READ);
    fixture.idle();
    assert_eq!(
        fixture.calls(),
        [WatchEnds(3, hang_up() | HALF_CLOSE), Wait(None)]
    );
    fixture.modify(3, Interest::BOTH);
    fixture.idle();
    assert_eq!(fixture.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
}

/// The caller takes reading out of its interest, drains that side, and then restores the interest.
#[test]
fn a_rearm_outside_the_interest_survives_an_undone_modify() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::BOTH, Mode::Edge).expect("add");
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.modify(3, Interest::WRITE);
    fixture.poller.rearm(3, Interest::READ).expect("registered");
    fixture.modify(3, Interest::BOTH);
    fixture.calls();
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None)], "the interest is as before");
}

#[test]
fn nothing_is_masked_if_the_kernel_has_the_mode() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let mut fixture = Fixture::new(ALL);
        fixture.add(3, Interest::BOTH, mode).expect("add");
        fixture.calls();
        fixture.wait(reports([(3, Ready::READABLE | Ready::ERROR)]));
        fixture.poller.rearm(3, Interest::BOTH).expect("registered");
        fixture.idle();
        assert_eq!(fixture.calls(), [Wait(None), Wait(None)], "{mode:?}");
    }
}

#[test]
fn level_is_never_masked() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None), Wait(None)]);
}

#[test]
fn an_error_or_hang_up_sets_the_sides_of_the_interest() {
    for capabilities in [ALL, NOTHING] {
        for (interest, sides) in [
            (Interest::READ, Ready::READABLE),
            (Interest::WRITE, Ready::WRITABLE),
            (Interest::BOTH, Ready::READABLE | Ready::WRITABLE),
            (Interest::READ | Interest::PRIORITY, Ready::READABLE),
            (Interest::PRIORITY, Ready::NONE),
        ] {
            for bit in [Ready::ERROR, Ready::WRITE_CLOSED] {
                let mut fixture = Fixture::new(capabilities);
                fixture.add(3, interest, Mode::Level).expect("add");
                assert_eq!(fixture.wait(reports([(3, bit)])), [(3, bit | sides)]);
            }
        }
    }
}

#[test]
fn an_error_masks_the_whole_interest() {
    let everything = Interest::BOTH | Interest::PRIORITY;
    for interest in [Interest::BOTH, Interest::PRIORITY, everything] {
        let mut fixture = Fixture::new(NOTHING);
        fixture.add(3, interest, Mode::Edge).expect("add");
        fixture.wait(reports([(3, Ready::ERROR)]));
        fixture.calls();
        fixture.idle();
        assert_eq!(fixture.calls(), [Remove(3, interest), Wait(None)]);
    }
}

#[test]
fn a_masked_edge_watches_its_ends_until_each_is_reported() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Edge).expect("add");
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.calls();

    let half_closed = [(3, Ready::READABLE | Ready::READ_CLOSED)];
    assert_eq!(fixture.wait(reports([(3, HALF_CLOSE)])), half_closed);
    assert_eq!(
        fixture.calls(),
        [WatchEnds(3, hang_up() | HALF_CLOSE), Wait(None)]
    );

    let hung_up = [(3, Ready::READABLE | Ready::WRITE_CLOSED)];
    assert_eq!(fixture.wait(reports([(3, Ready::WRITE_CLOSED)])), hung_up);
    assert_eq!(fixture.calls(), [WatchEnds(3, hang_up()), Wait(None)]);

    for expected in [
        vec![Remove(3, Interest::NONE), Wait(None)],
        vec![Wait(None)],
    ] {
        fixture.idle();
        assert_eq!(
            fixture.calls(),
            expected,
            "no end is watched after the hang-up"
        );
    }
}

#[test]
fn the_end_of_a_masked_side_comes_with_an_open_side() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::BOTH, Mode::Edge).expect("add");
    fixture.wait(reports([(3, Ready::READABLE)]));
    let half_closed = [(3, Ready::READABLE | Ready::READ_CLOSED)];
    assert_eq!(fixture.wait(reports([(3, HALF_CLOSE)])), half_closed);
    fixture.calls();
    let writable = [(3, Ready::WRITABLE)];
    assert_eq!(fixture.wait(reports([(3, Ready::WRITABLE)])), writable);
    fixture.idle();
    let expected = [
        Modify(3, Interest::WRITE),
        Wait(None),
        WatchEnds(3, hang_up()),
        Wait(None),
    ];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn rearming_a_side_watches_only_its_own_end_again() {
    for (side, ends) in [
        (Interest::READ, hang_up() | HALF_CLOSE),
        (Interest::WRITE, hang_up()),
    ] {
        let mut fixture = Fixture::new(NOTHING);
        fixture.add(3, Interest::BOTH, Mode::Edge).expect("add");
        let all = Ready::READABLE | Ready::WRITABLE | HALF_CLOSE | hang_up();
        fixture.wait(reports([(3, all)]));
        fixture.idle();
        fixture.calls();
        fixture.poller.rearm(3, side).expect("registered");
        fixture.idle();
        assert_eq!(fixture.calls(), [Add(3, side), Wait(None)]);
        fixture.wait(reports([(3, Ready::answering(side))]));
        fixture.calls();
        fixture.idle();
        assert_eq!(fixture.calls(), [WatchEnds(3, ends), Wait(None)]);
    }
}

#[test]
fn rearming_a_side_outside_the_interest_changes_nothing() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Edge).expect("add");
    fixture.wait(reports([(3, Ready::WRITE_CLOSED)]));
    fixture.idle();
    fixture.calls();
    fixture
        .poller
        .rearm(3, Interest::WRITE)
        .expect("registered");
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None)]);
}

#[test]
fn a_masked_edge_is_removed_with_its_ends() {
    let mut fixture = Fixture::new(NOTHING);
    for key in [3, 4] {
        fixture.add(key, Interest::READ, Mode::Edge).expect("add");
    }
    fixture.wait(reports([(3, Ready::READABLE), (4, Ready::READABLE)]));
    fixture.idle();
    fixture.calls();
    fixture.poller.remove(3).expect("registered");
    fixture.poller.remove_before_close(4).expect("registered");
    assert_eq!(fixture.calls(), [Remove(3, Interest::NONE), Forget(4)]);
}

#[test]
fn a_masked_oneshot_watches_nothing() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Oneshot).expect("add");
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.calls();
    fixture.idle();
    assert_eq!(fixture.calls(), [Remove(3, Interest::READ), Wait(None)]);
}
