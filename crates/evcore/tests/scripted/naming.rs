//! Which tokens may come into the loop.

use std::{fs::File, num::NonZeroU32};

use evcore::{Error, Interest, Mode, Ready, Side, Token};

use crate::{script::Did, stage::Stage};

fn token(index: u32, generation: u32) -> Token {
    Token::new(index, NonZeroU32::new(generation).unwrap())
}

/// Brings a token in by both ways, and says what came of it.
fn offered(stage: &mut Stage, token: Token) -> [evcore::Result<()>; 2] {
    let file = File::open("/dev/null").unwrap();
    let added = stage.ev.add(token, &file, Interest::READ, Mode::Level);
    [added, stage.ev.begin(token)]
}

#[test]
fn an_index_in_use_is_refused_by_name() {
    let mut stage = Stage::new();
    stage.ev.begin(token(3, 1)).unwrap();
    for refusal in offered(&mut stage, token(3, 2)) {
        assert!(matches!(refusal, Err(Error::InUse { living, .. }) if living == token(3, 1)));
    }
    assert!(stage.ev.contains(token(3, 1)) && !stage.ev.contains(token(3, 2)));
}

#[test]
fn a_closed_token_does_not_come_back_even_within_the_batch_that_reports_it() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.report_readable(&[a, b]);
    stage.wait();
    stage.step();
    stage.leave(b);
    for refusal in offered(&mut stage, b) {
        assert!(matches!(refusal, Err(Error::Ended { token }) if token == b));
    }
    assert_eq!(stage.rest(), []);
}

#[test]
fn an_index_beyond_the_tables_is_refused_and_commits_no_memory() {
    let mut stage = Stage::listening(2);
    for index in [
        evcore::poller::MAX_ID - 1,
        evcore::poller::MAX_ID,
        1 << 31,
        u32::MAX,
    ] {
        for refusal in offered(&mut stage, token(index, 1)) {
            assert!(
                matches!(refusal, Err(Error::IndexTooLarge { .. })),
                "{index}"
            );
        }
        // Whoever asks for it is told that it is stale, and nothing overflows.
        assert!(!stage.ev.close(token(index, 1)));
        assert!(!stage.ev.post(token(index, 1), Ready::READABLE));
        assert!(!stage.ev.disarm(token(index, 1), Side::Write));
    }
}

#[test]
fn a_registration_that_the_kernel_refuses_leaves_nothing_behind() {
    let mut stage = Stage::new();
    stage.script.fail_add_after(0);
    assert!(matches!(stage.try_join(), Err(Error::Poller(_))));
    assert_eq!(stage.ev.active(), 0);
    let token = stage.join();
    assert_eq!(
        token.generation(),
        NonZeroU32::MIN,
        "the very token that was refused"
    );
}

#[test]
fn a_token_without_a_descriptor_has_timers_and_posts_and_is_no_connection() {
    let mut stage = Stage::new();
    let token = token(9, 1);
    stage.ev.begin(token).unwrap();
    assert_eq!(stage.ev.active(), 0);
    assert!(matches!(
        stage.ev.modify(token, Interest::READ),
        Err(Error::Stale { .. })
    ));
    assert!(!stage.ev.rearm(token, Interest::READ));
    stage.arm_ms(token, Side::Write, 1);
    stage.ev.post(token, Ready::NONE);
    stage.pass_ms(1);
    let expected = [
        Did::Expired(token, Side::Write),
        Did::Ready(token, Ready::NONE),
    ];
    assert_eq!(stage.turn(), expected);
    stage.script.record();
    assert!(stage.ev.close(token));
    assert_eq!(stage.script.record(), [], "the poller never knew it");
}
