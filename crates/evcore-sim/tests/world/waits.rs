//! Time, and the waits of a loop that waits alone.

use std::{io, time::Duration};

use evcore::{
    Builder, EventLoop, Handle, Interest, Mode, Ready, Step, Timer,
    poller::{Capabilities, Error, Events, Poller},
};
use evcore_sim::{Chance, Client, Conditions, Fault, Faults, News, SimListener, Visit, World};

fn event_loop(world: &World) -> EventLoop<SimListener> {
    world.process().builder().build().expect("a loop")
}

fn kind(error: evcore::Error) -> io::ErrorKind {
    io::Error::from(error).kind()
}

#[test]
fn a_wait_lets_time_pass_up_to_its_timer_and_not_much_further() {
    let world = World::new(7);
    let mut ev = event_loop(&world);
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
    let passed = world.now();
    assert!(
        (86_400_000..=86_400_002).contains(&passed.as_millis()),
        "{passed:?}"
    );
}

#[test]
fn a_wait_that_would_never_end_says_so() {
    let world = World::new(7);
    let error = event_loop(&world).wait().unwrap_err();
    assert!(
        error.to_string().contains("nothing is left to happen"),
        "{error}"
    );
    assert_eq!(kind(error), io::ErrorKind::TimedOut);
}

#[test]
fn no_wait_goes_beyond_the_end() {
    let world = World::new(7);
    world.set_end(Duration::from_secs(5));
    let mut ev = event_loop(&world);
    let token = ev.add_unwatched().unwrap();
    ev.arm(token, Timer::READ, Duration::from_secs(86_400));
    let error = loop {
        if let Err(error) = ev.wait() {
            break error;
        }
    };
    assert_eq!(kind(error), io::ErrorKind::TimedOut);
    assert_eq!(world.now(), Duration::from_secs(5));
}

#[test]
fn a_handle_wakes_a_loop_that_nothing_else_would_wake() {
    let world = World::new(7);
    let mut ev = event_loop(&world);
    ev.handle().wake();
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Woken)));
    let token = ev.add_unwatched().unwrap();
    ev.handle().post(token, Ready::READABLE).unwrap();
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Ready(..))));
}

/// Somebody in the world with a handle to a loop, which he wakes after a second.
#[derive(Debug)]
struct Waking(Option<Handle>);

impl Client for Waking {
    fn call(&mut self, _: News, me: &mut Visit<'_>) {
        if me.now().is_zero() {
            me.after(Duration::from_secs(1));
        } else if let Some(handle) = self.0.take() {
            handle.wake();
        }
    }
}

#[test]
fn a_wake_in_the_middle_of_a_wait_ends_it_then() {
    let world = World::new(7);
    let mut ev = event_loop(&world);
    let token = ev.add_unwatched().unwrap();
    ev.arm(token, Timer::READ, Duration::from_secs(86_400));
    world.add_client(Waking(Some(ev.handle())));
    ev.wait().unwrap();
    assert!(matches!(ev.next_step(), Some(Step::Woken)));
    assert_eq!(world.now(), Duration::from_secs(1));
}

#[test]
fn an_interrupted_wait_is_a_turn_without_steps() {
    let world = World::new(7);
    world.set_faults(Faults::none().with(Fault::InterruptedWait, Chance::ALWAYS));
    let mut ev = event_loop(&world);
    ev.handle().wake();
    ev.wait().expect("a signal is no error");
    assert!(ev.next_step().is_none());
    assert_eq!(world.count(Fault::InterruptedWait), 1);

    world.set_faults(Faults::none());
    ev.wait().unwrap();
    assert!(
        matches!(ev.next_step(), Some(Step::Woken)),
        "it was not lost"
    );
}

#[test]
fn the_clocks_go_their_own_ways() {
    let world = World::new(7);
    let mut clock = world.process().clock();
    world.step_wall(86_400);
    world.run_for(Duration::from_millis(1_500));
    clock.update();
    assert_eq!((clock.monotonic_ms(), clock.unix_ms()), (1_500, 86_401_500));

    world.set_faults(Faults::none().with(Fault::ClockJump, Chance::ALWAYS));
    let mut ev = event_loop(&world);
    ev.handle().wake();
    ev.wait().unwrap();
    assert!(
        ev.clock().monotonic_ms() > 1_500,
        "ahead of {:?}",
        world.now()
    );
    let before = ev.clock().unix_seconds();
    world.set_faults(Faults::none().with(Fault::WallStep, Chance::ALWAYS));
    ev.handle().wake();
    ev.wait().unwrap();
    let step = ev.clock().unix_seconds() - before;
    assert!(step != 0 && step.abs() <= 86_401, "{step}");
}

/// Where the backend has no modes of its own, the poller keeps them: with equal reports.
#[test]
fn modes_are_kept_with_and_without_the_kernels_help() {
    let mut as_epoll = Capabilities::default();
    (as_epoll.edge, as_epoll.oneshot) = (true, true);
    for capabilities in [as_epoll, Capabilities::default()] {
        let process = World::new(7).process();
        let mut poller = Poller::from(process.backend_with(capabilities));
        let mut events = Events::with_capacity(4);
        let mut ready = |poller: &mut Poller| {
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            events
                .iter()
                .map(|event| (event.key, event.ready))
                .collect::<Vec<_>>()
        };
        let pairs = [process.pair(), process.pair(), process.pair()];
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
fn what_does_not_fit_comes_with_the_next_wait() {
    let process = World::new(7).process();
    let mut poller = Poller::from(process.backend());
    let pairs: Vec<_> = (0..5).map(|_| process.pair()).collect();
    for (key, (near, far)) in (0..).zip(&pairs) {
        poller.add(far, key, Interest::READ, Mode::Edge).unwrap();
        near.send(b"x").unwrap();
    }
    let mut events = Events::with_capacity(2);
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
fn a_descriptor_that_is_not_open_is_refused() {
    let world = World::new(7);
    let (process, other) = (world.process(), world.process());
    let mut poller = Poller::from(process.backend());
    let (near, _far) = other.pair();
    let refused = poller.add(&near, 0, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
}

#[test]
fn a_loop_that_spins_does_not_stop_time() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        turn: Duration::ZERO..=Duration::ZERO,
        ..Conditions::default()
    });
    let builder: Builder<SimListener> = world.process().builder();
    let mut ev = builder.build().unwrap();
    let token = ev.add_unwatched().unwrap();
    for _ in 0..100 {
        ev.post_next(token, Ready::READABLE);
        ev.wait().unwrap();
        while ev.next_step().is_some() {}
    }
    assert_eq!(world.now(), Duration::from_nanos(100));
}
