//! A script of three turns (iterations of the loop), for the tests of the flight recorder and of
//! `tracing`.

use std::{os::fd::RawFd, time::Duration};

use evcore::{Builder, Ready, Timer, Token, balancer::Policy};

use crate::fixture::Fixture;

pub(crate) type Tokens = [(Token, Option<RawFd>); 3];

/// Runs three turns of a worker with an accept lock. The turns make every kind of record. Returns
/// the loop, and its tokens with their descriptors: two connections, and one token without a
/// descriptor.
pub(crate) fn script(build: impl FnOnce(Builder) -> Builder) -> (Fixture, Tokens) {
    let mut fixture = Fixture::built(1, |builder, backend| {
        build(builder.policy(Policy::mutex()).group(backend.clone()))
    });
    let tokens @ [a, b, c] = [fixture.join(), fixture.join(), fixture.begin()];
    let tokens = tokens.map(|token| (token, (token != c).then(|| fixture.fd(token))));
    fixture.arm_ms(c, Timer::WRITE, 1);
    fixture.arm_ms(a, Timer::READ, 60_000);
    assert!(fixture.ev.disarm(a, Timer::READ));
    fixture.pass_ms(1);
    fixture.ev.handle().wake();
    fixture.ev.handle().post(b, Ready::WRITABLE);
    fixture.connect(0, 1);
    fixture.report_before_listener(&[a]);
    fixture.turn();
    fixture.pass_ms(7);

    fixture.report_readable(&[a, b]);
    fixture.wait();
    fixture.step();
    fixture.leave(b);
    assert_eq!(fixture.rest(), []);

    assert!(fixture.ev.set_idle(a));
    fixture.ev.shutdown(Duration::from_secs(1));
    fixture.turn();
    (fixture, tokens)
}
