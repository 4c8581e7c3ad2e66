//! The budgets, which limit the work of a turn (an iteration of the loop). Work that exceeds them
//! is done in the next turn, which does not wait.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

fn fixture(listeners: usize, budgets: Budgets) -> Fixture {
    Fixture::built(listeners, |builder, _| builder.budgets(budgets))
}

const ONE: Budgets = Budgets {
    batch: 1,
    accepts: 1,
    expired: 1,
    posted: 1,
    evictions: 1,
};

#[test]
fn timers_over_the_budget_expire_in_the_next_turn_at_once() {
    let mut fixture = fixture(
        0,
        Budgets {
            expired: 2,
            ..Budgets::default()
        },
    );
    let tokens = [(); 3].map(|()| fixture.join());
    for token in tokens {
        fixture.arm_ms(token, Timer::READ, 1);
    }
    fixture.pass_ms(1);
    let [a, b, c] = tokens.map(|token| Recorded::Expired(token, Timer::READ));
    assert_eq!(fixture.turn(), [a, b]);
    fixture.backend.record();
    assert_eq!(fixture.turn(), [c]);
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [Some(Duration::ZERO), None]);
}

#[test]
fn posts_over_the_budget_come_in_the_next_turn_at_once() {
    let mut fixture = fixture(
        0,
        Budgets {
            posted: 2,
            ..Budgets::default()
        },
    );
    let tokens @ [a, b, c] = [(); 3].map(|()| fixture.join());
    for token in tokens {
        fixture.ev.post(token, Ready::READABLE);
    }
    fixture.backend.record();
    assert_eq!(fixture.turn(), [readable(a), readable(b)]);
    assert_eq!(fixture.turn(), [readable(c)]);
    assert_eq!(fixture.turn(), []);
    let zero = Some(Duration::ZERO);
    assert_eq!(fixture.backend.timeouts(), [zero, zero, None]);
}

#[test]
fn a_handler_that_posts_itself_does_not_prolong_the_turn() {
    let mut fixture = fixture(
        0,
        Budgets {
            posted: 3,
            ..Budgets::default()
        },
    );
    let token = fixture.join();
    fixture.ev.post(token, Ready::READABLE);
    fixture.wait();
    let mut steps = 0;
    while fixture.step().is_some() {
        fixture.ev.post(token, Ready::READABLE);
        steps += 1;
    }
    assert_eq!(steps, 3);
}

#[test]
fn clients_over_the_budget_are_accepted_in_the_next_turn() {
    let mut fixture = fixture(
        1,
        Budgets {
            accepts: 2,
            ..Budgets::default()
        },
    );
    fixture.connect(0, 3);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0); 2]);
    fixture.backend.record();
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [Some(Duration::ZERO), None]);
}

#[test]
fn a_flood_at_one_listener_does_not_starve_another() {
    let mut fixture = fixture(
        2,
        Budgets {
            accepts: 2,
            ..Budgets::default()
        },
    );
    fixture.connect(0, 6);
    fixture.connect(1, 2);
    // The flooded listener is always reported first.
    fixture.report_listeners(&[0, 1]);
    assert_eq!(
        fixture.turn(),
        [Recorded::Accepted(0), Recorded::Accepted(1)]
    );
    fixture.report_listeners(&[0, 1]);
    assert_eq!(
        fixture.turn(),
        [Recorded::Accepted(0), Recorded::Accepted(1)]
    );
}

#[test]
fn with_a_budget_of_one_no_listener_starves() {
    let mut fixture = fixture(
        2,
        Budgets {
            accepts: 1,
            ..Budgets::default()
        },
    );
    fixture.connect(0, 4);
    fixture.connect(1, 1);
    let mut seen = Vec::new();
    for _ in 0..3 {
        fixture.report_listeners(&[0, 1]);
        seen.extend(fixture.turn());
    }
    assert_eq!(
        seen,
        [
            Recorded::Accepted(0),
            Recorded::Accepted(1),
            Recorded::Accepted(0)
        ]
    );
}

#[test]
fn no_batch_exceeds_its_budget() {
    let mut fixture = fixture(
        0,
        Budgets {
            batch: 2,
            ..Budgets::default()
        },
    );
    let tokens @ [a, b, c] = [(); 3].map(|()| fixture.join());
    fixture.report_readable(&tokens);
    assert_eq!(fixture.turn(), [readable(a), readable(b)]);
    assert_eq!(fixture.turn(), [readable(c)]);
}

#[test]
fn accepts_timers_and_posts_progress_with_the_least_budgets() {
    for budgets in [
        ONE,
        Budgets {
            batch: 0,
            accepts: 0,
            expired: 0,
            posted: 0,
            evictions: 0,
        },
    ] {
        let mut fixture = fixture(1, budgets);
        let [a, b] = [fixture.join(), fixture.join()];
        for token in [a, b] {
            fixture.arm_ms(token, Timer::WRITE, 1);
            fixture.ev.post(token, Ready::WRITABLE);
        }
        fixture.pass_ms(1);
        fixture.connect(0, 2);
        fixture.report_listeners(&[0]);
        let [first, second] = [a, b].map(|token| {
            [
                Recorded::Accepted(0),
                Recorded::Expired(token, Timer::WRITE),
                Recorded::Ready(token, Ready::WRITABLE),
            ]
        });
        assert_eq!(fixture.turn(), first);
        assert_eq!(fixture.turn(), second);
        assert_eq!(fixture.turn(), []);
    }
}
