//! The reference server `httpd` in the simulator, with the code that serves on sockets.
//!
//! Invariants: each request is answered, in its order and with its body, or its connection is
//! closed. Without faults, each request is answered.

mod answers;
mod browser;
mod busy;
mod uploads;

use std::time::Duration;

use evcore::{
    EventLoop, Step,
    balancer::{Policy, WorkerId},
};
use evcore_sim::{App, Faults, Process, Sim, SimGroup, SimListener, SimStream, Workers, check};

use browser::Browser;
use busy::Account;
use evcore_httpd::counts::Counts;
use evcore_httpd::options::Options;
use evcore_httpd::scoreboard::{Scoreboard, WorkerStats};
use evcore_httpd::server::Server;

const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

/// The time by which every client has ended, because of the server's own timeouts.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// A worker, driven by the simulator in place of the module `worker`.
struct Simulated {
    ev: EventLoop<SimListener>,
    server: Server<SimListener>,
}

impl Simulated {
    /// Stops the server as QUIT does.
    fn stop(&mut self) {
        self.server.on_stop();
        self.ev.shutdown(Options::default().shutdown_timeout);
    }
}

impl App for Simulated {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        self.server.handle(&mut self.ev, step);
    }

    fn on_turn_end(&mut self) {
        self.server.publish(&mut self.ev);
    }

    fn is_done(&self) -> bool {
        self.ev.stats().shut_down
    }
}

fn serve(
    sim: &Sim,
    workers: usize,
    options: Options,
    scoreboard: &Scoreboard,
) -> Workers<Simulated> {
    let group = sim.group(Policy::mutex(), workers);
    let its_scoreboard = scoreboard.clone();
    let begin = move |process: &Process, index| {
        let id = WorkerId::from_slot(index);
        let ev = event_loop(process, id, &group, options.connections);
        let counts = Counts::new(its_scoreboard.clone(), id);
        let server = Server::new(ev.clock(), index, counts, options.clone());
        Simulated { ev, server }
    };
    let mut server = Workers::new(sim, workers, begin);
    let scoreboard = scoreboard.clone();
    server.on_death(move |index| scoreboard.release_dead(WorkerId::from_slot(index)));
    server
}

fn event_loop(
    process: &Process,
    id: WorkerId,
    group: &SimGroup,
    connections: u32,
) -> EventLoop<SimListener> {
    let builder = process.builder().listener(process.listen(ADDRESS.into()));
    let lock = group.lock_handle(process, id);
    builder
        .connections(connections)
        .group(lock)
        .build()
        .expect("a loop")
}

fn options(connections: u32) -> Options {
    Options {
        connections,
        ..Options::default()
    }
}

fn run(sim: &Sim, options: Options) -> Vec<Browser> {
    let mut rng = sim.rng();
    let workers = 1 + rng.index(3);
    let scoreboard = WorkerStats::scoreboard(workers).expect("a page");
    let mut server = serve(sim, workers, options, &scoreboard);
    let mut browsers = Vec::new();
    for mut choices in sim.clients(5..=24) {
        browsers.push(Browser::start(sim, &mut choices));
        server.run_for(rng.duration(&(Duration::ZERO..=Duration::from_secs(2))));
    }
    while !browsers.iter().all(Browser::is_done) {
        assert!(
            sim.now() < TIME_LIMIT,
            "a client was neither answered nor closed"
        );
        server.run_for(Duration::from_secs(5));
    }
    stop(&mut server, workers);
    assert_eq!(
        WorkerStats::sum_of(&scoreboard).active,
        0,
        "a connection is still counted"
    );
    browsers
}

/// Stops every worker as QUIT does, also the successors of those that are killed meanwhile.
fn stop(server: &mut Workers<Simulated>, workers: usize) {
    for _ in 0..100 {
        for index in 0..workers {
            let worker = server.app_mut(index).into_iter();
            worker.for_each(Simulated::stop);
        }
        if server.run_until(Duration::from_secs(10), Workers::all_done) {
            return;
        }
    }
    panic!("the shutdown does not end");
}

#[test]
fn without_faults_every_request_is_answered() {
    let name = "without_faults_every_request_is_answered";
    check(name, 0..100, |sim| {
        for browser in run(sim, options(1000)) {
            assert!(browser.is_answered(), "{browser:?}");
        }
    });
}

/// As in a reload, some workers stop while another one continues to serve.
#[test]
fn a_busy_client_loses_no_request_when_its_worker_stops() {
    const REQUESTS: u32 = 20;
    let name = "a_busy_client_loses_no_request_when_its_worker_stops";
    let mut moved = 0;
    let seeds = check(name, 0..100, |sim| {
        let mut rng = sim.rng();
        let scoreboard = WorkerStats::scoreboard(3).expect("a page");
        let mut server = serve(sim, 3, options(1000), &scoreboard);
        let clients: Vec<_> = sim
            .clients(3..=12)
            .map(|_| Account::of_new_client(sim, REQUESTS))
            .collect();
        for index in [0, 1] {
            server.run_for(rng.duration(&(Duration::ZERO..=Duration::from_secs(4))));
            let worker = server.app_mut(index).expect("there are no faults");
            worker.stop();
        }
        server.run_for(Duration::from_secs(60));
        for client in &clients {
            assert_eq!(client.lost(), 0, "requests were lost");
            assert_eq!(client.answered(), REQUESTS);
            moved += u32::from(client.connections() > 1);
        }
        let stopped = |index: usize| server.app(index).is_some_and(App::is_done);
        assert!(stopped(0) && stopped(1));
        stop(&mut server, 3);
    });
    // If few clients move, the test shows nothing.
    assert!(
        seeds < 100 || moved > 100,
        "only {moved} clients went to another worker"
    );
}

#[test]
fn bodies_that_wait_for_room_are_all_answered() {
    let name = "bodies_that_wait_for_room_are_all_answered";
    check(name, 0..50, |sim| {
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let options = Options {
            bodies: uploads::ROOM_FOR_ONE,
            header_timeout: TIME_LIMIT,
            ..options(1000)
        };
        let mut server = serve(sim, 1, options, &scoreboard);
        let clients: Vec<_> = sim
            .clients(2..=21)
            .map(|mut choices| uploads::Upload::start(sim, &mut choices))
            .collect();
        let all_done = |_: &_| clients.iter().all(uploads::Upload::is_done);
        assert!(server.run_until(TIME_LIMIT, all_done));
        let one_by_one: Duration = clients.iter().map(uploads::Upload::takes_at_least).sum();
        assert!(sim.now() >= one_by_one, "there was room for more than one");
        clients.iter().for_each(uploads::Upload::check);
        stop(&mut server, 1);
    });
}

#[test]
fn under_all_faults_no_request_gets_a_wrong_answer() {
    let name = "under_all_faults_no_request_gets_a_wrong_answer";
    let (mut answered, mut all) = (0, 0);
    let seeds = check(name, 0..200, |sim| {
        sim.set_faults(Faults::all());
        let options = Options {
            // With this little room, some bodies have to wait.
            bodies: 5_000,
            ..options(8)
        };
        let browsers = run(sim, options);
        browsers.iter().for_each(Browser::check);
        answered += browsers
            .iter()
            .filter(|browser| browser.is_answered())
            .count();
        all += browsers.len();
    });
    // If few requests are answered, the test shows nothing.
    assert!(
        seeds < 100 || answered * 4 > all,
        "only {answered} of {all} were answered"
    );
}
