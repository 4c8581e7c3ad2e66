//! The sources that each kind of backend accepts.

use super::*;

const SIMULATED: Capabilities = Capabilities {
    simulated: true,
    ..ALL
};

#[test]
fn a_simulated_source_reaches_no_backend_over_a_kernel() {
    let mut fixture = Fixture::new(ALL);
    for interest in [Interest::NONE, Interest::READ] {
        let seven = Target::Simulated(7);
        let added = fixture.poller.add(&seven, 3, interest, Mode::Level);
        let exclusive = fixture.poller.add(&seven, 3, interest, Mode::Exclusive);
        for refused in [added, exclusive] {
            let error = refused.expect_err("there is no such descriptor");
            assert!(matches!(error, Error::SimulatedTarget { number: 7, .. }));
        }
    }
    assert_eq!(fixture.calls(), [], "the backend was not called");
    assert!(fixture.poller.remove(3).is_err(), "it is not registered");
}

#[test]
fn a_simulated_source_is_refused_by_every_kernel_backend() {
    for kind in &BackendKind::usable() {
        let mut poller = Poller::with(*kind).expect("it is available");
        let seven = Target::Simulated(7);
        let error = poller
            .add(&seven, 0, Interest::READ, Mode::Level)
            .expect_err("there is no such descriptor");
        let expected = format!(
            "{kind} cannot watch the simulated source 7; register something that has a \
             descriptor, or use the simulator's own backend"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_simulated_backend_watches_only_simulated_sources() {
    let mut fixture = Fixture::new(SIMULATED);
    let seven = Target::Simulated(7);
    let added = fixture.poller.add(&seven, 3, Interest::READ, Mode::Level);
    added.expect("add");
    assert_eq!(fixture.calls(), [Add(3, Interest::READ)]);

    let stdin = std::io::stdin();
    let refused = fixture.poller.add(&stdin, 4, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::RealTarget { fd: 0, .. })));
    assert_eq!(fixture.calls(), []);
}

#[test]
fn simulated_sources_end_at_i32_max() {
    let mut fixture = Fixture::new(SIMULATED);
    let highest = Target::Simulated(i32::MAX as u32);
    let added = fixture.poller.add(&highest, 1, Interest::READ, Mode::Level);
    added.expect("add");
    for number in [1 << 31, u32::MAX] {
        let source = Target::Simulated(number);
        let refused = fixture.poller.add(&source, 2, Interest::READ, Mode::Level);
        let error = refused.expect_err("it is too large");
        assert!(matches!(error, Error::SimulatedTarget { number: named, .. } if named == number));
    }
}
