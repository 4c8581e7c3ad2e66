//! The example server in simulated worlds: the very code that runs on sockets, but for the files
//! that meet the system (`main`, `master`, `worker`, `listeners`).
//!
//! What must hold: every request is answered, in its order and with its body, or its connection is
//! closed; and where nothing goes wrong, all are answered.

mod answers;
mod browser;
mod busy;
mod uploads;

use std::time::Duration;

use evcore::{
    EventLoop, Step,
    balancer::{Policy, WorkerId},
};
use evcore_sim::{App, Faults, Process, SimGroup, SimListener, SimStream, Workers, World, check};

use browser::Browser;
use busy::Account;
use evcore_httpd::counts::Counts;
use evcore_httpd::options::Options;
use evcore_httpd::scoreboard::{Scoreboard, WorkerStats};
use evcore_httpd::server::Server;

/// Where it listens.
const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

/// By then everybody has gone: the server's own timeouts see to that.
const LONG: Duration = Duration::from_secs(900);

/// The server, with the simulator in the place of its `main`.
struct Simulated(Server<SimListener>);

impl App for Simulated {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.0.ev
    }

    fn take(&mut self, step: Step<SimStream>) {
        self.0.handle(step);
    }

    fn turn_over(&mut self) {
        self.0.publish();
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// A server of so many workers, with these options.
fn serve(
    world: &World,
    workers: usize,
    options: Options,
    scoreboard: &Scoreboard,
) -> Workers<Simulated> {
    let (group, its_scoreboard) = (world.group(workers), scoreboard.clone());
    let begin = move |process: &Process, index| {
        let id = WorkerId::from_slot(index);
        let ev = event_loop(process, id, &group, options.connections);
        let counts = Counts::new(its_scoreboard.clone(), id);
        Simulated(Server::new(ev, index, counts, options.clone()))
    };
    let mut server = Workers::new(world, workers, begin);
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
    let builder = builder.connections(connections).policy(Policy::mutex());
    let lock = group.lock_handle(process, id);
    builder.group(lock).build().expect("a loop")
}

/// Places for so many connections in each worker.
fn places(connections: u32) -> Options {
    Options {
        connections,
        ..Options::default()
    }
}

/// Browsers come and go, and then the server does.
fn live(world: &World, options: Options) -> Vec<Browser> {
    let mut rng = world.rng();
    let workers = 1 + rng.index(3);
    let scoreboard = WorkerStats::scoreboard(workers).expect("a page");
    let mut server = serve(world, workers, options, &scoreboard);
    let mut browsers = Vec::new();
    for _ in 0..5 + rng.below(20) {
        browsers.push(Browser::comes(world, &mut rng));
        server.run_for(rng.time(&(Duration::ZERO..=Duration::from_secs(2))));
    }
    while !browsers.iter().all(Browser::is_gone) {
        assert!(
            world.now() < LONG,
            "somebody was neither answered nor sent away"
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

/// As QUIT does, to every worker, and to who comes in the place of one that dies meanwhile.
fn stop(server: &mut Workers<Simulated>, workers: usize) {
    for _ in 0..100 {
        for index in 0..workers {
            let worker = server.app_mut(index).into_iter();
            worker.for_each(|worker| worker.0.stop());
        }
        if server.run_until(Duration::from_secs(10), Workers::are_done) {
            return;
        }
    }
    panic!("it does not come to its end");
}

#[test]
fn where_nothing_goes_wrong_every_request_is_answered() {
    let name = "where_nothing_goes_wrong_every_request_is_answered";
    check(name, 0..100, |world| {
        for browser in live(world, places(1000)) {
            assert!(browser.is_content(), "{browser:?}");
        }
    });
}

/// As a reload does it: some workers stop, and others serve on.
#[test]
fn a_busy_client_loses_no_request_when_its_worker_stops() {
    const REQUESTS: u32 = 20;
    let name = "a_busy_client_loses_no_request_when_its_worker_stops";
    let mut moved = 0;
    check(name, 0..100, |world| {
        let mut rng = world.rng();
        let scoreboard = WorkerStats::scoreboard(3).expect("a page");
        let mut server = serve(world, 3, places(1000), &scoreboard);
        let clients = 3 + rng.below(10);
        let clients: Vec<_> = (0..clients)
            .map(|_| Account::of_a_client(world, REQUESTS))
            .collect();
        for index in [0, 1] {
            server.run_for(rng.time(&(Duration::ZERO..=Duration::from_secs(4))));
            let worker = server.app_mut(index).expect("nothing goes wrong");
            worker.0.stop();
        }
        server.run_for(Duration::from_secs(60));
        for client in &clients {
            assert_eq!((client.answered(), client.lost()), (REQUESTS, 0));
            moved += u32::from(client.connections() > 1);
        }
        let stopped = |index: usize| server.app(index).is_some_and(App::is_done);
        assert!(stopped(0) && stopped(1));
        stop(&mut server, 3);
    });
    // Else it would have shown nothing.
    assert!(moved > 100, "only {moved} clients went to another worker");
}

#[test]
fn bodies_that_wait_for_room_are_all_answered() {
    let name = "bodies_that_wait_for_room_are_all_answered";
    check(name, 0..50, |world| {
        let mut rng = world.rng();
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let options = Options {
            bodies: uploads::ROOM_FOR_ONE,
            header_timeout: LONG,
            ..places(1000)
        };
        let mut server = serve(world, 1, options, &scoreboard);
        let clients = 2 + rng.below(20);
        let clients: Vec<_> = (0..clients)
            .map(|_| uploads::Upload::begins(world, &mut rng))
            .collect();
        let all_are_done = |_: &_| clients.iter().all(uploads::Upload::is_done);
        assert!(server.run_until(LONG, all_are_done));
        let one_by_one: Duration = clients.iter().map(uploads::Upload::takes_at_least).sum();
        assert!(
            world.now() >= one_by_one,
            "there was room for more than one"
        );
        clients.iter().for_each(uploads::Upload::check);
        stop(&mut server, 1);
    });
}

#[test]
fn whatever_goes_wrong_no_request_gets_a_wrong_answer_and_none_is_forgotten() {
    let name = "whatever_goes_wrong_no_request_gets_a_wrong_answer_and_none_is_forgotten";
    let (mut content, mut all) = (0, 0);
    check(name, 0..200, |world| {
        world.set_faults(Faults::all());
        let options = Options {
            // Room for two bodies or three.
            bodies: 5_000,
            ..places(8)
        };
        let browsers = live(world, options);
        browsers.iter().for_each(Browser::check);
        content += browsers.iter().filter(|it| it.is_content()).count();
        all += browsers.len();
    });
    // Else it would have shown nothing.
    assert!(content * 4 > all, "only {content} of {all} were answered");
}
