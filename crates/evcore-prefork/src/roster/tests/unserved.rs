//! How long a server may be without a worker, and that it does not fork in a busy loop.

use super::*;

/// The bound on the time without a worker: nginx's `accept_mutex_delay`, by its default.
const UNSERVED_MAX: Duration = Duration::from_millis(500);

/// Kills each worker as soon as it is started, for so long. Returns when each was started.
fn kill_all_for(play: &mut Play, time: Duration) -> Vec<(Instant, Seat)> {
    let (mut starts, end) = (Vec::new(), play.now + time);
    loop {
        match play.next() {
            Action::Start(seat) => {
                starts.push((play.now, seat));
                assert!(starts.len() < 10_000, "it spins");
                play.roster.started(seat, play.now);
                play.ended(seat.bank, seat.index);
            }
            Action::Wait(Some(until)) if until <= end => play.now = until,
            Action::Wait(_) => return starts,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn without_a_living_worker_the_next_starts_within_half_a_second() {
    for workers in [1, 2, 8] {
        let mut play = Play::with_workers(workers);
        let starts = kill_all_for(&mut play, Duration::from_secs(60));
        let gap = |pair: &[(Instant, Seat)]| pair[1].0 - pair[0].0;
        let longest = starts.windows(2).map(gap).max();
        assert_eq!(longest, Some(UNSERVED_MAX), "{workers} workers");
    }
}

#[test]
fn workers_that_die_at_once_do_not_make_the_master_spin() {
    for workers in [1, 2, 8, 64] {
        let mut play = Play::with_workers(workers);
        let starts = kill_all_for(&mut play, Duration::from_secs(60));
        // Two a second, those that each slot's own pauses allow, and the first.
        assert!(starts.len() < 120 + 12 * workers, "{}", starts.len());
        for index in 0..workers {
            let own: Vec<_> = starts
                .iter()
                .filter(|(_, seat)| seat.index == index)
                .collect();
            assert!(
                own.windows(2)
                    .all(|two| two[1].0 - two[0].0 >= Duration::from_millis(100))
            );
            assert!(own.len() > 6, "slot {index} has its turn: {}", own.len());
        }
    }
}

#[test]
fn the_only_worker_is_replaced_at_once_if_it_lived_for_a_tenth_of_a_second() {
    let mut play = Play::serving(1);
    play.now += Duration::from_millis(100);
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Start(Seat { bank: 0, index: 0 }));
}

#[test]
fn the_growing_pause_holds_while_another_worker_lives() {
    let mut play = Play::serving(2);
    for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        play.ended(0, 1);
        play.waits_for(Duration::from_millis(pause));
        play.starts_one(Seat { bank: 0, index: 1 });
    }
    play.ended(0, 1);
    // It does not hold any longer when the other has died too, which is due before it.
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Start(Seat { bank: 0, index: 0 }));
}

#[test]
fn failed_starts_are_tried_again_within_half_a_second() {
    let mut play = Play::with_workers(2);
    let start = play.now;
    let mut last = start;
    for _ in 0..200 {
        match play.next() {
            Action::Start(seat) => {
                assert!(play.now - last <= UNSERVED_MAX);
                last = play.now;
                play.roster.start_failed(seat, play.now);
            }
            Action::Wait(Some(until)) => play.now = until,
            other => panic!("{other:?}"),
        }
    }
    assert!(play.now - last <= UNSERVED_MAX);
    assert!(play.now - start > UNSERVED_MAX * 40, "it spins");
}

#[test]
fn a_new_set_that_dies_has_the_growing_pause_while_the_old_one_serves() {
    let mut play = Play::reloading(1);
    for pause in [100, 200, 400, 800] {
        play.ended(1, 0);
        play.waits_for(Duration::from_millis(pause));
        play.starts_one(Seat { bank: 1, index: 0 });
    }
}

#[test]
fn a_slot_that_serves_alone_waits_for_half_a_second_at_most() {
    let mut play = Play::with_workers(2);
    play.roster = play.roster.slots_serve_alone(true);
    play.starts(0, 2);
    // The other one lives, and does not help.
    for pause in [100, 200, 400, 500, 500] {
        play.ended(0, 1);
        play.waits_for(Duration::from_millis(pause));
        play.starts_one(Seat { bank: 0, index: 1 });
    }
    // One that lived for so long is replaced at once, and the slot counts by itself.
    play.now += UNSERVED_MAX;
    play.ended(0, 1);
    play.starts_one(Seat { bank: 0, index: 1 });
    play.ended(0, 0);
    play.starts_one(Seat { bank: 0, index: 0 });
}

#[test]
fn a_slot_that_serves_alone_has_the_growing_pause_while_its_old_worker_lives() {
    let mut play = Play::reloading(2);
    play.roster = play.roster.slots_serve_alone(true);
    play.ready(1, 1);
    for pause in [100, 200, 400, 800, 1600] {
        play.ended(1, 1);
        play.waits_for(Duration::from_millis(pause));
        play.starts_one(Seat { bank: 1, index: 1 });
    }
    play.ended(1, 1);
    play.ended(0, 1);
    assert_eq!(play.next(), Action::Start(Seat { bank: 0, index: 1 }));
}

#[test]
fn workers_that_finish_do_not_count_as_living() {
    let mut play = Play::reloading(1);
    play.ready(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    let mut longest = Duration::ZERO;
    play.ended(1, 0);
    for _ in 0..12 {
        let Action::Wait(Some(until)) = play.next() else {
            panic!("it would spin");
        };
        longest = longest.max(until - play.now);
        play.now = until;
        play.starts_one(Seat { bank: 1, index: 0 });
        play.ended(1, 0);
    }
    assert_eq!(longest, UNSERVED_MAX);
}
