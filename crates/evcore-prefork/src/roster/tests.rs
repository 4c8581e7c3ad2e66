use super::*;

mod random;
mod unserved;

const PATIENCE: Patience = Patience {
    stop: Duration::from_secs(30),
    ready: Duration::from_secs(5),
};

/// A roster and its clock.
struct Play {
    roster: Roster,
    now: Instant,
}

impl Play {
    fn with_workers(workers: usize) -> Self {
        let now = Instant::now();
        let roster = Roster::new(workers, PATIENCE, now);
        Self { roster, now }
    }

    /// All workers started and ready, and nothing left to do.
    fn serving(workers: usize) -> Self {
        let mut play = Self::with_workers(workers);
        play.starts(0, workers);
        play.ready(0, workers);
        assert_eq!(play.next(), Action::Wait(None));
        play
    }

    /// A set serves in bank 0, another has been started in bank 1.
    fn reloading(workers: usize) -> Self {
        let mut play = Self::serving(workers);
        play.roster.reload();
        assert_eq!(play.next(), Action::Tell(Reload::Begins));
        play.starts(1, workers);
        play
    }

    fn next(&mut self) -> Action {
        self.roster.next(self.now)
    }

    fn starts(&mut self, bank: usize, workers: usize) {
        (0..workers).for_each(|index| self.starts_one(Seat { bank, index }));
    }

    fn starts_one(&mut self, seat: Seat) {
        assert_eq!(self.next(), Action::Start(seat));
        self.roster.started(seat, self.now);
    }

    fn ready(&mut self, bank: usize, workers: usize) {
        (0..workers).for_each(|index| self.roster.ready(Seat { bank, index }));
    }

    fn ended(&mut self, bank: usize, index: usize) {
        self.roster.ended(Seat { bank, index }, false, self.now);
    }

    fn refused(&mut self, bank: usize, index: usize) {
        self.roster.ended(Seat { bank, index }, true, self.now);
    }

    fn all_end(&mut self, bank: usize, workers: usize) {
        (0..workers).for_each(|index| self.ended(bank, index));
    }

    fn stop(&mut self, stop: Stop) {
        self.roster.stop(stop, self.now);
    }

    fn rest(&mut self) {
        self.roster.rest(self.now);
    }

    #[track_caller]
    fn waits_for(&mut self, pause: Duration) {
        assert_eq!(self.next(), Action::Wait(Some(self.now + pause)));
        self.now += pause;
    }
}

#[test]
fn one_slots_pause_holds_no_other_slot_up() {
    let mut play = Play::serving(2);
    play.ended(0, 0);
    play.now += Duration::from_millis(50);
    play.ended(0, 1);
    play.waits_for(Duration::from_millis(50));
    play.starts(0, 1);
    play.waits_for(Duration::from_millis(50));
    assert_eq!(play.next(), Action::Start(Seat { bank: 0, index: 1 }));
}

#[test]
fn all_slots_closed_is_the_end() {
    let mut play = Play::serving(2);
    play.refused(0, 0);
    assert_eq!(play.next(), Action::Wait(None));
    play.refused(0, 1);
    assert_eq!(play.next(), Action::Done(Outcome::Refused));
}

#[test]
fn a_graceful_stop_is_graceful_when_all_ended_in_time() {
    let mut play = Play::serving(2);
    play.stop(Stop::Graceful);
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Wait(Some(play.now + PATIENCE.stop)));
    play.ended(0, 1);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Graceful)));
}

#[test]
fn a_fast_stop_overtakes_a_graceful_one() {
    let mut play = Play::serving(1);
    play.stop(Stop::Graceful);
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.stop(Stop::Fast);
    assert_eq!(play.next(), Action::Signal(0, Signal::TERM));
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Fast)));
}

#[test]
fn nobody_is_replaced_during_a_stop() {
    let mut play = Play::serving(3);
    play.ended(0, 0);
    play.stop(Stop::Graceful);
    play.now += Duration::from_secs(1);
    play.ended(0, 1);
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ended(0, 2);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Graceful)));
}

#[test]
fn a_stop_with_nobody_left_is_over_at_once() {
    let mut play = Play::serving(1);
    play.ended(0, 0);
    play.stop(Stop::Graceful);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Graceful)));
}

#[test]
fn a_reload_sends_the_old_away_once_all_the_new_serve() {
    let mut play = Play::reloading(2);
    play.ready(1, 1);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ready(1, 2);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.all_end(0, 2);
    assert_eq!(play.next(), Action::Wait(None));
}

#[test]
fn new_workers_that_say_nothing_relieve_the_old_when_the_timeout_ends() {
    let mut play = Play::reloading(2);
    play.waits_for(PATIENCE.ready);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
}

#[test]
fn the_dead_of_both_sets_are_replaced_during_a_reload() {
    let mut play = Play::reloading(2);
    play.ready(1, 1);
    play.now += Duration::from_secs(2);
    play.ended(0, 1);
    play.ended(1, 1);
    for bank in [0, 1] {
        let seat = Seat { bank, index: 1 };
        assert_eq!(play.next(), Action::Start(seat));
        play.roster.started(seat, play.now);
    }
    play.waits_for(PATIENCE.ready);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
}

#[test]
fn the_dead_of_a_set_that_leaves_are_not_replaced() {
    let mut play = Play::reloading(2);
    play.ready(1, 2);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.ended(0, 0);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
}

#[test]
fn a_new_set_that_refuses_leaves_the_old_in_place() {
    let mut play = Play::reloading(2);
    play.refused(1, 0);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.refused(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Refused));
    assert_eq!(play.next(), Action::Wait(None));
    // It is still looked after.
    play.now += Duration::from_secs(1);
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Start(Seat { bank: 0, index: 0 }));
}

#[test]
fn an_old_set_that_refuses_is_the_new_ones_to_replace() {
    let mut play = Play::reloading(1);
    play.refused(0, 0);
    assert_eq!(play.next(), Action::Wait(None));
    play.refused(1, 0);
    assert_eq!(play.next(), Action::Done(Outcome::Refused));
}

#[test]
fn a_set_that_refused_is_not_the_end_while_an_older_one_finishes() {
    let mut play = Play::reloading(1);
    play.ready(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.refused(1, 0);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Done(Outcome::Refused));
}

#[test]
fn a_second_reload_during_the_first_adds_a_set_that_relieves_both() {
    let mut play = Play::reloading(1);
    play.roster.reload();
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
    play.starts(2, 1);
    play.ready(2, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    assert_eq!(play.next(), Action::Signal(1, Signal::QUIT));
    play.ended(0, 0);
    play.ended(1, 0);
    assert_eq!(play.next(), Action::Wait(None));
}

#[test]
fn a_reload_during_the_start_lets_nobody_go_before_its_set_serves() {
    let mut play = Play::with_workers(1);
    play.starts(0, 1);
    play.roster.reload();
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
    play.starts(1, 1);
    play.ready(0, 1);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ready(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
}

#[test]
fn a_reload_without_a_free_bank_waits_for_one() {
    let mut play = Play::serving(1);
    for bank in 1..SETS_MAX {
        play.roster.reload();
        assert_eq!(play.next(), Action::Tell(Reload::Begins));
        play.starts(bank, 1);
        play.ready(bank, 1);
        assert_eq!(play.next(), Action::Tell(Reload::Done));
        assert_eq!(play.next(), Action::Signal(bank - 1, Signal::QUIT));
    }
    // Any number of them is one.
    play.roster.reload();
    play.roster.reload();
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ended(1, 0);
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
    play.starts(1, 1);
    play.ready(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(3, Signal::QUIT));
    assert!(matches!(play.next(), Action::Wait(Some(_))));
}

/// A set serves, and those of all other banks have been killed in vain.
fn stuck() -> Play {
    let mut play = Play::serving(1);
    for bank in 1..SETS_MAX {
        play.roster.reload();
        assert_eq!(play.next(), Action::Tell(Reload::Begins));
        play.starts(bank, 1);
        play.ready(bank, 1);
        assert_eq!(play.next(), Action::Tell(Reload::Done));
        assert_eq!(play.next(), Action::Signal(bank - 1, Signal::QUIT));
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let Action::Wait(Some(until)) = play.next() else {
            panic!("they have time");
        };
        play.now = until;
        for bank in 0..SETS_MAX - 1 {
            assert_eq!(play.next(), Action::Signal(bank, signal));
        }
    }
    play
}

#[test]
fn a_reload_is_refused_when_the_workers_of_all_other_banks_do_not_stop() {
    let mut play = stuck();
    // They may end of the KILL: a reload waits for a second.
    play.roster.reload();
    play.waits_for(Duration::from_secs(1));
    assert_eq!(play.next(), Action::Tell(Reload::Stuck));
    assert_eq!(play.next(), Action::Wait(None));
    // It is over, and does not begin later by itself.
    play.ended(1, 0);
    assert_eq!(play.next(), Action::Wait(None));
    play.roster.reload();
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
    play.starts(1, 1);
}

#[test]
fn a_reload_that_waits_begins_when_a_killed_worker_ends_in_time() {
    let mut play = stuck();
    play.roster.reload();
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ended(2, 0);
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
}

#[test]
fn a_reload_after_a_rest_is_refused_when_no_worker_stops() {
    let mut play = stuck();
    play.rest();
    assert_eq!(play.next(), Action::Signal(3, Signal::QUIT));
    play.roster.reload();
    play.waits_for(Duration::from_secs(1));
    play.waits_for(PATIENCE.stop - Duration::from_secs(1));
    assert_eq!(play.next(), Action::Signal(3, Signal::TERM));
    play.waits_for(Duration::from_secs(1));
    assert_eq!(play.next(), Action::Signal(3, Signal::KILL));
    play.waits_for(Duration::from_secs(1));
    assert_eq!(play.next(), Action::Tell(Reload::Stuck));
    assert!(
        play.roster.is_resting(),
        "a further reload may bring workers back"
    );
    assert_eq!(play.next(), Action::Wait(None));
}

#[test]
fn each_old_set_has_its_own_time_to_finish() {
    let mut play = Play::reloading(1);
    play.ready(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.now += Duration::from_secs(10);
    play.roster.reload();
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
    play.starts(2, 1);
    play.ready(2, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(1, Signal::QUIT));
    play.waits_for(Duration::from_secs(20));
    assert_eq!(play.next(), Action::Signal(0, Signal::TERM));
    play.waits_for(Duration::from_secs(1));
    assert_eq!(play.next(), Action::Signal(0, Signal::KILL));
    play.waits_for(Duration::from_secs(1));
    play.waits_for(Duration::from_secs(8));
    assert_eq!(play.next(), Action::Signal(1, Signal::TERM));
}

#[test]
fn resting_sends_all_away_and_waits() {
    let mut play = Play::serving(2);
    play.rest();
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.all_end(0, 2);
    assert_eq!(play.next(), Action::Wait(None));
    play.rest();
    assert_eq!(play.next(), Action::Wait(None));
    assert!(play.roster.is_resting());
}

#[test]
fn a_reload_ends_the_rest() {
    let mut play = Play::serving(2);
    play.rest();
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    // Those who finish hold nobody up.
    play.roster.reload();
    assert_eq!(play.next(), Action::Tell(Reload::Begins));
    play.starts(1, 2);
    assert!(!play.roster.is_resting());
    play.all_end(0, 2);
    assert_eq!(play.next(), Action::Wait(None));
}

#[test]
fn a_rest_ends_a_reload() {
    let mut play = Play::reloading(1);
    play.rest();
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    assert_eq!(play.next(), Action::Signal(1, Signal::QUIT));
    play.ended(0, 0);
    play.ended(1, 0);
    assert_eq!(play.next(), Action::Wait(None));
}

#[test]
fn a_stop_ends_the_rest() {
    let mut play = Play::serving(1);
    play.rest();
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.stop(Stop::Fast);
    assert_eq!(play.next(), Action::Signal(0, Signal::TERM));
    play.ended(0, 0);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Fast)));
}

#[test]
fn a_stop_while_nobody_is_there_is_over_at_once() {
    let mut play = Play::serving(1);
    play.rest();
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.ended(0, 0);
    play.stop(Stop::Graceful);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Graceful)));
}

#[test]
fn a_stop_during_a_reload_stops_both_sets() {
    let mut play = Play::reloading(1);
    play.stop(Stop::Fast);
    assert_eq!(play.next(), Action::Signal(0, Signal::TERM));
    assert_eq!(play.next(), Action::Signal(1, Signal::TERM));
    play.roster.reload();
    play.ended(0, 0);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.ended(1, 0);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Fast)));
}

#[test]
fn a_fast_stop_reaches_a_set_also_after_another_had_to_be_hastened() {
    let mut play = Play::reloading(1);
    play.ready(1, 1);
    assert_eq!(play.next(), Action::Tell(Reload::Done));
    assert_eq!(play.next(), Action::Signal(0, Signal::QUIT));
    play.now += Duration::from_secs(20);
    play.stop(Stop::Graceful);
    assert_eq!(play.next(), Action::Signal(1, Signal::QUIT));
    play.waits_for(Duration::from_secs(10));
    assert_eq!(play.next(), Action::Signal(0, Signal::TERM));
    play.ended(0, 0);
    assert!(matches!(play.next(), Action::Wait(Some(_))));
    play.stop(Stop::Fast);
    assert_eq!(play.next(), Action::Signal(1, Signal::TERM));
    play.ended(1, 0);
    assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Fast)));
}
