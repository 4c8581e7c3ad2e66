//! Answers each request with a greeting, by hyper in worker processes:
//!
//!     cargo run --release --example hyper_hello --features hyper,serve -- 127.0.0.1:8080 4
//!     curl http://127.0.0.1:8080/
//!
//! With `--h2`, the server speaks HTTP/2 (`curl --http2-prior-knowledge`). The workers divide new
//! clients among themselves by load. `kill -HUP` replaces the workers without losing a request of a
//! busy client. When a worker stops, its next answer on a connection of HTTP/1.1 announces the end
//! of the connection. After one second, the worker ends all connections gracefully: an idle one at
//! once, and a busy one after its answer. `kill -QUIT` stops the server in the same way, and Ctrl-C
//! stops it at once.
use std::{convert::Infallible, env, error::Error};

use evcore_async::{
    Executor, TcpStream,
    hyper::{LocalExecutor, LoopTimer},
};
use evcore_serve::Server;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};

use graceful::{announce_stop, run_until_stopped};

#[path = "graceful/mod.rs"]
mod graceful;

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::from("Hello, world!"));
    announce_stop(request.version(), &mut response);
    Ok(response)
}

async fn serve(stream: TcpStream, is_http2: bool) {
    let service = service_fn(hello);
    let result = if is_http2 {
        let builder = http2::Builder::new(LocalExecutor);
        run_until_stopped!(builder.serve_connection(stream, service))
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(LoopTimer); // the head of a request must arrive within 30 seconds
        run_until_stopped!(builder.serve_connection(stream, service))
    };
    if let Err(error) = result {
        eprintln!("{error}"); // the error concerns only this client
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (options, values): (Vec<_>, Vec<_>) = env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let is_http2 = options.iter().any(|option| option == "--h2");
    let [address, rest @ ..] = &values[..] else {
        return Err("usage: hyper_hello [--h2] ADDRESS [WORKERS]".into());
    };
    let workers = rest.first().map_or(Ok(1), |workers| workers.parse())?;
    let server = Server::new(workers).bind(address.as_str())?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.on_event(|event| eprintln!("{event}"));
    let server = server.event_loop(|builder| builder.connections(10_000));
    server.run(move |mut worker| {
        let executor = Executor::new(&mut worker.ev);
        executor.serve(&mut worker, |stream, _peer| serve(stream, is_http2))
    })?;
    Ok(())
}
