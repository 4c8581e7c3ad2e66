//! The pauses before restarts. A server is without a worker only briefly, and does not start
//! workers in a busy loop.

use super::*;

/// The bound on the time without a worker: the default of nginx's `accept_mutex_delay`.
const UNSERVED_MAX: Duration = Duration::from_millis(500);

/// For this time, kills each worker as soon as it is started. Returns the time and slot of each
/// start.
fn kill_all_for(server: &mut Fixture, time: Duration) -> Vec<(Instant, Slot)> {
    let (mut starts, end) = (Vec::new(), server.now + time);
    loop {
        match server.next() {
            Action::Start(slot) => {
                starts.push((server.now, slot));
                assert!(starts.len() < 10_000, "the master spins");
                server.lifecycle.started(slot, server.now);
                server.end(slot.row, slot.index);
            }
            Action::Wait(Some(until)) if until <= end => server.now = until,
            Action::Wait(_) => return starts,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn without_a_worker_the_next_starts_within_half_a_second() {
    for workers in [1, 2, 8] {
        let mut server = Fixture::with_workers(workers);
        let starts = kill_all_for(&mut server, Duration::from_secs(60));
        let gap = |pair: &[(Instant, Slot)]| pair[1].0 - pair[0].0;
        let longest = starts.windows(2).map(gap).max();
        assert_eq!(longest, Some(UNSERVED_MAX), "{workers} workers");
    }
}

#[test]
fn workers_that_crash_at_once_do_not_make_the_master_spin() {
    for workers in [1, 2, 8, 64] {
        let mut server = Fixture::with_workers(workers);
        let starts = kill_all_for(&mut server, Duration::from_secs(60));
        // In 60 seconds, a slot has at most 12 starts that are its first or come after a full pause
        // (100 ms, doubled up to 10 s). Any other start comes 500 ms after the last start of any
        // slot, so there are at most 120 of these.
        assert!(starts.len() < 120 + 12 * workers, "{}", starts.len());
        for index in 0..workers {
            let own: Vec<_> = starts
                .iter()
                .filter(|(_, slot)| slot.index == index)
                .collect();
            assert!(
                own.windows(2)
                    .all(|two| two[1].0 - two[0].0 >= Duration::from_millis(100))
            );
            assert!(
                own.len() > 6,
                "slot {index} has too few starts: {}",
                own.len()
            );
        }
    }
}

#[test]
fn the_only_worker_is_replaced_at_once_if_it_lived_for_100_ms() {
    let mut server = Fixture::serving(1);
    server.now += Duration::from_millis(100);
    server.end(0, 0);
    assert_eq!(server.next(), Action::Start(Slot { row: 0, index: 0 }));
}

#[test]
fn the_backoff_is_kept_while_another_worker_lives() {
    let mut server = Fixture::serving(2);
    for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        server.end(0, 1);
        server.waits_for(Duration::from_millis(pause));
        server.start_one(Slot { row: 0, index: 1 });
    }
    server.end(0, 1);
    // Both workers are dead now, so their pauses are shortened. Slot 0, which has crashed once, is
    // due first.
    server.end(0, 0);
    assert_eq!(server.next(), Action::Start(Slot { row: 0, index: 0 }));
}

#[test]
fn failed_starts_are_retried_within_half_a_second() {
    let mut server = Fixture::with_workers(2);
    let start = server.now;
    let mut last = start;
    for _ in 0..200 {
        match server.next() {
            Action::Start(slot) => {
                assert!(server.now - last <= UNSERVED_MAX);
                last = server.now;
                server.lifecycle.start_failed(slot, server.now);
            }
            Action::Wait(Some(until)) => server.now = until,
            other => panic!("{other:?}"),
        }
    }
    assert!(server.now - last <= UNSERVED_MAX);
    assert!(server.now - start > UNSERVED_MAX * 40, "the master spins");
}

#[test]
fn a_new_generation_has_the_backoff_while_the_old_serves() {
    let mut server = Fixture::reloading(1);
    for pause in [100, 200, 400, 800] {
        server.end(1, 0);
        server.waits_for(Duration::from_millis(pause));
        server.start_one(Slot { row: 1, index: 0 });
    }
}

#[test]
fn a_slot_that_serves_alone_waits_at_most_half_a_second() {
    let mut server = Fixture::with_workers(2);
    server.lifecycle.config.slots_serve_alone = true;
    server.start(0, 2);
    for pause in [100, 200, 400, 500, 500] {
        server.end(0, 1);
        server.waits_for(Duration::from_millis(pause));
        server.start_one(Slot { row: 0, index: 1 });
    }
    // A worker that lived this long is replaced at once.
    server.now += UNSERVED_MAX;
    server.end(0, 1);
    server.start_one(Slot { row: 0, index: 1 });
    server.end(0, 0);
    server.start_one(Slot { row: 0, index: 0 });
}

#[test]
fn a_slot_that_serves_alone_has_the_backoff_while_served() {
    let mut server = Fixture::reloading(2);
    server.lifecycle.config.slots_serve_alone = true;
    server.ready(1, 1);
    for pause in [100, 200, 400, 800, 1600] {
        server.end(1, 1);
        server.waits_for(Duration::from_millis(pause));
        server.start_one(Slot { row: 1, index: 1 });
    }
    server.end(1, 1);
    server.end(0, 1);
    assert_eq!(server.next(), Action::Start(Slot { row: 0, index: 1 }));
}

#[test]
fn workers_that_finish_do_not_count_as_serving() {
    let mut server = Fixture::reloading(1);
    server.ready(1, 1);
    server.ends_reload(0);
    let mut longest = Duration::ZERO;
    server.end(1, 0);
    for _ in 0..12 {
        let Action::Wait(Some(until)) = server.next() else {
            panic!("the master would spin");
        };
        longest = longest.max(until - server.now);
        server.now = until;
        server.start_one(Slot { row: 1, index: 0 });
        server.end(1, 0);
    }
    assert_eq!(longest, UNSERVED_MAX);
}
