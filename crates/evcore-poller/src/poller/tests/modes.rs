//! `Edge` and `Oneshot`, kept by the kernel or by masking; errors told to the sides of interest.

use super::*;

const HALF_CLOSE: Ready = Ready::READ_CLOSED;

fn hang_up() -> Ready {
    Ready::WRITE_CLOSED | Ready::ERROR
}

#[test]
fn a_one_shot_that_has_not_reported_needs_no_arming() {
    for capabilities in [ALL, NOTHING] {
        let mut stage = Stage::new(capabilities);
        stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
        stage.calls();
        stage.modify(3, Interest::READ);
        stage.idle();
        assert_eq!(stage.calls(), [Wait(None)]);
    }
}

#[test]
fn a_one_shot_that_reported_is_armed_by_modify_where_the_kernel_keeps_it() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.modify(3, Interest::READ);
    stage.idle();
    let expected = [Wait(None), Modify(3, Interest::READ), Wait(None)];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn a_one_shot_that_reported_is_masked_until_modify() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Oneshot).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.poller.rearm(3, Interest::BOTH).expect("registered");
    stage.idle();
    stage.modify(3, Interest::BOTH);
    stage.idle();
    let expected = [
        Wait(None),
        Remove(3, Interest::BOTH),
        Wait(None),
        Add(3, Interest::BOTH),
        Wait(None),
    ];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn an_edge_that_reported_is_masked_on_that_side_until_rearmed() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Edge).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::WRITABLE)]));
    stage.idle();
    assert_eq!(
        stage.calls(),
        [Wait(None), Modify(3, Interest::READ), Wait(None)]
    );
    stage.poller.rearm(3, Interest::READ).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)], "it was not that side");
    stage.poller.rearm(3, Interest::WRITE).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn an_edge_rearmed_before_the_next_wait_costs_no_call() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Edge).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.poller.rearm(3, Interest::READ).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None), Wait(None)]);
}

#[test]
fn an_edge_stays_masked_when_modify_is_taken_back_and_starts_afresh_when_not() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.calls();
    stage.modify(3, Interest::NONE);
    stage.modify(3, Interest::READ);
    stage.idle();
    assert_eq!(
        stage.calls(),
        [AskEnds(3, hang_up() | HALF_CLOSE), Wait(None)]
    );
    stage.modify(3, Interest::BOTH);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
}

/// The caller has drained a side that it does not ask for just then, and asks for it again.
#[test]
fn a_rearm_of_what_is_not_asked_is_kept_if_that_change_is_taken_back() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.modify(3, Interest::WRITE);
    stage.poller.rearm(3, Interest::READ).expect("registered");
    stage.modify(3, Interest::BOTH);
    stage.calls();
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)], "it asks for both as before");
}

#[test]
fn nothing_is_masked_where_the_kernel_keeps_the_mode() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let mut stage = Stage::new(ALL);
        stage.add(3, Interest::BOTH, mode).expect("add");
        stage.calls();
        stage.wait(reports([(3, Ready::READABLE | Ready::ERROR)]));
        stage.poller.rearm(3, Interest::BOTH).expect("registered");
        stage.idle();
        assert_eq!(stage.calls(), [Wait(None), Wait(None)], "{mode:?}");
    }
}

#[test]
fn level_is_never_masked() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None), Wait(None)]);
}

#[test]
fn an_error_or_hang_up_alone_is_told_to_the_sides_of_interest() {
    for capabilities in [ALL, NOTHING] {
        for (interest, sides) in [
            (Interest::READ, Ready::READABLE),
            (Interest::WRITE, Ready::WRITABLE),
            (Interest::BOTH, Ready::READABLE | Ready::WRITABLE),
            (Interest::READ | Interest::PRIORITY, Ready::READABLE),
            (Interest::PRIORITY, Ready::NONE),
        ] {
            for bit in [Ready::ERROR, Ready::WRITE_CLOSED] {
                let mut stage = Stage::new(capabilities);
                stage.add(3, interest, Mode::Level).expect("add");
                assert_eq!(stage.wait(reports([(3, bit)])), [(3, bit | sides)]);
            }
        }
    }
}

#[test]
fn an_error_masks_all_that_was_asked() {
    let everything = Interest::BOTH | Interest::PRIORITY;
    for interest in [Interest::BOTH, Interest::PRIORITY, everything] {
        let mut stage = Stage::new(NOTHING);
        stage.add(3, interest, Mode::Edge).expect("add");
        stage.wait(reports([(3, Ready::ERROR)]));
        stage.calls();
        stage.idle();
        assert_eq!(stage.calls(), [Remove(3, interest), Wait(None)]);
    }
}

#[test]
fn a_masked_edge_asks_for_its_ends_until_each_was_reported() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.calls();

    let half_closed = [(3, Ready::READABLE | Ready::READ_CLOSED)];
    assert_eq!(stage.wait(reports([(3, HALF_CLOSE)])), half_closed);
    assert_eq!(
        stage.calls(),
        [AskEnds(3, hang_up() | HALF_CLOSE), Wait(None)]
    );

    let hung_up = [(3, Ready::READABLE | Ready::WRITE_CLOSED)];
    assert_eq!(stage.wait(reports([(3, Ready::WRITE_CLOSED)])), hung_up);
    assert_eq!(stage.calls(), [AskEnds(3, hang_up()), Wait(None)]);

    for expected in [
        vec![Remove(3, Interest::NONE), Wait(None)],
        vec![Wait(None)],
    ] {
        stage.idle();
        assert_eq!(stage.calls(), expected, "a hang-up lasts");
    }
}

#[test]
fn the_end_of_a_masked_side_is_reported_beside_an_open_one() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    let half_closed = [(3, Ready::READABLE | Ready::READ_CLOSED)];
    assert_eq!(stage.wait(reports([(3, HALF_CLOSE)])), half_closed);
    stage.calls();
    let writable = [(3, Ready::WRITABLE)];
    assert_eq!(stage.wait(reports([(3, Ready::WRITABLE)])), writable);
    stage.idle();
    let expected = [
        Modify(3, Interest::WRITE),
        Wait(None),
        AskEnds(3, hang_up()),
        Wait(None),
    ];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn rearming_a_side_asks_for_its_end_again_and_for_that_of_no_other() {
    for (side, ends) in [
        (Interest::READ, hang_up() | HALF_CLOSE),
        (Interest::WRITE, hang_up()),
    ] {
        let mut stage = Stage::new(NOTHING);
        stage.add(3, Interest::BOTH, Mode::Edge).expect("add");
        let all = Ready::READABLE | Ready::WRITABLE | HALF_CLOSE | hang_up();
        stage.wait(reports([(3, all)]));
        stage.idle();
        stage.calls();
        stage.poller.rearm(3, side).expect("registered");
        stage.idle();
        assert_eq!(stage.calls(), [Add(3, side), Wait(None)]);
        stage.wait(reports([(3, Ready::answering(side))]));
        stage.calls();
        stage.idle();
        assert_eq!(stage.calls(), [AskEnds(3, ends), Wait(None)]);
    }
}

#[test]
fn rearming_a_side_that_nobody_wants_asks_for_nothing() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::WRITE_CLOSED)]));
    stage.idle();
    stage.calls();
    stage.poller.rearm(3, Interest::WRITE).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn a_masked_edge_is_removed_and_forgotten_as_what_it_is() {
    let mut stage = Stage::new(NOTHING);
    for key in [3, 4] {
        stage.add(key, Interest::READ, Mode::Edge).expect("add");
    }
    stage.wait(reports([(3, Ready::READABLE), (4, Ready::READABLE)]));
    stage.idle();
    stage.calls();
    stage.poller.remove(3).expect("registered");
    stage.poller.remove_before_close(4).expect("registered");
    assert_eq!(stage.calls(), [Remove(3, Interest::NONE), Forget(4)]);
}

#[test]
fn a_masked_oneshot_asks_for_nothing() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.calls();
    stage.idle();
    assert_eq!(stage.calls(), [Remove(3, Interest::READ), Wait(None)]);
}
