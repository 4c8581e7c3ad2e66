//! hyper's client against hyper's server, on `evcore-async` in the simulator.
//!
//! Each node is a process of the simulation with an executor. Without lossy faults, no session of a
//! client may fail. Under all faults, a client tries again until it has all its answers, and each
//! answer must be right.

mod group;
mod planted;

use std::{cell::Cell, error::Error, future::Future, rc::Rc, time::Duration};

use evcore::{Acceptor, EventLoop, Step, Transport, poller::Source};
use evcore_async::{
    Executor, JoinHandle, Listener, Runtime, Stream,
    hyper::{LocalExecutor, LoopTimer},
    now, sleep, spawn_local, timeout,
};
use evcore_sim::{App, Faults, Process, Rng, Sim, SimListener, SimStream, Workers, check};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};

use planted::{Bug, Middleware};

const SERVER: &str = "10.0.0.1:80";
const CLIENTS: usize = 3;
const REQUESTS: u32 = 6;
const BODY_MAX: u64 = 96 * 1024;
/// Maximum number of milliseconds between an answer and the next request.
const THINKING_MAX: u64 = 3_000;
/// The time after which a client gives up a session. Only a fault or a bug makes a session that
/// long.
const SESSION_MAX: Duration = Duration::from_secs(1_200);
const TIME_LIMIT: Duration = Duration::from_secs(36_000);

#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

struct Node {
    // The executor is dropped first, so that its tasks end before the loop.
    executor: Executor,
    ev: EventLoop<SimListener>,
}

impl Node {
    fn new(process: &Process, main: impl Future<Output = ()> + 'static) -> Self {
        let mut ev = process.builder().build().unwrap();
        let executor = Executor::new(&mut ev);
        executor.set_resumes_panics(true);
        drop(executor.spawn(&mut ev, main).unwrap());
        Self { executor, ev }
    }
}

impl App for Node {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        let foreign = self.executor.on_step(&mut self.ev, step);
        assert!(foreign.is_none(), "{foreign:?}");
    }
}

async fn serve<L>(listener: L, version: Version, bug: Option<Bug>)
where
    L: Acceptor<Stream: Transport + Source + Unpin> + Source + 'static,
{
    let listener = Listener::new(listener).unwrap();
    loop {
        let (stream, _peer) = listener.accept().await.unwrap();
        drop(spawn_local(serve_client(stream, version, bug)));
    }
}

async fn serve_client<S>(stream: Stream<S>, version: Version, bug: Option<Bug>)
where
    S: Transport + Source + Unpin + 'static,
{
    let stream = Middleware::new(stream, bug);
    let service = service_fn(move |request| answer(request, bug));
    // The client may have left, or the network may have failed.
    let _ = match version {
        Version::One => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            // hyper would read the date from the system, which is not simulated.
            builder.timer(LoopTimer).auto_date_header(false);
            builder.serve_connection(stream, service).await
        }
        Version::Two => {
            let mut builder = hyper::server::conn::http2::Builder::new(LocalExecutor);
            builder.timer(LoopTimer).auto_date_header(false);
            builder.serve_connection(stream, service).await
        }
    };
}

async fn answer(
    request: Request<Incoming>,
    bug: Option<Bug>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = planted::collect(request.into_body(), bug).await?;
    Ok(Response::new(Full::new(body)))
}

/// The counts of a client, which survive a kill of the client's process.
#[derive(Default)]
struct Progress {
    answers: Cell<u32>,
    failed_sessions: Cell<u32>,
    wrong_answers: Cell<u32>,
}

/// A task that ends with its session.
struct Connection(JoinHandle<Result<(), hyper::Error>>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run_client(process: Process, version: Version, mut rng: Rng, progress: Rc<Progress>) {
    while progress.answers.get() < REQUESTS {
        let connected = Stream::connect_with(&process, &SERVER.parse().unwrap()).await;
        let Ok(stream) = connected else {
            // This is not a failure, because the server may not listen yet.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let session = run_session(stream, version, (&mut rng, THINKING_MAX), &progress);
        let ended = timeout(SESSION_MAX, session).await;
        if !matches!(ended, Ok(Ok(()))) {
            process.sim().note(&format!("a session failed: {ended:?}"));
            progress
                .failed_sessions
                .set(progress.failed_sessions.get() + 1);
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Sends random requests until all are answered, with pauses below `thinking_max` milliseconds.
async fn run_session<S>(
    stream: Stream<S>,
    version: Version,
    (rng, thinking_max): (&mut Rng, u64),
    progress: &Progress,
) -> Result<(), Box<dyn Error>>
where
    S: Transport + Source + Unpin + 'static,
{
    match version {
        Version::One => {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
            let _connection = Connection(spawn_local(connection));
            while progress.answers.get() < REQUESTS {
                sender.ready().await?;
                ask(
                    async |request| sender.send_request(request).await,
                    rng,
                    progress,
                )
                .await?;
                sleep(Duration::from_millis(rng.below(thinking_max))).await;
            }
        }
        Version::Two => {
            let builder = hyper::client::conn::http2::Builder::new(LocalExecutor);
            let (mut sender, connection) = builder.handshake(stream).await?;
            let _connection = Connection(spawn_local(connection));
            while progress.answers.get() < REQUESTS {
                sender.ready().await?;
                ask(
                    async |request| sender.send_request(request).await,
                    rng,
                    progress,
                )
                .await?;
                sleep(Duration::from_millis(rng.below(thinking_max))).await;
            }
        }
    }
    Ok(())
}

/// Sends a request, and checks its answer.
async fn ask(
    mut send: impl AsyncFnMut(Request<Full<Bytes>>) -> Result<Response<Incoming>, hyper::Error>,
    rng: &mut Rng,
    progress: &Progress,
) -> Result<(), hyper::Error> {
    let length = rng.below(BODY_MAX) >> rng.below(16);
    let words = (0..length.div_ceil(8)).flat_map(|_| rng.next_u64().to_ne_bytes());
    let body: Bytes = words.collect();
    let request = Request::post("/")
        .header("host", "simulated")
        .body(Full::new(body.clone()));
    let response = send(request.unwrap()).await?;
    let received = response.into_body().collect().await?.to_bytes();
    let wrong = u32::from(received != body);
    progress
        .wrong_answers
        .set(progress.wrong_answers.get() + wrong);
    progress.answers.set(progress.answers.get() + 1);
    Ok(())
}

/// Runs a server and its clients until each client has all its answers. Returns the sums of their
/// counts.
fn run(sim: &Sim, version: Version, bug: Option<Bug>) -> Progress {
    let clients: Vec<Rc<Progress>> = (0..CLIENTS).map(|_| Rc::default()).collect();
    let (mut rng, progress) = (sim.rng(), clients.clone());
    let mut workers = Workers::new(sim, 1 + CLIENTS, move |process, index| match index {
        0 => {
            let listener = process.listen(SERVER.parse().unwrap());
            Node::new(process, serve(listener, version, bug))
        }
        _ => {
            let progress = Rc::clone(&progress[index - 1]);
            Node::new(
                process,
                run_client(process.clone(), version, rng.fork(), progress),
            )
        }
    });
    let all_done = |_: &Workers<Node>| {
        clients
            .iter()
            .all(|client| client.answers.get() >= REQUESTS)
    };
    let is_done = workers.run_until(TIME_LIMIT, all_done);
    assert!(is_done, "a client still waits after ten hours");

    let sum = Progress::default();
    for client in &clients {
        sum.answers.set(sum.answers.get() + client.answers.get());
        sum.failed_sessions
            .set(sum.failed_sessions.get() + client.failed_sessions.get());
        sum.wrong_answers
            .set(sum.wrong_answers.get() + client.wrong_answers.get());
    }
    if bug.is_none() {
        check_end(sim, &mut workers);
    }
    sum
}

/// Checks that nothing is left when all sessions have ended, except the server's listener and the
/// task that accepts.
fn check_end(sim: &Sim, workers: &mut Workers<Node>) {
    sim.set_faults(Faults::default());
    workers.run_for(2 * SESSION_MAX);
    for (index, node) in workers.apps() {
        let (tasks, stats) = (node.executor.tasks(), node.ev.stats());
        let left = (tasks, stats.active, stats.timers_armed);
        let expected = if index == 0 { (1, 1, 0) } else { (0, 0, 0) };
        assert_eq!(left, expected, "node {index}");
    }
}

fn no_session_fails(name: &str, version: Version) {
    check(name, 0..100, |sim| {
        sim.set_faults(Faults::lossless());
        let sum = run(sim, version, None);
        assert_eq!((sum.failed_sessions.get(), sum.wrong_answers.get()), (0, 0));
    });
}

fn every_client_is_served(name: &str, version: Version, seeds: u64) {
    check(name, 0..seeds, |sim| {
        sim.set_faults(Faults::all());
        let sum = run(sim, version, None);
        assert_eq!(sum.wrong_answers.get(), 0);
    });
}

#[test]
fn no_session_of_http1_fails_without_loss() {
    no_session_fails("no_session_of_http1_fails_without_loss", Version::One);
}

#[test]
fn no_session_of_http2_fails_without_loss() {
    no_session_fails("no_session_of_http2_fails_without_loss", Version::Two);
}

#[test]
fn every_client_of_http1_is_served_under_all_faults() {
    let name = "every_client_of_http1_is_served_under_all_faults";
    every_client_is_served(name, Version::One, 1_000);
}

#[test]
fn every_client_of_http2_is_served_under_all_faults() {
    let name = "every_client_of_http2_is_served_under_all_faults";
    every_client_is_served(name, Version::Two, 1_000);
}

#[test]
fn a_seed_repeats_its_trace() {
    for seed in 0..10 {
        let traces = [1, 2].map(|_| {
            let sim = Sim::new(seed);
            sim.set_faults(Faults::all());
            run(&sim, Version::One, None);
            sim.trace_hash()
        });
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

/// Returns the first seed whose clients see the bug.
fn seeds_until_found(bug: Bug) -> u64 {
    let is_seen = |seed: &u64| {
        let sim = Sim::new(*seed);
        sim.set_faults(Faults::lossless());
        let sum = run(&sim, Version::One, Some(bug));
        sum.failed_sessions.get() > 0 || sum.wrong_answers.get() > 0
    };
    (0..100).find(is_seen).expect("a seed below 100 finds it")
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::LostWake, Bug::TimerNotReset, Bug::BodyForgotten] {
        println!("{bug:?}: found by seed {}", seeds_until_found(bug));
    }
}

#[test]
fn the_same_server_and_client_run_on_sockets() {
    for version in [Version::One, Version::Two] {
        let served = Runtime::new().unwrap().block_on(async {
            let listener = evcore::Listener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().clone();
            let server = spawn_local(serve(listener, version, None));
            let stream = Stream::connect(address).await.unwrap();
            let (mut rng, progress) = (Sim::new(7).rng(), Progress::default());
            let session = run_session(stream, version, (&mut rng, 1), &progress);
            session.await.unwrap();
            server.abort();
            progress
        });
        let progress = served.unwrap();
        let seen = (progress.answers.get(), progress.wrong_answers.get());
        assert_eq!(seen, (REQUESTS, 0));
    }
}

#[test]
fn time_in_a_simulation_is_simulated() {
    let sim = Sim::new(7);
    let process = sim.process();
    let mut runtime = Runtime::from(process.builder().build().unwrap());
    let slept = runtime.block_on(async {
        let before = now();
        sleep(Duration::from_secs(86_400)).await;
        now() - before
    });
    assert!(slept.unwrap() >= Duration::from_secs(86_400));
    assert!(sim.now() >= Duration::from_secs(86_400));
}
