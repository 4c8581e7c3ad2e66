//! Several server processes that share a listener and a group, under faults and kills. The servers'
//! loops accept, and a task serves each accepted connection.

use std::{cell::Cell, rc::Rc};

use evcore::{
    EventLoop, Step,
    balancer::{Policy, WorkerId},
};
use evcore_async::{Executor, Stream, spawn_local};
use evcore_sim::{App, Faults, Process, Sim, SimGroup, SimListener, SimStream, Workers, check};

use crate::{
    CLIENTS, Node, Progress, REQUESTS, SERVER, TIME_LIMIT, Version, run_client, serve_client,
};

const SERVERS: usize = 3;

/// A process: a server whose loop accepts, or a client.
enum Role {
    Server { node: Node, accepted: Rc<Cell<u32>> },
    Client(Node),
}

fn server(process: &Process, index: usize, group: &SimGroup) -> Node {
    let member = group.join(process, WorkerId::from_slot(index));
    let listener = process.listen(SERVER.parse().unwrap());
    let builder = process.builder().listener(listener).group(member);
    let mut ev = builder.policy(Policy::least_loaded()).build().unwrap();
    let executor = Executor::new(&mut ev);
    executor.set_resumes_panics(true);
    Node { executor, ev }
}

impl App for Role {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        match self {
            Self::Server { node, .. } | Self::Client(node) => &mut node.ev,
        }
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        match self {
            Self::Client(node) => node.on_step(step),
            Self::Server { node, accepted } => {
                let foreign = node.executor.on_step(&mut node.ev, step);
                if let Some(Step::Accepted(new)) = foreign {
                    accepted.set(accepted.get() + 1);
                    node.executor.enter(&mut node.ev, || {
                        let stream = Stream::new(new.stream).unwrap();
                        drop(spawn_local(serve_client(stream, Version::One, None)));
                    });
                }
            }
        }
    }
}

/// Runs servers and clients until each client has all its answers. Returns the number of wrong
/// answers, and the number of connections that each server accepted.
fn run(sim: &Sim) -> (u32, Vec<u32>) {
    let clients: Vec<Rc<Progress>> = (0..2 * CLIENTS).map(|_| Rc::default()).collect();
    let accepted: Vec<Rc<Cell<u32>>> = (0..SERVERS).map(|_| Rc::default()).collect();
    let group = sim.group(Policy::least_loaded(), SERVERS);
    let (mut rng, progress, counts) = (sim.rng(), clients.clone(), accepted.clone());
    let mut workers = Workers::new(
        sim,
        SERVERS + clients.len(),
        move |process, index| match index.checked_sub(SERVERS) {
            None => Role::Server {
                node: server(process, index, &group),
                accepted: Rc::clone(&counts[index]),
            },
            Some(client) => {
                let progress = Rc::clone(&progress[client]);
                let main = run_client(process.clone(), Version::One, rng.fork(), progress);
                Role::Client(Node::new(process, main))
            }
        },
    );
    let all_done = |_: &Workers<Role>| {
        clients
            .iter()
            .all(|client| client.answers.get() >= REQUESTS)
    };
    assert!(
        workers.run_until(TIME_LIMIT, all_done),
        "a client waits after ten hours"
    );
    let wrong = clients.iter().map(|client| client.wrong_answers.get());
    let accepted = accepted.iter().map(|count| count.get());
    (wrong.sum(), accepted.collect())
}

#[test]
fn clients_of_several_servers_are_served_under_all_faults() {
    let name = "clients_of_several_servers_are_served_under_all_faults";
    check(name, 0..300, |sim| {
        sim.set_faults(Faults::all());
        assert_eq!(run(sim).0, 0);
    });
}

#[test]
fn each_server_of_a_group_gets_clients() {
    let mut sums = vec![0; SERVERS];
    for seed in 0..20 {
        let (wrong, accepted) = run(&Sim::new(seed));
        assert_eq!(wrong, 0);
        for (sum, accepted) in sums.iter_mut().zip(accepted) {
            *sum += accepted;
        }
    }
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
}
