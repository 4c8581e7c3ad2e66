use super::*;

mod random;
mod reloads;
mod restart_pauses;

const TIMEOUTS: Timeouts = Timeouts {
    stop: Duration::from_secs(30),
    ready: Duration::from_secs(5),
};

fn config(workers: usize) -> Config {
    Config {
        workers,
        timeouts: TIMEOUTS,
        slots_serve_alone: false,
        can_kill: true,
    }
}

struct Fixture {
    lifecycle: Lifecycle,
    now: Instant,
}

impl Fixture {
    fn with_workers(workers: usize) -> Self {
        Self::with(config(workers))
    }

    fn with(config: Config) -> Self {
        let now = Instant::now();
        let lifecycle = Lifecycle::new(config, now);
        Self { lifecycle, now }
    }

    fn serving(workers: usize) -> Self {
        let mut server = Self::with_workers(workers);
        server.start(0, workers);
        server.ready(0, workers);
        server.waits();
        server
    }

    /// A server whose generation in row 0 serves, and whose generation in row 1 was started.
    fn reloading(workers: usize) -> Self {
        let mut server = Self::serving(workers);
        server.begin_reload(1, workers);
        server
    }

    /// Begins a reload, which starts workers in this row.
    #[track_caller]
    fn begin_reload(&mut self, row: usize, workers: usize) {
        self.lifecycle.reload();
        assert_eq!(self.next(), Action::Report(Reload::Started));
        self.start(row, workers);
    }

    /// Checks that the reload ends, and that the workers of the old row get their stop.
    #[track_caller]
    fn ends_reload(&mut self, old: usize) {
        assert_eq!(self.next(), Action::Report(Reload::Done));
        assert_eq!(self.next(), Action::Stop(old, Stop::Graceful));
    }

    /// Reloads a server with one worker, from the old row to this one.
    #[track_caller]
    fn reload(&mut self, row: usize, old: usize) {
        self.begin_reload(row, 1);
        self.ready(row, 1);
        self.ends_reload(old);
    }

    fn next(&mut self) -> Action {
        self.lifecycle.next(self.now)
    }

    fn start(&mut self, row: usize, workers: usize) {
        (0..workers).for_each(|index| self.start_one(Slot { row, index }));
    }

    fn start_one(&mut self, slot: Slot) {
        assert_eq!(self.next(), Action::Start(slot));
        self.lifecycle.started(slot, self.now);
    }

    fn ready(&mut self, row: usize, workers: usize) {
        (0..workers).for_each(|index| self.lifecycle.ready(Slot { row, index }));
    }

    fn end(&mut self, row: usize, index: usize) {
        self.lifecycle.ended(Slot { row, index }, false, self.now);
    }

    fn refuse(&mut self, row: usize, index: usize) {
        self.lifecycle.ended(Slot { row, index }, true, self.now);
    }

    fn cannot_start(&mut self, row: usize, index: usize) {
        self.lifecycle.cannot_start(Slot { row, index }, self.now);
    }

    fn end_all(&mut self, row: usize, workers: usize) {
        (0..workers).for_each(|index| self.end(row, index));
    }

    fn stop(&mut self, stop: Stop) {
        self.lifecycle.stop(stop, self.now);
    }

    fn drain(&mut self) {
        self.lifecycle.drain(self.now);
    }

    #[track_caller]
    fn waits(&mut self) {
        assert_eq!(self.next(), Action::Wait(None));
    }

    #[track_caller]
    fn waits_for_a_time(&mut self) {
        assert!(matches!(self.next(), Action::Wait(Some(_))));
    }

    #[track_caller]
    fn stops(&mut self, row: usize, stop: Stop) {
        assert_eq!(self.next(), Action::Stop(row, stop));
    }

    #[track_caller]
    fn is_stopped(&mut self, stop: Stop) {
        assert_eq!(self.next(), Action::Done(Outcome::Stopped(stop)));
    }

    #[track_caller]
    fn waits_for(&mut self, pause: Duration) {
        assert_eq!(self.next(), Action::Wait(Some(self.now + pause)));
        self.now += pause;
    }
}

#[test]
fn a_slots_pause_does_not_delay_other_slots() {
    let mut server = Fixture::serving(2);
    server.end(0, 0);
    server.now += Duration::from_millis(50);
    server.end(0, 1);
    server.waits_for(Duration::from_millis(50));
    server.start(0, 1);
    server.waits_for(Duration::from_millis(50));
    assert_eq!(server.next(), Action::Start(Slot { row: 0, index: 1 }));
}

#[test]
fn the_server_ends_after_all_workers_have_refused() {
    let mut server = Fixture::serving(2);
    server.refuse(0, 0);
    server.waits();
    server.refuse(0, 1);
    assert_eq!(server.next(), Action::Done(Outcome::AllRefused));
}

#[test]
fn the_server_ends_if_no_worker_can_start() {
    let mut server = Fixture::with_workers(3);
    server.start(0, 3);
    server.cannot_start(0, 0);
    server.refuse(0, 1);
    server.waits();
    server.cannot_start(0, 2);
    assert_eq!(server.next(), Action::Done(Outcome::AllRefused));
}

#[test]
fn a_worker_that_cannot_start_is_retried_if_another_is_ready() {
    let mut server = Fixture::with_workers(2);
    server.start(0, 2);
    server.cannot_start(0, 0);
    server.waits();
    server.lifecycle.ready(Slot { row: 0, index: 1 });
    server.waits_for(Duration::from_millis(100));
    server.start_one(Slot { row: 0, index: 0 });
    server.cannot_start(0, 0);
    server.waits_for(Duration::from_millis(200));
    server.start_one(Slot { row: 0, index: 0 });
}

#[test]
fn a_replacement_that_cannot_start_is_retried() {
    let mut server = Fixture::serving(1);
    server.end(0, 0);
    server.waits_for(Duration::from_millis(100));
    server.start(0, 1);
    server.cannot_start(0, 0);
    server.waits_for(Duration::from_millis(200));
    server.start(0, 1);
}

#[test]
fn a_graceful_stop_stays_graceful_if_all_end_in_time() {
    let mut server = Fixture::serving(2);
    server.stop(Stop::Graceful);
    server.stops(0, Stop::Graceful);
    server.end(0, 0);
    assert_eq!(
        server.next(),
        Action::Wait(Some(server.now + TIMEOUTS.stop))
    );
    server.end(0, 1);
    server.is_stopped(Stop::Graceful);
}

#[test]
fn a_fast_stop_overtakes_a_graceful_one() {
    let mut server = Fixture::serving(1);
    server.stop(Stop::Graceful);
    server.stops(0, Stop::Graceful);
    server.stop(Stop::Fast);
    server.stops(0, Stop::Fast);
    server.end(0, 0);
    server.is_stopped(Stop::Fast);
}

#[test]
fn no_worker_is_replaced_during_a_stop() {
    let mut server = Fixture::serving(3);
    server.end(0, 0);
    server.stop(Stop::Graceful);
    server.now += Duration::from_secs(1);
    server.end(0, 1);
    server.stops(0, Stop::Graceful);
    server.waits_for_a_time();
    server.end(0, 2);
    server.is_stopped(Stop::Graceful);
}

#[test]
fn a_stop_without_a_worker_is_over_at_once() {
    let mut server = Fixture::serving(1);
    server.end(0, 0);
    server.stop(Stop::Graceful);
    server.is_stopped(Stop::Graceful);
}

#[test]
fn a_drain_stops_all_workers_and_waits() {
    let mut server = Fixture::serving(2);
    server.drain();
    server.stops(0, Stop::Graceful);
    server.end_all(0, 2);
    server.waits();
    server.drain();
    server.waits();
    assert!(server.lifecycle.is_drained());
}

#[test]
fn a_reload_ends_the_drain() {
    let mut server = Fixture::serving(2);
    server.drain();
    server.stops(0, Stop::Graceful);
    // Workers that finish do not delay the reload.
    server.begin_reload(1, 2);
    assert!(!server.lifecycle.is_drained());
    server.end_all(0, 2);
    server.waits_for_a_time();
    server.ready(1, 2);
    assert_eq!(server.next(), Action::Report(Reload::Done));
    server.waits();
}

#[test]
fn a_drain_ends_a_reload() {
    let mut server = Fixture::reloading(1);
    server.drain();
    server.stops(0, Stop::Graceful);
    server.stops(1, Stop::Graceful);
    assert_eq!(server.next(), Action::Report(Reload::Drained));
    server.end(0, 0);
    server.end(1, 0);
    server.waits();
}

#[test]
fn a_stop_ends_the_drain() {
    let mut server = Fixture::serving(1);
    server.drain();
    server.stops(0, Stop::Graceful);
    server.stop(Stop::Fast);
    server.stops(0, Stop::Fast);
    server.end(0, 0);
    server.is_stopped(Stop::Fast);
}

#[test]
fn a_stop_after_a_drain_is_over_at_once() {
    let mut server = Fixture::serving(1);
    server.drain();
    server.stops(0, Stop::Graceful);
    server.end(0, 0);
    server.stop(Stop::Graceful);
    server.is_stopped(Stop::Graceful);
}

#[test]
fn a_stop_during_a_reload_stops_both_generations() {
    let mut server = Fixture::reloading(1);
    server.stop(Stop::Fast);
    server.stops(0, Stop::Fast);
    server.stops(1, Stop::Fast);
    server.lifecycle.reload();
    server.end(0, 0);
    server.waits_for_a_time();
    server.end(1, 0);
    server.is_stopped(Stop::Fast);
}

#[test]
fn a_fast_stop_also_reaches_a_generation_that_had_more_time() {
    let mut server = Fixture::reloading(1);
    server.ready(1, 1);
    server.ends_reload(0);
    server.now += Duration::from_secs(20);
    server.stop(Stop::Graceful);
    server.stops(1, Stop::Graceful);
    server.waits_for(Duration::from_secs(10));
    server.stops(0, Stop::Fast);
    server.end(0, 0);
    server.waits_for_a_time();
    server.stop(Stop::Fast);
    server.stops(1, Stop::Fast);
    server.end(1, 0);
    server.is_stopped(Stop::Fast);
}

/// A server with a stuck thread of an old generation, and a new generation that serves.
fn stuck_thread() -> Fixture {
    let mut server = Fixture::with(Config {
        can_kill: false,
        ..config(1)
    });
    server.start(0, 1);
    server.reload(1, 0);
    server.waits_for(TIMEOUTS.stop);
    server.stops(0, Stop::Fast);
    server.waits_for(Duration::from_secs(1));
    assert_eq!(server.next(), Action::ReportStuck(0));
    server
}

#[test]
fn a_stuck_thread_keeps_its_slot_until_it_ends() {
    let mut server = stuck_thread();
    server.waits();
    server.begin_reload(2, 1);
    server.end(0, 0);
    server.begin_reload(0, 1);
}

#[test]
fn a_stop_abandons_a_stuck_thread_at_once() {
    let mut server = stuck_thread();
    server.stop(Stop::Graceful);
    assert_eq!(server.next(), Action::Abandon(0));
    server.end(0, 0);
    server.stops(1, Stop::Graceful);
    server.end(1, 0);
    server.is_stopped(Stop::Fast);
}

#[test]
fn a_thread_that_does_not_stop_is_abandoned_after_a_second() {
    let mut server = Fixture::with(Config {
        can_kill: false,
        ..config(1)
    });
    server.start(0, 1);
    server.stop(Stop::Fast);
    server.stops(0, Stop::Fast);
    server.waits_for(Duration::from_secs(1));
    assert_eq!(server.next(), Action::Abandon(0));
    server.end(0, 0);
    server.is_stopped(Stop::Fast);
}
