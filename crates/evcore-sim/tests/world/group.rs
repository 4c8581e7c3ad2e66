//! Workers in a group: one of them always listens, and all of them get the same load.

use std::time::Duration;

use evcore::{
    Connections, EventLoop, GroupMember, Interest, Mode, Step,
    balancer::{Leader, Load, Policy, WorkerId},
};
use evcore_sim::{
    App, Conditions, Ending, Process, Script, SimGroup, SimListener, SimStream, Workers, World,
};

use crate::echo::address;

const MS: Duration = Duration::from_millis(1);

/// Accepts each client, sends a word and keeps the connection.
struct Host {
    ev: EventLoop<SimListener>,
    guests: Connections<SimStream>,
}

impl Host {
    fn new(process: &Process, index: usize, group: &SimGroup) -> Self {
        let policy = Policy::LeastLoaded {
            slack: Policy::DEFAULT_SLACK,
            delay: Policy::DEFAULT_DELAY,
        };
        let builder = process
            .builder()
            .listener(process.listen(address()))
            .connections(2_000)
            .policy(policy)
            .group(group.join(process, WorkerId::from_slot(index)));
        Self {
            ev: builder.build().expect("a loop"),
            guests: Connections::new(),
        }
    }
}

impl App for Host {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn take(&mut self, step: Step<SimStream>) {
        if let Step::Accepted(new) = step {
            new.stream.send(b"welcome").expect("there is room");
            let (ev, mode) = (&mut self.ev, Mode::Edge);
            let added = self.guests.add(ev, new.stream, Interest::READ, mode);
            added.expect("a fresh descriptor");
        }
    }
}

/// Workers in a group that has one slot more.
fn hosts(world: &World, count: usize) -> (Workers<Host>, SimGroup) {
    let group = world.group(count + 1);
    let shared = group.clone();
    let begin = move |process: &Process, index| Host::new(process, index, &shared);
    (Workers::new(world, count, begin), group)
}

#[test]
fn a_dead_member_leads_until_the_parent_has_noticed_its_death() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        reap: MS * 50..=MS * 50,
        ..Conditions::default()
    });
    let (mut workers, group) = hosts(&world, 1);
    let observer = group.join(&world.process(), WorkerId::from_slot(1));
    let leader = || observer.sync(Load::default()).leader;
    workers.run_for(MS);
    assert_eq!(leader(), Leader::Other);
    workers.kill(0);
    workers.run_for(MS * 49);
    assert_eq!(leader(), Leader::Other, "no worker has noticed");
    world.record();
    workers.run_for(MS * 2);
    assert!(workers.app(0).is_some_and(|app| app.ev.status().listening));
    // The death is noticed first. Then the replacement joins in the same slot, and leads.
    let lines = world.lines();
    let at = |word: &str| lines.iter().position(|line| line.contains(word));
    assert!(at("Reap").is_some() && at("Reap") < at("Join") && at("Join") < at("Lead"));
    assert_eq!(leader(), Leader::Other);
}

#[test]
fn when_all_that_listened_have_died_another_is_notified() {
    let world = World::new(7);
    let (mut workers, _) = hosts(&world, 4);
    for _ in 0..100 {
        world.client(address(), Script::new().hear_end());
        workers.run_for(MS);
    }
    let listening: Vec<_> = workers
        .apps()
        .map(|(_, app)| app.ev.status().listening)
        .collect();
    for (index, _) in listening.iter().enumerate().filter(|(_, it)| **it) {
        workers.kill(index);
    }
    let client = world.client(address(), Script::new().hear("welcome".len()));
    // Far less than the delay: no worker has to probe.
    assert!(workers.run_until(MS * 50, |_| client.is_done()));
    assert_eq!(client.ending(), Some(Ending::Done));
}

/// Jain's index of the connections that each has: 1, if all have the same.
fn jain(workers: &Workers<Host>) -> f64 {
    let loads = workers.apps().map(|(_, app)| app.guests.len() as f64);
    let loads: Vec<f64> = loads.collect();
    let sum: f64 = loads.iter().sum();
    let squares: f64 = loads.iter().map(|load| load * load).sum();
    let count = u32::try_from(loads.len()).expect("a few");
    sum * sum / (f64::from(count) * squares)
}

/// The index after 1,000 clients have come, so many at a time, and stayed.
fn share(count: usize, burst: usize) -> f64 {
    let world = World::new(7);
    let (mut workers, _) = hosts(&world, count);
    workers.run_for(MS);
    for client in 1..=1_000 {
        world.client(address(), Script::new().hear_end());
        if client % burst == 0 {
            workers.run_for(MS);
        }
    }
    workers.run_for(MS * 10);
    let guests: usize = workers.apps().map(|(_, app)| app.guests.len()).sum();
    assert_eq!(guests, 1_000);
    jain(&workers)
}

#[test]
fn long_lived_connections_are_spread_evenly() {
    for (count, burst) in [(4, 1), (4, 64), (8, 1), (8, 64)] {
        let jain = share(count, burst);
        println!("{count} workers, {burst} at a time: {jain:.3}");
        assert!(
            jain >= 0.97,
            "{count} workers, {burst} at a time: {jain:.3}"
        );
    }
}
