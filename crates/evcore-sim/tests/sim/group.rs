//! Workers in a group: their leader, its death, and the spread of their load.

use std::time::Duration;

use evcore::{
    EventLoop, Interest, Mode, Step, TokenMap,
    balancer::{GroupMember, Leader, Load, Policy, WorkerId},
};
use evcore_sim::{
    App, ClientOutcome, Process, Script, Sim, SimConfig, SimGroup, SimListener, SimStream, Workers,
};

use crate::{echo_server::address, native};

const MS: Duration = Duration::from_millis(1);

struct Host {
    ev: EventLoop<SimListener>,
    guests: TokenMap<SimStream>,
}

impl Host {
    fn new(process: &Process, index: usize, group: &SimGroup) -> Self {
        let builder = process
            .builder()
            .backend(process.backend_with(native()))
            .listener(process.listen(address()))
            .connections(2_000)
            .group(group.join(process, WorkerId::from_slot(index)));
        Self {
            ev: builder.build().expect("a loop"),
            guests: TokenMap::new(),
        }
    }
}

impl App for Host {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        if let Step::Accepted(new) = step {
            new.stream.send(b"welcome").expect("there is room");
            let (ev, mode) = (&mut self.ev, Mode::Edge);
            let added = self.guests.add(ev, new.stream, Interest::READ, mode);
            added.expect("a fresh descriptor");
        }
    }
}

/// Starts workers in a group that has one more slot, for an observer.
fn hosts(sim: &Sim, count: usize) -> (Workers<Host>, SimGroup) {
    let group = sim.group(Policy::least_loaded(), count + 1);
    let shared = group.clone();
    let begin = move |process: &Process, index| Host::new(process, index, &shared);
    (Workers::new(sim, count, begin), group)
}

#[test]
fn a_dead_member_leads_until_its_parent_notices() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        reap_delay: MS * 50..=MS * 50,
        ..SimConfig::default()
    });
    let (mut workers, group) = hosts(&sim, 1);
    let observer = group.join(&sim.process(), WorkerId::from_slot(1));
    let leader = || observer.sync(Load::default()).leader;
    workers.run_for(MS);
    assert_eq!(leader(), Leader::Other);
    workers.kill(0);
    workers.run_for(MS * 49);
    assert_eq!(leader(), Leader::Other, "the parent has not noticed");
    sim.record_trace();
    workers.run_for(MS * 2);
    assert!(workers.app(0).is_some_and(|app| app.ev.stats().listening));
    // The successor joins in the same slot only after the death is noticed, and then leads.
    let lines = sim.trace_lines();
    let at = |word: &str| lines.iter().position(|line| line.contains(word));
    let (notices, joins) = (at("the parent notices"), at("joins the group"));
    assert!(notices.is_some() && notices < joins && joins < at("is leader"));
    assert_eq!(leader(), Leader::Other);
}

#[test]
fn when_every_listening_worker_dies_another_is_notified() {
    let sim = Sim::new(7);
    let (mut workers, _) = hosts(&sim, 4);
    for _ in 0..100 {
        sim.client(address(), Script::new().recv_eof());
        workers.run_for(MS);
    }
    let listening: Vec<_> = workers
        .apps()
        .map(|(_, app)| app.ev.stats().listening)
        .collect();
    assert!(listening.contains(&true) && listening.contains(&false));
    for index in (0..4).filter(|index| listening[*index]) {
        workers.kill(index);
    }
    let client = sim.client(address(), Script::new().recv("welcome".len()));
    let other_listens = |workers: &Workers<Host>| {
        let mut others = workers.apps().filter(|(index, _)| !listening[*index]);
        others.any(|(_, app)| app.ev.stats().listening)
    };
    // The limit is far below the policy's delay of 500 ms, after which a worker probes the
    // listeners by itself. So a notification has woken the worker.
    assert!(workers.run_until(MS * 50, other_listens));
    assert!(workers.run_until(MS * 50, |_| client.is_done()));
    assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
}

/// Jain's fairness index of the connections of each worker. It is 1 if all workers have the same
/// number.
fn jain(workers: &Workers<Host>) -> f64 {
    let loads = workers.apps().map(|(_, app)| app.guests.len() as f64);
    let loads: Vec<f64> = loads.collect();
    let sum: f64 = loads.iter().sum();
    let squares: f64 = loads.iter().map(|load| load * load).sum();
    let count = u32::try_from(loads.len()).expect("a few");
    sum * sum / (f64::from(count) * squares)
}

/// Returns Jain's index for 1,000 connections, of which `burst` are made at a time.
fn fairness(count: usize, burst: usize) -> f64 {
    let sim = Sim::new(7);
    let (mut workers, _) = hosts(&sim, count);
    workers.run_for(MS);
    for client in 1..=1_000 {
        sim.client(address(), Script::new().recv_eof());
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
        let jain = fairness(count, burst);
        println!("{count} workers, {burst} at a time: {jain:.3}");
        assert!(
            jain >= 0.97,
            "{count} workers, {burst} at a time: {jain:.3}"
        );
    }
}
