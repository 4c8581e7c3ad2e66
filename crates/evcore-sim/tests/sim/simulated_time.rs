//! Simulated time, and waits outside of `Workers`.

use std::{io, time::Duration};

use evcore::{
    Builder, EventLoop, Handle, Interest, Mode, Ready, Step, Timer,
    poller::{Capabilities, Error, Events, Poller},
};
use evcore_sim::{
    App, Client, ClientCx, ClientEvent, Fault, Faults, Probability, Process, Script, Sim,
    SimConfig, SimListener, SimStream, Workers,
};

fn event_loop(sim: &Sim) -> EventLoop<SimListener> {
    sim.process().builder().build().expect("a loop")
}

fn kind(error: evcore::Error) -> io::ErrorKind {
    io::Error::from(error).kind()
}

#[test]
fn a_wait_lets_time_pass_up_to_its_timer() {
    let sim = Sim::new(7);
    let mut ev = event_loop(&sim);
    let token = ev.add_unwatched().unwrap();
    ev.arm(token, Timer::READ, Duration::from_secs(86_400));
    let mut steps = Vec::new();
    while steps.is_empty() {
        ev.wait().unwrap();
        steps.extend(std::iter::from_fn(|| ev.next_step()));
    }
    assert!(
        matches!(steps[..], [Step::Expired(_, Timer::READ)]),
        "{steps:?}"
    );
    let passed = sim.now();
    assert!(
        (86_400_000..=86_400_002).contains(&passed.as_millis()),
        "{passed:?}"
    );
}

#[test]
fn a_wait_that_would_never_end_fails() {
    let sim = Sim::new(7);
    let error = event_loop(&sim).wait().unwrap_err();
    assert!(
        error.to_string().contains("nothing is left to happen"),
        "{error}"
    );
    assert_eq!(kind(error), io::ErrorKind::TimedOut);
}

#[test]
fn no_wait_goes_beyond_the_time_limit() {
    let sim = Sim::new(7);
    sim.set_time_limit(Duration::from_secs(5));
    let mut ev = event_loop(&sim);
    let token = ev.add_unwatched().unwrap();
    ev.arm(token, Timer::READ, Duration::from_secs(86_400));
    let error = loop {
        if let Err(error) = ev.wait() {
            break error;
        }
    };
    assert_eq!(kind(error), io::ErrorKind::TimedOut);
    assert_eq!(sim.now(), Duration::from_secs(5));
}

#[test]
fn a_handle_wakes_a_loop() {
    let sim = Sim::new(7);
    let mut ev = event_loop(&sim);
    ev.handle().wake();
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Woken)));
    let token = ev.add_unwatched().unwrap();
    ev.handle().post(token, Ready::READABLE);
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Ready(..))));
}

#[derive(Debug)]
struct Waking(Option<Handle>);

impl Client for Waking {
    fn on_event(&mut self, _: ClientEvent, cx: &mut ClientCx<'_>) {
        if cx.now().is_zero() {
            cx.arm(Duration::from_secs(1));
        } else if let Some(handle) = self.0.take() {
            handle.wake();
        }
    }
}

#[test]
fn a_wake_during_a_wait_ends_it_at_that_time() {
    let sim = Sim::new(7);
    let mut ev = event_loop(&sim);
    let token = ev.add_unwatched().unwrap();
    ev.arm(token, Timer::READ, Duration::from_secs(86_400));
    sim.add_client(Waking(Some(ev.handle())));
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Woken)));
    assert_eq!(sim.now(), Duration::from_secs(1));
}

#[test]
fn an_interrupted_wait_is_a_turn_without_steps() {
    let sim = Sim::new(7);
    sim.set_faults(Faults::none().with(Fault::InterruptedWait, Probability::ALWAYS));
    let mut ev = event_loop(&sim);
    sim.add_client(Waking(Some(ev.handle())));
    ev.wait().expect("a signal is not an error");
    assert!(ev.next_step().is_none());
    assert_eq!(sim.fault_count(Fault::InterruptedWait), 1);

    sim.set_faults(Faults::none());
    ev.wait().unwrap();
    assert!(
        matches!(ev.next_step(), Some(Step::Woken)),
        "the next wait reports the wake-up"
    );
}

/// As on Linux and on the BSDs, a signal ends only a wait that sleeps.
#[test]
fn a_wait_that_begins_with_an_event_is_not_interrupted() {
    let sim = Sim::new(7);
    sim.set_faults(Faults::none().with(Fault::InterruptedWait, Probability::ALWAYS));
    let mut ev = event_loop(&sim);
    ev.handle().wake();
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Woken)));
    assert_eq!(sim.fault_count(Fault::InterruptedWait), 0);
}

#[test]
fn monotonic_and_wall_clock_move_separately() {
    let sim = Sim::new(7);
    let mut clock = sim.process().clock();
    sim.step_wall_clock(86_400);
    sim.run_for(Duration::from_millis(1_500));
    clock.update();
    assert_eq!((clock.monotonic_ms(), clock.unix_ms()), (1_500, 86_401_500));

    sim.set_faults(Faults::none().with(Fault::ClockJump, Probability::ALWAYS));
    let mut ev = event_loop(&sim);
    ev.handle().wake();
    ev.wait().unwrap();
    assert!(
        ev.clock().monotonic_ms() > 1_500,
        "ahead of {:?}",
        sim.now()
    );
    let before = ev.clock().unix_seconds();
    sim.set_faults(Faults::none().with(Fault::WallClockStep, Probability::ALWAYS));
    ev.handle().wake();
    ev.wait().unwrap();
    let step = ev.clock().unix_seconds() - before;
    assert!(step != 0 && step.abs() <= 86_401, "{step}");
}

/// If the backend lacks a mode, the poller emulates it by masking: it stops watching what it has
/// reported. This is a direction (reading or writing) for `Edge`, and the whole registration for
/// `Oneshot`. The reports are the same.
#[test]
fn native_and_masked_modes_report_alike() {
    let mut epoll = Capabilities::default();
    (epoll.edge, epoll.oneshot) = (true, true);
    for capabilities in [epoll, Capabilities::default()] {
        let process = Sim::new(7).process();
        let mut poller = Poller::from(process.backend_with(capabilities));
        let mut events = Events::bounded(4);
        let mut ready = |poller: &mut Poller| {
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            events
                .iter()
                .map(|event| (event.key, event.ready))
                .collect::<Vec<_>>()
        };
        let pairs = [
            process.unix_pair(),
            process.unix_pair(),
            process.unix_pair(),
        ];
        let modes = [Mode::Level, Mode::Edge, Mode::Oneshot];
        for (key, ((_, far), mode)) in (0..).zip(pairs.iter().zip(modes)) {
            poller.add(far, key, Interest::READ, mode).unwrap();
        }
        for (near, _) in &pairs {
            near.send(b"ab").unwrap();
        }
        let mut all = ready(&mut poller);
        all.sort_unstable_by_key(|event| event.0);
        assert_eq!(all, [0, 1, 2].map(|key| (key, Ready::READABLE)));
        assert_eq!(ready(&mut poller), [(0, Ready::READABLE)]);
        for (_, far) in &pairs {
            far.recv(&mut [0; 4]).unwrap();
        }
        poller.rearm(1, Interest::READ).unwrap();
        for (near, _) in &pairs {
            near.send(b"c").unwrap();
        }
        let mut more = ready(&mut poller);
        more.sort_unstable_by_key(|event| event.0);
        assert_eq!(more, [0, 1].map(|key| (key, Ready::READABLE)));
        poller.modify(2, Interest::READ).unwrap();
        assert!(ready(&mut poller).contains(&(2, Ready::READABLE)));
    }
}

#[test]
fn events_beyond_the_buffer_come_with_the_next_wait() {
    let process = Sim::new(7).process();
    let mut poller = Poller::from(process.backend());
    let pairs: Vec<_> = (0..5).map(|_| process.unix_pair()).collect();
    for (key, (near, far)) in (0..).zip(&pairs) {
        poller.add(far, key, Interest::READ, Mode::Edge).unwrap();
        near.send(b"x").unwrap();
    }
    let mut events = Events::bounded(2);
    let mut seen = Vec::new();
    for expected in [2, 2, 1, 0] {
        assert_eq!(
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap(),
            expected
        );
        seen.extend(events.iter().map(|event| event.key));
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn a_descriptor_of_another_process_is_refused() {
    let sim = Sim::new(7);
    let (process, other) = (sim.process(), sim.process());
    let mut poller = Poller::from(process.backend());
    let (near, _far) = other.unix_pair();
    let refused = poller.add(&near, 0, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
}

#[test]
fn time_passes_for_a_loop_that_spins() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        turn_time: Duration::ZERO..=Duration::ZERO,
        ..SimConfig::default()
    });
    let builder: Builder<SimListener> = sim.process().builder();
    let mut ev = builder.build().unwrap();
    let token = ev.add_unwatched().unwrap();
    for _ in 0..100 {
        ev.post_next(token, Ready::READABLE);
        ev.wait().unwrap();
        while ev.next_step().is_some() {}
    }
    assert_eq!(sim.now(), Duration::from_nanos(100));
}

#[test]
fn time_without_a_limit_ends_when_nothing_is_left_to_happen() {
    let sim = Sim::new(7);
    let client = sim.client(([10, 0, 0, 1], 80).into(), Script::new().send("hello"));
    sim.run_for(Duration::MAX);
    assert!(client.is_done());
    let idle = |process: &Process, _| Idle(process.builder().build().unwrap());
    let mut workers = Workers::new(&sim, 2, idle);
    workers.run_for(Duration::MAX);
    assert!(!workers.run_until(Duration::MAX, |_| false));
}

struct Idle(EventLoop<SimListener>);

impl App for Idle {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.0
    }

    fn on_step(&mut self, _: Step<SimStream>) {}
}

#[test]
fn an_edge_for_reading_is_not_repeated_by_room_for_sending() {
    // With an even seed, the backend itself is edge-triggered.
    let sim = Sim::new(8);
    sim.set_config(SimConfig {
        socket_buffer: 100,
        ..SimConfig::default()
    });
    let process = sim.process();
    let mut poller = Poller::from(process.backend());
    let (near, far) = process.tcp_pair();
    near.send(&[0; 100]).unwrap();
    far.send(b"x").unwrap();
    sim.run_for(Duration::from_secs(1));
    poller.add(&near, 0, Interest::READ, Mode::Edge).unwrap();
    let mut events = Events::bounded(1);
    let mut reports = |timeout| {
        poller.wait(&mut events, Some(timeout)).unwrap();
        events.len()
    };
    assert_eq!(reports(Duration::ZERO), 1);
    // The peer makes room. The byte that the peer has sent is still unread.
    far.recv(&mut [0; 100]).unwrap();
    assert_eq!(reports(Duration::from_secs(1)), 0);
    far.send(b"x").unwrap();
    assert_eq!(reports(Duration::from_secs(1)), 1);
}
