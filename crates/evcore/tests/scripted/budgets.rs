//! What a turn does at most, and that the rest comes at once.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

fn stage(listeners: usize, budgets: Budgets) -> Stage {
    Stage::built(listeners, |builder, _| builder.budgets(budgets))
}

const ONE: Budgets = Budgets {
    batch: 1,
    accepts: 1,
    expired: 1,
    posted: 1,
    evictions: 1,
};

#[test]
fn timers_over_the_budget_fire_in_the_next_turn_which_does_not_wait() {
    let mut stage = stage(
        0,
        Budgets {
            expired: 2,
            ..Budgets::default()
        },
    );
    let tokens = [(); 3].map(|()| stage.join());
    for token in tokens {
        stage.arm_ms(token, Timer::READ, 1);
    }
    stage.pass_ms(1);
    let [a, b, c] = tokens.map(|token| Did::Expired(token, Timer::READ));
    assert_eq!(stage.turn(), [a, b]);
    stage.script.record();
    assert_eq!(stage.turn(), [c]);
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [Some(Duration::ZERO), None]);
}

#[test]
fn posts_over_the_budget_come_in_the_next_turn_which_does_not_wait() {
    let mut stage = stage(
        0,
        Budgets {
            posted: 2,
            ..Budgets::default()
        },
    );
    let tokens @ [a, b, c] = [(); 3].map(|()| stage.join());
    for token in tokens {
        stage.ev.post(token, Ready::READABLE);
    }
    stage.script.record();
    assert_eq!(stage.turn(), [readable(a), readable(b)]);
    assert_eq!(stage.turn(), [readable(c)]);
    assert_eq!(stage.turn(), []);
    let zero = Some(Duration::ZERO);
    assert_eq!(stage.script.timeouts(), [zero, zero, None]);
}

#[test]
fn one_that_posts_itself_for_ever_does_not_keep_the_turn_from_ending() {
    let mut stage = stage(
        0,
        Budgets {
            posted: 3,
            ..Budgets::default()
        },
    );
    let token = stage.join();
    stage.ev.post(token, Ready::READABLE);
    stage.wait();
    let mut steps = 0;
    while stage.step().is_some() {
        stage.ev.post(token, Ready::READABLE);
        steps += 1;
    }
    assert_eq!(steps, 3);
}

#[test]
fn clients_over_the_budget_are_accepted_in_the_next_turn_which_does_not_wait() {
    let mut stage = stage(
        1,
        Budgets {
            accepts: 2,
            ..Budgets::default()
        },
    );
    stage.connect(0, 3);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), [Did::Accepted(0); 2]);
    stage.script.record();
    assert_eq!(stage.turn(), [Did::Accepted(0)]);
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [Some(Duration::ZERO), None]);
}

#[test]
fn a_flood_at_one_listener_does_not_starve_another() {
    let mut stage = stage(
        2,
        Budgets {
            accepts: 2,
            ..Budgets::default()
        },
    );
    stage.connect(0, 6);
    stage.connect(1, 2);
    // The flooded listener is always reported first.
    stage.report_listeners(&[0, 1]);
    assert_eq!(stage.turn(), [Did::Accepted(0), Did::Accepted(1)]);
    stage.report_listeners(&[0, 1]);
    assert_eq!(stage.turn(), [Did::Accepted(0), Did::Accepted(1)]);
}

#[test]
fn not_even_with_one_client_a_turn() {
    let mut stage = stage(
        2,
        Budgets {
            accepts: 1,
            ..Budgets::default()
        },
    );
    stage.connect(0, 4);
    stage.connect(1, 1);
    let mut seen = Vec::new();
    for _ in 0..3 {
        stage.report_listeners(&[0, 1]);
        seen.extend(stage.turn());
    }
    assert_eq!(seen, [Did::Accepted(0), Did::Accepted(1), Did::Accepted(0)]);
}

#[test]
fn a_batch_is_no_longer_than_its_budget() {
    let mut stage = stage(
        0,
        Budgets {
            batch: 2,
            ..Budgets::default()
        },
    );
    let tokens @ [a, b, c] = [(); 3].map(|()| stage.join());
    stage.report_readable(&tokens);
    assert_eq!(stage.turn(), [readable(a), readable(b)]);
    assert_eq!(stage.turn(), [readable(c)]);
}

#[test]
fn every_phase_gets_its_turn_however_small_the_budgets() {
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
        let mut stage = stage(1, budgets);
        let [a, b] = [stage.join(), stage.join()];
        for token in [a, b] {
            stage.arm_ms(token, Timer::WRITE, 1);
            stage.ev.post(token, Ready::WRITABLE);
        }
        stage.pass_ms(1);
        stage.connect(0, 2);
        stage.report_listeners(&[0]);
        let [first, second] = [a, b].map(|token| {
            [
                Did::Accepted(0),
                Did::Expired(token, Timer::WRITE),
                Did::Ready(token, Ready::WRITABLE),
            ]
        });
        assert_eq!(stage.turn(), first);
        assert_eq!(stage.turn(), second);
        assert_eq!(stage.turn(), []);
    }
}
