//! Futures: instructions of a task's yield, of a spawn with its join, and of a request to hyper.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use evcore_async::hyper::LoopTimer;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;

use crate::report::Report;
use crate::run::Run;
use crate::tools::Tool;

const PEERS: [&str; 2] = [EVCORE, TOKIO];
const EVCORE: &str = "evcore-async";
/// tokio's current-thread runtime. The yield and the spawn use a `LocalSet`, which runs tasks that
/// are not `Send`, as `evcore-async` does.
const TOKIO: &str = "tokio";

const OPERATIONS: [&str; 3] = ["yield", "spawn", "hello"];

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
const GREETING: &str = "Hello, world!";

pub(crate) fn count_instructions(run: &Run, report: &mut Report) {
    const TABLE: &str = "futures";
    if Tool::Callgrind.is_missing(report) {
        return;
    }
    for (peer, operation) in PEERS
        .into_iter()
        .flat_map(|peer| OPERATIONS.map(|operation| (peer, operation)))
    {
        if report.wants(TABLE, peer, operation) {
            eprintln!("futures: {operation} of {peer}");
            let counts = Tool::Callgrind.each(run, &format!("futures @ {operation} #"), peer);
            report.add(TABLE, peer, operation, counts["Ir"]);
        }
    }
}

/// Repeats an operation, for a tool to count. Returns false if the words name no operation.
pub(crate) fn count(words: &[&str]) -> bool {
    let [peer, operation, times] = words else {
        return false;
    };
    let Ok(times) = times.parse() else {
        return false;
    };
    match (*peer, *operation) {
        (EVCORE, "yield") => on_evcore(async move {
            let task = async move {
                for _ in 0..times {
                    evcore_async::yield_now().await;
                }
            };
            evcore_async::spawn_local(task)
                .await
                .expect("it does not panic");
        }),
        (TOKIO, "yield") => on_tokio(in_a_local_set(async move {
            let task = async move {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            };
            tokio::task::spawn_local(task)
                .await
                .expect("it does not panic");
        })),
        (EVCORE, "spawn") => on_evcore(async move {
            for number in 0..times {
                let task = evcore_async::spawn_local(async move { number });
                assert_eq!(task.await.expect("it does not panic"), number);
            }
        }),
        (TOKIO, "spawn") => on_tokio(in_a_local_set(async move {
            for number in 0..times {
                let task = tokio::task::spawn_local(async move { number });
                assert_eq!(task.await.expect("it does not panic"), number);
            }
        })),
        (EVCORE, "hello") => on_evcore(hello_on_evcore(times)),
        (TOKIO, "hello") => on_tokio(hello_on_tokio(times)),
        _ => return false,
    }
    true
}

fn on_evcore(future: impl Future<Output = ()>) {
    let mut runtime = evcore_async::Runtime::new().expect("a poller");
    runtime.block_on(future).expect("it ends");
}

async fn in_a_local_set(future: impl Future<Output = ()>) {
    LocalSet::new().run_until(future).await;
}

fn on_tokio(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a poller").block_on(future);
}

/// A server and its client on one thread. The client is the same on both runtimes, and makes one
/// system call to send and one to receive.
async fn hello_on_evcore(times: u32) {
    let streams = UnixStream::pair().expect("descriptors");
    let [near, far] = [streams.0, streams.1].map(|stream| {
        let stream = evcore::Stream::from(OwnedFd::from(stream));
        evcore_async::UnixStream::new(stream).expect("room")
    });
    let mut builder = http1::Builder::new();
    let server = builder
        .timer(LoopTimer)
        .serve_connection(far, service_fn(hello));
    let server = evcore_async::spawn_local(server);
    let mut buffer = [0; 1024];
    for _ in 0..times {
        near.write_all(REQUEST).await.expect("it reads");
        let received = near.read(&mut buffer).await.expect("it answers");
        assert!(buffer[..received].ends_with(GREETING.as_bytes()));
    }
    drop(near);
    let ended = server.await.expect("it does not panic");
    ended.expect("the client has left between two requests");
}

async fn hello_on_tokio(times: u32) {
    let (near, far) = UnixStream::pair().expect("descriptors");
    let watched = |stream: UnixStream| -> io::Result<tokio::net::UnixStream> {
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream)
    };
    let (mut near, far) = (watched(near).expect("room"), watched(far).expect("room"));
    let mut builder = http1::Builder::new();
    let server = builder
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(far), service_fn(hello));
    let server = tokio::spawn(server);
    let mut buffer = [0; 1024];
    for _ in 0..times {
        near.write_all(REQUEST).await.expect("it reads");
        let received = near.read(&mut buffer).await.expect("it answers");
        assert!(buffer[..received].ends_with(GREETING.as_bytes()));
    }
    drop(near);
    let ended = server.await.expect("it does not panic");
    ended.expect("the client has left between two requests");
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(GREETING)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_of_each_peer_runs() {
        for (peer, operation) in PEERS
            .into_iter()
            .flat_map(|peer| OPERATIONS.map(|operation| (peer, operation)))
        {
            assert!(count(&[peer, operation, "10"]), "{operation} of {peer}");
        }
        assert!(!count(&[EVCORE, "nothing", "10"]) && !count(&[TOKIO, "yield", "many"]));
    }
}
