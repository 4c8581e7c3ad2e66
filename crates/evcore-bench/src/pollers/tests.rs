//! Tests that each peer does the work that is measured.

use std::time::{Duration, Instant};

use super::count::count;
use super::peers::{PeerPoller, Setup, peers};
use super::ring_of_pairs::{Pairs, Ring};

fn left_over(poller: &mut dyn PeerPoller, pairs: &Pairs, active: usize) -> usize {
    let mut ring = Ring::start(pairs, active, 5_000);
    poller.run(&mut ring);
    assert!(ring.is_over());
    let can_be_read = |fd| rustix::io::read(fd, &mut [0]).is_ok();
    pairs.near.iter().filter(|fd| can_be_read(*fd)).count()
}

#[test]
fn each_byte_is_served_once_and_passed_on() {
    let pairs = Pairs::open(20);
    for timers in [false, true] {
        for peer in peers().iter().filter(|peer| peer.takes_part(timers)) {
            let c_clock = false;
            let mut poller = peer.create(&pairs.near, Setup { timers, c_clock });
            for active in [1, 7, 20] {
                let left = left_over(poller.as_mut(), &pairs, active);
                assert_eq!(left, 0, "{}, {active} active", peer.name);
            }
        }
    }
}

#[test]
fn a_source_that_was_stopped_and_started_is_still_watched() {
    let pairs = Pairs::open(3);
    for peer in peers() {
        let mut poller = peer.create(&pairs.near, Setup::default());
        poller.toggle(3);
        assert_eq!(left_over(poller.as_mut(), &pairs, 1), 0, "{}", peer.name);
    }
}

#[test]
fn a_wait_that_is_counted_lasts_as_long_as_it_says() {
    for peer in peers().iter().filter(|peer| !peer.is_in_c()) {
        let start = Instant::now();
        assert!(count(&["wait", "short", peer.name, "3"]), "{}", peer.name);
        assert!(start.elapsed() > Duration::from_millis(3), "{}", peer.name);
    }
}
