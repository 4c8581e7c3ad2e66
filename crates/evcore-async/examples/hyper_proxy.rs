//! A reverse proxy by hyper, which keeps connections to its server for later requests:
//!
//!     cargo run --release --example hyper_proxy --features hyper,serve -- \
//!         127.0.0.1:8081 127.0.0.1:8080 4
//!
//! The last argument is the number of worker processes, 1 if it is left out. A request gets 504 if
//! connecting to the server takes longer than 5 seconds or its answer longer than 60, and 502 if
//! the server fails in another way. Each worker keeps at most 64 idle connections to the server,
//! until the server closes them or the worker stops. `kill -HUP` replaces the workers as in
//! `hyper_hello`.
use std::{
    cell::{Cell, RefCell},
    env,
    error::Error,
    rc::Rc,
    time::Duration,
};

use evcore::Address;
use evcore_async::{
    Executor, TcpStream, hyper::LoopTimer, is_shutting_down, shutting_down, spawn_local, timeout,
};
use evcore_serve::Server;
use http_body_util::{Either, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::{SendRequest, handshake},
    header::{CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
    server::conn::http1,
    service::service_fn,
};

use graceful::{announce_stop, run_until_stopped};

#[path = "graceful/mod.rs"]
mod graceful;

const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(60);
const IDLE_MAX: usize = 64;

type Body = Either<Incoming, Empty<Bytes>>;

/// The server, and the connections to it that no request uses.
struct Upstream {
    address: Address,
    idle: RefCell<Vec<SendRequest<Incoming>>>,
    /// True if a task waits for the worker's stop, to close the idle connections.
    awaits_stop: Cell<bool>,
}

impl Upstream {
    /// Returns a connection that was used before, or a new one.
    async fn sender(&self) -> Result<SendRequest<Incoming>, Box<dyn Error>> {
        loop {
            let idle = self.idle.borrow_mut().pop();
            match idle {
                Some(sender) if sender.is_ready() => return Ok(sender),
                Some(_) => {} // the server has closed it
                None => break,
            }
        }
        let stream = timeout(CONNECT_MAX, TcpStream::connect(&self.address)).await??;
        let (sender, connection) = handshake(stream).await?;
        drop(spawn_local(connection));
        Ok(sender)
    }

    /// Keeps a connection as soon as it can take another request, unless the worker stops.
    fn keep(self: &Rc<Self>, mut sender: SendRequest<Incoming>) {
        let upstream = Rc::clone(self);
        drop(spawn_local(async move {
            let is_usable = sender.ready().await.is_ok() && !is_shutting_down();
            if is_usable && upstream.idle.borrow().len() < IDLE_MAX {
                upstream.idle.borrow_mut().push(sender);
            }
        }));
        if !self.awaits_stop.replace(true) {
            let upstream = Rc::clone(self);
            drop(spawn_local(async move {
                shutting_down().await;
                upstream.idle.borrow_mut().clear();
            }));
        }
    }

    async fn forward(
        self: &Rc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Box<dyn Error>> {
        // These headers concern one connection only.
        for header in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
            request.headers_mut().remove(header);
        }
        let mut sender = self.sender().await?;
        let response = timeout(ANSWER_MAX, sender.send_request(request)).await??;
        self.keep(sender);
        Ok(response)
    }
}

async fn answer(
    upstream: Rc<Upstream>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let version = request.version();
    let error = match upstream.forward(request).await {
        Ok(mut response) => {
            response.headers_mut().remove(CONNECTION);
            announce_stop(version, &mut response);
            return Ok(response.map(Either::Left));
        }
        Err(error) => error,
    };
    eprintln!("{}: {error}", upstream.address);
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = match error.downcast_ref() {
        Some(evcore_async::TimedOut) => StatusCode::GATEWAY_TIMEOUT,
        None => StatusCode::BAD_GATEWAY,
    };
    Ok(response)
}

async fn serve(stream: TcpStream, upstream: Rc<Upstream>) {
    let service = service_fn(move |request| answer(Rc::clone(&upstream), request));
    let mut builder = http1::Builder::new();
    builder.timer(LoopTimer); // the head of a request must arrive within 30 seconds
    let connection = builder.serve_connection(stream, service);
    if let Err(error) = run_until_stopped!(connection) {
        eprintln!("{error}"); // the error concerns only this client
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [listen, upstream, rest @ ..] = &arguments[..] else {
        return Err("usage: hyper_proxy ADDRESS UPSTREAM [WORKERS]".into());
    };
    let address: Address = upstream.parse()?;
    let workers = rest.first().map_or(Ok(1), |workers| workers.parse())?;
    let server = Server::new(workers).bind(listen.as_str())?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.on_event(|event| eprintln!("{event}"));
    // Each client needs two connections: its own, and one to the server.
    let server = server.event_loop(|builder| builder.connections(20_000));
    server.run(move |mut worker| {
        let upstream = Rc::new(Upstream {
            address: address.clone(),
            idle: RefCell::default(),
            awaits_stop: Cell::new(false),
        });
        let executor = Executor::new(&mut worker.ev);
        executor.serve(&mut worker, |stream, _peer| {
            serve(stream, Rc::clone(&upstream))
        })
    })?;
    Ok(())
}
