//! A router of axum over hyper, in worker processes:
//!
//!     cargo run --release --example axum_router --features hyper,serve -- 127.0.0.1:8080 4
//!     curl http://127.0.0.1:8080/greet/alice
//!
//! axum is used without its features for tokio. Its router is a service of tower, which hyper
//! calls. `axum::serve`, and layers with time limits (tower's `timeout`, tower-http's), need
//! tokio's runtime. A handler has to be `Send`, so it cannot hold a stream or a sleep of this crate
//! across an await.
use std::{env, error::Error};

use axum::{
    Router,
    body::Bytes,
    extract::Path,
    routing::{get, post},
};
use evcore_async::{Executor, TcpStream, hyper::LoopTimer};
use evcore_serve::Server;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use tower_service::Service;

use graceful::{announce_stop, run_until_stopped};

#[path = "graceful/mod.rs"]
mod graceful;

fn router() -> Router {
    let greet = async |Path(name): Path<String>| format!("Hello, {name}!");
    Router::new()
        .route("/", get(async || "Hello, world!"))
        .route("/greet/{name}", get(greet))
        .route("/echo", post(async |body: Bytes| body))
}

async fn serve(stream: TcpStream, router: Router) {
    let service = service_fn(|request: Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let version = request.version();
            let mut response = router.call(request).await?;
            announce_stop(version, &mut response);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(LoopTimer); // the head of a request must arrive within 30 seconds
    let connection = builder.serve_connection(stream, service);
    if let Err(error) = run_until_stopped!(connection) {
        eprintln!("{error}"); // the error concerns only this client
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [address, rest @ ..] = &arguments[..] else {
        return Err("usage: axum_router ADDRESS [WORKERS]".into());
    };
    let workers = rest.first().map_or(Ok(1), |workers| workers.parse())?;
    let server = Server::new(workers).bind(address.as_str())?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.on_event(|event| eprintln!("{event}"));
    let server = server.event_loop(|builder| builder.connections(10_000));
    server.run(|mut worker| {
        let router = router();
        let executor = Executor::new(&mut worker.ev);
        executor.serve(&mut worker, |stream, _peer| serve(stream, router.clone()))
    })?;
    Ok(())
}
