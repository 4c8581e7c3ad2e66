//! Answers each request with a greeting, by hyper in worker processes:
//!
//!     cargo run --release --example hyper_hello --features hyper -- 127.0.0.1:8080 4
//!     curl http://127.0.0.1:8080/
//!
//! With `--h2` it speaks HTTP/2 (`curl --http2-prior-knowledge`). The workers accept by turns, the least
//! loaded first. `kill -HUP` replaces them without losing a request of a busy client: a worker that stops
//! answers the next request of each connection as the last one. Connections that are silent for a second
//! are closed then. `kill -QUIT` stops the server like this, and Ctrl-C at once.
use std::{convert::Infallible, env, error::Error, pin::pin, time::Duration};

use evcore::Step;
use evcore_async::{
    Executor, TcpStream,
    hyper::{LocalExecutor, LoopTimer},
    is_shutting_down, shutting_down, sleep, spawn_local,
};
use evcore_serve::{Server, Worker};
use futures_lite::future;
use http_body_util::Full;
use hyper::{
    Request, Response, Version,
    body::{Bytes, Incoming},
    header::{CONNECTION, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};

/// The time for which a stop waits for the next request of an idle connection.
const GRACE: Duration = Duration::from_secs(1);

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::from("Hello, world!"));
    if is_shutting_down() && request.version() == Version::HTTP_11 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

/// Waits until a stop has begun, and its grace is over.
async fn stops() {
    shutting_down().await;
    sleep(GRACE).await;
}

/// Runs a connection to its end, and makes it end if the worker stops.
macro_rules! run_until_stopped {
    ($connection:expr) => {{
        let mut connection = pin!($connection);
        let ended = async { Some(connection.as_mut().await) };
        let ended = future::or(ended, async {
            stops().await;
            None
        })
        .await;
        match ended {
            Some(result) => result,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    }};
}

async fn serve(stream: TcpStream, is_http2: bool) {
    let service = service_fn(hello);
    let result = if is_http2 {
        let builder = http2::Builder::new(LocalExecutor);
        run_until_stopped!(builder.serve_connection(stream, service))
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(LoopTimer); // a head has 30 seconds
        run_until_stopped!(builder.serve_connection(stream, service))
    };
    if let Err(error) = result {
        eprintln!("{error}"); // of this client alone
    }
}

/// Serves as a worker until it has to stop.
fn work(mut worker: Worker, is_http2: bool) -> evcore::Result<()> {
    let executor = Executor::new(&mut worker.ev);
    while worker.next_turn()? {
        while let Some(step) = worker.next_step() {
            if let Some(Step::Accepted(new)) = executor.on_step(&mut worker.ev, step) {
                executor.enter(&mut worker.ev, || match TcpStream::new(new.stream) {
                    Ok(stream) => drop(spawn_local(serve(stream, is_http2))),
                    Err(error) => eprintln!("{error}"), // closed
                });
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (options, values): (Vec<_>, Vec<_>) = env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let is_http2 = options.iter().any(|option| option == "--h2");
    let [address, rest @ ..] = &values[..] else {
        return Err("listen where?".into());
    };
    let workers = rest.first().map_or(Ok(1), |workers| workers.parse())?;
    let server = Server::new(workers).bind(address.as_str())?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.on_event(|event| eprintln!("{event}"));
    let server = server.event_loop(|builder| builder.connections(10_000));
    server.run(move |worker| work(worker, is_http2))?;
    Ok(())
}
