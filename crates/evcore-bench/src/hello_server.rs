//! Servers in this program itself: hyper on `evcore-async` and on tokio, with the same service.

use std::convert::Infallible;
use std::future::Future;

use evcore_async::hyper::LoopTimer;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::Result;

const BACKLOG: u32 = 1024;

/// Limit of the loop, with room for the connections, tasks and timeouts of all clients.
const CONNECTIONS: u32 = 10_000;

/// Serves at an address for ever, on the runtime `evcore-async` or `tokio`.
///
/// # Errors
///
/// If the runtime is unknown or cannot be built, or if the listener fails.
pub(crate) fn serve(runtime: &str, address: &str) -> Result {
    match runtime {
        "evcore-async" => {
            let ev = evcore::EventLoop::builder().connections(CONNECTIONS);
            let mut runtime = evcore_async::Runtime::from(ev.build()?);
            runtime.block_on(on_evcore(address))?
        }
        "tokio" => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(on_tokio(address))
        }
        other => Err(format!("no runtime `{other}`").into()),
    }
}

async fn on_evcore(address: &str) -> Result {
    let listener = evcore_async::TcpListener::bind(address)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let mut builder = http1::Builder::new();
        let connection = builder.timer(LoopTimer);
        let connection = connection.serve_connection(stream, service_fn(hello));
        drop(evcore_async::spawn_local(ended(connection)));
    }
}

async fn on_tokio(address: &str) -> Result {
    // tokio's default backlog of 128 is too short for a thousand clients at once.
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address.parse()?)?;
    let listener = socket.listen(BACKLOG)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut builder = http1::Builder::new();
        let connection = builder.timer(TokioTimer::new());
        let connection = connection.serve_connection(TokioIo::new(stream), service_fn(hello));
        // As in tokio's documentation. A `LocalSet` would cost more.
        drop(tokio::spawn(ended(connection)));
    }
}

async fn ended(connection: impl Future<Output = hyper::Result<()>>) {
    let _ = connection.await;
}

async fn hello(_: Request<Incoming>) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, World!")))
}
